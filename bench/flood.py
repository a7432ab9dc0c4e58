"""Measures the effect of thousands of connections without a token on operators and on agents that hold leases."""
import collections
import contextlib
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import time

from figures import BIN, LOAD_CORE, Figures, Load, Server, ahead, arguments

IP_BIND_ADDRESS_NO_PORT = 24
TTL = 3
FIRST_PER_S, NEW_PER_S = 5000, 1000


def stranger(port, address):
    """Opens a connection from an address of 127.0.0.0/8 and sends one byte."""
    s = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    s.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    s.bind((address, 0))
    s.connect_ex(("127.0.0.1", port))
    with contextlib.suppress(OSError):  # not connected yet, or already closed
        s.send(b"T")
    return s


def flood(port, addresses, held, said):
    """Holds this many connections and replaces the oldest ones without end. said[0]: connections so far, said[1]:
    held."""
    os.sched_setaffinity(0, {LOAD_CORE})
    sockets = collections.deque()
    due = time.monotonic()
    while True:
        with contextlib.suppress(OSError):  # no free port at the moment
            sockets.append(stranger(port, addresses[said[0] % len(addresses)]))
            said[0] += 1
        said[1] = max(said[1], len(sockets))
        full = len(sockets) >= held
        if full:
            sockets.popleft().close()
        due = max(due, time.monotonic() - 0.1) + 1 / (NEW_PER_S if full else FIRST_PER_S)
        time.sleep(max(0, due - time.monotonic()))


def call(server):
    """Returns how long an operator's request takes, in ms."""
    began = time.monotonic()
    done = subprocess.run([str(BIN / "server" / "ctl" / "tfe-ctl"), "--state-dir", str(server.dir / "state"), "status",
                           "--timeout", "30s"], stdin=subprocess.DEVNULL, capture_output=True)
    return 1000 * (time.monotonic() - began) if done.returncode == 0 else 30000.0


def calls(server, seconds):
    end, waited = time.monotonic() + seconds, []
    while time.monotonic() < end:
        waited.append(call(server))
        time.sleep(0.1)
    return waited


def measure(figures, case, addresses, held, agents, seconds):
    if not figures.wanted(case):
        return
    worst, quiet_worst, p99, quiet_p99, ended, cost = [], [], [], [], [], []
    for _ in range(figures.options.turns):
        with Server("--ttl", TTL, "--max-half-open-per-address", 64) as server:
            with Load(server, agents, "--nnodes", f"{agents}:{agents}", prefix=ahead()) as load:
                load(f"connect 0 {agents}")
                epoch = load(f"started {agents} 120")["epoch"]
                load("mark")
                load.send("run 3")
                quiet_worst.append(max(calls(server, 2.5)))
                quiet_p99.append(load.answer("run")["p99_us"] / 1000)
                load("mark")
                said = multiprocessing.Array("q", 2, lock=False)
                strangers = multiprocessing.Process(target=flood, args=(server.port, addresses, held, said))
                used = server.cpu_s()
                strangers.start()
                try:
                    load.send(f"run {seconds}")
                    waited = calls(server, seconds - 1)
                    facts = load.answer("run")
                    used = server.cpu_s() - used
                finally:
                    strangers.kill()
                    strangers.join()
                worst.append(max(waited))
                p99.append(facts["p99_us"] / 1000)
                lost = (server.dir / "log").read_text().count("node_lost")
                ended.append(max(lost, agents - facts["connected"], facts["epoch"] - epoch))
                cost.append(1e6 * used / max(1, said[0]))
                print(f"    {said[0]} connections, {said[1]} held at a time, {len(waited)} calls", flush=True)
    figures.add(f"{case}: slowest call of an operator", worst, "ms", quiet_worst, ("value<=", 500))
    figures.add(f"  leases of {agents} that ended", ended, "", goal=("value<=", 0), exact=True)
    figures.add("  renewal p99", p99, "ms", quiet_p99, ("value<=", 100))
    figures.add("  server's time per connection, renewals too", cost, "us")


def main():
    options = arguments(__doc__)
    figures = Figures(options)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Exceeds the server's limits in both cases.
    agents, seconds, held, sources = (100, 6, 5000, 1100) if options.quick else (1000, 60, 15000, 2000)
    held = min(held, hard - 100)
    print(f"  limit of open files {hard}: {held} connections at a time", flush=True)
    measure(figures, "one source", ["127.9.9.9"], held, agents, seconds)
    many = [f"127.{1 + i // 250}.{1 + i % 250}.7" for i in range(sources)]
    measure(figures, f"{sources} sources", many, min(4 * sources, held), agents, seconds)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
