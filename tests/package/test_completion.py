"""Completion in shells: the options and verbs of the built programs."""
import os
import shutil

import pytest
from conftest import ROOT, run

BIN = ROOT / "build" / "default"


@pytest.fixture
def environment(tmp_path):
    """PATH has links to the built programs."""
    for name in ("agent/tfe-agent", "server/tfe-rdzv", "server/ctl/tfe-ctl", "server/web/tfe-web"):
        if not (BIN / name).exists():
            pytest.skip("the programs are not built in build/default")
        (tmp_path / os.path.basename(name)).symlink_to(BIN / name)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"}


CASES = [("tfe-agent --nno", ["--nnodes"]), ("tfe-agent --standal", ["--standalone"]), ("tfe-rdzv --por", ["--port"]),
         ("tfe-web --tls-c", ["--tls-cert"]), ("tfe-ctl desc", ["describe"]), ("tfe-ctl token cr", ["create"]),
         ("tfe-ctl token create --ro", ["--role"]), ("tfe-ctl scale job 1:2 --p", ["--ps"]), ("tfe-ctl --jso", ["--json"])]


def bash(line, environment):
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    script = (f". {ROOT}/scripts/completion/tfe.bash; COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; _tfe; "
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return run("bash", "-c", script, env=environment).stdout.split()


@pytest.mark.parametrize("line, expected", CASES)
def test_bash_completes(environment, line, expected):
    assert bash(line, environment) == expected


def test_bash_completes_every_option_of_the_agent(environment):
    found = bash("tfe-agent --", environment)
    listed = run("tfe-agent", "-h", env=environment).stdout
    assert len(found) > 50 and all(f"{option}" in listed for option in found)


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
@pytest.mark.parametrize("line, expected", [case for case in CASES if case[0] != "tfe-ctl token cr"])  # the first word of a verb only
def test_fish_completes(environment, line, expected):
    done = run("fish", "--no-config", "-c", f"source {ROOT}/scripts/completion/tfe.fish; complete -C '{line}'", env=environment)
    assert set(expected) <= {word.split("\t")[0] for word in done.stdout.splitlines()}


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_accepts_the_script():
    assert run("zsh", "-n", ROOT / "scripts/completion/_tfe").returncode == 0
