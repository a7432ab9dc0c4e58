"""The tensors of a checkpoint's objects, read where they lie and put back without a file."""
from __future__ import annotations

import itertools
from typing import Any, Callable, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf

from . import _place, _state, _unmade

try:  # not public; without them every variable is read as TensorFlow's checkpoints do
    from tensorflow.python.distribute.values import MirroredVariable
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable
except ImportError:
    MirroredVariable = ResourceVariable = None

Row = Tuple[str, str, tf.Tensor]
"""Name, slice and value of a tensor in a checkpoint."""


class Unfit(Exception):
    """The state is not one that can be kept in memory; why."""


def _part(name: str, cut: str, tensor: tf.Tensor) -> _state.Part:
    if tensor.dtype in (tf.variant, tf.resource):
        raise Unfit(f"{name} is no plain tensor")
    array = tensor._numpy() if hasattr(tensor, "_numpy") else tensor.numpy()  # the first copies nothing
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
    """What write() takes. tf.constant() copies what it is given, so that none of it lies where the parts do."""
    return [(part.name, part.slice, _tensor(part)) for part in parts]


def write(prefix: str, rows: "list[Row]") -> None:
    """As TensorFlow's checkpoint of that name."""
    names, slices, tensors = zip(*rows)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=tensors)


class Reader(NamedTuple):
    """Of one tensor."""
    name: str
    slice: str
    read: "Callable[[], _state.Part]"
    lasts: bool
    """It reads what is there then, each time."""


def _plain(made: Any) -> Any:
    """The variable whose value is the object's; None: only TensorFlow knows how to read it."""
    if MirroredVariable is not None and type(made) is MirroredVariable and len(made._values) == 1:
        made = made._primary
    if ResourceVariable is None or type(made) is not ResourceVariable or made.dtype in (tf.string, tf.variant, tf.resource):
        return None
    return made


def _reads_itself(made: Any) -> bool:
    """A state of Python that says what it is in a text of its own."""
    kind = tf.train.experimental.PythonState
    return isinstance(made, kind) and type(made)._serialize_to_tensors is kind._serialize_to_tensors


def number_of(variable: tf.Variable) -> int:
    """int(variable.numpy()), which under a strategy takes TensorFlow a tenth of a millisecond, and 3 ms the first time."""
    plain = None if _place.has_ps() else _plain(variable)  # a ps has it then, and TensorFlow knows the way
    if plain is None:
        return int(variable.numpy())
    return int(tf.raw_ops.ReadVariableOp(resource=plain.handle, dtype=plain.dtype)._numpy())


def _reader(name: str, cut: str, made: Any, value: Any) -> Reader:
    """made: the object, or None for the graph of them. value: what TensorFlow has of it, or reads it with."""
    made = getattr(made, "obj", made)  # behind what saves an object the old way
    variable = _plain(made)
    if variable is not None and not cut:
        handle, dtype, kind, read = variable.handle, variable.dtype, variable.dtype.name, tf.raw_ops.ReadVariableOp
        return Reader(name, cut, lambda: _numbers(name, cut, kind, read(resource=handle, dtype=dtype)._numpy()), True)
    if _reads_itself(made):
        return Reader(name, cut, lambda: _text(name, cut, (), [tf.compat.as_bytes(made.serialize())]), True)

    def read_as_tensorflow() -> _state.Part:
        tensor = value() if callable(value) else value
        return _part(name, cut, getattr(tensor, "tensor", tensor))
    if made is None:  # the same until the next walk
        graph = read_as_tensorflow()
        return Reader(name, cut, lambda: graph, True)
    is_call = callable(value) or callable(getattr(value, "_tensor", None))
    return Reader(name, cut, read_as_tensorflow, is_call and isinstance(made, tf.Variable))


class Seen(NamedTuple):
    """What every object has below it, by name. As long as that stays the same, TensorFlow's walk would find the same."""
    names: "list[str]"
    places: "list[int]"
    """Of each name's object; that of its parent before the first. Objects are told apart by identity: variables compare elementwise."""
    objects: "list[Any]"
    """All of them: none of the places is taken by another as long as this is kept."""

    def is_same(self, other: "Optional[Seen]") -> bool:
        return other is not None and self[:2] == other[:2]


class Objects:
    """Those of one checkpoint. TensorFlow's walk over them, which takes longer than copying 10 MB, is made anew only when there are
    others than before, or one of them may have other tensors than before."""

    def __init__(self, checkpoint: tf.train.Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._seen: Optional[Seen] = None
        self._unmade: Optional[_unmade.Unmade] = None
        self._tensors: Any = {}
        self._readers: "list[Reader]" = []

    def parts(self) -> "list[_state.Part]":
        """All that a checkpoint on disk would hold, read in place where that can be. Perhaps a collective: variables that are
        averaged when they are read. Unfit: it cannot be kept like this."""
        self._walk()
        return [reader.read() for reader in self._readers]

    def existing(self) -> "list[_state.Part]":
        """parts(), without what was restored for variables that are still to be made."""
        parts, unmade = self.parts(), _unmade.unmade_of(self._checkpoint)
        names = unmade.names() if unmade is not None else set()
        return [part for part in parts if part.name not in names]

    def put_back(self, parts: "list[_state.Part]") -> None:
        """What exists gets its values now, and what is made later gets its own then."""
        _unmade.forget(self._checkpoint)
        self._walk()
        values = {(part.name, part.slice): part for part in parts}
        if {(reader.name, reader.slice) for reader in self._readers} == set(values):
            try:
                for made, named in self._tensors.items():
                    _assign(made, {name.rpartition(".ATTRIBUTES/")[2]:
                                   {cut: values[name, cut] for cut in value} if isinstance(value, dict) else values[name, ""]
                                   for name, value in named.items()})
                return
            except NotImplementedError:  # an object that can be restored from files only
                pass
        # TensorFlow knows how to wait for what is still to be made, given files: these are in this process's memory.
        prefix = _unmade.memory_prefix()
        write(prefix, copied(parts))
        if _unmade.restore(self._checkpoint, prefix):
            _unmade.remove(prefix)

    def _walk(self) -> None:
        seen, unmade = self._look(), _unmade.unmade_of(self._checkpoint)
        if seen is not None and unmade is self._unmade and seen.is_same(self._seen):
            return
        self._seen, self._unmade = None, unmade
        try:
            tensors, _, registered, _ = self._checkpoint._saver._gather_serialized_tensors()
        except AttributeError:
            raise Unfit("this version of TensorFlow has no way to them that is known here") from None
        if any(registered.values()) if isinstance(registered, dict) else registered:
            raise Unfit("an object of the script is saved by functions of its own")
        self._tensors = tensors
        self._readers = [_reader(name, cut, made, one) for made, named in tensors.items() for name, value in named.items()
                         for cut, one in (value.items() if isinstance(value, dict) else [("", value)])]
        if all(reader.lasts for reader in self._readers):
            self._seen = seen

    def _look(self) -> Optional[Seen]:
        """None: it cannot be told from what the objects have below them."""
        view = getattr(getattr(self._checkpoint, "_saver", None), "_graph_view", None)
        if view is None:
            return None
        seen = Seen([], [], [view.root])
        known = {id(view.root)}
        for made in seen.objects:  # which grows
            if hasattr(made, "get_slot_names"):  # an optimizer of the old kind keeps variables beside what is below it
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
    """parts: what a snapshot has of the object, by TensorFlow's names within it. The first operation of a kind takes a process
    milliseconds, and training stands still here: so where it can be it is one alone, and none for a text."""
    if made is None:  # the graph of the objects
        return
    variable = _plain(getattr(made, "obj", made))
    if variable is not None and len(parts) == 1:
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=_tensor(*parts.values()))
    elif _reads_itself(made):
        made.deserialize(bytes(parts["py_state"].data))
    else:
        made._restore_from_tensors({name: {cut: _tensor(one) for cut, one in part.items()} if isinstance(part, dict) else _tensor(part)
                                    for name, part in parts.items()})
