"""Preemption notices from every source, with real agents: the others continue without the machine as planned, no step
is lost, and a failing source harms no node."""

import os
import pathlib
import re
import signal
import statistics
import time

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from bystander import noise  # noqa: F401 (a fixture)
from conftest import wait_until
from metadata import ABOUT, CLOUDS, MACHINES, Metadata, clouds  # noqa: F401 (a fixture)
from programs import is_alive
from test_operator import agent_at

TALKER = str(pathlib.Path(__file__).with_name("talker.py"))
QUICK = ("--gather", "0.3")


def start(fleet, *options, talker=()):
    return fleet.start("--nnodes=1:4", *options, command=[TALKER, str(fleet.folder), *talker])


def warn(source, agent):
    """Sends a notice to one agent through a source."""
    if source == "aws":
        agent.metadata.set(action="terminate")
    elif source == "gce":
        agent.metadata.set(preempted="TRUE")
    elif source == "azure":
        agent.event = agent.metadata.plan("Preempt")
    elif source in ("file", "command"):
        agent.flag.write_text("40\n")
    elif source == "signal":
        agent.send(signal.SIGUSR1)
    elif source == "SIGTERM":
        agent.send(signal.SIGTERM)


def steps(agent):
    """Returns the number of steps that its trainer has printed."""
    return agent.stdout().count("] step ")


def start_watching(fleet, clouds, source, *more, talker=(), **said):
    metadata = clouds() if source in CLOUDS else None
    if metadata:
        metadata.set(**said)
    flag = fleet.folder / f"flag.{len(fleet.agents)}"
    options = {"file": [f"--notice=file:{flag}"], "command": [f"--notice=cmd:cat {flag}"],
               "signal": ["--notice=none", "--notice-signal=USR1"], "SIGTERM": ["--notice=none"]}
    place = [metadata.option()] if metadata else []
    agent = start(fleet, *options.get(source, [f"--notice={source}"]), *place, *more, talker=talker)
    agent.metadata, agent.flag = metadata, flag
    return agent


@pytest.mark.parametrize("source", ["azure", "command", "signal", "SIGTERM"])
def test_warning_to_rank_0_becomes_a_planned_epoch_without_it(server, fleet, clouds, nodes, source):
    s = server(*QUICK)
    agents = [start_watching(fleet, clouds, source) for _ in range(3)]
    first = fleet.wait_world(3)
    leaver = agent_at(nodes, agents, 0)
    pid = next(line["pid"] for line in fleet.starts(first) if line["rank"] == 0)
    alive = []
    if source == "azure":
        leaver.metadata.on_acknowledged = lambda: alive.append(is_alive(pid))
    warn(source, leaver)
    second = fleet.wait_world(2, above=first)
    assert second == first + 1
    assert s.events("epoch")[-1]["cause"] == "preempted"
    assert [e for e in fleet.lines("checkpoint") if e["epoch"] == first and e["answers"]], "nobody was asked to save"
    assert not is_alive(pid)
    if source == "SIGTERM":
        assert leaver.wait() == 143
    else:
        assert leaver.process.poll() is None
        assert [n["rank"] for n in nodes() if n["pid"] == leaver.pid] == [None]
    if source == "azure":
        wait_until(lambda: leaver.metadata.acknowledged == [leaver.event], what="the acknowledgement")
        assert alive == [False]  # not before the trainer had ended
    for agent in agents:
        if source in CLOUDS and agent is not leaver:
            assert agent.metadata.acknowledged == []
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents if agent is not leaver] == [0, 0]
    fleet.check_views()


def test_a_script_that_watches_the_preempt_file_only_is_asked_too(server, fleet, nodes):
    """The script is not on the channel; its checkpoint is detected in its directory."""
    s = server(*QUICK)
    saves = fleet.folder / "model"
    agents = [fleet.start("--nnodes=1:2", f"--notice=file:{fleet.folder}/flag.{i}", f"--checkpoint-dir={saves}", "--log-level=debug",
                          command=[TALKER, str(fleet.folder), "--saves", str(saves), "--watch"]) for i in range(2)]
    first = fleet.wait_world(2)
    wait_until(lambda: any("checkpoint_seen" in agent.stderr() for agent in agents), what="a save's being seen")
    began = time.monotonic()
    (fleet.folder / "flag.0").write_text("120\n")
    fleet.wait_world(1, above=first)
    assert time.monotonic() - began < 60  # the deadline was not waited for
    assert [line for line in fleet.lines("checkpoint") if line["epoch"] == first and line["warned"]]
    assert s.events("epoch")[-1]["cause"] == "preempted"
    fleet.order("exit 0")


def test_warning_before_the_start_keeps_a_node_out(server, fleet, clouds, nodes):
    """A notice before the server knows the node is reported as well; another node that joins later is used."""
    s = server(*QUICK)
    stayer = start_watching(fleet, clouds, "file")
    first = fleet.wait_world(1)
    (fleet.folder / "flag.1").write_text("600")
    leaver = start_watching(fleet, clouds, "file")
    wait_until(lambda: s.events("node_noticed") and s.events("node_ready")[1:], what="its joining, and the warning")
    later = start_watching(fleet, clouds, "file")
    assert fleet.wait_world(2, above=first) == first + 1
    assert {n["pid"] for n in nodes() if n["rank"] is not None} == {stayer.pid, later.pid}
    assert leaver.process.poll() is None


@pytest.mark.heavy
def test_service_that_fails_is_complained_about_once_and_harms_nobody(server, fleet, clouds):
    """Consecutive failures without a good response in between count as one period, with one warning."""
    server(*QUICK)
    agent = start_watching(fleet, clouds, "aws", "--log-level=debug", talker=["--print"])
    metadata = agent.metadata
    first = fleet.wait_world(1)
    wait_until(lambda: len(metadata.asked) >= 3, what="some questions that are answered well")

    def failed(words=""):
        return [line for line in agent.stderr().splitlines() if "event=notice_source_fails " in line and words in line]

    for failure in Metadata.FAILURES if os.environ.get("TFE_TEST_FULL") else ("hang", "huge", "types", "refused"):
        before = steps(agent)
        metadata.set(failure=failure)
        wait_until(lambda: (len(failed("cannot connect")) if failure == "refused" else metadata.spoilt[failure]) >= 2,
                   what=f"two questions in spite of {failure}")
        wait_until(lambda: steps(agent) > before, what=f"steps in spite of {failure}")
    wait_until(lambda: len(failed()) - len(failed("cannot connect")) >= sum(metadata.spoilt.values()), what="a failure for each answer")
    assert "event=notice_received " not in agent.stderr()
    metadata.set(failure=None)
    warn("aws", agent)
    wait_until(lambda: re.search("event=notice_received .*kind=preempt", agent.stderr()), what="the warning, after all")
    assert len([line for line in failed() if "level=warn " in line]) == 1
    wait_until(lambda: "event=notice_source_works_again " in agent.stderr(), what="good answers again")
    assert fleet.last_epoch() == first


def start_pair(fleet, metadata, number):
    """Starts one job that detects its cloud and one that does not; returns the former's agent, how many seconds later
    its trainer ran, and the seconds of the other one."""
    agents, took = {}, {}
    for notice in ("auto", "none"):
        folder = fleet.folder / f"{notice}-{number}"
        began = time.time()
        agents[notice] = fleet.start(f"--job={folder.name}", f"--notice={notice}", metadata.option(), "--log-level=debug",
                                     folder=folder, command=[TALKER, str(folder)])
        took[notice] = began
    for notice, began in took.items():
        folder = fleet.folder / f"{notice}-{number}"
        fleet.wait_world(1, folder=folder)
        took[notice] = fleet.starts(folder=folder)[0]["time"] - began
    return agents["auto"], took["auto"] - took["none"], took["none"]


def test_service_that_does_not_answer_delays_nothing_and_is_asked_again(server, fleet, clouds, noise):
    """No response within a second does not prove another cloud: one warning names the hop limit, and later notices are
    received."""
    server(*QUICK)
    back, away = clouds(), clouds()
    for metadata in (back, away):
        metadata.set(failure="hang")
    agent, delay, alone = start_pair(fleet, back, 0)
    delays = [delay]

    def failures():
        return [line for line in agent.stderr().splitlines() if "event=notice_source_fails " in line]

    wait_until(lambda: len({line.partition(" source=")[2].partition(" ")[0] for line in failures()}) == 3, what="three silent services")
    warned = [line for line in failures() if "level=warn " in line]
    assert len(warned) == 1 and "hop-limit" in warned[0], failures()
    said = agent.stderr()
    # On a machine so slow that any start takes that second the order means nothing; the delays below do.
    assert alone > 0.7 or said.index("event=epoch ") < said.index("event=notice_source_fails "), "it was waited for"
    delays += [start_pair(fleet, away, number)[1] for number in (1, 2)]
    print("looking for a cloud costs the start, s:", delays)
    assert statistics.median(delays) < noise.bound(0.25)
    back.set(failure=None, action="terminate", preempted="TRUE")
    wait_until(lambda: "event=notice_received " in agent.stderr(), what="the warning, after all")
    assert len([line for line in failures() if "level=warn " in line]) == 1


def told(node):
    return tuple(node[key] for key in ("cloud", "zone", "instance"))


def test_what_the_cloud_says_of_the_machine_is_shown(server, fleet, clouds, nodes, ctl):
    """A spot machine and another one, beside one without information."""
    server(*QUICK)
    for spot in (True, False):
        start_watching(fleet, clouds, "gce", f"--node-name={'spot' if spot else 'plain'}", spot=spot)
    start(fleet, "--notice=none", "--node-name=own")
    fleet.wait_world(3)
    rows = wait_until(lambda: [n for n in nodes() if n["spot"] is not None][1:] and {n["name"]: n for n in nodes()}, what="both")
    assert {name: node["spot"] for name, node in rows.items()} == {"spot": True, "plain": False, "own": None}
    assert told(rows["spot"]) == told(rows["plain"]) == MACHINES["gce"]
    assert told(rows["own"]) == (None, None, None)
    assert all(word in ctl("nodes").stdout for word in ("ZONE", "TYPE", "SPOT", *MACHINES["gce"][1:]))


def test_cloud_that_says_nothing_of_the_machine_delays_nothing(server, fleet, clouds, nodes):
    """These requests get no response: training starts, and notices arrive as usual."""
    s = server(*QUICK)
    agents = [start_watching(fleet, clouds, "aws", is_mum=True) for _ in range(2)]
    first = fleet.wait_world(2)
    wait_until(lambda: any(path in ABOUT for _, path in agents[0].metadata.asked), what="its being asked")
    warn("aws", agents[0])
    assert fleet.wait_world(1, above=first) == first + 1
    assert s.events("epoch")[-1]["cause"] == "preempted"
    assert [n["spot"] for n in nodes()] == [None, None]


@pytest.mark.parametrize("line,sentence", [
    (["--notice=sometimes"], '--notice: expected auto, none, aws, gce, azure, file:PATH or cmd:COMMAND, found "sometimes"'),
    (["--notice=file:"], 'found "file:"'),
    (["--notice-signal=KILL"], "expected HUP"),
    (["--notice=aws", "--metadata-endpoint=ftp://x"], "--metadata-endpoint: expected http://HOST[:PORT], found \"ftp://x\""),
])
def test_choice_that_makes_no_sense_is_refused(fleet, line, sentence):
    agent = fleet.start(*line)
    assert agent.wait() == 2
    assert sentence in agent.stderr()
    assert len(agent.stderr().splitlines()) == 1
