"""A hostile member beside an honest job, on the same server and with the same token: whatever it sends, it hurts only
itself. The honest job's epoch and trainers stay, its renewals are in time, log and memory are bounded, and the server
can restart from its database."""

import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import hostile
import pytest
from agents import fleet  # noqa: F401 (a fixture)
from bystander import noise  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from hostile import GOES_ON, GONE, answer_to, join
from programs import is_alive, program
from raw_client import NOT_AUTHORISED, Closed, RawClient, Token, decode, node_secret, table_digest

QUICK = ("--ttl", "3s", "--gather", "0.3")
IS_SANITIZED = b"__asan_init" in pathlib.Path(program("tfe-rdzv")).read_bytes()
MEMORY_KIB = (512 if IS_SANITIZED else 24) * 1024  # includes the memory in which freed blocks are quarantined


def rss_kib(s):
    return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{s.pid}/status").read_text())[1])


class Pulse(threading.Thread):
    """An honest member of its own job that renews all the time and records each delay."""

    def __init__(self, server, name="pulse", pause_s=0.02):
        super().__init__()
        self.took, self.failed, self.over, self.pause_s = [], None, threading.Event(), pause_s
        self.member = RawClient(server.port, server.token("agent"), timeout=DEADLINE)
        assert self.member.join(name, job=name, nodes=(2, 2))[0] == "WELCOME"

    def run(self):
        try:
            while not self.over.wait(self.pause_s):
                began = time.monotonic()
                self.member.send("RENEW", {1: len(self.took)})
                assert self.member.receive_until("RENEWED", "REFUSED", "LEASE_ENDED")[0] == "RENEWED"
                self.took.append(time.monotonic() - began)
        except Exception as error:
            self.failed = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        self.member.sock.close()
        assert not self.failed, self.failed

    def mark(self):
        return len(self.took)

    def since(self, mark, share=0.99):
        took = sorted(self.took[mark:])
        return took[min(len(took) - 1, int(len(took) * share))]


class Honest:
    """Two agents that train, a pulse, and the state that must not change."""

    def __init__(self, server, fleet, ctl, options):
        self.server, self.fleet, self.ctl, self.options = server, fleet, ctl, options
        self.s = server(*options)
        self.agents = [fleet.start("--nnodes=2:2", "--job=honest") for _ in range(2)]
        self.epoch = fleet.wait_world(2)
        self.pids = {line["pid"] for line in fleet.starts()}
        self.token = self.s.token("agent")
        self.rss, self.log_size, self.began = rss_kib(self.s), self.s.log.stat().st_size, time.monotonic()
        done = ctl("nodes", "--json", "honest")
        self.ids = [node["node"] for node in json.loads(done.stdout)["nodes"]]

    def client(self):
        return RawClient(self.s.port, self.token, timeout=DEADLINE)

    def check(self, what=""):
        assert self.s.process.poll() is None, what
        assert all(agent.process.poll() is None for agent in self.agents), what
        assert self.fleet.last_epoch() == self.epoch, what
        assert {line["pid"] for line in self.fleet.starts()} == self.pids and all(map(is_alive, self.pids)), what

    def check_bounds(self, log_bytes, memory_kib=MEMORY_KIB):
        grown = self.s.log.stat().st_size - self.log_size
        assert grown < log_bytes, f"{grown} bytes of log"
        assert rss_kib(self.s) - self.rss < memory_kib, f"{self.rss} KiB before, {rss_kib(self.s)} after"
        assert hostile.is_plain(self.s.log.read_bytes())
        self.check_events()

    def check_events(self):
        """Asserts that no node was lost or suspected and no epoch restarted."""
        for event in self.s.events():
            if event.get("job") == "honest" and event.get("node", self.ids[0]) in self.ids:
                assert event["event"] not in ("node_lost", "switch", "restarts", "node_suspect", "mass_loss", "node_refused"), event

    def restart_and_finish(self):
        """Checks the database: another server continues with the same trainers, and the job succeeds."""
        assert self.s.stop(signal.SIGKILL) == -signal.SIGKILL
        self.s = self.server(*self.options, port=self.s.port)
        assert not self.s.events("job_set_aside")
        assert [e["members"] for e in self.s.events("job_restored") if e["job"] == "honest"] == [2]
        wait_until(lambda: len([e for e in self.s.events("node_back") if e.get("job") == "honest"]) == 2, what="the agents' return")
        self.check("after a restart")
        self.fleet.order("exit 0")
        assert [agent.wait() for agent in self.agents] == [0, 0]
        assert self.fleet.last_epoch() == self.epoch
        self.fleet.check_views()


@pytest.fixture
def honest(server, fleet, ctl):
    """Uses the default log, which must stay bounded here."""
    return lambda *options: Honest(server, fleet, ctl, (*QUICK, "--log-level=info", *options))


def test_a_peer_of_another_making_is_a_member_like_any_other(server, fleet):
    """Two independent members train: the table that they receive has the digest in START, and all their requests
    succeed."""
    s = server(*QUICK)
    with RawClient(s.port, s.token("agent")) as a, RawClient(s.port, s.token("agent")) as b:
        for name, member in (("a", a), ("b", b)):
            assert member.join(name, nodes=(2, 2))[0] == "WELCOME"
        for port, member in ((4001, a), (4002, b)):
            member.ready(member.receive_until("PREPARE")[1][1][0], ports=[port])
        for member in (a, b):
            rows = [decode(row) for row in member.receive_until("TABLE")[1][4]]
            start = member.receive_until("START")[1]
            digest = table_digest((row[2][0], row[3][0]) for row in sorted(rows, key=lambda row: row[1][0]))
            assert start[7] == [digest]
            member.send("LISTENING", {1: start[1][0]})
            member.send("RENEW", {1: 5})
            assert member.receive_until("RENEWED")[1][1] == [5]
        for member in (a, b):
            member.send("EXITED", {1: start[1][0]})
            assert member.receive_until("NOTED")[1][1] == start[1]
        for member in (a, b):
            assert member.receive_until("FINISH")[1][1] == [1]
            member.send("GOODBYE", {1: 1})
            assert member.is_closed()


# --- single messages -----------------------------------------------------------------------------------


def say_all(h, rows, wrong, **how):
    """Sends each message on a connection that is replaced when the server ends it, as a member of the job in `how`."""
    with contextlib.ExitStack() as stack:
        member = None
        for said, (name, fields, wanted) in enumerate(rows):
            if member is None or said % 60 == 0:  # stays below the limit per second
                member = stack.enter_context(h.client())
                member.send("JOIN", join(**how))
            got = answer_to(member, name, fields)
            if got != wanted:
                wrong.append((name, fields, f"said {got}, not {wanted}"))
            if got == GONE or isinstance(got, int) and got > 0:
                member.sock.close()
                member = None


def test_whatever_a_member_says_it_hurts_only_itself(honest, ctl, noise):
    h = honest()
    wrong = []
    spare = {"name": "spare", "job": "honest"}
    with Pulse(h.s) as pulse, contextlib.ExitStack() as stack:
        mark = pulse.mark()
        for flight in hostile.first_flights(Token(h.token)):
            with socket.create_connection(("127.0.0.1", h.s.port), timeout=DEADLINE) as stranger:
                stranger.sendall(flight)
                with contextlib.suppress(ConnectionError):
                    assert stranger.recv(1) == b"", flight
        h.check("first flights")
        halves = [stack.enter_context(h.client()) for _ in range(30)]
        for i, member in enumerate(halves):
            member.send("JOIN", join(f"half{i}"))
            member.sock.sendall(member.frame(b"\x02\x08\x01")[: 1 + i % 18])
        for name, fields, wanted in hostile.first_messages():
            with h.client() as member:
                if (got := answer_to(member, name, fields)) != wanted:
                    wrong.append((name, fields, f"said {got}, not {wanted}"))
        h.check("before JOIN")
        for fields in hostile.illegal_joins():
            with h.client() as member:
                if (got := answer_to(member, "JOIN", fields)) != GONE:
                    wrong.append(("JOIN", fields, f"said {got}, not {GONE}"))
        h.check("JOINs without sense")
        contents = [(name, fields, GONE) for name, fields in hostile.illegal_contents()]
        say_all(h, contents, wrong)
        h.check("contents without sense")
        for job in ({}, spare):
            say_all(h, hostile.out_of_place(h.epoch), wrong, **job)
            h.check(f"out of place {job}")
            say_all(h, hostile.refused(h.epoch, **job), wrong, **job)
            h.check(f"refused {job}")
        for what, make in hostile.wrong_frames(1).items():
            with h.client() as member:
                member.send("JOIN", join())
                member.sock.sendall(make(member))
                if what == "cut":
                    member.sock.shutdown(1)
                if not member.is_closed():
                    wrong.append((what, "frame", "did not close"))
        h.check("frames")
        for other in h.ids:
            for secret in (node_secret("evil").hex(), other * 2, "0" * 64):
                with h.client() as member:
                    if (got := answer_to(member, "JOIN", join(job="honest", f2=other, f23=secret))) != NOT_AUTHORISED:
                        wrong.append(("JOIN", other, f"said {got}"))
        h.check("others' ids")
        for label in (hostile.C1, hostile.BIDI, hostile.NO_UTF8, hostile.OVERLONG):
            with h.client() as member:
                if (got := answer_to(member, "JOIN", join("named", "named"))) != GOES_ON:
                    wrong.append(("JOIN", label, f"said {got}"))
                if (got := answer_to(member, "MACHINE_INFO", {1: 1, 2: 1, 3: 1, 4: label})) != GOES_ON:
                    wrong.append(("MACHINE_INFO", label, f"said {got}"))
                for verb in ("nodes", "status"):
                    for form in ([], ["--json"]):
                        shown = ctl(verb, *form, "named")
                        assert shown.returncode == 0 and hostile.is_plain((shown.stdout + shown.stderr).encode()), shown
        for i, fields in enumerate(hostile.edge_joins()):
            for name, job in ((f"edge{i}", f"edge{i}"), ("fellow", "honest")):
                with h.client() as member, contextlib.suppress(Closed, ConnectionError):
                    member.send("JOIN", join(name, job) | fields)
                    member.receive()
        h.check("edges")
        assert hostile.edge_lives(h.s.port, h.token) > 10
        for question in (["status"], ["nodes"], ["epochs", "new0"], ["status", "--json"]):
            shown = ctl(*question)
            assert shown.returncode == 0 and hostile.is_plain((shown.stdout + shown.stderr).encode()), shown
        h.check("lives")
        assert pulse.since(mark, 1) < noise.bound(1.5), "half of a lease"
    assert not wrong, "\n".join(map(str, wrong))
    h.check_bounds(log_bytes=1 << 20)
    h.restart_and_finish()


# --- floods --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def flood(server, kind, seconds, number=0):
    """Runs a process that floods; the yielded list gets the number of messages sent."""
    said = []
    process = subprocess.Popen([sys.executable, hostile.__file__, kind, str(seconds), str(server.port),
                                str(server.state_dir / "agent.token"), str(number)], stdout=subprocess.PIPE, text=True)
    try:
        yield said
        said.append(int(process.communicate(timeout=seconds + DEADLINE)[0]))
    finally:
        process.kill()
        process.wait()


def test_one_member_at_full_rate_makes_no_other_job_late(server, noise):
    """Compared with a floor measured in the same run, which includes the load of the machine."""
    s = server(*QUICK)
    with Pulse(s, pause_s=0.002) as pulse:
        floors, late = {}, {}
        for kind in ("renew", "notice", "join", "jobs"):
            mark = pulse.mark()
            time.sleep(0.3)
            floors[kind] = pulse.since(mark)
            with flood(s, kind, 1.2) as said:
                time.sleep(0.5)  # time to start
                mark = pulse.mark()
                time.sleep(0.7)
                late[kind] = pulse.since(mark)
            assert said[0] > 20, (kind, said)
    print(floors, late)
    assert max(late.values()) < max(noise.bound(0.3 if IS_SANITIZED else 0.1), 10 * max(floors.values())), (floors, late)


@pytest.mark.heavy
def test_all_floods_at_once_beside_an_honest_job(honest, noise):
    h = honest()
    with Pulse(h.s) as pulse, contextlib.ExitStack() as floods:
        mark = pulse.mark()
        said = {kind: floods.enter_context(flood(h.s, kind, 12, number)) for number, kind in enumerate(hostile.FLOODS)}
        while not all(said.values()):
            h.check("flooded")
            assert len(pulse.took) > mark
            time.sleep(0.5)
            if time.monotonic() - h.began > 14:
                break
        floods.close()
        worst = pulse.since(mark, 1)
    took = time.monotonic() - h.began
    print(said, "worst", worst, "log", h.s.log.stat().st_size, "KiB", h.rss, rss_kib(h.s), "s", took)
    assert all(count[0] > 20 for count in said.values()), said
    assert worst < noise.bound(1.5), "half of a lease"
    h.check_bounds(log_bytes=64 * 1024 * took)
    h.restart_and_finish()


@pytest.mark.heavy
def test_thousands_of_jobs_leave_room_for_an_honest_one(honest, status, noise):
    h = honest("--max-jobs-per-token", "3000")
    opened = 0
    with Pulse(h.s) as pulse:
        mark = pulse.mark()
        while opened < 3500 and time.monotonic() - h.began < 240:  # a slow machine needs that limit
            with flood(h.s, "jobs", 3, opened) as one, flood(h.s, "jobs", 3, f"{opened}.") as two:
                pass
            opened += one[0] + two[0]
            h.check("jobs")
        assert opened >= 3500, opened

        def welcomed():
            with h.client() as member:
                return member.join("late", job="late")[0] == "WELCOME"
        wait_until(welcomed, deadline=3 + noise.bound(1), what="a place")  # held sessions stay for a lease
        assert pulse.since(mark, 1) < noise.bound(1.5), "half of a lease"
    print(opened, "jobs, log", h.s.log.stat().st_size, "KiB", h.rss, rss_kib(h.s), "worst", pulse.since(mark, 1))
    assert len(status()) <= 3000
    h.check_bounds(log_bytes=1024 * opened, memory_kib=MEMORY_KIB + 3000 * 16)
    h.restart_and_finish()
