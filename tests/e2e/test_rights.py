"""Process rights: which processes can read a token, and which rights the server gives up."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from agents import TRAINER, fleet  # noqa: F401 (a fixture)
from conftest import AS_NOBODY, BIN_DIR, NOBODY, ROOT, as_root, clean_environment, program, wait_until
from programs import children
from web import start as start_web

QUICK = ("--gather", "0.3")
IS_SANITIZED = b"__asan_init" in pathlib.Path(program("tfe-rdzv")).read_bytes()


def task_status(pid, field):
    """Returns the field of /proc/PID/task/*/status for each thread of the process."""
    found = [re.search(rf"^{field}:[ \t]*(.*?) *$", (task / "status").read_text(), re.M) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return {match.group(1) for match in found}


def memory_of(pid):
    """Returns all private writable memory of the process."""
    found = b""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            start, end, flags = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if flags.startswith("rw") and int(end, 16) - int(start, 16) < 1 << 26:  # skips a sanitizer's shadow memory
                try:
                    memory.seek(int(start, 16))
                    found += memory.read(int(end, 16) - int(start, 16))
                except OSError:
                    pass
    return found


@as_root
@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_token_is_in_nobodys_sight_once_it_is_read(server, fleet, way):
    """The trainers' environment was clean, but the environment of agent and guard, and the agent's command line, still
    held the token."""
    s = server(*QUICK)
    token = s.token("agent")
    options = [f"--token={token}"] if way == "option" else []
    agent = fleet.start("--nnodes=1:1", f"--rdzv-endpoint={s.endpoint}", *options,
                        env={"TFE_TOKEN": token, "TFE_STATE_DIR": "/nowhere"})
    fleet.wait_world(1)
    text = token.split("_", 2)[2].encode()  # the token may share a prefix with other text
    for pid in (agent.pid, agent.guard_pid):
        for name in ("cmdline", "environ"):
            assert text not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
        assert IS_SANITIZED or text not in memory_of(pid)  # the sanitizer's runtime keeps copies of both
    fleet.order("exit 0")
    assert agent.wait() == 0


@as_root
def test_processes_of_the_same_user_read_no_memory_of_agent_or_guard(server, fleet, commons):
    """An unprivileged agent trains as before: it does not need the right that it gave up."""
    s = server(*QUICK)
    shutil.copy(s.state_dir / "agent.token", commons / "token")
    os.chown(commons / "token", NOBODY, NOBODY)
    agent = fleet.start_program(
        [*AS_NOBODY, program("tfe-agent"), "--python", sys.executable, "--nnodes=1:1", f"--rdzv-endpoint={s.endpoint}",
         f"--token-file={commons}/token", f"--log-dir={commons}/logs", TRAINER, str(commons)],
        env={"TFE_STATE_DIR": "/nowhere", "XDG_RUNTIME_DIR": "", "HOME": str(commons)})
    epoch = fleet.wait_world(1, folder=commons)
    trainer = fleet.starts(epoch, folder=commons)[0]["pid"]
    for pid in () if IS_SANITIZED else (agent.pid, agent.guard_pid):  # the sanitizer has to trace itself
        for name in ("mem", "environ", "maps"):
            read = subprocess.run([*AS_NOBODY, sys.executable, "-c", f"open('/proc/{pid}/{name}', 'rb')"], capture_output=True,
                                  text=True)
            assert "PermissionError" in read.stderr
    assert pathlib.Path(f"/proc/{trainer}/mem").stat().st_uid == NOBODY  # trainers can still be debugged
    fleet.order("exit 0", folder=commons)
    assert agent.wait() == 0, agent.stderr()


@as_root
@pytest.mark.skipif(IS_SANITIZED, reason="it has to trace itself")
def test_what_an_operator_types_is_hidden_too(server):
    token = server(*QUICK).token("admin")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ctl = subprocess.Popen([*AS_NOBODY, program("tfe-ctl"), "status", f"--token={token}",
                                f"--rdzv-endpoint=127.0.0.1:{silent.getsockname()[1]}"], env=clean_environment(),
                               stderr=subprocess.DEVNULL)
        try:
            silent.settimeout(30)
            silent.accept()
            assert token.encode() not in pathlib.Path(f"/proc/{ctl.pid}/cmdline").read_bytes()
            for name in ("mem", "environ"):
                read = subprocess.run([*AS_NOBODY, sys.executable, "-c", f"open('/proc/{ctl.pid}/{name}', 'rb')"],
                                      capture_output=True, text=True)
                assert "PermissionError" in read.stderr
        finally:
            ctl.kill()
            ctl.wait()


@pytest.mark.parametrize("name, mode, owner, sentence", [
    (".", 0o755, 0, "other users can read or change {} (chmod 700 it)"),
    ("server.key", 0o640, NOBODY, "{} belongs to another user with uid 65534 (chown it to uid 0)"),
    ("server.key", 0o644, 0, "other users can read or change {} (chmod 600 it)"),
    ("admin.token", 0o604, 0, "other users can read or change {} (chmod 600 it)")])
def test_a_server_does_not_start_on_secrets_that_others_hold(server, state_dir, name, mode, owner, sentence):
    if owner and os.geteuid() != 0:
        pytest.skip("needs root")
    server().stop()
    path = state_dir / name
    path.chmod(mode)
    if owner:
        os.chown(path, owner, owner)
    s = server(ready=False)
    assert s.process.wait(30) == 1
    said = s.log.read_text().splitlines()[-1]
    assert said == "tfe-rdzv: " + sentence.format(path if name != "." else state_dir)
    os.chown(path, os.geteuid(), os.getegid())
    path.chmod(0o700 if name == "." else 0o600)
    server()


def test_the_servers_key_may_be_lent_by_the_service_manager(server, fleet, ctl, state_dir, tmp_path):
    """As with systemd's LoadCredential: the key is used and never written, and the state directory has none."""
    s = server(*QUICK)
    token, lent = s.token("agent"), tmp_path / "lent"
    s.stop()
    lent.mkdir(mode=0o700)
    (state_dir / "server.key").rename(lent / "server.key")
    (lent / "server.key").chmod(0o400)
    whole, env = (lent / "server.key").read_bytes(), {"CREDENTIALS_DIRECTORY": str(lent)}
    s = server(*QUICK, env=env)
    assert s.token("agent") == token and not s.events("token_file_replaced")
    agent = fleet.start("--nnodes=1:1")
    fleet.wait_world(1)
    for step in ([], ["--install"]):
        done = ctl("token", "rotate", *step)
        assert done.returncode == 2 and "server.key is a credential of the service manager" in done.stderr
    assert (lent / "server.key").read_bytes() == whole and not (state_dir / "server.key").exists()
    fleet.order("exit 0")
    assert agent.wait() == 0
    s.stop()
    (lent / "server.key").chmod(0o444)
    s = server(ready=False, env=env)
    assert s.process.wait(30) == 1 and f"other users can read or change {lent}/server.key" in s.log.read_text()
    (lent / "server.key").unlink()  # credentials of other programs are ignored
    s = server(env=env)
    assert (state_dir / "server.key").exists() and s.token("agent") != token


# --- the server's own rights ---


def test_every_thread_of_the_server_is_in_the_sandbox(server, fleet):
    s = server(*QUICK)
    agent = fleet.start("--nnodes=1:1")
    fleet.wait_world(1)
    if not IS_SANITIZED:
        assert len(list(pathlib.Path(f"/proc/{s.pid}/task").iterdir())) > 1
        assert task_status(s.pid, "Seccomp") == {"2"} and task_status(s.pid, "NoNewPrivs") == {"1"}
    fleet.order("exit 0")
    assert agent.wait() == 0


@as_root
def test_a_server_that_stays_root_has_no_capabilities(server, fleet, ctl):
    s = server(*QUICK, "--user=root")
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert task_status(s.pid, field) == {"0" * 16}, field
    agent = fleet.start("--nnodes=1:1")
    fleet.wait_world(1)
    assert ctl("backup", "copy").returncode == 0
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_no_sandbox_goes_without(server):
    assert task_status(server("--no-sandbox").pid, "NoNewPrivs") == {"0"}


@as_root
def test_root_becomes_the_user_before_anything_is_accepted(server, fleet, ctl, commons):
    commons.chmod(0o755)  # only root can create the state directory there
    state = commons / "state"
    s = server("--user", "nobody", *QUICK, state_dir=state)
    for field in ("Uid", "Gid"):
        assert {tuple(value.split()) for value in task_status(s.pid, field)} == {(str(NOBODY),) * 4}
    assert task_status(s.pid, "Groups") == {""} and task_status(s.pid, "CapEff") == {"0" * 16}
    assert {path.stat().st_uid for path in [state, *state.iterdir()]} == {NOBODY}
    assert os.readlink(f"/proc/{s.pid}/cwd") == "/"
    agent = fleet.start("--nnodes=1:1", f"--state-dir={state}")
    fleet.wait_world(1)
    assert ctl("backup", "copy", state_dir=state).returncode == 0
    fleet.order("exit 0")
    assert agent.wait() == 0
    s.stop()
    server("--user", "nobody", *QUICK, state_dir=state).stop()
    root = server(*QUICK, state_dir=state, ready=False)  # a server run by root does not take over another user's directory
    assert root.process.wait(30) == 1 and f"{state} belongs to another user" in root.log.read_text()


@as_root
def test_a_server_of_root_says_so_and_an_unknown_user_stops_it(server, state_dir):
    s = server("--user", "no-such-user", ready=False)
    assert s.process.wait(30) == 1 and 'there is no user "no-such-user"' in s.log.read_text()
    assert not state_dir.exists()
    if subprocess.run(["getent", "passwd", "tfe"], capture_output=True).returncode != 0:
        assert len(server().events("runs_as_root")) == 1


# --- as a service ---


def test_systemd_is_told_when_it_is_ready_that_it_turns_and_that_it_stops(server, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        s = server(env={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"})
        assert [manager.recv(100) for _ in range(4)] == [b"READY=1"] + 3 * [b"WATCHDOG=1"]
        s.process.send_signal(signal.SIGTERM)
        while (word := manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert word == b"STOPPING=1"
        assert s.process.wait(20) == 0


def test_systemd_is_told_the_same_of_an_agent_and_its_trainers_know_of_neither(server, fleet, tmp_path):
    """Readiness does not require a server, because waiting for one is the agent's work."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        between = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000", "CREDENTIALS_DIRECTORY": str(tmp_path)}
        s = server(*QUICK)
        s.stop()
        agent = fleet.start("--nnodes=1:1", "--no-standby", "--no-hooks", f"--rdzv-endpoint={s.endpoint}", env=between)
        assert [manager.recv(100) for _ in range(4)] == [b"READY=1"] + 3 * [b"WATCHDOG=1"]
        server(*QUICK, port=s.port)
        trainer = fleet.starts(fleet.wait_world(1))[0]["pid"]
        names = {entry.partition("=")[0] for entry in pathlib.Path(f"/proc/{trainer}/environ").read_text().split("\0")}
        assert "TFE_EPOCH" in names and not names & set(between)
        agent.send(signal.SIGSTOP)
        manager.settimeout(0.5)
        with pytest.raises(TimeoutError):
            while manager.recv(100):
                pass
        agent.send(signal.SIGCONT)
        manager.settimeout(20)
        fleet.order("exit 0")
        while (word := manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert word == b"STOPPING=1" and agent.wait() == 0


# Training needs root (to start trainers of another user), devices, home directories, writable and executable memory and
# control groups: that is most of the agent's 3.6.
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze(1)")
@pytest.mark.parametrize("template, exposure", [("server/tfe-rdzv", 1.2), ("server/web/tfe-web", 1.2), ("agent/tfe-agent", 3.6)])
def test_a_unit_leaves_its_service_little(tmp_path, template, exposure):
    unit = tmp_path / f"{pathlib.Path(template).name}.service"
    unit.write_text((ROOT / f"{template}.service.in").read_text().replace("@CMAKE_INSTALL_FULL_BINDIR@", str(BIN_DIR)))
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "gnoring" not in done.stderr  # systemd knows all settings
    assert float(re.search(r"Overall exposure level.*: ([0-9.]+)", done.stdout).group(1)) <= exposure


def test_the_servers_unit_takes_its_key_as_a_credential_where_there_is_one():
    """By name instead of path: a unit with a missing path does not start."""
    assert "\nLoadCredential=server.key:tfe-rdzv.server.key\n" in (ROOT / "server/tfe-rdzv.service.in").read_text()


def test_the_agents_unit_lets_its_guard_end_the_trainers():
    """SIGTERM goes only to the agent, and its requirements are watchdog, credential and cgroup."""
    text = (ROOT / "agent/tfe-agent.service.in").read_text()
    for line in ("Type=notify", "KillMode=mixed", "OOMPolicy=continue", "Delegate=yes", "WatchdogSec=30s",
                 "LoadCredential=agent.token:/etc/tfe/agent.token"):
        assert f"\n{line}\n" in text
    for capability in ("SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE", "SYS_PTRACE"):
        assert re.search(f"^CapabilityBoundingSet=.*CAP_{capability}\\b", text, re.M)


@as_root
@pytest.mark.skipif(IS_SANITIZED or not shutil.which("systemd-analyze"), reason="needs systemd-analyze(1), and no sanitizer")
def test_the_agent_works_with_what_its_unit_leaves_it(commons, server, fleet):
    """A call that is refused here would be refused under systemd."""
    s = server(*QUICK)
    confined = [sys.executable, str(ROOT / "tests/e2e/confined.py"), str(ROOT / "agent/tfe-agent.service.in")]
    agent = fleet.start_program([*confined, program("tfe-agent"), "--python", sys.executable, "--nnodes=1:1", "--max-restarts=3",
                                 "--trainer-user=nobody", TRAINER, str(commons), "--listen", "--fork"])
    epoch = fleet.wait_world(1, folder=commons)
    pid = fleet.starts(epoch, commons)[0]["pid"]
    wait_until(lambda: s.events("node_listening"), what="LISTENING")
    assert task_status(agent.pid, "Seccomp") == {"2"} == task_status(pid, "Seccomp")
    assert task_status(pid, "CapEff") == {"0" * 16} and task_status(pid, "CapBnd") == task_status(agent.pid, "CapEff")
    fleet.order("exit 3", epoch, 0, folder=commons)
    fleet.wait_world(1, above=epoch, folder=commons)
    fleet.order("exit 0", folder=commons)
    assert agent.wait() == 0, agent.stderr()


# --- the rights of tfe-web ---


def web_processes(web):
    """Returns tfe-web's main process and the one that reads its token."""
    reader, = children(web.pid, "tfe-web-token")
    return web.pid, reader


def has_no_rights(pid):
    assert {task_status(pid, f"Cap{kind}") == {"0" * 16} for kind in ("Eff", "Prm", "Inh", "Amb")} == {True}


def test_web_keeps_no_rights_and_serves_still(server, state_dir, tmp_path):
    s = server()
    with start_web(state_dir, tmp_path) as web:
        for pid in web_processes(web):
            has_no_rights(pid)
        if not IS_SANITIZED:
            assert task_status(web.pid, "Seccomp") == {"2"} and task_status(web.pid, "NoNewPrivs") == {"1"}
        assert web.login(s.token("admin")).code == 200
        assert web.gauges()["process_open_fds"] > 3 and web.gauges()["process_resident_memory_bytes"] > 1 << 20
        with socket.create_connection(("127.0.0.1", web.port)) as page:
            page.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert page.recv(100).startswith(b"HTTP/1.1 200 ")
        os.kill(web_processes(web)[1], signal.SIGKILL)  # it continues to serve, but cannot read its token again
        assert web.ask("/api/v1/jobs").code == 200
    with start_web(state_dir, tmp_path, "--no-sandbox") as web:
        assert task_status(web.pid, "NoNewPrivs") == {"0"}
        has_no_rights(web.pid)


@as_root
def test_root_s_web_becomes_its_user_after_it_has_read_its_files(server, state_dir, tmp_path, ctl):
    """It has read the files that only root can read by then; it can no longer read the server's key."""
    s = server()
    with start_web(state_dir, tmp_path, "--user=nobody") as web:
        for pid in web_processes(web):
            assert task_status(pid, "Uid") == {"\t".join([str(NOBODY)] * 4)} and task_status(pid, "Groups") == {""}
            has_no_rights(pid)
        assert web.ask("/api/v1/jobs").code == 200
    for words, said in ((["--user=no-such-user"], "there is no user"), (["--user="], None)):
        with contextlib.ExitStack() as stack:
            if said:
                done = subprocess.run([program("tfe-web"), "--state-dir", str(state_dir), "--port=0", *words], capture_output=True, text=True, timeout=60)
                assert done.returncode == 2 and said in done.stderr
            else:
                web = stack.enter_context(start_web(state_dir, tmp_path, *words))
                has_no_rights(web.pid)
    assert s.stop() == 0


def test_tls_key_that_others_can_open_is_refused(server, state_dir, tmp_path):
    server()
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    for mode in (0o644, 0o660, 0o604, 0o602):
        key.chmod(mode)
        done = subprocess.run([program("tfe-web"), "--state-dir", str(state_dir), "--port=0", f"--tls-cert={cert}", f"--tls-key={key}"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "other users can read it" in done.stderr
    key.chmod(0o640)  # readable by a group for certificates
    with start_web(state_dir, tmp_path, f"--tls-cert={cert}", f"--tls-key={key}"):
        pass


@as_root
@pytest.mark.skipif(IS_SANITIZED or not shutil.which("systemd-analyze"), reason="needs systemd-analyze(1), and no sanitizer")
def test_web_works_with_what_its_unit_leaves_it(server, state_dir, tmp_path):
    """A call that is refused here would be refused under systemd."""
    server()
    confined = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, str(ROOT / "tests/e2e/confined.py"),
                str(ROOT / "server/web/tfe-web.service.in")]
    with start_web(state_dir, tmp_path, wrapper=confined) as web:
        wait_until(lambda: web.ask("/readyz").code == 200, what="an answer of the server")
        has_no_rights(web.pid)


def test_the_web_s_unit_has_a_user_of_its_own_and_is_lent_its_token():
    text = (ROOT / "server/web/tfe-web.service.in").read_text()
    for line in ("User=tfe-web", "Group=tfe-web", "LoadCredential=observer.token:/var/lib/tfe/observer.token"):
        assert f"\n{line}\n" in text
