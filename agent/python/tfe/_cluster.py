"""The coordination service of a TensorFlow cluster as _agree.Keys."""
from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from . import _place


class ServiceKeys:
    """Keys in the coordination service of this process's cluster, which MultiWorkerMirroredStrategy
    starts.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def set(self, key: str, value: str) -> bool:
        try:
            self._context.set_config_key_value(key, value)
        except tf.errors.AlreadyExistsError:
            return False
        return True

    def get(self, key: str, timeout_s: float) -> Optional[str]:
        try:
            value = self._context.get_config_key_value(key, max(1, int(timeout_s * 1000)))
        except tf.errors.DeadlineExceededError:
            return None
        return str(value)


def service_keys() -> Optional[ServiceKeys]:
    """Returns None if this process is alone, or if no strategy has connected it to the others."""
    if _place.peers()[1] == 1:
        return None
    try:
        from tensorflow.python.eager import context  # not public, but the only access to these keys
        here = context.context()
        if here.coordination_service is None:
            return None
    except (ImportError, AttributeError):
        return None
    return ServiceKeys(here)
