"""Callback for Model.fit(): of tf_keras (TF_USE_LEGACY_KERAS=1; Keras 3 does not support
MultiWorkerMirroredStrategy), and of Keras 3 on JAX or PyTorch.
"""
from __future__ import annotations

import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Optional

from . import _position
from ._channel import channel

if TYPE_CHECKING:
    from .checkpoint import Checkpointer
    from .data import Elastic
    from .jax import Checkpointer as JaxCheckpointer


def _backend() -> str:
    """Returns the backend of Keras 3 if the script uses one other than TensorFlow, else "tensorflow"."""
    keras = sys.modules.get("keras")
    found = keras.config.backend() if keras is not None and hasattr(keras, "config") else os.environ.get("KERAS_BACKEND", "")
    return found if found in ("jax", "torch") else "tensorflow"


def _callback_class() -> Any:
    if _backend() == "tensorflow":
        import tensorflow as tf
        return tf.keras.callbacks.Callback
    import keras
    return keras.callbacks.Callback


METRICS_MAX = 16
METRICS_INTERVAL_S = 1.0
"""Minimum seconds between two reads of the metrics, which wait for the step."""


class Callback(_callback_class()):  # type: ignore[misc]
    """After every batch, advances the data, reports progress, saves when a checkpoint is due or requested,
    and stops when the agent says so.

        step = model.optimizer.iterations
        checkpointer = tfe.Checkpointer(directory, step=step, every_steps=100, model=model, data=data)
        checkpointer.restore()
        while data.epoch < 10:
            model.fit(data.for_fit(), steps_per_epoch=data.steps_left, initial_epoch=data.epoch, epochs=data.epoch + 1,
                      callbacks=[tfe.keras.Callback(checkpointer, data)])

    On JAX, with tfe.jax.Checkpointer, restore() sets the variables of the model and its optimizer:

        checkpointer = tfe.jax.Checkpointer(directory, every_steps=100)
        callback = tfe.keras.Callback(checkpointer)
        step = callback.restore(model)
        model.fit(batches_from(step), steps_per_epoch=steps - step, callbacks=[callback])

    Without a checkpointer it only reports progress; so it does on PyTorch. The logs of fit() are reported as metrics, once per
    second. With ParameterServerStrategy the end of a batch is not the end of a step, so the callback
    acts at the end of each epoch of fit(); use a small steps_per_epoch there.
    """

    def __init__(self, checkpointer: "Optional[Checkpointer | JaxCheckpointer]" = None, data: "Optional[Elastic]" = None) -> None:
        """checkpointer is tfe.Checkpointer on TensorFlow and tfe.jax.Checkpointer on JAX. Raises
        ValueError for a checkpointer on PyTorch.
        """
        super().__init__()
        self._is_jax = _backend() == "jax"
        if checkpointer is not None and _backend() == "torch":
            raise ValueError("tfe.keras.Callback does not support checkpoints on PyTorch (omit checkpointer)")
        self._steps = -1  # on JAX and PyTorch; -1: not known
        self._supports_tf_logs = True  # metrics need not be converted to NumPy
        self._checkpointer: Any = checkpointer
        self._data = data
        self._done = 0
        self._metrics_due = 0.0

    def restore(self, model: Any) -> int:
        """Restores the newest state of the model and its optimizer on JAX, the same on all ranks.

        Call after compile(), before fit(). Returns the step. Raises like
        tfe.jax.Checkpointer.restore().
        """
        assert self._checkpointer is not None and self._is_jax
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = _variables(model)
        step: int
        step, values = self._checkpointer.restore([variable.value for variable in variables], int(model.optimizer.iterations.value))
        for variable, value in zip(variables, values):
            variable.assign(value)
        self._steps = step
        return step

    def on_train_begin(self, logs: Any = None) -> None:
        if _backend() != "tensorflow":
            self._steps = int(self.model.optimizer.iterations.value)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._done = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if _position.has_ps():
            self._after_step()
        self._tell(logs)  # includes the validation metrics

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if _position.has_ps():
            return
        done = batch + 1 - self._done  # several batches at once with steps_per_execution
        if self._data is not None:
            self._data.advance(done)
        self._done = batch + 1
        self._steps += done if self._steps >= 0 else 0
        self._after_step()
        now = time.monotonic()
        if now >= self._metrics_due:
            self._metrics_due = now + METRICS_INTERVAL_S
            self._tell(logs)

    def _after_step(self) -> None:
        if self._checkpointer is not None and self._is_jax:
            self.model.jax_state_sync()  # during fit() the values are not in the variables
            self._checkpointer.after_step(self._steps, [variable.value for variable in _variables(self.model)], self._samples())
        elif self._checkpointer is not None:
            self._checkpointer.after_step()
        else:
            channel().progress(self._step(), self._samples())

    def _tell(self, logs: Any) -> None:
        if logs:
            channel().progress(self._step(), self._samples(), metrics=_numbers(logs))

    def _step(self) -> int:
        return self._steps if self._steps >= 0 else int(self.model.optimizer.iterations.numpy())

    def _samples(self) -> Optional[int]:
        return self._data.samples_seen if self._data is not None else None


def _variables(model: Any) -> "list[Any]":
    """Returns the variables whose values are the state of the training."""
    return [*model.trainable_variables, *model.non_trainable_variables, *model.optimizer.variables]


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
