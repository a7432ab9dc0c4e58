"""bench/preempt_loop.py: trains a small model, saves on request, and logs the time of everything it does.

    preempt_loop.py STEP_LOG_DIRECTORY CHECKPOINT_DIRECTORY [--plain | --bare]

One file of JSON lines per process, times in ms of CLOCK_MONOTONIC: {"begin"} at the script's first line, {"mark", "at"}
for each part of its start, {"step", "number"} for each step, {"save": [from, to], "number"} for each checkpoint or
snapshot in memory. It restores the newest state. --plain: uses only TensorFlow's own means and never saves, for the
floor by hand with the same checkpoint. --bare: like --plain, without restoring.
"""
import json
import os
import sys
import time


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6


began = now()
EPOCH, RANK = int(os.environ.get("TFE_EPOCH", 0)), int(os.environ.get("TFE_RANK", 0))
folder, checkpoints, BARE = sys.argv[1], sys.argv[2], "--bare" in sys.argv
PLAIN = BARE or "--plain" in sys.argv
doze = os.path.join(folder, "doze")
log = open(os.path.join(folder, f"{EPOCH}.{RANK}.{os.getpid()}.jsonl"), "a", buffering=1)


def say(**fields):
    log.write(json.dumps({"epoch": EPOCH, "rank": RANK, "pid": os.getpid(), "node": os.environ.get("TFE_NODE", ""), **fields}) + "\n")


def rest():
    time.sleep(0.5 if os.path.exists(doze) else 0.05)


def mark(name):
    say(mark=name, at=now())


say(begin=began)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

if PLAIN:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
else:
    import tfe
    mark("import")
    strategy = tfe.strategy()
mark("strategy")

# The smallest possible model, since the cost of its graph does not depend on the rendezvous.
GLOBAL_BATCH, SAMPLES = 96, 9600
x = np.random.RandomState(1).rand(SAMPLES, 8).astype(np.float32)
with strategy.scope():
    weights = tf.Variable(tf.zeros([8]))
    step = tf.Variable(0, dtype=tf.int64)
mark("variables")


def replica_step(x):
    total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(x, 0))
    weights.assign_add(total / GLOBAL_BATCH)
    step.assign_add(1)


@tf.function(input_signature=[tf.TensorSpec([None, 8])])
def train_step(x):
    strategy.run(replica_step, (x,))


def plainly():
    """Runs the same steps with arbitrary samples."""
    saved = tf.train.Checkpoint(step=step, weights=weights)
    newest = None if BARE else tf.train.latest_checkpoint(checkpoints)
    if newest:
        saved.restore(newest).assert_existing_objects_matched()
    mark("restore")
    share = tf.constant(x[:GLOBAL_BATCH // 2])
    number = int(step.numpy())
    while True:
        train_step(share)
        number += 1
        say(step=now(), number=number)
        rest()


def elastically():
    data = tfe.data.elastic(x, global_batch=GLOBAL_BATCH, seed=7)
    checkpointer = tfe.Checkpointer(checkpoints, step=step, weights=weights, data=data)
    save = checkpointer.manager.save

    def save_timed(number):
        at = now()
        path = save(number)
        say(save=[at, now()], number=int(step.numpy()))
        return path
    take = checkpointer._memory.take

    def take_timed(number, *wanted):
        at = now()
        read = take(number, *wanted)
        say(save=[at, now()], number=number)
        return read
    checkpointer.manager.save, checkpointer._memory.take = save_timed, take_timed
    number = checkpointer.restore()
    if number == 0:
        checkpointer.save()  # for the floor, since a switch leaves nothing on the disk
    mark("restore")
    while True:
        for share in data:
            train_step(share.values)
            number += 1
            say(step=now(), number=number)
            checkpointer.after_step()
            rest()


plainly() if PLAIN else elastically()
