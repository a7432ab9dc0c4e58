"""What crash.py and tests/chaos have in common: where programs are, the server of a run, and what its trainers' logs prove."""

import collections
import os
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# One process: when it started, how many steps it has done and the times of the first and the last, in us.
Trainer = collections.namedtuple("Trainer", "epoch rank world node pid started steps first last")


def bin_dir():
    return pathlib.Path(os.environ.get("TFE_BIN_DIR", ROOT / "build" / "default")).resolve()


def program(*places):
    """The first of these that is built: where the build leaves it, or flat as installed."""
    for place in places:
        if (bin_dir() / place).is_file():
            return str(bin_dir() / place)
    sys.exit(f"{places[-1]} is not in {bin_dir()}; build first")


def clean_environment():
    """Ours, without anything that the programs take for options."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TFE_", "FAULTY_", "LD_PRELOAD")) and k != "TF_CONFIG"}
    env["TFE_NOTICE"] = "none"  # whatever cloud this runs in
    return env


class Server:
    """A tfe-rdzv that is killed and started again, on one state directory and one port."""

    def __init__(self, state, options, said):
        self.state, self.options, self.said = state, options, said
        self.process, self.port, self.started = None, 0, 0

    def start(self, env):
        """True: it listens. False: it was killed before that."""
        self.process = subprocess.Popen(
            [program("server/tfe-rdzv", "bin/tfe-rdzv"), f"--port={self.port}", "--bind=127.0.0.1",
             f"--state-dir={self.state}", *self.options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.said, env=env)
        self.started += 1
        line = self.process.stdout.readline().decode()
        if line.startswith("listening on"):
            self.port = int(line.rpartition(":")[2])
            return True
        return False

    def is_gone(self):
        """Whether it was killed; that it ended by itself, without having been told to, ends this run, too."""
        if self.process.poll() is None:
            return False
        self.process.stdout.close()
        if self.process.returncode != -signal.SIGKILL:
            raise SystemExit(f"the server ended by itself, with {self.process.returncode}: "
                             f"{pathlib.Path(self.said.name).read_text(errors='replace')[-2000:]}")
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.is_gone()


def judge_order(trainers):
    """Sentences, one for each violation of what no fault excuses: a node starts an epoch at most once, and later ones
    only with higher numbers; all members of an epoch agree on its size, and no two of them have the same rank; no two
    epochs train at once."""
    found = []
    by_epoch = collections.defaultdict(list)
    by_node = collections.defaultdict(list)
    for t in trainers:
        by_epoch[t.epoch].append(t)
        by_node[t.node].append(t)
    for node, those in by_node.items():
        those.sort(key=lambda t: t.started)
        for a, b in zip(those, those[1:]):
            if b.epoch <= a.epoch:
                found.append(f"node {node} started epoch {b.epoch} after epoch {a.epoch}")
    for epoch, those in by_epoch.items():
        if len({t.world for t in those}) > 1:
            found.append(f"epoch {epoch} has the sizes {sorted({t.world for t in those})}")
        if len({t.rank for t in those}) != len(those):
            found.append(f"epoch {epoch} has a rank twice")
    trained_until = (0, 0)
    for epoch in sorted(by_epoch):
        steps = [t for t in by_epoch[epoch] if t.steps]
        if steps:
            first = min(t.first for t in steps)
            if first <= trained_until[0]:
                found.append(f"epoch {trained_until[1]} trained until {trained_until[0]} us, epoch {epoch} from {first} us on")
            trained_until = max(trained_until, (max(t.last for t in steps), epoch))
    return found
