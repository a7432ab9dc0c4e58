"""tf_keras Model.fit under two agents, one of which is lost in the middle."""
import re
import signal

import fleet as fl

PATIENCE_S = 90


def test_fit_goes_on_after_a_loss(make_fleet, tmp_path):
    fleet = make_fleet()
    hold = tmp_path / "hold"
    hold.touch()
    for name in "ab":
        fleet.start_agent(name, fl.EXAMPLES / "keras_fit.py", "--epochs", 40, "--hold", hold,
                          "--checkpoint-dir", fleet.checkpoints)

    def passes(name):
        return [int(number) for number in re.findall(r"\[0\] pass (\d+) of", fleet.output(name))]

    fl.wait_for("a few passes over the data", lambda: any(len(passes(name)) >= 4 for name in "ab"), PATIENCE_S)
    # Rank 0 is lost, and with it the chief of the collective and of the checkpoints.
    lost, kept = ("a", "b") if passes("a") else ("b", "a")
    fleet.agents[lost].send_signal(signal.SIGKILL)
    fl.wait_for("the survivor to train alone", lambda: passes(kept), PATIENCE_S)
    hold.unlink()
    assert fleet.wait_agents([kept], PATIENCE_S) == {kept: 0}

    assert [(epoch["members"], epoch["cause"]) for epoch in fleet.epochs()] == [(2, "start"), (1, "node_lost")]
    # It went on where the two had been (at most one backup, 10 of 14 batches a pass, behind), not from zero.
    assert passes(lost)[-1] - 1 <= passes(kept)[0] <= passes(lost)[-1] + 2
    assert passes(kept)[-1] == 40
    began = [int(batch) for batch in re.findall(r"workers, from batch (\d+)", fleet.output(kept))]
    assert began[0] == 0 and began[1] > 0
    accuracy = float(re.search(r"test accuracy ([0-9.]+)", fleet.output(kept))[1])
    assert accuracy > 0.93
