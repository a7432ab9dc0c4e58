"""Agents with the tiny trainer, for tests of the whole: start them, look at what their trainers saw."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import DEADLINE, clean_environment, is_alive, program, wait_until

TRAINER = str(pathlib.Path(__file__).with_name("trainer.py"))


class Agent:
    """A running tfe-agent; its output goes to files."""

    def __init__(self, folder, name, line, env):
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=folder)
        self.pid = self.process.pid

    @property
    def guard_pid(self):
        return wait_until(lambda: children(self.pid), what="a guard")[0]

    def wait(self, deadline=DEADLINE):
        return self.process.wait(deadline)

    def send(self, number):
        self.process.send_signal(number)

    def stdout(self):
        return self.out.read_text(errors="replace")

    def stderr(self):
        return self.err.read_text(errors="replace")


def parents():
    """pid -> (parent's pid, name) of every process that is no zombie."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            name = stat[stat.index("(") + 1:stat.rindex(")")]
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state not in ("Z", "X"):
                found[int(entry.name)] = (int(parent), name)
    return found


def children(pid):
    return [child for child, (parent, _) in parents().items() if parent == pid]


def descendants(pid):
    """All processes below pid."""
    table, found, grown = parents(), {pid}, True
    while grown:
        grown = False
        for child, (parent, _) in table.items():
            if parent in found and child not in found:
                found.add(child)
                grown = True
    return found - {pid}


class Fleet:
    """The agents of one test, and the folder in which their trainers write."""

    def __init__(self, folder, state_dir):
        self.folder, self.state_dir = folder, state_dir
        self.agents, self.seen = [], set()

    def start(self, *options, trainer=(), command=None, env=None, python=True, folder=None):
        """Starts an agent with the tiny trainer (its arguments in trainer), or with the command given."""
        folder = folder or self.folder
        folder.mkdir(exist_ok=True)
        if command is None:
            command = [TRAINER, str(folder), *trainer]
        more = ["--python", sys.executable] if python else []
        return self.start_program([program("tfe-agent"), *more, *options, *command], folder, env)

    def start_program(self, line, folder=None, env=None):
        """Starts whatever becomes an agent."""
        env = clean_environment(**{"TFE_STATE_DIR": str(self.state_dir), **(env or {})})
        agent = Agent(folder or self.folder, f"agent{len(self.agents)}", line, env)
        self.agents.append(agent)
        return agent

    def lines(self, event=None, folder=None):
        """What the trainers wrote, oldest process first."""
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
        """Tells the trainers to end: order("exit 0")."""
        folder = folder or self.folder
        name = f"do.{epoch}.{rank}" if epoch else "do.all"
        hidden = folder / f".{name}"
        hidden.write_text(words)
        hidden.rename(folder / name)

    def check_views(self, folder=None):
        """One member list per epoch, every rank of it at most once, the task is the rank."""
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
        """Ends what still runs, and says which processes were left over."""
        self.lines()
        below = set()
        for agent in self.agents:
            below |= descendants(agent.pid)
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.send(signal.SIGTERM)
        for agent in self.agents:
            try:
                agent.wait(15)
            except subprocess.TimeoutExpired:
                agent.process.kill()
                agent.wait()
        everything = below | self.seen
        left = [pid for pid in everything if not gone_soon(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left


def gone_soon(pid, deadline=5.0):
    try:
        wait_until(lambda: not is_alive(pid), deadline)
    except pytest.fail.Exception:
        return False
    return True


@pytest.fixture
def fleet(tmp_path, state_dir):
    """Agents; after the test not one process of theirs may be left, and no sanitizer may have complained."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    made = Fleet(folder, state_dir)
    yield made
    left = made.end()
    for agent in made.agents:
        assert "Sanitizer" not in agent.stderr(), agent.stderr()[-4000:]
        assert "runtime error:" not in agent.stderr(), agent.stderr()[-4000:]
    assert not left, f"processes left over: {left}"
