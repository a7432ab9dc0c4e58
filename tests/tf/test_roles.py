"""A ParameterServer job with real TensorFlow: kill -9 of workers, ps, chief, evaluator and whole agents. Only the loss
of a ps or of the chief costs steps, never more than lie between two checkpoints, and the result is as good as without
any loss."""
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import fleet as fl
import numpy as np
import pytest
from programs import children, is_alive

FULL = bool(os.environ.get("TFE_TEST_FULL"))
KILLS, AGENT_KILLS = (40, 20) if FULL else (3, 0)
WORKERS, PS = (3, 2) if FULL else (2, 1)
SAVE_EVERY = 20
SEED = int(os.environ.get("TFE_TEST_SEED") or time.time())
PATIENCE_S = 300 if FULL else 120


class Job:
    """The job's agents; hold: the last step is taken after end(); kills: successful kills."""

    def __init__(self, fleet, steps, *options, script="parameter_server.py"):
        self.fleet, self.steps, self.script = fleet, steps, script
        self.options = ("--max-restarts=1000", "--grow-wait=2s", "--exit-grace=60s", *options)
        self.hold = fleet.directory / "hold"
        self.hold.touch()
        self.names = (f"m{number}" for number in itertools.count())
        self.living, self.kills = [], 0

    def come(self):
        self.living.append(next(self.names))
        self.fleet.start_agent(self.living[-1], fl.EXAMPLES / self.script, "--steps", self.steps, "--save-every", SAVE_EVERY,
                               "--pace", 0.02, "--hold", self.hold, "--step-log", self.fleet.step_logs,
                               "--checkpoint-dir", self.fleet.checkpoints, options=self.options)

    def status(self):
        told = subprocess.run([fl.program("tfe-ctl"), "status", "--json", "--state-dir", str(self.fleet.state)], capture_output=True,
                              text=True, timeout=60)
        jobs = json.loads(told.stdout)["jobs"] if told.returncode == 0 else []
        return jobs[0] if jobs else {"epoch": 0, "nodes": []}

    def node_of(self, place, status=None):
        """Returns the status of the node whose trainer has this role, or None if there is none."""
        return next((node for node in (status or self.status())["nodes"] if node.get("place") == place and node["trainer_pids"] and
                     self.trainer_of(node)), None)

    def trainer_of(self, node):
        """Returns the pid of its trainer, if one runs below the node's guard."""
        return next((pid for pid in node["trainer_pids"] if pid in children(node["guard_pid"])), None)

    def step(self):
        return max((line["step"] for line in self.fleet.trainer_lines() if "ids" in line), default=0)

    def reach(self, more):
        """Waits for this many further steps, or for the step that is held."""
        goal = min(self.steps - 1, self.step() + more)
        fl.wait_for(f"step {goal}", lambda: self.step() >= goal, PATIENCE_S)

    def kill(self, place, whole_agent=False):
        """Kills the trainer of this role, alone or with its agent; returns its epoch and pid. If the process has ended
        by itself before the signal, its successor is killed."""
        def hit():
            status = self.status()
            node = self.node_of(place, status)
            trainer = node and self.trainer_of(node)
            victim = self.fleet.agents[node["name"]].pid if node and whole_agent else trainer
            return (status["epoch"], node["name"], trainer) if trainer and ends(victim) else None
        epoch, name, trainer = fl.wait_for(f"a {place} to kill", hit, PATIENCE_S)
        self.kills += 1
        if whole_agent:
            self.living.remove(name)
            self.come()
        return epoch, trainer

    def ledger(self):
        """Returns the epochs of the job in the server's ledger."""
        return json.loads(self.fleet.ctl("epochs", "--json", "default"))["epochs"]

    def restored(self):
        """Returns [(epoch, step from which its chief began)]."""
        return [(line["epoch"], line["step"]) for line in self.fleet.trainer_lines() if line.get("event") == "restored" and
                line.get("rank", 0) == 0]

    def redone(self):
        """Returns for each restart of the chief the number of steps that had been scheduled and were repeated."""
        lines, found = self.fleet.trainer_lines(), []
        for index, line in enumerate(lines):
            if line.get("event") == "restored":
                before = max((other["step"] for other in lines[:index] if "ids" in other), default=0)
                found.append(before - line["step"])
        return found[1:]

    def end(self):
        self.hold.unlink()
        assert self.fleet.wait_agents(self.living, PATIENCE_S) == dict.fromkeys(self.living, 0)
        return next(line for line in self.fleet.trainer_lines() if line.get("event") == "end")


def ends(pid):
    """Kills this process with SIGKILL. Returns False if it had ended before."""
    try:
        process = os.pidfd_open(pid)  # protects from another process with the same pid
    except ProcessLookupError:
        return False
    try:
        lives = is_alive(pid)
        if lives:
            signal.pidfd_send_signal(process, signal.SIGKILL)
        return lives
    except ProcessLookupError:
        return False
    finally:
        os.close(process)


def loses(job, place, whole_agent=False):
    """Kills the role and waits until the job is complete again."""
    epochs = len(job.restored())
    epoch, trainer = job.kill(place, whole_agent)
    if place.startswith(("chief", "ps")):
        fl.wait_for(f"the chief to begin again after {place}", lambda: len(job.restored()) > epochs, PATIENCE_S)
    else:
        def is_back():
            node = job.node_of(place)
            return node and job.trainer_of(node) != trainer
        fl.wait_for(f"{place} to be back", is_back, PATIENCE_S)
    return epoch


def judged(fleet):
    """Returns the steps of the checkpoints that the evaluator has processed."""
    return [int(step) for name in fleet.agents for step in re.findall(r"step (\d+): test accuracy", fleet.output(name))]


def undisturbed(fleet, steps):
    """Returns the result of the same training without kills."""
    folder, names = fleet.directory / "undisturbed", [f"u{number}" for number in range(WORKERS + PS + 1)]
    for name in names:
        fleet.start_agent(name, fl.EXAMPLES / "parameter_server.py", "--steps", steps, "--save-every", SAVE_EVERY, "--pace", 0.02,
                          "--step-log", folder / "steps", "--checkpoint-dir", folder / "checkpoints",
                          options=("--job=undisturbed", f"--nnodes={WORKERS}:{WORKERS}", f"--ps={PS}", "--chief"))
    assert fleet.wait_agents(names, PATIENCE_S + steps * 0.1) == dict.fromkeys(names, 0)
    return next(line for path in (folder / "steps").glob("*.jsonl") for line in fl.JsonLines(path).read() if line.get("event") == "end")


def test_whoever_is_killed_no_more_is_done_again_than_lies_between_two_checkpoints(make_fleet):
    print(f"TFE_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    steps = 60 * (KILLS + AGENT_KILLS) + 100
    fleet = make_fleet("--ttl", "30")  # kills are proven, so that stalls of a busy machine are no losses
    calm = undisturbed(fleet, steps) if FULL else {"accuracy": 0.95, "loss": 0.2}
    job = Job(fleet, steps, f"--nnodes={WORKERS}:{WORKERS}", f"--ps={PS}", "--chief", "--evaluator")
    for _ in range(WORKERS + PS + 2):
        job.come()
    workers, servers = ([f"{role}-{index}" for index in range(size)] for role, size in (("worker", WORKERS), ("ps", PS)))
    if FULL:
        victims = [(chance.choice([workers, servers, ["chief-0"], ["evaluator-0"]]), False) for _ in range(KILLS)]
        victims += [(chance.choice([workers, servers, ["chief-0"]]), True) for _ in range(AGENT_KILLS)]
        chance.shuffle(victims)
    else:
        victims = [(workers, False), (servers, False), (["chief-0"], False)]
    job.reach(SAVE_EVERY + 5)
    expected = 0  # restarts of epochs
    alone = 0     # restarts of single workers
    for number, (places, whole_agent) in enumerate(victims):
        job.reach(chance.randint(3, 40))
        time.sleep(chance.random() * 0.1)
        place = chance.choice(places)
        epoch = loses(job, place, whole_agent)
        expected += whole_agent or place.startswith(("chief", "ps"))  # a lost worker is replaced in a planned switch
        alone += not whole_agent and place.startswith("worker")
        print(f"kill {number + 1}: {'agent of ' if whole_agent else ''}{place} at step {job.step()} in epoch {epoch}, now "
              f"{job.status()['epoch']}; done again {job.redone()}", flush=True)
        if not whole_agent and not place.startswith(("chief", "ps")):
            assert job.status()["epoch"] == epoch  # no other process was affected
    end = job.end()
    again = job.redone()
    ledger = job.ledger()
    print(f"seed {SEED}: {job.kills} of {len(victims)} kills, done again {again}, {end}; undisturbed {calm}")
    assert job.kills == len(victims) == (KILLS + AGENT_KILLS)
    assert len(ledger) > expected and sum(epoch["restarts"] for epoch in ledger) >= alone, ledger  # the server has recorded them, too
    assert end["step"] == steps
    assert end["accuracy"] > calm["accuracy"] - 0.02 and end["loss"] < calm["loss"] + 0.1
    assert all(0 <= count <= SAVE_EVERY for count in again), again
    assert sum(count > 0 for count in again) <= expected
    ids = [line["step"] for line in job.fleet.trainer_lines() if "ids" in line]
    assert set(ids) == set(range(1, steps + 1)) and len(ids) == steps + sum(again)
    assert max(judged(job.fleet)) == steps  # including the last checkpoint


def test_a_tutorials_script_in_all_roles(make_fleet):
    """The script does not know tfe: a worker and a ps wait in Server.join(), and are ended with the chief."""
    fleet = make_fleet()
    for name in "abc":
        fleet.start_agent(name, fl.EXAMPLES / "parameter_server_tutorial.py", fleet.checkpoints, 12,
                          options=("--no-standby", "--nnodes=1:1", "--ps=1", "--chief"))
    assert fleet.wait_agents("abc", PATIENCE_S) == dict.fromkeys("abc", 0)
    assert sum("done: [1.0, 1.0, 1.0, 1.0]" in fleet.output(name) for name in "abc") == 1
    assert len(fleet.epochs()) == 1


def test_fit_under_parameter_servers_with_an_evaluator(make_fleet):
    fleet = make_fleet()
    for name in "abcd":
        fleet.start_agent(name, fl.EXAMPLES / "parameter_server_fit.py", "--steps", 200, "--checkpoint-dir", fleet.checkpoints,
                          options=("--no-standby", "--nnodes=1:1", "--ps=1", "--chief", "--evaluator"))
    assert fleet.wait_agents("abcd", PATIENCE_S) == dict.fromkeys("abcd", 0)
    said = "".join(fleet.output(name) for name in "abcd")
    assert "step 200 of 200: loss" in said
    assert "step 200: test accuracy 0.9" in said


def test_an_evaluator_beside_synchronous_workers(make_fleet):
    """The evaluator is killed, which does not end the epoch; its next process processes the last checkpoint."""
    fleet = make_fleet()
    job = Job(fleet, 150, "--nnodes=1:1", "--evaluator", script="digits.py")
    for _ in range(2):
        job.come()
    fl.wait_for("the evaluator", lambda: job.node_of("evaluator-0"), PATIENCE_S)
    fl.wait_for("some steps", lambda: len(fleet.steps()) > SAVE_EVERY, PATIENCE_S)
    loses(job, "evaluator-0")
    before = judged(fleet)
    fl.wait_for("the next evaluator to judge a checkpoint", lambda: len(judged(fleet)) > len(before), PATIENCE_S)
    job.end()
    assert [(epoch["members"], epoch["cause"]) for epoch in fleet.epochs()] == [(1, "start")]
    assert max(judged(fleet)) == 150


@pytest.mark.heavy
def test_a_chief_of_synchronous_workers_that_is_killed_goes_on_or_another_one_does(make_fleet):
    """Without ps, all of an epoch end with any of them. The chief's trainer is killed and restarted as chief; then its
    whole agent, and the worker becomes chief."""
    fleet = make_fleet("--ttl", "30")
    job = Job(fleet, 200, "--nnodes=1:1", "--chief", script="digits.py")
    for _ in range(2):
        job.come()

    def done(at=None):
        return max((line["step"] for line in fleet.steps() if at is None or line["t_ms"] < at), default=0)
    chiefs = []
    for turn, whole_agent in enumerate((False, True)):
        goal = done() + SAVE_EVERY + 5
        fl.wait_for(f"step {goal}", lambda: done() >= goal, PATIENCE_S)  # noqa: B023
        chiefs.append(job.node_of("chief-0")["name"])
        loses(job, "chief-0", whole_agent)
        fl.wait_for("the next epoch's steps", lambda: any(line["epoch"] == job.restored()[turn + 1][0] for line in fleet.steps()),  # noqa: B023
                    PATIENCE_S)
    chiefs.append(job.node_of("chief-0")["name"])
    job.end()
    assert chiefs[0] == chiefs[1] != chiefs[2]
    assert job.kills == 2
    causes = [(epoch["members"], epoch["cause"]) for epoch in fleet.epochs()]
    assert causes[:2] == [(2, "start"), (2, "trainer_failed")] and len(causes) == 3
    assert causes[2] in ((2, "node_lost"), (2, "trainer_failed"))  # the end of the worker, a consequence, may be reported first
    begun = [line for line in fleet.trainer_lines() if line.get("event") == "restored" and line["rank"] == 0]
    assert all(0 <= done(line["t_ms"]) - line["step"] <= SAVE_EVERY for line in begun), begun
    assert {line["step"] for line in fleet.steps()} == set(range(1, 201))
    assert {line["sum"] for line in fleet.steps()} == {2}  # chief and worker contribute to each step


# --- changing the number of ps ---------------------------------------------------------------------


def after_steps(number):
    """Returns what partitioned.py then has in its variables, to the last bit."""
    table, bias = np.arange(26, dtype=np.float32).reshape(13, 2), np.array([0.5], np.float32)
    for step in range(number):
        more = np.float32(1) / (np.float32(step) + np.float32(3))
        table, bias = table + more, bias + more
    return {"table": table.tolist(), "bias": bias.tolist()}


@pytest.mark.heavy
def test_an_operator_changes_the_number_of_ps_and_nothing_is_lost(make_fleet):
    """1, 2, and again 1: each epoch continues from the state of the one before, partitioned over the current number of
    ps."""
    fleet = make_fleet("--ttl", "30")  # no node is lost here, however long a busy machine stalls
    hold = fleet.directory / "hold"
    hold.touch()
    for name in "abcd":
        fleet.start_agent(name, pathlib.Path(__file__).with_name("partitioned.py"), fleet.checkpoints, fleet.step_logs, hold,
                          options=("--nnodes=1:1", "--ps=1", "--chief"))

    def restored():
        return [line for line in fleet.trainer_lines() if line["event"] == "restored"]
    fl.wait_for("the first epoch", restored, PATIENCE_S)
    for turn, n_ps in enumerate((2, 1)):
        order = [fl.program("tfe-ctl"), "scale", f"--ps={n_ps}", "default", "1:1", "--state-dir", str(fleet.state)]
        fl.wait_for("the order to be taken", lambda: subprocess.run(order, capture_output=True, timeout=60).returncode == 0, PATIENCE_S)  # noqa: B023
        fl.wait_for(f"an epoch with {n_ps} ps", lambda: len(restored()) > turn + 1, PATIENCE_S)  # noqa: B023
    hold.unlink()
    assert fleet.wait_agents("abcd", PATIENCE_S) == dict.fromkeys("abcd", 0)
    seen = fleet.trainer_lines()
    assert [line["event"] for line in seen] == ["restored"] * 3 + ["end"]
    assert [len(line["devices"]) for line in seen] == [1, 2, 1, 1]
    assert sorted({line["step"] for line in seen}) == [line["step"] for line in seen]  # each epoch made some steps, and none was repeated
    for line in seen:
        assert {name: line[name] for name in ("table", "bias")} == after_steps(line["step"])
    assert [epoch["cause"] for epoch in fleet.epochs()] == ["start", "resized", "resized"]
