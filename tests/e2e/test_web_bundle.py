"""A job and its files in one form over HTTP: in pieces through tfe-web, never whole in its memory, and nothing is left of
what does not come to its end."""

import contextlib
import hashlib
import json
import os
import socket
import threading

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from test_bundle import LOOKS, frame, names, said, tar, write
from test_pool import Pool
from web import Answer, start

BOUNDARY = "----a-Bound'ary:7"


def digest_of(packed):
    return hashlib.blake2b(packed, digest_size=32).hexdigest()


def job(name, packed, **more):
    return {"name": name, "source": {"bundle": digest_of(packed)}, "command": ["python", "exec.py"], **more}


def part(name, content, *more):
    head = "\r\n".join((f'--{BOUNDARY}', f'Content-Disposition: form-data; name="{name}"; filename="a;b"', *more))
    return head.encode() + b"\r\n\r\n" + content + b"\r\n"


def form(*parts, end="\r\n"):
    return b"".join(parts) + f"--{BOUNDARY}--{end}".encode()


def whole(a_job, packed, **more):
    return form(part("job", json.dumps(a_job).encode(), "Content-Type: application/json"), part("bundle", packed), **more)


TYPE = {"Content-Type": f'multipart/form-data; boundary="{BOUNDARY}"'}


def post(web, body, **more):
    return web.order("/api/v1/jobs", body, headers=TYPE, **more)


class Raw:
    """A request by hand; its head promises n bytes."""

    def __init__(self, web, n, *more, token=None):
        self.socket = socket.create_connection(("127.0.0.1", web.port), timeout=DEADLINE)
        self.head = "\r\n".join(("POST /api/v1/jobs HTTP/1.1", f"Host: localhost:{web.port}", f"Content-Type: {TYPE['Content-Type']}",
                                 f"Authorization: Bearer {token}", f"Content-Length: {n}", *more, "", "")).encode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def say(self, bytes_, each=0):
        each = each or len(bytes_) or 1
        for at in range(0, len(bytes_), each):
            self.socket.sendall(bytes_[at:at + each])

    def answer(self):
        import http.client
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return Answer(response, response.read())


@pytest.fixture
def small_quarantine(monkeypatch):
    """What is freed counts as freed, with sanitizers, too; to be named before web."""
    monkeypatch.setenv("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1")


@pytest.fixture
def web(server, state_dir, tmp_path):
    with start(state_dir, tmp_path, server=server()) as running:
        running.login(running.server.token("admin"))
        yield running


def jobs(web):
    return {row["job"]: row["state"] for row in web.get("/api/v1/queue")["jobs"]}


def parts_left(state_dir):
    return [path.name for path in state_dir.rglob("part-*")]


def stored(web):
    return [event["digest"][:64] for event in web.server.events("bundle_stored")]


def test_a_job_and_its_bundle_run_on_a_node_of_the_pool(web, fleet, ctl, tmp_path):
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
    done = post(web, form(part("job", made.stdout.encode()), part("bundle", packed.read_bytes())))
    assert done.json == {"done": "submit", "name": "one"}
    assert done.headers["Connection"] == "close"
    pool.start(1, "--no-standby")
    found, = said(tmp_path, 1)
    assert names(found) == ["exec.py", "lib/a", "lib/b"] and found["found"]["lib/a"] == ["1", False]
    pool.wait_state("one", "succeeded")
    assert stored(web) == [said_job["source"]["bundle"]]


@pytest.mark.parametrize("n", [1, 4000, 12288, 12289, 24576, 200_000])
def test_a_bundle_of_any_length_comes_in_any_pieces(web, n):
    """Its last bytes are known to be that only behind them: a chunk's, a window's."""
    token = web.server.token("admin")
    packed = [bytes([i]) + os.urandom(n - 1) for i in range(4)]
    assert post(web, whole(job("a", packed[0]), packed[0])).code == 200
    assert post(web, whole(job("b", packed[1]), packed[1], end="")).code == 200  # no line's end behind the last boundary
    body = whole(job("c", packed[2]), packed[2], end="\r\nnobody's")
    with Raw(web, len(body), token=token) as raw:
        raw.say(raw.head, each=7)
        raw.say(body[:700], each=1)
        raw.say(body[700:])
        assert raw.answer().code == 200
    body = whole(job("d", packed[3]), packed[3])
    with Raw(web, len(body), "Expect: 100-continue", token=token) as raw:
        raw.say(raw.head)
        assert raw.socket.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.say(body)
        assert raw.answer().code == 200
    assert stored(web) == [digest_of(one) for one in packed]
    # What the server has it takes no second time, nor does a job alone bring anything.
    assert post(web, whole(job("e", packed[0]), packed[0])).code == 200
    assert post(web, form(part("job", json.dumps(job("f", packed[1])).encode()))).code == 200
    assert len(stored(web)) == 4 and set(jobs(web)) == set("abcdef")


def test_what_is_wrong_with_a_form_is_one_sentence_and_leaves_nothing(web, token, state_dir):
    packed = os.urandom(100_000)
    a_job = json.dumps(job("a", packed)).encode()
    other = json.dumps({"name": "a", "source": {"path": "/srv"}, "command": ["true"]}).encode()
    large = b"x" * (64 << 20)
    for body, code, says in (
            (whole(job("a", b"other"), packed), 400, "not those that its digest says"),
            (form(part("job", a_job), part("bundle", b"")), 400, "bundle: it is empty"),
            (form(part("bundle", packed), part("job", a_job)), 400, "the job's part comes before it"),
            (form(part("job", a_job), part("bundle", packed), part("bundle", packed)), 400, "two of them"),
            (form(part("job", a_job), part("job", a_job)), 400, "two of them"),
            (form(part("job", other), part("bundle", packed)), 400, "source does not name it"),
            (form(part("job", a_job), part("files", packed)), 400, "files: a form has the parts job and bundle"),
            (form(part("job", b"[]"), part("bundle", packed)), 400, "a JSON object"),
            (form(part("job", b'{"name": "a b"}')), 400, "name: "),
            (form(part("job", b" " * 65537)), 413, "64 KiB"),
            (form(), 400, "no such part"),
            (b"garbage" * 10_000, 400, "ends before its last boundary"),
            (whole(job("a", packed), packed)[:-4], 400, "ends before its last boundary"),
            (form(part("job", a_job), part("bundle", packed, "Content-Transfer-Encoding: base64")), 400, "encoded for mail"),
            (whole(job("a", packed), large + b"x"), 413, "more than 64 MiB"),
            (b"x" * (65 << 20), 413, "more than a bundle of 64 MiB")):
        refused = post(web, body)
        assert (refused.code, says in refused.json["detail"]) == (code, True), (body[:300], refused.body)
    # Whoever may not hears so, though all of it is sent before he listens.
    for who in ({"login": False}, {"login": False, "bearer": token("--role=observer")}, {"headers": {**TYPE, "X-CSRF-Token": "x"}}):
        refused = web.ask("/api/v1/jobs", "POST", whole(job("a", packed), large[:8 << 20]), **{"headers": TYPE, **who})
        assert refused.code in (401, 403), refused.body
    with Raw(web, 0, token=web.server.token("admin")) as raw:
        raw.say(raw.head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n")
        assert raw.answer().code == 411
    assert jobs(web) == {} and stored(web) == []
    assert post(web, whole(job("a", packed), packed)).code == 200
    taken = post(web, whole(job("a", packed), packed))
    assert (taken.code, taken.json["code"]) == (409, "conflict")
    wait_until(lambda: not parts_left(state_dir), what="that nothing is left")


def test_connections_that_are_cut_in_the_middle_leave_nothing_behind(web, state_dir):
    packed = os.urandom(1_000_000)
    body, token = whole(job("a", packed), packed), web.server.token("admin")
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            those = [stack.enter_context(Raw(web, len(body), token=token)) for _ in range(8)]  # all that there may be
            for raw in those:
                raw.say(raw.head + body[:500_000])
            wait_until(lambda: len(parts_left(state_dir)) == 8, what="that the server has the beginning of each")
            refused = post(web, body)  # the server, which has as many places, is not asked
            assert (refused.code, refused.json["detail"][:34]) == (503, "too many bundles come at a time: t")
        wait_until(lambda: not parts_left(state_dir), what="that nothing is left")
    wait_until(lambda: post(web, body).code == 200, what="a place")
    assert jobs(web) == {"a": "queued"} and stored(web) == [digest_of(packed)]


def test_who_stops_in_the_middle_is_told_so_after_a_while_and_who_never_stops_is_cut_off(web, state_dir):
    packed = os.urandom(1_000_000)
    body, token = whole(job("a", packed), packed), web.server.token("admin")
    cut = threading.Event()
    with contextlib.ExitStack() as stack:
        refused = stack.enter_context(Raw(web, 10**17, token="tfe1_admin_x"))

        def say_for_ever():
            with contextlib.suppress(ConnectionError):
                refused.say(refused.head)
                while True:
                    refused.say(bytes(1 << 16))
            cut.set()

        threading.Thread(target=say_for_ever, daemon=True).start()
        those = [stack.enter_context(Raw(web, len(body), token=token)) for _ in range(3)]
        for raw, n in zip(those, (0, 100, 500_000)):
            raw.say(raw.head + body[:n])
        for raw in those:
            answer = raw.answer()
            assert (answer.code, answer.json["detail"]) == (408, "the rest of the form has not come")
        assert cut.wait(DEADLINE)
    wait_until(lambda: not parts_left(state_dir), what="that nothing is left")


def test_what_comes_slowly_goes_on_before_it_fills_a_piece(web, state_dir):
    """The server lets go of who says nothing for a while."""
    packed = os.urandom(12_000)
    body = whole(job("a", packed), packed)
    at = body.index(packed) + 4000
    last = at + 7000
    with Raw(web, len(body), token=web.server.token("admin")) as raw:
        raw.say(raw.head + body[:at])

        def is_told_with_one_more():
            nonlocal at
            assert at < last
            raw.say(body[at:at + 1])
            at += 1
            return any(path.stat().st_size > 0 for path in state_dir.rglob("part-*"))

        wait_until(is_told_with_one_more, what="that the server has its beginning")
        raw.say(body[at:])
        assert raw.answer().code == 200
    assert stored(web) == [digest_of(packed)]


def test_a_server_that_goes_while_it_takes_a_bundle_has_nothing_of_it(web, state_dir):
    packed = os.urandom(1_000_000)
    body = whole(job("a", packed), packed)
    with Raw(web, len(body), token=web.server.token("admin")) as raw:
        raw.say(raw.head + body[:500_000])
        # Its file alone is there before the server has told that it takes something.
        wait_until(lambda: [path for path in state_dir.rglob("part-*") if path.stat().st_size > 0], what="that the server has its beginning")
        web.server.kill()
        answer = raw.answer()
        assert (answer.code, answer.json["code"]) == (502, "failed") and "send all of it again" in answer.json["detail"]


def test_a_bundle_of_60_mb_is_never_in_memory(small_quarantine, web):
    def peak():
        with open(f"/proc/{web.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

    small = os.urandom(1000)
    assert post(web, whole(job("small", small), small)).code == 200
    before = peak()
    packed = os.urandom(60_000_000)
    done = []
    asker = threading.Thread(target=lambda: done.append(post(web, whole(job("large", packed), packed)).code))
    asker.start()
    while asker.is_alive():
        assert web.ask("/healthz").code == 200  # others are answered meanwhile
        asker.join(0.05)
    assert done == [200] and stored(web)[-1] == digest_of(packed)
    assert peak() - before < 8 << 20, (before, peak())


def test_what_is_behind_a_form_is_no_request(web):
    """Its bytes are the form's, or nobody's: they would be one that somebody else has made."""
    packed = os.urandom(10)
    body, token = whole(job("a", packed), packed), web.server.token("admin")
    more = f"POST /api/v1/jobs/a/cancel HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n".encode()
    with Raw(web, len(body), token=token) as raw:
        raw.say(raw.head + body + more)
        assert raw.answer().code == 200
        assert raw.socket.recv(1) == b""
    with Raw(web, 100_000, token="tfe1_admin_x") as raw:
        raw.say(raw.head + more)
        assert raw.answer().code == 401
    assert jobs(web) == {"a": "queued"}
    # A form may come behind another request of its connection, also at once.
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for each in (0, 1):
        packed = os.urandom(10)
        body = whole(job(f"b{each}", packed), packed)
        with Raw(web, len(body), token=token) as raw:
            raw.say(ask + raw.head + body, each=each)
            got = b""
            while some := raw.socket.recv(65536):
                got += some
            assert got.count(b"HTTP/1.1 200 OK") == 2 and b'"done":"submit"' in got, got
    assert len(jobs(web)) == 3


@pytest.mark.parametrize("hostile", [tar(("../out", {}, b"x")), tar(("a", {"mode": 0o4755}, b"x"))])
def test_what_a_node_would_not_unpack_fails_there(web, fleet, ctl, hostile):
    packed = frame(hostile)
    assert post(web, whole(job("bad", packed), packed)).code == 200
    pool = Pool(fleet, ctl)
    pool.start(1, "--no-standby")
    assert "this is no bundle" in json.dumps(pool.wait_state("bad", "failed"))
