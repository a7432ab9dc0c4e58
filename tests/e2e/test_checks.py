"""Checks of a node before it is ready (--check), and the checks that tfe ships."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import time

import pytest

from agents import TOGETHER, fleet  # noqa: F401 (fleet is a fixture)
from conftest import ROOT, wait_until
from programs import program

CHECKS = ROOT / "scripts" / "checks"


def nodes_by_name(ctl):
    return {node["name"]: node for node in json.loads(ctl("nodes", "--json").stdout)["nodes"]}


def test_failed_check_keeps_a_node_out_until_it_passes(server, fleet, ctl, tmp_path):
    server("--gather-max=3s")
    wanted = tmp_path / "wanted"
    check = f"echo some output; test -e {wanted} || {{ echo no {wanted}; exit 3; }}"
    fleet.start("--node-name=fit", "--nnodes=1:2", TOGETHER, "--check=true")
    fleet.start("--node-name=unfit", "--nnodes=1:2", TOGETHER, "--check=true", f"--check={check}")
    failed = wait_until(lambda: nodes_by_name(ctl).get("unfit", {}).get("failed_check"), what="the failed check")
    assert failed == f"no {wanted}"
    fleet.wait_world(1)
    assert nodes_by_name(ctl)["unfit"]["rank"] is None and nodes_by_name(ctl)["fit"]["failed_check"] is None
    assert f"no {wanted}" in ctl("nodes").stdout
    assert "a check of its machine fails" in ctl("status").stdout
    wanted.touch()
    wait_until(lambda: nodes_by_name(ctl)["unfit"]["failed_check"] is None, what="the check to pass")


def test_check_that_fails_after_an_own_fault_gives_the_place_to_a_spare(server, fleet, ctl, tmp_path):
    """The switch does not wait for the unfit member: it would for stop-grace and 30 s."""
    server()
    broken = tmp_path / "broken"
    for name in "a", "b":
        check = f"if test -e {broken}.{name}; then echo broken disk; exit 1; fi"
        fleet.start(f"--node-name={name}", "--nnodes=2:2", TOGETHER, f"--check={check}")
    first = fleet.wait_world(2)
    fleet.start("--node-name=spare", "--nnodes=2:2", TOGETHER, "--check=true")
    wait_until(lambda: "spare" in nodes_by_name(ctl) and nodes_by_name(ctl)["spare"]["state"] == "spare", what="a spare")
    rank = nodes_by_name(ctl)["b"]["rank"]
    pathlib.Path(f"{broken}.b").touch()
    began = time.monotonic()
    fleet.order("exit 1", epoch=first, rank=rank)
    second = fleet.wait_world(2, above=first)
    assert time.monotonic() - began < 20
    ranks = {name: node["rank"] for name, node in nodes_by_name(ctl).items()}
    assert second > first and ranks["b"] is None and ranks["spare"] is not None
    assert nodes_by_name(ctl)["b"]["failed_check"] == "broken disk"


def test_check_gets_no_token(server, fleet, ctl):
    s = server()
    fleet.start("--node-name=a", "--check=if env | grep ^TFE_; then exit 1; fi", env={"TFE_TOKEN": s.token("agent")})
    fleet.wait_world(1)


def test_pool_node_with_a_failed_check_gets_no_job(server, fleet, ctl, tmp_path):
    server()
    wanted = tmp_path / "wanted"
    fleet.start_program([program("tfe-agent"), "--pool", "--node-name=p",
                         f"--check=test -e {wanted} || {{ echo no disk; exit 1; }}"])

    def state():
        nodes = json.loads(ctl("pool", "--json").stdout)["pool"]
        return (nodes[0]["state"], nodes[0]["failed_check"]) if nodes else None
    wait_until(lambda: state() == ("warned", "no disk"), what="the failed check in the pool")
    wanted.touch()
    wait_until(lambda: state() == ("free", None), what="the check to pass")


# --- the shipped checks ---------------------------------------------------------------------------


def fake(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def run(check, *arguments, env=None):
    done = subprocess.run([CHECKS / check, *arguments], env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip()


def test_disk_free_compares_mib(tmp_path):
    assert run("disk-free", str(tmp_path), "1") == (0, "")
    status, line = run("disk-free", str(tmp_path), "1", str(tmp_path), "999999999")
    assert status == 1 and line.endswith("999999999 required")
    assert run("disk-free", str(tmp_path / "none"), "1")[0] == 1


def test_paths_writable_leaves_nothing(tmp_path):
    assert run("paths-writable", str(tmp_path)) == (0, "")
    assert not list(tmp_path.iterdir())
    assert run("paths-writable", str(tmp_path / "none")) == (1, f"paths-writable: cannot create a file in {tmp_path}/none")


@pytest.mark.parametrize("row, status", [
    ("A9FEA97B,169.254.169.123,4,1764000000.1,-0.000012,0.1,0.1,1,1,1,1,16,0.1,Normal", 0),
    ("A9FEA97B,169.254.169.123,4,1764000000.1,-1.200000,0.1,0.1,1,1,1,1,16,0.1,Normal", 1),
    ("7F7F0101,,0,0.0,0.000000,0,0,0,0,0,1,1,0,Not synchronised", 1)])
def test_clock_offset_reads_chrony(tmp_path, row, status):
    assert run("clock-offset", "500", env=fake(tmp_path / "bin", "chronyc", f"echo '{row}'"))[0] == status


@pytest.mark.parametrize("rows, arguments, line", [
    ("0, 0, No, No, Not Active", [], ""),
    ("0, [N/A], [N/A], [N/A], Not Active", [], ""),
    ("0, 0, No, No, Not Active", ["--count", "2"], "gpu: 1 of 2 GPUs found"),
    ("0, 3, No, No, Not Active", [], "gpu: GPU 0 has 3 uncorrected ECC errors"),
    ("0, 0, Yes, No, Not Active", [], "gpu: GPU 0 has a pending row remapping: reset it"),
    ("0, 0, No, Yes, Not Active", [], "gpu: GPU 0 has a failed row remapping: replace it"),
    ("0, 0, No, No, Active", [], "gpu: GPU 0 runs slowed down by its hardware (power or temperature)")])
def test_gpu_reads_nvidia_smi(tmp_path, rows, arguments, line):
    """By the columns that nvidia-smi prints; no GPU is needed."""
    env = fake(tmp_path / "bin", "nvidia-smi", f"echo '{rows}'")
    assert run("gpu", *arguments, env=env) == (1 if line else 0, line)


def test_gpu_waits_until_memory_is_freed(tmp_path):
    env = fake(tmp_path / "bin", "nvidia-smi", f"""case $* in *memory.used*)
        n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) >{tmp_path}/n
        [ $n -ge 2 ] && echo '0, 4' || echo '0, 70000' ;; *) echo '0, 0, No, No, Not Active' ;; esac""")
    assert run("gpu", "--used", "1024", "--wait", "20", env=env) == (0, "")
    assert (tmp_path / "n").read_text().strip() == "3"
    (tmp_path / "n").write_text("-99")
    assert run("gpu", "--used", "1024", "--wait", "1", env=env) == (
        1, "gpu: GPU 0 has 70000 MiB in use after the wait, at most 1024 allowed")


def test_gpu_reports_the_last_line_of_a_failing_nvidia_smi(tmp_path):
    env = fake(tmp_path / "bin", "nvidia-smi", "echo 'Unable to determine the device handle: GPU is lost'; exit 15")
    assert run("gpu", env=env) == (1, "gpu: nvidia-smi failed: Unable to determine the device handle: GPU is lost")


def only_path(folder, text):
    """Returns the variables of an agent that finds this nvidia-smi."""
    return {"PATH": fake(folder, "nvidia-smi", text)["PATH"]}


def smi(folder, used):
    """Fakes an nvidia-smi of two GPUs: the file "used" has the MiB in use on the second one."""
    (folder / "used").write_text(f"{used}\n")
    return only_path(folder / "bin", f"case $* in *memory.used*) echo 3; cat {folder}/used ;; *) exit 1 ;; esac")


def test_next_start_waits_for_gpu_memory_of_ended_trainers(server, fleet, tmp_path):
    server("--gather=0.3")
    agent = fleet.start("--gpu-memory-wait=60s", "--no-standby", "--max-restarts=5", env=smi(tmp_path, 100))
    first = fleet.wait_world(1)
    (tmp_path / "used").write_text("613\n")
    fleet.order("exit 3", epoch=first)
    wait_until(lambda: "event=exited" in agent.stderr(), what="the trainer's end")
    time.sleep(3)  # the back-off takes one
    assert fleet.last_epoch() == first
    (tmp_path / "used").write_text("612\n")  # 512 more than before
    second = fleet.wait_world(1, above=first)
    (tmp_path / "used").write_text("9000\n")
    agent.send(signal.SIGTERM)  # a leaving node does not wait
    assert agent.wait() == 143 and second > first and "gpu_memory_in_use" not in agent.stderr()


def test_gpu_memory_that_is_not_freed_delays_a_start_for_the_time_given(server, fleet, tmp_path):
    server("--gather=0.3")
    agent = fleet.start("--gpu-memory-wait=500ms", "--no-standby", "--max-restarts=5", env=smi(tmp_path, 0))
    first = fleet.wait_world(1)
    (tmp_path / "used").write_text("9000\n")
    fleet.order("exit 3", epoch=first)
    fleet.wait_world(1, above=first)
    assert "event=gpu_memory_in_use mib=9003 before_mib=3 waited_ms=500" in agent.stderr()


def test_without_nvidia_smi_no_start_waits(server, fleet, tmp_path):
    server("--gather=0.3")
    agent = fleet.start("--gpu-memory-wait=60s", "--no-standby", env=only_path(tmp_path / "bin", "echo no devices; exit 9"))
    fleet.wait_world(1)
    assert agent.stderr().count("event=no_gpu_memory_wait reason=\"nvidia-smi reports no GPU memory\"") == 1
