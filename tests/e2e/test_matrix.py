"""A supervision matrix after tini's: every way a script can end, every signal in every state, leftovers, and the
conditions of the agent's start. Agents run concurrently, because they mostly wait."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from agents import fleet, gone_soon, nothing_left  # noqa: F401 (fleet is a fixture)
from conftest import wait_until
from programs import children, clean_environment, descendants, is_alive, parents, program

CALM = ("--gather", "0.3")
SIDE_BY_SIDE = 24
PREEMPTED = {42, 143}  # exit codes of TensorFlow's PreemptionCheckpointHandler and of clouds' shutdowns
# These end an agent like SIGKILL (except SIGPIPE, which it ignores).
UNHANDLED = [signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU]
# Default action of signals that do not end a program without a handler.
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGURG,
            signal.SIGWINCH}
DEADLY = sorted(set(signal.valid_signals()) - HARMLESS)

# A script that can be asked to save and to stop, and does neither.
LISTENER = '''
import json, os, socket, time
agent = os.environ["TFE_SOCKET"]
channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
channel.bind(os.path.join(os.path.dirname(agent), f"script-{os.getpid()}"))
channel.sendto(json.dumps({"type": "hello", "epoch": int(os.environ["TFE_EPOCH"]), "rank": 0, "pid": os.getpid(),
                           "listens": True}).encode(), agent)
print("listens", flush=True)
time.sleep(3600)
'''

# Prints what a program inherits, from the kernel.
INHERITED = '''
import os, re
status = open("/proc/self/status").read()
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
print("descriptors", *[fd for fd in fds if os.path.exists(f"/proc/self/fd/{fd}")], flush=True)
print("stdin", os.readlink("/proc/self/fd/0"), flush=True)
print("blocked", int(re.search("SigBlk:\\\\s*(\\\\w+)", status)[1], 16), flush=True)
# Python itself ignores SIGPIPE and SIGXFSZ.
print("ignored", int(re.search("SigIgn:\\\\s*(\\\\w+)", status)[1], 16) & ~(1 << 12 | 1 << 24), flush=True)
print("group", os.getpid() == os.getpgrp() == os.getsid(0), flush=True)
'''


def shell(words):
    return ["sh", "-c", words]


def marked(mark):
    """Returns the processes with this mark in their environment, which all descendants inherit."""
    found = []
    for pid in parents():
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                found += [pid] if mark.encode() in environ.read().split(b"\0") else []
        except OSError:
            pass  # the process has ended or belongs to another user
    return found


def run_all(fleet, jobs, env=None):
    """Runs an agent for each of {name: (options, command)}, many at a time; returns {name: agent}."""
    waiting, running, done = list(jobs.items()), {}, {}
    while waiting or running:
        while waiting and len(running) < SIDE_BY_SIDE:
            name, (options, command) = waiting.pop(0)
            running[name] = fleet.start("--no-python", "--max-restarts=0", f"--job={name}", *options, command=command,
                                        env=env)
        ended = wait_until(lambda: [name for name, agent in running.items() if agent.process.poll() is not None],
                           deadline=60, what=f"the end of one of {sorted(running)}")
        done.update({name: running.pop(name) for name in ended})
    return done


# --- ends of scripts -----------------------------------------------------------------------------------


@pytest.mark.heavy
def test_every_exit_code(server, fleet):
    """0 is the job's success; any other code fails a job without restarts and appears in its message."""
    server(*CALM, "--log-level=warn")
    codes = sorted(range(256), key=lambda code: code not in PREEMPTED)  # these are tried five times, so they go first
    agents = run_all(fleet, {f"code-{code}": ((), shell(f"exit {code}")) for code in codes})
    assert {name: agent.process.returncode for name, agent in agents.items()} == \
        {f"code-{code}": 1 if code else 0 for code in range(256)}
    for code in range(1, 256):
        said = agents[f"code-{code}"].stderr()
        assert re.search(rf"failed: (5 con.*: )?exit code {code}\b.* \(rank 0 on \S+\)", said), said
        assert "not started up" not in said, said  # 134 is an abort, but a lone trainer waits for nobody
        assert ("5 consecutive epochs made no progress" in said) == (code in PREEMPTED), said


@pytest.mark.heavy
def test_every_deadly_signal(server, fleet):
    """A script ended by a signal is distinguished from one that exits with 128 + the number, as shells report it."""
    server(*CALM, "--log-level=warn")
    numbers = sorted(DEADLY, key=lambda number: number != signal.SIGTERM)
    agents = run_all(fleet, {f"signal-{int(n)}": ((), shell(f"ulimit -c 0; kill -{int(n)} $$; sleep 3600")) for n in numbers})
    assert {name: agent.process.returncode for name, agent in agents.items()} == {f"signal-{int(n)}": 1 for n in DEADLY}
    for number in DEADLY:
        said = agents[f"signal-{int(number)}"].stderr()
        name = signal.Signals(number).name if number < 32 else f"signal {int(number)}"
        assert re.search(rf"ended by {name}\b.* \(rank 0 on \S+\)", said), said
        assert "not started up" not in said, said


ORPHANS = {
    "child": "sleep 3600 & ",
    "session": "setsid sleep 3600 & ",
    "deaf": "(trap '' TERM INT HUP; exec sleep 3600) & ",
    "daemon": "(setsid sh -c 'trap \"\" TERM; sleep 3600 & exec sleep 3600' &) ; ",
    "stopped": "(sh -c 'kill -STOP $$; sleep 3600' &) ; ",
    "silent": "(setsid sleep 3600 <&- >&- 2>&- &) ; ",
    "many": "i=0; while [ $i -lt 30 ]; do (setsid sleep 3600 &); i=$((i + 1)); done; ",
    # It never rests: each process starts the next one and ends.
    "runner": "(setsid sh -c 'echo \"sleep 0.02; sh $0 &\" >$0.sh; sh $0.sh' $PWD/run &) ; ",
}


@pytest.mark.parametrize("code", [0, 3])
def test_what_a_script_leaves_behind_is_gone_before_its_agent(server, fleet, code):
    server(*CALM)
    mark = f"MATRIX_RUN={fleet.folder}"
    agents = run_all(fleet, {f"left-{name}": ((), shell(f"{words} sleep 0.1; exit {code}")) for name, words in ORPHANS.items()},
                     env={"MATRIX_RUN": str(fleet.folder)})
    left = marked(mark)
    assert {name: agent.process.returncode for name, agent in agents.items()} == {f"left-{n}": min(code, 1) for n in ORPHANS}
    assert not left


def test_adopted_zombies_are_reaped_while_the_script_runs(server, fleet):
    """Double-forked processes become the guard's children, which reaps them while the script runs."""
    server(*CALM)
    agent = fleet.start("--no-python", command=shell(
        "i=0; while [ $i -lt 60 ]; do (true &) ; i=$((i + 1)); done; echo ready; exec sleep 3600"))
    wait_until(lambda: "ready" in agent.stdout(), what="the script")
    guard = agent.guard_pid

    def zombies():
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(guard)], capture_output=True, text=True).stdout.split()
        return [pid for pid in found if not is_alive(int(pid)) and os.path.exists(f"/proc/{pid}")]
    # Children that have not ended are not zombies but count as well.
    wait_until(lambda: not zombies() and len(children(guard)) == 1, deadline=5, what="the reaping of adopted zombies")


# --- signals to the agent --------------------------------------------------------------------------------


def names_below(pid):
    table = parents()
    return sorted(table[below][1] for below in descendants(pid) if below in table)


def in_state(fleet, state, job, *options):
    """Starts an agent and waits until it is in this state; returns it and all its descendants."""
    listener = fleet.folder / "listener.py"
    listener.write_text(LISTENER)
    options = (f"--job={job}", *options)
    if state == "connecting":
        agent = fleet.start("--no-python", "--rdzv-endpoint=127.0.0.1:1", *options, command=shell("exec sleep 3600"))
        wait_until(lambda: "event=node" in agent.stderr(), what="its looking for a server")
    elif state == "waiting":
        agent = fleet.start("--no-python", "--nnodes=2:2", *options, command=shell("exec sleep 3600"))
        wait_until(lambda: "event=joined" in agent.stderr(), what="its joining")
    elif state == "running":
        agent = fleet.start("--no-python", *options, command=shell("echo runs; (setsid sleep 3600 &) ; exec sleep 3600"))
        # The list also has three names while the shell forks the second sleep; then one of them ends.
        wait_until(lambda: names_below(agent.pid) == ["sleep", "sleep", "tfe-guard"], what="its trainer")
    else:  # leaving: a trainer that listens gets time to save
        agent = fleet.start(*options, "--preempt-grace=60s", "--stop-grace=60s", command=[str(listener)])
        wait_until(lambda: "listens" in agent.stdout(), what="its trainer")
        agent.send(signal.SIGTERM)
        wait_until(lambda: "event=draining" in agent.stderr(), what="its leaving")
    return agent, descendants(agent.pid)


STATES = ["connecting", "waiting", "running", "leaving"]


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_to_leave_in_each_state(server, fleet, number, code):
    server(*CALM)
    started = {state: in_state(fleet, state, f"leave-{state}") for state in STATES}
    for agent, _ in started.values():
        assert agent.process.poll() is None
        agent.send(number)
    # If the agent is already leaving, this is the second signal: it ends at once, with the code of the first.
    assert {state: agent.wait(10) for state, (agent, _) in started.items()} == {**dict.fromkeys(STATES, code), "leaving": 143}
    assert [pid for _, below in started.values() for pid in below if is_alive(pid)] == []


@pytest.fixture
def heard():
    """Programs inherit ignored signals, and a shell ignores Ctrl-C and Ctrl-\\ for background jobs."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in UNHANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("state", STATES)
def test_other_signals_end_the_agent_and_all_below_it(server, fleet, heard, state):
    server(*CALM)
    started = {number: in_state(fleet, state, f"other-{int(number)}") for number in [*UNHANDLED, signal.SIGKILL]}
    guards = {number: children(agent.pid)[0] for number, (agent, _) in started.items()}
    for number, (agent, _) in started.items():
        agent.send(number)
    assert {number: agent.wait(10) for number, (agent, _) in started.items()} == {number: -number for number in started}
    assert [pid for number, (_, below) in started.items() for pid in nothing_left(below, guards[number])] == []


def test_harmless_signals_change_nothing(server, fleet):
    server(*CALM)
    started = [in_state(fleet, state, f"harmless-{state}") for state in STATES]
    for agent, _ in started:
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGTSTP, signal.SIGSTOP):
            agent.send(number)
        time.sleep(0.1)
        agent.send(signal.SIGCONT)
    time.sleep(0.3)
    assert all(agent.process.poll() is None and all(is_alive(pid) for pid in below) for agent, below in started)
    for agent, _ in started:
        agent.send(signal.SIGTERM)
    assert [agent.wait(10) for agent, _ in started] == [143] * len(STATES)
    assert [pid for _, below in started for pid in below if is_alive(pid)] == []


def test_a_signal_that_warns_is_no_end(server, fleet):
    server(*CALM)
    for number in ("HUP", "QUIT", "USR1", "USR2", "ALRM", "XCPU"):
        agent, _ = in_state(fleet, "running", f"warn-{number}", f"--notice-signal={number}")
        agent.send(getattr(signal, f"SIG{number}"))
    for agent in fleet.agents:
        wait_until(lambda agent=agent: len(descendants(agent.pid)) == 1, what="the end of its trainers, its guard aside")
        assert agent.process.poll() is None


# --- environments of the start ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["plain", "descriptors", "ignored", "blocked", "closed"])
def test_a_script_inherits_nothing(server, fleet, how):
    """Whatever the agent was started with, the script has stdin from /dev/null, stdout and stderr, default signals and
    a session of its own."""
    server(*CALM)
    script = fleet.folder / "inherited.py"
    script.write_text(INHERITED)
    before = {
        "plain": "",
        "descriptors": "exec 5</etc/passwd 6>>/dev/null 200</dev/null; ",
        "ignored": "trap '' HUP INT QUIT TERM USR1 USR2 ALRM CHLD; ",
        "blocked": "exec env --block-signal=HUP,INT,QUIT,TERM,USR1,CHLD ",
        "closed": "exec <&-; ",
    }[how]
    start = "" if how == "blocked" else "exec "
    log = fleet.folder / "logs"
    agent = fleet.start_program(["bash", "-c", f"{before}{start}'{program('tfe-agent')}' --no-standby --log-dir='{log}' "
                                 f"--python '{sys.executable}' '{script}'"])
    assert agent.wait() == 0, agent.stderr()
    assert agent.stdout().splitlines() == [f"[0] {line}" for line in (
        "descriptors 0 1 2", "stdin /dev/null", "blocked 0", "ignored 0", "group True")]


@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_an_agent_can_be_told_to_leave_however_it_was_started(server, fleet, how):
    """Signals that a parent has blocked or ignored must not make the agent miss this machine's notice."""
    server(*CALM)
    before = {"ignored": "trap '' TERM INT CHLD; exec", "blocked": "exec env --block-signal=TERM,INT,CHLD"}[how]
    agents = [fleet.start_program(["bash", "-c", f"{before} '{program('tfe-agent')}' --job={number} --no-python sleep 3600"])
              for number in ("TERM", "INT", "guard")]
    for agent in agents:
        wait_until(lambda agent=agent: len(descendants(agent.pid)) == 2, what="a trainer")
    guard = agents[2].guard_pid
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: len(descendants(agents[2].pid)) == 2 and guard not in children(agents[2].pid), what="another guard")
    for agent, number in zip(agents, (signal.SIGTERM, signal.SIGINT, signal.SIGTERM)):
        agent.send(number)
    assert [agent.wait(10) for agent in agents] == [143, 130, 143]


def test_the_end_of_who_started_it_is_not_its_own(server, fleet):
    """An agent in the background outlives its shell, even if the shell is killed."""
    server(*CALM)
    pid_file, code_file = fleet.folder / "pid", fleet.folder / "code"
    starter = subprocess.Popen(["bash", "-c", f"'{program('tfe-agent')}' --state-dir='{fleet.state_dir}' --notice=none --no-python "
                                f"sh -c 'echo $$ >{pid_file}; while [ ! -e {code_file} ]; do sleep 0.05; done' & wait"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=clean_environment())
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), what="the script")
    agent, script = children(starter.pid)[0], int(pid_file.read_text())
    starter.kill()
    starter.wait()
    time.sleep(0.3)
    assert is_alive(agent) and is_alive(script)
    code_file.touch()
    assert gone_soon(agent, 20) and not is_alive(script)


# --- as the first process of a container -------------------------------------------------------------------


UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.geteuid() != 0:
    UNSHARE[1:1] = ["--user", "--map-root-user"]


def may_unshare():
    return shutil.which("unshare") is not None and subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0


in_container = pytest.mark.skipif(not may_unshare(), reason="this machine makes no PID namespaces for this user")


def start_first(fleet, job, words, *options):
    """Starts an agent as process 1 of a PID namespace; returns it with its pid outside."""
    unshare = fleet.start_program([*UNSHARE, program("tfe-agent"), "--no-python", "--max-restarts=0", f"--job={job}", *options,
                                   *shell(words)])
    return unshare, lambda: wait_until(lambda: children(unshare.pid), what="the agent")[0]


@in_container
def test_first_process_hands_the_codes_on(server, fleet):
    server(*CALM)
    ends = {"0": ("exit 0", 0), "7": ("exit 7", 1), "9": ("kill -9 $$", 1), "daemon": (ORPHANS["daemon"] + "exit 0", 0)}
    agents = {name: start_first(fleet, f"first-{name}", words)[0] for name, (words, _) in ends.items()}
    assert {name: agent.wait() for name, agent in agents.items()} == {name: code for name, (_, code) in ends.items()}


@in_container
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_first_process_is_told_to_leave(server, fleet, number, code):
    server(*CALM)
    agent, pid = start_first(fleet, "first", "echo runs; (setsid sleep 3600 &) ; exec sleep 3600")
    wait_until(lambda: "runs" in agent.stdout(), what="its trainer")
    below = descendants(pid())
    os.kill(pid(), signal.SIGQUIT)  # the kernel does not deliver signals without a handler to process 1
    os.kill(pid(), number)
    assert agent.wait(10) == code
    assert [p for p in below if is_alive(p)] == []


@in_container
def test_first_process_reaps_what_others_leave_to_it(server, fleet):
    """In a container no other process would: after the guard's end all orphans are the agent's."""
    server(*CALM)
    agent, pid = start_first(fleet, "first", "echo run $TFE_EPOCH; (true &) ; (setsid sleep 3600 &) ; exec sleep 3600")
    wait_until(lambda: "run 1" in agent.stdout(), what="its trainer")
    first, guard = pid(), children(pid())[0]
    below = descendants(first)
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: "run 2" in agent.stdout(), what="its next trainer")
    assert [p for p in below if not gone_soon(p)] == []
    wait_until(lambda: not [p for p in below if os.path.exists(f"/proc/{p}")], what="the reaping of zombies")
    os.kill(first, signal.SIGKILL)  # from outside: the kernel ends its whole namespace
    assert agent.wait(10) != 0 and not is_alive(first)
