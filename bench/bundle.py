"""Measures the distribution of a 64 MiB bundle to a hundred pool nodes, and the latency of renewals meanwhile. The
nodes fetch like agents, on this machine, at the lowest priority (nice), because in a fleet they run on other
machines."""
import json
import os
import pathlib
import subprocess
import sys

from figures import BIN, Figures, Server, arguments

MIB = 1 << 20
PROGRAMS = 2
PROBE_MS = 5


class Nodes:
    """One tfe-bench-bundle process."""

    def __init__(self, server, *options, nice=()):
        self.process = subprocess.Popen([*nice, str(BIN / "bench" / "tfe-bench-bundle"), "--state-dir", str(server.dir / "state"),
                                         *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the nodes ended")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def ctl(server, *words):
    subprocess.run([str(BIN / "server/ctl/tfe-ctl"), *words[:1], "--state-dir", str(server.dir / "state"), *words[1:]], check=True,
                   stdout=subprocess.DEVNULL)


def main():
    options = arguments(__doc__)
    figures = Figures(options)
    n, mib = (50, 8) if options.quick else (100, 64)
    seconds, p99 = [], []
    for _ in range(1 if options.quick else options.turns):
        with Server("--ttl", 60) as server:
            code = pathlib.Path(server.dir, "code")
            code.mkdir()
            (code / "exec.py").write_bytes(os.urandom(mib * MIB - 64 * 1024))  # incompressible; the rest is for headers
            each = n // PROGRAMS
            with Nodes(server, "--probe", PROBE_MS) as probe, \
                    Nodes(server, "--nodes", each, nice=("nice", "-n", "19")) as one, \
                    Nodes(server, "--first", each, "--nodes", each, nice=("nice", "-n", "19")) as two:
                for nodes in (probe, one, two):
                    nodes.answer()
                ctl(server, "submit", "--name=job", f"--workers={n}", "--label=set=load", f"--bundle={code}")
                done = [nodes.answer() for nodes in (one, two)]
                probe.end()
                renewals = probe.answer()
                seconds.append(max(d["ms"] for d in done) / 1000)
                p99.append(renewals["p99_us"] / 1000)
    figures.add(f"{mib} MiB to {n} nodes", seconds, "s")
    figures.add("a renewal meanwhile, p99", p99, "ms", goal=("value<=", 10))
    return figures.finish()


sys.exit(main())
