"""TensorFlow's side of the snapshots in memory: taking one, going on from one, and how often one is worth its time."""
from __future__ import annotations

import itertools
import os
import sys
import time
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

from . import _place, _state
from ._agree import Keys, Pace
from ._channel import channel
from ._tensors import Objects, Row, Unfit, copied, number_of

ROOM = 9 / 8
"""More than is needed: a state may grow a little without a new piece of memory."""
BROADCAST = 16 << 20
"""Bytes in one collective."""
GROUP = 7_409_001
"""Key of the group of all workers' processors, for our collectives alone; the collectives themselves count on from it."""

_turns = itertools.count()
_instances = itertools.count(GROUP)
_owner: "Optional[tuple[str, Memory]]" = None


def _broadcast(body: Any, size: int, root: int, world: int) -> Any:
    """The root's body, on all ranks: through TensorFlow's own collectives, processor to processor."""
    received = [] if body is None else None
    for start in range(0, size, BROADCAST):
        n = min(BROADCAST, size - start)
        where = {"group_size": world, "group_key": GROUP, "instance_key": next(_instances), "shape": [-(-n // 8)]}
        with tf.device("/device:CPU:0"):
            if received is None:
                words = np.zeros(-(-n // 8), np.int64)
                words.view(np.uint8)[:n] = body[start:start + n]
                tf.raw_ops.CollectiveBcastSend(input=tf.constant(words), **where)
            else:
                words = tf.raw_ops.CollectiveBcastRecv(T=tf.int64, **where)
                received.append(words.numpy().view(np.uint8)[:n])
    return body if received is None else np.concatenate(received)


class Memory:
    """The snapshots of one checkpoint's objects, in memory that the agent keeps for this place."""

    def __init__(self, checkpoint: tf.train.Checkpoint, step: tf.Variable, keys: Optional[Keys], every: Optional[int]) -> None:
        self._objects, self._step, self._keys, self._every = Objects(checkpoint), step, keys, every
        (self._rank, self._world), self._epoch = _place.peers(), _place.epoch()
        self._buffers: Optional[_state.Buffers] = None
        self._reads: Optional[_state.Buffers] = None
        self._refused = False
        self._asked = 0
        self._taken, self._turned = -1, -1
        self._pace = Pace(keys, self._rank, every, number_of(step))

    @property
    def step(self) -> int:
        """Of the newest snapshot that this rank has taken; -1: none in this epoch."""
        return self._taken

    def restore(self, disk: "Callable[[], Optional[tuple[int, int]]]") -> Optional[_state.Choice]:
        """Goes on from the newest snapshot that any rank holds, if none on disk is newer; None: nothing was changed. All ranks call it,
        and get the same."""
        existing = self._objects.existing()
        held = [snapshot for snapshot in self._left() if _state.fits(snapshot.parts, existing)]
        choice = _state.agree(self._keys, self._rank, self._world, next(_turns), _state.digest_of(existing),
                              [snapshot.held for snapshot in held], disk)
        own: Optional[_state.Snapshot] = None
        if choice is not None:
            own = next((snapshot for snapshot in held if snapshot.held.is_same(choice.held)), None)
            if len(choice.holders) < self._world:
                own = self._received(choice, own)
            assert own is not None
            self._objects.put_back(own.parts)
        self._has_room(own.parts if own else existing)
        self._pace = Pace(self._keys, self._rank, self._every, number_of(self._step))
        return choice

    def _left(self) -> "list[_state.Snapshot]":
        """What the trainer before this one has left here."""
        here = channel()
        if not here.listen():
            return []
        here.left_memory()
        self._take_memory()
        return self._buffers.whole() if self._buffers else []

    def _received(self, choice: _state.Choice, own: Optional[_state.Snapshot]) -> _state.Snapshot:
        root, held = choice.holders[0], choice.held
        body = _broadcast(own.body if own and self._rank == root else None, held.size, root, self._world)
        if self._rank in choice.holders:
            assert own is not None
            return own
        received = _state.read_body(body, held.epoch, held.step)
        if received is None or received.held != held:
            raise RuntimeError(f"the state of step {held.step} came from rank {root} as something else")
        return received

    def after_step(self, step: int, wanted: bool = False, saved: bool = False) -> "Optional[Callable[[], list[Row]]]":
        """All ranks call it after every step. wanted: a snapshot is, whether it is its turn or not; take() says what is given.
        saved: the disk is to have this step, and so memory, too, or it would be older."""
        self._take_memory()
        # Not by what this rank could keep: all look at the pace together, or one would wait for a word that never comes.
        is_due = step != self._turned and self._pace.is_due(step)
        self._turned = step
        return self.take(step, wanted) if is_due or wanted or saved else None

    def take(self, step: int, wanted: bool = False) -> "Optional[Callable[[], list[Row]]]":
        """A snapshot of this step, now: all ranks call it after the same one. wanted: gives a function that reads it, once, and
        from any thread; on all ranks alike None where the state cannot be kept like this."""
        began = time.monotonic()
        try:
            parts = self._objects.parts()
        except Unfit as error:
            self._refuse(str(error))
            return None
        reader = None
        if self._has_room(parts) and self._buffers:
            buffers = self._buffers
            index = buffers.write(self._epoch, step, parts)
            self._taken = step
            channel().kept(step)
            if wanted and self._rank == 0:
                reader = self._pinned(buffers, index)
        elif wanted and self._rank == 0:  # no memory, or not yet: it takes this process's, for as long as it is needed
            reader = copied(parts).copy
        self._pace.took(time.monotonic() - began)
        return reader or list if wanted else None

    def _pinned(self, buffers: _state.Buffers, index: int) -> "Callable[[], list[Row]]":
        """Until it is read, or unpin(), snapshots go to the other buffer. The disk is slow, and not waited for with that."""
        buffers.pinned = index
        self._reads = buffers

        def read() -> "list[Row]":
            found = buffers.read(index)
            if found is None:
                raise RuntimeError("a snapshot in memory is not what was put there")
            rows = copied(found.parts)
            self.unpin()
            return rows
        return read

    def unpin(self) -> None:
        """The snapshot that was to be read is not needed any more."""
        if self._reads:
            self._reads.pinned = None
            self._reads = None

    def forget(self, why: str) -> None:
        """No snapshot is there any more. This is not to be called on after that."""
        if self._buffers:
            self._buffers.wipe()
        self._refuse(why)

    def _has_room(self, parts: "list[_state.Part]") -> bool:
        """If not, the agent is asked for it."""
        if self._buffers and self._buffers.has_room(parts):
            return True
        size = _state.size_of(parts)
        if not self._refused and self._asked < size:
            self._asked = int(size * ROOM)
            channel().ask_memory(self._asked)
        return False

    def _take_memory(self) -> None:
        here = channel()
        if here.memory is None:
            return
        (file, size, why), here.memory = here.memory, None
        if file >= 0:
            self._buffers = _state.Buffers(_state.map_memory(file, size), _place.run())
        elif why:
            self._refuse(why)

    def _refuse(self, why: str) -> None:
        if not self._refused:
            self._refused = True
            print(f"tfe: no snapshots in memory: {why}", file=sys.stderr, flush=True)


def memory_of(checkpoint: tf.train.Checkpoint, step: tf.Variable, keys: Optional[Keys], every: Optional[int]) -> Optional[Memory]:
    """None: there is no agent, or the ranks cannot talk with each other, or another checkpoint of this process has the memory. None
    where there are ps, too: these hold the state, all of them are started anew with the chief, and to bring it to the chief's memory
    takes what the disk takes. And none for an evaluator, which has nothing to lose."""
    global _owner
    if not _place.has_agent() or (keys is None and _place.peers()[1] > 1) or _place.has_ps() or not _place.is_writer() and _place.peers()[1] == 1:
        return None
    key = f"{os.getpid()} {_place.epoch()}"
    if _owner is not None and _owner[0] == key:
        return None
    memory = Memory(checkpoint, step, keys, every)
    try:
        memory._objects.parts()
    except Unfit as error:
        print(f"tfe: no snapshots in memory: {error}", file=sys.stderr, flush=True)
        return None
    _owner = (key, memory)
    return memory
