"""Fixtures of the package's own tests: a real datagram peer where the agent would be. No TensorFlow, no agent."""
import json
import pathlib
import socket
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "agent" / "python"))

PLACE = ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE", "TFE_SOCKET", "TFE_RESTART_COUNT", "TFE_PREEMPT_FILE", "TF_CONFIG")


@pytest.fixture(autouse=True)
def no_agent(monkeypatch):
    for name in PLACE:
        monkeypatch.delenv(name, raising=False)


class Peer:
    """The agent's end of the channel."""

    def __init__(self, directory):
        self.path = directory / "agent"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(5)
        self.sender = None

    def take(self):
        text, self.sender = self.socket.recvfrom(65536)
        return json.loads(text)

    def is_quiet(self):
        self.socket.setblocking(False)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(5)
        return False

    def say(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.socket.sendto(text, self.sender)

    def ask(self, number, within_ms=None, epoch=7):
        self.say({"type": "save", "epoch": epoch, "number": number, "within_ms": within_ms})


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """An agent of epoch 7, to which this process is rank 1 of 3."""
    made = Peer(tmp_path)
    for name, value in {"EPOCH": 7, "RANK": 1, "WORLD_SIZE": 3, "SOCKET": made.path}.items():
        monkeypatch.setenv(f"TFE_{name}", str(value))
    yield made
    made.socket.close()


@pytest.fixture
def script(peer):
    """tfe, after it has said hello to the peer."""
    import tfe
    assert not tfe.stop_requested()
    assert peer.take()["type"] == "hello"
    return tfe
