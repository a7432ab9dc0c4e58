"""What the trainers' own logs and the server's prove of a chaos run. Sentences, one for each violation."""

import hashlib
import json

from parts import Trainer, judge_order  # tests/crash


def lines_of(path):
    """Its JSON lines; what a killed process was still writing is none."""
    found = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        if line.startswith(b"{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found


class Process:
    """A trainer's own log, of either kind of run."""

    def __init__(self, lines):
        start = lines[0]
        self.epoch, self.rank, self.world, self.node, self.pid = (start[k] for k in ("epoch", "rank", "world", "node", "pid"))
        self.ports = start.get("ports", [])
        self.started = start.get("t_us", start.get("t_ms", 0) * 1000)
        self.lines = lines
        self.began = next((line["step"] for line in lines if line.get("event") == "restored"), None)
        self.steps = [(line["step"], line.get("t_us", line.get("t_ms", 0) * 1000)) for line in lines
                      if "event" not in line and "step" in line]

    def forget_last_of_sleep(self, thaws):
        """A collective may have got everybody's part when this process was frozen: it then ends at the thaw, also where
        its epoch has ended meanwhile. Where it has not, other steps follow."""
        for thaw in thaws:
            if len([at for _, at in self.steps if at >= thaw]) == 1:
                del self.steps[-1]

    def summary(self):
        return Trainer(self.epoch, self.rank, self.world, self.node, self.pid, self.started, len(self.steps),
                       self.steps[0][1] if self.steps else 0, self.steps[-1][1] if self.steps else 0)


def read(folder):
    found = []
    for path in sorted((folder / "steps").glob("*.jsonl")):
        lines = lines_of(path)
        if lines and lines[0].get("event") == "start":
            found.append(Process(lines))
    return sorted(found, key=lambda p: (p.epoch, p.rank))


def judge_steps(processes):
    """Every process counts on from where its epoch began, one step at a time, and all of an epoch from the same."""
    found = []
    begins = {}
    for p in processes:
        begins.setdefault(p.epoch, set()).update({p.began} - {None})
        if [n for n, _ in p.steps] != list(range((p.began or 0) + 1, (p.began or 0) + 1 + len(p.steps))):
            found.append(f"rank {p.rank} of epoch {p.epoch} began from {p.began} and did the steps {[n for n, _ in p.steps][:9]}…")
        found += [f"epoch {p.epoch} met a trainer of epoch {line['epoch']}" for line in p.lines if line.get("event") == "stranger"]
    found += [f"epoch {epoch} began from {sorted(steps)}" for epoch, steps in begins.items() if len(steps) > 1]
    reached = 0
    for epoch in sorted(begins):
        for began in begins[epoch]:
            if began > reached:
                found.append(f"epoch {epoch} began from step {began}, and nobody had come further than {reached}")
        reached = max([reached] + [p.steps[-1][0] for p in processes if p.epoch == epoch and p.steps])
    return found


def judge_result(result, goal):
    """The state that comes of these steps in this order, each exactly once."""
    digest = "0" * 64
    for step in range(1, goal + 1):
        digest = hashlib.sha256(f"{digest} {step}".encode()).hexdigest()
    if result["step"] != goal:
        return [f"the result is of step {result['step']}, and {goal} was the end"]
    return [] if result["digest"] == digest else ["the result is not that of each step once"]


def judge_server(folder, processes, killed):
    """Epoch numbers grow over all its lives, and a charge is on a trainer that we have killed, and one an epoch."""
    found, last, charged = [], 0, set()
    mine = {(p.epoch, p.node) for p in processes if p.pid in killed}
    for line in lines_of(folder / "server.log"):
        if line.get("event") == "epoch":
            if line["epoch"] <= last:
                found.append(f"the server formed epoch {line['epoch']} after epoch {last}")
            last = line["epoch"]
        elif line.get("event") == "restarts" and not line.get("reason"):
            if (line["epoch"], line["node"]) not in mine:
                found.append(f"epoch {line['epoch']} was charged to {line['node']}, of which nobody had killed a trainer")
            if line["epoch"] in charged:
                found.append(f"epoch {line['epoch']} was charged twice")
            charged.add(line["epoch"])
    return found


def judge_programs(folder):
    """A sanitizer's complaint is one, whatever became of it."""
    return [f"{path.name}: {line[:200]}" for path in [folder / "server.log", *sorted((folder / "logs").iterdir())]
            for line in path.read_text(errors="replace").splitlines() if "Sanitizer:" in line or "runtime error:" in line]


def judge(folder, thawed, killed):
    """All of it, but for the result."""
    processes = read(folder)
    for p in processes:
        if "ports" not in p.lines[0]:  # fake trainers tell when everybody's part was given
            p.forget_last_of_sleep(thawed.get(p.pid, ()))
    trainers = [p.summary() for p in processes]
    return judge_order(trainers) + judge_steps(processes) + judge_server(folder, processes, killed) + \
        judge_programs(folder), processes
