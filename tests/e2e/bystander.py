"""Measures the load of this machine during a test, to widen time limits accordingly."""

import json
import statistics
import subprocess
import sys

import pytest

HANDS = 4  # processes involved in one operation, each of which may have to wait for a processor
TOO_MUCH = 10  # factor of the quiet limit beyond which a limit is meaningless

# Sleeps and works alternately; for each line of stdin prints the delays since the last one.
PROBE = '''
import json, select, sys, time
SLEEP_S, rounds = 0.01, []
while True:
    began = time.monotonic()
    if select.select([sys.stdin], [], [], SLEEP_S)[0]:
        if not sys.stdin.readline():
            break
        print(json.dumps(rounds), flush=True)
        rounds = []
        continue
    woke, used = time.monotonic(), time.thread_time()
    for _ in range(20000):
        pass
    rounds.append((woke - began - SLEEP_S, time.monotonic() - woke, time.thread_time() - used))
'''


class Noise:
    """with Noise() as noise: …; assert seconds < noise.bound(0.1)"""

    def __enter__(self):
        self.rounds = []
        self.process = subprocess.Popen([sys.executable, "-IS", "-c", PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def bound(self, quiet_s):
        """Returns the time limit for work that takes at most quiet_s on an idle machine: scaled by the slowdown of a
        reference loop since the beginning, plus the longest wait for a processor for each process involved. Skips the
        test if the limit would be meaningless."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.rounds += json.loads(self.process.stdout.readline())
        late, took, used = zip(*self.rounds)
        slowdown, worst = max(1.0, sum(took) / sum(used)), max(late)
        bound = quiet_s * slowdown + HANDS * worst
        print(f"noise: {len(late)} rounds, {slowdown:.2f} times as long, late by {statistics.median(late) * 1000:.1f} ms, "
              f"at worst {worst * 1000:.1f}: {quiet_s * 1000:.0f} ms are {bound * 1000:.0f}")
        if bound > TOO_MUCH * quiet_s:
            pytest.skip(f"on this machine {quiet_s} s are {bound:.1f} s just now")
        return bound


@pytest.fixture
def noise():
    with Noise() as running:
        yield running
