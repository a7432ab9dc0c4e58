"""A checkpoint directory shared by several machines: tfe.CheckpointManager."""
from __future__ import annotations

import copy
import os
import shutil
import tempfile
import time
from typing import Any, Callable, Optional

import tensorflow as tf

from . import _deferred, _position
from ._agree import Keys, ServiceKeys
from ._channel import channel
from ._checkpointing import BaseManager
from ._directory import FOREIGN, NAME, PRESERVED, Directory, Saved
from ._memory import Memory, memory_of
from ._requests import Requests
from ._tensors import Objects, number_of, write
from .distribute import join_steps


def service_keys() -> Optional[ServiceKeys]:
    """Returns the keys of the cluster that MultiWorkerMirroredStrategy starts; None if this process is
    alone, or if no strategy has connected it to the others.
    """
    if _position.peers()[1] == 1:
        return None
    try:
        from tensorflow.python.eager import context  # not public, but the only access to these keys
        here = context.context()
        if here.coordination_service is None:
            return None
    except (ImportError, AttributeError):
        return None
    return ServiceKeys(here.set_config_key_value, here.get_config_key_value,
                       lambda error: isinstance(error, tf.errors.AlreadyExistsError),
                       lambda error: isinstance(error, tf.errors.DeadlineExceededError))


def damage(path: str) -> Optional[str]:
    """Reads a checkpoint completely. Returns a description of the damage, or None if it is intact.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_dtype_map():
            reader.get_tensor(name)
    except Exception as error:  # TensorFlow raises different exceptions for different kinds of damage
        return str(error).partition("\n")[0] or type(error).__name__
    return None


class _Uncounted:
    """A save_counter that is counted elsewhere."""

    def assign_add(self, *_arguments: Any, **_options: Any) -> None:
        pass


class _Read:
    """Stands in for the checkpoint in TensorFlow's manager while it saves values that were read
    before.
    """
    save_counter = _Uncounted()

    def __init__(self, read: "Callable[[], list[Any]]") -> None:
        self._values = read

    def _write(self, prefix: str, options: Any = None) -> str:
        write(prefix, self._values())
        for callback in options.experimental_write_callbacks:
            callback(prefix)
        return prefix


class CheckpointManager(BaseManager, tf.train.CheckpointManager):  # type: ignore[misc]
    """Replacement for tf.train.CheckpointManager in a directory that several machines share, one after
    another or at the same time. A script needs to change only its import.

    Every rank creates a manager and calls save() together. Rank 0 writes to the directory, the others
    to a temporary place, as MultiWorkerMirroredStrategy requires. File names contain the epoch. Once
    rank 0 of an epoch has created its manager, save() of any earlier epoch raises StaleEpochError and
    leaves the directory unchanged; this stops a machine that was cut off and does not know that the
    others have continued. Without an agent, the manager writes as the latest epoch found in the
    directory.

    A script with a step_counter and a checkpoint_interval can also have its state in the agent's
    memory. It must call restore_or_initialize() at its start and save() after every step, on all
    ranks:

        manager = tfe.CheckpointManager(checkpoint, "/shared/run7", 3, step_counter=step, checkpoint_interval=100)
        manager.restore_or_initialize()
        while step < steps:
            train_step()                       # adds 1 to step
            manager.save()

    Every checkpoint is then in memory as well, and so are steps between checkpoints, as often as that
    costs at most 2 % of the time. When the agent requests a checkpoint, save() makes one regardless of
    the interval and may not return, like Checkpointer.after_step(). A script that restores
    latest_checkpoint itself, calls save() only when a checkpoint is due, or uses checkpoint numbers
    other than steps has checkpoints on disk only.
    """

    _checkpoint: Any

    def __init__(self, checkpoint: tf.train.Checkpoint, directory: "str | os.PathLike[str]", max_to_keep: Optional[int] = 3,
                 keep_checkpoint_every_n_hours: Optional[float] = None, checkpoint_name: str = NAME,
                 step_counter: Optional[tf.Variable] = None, checkpoint_interval: Optional[int] = None,
                 init_fn: "Optional[Callable[[], Any]]" = None, last_checkpoint_step: Optional[int] = None) -> None:
        """Takes the arguments of tf.train.CheckpointManager.

        checkpoint_name is a plain name; epoch and number are appended. step_counter also numbers
        the checkpoints if save() is called without a number. Raises StaleEpochError if a later
        epoch has written to the directory.
        """
        if "/" in checkpoint_name:
            raise ValueError(f"checkpoint_name is {checkpoint_name!r}; it must be a name, not a path")
        self._claim(Directory(os.fspath(directory), checkpoint_name))
        self._name = checkpoint_name
        self._steps = step_counter
        self._memory: Optional[Memory] = None
        self._requests: Optional[Requests] = None
        self._calls = 0
        if self._is_writer and keep_checkpoint_every_n_hours:
            self._shared.touch(PRESERVED)
        # Create it on all ranks: in a strategy's scope (e.g. a callback of fit()) a new variable is
        # a collective.
        checkpoint.save_counter  # noqa: B018
        super().__init__(checkpoint, self._shared.path, max_to_keep, keep_checkpoint_every_n_hours,
                         f"{checkpoint_name}-{self._epoch}", step_counter, checkpoint_interval, init_fn, last_checkpoint_step)

    @property
    def epoch(self) -> int:
        """Epoch in the names of this manager's checkpoints."""
        return self._epoch

    @property
    def latest_checkpoint(self) -> Optional[str]:
        """Path of the checkpoint with the highest (epoch, step) in the directory, regardless of the
        file "checkpoint"; if there is none, the newest one of TensorFlow's own manager;
        otherwise None. It may be older than the state in memory.
        """
        found = self._shared.saved()
        return self.path_of(found[0]) if found else None

    def save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> Optional[str]:
        """Saves a checkpoint; collective over all ranks.

        Returns the path, which is the same on all ranks and complete on rank 0, or None if no
        checkpoint is due. The default number is that of step_counter, or else a count of saves.
        Raises StaleEpochError if a later epoch has written to the directory.
        """
        number, due = self._number(checkpoint_number), []
        if self._requests:
            channel().progress(self._step())
            self._calls += 1  # save() may be called after every tenth step only
            due = self._requests.due(self._calls)
        is_early = not due and self._is_early(check_interval)
        if not is_early:
            join_steps(self._steps)
            number = self._number(checkpoint_number)
        if self._memory and number != self._step() and not is_early:
            self._memory.forget("the numbers of checkpoints are not those of the step_counter: it is unknown which is newer")
            self._memory = None
        if self._requests and self._requests.kept(number, due, self._memory, lambda: self._save_on_all(number, options)):
            return self.path_of(Saved(self._epoch, number, self._name)) if self._last_checkpoint_step == number else None
        if self._memory:
            self._memory.after_step(self._step(), saved=not is_early)
        if is_early:
            return None
        path = self._save_on_all(number, options)
        if self._requests:
            self._requests.saved(self._step(), path, due)
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
        """Applies the check of TensorFlow's save() on every rank, so that all ranks take part or
        none.
        """
        if self._checkpoint_interval is None or self._last_checkpoint_step is None:
            return False
        passed = self._step() - self._last_checkpoint_step
        return passed == 0 or (check_interval and passed < self._checkpoint_interval)

    def _save_on_all(self, number: int, options: Any) -> str:
        saved = Saved(self._epoch, number, self._name)
        self._last_checkpoint_step = None  # the check has been done
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
        # Check again before older checkpoints are deleted, because writing may have taken minutes.
        options = copy.copy(options) if options else tf.train.CheckpointOptions()
        options.experimental_write_callbacks = [lambda _path: self._shared.check(self._epoch),
                                                *(options.experimental_write_callbacks or ())]
        return str(super().save(checkpoint_number=saved.step, options=options))

    def _write_read(self, number: int, read: "Callable[[], list[Any]]") -> str:
        real, self._checkpoint = self._checkpoint, _Read(read)
        try:
            path = self._save(Saved(self._epoch, number, self._name))
            self._remove_strays()
        finally:
            self._checkpoint = real
        return path

    def _save_aside(self) -> None:
        """Takes part in the save with a temporary directory that is removed at once, because
        trainers are usually killed without cleaning up.
        """
        folder = tempfile.mkdtemp(prefix="tfe-save-")
        self._checkpoint.save_counter.assign_add(1)  # like rank 0's
        try:
            self._checkpoint.write(os.path.join(folder, "ckpt"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_strays(self) -> None:
        """Removes checkpoints older than all retained ones, whose writer was killed before it
        recorded them. Checkpoints preserved by keep_checkpoint_every_n_hours, in any epoch, look
        the same, so then nothing is removed.
        """
        if PRESERVED in self._shared.names():
            return
        kept = {os.path.basename(path) for path in self.checkpoints}
        found = self._shared.saved()
        oldest = min((saved for saved in found if saved.name in kept), default=None)
        for saved in found:
            if self._max_to_keep and oldest and FOREIGN < saved.epoch and saved < oldest and saved.name not in kept:
                self._shared.remove(saved)

    def _service_keys(self) -> Optional[Keys]:
        return service_keys()

    def _damage(self, path: str) -> Optional[str]:
        return damage(path)

    def _restore(self, path: str) -> None:
        _deferred.restore(self._checkpoint, path)

    def restore_or_initialize(self) -> Optional[str]:
        """Restores the newest intact state, from memory or disk, the same on all ranks.

        Returns its path, or None if there was no state and init_fn was called. For a state from
        memory it is the path that its checkpoint would have; no such file exists. Call before
        the first step. Raises like restore_newest().
        """
        kept = None
        if self._checkpoint_interval is not None and not self._requests:
            keys = service_keys()
            self._memory = memory_of(Objects(self._checkpoint, self._steps), keys, None)
            self._requests = Requests(keys) if self._memory else None
        if self._memory:
            kept = self._memory.restore(self.newest)
        path = self.path_of(Saved(kept.held.epoch, kept.held.step, self._name)) if kept else self.restore_newest()
        if path and self._checkpoint_interval is not None:
            self._last_checkpoint_step = kept.saved_step(self._step()) if kept else self._step()
        if not path and self._init_fn:
            self._init_fn()
        if self._requests:
            channel().progress(self._step(), restored=True)
        return path
