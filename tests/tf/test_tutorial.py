"""Runs the commands of docs/tutorial.md, in order, in one shell with its own home directory."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from programs import clean_environment, descendants, program, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 240


def commands():
    """The commands of the tutorial: the lines of its console blocks that begin with a prompt."""
    blocks = re.findall(r"^```console\n(.*?)^```", (ROOT / "docs/tutorial.md").read_text(), re.M | re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def shell(tmp_path):
    """Runs a command to its end, or in the background if it ends in &; ends all background commands after the test."""
    home, work, log = tmp_path / "home", tmp_path / "work", tmp_path / "output.log"
    home.mkdir()
    work.mkdir()
    shutil.copy(ROOT / "scripts/examples/tutorial.py", work)
    folders = {str(pathlib.Path(program(name)).parent) for name in ("tfe-rdzv", "tfe-agent", "tfe-ctl")}
    env = clean_environment(HOME=str(home), XDG_STATE_HOME=str(home / "state"), TF_USE_LEGACY_KERAS="1",
                            PATH=os.pathsep.join([*folders, str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]))
    env["TFE_STATE_DIR"] = str(home / "state" / "tfe")  # root's default is a system directory
    started = []

    def run(command):
        with open(log, "ab") as output:
            if command.endswith("&"):
                started.append(subprocess.Popen(["sh", "-c", "exec " + command[:-1]], cwd=work, env=env, stdin=subprocess.DEVNULL,
                                                stdout=output, stderr=output, start_new_session=True))
                return ""
        done = subprocess.run(["sh", "-c", command], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}\n{log.read_text()[-4000:]}"
        return done.stdout

    run.started, run.log = started, log
    yield run
    for process in reversed(started):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_commands_of_the_tutorial_do_what_it_says(shell):
    def in_epoch(members):
        return wait_for(f"training with {members} nodes", lambda: re.search(
            rf"worker 0 of {members}, from step \d+(?!.*worker 0 of).*step \d+ of", shell.log.read_text(), re.S), PATIENCE_S, pause_s=0.3)

    lines = commands()
    assert len(lines) >= 14
    for command in lines:
        if command == "tfe-ctl status":
            in_epoch(2)
        elif command.startswith("pkill"):
            in_epoch(3)
            victim, = [p.pid for p in shell.started if b"--node-name=b" in pathlib.Path(f"/proc/{p.pid}/cmdline").read_bytes()]
            os.kill(victim, signal.SIGKILL)  # like the tutorial's command, and no other process on this machine
            in_epoch(2)
            continue
        elif command.startswith("tfe-ctl drain"):
            in_epoch(3)
        output = shell(command)
        if command.startswith("tfe-rdzv"):
            wait_for("the server", lambda: "join with" in shell.log.read_text(), PATIENCE_S)
        if command == "tfe-ctl epochs":
            assert "node_lost" in output
        if command == "tfe-ctl nodes":
            assert sorted(re.findall(r"^default +(\w+)", output, re.M)) == ["a", "b"]
        if command == "tfe-ctl describe hello":
            assert "Succeeded" in output
    assert "drained" in shell("tfe-ctl epochs default --json")
    assert "done:" in shell.log.read_text() and "hello from the pool" in shell.log.read_text()
    assert not [pid for p in shell.started for pid in descendants(p.pid) if p.poll() is not None]
