"""Trainers that hang, wait in vain, abort at their start, or are killed for their memory: the cause is told, not guessed."""

import os
import pathlib
import sys
import time

import pytest

from agents import fleet  # noqa: F401 (a fixture)
from conftest import program, wait_until

CALM = ("--gather", "0.3")
TALKER = str(pathlib.Path(__file__).with_name("talker.py"))

# Listens on its own port as TensorFlow does; every rank but those named connects to rank 0, and waits.
MEET = '''
import json, os, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
workers, rank = config["cluster"]["worker"], config["task"]["index"]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("0.0.0.0", int(workers[rank].rpartition(":")[2])))
listener.listen(16)
print("loading the model", file=sys.stderr, flush=True)
held = []
while str(rank) not in sys.argv[1:] and rank != 0 and not held:
    try:
        held.append(socket.create_connection((workers[0].rpartition(":")[0], int(workers[0].rpartition(":")[2]))))
    except OSError:
        time.sleep(0.05)
print("met", flush=True)
time.sleep(3600)
'''


def meet(fleet, n, *missing, options=()):
    path = fleet.folder / "meet.py"
    path.write_text(MEET)
    return [fleet.start(f"--nnodes={n}:{n}", "--max-restarts=0", "--address=127.0.0.1", *options, command=[str(path), *map(str, missing)])
            for _ in range(n)]


def verdict(agent):
    """The sentence with which the job has failed, and the last lines in it."""
    return agent.stderr().rpartition(" failed: ")[2]


def test_rank_that_never_connects_is_named(server, fleet):
    """Rank 1 once said that rank 0 had never listened: its connection had gone with the trainer that was ended."""
    server(*CALM)
    agents = meet(fleet, 3, 2, options=["--start-timeout=4"])
    assert [agent.wait() for agent in agents] == [1, 1, 1]
    said = "".join(agent.stderr() for agent in agents)
    assert "rank 2 never connected to rank 0" in said, said[-3000:]
    assert "loading the model\nended by tfe-agent: rank 2 never connected to rank 0" in verdict(agents[0])
    assert "rank 1" not in "".join(line for line in said.splitlines() if "trainer_late" in line)


def test_trainers_that_have_met_are_not_late(server, fleet):
    server(*CALM)
    agents = meet(fleet, 2, options=["--start-timeout=1"])
    wait_until(lambda: all("met" in agent.stdout() for agent in agents), what="the meeting")
    time.sleep(2)
    assert all(agent.process.poll() is None for agent in agents)
    assert "trainer_late" not in "".join(agent.stderr() for agent in agents)


def test_script_that_does_not_listen_is_not_late(server, fleet):
    server(*CALM)
    agents = [fleet.start("--nnodes=2:2", "--start-timeout=1") for _ in range(2)]
    epoch = fleet.wait_world(2)
    time.sleep(2)
    assert fleet.last_epoch() == epoch
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]


def test_silent_trainer_is_ended_and_the_silence_is_the_cause(server, fleet):
    server(*CALM)
    agent = fleet.start("--progress-timeout=1", "--max-restarts=0")
    assert agent.wait() == 1
    assert "was ended by signal 9, silent for too long after 0 restarts" in verdict(agent)
    assert "ended by tfe-agent: no step was told and nothing was printed" in verdict(agent)


def test_of_several_trainers_the_silent_one_is_ended(server, fleet):
    """What one had printed counted for all, and the first was blamed."""
    server(*CALM)
    path = fleet.folder / "print.py"
    path.write_text("import os, time\nwhile True:\n    print('.' * (os.environ['TFE_RANK'] == '0'), end='', flush=True)\n    time.sleep(0.1)\n")
    agent = fleet.start("--progress-timeout=1", "--max-restarts=0", "--nproc-per-node=2", command=[str(path)])
    assert agent.wait() == 1
    assert "rank 1 on node" in verdict(agent) and "silent for too long" in verdict(agent)


@pytest.mark.parametrize("how", ["tells", "prints"])
def test_trainer_that_is_heard_is_not_silent(server, fleet, how):
    server(*CALM)
    path = fleet.folder / "print.py"
    path.write_text("import time\nwhile True:\n    print('.')\n    time.sleep(0.1)\n")
    command = [TALKER, str(fleet.folder)] if how == "tells" else [str(path)]
    agent = fleet.start("--progress-timeout=1", "--max-restarts=0", command=command)
    wait_until(lambda: "event=epoch" in agent.stderr(), what="the start")
    time.sleep(3)
    assert agent.process.poll() is None and "trainer_late" not in agent.stderr()


def memory_group(limit):
    """A control group with so much memory, or None where this process may make none."""
    for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = pathlib.Path(root) / f"tfe-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / file).write_text(str(limit))
            return folder
        except OSError:
            folder.rmdir()
    return None


def test_trainer_killed_for_its_memory_is_told_from_one_that_somebody_killed(server, fleet):
    group = memory_group(100 << 20)
    if group is None:
        pytest.skip("this process may make no control group with a limit of memory")
    s = server(*CALM)
    path = fleet.folder / "eat.py"
    path.write_text("eaten = []\nwhile True:\n    eaten.append(bytearray(1 << 20))\n")
    inside = f"echo $$ > {group}/cgroup.procs; exec {program('tfe-agent')} --max-restarts=0 --python {sys.executable} {path}"
    try:
        agent = fleet.start_program(["bash", "-c", inside])
        assert agent.wait() == 1
        assert "memory" in agent.stderr().splitlines()[-1] or "out_of_memory" in s.log.read_text(), agent.stderr()[-2000:]
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the group's being empty")
        group.rmdir()
