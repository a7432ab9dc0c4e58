"""Shared part of the managers of checkpoints: saving in a thread and restoring the same on all ranks."""
from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Callable, Optional

from ._agree import Keys, awaited
from ._names import Directory, Saved

RESTORE_PATIENCE_S = 60.0
"""Time that a rank waits for rank 0's choice of a checkpoint to appear on the shared storage."""


class Folder:
    """A directory of checkpoints that several machines share. A subclass knows the format of the files:
    _restore(), _damage(), _write_read() and _service_keys().
    """

    _shared: Directory
    _epoch: int
    _is_writer: bool
    _thread: Optional[threading.Thread] = None
    _wrong: Optional[BaseException] = None

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
            print(f"tfe: checkpoint {path} is damaged and passed over: {wrong}", file=sys.stderr, flush=True)
        return ""

    def _restore_when_there(self, name: str) -> None:
        deadline = time.monotonic() + RESTORE_PATIENCE_S
        while name not in (saved.name for saved in self._shared.saved()) and time.monotonic() < deadline:
            time.sleep(0.05)  # network storage may show a file later here than on the writer
        self._restore(os.path.join(self._shared.path, name))
