"""Fixtures of the package's own tests: a real datagram peer in place of the agent. No TensorFlow, no agent."""
import pathlib
import sys

import pytest
from peer import Peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "agent" / "python"))

PLACE = ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE", "TFE_SOCKET", "TFE_RESTART_COUNT", "TFE_PREEMPT_FILE", "TF_CONFIG",
         "TFE_ROLE", "TFE_ROLE_INDEX")


@pytest.fixture(autouse=True)
def no_agent(monkeypatch):
    for name in PLACE:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """An agent of epoch 7, for which this process is rank 1 of 3."""
    made = Peer(tmp_path)
    for name, value in {"EPOCH": 7, "RANK": 1, "WORLD_SIZE": 3, "SOCKET": made.path}.items():
        monkeypatch.setenv(f"TFE_{name}", str(value))
    yield made
    made.socket.close()


@pytest.fixture
def script(peer):
    """The tfe package, after it has sent hello to the peer."""
    import tfe
    assert not tfe.stop_requested()
    assert peer.take()["type"] == "hello"
    return tfe
