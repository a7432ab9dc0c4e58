"""tfe-ctl watch and wait, with real servers, trainers and, for watch, a real terminal (tmux)."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from agents import TOGETHER, fleet  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from programs import clean_environment, program

CALM = ("--ttl", "10", "--gather", "0.3")


class Screen:
    """tfe-ctl watch in a terminal of 80 x 24, provided by tmux."""

    def __init__(self, folder, state_dir, *options, **env):
        self.socket = folder / "tmux"
        self.env = clean_environment(**{"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env})
        shell = " ".join([program("tfe-ctl"), "watch", "--state-dir", str(state_dir), *options])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", f"{shell}; echo ended $?; sleep 600")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", str(self.socket), *words], env=self.env, capture_output=True, text=True,
                              timeout=DEADLINE, check=True).stdout

    def text(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def wait(self, pattern):
        return wait_until(lambda: re.search(pattern, self.text(), re.M), what=f"{pattern} on the screen")

    def end(self):
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], env=self.env, capture_output=True, timeout=DEADLINE)


@pytest.fixture
def screen(tmp_path, state_dir):
    screens = []

    def start(*options, **env):
        folder = tmp_path / f"screen{len(screens)}"
        folder.mkdir()
        screens.append(Screen(folder, state_dir, *options, **env))
        return screens[-1]

    yield start
    for one in screens:
        one.end()


def members(fleet, n, *options):
    agents = [fleet.start(f"--nnodes=1:{n}", f"--node-name=m{i}", TOGETHER, *options, trainer=["--listen"]) for i in range(n)]
    fleet.wait_world(n)
    return agents


def test_a_screen_of_what_goes_on_and_a_drain_by_key(server, fleet, screen, status):
    server(*CALM)
    agents = members(fleet, 2)
    s = screen()
    s.wait(r"^default +running +1 +1 +2 1:2")
    s.wait(r"^ +0 m\d +member +127")
    s.wait(r"^ +1 m\d +member +127")
    s.wait(r"^epochs +S")
    assert s.text().splitlines()[0].startswith(" tfe-ctl watch  127.0.0.1:")
    first = s.wait(r"^ +0 (m\d)").group(1)
    second = {"m0": "m1", "m1": "m0"}[first]
    s.press("Enter")
    s.wait(rf"^name +{first}$")
    s.wait(r"^state +member$")
    s.press("Escape")
    s.wait(r"^ +1 m\d +member")
    s.press("Down", "d")
    s.wait(rf"^ drain {second}\? \(y/n\)")
    s.press("n")
    s.wait(r"^ q quit")
    s.press("d")
    s.wait(rf"^ drain {second}\? \(y/n\)")
    s.press("y")
    s.wait(r"the node leaves its job; its agent will exit 0")
    assert agents[int(second[1])].wait() == 0
    s.wait(r"^default +running +1 +2 +1 1:2")
    s.wait(rf"^\d\d:\d\d:\d\d .*{second}")  # an event about the second node
    s.press("q")
    s.wait(r"ended 0")


def test_a_screen_of_another_size_and_without_colours(server, fleet, screen, status):
    s = server(*CALM)
    members(fleet, 1)
    colours, plain, ascii_only = screen(), screen(NO_COLOR="1"), screen(LC_ALL="C")
    for one in (colours, plain, ascii_only):
        one.wait(r"^default +running")
    assert re.search("\033\\[[0-9;]*3[1-7]m", colours.text("-e"))
    assert not re.search("\033\\[[0-9;]*3[1-7]m", plain.text("-e"))
    wait_until(lambda: ascii_only.text().isascii() or None, what="plain ASCII")
    colours.tmux("resize-window", "-x", "120", "-y", "40")
    wait_until(lambda: len(colours.text().splitlines()) == 40 and colours.text().splitlines()[39].startswith(" q quit"),
               what="a larger screen")
    colours.tmux("resize-window", "-x", "40", "-y", "10")
    wait_until(lambda: len(colours.text().splitlines()) == 10 and colours.text().splitlines()[9].startswith(" q quit"),
               what="a smaller screen")
    s.kill()
    colours.wait(r"no connection: ")


def test_watch_needs_a_terminal(server, ctl):
    server(*CALM)
    done = ctl("watch")
    assert done.returncode == 2 and "needs a terminal" in done.stderr


def wait_for_end(state_dir, *options):
    return subprocess.Popen([program("tfe-ctl"), "--state-dir", str(state_dir), "wait", *options], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=clean_environment())


@pytest.mark.parametrize("words, code, state", [("exit 0", 0, "succeeded"), ("exit 3", 1, "failed")])
def test_wait_exits_as_the_job_does(server, fleet, ctl, state_dir, words, code, state):
    server(*CALM)
    members(fleet, 1, "--max-restarts=0")
    process = wait_for_end(state_dir, "--progress")
    line = process.stderr.readline()  # the first poll is done
    assert line == "running, run 1, epoch 1\n"
    fleet.order(words)
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == code and out.startswith(f"job default: {state}, run 1")
    assert ("exit code 3" in out) == (state == "failed")
    done = ctl("wait", "--json")
    shown = json.loads(done.stdout)
    assert done.returncode == code and {key: shown[key] for key in ("job", "run", "state")} == {"job": "default", "run": 1, "state": state}
    assert (shown["reason"] is None) == (state == "succeeded")
    assert ctl("wait", "nothing").returncode == 1


def test_on_a_terminal_an_agent_says_what_it_is_about_and_waits_for(server, state_dir, tmp_path):
    s = server(*CALM)
    ours, theirs = pty.openpty()
    agent = subprocess.Popen([program("tfe-agent"), "--state-dir", str(state_dir), "--nnodes=2:2", "--node-name=m0", "--job=j",
                              "--no-python", "sleep", "60"], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                             env=clean_environment(), cwd=tmp_path)
    os.close(theirs)
    said = b""
    try:
        until = time.monotonic() + DEADLINE
        while b"waiting for 1 more node" not in said:
            assert select.select([ours], [], [], until - time.monotonic())[0], said
            said += os.read(ours, 4096)
        assert f"m0 connects to 127.0.0.1:{s.port} to join job j (Ctrl-C leaves the job".encode() in said
    finally:
        agent.send_signal(signal.SIGTERM)
        os.set_blocking(ours, False)
        agent.wait(DEADLINE)
        os.close(ours)
