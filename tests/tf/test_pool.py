"""Jobs of real TensorFlow on a pool of four machines: one that takes all nodes, and a more urgent one with roles that
takes three of them during training. Both finish, and each sample of the first is seen once."""
import json

import exact
import fleet as fl
import pytest

STEPS = 60
PATIENCE_S = 300


class Pool:
    def __init__(self, fleet, n):
        self.fleet = fleet
        for number in range(n):
            fleet.start_pool_node(f"m{number}")

    def states(self):
        """Returns the states of the nodes."""
        return [node["state"] for node in json.loads(self.fleet.ctl("pool", "--json"))["pool"] if node["state"] != "away"]

    def submit(self, name, *options, script, arguments):
        self.fleet.ctl("submit", f"--name={name}", f"--path={fl.EXAMPLES}", *options, "--", "python", script, *arguments)

    def job(self, name):
        return json.loads(self.fleet.ctl("describe", "--json", name))

    def nodes(self, name):
        return sum(1 for node in self.job(name)["pool"] if node["state"] == "assigned")

    def ends_well(self, name):
        def is_over():
            state = self.job(name)["state"]
            assert state != "failed", self.job(name)
            return state == "succeeded"
        fl.wait_for(f"{name} to succeed", is_over, PATIENCE_S)


def test_an_urgent_job_of_another_kind_takes_machines_and_both_come_to_their_end(make_fleet):
    fleet = make_fleet()
    pool = Pool(fleet, 4)
    hold = fleet.directory / "hold"
    hold.touch()
    fl.wait_for("four machines", lambda: len(json.loads(fleet.ctl("pool", "--json"))["pool"]) == 4, PATIENCE_S)
    pool.submit("all", "--workers=1:4", script="digits.py",
                arguments=["--steps", STEPS, "--save-every", 10, "--pace", 0.05, "--log-ids", "--hold", hold,
                           "--step-log", fleet.step_logs, "--checkpoint-dir", fleet.checkpoints])
    fl.wait_for("a first step", lambda: fleet.steps(), PATIENCE_S)
    assert pool.nodes("all") == 4
    log = fleet.directory / "steps-urgent"
    pool.submit("urgent", "--priority=900", "--strategy=ParameterServer", script="parameter_server.py",
                arguments=["--steps", 40, "--save-every", 20, "--step-log", log, "--checkpoint-dir", fleet.directory / "urgent"])
    pool.ends_well("urgent")
    assert [line for path in log.glob("*.jsonl") for line in path.read_text().splitlines() if '"end"' in line]
    hold.unlink()
    pool.ends_well("all")
    exact.check_samples(fleet, STEPS)
    epochs = fleet.epochs("all")
    assert epochs[0]["members"] == 4 and min(epoch["members"] for epoch in epochs) == 1
    fl.wait_for("four free machines",
                lambda: [node["state"] for node in json.loads(fleet.ctl("pool", "--json"))["pool"]] == ["free"] * 4, PATIENCE_S)


@pytest.mark.heavy
def test_three_jobs_of_three_priorities_outlive_what_befalls_four_machines(make_fleet):
    """Each job is scaled, suspended, or loses a machine; one is replaced; all finish, and each sample of the
    synchronous one is seen once."""
    fleet = make_fleet("--ttl", "30")  # kills are proven, so that no lease expires
    pool = Pool(fleet, 4)
    holds = {name: fleet.directory / f"hold-{name}" for name in ("all", "served")}
    for hold in holds.values():
        hold.touch()
    fl.wait_for("four machines", lambda: pool.states() == ["free"] * 4, PATIENCE_S)
    pool.submit("all", "--workers=1:4", "--priority=100", script="digits.py",
                arguments=["--steps", STEPS, "--save-every", 5, "--pace", 0.05, "--log-ids", "--hold", holds["all"],
                           "--step-log", fleet.step_logs, "--checkpoint-dir", fleet.checkpoints])
    fl.wait_for("a first step", lambda: fleet.steps(), PATIENCE_S)
    served = fleet.directory / "steps-served"
    pool.submit("served", "--priority=500", "--strategy=ParameterServer", "--workers=1:2", "--ps=1",
                script="parameter_server.py",
                arguments=["--steps", 40, "--save-every", 10, "--pace", 0.05, "--hold", holds["served"], "--step-log", served,
                           "--checkpoint-dir", fleet.directory / "served"])

    def steps_of(log):
        lines = [json.loads(line) for path in log.glob("*.jsonl") for line in path.read_text().splitlines() if line.endswith("}")]
        return [line["step"] for line in lines if "step" in line]
    fl.wait_for("its first step", lambda: steps_of(served), PATIENCE_S)
    assert pool.nodes("all") == 1 and pool.nodes("served") == 3
    urgent = fleet.directory / "steps-urgent"
    fleet.ctl("suspend", "all")  # its machine goes to the next job that needs one
    pool.submit("urgent", "--priority=900", "--workers=1", script="digits.py",
                arguments=["--steps", 10, "--step-log", urgent, "--checkpoint-dir", fleet.directory / "urgent"])
    pool.ends_well("urgent")
    fleet.ctl("scale", "served", "1")
    victim = next(node["name"] for node in json.loads(fleet.ctl("pool", "--json"))["pool"]
                  if node["job"] == "served" and node["role"] == "worker")
    seen = max(steps_of(served))
    fleet.agents[victim].kill()
    fleet.agents[victim].wait()
    fleet.start_pool_node("m4")
    fleet.ctl("resume", "all")
    holds["served"].unlink()
    pool.ends_well("served")
    assert max(steps_of(served)) == 40 >= seen
    fleet.ctl("scale", "all", "2:3")
    fl.wait_for("two machines for it", lambda: 2 <= pool.nodes("all") <= 3, PATIENCE_S)
    holds["all"].unlink()
    pool.ends_well("all")
    exact.check_samples(fleet, STEPS)
    fl.wait_for("four free machines", lambda: sorted(pool.states()) == ["free"] * 4, PATIENCE_S)
