"""A callback for Model.fit() of tf_keras (TF_USE_LEGACY_KERAS=1; Keras 3 cannot train under MultiWorkerMirroredStrategy)."""
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
"""Between two looks at the metrics, which wait for the step."""


class Callback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """After every batch: moves the data on, tells the agent, saves when it is time or the agent asks, stops when told to.

        step = model.optimizer.iterations
        checkpointer = tfe.Checkpointer(directory, step=step, every_steps=100, model=model, data=data)
        checkpointer.restore()
        while data.epoch < 10:
            model.fit(data.for_fit(), steps_per_epoch=data.steps_left, initial_epoch=data.epoch, epochs=data.epoch + 1,
                      callbacks=[tfe.keras.Callback(checkpointer, data)])

    Without a checkpointer it tells of progress, and nothing else. What fit logs is told as metrics, once a second. Under ParameterServerStrategy the end of a batch is no end of a
    step: there it does all this at the end of each of fit()'s epochs, so let steps_per_epoch be small.
    """

    def __init__(self, checkpointer: Optional[Checkpointer] = None, data: Optional[Elastic] = None) -> None:
        super().__init__()
        self._supports_tf_logs = True  # Keras need not turn the metrics into NumPy's numbers for us
        self._checkpointer = checkpointer
        self._data = data
        self._done = 0
        self._metrics_due = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._done = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if _place.has_ps():
            self._after_step()
        self._tell(logs)  # with what is known only now: the metrics of the validation

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if _place.has_ps():
            return
        if self._data is not None:
            self._data.advance(batch + 1 - self._done)  # several at once with steps_per_execution
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
    """The first 16 that are finite numbers; reading them waits for the step."""
    found: "dict[str, float]" = {}
    for name, value in logs.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue  # a tensor of many
        if math.isfinite(number) and len(found) < METRICS_MAX:
            found[str(name)] = number
    return found
