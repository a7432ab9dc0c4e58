"""A cluster of TensorFlow's roles on this machine without any agent: processes forked from this one, which has imported
TensorFlow."""
import json
import multiprocessing
import os
import pathlib
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "agent" / "python")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf  # noqa: E402, F401
from tensorflow.python.eager import context  # noqa: E402

from programs import clean_environment  # noqa: E402

PATIENCE_S = 60


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6


def say(**fields):
    """Prints one line of JSON on stdout, with the time in ms."""
    print(json.dumps({"t": now(), **fields}), flush=True)


def _run(out, err, env, work, arguments):
    os.setsid()
    for stream, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, stream)
    sys.stdout = open(1, "w", buffering=1, closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(env)
    if callable(work):
        work(*arguments)
    else:
        sys.argv = [str(work), *map(str, arguments)]
        runpy.run_path(str(work), run_name="__main__")


class Cluster:
    """Processes by name: "ps0" is task 0 of job ps. folder: for their output. sizes: number of tasks of each job."""

    def __init__(self, folder, **sizes):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        (self.folder / "tmp").mkdir()
        self.env = clean_environment(TMPDIR=str(self.folder / "tmp"), TF_CPP_MIN_LOG_LEVEL="2", TF_GRPC_REUSE_PORT="true",
                                     PYTHONPATH=str(ROOT / "agent" / "python"))
        self.sizes, self.held, self.spec = sizes, [], {}
        self.running, self.outputs, self.count = {}, {}, 0
        self.move()

    def move(self):
        """Changes to other ports, which are bound without listening until the next call, as the agents do."""
        before, self.held, self.spec = self.held, [], {}
        for job, size in self.sizes.items():
            for _ in range(size):
                one = socket.socket()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                one.bind(("", 0))
                self.held.append(one)
                self.spec.setdefault(job, []).append(f"127.0.0.1:{one.getsockname()[1]}")
        for one in before:
            one.close()

    @property
    def places(self):
        return [f"{job}{index}" for job, size in self.sizes.items() for index in range(size)]

    def start(self, place, work, *arguments, cold=False, **env):
        """Starts a process. work: a function, or the path of a script. cold: a script in a new interpreter. Returns the
        time."""
        job, index = place.rstrip("0123456789"), int(place[-1])
        cluster = {name: found for name, found in self.spec.items() if (name == "evaluator") == (job == "evaluator")}
        if cluster:
            env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        env = {**self.env, **env}
        self.count += 1
        self.outputs[place] = path = self.folder / f"{self.count}.{place}"
        began = now()
        if cold:
            with open(f"{path}.out", "wb") as out, open(f"{path}.err", "wb") as err:
                self.running[place] = subprocess.Popen([sys.executable, str(work), *map(str, arguments)], env=env, stdout=out, stderr=err)
        else:
            if context.context()._context_handle is not None:
                raise RuntimeError("TensorFlow runs in this process, and would hang in one that forks from it: run this file alone")
            self.running[place] = multiprocessing.get_context("fork").Process(
                target=_run, args=(f"{path}.out", f"{path}.err", env, work, arguments))
            self.running[place].start()
        return began

    def poll(self, place):
        """Returns its exit status, or None while it runs."""
        process = self.running[place]
        return process.poll() if isinstance(process, subprocess.Popen) else process.exitcode

    def wait(self, place, timeout_s=PATIENCE_S):
        """Returns its exit status, or "none" if it has not ended in that time."""
        process = self.running.pop(place)
        try:
            process.wait(timeout_s) if isinstance(process, subprocess.Popen) else process.join(timeout_s)
            code = process.returncode if isinstance(process, subprocess.Popen) else process.exitcode
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            process.kill()
            process.wait() if isinstance(process, subprocess.Popen) else process.join()
        return "none" if code is None else code

    def kill(self, place, number=signal.SIGKILL):
        os.kill(self.running[place].pid, number)
        return self.wait(place)

    def output(self, place, stream="out"):
        try:
            return pathlib.Path(f"{self.outputs[place]}.{stream}").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def lines(self, place):
        """Returns the lines that it has printed with say()."""
        return [json.loads(line) for line in self.output(place).splitlines() if line.startswith("{") and line.endswith("}")]

    def heard(self, place, look, timeout_s=PATIENCE_S):
        """Returns the first line for which look() is true, or None if there was none in time."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            found = next((line for line in self.lines(place) if look(line)), None)
            if found:
                return found
            time.sleep(0.005)
        return None

    def end(self):
        for place in list(self.running):
            self.running[place].kill()
            self.wait(place)
        for one in self.held:
            one.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
