"""Snapshots in the agent's memory: takes and restores them and decides how often."""
from __future__ import annotations

import itertools
import os
import sys
import time
from typing import Any, Callable, Optional, Protocol

from . import _position, _state
from ._agree import Keys, Pace
from ._channel import channel
from ._state import Unfit

ROOM = 9 / 8
"""Factor on the needed size, so that the state can grow slightly without new memory."""
_turns = itertools.count()
_owner: "Optional[tuple[str, Memory]]" = None


class Contents(Protocol):
    """The state that snapshots are taken of, as a framework has it."""

    def number(self) -> int:
        """Returns the current step."""

    def parts(self) -> "list[_state.Part]":
        """Returns the state. Raises Unfit if it cannot be stored in memory."""

    def existing(self) -> "list[_state.Part]":
        """Returns the parts that a snapshot must contain to fit."""

    def put_back(self, parts: "list[_state.Part]") -> None:
        """Restores the state."""

    def rows(self, parts: "list[_state.Part]") -> "list[Any]":
        """Returns copies of the parts in the form that the manager of checkpoints writes."""

    def broadcast(self, body: Any, size: int, root: int, world: int) -> Any:
        """Returns root's body on all ranks; body is None on ranks other than root. Collective."""


class Memory:
    """Snapshots of one checkpoint's objects in memory that the agent lends to this place."""

    def __init__(self, objects: Contents, keys: Optional[Keys], every: Optional[int]) -> None:
        self._objects, self._keys, self._every = objects, keys, every
        (self._rank, self._world), self._epoch = _position.peers(), _position.epoch()
        self._buffers: Optional[_state.Buffers] = None
        self._reads: Optional[_state.Buffers] = None
        self._refused = False
        self._requested = 0
        self._taken, self._turned = -1, -1
        self._pace = Pace(keys, self._rank, every, objects.number())

    @property
    def step(self) -> int:
        """Step of the newest snapshot that this rank has taken, or -1 if none in this epoch."""
        return self._taken

    def restore(self, disk: "Callable[[], Optional[tuple[int, int]]]") -> Optional[_state.Choice]:
        """Restores the newest snapshot that any rank holds, unless a checkpoint on disk is newer.

        Returns the choice, the same on all ranks, or None if nothing has changed. Collective
        over all ranks.
        """
        existing = self._objects.existing()
        held = [snapshot for snapshot in self._left() if _state.fits(snapshot.parts, existing)]
        choice = _state.agree(self._keys, self._rank, self._world, next(_turns), _state.digest_of(existing),
                              [snapshot.held for snapshot in held], disk)
        own: Optional[_state.Snapshot] = None
        if choice is not None:
            own = next((snapshot for snapshot in held if snapshot.held.is_same(choice.held)), None)
            if len(choice.holders) < self._world:
                own = self._received(choice, own)
            assert own is not None
            self._objects.put_back(own.parts)
        self._has_room(own.parts if own else existing)
        self._pace = Pace(self._keys, self._rank, self._every, self._objects.number())
        return choice

    def _left(self) -> "list[_state.Snapshot]":
        """Returns the snapshots that the previous trainer left in this place."""
        here = channel()
        if not here.listen():
            return []
        here.left_memory()
        self._receive_memory()
        return self._buffers.whole() if self._buffers else []

    def _received(self, choice: _state.Choice, own: Optional[_state.Snapshot]) -> _state.Snapshot:
        root, held = choice.holders[0], choice.held
        body = self._objects.broadcast(own.body if own and self._rank == root else None, held.size, root, self._world)
        if self._rank in choice.holders:
            assert own is not None
            return own
        received = _state.read_body(body, held.epoch, held.step)
        if received is None or received.held != held:
            raise RuntimeError(f"the state of step {held.step} received from rank {root} does not match its description")
        return received

    def after_step(self, step: int, for_disk: bool = False, saved: bool = False) -> "Optional[Callable[[], list[Any]]]":
        """Takes a snapshot if one is due, for the disk, or saved; called on all ranks after every step.

        for_disk requests a snapshot regardless of the schedule; for the result see take(). saved
        means that a checkpoint of this step is written to disk, so memory must not be older.
        """
        self._receive_memory()
        # All ranks consult the schedule regardless of their own success, or one would wait for a
        # value that is never set.
        is_due = step != self._turned and self._pace.is_due(step)
        self._turned = step
        return self.take(step, for_disk) if is_due or for_disk or saved else None

    def take(self, step: int, for_disk: bool = False) -> "Optional[Callable[[], list[Any]]]":
        """Takes a snapshot of this step; all ranks call it after the same step.

        With for_disk, returns a function that reads the snapshot once, in any thread, or None, alike
        on all ranks, if the state cannot be stored.
        """
        began = time.monotonic()
        try:
            parts = self._objects.parts()
        except Unfit as error:
            self._refuse(str(error))
            return None
        reader = None
        if self._has_room(parts) and self._buffers:
            buffers = self._buffers
            index = buffers.write(self._epoch, step, parts)
            self._taken = step
            channel().snapshot(step)
            if for_disk and self._rank == 0:
                reader = self._pinned(buffers, index)
        elif for_disk and self._rank == 0:  # no memory yet: use memory of this process until it is read
            reader = self._objects.rows(parts).copy
        self._pace.took(time.monotonic() - began)
        return reader or list if for_disk else None

    def _pinned(self, buffers: _state.Buffers, index: int) -> "Callable[[], list[Any]]":
        """Protects a buffer until it is read or unpin() is called; new snapshots use the other one,
        so that they need not wait for the disk.
        """
        buffers.pinned = index
        self._reads = buffers

        def read() -> "list[Any]":
            found = buffers.read(index)
            if found is None:
                raise RuntimeError("a snapshot in memory is corrupt")
            rows = self._objects.rows(found.parts)
            self.unpin()
            return rows
        return read

    def unpin(self) -> None:
        """Releases a snapshot that no longer has to be read."""
        if self._reads:
            self._reads.pinned = None
            self._reads = None

    def forget(self, why: str) -> None:
        """Deletes all snapshots. This object must not be used afterwards."""
        if self._buffers:
            self._buffers.wipe()
        self._refuse(why)

    def _has_room(self, parts: "list[_state.Part]") -> bool:
        """Returns True if the snapshot fits; otherwise requests larger memory from the agent."""
        if self._buffers and self._buffers.has_room(parts):
            return True
        size = _state.size_of(parts)
        if not self._refused and self._requested < size:
            self._requested = int(size * ROOM)
            channel().ask_memory(self._requested)
        return False

    def _receive_memory(self) -> None:
        here = channel()
        if here.memory is None:
            return
        (file, size, why), here.memory = here.memory, None
        if file >= 0:
            self._buffers = _state.Buffers(_state.map_memory(file, size), _position.run())
        elif why:
            self._refuse(why)

    def _refuse(self, why: str) -> None:
        if not self._refused:
            self._refused = True
            print(f"tfe: no snapshots in memory: {why}", file=sys.stderr, flush=True)


def memory_of(objects: Contents, keys: Optional[Keys], every: Optional[int]) -> Optional[Memory]:
    """Returns the memory, or None if snapshots are not possible.

    That is the case without an agent, if the ranks cannot communicate, and if another checkpoint
    of this process uses the memory. It is also the case with parameter servers, because they
    hold the state and restart together with the chief, and copying the state to the chief takes
    as long as writing it to disk; and for an evaluator, which has no state to lose.
    """
    global _owner
    if not _position.has_agent() or (keys is None and _position.peers()[1] > 1) or _position.has_ps() or not _position.is_writer() and _position.peers()[1] == 1:
        return None
    key = f"{os.getpid()} {_position.epoch()}"
    if _owner is not None and _owner[0] == key:
        return None
    memory = Memory(objects, keys, every)
    try:
        objects.parts()
    except Unfit as error:
        print(f"tfe: no snapshots in memory: {error}", file=sys.stderr, flush=True)
        return None
    _owner = (key, memory)
    return memory
