"""bench/peers_loop.py: what recovery_loop.py does, for torchrun: a loop of nothing but all-reduces.

    peers_loop.py STEP_LOG_DIRECTORY

Lines as there; an epoch is the time at which the group's rank 0 began, for torchrun has no number that counts up.
"""
import json
import os
import sys
import time

import torch
import torch.distributed

torch.distributed.init_process_group("gloo")
began = torch.tensor([time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000000])
torch.distributed.broadcast(began, 0)
epoch, rank, value = int(began[0]), torch.distributed.get_rank(), torch.ones(8)
with open(os.path.join(sys.argv[1], f"{epoch}.{rank}.{os.getpid()}.jsonl"), "a", buffering=1, encoding="utf-8") as log:
    while True:
        torch.distributed.all_reduce(value.fill_(1))
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6
        log.write(json.dumps({"epoch": epoch, "rank": rank, "pid": os.getpid(), "step": now}) + "\n")
        time.sleep(0.05)
