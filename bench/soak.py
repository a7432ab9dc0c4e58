"""Simulates hours of a fleet in minutes: agents join, leave and vanish at random; the server's memory and descriptors
must not grow.

The memory is measured after the first quarter of the time (minute 5 of 20), because joins need more of it."""
import random
import statistics
import sys
import time

from figures import Figures, Load, Server, arguments

AWAY_SHARE = 0.05  # maximum share of agents that are away at a time
CHANGE_S = 1.0     # seconds between two changes
GROWN = 0.02, 256 * 1024


def options_of_soak(parser):
    parser.add_argument("--seconds", type=float, help="default 1200, with --quick 60")
    parser.add_argument("--agents", type=int, help="default 5000, with --quick 250")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="who comes and goes")


class Fleet:
    """Tracks the connected agents and makes one random change at a time."""

    def __init__(self, load, agents, seed):
        self.load, self.agents, self.random = load, agents, random.Random(seed)
        self.away = set()
        self.changes = {"leave": 0, "lose": 0, "connect": 0}

    def change(self):
        if self.away and (len(self.away) >= AWAY_SHARE * self.agents or self.random.random() < 0.5):
            agent = self.random.choice(sorted(self.away))
            self.away.discard(agent)
            what, command = "connect", f"connect {agent} {agent + 1}"
        else:
            agent = self.random.choice([a for a in range(self.agents) if a not in self.away])
            self.away.add(agent)
            what = self.random.choice(("leave", "lose"))
            command = f"{what} {agent}"
        self.changes[what] += 1
        self.load(command)

    def everybody(self):
        """Waits without changes until all connected agents have been started in one epoch."""
        expected = self.agents - len(self.away)
        self.load(f"connected {expected} 60")
        facts = self.load(f"started {expected} 60")
        if facts["started"] != expected:
            sys.exit(f"soak: {facts['started']} of {expected} agents are in epoch {facts['epoch']}")


def lost_descriptors(server, expected):
    """Returns the number of descriptors beyond the expected ones, once closing connections are closed."""
    end = time.monotonic() + 10
    while server.descriptors() != expected and time.monotonic() < end:
        time.sleep(0.1)
    return server.descriptors() - expected


def soak(figures, agents, seconds, seed):
    samples = []
    with Server("--ttl", 10) as server:
        empty = server.descriptors()
        with Load(server, agents, "--nnodes", f"{agents // 2}:{agents}", "--gather", 2000) as load:
            fleet = Fleet(load, agents, seed)
            load(f"connect 0 {agents}")
            load(f"started {agents} 120")
            began = told = time.monotonic()
            while time.monotonic() < began + seconds:
                fleet.change()
                facts = load(f"run {CHANGE_S}")
                now = time.monotonic()
                samples.append((now - began, server.memory()))
                if now - told >= 60:
                    told = now
                    print(f"  minute {(now - began) / 60:.0f}: {samples[-1][1] / 1024:.0f} KiB, {facts['connected']} agents, "
                          f"epoch {facts['epoch']}", flush=True)
            fleet.everybody()
            lost = lost_descriptors(server, empty + agents - len(fleet.away))
            epochs = load("run 0")["epochs_seen"]
        left = lost_descriptors(server, empty)
    settled, window = seconds / 4, seconds / 20
    first = statistics.median([rss for at, rss in samples if settled <= at < settled + window]
                              or [next(rss for at, rss in samples if at >= settled)])  # a change took longer than the window
    last = statistics.median([rss for at, rss in samples if at >= seconds - window] or [samples[-1][1]])
    allowed = GROWN[0] * first + GROWN[1]
    figures.add(f"RSS grown, {agents} agents, {seconds:.0f} s", [last - first], "B", goal=("value<=", round(allowed)))
    figures.add("  RSS at first", [first], "B")
    figures.add("descriptors lost while all are there", [lost], "", goal=("value<=", 0))
    figures.add("descriptors left when all are gone", [left], "", goal=("value<=", 0))
    figures.add("  epochs", [epochs], "")
    print(f"soak: {seconds:.0f} s, {agents} agents, seed {seed}: {fleet.changes['connect']} joins, {fleet.changes['leave']} leaves, "
          f"{fleet.changes['lose']} losses, {epochs} epochs; RSS {first / 1024:.0f} -> {last / 1024:.0f} KiB "
          f"({(last - first) / 1024:+.0f}, allowed {allowed / 1024:+.0f}), descriptors lost {lost}, left {left}")


def main():
    options = arguments(__doc__, options_of_soak)
    figures = Figures(options)
    seconds = options.seconds or (60 if options.quick else 1200)
    soak(figures, options.agents or (250 if options.quick else 5000), seconds, options.seed)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
