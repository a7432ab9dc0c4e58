"""Thousands of clients that never finish a request: tfe-web stays bounded and serves the others, and the server behind
it receives nothing of them."""

import contextlib
import itertools
import os
import resource
import socket
import time

import pytest
from bystander import noise  # noqa: F401 (a fixture)
from conftest import wait_until
from raw_client import RawClient
from web import cpu_s, descriptors, start

FULL = bool(os.environ.get("TFE_TEST_FULL"))
# Descriptors besides HTTP connections: the loop's, the log, one connection to the server.
OWN_DESCRIPTORS = 40
# libevent closes a freed connection in the loop's next iteration, and one iteration accepts up to a full backlog.
BACKLOG = 256


def rss(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Crowd:
    """Connections that begin a request and continue it byte by byte; closed ones are not reopened."""

    def __init__(self, port):
        self.port, self.held = port, []

    def __enter__(self):
        self.files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.files[1], self.files[1]))
        return self

    def come(self, n):
        for _ in range(n):
            one = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            one.setblocking(False)
            self.held.append(one)

    def drip(self):
        for one in self.held:
            with contextlib.suppress(OSError):
                one.send(b"a")

    def is_alone(self):
        """Returns True if the other side has closed all connections."""
        self.drip()
        time.sleep(0.2)
        return all(self._is_shut(one) for one in self.held)

    @staticmethod
    def _is_shut(one):
        try:
            return one.recv(4096) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def __exit__(self, *_):
        for one in self.held:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, self.files)


@pytest.mark.parametrize("crowd,places", [(10000, 512) if FULL else (600, 64)])
def test_a_crowd_that_never_finishes_a_sentence(server, state_dir, tmp_path, noise, crowd, places):  # noqa: F811
    """With a hundred times as many clients as slots, each keeps its slot only until others come; an open page stays,
    and an agent's renewals are answered as usual."""
    s = server()
    free = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}  # freed memory leaves the quarantine early
    with start(state_dir, tmp_path, f"--max-connections={places}", env=free) as web, RawClient(s.port, s.token("agent")) as agent, \
            Crowd(web.port) as slow:
        agent.join("steady", job="j")
        page = web.listen()
        next(page)
        memory, spent, began = rss(web.pid), cpu_s(s.pid), time.monotonic()
        late, asked, most, numbers = [], [], 0, itertools.count(1)
        for _ in range(20):
            slow.come(crowd // 20)
            most = max(most, descriptors(web.pid))
            asks = time.monotonic()
            assert web.get("/healthz") == {"status": "ok"}
            asked.append(time.monotonic() - asks)
            number, asks = next(numbers), time.monotonic()
            agent.send("RENEW", {1: number})
            assert agent.receive_until("RENEWED")[1][1] == [number]
            late.append(time.monotonic() - asks)
        took, spent = time.monotonic() - began, cpu_s(s.pid) - spent
        grown = rss(web.pid) - memory
        print(f"{crowd} in {took:.1f} s: {most} descriptors, {grown >> 20} MiB, answered within {max(asked) * 1000:.0f} ms, "
              f"renewals within {max(late) * 1000:.0f} ms, {spent:.2f} s of the server's")
        gauges = web.gauges()
        assert most <= places + BACKLOG + OWN_DESCRIPTORS and gauges["tfe_web_connections"] <= places
        assert gauges["tfe_web_connections_shut_total"] >= crowd - places - 1
        assert gauges["tfe_web_pages"] == 1 and gauges["tfe_web_pages_cut_total"] == 0
        # Data per connection that is read but not parsed, and the sanitizer's quarantine.
        assert grown < places * 64 * 1024 + (12 << 20)
        assert spent < 0.1 + took / 20, "the server works for who asks tfe-web for nothing"
        assert max(asked) < noise.bound(1) and max(late) < noise.bound(0.1)
        page.close()


@pytest.mark.heavy
def test_who_drips_has_no_place_for_ever(server, state_dir, tmp_path):
    """With slots for all: each byte restarts evhttp's own timeout, while tfe-web's covers the whole request."""
    server()
    with start(state_dir, tmp_path, *(["--max-connections=6000"] if FULL else [])) as web, Crowd(web.port) as slow:
        slow.come(5000 if FULL else 200)
        wait_until(slow.is_alone, 90, what="their end")
        wait_until(lambda: web.gauges()["tfe_web_connections"] == 1, what="the place of each")
        assert web.gauges()["tfe_web_connections_shut_total"] >= len(slow.held)
        assert descriptors(web.pid) <= OWN_DESCRIPTORS
