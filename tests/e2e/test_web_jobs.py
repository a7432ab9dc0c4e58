"""Jobs over HTTP: submitted by the rules of tfe-ctl, with the same messages, by principals with the right to give
orders; the queue and the pool as in tfe-ctl."""

import contextlib
import json
import socket
import time

import pytest

from conftest import DEADLINE, wait_until
from pooled import Waiting, agent_of, starts
from test_submit import CHANGES, FULL
from web import start

JOB = {"name": "train", "workers": {"min": 1, "max": 2}, "source": {"path": "/srv/code"}, "command": ["python", "train.py"]}


@pytest.fixture
def web(server, state_dir, tmp_path):
    with start(state_dir, tmp_path, server=server("--ttl=2m")) as running:  # clients that do not renew stay
        yield running


class Page:
    """The state of an open page: {event: {key: row}}."""

    def __init__(self, web, path):
        self.events, self.rows = web.listen(path), {}

    def wait(self, wanted, what):
        deadline = time.monotonic() + DEADLINE
        while not wanted(self.rows):
            name, value = next(self.events)
            if "set" in value:
                rows = self.rows.setdefault(name, {})
                if value.get("whole"):
                    rows.clear()
                rows |= value["set"]
                for key in value.get("gone", ()):
                    del rows[key]
            assert time.monotonic() < deadline, (what, self.rows)
        return self.rows


def queue(web):
    """{job: state}"""
    return {row["job"]: row["state"] for row in web.get("/api/v1/jobs")["jobs"]}


def test_a_job_s_life_over_http(web, ctl):
    s = web.server
    web.login(s.token("admin"))
    page = Page(web, "/api/v1/stream?pool=1&job=train")
    page.wait(lambda rows: [rows.get(name) for name in ("fleet", "pool", "conditions")] == [{}, {}, {}], "nothing")
    assert web.order("/api/v1/jobs", JOB).json == {"done": "submit", "name": "train"}
    assert queue(web) == {"train": "waiting"}
    rows = page.wait(lambda rows: rows["fleet"] and rows["fleet"]["job/train"]["waits"] and "Waiting" in rows["conditions"], "a job that waits")
    row = rows["fleet"]["job/train"]
    assert row["priority"] == 500 and abs(row["since_ms"] - time.time() * 1000) < 60000
    assert rows["conditions"]["job/train"]["spec"]["command"] == ["python", "train.py"] and rows["conditions"]["Created"]["status"]
    wait_until(lambda: 0 < web.gauges()["tfe_pool_queue_oldest_seconds"] < 60, what="the age of the queue")

    taken = web.order("/api/v1/jobs", JOB)
    assert (taken.code, taken.json["code"]) == (409, "conflict")
    assert taken.json["detail"] in ctl("submit", "--name=train", "--", "true").stderr

    with Waiting(s.port, s.token("agent"), "a", ["gpu=a100"]) as node:
        assignment, job, fields = node.assigned()
        assert job == "train"
        page.wait(lambda rows: [(n["name"], n["state"], n["job"], n["labels"]) for n in rows["pool"].values()] == [
            ("label-a", "assigned", "train", {"gpu": "a100"})], "the node at work")
        with agent_of(s, fields, "child", nodes=(1, 2)) as child:
            starts(child)
            wait_until(lambda: queue(web) == {"train": "running"}, what="the job to run")
            page.wait(lambda rows: rows["conditions"].get("Running", {}).get("status"), "that it runs")
            for path, words in (("/api/v1/jobs", ["jobs"]), ("/api/v1/pool", ["pool"]),
                                ("/api/v1/jobs/train", ["describe", "train"])):
                wait_until(lambda: web.get(path) == json.loads(ctl(*words, "--json").stdout), what=f"{path} as {words}")
            numbers = web.gauges()
            assert (numbers['tfe_pool_nodes{state="assigned"}'], numbers['tfe_pool_nodes{state="free"}']) == (1, 0)
            assert (numbers['tfe_pool_jobs{state="running"}'], numbers["tfe_pool_assigned_total"]) == (1, 1)
            assert numbers["tfe_pool_queue_oldest_seconds"] == 0
            assert web.order("/api/v1/jobs/train/scale", {"min": 1, "max": 5}).code == 200
            assert web.get("/api/v1/jobs")["jobs"][0]["max"] == 5
            assert web.order("/api/v1/jobs/train/restart").json["code"] == "conflict"
            assert web.order("/api/v1/jobs/train/suspend").json == {"done": "suspend", "name": "train"}
            assert node.released() == assignment
            wait_until(lambda: queue(web) == {"train": "suspended"}, what="a job that is suspended")
        node.freed(assignment)
        assert web.order("/api/v1/jobs/train/resume").code == 200
        again, _, _ = node.assigned()
        assert again > assignment
        assert web.order("/api/v1/jobs/train/cancel").code == 200
        assert queue(web) == {"train": "cancelled"}
        assert web.order("/api/v1/jobs/train/cancel").code == 200  # a finished job is unchanged
        assert node.released() == again
        node.freed(again)
        wait_until(lambda: web.order("/api/v1/jobs/train/restart").code == 200, what="its end in the core")
        assert node.assigned()[0] > again
    whats = [row["what"] for row in web.get("/api/v1/audit")["audit"]]
    assert whats[:10] == ["SUBMIT", "SUBMIT", "SUBMIT", "SCALE", "RERUN", "SUSPEND", "RESUME", "CANCEL", "CANCEL", "RERUN"]
    page.events.close()


def test_what_tfe_ctl_refuses_is_refused_with_its_sentence(web, ctl, tmp_path):
    web.login(web.server.token("admin"))
    file = tmp_path / "job.json"
    for body in [{**FULL, field: value} for field, value in CHANGES] + [{}, {"kind": "Pod", "apiVersion": "v1"}]:
        file.write_text(json.dumps(body))
        said = ctl("submit", "--dry-run", "-f", str(file))
        assert said.returncode != 0
        refused = web.order("/api/v1/jobs", body)
        assert (refused.code, refused.json["code"]) == (400, "bad_request"), body
        assert said.stderr == f"tfe-ctl: {file}: {refused.json['detail']}\n"
    for body in ("[]", "{", "", '{"name": "a", "name": "b"}', '{"name": "a\\u0000"}', "[" * 30000):
        assert web.order("/api/v1/jobs", body or None).code == 400, body[:40]
    for path, body in (("a%20b/suspend", None), ("train/scale", {"min": 3, "max": 2}), ("train/scale", {"min": 1, "max": 2, "ps": 0}),
                       ("train/scale", {"min": 1, "max": 2, "ps": "2"}), ("train/scale", None)):
        assert web.order(f"/api/v1/jobs/{path}", body).json["code"] == "bad_request", path
    for verb in ("suspend", "resume", "cancel", "restart"):
        assert web.order(f"/api/v1/jobs/nobody/{verb}").json["code"] == "no_such_job"
    assert web.ask("/api/v1/jobs/nobody").json["code"] == "no_such_job"
    assert queue(web) == {}


def test_files_of_this_machine_are_nobody_s_who_hands_a_job_in_over_http(web, tmp_path):
    """A directory is packed by tfe-ctl locally and a branch resolved there; HTTP requires a digest or a commit."""
    web.login(web.server.token("admin"))
    (tmp_path / "train.py").touch()
    for source in ({"bundle": str(tmp_path)}, {"bundle": "."}, {"git": f"file://{tmp_path}"}, {"git": str(tmp_path), "ref": "main"}):
        refused = web.order("/api/v1/jobs", {**JOB, "source": source})
        needed = "bundle: expected a digest of 64 hexadecimal digits" if "bundle" in source else "ref: expected a full commit ID of 40 or 64 hexadecimal digits"
        assert (refused.code, refused.json["detail"]) == (400, f"source: {needed}"), source
    assert "tfe-ctl submit --bundle" in web.order("/api/v1/jobs", {**JOB, "source": {"bundle": "0" * 64}}).json["detail"]
    assert queue(web) == {}


def test_a_manifest_of_kubeflow_s_is_taken_as_json(web):
    web.login(web.server.token("admin"))
    pod = {"spec": {"containers": [{"name": "tensorflow", "image": "org/mnist:1", "command": ["python", "mnist.py"]}]}}
    done = web.order("/api/v1/jobs", {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "dist-mnist"}, "spec": {
        "tfReplicaSpecs": {"PS": {"replicas": 2, "template": pod}, "Worker": {"replicas": 4, "template": pod}}}})
    assert done.json == {"done": "submit", "name": "dist-mnist",
                         "warning": "image org/mnist:1 runs only on nodes started with --runtime; other nodes run the command without it"}
    row = web.get("/api/v1/jobs")["jobs"][0]
    assert (row["job"], row["min"], row["ps"], row["spec"]["command"]) == ("dist-mnist", 4, 2, ["python", "mnist.py"])


def test_only_who_may_give_orders_hands_jobs_in(web, token):
    """A local page without login, an observer's token, or a request from another site changes nothing."""
    s = web.server
    orders = [("/api/v1/jobs", JOB), ("/api/v1/jobs/train/scale", {"min": 1, "max": 1}),
              *((f"/api/v1/jobs/train/{verb}", {}) for verb in ("suspend", "resume", "cancel", "restart"))]
    scoped = token("--role=admin", "--job=team-a-*")
    for path, body in orders:
        assert web.ask(path, "POST", body).code == 401
        assert web.ask(path, "POST", body, bearer=s.token("agent")).code == 401
        seen = web.ask(path, "POST", body, bearer=s.token("observer"))
        assert (seen.code, seen.json["detail"]) == (403, "orders need an admin's token")
        assert web.ask(path, "POST", body, bearer=scoped).json["code"] == "not_authorised"
        assert web.ask(path, "POST", body, bearer=s.token("admin"), host="evil.example").code == 421
    web.login(s.token("admin"))
    assert web.order("/api/v1/jobs", JOB, headers={"X-CSRF-Token": "0" * 64}).json["code"] == "csrf"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert web.order("/api/v1/jobs", json.dumps(JOB), headers={"Content-Type": kind}).code == 400, kind
    assert queue(web) == {}
    mine = {**JOB, "name": "team-a-1"}
    assert "token for all jobs" in web.ask("/api/v1/jobs", "POST", {**mine, "priority": 501}, bearer=scoped).json["detail"]
    assert web.ask("/api/v1/jobs", "POST", mine, bearer=scoped).code == 201
    assert queue(web) == {"team-a-1": "waiting"}


def raw_post(web, n, body):
    one = socket.create_connection(("127.0.0.1", web.port), timeout=DEADLINE)
    one.sendall(f"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {web.server.token('admin')}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {n}\r\n\r\n".encode() + body)
    return one


def test_bodies_are_bounded(web):
    """A job with all fields at maximum size is accepted in any notation; a longer body is not even read."""
    web.login(web.server.token("admin"))
    long = {**JOB, "env": {f"V{i:03}": "x" * 30 for i in range(200)}}
    spread = json.dumps(long, indent=12)
    assert 12288 < len(spread) < 65536
    assert web.order("/api/v1/jobs", spread.ljust(65536)).code == 201
    assert "more than 12288 bytes" in web.order("/api/v1/jobs", {**JOB, "command": ["x" * 4000] * 4}).json["detail"]
    for n in (65537, 1 << 40):
        with contextlib.closing(raw_post(web, n, b"{")) as one:
            assert one.recv(100).startswith(b"HTTP/1.1 413 ")
    assert queue(web) == {"train": "waiting"}


@pytest.mark.heavy
def test_a_slow_body_is_ended_and_nobody_waits_for_it(web):
    with contextlib.ExitStack() as held:
        slow = [held.enter_context(contextlib.closing(raw_post(web, 1000, b'{"name":'))) for _ in range(20)]
        assert web.get("/healthz") == {"status": "ok"}

        def is_over(one):
            with contextlib.suppress(BlockingIOError, ConnectionError, BrokenPipeError):
                one.setblocking(False)
                one.send(b" ")  # each byte restarts evhttp's own timeout
                return one.recv(100) == b""
            return False
        wait_until(lambda: web.gauges()["tfe_web_connections"] <= 2 or [is_over(one) for one in slow] == [True] * 20, 4 * DEADLINE,
                   what="the end of all")
    assert queue(web) == {}
