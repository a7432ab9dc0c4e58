"""Which sample comes when: one order of all samples per pass over the data, cut into global batches, cut into shares."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy


def order(size: int, seed: int, epoch: int) -> "numpy.ndarray":
    """All of range(size), shuffled: the same for the same arguments, with every version of NumPy. Eight bytes a sample."""
    import numpy
    # RandomState, not Generator: only its streams are promised to stay as they are.
    shuffled = numpy.random.RandomState(numpy.random.MT19937(numpy.random.SeedSequence([seed, epoch])))
    return shuffled.permutation(size).astype(numpy.int64)


def n_batches(left: int, global_batch: int) -> int:
    """Global batches that so many samples make; the last may be smaller."""
    return -(-left // global_batch)


def share(size: int, part: int, parts: int) -> range:
    """The positions in a global batch of this size that belong to one of parts: all are in exactly one, and no part has
    more than one sample more than another. Some are empty if there are more parts than samples."""
    return range(part, size, parts)
