"""Events, series and machine information, as an operator sees them."""

import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from agents import TOGETHER, fleet  # noqa: F401 (a fixture)
from conftest import ROOT, on_disk, wait_until
from programs import clean_environment, program
from raw_client import NOT_AUTHORISED, Fixed64, RawClient, encode

# Takes steps at its machine's pace; ends on request. With "print" it only prints them.
TELLER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import tfe
folder, how = sys.argv[2:4]
step = 0
while not os.path.exists(os.path.join(folder, "over")):
    step += 1
    if how == "print":
        print(f"tfe: step={step} total=100000 loss={1 / step}", flush=True)
    else:
        tfe.progress(step, samples=step * 32, total=100000, metrics={"loss": 1 / step, "broken": float("nan")})
    time.sleep(0.02)
"""

# Each of its steps uses the share of a processor given to its machine.
BURNER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import tfe
step = 0
while not os.path.exists(os.path.join(sys.argv[2], "over")):
    until = time.thread_time() + int(os.environ["BURN_MS"]) / 1000
    while time.thread_time() < until:
        pass
    step += 1
    tfe.progress(step)
    time.sleep(0.05)
"""


@pytest.fixture
def events(ctl):
    """`tfe-ctl events --json …`, as a list of dicts."""

    def ask(*options):
        done = ctl("events", "--json", *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["events"]

    return ask


def teller(fleet, how="tell"):
    script = fleet.folder / "teller.py"
    script.write_text(TELLER)
    return [str(script), str(ROOT / "agent" / "python"), str(fleet.folder), how]


def kinds(rows):
    return [row["kind"] for row in rows]


def test_a_life_in_sentences_that_outlive_the_server(server, fleet, events, ctl, state_dir):
    s = server("--gather", "0.3")
    a, b = (fleet.start("--nnodes=1:2", f"--node-name={name}", TOGETHER) for name in ("ann", "bob"))
    fleet.wait_world(2)
    b.send(signal.SIGKILL)
    fleet.wait_world(1, above=1)
    assert ctl("cancel", "default").returncode == 0
    assert a.wait() == 1
    told = wait_until(lambda: [rows for rows in [events("default")] if "job_finished" in kinds(rows)], what="its end")[0]
    assert [row["number"] for row in told] == sorted({row["number"] for row in told})
    for kind in ("node_joined", "node_ready", "epoch", "node_suspect", "switch", "ordered"):
        assert kind in kinds(told), kind
    by = {(row["kind"], row["name"]): row for row in told}
    assert by["node_joined", "ann"]["message"] == "ann has joined"
    assert by["node_suspect", "bob"]["level"] == "warn" and by["node_suspect", "bob"]["node"]
    order = next(row for row in told if row["kind"] == "ordered")
    assert "CANCEL" in order["message"] and "admin" in order["message"]
    assert told[-1]["run"] == 1 and told[-1]["message"].startswith("the job was cancelled")
    newest = "SELECT max(number) FROM events"
    wait_until(lambda: (on_disk(state_dir, newest) or [0])[0] >= told[-1]["number"], what="all of it on the disk")
    s.stop(signal.SIGKILL)
    s = server(port=s.port)
    again = events("default")
    assert again[:len(told)] == told  # later events have higher numbers
    assert all(row["number"] > told[-1]["number"] for row in again[len(told):])


def test_what_befalls_a_job_is_told(server, fleet, events):
    """A wait, a failure with its verdict, a withdrawn notice, a machine lost without proof."""
    s = server("--gather", "0.3", "--ttl", "3")

    def told(kind, of="default"):  # for a job or a node
        return wait_until(lambda: [row for row in events() if row["kind"] == kind and of in (row["job"], row["name"])],
                          what=f"{kind} of {of}")

    with RawClient(s.port, s.token("agent")) as silent:
        silent.join("eve", job="other")

    flag = fleet.folder / "flag"
    fleet.start("--nnodes=2:2", "--node-name=ann", f"--notice=file:{flag}")
    assert "1 more node" in told("waiting")[0]["message"]
    bob = fleet.start("--nnodes=2:2", "--node-name=bob")
    first = fleet.wait_world(2)
    fleet.order("exit 3", epoch=first, rank=0)
    second = fleet.wait_world(2, above=first)
    assert "has failed with code 3" in told("node_exited")[0]["message"] and told("node_exited")[0]["epoch"] == first
    assert told("verdict")[-1]["message"].endswith("failed by its own fault") and told("restarts")[0]["message"].startswith("restart 1 ")
    flag.write_text("100")
    assert re.fullmatch(r"ann will terminate in 1m\d\ds \(preempt\)", told("node_noticed", "ann")[0]["message"])
    flag.unlink()
    assert told("node_stays", "ann") and fleet.last_epoch() == second
    bob.send(signal.SIGKILL)
    assert told("node_suspect", "bob") and told("node_dead", "bob")[0]["message"].startswith("all processes of bob have ended, as proven by ")
    assert told("node_suspect", "label-eve") and told("node_lost", "label-eve")[0]["message"] == "label-eve is lost: its lease expired"


def test_who_follows_hears_of_what_comes_over_a_restart(server, fleet, state_dir):
    s = server()
    follow = subprocess.Popen([program("tfe-ctl"), "--state-dir", str(state_dir), "events", "-f", "--json"],
                              stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        fleet.start("--nnodes=2", "--node-name=one", "--job=first")
        heard = []
        while "node_joined" not in kinds(heard):
            heard.append(json.loads(follow.stdout.readline()))
        s.stop()
        server(port=s.port)
        fleet.start("--nnodes=2", "--node-name=two", "--job=second")
        while ("node_joined", "two") not in [(row["kind"], row["name"]) for row in heard]:
            heard.append(json.loads(follow.stdout.readline()))
        assert [row["number"] for row in heard] == sorted({row["number"] for row in heard})
    finally:
        follow.kill()
        follow.wait()
        follow.stdout.close()


@pytest.mark.parametrize("how", ["tell", "print"])
def test_what_a_script_tells_is_in_status(server, fleet, status, how):
    server("--gather", "0.3")
    agent = fleet.start("--nnodes=1", "--no-standby", command=teller(fleet, how))

    def told():
        job = next(iter(status()), None)
        return job if job and 0 < job["metrics"].get("loss", 1) < 1 and job["steps_per_s"] else None

    job = wait_until(told, what="steps a second")
    assert job["total"] == 100000 and job["step"] > 0 and 0 < job["steps_per_s"] <= 60
    assert (job["samples"] is not None) == (how == "tell")
    assert "broken" not in job["metrics"]
    (fleet.folder / "over").touch()
    assert agent.wait() == 0


def told_of_series(s, token, fields):
    """Returns the points of a series query, as (run, name, ord, epoch, step, value), or a refusal's code."""
    with RawClient(s.port, token) as asker:
        asker.send("SERIES", fields)
        rows = []
        while (said := asker.receive_until("SERIES_ROW", "STATUS_END", "REFUSED"))[0] == "SERIES_ROW":
            row = {key: values[0] for key, values in said[1].items()}
            assert row[1].decode() == "j" and abs(row[7] / 1000 - time.time()) < 600
            rows.append((row[2], row[3].decode(), row[4], row[5], row[6], struct.unpack("<d", struct.pack("<Q", row[8]))[0]))
        return rows if said[0] == "STATUS_END" else said[1][1][0]


def test_series_are_told_as_the_protocol_says(server, token):
    """From an agent's METRICS to a client's SERIES_ROWs, with an independent client at both ends."""
    s = server("--gather=0")
    ask = functools.partial(told_of_series, s, s.token("observer"))
    with RawClient(s.port, s.token("agent")) as agent:
        agent.join("a", job="j")
        epoch = agent.receive_until("PREPARE")[1][1][0]
        agent.ready(epoch)
        agent.receive_until("START")
        steps = itertools.count(4)

        def points():
            step = next(steps)
            loss, rate = (Fixed64(struct.unpack("<Q", struct.pack("<d", value))[0]) for value in (1 / step, 0.5))
            agent.send("METRICS", [(1, epoch), (2, step), (5, encode({1: "loss", 2: loss})), (5, encode({1: "rate", 2: rate}))])
            return (found := ask({1: "j", 3: "loss"}))[2:] and found

        found = wait_until(points, what="three points")
        first = found[0][2]
        assert [(run, name, ord_, of) for run, name, ord_, of, _, _ in found] == [(1, "loss", first + i, epoch) for i in range(len(found))]
        assert all(value == 1 / step for *_, step, value in found) and found == sorted(found, key=lambda row: row[4])
        assert ask({1: "j", 3: "loss", 4: first + 1})[:1] == found[2:3]
        assert ask({1: "j", 2: 1, 3: "loss"})[:3] == found[:3] and ask({1: "j", 2: 2, 3: "loss"}) == []
        newest = {row[1]: row for row in ask({1: "j"})}
        assert {"loss", "rate"} <= set(newest) and newest["loss"][2] >= first + 2 and newest["rate"][5] == 0.5
        assert ask({1: "j", 3: "nothing"}) == []
        assert told_of_series(s, token("--role=observer", "--job=other"), {1: "j", 3: "loss"}) == NOT_AUTHORISED
        assert told_of_series(s, s.token("agent"), {1: "j"}) == NOT_AUTHORISED


def test_machines_say_what_they_are_and_how_they_do(server, fleet, nodes, ctl):
    server("--gather", "0.3")
    fleet.start("--nnodes=1", "--no-standby", command=teller(fleet))
    node = wait_until(lambda: [n for n in nodes() if n["cores"] and n["step_ms"]], what="facts and vitals")[0]
    assert node["cores"] == len(os.sched_getaffinity(0))
    assert node["memory_mib"] == int(pathlib.Path("/proc/meminfo").read_text().split()[1]) // 1024
    assert node["step_ms"] >= 20 and node["work_ms"] > 0 and node["free_mib"] > 0
    assert (node["times"], node["slow"], node["notice"]) == (None, False, None)
    heads, row = ctl("nodes", "--sort=step").stdout.splitlines()[:2]
    assert "CORES" in heads and "STEP MS" in heads and str(node["cores"]) in row.split()


@pytest.mark.heavy
def test_the_machine_whose_steps_take_more_processor_is_named(server, fleet, nodes, status, events):
    server("--gather", "0.3", "--ttl=3s")
    script = fleet.folder / "burner.py"
    script.write_text(BURNER)
    command = [str(script), str(ROOT / "agent" / "python"), str(fleet.folder)]
    for name in ("one", "two", "lame", "three"):
        fleet.start("--nnodes=4", "--no-standby", f"--node-name={name}", command=command,
                    env={"BURN_MS": "80" if name == "lame" else "8"})

    def named():
        rows = [row for row in events() if (row["kind"], row["name"], row["level"]) == ("slow", "lame", "warn")]
        return rows and [n for n in nodes() if n["slow"] and n["name"] == "lame"]

    # A busy machine may make another node slow for a while, too.
    node = wait_until(named, deadline=300, what="the slow one is named")[0]
    assert node["times"] > 1 and node["work_ms"] >= 80
    wait_until(lambda: "lame" in {job["slow"] for job in status()}, deadline=300, what="its job names it")
    (fleet.folder / "over").touch()


def may_mount():
    return shutil.which("unshare") is not None and subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/proc/driver"], capture_output=True).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="needs mounts of its own (root)")
def test_gpus_are_told_as_the_driver_shows_them(server, fleet, nodes):
    """Fakes a driver's entries of two GPUs and an nvidia-smi that prints a GPU's state and records its arguments."""
    server()
    tools = fleet.folder / "tools"
    tools.mkdir()
    smi = tools / "nvidia-smi"
    smi.write_text("#!/bin/sh\n"
                   'test "$*" = "--query-gpu=memory.total --format=csv,noheader,nounits" && printf "81559\\n81559\\n"\n')
    smi.chmod(0o755)
    machine = fleet.folder / "machine"
    machine.write_text("set -e\nmount -t tmpfs none /proc/driver\n"
                       "for gpu in 0000:17:00.0 0000:65:00.0; do\n  mkdir -p /proc/driver/nvidia/gpus/$gpu\n"
                       "  printf 'Model: \\t\\t NVIDIA H100 80GB HBM3\\nIRQ:   \\t\\t 77\\n' "
                       ">/proc/driver/nvidia/gpus/$gpu/information\ndone\n"
                       'exec "$@"\n')
    fleet.start_program(["unshare", "--mount", "sh", str(machine), program("tfe-agent"), "--nnodes=2", "--no-python",
                         "--node-name=gpus", "true"], env={"PATH": f"{tools}:{os.environ['PATH']}"})
    node = wait_until(lambda: [n for n in nodes() if n["gpus"]], what="its GPUs")[0]
    assert (node["gpus"], node["gpu"], node["gpu_memory_mib"]) == (2, "NVIDIA H100 80GB HBM3", 81559)


def test_observers_of_some_jobs_hear_of_those(server, fleet, ctl, token, events):
    server()
    for job in ("red", "blue"):
        fleet.start("--nnodes=2", f"--job={job}", f"--node-name=of-{job}")
    mine = token("--role=observer", "--job=red")

    def told(kind, *options):
        rows = [row for row in events(*options) if row["kind"] == kind]
        return {(row["job"], row["name"] or row["message"]) for row in rows}

    wait_until(lambda: {job for job, _ in told("node_joined")} == {"red", "blue"}, what="both nodes")
    fleet.start("--nnodes=7", "--job=blue")  # is refused
    wait_until(lambda: told("node_refused"), what="who was refused")
    for job in ("red", "blue"):
        assert ctl("scale", job, "2:3").returncode == 0
        assert ctl("drain", f"of-{job}").returncode == 0
    assert {row["job"] for row in events(f"--token={mine}")} <= {"red", None}
    assert told("node_joined", f"--token={mine}") == {("red", "of-red")} and not told("node_refused", f"--token={mine}")
    assert told("ordered", f"--token={mine}") == {("red", "admin (state-directory) ordered SCALE of red to 2:3: done"),
                                                ("red", "admin (state-directory) ordered DRAIN of of-red: done")}
    assert {job for job, _ in told("ordered")} == {"red", "blue", None}  # making the token was one order
    assert ctl("events", "blue", f"--token={mine}").returncode == 77


def test_a_pattern_of_a_job_holds_no_agent_up(server, fleet, status):
    """Regression: the pattern took hours on one line: the lease was lost, and the agent could not be ended."""
    server("--gather=0.1", "--ttl=3s")
    script = fleet.folder / "prints.py"
    script.write_text("import time\nwhile True:\n    print('a' * 999 + '!', flush=True)\n    time.sleep(0.001)\n")
    agent = fleet.start("--nnodes=1:1", "--progress-regex=(?<step>(a|aa)+)$", command=[str(script)])
    wait_until(lambda: "progress_regex_costs_too_much" in agent.stderr(), what="its warning")
    time.sleep(5)  # longer than a lease
    job, = status()
    assert (job["state"], job["epoch"]) == ("running", 1) and agent.process.poll() is None
    assert agent.stderr().count("progress_regex_costs_too_much") == 1 and "lease" not in agent.stderr()
    agent.send(signal.SIGTERM)
    assert agent.wait() == 143


def test_a_pattern_that_finds_nothing_is_refused_at_once(fleet):
    agent = fleet.start("--progress-regex=step [0-9]+")
    assert agent.wait() == 2
    assert "expected a named group" in agent.stderr()
