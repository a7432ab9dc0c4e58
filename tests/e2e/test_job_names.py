"""Jobs submitted without a name: each gets a unique one."""

import json
import re

from conftest import loading
from web import start

LETTERS = "[bcdfghjklmnpqrstvwxz2456789]{5}"
POD = {"spec": {"containers": [{"name": "tensorflow", "command": ["python", "mnist.py"]}]}}
MANIFEST = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"generateName": "mnist-"},
            "spec": {"tfReplicaSpecs": {"Worker": {"template": POD}}}}
RULE = "1 to 64 characters of A-Z a-z 0-9 . _ -, not beginning with . or -"
JOB = {"command": ["python", "train.py"]}


def dice(n):
    """Makes the server generate the same name n times."""
    return loading("loaded_dice", LOADED_DICE=str(n))


def names(ctl):
    return [row["job"] for row in json.loads(ctl("jobs", "--json").stdout)["jobs"]]


def test_each_job_without_a_name_gets_one_that_is_told(server, ctl, tmp_path):
    server()
    manifest, file = tmp_path / "manifest.json", tmp_path / "job.yaml"
    manifest.write_text(json.dumps(MANIFEST))
    file.write_text("generate_name: from-a-file\ncommand: [python, train.py]\n")
    said = []
    for words, begins in ((("--", "python", "src/train.py", "--steps", "3"), "train-"), (("--", "python", "src/train.py"), "train-"),
                          (("--path=/srv/code",), "code-"), ((f"--file={manifest}",), "mnist-"), ((f"--file={file}",), "from-a-file"),
                          ((f"--file={manifest}", "--name=said"), "said")):
        done = ctl("submit", *words)
        assert done.returncode == 0, done.stderr
        name = re.match("job (.*) is submitted\n", done.stdout)[1]
        assert ("the job runs in an empty directory" in done.stderr) == ("--path=/srv/code" not in words), done.stderr
        assert re.fullmatch(re.escape(begins) + ("" if begins == "said" else LETTERS), name), name
        said.append(name)
    name = json.loads(ctl("submit", "--json", "--", "python", "x.py").stdout)["job"]
    assert re.fullmatch(f"x-{LETTERS}", name)
    assert len(set(said)) == len(said) and sorted(names(ctl)) == sorted([*said, name])
    assert json.loads(ctl("submit", "--dry-run", "--", "python", "x.py").stdout)["name"] is None
    file.write_text("workers: 2\n")
    done = ctl("submit", f"--file={file}")
    assert done.returncode != 0 and "name: missing" in done.stderr


def test_a_name_that_is_taken_is_made_anew_but_not_for_ever(server, ctl, state_dir, tmp_path):
    s = server()
    for tries, n in ((1, 1), (2, 2), (4, 3)):
        done = ctl("submit", "--", "python", "train.py", env=dice(tries))
        assert done.returncode == 0, done.stderr
        assert len(names(ctl)) == n
    done = ctl("submit", "--", "python", "train.py", env=dice(5))
    assert done.returncode == 1 and 'job "train-bbbbb" has not ended' in done.stderr
    taken = ctl("submit", "--name=train-bbbbb", "--", "python", "train.py")
    assert taken.returncode == 1 and 'job "train-bbbbb" has not ended' in taken.stderr
    assert len(names(ctl)) == 3
    with start(state_dir, tmp_path, server=s, env=dice(5)) as web:
        web.login(s.token("admin"))
        refused = web.order("/api/v1/jobs", JOB)
        assert (refused.code, refused.json["code"]) == (409, "conflict")
    with start(state_dir, tmp_path, server=s, env=dice(1)) as web:
        web.login(s.token("admin"))
        done = web.order("/api/v1/jobs", JOB)
        assert done.code == 201 and re.fullmatch(f"train-{LETTERS}", done.json["name"]) and done.json["name"] != "train-bbbbb"
        done = web.order("/api/v1/jobs", MANIFEST)
        assert done.code == 201 and re.fullmatch(f"mnist-{LETTERS}", done.json["name"])
        assert web.order("/api/v1/jobs", {}).code == 400
        assert {done.json["name"], "train-bbbbb"} < set(names(ctl)) and len(names(ctl)) == 5
        assert web.order("/api/v1/jobs", {**JOB, "name": "train-bbbbb"}).code == 409  # an explicit name is not changed


def test_a_name_that_is_a_path_or_an_option_is_refused_by_every_program(server, ctl, state_dir, tmp_path):
    s = server()
    wrong = (".", "..", ".hidden", "-x", "--help")
    for name in wrong:
        done = ctl("submit", f"--name={name}", "--", "python", "train.py")
        assert done.returncode == 2 and f"name: expected {RULE}" in done.stderr, done.stderr
        for verb in (("cancel",), ("describe",), ("drain",), ("token", "revoke"), ("backup",)):
            done = ctl(*verb, "--", name)
            assert done.returncode == 2 and f'"{name}" is no' in done.stderr and RULE in done.stderr, done.stderr
        done = ctl("token", "create", f"--label={name}")
        assert done.returncode != 0 and done.stdout == ""
    with start(state_dir, tmp_path, server=s) as web:
        web.login(s.token("admin"))
        assert all(web.order("/api/v1/jobs", {**JOB, "name": name}).code == 400 for name in wrong)
    assert names(ctl) == []


def test_a_token_of_some_names_needs_one_of_those(server, ctl, token):
    server()
    team = token("--role=admin", "--job=team-*")
    done = ctl("submit", "--token", team, "--", "python", "train.py")
    assert (done.returncode, done.stderr) == (77, "tfe-ctl: this token is not for that job\n")
    done = ctl("submit", "--token", team, "--", "python", "team-a.py")
    assert done.returncode == 0, done.stderr
