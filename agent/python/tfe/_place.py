"""Where this process stands: what the agent has put into the environment, read anew at every call.

Without an agent: what TF_CONFIG says, else a job of one, rank 0 of 1; epoch 0 (the agents' epochs begin at 1).
"""
from __future__ import annotations

import json
import os


def _number(name: str, fallback: int) -> int:
    """The variable as a number; fallback where it is missing or none."""
    try:
        value = int(os.environ.get(name, ""))
    except ValueError:
        return fallback
    return value if value >= 0 else fallback


def _from_tf_config() -> tuple[int, int]:
    """Rank and world size by TF_CONFIG, as MultiWorkerMirroredStrategy counts them; (0, 1) if it is not there."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        chiefs, workers = (len(config["cluster"].get(job, ())) for job in ("chief", "worker"))
        task = config["task"]
        first = chiefs if task["type"] == "worker" else 0
        return first + int(task["index"]), max(1, chiefs + workers)
    except (KeyError, ValueError, TypeError, AttributeError):
        return 0, 1


def epoch() -> int:
    """Number of the cluster that this process is part of: grows with every change of its members; 0 without an agent.

    Not to be mixed up with an epoch of the data, which is one pass over it.
    """
    return _number("TFE_EPOCH", 0)


def rank() -> int:
    """This trainer's place among all of them, 0 to world_size() - 1."""
    return _number("TFE_RANK", 0) if "TFE_RANK" in os.environ else _from_tf_config()[0]


def world_size() -> int:
    """How many trainers there are in this epoch."""
    return max(1, _number("TFE_WORLD_SIZE", 1)) if "TFE_WORLD_SIZE" in os.environ else _from_tf_config()[1]


def restart_count() -> int:
    """How often the agent of this node has started its trainers before."""
    return _number("TFE_RESTART_COUNT", 0)


def run() -> str:
    """Which training this is, also in its next epochs: what another one has left is no state of it."""
    return f"{os.environ.get('TFE_JOB', '')} {os.environ.get('TFE_RUN', '')}"


def has_agent() -> bool:
    """Whether an agent has started this process."""
    return epoch() > 0
