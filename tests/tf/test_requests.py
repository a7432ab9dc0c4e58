"""A real cluster is asked for checkpoints and stopped, with a peer for each rank in place of its agent."""
import json
import os
import queue
import random
import socket
import subprocess
import sys
import threading
import time

import exact
import fleet as fl
import pytest

sys.path.append(str(fl.ROOT / "tests" / "py"))
from peer import Peer

STEPS, PATIENCE_S = 300, 120
STAND_STILL_MS = 10_000  # after a requested checkpoint
FAST = ("--pace", "0.01")  # for trainers that are to reach their end, or nearly


class Attentive(Peer):
    """Reads all messages at once, like an agent, so that there is always room for a trainer's last ones."""

    def __init__(self, directory):
        super().__init__(directory)
        self.socket.settimeout(None)
        self.messages = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while text := self.socket.recv(65536):
                self.messages.put(json.loads(text))
        except OSError:
            pass  # closed

    def take(self):
        return self.messages.get(timeout=PATIENCE_S)


def free_ports(count):
    """Returns ports without a listener, outside the ephemeral range."""
    found = []
    while len(found) < count:
        port = random.randrange(20000, 32000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found += [port] if port not in found else []
    return found


class Cluster:
    """Trainers of one epoch, started by the test. Their steps are so slow that a delayed test does not find them at
    their end."""

    def __init__(self, fleet, epoch, world, *arguments):
        self.fleet, self.epoch, self.world, self.peers, self.trainers = fleet, epoch, world, [], []
        self.stand = {}  # step: time until which they wait there, at least
        addresses = [f"127.0.0.1:{port}" for port in free_ports(world)]
        for rank in range(world):
            folder = fleet.directory / f"peer-{epoch}-{rank}"
            folder.mkdir()
            self.peers.append(Attentive(folder))
            place = {"EPOCH": epoch, "RANK": rank, "WORLD_SIZE": world, "SOCKET": self.peers[rank].path, "NODE": f"n{rank}"}
            environment = {**os.environ, "PYTHONPATH": str(fl.ROOT / "agent" / "python"),
                           "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}),
                           **{f"TFE_{name}": str(value) for name, value in place.items()}}
            self.trainers.append(subprocess.Popen(
                [sys.executable, fl.EXAMPLES / "digits.py", "--steps", str(STEPS), "--save-every", "1000", "--pace", "0.05",
                 "--batch", str(exact.BATCH), "--log-ids", "--step-log", fleet.step_logs,
                 "--checkpoint-dir", fleet.checkpoints, *map(str, arguments)],
                env=environment, stdin=subprocess.DEVNULL))

    def last_steps(self):
        return {rank: max((line["step"] for line in self.fleet.steps(self.epoch) if line["rank"] == rank), default=0)
                for rank in range(self.world)}

    def train(self, step):
        fl.wait_for(f"step {step}", lambda: min(self.last_steps().values()) >= step, PATIENCE_S)

    def face(self, rank):
        """Returns the rank's peer, once it knows the trainer's address."""
        self.peers[rank].sender = str(self.peers[rank].path.parent / f"script-{self.trainers[rank].pid}")
        return self.peers[rank]

    def lend(self):
        """Gives each rank the memory that it requests."""
        for rank, peer in enumerate(self.peers):
            wanted = self.said(rank, "memory", "bytes", 0)
            self.face(rank).say({**wanted, "why": ""})  # no state was left
            wanted = self.said(rank, "memory")
            file = os.memfd_create("state")
            os.truncate(file, wanted["bytes"])
            peer.socket.sendmsg([json.dumps({**wanted, "why": ""}).encode()],
                                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file.to_bytes(4, sys.byteorder))], 0, peer.sender)
            os.close(file)

    def ask(self, number, within_ms, in_memory=False):
        asked_ms = time.monotonic() * 1000  # the clock of the step logs
        for rank in range(self.world):
            time.sleep(random.random() * 0.1)  # the requests arrive at different times
            self.face(rank).ask(number, within_ms, self.epoch, in_memory)
        told = self.told(number)
        self.train(told["step"])  # all ranks: another one may be about to log it
        # They make no further step before the request is withdrawn.
        until = self.stand.setdefault(told["step"], asked_ms + min(within_ms, STAND_STILL_MS))
        assert not [line for line in self.fleet.steps(self.epoch) if line["step"] > told["step"] and line["t_ms"] < until]
        return told["step"]

    def said(self, rank, kind, key=None, value=None):
        """Returns the rank's next message of this kind, with this value."""
        while True:
            message = self.peers[rank].take()
            if message["type"] == kind and message.get(key) == value:
                return message

    def told(self, number):
        """Returns rank 0's message about the checkpoint for this request."""
        return self.said(0, "checkpoint", "answers", number)

    def kept(self, number):
        """Returns the step that all ranks keep in memory for this request, and at which they wait."""
        steps = {self.said(rank, "snapshot", "answers", number)["step"] for rank in range(self.world)}
        assert len(steps) == 1 and set(self.last_steps().values()) == steps
        return steps.pop()

    def stop(self, in_memory=False):
        for rank in range(self.world):
            self.face(rank).say({"type": "stop", "epoch": self.epoch, "grace_ms": 5000, "in_memory": in_memory})
        return [trainer.wait(PATIENCE_S) for trainer in self.trainers]

    def end(self):
        for trainer in self.trainers:
            trainer.kill()
            trainer.wait()
        for peer in self.peers:
            peer.socket.close()


@pytest.fixture
def fleet(tmp_path):
    made = fl.Fleet(tmp_path)  # only for its step logs; no server is started
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
    # No stop follows: the request is withdrawn, and they continue.
    first.train(saved + 20)
    saved = first.ask(2, within_ms=60_000)
    assert first.ask(3, within_ms=60_000) == saved  # they wait
    assert first.stop() == [143, 143]

    second = make_cluster(2, 1)
    second.train(saved + 1)
    assert min(line["step"] for line in fleet.steps(2)) == saved + 1
    # A stop without a save request: one more checkpoint, then the end.
    assert second.stop() == [143]
    assert second.told(0)["step"] == second.last_steps()[0]

    last = make_cluster(3, 1, *FAST)
    assert last.trainers[0].wait(PATIENCE_S) == 0
    exact.check_samples(fleet, STEPS)


def test_ranks_that_wait_save_where_they_are(fleet, make_cluster):
    hold = fleet.directory / "hold"
    hold.touch()
    waiting = make_cluster(1, 2, "--hold", hold, *FAST)
    waiting.train(STEPS - 1)
    assert waiting.ask(1, within_ms=60_000) == STEPS - 1
    assert waiting.stop() == [143, 143]


def checkpoints(fleet):
    return sorted(path.name for path in fleet.checkpoints.glob("ckpt-*.index"))


def test_where_memory_is_enough_nothing_is_written_to_the_disk(fleet, make_cluster):
    first = make_cluster(1, 2, "--memory-every", 1000)
    first.lend()
    first.train(20)
    for rank in range(2):
        first.face(rank).ask(1, 60_000, 1, in_memory=True)
    kept = first.kept(1)
    assert first.stop(in_memory=True) == [143, 143]
    assert set(first.last_steps().values()) == {kept}
    assert checkpoints(fleet) == []

    # A stop without a save request.
    second = make_cluster(2, 2, "--memory-every", 1000)
    second.lend()
    second.train(20)
    assert second.stop(in_memory=True) == [143, 143]
    steps = {second.said(rank, "snapshot", "step", last)["step"] for rank, last in second.last_steps().items()}
    assert len(steps) == 1
    assert checkpoints(fleet) == []


def test_where_nobody_ends_them_after_a_snapshot_the_disk_gets_it(fleet, make_cluster):
    first = make_cluster(1, 2, "--memory-every", 1000)
    first.lend()
    first.train(20)
    for rank in range(2):
        first.face(rank).ask(1, 60_000, 1, in_memory=True)
    kept = first.kept(1)
    assert first.told(1)["step"] == kept
    assert set(first.last_steps().values()) == {kept}
    assert checkpoints(fleet) == [f"ckpt-1-{kept}.index"]
    # The memory suffices for this stop, but not for the next.
    assert first.stop(in_memory=True) == [143, 143]

    second = make_cluster(2, 2, "--memory-every", 1000)
    second.lend()
    second.train(kept + 20)
    for rank in range(2):
        second.face(rank).ask(1, 60_000, 2, in_memory=True)
    kept = second.kept(1)
    assert second.stop() == [143, 143]
    assert f"ckpt-2-{kept}.index" in checkpoints(fleet)


def test_a_rank_that_was_lent_no_memory_waits_for_the_disk(fleet, make_cluster):
    only = make_cluster(1, 1)
    only.train(20)
    assert only.ask(1, within_ms=60_000, in_memory=True) == only.last_steps()[0]
    assert only.stop(in_memory=True) == [143]
