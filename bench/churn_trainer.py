"""A trainer without TensorFlow that behaves like a TensorFlow trainer: all ranks take each step together.

Usage: churn_trainer.py DIRECTORY STEP_S SAVE_EVERY_S SAVE_S STATE_BYTES
Every rank listens on its port of TF_CONFIG, and all ranks except 0 connect to rank 0; a step is a byte to every rank
and a byte back. A rank that loses a peer ends with the error of a collective. Rank 0 writes each completed step into
DIRECTORY/steps.EPOCH.jsonl and saves into DIRECTORY/checkpoint, every SAVE_EVERY_S and on request; each save takes
SAVE_S. As with tfe.Checkpointer, periodic saves are written in the background if the memory has the state, and after a
requested save all ranks stand still until they are stopped.

The state, STATE_BYTES derived from the step, is complete on every rank. The real parts of the package keep it in the
agent's memory, as often as they think it is worth the time, and choose the state from which all ranks continue
(STATE_BYTES 0: from the disk)."""

import json
import os
import pathlib
import socket
import sys
import threading
import time

import numpy as np
from tfe import _agree, _position, _state
from tfe._channel import channel

STAND_STILL_S = 10.0
STEP, KEEP, END = b"x", b"k", b"e"  # KEEP is a step followed by a snapshot
PREEMPTED = 143


def parts_of(step, size):
    """Returns the training state after this many steps."""
    return [_state.Part("step", "", "int64", (), np.array([step]).view(np.uint8)),
            _state.Part("weights", "", "int64", (size // 8,), np.full(size // 8, step * 7).view(np.uint8))]


def step_of(snapshot, size):
    """Returns the step of a restored snapshot. The state must be complete and of one step; otherwise the package has a
    bug, which is not a lost peer."""
    for part, expected in zip(snapshot.parts, parts_of(snapshot.held.step, size), strict=True):
        if bytes(part.data) != bytes(expected.data):
            sys.exit(f"the state of step {snapshot.held.step} is torn")
    return snapshot.held.step


class Peers:
    """Connections: on rank 0 one from each other rank, on the others one to rank 0. The first messages are lines of
    JSON."""

    def __init__(self, rank, workers):
        host, _, port = workers[rank].rpartition(":")
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._listener.bind(("0.0.0.0", int(port)))
        self._listener.listen(64)
        self._listener.settimeout(30)
        self.files = {}  # rank: both directions of its connection
        if rank > 0:
            host, _, port = workers[0].rpartition(":")
            self.files[0] = self._first(host, int(port)).makefile("rwb", buffering=0)
            self.say(0, rank)
            return
        while len(self.files) < len(workers) - 1:
            made = self._listener.accept()[0].makefile("rwb", buffering=0)
            said = made.readline()
            if said:  # empty if a process only probed this port
                self.files[json.loads(said)] = made

    def _first(self, host, port):
        end = time.monotonic() + 30
        while True:
            try:
                made = socket.create_connection((host, port), 5)
                made.settimeout(None)
                return made
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def say(self, rank, what):
        self.write(rank, json.dumps(what).encode() + b"\n")

    def hear(self, rank):
        return json.loads(self.files[rank].readline() or self._closed())

    def write(self, rank, data):
        left = memoryview(data)
        while left:
            left = left[self.files[rank].write(left):]

    def order(self, order):
        for rank in self.files:
            self.write(rank, order)

    def read(self, rank, size):
        data = b""
        while len(data) < size:
            data += self.files[rank].read(size - len(data)) or self._closed()
        return data

    def _closed(self):
        raise ConnectionError("closed")


class State:
    """The state in the agent's memory: does what tfe._memory does with TensorFlow's tensors and collectives."""

    def __init__(self, peers, rank, world, size):
        self._peers, self._rank, self._world, self._size = peers, rank, world, size
        self._buffers, self._pace = None, None

    def restore(self, disk):
        """Returns the step from which all ranks continue. disk: (epoch, step) of the newest checkpoint, or None."""
        choice = None
        if self._size:
            existing = parts_of(0, self._size)
            held = [snapshot for snapshot in self._left() if _state.fits(snapshot.parts, existing)]
            choice = self._chosen(_state.digest_of(existing), held, disk)
        step = step_of(self._same(choice, held), self._size) if choice else self._told(disk[1] if disk else 0)
        if self._size and not self._buffers:
            channel().ask_memory(_state.size_of(existing))
        # Only rank 0 has a pace; the others receive it with each step.
        self._pace = _agree.Pace(None, 0, None, step)
        return step

    def _told(self, what):
        """Returns rank 0's value on all ranks."""
        if self._rank > 0:
            return self._peers.hear(0)
        for rank in self._peers.files:
            self._peers.say(rank, what)
        return what

    def _left(self):
        channel().left_memory()
        self._take()
        return self._buffers.whole() if self._buffers else []

    def _take(self):
        here = channel()
        if here.memory is not None:
            (file, size, _), here.memory = here.memory, None
            if file >= 0:
                self._buffers = _state.Buffers(_state.map_memory(file, size), _position.run())

    def _chosen(self, existing, held, disk):
        offer = {"existing": existing, "held": [snapshot.held for snapshot in held]}
        if self._rank > 0:
            self._peers.say(0, offer)
            found = self._told(None)
            return found and _state.Choice(_state.Held(*found[0]), *found[1:])
        return self._told(_state.choose([offer, *(self._peers.hear(rank) for rank in range(1, self._world))], disk))

    def _same(self, choice, held):
        """Returns the chosen snapshot: this rank's own, or the one of the first rank that has it, by way of rank 0."""
        own = next((snapshot for snapshot in held if snapshot.held.is_same(choice.held)), None)
        source, size = choice.holders[0], choice.held.size
        body = own.body.tobytes() if own else None
        lacking = [rank for rank in range(self._world) if rank not in choice.holders]
        if lacking and source == self._rank != 0:
            self._peers.write(0, body)
        elif lacking and self._rank == 0:
            if source != 0:
                body = self._peers.read(source, size)
            for rank in lacking:
                if rank != 0:
                    self._peers.write(rank, body)
        elif self._rank in lacking:
            body = self._peers.read(0, size)
        if own:
            return own
        received = _state.read_body(np.frombuffer(body, np.uint8), choice.held.epoch, choice.held.step)
        if received is None or received.held != choice.held:
            sys.exit(f"the state of step {choice.held.step} came as something else")
        return received

    @property
    def is_kept(self):
        return self._buffers is not None

    def is_due(self, step):
        return self._size > 0 and self._pace.is_due(step)

    def keep(self, step):
        began, here, parts = time.monotonic(), channel(), parts_of(step, self._size)
        self._take()
        if self._buffers:
            self._buffers.write(_position.epoch(), step, parts)
            here.snapshot(step)
            self._pace.took(time.monotonic() - began)


def stand_still():
    """Waits, so that no step is completed that would be lost; limited in time, since the cluster may stay."""
    here, end = channel(), time.monotonic() + STAND_STILL_S
    while here.stop_by is None and time.monotonic() < end:
        here.wait(end - time.monotonic())


def follow(peers, state, step):
    """The loop of all ranks except 0."""
    while True:
        order = peers.read(0, 1)
        if order == END:
            stand_still()
            os._exit(PREEMPTED)
        step += 1
        peers.write(0, STEP)
        if order == KEEP:
            state.keep(step)
        channel().progress(step)
        channel().poll()


class Saver:
    """Rank 0's checkpoints."""

    def __init__(self, directory, save_s):
        self.path, self._save_s, self._thread, self.at = directory / "checkpoint", save_s, threading.Thread(), time.monotonic()

    def newest(self):
        """Returns (epoch, step) of the newest checkpoint, or None."""
        return tuple(map(int, self.path.read_text().split())) if self.path.exists() else None

    def save(self, step, answers, is_beside):
        if self._thread.is_alive():
            self._thread.join()
        self._thread = threading.Thread(target=self._write, args=(step, answers))
        self._thread.start()
        if not is_beside:
            self._thread.join()
        self.at = time.monotonic()

    def _write(self, step, answers):
        time.sleep(self._save_s)
        hidden = self.path.with_suffix(f".{_position.epoch()}")
        hidden.write_text(f"{_position.epoch()} {step}")
        hidden.rename(self.path)
        channel().checkpoint(step, str(self.path), answers)


def lead(peers, state, saver, step, directory, step_s, save_every_s):
    here, talk_s = channel(), 0.0
    log = open(directory / f"steps.{_position.epoch()}.jsonl", "a", encoding="utf-8", buffering=1)
    while True:
        order = KEEP if state.is_due(step + 1) else STEP
        time.sleep(max(0.0, step_s - talk_s))
        began = time.monotonic()
        peers.order(order)
        for peer in peers.files:
            peers.read(peer, 1)
        talk_s = time.monotonic() - began  # part of a step, like an all-reduce
        step += 1
        log.write(json.dumps({"step": step, "time": time.time()}) + "\n")
        if order == KEEP:
            state.keep(step)
        here.progress(step)
        here.poll()
        is_asked, is_last = here.save_number > here.answered, here.stop_by is not None
        if is_asked or is_last:
            saver.save(step, here.save_number, is_beside=False)
        elif time.monotonic() - saver.at > save_every_s:
            saver.save(step, 0, is_beside=state.is_kept)
        if is_asked:
            stand_still()
        if here.stop_by is not None:
            peers.order(END)
            os._exit(PREEMPTED)


def main():
    directory = pathlib.Path(sys.argv[1])
    step_s, save_every_s, save_s = map(float, sys.argv[2:5])
    rank, saver = _position.rank(), Saver(directory, save_s)
    workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
    channel().listen()
    try:
        peers = Peers(rank, workers)
        state = State(peers, rank, len(workers), int(sys.argv[5]))
        step = state.restore(saver.newest())
        channel().progress(step, restored=True)
        if rank > 0:
            follow(peers, state, step)
        else:
            lead(peers, state, saver, step, directory, step_s, save_every_s)
    except OSError as error:
        # TensorFlow's wording of the error.
        print(f"UnavailableError: Collective ops is aborted by: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


main()
