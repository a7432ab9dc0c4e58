"""A trainer without TensorFlow: logs what it sees, and follows orders in files.

Usage: trainer.py DIRECTORY [--ignore-term] [--fork] [--double-fork] [--exit CODE] [--signal NUMBER] [--say TEXT]
[--listen]
DIRECTORY gets one file of JSON lines per process; a file DIRECTORY/do.EPOCH.RANK (or do.EPOCH.all, do.all) with "exit
CODE" or "kill NUMBER" ends it. With --listen its port in TF_CONFIG accepts connections, like TensorFlow's."""

import argparse
import json
import os
import pathlib
import signal
import socket
import sys
import time


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--double-fork", action="store_true")
    parser.add_argument("--exit", type=int)
    parser.add_argument("--signal", type=int)
    parser.add_argument("--say", default="")
    parser.add_argument("--listen", action="store_true")
    a = parser.parse_args()
    epoch, rank = os.environ["TFE_EPOCH"], os.environ["TFE_RANK"]
    if a.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    facts = {"pid": os.getpid(), "ppid": os.getppid(), "epoch": int(epoch), "rank": int(rank), "argv": sys.argv,
             "cluster": json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"],
             "task": json.loads(os.environ["TF_CONFIG"])["task"],
             "env": {k: v for k, v in os.environ.items() if k.startswith(("TFE_", "TF_", "JAX_", "KERAS_DISTRIBUTION_", "MASTER_")) or k in
                     ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NUM_WORKERS")}}
    log = a.directory / f"{epoch}.{rank}.{os.getpid()}.json"

    def write(event, **more):
        with open(log, "a", encoding="utf-8") as out:
            out.write(json.dumps({"event": event, **facts, **more}) + "\n")

    if a.listen:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("0.0.0.0", int(facts["cluster"][int(rank)].rpartition(":")[2])))
        listener.listen(128)
    if a.fork and os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        write("child", child=os.getpid())
        time.sleep(3600)
    if a.double_fork and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            write("child", child=os.getpid())
            time.sleep(3600)
        os._exit(0)
    print(f"trainer of epoch {epoch} {a.say}".rstrip(), flush=True)
    if a.say:
        print(a.say, file=sys.stderr, flush=True)
    write("start")  # written last: the test may kill this process as soon as it reads this
    if a.signal:
        os.kill(os.getpid(), a.signal)
    if a.exit is not None:
        sys.exit(a.exit)
    orders = [a.directory / f"do.{epoch}.{rank}", a.directory / f"do.{epoch}.all", a.directory / "do.all"]
    while True:
        for order in orders:
            if order.exists():
                word, number = order.read_text().split()
                write("end", word=word, number=int(number))
                if word == "kill":
                    os.kill(os.getpid(), int(number))
                sys.exit(int(number))
        time.sleep(0.02)


main()
