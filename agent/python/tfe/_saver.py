"""Shared part of the Checkpointers: when to save, and the agent's requests."""
from __future__ import annotations

from typing import Any, Callable, Optional

from . import _place
from ._agree import Keys, Timetable
from ._asked import Orders
from ._channel import channel
from ._folder import Folder
from ._memory import Memory
from ._names import StaleEpochError


class Saver:
    """Saves at intervals and when the agent requests it, and restores at the start."""

    manager: Folder

    def __init__(self, keys: Optional[Keys], memory: Optional[Memory], step: int, every_steps: Optional[int],
                 every_seconds: Optional[float], stand_still_s: float) -> None:
        """step is the current one."""
        self._keys = keys
        self._memory = memory
        self._every_steps = every_steps
        self._every_seconds = every_seconds
        self._orders = Orders(keys, stand_still_s)
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
            self._timetable = Timetable(self._keys, _place.peers()[0], self._every_seconds, step)

    def _restore(self) -> int:
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

    def _save_now(self) -> str:
        step, path = self._save()
        self._orders.saved(step, path, [])
        return path

    def _after_step(self) -> bool:
        step = self._number()
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
