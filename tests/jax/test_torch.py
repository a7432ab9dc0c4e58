"""PyTorch under real agents: DistributedDataParallel over Gloo."""
import os

import pytest
from jobs import EXAMPLES, Job

pytestmark = [pytest.mark.needs("torch"), pytest.mark.heavy]


@pytest.mark.parametrize("options", [(), ("--framework=torch", "--no-hooks")], ids=["hook", "released port"])
def test_a_killed_rank_of_torch_and_rank_0_are_replaced(make_fleet, options):
    fleet = make_fleet()
    job = Job(fleet, EXAMPLES / "torch_loop.py", "--directory", fleet.checkpoints, "--steps", 300, "--pause", 0.05, options=("--nnodes=2:2", *options))
    for _ in range(2):
        job.join()
    epoch = 0
    for rank in (1, 0):
        epoch = job.wait_trains(2, above_epoch=epoch, steps=25)
        job.kill_trainer(rank)
    assert job.end() == {0}
    assert job.final()[0] == 300
    assert [one["cause"] for one in fleet.epochs()] == ["start", "trainer_failed", "trainer_failed"]
    assert max(start[2] for start in job.starts()) >= 20
