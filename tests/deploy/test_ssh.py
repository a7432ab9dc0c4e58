"""scripts/deploy/ssh/tfe-up on three hosts: real sshd on 127.0.0.2 to 127.0.0.4."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import DEPLOY, PYTHON, wait_for

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
pytestmark = pytest.mark.skipif(not os.path.exists(SSHD) or not shutil.which("ssh"), reason="needs sshd and ssh")
HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


def free_port(address="127.0.0.1"):
    with socket.socket() as s:
        s.bind((address, 0))
        return s.getsockname()[1]


@pytest.fixture
def hosts(tmp_path):
    """Options of ssh for three sshd of this user."""
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    for name in "host", "user":
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    shutil.copy(keys / "user.pub", keys / "authorized")
    port = free_port(HOSTS[0])
    pathlib.Path("/run/sshd").mkdir(exist_ok=True) if os.geteuid() == 0 else None
    started = []
    for host in HOSTS:
        config = keys / f"sshd.{host}"
        config.write_text(f"ListenAddress {host}\nPort {port}\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\n"
                          f"PidFile {keys}/{host}.pid\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n")
        started.append(subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=subprocess.DEVNULL))
    for host in HOSTS:
        wait_for("sshd", lambda host=host: socket.socket().connect_ex((host, port)) == 0)
    yield f"-F none -i {keys}/user -p {port} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    for one in started:
        one.send_signal(signal.SIGTERM)
        one.wait()


def test_three_hosts_come_up_train_and_leave_nothing(hosts, prefix, tmp_path, run):
    if os.path.isdir("/run/systemd/system") and os.geteuid() == 0:
        pytest.skip("this machine runs systemd: units would be installed")
    base = tmp_path / "fleet"
    rdzv = free_port("0.0.0.0")
    up = [PYTHON, DEPLOY / "ssh/tfe-up", f"--from={prefix}", f"--dir={base}", f"--port={rdzv}", f"--local={tmp_path}/local", f"--ssh={hosts}"]
    began = time.monotonic()
    try:
        said = run(*up, "--agent=--label zone=a", *HOSTS)
        seconds = time.monotonic() - began
        assert "3 hosts are in the pool" in said
        print(f"from nothing to three nodes in the pool: {seconds:.1f} s")
        assert sorted(path.name for path in base.iterdir()) == HOSTS
        for host in HOSTS:
            assert (base / host / "state/join.token").stat().st_mode & 0o077 == 0
        env = {"TFE_RDZV_ENDPOINT": f"{HOSTS[0]}:{rdzv}", "TFE_TOKEN_FILE": f"{tmp_path}/local/admin.token"}
        ctl = prefix / "bin/tfe-ctl"
        code = tmp_path / "code"
        code.mkdir()
        (code / "train.py").write_text(f"""import os, pathlib, time
base = pathlib.Path("{tmp_path}")
(base / ("rank" + os.environ["TFE_RANK"])).touch()
while len(list(base.glob("rank*"))) < 3:
    time.sleep(0.1)
""")
        run(ctl, "submit", "--wait", "--timeout=3m", "--name=job", "--workers=3:3", f"--bundle={code}", "--", PYTHON, "train.py", env=env)
        assert sorted(path.name for path in tmp_path.glob("rank*")) == ["rank0", "rank1", "rank2"]
        # A host that is started again comes back without the others being touched.
        run(*up, *HOSTS)
        assert run(*up, "--status", *HOSTS).count("running, process") == 4
    finally:
        assert "nothing is left" in run(*up, "--down", *HOSTS)
    assert not [path for path in base.iterdir()]
    assert str(base).encode() not in b"".join(p.read_bytes() for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if os.access(p, os.R_OK))


def test_host_that_is_not_reached_is_named(hosts, prefix, tmp_path, run):
    done = subprocess.run([PYTHON, DEPLOY / "ssh/tfe-up", f"--from={prefix}", f"--dir={tmp_path}/fleet", f"--local={tmp_path}/local",
                           f"--ssh={hosts}", HOSTS[0], "127.0.0.77"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "tfe-up: 127.0.0.77: " in done.stderr and "refused" in done.stderr
