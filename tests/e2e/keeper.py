"""A trainer without TensorFlow that keeps its state in memory and on disk, like the tfe package.

Usage: keeper.py DIRECTORY --bytes N [--every STEPS] [--pace SECONDS]
Its state is N bytes derived from the step; a restored state must belong to a single step. It keeps each step in memory,
if it gets any, and every STEPS (10) steps in DIRECTORY/disk.RANK. It logs to DIRECTORY/EPOCH.RANK.PID.json, one object
per line; DIRECTORY/do.all with "exit CODE" ends it."""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "agent" / "python"))

import numpy as np  # noqa: E402
import tfe  # noqa: E402
from tfe import _position, _state  # noqa: E402
from tfe._channel import channel  # noqa: E402


def parts_of(step, size):
    return [_state.Part("state", "", "int64", (size // 8,), np.full(size // 8, step, np.int64).view(np.uint8))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--pace", type=float, default=0.02)
    a = parser.parse_args()
    epoch, rank = tfe.epoch(), tfe.rank()
    log, disk = a.directory / f"{epoch}.{rank}.{os.getpid()}.json", a.directory / f"disk.{rank}"

    def write(event, **more):
        with open(log, "a", encoding="utf-8") as out:
            out.write(json.dumps({"event": event, "epoch": epoch, "rank": rank, "pid": os.getpid(), **more,
                                  "cluster": json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]}) + "\n")

    here, buffers = channel(), None

    def take_memory():
        nonlocal buffers
        if here.memory is not None:
            (file, size, why), here.memory = here.memory, None
            if file >= 0:
                buffers = _state.Buffers(_state.map_memory(file, size), _position.run())
                write("memory", size=size)
            elif why:
                write("refused", why=why)

    here.listen()
    here.left_memory()
    take_memory()
    held = buffers.whole() if buffers else []
    step = int(disk.read_text()) if disk.exists() else 0
    source = "disk" if step else "nothing"
    if held and (held[0].held.epoch, held[0].held.step) > (0, step):
        step, source = held[0].held.step, "memory"
        assert bytes(held[0].parts[0].data) == bytes(parts_of(step, a.bytes)[0].data), f"torn at step {step}"
    here.progress(step, restored=True)
    write("start", step=step, source=source)
    if buffers is None:
        here.ask_memory(_state.size_of(parts_of(0, a.bytes)))
    while True:
        time.sleep(a.pace)
        step += 1
        here.poll()
        take_memory()
        here.progress(step)
        if buffers is not None:
            buffers.write(epoch, step, parts_of(step, a.bytes))
            here.snapshot(step)
        if step % a.every == 0:
            hidden = a.directory / f".disk.{rank}"
            hidden.write_text(str(step))
            hidden.rename(disk)
            if rank == 0:
                here.checkpoint(step, str(disk), 0)
            write("saved", step=step)
        order = a.directory / "do.all"
        if order.exists() or here.stop_by is not None:
            write("end", step=step)
            sys.exit(int(order.read_text().split()[1]) if order.exists() else 143)


main()
