"""Measures a placement step with 10,000 nodes and 200 jobs, over two virtual days in which machines come and go.

An oracle checks that no placement rule is broken meanwhile (tests/unit/scheduler/churn.h) and reports seed and step of
a violation. The floor of a step is reading each node and each job once.
"""
import json
import subprocess
import sys

from figures import BIN, SERVER_CORE, Figures, arguments

HOURS = 48


def main():
    options = arguments(__doc__, lambda parser: parser.add_argument("--seed", type=int, default=7))
    figures = Figures(options)
    runs = []
    for turn in range(min(options.turns, 2)):
        seed = options.seed + turn
        out = subprocess.run(["taskset", "-c", str(SERVER_CORE), str(BIN / "bench" / "tfe-bench-placement"), str(seed), str(HOURS)],
                             capture_output=True, text=True)
        if out.returncode:
            sys.exit(f"seed {seed}: {out.stdout}{out.stderr}")
        runs.append(json.loads(out.stdout))
        print(f"seed {seed}: {runs[-1]}", flush=True)
    walks = [run["walk_us"] / 1000 for run in runs]
    for what, key in ("median", "median_us"), ("99th percentile", "p99_us"), ("worst", "worst_us"):
        figures.add(f"placement step, 10,000 nodes, 200 jobs, {what}", [run[key] / 1000 for run in runs], "ms", walks,
                    ("value<=", 5))
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
