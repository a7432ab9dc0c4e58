"""How TensorFlow's roles behave by hand: the facts in docs/tensorflow.md, section 6. Not a test; it prints what it finds.

    roles_facts.py [FACT…]       each three times, on this machine's loopback
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 60


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6


# --- one process of the cluster, started with TF_CONFIG -------------------------------------------


def serve():
    import tensorflow as tf
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
                                  protocol="grpc", start=True)
    say(event="serves")
    server.join()


def coordinate():
    """arguments: PLAN, a JSON object: steps, restore, hang (a step waits so long, and adds then), variables."""
    import tensorflow as tf
    plan = json.loads(os.environ["PLAN"])
    if plan.get("grpc_timeout"):
        pass
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(plan.get("shards", 2)))
    say(event="strategy")
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([64, 4]), name="weights")
        total = tf.Variable(plan.get("begin", 0.0), name="total")
        for number in range(plan.get("more", 0)):
            tf.Variable(tf.zeros([1 << 20]), name=f"more{number}")
    say(event="variables", total=float(total.numpy()), weights=float(tf.reduce_sum(tf.convert_to_tensor(weights))))

    def who():
        """An element that says when the worker that gives it has begun: another one after its return."""
        return tf.data.Dataset.from_tensors(0.0).map(lambda _: tf.timestamp()).cache().repeat()
    iterator = iter(coordinator.create_per_worker_dataset(who))

    @tf.function
    def step(iterator):
        began = next(iterator)
        for part in weights.variables if hasattr(weights, "variables") else [weights]:
            part.assign_add(tf.ones_like(part))
        if plan.get("hang"):
            with tf.control_dependencies([began]):
                n = tf.while_loop(lambda _: tf.timestamp() < began + plan["hang"], lambda n: [n + 1], [tf.constant(0)])[0]
            with tf.control_dependencies([n]):
                total.assign_add(1000.0)
        return began

    done, seen = 0, set()
    try:
        while done < plan["steps"]:
            flying = [coordinator.schedule(step, args=(iterator,)) for _ in range(4)]
            for one in flying:
                began = one.fetch()
                done += 1
                if began not in seen:
                    seen.add(began)
                    say(event="worker", number=len(seen))
                say(step=done)
            time.sleep(0.01)
        coordinator.join()
    except Exception as error:
        say(event="error", type=type(error).__name__, text=str(error)[:200])
        raise
    say(event="end", total=float(total.numpy()), weights=float(tf.reduce_sum(tf.convert_to_tensor(weights))))
    if plan.get("hold"):
        time.sleep(plan["hold"])
        say(event="held", total=float(total.numpy()))


def mirrored():
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([1])))
    say(step=1, sum=float(strategy.experimental_local_results(step())[0][0]))
    time.sleep(1)


def say(**fields):
    print(json.dumps({"t": now(), "pid": os.getpid(), **fields}), flush=True)


# --- the cluster -------------------------------------------------------------------------------------


class Cluster:
    """Processes by place; "ps0" is task 0 of job ps."""

    def __init__(self, folder, mode="ps", **sizes):
        sys.path.insert(0, str(ROOT / "scripts" / "lib"))
        from programs import clean_environment
        from standby import Standby
        self.standby, self.folder, self.mode = Standby, pathlib.Path(folder), mode
        self.env = clean_environment(TMPDIR=str(folder), TF_CPP_MIN_LOG_LEVEL="2", TF_GRPC_REUSE_PORT="true", PYTHONUNBUFFERED="1")
        self.held, self.spec = [], {}
        for job, size in sizes.items():
            self.spec[job] = []
            for _ in range(size):
                one = socket.socket()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                one.bind(("", 0))
                self.held.append(one)
                self.spec[job].append(f"127.0.0.1:{one.getsockname()[1]}")
        self.places = [f"{job}{index}" for job, size in sizes.items() for index in range(size)]
        self.running, self.files, self.count, self.warm = {}, {}, 0, []

    def warm_up(self, count):
        line = [sys.executable, __file__, "--process"]
        while len(self.warm) < count:
            self.warm.append(self.standby(line, self.folder, self.env, preload="tensorflow"))
        for one in self.warm:
            while not getattr(one, "is_ready", False):
                one.is_ready = one.says().startswith("W")

    def start(self, place, plan=None, cold=False, port=None):
        job, index = place[:-1], int(place[-1])
        env = {**self.env, "TF_CONFIG": json.dumps({"cluster": self.spec, "task": {"type": job, "index": index}}),
               "MODE": self.mode if self.mode == "mwms" else "chief" if job == "chief" else "server", "PLAN": json.dumps(plan or {})}
        self.count += 1
        path = self.folder / f"{self.count}.{place}"
        self.files[place] = path
        began = now()
        with open(f"{path}.out", "wb") as out, open(f"{path}.err", "wb") as err:
            if cold:
                self.running[place] = subprocess.Popen([sys.executable, __file__, "--process"], env=env, stdout=out, stderr=err)
            else:
                self.warm_up(1)
                one = self.warm.pop()
                one.give(env, out.fileno(), err.fileno())
                self.running[place] = one.process
                one.control.detach()
        return began

    def kill(self, place, number=signal.SIGKILL):
        self.running[place].send_signal(number)
        return self.running.pop(place).wait()

    def lines(self, place):
        try:
            return [json.loads(line) for line in pathlib.Path(f"{self.files[place]}.out").read_text().splitlines() if line[:1] == "{" and line[-1] == "}"]
        except FileNotFoundError:
            return []

    def wait(self, place, what, look, patience_s=PATIENCE_S):
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            found = next((line for line in self.lines(place) if look(line)), None)
            if found:
                return found
            time.sleep(0.005)
        return None

    def event(self, place, event, patience_s=PATIENCE_S):
        return self.wait(place, event, lambda line: line.get("event") == event, patience_s)

    def step(self, place="chief0", least=1, patience_s=PATIENCE_S):
        return self.wait(place, "a step", lambda line: line.get("step", 0) >= least, patience_s)

    def error_tail(self, place):
        return pathlib.Path(f"{self.files[place]}.err").read_text(errors="replace")[-1500:]

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()
        for one in self.warm:
            one.end()
        for one in self.held:
            one.close()


LONG = {"steps": 10**6}


def gaps(lines, begin, end):
    """The longest time without a step in between."""
    times = [begin, *(line["t"] for line in lines if "step" in line and begin < line["t"] < end), end]
    return max(after - before for before, after in zip(times, times[1:]))


def start_order(folder):
    for name, order in (("servers, then chief", ["ps0", "worker0", "worker1", "chief0"]),
                        ("chief first", ["chief0", "ps0", "worker0", "worker1"]),
                        ("ps 0.3 s late", ["worker0", "worker1", "chief0", 0.3, "ps0"]),
                        ("ps 2 s late", ["worker0", "worker1", "chief0", 2, "ps0"]),
                        ("worker 0.3 s late", ["ps0", "worker0", "chief0", 0.3, "worker1"]),
                        ("worker 2 s late", ["ps0", "worker0", "chief0", 2, "worker1"]),
                        ("servers listen, then chief", ["ps0", "worker0", "worker1", "listen", "chief0"])):
        cluster = Cluster(folder, chief=1, worker=2, ps=1)
        cluster.warm_up(4)
        began = now()
        for place in order:
            if place == "listen":
                for server in ("ps0", "worker0", "worker1"):
                    cluster.event(server, "serves")
            elif isinstance(place, str):
                last = cluster.start(place, LONG)
            else:
                time.sleep(place)
        first = cluster.step()
        serves = max((cluster.event(server, "serves") or {"t": 0})["t"] for server in ("ps0", "worker0", "worker1"))
        print(f"  {name}: first step {first and round(first['t'] - began)} ms after the first start, "
              f"{first and round(first['t'] - serves)} after the last server listened, last start {round(last - began)}", flush=True)
        cluster.end()


def worker_returns(folder):
    for cold in (False, True):
        cluster = Cluster(folder, chief=1, worker=2, ps=1)
        cluster.warm_up(5)
        for place in ("ps0", "worker0", "worker1", "chief0"):
            cluster.start(place, LONG)
        cluster.wait("chief0", "both", lambda line: line.get("number") == 2)
        time.sleep(0.5)
        began = now()
        cluster.kill("worker1")
        cluster.start("worker1", cold=cold)
        serves = cluster.event("worker1", "serves")
        back = cluster.wait("chief0", "third", lambda line: line.get("number") == 3)
        gap = gaps(cluster.lines("chief0"), began, back["t"] if back else now())
        print(f"  {'cold' if cold else 'warm'}: used again {back and round(back['t'] - began)} ms after the kill, "
              f"listened after {round(serves['t'] - began)}; longest without a step {round(gap)} ms", flush=True)
        cluster.end()


def two_workers_lost(folder):
    """Does a worker that returns get used while another one's place stays empty?"""
    cluster = Cluster(folder, chief=1, worker=3, ps=1)
    cluster.warm_up(6)
    for place in ("ps0", "worker0", "worker1", "worker2", "chief0"):
        cluster.start(place, LONG)
    cluster.wait("chief0", "all", lambda line: line.get("number") == 3)
    cluster.kill("worker2")
    time.sleep(3)
    a = len(cluster.lines("chief0"))
    time.sleep(1)
    b = len(cluster.lines("chief0"))
    print(f"  worker2 gone for 3 s: {b - a} lines in a second", flush=True)
    began = now()
    cluster.kill("worker1")
    cluster.start("worker1")
    back = cluster.wait("chief0", "again", lambda line: line.get("number") == 4, 40)
    gap = gaps(cluster.lines("chief0"), began, now())
    print(f"  worker1 killed and back, worker2's place empty: used again after {back and round(back['t'] - began)} ms; longest gap {round(gap)}", flush=True)
    began = now()
    cluster.start("worker2")
    back = cluster.wait("chief0", "again", lambda line: line.get("number") == 5, 40)
    print(f"  worker2 back: used again after {back and round(back['t'] - began)} ms; errors {[l for l in cluster.lines('chief0') if l.get('event') == 'error']}", flush=True)
    cluster.end()


def chief_again(folder):
    cluster = Cluster(folder, chief=1, worker=2, ps=2)
    cluster.warm_up(5)
    for place in ("ps0", "ps1", "worker0", "worker1"):
        cluster.start(place)
    for number in range(4):
        began = cluster.start("chief0", {**LONG, "begin": 5.0, "more": 8})
        found = cluster.event("chief0", "variables")
        first = cluster.step()
        rss = [int(pathlib.Path(f"/proc/{cluster.running[ps].pid}/statm").read_text().split()[1]) // 256 for ps in ("ps0", "ps1")]
        print(f"  chief {number + 1}: first step {first and round(first['t'] - began)} ms, total {found and found['total']}, "
              f"weights {found and found['weights']}, MB of the ps {rss}", flush=True)
        time.sleep(0.5)
        cluster.kill("chief0")
    print("  servers:", {place: process.poll() for place, process in cluster.running.items()}, flush=True)
    cluster.end()


def stale_steps(folder):
    """Does a step that an old chief's workers still do reach the new chief's variables?"""
    cluster = Cluster(folder, chief=1, worker=2, ps=1)
    cluster.warm_up(5)
    for place in ("ps0", "worker0", "worker1"):
        cluster.start(place)
    cluster.start("chief0", {**LONG, "hang": 4.0})
    cluster.event("chief0", "variables")
    time.sleep(2)
    cluster.kill("chief0")
    cluster.start("chief0", {"steps": 4, "begin": 7.0, "hold": 8})
    end, held = cluster.event("chief0", "end"), cluster.event("chief0", "held")
    print(f"  a new chief's variable, begun at 7: {end and end['total']} after its steps, {held and held['total']} 8 s later", flush=True)
    if not held:
        print(cluster.error_tail("chief0"), cluster.lines("chief0")[-3:])
    cluster.end()


def ps_again(folder):
    cluster = Cluster(folder, chief=1, worker=2, ps=2)
    cluster.warm_up(6)
    for place in ("ps0", "ps1", "worker0", "worker1", "chief0"):
        cluster.start(place, LONG)
    cluster.step(least=20)
    began = now()
    cluster.kill("ps1")
    try:
        code = cluster.running.pop("chief0").wait(60)
    except subprocess.TimeoutExpired:
        code = "none in 60 s"
    error = cluster.event("chief0", "error", 1)
    print(f"  chief ended with {code} after {round(now() - began)} ms: {error and (error['type'], error['text'][:80])}; "
          f"others {({p: q.poll() for p, q in cluster.running.items()})}", flush=True)
    cluster.start("ps1")
    began = cluster.start("chief0", {"steps": 50, "begin": 5.0})
    first, end = cluster.step(), cluster.event("chief0", "end")
    print(f"  new chief and ps1, the others kept: first step {first and round(first['t'] - began)} ms, {end}", flush=True)
    for place in ("ps0", "worker0"):
        print(f"  SIGTERM to {place}: {cluster.kill(place, signal.SIGTERM)}", flush=True)
    cluster.end()


def chief_ends(folder):
    """What do servers do after the chief's end, and how does the chief end with one worker gone?"""
    cluster = Cluster(folder, chief=1, worker=2, ps=1)
    cluster.warm_up(4)
    for place in ("ps0", "worker0", "worker1"):
        cluster.start(place)
    cluster.start("chief0", {"steps": 200})
    cluster.step(least=20)
    cluster.kill("worker1")
    began = now()
    try:
        code = cluster.running.pop("chief0").wait(60)
    except subprocess.TimeoutExpired:
        code = "none in 60 s"
    end = cluster.event("chief0", "end", 1)
    print(f"  chief without worker1: {code}, its last line at {end and round(end['t'] - began)}, ended at {round(now() - began)} ms", flush=True)
    time.sleep(3)
    print("  servers 3 s later:", {place: process.poll() for place, process in cluster.running.items()}, flush=True)
    cluster.end()


def mirrored_with_chief(folder):
    for name, order in (("chief first", ["chief0", 0.2, "worker0", "worker1"]), ("chief 0.2 s late", ["worker0", "worker1", 0.2, "chief0"]),
                        ("worker 0 0.2 s late", ["chief0", "worker1", 0.2, "worker0"])):
        cluster = Cluster(folder, mode="mwms", chief=1, worker=2)
        cluster.warm_up(3)
        began = now()
        for place in order:
            if isinstance(place, str):
                last = cluster.start(place)
            else:
                time.sleep(place)
        first = cluster.step("worker1")
        print(f"  {name}: first all-reduce {first and round(first['t'] - last)} ms after the last start, sum {first and first['sum']}", flush=True)
        cluster.end()


FACTS = {f.__name__: f for f in (start_order, worker_returns, two_workers_lost, chief_again, stale_steps, ps_again, chief_ends, mirrored_with_chief)}


def main():
    for name in sys.argv[1:] or FACTS:
        for turn in range(int(os.environ.get("TURNS", 3))):
            print(f"{name}, {turn + 1}:", flush=True)
            with tempfile.TemporaryDirectory(prefix="tfe-facts-") as folder:
                FACTS[name](pathlib.Path(folder))


if __name__ == "__main__":
    if sys.argv[1:] == ["--process"]:
        import tensorflow  # noqa: F401
        {"server": serve, "chief": coordinate, "mwms": mirrored}[os.environ["MODE"]]()
    else:
        main()
