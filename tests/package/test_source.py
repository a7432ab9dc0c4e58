"""The source tarball and the version of the project."""
import re
import subprocess
import sys
import tarfile

import pytest
from conftest import FULL, ROOT, VERSION, package, run


def test_version_is_the_same_everywhere():
    assert f'version = "{VERSION}"' in (ROOT / "agent/python/pyproject.toml").read_text()
    assert re.match(rf"tf-elastic \({re.escape(VERSION)}\) ", (ROOT / "debian/changelog").read_text())


def test_same_commit_gives_the_same_tarball(source):
    first = source.read_bytes()
    assert package("source") and source.read_bytes() == first


def test_tarball_is_an_sdist_and_knows_its_commit(source):
    commit = run("git", "-C", ROOT, "rev-parse", "HEAD").stdout.strip()
    with tarfile.open(source) as archive:
        prefix = f"tf_elastic-{VERSION}"
        text = archive.extractfile(f"{prefix}/PKG-INFO").read().decode()
        assert "\nName: tf-elastic\n" in text and f"\nVersion: {VERSION}\n" in text
        assert archive.extractfile(f"{prefix}/scripts/cmake/commit.txt").read().decode().strip() == commit
        assert f"{prefix}/pyproject.toml" in archive.getnames()


def test_unpacked_tarball_builds_programs_that_show_the_commit(source, tmp_path):
    commit = run("git", "-C", ROOT, "rev-parse", "HEAD").stdout.strip()
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path)
    tree = tmp_path / f"tf_elastic-{VERSION}"
    run("cmake", f"-DSOURCE={tree}", f"-DOUT={tmp_path}/commit.c", "-P", tree / "scripts/cmake/Commit.cmake")
    assert f'"{commit[:12]}"' in (tmp_path / "commit.c").read_text()


@pytest.mark.heavy
@pytest.mark.skipif(not FULL, reason="builds the programs once more: TFE_TEST_FULL")
def test_pip_builds_the_sdist(source, tmp_path):
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target", tmp_path / "target", source, timeout=1800)
    done = subprocess.run([tmp_path / "target/bin/tfe-ctl", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(f"tfe-ctl {VERSION} (")
