"""Measures the load by other processes while this project's programs are idle: timings above BUSY are not
meaningful."""
import time

BUSY = 1.5


def slowdown(seconds=1.0):
    """Returns the ratio of wall time to processor time of a busy loop."""
    began, used = time.monotonic(), time.thread_time()
    while time.monotonic() - began < seconds:
        pass
    return (time.monotonic() - began) / (time.thread_time() - used)


class Excuse:
    """Measures the load before a benchmark and again after it. Strict runs accept no excuse."""

    def __init__(self, is_strict):
        self._is_strict = is_strict
        self._before = 1.0 if is_strict else slowdown()

    def holds(self, missed):
        """Returns True if the load may explain why these goals (sentences without a full stop) were missed, and lists
        them for the end of scripts/test.sh."""
        if self._is_strict or not missed:
            return False
        times = max(self._before, slowdown())
        for sentence in missed if times > BUSY else ():
            print(f"NOT JUDGED {sentence}: others make this machine {times:.1f} times as slow")
        return times > BUSY
