"""The server is killed in the middle of a run and started again: TensorFlow does not notice."""
import fleet as fl

STEPS, SAVE_EVERY, ENOUGH, PATIENCE_S = 400, 20, 60, 90


def test_training_goes_on_over_the_servers_death(make_fleet):
    fleet = make_fleet()
    names = ["a", "b", "c"]
    for name in names:
        fleet.start_agent(name, fl.EXAMPLES / "digits.py", "--steps", STEPS, "--save-every", SAVE_EVERY, "--pace", 0.02,
                          "--step-log", fleet.step_logs, "--checkpoint-dir", fleet.checkpoints,
                          options=("--nnodes=3:3",))

    def trained(steps):
        fl.wait_for(f"{steps} steps", lambda: len({line["step"] for line in fleet.steps()}) >= steps, PATIENCE_S)

    trained(ENOUGH)
    before = max(line["step"] for line in fleet.steps())
    fleet.replace_server()
    trained(before + ENOUGH)
    assert '"event":"job_restored"' in fleet.output("server2", "err")
    assert fleet.wait_agents(names, PATIENCE_S) == dict.fromkeys(names, 0)

    starts = [line for line in fleet.trainer_lines() if line.get("event") == "start"]
    assert len(starts) == 3, "a trainer was started again"
    assert {line["epoch"] for line in fleet.trainer_lines()} == {1}
    for rank in range(3):
        assert [line["step"] for line in fleet.steps(1) if line["rank"] == rank] == list(range(1, STEPS + 1))
    assert sum("test accuracy" in fleet.output(name) for name in names) == 1
