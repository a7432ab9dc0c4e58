"""tfe-ctl: verbs, options, exit codes, and the output of status."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import DEADLINE, wait_until
from raw_client import RawClient, node_id, node_secret
from programs import clean_environment, program

NODE_KEYS = {"node", "name", "state", "rank", "place", "address", "pid", "guard_pid", "trainer_pids", "standby_pids", "waits", "memory_bytes",
             "snapshot_epoch", "snapshot_step", "cores", "memory_mib", "gpus", "gpu", "gpu_memory_mib", "tensorflow", "cloud", "zone",
             "instance", "spot", "failed_check", "load", "free_mib", "step_ms", "work_ms", "standby", "times", "slow", "notice", "notice_at_ms",
             "notice_deadline_ms"}
JOB_KEYS = {"job", "run", "state", "epoch", "min", "max", "waits", "waited_ms", "waits_up_to_ms", "since_ms", "step", "total",
            "samples", "steps_per_s", "samples_per_s", "slow", "slow_times", "metrics", "nodes", "members",
            "nodes_known", "connected", "ready", "restarts", "restarts_left", "ps", "chief", "evaluator", "memory_bytes", "workers",
            "workers_working", "workers_done", "alone",
            "origin", "phase", "ended_ms", "reason", "retry_in_ms", "priority", "nodes_assigned", "created_ms", "spec", "saved_step", "saved_ms",
            "lingers"}


def test_no_jobs(server, ctl, shown, health):
    server()
    assert shown() == "no jobs\n"
    done = ctl("status", "--json")
    assert set(told := json.loads(done.stdout)) == {"jobs", "health"} and told["jobs"] == health() == []
    assert (done.returncode, done.stderr) == (0, "")


def test_status_of_several_jobs(server, shown, status):
    s = server()
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b, \
            RawClient(s.port, s.token("agent")) as c:
        a.join("node-a", job="alpha", nodes=(2, 4))
        b.join("node-b", job="alpha", nodes=(2, 4))
        c.join("node-c", job="beta", nodes=(2, 2))
        jobs = status()
        assert [j["job"] for j in jobs] == ["alpha", "beta"]
        assert all(set(j) == JOB_KEYS for j in jobs)
        assert all(set(n) == NODE_KEYS for j in jobs for n in j["nodes"])
        assert [n["node"] for n in jobs[0]["nodes"]] == sorted([node_id("node-a"), node_id("node-b")])
        assert {n["state"] for n in jobs[0]["nodes"]} == {"preparing"}
        assert {n["rank"] for n in jobs[0]["nodes"]} == {None}
        assert jobs[0]["nodes"][0]["pid"] == os.getpid()
        assert (jobs[0]["min"], jobs[0]["max"], jobs[1]["state"]) == (2, 4, "waiting")
        assert [j["job"] for j in status("beta")] == ["beta"]
        lines = shown("alpha").splitlines()
        assert lines[0].startswith("job alpha: ") and lines[0].endswith("run 1, epoch 0, nodes 2:4")
        assert lines.pop(1) == "  waiting for 2 more nodes to be ready (0 of 2)"
        assert lines[1].split() == ["NAME", "NODE", "ROLE", "RANK", "ADDRESS", "PID"]
        assert sorted(line.split() for line in lines[2:4]) == [
            [f"label-{name}", node_id(name), "preparing", "-", "-", str(os.getpid())] for name in ("node-a", "node-b")]
        assert lines[4:6] == ["", "  opened by manually started agents"]
        assert lines[8].split()[:3] == ["Waiting", "yes", "WaitsForNodes"] and len(lines) == 9


def test_unknown_job(server, ctl):
    server()
    done = ctl("status", "nothing")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == 'tfe-ctl: there is no job "nothing" on this server\n'
    assert ctl("status", "nothing", "--json").returncode == 1


def test_options_may_stand_before_and_behind_verb_and_operands(server, state_dir, ctl):
    s = server()
    where = ["--state-dir", str(state_dir)]
    with RawClient(s.port, s.token("agent")) as agent:
        agent.join("n1", job="j")
        for words in (["--json", *where, "status", "j"], ["status", "--json", "j", *where],
                      ["status", "j", *where, "--json"], [*where, "status", "--json", "--", "j"]):
            done = ctl(*words, bare=True)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["jobs"][0]["job"] == "j"


@pytest.mark.parametrize("arguments, words", [
    (["stauts"], ['"status"']), ([], ["-h"]), (["status", "a", "b"], ["usage"]), (["status", "--jsn"], ["--json"]),
    (["status", "a/b"], ["a/b"]), (["--rdzv-endpoint", ":::", "status"], []), (["status", "--timeout", "soon"], ["soon"])])
def test_usage_errors_exit_2(ctl, arguments, words):
    done = ctl(*arguments)
    assert done.returncode == 2
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in words)


def test_help_and_version(ctl):
    assert "status" in ctl("-h", bare=True).stdout
    assert "[JOB]" in ctl("status", "-h", bare=True).stdout
    for words in (["--version"], ["status", "--version"]):
        assert re.fullmatch(r"tfe-ctl \d+\.\d+\.\d+ \(\w+(-dirty)?\)\n", ctl(*words, bare=True).stdout)


def test_version_shows_client_and_server(server, ctl):
    server()
    client, server_line = ctl("version").stdout.splitlines()
    assert client.split()[0] == "client" and server_line.split()[0] == "server"
    assert client.split()[1] == server_line.split()[1]  # both come from the same build
    shown = json.loads(ctl("version", "--json").stdout)
    assert shown["client"] == shown["server"] and set(shown["client"]) == {"version", "commit"}
    assert ctl("--version", bare=True).stdout == "tfe-ctl {version} ({commit})\n".format(**shown["client"])


def test_unreached_server_is_69_within_the_timeout(server, ctl):
    s = server()
    token = s.token("observer")
    s.stop()
    began = time.monotonic()
    done = ctl("status", "--rdzv-endpoint", s.endpoint, "--token", token, "--timeout", "2500ms")
    assert done.returncode == 69
    assert 2.4 < time.monotonic() - began < 12
    assert done.stderr.count("waiting for") <= 1  # at most once, however often it retries
    assert s.endpoint in done.stderr.splitlines()[-1] and "refused" in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_a_server_that_never_answers_is_69(server, ctl):
    s = server()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        endpoint = f"127.0.0.1:{deaf.getsockname()[1]}"
        done = ctl("status", "--rdzv-endpoint", endpoint, "--token", s.token("observer"), "--timeout", "500ms")
    assert done.returncode == 69


def test_it_waits_for_a_server_that_is_restarting(server, state_dir, ctl):
    s = server()
    s.kill()
    done = []
    asker = threading.Thread(target=lambda: done.append(ctl("status", "--timeout", "30s")))
    asker.start()
    server(port=s.port)
    asker.join()
    assert done[0].returncode == 0, done[0].stderr


def test_wrong_token_is_77_and_reveals_nothing(server, tmp_path, ctl):
    s = server()
    other = server(state_dir=tmp_path / "other")
    with RawClient(s.port, s.token("agent")) as agent:
        agent.join("n1", job="secret-job")
        done = ctl("status", "--rdzv-endpoint", s.endpoint, "--token", other.token("observer"))
    assert done.returncode == 77
    assert done.stdout == "" and "secret-job" not in done.stderr and "n1" not in done.stderr
    ends = wait_until(lambda: s.events("session_ended"), what="the server's word of it")
    assert len(ends) == 1 and ends[0]["end"] == "unauthorised"


@pytest.mark.parametrize("token", ["tfe1_observer_short", "hello", ""])
def test_what_is_no_token_is_77_without_a_connection(ctl, tmp_path, token):
    path = tmp_path / "token"
    path.write_text(token)
    done = ctl("status", "--rdzv-endpoint=127.0.0.1:1", "--token-file", str(path))
    assert done.returncode == 77 and len(done.stderr.splitlines()) == 1


def test_roles(server, state_dir, ctl):
    server()
    for role, code in (("observer", 0), ("admin", 0), ("agent", 77)):
        assert ctl("status", "--token-file", str(state_dir / f"{role}.token")).returncode == code
    (state_dir / "observer.token").unlink()
    assert ctl("status").returncode == 0  # the admin token works as well
    (state_dir / "admin.token").unlink()
    assert ctl("status").returncode == 77


def test_token_and_endpoint_from_the_environment(server, tmp_path, ctl):
    s = server()
    env = {"TFE_TOKEN": s.token("observer"), "TFE_RDZV_ENDPOINT": s.endpoint, "TFE_STATE_DIR": str(tmp_path / "none")}
    assert ctl("status", bare=True, env=env).returncode == 0


def test_labels_cannot_steer_the_terminal(server, ctl):
    s = server()
    with RawClient(s.port, s.token("agent")) as agent:
        agent.send("JOIN", {1: "j", 2: node_id("n"), 3: "\x1b[2J", 4: 1, 5: 1, 6: 1, 23: node_secret("n").hex()})
        assert agent.is_closed()
    assert "\x1b" not in ctl("status").stdout


def test_a_long_answer_comes_whole(server, status):
    """The response has more rows than one queue holds: it is produced as it is read."""
    s = server("--ttl", "300s")
    names = [f"job-{i:04}-{'x' * 50}" for i in range(1000)]
    for name in names:
        # The node stays until its lease expires, which is long enough.
        with RawClient(s.port, s.token("agent")) as agent:
            assert agent.join(f"{name[:8]}-{'n' * 49}", job=name, nodes=(2, 2))[0] == "WELCOME"
    with RawClient(s.port, s.token("observer")) as idle:
        idle.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.send("STATUS", {})
        # A client that does not read yet delays no other client and loses nothing.
        jobs = status()
        assert [j["job"] for j in jobs] == names
        assert all(len(j["nodes"]) == 1 for j in jobs)
        seen = []
        while (row := idle.receive())[0] != "STATUS_END":
            seen += row[1][1] if row[0] == "STATUS_JOB" else []
        assert [job.decode() for job in seen] == names


@pytest.mark.parametrize("words", [("status",), ("events", "-f"), ("events", "-f", "--json"), ("-h",)])
def test_reader_that_has_enough_ends_a_verb_without_a_word(server, state_dir, ctl, words):
    """Like head: no sentence on stderr, and an end like by SIGPIPE."""
    server()
    ends = os.pipe()
    os.close(ends[0])
    place = () if words == ("-h",) else ("--state-dir", str(state_dir))
    started = subprocess.Popen([program("tfe-ctl"), *words, *place], stdout=ends[1], stderr=subprocess.PIPE, text=True,
                               env=clean_environment())
    os.close(ends[1])
    ctl("forget", "nothing")  # an order creates an event
    _, said = started.communicate(timeout=60)
    assert (started.returncode, said) == (128 + signal.SIGPIPE, "")


def test_a_full_disk_is_not_an_answer(server, state_dir):
    server()
    with open("/dev/full", "w") as full:
        done = subprocess.run([program("tfe-ctl"), "status", "--state-dir", str(state_dir)], stdout=full,
                              stderr=subprocess.PIPE, text=True, env=clean_environment(), timeout=DEADLINE)
    assert done.returncode == 1 and "stdout" in done.stderr


# --- for people ------------------------------------------------------------------------------------


def test_help_is_a_word_too(ctl):
    assert ctl("help", bare=True).stdout == ctl("-h", bare=True).stdout != ""
    assert ctl("help", "epochs", bare=True).stdout == ctl("epochs", "-h", bare=True).stdout != ""
    assert ctl("help", "nothing", bare=True).returncode == 2
    for words in (("help", "token"), ("token", "-h"), ("token", "--help")):
        told = ctl(*words, bare=True)
        assert told.returncode == 0 and told.stderr == ""
        assert re.findall(r"^tfe-ctl token (\w+)", told.stdout, re.M) == ["create", "list", "revoke", "rotate"]
    assert ctl("token", bare=True).returncode == 2


@pytest.mark.parametrize("typed, meant", [("statsu", "status"), ("epoch", "epochs"), ("nods", "nodes"), ("stats", "status"),
                                          ("stp", None), ("evct", None), ("forgt", None), ("dran", None), ("xyz", None)])
def test_a_suggestion_is_near_and_does_no_harm(ctl, typed, meant):
    done = ctl(typed, bare=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert (f'did you mean "{meant}"' in done.stderr) if meant else "did you mean" not in done.stderr


def run_job(s, name, world=1, ends=True):
    """Runs a job of that many nodes, which succeeds if ends is true."""
    agents = [RawClient(s.port, s.token("agent")) for _ in range(world)]
    for i, agent in enumerate(agents):
        agent.join(f"{name}{i}", job=name, nodes=(world, world))
        agent.ready(1, ports=(4711 + i,))
    for agent in agents:
        agent.receive_until("START")
    if ends:
        for agent in agents:
            agent.send("EXITED", {1: 1})
        for agent in agents:
            agent.receive_until("FINISH")
            agent.sock.close()
    return agents


def test_status_shows_what_lives_first_and_what_is_over_when_asked(server, ctl, status, shown):
    s = server("--gather=0")
    run_job(s, "a-over")
    with RawClient(s.port, s.token("agent")) as waiting:
        waiting.join("w", job="b-waits", nodes=(2, 2))
        members = run_job(s, "c-runs", world=3, ends=False)
        text = shown()
        assert re.findall("^job ([^:]+)", text, re.M) == ["c-runs", "b-waits"]
        assert "  waiting for 1 more node (1 of 2)\n" in text and "1 finished job is not shown (--all shows it)" in text
        table = [line.split() for line in text.split("\n\n")[0].splitlines()[2:]]
        assert [row[3] for row in table] == ["0", "1", "2"], "not by rank"
        assert re.findall("^job ([^:]+)", ctl("status", "--all").stdout, re.M) == ["c-runs", "b-waits", "a-over"]
        assert "job a-over: succeeded" in ctl("status", "a-over").stdout
        assert {j["job"]: j["waits"] for j in status()} == {
            "a-over": None, "b-waits": "waiting for 1 more node (1 of 2)", "c-runs": None}
        # Two jobs are unfinished: the name is required.
        done = ctl("epochs")
        assert done.returncode == 2 and "no job given" in done.stderr
    for member in members:
        member.sock.close()


def test_epochs_of_the_only_job(server, ctl):
    s = server("--gather=0")
    assert ctl("epochs").returncode == 1
    run_job(s, "only")
    wait_until(lambda: '"over":true' in ctl("epochs", "only", "--json").stdout, what="its row")
    assert ctl("epochs").stdout == ctl("epochs", "only").stdout != ""
    assert json.loads(ctl("epochs", "--json").stdout)["job"] == "only"
