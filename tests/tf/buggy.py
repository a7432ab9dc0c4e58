"""A training script with a bug: every worker raises at its fifth step."""
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def total():
    def add():
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.constant(1.0))
    return strategy.run(add)


for step in range(1, 10):
    print(f"step {step}: {float(total())}", flush=True)
    if step == 5:
        raise ValueError("the bug of step 5")
