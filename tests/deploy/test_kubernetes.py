"""The Kubernetes recipe: the chart by helm, manifests by the schemas of Kubernetes, the runtime by Trainer's own CRD."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import DEPLOY, VENV, tool

KUBERNETES = DEPLOY / "kubernetes"
RENDER = ["template", "tfe", KUBERNETES / "chart", "--set", "job.script=/data/train.py"]


@pytest.fixture
def yaml():
    return pytest.importorskip("yaml", reason="needs PyYAML")


def test_chart_passes_helm_lint(run):
    run(tool("helm"), "lint", "--strict", KUBERNETES / "chart")


def test_rendered_manifests_are_those_of_the_chart(run):
    assert run(tool("helm"), *RENDER) == (KUBERNETES / "rendered/tfe.yaml").read_text()


@pytest.mark.parametrize("version", ["1.30", "1.31"])
def test_rendered_manifests_pass_the_schemas(run, version):
    run(tool("kubernetes-validate"), "--strict", "-k", version, KUBERNETES / "rendered/tfe.yaml")


def crd(kind):
    """The schema of Trainer's CRD in Go's module cache (scripts/deploy/tools.sh)."""
    found = sorted(pathlib.Path(os.environ.get("GOMODCACHE", pathlib.Path.home() / "go/pkg/mod")).glob(
        f"github.com/kubeflow/trainer/v2@*/manifests/base/crds/trainer.kubeflow.org_{kind}s.yaml"))
    if not found:
        pytest.skip("needs the CRDs of Kubeflow Trainer (scripts/deploy/tools.sh)")
    return found[-1]


def strict(schema):
    """Refuses unknown fields, as a server-side strict dry-run does."""
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema = {**schema, "additionalProperties": False}
        if schema.get("x-kubernetes-int-or-string"):
            schema = {key: value for key, value in schema.items() if key not in ("anyOf", "type")}
        return {key: strict(value) for key, value in schema.items()}
    return [strict(value) for value in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("name, kind", [("runtime", "clustertrainingruntime"), ("trainjob", "trainjob")])
def test_trainer_objects_pass_trainers_crd(yaml, name, kind):
    jsonschema = pytest.importorskip("jsonschema")
    with open(crd(kind), encoding="utf-8") as file:
        version, = (v for v in yaml.safe_load(file)["spec"]["versions"] if v["name"] == "v1alpha1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    document = yaml.safe_load((KUBERNETES / f"trainer/{name}.yaml").read_text())
    jsonschema.validate(document, schema)
    broken = yaml.safe_load((KUBERNETES / f"trainer/{name}.yaml").read_text())
    broken["spec"]["unknownField"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_options_exist(run, prefix):
    known = run(prefix / "bin/tfe-agent", "-h") + run(prefix / "bin/tfe-rdzv", "-h")
    for path in KUBERNETES / "rendered/tfe.yaml", KUBERNETES / "trainer/runtime.yaml":
        text = path.read_text()
        options = set(re.findall(r"--[a-z][a-z-]+(?==|,|\]|\")", text))
        assert options and not [o for o in options if f"{o}=" not in known and f"{o} " not in known]
        for name in re.findall(r"name: (TFE_[A-Z_]+)", text):
            assert "--" + name[4:].lower().replace("_", "-") in known, name


def test_scripts_are_valid_shell():
    for script in "up", "down":
        assert subprocess.run(["sh", "-n", KUBERNETES / script]).returncode == 0
        done = subprocess.run(["sh", KUBERNETES / script], capture_output=True, text=True)
        assert done.returncode == 2 and done.stdout.startswith("Usage: ")
