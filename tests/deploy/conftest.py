"""Fixtures of the recipes' tests: an installed prefix, and tools that are found or whose tests are skipped by name."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "scripts" / "deploy"
BUILD = pathlib.Path(os.environ.get("TFE_BIN_DIR", ROOT / "build" / "default"))
VENV = ROOT / "build" / "venv-deploy" / "bin"
sys.path += map(str, VENV.parent.glob("lib/python3.*/site-packages"))  # PyYAML, python-hcl2


def tool(name):
    """The path of a tool of build/venv-deploy (scripts/deploy/tools.sh) or PATH; the test is skipped without it."""
    path = VENV / name
    found = str(path) if path.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"needs {name} (scripts/deploy/tools.sh)")
    return found


def wait_for(what, look, deadline=60.0):
    until = time.monotonic() + deadline
    while not (found := look()):
        if time.monotonic() > until:
            raise AssertionError(f"{what} within {deadline:g} s")
        time.sleep(0.1)
    return found


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """The programs as `cmake --install` puts them."""
    if not (BUILD / "agent" / "tfe-agent").exists() and not (BUILD / "tfe-agent").exists():
        pytest.skip(f"no programs in {BUILD}")
    base = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", base], check=True, stdout=subprocess.DEVNULL)
    return base


@pytest.fixture
def run():
    """Runs a command to its end and returns what it printed; a failure shows that."""
    def do(*words, env=None, code=0, timeout=300, **more):
        done = subprocess.run([str(word) for word in words], env={**os.environ, **(env or {})}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout, **more)
        assert done.returncode == code, f"{words}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout
    return do


PYTHON = sys.executable
