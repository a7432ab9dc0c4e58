"""The audit: who ordered what, which orders were rejected, the hash chain, and that records are only appended."""

import json
import sqlite3

import pytest

from conftest import wait_until
from raw_client import RawClient, Token, node_id

QUICK = ("--ttl", "60", "--gather", "0.2")  # no lease is renewed here, and a dozen orders take time


@pytest.fixture
def audit(ctl):
    def ask():
        done = ctl("audit", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["audit"]

    return ask


def test_every_order_is_written_down_with_who_where_what_and_result(server, ctl, audit):
    s = server(*QUICK)
    admin = ctl("token", "create", "--role", "admin", "--label", "anna").stdout.strip()
    anna = ("--token", admin)
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        a.join("n", job="j", nodes=(3, 3))
        b.join("stays", job="j", nodes=(3, 3))
        for order in (["drain", "nobody"], ["evict", node_id("n")], ["unban", node_id("n")], ["unban", "nobody"],
                      ["cancel", "j"], ["cancel", "k"], ["forget", "k"], ["scale", "j", "1:2"], ["backup", "copy"], ["token", "revoke", "nobody"],
                      ["token", "rotate", "--install"], ["token", "create", "--job", "a-*", "--label", "x"]):
            ctl(*order, *anna)

    def orders():
        return [r for r in audit() if r["what"] != "refused"]
    wait_until(lambda: len(orders()) >= 13, what="the rows")
    rows = orders()
    assert [(r["what"], r["about"], r["result"]) for r in rows] == [
        ("TOKEN_CREATE", 'admin for *, label "anna"', "done"), ("DRAIN", "nobody", "no_such_node"),
        ("EVICT", node_id("n"), "done"), ("UNBAN", node_id("n"), "done"), ("UNBAN", "nobody", "no_such_node"),
        ("CANCEL", "j", "done"), ("CANCEL", "k", "no_such_job"), ("FORGET", "k", "no_such_job"),
        ("SCALE", "j to 1:2", "conflict"), ("BACKUP", "copy", "done"),
        ("TOKEN_REVOKE", "nobody", "no_such_key"), ("TOKEN_ROTATE", "install", "done"),
        ("TOKEN_CREATE", 'agent for a-*, label "x"', "done")]
    assert {(r["key"], r["label"]) for r in rows[1:]} == {(Token(admin).key_id.hex(), "anna")}
    assert rows[0]["label"] == "state-directory" and all(r["from"].startswith("127.0.0.1:") for r in rows)
    assert [r["number"] for r in audit()] == list(range(1, len(audit()) + 1))
    assert not any(Token(admin).secret.hex() in json.dumps(r) or admin in json.dumps(r) for r in audit())


def test_who_is_turned_away_is_written_down(server, ctl, audit):
    s = server(*QUICK)
    with RawClient(s.port, s.token("observer")) as c:
        c.send("CANCEL", {1: "j"})
        assert c.receive()[0] == "REFUSED"
    one = ctl("token", "create", "--uses", "1").stdout.strip()
    with RawClient(s.port, one) as a:
        a.join("n", nodes=(2, 2))
    assert ctl("token", "revoke", Token(one).key_id.hex()).returncode == 0
    with pytest.raises(Exception):
        RawClient(s.port, one)
    wait_until(lambda: any(r["result"] == "unauthorised" for r in audit()), what="the stranger")
    assert [(r["what"], r["result"]) for r in audit()] == [
        ("refused", "not_authorised"), ("TOKEN_CREATE", "done"), ("JOIN", "token_used"), ("TOKEN_REVOKE", "done"),
        ("refused", "unauthorised")]
    assert audit()[2]["about"] == node_id("n") and audit()[4]["key"] == ""


def test_the_chain_holds_over_restarts_and_shows_every_change(server, ctl, audit, state_dir):
    s = server(*QUICK)
    for i in range(3):
        ctl("cancel", f"job-{i}")
    s.stop()
    s = server(*QUICK)
    for i in range(250):  # more than a page
        with RawClient(s.port, s.token("admin")) as c:
            c.send("CANCEL", {1: f"job-{i}"})
            c.receive()
    n = wait_until(lambda: [r["what"] for r in audit()].count("CANCEL") == 253 and len(audit()), what="the rows")
    done = ctl("audit", "--verify")
    assert (done.returncode, done.stdout) == (0, f"{n} rows, hash chain intact up to {audit()[-1]['hash']}\n")
    s.stop()
    sqlite3.connect(state_dir / "rdzv.db").execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()  # all in one file
    whole = (state_dir / "rdzv.db").read_bytes()
    for change in ("UPDATE audit SET result = 'done' WHERE number = 17", "DELETE FROM audit WHERE number = 17",
                   "UPDATE audit SET about = 'job-9' WHERE number = 1", "DELETE FROM audit WHERE number = 1"):
        (state_dir / "rdzv.db").write_bytes(whole)
        db = sqlite3.connect(state_dir / "rdzv.db")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(change)
        for trigger in ("audit_changes", "audit_shrinks"):
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute(change)
        db.commit()
        db.close()
        s = server(*QUICK)
        done = ctl("audit", "--verify")
        assert done.returncode == 1 and f"row {17 if '17' in change else 1} does not follow" in done.stderr
        s.stop()


def test_the_audit_is_an_admins_of_all_jobs(server, ctl, state_dir):
    server(*QUICK)
    assert ctl("audit", "--token-file", str(state_dir / "observer.token")).returncode == 77
    scoped = ctl("token", "create", "--role", "admin", "--job", "a-*").stdout.strip()
    assert ctl("audit", "--token", scoped).returncode == 77
    assert ctl("audit").stdout.splitlines()[0].split()[:3] == ["NUMBER", "AT", "KEY"]
