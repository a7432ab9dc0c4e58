"""Identity: what a member, an observer or a former member can do with what it knows about others."""

import json
import time


from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from raw_client import EVICTED, RawClient, Token, node_id

# Scripted nodes do not renew: the lease outlasts the test.
QUICK = ("--ttl", "60", "--gather", "0.2")


# --- node ids ------------------------------------------------------------------------------------------


def test_who_has_the_secret_is_the_node_on_every_connection(server, nodes):
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as one, RawClient(s.port, s.token("agent")) as two:
        assert one.join("n", nodes=(2, 2))[0] == "WELCOME"
        assert two.join("n", nodes=(2, 2))[0] == "WELCOME"
        assert one.receive_until("REFUSED")[1][2][0].startswith(b"this node has joined")
        wait_until(lambda: len(nodes()) == 1, what="one node")


# --- eviction ------------------------------------------------------------------------------------------


def test_an_evicted_agent_that_is_started_again_is_kept_out_also_by_the_next_server(server, fleet, nodes, ctl):
    """Regression: the ban was in memory and for an id that a restarted agent no longer has."""
    short = ("--ttl", "3", "--gather", "0.2")  # an evicted node is listed until its lease expires
    s = server(*short)
    agent = fleet.start("--nnodes=1:2", "--node-name", "bad")
    fleet.wait_world(1)
    (node,) = nodes()
    assert ctl("evict", node["node"], "--for", "10m").returncode == 0
    assert agent.wait() == 1
    again = fleet.start("--nnodes=1:2", "--node-name", "bad")
    assert again.wait() == 1 and "evicted" in again.stderr()
    (ban,) = json.loads(ctl("bans", "--json").stdout)["bans"]
    assert (ban["node"], ban["name"], ban["job"]) == (node["node"], "bad", "default")
    assert abs(ban["until_ms"] / 1000 - time.time() - 600) < 60
    s.stop()
    s = server(*short)
    again = fleet.start("--nnodes=1:2", "--node-name", "bad")
    assert again.wait() == 1 and "evicted" in again.stderr()
    good = fleet.start("--nnodes=1:2", "--node-name", "good")  # the same token, the same machine
    wait_until(lambda: [n["name"] for n in nodes()] == ["good"], what="the other one is in")
    assert ctl("unban", "bad").stdout == "node bad may join again\n"
    assert ctl("bans").stdout == "no node is denied\n"
    again = fleet.start("--nnodes=1:2", "--node-name", "bad")
    wait_until(lambda: sorted(n["name"] for n in nodes()) == ["bad", "good"], what="it is in again")
    assert ctl("unban", "bad").returncode == 1
    assert ctl("cancel", "default").returncode == 0
    assert (good.wait(), again.wait()) == (1, 1)


def test_an_evicted_node_does_not_come_back_by_way_of_another_job(server, ctl):
    """Regression: a member of any job counted as admitted."""
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as a:
        assert a.join("n", job="j", nodes=(2, 2), f3="box")[0] == "WELCOME"
        assert ctl("evict", node_id("n")).returncode == 0
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        assert a.join("n2", job="elsewhere", nodes=(2, 2), f3="box")[0] == "WELCOME"
        said, refused = b.join("n2", job="j", nodes=(2, 2), f3="box")
        assert (said, refused[1]) == ("REFUSED", [EVICTED])
    # A refused node does not use up a single-use token.
    one = ctl("token", "create", "--uses", "1", "--label", "one").stdout.strip()
    with RawClient(s.port, one) as a:
        assert a.join("m", job="j", nodes=(2, 2), f3="tube")[0] == "WELCOME"
        assert ctl("evict", node_id("m")).returncode == 0
    two = ctl("token", "create", "--uses", "1", "--label", "two").stdout.strip()
    with RawClient(s.port, two) as a:
        assert a.join("m", job="j", nodes=(2, 2), f3="pipe")[0] == "REFUSED"
    used = {k["label"]: k["used_by"] for k in json.loads(ctl("token", "list", "--json").stdout)["keys"]}
    assert (used["one"], used["two"]) == (node_id("m"), "")


def test_who_goes_before_it_is_evicted_takes_nobody_of_its_label_with_it(server, ctl):
    """Regression: the key of a node that was not connected matched every key."""
    s = server(*QUICK)
    own = ctl("token", "create", "--label", "own").stdout.strip()
    with RawClient(s.port, own) as a, RawClient(s.port, s.token("agent")) as b:
        assert a.join("bad", job="j", nodes=(3, 3), f3="box")[0] == "WELCOME"
        assert b.join("good", job="j", nodes=(3, 3), f3="box")[0] == "WELCOME"
        a.sock.close()
        assert ctl("evict", node_id("bad")).returncode == 0
        (ban,) = json.loads(ctl("bans", "--json").stdout)["bans"]
        assert ban["token"] == Token(own).key_id.hex()
    with RawClient(s.port, s.token("agent")) as b, RawClient(s.port, own) as a:
        assert b.join("good again", job="j", nodes=(3, 3), f3="box")[0] == "WELCOME"
        assert a.join("bad again", job="j", nodes=(3, 3), f3="box")[0] == "REFUSED"


def test_a_unbanned_process_may_come_again_and_a_ban_ends(server, ctl):
    s = server(*QUICK)

    def comes(name, label):
        with RawClient(s.port, s.token("agent")) as a:
            return a.join(name, nodes=(2, 2), f3=label)[0]

    assert comes("n", "box") == "WELCOME"
    assert ctl("evict", "box", "--for", "5s").returncode == 0
    assert comes("n", "box") == comes("n2", "box") == "REFUSED"
    wait_until(lambda: comes("n2", "box") == "WELCOME", what="the ban is over")
    assert ctl("evict", "box").returncode == 0
    assert ctl("unban", node_id("n2")).returncode == 0
    assert comes("n2", "box") == "WELCOME"
    assert ctl("evict", "box", "--for", "0").returncode == 0
    assert comes("n2", "box") == "REFUSED" and comes("n3", "box") == "WELCOME"  # only that process is banned


def test_who_shares_a_label_with_the_evicted_and_is_in_stays(server, ctl):
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        assert a.join("n1", nodes=(2, 3), f3="box")[0] == b.join("n2", nodes=(2, 3), f3="box")[0] == "WELCOME"
        assert ctl("evict", node_id("n1")).returncode == 0
        assert a.receive_until("REFUSED")[1][1] == [EVICTED]
    with RawClient(s.port, s.token("agent")) as b, RawClient(s.port, s.token("agent")) as c:
        assert b.join("n2", nodes=(2, 3), f3="box")[0] == "WELCOME"
        assert c.join("n3", nodes=(2, 3), f3="box")[0] == "REFUSED"
        scoped = ctl("token", "create", "--role", "admin", "--job", "other").stdout.strip()
        assert ctl("unban", "box", "--token", scoped).returncode == 1
        assert json.loads(ctl("bans", "--json", "--token", scoped).stdout)["bans"] == []
        assert c.is_closed()
