"""Memory that outlives the trainer: if it is refused, training uses the disk, and no kill leaves any of it behind."""

import contextlib
import os
import pathlib
import signal
import sys

import pytest
from agents import fleet, gone_soon, nothing_left  # noqa: F401 (a fixture)
from conftest import wait_until
from programs import descendants, program
from test_watchdogs import memory_group

KEEPER = str(pathlib.Path(__file__).with_name("keeper.py"))
CALM = ("--ttl", "10", "--gather", "0.3")
MIB = 1 << 20
looks_inside = pytest.mark.skipif(os.geteuid() != 0, reason="which files an agent has only root sees")


def command(fleet, size):
    return [KEEPER, str(fleet.folder), f"--bytes={size}"]


def files_of(pid):
    """Returns the inodes of the state's memory that a process has open or mapped."""
    found = set()
    try:
        for file in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            if "memfd:tfe-state" in os.readlink(file):
                found.add(file.stat().st_ino)
    except OSError:
        pass
    try:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        found |= {int(line.split()[4]) for line in maps.splitlines() if "memfd:tfe-state" in line}
    except OSError:
        pass
    return found


def holders(inodes):
    """Returns the processes that still hold any of it."""
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit() and files_of(entry.name) & inodes]


def wait_kept(status, nodes=1):
    """Waits until each node keeps a state newer than the first one on disk; returns the job's nodes."""
    def look():
        found = [node for job in status() for node in job["nodes"]]
        return found if len(found) == nodes and all((node["snapshot_step"] or 0) > 12 for node in found) else None
    return wait_until(look, what="a state that is kept")


def check_it_goes_on_from_the_disk(fleet, status):
    """Checks a training that was refused memory: its trainer is killed, and the next one restores from the disk."""
    saved = wait_until(lambda: fleet.lines("saved"), what="a checkpoint")
    node, = status()[0]["nodes"]
    assert (node["memory_bytes"], node["snapshot_step"]) == (0, None)
    os.kill(saved[0]["pid"], signal.SIGKILL)
    _, second = wait_until(lambda: len(starts := fleet.starts()) == 2 and starts, what="the next trainer")
    assert second["source"] == "disk" and second["step"] >= 10 and second["step"] % 10 == 0
    refused = wait_until(lambda: len(lines := fleet.lines("refused")) == 2 and lines, what="its asking, too")
    wait_until(lambda: fleet.lines("saved")[-1]["pid"] == second["pid"], what="a checkpoint of the next trainer")
    assert not fleet.lines("memory")
    return {line["why"] for line in refused}


@pytest.mark.parametrize("option, why", [
    ("--state-memory=0", "--state-memory=0"),
    ("--state-memory=1M", "the state needs 17 MiB of memory, and --state-memory allows 1 MiB on this node"),
], ids=["none", "too-little"])
def test_a_state_that_may_have_no_memory_is_safe_on_the_disk(server, fleet, status, option, why):
    server(*CALM)
    agent = fleet.start(option, "--max-restarts=3", command=command(fleet, 8 * MIB))
    assert check_it_goes_on_from_the_disk(fleet, status) == {why}
    assert agent.stderr().count("state_memory_refused") == (2 if "1M" in option else 0)
    assert not files_of(agent.pid)
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_a_control_group_that_is_too_small_costs_no_process(server, fleet, status):
    """The kernel would kill a process for it, so the agent does not even try."""
    group = memory_group(400 * MIB)
    if group is None:
        pytest.skip("this process may make no control group with a limit of memory")
    try:
        server(*CALM)
        line = [program("tfe-agent"), "--python", sys.executable, "--max-restarts=3", *command(fleet, 64 * MIB)]
        agent = fleet.start_program(["bash", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "bash", *line])
        for why in check_it_goes_on_from_the_disk(fleet, status):
            assert why.startswith("the state needs 129 MiB of memory; ") and " MiB are free here, of which it may take " in why
        assert "out_of_memory" not in agent.stderr()
        fleet.order("exit 0")
        assert agent.wait() == 0
    finally:
        for end in fleet.agents:
            if end.process.poll() is None:
                end.send(signal.SIGINT), end.send(signal.SIGTERM)
        wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the group's being empty")
        group.rmdir()


@looks_inside
@pytest.mark.parametrize("victim", ["trainer", "standby", "guard"])
def test_who_dies_beside_the_agent_leaves_the_state_where_it_was(server, fleet, status, victim):
    """The memory is one file, whichever process has died; and the next trainer continues from its content."""
    server(*CALM)
    agent = fleet.start("--max-restarts=3", command=command(fleet, MIB))
    wait_kept(status)
    node = wait_until(lambda: (node := status()[0]["nodes"][0])["standby_pids"] and node, what="a standby")
    inodes = files_of(agent.pid)
    assert len(inodes) == 1 and set(holders(inodes)) == {agent.pid, *node["trainer_pids"]}
    killed = {"trainer": node["trainer_pids"], "standby": node["standby_pids"], "guard": [agent.guard_pid]}[victim]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(gone_soon(pid) for pid in killed), what="its end")
    if victim == "standby":  # then the trainer, which the agent has to replace without a standby
        os.kill(node["trainer_pids"][0], signal.SIGKILL)
    _, second = wait_until(lambda: len(starts := fleet.starts()) == 2 and starts, what="the next trainer")
    assert second["source"] == "memory" and second["step"] >= node["snapshot_step"]
    assert files_of(agent.pid) == inodes
    wait_until(lambda: set(holders(inodes)) == {agent.pid, second["pid"]}, what="nobody else's having it")
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert not holders(inodes)


@looks_inside
def test_nothing_is_left_of_an_agent_that_is_killed(server, fleet, status):
    """Neither its memory nor a file in its place is left."""
    server(*CALM)
    there = set(os.listdir("/dev/shm"))
    agent = fleet.start(command=command(fleet, MIB))
    wait_kept(status)
    inodes, below, guard = files_of(agent.pid), descendants(agent.pid), agent.guard_pid
    assert len(inodes) == 1
    agent.send(signal.SIGKILL)
    agent.wait()
    assert not nothing_left(below, guard)
    wait_until(lambda: not holders(inodes), what="the memory's end")
    assert not [name for name in set(os.listdir("/dev/shm")) - there if "tfe" in name]
    assert not [path for path in fleet.folder.rglob("*") if path.stat().st_size >= MIB]


@looks_inside
def test_when_all_machines_are_gone_new_ones_have_the_disk(server, fleet, status):
    server("--ttl", "3", "--gather", "10", "--fence", "9")
    for _ in range(2):
        fleet.start("--nnodes=2", "--max-restarts=3", command=command(fleet, MIB))
    first = fleet.wait_world(2)
    wait_kept(status, 2)
    saved = {line["rank"]: line["step"] for line in fleet.lines("saved")}
    inodes = set().union(*(files_of(agent.pid) for agent in fleet.agents))
    assert len(inodes) == 2 and set(saved) == {0, 1}
    machines = [pid for agent in fleet.agents for pid in (agent.pid, *descendants(agent.pid))]
    for pid in machines:
        with contextlib.suppress(ProcessLookupError):  # the agent's end was enough
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not holders(inodes), what="the memory's end")
    for _ in range(2):
        fleet.start("--nnodes=2", "--max-restarts=3", command=command(fleet, MIB))
    second = fleet.wait_world(2, above=first)
    for start in fleet.starts(second):
        assert start["source"] == "disk" and start["step"] % 10 == 0 and start["step"] >= saved[start["rank"]]
    wait_kept(status, 2)
    fleet.order("exit 0")
    assert [agent.wait() for agent in fleet.agents[2:]] == [0, 0]
