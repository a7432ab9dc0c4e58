"""Checkpoints that survive anything a fleet does: tfe.CheckpointManager and tfe.Checkpointer."""
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
