"""What the core costs by itself: renewals by the number of leases, a mass expiry, a loss among 100,000 nodes."""
import json
import re
import shutil
import subprocess
import sys
import tempfile

from figures import BIN, SERVER_CORE, Figures, arguments


def cost(*what):
    out = subprocess.run(["taskset", "-c", str(SERVER_CORE), str(BIN / "bench" / "tfe-bench-core"), *map(str, what)],
                         capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


def instructions(leases):
    """Per renewal, by callgrind: the difference of two runs, so that joining cancels out."""
    def total(count):
        with tempfile.TemporaryDirectory(prefix="tfe-bench-") as folder:
            out = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                                  str(BIN / "bench" / "tfe-bench-core"), "renew", str(leases), str(count)],
                                 capture_output=True, text=True)
            return int(re.search(r"Collected : (\d+)", out.stderr)[1])
    return (total(3000) - total(1000)) / 2000


def main():
    options = arguments(__doc__)
    figures = Figures(options)
    sizes = (1000, 10000, 100000)
    floors = []
    for leases in sizes:
        runs = [cost("renew", leases, 200000 if options.quick else 1000000) for _ in range(options.turns)]
        if any(run["allocations"] for run in runs):
            figures.beyond.append(f"renewing allocates: {runs}")
        values = [run["ns"] for run in runs]
        # Beside 1,000: what grows is the time to reach memory that no cache holds.
        figures.add(f"renewal, {leases} leases", values, "ns", floors or None)
        floors = floors or values
    if shutil.which("valgrind"):
        counted = [instructions(leases) for leases in (sizes[:2] if options.quick else sizes)]
        for leases, value in zip(sizes, counted):
            figures.add(f"renewal, {leases} leases, counted", [value], "instructions", [counted[0]], ("ratio<=", 1.25))
    runs = [cost("expire", 100000) for _ in range(options.turns)]
    figures.add("100,000 leases over in one tick, longest step", [run["longest_ms"] for run in runs], "ms",
                goal=("value<=", 20))
    sizes, first = ((2500, 5000) if options.quick else (25000, 50000, 100000)), {}
    for nodes in sizes:
        runs = [cost("loss", nodes) for _ in range(options.turns)]
        for what, unit in (("steps", ""), ("bytes", "B"), ("ms", "ms")):
            values = [run[what] / (nodes if what != "ms" else 1) for run in runs]
            grown = [v * (len(sizes) and nodes / sizes[0]) for v in first.get(what, [])] if what == "ms" else first.get(what)
            figures.add(f"{nodes} nodes in two jobs, one leaves, {what}{'' if what == 'ms' else ' per node'}", values, unit,
                        grown or None, ("ratio<=", 2 if what == "ms" else 1.1) if grown else None)
            first.setdefault(what, values)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
