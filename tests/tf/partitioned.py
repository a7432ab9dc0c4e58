"""A chief whose large variable is partitioned over the ps and changes by a known amount in each step; a restored state
must be complete.

    partitioned.py CHECKPOINT_DIRECTORY STEP_LOG_DIRECTORY HOLD      runs without end while the file HOLD exists
"""
import json
import os
import sys
import time

import tensorflow as tf
import tfe

tfe.serve()
checkpoints, logs, hold = sys.argv[1:]
strategy = tfe.strategy(partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
coordinator = tfe.coordinator(strategy)
with strategy.scope():
    table = tf.Variable(tf.reshape(tf.range(26.0), [13, 2]))
    bias = tf.Variable([0.5])
step = tf.Variable(0, dtype=tf.int64)
checkpointer = tfe.Checkpointer(checkpoints, step=step, every_steps=10**6, table=table, bias=bias)  # saves only on request


@tf.function
def train_step(number):
    for part in [*table.variables, bias]:
        part.assign_add(tf.ones_like(part) / (tf.cast(number, tf.float32) + 3.0))


def say(event):
    os.makedirs(logs, exist_ok=True)
    with open(os.path.join(logs, f"{tfe.epoch()}-{os.getpid()}.jsonl"), "a") as out:
        print(json.dumps({"event": event, "t_ms": time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 10**6, "epoch": tfe.epoch(), "step": int(step),
                          "table": tf.convert_to_tensor(table).numpy().tolist(), "bias": bias.numpy().tolist(),
                          "devices": sorted({part.device for part in table.variables})}), file=out)


checkpointer.restore()
say("restored")
holds = True
while holds:  # at least one step, since a reader of "restored" may remove HOLD at once
    coordinator.schedule(train_step, args=(tf.constant(int(step)),))
    step.assign_add(1)
    checkpointer.after_step()
    time.sleep(0.01)
    holds = os.path.exists(hold)
checkpointer.save()
say("end")
