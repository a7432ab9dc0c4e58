"""Build backend for pip: "pip install ." in a checkout, or of the source tarball, builds the programs with the libraries of
this system. scripts/package.sh wheel makes the wheel that runs on other systems."""
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from wheel import ROOT, version, write_wheel  # noqa: E402


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        build, tree = os.path.join(folder, "build"), os.path.join(folder, "tree")
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DTFE_TESTS=OFF"], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "tfe-rdzv", "tfe-agent", "tfe-ctl", "tfe-web"], check=True)
        subprocess.run(["cmake", "--install", build, "--prefix", tree, "--strip"], check=True)
        return write_wheel(tree, wheel_directory, sysconfig.get_platform().replace("-", "_").replace(".", "_")).name


def build_sdist(sdist_directory, config_settings=None):
    subprocess.run([ROOT / "scripts/package.sh", "source"], check=True)
    name = f"tf_elastic-{version()}.tar.gz"
    os.replace(ROOT / "build/package/source" / name, pathlib.Path(sdist_directory) / name)
    return name
