"""Kills a real server at random instants, for as long as asked, and lets its agents' trainers judge.

20 agents with fake trainers (fake_trainer.c) come, go, lose their trainers; the server is killed with SIGKILL, now by
the clock, now in the middle of a write to its disk (faulty_disk.c), and started again at once on the same state
directory. Afterwards the trainers' own logs are looked through:

- a node starts an epoch at most once, and later ones only with higher numbers;
- no two epochs train at once: every step of an epoch was done before the first step of any later one;
- all members of an epoch agree on its size, and no two of them have the same rank;
- trainers restart only when the membership changed or a trainer had ended: the epoch before had other nodes, or one of
  its trainers was ended by us;
- in the end, left alone, a job trains.

The last line on stdout is `kills=… epochs=… violations=…`; exit 1 if there are any."""

import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from parts import Server, Trainer, judge_order
from programs import clean_environment, end_guards, program

AGENTS = 20
MIN = 4
# Left alone at the end, a job has to train within this time. The longest thing to wait for is a fence.
CALM_S = 90


class Run:
    def __init__(self, folder, rng):
        self.folder, self.rng = folder, rng
        self.state, self.logs = folder / "state", folder / "logs"
        self.logs.mkdir()
        self.agents = {}  # process -> its label
        self.ended = set()  # pids of trainers that we have ended
        self.started = self.kills = self.kills_in_write = 0
        self.said = open(folder / "programs.log", "ab")
        self.server = Server(self.state, folder / "programs.log", "--ttl=3s", "--fence=9s", "--gather=300ms",
                             "--max-restarts=1000000", "--log-level=info")
        self.folder, self.env = folder, clean_environment(CRASH_RUN=str(folder))

    def start_server(self, kill_at=0):
        env = dict(self.env)
        if kill_at:
            env.update(LD_PRELOAD=program("libfaulty_disk.so"), FAULTY_DISK_KILL_AT=str(kill_at),
                       ASAN_OPTIONS="verify_asan_link_order=0:" + env.get("ASAN_OPTIONS", ""))
        self.started += 1
        return self.server.start(env).listens()

    def bring_up(self):
        """At once, and again if it is killed while it starts. Returns when to kill it by the clock, in seconds."""
        while True:
            # Its first writes are those of its start: they are scenes of a murder, too.
            in_write = self.rng.random() < 0.5
            kill_at = (self.rng.randrange(1, 12) if self.rng.random() < 0.3 else self.rng.randrange(12, 32)) \
                if in_write else 0
            if self.start_server(kill_at):
                # A kill in a write needs a write: those come with the changes of the membership.
                return self.rng.expovariate(1 / 0.6) + (2 if in_write else 0)
            self.server.process.wait()
            self.server.is_gone()
            self.kills += 1
            self.kills_in_write += 1

    def kill_server(self):
        self.server.kill()
        self.kills += 1

    def start_agent(self):
        label = f"n{self.started}-{len(self.agents)}-{self.rng.randrange(10**6)}"
        process = subprocess.Popen(
            [program("tfe-agent"), f"--nnodes={MIN}:{AGENTS}", f"--node-name={label}",
             f"--rdzv-endpoint=127.0.0.1:{self.server.port}", f"--token-file={self.state}/agent.token", "--address=127.0.0.1",
             "--no-python", program("fake_trainer"), str(self.logs)],
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, env=self.env, cwd=self.folder)
        self.agents[process] = label

    def lose_agent(self, number):
        process = self.rng.choice(sorted(self.agents, key=lambda p: p.pid))
        process.send_signal(number)
        del self.agents[process]
        self.leaving = getattr(self, "leaving", []) + [process]

    def end_a_trainer(self):
        """One of the newest epoch."""
        lines = self.trainers()
        newest = max((t.epoch for t in lines), default=0)
        alive = sorted(t.pid for t in lines if t.epoch == newest and os.path.exists(f"/proc/{t.pid}"))
        if alive:
            pid = self.rng.choice(alive)
            self.ended.add(pid)
            try:
                os.kill(pid, signal.SIGUSR1)
            except ProcessLookupError:
                pass

    def trainers(self):
        found = []
        for path in self.logs.glob("log.*"):
            words = path.read_text().split()
            if len(words) == 9:
                epoch, rank, world, node, pid, started, steps, first, last = words
                found.append(Trainer(int(epoch), int(rank), int(world), node, int(pid), int(started), int(steps),
                                     int(first), int(last)))
        return found

    def change_membership(self):
        what = self.rng.random()
        for process in [p for p in self.agents if p.poll() is not None]:
            del self.agents[process]  # told to leave by the server: it counts as gone
        if len(self.agents) < AGENTS - 3 or (what < 0.35 and len(self.agents) < AGENTS + 2):
            self.start_agent()
        elif what < 0.6:
            self.lose_agent(signal.SIGKILL)
        elif what < 0.85:
            self.lose_agent(signal.SIGTERM)
        else:
            self.end_a_trainer()

    def churn(self, seconds, kills):
        """So long, and on a slow machine up to three times that, until there were so many kills."""
        end = time.monotonic() + seconds
        latest = end + 2 * seconds
        next_kill = next_change = time.monotonic() + 3
        while (now := time.monotonic()) < end or (self.kills < kills and now < latest):
            if self.server.is_gone():
                self.kills += 1
                self.kills_in_write += 1
                next_kill = now + self.bring_up()
            elif now >= next_kill:
                self.kill_server()
                next_kill = now + self.bring_up()
            if now >= next_change:
                self.change_membership()
                next_change = now + self.rng.expovariate(1 / 0.6)
            time.sleep(0.005)

    def calm(self):
        """True: left alone, a job of all who are there trains."""
        self.kill_server()
        self.start_server()
        end = time.monotonic() + CALM_S
        while time.monotonic() < end:
            lines = self.trainers()
            newest = max((t.epoch for t in lines), default=0)
            those = [t for t in lines if t.epoch == newest]
            if those and len(those) == those[0].world >= MIN and min(t.steps for t in those) > 200:
                return True
            time.sleep(0.2)
        return False

    def end(self):
        everybody = list(self.agents) + getattr(self, "leaving", [])
        for process in everybody:
            if process.poll() is None:
                process.kill()  # its guard takes the trainers along
        for process in everybody:
            process.wait()
        if self.server.process is not None and self.server.process.poll() is None:
            self.server.kill()
        end = time.monotonic() + 30
        while time.monotonic() < end and (any(self.is_ours(t.pid) for t in self.trainers()) or end_guards(self.folder)):
            time.sleep(0.05)
        left = [t.pid for t in self.trainers() if self.is_ours(t.pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.said.close()
        return left

    def is_ours(self, pid):
        try:
            return b"fake_trainer" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False


def half_done(said):
    """The epochs that a server had begun to leave when it was killed: their trainers had been told to stop, and the
    next server finds nobody of them running, whoever the switch was for."""
    left, found = None, set()
    for line in said.splitlines():
        if match := re.search(r"tfe-rdzv event=(switch|epoch|job_restored) .*?epoch=(\d+)", line):
            event, epoch = match[1], int(match[2])
            if event == "job_restored" and left == epoch:
                found.add(epoch)
            left = epoch if event == "switch" else None
    return found


def judge(trainers, ended, half_done):
    """Sentences, one for each violation."""
    found = judge_order(trainers)
    by_epoch = collections.defaultdict(list)
    for t in trainers:
        by_epoch[t.epoch].append(t)
    numbers = sorted(by_epoch)
    for a, b in zip(numbers, numbers[1:]):
        # An epoch of which not all were started was left for a reason that its logs do not show.
        before, after = by_epoch[a], by_epoch[b]
        if len(before) == before[0].world and len(after) == after[0].world and \
                {t.node for t in before} == {t.node for t in after} and not {t.pid for t in before} & ended and \
                a not in half_done:
            found.append(f"epoch {b} has the nodes of epoch {a}, of which no trainer had ended")
    return found


def main():
    parser = argparse.ArgumentParser(prog="crash.sh")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kills", type=int, default=1, help="fewer than so many are a failure, too")
    a = parser.parse_args()
    seed = a.seed if a.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tfe-crash-"))
    run = Run(folder, random.Random(seed))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    trains, left = False, []
    try:
        run.start_server()
        for _ in range(AGENTS):
            run.start_agent()
        run.churn(a.seconds, a.kills)
        trains = run.calm()
    finally:
        left = run.end()
    trainers = run.trainers()
    said = (folder / "programs.log").read_text(errors="replace")
    violations = judge(trainers, run.ended, half_done(said))
    if not trains:
        violations.append(f"left alone for {CALM_S} s, no job trains")
    if left:
        violations.append(f"{len(left)} trainers outlived their agents")
    if run.kills < a.kills:
        violations.append(f"only {run.kills} kills, which proves little")
    for sentence in violations:
        print(f"violation: {sentence}", file=sys.stderr)
    if violations:
        print(f"kept: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    steps = sum(t.steps for t in trainers)
    print(f"{run.kills_in_write} of the kills inside a write, {len(trainers)} trainers, {steps} steps")
    print(f"kills={run.kills} epochs={len({t.epoch for t in trainers})} violations={len(violations)}", flush=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
