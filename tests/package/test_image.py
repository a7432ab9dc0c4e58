"""The images, built on a Debian 12 from debootstrap, because no base image can be pulled here. Programs run by buildah's chroot
isolation, which works where containers may not be created."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import FULL, OUT, VERSION, debian12, package, run

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(not FULL, reason="builds images: TFE_TEST_FULL"),
              pytest.mark.skipif(os.getuid() != 0 or not all(map(shutil.which, ("podman", "buildah", "debootstrap"))),
                                 reason="needs root, podman, buildah and debootstrap")]

ISOLATION = {**os.environ, "BUILDAH_ISOLATION": "chroot"}


@pytest.fixture(scope="module", autouse=True)
def images():
    name = "localhost/tfe-test-debian:12"
    tree = subprocess.Popen(["tar", "-C", debian12(), "-c", "."], stdout=subprocess.PIPE)
    subprocess.run(["podman", "import", "-", name], stdin=tree.stdout, check=True, capture_output=True, timeout=300)
    tree.wait()
    os.environ.update(BASE=name, BUILDAH_ISOLATION="chroot")
    package("image")
    yield
    run("podman", "rmi", "--force", name, f"tfe-server:{VERSION}", "tfe-server", f"tfe-agent:{VERSION}", "tfe-agent", check=False)


@pytest.fixture
def container():
    """Starts a container of an image; returns what runs a command in it."""
    names = []

    def start(image):
        names.append(run("buildah", "from", "--pull-never", image).stdout.strip())
        return ["buildah", "run", "--isolation=chroot", names[-1], "--"]

    yield start
    for name in names:
        run("buildah", "rm", name, check=False)


def test_images_are_small_and_not_root():
    for name, most in (("server", 20 << 20), ("agent", 8 << 20)):
        assert (OUT / "image" / f"tfe-{name}-{VERSION}.tar").stat().st_size <= most
        shown = run("podman", "image", "inspect", "--format", "{{.Config.User}} {{.Config.Healthcheck}}", f"tfe-{name}").stdout
        assert shown.startswith("65532:65532 ")
        assert ("tfe-ctl" in shown) == (name == "server")


def test_server_image_is_healthy(container):
    inside = container(f"localhost/tfe-server:{VERSION}")
    server = subprocess.Popen([*inside, "/usr/bin/tfe-rdzv", "--state-dir=/var/lib/tfe", "--port=0", "--bind=127.0.0.1"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        first = server.stdout.readline()
        assert first, "the server ended"
        check = [*inside, "/usr/bin/tfe-ctl", "version", "--state-dir=/var/lib/tfe"]
        deadline = time.monotonic() + 30
        while (done := run(*check, check=False)).returncode != 0 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert re.search(rf"^server +version={re.escape(VERSION)},", done.stdout, re.M), done.stdout + done.stderr
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def test_agent_image_adds_the_agent_to_an_image_with_python(tmp_path):
    (tmp_path / "Containerfile").write_text(f"FROM {os.environ['BASE']}\nCOPY --from=localhost/tfe-agent:{VERSION} /usr /usr\nCOPY train.py /\n"
                                            "RUN tfe-agent --standalone /train.py\n")
    (tmp_path / "train.py").write_text("import os\nprint('trained', os.environ['TF_CONFIG'])\n")
    done = run("podman", "build", "--isolation=chroot", "--pull-never", tmp_path, timeout=300, check=False)
    assert done.returncode == 0 and "trained {" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
