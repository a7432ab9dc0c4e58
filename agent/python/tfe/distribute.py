"""Distribution strategies: tfe.strategy(), and tfe.serve() and tfe.coordinator() for parameter
servers.
"""
from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import socket
import threading
from typing import Any, Callable, Union

import tensorflow as tf

from . import _position
from ._channel import channel

IN_FLIGHT = 4
"""Default number of scheduled steps per worker: enough to keep it busy, few enough to finish soon.
"""
PROBE_S = 5
"""Keepalive interval in seconds: a machine that does not respond for twice this time is considered
lost. TensorFlow alone would wait for hours.
"""


def strategy(partitioner: Any = None) -> tf.distribute.Strategy:
    """Returns the strategy for this cluster. Call it before any operation runs on a device; all
    workers connect to each other inside it.

    With TF_CONFIG, which an agent sets: ParameterServerStrategy if there are ps (on the chief;
    the other roles call serve() before), otherwise MultiWorkerMirroredStrategy, with NCCL if
    this worker has a GPU, otherwise with ring collectives. For an evaluator, and without
    TF_CONFIG: MirroredStrategy for several GPUs, otherwise TensorFlow's default strategy.

    partitioner, from tf.distribute.experimental.partitioners, divides variables among the ps.
    Checkpoints can then be restored with a different number of ps; this is reported to the agent.
    """
    n_gpus = len(tf.config.list_physical_devices("GPU"))  # lists devices without opening them
    if "TF_CONFIG" in os.environ and _position.role() != "evaluator":
        if _position.has_ps():
            return _with_ps(partitioner)
        kinds = tf.distribute.experimental.CommunicationImplementation
        options = tf.distribute.experimental.CommunicationOptions(implementation=kinds.NCCL if n_gpus else kinds.RING)
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if n_gpus > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _with_ps(partitioner: Any) -> tf.distribute.Strategy:
    if _position.role() != "chief":
        raise RuntimeError(f"a {_position.role()} of a cluster with ps has no strategy (call tfe.serve() first; it does not return there)")
    channel().listen(partitioned=partitioner is not None)
    made = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver(),
                                                 variable_partitioner=partitioner)
    _watch_connections(made)
    return made


def serve() -> None:
    """Runs a TensorFlow server in a worker or ps of a cluster with ps until the agent or SIGTERM ends it;
    does not return then. Returns at once in every other process. A script for all roles therefore
    starts with

        tfe.serve()
        strategy = tfe.strategy(partitioner=...)
    """
    from ._requests import leave
    job = _position.role()
    if not _position.has_ps() or job not in ("worker", "ps"):
        return
    if not _position.has_chief():
        raise RuntimeError("a cluster with ps needs a chief, which creates the strategy (start the agents with --chief and --ps)")
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    # Without this, a ps on a machine with GPUs would allocate all of their memory.
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}) if job == "ps" else None
    server = tf.distribute.Server(cluster, job_name=job, task_index=_position.role_index(), protocol="grpc", config=config)
    here = channel()
    here.listen()
    while here.stop_by is None:  # server.join() would notice neither the agent nor Ctrl-C
        here.wait(60)
    del server
    leave()


class Coordinator(tf.distribute.coordinator.ClusterCoordinator):  # type: ignore[misc]
    """Result of coordinator()."""

    def __new__(cls, strategy: tf.distribute.Strategy, in_flight: int = IN_FLIGHT) -> "Coordinator":
        return super().__new__(cls, strategy)  # type: ignore[no-any-return]

    def __init__(self, strategy: tf.distribute.Strategy, in_flight: int = IN_FLIGHT) -> None:
        if not hasattr(self, "_flying"):  # there is one object per strategy
            self._flying: "collections.deque[Any]" = collections.deque()
            self._most = max(1, in_flight) * strategy._num_workers
        super().__init__(strategy)

    def schedule(self, fn: "Callable[..., Any]", args: Any = None, kwargs: Any = None) -> Any:
        """Schedules a step as ClusterCoordinator does, but waits while in_flight steps per worker
        are in progress.
        """
        while len(self._flying) >= self._most:
            # Wait only. The result may be lost with its worker, whose step is repeated; TensorFlow
            # reports a step's errors below or in join().
            with contextlib.suppress(Exception):
                self._flying.popleft().fetch()
        value = super().schedule(fn, args, kwargs)
        self._flying.append(value)
        return value

    def join(self) -> None:
        super().join()
        self._flying.clear()

    def __del__(self) -> None:
        """Called at the end of the process. Does nothing, because TensorFlow's own destructor waits
        forever for a worker that is just being lost.
        """


class _Done:
    """RemoteValue of a completed step."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def fetch(self) -> Any:
        return tf.nest.map_structure(lambda one: one.numpy() if isinstance(one, tf.Tensor) else one, self._value)

    def get(self) -> Any:
        return self._value


class _Alone:
    """Coordinator for other strategies: each step is done when it is scheduled."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy

    def schedule(self, fn: "Callable[..., Any]", args: Any = None, kwargs: Any = None) -> _Done:
        with self.strategy.scope():
            return _Done(fn(*(args or ()), **(kwargs or {})))

    def join(self) -> None:
        pass

    def done(self) -> bool:
        return True

    def fetch(self, value: Any) -> Any:
        return tf.nest.map_structure(lambda one: one.fetch() if isinstance(one, _Done) else one, value)

    def create_per_worker_dataset(self, dataset_fn: Any) -> Any:
        return dataset_fn() if callable(dataset_fn) else dataset_fn


def coordinator(strategy: tf.distribute.Strategy, in_flight: int = IN_FLIGHT) -> "Union[Coordinator, _Alone]":
    """Returns TensorFlow's ClusterCoordinator for a strategy with ps, adapted to machines that come
    and go:

    schedule() survives the loss of workers, even if their machine disappears silently
    (TensorFlow alone would wait for their steps for hours): another worker does the step,
    possibly a second time. It blocks while each worker has in_flight steps, so that steps in
    progress finish soon when a checkpoint is due. Checkpointer joins it before it saves. The
    process can exit although a worker is missing.

    For any other strategy, e.g. without an agent, each step runs locally at once.
    """
    if hasattr(strategy, "_is_parameter_server_strategy_v2"):
        return Coordinator(strategy, in_flight)
    return _Alone(strategy)


def join_steps(variable: Any) -> None:
    """Waits for steps in progress of a strategy with ps: the variable's strategy, or else the last
    one created.
    """
    made = getattr(variable, "_distribute_strategy", None) or (_made[-1] if _made else None)
    busy = getattr(made, "_cluster_coordinator", None)
    if busy is not None:
        busy.join()


# --- detection of lost machines ---

_made: "list[tf.distribute.Strategy]" = []


def _watch_connections(made: tf.distribute.Strategy) -> None:
    """Enables TCP keepalive on connections to workers, so that the connection to a lost machine
    breaks and TensorFlow notices the loss.
    """
    _made[:] = [made]
    threading.Thread(target=_keep_watching, args=(_peers(),), name="tfe-watch", daemon=True).start()


def _peers() -> "set[int]":
    """Returns the workers' ports. Those of the ps do not matter, because training cannot continue
    without them.
    """
    return {int(address.rpartition(":")[2]) for address in json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]}


def _keep_watching(ports: "set[int]") -> None:
    seen: "set[str]" = set()
    pause = threading.Event()
    while True:
        found = set()
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                continue
            if re.match(r"socket:", target):
                found.add(target)
                if target not in seen:
                    _ask_peer(int(name), ports)
        seen = found
        pause.wait(PROBE_S)


def _ask_peer(fd: int, ports: "set[int]") -> None:
    try:
        with socket.socket(fileno=os.dup(fd)) as one:
            if one.type == socket.SOCK_STREAM and one.family != socket.AF_UNIX and one.getpeername()[1] in ports:
                for level, option, value in ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                                             (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S),
                                             (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
                                             (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBE_S),
                                             (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2000 * PROBE_S)):
                    one.setsockopt(level, option, value)
    except OSError:
        pass  # not a socket, not connected, or closed meanwhile
