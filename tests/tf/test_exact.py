"""kill -9 at random moments: no sample is lost or repeated, and the weights equal those of an undisturbed run."""
import os
import random
import signal
import time

import exact
import fleet as fl
import numpy as np
import pytest

pytestmark = pytest.mark.xdist_group("exact")  # one undisturbed training for all of them

FULL = bool(os.environ.get("TFE_TEST_FULL"))
KILLS = 20 if FULL else 2
STEPS = 1500 if FULL else 240
SEED = int(os.environ.get("TFE_TEST_SEED") or time.time())
PATIENCE_S = 120


def train(fleet, names, nnodes, kills, chance=None, replace=True, saves=("--save-every", 15), least=1):
    """Trains to the end with agents of these names; kills an agent or a trainer at random, at least a number of steps
    apart. Returns the remaining agents."""
    hold = fleet.directory / "hold"
    hold.touch()
    options = (f"--nnodes={nnodes}", "--max-restarts=1000")
    arguments = ("--steps", STEPS, *saves, "--pace", 0.01, "--hold", hold)
    fresh = iter("klmnopqrstuvwxyzABCDEFGHIJKLMNOP")

    def start(name):
        exact.start_digits(fleet, name, fleet.checkpoints, *arguments, options=options, **exact.ONE_THREAD)

    living = list(names)
    for name in living:
        start(name)
    for kill in range(kills):
        goal = min(STEPS - 20, exact.highest_step(fleet) + chance.randint(least, STEPS // (kills + 1)))
        fl.wait_for(f"step {goal}", lambda: exact.highest_step(fleet) >= goal, PATIENCE_S)
        time.sleep(chance.random() * 0.1)  # anywhere within a step, a save, or a restart
        victim = chance.choice(living)
        epochs = len(fleet.epochs())
        if replace and kill % 2:
            fl.wait_for("a trainer to kill", lambda: exact.kill_trainer(fleet, victim), PATIENCE_S)
        else:
            fleet.agents[victim].send_signal(signal.SIGKILL)
            living.remove(victim)
            if replace:
                living.append(next(fresh))
                start(living[-1])
        fl.wait_for(f"another epoch after kill {kill + 1}", lambda: len(fleet.epochs()) > epochs, PATIENCE_S)
    hold.unlink()
    assert fleet.wait_agents(living, PATIENCE_S) == dict.fromkeys(living, 0)
    exact.check_samples(fleet, STEPS)
    return living


def weights(fleet):
    """Returns the weights of the last checkpoint, by name."""
    import tensorflow as tf
    import tfe
    reader = tf.train.load_checkpoint(tfe.newest_checkpoint(fleet.checkpoints))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "weights/" in name or "momentum/" in name}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Two members, from the beginning to the end."""
    with fl.Fleet(tmp_path_factory.mktemp("undisturbed"), "--ttl", "3", "--gather", "20") as fleet:
        train(fleet, "ab", "2", 0)
        yield fleet


@pytest.mark.heavy  # test_kills does more than this with three
def test_random_kills_change_no_bit(make_fleet, undisturbed):
    print(f"TFE_TEST_SEED={SEED}")
    fleet = make_fleet("--fence", "9")
    train(fleet, "ab", "2", KILLS, random.Random(SEED))
    assert exact.result(fleet)["weights"] == exact.result(undisturbed)["weights"]


@pytest.mark.heavy  # as the one above
def test_from_memory_alone_no_bit_changes_either(make_fleet, undisturbed):
    """Nothing is on disk before the end: the survivor has the state, and the new node gets it from there."""
    print(f"TFE_TEST_SEED={SEED}")
    fleet = make_fleet("--fence", "9")
    train(fleet, "ab", "2", KILLS, random.Random(SEED), saves=("--save-every", 10**6, "--memory-every", 2), least=5)
    begins = exact.restored(fleet)
    assert len(begins) > KILLS
    for epoch, first in begins[1:]:
        done = max(line["step"] for line in fleet.steps() if line["epoch"] < epoch)
        assert done - 4 <= first <= done, begins  # one of two snapshots: if the kill interrupts a copy, the other buffer counts
    assert exact.result(fleet)["weights"] == exact.result(undisturbed)["weights"]


def test_another_number_of_members_trains_the_same(make_fleet, undisturbed):
    print(f"TFE_TEST_SEED={SEED}")
    fleet = make_fleet("--fence", "9")
    left = train(fleet, "abc", "1:3", 2 if FULL else 1, random.Random(SEED), replace=False)
    assert {line["world"] for line in fleet.steps()} >= {3, len(left)}
    # Float32 sums in another order, through hundreds of steps that amplify the difference.
    expected = weights(undisturbed)
    assert expected
    for name, value in weights(fleet).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-3, err_msg=name)
