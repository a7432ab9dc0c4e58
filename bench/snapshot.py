"""What a snapshot in memory costs beside memcpy of the same bytes, what it slows training by, and what going on from one takes.

Real TensorFlow, float32 in eight variables, memory as the agent lends it. --worker is for this program itself."""
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
SETTLE_S, MEASURE_S = 5, 10


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
    """On each of two workers: from rank 0 to rank 1, which takes it over."""
    import tensorflow as tf
    from tfe import _memory, _state
    from tfe._cluster import service_keys
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        checkpoint = checkpoint_of(tf, size, 1.0 - rank)
    parts = _memory.gather(checkpoint)
    buffers = buffers_for(_state, parts)
    for turn in range(2):  # the first meets the others
        buffers.write(1, turn, parts)
        held = buffers.whole()[0]
        began = time.perf_counter()
        body = _memory._broadcast(held.body if rank == 0 else None, held.held.size, 0, 2)
        if rank == 1:
            _memory.put_back(checkpoint, _state.read_body(body, 1, turn).parts)
    if rank == 1:
        assert float(checkpoint.v[7][0]) == 1.0
        print(json.dumps(time.perf_counter() - began), flush=True)
        service_keys().set("bench/done", "")
    service_keys().get("bench/done", 60)  # rank 0's sending may end before the other has all of it
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


def slowed(tf, memory_module, state, size):
    """Of the time, the part that snapshots take at the pace that they find, and what that is; in steps of STEP_S."""
    import numpy as np
    checkpoint, step = checkpoint_of(tf, size, 1.0), tf.Variable(0, dtype=tf.int64)
    memory = memory_module.Memory(checkpoint, step, None, None)
    memory._buffers = buffers_for(state, memory_module.gather(checkpoint))
    memory.take(0)  # warm
    memory._pace = memory_module.Pace(None, 0, None, 0)
    number, settles = 0, time.perf_counter() + SETTLE_S
    spent, begun, end = 0.0, settles, settles + MEASURE_S
    matrix = np.ones((200, 200), np.float32)
    while time.perf_counter() < end:
        until = time.perf_counter() + STEP_S
        while time.perf_counter() < until:
            matrix @ matrix
        number += 1
        seconds = took(memory.after_step, number)
        spent += seconds if time.perf_counter() > settles else 0.0
    return spent / (time.perf_counter() - begun), memory._pace.every


def main():
    if "--worker" in sys.argv:
        rank, size = map(int, sys.argv[-1].split(":"))
        broadcast(rank, size)
    from figures import Figures, arguments
    options = arguments(__doc__.splitlines()[0])
    figures = Figures(options)
    import numpy as np
    import tensorflow as tf
    from tfe import _memory, _state
    for megabytes in SIZES:
        size = megabytes * MB // (20 if options.quick else 1) // 32 * 32
        name = f"{megabytes} MB"
        if not figures.wanted(name):
            continue
        checkpoint = checkpoint_of(tf, size, 1.0)
        other = checkpoint_of(tf, size, 0.0)
        parts = _memory.gather(checkpoint)
        buffers = buffers_for(_state, parts)
        source, target = np.ones(size // 4, np.float32), np.zeros(size // 4, np.float32)
        values, floors, ram, own, disk = [], [], [], [], []
        directory = tempfile.mkdtemp(prefix="tfe-bench-")
        try:
            for turn in range(options.turns + 2):
                values.append(size / took(lambda: buffers.write(1, turn, _memory.gather(checkpoint))) / 1e9)
                floors.append(size / took(np.copyto, target, source) / 1e9)
                own.append(took(lambda: _memory.put_back(other, buffers.whole()[0].parts)) * 1e3)
                if turn < 3:
                    ram.append(size / took(checkpoint.write, f"ram://bench/{megabytes}") / 1e9)
                    checkpoint.write(os.path.join(directory, "ckpt"))
                    disk.append(took(other.read, os.path.join(directory, "ckpt")) * 1e3)
        finally:
            shutil.rmtree(directory)
        # Two turns for the memory's pages to be there.
        figures.add(f"snapshot, {name}", values[2:], "GB/s", floors[2:],
                    None if options.quick else ("ratio>=", 0.5))  # a small one is all TensorFlow's walk over its objects
        figures.add(f"  in TensorFlow's own format, {name}", ram[1:], "GB/s")
        figures.add(f"restore from own memory, {name}", own[2:], "ms")
        figures.add(f"  by broadcast to a newcomer, {name}", [broadcast_s(size) * 1e3], "ms")
        figures.add(f"  from disk (in the page cache), {name}", disk[1:], "ms")
        if megabytes < 1000:
            share, every = slowed(tf, _memory, _state, size)
            figures.add(f"of the time, {name}, every {every} steps of 20 ms", [share * 100], "%", goal=("value<=", 2))
        del checkpoint, other, parts, buffers
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
