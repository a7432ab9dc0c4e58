"""scale_out.py for AWS, and artifacts in S3, against moto, a mock of the AWS API, with AWS's own command-line tool."""

import hashlib
import json
import os
import socket
import subprocess
import sys

import pytest

from agents import fleet  # noqa: F401 (fleet is a fixture)
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


def test_artifacts_are_in_the_bucket_when_the_job_has_succeeded(server, fleet, aws, tmp_path):
    """The first attempts fail, because the bucket is made only after them."""
    server()
    script = tmp_path / "script.py"
    script.write_text("import os\nfor name in 'ab': open(os.environ['TFE_ARTIFACTS'] + '/' + name, 'w').write(name)\n")
    agent = fleet.start("--artifacts=s3://models/mnist", command=[str(script)], env={**os.environ, **aws.env})
    wait_until(lambda: "NoSuchBucket" in agent.stdout() + agent.stderr(), deadline=60, what="a failed attempt")
    aws("s3", "mb", "s3://models")
    assert agent.wait(120) == 0
    names = aws("s3api", "list-objects-v2", "--bucket=models", "--query=Contents[].Key").split()
    (version,) = {name.split("/")[1] for name in names}
    assert names == [f"mnist/{version}/{name}" for name in ("a", "b", "tfe-manifest.json")]
    manifest = json.loads(aws("s3", "cp", f"s3://models/mnist/{version}/tfe-manifest.json", "-"))
    assert [one["sha256"] for one in manifest["files"]] == [hashlib.sha256(name).hexdigest() for name in (b"a", b"b")]
