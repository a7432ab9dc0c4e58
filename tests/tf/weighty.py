"""digits.py with a state that takes a while to copy: BALLAST_BYTES more (from the environment), derived from the step.

A restored state must belong to a single step; otherwise the script prints TORN and ends."""
import os
import pathlib
import runpy

import tfe

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import tensorflow as tf


class Checkpointer(tfe.Checkpointer):
    def __init__(self, directory, *, step, **objects):
        self._counter, self._ballast = step, tf.Variable(tf.zeros([int(os.environ["BALLAST_BYTES"]) // 8], tf.int64))
        super().__init__(directory, step=step, ballast=self._ballast, **objects)

    def restore(self):
        step = super().restore()
        if bool(tf.reduce_any(self._ballast != step)):
            raise SystemExit(f"TORN: of step {step}, and something else")
        return step

    def after_step(self):
        self._ballast.assign(tf.fill(self._ballast.shape, self._counter.read_value()))
        return super().after_step()


tfe.Checkpointer = Checkpointer
runpy.run_path(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "examples" / "digits.py"), run_name="__main__")
