"""Fixtures of the tests with real JAX, Keras on JAX and PyTorch. A test is skipped by name if its framework is not installed
(scripts/setup.sh --full installs them)."""
import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "agent" / "python")]
import fleet as fl


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(name): skipped if this Python package is not installed")


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        if importlib.util.find_spec(mark.args[0]) is None:
            pytest.skip(f"{mark.args[0]} is not installed (scripts/setup.sh --full)")


@pytest.fixture
def make_fleet(tmp_path):
    """make_fleet(*server_options): a server with its agents, ended with the test."""
    made = []

    def make(*options):
        fleet = fl.Fleet(tmp_path / f"fleet{len(made)}", "--ttl", "3", "--gather", "20", *options)
        made.append(fleet)
        return fleet.__enter__()

    yield make
    for fleet in made:
        fleet.__exit__()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows what the programs said."""
    report = (yield).get_result()
    if report.when == "call" and report.failed and "tmp_path" in item.funcargs:
        for path in sorted(item.funcargs["tmp_path"].glob("fleet*/logs/*")):
            text = path.read_text(errors="replace")
            if text:
                report.sections.append((path.name, text[-5000:]))
