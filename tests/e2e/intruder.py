"""Training code that tries forbidden operations: usage intruder.py FOLDER TOKEN_FILE LOG_FOLDER.

Rank 0 of two writes the result of each attempt into FOLDER/tries, the other creates FOLDER/beside; both run forever."""

import ctypes
import json
import os
import pathlib
import signal
import socket
import sys
import time


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def attach(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, pid, None, None) != 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "ptrace")


def try_one(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return type(error).__name__
    return "done"


def main():
    folder, token, logs = sys.argv[1:4]
    guard = os.getppid()
    agent = parent_of(guard)
    tries = {"token": try_one(open, token), "logs": try_one(os.listdir, logs), "root": try_one(os.setuid, 0),
             "groups": try_one(os.setgroups, [0])}
    for name, pid in ("guard", guard), ("agent", agent):
        for file in "environ", "mem", "maps", "fd/2":
            tries[f"{name} {file}"] = try_one(open, f"/proc/{pid}/{file}", "rb")
        tries[f"{name} attach"] = try_one(attach, pid)
        for number in 0, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL:
            tries[f"{name} {number}"] = try_one(os.kill, pid, number)
        tries[f"{name} priority"] = try_one(os.setpriority, os.PRIO_PROCESS, pid, 19)
    # It may do anything in the channel's folder; the agent, which runs as root, must not follow its traps.
    own = pathlib.Path(os.environ["TFE_SOCKET"]).parent
    os.symlink(f"{folder}/elsewhere", own / f"script-{os.getpid()}")
    os.mkfifo(os.environ["TFE_PREEMPT_FILE"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        for word in {"type": "hello", "pid": os.getpid(), "listens": True}, {"type": "progress", "step": 1, "rank": 9}:
            text = json.dumps({"epoch": int(os.environ["TFE_EPOCH"]), "rank": 0, **word})  # the second message is rejected and logged
            channel.sendto(text.encode(), os.environ["TFE_SOCKET"])
    write(folder, "tries", json.dumps({"agent": agent, **tries}))


def write(folder, name, text):
    hidden = pathlib.Path(folder, f".{name}")
    hidden.write_text(text)
    hidden.rename(pathlib.Path(folder, name))


if os.environ["TFE_RANK"] == "0" and os.environ["TFE_WORLD_SIZE"] == "2":
    main()
else:
    write(sys.argv[1], "beside", "")
time.sleep(3600)
