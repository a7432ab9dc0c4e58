"""ParameterServerStrategy as TensorFlow's own tutorial has it: a custom loop with a ClusterCoordinator. It knows nothing of tfe.

    tfe-agent --nnodes=2:4 --ps=1 --chief parameter_server_tutorial.py /shared/checkpoints
"""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

STEPS_PER_EPOCH, EPOCHS = 20, int(sys.argv[2]) if len(sys.argv) > 2 else 20

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(cluster_resolver.cluster_spec(), job_name=cluster_resolver.task_type,
                                  task_index=cluster_resolver.task_id, protocol=cluster_resolver.rpc_layer or "grpc", start=True)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(cluster_resolver)
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))
    bias = tf.Variable(tf.zeros([1]))
    epoch = tf.Variable(0, dtype=tf.int64)


def dataset_fn():
    x = tf.random.normal([1000, 4])
    y = tf.reduce_sum(x, axis=1, keepdims=True) + 1.0
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).repeat().batch(32)


@tf.function
def train_step(iterator):
    x, y = next(iterator)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(x, weights) + bias - y) ** 2)
    for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias))):
        variable.assign_sub(0.05 * gradient)
    return loss


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(lambda _: dataset_fn())


iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
checkpoint = tf.train.Checkpoint(weights=weights, bias=bias, epoch=epoch)
manager = tf.train.CheckpointManager(checkpoint, sys.argv[1], max_to_keep=3)
checkpoint.restore(manager.latest_checkpoint)
print(f"from epoch {int(epoch.numpy())}", flush=True)
while int(epoch.numpy()) < EPOCHS:
    for _ in range(STEPS_PER_EPOCH):
        loss = coordinator.schedule(train_step, args=(iterator,))
        time.sleep(0.01)                           # a step of a real model takes longer than one of this
    coordinator.join()
    epoch.assign_add(1)
    manager.save(int(epoch.numpy()))
    print(f"epoch {int(epoch.numpy())} of {EPOCHS}: loss {loss.fetch():.4f}", flush=True)
print("done:", [round(float(v), 2) for v in tf.reshape(weights, [-1])], flush=True)
