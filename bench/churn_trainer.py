"""A trainer without TensorFlow that behaves like one: nobody takes a step alone.

Usage: churn_trainer.py DIRECTORY STEP_S SAVE_EVERY_S SAVE_S
Rank 0 listens on its port of TF_CONFIG, the others connect; a step is a byte to everybody and a byte back. Whoever loses
a peer ends with a collective's error. Rank 0 writes each step that is done into DIRECTORY/steps.EPOCH.jsonl and saves
into DIRECTORY/checkpoint, every SAVE_EVERY_S and when it is asked; each save holds up training for SAVE_S, and after one
that it was asked for it stands still until it is told to stop, as tfe.Checkpointer does. It starts from there. It is on the script channel by hand (PROTOCOL.md, section 10)."""

import json
import os
import pathlib
import select
import socket
import sys
import time


STAND_STILL_S = 10.0


class Channel:
    """What the agent is told, and what it asks."""

    def __init__(self, epoch, rank):
        self.epoch, self.rank, self.agent = epoch, rank, os.environ["TFE_SOCKET"]
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(os.path.dirname(self.agent), f"script-{os.getpid()}"))
        self.socket.setblocking(False)
        self.asked, self.must_stop = 0, False
        self.say("hello", pid=os.getpid(), listens=True)

    def say(self, kind, **more):
        try:
            self.socket.sendto(json.dumps({"type": kind, "epoch": self.epoch, "rank": self.rank, **more}).encode(), self.agent)
        except OSError:
            pass

    def listen(self):
        try:
            while True:
                message = json.loads(self.socket.recv(8192))
                self.asked = max(self.asked, message.get("number", 0))
                self.must_stop = self.must_stop or message["type"] == "stop"
        except OSError:
            pass

    def stand_still(self):
        """So that no step is done that would be lost; not for ever, for the cluster may stay."""
        end = time.monotonic() + STAND_STILL_S
        while not self.must_stop and time.monotonic() < end:
            select.select([self.socket], [], [], end - time.monotonic())
            self.listen()


def peers_of(rank, workers):
    """Rank 0: a connection from everybody else. The others: one to rank 0."""
    host, _, port = workers[0].rpartition(":")
    if rank > 0:
        end = time.monotonic() + 30
        while True:
            try:
                return [socket.create_connection((host, int(port)), 5)]
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("0.0.0.0", int(port)))
    listener.listen(64)
    listener.settimeout(30)
    return [listener.accept()[0] for _ in workers[1:]]


def main():
    directory = pathlib.Path(sys.argv[1])
    step_s, save_every_s, save_s = map(float, sys.argv[2:])
    epoch, rank = int(os.environ["TFE_EPOCH"]), int(os.environ["TFE_RANK"])
    workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
    checkpoint = directory / "checkpoint"
    channel = Channel(epoch, rank)
    try:
        peers = peers_of(rank, workers)
        for peer in peers:
            peer.settimeout(None)
        step = int(checkpoint.read_text()) if checkpoint.exists() else 0
        log = open(directory / f"steps.{epoch}.jsonl", "a", encoding="utf-8", buffering=1) if rank == 0 else None
        saved_at, answered = time.monotonic(), 0
        while True:
            if rank > 0:  # one byte a step, and back
                if not peers[0].recv(1):
                    raise ConnectionError("closed")
                channel.listen()
                peers[0].sendall(b"s" if channel.must_stop else b"x")
                continue
            time.sleep(step_s)
            for peer in peers:
                peer.sendall(b"x")
            if not all([peer.recv(1) for peer in peers]):
                raise ConnectionError("closed")
            step += 1
            log.write(json.dumps({"step": step, "time": time.time()}) + "\n")
            channel.say("progress", step=step)
            channel.listen()
            asked = channel.asked
            if asked > answered or time.monotonic() - saved_at > save_every_s:
                time.sleep(save_s)
                hidden = checkpoint.with_suffix(f".{epoch}")
                hidden.write_text(str(step))
                hidden.rename(checkpoint)
                channel.say("checkpoint", step=step, path=str(checkpoint), answers=asked)
                if asked > answered:
                    channel.stand_still()
                saved_at, answered = time.monotonic(), asked
            if channel.must_stop:
                sys.exit(0)
    except OSError as error:
        # As TensorFlow says it.
        print(f"UnavailableError: Collective ops is aborted by: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


main()
