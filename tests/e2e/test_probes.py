"""Evidence before timeouts: agents probe each other's ports, and the results count."""

import datetime
import re
import signal
import socket
import time

import pytest

from agents import fleet  # noqa: F401 (fleet is a fixture)
from bystander import noise  # noqa: F401 (a fixture)
from conftest import wait_until

# Leases are long here: nothing in these tests may wait for an expiry. Nodes that start together are in one epoch, which
# begins as soon as all are ready; growth takes longer.
LONG = ("--ttl", "60", "--gather", "5")
PROVEN_S = 0.15  # seconds from the end of an agent to its proof


def listening(s, epoch):
    return {e["node"] for e in s.events("node_listening") if e["epoch"] == epoch}


def start_listening(fleet, s, n, *options):
    agents = [fleet.start(f"--nnodes=1:{n}", *options, trainer=["--listen"]) for _ in range(n)]
    epoch = fleet.wait_world(n)
    wait_until(lambda: len(listening(s, epoch)) == n, what="LISTENING from all")
    return agents, epoch


def kill(fleet, s, noise, agent, left, above):
    """Kills the agent with SIGKILL: the server knows its death as soon as a peer has probed its trainers' ports, and
    the others continue. Returns their epoch."""
    began, known = time.time(), len(s.events("node_dead"))
    agent.send(signal.SIGKILL)
    epoch = fleet.wait_world(left, above=above)
    dead = s.events("node_dead")[known:]
    # Proven by its ports, and again by proof of termination if that arrives after the start of the next epoch.
    assert 1 <= len(dead) <= 2 and len({event["node"] for event in dead}) == 1
    seconds = datetime.datetime.fromisoformat(dead[0]["time"].replace("Z", "+00:00")).timestamp() - began
    print(f"proven dead {seconds * 1000:.0f} ms after its end")
    assert seconds < noise.bound(PROVEN_S)
    return epoch


def test_one_after_the_other_down_to_one(server, fleet, noise):
    s = server(*LONG)
    agents, epoch = start_listening(fleet, s, 3)
    for left in (2, 1):
        epoch = kill(fleet, s, noise, agents.pop(0), left, epoch)
        wait_until(lambda: len(listening(s, epoch)) == left, what="LISTENING from all")
    assert len(s.events("node_dead")) == 2


def test_two_agents_on_one_machine_reach_each_other(server, fleet):
    s = server(*LONG)
    agents, _ = start_listening(fleet, s, 2)
    wait_until(lambda: {e["node"] for e in s.events("node_verified")} == {e["node"] for e in s.events("node_joined")},
               what="each one's being reached")
    assert not s.events("node_unreached")
    fleet.order("exit 0")
    assert [a.wait() for a in agents] == [0, 0]
    fleet.check_views()


def test_a_fixed_port_is_answered_on_and_then_the_trainers_own(server, fleet, noise):
    s = server(*LONG)
    agents = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        agents.append(fleet.start("--nnodes=1:2", f"--address=127.0.0.1:{port}", trainer=["--listen"]))
    first = fleet.wait_world(2)
    wait_until(lambda: len(listening(s, first)) == 2, what="LISTENING from both")
    fleet.order("exit 1", first, 0)
    again = fleet.wait_world(2, above=first)
    wait_until(lambda: len(listening(s, again)) == 2, what="LISTENING from both")
    kill(fleet, s, noise, agents[0], 1, again)


@pytest.mark.parametrize("address", ["240.0.0.1", "255.255.255.255:4711"])
def test_an_address_that_leads_nowhere_is_refused_and_stops_nothing(server, fleet, address):
    s = server(*LONG, "--probe-wait", "2", "--allow-address=192.0.2.0/24,240.0.0.0/4")
    agents, first = start_listening(fleet, s, 1)
    a = fleet.start("--nnodes=1:1", "--address", address)
    assert a.wait() == 2
    said = re.search(r"tfe-agent: no other node of job default reached this node at (\S+):\d+ within (?:[2-9]|\d\d) s .*--address",
                     a.stderr())
    assert said and said[1] == address.partition(":")[0], a.stderr()
    assert [e["reason"] for e in s.events("node_refused")] and s.events("node_unreached")[0]["tried"] == said[1]
    assert [e["epoch"] for e in s.events("epoch")] == [first]
    fleet.order("exit 0")
    assert agents[0].wait() == 0


def test_after_a_server_restart_agents_know_each_other_again(server, fleet, noise):
    s = server(*LONG)
    agents, first = start_listening(fleet, s, 2)
    assert s.stop(signal.SIGKILL) == -signal.SIGKILL
    s = server(*LONG, port=s.port)
    wait_until(lambda: len(s.events("node_back")) == 2, what="the return of both")
    assert fleet.last_epoch() == first
    fleet.order("kill 9", first, 1)
    second = fleet.wait_world(2, above=first)
    wait_until(lambda: len(listening(s, second)) == 2, what="LISTENING from both")
    kill(fleet, s, noise, agents[0], 1, second)
    assert s.events("epoch")[-1]["cause"] == "node_lost"


@pytest.mark.parametrize("address, says", [("192.0.2.7", None), ("169.254.169.254", None), ("[::ffff:10.0.0.1]", None),
                                           ("somewhere.example", "cannot resolve")])
def test_an_address_that_is_not_its_own_is_refused_at_once(server, fleet, address, says):
    s = server(*LONG, "--allow-address=198.51.100.0/24,10.0.0.0/31,2001:db8::/33")
    agent = fleet.start("--nnodes=1:1", "--address", address)
    if address == "[::ffff:10.0.0.1]":  # a private address, in any notation
        wait_until(lambda: s.events("node_ready"), what="its being ready")
        return
    assert agent.wait() == 2
    assert (says or f"address {address} rejected: this node connects from 127.0.0.1") in agent.stderr(), agent.stderr()
    assert not s.events("epoch")


@pytest.mark.parametrize("value", ["10.0.0.0/33", "host", "10.0.0.0/8/8", "10.0.0.0/-1", "2001:db8::/129", "10.0.0.0/"])
def test_an_allowed_address_that_makes_no_sense_is_named(server, value):
    s = server("--allow-address", value, ready=False)
    assert s.process.wait(30) == 2 and "comma-separated networks" in s.log.read_text()
