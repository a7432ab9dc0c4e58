"""Elastic training with Model.fit: handwritten digits, tf_keras, MultiWorkerMirroredStrategy.

    tfe-agent --nnodes=1:4 keras_fit.py --checkpoint-dir /shared/digits-keras

BackupAndRestore saves to storage that all machines share and resumes in the middle of a pass over the data, so
that this script may be started anew at any moment, with any number of workers. It resumes at the right step, but
with a new shuffle; digits.py shows how no sample is lost or seen twice.
Keras 3 cannot train under this strategy; tf_keras, which is Keras 2, can:
    pip install --no-deps "tf-keras==2.21.*"        # the same minor version as tensorflow
"""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ["TF_USE_LEGACY_KERAS"] = "1"            # before the import: makes tf.keras mean tf_keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--checkpoint-dir", default="/tmp/digits-keras", help="on shared storage")
p.add_argument("--epochs", type=int, default=12, help="passes over the data")
p.add_argument("--batch", type=int, default=96, help="samples per step, of all workers together")
p.add_argument("--hold", metavar="FILE", help="begin the last pass only once FILE is gone")
args = p.parse_args()

rank = int(os.environ.get("TFE_RANK", 0))
epoch = os.environ.get("TFE_EPOCH", "0")
world = os.environ.get("TFE_WORLD_SIZE", "1")

# First thing: all workers meet in here.
strategy = (tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ
            else tf.distribute.get_strategy())

digits = load_digits()
x_train, x_test, y_train, y_test = train_test_split(
    (digits.data / 16).astype(np.float32), digits.target.astype(np.int32), test_size=0.2,
    random_state=7, stratify=digits.target)

# The global batch; Keras divides it among the workers. The same order everywhere, and whole batches only.
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = (tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(len(x_train), seed=7)
        .batch(args.batch, drop_remainder=True).with_options(options))

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(64, activation="relu", input_shape=(64,)),
        tf.keras.layers.Dense(10)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])


class Report(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        print(f"epoch {epoch}: {world} workers, from batch {int(model.optimizer.iterations.numpy())}", flush=True)

    def on_epoch_begin(self, number, logs=None):
        while args.hold and number == args.epochs - 1 and os.path.exists(args.hold):
            time.sleep(0.05)

    def on_epoch_end(self, number, logs=None):
        if rank == 0:
            print(f"pass {number + 1} of {args.epochs}: loss {logs['loss']:.4f}", flush=True)


# delete_checkpoint=False: should the job be started once more after its end, it goes on from there, not from zero.
backup = tf.keras.callbacks.BackupAndRestore(args.checkpoint_dir, save_freq=10, delete_checkpoint=False)
model.fit(data, epochs=args.epochs, verbose=0, callbacks=[backup, Report()])

if rank == 0:
    predicted = np.argmax(model(x_test).numpy(), axis=1)
    print(f"test accuracy {np.mean(predicted == y_test):.4f}", flush=True)
