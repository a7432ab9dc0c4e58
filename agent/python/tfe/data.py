"""Data for any number of workers: each sees its own share, and the cluster sees every sample exactly
once.

    data = tfe.data.elastic((x, y), global_batch=96, seed=7)
    checkpointer = tfe.Checkpointer(directory, step=step, every_steps=100, data=data, model=model)
    checkpointer.restore()
    while data.epoch < 10:
        for share in data:                              # rest of this pass
            train_step(*share.values, share.global_size)
            checkpointer.after_step()

All workers follow one order per pass, which depends only on seed and pass. The position in it
counts samples rather than batches and is part of the checkpoint, so a restored training continues
after the last sample that counts, with any number of workers. The global batch is constant: it is
divided as evenly as possible, and global_mean() weights the shares by their sizes.
"""
from __future__ import annotations

import json
from typing import Any, Callable, Iterator, NamedTuple, Optional

import tensorflow as tf

from . import _position, _sampling


class Share(NamedTuple):
    """One worker's share of a global batch. It may be empty at the end of a pass; the step must be
    done all the same.
    """
    values: Any
    """Elements of the source with a first dimension of samples; tensors, or one per local replica
    (PerReplica).
    """
    global_size: Any
    """Number of samples in the global batch: a float32 scalar tensor, so that a tf.function is not
    traced again.
    """
    ids: Any
    """Indices of the samples in the source: an int64 tensor, or one per local replica."""
    epoch: int
    """Number of the pass over the data."""


def global_mean(losses: tf.Tensor, global_size: Any) -> tf.Tensor:
    """Returns this worker's summand of the mean loss over the global batch; add up its gradients
    over all replicas (ReduceOp.SUM). A mean over the share, averaged over workers, would give
    samples of small shares too much weight.
    """
    return tf.reduce_sum(losses) / tf.cast(global_size, losses.dtype)


def elastic(source: Any, *, global_batch: int, seed: int, size: Optional[int] = None, map: Optional[Callable[..., Any]] = None,
            shuffle_buffer: Optional[int] = None, strategy: Optional[tf.distribute.Strategy] = None) -> "Elastic":
    """Creates data for any number of workers.

    source is a nest of NumPy arrays of equal length, shuffled as a whole, or a tf.data.Dataset
    of single samples in a fixed order. Every worker reads all elements of a dataset and keeps
    its share, so elements should be cheap (e.g. file names) and expensive work belongs in map,
    which is applied to the share. size is the number of elements, if the dataset does not know
    it. shuffle_buffer is the number of elements of a dataset shuffled together; by default all,
    up to 100,000. strategy is needed for for_fit(), and if a worker has several replicas (GPUs).
    Raises ValueError for sizes below 1 or an unknown size.
    """
    return Elastic(source, global_batch, seed, size, map, shuffle_buffer, strategy)


class Elastic(tf.train.experimental.PythonState):  # type: ignore[misc]
    """Result of elastic(). Pass it to tfe.Checkpointer, or to tf.train.Checkpoint like any other
    object.
    """

    def __init__(self, source: Any, global_batch: int, seed: int, size: Optional[int], map_share: Optional[Callable[..., Any]],
                 shuffle_buffer: Optional[int], strategy: Optional[tf.distribute.Strategy]) -> None:
        super().__init__()
        is_dataset = isinstance(source, tf.data.Dataset)
        if is_dataset:
            size = int(source.cardinality().numpy()) if size is None else size
            if size < 0:
                raise ValueError("elastic() cannot determine the number of elements of the dataset (pass size=)")
        else:
            lengths = {len(array) for array in tf.nest.flatten(source)}
            if len(lengths) != 1:
                raise ValueError(f"elastic() needs arrays of one length; these have {sorted(lengths)}")
            if map_share or shuffle_buffer or size is not None:
                raise ValueError("map, shuffle_buffer and size require a tf.data.Dataset; omit them for arrays")
            size = lengths.pop()
        for name, number, least in (("size" if is_dataset else "the length of source", size, 1), ("global_batch", global_batch, 1),
                                    ("seed", seed, 0)):
            if number < least:
                raise ValueError(f"elastic(): {name} is {number}; it must be at least {least}")
        self._source = source
        self._strategy = strategy
        self._local = max(1, strategy.num_replicas_in_sync // _position.peers()[1]) if strategy else 1
        self._is_dataset = is_dataset
        self._map = map_share
        self._buffer = shuffle_buffer or min(size, 100_000)
        self._seed = seed
        self._size = size
        self._global_batch = global_batch
        self._epoch = 0
        self._samples = 0

    # --- position ---

    @property
    def epoch(self) -> int:
        """Number of complete passes over the data, i.e. the number of the current pass from 0."""
        return self._epoch

    @property
    def samples(self) -> int:
        """Number of samples of the current pass that have been handed out to all workers together.
        """
        return self._samples

    @property
    def samples_seen(self) -> int:
        """Number of samples of all passes that have been handed out."""
        return self._epoch * self._size + self._samples

    @property
    def size(self) -> int:
        """Number of samples in one pass."""
        return self._size

    @property
    def steps_left(self) -> int:
        """Number of global batches left in the current pass."""
        return _sampling.n_batches(self._size - self._samples, self._global_batch)

    def advance(self, steps: int = 1) -> None:
        """Advances the position by global batches. Needed only with for_fit(); iteration does it
        automatically.
        """
        for _ in range(steps):
            self._samples += min(self._global_batch, self._size - self._samples)
            if self._samples == self._size:
                self._epoch, self._samples = self._epoch + 1, 0

    def serialize(self) -> str:
        """Returns the position, for tf.train.Checkpoint."""
        return json.dumps({"epoch": self._epoch, "samples": self._samples, "size": self._size, "seed": self._seed})

    def deserialize(self, string_value: Any) -> None:
        """Sets the position, for tf.train.Checkpoint. Raises ValueError for a position in a
        different order.
        """
        position = json.loads(string_value)
        if (position["size"], position["seed"]) != (self._size, self._seed):
            raise ValueError(f"the checkpoint's position refers to {position['size']} samples shuffled by seed {position['seed']}; "
                             f"this data has {self._size} samples and seed {self._seed}")
        self._epoch, self._samples = position["epoch"], position["samples"]

    # --- iteration ---

    def __iter__(self) -> Iterator[Share]:
        """Yields the remaining shares of the current pass. A share counts as seen when it is handed
        out, so a checkpoint after its step and before the next share neither loses nor repeats
        samples.
        """
        epoch = self._epoch
        for size, pieces in self._batches_left():
            self.advance()
            ids, values = zip(*pieces)
            yield Share(self._per_replica(values), tf.constant(size, tf.float32), self._per_replica(ids), epoch)

    def for_fit(self) -> tf.data.Dataset:
        """Returns the remaining shares of the current pass as a dataset for one call of Model.fit()
        of tf_keras. Elements of the source must be pairs (x, y).

        A third component, sample_weight, turns the mean over shares into the mean over the
        global batch. The position does not change; tfe.keras.Callback counts the steps. Pass
        steps_left as steps_per_epoch.
        """
        if self._strategy is None:
            raise ValueError("for_fit() needs the strategy (pass elastic(…, strategy=strategy))")
        ids, values = next(self._cut(0, 1))

        def spec(tensor: Any) -> tf.TensorSpec:
            return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)

        def pieces() -> Iterator[Any]:
            for size, parts in self._batches_left():
                for ids, (x, y) in parts:
                    # Keras divides by the size of the share and by the number of replicas.
                    weight = len(ids) * self._local * _position.peers()[1] / size
                    yield x, y, tf.fill([len(ids)], tf.constant(weight, tf.float32))

        x, y = tf.nest.map_structure(spec, tuple(values))
        signature = (x, y, tf.TensorSpec([None], tf.float32))
        return self._strategy.distribute_datasets_from_function(
            lambda _context: tf.data.Dataset.from_generator(pieces, output_signature=signature))

    def _per_replica(self, parts: Any) -> Any:
        """Returns the value that strategy.run() passes to each replica of this worker."""
        if self._local == 1:
            return parts[0]
        flat = [self._strategy.experimental_distribute_values_from_function(
            lambda context, pieces=pieces: pieces[context.replica_id_in_sync_group % self._local])
            for pieces in zip(*(tf.nest.flatten(part) for part in parts))]
        return tf.nest.pack_sequence_as(parts[0], flat)

    def _batches_left(self) -> Iterator[tuple[int, list[tuple[tf.Tensor, Any]]]]:
        """Yields for each remaining global batch its size and, for each replica of this worker, ids
        and values.
        """
        rank, world = _position.peers()
        first, parts = rank * self._local, world * self._local
        cuts = [self._cut(first + index, parts) for index in range(self._local)]
        for start in range(self._samples, self._size, self._global_batch):
            yield min(self._global_batch, self._size - start), [next(cut) for cut in cuts]

    def _cut(self, part: int, parts: int) -> Iterator[tuple[tf.Tensor, Any]]:
        """Yields this part of each remaining global batch."""
        return (self._cut_dataset if self._is_dataset else self._cut_arrays)(part, parts)

    def _cut_arrays(self, part: int, parts: int) -> Iterator[tuple[tf.Tensor, Any]]:
        order = _sampling.permutation(self._size, self._seed, self._epoch)
        for start in range(self._samples, self._size, self._global_batch):
            batch = order[start:start + self._global_batch]
            mine = batch[_sampling.share(len(batch), part, parts)]
            yield tf.constant(mine), tf.nest.map_structure(lambda array: tf.constant(array[mine]), self._source)

    def _cut_dataset(self, part: int, parts: int) -> Iterator[tuple[tf.Tensor, Any]]:
        left, batch = self._size - self._samples, self._global_batch
        options = tf.data.Options()
        options.deterministic = True
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        source = self._source.take(self._size).enumerate()
        if self._buffer > 1:
            seed = int(_sampling.permutation(2**16, self._seed, self._epoch)[0])
            source = source.shuffle(self._buffer, seed=seed, reshuffle_each_iteration=False)
        source = source.skip(self._samples).enumerate()
        mine = source.filter(lambda position, _: position % batch % parts == part).map(lambda _, kept: kept)
        if self._map:
            function = self._map

            def apply(number: Any, element: Any) -> Any:
                return number, function(*element) if isinstance(element, tuple) else function(element)
            mine = mine.map(apply, num_parallel_calls=tf.data.AUTOTUNE)
        spec = mine.element_spec
        whole = len(_sampling.share(batch, part, parts))
        shares = iter(mine.batch(max(1, whole)).prefetch(tf.data.AUTOTUNE).with_options(options))
        for start in range(0, left, batch):
            if _sampling.share(min(batch, left - start), part, parts):
                yield next(shares)
            else:  # this part is empty
                yield tf.nest.map_structure(lambda tensor: tf.zeros([0, *tensor.shape], tensor.dtype), spec)
