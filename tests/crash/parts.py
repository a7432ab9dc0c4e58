"""What crash.py and tests/chaos have in common: the server of a run, and what its trainers' logs prove."""

import collections
import pathlib
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import programs  # noqa: E402

# One process: when it started, how many steps it has done and the times of the first and the last, in us.
Trainer = collections.namedtuple("Trainer", "epoch rank world node pid started steps first last")


class Server(programs.Server):
    """A tfe-rdzv that is killed and started again."""

    def is_gone(self):
        """Whether it was killed; that it ended by itself, without having been told to, ends this run, too."""
        if self.process.poll() is None:
            return False
        self.process.stdout.close()
        if self.process.returncode != -signal.SIGKILL:
            raise SystemExit(f"the server ended by itself, with {self.process.returncode}: "
                             f"{self.log.read_text(errors='replace')[-2000:]}")
        return True


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
