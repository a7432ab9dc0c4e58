"""A loop with tf.train.CheckpointManager as in TensorFlow's documentation, except for one import. It calls save() after
every third step."""
import sys
import time

import tensorflow as tf
from tfe import CheckpointManager

directory, steps, interval = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
with strategy.scope():
    step = tf.Variable(0, dtype=tf.int64)
    total = tf.Variable(0.0)
    # Like a metric: reading it for a save requires all ranks.
    seen = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)


@tf.function
def train_step():
    def replica_step():
        ones = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, tf.constant(1.0))
        total.assign_add(ones)
        seen.assign_add(ones / strategy.num_replicas_in_sync)
        step.assign_add(1)
    strategy.run(replica_step)


manager = CheckpointManager(tf.train.Checkpoint(step=step, total=total, seen=seen), directory, 3, step_counter=step,
                            checkpoint_interval=interval, init_fn=lambda: print("begins", flush=True))
restored = manager.restore_or_initialize()
done = int(step.numpy())
assert float(total.numpy()) == done and abs(float(seen.read_value()) - done) < 0.1
print(f"rank {rank} from step {done}, disk {manager.latest_checkpoint}, restored {restored}", flush=True)
while done < steps:
    train_step()
    done += 1
    if rank == 0 and done % 10 == 0:
        print(f"at step {done}", flush=True)
    if done % 3 == 0 and manager.save() and rank == 0:
        print(f"saved {done}", flush=True)
    time.sleep(0.05)
print("all done", flush=True)
