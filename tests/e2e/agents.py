"""Agents with the small test trainer for end-to-end tests: starts them and reads what their trainers logged."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import DEADLINE, wait_until
from programs import Failed, children, clean_environment, descendants, end_guards, is_alive, parents, program

TRAINER = str(pathlib.Path(__file__).with_name("trainer.py"))


TOGETHER = "--gather=10s"
"""Options for agents with max nodes together: the first epoch has all of them and begins when they are there. If one
joins late, the job grows, and grows again only a minute later unless its trainers listen."""


class Agent:
    """A running tfe-agent; its output goes to files."""

    def __init__(self, folder, name, line, env):
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=folder)
        self.pid = self.process.pid
        self.left = set()  # descendants left after SIGKILL: the guard, which still gives proof of termination

    @property
    def guard_pid(self):
        return wait_until(lambda: children(self.pid), what="a guard")[0]

    def wait(self, deadline=DEADLINE):
        return self.process.wait(deadline)

    def send(self, number):
        if number == signal.SIGKILL and os.geteuid() != 0:  # scanning all processes takes long
            self.left.update(children(self.pid))
        self.process.send_signal(number)

    def end_guard(self):
        """Ends the guard for users that may not read its environment, as end_guards() does and only root can."""
        for pid in self.left:
            if parents().get(pid, (0, ""))[1] == "tfe-guard":
                os.kill(pid, signal.SIGTERM)

    def stdout(self):
        return self.out.read_text(errors="replace")

    def stderr(self):
        return self.err.read_text(errors="replace")


class Fleet:
    """The agents of one test, and the folder in which their trainers write."""

    def __init__(self, folder, state_dir):
        self.folder, self.state_dir = folder, state_dir
        self.agents, self.seen = [], set()

    def start(self, *options, trainer=(), command=None, env=None, python=True, folder=None):
        """Starts an agent with the test trainer (its arguments in trainer), or with the given command."""
        folder = folder or self.folder
        folder.mkdir(exist_ok=True)
        if command is None:
            command = [TRAINER, str(folder), *trainer]
        more = ["--python", sys.executable] if python else []
        return self.start_program([program("tfe-agent"), *more, *options, *command], folder, env)

    def start_program(self, line, folder=None, env=None):
        """Starts a program that becomes an agent."""
        env = clean_environment(**{"TFE_STATE_DIR": str(self.state_dir), "TFE_NO_PERSIST": "false",
                                   "TFE_RETRY_START": "true", **(env or {})})
        agent = Agent(folder or self.folder, f"agent{len(self.agents)}", line, env)
        self.agents.append(agent)
        return agent

    def lines(self, event=None, folder=None):
        """Returns the lines written by the trainers, oldest process first."""
        found = []
        for path in sorted((folder or self.folder).glob("*.*.*.json"), key=lambda p: p.stat().st_mtime_ns):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    found.append(json.loads(line))
        for line in found:
            self.seen.update({line["pid"], line.get("child", line["pid"])})
        return [line for line in found if event is None or line["event"] == event]

    def starts(self, epoch=None, folder=None):
        return [s for s in self.lines("start", folder) if epoch is None or s["epoch"] == epoch]

    def last_epoch(self, folder=None):
        return max((s["epoch"] for s in self.starts(folder=folder)), default=0)

    def wait_world(self, size, above=0, folder=None):
        """Waits for an epoch above `above` in which all `size` trainers have started; returns its number."""

        def look():
            epoch = self.last_epoch(folder)
            starts = self.starts(epoch, folder)
            return epoch if epoch > above and len(starts) == size == len(starts[0]["cluster"]) else None
        return wait_until(look, what=f"an epoch of {size} above {above}")

    def order(self, words, epoch=None, rank="all", folder=None):
        """Orders the trainers to end: order("exit 0")."""
        folder = folder or self.folder
        name = f"do.{epoch}.{rank}" if epoch else "do.all"
        hidden = folder / f".{name}"
        hidden.write_text(words)
        hidden.rename(folder / name)

    def check_views(self, folder=None):
        """Checks that each epoch has one member list, each rank at most once, and task index equal to rank."""
        by_epoch = {}
        for s in self.starts(folder=folder):
            by_epoch.setdefault(s["epoch"], []).append(s)
        for epoch, starts in by_epoch.items():
            assert len({tuple(s["cluster"]) for s in starts}) == 1, epoch
            ranks = [s["rank"] for s in starts]
            assert len(set(ranks)) == len(ranks), (epoch, ranks)
            assert all(s["task"] == {"type": "worker", "index": s["rank"]} for s in starts)
            assert all(len(set(s["cluster"])) == len(s["cluster"]) for s in starts)

    def end(self):
        """Ends the processes that still run and returns the ones left over: {pid: (parent, name)}."""
        self.lines()
        below = set()
        for agent in self.agents:
            below |= descendants(agent.pid)
        # The first signal is a notice, whose plan takes seconds; the second ends at once. They differ, because two
        # equal signals could merge.
        for number in (signal.SIGTERM, signal.SIGINT):
            for agent in self.agents:
                if agent.process.poll() is None:
                    agent.send(number)
        for agent in self.agents:
            try:
                agent.wait(15)
            except subprocess.TimeoutExpired:
                agent.send(signal.SIGKILL)
                agent.wait()
            agent.end_guard()
        end_guards(self.state_dir)
        everything = below | self.seen
        left = {pid: parents().get(pid) for pid in everything if not gone_soon(pid)}
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left


def nothing_left(pids, guard):
    """Returns True if only the guard of a killed agent is left, without descendants; it gives proof of termination and
    ends on request."""
    left = [pid for pid in pids if pid != guard and not gone_soon(pid)]
    if is_alive(guard):
        left += children(guard)
        with contextlib.suppress(ProcessLookupError):  # the guard has given its proof and ended meanwhile
            os.kill(guard, signal.SIGTERM)
    return left if gone_soon(guard) else [*left, guard]


def gone_soon(pid, deadline=5.0):
    try:
        wait_until(lambda: not is_alive(pid), deadline)
    except Failed:
        return False
    return True


@pytest.fixture
def fleet(tmp_path, state_dir):
    """Agents of a test; afterwards none of their processes may be left, and no sanitizer may have reported an error."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    made = Fleet(folder, state_dir)
    yield made
    left = made.end()
    for agent in made.agents:
        assert "Sanitizer" not in agent.stderr(), agent.stderr()[-4000:]
        assert "runtime error:" not in agent.stderr(), agent.stderr()[-4000:]
    assert not left, f"processes left over: {left}"
