"""Bases of the managers of checkpoints and of the Checkpointers, independent of the framework."""
from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Callable, Optional

from . import _position
from ._agree import Keys, Timetable, awaited
from ._channel import channel
from ._directory import Directory, Saved, StaleEpochError
from ._memory import Memory
from ._requests import Requests

RESTORE_PATIENCE_S = 60.0
"""Time that a rank waits for rank 0's choice of a checkpoint to appear on the shared storage."""


class BaseManager:
    """A directory of checkpoints that several machines share. A subclass knows the format of the files:
    _restore(), _damage(), _write_read() and _service_keys().
    """

    _thread: Optional[threading.Thread] = None
    _wrong: Optional[BaseException] = None

    def _claim(self, directory: Directory) -> None:
        """Takes the directory over for this process's epoch, on rank 0. Raises StaleEpochError if a
        later epoch has written to it.
        """
        self._shared = directory
        self._epoch = _position.epoch() or directory.epoch()
        self._is_writer = _position.is_writer()
        if self._is_writer:
            directory.claim(self._epoch)
        else:
            directory.check(self._epoch)

    def _restore(self, path: str) -> None:
        """Restores a checkpoint. Raises whatever is wrong with its files or the script's objects."""
        raise NotImplementedError

    def _damage(self, path: str) -> Optional[str]:
        """Returns what is wrong with the files of a checkpoint, or None if it is intact."""
        raise NotImplementedError

    def _write_read(self, number: int, read: "Callable[[], list[Any]]") -> str:
        """Writes the values that read() returns as checkpoint number and returns the path."""
        raise NotImplementedError

    def _service_keys(self) -> Optional[Keys]:
        raise NotImplementedError

    def path_of(self, saved: Saved) -> str:
        return os.path.join(self._shared.path, saved.name)

    def newest(self) -> "Optional[tuple[int, int]]":
        """Returns (epoch, step) of the newest checkpoint in the directory, or None."""
        found = self._shared.saved()
        return (found[0].epoch, found[0].step) if found else None

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
            try:
                path = self._write_read(number, read)
            except BaseException as error:
                self._wrong = error
                path = ""
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

    def restore_newest(self) -> Optional[str]:
        """Restores the newest intact checkpoint, the same on all ranks.

        Returns its path, or None if there is none; then nothing has changed. Skips damaged
        checkpoints with a message. Raises other errors of the framework's restore, e.g. if an object
        of the script is not in the checkpoint.
        """
        self.finish()
        keys = self._service_keys()
        if self._is_writer or keys is None:
            name = self._restore_first(self._shared.saved())
            if keys:
                keys.set("tfe/restored", name)
        else:
            tried = self._restore_ahead()
            name = awaited(keys, "tfe/restored")
            if tried is not None and not name:
                raise RuntimeError(f"{self._shared.path}: rank 0 found no complete checkpoint, but this rank has started to restore one")
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

    def _restore_first(self, candidates: "list[Saved]") -> str:
        for index, saved in enumerate(candidates):
            path = self.path_of(saved)
            is_last = index + 1 == len(candidates)
            # A failed restore leaves variables partly restored, which is harmless if another
            # follows.
            wrong = self._damage(path) if is_last else None
            if wrong is None:
                try:
                    self._restore(path)
                    return saved.name
                except Exception:
                    wrong = self._damage(path)
                    if wrong is None or is_last:
                        raise
            print(f"tfe: checkpoint {path} is damaged and skipped: {wrong}", file=sys.stderr, flush=True)
        return ""

    def _restore_when_there(self, name: str) -> None:
        deadline = time.monotonic() + RESTORE_PATIENCE_S
        while name not in (saved.name for saved in self._shared.saved()) and time.monotonic() < deadline:
            time.sleep(0.05)  # network storage may show a file later here than on the writer
        self._restore(os.path.join(self._shared.path, name))


class BaseCheckpointer:
    """Saves at intervals and when the agent requests it, and restores at the start."""

    manager: BaseManager

    def __init__(self, keys: Optional[Keys], memory: Optional[Memory], step: int, every_steps: Optional[int],
                 every_seconds: Optional[float], stand_still_s: float) -> None:
        """step is the current one."""
        self._keys = keys
        self._memory = memory
        self._every_steps = every_steps
        self._every_seconds = every_seconds
        self._requests = Requests(keys, stand_still_s)
        self._saved_step = step
        self._saved_path: Optional[str] = None
        self._timetable: Optional[Timetable] = None
        self._begin_timetable(step)

    @staticmethod
    def check_intervals(every_steps: Optional[int], every_seconds: Optional[float], memory_every_steps: Optional[int]) -> None:
        """Raises ValueError for an invalid interval."""
        if every_steps is not None and every_steps < 1:
            raise ValueError(f"every_steps is {every_steps}; it must be at least 1")
        if memory_every_steps is not None and memory_every_steps < 1:
            raise ValueError(f"memory_every_steps is {memory_every_steps}; it must be at least 1")
        if every_seconds is not None and not every_seconds > 0:
            raise ValueError(f"every_seconds is {every_seconds}; it must be more than 0")

    def _number(self) -> int:
        """Returns the current step."""
        raise NotImplementedError

    def _samples(self) -> Optional[int]:
        """Returns the number of samples seen, or None if unknown."""
        return None

    def _write(self, step: int) -> str:
        """Writes a checkpoint of this step and returns its path. Collective."""
        raise NotImplementedError

    def _settle(self) -> None:
        """Waits until all steps in progress are done."""

    def _begin_timetable(self, step: int) -> None:
        if self._every_seconds is not None:
            self._timetable = Timetable(self._keys, _position.peers()[0], self._every_seconds, step)

    def restore(self) -> int:
        """Restores the newest intact state, in memory or on disk, the same on all ranks."""
        kept = self._memory.restore(self.manager.newest) if self._memory else None
        self._saved_path = None if kept else self.manager.restore_newest()
        self._saved_step = step = self._number()
        if kept:
            self._saved_step = kept.saved_step(step)
        self._begin_timetable(step)
        # The time of the last save is unknown, and frequent switches would delay the disk for ever.
        if kept and self._timetable:
            self._timetable.make_due()
        channel().progress(step, self._samples(), restored=True)
        return step

    def save(self) -> str:
        step, path = self._save()
        self._requests.saved(step, path, [])
        return path

    def after_step(self) -> bool:
        step = self._number()
        channel().progress(step, self._samples())
        due = self._requests.due(step)
        if self._requests.kept(step, due, self._memory, lambda: self._save()[1]):
            return self._saved_step == step
        is_time = self._timetable.is_due(step) if self._timetable else False
        if self._every_steps and step // self._every_steps > self._saved_step // self._every_steps:
            is_time = True
        is_beside = is_time and not due
        if is_beside or not self.manager.is_writing:
            self.manager.finish()
        if self._memory:
            read = self._memory.after_step(step, for_disk=is_beside)
            if read:
                self._save_beside(step, read)
                return True
        if not due and not is_time:
            return False
        self._requests.saved(*self._save(), due)
        return True

    def _save(self) -> "tuple[int, str]":
        """Returns the step and the path of its checkpoint."""
        self._settle()
        step = self._number()
        if self._saved_path is None or self._saved_step != step:
            self._saved_path = self._write(step)
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
        self._saved_path = None  # a save requested at this step waits for the disk
        self._saved_step = step
        if self._timetable:
            self._timetable.saved(step)
        try:
            self.manager.save_beside(step, read, done)
        except StaleEpochError:
            memory.unpin()
            raise
