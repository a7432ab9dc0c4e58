"""The package as users get it: installed by pip, without TensorFlow, typed."""
import json
import pathlib
import shutil
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "agent" / "python"

# Prints what an import brings in, and where it came from.
PROBE = """
import json, sys
before = set(sys.modules)
import tfe
tfe.progress(1); tfe.stop_requested(); tfe.checkpoint_saved(1, "ckpt")
brought = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([tfe.__file__, sorted(name for name in brought if name not in sys.stdlib_module_names)]))
"""


def test_pip_installs_it_from_the_tree_and_it_needs_nothing_else(tmp_path):
    source = tmp_path / "source"  # building leaves files beside it
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    target = tmp_path / "target"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                    "--disable-pip-version-check", "--target", target, source], check=True, timeout=120)
    assert (target / "tfe" / "py.typed").exists()
    assert {path.name for path in PACKAGE.glob("tfe/*.py")} == {path.name for path in target.glob("tfe/*.py")}
    metadata = next(target.glob("tfe-*.dist-info/METADATA")).read_text()
    assert "Requires-Dist" not in metadata

    found = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(target)!r})\n{PROBE}"],
                           check=True, capture_output=True, text=True, timeout=60)
    where, brought = json.loads(found.stdout)
    assert where.startswith(str(target))
    assert brought == ["tfe"]
