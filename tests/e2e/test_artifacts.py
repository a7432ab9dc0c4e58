"""Artifacts of a job (--artifacts): rank 0's node stores them before the job has succeeded."""

import hashlib
import json
import os
import pathlib
import signal
import stat
import sys
import time

import pytest
from agents import TOGETHER, fleet  # noqa: F401 (fleet is a fixture)
from conftest import ROOT, wait_until
from programs import is_alive, program

SCRIPT = """
import json, os, pathlib, sys
rank, folder = os.environ["TFE_RANK"], pathlib.Path(os.environ["TFE_ARTIFACTS"])
assert ("TFE_ARTIFACTS_URI" in os.environ) == (rank == "0")
(folder / "model").mkdir(exist_ok=True)
(folder / "model" / "weights").write_bytes(b"w" * 3_000_000 + rank.encode())
(folder / "metrics.json").write_text(json.dumps({"epoch": int(os.environ["TFE_EPOCH"])}))
exec(os.environ.get("LAST", ""))
"""
QUICK = "--artifacts-timeout=2s"


class Job:
    """Agents that run SCRIPT, and the place of the artifacts."""

    def __init__(self, fleet, ctl, tmp_path):
        self.fleet, self.ctl = fleet, ctl
        self.script = tmp_path / "script.py"
        self.script.write_text(SCRIPT)
        self.place = tmp_path / "models"

    def start(self, *options, place=None, env=None):
        return self.fleet.start(f"--artifacts={place or self.place}", *options, command=[str(self.script)], env=env)

    def wait(self, run=1):
        """Waits for the end of a run, which the agents may still have to begin."""
        def has_begun():
            jobs = json.loads(self.ctl("status", "--json").stdout)["jobs"]
            return jobs and jobs[0]["run"] >= run
        wait_until(has_begun, what=f"run {run}")
        return self.ctl("wait", "default")

    def condition(self):
        job = json.loads(self.ctl("describe", "default", "--json").stdout)
        return next((c for c in job["conditions"] if c["condition"] == "Artifacts"), None)

    def kinds(self):
        return [e["kind"] for e in json.loads(self.ctl("events", "default", "--json").stdout)["events"]]


@pytest.fixture
def job(fleet, ctl, tmp_path):
    return Job(fleet, ctl, tmp_path)


def check(folder):
    """Compares a stored folder with its manifest, which it returns."""
    manifest = json.loads((folder / "tfe-manifest.json").read_text())
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {"tfe-manifest.json", *(one["name"] for one in manifest["files"])}
    for one in manifest["files"]:
        content = (folder / one["name"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (one["bytes"], one["sha256"]), one
    return manifest


def only_version(place):
    """Returns the only entry of a place: nothing half-made is beside it."""
    (folder,) = place.iterdir()
    assert folder.name.isdigit()
    return folder


def test_directory_has_the_files_of_rank_0_when_wait_returns(server, job):
    server()
    for name in "a", "b":
        job.start(f"--node-name={name}", "--nnodes=2", TOGETHER)
    assert job.wait().returncode == 0
    folder = only_version(job.place)
    manifest = check(folder)
    assert {one["name"] for one in manifest["files"]} == {"model/weights", "metrics.json"}
    assert (folder / "model" / "weights").read_bytes()[-1:] == b"0"
    assert (manifest["job"], manifest["run"]) == ("default", 1)
    shown = job.condition()
    assert (shown["status"], shown["reason"]) == (True, "Stored") and shown["message"] == f"2 files, 3 MB, at {folder}"
    assert str(folder) in job.ctl("describe", "default").stdout
    assert [kind for kind in job.kinds() if kind.startswith("artifacts")] == ["artifacts_storing", "artifacts_stored"]


def test_job_runs_until_the_command_has_stored_its_files(server, job, tmp_path):
    server()
    seen, go = tmp_path / "seen", tmp_path / "go"
    command = f"f() {{ echo $TFE_ARTIFACTS_URI > {seen}.part; ls $1 >> {seen}.part; mv {seen}.part {seen}; " \
              f"until test -e {go}; do sleep 0.1; done; }}; f"
    agent = job.start("--node-name=a", f"--artifacts-command={command}", place="registry:mnist")
    wait_until(seen.exists, what="the command")
    assert seen.read_text().split() == ["registry:mnist", "metrics.json", "model", "tfe-manifest.json"]
    assert job.ctl("status", "default").stdout.startswith("job default: running")
    assert job.condition()["reason"] == "Storing"
    go.touch()
    assert job.wait().returncode == 0 and agent.wait() == 0
    assert job.condition()["message"] == "2 files, 3 MB, at registry:mnist"


def test_failed_copy_fails_the_job_and_keeps_the_files(server, job, tmp_path):
    server()
    agent = job.start(QUICK, "--node-name=a", "--max-restarts=5", "--artifacts-command=echo no such bucket; exit 3; true",
                      place="https://me:secret@registry/x?sig=1")
    done = job.wait()
    assert done.returncode == 1 and agent.wait() == 1
    kept = pathlib.Path(done.stdout.partition("the files are kept in ")[2].split()[0])
    assert "exit code 65: artifacts were not stored:" in done.stdout and "exit status 3: no such bucket" in done.stdout
    assert (kept / "model" / "weights").stat().st_size == 3_000_001
    assert job.condition()["reason"] == "NotStored" and str(kept) in job.condition()["message"]
    assert "artifacts_not_stored" in job.kinds() and job.kinds().count("artifacts_storing") >= 2
    everything = job.ctl("describe", "default").stdout + job.ctl("events", "default").stdout
    assert "https://***@registry/x?***" in everything and "secret" not in everything and "sig=1" not in everything
    job.start("--new-run", "--node-name=b")  # removes what dead agents have left
    assert job.wait(run=2).returncode == 0 and kept.exists()
    old = time.time() - 8 * 86400
    os.utime(kept / ".not-stored", (old, old))
    job.start("--new-run", "--node-name=c")
    assert job.wait(run=3).returncode == 0 and not kept.parent.exists()


def test_failed_copy_is_tried_again(server, job, tmp_path):
    server()
    job.place.write_text("a file where the directory should be")
    job.start("--node-name=a")
    wait_until(lambda: "artifacts_storing" in job.kinds() and "not stored yet" in job.condition()["message"], what="a failed attempt")
    job.place.unlink()
    assert job.wait().returncode == 0
    check(only_version(job.place))


def test_killed_agent_ends_its_copy_and_another_node_stores(server, job, tmp_path):
    server()
    place = job.place
    command = f"echo $$ > {tmp_path}/pid; if mkdir {tmp_path}/first; then sleep 1000; fi; cp -r $TFE_ARTIFACTS {place}; true"
    agents = [job.start(f"--node-name={name}", "--nnodes=1:2", TOGETHER, f"--artifacts-command={command}") for name in "ab"]
    wait_until((tmp_path / "first").exists, what="the first copy")
    pid = int((tmp_path / "pid").read_text())
    nodes = {node["rank"]: node["name"] for node in json.loads(job.ctl("nodes", "--json").stdout)["nodes"]}
    agents["ab".index(nodes[0])].send(signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), what="the end of the copy")
    job.start("--node-name=c", "--nnodes=1:2", f"--artifacts-command={command}")
    assert job.wait().returncode == 0
    assert json.loads((place / "metrics.json").read_text())["epoch"] > 1


@pytest.mark.parametrize(("last", "why"), [
    ("os._exit(0)", "artifacts were not stored: the trainer's process ended with exit status 0 before its script did (os._exit)"),
    ("import shutil; shutil.rmtree(folder); folder.mkdir()",
     "exit code 65: artifacts were not stored: the script has put no file into $TFE_ARTIFACTS"),
])
def test_success_without_artifacts_is_a_failure(server, job, last, why):
    server()
    job.start("--node-name=a", "--max-restarts=0", env={"LAST": last})
    done = job.wait()
    assert done.returncode == 1 and why in done.stdout, done.stdout
    assert not job.place.exists()


@pytest.mark.parametrize("last", ["sys.exit(0)", "sys.exit(3)"])
def test_exit_status_of_the_script_decides(server, job, last):
    server()
    job.start("--node-name=a", "--no-hooks", "--no-standby", "--max-restarts=0", env={"LAST": last})
    assert job.wait().returncode == (0 if last == "sys.exit(0)" else 1)
    assert job.place.exists() == (last == "sys.exit(0)")


def test_cloud_program_copies_the_manifest_last(server, job, tmp_path):
    """A stand-in for `aws` records its calls; tests/deploy has the real one."""
    server()
    aws = tmp_path / "aws"
    aws.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    aws.chmod(aws.stat().st_mode | stat.S_IXUSR)
    job.start("--node-name=a", place="s3://bucket/models/", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert job.wait().returncode == 0
    folder, manifest = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert folder[:4] == ["s3", "cp", "--only-show-errors", "--recursive"] and folder[4].endswith("/artifacts")
    assert manifest[:3] == folder[:3] and manifest[4] == folder[5] + "tfe-manifest.json"
    assert folder[5].startswith("s3://bucket/models/2") and folder[5].rstrip("/") in job.condition()["message"]


def test_function_of_the_package_adds_files(server, job, tmp_path):
    server()
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "file").write_text("x")
    last = f"sys.path.insert(0, {str(ROOT / 'agent/python')!r}); import tfe; tfe.artifact({str(outside)!r}); " \
           f"tfe.artifact({str(outside / 'deep' / 'file')!r}, 'other/name'); tfe.artifact({str(outside)!r})"
    job.start("--node-name=a", env={"LAST": last})
    assert job.wait().returncode == 0
    names = {one["name"] for one in check(only_version(job.place))["files"]}
    assert names == {"model/weights", "metrics.json", "outside/deep/file", "other/name"}


def test_options_that_cannot_work_are_refused(fleet, job):
    for options, why in ((("--artifacts=/x", "--no-python"), "--artifacts: requires a Python script"),
                         (("--artifacts-command=true",), "--artifacts-command: requires --artifacts URI")):
        agent = fleet.start(*options, command=["true" if "--no-python" in options else str(job.script)], python=False)
        assert agent.wait() == 2 and why in agent.stderr()


def test_submitted_job_stores_its_artifacts(server, fleet, ctl, job):
    server()
    fleet.start_program([program("tfe-agent"), "--pool", "--python", sys.executable, "--node-name=p"])
    done = ctl("submit", "--name=default", f"--path={job.script.parent}", "--option", f"artifacts={job.place}",
               "--", "python", "script.py")
    assert done.returncode == 0, done.stderr
    assert job.wait().returncode == 0
    check(only_version(job.place))
    assert job.condition()["status"] is True
    assert f"artifacts={job.place}" in ctl("describe", "default").stdout
