"""Unauthenticated connections and members that send too much: they exclude no client, hold no needed resource and fill
no disk."""

import contextlib
import resource
import select
import signal
import socket
import threading
import time

import pytest
from bystander import noise  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from raw_client import LIMIT_REACHED, Closed, Handshake, RawClient, Token, encode, node_id

IP_BIND_ADDRESS_NO_PORT = 24
RESET, ENDED, OPEN = "reset", "ended", "open"


class Strangers:
    """Connections from any address of 127.0.0.0/8, all of which are local."""

    def __init__(self, port):
        self.port, self.sockets = port, []

    def connect(self, address, says=b""):
        stranger = socket.socket()
        self.sockets.append(stranger)
        stranger.settimeout(DEADLINE)
        stranger.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        stranger.bind((address, 0))
        stranger.connect(("127.0.0.1", self.port))
        if says:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                stranger.sendall(says)
        return stranger

    def close(self):
        for stranger in self.sockets:
            stranger.close()


def state_of(stranger, wait=0.0):
    """Returns how the server left the connection. A connection that gets data fails the test."""
    if not select.select([stranger], [], [], wait)[0]:
        return OPEN
    try:
        assert stranger.recv(1) == b""
        return ENDED
    except ConnectionResetError:
        return RESET


@pytest.fixture
def strangers():
    made = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def make(server):
        made.append(Strangers(server.port))
        return made[-1]

    yield make
    for group in made:
        group.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def served(server, ctl):
    """Returns the seconds that an operator had to wait; checks that an agent gets in, too."""
    began = time.monotonic()
    done = ctl("status", "--timeout", "3s")
    took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    with RawClient(server.port, server.token("agent"), timeout=3) as agent:
        assert agent.join("late", job="late")[0] == "WELCOME"
    return took


@pytest.mark.parametrize("address", ["127.9.9.9", "127.0.0.1"], ids=["elsewhere", "same-address"])
def test_strangers_of_one_address_keep_nobody_out(server, ctl, strangers, address):
    s = server("--ttl", "3s")
    outside, waits = strangers(s), []
    with RawClient(s.port, s.token("agent")) as member:
        assert member.join("n1")[0] == "WELCOME"
        for _ in range(4300):
            outside.connect(address, b"T")
    end = time.monotonic() + 4  # longer than a lease
    while time.monotonic() < end:
        with RawClient(s.port, s.token("agent"), timeout=3) as member:
            assert member.join("n1")[0] == "WELCOME"
            member.send("RENEW", {1: 1})
            assert member.receive_until("RENEWED")
            for _ in range(8):
                outside.connect(address, b"T")
            waits.append(served(s, ctl))
            time.sleep(0.5)
    assert sorted(waits)[len(waits) // 2] < 0.5, waits
    assert not s.events("accepting_paused")
    assert not [e for e in s.events("node_lost") if e["node"] == node_id("n1")]


def test_strangers_of_many_addresses_keep_nobody_out(server, ctl, strangers):
    s = server()
    outside = strangers(s)
    for i in range(4400):
        outside.connect(f"127.{1 + i % 11}.{i // 11 % 100}.7", b"TFE1")
    assert min(served(s, ctl) for _ in range(3)) < 0.5


def test_of_a_full_address_the_oldest_connection_goes(server, strangers):
    s = server("--max-half-open-per-address", "3")
    outside = strangers(s)
    others = outside.connect("127.0.0.9")
    first, second, third, fourth = (outside.connect("127.0.0.8") for _ in range(4))
    # A reset: an orderly close after a first flight would mean that the token is wrong.
    assert state_of(first, DEADLINE) == RESET
    assert [state_of(x) for x in (second, third, fourth, others)] == [OPEN] * 4


def test_a_first_flight_that_lies_there_is_read_before_its_connection_goes(server, strangers):
    s = server("--max-half-open-per-address", "1")
    outside = strangers(s)
    flights = [Handshake(Token(s.token("agent"))).first() for _ in range(20)]
    honest = [outside.connect("127.0.0.8", flight) for flight in flights]
    for sock in honest:
        assert len(sock.recv(66, socket.MSG_WAITALL)) == 66


def test_a_first_flight_in_pieces_gets_in(server, strangers):
    s = server("--max-half-open-per-address", "4")
    outside = strangers(s)
    for _ in range(3):
        outside.connect("127.0.0.8", b"T")
    flight = Handshake(Token(s.token("agent"))).first()
    slow = outside.connect("127.0.0.8")
    for i in range(0, len(flight), 7):
        slow.sendall(flight[i : i + 7])
        time.sleep(0.01)
    assert len(slow.recv(66, socket.MSG_WAITALL)) == 66


def test_whoever_drips_bytes_is_cut_after_the_handshake_time(server, strangers):
    s = server("--max-half-open-per-address", "2")
    outside = strangers(s)
    flight = Handshake(Token(s.token("agent"))).first()
    began = time.monotonic()
    drips = [outside.connect("127.0.0.8") for _ in range(2)]
    for byte in flight[:-1]:
        if time.monotonic() - began > 15:
            break
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for sock in drips:
                sock.sendall(bytes([byte]))
        if all(state_of(sock) != OPEN for sock in drips):
            break
        time.sleep(0.2)
    assert 3 < time.monotonic() - began < 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_goes_calls_no_token_wrong(server, strangers, number):
    s = server()
    waiting = strangers(s).connect("127.0.0.8", Handshake(Token(s.token("agent"))).first()[:-1])
    assert state_of(waiting, 0.2) == OPEN
    s.stop(number)
    assert state_of(waiting, DEADLINE) == RESET


def test_descriptors_that_members_and_operators_need_are_not_lent_to_strangers(server, ctl, strangers):
    s = server(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    with RawClient(s.port, s.token("agent")) as member:
        assert member.join("n1")[0] == "WELCOME"
        outside = strangers(s)
        for i in range(200):
            outside.connect(f"127.0.{i}.7", b"TFE1")
            if i % 20 == 0:
                served(s, ctl)
        member.send("RENEW", {1: 1})
        assert member.receive_until("RENEWED")
        # Connections are dropped in time: the server always has some descriptors left.
        wait_until(lambda: sum(state_of(x) == OPEN for x in outside.sockets) <= 46, what="the end of the others")
    assert not s.events("accepting_paused")


# --- clients with a token ----------------------------------------------------------------------------------


def test_observers_leave_admins_descriptors(server):
    s = server(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    agents, observers = [], []
    try:
        for i in range(32):
            agents.append(RawClient(s.port, s.token("agent")))
            assert agents[-1].join(f"n{i}", job=f"j{i}")[0] == "WELCOME"
        refused = 0
        for _ in range(12):
            observers.append(RawClient(s.port, s.token("observer")))
            observers[-1].send("STATUS")
            refused += observers[-1].receive()[1][1] == [LIMIT_REACHED]
        assert refused >= 6
        with RawClient(s.port, s.token("admin")) as admin:
            admin.send("CANCEL", {1: "j1"})
            assert admin.receive()[0] == "DONE"
    finally:
        for client in agents + observers:
            client.sock.close()


@pytest.mark.parametrize("says", [b"", b"\xfe", b"\x02\x08\x01"], ids=["nothing", "no JOIN", "what is refused"])
def test_who_has_a_token_and_never_joins_keeps_nobody_out(server, ctl, says):
    """Regression: such connections took all descriptors for 5 to 30 s each: members could not return, and operators got
    no response."""
    s = server("--ttl", "3s", preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96)))
    over, held, waits = threading.Event(), [], []

    def hold():
        while not over.is_set():
            with contextlib.suppress(Closed, OSError):
                held.append(RawClient(s.port, s.token("agent"), timeout=3))
                if says:
                    held[-1].sock.sendall(held[-1].frame(says))
                if len(held) > 400:  # more than the server can have; this process holds the other ends
                    held[-400].sock.close()

    def welcomed():
        # Like an agent: before it has sent its token, it may be dropped to make room, like the others.
        with contextlib.suppress(Closed, ConnectionError), RawClient(s.port, s.token("agent"), timeout=3) as member:
            return member.join("n1")[0] == "WELCOME"

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        wait_until(lambda: len(held) > 120, what="the others")
        end = time.monotonic() + 2
        while time.monotonic() < end:
            began = time.monotonic()
            wait_until(welcomed, deadline=3, what="WELCOME")
            waits.append(time.monotonic() - began)
            assert ctl("status", "--timeout", "3s").returncode == 0
    finally:
        over.set()
        holder.join()
        for client in held:
            client.sock.close()
    assert sorted(waits)[len(waits) // 2] < 0.5, waits
    assert not s.events("accepting_paused")


class Talker(threading.Thread):
    """A member that sends as fast as it can, and reconnects when it is dropped."""

    def __init__(self, server):
        super().__init__()
        self.server, self.over, self.said, self.refused = server, threading.Event(), 0, 0

    def run(self):
        while not self.over.is_set():
            with contextlib.suppress(Closed, OSError), RawClient(self.server.port, self.server.token("agent")) as member:
                member.join("talker", job="loud", nodes=(1, 2))
                while not self.over.is_set():
                    notices = [encode({1: 2}), encode({1: 2, 3: 1})]
                    member.sock.sendall(b"".join(member.frame(b"\x09" + n) for n in notices * 50))
                    self.said += 100
                    while select.select([member.sock], [], [], 0)[0]:
                        self.refused += member.receive()[0] == "REFUSED"


def test_a_member_that_talks_without_end_delays_nobody_and_fills_no_disk(server, noise):
    s = server("--ttl", "3s", "--log-level", "info")
    talker = Talker(s)
    talker.start()
    try:
        time.sleep(2)  # the first messages are a burst
        began, size, slowest = time.monotonic(), s.log.stat().st_size, 0
        for number in range(20):
            asked = time.monotonic()
            with RawClient(s.port, s.token("agent")) as member:
                assert member.join("n1", job=f"job-{number}")[0] == "WELCOME"
                member.send("RENEW", {1: 1})
                assert member.receive_until("RENEWED")
            slowest = max(slowest, time.monotonic() - asked)
            time.sleep(0.2)
        rate = (s.log.stat().st_size - size) / (time.monotonic() - began)
    finally:
        talker.over.set()
        talker.join()
    assert talker.said > 1000 and talker.refused > 0
    assert slowest < noise.bound(1)
    assert rate < 8 * 1024, rate


def test_renewals_are_not_counted(server):
    s = server()
    with RawClient(s.port, s.token("agent")) as member:
        assert member.join("n1")[0] == "WELCOME"
        member.sock.sendall(b"".join(member.frame(b"\x02" + encode({1: n})) for n in range(1, 1001)))
        for number in range(1, 1001):
            assert member.receive_until("RENEWED", "REFUSED")[1][1] == [number]


def test_who_says_too_much_is_told_so(server):
    s = server()
    with RawClient(s.port, s.token("agent")) as member:
        assert member.join("n1")[0] == "WELCOME"
        for _ in range(300):
            member.send("NOTICE", {1: 2})
        assert member.receive_until("REFUSED")[1][1] == [LIMIT_REACHED]
        assert member.is_closed()


def test_answers_to_probes_are_not_counted(server):
    s = server("--ttl", "60")
    with contextlib.ExitStack() as nodes:
        members = []
        for number in range(150):
            node = nodes.enter_context(RawClient(s.port, s.token("agent")))
            members.append(node)
            assert node.join(f"n{number}", nodes=(200, 200))[0] == "WELCOME"
            epoch = node.receive_until("PREPARE")[1][1][0]
            node.send("READY", {1: epoch, 2: "127.0.0.1", 3: encode({0: 4711})[1:], 5: 1})
        # The other probed agents do not respond; no address was reached, and all are probed again.
        prober, answered, began = members[0], 0, time.monotonic()
        while answered < 220 + 20 * (time.monotonic() - began):
            name, fields = prober.receive_until("PROBE", "REFUSED")
            assert name == "PROBE", f"refused after {answered} answers"
            prober.send("PROBED", {1: fields[1][0], 2: 4})
            answered += 1
