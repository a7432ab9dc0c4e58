"""The example of a --scale-command for Google's and Azure's groups, against stand-ins of their tools (cloud_tools.py)."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT, wait_until
from pooled import Waiting, order, spec

STAND_IN = pathlib.Path(__file__).with_name("cloud_tools.py")
PLACES = {"gcp": {"CLOUDSDK_COMPUTE_ZONE": "us-central1-a"}, "azure": {"AZURE_DEFAULTS_GROUP": "training"}}


class Group:
    """One group, "workers", of no machines yet; .env is what finds it and its tools."""

    def __init__(self, folder, cloud):
        self.file = folder / "workers"
        self.file.write_text("0")
        tools = folder / "tools"
        tools.mkdir()
        for tool in ("gcloud", "az"):
            (tools / tool).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" {tool} "$@"\n')
            (tools / tool).chmod(0o755)
        self.env = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "CLOUD_GROUP": str(self.file), "SCALE_OUT_SIZE_MAX": "5", **PLACES[cloud]}

    def size(self):
        return int(self.file.read_text())

    def ask(self, *words, told=None):
        return subprocess.run(words, input=told, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("cloud", PLACES)
def test_a_group_grows_by_what_jobs_lack_and_no_further(server, tmp_path, cloud):
    group = Group(tmp_path, cloud)
    s = server(f"--scale-command=exec {sys.executable} {ROOT}/scripts/examples/scale_out.py {cloud} workers=gpu=a100", "--scale-wait=200ms",
               "--ttl=5m", env=group.env)
    assert order(s, "SUBMIT", {1: spec("train", sizes=(2, 3), f11=["gpu=a100"])}) == "DONE"
    wait_until(lambda: [e for e in s.events("scale_ran") if e["pending"] == 3], what="three on their way")
    assert group.size() == 3
    with Waiting(s.port, s.token("agent"), "a", ["gpu=a100"]) as a, Waiting(s.port, s.token("agent"), "b", ["gpu=a100"]) as b:
        assert a.assigned()[1] == b.assigned()[1] == "train"
        # More than the group may have: it gets what there is.
        assert order(s, "SCALE", {1: "train", 3: 2, 4: 9}) == "DONE"
        wait_until(lambda: group.size() == 5, what="the largest group")
    assert not s.events("scale_failed")


@pytest.mark.parametrize("cloud", PLACES)
def test_a_group_that_is_not_there_is_named(tmp_path, cloud):
    group = Group(tmp_path, cloud)
    told = '{"sets": [{"labels": [], "want": 1, "have": 0, "idle": 0}], "nodes": []}'
    done = group.ask(sys.executable, ROOT / "scripts/examples/scale_out.py", cloud, "others", told=told)
    assert done.returncode != 0 and "others" in done.stderr and "not found" in done.stderr and done.stdout == ""


def test_the_stand_ins_take_what_the_tools_take(tmp_path):
    """What is not of the tool, spelled in part, left out or unknown there is refused."""
    group = Group(tmp_path, "gcp")
    resize = ("gcloud", "compute", "instance-groups", "managed", "resize", "workers")
    scale = ("az", "vmss", "scale", "--resource-group=training", "--name=workers")
    for good, size in ((*resize, "--size=2", "--zone=a", "--quiet"), 2), ((*scale, "--new-capacity", "3", "--no-wait"), 3):
        assert group.ask(*good).returncode == 0 and group.size() == size, good
    for bad in ((*resize,), (*resize, "--sise=4"), (*resize, "--siz=4"), (*resize, "--size=4", "--zone=a", "--region=b"), (*resize, "--new-capacity=4"),
                (*scale,), (*scale, "--size=4"), (*scale, "--new-cap=4"), ("az", "vmss", "scale", "--name=workers", "--new-capacity=4"),
                (*resize[:4], "grow", "workers"), ("az", "vmss", "resize")):
        assert group.ask(*bad).returncode != 0 and group.size() == 3, bad
