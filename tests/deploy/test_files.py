"""Recipes that no tool here can run: their syntax, their references, and their options against the real programs."""

import json
import re
import shutil
import subprocess

import pytest

from conftest import DEPLOY, tool

RECIPES = sorted(path.name for path in DEPLOY.iterdir() if (path / "README.md").exists())


@pytest.mark.parametrize("name", RECIPES)
def test_readme_is_short_and_complete(name):
    text = (DEPLOY / name / "README.md").read_text()
    assert len(text.splitlines()) <= 40
    for word in "| Up |", "| Down |", "Cost", "**Token.**", "Not run", "zone":
        assert word in text, (name, word)


@pytest.mark.parametrize("path", ["compose/compose.yaml", "cloud-init/server.yaml", "cloud-init/worker.yaml", "nomad/tfe.nomad.hcl",
                                  "nomad/agents.nomad.hcl", "slurm/tfe.sbatch"])
def test_options_exist(path, prefix, run):
    text = (DEPLOY / path).read_text()
    seen = 0
    for program in "tfe-rdzv", "tfe-agent", "tfe-web":
        known = run(prefix / "bin" / program, "-h")
        short = program.removeprefix("tfe-")
        for line in re.findall(rf"(?:bin/{program}|\"\$(?:{short})\")((?:[^\n]|\\\n)*(?:\n +args +=[^\]]*\])?)", text):
            for option in re.findall(r"--[a-z][a-z-]+", line):
                seen += 1
                assert f"{option}=" in known or f"{option} " in known or f"{option}\n" in known, (program, option)
    assert seen > 0


@pytest.mark.parametrize("path", ["nomad/tfe.nomad.hcl", "nomad/agents.nomad.hcl", "gcp/main.tf", "aws/main.tf"])
def test_hcl_is_valid(path):
    hcl2 = pytest.importorskip("hcl2", reason="needs python-hcl2 (scripts/deploy/tools.sh)")
    with open(DEPLOY / path, encoding="utf-8") as file:
        tree = hcl2.load(file)
    assert tree
    text = (DEPLOY / path).read_text()
    declared = set(re.findall(r'^variable "(\w+)"', text, re.M))
    assert set(re.findall(r"\bvar\.(\w+)", text)) == declared
    assert set(re.findall(r"\blocal\.(\w+)", text)) == {name for block in tree.get("locals", []) for name in block if not name.startswith("__")}
    for data, kind, name in re.findall(r"\b(data\.)?((?:google|aws)_\w+)\.(\w+)\b", text):
        assert f'{"data" if data else "resource"} "{kind}" "{name}"' in text, (kind, name)


@pytest.mark.parametrize("path", ["nomad/tfe.nomad.hcl", "nomad/agents.nomad.hcl", "gcp/main.tf", "aws/main.tf"])
def test_hcl_is_as_hashicorps_parser_formats_it(path, run):
    """`tofu fmt` formats by the same rules."""
    run(tool("hclfmt"), "-check", DEPLOY / path)  # fails if the file is no HCL
    assert run(tool("hclfmt"), DEPLOY / path) == (DEPLOY / path).read_text()


@pytest.mark.parametrize("path", ["cloud-init/server.yaml", "cloud-init/worker.yaml"])
def test_cloud_config_passes_cloud_inits_schema(path, run):
    if not shutil.which("cloud-init"):
        pytest.skip("needs cloud-init")
    assert "Valid" in run("cloud-init", "schema", "--config-file", DEPLOY / path)


@pytest.mark.parametrize("path", ["cloud-init/server.yaml", "cloud-init/worker.yaml", "compose/compose.yaml"])
def test_yaml_is_valid(path):
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (scripts/deploy/tools.sh)")
    assert yaml.safe_load((DEPLOY / path).read_text())


def test_shell_of_cloud_config_is_valid():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (scripts/deploy/tools.sh)")
    for name in "server", "worker":
        for command in yaml.safe_load((DEPLOY / f"cloud-init/{name}.yaml").read_text())["runcmd"]:
            if command[0] == "sh":
                assert subprocess.run(["sh", "-n"], input=command[2], text=True).returncode == 0


def test_arm_template_refers_to_what_it_has():
    template = json.loads((DEPLOY / "azure/azuredeploy.json").read_text())
    text = json.dumps(template)
    assert set(re.findall(r"parameters\('(\w+)'\)", text)) == set(template["parameters"])
    assert set(re.findall(r"variables\('(\w+)'\)", text)) == set(template["variables"])
    has = {(r["type"], r["name"]) for r in template["resources"]}
    for resource in template["resources"]:
        for kind, name in re.findall(r"resourceId\('([\w./]+)', '([\w-]+)'\)", json.dumps(resource["dependsOn"]) if "dependsOn" in resource else ""):
            assert (kind, name) in has
    fleet, = (r for r in template["resources"] if r["type"].endswith("virtualMachineScaleSets"))
    assert template["parameters"]["zones"]["defaultValue"] == ["1", "2", "3"] and fleet["zones"] == "[parameters('zones')]"
    assert fleet["properties"]["virtualMachineProfile"]["evictionPolicy"] == "Deallocate"


def test_gcp_group_spans_three_zones():
    text = (DEPLOY / "gcp/main.tf").read_text()
    assert len(re.search(r'variable "zones" \{.*?default = \[(.*?)\]', text, re.S)[1].split(",")) == 3
    assert "distribution_policy_zones = var.zones" in text


def test_batch_script_is_valid_shell():
    assert subprocess.run(["bash", "-n", DEPLOY / "slurm/tfe.sbatch"]).returncode == 0
