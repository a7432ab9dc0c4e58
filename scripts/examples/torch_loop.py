"""Elastic training with PyTorch: handwritten digits, DistributedDataParallel over Gloo.

    tfe-agent --standalone --nproc-per-node=2 torch_loop.py --directory /tmp/run --steps 400

Nothing here is special to tfe, except that it saves when the agent asks and reports its progress: the environment is
torchrun's. Checkpoints are on disk alone; after a kill it goes on from the newest.
"""
import argparse
import hashlib
import os
import time

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits

import tfe

GLOBAL_BATCH, SEED = 96, 7

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--directory", required=True, help="for checkpoints, on storage that all machines share")
p.add_argument("--steps", type=int, default=400)
p.add_argument("--every-steps", type=int, default=20)
p.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
args = p.parse_args()

dist.init_process_group("gloo")                # MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are the agent's
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(SEED)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)

path, step = os.path.join(args.directory, "state.pt"), 0
if os.path.exists(path):
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
print(f"process {rank} of {world}, from step {step}", flush=True)


def save():
    """Rank 0 writes; the file gets its name when it is complete."""
    if rank == 0:
        os.makedirs(args.directory, exist_ok=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".tmp")
        os.replace(path + ".tmp", path)
        tfe.checkpoint_saved(step, path)


per_pass, share = len(labels) // GLOBAL_BATCH, GLOBAL_BATCH // world
while step < args.steps:
    order = np.random.default_rng([SEED, step // per_pass]).permutation(len(labels))
    mine = order[step % per_pass * GLOBAL_BATCH:][:GLOBAL_BATCH][rank * share:][:share]
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(parallel(images[mine]), labels[mine])
    loss.backward()
    optimizer.step()
    step += 1
    tfe.progress(step, metrics={"loss": loss.item()} if step % 20 == 0 else None)
    time.sleep(args.pause)
    asked = torch.tensor(int(tfe.stop_requested()))
    dist.all_reduce(asked, dist.ReduceOp.MAX)  # all ranks save at the same step
    if asked or step % args.every_steps == 0 or step == args.steps:
        save()
    if asked:
        tfe.wait_for_end()
if rank == 0:
    digest = hashlib.sha256(b"".join(value.detach().numpy().tobytes() for value in model.state_dict().values()))
    print(f"final {step} {digest.hexdigest()[:16]}", flush=True)
dist.destroy_process_group()
