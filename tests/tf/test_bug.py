"""A script that always fails ends the job, and the user is told where and why."""
import pathlib

SCRIPT = pathlib.Path(__file__).with_name("buggy.py")


def test_a_script_that_always_fails_ends_the_job(make_fleet):
    fleet = make_fleet()
    for name in "ab":
        fleet.start_agent(name, SCRIPT, options=("--nnodes=2", "--max-restarts=1"))
    assert fleet.wait_agents("ab", 90) == {"a": 1, "b": 1}

    # The first start and one restart came to the bug, on at least one of the two ranks. An epoch may end with words
    # that blame the peer on both of them, and is free then.
    assert 2 <= sum(fleet.output(name).count("step 5: 2.0") for name in "ab") <= 10
    for name in "ab":
        # What the agent itself says, beside what it passes on from the trainers as "[rank] text".
        own = "\n".join(line for line in fleet.output(name, "err").splitlines() if not line.startswith("["))
        assert "rank 0" in own or "rank 1" in own
        assert "ValueError: the bug of step 5" in own
        assert "buggy.py" in own  # of the traceback
    causes = [epoch["cause"] for epoch in fleet.epochs()]
    assert causes == ["start"] + ["trainer_failed"] * (len(causes) - 1)
    assert 2 <= len(causes) <= 5
