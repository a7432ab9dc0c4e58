"""Agreement of all ranks on the steps after which they save or take snapshots.

Every rank receives a save request from its own agent, at a slightly different time. It
acknowledges the request under a key of its own and continues to train. When rank 0 has found all
acknowledgements, it chooses the first step after the highest one acknowledged, which no rank has
completed. Ranks that have acknowledged look for the choice after each step by writing "go on" to
the key of that step: the first value of a key is final, and because a step needs all ranks and
rank 0 writes its choice before it takes part in that step, every rank finds the choice in time.
(A read with a timeout would not work: the response may be late, and a rank that continues while
the others wait hangs in the next step.) Ranks that all wait at one step, calling again and again,
report that as well, and rank 0 chooses that step.

The keys are stored in TensorFlow's coordination service inside rank 0's process. An access takes
less than a millisecond and happens only between the request and the save, so undisturbed training
steps have no overhead.
"""
from __future__ import annotations

import collections
import json
import math
import statistics
import time
from typing import Any, Callable, Iterable, Optional, Protocol

GATHER_S = 0.1
"""Seconds per step that rank 0 waits for acknowledgements. The other ranks may already wait for
rank 0 inside the step.
"""
IDLE_S = 0.2
"""Seconds that an idle rank, which calls again at the same step, waits for the choice each time."""
THERE_S = 60.0
"""Seconds to read a value that exists; also the interval of polls for a value that will be set."""
GIVE_UP_S, GIVE_UP_STEPS = 30.0, 20
"""If a rank cannot be reached, rank 0 gives the request up after this time and this many steps."""
GO_ON, SAVE = "on", "save"
SHARE = 0.012
"""Fraction of the time that snapshots in memory may take: at most 2 %, less unmeasured costs."""
CHECK_S = 1.0
"""Seconds between two computations of the snapshot interval."""
KNOWN_STEPS, ENOUGH_STEPS = 32, 3
"""Number of recent steps that are stored, of those after a snapshot and of the others, and number
of each that is needed for a comparison.
"""


class Keys(Protocol):
    """Write-once keys visible to all ranks. Both methods raise if the service cannot be reached."""

    def set(self, key: str, value: str) -> bool:
        """Sets a key. Returns False if it already has a value, which stays."""

    def get(self, key: str, timeout_s: float) -> Optional[str]:
        """Returns the value, or None if there is none within the timeout."""


class ServiceKeys:
    """Keys in the coordination service of a framework's cluster, given its functions set(key, value) and
    get(key, timeout_ms). is_set and is_late recognise the errors "the key exists" and "no value in time".
    """

    def __init__(self, set_value: Callable[[str, str], Any], get_value: Callable[[str, int], Any],
                 is_set: Callable[[Exception], bool], is_late: Callable[[Exception], bool]) -> None:
        self._set, self._get, self._is_set, self._is_late = set_value, get_value, is_set, is_late

    def set(self, key: str, value: str) -> bool:
        try:
            self._set(key, value)
        except Exception as error:
            if self._is_set(error):
                return False
            raise
        return True

    def get(self, key: str, timeout_s: float) -> Optional[str]:
        try:
            return str(self._get(key, max(1, int(timeout_s * 1000))))
        except Exception as error:
            if self._is_late(error):
                return None
            raise


def awaited(keys: Keys, key: str) -> str:
    """Returns a value that another rank will set, without a time limit. Raises if the service is
    gone.
    """
    found = None
    while found is None:
        found = keys.get(key, THERE_S)
    return found


def decided(keys: Optional[Keys], rank: int, key: str, decide: Callable[[], Any]) -> Any:
    """Returns the result of decide() on rank 0 to all ranks, encoded as JSON. Without keys each
    rank decides for itself.
    """
    if keys is None:
        return decide()
    if rank != 0:
        return json.loads(awaited(keys, key))
    plan = decide()
    keys.set(key, json.dumps(plan))
    return plan


class Request:
    """State of one save request on this rank."""

    def __init__(self, now: float, step: int) -> None:
        self.step = step  # when this rank received the request; the save comes later
        self.received: dict[int, int] = {}  # on rank 0 only: step by rank
        self.idle: dict[int, int] = {}
        self.is_idle_published = False
        self.since = now
        self.checks = 0
        self.target: Optional[int] = None


class Agreement:
    """Agreement from the viewpoint of one rank. Without keys (a single rank, or no connection to
    the others) each rank decides for itself.
    """

    def __init__(self, keys: Optional[Keys], rank: int, world: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys if world > 1 else None
        self._rank = rank
        self._world = world
        self._clock = clock
        self._requests: dict[str, Request] = {}
        self._settled: set[str] = set()
        self._last_step = -1

    def after_step(self, step: int, requests: Iterable[str]) -> list[str]:
        """Returns the requests that are due after this step, the same list on all ranks, each once.

        May be called repeatedly at one step if all ranks do so.
        """
        is_idle, self._last_step = step == self._last_step, step
        for request in requests:
            if request not in self._requests and request not in self._settled:
                self._requests[request] = Request(self._clock(), step)
                self._publish(f"tfe/heard/{request}/{self._rank}", str(step))
        due = []
        for request, state in list(self._requests.items()):
            if state.target is None:
                self._check(request, state, step, is_idle)
            if state.target is not None and step >= state.target:
                due.append(request)
            elif state.target is not None or not self._has_waited_enough(state):
                continue
            self.settle(request)
        return due

    def settle(self, request: str) -> None:
        """Forgets a request that was answered or given up."""
        self._requests.pop(request, None)
        self._settled.add(request)

    def _has_waited_enough(self, state: Request) -> bool:
        patience = 1 if self._rank == 0 else 4  # no rank may forget a request that rank 0 can still decide
        return state.checks > GIVE_UP_STEPS * patience and self._clock() - state.since > GIVE_UP_S * patience

    def _publish(self, key: str, value: str) -> None:
        if self._keys:
            try:
                self._keys.set(key, value)
            except Exception:  # the cluster is shutting down; the next step fails or the agent ends it
                pass

    def _check(self, request: str, state: Request, step: int, is_idle: bool) -> None:
        state.checks += 1
        if not self._keys:
            state.target = step
            return
        if is_idle and not state.is_idle_published:
            state.is_idle_published = True
            self._publish(f"tfe/idle/{request}/{self._rank}", str(step))
        try:
            if self._rank == 0:
                self._decide(request, state, step, is_idle)
            elif is_idle:
                found = self._keys.get(f"tfe/save/{request}", IDLE_S)
                state.target = int(found) if found is not None else None
            elif step > state.step and not self._keys.set(f"tfe/at/{request}/{step}", GO_ON):
                if self._keys.get(f"tfe/at/{request}/{step}", THERE_S) == SAVE:
                    state.target = step
        except Exception:
            pass

    def _decide(self, request: str, state: Request, step: int, is_idle: bool) -> None:
        assert self._keys
        if not self._gather(f"tfe/heard/{request}", state.received):
            return
        if not is_idle:
            target = max(step, *state.received.values()) + 1
            while not self._keys.set(f"tfe/at/{request}/{target}", SAVE):
                target += 1
        elif self._gather(f"tfe/idle/{request}", state.idle) and all(other == step for other in state.idle.values()):
            target = step
            self._keys.set(f"tfe/save/{request}", str(target))
        else:
            return  # until all ranks wait here, or another step is complete
        state.target = target

    def _gather(self, key: str, found: dict[int, int]) -> bool:
        """Returns True if every other rank has set its value under the key."""
        assert self._keys
        deadline = self._clock() + GATHER_S
        for rank in range(1, self._world):
            if rank not in found:
                value = self._keys.get(f"{key}/{rank}", max(0.001, deadline - self._clock()))
                if value is None:
                    return False
                found[rank] = int(value)
        return True


class Timetable:
    """Time-based checkpoints, by rank 0's clock, at the same steps on all ranks.

    Every check of the clock takes place at a step that all ranks know and determines the step of
    the next check.
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
        """Records that a checkpoint of this step was made, for any reason."""
        self._step = step
        self._at = self._clock()

    def make_due(self) -> None:
        """Makes a checkpoint due at the next check."""
        self._at -= self._every_s

    def is_due(self, step: int) -> bool:
        """Returns True if all ranks save after this step."""
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
            # Limit the extrapolation from few steps: the first ones are slow, and others may be.
            ahead = min(math.ceil(left * steps / max(passed, 1e-6)), 2 * steps)
            return {"save": is_due, "next": step + max(1, ahead)}
        plan = decided(self._keys, self._rank, f"tfe/time/{self._next}", decide)
        assert isinstance(plan, dict)
        return plan


class Pace:
    """Schedule of snapshots, the same on all ranks: every `every` steps, or as often as rank 0
    finds affordable if that is None.

    A snapshot costs more than its own time: it evicts the training's working set from the
    processor's caches, and the slowest rank delays the next step. Therefore the steps after a
    snapshot are compared with the others. Until enough of both are known, and while every step
    is followed by a snapshot, the delay is assumed to equal the duration of the snapshot.
    """

    def __init__(self, keys: Optional[Keys], rank: int, every: Optional[int], step: int,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._keys, self._rank, self._clock = keys, rank, clock
        self._fixed = every
        self.every = every or 1
        self._base = self._begun = self._step = step
        self._next_check = step + 1
        self._at, self._spent, self._cost, self._taken = clock(), 0.0, 0.0, 0
        self._since: Optional[float] = None
        self._is_after = False
        self._after: "collections.deque[float]" = collections.deque(maxlen=KNOWN_STEPS)
        self._others: "collections.deque[float]" = collections.deque(maxlen=KNOWN_STEPS)
        self._loss: Optional[float] = None

    def took(self, seconds: float) -> None:
        """Records the duration of a snapshot. The cost is the larger of a moving average and the
        mean since the last check.
        """
        self._spent += seconds
        self._taken += 1
        self._cost = seconds if self._cost == 0 else (self._cost + seconds) / 2
        self._since, self._is_after = self._clock(), True

    def is_due(self, step: int) -> bool:
        if self._fixed:  # take the first one in any case, so that a new rank holds the state soon
            return step % self._fixed == 0 or step == self._begun + 1
        now = self._clock()
        if self._since is not None:
            (self._after if self._is_after else self._others).append(now - self._since)
        self._since, self._is_after = now, False
        if step >= self._next_check:
            self.every, self._next_check = self._plan(step)
        elif step - self._base < self.every:
            return False
        self._base = step
        return True

    def _lost_after(self, cost: float) -> float:
        """Returns the delay of the step that follows a snapshot, in seconds."""
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
            # Limit the extrapolation from few steps: the first ones are slow, and others may be.
            ahead = max(every, min(math.ceil(CHECK_S / each), 2 * (step - self._begun)))
            return every, step + every * math.ceil(ahead / every)  # each check also takes a snapshot
        every, next_check = decided(self._keys, self._rank, f"tfe/memory/{self._next_check}", decide)
        return int(every), int(next_check)
