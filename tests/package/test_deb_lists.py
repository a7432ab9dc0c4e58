"""debian/*.install against what cmake installs: dh_missing ends the build of the packages for a file that no list names."""
import fnmatch
import os

import pytest
from conftest import ROOT, run

# Removed by debian/rules, because the package's copyright file and metadata take their place.
REMOVED = {"usr/share/tfe/python/pyproject.toml", "usr/share/doc/tfe/LICENSE"}


@pytest.fixture
def installed(tmp_path):
    if not (ROOT / "build/default/cmake_install.cmake").exists():
        pytest.skip("the programs are not built in build/default")
    run("cmake", "--install", ROOT / "build/default", "--prefix", "/usr", env={**os.environ, "DESTDIR": str(tmp_path)})
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())


def test_each_installed_file_belongs_to_one_package(installed):
    lines = [(path.name, line.split()[0]) for path in (ROOT / "debian").glob("*.install") for line in path.read_text().splitlines()]
    for name in installed:
        owners = [package for package, pattern in lines if fnmatch.fnmatch(name, pattern) or name.startswith(pattern + "/")]
        assert len(owners) == 1 or name in REMOVED, f"{name}: {owners or 'in no package'}"
    for package, pattern in lines:
        assert any(fnmatch.fnmatch(name, pattern) or name.startswith(pattern + "/") for name in installed), f"{package}: {pattern}"
