"""A real cluster is asked for a checkpoint and told to stop, each rank by a peer of its own where its agent would be."""
import json
import os
import random
import subprocess
import sys
import time

import exact
import fleet as fl
import pytest

sys.path.append(str(fl.ROOT / "tests" / "py"))
from peer import Peer

STEPS, PATIENCE_S = 150, 120


class Cluster:
    """Trainers of one epoch, started by hand."""

    def __init__(self, fleet, epoch, world, *arguments):
        self.fleet, self.epoch, self.world, self.peers, self.trainers = fleet, epoch, world, [], []
        addresses = [f"127.0.0.1:{port}" for port in random.sample(range(20000, 32000), world)]
        for rank in range(world):
            folder = fleet.directory / f"peer-{epoch}-{rank}"
            folder.mkdir()
            self.peers.append(Peer(folder))
            place = {"EPOCH": epoch, "RANK": rank, "WORLD_SIZE": world, "SOCKET": self.peers[rank].path, "NODE": f"n{rank}"}
            environment = {**os.environ, "PYTHONPATH": str(fl.ROOT / "agent" / "python"),
                           "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}),
                           **{f"TFE_{name}": str(value) for name, value in place.items()}}
            self.trainers.append(subprocess.Popen(
                [sys.executable, fl.EXAMPLES / "digits.py", "--steps", str(STEPS), "--save-every", "1000", "--pace", "0.01",
                 "--batch", str(exact.BATCH), "--log-ids", "--step-log", fleet.step_logs,
                 "--checkpoint-dir", fleet.checkpoints, *map(str, arguments)],
                env=environment, stdin=subprocess.DEVNULL))

    def last_steps(self):
        return {rank: max((line["step"] for line in self.fleet.steps(self.epoch) if line["rank"] == rank), default=0)
                for rank in range(self.world)}

    def train(self, step):
        fl.wait_for(f"step {step}", lambda: min(self.last_steps().values()) >= step, PATIENCE_S)

    def ask(self, number, within_ms):
        for rank, peer in enumerate(self.peers):
            peer.sender = str(peer.path.parent / f"script-{self.trainers[rank].pid}")
            time.sleep(random.random() * 0.1)  # they do not hear it at once
            peer.ask(number, within_ms, self.epoch)
        told = self.told(number)
        assert set(self.last_steps().values()) == {told["step"]}  # all ranks, and no step beyond
        return told["step"]

    def told(self, number):
        """Rank 0's word of the checkpoint that answers this number."""
        while True:
            message = self.peers[0].take()
            if message["type"] == "checkpoint" and message["answers"] == number:
                return message

    def stop(self):
        for peer in self.peers:
            peer.say({"type": "stop", "epoch": self.epoch, "grace_ms": 5000})
        return [trainer.wait(30) for trainer in self.trainers]

    def end(self):
        for trainer in self.trainers:
            trainer.kill()
            trainer.wait()
        for peer in self.peers:
            peer.socket.close()


@pytest.fixture
def fleet(tmp_path):
    made = fl.Fleet(tmp_path)  # its step logs only; no server is started
    for path in (made.step_logs, made.checkpoints):
        path.mkdir()
    return made


@pytest.fixture
def make_cluster(fleet):
    made = []

    def make(*arguments):
        made.append(Cluster(fleet, *arguments))
        return made[-1]
    yield make
    for cluster in made:
        cluster.end()


def test_all_ranks_save_at_one_step_stand_still_and_stop(fleet, make_cluster):
    first = make_cluster(1, 2)
    first.train(20)
    saved = first.ask(1, within_ms=1500)
    # No stop follows: the wish was withdrawn, and they go on.
    first.train(saved + 20)
    saved = first.ask(2, within_ms=60_000)
    time.sleep(0.5)
    assert set(first.last_steps().values()) == {saved}  # they stand still
    assert first.stop() == [143, 143]

    second = make_cluster(2, 1)
    second.train(saved + 1)
    assert min(line["step"] for line in fleet.steps(2)) == saved + 1
    # A stop without a wish before it: one checkpoint more, and the end.
    assert second.peers[0].take()["type"] in ("hello", "progress")
    second.peers[0].sender = str(second.peers[0].path.parent / f"script-{second.trainers[0].pid}")
    assert second.stop() == [143]
    assert second.told(0)["step"] == second.last_steps()[0]

    last = make_cluster(3, 1)
    assert last.trainers[0].wait(PATIENCE_S) == 0
    exact.check_samples(fleet, STEPS)


def test_ranks_that_wait_save_where_they_are(fleet, make_cluster):
    hold = fleet.directory / "hold"
    hold.touch()
    waiting = make_cluster(1, 2, "--hold", hold)
    waiting.train(STEPS - 1)
    assert waiting.ask(1, within_ms=60_000) == STEPS - 1
    assert waiting.stop() == [143, 143]
