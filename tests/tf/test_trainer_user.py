"""Real TensorFlow as another user than the agent, which runs as root: one without a writable home directory."""
import os
import pathlib
import pwd
import shutil
import signal
import tempfile

import exact
import fleet as fl
import pytest

STEPS, PATIENCE_S = 120, 150


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_nobody_trains_is_restarted_and_goes_on():
    assert not os.access(pwd.getpwnam("nobody").pw_dir, os.F_OK)
    with tempfile.TemporaryDirectory(prefix="tfe-tf-") as folder:
        os.chmod(folder, 0o755)
        script = shutil.copy(fl.EXAMPLES / "digits.py", folder)
        fleet = fl.Fleet(folder, "--ttl", "3", "--gather", "20")
        with fleet:
            for path in (fleet.step_logs, fleet.checkpoints, fleet.directory / "tmp"):
                shutil.chown(path, "nobody")
            for name in "ab":
                fleet.start_agent(name, script, "--steps", STEPS, "--save-every", 10, "--pace", "0.05", "--batch", exact.BATCH,
                                  "--step-log", fleet.step_logs, "--checkpoint-dir", fleet.checkpoints, "--log-ids",
                                  options=("--nnodes=1:2", "--trainer-user=nobody"), HOME="/root", **exact.ONE_THREAD)
            fl.wait_for("a checkpoint", lambda: list(fleet.checkpoints.glob("*.index")), PATIENCE_S)
            fleet.agents["b"].send_signal(signal.SIGKILL)
            fleet.wait_agents(["a"], PATIENCE_S)
            assert fleet.agents["a"].returncode == 0, fleet.output("a", "err")[-3000:]
            exact.check_samples(fleet, STEPS)
            assert len(exact.restored(fleet)) >= 2
            for log in ("a", "b"):
                own = [line for line in fleet.output(log, "err").splitlines() if not line.startswith("[")]
                # TensorFlow's "Connection refused" is harmless, also where the agent repeats it.
                assert not [line for line in own if "refused" in line.replace("Connection refused", "")]
            left = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
            assert {path.owner() for path in left if fleet.checkpoints in path.parents} == {"nobody"}
