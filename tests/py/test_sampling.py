"""Every sample once: the order of a pass, and its division among any number of workers."""
import random

import pytest
from tfe import _sampling


@pytest.mark.parametrize("seed", range(20))
def test_every_sample_is_seen_exactly_once_through_any_changes_of_size(seed):
    chance = random.Random(seed)
    size = chance.randint(1, 400)
    at, seen = 0, []
    while at < size:  # a restart before every few batches, with another world and another global batch
        world, batch = chance.randint(1, 12), chance.randint(1, 40)
        order = _sampling.permutation(size, 7, 3)
        for _ in range(chance.randint(1, 4)):
            taken = order[at:at + batch]
            shares = [_sampling.share(len(taken), part, world) for part in range(world)]
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
            seen += [int(taken[position]) for share in shares for position in share]
            at += len(taken)
    assert sorted(seen) == list(range(size))


def test_the_order_hangs_on_seed_and_pass_and_never_changes():
    assert list(_sampling.permutation(8, 7, 0)) == [7, 4, 6, 1, 5, 0, 2, 3]  # recorded once; checkpoints rely on this order
    orders = {tuple(_sampling.permutation(50, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_the_last_batch_counts():
    assert [_sampling.n_batches(left, 10) for left in (0, 1, 10, 11)] == [0, 1, 1, 2]
