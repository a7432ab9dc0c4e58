"""Measures the core alone: renewals by the number of leases, a mass expiry, and events of jobs with up to 100,000
nodes.

Only the core runs, without sockets and disk, and agents respond at once. scale.py measures a loss with a real server.
"""
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


def instructions(function, *what):
    """Returns the instructions that callgrind counts within one function of the program, which do not depend on the
    machine's load."""
    with tempfile.TemporaryDirectory(prefix="tfe-bench-") as folder:
        out = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no",
                              f"--toggle-collect={function}", str(BIN / "bench" / "tfe-bench-core"), *map(str, what)],
                             capture_output=True, text=True)
        found = re.search(r"Collected : (\d+)", out.stderr)
        if out.returncode or not found:
            sys.exit(f"valgrind failed:\n{out.stderr}")
        return int(found[1])


WAYS = {"lose": "one is lost", "leave": "one leaves", "crash": "all trainers crash", "notice": "all machines are to go",
        "finish": "all end well"}


def growth(figures, what, sizes, turns):
    """Measures an event of one of two jobs by job size: each figure per node, compared with the smallest size."""
    smallest = {}
    for nodes in sizes:
        runs = [cost("jobs", nodes, what) for _ in range(turns)]
        parts = {"us": ([run["ms"] * 1000 / nodes for run in runs], None), "steps": ([run["steps"] / nodes for run in runs], 1.1)}
        if what == "lose":
            parts["us to join"] = [run["join_ms"] * 1000 / nodes for run in runs], None
            parts["B of memory"] = [run["bytes"] / nodes for run in runs], 1.1
        for unit, (values, limit) in parts.items():
            first = smallest.setdefault(unit, values)
            figures.add(f"{WAYS[what]}, {nodes} nodes in two jobs", values, unit + "/node", None if first is values else first,
                        ("ratio<=", limit) if limit and first is not values else None, exact=True)


def counted_growth(figures, sizes):
    """Measures the same in instructions: anything that grows faster than the number of nodes shows on any machine."""
    for what, case in {"join": "joining", **WAYS}.items():
        first = None
        for nodes in sizes:
            function, way = ("jobs_begin", "lose") if what == "join" else ("jobs_go_on", what)
            values = [instructions(function, "jobs", nodes, way) / nodes]
            figures.add(f"{case}, {nodes} nodes, counted", values, "instructions", first, ("ratio<=", 1.25) if first else None,
                        exact=True)
            first = first or values


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
        # Compared with 1,000 leases: the difference is the time for memory outside the caches.
        figures.add(f"renewal, {leases} leases", values, "ns", floors or None)
        floors = floors or values
    counts = shutil.which("valgrind") is not None
    if not counts:
        print("NOT JUDGED core: instructions, without valgrind")
    counted = [instructions("renew", "renew", leases, 2000) / 2000 for leases in (sizes[:2] if options.quick else sizes) if counts]
    for leases, value in zip(sizes, counted):
        figures.add(f"renewal, {leases} leases, counted", [value], "instructions", [counted[0]], ("ratio<=", 1.25), exact=True)
    for what, case in ("waiting", "nodes wait"), ("running", "ten jobs run"):
        runs = [cost("expire", 100000, what) for _ in range(options.turns)]
        figures.add(f"100,000 leases over in one tick, {case}, longest step", [run["longest_ms"] for run in runs], "ms",
                    goal=("value<=", 20))
    sizes = (2500, 5000) if options.quick else (25000, 50000, 100000)
    for what in WAYS:
        growth(figures, what, sizes, options.turns)
    if counts:
        counted_growth(figures, (500, 2000) if options.quick else (1000, 10000))
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
