"""tfe.strategy(): how this process trains together with the others."""
from __future__ import annotations

import os

import tensorflow as tf


def strategy() -> tf.distribute.Strategy:
    """Call it first thing: all workers meet in here, and nothing may run on a device before.

    With TF_CONFIG (an agent sets it): MultiWorkerMirroredStrategy, collectives by NCCL where this worker has a GPU, else in
    a ring. Without: MirroredStrategy over several GPUs, else TensorFlow's default strategy, which adds nothing.
    """
    n_gpus = len(tf.config.list_physical_devices("GPU"))  # looks, and opens none
    if "TF_CONFIG" in os.environ:
        kinds = tf.distribute.experimental.CommunicationImplementation
        options = tf.distribute.experimental.CommunicationOptions(implementation=kinds.NCCL if n_gpus else kinds.RING)
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if n_gpus > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()
