"""The channel between agents and training scripts, with real processes."""

import json
import os
import pathlib
import re
import signal
import sys
import time

from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from programs import program

TALKER = str(pathlib.Path(__file__).with_name("talker.py"))
CALM = ("--ttl", "10", "--gather", "0.3")


def start(fleet, *options, talker=()):
    return fleet.start("--nnodes=1:2", *options, command=[TALKER, str(fleet.folder), *talker])


def test_growth_comes_at_a_checkpoint_that_the_script_was_asked_for(server, fleet, ctl):
    server(*CALM)
    start(fleet, "--grow-wait=60s")
    first = fleet.wait_world(1)
    wait_until(lambda: fleet.lines("checkpoint"), what="the first checkpoint")
    assert not fleet.lines("save")
    start(fleet, "--grow-wait=60s")
    asked = wait_until(lambda: fleet.lines("save"), what="the asking")[0]
    began = asked["time"]
    assert asked["number"] >= 1 and asked["preempt"], "the file of TFE_PREEMPT_FILE comes with it"
    second = fleet.wait_world(2, above=first)
    answered = [c for c in fleet.lines("checkpoint") if c["answers"] == asked["number"]]
    assert answered and answered[0]["epoch"] == first
    assert not os.path.exists(asked["preempt_file"])
    # Long before the end of --grow-wait.
    assert min(s["time"] for s in fleet.starts(second)) - began < 20
    paths = {s["socket"] for s in fleet.starts(first)}
    assert paths < {s["socket"] for s in fleet.starts(second)}, "an agent's socket keeps its name over epochs"
    assert {"save", "saved", "checkpoint"} <= {event["kind"] for event in json.loads(ctl("events", "--json").stdout)["events"]}
    fleet.order("exit 0")


def test_what_memory_keeps_is_shown_and_is_not_done_again(server, fleet, ctl, status, shown):
    server(*CALM)
    start(fleet, talker=["--keeps"])
    fleet.wait_world(1)
    node = wait_until(lambda: (node := status()[0]["nodes"][0]) and (node["snapshot_step"] or 0) > 20 and node, what="what is kept")
    assert (node["memory_bytes"], node["snapshot_epoch"]) == (8192, 1)
    assert status()[0]["memory_bytes"] == 8192
    heads, row = shown().splitlines()[-2:]  # below the job's header lines
    assert heads.split()[-2:] == ["SNAPSHOT", "MEMORY"] and row.split()[-2:] == ["1", "MiB"]
    os.kill(node["trainer_pids"][0], signal.SIGKILL)

    def lost():
        rows = json.loads(ctl("epochs", "--json").stdout)["epochs"]
        return len(rows) == 2 and rows[1]["progressed_ms"] and rows[0]
    row = wait_until(lost, what="the next epoch's first step")
    assert row["saved_step"] == 1 and row["lost_steps"] <= 2, "all since the checkpoint was kept"
    fleet.order("exit 0")


def test_checkpoint_directory_of_a_script_that_says_nothing_is_watched(server, fleet):
    server(*CALM)
    saves = fleet.folder / "later" / "model"
    agent = start(fleet, f"--checkpoint-dir={saves}", "--log-level=debug", talker=["--saves", str(saves)])
    fleet.wait_world(1)
    seen = wait_until(lambda: len(names := re.findall(r"checkpoint_seen name=(ckpt-\d+) ", agent.stderr())) >= 3 and names,
                      what="the saves' being seen")
    # An agent that was suspended finds the next checkpoint by itself; and the script records what it has saved.
    assert len(set(seen)) == len(seen)
    wait_until(lambda: set(seen) <= {f"ckpt-{line['step']}" for line in fleet.lines("checkpoint")}, what="saves of these names")
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_a_server_that_knows_nothing_counts_on_from_the_checkpoints(server, fleet):
    """Otherwise the tfe package would treat every save as outdated."""
    server(*CALM)
    saves = fleet.folder / "model"
    saves.mkdir()
    (saves / "ckpt-6-100.index").touch()
    (saves / "tfe-epoch-7").touch()
    start(fleet, f"--checkpoint-dir={saves}")
    assert fleet.wait_world(1) == 8
    fleet.order("exit 0")


def test_flood_of_nonsense_stops_nobody(server, fleet):
    s = server("--ttl", "3", "--gather", "0.3")
    agent = start(fleet, talker=["--flood"])
    epoch = fleet.wait_world(1)
    time.sleep(4)  # longer than the lease
    assert fleet.last_epoch() == epoch
    assert not s.events("lease_expired")
    assert agent.stderr().count("script_message_refused") == 1
    ticks = pathlib.Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
    assert seconds < 2.0
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_remote_checkpoint_directory_is_refused(fleet):
    agent = fleet.start_program([program("tfe-agent"), "--python", sys.executable, "--checkpoint-dir=gs://bucket/run", "x.py"])
    assert agent.wait() == 2
    assert "not a local directory" in agent.stderr()


def test_planned_stop_lets_a_script_that_listens_end_by_itself(server, fleet):
    """No trainer fails when a node joins: the scripts are asked to stop instead of being killed."""
    server(*CALM, "--stop-grace", "20")
    agents = [start(fleet)]
    epoch = fleet.wait_world(1)
    agents.append(start(fleet))
    fleet.wait_world(2, above=epoch)
    old = [line["event"] for line in fleet.lines() if line["epoch"] == epoch]
    assert "stop" in old and old[-1] == "end", old
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]
