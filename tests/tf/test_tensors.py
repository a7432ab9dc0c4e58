"""Values read from a checkpoint's objects equal those that TensorFlow would save, however often they are read and
whatever was created since; and a restore writes to the same objects."""
import json
import os
import random
import socket
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tfe import _memory, _state, _tensors


class Count(tf.train.experimental.PythonState):
    def __init__(self, value):
        self.value = value

    def serialize(self):
        return str(self.value)

    def deserialize(self, text):
        self.value = int(text)


class Node(tf.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.names = [], {}


class Walks:
    """Counts TensorFlow's walks over a checkpoint's objects."""

    def __init__(self, monkeypatch, checkpoint):
        self.number, walk = 0, checkpoint._saver._gather_serialized_tensors

        def counted():
            self.number += 1
            return walk()
        monkeypatch.setattr(checkpoint._saver, "_gather_serialized_tensors", counted)


def shown(parts):
    return {(part.name, part.slice): (part.dtype, part.shape, bytes(part.data), part.lengths) for part in parts}


def checkpoint_of(**objects):
    checkpoint = tf.train.Checkpoint(**objects)
    checkpoint.save_counter  # noqa: B018
    return checkpoint


def test_steps_need_no_walk(monkeypatch):
    node, count = Node(), Count(0)
    node.rows.extend(tf.Variable(tf.fill([4], float(index))) for index in range(3))
    checkpoint = checkpoint_of(node=node, count=count, step=tf.Variable(0, dtype=tf.int64))
    objects, walks = _tensors.Objects(checkpoint), Walks(monkeypatch, checkpoint)
    for step in range(5):
        count.value = step * 1000  # the variable's text grows
        node.rows[1].assign_add(tf.ones([4]))
        assert shown(objects.parts()) == shown(_tensors.Objects(checkpoint).parts())
    assert walks.number == 1 + 5, "one, and one of each that is new"


def change(chance, root, nodes):
    """Makes one change to the objects, as a script might."""
    node, name = chance.choice(nodes), f"v{chance.randrange(4)}"
    kind = chance.randrange(8)
    if kind == 0:
        setattr(node, name, tf.Variable(chance.random()))  # a new variable, or another one in the same place
    elif kind == 1:
        node.rows.append(tf.Variable([chance.random()] * chance.randrange(1, 5)))
    elif kind == 2:
        node.names[name + str(len(node.names))] = tf.Variable(chance.randrange(9), dtype=tf.int32)
    elif kind == 3:
        made = Node()
        nodes.append(made)
        node.rows.append(made)
    elif kind == 4 and hasattr(node, name):
        delattr(node, name)
    elif kind == 5:
        setattr(node, name, Count(chance.randrange(10 ** chance.randrange(1, 9))))
    elif kind == 6 and hasattr(node, name):  # the same object in another place
        setattr(root, f"also_{name}", getattr(node, name))
    else:
        for made in (one for one in root.variables if one.dtype == tf.float32):
            made.assign(tf.fill(made.shape, chance.random()))


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_script_makes_is_seen(seed):
    """Compared with a read without any cached state."""
    chance, root = random.Random(seed), Node()
    nodes, checkpoint = [root], checkpoint_of(root=root)
    objects = _tensors.Objects(checkpoint)
    for _ in range(60):
        change(chance, root, nodes)
        assert shown(objects.parts()) == shown(_tensors.Objects(checkpoint).parts())


def test_variables_that_an_optimizer_of_the_old_kind_makes_later_are_seen():
    weights, optimizer = tf.Variable([1.0, 2.0]), OldOptimizer()
    objects = _tensors.Objects(checkpoint_of(weights=weights, optimizer=optimizer))
    assert len(objects.parts()) == 3
    optimizer.slots["m"] = tf.Variable([3.0, 4.0])
    found = {part.name: bytes(part.data) for part in objects.parts()}
    assert np.float32([3.0, 4.0]).tobytes() in found.values() and len(found) == 4


class OldOptimizer(tf.Module):
    """Its slot variables have no parent, like those of tf.compat.v1.train.Optimizer."""

    def __init__(self):
        super().__init__()
        self._setattr_tracking = False
        self.slots = {}

    def get_slot_names(self):
        return list(self.slots)

    def get_slot(self, variable, name):
        return self.slots[name] if variable.shape.rank == 1 else None


WORKER = '''
import json
import tensorflow as tf
from tfe import _memory, _state, _tensors
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    mirrored = tf.Variable([1.0, 2.0])
    averaged = tf.Variable(5.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN)
checkpoint = tf.train.Checkpoint(mirrored=mirrored, averaged=averaged)
checkpoint.save_counter
objects = _tensors.Objects(checkpoint)
for value in (3.0, 4.0):
    mirrored.assign([value, value])
    strategy.run(lambda: averaged.assign(value * 2))
    found = {part.name.partition("/")[0]: part.data.view("float32").tolist() for part in objects.parts() if part.dtype == "float32"}
    print(json.dumps(found), flush=True)
before = objects.parts()
saved = [(part.name, bytes(part.data)) for part in before]
kept = [part._replace(data=part.data.copy()) for part in before]
mirrored.assign([9.0, 9.0])
objects.put_back(kept)
print(json.dumps([(part.name, bytes(part.data)) for part in objects.parts()] == saved))
print(json.dumps(objects._seen is not None))
'''


def test_variables_of_a_strategy_are_read_as_it_would():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"cluster": {"worker": [f"127.0.0.1:{free.getsockname()[1]}"]}, "task": {"type": "worker", "index": 0}}
    done = subprocess.run([sys.executable, "-c", WORKER], env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(_tensors.__file__)), "TF_CONFIG": json.dumps(place)}, capture_output=True,
                          text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    first, second, is_back, is_kept = map(json.loads, done.stdout.splitlines())
    assert first == {"mirrored": [3.0, 3.0], "averaged": [6.0]} and second == {"mirrored": [4.0, 4.0], "averaged": [8.0]}
    assert is_back and is_kept


def alone():
    """The snapshots of a checkpoint with a weight and a step, in this process's own memory."""
    checkpoint = checkpoint_of(w=tf.Variable([0.0, 0.0]), step=tf.Variable(0, dtype=tf.int64))
    memory = _memory.Memory(_tensors.Objects(checkpoint, checkpoint.step), None, 1)
    parts = memory._objects.parts()
    memory._buffers = _state.Buffers(bytearray(2 * _state.size_of(parts)), "run")
    return checkpoint, memory, parts


def filled(parts, value):
    return [part._replace(data=np.full(len(part.data) // 4, value, np.float32).view(np.uint8)) if part.dtype == "float32" else part
            for part in parts]


def test_a_newer_snapshot_of_another_structure_is_not_gone_on_from(monkeypatch):
    checkpoint, memory, parts = alone()
    other = [part._replace(shape=(1, 2)) if part.dtype == "float32" else part for part in filled(parts, 9)]
    memory._buffers.write(1, 3, filled(parts, 7))
    memory._buffers.write(1, 4, other)
    monkeypatch.setattr(memory, "_left", memory._buffers.whole)
    choice = memory.restore(lambda: None)
    assert choice is not None and choice.held.step == 3
    assert checkpoint.w.numpy().tolist() == [7, 7]


def test_a_state_that_came_as_another_than_was_agreed_on_is_not_taken(monkeypatch):
    checkpoint, memory, parts = alone()
    memory._buffers.write(1, 3, filled(parts, 7))
    agreed, = memory._buffers.whole()
    memory._buffers.write(1, 4, filled(parts, 9))
    other = memory._buffers.whole()[0].body
    torn = agreed.body.copy()
    torn[0] ^= 1
    memory._rank, memory._world = 1, 2
    choice = _state.Choice(agreed.held, [0], -1)
    for body in (other, torn):
        monkeypatch.setattr(memory._objects, "broadcast", lambda *_, body=body: body)
        with pytest.raises(RuntimeError, match="the state of step 3 received from rank 0 does not match"):
            memory._received(choice, None)
    monkeypatch.setattr(memory._objects, "broadcast", lambda *_: agreed.body)
    assert memory._received(choice, None).held == agreed.held
