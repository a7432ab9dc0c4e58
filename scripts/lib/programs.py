"""Runs this project's programs on this machine: finds them, cleans their environment, lists their processes; and a
server.

Nothing here sleeps for a fixed time: wait_for() polls an observable condition up to a deadline.
"""
import contextlib
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failed(Exception):
    """An expected event did not happen; the text is for the user."""


def bin_dir():
    return pathlib.Path(os.environ.get("TFE_BIN_DIR") or ROOT / "build" / "default").resolve()


def program(name):
    """Returns the path of a program of this project, in $TFE_BIN_DIR or the default build (the build tree's layout, or
    one folder)."""
    for folder in ("server", "agent", "server/ctl", "server/web", "tests/crash", "bin", "."):
        path = bin_dir() / folder / name
        if path.is_file():
            return str(path)
    raise Failed(f"{name} is not in {bin_dir()}; build first")


def clean_environment(**more):
    """Returns this environment without variables that the programs read as options. No agent queries the cloud of this
    machine, and none stores a key where this machine's own agent would."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("TFE_", "FAULTY_", "LD_PRELOAD")) and key != "TF_CONFIG"}
    return {**env, "TFE_NOTICE": "none", "TFE_NO_PERSIST": "1", **more}


def comes(look, timeout_s, *, busy=lambda: None, pause_s=0.05):
    """Calls look() until it returns something true, and returns that, or the last result on timeout. Calls busy() in
    between."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()) and time.monotonic() <= deadline:
        busy()
        time.sleep(pause_s)
    return found


def wait_for(what, look, timeout_s, **more):
    """Like comes(), with the same keyword arguments; raises Failed on timeout."""
    found = comes(look, timeout_s, **more)
    if not found:
        raise Failed(f"waited {timeout_s} s in vain for {what}")
    return found


def parents():
    """Returns {pid: (parent's pid, name)} of every process that is no zombie."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, tail = (entry / "stat").read_text(errors="replace").rpartition(")")
            except OSError:
                continue
            state, parent = tail.split()[:2]
            if state not in ("Z", "X"):
                found[int(entry.name)] = (int(parent), head.partition("(")[2])
    return found


def end_guards(folder):
    """Ends guards of the agents with this folder in their environment if they only remain to give proof of a killed
    agent's termination. The files stay for a day, or for the next agent. Returns how many guards are left."""
    n = 0
    for pid, (_, name) in parents().items():
        try:
            if name == "tfe-guard" and str(folder).encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGTERM)
                n += 1
        except OSError:
            pass
    return n


def is_alive(pid):
    """Returns True if a process with this pid runs (a zombie does not)."""
    return pid in parents()


def children(pid, name=None):
    """Returns the children of a process, only those with this name if one is given."""
    return [child for child, (parent, its) in parents().items() if parent == pid and name in (None, its)]


def descendants(pid):
    """Returns all descendants of a process."""
    table, found, todo = parents(), set(), {pid}
    while todo:
        todo = {child for child, (parent, _) in table.items() if parent in todo} - found
        found |= todo
    return found


def server_port():
    """Returns a free port for a server that is restarted, outside the ephemeral range, since a connection could take an
    ephemeral port meanwhile. Returns 0 (any port) if there are no others."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100 if end > 12000 else 0):
        port = random.SystemRandom().randrange(10000, end)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    return 0


class Server:
    """A tfe-rdzv on one state directory; after a restart it has the same port. stderr is appended to `log`."""

    def __init__(self, state_dir, log, *options, port=0, before=(), preexec=None):
        self.state_dir, self.log, self.options = pathlib.Path(state_dir), pathlib.Path(log), options
        self.before, self.preexec = before, preexec
        self.process, self.port, self.lines = None, port or server_port(), []

    def start(self, env=None):
        with open(self.log, "ab") as stderr:
            self.process = subprocess.Popen(
                [*self.before, program("tfe-rdzv"), f"--port={self.port}", "--bind=127.0.0.1", f"--state-dir={self.state_dir}",
                 *map(str, self.options)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=env or clean_environment(),
                preexec_fn=self.preexec)
        self.pid = self.process.pid
        return self

    def listens(self, timeout_s=30):
        """Reads the two lines of its stdout. Returns False if the server has ended before."""
        end, data = time.monotonic() + timeout_s, b""
        while data.count(b"\n") < 2:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Failed(f"no second line on stdout within {timeout_s} s: {data!r}")
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                return False
            data += more
        self.lines = data.decode().splitlines()
        self.port = int(self.lines[0].rpartition(":")[2])
        self.endpoint = f"127.0.0.1:{self.port}"
        return True

    def stop(self, number=signal.SIGTERM, deadline=30):
        """Sends the signal and returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(deadline)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
