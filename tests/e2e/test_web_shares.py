"""No key and no source address can take all of tfe-web's limited resources: calls, event streams, logins, uploads, log
readers, handshakes for new tokens. Each test attacks with one key or one address, beside another key and the server's
own admin."""

import base64
import contextlib
import http.client
import os
import signal
import socket
import time
import zlib

import pytest
from conftest import DEADLINE, wait_until
from raw_client import RawClient
from test_web_bundle import path_of
from web import start

STREAM = "/api/v1/stream"


@pytest.fixture
def web(server, state_dir, tmp_path):
    with start(state_dir, tmp_path, server=server("--gather=0.1")) as running:
        yield running


@pytest.fixture
def scoped(token):
    return lambda scope="team-a-*": token("--role=admin", f"--job={scope}")


class Client:
    """One request whose response is read later. source: its source address."""

    def __init__(self, web, path, *fields, method="GET", token=None, source="127.0.0.1", body=b""):
        self.socket = socket.create_connection(("127.0.0.1", web.port), DEADLINE, (source, 0))
        lines = [f"{method} {path} HTTP/1.1", f"Host: localhost:{web.port}", *fields]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        self.response = None

    def status(self):
        if not self.response:
            self.response = http.client.HTTPResponse(self.socket)
            self.response.begin()
        return self.response.status

    def is_closed(self):
        """Returns True if the response has ended."""
        self.status()
        self.socket.settimeout(0.2)
        with contextlib.suppress(TimeoutError, BlockingIOError):
            try:
                while self.socket.recv(1 << 16):
                    pass
                return True
            except ConnectionError:
                return True
        return False

    def close(self):
        self.socket.close()


def forged(text, number):
    """Returns this token with another id, which the server rejects."""
    *head, body = text.split("_", 2)
    raw = bytearray(base64.urlsafe_b64decode(body))
    raw[12:16] = number.to_bytes(4, "big")
    raw[-4:] = zlib.crc32(raw[:-4]).to_bytes(4, "big")
    return f"{'_'.join(head)}_{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


@contextlib.contextmanager
def many(web, n, path, **more):
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(n):
            clients.append(Client(web, path, **more))
            stack.callback(clients[-1].close)
        yield clients


def accepted(web, *tokens):
    """Makes the server accept these tokens, so that their callers are known."""
    for token in tokens:
        assert web.ask("/api/v1/jobs", bearer=token).code == 200


def test_streams_of_one_key_leave_the_others_theirs(web, scoped):
    evil, other, admin = scoped(), scoped("team-b-*"), web.server.token("admin")
    accepted(web, evil, other, admin)
    with many(web, 300, STREAM, token=evil) as held:
        statuses = [client.status() for client in held]
        assert (statuses.count(200), statuses.count(503)) == (30, 270)  # (128 - 8) / 4
        for more in ({"token": other}, {"token": admin}, {}):
            with many(web, 10, STREAM, **more) as pages:
                assert [page.status() for page in pages] == [200] * 10, more
        assert not any(client.is_closed() for client in held[:3])


def test_streams_of_one_address_without_a_token_leave_the_others_theirs(web, scoped):
    other = scoped()
    accepted(web, other)
    with many(web, 300, STREAM, source="127.0.0.2") as held:
        assert [client.status() for client in held].count(200) == 30
        for more in ({"source": "127.0.0.3"}, {"token": other, "source": "127.0.0.2"}):
            with many(web, 10, STREAM, **more) as pages:
                assert [page.status() for page in pages] == [200] * 10, more


def test_where_all_streams_are_used_the_largest_holder_makes_room(web, scoped):
    """An unscoped admin has no quota, and may use the reserve."""
    evil, late, admin = scoped(), scoped("team-b-*"), web.server.token("admin")
    accepted(web, evil, late, admin)
    with many(web, 30, STREAM, token=evil) as held, many(web, 90, STREAM, token=admin) as pages:
        assert {client.status() for client in (*held, *pages)} == {200}
        with many(web, 1, STREAM, token=late) as one:
            assert one[0].status() == 200
            wait_until(held[0].is_closed, what="the end of the oldest")
            assert not held[1].is_closed() and not pages[0].is_closed()
            with many(web, 8, STREAM, token=admin) as reserve:
                assert {client.status() for client in reserve} == {200}
                assert not held[1].is_closed() and not one[0].is_closed()


def test_calls_of_one_key_or_stranger_leave_the_others_theirs(web, scoped):
    """While the server does not respond, calls wait: only the attacker's are refused."""
    evil, other, admin = scoped(), scoped("team-b-*"), web.server.token("admin")
    accepted(web, evil, other, admin)
    os.kill(web.server.pid, signal.SIGSTOP)
    try:
        with many(web, 200, "/api/v1/jobs", token=evil) as calls, many(web, 100, "/api/v1/jobs", source="127.0.0.2") as strangers, \
                many(web, 5, "/api/v1/jobs", token=other) as others, many(web, 5, "/api/v1/jobs", token=admin) as admins:
            time.sleep(0.5)
            os.kill(web.server.pid, signal.SIGCONT)
            statuses = [client.status() for client in calls]
            assert (statuses.count(200), statuses.count(503)) == (60, 140)  # (256 - 16) / 4
            assert [client.status() for client in strangers].count(200) == 45  # (240 - 60) / 4
            assert {client.status() for client in (*others, *admins)} == {200}
    finally:
        os.kill(web.server.pid, signal.SIGCONT)


def test_pages_of_one_address_do_not_delay_requests_of_others(web):
    """Without a login, all pages share one connection to the server, which answers 20 requests per second on it."""
    with contextlib.ExitStack() as stack:
        for i in range(30):
            page = Client(web, f"{STREAM}?job=job-{i}&pool=1", source="127.0.0.2")
            stack.callback(page.close)
            assert page.status() == 200
        time.sleep(4)  # uses up the burst
        for _ in range(3):
            began = time.monotonic()
            assert web.get("/api/v1/jobs")["jobs"] == []
            assert time.monotonic() - began < 2
            assert web.get("/readyz") == {"status": "ready"}


def test_logins_of_one_token_end_none_of_another(web, scoped):
    evil = scoped()
    assert web.login(scoped("team-b-*")).code == 200
    cookie, csrf = web.cookie, web.csrf
    for _ in range(300):
        assert web.login(evil).code == 200
    assert web.ask("/api/v1/session").json["logged_in"]  # drops the newest call of the attacker
    web.cookie, web.csrf = cookie, csrf
    assert web.ask("/api/v1/session").json["logged_in"]
    assert web.login(web.server.token("admin")).code == 200


def test_stalled_uploads_of_one_key_leave_the_others_theirs(web, scoped):
    evil, other, admin = scoped(), scoped("team-b-*"), web.server.token("admin")
    accepted(web, evil, other, admin)
    stalled = [Client(web, f"/api/v1/bundles/{i:064x}", f"Content-Length: {1 << 20}", method="PUT", token=evil, body=b"x" * 1000)
               for i in range(8)]
    try:
        wait_until(lambda: web.gauges()["tfe_web_connections"] >= 4, what="the uploads")
        refused = [client for client in stalled[3:] if client.status() == 503]
        assert len(refused) == 5
        for token, packed in ((other, os.urandom(5000)), (admin, os.urandom(5001))):
            answer = web.ask(path_of(packed), "PUT", packed, bearer=token)
            assert answer.code == 201, answer.body
    finally:
        for client in stalled:
            client.close()


def test_readers_of_logs_of_one_key_leave_the_others_theirs(web, scoped):
    s, evil, other = web.server, scoped("*-a"), scoped("*-a")
    accepted(web, evil, other)
    path = "/api/v1/jobs/demo-a/logs?follow=1"
    with RawClient(s.port, s.token("agent")) as agent:
        agent.join("n1", job="demo-a")
        with many(web, 100, path, token=evil) as held:
            assert [client.status() for client in held].count(200) == 10  # (48 - 8) / 4
            for token in (other, s.token("admin")):
                with many(web, 3, path, token=token) as honest:
                    assert {client.status() for client in honest} == {200}


def test_tokens_made_up_by_one_address_do_not_keep_others_from_their_first_login(web, scoped):
    """A valid token contains the server's public key: its holder can forge others, each of which costs a handshake."""
    real = scoped()
    fakes = [Client(web, "/api/v1/jobs", token=forged(real, i), source="127.0.0.2") for i in range(200)]
    statuses = [fake.status() for fake in fakes]
    assert set(statuses) <= {401, 429} and statuses.count(429) > 150
    with contextlib.closing(Client(web, "/api/v1/jobs", token=scoped("team-b-*"), source="127.0.0.3")) as first:
        assert first.status() == 200
    for fake in fakes:
        fake.close()


def test_connections_of_one_address_close_none_of_others(server, state_dir, tmp_path):
    server()
    with start(state_dir, tmp_path, "--max-connections=64") as web, contextlib.ExitStack() as stack:
        honest = stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", web.port), DEADLINE)))
        for _ in range(200):
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", web.port), DEADLINE, ("127.0.0.2", 0))))
        assert web.get("/healthz") == {"status": "ok"}
        honest.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert honest.recv(100).startswith(b"HTTP/1.1 200 ")


def test_head_of_a_stream_ends_at_once(web):
    for path in (STREAM, "/api/v1/events?follow=1", "/api/v1/jobs/demo/logs?follow=1"):
        with contextlib.closing(Client(web, path, method="HEAD")) as client:
            assert client.is_closed() and client.status() == 200, path
            assert client.response.headers["Content-Type"] == "text/event-stream"


def test_responses_that_one_address_does_not_read_leave_room_for_connections(server, state_dir, tmp_path):
    """Each holds a connection for up to a minute, unless another client needs it."""
    server()
    with start(state_dir, tmp_path, "--max-connections=64") as web:
        clients = []
        try:
            for _ in range(200):
                one = socket.socket()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                one.settimeout(DEADLINE)
                one.connect(("127.0.0.1", web.port))
                clients.append(one)
                one.sendall(b"GET /chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
            began = time.monotonic()
            assert web.get("/healthz") == {"status": "ok"}
            assert time.monotonic() - began < 10
        finally:
            for one in clients:
                one.close()
