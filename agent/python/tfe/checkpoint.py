"""Checkpoints that survive anything a fleet does: tfe.CheckpointManager and tfe.Checkpointer."""
from __future__ import annotations

import copy
import os
import shutil
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Iterator, NoReturn, Optional

import tensorflow as tf

from . import _place
from ._agree import Agreement, Timetable, awaited
from ._channel import channel
from ._cluster import service_keys
from ._memory import Memory, memory_of
from ._names import FOREIGN, NAME, PRESERVED, Directory, Saved, StaleEpochError, newest
from ._tensors import number_of, write
from .distribute import join_steps

PREEMPTED = 143
"""Exit status of a script that was told to stop and has saved: 128 + SIGTERM, which the agent takes for a preemption."""
STAND_STILL_S = 10.0
"""After a checkpoint that the agent has asked for, all wait so long for their end."""
GO_LAST_S = 2.0
"""Rank 0 waits so long for the others before it leaves: they are as far as itself, but for one that has died."""
KEPT_ENOUGH_S = 3.0
"""What is kept in memory was not enough for somebody, if no end comes in this time: then it is saved."""
RESTORE_PATIENCE_S = 60.0
"""A rank waits so long for rank 0's choice of a checkpoint to appear on the shared storage."""

__all__ = ["CheckpointManager", "Checkpointer", "StaleEpochError", "new_checkpoints", "wait_for_end"]


def damage(path: str) -> Optional[str]:
    """What is wrong with the files of a checkpoint, by reading all of it; None: it is whole."""
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_dtype_map():
            reader.get_tensor(name)
    except Exception as error:  # TensorFlow has a different one for every way to be broken
        return str(error).partition("\n")[0] or type(error).__name__
    return None


class _Uncounted:
    """A save_counter that is counted elsewhere."""

    def assign_add(self, *_arguments: Any, **_options: Any) -> None:
        pass


class _Read:
    """What TensorFlow's manager has in place of a checkpoint while it saves values that were read before."""
    save_counter = _Uncounted()

    def __init__(self, read: "Callable[[], list[Any]]") -> None:
        self._values = read

    def _write(self, prefix: str, options: Any = None) -> str:
        write(prefix, self._values())
        for callback in options.experimental_write_callbacks:
            callback(prefix)
        return prefix


def _number_of(due: "list[str]") -> int:
    """The highest save_number among them; 0: none is."""
    return max((int(wish) for wish in due if wish != "stop"), default=0)


class _Orders:
    """What the agent asks for: the ranks agree after which step they save, and then stand still until they are ended."""

    def __init__(self, keys: Any, stand_still_s: float = STAND_STILL_S) -> None:
        self._keys = keys
        self._stand_still_s = stand_still_s
        self._agreement = Agreement(keys, *_place.peers())
        channel().listen()

    def due(self, turn: int) -> "list[str]":
        """Which of them this rank and all others answer now. turn: grows by 1 from call to call, alike on all ranks; the same again
        while they wait."""
        here = channel()
        here.poll()
        wishes = [str(here.save_number)] if here.save_number > here.answered else []
        if here.stop_by is not None:
            wishes.append("stop")
        return self._agreement.after_step(turn, wishes)

    def saved(self, step: int, path: str, due: "list[str]") -> None:
        """A checkpoint is whole. due: those that it answers; after one of them this may not return."""
        self._tell(step, path, _number_of(due))
        if due:
            self._stand_still(step, lambda: path, "stop" in due)

    def kept(self, step: int, due: "list[str]", memory: Optional[Memory], save: "Callable[[], str]") -> bool:
        """Keeps the state in memory, where that answers all that is due, and stands still; this may not return. save(): the path of a
        checkpoint, should that not be enough. False, alike on all ranks: nothing is due, or it has to be one on disk."""
        here = channel()
        if not due or not memory or not here.in_memory.issuperset(due):
            return False
        memory.take(step)
        if memory.step == step:
            here.kept(step, _number_of(due))
        self._stand_still(step, save, "stop" in due)
        return True

    def _tell(self, step: int, path: str, answers: int) -> None:
        here = channel()
        here.answered = max(here.answered, answers)
        if _place.is_writer():  # the others' part says nothing about the files that count
            here.checkpoint(step, path, answers)

    def _stand_still(self, step: int, save: "Callable[[], str]", is_stop: bool) -> None:
        """Until the end, or until it is clear that there is none. save(): the path of this step's checkpoint."""
        here = channel()
        self._say_done(step)
        deadline = time.monotonic() + self._stand_still_s
        kept_until = time.monotonic() + KEPT_ENOUGH_S
        if here.save_by is not None:
            deadline = min(deadline, here.save_by)
        while not is_stop and time.monotonic() < deadline:
            here.wait(min(1.0, deadline - time.monotonic()))
            is_stop = here.stop_by is not None
            is_kept = (is_stop or time.monotonic() < kept_until) and ("stop" if is_stop else str(here.save_number)) in here.in_memory
            if here.save_number > here.answered and not is_kept:  # nothing was done since this step: its checkpoint answers this, too
                self._agreement.settle(str(here.save_number))
                self._tell(step, save(), here.save_number)
        if is_stop:
            self._go_last(step)
            leave()

    def _say_done(self, step: int) -> None:
        """To rank 0: from here on this rank needs nothing of the service in rank 0's process."""
        if self._keys and _place.peers()[0] != 0:
            try:
                self._keys.set(f"tfe/done/{step}/{_place.peers()[0]}", "")
            except Exception:  # the cluster is coming down already
                pass

    def _go_last(self, step: int) -> None:
        """On rank 0: waits until the others have done with this checkpoint, for saving and agreeing go through a service in
        rank 0's process. Without it they would hang, and be killed at the end of the stop grace."""
        if not self._keys or _place.peers()[0] != 0:
            return
        deadline = time.monotonic() + GO_LAST_S
        try:
            for rank in range(1, _place.peers()[1]):
                self._keys.get(f"tfe/done/{step}/{rank}", max(0.001, deadline - time.monotonic()))
        except Exception:
            pass


class CheckpointManager(tf.train.CheckpointManager):  # type: ignore[misc]
    """tf.train.CheckpointManager for a directory that several machines share, one after another and perhaps at once. It takes its
    place by one changed import.

    Every rank makes one and calls save() together; rank 0 writes there, the others to a temporary place, as
    MultiWorkerMirroredStrategy wants it. The epoch is in the names. From the moment that rank 0 of an epoch has made
    its manager, save() of any earlier epoch raises StaleEpochError and leaves the directory as it is: what a
    machine does that was cut off and does not know yet that the others went on. Without an agent it writes as
    the latest epoch that is found there.

    In the agent's memory the state is kept, too, of a script that has a step_counter and a checkpoint_interval, calls
    restore_or_initialize() at its start, and save() after every step, on all ranks:

        manager = tfe.CheckpointManager(checkpoint, "/shared/run7", 3, step_counter=step, checkpoint_interval=100)
        manager.restore_or_initialize()
        while step < steps:
            train_step()                       # adds 1 to step
            manager.save()

    What save() writes is in memory as well, and of what the interval turns down so much as costs at most 2 % of the time. When the
    agent asks for a checkpoint, save() makes it, whatever the interval, and may not return, as Checkpointer.after_step().
    Whoever restores latest_checkpoint by itself, calls save() only when one is to be written, or with numbers that are no steps, has
    the disk alone.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint, directory: "str | os.PathLike[str]", max_to_keep: Optional[int] = 3,
                 keep_checkpoint_every_n_hours: Optional[float] = None, checkpoint_name: str = NAME,
                 step_counter: Optional[tf.Variable] = None, checkpoint_interval: Optional[int] = None,
                 init_fn: "Optional[Callable[[], Any]]" = None, last_checkpoint_step: Optional[int] = None) -> None:
        """As TensorFlow's. checkpoint_name: a plain name, behind which epoch and number come. step_counter: numbers the checkpoints,
        too, where save() is called without a number. StaleEpochError: a later epoch has written to the directory."""
        if "/" in checkpoint_name:
            raise ValueError(f"checkpoint_name is {checkpoint_name!r}; it must be a name, not a path")
        self._shared = Directory(os.fspath(directory), checkpoint_name)
        self._name = checkpoint_name
        self._epoch = _place.epoch() or self._shared.epoch()
        self._is_writer = _place.is_writer()
        self._thread: Optional[threading.Thread] = None
        self._wrong: Optional[BaseException] = None
        self._steps = step_counter
        self._memory: Optional[Memory] = None
        self._orders: Optional[_Orders] = None
        self._calls = 0
        if self._is_writer:
            self._shared.claim(self._epoch)
            if keep_checkpoint_every_n_hours:
                self._shared.touch(PRESERVED)
        else:
            self._shared.check(self._epoch)
        # Made by all ranks alike: inside a strategy's scope (in a callback of fit(), say) a new variable is a collective.
        checkpoint.save_counter  # noqa: B018
        super().__init__(checkpoint, self._shared.path, max_to_keep, keep_checkpoint_every_n_hours,
                         f"{checkpoint_name}-{self._epoch}", step_counter, checkpoint_interval, init_fn, last_checkpoint_step)

    @property
    def epoch(self) -> int:
        """The epoch in the names of what this manager saves."""
        return self._epoch

    @property
    def latest_checkpoint(self) -> Optional[str]:
        """That of the highest (epoch, step) in the directory, whatever the file "checkpoint" says; where there is none, that of
        TensorFlow's own manager; None: none. It may be older than what is in memory."""
        found = self._shared.saved()
        return self.path_of(found[0]) if found else None

    def newest(self) -> "Optional[tuple[int, int]]":
        """What latest_checkpoint says, as (epoch, step)."""
        found = self._shared.saved()
        return (found[0].epoch, found[0].step) if found else None

    def path_of(self, saved: Saved) -> str:
        return os.path.join(self._shared.path, saved.name)

    def save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> Optional[str]:
        """Collective. The path, the same on all ranks; on rank 0 the checkpoint is then whole. None: it is not time for one.
        By default the number is the step_counter's, without one that of this save.

        StaleEpochError: as in __init__.
        """
        number, due = self._number(checkpoint_number), []
        if self._orders:
            channel().progress(self._step())
            self._calls += 1  # save() may come after every tenth step only
            due = self._orders.due(self._calls)
        is_early = not due and self._is_early(check_interval)
        if not is_early:
            join_steps(self._steps)
            number = self._number(checkpoint_number)
        if self._memory and number != self._step() and not is_early:
            self._memory.forget("the numbers of checkpoints are not those of the step_counter: which is newer cannot be told")
            self._memory = None
        if self._orders and self._orders.kept(number, due, self._memory, lambda: self._save_on_all(number, options)):
            return self.path_of(Saved(self._epoch, number, self._name)) if self._last_checkpoint_step == number else None
        if self._memory:
            self._memory.after_step(self._step(), saved=not is_early)
        if is_early:
            return None
        path = self._save_on_all(number, options)
        if self._orders:
            self._orders.saved(self._step(), path, due)
        return path

    def _step(self) -> int:
        assert self._steps is not None
        return number_of(self._steps)

    def _number(self, given: Any) -> int:
        number = self._steps if given is None else given
        if number is None:
            return int(self._checkpoint.save_counter.numpy()) + 1
        return int(number.numpy() if hasattr(number, "numpy") else number)

    def _is_early(self, check_interval: bool) -> bool:
        """What TensorFlow's save() finds as well, but on rank 0 alone: all ranks take part, or none."""
        if self._checkpoint_interval is None or self._last_checkpoint_step is None:
            return False
        passed = self._step() - self._last_checkpoint_step
        return passed == 0 or (check_interval and passed < self._checkpoint_interval)

    def _save_on_all(self, number: int, options: Any) -> str:
        saved = Saved(self._epoch, number, self._name)
        self._last_checkpoint_step = None  # that it is time is known
        if self._is_writer:
            self.finish()
            self._save(saved, options)
            self._remove_strays()
        else:
            self._save_aside()
            if self._checkpoint_interval is not None:
                self._last_checkpoint_step = self._step()
        return self.path_of(saved)

    def _save(self, saved: Saved, options: Any = None) -> str:
        self._shared.check(self._epoch)
        # Once more when the files are there, before older ones are deleted: writing may have taken minutes.
        options = copy.copy(options) if options else tf.train.CheckpointOptions()
        options.experimental_write_callbacks = [lambda _path: self._shared.check(self._epoch),
                                                *(options.experimental_write_callbacks or ())]
        return str(super().save(checkpoint_number=saved.step, options=options))

    def save_beside(self, number: int, read: "Callable[[], list[Any]]", done: "Callable[[str], None]") -> None:
        """save() of values that were read before, by a thread, while the training goes on: on all ranks together, but no
        collective. read and then done(path), "" where it failed, are called there, on rank 0 alone. Waits for the one before it.
        What goes wrong finish() raises. StaleEpochError: as in __init__."""
        if not self._is_writer:
            return
        self._shared.check(self._epoch)
        self.finish()

        def run() -> None:
            real, self._checkpoint = self._checkpoint, _Read(read)
            try:
                path = self._save(Saved(self._epoch, number, self._name))
                self._remove_strays()
            except BaseException as error:
                self._wrong = error
                path = ""
            finally:
                self._checkpoint = real
            done(path)
        # No daemon: Python waits for it at its end.
        self._thread = threading.Thread(target=run, name="tfe-save")
        self._thread.start()

    @property
    def is_writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def finish(self) -> None:
        """Waits for what is being written. Raises what went wrong with it."""
        if self._thread:
            self._thread.join()
            self._thread = None
        wrong, self._wrong = self._wrong, None
        if wrong:
            raise wrong

    def _save_aside(self) -> None:
        """Takes part in the save. A folder for this save only: a trainer is mostly killed, and cleans up nothing."""
        folder = tempfile.mkdtemp(prefix="tfe-save-")
        self._checkpoint.save_counter.assign_add(1)  # as rank 0's
        try:
            self._checkpoint.write(os.path.join(folder, "ckpt"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_strays(self) -> None:
        """Checkpoints older than all that are kept: their writer was killed before it could note them. Those that
        keep_checkpoint_every_n_hours has preserved, now or in an earlier epoch, look just like that."""
        if PRESERVED in self._shared.names():
            return
        kept = {os.path.basename(path) for path in self.checkpoints}
        found = self._shared.saved()
        oldest = min((saved for saved in found if saved.name in kept), default=None)
        for saved in found:
            if self._max_to_keep and oldest and FOREIGN < saved.epoch and saved < oldest and saved.name not in kept:
                self._shared.remove(saved)

    def restore_newest(self) -> Optional[str]:
        """Restores what is newest and whole, the same on all ranks; its path, or None: there is none, nothing was changed.

        One that is damaged is passed over, and said so. Whatever else is wrong raises as tf.train.Checkpoint.restore()
        does: AssertionError, say, if an object of the script is not in the checkpoint.
        """
        self.finish()
        keys = service_keys()
        if self._is_writer or keys is None:
            name = self._restore_first(self._shared.saved())
            if keys:
                keys.set("tfe/restored", name)
        else:
            tried = self._restore_ahead()
            name = awaited(keys, "tfe/restored")
            if tried is not None and not name:
                raise RuntimeError(f"{self._shared.path}: rank 0 found no checkpoint whole, and this rank has begun to read one")
            if name and name != tried:
                self._restore_when_there(name)
        return os.path.join(self._shared.path, name) if name else None

    def _restore_ahead(self) -> Optional[str]:
        """On the other ranks: what rank 0 is likely to choose, while it does; "": that failed. None where there is one only: rank 0
        may find that damaged, and then nothing is to be changed."""
        candidates = self._shared.saved()
        if len(candidates) < 2:
            return None
        try:
            self._restore(self.path_of(candidates[0]))
        except Exception:
            return ""  # half changed, which is no matter: rank 0 names another, or raises the same
        return candidates[0].name

    def _restore_first(self, candidates: list[Saved]) -> str:
        for index, saved in enumerate(candidates):
            path = self.path_of(saved)
            is_last = index + 1 == len(candidates)
            # A failed restore leaves the variables half changed, which is no matter as long as another follows.
            wrong = damage(path) if is_last else None
            if wrong is None:
                try:
                    self._restore(path)
                    return saved.name
                except Exception:
                    wrong = damage(path)
                    if wrong is None or is_last:
                        raise
            print(f"tfe: checkpoint {path} is damaged and passed over: {wrong}", file=sys.stderr, flush=True)
        return ""

    def _restore_when_there(self, name: str) -> None:
        deadline = time.monotonic() + RESTORE_PATIENCE_S
        while name not in (saved.name for saved in self._shared.saved()) and time.monotonic() < deadline:
            time.sleep(0.05)  # network storage shows a file later here than where it was written
        self._restore(os.path.join(self._shared.path, name))

    def _restore(self, path: str) -> None:
        self._checkpoint.restore(path).assert_existing_objects_matched()

    def restore_or_initialize(self) -> Optional[str]:
        """Goes on from what is newest and whole, in memory or on disk, the same on all ranks; its path. None: there is nothing, and
        init_fn was called. Where it is memory's, the path is the one that its checkpoint would have: there is no such file.

        Call it before the first step. Errors: restore_newest().
        """
        kept = None
        if self._checkpoint_interval is not None and not self._orders:
            keys = service_keys()
            self._memory = memory_of(self._checkpoint, self._steps, keys, None)
            self._orders = _Orders(keys) if self._memory else None
        if self._memory:
            kept = self._memory.restore(self.newest)
        path = self.path_of(Saved(kept.held.epoch, kept.held.step, self._name)) if kept else self.restore_newest()
        if path and self._checkpoint_interval is not None:
            self._last_checkpoint_step = kept.saved_step(self._step()) if kept else self._step()
        if not path and self._init_fn:
            self._init_fn()
        if self._orders:
            channel().progress(self._step(), restored=True)
        return path


class Checkpointer:
    """Saves when it is time, and when the agent asks; restores at the start. All ranks do the same, at the same step.

        step = tf.Variable(0, dtype=tf.int64)
        checkpointer = tfe.Checkpointer("/shared/run7", step=step, every_steps=100, model=model, data=data)
        checkpointer.restore()
        for share in data:
            train_step(share.values)           # adds 1 to step
            checkpointer.after_step()
        checkpointer.save()

    When the agent asks for a checkpoint because this cluster is about to end, all ranks save after the same step and
    then stand still inside after_step(), so that no step is done that would be lost. They are ended there; should the
    agent think otherwise, they go on after stand_still_s. Where a machine stays that keeps the state in memory, the agent says
    so: they keep it there after that step, and the disk gets its next checkpoint when its interval is over.

    With ParameterServerStrategy the chief alone makes one and does all of this; every ps writes its own part of the files. Steps
    that a coordinator has under way are waited for before a save, and none are lost or doubled where the chief counts them as it
    hands them out (a worker that is lost may do one in part, and another one does it again):

        step = tf.Variable(0, dtype=tf.int64)      # not in the strategy's scope: the chief's own
        for share in data:
            coordinator.schedule(train_step, args=share.values)
            step.assign_add(1)
            checkpointer.after_step()

    There, the state is on the disk alone: the ps have it, and a restart begins all of them anew.
    """

    def __init__(self, directory: "str | os.PathLike[str]", *, step: tf.Variable, every_steps: Optional[int] = None,
                 every_seconds: Optional[float] = None, memory_every_steps: Optional[int] = None, max_to_keep: int = 3,
                 stand_still_s: float = STAND_STILL_S, **objects: Any) -> None:
        """directory: on storage that all machines share. step: a whole-number variable that the training step counts up.
        memory_every_steps: so often the state is kept in the agent's memory too (by default as often as it costs at most 2 % of
        the time); what a machine that is lost takes with it, its peers still have. objects: what is to be saved, as
        tf.train.Checkpoint takes it. ValueError: an interval that is none."""
        if every_steps is not None and every_steps < 1:
            raise ValueError(f"every_steps is {every_steps}; it must be at least 1")
        if memory_every_steps is not None and memory_every_steps < 1:
            raise ValueError(f"memory_every_steps is {memory_every_steps}; it must be at least 1")
        if every_seconds is not None and not every_seconds > 0:
            raise ValueError(f"every_seconds is {every_seconds}; it must be more than 0")
        self._step = step
        self._every_steps = every_steps
        self._data = next((made for made in objects.values() if hasattr(made, "samples_seen")), None)
        checkpoint = tf.train.Checkpoint(step=step, **objects)
        self.manager = CheckpointManager(checkpoint, directory, max_to_keep, step_counter=step)
        keys = service_keys()
        self._memory = memory_of(checkpoint, step, keys, memory_every_steps)
        self._orders = _Orders(keys, stand_still_s)
        self._saved_step = number_of(step)
        self._saved_path: Optional[str] = None
        self._every_seconds = every_seconds
        self._keys = keys
        self._timetable: Optional[Timetable] = None
        self._begin_timetable()

    def _begin_timetable(self) -> None:
        if self._every_seconds is not None:
            self._timetable = Timetable(self._keys, _place.peers()[0], self._every_seconds, number_of(self._step))

    def restore(self) -> int:
        """Goes on from what is newest and whole, in memory or on disk, the same on all ranks. The step that is: as it was, if
        there is none.

        Call it before the first step. Errors: CheckpointManager.restore_newest().
        """
        kept = self._memory.restore(self.manager.newest) if self._memory else None
        self._saved_path = None if kept else self.manager.restore_newest()
        self._saved_step = step = number_of(self._step)
        if kept:
            self._saved_step = kept.saved_step(step)
        self._begin_timetable()
        if kept and self._timetable:  # nobody knows since when; or switches that come often would leave the disk behind for ever
            self._timetable.make_due()
        channel().progress(step, self._samples(), restored=True)
        return step

    def save(self) -> str:
        """Saves now: all ranks must call it after the same step. The path. StaleEpochError: a later epoch goes on."""
        step, path = self._save()
        self._orders.saved(step, path, [])
        return path

    def after_step(self) -> bool:
        """Call it after every step, on all ranks, and before the next share of the data is taken. While they wait for something,
        call it again and again on all of them, so that the agent is heard. True: a checkpoint of this step was made; with an agent
        one that is due by its interval is written beside the next steps.

        May not return: a script that is told to stop ends here, once its state is saved or kept, with exit status 143.
        """
        step = number_of(self._step)
        channel().progress(step, self._samples())
        due = self._orders.due(step)
        if self._orders.kept(step, due, self._memory, lambda: self._save()[1]):
            return self._saved_step == step
        is_time = self._timetable.is_due(step) if self._timetable else False
        if self._every_steps and step // self._every_steps > self._saved_step // self._every_steps:
            is_time = True
        is_beside = is_time and not due
        if is_beside or not self.manager.is_writing:
            self.manager.finish()
        if self._memory:
            read = self._memory.after_step(step, wanted=is_beside)
            if read:
                self._save_beside(step, read)
                return True
        if not due and not is_time:
            return False
        self._orders.saved(*self._save(), due)
        return True

    def _samples(self) -> Optional[int]:
        return self._data.samples_seen if self._data is not None else None

    def _save(self) -> "tuple[int, str]":
        """The step, and the path of its checkpoint."""
        join_steps(self._step)
        step = number_of(self._step)
        if self._saved_path is None or self._saved_step != step:
            self._saved_path = self.manager.save(step)
            self._saved_step = step
            if self._timetable:
                self._timetable.saved(step)
        assert self._saved_path
        return step, self._saved_path

    def _save_beside(self, step: int, read: "Callable[[], list[Any]]") -> None:
        here, memory = channel(), self._memory
        assert memory

        def done(path: str) -> None:
            memory.unpin()
            if path:
                here.checkpoint(step, path, 0)
        self._saved_path = None  # whoever asks for one at this step waits for the disk
        self._saved_step = step
        if self._timetable:
            self._timetable.saved(step)
        try:
            self.manager.save_beside(step, read, done)
        except StaleEpochError:
            memory.unpin()
            raise


def new_checkpoints(directory: "str | os.PathLike[str]", checkpoint_name: str = NAME, every_s: float = 1.0) -> "Iterator[str]":
    """For an evaluator: the newest checkpoint, and each time there is a newer one, that, as tf.train.Checkpoint.restore() wants it.
    It looks every_s seconds. It ends when the training is over, and has then given its last one; without an agent it never ends."""
    here = channel()
    here.listen()
    given = None
    while True:
        here.poll()
        is_over = here.stop_by is not None
        found = newest(directory, checkpoint_name)
        if found and found != given:
            given = found
            yield found
        elif is_over:
            return
        else:
            here.wait(every_s)


def wait_for_end(seconds: float = 10.0) -> None:
    """For a script that saves by its own means when stop_requested(): call it once the checkpoint is whole, so that nothing is done
    that the checkpoint does not have. Ends the process with status 143 when the agent says so; returns if it does not."""
    here = channel()
    deadline = time.monotonic() + seconds
    while here.stop_by is None and time.monotonic() < deadline:
        here.wait(min(1.0, max(0.0, deadline - time.monotonic())))
    if here.stop_by is not None:
        leave()


def leave() -> NoReturn:
    """Ends this process at once with status 143. Nothing of Python's own ending: it takes TensorFlow 0.8 s, and the others
    of the cluster are ending too, so that it might wait for them in vain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(PREEMPTED)
