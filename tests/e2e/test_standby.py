"""Warm standbys under real agents: when they exist, how they become the trainer, and what happens if they cannot."""

import os
import pathlib
import signal
import sys

import pytest

from agents import TOGETHER, TRAINER, fleet, gone_soon  # noqa: F401 (fleet is a fixture)
from conftest import wait_until
from programs import descendants, is_alive, parents

CALM = ("--gather", "0.3")


@pytest.fixture
def standbys(status):
    """Returns the pids of the warm standbys that the server knows."""
    def look():
        return [pid for job in status() for node in job["nodes"] for pid in node["standby_pids"]]
    return look


def names_below(agent):
    table = parents()
    return sorted(table[pid][1] for pid in descendants(agent.pid) if pid in table)


def wait_standby(standbys, but=(), n=1):
    def look():
        found = [pid for pid in standbys() if pid not in but]
        return found if len(found) == n else None
    return wait_until(look, what=f"{n} warm standbys other than {but}")


@pytest.mark.heavy
def test_the_first_start_is_in_a_standby_and_the_next_one_too(server, fleet, standbys):
    """A new node is ready once its standby is warm; the next standby is started 5 s after the trainer."""
    server(*CALM)
    agent = fleet.start("--max-restarts=5")
    first = fleet.wait_world(1)
    # The environment at execve(2); the script got more.
    assert "TF_CONFIG=" not in pathlib.Path(f"/proc/{fleet.starts(first)[0]['pid']}/environ").read_text()
    pid = wait_standby(standbys)[0]
    assert names_below(agent).count("tfe-standby") == 1
    fleet.order("exit 3", first, 0)
    second = fleet.wait_world(1, above=first)
    assert fleet.starts(second)[0]["pid"] == pid, "the trainer is not what the standby was"
    assert wait_standby(standbys, but=[pid])
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert not is_alive(pid)


def test_a_dead_standby_is_replaced_and_is_nobodys_fault(server, fleet, standbys):
    s = server(*CALM)
    agent = fleet.start()
    fleet.wait_world(1)
    pid = wait_standby(standbys)[0]
    os.kill(pid, signal.SIGKILL)
    assert wait_standby(standbys, but=[pid])
    assert fleet.last_epoch() == 1
    assert not s.events("restarts")
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_a_standby_that_dies_as_it_is_needed_is_no_failure(server, fleet, standbys):
    """A stopped standby still gets the start; if it is killed, the trainer is started without a standby."""
    s = server(*CALM)
    agent = fleet.start("--max-restarts=1")
    first = fleet.wait_world(1)
    pid = wait_standby(standbys)[0]
    os.kill(pid, signal.SIGSTOP)
    fleet.order("exit 3", first, 0)
    wait_until(lambda: not standbys(), what="the hand-over")
    os.kill(pid, signal.SIGKILL)
    second = fleet.wait_world(1, above=first)
    assert second == first + 1 and fleet.starts(second)[0]["pid"] != pid
    assert len(s.events("restarts")) <= 1
    fleet.order("exit 0")
    assert agent.wait() == 0


@pytest.mark.heavy
def test_a_start_that_is_called_off_leaves_no_descriptor_in_the_guard(server, fleet, standbys):
    """Regression: descriptors sent to a standby but not yet received stayed open when the epoch ended first: three each
    time, including the trainer's output."""
    server(*CALM)
    agents = [fleet.start("--nnodes=1:2", TOGETHER, "--max-restarts=5") for _ in range(2)]
    first = fleet.wait_world(2)
    warm = wait_standby(standbys, n=2)
    stays, goes = agents
    mine = next(pid for pid in warm if parents()[pid][0] == stays.guard_pid)
    before = len(os.listdir(f"/proc/{stays.guard_pid}/fd"))
    os.kill(mine, signal.SIGSTOP)
    fleet.order("exit 3", first, 0)
    wait_until(lambda: fleet.last_epoch() > first, what="the start of the other's trainer")
    # The leader gets START first, and is proven dead within milliseconds.
    wait_until(lambda: f"event=epoch epoch={first + 1}" in stays.stderr(), what="the start of this one's")
    goes.send(signal.SIGKILL)
    goes.wait()
    fleet.wait_world(1, above=first + 1)
    assert not is_alive(mine)
    wait_standby(standbys, but=warm)
    wait_until(lambda: len(os.listdir(f"/proc/{stays.guard_pid}/fd")) == before, what="as few descriptors as before")
    fleet.order("exit 0")
    assert stays.wait() == 0


@pytest.mark.parametrize("how", ["agent", "guard"])
@pytest.mark.heavy
def test_a_standby_ends_with_who_started_it(server, fleet, standbys, how):
    server(*CALM)
    agent = fleet.start()
    fleet.wait_world(1)
    pid = wait_standby(standbys)[0]
    os.kill(agent.pid if how == "agent" else agent.guard_pid, signal.SIGKILL)
    assert gone_soon(pid)
    if how == "guard":
        fleet.wait_world(1, above=1)
        assert wait_standby(standbys, but=[pid])
        fleet.order("exit 0")
        assert agent.wait() == 0


def test_one_for_each_trainer(server, fleet, standbys):
    server(*CALM)
    agent = fleet.start("--nproc-per-node=3")
    fleet.wait_world(3)
    wait_standby(standbys, n=3)
    assert names_below(agent).count("tfe-standby") == 3
    fleet.order("exit 0")
    assert agent.wait() == 0


@pytest.mark.parametrize("how", ["off", "memory", "command"])
def test_there_is_none_where_none_is_wanted(server, fleet, how):
    server(*CALM)
    if how == "command":
        agent = fleet.start("--no-python", command=[sys.executable, TRAINER, str(fleet.folder)])
    else:
        agent = fleet.start(*{"off": ["--no-standby"], "memory": ["--standby-min-free=100"]}[how])
    fleet.wait_world(1)
    told = agent.stderr().count("no_standby")
    assert told == {"off": 0, "memory": 1, "command": 0}[how]
    assert "tfe-standby" not in names_below(agent)
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert agent.stderr().count("no_standby") == told


@pytest.mark.parametrize("options, script, words", [
    (["--preload=no_such_module"], "", "no_such_module"),
    ([], "import os, sys\nos.environ['A'] = sys.argv[0]\nimport json\ntry:\n    import tf_keras_nowhere\nexcept ImportError:\n    pass\n"
         "def never():\n    import numpy\n", "cannot be foreseen"),
])
def test_what_cannot_be_preloaded_starts_the_plain_way_and_that_is_said_once(server, fleet, options, script, words):
    server(*CALM)
    path = fleet.folder / "train.py"
    path.write_text(script + f"\nimport runpy, sys\nsys.argv = {[TRAINER, str(fleet.folder)]!r}\nrunpy.run_path({TRAINER!r}, run_name='__main__')\n")
    agent = fleet.start("--max-restarts=5", *options, command=[str(path)])
    first = fleet.wait_world(1)
    fleet.order("exit 3", first, 0)
    fleet.wait_world(1, above=first)
    said = [line for line in agent.stderr().splitlines() if "no_standby" in line]
    assert len(said) == 1 and words in said[0], said
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_what_a_script_imports_by_another_module_is_warm_from_the_second_start_on(server, fleet):
    server(*CALM)
    (fleet.folder / "jax.py").write_text("")
    (fleet.folder / "helper.py").write_text("import jax\n")
    path = fleet.folder / "train.py"
    path.write_text(f"import sys\nprint('warm' if 'jax' in sys.modules else 'cold', flush=True)\nimport helper, runpy\n"
                    f"sys.argv = {[TRAINER, str(fleet.folder)]!r}\nrunpy.run_path({TRAINER!r}, run_name='__main__')\n")
    agent = fleet.start("--max-restarts=5", command=[str(path)])
    first = 0
    for _ in range(2):
        first = fleet.wait_world(1, above=first)
        wait_until(lambda: "tfe-standby" in names_below(agent), what="the next standby")
        fleet.order("exit 3", first, 0)
    fleet.wait_world(1, above=first)
    assert [line.split()[-1] for line in agent.stdout().splitlines() if "warm" in line or "cold" in line] == ["cold", "warm", "warm"]
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_another_version_of_tensorflow_is_refused_and_both_are_named(server, fleet):
    s = server("--gather", "0.3")

    def start(version):
        folder = fleet.folder / version
        folder.mkdir()
        (folder / "tensorflow.py").write_text(f"__version__ = '{version}'\n")
        (folder / "train.py").write_text("import tensorflow\nimport time\ntime.sleep(3600)\n")
        return fleet.start("--nnodes=1:2", command=[str(folder / "train.py")])
    first = start("2.21.0")
    wait_until(lambda: s.events("epoch"), what="an epoch")
    other = start("2.20.0+rc1")
    assert other.wait() == 2
    assert "have 2.21.0, this node has 2.20.0-rc1" in other.stderr()
    assert first.process.poll() is None and len(s.events("epoch")) == 1
