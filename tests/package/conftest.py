"""Packages as users install them. The static build takes minutes: without TFE_TEST_FULL, tests that need it use the last one in
build/package, or are skipped by name."""
import os
import pathlib
import platform
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "package"
FULL = bool(os.environ.get("TFE_TEST_FULL"))
VERSION = re.search(r"^project\(tfe VERSION ([\d.]+) ", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
PROGRAMS = ("tfe-agent", "tfe-ctl", "tfe-rdzv", "tfe-web")


def run(*command, timeout=120, check=True, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, **options)
    if check and done.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def package(*words, timeout=3000):
    return run(ROOT / "scripts/package.sh", *words, timeout=timeout).stdout


def debian12():
    """The folder of a Debian 12 with systemd, Python, and the libraries that the Debian packages depend on."""
    base = OUT / "cache" / "debian12"
    if not (base / "sbin/init").exists():
        include = ("systemd,systemd-sysv,dbus,python3,libevent-core-2.1-7,libevent-extra-2.1-7,libevent-openssl-2.1-7,libsodium23,"
                   "libprotobuf-c1,libjansson4,libpcre2-8-0,libyaml-0-2,libsqlite3-0,libseccomp2,libncursesw6,libssl3,libzstd1")
        run("debootstrap", "--variant=minbase", f"--include={include}", "bookworm", base, timeout=1200)
    return base


@pytest.fixture(scope="session")
def wheel():
    """The path of a wheel with static programs."""
    built = OUT / "static" / platform.machine() / "bin"
    if not FULL and not all((built / name).exists() for name in PROGRAMS):
        pytest.skip("there is no static build in build/package (scripts/package.sh wheel makes one)")
    if FULL:
        package("wheel")
    else:
        run("/usr/bin/python3", ROOT / "scripts/package/wheel.py", built.parent, OUT / "wheel", f"manylinux_2_31_{platform.machine()}")
    return next((OUT / "wheel").glob("*.whl"))


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """The path of the source tarball."""
    if run("git", "-C", ROOT, "rev-parse", "HEAD", check=False).returncode != 0:
        pytest.skip("this is not a git checkout")
    return pathlib.Path(package("source").split()[-1])
