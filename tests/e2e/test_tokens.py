"""Tokens: creation, listing, revocation and rotation, and what each is valid for; with the real programs."""

import json
import subprocess
import time

import pytest

from agents import fleet  # noqa: F401 (a fixture)
from conftest import on_disk, wait_until
from programs import clean_environment, program
from raw_client import NO_SUCH_JOB, NO_SUCH_NODE, NOT_AUTHORISED, Closed, RawClient, Token, node_id

# Scripted nodes do not renew: the lease outlasts the test.
QUICK = ("--ttl", "60", "--gather", "0.2")


@pytest.fixture
def keys(ctl):
    """Returns the keys of `tfe-ctl token list --json`."""

    def ask():
        done = ctl("token", "list", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["keys"]

    return ask


def key_of(text):
    return Token(text).key_id.hex()


def opens(server, text):
    try:
        with RawClient(server.port, text):
            return True
    except Closed as closed:
        assert closed.args[0] == b""  # the server gives no reason
        return False


# --- creation and listing ----------------------------------------------------------------------------------


def test_a_token_that_was_made_opens_and_is_listed_without_its_secret(server, ctl, token, keys):
    s = server(*QUICK)
    text = token("--label", "night-shift", "--ttl", "1h")
    assert text.startswith("tfe1_agent_") and opens(s, text)
    row = next(k for k in keys() if k["key"] == key_of(text))
    assert row["label"] == "night-shift" and row["token_role"] == "agent" and row["jobs"] == "*" and row["state"] == "good"
    assert abs(row["expires_ms"] / 1000 - time.time() - 3600) < 60
    assert {k["label"] for k in keys()} == {"night-shift", "state-directory"}
    said = ctl("token", "list").stdout
    assert "night-shift" in said and text[-40:] not in said and Token(text).secret.hex() not in said


def test_the_first_tokens_never_expire_and_survive_a_restart(server, keys):
    s = server(*QUICK)
    old = s.token("agent")
    assert all(k["expires_ms"] is None and k["state"] == "good" for k in keys())
    s.stop()
    s = server(*QUICK)
    assert s.token("agent") == old and opens(s, old) and len(keys()) == 3


def test_a_token_is_good_after_a_restart_and_not_once_its_row_is_lost(server, token, state_dir):
    s = server(*QUICK)
    text = token("--job", "team-a-*", "--ttl", "0")
    s.kill()
    s = server(*QUICK)
    with RawClient(s.port, text) as client:
        assert client.join("n", job="team-b")[0] == "REFUSED"
    s.stop()
    for path in state_dir.glob("rdzv.db*"):
        path.unlink()
    assert not opens(server(*QUICK), text)  # otherwise it would be valid for every job now


@pytest.mark.parametrize("options, status", [
    (["--role", "king"], 2), (["--job", "a/b"], 2), (["--uses", "101"], 2), (["--ttl", "31d"], 2), (["--label", "x" * 65], 2),
    (["--role", "admin", "--uses", "1"], 2), (["operand"], 2)])
def test_what_makes_no_sense_makes_no_token(server, ctl, keys, options, status):
    server(*QUICK)
    done = ctl("token", "create", *options)
    assert done.returncode == status and done.stdout == "" and done.stderr
    assert len(keys()) == 3


def test_tokens_are_an_admins_business(server, ctl, state_dir):
    s = server(*QUICK)
    for verb in (["create"], ["list"], ["revoke", "x"], ["rotate"]):
        done = ctl("token", *verb, "--token-file", str(state_dir / "observer.token"))
        assert (done.returncode, done.stdout) == (77, "")
    for role in ("observer", "agent"):
        with RawClient(s.port, s.token(role)) as client:
            for number, fields in ((80, {1: 3, 2: "*"}), (82, {}), (84, {1: "x"}), (85, {1: 1})):
                client.send_number(number, fields)
                said, refused = client.receive()
                assert (said, refused[1]) == ("REFUSED", [NOT_AUTHORISED])


# --- scopes --------------------------------------------------------------------------------------------


def test_observer_and_admin_of_some_jobs_see_and_order_only_those(server, token, ctl):
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        a.join("node-a", job="team-a-1", nodes=(2, 2))
        b.join("node-b", job="team-b-1", nodes=(2, 2))
        for role in ("observer", "admin"):
            scoped = ("--token", token("--role", role, "--job", "team-a-*"))
            seen = json.loads(ctl("status", "--json", *scoped).stdout)["jobs"]
            assert [job["job"] for job in seen] == ["team-a-1"]
            assert [n["node"] for n in json.loads(ctl("nodes", "--json", *scoped).stdout)["nodes"]] == [node_id("node-a")]
            if role == "admin":  # regression: it saw every agent's address, key and label
                assert [a["job"] for a in json.loads(ctl("agents", "--json", *scoped).stdout)["agents"]] == ["team-a-1"]
            for verb in (["status", "team-b-1"], ["epochs", "team-b-1"], ["cancel", "team-b-1"], ["token", "list"],
                         ["backup", "never"], ["forget", "team-b-1"]):
                assert ctl(*verb, *scoped).returncode == 77, verb
        for order in ("drain", "evict"):
            done = ctl(order, node_id("node-b"), *scoped)  # needs an admin token
            assert done.returncode == 1 and "there is no node" in done.stderr
        assert ctl("evict", node_id("node-a"), *scoped).returncode == 0
        assert len(json.loads(ctl("nodes", "--json").stdout)["nodes"]) == 1
    assert NO_SUCH_JOB != NO_SUCH_NODE


# --- limits of uses and time ---------------------------------------------------------------------------


def test_a_token_of_one_use_is_for_one_node_over_all_its_connections(server, token, keys):
    s = server(*QUICK)
    text = token("--uses", "1")
    with RawClient(s.port, text) as one:
        assert one.join("n1", nodes=(2, 2))[0] == "WELCOME"
    with RawClient(s.port, text) as two:
        said, refused = two.join("n2", nodes=(2, 2))
        assert (said, refused[1]) == ("REFUSED", [NOT_AUTHORISED])
    # The use is stored after the WELCOME.
    wait_until(lambda: on_disk(s.state_dir, f"SELECT used_by FROM keys WHERE key='{key_of(text)}'") == [node_id("n1")],
               what="the use on the disk")
    s.kill()
    s = server(*QUICK)
    with RawClient(s.port, text) as two:
        assert two.join("n2", nodes=(2, 2))[0] == "REFUSED"
    with RawClient(s.port, text) as one:
        assert one.join("n1", nodes=(2, 2))[0] == "WELCOME"
    row = next(k for k in keys() if k["key"] == key_of(text))
    assert (row["used_by"], row["state"]) == (node_id("n1"), "used up")


def test_a_session_ends_with_its_token(server, token, keys):
    """Regression: a session outlived its token's expiry."""
    s = server(*QUICK)
    text = token("--ttl", "2s")
    with RawClient(s.port, text) as client:
        assert client.join("n", nodes=(2, 2))[0] == "WELCOME"
        refused = client.receive_until("REFUSED")[1]
        assert refused[1] == [NOT_AUTHORISED] and b"expired" in refused[2][0]
        assert client.is_closed()
    assert not opens(s, text)
    assert next(k for k in keys() if k["key"] == key_of(text))["state"] == "expired"


# --- revocation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_label", [True, False])
def test_a_revoked_token_ends_its_sessions_at_once_and_for_good(server, fleet, token, ctl, by_label):
    s = server(*QUICK)
    text, other = token("--label", "lost-laptop"), token("--label", "kept")
    agent = fleet.start("--nnodes=1:1", "--token", text)
    fleet.wait_world(1)
    with RawClient(s.port, other) as stays:
        stays.join("stays", job="other", nodes=(2, 2))
        done = ctl("token", "revoke", "lost-laptop" if by_label else key_of(text))
        assert done.returncode == 0, done.stderr
        assert agent.wait() == 77 and "revoked" in agent.stderr()
        stays.send("RENEW", {1: 1})
        assert stays.receive_until("RENEWED")
    assert not opens(s, text)
    s.kill()
    s = server(*QUICK)
    assert not opens(s, text) and opens(s, other)


@pytest.mark.parametrize("stays", [True, False], ids=["waits", "goes"])
def test_an_admin_that_revokes_itself_is_out_and_it_counts(server, ctl, token, stays):
    """Its order is in progress while its session ends."""
    s = server(*QUICK)
    text = token("--role", "admin", "--label", "self")
    with RawClient(s.port, text) as admin:
        admin.send_number(84, {1: "self"})  # TOKEN_REVOKE
        if stays:
            assert admin.receive_until("REFUSED", "DONE")[1][1] == [NOT_AUTHORISED]
            assert admin.is_closed()
    wait_until(lambda: not opens(s, text), what="it is out")

    def ends():
        return [r["result"] for r in json.loads(ctl("audit", "--json").stdout)["audit"] if r["what"] == "TOKEN_REVOKE"]

    wait_until(lambda: ends() == ["unanswered"], what="the order in the audit")
    s.stop()
    s = server(*QUICK)
    assert not opens(s, text)


def test_what_is_not_there_or_not_one_is_not_revoked(server, ctl, token, keys):
    server(*QUICK)
    token("--label", "twin"), token("--label", "twin")
    assert ctl("token", "revoke", "nobody").returncode == 1
    done = ctl("token", "revoke", "twin")
    assert done.returncode == 2 and "several" in done.stderr
    assert all(k["state"] == "good" for k in keys())


def test_a_token_of_an_old_state_directory_can_be_revoked_by_its_id(server, ctl, state_dir):
    s = server(*QUICK)
    old = s.token("agent")
    (state_dir / "agent.token").unlink()
    s.stop()
    s = server(*QUICK)
    assert s.token("agent") != old and opens(s, old)
    assert ctl("token", "revoke", key_of(old)).returncode == 0
    assert not opens(s, old) and opens(s, s.token("agent"))


# --- rotation ------------------------------------------------------------------------------------------


def test_nothing_that_runs_notices_a_rotation(server, fleet, ctl, keys):
    s = server(*QUICK)
    old = s.token("agent")
    agent = fleet.start("--nnodes=1:2")
    first = fleet.wait_world(1)
    assert ctl("token", "rotate").returncode == 0
    new = s.token("agent")
    assert new != old and opens(s, new) and opens(s, old)
    assert {k["generation"] for k in keys()} == {0, 1}
    s.stop()
    s = server(*QUICK, port=s.port)
    assert s.token("agent") == new and opens(s, new) and opens(s, old)  # day 2
    wait_until(lambda: "node_back" in [e["event"] for e in s.events()], what="the agent is back")
    assert fleet.last_epoch() == first
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_the_ring_is_installed_used_and_removed(server, ctl, keys, token):
    s = server(*QUICK)
    old = s.token("admin")
    assert ctl("token", "rotate", "--use").returncode == 2  # no newer root exists
    assert ctl("token", "rotate", "--remove").returncode == 2  # no older root exists
    assert ctl("token", "rotate", "--install").returncode == 0
    assert s.token("admin") == old and key_of(token())[2:4] == "00"
    assert ctl("token", "rotate", "--use").returncode == 0
    new = s.token("admin")
    assert new != old and key_of(token())[2:4] == "01"
    with RawClient(s.port, old) as lives:
        assert ctl("token", "rotate", "--remove").returncode == 0
        lives.send("STATUS")
        refused = lives.receive_until("REFUSED")[1]
        assert refused[1] == [NOT_AUTHORISED] and b"root" in refused[2][0]
    assert not opens(s, old) and opens(s, new)
    assert {k["state"] for k in keys() if k["generation"] == 0} == {"root removed"}
    s.stop()
    s = server(*QUICK)
    assert not opens(s, old) and opens(s, new)
    for _ in range(3):
        assert ctl("token", "rotate").returncode == 0
    done = ctl("token", "rotate")
    assert done.returncode == 2 and "remove the old roots first" in done.stderr


def test_a_ring_that_is_gone_or_anothers_is_not_turned(server, ctl, state_dir):
    """Regression: a rotation made a new key then: no token issued by the server was valid any more."""
    s = server(*QUICK)
    path = state_dir / "server.key"
    key, token = path.read_bytes(), s.token("agent")
    path.unlink()
    assert ctl("token", "rotate").returncode == 1
    assert not path.exists() and s.token("agent") == token and opens(s, token)
    other = state_dir.parent / "other"
    other_server = server(*QUICK, state_dir=other)
    other_server.stop()
    path.write_bytes((other / "server.key").read_bytes())
    path.chmod(0o600)
    done = ctl("token", "rotate")
    assert done.returncode == 2 and "differs from the key that this server uses" in done.stderr
    assert s.token("agent") == token and opens(s, token)
    path.write_bytes(key)
    assert ctl("token", "rotate").returncode == 0
    assert s.token("agent") != token and opens(s, token) and opens(s, s.token("agent"))


def test_tokens_of_a_root_that_is_removed_are_replaced_wherever_they_came_from(server, ctl, state_dir):
    """A server killed between writing its key and its token files leaves such tokens; removing their root locked admins
    out."""
    s = server(*QUICK)
    old = (state_dir / "admin.token").read_bytes()
    assert ctl("token", "rotate").returncode == 0
    new, admin = s.token("agent"), s.token("admin")
    (state_dir / "admin.token").write_bytes(old)
    assert ctl("token", "rotate", "--remove", "--token", admin).returncode == 0
    assert ctl("token", "list").returncode == 0
    assert s.token("agent") == new and opens(s, new)


@pytest.mark.parametrize("allowed", [False, True])
def test_observers_see_no_secret_of_a_job(server, ctl, state_dir, allowed):
    server(*QUICK, *["--observers-see-arguments"] * allowed)
    commit = "0123456789" * 4
    done = ctl("submit", "--name=job", f"--git=https://deploy:s3cr3t-git@git.example/org/repo.git@{commit}",
               "--env=API_KEY=s3cr3t-env", "--", "python", "train.py", "--password", "s3cr3t-arg")
    assert done.returncode == 0, done.stderr
    for role in ("observer", "admin"):
        token = ("--token-file", str(state_dir / f"{role}.token"))
        for ask in (("jobs",), ("describe", "job"), ("events",), ("status", "--all")):
            for form in ((), ("--json",)):
                told = ctl(*ask, *form, *token).stdout
                assert "s3cr3t-git" not in told and "s3cr3t-env" not in told, told
                assert allowed or role == "admin" or "s3cr3t-arg" not in told, told
        told = ctl("describe", "job", *token).stdout
        assert f"https://***@git.example/org/repo.git, ref={commit}" in told
        sees_all = allowed or role == "admin"
        assert ("python train.py --password s3cr3t-arg" if sees_all else "python train.py …") in told


def test_a_damaged_ring_stops_the_server_and_is_left_alone(server, ctl, state_dir):
    s = server(*QUICK)
    assert ctl("token", "rotate").returncode == 0
    s.stop()
    path = state_dir / "server.key"
    whole = path.read_bytes()
    for at in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        broken = path.read_bytes()
        done = subprocess.run([program("tfe-rdzv"), "--port", "0", "--state-dir", str(state_dir)], capture_output=True,
                              text=True, timeout=60, env=clean_environment())
        assert done.returncode == 1 and path.read_bytes() == broken, at
    path.write_bytes(whole)
    server(*QUICK)
