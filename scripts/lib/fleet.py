"""A server, agents and their logs on this machine, for the demo and the TensorFlow tests.

Nothing here sleeps for a fixed time: wait_for() polls an observable condition up to a deadline.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys

from programs import ROOT, Failed, clean_environment, comes, end_guards, program, server_port, wait_for

EXAMPLES = ROOT / "scripts" / "examples"


class JsonLines:
    """The JSON objects in a growing file; each is read once, and an incomplete last line later."""

    def __init__(self, path):
        self.path, self.offset, self.found = path, 0, []

    def read(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                new = file.read()
        except FileNotFoundError:
            return self.found
        whole = new[:new.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.splitlines():
            if line.startswith(b"{"):
                try:
                    self.found.append(json.loads(line))
                except ValueError:
                    pass
        return self.found


class Fleet:
    """A context manager: at its end, everything that it started has ended."""

    def __init__(self, directory, *server_options):
        self.directory = pathlib.Path(directory)
        self.logs = self.directory / "logs"
        self.step_logs = self.directory / "steps"
        self.state = self.directory / "state"
        self.checkpoints = self.directory / "checkpoints"
        self.server_options = server_options
        self.server = None
        self.web = None
        self.agents = {}
        self._files = {}  # path: JsonLines

    def __enter__(self):
        for path in (self.logs, self.step_logs, self.checkpoints, self.directory / "tmp"):
            path.mkdir(parents=True, exist_ok=True)
        try:
            self._start_server()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for agent in self.agents.values():
            if agent.poll() is None:
                agent.kill()  # the guard then kills the trainers
        for agent in self.agents.values():
            agent.wait()
        comes(lambda: not end_guards(self.state), 30, pause_s=0.02)  # a guard ends once its trainers have ended
        for process in (self.web, self.server):
            if process and process.poll() is None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _spawn(self, name, command, **more):
        # The tfe package of this tree, installed or not. TensorFlow leaves files in TMPDIR when it is killed.
        environment = clean_environment(**{"TFE_STATE_DIR": str(self.state), "PYTHONPATH": str(ROOT / "agent" / "python"),
                                           "TMPDIR": str(self.directory / "tmp"), **more})
        with open(self.logs / f"{name}.out", "wb") as out, open(self.logs / f"{name}.err", "wb") as err:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    env=environment, cwd=self.directory)

    def _start_server(self, name="server", port=None):
        self.server = self._spawn(name, [program("tfe-rdzv"), "--bind", "127.0.0.1", "--port", port or str(server_port()), "--log-format", "json",
                                         *self.server_options])

        def listening():
            if self.server.poll() is not None:
                raise Failed(f"tfe-rdzv ended with {self.server.returncode}: {self.output(name, 'err')[-500:]}")
            return "listening on " in self.output(name)
        wait_for("tfe-rdzv to listen", listening, 60)

    def start_web(self, port):
        """Serves the page on this port of 127.0.0.1 until the fleet ends."""
        self.web = self._spawn("web", [program("tfe-web"), "--port", str(port)])

    def replace_server(self):
        """Kills the server with SIGKILL and starts a new one on the same state directory and port; its log is that of
        server2."""
        port = self.output("server").splitlines()[0].rpartition(":")[2]
        self.server.kill()
        self.server.wait()
        self._start_server("server2", port)

    def start_agent(self, name, script, *arguments, options=("--nnodes=1:4",), **environment):
        """Starts an agent. environment: additional variables for the agent and its trainers."""
        self.agents[name] = self._spawn(name, [
            program("tfe-agent"), f"--node-name={name}", f"--python={sys.executable}", *options,
            str(script), *map(str, arguments)], **environment)
        return self.agents[name]

    def start_pool_node(self, name):
        """Starts a node that waits for submitted jobs."""
        self.agents[name] = self._spawn(name, [program("tfe-agent"), "--pool", f"--node-name={name}", f"--python={sys.executable}",
                                               "--notice=none"])
        return self.agents[name]

    def ctl(self, verb, *words):
        """Returns the output of tfe-ctl; raises Failed if it fails."""
        done = subprocess.run([program("tfe-ctl"), verb, "--state-dir", str(self.state), *map(str, words)], capture_output=True,
                              text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"tfe-ctl {verb}: {done.stderr}")
        return done.stdout

    def standbys(self):
        """Returns the processor time of each node's standby interpreter, by label; nodes without a standby are left
        out."""
        told = subprocess.run([program("tfe-ctl"), "status", "--json", "--state-dir", str(self.state)],
                              capture_output=True, text=True, timeout=20)
        found = {}
        for job in json.loads(told.stdout)["jobs"] if told.returncode == 0 else ():
            for node in job["nodes"]:
                for pid in node["standby_pids"]:
                    try:
                        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    except OSError:
                        continue
                    found[node["name"]] = found.get(node["name"], 0) + int(fields[11]) + int(fields[12])
        return found

    def output(self, name, stream="out"):
        try:
            return (self.logs / f"{name}.{stream}").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def stop_server(self):
        """Stops the server with SIGTERM and returns its exit status."""
        self.server.send_signal(signal.SIGTERM)
        try:
            return self.server.wait(10)
        except subprocess.TimeoutExpired:
            raise Failed("tfe-rdzv was still there 10 s after SIGTERM") from None

    def wait_agents(self, names, timeout_s, *, busy=lambda: None):
        """Waits until all these agents have exited; returns their exit statuses by name."""
        wait_for(f"the agents {', '.join(names)} to exit",
                 lambda: all(self.agents[name].poll() is not None for name in names), timeout_s, busy=busy)
        return {name: self.agents[name].returncode for name in names}

    # --- history -----------------------------------------------------------------------------------

    def _read(self, path):
        return self._files.setdefault(path, JsonLines(path)).read()

    def epochs(self, job="default"):
        """Returns the epochs as the server logged them: [{"epoch", "members", "cause"}], in order."""
        return [{key: line[key] for key in ("epoch", "members", "cause")}
                for line in self._read(self.logs / "server.err")
                if line.get("event") == "epoch" and line.get("job") == job]

    def trainer_lines(self):
        """Returns all lines of all trainers' step logs, by time."""
        lines = []
        for path in self.step_logs.glob("*.jsonl"):
            lines += self._read(path)
        return sorted(lines, key=lambda line: line["t_ms"])

    def steps(self, epoch=None):
        """Returns the completed steps of an epoch (None for all), one line per trainer and step."""
        return [line for line in self.trainer_lines()
                if "sum" in line and epoch in (None, line["epoch"])]


def standstills(epochs, steps):
    """Returns for each epoch the ms from the last step completed before it to its first completed step, over all
    trainers; 0 for the first epoch, None for an epoch that completed no step."""
    found = []
    for index, epoch in enumerate(epochs):
        before = [line["t_ms"] for line in steps if line["epoch"] < epoch["epoch"]]
        inside = [line["t_ms"] for line in steps if line["epoch"] == epoch["epoch"]]
        if index == 0:
            found.append(0)
        elif before and inside:
            found.append(min(inside) - max(before))
        else:
            found.append(None)
    return found


def trainer_restarts(lines):
    """Returns how often a trainer was started on a node that had run one before."""
    starts = [(line["node"], line["epoch"]) for line in lines if line.get("event") == "start"]
    return len(starts) - len({node for node, _ in starts})
