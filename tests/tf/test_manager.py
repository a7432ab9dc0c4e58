"""tfe.CheckpointManager in place of tf.train.CheckpointManager: it does the same, and with agents it also keeps the
state in memory."""
import inspect
import os
import pathlib
import re
import signal
import time

import fleet as fl
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf
import tfe
from tfe import _memory, _state

SCRIPT = pathlib.Path(__file__).with_name("plain.py")
STEPS, INTERVAL, PATIENCE_S = 330, 100, 120
BOTH = pytest.mark.parametrize("manager", [tf.train.CheckpointManager, tfe.CheckpointManager])


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE", "TFE_SOCKET", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)


class Values:
    def __init__(self):
        self.step = tf.Variable(0, dtype=tf.int64)
        self.value = tf.Variable(0.0)
        self.checkpoint = tf.train.Checkpoint(step=self.step, value=self.value)

    def at(self, step):
        self.step.assign(step)
        self.value.assign(step)


def checkpoints(directory):
    return sorted(path.stem for path in directory.glob("*.index"))


@pytest.mark.parametrize("name", ["__init__", "save", "restore_or_initialize", "sync"])
def test_it_is_called_as_tensorflows(name):
    def parameters(owner):
        return [(one.name, one.kind, None if one.name == "max_to_keep" else one.default)
                for one in inspect.signature(getattr(owner, name)).parameters.values()]
    assert parameters(tfe.CheckpointManager) == parameters(tf.train.CheckpointManager)


@BOTH
def test_it_writes_when_tensorflows_does(tmp_path, manager):
    """It writes at its first call, every ten steps, and in between only on request; never twice at one step."""
    made = Values()
    one = manager(made.checkpoint, tmp_path, None, step_counter=made.step, checkpoint_interval=10)
    saved = []
    for step, checks in [(3, True), (3, False), (8, True), (12, True), (13, True), (13, True), (15, False), (24, True), (25, True)]:
        made.at(step)
        saved.append(one.save(checkpoint_number=step, check_interval=checks) is not None)
    assert saved == [True, False, False, False, True, False, True, False, True]
    again = manager(made.checkpoint, tmp_path, None, step_counter=made.step, checkpoint_interval=10, last_checkpoint_step=20)
    made.at(29)
    assert again.save() is None
    assert again.restore_or_initialize() and int(made.step) == 25
    made.at(34)
    assert again.save() is None


def test_the_other_ranks_find_the_same_time(tmp_path, monkeypatch):
    """A single rank would wait without end if saving requires all ranks."""
    monkeypatch.setenv("TFE_RANK", "1")
    monkeypatch.setenv("TFE_WORLD_SIZE", "2")
    made = Values()
    one = tfe.CheckpointManager(made.checkpoint, tmp_path, step_counter=made.step, checkpoint_interval=10)
    paths = []
    for step in (3, 8, 13):
        made.at(step)
        paths.append(one.save())
    assert paths == [str(tmp_path / "ckpt-0-3"), None, str(tmp_path / "ckpt-0-13")]
    assert checkpoints(tmp_path) == []


@pytest.mark.parametrize("rank", [0, 1])
def test_without_numbers_it_counts(tmp_path, monkeypatch, rank):
    monkeypatch.setenv("TFE_RANK", str(rank))
    monkeypatch.setenv("TFE_WORLD_SIZE", "2")
    made = Values()
    one = tfe.CheckpointManager(made.checkpoint, tmp_path, 2)
    assert [os.path.basename(one.save()) for _ in range(3)] == ["ckpt-0-1", "ckpt-0-2", "ckpt-0-3"]
    if rank == 0:
        assert checkpoints(tmp_path) == ["ckpt-0-2", "ckpt-0-3"]
        again = tfe.CheckpointManager(made.checkpoint, tmp_path, 2)
        assert again.restore_or_initialize() == again.latest_checkpoint
        assert os.path.basename(again.save()) == "ckpt-0-4"


@BOTH
def test_what_begins_is_initialized_and_what_goes_on_is_not(tmp_path, manager):
    made, calls = Values(), []
    one = manager(made.checkpoint, tmp_path, 2, init_fn=lambda: calls.append("init"))
    assert one.restore_or_initialize() is None and calls == ["init"]
    one.save()
    again = manager(made.checkpoint, tmp_path, 2, init_fn=lambda: calls.append("again"))
    assert again.restore_or_initialize() and calls == ["init"]


@BOTH
def test_what_was_preserved_stays_for_ever(tmp_path, manager):
    made = Values()
    for hours, saves in ((1e-9, 4), (None, 4)):
        one = manager(made.checkpoint, tmp_path, 1, hours)
        one.restore_or_initialize()
        for _ in range(saves):
            one.save()
    assert [int(name.rpartition("-")[2]) for name in checkpoints(tmp_path)] == [1, 2, 3, 8]


def test_a_directory_of_tensorflows_is_gone_on_with_and_back(tmp_path):
    made = Values()
    theirs = tf.train.CheckpointManager(made.checkpoint, tmp_path, 2)
    for step in (10, 20):
        made.at(step)
        theirs.save()
    made.at(0)
    ours = tfe.CheckpointManager(made.checkpoint, tmp_path, 2)
    assert ours.restore_or_initialize() == str(tmp_path / "ckpt-2") and float(made.value) == 20
    made.at(30)
    assert os.path.basename(ours.save()) == "ckpt-0-3"
    assert checkpoints(tmp_path) == ["ckpt-0-3", "ckpt-2"]
    made.at(0)
    tf.train.CheckpointManager(made.checkpoint, tmp_path, 2).restore_or_initialize()
    assert float(made.value) == 30


def test_two_names_in_one_directory_are_two_managers(tmp_path):
    made = Values()
    last, best = (tfe.CheckpointManager(made.checkpoint, tmp_path, 1, checkpoint_name=name) for name in ("ckpt", "best"))
    for number in (1, 2):
        last.save(number)
    best.save(1)
    assert checkpoints(tmp_path) == ["best-0-1", "ckpt-0-2"]
    assert best.latest_checkpoint == tfe.newest_checkpoint(tmp_path, "best") == str(tmp_path / "best-0-1")
    with pytest.raises(ValueError, match="checkpoint_name"):
        tfe.CheckpointManager(made.checkpoint, tmp_path, 1, checkpoint_name="there/ckpt")


@pytest.fixture
def lent(monkeypatch):
    """Provides memory like an agent, with the content left by an earlier trainer."""
    buffers = _state.Buffers(bytearray(100_000), "a run")
    monkeypatch.setattr(_memory.Memory, "_left", lambda memory: (setattr(memory, "_buffers", buffers), buffers.whole())[1])

    def begin(epoch):
        monkeypatch.setattr(_memory, "_owner", None)
        monkeypatch.setenv("TFE_EPOCH", str(epoch))
        return buffers
    yield begin


def kept(buffers):
    return [(snapshot.held.epoch, snapshot.held.step) for snapshot in buffers.whole()]


def test_it_goes_on_from_memory_and_writes_when_the_disk_is_due(tmp_path, lent):
    buffers, made = lent(4), Values()
    one = tfe.CheckpointManager(made.checkpoint, tmp_path, step_counter=made.step, checkpoint_interval=10)
    assert one.restore_or_initialize() is None
    for step in (20, 25):
        made.at(step)
        assert bool(one.save()) == (step == 20)
    assert kept(buffers) == [(4, 25), (4, 20)]

    lent(5)
    made = Values()
    one = tfe.CheckpointManager(made.checkpoint, tmp_path, step_counter=made.step, checkpoint_interval=10)
    assert one.restore_or_initialize() == str(tmp_path / "ckpt-4-25") and float(made.value) == 25
    assert one.latest_checkpoint == str(tmp_path / "ckpt-4-20")
    for step, is_due in ((29, False), (30, True), (39, False)):
        made.at(step)
        assert bool(one.save()) == is_due
    assert checkpoints(tmp_path) == ["ckpt-4-20", "ckpt-5-30"]


def test_where_the_numbers_are_no_steps_the_disk_alone_counts(tmp_path, lent, capsys):
    """Otherwise the state in memory would count as newer than a disk that is ahead of it."""
    buffers, made = lent(4), Values()
    one = tfe.CheckpointManager(made.checkpoint, tmp_path, step_counter=made.step, checkpoint_interval=10)
    one.restore_or_initialize()
    for number, step in enumerate((20, 30, 40), 1):
        made.at(step)
        assert one.save(checkpoint_number=number) == str(tmp_path / f"ckpt-4-{number}")
    assert kept(buffers) == []
    assert capsys.readouterr().err.count("no snapshots in memory: the numbers") == 1
    assert one.restore_or_initialize() == str(tmp_path / "ckpt-4-3")


def test_who_restores_from_the_disk_alone_is_not_said_to_have_more(tmp_path, lent):
    lent(4)
    made = Values()
    one = tfe.CheckpointManager(made.checkpoint, tmp_path, step_counter=made.step, checkpoint_interval=10)
    made.checkpoint.restore(one.latest_checkpoint)
    for step in (20, 25):
        made.at(step)
        one.save()
    assert _memory._owner is None


def highest(fleet, names):
    return max((int(step) for name in names for step in re.findall(r"at step (\d+)", fleet.output(name))), default=0)


def begins(fleet, names):
    """Returns the steps from which the epochs began."""
    return sorted({int(step) for name in names for step in re.findall(r"from step (\d+), disk ", fleet.output(name))})


def disk_of(fleet, names, number):
    """Returns the step of the newest checkpoint on disk when this epoch (from 0) began."""
    begun = begins(fleet, names)[number]
    return next(int(step) for name in names
                for step in re.findall(rf"from step {begun}, disk \S+-(\d+), ", fleet.output(name)))


def remembered(agent):
    """Returns the newest step in an agent's memory, read from outside; 0 if none."""
    newest = 0
    for file in pathlib.Path(f"/proc/{agent.pid}/fd").glob("*"):
        try:
            if "tfe-state" not in os.readlink(file):
                continue
            headers = file.read_bytes()[:_state.HEADERS]
        except OSError:
            continue
        for at in (0, _state.HEADERS // 2):
            magic, _, _, _, step, _ = _state.FIELDS.unpack_from(headers, at)
            newest = max(newest, step if magic == _state.MAGIC else 0)
    return newest


def test_machines_that_are_lost_and_that_leave_cost_no_work_since_the_disks(make_fleet):
    """The script only knows TensorFlow's manager; every hundredth step is on disk."""
    fleet = make_fleet()
    for name in "abc":
        fleet.start_agent(name, SCRIPT, fleet.checkpoints, STEPS, INTERVAL, options=("--nnodes=1:3", "--preempt-grace=60s"))
    fl.wait_for("step 140", lambda: highest(fleet, "abc") >= 140, PATIENCE_S)
    # If a copy takes long, copies are rare, and there may be none since the checkpoint on disk.
    fl.wait_for("a snapshot that is newer than the disk's", lambda: min(remembered(fleet.agents[name]) for name in "bc") >
                int(tfe.newest_checkpoint(fleet.checkpoints).rpartition("-")[2]), PATIENCE_S)
    killed, at = highest(fleet, "abc"), time.monotonic()
    fleet.agents["a"].send_signal(signal.SIGKILL)
    fl.wait_for("another epoch", lambda: len(begins(fleet, "bc")) == 2, PATIENCE_S)
    # Every tenth step is reported, and until the guard has killed a's trainer they may continue, at most 20 steps per
    # second.
    most = killed + 10 + 20 * (time.monotonic() - at)
    assert disk_of(fleet, "bc", 1) < begins(fleet, "bc")[1] <= most, fleet.output("b")

    fl.wait_for("step 240", lambda: highest(fleet, "bc") >= 240, PATIENCE_S)
    fleet.agents["b"].send_signal(signal.SIGTERM)
    assert fleet.agents["b"].wait(PATIENCE_S) == 143
    assert fleet.wait_agents("c", PATIENCE_S) == {"c": 0}
    _, _, last = begins(fleet, "c")
    done = max(int(step) for name in "bc" for step in re.findall(r"at step (\d+)", fleet.output(name).partition(f"from step {last}")[0]))
    assert last % 3 == 0 and done <= last, "nothing that was done is done again"
    assert disk_of(fleet, "c", 2) < last, "the switch waited for no checkpoint on disk"
    assert fleet.output("c").count("all done") == 1
    assert sum(fleet.output(name).count("begins") for name in "abc") == 3
