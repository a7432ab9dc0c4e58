"""TensorFlow's own PreemptionCheckpointHandler under agents."""
import re
import signal

import fleet as fl

PATIENCE_S = 150


def test_a_notice_makes_the_handler_save_and_the_others_go_on_there(make_fleet):
    fleet = make_fleet()
    for name in "ab":
        fleet.start_agent(name, fl.EXAMPLES / "preemption_handler.py", "--steps", 500, "--save-every", 150, "--pace", 0.03,
                          "--checkpoint-dir", fleet.checkpoints,
                          options=("--nnodes=1:2", f"--checkpoint-dir={fleet.checkpoints}", "--preempt-grace=60s"))
    fl.wait_for("a few steps", lambda: any("[0] step 160 " in fleet.output(name) for name in "ab"), PATIENCE_S)
    leader, other = "ab" if "[0] step 160 " in fleet.output("a") else "ba"
    fleet.agents[leader].send_signal(signal.SIGTERM)
    assert fleet.agents[leader].wait(PATIENCE_S) == 143
    assert fleet.wait_agents([other], PATIENCE_S) == {other: 0}

    saved = {int(step) for name in "ab" for step in re.findall(r"saved at step (\d+)", fleet.output(name))}
    assert len(saved) == 1  # all workers after the same step
    assert f"[0] epoch 2: 1 workers, from step {saved.pop()}\n" in fleet.output(other)
    assert [epoch["members"] for epoch in fleet.epochs()] == [2, 1]
