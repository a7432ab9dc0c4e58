"""The wheel: contents, size, what it needs of the system, and a training in a fresh virtual environment."""
import base64
import csv
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import sys
import zipfile

import pytest
from conftest import FULL, OUT, PROGRAMS, ROOT, VERSION, package, run

SIZE_MAX = 5.5 * 2 ** 20
GLIBC_MAX = (2, 31)
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}


def test_wheel_has_programs_pages_and_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        data = f"tf_elastic-{VERSION}.data"
        for name in PROGRAMS:
            assert archive.getinfo(f"{data}/scripts/{name}").external_attr >> 16 & 0o111
        for path in ("man/man1/tfe-agent.1", "man/man8/tfe-rdzv.8", "man/man1/tfe-ctl.1", "man/man8/tfe-web.8",
                     "tfe/python/tfe_bootstrap.py", "tfe/python/tfe_hooks.py", "tfe/python/tfe_artifacts.py",
                     "tfe/monitoring/alerts.yml"):
            assert f"{data}/data/share/{path}" in names
        assert {f"tfe/{path.name}" for path in (ROOT / "agent/python/tfe").glob("*.py")} <= names
        assert not [name for name in names if name.endswith(".service") or "/share/tfe/python/tfe/" in name]
        rows = list(csv.reader(io.TextIOWrapper(archive.open(f"tf_elastic-{VERSION}.dist-info/RECORD"))))
        assert {row[0] for row in rows} == names
        for name, digest, size in rows[:-1]:
            content = archive.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert int(size) == len(content)
    assert wheel.stat().st_size <= SIZE_MAX


def test_programs_need_only_an_old_c_library(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        for name in PROGRAMS:
            path = archive.extract(f"tf_elastic-{VERSION}.data/scripts/{name}", tmp_path)
            text = run("readelf", "-dV", path).stdout
            assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)) <= SYSTEM_LIBRARIES
            versions = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", text)}
            assert max(versions) <= GLIBC_MAX, name


def test_sbom_lists_the_static_libraries(wheel):
    if not (OUT / "cache" / f"sysroot-{os.uname().machine}" / "done").exists():
        pytest.skip("the libraries are not in build/package/cache (scripts/package.sh static)")
    sbom = json.loads(pathlib.Path(package("sbom").split()[-1]).read_text())
    assert sbom["bomFormat"] == "CycloneDX" and sbom["metadata"]["component"]["version"] == VERSION
    assert {"libevent-dev", "libsodium-dev", "libssl-dev", "libsqlite3-dev"} <= {part["bom-ref"] for part in sbom["components"]}
    assert all(part["version"] and part["purl"].startswith("pkg:deb/debian/") for part in sbom["components"])


def test_auditwheel_confirms_the_tag(wheel):
    tool = OUT / "cache" / "zig" / "bin" / "auditwheel"
    if not tool.exists():
        pytest.skip("needs auditwheel (scripts/package.sh static installs it)")
    assert re.search(r'platform tag:\s+"manylinux_2_31_', run(tool, "show", wheel).stdout)


def test_same_input_gives_the_same_wheel(wheel, tmp_path):
    tree = OUT / "static" / os.uname().machine
    wheels = []
    for number in "12":
        run("/usr/bin/python3", ROOT / "scripts/package/wheel.py", tree, tmp_path / number, "any",
            env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        wheels.append(next((tmp_path / number).glob("*.whl")).read_bytes())
    assert wheels[0] == wheels[1]


def test_fresh_environment_trains_with_its_own_python(wheel, tmp_path):
    """The environment is not activated: tfe-agent finds the Python beside itself. TensorFlow is that of .venv."""
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    run(sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "--no-index", "--no-deps", wheel)
    packages = next(venv.glob("lib/python3*/site-packages"))
    (packages / "tensorflow.pth").write_text(f"{next((ROOT / '.venv').glob('lib/python3*/site-packages'))}\n")
    script = tmp_path / "train.py"
    script.write_text("""
import sys, tfe
import tensorflow as tf
with tfe.strategy().scope():
    weight = tf.Variable(0.0)
for step in range(3):
    weight.assign_add(1.0)
    tfe.progress(step + 1)
print("trained", float(weight.numpy()), sys.prefix, tfe.__file__)
""")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = run(venv / "bin/tfe-agent", "--standalone", script, env=environment, timeout=300)
    assert f"trained 3.0 {venv} {packages}/tfe/__init__.py" in done.stdout
    assert "no_standby" not in done.stderr  # the bootstrap was found in share/tfe
    for name in PROGRAMS:
        assert run(venv / "bin" / name, "--version").stdout.startswith(f"{name} {VERSION} (")


@pytest.mark.heavy
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap")
def test_debian_11_trains(wheel, tmp_path):
    """The oldest C library of the tag, with Debian 11's own Python and pip."""
    tree = tmp_path / "debian11"
    run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", "bullseye", tree, timeout=900)
    shutil.copy(wheel, tree / "tmp")
    (tree / "tmp/train.py").write_text("import sys, tfe\ntfe.progress(1)\nprint('trained', sys.prefix)\n")
    steps = f"""set -e
python3 -m venv /venv
/venv/bin/pip install --quiet --no-index /tmp/{wheel.name}
/venv/bin/tfe-agent --standalone /tmp/train.py"""
    run("mount", "--bind", "/proc", tree / "proc")
    try:
        done = run("chroot", tree, "sh", "-c", steps, timeout=300)
    finally:
        run("umount", tree / "proc")
    assert "trained /venv" in done.stdout
    for name in PROGRAMS:
        assert run("chroot", tree, f"/venv/bin/{name}", "--version").stdout.startswith(f"{name} {VERSION} (")
