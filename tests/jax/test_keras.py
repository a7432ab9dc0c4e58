"""Keras 3 on JAX: Model.fit with the callback, under real agents."""
import pytest
from jobs import EXAMPLES, Job

pytestmark = pytest.mark.needs("jax")


def fit(fleet, steps, pause=0.03, options=("--nnodes=2:2",)):
    job = Job(fleet, EXAMPLES / "keras_jax.py", "--directory", fleet.checkpoints, "--steps", steps, "--every-steps", 20, "--pause", pause,
              options=options)
    for _ in range(2):
        job.join()
    return job


def test_fit_goes_on_behind_the_last_step_after_a_kill_with_the_same_weights(make_fleet):
    calm = fit(make_fleet(), 150, pause=0)
    assert calm.end() == {0}
    job = fit(make_fleet(), 150)
    job.wait_trains(2)
    job.kill_trainer(1)
    assert job.end() == {0}
    assert len(job.fleet.epochs()) == 2 and max(start[2] for start in job.starts()) > 0
    assert job.final() == calm.final() and job.final()[0] == 150
    # The compiled step is there when it starts again.
    assert list((job.fleet.checkpoints / "jax-cache").glob("*/*"))
