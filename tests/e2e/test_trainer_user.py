"""--trainer-user: what trainers can and cannot do as another user than the agent, which runs as root."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from agents import TRAINER, fleet, nothing_left  # noqa: F401 (fleet is a fixture)
from conftest import AS_NOBODY, NOBODY, as_root, wait_until
from programs import clean_environment, descendants, program
from test_pool import pool  # noqa: F401 (a fixture)

pytestmark = as_root
HERE = pathlib.Path(__file__).parent
QUICK = ("--gather", "0.3")
AS = ("--trainer-user=nobody", "--log-level=debug")


def ids_of(pid):
    """Returns real, effective, saved and file-system ids of user and group, the other groups, and capabilities."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return [fields["Uid"].split(), fields["Gid"].split(), fields["Groups"].split(), int(fields["CapEff"], 16) | int(fields["CapPrm"], 16)]


IDS = [[str(NOBODY)] * 4, [str(NOBODY)] * 4, [str(NOBODY)], 0]


def folder_of(fleet, folder):
    return pathlib.Path(fleet.starts(folder=folder)[0]["env"]["TFE_SOCKET"]).parent


SECRETS = {"AWS_SECRET_ACCESS_KEY": "x", "DATABASE_URL": "x", "SSH_AUTH_SOCK": "/x", "GITHUB_TOKEN": "x", "PATHS": "x", "MAIL": "/x"}
SHARED = {"TF_CPP_MIN_LOG_LEVEL": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "1", "LC_TIME": "C", "TFE_SET_MINE": "1"}


def test_trainers_and_standbys_are_the_users_and_all_else_is_roots(commons, server, fleet, status):
    """A restart uses a standby, which runs as that user from its first import on; two listening nodes share no port."""
    s = server(*QUICK)
    logs = fleet.folder / "logs"
    agents = [fleet.start("--nnodes=2", "--max-restarts=3", f"--log-dir={logs}/{i}", *AS, trainer=["--listen", "--fork"],
                          folder=commons, env={"XDG_CACHE_HOME": "/root/.cache", "HOME": "/root", **SECRETS, **SHARED})
              for i in range(2)]
    first = fleet.wait_world(2, folder=commons)
    standbys = wait_until(lambda: len(found := [pid for node in status()[0]["nodes"] for pid in node["standby_pids"]]) == 2 and found,
                          what="standbys")
    starts = fleet.starts(first, commons)
    children = wait_until(lambda: len(found := fleet.lines("child", commons)) == 2 and [line["child"] for line in found], what="children")
    for pid in [start["pid"] for start in starts] + standbys + children:
        assert ids_of(pid) == IDS
    wait_until(lambda: len([e for e in s.events("node_listening") if e["epoch"] == first]) == 2, what="LISTENING from both")
    for pid in [pid for agent in agents for pid in (agent.pid, agent.guard_pid)]:
        assert ids_of(pid)[0] == ["0"] * 4
    for pid in standbys:  # a trainer's own environment is what it was given
        entries = dict(e.split("=", 1) for e in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if e)
        assert entries["USER"] == entries["LOGNAME"] == "nobody" and entries["HOME"] != "/root"
        assert not {"XDG_CACHE_HOME", *SECRETS} & set(entries) and SHARED.items() - {("TFE_SET_MINE", "1")} <= entries.items()
        assert not [name for name in entries if name.startswith("TFE_")]
    socket_folder = folder_of(fleet, commons)
    assert (socket_folder.stat().st_uid, socket_folder.stat().st_mode & 0o7777) == (NOBODY, 0o700)
    fleet.order("exit 3", first, 0, folder=commons)
    second = fleet.wait_world(2, above=first, folder=commons)
    assert {start["pid"] for start in fleet.starts(second, commons)} <= set(standbys)
    assert all(ids_of(pid) == IDS for pid in standbys)
    fleet.order("exit 0", folder=commons)
    assert [agent.wait() for agent in agents] == [0, 0]
    assert not socket_folder.exists()
    written = [path for path in logs.rglob("*.stdout")]
    assert len(written) == 4 and all("trainer of epoch" in path.read_text() and path.stat().st_uid == 0 for path in written)


def test_training_code_cannot_reach_token_agent_or_guard(commons, server, fleet, nodes):
    s = server(*QUICK)
    token = shutil.copy(s.state_dir / "agent.token", commons / "token")  # in a folder that this user may enter
    agents = [fleet.start("--nnodes=1:2", f"--token-file={token}", f"--rdzv-endpoint={s.endpoint}", f"--log-dir={commons}/logs", *AS,
                          folder=commons, env={"TFE_STATE_DIR": "/nowhere"},
                          command=[str(HERE / "intruder.py"), str(commons), token, f"{commons}/logs"]) for _ in range(2)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as elsewhere:
        elsewhere.bind(str(commons / "elsewhere"))
        elsewhere.setblocking(False)
        wait_until(lambda: (commons / "tries").exists() and (commons / "beside").exists(), what="both run")
        tries = json.loads((commons / "tries").read_text())
        pid = tries.pop("agent")
        agent, other = sorted(agents, key=lambda a: a.pid != pid)
        wait_until(lambda: "event=script_message_refused" in agent.stderr(), what="its hello, which came before")
        assert nodes()  # the server knows by now that it listens
        other.send(signal.SIGTERM)  # before the node leaves, the script is asked for a checkpoint
        wait_until(lambda: "event=script_gone" in agent.stderr(), what="the script cannot be asked")
        with pytest.raises(BlockingIOError):
            elsewhere.recv(1)
    assert set(tries.values()) == {"PermissionError"} and len(tries) == 4 + 2 * 10, tries
    for each in agents:
        each.send(signal.SIGTERM)


def test_a_script_tells_and_is_asked_over_the_channel(commons, server, fleet):
    """Socket and folder belong to that user, as must the sender; its checkpoints are detected."""
    server(*QUICK)
    talker = str(HERE / "talker.py")
    agent = fleet.start("--nnodes=1:2", *AS, command=[talker, str(commons)], folder=commons)
    other = fleet.start("--nnodes=1:2", f"--checkpoint-dir={commons}/new/model", *AS, folder=commons,
                        command=[talker, str(commons), "--saves", f"{commons}/new/model"])
    first = fleet.wait_world(2, folder=commons)
    wait_until(lambda: {line["pid"] for line in fleet.lines("checkpoint", commons)} & descendants(agent.pid), what="its first word")
    agent.send(signal.SIGTERM)
    wait_until(lambda: fleet.lines("save", commons), what="the script is asked")
    fleet.wait_world(1, above=first, folder=commons)
    assert all("script_message_refused" not in a.stderr() for a in (agent, other))
    fleet.order("exit 0", folder=commons)
    assert other.wait() == 0


@pytest.mark.parametrize("who", ["guard", "agent", "both"])
def test_who_is_killed_leaves_nothing_of_that_user(commons, server, fleet, who):
    server(*QUICK)
    more = ["--double-fork"] if who != "both" else []
    agent = fleet.start("--nnodes=1:1", "--no-standby", *AS, trainer=["--ignore-term", *more], folder=commons)
    first = fleet.wait_world(1, folder=commons)
    wait_until(lambda: not more or fleet.lines("child", commons), what="its child")
    pids, own, guard = descendants(agent.pid), folder_of(fleet, commons), agent.guard_pid
    if who == "both":
        os.kill(guard, signal.SIGSTOP)  # otherwise it may have begun to clean up before it is killed
    if who != "guard":
        agent.send(signal.SIGKILL)
        agent.wait()
    if who != "agent":
        os.kill(guard, signal.SIGKILL)
    assert nothing_left(pids, guard) == []
    if who == "guard":
        again = fleet.wait_world(1, above=first, folder=commons)
        assert ids_of(fleet.starts(again, commons)[0]["pid"]) == IDS
        fleet.order("exit 0", folder=commons)
        assert agent.wait() == 0
    elif who == "both":
        assert own.exists()
        fleet.start("--nnodes=1:1", *AS, folder=commons)
        wait_until(lambda: not own.exists(), what="the next agent removes what that one left")
    assert not own.exists()


def test_groups_are_those_that_the_machine_lists(commons, server, fleet):
    """As initgroups(3) finds them: a GPU's device often requires one of them."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace of its own")
    server(*QUICK)
    groups = commons / "group"
    groups.write_text(pathlib.Path("/etc/group").read_text() + "tfegpu:x:7654:nobody\ntfelab:x:7655:root,nobody\n")
    line = f"mount --bind '{groups}' /etc/group && exec \"$@\""
    agent = fleet.start_program(["unshare", "--mount", "sh", "-c", line, "sh", program("tfe-agent"), "--python", sys.executable,
                                 "--nnodes=1:1", *AS, TRAINER, str(commons)])
    epoch = fleet.wait_world(1, folder=commons)
    assert set(ids_of(fleet.starts(epoch, commons)[0]["pid"])[2]) == {str(NOBODY), "7654", "7655"}
    fleet.order("exit 0", folder=commons)
    assert agent.wait() == 0


def test_a_trainer_can_open_its_stdout_anew(commons, server, fleet):
    server(*QUICK)
    agent = fleet.start("--nnodes=1:1", *AS, "--no-python", command=["sh", "-c", "echo once > /dev/stdout; echo twice > /dev/stderr"],
                        folder=commons)
    assert agent.wait() == 0, agent.stderr()
    assert "once" in agent.stdout() and "twice" in agent.stderr()


def refused(folder, *options, before=(), script=TRAINER, cwd=None, **env):
    done = subprocess.run([*before, program("tfe-agent"), "--python", sys.executable, "--rdzv-endpoint=127.0.0.1:1", *options, script, str(folder)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd or folder, env=clean_environment(**env), timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return re.fullmatch("tfe-agent: --trainer-user: (.*)\n", done.stderr).group(1)


def test_what_cannot_work_is_one_sentence(commons):
    """Reported at once instead of at each start of a trainer."""
    closed = commons / "closed"
    closed.mkdir(0o700)
    shutil.copy(TRAINER, closed / "train.py")
    denied = "permission denied"
    assert refused(commons, "--trainer-user=nobody", before=AS_NOBODY) == "only root can run trainers as another user"
    assert refused(commons, "--trainer-user=nobdy") == 'there is no user "nobdy" on this machine'
    assert refused(commons, "--trainer-user=root") == '"root" is root (name a user without root\'s rights)'
    assert refused(commons, AS[0], script=f"{closed}/train.py") == f'"nobody" cannot read {closed}/train.py: {denied}'
    assert refused(commons, AS[0], cwd=closed) == f'"nobody" cannot enter the working directory, .: {denied}'
    assert refused(commons, AS[0], TMPDIR=str(closed)) == f'"nobody" cannot write into TMPDIR {closed}: {denied}'
    for path in closed, closed / "model", closed / "new/model":
        assert refused(commons, AS[0], f"--checkpoint-dir={path}") == f'"nobody" cannot write into --checkpoint-dir {path}: {denied}'
    for capability, sentence in (("setuid", 'become "nobody": operation not permitted'),
                                 ("sys_ptrace", "without the capability CAP_SYS_PTRACE, the agent cannot see the sockets of processes of "
                                                f"\"nobody\": {denied}")):
        before = ["setpriv", f"--bounding-set=-{capability}", f"--inh-caps=-{capability}"]
        assert refused(commons, AS[0], before=before) == sentence


def test_root_runs_and_loads_nothing_in_the_directory_of_a_job(pool, fleet, commons):
    """A job brings libraries for an LD_LIBRARY_PATH with an empty element, and modules and programs for the owner's command."""
    code, out, command = commons / "code", commons / "out", commons / "command"
    code.mkdir()
    out.mkdir()
    out.chmod(0o777)
    for library in "libsodium.so.23", "libevent_core-2.1.so.7":
        (code / library).write_text("loaded by root")
    command.write_text(f"#!/bin/sh\necho $PPID $(id -u) $(pwd) >> {out}/owner\nexit 1\n")
    command.chmod(0o755)
    pool.start(1, "--trainer-user=nobody", f"--notice=cmd:{command}", "--log-dir=logs", env={"LD_LIBRARY_PATH": ":/usr/local/cuda/lib64"})
    pool.wait_free(1)
    pool.submit("job", f"--bundle={code}", command=["/bin/sh", "-c", f"pwd > {out}/runs; until [ -e {out}/end ]; do sleep 0.1; done"])

    def lines():
        found = [line.split() for line in (out / "owner").read_text().splitlines()] if (out / "owner").exists() else []
        return len({parent for parent, *_ in found}) > 1 and found  # of the pool's agent and of the job's
    found = wait_until(lines, what="the owner's command beside the job")
    assert {tuple(rest) for _, *rest in found} == {("0", str(fleet.folder))}
    assert (out / "runs").read_text().startswith("/tmp/tfe-agent-")
    assert list((fleet.folder / "logs").rglob("*.stdout"))
    (out / "end").touch()
    pool.wait_state("job", "succeeded")
