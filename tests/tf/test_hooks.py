"""What the hooks detect in unmodified scripts: saves of every kind, steps of an optimizer, a handler of SIGTERM."""
import json
import re
import signal
import subprocess
import textwrap

import fleet as fl
from programs import program

PATIENCE_S = 150
DEBUG = ("--nnodes=1:1", "--log-level=debug", "--log-format=json")

# Each way to save, at a step of its own, which the optimizer's counter identifies.
SAVES = """
    import sys
    import tensorflow as tf
    import tf_keras
    there = sys.argv[1]
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])
    optimizer = tf_keras.optimizers.SGD()
    every = tf.train.Checkpoint(model=model, optimizer=optimizer)
    manager = tf.train.CheckpointManager(every, there + "/manager", max_to_keep=2)
    later = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    def fit():
        model.compile(tf_keras.optimizers.SGD(), "mse")
        model.fit(tf.ones((6, 2)), tf.ones((6, 1)), batch_size=1, verbose=0,
                  callbacks=[tf_keras.callbacks.BackupAndRestore(there + "/backup")])
    ways = [lambda: every.save(there + "/a"), lambda: every.write(there + "/b"), lambda: manager.save(),
            lambda: manager.save(checkpoint_number=77), lambda: model.save_weights(there + "/c"),
            lambda: (every.save(there + "/d", options=later), every.sync()), fit]
    for number, way in enumerate(ways, 1):
        optimizer.iterations.assign(10 * number)
        way()
    print("all were saved", flush=True)
    # What is no checkpoint of the training.
    model.save(there + "/model")
    tf.saved_model.save(model, there + "/saved")
"""

HANDLER = """
    import signal, sys, time
    import tensorflow as tf, tf_keras
    def leave(number, frame):
        manager.save()
        print("saved at", optimizer.iterations.numpy(), flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, leave)
    # It puts a handler of its own over this one.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])
        optimizer = tf_keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model, optimizer=optimizer), sys.argv[1], 2)
    @tf.function
    def step():
        strategy.run(lambda: optimizer.apply_gradients([(tf.ones_like(v), v) for v in model.trainable_variables]))
    while True:
        step()
        time.sleep(0.02)
"""


def start(fleet, text):
    script = fleet.directory / "script.py"
    script.write_text(textwrap.dedent(text))
    fleet.start_agent("a", script, fleet.checkpoints, options=DEBUG, TF_USE_LEGACY_KERAS="1")
    return fleet.agents["a"]


def epochs(fleet):
    told = subprocess.run([program("tfe-ctl"), "epochs", "default", "--json", "--state-dir", str(fleet.state)],
                          capture_output=True, text=True, timeout=20)
    return json.loads(told.stdout)["epochs"] if told.returncode == 0 else []


def said(fleet, event, name="a"):
    lines = [line for line in fleet.output(name, "err").splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in map(json.loads, lines) if line["event"] == event]


def test_every_way_to_save_is_seen_once_it_is_whole(make_fleet):
    fleet = make_fleet()
    agent = start(fleet, SAVES)
    assert agent.wait(PATIENCE_S) == 0, fleet.output("a", "err")[-3000:]
    seen = [line["step"] for line in said(fleet, "checkpoint_reported")]
    # BackupAndRestore saves when an epoch ends, after 6 steps of its own optimizer; 60 is the other optimizer's step.
    assert seen[:6] == [10, 20, 30, 40, 50, 60] and len(seen) == 7, seen
    assert not said(fleet, "hook_failed")


def test_a_handler_set_before_the_strategy_saves_and_steps_are_seen(make_fleet):
    fleet = make_fleet("--stop-grace", "60")
    agent = start(fleet, HANDLER)
    fl.wait_for("steps", lambda: epochs(fleet) and epochs(fleet)[0].get("progressed_ms"), PATIENCE_S)
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(PATIENCE_S) == 143
    step = int(re.search(r"saved at (\d+)", fleet.output("a"))[1])
    assert step > 0
    fl.wait_for(f"step {step} in the server's books", lambda: epochs(fleet) and epochs(fleet)[0]["saved_step"] == step, 20)
    assert len(said(fleet, "checkpoint_reported")) == 1 and not said(fleet, "hook_failed")


# Keras 3 does not support the strategy's collectives: fit fails, after a minute of TensorFlow's own messages.
KERAS3 = """
    import keras
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(tf.ones((8, 2)), tf.ones((8, 1)), batch_size=2, verbose=0)
"""


def test_fit_of_keras_3_with_two_workers_is_said_to_fail_before_it_does(make_fleet):
    fleet = make_fleet()
    script = fleet.directory / "script.py"
    script.write_text(textwrap.dedent(KERAS3))
    for name in "ab":
        fleet.start_agent(name, script, options=("--nnodes=2:2", "--max-restarts=0", "--log-format=json"),
                          TF_USE_LEGACY_KERAS="0")
    fl.wait_for("the sentence", lambda: all(said(fleet, "keras3_fit", name) for name in "ab"), PATIENCE_S)
    warned, = said(fleet, "keras3_fit", "a")
    assert warned["level"] == "warn" and "tf_keras with TF_USE_LEGACY_KERAS=1" in warned["reason"]
    assert not said(fleet, "trainer_exited", "a") or \
        warned["time"] <= said(fleet, "trainer_exited", "a")[0]["time"]
