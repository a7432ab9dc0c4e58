"""A trainer of a job with roles, without TensorFlow: servers listen, a chief runs steps with the workers that it
reaches.

Usage: served.py DIRECTORY. It logs like trainer.py; a file DIRECTORY/do.PLACE ("do.ps-0") with "exit CODE" or "kill
NUMBER" ends the process that finds it, which removes the file. The chief loses a step if it cannot reach a ps, and then
ends with 1; it reports its steps, and that each is on disk. Files in DIRECTORY that change its behaviour: partitioned:
it reports that its checkpoints fit another number of ps; listens: it can be asked to save and to stop, and then ends
with 143 after checking that it still has its servers; idle: it connects to no server, like a script without ps
support."""

import json
import os
import pathlib
import signal
import socket
import sys
import time


def serve(endpoint):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("0.0.0.0", int(endpoint.rpartition(":")[2])))
    listener.listen(128)
    return listener


def reaches(endpoint):
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
        return True
    except OSError:
        return False


def main():
    folder = pathlib.Path(sys.argv[1])
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    epoch, rank, role = int(os.environ["TFE_EPOCH"]), int(os.environ["TFE_RANK"]), os.environ["TFE_ROLE"]
    place = f"{role}-{os.environ['TFE_ROLE_INDEX']}"
    facts = {"pid": os.getpid(), "epoch": epoch, "rank": rank, "place": place, "cluster": cluster, "task": task,
             "env": {k: v for k, v in os.environ.items() if k.startswith("TFE_")}}
    log = folder / f"{epoch}.{rank}.{os.getpid()}.json"

    def write(event, **more):
        with open(log, "a", encoding="utf-8") as out:
            out.write(json.dumps({"event": event, **facts, **more}) + "\n")

    agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def tell(kind, **more):
        agent.sendto(json.dumps({"type": kind, "epoch": epoch, "rank": rank, **more}).encode(), os.environ["TFE_SOCKET"])

    def heard():
        """Returns the agent's message to a chief that listens, or None."""
        try:
            return json.loads(agent.recv(8192, socket.MSG_DONTWAIT)) if listens else None
        except BlockingIOError:
            return None

    def save():
        hidden = folder / ".step"
        hidden.write_text(str(step))
        hidden.rename(saved)

    leads = role == "chief" or (role == "worker" and task["index"] == 0 and "chief" not in cluster)
    listener = serve(cluster[role][task["index"]]) if role != "evaluator" else None  # stays open
    saved = folder / "step"
    step = int(saved.read_text()) if saved.exists() else 0
    order = folder / f"do.{place}"
    listens, partitioned, idle = (leads and (folder / name).exists() for name in ("listens", "partitioned", "idle"))
    if listens:
        agent.bind(os.path.join(os.path.dirname(os.environ["TFE_SOCKET"]), f"script-{os.getpid()}"))
    if listens or partitioned:
        tell("hello", pid=os.getpid(), listens=listens, partitioned=partitioned)
    print(f"{place} of epoch {epoch}", flush=True)
    write("start")
    while True:
        if order.exists():
            word, number = order.read_text().split()
            order.unlink()
            write("end", word=word, number=int(number))
            if word == "kill":
                os.kill(os.getpid(), int(number))
            sys.exit(int(number))
        message = heard()
        if message and "number" in message:
            tell("checkpoint", step=step, answers=message["number"])
        elif message:
            time.sleep(0.3)  # duration of a save
            write("stopped", step=step, served=[reaches(at) for at in cluster["ps"]], used=[reaches(at) for at in cluster["worker"]])
            save()
            sys.exit(143)
        if leads and not idle:
            servers = [reaches(at) for at in cluster.get("ps", [])]
            if not all(servers):
                write("end", word="lost", number=1)
                sys.exit(1)
            used = [i for i, at in enumerate(cluster.get("worker", [])) if reaches(at)]
            # Like TensorFlow's chief: it begins once all workers are there, and continues with the ones that remain.
            if used and (facts.get("begun") or len(used) == len(cluster.get("worker", []))):
                facts["begun"] = True
                step += 1
                save()
                tell("progress", step=step)
                tell("checkpoint", step=step)
                write("step", step=step, used=used)
        time.sleep(0.02 if not leads else 0.05)


signal.signal(signal.SIGTERM, signal.SIG_DFL)
main()
