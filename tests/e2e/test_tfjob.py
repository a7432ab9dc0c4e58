"""Kubeflow manifests up to TF_CONFIG: submitted unchanged and run by pool nodes; each trainer finds what Kubeflow's
operator would have given it, except for the addresses (tests/vectors/tfjob)."""

import json
import re
import sys

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import ROOT, wait_until
from test_pool import pool  # noqa: F401 (a fixture)

VECTORS = ROOT / "tests" / "vectors" / "tfjob"
FOLDER = "/var/tf_dist_mnist"  # folder of the images that the manifests name
MANIFESTS = sorted(path.stem for path in VECTORS.glob("*.yaml"))

# Prints its environment and ends when it is allowed to. The agent ends the others.
TRAINER = """
import json, os, pathlib, sys, time
folder = pathlib.Path(__file__).parent
print(json.dumps({"TF_CONFIG": json.loads(os.environ.get("TF_CONFIG", "null")), "argv": sys.argv[1:]}), flush=True)
while not (folder / "end").exists():
    time.sleep(0.01)
"""


def printed(pool, job, n):
    """Returns the output of n trainers of the job, by tfe-ctl logs."""
    def look():
        told = pool.ctl("logs", "--json", job)
        rows = [json.loads(line) for line in told.stdout.splitlines()]
        texts = [json.loads(line) for row in rows for line in row["text"].splitlines() if line.startswith("{")]
        return len(texts) == n and texts
    return wait_until(look, what=f"the words of {n} trainers")


def handed_in(pool, folder, text, n):
    """Submits a manifest whose image's folder is replaced by a local one: returns the output of submit, and the
    findings of n trainers."""
    for name in re.findall(rf"{FOLDER}/([^ ,\]\n]*)", text):
        (folder / name).write_text(TRAINER)
    file = folder / "job.yaml"
    file.write_text(text.replace(FOLDER, str(folder)))
    pool.start(n, "--no-standby")
    pool.wait_free(n)
    done = pool.ctl("submit", "-f", str(file))
    assert done.returncode == 0, done.stderr
    job, = (row["job"] for row in json.loads(pool.ctl("jobs", "--json").stdout)["jobs"])
    return job, done.stderr, printed(pool, job, n)


def named(config, names):
    """Returns the configuration with Kubeflow's names for the roles."""
    places = {role: [names[address] for address in addresses] for role, addresses in config["cluster"].items()}
    return {**config, "cluster": places}


def by_task(configs):
    return sorted(configs, key=lambda config: (config["task"]["type"], config["task"]["index"]))


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_each_trainer_of_a_manifest_finds_the_tf_config_of_kubeflows_operator(pool, tmp_path, manifest):
    text = (VECTORS / f"{manifest}.yaml").read_text()
    wanted = json.loads((VECTORS / f"{manifest}.json").read_text())
    job, warning, found = handed_in(pool, tmp_path, text, len(wanted))
    assert f"name: {job}\n" in text and "runs only on nodes started with --runtime" in warning
    configs = [one["TF_CONFIG"] for one in found]
    if wanted != [None]:
        clusters = configs[0]["cluster"], wanted[0]["cluster"]
        ours, theirs = ([address for role in sorted(cluster) for address in cluster[role]] for cluster in clusters)
        assert len(set(ours)) == len(ours) == len(theirs)
        names = dict(zip(ours, theirs))
        configs, wanted = by_task(named(config, names) for config in configs), by_task(wanted)
    assert configs == wanted
    (tmp_path / "end").touch()
    pool.wait_state(job, "succeeded")


DEFAULT_PS = """
apiVersion: tensorflow.org/v1alpha1
kind: TfJob
metadata: {name: default-ps}
spec:
  replicaSpecs:
  - {IsDefaultPS: true, replicas: 1, tfReplicaType: PS, tfPort: 2222}
  - tfReplicaType: MASTER
    template: {spec: {containers: [{name: tensorflow, command: [PYTHON, FOLDER/master.py]}]}}
"""

# Ends once a server listens at the ps's address, which the agent only reserves.
MASTER = """
import json, os, pathlib, socket, time
config = json.loads(os.environ["TF_CONFIG"])
pathlib.Path(__file__).with_name("ran." + config["task"]["type"]).touch()
host, port = config["cluster"]["ps"][0].rsplit(":", 1)
while True:
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        break
    except OSError:
        time.sleep(0.1)
"""


def test_ps_without_template_runs_tensorflows_own_server(pool, tmp_path):
    """As in the oldest manifests (IsDefaultPS); only the master runs the script."""
    (tmp_path / "master.py").write_text(MASTER)
    file = tmp_path / "job.yaml"
    file.write_text(DEFAULT_PS.replace("PYTHON", sys.executable).replace("FOLDER", str(tmp_path)))
    pool.start(2, "--no-standby")
    pool.wait_free(2)
    done = pool.ctl("submit", "-f", str(file))
    assert done.returncode == 0, done.stderr
    pool.wait_state("default-ps", "succeeded")
    assert [path.name for path in tmp_path.glob("ran.*")] == ["ran.master"]


def test_one_trainer_alone_has_a_tf_config_where_it_is_asked_for(pool, tmp_path):
    """A native job file requests it."""
    job, warning, found = handed_in(pool, tmp_path, f"name: one\nenvironment: tfe\ncommand: [{sys.executable}, {FOLDER}/one.py, --here]\n", 1)
    config, = (one["TF_CONFIG"] for one in found)
    assert config == {"cluster": {"worker": config["cluster"]["worker"]}, "task": {"type": "worker", "index": 0}}
    assert (job, len(config["cluster"]["worker"]), found[0]["argv"]) == ("one", 1, ["--here"])
    assert warning == "tfe-ctl: warning: no --bundle, --path or --git: the job runs in an empty directory\n"
