"""Random faults for as long as asked, drawn from one seed: then the faults stop, and training has to come out exact.

A real server and real agents; their trainers are fake ones that prove each step (trainer.py), or TensorFlow's (digits.py
of the examples). What can happen: a trainer, an agent, a guard or a standby is killed; a machine or one of its processes
is frozen and thawed; a machine joins, is drained, gets SIGTERM or a notice; the server is killed and started again.

Afterwards, left alone:
- training ends, with exactly the steps that it should have, each done once (from the checkpoint it began from);
- the trainers' own logs show no two epochs that train at once, and epoch numbers that only grow;
- the job was charged for the trainers that we have killed, and for nothing else;
- whoever was told to leave has, with the right exit status, and nobody else;
- no agent, guard or server has more descriptors than at the beginning;
- no process, port or file is left over.

The last line on stdout is `chaos seconds=… seed=… events=… epochs=… violations=…`; exit 1 if there are any."""

import argparse
import collections
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from world import ROOT, Job, World  # first: it finds the other folders

import judge
import leftovers
from programs import Failed, program, wait_for

HERE = pathlib.Path(__file__).resolve().parent

# kind: its share of the faults.
SHARES = {"kill_trainer": 5, "kill_agent": 4, "kill_guard": 2, "kill_standby": 3, "freeze": 4, "join": 3, "drain": 2, "tell": 3,
          "notice": 2, "kill_server": 3}

# Left alone a job has to train, and to end, within these times. The longest thing to wait for is a fence.
CALM_S = {"fake": 90, "tensorflow": 180}
END_S = {"fake": 60, "tensorflow": 120}  # and as long as the steps take that are left, at least 20 a second
# Between two faults: TensorFlow takes seconds from its start to its first step where processors are few.
MEAN_S = {"fake": 0.7, "tensorflow": 5.0}
WAIT_S = 15  # a fault that cannot be done when it is drawn has so long
MORE_STEPS = 100  # of calm training, before the end is set


def steps_of(folder, pid):
    """Lines of the newest log of this pid that tell a completed step."""
    paths = sorted(folder.glob(f"steps/*[.-]{pid}.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return [line["step"] for line in judge.lines_of(paths[-1]) if "step" in line and "event" not in line] if paths else []


def make_job(kind, folder, seconds):
    if kind == "fake":
        return Job([str(HERE / "trainer.py"), str(folder), "0.02"], "2:6", (4, 6), ["--preload=hashlib,json,socket", "--stop-grace=2s"],
                   {}, lambda pid: len(steps_of(folder, pid)) >= 5)
    # As many steps as the pace allows: it cannot come to its end before the faults have.
    steps = int(seconds * 12) + 200
    (folder / "hold").touch()
    return Job([str(ROOT / "scripts" / "examples" / "digits.py"), f"--checkpoint-dir={folder}/checkpoints", f"--step-log={folder}/steps",
                f"--steps={steps}", "--save-every=10", "--pace=0.1", f"--hold={folder}/hold", "--log-ids"],
               "2:3", (3, 3), [], {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"},
               lambda pid: len(steps_of(folder, pid)) >= 3)


class Chaos:
    def __init__(self, kind, folder, seconds, seed):
        self.kind, self.folder, self.seconds = kind, folder, seconds
        self.rng = random.Random(seed)
        self.world = World(folder, make_job(kind, folder, seconds))
        self.counts = collections.Counter()
        self.server_back_at = None
        self.withdraws = []  # (when, agent)
        self.began = time.monotonic()

    def say(self, text):
        print(f"{time.monotonic() - self.began:7.1f} {text}", file=self.events, flush=True)

    # --- the state of the job -------------------------------------------------------------------

    def status(self):
        told = subprocess.run([program("tfe-ctl"), "status", "--json", f"--state-dir={self.folder}/state",
                               "--timeout=3s"], capture_output=True, text=True, env=self.world.env)
        jobs = json.loads(told.stdout)["jobs"] if told.returncode == 0 else []
        return jobs[0] if jobs else {"state": "none", "nodes": [], "epoch": 0}

    def highest(self):
        """The last step of the newest epoch that has done one; 0: none has."""
        newest = {}
        for path in self.folder.glob("steps/*.jsonl"):
            words = path.stem.replace("-", ".").split(".")
            epoch = int(words[0] if self.kind == "fake" else words[-3])
            newest.setdefault(epoch, []).append(path)
        for epoch in sorted(newest, reverse=True):
            steps = [line["step"] for path in newest[epoch] for line in judge.lines_of(path) if "step" in line]
            if steps:
                return max(steps)
        return 0

    def trains(self, members):
        job = self.status()
        roles = [node["state"] for node in job["nodes"]]
        return job["state"] == "running" and roles.count("member") >= members

    # --- faults ---------------------------------------------------------------------------------

    def draw(self):
        """The same numbers whatever the state of the world is, so that a seed tells the same story again."""
        kind = self.rng.choices(list(SHARES), SHARES.values())[0]
        return kind, self.rng.random(), self.rng.random(), self.rng.random()

    def befall(self, kind, who, first, second):
        """False: it cannot be done just now; there is no such process, say."""
        agents = self.world.staying()
        agent = agents[int(who * len(agents))] if agents else None
        if kind == "kill_server":
            if self.server_back_at is not None:
                return False
            self.server_back_at = time.monotonic() + (2 * second if first < 0.5 else 0)
        elif agent is None:
            return False
        if getattr(self.world, kind)(agent, first, second) is False:
            return False
        if kind == "notice":
            self.withdraws.append((time.monotonic() + 12 * second, agent))
        self.say(f"{kind} {'' if kind in ('join', 'kill_server') else agent.label} {first:.3f} {second:.3f}")
        self.counts[kind] += 1
        return True

    def between(self):
        """What goes on by itself: thaws, servers that come back, notices that are withdrawn, machines that come."""
        now = time.monotonic()
        if self.world.frozen and now >= self.world.thaw_at:
            self.world.thaw()
        if self.server_back_at is None and self.world.server.is_gone():
            raise SystemExit("the server ended by SIGKILL, and it was not us")
        if self.server_back_at is not None and now >= self.server_back_at:
            self.world.start_server()
            self.server_back_at = None
        for item in [item for item in self.withdraws if item[0] <= now]:
            self.withdraws.remove(item)
            self.world.withdraw(item[1])
        self.world.look()
        while len(self.world.staying()) < self.world.job.least:
            self.world.come()

    def faults(self):
        end = time.monotonic() + self.seconds
        due = tried = time.monotonic()
        waiting = []  # (until when, fault): what cannot be done yet, as no trainer has come to a step, say
        while time.monotonic() < end:
            now = time.monotonic()
            if now >= due:
                waiting.append((now + WAIT_S, self.draw()))
                due, tried = now + self.rng.expovariate(1 / MEAN_S[self.kind]), 0
            if now >= tried + 0.2:
                tried = now
                waiting = [(until, fault) for until, fault in waiting if until > now and not self.befall(*fault)]
            self.between()
            time.sleep(0.02)

    # --- before and after -----------------------------------------------------------------------

    def prepare(self):
        world = self.world
        world.start_server()
        for _ in range(world.job.least):
            world.come()
        wait_for("the first training", lambda: self.trains(world.job.least) and self.highest() > 3, CALM_S[self.kind], busy=self.between)
        wait_for("warm standbys", lambda: all(world.parts(a)[2] for a in world.staying()), CALM_S[self.kind], busy=self.between)
        self.descriptors = leftovers.count(world)

    def calm(self):
        """Faults stop; everybody who was told to leave leaves, and the others train."""
        world, patience = self.world, CALM_S[self.kind]
        world.thaw()
        self.withdraws = [(0, agent) for _, agent in self.withdraws]
        self.server_back_at = self.server_back_at and 0
        self.between()
        wait_for("the end of those who were told to leave", lambda: not [a for a in world.agents if a.wanted is not None], patience,
                 busy=self.between)
        wait_for("training", lambda: self.trains(2), patience, busy=self.between)
        reached = self.highest()
        if self.kind == "fake":
            wait_for(f"{MORE_STEPS} more steps", lambda: self.highest() >= reached + MORE_STEPS, patience, busy=self.between)
        else:
            wait_for("a step", lambda: self.highest() > 0 and self.trains(2), patience, busy=self.between)
        wait_for("warm standbys", lambda: all(world.parts(a)[2] for a in world.staying() if world.parts(a)[1]), patience, busy=self.between)
        leaks = []

        def holds_no_more():
            leaks[:] = leftovers.leaks(self.descriptors, leftovers.count(world))
            return not leaks

        try:  # until what is under way, a probe or a reconnect say, is over
            wait_for("the end of what is under way", holds_no_more, CALM_S[self.kind], busy=self.between)
        except Failed:
            world.violations += leaks

    def finish(self):
        """Sets the end, and waits until all have come to it."""
        world = self.world
        if self.kind == "fake":
            hidden = self.folder / ".goal"
            hidden.write_text(str(self.highest() + MORE_STEPS))
            hidden.rename(self.folder / "goal")
        else:
            (self.folder / "hold").unlink()
        for agent in world.agents:
            world.remember(agent)
            agent.wanted, agent.since = 0, time.monotonic()
        patience = END_S[self.kind] + (self.steps() - self.highest()) / 20
        wait_for("the end of the training", lambda: not world.agents, patience, busy=world.look)
        wait_for("the job to have succeeded", lambda: self.status()["state"] == "succeeded", 30)  # a busy server may answer late
        world.come()  # it is told so, and removes what killed ones have left
        late = world.agents[0]
        late.wanted, late.since = 0, time.monotonic()
        wait_for("the end of an agent that is late", lambda: not world.agents, CALM_S[self.kind], busy=world.look)
        world.server.process.send_signal(signal.SIGTERM)
        if world.server.process.wait(60) != 0:
            world.violations.append(f"the server ended with {world.server.process.returncode}")

    def steps(self):
        """The step at which training ends."""
        if self.kind == "fake":
            return int((self.folder / "goal").read_text())
        return next(int(word.partition("=")[2]) for word in self.world.job.command if word.startswith("--steps="))

    def result(self):
        if self.kind == "fake":
            path = self.folder / "result.json"
            if not path.exists():
                return ["there is no result"]
            return judge.judge_result(json.loads(path.read_text()), self.steps())
        import samples
        return samples.judge(self.folder, self.steps())

    def run(self):
        world = self.world
        with open(self.folder / "events.log", "w", encoding="utf-8") as self.events:
            done = False
            try:
                self.prepare()
                self.faults()
                self.say("calm")
                self.calm()
                self.finish()
                done = True
            except Failed as late:
                world.violations.append(str(late))
            finally:
                left = world.end()
        found, processes = judge.judge(self.folder, world.thawed, world.killed)
        found += world.violations
        if done:
            found += self.result()
            found += [f"{name} ({pid}) is left over" for pid, name in left.items()]
            found += leftovers.ports(world, {port for p in processes for port in p.ports} | {world.server.port})
            found += leftovers.files(world, keeps_tmp=self.kind != "fake")
        return found, processes


def main():
    parser = argparse.ArgumentParser(prog="chaos.sh")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--tensorflow", action="store_true", help="train with TensorFlow")
    a = parser.parse_args()
    seed = a.seed if a.seed is not None else random.SystemRandom().randrange(2**32)
    replay = f"scripts/chaos.sh --seconds {a.seconds:g} --seed {seed}{' --tensorflow' if a.tensorflow else ''}"
    print(f"replay: {replay}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tfe-chaos-"))
    chaos = Chaos("tensorflow" if a.tensorflow else "fake", folder, a.seconds, seed)
    violations, processes = chaos.run()
    for sentence in violations:
        print(f"violation: {sentence}", file=sys.stderr)
    if violations:
        print(f"kept: {folder}\nreplay: {replay}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    print(" ".join(f"{kind}={chaos.counts[kind]}" for kind in SHARES))
    print(f"{chaos.world.born} agents, {len(processes)} trainers, {sum(len(p.steps) for p in processes)} steps of trainers")
    print(f"chaos seconds={a.seconds:g} seed={seed} events={sum(chaos.counts.values())} epochs={len({p.epoch for p in processes})} "
          f"violations={len(violations)}", flush=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
