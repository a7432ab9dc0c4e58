"""Values restored for variables that do not exist yet are part of every save until they are created, on disk and in
memory, bit for bit; then the variables get them."""
import itertools
import os
import random
import subprocess
import sys

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf
import tfe
from tfe import _memory, _state, _tensors, _deferred


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE", "TFE_SOCKET", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def checkpoint_of(**objects):
    checkpoint = tf.train.Checkpoint(**objects)
    checkpoint.save_counter  # noqa: B018
    return checkpoint


class Optimizer(tf.Module):
    """Creates its variables at the first step."""

    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0, dtype=tf.int64)
        self.rows = []

    def make(self, shapes):
        self.rows.extend(tf.Variable(tf.zeros(shape)) for shape in shapes)


class OldOptimizer(tf.Module):
    """Keeps its variables like tf.compat.v1.train.Optimizer: for each variable of the model, by name, without a
    parent."""

    def __init__(self):
        super().__init__()
        self._setattr_tracking = False
        self.slots, self._waiting = {}, []

    def get_slot_names(self):
        return sorted({name for name, _ in self.slots})

    def get_slot(self, variable, name):
        return self.slots.get((name, variable.ref()))

    def _create_or_restore_slot_variable(self, slot_variable_position, slot_name, variable):
        if self.get_slot(variable, slot_name) is not None:
            return self.get_slot(variable, slot_name)
        self._waiting.append((slot_variable_position, slot_name, variable.ref()))

    def make(self, variable, name):
        slot = self.slots[name, variable.ref()] = tf.Variable(tf.zeros_like(variable))
        for position, of, whose in sorted(self._waiting, key=lambda one: -one[0].restore_uid):
            if (of, whose) == (name, variable.ref()):
                position.restore(slot)


class Training:
    """The objects of one process; make() creates the late ones."""

    def __init__(self, has_old=True):
        self.step = tf.Variable(0, dtype=tf.int64)
        self.weights = tf.Variable([0.0, 0.0])
        self.late, self.old = Optimizer(), OldOptimizer() if has_old else None
        objects = {"old": self.old} if has_old else {}
        self.checkpoint = checkpoint_of(step=self.step, weights=self.weights, late=self.late, **objects)

    def make(self):
        self.late.make([[3], [2, 2]])
        self.late.note = tf.Variable("")
        if self.old:
            self.old.make(self.weights, "m")

    def late_values(self):
        return [*(one.numpy().tolist() for one in (*self.late.rows, self.old.get_slot(self.weights, "m"))), self.late.note.numpy()]

    def train(self):
        """Changes the state so that it differs from the initial one."""
        self.step.assign(7)
        self.weights.assign([1.5, float("nan")])
        self.late.rows[0].assign([0.1, -0.0, 3.0])
        self.late.rows[1].assign([[4.0, 5.0], [6.0, 7.0]])
        self.late.note.assign("fünf")
        if self.old:
            self.old.get_slot(self.weights, "m").assign([8.0, 9.0])


LATE = [[np.float32(0.1).item(), -0.0, 3.0], [[4.0, 5.0], [6.0, 7.0]], [8.0, 9.0], "fünf".encode()]


def whole(has_old=True):
    made = Training(has_old)
    made.make()
    made.train()
    return made


def values_in(prefix):
    """Returns all values of a checkpoint on disk, without the graph and per-file counters."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: (dtype.name, reader.get_tensor(name).tobytes() if dtype != tf.string else reader.get_tensor(name))
            for name, dtype in reader.get_variable_to_dtype_map().items() if name != _deferred.GRAPH and "save_counter" not in name}


def shown(parts):
    return {part.name: (part.dtype, part.shape, bytes(part.data)) for part in parts if part.name != _deferred.GRAPH}


def copies_of(checkpoint):
    """Returns copies of its parts, which later assignments do not change."""
    return [part._replace(data=part.data.copy()) for part in _tensors.Objects(checkpoint).parts()]


def by_disk(made, directory, turn):
    """Returns the next process's objects; the state of `made` is passed in a checkpoint written by TensorFlow
    itself."""
    path = made.checkpoint.write(str(directory / f"ckpt-{turn}"))
    after = Training()
    _deferred.restore(after.checkpoint, path)
    for file in directory.glob(f"ckpt-{turn}.*"):
        file.unlink()  # like a manager that has newer ones
    return after


def by_memory(made, _directory, _turn):
    parts = _tensors.Objects(made.checkpoint).parts()
    memory = bytearray(_state.size_of(parts))
    buffers = _state.Buffers(memory, "run")
    buffers.write(1, 7, parts)
    after = Training()
    objects = _tensors.Objects(after.checkpoint)
    snapshot, = buffers.whole()
    assert _state.fits(snapshot.parts, objects.existing())
    objects.put_back(snapshot.parts)
    memory[:] = bytes(len(memory))  # the next snapshots are written there
    return after


def by_a_file_from_memory(made, directory, turn):
    """The state in memory, written to disk."""
    path = str(directory / f"ckpt-{turn}")
    _tensors.write(path, _tensors.copied(_tensors.Objects(made.checkpoint).parts()))
    after = Training()
    _deferred.restore(after.checkpoint, path)
    return after


WAYS = {"disk": by_disk, "memory": by_memory, "file": by_a_file_from_memory}


@pytest.mark.parametrize("ways", [["memory"], ["disk"], ["file"], ["memory", "memory", "disk", "file", "disk", "memory"],
                                  ["disk", "file", "memory", "disk"]], ids="-".join)
def test_processes_that_end_before_the_first_step_pass_on_what_they_were_given(tmp_path, ways):
    made = whole()
    for turn, way in enumerate(ways):
        made = WAYS[way](made, tmp_path, turn)
        assert shown(_tensors.Objects(made.checkpoint).parts()) == shown(_tensors.Objects(whole().checkpoint).parts())
        assert values_in(made.checkpoint.write(str(tmp_path / "look"))) == values_in(whole().checkpoint.write(str(tmp_path / "other")))
    made.make()
    assert str(made.late_values()) == str(LATE)
    assert int(made.step) == 7 and np.isnan(made.weights.numpy()[1])


def test_a_snapshot_is_the_same_for_who_has_made_them_and_who_has_not(tmp_path):
    """The structures are equal, and a process with all variables restores the state like any other."""
    early, made = by_memory(whole(), tmp_path, 0), whole()
    parts = _tensors.Objects(early.checkpoint).parts()
    assert _state.digest_of(parts) == _state.digest_of(_tensors.Objects(made.checkpoint).parts())
    made.late.rows[0].assign([0.0, 0.0, 0.0])
    made.old.get_slot(made.weights, "m").assign([0.0, 0.0])
    objects = _tensors.Objects(made.checkpoint)
    assert _state.fits(parts, objects.existing())
    objects.put_back(parts)
    assert str(made.late_values()) == str(LATE)
    assert _deferred.deferred_of(made.checkpoint) is None


def test_what_has_been_made_is_saved_as_it_is_and_never_as_it_was(tmp_path):
    made = by_memory(whole(), tmp_path, 0)
    objects = _tensors.Objects(made.checkpoint)
    objects.parts()
    made.late.make([[3]])
    made.late.rows[0].assign([5.0, 5.0, 5.0])
    part = shown(objects.parts())
    assert part["late/rows/0/.ATTRIBUTES/VARIABLE_VALUE"][2] == np.float32([5, 5, 5]).tobytes()
    assert part["late/rows/1/.ATTRIBUTES/VARIABLE_VALUE"][2] == np.float32([4, 5, 6, 7]).tobytes()
    made.late.rows = []
    assert "late/rows/0/.ATTRIBUTES/VARIABLE_VALUE" not in shown(objects.parts()), "it was made, and is gone"


def test_when_all_is_made_nothing_is_left_of_it(tmp_path):
    made = by_disk(whole(), tmp_path, 0)
    unmade = _deferred.deferred_of(made.checkpoint)
    objects = _tensors.Objects(made.checkpoint)
    objects.parts()
    assert _deferred.deferred_of(made.checkpoint) is unmade and tf.io.gfile.glob(f"{unmade.prefix}.*")
    made.make()
    objects.parts()
    assert _deferred.deferred_of(made.checkpoint) is None and not tf.io.gfile.glob(f"{unmade.prefix}.*")
    made.late.rows[0].assign([1.0, 2.0, 3.0])
    assert shown(objects.parts()) == shown(_tensors.Objects(made.checkpoint).parts())


def test_a_restore_that_lacks_nothing_leaves_tensorflow_alone(tmp_path):
    path = whole().checkpoint.write(str(tmp_path / "ckpt"))
    made = whole()
    assert _deferred.restore(made.checkpoint, path)
    assert _deferred.deferred_of(made.checkpoint) is None
    assert "_gather_serialized_tensors" not in vars(made.checkpoint._saver)


def test_the_last_restore_alone_says_what_is_to_be_made(tmp_path):
    first, second = whole(), whole()
    second.late.rows[0].assign([1.0, 2.0, 3.0])
    del second.late.note
    made = Training()
    for turn, one in enumerate((first, second)):
        _deferred.restore(made.checkpoint, one.checkpoint.write(str(tmp_path / f"ckpt-{turn}")))
    found = shown(_tensors.Objects(made.checkpoint).parts())
    assert found["late/rows/0/.ATTRIBUTES/VARIABLE_VALUE"][2] == np.float32([1, 2, 3]).tobytes()
    assert "late/note/.ATTRIBUTES/VARIABLE_VALUE" not in found


def test_a_checkpoint_that_is_damaged_where_nothing_exists_yet_is_passed_over(tmp_path, capsys):
    made = whole()
    manager = tfe.CheckpointManager(made.checkpoint, tmp_path)
    manager.save(6)
    path = manager.save(7)
    data, = tmp_path.glob("ckpt-0-7.data*")
    torn = data.read_bytes().replace(np.float32([4, 5, 6, 7]).tobytes(), np.float32([4, 5, 6, 8]).tobytes())
    assert torn != data.read_bytes()
    data.write_bytes(torn)
    after = Training()
    assert tfe.CheckpointManager(after.checkpoint, tmp_path).restore_newest() == str(tmp_path / "ckpt-0-6")
    assert f"checkpoint {path} is damaged and skipped" in capsys.readouterr().err
    after.make()
    assert str(after.late_values()) == str(LATE)


class Node(tf.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.names = [], {}


def grow(chance, root, values):
    """Creates one object of a script after the other, the same ones for the same random numbers."""
    nodes = [root]
    for index in itertools.count():
        node, kind = chance.choice(nodes), chance.randrange(4)
        made = Node() if kind == 0 else chance.choice(list(root.variables) or [None]) if kind == 1 else None
        if made is None:
            made = tf.Variable([values.random()] * chance.randrange(1, 4))
        if isinstance(made, Node):
            nodes.append(made)
        place = chance.randrange(3)
        if place == 0:
            node.rows.append(made)
        elif place == 1:
            node.names[f"k{index}"] = made
        else:
            setattr(node, f"v{index}", made)
        yield


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_made_late_comes_out_as_if_it_had_been_there(tmp_path, seed):
    """Scripts that create their objects in one order; each process except the first and the last creates only some of
    them."""
    chance, objects_of_all = random.Random(seed), 30

    class Script:
        def __init__(self, n, values):
            self.root = Node()
            self.rest = grow(random.Random(seed), self.root, values)
            self.make(n)
            self.checkpoint = checkpoint_of(root=self.root)

        def make(self, n):
            for _ in itertools.islice(self.rest, n):
                pass

    script = Script(objects_of_all, random.Random(seed))
    expected = [one.numpy().tolist() for one in script.root.variables]
    for turn in range(5):
        path, way = str(tmp_path / f"ckpt-{turn}"), chance.choice(["write", "rows", "memory"])
        parts = copies_of(script.checkpoint)
        if way == "write":
            script.checkpoint.write(path)
        else:
            _tensors.write(path, _tensors.copied(parts))
        n = chance.randrange(objects_of_all)
        script = Script(n, chance)
        objects = _tensors.Objects(script.checkpoint)
        if way == "memory" and _state.fits(parts, objects.existing()):
            objects.put_back(parts)
        else:  # in memory: a shorter path to an object does not exist yet, so that names differ; the graph has them
            _deferred.restore(script.checkpoint, path)
        graph = tensorflows_graph(script.checkpoint)
        for node in graph.nodes:
            assert len({child.local_name for child in node.children}) == len(node.children)
    script.make(objects_of_all - n)
    assert [one.numpy().tolist() for one in script.root.variables] == expected
    _tensors.Objects(script.checkpoint).parts()
    assert _deferred.deferred_of(script.checkpoint) is None


def tensorflows_graph(checkpoint):
    """Returns the graph of all objects, as in the next checkpoint."""
    return checkpoint._saver._gather_serialized_tensors()[3]


def test_a_look_that_was_kept_says_nothing_of_what_a_restore_has_brought(tmp_path):
    """Restored values of missing variables are part of saves, not of a cached read of the existing objects."""
    path = whole(has_old=False).checkpoint.write(str(tmp_path / "ckpt"))
    made = Training(has_old=False)
    objects = _tensors.Objects(made.checkpoint)
    before = shown(objects.parts()).keys()
    assert objects._seen is not None
    _deferred.restore(made.checkpoint, path)
    assert shown(objects.parts()).keys() > before == shown(objects.existing()).keys()


def test_of_two_states_that_are_put_back_the_second_counts(tmp_path):
    early, other = Training(), whole()
    objects = _tensors.Objects(early.checkpoint)
    objects.put_back(copies_of(other.checkpoint))
    other.late.rows[0].assign([1.0, 2.0, 3.0])
    parts = copies_of(other.checkpoint)
    objects.put_back(parts)
    assert shown(objects.parts()) == shown(parts)
    early.make()
    assert early.late.rows[0].numpy().tolist() == [1, 2, 3]


def test_a_snapshot_need_not_have_what_only_an_earlier_restore_has_brought(tmp_path, monkeypatch):
    made, other = Training(), Training()
    _deferred.restore(made.checkpoint, whole().checkpoint.write(str(tmp_path / "ckpt")))
    other.step.assign(9)
    memory = _memory.Memory(_tensors.Objects(made.checkpoint, made.step), None, None)
    memory._buffers = _state.Buffers(bytearray(100_000), "a run")
    memory._buffers.write(1, 9, _tensors.Objects(other.checkpoint).parts())
    monkeypatch.setattr(memory, "_left", memory._buffers.whole)
    assert memory.restore(lambda: None).held.step == 9
    assert int(made.step) == 9
    assert shown(_tensors.Objects(made.checkpoint).parts()) == shown(_tensors.Objects(other.checkpoint).parts())


def test_a_slot_waits_on_when_its_variable_is_made_and_gone(tmp_path):
    made = Training()
    del made.weights, made.checkpoint.weights
    _deferred.restore(made.checkpoint, whole().checkpoint.write(str(tmp_path / "ckpt")))
    made.checkpoint.weights = tf.Variable([0.0, 0.0])
    _tensors.Objects(made.checkpoint).parts()
    del made.checkpoint.weights
    found = shown(_tensors.Objects(made.checkpoint).parts())
    assert "weights/.ATTRIBUTES/VARIABLE_VALUE" not in found and "weights/.OPTIMIZER_SLOT/old/m/.ATTRIBUTES/VARIABLE_VALUE" in found


KERAS = '''
import sys
import tensorflow as tf
import tf_keras
from tfe import _memory, _state, _tensors, _deferred

def training():
    model = tf_keras.Sequential([tf_keras.layers.Dense(3, activation="relu", input_shape=(4,)), tf_keras.layers.Dense(2)])
    optimizer = eval(sys.argv[1])
    model.compile(optimizer, "mse", metrics=["mae"])
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    checkpoint.save_counter
    return model, checkpoint

def fit(model):
    tf.random.set_seed(7)
    model.fit(tf.random.normal([8, 4]), tf.random.normal([8, 2]), epochs=3, verbose=0)
    return [one.numpy().tolist() for one in model.weights]

def parts_of(checkpoint):
    return [part._replace(data=part.data.copy()) for part in _tensors.Objects(checkpoint).parts()]

model, checkpoint = training()
fit(model)
parts, seen = parts_of(checkpoint), []
path = checkpoint.write(sys.argv[2] + "/first")
expected = fit(model)
for way in ("memory", "disk"):
    for turn in range(3):
        model, after = training()
        if way == "memory":
            objects = _tensors.Objects(after)
            assert _state.fits(parts, objects.existing())
            objects.put_back(parts)
        else:
            _deferred.restore(after, path)
        seen.append(_deferred.deferred_of(after) is not None)
        parts, path = parts_of(after), after.write(sys.argv[2] + f"/{way}-{turn}")
    assert fit(model) == expected, way
print("some are made late" if all(seen) else seen, flush=True)
'''


@pytest.mark.parametrize("optimizer", ["tf_keras.optimizers.Adam(0.05)", "tf_keras.optimizers.legacy.Adam(0.05)",
                                       "tf_keras.optimizers.SGD(0.05, momentum=0.9)"])
def test_a_keras_optimizer_goes_on_as_if_it_had_never_been_interrupted(tmp_path, optimizer):
    """Three processes in a row end before their first step; the fourth trains."""
    package = os.path.dirname(os.path.dirname(tfe.__file__))
    done = subprocess.run([sys.executable, "-c", KERAS, optimizer, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "PYTHONPATH": package, "TF_USE_LEGACY_KERAS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "some are made late\n"


def test_an_epoch_that_ends_before_its_first_step_hands_on_what_it_was_given(tmp_path, monkeypatch):
    """The state in memory and on disk, whichever is restored. The agent's memory is this process's own."""
    buffers = _state.Buffers(bytearray(100_000), "a run")
    monkeypatch.setattr(_memory.Memory, "_left", lambda memory: (setattr(memory, "_buffers", buffers), buffers.whole())[1])
    found = []
    for epoch in (3, 4, 5, 6, 7):
        monkeypatch.setattr(_memory, "_owner", None)
        monkeypatch.setenv("TFE_EPOCH", str(epoch))
        made = Training()
        manager = tfe.CheckpointManager(made.checkpoint, tmp_path, 1, step_counter=made.step, checkpoint_interval=10)
        found.append(manager.restore_or_initialize())
        if epoch == 3:
            made.make()
            made.train()
        if epoch == 5:
            assert manager.save(check_interval=False) == str(tmp_path / "ckpt-5-7")
            buffers.wipe()
        else:
            manager._memory.take(7)
    assert found == [None, *(str(tmp_path / f"ckpt-{epoch}-7") for epoch in (3, 4, 5, 6))]
    for file in tmp_path.glob("ckpt-*"):
        file.unlink()
    made.make()
    assert str(made.late_values()) == str(LATE)
