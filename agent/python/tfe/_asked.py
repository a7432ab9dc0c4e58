"""What the agent asks of a script that saves: the ranks agree after which step they do it, and stand still until they are ended."""
from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, NoReturn, Optional

from . import _place
from ._agree import Agreement
from ._channel import channel
from ._memory import Memory

PREEMPTED = 143
"""Exit status of a script that was told to stop and has saved: 128 + SIGTERM, which the agent takes for a preemption."""
STAND_STILL_S = 10.0
"""After a checkpoint that the agent has asked for, all wait so long for their end."""
GO_LAST_S = 2.0
"""Rank 0 waits so long for the others before it leaves: they are as far as itself, but for one that has died."""
KEPT_ENOUGH_S = 3.0
"""What is kept in memory was not enough for somebody, if no end comes in this time: then it is saved."""


def _number_of(due: "list[str]") -> int:
    """The highest save_number among them; 0: none is."""
    return max((int(wish) for wish in due if wish != "stop"), default=0)


class Orders:
    """What the agent asks for: the ranks agree after which step they save, and then stand still until they are ended."""

    def __init__(self, keys: Any, stand_still_s: float = STAND_STILL_S) -> None:
        self._keys = keys
        self._stand_still_s = stand_still_s
        self._agreement = Agreement(keys, *_place.peers())
        channel().listen()

    def due(self, turn: int) -> "list[str]":
        """Which of them this rank and all others answer now. turn: grows by 1 from call to call, alike on all ranks; the same again
        while they wait."""
        here = channel()
        here.poll()
        wishes = [str(here.save_number)] if here.save_number > here.answered else []
        if here.stop_by is not None:
            wishes.append("stop")
        return self._agreement.after_step(turn, wishes)

    def saved(self, step: int, path: str, due: "list[str]") -> None:
        """A checkpoint is whole. due: those that it answers; after one of them this may not return."""
        self._tell(step, path, _number_of(due))
        if due:
            self._stand_still(step, lambda: path, "stop" in due)

    def kept(self, step: int, due: "list[str]", memory: Optional[Memory], save: "Callable[[], str]") -> bool:
        """Keeps the state in memory, where that answers all that is due, and stands still; this may not return. save(): the path of a
        checkpoint, should that not be enough. False, alike on all ranks: nothing is due, or it has to be one on disk."""
        here = channel()
        if not due or not memory or not here.in_memory.issuperset(due):
            return False
        memory.take(step)
        if memory.step == step:
            here.kept(step, _number_of(due))
        self._stand_still(step, save, "stop" in due)
        return True

    def _tell(self, step: int, path: str, answers: int) -> None:
        here = channel()
        here.answered = max(here.answered, answers)
        if _place.is_writer():  # the others' part says nothing about the files that count
            here.checkpoint(step, path, answers)

    def _stand_still(self, step: int, save: "Callable[[], str]", is_stop: bool) -> None:
        """Until the end, or until it is clear that there is none. save(): the path of this step's checkpoint."""
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
            if here.save_number > here.answered and not is_kept:  # nothing was done since this step: its checkpoint answers this, too
                self._agreement.settle(str(here.save_number))
                self._tell(step, save(), here.save_number)
        if is_stop:
            self._go_last(step)
            leave()

    def _say_done(self, step: int) -> None:
        """To rank 0: from here on this rank needs nothing of the service in rank 0's process."""
        if self._keys and _place.peers()[0] != 0:
            try:
                self._keys.set(f"tfe/done/{step}/{_place.peers()[0]}", "")
            except Exception:  # the cluster is coming down already
                pass

    def _go_last(self, step: int) -> None:
        """On rank 0: waits until the others have done with this checkpoint, for saving and agreeing go through a service in
        rank 0's process. Without it they would hang, and be killed at the end of the stop grace."""
        if not self._keys or _place.peers()[0] != 0:
            return
        deadline = time.monotonic() + GO_LAST_S
        try:
            for rank in range(1, _place.peers()[1]):
                self._keys.get(f"tfe/done/{step}/{rank}", max(0.001, deadline - time.monotonic()))
        except Exception:
            pass


def leave() -> NoReturn:
    """Ends this process at once with status 143. Nothing of Python's own ending: it takes TensorFlow 0.8 s, and the others
    of the cluster are ending too, so that it might wait for them in vain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(PREEMPTED)
