"""Fixtures for tests with real processes. Programs come from $TFE_BIN_DIR (default: build/default); no process outlives
its test."""

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import programs  # noqa: E402
from programs import clean_environment, is_alive, program, wait_for  # noqa: E402

BIN_DIR = programs.bin_dir()

# Long enough for a sanitizer build on a busy machine; a test that passes does not take this long.
DEADLINE = 30.0

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
as_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv(1)")


def loading(library, **env):
    """Returns the environment that preloads a library of tests/crash into the programs; env: variables for the
    library."""
    path = BIN_DIR / f"tests/crash/lib{library}.so"
    assert path.is_file(), f"{path} is not built"
    return {"LD_PRELOAD": str(path), "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0", **env}


def last_lines(base, n_lines=12, n_files=8):
    """Returns the last lines of the newest logs below a folder, for the message of a failed wait."""
    logs = [path for pattern in ("*.log", "*.err", "*.out") for path in pathlib.Path(base).rglob(pattern) if path.is_file()]
    logs.sort(key=lambda path: path.stat().st_mtime)
    return "".join(f"\n--- {path}:\n" + "\n".join(path.read_text(errors="replace").splitlines()[-n_lines:])
                   for path in logs[-n_files:])


_logs_of_test = []  # folders of the running test's program output


@pytest.fixture(autouse=True)
def _know_logs(request):
    _logs_of_test[:] = [request.getfixturevalue("tmp_path")] if "tmp_path" in request.fixturenames else []
    yield
    _logs_of_test.clear()


def wait_until(predicate, deadline=DEADLINE, what="the condition"):
    """Calls predicate until its result is true, and returns the result; a failure shows the last log lines of the
    programs."""
    try:
        return wait_for(what, predicate, deadline, pause_s=0.01)
    except programs.Failed as error:
        raise programs.Failed(str(error) + "".join(map(last_lines, _logs_of_test))) from None


def on_disk(state_dir, question):
    """Returns a column from a copy of the server's database, which the server locks. Returns [] if the server wrote
    meanwhile; then retry."""
    copy = state_dir / "copy.db"
    for end in ("", "-wal"):
        (state_dir / f"copy.db{end}").write_bytes((state_dir / f"rdzv.db{end}").read_bytes())
    db = sqlite3.connect(copy)
    try:
        return [value for value, in db.execute(question)]
    except sqlite3.DatabaseError:
        return []
    finally:
        db.close()
        for path in state_dir.glob("copy.db*"):
            path.unlink()


class Server(programs.Server):
    """A running tfe-rdzv."""

    def __init__(self, state_dir, log, *options, port=0, preexec=None, log_format="json", env=None):
        super().__init__(state_dir, log, f"--log-format={log_format}", "--log-level=debug", *options, port=port, preexec=preexec)
        self.start(clean_environment(**(env or {})))

    def wait_ready(self):
        if not self.listens(DEADLINE):
            pytest.fail(f"tfe-rdzv ended before it was ready:\n{self.log.read_text()}")
        return self

    def token(self, role):
        return (self.state_dir / f"{role}.token").read_text().strip()

    def events(self, name=None):
        """Returns the log so far, as dicts (--log-format json)."""
        lines = []
        for line in self.log.read_text(errors="replace").splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                lines.append(json.loads(line))
        return [e for e in lines if name is None or e["event"] == name]


@pytest.fixture
def commons(monkeypatch):
    """A folder in which every user may write (pytest's folders belong to root). If TMPDIR is not writable by other
    users, it becomes that folder for the programs of this test. Skips the test if other users cannot enter TMPDIR at
    all."""
    base = pathlib.Path(tempfile.gettempdir())
    for folder in (base, *base.parents):
        if not folder.stat().st_mode & 0o001:
            pytest.skip(f"other users cannot enter TMPDIR {base}: {folder} has mode {folder.stat().st_mode & 0o7777:o}")
    with tempfile.TemporaryDirectory(prefix="tfe-e2e-") as folder:
        os.chmod(folder, 0o777)
        if not base.stat().st_mode & 0o002:
            monkeypatch.setenv("TMPDIR", folder)
        yield pathlib.Path(folder)


@pytest.fixture
def state_dir(tmp_path):
    """A state directory that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
def server(state_dir, tmp_path):
    """Starts a server: server(*options, state_dir=…, port=…, preexec=…, env=…). All servers are stopped after the test,
    and those stopped by the fixture must exit cleanly, so that no sanitizer report is missed."""
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
    """Runs tfe-ctl to its end: ctl("status", "--json") uses the state directory of the test; ctl(…, bare=True) adds no
    option."""

    def run(*arguments, bare=False, env=None, state_dir=state_dir):
        where = [] if bare else ["--state-dir", str(state_dir)]
        return subprocess.run([program("tfe-ctl"), *where, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE * 2, env=clean_environment(**(env or {})))

    return run


@pytest.fixture
def token(ctl):
    """Returns the token made by `tfe-ctl token create …`."""

    def create(*options):
        done = ctl("token", "create", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return create


@pytest.fixture
def status(ctl):
    """Returns the jobs of `tfe-ctl status --json`, as a list of dicts."""

    def jobs(*arguments):
        done = ctl("status", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["jobs"]

    return jobs


@pytest.fixture
def health(ctl):
    """Returns the server's health from `tfe-ctl status --json` without "late": after half a second's stall of a busy
    machine it is reported for a minute, in any test."""

    def rows():
        done = ctl("status", "--json")
        assert done.returncode == 0, done.stderr
        return [row for row in json.loads(done.stdout)["health"] if row["component"] != "late"]

    return rows


@pytest.fixture
def shown(ctl):
    """Returns the output of `tfe-ctl status …` for people, without the line about "late"."""

    def text(*arguments):
        done = ctl("status", *arguments)
        assert done.returncode == 0, done.stderr
        return re.sub(r"^server: the server's event loop was delayed.*\n\n?", "", done.stdout, flags=re.M)

    return text


@pytest.fixture
def nodes(ctl):
    """Returns `tfe-ctl nodes --json`, as a list of dicts."""

    def ask(*arguments):
        done = ctl("nodes", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["nodes"]

    return ask
