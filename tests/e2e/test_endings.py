"""How the programs end: on which signals, how soon, and what they leave behind."""

import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import termios
import time

import pytest

from agents import TRAINER, fleet  # noqa: F401 (fleet is a fixture)
from bystander import noise  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from programs import clean_environment, descendants, is_alive, program


class Terminal:
    """A terminal in which a program runs, and that can be closed."""

    def __init__(self, line, env, ignores_hangup=False):
        self.master, slave = os.openpty()

        def take():
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_hangup else signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen(line, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True,
                                        preexec_fn=take)
        os.close(slave)

    def close(self):
        os.close(self.master)


@pytest.fixture
def terminal(fleet):
    """An agent in a terminal, and its trainer."""
    opened = []

    def start(*options, **how):
        line = [program("tfe-agent"), "--python", sys.executable, *options, TRAINER, str(fleet.folder)]
        opened.append(Terminal(line, clean_environment(TFE_STATE_DIR=str(fleet.state_dir)), **how))
        fleet.wait_world(1)
        return opened[-1]
    yield start
    for one in opened:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(DEADLINE)


def test_closing_the_terminal_leaves_in_order(server, fleet, status, terminal):
    server("--gather=0.1")
    agent = terminal()
    below = descendants(agent.process.pid)
    agent.close()
    assert agent.process.wait(DEADLINE) == 128 + signal.SIGHUP
    assert [pid for pid in below if is_alive(pid)] == []
    job, = wait_until(lambda: [job for job in status() if not job["nodes"]], what="its leaving")
    assert job["state"] == "waiting"


def test_nohup_outlives_the_terminal(server, fleet, terminal):
    server("--gather=0.1")
    agent = terminal(ignores_hangup=True)
    agent.close()
    fleet.order("exit 0")
    assert agent.process.wait(DEADLINE) == 0


def test_the_servers_terminal_is_closed(state_dir):
    env = clean_environment()
    server = Terminal([program("tfe-rdzv"), "--port=0", "--state-dir", state_dir], env)
    wait_until(lambda: (state_dir / "endpoint").exists(), what="its endpoint")
    server.close()
    assert server.process.wait(DEADLINE) == 0
    assert not (state_dir / "endpoint").exists(), "it did not end in order"


def soonest(once, limit, tries=5):
    """Returns the shortest of a few durations: each contains the program's own delay, but not always the machine's."""
    took = []
    while len(took) < tries and (not took or min(took) >= limit):
        took.append(once())
    return min(took)


def test_an_agent_is_gone_soon_after_its_last_message(server, fleet, noise):
    """Regression: a guard that had not read its agent's orderly end waited a second for it, in every other run."""
    server("--gather=0.1")

    def once():
        job = f"j{len(fleet.agents)}"
        agent = fleet.start(f"--job={job}", trainer=["--exit", "0"])
        assert agent.wait() == 0
        return time.time() - agent.err.stat().st_mtime
    took = [once() for _ in range(6)]
    assert min(took) < noise.bound(0.3) and sorted(took)[-2] < noise.bound(1), took  # one run may be delayed by the machine


def test_ctrl_c_of_a_standalone(fleet):
    """Ctrl-C of a standalone agent, whose server receives the signal at the same time."""

    def once():
        folder = fleet.folder / f"alone{len(fleet.agents)}"
        agent = fleet.start("--standalone", folder=folder, env={"TFE_STATE_DIR": "", "PATH": path})
        fleet.wait_world(1, folder=folder)
        below, began = descendants(agent.pid), time.monotonic()
        agent.send(signal.SIGINT)
        assert agent.wait() == 130
        took = time.monotonic() - began
        assert [pid for pid in below if is_alive(pid)] == []
        return took
    path = f"{os.path.dirname(program('tfe-rdzv'))}:{os.environ['PATH']}"
    assert soonest(once, 1.5) < 1.5


# --- temporary files of trainers --------------------------------------------------------------------------


# Like TensorFlow for each function that it rewrites: removed by atexit, so not after a kill.
LEAVES = """
import os, pathlib, sys, tempfile, time
kept = tempfile.NamedTemporaryFile(prefix="__autograph_generated_file", suffix=".py", delete=False)
deep = pathlib.Path(tempfile.mkdtemp(), "a", "b")
deep.mkdir(parents=True)
(deep / "file").write_text("x")
(deep.parent / "link").symlink_to(sys.argv[1])
deep.chmod(0o500)
pathlib.Path(sys.argv[1], f"{os.environ['TFE_EPOCH']}.tmp").write_text(tempfile.gettempdir())
time.sleep(3600)
"""


@pytest.fixture
def leaver(server, fleet, monkeypatch):
    """Starts an agent whose trainers leave files; returns the agent and the files' folder."""
    monkeypatch.delenv("TMPDIR", raising=False)  # the agent does not change a TMPDIR set by its owner
    server("--gather=0.1")
    script = fleet.folder / "leaves.py"
    script.write_text(LEAVES)
    (fleet.folder / "precious").write_text("x")

    def start(env=None):
        agent = fleet.start(command=[str(script), str(fleet.folder)], env=env)
        return agent, pathlib.Path(told(fleet, 1))
    return start


def told(fleet, epoch):
    path = fleet.folder / f"{epoch}.tmp"
    return wait_until(lambda: path.exists() and path.read_text(), what=f"the trainer of epoch {epoch}")


@pytest.mark.parametrize("standby", [True, False])
def test_files_of_killed_trainers_do_not_pile_up(fleet, leaver, standby):
    agent, tmp = leaver(env=None if standby else {"TFE_NO_STANDBY": "1"})
    assert tmp.name == "tmp" and tmp.parent.name.startswith("tfe-agent-") and tmp.stat().st_mode & 0o777 == 0o700
    first = set(os.listdir(tmp))
    assert any(name.startswith("__autograph_generated_file") for name in first)
    trainer, = [pid for pid in descendants(agent.pid) if "leaves.py" in command_line(pid)] or [None]
    os.kill(trainer, signal.SIGKILL)
    assert told(fleet, 2) == str(tmp)
    wait_until(lambda: not list(tmp.parent.glob("gone-*")), what="the end of what the first left")
    assert not first & set(os.listdir(tmp))
    agent.send(signal.SIGTERM)
    agent.wait()
    assert not tmp.parent.exists()
    assert (fleet.folder / "precious").exists(), "a link was followed"


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_nor_do_those_of_a_killed_agent(fleet, leaver):
    agent, tmp = leaver()
    agent.send(signal.SIGKILL)
    agent.wait()
    wait_until(lambda: not tmp.parent.exists(), what="the guard's cleaning up")


def test_a_folder_of_the_users_own_is_left_alone(fleet, leaver, tmp_path):
    own = tmp_path / "scratch"
    own.mkdir()
    agent, tmp = leaver(env={"TMPDIR": str(own)})
    agent.send(signal.SIGTERM)
    agent.wait()
    assert tmp == own and any(own.iterdir())
