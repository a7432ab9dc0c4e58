"""A trainer without TensorFlow that behaves like one, and writes everything down: nobody takes a step alone.

Usage: trainer.py DIRECTORY STEP_S
Rank 0 listens on its port of TF_CONFIG, the others connect. A step is a word to everybody, and a word back with the time:
what a collective is. Whoever loses a peer ends as TensorFlow does. The training's state is a step number and a digest of
all steps before it, so a step that is lost, doubled or out of order shows in the result. Rank 0 saves it now and then, and
when it is asked, under the names and the marker of the tfe package, and all begin from the newest.

It trains on until DIRECTORY/goal exists, and then to the step that is in there; rank 0 writes DIRECTORY/result.json.
DIRECTORY/steps/EPOCH.RANK.PID.jsonl gets a line for the start, for what it began from, and for each completed step, with
the time at which the last member gave its part (a process that slept cannot have trained meanwhile)."""

import hashlib
import json
import os
import pathlib
import socket
import struct
import sys
import time

from tfe._channel import channel
from tfe._directory import Directory, StaleEpochError

SAVE_EVERY = 25
PATIENCE_S = 60  # for peers that start, too
WORD = struct.Struct("!cqq")  # kind, epoch, time of the contribution in us
DIGEST = struct.Struct("!q64s")  # where all begin: step, digest so far


def now_us():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def receive(peer, kind):
    data = b""
    while len(data) < kind.size:
        more = peer.recv(kind.size - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return kind.unpack(data)


class Trainer:
    def __init__(self, directory, step_s):
        self.directory, self.step_s = directory, step_s
        self.epoch, self.rank = int(os.environ["TFE_EPOCH"]), int(os.environ["TFE_RANK"])
        self.workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
        self.log = open(directory / "steps" / f"{self.epoch}.{self.rank}.{os.getpid()}.jsonl", "x", encoding="utf-8", buffering=1)
        self.checkpoints = Directory(str(directory / "checkpoints"))
        self.step, self.digest = 0, "0" * 64
        self.agent = channel()
        self.agent.listen()

    def write(self, **fields):
        self.log.write(json.dumps(fields) + "\n")

    def meet(self):
        """Rank 0: connections from all others. They: one to rank 0. All agree where to begin."""
        host, _, port = self.workers[0].rpartition(":")
        if self.rank == 0:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(("0.0.0.0", int(port)))
            listener.listen(64)
            listener.settimeout(PATIENCE_S)
            self.peers = [listener.accept()[0] for _ in self.workers[1:]]
        else:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    self.peers = [socket.create_connection((host, int(port)), 5)]
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
            self.peers[0].sendall(WORD.pack(b"h", self.epoch, now_us()))
        for peer in self.peers:
            peer.settimeout(None)
        if self.rank == 0:
            for peer in self.peers:
                _, epoch, _ = receive(peer, WORD)
                if epoch != self.epoch:
                    self.write(event="stranger", epoch=epoch)  # the judge will want to know
            self.restore()
        for peer in self.peers:
            if self.rank == 0:
                peer.sendall(DIGEST.pack(self.step, self.digest.encode()))
            else:
                self.step, digest = receive(peer, DIGEST)
                self.digest = digest.decode()
        self.write(event="restored", step=self.step, digest=self.digest)

    def restore(self):
        self.checkpoints.claim(self.epoch)
        for saved in self.checkpoints.saved():
            text = (self.directory / "checkpoints" / f"{saved.name}.index").read_text()
            self.step, self.digest = saved.step, text
            return

    def save(self, answers):
        name = f"ckpt-{self.epoch}-{self.step}"
        hidden = self.directory / "checkpoints" / f".{name}"
        self.checkpoints.check(self.epoch)
        hidden.write_text(self.digest)
        hidden.rename(hidden.with_name(f"{name}.index"))
        for saved in self.checkpoints.saved()[3:]:
            self.checkpoints.remove(saved)
        self.agent.checkpoint(self.step, str(hidden.with_name(name)), answers)

    def complete(self, at_us):
        self.step += 1
        self.digest = hashlib.sha256(f"{self.digest} {self.step}".encode()).hexdigest()
        self.write(step=self.step, t_us=at_us)
        self.agent.progress(self.step)
        self.agent.poll()

    def goal(self):
        path = self.directory / "goal"
        return int(path.read_text()) if path.exists() else None

    def lead(self):
        while self.step != self.goal():
            time.sleep(self.step_s)
            times = [now_us()]
            for peer in self.peers:
                peer.sendall(WORD.pack(b"x", self.epoch, times[0]))
            times += [receive(peer, WORD)[2] for peer in self.peers]
            self.complete(max(times))
            asked = self.agent.save_number
            if asked > self.agent.answered or self.step % SAVE_EVERY == 0:
                self.save(asked)
            if self.agent.stop_by is not None:
                sys.exit(0)
        self.save(self.agent.save_number)
        hidden = self.directory / ".result"
        hidden.write_text(json.dumps({"step": self.step, "digest": self.digest, "epoch": self.epoch}))
        hidden.rename(self.directory / "result.json")
        for peer in self.peers:
            peer.sendall(WORD.pack(b"q", self.epoch, 0))

    def follow(self):
        leader, given = self.peers[0], None
        while True:
            kind, _, _ = receive(leader, WORD)
            if given is not None:
                self.complete(given)  # rank 0 goes on: it has everybody's part
            if kind == b"q":
                return
            given = now_us()
            leader.sendall(WORD.pack(b"y", self.epoch, given))


def main():
    trainer = Trainer(pathlib.Path(sys.argv[1]), float(sys.argv[2]))
    trainer.write(event="start", epoch=trainer.epoch, rank=trainer.rank, world=len(trainer.workers), pid=os.getpid(),
                  node=os.environ["TFE_NODE"], ports=[int(w.rpartition(":")[2]) for w in trainer.workers], t_us=now_us())
    try:
        trainer.meet()
        if trainer.rank == 0:
            trainer.lead()
        else:
            trainer.follow()
        trainer.write(event="end", step=trainer.step)
    except (OSError, StaleEpochError) as error:
        # As TensorFlow says it.
        print(f"UnavailableError: Collective ops is aborted by: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


main()
