"""Quotas: how much of the pool the jobs of a token's pattern may use together. Nodes are independent clients here;
test_pool.py has real ones."""

import contextlib
import json

import pytest

from conftest import wait_until
from pooled import Waiting, conditions, jobs, order, pool, rows, spec


def waits(server, job):
    return {f[1][0].decode(): f.get(9, [b""])[0].decode() for _, f in rows(server, "STATUS", {70: 1})}[job]


def scale(server, job, least, most):
    return order(server, "SCALE", {1: job, 3: least, 4: most})


class Nodes(list):
    """Nodes that follow their assignments when the test says so."""

    def __init__(self, server, stack, n):
        super().__init__(stack.enter_context(Waiting(server.port, server.token("agent"), f"n{i}")) for i in range(n))
        self.server, self.told = server, set()
        self.work_for(*[""] * n)

    def work_for(self, *owners):
        """Assigns the nodes to these jobs and reports the assignments, since an unreported one needs no release."""
        wait_until(lambda: sorted(job for _, job in pool(self.server).values()) == sorted(owners), what=f"nodes of {owners}")
        for name, (state, job) in pool(self.server).items():
            if state == "assigned" and name not in self.told:
                assert self[int(name[1:])].assigned()[1] == job
                self.told.add(name)

    def free_one(self, job):
        name = wait_until(lambda: [n for n, row in pool(self.server).items() if row == ("leaving", job)], what=f"a node to leave {job}")[0]
        node = self[int(name[1:])]
        self.told.remove(name)
        node.freed(node.released())


@contextlib.contextmanager
def nodes(server, n):
    with contextlib.ExitStack() as stack:
        yield Nodes(server, stack, n)


def test_jobs_of_a_pattern_have_it_together_and_those_of_others_what_is_left(server, token):
    server = server()
    token("--role=admin", "--job=team-*", "--quota=2")
    with nodes(server, 4) as all_nodes:
        assert order(server, "SUBMIT", spec("team-a", sizes=(1, 4))) == "DONE"
        all_nodes.work_for("", "", "team-a", "team-a")
        assert order(server, "SUBMIT", spec("other", sizes=(1, 1))) == "DONE"
        assert order(server, "SUBMIT", spec("team-b", sizes=(1, 1))) == "DONE"
        all_nodes.free_one("team-a")
        all_nodes.work_for("", "other", "team-a", "team-b")
        assert order(server, "SUBMIT", spec("team-c", sizes=(2, 2), priority=600)) == "DONE"
        wait_until(lambda: conditions(server, "team-c")["Waiting"] == (True, "WaitsForQuota"), what="the reason")
        assert waits(server, "team-c") == "waiting for 2 more nodes of the quota of jobs team-*, which is 2"
        assert order(server, "CANCEL", {1: "team-a"}) == "DONE"
        assert order(server, "CANCEL", {1: "team-b"}) == "DONE"
        wait_until(lambda: conditions(server, "team-c")["Waiting"] == (True, "WaitsForNodes"), what="its share to be on its way")
        all_nodes.free_one("team-a")
        all_nodes.free_one("team-b")
        all_nodes.work_for("", "other", "team-c", "team-c")
        # The value of a newer token applies at once.
        assert scale(server, "team-c", 2, 9) == "DONE"
        token("--role=admin", "--job=team-*", "--quota=3")
        all_nodes.work_for("other", "team-c", "team-c", "team-c")


def test_a_minimum_above_it_is_refused_by_name(server, token):
    server = server()
    assert order(server, "SUBMIT", spec("team-old", sizes=(3, 3))) == "DONE"
    assert order(server, "CANCEL", {1: "team-old"}) == "DONE"
    token("--role=admin", "--job=team-*", "--quota=2")
    says = "the job needs at least 3, and the quota of jobs team-* is 2 in total"
    assert says in order(server, "SUBMIT", spec("team-a", sizes=(3, 3)))
    assert says in order(server, "SUBMIT", spec("team-a", sizes=(1, 1), ps=1, chief=True))  # counting its ps and chief
    assert says in order(server, "RERUN", {1: "team-old"})
    assert order(server, "SUBMIT", spec("team-a", sizes=(1, 9))) == "DONE"
    assert says in scale(server, "team-a", 3, 9)
    assert scale(server, "team-a", 2, 9) == "DONE"
    assert order(server, "SUBMIT", spec("teams", sizes=(3, 3))) == "DONE"


def test_a_job_that_has_its_minimum_is_not_scaled_to_wait_for_others(server, token):
    server = server()
    token("--role=admin", "--job=team-*", "--quota=4")
    with nodes(server, 4) as all_nodes:
        assert order(server, "SUBMIT", spec("team-a", sizes=(2, 2))) == "DONE"
        assert order(server, "SUBMIT", spec("team-b", sizes=(1, 2))) == "DONE"
        all_nodes.work_for("team-a", "team-a", "team-b", "team-b")
        assert "other jobs of its quota leave 3 now" in scale(server, "team-a", 4, 4)
        assert scale(server, "team-a", 3, 3) == "DONE"
        all_nodes.free_one("team-b")
        all_nodes.work_for("team-a", "team-a", "team-a", "team-b")
        token("--role=admin", "--job=team-*", "--quota=1")
        assert scale(server, "team-a", 1, 1) == "DONE"  # a reduction takes nothing from other jobs


def test_it_is_lowered_and_takes_nothing_and_outlives_its_token_and_the_server(server, token, ctl):
    first = server()
    token("--role=admin", "--job=team-*", "--quota=3", "--label=first")
    token("--role=admin", "--job=*-x", "--quota=5")
    with nodes(first, 3) as all_nodes:
        assert order(first, "SUBMIT", spec("team-a", sizes=(3, 3))) == "DONE"
        all_nodes.work_for(*["team-a"] * 3)
        assert order(first, "SUBMIT", spec("team-big", sizes=(2, 2))) == "DONE"
        wait_until(lambda: conditions(first, "team-big")["Waiting"] == (True, "WaitsForQuota"), what="its reason")
        token("--role=admin", "--job=team-*", "--quota=1", "--label=second")
        wait_until(lambda: conditions(first, "team-big")["Waiting"] == (True, "AboveQuota"), what="its other reason")
        assert waits(first, "team-big") == "waiting for a larger quota: the job's minimum exceeds the quota of jobs team-*, which is 1"
        assert order(first, "SUBMIT", spec("team-b", sizes=(1, 1))) == "DONE"
        wait_until(lambda: conditions(first, "team-b")["Waiting"] == (True, "WaitsForQuota"), what="the reason")
        all_nodes.work_for(*["team-a"] * 3)
    assert ctl("token", "revoke", "second").returncode == 0
    first.kill()
    again = server(port=first.port)
    assert "quota of jobs team-* is 1" in order(again, "SUBMIT", spec("team-c", sizes=(2, 2)))
    assert "quota of jobs *-x is 5" in order(again, "SUBMIT", spec("some-x", sizes=(6, 6)))
    assert jobs(again)["team-a"] == ("starting", 3) and jobs(again)["team-b"] == ("waiting", 0)
    assert waits(again, "team-b") == "waiting for 3 more nodes of the quota of jobs team-*, which is 1"
    told = {key["label"]: (key["quota"], key["state"]) for key in json.loads(ctl("token", "list", "--json").stdout)["keys"]}
    assert told["first"] == (3, "good") and told["second"] == (1, "revoked")
    token("--role=admin", "--job=team-*", "--quota=65536", "--label=any")
    assert order(again, "SUBMIT", spec("team-c", sizes=(2, 2))) == "DONE"
    wait_until(lambda: "quota" not in waits(again, "team-b"), what="it to wait for nodes alone")
    token("--role=observer", "--label=none")
    table = [line.split() for line in ctl("token", "list").stdout.splitlines()]
    shown = {row[3]: row[table[0].index("QUOTA")] for row in table}
    assert (shown["first"], shown["second"], shown["any"], shown["none"]) == ("3", "1", "any", "-")
    about = [row["about"] for row in json.loads(ctl("audit", "--json").stdout)["audit"]]
    assert 'admin for team-*, label "second", quota 1' in about


def test_its_condition_names_the_quota_that_it_waits_for_now(server, token):
    server = server()

    def says():
        return {f[1][0].decode(): f[5][0].decode() for row, f in rows(server, "STATUS", {1: "team-x", 70: 1, 71: 1}) if row == "CONDITION_ROW"}["Waiting"]

    assert order(server, "SUBMIT", spec("team-x", sizes=(4, 4))) == "DONE"
    for jobs_, n in (("team-*", 3), ("*-x", 2), ("*-x", 65536)):
        token("--role=admin", f"--job={jobs_}", f"--quota={n}")
        wait_until(lambda: says() == f"its minimum exceeds the quota of jobs {jobs_ if n < 4 else 'team-*'}", what="the quota's name")


@pytest.mark.parametrize("options", [("--role=agent", "--job=a-*"), ("--role=observer", "--job=a-*"), ("--role=admin",)])
def test_who_hands_in_no_jobs_or_all_has_none(server, ctl, options):
    server()
    done = ctl("token", "create", "--quota=3", *options)
    assert done.returncode == 2 and "a quota needs an admin token for some jobs" in done.stderr
    assert not [key for key in json.loads(ctl("token", "list", "--json").stdout)["keys"] if key["quota"]]
