"""A script that always fails ends the job, and the user gets the location and the reason."""
import pathlib

import fleet as fl

SCRIPT = pathlib.Path(__file__).with_name("buggy.py")


def test_a_script_that_always_fails_ends_the_job(make_fleet):
    fleet = make_fleet()
    for name in "ab":
        fleet.start_agent(name, SCRIPT, options=("--nnodes=2", "--max-restarts=1"))
    assert fleet.wait_agents("ab", 240) == {"a": 1, "b": 1}

    for name in "ab":
        # The agent's own output, without the trainers' lines, which start with "[rank]".
        own = "\n".join(line for line in fleet.output(name, "err").splitlines() if not line.startswith("["))
        assert "rank 0" in own or "rank 1" in own
        # The agent does not repeat what it has just passed on.
        assert "ValueError: the bug of step 5" in fleet.output(name, "err")
        assert "buggy.py" in fleet.output(name, "err")  # the traceback

    # The first start and one restart reach the bug and are counted, no more and no less. An epoch whose ranks both
    # blame the peer is not counted and is logged as such.
    said = fl.JsonLines(fleet.logs / "server.err").read()
    epochs = [line["epoch"] for line in said if line["event"] == "epoch"]
    hows = {line["epoch"]: line["verdict"] for line in said if line["event"] == "verdict"}  # the last of each epoch
    assert sorted(hows) == epochs
    assert sorted(hows.values()) == ["own_fault"] * 2 + ["peer_caused"] * (len(epochs) - 2)
    assert hows[epochs[-1]] == "own_fault"
    for epoch, how in hows.items():
        tails = [line["tail"] for line in said if line["event"] == "node_exited" and line["epoch"] == epoch]
        assert how == "peer_caused" or any("ValueError: the bug of step 5" in tail for tail in tails)
    assert len(epochs) <= sum(fleet.output(name).count("step 5: 2.0") for name in "ab") <= 2 * len(epochs)
    causes = [epoch["cause"] for epoch in fleet.epochs()]
    assert causes == ["start"] + ["trainer_failed"] * (len(causes) - 1)
