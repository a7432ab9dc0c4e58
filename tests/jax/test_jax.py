"""JAX under real agents: kills, joins and notices, and weights that do not depend on them."""
import os
import pathlib
import random
import time

import pytest
from jobs import EXAMPLES, Job

pytestmark = pytest.mark.needs("jax")
FULL = bool(os.environ.get("TFE_TEST_FULL"))
KILLS = 20 if FULL else 3
SEED = int(os.environ.get("TFE_TEST_SEED") or time.time())


def digits(fleet, steps, *options, pause=0.02, script=EXAMPLES / "jax_loop.py", **environment):
    return Job(fleet, script, "--directory", fleet.checkpoints, "--steps", steps, "--every-steps", 100,
               "--pause", pause, options=("--nnodes=1:3", *options), **environment)


def done_in(fleet, epoch):
    """The last step that a rank has done in this epoch."""
    lines = [line.split() for path in fleet.step_logs.iterdir() for line in path.read_text().splitlines()]
    return max(int(step) for number, step in lines if int(number) == epoch)


def test_kills_a_join_and_a_drain_which_costs_no_step(make_fleet):
    fleet = make_fleet()
    job = digits(fleet, 100_000, script=pathlib.Path(__file__).with_name("counted.py"), STEP_LOGS=str(fleet.step_logs))
    for _ in range(3):
        job.join()
    epoch = job.wait_trains(3)
    for rank in (2, 0):
        job.kill_trainer(rank)
        epoch = job.wait_trains(3, above_epoch=epoch)
    job.kill_agent(job.trainer(1)[1])
    epoch = job.wait_trains(2, above_epoch=epoch)
    job.join()
    before = epoch
    epoch = job.wait_trains(3, above_epoch=epoch)
    assert [one["cause"] for one in fleet.epochs()] == ["start", "trainer_failed", "trainer_failed", "node_lost", "joined"]
    assert done_in(fleet, before) == max(start[2] for start in job.starts() if start[1] == 3)  # nor does a join
    fleet.ctl("drain", job.trainer(2)[1])
    job.wait_trains(2, above_epoch=epoch)
    assert fleet.epochs()[-1]["members"] == 2
    assert done_in(fleet, epoch) == max(start[2] for start in job.starts() if start[1] == 2)


def undisturbed(make_fleet, steps, world):
    fleet = make_fleet()
    job = digits(fleet, steps, f"--nnodes={world}:{world}", pause=0)
    for _ in range(world):
        job.join()
    assert job.end() == {0}
    return job.final()


def test_random_kills_leave_no_trace_in_the_weights(make_fleet):
    steps = 40 * KILLS + 100
    rng = random.Random(SEED)
    wanted = undisturbed(make_fleet, steps, 2)
    fleet = make_fleet()
    job = digits(fleet, steps, "--nnodes=2:2", pause=0.05)
    for _ in range(2):
        job.join()
    epoch = 0
    for _ in range(KILLS):
        epoch = job.wait_trains(2, above_epoch=epoch, steps=rng.randrange(1, 8))
        job.kill_trainer(rng.randrange(2))
    assert job.end() == {0}, f"seed {SEED}"
    assert job.final() == wanted, f"seed {SEED}"
    assert len(fleet.epochs()) == KILLS + 1
    assert sum(start[2] > 0 for start in job.starts()) >= KILLS  # it did go on from what was kept


def test_recoverability_does_no_harm(make_fleet):
    fleet = make_fleet()
    job = digits(fleet, 100_000, JAX_ENABLE_RECOVERABILITY="true")
    for _ in range(2):
        job.join()
    epoch = job.wait_trains(2)
    job.kill_trainer(1)
    epoch = job.wait_trains(2, above_epoch=epoch)
    job.kill_trainer(0)
    job.wait_trains(2, above_epoch=epoch)
    assert [one["cause"] for one in fleet.epochs()] == ["start", "trainer_failed", "trainer_failed"]


@pytest.mark.needs("orbax")
def test_a_sharded_state_is_saved_and_restored_by_orbax(make_fleet):
    fleet = make_fleet()
    job = Job(fleet, pathlib.Path(__file__).with_name("sharded.py"), fleet.checkpoints, 150, options=("--nnodes=2:2",))
    for _ in range(2):
        job.join()
    epoch = job.wait_trains(2, steps=15)
    job.kill_trainer(1)
    assert job.end() == {0} and len(fleet.epochs()) == epoch + 1
    assert max(start[2] for start in job.starts()) >= 10
    assert list(fleet.checkpoints.glob("ckpt-*-150.orbax"))
