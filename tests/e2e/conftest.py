"""Fixtures for tests with real processes. Programs come from $TFE_BIN_DIR, default build/default; nothing a test
starts outlives it."""

import json
import os
import pathlib
import select
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = pathlib.Path(os.environ.get("TFE_BIN_DIR", ROOT / "build" / "default")).resolve()

# Long enough for a sanitizer build on a busy machine; a test that passes does not wait for it.
DEADLINE = 30.0


def program(name):
    """Path of tfe-rdzv, tfe-ctl or tfe-agent: flat as installed, or where the build leaves it."""
    places = [BIN_DIR / name] + [BIN_DIR / room / name for room in ("server", "server/ctl", "agent", "bin")]
    for path in places:
        if path.is_file():
            return str(path)
    pytest.fail(f"{name} is not built (looked in {BIN_DIR})")


def clean_environment(**more):
    """Ours, without anything that the programs take for options. No agent asks the cloud that the tests run in."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TFE_") and k != "GCE_METADATA_HOST"}
    env["TFE_NOTICE"] = "none"
    env.update(more)
    return env


def wait_until(predicate, deadline=DEADLINE, what="the condition"):
    """Asks until the answer is true and returns it."""
    end = time.monotonic() + deadline
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"{what} did not come true within {deadline} s")
        time.sleep(0.01)


def is_alive(pid):
    """Whether a process of this pid runs (a zombie does not)."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


class Server:
    """A running tfe-rdzv."""

    def __init__(self, state_dir, log, *options, port=0, preexec=None, log_format="json", env=None):
        self.state_dir, self.log = pathlib.Path(state_dir), log
        with open(log, "wb") as stderr:
            self.process = subprocess.Popen(
                [program("tfe-rdzv"), "--port", str(port), "--bind", "127.0.0.1", "--state-dir", str(state_dir),
                 "--log-format", log_format, *options],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=clean_environment(**(env or {})),
                preexec_fn=preexec)
        self.pid = self.process.pid
        self.lines = []

    def wait_ready(self):
        """Reads the two lines of stdout."""
        end, data = time.monotonic() + DEADLINE, b""
        while data.count(b"\n") < 2:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                pytest.fail(f"no second line on stdout within {DEADLINE} s: {data!r}")
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                pytest.fail(f"tfe-rdzv ended before it was ready:\n{self.log.read_text()}")
            data += more
        self.lines = data.decode().splitlines()
        self.port = int(self.lines[0].rpartition(":")[2])
        self.endpoint = f"127.0.0.1:{self.port}"
        return self

    def token(self, role):
        return (self.state_dir / f"{role}.token").read_text().strip()

    def events(self, name=None):
        """The log so far, as dicts (--log-format json)."""
        lines = []
        for line in self.log.read_text(errors="replace").splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                lines.append(json.loads(line))
        return [e for e in lines if name is None or e["event"] == name]

    def stop(self, number=signal.SIGTERM, deadline=DEADLINE):
        """Sends the signal and returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(deadline)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def state_dir(tmp_path):
    """A state directory that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
def server(state_dir, tmp_path):
    """Starts a server: server(*options, state_dir=…, port=…, preexec=…, env=…). All are gone after the test, and those
    that are stopped by the fixture must have ended well: no sanitizer complaint hides."""
    started = []

    def start(*options, state_dir=state_dir, ready=True, **more):
        s = Server(state_dir, tmp_path / f"rdzv.{len(started)}.log", *options, **more)
        started.append(s)
        return s.wait_ready() if ready else s

    yield start
    failed = []
    for s in started:
        try:
            if s.process.poll() is None and s.stop() != 0:
                failed.append(s.log.read_text()[-4000:])
        finally:
            s.kill()
            assert not is_alive(s.pid)
    assert not failed, failed


@pytest.fixture
def ctl(state_dir):
    """Runs tfe-ctl to its end: ctl("status", "--json") uses the state directory of the test; ctl(…, bare=True) adds
    nothing."""

    def run(*arguments, bare=False, env=None, state_dir=state_dir):
        where = [] if bare else ["--state-dir", str(state_dir)]
        return subprocess.run([program("tfe-ctl"), *where, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE * 2, env=clean_environment(**(env or {})))

    return run


@pytest.fixture
def status(ctl):
    """The jobs of `tfe-ctl status --json`, as a list of dicts."""

    def jobs(*arguments):
        done = ctl("status", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["jobs"]

    return jobs
