"""Checkpoints that survive anything a fleet does: tfe.CheckpointManager and tfe.Checkpointer."""
from __future__ import annotations

import copy
import os
import shutil
import sys
import tempfile
import time
from typing import Any, NoReturn, Optional

import tensorflow as tf

from . import _place
from ._agree import Agreement, Timetable
from ._channel import Channel, channel
from ._cluster import service_keys
from ._names import Directory, Saved, StaleEpochError

PREEMPTED = 143
"""Exit status of a script that was told to stop and has saved: 128 + SIGTERM, which the agent takes for a preemption."""
GO_LAST_S = 2.0
"""Rank 0 waits so long for the others before it leaves: they are as far as itself, but for one that has died."""
RESTORE_PATIENCE_S = 60.0
"""A rank waits so long for rank 0's choice of a checkpoint to appear on the shared storage."""

__all__ = ["CheckpointManager", "Checkpointer", "StaleEpochError", "wait_for_end"]


def damage(path: str) -> Optional[str]:
    """What is wrong with the files of a checkpoint, by reading all of it; None: it is whole."""
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_dtype_map():
            reader.get_tensor(name)
    except Exception as error:  # TensorFlow has a different one for every way to be broken
        return str(error).partition("\n")[0] or type(error).__name__
    return None


class CheckpointManager(tf.train.CheckpointManager):  # type: ignore[misc]
    """tf.train.CheckpointManager for a directory that several machines share, one after another and perhaps at once.

    Every rank makes one and calls save() together; rank 0 writes there, the others to a temporary place, as
    MultiWorkerMirroredStrategy wants it. The epoch is in the names. From the moment that rank 0 of an epoch has made
    its manager, save() of any earlier epoch raises StaleEpochError and leaves the directory as it is: what a
    machine does that was cut off and does not know yet that the others went on. Without an agent it writes as
    the latest epoch that is found there.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint, directory: "str | os.PathLike[str]", max_to_keep: Optional[int] = 3,
                 *, step_counter: Optional[tf.Variable] = None) -> None:
        """step_counter: numbers the checkpoints, where save() is called without a number. StaleEpochError: a later
        epoch has written to the directory."""
        self._shared = Directory(os.fspath(directory))
        self._epoch = _place.epoch() or self._shared.epoch()
        self._is_writer = _place.rank() == 0
        self._steps = step_counter
        if self._is_writer:
            self._shared.claim(self._epoch)
        else:
            self._shared.check(self._epoch)
        # Made by all ranks alike: inside a strategy's scope (in a callback of fit(), say) a new variable is a collective.
        checkpoint.save_counter  # noqa: B018
        super().__init__(checkpoint, self._shared.path, max_to_keep, checkpoint_name=f"ckpt-{self._epoch}",
                         step_counter=step_counter)

    @property
    def epoch(self) -> int:
        """The epoch in the names of what this manager saves."""
        return self._epoch

    @property
    def latest_checkpoint(self) -> Optional[str]:
        """That of the highest (epoch, step) in the directory, whatever the file "checkpoint" says; None: none."""
        found = self._shared.saved()
        return self.path_of(found[0]) if found else None

    def path_of(self, saved: Saved) -> str:
        return os.path.join(self._shared.path, saved.name)

    def save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> str:
        """Collective. The path, the same on all ranks; on rank 0 the checkpoint is then whole.

        StaleEpochError: as in __init__. ValueError: neither a number nor a step_counter was given.
        """
        number = self._steps if checkpoint_number is None else checkpoint_number
        if number is None:
            raise ValueError("CheckpointManager.save() needs a checkpoint_number, or its manager a step_counter")
        saved = Saved(self._epoch, int(number.numpy() if hasattr(number, "numpy") else number))
        if not self._is_writer:
            self._save_aside()
            return self.path_of(saved)
        self._shared.check(self._epoch)
        # Once more when the files are there, before older ones are deleted: writing may have taken minutes.
        options = copy.copy(options) if options else tf.train.CheckpointOptions()
        options.experimental_write_callbacks = [lambda _path: self._shared.check(self._epoch),
                                                *(options.experimental_write_callbacks or ())]
        path = super().save(checkpoint_number=saved.step, check_interval=check_interval, options=options)
        self._remove_strays()
        return str(path)

    def _save_aside(self) -> None:
        """Takes part in the save. A folder for this save only: a trainer is mostly killed, and cleans up nothing."""
        folder = tempfile.mkdtemp(prefix="tfe-save-")
        try:
            self._checkpoint.write(os.path.join(folder, "ckpt"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_strays(self) -> None:
        """Checkpoints older than all that are kept: their writer was killed before it could note them."""
        kept = {os.path.basename(path) for path in self.checkpoints}
        found = self._shared.saved()
        oldest = min((saved for saved in found if saved.name in kept), default=None)
        for saved in found:
            if self._max_to_keep and oldest and saved < oldest and saved.name not in kept:
                self._shared.remove(saved)

    def restore_newest(self) -> Optional[str]:
        """Restores what is newest and whole, the same on all ranks; its path, or None: there is none, nothing was changed.

        One that is damaged is passed over, and said so. Whatever else is wrong raises as tf.train.Checkpoint.restore()
        does: AssertionError, say, if an object of the script is not in the checkpoint.
        """
        keys = service_keys()
        if self._is_writer or keys is None:
            name = self._restore_first(self._shared.saved())
            if keys:
                keys.set("tfe/restored", name)
        else:
            tried = self._restore_ahead()
            found = keys.get("tfe/restored", RESTORE_PATIENCE_S)
            while found is None:  # rank 0 is reading; should it be gone, this raises
                found = keys.get("tfe/restored", RESTORE_PATIENCE_S)
            name = found
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
        self._checkpoint.restore(path).assert_existing_objects_matched()

    def restore_or_initialize(self) -> Optional[str]:
        """As restore_newest(); called by TensorFlow's PreemptionCheckpointHandler."""
        return self.restore_newest()


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
    agent think otherwise, they go on after stand_still_s.
    """

    def __init__(self, directory: "str | os.PathLike[str]", *, step: tf.Variable, every_steps: Optional[int] = None,
                 every_seconds: Optional[float] = None, max_to_keep: int = 3, stand_still_s: float = 10.0,
                 **objects: Any) -> None:
        """directory: on storage that all machines share. step: a whole-number variable that the training step counts up.
        objects: what is to be saved, as tf.train.Checkpoint takes it. ValueError: an interval that is none."""
        if every_steps is not None and every_steps < 1:
            raise ValueError(f"every_steps is {every_steps}; it must be at least 1")
        if every_seconds is not None and not every_seconds > 0:
            raise ValueError(f"every_seconds is {every_seconds}; it must be more than 0")
        self._step = step
        self._every_steps = every_steps
        self._stand_still_s = stand_still_s
        self._data = next((made for made in objects.values() if hasattr(made, "samples_seen")), None)
        self.manager = CheckpointManager(tf.train.Checkpoint(step=step, **objects), directory, max_to_keep,
                                         step_counter=step)
        keys = service_keys()
        self._agreement = Agreement(keys, _place.rank(), _place.world_size())
        self._saved_step = int(step.numpy())
        self._saved_path: Optional[str] = None
        self._every_seconds = every_seconds
        self._keys = keys
        self._timetable: Optional[Timetable] = None
        self._begin_timetable()
        channel().listen()

    def _begin_timetable(self) -> None:
        if self._every_seconds is not None:
            self._timetable = Timetable(self._keys, _place.rank(), self._every_seconds, int(self._step.numpy()))

    def restore(self) -> int:
        """Goes on from what is newest and whole, the same on all ranks. The step that is: as it was, if there is none.

        Call it before the first step. Errors: CheckpointManager.restore_newest().
        """
        self._saved_path = self.manager.restore_newest()
        self._saved_step = int(self._step.numpy())
        self._begin_timetable()
        channel().progress(self._saved_step, self._samples(), restored=True)
        return self._saved_step

    def save(self) -> str:
        """Saves now: all ranks must call it after the same step. The path. StaleEpochError: a later epoch goes on."""
        return self._save(0)

    def after_step(self) -> bool:
        """Call it after every step, on all ranks, and before the next share of the data is taken. While they wait for something,
        call it again and again on all of them, so that the agent is heard. True: a checkpoint of this step was made.

        May not return: a script that is told to stop ends here, once it has saved, with exit status 143.
        """
        here = channel()
        step = int(self._step.numpy())
        here.progress(step, self._samples())
        here.poll()
        wishes = [str(here.save_number)] if here.save_number > here.answered else []
        if here.stop_by is not None:
            wishes.append("stop")
        due = self._agreement.after_step(step, wishes)
        is_time = self._timetable.is_due(step) if self._timetable else False
        if self._every_steps and step // self._every_steps > self._saved_step // self._every_steps:
            is_time = True
        if not due and not is_time:
            return False
        numbers = [int(wish) for wish in due if wish != "stop"]
        self._save(max(numbers, default=0))
        if due:
            self._stand_still(here, step, "stop" in due)
        return True

    def _samples(self) -> Optional[int]:
        return self._data.samples_seen if self._data is not None else None

    def _save(self, answers: int) -> str:
        step = int(self._step.numpy())
        if self._saved_path is None or self._saved_step != step:
            self._saved_path = self.manager.save(step)
            self._saved_step = step
            if self._timetable:
                self._timetable.saved(step)
        here = channel()
        here.answered = max(here.answered, answers)
        if _place.rank() == 0:  # the others' part says nothing about the files that count
            here.checkpoint(step, self._saved_path, answers)
        return self._saved_path

    def _stand_still(self, here: Channel, step: int, is_stop: bool) -> None:
        """Until the end, or until it is clear that there is none."""
        self._say_done(step)
        deadline = time.monotonic() + self._stand_still_s
        if here.save_by is not None:
            deadline = min(deadline, here.save_by)
        while not is_stop and time.monotonic() < deadline:
            here.wait(min(1.0, deadline - time.monotonic()))
            is_stop = here.stop_by is not None
            if here.save_number > here.answered:  # nothing was done since this checkpoint: it answers this one too
                self._agreement.settle(str(here.save_number))
                self._save(here.save_number)
        if is_stop:
            self._go_last(step)
            leave()

    def _say_done(self, step: int) -> None:
        """To rank 0: from here on this rank needs nothing of the service in rank 0's process."""
        if self._keys and _place.rank() != 0:
            try:
                self._keys.set(f"tfe/done/{step}/{_place.rank()}", "")
            except Exception:  # the cluster is coming down already
                pass

    def _go_last(self, step: int) -> None:
        """On rank 0: waits until the others have done with this checkpoint, for saving and agreeing go through a service in
        rank 0's process. Without it they would hang, and be killed at the end of the stop grace."""
        if not self._keys or _place.rank() != 0:
            return
        deadline = time.monotonic() + GO_LAST_S
        try:
            for rank in range(1, _place.world_size()):
                self._keys.get(f"tfe/done/{step}/{rank}", max(0.001, deadline - time.monotonic()))
        except Exception:
            pass


def wait_for_end(seconds: float = 10.0) -> None:
    """For a script that saves by its own means when stop_requested(): call it once the checkpoint is whole, so that nothing is done
    that the checkpoint does not have. Ends the process with status 143 when the agent says so; returns if it does not."""
    here = channel()
    deadline = time.monotonic() + seconds
    while here.stop_by is None and time.monotonic() < deadline:
        here.wait(min(1.0, max(0.0, deadline - time.monotonic())))
    if here.stop_by is not None:
        leave()


def leave() -> NoReturn:
    """Ends this process at once with status 143. Nothing of Python's own ending: it takes TensorFlow 0.8 s, and the others
    of the cluster are ending too, so that it might wait for them in vain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(PREEMPTED)
