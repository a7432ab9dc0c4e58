"""A checkpoint directory shared by several machines: tfe.CheckpointManager."""
from __future__ import annotations

import copy
import os
import shutil
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Optional

import tensorflow as tf

from . import _place, _unmade
from ._agree import awaited
from ._asked import Orders
from ._channel import channel
from ._cluster import service_keys
from ._memory import Memory, memory_of
from ._names import FOREIGN, NAME, PRESERVED, Directory, Saved
from ._tensors import number_of, write
from .distribute import join_steps

RESTORE_PATIENCE_S = 60.0
"""Seconds that a rank waits for rank 0's choice of a checkpoint to appear on shared storage."""


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


class CheckpointManager(tf.train.CheckpointManager):  # type: ignore[misc]
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
        self._shared = Directory(os.fspath(directory), checkpoint_name)
        self._name = checkpoint_name
        self._epoch = _place.epoch() or self._shared.epoch()
        self._is_writer = _place.is_writer()
        self._thread: Optional[threading.Thread] = None
        self._wrong: Optional[BaseException] = None
        self._steps = step_counter
        self._memory: Optional[Memory] = None
        self._orders: Optional[Orders] = None
        self._calls = 0
        if self._is_writer:
            self._shared.claim(self._epoch)
            if keep_checkpoint_every_n_hours:
                self._shared.touch(PRESERVED)
        else:
            self._shared.check(self._epoch)
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

    def newest(self) -> "Optional[tuple[int, int]]":
        """Returns (epoch, step) of latest_checkpoint, or None."""
        found = self._shared.saved()
        return (found[0].epoch, found[0].step) if found else None

    def path_of(self, saved: Saved) -> str:
        return os.path.join(self._shared.path, saved.name)

    def save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> Optional[str]:
        """Saves a checkpoint; collective over all ranks.

        Returns the path, which is the same on all ranks and complete on rank 0, or None if no
        checkpoint is due. The default number is that of step_counter, or else a count of saves.
        Raises StaleEpochError if a later epoch has written to the directory.
        """
        number, due = self._number(checkpoint_number), []
        if self._orders:
            channel().progress(self._step())
            self._calls += 1  # save() may be called after every tenth step only
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

    def save_beside(self, number: int, read: "Callable[[], list[Any]]", done: "Callable[[str], None]") -> None:
        """Saves values that were read before in a thread, while training continues. Called on all
        ranks, but not a collective.

        read() and then done(path), with "" after a failure, are called in the thread on rank 0.
        Waits for the previous save; finish() raises the errors of this one. Raises
        StaleEpochError if a later epoch has written to the directory.
        """
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
        # Not a daemon thread: Python waits for it at its exit.
        self._thread = threading.Thread(target=run, name="tfe-save")
        self._thread.start()

    @property
    def is_writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def finish(self) -> None:
        """Waits for a save in progress and raises its error, if any."""
        if self._thread:
            self._thread.join()
            self._thread = None
        wrong, self._wrong = self._wrong, None
        if wrong:
            raise wrong

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

    def restore_newest(self) -> Optional[str]:
        """Restores the newest intact checkpoint, the same on all ranks.

        Returns its path, or None if there is none; then nothing has changed. Skips damaged
        checkpoints with a message. Raises other errors of tf.train.Checkpoint.restore(), e.g.
        AssertionError if an object of the script is not in the checkpoint.
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
        """On the other ranks, restores the checkpoint that rank 0 will probably choose, in parallel
        with rank 0.

        Returns its name, "" after a failure, or None if there is only one candidate: rank 0 may
        find it damaged, and then nothing may change.
        """
        candidates = self._shared.saved()
        if len(candidates) < 2:
            return None
        try:
            self._restore(self.path_of(candidates[0]))
        except Exception:
            return ""  # partly restored, which is harmless: rank 0 chooses another, or fails as well
        return candidates[0].name

    def _restore_first(self, candidates: list[Saved]) -> str:
        for index, saved in enumerate(candidates):
            path = self.path_of(saved)
            is_last = index + 1 == len(candidates)
            # A failed restore leaves variables partly restored, which is harmless if another
            # follows.
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
            time.sleep(0.05)  # network storage may show a file later here than on the writer
        self._restore(os.path.join(self._shared.path, name))

    def _restore(self, path: str) -> None:
        _unmade.restore(self._checkpoint, path)

    def restore_or_initialize(self) -> Optional[str]:
        """Restores the newest intact state, from memory or disk, the same on all ranks.

        Returns its path, or None if there was no state and init_fn was called. For a state from
        memory it is the path that its checkpoint would have; no such file exists. Call before
        the first step. Raises like restore_newest().
        """
        kept = None
        if self._checkpoint_interval is not None and not self._orders:
            keys = service_keys()
            self._memory = memory_of(self._checkpoint, self._steps, keys, None)
            self._orders = Orders(keys) if self._memory else None
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
