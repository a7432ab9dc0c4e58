"""Checkpoints for elastic training: tfe.CheckpointManager and tfe.Checkpointer."""
from __future__ import annotations

import os
import time
from typing import Any, Callable, Iterator, Optional

import tensorflow as tf

from . import _place
from ._agree import Timetable
from ._asked import STAND_STILL_S, Orders, leave
from ._channel import channel
from ._cluster import service_keys
from ._manager import CheckpointManager
from ._memory import memory_of
from ._names import NAME, StaleEpochError, newest
from ._tensors import number_of
from .distribute import join_steps

__all__ = ["CheckpointManager", "Checkpointer", "StaleEpochError", "new_checkpoints", "wait_for_end"]


class Checkpointer:
    """Saves at intervals and when the agent requests it, and restores at the start. All ranks act
    together, at the same step.

        step = tf.Variable(0, dtype=tf.int64)
        checkpointer = tfe.Checkpointer("/shared/run7", step=step, every_steps=100, model=model, data=data)
        checkpointer.restore()
        for share in data:
            train_step(share.values)           # adds 1 to step
            checkpointer.after_step()
        checkpointer.save()

    When the agent requests a checkpoint because the cluster is about to end, all ranks save after the
    same step and then wait inside after_step(), so that no further step is lost. They are ended there;
    otherwise they continue after stand_still_s seconds. If another machine keeps the state in memory,
    the agent says so: the ranks then store the state in memory only, and the next checkpoint on disk
    follows at its usual interval.

    With ParameterServerStrategy only the chief creates a Checkpointer; every ps writes its own part of
    the files. A save waits for steps that a coordinator has in progress. No step is lost or counted
    twice if the chief counts steps when it schedules them (a lost worker may have done part of a step,
    which another worker then repeats):

        step = tf.Variable(0, dtype=tf.int64)      # outside of the strategy's scope, on the chief
        for share in data:
            coordinator.schedule(train_step, args=share.values)
            step.assign_add(1)
            checkpointer.after_step()

    In this case the state is only on disk, because the ps hold it and all restart together.
    """

    def __init__(self, directory: "str | os.PathLike[str]", *, step: tf.Variable, every_steps: Optional[int] = None,
                 every_seconds: Optional[float] = None, memory_every_steps: Optional[int] = None, max_to_keep: int = 3,
                 stand_still_s: float = STAND_STILL_S, **objects: Any) -> None:
        """Creates a Checkpointer.

        directory is on storage that all machines share. step is an integer variable that the
        training step increments. every_steps and every_seconds are the intervals of checkpoints.
        memory_every_steps is the interval of snapshots in the agent's memory, which survive the
        loss of a machine on its peers; by default as often as costs at most 2 % of the time.
        stand_still_s is the time to wait after a requested checkpoint. objects are saved as in
        tf.train.Checkpoint. Raises ValueError for an interval that is not positive.
        """
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
        self._orders = Orders(keys, stand_still_s)
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
        """Restores the newest intact state, from memory or disk, the same on all ranks.

        Returns its step, which is unchanged if there is no state. Call before the first step.
        Raises like CheckpointManager.restore_newest().
        """
        kept = self._memory.restore(self.manager.newest) if self._memory else None
        self._saved_path = None if kept else self.manager.restore_newest()
        self._saved_step = step = number_of(self._step)
        if kept:
            self._saved_step = kept.saved_step(step)
        self._begin_timetable()
        # the time since the last checkpoint is unknown; frequent switches must not postpone
        # checkpoints forever
        if kept and self._timetable:
            self._timetable.make_due()
        channel().progress(step, self._samples(), restored=True)
        return step

    def save(self) -> str:
        """Saves now. All ranks must call it after the same step. Returns the path. Raises
        StaleEpochError if a later epoch continues the training.
        """
        step, path = self._save()
        self._orders.saved(step, path, [])
        return path

    def after_step(self) -> bool:
        """Saves if a checkpoint is due or requested. Call it after every step on all ranks, before
        the next share of the data. While all ranks wait for something, call it repeatedly, so
        that requests of the agent are noticed.

        Returns True if a checkpoint of this step was made; with an agent, one that is due by its
        interval is written while training continues. May not return: a script that is told to
        stop exits here with status 143, once its state is saved.
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
        """Returns the step and the path of its checkpoint."""
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
        self._saved_path = None  # a request at this step waits for the disk
        self._saved_step = step
        if self._timetable:
            self._timetable.saved(step)
        try:
            self.manager.save_beside(step, read, done)
        except StaleEpochError:
            memory.unpin()
            raise


def new_checkpoints(directory: "str | os.PathLike[str]", checkpoint_name: str = NAME, every_s: float = 1.0) -> "Iterator[str]":
    """For an evaluator: yields the newest checkpoint, and each newer one as it appears, as
    tf.train.Checkpoint.restore() expects it.

    Polls every every_s seconds. Ends after the last checkpoint when the training is over;
    without an agent it never ends.
    """
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
    """Waits to be ended, for a script that saves by its own means after stop_requested(). Call it
    once the checkpoint is complete, so that no further step is lost.

    Ends the process with status 143 when the agent says so; returns after the given number of
    seconds otherwise.
    """
    here = channel()
    deadline = time.monotonic() + seconds
    while here.stop_by is None and time.monotonic() < deadline:
        here.wait(min(1.0, max(0.0, deadline - time.monotonic())))
    if here.stop_by is not None:
        leave()
