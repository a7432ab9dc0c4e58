"""bench/roles.py: how long a job with parameter servers stops, by the lost role, compared with a restart by hand.

    roles.py [--quick] [--rounds N] [--strict | --loose] [--only CASE,…] [--out FILE]

A chief, two workers and a ps with an agent each, real TensorFlow. If a worker's trainer is killed: the time until the
chief uses that worker again, and the longest time without a step. If the trainer of the ps or chief is killed: the time
until the first step of the next epoch. And a first start, from nothing to the first step. The floor is the same by
hand: kill -9 the affected processes, reap them, give TF_CONFIG to processes that have imported TensorFlow (at a first
start: start python), servers first, the chief once they listen. Floors and cases alternate.
"""
import os
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "scripts" / "lib")]
import busy  # noqa: E402
from fleet import wait_for  # noqa: E402
from programs import ROOT, comes  # noqa: E402
from recovery import Agents, HandMade, arguments, listens, median, now, rows_of, take_turns  # noqa: E402

LOOP = HERE / "roles_loop.py"
PLACES = ("chief-0", "worker-0", "worker-1", "ps-0")  # by rank
WORKERS = (1, 2)
OPTIONS = ("--nnodes=2:2", "--ps=1", "--chief")
PATIENCE_S = 120
# A server that does not listen within this time is not waited for, as in the product.
HEAD_START_MS = 1000
# ms that the chief may stop beyond the floor while a worker is away
PAUSE_MS = 100

# case: rank whose trainer is killed (None: none is running yet), ms allowed above the floor (None: only reported)
CASES = {"worker_kill": (2, 100), "ps_kill": (3, 300), "chief_kill": (0, 300), "first_start": (None, None)}


# --- log lines of the chief ----------------------------------------------------------------------


def steps(log, epoch):
    return [line for line in log.read() if line["epoch"] == epoch and "step" in line]


def wait_work(log, epoch, more=8):
    """Waits until the chief has used both workers for new steps; returns the last one's line."""
    before = len(steps(log, epoch))

    def used():
        new = steps(log, epoch)[before:]
        return len(new) >= more and len({line["by"] for line in new}) == len(WORKERS) and new[-1]
    return wait_for(f"the chief's steps with both workers in epoch {epoch}", used, PATIENCE_S)


def pid_of(log, epoch, rank):
    """Returns the pid of the newest process of that rank."""
    return max((line for line in log.read() if line["epoch"] == epoch and line["rank"] == rank and "begin" in line),
               key=lambda line: line["begin"])["pid"]


def used_again(log, epoch, began, victim, rank):
    """For a worker whose process was killed: returns the ms until the chief has used its successor, the longest time
    without a step until then, and the parts of the former."""
    known = {line["by"] for line in steps(log, epoch) if line["step"] <= began}

    def look():
        return next((line["step"] for line in steps(log, epoch) if line["step"] > began and line["by"] not in known), None)
    used = wait_for("the worker to be used again", look, PATIENCE_S)
    own = [line for line in log.read() if line["epoch"] == epoch and line["rank"] == rank and line["pid"] != victim]
    begin = max(line["begin"] for line in own if "begin" in line)
    serves = max(line["at"] for line in own if line.get("mark") == "import")
    times = [began, *(line["step"] for line in steps(log, epoch) if began < line["step"] <= used)]
    return {"total": used - began, "pause": max(after - before for before, after in zip(times, times[1:])),
            "start": begin - began, "script": serves - begin, "tensorflow": used - serves}


# --- by hand -------------------------------------------------------------------------------------


class Served(HandMade):
    """The cluster without agents."""

    def __init__(self, folder, cold):
        super().__init__(folder, cold)
        self.line = [sys.executable, str(LOOP), str(self.log.folder), str(folder / "checkpoints")]
        self.env["PYTHONPATH"] = str(ROOT / "agent" / "python")
        self.by_rank, self.at = {}, []

    def config(self, rank, ports):
        cluster = {}
        for place, port in zip(PLACES, ports):
            cluster.setdefault(place.partition("-")[0], []).append(f"127.0.0.1:{port}")
        job, _, index = PLACES[rank].partition("-")
        return {"cluster": cluster, "task": {"type": job, "index": int(index)}}

    def begin(self, rank):
        self.start(rank, self.at, self.line)
        self.by_rank[rank] = self.running[-1]

    def stop(self):
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()
        self.running, self.taken, self.by_rank = [], [], {}

    def all_again(self):
        """Ends all running processes and starts all again; returns the ms from the first kill to the first step."""
        self.epoch += 1
        self.at = self.ports(len(PLACES))
        began = now()
        self.stop()
        reaped = now()
        for rank in (1, 2, 3, 0):
            if rank == 0:
                comes(lambda: self.cold or all(listens(port) for port in self.at[1:]), HEAD_START_MS / 1000, pause_s=0.001)
            self.begin(rank)
        first = wait_for("the first step by hand", lambda: steps(self.log, self.epoch), PATIENCE_S)[0]["step"]
        wait_work(self.log, self.epoch)
        self.log.forget()
        return {"total": first - began, "reap": reaped - began}

    def worker_again(self, rank):
        victim, began = self.by_rank[rank], now()
        victim.kill()
        victim.wait()
        self.running.remove(victim)
        self.begin(rank)
        return used_again(self.log, self.epoch, began, victim.pid, rank)


# --- with agents ---------------------------------------------------------------------------------


class Roles(Agents):
    """One agent for each role."""

    def __init__(self, folder):
        super().__init__(folder, False, LOOP, str(folder / "agents" / "checkpoints"))

    def come(self):
        for _ in PLACES:
            self.join(*OPTIONS)

    def settle(self):
        """Waits until the chief uses both workers and each node has its warm standby; returns the epoch."""
        def settled():
            for job in self.jobs():
                members = [node for node in job["nodes"] if node["state"] == "member"]
                if (job["job"] == "default" and len(members) == len(PLACES) and self.log.last_epoch() == job["epoch"]
                        and all(len(node["standby_pids"]) == 1 for node in members)):
                    return job["epoch"]
            return None
        epoch = wait_for("all places with warm standbys", settled, PATIENCE_S)
        wait_work(self.log, epoch)
        return epoch

    def kill(self, rank):
        """Takes one sample: that rank's trainer is killed."""
        epoch = self.settle()
        victim, began = pid_of(self.log, epoch, rank), now()
        os.kill(victim, signal.SIGKILL)
        if rank in WORKERS:
            found = used_again(self.log, epoch, began, victim, rank)
        else:
            wait_for("the next epoch's first step", lambda: self.log.last_epoch() > epoch, PATIENCE_S)
            new = self.log.last_epoch()
            first = steps(self.log, new)[0]["step"]
            wait_work(self.log, new)
            found = {"total": first - began, **self.parts(began, epoch, new, first)}
        self.log.forget()
        return found

    def first_start(self, number):
        """Runs four agents of a new job, which end once it trains; returns the ms from the first agent's start to the
        first step."""
        log, names = self.log, self.names
        self.log, self.names = type(log)(self.fleet.directory / f"first{number}"), []
        self.arguments = (str(self.fleet.directory / f"first{number}.checkpoints"),)
        began = now()
        for _ in PLACES:
            self.join(*OPTIONS, f"--job=first{number}")
        first = wait_for("a first step", lambda: [line for line in self.log.read() if "step" in line], PATIENCE_S)[0]
        agents = [self.fleet.agents[name] for name in self.names]
        for agent in agents:
            agent.kill()
        for agent in agents:
            agent.wait()
        self.log, self.names = log, names
        return {"total": first["step"] - began}


# --- main ----------------------------------------------------------------------------------------


def run(folder, rounds, only, say):
    """Returns one list of pairs per case: the times with agents and by hand."""
    samples = {case: [] for case in CASES if not only or case in only}
    kills = [case for case in samples if CASES[case][0] is not None]
    agents, warm, cold = Roles(folder), Served(folder / "hand", False), Served(folder / "cold", True)
    try:
        if kills:
            agents.come()
            warm.prepare(len(PLACES))
            warm.all_again()
            agents.settle()
        for turn in range(rounds):
            for case in samples:
                rank = CASES[case][0]
                if rank is not None:
                    warm.prepare(1 if rank in WORKERS else len(PLACES))
                    agents.settle()
                take_turns(agents.log, warm.log)
                by_hand = cold.all_again() if rank is None else warm.worker_again(rank) if rank in WORKERS else warm.all_again()
                if rank is None:
                    cold.stop()
                take_turns(warm.log, agents.log)
                sample = agents.first_start(turn) if rank is None else agents.kill(rank)
                samples[case].append((sample, by_hand))
                say(f"round {turn + 1} of {rounds}, {case}: {sample['total']:.0f} ms, by hand {by_hand['total']:.0f} ms" +
                    (f"; no step for {sample['pause']:.0f} ms, by hand {by_hand['pause']:.0f} ms" if "pause" in sample else ""))
    finally:
        warm.end()
        cold.end()
        agents.end()
    return samples


def summary(case, pairs):
    totals = sorted(sample["total"] for sample, _ in pairs)

    def parts(side):
        return {name: median([pair[side][name] for pair in pairs]) for name in pairs[0][side] if name not in ("total", "pause")}
    row = {"case": case, "n": len(pairs), "median_ms": median(totals), "min_ms": round(totals[0], 1), "max_ms": round(totals[-1], 1),
           "floor_ms": median([by_hand["total"] for _, by_hand in pairs]),
           "floor_min_ms": round(min(by_hand["total"] for _, by_hand in pairs), 1),
           "floor_max_ms": round(max(by_hand["total"] for _, by_hand in pairs), 1),
           "overhead_ms": median([sample["total"] - by_hand["total"] for sample, by_hand in pairs]), "limit_ms": CASES[case][1],
           "parts_ms": parts(0), "floor_parts_ms": parts(1)}
    if "pause" in pairs[0][0]:
        row |= {"pause_ms": median([sample["pause"] for sample, _ in pairs]), "floor_pause_ms": median([one["pause"] for _, one in pairs])}
    return row


def show(row):
    print(f"{row['case']}, {row['n']} times: {row['median_ms']} ms ({row['min_ms']} to {row['max_ms']}), by hand {row['floor_ms']} ms "
          f"({row['floor_min_ms']} to {row['floor_max_ms']}); {row['overhead_ms']} ms above it"
          + ("" if row["limit_ms"] is None else f", at most {row['limit_ms']} are wanted"))
    if "pause_ms" in row:
        print(f"  longest time without a step: {row['pause_ms']} ms, by hand {row['floor_pause_ms']} ms; "
              f"at most {PAUSE_MS} ms more are wanted")
    for name, told in (("parts", row["parts_ms"]), ("by hand", row["floor_parts_ms"])):
        if told:
            print(f"  {name}: " + ", ".join(f"{part} {took}" for part, took in told.items()))


def missed(row, loose):
    """Returns a sentence for each missed goal of a row; loose doubles the goals."""
    def is_over(value, floor, limit, over):
        return value > 2 * (floor + limit) if loose else over > limit
    found = []
    if row["limit_ms"] is not None and is_over(row["median_ms"], row["floor_ms"], row["limit_ms"], row["overhead_ms"]):
        found.append(f"{row['case']}: {row['median_ms']} ms, by hand {row['floor_ms']} ms")
    if "pause_ms" in row and is_over(row["pause_ms"], row["floor_pause_ms"], PAUSE_MS, row["pause_ms"] - row["floor_pause_ms"]):
        found.append(f"{row['case']}: the chief had no step for {row['pause_ms']} ms, by hand for {row['floor_pause_ms']} ms")
    return found


def main():
    args = arguments("roles", __doc__.splitlines()[0], 7, CASES)
    excuse = busy.Excuse(not args.loose)
    rows = rows_of("roles", args, run, summary)
    if rows is None:
        return 1
    for row in rows:
        show(row)
    late = [sentence for row in rows for sentence in missed(row, args.loose)]
    for sentence in late:
        print("MISSED " + sentence)
    if late and args.loose and excuse.holds(late):
        return 0
    return 3 if late and (args.strict or args.loose) else 0


if __name__ == "__main__":
    sys.exit(main())
