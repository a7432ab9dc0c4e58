"""The tensors of a checkpoint's objects, read in place and restored without files."""
from __future__ import annotations

import itertools
from typing import Any, Callable, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf

from . import _deferred, _position, _state
from ._state import Unfit

try:  # not public; without them every variable is read by TensorFlow's own code
    from tensorflow.python.distribute.values import MirroredVariable
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable
except ImportError:
    MirroredVariable = ResourceVariable = None

BROADCAST = 16 << 20
"""Bytes per collective."""
GROUP = 7_409_001
"""Key of the group of all workers' CPUs for these collectives, and first instance key."""

_instances = itertools.count(GROUP)

Row = Tuple[str, str, tf.Tensor]
"""Name, slice and value of a tensor in a checkpoint."""


def _part(name: str, cut: str, tensor: tf.Tensor) -> _state.Part:
    if tensor.dtype in (tf.variant, tf.resource):
        raise Unfit(f"{name} is not a plain tensor")
    array = tensor._numpy() if hasattr(tensor, "_numpy") else tensor.numpy()  # _numpy() does not copy
    if tensor.dtype == tf.string:
        texts = [bytes(text) for text in np.asarray(array, object).ravel()]
        return _text(name, cut, tuple(int(size) for size in tensor.shape), texts)
    return _numbers(name, cut, tensor.dtype.name, array)


def _text(name: str, cut: str, shape: "tuple[int, ...]", texts: "list[bytes]") -> _state.Part:
    return _state.Part(name, cut, "string", shape, np.frombuffer(b"".join(texts), np.uint8), [len(text) for text in texts])


def _numbers(name: str, cut: str, dtype: str, array: Any) -> _state.Part:
    return _state.Part(name, cut, dtype, array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _tensor(part: _state.Part) -> tf.Tensor:
    if part.lengths is not None:
        ends = list(itertools.accumulate(part.lengths))
        texts = [bytes(part.data[end - length:end]) for end, length in zip(ends, part.lengths)]
        return tf.reshape(tf.constant(texts, tf.string), part.shape)
    with tf.device("/device:CPU:0"):
        return tf.constant(part.data.view(tf.as_dtype(part.dtype).as_numpy_dtype).reshape(part.shape))


def copied(parts: "list[_state.Part]") -> "list[Row]":
    """Returns the arguments of write(). tf.constant() copies its input, so the result is
    independent of the parts.
    """
    return [(part.name, part.slice, _tensor(part)) for part in parts]


def write(prefix: str, rows: "list[Row]") -> None:
    """Writes a TensorFlow checkpoint with this prefix."""
    names, slices, tensors = zip(*rows)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=tensors)


class Reader(NamedTuple):
    """Reads one tensor of a checkpoint."""
    name: str
    slice: str
    read: "Callable[[], _state.Part]"
    lasts: bool
    """True if it reads the current value each time; False if the objects must be searched again."""


def _plain(made: Any) -> Any:
    """Returns the variable that holds the object's value, or None if only TensorFlow knows how to
    read it.
    """
    if MirroredVariable is not None and type(made) is MirroredVariable and len(made._values) == 1:
        made = made._primary
    if ResourceVariable is None or type(made) is not ResourceVariable or made.dtype in (tf.string, tf.variant, tf.resource):
        return None
    return made


def _reads_itself(made: Any) -> bool:
    """Returns True for a PythonState that serialises itself as text."""
    kind = tf.train.experimental.PythonState
    return isinstance(made, kind) and type(made)._serialize_to_tensors is kind._serialize_to_tensors


def number_of(variable: tf.Variable) -> int:
    """Returns int(variable.numpy()), which takes 0.1 ms under a strategy and 3 ms the first time,
    but faster.
    """
    plain = None if _position.has_ps() else _plain(variable)  # with parameter servers only TensorFlow can read it
    if plain is None:
        return int(variable.numpy())
    return int(tf.raw_ops.ReadVariableOp(resource=plain.handle, dtype=plain.dtype)._numpy())


def _reader(name: str, cut: str, made: Any, value: Any) -> Reader:
    """Returns a reader. made is the object, or None for the object graph; value is TensorFlow's
    value or function to read it.
    """
    made = getattr(made, "obj", made)  # unwraps objects with the old saving interface
    variable = _plain(made)
    if variable is not None and not cut:
        handle, dtype, kind, read = variable.handle, variable.dtype, variable.dtype.name, tf.raw_ops.ReadVariableOp
        return Reader(name, cut, lambda: _numbers(name, cut, kind, read(resource=handle, dtype=dtype)._numpy()), True)
    if _reads_itself(made):
        return Reader(name, cut, lambda: _text(name, cut, (), [tf.compat.as_bytes(made.serialize())]), True)

    def read_as_tensorflow() -> _state.Part:
        tensor = value() if callable(value) else value
        return _part(name, cut, getattr(tensor, "tensor", tensor))
    if made is None:  # constant until the next search
        graph = read_as_tensorflow()
        return Reader(name, cut, lambda: graph, True)
    is_call = callable(value) or callable(getattr(value, "_tensor", None))
    return Reader(name, cut, read_as_tensorflow, is_call and isinstance(made, tf.Variable))


class Seen(NamedTuple):
    """Names and children of all objects. While they stay the same, TensorFlow's search would give
    the same result.
    """
    names: "list[str]"
    places: "list[int]"
    """Identity of each name's object; the parent's comes before its first child. Variables compare
    element by element, so objects are compared by identity.
    """
    objects: "list[Any]"
    """All objects; holding them prevents the reuse of their identities."""

    def is_same(self, other: "Optional[Seen]") -> bool:
        return other is not None and self[:2] == other[:2]


def broadcast(body: Any, size: int, root: int, world: int) -> Any:
    """Distributes root's body to all ranks by TensorFlow's collectives between CPUs."""
    received: "Optional[list[Any]]" = [] if body is None else None
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


class Objects:
    """Objects of one checkpoint. TensorFlow's search for them takes longer than copying 10 MB, so
    it is repeated only if objects were added or one may have different tensors.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint, step: Optional[tf.Variable] = None) -> None:
        """step counts the training steps; number() needs it."""
        self._checkpoint = checkpoint
        self._step = step
        self._seen: Optional[Seen] = None
        self._deferred: Optional[_deferred.Deferred] = None
        self._tensors: Any = {}
        self._readers: "list[Reader]" = []

    def parts(self) -> "list[_state.Part]":
        """Returns everything that a checkpoint on disk would contain, read in place if possible.
        May be a collective, for variables that are averaged when read. Raises Unfit if the state
        cannot be stored.
        """
        self._walk()
        return [reader.read() for reader in self._readers]

    def existing(self) -> "list[_state.Part]":
        """Returns parts() without restored values of variables that do not exist yet."""
        parts, deferred = self.parts(), _deferred.deferred_of(self._checkpoint)
        names = deferred.names() if deferred is not None else set()
        return [part for part in parts if part.name not in names]

    def number(self) -> int:
        """Returns the current step."""
        return number_of(self._step)

    def rows(self, parts: "list[_state.Part]") -> "list[Row]":
        return copied(parts)

    def broadcast(self, body: Any, size: int, root: int, world: int) -> Any:
        return broadcast(body, size, root, world)

    def put_back(self, parts: "list[_state.Part]") -> None:
        """Restores existing objects now, and later ones when they are created."""
        _deferred.forget(self._checkpoint)
        self._walk()
        values = {(part.name, part.slice): part for part in parts}
        if {(reader.name, reader.slice) for reader in self._readers} == set(values):
            try:
                for made, named in self._tensors.items():
                    _assign(made, {name.rpartition(".ATTRIBUTES/")[2]:
                                   {cut: values[name, cut] for cut in value} if isinstance(value, dict) else values[name, ""]
                                   for name, value in named.items()})
                return
            except NotImplementedError:  # an object that can be restored only from files
                pass
        # TensorFlow can defer the restore of later variables, but only from files: use files in
        # this process's memory.
        prefix = _deferred.memory_prefix()
        write(prefix, copied(parts))
        if _deferred.restore(self._checkpoint, prefix):
            _deferred.remove(prefix)

    def _walk(self) -> None:
        seen, deferred = self._look(), _deferred.deferred_of(self._checkpoint)
        if seen is not None and deferred is self._deferred and seen.is_same(self._seen):
            return
        self._seen, self._deferred = None, deferred
        try:
            tensors, _, registered, _ = self._checkpoint._saver._gather_serialized_tensors()
        except AttributeError:
            raise Unfit("this version of TensorFlow does not give access to the tensors of a checkpoint") from None
        if any(registered.values()) if isinstance(registered, dict) else registered:
            raise Unfit("an object of the script has custom functions for saving")
        self._tensors = tensors
        self._readers = [_reader(name, cut, made, one) for made, named in tensors.items() for name, value in named.items()
                         for cut, one in (value.items() if isinstance(value, dict) else [("", value)])]
        if all(reader.lasts for reader in self._readers):
            self._seen = seen

    def _look(self) -> Optional[Seen]:
        """Returns None if changes cannot be recognised by names and children."""
        view = getattr(getattr(self._checkpoint, "_saver", None), "_graph_view", None)
        if view is None:
            return None
        seen = Seen([], [], [view.root])
        known = {id(view.root)}
        for made in seen.objects:  # grows in the loop
            if hasattr(made, "get_slot_names"):  # an old optimizer has variables besides its children
                return None
            seen.places.append(id(made))
            for name, child in view.list_children(made):
                seen.names.append(name)
                seen.places.append(id(child))
                if id(child) not in known:
                    known.add(id(child))
                    seen.objects.append(child)
        return seen


def _assign(made: Any, parts: "dict[str, Any]") -> None:
    """Restores an object from its part of a snapshot, by TensorFlow's names within the object. The
    first operation of each kind takes milliseconds while training is stopped, so it uses one
    operation if possible, and none for text.
    """
    if made is None:  # the object graph
        return
    variable = _plain(getattr(made, "obj", made))
    if variable is not None and len(parts) == 1:
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=_tensor(*parts.values()))
    elif _reads_itself(made):
        made.deserialize(bytes(parts["py_state"].data))
    else:
        made._restore_from_tensors({name: {cut: _tensor(one) for cut, one in part.items()} if isinstance(part, dict) else _tensor(part)
                                    for name, part in parts.items()})
