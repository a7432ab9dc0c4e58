"""Jobs of real TensorFlow on a pool of four machines: one that takes what there is, and a more urgent one of another kind that
takes three of them away in the middle. Both come to their end, and each sample of the first is seen once."""
import json
import subprocess
import sys

import exact
import fleet as fl

STEPS = 60
PATIENCE_S = 300


class Pool:
    def __init__(self, fleet, n):
        self.fleet = fleet
        for number in range(n):
            name = f"m{number}"
            fleet.agents[name] = fleet._spawn(name, [fl.program("tfe-agent"), "--pool", f"--node-name={name}",
                                                     f"--python={sys.executable}", "--notice=none"])

    def ctl(self, *words):
        told = subprocess.run([fl.program("tfe-ctl"), *words, "--state-dir", str(self.fleet.state)], capture_output=True, text=True,
                              timeout=60)
        assert told.returncode == 0, told.stderr
        return told.stdout

    def submit(self, name, *options, script, arguments):
        told = subprocess.run([fl.program("tfe-ctl"), "submit", "--state-dir", str(self.fleet.state), f"--name={name}",
                               f"--path={fl.EXAMPLES}", *options, "--", "python", script, *map(str, arguments)],
                              capture_output=True, text=True, timeout=60)
        assert told.returncode == 0, told.stderr

    def job(self, name):
        return json.loads(self.ctl("describe", "--json", name))

    def nodes(self, name):
        return sum(1 for node in self.job(name)["nodes"] if node["state"] == "assigned")

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
    fl.wait_for("four machines", lambda: len(json.loads(pool.ctl("pool", "--json"))["pool"]) == 4, PATIENCE_S)
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
                lambda: [node["state"] for node in json.loads(pool.ctl("pool", "--json"))["pool"]] == ["free"] * 4, PATIENCE_S)
