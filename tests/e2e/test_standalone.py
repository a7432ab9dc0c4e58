"""tfe-agent --standalone: a private server for one machine, which leaves nothing behind."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from agents import TRAINER, fleet, gone_soon  # noqa: F401 (fleet is a fixture)
from conftest import DEADLINE, wait_until
from programs import children, clean_environment, is_alive, program


@pytest.fixture
def alone(fleet, tmp_path):
    """Starts an agent with --standalone, from a folder with both programs, as they are installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("tfe-agent", "tfe-rdzv"):
        shutil.copy2(program(name), programs / name)
    # These tests are not about standbys, and the copied agent has no bootstrap beside it.
    more = ["--no-standby", "--gather=0.1"]

    def start(*options, trainer=(), env=None):
        line = [programs / "tfe-agent", "--standalone", "--python", sys.executable, *more, *options, TRAINER,
                str(fleet.folder), *trainer]
        return fleet.start_program(line, env=env)
    return start


def server_of(agent):
    """Returns the pid of its server."""
    found = children(agent.pid, "tfe-rdzv")
    return found[0] if found else None


def directory_of(pid):
    """Returns the server's state directory, from its command line."""
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return pathlib.Path(words[words.index("--state-dir") + 1])


def everything_of(fleet, agent):
    """Returns (server's pid, its directory, all pids) once the trainer runs."""
    fleet.wait_world(1)
    server = wait_until(lambda: server_of(agent), what="a server")
    return server, directory_of(server), [server, agent.guard_pid, *(s["pid"] for s in fleet.starts())]


def test_a_script_runs_without_any_server(fleet, alone):
    """A script runs without a server, also if the environment names one that is meant for other agents."""
    agent = alone(env={"TFE_RDZV_ENDPOINT": "192.0.2.1:5556", "TFE_TOKEN": "tfe1_agent_x", "TFE_STATE_DIR": "/nowhere"})
    server, directory, _ = everything_of(fleet, agent)
    start, = fleet.starts()
    config = json.loads(start["env"]["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 0}
    host, _, port = config["cluster"]["worker"][0].partition(":")
    assert len(config["cluster"]["worker"]) == 1 and host == "127.0.0.1" and int(port)
    assert not {"TFE_TOKEN", "TFE_STATE_DIR", "TFE_RDZV_ENDPOINT", "TFE_STANDALONE"} & set(start["env"])
    # The keys are private, and other users cannot reach the server.
    assert [p.stat().st_mode & 0o777 for p in directory.iterdir()] == [0o600] * len(list(directory.iterdir()))
    assert directory.stat().st_mode & 0o777 == 0o700 == directory.parent.stat().st_mode & 0o777
    assert b"127.0.0.1" in pathlib.Path(f"/proc/{server}/cmdline").read_bytes()
    # The log names the state directory, for users who want to look into it.
    said, = re.findall(r"event=private_server .*state_dir=(\S+)", agent.stderr())
    shown = subprocess.run([program("tfe-ctl"), "--state-dir", said, "status"], capture_output=True, text=True,
                           env=clean_environment(), timeout=DEADLINE)
    assert shown.returncode == 0 and "running" in shown.stdout, shown
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert not is_alive(server) and not directory.parent.exists()
    assert "job default succeeded" in agent.stderr()


def test_several_trainers_of_one_machine(fleet, alone):
    agent = alone("--nproc-per-node=2", "--nnodes=1")
    fleet.wait_world(2)
    fleet.order("exit 0")
    assert agent.wait() == 0
    fleet.check_views()


def test_its_failure_is_the_agents(fleet, alone):
    agent = alone("--max-restarts=1", trainer=["--exit", "7"])
    assert agent.wait() == 1
    assert re.search(r"exit code 7 \(rank 0 on \S+\), after 1 restart\b", agent.stderr()), agent.stderr()
    assert fleet.last_epoch() == 2


def test_two_of_them_do_not_meet(fleet, alone):
    agents = [alone(), alone()]
    wait_until(lambda: len(fleet.starts()) == 2, what="two trainers")
    assert len({server_of(a) for a in agents}) == 2
    assert {s["epoch"] for s in fleet.starts()} == {1}
    fleet.order("exit 0")
    assert [a.wait() for a in agents] == [0, 0]


def test_an_agent_that_is_killed_leaves_nothing(fleet, alone):
    agent = alone()
    _, directory, pids = everything_of(fleet, agent)
    agent.send(signal.SIGKILL)
    agent.wait()
    assert [pid for pid in pids if not gone_soon(pid)] == []
    wait_until(lambda: not directory.parent.exists(), what="the end of its directory")


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_leaves_with_its_agent(fleet, alone, number, code):
    agent = alone()
    server, directory, pids = everything_of(fleet, agent)
    assert os.getpgid(server) == server, "the terminal's Ctrl-C would end it before the agent has said goodbye"
    agent.send(number)
    assert agent.wait() == code
    assert [pid for pid in pids if is_alive(pid)] == [] and not directory.parent.exists()


def test_a_server_that_dies_is_no_event(fleet, alone):
    """A new server gets the same keys and port, and adopts the running trainer."""
    agent = alone("--log-level=debug")
    server, directory, _ = everything_of(fleet, agent)
    port = int((directory / "endpoint").read_text().rpartition(":")[2])
    os.kill(server, signal.SIGKILL)
    second = wait_until(lambda: (pid := server_of(agent)) != server and pid, what="another server")
    wait_until(lambda: agent.stderr().count("event=joined") == 2, what="the agent's being back")
    assert directory_of(second) == directory
    with socket.create_connection(("127.0.0.1", port), DEADLINE):
        pass
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert len(fleet.starts()) == 1, "the trainer was restarted"
    assert re.search(f"event=server_died pid={server} signal=9", agent.stderr())
    assert not directory.parent.exists()


def test_a_lost_guard_takes_neither_server_nor_job_with_it(fleet, alone):
    agent = alone()
    _, directory, pids = everything_of(fleet, agent)
    os.kill(children(agent.pid, "tfe-guard")[0], signal.SIGKILL)
    fleet.wait_world(1, above=1)
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert [pid for pid in pids if is_alive(pid)] == [] and not directory.parent.exists()


def refused(*arguments, env=None):
    done = subprocess.run([program("tfe-agent"), *arguments, TRAINER], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL, env=clean_environment(**(env or {})))
    lines = [line for line in done.stderr.splitlines() if not line.startswith("time=")]
    assert len(lines) == 1, done.stderr
    return done.returncode, lines[0]


@pytest.mark.parametrize("option", ["--rdzv-endpoint=h:1", "--token=t", "--token-file=f", "--state-dir=/s", "--nnodes=2",
                                    "--nnodes=1:4"])
def test_what_names_another_server_is_refused(option):
    code, sentence = refused("--standalone", option)
    assert code == 2 and "--standalone" in sentence and option.partition("=")[0] in sentence


def test_without_the_servers_program_there_is_one_sentence(tmp_path):
    lonely = shutil.copy2(program("tfe-agent"), tmp_path / "tfe-agent")
    done = subprocess.run([lonely, "--standalone", TRAINER], capture_output=True, text=True, timeout=DEADLINE,
                          env=clean_environment(PATH="/usr/bin:/bin"))
    assert done.returncode == 1
    assert done.stderr == ("tfe-agent: --standalone: tfe-rdzv was not found beside this program or in PATH\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="a container's PID 1 is made by root")
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_container_that_is_stopped_while_it_starts_stops(fleet, tmp_path, number, code):
    """Regression: a SIGTERM before the agent's loop was lost if the agent was PID 1, and docker killed it after 10
    s."""
    shutil.copy2(program("tfe-agent"), tmp_path / "tfe-agent")
    slow = tmp_path / "tfe-rdzv"
    slow.write_text(f"#!/bin/sh\nsleep 20\nexec '{program('tfe-rdzv')}' \"$@\"\n")
    slow.chmod(0o755)
    agent = fleet.start_program(["unshare", "--pid", "--fork", "--kill-child", tmp_path / "tfe-agent", "--standalone",
                                 "--python", sys.executable, TRAINER, str(fleet.folder)])
    first = wait_until(lambda: children(agent.pid, "tfe-agent"), what="PID 1")[0]
    server = wait_until(lambda: children(first, "tfe-rdzv"), what="its server")[0]
    directory = directory_of(server).parent
    os.kill(first, number)
    assert agent.wait(5) == code
    assert gone_soon(first)
    with contextlib.suppress(FileNotFoundError):  # the process that removes it may still run
        directory.rmdir()  # only files are left of a container
