"""--runtime: jobs that run in their image, by a real podman (or docker): the agent and its trainers are one container,
which runs as the trainers' user from its first process on."""

import io
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tarfile

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import NOBODY, as_root, wait_until
from programs import children, clean_environment, is_alive, program
from test_pool import pool  # noqa: F401 (a fixture)
from test_words import read_terminal

pytestmark = as_root
HERE = pathlib.Path(__file__).parent
IMAGE = "localhost/tfe-test:1"
BUSYBOX = pathlib.Path("/bin/busybox")
APPLETS = ["sh", "cat", "id", "ls", "env", "grep", "sleep", "mv", "touch", "kill", "ps", "mkdir"]
# Folders that an image needs to run the machine's own Python.
PLACES = ["/usr", *(path for path in {str(pathlib.Path(sys.prefix)), str(pathlib.Path(sys.executable).resolve().parents[1]), str(HERE)}
                    if not path.startswith("/usr"))]
# Without CAP_SYS_RESOURCE limits cannot be raised, and crun does not support hybrid control groups: a mount namespace
# hides them.
MODEST = ["--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]
OTHER_GROUPS = "umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && "


class Podman:
    """podman with its own images and containers, below a folder."""

    def __init__(self, folder, in_namespace=False, options=()):
        self.home = folder / "engine"
        (self.home / "bin").mkdir(parents=True)
        self.options = list(options)
        storage = self.home / "storage.conf"
        storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{self.home}/graph"\nrunroot = "{self.home}/run"\n')
        wrapper = self.home / "bin" / "podman"
        shell = f"unshare --mount sh -c '{OTHER_GROUPS}exec {shutil.which('podman')} \"$@\"' podman" if in_namespace else shutil.which("podman")
        wrapper.write_text(f'#!/bin/sh\nexec {shell} "$@"\n')
        wrapper.chmod(0o755)
        self.env = {"CONTAINERS_STORAGE_CONF": str(storage), "PATH": f"{self.home}/bin:{os.environ['PATH']}"}

    def call(self, *words, **more):
        return subprocess.run(["podman", *words], env={**os.environ, **self.env}, capture_output=True, timeout=120, **more)

    def image(self, *members, name=IMAGE, changes=()):
        """Builds an image. members: (path, mode, bytes), or a path and its link target; busybox is included."""
        tree = io.BytesIO()
        files = {path: what for path, *what in [
            ("bin/busybox", 0o755, BUSYBOX.read_bytes()), *((f"bin/{one}", "busybox") for one in APPLETS),
            ("etc/passwd", 0o644, b"root:x:0:0::/:/bin/sh\n"), ("etc/tfe-image", 0o644, b"an image\n"), *members]}
        with tarfile.open(fileobj=tree, mode="w") as tar:
            for path, what in files.items():
                info = tarfile.TarInfo(path)
                if len(what) == 1:
                    info.type, info.linkname = tarfile.SYMTYPE, what[0]
                    tar.addfile(info)
                else:
                    info.mode, info.size = what[0], len(what[1])
                    tar.addfile(info, io.BytesIO(what[1]))
        done = self.call("import", *[word for change in changes for word in ("--change", change)], "-", name, input=tree.getvalue())
        assert done.returncode == 0, done.stderr

    def annotate(self, annotation):
        """Adds an annotation to the image, which engines pass on to their runtime."""
        (self.home / "Containerfile").write_text(f"FROM {IMAGE}\n")
        done = self.call("build", "--isolation=chroot", "--format=oci", f"--annotation={annotation}", f"--tag={IMAGE}", str(self.home))
        assert done.returncode == 0, done.stderr

    def containers(self):
        return self.call("ps", "-a", "--format", "{{.Names}}").stdout.decode().split()


@pytest.fixture(scope="module")
def way(tmp_path_factory):
    """Returns how podman can run on this machine: arguments of Podman."""
    if not shutil.which("podman"):
        pytest.skip("no podman on this machine")
    if not BUSYBOX.exists():
        pytest.skip("no /bin/busybox (busybox-static) on this machine")
    says = b""
    for i, arguments in enumerate(({}, {"options": MODEST}, {"in_namespace": True, "options": MODEST})):
        folder = tmp_path_factory.mktemp(f"podman{i}")
        engine = Podman(folder, **arguments)
        engine.image()
        done = engine.call("run", "--rm", "--network", "host", *engine.options, IMAGE, "/bin/cat", "/etc/tfe-image")
        shutil.rmtree(folder, ignore_errors=True)
        if done.returncode == 0:
            return arguments
        says = done.stderr.strip().splitlines()[-1:]
    pytest.skip(f"podman runs nothing on this machine: {says}")


@pytest.fixture
def engine(way, commons):
    """Yields a podman; none of its images and containers is left afterwards."""
    made = Podman(commons, **way)
    yield made
    wait_until(lambda: made.containers() == [], what="the end of all containers")
    wait_until(lambda: shutil.rmtree(made.home, ignore_errors=True) or not made.home.exists(), what="what an engine still clears away")


@pytest.fixture
def nodes(pool, engine):
    """nodes(n, *options) starts n pool nodes that run images."""
    def start(n=1, *options, more=""):
        found = pool.start(n, "--runtime=podman", "--trainer-user=nobody", f"--runtime-options={' '.join([*engine.options, '--pull=never', more])}",
                           *options, env=engine.env)
        pool.wait_free(n)
        return found
    return start


@pytest.fixture
def out(commons):
    """A folder in which trainers can write."""
    folder = commons / "out"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def written(path):
    return wait_until(lambda: path.exists() and path.read_text(), what=path.name)


def fails(pool, name, commons, *options, command=("sh", "-c", "exit 0")):
    """Returns the message of a job that does not survive its first failure."""
    (commons / f"{name}.json").write_text(json.dumps({"name": name, "backoff_limit": 0}))
    pool.submit(name, f"--file={commons}/{name}.json", *options, command=command)
    conditions = {each["condition"]: each for each in pool.wait_state(name, "failed")["conditions"]}
    return conditions["Failed"]["message"]


# Writes its findings into folder $1, and ends once "end" exists there.
LOOKS = """
{ cat /etc/tfe-image; pwd; id -u; ls; grep -E '^(NoNewPrivs|CapEff|CapBnd)' /proc/self/status; env; } > "$1/.found" 2>&1
sh -c 'echo $PPID' > "$1/pid"
touch /kept 2>/dev/null; touch "$TMPDIR/kept"
mv "$1/.found" "$1/found"
until [ -e "$1/end" ]; do sleep 0.1; done
"""


def looks(pool, name, out, *options):
    pool.submit(name, f"--image={IMAGE}", f"--option=checkpoint-dir={out}", *options, command=["sh", "-c", LOOKS, "sh", str(out)])
    return written(out / "found").splitlines()


def test_a_job_runs_in_its_image_as_the_trainers_user_and_leaves_nothing(pool, engine, nodes, out):
    engine.image(("opt/work/here", 0o644, b"x"), changes=["ENV A=image", "ENV B=image", "WORKDIR /opt/work", "USER root"])
    nodes()
    for name in ("one", "two"):
        found = looks(pool, name, out, "--env=B=job")
        none = "0" * 16
        assert found[:7] == ["an image", "/opt/work", str(NOBODY), "here", f"CapEff:\t{none}", f"CapBnd:\t{none}", "NoNewPrivs:\t1"]
        env = dict(line.split("=", 1) for line in found[7:] if "=" in line)
        assert (env["A"], env["B"], env["TFE_JOB"], env["TFE_RANK"]) == ("image", "job", name, "0")
        assert not [key for key in env if key.startswith(("TFE_TOKEN", "TFE_AGENT_KEY", "TFE_HANDOVER", "TFE_SET"))]
        assert len(engine.containers()) == 1 and not pathlib.Path("/kept").exists()
        (out / "end").touch()
        pool.wait_state(name, "succeeded")
        pool.wait_free(1)
        assert engine.containers() == [] and not pathlib.Path(env["TMPDIR"]).parents[1].exists()
        for path in out.iterdir():
            path.unlink()


@pytest.mark.parametrize("how", ["bundle", "path"])
def test_what_a_job_brings_is_there_in_its_image(pool, engine, nodes, commons, out, how):
    engine.image(("opt/work/here", 0o644, b"x"), changes=["WORKDIR /opt/work"])
    nodes()
    code = commons / "code"
    (code / "sub").mkdir(parents=True)
    (code / "sub" / "looks").write_text(LOOKS)
    pool.submit("job", f"--image={IMAGE}", f"--{how}={code}", "--work-dir=sub", f"--option=checkpoint-dir={out}",
                command=["sh", "looks", str(out)])
    found = written(out / "found").splitlines()
    assert found[0] == "an image" and found[3] == "looks"
    assert (found[1] == str(code / "sub")) == (how == "path")
    (out / "end").touch()
    pool.wait_state("job", "succeeded")


def test_a_script_restarts_warm_and_is_on_the_channel(pool, engine, nodes, status, out):
    """Its standbys run in the image, and its agent receives its steps."""
    engine.image(changes=["ENV PATH=/usr/bin:/bin"])
    node, = nodes(1, "--log-level=debug", more=" ".join(f"--volume={place}:{place}:ro" for place in [*PLACES, "/lib", "/lib64"]))
    pool.submit("job", f"--image={IMAGE}", f"--option=checkpoint-dir={out}", "--option=max-restarts=3",
                command=[sys.executable, str(HERE / "talker.py"), str(out), "--keeps"])
    wait_until(lambda: "how=standby" in node.stderr(), what="how its trainer was started")
    assert wait_until(lambda: (step := status()[0]["step"]) and step > 5 and step, what="its steps")
    pool.fleet.order("exit 0", folder=out)
    pool.wait_state("job", "succeeded")


@pytest.mark.parametrize("who", ["pool", "engine", "container"])
def test_whoever_is_killed_no_trainer_and_no_container_is_left(pool, engine, nodes, out, who):
    engine.image()
    node, = nodes()
    looks(pool, "job", out)
    name, = engine.containers()
    first = json.loads(engine.call("inspect", name).stdout)[0]["State"]["Pid"]
    run, = [pid for pid in children(node.pid) if pathlib.Path(f"/proc/{pid}/comm").read_text() == "podman\n"]
    (out / "found").unlink()
    if who == "container":
        assert engine.call("kill", "--signal=KILL", name).returncode == 0
    else:
        os.kill(node.pid if who == "pool" else run, signal.SIGKILL)
    wait_until(lambda: not is_alive(first), what="the end of the container's first process")
    wait_until(lambda: name not in engine.containers(), what="the end of the container")
    if who == "engine":  # its trainer starts after the fence, unless the first agent had time to prove its end
        wait_until(engine.containers, what="the next container of the job")
    if who != "pool":
        pool.order("cancel", "job")
        pool.wait_free(1)


def test_a_cancelled_job_takes_its_container_along(pool, engine, nodes, out):
    engine.image()
    nodes()
    looks(pool, "job", out)
    pool.order("cancel", "job")
    pool.wait_free(1)
    assert engine.containers() == []


@pytest.mark.parametrize("what", ["image", "command", "directory", "files"])
def test_what_is_not_there_is_said_of_the_job(pool, engine, nodes, commons, what):
    """One sentence, and the node returns to the pool."""
    engine.image()
    node, = nodes()
    options, sentence = {
        "image": ([], "(exit code 125 on "),
        "command": ([], "command no-such-program was not found (exit code 127 on "),
        "directory": (["--work-dir=/no/such"], "/no/such"),
        "files": ([f"--path={commons}/none"], f"image {IMAGE}: share {commons}/none with the container: no such file or directory")}[what]
    command = ["no-such-program"] if what == "command" else ["sh", "-c", "exit 0"]
    image = "localhost/none:1" if what == "image" else IMAGE
    assert sentence in fails(pool, "job", commons, f"--image={image}", *options, command=command)
    pool.wait_free(1)
    assert engine.containers() == [] and node.process.poll() is None


def test_a_directory_is_shared_with_the_rights_that_the_user_has(pool, engine, nodes, commons, out):
    """A directory that the user may only enter is not writable, and an inaccessible one is not shared."""
    engine.image()
    nodes()
    code = commons / "code"
    code.mkdir()
    mounts = f"grep -E ' ({code}|{out}) ' /proc/mounts > {out}/.mounts; mv {out}/.mounts {out}/mounts"
    pool.submit("job", f"--image={IMAGE}", f"--path={code}", f"--option=checkpoint-dir={out}", command=["sh", "-c", mounts])
    found = {line.split()[1]: line.split()[3].split(",")[0] for line in written(out / "mounts").splitlines()}
    assert found == {str(code): "ro", str(out): "rw"}
    closed = commons / "closed" / "inner"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    pool.wait_state("job", "succeeded")
    pool.wait_free(1)
    assert f"share {closed} with the container: permission denied" in fails(pool, "other", commons, f"--image={IMAGE}", f"--path={closed}")


EVIL = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void act(void)
{
    FILE *file = fopen("OUT/loaded", "a");
    if (file) {
        fprintf(file, "%d %d\\n", (int)getuid(), (int)getpid());
        fclose(file);
    }
}
"""
# Prints its user; busybox itself drops the rights of a setuid bit.
SETUID = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { return printf(\"%d\\n\", (int)geteuid()) < 0; }\n"
# Each program of the image records its user and the number of visible processes, then does its work.
ACTS = "#!/bin/busybox sh\necho \"$(busybox id -u) $(busybox ls -d /proc/[0-9]* | busybox wc -l)\" >> OUT/acted\nexec /bin/busybox NAME \"$@\"\n"


def test_a_hostile_image_never_acts_as_root(pool, engine, nodes, commons, out):
    """Its programs, its entry point, its user, a setuid program, its volumes, an annotation for the engine's groups, and
    code to be loaded into the agent."""
    code = commons / "code"
    code.mkdir()
    (commons / "evil.c").write_text(EVIL.replace("OUT", str(out)))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", commons / "evil.so", commons / "evil.c"], check=True)
    library = (commons / "evil.so").read_bytes()
    (commons / "setuid.c").write_text(SETUID)
    subprocess.run(["cc", "-static", "-o", commons / "setuid", commons / "setuid.c"], check=True)
    programs = [(f"bin/{name}", 0o755, ACTS.replace("OUT", str(out)).replace("NAME", name).encode()) for name in ("cat", "sh")]
    engine.image(*programs, ("bin/root", 0o4755, (commons / "setuid").read_bytes()), ("evil.so", 0o755, library), ("etc/ld.so.preload", 0o644, b"/evil.so\n"),
                 ("usr/lib/x86_64-linux-gnu/libnss_evil.so.2", 0o755, library), ("etc/nsswitch.conf", 0o644, b"hosts: evil files\npasswd: evil files\n"),
                 (".tfe/glibc-hwcaps/x86-64-v2/libsodium.so.23", 0o755, library), ("etc/group", 0o644, b"root:x:0:nobody\n"),
                 changes=[f'VOLUME ["/.tfe/glibc-hwcaps/x86-64-v2", "{code}/made"]', "USER 0:0", 'ENTRYPOINT ["/bin/cat"]', "ENV LD_PRELOAD=/evil.so", "ENV LD_AUDIT=/evil.so", "ENV LD_LIBRARY_PATH=/"])
    engine.annotate("run.oci.keep_original_groups=1")
    nodes()
    script = f"grep ' /etc/' /proc/mounts > {out}/mounts; id -G > {out}/groups; cat /etc/tfe-image; /bin/root > {out}/.setuid; echo $(id -u) > {out}/uid; touch /etc/shadow /proc/sys/kernel/x {out}/x; mv {out}/.setuid {out}/setuid"
    pool.submit("job", f"--image={IMAGE}", f"--path={code}", "--work-dir=/", f"--option=checkpoint-dir={out}", command=["/bin/sh", "-c", script])
    pool.wait_state("job", "succeeded")
    assert list(code.iterdir()) == [] and (out / "groups").read_text().split() == [str(NOBODY)]
    # Each file that is mounted there would be created where the image's links lead.
    assert {line.split()[1] for line in (out / "mounts").read_text().splitlines()} <= {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    acted = [line.split() for line in (out / "acted").read_text().splitlines()]
    assert acted and all(uid == str(NOBODY) and int(seen) < 16 for uid, seen in acted), acted
    assert [(out / name).read_text().strip() for name in ("uid", "setuid")] == [str(NOBODY)] * 2
    assert not (out / "loaded").exists(), (out / "loaded").read_text()
    assert all(path.stat().st_uid == NOBODY and not path.stat().st_mode & stat.S_ISUID for path in out.iterdir())


def test_what_an_image_prints_steers_no_terminal_of_the_pool(pool, engine):
    engine.image()
    says = "printf '\\033]0;owned\\007\\033[2Jon %s end\\n' stdout; printf '\\033]0;owned\\007on %s end\\n' stderr >&2"
    master, slave = os.openpty()
    node = subprocess.Popen([program("tfe-agent"), "--pool", "--runtime=podman", "--trainer-user=nobody", f"--state-dir={pool.fleet.state_dir}",
                             f"--runtime-options={' '.join([*engine.options, '--pull=never'])}"], stdin=slave, stdout=slave, stderr=slave,
                            env=clean_environment(**engine.env))
    os.close(slave)
    try:
        pool.wait_free(1)
        pool.submit("job", f"--image={IMAGE}", command=["sh", "-c", says])
        pool.wait_state("job", "succeeded")
    finally:
        node.terminate()
    said = b""
    while more := read_terminal(master):
        said += more
    os.close(master)
    node.wait(60)
    assert said.count(rb"\u001b]0;owned\u0007on std") == 2 and b"\x1b]" not in said and b"\x07" not in said, said


@pytest.mark.parametrize("place", ["/etc", "/proc/self", "/dev/", "//run", "/tmp/../etc"])
def test_what_an_engine_mounts_itself_is_not_shared(pool, engine, nodes, commons, place):
    """It would create its own mount points there, as root, on the machine."""
    engine.image()
    nodes()
    assert f"{place} cannot be shared with a container" in fails(pool, "job", commons, f"--image={IMAGE}", f"--path={place}")


def test_a_directory_that_is_replaced_while_the_container_starts_is_not_seen(pool, engine, nodes, commons, out):
    """The user's access is checked, and then root mounts the path: another process of that user changes it in between."""
    engine.image()
    node, = nodes()
    code, secret = commons / "code", commons / "closed" / "secret"
    code.mkdir()
    secret.mkdir(parents=True)
    (secret / "key").write_text("secret")
    secret.parent.chmod(0o700)
    wrapper = engine.home / "bin" / "podman"  # is executed between the two
    wrapper.write_text(wrapper.read_text().replace("exec", f"[ $1 != run ] || {{ mv {code} {code}-old; ln -s {secret} {code}; }}\nexec", 1))
    said = fails(pool, "job", commons, f"--image={IMAGE}", f"--path={code}", f"--option=checkpoint-dir={out}",
                 command=["sh", "-c", f"cat {code}/key > {out}/stolen"])
    assert f"{code} was replaced while the container started" in said and not (out / "stolen").exists()


def test_without_an_engine_the_job_says_so(pool, commons):
    pool.start(1, "--runtime=docker", "--trainer-user=nobody", env={"PATH": "/nowhere"})
    pool.wait_free(1)
    assert "start docker: no such file or directory" in fails(pool, "none", commons, "--image=org/any:1")
    pool.wait_free(1)


def test_without_the_option_an_image_is_left_out_with_one_warning(pool, commons):
    node, = pool.start(1)
    pool.wait_free(1)
    done = pool.ctl("submit", "--name=job", f"--image={IMAGE}", "--", "sh", "-c", f"ls /etc > {commons}/found")
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == f"tfe-ctl: image {IMAGE} runs only on nodes started with --runtime; other nodes run the command without it"
    pool.wait_state("job", "succeeded")
    assert "tfe-image" not in (commons / "found").read_text()
    assert node.stderr().count("event=image_ignored") == 1


def test_a_container_needs_a_user_who_is_not_root(state_dir, server):
    server()
    for options, sentence in ([], "--runtime requires --trainer-user (the user that containers run as)"), (["--trainer-user=root"], "root"):
        done = subprocess.run([program("tfe-agent"), "--pool", "--runtime=podman", *options], capture_output=True, text=True, timeout=30,
                              env=clean_environment())
        assert done.returncode == 2 and sentence in done.stderr, done.stderr
