"""tf_keras Model.fit under two agents, one of which is lost or gets a notice during training."""
import json
import re
import signal

import fleet as fl

PATIENCE_S = 90


class Fits:
    """Two agents that run fit; the last pass begins after a call of finish()."""

    def __init__(self, fleet, *arguments):
        self.fleet, self.hold = fleet, fleet.directory / "hold"
        self.hold.touch()
        for name in "ab":
            fleet.start_agent(name, fl.EXAMPLES / "keras_fit.py", "--hold", self.hold, "--checkpoint-dir", fleet.checkpoints,
                              *arguments, options=("--nnodes=1:2",))

    def passes(self, name):
        return [int(number) for number in re.findall(r"\[0\] pass (\d+) of", self.fleet.output(name))]

    def begins(self, name):
        return [int(batch) for batch in re.findall(r"workers, from batch (\d+)", self.fleet.output(name))]

    def wait_passes(self, least):
        """Waits until rank 0 has made a number of passes over the data; returns its agent and the other one."""
        fl.wait_for("a few passes over the data", lambda: any(len(self.passes(name)) >= least for name in "ab"), PATIENCE_S)
        return ("a", "b") if self.passes("a") else ("b", "a")

    def finish(self):
        self.hold.unlink()


def test_fit_goes_on_after_a_loss(make_fleet):
    fleet = make_fleet()
    fits = Fits(fleet, "--epochs", 40)
    # Rank 0 is lost, and with it the chief of the collective and of the checkpoints.
    lost, kept = fits.wait_passes(4)
    fleet.agents[lost].send_signal(signal.SIGKILL)
    fl.wait_for("the survivor to train alone", lambda: fits.passes(kept), PATIENCE_S)
    fits.finish()
    assert fleet.wait_agents([kept], PATIENCE_S) == {kept: 0}

    assert [(epoch["members"], epoch["cause"]) for epoch in fleet.epochs()] == [(2, "start"), (1, "node_lost")]
    # It continues from the common state (at most one backup, which is 10 of a pass's 15 batches, behind), not from
    # zero. The two may have been further than the killed agent could report.
    assert fits.passes(lost)[-1] - 1 <= fits.passes(kept)[0] == fits.begins(kept)[1] // 15 + 1
    assert fits.passes(kept)[-1] == 40
    began = fits.begins(kept)
    assert began[0] == 0 and began[1] > 0
    accuracy = float(re.search(r"test accuracy ([0-9.]+)", fleet.output(kept))[1])
    assert accuracy > 0.93


def test_a_notice_in_the_middle_of_fit_loses_no_step(make_fleet):
    """Rank 0's machine gets a notice: the callback keeps the state in memory on the agent's request, and the other rank
    continues from there. The disk is not waited for and gets no checkpoint."""
    fleet = make_fleet()
    fits = Fits(fleet, "--epochs", 60, "--save-every", 100000)
    leader, other = fits.wait_passes(3)
    fleet.agents[leader].send_signal(signal.SIGTERM)
    assert fleet.agents[leader].wait(PATIENCE_S) == 143
    fits.finish()
    assert fleet.wait_agents([other], PATIENCE_S) == {other: 0}
    assert fits.passes(leader)[-1] < 59 and fits.passes(other)[-1] == 60  # it left from fit(), not from the hold

    before, after = json.loads(fleet.ctl("epochs", "default", "--json"))["epochs"]
    assert (after["cause"], after["planned"], after["blamed"]) == ("preempted", True, leader)
    assert before["lost_steps"] == 0
    first, second = fits.begins(other)
    assert first == 0 < second and before["saved_step"] is None
