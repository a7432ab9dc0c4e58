"""scale_out.py for AWS against moto, a mock of the AWS API, with AWS's own command-line tool."""

import os
import socket
import subprocess
import sys

import pytest

from conftest import ROOT, wait_until
from pooled import Waiting, order, spec
from programs import program

BIN = ROOT / ".venv-aws" / "bin"
pytestmark = [pytest.mark.heavy, pytest.mark.skipif(not (BIN / "moto_server").exists(), reason="needs moto (scripts/test.sh --full installs it)")]


@pytest.fixture
def aws(tmp_path):
    """A cloud with one group of at most 5 machines; .env is for its tool."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_PAGER": "",
           "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "HOME": str(tmp_path)}

    def ask(*words):
        told = subprocess.run(["aws", *words, "--output", "text"], env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
        assert told.returncode == 0, told.stderr
        return told.stdout.strip()

    def answers():
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    ask.env = env
    with open(tmp_path / "moto.log", "wb") as log:
        moto = subprocess.Popen([BIN / "moto_server", "-H", "127.0.0.1", "-p", str(port)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(answers, deadline=120, what="moto")
        image = ask("ec2", "describe-images", "--query", "Images[0].ImageId")
        ask("autoscaling", "create-launch-configuration", "--launch-configuration-name=lc", f"--image-id={image}", "--instance-type=t2.micro")
        ask("autoscaling", "create-auto-scaling-group", "--auto-scaling-group-name=workers", "--launch-configuration-name=lc",
            "--min-size=0", "--max-size=5", "--desired-capacity=0", "--availability-zones=us-east-1a")
        yield ask
    finally:
        moto.kill()
        moto.wait()


def test_a_group_grows_by_what_jobs_lack_and_no_further(server, aws, tmp_path, state_dir):
    def machines():
        return aws("autoscaling", "describe-auto-scaling-groups", "--query", "AutoScalingGroups[0].[DesiredCapacity,length(Instances)]")

    s = server("--ttl=5m")
    with open(tmp_path / "err", "wb") as err:
        scale_out = subprocess.Popen([sys.executable, ROOT / "scripts/examples/scale_out.py", "--every=2", f"--lock={tmp_path}/lock",
                                      f"--ctl={program('tfe-ctl')} --state-dir {state_dir}", "aws", "workers=gpu=a100"],
                                     env={**os.environ, **aws.env}, stderr=err)
    try:
        assert order(s, "SUBMIT", spec("train", sizes=(2, 3), labels={"gpu": "a100"})) == "DONE"
        wait_until(lambda: machines().split() == ["3", "3"], deadline=120, what="three machines")
        with Waiting(s.port, s.token("agent"), "a", ["gpu=a100"]) as a, Waiting(s.port, s.token("agent"), "b", ["gpu=a100"]) as b:
            assert a.assigned()[1] == b.assigned()[1] == "train"
            # The order exceeds the group's maximum and is reduced to it.
            assert order(s, "SCALE", {1: "train", 3: 2, 4: 9}) == "DONE"
            wait_until(lambda: machines().split() == ["5", "5"], deadline=120, what="the largest group")
        assert (tmp_path / "err").read_text() == ""
    finally:
        scale_out.kill()
        scale_out.wait()
