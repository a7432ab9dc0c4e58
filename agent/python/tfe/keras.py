"""Callback for Model.fit() of tf_keras (TF_USE_LEGACY_KERAS=1; Keras 3 does not support
MultiWorkerMirroredStrategy).
"""
from __future__ import annotations

import math
import time
from typing import Any, Optional

import tensorflow as tf

from . import _place
from ._channel import channel
from .checkpoint import Checkpointer
from .data import Elastic


METRICS_MAX = 16
METRICS_INTERVAL_S = 1.0
"""Minimum seconds between two reads of the metrics, which wait for the step."""


class Callback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """After every batch, advances the data, reports progress, saves when a checkpoint is due or requested,
    and stops when the agent says so.

        step = model.optimizer.iterations
        checkpointer = tfe.Checkpointer(directory, step=step, every_steps=100, model=model, data=data)
        checkpointer.restore()
        while data.epoch < 10:
            model.fit(data.for_fit(), steps_per_epoch=data.steps_left, initial_epoch=data.epoch, epochs=data.epoch + 1,
                      callbacks=[tfe.keras.Callback(checkpointer, data)])

    Without a checkpointer it only reports progress. The logs of fit() are reported as metrics, once per
    second. With ParameterServerStrategy the end of a batch is not the end of a step, so the callback
    acts at the end of each epoch of fit(); use a small steps_per_epoch there.
    """

    def __init__(self, checkpointer: Optional[Checkpointer] = None, data: Optional[Elastic] = None) -> None:
        super().__init__()
        self._supports_tf_logs = True  # metrics need not be converted to NumPy
        self._checkpointer = checkpointer
        self._data = data
        self._done = 0
        self._metrics_due = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._done = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if _place.has_ps():
            self._after_step()
        self._tell(logs)  # includes the validation metrics

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if _place.has_ps():
            return
        if self._data is not None:
            self._data.advance(batch + 1 - self._done)  # several batches at once with steps_per_execution
        self._done = batch + 1
        self._after_step()
        now = time.monotonic()
        if now >= self._metrics_due:
            self._metrics_due = now + METRICS_INTERVAL_S
            self._tell(logs)

    def _after_step(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.after_step()
        else:
            channel().progress(self._step(), self._samples())

    def _tell(self, logs: Any) -> None:
        if logs:
            channel().progress(self._step(), self._samples(), metrics=_numbers(logs))

    def _step(self) -> int:
        return int(self.model.optimizer.iterations.numpy())

    def _samples(self) -> Optional[int]:
        return self._data.samples_seen if self._data is not None else None


def _numbers(logs: Any) -> "dict[str, float]":
    """Returns the first 16 finite numbers. Reading a tensor waits for the step."""
    found: "dict[str, float]" = {}
    for name, value in logs.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue  # not a scalar
        if math.isfinite(number) and len(found) < METRICS_MAX:
            found[str(name)] = number
    return found
