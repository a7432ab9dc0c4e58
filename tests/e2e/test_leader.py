"""The leader first: TensorFlow's workers look for worker 0 as they start, and wait a second before they look again. So the
others start once rank 0 listens, or 300 ms after it."""

import json

import pytest

from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until

CALM = ("--gather", "0.3")
ROUNDS = 5  # whatever else runs on this machine is measured, too

# Writes down when it began and when it listened; rank 0 waits before that.
SCRIPT = '''
import json, os, pathlib, socket, sys, time
began = time.monotonic()
config = json.loads(os.environ["TF_CONFIG"])
workers, rank = config["cluster"]["worker"], config["task"]["index"]
time.sleep(float(sys.argv[2]) if rank == 0 else 0)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("0.0.0.0", int(workers[rank].rpartition(":")[2])))
listener.listen(16)
path = pathlib.Path(sys.argv[1]) / f"times.{rank}"
path.with_suffix(".new").write_text(json.dumps({"began": began, "listens": time.monotonic()}))
path.with_suffix(".new").rename(path)
time.sleep(3600)
'''


def start_three(fleet, job, wait):
    """Starts a job of three nodes; returns by rank what they have written down."""
    folder = fleet.folder / job
    folder.mkdir()
    script = folder / "script.py"
    script.write_text(SCRIPT)
    for _ in range(3):
        fleet.start(f"--job={job}", "--nnodes=3:3", command=[str(script), str(folder), str(wait)])
    files = [folder / f"times.{rank}" for rank in range(3)]
    wait_until(lambda: all(file.exists() for file in files), what="all three")
    return [json.loads(file.read_text()) for file in files]


def leader_listened_in_time(s, job):
    """Whether the server knew of it before it would have started the others anyway."""
    return min(e["ms"] for e in s.events("node_listening") if e["job"] == job) < 300


def test_the_others_start_after_rank_0_listens(server, fleet):
    s = server(*CALM)
    for i in range(ROUNDS):
        leader, *rest = start_three(fleet, f"round-{i}", 0.1)
        if leader_listened_in_time(s, f"round-{i}"):
            assert all(other["began"] >= leader["listens"] for other in rest), (leader, rest)
            return
    pytest.fail("rank 0 took 300 ms and more to listen, every time")


def test_a_rank_0_that_listens_at_once_holds_nobody_up(server, fleet):
    server(*CALM)
    waits = []
    for i in range(ROUNDS):
        leader, *rest = start_three(fleet, f"round-{i}", 0)
        waits.append(max(other["began"] for other in rest) - leader["began"])
        if waits[-1] < 0.2:
            return
    pytest.fail(f"the others started so many seconds after rank 0: {waits}")


def test_a_rank_0_that_does_not_listen_is_not_waited_for(server, fleet):
    server(*CALM)
    leader, *rest = start_three(fleet, "slow", 3)
    assert all(other["began"] < leader["listens"] - 1 for other in rest), (leader, rest)
