"""Server crashes do not affect training: a new server adopts the running cluster from the state directory."""

import os
import signal
import sqlite3
import subprocess
import time

import pytest

from agents import TOGETHER, fleet, gone_soon  # noqa: F401 (fleet is a fixture)
from conftest import on_disk, wait_until
from programs import clean_environment, is_alive, program

CALM = ("--gather", "0.3")


def pids(fleet, epoch=None):
    return {s["pid"] for s in fleet.starts(epoch)}


def connected(status, n):
    """Returns True if this many members of the only job are connected again."""
    jobs = status()
    return bool(jobs) and sum(node["state"] == "member" and node["pid"] > 0 for node in jobs[0]["nodes"]) == n


def restart(server, s, *options, number=signal.SIGKILL):
    """Ends the server and starts a new one on the same port."""
    assert s.stop(number) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    return server(*options, port=s.port)


def finish(fleet, agents):
    fleet.order("exit 0")
    assert [a.wait() for a in agents] == [0] * len(agents)
    fleet.check_views()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_trainer_notices_that_the_server_was_away(server, fleet, status, number):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=3:3") for _ in range(3)]
    epoch = fleet.wait_world(3)
    before = pids(fleet)
    s = restart(server, s, *CALM, number=number)
    assert [e["members"] for e in s.events("job_restored")] == [3]
    wait_until(lambda: connected(status, 3), what="everybody's return")
    time.sleep(1)
    assert fleet.last_epoch() == epoch
    assert pids(fleet) == before and all(is_alive(pid) for pid in before)
    assert status()[0]["state"] == "running"
    finish(fleet, agents)
    assert pids(fleet) == before


def test_a_trainer_that_dies_meanwhile_is_reported_on_reconnect(server, fleet, status):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:2") for _ in range(2)]
    epoch = fleet.wait_world(2)
    victim = next(start for start in fleet.starts(epoch) if start["rank"] == 1)
    assert s.stop(signal.SIGKILL) == -signal.SIGKILL
    os.kill(victim["pid"], signal.SIGKILL)
    assert gone_soon(victim["pid"])
    s = server(*CALM, port=s.port)
    fleet.wait_world(2, above=epoch)
    assert [e["node"] for e in s.events("node_exited")][:1] == [victim["env"]["TFE_NODE"]]
    finish(fleet, agents)


def test_an_operators_drain_outlives_the_server(server, fleet, ctl):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=1:3", TOGETHER, f"--node-name=n{i}") for i in range(3)]
    epoch = fleet.wait_world(3)
    [record] = on_disk(s.state_dir, "SELECT record FROM jobs")
    assert ctl("drain", "n1", "--in", "10m").returncode == 0
    wait_until(lambda: on_disk(s.state_dir, "SELECT record FROM jobs") != [record], what="the order on the disk")
    s = restart(server, s, *CALM)
    fleet.wait_world(2, above=epoch)
    assert agents[1].wait() == 0 and "drained" in agents[1].stderr()
    finish(fleet, [agents[0], agents[2]])


def test_a_finished_job_stays_finished(server, fleet):
    s = server(*CALM)
    finish(fleet, [started(fleet)])
    restart(server, s, *CALM)
    late = fleet.start()
    assert late.wait() == 0
    assert "succeeded" in late.stderr()
    assert len(fleet.starts()) == 1


def started(fleet):
    agent = fleet.start()
    fleet.wait_world(1)
    return agent


def test_a_server_that_lost_its_disk_takes_the_job_over_from_its_agents(server, fleet, state_dir, status):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:3", TOGETHER) for _ in range(3)]
    epoch = fleet.wait_world(3)
    before = pids(fleet)
    assert s.stop(signal.SIGKILL) == -signal.SIGKILL
    lost = list(state_dir.glob("rdzv.db*"))
    assert lost
    for path in lost:
        path.unlink()
    s = server(*CALM, port=s.port)
    wait_until(lambda: s.events("rebuilt"), what="the epoch to be adopted")
    wait_until(lambda: connected(status, 3), what="everybody's return")
    assert s.events("rebuilt")[0]["members"] == 3
    assert fleet.last_epoch() == epoch and pids(fleet) == before and all(is_alive(pid) for pid in before)
    agents[0].send(signal.SIGTERM)
    assert agents[0].wait() == 143
    assert fleet.wait_world(2, above=epoch) == epoch + 1  # epoch numbers continue
    finish(fleet, agents[1:])


def test_an_ephemeral_server_keeps_nothing_and_learns_what_runs_from_who_runs_it(server, fleet, state_dir):
    s = server(*CALM, "--ephemeral")
    agent = started(fleet)
    assert not (state_dir / "rdzv.db").exists()
    s.stop()
    s = server(*CALM, "--ephemeral", port=s.port)
    wait_until(lambda: s.events("rebuilt"), what="the job's return from what its agent knows")
    assert not s.events("job_restored")
    finish(fleet, [agent])
    assert len(fleet.starts()) == 1
    late = fleet.start()
    assert late.wait() == 0
    s.stop()
    s = server(*CALM, "--ephemeral", port=s.port)
    again = fleet.start()
    wait_until(lambda: s.events("epoch"), what="a run of a job that nobody remembers")
    fleet.order("exit 0")
    assert again.wait() == 0


DATABASES = {
    "garbage": (b"not a database, but long enough to be looked at\n" * 200, "damaged"),
    "foreign": (None, "another program"),
    "newer": (None, "another version of tfe-rdzv"),
    "older": (None, "another version of tfe-rdzv"),
}


@pytest.mark.parametrize("kind", sorted(DATABASES))
def test_a_file_that_is_not_ours_is_refused_and_left_alone(server, state_dir, kind):
    content, word = DATABASES[kind]
    if kind in ("newer", "older"):
        server().stop()
    state_dir.mkdir(mode=0o700, exist_ok=True)
    path = state_dir / "rdzv.db"
    if content:
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as db:
            db.execute({"newer": "PRAGMA user_version=999", "older": "PRAGMA user_version=13"}.get(kind, "CREATE TABLE theirs(x)"))
        db.close()
    before = path.read_bytes()
    done = subprocess.run([program("tfe-rdzv"), "--port", "0", "--state-dir", str(state_dir)], capture_output=True,
                          text=True, timeout=30, env=clean_environment())
    assert done.returncode == 1
    assert word in done.stderr and str(path) in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()[-1]) < 500
    assert path.read_bytes() == before
