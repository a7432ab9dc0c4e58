"""A machine gets a notice: no step is lost, no sample repeated, and the disk is not waited for."""
import json
import os
import signal
import sys

import exact
import fleet as fl
import pytest

sys.path.append(str(fl.ROOT / "tests" / "e2e"))
from metadata import Metadata

STEPS, PATIENCE_S = 500, 150
full = pytest.mark.skipif(not os.environ.get("TFE_TEST_FULL"), reason="only with --full")


class Sigterm:
    """As sent by Kubernetes, Nomad, Slurm, systemd."""
    options = ()

    def __init__(self, fleet, name):
        self.fleet, self.name = fleet, name

    def tell(self):
        self.fleet.agents[self.name].send_signal(signal.SIGTERM)

    def check(self):
        assert self.fleet.agents[self.name].wait(PATIENCE_S) == 143

    def close(self):
        pass


class Aws(Sigterm):
    options = ("--notice=aws",)

    def __init__(self, fleet, name):
        super().__init__(fleet, name)
        self.service = Metadata()
        self.options = (*self.options, self.service.option())

    def tell(self):
        self.service.set(action="terminate")

    def check(self):  # the agent stays without being a member; the machine still exists
        assert self.fleet.agents[self.name].poll() in (None, 0)

    def close(self):
        self.service.end()


class Gce(Aws):
    options = ("--notice=gce",)

    def tell(self):
        self.service.set(preempted="TRUE")


class Azure(Aws):
    options = ("--notice=azure",)

    def tell(self):
        self.service.plan("Preempt")


class File(Aws):
    def __init__(self, fleet, name):
        Sigterm.__init__(self, fleet, name)
        self.path = fleet.directory / f"leaves-{name}"
        self.options = (f"--notice=file:{self.path}",)

    def tell(self):
        self.path.write_text("60\n")

    def close(self):
        pass


class Drain(Sigterm):
    def tell(self):
        self.fleet.ctl("drain", self.name)

    def check(self):
        assert self.fleet.agents[self.name].wait(PATIENCE_S) == 0


@pytest.mark.parametrize("source", [Sigterm, *(pytest.param(one, marks=full) for one in (Aws, Gce, Azure, File, Drain))])
def test_the_leader_leaves_and_no_step_is_lost(make_fleet, source):
    """Three members train; rank 0's machine gets a notice; the other two train to the end."""
    fleet = make_fleet()
    hold = fleet.directory / "hold"
    hold.touch()
    sources = {name: source(fleet, name) for name in "abc"}
    try:
        for name, said in sources.items():
            exact.start_digits(fleet, name, fleet.checkpoints, "--steps", STEPS, "--save-every", 5000, "--pace", 0.02,
                               "--hold", hold, options=("--nnodes=1:3", *said.options))
        fl.wait_for("60 steps", lambda: exact.highest_step(fleet) >= 60, PATIENCE_S)
        leader = next(name for name in "abc" if "[0] epoch " in fleet.output(name))
        sources[leader].tell()
        fl.wait_for("steps of the others", lambda: {line["world"] for line in fleet.steps()} >= {3, 2}, PATIENCE_S)
        hold.unlink()
        others = [name for name in "abc" if name != leader]
        assert fleet.wait_agents(others, PATIENCE_S) == dict.fromkeys(others, 0)
        sources[leader].check()
    finally:
        for said in sources.values():
            said.close()

    # The others kept the state in memory: the disk has only the last checkpoint, so it was not waited for.
    assert {path.name for path in fleet.checkpoints.glob("ckpt-*.index")} == {f"ckpt-2-{STEPS}.index"}
    exact.check_samples(fleet, STEPS)
    assert [epoch["members"] for epoch in fleet.epochs()] == [3, 2]
    first, second = ([line["step"] for line in fleet.steps(epoch)] for epoch, _ in exact.restored(fleet))
    assert set(first) == set(range(1, max(first) + 1))
    assert min(second) == max(first) + 1  # the next number: no completed step is lost

    before, after = json.loads(fleet.ctl("epochs", "default", "--json"))["epochs"]
    assert before["lost_steps"] == 0
    assert (after["cause"], after["planned"], after["blamed"]) == ("drained" if source is Drain else "preempted", True, leader)
