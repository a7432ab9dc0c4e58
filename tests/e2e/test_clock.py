"""Real programs with modified clocks (tests/crash/moved_clock.c): machines that sleep, and outages longer than any
fence, in seconds. Each machine has a clock of its own, by default the real one."""

import contextlib
import mmap
import os
import signal
import struct
import sys

import pytest

from agents import fleet, gone_soon  # noqa: F401 (a fixture)
from conftest import loading, wait_until
from programs import descendants, is_alive, program

TTL_S, FENCE_S = 3, 300
OPTIONS = ("--ttl", TTL_S, "--gather", "0.3", "--fence", FENCE_S)
MONOTONIC, BOOTTIME = 0, 8


class Clock:
    """The clock of one machine; its programs are started with env."""

    def __init__(self, path):
        path.write_bytes(bytes(16))
        with open(path, "r+b") as file:
            self.ahead = mmap.mmap(file.fileno(), 16)
        self.env = loading("moved_clock", MOVED_CLOCK=str(path))

    def pass_by(self, seconds, *clocks):
        for at in clocks:
            struct.pack_into("=q", self.ahead, at, struct.unpack_from("=q", self.ahead, at)[0] + int(seconds * 1e9))

    def later(self, seconds):
        """Advances all clocks."""
        self.pass_by(seconds, MONOTONIC, BOOTTIME)

    def slept(self, seconds):
        """Advances the clocks as after suspension or hibernation."""
        self.pass_by(seconds, BOOTTIME)


@pytest.fixture
def make_clock(tmp_path):
    made = []

    def make():
        made.append(Clock(tmp_path / f"clock.{len(made)}"))
        return made[-1]
    return make


class Machine:
    """An agent and its descendants with a clock of their own."""

    def __init__(self, fleet, clock, *options, trainer=()):
        self.fleet, self.clock = fleet, clock
        self.agent = fleet.start(*options, env=clock.env, trainer=trainer)

    def trainer(self, epoch):
        below = descendants(self.agent.pid)
        return next(s["pid"] for s in self.fleet.starts(epoch) if s["pid"] in below)

    def signal(self, number, but_agent=False):
        below = descendants(self.agent.pid)
        for pid in below if but_agent else {self.agent.pid, *below}:
            with contextlib.suppress(ProcessLookupError):  # a process that prepares a start may have ended by itself
                os.kill(pid, number)


@pytest.fixture
def make_machine(fleet, make_clock):
    made = []

    def make(*options, clock=None, **more):
        made.append(Machine(fleet, clock or make_clock(), *options, **more))
        return made[-1]
    yield make
    for machine in made:
        if machine.agent.process.poll() is None:
            machine.signal(signal.SIGCONT)


def test_the_guard_of_a_machine_that_slept_past_its_fence_ends_its_trainer_at_once(server, fleet, make_machine):
    """The guard does so alone, while its agent is still frozen."""
    server(*OPTIONS)
    machine = make_machine("--nnodes=1:2")
    trainer = machine.trainer(fleet.wait_world(1))
    machine.signal(signal.SIGSTOP)
    machine.clock.slept(FENCE_S + 1)
    machine.signal(signal.SIGCONT, but_agent=True)
    assert gone_soon(trainer), "trained past its fence"


def test_a_guard_that_waits_hears_of_the_fence_by_the_clock_that_ran_on(server, fleet, make_machine):
    """Only its timer wakes it, on the clock that continues during sleep."""
    server(*OPTIONS)
    machine = make_machine("--nnodes=1:2")
    trainer = machine.trainer(fleet.wait_world(1))
    machine.agent.send(signal.SIGSTOP)
    machine.clock.pass_by(FENCE_S + 1, MONOTONIC)
    assert not gone_soon(trainer, 0.5), "the fence is not by a clock that stands still while the machine sleeps"
    machine.clock.slept(FENCE_S + 1)
    assert gone_soon(trainer), "trained past its fence"


def test_a_nap_within_its_lease_changes_nothing(server, fleet, make_machine):
    s = server(*OPTIONS, "--ttl", 60)
    machine = make_machine("--nnodes=1:2")
    epoch = fleet.wait_world(1)
    trainer = machine.trainer(epoch)
    machine.signal(signal.SIGSTOP)
    machine.clock.slept(30)
    machine.signal(signal.SIGCONT)
    # It renews as soon as possible, so that everything related to its sleep is over by then.
    machine.clock.later(20)
    wait_until(lambda: "link_lost" not in machine.agent.stderr() and is_alive(trainer), what="its trainer")
    fleet.order("exit 0")
    assert machine.agent.wait() == 0 and fleet.last_epoch() == epoch
    assert not [e for e in s.events("node_lost")]


@pytest.mark.parametrize("away, survives", [(FENCE_S - 30, True), (FENCE_S + 1, False)])
def test_an_outage_of_minutes(server, fleet, make_machine, make_clock, away, survives):
    """An outage shorter than the fence stops no trainer; a longer one stops all until the server is back."""
    clock = make_clock()
    s = server(*OPTIONS, env=clock.env)
    machines = [make_machine("--nnodes=2:2", clock=clock) for _ in range(2)]
    epoch = fleet.wait_world(2)
    trainers = [machine.trainer(epoch) for machine in machines]
    assert s.stop(signal.SIGKILL) == -signal.SIGKILL
    clock.later(away)
    if survives:
        assert not any(gone_soon(pid, 0.3) for pid in trainers)
    else:
        assert all(gone_soon(pid) for pid in trainers), "trained past the fence"
    s = server(*OPTIONS, port=s.port, env=clock.env)
    if survives:
        wait_until(lambda: len(s.events("node_back")) == 2, what="everybody's return")
        fleet.order("exit 0")
    else:
        fleet.wait_world(2, above=epoch)
        fleet.order("exit 0")
    assert [machine.agent.wait() for machine in machines] == [0, 0]
    assert (fleet.last_epoch() == epoch) == survives


def test_pool_agent_that_reaches_no_server_ends_after_join_timeout(server, fleet, make_clock):
    server().kill()
    clock = make_clock()
    agent = fleet.start_program([program("tfe-agent"), "--pool", "--join-timeout=1h", "--python", sys.executable, "--preload=json"],
                                env=clock.env)
    wait_until(lambda: "not reached" in agent.stderr() or "refused" in agent.stderr(), what="the first failed try")
    clock.later(3601)
    assert agent.wait() == 69
    assert "the server was not reached within --join-timeout" in agent.stderr()
