"""Ends that must neither be cut off nor waited for without limit: rank 0 that still exports, a process held by threads,
trainers that do not use their cluster."""

import re

import pytest

from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until

CALM = ("--gather", "10")

# Rank 0 continues after the others have ended: silently for some seconds, or computing.
EXPORTS = '''
import os, sys, time
how, seconds = sys.argv[1], float(sys.argv[2])
if os.environ["RANK"] == "0":
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if how == "works":
            open(os.environ["TMPDIR"] + "/export", "w").write("x" * 100000)
        time.sleep(0.1)
print("through", flush=True)
'''

# Ends as requested, but a thread keeps the process alive.
HELD = '''
import atexit, os, sys, threading, time
holds, end = sys.argv[1:]
if holds == "thread":
    threading.Thread(target=lambda: time.sleep(1000)).start()
else:
    atexit.register(time.sleep, 1000)
if end == "fails":
    raise RuntimeError("the model is wrong")
sys.exit(int(end))
'''

# Reports steps without joining any cluster.
ALONE = '''
import json, os, socket, time
import re
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for step in range(600):
    told = {"type": "progress", "epoch": int(os.environ["TFE_EPOCH"]), "rank": int(os.environ["TFE_RANK"]), "step": step}
    agent.sendto(json.dumps(told).encode(), os.environ["TFE_SOCKET"])
    time.sleep(0.1)
    if os.path.exists(os.environ["DONE"]):
        break
'''


@pytest.fixture
def run(fleet):  # noqa: F811
    """Starts n agents of one job with this script."""
    def start(n, text, *words, options=()):
        script = fleet.folder / "script.py"
        script.write_text(text)
        return [fleet.start(f"--nnodes={n}", "--max-restarts=0", "--no-standby", *options, command=[str(script), *words])
                for _ in range(n)]
    return start


@pytest.mark.heavy
@pytest.mark.parametrize("how, seconds", [("works", 30), ("sleeps", 10)])
def test_rank_0_has_the_time_that_it_needs_when_the_others_are_through(server, run, status, how, seconds):
    """Regression: rank 0 was killed after the exit grace, and the job failed with an exit code that never occurred."""
    s = server(*CALM, "--exit-grace", "1", "--finish-idle", "10")
    agents = run(2, EXPORTS, how, str(seconds), options=["--exit-grace=1s"])
    wait_until(lambda: status() and "1 other node has ended with exit status 0, and rank 0 on" in (status()[0]["waits"] or ""),
               what="word of who is through")
    assert [agent.wait(seconds + 60) for agent in agents] == [0, 0]
    assert len(s.events("epoch")) == 1


@pytest.mark.heavy
def test_rank_0_that_is_silent_for_long_when_the_others_are_through_is_ended(server, run, status):
    server(*CALM, "--ttl", "3", "--finish-idle", "40")
    agents = run(2, EXPORTS, "sleeps", "1000")
    wait_until(lambda: status() and "no activity for" in (status()[0]["waits"] or ""), deadline=120, what="its silence")
    assert [agent.wait(90) for agent in agents] == [1, 1]
    told = agents[0].stderr().rpartition("tfe-agent: job default failed: ")[2]
    assert re.search(r"ended after 40 s without activity, while other trainers had succeeded \(rank 0 on \S+\), after 0 restarts", told), told
    assert "exit code" not in told


@pytest.mark.parametrize("holds", ["thread", "atexit"])
@pytest.mark.parametrize("end, code", [("0", 0), ("3", 3), ("fails", 1)])
def test_a_process_that_is_held_after_its_main_thread_is_ended_with_its_exit_status(server, run, holds, end, code):
    s = server("--gather=0.1")
    (agent,) = run(1, HELD, holds, end, options=["--exit-grace=1s"])
    assert agent.wait() == (1 if code else 0)
    assert "event=trainer_held" in agent.stderr()
    assert [e.get("code", 0) for e in s.events("node_exited")] == [code]
    if end == "fails":
        assert "RuntimeError: the model is wrong" in agent.stderr()


@pytest.mark.heavy
def test_trainers_that_do_not_use_their_cluster_are_warned_of(server, run, fleet, status, ctl):  # noqa: F811
    """Regression: each trainer trained by itself, and the job succeeded."""
    done = fleet.folder / "done"
    server(*CALM)
    agents = run(2, f"import os; os.environ['DONE'] = {str(done)!r}\n{ALONE}")
    wait_until(lambda: status() and status()[0]["alone"] == 2, what="the warning")
    assert "warning: 2 of 2 nodes do not use the cluster that TF_CONFIG gives them" in ctl("status").stdout
    told = ctl("events", "default").stdout
    assert told.count("neither listens at its address nor is connected to rank 0") == 2
    assert all("event=trains_alone" in agent.stderr() for agent in agents)
    done.touch()
    assert [agent.wait() for agent in agents] == [0, 0]


@pytest.mark.heavy
def test_with_require_cluster_a_trainer_without_one_has_failed(server, run):
    server(*CALM)
    agents = run(2, "import os; os.environ['DONE'] = '/nonexistent'\n" + ALONE, options=["--require-cluster"])
    assert [agent.wait(60) for agent in agents] == [1, 1]
    assert any("without using the cluster that TF_CONFIG gives it (--require-cluster)" in agent.stderr() for agent in agents)


@pytest.mark.heavy
def test_a_script_that_neither_listens_nor_does_anything_is_late(server, run):
    """Regression: the script hung at an address of another cluster, and --start-timeout never began."""
    server(*CALM)
    agents = run(2, "import time; time.sleep(1000)", options=["--start-timeout=2s"])
    assert [agent.wait(90) for agent in agents] == [1, 1]
    assert "neither listens nor has a connection to rank 0" in agents[0].stderr() + agents[1].stderr()
