"""Elastic training with Model.fit: handwritten digits, tf_keras, MultiWorkerMirroredStrategy.

    pip install agent/python                           # once: the package tfe
    tfe-agent --nnodes=1:4 keras_fit.py --checkpoint-dir /shared/digits-keras

Each pass over the data is one call of fit() with what is left of it; the callback keeps count, saves, and answers the
agent. So this script may be started anew at any moment, with any number of workers, and goes on at the right sample.
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
import tfe
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--checkpoint-dir", default="/tmp/digits-keras", help="on shared storage")
p.add_argument("--epochs", type=int, default=12, help="passes over the data")
p.add_argument("--batch", type=int, default=96, help="samples per step, of all workers together")
p.add_argument("--save-every", type=int, default=10, metavar="STEPS")
p.add_argument("--hold", metavar="FILE", help="begin the last pass only once FILE is gone")
args = p.parse_args()

# First thing: all workers meet in here.
strategy = tfe.strategy()

digits = load_digits()
x_train, x_test, y_train, y_test = train_test_split(
    (digits.data / 16).astype(np.float32), digits.target.astype(np.int32), test_size=0.2,
    random_state=7, stratify=digits.target)
data = tfe.data.elastic((x_train, y_train), global_batch=args.batch, seed=7, strategy=strategy)

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(64, activation="relu", input_shape=(64,)),
        tf.keras.layers.Dense(10)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

checkpointer = tfe.Checkpointer(args.checkpoint_dir, step=model.optimizer.iterations, every_steps=args.save_every,
                                model=model, data=data)
step = checkpointer.restore()
print(f"epoch {tfe.epoch()}: {tfe.world_size()} workers, from batch {step}", flush=True)

while data.epoch < args.epochs:
    while args.hold and data.epoch == args.epochs - 1 and data.samples == 0 and os.path.exists(args.hold):
        checkpointer.after_step()                  # the agent may ask for a checkpoint meanwhile
        time.sleep(0.05)
    history = model.fit(data.for_fit(), steps_per_epoch=data.steps_left, initial_epoch=data.epoch,
                        epochs=data.epoch + 1, verbose=0, callbacks=[tfe.keras.Callback(checkpointer, data)])
    if tfe.rank() == 0:
        print(f"pass {data.epoch} of {args.epochs}: loss {history.history['loss'][0]:.4f}", flush=True)
checkpointer.save()

if tfe.rank() == 0:
    predicted = np.argmax(model(x_test).numpy(), axis=1)
    print(f"test accuracy {np.mean(predicted == y_test):.4f}", flush=True)
