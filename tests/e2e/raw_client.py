"""An independent client of the protocol, written from proto/PROTOCOL.md instead of the C code, for tests that need an
agent without a training script, or bytes that this project's programs would never send. Its Noise is PyPI's
noiseprotocol on OpenSSL: none of it is this project's or libsodium's."""

import base64
import hashlib
import os
import socket
import struct

from noise.connection import Keypair, NoiseConnection

NAME = b"Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b"
NODE_KEY_NAME = b"Noise_IK_25519_ChaChaPoly_BLAKE2b"
TYPES = {
    "JOIN": 1, "RENEW": 2, "READY": 3, "LISTENING": 4, "EXITED": 5, "GOODBYE": 6, "PROCESSES": 7, "PROGRESS": 8,
    "NOTICE": 9, "PROBED": 10, "ENROL": 11, "DEATH": 12, "MACHINE_INFO": 16, "METRICS": 18, "ARTIFACT": 24,
    "WELCOME": 32, "RENEWED": 33, "PREPARE": 34, "STOP": 35, "TABLE": 36, "START": 37, "NOTED": 38,
    "LEASE_ENDED": 39, "PROBE": 40, "FINISH": 41, "REFUSED": 42, "SAVE": 43,
    "STATUS": 64, "STATUS_JOB": 65, "STATUS_NODE": 66, "STATUS_END": 67,
    "ENROLLED": 44, "DRAIN": 68, "EVICT": 69, "DONE": 71, "EPOCHS": 72, "HEALTH": 79,
    "BACKUP": 74, "FORGET": 75, "GROW": 78, "SERIES": 96, "SERIES_ROW": 97,
    "POOL": 21, "FREED": 22, "ASSIGN": 52, "RELEASE": 53, "SUBMIT": 110,
    "CONDITION_ROW": 114, "POOL_NODES": 115, "POOL_ROW": 116, "SCALE": 117, "SUSPEND": 118, "RESUME": 119, "CANCEL": 120,
    "RERUN": 121, "FETCH": 23, "CHUNK": 54, "BUNDLE_PUT": 122, "BUNDLE_HAVE": 123, "BUNDLE_WANT": 124,
}  # fmt: skip
NAMES = {number: name for name, number in TYPES.items()}
NOT_AUTHORISED, BAD_REQUEST, SIZE_MISMATCH, _, LIMIT_REACHED, NO_SUCH_JOB, NODE_REPLACED, NO_SUCH_NODE, EVICTED = range(1, 10)


class Closed(Exception):
    """The server closed the connection."""


# --- the channel --------------------------------------------------------------------------------------


class Token:
    def __init__(self, text):
        body = base64.urlsafe_b64decode(text.strip().split("_", 2)[2])
        self.key_id, self.secret, self.server_key = body[:16], body[16:48], body[48:80]

    def subkey(self, n):
        return hashlib.blake2b(b"", digest_size=32, key=self.secret, salt=struct.pack("<Q", n) + bytes(8),
                               person=b"tfehello" + bytes(8)).digest()


class NodeKey(Token):
    """A node key: the fields of ENROLLED, and the secret of the key sent with ENROL."""

    def __init__(self, server_key, enrolled, private):
        self.key_id, self.secret, self.certificate = (bytes.fromhex(enrolled[n][0].decode()) for n in (1, 2, 3))
        self.server_key, self.private = server_key, private


def facts(low=2, high=2, nonce=7):
    return struct.pack(">IIQ", low, high, nonce)


class Handshake:
    """The client's side of the handshake. first() returns its whole first flight."""

    def __init__(self, token, said=facts()):
        own = isinstance(token, NodeKey)
        name = NODE_KEY_NAME if own else NAME
        self.token, self.said = token, said + token.certificate if own else said
        self.head = (b"TFE1\x01" + bytes([own]) + hashlib.blake2b(token.server_key).digest()[:8] + token.key_id +
                     struct.pack(">H", 48 + 48 * own + len(self.said)))
        self.noise = NoiseConnection.from_name(name)
        self.noise.set_as_initiator()
        if own:
            self.noise.set_keypair_from_private_bytes(Keypair.STATIC, token.private)
        else:
            self.noise.set_psks(token.subkey(1))
        self.noise.set_prologue(self.head + name)
        self.noise.set_keypair_from_public_bytes(Keypair.REMOTE_STATIC, token.server_key)
        self.noise.start_handshake()

    def first(self):
        flight = self.head + bytes(self.noise.write_message(self.said))
        return flight + hashlib.blake2b(flight, digest_size=16, key=self.token.subkey(2)).digest()

    def second(self, message):
        """Returns the two directions and the server's parameters."""
        told = bytes(self.noise.read_message(message))
        return Direction(self.noise.noise_protocol.cipher_state_encrypt), Direction(self.noise.noise_protocol.cipher_state_decrypt), told


class Direction:
    """Frames in one direction: a new key after every 65,536 frames, while the counter continues."""

    def __init__(self, cipher):
        self.cipher = cipher

    def _turn(self):
        if self.cipher.n and self.cipher.n % 65536 == 0:
            self.cipher.rekey()

    def seal(self, plain):
        self._turn()
        sealed = self.cipher.encrypt_with_ad(b"", plain)
        return struct.pack(">H", len(sealed)) + sealed

    def open(self, sealed):
        self._turn()
        return self.cipher.decrypt_with_ad(b"", sealed)


def node_secret(name):
    """Returns the node secret of the process with this name."""
    return hashlib.blake2b(name.encode(), digest_size=32).digest()


def node_id(name):
    return hashlib.blake2b(node_secret(name), digest_size=16).hexdigest()


# --- the required part of protobuf ----------------------------------------------------------------------


def _varint(n):
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


class Fixed64(int):
    """A number encoded in eight bytes: a digest, an incarnation."""


def varints(numbers):
    """A packed list."""
    return b"".join(_varint(n) for n in numbers)


def read_varints(data):
    numbers, at = [], 0
    while at < len(data):
        number, at = _read_varint(data, at)
        numbers.append(number)
    return numbers


def encode(fields):
    """fields: (number, int, bytes or str) pairs in a dict or a list."""
    out = b""
    for number, value in fields.items() if isinstance(fields, dict) else fields:
        if isinstance(value, Fixed64):
            out += _varint(number << 3 | 1) + struct.pack("<Q", value)
        elif isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def _read_varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def decode(data):
    """{number: [values]}"""
    fields, at = {}, 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 == 0:
            value, at = _read_varint(data, at)
        elif tag & 7 == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        else:
            n, at = _read_varint(data, at)
            value, at = data[at : at + n], at + n
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def table_digest(rows):
    """Returns the digest; rows: (host, port) by rank, of workers."""
    digest = 0xCBF29CE484222325
    for host, port in rows:
        for byte in bytes(host) + b"\0" + struct.pack(">H", port):
            digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return Fixed64(digest or 1)


# --- a connection ------------------------------------------------------------------------------------


class Connection:
    """One connection after the handshake."""

    sock = tx = rx = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def _read(self, n):
        data = b""
        while len(data) < n:
            try:
                more = self.sock.recv(n - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed(data)
            data += more
        return data

    def frame(self, plain):
        return self.tx.seal(plain)

    def send(self, name, fields=()):
        self.send_number(TYPES[name], fields)

    def send_number(self, number, fields):
        self.sock.sendall(self.frame(bytes([number]) + encode(fields or {})))

    def receive(self):
        """Returns (name, fields) of the next message; raises Closed at the end."""
        sealed = self._read(struct.unpack(">H", self._read(2))[0])
        plain = self.rx.open(sealed)
        return NAMES.get(plain[0], plain[0]), decode(plain[1:])

    def receive_until(self, *names):
        while True:
            name, fields = self.receive()
            if name in names:
                return name, fields

    def is_closed(self):
        """Reads until the server closes; returns False if it does not within the socket's timeout."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except socket.timeout:
            return False
        return True


class RawClient(Connection):
    def __init__(self, port, token, timeout=10):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        token = token if isinstance(token, Token) else Token(token)
        handshake, self.server_key = Handshake(token), token.server_key
        self.flight = handshake.first()
        self.sock.sendall(self.flight)
        self.tx, self.rx, self.facts = handshake.second(self._read(struct.unpack(">H", self._read(2))[0]))

    def join(self, node, job="default", nodes=(1, 1), nproc=1, **more):
        """Joins as the process of this name, with the id node_id(node)."""
        fields = {1: job, 2: node_id(node), 3: "label-" + node, 4: nodes[0], 5: nodes[1], 6: nproc, 14: os.getpid(),
                  23: node_secret(node).hex()}
        fields.update({int(k[1:]): v for k, v in more.items()})
        self.send("JOIN", fields)
        return self.receive_until("WELCOME", "REFUSED", "FINISH")

    def ready(self, epoch, ports=(4711,), host="127.0.0.1"):
        self.send("READY", {1: epoch, 2: host, 3: varints(ports)})
