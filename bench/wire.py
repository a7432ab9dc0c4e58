"""Measures renewals on one core compared with sealed echoes that have no leases, and the cost of a connection."""
import sys

from figures import Echo, Figures, Load, Server, arguments, crypto_facts

WINDOW = 64
FULL = 1024


def renewals(figures, agents, seconds, turns):
    case = f"renewals/cpu s, {agents} connections"
    if not figures.wanted(case):
        return
    values, floors, full, full_floors, busy, beside = [], [], [], [], [], {"plain": [], "bufferevent": []}
    with Server("--ttl", "60") as server, Load(server, agents, "--nnodes", f"{agents}:{agents}") as load:
        load(f"connect 0 {agents}")
        load(f"connected {agents} 120")
        load(f"started {agents} 120")
        load("run 1")
        for _ in range(turns):
            load("mark")
            load(f"window {WINDOW}")
            before = server.cpu_s()
            answered = load(f"run {seconds}")["renewed"]
            values.append(answered / (server.cpu_s() - before))
            load(f"window {FULL - WINDOW}")
            load("run 0.2")
            load("mark")
            before = server.cpu_s()
            facts = load(f"run {seconds}")
            full.append(facts["renewed"] * 1e6 / facts["us"])
            busy.append(100 * (server.cpu_s() - before) * 1e6 / facts["us"])
            load("window 0")
            load("run 0.5")
            with Echo("sealed") as echo:
                floors.append(echo.per_cpu_s(agents, WINDOW, seconds))
                full_floors.append(echo.per_s(agents, FULL, seconds))
            for kind, answers in beside.items():
                with Echo(kind) as echo:
                    answers.append(echo.per_cpu_s(agents, WINDOW, seconds / 2))
    figures.add(case, values, "1/s", floors, ("ratio>=", 0.8))
    figures.add("  of wall time, as many under way as fill the core", full, "1/s", full_floors)
    figures.add("  … and so the server's core was busy", busy, "%")
    for kind, answers in beside.items():
        figures.add(f"  the {kind} echo", answers, "1/s")


def handshakes(figures, n, turns):
    """Compares handshakes with a node key and with a token. Curve operations are nearly all of both: Noise IK has four
    shared secrets and one base point where NKpsk0 has two and one, so a ratio of 1.3 is impossible."""
    case = "handshake with an own key, server's share"
    if not figures.wanted(case):
        return
    runs = [crypto_facts("handshakes", n) for _ in range(turns)]
    figures.add(case, [run["key"] for run in runs], "us", [run["token"] for run in runs], ("ratio<=", 1.7))
    figures.add("  the agent's share", [run["key_client"] for run in runs], "us", [run["token_client"] for run in runs])


def connection(figures, agents, turns):
    """Measures the cost of an authenticated connection before and after its JOIN."""
    # In a small run fewer connections share the fixed costs.
    for silent, limit in ((1, 1280), (0, 2560 if agents >= 10000 else 2816)):
        case = f"RSS per {'silent connection' if silent else 'joined agent'}, {agents}"
        if not figures.wanted(case):
            continue
        values = []
        for _ in range(turns):
            with Server("--ttl", "60") as server:
                empty = server.memory()
                # The agents' job waits for one more node.
                with Load(server, agents, "--nnodes", f"{agents + 1}:{agents + 1}", "--silent", silent) as load:
                    load(f"connect 0 {agents}")
                    load(f"connected {agents} 120")
                    load("run 1")
                    values.append((server.memory() - empty) / agents)
        figures.add(case, values, "B", goal=("value<=", limit), exact=True)


def idle(figures, agents, turns):
    case = f"idle, {agents} agents, ttl 10 s"
    if not figures.wanted(case):
        return
    seconds, values, floors, spread = (4 if figures.options.quick else 10), [], [], []
    for _ in range(turns):
        with Server("--ttl", "10") as server, Load(server, agents, "--nnodes", f"{agents}:{agents}") as load:
            load(f"connect 0 {agents}")
            load(f"started {agents} 120")
            load("doze 4")
            load("mark")
            before = server.cpu_s()
            renewed = load(f"doze {seconds}")["renewed"]
            values.append(100 * (server.cpu_s() - before) / seconds)
            # Renewals as from independent machines, each at its own time. This includes the cost of waking the
            # generator, which runs on the same machine.
            before = server.cpu_s()
            load(f"run {seconds}")
            spread.append(100 * (server.cpu_s() - before) / seconds)
        with Echo("sealed") as echo:
            # The same rate of echoes from as many connections, in the same way.
            floors.append(100 * renewed / seconds / echo.per_cpu_s(agents, 0, seconds, renewed / seconds))
    figures.add(case, values, "% of a core", floors,
                ("ratio<=", 2) if figures.options.quick else ("value<=", 8 * agents / 10000))
    figures.add("  arriving one by one", spread, "% of a core", floors)


def main():
    options = arguments(__doc__)
    figures = Figures(options)
    scale = 20 if options.quick else 1
    seconds = 2 if options.quick else 4
    for agents in (500,) if options.quick else (1000, 10000):
        renewals(figures, agents, seconds, options.turns)
    handshakes(figures, 20000 // scale, options.turns)
    connection(figures, 3000 if options.quick else 10000, options.turns)
    idle(figures, 10000 // scale, options.turns)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
