"""At which step all ranks save, when their agents ask for it.

Every rank hears of the wish by itself, at slightly different times. It then says so, under a key of its own, and goes on
training. Once rank 0 has found the word of all, it names a step that none of them has completed: the first after the
highest that any of them has told. Ranks that have said their word look for it after each step. They look by writing that they
go on from this step: the first value of a key stays, and since a step needs all ranks, and rank 0 writes the name before it
takes part in that step, there it is found. (Asking with a time limit would not do: the answer may be late, and a rank that
goes on while the others stand still hangs in the next step.) Ranks that all stand at one step (they wait for something, and
ask again and again) say that too, and it is the one.

The keys live in the coordination service of TensorFlow, inside rank 0's process; an access costs less than a millisecond,
and happens only between the wish and the save. So nothing is added to a step of undisturbed training.
"""
from __future__ import annotations

import collections
import json
import math
import statistics
import time
from typing import Any, Callable, Iterable, Optional, Protocol

GATHER_S = 0.1
"""Rank 0 waits so long, at each step, for the others' words; they may be waiting for it, inside the step, to hear."""
IDLE_S = 0.2
"""A rank that stands, and asks again and again, waits so long for the name each time."""
THERE_S = 60.0
"""For a value that is there, or for one more look at what is about to be; the time is the network's."""
GIVE_UP_S, GIVE_UP_STEPS = 30.0, 20
"""Some rank cannot be asked: rank 0 forgets the wish after so long, and so many steps."""
GO_ON, SAVE = "on", "save"
SHARE = 0.012
"""Snapshots in memory are to cost this part of the time: at most 2 %, less what is not seen of their cost."""
LOOK_S = 1.0
"""So often it is found out anew how many steps lie between two of them."""
KNOWN_STEPS, ENOUGH_STEPS = 32, 3
"""Of the last steps after a snapshot, and of the last others: how many are kept, and how many of each are compared."""


class Keys(Protocol):
    """Write-once keys that all ranks see. Both raise if the service, or the way to it, is gone."""

    def set(self, key: str, value: str) -> bool:
        """False: there was one already, and the first value stays."""

    def get(self, key: str, timeout_s: float) -> Optional[str]:
        """None: not there in that time."""


def awaited(keys: Keys, key: str) -> str:
    """What another rank, which comes to this too, sets in the end, however long that takes. Should it be gone, this raises."""
    found = None
    while found is None:
        found = keys.get(key, THERE_S)
    return found


def decided(keys: Optional[Keys], rank: int, key: str, decide: Callable[[], Any]) -> Any:
    """What decide() gives on rank 0, on all ranks, by way of JSON. keys None: each decides for itself."""
    if keys is None:
        return decide()
    if rank != 0:
        return json.loads(awaited(keys, key))
    plan = decide()
    keys.set(key, json.dumps(plan))
    return plan


class Wish:
    """What this rank knows of one wish."""

    def __init__(self, now: float, step: int) -> None:
        self.step = step  # at which this rank heard of it: the save comes later
        self.heard: dict[int, int] = {}  # rank 0 only: rank -> step
        self.idle: dict[int, int] = {}
        self.has_said_idle = False
        self.since = now
        self.looks = 0
        self.target: Optional[int] = None


class Agreement:
    """One rank's part. keys None: it is alone, or cannot talk with the others, and each decides for itself."""

    def __init__(self, keys: Optional[Keys], rank: int, world: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys if world > 1 else None
        self._rank = rank
        self._world = world
        self._clock = clock
        self._wishes: dict[str, Wish] = {}
        self._settled: set[str] = set()
        self._last_step = -1

    def after_step(self, step: int, wishes: Iterable[str]) -> list[str]:
        """Which of the wishes are due now, after this step: the same on all ranks. Each is due once.

        May be called again at one step, if all ranks do so.
        """
        is_idle, self._last_step = step == self._last_step, step
        for wish in wishes:
            if wish not in self._wishes and wish not in self._settled:
                self._wishes[wish] = Wish(self._clock(), step)
                self._say(f"tfe/heard/{wish}/{self._rank}", str(step))
        due = []
        for wish, state in list(self._wishes.items()):
            if state.target is None:
                self._look(wish, state, step, is_idle)
            if state.target is not None and step >= state.target:
                due.append(wish)
            elif state.target is not None or not self._has_waited_enough(state):
                continue
            self.settle(wish)
        return due

    def settle(self, wish: str) -> None:
        """Answered, or given up."""
        self._wishes.pop(wish, None)
        self._settled.add(wish)

    def _has_waited_enough(self, state: Wish) -> bool:
        patience = 1 if self._rank == 0 else 4  # none may forget what rank 0 can still decide
        return state.looks > GIVE_UP_STEPS * patience and self._clock() - state.since > GIVE_UP_S * patience

    def _say(self, key: str, value: str) -> None:
        if self._keys:
            try:
                self._keys.set(key, value)
            except Exception:  # the cluster is coming down; the next step will say so, or the agent end it
                pass

    def _look(self, wish: str, state: Wish, step: int, is_idle: bool) -> None:
        state.looks += 1
        if not self._keys:
            state.target = step
            return
        if is_idle and not state.has_said_idle:
            state.has_said_idle = True
            self._say(f"tfe/idle/{wish}/{self._rank}", str(step))
        try:
            if self._rank == 0:
                self._decide(wish, state, step, is_idle)
            elif is_idle:
                found = self._keys.get(f"tfe/save/{wish}", IDLE_S)
                state.target = int(found) if found is not None else None
            elif step > state.step and not self._keys.set(f"tfe/at/{wish}/{step}", GO_ON):
                if self._keys.get(f"tfe/at/{wish}/{step}", THERE_S) == SAVE:
                    state.target = step
        except Exception:
            pass

    def _decide(self, wish: str, state: Wish, step: int, is_idle: bool) -> None:
        assert self._keys
        if not self._gather(f"tfe/heard/{wish}", state.heard):
            return
        if not is_idle:
            target = max(step, *state.heard.values()) + 1
            while not self._keys.set(f"tfe/at/{wish}/{target}", SAVE):
                target += 1
        elif self._gather(f"tfe/idle/{wish}", state.idle) and all(other == step for other in state.idle.values()):
            target = step
            self._keys.set(f"tfe/save/{wish}", str(target))
        else:
            return  # until they stand here too, or there is another step
        state.target = target

    def _gather(self, key: str, found: dict[int, int]) -> bool:
        """Whether every other rank has said its word under the key."""
        assert self._keys
        deadline = self._clock() + GATHER_S
        for rank in range(1, self._world):
            if rank not in found:
                word = self._keys.get(f"{key}/{rank}", max(0.001, deadline - self._clock()))
                if word is None:
                    return False
                found[rank] = int(word)
        return True


class Timetable:
    """Checkpoints every so many seconds by rank 0's clock, at the same steps on all ranks.

    Each look at the clock is at a step that all ranks know, and says at which step to look next.
    """

    def __init__(self, keys: Optional[Keys], rank: int, every_s: float, step: int,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._rank = rank
        self._every_s = every_s
        self._clock = clock
        self._next = step + 1
        self.saved(step)

    def saved(self, step: int) -> None:
        """A checkpoint was made at this step, for whatever reason."""
        self._step = step
        self._at = self._clock()

    def make_due(self) -> None:
        """At the next look."""
        self._at -= self._every_s

    def is_due(self, step: int) -> bool:
        """Whether all ranks save after this step."""
        if step < self._next:
            return False
        plan = self._plan(step)
        self._next = max(step + 1, plan["next"])
        return bool(plan["save"])

    def _plan(self, step: int) -> dict[str, Any]:
        def decide() -> dict[str, Any]:
            passed = self._clock() - self._at
            steps = max(1, step - self._step)
            is_due = passed >= self._every_s
            left = self._every_s if is_due else self._every_s - passed
            # Not too far on the strength of few steps: the first ones are slow, and others may be.
            ahead = min(math.ceil(left * steps / max(passed, 1e-6)), 2 * steps)
            return {"save": is_due, "next": step + max(1, ahead)}
        plan = decided(self._keys, self._rank, f"tfe/time/{self._next}", decide)
        assert isinstance(plan, dict)
        return plan


class Pace:
    """After which steps a snapshot is taken: the same on all ranks. every: fixed; None: as rank 0 finds that it may cost.

    A snapshot costs more than its own time: it drives what the training works with out of the processor's caches, and the
    slowest rank holds the next step up. So the steps that follow one are compared with the others. Until enough of both are
    known (and as long as there is a snapshot after every step), what follows is taken to cost as much as the snapshot.
    """

    def __init__(self, keys: Optional[Keys], rank: int, every: Optional[int], step: int,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._keys, self._rank, self._clock = keys, rank, clock
        self._fixed = every
        self.every = every or 1
        self._base = self._begun = self._step = step
        self._look = step + 1
        self._at, self._spent, self._cost, self._taken = clock(), 0.0, 0.0, 0
        self._since: Optional[float] = None
        self._is_after = False
        self._after: "collections.deque[float]" = collections.deque(maxlen=KNOWN_STEPS)
        self._others: "collections.deque[float]" = collections.deque(maxlen=KNOWN_STEPS)
        self._loss: Optional[float] = None

    def took(self, seconds: float) -> None:
        """A snapshot. It counts as one of the last few, or of all since the last look, whichever says more."""
        self._spent += seconds
        self._taken += 1
        self._cost = seconds if self._cost == 0 else (self._cost + seconds) / 2
        self._since, self._is_after = self._clock(), True

    def is_due(self, step: int) -> bool:
        if self._fixed:  # the first in any case: a newcomer is to hold the state as soon as it can
            return step % self._fixed == 0 or step == self._begun + 1
        now = self._clock()
        if self._since is not None:
            (self._after if self._is_after else self._others).append(now - self._since)
        self._since, self._is_after = now, False
        if step >= self._look:
            self.every, self._look = self._plan(step)
        elif step - self._base < self.every:
            return False
        self._base = step
        return True

    def _lost_after(self, cost: float) -> float:
        """Of the step that follows a snapshot; in seconds."""
        if min(len(self._after), len(self._others)) >= ENOUGH_STEPS:
            self._loss = max(0.0, statistics.median(self._after) - statistics.median(self._others))
        return cost if self._loss is None else self._loss

    def _plan(self, step: int) -> "tuple[int, int]":
        def decide() -> "tuple[int, int]":
            now, steps = self._clock(), max(1, step - self._step)
            each = max(1e-6, (now - self._at - self._spent) / steps)
            cost = max(self._cost, self._spent / max(1, self._taken))
            self._at, self._spent, self._taken, self._step = now, 0.0, 0, step
            every = max(1, math.ceil((cost + self._lost_after(cost)) / (SHARE * each)))
            # Not too far on the strength of few steps: the first ones are slow, and others may be.
            ahead = max(every, min(math.ceil(LOOK_S / each), 2 * (step - self._begun)))
            return every, step + every * math.ceil(ahead / every)  # each look is one more snapshot, too
        every, look = decided(self._keys, self._rank, f"tfe/memory/{self._look}", decide)
        return int(every), int(look)
