"""How busy others keep this machine, measured while nothing of ours runs: what is timed says little of us above BUSY."""
import time

BUSY = 1.5


def slowdown(seconds=1.0):
    """How many times as long work takes as the processor that it uses."""
    began, used = time.monotonic(), time.thread_time()
    while time.monotonic() - began < seconds:
        pass
    return (time.monotonic() - began) / (time.thread_time() - used)


class Excuse:
    """Made before what is timed, and asked after it. Strict goals have none."""

    def __init__(self, is_strict):
        self._is_strict = is_strict
        self._before = 1.0 if is_strict else slowdown()

    def holds(self, missed):
        """Whether others may be why these goals (sentences without a full stop) were missed: they are named then, for the end
        of scripts/test.sh."""
        if self._is_strict or not missed:
            return False
        times = max(self._before, slowdown())
        for sentence in missed if times > BUSY else ():
            print(f"NOT JUDGED {sentence}: others make this machine {times:.1f} times as slow")
        return times > BUSY
