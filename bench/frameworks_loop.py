"""bench/frameworks_loop.py: a training loop in each framework that logs the time of each step.

    frameworks_loop.py STEP_LOG_DIRECTORY FRAMEWORK

FRAMEWORK: tensorflow, jax, keras (Keras 3 on JAX, Model.fit) or torch. The lines are those of recovery_loop.py.
"""
import json
import os
import sys
import time


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6


began = now()
EPOCH, RANK, WORLD = (int(os.environ.get(name, 0)) for name in ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE"))
folder, framework = sys.argv[1:3]
log = open(os.path.join(folder, f"{EPOCH}.{RANK}.{os.getpid()}.jsonl"), "a", buffering=1)
os.environ["KERAS_BACKEND"] = "jax"


def say(**fields):
    log.write(json.dumps({"epoch": EPOCH, "rank": RANK, "pid": os.getpid(), "node": os.environ.get("TFE_NODE", ""), **fields}) + "\n")


number = 0


def done():
    """Counts a step, reports it to the agent, and sleeps: longer on the side that is not being measured."""
    global number
    number += 1
    say(step=now())
    path = os.environ.get("TFE_SOCKET")
    if path:
        import socket
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(json.dumps({"type": "progress", "epoch": EPOCH, "rank": RANK, "step": number}).encode(), path)
            except OSError:
                pass
    time.sleep(0.5 if os.path.exists(os.path.join(folder, "doze")) else 0.02)


def tensorflow():
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([8])))
    while True:
        step()
        done()


def initialize():
    import jax
    jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"]))
    return jax


def jax():
    jax = initialize()
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    split = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))
    add = jax.jit(lambda x: jax.numpy.sum(x))
    while True:
        add(jax.make_array_from_process_local_data(split, np.ones(8, np.float32))).block_until_ready()
        done()


def keras():
    initialize()
    import keras
    import numpy as np

    class Steps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            float(logs["loss"])
            done()
    keras.utils.set_random_seed(1)
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
    model.compile(optimizer="sgd", loss="mse")

    def batches():
        while True:
            yield np.ones((8, 64), np.float32), np.ones((8, 10), np.float32)
    model.fit(batches(), steps_per_epoch=10**9, verbose=0, callbacks=[Steps()])


def torch():
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    value = torch.ones(8)
    while True:
        dist.all_reduce(value.fill_(1))
        done()


say(begin=began)
{"tensorflow": tensorflow, "jax": jax, "keras": keras, "torch": torch}[framework]()
