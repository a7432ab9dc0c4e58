"""Reads the step logs of digits.py for exactness tests: which steps count in the end, and which samples they saw."""
import collections
import os
import pathlib
import re
import signal

import fleet as fl

SAMPLES = 1437   # size of digits.py's training set
BATCH = 96
STEPS_PER_PASS = -(-SAMPLES // BATCH)

# One thread each: floating-point sums in one order, and so the same bits every time.
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1",
              "TF_ENABLE_ONEDNN_OPTS": "0"}


def restored(fleet):
    """Returns [(epoch, step from which it began)] for all epochs so far; all ranks must have begun from the same
    step."""
    found = {}
    for line in fleet.trainer_lines():
        if line.get("event") == "restored":
            found.setdefault(line["epoch"], set()).add(line["step"])
    assert all(len(steps) == 1 for steps in found.values()), found
    return [(epoch, steps.pop()) for epoch, steps in sorted(found.items())]


def check_samples(fleet, steps):
    """Checks that among the steps in the result every sample of every pass was seen exactly once, by one worker. An
    epoch may begin before the first step of an earlier one, which then contributes nothing to the result."""
    seen = {}  # (epoch, step) -> ids of all ranks
    for line in fleet.trainer_lines():
        if line.get("event") == "share":
            seen.setdefault((line["epoch"], line["step"]), []).extend(line["ids"])
    begins = restored(fleet)
    assert begins[0][1] == 0
    counted = []
    last = steps
    for epoch, first in reversed(begins):
        counted[:0] = [(epoch, step) for step in range(first + 1, last + 1)]
        last = min(first, last)
    assert [step for _, step in counted] == list(range(1, steps + 1))
    for begin in range(0, steps, STEPS_PER_PASS):
        part = counted[begin:begin + STEPS_PER_PASS]
        ids = collections.Counter(number for key in part for number in seen[key])
        assert set(ids.values()) == {1}, [number for number, times in ids.items() if times > 1]
        if len(part) == STEPS_PER_PASS:
            assert set(ids) == set(range(SAMPLES))
        else:
            assert len(ids) == len(part) * BATCH


def result(fleet):
    """Returns the last line of rank 0."""
    return next(line for line in fleet.trainer_lines() if line.get("event") == "end")


def highest_step(fleet):
    return max((line["step"] for line in fleet.steps()), default=0)


def trainer_of(fleet, name):
    """Returns the pid of the trainer started last by an agent, or None if none runs."""
    node = re.search(r"event=node .*?node=(\w+)", fleet.output(name, "err"))
    starts = [line["pid"] for line in fleet.trainer_lines()
              if line.get("event") == "start" and node and line["node"] in (name, node[1])]
    try:
        parent = pathlib.Path(f"/proc/{starts[-1]}/stat").read_text().rpartition(")")[2].split()[1]
        if pathlib.Path(f"/proc/{parent}/comm").read_text().strip() != "tfe-guard":
            return None  # another process has this pid by now
    except (OSError, IndexError):
        return None
    return starts[-1]


def kill_trainer(fleet, name):
    """Kills the trainer with SIGKILL. Returns False if there is none."""
    pid = trainer_of(fleet, name)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def start_digits(fleet, name, checkpoints, *arguments, options=(), script=fl.EXAMPLES / "digits.py", **environment):
    return fleet.start_agent(name, script, "--batch", BATCH, "--log-ids", "--step-log", fleet.step_logs,
                             "--checkpoint-dir", checkpoints, *arguments, options=options, **environment)
