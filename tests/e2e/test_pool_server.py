"""The server's side of the pool: assignments to nodes, and state that survives a restart. Nodes and agents are
independent clients here."""

import contextlib
import json
import os
import signal
import sqlite3
import time

import pytest

from conftest import on_disk, wait_until
from pooled import Waiting, agent_of, conditions, jobs, order, pool, rows, spec, starts
from hostile import BIDI, C1, GONE, NO_IDS, answer_to, is_plain
from raw_client import NODE_REPLACED, RawClient, decode, node_id, node_secret


def test_a_job_starts_ends_and_frees_its_node(server):
    server = server()
    with Waiting(server.port, server.token("agent"), "a") as node:
        assert order(server, "SUBMIT", spec("train", "python", "train.py", env={"A": "b\n"})) == "DONE"
        assignment, job, fields = node.assigned()
        assert job == "train"
        assert pool(server) == {"a": ("assigned", "train")}
        with agent_of(server, fields, "child") as child:
            epoch = starts(child)
            wait_until(lambda: jobs(server) == {"train": ("running", 1)}, what="the job to run")
            child.send("EXITED", {1: epoch})
            child.receive_until("FINISH")
        wait_until(lambda: jobs(server)["train"][0] == "succeeded", what="its success")
        assert node.released() == assignment
        node.freed(assignment)
        wait_until(lambda: pool(server) == {"a": ("free", "")}, what="a free node")
        held = conditions(server, "train")
        assert held["Created"] == (True, "JobCreated") and held["Running"] == (False, "JobRunning")
        assert held["Succeeded"] == (True, "JobSucceeded")
        # A rerun creates a new run, and so does a new submission with this name.
        assert order(server, "RERUN", {1: "train"}) == "DONE"
        again, _, more = node.assigned()
        assert again > assignment and more[5] != fields[5]


def test_labels_say_who_may_work_for_what(server):
    server = server()
    token = server.token("agent")
    with Waiting(server.port, token, "plain") as _, Waiting(server.port, token, "fast", ["gpu=a100", "zone=b"]) as fast:
        assert order(server, "SUBMIT", spec("train", labels={"gpu": "a100"})) == "DONE"
        assert fast.assigned()[1] == "train"
        assert order(server, "SUBMIT", spec("more", labels={"gpu": "h100"})) == "DONE"
        waits = wait_until(lambda: [f.get(9) for _, f in rows(server, "STATUS", {70: 1}) if f[1] == [b"more"]][0], what="a sentence")
        assert b"too few" in waits[0]
        assert pool(server)["plain"] == ("free", "")


def facts(node, spot):
    node.send("MACHINE_INFO", {7: "gce", 8: "us-central1-a", 10: spot})


def wait_spots(server, **expected):
    """Waits for the spot state of nodes: 1, 0, or None without information from the cloud."""
    def look():
        known = {f[2][0].decode()[6:]: decode(f[50][0]).get(10, [None])[0] if 50 in f else None for _, f in rows(server, "POOL_NODES")}
        return {name: known[name] for name in expected} == expected
    wait_until(look, what="what the cloud says")


def test_the_clouds_word_of_spot_is_a_label_where_a_node_has_none(server):
    """The report arrives after the node or with it; a node's own label takes precedence."""
    server = server()
    token = server.token("agent")
    with contextlib.ExitStack() as stack:
        labels = {"spot": (), "lasts": (), "own": ["spot=false"], "mum": ()}
        nodes = {name: stack.enter_context(Waiting(server.port, token, name, own)) for name, own in labels.items()}
        for name, is_spot in ("spot", 1), ("lasts", 0), ("own", 1):
            facts(nodes[name], is_spot)
        wait_spots(server, spot=1, lasts=0, own=1, mum=None)
        assert order(server, "SUBMIT", spec("lasting", sizes=(2, 2), labels={"spot": "false"})) == "DONE"
        assert nodes["lasts"].assigned()[1] == nodes["own"].assigned()[1] == "lasting"
        assert order(server, "SUBMIT", spec("cheap", labels={"spot": "true"})) == "DONE"
        assert nodes["spot"].assigned()[1] == "cheap"
        # A report of an earlier connection holds on the next one; a label that is gone does not.
        again = stack.enter_context(Waiting(server.port, token, "mum", ["spot=false"]))
        again.receive_until("WELCOME")
        facts(again, 1)
        wait_spots(server, mum=1)
        once_more = stack.enter_context(Waiting(server.port, token, "mum"))
        assert order(server, "SUBMIT", spec("more", labels={"spot": "true"})) == "DONE"
        assert once_more.assigned()[1] == "more"


def test_a_node_that_finds_no_place_for_the_clouds_word_works_without(server):
    server = server("--ttl", "2m")
    token = server.token("agent")
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Waiting(server.port, token, f"n{i}", [f"set={i}"])) for i in range(64)]
        for node in nodes:
            node.receive_until("WELCOME")
        facts(nodes[0], 1)
        wait_until(lambda: server.events("pool_node_spot_not_known"), what="a word of it")
        again = stack.enter_context(Waiting(server.port, token, "n0", ["set=0"]))
        assert order(server, "SUBMIT", spec("train", labels={"set": "0"})) == "DONE"
        assert again.assigned()[1] == "train"


def test_a_node_that_finds_no_place_for_its_new_labels_gets_no_work(server):
    server = server("--ttl", "2m")
    token = server.token("agent")
    with contextlib.ExitStack() as stack:
        changed, *others = [stack.enter_context(Waiting(server.port, token, f"n{i}", [f"set={i}"])) for i in range(64)]
        for node in (changed, *others):
            node.receive_until("WELCOME")
        again = stack.enter_context(Waiting(server.port, token, "n0", ["set=64"]))
        assert b"too many different label sets" in again.receive_until("REFUSED")[1][2][0]
        assert order(server, "SUBMIT", spec("train")) == "DONE"
        assert others[0].assigned()[1] == "train"


def test_a_killed_server_goes_on_with_what_it_had_told(server):
    first = server()
    port, token = first.port, first.token("agent")
    with Waiting(port, token, "a") as node, Waiting(port, token, "b"):
        assert order(first, "SUBMIT", spec("train")) == "DONE"
        assignment, _, fields = node.assigned()
        assert order(first, "SUBMIT", spec("later", sizes=(9, 9))) == "DONE"
        first.kill()
    again = server(port=port)
    assert jobs(again) == {"train": ("starting", 1), "later": ("waiting", 0)}
    with Waiting(port, token, "b") as b, Waiting(port, token, "a", assignment=assignment) as a:
        wait_until(lambda: pool(again) == {"a": ("assigned", "train"), "b": ("free", "")}, what="both to be back")
        with agent_of(again, fields, "child") as child:
            starts(child)
            wait_until(lambda: jobs(again)["train"] == ("running", 1), what="the job to run")
            assert order(again, "CANCEL", {1: "train"}) == "DONE"
            child.receive_until("FINISH")
        assert a.released() == assignment
        a.freed(assignment, 1)
        assert order(again, "SCALE", {1: "later", 3: 2, 4: 2}) == "DONE"
        assert {a.assigned()[1], b.assigned()[1]} == {"later"}
        assert conditions(again, "train")["Cancelled"] == (True, "JobCancelled")


def test_a_server_stops_with_a_node_that_is_there(server):
    server = server()
    with Waiting(server.port, server.token("agent"), "a") as node:
        node.receive_until("WELCOME")
        assert server.stop() == 0


def test_what_a_node_says_counts_above_what_the_server_knows(server):
    server = server()
    token = server.token("agent")
    with Waiting(server.port, token, "a") as node:
        assert order(server, "SUBMIT", spec("train")) == "DONE"
        first = node.assigned()[0]
    # The ASSIGN was lost with the connection: the node has no assignment and gets it again.
    with Waiting(server.port, token, "a") as node:
        second = node.assigned()[0]
        assert second > first
    # Its assignment is unknown to the server.
    with Waiting(server.port, token, "a", assignment=7) as node:
        assert node.released() == 7
        node.freed(7)
        assert node.assigned()[1] == "train"


def test_a_node_that_renews_no_more_is_nobodys(server):
    server = server("--ttl", "3s")
    token = server.token("agent")
    with Waiting(server.port, token, "mute") as mute:
        assert order(server, "SUBMIT", spec("train")) == "DONE"
        mute.assigned()
        with Waiting(server.port, token, "b") as b:
            b.receive_until("WELCOME")
            for n in range(40):
                b.send("RENEW", {1: n})
                if b.receive_until("RENEWED", "ASSIGN")[0] == "ASSIGN":
                    break
                b.sock.settimeout(0.5)
                try:
                    assert b.assigned()[1] == "train"
                    break
                except TimeoutError:
                    b.sock.settimeout(20)
            wait_until(lambda: pool(server) == {"b": ("assigned", "train")}, what="the mute node to be gone")
        assert mute.is_closed()


def test_starts_that_fail_at_once_rest_their_node_and_fail_the_job(server):
    server = server()
    with Waiting(server.port, server.token("agent"), "a") as node:
        assert order(server, "SUBMIT", spec("train", backoff_limit=1)) == "DONE"
        first = node.assigned()[0]
        began = time.monotonic()
        node.freed(first, 1, "no room")
        second = node.assigned()[0]
        assert time.monotonic() - began > 0.9
        node.freed(second, 1, "no room")
        wait_until(lambda: jobs(server)["train"][0] == "failed", what="its failure")
        assert conditions(server, "train")["Failed"] == (True, "BackoffLimitExceeded")
        wait_until(lambda: pool(server) == {"a": ("free", "")}, what="a free node")


def test_what_a_node_says_of_its_end_is_no_condition(server, state_dir):
    first = server()
    with Waiting(first.port, first.token("agent"), "a") as node:
        assert order(first, "SUBMIT", spec("train", backoff_limit=0)) == "DONE"
        node.freed(node.assigned()[0], 127, "no\nFailed 0 1 no no\nRunning 1 1 no no\n")
        wait_until(lambda: b"CannotStart" in b"".join(on_disk(state_dir, "SELECT record FROM submissions")), what="its failure")
    first.stop()
    again = server(port=first.port)
    assert jobs(again)["train"][0] == "failed"


def test_a_row_of_another_name_is_set_aside(server, state_dir):
    first = server()
    for name in ("a", "b"):
        assert order(first, "SUBMIT", spec(name)) == "DONE"
    assert first.stop() == 0
    with contextlib.closing(sqlite3.connect(state_dir / "rdzv.db")) as db, db:
        db.execute("UPDATE submissions SET job = 'other' WHERE job = 'a'")
    again = server(port=first.port)
    assert jobs(again) == {"b": ("waiting", 0)}


def test_a_job_that_is_active_for_too_long_fails(server):
    server = server()
    with Waiting(server.port, server.token("agent"), "a") as node:
        assert order(server, "SUBMIT", spec("train", active_deadline_s=1)) == "DONE"
        assignment, _, fields = node.assigned()
        with agent_of(server, fields, "child") as child:
            starts(child)
            child.receive_until("FINISH")
        wait_until(lambda: conditions(server, "train").get("Failed") == (True, "DeadlineExceeded"), what="its failure")
        assert node.released() == assignment


def test_a_job_is_forgotten_so_long_after_its_end_once_its_nodes_are_free(server, ctl):
    server = server()
    with Waiting(server.port, server.token("agent"), "a") as node:
        assert order(server, "SUBMIT", spec("train", ttl_after_finished_s=0)) == "DONE"
        assignment, _, fields = node.assigned()
        with agent_of(server, fields, "child") as child:
            child.send("EXITED", {1: starts(child)})
            child.receive_until("FINISH")
        wait_until(lambda: jobs(server) == {"train": ("succeeded", 1)}, what="its success")
        assert "pool nodes" in order(server, "FORGET", {1: "train"})
        assert node.released() == assignment
        node.freed(assignment)
        wait_until(lambda: jobs(server) == {}, what="the job to be forgotten")
        wait_until(lambda: "no job" in rows(server, "STATUS", {1: "train"}), what="the core to have forgotten it")
        assert ctl("status", "train").returncode == 1


def test_a_token_for_one_node_brings_one_to_the_pool(server, token):
    server = server()
    once = token("--role=agent", "--uses=1")
    with Waiting(server.port, once, "a") as a:
        a.receive_until("WELCOME")
        a.send("POOL", [(7, node_id("a")), (8, node_secret("a").hex())])  # the same node again
        a.receive_until("WELCOME")
        with Waiting(server.port, once, "b") as b:
            assert b"node limit is used up" in b.receive_until("WELCOME", "REFUSED")[1][2][0]
            assert b.is_closed()
        with RawClient(server.port, once) as child:  # for node a, which has no node key yet
            assert child.join("child", job="train")[0] == "WELCOME"
            with RawClient(server.port, once) as another:
                assert another.join("another", job="train")[0] == "REFUSED"
    with Waiting(server.port, once, "a") as a:
        a.receive_until("WELCOME")


@pytest.mark.parametrize(("fields", "word"), [
    ({"env": {name: "x" * 4090 for name in "ABC"}}, "12288 bytes"), ({"source": {"bundle": "abc"}}, "bundle"),
    ({"labels": {"@jobs": "team"}}, "labels: @jobs"), ({"role_labels": {"ps": {"@jobs": "team"}}}, "role_labels: ps: @jobs"),
    ({"options": {"trainer-user": "root"}}, "options: trainer-user"),
])
def test_what_cannot_be_honoured_is_refused_by_name(server, fields, word):
    server = server()
    assert word in order(server, "SUBMIT", spec("train", **fields))
    assert jobs(server) == {}


def test_who_may_hand_in_what(server, token):
    server = server()
    agents, admins = token("--role=agent", "--job=team-a-*"), token("--role=admin", "--job=team-a-*")
    assert "agent's token" in order(server, "SUBMIT", spec("train"), role="agent")
    assert "observer" in order(server, "SUBMIT", spec("train"), role="observer")
    assert order(server, "SUBMIT", spec("team-b-1")) == "DONE"
    with RawClient(server.port, admins) as ctl:
        ctl.send("SUBMIT", spec("team-b-2"))
        assert b"not for that job" in ctl.receive_until("DONE", "REFUSED")[1][2][0]
        ctl.send("SUBMIT", spec("team-a-1"))
        assert ctl.receive_until("DONE", "REFUSED")[0] == "DONE"
        for more, word in ({"priority": 501}, b"priority"), ({"preempt": True}, b"preempt"):
            ctl.send("SUBMIT", spec("team-a-2", **more))
            assert word in ctl.receive_until("DONE", "REFUSED")[1][2][0]
        ctl.send("STATUS", {70: 1})
        assert ctl.receive()[1][1] == [b"team-a-1"]
        assert ctl.receive()[0] == "STATUS_END"
    with Waiting(server.port, agents, "a") as node:
        assert node.assigned()[1] == "team-a-1"  # the other node came first, but its token does not allow this job


def test_a_name_that_is_taken(server):
    server = server()
    with RawClient(server.port, server.token("agent")) as agent:
        agent.join("n", job="train")
        assert "manually started agents" in order(server, "SUBMIT", spec("train"))
    assert order(server, "SUBMIT", spec("other")) == "DONE"
    assert "has not ended" in order(server, "SUBMIT", spec("other"))
    assert "no job" in order(server, "CANCEL", {1: "nobody"})
    assert order(server, "CANCEL", {1: "other"}) == "DONE"
    assert "has ended" in order(server, "SCALE", {1: "other", 3: 1, 4: 1})
    assert order(server, "FORGET", {1: "other"}) == "DONE"
    wait_until(lambda: jobs(server) == {}, what="it to be forgotten")


def test_what_a_job_says_steers_no_terminal(server, ctl, tmp_path):
    """Command, source and variables are under the control of the submitter."""
    server = server()
    evil = "\x1b[2J\x1b]0;x\x07" + C1.decode() + BIDI.decode()
    assert order(server, "SUBMIT", spec("j", "python", evil, source=None, env={"A": evil})) == "DONE"
    for words in (("describe", "j"), ("jobs",), ("events",), ("describe", "--json", "j"), ("jobs", "--json")):
        done = ctl(*words)
        assert done.returncode == 0 and is_plain(done.stdout.encode()), done.stdout
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"name": "k", "command": ["python", evil], "env": {"A": evil}, "source": {"path": "/srv/" + BIDI.decode()}}))
    done = ctl("submit", "--dry-run", f"--file={file}")
    assert done.returncode == 0 and is_plain(done.stdout.encode()), done.stdout
    assert json.loads(done.stdout)["command"] == ["python", evil]


def test_a_session_is_one_nodes_and_no_label_is_the_servers(server):
    server = server()
    with Waiting(server.port, server.token("agent"), "a", ["@jobs=team"]) as node:
        assert node.is_closed()
    for wrong in ({2: name, 3: "{}"} for name in NO_IDS):
        with RawClient(server.port, server.token("admin")) as admin:
            assert answer_to(admin, "SUBMIT", wrong) == GONE, wrong
    assert jobs(server) == {}
    with Waiting(server.port, server.token("agent"), "a") as node:
        node.receive_until("WELCOME")
        node.send("POOL", [(7, node_id("b")), (8, node_secret("b").hex())])
        assert b"another node" in node.receive_until("REFUSED")[1][2][0] and node.is_closed()


def test_a_newer_session_of_a_node_counts_though_the_older_ends_in_the_same_moment(server):
    server = server()
    token = server.token("agent")
    with Waiting(server.port, token, "a") as first, RawClient(server.port, token) as second, RawClient(server.port, token) as third:
        first.receive_until("WELCOME")
        me = [(7, node_id("a")), (8, node_secret("a").hex())]
        second.send("POOL", me)
        second.receive_until("WELCOME")
        assert first.receive_until("REFUSED")[1][1][0] == NODE_REPLACED and first.is_closed()
        os.kill(server.pid, signal.SIGSTOP)
        second.sock.close()
        third.send("POOL", me)
        os.kill(server.pid, signal.SIGCONT)
        third.receive_until("WELCOME")
        assert order(server, "SUBMIT", spec("train")) == "DONE"
        assert third.receive_until("ASSIGN")
