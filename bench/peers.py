"""bench/peers.py: torchrun and etcd doing the same work as tfe, on the same machine, alternately.

    peers.py [--rounds N] [--seconds S] [--only torchrun,etcd] [--out FILE]

Loss and growth: three agents with one trainer each that runs all-reduces without end. trainer_kill, agent_kill and join
are timed from the event to the first all-reduce of the next group (agent_kill also kills torchrun's trainer, which
would otherwise continue as an orphan and prevent the next group); coordinator_kill is the longest time without an
all-reduce after the process that keeps the membership was killed (tfe's is restarted at once; torchrun's is one of its
agents). torchrun runs with its defaults (c10d) and with short waits (last call and keep-alive 1 s, monitor 100 ms),
PyTorch on gloo; tfe runs TensorFlow, with its defaults except for a --gather of 1 s. A case that has not recovered in
90 s is "never". torchrun needs two settings to form any group here, also after the first change: see Torch.

Leases: renewals per second of the server's processor time, with 1,000 leases and 50 requests under way: etcd's
LeaseKeepAlive on 50 gRPC streams, tfe's on a sealed connection each. scripts/bench.sh installs both peers: 7 GB, most
of it for GPUs. No gate runs this benchmark.
"""
import argparse
import importlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import recovery
from figures import LOAD_CORE, SERVER_CORE, Load, Server
from programs import Failed, children, clean_environment, wait_for

HERE = pathlib.Path(__file__).resolve().parent
NEVER_S = 90
CASES = ("trainer_kill", "agent_kill", "join", "coordinator_kill")
TUNED = ("--monitor-interval=0.1", "--rdzv-conf=last_call_timeout=1,keep_alive_interval=1")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def longest_pause(log, began, seconds):
    """Returns the longest ms without a step after `began`, or None if the pause has not ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.2)
        log.read()
    steps = sorted({line["step"] for line in log.lines if "step" in line})
    last = max((t for t in steps if t <= began), default=began)
    after = [last] + [t for t in steps if t > began]
    if len(after) < 3 or recovery.now() - after[-1] > 2000:
        return None
    return max(b - a for a, b in zip(after, after[1:]))


class Torch:
    """Three torchruns on this machine; the first keeps the membership of all. Its trainers get a new store for each
    group (TORCH_DISABLE_SHARE_RDZV_TCP_STORE): in a store shared by agents they meet under each agent's own count of
    restarts, so that they never meet again after one of them has failed (pytorch#135712). --local-addr, because the
    store is otherwise sought by the host's name, which need not resolve to this machine."""

    def __init__(self, folder, python, options):
        self.folder, self.python, self.options, self.agents = folder, python, options, []
        self.log = recovery.StepLog(folder / "loop")
        self.endpoint = f"127.0.0.1:{free_port()}"

    def begin(self):
        for _ in range(3):
            self.join()
            wait_for("torchrun's store", lambda: recovery.listens(int(self.endpoint.rpartition(":")[2])), 60)
        self.settle(3)

    def join(self):
        with open(self.folder / "torchrun.log", "ab") as said:
            self.agents.append(subprocess.Popen(
                [self.python, "-m", "torch.distributed.run", "--nnodes=1:4", "--nproc-per-node=1", "--max-restarts=1000",
                 "--rdzv-backend=c10d", f"--rdzv-endpoint={self.endpoint}", "--rdzv-id=peers", "--local-addr=127.0.0.1", *self.options,
                 str(HERE / "peers_loop.py"), str(self.log.folder)],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                env=clean_environment(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
                                      TMPDIR=str(self.folder))))

    def settle(self, count):
        wait_for(f"{count} workers of torchrun", lambda: self.log.read() and
                 len({line["rank"] for line in self.log.lines if line["epoch"] == self.log.last_epoch()}) == count, 180)

    def trainers(self, agent):
        """Returns the trainers: descendants of the agent, or orphans of its session."""
        return children(agent.pid)

    def measure(self, case):
        self.settle(3)
        old, victim, began = self.log.last_epoch(), self.agents[-1], recovery.now()
        if case == "trainer_kill":
            os.kill(self.trainers(victim)[0], signal.SIGKILL)
        elif case == "join":
            self.join()
            began = None
        else:
            gone = victim if case == "agent_kill" else self.agents[0]
            for pid in (*self.trainers(gone), gone.pid):
                os.kill(pid, signal.SIGKILL)
            gone.wait()
            self.agents.remove(gone)
        try:
            if case == "coordinator_kill":
                return longest_pause(self.log, began, NEVER_S / 3)
            wait_for("torchrun's next group", lambda: self.log.last_epoch() > old and self.log.steps(self.log.last_epoch()), NEVER_S)
            return min(self.log.steps(self.log.last_epoch())) - (began or max(self.log.steps(old)))
        except Failed:
            return None

    def end(self):
        for agent in self.agents:
            below = self.trainers(agent)
            agent.kill()
            agent.wait()
            for pid in below:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass


class Ours:
    def __init__(self, folder):
        self.agents = recovery.Agents(folder, False)
        self.log = self.agents.log

    def begin(self):
        for _ in range(3):
            self.agents.join()

    def measure(self, case):
        self.agents.settle(3)
        if case == "coordinator_kill":
            began = recovery.now()
            self.agents.fleet.replace_server()
            return longest_pause(self.log, began, 10)
        return self.agents.measure(case, recovery.CASES[case][1])[0]

    def end(self):
        self.agents.end()


def membership(folder, python, rounds, say):
    """Returns {case: {system: [ms, or None if training never resumed]}}."""
    found = {case: {} for case in CASES}
    systems = {"ours": Ours, "torchrun": lambda where: Torch(where, python, ()), "torchrun, tuned": lambda where: Torch(where, python, TUNED)}
    for turn in range(rounds):
        for case in CASES:  # a new fleet for each case, so that leftovers of one do not affect the next
            for name, make in systems.items():
                where = folder / f"{name.replace(', ', '-')}-{case}-{turn}"
                where.mkdir()
                value, fleet = None, make(where)
                try:
                    fleet.begin()
                    value = fleet.measure(case)
                except Failed as error:
                    say(f"{name}: {error}")
                finally:
                    fleet.end()
                found[case].setdefault(name, []).append(value)
                say(f"round {turn + 1} of {rounds}, {case}, {name}: " + ("never" if value is None else f"{value:.0f} ms"))
    return found


# --- leases --------------------------------------------------------------------------------------


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def etcd_renewals(folder, leases, streams, seconds):
    """Returns renewals per second of etcd's processor time. The messages are encoded by hand: LeaseGrantRequest {1:
    TTL, 2: ID}, LeaseKeepAliveRequest {1: ID} of etcd's service Lease, v3."""
    grpc = importlib.import_module("grpc")
    client, peer = free_port(), free_port()
    with open(folder / "etcd.log", "wb") as said:
        etcd = subprocess.Popen(["taskset", "-c", str(SERVER_CORE), "etcd", "--data-dir", str(folder / "etcd"),
                                 f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}",
                                 f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                                 f"--initial-cluster=default=http://127.0.0.1:{peer}"], stdout=said, stderr=said)
    raw = {"request_serializer": bytes, "response_deserializer": bytes}
    try:
        wait_for("etcd", lambda: recovery.listens(client), 30)
        os.sched_setaffinity(0, {LOAD_CORE})
        channels = [grpc.insecure_channel(f"127.0.0.1:{client}", options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(streams)]
        grant = channels[0].unary_unary("/etcdserverpb.Lease/LeaseGrant", **raw)
        for lease in range(1, leases + 1):
            grant(b"\x08" + varint(600) + b"\x10" + varint(lease), wait_for_ready=True, timeout=30)
        over, counts = threading.Event(), [0] * streams

        def renew(number):
            mine = range(1 + number, leases + 1, streams)
            turn = threading.Semaphore(1)

            def requests():
                while not over.is_set():
                    for lease in mine:
                        turn.acquire()
                        yield b"\x08" + varint(lease)
            for _ in channels[number].stream_stream("/etcdserverpb.Lease/LeaseKeepAlive", **raw)(requests()):
                counts[number] += 1
                turn.release()
                if over.is_set():
                    return
        threads = [threading.Thread(target=renew, args=(number,), daemon=True) for number in range(streams)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        before, used = sum(counts), time.clock_gettime(~etcd.pid << 3 | 2)
        time.sleep(seconds)
        answered, used = sum(counts) - before, time.clock_gettime(~etcd.pid << 3 | 2) - used
        over.set()
        for thread in threads:
            thread.join(5)
        for channel in channels:
            channel.close()
        return answered / used
    finally:
        os.sched_setaffinity(0, range(os.cpu_count()))
        etcd.kill()
        etcd.wait()


def our_renewals(leases, window, seconds):
    with Server("--ttl", "60") as server, Load(server, leases, "--nnodes", f"{leases}:{leases}") as load:
        load(f"connect 0 {leases}")
        load(f"started {leases} 120")
        load("mark")
        load(f"window {window}")
        before = server.cpu_s()
        return load(f"run {seconds}")["renewed"] / (server.cpu_s() - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of renewals, each time")
    parser.add_argument("--only", default="torchrun,etcd")
    parser.add_argument("--torch", default=str(HERE.parent / ".venv-peers" / "bin" / "python"), help="a python that has PyTorch")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that everything that was started is stopped
    folder, rows = pathlib.Path(tempfile.mkdtemp(prefix="tfe-peers-")), []
    try:
        if "torchrun" in options.only:
            for case, systems in membership(folder, options.torch, options.rounds, lambda text: print(text, flush=True)).items():
                for name, values in systems.items():
                    back = [value for value in values if value is not None]
                    rows.append({"case": case, "system": name, "n": len(values), "never": len(values) - len(back), "unit": "ms",
                                 "value": round(statistics.median(back)) if len(back) * 2 > len(values) else None,
                                 "least": round(min(back)) if back else None, "most": round(max(back)) if back else None})
        if "etcd" in options.only:
            found = {"ours": [], "etcd": []}
            for turn in range(options.rounds):
                where = folder / f"etcd-{turn}"
                where.mkdir()
                found["etcd"].append(etcd_renewals(where, 1000, 50, options.seconds))
                found["ours"].append(our_renewals(1000, 50, options.seconds))
                print(f"round {turn + 1}, renewals per cpu second: ours {found['ours'][-1]:.0f}, etcd {found['etcd'][-1]:.0f}", flush=True)
            rows += [{"case": "renewals", "system": name, "n": len(values), "never": 0, "unit": "1/cpu s",
                      "value": round(statistics.median(values)), "least": round(min(values)), "most": round(max(values))}
                     for name, values in found.items()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    out = pathlib.Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")
    names = list(dict.fromkeys(row["system"] for row in rows))
    print("\n| | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for case in dict.fromkeys(row["case"] for row in rows):
        cells = {row["system"]: row for row in rows if row["case"] == case}
        words = ["" if name not in cells else "never" if cells[name]["value"] is None else
                 f"{cells[name]['value']:,} {cells[name]['unit']} ({cells[name]['least']:,} to {cells[name]['most']:,})" for name in names]
        print(f"| {case} | " + " | ".join(words) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
