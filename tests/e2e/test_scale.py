"""tfe-rdzv --scale-command: when jobs want other machines than the pool has, a command is told so, and never two at once."""

import fcntl
import json
import os
import signal
import sys
import time

import pytest

from conftest import ROOT, wait_until
from pooled import Waiting, jobs, order, pool, spec
from programs import children, is_alive

# Keeps what it was told, says what the file `answer` says, and is held up as long as `hold` is there.
COMMAND = """
import json, os, pathlib, sys, time
here = pathlib.Path(sys.argv[1])
told = sys.stdin.read()
number = len(list(here.glob("told.*")))
out = here / f".{number}"
beside = [pid for pid in (json.loads(path.read_text())["pid"] for path in here.glob("told.*")) if os.path.exists(f"/proc/{pid}")]
out.write_text(json.dumps({"pid": os.getpid(), "at": time.time(), "told": json.loads(told), "beside": beside,
                           "token": [name for name in os.environ if name.startswith("TFE_")]}))
out.rename(here / f"told.{number}")
while (here / "hold").exists():
    time.sleep(0.01)
if (here / "answer").exists():
    text = (here / "answer").read_text()
    print(text.replace("SOON", str(int(time.time() * 1000) + 600000)).replace("PAST", "1000"), end="")
(here / f"ended.{number}").touch()
sys.exit(int((here / "status").read_text()) if (here / "status").exists() else 0)
"""


class Scaled:
    """A server with such a command, and what the command was told."""

    def __init__(self, server, folder, wait="200ms", timeout="20s"):
        self.folder = folder
        folder.mkdir()
        (folder / "command.py").write_text(COMMAND)
        self.options = (f"--scale-command=exec {sys.executable} {folder}/command.py {folder}", f"--scale-wait={wait}",
                        f"--scale-timeout={timeout}")
        self.start, self.server = server, server(*self.options, env={"TFE_BIND": "127.0.0.1"})

    def told(self, n):
        """What the n-th run (from 1 on) was told."""
        return json.loads(wait_until(lambda: (path := self.folder / f"told.{n - 1}").exists() and path, what=f"run {n}").read_text())

    def runs(self):
        return len(list(self.folder.glob("told.*")))

    def say(self, pending):
        (self.folder / "answer").write_text(json.dumps({"pending": pending}).replace('"SOON"', "SOON").replace('"PAST"', "PAST"))

    def hold(self):
        (self.folder / "hold").touch()

    def go(self):
        (self.folder / "hold").unlink()


@pytest.fixture
def scaled(server, tmp_path):
    return lambda **more: Scaled(server, tmp_path / "scale", **more)


def sets(told):
    return {",".join(s["labels"]): {key: s[key] for key in ("min", "want", "have", "idle", "pending")} for s in told["told"]["sets"]}


def test_it_is_told_who_lacks_what_and_its_answer_counts_until_the_machines_are_there(scaled):
    s = scaled()
    s.say([{"labels": ["zone=b", "gpu=a100"], "nodes": 2, "until_ms": "SOON"}])
    token = s.server.token("agent")
    with Waiting(s.server.port, token, "a") as a:
        a.receive_until("WELCOME")
        assert order(s.server, "SUBMIT", {1: spec("fast", sizes=(2, 2), f2=700, f11=["gpu=a100"])}) == "DONE"
        told = s.told(1)
        assert told["token"] == []
        assert told["told"]["deadline_ms"] > time.time() * 1000
        assert sets(told) == {"gpu=a100": {"min": 2, "want": 2, "have": 0, "idle": 0, "pending": 0}}
        assert told["told"]["sets"][0]["jobs"] == [{"job": "fast", "priority": 700, "tasks": ["worker"], "min": 2, "want": 2, "have": 0}]
        nodes, = told["told"]["nodes"]
        assert (nodes["labels"], nodes["here"], nodes["idle"]) == ([], 1, 1) and 0 < nodes["idle_since_ms"] <= told["at"] * 1000 + 1
        # Another job: what is on its way for the first is not wanted again.
        assert order(s.server, "SUBMIT", {1: spec("more", sizes=(2, 3), f11=["gpu=a100"])}) == "DONE"
        assert order(s.server, "SUBMIT", {1: spec("any", sizes=(1, 1))}) == "DONE"
        assert a.assigned()[1] == "any"
        told = wait_until(lambda: [t for n in range(1, s.runs() + 1) if "" in sets(t := s.told(n))], what="a run with all jobs")[0]
        assert sets(told) == {"gpu=a100": {"min": 4, "want": 5, "have": 0, "idle": 0, "pending": 2},
                              "": {"min": 1, "want": 1, "have": 1, "idle": 0, "pending": 2}}
        s.say([{"labels": ["gpu=a100"], "nodes": 5, "until_ms": "SOON"}])
        runs = s.runs()
        wait_until(lambda: [e for e in s.server.events("scale_ran") if e["pending"] == 5], what="enough on its way")
        with Waiting(s.server.port, token, "b", ["gpu=a100"]) as b, Waiting(s.server.port, token, "c", ["gpu=a100", "zone=b"]) as c:
            assert b.assigned()[1] == c.assigned()[1] == "fast"
            assert jobs(s.server)["more"] == ("queued", 0)
            # Two have come, three are on their way, three are lacking: nothing to be told.
            assert s.runs() <= runs + 2
            assert order(s.server, "SCALE", {1: "more", 3: 2, 4: 4}) == "DONE"
            told = wait_until(lambda: [t for n in range(1, s.runs() + 1) if sets(t := s.told(n)).get("gpu=a100", {}).get("want") == 6],
                              what="a run with one more")[0]
            assert sets(told)["gpu=a100"] == {"min": 4, "want": 6, "have": 2, "idle": 0, "pending": 3}


def test_no_more_is_wanted_than_a_quota_lets_jobs_have(scaled, token):
    s = scaled()
    token("--role=admin", "--job=team-*", "--quota=3")
    assert order(s.server, "SUBMIT", {1: spec("team-a", sizes=(1, 9))}) == "DONE"
    assert sets(s.told(1)) == {"": {"min": 1, "want": 3, "have": 0, "idle": 0, "pending": 0}}
    assert order(s.server, "SUBMIT", {1: spec("team-b", sizes=(2, 2))}) == "DONE"
    told = wait_until(lambda: [t for n in range(1, s.runs() + 1) if sets(t := s.told(n))[""]["min"] == 3], what="a run with both")[0]
    assert sets(told)[""]["want"] == 3
    assert {job["job"]: job["want"] for job in told["told"]["sets"][0]["jobs"]} == {"team-a": 1, "team-b": 2}


def test_machines_that_came_and_went_before_are_none_of_those_on_their_way(scaled):
    """In a pool of none at all the first to come counted as all that had ever come: the rest of the order was forgotten."""
    s = scaled()
    token = s.server.token("agent")
    for name in "ab":
        with Waiting(s.server.port, token, name, ["gpu=a100"]) as earlier:
            earlier.receive_until("WELCOME")
        wait_until(lambda: pool(s.server) == {}, what="nobody")
    s.say([{"labels": ["gpu=a100"], "nodes": 3, "until_ms": "SOON"}])
    assert order(s.server, "SUBMIT", {1: spec("train", sizes=(3, 3), f11=["gpu=a100"])}) == "DONE"
    wait_until(lambda: [e for e in s.server.events("scale_ran") if e["pending"] == 3], what="three on their way")
    with Waiting(s.server.port, token, "c", ["gpu=a100"]) as c:
        c.receive_until("WELCOME")
        assert order(s.server, "SCALE", {1: "train", 3: 3, 4: 4}) == "DONE"
        told = wait_until(lambda: [t for n in range(1, s.runs() + 1) if sets(t := s.told(n)).get("gpu=a100", {}).get("want") == 4],
                          what="a run with one more")[0]
        assert sets(told) == {"gpu=a100": {"min": 3, "want": 4, "have": 0, "idle": 1, "pending": 2}}


def test_what_does_not_come_in_time_is_asked_for_again(scaled):
    s = scaled()
    s.say([{"labels": [], "nodes": 1, "until_ms": "PAST"}])
    assert order(s.server, "SUBMIT", {1: spec("train")}) == "DONE"
    for n in (1, 2):
        assert sets(s.told(n)) == {"": {"min": 1, "want": 1, "have": 0, "idle": 0, "pending": 0}}
    # … and not at every look.
    assert s.told(3)["at"] - s.told(2)["at"] > 1.9


def test_machines_without_work_are_told_too(scaled):
    s = scaled()
    with Waiting(s.server.port, s.server.token("agent"), "a", ["gpu=t4"]) as a:
        a.receive_until("WELCOME")
        nodes, = s.told(1)["told"]["nodes"]
        assert nodes["labels"] == ["gpu=t4"] and nodes["idle"] == 1
        assert s.told(1)["told"]["sets"] == []


def test_one_that_hangs_is_ended_and_runs_alone(scaled):
    s = scaled(timeout="4s")  # before it has begun to hang, on a busy machine
    s.hold()
    assert order(s.server, "SUBMIT", {1: spec("train")}) == "DONE"
    s.told(1)
    assert order(s.server, "SUBMIT", {1: spec("more")}) == "DONE"
    why = wait_until(lambda: s.server.events("scale_failed"), what="its end")[0]["why"]
    assert why == "it took longer than 4000 ms"
    assert s.told(2)["beside"] == []
    s.go()
    s.say([{"labels": [], "nodes": 2, "until_ms": "SOON"}])
    wait_until(lambda: s.server.events("scale_ran"), what="a run that ends well")


@pytest.mark.parametrize(("answer", "status", "why"), [
    ("{}", 7, "exit status is 7"),
    ("machines!", None, "answers no"),
    ('{"pending": 3}', None, "answers no"),
    ('{"pending": [{"labels": ["a=b"], "nodes": -1, "until_ms": SOON}]}', None, "answers no"),
    ('{"pending": [{"labels": [7], "nodes": 1, "until_ms": SOON}]}', None, "answers no"),
    ('{"pending": [' + ",".join(['{"labels": [], "nodes": 1, "until_ms": 1}'] * 65) + "]}", None, "answers no"),
    ("x" * 70000, None, ""),
], ids=["status", "text", "number", "negative", "label", "many", "long"])
def test_one_that_fails_or_talks_nonsense_is_tried_again_later(scaled, answer, status, why):
    s = scaled()
    (s.folder / "answer").write_text(answer)
    if status:
        (s.folder / "status").write_text(str(status))
    assert order(s.server, "SUBMIT", {1: spec("train")}) == "DONE"
    failed = wait_until(lambda: s.server.events("scale_failed"), what="its failure")[0]
    assert why in failed["why"] and failed["again_ms"] == 1000
    # The server is as before, and so is its word when the command works again.
    (s.folder / "status").unlink(missing_ok=True)
    s.say([{"labels": [], "nodes": 1, "until_ms": "SOON"}])
    wait_until(lambda: [e for e in s.server.events("scale_ran") if e["pending"] == 1], what="a run that ends well")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_runs_ends_with_its_server_and_the_next_server_runs_it_again(scaled, how):
    s = scaled()
    s.hold()
    assert order(s.server, "SUBMIT", {1: spec("train")}) == "DONE"
    first = s.told(1)["pid"]
    keeper, = children(s.server.pid, "tfe-rdzv-scale")
    s.server.process.send_signal(how)
    s.server.process.wait()
    wait_until(lambda: not is_alive(first) and not is_alive(keeper), what="nobody")
    s.go()
    again = s.start(*s.options)
    assert jobs(again) == {"train": ("queued", 0)}
    assert s.told(2)["told"]["sets"][0]["jobs"][0]["job"] == "train"


def test_one_that_outlives_its_keeper_keeps_the_next_away(scaled, state_dir):
    """Whoever runs it holds a lock: a second server on the same directory waits for that."""
    s = scaled()
    wait_until((state_dir / "endpoint").exists, what="a server")
    with open(state_dir / "scale.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert order(s.server, "SUBMIT", {1: spec("train")}) == "DONE"
        why = wait_until(lambda: s.server.events("scale_failed"), what="a refusal")[0]["why"]
        assert why == "the one of a server before still runs"
        assert s.runs() == 0
    s.told(1)
