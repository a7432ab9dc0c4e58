"""The package as users get it: installed by pip, without TensorFlow, with types."""
import ast
import json
import pathlib
import shutil
import subprocess
import sys

import pytest
import tfe

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "agent" / "python"

# Prints which modules an import loads, and from where.
PROBE = """
import json, sys
before = set(sys.modules)
import tfe
tfe.progress(1); tfe.stop_requested(); tfe.checkpoint_saved(1, "ckpt")
brought = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([tfe.__file__, sorted(name for name in brought if name not in sys.stdlib_module_names)]))
"""


def test_pip_installs_it_from_the_tree_and_it_needs_nothing_else(tmp_path):
    source = tmp_path / "source"  # building leaves files beside the source
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    target = tmp_path / "target"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                    "--disable-pip-version-check", "--target", target, source], check=True, timeout=120)
    assert (target / "tfe" / "py.typed").exists()
    assert {path.name for path in PACKAGE.glob("tfe/*.py")} == {path.name for path in target.glob("tfe/*.py")}
    metadata = next(target.glob("tf_elastic-*.dist-info/METADATA")).read_text()
    assert "\nName: tf-elastic\n" in metadata and "Requires-Dist" not in metadata

    found = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(target)!r})\n{PROBE}"],
                           check=True, capture_output=True, text=True, timeout=60)
    where, brought = json.loads(found.stdout)
    assert where.startswith(str(target))
    assert brought == ["tfe"]


def test_namesake_in_the_same_folder_is_reported(tmp_path):
    shutil.copytree(PACKAGE / "tfe", tmp_path / "tfe", ignore=shutil.ignore_patterns("__pycache__"))
    probe = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tfe; tfe.progress(1)"]
    for name in ("tf_elastic-0.1.0.dist-info", "tfelement-1.0.dist-info"):
        (tmp_path / name).mkdir()
    assert subprocess.run(probe, check=True, capture_output=True, text=True, timeout=60).stderr == ""
    (tmp_path / "tfe-0.0.4.dist-info").mkdir()
    warning = subprocess.run(probe, check=True, capture_output=True, text=True, timeout=60).stderr
    assert "TensorFlow Extras" in warning and "pip uninstall tfe" in warning


def test_type_checkers_know_exactly_the_names_that_there_are():
    """A module's __getattr__ would accept every misspelt name, so type checkers must not see it."""
    body = ast.parse((PACKAGE / "tfe" / "__init__.py").read_text()).body
    assert "__getattr__" not in {node.name for node in body if isinstance(node, ast.FunctionDef)}
    typed = {alias.name for block in body if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
             for node in block.body for alias in node.names}
    assert typed == set(tfe._lazy)
    with pytest.raises(AttributeError, match="has no attribute 'stratgy'"):
        tfe.stratgy


@pytest.mark.parametrize("call, words", [
    (lambda: tfe.progress("3"), "step is '3'; it must be an integer"),
    (lambda: tfe.progress(None), "step is None; it must be"),
    (lambda: tfe.progress(-1), "step is -1; it must not be negative"),
    (lambda: tfe.progress(1, samples="x"), "samples is 'x'"),
    (lambda: tfe.progress(1, total=[]), "total is []; it must be"),
    (lambda: tfe.progress(1, metrics={"loss": "low"}), "metrics['loss'] is 'low'; it must be a number"),
    (lambda: tfe.progress(1, metrics={str(n): n for n in range(17)}), "metrics has 17 entries"),
    (lambda: tfe.checkpoint_saved("1", "x"), "step is '1'"),
    (lambda: tfe.checkpoint_saved(1, None), "path is None; it must be a string or a path")])
def test_error_names_its_argument(call, words):
    with pytest.raises((TypeError, ValueError)) as told:
        call()
    assert words in str(told.value)
