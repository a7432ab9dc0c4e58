"""Jobs with roles: chief, workers, ps, evaluator as real processes."""

import csv
import io
import json
import pathlib
import signal
import time

import pytest

from agents import fleet  # noqa: F401 (fleet is a fixture)
from conftest import wait_until
from programs import is_alive

SERVED = str(pathlib.Path(__file__).with_name("served.py"))
CALM = ("--gather", "10")
"""Options for a job whose nodes fill it together: the first epoch has all of them and begins when they are there."""


class Job:
    """The agents of a job with roles, and what its trainers logged."""

    def __init__(self, fleet, status, n, *options):  # noqa: F811
        self.fleet, self.status, self.options = fleet, status, options
        self.agents = [self.start() for _ in range(n)]

    def start(self, *more):
        return self.fleet.start(*self.options, *more, command=[SERVED, str(self.fleet.folder)])

    def nodes(self):
        return self.status()[0]["nodes"]

    def places(self):
        return {n["place"]: n for n in self.nodes() if n["place"]}

    def agent_of(self, place):
        pid = self.places()[place]["pid"]
        return next(a for a in self.agents if a.pid == pid)

    def starts(self, place=None, epoch=None):
        return [s for s in self.fleet.starts(epoch) if place is None or s["place"] == place]

    def wait_starts(self, places, above=0):
        """Waits for an epoch above `above` in which these roles have started; returns its number."""

        def look():
            epoch = max((s["epoch"] for s in self.starts() if s["place"] != "evaluator-0"), default=0)
            here = {s["place"] for s in self.starts(epoch=epoch)}
            return epoch if epoch > above and here >= set(places) else None
        return wait_until(look, what=f"{places} above {above}")

    def steps(self, epoch=None):
        return [s for s in self.fleet.lines("step") if epoch is None or s["epoch"] == epoch]

    def wait_step(self, what=lambda step: True, above=None):
        above = len(self.steps()) if above is None else above
        return wait_until(lambda: next((s for s in self.steps()[above:] if what(s)), None), what="a step")

    def wait_begun(self, epoch):
        """Waits until both workers are in use and the server knows it: a loss before that would end the epoch."""
        step = self.wait_step(lambda s: s["epoch"] == epoch and s["used"] == [0, 1])["step"]
        wait_until(lambda: (self.status()[0]["step"] or 0) >= step, what=f"word of step {step} at the server")

    def order(self, place, words):
        hidden = self.fleet.folder / f".do.{place}"
        hidden.write_text(words)
        hidden.rename(self.fleet.folder / f"do.{place}")


ALL = ("chief-0", "worker-0", "worker-1", "ps-0", "ps-1")


def test_a_job_with_servers_starts_and_finishes(server, fleet, status, ctl):  # noqa: F811
    server(*CALM)
    job = Job(fleet, status, 5, "--nnodes=2:2", "--ps=2", "--chief")
    epoch = job.wait_starts(ALL)
    by_place = {s["place"]: s for s in job.starts(epoch=epoch)}
    clusters = [s["cluster"] for s in by_place.values()]
    assert all(c == clusters[0] for c in clusters)
    assert {k: len(v) for k, v in clusters[0].items()} == {"chief": 1, "worker": 2, "ps": 2}
    assert list(clusters[0]) == ["chief", "ps", "worker"]
    for rank, place in enumerate(ALL):
        env, task = by_place[place]["env"], by_place[place]["task"]
        assert f"{task['type']}-{task['index']}" == place
        assert (env["TFE_RANK"], env["TFE_WORLD_SIZE"]) == (str(rank), "5")
        assert json.loads(env["TFE_CLUSTER"]) == clusters[0]
    job.wait_step(lambda s: s["used"] == [0, 1])
    assert {n["place"]: n["rank"] for n in job.nodes()} == {place: rank for rank, place in enumerate(ALL)}
    for verb in ("status", "nodes"):
        told = ctl(verb).stdout
        assert all(f" {place} " in told for place in ALL) and " member " not in told, told
    job.order("chief-0", "exit 0")
    assert [agent.wait() for agent in job.agents] == [0] * 5
    assert status()[0]["state"] == "succeeded"


def test_a_worker_starts_again_where_it_was(server, fleet, status, ctl):  # noqa: F811
    server(*CALM)
    job = Job(fleet, status, 4, "--nnodes=2:2", "--ps=1", "--chief", "--max-restarts=10")
    epoch = job.wait_starts(("chief-0", "worker-0", "worker-1", "ps-0"))
    job.wait_step(lambda s: s["used"] == [0, 1])
    before = {s["place"]: s["pid"] for s in job.starts(epoch=epoch)}
    for n in range(1, 4):
        job.order("worker-1", "kill 9")
        again = wait_until(lambda: job.starts("worker-1")[n:], what="another start")[0]  # noqa: B023
        assert again["epoch"] == epoch and again["env"]["TFE_RESTART_COUNT"] == str(n)
        assert again["cluster"] == job.starts("worker-1")[0]["cluster"]
        job.wait_step(lambda s: s["used"] == [0, 1])
    for place in ("chief-0", "worker-0", "ps-0"):
        assert is_alive(before[place]) and len(job.starts(place)) == 1
    # The third epoch may be in the ledger only after its trainer has worked.
    wait_until(lambda: [e["epoch"] for e in json.loads(ctl("epochs", "default", "--json").stdout)["epochs"] if e["restarts"] == 3] == [epoch],
               what="three restarts in the ledger")
    sheet = list(csv.DictReader(io.StringIO(ctl("epochs", "default", "--csv").stdout)))
    assert [(int(row["epoch"]), row["restarts"]) for row in sheet] == [(epoch, "3")]
    job.order("chief-0", "exit 0")
    assert [agent.wait() for agent in job.agents] == [0] * 4


def test_a_worker_that_exits_with_0_is_done_and_the_chief_goes_on(server, fleet, status, ctl):  # noqa: F811
    """Regression: the worker was restarted three times, and then in one epoch after another without end."""
    s = server(*CALM)
    job = Job(fleet, status, 4, "--nnodes=2:2", "--ps=1", "--chief")
    epoch = job.wait_starts(("chief-0", "worker-0", "worker-1", "ps-0"))
    job.wait_begun(epoch)
    job.order("worker-1", "exit 0")
    job.wait_step(lambda s: s["used"] == [0])
    wait_until(lambda: status()[0]["workers_done"] == 1, what="the server's word of it")
    assert "1 of 2 workers (1 ended with exit status 0)" in ctl("status").stdout
    job.order("worker-0", "exit 0")  # also the last worker
    wait_until(lambda: status()[0]["workers_done"] == 2, what="the server's word of it")
    job.agents.append(job.start())  # it does not fill the finished worker's slot
    wait_until(lambda: any(n["state"] == "spare" for n in job.nodes()), what="a spare")
    time.sleep(2)
    assert [len(job.starts(place)) for place in ("chief-0", "worker-0", "worker-1", "ps-0")] == [1] * 4
    job.order("chief-0", "exit 0")
    assert [agent.wait() for agent in job.agents] == [0] * 5
    assert [e["epoch"] for e in s.events("epoch")] == [epoch]
    assert not s.events("restarts")
    assert "has ended with exit status 0: 1 of 2 workers" in ctl("events", "default").stdout


def test_at_min_the_loss_of_a_worker_costs_no_step_and_no_epoch(server, fleet, status, ctl):  # noqa: F811
    """Regression: chief and ps were killed with the worker, and training stopped until a node came. The worker's
    machine is disconnected: its agent is stopped."""
    s = server(*CALM, "--ttl", "3", "--fence", "9s")
    job = Job(fleet, status, 4, "--nnodes=2:2", "--ps=1", "--chief")
    places = ("chief-0", "worker-0", "worker-1", "ps-0")
    epoch = job.wait_starts(places)
    job.wait_begun(epoch)
    lost, pids = job.agent_of("worker-0"), {at["place"]: at["pid"] for at in job.starts(epoch=epoch)}
    lost.send(signal.SIGSTOP)
    wait_until(lambda: s.events("worker_missing"), what="its place to be empty")
    assert "  1 of 2 workers\n" in ctl("status").stdout
    assert "(node_lost): 1 of 2 workers" in ctl("events", "default").stdout
    job.wait_step()
    wait_until(lambda: not is_alive(pids["worker-0"]), deadline=60, what="its fence")
    job.wait_step(lambda s: s["used"] == [1])
    lost.send(signal.SIGKILL)
    assert all(is_alive(pid) for place, pid in pids.items() if place != "worker-0")
    steps = [step["step"] for step in job.steps()]
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    assert [e["epoch"] for e in s.events("epoch")] == [epoch]
    job.agents.append(job.start())  # the next machine joins at a checkpoint, as in a growth
    job.wait_starts(places, above=epoch)


def test_with_min_running_an_epoch_ends_with_too_few_workers(server, fleet, status):  # noqa: F811
    s = server(*CALM)
    wrong = fleet.start("--nnodes=2:2", "--ps=1", "--min-running=3", command=[SERVED, str(fleet.folder)])
    assert wrong.wait() == 2
    assert "--min-running 3: exceeds the minimum of 2 workers (--nnodes)" in wrong.stderr()
    job = Job(fleet, status, 4, "--nnodes=2:2", "--ps=1", "--chief", "--min-running=2")
    epoch = job.wait_starts(("chief-0", "worker-0", "worker-1", "ps-0"))
    job.wait_begun(epoch)
    job.agent_of("worker-0").send(signal.SIGKILL)
    wait_until(lambda: status()[0]["state"] == "waiting", what="the epoch's end")
    assert not s.events("worker_missing")


def test_a_worker_that_has_to_go_leaves_its_place_empty_and_nobody_else_notices(server, fleet, status, ctl):  # noqa: F811
    s = server(*CALM)
    job = Job(fleet, status, 3, "--nnodes=1:2", "--ps=1", "--chief")
    leaver = job.start("--role=worker")
    job.agents.append(leaver)
    places = ("chief-0", "worker-0", "worker-1", "ps-0")
    epoch = job.wait_starts(places)
    job.wait_begun(epoch)
    place = next(place for place, node in job.places().items() if node["pid"] == leaver.pid)
    stays = [i for i in (0, 1) if place != f"worker-{i}"]
    pids = {at["place"]: at["pid"] for at in job.starts(epoch=epoch)}
    assert ctl("drain", job.places()[place]["node"]).returncode == 0
    assert leaver.wait() == 0
    job.wait_step(lambda step: step["used"] == stays)
    wait_until(lambda: not is_alive(pids[place]), what="the end of what the machine ran")
    for _ in range(2):
        job.wait_step(lambda step: step["used"] == stays)
    assert [n for n in job.nodes() if n["pid"] == leaver.pid] == []
    assert all(is_alive(pid) for at, pid in pids.items() if at != place)
    job.order("chief-0", "exit 0")
    assert [agent.wait() for agent in job.agents] == [0] * 4
    assert [e["epoch"] for e in s.events("epoch")] == [epoch]
    assert {at["place"]: at["pid"] for at in job.starts()} == pids, "somebody was started again"


def test_a_chief_that_is_told_to_stop_has_its_servers_until_it_has_ended(server, fleet, status, ctl):  # noqa: F811
    """The node that leaves runs a ps or the chief itself."""
    server(*CALM)
    (fleet.folder / "listens").touch()
    places = ("chief-0", "worker-0", "ps-0")
    job = Job(fleet, status, 5, "--nnodes=1:1", "--ps=1", "--chief")
    epoch = job.wait_starts(places)
    for turn, place in enumerate(("ps-0", "chief-0")):
        job.wait_step(lambda s: s["epoch"] == epoch)  # noqa: B023
        assert ctl("drain", job.places()[place]["node"]).returncode == 0
        stopped = wait_until(lambda: fleet.lines("stopped")[turn:], what="the chief's end")[0]  # noqa: B023
        assert (stopped["epoch"], stopped["served"], stopped["used"]) == (epoch, [True], [True])
        epoch = job.wait_starts(places, above=epoch)
        assert job.wait_step(lambda s: s["epoch"] == epoch)["step"] > stopped["step"]  # noqa: B023
    job.order("chief-0", "exit 0")
    assert [agent.wait() for agent in job.agents] == [0] * 5


@pytest.mark.heavy
def test_a_script_that_knows_no_ps_is_told_so_by_its_servers(server, fleet, status):  # noqa: F811
    server(*CALM)
    (fleet.folder / "idle").touch()
    job = Job(fleet, status, 3, "--nnodes=1:1", "--ps=1", "--chief", "--start-timeout=1", "--max-restarts=0")
    assert [agent.wait() for agent in job.agents] == [1] * 3
    for agent in job.agents:
        told = agent.stderr().rpartition("tfe-agent: job default failed: ")[2]
        assert "not started up" in told
        assert "no chief connected within --start-timeout: the chief's script does not create a ParameterServerStrategy" in told


def test_a_second_chief_is_told_what_becomes_of_it(server, fleet, status):  # noqa: F811
    server(*CALM)
    job = Job(fleet, status, 0, "--nnodes=1:1", "--ps=1", "--chief")
    for number in (1, 2):
        job.agents.append(job.start("--role=chief", f"--node-name=n{number}"))
        wait_until(lambda: status() and len(job.nodes()) == number, what="its node")  # noqa: B023
    wait_until(lambda: "--role chief: job default has 1 replicas of this role and 2 nodes pinned to it, including n1" in job.agents[1].stderr(),
               what="the sentence")
    job.agents += [job.start(), job.start()]
    job.wait_starts(("chief-0", "worker-0", "ps-0"))
    assert job.places()["chief-0"]["name"] == "n1"
    wait_until(lambda: "spare: the job has its 1 chief" in job.agents[1].stderr(), what="what it waits for")
    job.agent_of("chief-0").send(signal.SIGKILL)
    wait_until(lambda: job.places().get("chief-0", {}).get("name") == "n2", what="the second one in its place")


def test_another_number_of_ps_takes_a_script_whose_checkpoints_fit(server, fleet, status, ctl):  # noqa: F811
    server(*CALM)
    job = Job(fleet, status, 4, "--nnodes=1:2", "--ps=1", "--chief")
    epoch = job.wait_starts(("chief-0", "worker-0", "worker-1", "ps-0"))
    job.wait_step()
    refused = ctl("scale", "--ps=2", "default", "1:2")
    assert refused.returncode != 0 and "has not created a partitioner" in refused.stderr
    (fleet.folder / "partitioned").touch()
    job.order("chief-0", "kill 9")
    epoch = job.wait_starts(("chief-0", "ps-0"), above=epoch)
    job.wait_step(lambda s: s["epoch"] == epoch)
    assert "too few connected nodes can be ps" in ctl("scale", "--ps=3", "default", "1:2").stderr
    for n_ps, places in ((2, ("chief-0", "worker-0", "ps-0", "ps-1")), (1, ("chief-0", "worker-0", "worker-1", "ps-0"))):
        wait_until(lambda: ctl("scale", f"--ps={n_ps}", "default", "1:2").returncode == 0, what="an order that is taken")  # noqa: B023
        epoch = job.wait_starts(places, above=epoch)
        step = job.wait_step(lambda s: s["epoch"] == epoch)  # noqa: B023
        assert step["step"] >= max(s["step"] for s in job.steps() if s["epoch"] < epoch)
        assert len(job.starts("chief-0", epoch)[0]["cluster"]["ps"]) == n_ps
    job.order("chief-0", "exit 0")
    assert [agent.wait() for agent in job.agents] == [0] * 4


def test_an_evaluator_stands_outside_and_starts_again_alone(server, fleet, status):  # noqa: F811
    server(*CALM, "--exit-grace", "3")
    job = Job(fleet, status, 4, "--nnodes=1:1", "--ps=1", "--chief", "--evaluator")
    epoch = job.wait_starts(("chief-0", "worker-0", "ps-0"))
    first = wait_until(lambda: job.starts("evaluator-0"), what="an evaluator")[0]
    assert first["task"] == {"type": "evaluator", "index": 0}
    assert list(first["cluster"]) == ["evaluator"] and len(first["cluster"]["evaluator"]) == 1
    assert json.loads(first["env"]["TFE_CLUSTER"]) == job.starts("chief-0")[0]["cluster"]
    assert first["env"]["TFE_RANK"] == first["env"]["TFE_WORLD_SIZE"] == "3"
    job.order("evaluator-0", "kill 9")
    again = wait_until(lambda: job.starts("evaluator-0")[1:], what="another start")[0]
    assert again["cluster"] == first["cluster"]  # clients find it at the same address
    job.order("ps-0", "kill 9")
    epoch = job.wait_starts(("chief-0", "worker-0", "ps-0"), above=epoch)
    job.wait_step(lambda s: s["epoch"] == epoch)
    assert is_alive(again["pid"]) and len(job.starts("evaluator-0")) == 2
    assert job.places()["evaluator-0"]["state"] == "member"
    job.order("chief-0", "exit 0")
    assert [agent.wait() for agent in job.agents] == [0] * 4


def test_a_server_that_is_killed_and_started_again_restarts_nobody(server, fleet, status, state_dir):  # noqa: F811
    s = server(*CALM)
    places = ("chief-0", "worker-0", "worker-1", "ps-0")
    job = Job(fleet, status, 5, "--nnodes=1:2", "--ps=1", "--chief", "--evaluator", "--max-restarts=10")
    epoch = job.wait_starts(places)
    wait_until(lambda: job.starts("evaluator-0"), what="an evaluator")
    job.order("worker-1", "kill 9")
    wait_until(lambda: job.starts("worker-1")[1:], what="another start")
    job.wait_step(lambda s: s["used"] == [0, 1])
    s.kill()
    server(*CALM, port=s.port)
    wait_until(lambda: set(job.places()) == {*places, "evaluator-0"} and all(n["trainer_pids"] for n in job.nodes()),
               what="all of them")
    job.order("worker-1", "kill 9")  # its number exceeds that of the server before
    again = wait_until(lambda: job.starts("worker-1")[2:], what="another start")[0]
    assert again["epoch"] == epoch
    job.wait_step(lambda s: s["used"] == [0, 1])
    assert [len(job.starts(p)) for p in ("chief-0", "worker-0", "ps-0", "evaluator-0")] == [1, 1, 1, 1]
