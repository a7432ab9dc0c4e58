"""Elastic training with Model.fit of Keras 3 on JAX: handwritten digits, DataParallel over all processes.

    tfe-agent --standalone --nproc-per-node=2 keras_jax.py --directory /tmp/run --steps 400

The global batch is fixed, and which samples it holds follows from the step alone. So this script may be started anew at
any moment, with any number of processes, and goes on at the right sample.
"""
import argparse
import hashlib
import os
import time

os.environ["KERAS_BACKEND"] = "jax"            # before the import
import jax
import keras
import numpy as np
from sklearn.datasets import load_digits

import tfe
import tfe.jax
import tfe.keras

GLOBAL_BATCH = 96                              # a multiple of the number of processes
SEED = 7

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--directory", required=True, help="for checkpoints, on storage that all machines share")
p.add_argument("--steps", type=int, default=400)
p.add_argument("--every-steps", type=int, default=50)
p.add_argument("--pause", type=float, default=0.0, help="seconds before each step")
args = p.parse_args()

if tfe.world_size() > 1:
    jax.distributed.initialize()               # finds the cluster that the agent has formed
keras.utils.set_random_seed(SEED)
if tfe.world_size() > 1:
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))

images, labels = load_digits(return_X_y=True)
images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)


def batches(step):
    """This process's share of each global batch, from this step on."""
    per_pass, share = len(labels) // GLOBAL_BATCH, GLOBAL_BATCH // jax.process_count()
    while True:
        order = np.random.default_rng([SEED, step // per_pass]).permutation(len(labels))
        batch = order[step % per_pass * GLOBAL_BATCH:][:GLOBAL_BATCH]
        mine = batch[jax.process_index() * share:][:share]
        time.sleep(args.pause)
        yield images[mine], labels[mine]
        step += 1


model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
checkpointer = tfe.jax.Checkpointer(args.directory, every_steps=args.every_steps)
callback = tfe.keras.Callback(checkpointer)
step = callback.restore(model)
print(f"process {jax.process_index()} of {jax.process_count()}, from step {step}", flush=True)
if step < args.steps:
    history = model.fit(batches(step), steps_per_epoch=args.steps - step, verbose=0, callbacks=[callback])
    if tfe.rank() == 0:
        print(f"loss {history.history['loss'][-1]:.4f}", flush=True)
if tfe.rank() == 0:
    weights = b"".join(weight.tobytes() for weight in model.get_weights())
    print(f"final {int(model.optimizer.iterations.value)} {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
