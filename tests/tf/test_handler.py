"""TensorFlow's own PreemptionCheckpointHandler under agents."""
import re
import signal

import fleet as fl
import pytest

PATIENCE_S = 150


@pytest.mark.parametrize("watches", [
    pytest.param([], id="tfe"),
    pytest.param(["--only-file"], id="TFE_PREEMPT_FILE", marks=pytest.mark.heavy)])  # the agent writes the file in both cases
def test_a_notice_makes_the_handler_save_and_the_others_go_on_there(make_fleet, watches):
    fleet = make_fleet()
    for name in "ab":
        fleet.start_agent(name, fl.EXAMPLES / "preemption_handler.py", "--steps", 300, "--save-every", 150, "--pace", 0.04,
                          "--checkpoint-dir", fleet.checkpoints, *watches,
                          options=("--nnodes=1:2", f"--checkpoint-dir={fleet.checkpoints}", "--preempt-grace=60s"))
    fl.wait_for("a few steps", lambda: any("[0] step 160 " in fleet.output(name) for name in "ab"), PATIENCE_S)
    leader, other = "ab" if "[0] step 160 " in fleet.output("a") else "ba"
    fleet.agents[leader].send_signal(signal.SIGTERM)
    assert fleet.agents[leader].wait(PATIENCE_S) == 143
    assert fleet.wait_agents([other], PATIENCE_S) == {other: 0}

    begins = int(re.search(r"\[0\] epoch 2: 1 workers, from step (\d+)\n", fleet.output(other))[1])
    assert begins > 160 and begins % 150  # a step that is neither the script's own checkpoint nor the start
    saved = {int(step) for name in "ab" for step in re.findall(r"saved at step (\d+)", fleet.output(name))}
    # All workers saved after the same step. A worker without the channel may be ended before it reports it.
    assert saved == {begins} or (watches and not saved)
    assert [epoch["members"] for epoch in fleet.epochs()] == [2, 1]
