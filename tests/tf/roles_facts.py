"""Prints how TensorFlow's roles behave without agents: the facts of docs/tensorflow.md, section 6. Not a test.

    roles_facts.py [FACT…]       each three times, on this machine's loopback; TURNS=N sets another number
"""
import os
import pathlib
import signal
import sys
import tempfile
import time

import by_hand
import tensorflow as tf
from by_hand import now, say

LONG = 10**6


# --- the processes -----------------------------------------------------------------------------------


def serve():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
                                  protocol="grpc", start=True)
    say(event="serves")
    server.join()


def coordinate(steps=LONG, begin=0.0, more=0, hang_s=0.0, hold_s=0.0):
    """begin: a value. more: variables. hang_s: time that a step waits before it adds. hold_s: time that it waits at its
    end."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([64, 4]))
        total = tf.Variable(begin)
        kept = [tf.Variable(tf.zeros([1 << 20])) for _ in range(more)]
    say(event="variables", total=float(total.numpy()), weights=float(tf.reduce_sum(tf.convert_to_tensor(weights))), more=len(kept))

    def who():
        """Returns an element with the start time of the worker that provides it, which identifies the process."""
        return tf.data.Dataset.from_tensors(0.0).map(lambda _: tf.timestamp()).cache().repeat()
    iterator = iter(coordinator.create_per_worker_dataset(who))

    @tf.function
    def step(iterator):
        began = next(iterator)
        for part in weights.variables:
            part.assign_add(tf.ones_like(part))
        if hang_s:
            start = tf.timestamp()
            turns = tf.while_loop(lambda _: tf.timestamp() < start + hang_s, lambda n: [n + 1], [tf.constant(0)])[0]
            with tf.control_dependencies([turns]):
                total.assign_add(1000.0)
        return began

    done, seen = 0, set()
    try:
        while done < steps:
            for one in [coordinator.schedule(step, args=(iterator,)) for _ in range(4)]:
                began = one.fetch()
                done += 1
                if began not in seen:
                    seen.add(began)
                    say(event="worker", number=len(seen))
                say(step=done)
            time.sleep(0.01)
        coordinator.join()
    except Exception as error:
        say(event="error", type=type(error).__name__)
        raise
    say(event="end", total=float(total.numpy()))
    if hold_s:
        time.sleep(hold_s)
        say(event="held", total=float(total.numpy()))


def mirrored():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([1])))
    say(step=1, sum=float(strategy.experimental_local_results(step())[0][0]))
    time.sleep(1)


# --- the facts ---------------------------------------------------------------------------------------


def is_event(name):
    return lambda line: line.get("event") == name


def is_step(line):
    return "step" in line


def is_worker(number):
    return lambda line: line.get("number") == number


def ms(line, since):
    return line and round(line["t"] - since)


def start(cluster, *places, **options):
    """Starts these processes in this order, with a pause in seconds for each number; returns the time of the last
    start."""
    for place in places:
        if isinstance(place, str):
            last = cluster.start(place, (lambda: coordinate(**options)) if place == "chief0" else serve)
        else:
            time.sleep(place)
    return last


def gap(lines, begin, end):
    """Returns the longest time without a step in between."""
    times = [begin, *(line["t"] for line in lines if "step" in line and begin < line["t"] < end), end]
    return round(max(after - before for before, after in zip(times, times[1:])))


def start_order(folder):
    for name, order in (("servers, then chief, all at once", ["ps0", "worker0", "worker1", "chief0"]),
                        ("chief first, all at once", ["chief0", "ps0", "worker0", "worker1"]),
                        ("ps 0.3 s late", ["worker0", "worker1", "chief0", 0.3, "ps0"]),
                        ("ps 2 s late", ["worker0", "worker1", "chief0", 2, "ps0"]),
                        ("worker 0.3 s late", ["ps0", "worker0", "chief0", 0.3, "worker1"]),
                        ("worker 2 s late", ["ps0", "worker0", "chief0", 2, "worker1"]),
                        ("servers listen, then chief", ["ps0", "worker0", "worker1", None, "chief0"])):
        with by_hand.Cluster(folder, chief=1, worker=2, ps=1) as cluster:
            began = now()
            if None in order:
                start(cluster, *order[:-2])
                for place in order[:-2]:
                    cluster.heard(place, is_event("serves"))
                order = order[-1:]
            start(cluster, *order)
            first = cluster.heard("chief0", is_step)
            serves = max(cluster.heard(place, is_event("serves"))["t"] for place in ("ps0", "worker0", "worker1"))
            print(f"  {name}: first step {ms(first, began)} ms after the first start, {ms(first, serves)} after the last server listened",
                  flush=True)


def worker_returns(folder):
    with by_hand.Cluster(folder, chief=1, worker=2, ps=1) as cluster:
        start(cluster, "ps0", "worker0", "worker1", "chief0")
        cluster.heard("chief0", is_worker(2))
        for turn, rest_s in enumerate((0, 2)):
            began = now()
            cluster.kill("worker1")
            time.sleep(rest_s)
            started = start(cluster, "worker1")
            serves = cluster.heard("worker1", is_event("serves"))
            back = cluster.heard("chief0", is_worker(3 + turn))
            print(f"  started {rest_s} s after its death: used again {ms(back, started)} ms after its start, {ms(back, serves['t'])} after it "
                  f"listened; longest without a step {gap(cluster.lines('chief0'), began, now())} ms", flush=True)


def two_workers_lost(folder):
    """Is a worker that returns used while another worker is still missing?"""
    with by_hand.Cluster(folder, chief=1, worker=3, ps=1) as cluster:
        start(cluster, "ps0", "worker0", "worker1", "worker2", "chief0")
        cluster.heard("chief0", is_worker(3))
        began = now()
        cluster.kill("worker2")
        time.sleep(1)
        cluster.kill("worker1")
        started = start(cluster, "worker1")
        back = cluster.heard("chief0", is_worker(4), 20)
        print(f"  one returns, one stays away: used again after {ms(back, started)} ms of 20 s", flush=True)
        started = start(cluster, "worker2")
        back = cluster.heard("chief0", is_worker(5), 60)
        print(f"  the other one returns, too: both used after {ms(back, started)} ms; longest without a step "
              f"{gap(cluster.lines('chief0'), began, now())} ms", flush=True)


def chief_again(folder):
    """Starts a new chief with the servers of the old one."""
    with by_hand.Cluster(folder, chief=1, worker=2, ps=2) as cluster:
        start(cluster, "ps0", "ps1", "worker0", "worker1")
        for number in range(4):
            began = start(cluster, "chief0", begin=5.0, more=8)
            found, first = cluster.heard("chief0", is_event("variables")), cluster.heard("chief0", is_step)
            mb = [int(pathlib.Path(f"/proc/{cluster.running[ps].pid}/statm").read_text().split()[1]) // 256 for ps in ("ps0", "ps1")]
            print(f"  chief {number + 1}: first step after {ms(first, began)} ms, total {found and found['total']} of 5, weights "
                  f"{found and found['weights']} of 0, MB of the ps {mb}", flush=True)
            time.sleep(0.5)
            cluster.kill("chief0")
        print("  servers:", {place: cluster.poll(place) for place in cluster.running}, flush=True)


def stale_steps(folder):
    """Does a step that is under way when its chief dies reach the next chief's variables?"""
    with by_hand.Cluster(folder, chief=1, worker=2, ps=1) as cluster:
        start(cluster, "ps0", "worker0", "worker1")
        start(cluster, "chief0", hang_s=25.0)
        cluster.heard("chief0", is_event("variables"))
        time.sleep(2)
        cluster.kill("chief0")
        began = start(cluster, "chief0", steps=4, begin=7.0, hold_s=25)
        end, held = cluster.heard("chief0", is_event("end")), cluster.heard("chief0", is_event("held"))
        print(f"  begun at 7: {end and end['total']} {ms(end, began)} ms after its start, {held and held['total']} when the old steps' time "
              f"was over", flush=True)


def ps_again(folder):
    with by_hand.Cluster(folder, chief=1, worker=2, ps=2) as cluster:
        start(cluster, "ps0", "ps1", "worker0", "worker1", "chief0")
        cluster.heard("chief0", is_worker(2))
        began = now()
        cluster.kill("ps1")
        code = cluster.wait("chief0")
        error = cluster.heard("chief0", is_event("error"), 1)
        print(f"  chief ended with {code} after {round(now() - began)} ms: {error and error['type']} after {ms(error, began)}; the others "
              f"{({place: cluster.poll(place) for place in cluster.running})}", flush=True)
        start(cluster, "ps1")
        began = start(cluster, "chief0", steps=50)
        print(f"  new chief and ps, the others kept: first step after {ms(cluster.heard('chief0', is_step), began)} ms", flush=True)
        print(f"  SIGTERM: {({place: cluster.kill(place, signal.SIGTERM) for place in ('ps0', 'worker0')})}", flush=True)


def chief_ends(folder):
    for lost in (None, "worker1"):
        with by_hand.Cluster(folder, chief=1, worker=2, ps=1) as cluster:
            start(cluster, "ps0", "worker0", "worker1")
            start(cluster, "chief0", steps=800)
            cluster.heard("chief0", is_worker(2))
            if lost:
                cluster.kill(lost)
            code = cluster.wait("chief0")
            end, ended = cluster.heard("chief0", is_event("end"), 1), now()
            print(f"  {lost or 'nobody'} lost: {code}, {end and round(ended - end['t'])} ms after its last line; servers "
                  f"{({place: cluster.poll(place) for place in cluster.running})}", flush=True)


def mirrored_with_chief(folder):
    for name, order in (("all at once", ["chief0", "worker0", "worker1"]), ("chief 0.2 s late", ["worker0", "worker1", 0.2, "chief0"]),
                        ("worker 0 0.2 s late", ["chief0", "worker1", 0.2, "worker0"])):
        with by_hand.Cluster(folder, chief=1, worker=2) as cluster:
            for place in order:
                if isinstance(place, str):
                    last = cluster.start(place, mirrored)
                else:
                    time.sleep(place)
            first = cluster.heard("worker1", is_step)
            print(f"  {name}: first all-reduce {ms(first, last)} ms after the last start, sum {first and first['sum']}", flush=True)


FACTS = {fact.__name__: fact for fact in (start_order, worker_returns, two_workers_lost, chief_again, stale_steps, ps_again, chief_ends,
                                          mirrored_with_chief)}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or FACTS:
        for turn in range(int(os.environ.get("TURNS", 3))):
            print(f"{chosen}, {turn + 1}:", flush=True)
            with tempfile.TemporaryDirectory(prefix="tfe-facts-") as temporary:
                FACTS[chosen](pathlib.Path(temporary))
