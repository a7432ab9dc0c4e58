"""Elastic training with TensorFlow's own PreemptionCheckpointHandler.

    pip install agent/python                           # once: the package tfe
    tfe-agent --nnodes=1:4 --checkpoint-dir=/shared/digits-handler preemption_handler.py --checkpoint-dir /shared/digits-handler

The handler asks tfe.stop_requested() once a second whether machines are going to leave, has all workers save after the same
step, and calls exit_fn, where they wait for the agent to end them; it watches the directory of the checkpoints. A script
without tfe may watch TFE_PREEMPT_FILE instead, as this one does with --only-file.
"""
import argparse
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import numpy as np
import tensorflow as tf
import tfe
from sklearn.datasets import load_digits

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--checkpoint-dir", default="/tmp/digits-handler", help="on shared storage")
p.add_argument("--steps", type=int, default=600)
p.add_argument("--batch", type=int, default=96, help="samples per step, of all workers together")
p.add_argument("--save-every", type=int, default=30, metavar="STEPS")
p.add_argument("--pace", type=float, default=0, metavar="SECONDS", help="a step takes at least this long")
p.add_argument("--only-file", action="store_true", help="watch TFE_PREEMPT_FILE, and nothing else")
args = p.parse_args()
rank, world = tfe.rank(), tfe.world_size()

strategy = tfe.strategy()

digits = load_digits()
x_all, y_all = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)

with strategy.scope():
    w = tf.Variable(tf.zeros([64, 10]))
    step = tf.Variable(0, dtype=tf.int64)


def replica_step(x, y):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ w)
        loss = tf.reduce_sum(losses) / args.batch   # of the global batch
    gradient, loss = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, [tape.gradient(loss, w), loss])
    w.assign_sub(0.5 * gradient)
    step.assign_add(1)
    return loss


@tf.function(input_signature=[tf.TensorSpec([None, 64]), tf.TensorSpec([None], tf.int32)])
def train_step(x, y):
    return strategy.run(replica_step, (x, y))


def preempted():
    said = not args.only_file and tfe.stop_requested()
    return said or os.path.exists(os.environ.get("TFE_PREEMPT_FILE", "/nonexistent"))


def saved():
    print(f"saved at step {int(step.numpy())}", flush=True)
    tfe.wait_for_end(30)
    sys.exit(42)                                   # nobody came: let the agent start it anew


# The manager knows which directory counts on which rank; the handler restores what is newest, at once.
manager = tfe.CheckpointManager(tf.train.Checkpoint(w=w, step=step), args.checkpoint_dir, step_counter=step)
handler = tf.distribute.experimental.PreemptionCheckpointHandler(
    tf.distribute.cluster_resolver.TFConfigClusterResolver(), manager,
    termination_config=tf.distribute.experimental.TerminationConfig(
        termination_watcher_fn=preempted, exit_fn=saved, grace_period=0))

done = int(step.numpy())
print(f"epoch {tfe.epoch()}: {world} workers, from step {done}", flush=True)
while done < args.steps:
    began = time.monotonic()
    order = np.random.default_rng([7, done]).permutation(len(x_all))[:args.batch][rank::world]
    loss = handler.run(train_step, tf.constant(x_all[order]), tf.constant(y_all[order]))
    done = int(step.numpy())
    if done % args.save_every == 0:
        manager.save()
    if rank == 0 and done % 20 == 0:
        print(f"step {done} of {args.steps}: loss {float(loss):.4f}", flush=True)
    time.sleep(max(0.0, args.pace - (time.monotonic() - began)))
if rank == 0:
    accuracy = float(np.mean(np.argmax(x_all @ w.numpy(), axis=1) == y_all))
    print(f"accuracy {accuracy:.4f}", flush=True)
