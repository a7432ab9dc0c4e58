"""Rank and size without an agent: as TF_CONFIG has it."""
import json

import pytest
import tfe


@pytest.mark.parametrize("cluster, task, found", [
    ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, (1, 2)),
    ({"chief": ["a:1"], "worker": ["b:1", "c:1"]}, {"type": "worker", "index": 1}, (2, 3)),
    ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "chief", "index": 0}, (0, 2)),
    ({"worker": 3}, {"type": "worker", "index": 0}, (0, 1)),
])
def test_tf_config(monkeypatch, cluster, task, found):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert (tfe.rank(), tfe.world_size(), tfe.epoch()) == (*found, 0)


def test_the_agents_word_goes_first(peer, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}))
    assert (tfe.rank(), tfe.world_size()) == (1, 3)
