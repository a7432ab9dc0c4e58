"""tfe-ctl demand and GET /api/v1/demand: nodes that jobs request from the pool, nodes in it, and pending ones."""

import json
import subprocess
import time

import pytest

from conftest import wait_until
from pooled import Waiting, order, spec
from programs import clean_environment, program
from web import start


@pytest.fixture
def demand(ctl):
    def ask():
        done = ctl("demand", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["demand"]
    return ask


def labels_of(row):
    return ",".join(f"{key}={value}" for key, value in row["labels"].items())


def wanted(rows):
    """{(labels, role): (min, wanted, assigned, idle, pending)}"""
    return {(labels_of(r), r["role"]): tuple(r[key] for key in ("min", "wanted", "assigned", "idle", "pending")) for r in rows if r["role"]}


def there(rows):
    """{labels: (nodes, idle)}"""
    return {labels_of(r): (r["pool_nodes"], r["idle"]) for r in rows if not r["role"]}


def test_demand_counts_by_labels_and_role(server, demand, ctl):
    s = server()
    token = s.token("agent")
    assert demand() == [] and "no job requests" in ctl("demand").stdout
    with Waiting(s.port, token, "a") as a:
        a.receive_until("WELCOME")
        assert order(s, "SUBMIT", spec("fast", sizes=(2, 2), labels={"zone": "b", "gpu": "a100"})) == "DONE"
        rows = demand()
        assert wanted(rows) == {("gpu=a100,zone=b", "worker"): (2, 2, 0, 0, 2)}
        assert there(rows) == {"": (1, 1)}
        # A job with a chief and two ps whose nodes need other labels, and a job that fits the idle node.
        assert order(s, "SUBMIT", spec("served", sizes=(1, 3), ps=2, chief=True, role_labels={"ps": {"disk": "much"}})) == "DONE"
        assert order(s, "SUBMIT", spec("more", sizes=(1, 1), labels={"gpu": "a100", "zone": "b"})) == "DONE"
        rows = demand()
        # An idle node counts once: for the chief or for a worker, and never for ps.
        assert wanted(rows)[("gpu=a100,zone=b", "worker")] == (3, 3, 0, 0, 3)
        assert wanted(rows)[("disk=much", "ps")] == (2, 2, 0, 0, 2)
        pair = wanted(rows)[("", "worker")], wanted(rows)[("", "chief")]
        assert sum(row[3] for row in pair) == 1 and sum(row[4] for row in pair) == sum(row[1] for row in pair) - 1
        text = ctl("demand").stdout
        assert "PENDING" in text and "gpu=a100,zone=b" in text


def test_demand_follows_assignment_and_stops_at_a_quota(server, demand, token):
    s = server()
    token("--role=admin", "--job=team-*", "--quota=3")
    assert order(s, "SUBMIT", spec("team-a", sizes=(1, 9))) == "DONE"
    assert wanted(demand()) == {("", "worker"): (1, 3, 0, 0, 3)}
    assert order(s, "SUBMIT", spec("team-b", sizes=(2, 2))) == "DONE"
    assert wanted(demand()) == {("", "worker"): (3, 3, 0, 0, 3)}
    with Waiting(s.port, s.token("agent"), "a") as a:
        a.assigned()
        assert wanted(demand()) == {("", "worker"): (3, 3, 1, 0, 2)}
    assert order(s, "CANCEL", {1: "team-a"}) == "DONE"
    assert order(s, "CANCEL", {1: "team-b"}) == "DONE"
    assert wanted(demand()) == {}


def test_machine_that_will_go_is_pending_again_with_its_deadline(server, demand):
    s = server()
    assert order(s, "SUBMIT", spec("train", sizes=(1, 1))) == "DONE"
    with Waiting(s.port, s.token("agent"), "a") as a:
        a.assigned()
        assert wanted(demand()) == {("", "worker"): (1, 1, 1, 0, 0)}
        began = time.time() * 1000
        a.send("NOTICE", {1: 2, 2: 120000})  # preemption notice
        row = wait_until(lambda: [r for r in demand() if r["role"] and r["pending"] == 1], what="a machine to be pending")[0]
        assert began + 119000 < row["deadline_ms"] < began + 140000
        a.send("NOTICE", {1: 2, 3: True})  # notice withdrawn
        row = wait_until(lambda: [r for r in demand() if r["role"] and r["pending"] == 0], what="none")[0]
        assert row["deadline_ms"] is None


def test_wait_returns_when_the_demand_has_changed(server, state_dir, demand):
    s = server()
    assert order(s, "SUBMIT", spec("one")) == "DONE"
    waiting = subprocess.Popen([program("tfe-ctl"), "--state-dir", str(state_dir), "demand", "--json", "--wait"], stdout=subprocess.PIPE,
                               text=True, env=clean_environment())
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.communicate(timeout=3)
        assert order(s, "SUBMIT", spec("two", sizes=(2, 2))) == "DONE"
        out, _ = waiting.communicate(timeout=20)
        assert waiting.returncode == 0
        assert wanted(json.loads(out)["demand"]) == {("", "worker"): (3, 3, 0, 0, 3)}
    finally:
        waiting.kill()
        waiting.wait()


def test_demand_over_http_is_what_tfe_ctl_prints(server, state_dir, tmp_path, demand):
    s = server()
    with start(state_dir, tmp_path, server=s) as web:
        assert order(s, "SUBMIT", spec("train", sizes=(1, 2))) == "DONE"
        assert web.get("/api/v1/demand")["demand"] == demand() != []


def test_token_for_some_jobs_does_not_see_the_demand(server, token, ctl):
    server()
    scoped = token("--role=observer", "--job=team-*")
    done = ctl("demand", "--token", scoped)
    assert done.returncode == 77 and "limited to some jobs" in done.stderr
