"""An independent client of the protocol, written from proto/PROTOCOL.md and not from the C code: what it says on the
wire is what another implementation would say. For tests that need an agent without a training script, or bytes that
no program of ours would send. Only the curve and the cipher come from libsodium."""

import ctypes
import ctypes.util
import hashlib
import hmac
import os
import socket
import struct
import base64

_sodium = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
assert _sodium.sodium_init() >= 0

NAME = b"Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b"
TYPES = {
    "JOIN": 1, "RENEW": 2, "READY": 3, "LISTENING": 4, "EXITED": 5, "GOODBYE": 6, "PROCESSES": 7, "PROBED": 10,
    "WELCOME": 32, "RENEWED": 33, "PREPARE": 34, "STOP": 35, "TABLE": 36, "START": 37, "NOTED": 38,
    "LEASE_ENDED": 39, "PROBE": 40, "FINISH": 41, "REFUSED": 42,
    "STATUS": 64, "STATUS_JOB": 65, "STATUS_NODE": 66, "STATUS_END": 67,
    "DRAIN": 68, "EVICT": 69, "STOP_JOB": 70, "DONE": 71,
}  # fmt: skip
NAMES = {number: name for name, number in TYPES.items()}
NOT_AUTHORISED, BAD_REQUEST, SIZE_MISMATCH, _, LIMIT_REACHED, NO_SUCH_JOB, NODE_REPLACED, NO_SUCH_NODE, EVICTED = range(1, 10)


class Closed(Exception):
    """The server closed the connection."""


# --- cryptography ----------------------------------------------------------------------------------


def _hash(data):
    return hashlib.blake2b(data).digest()


def _hkdf(chain, material, n):
    key = hmac.new(chain, material, hashlib.blake2b).digest()
    out, last = [], b""
    for i in range(1, n + 1):
        last = hmac.new(key, last + bytes([i]), hashlib.blake2b).digest()
        out.append(last)
    return out


def _dh(secret, public):
    out = ctypes.create_string_buffer(32)
    assert _sodium.crypto_scalarmult(out, secret, public) == 0
    return out.raw


def _public(secret):
    out = ctypes.create_string_buffer(32)
    assert _sodium.crypto_scalarmult_base(out, secret) == 0
    return out.raw


def _nonce(n):
    return b"\0\0\0\0" + struct.pack("<Q", n)


def _seal(key, n, plain, ad=b""):
    out = ctypes.create_string_buffer(len(plain) + 16)
    _sodium.crypto_aead_chacha20poly1305_ietf_encrypt(
        out, None, plain, ctypes.c_ulonglong(len(plain)), ad, ctypes.c_ulonglong(len(ad)), None, _nonce(n), key)
    return out.raw


def _open(key, n, sealed, ad=b""):
    out = ctypes.create_string_buffer(max(len(sealed) - 16, 1))
    assert 0 == _sodium.crypto_aead_chacha20poly1305_ietf_decrypt(
        out, None, None, sealed, ctypes.c_ulonglong(len(sealed)), ad, ctypes.c_ulonglong(len(ad)), _nonce(n), key)
    return out.raw[: len(sealed) - 16]


class Token:
    def __init__(self, text):
        body = base64.urlsafe_b64decode(text.strip().split("_", 2)[2])
        self.key_id, self.secret, self.server_key = body[:16], body[16:48], body[48:80]

    def subkey(self, n):
        return hashlib.blake2b(b"", digest_size=32, key=self.secret, salt=struct.pack("<Q", n) + bytes(8),
                               person=b"tfehello" + bytes(8)).digest()


class Handshake:
    """The client's side. first() is its whole first flight."""

    def __init__(self, token):
        self.token, self.h, self.secret = token, NAME.ljust(64, b"\0"), os.urandom(32)
        self.chain = self.h
        self.head = b"TFE1\x01\0" + _hash(token.server_key)[:8] + token.key_id + struct.pack(">H", 64)
        self._mix_hash(self.head + NAME)
        self._mix_hash(token.server_key)

    def _mix_hash(self, data):
        self.h = _hash(self.h + data)

    def _mix_key(self, data):
        self.chain, key = _hkdf(self.chain, data, 2)
        self.key = key[:32]

    def first(self):
        self.chain, mixed, _key = _hkdf(self.chain, self.token.subkey(1), 3)
        self._mix_hash(mixed)
        e = _public(self.secret)
        self._mix_hash(e)
        self._mix_key(e)
        self._mix_key(_dh(self.secret, self.token.server_key))
        sealed = _seal(self.key, 0, struct.pack(">IIQ", 1, 1, 7), self.h)
        self._mix_hash(sealed)
        flight = self.head + e + sealed
        return flight + hashlib.blake2b(flight, digest_size=16, key=self.token.subkey(2)).digest()

    def second(self, message):
        e, sealed = message[:32], message[32:]
        self._mix_hash(e)
        self._mix_key(e)
        self._mix_key(_dh(self.secret, e))
        _open(self.key, 0, sealed, self.h)
        tx, rx = _hkdf(self.chain, b"", 2)
        return tx[:32], rx[:32]


# --- protobuf, as much of it as is needed -----------------------------------------------------------


def _varint(n):
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def encode(fields):
    """fields: (number, int, bytes or str) pairs in a dict or a list."""
    out = b""
    for number, value in fields.items() if isinstance(fields, dict) else fields:
        if isinstance(value, int):
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


# --- a connection ------------------------------------------------------------------------------------


class RawClient:
    def __init__(self, port, token, timeout=10):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.sent = self.received = 0
        handshake = Handshake(Token(token))
        self.flight = handshake.first()
        self.sock.sendall(self.flight)
        self.tx, self.rx = handshake.second(self._read(struct.unpack(">H", self._read(2))[0]))

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
        sealed = _seal(self.tx, self.sent, plain)
        self.sent += 1
        return struct.pack(">H", len(sealed)) + sealed

    def send(self, name, fields=()):
        self.sock.sendall(self.frame(bytes([TYPES[name]]) + encode(fields or {})))

    def receive(self):
        """(name, fields) of the next message; Closed at the end."""
        sealed = self._read(struct.unpack(">H", self._read(2))[0])
        plain = _open(self.rx, self.received, sealed)
        self.received += 1
        return NAMES.get(plain[0], plain[0]), decode(plain[1:])

    def receive_until(self, *names):
        while True:
            name, fields = self.receive()
            if name in names:
                return name, fields

    def join(self, node, job="default", nodes=(1, 1), nproc=1, **more):
        fields = {1: job, 2: node, 3: "label-" + node, 4: nodes[0], 5: nodes[1], 6: nproc, 14: os.getpid()}
        fields.update({int(k[1:]): v for k, v in more.items()})
        self.send("JOIN", fields)
        return self.receive_until("WELCOME", "REFUSED", "FINISH")

    def ready(self, epoch, ports=(4711,), host="127.0.0.1"):
        self.send("READY", {1: epoch, 2: host, 3: b"".join(_varint(p) for p in ports)})

    def is_closed(self):
        """Reads until the server closes; False if it does not within the socket's timeout."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except socket.timeout:
            return False
        return True
