"""scale_out.py with Google's and Azure's groups, against replacements of their tools (cloud_tools.py)."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT, wait_until
from pooled import Waiting, order, spec
from programs import program

STAND_IN = pathlib.Path(__file__).with_name("cloud_tools.py")
PLACES = {"gcp": {"CLOUDSDK_COMPUTE_ZONE": "us-central1-a"}, "azure": {"AZURE_DEFAULTS_GROUP": "training"}}


class Group:
    """One empty group, "workers"; .env makes its tools available."""

    def __init__(self, folder, cloud):
        self.file = folder / "workers"
        self.file.write_text("0")
        tools = folder / "tools"
        tools.mkdir()
        for tool in ("gcloud", "az"):
            (tools / tool).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" {tool} "$@"\n')
            (tools / tool).chmod(0o755)
        self.env = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "CLOUD_GROUP": str(self.file), **PLACES[cloud]}

    def size(self):
        return int(self.file.read_text())

    def ask(self, *words, told=None):
        return subprocess.run(words, input=told, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60)


@pytest.fixture
def scale_out(tmp_path, state_dir):
    """Starts scale_out.py for a group; its stderr is the file `err`."""
    started = []

    def start(group, cloud, *groups):
        words = [sys.executable, ROOT / "scripts/examples/scale_out.py", "--every=1", "--size-max=5", f"--lock={tmp_path}/lock",
                 f"--ctl={program('tfe-ctl')} --state-dir {state_dir}", cloud, *groups]
        with open(tmp_path / "err", "wb") as err:
            started.append(subprocess.Popen(words, env={**os.environ, **group.env}, stderr=err))

    yield start
    for one in started:
        one.kill()
        one.wait()


@pytest.mark.parametrize("cloud", PLACES)
def test_a_group_grows_by_what_jobs_lack_and_no_further(server, scale_out, tmp_path, cloud):
    group = Group(tmp_path, cloud)
    s = server("--ttl=5m")
    scale_out(group, cloud, "workers=gpu=a100")
    assert order(s, "SUBMIT", spec("train", sizes=(2, 3), labels={"gpu": "a100"})) == "DONE"
    wait_until(lambda: group.size() == 3, what="three machines")
    with Waiting(s.port, s.token("agent"), "a", ["gpu=a100"]) as a, Waiting(s.port, s.token("agent"), "b", ["gpu=a100"]) as b:
        assert a.assigned()[1] == b.assigned()[1] == "train"
        # The order exceeds the group's maximum and is reduced to it.
        assert order(s, "SCALE", {1: "train", 3: 2, 4: 9}) == "DONE"
        wait_until(lambda: group.size() == 5, what="the largest group")
    assert (tmp_path / "err").read_text() == ""


@pytest.mark.parametrize("cloud", PLACES)
def test_a_group_that_is_not_there_is_named(server, scale_out, tmp_path, cloud):
    s = server()
    assert order(s, "SUBMIT", spec("train")) == "DONE"
    scale_out(Group(tmp_path, cloud), cloud, "others")
    said = wait_until(lambda: (tmp_path / "err").read_text(), what="an error")
    assert "others" in said and "not found" in said and "again in" in said


def test_the_stand_ins_take_what_the_tools_take(tmp_path):
    """Unknown, abbreviated, missing and misplaced options are rejected."""
    group = Group(tmp_path, "gcp")
    resize = ("gcloud", "compute", "instance-groups", "managed", "resize", "workers")
    scale = ("az", "vmss", "scale", "--resource-group=training", "--name=workers")
    for good, size in ((*resize, "--size=2", "--zone=a", "--quiet"), 2), ((*scale, "--new-capacity", "3", "--no-wait"), 3):
        assert group.ask(*good).returncode == 0 and group.size() == size, good
    for bad in ((*resize,), (*resize, "--sise=4"), (*resize, "--siz=4"), (*resize, "--size=4", "--zone=a", "--region=b"), (*resize, "--new-capacity=4"),
                (*scale,), (*scale, "--size=4"), (*scale, "--new-cap=4"), ("az", "vmss", "scale", "--name=workers", "--new-capacity=4"),
                (*resize[:4], "grow", "workers"), ("az", "vmss", "resize")):
        assert group.ask(*bad).returncode != 0 and group.size() == 3, bad
