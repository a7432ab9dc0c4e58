"""A directory of checkpoints that several machines share: tfe.CheckpointManager."""
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
"""A rank waits so long for rank 0's choice of a checkpoint to appear on the shared storage."""


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
        self._orders: Optional[Orders] = None
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
        _unmade.restore(self._checkpoint, path)

    def restore_or_initialize(self) -> Optional[str]:
        """Goes on from what is newest and whole, in memory or on disk, the same on all ranks; its path. None: there is nothing, and
        init_fn was called. Where it is memory's, the path is the one that its checkpoint would have: there is no such file.

        Call it before the first step. Errors: restore_newest().
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
