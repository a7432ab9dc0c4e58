"""Rank and size without an agent, from TF_CONFIG."""
import json

import pytest
import tfe
from tfe import _position


@pytest.mark.parametrize("cluster, task, found", [
    ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, (1, 2)),
    ({"chief": ["a:1"], "worker": ["b:1", "c:1"]}, {"type": "worker", "index": 1}, (2, 3)),
    ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "chief", "index": 0}, (0, 2)),
    ({"worker": 3}, {"type": "worker", "index": 0}, (0, 1)),
])
def test_tf_config(monkeypatch, cluster, task, found):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert (tfe.rank(), tfe.world_size(), tfe.epoch()) == (*found, 0)


ALL = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1"]}


@pytest.mark.parametrize("cluster, job, index, rank, world, peers, writes", [
    (ALL, "chief", 0, 0, 5, (0, 1), True),
    (ALL, "worker", 1, 2, 5, (0, 1), False),
    (ALL, "ps", 1, 4, 5, (0, 1), False),
    ({"evaluator": ["f:1"]}, "evaluator", 0, 0, 1, (0, 1), False),
    ({"chief": ["a:1"], "worker": ["b:1"]}, "chief", 0, 0, 2, (0, 2), True),
    ({"chief": ["a:1"], "worker": ["b:1"]}, "worker", 0, 1, 2, (1, 2), False),
])
def test_roles(monkeypatch, cluster, job, index, rank, world, peers, writes):
    """With ps only the chief runs steps, restores and saves; an evaluator is alone, and never writes."""
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}))
    assert (tfe.role(), tfe.role_index(), tfe.rank(), tfe.world_size()) == (job, index, rank, world)
    assert (_position.peers(), _position.is_writer()) == (peers, writes)


def test_alone_it_is_a_worker():
    assert (tfe.role(), tfe.role_index(), _position.peers(), _position.is_writer()) == ("worker", 0, (0, 1), True)


def test_the_agent_says_the_role(monkeypatch):
    """An evaluator's rank follows all others', and it does not count as one of them."""
    for name, value in {"TFE_ROLE": "evaluator", "TFE_ROLE_INDEX": 0, "TFE_RANK": 5, "TFE_WORLD_SIZE": 5, "TFE_EPOCH": 3}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"evaluator": ["f:1"]}, "task": {"type": "evaluator", "index": 0}}))
    assert (tfe.role(), tfe.rank(), tfe.world_size(), _position.peers(), _position.is_writer()) == ("evaluator", 5, 5, (0, 1), False)


def test_the_agents_word_goes_first(peer, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}))
    assert (tfe.rank(), tfe.world_size()) == (1, 3)
