"""bench/preempt.py: how long training stops when the machine of rank 0 gets a notice, saves its work and leaves.

    preempt.py [--quick] [--rounds N] [--source file|sigterm|drain] [--strict | --loose] [--out FILE]

Three agents with one trainer each, real TensorFlow, a small model in tfe.Checkpointer. The node of rank 0 gets a notice
between two saves; the others keep the state in memory and continue without that node. The standstill lasts from the
last step of the old epoch to the first step of the new one, with everything in between; the snapshot in it is listed
separately, and no step may be lost.

Two floors by hand, as in bench/recovery.py, alternate with it: `floor` ends the trainers, starts two warm ones and lets
them restore the same checkpoint with TensorFlow's own means; `bare` does the same with the same script and restores
nothing.
"""
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "scripts" / "lib")]
import busy  # noqa: E402
from fleet import Failed, wait_for  # noqa: E402
from recovery import LOOK_S, PARTS, Agents, HandMade, arguments, median, rows_of, take_turns, wait_steps  # noqa: E402

LOOP = HERE / "preempt_loop.py"
LIMIT_MS, BARE_LIMIT_MS = 150, 50
"""Goals in ms above the floors: above the same restore by hand and, since no disk is involved, above a start without
restore."""
CASE = "notice_to_rank_0"
MARKS = ("import", "strategy", "variables", "restore", "first step")


class Noticed(Agents):
    """Agents that can receive a notice."""

    def __init__(self, folder, source):
        super().__init__(folder, False, LOOP, str(folder / "agents" / "checkpoints"))
        self.source = source

    def paper(self, name):
        return self.fleet.directory / f"notice.{name}"

    def join(self):
        return super().join(f"--notice=file:{self.fleet.directory}/notice.n{self.started}" if self.source == "file"
                            else "--notice=none", "--preempt-grace=60s")

    def warn(self, name):
        if self.source == "file":
            self.paper(name).write_text("60\n")
        elif self.source == "sigterm":
            self.fleet.agents[name].send_signal(signal.SIGTERM)
        else:
            self.fleet.ctl("drain", name)

    def lines(self, epoch, word):
        return [line for line in self.log.read() if line["epoch"] == epoch and word in line]

    def measure_notice(self):
        """Takes one sample: the leader gets a notice and leaves."""
        old = self.settle(3)
        leader = next(node["name"] for node in self.nodes() if node["rank"] == 0)
        self.warn(leader)
        wait_for("an epoch without the warned node", lambda: self.log.last_epoch() > old, 120, pause_s=LOOK_S)
        new = self.log.last_epoch()
        wait_steps(self.log, new, 2)
        last = max(line["number"] for line in self.lines(old, "step"))
        first = min(self.log.steps(new))
        resumed = min(line["number"] for line in self.lines(new, "step"))
        if resumed != last + 1:
            raise Failed(f"epoch {old} ended after step {last}, and epoch {new} began with {resumed}")
        stood = max(self.log.steps(old))
        saves = [line["save"] for line in self.lines(old, "save") if line["rank"] == 0 and line["number"] == last]
        if not saves:
            raise Failed(f"epoch {old} ended after step {last}, and that was never saved")
        saved = saves[-1][1]
        others = max(line["save"][1] for line in self.lines(old, "save") if line["number"] == last)
        sample = {"total": first - stood, "save": saved - stood, "others": others - saved, **self.parts(stood, old, new, first),
                  **marks(self.log, new, first)}
        agent = self.fleet.agents[leader]
        if self.source == "file":
            agent.kill()  # it would stay, although not as a member
        agent.wait(60)
        self.names.remove(leader)
        self.log.forget()
        return sample


def marks(log, epoch, first):
    """Returns how long each part of the trainers' start took in an epoch, by the slowest trainer; in ms, by name."""
    found = {}
    for rank in (0, 1):
        lines = [line for line in log.read() if line["epoch"] == epoch and line["rank"] == rank]
        before = next(line["begin"] for line in lines if "begin" in line)
        for line in [*(line for line in lines if "mark" in line), {"mark": "first step", "at": first}]:
            found[line["mark"]] = max(found.get(line["mark"], 0.0), line["at"] - before)
            before = line["at"]
    return found


def run(folder, rounds, source, say):
    """Returns one sample per round, in ms by name."""
    samples, agents = [], Noticed(folder, source)
    hand = HandMade(folder, False)
    line = [sys.executable, str(LOOP), str(hand.log.folder), agents.arguments[0]]
    try:
        for turn in range(rounds):
            while len(agents.names) < 3:
                agents.join()
            agents.settle(3)
            by_hand = {}
            take_turns(agents.log, hand.log)
            for name, option in (("bare", "--bare"), ("floor", "--plain")):
                # Three trainers to end and two to start; all waiting processes are warm before the measurement.
                hand.prepare(3)
                hand.switch(3, [*line, option])
                hand.prepare(2)
                by_hand[name], by_hand[f"{name} reap"], _ = hand.switch(2, [*line, option])
            first = min(hand.log.steps(hand.epoch))
            by_hand |= {f"floor {name}": took for name, took in marks(hand.log, hand.epoch, first).items()}
            hand.prepare(2)
            take_turns(hand.log, agents.log)
            sample = agents.measure_notice() | by_hand
            samples.append(sample)
            say(f"round {turn + 1} of {rounds}: {sample['total']:.0f} ms, of it the snapshot {sample['save']:.0f} ms; "
                f"by hand {sample['floor']:.0f} ms, without restoring {sample['bare']:.0f} ms")
    finally:
        hand.end()
        agents.end()
    return samples


def summary(samples):
    middle = {name: median([sample.get(name, 0.0) for sample in samples]) for name in samples[0]}
    totals = sorted(sample["total"] for sample in samples)
    return {"case": CASE, "n": len(samples), "median_ms": middle["total"], "min_ms": round(totals[0], 1),
            "max_ms": round(totals[-1], 1), "p90_ms": round(totals[int(0.9 * (len(totals) - 1) + 0.5)], 1),
            "save_ms": middle["save"],
            "others_save_ms": middle["others"], "floor_ms": middle["floor"], "bare_floor_ms": middle["bare"], "limit_ms": LIMIT_MS,
            "bare_limit_ms": BARE_LIMIT_MS,
            "overhead_ms": median([sample["total"] - sample["floor"] for sample in samples]),
            "bare_overhead_ms": median([sample["total"] - sample["bare"] for sample in samples]),
            "floor_reap_ms": middle["floor reap"], "parts_ms": {part: middle[part] for part in PARTS},
            "beginning_ms": {mark: {"agents": middle.get(mark, 0.0), "floor": middle.get(f"floor {mark}", 0.0)} for mark in MARKS}}


def show(row):
    print(f"standstill of a planned leave, {row['n']} times: {row['median_ms']} ms ({row['min_ms']} to {row['max_ms']}), the snapshot "
          f"in it {row['save_ms']} ms (the other ranks' part ended {row['others_save_ms']} ms after that)")
    print(f"  by hand, the same checkpoint restored: {row['floor_ms']} ms (of it ending the trainers {row['floor_reap_ms']}); "
          f"nothing restored: {row['bare_floor_ms']} ms")
    print("  parts: " + ", ".join(f"{part} {row['parts_ms'][part]}" for part in PARTS))
    print("  a trainer's beginning, with agents / by hand: "
          + ", ".join(f"{name} {both['agents']} / {both['floor']}" for name, both in row["beginning_ms"].items()))


def main():
    options = arguments("preempt", __doc__.splitlines()[0], 10, [CASE], source={"choices": ("file", "sigterm", "drain"),
                                                                               "default": "file", "help": "how the node is warned"})
    excuse = busy.Excuse(not options.loose)
    rows = rows_of("preempt", options, lambda folder, rounds, _, say: {CASE: run(folder, rounds, options.source, say)},
                   lambda _, samples: summary(samples) | {"source": options.source})
    if rows is None:
        return 1
    row = rows[0]
    show(row)
    over = [(row["overhead_ms"], LIMIT_MS, "the floor"), (row["bare_overhead_ms"], BARE_LIMIT_MS, "the one that restores nothing")]
    for took, limit, floor in over:
        print(f"  {took} ms above {floor}; at most {limit} are wanted: {'MISSED' if took > limit else 'reached'}")
    is_late = any(took > limit for took, limit, _ in over)
    if options.loose:
        is_late = row["median_ms"] > 2 * (row["floor_ms"] + LIMIT_MS)
        is_late = is_late and not excuse.holds(["preempt"])
    return 3 if is_late and (options.strict or options.loose) else 0


if __name__ == "__main__":
    sys.exit(main())
