"""An operator's verbs: nodes, drain, evict, stop, with real agents and with scripted nodes."""

import json
import os
import signal

import pytest
from agents import TOGETHER, fleet  # noqa: F401 (fleet is a fixture)
from conftest import wait_until
from raw_client import BAD_REQUEST, EVICTED, RawClient, node_id
from programs import descendants, is_alive
from test_ctl import NODE_KEYS

# Leases are long: nothing here waits for an expiry, and scripted nodes do not renew.
QUICK = ("--gather", "0.3")
DRAINED = 4


def node_of(nodes, agent):
    return next(n for n in nodes() if n["pid"] == agent.pid)


def agent_at(nodes, agents, rank):
    pid = next(n["pid"] for n in nodes() if n["rank"] == rank)
    return next(agent for agent in agents if agent.pid == pid)


# --- drain ---------------------------------------------------------------------------------------------


def test_a_drained_member_exits_0_and_the_others_go_on(server, fleet, ctl, nodes):
    s = server()
    agents = [fleet.start("--nnodes=1:3", TOGETHER) for _ in range(3)]
    first = fleet.wait_world(3)
    leaver = agent_at(nodes, agents, 0)
    stayers = [agent for agent in agents if agent is not leaver]
    name = node_of(nodes, leaver)["node"]
    below = descendants(leaver.pid)

    done = ctl("drain", "--in=1m", "--wait", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"node {name} leaves its job; its agent will exit 0\n"
    assert [n for n in nodes() if n["node"] == name] == []  # --wait
    assert leaver.wait() == 0
    assert "drained by an operator" in leaver.stderr()
    assert [pid for pid in below if is_alive(pid)] == []
    second = fleet.wait_world(2, above=first)
    assert second == first + 1
    assert s.events("epoch")[-1]["cause"] == "drained"
    assert [e["node"] for e in s.events("node_draining")] == [name]
    assert sorted(n["pid"] for n in nodes()) == sorted(agent.pid for agent in stayers)
    assert sorted(n["rank"] for n in nodes()) == [0, 1]
    again = ctl("drain", name)
    assert again.returncode == 1 and name in again.stderr
    fleet.order("exit 0")
    assert [agent.wait() for agent in stayers] == [0, 0]
    fleet.check_views()


def test_a_leaving_node_is_shown_as_such(server, ctl, nodes):
    # Both must be in the first epoch, which begins as soon as both are ready.
    s = server("--ttl", "60", "--gather", "10", "--stop-grace", "20")
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        a.join("node-b", nodes=(1, 2))
        a.ready(1)
        b.join("node-a", nodes=(1, 2))
        b.ready(1, ports=(4712,))
        a.receive_until("START")
        assert ctl("drain", "label-node-a").returncode == 0
        assert b.receive_until("STOP")[1] == {1: [1], 2: [1], 3: [5], 4: [b"label-node-a"]}  # planned, drained
        leaving = next(n for n in nodes() if n["node"] == node_id("node-a"))
        assert (leaving["state"], leaving["rank"]) == ("leaving", 1)
        assert ctl("drain", "label-node-a").returncode == 0  # repeating the order is harmless
        b.send("EXITED", {1: 1, 5: 1})
        a.receive_until("STOP")
        a.send("EXITED", {1: 1, 5: 1})
        a.ready(2)
        name, finish = b.receive_until("FINISH", "START")
        assert (name, finish[1]) == ("FINISH", [DRAINED])
        assert b.is_closed()
        assert a.receive_until("START")[1][6] == [5]  # cause: drained
        assert [n["node"] for n in nodes()] == [node_id("node-b")]


# --- evict ---------------------------------------------------------------------------------------------


def test_an_evicted_member_exits_1_and_the_others_go_on(server, fleet, ctl, nodes):
    s = server(*QUICK)
    agents = [fleet.start("--nnodes=1:2", TOGETHER) for _ in range(2)]
    first = fleet.wait_world(2)
    victim, stayer = agent_at(nodes, agents, 1), agent_at(nodes, agents, 0)
    name = node_of(nodes, victim)["node"]
    done = ctl("evict", name, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"done": "evict", "node": name}
    assert victim.wait() == 1
    assert "evicted" in victim.stderr()
    fleet.wait_world(1, above=first)
    assert s.events("epoch")[-1]["cause"] == "drained"
    assert [e["node"] for e in s.events("node_evicted")] == [name]
    fleet.order("exit 0")
    assert stayer.wait() == 0


def test_who_was_evicted_is_not_let_in_again(server, ctl):
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as a:
        a.join("node-a", nodes=(2, 2))
        assert ctl("evict", node_id("node-a")).returncode == 0
        assert a.receive_until("REFUSED")[1][1] == [EVICTED]
        assert a.is_closed()
    with RawClient(s.port, s.token("agent")) as a:
        name, refused = a.join("node-a", nodes=(2, 2))
        assert (name, refused[1]) == ("REFUSED", [EVICTED])


# --- stop ----------------------------------------------------------------------------------------------


def test_a_stopped_job_ends_for_all_and_stays_so(server, fleet, ctl, status):
    s = server(*QUICK)
    agents = [fleet.start("--nnodes=1:2", TOGETHER) for _ in range(2)]
    fleet.wait_world(2)
    agents.append(fleet.start("--nnodes=1:2"))
    wait_until(lambda: len(status()[0]["nodes"]) == 3, what="a spare")
    done = ctl("cancel", "default", "--json")
    assert json.loads(done.stdout) == {"done": "cancel", "job": "default"}
    assert [agent.wait() for agent in agents] == [1, 1, 1]
    assert all("job default was cancelled by an operator" in agent.stderr() for agent in agents)
    assert status()[0]["state"] == "cancelled"
    assert ctl("cancel", "default").returncode == 0  # repeats the order
    late = fleet.start("--nnodes=1:2")
    assert late.wait() == 1 and "job default run 1 ended cancelled at 20" in late.stderr()
    assert len(s.events("job_stopping")) == 1


# --- authorisation and targets -------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["drain", "evict", "cancel"])
def test_orders_are_an_admins(server, state_dir, ctl, verb):
    s = server()
    with RawClient(s.port, s.token("agent")) as a:
        a.join("node-a", nodes=(2, 2))
        what = "default" if verb == "cancel" else node_id("node-a")
        for role in ("observer", "agent"):
            done = ctl(verb, what, "--token-file", str(state_dir / f"{role}.token"))
            assert (done.returncode, done.stdout) == (77, ""), done.stderr
        (state_dir / "admin.token").rename(state_dir / "put-away")
        assert ctl(verb, what).returncode == 77  # the observer token is not even tried
        assert node_id("node-a") in ctl("nodes").stdout
        assert s.events("ordered") == []
        done = ctl(verb, what, "--token-file", str(state_dir / "put-away"))
        assert done.returncode == 0, done.stderr
        assert [(e["message"], e["job"]) for e in s.events("ordered")] == [
            (f"admin (state-directory) ordered {verb.upper()} of {what}: done", "default")]


@pytest.mark.parametrize("verb, what", [("drain", "nobody"), ("evict", "nobody"), ("cancel", "nothing"), ("forget", "nothing")])
def test_what_is_not_there_is_1(server, ctl, verb, what):
    server()
    done = ctl(verb, what)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tfe-ctl: there is no ") and f'"{what}"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_label_must_mean_one_node(server, ctl, nodes):
    s = server()
    clients = [RawClient(s.port, s.token("agent")) for _ in range(7)]
    try:
        for i, client in enumerate(clients[:6]):
            client.join(f"node-{i}", job="j" if i < 5 else "k", nodes=(6, 6), f3="box")
        clients[6].join("box-of-one", job="k", nodes=(6, 6), f3=node_id("node-0"))
        done = ctl("drain", "box")
        assert (done.returncode, done.stdout) == (2, "")
        assert '"box" is ambiguous, 6 nodes match' in done.stderr and f"{node_id('node-0')} (job j)" in done.stderr
        assert len(nodes()) == 7
        # An id takes precedence over a label.
        assert ctl("drain", node_id("node-0")).returncode == 0
        assert clients[0].receive_until("FINISH")[1][1] == [DRAINED]
        assert ctl("evict", node_id("node-0")).returncode == 0  # now it is a label
        assert clients[6].receive_until("REFUSED")[1][1] == [EVICTED]
        with RawClient(s.port, s.token("admin")) as admin:
            admin.send("EVICT", {1: "box"})
            assert admin.receive()[1][1] == [BAD_REQUEST]
    finally:
        for client in clients:
            client.sock.close()


@pytest.mark.parametrize("arguments", [["drain"], ["evict"], ["cancel"], ["drain", "a", "b"], ["cancel", "a/b"], ["drain", ""],
                                       ["evict", "a\tb"], ["nodes", "a", "b"], ["nodes", "a/b"], ["evict", "x" * 256]])
def test_usage_errors_are_2(server, ctl, arguments):
    server()
    done = ctl(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


# --- nodes ---------------------------------------------------------------------------------------------


def test_nodes_of_all_jobs_and_of_one(server, ctl, nodes, status):
    s = server()
    assert ctl("nodes").stdout == "no nodes\n"
    assert nodes() == []
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        a.join("node-a", job="alpha", nodes=(2, 2))
        b.join("node-b", job="beta", nodes=(2, 2))
        lines = ctl("nodes").stdout.splitlines()
        assert lines[0].split() == ["JOB", "NAME", "NODE", "ROLE", "RANK", "ADDRESS", "PID"]
        assert lines[1].split() == ["alpha", "label-node-a", node_id("node-a"), "preparing", "-", "-", str(os.getpid())]
        assert len(lines) == 3
        assert [(n["job"], n["node"]) for n in nodes()] == [("alpha", node_id("node-a")), ("beta", node_id("node-b"))]
        assert all(set(n) == NODE_KEYS | {"job"} for n in nodes())
        same = [{**n, "job": j["job"]} for j in status() for n in j["nodes"]]
        assert nodes() == same
        assert [n["node"] for n in nodes("beta")] == [node_id("node-b")]
        assert ctl("nodes", "gamma").returncode == 1


def test_a_job_that_is_over_is_forgotten_by_order_and_by_age(server, fleet, ctl, status, state_dir):
    s = server()
    agent = fleet.start("--nnodes=1", "--job=old")
    fleet.wait_world(1)
    goes_on = ctl("forget", "old")
    assert goes_on.returncode == 1 and "may still run" in goes_on.stderr
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert ctl("epochs", "old").returncode == 0
    assert ctl("forget", "old").stdout == "job old is forgotten\n"
    wait_until(lambda: status() == [], what="its end")
    assert ctl("epochs", "old").returncode == 1
    assert s.stop() == 0
    s = server("--keep-history=1s")
    assert status() == []
    assert fleet.start("--nnodes=1", "--job=old").wait() == 0  # the order is still in force
    assert s.events("job_finished")
    wait_until(lambda: status() == [], what="that it is old")


# --- grow ----------------------------------------------------------------------------------------------


def waits_of(nodes, name):
    return next((n["waits"] or "" for n in nodes() if n["name"] == name), "")


def adopted(server, fleet, *options):
    """Starts a job of one node of 1:2 that a restarted server has adopted, so that it counts as old."""
    s = server(*QUICK)
    a = fleet.start("--nnodes=1:2", "--node-name=a", *options)
    first = fleet.wait_world(1)
    s.stop(signal.SIGKILL)
    s = server(*QUICK, port=s.port)
    wait_until(lambda: s.events("node_back"), what="its return")
    return s, a, first


def test_growth_that_would_throw_work_away_waits_for_an_order(server, fleet, ctl, status, nodes):
    s, a, first = adopted(server, fleet)
    b = fleet.start("--nnodes=1:2", "--node-name=b")
    said = wait_until(lambda: [text for text in [waits_of(nodes, "b")] if "not reported a checkpoint" in text], what="why it waits")[0]
    assert "would be repeated" in said and "tfe-ctl grow default" in said
    assert "not reported a checkpoint" in status()[0]["waits"]
    wait_until(lambda: "this training has not reported a checkpoint" in b.stderr(), what="the same at the agent")
    assert "not reported a checkpoint" in s.events("growth_waits")[0]["reason"]
    assert any(e["kind"] == "growth_waits" and "not reported a checkpoint" in e["message"] for e in json.loads(ctl("events", "--json").stdout)["events"])
    assert fleet.last_epoch() == first
    assert ctl("grow", "default").stdout == "job default begins its next epoch\n"
    fleet.wait_world(2, above=first)
    assert s.events("epoch")[-1]["cause"] == "joined"
    again = ctl("grow", "default")
    assert again.returncode == 1 and again.stderr.startswith("tfe-ctl: ")
    fleet.order("exit 0")
    assert [a.wait(), b.wait()] == [0, 0]


@pytest.mark.parametrize("option", ["--grow=never", "--no-grow"])
def test_no_growth_but_by_an_order(server, fleet, ctl, nodes, option):
    server(*QUICK)
    a = fleet.start("--nnodes=1:2", "--node-name=a", option)
    first = fleet.wait_world(1)
    b = fleet.start("--nnodes=1:2", "--node-name=b", option)
    wait_until(lambda: "does not grow" in waits_of(nodes, "b"), what="why it waits")
    wait_until(lambda: "does not grow" in b.stderr(), what="the same at the agent")
    assert fleet.last_epoch() == first
    assert ctl("grow", "default").returncode == 0
    fleet.wait_world(2, above=first)
    fleet.order("exit 0")
    assert [a.wait(), b.wait()] == [0, 0]


# --- resize --------------------------------------------------------------------------------------------


def test_a_job_is_made_smaller_and_larger_while_it_runs(server, fleet, ctl, status):
    s = server(*QUICK, "--grow-wait=0.2")
    agents = [fleet.start("--nnodes=1:2", TOGETHER) for _ in range(3)]
    first = fleet.wait_world(2)
    assert ctl("scale", "default", "1:3").stdout == "job default is scaled\n"
    second = fleet.wait_world(3, above=first)
    assert (status()[0]["min"], status()[0]["max"]) == (1, 3)
    s.kill()
    server(*QUICK, port=s.port)
    wait_until(lambda: [n["state"] for n in status()[0]["nodes"] if n["pid"] > 0] == ["member"] * 3, what="all are back")
    assert fleet.last_epoch() == second, "they bring 1:2, and train on in an epoch of three"
    assert ctl("scale", "default", "1:1").returncode == 0
    fleet.wait_world(1, above=second)
    late = fleet.start("--nnodes=4:4")
    wait_until(lambda: "--nnodes is ignored: an operator has set the sizes of job default to 1:1" in late.stderr(), what="that it is told")
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    over = ctl("scale", "default", "1:1")
    assert over.returncode == 1 and "has ended" in over.stderr


@pytest.mark.parametrize("line", [["j"], ["j", "2:1"], ["j", "0:1"], ["j", "x"], ["j", "1:2", "3"]])
def test_sizes_are_checked_where_they_are_typed(ctl, line):
    assert ctl("scale", *line).returncode == 2


def test_the_same_command_with_other_sizes_after_an_end(server, fleet):
    server(*QUICK)
    agent = fleet.start("--nnodes=1:1")
    first = fleet.wait_world(1)
    agent.send(signal.SIGINT)
    assert agent.wait() == 130
    fleet.start("--nnodes=1:3", "--nproc-per-node=2", "--new-run")
    fleet.wait_world(2, above=first)
    assert "--new-run is ignored: run 1 of job default has not ended" in fleet.agents[-1].stderr()
