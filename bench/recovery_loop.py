"""bench/recovery_loop.py: a training loop of nothing but all-reduces that logs the time of each.

    recovery_loop.py STEP_LOG_DIRECTORY

One file of JSON lines per process, times in ms of CLOCK_MONOTONIC: {"begin"} at the script's first line, then {"step"}
lines. A file ORDERS/end.RANK makes that rank end like a worker whose peer has gone.
"""
import json
import os
import sys
import time


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6


began = now()
EPOCH, RANK = int(os.environ.get("TFE_EPOCH", 0)), int(os.environ.get("TFE_RANK", 0))
folder = sys.argv[1]
log = open(os.path.join(folder, f"{EPOCH}.{RANK}.{os.getpid()}.jsonl"), "a", buffering=1)


def say(**fields):
    log.write(json.dumps({"epoch": EPOCH, "rank": RANK, "pid": os.getpid(), "node": os.environ.get("TFE_NODE", ""), **fields}) + "\n")


say(begin=began)
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def replica_step():
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([8]))


@tf.function
def step():
    return strategy.run(replica_step)


def progress(number):
    """Reports the step to the agent, if there is one, which starts the next standby after the first step."""
    path = os.environ.get("TFE_SOCKET")
    if path:
        import socket
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(json.dumps({"type": "progress", "epoch": EPOCH, "rank": RANK, "step": number}).encode(), path)
            except OSError:
                pass


order, doze = os.path.join(folder, f"end.{RANK}"), os.path.join(folder, "doze")
number = 0
while True:
    step()
    number += 1
    say(step=now())
    if number == 1 or number % 20 == 0:
        progress(number)
    if os.path.exists(order):
        os.unlink(order)
        print("Collective ops is aborted by: ConnectionError", file=sys.stderr, flush=True)
        say(end=now())
        os._exit(1)
    time.sleep(0.5 if os.path.exists(doze) else 0.05)
