"""The Slurm recipe with a real controller and node on this machine."""

import getpass
import os
import shutil
import socket
import subprocess
import time

import pytest

from conftest import DEPLOY, PYTHON, wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(not all(map(shutil.which, ("slurmctld", "slurmd", "sbatch", "munged"))) or os.geteuid() != 0,
                                reason="needs slurm-wlm and root")]


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


@pytest.fixture
def slurm(tmp_path):
    """A cluster of one node; returns the environment of its commands."""
    host = socket.gethostname().split(".")[0]
    state = tmp_path / "slurm"
    state.mkdir()
    ports = [free_port(), free_port()]
    config = state / "slurm.conf"
    config.write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={state}/munge.socket
SlurmUser={getpass.getuser()}
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/spool
SlurmctldPidFile={state}/ctld.pid
SlurmdPidFile={state}/d.pid
SlurmctldLogFile={state}/ctld.log
SlurmdLogFile={state}/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SchedulerParameters=sched_interval=5
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")
    (state / "ctld").mkdir()
    (state / "spool").mkdir()
    key = state / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    state.chmod(0o755)
    started = []
    env = {"SLURM_CONF": str(config)}

    def start(*words):
        started.append(subprocess.Popen([str(w) for w in words], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    start("munged", "-F", "--force", f"--key-file={key}", f"--socket={state}/munge.socket", f"--pid-file={state}/munge.pid",
          f"--log-file={state}/munge.log", f"--seed-file={state}/munge.seed")
    wait_for("munged", (state / "munge.socket").exists)
    start("slurmctld", "-D", "-i")
    start("slurmd", "-D", "-N", host)
    try:
        wait_for("an idle node", lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%t"], env={**os.environ, **env}, capture_output=True, text=True).stdout, 90)
        yield env
    finally:
        subprocess.run(["scancel", "--me"], env={**os.environ, **env})
        wait_for("the end of all jobs", lambda: not subprocess.run(["squeue", "-h"], env={**os.environ, **env}, capture_output=True, text=True).stdout)
        for one in reversed(started):
            one.terminate()
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def submit(run, slurm, prefix, tmp_path, text, *options):
    script = tmp_path / "train.py"
    script.write_text(text)
    env = {**slurm, "TFE_AGENT": str(prefix / "bin/tfe-agent"), "TFE_RDZV": str(prefix / "bin/tfe-rdzv"), "TFE_FLEET": str(tmp_path / "fleet"),
           "TFE_PYTHON": PYTHON, "TFE_PORT": str(free_port())}
    return run("sbatch", "--parsable", "--nodes=1", f"--output={tmp_path}/out", f"--chdir={tmp_path}", *options, DEPLOY / "slurm/tfe.sbatch", script, env=env).strip()


def state(slurm, job):
    line = subprocess.run(["scontrol", "show", "job", "-o", job], env={**os.environ, **slurm}, capture_output=True, text=True).stdout
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def test_job_trains_and_ends(slurm, prefix, tmp_path, run):
    job = submit(run, slurm, prefix, tmp_path, f"import os\nopen('{tmp_path}/done', 'w').write(os.environ['TFE_RANK'])\n")
    wait_for("its end", lambda: state(slurm, job)["JobState"] in ("COMPLETED", "FAILED"), 120)
    assert state(slurm, job)["JobState"] == "COMPLETED" and (tmp_path / "done").read_text() == "0", (tmp_path / "out").read_text()


def test_notice_requeues_the_job_and_its_run_continues(slurm, prefix, tmp_path, run):
    job = submit(run, slurm, prefix, tmp_path, f"""import os, pathlib, time
starts = pathlib.Path("{tmp_path}/starts")
with starts.open("a") as out:
    out.write(os.environ["TFE_EPOCH"] + "\\n")
while len(starts.read_text().split()) < 2:
    time.sleep(0.1)
""")
    wait_for("the first start", lambda: (tmp_path / "starts").exists(), 120)
    time.sleep(1)
    run("scancel", "--batch", "--signal=USR1", job, env=slurm)
    wait_for("a requeue", lambda: state(slurm, job)["Restarts"] == "1", 180)
    # Slurm lets a requeued job rest for 120 s.
    wait_for("its end", lambda: state(slurm, job)["JobState"] in ("COMPLETED", "FAILED"), 300)
    assert state(slurm, job)["JobState"] == "COMPLETED", (tmp_path / "out").read_text()
    first, second = map(int, (tmp_path / "starts").read_text().split())
    assert second > first
