"""How this process trains together with the others: tfe.strategy(), and tfe.serve() and tfe.coordinator() where there are ps."""
from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import socket
import threading
from typing import Any, Callable, Optional, Union

import tensorflow as tf

from . import _place
from ._channel import channel

IN_FLIGHT = 4
"""Steps that a worker may have before it: enough that it never waits, few enough that the last of them is soon done."""
PROBE_S = 5
"""A machine that has not answered for so long, and as long again, is gone; TensorFlow itself would wait for hours."""


def strategy(partitioner: Any = None) -> tf.distribute.Strategy:
    """Call it first thing: all workers meet in here, and nothing may run on a device before.

    With TF_CONFIG (an agent sets it): ParameterServerStrategy where there are ps (in the chief; call serve() before it, for the
    others), else MultiWorkerMirroredStrategy, collectives by NCCL where this worker has a GPU, else in a ring. In an evaluator,
    and without TF_CONFIG: MirroredStrategy over several GPUs, else TensorFlow's default strategy, which adds nothing.

    partitioner: of tf.distribute.experimental.partitioners, cuts variables over the ps. Checkpoints of it can be restored with
    another number of ps, and the agent is told that.
    """
    n_gpus = len(tf.config.list_physical_devices("GPU"))  # looks, and opens none
    if "TF_CONFIG" in os.environ and _place.role() != "evaluator":
        if _place.has_ps():
            return _with_ps(partitioner)
        kinds = tf.distribute.experimental.CommunicationImplementation
        options = tf.distribute.experimental.CommunicationOptions(implementation=kinds.NCCL if n_gpus else kinds.RING)
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if n_gpus > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _with_ps(partitioner: Any) -> tf.distribute.Strategy:
    if _place.role() != "chief":
        raise RuntimeError(f"a {_place.role()} of a cluster with ps has no strategy: call tfe.serve() before, which does not return there")
    channel().listen(partitioned=partitioner is not None)
    made = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver(),
                                                 variable_partitioner=partitioner)
    _watch_connections(made)
    return made


def serve() -> None:
    """In a worker or ps of a cluster with ps: does what the chief says, until the agent, or SIGTERM, ends it; it does not return.
    Everywhere else it returns at once. So the first lines of a script for all roles are

        tfe.serve()
        strategy = tfe.strategy(partitioner=...)
    """
    from ._asked import leave
    job = _place.role()
    if not _place.has_ps() or job not in ("worker", "ps"):
        return
    if not _place.has_chief():
        raise RuntimeError("a cluster with ps needs a chief, which makes the strategy: give --chief besides --ps to the agents")
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    # A ps on a machine with GPUs would take all of their memory.
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}) if job == "ps" else None
    server = tf.distribute.Server(cluster, job_name=job, task_index=_place.role_index(), protocol="grpc", config=config)
    here = channel()
    here.listen()
    while here.stop_by is None:  # not join(), which hears neither the agent nor Ctrl-C
        here.wait(60)
    del server
    leave()


class Coordinator(tf.distribute.coordinator.ClusterCoordinator):  # type: ignore[misc]
    """See coordinator()."""

    def __new__(cls, strategy: tf.distribute.Strategy, in_flight: int = IN_FLIGHT) -> "Coordinator":
        return super().__new__(cls, strategy)  # type: ignore[no-any-return]

    def __init__(self, strategy: tf.distribute.Strategy, in_flight: int = IN_FLIGHT) -> None:
        if not hasattr(self, "_flying"):  # there is one for each strategy
            self._flying: "collections.deque[Any]" = collections.deque()
            self._most = max(1, in_flight) * strategy._num_workers
        super().__init__(strategy)

    def schedule(self, fn: "Callable[..., Any]", args: Any = None, kwargs: Any = None) -> Any:
        """As ClusterCoordinator's, but waits while there are as many steps as in_flight allows."""
        while len(self._flying) >= self._most:
            # Only waited for. The result of a step may go with its worker, which has it done again; what is wrong with a step
            # TensorFlow tells below, or in join().
            with contextlib.suppress(Exception):
                self._flying.popleft().fetch()
        value = super().schedule(fn, args, kwargs)
        self._flying.append(value)
        return value

    def join(self) -> None:
        super().join()
        self._flying.clear()

    def __del__(self) -> None:
        """At the process's end. TensorFlow's own waits for the return of a worker that is lost just then, for ever."""


class _Done:
    """A RemoteValue of a step that is done."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def fetch(self) -> Any:
        return tf.nest.map_structure(lambda one: one.numpy() if isinstance(one, tf.Tensor) else one, self._value)

    def get(self) -> Any:
        return self._value


class _Alone:
    """What a Coordinator is where there are no others: each step is done when it is scheduled."""

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
    """TensorFlow's ClusterCoordinator for a strategy with ps, with some things of a fleet:

    schedule() survives workers, also those whose whole machine is gone without a word (TensorFlow's own would wait for their
    steps for hours): another one does the step, perhaps once more. It waits while each worker has in_flight steps before it,
    so that what is under way is done soon when a checkpoint is wanted. Checkpointer joins it before it saves. And the process
    ends when its script has, though a worker is away.

    With any other strategy, without an agent say, it does each step at once, here.
    """
    if hasattr(strategy, "_is_parameter_server_strategy_v2"):
        return Coordinator(strategy, in_flight)
    return _Alone(strategy)


def join_steps(variable: Any) -> None:
    """Where a strategy with ps has steps under way, waits for them: of the variable's strategy, or the one made last."""
    made = getattr(variable, "_distribute_strategy", None) or (_made[-1] if _made else None)
    busy = getattr(made, "_cluster_coordinator", None)
    if busy is not None:
        busy.join()


# --- workers that are gone without a word ---------------------------------------------------------

_made: "list[tf.distribute.Strategy]" = []


def _watch_connections(made: tf.distribute.Strategy) -> None:
    """Has the kernel ask now and then whether the machine at the other end is there: a connection of a machine that is not, breaks
    then, and TensorFlow knows what to do."""
    _made[:] = [made]
    threading.Thread(target=_keep_watching, args=(_peers(),), name="tfe-watch", daemon=True).start()


def _peers() -> "set[int]":
    """Ports of the workers; the ps's do not matter, for without one there is nothing to go on with."""
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
        pass  # it is none, or not connected, or closed by now
