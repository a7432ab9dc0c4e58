"""A training loop for several workers as TensorFlow's own tutorials have it. It knows nothing of tfe.

    tfe-agent --nnodes=2:4 tutorial.py /shared/checkpoints
"""
import os
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
import tf_keras

STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
GLOBAL_BATCH = 60

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, workers = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync

with strategy.scope():
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(4,))])
    optimizer = tf_keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

# All take part in a save; what the others write is thrown away.
folder = sys.argv[1] if rank == 0 else tempfile.mkdtemp()
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=3)
checkpoint.restore(tf.train.latest_checkpoint(sys.argv[1]))


@tf.function
def train_step():
    def replica_step():
        x = tf.random.normal([GLOBAL_BATCH // workers, 4])
        y = tf.reduce_sum(x, axis=1, keepdims=True) + 1.0
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x) - y) ** 2) / GLOBAL_BATCH
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step), axis=None)


step = int(optimizer.iterations.numpy())
print(f"worker {rank} of {workers}, from step {step}", flush=True)
while step < STEPS:
    loss = float(train_step())
    step += 1
    time.sleep(0.04)    # a step of a real model takes longer than one of this
    if step % 100 == 0:
        manager.save(step)
        if rank == 0:
            print(f"step {step} of {STEPS}, loss {loss:.4f}", flush=True)
if rank == 0:
    print("done:", [round(float(v), 2) for v in tf.reshape(model.weights[0], [-1])], flush=True)
