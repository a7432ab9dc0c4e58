"""The parts of the package that need TensorFlow, in one process without an agent."""
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "py"))
from peer import Peer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf
import tfe
from tfe import _manager, _memory, _position, _state
from tfe._manager import damage


@pytest.fixture(autouse=True)
def place(monkeypatch):
    """place(rank, world, epoch) sets this process's place; without a call there is no agent."""
    for name in ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE", "TFE_SOCKET", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_memory, "_owner", None)  # of an epoch in this process

    def stand(rank, world, epoch=1):
        for name, value in (("RANK", rank), ("WORLD_SIZE", world), ("EPOCH", epoch)):
            monkeypatch.setenv(f"TFE_{name}", str(value))
    return stand


class Training:
    """A step counter, a variable that follows it, and their checkpointer."""

    def __init__(self, directory, **options):
        self.step = tf.Variable(0, dtype=tf.int64)
        self.value = tf.Variable(tf.zeros([1000]))
        self.checkpointer = tfe.Checkpointer(directory, step=self.step, value=self.value, **options)

    def train(self, steps):
        for _ in range(steps):
            self.step.assign_add(1)
            self.value.assign(tf.fill([1000], tf.cast(self.step, tf.float32)))
            self.checkpointer.after_step()
        self.checkpointer.manager.finish()
        return self

    def restored(self):
        """Returns the restored step, and checks that all restored values belong to it."""
        step = self.checkpointer.restore()
        assert set(self.value.numpy()) == {float(step)}
        return step


def checkpoints(directory):
    return sorted(path.stem for path in pathlib.Path(directory).glob("*.index"))


def test_it_saves_every_few_steps_and_keeps_a_few(tmp_path):
    Training(tmp_path, every_steps=5, max_to_keep=2).train(23)
    assert checkpoints(tmp_path) == ["ckpt-0-15", "ckpt-0-20"]
    assert Training(tmp_path).restored() == 20


def test_it_saves_every_few_seconds(tmp_path):
    training = Training(tmp_path, every_seconds=0.05)
    while not checkpoints(tmp_path) and int(training.step) < 20_000:
        training.train(1)
    assert checkpoints(tmp_path)


@pytest.mark.parametrize("options", [{"every_steps": 0}, {"every_seconds": 0}, {"every_seconds": float("nan")}])
def test_an_interval_that_is_none_is_refused(tmp_path, options):
    with pytest.raises(ValueError, match="every_"):
        Training(tmp_path, **options)


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def empty(path):
    os.truncate(path, 0)


def flip(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"\xff\x00\xff\x00\xff")


@pytest.mark.parametrize("harm", [cut, empty, flip, os.unlink])
@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, harm, ending):
    Training(tmp_path, every_steps=5).train(10)
    harm(tmp_path / f"ckpt-0-10.{ending}")
    assert Training(tmp_path).restored() == 5


@pytest.mark.parametrize("harm", [cut, flip])
def test_with_nothing_whole_it_begins_at_the_beginning(tmp_path, harm):
    Training(tmp_path, every_steps=10).train(10)
    harm(tmp_path / "ckpt-0-10.data-00000-of-00001")
    assert damage(str(tmp_path / "ckpt-0-10"))
    training = Training(tmp_path, every_steps=10)
    assert training.restored() == 0  # nothing of the damaged checkpoint is in the variables
    training.train(10)
    assert Training(tmp_path).restored() == 10  # saved again over the damaged checkpoint


class Word:
    """Rank 0's message about what it has restored, on ranks with a common disk."""

    def __init__(self, name):
        self.name = name

    def set(self, key, value):
        return True

    def get(self, key, timeout_s):
        return "null" if key.startswith("tfe/state/") else self.name  # no rank has a state in memory


@pytest.mark.parametrize("chosen, reads", [("ckpt-1-15", ["ckpt-1-15"]), ("ckpt-1-10", ["ckpt-1-15", "ckpt-1-10"])])
def test_the_other_ranks_read_the_newest_while_rank_0_does(tmp_path, place, monkeypatch, chosen, reads):
    place(0, 2)
    Training(tmp_path, every_steps=5).train(15)
    monkeypatch.setattr("tfe._manager.service_keys", lambda: Word(chosen))
    place(1, 2)
    training, read = Training(tmp_path), []
    restore = training.checkpointer.manager._restore
    monkeypatch.setattr(training.checkpointer.manager, "_restore", lambda path: (read.append(os.path.basename(path)), restore(path)))
    assert training.restored() == int(chosen[-2:])  # if rank 0 found the newest checkpoint damaged, this rank goes back as well
    assert read == reads


def test_a_rank_that_has_read_what_rank_0_finds_damaged_does_not_train(tmp_path, place, monkeypatch):
    place(0, 2)
    Training(tmp_path, every_steps=5).train(10)
    monkeypatch.setattr("tfe._manager.service_keys", lambda: Word(""))
    place(1, 2)
    with pytest.raises(RuntimeError, match="no complete checkpoint"):
        Training(tmp_path).restored()


def test_objects_that_a_checkpoint_does_not_have_are_the_scripts_matter(tmp_path):
    Training(tmp_path, every_steps=5).train(5)
    more = tfe.Checkpointer(tmp_path, step=tf.Variable(0, dtype=tf.int64), value=tf.Variable(tf.zeros([1000])),
                            new=tf.Variable(1.0))
    with pytest.raises(AssertionError):
        more.restore()


def test_a_stale_writer_is_refused_and_deletes_nothing(tmp_path, place):
    place(0, 1, epoch=4)
    stale = Training(tmp_path, every_steps=5, max_to_keep=1).train(5)
    place(0, 1, epoch=5)
    fresh = Training(tmp_path, every_steps=5)
    assert fresh.restored() == 5
    with pytest.raises(tfe.StaleEpochError, match="epoch 5"):
        stale.train(5)
    assert checkpoints(tmp_path) == ["ckpt-4-5"]
    fresh.train(5)
    assert tfe.newest_checkpoint(tmp_path) == str(tmp_path / "ckpt-5-10")
    place(0, 1, epoch=4)
    with pytest.raises(tfe.StaleEpochError):
        Training(tmp_path)


def test_a_writer_that_becomes_stale_while_it_writes_leaves_the_others_alone(tmp_path, place):
    place(0, 1, epoch=4)
    stale = Training(tmp_path, every_steps=5, max_to_keep=1).train(5)
    options = tf.train.CheckpointOptions(experimental_write_callbacks=[])
    claim = stale.checkpointer.manager._checkpoint._write

    def write(prefix, options=None):
        (tmp_path / "tfe-epoch-5").touch()  # a later epoch begins during this write
        return claim(prefix, options=options)
    stale.checkpointer.manager._checkpoint._write = write
    stale.step.assign(10)
    with pytest.raises(tfe.StaleEpochError):
        stale.checkpointer.manager.save(10, options=options)
    assert "ckpt-4-5" in checkpoints(tmp_path)
    assert "ckpt-4-5" in (tmp_path / "checkpoint").read_text()


@pytest.fixture
def slow_disk(monkeypatch):
    """A checkpoint written in the background is complete only after the event is set."""
    go, write = threading.Event(), _manager.write

    def wait_and_write(prefix, parts):
        assert go.wait(60)
        write(prefix, parts)
    monkeypatch.setattr(_manager, "write", wait_and_write)
    yield go
    go.set()


def lend(training, snapshots):
    """Provides memory for a number of bytes of state, like an agent."""
    training.checkpointer._memory._buffers = _state.Buffers(bytearray(snapshots), _position.run())


@pytest.mark.parametrize("lent", [0, 100_000])
def test_with_an_agent_an_interval_ends_without_a_wait_for_the_disk(tmp_path, place, slow_disk, lent):
    place(0, 1, epoch=4)
    training = Training(tmp_path, every_steps=5)
    lend(training, lent)
    manager, finish = training.checkpointer.manager, training.checkpointer.manager.finish
    manager.finish = lambda: None  # what train() does at its end
    training.train(9)
    assert checkpoints(tmp_path) == [] and manager.is_writing
    manager.finish = finish
    slow_disk.set()
    training.train(0)
    assert checkpoints(tmp_path) == ["ckpt-4-5"] and not manager.is_writing
    assert "ckpt-4-5" in (tmp_path / "checkpoint").read_text()
    assert not damage(str(tmp_path / "ckpt-4-5"))
    training.checkpointer.save()
    place(0, 1, epoch=5)
    assert Training(tmp_path).restored() == 9
    for path in tmp_path.glob("ckpt-4-9.*"):
        path.unlink()
    assert Training(tmp_path).restored() == 5, "the values of that step, though the training went on"


def test_ranks_that_wait_look_at_the_pace_once_whatever_memory_they_have(tmp_path, place, monkeypatch):
    """Regression: rank 0, which got its memory at once, checked once; a rank whose memory was refused checked again,
    and waited for rank 0's message."""
    place(0, 1, epoch=4)
    memory, looked = Training(tmp_path).checkpointer._memory, []
    monkeypatch.setattr(memory._pace, "is_due", lambda step: looked.append(step) or True)
    for step in (5, 5, 5, 6):
        memory.after_step(step)
    assert looked == [5, 6]


def test_while_the_disk_is_slow_both_buffers_get_snapshots(tmp_path, place, slow_disk):
    """Otherwise a kill during the copy into the only buffer would lose everything since the checkpoint being
    written."""
    place(0, 1, epoch=4)
    training = Training(tmp_path, every_steps=5, memory_every_steps=1)
    lend(training, 100_000)
    manager, finish = training.checkpointer.manager, training.checkpointer.manager.finish
    manager.finish = lambda: None
    training.train(5)
    buffers, deadline = training.checkpointer._memory._buffers, time.monotonic() + 20
    while buffers.pinned is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    training.train(4)
    assert manager.is_writing and [snapshot.held.step for snapshot in buffers.whole()] == [9, 8]
    slow_disk.set()
    finish()
    place(0, 1, epoch=5)
    assert Training(tmp_path).restored() == 5  # no later step is in it


def test_a_writer_that_becomes_stale_beside_the_training_says_so_and_deletes_nothing(tmp_path, place, slow_disk):
    place(0, 1, epoch=4)
    slow_disk.set()
    stale = Training(tmp_path, every_steps=5, max_to_keep=1).train(5)
    slow_disk.clear()
    manager, finish = stale.checkpointer.manager, stale.checkpointer.manager.finish
    manager.finish = lambda: None
    stale.train(5)
    (tmp_path / "tfe-epoch-5").touch()  # a later epoch begins during this write
    slow_disk.set()
    manager.finish = finish
    with pytest.raises(tfe.StaleEpochError):
        manager.finish()
    assert "ckpt-4-5" in checkpoints(tmp_path)
    assert "ckpt-4-5" in (tmp_path / "checkpoint").read_text()


def test_an_end_waits_for_the_disk(tmp_path):
    script = tmp_path / "script.py"
    script.write_text('''
import sys, time
import tensorflow as tf
import tfe
from tfe import _manager
write = _manager.write
_manager.write = lambda prefix, parts: (time.sleep(1), write(prefix, parts))
step = tf.Variable(0, dtype=tf.int64)
checkpointer = tfe.Checkpointer(sys.argv[1], step=step, every_steps=1)
step.assign_add(1)
checkpointer.after_step()
''')
    environment = {**os.environ, "TFE_EPOCH": "4", "TFE_RANK": "0", "TFE_WORLD_SIZE": "1",
                   "PYTHONPATH": str(pathlib.Path(tfe.__file__).parents[1])}
    subprocess.run([sys.executable, script, tmp_path / "run"], env=environment, check=True, timeout=120)
    assert checkpoints(tmp_path / "run") == ["ckpt-4-1"]


def test_without_an_agent_it_goes_on_with_what_agents_saved(tmp_path, place, monkeypatch):
    place(0, 1, epoch=7)
    Training(tmp_path, every_steps=5).train(5)
    monkeypatch.delenv("TFE_EPOCH")
    training = Training(tmp_path, every_steps=5)
    assert training.restored() == 5
    training.train(5)
    assert tfe.newest_checkpoint(tmp_path) == str(tmp_path / "ckpt-7-10")


def test_a_late_save_of_an_earlier_epoch_does_not_hide_a_later_one(tmp_path, place):
    place(0, 1, epoch=2)
    Training(tmp_path, every_steps=5).train(5)
    for path in tmp_path.glob("ckpt-2-5.*"):  # as an interrupted writer leaves it, with a later time
        shutil.copy(path, tmp_path / path.name.replace("ckpt-2-5", "ckpt-1-400"))
    assert tfe.newest_checkpoint(tmp_path) == str(tmp_path / "ckpt-2-5")


# --- data ---------------------------------------------------------------------------------------------

N = 107


def arrays():
    return tfe.data.elastic((np.arange(N), np.arange(N) * 2.0), global_batch=10, seed=3)


def dataset():
    source = tf.data.Dataset.range(N).map(lambda number: (number, tf.cast(number, tf.float64) * 2))
    return tfe.data.elastic(source, global_batch=10, seed=3, shuffle_buffer=40, map=lambda x, y: (x, y))


@pytest.mark.parametrize("make", [arrays, dataset])
def test_every_sample_once_in_every_size(make, place):
    seen, position, sizes = collections.Counter(), make().serialize(), [4, 3, 7, 1, 12]
    for world in sizes:
        for rank in range(world):
            place(rank, world)
            data = make()
            data.deserialize(position)
            for index, share in enumerate(data):
                assert (share.values[0].numpy() == share.ids.numpy()).all()
                assert (share.values[1].numpy() == 2 * share.ids.numpy()).all()
                assert float(share.global_size) in (10.0, 7.0)
                seen.update(share.ids.numpy().tolist())
                if index == 1 and world != sizes[-1]:
                    break
        position = data.serialize()
    assert seen == collections.Counter(range(N))
    assert data.epoch == 1 and data.samples == 0 and data.samples_seen == N


def test_passes_have_orders_of_their_own():
    data = arrays()
    passes = [[number for share in data for number in share.ids.numpy().tolist()] for _ in range(2)]
    assert passes[0] != passes[1] and sorted(passes[0]) == sorted(passes[1]) == list(range(N))
    assert data.epoch == 2


def test_the_position_is_part_of_the_checkpoint(tmp_path):
    data, step = arrays(), tf.Variable(0, dtype=tf.int64)
    checkpointer = tfe.Checkpointer(tmp_path, step=step, every_steps=4, data=data)
    for _ in data:
        step.assign_add(1)
        if checkpointer.after_step():
            break
    again = arrays()
    tfe.Checkpointer(tmp_path, step=step, data=again).restore()
    assert (again.epoch, again.samples, again.steps_left) == (0, 40, 7)


def test_a_position_in_another_order_is_refused(tmp_path):
    step = tf.Variable(1, dtype=tf.int64)
    tfe.Checkpointer(tmp_path, step=step, data=arrays()).save()
    other = tfe.data.elastic((np.arange(N),), global_batch=10, seed=4)
    with pytest.raises(ValueError, match="by seed 3; this data has 107 samples and seed 4"):
        tfe.Checkpointer(tmp_path, step=step, data=other).restore()


@pytest.mark.parametrize("arguments", [
    dict(source=(np.arange(5), np.arange(6)), global_batch=2), dict(source=(np.arange(0),), global_batch=2),
    dict(source=(np.arange(5),), global_batch=0), dict(source=(np.arange(5),), global_batch=2, size=5)])
def test_what_makes_no_sense_is_refused(arguments):
    source = arguments.pop("source")
    with pytest.raises(ValueError):
        tfe.data.elastic(source, seed=1, **arguments)


def test_a_dataset_of_unknown_length_is_refused_and_can_be_told():
    source = tf.data.Dataset.range(20).filter(lambda number: number < 10)
    with pytest.raises(ValueError, match="size="):
        tfe.data.elastic(source, global_batch=3, seed=1)
    data = tfe.data.elastic(source, global_batch=3, seed=1, size=10)
    assert sorted(number for share in data for number in share.ids.numpy().tolist()) == list(range(10))


@pytest.mark.parametrize("world", [1, 3, 4])
def test_uneven_shares_weigh_what_they_should(world, place):
    """Gradients summed over workers equal those of the mean over the global batch, for a loop and for fit()."""
    x, y = np.random.RandomState(1).rand(N, 3).astype(np.float32), np.arange(N, dtype=np.float32) / N
    w = tf.Variable([[0.1], [0.2], [0.3]])

    def losses(x, y):
        return tf.square(tf.squeeze(x @ w, 1) - y)

    total, total_fit = [], []
    for rank in range(world):
        place(rank, world)
        strategy = tf.distribute.get_strategy()
        data = tfe.data.elastic((x, y), global_batch=N, seed=3, strategy=strategy)
        for share, (fit_x, fit_y, weight) in zip(data, data.for_fit()):
            with tf.GradientTape(persistent=True) as tape:
                loss = tfe.data.global_mean(losses(*share.values), share.global_size)
                # As in Keras: the weighted mean over the share, divided by the number of replicas.
                keras_loss = tf.reduce_mean(losses(fit_x, fit_y) * weight) / world
            total.append(tape.gradient(loss, w).numpy())
            total_fit.append(tape.gradient(keras_loss, w).numpy())
    with tf.GradientTape() as tape:
        whole = tf.reduce_mean(losses(x, y))
    expected = tape.gradient(whole, w).numpy()
    assert len(total) == world
    np.testing.assert_allclose(sum(total), expected, rtol=1e-5)
    np.testing.assert_allclose(sum(total_fit), expected, rtol=1e-5)


def test_servers_without_a_chief_say_what_is_missing(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["h:1"], "ps": ["h:2"]}, "task": {"type": "worker", "index": 0}}')
    with pytest.raises(RuntimeError, match="--chief"):
        tfe.serve()


def test_what_fit_logs_is_told_with_the_validation_too(tmp_path, monkeypatch, place):
    agent = Peer(tmp_path)
    place(0, 1)
    monkeypatch.setenv("TFE_SOCKET", str(agent.path))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    x = np.random.RandomState(1).rand(N, 3).astype(np.float32)
    for _ in range(2):  # a report too soon after the last one waits for the next one
        model.fit(x, x.sum(1), validation_data=(x, x.sum(1)), batch_size=10, verbose=0, callbacks=[tfe.keras.Callback()])
    told = {}
    while not {"loss", "val_loss"} <= told.keys():
        told.update(agent.take().get("metrics", {}))


def test_fit_goes_on_in_the_middle_of_a_pass(tmp_path):
    strategy = tfe.strategy()
    x = np.random.RandomState(1).rand(N, 3).astype(np.float32)

    def make():
        data = tfe.data.elastic((x, x.sum(1)), global_batch=10, seed=3, strategy=strategy)
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,), kernel_initializer="zeros")])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
        checkpointer = tfe.Checkpointer(tmp_path, step=model.optimizer.iterations, every_steps=4, model=model, data=data)
        return data, model, checkpointer

    def fit(data, model, checkpointer, more=()):
        while data.epoch < 2:
            model.fit(data.for_fit(), steps_per_epoch=data.steps_left, initial_epoch=data.epoch, epochs=data.epoch + 1,
                      verbose=0, callbacks=[tfe.keras.Callback(checkpointer, data), *more])
        return [weight.numpy() for weight in model.weights]

    class Killed(Exception):
        pass

    class KillAt(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.optimizer.iterations) == 6:
                raise Killed

    with pytest.raises(Killed):
        fit(*make(), more=[KillAt()])
    data, model, checkpointer = make()
    assert checkpointer.restore() == 4 and data.samples == 40
    resumed = fit(data, model, checkpointer)
    assert int(model.optimizer.iterations) == 22
    shutil.rmtree(tmp_path)
    for mine, other in zip(resumed, fit(*make())):
        np.testing.assert_array_equal(mine, other)
