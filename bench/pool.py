"""bench/pool.py: how long a job submitted to four warm machines takes to start, compared with a start by hand.

    pool.py [--quick] [--rounds N] [--strict] [--out FILE]

Four nodes of a pool with a warm standby each. tfe-ctl submits a job of four workers with real TensorFlow. Measured are
the times until the server sends START, until the last of the four scripts has begun, and until the first all-reduce.
Then the job is cancelled, and the nodes wait again. The floor is the same by hand: TF_CONFIG is given to four processes
that have imported TensorFlow, leader first. Both alternate.
"""
import json
import sys
import time

from recovery import LOOP, HandMade, StepLog, arguments, median, now, rows_of
from fleet import Fleet, wait_for  # recovery.py adds its folder to the path

NODES = 4
PATIENCE_S = 120
# Goals: ms from the command to the last script's first line, above the slowest start by hand; ms to the first
# all-reduce.
BEGIN_MS, REDUCE_MS = 150, 1000


class Pool:
    """A server and the nodes that wait for its jobs."""

    def __init__(self, folder):
        self.folder, self.turn = folder, 0
        self.fleet = Fleet(folder / "pool")
        self.fleet.__enter__()
        self.offset = time.time() * 1000 - now()
        for number in range(NODES):
            self.fleet.start_pool_node(f"m{number}")

    def wait_warm(self):
        def warm():
            nodes = json.loads(self.fleet.ctl("pool", "--json"))["pool"]
            return len(nodes) == NODES and all(node["state"] == "free" and node["standby"] == "warm" for node in nodes)
        wait_for("four warm nodes", warm, PATIENCE_S)

    def start(self):
        """Runs one job; returns the ms from the command to START, to the last script's first line and to the first
        all-reduce."""
        self.turn += 1
        job, log = f"job{self.turn}", StepLog(self.folder / f"loop{self.turn}")
        self.wait_warm()
        began = now()
        self.fleet.ctl("submit", f"--name={job}", f"--workers={NODES}:{NODES}", f"--path={LOOP.parent}", "--", "python", LOOP.name, str(log.folder))
        took = measured(log, 1, began)
        took["start"] = json.loads(self.fleet.ctl("epochs", "--json", job))["epochs"][0]["started_ms"] - self.offset - began
        self.fleet.ctl("cancel", job)
        return took

    def end(self):
        self.fleet.__exit__()


def measured(log, epoch, began):
    """Returns the ms to the last script's first line and to the first all-reduce of an epoch."""
    def begins():
        found = [line["begin"] for line in log.read() if line["epoch"] == epoch and "begin" in line]
        return len(found) == NODES and found
    first = wait_for("the first all-reduce", lambda: log.steps(epoch), PATIENCE_S, pause_s=0.2)
    return {"begin": max(wait_for("all scripts", begins, PATIENCE_S)) - began, "reduce": min(first) - began}


def by_hand(hand):
    for process in hand.running:
        process.kill()
        process.wait()
    hand.running, hand.taken = [], []
    hand.prepare(NODES)
    began = now()
    hand.switch(NODES)
    return began


def run(folder, rounds, only, say):
    pool, hand, samples = Pool(folder), HandMade(folder, False), []
    try:
        for turn in range(rounds):
            began = by_hand(hand)
            floor = measured(hand.log, hand.epoch, began)
            for process in hand.running:
                process.kill()
            ours = pool.start()
            samples.append({**ours, "floor": floor})
            say(f"round {turn + 1} of {rounds}: START {ours['start']:.0f} ms, scripts {ours['begin']:.0f} (by hand {floor['begin']:.0f}), "
                f"first all-reduce {ours['reduce']:.0f} ms (by hand {floor['reduce']:.0f})")
    finally:
        hand.end()
        pool.end()
    return {"submit": samples}


def summary(case, samples):
    spread = {key: [round(min(s[key] for s in samples), 1), round(max(s[key] for s in samples), 1)] for key in ("start", "begin", "reduce")}
    return {"case": case, "n": len(samples), **{f"{key}_ms": median([s[key] for s in samples]) for key in spread}, "spread_ms": spread,
            "floor_begin_ms": median([s["floor"]["begin"] for s in samples]), "floor_reduce_ms": median([s["floor"]["reduce"] for s in samples]),
            "above_ms": median([s["begin"] - s["floor"]["begin"] for s in samples])}


def main():
    args = arguments("pool", __doc__.splitlines()[0], 10, ["submit"])
    rows = rows_of("pool", args, run, summary)
    if rows is None:
        return 1
    row = rows[0]
    for key, what in (("start", "START"), ("begin", "the last script's first line"), ("reduce", "the first all-reduce")):
        least, most = row["spread_ms"][key]
        floor = f", by hand {row[f'floor_{key}_ms']} ms" if f"floor_{key}_ms" in row else ""
        print(f"from submit to {what}: {row[f'{key}_ms']} ms ({least} to {most}), {row['n']} times{floor}")
    late = []
    if row["above_ms"] > BEGIN_MS:
        late.append(f"the scripts begin {row['above_ms']} ms later than by hand, at most {BEGIN_MS} are wanted")
    if row["reduce_ms"] > REDUCE_MS:
        late.append(f"the first all-reduce comes after {row['reduce_ms']} ms, at most {REDUCE_MS} are wanted")
    for sentence in late:
        print("MISSED " + sentence)
    return 3 if late and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
