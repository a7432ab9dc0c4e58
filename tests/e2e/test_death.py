"""Proof of termination: a guard proves that the trainers of an unreachable agent are dead."""

import os
import pathlib
import signal
import socket
import stat
import time

import pytest

from agents import fleet, gone_soon  # noqa: F401 (a fixture)
from bystander import noise  # noqa: F401 (a fixture)
from conftest import wait_until

# Leases and fences are long here: only proof of termination starts the next epoch in time.
LONG = ("--ttl", "60", "--gather", "0.5")
SOON_S = 2.0


def marks(job):
    found = []
    for path in pathlib.Path("/tmp").glob("tfe-dead-*"):
        try:
            if path.read_text().endswith(f"\njob {job}\n"):
                found.append(path)
        except OSError:
            pass
    return found


def listens(guard):
    """Returns the port at which the guard gives its proof."""
    sockets = {os.readlink(fd) for fd in pathlib.Path(f"/proc/{guard}/fd").iterdir()}
    for table in ("tcp", "tcp6"):
        for row in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, address, _, state, *_, inode = row.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                return int(address.rpartition(":")[2], 16)
    raise AssertionError("it listens nowhere")


@pytest.fixture
def job():
    name = f"death-{os.getpid()}-{time.monotonic_ns()}"
    yield name
    for path in marks(name):
        path.unlink(missing_ok=True)


def kill(agent):
    """Kills the agent; returns its guard, which stays, and the time."""
    guard, began = agent.guard_pid, time.time()
    agent.send(signal.SIGKILL)
    agent.wait()
    return guard, began




def test_a_spare_takes_over_from_a_killed_agent_at_once(server, fleet, job, noise):
    s = server(*LONG)
    first = fleet.start("--nnodes=1:1", f"--job={job}", trainer=["--fork", "--double-fork"])
    epoch = fleet.wait_world(1)
    spare = fleet.start("--nnodes=1:1", f"--job={job}", trainer=["--fork", "--double-fork"])
    wait_until(lambda: len(s.events("node_ready")) == 2, what="a spare")
    ran = wait_until(lambda: len(found := {line.get("child", line["pid"]) for line in fleet.lines()}) == 3 and found,
                     what="the trainer and its two children")
    _, began = kill(first)
    fleet.wait_world(1, above=epoch)
    assert time.time() - began < noise.bound(SOON_S)
    assert not [pid for pid in ran if not gone_soon(pid, 0.0)]  # the proof is true: the trainers have ended
    assert len(s.events("node_dead")) == 1 and not s.events("wait_fence")
    assert s.events("epoch")[-1]["cause"] == "node_lost"
    fleet.order("exit 0")
    assert spare.wait() == 0


@pytest.mark.parametrize("how", ["guard_serves", "guard_was_terminated", "server_was_restarted"])
def test_who_comes_again_on_the_same_machine_waits_for_no_fence(server, fleet, job, noise, how):
    s = server(*LONG)
    first = fleet.start("--nnodes=1:1", f"--job={job}", trainer=["--fork", "--double-fork"])
    epoch = fleet.wait_world(1)
    guard, _ = kill(first)
    mark = wait_until(lambda: marks(job), what="the certificate's file")[0]
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    if how == "guard_was_terminated":
        os.kill(guard, signal.SIGTERM)
        assert gone_soon(guard)
    elif how == "server_was_restarted":
        s.process.kill()
        s.process.wait()
        s = server(*LONG, port=s.port)
    began = time.time()
    second = fleet.start("--nnodes=1:1", f"--job={job}")
    fleet.wait_world(1, above=epoch)
    assert time.time() - began < noise.bound(SOON_S)
    assert len(s.events("node_dead")) == 1 and not s.events("wait_fence")
    fleet.order("exit 0")
    assert second.wait() == 0


def test_a_killed_guard_leaves_none_and_the_fence_is_waited_for(server, fleet, job):
    s = server("--ttl", "3", "--fence", "9")
    first = fleet.start("--nnodes=1:1", f"--job={job}")
    epoch = fleet.wait_world(1)
    guard = first.guard_pid
    first.send(signal.SIGSTOP)  # otherwise it would get a new guard at once
    os.kill(guard, signal.SIGKILL)
    kill_of = time.time()
    first.send(signal.SIGKILL)
    first.wait()
    second = fleet.start("--nnodes=1:1", f"--job={job}")
    fleet.wait_world(1, above=epoch)
    assert time.time() - kill_of > 5  # since its last renewal, which was at most 3 s before
    assert not marks(job) and not s.events("node_dead") and s.events("wait_fence")
    fleet.order("exit 0")
    assert second.wait() == 0


def test_a_second_guard_has_none(server, fleet, job):
    """Trainers started under the first guard are no descendants of the second, which knows nothing about them."""
    server("--ttl", "3", "--fence", "9")
    agent = fleet.start("--nnodes=1:1", f"--job={job}")
    epoch = fleet.wait_world(1)
    os.kill(agent.guard_pid, signal.SIGKILL)
    fleet.wait_world(1, above=epoch)
    guard, _ = kill(agent)
    assert gone_soon(guard)
    assert not marks(job)


def test_it_is_given_until_the_fence_has_passed_and_to_whoever_comes(server, fleet, job):
    server("--ttl", "3", "--fence", "9")
    agent = fleet.start("--nnodes=1:1", f"--job={job}")
    fleet.wait_world(1)
    guard, began = kill(agent)
    mark = wait_until(lambda: marks(job), what="the certificate's file")[0]
    wait_until(lambda: os.readlink(f"/proc/{guard}/fd/2") == "/dev/null" and os.readlink(f"/proc/{guard}/cwd") == "/",
               what="its letting go of what it was started with")
    port, held = listens(guard), len(os.listdir(f"/proc/{guard}/fd"))
    for _ in range(20):  # no query makes the guard end or hold a resource
        with socket.create_connection(("127.0.0.1", port), 10) as asker:
            given = asker.makefile().readline()
            assert given and mark.read_text().startswith(given)
    assert held < 10
    wait_until(lambda: len(os.listdir(f"/proc/{guard}/fd")) == held, what="its letting go of who asked")
    wait_until(lambda: not mark.exists(), 20, what="the end of the certificate")
    assert time.time() - began > 5 and gone_soon(guard)


def test_an_agent_that_ends_by_itself_leaves_nothing(server, fleet, job):
    server(*LONG)
    agent = fleet.start("--nnodes=1:1", f"--job={job}")
    fleet.wait_world(1)
    guard = agent.guard_pid
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert gone_soon(guard) and not marks(job)
