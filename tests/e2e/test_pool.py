"""Submitted jobs run on the nodes of a pool, one after the other, and leave nothing behind: real agents, a real
server."""

import contextlib
import json
import os
import pathlib
import resource
import signal
import sys
import time

import pytest
from agents import TRAINER, fleet, gone_soon  # noqa: F401 (a fixture)
from conftest import as_root, wait_until
from metadata import MACHINES, clouds  # noqa: F401 (a fixture)
from programs import children, descendants, is_alive, program

TALKER = str(pathlib.Path(__file__).with_name("talker.py"))

# Everything that a job can leave behind, and what it finds of others, as one line of a file with the process's id.
LEAVES = """
import json, os, pathlib, resource, subprocess, sys, time
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
facts = {"pid": os.getpid(), "cwd": os.getcwd(), "found": sorted(os.listdir(".")), "env": dict(os.environ),
         "shm": sorted(os.listdir("/dev/shm")), "tmp": os.environ["TMPDIR"], "cores": resource.getrlimit(resource.RLIMIT_CORE)}
pathlib.Path("left").mkdir()
pathlib.Path("left/file").write_text("x")
pathlib.Path("../left").write_text("x")
pathlib.Path(os.environ["TMPDIR"], "left").write_text("x")
pathlib.Path(f"/dev/shm/{sys.argv[3]}-{name}-{os.getpid()}").write_text("x")
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
                         start_new_session=True)
facts["child"] = child.pid
out = folder / f".{name}.{os.getpid()}"
out.write_text(json.dumps(facts))
out.rename(folder / f"{name}.{os.getpid()}.json")
while not (folder / f"{name}.end").exists():
    time.sleep(0.01)
"""

# Saves its state when it is asked to end, until it is allowed to.
SAVES = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
(folder / "runs").touch()
while not told and not os.path.exists(os.environ["TFE_PREEMPT_FILE"]):
    time.sleep(0.01)
(folder / "saves").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
(folder / "saved").touch()
"""


SERVED = str(pathlib.Path(__file__).with_name("served.py"))


class Pool:
    """Agents of a pool, and jobs submitted for them."""

    def __init__(self, fleet, ctl):
        self.fleet, self.ctl = fleet, ctl

    def causes(self, job):
        return [row["cause"] for row in json.loads(self.ctl("epochs", job, "--json").stdout)["epochs"]]

    def kinds(self, job):
        return {row["kind"] for row in json.loads(self.ctl("events", job, "--json").stdout)["events"]}

    def start(self, n, *options, env=None):
        return [self.fleet.start_program([program("tfe-agent"), "--pool", "--python", sys.executable, "--preempt-grace=2s", "--preload=json",
                                          f"--node-name=m{len(self.fleet.agents)}", *options], env=env) for _ in range(n)]

    def nodes(self, state=None):
        done = self.ctl("pool", "--json")
        assert done.returncode == 0, done.stderr
        return [n for n in json.loads(done.stdout)["pool"] if state in (None, n["state"])]

    def wait_free(self, n):
        return wait_until(lambda: len(found := self.nodes("free")) == n and found, what=f"{n} free nodes")

    def submit(self, name, *options, command=None):
        trainer = [sys.executable, TRAINER, str(self.folder(name))]
        done = self.ctl("submit", f"--name={name}", "--option=gather=10s", *options, "--", *(command or trainer))
        assert done.returncode == 0, done.stderr

    def folder(self, name):
        folder = self.fleet.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def job(self, name):
        done = self.ctl("describe", "--json", name)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def wait_state(self, name, state):
        return wait_until(lambda: (job := self.job(name))["state"] == state and job, what=f"{name} {state}")

    def order(self, verb, *operands):
        done = self.ctl(verb, *operands)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def pool(server, fleet, ctl):
    server()
    return Pool(fleet, ctl)


def leavers(folder, name, n):
    """Returns the findings of n trainers running LEAVES."""
    def look():
        found = [json.loads(path.read_text()) for path in folder.glob(f"{name}.*.json")]
        return len(found) == n and found
    return wait_until(look, what=f"{n} trainers of {name}")


def test_nothing_of_a_job_is_left_for_the_next(pool, tmp_path):
    code, mark = tmp_path / "leaves.py", f"tfe-test-{os.getpid()}"  # other test runs use the same code
    code.write_text(LEAVES)
    cores = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, cores[1]))
    pool.start(2, env={"MACHINE": "kept"})
    resource.setrlimit(resource.RLIMIT_CORE, cores)
    pool.wait_free(2)
    for name, secret in (("one", {"--env=SECRET=of one", "--env=TF_X=1"}), ("two", set())):
        pool.submit(name, "--workers=2", *secret, command=["python", str(code), str(tmp_path), name, mark])
        facts = leavers(tmp_path, name, 2)
        pool.wait_state(name, "running")
        assert len({f["cwd"] for f in facts}) == 2
        for f in facts:
            assert f["cores"] == [0, cores[1]]
            assert f["found"] == [] and f["env"]["MACHINE"] == "kept" and "TFE_TOKEN" not in f["env"]
            assert ("SECRET" in f["env"], "TF_X" in f["env"]) == (name == "one", name == "one")
            assert not [left for left in f["shm"] if left.startswith(f"{mark}-one-")] or name == "one"
        (tmp_path / f"{name}.end").write_text("")
        pool.wait_state(name, "succeeded")
        pool.wait_free(2)
        for f in facts:
            assert not pathlib.Path(f["cwd"]).parent.exists()
            assert not pathlib.Path(f["tmp"]).exists() or f["tmp"] == os.environ.get("TMPDIR")  # the machine's common folder
            assert not is_alive(f["pid"]) and not is_alive(f["child"])
            assert not pathlib.Path(f"/dev/shm/{mark}-{name}-{f['pid']}").exists()


def test_what_the_cloud_says_of_a_node_is_shown_and_the_chief_has_a_machine_that_lasts(pool, clouds, ctl):
    """The first node is a spot machine, which only its cloud reports."""
    for name in ("spot", "lasts"):
        metadata = clouds()
        metadata.set(spot=name == "spot")
        pool.start(1, "--no-standby", "--notice=aws", metadata.option(), f"--node-name={name}")
        nodes = wait_until(lambda of=name: of in (found := {n["name"]: n for n in pool.nodes() if n["spot"] is not None}) and found,
                           what="the cloud's word")
    assert {name: node["spot"] for name, node in nodes.items()} == {"spot": True, "lasts": False}
    assert all((node["cloud"], node["zone"], node["instance"]) == MACHINES["aws"] and node["labels"] == {} for node in nodes.values())
    assert all(word in ctl("pool").stdout for word in ("ZONE", "TYPE", "SPOT", *MACHINES["aws"][1:]))
    pool.submit("job", "--chief", "--workers=1")
    wait_until(lambda: len(pool.fleet.starts(folder=pool.folder("job"))) == 2, what="both trainers")
    assert {n["name"]: n["role"] for n in pool.nodes()} == {"spot": "worker", "lasts": "chief"}
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")


def wait_states(pool, **states):
    """Waits for the states of nodes, by name."""
    wait_until(lambda: {n["name"]: n["state"] for n in pool.nodes()} == states, what=f"{states}")


def test_a_node_that_its_cloud_warns_gets_no_job_until_that_is_withdrawn(pool, clouds, ctl):
    metadata = clouds()
    pool.start(1, "--no-standby", "--notice=azure", metadata.option(), "--node-name=goes")
    pool.wait_free(1)
    pool.start(1, "--no-standby", "--notice=none", "--node-name=lasts")
    pool.wait_free(2)
    metadata.plan("Preempt")
    wait_states(pool, goes="warned", lasts="free")
    assert "warned" in ctl("pool").stdout
    pool.submit("one")  # the node with the notice has waited longest and would be first
    pool.fleet.wait_world(1, folder=pool.folder("one"))
    wait_states(pool, goes="warned", lasts="assigned")
    pool.submit("two")
    wait_until(lambda: pool.job("two")["waits"], what="two to wait")
    metadata.set(events=[])
    pool.fleet.wait_world(1, folder=pool.folder("two"))
    assert {n["name"]: n["job"] for n in pool.nodes("assigned")} == {"goes": "two", "lasts": "one"}
    for name in ("one", "two"):
        pool.fleet.order("exit 0", folder=pool.folder(name))
        pool.wait_state(name, "succeeded")
    assert not metadata.acknowledged  # work on the node has not been confirmed to have ended


def test_a_node_that_is_warned_at_work_leaves_its_job_and_gets_no_other(pool, tmp_path):
    file = tmp_path / "goes"

    def warned(seconds):
        (tmp_path / "new").write_text(f"{seconds}\n")
        (tmp_path / "new").rename(file)

    pool.start(1, "--no-standby", f"--notice=file:{file}", "--node-name=goes")
    pool.start(1, "--no-standby", "--notice=none", "--node-name=lasts")
    pool.wait_free(2)
    pool.submit("job", "--workers=1:2")
    epoch = pool.fleet.wait_world(2, folder=pool.folder("job"))
    warned(10)
    pool.fleet.wait_world(1, above=epoch, folder=pool.folder("job"))
    warned(600)  # later than everything that follows
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")
    wait_states(pool, goes="warned", lasts="free")
    pool.submit("next", "--workers=1:2")
    pool.fleet.wait_world(1, folder=pool.folder("next"))
    wait_states(pool, goes="warned", lasts="assigned")
    pool.fleet.order("exit 0", folder=pool.folder("next"))
    pool.wait_state("next", "succeeded")


def test_a_job_goes_on_with_another_node_before_a_machine_that_is_warned_has_gone(pool, tmp_path):
    file = tmp_path / "goes"
    pool.start(1, "--no-standby", f"--notice=file:{file}", "--node-name=goes")
    pool.start(1, "--no-standby", "--notice=none", "--node-name=stays")
    pool.wait_free(2)
    pool.submit("job", "--workers=2")
    epoch = pool.fleet.wait_world(2, folder=pool.folder("job"))
    pool.start(1, "--no-standby", "--notice=none", "--node-name=comes")
    wait_states(pool, goes="assigned", stays="assigned", comes="free")
    (tmp_path / "new").write_text("600\n")  # later than everything that follows
    (tmp_path / "new").rename(file)
    wait_states(pool, goes="assigned", stays="assigned", comes="assigned")
    pool.fleet.wait_world(2, above=epoch, folder=pool.folder("job"))
    assert {n["name"] for n in pool.nodes("assigned")} == {"goes", "stays", "comes"}  # the node stays assigned until it or the job has ended
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")
    wait_states(pool, goes="warned", stays="free", comes="free")


def test_it_starts_with_its_minimum_and_a_cancelled_job_gives_its_nodes_back(pool):
    pool.start(1)
    pool.wait_free(1)
    pool.submit("big", "--workers=2:3")
    wait_until(lambda: "1 more node" in (pool.job("big")["waits"] or ""), what="a reason")
    assert not pool.fleet.starts(folder=pool.folder("big"))
    pool.start(2)
    pool.fleet.wait_world(3, folder=pool.folder("big"))
    pids = [start["pid"] for start in pool.fleet.starts(folder=pool.folder("big"))]
    pool.order("cancel", "big")
    pool.wait_free(3)
    pool.wait_state("big", "cancelled")
    assert not [pid for pid in pids if is_alive(pid)]


def test_a_suspended_job_gives_its_nodes_to_another_and_goes_on_later(pool):
    pool.start(2)
    pool.wait_free(2)
    pool.submit("first", "--workers=2")
    epoch = pool.fleet.wait_world(2, folder=pool.folder("first"))
    pool.order("suspend", "first")
    pool.wait_state("first", "suspended")
    pool.submit("second", "--workers=2")
    pool.fleet.wait_world(2, folder=pool.folder("second"))
    pool.fleet.order("exit 0", folder=pool.folder("second"))
    pool.wait_state("second", "succeeded")
    pool.order("resume", "first")
    pool.fleet.wait_world(2, above=epoch, folder=pool.folder("first"))
    pool.fleet.order("exit 0", folder=pool.folder("first"))
    pool.wait_state("first", "succeeded")
    pool.wait_free(2)
    assert {start["env"]["TFE_RUN"] for start in pool.fleet.starts(folder=pool.folder("first"))} == {"1"}
    assert pool.causes("first") == ["start", "suspended"]
    assert "node_noticed" not in pool.kinds("first"), "an operator's order is no machine that goes away"


TFJOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: tj, annotations: {{tfe/path: {folder}}}}}
spec:
  tfReplicaSpecs:
    Chief: {{replicas: 1, template: {pod}}}
    Worker: {{replicas: 2, template: {pod}}}
    PS: {{replicas: 1, template: {pod}}}
"""


def test_a_tfjob_goes_on_without_the_machine_of_a_worker(pool):
    """Its number of workers is fixed, min = max, and no other machine waits: no step is lost, and no epoch begins."""
    machines = pool.start(4)
    pool.wait_free(4)
    folder = pool.folder("tj")
    pod = json.dumps({"spec": {"containers": [{"name": "tensorflow", "image": "tf", "command": [sys.executable, SERVED, str(folder)]}]}})
    manifest = folder / "tj.yaml"
    manifest.write_text(TFJOB.format(folder=folder, pod=pod))
    assert pool.ctl("submit", f"--file={manifest}").returncode == 0
    job = wait_until(lambda: (job := pool.job("tj"))["workers_working"] == 2 and (job["step"] or 0) > 0 and job, what="two workers at work")
    assert (job["min"], job["max"], job["workers"], job["epoch"]) == (2, 2, 2, 1)
    lost = next(node["name"] for node in job["nodes"] if node["place"] == "worker-1")
    machine = machines[[f"m{i}" for i in range(4)].index(lost)]
    for pid in descendants(machine.pid):
        with contextlib.suppress(ProcessLookupError):  # it may end with its parent
            os.kill(pid, signal.SIGKILL)
    machine.send(signal.SIGKILL)
    job = wait_until(lambda: (job := pool.job("tj"))["workers_working"] == 1 and job, deadline=60, what="the loss")
    assert "  1 of 2 workers\n" in pool.ctl("status", "tj").stdout
    step = job["step"]
    wait_until(lambda: (pool.job("tj")["step"] or 0) > step, what="another step")
    assert (pool.job("tj")["epoch"], pool.job("tj")["state"]) == (1, "running")
    steps = [row["step"] for row in pool.fleet.lines("step", folder=folder)]
    assert steps == list(range(steps[0], steps[0] + len(steps)))


def test_describe_shows_what_a_waiting_job_wants(pool):
    pool.start(1)
    pool.wait_free(1)
    pool.submit("picky", "--workers=1", "--label=gpu=a100", "--env=API_KEY=s3cr3t", "--option=no-hooks", command=["python", "x.py", "--lr=1"])
    job = wait_until(lambda: (job := pool.job("picky"))["waits"] and "gpu=a100" in job["waits"] and job, what="a reason")
    assert job["waits"].endswith("; 0 of 1 node has gpu=a100"), job["waits"]
    job = job["spec"]
    assert (job["labels"], job["env"], job["command"]) == ({"gpu": "a100"}, ["API_KEY"], ["python", "x.py", "…"])
    assert job["options"]["no-hooks"] is True and job["options"]["gather"] == "10s"
    assert (job["restart_policy"], job["clean_policy"], job["preempt"]) == ("OnFailure", "Running", False)
    said = pool.ctl("describe", "picky").stdout
    for words in ("labels gpu=a100\n", "env API_KEY\n", "command python x.py …\n", "restart_policy OnFailure\n"):
        assert words in said, said
    assert "s3cr3t" not in said


def test_an_agent_started_by_hand_has_no_place_in_a_submitted_job(pool):
    pool.submit("waits", "--workers=1")
    for words in (["--job=waits"], ["--job=waits", "--run=other"]):
        agent = pool.fleet.start(*words)
        assert agent.wait() == 1
        assert ('the job of this name was submitted and uses only pool nodes (start tfe-agent --pool or use another --job)'
                in agent.stderr()), agent.stderr()
    pool.order("cancel", "waits")
    pool.wait_state("waits", "cancelled")
    assert pool.fleet.start("--job=waits") and pool.fleet.wait_world(1)


def test_a_more_urgent_job_is_the_cause_of_the_epoch_without_its_nodes(pool):
    pool.start(2)
    pool.wait_free(2)
    pool.submit("low", "--workers=1:2", "--priority=100")
    epoch = pool.fleet.wait_world(2, folder=pool.folder("low"))
    pool.submit("high", "--workers=1", "--priority=900", "--preempt")
    pool.fleet.wait_world(1, above=epoch, folder=pool.folder("low"))
    pool.fleet.wait_world(1, folder=pool.folder("high"))
    assert pool.causes("low") == ["start", "reassigned"]
    assert "node_noticed" not in pool.kinds("low")


def test_a_job_that_saves_is_not_hurried_by_a_server_that_comes_back(server, fleet, ctl, tmp_path):
    code = tmp_path / "saves.py"
    code.write_text(SAVES)
    first = server()
    pool = Pool(fleet, ctl)
    agent, = pool.start(1, "--preempt-grace=50s", "--stop-grace=50s", "--no-standby")
    pool.wait_free(1)
    pool.submit("job", command=["python", str(code), str(tmp_path)])
    wait_until((tmp_path / "runs").exists, what="a trainer")
    pool.wait_state("job", "running")
    pool.order("suspend", "job")
    wait_until((tmp_path / "saves").exists, what="a trainer that saves")
    first.kill()
    server(port=first.port)
    wait_until(lambda: agent.stderr().count("event=joined pool=yes") == 2, what="the node again")
    agent.send(signal.SIGTERM)
    wait_until(lambda: "event=leaving signal=SIGTERM" in agent.stderr(), what="its signal")
    (tmp_path / "go").touch()
    wait_until((tmp_path / "saved").exists, what="what was saved")
    assert agent.wait() == 143


def test_an_urgent_job_takes_nodes_by_a_planned_switch_down_to_the_others_minimum(pool):
    low, urgent, now = (pool.folder(name) for name in ("low", "urgent", "now"))
    pool.start(3, "--preempt-grace=50s")
    pool.wait_free(3)
    pool.submit("low", "--workers=1:3", command=["python", TALKER, str(low)])
    first = pool.fleet.wait_world(3, folder=low)
    wait_until(lambda: pool.fleet.lines("checkpoint", low), what="a first checkpoint")
    pool.submit("urgent", "--workers=2", "--priority=900")
    second = pool.fleet.wait_world(1, above=first, folder=low)
    numbers = {line["number"] for line in pool.fleet.lines("save", low) if line["epoch"] == first}
    assert numbers & {line["answers"] for line in pool.fleet.lines("checkpoint", low) if line["epoch"] == first}
    pool.fleet.wait_world(2, folder=urgent)
    # A job without preemption never takes another job below its minimum.
    pool.submit("waits", "--workers=2", "--priority=950")
    wait_until(lambda: "2 more nodes" in (pool.job("waits")["waits"] or ""), what="a reason")
    assert pool.fleet.last_epoch(low) == second and len(pool.nodes("assigned")) == 3
    pool.order("cancel", "waits")
    # A job with --preempt takes whole jobs, the least urgent first.
    pool.submit("now", "--workers=2", "--priority=950", "--preempt")
    pool.fleet.wait_world(2, folder=now)
    assert pool.job("low")["state"] != "running" and pool.job("urgent")["state"] != "running"
    pool.fleet.order("exit 0", folder=now)
    pool.wait_state("now", "succeeded")
    for name, size in ("urgent", 2), ("low", 1):
        folder = pool.folder(name)
        pool.fleet.wait_world(size, above=second if name == "low" else 1, folder=folder)
        pool.fleet.order("exit 0", folder=folder)
        pool.wait_state(name, "succeeded")


def test_a_job_is_scaled_up_and_down_and_begins_anew_when_it_is_over(pool):
    folder = pool.folder("job")
    pool.start(3)
    pool.wait_free(3)
    pool.submit("job", "--workers=1")
    epoch = pool.fleet.wait_world(1, folder=folder)
    pool.order("scale", "job", "3")
    epoch = pool.fleet.wait_world(3, above=epoch, folder=folder)
    pool.order("scale", "job", "1:2")
    epoch = pool.fleet.wait_world(2, above=epoch, folder=folder)
    pool.wait_free(1)
    pool.fleet.order("exit 0", folder=folder)
    pool.wait_state("job", "succeeded")
    pool.wait_free(3)
    (folder / "do.all").unlink()
    pool.order("restart", "job")
    epoch = pool.fleet.wait_world(2, above=epoch, folder=folder)
    assert {start["env"]["TFE_RUN"] for start in pool.fleet.starts(epoch, folder=folder)} == {"2"}
    pool.fleet.order("exit 0", folder=folder)
    pool.wait_state("job", "succeeded")


@pytest.mark.heavy
def test_growth_goes_where_one_more_node_was_seen_to_help(server, fleet, ctl):
    """Steps of `flat` take longer with two nodes, those of `scales` do not."""
    s = server()
    pool = Pool(fleet, ctl)

    def paced(job, workers):
        return wait_until(lambda: [e for e in s.events("job_pace") if (e["job"], e["workers"]) == (job, workers)],
                          what=f"how fast {job} is with {workers}", deadline=60)

    pool.start(2)
    pool.wait_free(2)
    for job, pace in ("flat", "0.$((WORLD_SIZE * 15 + 10))"), ("scales", "0.25"):
        pool.submit(job, "--workers=1:4", command=["sh", "-c", f"exec {sys.executable} {TALKER} {pool.folder(job)} --pace {pace}"])
    for job in "flat", "scales":
        paced(job, 1)
    pool.start(2)
    wait_until(lambda: sorted(node["job"] for node in pool.nodes("assigned")) == ["flat"] * 2 + ["scales"] * 2, what="one more each")
    paced("scales", 2)
    wait_until(lambda: paced("flat", 2)[-1]["gain_milli"] < 500, what="little help")
    pool.start(2)
    wait_until(lambda: sorted(node["job"] for node in pool.nodes("assigned")) == ["flat"] * 2 + ["scales"] * 4, what="two for scales")
    for job in "flat", "scales":
        fleet.order("exit 0", folder=pool.folder(job))
        pool.wait_state(job, "succeeded")


@pytest.mark.heavy
def test_a_pool_agent_that_is_killed_leaves_no_trainer_and_another_takes_over(pool):
    first, = pool.start(1)
    pool.wait_free(1)
    pool.submit("job")
    epoch = pool.fleet.wait_world(1, folder=pool.folder("job"))
    trainer = pool.fleet.starts(epoch, folder=pool.folder("job"))[0]["pid"]
    agent, = children(first.pid)
    first.process.send_signal(signal.SIGKILL)
    first.wait()
    assert gone_soon(agent, 20) and gone_soon(trainer)
    pool.start(1)
    pool.fleet.wait_world(1, above=epoch, folder=pool.folder("job"))
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")


def test_an_agent_below_it_that_is_killed_frees_its_node(pool):
    first, = pool.start(1)
    pool.wait_free(1)
    pool.submit("job")
    epoch = pool.fleet.wait_world(1, folder=pool.folder("job"))
    start, = pool.fleet.starts(epoch, folder=pool.folder("job"))
    agent, = children(first.pid)
    os.kill(agent, signal.SIGKILL)
    assert gone_soon(start["pid"])
    pool.fleet.wait_world(1, above=epoch, folder=pool.folder("job"))
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")
    pool.wait_free(1)


@as_root
@pytest.mark.heavy
def test_trainers_of_another_user_come_nowhere_that_is_closed_to_him(pool, commons, tmp_path):
    pool.start(1, "--trainer-user=nobody")
    pool.wait_free(1)
    closed = tmp_path / "closed" / "open"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    pool.submit("one", f"--path={closed}", "--option=max-restarts=0", command=["true"])
    wait_until(lambda: f"enter {closed}: permission denied" in json.dumps(pool.job("one")), what="the sentence")
    pool.submit("two", "--priority=900", command=["sh", "-c", f"touch mine && stat -c %U mine . > {commons}/said"])
    pool.wait_state("two", "succeeded")
    assert (commons / "said").read_text() == "nobody\nnobody\n"


@pytest.mark.heavy
def test_what_an_agent_had_to_say_of_its_end_is_in_the_description(pool, tmp_path):
    pool.start(1)
    pool.wait_free(1)
    pool.submit("typo", "--option=max-restarts=0", command=["python", str(tmp_path / "no.py")])
    said = f"script {tmp_path}/no.py: no such file or directory"
    wait_until(lambda: said in json.dumps(pool.job("typo")), what="the sentence")
    pool.wait_state("typo", "failed")
    pool.wait_free(1)


def test_an_idle_machine_is_given_back_but_for_the_floor(pool, tmp_path):
    given = tmp_path / "given"
    busy, = pool.start(1, "--label=kind=busy")
    pool.wait_free(1)
    pool.submit("job", "--label=kind=busy")
    pool.fleet.wait_world(1, folder=pool.folder("job"))
    idle = pool.start(2, "--idle-exit=1s", "--floor=2", f"--on-finish=echo $TFE_FINISH $TFE_NODE_NAME >> {given}; exit 3")
    gone = wait_until(lambda: next((agent for agent in idle if agent.process.poll() is not None), None), what="one to leave")
    assert gone.wait() == 0
    stays, = (agent for agent in idle if agent is not gone)
    assert given.read_text() == f"idle m{pool.fleet.agents.index(gone)}\n"
    assert "event=on_finish of=idle status=3" in gone.stderr()
    # The working node satisfies a minimum of two.
    wait_until(lambda: sorted(node["state"] for node in pool.nodes()) == ["assigned", "free"], what="two nodes")
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")
    pool.start(1)
    assert stays.wait() == 0, "with a third one it is one too many"
    assert len(given.read_text().splitlines()) == 2 and is_alive(busy.pid)


@pytest.mark.parametrize("verb", ["drain", "evict"])
def test_a_machine_that_is_taken_out_leaves_its_job_and_stays_out(pool, verb, tmp_path):
    leaver, _ = pool.start(2)
    pool.wait_free(2)
    pool.submit("job", "--workers=1:2")
    epoch = pool.fleet.wait_world(2, folder=pool.folder("job"))
    pool.order(verb, "m0")
    assert leaver.wait() == 0
    wait_until(lambda: [node["name"] for node in pool.nodes()] == ["m1"], what="the node to be gone")
    pool.fleet.wait_world(1, above=epoch, folder=pool.folder("job"))
    assert pool.causes("job") == ["start", "drained"] and "node_noticed" not in pool.kinds("job")
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")
    pool.wait_free(1)
    pool.order(verb, pool.nodes()[0]["node"])
    wait_until(lambda: not pool.nodes(), what="an empty pool")
    log = (tmp_path / "rdzv.0.log").read_text()
    assert log.count('"pool_node_left"') == 2 and "pool_node_gone" not in log, "no lease has ended"


def test_the_key_of_a_machine_is_revoked(pool):
    agent, = pool.start(1)
    pool.wait_free(1)
    wait_until(lambda: any(row["enrolled"] for row in json.loads(pool.ctl("agents", "--json").stdout)["agents"]), what="its own key")
    pool.order("revoke-agent", "m0")
    assert agent.wait() in (0, 77)  # depends on which message arrived first
    wait_until(lambda: not pool.nodes(), what="an empty pool")


def test_what_a_job_prints_is_shown_until_it_is_over(pool):
    pool.start(2)
    pool.wait_free(2)
    for name, code in (("good", 0), ("bad", 7)):
        # The first of the failing job's ranks fails, and the other one only after it has printed everything.
        script = (f'for i in 1 2 3; do echo "{name} $i of $TFE_RANK"; sleep 0.3; done; echo last >&2; '
                  f'[ {code} = 0 ] || [ $TFE_RANK = 0 ] || sleep 600; exit {code}')
        done = pool.ctl("submit", f"--name={name}", "--workers=2", "--option=max-restarts=0", "--logs", "--wait", "--", "sh", "-c", script)
        assert done.returncode == (1 if code else 0), done.stderr
        for rank in (0,) if code else (0, 1):  # survivors are ended when the first one fails
            for i in (1, 2, 3):
                assert done.stdout.count(f"{name} {i} of {rank}\n") == 1, done.stdout
            assert done.stdout.count(f"[{rank} err] last\n") == 1, done.stdout
        assert done.stdout.splitlines()[-1].startswith(f"job {name}: {'failed' if code else 'succeeded'}, run 1")


def test_sigterm_leaves_the_job_and_then_the_pool(pool):
    leaver, stayer = pool.start(2)
    pool.wait_free(2)
    pool.submit("job", "--workers=1:2")
    epoch = pool.fleet.wait_world(2, folder=pool.folder("job"))
    leaver.send(signal.SIGTERM)
    assert leaver.wait() == 143
    pool.fleet.wait_world(1, above=epoch, folder=pool.folder("job"))
    wait_until(lambda: len(pool.nodes()) == 1, what="the node to be gone")
    assert is_alive(stayer.pid)


@pytest.mark.heavy
def test_a_machine_of_two_slots_is_two_nodes_which_share_nothing(pool, token):
    secret = token()
    agent, = pool.start(1, f"--token={secret}", "--slots=2", "--label=gpu=none,disk=fast")
    nodes = pool.wait_free(2)
    assert sorted(node["name"] for node in nodes) == ["m0", "m0-1"]
    for pid in (agent.pid, *children(agent.pid)):
        assert secret not in pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    assert [node["labels"] for node in nodes] == [{"gpu": "none", "disk": "fast"}] * 2
    pool.submit("job", "--workers=2", "--label=disk=fast")
    pool.fleet.wait_world(2, folder=pool.folder("job"))
    os.kill(children(agent.pid)[0], signal.SIGKILL)  # the guard is restarted, and the job continues
    wait_until(lambda: len(pool.nodes("free") + pool.nodes("assigned")) == 2, what="two nodes")
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")
    agent.send(signal.SIGTERM)
    assert agent.wait() == 143


@pytest.mark.heavy
def test_a_node_works_on_when_its_token_has_expired(pool, token, tmp_path):
    secret = token("--ttl=15s")
    end = time.time() + 15
    agent, = pool.start(1, f"--token={secret}")
    pool.wait_free(1)
    wait_until(lambda: any(node["name"] == "m0" for node in json.loads(pool.ctl("agents", "--json").stdout)["agents"]) or
               time.time() > end, what="its own key")
    wait_until(lambda: time.time() > end, what="the token's end")
    pool.submit("job")
    pool.fleet.wait_world(1, folder=pool.folder("job"))
    pool.fleet.order("exit 0", folder=pool.folder("job"))
    pool.wait_state("job", "succeeded")
    assert is_alive(agent.pid)


@pytest.mark.parametrize("words", [["--pool", "train.py"], ["--pool", "--standalone"], ["--pool", "--role=ps"], ["--pool", "--label=x"],
                                   ["--pool", "--slots=0"], ["--pool", "--run=k"], ["--pool", "--no-python"], ["--pool", "-m"]])
def test_what_does_not_go_with_a_pool_is_refused(words, fleet):
    agent = fleet.start_program([program("tfe-agent"), *words])
    assert agent.wait() == 2
    assert agent.stderr().count("\n") == 1
