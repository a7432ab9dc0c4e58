"""Nodes join and leave: epochs, ranks, spares, one view for all."""

import pytest
import os
import signal

from agents import TOGETHER, fleet  # noqa: F401 (fleet is a fixture)
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
    assert {n["role"] for n in nodes} == {"member"}
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


@pytest.mark.heavy
def test_four_at_once_make_two_members_and_two_spares(server, fleet, status):
    server(*CALM)
    for i in range(30):
        folder = fleet.folder / f"round{i}"
        agents = [fleet.start("--nnodes=1:2", "--job", f"j{i}", folder=folder) for _ in range(4)]

        def settled():
            nodes = [n for j in status(f"j{i}") for n in j["nodes"]] if known(status, f"j{i}") else []
            roles = sorted(n["role"] for n in nodes)
            return nodes if roles == ["member", "member", "spare", "spare"] else None

        nodes = wait_until(settled, what="two members and two spares")
        assert sorted(n["rank"] for n in nodes if n["role"] == "member") == [0, 1]
        assert {n["rank"] for n in nodes if n["role"] == "spare"} == {None}
        last = fleet.wait_world(2, folder=folder)
        assert {s["env"]["TFE_WORLD_SIZE"] for s in fleet.starts(last, folder)} == {"2"}
        fleet.order("exit 0", folder=folder)
        assert [agent.wait() for agent in agents] == [0, 0, 0, 0]
        fleet.check_views(folder)
        assert all(len(s["cluster"]) <= 2 for s in fleet.starts(folder=folder))


def known(status, job):
    return any(j["job"] == job for j in status())


def test_spare_replaces_a_lost_member(server, fleet, status):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:2") for _ in range(3)]
    first = fleet.wait_world(2)
    members = {n["pid"] for n in status()[0]["nodes"] if n["role"] == "member"}
    spare = next(agent for agent in agents if agent.pid not in members)
    lost = next(agent for agent in agents if agent.pid in members)
    lost.send(signal.SIGKILL)
    fleet.wait_world(2, above=first)
    assert spare.pid in {n["pid"] for n in status()[0]["nodes"] if n["role"] == "member"}
    assert s.events("epoch")[-1]["cause"] == "node_lost"
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents if agent is not lost] == [0, 0]
    fleet.check_views()


def test_a_peer_that_fails_after_a_loss_ends_the_wait_for_the_lease(server, fleet):
    """TensorFlow's survivors exit with 1 soon after a peer's death: that is a loss, and not a failure of their own."""
    s = server("--ttl", "60", "--gather", "0.3", "--max-restarts", "0")
    agents = [fleet.start("--nnodes=1:2", TOGETHER) for _ in range(2)]
    first = fleet.wait_world(2)
    survivor = next(n["rank"] for n in fleet.starts(first) if agents[0].guard_pid == n["ppid"])
    guard = agents[1].guard_pid
    os.kill(guard, signal.SIGSTOP)  # otherwise the guard proves its agent's death before the survivor can fail
    for pid in (agents[1].pid, guard):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: s.events("node_suspect"), what="the server's noticing the lost connection")
    fleet.order("exit 1", first, survivor)
    fleet.wait_world(1, above=first)
    assert s.events("epoch")[-1]["cause"] == "node_lost"
    fleet.order("exit 0")
    assert agents[0].wait() == 0


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


def test_a_node_that_leaves_is_drained(server, fleet):
    s = server(*CALM)
    a = fleet.start("--nnodes=1:2")
    b = fleet.start("--nnodes=1:2")
    first = fleet.wait_world(2)
    b.send(signal.SIGTERM)
    assert b.wait() == 143
    fleet.wait_world(1, above=first)
    assert s.events("epoch")[-1]["cause"] == "preempted"
    fleet.order("exit 0")
    assert a.wait() == 0


def test_two_jobs_side_by_side(server, fleet, status):
    server(*CALM)
    x, y = fleet.folder / "x", fleet.folder / "y"
    a = fleet.start("--nnodes=1:2", "--job=x", folder=x)
    b = fleet.start("--nnodes=1:2", "--rdzv-id=y", "--nproc-per-node=2", folder=y)
    fleet.wait_world(1, folder=x)
    fleet.wait_world(2, folder=y)
    assert {j["job"]: j["state"] for j in status()} == {"x": "running", "y": "running"}
    pids = [s["pid"] for s in fleet.starts(folder=y)]
    fleet.order("exit 0", folder=x)
    assert a.wait() == 0
    assert {j["job"]: j["state"] for j in status()} == {"x": "succeeded", "y": "running"}
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    fleet.order("exit 0", folder=y)
    assert b.wait() == 0


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
