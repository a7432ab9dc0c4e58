"""Snapshots of a training's state in memory that survives this process, and the choice of the one
that all ranks restore.

The agent lends memory to each trainer's place (PROTOCOL.md, section 10). It contains two buffers
with a header each. A header is cleared before its buffer is written and set afterwards, its
checksum last. A process that is killed at any point therefore leaves the other buffer intact, and
this one marked as incomplete.
"""
from __future__ import annotations

import concurrent.futures
import hashlib
import json
import mmap
import os
import struct
import zlib
from typing import Any, Callable, NamedTuple, Optional, Sequence

import numpy as np

from ._agree import Keys, awaited

HEADERS = 4096
"""Bytes before the buffers; the headers are at 0 and at half of it."""
FIELDS = struct.Struct("<8s32s32sQQQ")
"""Header: magic, run, digest of the structure, epoch, step, size of the body; its checksum follows.
"""
TAIL = struct.Struct("<III")
"""End of a body: number of values, length of the directory before it, and the directory's checksum.
The directory lists name, position and checksum of each value; the values come before it.
"""
SUM = struct.Struct("<Q")
MAGIC = b"tfestat2"
ALIGN = 64
CHUNK = 2 << 20
"""Bytes copied and then summed while they are in the processor's cache. Smaller chunks cost more
calls than they save.
"""
SLICE = 4 << 20
"""Minimum number of bytes for a thread of its own."""


class Unfit(Exception):
    """The state cannot be stored in memory; the message gives the reason."""


class Part(NamedTuple):
    """One tensor, as a TensorFlow checkpoint names it."""
    name: str
    slice: str
    dtype: str
    """Name of the type in NumPy or TensorFlow; "string" for text."""
    shape: "tuple[int, ...]"
    data: Any
    """Contents as a flat uint8 array."""
    lengths: "list[int] | None" = None
    """Length of each element of a "string"."""


class Held(NamedTuple):
    """Description of a complete snapshot. Sorts by the age of its state."""
    epoch: int
    step: int
    digest: str
    """Digest of the structure."""
    content: int
    """Checksum of everything that must be equal on all ranks."""
    size: int
    """Size of the body, which may differ between equal snapshots."""

    def is_same(self, other: "Held") -> bool:
        return self[:4] == other[:4]


class Snapshot(NamedTuple):
    held: Held
    parts: "list[Part]"
    body: Any
    """Complete contents as a flat uint8 array, readable by read_body()."""


def structure(parts: Sequence[Part]) -> "dict[tuple[str, str], tuple[str, Optional[tuple[int, ...]]]]":
    """Returns type and shape by (name, slice); the length of strings may vary."""
    return {(part.name, part.slice): (part.dtype, part.shape) for part in parts}


class Layout(NamedTuple):
    """Layout of a body without the values, the same for most snapshots of a training."""
    key: "list[Any]"
    """Properties of the parts that determine the layout."""
    digest: bytes
    rows: bytes
    places: "list[tuple[int, int]]"
    """First byte and end of each value."""
    size: int
    """Size of the whole body."""


def _key(parts: Sequence[Part]) -> "list[Any]":
    return [(*part[:4], part.lengths, len(part.data)) for part in parts]


def layout_of(parts: Sequence[Part]) -> Layout:
    places, rows, end = [], [], 0
    for part in parts:
        rows.append([*part[:4], part.lengths, end, len(part.data)])
        places.append((end, end + len(part.data)))
        end += _up(len(part.data))
    text = json.dumps(rows).encode()
    size = end + len(text) + SUM.size * len(rows) + TAIL.size
    return Layout(_key(parts), bytes.fromhex(digest_of(parts)), text, places, size)


def digest_of(parts: Sequence[Part]) -> str:
    text = json.dumps(sorted((*key, *kind) for key, kind in structure(parts).items()))
    return hashlib.sha256(text.encode()).hexdigest()


def fits(snapshot: "Sequence[Part]", existing: "Sequence[Part]") -> bool:
    """Returns True if the snapshot has a value for everything that exists. It may have more,
    because some variables are created later.
    """
    there = structure(snapshot)
    return all(there.get(key) == kind for key, kind in structure(existing).items())


def _up(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _sum(data: Any) -> int:
    """Returns the sum of all bytes as 8-byte words, modulo 2**64."""
    whole = len(data) // 8 * 8
    words = data[:whole].view(np.uint64)
    return (int(np.add.reduce(words, dtype=np.uint64)) + int.from_bytes(bytes(data[whole:]), "little")) % 2**64


def _copy(target: Any, source: Any) -> int:
    """Copies and returns the checksum. It is computed from the source, which is still in the
    processor's cache, unlike the target.
    """
    total = 0
    for start in range(0, len(source), CHUNK):
        piece = source[start:start + CHUNK]
        target[start:start + CHUNK] = piece
        total += _sum(piece)
    return total % 2**64


_pool: Optional[concurrent.futures.ThreadPoolExecutor] = None
_threads = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


def _shares(parts: "Sequence[tuple[Any, ...]]", n: int, total: int) -> "list[list[tuple[Any, ...]]]":
    """Divides parts of `total` bytes into n lists of about equal size: (index of the part, slices).
    """
    share = _up(-(-total // n))
    shares: "list[list[tuple[Any, ...]]]" = [[] for _ in range(n)]
    filled = 0
    for index, arrays in enumerate(parts):
        start = 0
        while start < len(arrays[0]):
            size = _up(share - filled % share)  # whole 8-byte words, which the checksum is made of
            slices = [array[start:start + size] for array in arrays]
            shares[filled // share].append((index, *slices))
            filled += len(slices[0])
            start += size
    return shares


def _sums(function: Callable[..., int], parts: "Sequence[tuple[Any, ...]]") -> "list[int]":
    """Applies the function to each part, arrays of equal length, and returns the results. Large
    amounts are divided among several threads including this one; each gets its whole share at
    once, because handing over is expensive.
    """
    global _pool
    total = sum(len(arrays[0]) for arrays in parts)
    n = min(_threads, total // SLICE)
    if n < 2:
        return [function(*arrays) for arrays in parts]
    if _pool is None:
        _pool = concurrent.futures.ThreadPoolExecutor(_threads - 1, thread_name_prefix="tfe-state")

    def find(share: "list[tuple[Any, ...]]") -> "list[tuple[int, int]]":
        return [(index, function(*arrays)) for index, *arrays in share]
    shares = _shares(parts, n, total)
    others = [_pool.submit(find, share) for share in shares[1:]]
    sums = [0] * len(parts)
    for found in (find(shares[0]), *(other.result() for other in others)):
        for index, one in found:
            sums[index] = (sums[index] + one) % 2**64
    return sums


def _content(rows: "list[Any]") -> int:
    """Returns a checksum of the directory without save_counter and the object graph, which only
    rank 0 maintains.
    """
    own = ("save_counter/", "_CHECKPOINTABLE_OBJECT_GRAPH")
    return zlib.crc32(json.dumps([row for row in rows if not row[0].startswith(own)]).encode())


def read_body(body: Any, epoch: int, step: int) -> Optional[Snapshot]:
    """Returns the snapshot in a body, or None if it is damaged."""
    end = len(body) - TAIL.size
    try:
        count, length, checksum = TAIL.unpack(bytes(body[end:]))
        directory = bytes(body[end - length:end])
        if zlib.crc32(directory) != checksum:
            return None
        sums = struct.unpack(f"<{count}Q", directory[length - SUM.size * count:])
        rows = [[*row, found] for row, found in zip(json.loads(directory[:length - SUM.size * count]), sums)]
        parts = [Part(name, cut, dtype, tuple(shape), body[start:start + size], lengths)
                 for name, cut, dtype, shape, lengths, start, size, _ in rows]
        if any(len(part.data) != row[6] for part, row in zip(parts, rows)):
            return None
        if _sums(_sum, [(part.data,) for part in parts]) != [row[7] for row in rows]:
            return None
    except (ValueError, TypeError, IndexError, struct.error):
        return None
    return Snapshot(Held(epoch, step, digest_of(parts), _content(rows), len(body)), parts, body)


def _fill(body: Any, layout: Layout, parts: Sequence[Part]) -> None:
    """Writes the values and then their directory with the checksums into a body of layout.size bytes."""
    sums = _sums(_copy, [(body[start:end], part.data) for (start, end), part in zip(layout.places, parts)])
    directory = layout.rows + struct.pack(f"<{len(sums)}Q", *sums)
    directory += TAIL.pack(len(sums), len(directory), zlib.crc32(directory))
    body[layout.size - len(directory):] = np.frombuffer(directory, np.uint8)


def body_of(parts: Sequence[Part]) -> Any:
    """Returns the parts as bytes that read_body() reads."""
    layout = layout_of(parts)
    body = np.zeros(layout.size, np.uint8)
    _fill(body, layout, parts)
    return body


class Buffers:
    """The two buffers in the agent's memory. Snapshots of other runs are invisible."""

    def __init__(self, memory: Any, run: str) -> None:
        """memory must be writable and hold at least the headers."""
        self._bytes = np.frombuffer(memory, np.uint8)
        self._run = hashlib.sha256(run.encode()).digest()
        self.capacity = max(0, len(self._bytes) - HEADERS) // 2 // ALIGN * ALIGN
        """Maximum size of a snapshot in bytes."""
        self._layout: Optional[Layout] = None
        self.pinned: Optional[int] = None
        """Index of a buffer that is being read and must not be overwritten, or None."""

    def _header(self, index: int) -> Any:
        start = index * HEADERS // 2
        return self._bytes[start:start + FIELDS.size + 4]

    def _buffer(self, index: int) -> Any:
        start = HEADERS + index * self.capacity
        return self._bytes[start:start + self.capacity]

    def _fields(self, index: int) -> "Optional[tuple[Any, ...]]":
        """Returns the header's fields, or None if the header is damaged or of another run."""
        header = bytes(self._header(index))
        if zlib.crc32(header[:FIELDS.size]) != int.from_bytes(header[FIELDS.size:], "little"):
            return None
        fields = FIELDS.unpack(header[:FIELDS.size])
        if fields[0] != MAGIC or fields[1] != self._run or fields[5] > self.capacity:
            return None
        return fields

    def read(self, index: int) -> Optional[Snapshot]:
        """Reads a snapshot without copying; it is valid until it is overwritten. Returns None if it
        is damaged.
        """
        fields = self._fields(index)
        if fields is None:
            return None
        _, _, digest, epoch, step, size = fields
        snapshot = read_body(self._buffer(index)[:size], epoch, step)
        return snapshot if snapshot and snapshot.held.digest == digest.hex() else None

    def whole(self) -> "list[Snapshot]":
        """Returns the intact snapshots, newest first."""
        found = [snapshot for snapshot in map(self.read, (0, 1)) if snapshot]
        return sorted(found, key=lambda snapshot: snapshot.held, reverse=True)

    def layout_of(self, parts: Sequence[Part]) -> Layout:
        """Returns layout_of(parts), cached for the next snapshot."""
        if self._layout is None or self._layout.key != _key(parts):
            self._layout = layout_of(parts)
        return self._layout

    def has_room(self, parts: Sequence[Part]) -> bool:
        return self.layout_of(parts).size <= self.capacity

    def wipe(self) -> None:
        """Invalidates both snapshots."""
        for index in (0, 1):
            self._header(index)[:] = 0

    def write(self, epoch: int, step: int, parts: Sequence[Part]) -> int:
        """Writes a snapshot to the older buffer and returns its index. Raises ValueError if it does
        not fit, see size_of().
        """
        ages = [(fields[3], fields[4]) if fields else (-1, -1) for fields in map(self._fields, (0, 1))]
        index = int(ages[1] < ages[0]) if self.pinned is None else 1 - self.pinned
        layout = self.layout_of(parts)
        if layout.size > self.capacity:
            raise ValueError(f"a snapshot of {layout.size} bytes in memory for {self.capacity}")
        header, body = self._header(index), self._buffer(index)[:layout.size]
        header[:] = 0
        _fill(body, layout, parts)
        fields = FIELDS.pack(MAGIC, self._run, layout.digest, epoch, step, layout.size)
        header[:FIELDS.size] = np.frombuffer(fields, np.uint8)
        header[FIELDS.size:] = np.frombuffer(zlib.crc32(fields).to_bytes(4, "little"), np.uint8)
        return index


def size_of(parts: Sequence[Part]) -> int:
    """Returns the bytes of memory that two snapshots of these parts need."""
    return HEADERS + 2 * _up(layout_of(parts).size)


def map_memory(fd: int, size: int) -> mmap.mmap:
    """Maps the memory and closes the descriptor. All pages exist, so they are mapped at once."""
    try:
        return mmap.mmap(fd, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
    finally:
        os.close(fd)


class Choice(NamedTuple):
    """The snapshot that all ranks restore."""
    held: Held
    """Description of the first holder's snapshot."""
    holders: "list[int]"
    disk_step: int
    """Step of the newest checkpoint on disk, which is older, or -1 if there is none."""

    def saved_step(self, step: int) -> int:
        """Returns the step that the disk counts as having, given that the training is at `step`."""
        return min(step, max(0, self.disk_step))


def choose(offers: "list[dict[str, Any]]", disk: "Optional[tuple[int, int]]") -> Optional[Choice]:
    """Chooses a snapshot, on rank 0.

    offers has for each rank a digest of its existing objects and the snapshots that fit them;
    disk is (epoch, step) of the newest checkpoint. Returns None if the disk has the newest
    state, no rank has a snapshot, or the ranks differ.
    """
    if len({offer["existing"] for offer in offers}) != 1:
        return None
    held = [(Held(*one), rank) for rank, offer in enumerate(offers) for one in offer["held"]]
    best = max((one[:4] for one, _ in held), default=None)
    newest = next((one for one, _ in held if one[:4] == best), None)
    if newest is None or (disk is not None and (newest.epoch, newest.step) < disk):
        return None
    return Choice(newest, [rank for one, rank in held if one.is_same(newest)], disk[1] if disk else -1)


def agree(keys: Optional[Keys], rank: int, world: int, turn: int, existing: str, held: "list[Held]",
          disk: "Callable[[], Optional[tuple[int, int]]]") -> Optional[Choice]:
    """Returns the same choice on all ranks; all call it with their turn-th restore of this epoch.
    disk() is called on rank 0 only. Raises if the service cannot be reached.
    """
    offer = {"existing": existing, "held": held}
    if keys is None:
        return choose([offer], disk()) if world == 1 else None

    prefix = f"tfe/state/{turn}"
    if rank != 0:
        keys.set(f"{prefix}/{rank}", json.dumps(offer))
        found = json.loads(awaited(keys, f"{prefix}/choice"))
        return Choice(Held(*found[0]), found[1], found[2]) if found else None
    choice = choose([offer, *(json.loads(awaited(keys, f"{prefix}/{other}")) for other in range(1, world))], disk())
    keys.set(f"{prefix}/choice", json.dumps(choice))
    return choice
