"""Makes docs/page.png: starts a server, tfe-web and a pool of agents on this machine, runs jobs, kills one agent, and
takes a picture of a job's page with chromium (setup.sh --full installs it).

    .venv/bin/python scripts/page_picture.py [--width N] [--height N] [--dark] [--path '#/'] [--keep] docs/page.png

The job scripts report steps, loss and accuracy of a simulated training, so that no TensorFlow is needed; servers,
agents, checkpoints, the failure and the restart are real. --keep: keeps the fleet up until Ctrl-C and prints its URL.
"""

import argparse
import base64
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "lib"), str(HERE.parent / "tests/e2e")]
from browser import browser
from programs import Failed, Server, clean_environment, program, wait_for

DEADLINE_S = 60

TRAINS = """
import json, math, os, pathlib, random, socket, sys, time
import tfe
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
if config:  # as TensorFlow does: listens at its address of the cluster
    host, _, port = config["cluster"][config["task"]["type"]][config["task"]["index"]].rpartition(":")
    listener = socket.create_server((host, int(port)), reuse_port=True)
rank, total = int(os.environ["TFE_RANK"]), int(sys.argv[1])
saved = pathlib.Path(sys.argv[2])
step = int(saved.read_text()) if saved.exists() else 0
print(f"rank {rank}: restored step {step}", flush=True)
while step < total:
    time.sleep(0.02 + 0.004 * random.random())
    step += 1
    loss = 2.2 * math.exp(-step / 900) + 0.18 + 0.06 * random.random()
    tfe.progress(step, total=total, metrics={"loss": loss, "accuracy": 0.97 - 0.85 * math.exp(-step / 700) + 0.01 * random.random()})
    if step % 50 == 0:
        print(f"step {step}  loss {loss:.4f}", flush=True)
    if rank == 0 and step % 250 == 0:
        saved.write_text(str(step))
        tfe.checkpoint_saved(step, str(saved))
"""

FAILS = """
import time
import tfe
tfe.progress(1, metrics={"loss": 1.9})
time.sleep(0.3)
raise KeyError("learning_rate")
"""


class Fleet:
    """Programs in one folder, which end when the folder is left."""

    def __init__(self, folder):
        self.folder, self.running, self.state = pathlib.Path(folder), [], pathlib.Path(folder, "state")

    def start(self, name, *options, **more):
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen([program(name.partition(".")[0]), "--state-dir", str(self.state), *options],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if more.pop("reads", False) else log, stderr=log,
                                       env=clean_environment(**more), text=True, start_new_session=True)
        self.running.append(process)
        return process

    def agent(self, name, *labels):
        return self.start(f"tfe-agent.{name}", "--pool", f"--node-name={name}", "--no-standby", f"--python={sys.executable}",
                          *[f"--label={label}" for label in labels])

    def ctl(self, *words):
        done = subprocess.run([program("tfe-ctl"), *words, "--state-dir", str(self.state)], capture_output=True, text=True,
                              env=clean_environment(), cwd=self.folder)
        if done.returncode != 0:
            raise Failed(f"tfe-ctl {' '.join(words)}: {done.stderr.strip()}")

    def job(self, name, script, *arguments, **more):
        spec = {"name": name, "source": {"path": str(self.folder)}, "command": [sys.executable, script, *arguments], **more}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(spec))
        self.ctl("submit", f"--file={path}")

    def end(self):
        for process in self.running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in reversed(self.running):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def get(url, path):
    with urllib.request.urlopen(url + path, timeout=10) as answer:
        return json.load(answer)


def train(fleet, url):
    """Creates jobs in the typical states: one that trains and has lost a machine, one that waits, two that have
    ended."""
    def job(name, key):
        return next((j[key] for j in get(url, "api/v1/jobs")["jobs"] if j["job"] == name), None)

    agents = {name: fleet.agent(name, "gpu=a100", "zone=b") for name in ("node-1", "node-2", "node-3")}
    wait_for("the pool", lambda: len(get(url, "api/v1/pool")["pool"]) == 3, DEADLINE_S)
    fleet.job("mnist-baseline", "train.py", "60", "mnist.step", workers=1)
    wait_for("the end of a job", lambda: job("mnist-baseline", "state") == "succeeded", DEADLINE_S)
    fleet.job("lr-sweep-17", "fails.py", workers=1, options={"max-restarts": "0"})
    wait_for("a failure", lambda: job("lr-sweep-17", "state") == "failed", DEADLINE_S)
    fleet.job("resnet50-cifar", "train.py", "20000", "resnet.step", workers={"min": 2, "max": 3}, priority=600)
    wait_for("training", lambda: job("resnet50-cifar", "members") == 3 and (job("resnet50-cifar", "step") or 0) > 600, DEADLINE_S)
    fleet.job("bert-base-finetune", "train.py", "100000", "bert.step", workers=4, labels={"gpu": "h100"})
    agents["node-2"].send_signal(signal.SIGKILL)
    wait_for("training with two", lambda: job("resnet50-cifar", "members") == 2 and job("resnet50-cifar", "state") == "running", DEADLINE_S)
    before = job("resnet50-cifar", "step") or 0
    fleet.agent("node-4", "gpu=a100", "zone=b")
    wait_for("training with three", lambda: job("resnet50-cifar", "members") == 3 and job("resnet50-cifar", "state") == "running", DEADLINE_S)
    wait_for("more steps", lambda: (job("resnet50-cifar", "step") or 0) > before + 300, 2 * DEADLINE_S)


def picture(url, options):
    with browser() as page:
        page.dark(options.dark)
        page.size(options.width, options.height)
        page.open(url + options.path)
        page.wait("tfe.at > 0 && (!tfe.route.job || tfe.points.size >= 3)")
        page.js("document.getElementById('follow')?.click()")
        time.sleep(3)  # time for curves and log lines
        shot = page.cdp("Page.captureScreenshot")
        options.file.write_bytes(base64.b64decode(shot["data"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1125)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--path", default="#/job/resnet50-cifar")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfe-page-", ignore_cleanup_errors=True) as folder:
        fleet = Fleet(folder)
        (fleet.folder / "train.py").write_text(TRAINS)
        (fleet.folder / "fails.py").write_text(FAILS)
        try:
            server = Server(fleet.state, fleet.folder / "server.log", "--ttl=3s", "--observers-see-arguments").start()
            fleet.running.append(server.process)
            if not server.listens():
                raise Failed((fleet.folder / "server.log").read_text())
            web = fleet.start("tfe-web", "--port=0", reads=True)
            url = web.stdout.readline().strip()
            train(fleet, url)
            picture(url, options)
            if options.keep:
                print(url, flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    while True:
                        time.sleep(1)
        finally:
            fleet.end()


if __name__ == "__main__":
    main()
