"""tfe-rdzv --web: a page beside the server, for as long as that is there and no longer."""

import json
import os
import pathlib
import signal
import socket
import time
import urllib.request

import pytest

from conftest import wait_until
from programs import children, parents, program


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def beside(server, port):
    """A server with a page, from a launcher that hears of no child, and with settings that are no page's."""
    where = os.path.dirname(program("tfe-web"))  # not beside tfe-rdzv in a build tree
    return server("--ttl=3s", f"--web={port}", env={"PATH": os.pathsep.join([where, os.environ["PATH"]]), "TFE_BIND": "127.0.0.1",
                                                            "TFE_TLS_CERT": "/nonexistent"},
                  preexec=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))


def ask(port, path, body=None, token=None):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers,
                                     data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return None, None


def is_ready(port):
    return ask(port, "/readyz")[0] == 200


def pages(state_dir):
    """Processes of tfe-web on this state directory."""
    found = []
    for pid, (_, name) in parents().items():
        if name == "tfe-web":
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += [pid] * (os.fsencode(state_dir) in words)
    return found


def keepers(server):
    return children(server.pid, "tfe-rdzv-web")


def test_page_answers_as_an_observer(beside, port, state_dir):
    wait_until(lambda: is_ready(port), what="a page")
    code, answer = ask(port, "/api/v1/jobs")
    assert code == 200 and answer["jobs"] == []
    code, problem = ask(port, "/api/v1/jobs/none/stop", body={})
    assert code in (401, 403), problem
    assert len(pages(state_dir)) == 1
    keeper, = keepers(beside)
    assert os.getsid(keeper) == keeper, "a terminal's Ctrl-C is the server's alone"


def test_page_ends_with_its_keeper(beside, port, state_dir, ctl):
    wait_until(lambda: is_ready(port), what="a page")
    os.kill(*keepers(beside), signal.SIGKILL)
    wait_until(lambda: not pages(state_dir), what="nobody")
    assert ctl("status").returncode == 0


def test_page_that_hangs_ends_with_its_server(beside, port, state_dir):
    wait_until(lambda: is_ready(port), what="a page")
    os.kill(*pages(state_dir), signal.SIGSTOP)
    assert beside.stop() == 0
    wait_until(lambda: not pages(state_dir), what="nobody")


def test_page_that_ends_comes_again(beside, port, state_dir):
    wait_until(lambda: is_ready(port), what="a page")
    first = pages(state_dir)
    os.kill(first[0], signal.SIGKILL)
    wait_until(lambda: pages(state_dir) not in ([], first) and is_ready(port), what="another page")
    wait_until(lambda: [line["status"] for line in beside.events("web_ended")] == [128 + signal.SIGKILL], what="its end in the log")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_page_ends_with_its_server(beside, port, state_dir, how):
    wait_until(lambda: is_ready(port), what="a page")
    keeper = keepers(beside)
    assert len(keeper) == 1
    began = time.monotonic()
    beside.process.send_signal(how)
    beside.process.wait()
    # It waits for a second and a half at most; else the keeper is told by the kernel, a moment later.
    if how != signal.SIGKILL and time.monotonic() - began < 1.5:
        assert not pages(state_dir)
    wait_until(lambda: not pages(state_dir) and keeper[0] not in parents(), what="nobody")


def test_page_says_nothing_to_systemd_in_its_servers_name(server, port, state_dir, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        where = os.path.dirname(program("tfe-web"))
        s = server(f"--web={port}", env={"PATH": os.pathsep.join([where, os.environ["PATH"]]), "NOTIFY_SOCKET": str(tmp_path / "notify")})
        wait_until(lambda: is_ready(port), what="a page")
        os.kill(pages(state_dir)[0], signal.SIGTERM)
        wait_until(lambda: s.events("web_ended"), what="its end")
        assert s.stop() == 0
        wait_until(lambda: not pages(state_dir), what="nobody")
        manager.setblocking(False)
        assert [manager.recv(100) for _ in range(2)] == [b"READY=1", b"STOPPING=1"]
        with pytest.raises(BlockingIOError):
            manager.recv(100)


def test_page_goes_on_when_the_tokens_are_made_anew(beside, port, state_dir, ctl):
    """tfe-web read its token once: the root of that removed, nobody saw anything until the server was started anew."""
    wait_until(lambda: is_ready(port), what="a page")
    first, old = pages(state_dir), beside.token("observer")
    for step in ((), ("--remove",)):
        assert ctl("token", "rotate", *step).returncode == 0
    assert beside.token("observer") != old
    wait_until(lambda: ask(port, "/api/v1/jobs")[0] == 200 and beside.events("token_renewed"), what="a page with the new token")
    assert is_ready(port)
    assert pages(state_dir) == first


def test_page_whose_port_is_taken_does_not_hold_the_server_up(server, port, state_dir, ctl):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        where = os.path.dirname(program("tfe-web"))
        s = server(f"--web={port}", env={"PATH": os.pathsep.join([where, os.environ["PATH"]])})
        ends = wait_until(lambda: s.events("web_ended"), what="a page that cannot start")
        assert ends[0]["again_ms"] >= 1000
        assert ctl("status").returncode == 0
    wait_until(lambda: is_ready(port), what="a page, once its port is free")


def test_page_whose_program_is_nowhere_is_told_in_the_log(server, port, ctl):
    s = server(f"--web={port}", env={"PATH": "/nonexistent"})
    wait_until(lambda: s.events("web_not_started"), what="the sentence")
    assert ctl("status").returncode == 0


def test_server_that_does_not_start_leaves_no_keeper(server, port, state_dir):
    server()
    second = server(f"--web={port}", ready=False)  # the directory is locked
    assert second.process.wait(20) != 0
    wait_until(lambda: not pages(state_dir) and not keepers(second), what="nobody")
