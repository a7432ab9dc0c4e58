"""Model.fit of tf_keras under ParameterServerStrategy, and an evaluator beside it: handwritten digits, one script for all roles.

    pip install agent/python                           # once: the package tfe
    tfe-agent --nnodes=2:8 --ps=1 --chief --evaluator parameter_server_fit.py --checkpoint-dir /shared/digits-ps-fit

At the end of each of fit()'s epochs the callback saves when it is time, and answers the agent; so these are short. The
workers draw their samples by themselves, so that a sample may be seen more often than another; parameter_server.py has
a loop that does better. tf_keras is Keras 2: pip install --no-deps "tf-keras==2.21.*" (the minor version of tensorflow).
"""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ["TF_USE_LEGACY_KERAS"] = "1"            # before the import: makes tf.keras mean tf_keras
import numpy as np
import tensorflow as tf
import tfe

tfe.serve()                                        # workers and ps stay in here

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--checkpoint-dir", default="/tmp/digits-ps-fit", help="on shared storage: the ps write there, too")
p.add_argument("--steps", type=int, default=600)
p.add_argument("--batch", type=int, default=96, help="samples per step")
p.add_argument("--save-every", type=int, default=60, metavar="STEPS")
p.add_argument("--hold", metavar="FILE", help="take the last steps only once FILE is gone")
args = p.parse_args()
PASS = 20                                          # steps in one of fit()'s epochs

strategy = tfe.strategy(partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))

digits = load_digits()
x_train, x_test, y_train, y_test = train_test_split(
    (digits.data / 16).astype(np.float32), digits.target.astype(np.int32), test_size=0.2,
    random_state=7, stratify=digits.target)

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(64, activation="relu", input_shape=(64,)),
        tf.keras.layers.Dense(10)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

if tfe.role() == "evaluator":
    for path in tfe.new_checkpoints(args.checkpoint_dir):
        tf.train.Checkpoint(model=model, step=model.optimizer.iterations).restore(path).expect_partial()
        accuracy = model.evaluate(x_test, y_test, verbose=0)[1]
        print(f"step {int(model.optimizer.iterations)}: test accuracy {accuracy:.4f}", flush=True)
    raise SystemExit


def batches(_context):
    """For each worker, which has its own order."""
    return tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(len(x_train)).repeat().batch(args.batch)


checkpointer = tfe.Checkpointer(args.checkpoint_dir, step=model.optimizer.iterations, every_steps=args.save_every, model=model)
done = checkpointer.restore()
print(f"epoch {tfe.epoch()}: from step {done}", flush=True)


def hold(epoch, logs):
    while args.hold and epoch == args.steps // PASS - 1 and os.path.exists(args.hold):
        checkpointer.after_step()                  # the agent may ask for a checkpoint meanwhile
        time.sleep(0.05)


def show(epoch, logs):
    print(f"step {(epoch + 1) * PASS} of {args.steps}: loss {logs['loss']:.4f}", flush=True)


model.fit(tf.keras.utils.experimental.DatasetCreator(batches), steps_per_epoch=PASS, initial_epoch=done // PASS,
          epochs=args.steps // PASS, verbose=0, callbacks=[tf.keras.callbacks.LambdaCallback(on_epoch_begin=hold, on_epoch_end=show),
                                                           tfe.keras.Callback(checkpointer)])
checkpointer.save()
