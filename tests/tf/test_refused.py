"""An agent that gives no memory: the script reports it once, and continues from the disk."""
import exact
import fleet as fl

PATIENCE_S, EVERY = 120, 5
SENTENCE = "tfe: no snapshots in memory: the state needs 1 MiB of memory, and --state-memory allows 0 MiB on this node"


def test_training_goes_on_with_the_disk_alone(make_fleet):
    fleet = make_fleet()
    hold = fleet.directory / "hold"
    hold.touch()
    exact.start_digits(fleet, "a", fleet.checkpoints, "--steps", 60, "--save-every", EVERY, "--pace", 0.01, "--hold", hold,
                       options=("--nnodes=1", "--max-restarts=3", "--state-memory=4K"))
    fl.wait_for("two checkpoints", lambda: exact.highest_step(fleet) > 2 * EVERY + 1, PATIENCE_S)
    fl.wait_for("a trainer to kill", lambda: exact.kill_trainer(fleet, "a"), PATIENCE_S)
    fl.wait_for("another epoch", lambda: len(exact.restored(fleet)) == 2, PATIENCE_S)
    hold.unlink()
    assert fleet.wait_agents("a", PATIENCE_S) == {"a": 0}
    exact.check_samples(fleet, 60)
    (_, first), (_, second) = exact.restored(fleet)
    assert first == 0 and second >= EVERY and second % EVERY == 0
    assert fleet.output("a", "err").count(SENTENCE) == 2, "each trainer, once"
