#!/usr/bin/env python3
"""Makes noise-interop-….json by PyPI's noiseprotocol, which shares no code with this project: handshakes with fixed
ephemeral keys, and what follows them. unit_handshake_noise_vectors plays both sides of each; tests/e2e/test_interop.py
compares the file with what the library makes today.

Usage: interop_vectors.py OUT.json
"""
import hashlib
import json
import pathlib
import sys
import warnings

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from noise.connection import Keypair, NoiseConnection

FILE = pathlib.Path(__file__).with_name("noise-interop-noiseprotocol-25519_ChaChaPoly_BLAKE2b.json")
FACTS = bytes.fromhex("00000002" "00000002" "0123456789abcdef")  # PROTOCOL.md, section 1
TALK = [FACTS, FACTS, b"\x02\x08\x01", b"\x21\x08\x01\x10\x88\x27\x18\xc0\x3e", b"\0", b"\0" * 300]


def key(name):
    return hashlib.blake2b(name.encode(), digest_size=32).digest()


def public(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def vector(pattern, talk, number=0):
    """One handshake and what follows. The prologue is laid out as a first flight's begins."""
    name = f"Noise_{pattern}_25519_ChaChaPoly_BLAKE2b".encode()
    keys = {what: key(f"{what} {number}") for what in ("init_static", "init_ephemeral", "resp_static", "resp_ephemeral", "psk")}
    hint = hashlib.blake2b(public(keys["resp_static"])).digest()[:8]
    prologue = b"TFE1\x01\0" + hint + key("key id")[:16] + (48 + len(talk[0])).to_bytes(2, "big") + name
    sides = [NoiseConnection.from_name(name) for _ in range(2)]
    for side, who in zip(sides, ("init", "resp")):
        (side.set_as_initiator if who == "init" else side.set_as_responder)()
        side.set_prologue(prologue)
        if "psk" in pattern:
            side.set_psks(keys["psk"])
        if who == "resp" or pattern.startswith("IK"):
            side.set_keypair_from_private_bytes(Keypair.STATIC, keys[f"{who}_static"])
        side.set_keypair_from_private_bytes(Keypair.EPHEMERAL, keys[f"{who}_ephemeral"])
    sides[0].set_keypair_from_public_bytes(Keypair.REMOTE_STATIC, public(keys["resp_static"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ephemeral keys are given is the point
        for side in sides:
            side.start_handshake()
    messages = []
    for i, said in enumerate(talk):
        writer, reader = sides[i % 2], sides[1 - i % 2]
        sealed = bytes(writer.write_message(said) if i < 2 else writer.encrypt(said))
        heard = bytes(reader.read_message(sealed) if i < 2 else reader.decrypt(sealed))
        assert heard == said
        messages.append({"payload": said.hex(), "ciphertext": sealed.hex()})
    return {
        "protocol_name": name.decode(), "init_prologue": prologue.hex(), "resp_prologue": prologue.hex(),
        **({"init_psks": [keys["psk"].hex()], "resp_psks": [keys["psk"].hex()]} if "psk" in pattern else {}),
        **({"init_static": keys["init_static"].hex()} if pattern.startswith("IK") else {}),
        "init_ephemeral": keys["init_ephemeral"].hex(), "init_remote_static": public(keys["resp_static"]).hex(),
        "resp_static": keys["resp_static"].hex(), "resp_ephemeral": keys["resp_ephemeral"].hex(),
        "handshake_hash": sides[0].get_handshake_hash().hex(), "messages": messages,
    }


def vectors():
    """NKpsk0 is what tokens speak; IK is for keys of nodes."""
    return [vector(pattern, talk, number) for pattern in ("NKpsk0", "IK") for number, talk in enumerate((TALK, [b"", b"", b"a", b"b"]))]


def text():
    return json.dumps({"vectors": vectors()}, indent=1) + "\n"


if __name__ == "__main__":
    pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_text(text())
