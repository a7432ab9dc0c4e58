"""Requests of the agent to a script that saves: the ranks agree on a step, save after it, and wait
there until they are ended.
"""
from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, NoReturn, Optional

from . import _position
from ._agree import Agreement
from ._channel import channel
from ._memory import Memory

PREEMPTED = 143
"""Exit status of a script that was told to stop and has saved: 128 + SIGTERM, which the agent
treats as a preemption.
"""
STAND_STILL_S = 10.0
"""Seconds that all ranks wait to be ended after a requested checkpoint."""
GO_LAST_S = 2.0
"""Seconds that rank 0 waits for the others before it exits; only a dead rank takes longer."""
KEPT_ENOUGH_S = 3.0
"""If no end follows within this many seconds, a snapshot in memory was not sufficient, and a
checkpoint is saved.
"""


def _number_of(due: "list[str]") -> int:
    """Returns the highest save number in the list, or 0 if there is none."""
    return max((int(wish) for wish in due if wish != "stop"), default=0)


class Requests:
    """Requests of the agent: the ranks agree after which step they save, and then wait until they
    are ended.
    """

    def __init__(self, keys: Any, stand_still_s: float = STAND_STILL_S) -> None:
        self._keys = keys
        self._stand_still_s = stand_still_s
        self._agreement = Agreement(keys, *_position.peers())
        channel().listen()

    def due(self, turn: int) -> "list[str]":
        """Returns the requests that all ranks answer now. turn increases by 1 per call, alike on
        all ranks; it stays the same while they wait.
        """
        here = channel()
        here.poll()
        wishes = [str(here.save_number)] if here.save_number > here.answered else []
        if here.stop_by is not None:
            wishes.append("stop")
        return self._agreement.after_step(turn, wishes)

    def saved(self, step: int, path: str, due: "list[str]") -> None:
        """Reports a complete checkpoint that answers the requests in due. If due is not empty, this
        may not return.
        """
        self._tell(step, path, _number_of(due))
        if due:
            self._stand_still(step, lambda: path, "stop" in due)

    def kept(self, step: int, due: "list[str]", memory: Optional[Memory], save: "Callable[[], str]") -> bool:
        """Answers all requests in due by a snapshot in memory, if that is sufficient, and waits to
        be ended; this may not return.

        save() makes a checkpoint and returns its path, in case the snapshot proves insufficient.
        Returns False, alike on all ranks, if nothing is due or a checkpoint on disk is required.
        """
        here = channel()
        if not due or not memory or not here.in_memory.issuperset(due):
            return False
        memory.take(step)
        if memory.step == step:
            here.snapshot(step, _number_of(due))
        self._stand_still(step, save, "stop" in due)
        return True

    def _tell(self, step: int, path: str, answers: int) -> None:
        here = channel()
        here.answered = max(here.answered, answers)
        if _position.is_writer():  # files written by other ranks do not count
            here.checkpoint(step, path, answers)

    def _stand_still(self, step: int, save: "Callable[[], str]", is_stop: bool) -> None:
        """Waits until the process is ended or it is clear that it will not be. save() returns the
        path of this step's checkpoint.
        """
        here = channel()
        self._say_done(step)
        deadline = time.monotonic() + self._stand_still_s
        kept_until = time.monotonic() + KEPT_ENOUGH_S
        if here.save_by is not None:
            deadline = min(deadline, here.save_by)
        while not is_stop and time.monotonic() < deadline:
            here.wait(min(1.0, deadline - time.monotonic()))
            is_stop = here.stop_by is not None
            is_kept = (is_stop or time.monotonic() < kept_until) and ("stop" if is_stop else str(here.save_number)) in here.in_memory
            # no step was done since, so the checkpoint of this step answers this request too
            if here.save_number > here.answered and not is_kept:
                self._agreement.settle(str(here.save_number))
                self._tell(step, save(), here.save_number)
        if is_stop:
            self._go_last(step)
            leave()

    def _say_done(self, step: int) -> None:
        """Tells rank 0 that this rank no longer needs the service in rank 0's process."""
        if self._keys and _position.peers()[0] != 0:
            try:
                self._keys.set(f"tfe/done/{step}/{_position.peers()[0]}", "")
            except Exception:  # the cluster is already shutting down
                pass

    def _go_last(self, step: int) -> None:
        """On rank 0, waits until the other ranks have finished this checkpoint. Saving and agreeing
        use a service in rank 0's process; without it they would hang until they are killed at
        the end of the stop grace.
        """
        if not self._keys or _position.peers()[0] != 0:
            return
        deadline = time.monotonic() + GO_LAST_S
        try:
            for rank in range(1, _position.peers()[1]):
                self._keys.get(f"tfe/done/{step}/{rank}", max(0.001, deadline - time.monotonic()))
        except Exception:
            pass


def leave() -> NoReturn:
    """Ends this process at once with status 143. Skips Python's shutdown, which takes TensorFlow
    0.8 s and may wait in vain for other members that are ending.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(PREEMPTED)


def wait_for_end(seconds: float = 10.0) -> None:
    """Waits to be ended, for a script that saves by its own means after stop_requested(). Call it
    once the checkpoint is complete, so that no further step is lost.

    Ends the process with status 143 when the agent says so; returns after the given number of
    seconds otherwise.
    """
    here = channel()
    deadline = time.monotonic() + seconds
    while here.stop_by is None and time.monotonic() < deadline:
        here.wait(min(1.0, max(0.0, deadline - time.monotonic())))
    if here.stop_by is not None:
        leave()
