"""Invalid messages from a member, written from proto/PROTOCOL.md alone: tables of messages with the response that the
protocol requires, and floods.

Usage: hostile.py FLOOD SECONDS PORT TOKEN_FILE [NUMBER]
Floods a server from a separate process, at full rate; prints the number of messages sent.
"""

import contextlib
import hashlib
import itertools
import os
import pathlib
import random
import select
import sys
import time

from raw_client import (BAD_REQUEST, NOT_AUTHORISED, TYPES, Closed, Fixed64, Handshake, RawClient, encode, facts, node_id, node_secret,
                        table_digest, varints)

DAYS_30 = 2_592_000_000
EDGES = [0, 1, 2, 64, 65, 2**16, 2**16 + 1, 2**20, 2**20 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**52 - 1, 2**52, 2**53 - 1,
         2**53, 2**63 - 1, 2**63, 2**64 - 1]  # fmt: skip
NO_IDS = [".", "..", ".hidden", "-x", "--help", "../x", "@a"]  # a path, an option, a label reserved for the server
GONE = "closed"
GOES_ON = "goes on"

# Deceptive texts: escapes, C1 controls, bidi controls, invalid UTF-8, incomplete sequences.
C1, BIDI, NO_UTF8, OVERLONG = b"\xc2\x9b2J\xc2\x85", "\u202ergba\u2066".encode(), b"\xff\xfe\x80", b"\xc0\xaf\xe0\x80\xaf\xf8\x88"
ESCAPES = b"\x1b[2J\x1b]0;x\x07\r\n\x7f"


def is_plain(data):
    """Returns True if the data contains no terminal or bidi control."""
    return not any(ord(c) < 32 and c != "\n" or 0x7F <= ord(c) <= 0x9F or c in "\u061c\u200e\u200f\u2028\u2029" or
                   "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" for c in data.decode())  # fmt: skip


def answer_to(member, name, fields, number=itertools.count(1)):
    """Returns the server's response to one message: GONE, GOES_ON (it answers the next RENEW), or the code of a
    refusal, negative if the session continues."""
    nth, said = next(number), []
    try:
        plain = name if isinstance(name, bytes) else bytes([TYPES[name]]) + encode(fields)
        member.sock.sendall(member.frame(plain) + member.frame(b"\x02" + encode({1: nth})))
        while True:
            what, told = member.receive()
            if what == "RENEWED" and told[1] == [nth]:
                return -said[-1] if said else GOES_ON
            if what == "REFUSED":
                said.append(told[1][0])
    except (Closed, ConnectionError):
        return said[-1] if said else GONE


# --- single messages -----------------------------------------------------------------------------------


def join(name="evil", job="evil", **more):
    """Returns the fields of a JOIN; f4=… changes one, None leaves it out."""
    fields = {1: job, 2: node_id(name), 3: "label", 4: 2, 5: 2, 6: 1, 23: node_secret(name).hex()}
    fields.update({int(key[1:]): value for key, value in more.items()})
    return {number: value for number, value in fields.items() if value is not None}


def running(**more):
    fields = {1: 1, 2: 0, 3: 2, 4: 2, 5: Fixed64(7), 6: "127.0.0.1", 7: varints([4711]), 8: 1}
    fields.update({int(key[1:]): value for key, value in more.items()})
    return encode(fields)


def ready(**more):
    fields = {1: 1, 2: "127.0.0.1", 3: varints([4711])}
    fields.update({int(key[1:]): value for key, value in more.items()})
    return {number: value for number, value in fields.items() if value is not None}


def first_messages():
    """Yields (message, fields, response) for messages that are not allowed before JOIN."""
    for name, fields in [("RENEW", {1: 1}), ("READY", ready()), ("LISTENING", {1: 1}), ("EXITED", {1: 1}), ("GOODBYE", {1: 1}),
                         ("PROCESSES", {}), ("ENROL", {1: "ab" * 32}), ("PROGRESS", {1: 1}), ("NOTICE", {1: 2}), ("PROBED", {1: 1, 2: 5}), ("DEATH", {1: "ab" * 32})]:
        yield name, fields, BAD_REQUEST


ILLEGAL_EXITED = [{}, {1: 0}, {1: 2**53}, {1: 1, 2: 64}, {1: 1, 3: 256}, {1: 1, 4: 129}, {1: 1, 3: 1, 4: 9}, {1: 1, 6: "x" * 4097},
                  {1: 1, 6: b"a\0b"}, {1: 1, 7: 5}]  # fmt: skip


def illegal_joins():
    """Yields invalid JOINs, which close the connection (rule 12)."""
    values_of = {"f1": ["", "a" * 65, "a/b", "a b", "ä", b"a\0", b"\xff", *NO_IDS],
                "f3": ["x" * 65, "a\n", "a b", ESCAPES, BIDI, C1, b"a\0b", b"\x1b", *NO_IDS],
                "f4": [0, 3, 2**32 - 1], "f5": [0, 1, 65537, 2**32 - 1], "f6": [0, 65, 2**32 - 1], "f7": [1_000_001, 2**32 - 1],
                "f8": [DAYS_30 + 1, 2**32 - 1], "f9": [DAYS_30 + 1], "f10": [DAYS_30 + 1], "f11": [2**53, 2**64 - 1],
                "f12": [2**53, 2**64 - 1], "f14": [2**31, 2**32 - 1], "f16": [DAYS_30 + 1], "f19": ["", "a" * 65, "a b", b"\0"],
                "f29": ["", "ab", "AB" * 32], "f30": [65536, 2**32 - 1],
                "f21": [DAYS_30 + 1], "f23": [None, "", "0" * 63, "0" * 65, b"\0" * 64]}  # fmt: skip
    for field, values in values_of.items():
        for value in values:
            yield join(**{field: value})
    for field, values in {"f1": [0, 2**31, 2**32 - 1], "f2": [2, 2**32 - 1], "f3": [0, 65537, 3], "f4": [0, 1, 4_194_305, 2**32 - 1],
                          "f6": ["", "a b", "a\0", "h" * 254],
                          "f7": [b"", varints([0]), varints([65536]), varints([1, 2]), varints(range(1, 66))],
                          "f8": [0, 12, 2**31]}.items():  # fmt: skip
        for value in values:
            yield join(f12=1, f22=running(**{field: value}))
    for exited in ILLEGAL_EXITED:
        yield join(f15=encode(exited))


def illegal_contents():
    """Yields invalid messages of a member."""
    yield from (("READY", ready(**{field: value})) for field, values in {
        "f1": [0, 2**53, 2**64 - 1, None], "f2": ["", "a b", "a\0", "h" * 254, C1, NO_UTF8, None],
        "f3": [None, b"", varints([0]), varints([65536]), varints([2**64 - 1]), varints(range(1, 66)), b"\x80"],
    }.items() for value in values)
    for name, rows in {
        "RENEW": [{}, {1: "x"}], "LISTENING": [{}, {1: 0}, {1: 2**53}],
        "EXITED": ILLEGAL_EXITED,
        "PROCESSES": [{2: varints([0])}, {2: varints([2**31])}, {2: varints(range(1, 66))}, {3: varints(range(1, 66))}, {1: 2**31}],
        "PROGRESS": [{}, {1: 0}, {1: 2**53}, {1: 1, 2: 2**63}, {1: 1, 3: 2**63}, {1: 1, 5: 2**53}],
        "NOTICE": [{}, {1: 0}, {1: 6}, {1: 2**32 - 1}, {1: 2, 2: DAYS_30 + 1}],
        "PROBED": [{}, {1: 1}, {1: 1, 2: 0}, {1: 1, 2: 6}, {2: 5}],
        "DEATH": [{}, {1: ""}, {1: "g" * 64}, {1: "AB" * 32}, {1: "a" * 63}, {1: "a" * 66}],
        "ENROL": [{}, {1: ""}, {1: "g" * 64}, {1: "AB" * 32}, {1: "a" * 63}, {1: "a" * 66}],
    }.items():  # fmt: skip
        yield from ((name, fields) for fields in rows)
    # Invalid or truncated protobuf.
    for tail in (b"\xff", b"\x08", b"\x08" + b"\xff" * 11, b"\x0b\x0c", b"\x0a\xff\xff\xff\xff\x0f", b"\x0d\x01", b"\x00\x01", b"\x08\x80"):
        yield bytes([TYPES["NOTICE"]]) + b"\x08\x02" + tail, {}
    # Types that only a server sends.
    for name in ("WELCOME", "RENEWED", "TABLE", "START", "PROBE", "FINISH", "REFUSED", "SAVE", "STATUS_JOB"):
        yield bytes([TYPES[name]]) + b"\x08\x01", {}


def out_of_place(epoch):
    """Yields (message, fields, response) for messages that a member may send about an epoch to which it does not
    belong: they have no effect."""
    for e in (epoch - 1, epoch, epoch + 1, epoch + 2**20, 2**53 - 1):
        if e < 1:
            continue
        yield "LISTENING", {1: e}, GOES_ON
        yield "EXITED", {1: e, 3: 1, 6: ESCAPES + C1 + BIDI + NO_UTF8}, GOES_ON
        yield "EXITED", {1: e, 5: 1}, GOES_ON
        yield "PROGRESS", {1: e, 2: 2**63 - 1, 3: 2**63 - 1, 4: 2**32 - 1, 5: 2**53 - 1, 6: 1}, GOES_ON
    for e in (epoch - 1, epoch + 1, epoch + 2**20, 2**53 - 1):
        if e > 0:
            yield "READY", ready(f1=e), GOES_ON
    for number in EDGES:
        yield "PROBED", {1: number, 2: 1 + number % 5}, GOES_ON
    for kind in range(1, 6):
        yield "NOTICE", {1: kind, 2: DAYS_30}, GOES_ON
        yield "NOTICE", {1: kind, 2: 0, 3: 1}, GOES_ON
    yield "PROCESSES", {1: 2**31 - 1, 2: varints([2**31 - 1]), 3: varints([1])}, GOES_ON
    for number in (0, 13, 31, 77, 127, 128, 255):
        yield bytes([number]) + b"\xff" * 50, {}, GOES_ON
    # Thousands of fields of a later version, in any order.
    yield b"\x09" + encode([(1000 + n, n) for n in range(3000)]) + encode([(1, 1), (1, 5), (1, 2)]), {}, GOES_ON
    yield "NOTICE", {1: 2, 3: 1}, GOES_ON


def refused(epoch, **who):
    """Yields (message, fields, response) for messages of a member that the protocol rejects."""
    for name, fields in [("STATUS", {}), ("DRAIN", {1: "label"}), ("EVICT", {1: "label"}), ("CANCEL", {1: "honest"}),
                         ("FORGET", {1: "honest"}), ("GROW", {1: "honest"}), ("BACKUP", {1: "copy"}), ("EPOCHS", {1: "honest"}),
                         ("PREPARE", {1: 1}), ("STOP", {1: 1}), ("NOTED", {1: 1}), ("LEASE_ENDED", {1: 1}), ("DONE", {})]:
        yield name, fields, -NOT_AUTHORISED
    for host in ("8.8.8.8", "169.254.169.254", "10.0.0.1", "::ffff:8.8.8.8", "[2001:db8::1]", "fe80::1%eth0", "0.0.0.0", "::",
                 "255.255.255.255", "224.0.0.1", "example.org", "134744072", "0x08080808", "127.0.0.1.", "localhost.", "h" * 253):
        yield "READY", ready(f1=epoch, f2=host), BAD_REQUEST
    yield "READY", ready(f3=varints([1, 2])), BAD_REQUEST
    yield "PROCESSES", {2: varints(range(1, 65)), 3: varints(range(1, 65))}, BAD_REQUEST
    for highest in (2**52, 2**53 - 1):
        yield "JOIN", join(**who, f11=highest), BAD_REQUEST
    yield "JOIN", join(job="another"), BAD_REQUEST
    yield "JOIN", join("somebody else", who.get("job", "evil")), BAD_REQUEST


def edge_joins():
    """Yields JOINs with every number at every limit, each for a job of its own: nothing breaks, whatever the
    response."""
    for field, value in itertools.product((4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 21), EDGES):
        yield {field: value} | ({5: max(value, 2)} if field == 4 else {})
    for field, value in itertools.product((1, 2, 3, 4, 8), EDGES):
        for epoch in (1, 2**20, 2**52 - 1):
            yield {11: epoch, 12: epoch, 22: running(**{f"f{field}": value})}
            yield {11: epoch, 15: encode({1: epoch, 3: 1}), 22: running(**{f"f{field}": value})}


def edge_lives(port, token):
    """Runs jobs of one node that report extreme numbers; ends them, and starts the next run. Returns how many sessions
    the server kept."""
    lives = {f"life{i}": numbers for i, numbers in enumerate(itertools.product(EDGES, (1, 2**20, 2**20 + 1, 2**52 - 1)))}
    ended, digest = 0, table_digest([(b"127.0.0.1", 4711)])
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(RawClient(port, token)) for _ in lives]
        for member, (name, (run, epoch)) in zip(members, lives.items()):
            with contextlib.suppress(ConnectionError):
                member.send("JOIN", join(name, name) | {4: 1, 5: 1, 11: epoch, 12: epoch, 22: running(f1=run, f3=1, f4=1, f5=digest)})
                member.send("PROGRESS", {1: epoch, 2: 2**63 - 1, 3: 2**63 - 1, 4: 2**64 - 1, 5: 2**53 - 1, 6: 1})
                member.send("EXITED", {1: epoch, 6: ESCAPES + C1 + BIDI + NO_UTF8})
        while ready_ones := select.select([m.sock for m in members], [], [], 0.5)[0]:
            for member in [m for m in members if m.sock in ready_ones]:
                try:
                    is_over = member.receive()[0] == "FINISH"
                    ended += is_over
                except (Closed, ConnectionError):
                    is_over = True
                if is_over:
                    members.remove(member)
    for name, more in itertools.product(lives, ({17: 1}, {19: "next", 7: 1_000_000})):
        with contextlib.suppress(Closed, ConnectionError), RawClient(port, token) as member:
            member.send("JOIN", join(name, name) | {4: 1, 5: 1} | more)
            member.receive()
    for life, epoch in enumerate((0, 1, 2**20)):
        for key in ("one", "two"):
            with RawClient(port, token) as member:
                member.send("JOIN", join(f"new{life}", f"new{life}") | {4: 1, 5: 1, 7: 0, 11: epoch, 19: key})
                epoch = member.receive_until("PREPARE")[1][1][0]
                member.ready(epoch)
                assert member.receive_until("START")[1][1] == [epoch]
                member.send("PROGRESS", {1: epoch, 2: 2**63 - 1, 3: 2**63 - 1, 4: 2**64 - 1, 5: 2**53 - 1, 6: 1})
                member.send("EXITED", {1: epoch, 3: 255, 6: BIDI * 400})
                member.receive_until("FINISH")
                ended += 1
    return ended


def wrong_frames(seed):
    """Yields invalid or unexpected frames: what they are, and how a member makes them. Each ends its session."""
    some, renew = random.Random(seed).randbytes, b"\x02\x08\x01"

    def out_of_order(member):
        first = member.frame(renew)
        return member.frame(renew) + first

    return {
        "forged": lambda member: (good := member.frame(renew))[:-1] + bytes([good[-1] ^ 1]),
        "replayed": lambda member: 2 * member.frame(renew),
        "out of order": out_of_order,
        "empty": lambda member: b"\0\0",
        "too short": lambda member: b"\0\x10" + bytes(16),
        "too long": lambda member: b"\x40\x01" + some(16385),
        "longest": lambda member: b"\xff\xff" + some(65535),
        "random": lambda member: some(500),
        "no type": lambda member: member.frame(b""),
        "cut": lambda member: member.frame(renew) + member.frame(renew)[:7],
    }


def first_flights(token):
    """Yields invalid first flights from the holder of a valid token; none is answered."""
    for low, high in ((0, 0), (0, 1), (3, 3), (3, 2**32 - 1), (2, 1), (2**32 - 1, 0)):
        yield Handshake(token, facts(low, high)).first()
    yield Handshake(token, facts()[:15]).first()
    yield Handshake(token, facts() + bytes(401)).first()  # one byte above the limit

    head = Handshake(token).head
    for e in (bytes(32), b"\1" + bytes(31), b"\xff" * 32):  # points of small order, and no point
        flight = head + e + os.urandom(32)
        yield flight + hashlib.blake2b(flight, digest_size=16, key=token.subkey(2)).digest()


# --- floods --------------------------------------------------------------------------------------------


def blast(member, plains, end, is_deaf):
    """Sends these frames repeatedly until the time is over or the server closes the connection. Responses are drained
    from the socket without parsing, or left there if is_deaf."""
    sent = 0
    member.sock.setblocking(False)
    while time.monotonic() < end:
        data = memoryview(b"".join(member.frame(p) for p in plains * (1 + 500 // len(plains))))
        while data and time.monotonic() < end:
            can_read, can_write, _ = select.select([] if is_deaf else [member.sock], [member.sock], [], 0.1)
            try:
                if can_read and not member.sock.recv(1 << 18):
                    return sent
                if can_write:
                    data = data[member.sock.send(data):]
            except ConnectionError:
                return sent
        sent += 500
    return sent


def flood(kind, seconds, port, token, number):
    """kind@JOB floods as a member of that job."""
    kind, _, job = kind.partition("@")
    name = f"flood{number}"
    job = job or name
    end, sent, turn = time.monotonic() + seconds, 0, 0
    notice, withdrawn = (b"\x09" + encode({1: 2, 3: n}) for n in (0, 1))
    renew = b"\x02" + encode({1: 1})
    plains = {
        "renew": [renew],
        "deaf": [renew],
        "notice": [notice, withdrawn],
        "join": [b"\x01" + encode(join(name, job))],
        "progress": [b"\x08" + encode({1: 1, 2: n, 3: n, 4: n, 5: n}) for n in range(1, 9)],
        "epochs": [b"\x01" + encode(join(name, job, f11=n)) for n in range(1, 500)],
        "unknown": [b"\xfe" + bytes(1000)],
        "status": [b"\x40"],
        "exited": [b"\x05" + encode({1: 1, 3: 1, 6: BIDI * 400})],
        "jobs": [],
        "handshakes": [],
    }[kind]  # fmt: skip
    while time.monotonic() < end:
        turn += 1
        with contextlib.suppress(Closed, OSError), RawClient(port, token) as member:
            if kind != "handshakes":
                member.send("JOIN", join(f"{name}.{turn}", f"{name}.{turn}") if kind == "jobs" else join(name, job))
            sent += blast(member, plains, end, kind == "deaf") if plains else 1
    return sent


FLOODS = ("renew", "deaf", "notice", "join", "progress", "epochs", "unknown", "status", "exited", "jobs", "handshakes", "notice@honest",
          "join@honest", "progress@honest", "epochs@honest", "exited@honest")


if __name__ == "__main__":
    os.nice(5)  # the test measures the server's time, which the flooder must not take away
    print(flood(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4]).read_text(), (sys.argv + ["0"])[5]))
