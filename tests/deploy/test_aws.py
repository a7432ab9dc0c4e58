"""The AWS recipe: cfn-lint, and its whole story with the AWS CLI against moto's server."""

import base64
import json
import os
import re
import socket
import subprocess
import tarfile

import pytest

from conftest import DEPLOY, PYTHON, ROOT, VENV, tool, wait_for

AWS = DEPLOY / "aws"
NAME = "fleet"


def test_template_passes_cfn_lint(run):
    run(tool("cfn-lint"), "--non-zero-exit-code", "warning", AWS / "aws.yaml")


def user_data():
    """The scripts of both launch templates, with the substitutions of CloudFormation replaced by words."""
    text = (AWS / "aws.yaml").read_text()
    scripts = re.findall(r"Fn::Base64: !Sub \|\n((?: {12}.*\n|\n)+)", text)
    assert len(scripts) == 2
    return ["\n".join(line[12:] for line in re.sub(r"\$\{(?!!)[^}]*\}", "word", script).split("\n")) for script in scripts]


@pytest.mark.parametrize("n", [0, 1])
def test_user_data_is_valid_shell_and_names_real_options(n, run, prefix):
    script = user_data()[n]
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for program in re.findall(r"/opt/tfe/bin/(tfe-[a-z]+)", script):
        known = run(prefix / "bin" / program, "-h")
        line = script.partition(f"/opt/tfe/bin/{program}")[2].partition("\nuntil")[0]
        for option in re.findall(r"(?:^|\s)(--[a-z-]+)=", line):
            if program != "tfe-ctl" and not option.startswith(("--lock", "--property", "--setenv", "--unit")):
                assert f"{option}=" in known or f"{option} " in known, (program, option)
    for path in re.findall(r"/opt/tfe/(share/tfe/[a-z_/.-]+)", script):
        assert (prefix / path).exists(), path


def opentofu_user_data():
    """The scripts that main.tf makes of aws.yaml: its expression and replacements, with a word for each value. Python's re
    has the syntax of the pattern's RE2."""
    text = (AWS / "main.tf").read_text()
    block = re.search(r"boot_scripts = \[(.*?)\n  \]", text, re.S)[1]
    pattern, = re.findall(r'regexall\("(.*?)", file\("\$\{path.module\}/aws.yaml"\)\)', block)
    scripts = re.findall(pattern.replace("\\\\", "\\").replace("\\n", "\n"), (AWS / "aws.yaml").read_text())
    replacements = re.findall(r'^ +"(.*?)", ([\w.]+|"")\)?,?\)?', block, re.M)
    assert block.count("replace(") == len(replacements)
    for wanted, value in replacements:
        if wanted.startswith("/"):
            assert value == '""'
            scripts = [re.sub(wanted.strip("/"), "", script) for script in scripts]
        else:
            scripts = [script.replace(wanted.removeprefix("$"), "word") for script in scripts]
    return scripts


def test_opentofu_boots_machines_with_the_scripts_of_the_template():
    assert [script.rstrip() for script in opentofu_user_data()] == [script.rstrip() for script in user_data()]


def test_opentofu_has_the_resources_of_the_template():
    """By kind; three subnets are one resource with a count, and a bucket's settings are resources of their own."""
    made = set(re.findall(r'^resource "aws_(\w+)"', (AWS / "main.tf").read_text(), re.M))
    kinds = {"EC2::VPC": "vpc", "EC2::InternetGateway": "internet_gateway", "EC2::VPCGatewayAttachment": "internet_gateway",
             "EC2::RouteTable": "route_table", "EC2::Route": "route", "EC2::Subnet": "subnet",
             "EC2::SubnetRouteTableAssociation": "route_table_association", "Route53::HostedZone": "route53_zone",
             "EC2::SecurityGroup": "security_group", "EC2::SecurityGroupIngress": "vpc_security_group_ingress_rule",
             "S3::Bucket": "s3_bucket", "SecretsManager::Secret": "secretsmanager_secret", "EC2::Volume": "ebs_volume",
             "IAM::Role": "iam_role", "IAM::InstanceProfile": "iam_instance_profile", "EC2::LaunchTemplate": "launch_template",
             "AutoScaling::AutoScalingGroup": "autoscaling_group"}
    assert {kinds[kind] for kind in re.findall(r"Type: AWS::(\w+::\w+)[\s,}]", (AWS / "aws.yaml").read_text()) if kind != "EC2::Image"} <= made


def test_spot_group_spreads_over_three_zones():
    tofu = (AWS / "main.tf").read_text()
    assert "slice(data.aws_availability_zones.available.names, 0, 3)" in tofu and "vpc_zone_identifier = aws_subnet.fleet[*].id" in tofu
    assert re.search(r"capacity_rebalance +?= true", tofu) and 'spot_allocation_strategy                 = "price-capacity-optimized"' in tofu
    text = (AWS / "aws.yaml").read_text()
    assert "VPCZoneIdentifier: [!Ref SubnetA, !Ref SubnetB, !Ref SubnetC]" in text
    assert "SpotAllocationStrategy: price-capacity-optimized" in text and "CapacityRebalance: true" in text
    assert {f"!Select [{n}, !GetAZs" in text for n in range(3)} == {True}


@pytest.fixture
def cloud(tmp_path):
    """The environment of an AWS CLI whose cloud is moto's server: an account with the default images and nothing else."""
    moto = tool("moto_server")
    tool("aws")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {"PATH": f"{VENV}{os.pathsep}{os.environ['PATH']}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_PAGER": "",
           "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "HOME": str(tmp_path)}
    with open(tmp_path / "moto.log", "wb") as log:
        server = subprocess.Popen([moto, "-H", "127.0.0.1", "-p", str(port)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for("moto", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 180)
        yield env
    finally:
        server.kill()
        server.wait()


@pytest.mark.heavy
def test_story_from_an_empty_account_to_a_model_and_back(cloud, prefix, tmp_path, run):
    """Created, scaled 3 to 5 by the autoscaler on the demand of a real server, a model uploaded, deleted. moto creates no
    AWS::SecretsManager::Secret, and boots no machine: agents of this machine stand for the workers."""
    def aws(*words):
        return run("aws", *words, "--output", "json", env=cloud)

    def left():
        stacks = json.loads(aws("cloudformation", "list-stacks"))["StackSummaries"]
        return {"stacks": [s for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"],
                "buckets": json.loads(aws("s3api", "list-buckets"))["Buckets"],
                "groups": json.loads(aws("autoscaling", "describe-auto-scaling-groups"))["AutoScalingGroups"],
                "secrets": json.loads(aws("secretsmanager", "list-secrets"))["SecretList"],
                "volumes": json.loads(aws("ec2", "describe-volumes"))["Volumes"],
                "networks": [v for v in json.loads(aws("ec2", "describe-vpcs"))["Vpcs"] if not v["IsDefault"]],
                "instances": [i for r in json.loads(aws("ec2", "describe-instances"))["Reservations"] for i in r["Instances"]
                              if i["State"]["Name"] not in ("terminated", "shutting-down")]}

    def machines():
        group, = json.loads(aws("autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", f"{NAME}-workers"))["AutoScalingGroups"]
        return len(group["Instances"]), group["DesiredCapacity"]

    assert not any(left().values())
    image = json.loads(aws("ec2", "describe-images", "--query", "Images[0].ImageId"))
    package = tmp_path / "tfe.tar.gz"
    with tarfile.open(package, "w:gz") as archive:
        archive.add(prefix / "bin", "tfe/bin")
    run("bash", AWS / "up", NAME, package, image, "Workers=3", "WorkersMax=8", env=cloud)
    assert machines() == (3, 3)
    group, = json.loads(aws("autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", f"{NAME}-workers"))["AutoScalingGroups"]
    assert len(group["VPCZoneIdentifier"].split(",")) == 3
    resources = {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in
                 json.loads(aws("cloudformation", "describe-stack-resources", "--stack-name", NAME))["StackResources"] if "PhysicalResourceId" in r}
    bucket = resources["Bucket"]
    assert "package/tfe.tar.gz" in run("aws", "s3", "ls", "--recursive", f"s3://{bucket}", env=cloud)

    # The server and its autoscaler run here; three agents of the pool stand for the three machines.
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    ctl = [prefix / "bin/tfe-ctl", "--state-dir", state]
    started = []
    try:
        started.append(subprocess.Popen([prefix / "bin/tfe-rdzv", f"--state-dir={state}", "--port=0", "--bind=127.0.0.1"], stderr=subprocess.DEVNULL))
        wait_for("the server", lambda: subprocess.run([*ctl, "pool"], capture_output=True).returncode == 0)
        for n in range(3):
            started.append(subprocess.Popen([prefix / "bin/tfe-agent", "--pool", f"--state-dir={state}", "--no-persist", f"--node-name=w{n}", "--label=spot=true"],
                                            stderr=subprocess.DEVNULL))
        wait_for("three nodes", lambda: len(json.loads(run(*ctl, "pool", "--json"))["pool"]) == 3)
        started.append(subprocess.Popen([PYTHON, ROOT / "scripts/examples/scale_out.py", "--every=2", f"--lock={tmp_path}/lock",
                                         f"--ctl={prefix}/bin/tfe-ctl --state-dir {state}", "aws", f"{NAME}-workers=spot=true"], env={**os.environ, **cloud}))
        code = tmp_path / "code"
        code.mkdir()
        (code / "train.py").write_text("import time\ntime.sleep(3600)\n")
        run(*ctl, "submit", "--name=big", "--workers=5:5", "--label=spot=true", f"--bundle={code}", "--", PYTHON, "train.py")
        wait_for("five machines", lambda: machines() == (5, 5), 120)
        assert "5/5/8" in run("bash", AWS / "scale", NAME, env=cloud)
        run(*ctl, "cancel", "big")
    finally:
        for one in reversed(started):
            one.terminate()
        for one in started:
            one.wait(60)

    model = tmp_path / "model.keras"
    model.write_bytes(os.urandom(100000))
    run("aws", "s3", "cp", model, f"s3://{bucket}/artifacts/big/1/model.keras", env=cloud)
    # moto deletes no route table, none of its associations, and no volume of a stack, as CloudFormation does.
    for table in json.loads(aws("ec2", "describe-route-tables", "--route-table-ids", resources["Routes"]))["RouteTables"]:
        for association in table["Associations"]:
            run("aws", "ec2", "disassociate-route-table", "--association-id", association["RouteTableAssociationId"], env=cloud)
    run("aws", "ec2", "delete-route-table", "--route-table-id", resources["Routes"], env=cloud)
    run("bash", AWS / "down", NAME, env=cloud)
    run("aws", "ec2", "delete-volume", "--volume-id", resources["Volume"], env=cloud)
    assert [b["Name"] for b in left()["buckets"]] == [bucket]
    run("aws", "s3", "rb", "--force", f"s3://{bucket}", env=cloud)
    assert not any(left().values()), left()


def test_usage_is_printed_without_arguments():
    for script in "up", "down", "scale":
        done = subprocess.run(["bash", AWS / script], capture_output=True, text=True)
        assert done.returncode == 2 and done.stdout.startswith(f"Usage: {script} NAME"), done
