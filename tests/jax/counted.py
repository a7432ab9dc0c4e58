"""counted.py ARGUMENTS...: jax_loop.py, which writes each step that it has done to a file in STEP_LOGS: "EPOCH STEP"."""
import os
import pathlib
import runpy
import sys

import tfe
import tfe.jax

real = tfe.jax.Checkpointer.after_step
log = open(os.path.join(os.environ["STEP_LOGS"], f"{tfe.epoch()}.{tfe.rank()}"), "a", buffering=1)


def after_step(self, step, state, samples=None):
    log.write(f"{tfe.epoch()} {step}\n")
    return real(self, step, state, samples)


tfe.jax.Checkpointer.after_step = after_step
sys.argv[0] = str(pathlib.Path(__file__).resolve().parents[2] / "scripts/examples/jax_loop.py")
runpy.run_path(sys.argv[0], run_name="__main__")
