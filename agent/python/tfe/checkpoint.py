"""Checkpoints for elastic training: tfe.CheckpointManager and tfe.Checkpointer."""
from __future__ import annotations

import os
from typing import Any, Iterator, Optional

import tensorflow as tf

from ._channel import channel
from ._checkpointing import BaseCheckpointer
from ._directory import NAME, StaleEpochError, newest
from ._manager import CheckpointManager, service_keys
from ._memory import memory_of
from ._requests import STAND_STILL_S
from ._tensors import Objects, number_of
from .distribute import join_steps

__all__ = ["CheckpointManager", "Checkpointer", "StaleEpochError", "new_checkpoints"]


class Checkpointer(BaseCheckpointer):
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

    manager: CheckpointManager

    def __init__(self, directory: "str | os.PathLike[str]", *, step: tf.Variable, every_steps: Optional[int] = None,
                 every_seconds: Optional[float] = None, memory_every_steps: Optional[int] = None, max_to_keep: int = 3,
                 stand_still_s: float = STAND_STILL_S, **objects: Any) -> None:
        """Creates a Checkpointer.

        directory is on storage that all machines share. step is an integer variable that the
        training step increments. every_steps and every_seconds are the intervals of checkpoints.
        memory_every_steps is the interval of snapshots in the agent's memory; by default as often
        as costs at most 2 % of the time. If a machine is lost, its peers still have theirs.
        stand_still_s is the time to wait after a requested checkpoint. objects are saved as in
        tf.train.Checkpoint. Raises ValueError for an interval that is not positive.
        """
        self.check_intervals(every_steps, every_seconds, memory_every_steps)
        self._step = step
        self._data = next((made for made in objects.values() if hasattr(made, "samples_seen")), None)
        checkpoint = tf.train.Checkpoint(step=step, **objects)
        self.manager = CheckpointManager(checkpoint, directory, max_to_keep, step_counter=step)
        keys = service_keys()
        memory = memory_of(Objects(checkpoint, step), keys, memory_every_steps)
        super().__init__(keys, memory, number_of(step), every_steps, every_seconds, stand_still_s)

    def restore(self) -> int:
        """Restores the newest intact state, from memory or disk, the same on all ranks.

        Returns its step, which is unchanged if there is no state. Call before the first step.
        Raises like CheckpointManager.restore_newest().
        """
        return super().restore()

    def save(self) -> str:
        """Saves now. All ranks must call it after the same step. Returns the path. Raises
        StaleEpochError if a later epoch continues the training.
        """
        return super().save()

    def after_step(self) -> bool:
        """Saves if a checkpoint is due or requested. Call it after every step on all ranks, before
        the next share of the data. While all ranks wait for something, call it repeatedly, so
        that requests of the agent are noticed.

        Returns True if a checkpoint of this step was made; with an agent, one that is due by its
        interval is written while training continues. May not return: a script that must
        stop exits here with status 143, once its state is saved.
        """
        return super().after_step()

    def _number(self) -> int:
        return number_of(self._step)

    def _samples(self) -> Optional[int]:
        return self._data.samples_seen if self._data is not None else None

    def _settle(self) -> None:
        join_steps(self._step)

    def _write(self, step: int) -> str:
        path = self.manager.save(step)
        assert path
        return path


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
