"""Elastic training with MultiWorkerMirroredStrategy: handwritten digits, no Keras.

    pip install agent/python                           # once: the package tfe
    python digits.py                                   # plainly, on one machine
    tfe-agent --nnodes=1:4 digits.py --checkpoint-dir /shared/digits

The script is started anew whenever the set of machines changes. What makes that harmless:
  * the state (weights, momentum, step, position in the data) is in a checkpoint on storage that all machines share,
    and after every few steps in their memory; the newest is restored at every start;
  * the global batch is fixed, whatever the number of workers, and its samples follow from seed and position alone,
    so that no sample is lost or seen twice when the work is divided anew;
  * when a machine is going to leave, the agent asks for a checkpoint, and after_step() makes one: nothing is lost.
With tfe-agent --evaluator, one more trainer stands beside the others and tells how good each checkpoint is.
TF_CONFIG comes from the agent; the script never looks into it.
"""
import argparse
import hashlib
import json
import os
import time

import tfe                                          # brings no TensorFlow in; that comes below

EPOCH, RANK, WORLD = tfe.epoch(), tfe.rank(), tfe.world_size()  # the epoch of the cluster, not of the data

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--checkpoint-dir", default="/tmp/digits", help="on shared storage")
p.add_argument("--steps", type=int, default=600)
p.add_argument("--batch", type=int, default=96, help="samples per step, of all workers together")
p.add_argument("--save-every", type=int, default=20, metavar="STEPS")
p.add_argument("--memory-every", type=int, metavar="STEPS", help="default: as often as it costs next to nothing")
p.add_argument("--step-log", metavar="DIR", help="write one JSON line per step there")
p.add_argument("--pace", type=float, default=0, metavar="SECONDS",
               help="a step takes at least this long, as a larger model's would; with --hold while FILE is there")
p.add_argument("--log-ids", action="store_true", help="there, too: which samples each step sees")
p.add_argument("--hold", metavar="FILE", help="take the last step only once FILE is gone")
args = p.parse_args()


class StepLog:
    """What each trainer did and when (CLOCK_MONOTONIC, so comparable on one machine)."""

    def __init__(self, directory):
        self.file = None
        if directory:
            os.makedirs(directory, exist_ok=True)
            name = f"{os.environ.get('TFE_NODE', 'alone')}-{EPOCH}-{RANK}-{os.getpid()}.jsonl"
            self.file = open(os.path.join(directory, name), "a", buffering=1)

    def __call__(self, **fields):
        if self.file:
            t_ms = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000
            print(json.dumps({"t_ms": t_ms, "epoch": EPOCH, "rank": RANK, "world": WORLD,
                              "node": os.environ.get("TFE_NODE", ""), **fields}), file=self.file)


log = StepLog(args.step_log)
log(event="start", pid=os.getpid())                # before the slow imports

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

# First thing: all workers meet in here, and nothing may run on a device before it.
strategy = tfe.strategy()

digits = load_digits()
x_train, x_test, y_train, y_test = train_test_split(
    (digits.data / 16).astype(np.float32), digits.target.astype(np.int32), test_size=0.2,
    random_state=7, stratify=digits.target)
data = tfe.data.elastic((x_train, y_train), global_batch=args.batch, seed=7)

with strategy.scope():
    init = tf.random.Generator.from_seed(7)
    w1 = tf.Variable(init.normal([64, 64], stddev=0.15))
    b1 = tf.Variable(tf.zeros([64]))
    w2 = tf.Variable(init.normal([64, 10], stddev=0.15))
    b2 = tf.Variable(tf.zeros([10]))
    weights = [w1, b1, w2, b2]
    momentum = [tf.Variable(tf.zeros_like(w)) for w in weights]
    step = tf.Variable(0, dtype=tf.int64)


def model(x):
    return tf.nn.relu(x @ w1 + b1) @ w2 + b2


def accuracy():
    return float(np.mean(np.argmax(model(x_test), axis=1) == y_test))


if tfe.role() == "evaluator":
    for path in tfe.new_checkpoints(args.checkpoint_dir):
        tf.train.Checkpoint(step=step, weights=weights).restore(path).expect_partial()
        print(f"step {int(step)}: test accuracy {accuracy():.4f}", flush=True)
    raise SystemExit


def replica_step(x, y, global_size):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))
        # Of the *global* batch: shares of unequal size get the weight they deserve in the sum.
        loss = tfe.data.global_mean(losses, global_size)
    grads = tape.gradient(loss, weights)
    total = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, [*grads, loss, tf.constant(1.0)])
    *grads, loss, workers = total
    for w, m, g in zip(weights, momentum, grads):
        m.assign(0.9 * m + g)
        w.assign_sub(0.1 * m)
    step.assign_add(1)
    return loss, workers


@tf.function(input_signature=[tf.TensorSpec([None, 64]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([])])
def train_step(x, y, global_size):
    return strategy.run(replica_step, (x, y, global_size))


checkpointer = tfe.Checkpointer(args.checkpoint_dir, step=step, every_steps=args.save_every, memory_every_steps=args.memory_every,
                                weights=weights, momentum=momentum, data=data)
done = checkpointer.restore()
print(f"epoch {EPOCH}: {WORLD} workers, from step {done}", flush=True)
log(event="restored", step=done, samples=data.samples_seen)


def hold():
    while args.hold and done == args.steps - 1 and os.path.exists(args.hold):
        checkpointer.after_step()                  # the agent may ask for a checkpoint meanwhile
        time.sleep(0.05)


hold()
while done < args.steps:
    for share in data:                             # what is left of this pass
        began = time.monotonic()
        if args.log_ids:
            log(event="share", step=done + 1, ids=share.ids.numpy().tolist())
        loss, workers = train_step(*share.values, share.global_size)
        done += 1
        log(step=done, sum=float(workers))
        checkpointer.after_step()
        if RANK == 0 and done % 100 == 0:
            print(f"step {done} of {args.steps}: loss {float(loss):.4f}, {WORLD} workers", flush=True)
        if not args.hold or os.path.exists(args.hold):
            time.sleep(max(0.0, args.pace - (time.monotonic() - began)))
        hold()
        if done == args.steps:
            break
checkpointer.save()

if RANK == 0:
    found = accuracy()
    print(f"test accuracy {found:.4f}", flush=True)
    digest = hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights)).hexdigest()
    log(event="end", step=done, accuracy=found, weights=digest)
