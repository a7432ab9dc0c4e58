"""3 -> 2 -> 3 members with real training: one cluster at a time, and no step lost, repeated in the result, or
invented."""
import signal

import fleet as fl

STEPS, SAVE_EVERY, ENOUGH, PATIENCE_S = 1500, 20, 50, 90


def test_leader_is_killed_and_a_newcomer_arrives(make_fleet, tmp_path):
    fleet = make_fleet("--fence", "9")  # a guard gives proof of termination for no longer than the fence
    hold = tmp_path / "hold"
    hold.touch()

    def start(name):
        fleet.start_agent(name, fl.EXAMPLES / "digits.py", "--steps", STEPS, "--save-every", SAVE_EVERY,
                          "--pace", 0.02, "--hold", hold, "--step-log", fleet.step_logs,
                          "--checkpoint-dir", fleet.checkpoints, options=("--nnodes=1:3",))

    def trained(number):
        def look():
            epochs = fleet.epochs()
            if len(epochs) < number:
                return False
            epoch = epochs[number - 1]
            lines = [line for line in fleet.trainer_lines() if line["epoch"] == epoch["epoch"]]
            begun = [line["step"] for line in lines if line.get("event") == "restored"]
            # On a slow machine an epoch may begin so near to the end that fewer steps are left before the one that is
            # held.
            return len(begun) == epoch["members"] and \
                len({line["step"] for line in lines if "sum" in line}) >= min(ENOUGH, STEPS - 1 - begun[0])
        fl.wait_for(f"{ENOUGH} steps in epoch {number}", look, PATIENCE_S)

    for name in "abc":
        start(name)
    trained(1)
    leader = next(name for name in "abc" if "[0] epoch " in fleet.output(name))
    fleet.agents[leader].send_signal(signal.SIGKILL)
    trained(2)
    start("d")
    trained(3)
    hold.unlink()
    living = [name for name in "abcd" if name != leader]
    assert fleet.wait_agents(living, PATIENCE_S) == dict.fromkeys(living, 0)

    epochs = fleet.epochs()
    assert [(epoch["members"], epoch["cause"]) for epoch in epochs] == \
        [(3, "start"), (2, "node_lost"), (3, "joined")]
    lines = fleet.trainer_lines()
    check_steps(epochs, lines)
    assert sum("test accuracy" in fleet.output(name) for name in living) == 1


def check_steps(epochs, lines):
    trained_before, ended_before = 0, 0
    for epoch in epochs:
        mine = [line for line in lines if line["epoch"] == epoch["epoch"]]
        steps = [line for line in mine if "sum" in line]

        # One view: as many trainers as members, each rank once, and an all-reduce of 1.0 over all of them.
        assert sorted(line["rank"] for line in mine if line.get("event") == "start") == list(range(epoch["members"]))
        assert {line["world"] for line in mine} == {epoch["members"]}
        assert {line["sum"] for line in steps} == {float(epoch["members"])}

        # All ranks restored the same recent state of the epoch before.
        restored = {line["step"] for line in mine if line.get("event") == "restored"}
        assert len(restored) == 1
        first = restored.pop()
        if epoch["cause"] == "joined":
            assert first == trained_before  # the scripts were asked to save: no step is repeated
        else:
            assert trained_before - 2 * SAVE_EVERY <= first <= trained_before  # from a survivor's memory, or the disk

        # All steps from there in order; what rank 0 has done, all have done (except the last step, which may be cut
        # off).
        for rank in range(epoch["members"]):
            done = [line["step"] for line in steps if line["rank"] == rank]
            assert done == list(range(first + 1, first + 1 + len(done)))

        # Two clusters never run at once.
        assert min(line["t_ms"] for line in steps) > ended_before
        ended_before = max(line["t_ms"] for line in steps)
        trained_before = max(line["step"] for line in steps)
    assert trained_before == STEPS
