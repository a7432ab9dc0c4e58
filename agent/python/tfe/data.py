"""Data that every worker sees its share of, and the cluster as a whole every sample of exactly once, whatever its size.

    data = tfe.data.elastic((x, y), global_batch=96, seed=7)
    checkpointer = tfe.Checkpointer(directory, step=step, every_steps=100, data=data, model=model)
    checkpointer.restore()
    while data.epoch < 10:
        for share in data:                              # what is left of this pass
            train_step(*share.values, share.global_size)
            checkpointer.after_step()

All workers follow one order per pass, from seed and pass alone. The position in it counts samples, not batches, and is
part of the checkpoint; so a restored training goes on behind the last sample that counts, with any number of workers.
The global batch is what stays the same: it is divided as evenly as it goes, and global_mean() gives the shares, of whatever
size, the weight that they have in it.
"""
from __future__ import annotations

import json
from typing import Any, Callable, Iterator, NamedTuple, Optional

import tensorflow as tf

from . import _order, _place


class Share(NamedTuple):
    """One worker's part of a global batch. It may be empty, at the end of a pass; the step must be done all the same."""
    values: Any
    """As the elements of the source, with a first dimension of samples; tensors, or one per local replica (PerReplica)."""
    global_size: Any
    """Samples in the global batch: a float32 scalar, so that it passes into a tf.function as a tensor."""
    ids: Any
    """Which samples of the source these are: an int64 tensor, likewise."""
    epoch: int
    """Which pass over the data it belongs to."""


def global_mean(losses: tf.Tensor, global_size: Any) -> tf.Tensor:
    """This worker's summand of the mean loss over the global batch: its gradients are to be added up (ReduceOp.SUM) over
    all replicas. A mean over the share, averaged over workers, would weigh the samples of small shares too much."""
    return tf.reduce_sum(losses) / tf.cast(global_size, losses.dtype)


def elastic(source: Any, *, global_batch: int, seed: int, size: Optional[int] = None, map: Optional[Callable[..., Any]] = None,
            shuffle_buffer: Optional[int] = None, strategy: Optional[tf.distribute.Strategy] = None) -> "Elastic":
    """Data for any number of workers.

    source: arrays that can be indexed by an array of positions (a nest of NumPy arrays of one length, shuffled as a whole),
    or a tf.data.Dataset of single samples in a fixed order. Of a dataset, every worker reads all elements and keeps its share:
    let it be cheap (file names, say), and do what costs in map, which is applied to the share. size: the number of elements
    where the dataset does not know it. shuffle_buffer: elements shuffled among each other, of a dataset; by default all, up to
    100,000. strategy: needed only for for_fit(), and where a worker has several replicas (GPUs). ValueError: sizes below 1, or an unknown one.
    """
    return Elastic(source, global_batch, seed, size, map, shuffle_buffer, strategy)


class Elastic(tf.train.experimental.PythonState):  # type: ignore[misc]
    """See elastic(). Give it to tfe.Checkpointer, or to tf.train.Checkpoint as any other object."""

    def __init__(self, source: Any, global_batch: int, seed: int, size: Optional[int], map_share: Optional[Callable[..., Any]],
                 shuffle_buffer: Optional[int], strategy: Optional[tf.distribute.Strategy]) -> None:
        super().__init__()
        is_dataset = isinstance(source, tf.data.Dataset)
        if is_dataset:
            size = int(source.cardinality().numpy()) if size is None else size
            if size < 0:
                raise ValueError("elastic() cannot tell how many elements the dataset has; say it with size=")
        else:
            lengths = {len(array) for array in tf.nest.flatten(source)}
            if len(lengths) != 1:
                raise ValueError(f"elastic() needs arrays of one length; these have {sorted(lengths)}")
            if map_share or shuffle_buffer or size is not None:
                raise ValueError("map, shuffle_buffer and size are for a tf.data.Dataset; arrays need none")
            size = lengths.pop()
        for name, number, least in (("size" if is_dataset else "the length of source", size, 1), ("global_batch", global_batch, 1),
                                    ("seed", seed, 0)):
            if number < least:
                raise ValueError(f"elastic(): {name} is {number}; it must be at least {least}")
        self._source = source
        self._strategy = strategy
        self._local = max(1, strategy.num_replicas_in_sync // _place.peers()[1]) if strategy else 1
        self._is_dataset = is_dataset
        self._map = map_share
        self._buffer = shuffle_buffer or min(size, 100_000)
        self._seed = seed
        self._size = size
        self._global_batch = global_batch
        self._epoch = 0
        self._samples = 0

    # --- where it is ----------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Passes over the data that are complete: the number of the present one, from 0."""
        return self._epoch

    @property
    def samples(self) -> int:
        """Samples of the present pass that have been handed out, to all workers together."""
        return self._samples

    @property
    def samples_seen(self) -> int:
        """The same, of all passes."""
        return self._epoch * self._size + self._samples

    @property
    def size(self) -> int:
        """Samples in one pass."""
        return self._size

    @property
    def steps_left(self) -> int:
        """Global batches that are left in the present pass."""
        return _order.n_batches(self._size - self._samples, self._global_batch)

    def advance(self, steps: int = 1) -> None:
        """So many global batches are done. Only for who gets shares from for_fit(); iterating does it by itself."""
        for _ in range(steps):
            self._samples += min(self._global_batch, self._size - self._samples)
            if self._samples == self._size:
                self._epoch, self._samples = self._epoch + 1, 0

    def serialize(self) -> str:
        """For tf.train.Checkpoint: the position."""
        return json.dumps({"epoch": self._epoch, "samples": self._samples, "size": self._size, "seed": self._seed})

    def deserialize(self, string_value: Any) -> None:
        """From tf.train.Checkpoint. ValueError: it is a position in another order."""
        position = json.loads(string_value)
        if (position["size"], position["seed"]) != (self._size, self._seed):
            raise ValueError(f"the checkpoint stands in an order of {position['size']} samples by seed {position['seed']}; "
                             f"here are {self._size}, seed {self._seed}, and its position means nothing in them")
        self._epoch, self._samples = position["epoch"], position["samples"]

    # --- what there is --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Share]:
        """The shares that are left of the present pass. A share counts as seen when it is handed out: a checkpoint made after
        its step, before the next share, has neither lost nor doubled it."""
        epoch = self._epoch
        for size, pieces in self._batches_left():
            self.advance()
            ids, values = zip(*pieces)
            yield Share(self._per_replica(values), tf.constant(size, tf.float32), self._per_replica(ids), epoch)

    def for_fit(self) -> tf.data.Dataset:
        """The shares that are left of the present pass, for one call of Model.fit() of tf_keras; the elements of the source must
        be pairs (x, y). A third part, sample_weight, makes the mean over the shares the mean over the global batch. It moves
        nothing: tfe.keras.Callback counts the steps. steps_left is what fit() needs as steps_per_epoch."""
        if self._strategy is None:
            raise ValueError("for_fit() needs to know the strategy: elastic(…, strategy=strategy)")
        ids, values = next(self._cut(0, 1))

        def spec(tensor: Any) -> tf.TensorSpec:
            return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)

        def pieces() -> Iterator[Any]:
            for size, parts in self._batches_left():
                for ids, (x, y) in parts:
                    # Keras divides by the share's size, and by the number of replicas.
                    weight = len(ids) * self._local * _place.peers()[1] / size
                    yield x, y, tf.fill([len(ids)], tf.constant(weight, tf.float32))

        x, y = tf.nest.map_structure(spec, tuple(values))
        signature = (x, y, tf.TensorSpec([None], tf.float32))
        return self._strategy.distribute_datasets_from_function(
            lambda _context: tf.data.Dataset.from_generator(pieces, output_signature=signature))

    def _per_replica(self, parts: Any) -> Any:
        """What strategy.run() hands to each replica of this worker."""
        if self._local == 1:
            return parts[0]
        flat = [self._strategy.experimental_distribute_values_from_function(
            lambda context, pieces=pieces: pieces[context.replica_id_in_sync_group % self._local])
            for pieces in zip(*(tf.nest.flatten(part) for part in parts))]
        return tf.nest.pack_sequence_as(parts[0], flat)

    def _batches_left(self) -> Iterator[tuple[int, list[tuple[tf.Tensor, Any]]]]:
        """For each global batch that is left: its size, and for each replica of this worker ids and values."""
        rank, world = _place.peers()
        first, parts = rank * self._local, world * self._local
        cuts = [self._cut(first + index, parts) for index in range(self._local)]
        for start in range(self._samples, self._size, self._global_batch):
            yield min(self._global_batch, self._size - start), [next(cut) for cut in cuts]

    def _cut(self, part: int, parts: int) -> Iterator[tuple[tf.Tensor, Any]]:
        """Of each global batch that is left, this part."""
        return (self._cut_dataset if self._is_dataset else self._cut_arrays)(part, parts)

    def _cut_arrays(self, part: int, parts: int) -> Iterator[tuple[tf.Tensor, Any]]:
        order = _order.order(self._size, self._seed, self._epoch)
        for start in range(self._samples, self._size, self._global_batch):
            batch = order[start:start + self._global_batch]
            mine = batch[_order.share(len(batch), part, parts)]
            yield tf.constant(mine), tf.nest.map_structure(lambda array: tf.constant(array[mine]), self._source)

    def _cut_dataset(self, part: int, parts: int) -> Iterator[tuple[tf.Tensor, Any]]:
        left, batch = self._size - self._samples, self._global_batch
        options = tf.data.Options()
        options.deterministic = True
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        source = self._source.take(self._size).enumerate()
        if self._buffer > 1:
            seed = int(_order.order(2**16, self._seed, self._epoch)[0])
            source = source.shuffle(self._buffer, seed=seed, reshuffle_each_iteration=False)
        source = source.skip(self._samples).enumerate()
        mine = source.filter(lambda position, _: position % batch % parts == part).map(lambda _, kept: kept)
        if self._map:
            function = self._map

            def apply(number: Any, element: Any) -> Any:
                return number, function(*element) if isinstance(element, tuple) else function(element)
            mine = mine.map(apply, num_parallel_calls=tf.data.AUTOTUNE)
        spec = mine.element_spec
        whole = len(_order.share(batch, part, parts))
        shares = iter(mine.batch(max(1, whole)).prefetch(tf.data.AUTOTUNE).with_options(options))
        for start in range(0, left, batch):
            if _order.share(min(batch, left - start), part, parts):
                yield next(shares)
            else:  # nothing for this one
                yield tf.nest.map_structure(lambda tensor: tf.zeros([0, *tensor.shape], tensor.dtype), spec)
