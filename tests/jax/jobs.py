"""Jobs of the examples under real agents: starting them, their progress, and what can happen to them."""
import json
import os
import pathlib
import re
import signal
import subprocess

import fleet as fl
from programs import ROOT, program

EXAMPLES = ROOT / "scripts" / "examples"
PATIENCE_S = 240
ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}


class Job:
    """An example, with an agent for each of its machines."""

    def __init__(self, fleet, script, *arguments, options=("--nnodes=1:4",), **environment):
        self.fleet, self.script, self.arguments, self.options = fleet, pathlib.Path(script), arguments, options
        self.environment = {**ONE_THREAD, **environment}
        self.names = []

    def join(self):
        name = f"n{len(self.names)}"
        self.names.append(name)
        self.fleet.start_agent(name, self.script, *self.arguments, options=[*self.options, "--max-restarts=1000", "--log-format=json"],
                               **self.environment)
        return name

    def output(self):
        return "".join(self.fleet.output(name) for name in self.names)

    def starts(self):
        """(rank, world, first step) of each trainer that has begun to train."""
        return [tuple(map(int, found)) for found in re.findall(r"process (\d+) of (\d+), from step (\d+)", self.output())]

    def step(self):
        """The last step that the server knows."""
        return max((job.get("step") or 0 for job in self.status()), default=0)

    def status(self):
        done = subprocess.run([program("tfe-ctl"), "status", "--json", "--state-dir", str(self.fleet.state)], capture_output=True,
                              text=True, timeout=60)
        return json.loads(done.stdout)["jobs"] if done.returncode == 0 else []

    def nodes(self):
        return {node["name"]: node for job in self.status() for node in job["nodes"]}

    def trainer(self, rank):
        """Process id and machine of the trainer with this rank."""
        return fl.wait_for(f"the trainer of rank {rank}", lambda: next(
            ((node["trainer_pids"][0], name) for name, node in self.nodes().items()
             if node["state"] == "member" and node["rank"] == rank and node["trainer_pids"]), None), PATIENCE_S)

    def epoch(self):
        return self.fleet.epochs()[-1]

    def wait_trains(self, world, above_epoch=0, steps=5):
        """Until a later epoch of this size has done some steps; its number."""
        def trains():
            last = self.epoch() if self.fleet.epochs() else {"epoch": 0, "members": 0}
            if last["epoch"] <= above_epoch or last["members"] != world:
                return None
            job = next((job for job in self.status() if job["epoch"] == last["epoch"]), None)
            if job is None or job.get("step") is None:
                return None
            first = self._first.setdefault(last["epoch"], job["step"])
            return last["epoch"] if job["step"] >= first + steps else None
        self._first = {}
        return fl.wait_for(f"training with {world} after epoch {above_epoch}", trains, PATIENCE_S)

    def kill_trainer(self, rank):
        os.kill(self.trainer(rank)[0], signal.SIGKILL)

    def kill_agent(self, name):
        self.fleet.agents[name].kill()

    def end(self, **more):
        """Waits for all agents that live; their exit statuses."""
        alive = [name for name in self.names if self.fleet.agents[name].poll() is None]
        return set(self.fleet.wait_agents(alive, PATIENCE_S, **more).values())

    def final(self):
        """(step, digest of the weights) that rank 0 prints at its end."""
        found = re.findall(r"final (\d+) (\w+)", self.output())
        return (int(found[-1][0]), found[-1][1]) if found else None
