"""What TensorFlow's trainers (digits.py of the examples, with --log-ids) must have done in the end: every step once, and
every sample of every pass exactly once, whatever the sizes of the clusters were."""

import pathlib
import sys

import judge as logs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "tf"), str(ROOT / "scripts" / "lib")]
import exact  # noqa: E402


class Told:
    """The step logs of a run, as the tests of exactness read them."""

    def __init__(self, folder):
        self.lines = [line for path in (folder / "steps").glob("*.jsonl") for line in logs.lines_of(path)]
        self.lines.sort(key=lambda line: line["t_ms"])

    def trainer_lines(self):
        return self.lines


def judge(folder, steps):
    told = Told(folder)
    ends = [line["step"] for line in told.lines if line.get("event") == "end"]
    if ends != [steps]:
        return [f"rank 0 came to the end at {ends}, it should have at {steps}"]
    try:
        exact.check_samples(told, steps)
    except (AssertionError, KeyError) as wrong:
        return [f"not every sample of every pass was seen once: {type(wrong).__name__} {str(wrong)[:300]}"]
    return []
