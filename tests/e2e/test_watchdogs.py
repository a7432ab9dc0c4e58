"""Trainers that hang, wait in vain, abort at their start, or are killed for their memory: the cause is determined
instead of guessed."""

import os
import pathlib
import re
import sys
import time

import pytest

from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from programs import program

CALM = ("--gather", "0.3")
LONG_S = 3  # seconds that a healthy trainer must never exceed, even on a stalling machine
TALKER = str(pathlib.Path(__file__).with_name("talker.py"))

# Like TensorFlow's workers: all listen on their own ports and connect to rank 0, including itself. Options:
# after=SECONDS, all begin late; deaf=RANK does not listen, absent=RANK does not connect, abort=SECONDS: rank 0 aborts
# so long after it listens.
MEET = '''
import json, os, resource, socket, sys, threading, time
config = json.loads(os.environ["TF_CONFIG"])
workers, rank = config["cluster"]["worker"], config["task"]["index"]
words = dict(word.split("=") for word in sys.argv[1:])
print("loading the model", file=sys.stderr, flush=True)
time.sleep(float(words.get("after", 0)))
if words.get("deaf") != str(rank):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("0.0.0.0", int(workers[rank].rpartition(":")[2])))
    listener.listen(16)
if rank == 0 and "abort" in words:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Timer(float(words["abort"]), os.abort).start()
held = []
while words.get("absent") != str(rank) and not held:
    try:
        held.append(socket.create_connection((workers[0].rpartition(":")[0], int(workers[0].rpartition(":")[2]))))
        print("met", flush=True)
    except OSError:
        time.sleep(0.05)
time.sleep(3600)
'''


def meet(fleet, n, *words, options=(), addresses=("127.0.0.1",)):
    path = fleet.folder / "meet.py"
    path.write_text(MEET)
    return [fleet.start(f"--nnodes={n}:{n}", "--max-restarts=0", f"--address={addresses[i % len(addresses)]}", *options,
                        command=[str(path), *words]) for i in range(n)]


def late(agents):
    """Returns the agents' log lines about late trainers."""
    return [line for agent in agents for line in agent.stderr().splitlines() if "trainer_late" in line]


def verdict(agent):
    """Returns the sentence with which the job has failed, and the last lines in it."""
    return agent.stderr().rpartition("tfe-agent: job default failed: ")[2]


@pytest.mark.parametrize("after", [0, LONG_S + 1])
@pytest.mark.heavy
def test_rank_that_never_connects_is_named(server, fleet, after):
    """Regressions: rank 1 reported that rank 0 had never listened, because its connection had ended with the killed
    trainer; and no rank was named if the trainers took longer than --start-timeout to listen."""
    server(*CALM)
    agents = meet(fleet, 3, "absent=2", f"after={after}", options=[f"--start-timeout={LONG_S}"])
    assert [agent.wait(90) for agent in agents] == [1, 1, 1]
    said = late(agents)
    assert len(said) == 1 and "rank 2 never connected to rank 0" in said[0], said
    told = verdict(agents[0])
    assert "ended by SIGKILL, not started up: rank 2 never connected to rank 0" in told and ", after 0 restarts" in told
    assert "loading the model\nended by tfe-agent: rank 2 never connected to rank 0" in told, told


def test_trainers_that_have_met_are_not_late(server, fleet):
    server(*CALM)
    agents = meet(fleet, 2, options=[f"--start-timeout={LONG_S}"])
    wait_until(lambda: all("met" in agent.stdout() for agent in agents), what="the meeting")
    time.sleep(LONG_S + 1)
    assert all(agent.process.poll() is None for agent in agents)
    assert not late(agents)


# A connection to any address of 127.0.0.0/8 comes from 127.0.0.1.
ELSEWHERE = {"numbers": ("127.0.0.2", "127.0.0.3", "127.0.0.4"), "names": ("localhost",)}


@pytest.mark.parametrize("addresses", ELSEWHERE.values(), ids=ELSEWHERE)
def test_peers_whose_connections_come_from_other_addresses_are_not_late(server, fleet, addresses):
    """Regression: behind a second interface or address translation they counted as late, and a good training was
    killed."""
    server(*CALM)
    agents = meet(fleet, 3, options=[f"--start-timeout={LONG_S}"], addresses=addresses)
    wait_until(lambda: all("met" in agent.stdout() for agent in agents), what="the meeting")
    time.sleep(LONG_S + 1)
    assert all(agent.process.poll() is None for agent in agents)
    assert not late(agents)


@pytest.mark.parametrize("addresses", ELSEWHERE.values(), ids=ELSEWHERE)
@pytest.mark.heavy
def test_missing_rank_is_noticed_where_addresses_do_not_name_it(server, fleet, addresses):
    server(*CALM)
    agents = meet(fleet, 3, "absent=2", options=[f"--start-timeout={LONG_S}"], addresses=addresses)
    assert [agent.wait(90) for agent in agents] == [1, 1, 1]
    said = late(agents)
    # Once more if the machine stalled, so that no trainer could be blamed for the first time.
    assert said and all("rank 0 has connections from only 1 of 2 ranks of other nodes" in line for line in said), said


@pytest.mark.heavy
def test_rank_0_that_never_listens_is_what_the_others_lack(server, fleet):
    server(*CALM)
    agents = meet(fleet, 3, "deaf=0", options=["--start-timeout=1"])
    assert [agent.wait(90) for agent in agents] == [1, 1, 1]
    said = late(agents)
    assert said and all(re.search("rank [12] has no connection to rank 0", line) for line in said), said


def test_trainer_that_its_own_node_waits_for_is_named(server, fleet):
    server(*CALM)
    agents = meet(fleet, 1, "deaf=1", "absent=1", options=["--start-timeout=1", "--nproc-per-node=2"])
    assert agents[0].wait() == 1
    said = late(agents)
    assert len(said) == 1 and "local_rank=1" in said[0], said
    assert "rank 1 neither listens nor has a connection to rank 0" in verdict(agents[0])


def test_trainer_that_only_connects_is_not_late(server, fleet):
    """In some clusters other than TensorFlow's only rank 0 listens."""
    server(*CALM)
    agents = meet(fleet, 1, "deaf=1", options=[f"--start-timeout={LONG_S}", "--nproc-per-node=2"])
    wait_until(lambda: agents[0].stdout().count("met") == 2, what="the meeting")
    time.sleep(LONG_S + 1)
    assert agents[0].process.poll() is None and not late(agents)


@pytest.mark.parametrize("words", [["absent=1"], []])
@pytest.mark.heavy
def test_abort_is_a_failed_start_until_the_cluster_is_whole(server, fleet, words):
    """TensorFlow listens before it waits for its peers, and aborts when it has waited in vain."""
    server(*CALM, "--ttl=5")  # the time in which a lost peer could explain it
    agents = meet(fleet, 2, f"abort={LONG_S + 1}", *words)
    assert [agent.wait() for agent in agents] == [1, 1]
    told = verdict(agents[0])
    assert "SIGABRT" in told and ("not started up" in told) == bool(words), told


def test_abort_of_a_lone_trainer_is_no_failed_start(server, fleet):
    server(*CALM)
    agent, = meet(fleet, 1, "absent=0", "abort=0")
    assert agent.wait() == 1
    assert verdict(agent).startswith("ended by SIGABRT (rank 0 on "), verdict(agent)


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
    assert "ended by SIGKILL, silent for too long: no step was reported and nothing was printed" in verdict(agent)
    assert "ended by tfe-agent: no step was reported and nothing was printed" in verdict(agent)


def test_of_several_trainers_the_silent_one_is_ended(server, fleet):
    """Regression: output of one trainer counted for all, and the first trainer was blamed."""
    server(*CALM)
    path = fleet.folder / "print.py"
    path.write_text("import os, time\nwhile True:\n    print('.' * (os.environ['TFE_RANK'] == '0'), end='', flush=True)\n    time.sleep(0.1)\n")
    agent = fleet.start(f"--progress-timeout={LONG_S}", "--max-restarts=0", "--nproc-per-node=2", command=[str(path)])
    assert agent.wait() == 1
    assert "(rank 1 on " in verdict(agent) and "silent for too long" in verdict(agent)


@pytest.mark.parametrize("how", ["tells", "prints"])
def test_trainer_that_is_heard_is_not_silent(server, fleet, how):
    server(*CALM)
    path = fleet.folder / "print.py"
    path.write_text("import time\nwhile True:\n    print('.')\n    time.sleep(0.1)\n")
    command = [TALKER, str(fleet.folder)] if how == "tells" else [str(path)]
    agent = fleet.start(f"--progress-timeout={LONG_S}", "--max-restarts=0", command=command)
    wait_until(lambda: "event=epoch" in agent.stderr(), what="the start")
    time.sleep(2 * LONG_S)
    assert agent.process.poll() is None and "trainer_late" not in agent.stderr()


def memory_group(limit):
    """A control group with this memory limit, or None if this process may not create one."""
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
