"""Order of samples: one permutation per pass over the data, divided into global batches and shares.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy


def permutation(size: int, seed: int, epoch: int) -> "numpy.ndarray":
    """Returns a permutation of range(size), shape (size,), int64; the same for equal arguments with
    every version of NumPy.
    """
    import numpy
    # RandomState, because NumPy guarantees stable streams only for it and not for Generator.
    shuffled = numpy.random.RandomState(numpy.random.MT19937(numpy.random.SeedSequence([seed, epoch])))
    return shuffled.permutation(size).astype(numpy.int64)


def n_batches(left: int, global_batch: int) -> int:
    """Returns the number of global batches in `left` samples; the last batch may be smaller."""
    return -(-left // global_batch)


def share(size: int, part: int, parts: int) -> range:
    """Returns the positions of share number `part` of `parts` in a global batch of this size. Every
    position is in exactly one share, and the sizes of the shares differ by at most one. Some are
    empty if there are more parts than samples.
    """
    return range(part, size, parts)
