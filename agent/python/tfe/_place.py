"""Where this process stands: what the agent has put into the environment, read anew at every call.

Without an agent: what TF_CONFIG says, else a job of one, rank 0 of 1; epoch 0 (the agents' epochs begin at 1).
"""
from __future__ import annotations

import functools
import json
import os

ORDER = ("chief", "worker", "ps")
"""How places are counted to ranks."""


def _number(name: str, fallback: int) -> int:
    """The variable as a number; fallback where it is missing or none."""
    try:
        value = int(os.environ.get(name, ""))
    except ValueError:
        return fallback
    return value if value >= 0 else fallback


def _tf_config() -> "tuple[dict[str, int], str, int]":
    """Places of each job, and the own one, by TF_CONFIG; a job of one worker if it is not there."""
    return _cluster_of(os.environ.get("TF_CONFIG", ""))


@functools.lru_cache(maxsize=1)  # each step asks, and the text of a large cluster is long
def _cluster_of(text: str) -> "tuple[dict[str, int], str, int]":
    try:
        config = json.loads(text)
        sizes = {job: len(addresses) for job, addresses in config["cluster"].items()}
        return sizes, str(config["task"]["type"]), int(config["task"]["index"])
    except (KeyError, ValueError, TypeError, AttributeError):
        return {"worker": 1}, "worker", 0


def _from_tf_config() -> "tuple[int, int]":
    """Rank and world size: chief, workers and ps count, in this order; an evaluator stands outside, behind them."""
    sizes, job, index = _tf_config()
    first = 0
    for before in ORDER:
        if before == job:
            break
        first += sizes.get(before, 0)
    return first + index, max(1, sum(sizes.get(one, 0) for one in ORDER))


def role() -> str:
    """What this process is in TensorFlow's cluster: "chief", "worker", "ps" or "evaluator"; "worker" in a job of one."""
    return os.environ.get("TFE_ROLE") or _tf_config()[1]


def role_index() -> int:
    """Its number among those of its role, from 0."""
    return _number("TFE_ROLE_INDEX", 0) if "TFE_ROLE" in os.environ else _tf_config()[2]


def has_ps() -> bool:
    """Whether this process's cluster is one of ParameterServerStrategy."""
    return _tf_config()[0].get("ps", 0) > 0


def has_chief() -> bool:
    """Whether a place of its own is the chief's."""
    return _tf_config()[0].get("chief", 0) > 0


def peers() -> "tuple[int, int]":
    """Rank and number of those that do every step together. Where there are ps that is the chief alone, and an evaluator is alone
    everywhere."""
    return (0, 1) if has_ps() or role() == "evaluator" else (rank(), world_size())


def epoch() -> int:
    """Number of the cluster that this process is part of: grows with every change of its members; 0 without an agent.

    Not to be mixed up with an epoch of the data, which is one pass over it.
    """
    return _number("TFE_EPOCH", 0)


def rank() -> int:
    """This trainer's place among all of them, 0 to world_size() - 1: the chief first, then workers, then ps. An evaluator is
    outside: its rank is world_size()."""
    return _number("TFE_RANK", 0) if "TFE_RANK" in os.environ else _from_tf_config()[0]


def world_size() -> int:
    """How many trainers there are in this epoch."""
    return max(1, _number("TFE_WORLD_SIZE", 1)) if "TFE_WORLD_SIZE" in os.environ else _from_tf_config()[1]


def is_writer() -> bool:
    """Whether this process is the one that writes checkpoints, and says how far the training is."""
    return role() == "chief" if has_ps() else role() != "evaluator" and rank() == 0


def restart_count() -> int:
    """How often the agent of this node has started its trainers before."""
    return _number("TFE_RESTART_COUNT", 0)


def run() -> str:
    """Which training this is, also in its next epochs: what another one has left is no state of it."""
    return f"{os.environ.get('TFE_JOB', '')} {os.environ.get('TFE_RUN', '')}"


def has_agent() -> bool:
    """Whether an agent has started this process."""
    return epoch() > 0
