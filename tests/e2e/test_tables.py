"""Cluster tables of many frames: complete, before their START, and at the pace of the reader."""

import os
import re
import socket

from raw_client import RawClient

NODES, NPROC = 24, 64  # 1,536 rows: three chunks at least
OPTIONS = ("--allow-address=names", "--ttl=60")  # no lease is renewed here


def form(server, names, host):
    """Joins raw nodes and makes them ready for the first epoch. Rows are long: host names of 200 bytes."""
    token = server.token("agent")
    clients = []
    for name in names:
        client = RawClient(server.port, token)
        assert client.join(name, nodes=(len(names), len(names)), nproc=NPROC)[0] == "WELCOME"
        clients.append(client)
    for i, client in enumerate(clients):
        _, prepare = client.receive_until("PREPARE")
        # Without "answering", a node that cannot answer probes counts as alive.
        client.ready(prepare[1][0], ports=range(10000 + i * NPROC, 10000 + (i + 1) * NPROC), host=host)
    return clients


def rss_kib(s):
    with open(f"/proc/{s.pid}/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1])


def read_table(client):
    """Returns the rows before START, and START's fields."""
    rows, world = [], None
    while True:
        name, fields = client.receive_until("TABLE", "START")
        if name == "START":
            return rows, world, fields
        world = fields[2][0]
        rows += fields.get(4, [])


def test_every_member_gets_all_rows_and_then_start(server):
    clients = form(server(*OPTIONS), [f"n{i:02}" for i in range(NODES)], "a" * 200)
    ranks = set()
    try:
        # Rank 0's node sends LISTENING first, so that the order of STARTs does not matter here.
        tables = [read_table(client) for client in clients]
    finally:
        for client in clients:
            client.sock.close()
    for rows, world, start in tables:
        assert world == NODES * NPROC == len(rows)
        assert rows == tables[0][0]
        ranks.add(start[3][0])
    assert ranks == {i * NPROC for i in range(NODES)}


def test_a_member_that_does_not_read_holds_up_nobody_and_holds_little(server, monkeypatch):
    # Freed memory leaves the quarantine early, with sanitizers, too.
    monkeypatch.setenv("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1")
    names = [f"n{i:02}" for i in range(NODES)]
    s = server(*OPTIONS)
    before = rss_kib(s)
    clients = form(s, names, "b" * 250)
    try:
        # The first client reads nothing of a table of about 400 KB (into a small buffer); all others are served.
        clients[0].sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        for client in clients[1:]:
            rows, world, _ = read_table(client)
            assert len(rows) == world
        assert rss_kib(s) - before < 8 * 1024
        rows, world, _ = read_table(clients[0])
        assert len(rows) == world == NODES * NPROC
    finally:
        for client in clients:
            client.sock.close()


def test_a_stop_takes_back_what_was_not_said(server):
    """A node leaves while a table is being sent to a client that does not read: the client gets the newer epoch's
    table."""
    names = [f"n{i:02}" for i in range(NODES)]
    clients = form(server(*OPTIONS), names, "c" * 250)
    try:
        clients[0].sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        for client in clients[1:]:
            read_table(client)
        clients[-1].send("GOODBYE", {1: 1})
        clients[1].receive_until("STOP")
        seen = []
        while not seen or seen[-1] != "STOP":
            seen.append(clients[0].receive_until("TABLE", "START", "STOP")[0])
        assert "START" not in seen  # it would have followed the last row
    finally:
        for client in clients:
            client.sock.close()
