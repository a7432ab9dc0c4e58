"""A job is the same object for every verb and URL, whether submitted or started by agents, from the moment it is
accepted."""

import json
import subprocess

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from programs import program
from test_pool import pool  # noqa: F401 (a fixture)
from web import start


def run(ctl, *words):
    done = ctl(*words)
    return done.returncode, done.stdout, done.stderr


def test_a_waiting_job_without_any_agent_is_found_by_every_verb(pool, ctl):  # noqa: F811
    pool.submit("train", "--workers=2:3", "--label=gpu=a100")
    job = pool.wait_state("train", "waiting")
    assert job["origin"] == "submitted" and "more nodes" in job["waits"]
    for words in (["status", "train"], ["describe", "train"], ["jobs"], ["status"]):
        code, out, _ = run(ctl, *words)
        assert code == 0 and "train" in out and "waiting" in out, words
    assert run(ctl, "nodes", "train")[:2] == (0, "no nodes\n")
    assert run(ctl, "epochs", "train")[:2] == (0, "job train has not had an epoch yet\n")
    assert run(ctl, "epochs")[:2] == (0, "job train has not had an epoch yet\n")  # the only job
    assert run(ctl, "logs", "train")[:2] == (0, "")
    assert "the job was submitted" in run(ctl, "events", "train")[1]
    assert "is waiting: no node has joined it yet" in run(ctl, "grow", "train")[2]
    status, = json.loads(run(ctl, "status", "--json")[1])["jobs"]
    listed, = json.loads(run(ctl, "jobs", "--json")[1])["jobs"]
    assert (status["state"], status["created_ms"]) == (listed["state"], listed["created_ms"]) == ("waiting", job["created_ms"])


def test_wait_and_logs_of_a_waiting_job_wait(pool, ctl, state_dir):  # noqa: F811
    pool.submit("train", "--workers=1:1")
    pool.wait_state("train", "waiting")
    where = ["--state-dir", str(state_dir)]
    waiting, logs = (subprocess.Popen([program("tfe-ctl"), *words, "train", *where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for words in (["wait"], ["logs", "-f"]))
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        assert logs.poll() is None
        assert run(ctl, "cancel", "train")[0] == 0
        out, err = waiting.communicate(timeout=20)
        assert (waiting.returncode, out, err) == (1, "job train: cancelled, run 1: it was cancelled by an operator\n", "")
    finally:
        for program_ in (waiting, logs):
            program_.kill()
            program_.wait()
    for words in (["status", "--json"], ["jobs", "--json"]):
        assert [job["state"] for job in json.loads(run(ctl, *words)[1])["jobs"]] == ["cancelled"]


def test_a_job_that_never_had_an_epoch_is_seen_with_its_reason(pool, ctl):  # noqa: F811
    pool.start(1)
    pool.wait_free(1)
    pool.submit("broken", "--workers=1:1", "--option=max-restarts=0", command=["/no/such/program"])
    job = pool.wait_state("broken", "failed")
    assert "/no/such/program" in job["reason"] and job["ended_ms"] > 0
    code, out, _ = run(ctl, "status", "broken")
    assert code == 0 and "broken: failed" in out and job["reason"] in out
    assert run(ctl, "wait", "broken")[:2] == (1, f"job broken: failed, run 1: {job['reason']}\n")
    assert run(ctl, "cancel", "broken")[0] == 0 and pool.job("broken")["state"] == "failed"  # a finished job is unchanged
    assert run(ctl, "forget", "broken")[0] == 0
    assert run(ctl, "status", "broken")[0] == 1


def test_a_job_of_agents_has_the_same_verbs(server, fleet, ctl):  # noqa: F811
    server()
    agent = fleet.start("--job=hand", "--nnodes=1:2", "--gather=0s")
    fleet.wait_world(1)
    described = json.loads(run(ctl, "describe", "--json", "hand")[1])
    assert (described["origin"], described["state"], described["priority"], described["pool"]) == ("agents", "running", None, [])
    assert [c["condition"] for c in described["conditions"] if c["status"]] == ["Running"]
    assert "hand" in run(ctl, "jobs")[1]
    for verb in ("suspend", "resume", "restart"):
        code, _, err = run(ctl, verb, "hand")
        assert code == 1 and "opened by manually started agents" in err, verb
    assert run(ctl, "scale", "hand", "1:1")[:2] == (0, "job hand is scaled\n")
    code, out, err = run(ctl, "status", "--json", "hand")
    assert code == 0 and json.loads(out)["jobs"][0]["max"] == 1, err
    assert run(ctl, "cancel", "hand")[0] == 0
    assert agent.wait(20) == 1
    wait_until(lambda: json.loads(run(ctl, "status", "--json", "hand")[1])["jobs"][0]["state"] == "cancelled", what="its end")
    assert "cancelled" in run(ctl, "jobs")[1]


@pytest.mark.parametrize(("word", "verb"), [("stop", "cancel"), ("resize", "scale"), ("pardon", "unban"), ("ps", "jobs")])
def test_a_verb_of_another_tool_leads_to_ours(ctl, word, verb):
    done = ctl(word, "x", bare=True)
    assert done.returncode == 2 and f'did you mean "{verb}"' in done.stderr


def test_the_api_knows_a_waiting_job(server, state_dir, tmp_path, ctl):
    with start(state_dir, tmp_path, server=server()) as web:
        api_knows_a_waiting_job(web, ctl)


def api_knows_a_waiting_job(web, ctl):
    assert ctl("submit", "--name=train", "--workers=2", "--", "train.py").returncode == 0
    job = wait_until(lambda: (job := web.get("/api/v1/jobs/train"))["state"] == "waiting" and job, what="the job")
    assert job["conditions"][0]["condition"] == "Created" and job["pool"] == [] and job["nodes"] == []
    assert [row["job"] for row in web.get("/api/v1/jobs")["jobs"]] == ["train"]
    assert web.get("/api/v1/jobs/train/epochs")["epochs"] == []


def test_a_job_that_reuses_a_forgotten_name_has_nothing_of_the_earlier_job(pool, ctl, tmp_path):  # noqa: F811
    pool.start(1)
    pool.wait_free(1)
    script = tmp_path / "fails.py"
    script.write_text("import time, tfe\ntfe.progress(7, total=9, metrics={'loss': 1.5})\ntime.sleep(1)\nraise KeyError('rate')\n")
    pool.submit("train", "--workers=1", "--option=max-restarts=0", command=["python", str(script)])
    failed = pool.wait_state("train", "failed")
    assert failed["metrics"]["loss"] == 1.5 and failed["step"] == 7 and failed["total"] == 9  # known after its nodes have gone
    assert "step 7 of 9" in run(ctl, "describe", "train")[1] and "KeyError" in run(ctl, "logs", "train")[1]
    wait_until(lambda: run(ctl, "forget", "train")[0] == 0, what="its nodes' release")
    pool.submit("train", "--workers=1", "--label=gpu=none")
    again = pool.wait_state("train", "waiting")
    assert again["metrics"] == {} and again["step"] is None and again["reason"] is None and again["waited_ms"] is not None
    assert run(ctl, "logs", "train")[1] == ""


def test_a_cancelled_job_is_told_as_such_and_not_as_a_preemption(pool, server, fleet, ctl):  # noqa: F811
    pool.start(1)
    pool.wait_free(1)
    pool.submit("pooled", "--workers=1", command=["python", "-c", "import time; time.sleep(60)"])
    hand = fleet.start("--job=hand", "--nnodes=1")
    for job in ("pooled", "hand"):
        pool.wait_state(job, "running")
        assert run(ctl, "cancel", job)[0] == 0
        over = pool.wait_state(job, "cancelled")
        assert over["reason"] == "it was cancelled by an operator" and over["since_ms"] == over["ended_ms"]
        condition, = [c for c in over["conditions"] if c["condition"] == "Cancelled"]
        assert (condition["reason"], condition["message"]) == ("JobCancelled", over["reason"])
        for verb in (["grow", job], ["scale", job, "1:2"]):
            code, _, err = run(ctl, *verb)
            assert code == 1 and f'job "{job}" has ended' in err, verb
    assert hand.wait(20) == 1
    wait_until(lambda: pool.job("pooled")["nodes_known"] == 0, what="its agent's end")
    kinds = [e["kind"] for e in json.loads(run(ctl, "events", "--json", "pooled")[1])["events"]]
    assert "job_finished" in kinds and "node_noticed" not in kinds
