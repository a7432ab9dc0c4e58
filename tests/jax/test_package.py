"""tfe.jax in one process, without an agent."""
import os
import pathlib

import numpy as np
import pytest

pytestmark = pytest.mark.needs("jax")
jax = pytest.importorskip("jax")
import tfe.jax
from tfe import StaleEpochError, _position
from tfe._memory import Memory
from tfe._state import Buffers, size_of

jnp = jax.numpy


@pytest.fixture(autouse=True)
def place(monkeypatch):
    for name in ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE", "TFE_SOCKET", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return lambda epoch: monkeypatch.setenv("TFE_EPOCH", str(epoch))


def state(value=0.0):
    return {"w": jnp.full((2, 3), value), "half": jnp.full(3, value, jnp.bfloat16), "host": np.full(2, value), "count": int(value),
            "key": jax.random.key(int(value)), "scale": np.float32(value), "none": None}


def shown(tree):
    return [np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(getattr(leaf, "dtype", np.int8), jax.dtypes.prng_key) else leaf).tolist()
            for leaf in jax.tree.leaves(tree)]


def train(directory, steps, **options):
    checkpointer = tfe.jax.Checkpointer(directory, **options)
    step, value = checkpointer.restore(state())
    while step < steps:
        step += 1
        value = state(float(step))
        checkpointer.after_step(step, value)
    checkpointer.manager.finish()  # with an agent it writes beside the steps
    return checkpointer


def saved(directory):
    return sorted(path.name for path in pathlib.Path(directory).glob("ckpt*"))


def test_values_of_every_kind_come_back_as_they_were(tmp_path):
    train(tmp_path, 12, every_steps=5)
    step, value = tfe.jax.Checkpointer(tmp_path).restore(state())
    assert step == 10 and shown(value) == shown(state(10.0))
    for was, now in zip(jax.tree.leaves(state()), jax.tree.leaves(value)):
        assert type(was) is type(now) and getattr(was, "dtype", None) == getattr(now, "dtype", None)
    assert value["w"].committed is False  # JAX may still place it beside any other array


def test_it_keeps_a_few_and_passes_over_a_damaged_one(tmp_path, capsys):
    train(tmp_path, 23, every_steps=5, max_to_keep=2)
    assert saved(tmp_path) == ["ckpt-0-15.state", "ckpt-0-20.state"]
    data = bytearray((tmp_path / "ckpt-0-20.state").read_bytes())
    data[0] ^= 1  # in the step
    (tmp_path / "ckpt-0-20.state").write_bytes(data)
    assert tfe.jax.Checkpointer(tmp_path).restore(state())[0] == 15
    assert "ckpt-0-20 is damaged" in capsys.readouterr().err


def test_a_state_of_another_structure_is_an_error_and_nothing_else(tmp_path):
    train(tmp_path, 5, every_steps=5)
    with pytest.raises(ValueError, match=r"state\['w'\] is float32\[2, 3\] in the checkpoint, and float32\[4\] here"):
        tfe.jax.Checkpointer(tmp_path).restore({**state(), "w": jnp.zeros(4)})
    with pytest.raises(ValueError, match=r"the checkpoint has no state\['new'\]"):
        tfe.jax.Checkpointer(tmp_path).restore({**state(), "new": jnp.zeros(4)})


def test_an_earlier_epoch_cannot_write_any_more(tmp_path, place):
    place(3)
    old = train(tmp_path, 5, every_steps=5)
    place(4)
    assert tfe.jax.Checkpointer(tmp_path).restore(state())[0] == 5
    with pytest.raises(StaleEpochError):
        old.save(6, state(6.0))
    assert saved(tmp_path) == ["ckpt-3-5.state"]
    assert not list(tmp_path.glob(".*tmp"))


@pytest.mark.parametrize("options", [{"every_steps": 0}, {"every_seconds": 0}, {"memory_every_steps": 0}])
def test_invalid_intervals_and_directories_are_refused(tmp_path, options):
    with pytest.raises(ValueError, match="every_"):
        tfe.jax.Checkpointer(tmp_path, **options)
    with pytest.raises(ValueError, match="gs://"):
        tfe.jax.Checkpointer("gs://bucket/run")


def test_memory_gives_back_the_newest_snapshot(monkeypatch):
    tree = tfe.jax.Tree(7, state(7.0))
    memory = Memory(tree, None, 1)
    memory._buffers = Buffers(bytearray(2 * size_of(tree.parts())), _position.run())
    memory.take(7)
    tree.step, tree.state = 0, state()
    monkeypatch.setattr(memory, "_left", memory._buffers.whole)
    assert memory.restore(lambda: None).held.step == 7
    assert tree.step == 7 and shown(tree.state) == shown(state(7.0))


def test_jax_asks_our_cluster_first(monkeypatch):
    from jax._src.clusters import ClusterEnv
    assert ClusterEnv._cluster_types[0] is tfe.jax.TfeCluster and not tfe.jax.TfeCluster.is_env_present()
    for name, value in (("TFE_EPOCH", "3"), ("JAX_COORDINATOR_ADDRESS", "[::1]:5"), ("JAX_NUM_PROCESSES", "4"), ("JAX_PROCESS_ID", "2"),
                        ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2"), ("SLURM_JOB_ID", "1")):
        monkeypatch.setenv(name, value)
    found = ClusterEnv.auto_detect_unset_distributed_params(None, None, None, None, None, 1)
    assert found == ("[::1]:5", 4, 2, [1])
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert ClusterEnv.auto_detect_unset_distributed_params(None, None, None, None, None, 1) == ("[::1]:5", 4, 2, None)


def test_the_compilation_cache_is_the_jobs_unless_the_user_has_one(tmp_path, place, monkeypatch):
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    try:
        tfe.jax.Checkpointer(tmp_path / "plain")
        assert jax.config.jax_compilation_cache_dir == before[0]  # no agent
        place(1)
        jax.config.update("jax_compilation_cache_dir", "/mine")
        tfe.jax.Checkpointer(tmp_path / "mine")
        assert jax.config.jax_compilation_cache_dir == "/mine"
        jax.config.update("jax_compilation_cache_dir", None)
        tfe.jax.Checkpointer(tmp_path / "ours")
        assert jax.config.jax_compilation_cache_dir.startswith(os.path.abspath(tmp_path / "ours" / "jax-cache"))
    finally:
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])
