"""bench/recovery.py: how long training stops in each case, compared with the same change by hand.

    recovery.py [--quick] [--rounds N] [--strict | --loose] [--only CASE,…] [--out FILE]

Three agents with one trainer each, real TensorFlow all-reduces. A case is timed from the event (joins and drains, also
by hand: from the last step of the old epoch) to the first all-reduce of the new epoch. Its floor is the same change by
hand: kill -9 the old trainers, reap them, give TF_CONFIG to processes that have imported TensorFlow (or, cold, start
python), leader first, until the first all-reduce. Floors and cases alternate, so that both run under the same load.
"""
import argparse
import calendar
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts" / "lib"))
import busy  # noqa: E402
from fleet import Failed, Fleet, program, wait_for  # noqa: E402
from programs import clean_environment  # noqa: E402
from standby import Standby  # noqa: E402

LOOP = HERE / "recovery_loop.py"
TTL_S = 3.0
LEADER_FIRST_MS = 300
# The switch itself: from the last READY to the script in its new process, without killing, reaping and TensorFlow.
# Judged if no deliberate wait is involved: no lease, no checkpoint, no import.
SWITCH = ("gather", "commit", "start")
SWITCH_MS = 30
SWITCHES = ("trainer_kill", "peer_exit", "agent_kill")
PARTS = ("detect", "stop", "gather", "commit", "start", "tensorflow")

# case: (workers before, workers after, ms allowed above the floor, cold)
CASES = {
    "trainer_kill": (3, 3, 100, False),
    "agent_kill": (3, 2, 200, False),
    "peer_exit": (3, 3, 100, False),
    "freeze": (3, 2, 1106 * TTL_S + 1000, False),
    "join": (3, 4, 100, False),
    "drain": (4, 3, 100, False),
    "trainer_kill_no_standby": (3, 3, 150, True),
    "agent_kill_no_standby": (3, 2, 150, True),
    # Epochs of one node, where only proof of termination shows that they are over (ALONE).
    "agent_kill_alone": (1, 1, 200, False),
    "agent_again_no_standby": (1, 1, 200, True),
}
# Number of agents including the killed one: another agent takes over, or the same machine gets a new agent.
ALONE = {"agent_kill_alone": 2, "agent_again_no_standby": 1}


# Seconds between two reads of the logs during a measurement: a read uses a processor for some milliseconds, and the
# logs have the times anyway.
LOOK_S = 0.2

# Timed from the last step of the old epoch, by hand as well, because the loop sleeps between two steps.
STANDSTILLS = ("join", "drain")


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6


class StepLog:
    """Lines written by the loops of one directory."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.offsets, self.lines, self.oldest = {}, [], 0

    def read(self):
        for path in self.folder.glob("*.jsonl"):
            if int(path.name.partition(".")[0]) < self.oldest:
                continue
            data = path.read_bytes()
            at = self.offsets.get(path, 0)
            whole = data.rfind(b"\n") + 1
            self.lines += [json.loads(line) for line in data[at:whole].splitlines()]
            self.offsets[path] = whole
        return self.lines

    def steps(self, epoch):
        return [line["step"] for line in self.read() if line["epoch"] == epoch and "step" in line]

    def begins(self, epoch):
        return {line["node"]: line["begin"] for line in self.read() if line["epoch"] == epoch and "begin" in line}

    def last_epoch(self):
        return max((line["epoch"] for line in self.read() if "step" in line), default=0)

    def forget(self):
        """Drops the lines read so far."""
        last = self.last_epoch()
        self.oldest = last - 1
        self.lines = [line for line in self.lines if line["epoch"] >= self.oldest]


def wait_steps(log, epoch, ranks, count=3, timeout_s=120):
    """Waits until every rank of the epoch has done some steps."""
    def done():
        seen = {}
        for line in log.read():
            if line["epoch"] == epoch and "step" in line:
                seen[line["rank"]] = seen.get(line["rank"], 0) + 1
        return len(seen) == ranks and min(seen.values()) >= count
    wait_for(f"steps of epoch {epoch} by {ranks} ranks", done, timeout_s)


def take_turns(dozing, awake):
    """Slows down one side while the other is measured, so that each has the machine to itself."""
    (dozing.folder / "doze").touch()
    (awake.folder / "doze").unlink(missing_ok=True)
    time.sleep(1)  # until the last process has noticed it


# --- by hand -------------------------------------------------------------------------------------


class HandMade:
    """Workers without agents, the lower bound for any rendezvous. line: the command that they run, python first."""

    def __init__(self, folder, cold, line=None):
        self.folder, self.cold, self.epoch = folder, cold, 0
        self.log = StepLog(folder / ("cold" if cold else "warm"))
        self.running, self.waiting, self.taken, self.held = [], [], [], []
        self.null = os.open(os.devnull, os.O_RDWR)
        self.err = os.open(folder / "by-hand.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.line = line or [sys.executable, str(LOOP), str(self.log.folder)]
        (folder / "tmp").mkdir(exist_ok=True)
        # Files that killed trainers leave behind (TensorFlow: one for each function that it rewrites) are removed with
        # the folder.
        self.env = clean_environment(TMPDIR=str(folder / "tmp"))

    def prepare(self, count):
        """Starts processes until this many have imported everything."""
        while not self.cold and len(self.waiting) < count:
            self.waiting.append(Standby(self.line, self.folder, self.env))
        for one in self.waiting:
            while not getattr(one, "warm", False):
                one.warm = one.says().startswith("W")  # W, followed by TensorFlow's version

    def ports(self, count):
        """Reserves ports: they are bound without listening, as by the agents, until the next call."""
        held = [socket.socket() for _ in range(count)]
        for one in held:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(("", 0))
        for one in self.held:
            one.close()
        self.held = held
        return [one.getsockname()[1] for one in held]

    def config(self, rank, ports):
        """Returns TF_CONFIG of that rank."""
        return {"cluster": {"worker": [f"127.0.0.1:{port}" for port in ports]}, "task": {"type": "worker", "index": rank}}

    def start(self, rank, ports, line):
        env = {**self.env, "TF_CONFIG": json.dumps(self.config(rank, ports)), "TFE_EPOCH": str(self.epoch), "TFE_RANK": str(rank),
               "TFE_WORLD_SIZE": str(len(ports)), "PYTHONUNBUFFERED": "1", "TF_GRPC_REUSE_PORT": "true"}
        if self.cold:
            self.running.append(subprocess.Popen(line, env=env, cwd=self.folder, stdin=self.null, stdout=self.null,
                                                 stderr=self.err))
        else:
            one = self.waiting.pop()
            one.give(env, self.null, self.err, line)
            self.running.append(one.process)
            self.taken.append(one)

    def switch(self, count, line=None):
        """Kills and reaps the workers and starts `count` new ones, optionally with another command; returns the ms from
        the first kill to the first all-reduce, the ms of killing and reaping, and the ms from the last step before the
        kill to that all-reduce."""
        line = line or self.line
        ports = self.ports(count)
        self.epoch += 1
        last = max(self.log.steps(self.epoch - 1), default=now())
        began = now()
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()
        self.running, self.taken = [], []
        reaped = now()
        self.start(0, ports, line)
        while not listens(ports[0]) and now() - reaped < LEADER_FIRST_MS:
            time.sleep(0.001)
        for rank in range(1, count):
            self.start(rank, ports, line)

        def look():
            if any(process.poll() is not None for process in self.running):
                raise Failed("a worker started by hand has ended")
            return self.log.steps(self.epoch)
        first = wait_for("the first all-reduce by hand", look, 120, pause_s=LOOK_S)
        wait_steps(self.log, self.epoch, count)
        last = max(self.log.steps(self.epoch - 1), default=last)
        self.log.forget()
        return min(first) - began, reaped - began, min(first) - last

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()
        for one in self.waiting:
            one.end()
        for one in self.held:
            one.close()
        os.close(self.null)
        os.close(self.err)


def listens(port):
    """Returns True if the kernel's table has a listening socket on the port; does not contact the trainer."""
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:] + pathlib.Path("/proc/net/tcp6").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
            return True
    return False


# --- with agents ---------------------------------------------------------------------------------


class Agents:
    """A server and agents that run a loop, by default the one with nothing but all-reduces; it logs into
    self.log.folder."""

    def __init__(self, folder, cold, loop=LOOP, *arguments, alone=False):
        self.cold, self.started, self.loop, self.arguments, self.alone = cold, 0, loop, arguments, alone
        self.fleet = Fleet(folder / ("alone" if alone else "agents") / ("cold" if cold else "warm"), f"--ttl={TTL_S}s",
                           "--gather=1s")
        self.log = StepLog(self.fleet.directory / "loop")
        self.fleet.__enter__()
        self.names = []
        self.offset = time.time() * 1000 - now()

    def join(self, *more):
        """Adds an agent and returns its name. more: options."""
        name = f"n{self.started}"
        self.started += 1
        options = [f"--nnodes=1:{1 if self.alone else 4}", "--log-level=debug", "--max-restarts=1000", *more] + (["--no-standby"] if self.cold else [])
        self.fleet.start_agent(name, self.loop, self.log.folder, *self.arguments, options=options)
        self.names.append(name)
        return name

    def jobs(self):
        done = subprocess.run([program("tfe-ctl"), "status", "--json", "--state-dir", str(self.fleet.state)], capture_output=True,
                              text=True, timeout=60)
        return json.loads(done.stdout)["jobs"] if done.returncode == 0 else []

    def nodes(self):
        return [node for job in self.jobs() for node in job["nodes"]]

    def node(self, name):
        return next(node for node in self.nodes() if node["name"] == name)

    def settle(self, count):
        """Waits until `count` members train, each with its warm standby; returns their epoch. (The epoch comes from the
        server: just after its start no node has taken a step in it, and the standbys are still those that have become
        its trainers.)"""
        def settled():
            for job in self.jobs():
                members = [node for node in job["nodes"] if node["state"] == "member"]
                if self.alone:  # the agent that is to take over must be ready, too
                    ready = [node for node in job["nodes"] if node["state"] in ("member", "spare") and node["name"] in self.names]
                    if len(ready) != len(self.names) or not (self.cold or all(node["standby_pids"] for node in ready)):
                        continue
                if (len(members) == count and self.log.last_epoch() == job["epoch"]
                        and (self.cold or all(len(node["standby_pids"]) == 1 for node in members))):
                    return job["epoch"]
            return None
        epoch = wait_for(f"{count} members with warm standbys", settled, 180)
        wait_steps(self.log, epoch, count)
        return epoch

    def agent_lines(self, name):
        """Returns (ms of this clock, event, epoch) for the lines of an agent's log."""
        for line in self.fleet.output(name, "err").splitlines():
            found = re.match(r"time=(\S+)Z .*\bevent=(\S+)", line)
            if found:
                day, _, fraction = found[1].partition(".")
                wall = calendar.timegm(time.strptime(day, "%Y-%m-%dT%H:%M:%S")) * 1000 + float("0." + fraction) * 1000
                epoch = re.search(r"\bepoch=(\d+)", line)
                yield wall - self.offset, found[2], int(epoch[1]) if epoch else None

    def parts(self, began, old, new, first):
        """Returns how the time between the event and the first step was spent."""
        told = {name: list(self.agent_lines(name)) for name in self.names}
        lines = [line for name in told for line in told[name] if line[0] >= began - 2]

        def when(event, epoch, pick):
            times = [t for t, e, n in lines if e == event and n == epoch]
            return pick(times) if times else None
        detected = min((t for t, e, n in lines if n == old and e in ("stopping", "trainer_exited")), default=began)
        stopped = when("exited", old, max) or detected
        ready = when("ready", new, max) or stopped
        committed = when("epoch", new, min) or ready
        begins, start = self.log.begins(new), 0.0
        for name in told:
            node = next((re.search(r"event=node .*node=(\S+)", line)[1] for line in self.fleet.output(name, "err").splitlines()
                         if "event=node " in line), None)
            given = [t for t, e, n in told[name] if e == "epoch" and n == new]
            if given and node in begins:
                start = max(start, begins[node] - given[0])
        times = [max(0.0, detected - began), max(0.0, stopped - detected), max(0.0, ready - max(stopped, detected)),
                 max(0.0, committed - ready), start]
        return dict(zip(PARTS, times + [max(0.0, first - began - sum(times))]))

    def measure(self, case, count):
        """Triggers the case; returns total ms and its parts. count: members afterwards."""
        kind = case.removesuffix("_no_standby")
        old = self.settle(CASES[case][0])
        if case in ALONE:
            self.names.sort(key=lambda name: self.node(name)["state"] != "member")
        victim = self.names[0] if case in ALONE or kind in ("agent_kill", "freeze", "drain") else self.names[self.started % len(self.names)]
        node = self.node(victim)
        gone, began = [], now()
        if kind == "trainer_kill":
            os.kill(node["trainer_pids"][0], signal.SIGKILL)
        elif kind in ("agent_kill", "agent_kill_alone", "agent_again"):
            self.fleet.agents[victim].kill()
            gone = [victim]
            if kind == "agent_again":
                self.join()
        elif kind == "peer_exit":
            (self.log.folder / f"end.{node['rank']}").touch()
        elif kind == "freeze":
            frozen = [node["pid"], node["guard_pid"], *node["trainer_pids"], *node["standby_pids"]]
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            gone = [victim]
        elif kind == "join":
            self.join()
        elif kind == "drain":
            self.fleet.agents[victim].terminate()
            gone = [victim]
        wait_for("the next epoch's first step", lambda: self.log.last_epoch() > old, 120, pause_s=LOOK_S)
        new = self.log.last_epoch()
        wait_steps(self.log, new, count)
        first = min(self.log.steps(new))
        if kind == "peer_exit":
            began = next(line["end"] for line in self.log.lines if "end" in line and line["epoch"] == old)
        elif kind in STANDSTILLS:
            began = max(self.log.steps(old))
        for name in gone:
            agent = self.fleet.agents[name]
            if kind == "freeze":
                agent.kill()
                for pid in frozen:
                    try:
                        os.kill(pid, signal.SIGCONT)
                    except ProcessLookupError:
                        pass
            agent.wait()
        found = self.parts(began, old, new, first)
        self.names = [name for name in self.names if name not in gone]
        self.log.forget()
        return first - began, found

    def end(self):
        self.fleet.__exit__()


# --- main ----------------------------------------------------------------------------------------


def run(folder, rounds, only, say):
    """Returns one list of samples per case: {"total", "floor", "reap", parts}."""
    samples = {case: [] for case in CASES if not only or case in only}
    for cold, alone in ((False, False), (True, False), (False, True), (True, True)):
        cases = [case for case in samples if CASES[case][3] == cold and (case in ALONE) == alone]
        if not cases:
            continue
        agents, hand = Agents(folder, cold, alone=alone), HandMade(folder / f"alone-{alone}", cold)
        try:
            for _ in range(ALONE[cases[0]] if alone else 3):
                agents.join()
            for turn in range(rounds):
                for case in cases:
                    before, after = CASES[case][:2]
                    while len(agents.names) < (ALONE[case] if alone else before):
                        agents.join()
                    while not alone and len(agents.names) > before:  # only after a join that was not followed by a drain
                        agents.measure("drain", before)
                    hand.prepare(before if len(hand.running) != before else 0)
                    if len(hand.running) != before:
                        hand.switch(before)
                    hand.prepare(after)
                    agents.settle(before)
                    take_turns(agents.log, hand.log)
                    killed, reap, stood = hand.switch(after)
                    floor = stood if case in STANDSTILLS else killed
                    hand.prepare(after)
                    take_turns(hand.log, agents.log)
                    total, parts = agents.measure(case, after)
                    samples[case].append({"total": total, "floor": floor, "reap": reap, **parts})
                    say(f"round {turn + 1} of {rounds}, {case}: {total:.0f} ms, by hand {floor:.0f} ms")
        finally:
            hand.end()
            agents.end()
    return samples


def median(values):
    return round(statistics.median(values), 1)


def summary(case, samples):
    totals = sorted(sample["total"] for sample in samples)
    over = median([sample["total"] - sample["floor"] for sample in samples])
    return {"case": case, "n": len(samples), "median_ms": median(totals), "p90_ms": round(totals[int(0.9 * (len(totals) - 1) + 0.5)], 1),
            "floor_ms": median([sample["floor"] for sample in samples]), "overhead_ms": over, "limit_ms": CASES[case][2],
            "switch_ms": median([sum(sample[part] for part in SWITCH) for sample in samples]),
            "floor_reap_ms": median([sample["reap"] for sample in samples]),
            "parts_ms": {part: median([sample[part] for sample in samples]) for part in PARTS}}


def table(rows):
    heads = ["case", "n", "median", "p90", "floor", "above", "at most", "switch", *PARTS]
    lines = [[row["case"], row["n"], row["median_ms"], row["p90_ms"], row["floor_ms"], row["overhead_ms"], row["limit_ms"],
              row["switch_ms"], *(row["parts_ms"][part] for part in PARTS)] for row in rows]
    widths = [max(len(str(line[i])) for line in [heads, *lines]) for i in range(len(heads))]
    return "\n".join("  ".join(str(word).rjust(width) if i else str(word).ljust(width)
                               for i, (word, width) in enumerate(zip(line, widths))) for line in [heads, *lines])


def keep_logs(folder, out, error):
    """Keeps the logs after a failure, beside the output file that was not written."""
    kept = out.with_suffix(".logs")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept)
    print(f"{out.stem}: {error}; logs are in {kept}", file=sys.stderr)


def arguments(name, description, rounds, cases, **more):
    """Parses the command line of a benchmark that alternates with the same change by hand, with additional options;
    only: the selected cases, [] for all."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help=f"3 rounds in place of {rounds}")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--strict", action="store_true", help="exit 3 if a median is above its limit")
    parser.add_argument("--loose", action="store_true", help="exit 3 if a median is above twice its floor and limit")
    parser.add_argument("--only", default="", help="cases, separated by commas")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "build" / "bench" / f"{name}.json")
    for option, words in more.items():
        parser.add_argument(f"--{option}", **words)
    args = parser.parse_args()
    args.only = [case for case in args.only.split(",") if case]
    args.rounds = args.rounds or (3 if args.quick else rounds)
    if unknown := set(args.only) - set(cases):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(cases)}")
    return args


def rows_of(name, args, run, summary):
    """Returns the benchmark's results: a row for each case for which run(folder, rounds, cases, say) returns samples,
    written to its file. Returns None if it failed; its logs are kept then."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that everything that was started is stopped
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tfe-{name}-"))
    try:
        samples = run(folder, args.rounds, args.only, lambda text: print(text, flush=True))
    except Failed as error:
        keep_logs(folder, args.out, error)
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = [summary(case, found) for case, found in samples.items()]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def main():
    args = arguments("recovery", __doc__.splitlines()[0], 10, CASES)
    excuse = busy.Excuse(not args.loose)
    rows = rows_of("recovery", args, run, summary)
    if rows is None:
        return 1
    print(table(rows))
    late = [row for row in rows if row["overhead_ms"] > row["limit_ms"]]
    for row in late:
        print(f"{row['case']}: {row['overhead_ms']} ms above its floor, at most {row['limit_ms']} are wanted")
    slow = [row for row in rows if row["case"] in SWITCHES and row["switch_ms"] > SWITCH_MS]
    for row in slow:
        print(f"{row['case']}: the switch itself takes {row['switch_ms']} ms, at most {SWITCH_MS} are wanted")
    late += [row for row in slow if row not in late]
    if args.loose:
        late = [row for row in rows if row["median_ms"] > 2 * (row["floor_ms"] + row["limit_ms"])]
        late = [] if excuse.holds([row["case"] for row in late]) else late
    return 3 if late and (args.strict or args.loose) else 0


if __name__ == "__main__":
    sys.exit(main())
