"""Functions for training scripts under tfe-agent. Without an agent every call is valid and has no effect.

    import tfe
    tfe.serve()                               # in a worker or ps of a ParameterServer job; does not return
    strategy = tfe.strategy()                 # matches the cluster; without an agent the default strategy
    tfe.progress(step, samples=seen, metrics={"loss": loss})  # shown by tfe-ctl
    if tfe.stop_requested():                  # the cluster is about to end
        path = save_a_checkpoint()
        tfe.checkpoint_saved(step, path)
    tfe.artifact("model.keras")               # stored once the job has succeeded

TensorFlow, Keras and JAX are imported at the first use of a function that needs them.
"""
from __future__ import annotations

import importlib
import math
import operator
import os
import warnings
from typing import TYPE_CHECKING, Mapping, Optional, SupportsFloat, SupportsIndex, SupportsInt, Union

from ._artifact import artifact
from ._channel import channel as _channel_now
from ._directory import StaleEpochError, newest as newest_checkpoint
from ._position import epoch, has_agent, rank, restart_count, role, role_index, world_size

if TYPE_CHECKING:
    from . import data, jax, keras
    from ._requests import wait_for_end
    from .checkpoint import Checkpointer, CheckpointManager, new_checkpoints
    from .distribute import coordinator, serve, strategy

__all__ = ["CheckpointManager", "Checkpointer", "StaleEpochError", "artifact", "checkpoint_saved", "coordinator", "data", "epoch", "has_agent",
           "jax", "keras", "new_checkpoints", "newest_checkpoint", "progress", "rank", "restart_count", "role", "role_index", "serve",
           "stop_requested", "strategy", "wait_for_end", "world_size"]

_lazy = {"CheckpointManager": "checkpoint", "Checkpointer": "checkpoint", "new_checkpoints": "checkpoint",
                     "wait_for_end": "_requests", "coordinator": "distribute", "serve": "distribute", "strategy": "distribute",
                     "data": None, "jax": None, "keras": None}


if not TYPE_CHECKING:  # otherwise a type checker would accept every name, even misspelt ones

    def __getattr__(name):
        """Imports what needs TensorFlow, Keras or JAX at its first use."""
        if name not in _lazy:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = _lazy[name]
        found = importlib.import_module(f".{module or name}", __name__)
        globals()[name] = found = getattr(found, name) if module else found
        return found


def _warn_of_namesake() -> None:
    """Warns if TensorFlow Extras, the distribution "tfe", is in the same folder: it owns a file tfe/__init__.py, too."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        found = [name for name in os.listdir(folder) if name.startswith("tfe-") and name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return  # a zip file
    if found:
        warnings.warn("the distribution 'tfe' (TensorFlow Extras) is installed, too, and shares the folder 'tfe' with 'tf-elastic', "
                      "which this is: pip uninstall tfe; pip install --force-reinstall --no-deps tf-elastic", stacklevel=3)


_warn_of_namesake()

METRICS_MAX = 16
"""Maximum number of metrics per call of progress()."""

Count = Union[SupportsIndex, SupportsInt]
"""An integer: int, a NumPy integer, or a scalar tf.Variable or tensor."""


def _count(value: Count, what: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__int__"):
            raise TypeError(f"{what} is {value!r}; it must be an integer") from None
        number = int(value)  # a tf.Variable
    if number < 0:
        raise ValueError(f"{what} is {number}; it must not be negative")
    return number


def _number(value: SupportsFloat, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"metrics[{name!r}] is {value!r}; it must be a number") from None


def _finite(metrics: Mapping[str, SupportsFloat]) -> dict[str, float]:
    """Returns the metrics as plain numbers, without NaN and infinite values."""
    if len(metrics) > METRICS_MAX:
        raise ValueError(f"metrics has {len(metrics)} entries; at most {METRICS_MAX} are allowed")
    numbers = {str(name): _number(value, name) for name, value in metrics.items()}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def progress(step: Count, samples: Optional[Count] = None, total: Optional[Count] = None,
             metrics: Optional[Mapping[str, SupportsFloat]] = None) -> None:
    """Reports how many steps, and samples of all workers together, of the whole training are
    complete.

    total is the number of steps of the whole training. metrics holds up to 16 named numbers of
    this step, e.g. {"loss": loss}. Tensors are read, which waits for the step, so report them
    only from time to time. Names are truncated to 32 characters of A-Z a-z 0-9 . _ / -, others
    become _. The server stores those of rank 0, at most one value per second and name.

    Cheap enough for every step: at most 20 messages per second are sent. Never blocks except to
    read tensors. Raises ValueError for a negative number or more than 16 metrics, TypeError for
    a value that is no number.
    """
    _channel_now().progress(_count(step, "step"), None if samples is None else _count(samples, "samples"),
                            total=None if total is None else _count(total, "total"),
                            metrics=_finite(metrics) if metrics else None)


def stop_requested() -> bool:
    """Returns True if the agent requests a checkpoint now because the cluster is about to end.

    Stays True until checkpoint_saved() is called for a checkpoint that was started afterwards.
    Call it once per step; after the first call the agent expects responses. Each rank is
    notified separately, possibly at different steps; if a save needs all ranks at the same step,
    use tfe.Checkpointer, which agrees on one.
    """
    here = _channel_now()
    here.listen()
    here.poll()
    if here.stop_by is None and here.save_number <= here.answered:
        return False
    here.shown = here.save_number
    return True


def checkpoint_saved(step: Count, path: Union[str, "os.PathLike[str]"]) -> None:
    """Reports that the checkpoint of this step is complete. Call it on rank 0, which writes the
    checkpoint.

    It answers the request that stop_requested() has reported. Raises ValueError for a negative
    step, TypeError if step is not a number or path is not a path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is {path!r}; it must be a string or a path")
    here = _channel_now()
    here.checkpoint(_count(step, "step"), os.fspath(path), here.shown)
