"""The channel against another implementation of Noise: the other tests use the independent client against this server;
here this project's programs meet an independent server, and frames continue after a rekey."""

import base64
import contextlib
import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import zlib

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import DEADLINE, ROOT
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from noise.connection import Keypair, NoiseConnection
from programs import clean_environment, program
from raw_client import (NAME, NODE_KEY_NAME, TYPES, Closed, Connection, Direction, Fixed64, NodeKey, RawClient, Token, encode, facts,
                        read_varints, table_digest)

sys.path.insert(0, str(ROOT / "tests" / "vectors"))
import interop_vectors  # noqa: E402

REKEY = 65536  # frames of one direction under one key


def test_the_vectors_are_what_the_other_implementation_makes():
    assert interop_vectors.FILE.read_text() == interop_vectors.text()


class RawServer(Connection):
    """A server written from PROTOCOL.md, with its own key and token. Each connection runs the next function of
    `says`."""

    def __init__(self, role, *says):
        self.says, self.failed = says, None
        self.node_key, self.public = None, None  # set once an agent has enrolled
        self.key = X25519PrivateKey.generate()
        number = {"agent": 1, "observer": 2, "admin": 3}[role]
        body = bytes([1, 0, number, 0]) + bytes(4) + os.urandom(8) + os.urandom(32) + self.key.public_key().public_bytes_raw()
        self.token = f"tfe1_{role}_" + base64.urlsafe_b64encode(body + struct.pack(">I", zlib.crc32(body))).decode().rstrip("=")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(DEADLINE)
        self.endpoint = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            with self.listener:
                for say in self.says:
                    with contextlib.closing(self.listener.accept()[0]) as self.sock:
                        self.sock.settimeout(DEADLINE)
                        self._handshake()
                        say(self)
                        self.is_closed()
        except BaseException as error:  # raised again by the test's thread
            self.failed = error

    def _handshake(self):
        token = self.node_key or Token(self.token)
        own = isinstance(token, NodeKey)
        name = NODE_KEY_NAME if own else NAME
        head = self._read(32)
        message = self._read(struct.unpack(">H", head[30:])[0])
        assert head[:6] == b"TFE1\x01" + bytes([own]) and head[14:30] == token.key_id
        assert head[6:14] == hashlib.blake2b(token.server_key).digest()[:8]
        assert self._read(16) == hashlib.blake2b(head + message, digest_size=16, key=token.subkey(2)).digest()
        noise = NoiseConnection.from_name(name)
        noise.set_as_responder()
        if not own:
            noise.set_psks(token.subkey(1))
        noise.set_prologue(head + name)
        noise.set_keypair_from_private_bytes(Keypair.STATIC, self.key.private_bytes_raw())
        noise.start_handshake()
        said = bytes(noise.read_message(message))
        low, high, _ = struct.unpack(">IIQ", said[:16])
        assert low <= 2 <= high
        if own:
            assert said[16:] == token.certificate
            assert noise.noise_protocol.handshake_state.rs.public_bytes == self.public
        answer = bytes(noise.write_message(facts()))
        self.sock.sendall(struct.pack(">H", len(answer)) + answer)
        ciphers = noise.noise_protocol
        self.tx, self.rx = Direction(ciphers.cipher_state_encrypt), Direction(ciphers.cipher_state_decrypt)

    def end(self):
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()
        if self.failed:
            raise self.failed


def ask(server):
    done = subprocess.run([program("tfe-ctl"), "status", "--json", "--rdzv-endpoint", server.endpoint, "--timeout", "30s"],
                          env=clean_environment(TFE_TOKEN=server.token), capture_output=True, text=True, timeout=DEADLINE * 2)
    server.end()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["jobs"]


def test_ctl_understands_a_server_of_another_kind():
    def say(s):
        assert s.receive() == ("STATUS", {})
        s.send("STATUS_JOB", {1: "theirs", 2: "running", 3: 1, 4: 7, 5: 1, 6: 5, 7: 1, 8: 0, 80: 3})
        row = bytes([TYPES["STATUS_NODE"]]) + encode({1: "n", 3: 2})
        s.sock.sendall(b"".join(s.frame(row) for _ in range(3)))
        s.send("STATUS_END", {1: 1})

    (job,) = ask(RawServer("observer", say))
    assert (job["job"], job["epoch"], len(job["nodes"])) == ("theirs", 7, 3)


def test_an_agent_trains_under_a_server_of_another_kind(fleet):
    heard = []

    def say(s):
        name, join = s.receive()
        assert name == "JOIN"
        assert hashlib.blake2b(bytes.fromhex(join[23][0].decode()), digest_size=16).hexdigest().encode() == join[2][0]
        s.send("WELCOME", {1: join[2][0], 2: Fixed64(99), 3: 1, 4: 10000, 5: 8000, 6: 1000, 7: 0, 8: 1000})
        s.send("PREPARE", {1: 1})
        ready = s.receive_until("READY")[1]
        host, (port,) = ready[2][0], read_varints(ready[3][0])
        s.send("TABLE", {1: 1, 2: 1, 4: encode({1: 0, 2: host, 3: port})})
        s.send("START", {1: 1, 2: 1, 3: 0, 4: 1, 5: 1, 6: 1, 7: table_digest([(host, port)])})
        heard.append(s.receive_until("EXITED")[1])
        s.send("NOTED", {1: 1})
        s.send("FINISH", {1: 1, 2: 1, 3: "well done"})

    server = RawServer("agent", say)
    agent = fleet.start("--nnodes=1:1", "--rdzv-endpoint", server.endpoint, trainer=("--exit", "0"), env={"TFE_TOKEN": server.token})
    server.end()
    assert agent.wait() == 0, agent.stderr()
    assert len(fleet.starts(1)) == 1
    assert heard[0].get(3, [0]) == [0]


def test_a_session_goes_on_over_rekeys_of_both_directions(server):
    s = server()
    with RawClient(s.port, s.token("agent"), timeout=DEADLINE) as member:
        assert member.join("n1")[0] == "WELCOME"
        last = REKEY + 100
        for first in range(1, last + 1, 512):
            numbers = range(first, min(first + 512, last + 1))
            member.sock.sendall(b"".join(member.frame(b"\x02" + encode({1: n})) for n in numbers))
            assert [member.receive_until("RENEWED")[1][1][0] for _ in numbers] == list(numbers)


# --- node keys -----------------------------------------------------------------------------------------


def test_a_client_of_another_kind_comes_with_a_key_of_its_own(server, ctl):
    s = server()
    token = Token(s.token("agent"))
    own = X25519PrivateKey.generate()
    with RawClient(s.port, s.token("agent")) as first:
        assert first.join("n1", nodes=(2, 2))[0] == "WELCOME"
        first.send("ENROL", {1: own.public_key().public_bytes_raw().hex()})
        enrolled = first.receive_until("ENROLLED")[1]
    key = NodeKey(token.server_key, enrolled, own.private_bytes_raw())
    with RawClient(s.port, key) as client:
        assert client.join("n1", nodes=(2, 2))[0] == "WELCOME"
        (row,) = json.loads(ctl("agents", "--json").stdout)["agents"]
        assert (row["key"], row["enrolled"], row["token"]) == (key.key_id.hex(), True, token.key_id.hex())
    key.private = X25519PrivateKey.generate().private_bytes_raw()  # another machine, with everything except the secret
    with pytest.raises(Closed):
        RawClient(s.port, key)
    key.private, key.certificate = own.private_bytes_raw(), key.certificate[:17] + b"x" + key.certificate[18:]
    with pytest.raises(Closed):
        RawClient(s.port, key)


def test_an_agent_comes_with_a_key_of_its_own_to_a_server_of_another_kind(fleet):
    def enrol(s):
        join = s.receive()[1]
        s.send("WELCOME", {1: join[2][0], 2: Fixed64(99), 3: 1, 4: 10000, 5: 8000, 6: 1000, 7: 0, 8: 1000})
        s.public = bytes.fromhex(s.receive_until("ENROL")[1][1][0].decode())
        fields = {1: (b"\x03\0\x01\0" + os.urandom(12)).hex(), 2: os.urandom(32).hex(), 3: os.urandom(50).hex(), 4: 1 << 42}
        s.node_key = NodeKey(Token(s.token).server_key, {n: [str(v).encode()] for n, v in fields.items()}, None)
        s.send("ENROLLED", fields)
        s.sock.shutdown(socket.SHUT_WR)

    def end(s):
        assert s.receive()[0] == "JOIN"
        s.send("FINISH", {1: 1, 2: 1, 3: "well done"})

    server = RawServer("agent", enrol, end)
    agent = fleet.start("--nnodes=1:1", "--rdzv-endpoint", server.endpoint, env={"TFE_TOKEN": server.token})
    server.end()
    assert agent.wait() == 0, agent.stderr()
