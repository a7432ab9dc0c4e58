"""Names of checkpoints with the epoch, and a marker against stale writers.

A checkpoint of step 120 saved in epoch 7 is named "ckpt-7-120". The newest checkpoint is the one
with the highest (epoch, step) rather than the latest file: a machine that was cut off may still
write for an epoch that has ended. The marker is an empty file "tfe-epoch-7". Only its name counts,
and the highest marker is in force, so that two concurrent writers cannot lower it. "ckpt-120" is a
checkpoint of TensorFlow's own manager and older than all others.
"""
from __future__ import annotations

import os
import re
import shutil
from typing import NamedTuple, Optional

NAME = "ckpt"
"""Default prefix of checkpoint names."""
FOREIGN = -1
"""Epoch of checkpoints without an epoch in their name."""
PRESERVED = "tfe-preserves"
"""Empty file: some checkpoints in the directory are preserved forever, and no file tells which."""
MARKER = re.compile(r"tfe-epoch-(\d{1,18})")


class StaleEpochError(RuntimeError):
    """A later epoch of the training has taken the directory over; this process's state is obsolete.
    """


class Saved(NamedTuple):
    """A checkpoint in the directory. Sorts by the age of its state."""
    epoch: int
    step: int
    prefix: str = NAME

    @property
    def name(self) -> str:
        """Name without the suffixes of its files, as TensorFlow expects it."""
        return f"{self.prefix}-{self.step}" if self.epoch == FOREIGN else f"{self.prefix}-{self.epoch}-{self.step}"


class Directory:
    """A directory shared by all machines: a local path, or a URL that tf.io.gfile understands
    (gs://...). prefix starts the names of its checkpoints.
    """

    def __init__(self, path: str, prefix: str = NAME, endings: "tuple[str, ...]" = (".index",)) -> None:
        """endings are those of the file, or folder, that is written last of a checkpoint."""
        self.path = path
        self._prefix = prefix
        last = "|".join(map(re.escape, endings))
        self._endings = endings
        self._pattern = re.compile(rf"{re.escape(prefix)}-(?:(\d{{1,18}})-)?(\d{{1,18}})(?:{last})")
        self._is_remote = "://" in path

    def names(self) -> list[str]:
        """Returns the names of all entries; empty if the directory does not exist."""
        try:
            if self._is_remote:
                import tensorflow as tf
                return [name.rstrip("/") for name in tf.io.gfile.listdir(self.path)] if tf.io.gfile.isdir(self.path) else []
            return os.listdir(self.path)
        except FileNotFoundError:
            return []

    def saved(self) -> list[Saved]:
        """Returns the checkpoints, newest first. TensorFlow writes the index last, so a checkpoint
        without one is incomplete.
        """
        return self._saved_of(self.names())

    def _saved_of(self, names: list[str]) -> list[Saved]:
        matches = map(self._pattern.fullmatch, names)
        return sorted((Saved(int(m[1] or FOREIGN), int(m[2]), self._prefix) for m in matches if m), reverse=True)

    def epoch(self) -> int:
        """Returns the latest epoch that has written to the directory, or 0 if none has."""
        names = self.names()
        found = [int(m[1]) for m in map(MARKER.fullmatch, names) if m]
        return max([0, *found, *(saved.epoch for saved in self._saved_of(names))])

    def check(self, epoch: int) -> None:
        """Raises StaleEpochError if a later epoch has written to the directory."""
        latest = self.epoch()
        if latest > epoch:
            raise StaleEpochError(
                f"{self.path}: epoch {latest} has saved here, but this process belongs to epoch {epoch} (use a separate "
                f"directory for another training; if the server has lost its database, start the agents with "
                f"--checkpoint-dir={self.path}, so that epochs continue from there)")

    def claim(self, epoch: int) -> None:
        """Prevents earlier epochs from saving here. Raises StaleEpochError like check(), or OSError
        if the directory is not writable.
        """
        self.check(epoch)
        if epoch == 0:
            return  # without an agent there is no earlier epoch
        self.touch(f"tfe-epoch-{epoch}")
        self.check(epoch)  # a later epoch may have claimed it in between
        for name in self.names():
            match = MARKER.fullmatch(name)
            if match and int(match[1]) < epoch:
                self._remove(name)

    def remove(self, saved: Saved) -> None:
        """Removes the files of a checkpoint, the index first, so that an incomplete removal leaves
        no checkpoint.
        """
        prefix = f"{saved.name}."
        for name in sorted(self.names(), key=lambda name: not name.endswith(self._endings)):
            if name.startswith(prefix):
                self._remove(name)

    def touch(self, name: str) -> None:
        """Creates an empty file, and the directory if it is missing."""
        path = os.path.join(self.path, name)
        if self._is_remote:
            import tensorflow as tf
            tf.io.gfile.makedirs(self.path)
            with tf.io.gfile.GFile(path, "w") as file:
                file.write("")
        else:
            os.makedirs(self.path, exist_ok=True)
            with open(path, "ab"):
                pass

    def _remove(self, name: str) -> None:
        path = os.path.join(self.path, name)
        try:
            if self._is_remote:
                import tensorflow as tf
                tf.io.gfile.remove(path)
            elif os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except Exception:  # gfile has its own exceptions; another process may also have removed the file
            pass


def newest(path: "str | os.PathLike[str]", checkpoint_name: str = NAME) -> Optional[str]:
    """Returns the newest checkpoint in a directory, as tf.train.Checkpoint.restore() expects it, or
    None. Checkpoints of TensorFlow's own manager count if tfe has saved none.
    """
    directory = Directory(os.fspath(path), checkpoint_name)
    found = directory.saved()
    return os.path.join(directory.path, found[0].name) if found else None
