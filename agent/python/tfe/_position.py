"""Position of this process in the job, from environment variables that are read at every call.

Without an agent it follows TF_CONFIG; without TF_CONFIG the job has one process with rank 0 and
epoch 0 (epochs of agents start at 1).
"""
from __future__ import annotations

import functools
import json
import os

ORDER = ("chief", "worker", "ps")
"""Order of roles in the numbering of ranks."""


def _number(name: str, fallback: int) -> int:
    """Returns the variable as a non-negative number, or fallback."""
    try:
        value = int(os.environ.get(name, ""))
    except ValueError:
        return fallback
    return value if value >= 0 else fallback


def _tf_config() -> "tuple[dict[str, int], str, int]":
    """Returns the size of each role, and the own role and index, from TF_CONFIG; one worker without
    it.
    """
    return _cluster_of(os.environ.get("TF_CONFIG", ""))


@functools.lru_cache(maxsize=1)  # called in every step, and the text of a large cluster is long
def _cluster_of(text: str) -> "tuple[dict[str, int], str, int]":
    try:
        config = json.loads(text)
        sizes = {job: len(addresses) for job, addresses in config["cluster"].items()}
        return sizes, str(config["task"]["type"]), int(config["task"]["index"])
    except (KeyError, ValueError, TypeError, AttributeError):
        return {"worker": 1}, "worker", 0


def _from_tf_config() -> "tuple[int, int]":
    """Returns rank and world size: chief, workers and ps in this order; an evaluator comes after
    them.
    """
    sizes, job, index = _tf_config()
    first = 0
    for before in ORDER:
        if before == job:
            break
        first += sizes.get(before, 0)
    return first + index, max(1, sum(sizes.get(one, 0) for one in ORDER))


def role() -> str:
    """Returns this process's role: "chief", "worker", "ps" or "evaluator"; "worker" in a job of one
    process.
    """
    return os.environ.get("TFE_ROLE") or _tf_config()[1]


def role_index() -> int:
    """Returns the index among processes of the same role, from 0."""
    return _number("TFE_ROLE_INDEX", 0) if "TFE_ROLE" in os.environ else _tf_config()[2]


def has_ps() -> bool:
    """Returns True if the cluster has parameter servers."""
    return _tf_config()[0].get("ps", 0) > 0


def has_chief() -> bool:
    """Returns True if the cluster has a separate chief."""
    return _tf_config()[0].get("chief", 0) > 0


def peers() -> "tuple[int, int]":
    """Returns rank and number of the processes that take part in every step: the chief alone with
    parameter servers, an evaluator alone, otherwise all ranks.
    """
    return (0, 1) if has_ps() or role() == "evaluator" else (rank(), world_size())


def epoch() -> int:
    """Returns the number of the current cluster, which increases with every change of members; 0
    without an agent.

    This is not an epoch of training data, which is one pass over the data.
    """
    return _number("TFE_EPOCH", 0)


def rank() -> int:
    """Returns this trainer's rank, 0 to world_size() - 1: chief first, then workers, then ps. An
    evaluator is outside of the numbering and has rank world_size().
    """
    return _number("TFE_RANK", 0) if "TFE_RANK" in os.environ else _from_tf_config()[0]


def world_size() -> int:
    """Returns the number of trainers in this epoch."""
    return max(1, _number("TFE_WORLD_SIZE", 1)) if "TFE_WORLD_SIZE" in os.environ else _from_tf_config()[1]


def is_writer() -> bool:
    """Returns True if this process writes checkpoints and reports progress for the job."""
    return role() == "chief" if has_ps() else role() != "evaluator" and rank() == 0


def restart_count() -> int:
    """Returns how many times this node's agent has started its trainers before."""
    return _number("TFE_RESTART_COUNT", 0)


def run() -> str:
    """Returns a key of the current run; snapshots of another run must not be restored."""
    return f"{os.environ.get('TFE_JOB', '')} {os.environ.get('TFE_RUN', '')}"


def has_agent() -> bool:
    """Returns True if an agent started this process."""
    return epoch() > 0
