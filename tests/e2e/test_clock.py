"""Real programs with modified clocks (tests/crash/moved_clock.c): machines that sleep, and outages longer than any
fence, in seconds. Each machine has a clock of its own, by default the real one."""

import contextlib
import mmap
import os
import signal
import socket
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


def test_a_hibernated_machine_is_replaced_and_comes_back_as_a_newcomer(server, fleet, make_machine, make_clock):
    """The sleep is longer than the lease and shorter than the fence: the others continue without the machine, which
    stops its trainer before it rejoins."""
    clock = make_clock()
    s = server(*OPTIONS, env=clock.env)
    awake, sleeper = make_machine("--nnodes=1:2", clock=clock), make_machine("--nnodes=1:2")
    first = fleet.wait_world(2)
    trainer = sleeper.trainer(first)
    sleeper.signal(signal.SIGSTOP)
    second = fleet.wait_world(1, above=first)
    assert [e["reason"] for e in s.events("node_lost")] == ["its lease is over"]
    sleeper.clock.slept(100)
    clock.later(100)
    sleeper.signal(signal.SIGCONT)
    assert gone_soon(trainer)
    fleet.wait_world(2, above=second)
    fleet.order("exit 0")
    assert [machine.agent.wait() for machine in (awake, sleeper)] == [0, 0]
    fleet.check_views()


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


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed-ports", "own-ports"])
def test_who_may_look_for_its_peers_at_the_next_epochs_ports_is_waited_for(server, fleet, make_machine, make_clock, fixed):
    """A member that has not reported a step freezes. If each epoch has its own ports, the next one does not wait for
    its fence: two of three members are accounted for. With fixed ports it does."""
    clock = make_clock()
    s = server(*OPTIONS, env=clock.env)
    machines = []
    for _ in range(3):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        machines.append(make_machine("--nnodes=1:3", "--grow=now", *([f"--address=127.0.0.1:{port}"] if fixed else []), clock=clock))
    first = fleet.wait_world(3)
    frozen = machines[0]
    trainer = frozen.trainer(first)
    frozen.agent.send(signal.SIGSTOP)
    if not fixed:
        fleet.wait_world(2, above=first)
        assert is_alive(trainer) and not s.events("wait_fence")
        return
    wait_until(lambda: s.events("wait_fence"), what="the wait for the fence")
    clock.later(FENCE_S - 20)
    assert not gone_soon(trainer, 0.5) and fleet.last_epoch() == first
    clock.later(20)
    assert gone_soon(trainer), "trained past its fence"
    assert fleet.last_epoch() == first  # its clock may be off by 5 %, so the server waits longer
    clock.later(FENCE_S * 0.2)
    fleet.wait_world(2, above=first)


def test_pool_agent_that_reaches_no_server_ends_after_join_timeout(server, fleet, make_clock):
    server().kill()
    clock = make_clock()
    agent = fleet.start_program([program("tfe-agent"), "--pool", "--join-timeout=1h", "--python", sys.executable, "--preload=json"],
                                env=clock.env)
    wait_until(lambda: "not reached" in agent.stderr() or "refused" in agent.stderr(), what="the first failed try")
    clock.later(3601)
    assert agent.wait() == 69
    assert "the server was not reached within --join-timeout" in agent.stderr()
