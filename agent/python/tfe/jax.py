"""JAX under tfe-agent: finding the cluster, checkpoints, and snapshots in the agent's memory.

    import jax
    import tfe.jax

    jax.distributed.initialize()                      # finds the cluster that the agent has formed
    checkpointer = tfe.jax.Checkpointer("/shared/run7", every_steps=100)
    step, state = checkpointer.restore(init_state())  # a pytree of arrays
    while step < steps:
        state = train_step(state, batch_of(step))
        step += 1
        checkpointer.after_step(step, state)
    checkpointer.save(step, state)
"""
from __future__ import annotations

import hashlib
import json
import os
import platform
from typing import Any, Callable, Optional, Tuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from . import _position, _state
from ._agree import Keys, ServiceKeys, awaited
from ._checkpointing import BaseCheckpointer, BaseManager
from ._directory import NAME, Directory, Saved, StaleEpochError
from ._memory import memory_of
from ._requests import STAND_STILL_S
from ._state import Unfit

__all__ = ["Checkpointer", "StaleEpochError", "TfeCluster"]

BROADCAST = 16 << 20
"""Bytes per collective."""
STATE, ORBAX = ".state", ".orbax"
"""Endings of a checkpoint: a file of this module's, or a directory that Orbax writes."""
STEP = "step"
"""Name of the step among the parts of a state."""

_ClusterEnv: Any = object
try:  # not public, but JAX has no other way to add a launcher
    from jax._src import clusters as _clusters
    _ClusterEnv = _clusters.ClusterEnv
except (ImportError, AttributeError):  # jax.distributed.initialize() then needs arguments
    pass


class TfeCluster(_ClusterEnv):  # type: ignore[misc]
    """Tells jax.distributed.initialize() the cluster of the agent. Importing tfe.jax registers it, before
    the clusters that JAX knows: an agent may run under Slurm.
    """

    name = "tfe"

    @classmethod
    def is_env_present(cls) -> bool:
        return _position.has_agent() and "JAX_COORDINATOR_ADDRESS" in os.environ

    @classmethod
    def get_coordinator_address(cls, timeout_secs: Optional[int] = None, override_coordinator_port: Optional[str] = None) -> str:
        address = os.environ["JAX_COORDINATOR_ADDRESS"]
        return f"{address.rpartition(':')[0]}:{override_coordinator_port}" if override_coordinator_port else address

    @classmethod
    def get_process_count(cls) -> int:
        return int(os.environ["JAX_NUM_PROCESSES"])

    @classmethod
    def get_process_id(cls) -> int:
        return int(os.environ["JAX_PROCESS_ID"])

    @classmethod
    def get_local_process_id(cls) -> Optional[int]:
        """Returns the device of this process if the machine has several, else None for all devices."""
        return int(os.environ["LOCAL_RANK"]) if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1 else None


def _register() -> None:
    known = getattr(_ClusterEnv, "_cluster_types", None)
    if isinstance(known, list):
        known[:] = [TfeCluster, *(one for one in known if one.name != TfeCluster.name)]


_register()


def service_keys() -> Optional[ServiceKeys]:
    """Returns the keys, or None in a job of one process and without jax.distributed.initialize()."""
    if _position.peers()[1] == 1:
        return None
    try:
        from jax._src import distributed
    except ImportError:
        return None
    client = distributed.global_state.client
    if client is None:
        return None
    return ServiceKeys(client.key_value_set, client.blocking_key_value_get,
                       lambda error: "ALREADY_EXISTS" in str(error), lambda error: "DEADLINE_EXCEEDED" in str(error))


def _is_sharded(leaf: Any) -> bool:
    """Returns True if no process holds all of the array."""
    return isinstance(leaf, jax.Array) and not leaf.is_fully_addressable and not leaf.is_fully_replicated


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _local(leaf: Any) -> Any:
    """Returns the array as this process holds it."""
    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    return leaf if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable else leaf.addressable_data(0)


def _placed(value: Any, like: Any) -> Any:
    """Returns the NumPy array as what it replaces: on the same devices, or a number of Python."""
    if _is_key(like):
        return jax.random.wrap_key_data(_placed(value, jax.random.key_data(like)), impl=jax.random.key_impl(like))
    if isinstance(like, jax.Array):
        # JAX may move an uncommitted array to any device. The copy must be uncommitted too; otherwise an
        # operation with an array on another device would fail.
        if not getattr(like, "committed", True):
            return jax.numpy.array(value)
        return jax.make_array_from_callback(value.shape, like.sharding, lambda index: np.array(value[index]))
    if isinstance(like, np.ndarray):
        return np.array(value)
    if isinstance(like, np.generic):
        return value.dtype.type(value)
    return type(like)(value.item())


class Tree:
    """A step and a pytree as the contents of snapshots and checkpoints (_memory.Contents)."""

    def __init__(self, step: int = 0, state: Any = None) -> None:
        self.step, self.state = step, state

    def number(self) -> int:
        return self.step

    def leaves(self) -> "list[tuple[str, Any]]":
        return [("state" + jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(self.state)]

    @property
    def is_sharded(self) -> bool:
        return any(_is_sharded(leaf) for leaf in jax.tree_util.tree_leaves(self.state))

    def parts(self) -> "list[_state.Part]":
        leaves = self.leaves()
        for name, leaf in leaves:
            if _is_sharded(leaf):
                raise Unfit(f"{name} is sharded over the processes")
        local = [(name, _local(leaf)) for name, leaf in leaves]
        for _, leaf in local:  # all copies from a device at once
            if isinstance(leaf, jax.Array):
                leaf.copy_to_host_async()
        return [_part(STEP, np.int64(self.step)), *(_part(name, leaf) for name, leaf in local)]

    def existing(self) -> "list[_state.Part]":
        return self.parts()

    def rows(self, parts: "list[_state.Part]") -> "list[_state.Part]":
        return [part._replace(data=np.array(part.data)) for part in parts]

    def put_back(self, parts: "list[_state.Part]") -> None:
        """Raises ValueError if the structure of the state has changed."""
        values = {part.name: part for part in parts}
        leaves, treedef = jax.tree_util.tree_flatten(self.state)
        restored = [_placed(_array(values.get(name), name, _local(leaf)), leaf) for name, leaf in self.leaves()]
        assert len(restored) == len(leaves)
        self.step = int(values[STEP].data.view(np.int64)[0])
        self.state = jax.tree_util.tree_unflatten(treedef, restored)

    def broadcast(self, body: Any, size: int, root: int, world: int) -> Any:
        """Uses the collectives of the job's devices; sums of words with zeros."""
        n_words = min(BROADCAST, size + -size % 4) // 4
        received = []
        for start in range(0, size, 4 * n_words):
            words = np.zeros(n_words, np.uint32)  # of one size, so that JAX compiles once
            n = min(4 * n_words, size - start)
            if body is not None:
                words.view(np.uint8)[:n] = body[start:start + n]
            got = multihost_utils.broadcast_one_to_all(words, is_source=_position.rank() == root)
            received.append(np.asarray(got).view(np.uint8)[:n])
        return body if body is not None else np.concatenate(received)


def _part(name: str, leaf: Any) -> _state.Part:
    array = np.asarray(leaf)
    if array.dtype.hasobject:
        raise Unfit(f"{name} is not a numeric array")
    return _state.Part(name, "", array.dtype.name, array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _array(part: Optional[_state.Part], name: str, like: Any) -> Any:
    expected = np.asarray(like)
    if part is None:
        raise ValueError(f"the checkpoint has no {name}")
    if (part.dtype, tuple(part.shape)) != (expected.dtype.name, expected.shape):
        raise ValueError(f"{name} is {part.dtype}{list(part.shape)} in the checkpoint, and {expected.dtype.name}{list(expected.shape)} here")
    return part.data.view(expected.dtype).reshape(expected.shape)


def _orbax() -> Any:
    try:
        import orbax.checkpoint
    except ImportError:
        raise RuntimeError("arrays that are sharded over the processes are saved by Orbax: pip install orbax-checkpoint") from None
    return orbax.checkpoint


class Manager(BaseManager):
    """The checkpoints of a Tree in a directory that all machines share.

    A state that each process holds completely is one file, which rank 0 writes; a sharded one is a
    directory, which all ranks write by Orbax.
    """

    def __init__(self, tree: Tree, directory: str, max_to_keep: int, keys: Optional[Keys]) -> None:
        """Raises StaleEpochError if a later epoch has written to the directory."""
        self._tree, self._keep, self._keys = tree, max_to_keep, keys
        self._claim(Directory(directory, NAME, (STATE, ORBAX)))

    def _service_keys(self) -> Optional[Keys]:
        return self._keys

    def save(self, step: int) -> str:
        """Saves the tree; collective over all ranks. Returns the path, which is complete on rank 0."""
        saved = Saved(self._epoch, step)
        if self._tree.is_sharded:
            self._shared.check(self._epoch)
            orbax = _orbax()
            with orbax.StandardCheckpointer() as checkpointer:
                checkpointer.save(os.path.abspath(self.path_of(saved)) + ORBAX, self._tree.state, force=True)
            if self._is_writer:
                self._remove_old()
        elif self._is_writer:
            self.finish()
            self._write(saved, self._tree.parts())
        return self.path_of(saved)

    def _write_read(self, number: int, read: "Callable[[], list[Any]]") -> str:
        saved = Saved(self._epoch, number)
        self._write(saved, read())
        return self.path_of(saved)

    def _write(self, saved: Saved, parts: "list[_state.Part]") -> None:
        """The file gets its name when it is complete."""
        self._shared.check(self._epoch)
        path = self.path_of(saved) + STATE
        temporary = os.path.join(self._shared.path, f".{saved.name}.{os.getpid()}.tmp")
        os.makedirs(self._shared.path, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(_state.body_of(parts))
                file.flush()
                os.fsync(file.fileno())
            self._shared.check(self._epoch)  # writing may have taken minutes
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
        self._remove_old()

    def _remove_old(self) -> None:
        for saved in self._shared.saved()[self._keep:] if self._keep else []:
            self._shared.remove(saved)

    def _parts(self, path: str) -> "list[_state.Part]":
        """Raises ValueError if the file is damaged."""
        saved = _state.read_body(np.fromfile(path + STATE, np.uint8), 0, 0)
        if saved is None:
            raise ValueError("the checksum is wrong")
        return saved.parts

    def _damage(self, path: str) -> Optional[str]:
        if os.path.isdir(path + ORBAX):
            return None  # Orbax gives a checkpoint its name when it is complete
        try:
            self._parts(path)
        except (OSError, ValueError) as error:
            return str(error)
        return None

    def _restore(self, path: str) -> None:
        if not os.path.isdir(path + ORBAX):
            self._tree.put_back(self._parts(path))
            return
        with _orbax().StandardCheckpointer() as checkpointer:
            expected = jax.tree_util.tree_map(_orbax().utils.to_shape_dtype_struct, self._tree.state)
            self._tree.state = checkpointer.restore(os.path.abspath(path) + ORBAX, expected)
        self._tree.step = int(path.rpartition("-")[2])

    def restore_newest(self) -> Optional[str]:
        if not self._tree.is_sharded or self._keys is None:
            return super().restore_newest()
        # Orbax reads together on all ranks, so that none can try a checkpoint on its own.
        if self._is_writer:
            found = self._shared.saved()
            name = found[0].name if found else ""
            self._keys.set("tfe/restored", name)
        else:
            name = awaited(self._keys, "tfe/restored")
        if name:
            self._restore_when_there(name)
        return os.path.join(self._shared.path, name) if name else None


class Checkpointer(BaseCheckpointer):
    """Saves at intervals and when the agent requests it, and restores at the start, as tfe.Checkpointer
    does with TensorFlow. All ranks call restore(), after_step() and save() together, at the same step.

    The state is a pytree of arrays and numbers. Arrays are replicated, or local to a process; then
    rank 0's values count. Such a state is also kept in the agent's memory, so that a restart need not
    read the disk. Arrays that are sharded over the processes need Orbax and are only on disk.
    """

    manager: Manager

    def __init__(self, directory: "str | os.PathLike[str]", *, every_steps: Optional[int] = None, every_seconds: Optional[float] = None,
                 memory_every_steps: Optional[int] = None, max_to_keep: int = 3, stand_still_s: float = STAND_STILL_S) -> None:
        """Create it after jax.distributed.initialize().

        directory is on storage that all machines share. every_steps and every_seconds are the
        intervals of checkpoints. memory_every_steps is the interval of snapshots in the agent's
        memory; by default as often as costs at most 2 % of the time. stand_still_s is the time to
        wait after a requested checkpoint. Raises ValueError for an interval that is not positive and
        StaleEpochError if a later epoch has written to the directory.
        """
        self.check_intervals(every_steps, every_seconds, memory_every_steps)
        path = os.fspath(directory)
        if "://" in path:
            raise ValueError(f"directory is {path!r}; it must be a path on a file system that all machines share")
        self._tree = Tree()
        self._seen: Optional[int] = None
        self._memory_every = memory_every_steps
        keys = service_keys()
        self.manager = Manager(self._tree, path, max_to_keep, keys)
        use_compilation_cache(path)
        super().__init__(keys, None, 0, every_steps, every_seconds, stand_still_s)

    def restore(self, state: Any, step: int = 0) -> "Tuple[int, Any]":  # type: ignore[override]
        """Restores the newest intact state, in memory or on disk, the same on all ranks.

        Returns its step and the state; or the arguments, if there is none. state is the initial one:
        the result has its structure, types and devices. Raises ValueError if the structure has
        changed. Call before the first step.
        """
        self._tree.step, self._tree.state = step, state
        if self._memory is None and not self._tree.is_sharded:
            self._memory = memory_of(self._tree, self._keys, self._memory_every)
        return super().restore(), self._tree.state

    def after_step(self, step: int, state: Any, samples: Optional[int] = None) -> bool:  # type: ignore[override]
        """Saves if a checkpoint is due or requested. Call it after every step on all ranks.

        step is the number of steps done and state the result of the last one; samples is the number
        of samples seen by all workers. While all ranks wait for something, call it repeatedly with
        the same step. Returns True if a checkpoint of this step was made; with an agent, one that is
        due by its interval is written while training continues. May not return: a script that
        must stop exits here with status 143, once its state is saved.
        """
        self._tree.step, self._tree.state, self._seen = int(step), state, samples
        return super().after_step()

    def save(self, step: int, state: Any) -> str:  # type: ignore[override]
        """Saves now. All ranks must call it after the same step. Returns the path. Raises
        StaleEpochError if a later epoch continues the training.
        """
        self._tree.step, self._tree.state = int(step), state
        return super().save()

    def _number(self) -> int:
        return self._tree.step

    def _samples(self) -> Optional[int]:
        return self._seen

    def _write(self, step: int) -> str:
        return self.manager.save(step)


def use_compilation_cache(directory: str) -> None:
    """Lets JAX keep compiled programs in a directory that all machines share, unless the user has chosen
    one: process 0 alone writes them. A program fits one type of processor only.
    """
    config: Any = jax.config
    if not _position.has_agent() or config.jax_compilation_cache_dir is not None:
        return
    from jax.experimental.compilation_cache import compilation_cache
    folder = os.path.join(os.path.abspath(directory), "jax-cache", _processor())
    os.makedirs(folder, exist_ok=True)
    config.update("jax_compilation_cache_dir", folder)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    compilation_cache.reset_cache()  # JAX looks for the setting at its first compilation only


def _processor() -> str:
    """Returns a name for the type of this machine's processor."""
    flags = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        pass
    known = json.dumps([platform.machine(), sorted(flags.split()), jax.__version__])
    return hashlib.sha256(known.encode()).hexdigest()[:12]
