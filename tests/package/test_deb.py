"""The Debian packages: lintian, and their life in a system that boots (systemd-nspawn): install, train, upgrade, remove, purge."""
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import FULL, OUT, debian12, package, run

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(not FULL, reason="builds packages and boots a system: TFE_TEST_FULL"),
              pytest.mark.skipif(os.getuid() != 0, reason="needs root")]

TRAINER = """
import os, time, tfe
for step in range(1, 100000):
    tfe.progress(step)
    with open("/srv/steps", "a") as file:
        file.write(f"{os.getpid()} {step}\\n")
    time.sleep(0.1)
"""

# Runs in the booted system; the last line of /root/log says how far it came.
LIFE = """#!/bin/bash
exec >/root/log 2>&1
set -ex
trap 'journalctl --no-pager -n 60 -u tfe-rdzv -u tfe-agent; systemctl --no-block poweroff' EXIT
comes() { { set +x; } 2>/dev/null; local n=0; until "$@" || [ $((n += 1)) = 300 ]; do sleep 0.1; done; set -x; "$@"; }
steps() { [ "$(wc -l </srv/steps)" -ge "$1" ]; }

dpkg -i /root/old/*.deb
systemctl start tfe-rdzv
comes test -s /var/lib/tfe/agent.token
mkdir -p /etc/tfe
install -m 600 /var/lib/tfe/agent.token /etc/tfe/agent.token
printf 'TFE_RDZV_ENDPOINT=127.0.0.1:5556\\nTFE_NNODES=1:1\\nTRAINING=/srv/train.py\\n' >/etc/tfe/agent.env
touch /srv/steps && chmod 666 /srv/steps
systemctl start tfe-agent
comes steps 10
server=$(systemctl show -P MainPID tfe-rdzv)

dpkg -i /root/new/*.deb
[ "$(systemctl show -P MainPID tfe-rdzv)" != "$server" ]
systemctl is-active tfe-rdzv tfe-agent
seen=$(wc -l </srv/steps)
comes steps $((seen + 20))
[ "$(cut -d' ' -f1 /srv/steps | sort -u | wc -l)" = 1 ]
sleep 2
tfe-ctl status --json
tfe-ctl epochs --csv default
[ "$(tfe-ctl epochs --csv default | wc -l)" = 2 ]
systemd-analyze security tfe-rdzv tfe-web tfe-agent --no-pager | grep 'Overall exposure' || true

systemctl stop tfe-agent
dpkg --remove tfe-agent tfe-rdzv python3-tf-elastic
test -e /var/lib/tfe
dpkg --purge tfe-agent tfe-rdzv python3-tf-elastic
! find /etc /usr /lib /var /run -name '*tfe*' -not -path '/run/systemd/*' -not -path '/var/log/*' | grep .
! getent passwd tfe tfe-web tfe-train
: finished
"""


@pytest.fixture(scope="module")
def debs():
    package("deb")
    return sorted((OUT / "deb").glob("*.deb"))


def test_lintian_finds_no_error(debs):
    if not shutil.which("lintian"):
        pytest.skip("needs lintian")
    done = run("lintian", "--allow-root", "--fail-on", "error", *debs, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def newer(debs, folder):
    """The same packages with a higher version."""
    folder.mkdir()
    for deb in debs:
        tree = folder / "tree"
        run("dpkg-deb", "-R", deb, tree)
        control = tree / "DEBIAN/control"
        lines = [f"{line}+1" if line.startswith("Version: ") else line for line in control.read_text().splitlines()]
        control.write_text("\n".join(lines) + "\n")
        run("dpkg-deb", "--root-owner-group", "-b", tree, folder / deb.name)
        shutil.rmtree(tree)


def test_life_in_a_booted_system(debs, tmp_path):
    if not shutil.which("systemd-nspawn") or not shutil.which("debootstrap"):
        pytest.skip("needs systemd-nspawn and debootstrap")
    tree = tmp_path / "root"
    run("cp", "-a", f"{debian12()}/.", tree, timeout=300)
    (tree / "root/old").mkdir()
    for deb in debs:
        shutil.copy(deb, tree / "root/old")
    newer(debs, tree / "root/new")
    (tree / "srv/train.py").write_text(TRAINER)
    (tree / "root/life").write_text(LIFE)
    (tree / "root/life").chmod(0o755)
    unit = "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/root/life\nTimeoutStartSec=240\n"
    (tree / "etc/systemd/system/life.service").write_text(unit)
    wants = tree / "etc/systemd/system/default.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "life.service").symlink_to("../life.service")
    done = subprocess.run(["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--boot", "-D", tree],
                          capture_output=True, text=True, timeout=400, stdin=subprocess.DEVNULL)
    log = tree / "root/log"
    if not log.exists():
        pytest.skip(f"systemd does not boot in a container here: {(done.stdout + done.stderr)[-300:]}")
    text = log.read_text()
    print(text)
    assert text.splitlines()[-1].endswith(": finished") or ": finished" in text, text[-3000:]


def test_no_file_belongs_to_two_packages(debs):
    seen = {}
    for deb in debs:
        for line in run("dpkg-deb", "-c", deb).stdout.splitlines():
            name = line.split()[5]
            if not name.endswith("/"):
                assert name not in seen, (name, seen.get(name), deb)
                seen[name] = pathlib.Path(deb).name
    assert "./usr/share/tfe/python/tfe_bootstrap.py" in seen
    assert "./usr/lib/python3/dist-packages/tfe/__init__.py" in seen
