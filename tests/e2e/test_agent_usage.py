"""tfe-agent for its users: options, environment, output, and one clear sentence for each mistake."""

import ctypes
import errno
import os
import pathlib
import platform
import socket
import struct
import subprocess

import pytest

from agents import TRAINER, fleet  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from programs import clean_environment, program

# A lease of 10 s: these tests are not about losses, and a busy machine may stall for 3 s.
QUICK = ("--gather", "0.3")


def run_agent(*arguments, env=None, deadline=DEADLINE):
    return subprocess.run([program("tfe-agent"), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=deadline, env=clean_environment(**(env or {})))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def own_lines(stderr):
    """Returns the agent's output without its log."""
    return [line for line in stderr.splitlines() if not line.startswith("time=")]


@pytest.mark.parametrize("arguments, words", [
    (["--nnodes=0", TRAINER], ["--nnodes", "0"]),
    (["--nnodes=4:2", TRAINER], ["--nnodes", "4:2"]),
    (["--nnodes=x", TRAINER], ["--nnodes", "x"]),
    (["--nnodes=1:x", TRAINER], ["--nnodes", "1:x"]),
    (["--nnodes=1:2:3", TRAINER], ["--nnodes", "1:2:3"]),
    (["--nnodes=-1", TRAINER], ["--nnodes"]),
    (["--nproc_per_node=0", TRAINER], ["--nproc_per_node"]),
    (["--nodes=1", TRAINER], ["--nodes", "--nnodes"]),
    (["--job=a/b", TRAINER], ["--job", "a/b"]),
    (["--job=..", TRAINER], ["--job", "..", "not a valid job name"]),
    (["--job=--help", TRAINER], ["--job", "not a valid job name"]),
    (["--run=-x", TRAINER], ["--run", "-x"]),
    (["--node-name=..", TRAINER], ["--node-name", ".."]),
    (["--pool", "--label=@jobs=x"], ["--label", "'@'"]),
    (["--join-timeout=soon", TRAINER], ["--join-timeout", "soon"]),
    (["--address=no.such.host.invalid", TRAINER], ["no.such.host.invalid"]),
    (["--rdzv-endpoint=h:99999", TRAINER], ["99999"]),
    (["--rdzv-endpoint=::1:5599", TRAINER], ["--rdzv-endpoint", "::1:5599", "[ADDRESS]:PORT"]),
    (["--address=::1:5599", TRAINER], ["--address", "::1:5599"]),
    (["--nnodes=4:1", TRAINER], ["--nnodes", "4:1"]),
    (["--node-name=a\tb", TRAINER], ["--node-name", "not a valid name"]),
    (["--node-name=a\u202eb", TRAINER], ["--node-name", "u202e"]),
    (["--node-name=" + 300 * "x", TRAINER], ["--node-name"]),
    (["/no/such/script.py"], ["/no/such/script.py"]),
    (["/"], ["/"]),
    ([], ["missing script"]),
    (["--no-python", "docker", "run", "x"], ["docker"]),
])
def test_usage_errors_are_one_sentence_and_exit_2(arguments, words, tmp_path):
    done = run_agent(*arguments, env={"TFE_STATE_DIR": str(tmp_path)})
    assert done.returncode == 2, done.stderr
    said = own_lines(done.stderr)
    assert len(said) == 1 and said[0].startswith("tfe-agent: "), done.stderr
    for word in words:
        assert word in said[0]


def refuse_subreaper():
    """Makes the kernel return EPERM for PR_SET_CHILD_SUBREAPER, as a sandbox may (seccomp(2))."""
    prctl, no_new_privileges, seccomp, subreaper = {"x86_64": 157, "aarch64": 167}[platform.machine()], 38, 22, 36
    load, unless_equal, answer, refused, allowed = 0x20, 0x15, 0x06, 0x00050000 | errno.EPERM, 0x7FFF0000
    rules = [(load, 0, 0, 0), (unless_equal, 0, 3, prctl), (load, 0, 0, 16), (unless_equal, 0, 1, subreaper),
             (answer, 0, 0, refused), (answer, 0, 0, allowed)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    libc = ctypes.CDLL(None)
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(seccomp, 2, struct.pack("@HP", len(rules), ctypes.addressof(code)), 0, 0) == 0


def test_an_agent_that_may_not_be_a_subreaper_says_so():
    """Regression: it printed an uninitialised reason."""
    done = subprocess.run([program("tfe-agent"), TRAINER], capture_output=True, text=True, timeout=DEADLINE,
                          env=clean_environment(), preexec_fn=refuse_subreaper)
    assert done.returncode == 1
    assert own_lines(done.stderr) == [
        "tfe-agent: cannot adopt orphaned processes of trainers: operation not permitted"]


def test_an_unreadable_environment_value_names_its_variable(tmp_path):
    done = run_agent(TRAINER, env={"TFE_NNODES": "many", "TFE_STATE_DIR": str(tmp_path)})
    assert done.returncode == 2
    assert "TFE_NNODES" in done.stderr


@pytest.mark.parametrize("words, hint", [
    (["python3", "train.py"], "name the script alone, as in tfe-agent [OPTIONS] train.py; --python sets the interpreter"),
    (["run.sh"], "script run.sh is a shell script, not a Python script (use --no-python)"),
    (["env.sh"], "script env.sh is a shell script, not a Python script (use --no-python)"),
])
def test_what_is_no_python_script_is_refused_with_a_hint(tmp_path, words, hint):
    (tmp_path / "run.sh").write_text("#!/bin/bash\nexit 0\n")
    (tmp_path / "env.sh").write_text("#!/usr/bin/env bash\nexit 0\n")
    done = subprocess.run([program("tfe-agent"), "--standalone", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and hint in done.stderr, done.stderr


def test_command_not_found_is_127(tmp_path):
    done = run_agent("--no-python", "no-such-command-here", env={"TFE_STATE_DIR": str(tmp_path)})
    assert done.returncode == 127
    assert "no-such-command-here" in done.stderr
    done = run_agent("--python", "no-such-python", TRAINER, env={"TFE_STATE_DIR": str(tmp_path)})
    assert done.returncode == 127


def test_help_has_a_line_for_each_flag():
    done = run_agent("-h")
    assert done.returncode == 0 and done.stderr == ""
    for flag in ("--nnodes", "--nproc-per-node", "--rdzv-endpoint", "--address", "--token-file", "--join-timeout"):
        assert sum(flag in line.split("(")[0] for line in done.stdout.splitlines()) == 1, flag


def test_no_token_anywhere_is_77(tmp_path):
    done = run_agent(TRAINER, env={"TFE_STATE_DIR": str(tmp_path / "empty")})
    assert done.returncode == 77
    assert len(own_lines(done.stderr)) == 1
    done = run_agent("--token=tfe1_agent_nonsense", TRAINER, env={"TFE_STATE_DIR": str(tmp_path / "empty")})
    assert done.returncode == 77


def test_a_token_of_another_server_is_77_after_three_tries(server, tmp_path):
    s = server(*QUICK)
    other = server(*QUICK, state_dir=tmp_path / "other")
    done = run_agent("--rdzv-endpoint", s.endpoint, "--token", other.token("agent"), TRAINER, tmp_path)
    assert done.returncode == 77
    assert len(own_lines(done.stderr)) == 1
    assert "default" not in done.stderr.replace("event=node job=default", ""), "says something about the job"
    assert not s.events("node_joined")


def test_an_observers_token_cannot_join(server, tmp_path):
    s = server(*QUICK)
    done = run_agent("--rdzv-endpoint", s.endpoint, "--token", s.token("observer"), TRAINER, tmp_path)
    assert done.returncode == 77
    assert not s.events("node_joined")


@pytest.mark.heavy
def test_server_not_there_is_69(server, tmp_path):
    s = server(*QUICK)
    token = s.token("agent")
    s.stop()
    done = run_agent("--rdzv-endpoint", s.endpoint, "--token", token, "--join-timeout=11.5", TRAINER, tmp_path)
    assert done.returncode == 69
    said = own_lines(done.stderr)
    assert len(said) == 1 and s.endpoint in said[0] and "refused" in said[0].lower()
    waits = [line for line in done.stderr.splitlines() if "event=connecting" in line]
    assert len(waits) == 1 and s.endpoint in waits[0], "says every 10 s that it waits"


def test_server_comes_later(server, fleet, state_dir):
    s = server(*QUICK)
    s.stop()
    agent = fleet.start("--rdzv-endpoint", s.endpoint, trainer=["--exit", "0"])
    wait_until(lambda: agent.guard_pid, what="the agent's start")
    server(*QUICK, port=s.port)
    assert agent.wait() == 0


def test_sizes_that_differ_are_refused_with_both(server, fleet):
    server(*QUICK)
    fleet.start("--nnodes=1:4")
    epoch = fleet.wait_world(1)
    for options in (["--nnodes=1:3"], ["--nnodes=2:4"], ["--nnodes=1:4", "--nproc-per-node=2"]):
        later = fleet.start(*options)
        assert later.wait() == 2
        assert "--nnodes=1:4 --nproc-per-node=1" in later.stderr()
        assert options[-1] in later.stderr()
    assert fleet.last_epoch() == epoch


def test_a_fixed_port_in_use_is_named(server, fleet):
    server(*QUICK)
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen()
        port = s.getsockname()[1]
        agent = fleet.start(f"--address=localhost:{port}")
        assert agent.wait() == 1
        assert str(port) in agent.stderr()


def test_the_usage_that_people_know(server, fleet):
    s = server(*QUICK)
    port = free_port()
    agent = fleet.start("--monitor_interval=5", f"--address=localhost:{port}", "--nnodes=1:2",
                        f"--rdzv_endpoint=localhost:{s.port}", trainer=["--say", "args"])
    epoch = fleet.wait_world(1)
    start = fleet.starts(epoch)[0]
    assert start["cluster"] == [f"localhost:{port}"]
    assert start["argv"][1:] == [str(fleet.folder), "--say", "args"]
    fleet.order("exit 3", epoch)  # a fixed port serves every epoch
    again = fleet.wait_world(1, above=epoch)
    assert fleet.starts(again)[0]["cluster"] == [f"localhost:{port}"]
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert "[0] trainer of epoch 1 args\n" in agent.stdout()
    assert "[0] args\n" in agent.stderr()


def test_torchrun_habits_are_ignored_with_one_warning(server, fleet):
    server(*QUICK)
    agent = fleet.start("--rdzv_backend=c10d", "--node_rank=0", "--master_addr=x", "--master-port", "1", "-r", "3",
                        "--local-ranks-filter=0", "--start-method=spawn", "--run-path",
                        "--local-addr=127.0.0.1", trainer=["--exit", "0"])
    assert agent.wait() == 0
    warnings = [line for line in agent.stderr().splitlines() if "options_ignored" in line]
    assert len(warnings) == 1
    for name in ("--rdzv-backend", "--node-rank", "--master-addr", "--master-port", "--redirects",
                 "--local-ranks-filter", "--start-method", "--run-path"):
        assert name in warnings[0]


@pytest.mark.parametrize("value, env, n", [
    ("auto", {"CUDA_VISIBLE_DEVICES": ""}, 1), ("auto", {"CUDA_VISIBLE_DEVICES": "0,1"}, 2),
    ("gpu", {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2,"}, 2), ("gpu", {"CUDA_VISIBLE_DEVICES": "-1"}, None),
    ("cpu", {}, min(64, len(os.sched_getaffinity(0)))), ("none", {}, None), ("65", {}, None)])
def test_trainers_may_be_counted_by_device(server, fleet, value, env, n):
    server(*QUICK)
    agent = fleet.start("--no-standby", env={"TFE_NPROC_PER_NODE": value, **env})
    if n:
        fleet.wait_world(n)
        fleet.order("exit 0")
    assert agent.wait() == (0 if n else 2), agent.stderr()


def test_options_come_from_the_environment_and_trainers_never_see_them(server, fleet):
    s = server(*QUICK)
    env = {"TFE_TOKEN": s.token("agent"), "TFE_RDZV_ENDPOINT": s.endpoint, "TFE_NNODES": "1:3", "TFE_JOB": "envy",
           "TFE_PORT": "tcp://10.0.0.1:5556", "TFE_NO_SUCH_NAME": "x", "TFE_TOKEN_FILE": "/nowhere",
           "TFE_STATE_DIR": "/nowhere", "TFE_NNODES_": "y"}
    agent = fleet.start("--nnodes=1:1", env=env)
    epoch = fleet.wait_world(1)
    seen = fleet.starts(epoch)[0]["env"]
    assert not {"TFE_TOKEN", "TFE_TOKEN_FILE", "TFE_RDZV_ENDPOINT", "TFE_NNODES", "TFE_STATE_DIR"} & set(seen)
    assert seen["TFE_JOB"] == "envy" and seen["TFE_RUN"] == "1" and seen["TFE_EPOCH"] == "1"
    assert seen["TFE_RESTART_COUNT"] == "0" and seen["TF_GRPC_REUSE_PORT"] == "true"
    assert seen["RANK"] == seen["LOCAL_RANK"] == "0" and seen["WORLD_SIZE"] == seen["NUM_WORKERS"] == "1"
    fleet.order("exit 0")
    assert agent.wait() == 0
    assert s.token("agent") not in agent.stderr() + agent.stdout()
    assert [e["job"] for e in s.events("epoch")] == ["envy"]


def test_jax_keras_and_torch_find_rank_0_unless_the_user_says_where(server, fleet):
    server(*QUICK)
    for port in (None, "29500"):
        fleet.start("--nnodes=2:2", env={"MASTER_PORT": port} if port else None)
    epoch = fleet.wait_world(2)
    starts = {start["rank"]: start for start in fleet.starts(epoch)}
    for rank, start in starts.items():
        seen, leader = start["env"], start["cluster"][0]
        host, _, port = leader.rpartition(":")
        assert seen["JAX_COORDINATOR_ADDRESS"] == seen["KERAS_DISTRIBUTION_JOB_ADDRESSES"] == leader
        assert seen["JAX_NUM_PROCESSES"] == seen["KERAS_DISTRIBUTION_NUM_PROCESSES"] == "2"
        assert seen["JAX_PROCESS_ID"] == seen["KERAS_DISTRIBUTION_PROCESS_ID"] == str(rank)
        assert seen["MASTER_ADDR"] == host and seen["MASTER_PORT"] in (port, "29500")
    assert sorted(start["env"]["MASTER_PORT"] == "29500" for start in starts.values()) == [False, True]
    fleet.order("exit 0")


@pytest.mark.parametrize("options, says", [
    (["--framework=torch", "--no-hooks"], "bound"), (["--framework=torch", "--no-hooks", "--no-standby"], "bound"),
    (["--framework=torch"], "in use"),    # a hook shares the port, with PyTorch's store only
    (["--no-hooks"], "in use")])
def test_rank_0s_port_is_released_at_the_start_only_for_torch_without_hooks(server, fleet, options, says):
    server(*QUICK)
    script = fleet.folder / "bind.py"
    script.write_text("import os, socket\ntry:\n    socket.socket().bind(('0.0.0.0', int(os.environ['MASTER_PORT'])))\n    print('bound')\n"
                      "except OSError:\n    print('in use')\n")
    (fleet.folder / "torch.py").write_text("")
    agent = fleet.start(*options, command=[str(script)])
    assert agent.wait() == 0
    assert says in agent.stdout()


def test_modules_and_commands(server, fleet, tmp_path):
    server(*QUICK)
    (fleet.folder / "mod.py").write_text("import sys, os; print('module', *sys.argv[1:], os.environ['TFE_RANK'])\n")
    agent = fleet.start("--job=m", "-m", command=["mod", "one", "two"])
    assert agent.wait() == 0
    assert "[0] module one two 0\n" in agent.stdout()
    agent = fleet.start("--job=c", "--no-python", python=False, command=["sh", "-c", "echo out $RANK; echo err >&2"])
    assert agent.wait() == 0
    assert "[0] out 0\n" in agent.stdout() and "[0] err\n" in agent.stderr()


def test_processes_have_their_names(server, fleet):
    server(*QUICK)
    agent = fleet.start()
    fleet.wait_world(1)
    assert pathlib.Path(f"/proc/{agent.pid}/comm").read_text() == "tfe-agent\n"
    assert pathlib.Path(f"/proc/{agent.guard_pid}/comm").read_text() == "tfe-guard\n"
