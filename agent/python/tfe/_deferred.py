"""Restored values of variables that do not exist yet, such as an optimizer's variables before its
first step.

TensorFlow assigns the values when the variables are created; until then they are in nothing that
it saves. A checkpoint between a restore and the first step would lack them, and a training that
continues from it would silently reset them. This module includes the values in everything that
is saved until the variables exist.
"""
from __future__ import annotations

import itertools
from typing import Any, Iterable, Optional

import tensorflow as tf

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Key of the object graph in a checkpoint; without a name in the tensors that TensorFlow gathers
for one.
"""

KNOWN = ("object_graph_proto", "object_by_proto_id", "options", "save_path_string", "save_path_tensor")
"""Non-public attributes of a restore that are used here."""

_prefixes = itertools.count()


def memory_prefix() -> str:
    """Returns a prefix for a checkpoint in this process's memory, which exists until remove()."""
    return f"ram://tfe-state/{next(_prefixes)}"


def remove(prefix: str) -> None:
    for path in tf.io.gfile.glob(f"{prefix}.*"):
        tf.io.gfile.remove(path)


def restore(checkpoint: tf.train.Checkpoint, prefix: str) -> bool:
    """Restores a checkpoint that must contain everything that exists, and keeps values of variables
    that do not exist yet.

    Returns True if the files are not needed any more. Raises TensorFlow's errors.
    """
    forget(checkpoint)
    status = checkpoint.restore(prefix)
    status.assert_existing_objects_matched()
    saver, coordinator = getattr(checkpoint, "_saver", None), getattr(status, "_checkpoint", None)
    if not hasattr(saver, "_gather_serialized_tensors") or not all(hasattr(coordinator, name) for name in KNOWN):
        return False  # unknown version of TensorFlow, which handles later variables by itself
    graph, made = coordinator.object_graph_proto, coordinator.object_by_proto_id
    left = {index for index, node in enumerate(graph.nodes) if index not in made}
    if any(graph.nodes[index].registered_saver.name for index in left):
        return False  # only TensorFlow knows where these objects have their values
    left = {index for index in left if graph.nodes[index].attributes}
    if left:
        deferred = Deferred(saver, graph, left, prefix)
        # Redirect TensorFlow's deferred restore to the copy, because the original files may be
        # removed earlier.
        with tf.device("/device:CPU:0"):
            coordinator.save_path_string, coordinator.save_path_tensor = deferred.prefix, tf.constant(deferred.prefix)
        # TensorFlow reads on the variable's device, and a parameter server cannot access this
        # process's memory.
        coordinator.options.experimental_io_device = coordinator.save_path_tensor.device
        saver._gather_serialized_tensors = deferred
    return True


def deferred_of(checkpoint: tf.train.Checkpoint) -> "Optional[Deferred]":
    """Returns the pending values, or None if there are none as far as known. Every restore creates
    a new object.
    """
    found = getattr(getattr(checkpoint, "_saver", None), "_gather_serialized_tensors", None)
    return found if isinstance(found, Deferred) else None


def forget(checkpoint: tf.train.Checkpoint) -> None:
    """Drops pending values before another restore."""
    deferred = deferred_of(checkpoint)
    if deferred is not None:
        deferred.uninstall()


class Deferred:
    """Wraps TensorFlow's function that gathers the contents of a checkpoint, and adds the pending
    values until all variables exist.
    """

    def __init__(self, saver: Any, graph: Any, left: "set[int]", prefix: str) -> None:
        """graph describes the objects in the checkpoint at prefix; left are the indices of those
        that do not exist.
        """
        self._saver, self._gather = saver, saver._gather_serialized_tensors
        self._graph, self._left = graph, left
        dtypes = tf.compat.v1.train.NewCheckpointReader(prefix).get_variable_to_dtype_map()
        self._dtypes = {name: dtypes[name] for name in self.names()}
        self.prefix = memory_prefix()
        values = self._read(self._dtypes, prefix)
        with tf.device("/device:CPU:0"):
            tf.raw_ops.SaveV2(prefix=self.prefix, tensor_names=[*values], shape_and_slices=[""] * len(values), tensors=[*values.values()])

    def names(self) -> "set[str]":
        """Returns the checkpoint keys of all pending values."""
        return {value.checkpoint_key for index in self._left for value in self._graph.nodes[index].attributes}

    def uninstall(self) -> None:
        del self._saver._gather_serialized_tensors

    def __call__(self, object_graph_tensor: Any = None) -> "tuple[Any, ...]":
        tensors, additions, registered, graph = self._gather(object_graph_tensor)
        if object_graph_tensor is None:  # otherwise TensorFlow only builds a graph
            graph = self._merged(graph)
            if self._left:
                with tf.device("/device:CPU:0"):
                    tensors[None][GRAPH] = tf.constant(graph.SerializeToString())
                tensors[None].update(self._read(self.names(), self.prefix))
            else:
                self.uninstall()
                remove(self.prefix)
        return tensors, additions, registered, graph

    def _read(self, names: "Iterable[str]", prefix: str) -> "dict[str, tf.Tensor]":
        names = sorted(names)
        with tf.device("/device:CPU:0"):
            read = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                                        dtypes=[self._dtypes[name] for name in names])
        return dict(zip(names, read))

    def _merged(self, graph: Any) -> Any:
        """Adds the pending objects to the graph of existing ones, at the places where they were
        restored. Objects created meanwhile are no longer pending.
        """
        places = _places(self._graph, graph)
        self._left.difference_update(places)
        above = _above(self._graph, self._left)
        for index in sorted(above - places.keys()):
            places[index] = len(graph.nodes)
            graph.nodes.add().attributes.extend(self._graph.nodes[index].attributes if index in self._left else ())
        for index in above:
            ours, node = self._graph.nodes[index], graph.nodes[places[index]]
            node.has_checkpoint_values.value = True  # includes everything below it
            names = {child.local_name for child in node.children}
            for child in ours.children:
                if child.local_name not in names and child.node_id in places:
                    node.children.add(local_name=child.local_name, node_id=places[child.node_id])
            for slot in ours.slot_variables:
                if slot.slot_variable_node_id in self._left:
                    node.slot_variables.add(slot_name=slot.slot_name, slot_variable_node_id=places[slot.slot_variable_node_id],
                                            original_variable_node_id=places[slot.original_variable_node_id])
        return graph


def _places(graph: Any, existing: Any) -> "dict[int, int]":
    """Maps objects of a graph to those of another one that have the same path from the root."""
    places, order = {0: 0}, [0]
    for index in order:  # grows in the loop
        there = {child.local_name: child.node_id for child in existing.nodes[places[index]].children}
        for child in graph.nodes[index].children:
            if child.local_name in there and child.node_id not in places:
                places[child.node_id] = there[child.local_name]
                order.append(child.node_id)
    for index in order:
        slots = {(slot.original_variable_node_id, slot.slot_name): slot.slot_variable_node_id
                 for slot in existing.nodes[places[index]].slot_variables}
        for slot in graph.nodes[index].slot_variables:
            found = slots.get((places.get(slot.original_variable_node_id, -1), slot.slot_name))
            if found is not None:
                places[slot.slot_variable_node_id] = found
    return places


def _above(graph: Any, left: "set[int]") -> "set[int]":
    """Returns the objects in left and all from which they are reachable."""
    parents: "dict[int, set[int]]" = {}
    for index, node in enumerate(graph.nodes):
        for child in node.children:
            parents.setdefault(child.node_id, set()).add(index)
        for slot in node.slot_variables:
            parents.setdefault(slot.slot_variable_node_id, set()).update((index, slot.original_variable_node_id))
    above, order = set(left), list(left)
    for index in order:  # grows in the loop
        for parent in parents.get(index, set()) - above:
            above.add(parent)
            order.append(parent)
    return above
