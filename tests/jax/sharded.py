"""sharded.py DIRECTORY STEPS: a state that no process holds completely."""
import sys
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfe
import tfe.jax

jax.distributed.initialize()
split = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x"))
mine = np.zeros(8 // jax.process_count(), np.float32)
state = {"w": jax.make_array_from_process_local_data(split, mine)}
checkpointer = tfe.jax.Checkpointer(sys.argv[1], every_steps=10)
step, state = checkpointer.restore(state)
print(f"process {jax.process_index()} of {jax.process_count()}, from step {step}", flush=True)
add = jax.jit(lambda state: jax.tree.map(lambda w: w + 1, state))
while step < int(sys.argv[2]):
    state, step = add(state), step + 1
    assert all(set(np.asarray(shard.data)) == {float(step)} for shard in state["w"].addressable_shards)
    checkpointer.after_step(step, state)
    time.sleep(0.05)
checkpointer.save(step, state)
print(f"final {step} ok", flush=True)
