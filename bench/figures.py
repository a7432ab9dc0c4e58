"""Common parts of the benchmarks: figures with floors, medians, a table, a JSON file, and servers with a load.

A figure is a dict {case, n, value, unit, floor, ratio, spread, goal, verdict}; floor and ratio are None if there is
nothing to compare with. spread is (max - min) / median of the rounds. A goal is (kind, limit): kind "ratio<=",
"ratio>=", "value<=" or "value>="; the verdict is "reached", "missed", or "" without a goal. --quick allows a figure
twice its limit, or half, unless it is exact: counted instead of timed, or measured at full size in --quick as well.
Figures that are not exact get the verdict "not judged" if other processes keep the machine busy (busy.py) before or
after the measurement.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts" / "lib"))

import busy  # noqa: E402
import programs  # noqa: E402

BIN = pathlib.Path(os.environ["TFE_BIN_DIR"])
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = CORES[0], CORES[-1]
# Exit status of a benchmark with missed goals; other failures have other statuses.
MISSED = 3


def arguments(description, add_options=None):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", required=True, help="the JSON file")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the size, what is timed judged by a factor of 2")
    parser.add_argument("--strict", action="store_true", help="goals as they are, with --quick too")
    parser.add_argument("--turns", type=int, help="measurements of each figure (default 5, with --quick 1)")
    parser.add_argument("--only", help="only cases whose names contain this")
    if add_options:
        add_options(parser)
    options = parser.parse_args()
    options.turns = options.turns or (1 if options.quick else 5)
    return options


class Figures:
    def __init__(self, options):
        self.options, self.rows, self.beyond = options, [], []
        self.is_loose = options.quick and not options.strict
        self.excuse = busy.Excuse(not self.is_loose)

    def wanted(self, case):
        return not self.options.only or self.options.only in case

    def add(self, case, values, unit, floors=None, goal=None, exact=False):
        """Adds a figure. values and floors: one of each per round, measured alternately. goal, exact: see above."""
        value = statistics.median(values)
        floor = statistics.median(floors) if floors else None
        ratio = statistics.median(v / f for v, f in zip(values, floors)) if floors else None
        row = {"case": case, "n": len(values), "value": value, "unit": unit, "floor": floor, "ratio": ratio,
               "spread": (max(values) - min(values)) / value if value else 0.0, "goal": " ".join(map(str, goal or ())), "verdict": ""}
        self.rows.append(row)
        if goal:
            kind, limit = goal
            judged = ratio if kind.startswith("ratio") else value
            loose = 2 if self.is_loose and not exact else 1
            bad = judged > limit * loose if kind.endswith("<=") else judged < limit / loose
            row["verdict"] = "reached" if not bad else "late" if loose == 2 else "missed"
            if bad and loose == 1:
                self.beyond.append(self.sentence(row))
        print(f"  {case}: {value:.4g} {unit}" + (f", floor {floor:.4g}, ratio {ratio:.2f}" if floor else ""), flush=True)

    @staticmethod
    def sentence(row):
        """Returns a sentence about the row's missed goal."""
        judged = row["ratio" if row["goal"].startswith("ratio") else "value"]
        return f"{row['case'].strip()}: {judged:.3g} instead of {row['goal']}" + (" (twice that)" if row["verdict"] == "late" else "")

    def finish(self):
        """Prints the table and writes the file; returns the exit status."""
        late = {self.sentence(row): row for row in self.rows if row["verdict"] == "late"}
        is_excused = self.excuse.holds(list(late))
        self.beyond += [] if is_excused else list(late)
        for row in late.values():
            row["verdict"] = "not judged" if is_excused else "missed"
        path = pathlib.Path(self.options.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.rows, indent=1) + "\n")
        print(f"\n{'case':44} {'n':>3} {'value':>12} {'unit':14} {'floor':>12} {'ratio':>7} {'spread':>7}  {'goal':14} verdict")
        for row in self.rows:
            floor = "" if row["floor"] is None else f"{row['floor']:.5g}"
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
            print(f"{row['case']:44} {row['n']:3} {row['value']:12.5g} {row['unit']:14} {floor:>12} {ratio:>7} "
                  f"{100 * row['spread']:6.0f}%  {row['goal']:14} {row['verdict']}".rstrip())
        for line in self.beyond:
            print("beyond:", line)
        if not self.rows:
            print("no case was measured")
            return 1
        return MISSED if self.beyond else 0


class Server(programs.Server):
    """tfe-rdzv on a core of its own, in a directory of its own."""

    def __init__(self, *options, state_dir=None, port=0):
        self.owns_dir = state_dir is None
        self.dir = pathlib.Path(state_dir or tempfile.mkdtemp(prefix="tfe-bench-"))
        super().__init__(self.dir / "state", self.dir / "log", "--max-half-open-per-address=4096", *options, port=port,
                         before=("taskset", "-c", str(SERVER_CORE)))
        self.start()

    def start(self):
        super().start()
        if not self.listens():
            sys.exit("tfe-rdzv did not start:\n" + self.log.read_text()[-2000:])

    def cpu_s(self):
        # The clock of clock_getcpuclockid(3), because /proc has a resolution of 10 ms.
        return time.clock_gettime(~self.pid << 3 | 2)

    def memory(self, name="VmRSS"):
        """Returns the value in bytes."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(name))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        if self.owns_dir:
            shutil.rmtree(self.dir, ignore_errors=True)


def ahead():
    """Returns the command prefix that gives a program the highest priority on its core, or nothing if this user may not
    set it."""
    prefix = ("chrt", "-f", "1")
    return prefix if subprocess.run((*prefix, "true"), stderr=subprocess.DEVNULL, check=False).returncode == 0 else ()


class Load:
    """A fleet of simulated agents: load("connect 0 10") executes a command and returns its output."""

    def __init__(self, server, agents, *options, prefix=()):
        self.process = subprocess.Popen(
            ["taskset", "-c", str(LOAD_CORE), *prefix, str(BIN / "bench" / "tfe-bench-load"), "--state-dir",
             str(server.dir / "state"), "--agents", str(agents), *map(str, options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the load generator ended")
        return json.loads(line)

    def __call__(self, command):
        self.send(command)
        return self.answer(command)

    def send(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self, command):
        facts = self._answer()
        if not facts["reached"]:
            sys.exit(f"not reached: {command}: {facts}")
        if facts["wrong"]:
            sys.exit(f"agents got tables that were not what their START said: {facts}")
        return facts

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def crypto_facts(*what):
    out = subprocess.run([str(BIN / "bench" / "tfe-bench-crypto"), *map(str, what)], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


def crypto(*what):
    return crypto_facts(*what)["seconds"]


class Echo:
    """One of the echo servers, on the server's core."""

    def __init__(self, kind):
        self.kind, self.dir = kind, tempfile.mkdtemp(prefix="tfe-bench-")
        at = pathlib.Path(self.dir) / "port"
        self.process = subprocess.Popen(["taskset", "-c", str(SERVER_CORE), str(BIN / "bench" / "tfe-bench-echo"), kind, str(at)])
        self.pid = self.process.pid
        end = time.monotonic() + 20
        while not (at.exists() and at.read_text().endswith("\n")):
            if time.monotonic() > end:
                sys.exit("the echo did not start")
            time.sleep(0.01)
        self.port = int(at.read_text())

    cpu_s = Server.cpu_s

    def per_cpu_s(self, *load):
        """Returns answers per second of the echo's processor time."""
        return self._answers(*load)[0]

    def per_s(self, *load):
        """Returns answers per second of wall time."""
        return self._answers(*load)[1]

    def _answers(self, connections, window, seconds, rate=0):
        """Returns the answers for a window of requests under way, or at a fixed rate per second."""
        load = subprocess.Popen(["taskset", "-c", str(LOAD_CORE), str(BIN / "bench" / "tfe-bench-echo-load"),
                                 "sealed" if self.kind == "sealed" else "plain", str(self.port), str(connections),
                                 str(window), str(seconds), *([str(rate)] if rate else [])],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not load.stdout.readline():
            sys.exit("the echo's load ended")
        before = self.cpu_s()
        load.stdin.write("\n")
        load.stdin.flush()
        facts = json.loads(load.stdout.readline())
        used = self.cpu_s() - before  # read before the load ends, because closing its connections is not part of an answer
        load.communicate()
        return facts["answers"] / used, facts["answers"] / facts["seconds"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
