"""Policies of submitted jobs about their end: restart, success, clean-up, and the conditions that record them. Real
agents, a real server, trainers without TensorFlow."""

import json
import os
import re
import signal


from agents import fleet, gone_soon  # noqa: F401 (a fixture)
from conftest import wait_until
from programs import is_alive
from test_pool import Pool, pool  # noqa: F401 (a fixture)


def hand_in(pool, name, workers=1, **wishes):
    """Submits a job with options that only a job file has; its trainers end on request."""
    path = pool.fleet.folder / f"{name}.job"
    path.write_text(json.dumps({"name": name, "workers": workers, **wishes}))
    pool.submit(name, f"--file={path}")
    return pool.folder(name)


def conditions(pool, name):
    return {c["condition"]: c for c in pool.job(name)["conditions"]}


def started(pool, folder, epoch, rank=0):
    """Returns the process of that rank, once it runs."""
    def look():
        return [s["pid"] for s in pool.fleet.starts(epoch, folder) if s["rank"] == rank]
    return wait_until(look, what=f"rank {rank} of epoch {epoch}")[-1]


def wait_restart(pool, folder, above):
    return wait_until(lambda: (epoch := pool.fleet.last_epoch(folder)) > above and epoch, what="another epoch")


def test_an_exit_code_below_128_fails_a_job_and_what_a_signal_ends_starts_again(pool):
    pool.start(1, "--no-standby")
    pool.wait_free(1)
    folder = hand_in(pool, "train", restart_policy="ExitCode")
    first = pool.fleet.wait_world(1, folder=folder)
    os.kill(started(pool, folder, first), signal.SIGKILL)
    second = wait_restart(pool, folder, first)
    started(pool, folder, second)
    pool.fleet.order("exit 3", second, folder=folder)
    pool.wait_state("train", "failed")
    failed = conditions(pool, "train")["Failed"]
    assert (failed["status"], failed["reason"]) == (True, "JobFailed")
    assert failed["message"].startswith("exit code 3 (rank 0 on "), failed
    assert failed["message"].endswith("; not retried: a worker of this job has restart policy ExitCode")
    pool.wait_free(1)


def test_the_backoff_limit_counts_what_trainers_fail_and_says_so(pool):
    pool.start(1, "--no-standby")
    pool.wait_free(1)
    folder = hand_in(pool, "train", backoff_limit=1)
    first = pool.fleet.wait_world(1, folder=folder)
    os.kill(started(pool, folder, first), signal.SIGSEGV)
    os.kill(started(pool, folder, wait_restart(pool, folder, first)), signal.SIGSEGV)
    pool.wait_state("train", "failed")
    failed = conditions(pool, "train")["Failed"]
    assert failed["reason"] == "BackoffLimitExceeded"
    assert re.fullmatch(r"ended by SIGSEGV \(rank 0 on \S+\), after 1 restart", failed["message"]), failed


def test_a_worker_that_is_always_started_again_makes_no_success(pool):
    pool.start(1, "--no-standby")
    pool.wait_free(1)
    folder = hand_in(pool, "serve", restart_policy={"worker": "Always"})
    first = pool.fleet.wait_world(1, folder=folder)
    pool.fleet.order("exit 0", first, folder=folder)
    second = wait_restart(pool, folder, first)
    started(pool, folder, second)
    pool.wait_state("serve", "running")
    assert conditions(pool, "serve")["Restarting"]["reason"] == "JobRestarting"
    pool.order("cancel", "serve")
    pool.wait_free(1)
    assert conditions(pool, "serve")["Cancelled"]["reason"] == "JobCancelled"


def test_all_workers_make_the_success_of_a_job_that_says_so(pool):
    pool.start(2, "--no-standby")
    pool.wait_free(2)
    folder = hand_in(pool, "train", workers=2, success_policy="AllWorkers")
    epoch = pool.fleet.wait_world(2, folder=folder)
    pool.fleet.order("exit 0", epoch, 0, folder=folder)
    wait_until(lambda: "1 of 2 workers have ended with exit status 0" in (pool.job("train")["waits"] or ""), what="a sentence")
    assert pool.job("train")["state"] == "running"
    pool.fleet.order("exit 0", epoch, 1, folder=folder)
    pool.wait_state("train", "succeeded")
    pool.wait_free(2)
    assert pool.fleet.last_epoch(folder) == epoch


def test_what_still_runs_is_let_run_after_a_success_until_it_ends_or_is_cancelled(server, fleet, ctl, state_dir):
    first = server()
    pool = Pool(fleet, ctl)
    pool.start(2, "--no-standby")
    pool.wait_free(2)
    folder = hand_in(pool, "train", workers=2, clean_policy="None")
    epoch = pool.fleet.wait_world(2, folder=folder)
    other = started(pool, folder, epoch, 1)
    pool.fleet.order("exit 0", epoch, 0, folder=folder)
    pool.wait_state("train", "succeeded")
    assert "run until they end" in conditions(pool, "train")["Succeeded"]["message"]
    assert [n["job"] for n in pool.nodes("assigned")] == ["train", "train"]
    assert "has not ended" in ctl("restart", "train").stderr
    first.kill()
    server(port=first.port)
    wait_until(lambda: len(pool.nodes("assigned")) == 2, what="both nodes back")
    assert is_alive(other) and pool.job("train")["lingers"]
    pool.order("cancel", "train")
    pool.wait_free(2)
    assert gone_soon(other) and pool.job("train")["state"] == "succeeded" and not pool.job("train")["lingers"]
    assert ctl("cancel", "train").returncode == 0 and pool.job("train")["state"] == "succeeded"  # a finished job is unchanged
    # The next job ends by itself.
    folder = hand_in(pool, "next", workers=2, clean_policy="None")
    epoch = pool.fleet.wait_world(2, folder=folder)
    pool.fleet.order("exit 0", epoch, 0, folder=folder)
    pool.wait_state("next", "succeeded")
    pool.fleet.order("exit 7", epoch, 1, folder=folder)
    pool.wait_free(2)
    assert pool.job("next")["state"] == "succeeded" and pool.fleet.last_epoch(folder) == epoch


def test_what_it_has_printed_goes_with_a_job_that_says_so(pool, tmp_path):
    logs = tmp_path / "logs"
    pool.start(1, "--no-standby", f"--log-dir={logs}")
    for name, policy, stays in (("all", "All", False), ("running", "Running", True)):
        pool.wait_free(1)
        folder = hand_in(pool, name, clean_policy=policy)
        epoch = pool.fleet.wait_world(1, folder=folder)
        wait_until(lambda: list((logs / name).glob("run-*/epoch-*/*.stdout")), what="its log")
        pool.fleet.order("exit 0", epoch, folder=folder)
        pool.wait_state(name, "succeeded")
        pool.wait_free(1)
        assert (logs / name).exists() == stays


def test_a_job_goes_through_its_conditions_each_with_its_reason_and_time(pool):
    folder = hand_in(pool, "train")
    wait_until(lambda: conditions(pool, "train").get("Waiting", {}).get("status"), what="it to wait")
    assert conditions(pool, "train")["Waiting"]["reason"] == "WaitsForNodes"
    pool.start(1, "--no-standby")
    first = pool.fleet.wait_world(1, folder=folder)
    pool.wait_state("train", "running")
    os.kill(started(pool, folder, first), signal.SIGKILL)
    second = wait_restart(pool, folder, first)
    pool.wait_state("train", "running")
    pool.order("suspend", "train")
    pool.wait_state("train", "suspended")
    pool.wait_free(1)
    pool.order("resume", "train")
    third = wait_restart(pool, folder, second)
    pool.wait_state("train", "running")
    pool.fleet.order("exit 0", third, folder=folder)
    pool.wait_state("train", "succeeded")
    held = conditions(pool, "train")
    reasons = {"Created": "JobCreated", "Waiting": "WaitsForNodes", "Starting": "JobStarting", "Running": "JobRunning", "Restarting": "JobRestarting",
               "Suspended": "JobSuspended", "Succeeded": "JobSucceeded"}
    assert {name: c["reason"] for name, c in held.items()} == reasons
    assert [name for name, c in held.items() if c["status"]] == ["Created", "Succeeded"]
    times = [c["at_ms"] for c in held.values()]
    assert 0 < held["Created"]["at_ms"] == min(times) and held["Succeeded"]["at_ms"] == max(times)
