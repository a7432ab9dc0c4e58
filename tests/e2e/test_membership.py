"""Nodes join and leave: epochs, ranks, spares, one view for all."""

import os
import signal

from agents import fleet  # noqa: F401 (fleet is a fixture)
from conftest import wait_until

# Leases are long enough for a busy machine, which may stall for 3 s: a guard proves that a killed node is dead.
CALM = ("--gather", "0.3")


def test_one_three_two_three(server, fleet, status):
    s = server(*CALM, "--gather", "2")  # the second and third node in one epoch
    a = fleet.start("--nnodes=1:4")
    one = fleet.wait_world(1)
    b = fleet.start("--nnodes=1:4")
    c = fleet.start("--nnodes=1:4")
    three = fleet.wait_world(3, above=one)
    b.send(signal.SIGKILL)
    two = fleet.wait_world(2, above=three)
    d = fleet.start("--nnodes=1:4")
    again = fleet.wait_world(3, above=two)

    # The server may not know a trainer's pid yet when the trainer has logged it.
    wait_until(lambda: all(n["trainer_pids"] for n in status()[0]["nodes"]), what="the trainers' pids")
    nodes = status()[0]["nodes"]
    assert sorted(n["rank"] for n in nodes) == [0, 1, 2]
    assert {n["state"] for n in nodes} == {"member"}
    assert {n["pid"] for n in nodes} == {a.pid, c.pid, d.pid}
    # Survivors keep their rank; the first node stays rank 0.
    assert {n["pid"]: n["rank"] for n in nodes}[a.pid] == 0
    trainers = {s["rank"]: s["pid"] for s in fleet.starts(again)}
    expected = {rank: [pid] for rank, pid in trainers.items()}
    wait_until(lambda: {n["rank"]: n["trainer_pids"] for n in status()[0]["nodes"]} == expected, what="their trainers")

    fleet.order("exit 0")
    assert [agent.wait() for agent in (a, c, d)] == [0, 0, 0]
    fleet.check_views()
    epochs = s.events("epoch")
    assert [e["epoch"] for e in epochs] == list(range(1, len(epochs) + 1))
    assert epochs[0]["cause"] == "start" and {"node_lost", "joined"} <= {e["cause"] for e in epochs}
    assert status()[0]["state"] == "succeeded"


def test_below_min_the_job_waits_with_trainers_stopped(server, fleet, status):
    server(*CALM)
    a = fleet.start("--nnodes=2:3")
    b = fleet.start("--nnodes=2:3")
    first = fleet.wait_world(2)
    pids = [s["pid"] for s in fleet.starts(first)]
    b.send(signal.SIGTERM)
    assert b.wait() == 143
    wait_until(lambda: status()[0]["state"] == "waiting", what="the job's waiting")
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), what="the trainers' end")
    assert a.process.poll() is None
    fleet.start("--nnodes=2:3")
    second = fleet.wait_world(2, above=first)
    assert second > first
    fleet.order("exit 0")
    assert a.wait() == 0


def test_several_trainers_a_node(server, fleet):
    server(*CALM)
    agents = [fleet.start("--nnodes=2:2", "--nproc-per-node=2") for _ in range(2)]
    epoch = fleet.wait_world(4)
    starts = sorted(fleet.starts(epoch), key=lambda s: s["rank"])
    assert [(s["env"]["TFE_RANK"], s["env"]["TFE_LOCAL_RANK"], s["env"]["LOCAL_RANK"]) for s in starts] == \
        [("0", "0", "0"), ("1", "1", "1"), ("2", "0", "0"), ("3", "1", "1")]
    assert {s["env"]["WORLD_SIZE"] for s in starts} == {"4"}
    assert starts[0]["env"]["TFE_NODE"] == starts[1]["env"]["TFE_NODE"] != starts[2]["env"]["TFE_NODE"]
    # One trainer of four dies: all are restarted.
    fleet.order("kill 9", epoch, 3)
    again = fleet.wait_world(4, above=epoch)
    assert {s["env"]["TFE_RESTART_COUNT"] for s in fleet.starts(again)} == {"1"}
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]
