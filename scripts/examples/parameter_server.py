"""Elastic training with ParameterServerStrategy: handwritten digits, no Keras. One script for chief, workers, ps and evaluator.

    pip install agent/python                           # once: the package tfe
    tfe-agent --nnodes=2:8 --ps=2 --chief --evaluator parameter_server.py --checkpoint-dir /shared/digits-ps

The variables are on the ps, the chief hands out steps, and a worker does what it is given. A worker that is lost costs
nothing but its own work: the chief goes on with the others, and uses it again when it is back. After the loss of a ps, or of
the chief, all begin anew from the last checkpoint.
"""
import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import tensorflow as tf
import tfe

tfe.serve()                                        # workers and ps stay in here

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--checkpoint-dir", default="/tmp/digits-ps", help="on shared storage: the ps write there, too")
p.add_argument("--steps", type=int, default=600)
p.add_argument("--batch", type=int, default=96, help="samples per step")
p.add_argument("--save-every", type=int, default=50, metavar="STEPS")
p.add_argument("--pace", type=float, default=0, metavar="SECONDS", help="no more than one step in this time; with --hold while FILE is there")
p.add_argument("--hold", metavar="FILE", help="take the last step only once FILE is gone")
p.add_argument("--step-log", metavar="DIR", help="write one JSON line per step there")
args = p.parse_args()

# Large variables in two parts, whatever the number of ps: a checkpoint fits any other number of them.
strategy = tfe.strategy(partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
coordinator = tfe.coordinator(strategy)

digits = load_digits()
x_train, x_test, y_train, y_test = train_test_split(
    (digits.data / 16).astype(np.float32), digits.target.astype(np.int32), test_size=0.2,
    random_state=7, stratify=digits.target)
data = tfe.data.elastic((x_train, y_train), global_batch=args.batch, seed=7)

with strategy.scope():
    draw = np.random.default_rng(7)
    w1 = tf.Variable(draw.normal(0, 0.15, [64, 64]).astype(np.float32))
    b1 = tf.Variable(tf.zeros([64]))
    w2 = tf.Variable(draw.normal(0, 0.15, [64, 10]).astype(np.float32))
    b2 = tf.Variable(tf.zeros([10]))
weights = [w1, b1, w2, b2]
parts = [part for weight in weights for part in getattr(weight, "variables", [weight])]
step = tf.Variable(0, dtype=tf.int64)              # the chief's own: it counts what it hands out


def model(x):
    return tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2


def accuracy():
    return float(np.mean(np.argmax(model(x_test), axis=1) == y_test))


def mean_loss(x, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))


if tfe.role() == "evaluator":
    for path in tfe.new_checkpoints(args.checkpoint_dir):
        tf.train.Checkpoint(step=step, weights=weights).restore(path).expect_partial()
        print(f"step {int(step)}: test accuracy {accuracy():.4f}", flush=True)
    raise SystemExit


@tf.function(input_signature=[tf.TensorSpec([None, 64]), tf.TensorSpec([None], tf.int32)])
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = mean_loss(x, y)
    for part, gradient in zip(parts, tape.gradient(loss, parts)):
        part.assign_sub(0.3 * gradient)            # whoever comes first: workers do not wait for each other
    return loss


def told(value):
    """The result of a step may go with its worker, when that is killed amid it: the step is done again then, this is not."""
    try:
        return f"{float(value.fetch()):.4f}"
    except tf.errors.UnavailableError:
        return "unknown, its worker is lost"


checkpointer = tfe.Checkpointer(args.checkpoint_dir, step=step, every_steps=args.save_every, weights=weights, data=data)
done = checkpointer.restore()
print(f"epoch {tfe.epoch()}: from step {done}", flush=True)


class StepLog:
    """What was handed out, and when (CLOCK_MONOTONIC, so comparable on one machine)."""

    def __init__(self, directory):
        self.file = None
        if directory:
            os.makedirs(directory, exist_ok=True)
            self.file = open(os.path.join(directory, f"{tfe.epoch()}-{os.getpid()}.jsonl"), "a", buffering=1)

    def __call__(self, **fields):
        if self.file:
            t_ms = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000
            print(json.dumps({"t_ms": t_ms, "epoch": tfe.epoch(), **fields}), file=self.file)


log = StepLog(args.step_log)
log(event="restored", step=done, pid=os.getpid())
while done < args.steps:
    for share in data:                             # what is left of this pass: at the chief a share is a whole batch
        while args.hold and done == args.steps - 1 and os.path.exists(args.hold):
            checkpointer.after_step()              # the agent may ask for a checkpoint meanwhile
            time.sleep(0.05)
        began = time.monotonic()
        loss = coordinator.schedule(train_step, args=share.values)
        done += 1
        step.assign(done)
        log(step=done, ids=share.ids.numpy().tolist())
        checkpointer.after_step()
        if done % 100 == 0:
            print(f"step {done} of {args.steps}: loss {told(loss)}", flush=True)
        if not args.hold or os.path.exists(args.hold):
            time.sleep(max(0.0, args.pace - (time.monotonic() - began)))
        if done == args.steps:
            break
checkpointer.save()                                # waits for the steps under way
found = accuracy()
log(event="end", step=done, accuracy=found, loss=float(mean_loss(x_test, y_test)))
print(f"test accuracy {found:.4f}", flush=True)
