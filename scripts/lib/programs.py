"""Programs of ours on this machine: where they are, what they inherit, who is below whom; and a server.

Nothing here sleeps to let something happen: wait_for() looks for what is observable, up to a deadline.
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
    """Something did not come as it should; the text is for a person."""


def bin_dir():
    return pathlib.Path(os.environ.get("TFE_BIN_DIR") or ROOT / "build" / "default").resolve()


def program(name):
    """Path of a program of ours, in $TFE_BIN_DIR or the default build (the build tree's layout, or one folder)."""
    for folder in ("server", "agent", "server/ctl", "server/web", "tests/crash", "bin", "."):
        path = bin_dir() / folder / name
        if path.is_file():
            return str(path)
    raise Failed(f"{name} is not in {bin_dir()}; build first")


def clean_environment(**more):
    """Ours, without anything that the programs take for options. No agent asks the cloud that this runs in, and none
    keeps a key where this machine's own agent would."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("TFE_", "FAULTY_", "LD_PRELOAD")) and key != "TF_CONFIG"}
    return {**env, "TFE_NOTICE": "none", "TFE_NO_PERSIST": "1", **more}


def comes(look, timeout_s, *, busy=lambda: None, pause_s=0.05):
    """Calls look() until it returns something true, and returns that; the last answer where none is in time. busy() is called
    between."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()) and time.monotonic() <= deadline:
        busy()
        time.sleep(pause_s)
    return found


def wait_for(what, look, timeout_s, **more):
    """As comes(), which it gives the rest to; Failed where nothing is in time."""
    found = comes(look, timeout_s, **more)
    if not found:
        raise Failed(f"waited {timeout_s} s in vain for {what}")
    return found


def parents():
    """pid -> (parent's pid, name) of every process that is no zombie."""
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
    """Ends guards that have nothing left to do but to give a killed agent's death certificate: of the agents with this folder
    in their environment. The files stay for a day, or for the next agent. How many there are yet."""
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
    """Whether a process of this pid runs (a zombie does not)."""
    return pid in parents()


def children(pid, name=None):
    """Of that name, where one is said."""
    return [child for child, (parent, its) in parents().items() if parent == pid and name in (None, its)]


def descendants(pid):
    """All processes below pid."""
    table, found, todo = parents(), set(), {pid}
    while todo:
        todo = {child for child, (parent, _) in table.items() if parent in todo} - found
        found |= todo
    return found


def server_port():
    """A free port for a server that goes and comes again: not of those that the system gives to connections, for one of them
    could have it meanwhile. 0, any, where there are no others."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100 if end > 12000 else 0):
        port = random.SystemRandom().randrange(10000, end)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    return 0


class Server:
    """A tfe-rdzv on one state directory; started again, it has the same port. stderr goes to the end of `log`."""

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
        """Reads the two lines of its stdout. False: it ended before."""
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
