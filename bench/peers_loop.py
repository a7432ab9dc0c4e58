"""bench/peers_loop.py: the counterpart of recovery_loop.py for torchrun: a loop of nothing but all-reduces.

    peers_loop.py STEP_LOG_DIRECTORY

The lines are those of recovery_loop.py; an epoch is the start time of the group's rank 0, because torchrun has no
increasing number.
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
