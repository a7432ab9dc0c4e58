"""Which checkpoint is newest, and who may write: names with the epoch in them, and a marker against stale writers.

A checkpoint of step 120 saved in epoch 7 is "ckpt-7-120"; newest is the highest (epoch, step), not the youngest file: a
machine that was cut off may still write, late, for an epoch that is over. The marker is an empty file "tfe-epoch-7".
Its name alone counts, and the highest one is in force, so that two writers at once cannot turn it back. "ckpt-120" is what
TensorFlow's own manager has left there, and older than all of that.
"""
from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

NAME = "ckpt"
"""Of checkpoints, unless the script says another one."""
FOREIGN = -1
"""The epoch of what has none in its name."""
PRESERVED = "tfe-preserves"
"""An empty file: some of the checkpoints here are to stay for ever, and no file says which."""
MARKER = re.compile(r"tfe-epoch-(\d{1,18})")


class StaleEpochError(RuntimeError):
    """A later epoch of the training has taken the directory over; what this process would save is out of date."""


class Saved(NamedTuple):
    """A checkpoint in the directory. Sorts by age of the work in it."""
    epoch: int
    step: int
    prefix: str = NAME

    @property
    def name(self) -> str:
        """Without the endings of its files, as TensorFlow wants it."""
        return f"{self.prefix}-{self.step}" if self.epoch == FOREIGN else f"{self.prefix}-{self.epoch}-{self.step}"


class Directory:
    """The directory that all machines share: a path, or what tf.io.gfile understands (gs://…). prefix: of its checkpoints' names."""

    def __init__(self, path: str, prefix: str = NAME) -> None:
        self.path = path
        self._prefix = prefix
        self._pattern = re.compile(rf"{re.escape(prefix)}-(?:(\d{{1,18}})-)?(\d{{1,18}})\.index")
        self._is_remote = "://" in path

    def names(self) -> list[str]:
        """What is in it; nothing if it is not there."""
        try:
            if self._is_remote:
                import tensorflow as tf
                return [name.rstrip("/") for name in tf.io.gfile.listdir(self.path)] if tf.io.gfile.isdir(self.path) else []
            return os.listdir(self.path)
        except FileNotFoundError:
            return []

    def saved(self) -> list[Saved]:
        """Its checkpoints, newest first. TensorFlow writes the index last, so that one without it is half-written."""
        return self._saved_of(self.names())

    def _saved_of(self, names: list[str]) -> list[Saved]:
        matches = map(self._pattern.fullmatch, names)
        return sorted((Saved(int(m[1] or FOREIGN), int(m[2]), self._prefix) for m in matches if m), reverse=True)

    def epoch(self) -> int:
        """The latest epoch that has written here; 0 if none has."""
        names = self.names()
        found = [int(m[1]) for m in map(MARKER.fullmatch, names) if m]
        return max([0, *found, *(saved.epoch for saved in self._saved_of(names))])

    def check(self, epoch: int) -> None:
        """StaleEpochError: a later epoch has written here."""
        latest = self.epoch()
        if latest > epoch:
            raise StaleEpochError(
                f"{self.path}: epoch {latest} has saved here, and this process belongs to epoch {epoch}. If it is another "
                f"training, give it a directory of its own; if the server has lost its memory, start the agents with "
                f"--checkpoint-dir={self.path}, so that it counts on from there.")

    def claim(self, epoch: int) -> None:
        """From now on no earlier epoch may save here. StaleEpochError as check(). OSError: cannot be written."""
        self.check(epoch)
        if epoch == 0:
            return  # no agent: nobody to be kept out
        self.touch(f"tfe-epoch-{epoch}")
        self.check(epoch)  # a later one may have come in between
        for name in self.names():
            match = MARKER.fullmatch(name)
            if match and int(match[1]) < epoch:
                self._remove(name)

    def remove(self, saved: Saved) -> None:
        """The files of one checkpoint, the index first: what is left of it is then none."""
        prefix = f"{saved.name}."
        for name in sorted(self.names(), key=lambda name: not name.endswith(".index")):
            if name.startswith(prefix):
                self._remove(name)

    def touch(self, name: str) -> None:
        """An empty file of that name is there, and so is the directory."""
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
            else:
                os.unlink(path)
        except Exception:  # gfile has exceptions of its own; another one removed it first, or will
            pass


def newest(path: "str | os.PathLike[str]", checkpoint_name: str = NAME) -> Optional[str]:
    """The newest checkpoint in a directory, as tf.train.Checkpoint.restore() wants it; None: none. TensorFlow's own manager's count
    where tfe has saved none."""
    directory = Directory(os.fspath(path), checkpoint_name)
    found = directory.saved()
    return os.path.join(directory.path, found[0].name) if found else None
