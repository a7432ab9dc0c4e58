"""TensorFlow's side of the snapshots in memory: taking one, going on from one, and how often one is worth its time."""
from __future__ import annotations

import itertools
import os
import sys
import time
from typing import Any, Callable, Optional, Tuple

import numpy as np
import tensorflow as tf

from . import _place, _state
from ._agree import Keys, Pace
from ._channel import channel

ROOM = 9 / 8
"""More than is needed: a state may grow a little without a new piece of memory."""
BROADCAST = 16 << 20
"""Bytes in one collective."""
GROUP = 7_409_001
"""Key of the group of all workers' processors, for our collectives alone; the collectives themselves count on from it."""

_turns, _prefixes = itertools.count(), itertools.count()
_instances = itertools.count(GROUP)
_owner: "Optional[tuple[str, Memory]]" = None

Row = Tuple[str, str, tf.Tensor]
"""Name, slice and value of a tensor in a checkpoint."""


class Unfit(Exception):
    """The state is not one that can be kept in memory; why."""


def _serialized(checkpoint: tf.train.Checkpoint) -> Any:
    """What TensorFlow would write to the disk. Perhaps a collective: variables that are averaged when they are read."""
    try:
        gather_tensors = checkpoint._saver._gather_serialized_tensors
    except AttributeError:
        raise Unfit("this version of TensorFlow has no way to them that is known here") from None
    tensors, _, registered, _ = gather_tensors()
    if any(registered.values()) if isinstance(registered, dict) else registered:
        raise Unfit("an object of the script is saved by functions of its own")
    return tensors


def _rows(tensors: Any) -> "list[Row]":
    found = []
    for named in tensors.values():
        for name, value in named.items():
            for cut, one in (value.items() if isinstance(value, dict) else [("", value)]):
                one = one() if callable(one) else one
                found.append((name, cut, getattr(one, "tensor", one)))
    return found


def _part(name: str, cut: str, tensor: tf.Tensor) -> _state.Part:
    if tensor.dtype in (tf.variant, tf.resource):
        raise Unfit(f"{name} is no plain tensor")
    array = tensor._numpy() if hasattr(tensor, "_numpy") else tensor.numpy()  # the first copies nothing
    shape = tuple(int(size) for size in tensor.shape)
    if tensor.dtype == tf.string:
        texts = [bytes(text) for text in np.asarray(array, object).ravel()]
        return _state.Part(name, cut, "string", shape, np.frombuffer(b"".join(texts), np.uint8), [len(text) for text in texts])
    return _state.Part(name, cut, tensor.dtype.name, shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _tensor(part: _state.Part) -> tf.Tensor:
    if part.lengths is not None:
        ends = list(itertools.accumulate(part.lengths))
        texts = [bytes(part.data[end - length:end]) for end, length in zip(ends, part.lengths)]
        return tf.reshape(tf.constant(texts, tf.string), part.shape)
    with tf.device("/device:CPU:0"):
        return tf.constant(part.data.view(tf.as_dtype(part.dtype).as_numpy_dtype).reshape(part.shape))


def gather(checkpoint: tf.train.Checkpoint) -> "list[_state.Part]":
    """All that a checkpoint on disk would hold, read in place where that can be. Unfit: it cannot be kept like this."""
    return [_part(*row) for row in _rows(_serialized(checkpoint))]


def copied(parts: "list[_state.Part]") -> "list[Row]":
    """What write() takes. tf.constant() copies what it is given, so that none of it lies where the parts do."""
    return [(part.name, part.slice, _tensor(part)) for part in parts]


def write(prefix: str, rows: "list[Row]") -> None:
    """As TensorFlow's checkpoint of that name."""
    names, slices, tensors = zip(*rows)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=tensors)


def _assign(made: Any, values: "dict[str, Any]") -> None:
    if isinstance(made, tf.train.experimental.PythonState):
        made.deserialize(values["py_state"].numpy())
    elif made is not None:  # None has the graph of the objects
        made._restore_from_tensors(values)


def put_back(checkpoint: tf.train.Checkpoint, parts: "list[_state.Part]") -> None:
    """What exists gets its values now, and what is made later gets its own then."""
    tensors = _serialized(checkpoint)
    values = {(part.name, part.slice): part for part in parts}
    if {(name, cut) for name, cut, _ in _rows(tensors)} == set(values):
        try:
            for made, named in tensors.items():
                _assign(made, {name.rpartition(".ATTRIBUTES/")[2]:
                               {cut: _tensor(values[name, cut]) for cut in value} if isinstance(value, dict)
                               else _tensor(values[name, ""]) for name, value in named.items()})
            return
        except NotImplementedError:  # an object that can be restored from files only
            pass
    # TensorFlow knows how to wait for what is still to be made, given files: these are in this process's memory.
    prefix = f"ram://tfe-state/{next(_prefixes)}"
    write(prefix, copied(parts))
    checkpoint.restore(prefix).assert_existing_objects_matched()


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
        self._checkpoint, self._step, self._keys, self._every = checkpoint, step, keys, every
        self._rank, self._world, self._epoch = _place.rank(), _place.world_size(), _place.epoch()
        self._buffers: Optional[_state.Buffers] = None
        self._reads: Optional[_state.Buffers] = None
        self._refused = False
        self._asked = 0
        self._taken, self._turned = -1, -1
        self._pace = Pace(keys, self._rank, every, int(step.numpy()))

    @property
    def step(self) -> int:
        """Of the newest snapshot that this rank has taken; -1: none in this epoch."""
        return self._taken

    def restore(self, disk: "Callable[[], Optional[tuple[int, int]]]") -> Optional[_state.Choice]:
        """Goes on from the newest snapshot that any rank holds, if none on disk is newer; None: nothing was changed. All ranks call it,
        and get the same."""
        existing = gather(self._checkpoint)
        held = [snapshot for snapshot in self._left() if _state.fits(snapshot.parts, existing)]
        choice = _state.agree(self._keys, self._rank, self._world, next(_turns), _state.digest_of(existing),
                              [snapshot.held for snapshot in held], disk)
        own: Optional[_state.Snapshot] = None
        if choice is not None:
            own = next((snapshot for snapshot in held if snapshot.held.is_same(choice.held)), None)
            if len(choice.holders) < self._world:
                own = self._received(choice, own)
            assert own is not None
            put_back(self._checkpoint, own.parts)
        self._has_room(own.parts if own else existing)
        self._pace = Pace(self._keys, self._rank, self._every, int(self._step.numpy()))
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
            parts = gather(self._checkpoint)
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
        size = _state.size_of(parts)
        if self._buffers and size <= _state.HEADERS + 2 * self._buffers.capacity:
            return True
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
    """None: there is no agent, or the ranks cannot talk with each other, or another checkpoint of this process has the memory."""
    global _owner
    if not _place.has_agent() or (keys is None and _place.world_size() > 1):
        return None
    key = f"{os.getpid()} {_place.epoch()}"
    if _owner is not None and _owner[0] == key:
        return None
    memory = Memory(checkpoint, step, keys, every)
    try:
        gather(checkpoint)
    except Unfit as error:
        print(f"tfe: no snapshots in memory: {error}", file=sys.stderr, flush=True)
        return None
    _owner = (key, memory)
    return memory
