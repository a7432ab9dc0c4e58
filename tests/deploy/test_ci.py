"""The CI workflow: its syntax, its options, and its steps against a real server with the token that it names."""

import os
import re
import subprocess

import pytest

from conftest import DEPLOY, wait_for

WORKFLOW = DEPLOY / "ci" / "train.yaml"


@pytest.fixture
def workflow():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (scripts/deploy/tools.sh)")
    return yaml.safe_load(WORKFLOW.read_text())


def commands(workflow):
    return [step["run"] for step in workflow["jobs"]["train"]["steps"]]


def test_workflow_runs_on_push_without_rights_to_the_repository(workflow):
    assert workflow[True] == {"push": {"branches": ["main"]}}  # YAML 1.1 reads "on" as true
    assert workflow["permissions"] == {}
    names = set(re.findall(r"\$\{\{ (\w+)\.", WORKFLOW.read_text()))
    assert names == {"vars", "secrets", "github"}


def test_options_of_the_workflow_exist(workflow, prefix, run):
    create, = re.findall(r"tfe-ctl (token create.*)", WORKFLOW.read_text())
    for line in [create, *(c.removeprefix("tfe-ctl ") for c in commands(workflow) if c.startswith("tfe-ctl"))]:
        verb = line.split(" -", 1)[0].split(' "', 1)[0].split()
        known = run(prefix / "bin/tfe-ctl", *verb, "-h")
        for option in re.findall(r"--[a-z][a-z-]+", line.split(" -- ")[0]):
            assert f"{option}=" in known or f"{option} " in known, (verb, option)


def test_workflow_trains_the_pushed_commit_with_its_token(workflow, prefix, run, tmp_path):
    """The runner's variables name a bare repository of this machine; a pool node of this machine trains."""
    tree, bare = tmp_path / "tree", tmp_path / "org" / "vision.git"
    tree.mkdir()
    (tree / "train.py").write_text("import sys\nprint('trained', sys.argv[1:])\n")
    own = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", tree]
    run("git", "init", "-q", "--bare", bare)
    run("git", "init", "-q", tree)
    run(*own, "add", ".")
    run(*own, "commit", "-qm", "first")
    run(*own, "push", "-q", f"file://{bare}", "HEAD:refs/heads/main")
    commit = run(*own, "rev-parse", "HEAD").strip()
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    started = [subprocess.Popen([prefix / "bin/tfe-rdzv", f"--state-dir={state}", "--port=0", "--bind=127.0.0.1"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
    try:
        ctl = [prefix / "bin/tfe-ctl", "--state-dir", state]
        wait_for("the server", lambda: subprocess.run([*ctl, "pool"], capture_output=True).returncode == 0)
        started.append(subprocess.Popen([prefix / "bin/tfe-agent", "--pool", f"--state-dir={state}", "--no-persist", "--no-standby"],
                                        stderr=subprocess.DEVNULL))
        words, = re.findall(r"tfe-ctl (token create.*)", WORKFLOW.read_text())
        token = run("sh", "-c", f'"$@" {words}', "sh", *ctl).splitlines()[-1].strip()
        env = {"PATH": f"{prefix}/bin{os.pathsep}{os.environ['PATH']}", "TFE_TOKEN": token, "TFE_STATE_DIR": str(tmp_path / "none"),
               "TFE_RDZV_ENDPOINT": (state / "endpoint").read_text().strip(), "JOB": "vision-7",
               "GITHUB_SERVER_URL": f"file://{tmp_path}", "GITHUB_REPOSITORY": "org/vision", "GITHUB_SHA": commit}
        _, submit, cancel = commands(workflow)
        submit = submit.replace("--workers=2:8", "--workers=1:8")  # there is one node
        assert "trained ['--epochs', '10']" in run("bash", "-eo", "pipefail", "-c", submit, env=env)
        # The token is for jobs of this name only.
        done = subprocess.run(["bash", "-c", submit], env={**os.environ, **env, "JOB": "speech-1"}, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (77, "tfe-ctl: this token is not for that job\n")
        assert "vision-7" in run("bash", "-c", cancel, env=env)
    finally:
        for one in reversed(started):
            one.terminate()
        for one in started:
            one.wait(60)
