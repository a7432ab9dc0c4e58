"""A plain training loop in JAX: handwritten digits, data parallel over all processes.

    tfe-agent --standalone --nproc-per-node=2 jax_loop.py --directory /tmp/run --steps 400

The global batch is fixed, and which samples it holds follows from the step alone: the training does not depend on the
number of processes, and nothing but the step and the weights has to be saved.
"""
import argparse
import hashlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

import tfe
import tfe.jax

GLOBAL_BATCH = 96  # a multiple of the number of devices
SEED = 7


def init_state():
    rng = np.random.default_rng(SEED)
    sizes = [64, 128, 10]
    weights = [{"w": (rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32), "b": np.zeros(n, np.float32)}
               for m, n in zip(sizes, sizes[1:])]
    return {"weights": weights, "momentum": jax.tree.map(np.zeros_like, weights)}


def loss_of(weights, images, labels):
    hidden = jax.nn.relu(images @ weights[0]["w"] + weights[0]["b"])
    logits = hidden @ weights[1]["w"] + weights[1]["b"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


@jax.jit
def train_step(state, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(state["weights"], images, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradients)
    weights = jax.tree.map(lambda w, m: w - 0.05 * m, state["weights"], momentum)
    return {"weights": weights, "momentum": momentum}, loss


def batch_of(step, size):
    """The samples of this step: one order of all of them for each pass."""
    per_pass = size // GLOBAL_BATCH
    order = np.random.default_rng([SEED, step // per_pass]).permutation(size)
    first = step % per_pass * GLOBAL_BATCH
    return order[first:first + GLOBAL_BATCH]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", required=True, help="for checkpoints, on storage that all machines share")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every-steps", type=int, default=50)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    options = parser.parse_args()

    if tfe.world_size() > 1:
        jax.distributed.initialize()           # finds the cluster that the agent has formed
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    split, everywhere = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)

    state = jax.tree.map(lambda array: jax.make_array_from_process_local_data(everywhere, array), init_state())
    checkpointer = tfe.jax.Checkpointer(options.directory, every_steps=options.every_steps)
    step, state = checkpointer.restore(state)
    print(f"process {jax.process_index()} of {jax.process_count()}, from step {step}", flush=True)
    share = GLOBAL_BATCH // jax.process_count()
    while step < options.steps:
        mine = batch_of(step, len(labels))[jax.process_index() * share:][:share]
        batch = [jax.make_array_from_process_local_data(split, array[mine]) for array in (images, labels)]
        state, loss = train_step(state, *batch)
        step += 1
        if step % 20 == 0 and jax.process_index() == 0:
            print(f"step {step} loss {float(loss):.4f}", flush=True)
            tfe.progress(step, metrics={"loss": float(loss)})
        time.sleep(options.pause)
        checkpointer.after_step(step, state)
    checkpointer.save(step, state)
    if jax.process_index() == 0:
        digest = hashlib.sha256(b"".join(np.asarray(leaf.addressable_data(0)).tobytes() for leaf in jax.tree.leaves(state)))
        print(f"final {step} {digest.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
