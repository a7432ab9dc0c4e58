"""scripts/examples/scale_out.py: one order at a time, within a time limit, a later retry after a failure, and never a
machine twice."""

import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT, wait_until
from pooled import Waiting, order, spec
from programs import clean_environment, is_alive, program

# Replaces gcloud for the group "workers": keeps a size, records concurrent runs, and behaves as the file `mode` says.
GCLOUD = """#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path("{folder}")
words = sys.argv[1:]
mine = here / f"runs.{{os.getpid()}}"
mine.touch()
others = [p for p in here.glob("runs.*") if p != mine and os.path.exists("/proc/" + p.suffix[1:])]
mode = (here / "mode").read_text() if (here / "mode").exists() else ""
if others:
    (here / "beside").touch()
with open(here / "calls", "a") as calls:
    calls.write(words[3] + " " + str(time.time()) + "\\n")
if mode == "fails":
    sys.exit("no such project")
if mode == "nonsense":
    print("machines!")
    sys.exit(0)
while mode == "hangs" and (here / "mode").exists():
    time.sleep(0.01)
size = here / "size"
if words[3] == "resize":
    size.write_text([w for w in words if w.startswith("--size=")][0][7:])
mine.unlink()
print(json.dumps({{"targetSize": int(size.read_text())}}))
"""


class Scaled:
    def __init__(self, server, folder, state_dir):
        self.folder, self.state_dir, self.server = folder, state_dir, server
        tools = folder / "tools"
        tools.mkdir()
        (tools / "gcloud").write_text(GCLOUD.format(python=sys.executable, folder=folder))
        (tools / "gcloud").chmod(0o755)
        (folder / "size").write_text("0")
        self.env = clean_environment(PATH=f"{tools}{os.pathsep}{os.environ['PATH']}", XDG_STATE_HOME=str(folder / "state"))
        self.programs = []

    def start(self, *options, groups=("workers",)):
        made = subprocess.Popen([sys.executable, ROOT / "scripts/examples/scale_out.py", "--every=1", "--back-off=0.3", *options,
                                 f"--ctl={program('tfe-ctl')} --state-dir {self.state_dir}", "gcp", *groups], env=self.env,
                                stdout=subprocess.PIPE, stderr=open(self.folder / "err", "ab"), text=True)
        self.programs.append(made)
        return made

    def mode(self, mode):
        new = self.folder / "mode.new"
        if mode:
            new.write_text(mode)
            new.rename(self.folder / "mode")
        else:
            (self.folder / "mode").unlink()

    def size(self):
        return int((self.folder / "size").read_text() or 0)

    def calls(self, verb):
        path = self.folder / "calls"
        return [float(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(verb)] if path.exists() else []

    def said(self):
        return (self.folder / "err").read_text()


@pytest.fixture
def scaled(server, tmp_path, state_dir):
    made = Scaled(server("--ttl=5m"), tmp_path, state_dir)
    yield made
    for one in made.programs:
        one.kill()
        one.wait()


def test_group_grows_by_what_is_pending_once(scaled):
    s = scaled
    s.start(groups=("workers=gpu=a100,zone=b",))
    assert order(s.server, "SUBMIT", spec("other")) == "DONE"  # the group serves this job as well
    assert order(s.server, "SUBMIT", spec("train", sizes=(2, 2), labels={"gpu": "a100"})) == "DONE"
    wait_until(lambda: s.size() == 3, what="three machines")
    # Machines under way are not ordered again.
    wait_until(lambda: len(s.calls("describe")) >= 4, what="more looks")
    assert s.size() == 3
    with Waiting(s.server.port, s.server.token("agent"), "a", ["gpu=a100", "zone=b"]) as a:
        a.assigned()
        assert order(s.server, "SCALE", {1: "train", 3: 2, 4: 3}) == "DONE"
        wait_until(lambda: s.size() == 4, what="one machine more")
    assert not (s.folder / "beside").exists() and s.said() == ""


def test_labels_that_no_group_has_start_nothing(scaled):
    s = scaled
    assert order(s.server, "SUBMIT", spec("train", labels={"gpu": "h100"})) == "DONE"
    s.start(groups=("workers=gpu=a100",))
    time.sleep(3)
    assert s.size() == 0 and s.calls("resize") == []


@pytest.mark.parametrize(("mode", "says"), [("fails", "no such project"), ("nonsense", "no JSON"), ("hangs", "no end within 0.5 s")])
def test_order_that_fails_is_tried_again_later(scaled, mode, says):
    s = scaled
    s.mode(mode)
    s.start("--order-timeout=0.5")
    assert order(s.server, "SUBMIT", spec("train")) == "DONE"
    calls = wait_until(lambda: len(calls := s.calls("describe")) >= 4 and calls, what="four attempts")
    assert calls[3] - calls[2] > calls[1] - calls[0] and calls[3] - calls[2] > 1.2, "the pauses double"
    assert says in s.said() and "again in 0.6 s" in s.said()
    s.mode("")
    wait_until(lambda: s.size() == 1, what="the machine, in the end")
    assert not (s.folder / "beside").exists()


def test_second_instance_is_kept_away(scaled):
    s = scaled
    s.start()
    assert order(s.server, "SUBMIT", spec("train")) == "DONE"
    wait_until(lambda: s.size() == 1, what="a machine")
    assert s.start().wait(20) != 0
    assert "another instance holds" in s.said()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_order_does_not_run_beside_the_next_instance(scaled, how):
    """SIGTERM ends the order, too. After SIGKILL the order keeps the lock until it ends."""
    s = scaled
    s.mode("hangs")
    first = s.start()
    assert order(s.server, "SUBMIT", spec("train")) == "DONE"
    wait_until(lambda: s.calls("describe"), what="an order")
    running = int(next(s.folder.glob("runs.*")).suffix[1:])
    first.send_signal(how)
    first.wait()
    if how == signal.SIGTERM:
        wait_until(lambda: not is_alive(running), what="its end")
    else:
        assert s.start().wait(20) != 0 and is_alive(running)
    s.mode("")
    wait_until(lambda: not is_alive(running), what="its end")
    s.start()
    wait_until(lambda: s.size() == 1, what="a machine")
    assert not (s.folder / "beside").exists()


def test_server_that_is_away_is_waited_for(scaled):
    s = scaled
    s.server.stop()
    s.start()
    wait_until(lambda: "again in" in s.said(), what="its word")
    assert s.programs[0].poll() is None
