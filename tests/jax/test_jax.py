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


def digits(fleet, steps, *options, pause=0.02, **environment):
    return Job(fleet, EXAMPLES / "jax_loop.py", "--directory", fleet.checkpoints, "--steps", steps, "--every-steps", 100,
               "--pause", pause, options=("--nnodes=1:3", *options), **environment)


def test_kill_of_a_peer_of_process_0_and_of_an_agent_then_a_join_and_a_drain(make_fleet):
    fleet = make_fleet()
    job = digits(fleet, 100_000)
    for _ in range(3):
        job.join()
    epoch = job.wait_trains(3)
    for rank in (2, 0):
        job.kill_trainer(rank)
        epoch = job.wait_trains(3, above_epoch=epoch)
    victim = job.trainer(1)[1]
    job.kill_agent(victim)
    epoch = job.wait_trains(2, above_epoch=epoch)
    job.join()
    epoch = job.wait_trains(3, above_epoch=epoch)
    assert [one["cause"] for one in fleet.epochs()] == ["start", "trainer_failed", "trainer_failed", "node_lost", "joined"]
    before = job.step()
    fleet.ctl("drain", job.trainer(2)[1])
    job.wait_trains(2, above_epoch=epoch)
    last = fleet.epochs()[-1]
    assert last["cause"] in ("preempted", "drained", "left") and last["members"] == 2
    told = [line for name in job.names for line in fleet.output(name, "err").splitlines() if '"event":"epoch"' in line]
    assert told
    # The epoch after the drain goes on from the very step at which the one before had ended.
    first = max(start[2] for start in job.starts() if start[1] == 2)
    assert first >= before
    assert fleet.ctl("epochs", "default").splitlines()


def undisturbed(make_fleet, steps, world):
    fleet = make_fleet()
    job = digits(fleet, steps, f"--nnodes={world}:{world}", pause=0)
    for _ in range(world):
        job.join()
    assert job.end() == {0}
    return job.final()


@pytest.mark.parametrize("environment", [{}], ids=["memory"])
def test_random_kills_leave_no_trace_in_the_weights(make_fleet, environment):
    steps = 40 * KILLS + 100
    rng = random.Random(SEED)
    wanted = undisturbed(make_fleet, steps, 2)
    fleet = make_fleet()
    job = digits(fleet, steps, "--nnodes=2:2", pause=0.05, **environment)
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
