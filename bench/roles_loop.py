"""bench/roles_loop.py: a chief that gives small steps to the workers of a cluster with ps, and logs the time of each
step.

    roles_loop.py STEP_LOG_DIRECTORY CHECKPOINT_DIRECTORY

One file of JSON lines per process, times in ms of CLOCK_MONOTONIC: {"begin"} at the script's first line, {"mark", "at"}
for each part of its start, and from the chief {"step", "by"} for each step; by is the time at which the worker's
process had got its data, which identifies the process. The chief restores the newest checkpoint.
"""
import json
import os
import sys
import time


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6


began = now()
EPOCH, RANK = int(os.environ.get("TFE_EPOCH", 0)), int(os.environ.get("TFE_RANK", 0))
folder, checkpoints = sys.argv[1], sys.argv[2]
log = open(os.path.join(folder, f"{EPOCH}.{RANK}.{os.getpid()}.jsonl"), "a", buffering=1)
doze = os.path.join(folder, "doze")


def say(**fields):
    log.write(json.dumps({"epoch": EPOCH, "rank": RANK, "pid": os.getpid(), "node": os.environ.get("TFE_NODE", ""), **fields}) + "\n")


def mark(name):
    say(mark=name, at=now())


say(begin=began)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
import tfe

mark("import")
tfe.serve()
strategy = tfe.strategy()
coordinator = tfe.coordinator(strategy)
mark("strategy")
with strategy.scope():
    weights = tf.Variable(tf.zeros([8]))
step = tf.Variable(0, dtype=tf.int64)
checkpointer = tfe.Checkpointer(checkpoints, step=step, every_steps=200, weights=weights)
number = checkpointer.restore()
mark("restore")


def who():
    return tf.data.Dataset.from_tensors(0.0).map(lambda _: tf.timestamp()).cache().repeat()


@tf.function
def train_step(data):
    weights.assign_add(tf.ones([8]))
    return next(data)


data = iter(coordinator.create_per_worker_dataset(who))
while True:
    for value in [coordinator.schedule(train_step, args=(data,)) for _ in range(4)]:
        try:
            by = value.fetch()
        except tf.errors.UnavailableError:  # killed between its work and this line: TensorFlow repeats the former, but not this
            continue
        say(step=now(), by=float(by))
    number += 4
    step.assign(number)
    checkpointer.after_step()
    time.sleep(0.5 if os.path.exists(doze) else 0.02)
