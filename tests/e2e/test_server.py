"""tfe-rdzv as a program: files, output, exit, and unauthenticated clients."""

import contextlib
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest
from bystander import noise  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from raw_client import LIMIT_REACHED, NOT_AUTHORISED, Closed, RawClient, node_id
from programs import clean_environment, program

FILES = ["admin.token", "agent.token", "endpoint", "lock", "observer.token", "rdzv.db", "rdzv.db-wal", "server.key"]


def run_rdzv(*arguments, **env):
    return subprocess.run([program("tfe-rdzv"), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=DEADLINE, env=clean_environment(**env))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)


def ends(sock):
    """Returns the bytes that the server sends until it closes this connection."""
    data = b""
    try:
        while more := sock.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data


# --- start and end ---------------------------------------------------------------------------------


def test_first_start_makes_directory_keys_and_tokens(server, tmp_path):
    state_dir = tmp_path / "a" / "b" / "c"
    s = server(state_dir=state_dir)
    assert mode(state_dir) == 0o700
    assert sorted(p.name for p in state_dir.iterdir()) == FILES
    assert {mode(state_dir / name) for name in FILES} == {0o600}
    assert (state_dir / "endpoint").read_text().strip() == s.endpoint
    assert (state_dir / "lock").read_text().strip() == str(s.pid)
    for role in ("agent", "observer", "admin"):
        assert re.fullmatch(f"tfe1_{role}_[A-Za-z0-9_-]{{112}}", s.token(role))


def test_stdout_has_the_address_and_the_line_to_join_with(server, state_dir):
    s = server()
    assert s.lines[0] == f"listening on 127.0.0.1:{s.port}"
    assert s.lines[1] == (f"join with: tfe-agent --rdzv-endpoint=127.0.0.1:{s.port} "
                          f"--token-file={state_dir}/agent.token --nnodes=MIN:MAX SCRIPT")


def test_second_start_keeps_keys_and_tokens(server, state_dir):
    kept = ["server.key", "agent.token", "observer.token", "admin.token"]
    server().stop()
    before = {name: (state_dir / name).read_bytes() for name in kept}
    server()
    assert {name: (state_dir / name).read_bytes() for name in kept} == before


def test_secrets_are_neither_logged_nor_printed(server, state_dir):
    s = server("--log-level", "debug")
    with RawClient(s.port, s.token("agent")) as agent:
        assert agent.join("n1")[0] == "WELCOME"
    s.stop()
    said = s.log.read_text() + "\n".join(s.lines)
    secrets = [s.token(role) for role in ("agent", "observer", "admin")]
    secrets += re.findall("[0-9a-f]{64}", (state_dir / "server.key").read_text())
    assert len(secrets) == 5
    assert not [x for x in secrets if x in said or x[-40:] in said]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_two_seconds_with_0(server, state_dir, noise, number):
    s = server()
    with RawClient(s.port, s.token("agent")) as agent, connect(s.port) as stranger:
        assert agent.join("n1")[0] == "WELCOME"
        began = time.monotonic()
        assert s.stop(number) == 0
        assert time.monotonic() - began < noise.bound(2)
        assert agent.is_closed()
        assert ends(stranger) == b""
    assert not (state_dir / "endpoint").exists()


def test_peers_that_do_not_close_do_not_hold_it_up(server, noise):
    s = server()
    agents = [RawClient(s.port, s.token("agent")) for _ in range(20)]
    for i, agent in enumerate(agents):
        agent.join(f"n{i}", job=f"j{i}")
    began = time.monotonic()
    assert s.stop() == 0  # no client reads or closes meanwhile
    assert time.monotonic() - began < noise.bound(2)
    for agent in agents:
        agent.sock.close()


def test_an_endpoint_file_of_somebody_else_stays(server, state_dir):
    s = server()
    (state_dir / "endpoint").write_text("10.0.0.1:1\n")
    assert s.stop() == 0
    assert (state_dir / "endpoint").read_text() == "10.0.0.1:1\n"


def test_after_kill_9_it_starts_again(server, state_dir):
    s = server()
    s.kill()
    assert (state_dir / "endpoint").exists()
    assert server().endpoint == (state_dir / "endpoint").read_text().strip()


def test_port_in_use_is_one_sentence_that_names_it(server, tmp_path):
    s = server()
    done = run_rdzv("--port", s.port, "--bind", "127.0.0.1", "--state-dir", tmp_path / "other", "--log-level", "error")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [f"tfe-rdzv: port {s.port} on 127.0.0.1 is in use"]
    assert not (tmp_path / "other" / "endpoint").exists()


def test_second_server_on_one_directory_is_told_the_firsts_pid(server, state_dir, ctl):
    s = server()
    done = run_rdzv("--port", 0, "--state-dir", state_dir)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and f"pid {s.pid})" in done.stderr and str(state_dir) in done.stderr
    assert ctl("status").returncode == 0


@pytest.mark.parametrize("arguments, word", [
    (["--prot", "1"], "--port"), (["extra"], "extra"), (["--ttl", "1s"], "ttl"), (["--port", "65536"], "port"),
    (["--bind", "localhost"], "--bind"), (["--bind", "::1:5599"], "--port"), (["--bind", "10.0.0.1:80"], "--bind"),
    (["--log-format", "xml"], "xml"), (["--ttl", "10s", "--fence", "20s"], "fence")])
def test_usage_errors_exit_2_with_one_sentence(arguments, word, state_dir):
    done = run_rdzv("--state-dir", state_dir, *arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and word in done.stderr
    assert not state_dir.exists()


def test_options_come_from_the_environment_too(state_dir):
    done = run_rdzv("--state-dir", state_dir, TFE_TTL="1s")
    assert done.returncode == 2 and "TFE_TTL" in done.stderr


def test_damaged_key_file_is_named_and_nothing_overwritten(server, state_dir):
    server().stop()
    path = state_dir / "server.key"
    whole = path.read_bytes()
    for damaged in (b"", whole[:-40], b"\0" * 100, whole + b"x", whole.replace(b"secret ", b"secret 0"), bytes([whole[0] ^ 1]) + whole[1:],
                    whole[:60] + (b"0" if whole[60:61] != b"0" else b"1") + whole[61:], whole * 20):
        path.write_bytes(damaged)
        before = {p.name: p.read_bytes() for p in state_dir.iterdir() if p.name != "lock"}
        done = run_rdzv("--port", 0, "--state-dir", state_dir)
        assert done.returncode == 1
        assert str(path) in done.stderr and "damaged" in done.stderr
        assert {p.name: p.read_bytes() for p in state_dir.iterdir() if p.name != "lock"} == before


def test_key_file_of_another_version_is_left_alone(server, state_dir):
    server().stop()
    path = state_dir / "server.key"
    whole = path.read_bytes()
    for version in (b"1", b"3"):
        path.write_bytes(whole.replace(b"tfe-server-key 2", b"tfe-server-key " + version))
        done = run_rdzv("--port", 0, "--state-dir", state_dir)
        assert done.returncode == 1 and "another version" in done.stderr


def test_tokens_of_another_key_are_replaced_with_a_warning(server, state_dir, ctl):
    s = server()
    old = s.token("observer")
    s.stop()
    (state_dir / "server.key").unlink()
    (state_dir / "admin.token").write_text("no token\n")
    s = server()
    assert s.token("observer") != old
    assert s.token("admin").startswith("tfe1_admin_")
    assert len(s.events("token_file_replaced")) == 3
    assert ctl("status").returncode == 0


def test_core_dumps_are_off_and_files_are_raised(server):
    s = server(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200)))
    assert resource.prlimit(s.pid, resource.RLIMIT_CORE) == (0, 0)
    assert resource.prlimit(s.pid, resource.RLIMIT_NOFILE) == (200, 200)
    assert s.events("listening")[0]["agents_max"] == 200 - 32


# --- strangers -------------------------------------------------------------------------------------


def captured_flight(s):
    """Returns the first flight of a valid client, which the server has answered."""
    with RawClient(s.port, s.token("observer")) as good:
        return good.flight


def test_bad_first_bytes_close_only_their_connection(server, ctl):
    s = server()
    flight = captured_flight(s)
    for bad in (os.urandom(600), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", flight[:-1] + bytes([flight[-1] ^ 1]), flight,
                flight[:30] + b"\xff\xff" + flight[32:], flight[:50]):
        with connect(s.port) as stranger:
            stranger.sendall(bad)
            if len(bad) == 50:
                stranger.shutdown(socket.SHUT_WR)
            assert ctl("status").returncode == 0
            assert ends(stranger) == b""
    assert s.process.poll() is None


def test_waiting_connections_that_hang_up_are_forgotten(server, ctl):
    s = server("--max-half-open-per-address", "1", "--log-level", "debug")
    first, second, third = connect(s.port), connect(s.port), connect(s.port)
    second.close()
    third.sendall(b"not our protocol at all, in any version of it")
    first.close()
    assert ends(third) == b""
    third.close()
    assert ctl("status").returncode == 0


# --- sessions --------------------------------------------------------------------------------------


def test_roles_may_only_say_what_is_theirs(server):
    s = server()
    with RawClient(s.port, s.token("agent")) as agent:
        assert agent.join("n1")[0] == "WELCOME"
        agent.send("STATUS")
        name, fields = agent.receive_until("REFUSED", "STATUS_END")
        assert (name, fields[1]) == ("REFUSED", [NOT_AUTHORISED])
        agent.send("RENEW", {1: 5})  # and the session continues
        assert agent.receive_until("RENEWED")[1][1] == [5]
    for role in ("observer", "admin"):
        with RawClient(s.port, s.token(role)) as client:
            name, fields = client.join("n2")
            assert (name, fields[1]) == ("REFUSED", [NOT_AUTHORISED])
            client.send("STATUS")
            names = [client.receive()[0] for _ in range(3)]
            assert names == ["STATUS_JOB", "STATUS_NODE", "STATUS_END"]
    # one line per key and minute
    assert [line["role"] for line in s.events("refused")] == ["agent", "observer", "admin"]


def test_a_lone_node_is_taken_through_prepare_table_and_start(server, status):
    s = server("--gather", "0")
    with RawClient(s.port, s.token("agent")) as agent:
        name, welcome = agent.join("node-1", nproc=2)
        assert name == "WELCOME" and welcome[4] == [10000]
        epoch = agent.receive_until("PREPARE")[1][1][0]
        agent.ready(epoch, ports=(4001, 4002))
        table = agent.receive_until("TABLE")[1]
        start = agent.receive_until("START")[1]
        assert table[2] == [2] and len(table[4]) == 2
        assert (start[1], start[3] if 3 in start else [0], start[4], start[5]) == ([epoch], [0], [2], [1])
        agent.send("LISTENING", {1: epoch})
        agent.send("PROCESSES", {1: 100, 2: b"\x65\x66", 3: b""})
        job = wait_until(lambda: [j for j in status() if j["nodes"][0]["trainer_pids"]], what="the pids")[0]
    assert {k: job[k] for k in ("job", "run", "state", "epoch", "min", "max")} == {
        "job": "default", "run": 1, "state": "running", "epoch": epoch, "min": 1, "max": 1}
    node, = job["nodes"]
    told = {
        "node": node_id("node-1"), "name": "label-node-1", "state": "member", "rank": 0, "address": "127.0.0.1:4001",
        "pid": os.getpid(), "guard_pid": 100, "trainer_pids": [101, 102], "standby_pids": [], "waits": None,
        "memory_bytes": 0, "snapshot_epoch": None, "snapshot_step": None}
    assert {key: node[key] for key in told} == told
    line = s.events("epoch")[0]
    assert (line["job"], line["epoch"], line["members"], line["cause"]) == ("default", epoch, 1, "start")


def test_the_log_line_of_an_exit_has_the_error_tail(server):
    s = server("--gather", "0")
    with RawClient(s.port, s.token("agent")) as agent:
        agent.join("node-1")
        epoch = agent.receive_until("PREPARE")[1][1][0]
        agent.ready(epoch)
        agent.receive_until("START")
        agent.send("EXITED", {1: epoch, 3: 7, 6: 'Traceback:\n  "boom"'})
        agent.receive_until("NOTED")
    line = wait_until(lambda: s.events("node_exited"), what="the line")[0]
    assert (line["node"], line["epoch"], line["code"]) == (node_id("node-1"), epoch, 7)
    assert "boom" in line["tail"]


def test_a_table_larger_than_a_frame_comes_in_chunks(server):
    s = server("--gather", "0", "--allow-address=names")
    host = "h" * 250
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        agents = [a, b]
        for i, agent in enumerate(agents):
            assert agent.join(f"node-{i}", nodes=(2, 2), nproc=64)[0] == "WELCOME"
        for agent in agents:
            agent.ready(agent.receive_until("PREPARE")[1][1][0], ports=range(5000, 5064), host=host)
        for agent in agents:
            chunks = []
            while True:
                name, fields = agent.receive_until("TABLE", "START")
                if name == "START":
                    break
                chunks.append(fields)
                if agent is b and sum(len(c[4]) for c in chunks) == 128:
                    a.send("LISTENING", {1: fields[1][0]})
            assert len(chunks) > 1
            assert sum(len(c[4]) for c in chunks) == 128


def test_numbers_of_sessions_are_used_again(server, status):
    s = server(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    for i in range(3 * 64):
        with RawClient(s.port, s.token("agent")) as agent:
            assert agent.join(f"n{i % 4}", job=f"j{i % 4}")[0] == "WELCOME"
            agent.send("GOODBYE", {1: 1})
    wait_until(lambda: not any(j["nodes"] for j in status()), what="the leaving of all nodes")


def test_messages_of_a_later_version_are_counted(server):
    s = server("--log-level", "debug")
    for number in range(2):
        with RawClient(s.port, s.token("agent")) as agent:
            assert agent.join("n1")[0] == "WELCOME"
            for i in range(2 * number):
                agent.sock.sendall(agent.frame(b"\xff" + bytes([i])))
            agent.send("RENEW", {1: 1})
            assert agent.receive_until("RENEWED")
        wait_until(lambda: len(s.events("session_closed")) > number, what="the end of the session")
    assert [closed.get("unknown_messages") for closed in s.events("session_closed")] == [None, 2]


def test_a_reader_too_slow_is_closed_with_a_reason_and_delays_nobody(server, noise):
    s = server("--ttl", "60")
    with RawClient(s.port, s.token("agent")) as slow, RawClient(s.port, s.token("agent")) as living:
        assert slow.join("slow", job="a")[0] == "WELCOME"
        assert living.join("living", job="b")[0] == "WELCOME"
        deadline, number, slowest = time.monotonic() + DEADLINE, 0, 0.0
        # The client sends requests without reading responses.
        while not s.events("session_ended"):
            assert time.monotonic() < deadline, f"{number} answers were not enough"
            asked = time.monotonic()
            living.send("RENEW", {1: number})
            assert living.receive_until("RENEWED")[1][1] == [number]
            slowest = max(slowest, time.monotonic() - asked)
            try:
                for _ in range(500):
                    number += 1
                    slow.send("RENEW", {1: number})
            except (BrokenPipeError, ConnectionResetError):
                wait_until(lambda: s.events("session_ended"), what="the reason in the log")
        ended = s.events("session_ended")[0]
        assert (ended["end"], ended["reason"]) == ("overflow", "the peer reads too slowly")
        assert slowest < noise.bound(2), "another agent's renewals waited"


def test_more_agents_than_there_is_room_for_are_refused_with_a_reason(server):
    s = server("--max-half-open-per-address", "4096", "--ttl", "60",  # no lease is renewed here
               preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48)))
    room = 48 - 32
    agents = []
    try:
        for i in range(room):
            agents.append(RawClient(s.port, s.token("agent")))
            assert agents[-1].join(f"n{i}", job=f"j{i}")[0] == "WELCOME"

        def comes_late():
            with RawClient(s.port, s.token("agent")) as late:
                name, fields = late.join("late", job="late")
                if name == "REFUSED":
                    assert fields[1] == [LIMIT_REACHED]
                    assert b"open files" in fields[2][0]
                    assert late.is_closed()
                return name == "WELCOME"

        # Refused connections use up nothing, and a client that has lost its connection finds its slot again.
        for _ in range(40):
            assert not comes_late()
        agents.pop().sock.close()
        assert not comes_late()
        agents.append(RawClient(s.port, s.token("agent")))
        assert agents[-1].join(f"n{room - 1}", job=f"j{room - 1}")[0] == "WELCOME"
        agents.pop().send("GOODBYE", {1: 1})
        wait_until(comes_late, what="room")
    finally:
        for agent in agents:
            agent.sock.close()


def test_who_asks_and_does_not_read_is_closed_and_costs_nobody(server, ctl):
    s = server("--ttl", "60")
    with RawClient(s.port, s.token("agent")) as agent, RawClient(s.port, s.token("observer")) as greedy:
        agent.join("n1")
        flood = b"".join(greedy.frame(b"\x40") for _ in range(60000))

        def push():
            try:
                greedy.sock.sendall(flood)
            except OSError:
                pass

        pusher = threading.Thread(target=push)
        pusher.start()
        try:
            assert ctl("status").returncode == 0
            pusher.join(DEADLINE)
            assert not pusher.is_alive()
        finally:
            with contextlib.suppress(OSError):  # the server may have closed it
                greedy.sock.shutdown(socket.SHUT_RDWR)
            pusher.join()
        agent.send("RENEW", {1: 1})
        assert agent.receive_until("RENEWED")


def test_log_format_and_advertised_host_are_chosen(server):
    s = server("--log-level", "info", "--advertise", "train.example", log_format="logfmt")
    assert "--rdzv-endpoint=train.example:" in s.lines[1]
    s.stop()
    assert re.search(r"event=listening .*agents_max=\d+", s.log.read_text())


def test_a_closed_stdout_does_no_harm(state_dir, ctl):
    process = subprocess.Popen([program("tfe-rdzv"), "--port", "0", "--state-dir", str(state_dir)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=clean_environment(), preexec_fn=lambda: os.close(1))
    try:
        wait_until(lambda: (state_dir / "endpoint").exists(), what="the endpoint file")
        assert ctl("status").returncode == 0
    finally:
        process.terminate()
        assert process.wait(DEADLINE) == 0


def test_a_wrong_token_gets_not_one_byte(server):
    s = server()
    token = s.token("agent")
    body = token[:40] + ("A" if token[40] != "A" else "B") + token[41:]
    with pytest.raises(Closed) as closed:
        RawClient(s.port, body)
    assert closed.value.args == (b"",)
