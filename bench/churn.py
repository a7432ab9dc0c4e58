"""bench/churn.py: the share of useful time in a fleet of spot machines that come and go, and the causes of the rest.

    churn.py [--quick] [--strict] [--no-memory] [--hours H] [--machines N] [--seed S] --out FILE

Replays a synthetic trace of two hours 60 times as fast: a minute of the trace is a second here. A machine lives for 40
minutes on average and is replaced after 5. A third of the machines go without a warning (everything on them is killed
with SIGKILL at once); the others are warned 8 s ahead and killed when these are over. Warnings and the programs' own
delays are not compressed (EC2 warns 120 s ahead, Google 30 s), so the shares here are far worse than those of a real
fleet: a standstill of 0.5 s counts as half a minute of the trace.

Trainers take a step every 50 ms, all together or not at all, save every 5 minutes of the trace, and keep their state in
the agents' memory through the real parts of the package (--no-memory: only on disk, for comparison). A step is useful
if no later step had to repeat it. The rest of the time is standstill (from the last step of one epoch to the first of
the next), repeated work, and saving. Each is attributed to the cause of the epoch that followed. The goals: at least 92
% of the time useful, and at most 0.5 % of it repeated work (--quick, on a machine that may be busy: 75 % and 2 %;
without the memory repeated work is 5 % and more), none of it after a warning."""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts" / "lib"))
import busy  # noqa: E402
from fleet import Failed, Fleet, wait_for  # noqa: E402
from programs import descendants  # noqa: E402

MINUTE = 1.0  # a minute of the trace, in seconds
STEP_S, SAVE_EVERY_S, SAVE_S, STATE_BYTES = 0.05, 5 * MINUTE, 0.02, 1 << 18
LIFE, GAP, WARNING_S = 40 * MINUTE, 5 * MINUTE, 8.0
UNWARNED = 1 / 3
USEFUL, DONE_AGAIN = 0.92, 0.005  # goals: shares of the time
QUICK_USEFUL, QUICK_DONE_AGAIN = 0.75, 0.02
TRAINER = HERE / "churn_trainer.py"


def make_trace(machines, length, rng):
    """Returns (time, place, "come" | "warn" | "go") in order; all machines except one are there at the start."""
    trace = []
    for place in range(machines):
        at = 0.0 if place else rng.expovariate(1 / GAP)
        while at < length:
            trace.append((at, place, "come"))
            at += max(WARNING_S + 3, rng.expovariate(1 / LIFE))
            if at < length:
                trace += [(at, place, "go")] if rng.random() < UNWARNED else [(at - WARNING_S, place, "warn"), (at, place, "go")]
            at += max(MINUTE, rng.expovariate(1 / GAP))
    return sorted(trace)


class Machines:
    """Agents of one job, one per machine of the trace."""

    def __init__(self, fleet, machines, state_bytes):
        self.fleet, self.most, self.state_bytes, self.born = fleet, machines, state_bytes, 0
        self.here = {}  # place: (agent, its notice file)

    def come(self, place):
        self.born += 1
        name = f"m{self.born}"
        notice = self.fleet.directory / f"notice.{name}"
        agent = self.fleet.start_agent(
            name, TRAINER, self.fleet.directory, STEP_S, SAVE_EVERY_S, SAVE_S, self.state_bytes,
            options=["--preload=tfe._channel,tfe._state", f"--nnodes=1:{self.most}",
                     f"--notice=file:{notice}", "--stop-grace=0.5s", "--grow-wait=10s"])
        self.here[place] = (agent, notice)

    def warn(self, place):
        self.here[place][1].write_text(f"{WARNING_S:.0f}\n")

    def go(self, place):
        agent, _ = self.here.pop(place)
        for pid in {agent.pid, *descendants(agent.pid)}:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        agent.wait()


def play(fleet, machines, trace, length, say):
    """Replays the trace; returns its start and end time."""
    for at, place, what in trace:
        if at == 0.0:
            machines.come(place)
    wait_for("the first steps", lambda: list(fleet.directory.glob("steps.*.jsonl")), 60)
    began = time.time()
    for at, place, what in [event for event in trace if event[0] > 0.0]:
        time.sleep(max(0.0, began + at - time.time()))
        getattr(machines, what)(place)
    time.sleep(max(0.0, began + length - time.time()))
    say(f"{len(trace)} events, {machines.born} machines")
    return began, time.time()


def causes(fleet):
    """Returns {epoch: its cause, as the server logs it}."""
    found = {}
    for line in fleet.output("server", "err").splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            if event["event"] == "epoch" and "cause" in event:
                found[event["epoch"]] = event["cause"]
    return found


def judge(fleet, began, ended):
    """Returns the share of useful time, and by cause [epochs, standstill, repeated work]."""
    epochs = {}
    for path in fleet.directory.glob("steps.*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        lines = [line for line in lines if began <= line["time"] <= ended]
        if lines:
            epochs[int(path.name.split(".")[1])] = lines
    why, lost, useful = causes(fleet), {}, 0.0
    order = sorted(epochs)
    before = None
    for epoch in order:
        first, last = epochs[epoch][0], epochs[epoch][-1]
        if before:
            row = lost.setdefault(why.get(epoch, "unknown"), [0, 0.0, 0.0])
            row[0] += 1
            row[1] += first["time"] - before["time"]
            again = max(0, before["step"] - first["step"] + 1)
            row[2] += again * STEP_S
            useful -= again * STEP_S
        useful += len(epochs[epoch]) * STEP_S
        before = last
    return useful / (ended - began), lost, sum(len(lines) for lines in epochs.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(HERE.parent / "build" / "bench" / "churn.json"))
    parser.add_argument("--quick", action="store_true", help="half an hour of the trace, judged loosely")
    parser.add_argument("--strict", action="store_true", help="exit 3 where a goal is missed")
    parser.add_argument("--no-memory", action="store_true", help="the state is on disk alone, as it was before agents kept it: for comparison, not judged")
    parser.add_argument("--hours", type=float)
    parser.add_argument("--machines", type=int, default=6)
    parser.add_argument("--seed", type=int, default=4, help="of the trace (4: machines go with and without a warning in its first half hour, too)")
    options = parser.parse_args()
    length = 60 * MINUTE * (options.hours or (0.5 if options.quick else 2.0))
    trace = make_trace(options.machines, length, random.Random(options.seed))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tfe-churn-"))
    excuse = busy.Excuse(options.strict or not options.quick)
    try:
        with Fleet(folder, "--ttl=3s", "--gather=0.5s") as fleet:
            machines = Machines(fleet, options.machines, 0 if options.no_memory else STATE_BYTES)
            began, ended = play(fleet, machines, trace, length, print)
            for place in list(machines.here):
                machines.go(place)
            share, lost, steps = judge(fleet, began, ended)
    except Failed as error:
        sys.exit(f"churn: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = [{"case": "churn useful share", "n": 1, "value": share, "unit": "share", "floor": None, "ratio": None}]
    total = ended - began
    print(f"\n{options.machines} places, {total:.0f} s, seed {options.seed}: {100 * share:.1f} % of the time useful, {steps} steps\n")
    print(f"{'cause':16} {'epochs':>6} {'standstill s':>12} {'each s':>7} {'done again s':>12} {'share':>7}")
    for cause, (n, stood, again) in sorted(lost.items()):
        print(f"{cause:16} {n:6} {stood:12.2f} {stood / n:7.2f} {again:12.2f} {100 * (stood + again) / total:6.1f} %")
        rows.append({"case": f"churn lost to {cause}", "n": n, "value": stood + again, "unit": "s", "floor": None,
                     "ratio": None, "standstill_s": stood, "done_again_s": again})
    # Steps take a little longer than their sleep, because of the machine itself and of saving.
    rest = total - share * total - sum(stood + again for _, stood, again in lost.values())
    print(f"{'steps, saves':16} {'':6} {rest:12.2f} {'':7} {'':12} {100 * rest / total:6.1f} %")
    rows.append({"case": "churn lost to slow steps and saves", "n": 1, "value": rest, "unit": "s", "floor": None, "ratio": None})
    redone = sum(again for _, _, again in lost.values()) / total
    print(f"work done again: {100 * redone:.2f} % of the time")
    rows.append({"case": "churn done again share", "n": 1, "value": redone, "unit": "share", "floor": None, "ratio": None})
    path = pathlib.Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
    missed = []
    if (options.strict or options.quick) and not options.no_memory:
        least, most = (QUICK_USEFUL, QUICK_DONE_AGAIN) if options.quick else (USEFUL, DONE_AGAIN)
        if share < least:
            missed.append(f"less than {100 * least:.0f} % of the time was useful")
        if redone > most:
            missed.append(f"more than {100 * most:.1f} % of the time was work that had been done before")
        missed = [] if excuse.holds([f"churn, {what}" for what in missed]) else missed
        if lost.get("preempted", (0, 0, 0))[2]:
            missed.append("warned of, and work was lost all the same")
    print(*missed, sep="\n", end="\n" if missed else "")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
