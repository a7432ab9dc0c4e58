"""Ends with real TensorFlow: a script that does not use its cluster gets a warning, others do not; and a worker that
has finished."""
import json
import subprocess
import textwrap

import fleet as fl
from programs import program

PATIENCE_S = 150

# Three strategies: of the cluster, without TF_CONFIG, of one machine.
STRATEGY = """
    import os, sys, time
    how, done = sys.argv[1:]
    if how == "popped":
        os.environ.pop("TF_CONFIG")
    import tensorflow as tf
    made = tf.distribute.MirroredStrategy if how == "mirrored" else tf.distribute.MultiWorkerMirroredStrategy
    strategy = made()
    print("replicas:", strategy.num_replicas_in_sync, flush=True)
    while not os.path.exists(done):
        strategy.run(lambda: tf.constant(1.0))
        time.sleep(0.2)
"""

# Between-graph workers with a share each: TensorFlow's server of a ps never ends.
SHARES = """
    import json, os, time
    import tensorflow as tf
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    server = tf.distribute.Server(config["cluster"], job_name=task["type"], task_index=task["index"])
    if task["type"] == "ps":
        server.join()
    time.sleep({"chief": 15}.get(task["type"], 2))
    print("through", task["type"], flush=True)
"""


def script(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return path


def status(fleet):
    told = subprocess.run([program("tfe-ctl"), "status", "--json", "--state-dir", str(fleet.state)], capture_output=True, text=True,
                          timeout=60)
    jobs = json.loads(told.stdout)["jobs"] if told.returncode == 0 else []
    return {job["job"]: job for job in jobs}


def test_a_script_that_does_not_use_its_cluster_is_warned_of(make_fleet, tmp_path):
    fleet = make_fleet("--gather", "20")
    path, done = script(tmp_path, STRATEGY), tmp_path / "done"
    ways = ("popped", "mirrored", "cluster")
    for how in ways:
        for n in range(2):
            fleet.start_agent(f"{how}{n}", path, how, done, options=("--no-standby", "--nnodes=2", f"--job={how}"))
    fl.wait_for("the warnings", lambda: all(status(fleet).get(how, {}).get("alone") == 2 for how in ways[:2]), PATIENCE_S)
    fl.wait_for("the cluster", lambda: "replicas: 2" in fleet.output("cluster0"), PATIENCE_S)
    done.touch()
    names = [f"{how}{n}" for how in ways for n in range(2)]
    assert fleet.wait_agents(names, PATIENCE_S) == dict.fromkeys(names, 0)
    assert ["trains_alone" in fleet.output(name, "err") for name in names] == [True] * 4 + [False] * 2


def test_a_worker_that_is_through_before_the_chief_is_done(make_fleet, tmp_path):
    """Regression: the worker was restarted, and then in one epoch after another."""
    fleet = make_fleet()
    for name in "abcd":
        fleet.start_agent(name, script(tmp_path, SHARES), options=("--no-standby", "--nnodes=2", "--ps=1", "--chief"))
    assert fleet.wait_agents("abcd", PATIENCE_S) == dict.fromkeys("abcd", 0)
    said = "".join(fleet.output(name) for name in "abcd")
    assert (said.count("through worker"), said.count("through chief")) == (2, 1)
    assert [epoch["restarts"] for epoch in json.loads(fleet.ctl("epochs", "--json", "default"))["epochs"]] == [0]
