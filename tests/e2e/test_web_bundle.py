"""A job's files over HTTP: in pieces through tfe-web, never complete in its memory, and nothing is left of an
interrupted upload."""

import contextlib
import hashlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.parse

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from test_bundle import LOOKS, names, said, write
from test_pool import Pool
from web import Answer, start



def digest_of(packed):
    return hashlib.blake2b(packed, digest_size=32).hexdigest()


def path_of(packed):
    return f"/api/v1/bundles/{digest_of(packed)}"


def job(name, packed, **more):
    return {"name": name, "source": {"bundle": digest_of(packed)}, "command": ["python", "exec.py"], **more}


def put(web, packed, path=None, **more):
    return web.ask(path or path_of(packed), "PUT", packed, **{"headers": {"Content-Type": "application/octet-stream"}, **more})


class Raw:
    """A hand-made upload, with n bytes as its Content-Length."""

    def __init__(self, web, path, n, *more, token=None):
        self.socket = socket.create_connection(("127.0.0.1", web.port), timeout=DEADLINE)
        self.head = "\r\n".join((f"PUT {path} HTTP/1.1", f"Host: localhost:{web.port}", f"Authorization: Bearer {token}",
                                 f"Content-Length: {n}", *more, "", "")).encode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def say(self, bytes_, each=0):
        each = each or len(bytes_) or 1
        for at in range(0, len(bytes_), each):
            self.socket.sendall(bytes_[at:at + each])

    def answer(self):
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return Answer(response, response.read())


@pytest.fixture
def small_quarantine(monkeypatch):
    """Freed memory leaves the quarantine early, with sanitizers, too; must precede web in the arguments."""
    monkeypatch.setenv("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1")


@pytest.fixture
def web(server, state_dir, tmp_path):
    with start(state_dir, tmp_path, server=server()) as running:
        running.login(running.server.token("admin"))
        yield running


def jobs(web):
    return {row["job"]: row["state"] for row in web.get("/api/v1/jobs")["jobs"]}


def parts_left(state_dir):
    return [path.name for path in state_dir.rglob("part-*")]


def stored(web):
    return [event["digest"][:64] for event in web.server.events("bundle_stored")]


def test_job_runs_with_the_bundle_that_it_names(web, fleet, ctl, tmp_path):  # noqa: F811
    pool = Pool(fleet, ctl)
    code = tmp_path / "code"
    code.mkdir()
    write(code, lib__a="1", lib__b="x" * 50_000)
    (code / "exec.py").write_text(LOOKS)
    packed = tmp_path / "code.bundle"
    made = ctl("submit", "--name=one", f"--bundle={code}", f"--bundle-out={packed}", f"--env=OUT={tmp_path}", "--env=ALL=1")
    assert made.returncode == 0, made.stderr
    said_job = json.loads(made.stdout)
    assert said_job["source"] == {"bundle": digest_of(packed.read_bytes())}
    done = put(web, packed.read_bytes())
    assert (done.code, done.json) == (201, {"bundle": said_job["source"]["bundle"], "created": True})
    assert urllib.parse.urljoin(path_of(packed.read_bytes()), done.headers["Location"]) == path_of(packed.read_bytes())
    done = web.order("/api/v1/jobs", said_job)
    assert (done.code, done.json) == (201, {"done": "submit", "name": "one"})
    assert web.get(urllib.parse.urljoin("/api/v1/jobs", done.headers["Location"]))["job"] == "one"
    pool.start(1, "--no-standby")
    found, = said(tmp_path, 1)
    assert names(found) == ["exec.py", "lib/a", "lib/b"] and found["found"]["lib/a"] == ["1", False]
    pool.wait_state("one", "succeeded")
    assert stored(web) == [said_job["source"]["bundle"]]


@pytest.mark.parametrize("n", [1, 4000, 12288, 12289, 24576, 200_000])
def test_bundle_of_any_length_comes_in_any_pieces(web, n):
    token = web.server.token("admin")
    packed = [bytes([i]) + os.urandom(n - 1) for i in range(3)]
    assert put(web, packed[0]).code == 201
    with Raw(web, path_of(packed[1]), n, token=token) as raw:
        raw.say(raw.head, each=7)
        raw.say(packed[1][:700], each=1)
        raw.say(packed[1][700:])
        assert raw.answer().code == 201
    with Raw(web, path_of(packed[2]), n, "Expect: 100-continue", token=token) as raw:
        raw.say(raw.head)
        assert raw.socket.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.say(packed[2])
        assert raw.answer().code == 201
        raw.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # the connection can be used further
        assert raw.answer().code == 200
    assert stored(web) == [digest_of(one) for one in packed]
    # Idempotent: the server does not store again what it has.
    again = put(web, packed[0])
    assert (again.code, again.json) == (200, {"bundle": digest_of(packed[0]), "created": False})
    assert web.order("/api/v1/jobs", job("e", packed[0])).code == 201
    assert len(stored(web)) == 3 and set(jobs(web)) == {"e"}


def test_bundle_that_is_refused_leaves_nothing(web, token, state_dir):
    packed = os.urandom(100_000)
    large = b"x" * (64 << 20)
    for body, path, code, says in (
            (packed, path_of(b"other"), 400, "does not match its digest"),
            (b"", path_of(b""), 400, "the bundle is empty"),
            (packed, "/api/v1/bundles/0123", 400, "BLAKE2b of 32 bytes"),
            (packed, "/api/v1/bundles/" + digest_of(packed).upper(), 400, "BLAKE2b of 32 bytes"),
            (packed, path_of(packed) + "0", 400, "BLAKE2b of 32 bytes"),
            (large + b"x", path_of(packed), 413, "larger than 64 MiB")):
        refused = put(web, body, path)
        assert (refused.code, says in refused.json["detail"]) == (code, True), (path, refused.body)
    # The response is not lost, although the client sends all of its body before it reads.
    for who in ({"login": False}, {"login": False, "bearer": token("--role=observer")}, {"headers": {"X-CSRF-Token": "x"}}):
        refused = put(web, large[:8 << 20], **who)
        assert refused.code in (401, 403), refused.body
    with Raw(web, path_of(packed), 0, token=web.server.token("admin")) as raw:
        raw.say(raw.head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n")
        assert raw.answer().code == 411
    assert web.ask(path_of(packed), "POST", {}).code == 405
    assert "tfe-ctl submit --bundle" in web.order("/api/v1/jobs", job("a", packed)).json["detail"]
    assert jobs(web) == {} and stored(web) == []
    assert put(web, packed).code == 201
    wait_until(lambda: not parts_left(state_dir), what="that nothing is left")


def test_uploads_that_are_cut_leave_nothing_behind(web, state_dir, token):
    packed = os.urandom(1_000_000)
    scoped = token("--role=admin", "--job=a-*")
    assert web.ask("/api/v1/jobs", bearer=scoped).code == 200
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            those = [stack.enter_context(Raw(web, path_of(packed), len(packed), token=scoped)) for _ in range(3)]  # the scope's quota
            for raw in those:
                raw.say(raw.head + packed[:500_000])
            wait_until(lambda: len(parts_left(state_dir)) == 3, what="that the server has the beginning of each")
            refused = put(web, packed, bearer=scoped, login=False)  # the server is not asked
            assert (refused.code, refused.json["detail"][:29]) == (503, "too many concurrent uploads, ")
        wait_until(lambda: not parts_left(state_dir), what="that nothing is left")
    wait_until(lambda: put(web, packed).code == 201, what="a slot")
    assert stored(web) == [digest_of(packed)]


def test_client_that_stalls_gets_408_and_one_that_never_ends_is_cut_off(web, state_dir):
    packed = os.urandom(1_000_000)
    token = web.server.token("admin")
    cut = threading.Event()
    with contextlib.ExitStack() as stack:
        refused = stack.enter_context(Raw(web, path_of(packed), 10**17, token="tfe1_admin_x"))

        def say_for_ever():
            with contextlib.suppress(ConnectionError):
                refused.say(refused.head)
                while True:
                    refused.say(bytes(1 << 16))
            cut.set()

        threading.Thread(target=say_for_ever, daemon=True).start()
        those = [stack.enter_context(Raw(web, path_of(packed), len(packed), token=token)) for _ in range(3)]
        for raw, n in zip(those, (0, 100, 500_000)):
            raw.say(raw.head + packed[:n])
        for raw in those:
            answer = raw.answer()
            assert (answer.code, answer.json["detail"]) == (408, "the rest of the bundle is missing")
        assert cut.wait(DEADLINE)
    wait_until(lambda: not parts_left(state_dir), what="that nothing is left")


@pytest.mark.heavy
def test_client_that_drips_does_not_hold_its_slot(web):
    packed = os.urandom(1_000_000)
    with Raw(web, path_of(packed), len(packed), token=web.server.token("admin")) as raw:
        raw.say(raw.head + packed[:100])
        raw.socket.setblocking(False)
        at, began = 100, time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 3 * DEADLINE:
                raw.socket.send(packed[at:at + 1])
                at += 1
                time.sleep(0.5)
                with contextlib.suppress(BlockingIOError):
                    assert raw.socket.recv(100).startswith(b"HTTP/1.1 408 ")
                    break
        assert 14 < time.monotonic() - began < 2 * DEADLINE


def test_bundle_that_comes_slowly_goes_on_before_it_fills_a_piece(web, state_dir):
    """The server drops an upload that is silent for 20 s."""
    packed = os.urandom(12_000)
    at, last = 4000, 11_000
    with Raw(web, path_of(packed), len(packed), token=web.server.token("admin")) as raw:
        raw.say(raw.head + packed[:at])

        def is_told_with_one_more():
            nonlocal at
            assert at < last
            raw.say(packed[at:at + 1])
            at += 1
            return any(path.stat().st_size > 0 for path in state_dir.rglob("part-*"))

        wait_until(is_told_with_one_more, what="that the server has its beginning")
        raw.say(packed[at:])
        assert raw.answer().code == 201
    assert stored(web) == [digest_of(packed)]


def test_server_that_is_lost_during_an_upload_is_reported(web, state_dir):
    packed = os.urandom(1_000_000)
    with Raw(web, path_of(packed), len(packed), token=web.server.token("admin")) as raw:
        raw.say(raw.head + packed[:500_000])
        # The file exists before the server accepts data.
        wait_until(lambda: [path for path in state_dir.rglob("part-*") if path.stat().st_size > 0], what="that the server has its beginning")
        web.server.kill()
        answer = raw.answer()
        assert (answer.code, answer.json["code"]) == (502, "failed") and "send the whole bundle again" in answer.json["detail"]


def test_bundle_of_60_mb_is_never_in_memory(small_quarantine, web):
    def peak():
        with open(f"/proc/{web.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

    assert put(web, os.urandom(1000)).code == 201
    before = peak()
    packed = os.urandom(60_000_000)
    done = []
    asker = threading.Thread(target=lambda: done.append(put(web, packed).code))
    asker.start()
    while asker.is_alive():
        assert web.ask("/healthz").code == 200  # other requests are answered meanwhile
        asker.join(0.05)
    assert done == [201] and stored(web)[-1] == digest_of(packed)
    assert peak() - before < 8 << 20, (before, peak())


def test_bytes_behind_a_refused_bundle_are_no_request(web):
    """They belong to the body, whose rest is discarded."""
    packed = os.urandom(10)
    token = web.server.token("admin")
    assert put(web, packed).code == 201 and web.order("/api/v1/jobs", job("a", packed)).code == 201
    more = f"POST /api/v1/jobs/a/cancel HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n".encode()
    with Raw(web, path_of(packed), 100_000, token="tfe1_admin_x") as raw:
        raw.say(raw.head + more)
        assert raw.answer().code == 401
        assert raw.socket.recv(1) == b""
    assert jobs(web) == {"a": "waiting"}
