"""tfe-ctl submit --dry-run: a job file, a Kubeflow manifest and a command line all yield every field, as the schema
requires."""

import copy
import json
import re
import subprocess

import pytest
from conftest import ROOT
from programs import clean_environment, program

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((ROOT / "docs/job-file.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

MANIFEST = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: dist-mnist, namespace: kubeflow}
spec:
  tfReplicaSpecs:
    PS: {replicas: 2, template: &P}
    Worker: {replicas: 4, template: &P}
""".replace("&P", "{spec: {containers: [{name: tensorflow, image: org/mnist:1, command: [python, mnist.py]}]}}")

FULL = {
    "name": "big", "generate_name": "big-", "priority": 900, "workers": {"min": 2, "max": 8}, "ps": 2, "chief": True, "evaluator": True, "nproc": 4,
    "source": {"git": "https://example.org/x.git", "ref": "main"}, "work_dir": "src", "image": "org/x:1", "command": ["python", "train.py"],
    "env": {"A": "1"}, "environment": "tfe", "labels": {"gpu": "a100"}, "role_labels": {"ps": {"spot": "false"}},
    "options": {"grow-wait": "60s", "no-grow": True}, "preempt": True, "suspend": True, "restart_policy": "ExitCode",
    "backoff_limit": 3, "active_deadline_s": 3600, "ttl_after_finished_s": 0, "clean_policy": "All",
    "success_policy": "AllWorkers",
}


def submit(*words, stdin=""):
    return subprocess.run([program("tfe-ctl"), "submit", *words], input=stdin, capture_output=True, text=True, timeout=60,
                          env=clean_environment())


def dry_run(text):
    return submit("--dry-run", "-f", "-", stdin=text)


def shown(text):
    done = dry_run(text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_what_it_prints_is_a_job_file_by_its_schema_and_comes_out_as_it_went_in():
    VALIDATOR.check_schema(SCHEMA)
    for text in ("name: small\n", json.dumps(FULL), MANIFEST):
        job, _ = shown(text)
        VALIDATOR.validate(job)
        assert list(job) == list(SCHEMA["properties"])
        assert shown(json.dumps(job))[0] == job
    assert shown(json.dumps(FULL))[0] == FULL
    of_roles = {**FULL, "restart_policy": {"ps": "Always", "worker": "ExitCode"}}
    VALIDATOR.validate(of_roles)
    assert shown(json.dumps(of_roles))[0] == of_roles


def test_a_manifest_becomes_a_job_and_its_image_is_named():
    job, warning = shown(MANIFEST)
    assert (job["name"], job["workers"], job["ps"], job["environment"]) == ("dist-mnist", {"min": 4, "max": 4}, 2, "kubeflow")
    assert warning == "tfe-ctl: image org/mnist:1 runs only on nodes started with --runtime; other nodes run the command without it\n"


CHANGES = [
    ("name", "a b"), ("name", 5), ("generate_name", "a b"), ("priority", 1001), ("priority", "5"), ("workers", 0), ("workers", "2"),
    ("workers", {"min": 1}), ("ps", -1), ("chief", "yes"), ("nproc", 65), ("source", {"path": "code"}), ("source", {}),
    ("source", {"path": "/a", "git": "b"}), ("source", {"path": "/a", "ref": "b"}), ("source", {"git": "--upload-pack=x"}),
    ("command", []), ("command", "python"), ("command", [""]), ("env", {"1": "x"}), ("env", {"TF_CONFIG": "x"}),
    ("env", {"TFE_RANK": "1"}), ("env", {"A": 1}), ("environment", "cloud"), ("labels", {"a=b": "c"}), ("labels", {"": "c"}), ("labels", {"a": "b c"}), ("work_dir", ""), ("image", ""), ("image", "dir:/etc"), ("image", "-v"), ("image", "x" * 256), ("image", 1),
    ("role_labels", {"master": {}}), ("role_labels", {"ps": {"a": 1}}), ("options", {"token": "x"}), ("options", {"ps": "1"}),
    ("options", {"gather": 3}), ("preempt", 1), ("restart_policy", "Sometimes"), ("restart_policy", {"master": "Never"}), ("restart_policy", {"ps": "never"}), ("backoff_limit", -1),
    ("active_deadline_s", 0), ("active_deadline_s", 2592001), ("clean_policy", "none"), ("success_policy", ""), ("color", 1),
]


def test_what_the_schema_refuses_the_program_refuses_by_the_fields_name():
    for field, value in CHANGES:
        job = copy.deepcopy(FULL)
        job[field] = value
        assert not VALIDATOR.is_valid(job), (field, value)
        done = dry_run(json.dumps(job))
        assert (done.returncode, done.stdout) == (1, ""), (field, value)
        assert done.stderr.startswith(f"tfe-ctl: -: {field}: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


def test_a_job_may_set_those_of_the_agents_options_that_the_schema_names():
    allowed = set(SCHEMA["properties"]["options"]["anyOf"][0]["propertyNames"]["enum"])
    told = subprocess.run([program("tfe-agent"), "-h"], capture_output=True, text=True, timeout=60, env=clean_environment()).stdout
    options = set(re.findall(r"^  (?:-\w, |    )--([a-z][a-z-]*)", told, re.M)) - {"help", "version"}
    assert allowed < options
    taken = {option for option in options if dry_run(json.dumps({"name": "x", "options": {option: "1"}})).returncode == 0}
    assert taken == allowed


def test_it_asks_nobody_and_wants_a_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("name: x\nworkers: 2:4\n")
    done = submit("--dry-run", f"--file={path}", "--state-dir", str(tmp_path / "none"))
    assert (done.returncode, json.loads(done.stdout)["workers"]) == (0, {"min": 2, "max": 4})
    assert submit("--dry-run").returncode == 2
    done = submit("-f", str(path), "--state-dir", str(tmp_path / "none"))
    assert (done.returncode, "no token" in done.stderr) == (77, True)
    done = submit("--dry-run", "-f", str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tfe-ctl: open {tmp_path}/missing: no such file or directory\n"
    done = submit("--dry-run", "-f", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "") and "is a directory" in done.stderr
    path.write_text("a: [1\n")
    assert submit("--dry-run", "-f", str(path)).stderr.startswith(f"tfe-ctl: {path}: line ")


def test_the_command_line_says_a_job_too_and_overrules_the_file():
    done = submit("--dry-run", "--name=x", "--worker-num", "2:4", "--env=A=1", "--env", "B=c=d", "--label", "gpu=a100", "--path=/code",
                  "--option=grow-wait=2m", "--option=no-hooks", "--priority=0", "--preempt", "--", "python", "train.py", "--name=y")
    job = json.loads(done.stdout)
    VALIDATOR.validate(job)
    assert (job["name"], job["workers"], job["env"], job["labels"]) == ("x", {"min": 2, "max": 4}, {"A": "1", "B": "c=d"},
                                                                       {"gpu": "a100"})
    assert (job["source"], job["options"]) == ({"path": "/code"}, {"grow-wait": "2m", "no-hooks": True})
    assert (job["priority"], job["preempt"], job["command"]) == (0, True, ["python", "train.py", "--name=y"])
    done = submit("--dry-run", "-f", "-", "--name=other", "--env=A=2", "--", "a", stdin=json.dumps(FULL))
    assert json.loads(done.stdout) == {**FULL, "name": "other", "env": {"A": "2"}, "command": ["a"]}


def test_a_strategy_says_which_roles_there_are():
    def roles(*words):
        job = json.loads(submit("--dry-run", "--name=x", *words, "--", "a").stdout)
        return job["ps"], job["chief"]
    assert roles() == roles("--strategy=AllReduce") == (0, False)
    assert (roles("--strategy=ParameterServer"), roles("--strategy=ParameterServer", "--ps=2")) == ((1, True), (2, True))
    assert submit("--dry-run", "--name=x", "--strategy=AllReduce", "--ps=1", "--", "a").returncode == 2


@pytest.mark.parametrize("words", [["--name=x", "operand", "--", "a"], ["--name=x", "--env=A", "--", "a"],
                                   ["--name=x", "--path=code", "--", "a"], ["--name=x", "--label=a=b c", "--", "a"]])
def test_a_command_line_that_makes_no_job_is_refused_in_a_sentence(words):
    done = submit("--dry-run", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
