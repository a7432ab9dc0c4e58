"""How busy others keep this machine, measured while nothing of ours runs: what is timed says little of us above BUSY."""
import time

BUSY = 1.5


def slowdown(seconds=1.0):
    """How many times as long work takes as the processor that it uses."""
    began, used = time.monotonic(), time.thread_time()
    while time.monotonic() - began < seconds:
        pass
    return (time.monotonic() - began) / (time.thread_time() - used)
