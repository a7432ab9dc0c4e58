"""Measures an in-memory snapshot: its cost compared with memcpy, how much it slows training, and the restore.

Real TensorFlow, float32 in eight variables, memory as provided by the agent. --worker is internal."""
import json
import mmap
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "agent" / "python"))
os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", TFE_EPOCH="1")

MB = 1 << 20
SIZES = (10, 100, 1000)
STEP_S = 0.02
SETTLE_S, PAIRS = 5, 9


def checkpoint_of(tf, size, value):
    checkpoint = tf.train.Checkpoint(v=[tf.Variable(tf.fill([size // 32], value)) for _ in range(8)])
    checkpoint.save_counter  # noqa: B018
    return checkpoint


def took(function, *arguments):
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


def buffers_for(state, parts):
    size = state.size_of(parts)
    return state.Buffers(mmap.mmap(-1, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)), "bench")


def broadcast(rank, size):
    """Runs on each of two workers: rank 0 sends the state to rank 1, which restores it."""
    import tensorflow as tf
    from tfe import _memory, _state, _tensors
    from tfe._manager import service_keys
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        checkpoint = checkpoint_of(tf, size, 1.0 - rank)
    objects = _tensors.Objects(checkpoint)
    parts = objects.parts()
    buffers = buffers_for(_state, parts)
    for turn in range(2):  # the first turn also waits for the other rank
        buffers.write(1, turn, parts)
        held = buffers.whole()[0]
        began = time.perf_counter()
        body = _tensors.broadcast(held.body if rank == 0 else None, held.held.size, 0, 2)
        if rank == 1:
            objects.put_back(_state.read_body(body, 1, turn).parts)
    if rank == 1:
        assert float(checkpoint.v[7][0]) == 1.0
        print(json.dumps(time.perf_counter() - began), flush=True)
        service_keys().set("bench/done", "")
    service_keys().get("bench/done", 60)  # rank 0 may have sent everything before rank 1 has received it
    os._exit(0)


def broadcast_s(size):
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    ranks = []
    for rank in range(2):
        place = {"cluster": cluster, "task": {"type": "worker", "index": rank}}
        ranks.append(subprocess.Popen([sys.executable, __file__, "--worker", f"{rank}:{size}"], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, env={**os.environ, "TFE_RANK": str(rank), "TFE_WORLD_SIZE": "2",
                                                                      "TF_CONFIG": json.dumps(place)}))
    try:
        return json.loads(ranks[1].communicate(timeout=300)[0])
    finally:
        for process in ranks:
            process.kill()
            process.wait()


def slowed(tf, memory_module, size):
    """Returns the share of time that snapshots take at their own pace, with all effects counted: of wall time, for
    which training stops, and of processor time, where each copying thread counts. Then that pace. Stretches of the same
    steps with and without snapshots alternate; the median of the pairs counts."""
    import numpy as np
    checkpoint, step = checkpoint_of(tf, size, 1.0), tf.Variable(0, dtype=tf.int64)
    memory = memory_module.Memory(checkpoint, step, None, None)
    memory._buffers = buffers_for(memory_module._state, memory._objects.parts())
    memory.take(0)  # warm-up
    paused = 0.0
    pace = memory._pace = memory_module.Pace(None, 0, None, 0, lambda: time.perf_counter() - paused)
    matrix = np.full((400, 400), 0.5, np.float32)  # two of these fit into a processor's cache
    products = max(1, int(STEP_S / min(took(np.matmul, matrix, matrix) for _ in range(20))))

    def stretch(first, steps, after_step):
        begun, begun_cpu = time.perf_counter(), time.process_time()
        for number in range(first, first + steps):
            for _ in range(products):
                np.matmul(matrix, matrix)
            after_step(number)
        return time.perf_counter() - begun, time.process_time() - begun_cpu

    number, settles, losses = 1, time.perf_counter() + SETTLE_S, []
    while time.perf_counter() < settles:
        stretch(number, 1, memory.after_step)
        number += 1
    for _ in range(PAIRS):
        steps = max(25, 2 * pace.every)
        took_with = stretch(number, steps, memory.after_step)
        number += steps
        stopped = time.perf_counter()
        losses.append([1 - bare / took for bare, took in zip(stretch(0, steps, lambda _: None), took_with)])
        paused += time.perf_counter() - stopped
    return (*(sorted(of_one)[PAIRS // 2] for of_one in zip(*losses)), pace.every)


def main():
    if "--worker" in sys.argv:
        rank, size = map(int, sys.argv[-1].split(":"))
        broadcast(rank, size)
    from figures import Figures, arguments
    options = arguments(__doc__.splitlines()[0])
    figures = Figures(options)
    import numpy as np
    import tensorflow as tf
    from tfe import _memory, _state, _tensors
    for megabytes in SIZES:
        size = megabytes * MB // (20 if options.quick else 1) // 32 * 32
        name = f"{megabytes} MB"
        if not figures.wanted(name):
            continue
        checkpoint = checkpoint_of(tf, size, 1.0)
        other = checkpoint_of(tf, size, 0.0)
        objects, others = _tensors.Objects(checkpoint), _tensors.Objects(other)
        parts = objects.parts()
        buffers = buffers_for(_state, parts)
        source, targets = np.ones(size // 4, np.float32), [np.zeros(size // 4, np.float32) for _ in range(2)]  # alternates with the snapshots
        values, floors, ram, own, disk = [], [], [], [], []
        directory = tempfile.mkdtemp(prefix="tfe-bench-")
        try:
            for turn in range(options.turns * (1 if options.quick or megabytes > 10 else 5) + 2):
                values.append(size / took(lambda: buffers.write(1, turn, objects.parts())) / 1e9)
                floors.append(size / took(np.copyto, targets[turn % 2], source) / 1e9)
                own.append(took(lambda: others.put_back(buffers.whole()[0].parts)) * 1e3)
                if turn < 3:
                    ram.append(size / took(checkpoint.write, f"ram://bench/{megabytes}") / 1e9)
                    checkpoint.write(os.path.join(directory, "ckpt"))
                    disk.append(took(other.read, os.path.join(directory, "ckpt")) * 1e3)
        finally:
            shutil.rmtree(directory)
        # The first two rounds only map the memory's pages.
        figures.add(f"snapshot, {name}", values[2:], "GB/s", floors[2:],
                    None if options.quick else ("ratio>=", 0.5))  # dominated by TensorFlow's walk
        figures.add(f"  in TensorFlow's own format, {name}", ram[1:], "GB/s")
        figures.add(f"restore from own memory, {name}", own[2:], "ms")
        figures.add(f"  by broadcast to a newcomer, {name}", [broadcast_s(size) * 1e3], "ms")
        figures.add(f"  from disk (in the page cache), {name}", disk[1:], "ms")
        if megabytes < 1000:
            share, of_cpu, every = slowed(tf, _memory, size)
            figures.add(f"of the time, {name}, every {every} steps of 20 ms", [share * 100], "%", goal=("value<=", 2))
            figures.add(f"  of the processors' time, {name}", [of_cpu * 100], "%")
        del checkpoint, other, parts, buffers
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
