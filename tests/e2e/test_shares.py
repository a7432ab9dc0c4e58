"""No key, scope or source address can take all of the server's limited resources: sessions, uploads, rows of the audit,
events, jobs, log readers. Each test attacks with a valid token, beside a client that needs the same resource."""

import contextlib
import itertools
import json
import struct
import time

import pytest
from conftest import wait_until
from pooled import jobs, order, spec
from raw_client import LIMIT_REACHED, Closed, RawClient, Token, encode

QUICK = ("--gather=0.1",)


@pytest.fixture
def scoped(token):
    return lambda scope="team-a-*": token("--role=admin", f"--job={scope}", f"--label={scope[:6]}")


@contextlib.contextmanager
def many(server, token, n):
    """Opens as many sessions as possible in n attempts; each sends a request, so that the server has admitted or
    refused it."""
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(n):
            client = stack.enter_context(RawClient(server.port, token, timeout=20))
            client.send("STATUS")
            with contextlib.suppress(Closed):
                if client.receive_until("STATUS_END", "REFUSED")[0] == "STATUS_END":
                    held.append(client)
        yield held


def is_served(client):
    with contextlib.suppress(Closed, ConnectionError):
        client.send("STATUS")
        return client.receive_until("STATUS_END", "REFUSED")[0] == "STATUS_END"
    return False


def test_sessions_of_one_admin_of_some_jobs_lock_out_nobody(server, ctl, scoped):
    s = server(*QUICK)
    evil, other, observer = scoped(), scoped("team-b-*"), s.token("observer")
    with many(s, evil, 260) as held:
        assert len(held) == 62  # (256 - 8) / 4
        for words in (("jobs",), ("token", "list"), ("jobs", "--token", other), ("jobs", "--token", observer)):
            done = ctl(*words)
            assert done.returncode == 0, done.stderr
        assert ctl("token", "revoke", Token(evil).key_id.hex()).returncode == 0
        assert all(client.is_closed() for client in held)
    assert ctl("jobs", "--token", evil).returncode == 77


def test_keys_of_one_scope_have_one_share(server, ctl, scoped):
    s = server(*QUICK)
    evil = [scoped() for _ in range(4)]
    with contextlib.ExitStack() as stack:
        held = [client for token in evil for client in stack.enter_context(many(s, token, 40))]
        assert len(held) == 62
        assert ctl("jobs", "--token", scoped("team-b-*")).returncode == 0


def test_sessions_of_one_observer_leave_the_others_theirs(server, ctl, token):
    s = server(*QUICK)
    evil = token("--role=observer", "--job=team-a-*")
    with many(s, evil, 260) as held, many(s, s.token("observer"), 40) as pages, many(s, s.token("admin"), 100) as admins:
        assert (len(held), len(pages), len(admins)) == (62, 40, 100)
        assert all(map(is_served, held)) and all(map(is_served, pages))  # no session was dropped


def test_where_all_is_full_the_largest_holder_makes_room(server, scoped):
    s = server(*QUICK)
    with many(s, scoped(), 62) as first, many(s, s.token("admin"), 186) as admins:
        assert (len(first), len(admins)) == (62, 186)  # 248 without the reserve
        with many(s, scoped("team-b-*"), 1) as late:
            assert len(late) == 1 and is_served(late[0])
        assert first[0].is_closed() and all(map(is_served, first[1:]))
        with many(s, s.token("admin"), 8) as more:  # the reserve
            assert len(more) == 8 and all(map(is_served, first[1:]))


def test_stalled_uploads_stop_nobody_elses(server, scoped):
    s = server(*QUICK)
    evil = scoped()
    with contextlib.ExitStack() as stack:
        got = []
        for i in range(20):
            client = stack.enter_context(RawClient(s.port, evil, timeout=20))
            client.send("BUNDLE_HAVE", {1: f"{i:064x}", 2: 1 << 26})
            got.append(client.receive_until("BUNDLE_WANT", "REFUSED")[0])
        assert got.count("BUNDLE_WANT") == 3, got
        for token in (scoped("team-b-*"), s.token("admin")):
            with RawClient(s.port, token, timeout=20) as honest:
                honest.send("BUNDLE_HAVE", {1: "ab" * 32, 2: 100})
                assert honest.receive_until("BUNDLE_WANT", "REFUSED")[0] == "BUNDLE_WANT"


def test_uploads_that_are_told_large_take_a_share_of_the_bytes(server, scoped):
    """Four keys of one scope, one after the other: announced bytes count until the upload is abandoned."""
    s = server(*QUICK)
    with contextlib.ExitStack() as stack:
        for i in range(3):
            client = stack.enter_context(RawClient(s.port, scoped(), timeout=20))
            client.send("BUNDLE_HAVE", {1: f"{i:064x}", 2: 1 << 26})
            assert client.receive_until("BUNDLE_WANT", "REFUSED")[0] == "BUNDLE_WANT"
        client = stack.enter_context(RawClient(s.port, scoped(), timeout=20))
        client.send("BUNDLE_HAVE", {1: f"{9:064x}", 2: 1 << 26})
        assert client.receive_until("BUNDLE_WANT", "REFUSED")[1][1] == [LIMIT_REACHED]


def test_orders_of_one_key_are_rows_of_the_audit_at_a_rate_and_the_rest_is_one_row(server, ctl, scoped):
    s = server(*QUICK)
    evil = scoped()
    refused, began = 0, time.monotonic()
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(RawClient(s.port, evil, timeout=20))
            for _ in range(150):
                client.send("CANCEL", {1: "team-a-1"})
                refused += b"order rate of this token" in client.receive_until("DONE", "REFUSED")[1][2][0]
    rows = json.loads(ctl("audit", "--json").stdout)["audit"]
    n = sum(row["what"] == "CANCEL" for row in rows)
    assert n + refused == 8 * 150 and 200 <= n <= 205 + time.monotonic() - began
    assert ctl("cancel", "team-b-1").returncode != 0  # an unscoped admin's order is always recorded
    time.sleep(1.1)
    assert ctl("cancel", "--token", evil, "team-a-1").returncode != 0
    rows = json.loads(ctl("audit", "--json").stdout)["audit"]
    assert [row["about"] for row in rows if row["what"] == "CANCEL"][-2:] == ["team-b-1", "team-a-1"]
    assert any(row["about"] == f"{refused} orders above the rate limit" for row in rows)
    assert ctl("audit", "--verify").returncode == 0


def test_jobs_of_one_key_do_not_take_the_newest_events_from_others(server, ctl, token, scoped):
    s = server(*QUICK)
    assert order(s, "SUBMIT", spec("honest")) == "DONE"
    evil = token("--job=team-a-*")
    with contextlib.ExitStack() as stack:
        for i in range(400):
            client = stack.enter_context(RawClient(s.port, evil, timeout=20))
            client.join(f"n{i}", job=f"team-a-{i}")
            client.ready(client.receive_until("PREPARE")[1][1][0])
            client.receive_until("START")
            client.send("GOODBYE", {1: 1})
    events = json.loads(ctl("events", "--json", "--last=1000").stdout)["events"]
    assert len([e for e in events if (e["job"] or "").startswith("team-a-")]) <= 700
    assert order(s, "SUBMIT", spec("honest-too")) == "DONE"
    events = json.loads(ctl("events", "--json", "--last=1000").stdout)["events"]
    assert [e["job"] for e in events if e["kind"] == "submitted"] == ["honest", "honest-too"]


def hash_without_key(data):
    """FNV-1a, which a peer can compute."""
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def test_events_of_a_chosen_job_suppress_none_of_others(server, ctl, token):
    """The rate of events has 4,096 buckets. Names whose hash without a key is equal must not share one."""
    s = server(*QUICK)
    bucket = hash_without_key(b"node_joined honest") % 4096
    job = next(name for i in itertools.count() if hash_without_key(f"node_noticed {(name := f'team-a-{i}')}".encode()) % 4096 == bucket)
    evil = token("--job=team-a-*")
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(RawClient(s.port, evil)) for _ in range(3)]
        for i, attacker in enumerate(attackers):
            assert attacker.join(f"evil-{i}", job=job, nodes=(2, 4))[0] == "WELCOME"
        for i in range(150):
            for attacker in attackers:
                attacker.send("NOTICE", {1: 2 + i % 2, 2: 60000 + i})
        honest = stack.enter_context(RawClient(s.port, s.token("agent")))
        assert honest.join("honest", job="honest", nodes=(2, 4))[0] == "WELCOME"
        events = json.loads(ctl("events", "honest", "--json").stdout)["events"]
        assert "node_joined" in [e["kind"] for e in events]


def test_jobs_of_one_key_count_for_it_after_a_restart_of_the_server(server, token):
    options = (*QUICK, "--max-jobs-per-token=1")
    s = server(*options)
    key = token("--job=team-a-*")
    with RawClient(s.port, key) as node:
        node.join("n1", job="team-a-1")
        node.ready(node.receive_until("PREPARE")[1][1][0])
        node.receive_until("START")
        s.kill()
    s = server(*options, port=s.port)
    with RawClient(s.port, key) as node, RawClient(s.port, key) as other:
        assert node.join("n1", job="team-a-1")[0] == "WELCOME"
        name, fields = other.join("n2", job="team-a-2")
        assert name == "REFUSED" and fields[1] == [LIMIT_REACHED]


def send_metrics(client, epoch, step, names):
    rows = [(5, encode({1: name}) + b"\x11" + struct.pack("<d", step)) for name in names]
    client.send("METRICS", [(1, epoch), (2, step), *rows])


def test_metrics_of_one_key_leave_memory_for_those_of_others(server, token):
    s = server(*QUICK)
    evil = token("--job=team-a-*")

    def train(stack, job, key):
        client = stack.enter_context(RawClient(s.port, key, timeout=20))
        client.join(job, job=job)
        client.ready(client.receive_until("PREPARE")[1][1][0])
        return client, client.receive_until("START")[1][1][0]

    with contextlib.ExitStack() as stack:
        attackers = [train(stack, f"team-a-{i}", evil) for i in range(64)]
        for half in range(2):
            for client, epoch in attackers:
                send_metrics(client, epoch, half, [f"m{half}-{i}" for i in range(16)])
            time.sleep(1)  # the server stores one message per second of a job
        client, epoch = train(stack, "honest", s.token("agent"))
        for step in range(2):
            send_metrics(client, epoch, step, ["loss"])
            time.sleep(1)
        observer = stack.enter_context(RawClient(s.port, s.token("observer")))
        observer.send("SERIES", {1: "honest", 3: "loss"})
        assert [observer.receive()[0] for _ in range(3)] == ["SERIES_ROW", "SERIES_ROW", "STATUS_END"]


def test_who_hands_in_some_jobs_leaves_places_for_others(server, ctl, scoped):
    s = server(*QUICK)
    said = []
    for part in range(2):
        with RawClient(s.port, scoped(), timeout=20) as client:
            for i in range(150):
                client.send("SUBMIT", spec(f"team-a-{part}-{i}"))
                answer, fields = client.receive_until("DONE", "REFUSED")
                said.append("DONE" if answer == "DONE" else fields[2][0].decode())
    assert said.count("DONE") == 237  # (1,000 - 50) / 4
    assert all("its share of the 1000" in text for text in said if text != "DONE")
    with RawClient(s.port, scoped("team-b-*"), timeout=20) as client:
        client.send("SUBMIT", spec("team-b-1"))
        assert client.receive_until("DONE", "REFUSED")[0] == "DONE"
    assert order(s, "CANCEL", {1: "team-a-0-1"}) == "DONE"
    with RawClient(s.port, scoped(), timeout=20) as client:  # the next run of a job does not count again
        client.send("SUBMIT", spec("team-a-0-1"))
        assert client.receive_until("DONE", "REFUSED")[0] == "DONE"
    assert order(s, "SUBMIT", spec("team-a-x")) == "DONE"  # an unscoped admin's job
    assert order(s, "CANCEL", {1: "team-a-0-0"}) == "DONE" and order(s, "FORGET", {1: "team-a-0-0"}) == "DONE"
    wait_until(lambda: "team-a-0-0" not in jobs(s), what="it to be forgotten")


def test_readers_of_logs_leave_others_their_places(server, token):
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent"), timeout=20) as agent, contextlib.ExitStack() as stack:
        agent.join("n", job="team-a-1", nodes=(2, 2))
        asked = [stack.enter_context(RawClient(s.port, token("--role=observer", "--job=team-a-*"), timeout=20)) for _ in range(40)]
        for client in asked:
            client.send_number(100, {1: "team-a-1", 5: 1})
        with RawClient(s.port, s.token("observer"), timeout=20) as other:
            other.send_number(100, {1: "team-a-1"})
            assert other.receive()[0] != "REFUSED"
        refused = 0
        for client in asked:
            client.sock.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                refused += client.receive()[0] == "REFUSED"
        assert refused == 40 - 31
