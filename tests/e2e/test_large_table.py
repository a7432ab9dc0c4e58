"""A cluster table of 10,000 members, from a real server through a real agent and its guard into warm interpreters, by
their pipe, because it exceeds the limit of execve(2) for an environment string."""

import hashlib
import json
import pathlib
import select

import pytest

from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from raw_client import RawClient, decode
from test_tables import read_table

NPROC, NODES = 64, 157  # 10,048 members
ARGUMENT_MAX = 131072  # MAX_ARG_STRLEN
ANSWERED_OURS = 1

SCRIPT = '''
import hashlib, json, os, pathlib, sys, time
config = json.loads(os.environ["TF_CONFIG"])
workers = config["cluster"]["worker"]
path = pathlib.Path(sys.argv[1]) / f"{os.environ['TFE_RANK']}.seen"
path.with_suffix(".new").write_text(json.dumps({
    "pid": os.getpid(), "index": config["task"]["index"], "rows": len(workers), "bytes": len(os.environ["TF_CONFIG"]),
    "digest": hashlib.sha256("\\n".join(workers).encode()).hexdigest()}))
path.with_suffix(".new").rename(path)
time.sleep(3600)
'''


def reach(clients):
    """Answers probes: some clients are asked to probe the agent's address and report it as reached."""
    by_socket, asked = {client.sock: client for client in clients}, 0
    while asked < 3:
        ready, _, _ = select.select(list(by_socket), [], [], 20)
        assert ready, "nobody was asked"
        for sock in ready:
            _, fields = by_socket[sock].receive_until("PROBE")
            by_socket[sock].send("PROBED", {1: fields[1][0], 2: ANSWERED_OURS})
            asked += 1


@pytest.mark.heavy
def test_ten_thousand_members_come_through_the_pipe_of_a_standby(server, fleet, status):
    s = server("--ttl", "300", "--gather", "0.3")
    script = fleet.folder / "script.py"
    script.write_text(SCRIPT)
    fleet.start(f"--nnodes={NODES}:{NODES}", f"--nproc-per-node={NPROC}", "--preload=json,hashlib",
                command=[str(script), str(fleet.folder)])
    warm = wait_until(lambda: (jobs := status()) and len(pids := jobs[0]["nodes"][0]["standby_pids"]) == NPROC and set(pids),
                      what="a warm interpreter for each trainer")
    token, clients = s.token("agent"), []
    try:
        for i in range(NODES - 1):
            clients.append(RawClient(s.port, token, timeout=25))
            assert clients[-1].join(f"n{i:03}", job="default", nodes=(NODES, NODES), nproc=NPROC)[0] == "WELCOME"
        for i, client in enumerate(clients):
            _, prepare = client.receive_until("PREPARE")
            client.ready(prepare[1][0], ports=range(20000 + i * NPROC, 20000 + (i + 1) * NPROC))
        reach(clients)
        rows, world, _ = read_table(clients[0])
        assert world == len(rows) == NODES * NPROC
        found = wait_until(lambda: len(found := list(fleet.folder.glob("*.seen"))) == NPROC and found, what="the trainers")
    finally:
        for client in clients:
            client.sock.close()
    seen = {int(path.stem): json.loads(path.read_text()) for path in found}
    workers = [f"{row[2][0].decode()}:{row[3][0]}" for row in map(decode, rows)]
    digest = hashlib.sha256("\n".join(workers).encode()).hexdigest()
    for rank, one in seen.items():
        assert (one["index"], one["rows"], one["digest"]) == (rank, NODES * NPROC, digest)
        assert one["bytes"] > ARGUMENT_MAX
    assert {one["pid"] for one in seen.values()} == warm, "they are not what the standbys were"
    for pid in warm:  # environment at execve(2)
        assert b"TF_CONFIG=" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
