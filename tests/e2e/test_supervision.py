"""Trainers and their descendants: how they end, and that none of them is ever left."""

import os
import pathlib
import re
import signal
import socket
import sys
import time

import pytest

from agents import TOGETHER, TRAINER, fleet, gone_soon, nothing_left  # noqa: F401 (fleet is a fixture)
from conftest import wait_until
from programs import children, descendants, is_alive, program

# For tests that are not about losses: a busy machine may stall for 3 s.
CALM = ("--gather", "0.3")


HIDDEN = ["--double-fork", "--ignore-term"]  # a trainer with a daemon of its own


def everything_below(fleet, agent):
    """Returns all processes below the agent, including its guard, once the trainer and its daemon run."""
    fleet.wait_world(1)
    wait_until(lambda: fleet.lines("child"), what="the trainer's child")
    wanted = {line.get("child", line["pid"]) for line in fleet.lines()}
    # A process that changes its parent during the scan may be missing.
    return wait_until(lambda: wanted <= (pids := descendants(agent.pid)) and pids, what="all of them below the agent")


def test_agent_killed_leaves_nothing(server, fleet):
    server(*CALM)
    agent = fleet.start(trainer=HIDDEN)
    pids = everything_below(fleet, agent)
    directory = pathlib.Path(fleet.starts()[0]["env"]["TFE_SOCKET"]).parent
    assert directory.is_dir()
    guard = agent.guard_pid
    agent.send(signal.SIGKILL)
    agent.wait()
    assert nothing_left(pids, guard) == []
    assert not directory.exists()


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"])
def test_agent_killed_leaves_nothing_whatever_was_closed_before(server, fleet, closed):
    """Regression: the pipe between agent and guard got the number of a closed stderr, and the guard kept both of its
    ends."""
    server(*CALM)
    line = f"exec '{program('tfe-agent')}' --no-standby --python '{sys.executable}' '{TRAINER}' '{fleet.folder}' {closed}"
    agent = fleet.start_program(["bash", "-c", line])
    fleet.wait_world(1)
    pids = descendants(agent.pid)
    assert len(pids) == 2
    guard = agent.guard_pid
    agent.send(signal.SIGKILL)
    agent.wait()
    assert nothing_left(pids, guard) == []


def test_guard_killed_leaves_nothing_and_training_goes_on(server, fleet):
    s = server(*CALM)
    agent = fleet.start(trainer=HIDDEN)
    pids = everything_below(fleet, agent)
    guard = agent.guard_pid
    os.kill(guard, signal.SIGKILL)
    assert [pid for pid in pids if not gone_soon(pid)] == []
    fleet.wait_world(1, above=1)
    assert agent.process.poll() is None
    assert children(agent.pid) != [guard]
    assert not s.events("restarts"), "charged for what was no fault of the script"
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_agent_and_guard_killed_at_once(server, fleet):
    """The trainer dies with its guard. Its descendants are orphans then; where control groups are available, the
    machine's next agent (possibly another test's) ends them before it starts anything."""
    server(*CALM)
    agent = fleet.start(trainer=HIDDEN)
    everything_below(fleet, agent)
    trainer, child = fleet.starts()[0]["pid"], fleet.lines("child")[0]["child"]
    groups = "/tfe-guard-" in pathlib.Path(f"/proc/{child}/cgroup").read_text()
    guard = agent.guard_pid
    os.kill(guard, signal.SIGSTOP)  # otherwise it may have begun to clean up before it is killed
    for pid in (agent.pid, guard):
        os.kill(pid, signal.SIGKILL)
    agent.wait()
    assert gone_soon(trainer) and gone_soon(guard)
    if not groups:
        assert is_alive(child)
        os.kill(child, signal.SIGKILL)
        pytest.skip("no control groups of version 2 can be made here")
    fleet.start("--new-run")
    assert gone_soon(child, 20)


@pytest.mark.heavy
def test_always_failing_script_fails_the_job_after_its_restarts(server, fleet):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:2", "--max_restarts=2", trainer=["--exit", "7", "--say", "no such data set"])
              for _ in range(2)]
    assert [agent.wait() for agent in agents] == [1, 1]
    for agent in agents:
        assert re.search(r"exit code 7: no such data set \(rank \d on .*\), after 2 restarts", agent.stderr()), agent.stderr()
        assert "no such data set" in agent.stderr()
    assert fleet.last_epoch() == 3
    assert [e["cause"] for e in s.events("epoch")] == ["start", "trainer_failed", "trainer_failed"]
    # A late node with the same script gets the same answer.
    late = fleet.start("--nnodes=2:2", "--max_restarts=2", trainer=["--exit", "7", "--say", "no such data set"])
    assert late.wait() == 1 and "job default run 1 ended failed at 20" in late.stderr()
    # A node with another script is refused, with a sentence that helps.
    other = fleet.start("--nnodes=2:2", trainer=["--exit", "8"])
    assert other.wait() == 1
    assert "--new-run" in other.stderr()
    # --new-run starts the job again.
    again = [fleet.start("--nnodes=1:1", "--new-run", trainer=["--exit", "0"]) for _ in range(1)]
    assert [agent.wait() for agent in again] == [0]
    assert fleet.starts(fleet.last_epoch())[0]["env"]["TFE_RUN"] == "2"


def test_a_named_run_is_told_how_it_ended_and_another_one_begins(server, fleet):
    server(*CALM)
    assert fleet.start("--run=monday", trainer=["--exit", "0"]).wait() == 0
    late = fleet.start("--run=monday", trainer=["--exit", "9"])
    assert late.wait() == 0 and "job default run 1 ended succeeded at 20" in late.stderr()
    assert fleet.start("--run=tuesday", trainer=["--exit", "0"]).wait() == 0
    assert [fleet.starts(e)[0]["env"]["TFE_RUN"] for e in (1, 2)] == ["1", "2"]
    refused = fleet.start("--run=next/week")
    assert refused.wait() == 2 and "next/week" in refused.stderr()


def test_a_durable_node_has_rank_0(server, fleet):
    server("--gather", "1")
    agents = [fleet.start("--nnodes=2:2", *options) for options in ((), ("--durable",))]
    epoch = fleet.wait_world(2)
    assert [s["ppid"] for s in fleet.starts(epoch) if s["env"]["TFE_RANK"] == "0"] == [agents[1].guard_pid]
    fleet.order("exit 0")
    assert [a.wait() for a in agents] == [0, 0]


def test_a_node_is_not_ready_while_something_accepts_on_its_old_port(server, fleet, status):
    """A reaped trainer may not be completely stopped: a process with its listening socket still accepts connections of
    peers."""
    server(*CALM)
    agent = fleet.start(trainer=["--listen"])
    epoch = fleet.wait_world(1)
    port = int(fleet.starts(epoch)[0]["cluster"][0].rpartition(":")[2])
    with socket.socket() as survivor:
        survivor.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        survivor.bind(("0.0.0.0", port))
        survivor.listen()
        fleet.order("exit 1", epoch, 0)
        wait_until(lambda: f"event=port_still_accepts port={port}" in agent.stderr(), what="the agent's saying so")
        end = time.monotonic() + 2  # otherwise the next epoch would begin after the back-off of one second
        while time.monotonic() < end:
            assert fleet.last_epoch() == epoch
            time.sleep(0.01)
    fleet.wait_world(1, above=epoch)
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_frozen_node_is_lost_and_stops_when_it_thaws(server, fleet):
    """A frozen node (agent, guard and trainer) loses its slot; after the thaw its old trainer is ended before anything
    else."""
    server("--ttl", "3", "--gather", "0.3")
    agents = [fleet.start("--nnodes=1:2", TOGETHER) for _ in range(2)]
    first = fleet.wait_world(2)
    frozen = agents[1]
    pids = [frozen.pid, *descendants(frozen.pid)]
    trainer = next(s["pid"] for s in fleet.starts(first) if s["pid"] in pids)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    second = fleet.wait_world(1, above=first)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert gone_soon(trainer)
    fleet.wait_world(2, above=second)
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]
    fleet.check_views()
