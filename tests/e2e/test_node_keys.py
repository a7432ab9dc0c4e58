"""Node keys: issued for a token, stored, used instead of the token, and revoked; with the real programs."""

import json
import os
import signal
import stat
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from raw_client import BAD_REQUEST, LIMIT_REACHED, NOT_AUTHORISED, NodeKey, RawClient, Token, node_id

QUICK = ("--ttl", "3", "--gather", "0.2", "--fence", "10s")
ENROLLED, AGENTS, REVOKE_AGENT = "ENROLLED", 91, 93
ENROLMENTS, EACH_S = 1024, 5  # burst, then one per interval in seconds: common/base/limits.h


@pytest.fixture
def connected(ctl):
    """`tfe-ctl agents --json`."""

    def ask():
        done = ctl("agents", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["agents"]

    return ask


@pytest.fixture
def enrolled(connected, state_dir):
    """Waits until this many agents have node keys, one of which the machine has stored; returns their rows. The server
    knows a key before the agent has the response, and so before the file exists."""

    def wait(n=1):
        def look():
            rows = [row for row in connected() if row["enrolled"]]
            return rows if len(rows) == n and kept(state_dir, rows) else None

        return wait_until(look, what="keys of their own")

    return wait


def kept(state_dir, rows):
    """Returns how many of the rows' keys are in the machine's file."""
    path = state_dir / "agent.key"
    return sum(row["key"] in path.read_text() for row in rows) if path.exists() else 0


def key_of(text):
    return Token(text).key_id.hex()


def test_an_agent_gets_a_key_that_outlives_its_token_and_the_server(server, fleet, token, ctl, enrolled, connected, state_dir):
    s = server(*QUICK)
    text = token("--label", "spring-fleet", "--job", "def*")
    fleet.start("--nnodes=1:1", "--token", text, "--node-name", "h1")
    first = fleet.wait_world(1)
    row = enrolled()[0]
    assert (row["name"], row["job"], row["jobs"], row["label"]) == ("h1", "default", "def*", "spring-fleet")
    assert row["token"] == key_of(text) and row["key"] != key_of(text)
    path = state_dir / "agent.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and row["key"] in path.read_text()
    said = ctl("agents").stdout
    assert "h1" in said and path.read_text().split()[4] not in said
    assert ctl("token", "revoke", "spring-fleet").returncode == 0
    s.kill()
    s = server(*QUICK, port=s.port)
    wait_until(lambda: [r["key"] for r in connected()] == [row["key"]], what="the agent, by its key")
    assert fleet.last_epoch() == first
    assert [e for e in json.loads(ctl("audit", "--json").stdout)["audit"] if e["what"] == "ENROL"][0]["about"] == row["key"]
    fleet.order("exit 0")
    assert fleet.agents[0].wait() == 0


def test_a_token_of_one_use_is_enough_for_a_machine_that_starts_again(server, fleet, token, enrolled):
    server(*QUICK)
    text = token("--uses", "1")
    agent = fleet.start("--nnodes=1:2", "--token", text)
    first = fleet.wait_world(1)
    key = enrolled()[0]["key"]
    agent.send(signal.SIGTERM)
    agent.wait()
    fleet.start("--nnodes=1:2", "--token", text)
    fleet.wait_world(1, above=first)
    assert enrolled()[0]["key"] == key
    stranger = fleet.start("--nnodes=1:2", "--token", text, "--state-dir", str(fleet.folder / "other"),
                           env={"TFE_RDZV_ENDPOINT": endpoint(fleet)})
    assert stranger.wait() == 77


def endpoint(fleet):
    return (fleet.state_dir / "endpoint").read_text().strip()


def test_of_two_agents_of_a_machine_one_keeps_its_key_and_both_have_one(server, fleet, enrolled, state_dir):
    server(*QUICK)
    fleet.start("--nnodes=2:3", "--job=j")
    fleet.start("--nnodes=2:3", "--job=j", "--no-persist")
    fleet.start("--nnodes=2:3", "--job=j")
    rows = enrolled(3)
    assert len({row["key"] for row in rows}) == 3
    assert kept(state_dir, rows) == 1


def test_a_revoked_agent_is_out_at_once_and_its_token_is_not(server, fleet, ctl, enrolled, connected, state_dir):
    s = server(*QUICK)
    agent = fleet.start("--nnodes=1:2", "--node-name", "h1")
    fleet.wait_world(1)
    key = enrolled()[0]["key"]
    done = ctl("revoke-agent", "h1")
    assert done.returncode == 0 and done.stdout, done.stderr
    assert agent.wait() != 0
    assert connected() == []
    assert not any(n["name"] == "h1" for n in json.loads(ctl("nodes", "--json").stdout)["nodes"])
    s.kill()
    server(*QUICK, port=s.port)
    again = fleet.start("--nnodes=1:2", "--node-name", "h1")
    rows = wait_until(lambda: connected(), what="it came by its token")
    assert rows[0]["key"] != key
    assert enrolled()[0]["key"] != key
    assert "agent_key_refused" in again.stderr()


def test_who_is_evicted_stays_out_by_its_key_whatever_it_calls_itself(server, fleet, ctl, enrolled):
    server(*QUICK)
    agent = fleet.start("--nnodes=1:2", "--node-name", "h1")
    fleet.wait_world(1)
    enrolled()
    assert ctl("evict", "h1", "--for", "1h").returncode == 0
    agent.wait()
    for name in ("h1", "h2"):
        assert fleet.start("--nnodes=1:2", "--node-name", name).wait() != 0, name
    assert ctl("unban", "h1").returncode == 0
    fleet.start("--nnodes=1:2", "--node-name", "h2")
    enrolled()


def test_a_key_that_is_damaged_or_of_another_server_is_as_good_as_none(server, fleet, enrolled, state_dir):
    server(*QUICK)
    path = state_dir / "agent.key"
    path.write_text("tfe-agent-key 1\n" + " ".join(["00" * 32] * 5) + " 7\n")
    path.chmod(0o600)
    agent = fleet.start("--nnodes=1:2")
    key = enrolled()[0]["key"]
    fleet.order("exit 0")
    assert agent.wait() == 0
    path.write_text(path.read_text().replace(key, "zz"))
    agent = fleet.start("--nnodes=1:2", "--job", "second", folder=fleet.folder / "second")
    enrolled()
    wait_until(lambda: "zz" not in path.read_text(), what="a good file")
    assert "agent_key_not_read" in agent.stderr()


@pytest.mark.parametrize("name", ["agent.key", "agent.token", "endpoint"])
def test_a_pipe_in_the_place_of_a_file_holds_no_start_up(server, fleet, state_dir, name):
    """Regression: a user with write access there could block the machine's agents: each waited for data from the
    pipe."""
    s = server(*QUICK)
    token = s.token("agent")
    (state_dir / name).unlink(missing_ok=True)
    os.mkfifo(state_dir / name, 0o600)
    began = time.monotonic()
    where = ("--token", token) if name == "agent.token" else ()
    where += (f"--rdzv-endpoint=127.0.0.1:{s.port}",) if name == "endpoint" else ()
    fleet.start("--nnodes=1:1", *where)
    fleet.wait_world(1)
    assert time.monotonic() - began < 10
    (state_dir / name).unlink()


def test_a_token_may_come_out_of_a_pipe_and_is_not_waited_for_for_ever(server, fleet, tmp_path):
    s = server(*QUICK)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    agent = fleet.start("--nnodes=1:1", f"--token-file={pipe}", f"--rdzv-endpoint=127.0.0.1:{s.port}")
    pipe.write_text(s.token("agent") + "\n")
    fleet.wait_world(1)
    agent.send(signal.SIGKILL)
    agent = fleet.start("--nnodes=1:1", f"--token-file={pipe}", f"--rdzv-endpoint=127.0.0.1:{s.port}")
    assert agent.wait() != 0 and str(pipe) in agent.stderr()


def test_a_key_is_made_once_for_a_session_and_its_own_is_an_agents_business(server, ctl, token):
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as c:
        assert c.join("n", nodes=(2, 2))[0] == "WELCOME"
        c.send("ENROL", {1: "ab" * 32})
        first = c.receive_until(ENROLLED)[1]
        assert len(first[1][0]) == 32 and len(first[2][0]) == 64
        c.send("ENROL", {1: "cd" * 32})  # too early: not answered
        c.send("RENEW", {1: 1})
        assert c.receive_until("RENEWED", ENROLLED)[0] == "RENEWED"
        c.send("STATUS")
        assert c.receive_until("REFUSED")[1][1] == [NOT_AUTHORISED]
    said = [r for r in json.loads(ctl("audit", "--json").stdout)["audit"] if r["key"] == first[1][0].decode()]
    assert [(r["what"], r["label"]) for r in said] == [("refused", "state-directory")]  # the audit names the token that was used
    for role in ("observer", "admin"):
        with RawClient(s.port, s.token(role)) as c:
            c.send("ENROL", {1: "ab" * 32})
            said, refused = c.receive()
            assert (said, refused[1]) == ("REFUSED", [NOT_AUTHORISED])
    for role in ("observer", "agent"):
        with RawClient(s.port, s.token(role)) as c:
            for number, fields in ((AGENTS, {}), (REVOKE_AGENT, {1: "n"})):
                c.send_number(number, fields)
                said, refused = c.receive()
                assert (said, refused[1]) == ("REFUSED", [NOT_AUTHORISED])
    with RawClient(s.port, s.token("agent")) as c:
        c.join("n", nodes=(2, 2))
        with RawClient(s.port, s.token("admin")) as a:
            a.send_number(REVOKE_AGENT, {1: "n"})
            assert a.receive()[0] == "REFUSED"  # the member has no node key yet
        c.send("RENEW", {1: 1})
        assert c.receive_until("RENEWED")
        enrol(c)
        c.sock.close()
        wait_until(lambda: not json.loads(ctl("agents", "--json").stdout)["agents"], what="its end")
        done = ctl("revoke-agent", node_id("n"))  # the response was "done", for a key that was not even known
        assert done.returncode == 1 and "the agent is not connected" in done.stderr


def enrol(member):
    """Requests a node key as a member."""
    private = os.urandom(32)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    member.send("ENROL", {1: public.hex()})
    return NodeKey(member.server_key, member.receive_until(ENROLLED)[1], private)


def test_a_token_of_so_many_uses_brings_no_more_by_way_of_own_keys(server, token):
    """Regression: a key requested before JOIN used up nothing, and any number of nodes joined with it."""
    s = server(*QUICK)
    one = token("--uses", "1")
    with RawClient(s.port, one) as a:
        a.send("ENROL", {1: "ab" * 32})
        assert a.receive_until("REFUSED", ENROLLED)[1][1] == [BAD_REQUEST]
    with RawClient(s.port, one) as a:
        assert a.join("n1", nodes=(3, 3))[0] == "WELCOME"
        key = enrol(a)
        with RawClient(s.port, key) as b:
            said, refused = b.join("n2", nodes=(3, 3))
            assert (said, refused[1]) == ("REFUSED", [LIMIT_REACHED])
        with RawClient(s.port, key) as b:  # the same node again
            assert b.join("n1", nodes=(3, 3))[0] == "WELCOME"

    def comes_in():
        with RawClient(s.port, key) as b:
            return b.join("n2", nodes=(3, 3))[0] == "WELCOME"

    wait_until(comes_in, what="a place, once n1's connection has ended")


def test_one_address_gets_so_many_keys_and_then_has_to_wait(server, ctl, token):
    """Each key is a row of the audit, which only grows: a member could fill the disk."""
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as stays:
        stays.join("stays", nodes=(3, 3))
        got, is_enough, began = 0, False, time.monotonic()
        while not is_enough:
            with RawClient(s.port, s.token("agent")) as a:
                a.join("n", nodes=(3, 3))
                a.send("ENROL", {1: "ab" * 32})
                a.send("RENEW", {1: 1})
                is_enough = a.receive_until(ENROLLED, "RENEWED")[0] != ENROLLED
                got += not is_enough
            stays.send("RENEW", {1: 1})
            assert stays.receive_until("RENEWED")
            assert got <= ENROLMENTS + (time.monotonic() - began) / EACH_S + 1
        assert got >= ENROLMENTS
