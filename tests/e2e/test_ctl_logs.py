"""tfe-ctl logs: trainers' output through the server, which stores none of it."""

import json
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest
from agents import TOGETHER, fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from programs import clean_environment, program

CALM = ("--ttl", "10", "--gather", "0.3")

TALK = """
import os, sys, time
rank, epoch = os.environ["TFE_RANK"], os.environ["TFE_EPOCH"]
for i in range(LINES):
    print(f"{rank} says {i} in {epoch}", flush=True)
print(f"{rank} complains", file=sys.stderr, flush=True)
open(f"{os.environ['FOLDER']}/said.{epoch}.{rank}", "w").close()
while not os.path.exists(f"{os.environ['FOLDER']}/end.{epoch}"):
    time.sleep(0.02)
THEN
"""


def talkers(fleet, n, *options, lines=5, then="", env=None, nnodes=None):
    """Starts agents whose trainers print; the first epoch has all of them."""
    script = fleet.folder / "talk.py"
    script.write_text(TALK.replace("LINES", str(lines)).replace("THEN", then))
    agents = [fleet.start(f"--nnodes={nnodes or f'{n}:{n}'}", f"--node-name=m{i}", TOGETHER, *options, command=[str(script)],
                          env={"FOLDER": str(fleet.folder), **(env or {})}) for i in range(n)]
    wait_until(lambda: len(list(fleet.folder.glob("said.1.*"))) == n, what="trainers that have talked")
    return agents


def rows(ctl, *options):
    done = ctl("logs", "--json", *options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines(found, stream="stdout"):
    return [line for row in found if row["stream"] == stream for line in row["text"].split("\n") if row["text"]]


def told(found):
    return len(lines(found)) + len(lines(found, "stderr")) + sum(row["lost"] for row in found)


def test_the_last_lines_are_those_of_the_newest_epoch(server, fleet, ctl):
    server(*CALM)
    talkers(fleet, 1, then="sys.exit(3 if epoch == '1' else 0)", lines=30)
    (fleet.folder / "end.1").touch()
    wait_until(lambda: (fleet.folder / "said.2.0").exists(), what="a second epoch")
    found = wait_until(lambda: (found := lines(rows(ctl, "-n", "3"))) and found[-1] == "0 says 29 in 2" and found, what="the newest lines")
    assert found == [f"0 says {i} in 2" for i in (27, 28, 29)]
    assert len(lines(rows(ctl, "-n", "3"), "stderr")) <= 3


def heard(ctl, n, *options, stream="stdout"):
    """Waits for rows with n lines of the stream, because a trainer's output may still be on its way to the agent."""
    return wait_until(lambda: (found := rows(ctl, *options)) and len(lines(found, stream)) == n and found, what=f"{n} lines")


class Follower:
    """tfe-ctl logs -f, read by a thread; with pauses=True only its first line, until go_on()."""

    def __init__(self, state_dir, *options, pauses=False):
        self.process = subprocess.Popen([program("tfe-ctl"), "--state-dir", str(state_dir), "logs", "-f", "--json", *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=clean_environment(), text=True)
        self.rows = []
        self.may_read = threading.Event()
        if not pauses:
            self.go_on()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in filter(lambda line: line.endswith("\n"), self.process.stdout):
            self.rows.append(json.loads(line))
            self.may_read.wait()

    def go_on(self):
        self.may_read.set()

    def wait_ready(self):
        """Waits until it follows: it has received the trainer's first line."""
        wait_until(lambda: "ready" in lines(self.rows), what="the trainer's first line")

    def end(self):
        self.go_on()
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def follow(state_dir):
    followers = []

    def start(*options, **more):
        followers.append(Follower(state_dir, *options, **more))
        return followers[-1]

    yield start
    for follower in followers:
        follower.end()


def test_lines_of_all_ranks_and_streams_in_the_order_of_time(server, fleet, ctl):
    server(*CALM)
    talkers(fleet, 2)
    found = heard(ctl, 10)
    assert sorted(lines(found)) == sorted(f"{r} says {i} in 1" for r in range(2) for i in range(5))
    assert sorted(lines(heard(ctl, 2, stream="stderr"), "stderr")) == ["0 complains", "1 complains"]
    assert [row["at_ms"] for row in found] == sorted(row["at_ms"] for row in found)
    assert all(abs(row["at_ms"] / 1000 - time.time()) < 3600 for row in found)
    assert {(row["name"], row["rank"]) for row in found} in ({("m0", 0), ("m1", 1)}, {("m0", 1), ("m1", 0)})
    assert {(row["epoch"], row["lost"], row["tail"], row["silent"]) for row in found} == {(1, 0, False, False)}
    assert {row["rank"] for row in rows(ctl, "--rank=1")} == {1}
    assert {row["name"] for row in rows(ctl, "--node=m0")} == {"m0"}
    assert lines(rows(ctl, "-n", "2", "--rank=0")) == ["0 says 3 in 1", "0 says 4 in 1"]
    assert rows(ctl, "--epoch=7") == [] == rows(ctl, "-n0")
    shown = ctl("logs", "--rank=0").stdout.splitlines()
    assert shown[0] == "--- epoch 1" and len(shown) == 7
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} \[0(?: err)?\] 0 (says \d in 1|complains)", line) for line in shown[1:])
    later = max(row["at_ms"] for row in found) // 1000 + 61
    assert rows(ctl, "--since", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(later))) == []
    assert len(lines(rows(ctl, "--since=1h"))) == 10


def test_who_may_read_and_what_there_is(server, fleet, ctl, token):
    s = server(*CALM)
    talkers(fleet, 1)
    assert ctl("logs", "nothing").stderr == 'tfe-ctl: there is no job "nothing" on this server\n'
    done = ctl("logs", "--node=nobody")
    assert done.returncode == 1 and 'no node "nobody"' in done.stderr
    theirs = token("--role=observer", "--job=team-*")
    done = ctl("logs", "default", "--token", theirs)
    assert done.returncode == 77 and "not for that job" in done.stderr
    done = ctl("logs", "default", "--token", s.token("agent"))
    assert done.returncode == 77
    for wrong in (["-n", "many"], ["--since=soon"], ["--epoch=0"], ["--rank=-1"]):
        assert ctl("logs", *wrong).returncode == 2, wrong


def test_followers_hear_the_next_epoch_and_whoever_comes_to_it(server, fleet, ctl, follow):
    server(*CALM)
    talkers(fleet, 1, "--max-restarts=3", then="import sys; sys.exit(3)")
    all_ranks, second = follow(), follow("--rank=0", "--epoch=2")
    wait_until(lambda: len(lines(all_ranks.rows)) == 5)
    assert second.rows == []
    (fleet.folder / "end.1").touch()
    wait_until(lambda: len(lines(second.rows)) == 5 and len(lines(all_ranks.rows)) == 10, what="lines of the second epoch")
    assert lines(second.rows) == [f"0 says {i} in 2" for i in range(5)]
    assert lines(all_ranks.rows)[:5] == [f"0 says {i} in 1" for i in range(5)]


def test_a_server_that_comes_back_is_followed_on(server, fleet, follow, state_dir):
    s = server(*CALM)
    talkers(fleet, 1)
    follower = follow()
    wait_until(lambda: len(lines(follower.rows, "stderr")) == 1 and len(lines(follower.rows)) == 5)
    s.kill()
    server(*CALM, port=s.port)
    script = fleet.folder / "more"
    (fleet.folder / "end.1").touch()
    wait_until(lambda: fleet.agents[0].process.poll() == 0, what="the agent's end")
    assert len(lines(follower.rows)) == 5  # nothing is printed twice
    assert not script.exists()


def cut_once(port, after):
    """Relays connections to the port; the first one is cut in the middle of the server's response."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry():
        n = after
        while True:
            try:
                theirs, _ = listener.accept()
            except OSError:
                return
            with theirs, socket.create_connection(("127.0.0.1", port)) as ours:
                other = {theirs: ours, ours: theirs}
                while n > 0:
                    ready = select.select([theirs, ours], [], [])[0][0]
                    data = ready.recv(4096)
                    if not data:
                        break
                    other[ready].sendall(data)
                    n -= len(data) if ready is ours else 0
            n = float("inf") if n <= 0 else n

    threading.Thread(target=carry, daemon=True).start()
    return listener


def test_an_answer_that_is_cut_off_comes_whole_by_the_next_connection(server, fleet, ctl):
    """Regression: rows received before the cut were dropped and then skipped as known."""
    s = server(*CALM)
    talkers(fleet, 1, lines=2000)
    heard(ctl, 2000, "-n", "3000")
    with cut_once(s.port, 10000) as listener:
        found = rows(ctl, "default", "-n", "3000", "--rdzv-endpoint", f"127.0.0.1:{listener.getsockname()[1]}")
    assert lines(found) == [f"0 says {i} in 1" for i in range(2000)]


def test_the_end_of_a_machine_that_is_gone(server, fleet, ctl, status):
    """The server stores only the tail sent with EXITED, and only of trainers that failed."""
    server("--ttl", "3", "--gather", "0.3")
    agents = talkers(fleet, 1, "--max-restarts=3", then="print('the very end', file=sys.stderr); sys.exit(3)")
    (fleet.folder / "end.1").touch()
    wait_until(lambda: (fleet.folder / "said.2.0").exists(), what="the second epoch")
    assert not any(row["tail"] for row in rows(ctl, "default"))  # its agent still has the lines
    agents[0].send(signal.SIGKILL)
    agents[0].wait()
    found = wait_until(lambda: [row for row in rows(ctl, "default") if row["tail"]], what="the tail")
    assert [(row["name"], row["rank"], row["epoch"], row["stream"]) for row in found] == [("m0", 0, 1, "stderr")]
    assert found[0]["text"].split("\n") == ["0 complains", "the very end"]
    assert "m0 is not connected; last output of its rank 0 in epoch 1" in ctl("logs", "default").stdout


def test_logs_after_the_end_of_the_agents_say_why_there_are_none(server, fleet, ctl):
    server(*CALM)
    agents = talkers(fleet, 1)
    assert "no output" not in ctl("logs", "default").stderr
    (fleet.folder / "end.1").touch()
    assert agents[0].wait() == 0
    done = wait_until(lambda: next((d for d in [ctl("logs", "default")] if not d.stdout), None), what="no lines")
    assert done.returncode == 0 and done.stderr.startswith("tfe-ctl: no output: ") and "--log-dir" in done.stderr


def test_files_have_what_memory_has_not(server, fleet, ctl):
    """The agent's memory holds 2 MiB; here are 60,000 lines and an earlier epoch."""
    server(*CALM)
    logs = fleet.folder / "logs"
    talkers(fleet, 1, f"--log-dir={logs}", "--tee=0", "--max-restarts=3", lines=60000, then="import sys; sys.exit(3)")
    wait_until(lambda: lines(rows(ctl, "-n1")) == ["0 says 59999 in 1"])
    found = lines(rows(ctl, "-n", "all"))
    assert found == [f"0 says {i} in 1" for i in range(60000)]
    assert lines(rows(ctl, "-n", "50000")) == found[10000:]
    (fleet.folder / "end.1").touch()
    wait_until(lambda: (fleet.folder / "said.2.0").exists(), what="the second epoch")
    wait_until(lambda: lines(rows(ctl, "-n1")) == ["0 says 59999 in 2"])
    assert lines(rows(ctl, "--epoch=1", "-n", "3")) == found[-3:]
    assert lines(rows(ctl, "--epoch=1", "-n", "all")) == found
    assert lines(rows(ctl, "--epoch=1", "-n", "all"), "stderr") == ["0 complains"]
    # Log files have no times except that of their last line.
    written = max(file.stat().st_mtime for file in logs.glob("default/run-1/epoch-1/*"))
    after, before = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(written) + more)) for more in (1, -1))
    assert rows(ctl, "--epoch=1", "-n", "all", "--since", after) == []
    done = ctl("logs", "--epoch=1", "-n", "all", "--since", before)
    assert "0 says 0 in 1" in done.stdout and done.stderr.count("some may be older than --since") == 1
    assert "older" not in ctl("logs", "--epoch=1", "-n", "all").stderr


@pytest.mark.parametrize("options, nnodes, names", [(["--ps=1"], "1:1", ["ps-0", "worker-0"]), ([], "2:2", ["rank-0", "rank-1"])])
def test_each_agent_has_its_own_files_whatever_they_are_called(server, fleet, ctl, options, nnodes, names):
    """Regressions: "ps-0" was not found, and with one --log-dir each agent read all files. Memory holds 2 MiB."""
    server("--ttl", "10", "--gather", "10")
    talkers(fleet, 2, *options, f"--log-dir={fleet.folder / 'logs'}", "--tee=0", lines=150000, nnodes=nnodes)
    assert sorted(file.stem for file in fleet.folder.glob("logs/*/run-1/epoch-1/*.stdout")) == names
    wait_until(lambda: sorted(lines(rows(ctl, "-n1"))) == [f"{rank} says 149999 in 1" for rank in range(2)])
    found = rows(ctl, "-n", "all")
    assert len({(row["name"], row["rank"]) for row in found}) == 2
    for rank in range(2):
        assert lines(row for row in found if row["rank"] == rank) == [f"{rank} says {i} in 1" for i in range(150000)]


def test_a_reader_that_does_not_read_is_told_what_it_missed(server, fleet, follow, status, state_dir):
    """A slow reader delays nothing: the trainer continues to print and renewals arrive."""
    server(*CALM)
    flood = fleet.folder / "flood.py"
    flood.write_text("import os, time\n"
                     "line = 'x' * 99\n"
                     "print('ready', flush=True)\n"
                     "while not os.path.exists(f\"{os.environ['FOLDER']}/go\"): time.sleep(0.01)\n"
                     "for i in range(100000): print(i, line)\n"
                     "open(f\"{os.environ['FOLDER']}/done\", 'w').close()\n"
                     "while not os.path.exists(f\"{os.environ['FOLDER']}/end\"): time.sleep(0.02)\n"
                     "print('over', flush=True)\n")
    fleet.start("--nnodes=1", "--log-filter-ranks=1", command=[str(flood)], env={"FOLDER": str(fleet.folder)})
    wait_until(lambda: [j for j in status() if j["state"] == "running"])
    follower = follow(pauses=True)
    follower.wait_ready()
    (fleet.folder / "go").touch()
    wait_until(lambda: (fleet.folder / "done").exists(), what="the trainer, which nobody holds")
    follower.go_on()
    (fleet.folder / "end").touch()
    wait_until(lambda: told(follower.rows) == 100002, what="every line, or how many are lost")
    assert sum(row["lost"] for row in follower.rows) > 0


BLANK = """
import os, time
print("ready", flush=True)
while not os.path.exists(f"{os.environ['FOLDER']}/go"):
    time.sleep(0.01)
for _ in range(600):
    print(flush=True)
    time.sleep(0.002)
print("over", flush=True)
time.sleep(600)
"""


def test_empty_lines_are_lines(server, fleet, ctl, follow, status):
    """Regression: a chunk with one empty line was mistaken for a count of waiting lines: it was not shown, and its
    credit was lost."""
    server(*CALM)
    script = fleet.folder / "blank.py"
    script.write_text(BLANK)
    fleet.start("--nnodes=1", "--log-filter-ranks=1", command=[str(script)], env={"FOLDER": str(fleet.folder)})
    wait_until(lambda: [j for j in status() if j["state"] == "running"])
    follower = follow()
    follower.wait_ready()
    (fleet.folder / "go").touch()
    wait_until(lambda: "over" in lines(follower.rows), what="the last line")
    assert "\n".join(row["text"] for row in follower.rows).split("\n") == ["ready", *[""] * 600, "over"]
    shown = [line.rstrip() for line in ctl("logs", "-n", "603").stdout.splitlines()]
    assert len(shown) == 603 and all(line.endswith(" [0]") for line in shown[2:-1])


FLOOD = """
import os, time
folder = os.environ["FOLDER"]
block = b"step 123 loss 0.1234567 accuracy 0.98765\\n" * 20000
begun = time.monotonic()
n = 0
while n < 2000000 or time.monotonic() < begun + 4:
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
    n += 20000
open(f"{folder}/.done", "w").write(str(n))
os.rename(f"{folder}/.done", f"{folder}/done")
while not os.path.exists(f"{folder}/end"):
    time.sleep(0.02)
"""


def test_a_trainer_that_floods_slows_no_renewal(server, fleet, follow, status):
    """A million lines per second and more, for longer than a lease, while a client follows them."""
    s = server("--ttl", "3", "--gather", "0.3")
    script = fleet.folder / "flood.py"
    script.write_text(FLOOD)
    fleet.start("--nnodes=1", f"--log-dir={fleet.folder / 'logs'}", "--log-max-bytes=1000000", "--tee=0", command=[str(script)],
                env={"FOLDER": str(fleet.folder)})
    wait_until(lambda: [j for j in status() if j["state"] == "running"])
    follower = follow("-n0")
    wait_until(lambda: (fleet.folder / "done").exists(), what="the end of the flood")
    assert [(job["state"], job["epoch"]) for job in status()] == [("running", 1)]
    assert not s.events("suspect") and not s.events("lease_over")
    wait_until(lambda: told(follower.rows) > 1000000, what="lines, or how many are lost")
