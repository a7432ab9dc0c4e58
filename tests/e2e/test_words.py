"""The agents' messages: what they wait for, why they stop, how trainers ended."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from agents import TOGETHER, TRAINER, fleet  # noqa: F401 (fleet is a fixture)
from conftest import DEADLINE, wait_until
from programs import clean_environment, program

QUICK = ("--gather=0.1",)


def has_ipv6():
    with socket.socket(socket.AF_INET6) as one:
        try:
            one.bind(("::1", 0))
        except OSError:
            return False
    return True


def says(agent, pattern):
    """Returns the first line of its log that matches the pattern."""
    found = wait_until(lambda: re.search(f"^.*{pattern}.*$", agent.stderr(), re.M), what=f"{pattern} in the log")
    return found.group()


def test_an_agent_waits_for_others_and_says_so_once(server, fleet, status):
    server(*QUICK)
    agent = fleet.start("--nnodes=2")
    says(agent, r'event=waiting reason="waiting for 1 more node \(1 of 2\)"')
    job, = status()
    assert job["waits"] == "waiting for 1 more node (1 of 2)"
    fleet.start("--nnodes=2")
    fleet.wait_world(2)
    assert agent.stderr().count("more node") == 1, "not again before 10 s"


def test_a_spare_says_so(server, fleet, status):
    server(*QUICK)
    fleet.start("--nnodes=1:1")
    fleet.wait_world(1)
    says(fleet.start("--nnodes=1:1"), r'event=waiting reason="spare: 1 of 1 are training"')
    assert sorted((n["state"], n["waits"]) for n in status()[0]["nodes"]) == [
        ("member", None), ("spare", "spare: 1 of 1 are training")]


def test_an_import_that_takes_long_is_said(server, fleet):
    server(*QUICK)
    folder = fleet.folder / "modules"
    folder.mkdir()
    (folder / "slow_import.py").write_text("import time\ntime.sleep(2.5)\n")
    agent = fleet.start("--preload=slow_import", env={"PYTHONPATH": str(folder)})
    fleet.wait_world(1)
    assert re.search(r'event=waiting reason="importing slow_import" since_ms=\d{3,4}\b', agent.stderr())


def test_no_server_is_said_at_once(server, fleet):
    s = server(*QUICK)
    port = s.port
    s.stop()
    agent = fleet.start(f"--rdzv-endpoint=127.0.0.1:{port}", "--token-file", str(fleet.state_dir / "agent.token"))
    line = says(agent, f'event=waiting reason="cannot reach the server at 127.0.0.1:{port}: ')
    assert "up_to_ms=600000" in line


def test_a_stop_names_who_was_lost(server, fleet):
    server(*QUICK)
    agents = [fleet.start("--nnodes=1:2", TOGETHER, f"--node-name=m{i}") for i in range(2)]
    fleet.wait_world(2)
    agents[1].send(signal.SIGKILL)
    fleet.wait_world(1, above=1)
    # If the two nodes did not start together there was a stop before.
    says(agents[0], r'event=stopping .*reason="m1 was lost \(killed, crashed or disconnected\); continuing with 1 node\.')
    ended = says(agents[0], "event=trainer_exited")
    assert "level=info" in ended and "signal=SIG" in ended and "by=tfe-agent" in ended


def test_a_restart_is_announced_at_once(server, fleet):
    server(*QUICK)
    agent = fleet.start("--max-restarts=2", "--node-name=m0")
    fleet.wait_world(1)
    fleet.order("exit 3", epoch=1)
    says(agent, r'event=server_message reason="exit code 3 .rank 0 on m0.: restart 1 of 2 in 1 s; different errors of other trainers are consequences')


@pytest.mark.parametrize("code", [130, 255])
def test_exit_code_above_128_is_not_shown_as_signal(server, fleet, ctl, code):
    """Regression: sys.exit(-1) was shown as signal 127."""
    server(*QUICK)
    agent = fleet.start("--max-restarts=0", "--node-name=m0")
    fleet.wait_world(1)
    fleet.order(f"exit {code}", epoch=1)
    assert f"status={code}" in says(agent, "event=trainer_exited") and agent.wait() == 1
    assert f"a trainer of m0 has failed with code {code}" in ctl("events", "default").stdout


def test_a_failure_is_an_error_with_its_name(server, fleet):
    server(*QUICK)
    agent = fleet.start("--max-restarts=0")
    fleet.wait_world(1)
    os.kill(fleet.starts()[0]["pid"], signal.SIGKILL)
    ended = says(agent, "event=trainer_exited")
    assert "level=error" in ended and "signal=SIGKILL" in ended and "137" not in ended and "by=" not in ended
    assert agent.wait() == 1


def test_on_a_terminal_it_is_said_for_people(fleet):
    """A terminal gets text for people, and a pipe, as in all other tests, the format for programs."""
    path = f"{os.path.dirname(program('tfe-rdzv'))}:{os.environ['PATH']}"
    code, said = on_a_terminal("--standalone", "--max-restarts=0", TRAINER, str(fleet.folder), "--exit", "7", PATH=path)
    assert code == 1
    assert re.search(rb"^\d\d:\d\d:\d\d tfe-agent: joined \(endpoint 127\.0\.0\.1:\d+, ttl 10 s\)\r$", said, re.M), said
    assert re.search(rb"^\x1b\[31m\d\d:\d\d:\d\d tfe-agent: error: trainer exited \(epoch 1, local rank 0, status 7\)\x1b\[0m\r$",
                     said, re.M), said
    assert b"event=" not in said


def test_who_meets_a_finished_job_on_a_terminal_is_told_what_to_do(server, fleet, state_dir):
    server(*QUICK)
    agent = fleet.start("--nnodes=1")
    fleet.wait_world(1)
    fleet.order("exit 0")
    assert agent.wait() == 0
    in_a_pipe = fleet.start("--nnodes=1")
    assert in_a_pipe.wait() == 0 and "nothing ran" not in in_a_pipe.stderr()
    code, said = on_a_terminal("--nnodes=1", TRAINER, str(fleet.folder), TFE_STATE_DIR=str(state_dir))
    assert code == 0 and b"nothing ran: the job is over (use --new-run to run it again)" in said


def on_a_terminal(*arguments, **env):
    """Returns an agent's exit code and its whole output."""
    master, slave = os.openpty()
    agent = subprocess.Popen([program("tfe-agent"), "--python", sys.executable, *arguments], stdin=slave, stdout=slave,
                             stderr=slave, env=clean_environment(**env))
    os.close(slave)
    said = b""
    while more := read_terminal(master):
        said += more
    os.close(master)
    return agent.wait(DEADLINE), said


def test_what_a_trainer_prints_steers_no_terminal_of_its_agent(fleet):
    script = fleet.folder / "prints.py"
    script.write_text("import sys\n"
                      "for out in (sys.stdout.buffer, sys.stderr.buffer):\n"
                      "    out.write(b'\\x1b]0;owned\\x07\\x1b[2J\\x1b[31mred\\x1b[0m \\xc2\\x9b2J \\xe2\\x80\\xaegnp end\\n')\n")
    path = f"{os.path.dirname(program('tfe-rdzv'))}:{os.environ['PATH']}"
    code, said = on_a_terminal("--standalone", str(script), PATH=path)
    assert code == 0
    lines = [line for line in said.split(b"\r\n") if b"] " in line and b"end" in line]
    assert [line.partition(b"] ")[2] for line in lines] == [rb"\u001b]0;owned\u0007red \u009b2J \u202egnp end"] * 2, said
    # A pipe gets the unchanged output, for programs.
    piped = subprocess.run([program("tfe-agent"), "--python", sys.executable, "--standalone", str(script)], capture_output=True,
                           env=clean_environment(PATH=path), timeout=DEADLINE)
    assert b"\x1b[31mred\x1b[0m" in piped.stdout


def read_terminal(master):
    try:
        return os.read(master, 65536)
    except OSError:  # the terminal is closed
        return b""


def test_a_script_that_cannot_start_fails_at_once_and_says_why_once(server, fleet, status):
    server(*QUICK)
    script = fleet.folder / "broken.py"
    script.write_text("import there_is_no_such_module\n")
    fresh = {"TFE_RETRY_START": "false"}
    agents = [fleet.start("--nnodes=2", command=[script], env=fresh) for _ in range(2)]
    for agent in agents:
        assert agent.wait() == 1
        assert re.search(r"ModuleNotFoundError: No module named 'there_is_no_such_module' \(broken.py:1, rank 0 on \S+ and 1 other\); "
                         r"not retried: every rank failed before training began \(--retry-start retries\)", agent.stderr()), agent.stderr()
        assert agent.stderr().count("Traceback (most recent") == 1
    job, = status()
    assert (job["state"], job["epoch"]) == ("failed", 1)
    assert job["reason"].startswith("ModuleNotFoundError: No module named 'there_is_no_such_module' (broken.py:1, rank 0 on ")


def test_the_exception_is_told_though_a_tensor_is_printed_with_it(server, fleet):
    server(*QUICK)
    script = fleet.folder / "dump.py"
    script.write_text("import sys\nvalues = '\\n'.join(['[0.1 0.2 0.3]'] * 1000)\n"
                      "sys.excepthook = lambda *of: (sys.__excepthook__(*of), print(values, file=sys.stderr))\n"
                      "raise ValueError('no such shape: ' + values)\n")
    agent = fleet.start("--max-restarts=0", command=[script])
    assert agent.wait() == 1
    told = agent.stderr().partition("its last lines were:\n")[2]
    assert told.startswith(f'Traceback (most recent call last):\n  File "{script}", line 4, in <module>\n'
                           "ValueError: no such shape: [0.1 0.2 0.3]\n"), agent.stderr()[-3000:]


# --- reasons of refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("limit, sentence", [
    ("--max-agents-per-token=1", "too many agents: this token has 1, its maximum (--max-agents-per-token)"),
    ("--max-jobs-per-token=1", "cannot open the job: this token has opened 1 jobs, its maximum (--max-jobs-per-token)"),
])
def test_a_limit_is_said_at_once_in_the_servers_words(server, fleet, limit, sentence):
    server(*QUICK, limit)
    fleet.start()
    fleet.wait_world(1)
    agent = fleet.start("--job=other", "--join-timeout=2s")
    line = says(agent, "event=refused")
    assert "level=error" in line and f'reason="{sentence}"' in line
    assert agent.wait() == 69
    assert f"the server did not admit this node within --join-timeout: {sentence}" in agent.stderr()
    assert agent.stderr().count("event=refused") == 1
    assert "no answer" not in agent.stderr() and "not reached" not in agent.stderr()


def test_who_may_not_come_in_is_told_why(server, fleet, ctl):
    server(*QUICK)
    fleet.start("--job=j", "--node-name=m0")
    fleet.wait_world(1)
    scoped = ctl("token", "create", "--job", "other").stdout.strip()
    for options, code, words in [
            (("--nnodes=2:2",), 2, "job j was opened with --nnodes=1:1"),
            (("--token", scoped), 77, "not_authorised"),
            (("--token", "tfe1_agent_" + "A" * 112), 77, "invalid token")]:
        agent = fleet.start("--job=j", *options)
        assert agent.wait() == code, agent.stderr()
        assert words in agent.stderr(), agent.stderr()
        assert "no answer" not in agent.stderr()
    assert ctl("evict", "--for=1m", "m0").returncode == 0
    again = fleet.start("--job=j", "--node-name=m0")
    assert again.wait() == 1
    assert re.search(r"an operator has evicted this node and denies it until 20\S+ \S+ UTC \(tfe-ctl unban m0 ends this\)", again.stderr())


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_server_of_ipv6_has_trainers_of_ipv4(server, fleet):
    """Regression: TensorFlow listens on IPv4 only, and the table had ::1."""
    s = server(*QUICK, "--bind=::1")
    agent = fleet.start(f"--rdzv-endpoint=[::1]:{s.port}")
    fleet.wait_world(1)
    assert [host.rpartition(":")[0] for host in fleet.starts()[0]["cluster"]] == ["127.0.0.1"]
    began = time.monotonic()
    far = fleet.start(f"--rdzv-endpoint=[::1]:{s.port}", "--address=192.0.2.1")
    assert far.wait() == 2 and time.monotonic() - began < 10
    assert "--allow-address on the server) (TensorFlow listens on IPv4 only)" in far.stderr()
    own = fleet.start(f"--rdzv-endpoint=[::1]:{s.port}", "--address=::1")
    assert own.wait() == 2
    assert "--address: ::1 is not an IPv4 address, and TensorFlow listens on IPv4 only" in own.stderr()
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_with_retry_start_it_is_started_again(server, fleet):
    server(*QUICK)
    agent = fleet.start("--retry-start", "--max-restarts=1", trainer=["--exit=3"], env={"TFE_RETRY_START": "false"})
    assert agent.wait() == 1
    assert fleet.last_epoch() == 2
