"""--git: agents started by hand fetch their script from a repository, all of a job at one commit."""

import http.server
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest
from agents import TRAINER, fleet  # noqa: F401 (fleet is a fixture)
from conftest import NOBODY, as_root, wait_until
from programs import clean_environment, program
from test_bundle import git

# Reports the version beside it and its working directory, and continues as the test trainer.
SCRIPT = f"""
import os, pathlib, runpy, sys
import version
out = pathlib.Path(sys.argv[1], "version." + os.environ["TFE_EPOCH"] + "." + os.environ["TFE_RANK"])
out.with_suffix(".part").write_text(f"{{version.NUMBER}} {{os.getcwd()}}")
out.with_suffix(".part").rename(out)
runpy.run_path({TRAINER!r}, run_name="__main__")
"""


class Repository:
    """A bare repository, and a working tree that pushes to it."""

    def __init__(self, folder):
        self.bare, self.tree = folder / "code.git", folder / "tree"
        self.url = f"file://{self.bare}"
        self.tree.mkdir()
        git(folder, "init", "-q", "--bare", str(self.bare))
        git(self.tree, "init", "-q")
        (self.tree / "app").mkdir()
        (self.tree / "app/train.py").write_text(SCRIPT)
        self.first = self.push("1")

    def push(self, number, branch="main"):
        (self.tree / "app/version.py").write_text(f"NUMBER = {number}\n")
        git(self.tree, "add", ".")
        git(self.tree, "commit", "-qm", number)
        git(self.tree, "push", "-q", self.url, f"HEAD:refs/heads/{branch}")
        return git(self.tree, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


def start(fleet, source, *options, folder=None, **more):  # noqa: F811
    folder = folder or fleet.folder
    return fleet.start(f"--git={source}", "--git-path=app", "--no-standby", *options, folder=folder,
                       command=["train.py", str(folder)], **more)


def versions(fleet, epoch, folder=None):  # noqa: F811
    """Returns (version, working directory) of each rank of the epoch."""
    return [tuple(path.read_text().split()) for path in sorted((folder or fleet.folder).glob(f"version.{epoch}.*"))]


def refusal(agent):
    return agent.stderr().splitlines()[-1]


def test_all_agents_run_the_first_ones_commit_of_a_moved_branch(server, fleet, repository):  # noqa: F811
    s = server("--gather", "0.3")
    first = start(fleet, f"{repository.url}@main", "--nnodes=1:3")
    assert [v for v, _ in versions(fleet, fleet.wait_world(1))] == ["1"]
    second = repository.push("2")
    later = start(fleet, f"{repository.url}@main", "--nnodes=1:3")
    epoch = fleet.wait_world(2, above=1)
    assert [v for v, _ in versions(fleet, epoch)] == ["1", "1"]
    assert f"job default runs git commit {repository.first[:16]}, this node has git commit {second[:16]}" in later.stderr()
    assert len({cwd for _, cwd in versions(fleet, epoch)}) == 2 and all(cwd.endswith("/app") for _, cwd in versions(fleet, epoch))
    assert len(s.events("node_refused")) == 1
    # A commit in full, and abbreviated as the refusal shows it, are joined as they are; another one is not followed.
    third = start(fleet, f"{repository.url}@{repository.first[:16]}", "--nnodes=1:3")
    wait_until(lambda: "event=joined" in third.stderr(), what="the third node")
    pinned = start(fleet, f"{repository.url}@{second}", "--nnodes=1:3")
    assert pinned.wait() == 2
    assert refusal(pinned).endswith(f"job default runs git commit {repository.first[:16]}, this node has git commit {second[:16]} (start its "
                                    "agent with --git and that commit as REF, or use another --job name)")
    plain = fleet.start("--nnodes=1:3", "--no-standby")
    assert plain.wait() == 2 and f"runs git commit {repository.first[:16]}, this node has no git commit" in refusal(plain)
    fleet.order("exit 0")
    assert [agent.wait() for agent in (first, later, third)] == [0, 0, 0]
    assert not [cwd for _, cwd in versions(fleet, "*") if os.path.exists(cwd)]
    # The job is over: another commit is another program.
    late = start(fleet, f"{repository.url}@main", "--nnodes=1:3")
    assert late.wait() == 1 and "this node has a different git commit (use --new-run or another --job name)" in refusal(late)


def test_a_commit_outside_of_the_branchs_history_is_not_followed(server, fleet, repository):  # noqa: F811
    server("--gather", "0.3")
    start(fleet, repository.url, "--nnodes=1:2")
    fleet.wait_world(1)
    git(repository.tree, "checkout", "-q", "--orphan", "other")
    second = repository.push("2", "other")
    git(repository.tree, "push", "-q", repository.url, "other:refs/tags/v2")
    for ref, reason in (("other", "is not in the history of the branch other"), ("v2", "fatal: v2 is a tag")):
        stranger = start(fleet, f"{repository.url}@{ref}", "--nnodes=1:2")
        assert stranger.wait() == 2
        assert f"the job runs git commit {repository.first[:16]}, " in refusal(stranger) and reason in refusal(stranger), stranger.stderr()
    assert second != repository.first and fleet.last_epoch() == 1


def test_without_git_a_node_with_a_commit_is_refused(server, fleet, repository):  # noqa: F811
    server("--gather", "0.3")
    fleet.start("--nnodes=1:2")
    fleet.wait_world(1)
    agent = start(fleet, repository.url, "--nnodes=1:2")
    assert agent.wait() == 2 and "runs no git commit" in refusal(agent) and "start its agent without --git" in refusal(agent)


def usage(state_dir, *words):
    done = subprocess.run([program("tfe-agent"), "--python", sys.executable, *words], capture_output=True, text=True, timeout=60,
                          env=clean_environment(TFE_STATE_DIR=str(state_dir)))
    return done.returncode, done.stderr.splitlines()[-1]


def test_what_cannot_be_fetched_is_one_sentence(server, state_dir, repository):
    server()
    url = repository.url
    assert usage(state_dir, f"--git={url}@nowhere", "train.py") == \
        (2, f"tfe-agent: --git: {url}, nowhere: fatal: couldn't find remote ref nowhere")
    code, sentence = usage(state_dir, f"--git={url}@{'0123456789' * 4}", "train.py")
    assert code == 69 and sentence.startswith(f"tfe-agent: --git: {url}, 0123456789")
    code, sentence = usage(state_dir, "--git=file:///nowhere", "train.py")
    assert code == 69 and "--git: file:///nowhere, HEAD: fatal: " in sentence
    code, sentence = usage(state_dir, f"--git={url}", "--git-path=lib", "train.py")
    assert code == 2 and sentence.endswith(f"--git-path: commit {repository.first[:16]} has no directory lib")
    assert usage(state_dir, f"--git={url}", "app/none.py") == (2, "tfe-agent: script app/none.py: no such file or directory")
    for refused in ("--upload-pack=touch x", "-x@main", f"{url}@-x", f"{url}@a:b", "ext::sh -c true"):
        assert usage(state_dir, f"--git={refused}", "train.py")[0] in (2, 69)
    assert usage(state_dir, "--git-path=app", "train.py") == (2, "tfe-agent: --git-path: requires --git")
    for path in ("../x", "/x", "a/../..", ""):
        assert usage(state_dir, f"--git={url}", f"--git-path={path}", "train.py")[0] == 2
    code, sentence = usage(state_dir, f"--git={url}", "--pool")
    assert code == 2 and "--pool cannot be combined with --git" in sentence


def test_a_password_in_the_url_is_not_shown(server, fleet, status, repository):  # noqa: F811
    """The repository is on a web server that requires the password."""
    git(repository.bare, "update-server-info")
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words):
            super().__init__(*words, directory=str(repository.bare.parent))

        def do_GET(self):
            asked.append(self.headers.get("Authorization"))
            if asked[-1] is None:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.end_headers()
            else:
                super().do_GET()

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        s = server("--gather", "0.3")
        port = web.server_port
        agent = start(fleet, f"http://deploy:s3cr3t@127.0.0.1:{port}/code.git@main", "--log-level=debug")
        assert [v for v, _ in versions(fleet, fleet.wait_world(1))] == ["1"]
        line = pathlib.Path(f"/proc/{agent.pid}/cmdline").read_text()
        wrong = start(fleet, f"http://deploy:s3cr3t@127.0.0.1:{port}/none.git@main", "--job=other")
        assert wrong.wait() == 69
        web.shutdown()
    assert any(asked) and f"url=http://***@127.0.0.1:{port}/code.git" in agent.stderr()
    assert f"http://***@127.0.0.1:{port}/none.git, main: fatal: " in refusal(wrong)
    for text in (agent.stderr(), wrong.stderr(), line, str(status()), s.log.read_text()):
        assert "s3cr3t" not in text


def test_a_signal_ends_an_agent_that_fetches(server, fleet, repository, tmp_path):  # noqa: F811
    server()
    way = tmp_path / "way"
    way.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexec sleep 600\n")
    way.chmod(0o755)
    agent = start(fleet, "ssh://host/x", env={"GIT_SSH": str(way), "GIT_SSH_VARIANT": "simple"})
    wait_until((tmp_path / "asked").exists, what="git")
    agent.send(signal.SIGTERM)
    assert agent.wait() == 143


@as_root
def test_git_runs_as_the_trainers_user_without_the_agents_environment(commons, server, fleet, repository):  # noqa: F811
    server("--gather", "0.3")
    for path in (repository.bare, *repository.bare.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    bare = repository.bare.rename(commons / "code.git")
    way = commons / "way"
    way.write_text(f'#!/bin/sh\n{{ id -u; env; }} >{commons}/saw\nfor word; do :; done\nexec sh -c "$word"\n')
    way.chmod(0o755)
    agent = start(fleet, f"ssh://host{bare}@main", "--trainer-user=nobody", folder=commons,
                  env={"GIT_SSH": str(way), "GIT_SSH_VARIANT": "simple", "AWS_SECRET_ACCESS_KEY": "x"})
    fleet.wait_world(1, folder=commons)
    (version, cwd), = versions(fleet, 1, commons)
    saw = (commons / "saw").read_text().splitlines()
    assert version == "1" and saw[0] == str(NOBODY)
    assert not [line for line in saw if line.startswith(("AWS_", "TFE_", "HOME=/root"))]
    assert (os.stat(cwd).st_uid, os.stat(pathlib.Path(cwd).parents[1]).st_mode & 0o7777) == (NOBODY, 0o700)
    agent.send(signal.SIGKILL)
    agent.wait()
    wait_until(lambda: not os.path.exists(cwd), what="the guard's cleanup")
