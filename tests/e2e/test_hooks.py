"""Unmodified scripts under real agents: what the hooks detect (--no-hooks: nothing).

A package called tensorflow replaces the real one: it has a class where the real one has it, so that hooks find it."""

import json
import signal
import textwrap

import pytest

from agents import fleet  # noqa: F401 (fleet is a fixture)
from conftest import wait_until

CALM = ("--gather", "0.3")

HANDLER = """
import os, signal, sys, time
def leave(number, frame):
    print("asked to end", flush=True)
    time.sleep(0.3)
    print("has saved", flush=True)
    sys.exit({code})
{child}
signal.signal(signal.SIGTERM, leave)
{after}
print("trains", flush=True)
time.sleep(3600)
"""

# A checkpoint's path in the real package: save, then in _write the callbacks that record the newest.
CHECKPOINT = '''
import os, time
class Checkpoint:
    """What is saved."""
    def _write(self, file_prefix, options=None):
        with open(file_prefix + ".index", "w") as file:
            file.write("x")
        return file_prefix
    def write(self, file_prefix):
        return self._write(file_prefix)
'''

SAVER = """
import sys, time
from tensorflow.python.checkpoint.checkpoint import Checkpoint
one = Checkpoint()
print(one.write("/tmp/nowhere-such/x") if {fails} else "", flush=True)
for step in range({first}, 10**6):
    name = sys.argv[1] + "/ckpt-%d" % step
    assert one.write(name) == name
    print("saved", step, Checkpoint._write.__doc__, Checkpoint.write.__qualname__, flush=True)
    time.sleep(0.1)
"""


@pytest.fixture
def write(tmp_path):
    def put(text, **values):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text).format(**values))
        return path
    return put


@pytest.fixture
def fake(tmp_path):
    """Writes a tensorflow package beside the script."""
    folder = tmp_path / "tensorflow" / "python" / "checkpoint"
    folder.mkdir(parents=True)
    for one in (folder, folder.parent, folder.parent.parent):
        (one / "__init__.py").write_text("")
    (folder / "checkpoint.py").write_text(CHECKPOINT)


def end(agent):
    agent.send(signal.SIGTERM)
    agent.wait()
    return agent.stdout().splitlines()


@pytest.mark.parametrize("options, child", [
    ((), ""),
    (("--no-standby",), ""),
    ((), "if os.fork() == 0: signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(3600)"),
], ids=["standby", "bootstrap", "with a child of its own"])
def test_a_handler_of_its_own_has_the_stop_grace(server, fleet, write, options, child):
    server(*CALM, "--stop-grace", "20")
    agent = fleet.start("--nnodes=1:1", *options, command=[str(write(HANDLER, code=0, child=child, after=""))])
    wait_until(lambda: "trains" in agent.stdout(), what="the training")
    assert [line.split("] ")[-1] for line in end(agent)] == ["trains", "asked to end", "has saved"]


@pytest.mark.parametrize("options, after", [
    (("--no-hooks",), ""),
    ((), "signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    ((), "signal.signal(signal.SIGTERM, signal.SIG_DFL)"),
], ids=["--no-hooks", "ignored", "taken away"])
def test_without_one_a_trainer_is_ended_at_once(server, fleet, write, options, after):
    server(*CALM, "--stop-grace", "20")
    agent = fleet.start("--nnodes=1:1", *options, command=[str(write(HANDLER, code=0, child="", after=after))])
    wait_until(lambda: "trains" in agent.stdout(), what="the training")
    assert [line.split("] ")[-1] for line in end(agent)][:1] == ["trains"]
    assert "has saved" not in agent.stdout()


def test_one_that_takes_too_long_is_killed(server, fleet, write):
    s = server(*CALM, "--stop-grace", "2")  # time for its handler to send a message
    agent = fleet.start("--nnodes=1:1", command=[str(write(HANDLER.replace("0.3", "3600"), code=0, child="", after=""))])
    wait_until(lambda: "trains" in agent.stdout(), what="the training")
    lines = end(agent)
    assert "asked to end" in lines[-1] and "has saved" not in agent.stdout()
    assert not s.events("restarts")


def steps_seen(agent):
    lines = agent.stderr().splitlines(keepends=True)
    told = [json.loads(line) for line in lines if '"checkpoint_reported"' in line and line.endswith("\n")]  # the last line may be incomplete
    return [line["step"] for line in told if line["by"] == "hook"]


DEBUG = ("--nnodes=1:1", "--log-level=debug", "--log-format=json")


@pytest.mark.parametrize("options", [(), ("--no-standby",), ("--preload=json",)], ids=["standby", "bootstrap", "imported later"])
def test_a_checkpoint_is_seen_wherever_it_is_written(server, fleet, fake, write, tmp_path, options):
    server(*CALM)
    (tmp_path / "there").mkdir()
    agent = fleet.start(*DEBUG, *options, command=[str(write(SAVER, first=7, fails=False)), str(tmp_path / "there")])
    wait_until(lambda: steps_seen(agent)[:3] == [7, 8, 9], what="three checkpoints")
    # To the script, the hooked methods look like the library's.
    assert "None Checkpoint.write" in "\n".join(end(agent))


@pytest.mark.parametrize("options, fails", [(("--no-hooks",), False), ((), True)], ids=["--no-hooks", "a save that fails"])
def test_nothing_else_is_taken_for_one(server, fleet, fake, write, tmp_path, options, fails):
    server(*CALM)
    agent = fleet.start(*DEBUG, *options, command=[str(write(SAVER, first=7, fails=fails)), str(tmp_path)])
    if fails:
        assert agent.wait() == 1
        assert "FileNotFoundError" in agent.stderr()
    else:
        wait_until(lambda: "saved 9" in agent.stdout(), what="checkpoints")
        end(agent)
    assert not steps_seen(agent)


def test_a_hook_that_fails_is_one_line_of_debug(server, fleet, fake, write, tmp_path):
    """Values that the hook cannot handle: a path that is no valid text for JSON; a checkpoint number of a type that
    breaks the hook."""
    server(*CALM)
    script = write("""
        import time
        from tensorflow.python.checkpoint.checkpoint import Checkpoint
        class Odd(str):
            def rpartition(self, sep):
                raise RuntimeError("odd path")
        one = Checkpoint()
        for step in range(10**6):
            assert one.write(Odd("{there}/ckpt-1")) == "{there}/ckpt-1"
            print("saved", step, flush=True)
            time.sleep(0.05)
        """, there=tmp_path)
    agent = fleet.start(*DEBUG, command=[str(script)])
    wait_until(lambda: "saved 5" in agent.stdout(), what="checkpoints")
    end(agent)
    assert agent.stderr().count("hook_failed") == 1 and "checkpoint: RuntimeError: odd path" in agent.stderr()


# A script that is done and takes its time to end.
ENDS = """
import atexit, os, sys, time
def slowly():
    print("is through", flush=True)
    while not os.path.exists("{over}"):
        time.sleep(0.02)
    if {fails}:
        os._exit(3)
atexit.register(slowly)
if os.environ["TFE_EPOCH"] == "1":
    {last}
else:
    atexit.unregister(slowly)
"""


@pytest.mark.parametrize("last, fails, options", [("pass", False, ()), ("sys.exit()", False, ()), ("sys.exit(0)", False, ("--no-standby",)),
                                                  ("pass", True, ("--no-standby",))])
def test_a_job_does_not_grow_once_its_script_is_through(server, fleet, write, ctl, nodes, tmp_path, last, fails, options):
    """Regression: a joining node made the others repeat the last part of the work while TensorFlow shut down."""
    s = server(*CALM)
    over = tmp_path / "over"
    script = str(write(ENDS, over=over, last=last, fails=fails))
    first = fleet.start("--nnodes=1:2", "--grow=now", *options, command=[script])
    wait_until(lambda: "is through" in first.stdout(), what="the script's end")
    second = fleet.start("--nnodes=1:2", "--grow=now", *options, command=[script])
    wait_until(lambda: [n for n in nodes() if n["waits"] and "a trainer has begun to end" in n["waits"]], what="a spare that waits")
    done = ctl("grow", "default")
    assert done.returncode == 1 and "about to end" in done.stderr
    assert not s.events("switch")
    over.touch()
    assert (first.wait(), second.wait()) == (0, 0)
    assert [e["cause"] for e in s.events("switch")] == (["trainer_failed"] if fails else [])


@pytest.mark.parametrize("options, last", [((), "sys.exit(4)"), ((), "raise OSError"), (("--no-hooks",), "pass")])
def test_nothing_else_is_taken_for_its_end(server, fleet, write, tmp_path, options, last):
    s = server(*CALM)
    script = str(write(ENDS, over=tmp_path / "never", last=last, fails=False))
    first = fleet.start("--nnodes=1:2", "--grow=now", *options, command=[script])
    wait_until(lambda: "is through" in first.stdout(), what="the script's end")
    second = fleet.start("--nnodes=1:2", "--grow=now", *options, command=[script])
    assert (first.wait(), second.wait()) == (0, 0)
    assert [e["cause"] for e in s.events("switch")] == ["joined"]
