"""Fixtures of the tests with real TensorFlow. They start real programs through scripts/lib/fleet.py, like the demo."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "agent" / "python")]
import fleet as fl


@pytest.fixture
def make_fleet(tmp_path):
    """make_fleet(*server_options) starts a server whose agents end with the test. The first epoch waits for all agents
    that the test starts: their number is the maximum of --nnodes."""
    made = []

    def make(*options):
        fleet = fl.Fleet(tmp_path, "--ttl", "3", "--gather", "20", *options)
        made.append(fleet)
        return fleet.__enter__()

    yield make
    for fleet in made:
        fleet.__exit__()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Shows the programs' output of a failed test (their logs are complete while the fixture still runs)."""
    report = (yield).get_result()
    if report.when == "call" and report.failed and "tmp_path" in item.funcargs:
        for path in sorted((item.funcargs["tmp_path"] / "logs").glob("*")):
            text = path.read_text(errors="replace")
            if text:
                report.sections.append((path.name, text[-6000:]))
