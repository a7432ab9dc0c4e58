"""A trainer that implements the script channel itself (PROTOCOL.md, section 10), without the tfe package.

Usage: talker.py DIRECTORY [--deaf] [--flood] [--keeps] [--saves DIR [--watch]] [--pace SECONDS] [--print]
Takes a step every 20 ms (--pace) and reports it; --print also prints it. On a save request it makes a checkpoint at the
next step and reports it; on a stop request it ends with 0. It logs to DIRECTORY/EPOCH.RANK.PID.json, one object per
line; DIRECTORY/do.all with "exit CODE" ends it. --deaf: only reports, and makes a checkpoint every 50 steps. --flood:
also sends invalid messages as fast as it can. --keeps: keeps its step in memory that outlives it, and continues from
there. --saves: sends nothing, but saves into DIR every 10 steps, like TensorFlow; with --watch also at its first step
and when TFE_PREEMPT_FILE appears, and then stands still."""

import argparse
import json
import os
import pathlib
import socket
import struct
import sys
import time


def save_as_tensorflow(directory, step):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"ckpt-{step}.data-00000-of-00001").write_text("weights")
    (directory / f"ckpt-{step}.index").write_text("index")
    hidden = directory / f"checkpoint.tmp{os.getpid()}"
    hidden.write_text(f'model_checkpoint_path: "ckpt-{step}"\nall_model_checkpoint_paths: "ckpt-{step}"\n')
    hidden.rename(directory / "checkpoint")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--flood", action="store_true")
    parser.add_argument("--keeps", action="store_true")
    parser.add_argument("--saves", type=pathlib.Path)
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--print", action="store_true")
    a = parser.parse_args()
    epoch, rank = int(os.environ["TFE_EPOCH"]), int(os.environ["TFE_RANK"])
    agent = os.environ["TFE_SOCKET"]
    log = a.directory / f"{epoch}.{rank}.{os.getpid()}.json"

    def write(event, **more):
        with open(log, "a", encoding="utf-8") as out:
            out.write(json.dumps({
                "event": event, "epoch": epoch, "rank": rank, "pid": os.getpid(), "time": time.time(), "socket": agent,
                "preempt_file": os.environ["TFE_PREEMPT_FILE"],
                "cluster": json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"],
                "task": json.loads(os.environ["TF_CONFIG"])["task"], **more}) + "\n")

    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.bind(os.path.join(os.path.dirname(agent), f"script-{os.getpid()}"))
    channel.setblocking(False)

    def say(kind, **more):
        try:
            channel.sendto(json.dumps({"type": kind, "epoch": epoch, "rank": rank, **more}).encode(), agent)
        except BlockingIOError:
            pass

    write("start")
    if not a.saves:
        say("hello", pid=os.getpid(), listens=not a.deaf)
    step, asked, memory = 0, 0, None
    if a.keeps:
        say("memory", bytes=8192)
        channel.setblocking(True)
        _, (memory,), _, _ = socket.recv_fds(channel, 8192, 1)
        channel.setblocking(False)
        step, = struct.unpack("<Q", os.pread(memory, 8, 0))
        say("progress", step=step, restored=True)
    while True:
        end = time.monotonic() + a.pace
        while a.flood and time.monotonic() < end:
            say("nonsense")
        time.sleep(max(0.0, end - time.monotonic()))
        step += 1
        if a.print:
            print(f"step {step}", flush=True)
        is_warned = a.watch and os.path.exists(os.environ["TFE_PREEMPT_FILE"])
        if a.saves:
            if rank == 0 and (step == 1 or is_warned if a.watch else step % 10 == 0):
                write("checkpoint", step=step, answers=0, warned=is_warned)  # the process may be ended as soon as this is seen
                save_as_tensorflow(a.saves, step)
            while is_warned:
                time.sleep(1)
        else:
            say("progress", step=step)
            if memory is not None:
                os.pwrite(memory, struct.pack("<Q", step), 0)
                say("snapshot", step=step)
        try:
            while True:
                message = json.loads(channel.recv(8192))
                write(message.pop("type"), preempt=os.path.exists(os.environ["TFE_PREEMPT_FILE"]), **message)
                if "number" in message:
                    asked = message["number"]
                else:
                    write("end", step=step)
                    sys.exit(0)
        except BlockingIOError:
            pass
        if asked or step == 1 or a.deaf and step % 50 == 0:
            if not a.saves:
                say("checkpoint", step=step, path=f"/nowhere/ckpt-{step}", answers=asked)
                write("checkpoint", step=step, answers=asked)
            asked = 0
        order = a.directory / "do.all"
        if order.exists():
            write("end", step=step)
            sys.exit(int(order.read_text().split()[1]))


main()
