"""--runtime: jobs whose image is run, by a stand-in for an engine everywhere, and by podman and docker where they are."""

import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import AS_NOBODY, NOBODY, as_root, wait_until
from programs import children, clean_environment, descendants, is_alive, program
from test_pool import pool  # noqa: F401 (a fixture)

pytestmark = as_root
HERE = pathlib.Path(__file__).parent
IMAGE = "org/tfe-test:1"
# Of what an image of a real engine needs to run the machine's own Python.
PLACES = [path for path in ("/usr", str(pathlib.Path(sys.prefix)), str(pathlib.Path(sys.executable).resolve().parents[1]), str(HERE))
          if not path.startswith("/usr/")]


def volumes(places):
    return f"--runtime-options={' '.join(f'--volume {place}:{place}:ro' for place in places)}"


def may_stand_in():
    """Whether there can be a layer over the machine's own files."""
    line = ("mount -t tmpfs tmpfs /mnt && mkdir /mnt/a /mnt/b /mnt/c && "
            "mount -t overlay o -o lowerdir=/,upperdir=/mnt/a,workdir=/mnt/b /mnt/c")
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "sh", "-c", line], capture_output=True).returncode == 0


class StandIn:
    name = "podman"
    options = [volumes(place for place in PLACES if place.startswith("/tmp/"))]  # its image has all but that

    def __init__(self, folder):
        self.home = folder / "engine"
        for each in ("bin", "images", "containers", "roots"):
            (self.home / each).mkdir(parents=True)
        shutil.copy(HERE / "engine.py", self.home / "bin" / "podman")
        (self.home / "bin" / "podman").chmod(0o755)
        self.env = {"PATH": f"{self.home}/bin:{os.environ['PATH']}", "ENGINE_HOME": str(self.home)}

    def call(self, *words):
        return subprocess.run([self.name, *words], env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60)

    def image(self, name=IMAGE, env=(), directory="", **files):
        layer = self.home / "images" / name.replace("/", "_").replace(":", "_")
        (layer / "etc").mkdir(parents=True)
        (layer / "etc/tfe-image").write_text("an image\n")
        (layer / "etc/config.json").write_text(json.dumps({"Env": ["PATH=" + os.environ["PATH"], *env], "WorkingDir": directory}))
        for path, text in files.items():
            target = layer / path.replace("__", "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def containers(self):
        return self.call("ps", "-a", "--format", "{{.Names}}").stdout.split()

    def remove(self, name):
        done = self.call("rm", "--force", name)
        assert done.returncode == 0, done.stderr


class Podman(StandIn):
    def __init__(self, folder):
        self.home = folder / "engine"
        self.home.mkdir()
        conf = self.home / "storage.conf"
        conf.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{self.home}/graph"\nrunroot = "{self.home}/run"\n')
        self.env = {"CONTAINERS_STORAGE_CONF": str(conf), "PATH": os.environ["PATH"]}
        self.options = [volumes(PLACES)]

    def image(self, name=IMAGE, env=(), directory="", **files):
        tree = io.BytesIO()
        changes = [f"ENV {entry}" for entry in ("PATH=" + os.environ["PATH"], *env)] + ([f"WORKDIR {directory}"] if directory else [])
        with tarfile.open(fileobj=tree, mode="w") as tar:
            for link in ("bin", "lib", "lib64", "sbin"):
                info = tarfile.TarInfo(link)
                info.type, info.linkname = tarfile.SYMTYPE, f"usr/{link}"
                tar.addfile(info)
            for path, text in {"etc/tfe-image": "an image\n", **{path.replace("__", "/"): text for path, text in files.items()}}.items():
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(text), 0o755
                tar.addfile(info, io.BytesIO(text.encode()))
        done = subprocess.run([self.name, "import", *[word for change in changes for word in ("--change", change)], "-", name],
                              input=tree.getvalue(), env={**os.environ, **self.env}, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr


class Docker(Podman):
    """Its daemon may have others' containers."""

    name = "docker"

    def __init__(self, folder):
        super().__init__(folder)
        self.env = {"PATH": os.environ["PATH"]}
        self.label = f"tfe-test={folder.parent.name}"
        self.options = [f"{self.options[0]} --label {self.label}"]

    def containers(self):
        return self.call("ps", "-a", "--filter", f"label={self.label}", "--format", "{{.Names}}").stdout.split()


def runs(engine):
    return os.geteuid() == 0 and shutil.which(engine) and subprocess.run([engine, "info"], capture_output=True).returncode == 0


ENGINES = [pytest.param(StandIn, id="stand-in", marks=pytest.mark.skipif(not may_stand_in(), reason="no overlay in a namespace of its own")),
           pytest.param(Podman, id="podman", marks=pytest.mark.skipif(not runs("podman"), reason="no podman")),
           pytest.param(Docker, id="docker", marks=pytest.mark.skipif(not runs("docker"), reason="no docker"))]


@pytest.fixture(params=ENGINES)
def engine(request, commons):
    """With its images and containers; none is left."""
    (commons / "engine-home").mkdir()
    made = request.param(commons / "engine-home")
    yield made
    assert made.containers() == []
    for place in made.home.glob("graph/overlay"):
        subprocess.run(["umount", "--lazy", place], capture_output=True)
    wait_until(lambda: shutil.rmtree(made.home, ignore_errors=True) or not made.home.exists(), what="what an engine still clears away")


@pytest.fixture
def nodes(pool, engine):
    """nodes(n, *options): so many that run images."""
    def start(n=1, *options):
        found = pool.start(n, f"--runtime={engine.name}", *engine.options, *options, env=engine.env)
        pool.wait_free(n)
        return found
    return start


def written(path):
    return wait_until(lambda: path.exists() and path.read_text(), what=path.name)


def fails(pool, name, commons, *options, command=("sh", "-c", "exit 0")):
    """What is said of a job that does not survive its first failure."""
    (commons / f"{name}.json").write_text(json.dumps({"name": name, "backoff_limit": 0}))
    pool.submit(name, f"--file={commons}/{name}.json", *options, command=command)
    conditions = {each["condition"]: each for each in pool.wait_state(name, "failed")["conditions"]}
    return conditions["Failed"]["says"]


# $1 is a folder: tells there what it finds, and ends once "end" is there.
LOOKS = """
{ cat /etc/tfe-image; pwd; id -u; ls; grep NoNewPrivs /proc/self/status; env; } > "$1/.found" 2>&1
echo $$ > "$1/pid"
touch /kept /tmp/kept "$TMPDIR/kept"
mv "$1/.found" "$1/found"
until [ -e "$1/end" ]; do sleep 0.02; done
"""


def test_a_job_sees_its_image_and_leaves_nothing(pool, engine, nodes, commons):
    """Files, variables and working directory are the image's, and what the job says is above them; all else is as ever."""
    engine.image(env=["A=image", "B=image"], directory="/opt/work", opt__work__here="x", opt__work__looks="#!/bin/sh\n" + LOOKS)
    nodes()
    shared = commons / "shared"
    shared.mkdir()
    for name in ("one", "two"):
        pool.submit(name, f"--image={IMAGE}", "--env=B=job", f"--option=checkpoint-dir={shared}", command=["sh", "looks", str(shared)])
        found = written(shared / "found").splitlines()
        assert found[:6] == ["an image", "/opt/work", "0", "here", "looks", "NoNewPrivs:\t1"]
        env = dict(line.split("=", 1) for line in found[6:] if "=" in line)
        assert (env["A"], env["B"], env["TFE_JOB"], env["TFE_RANK"]) == ("image", "job", name, "0")
        assert not [key for key in env if key.startswith(("TFE_TOKEN", "TFE_IMAGE", "TFE_SET", "ENGINE"))]
        pid = int((shared / "pid").read_text())
        assert pathlib.Path(f"/proc/{pid}/root/kept").exists() and not pathlib.Path("/kept").exists()
        assert len(engine.containers()) == 1
        (shared / "end").touch()
        pool.wait_state(name, "succeeded")
        pool.wait_free(1)
        assert engine.containers() == []
        assert not pathlib.Path(env["TMPDIR"]).parents[1].exists() and not pathlib.Path("/tmp/kept").exists()
        for path in shared.iterdir():
            path.unlink()
    pool.wait_waiting()


@pytest.mark.parametrize("how", ["bundle", "path"])
def test_what_a_job_brings_is_there_in_its_image(pool, engine, nodes, commons, how):
    engine.image(directory="/opt/work", opt__work__here="x")
    nodes()
    code = commons / "code"
    (code / "sub").mkdir(parents=True)
    (code / "sub" / "looks").write_text(LOOKS)
    (commons / "out").mkdir()
    pool.submit("job", f"--image={IMAGE}", f"--{how}={code}", "--work-dir=sub", f"--option=checkpoint-dir={commons}/out",
                command=["sh", "looks", f"{commons}/out"])
    found = written(commons / "out" / "found").splitlines()
    assert found[0] == "an image" and found[3] == "looks"
    assert (found[1] == str(code / "sub")) == (how == "path")
    (commons / "out" / "end").touch()
    pool.wait_state("job", "succeeded")
    pool.wait_free(1)


def test_a_script_starts_warm_and_is_on_the_channel(pool, engine, nodes, status):
    """Its standbys are in the image; its agent hears its steps, and keeps its state in memory from one trainer to the next."""
    engine.image()
    node, = nodes(1, "--log-level=debug")
    folder = pool.folder("job")
    pool.submit("job", f"--image={IMAGE}", f"--option=checkpoint-dir={folder}", "--option=max-restarts=3",
                command=[sys.executable, str(HERE / "talker.py"), str(folder), "--keeps"])
    first = wait_until(lambda: pool.fleet.starts(folder=folder), what="its first trainer")[0]["pid"]
    wait_until(lambda: "event=trainer_started epoch=1 local_rank=0 how=standby" in node.stderr(), what="how it was started")
    step = wait_until(lambda: (step := status()[0]["step"]) and step > 5 and step, what="its steps")
    standbys = wait_until(lambda: status()[0]["nodes"][0]["standby_pids"], what="the next standby")
    for pid in (first, *standbys):
        assert pathlib.Path(f"/proc/{pid}/root/etc/tfe-image").exists()
    os.kill(first, signal.SIGKILL)
    again = wait_until(lambda: [start["pid"] for start in pool.fleet.starts(folder=folder) if start["pid"] != first], what="its next trainer")
    assert again == standbys
    pool.fleet.order("exit 0", folder=folder)
    pool.wait_state("job", "succeeded")
    pool.wait_free(1)
    assert pool.fleet.lines("end", folder)[-1]["step"] > step


@pytest.mark.parametrize("who", ["agent", "pool", "all"])
def test_who_is_killed_leaves_no_trainer_and_no_container(pool, engine, nodes, commons, who):
    engine.image()
    node, = nodes()
    pool.submit("job", f"--image={IMAGE}", f"--option=checkpoint-dir={commons}", command=["sh", "-c", LOOKS, "sh", str(commons)])
    written(commons / "found")
    pid = int((commons / "pid").read_text())
    name, = engine.containers()
    agent, = children(node.pid, "tfe-agent")
    keeper, = children(node.pid, "tfe-container")
    for victim in {"agent": [agent], "pool": [node.pid], "all": [node.pid, agent]}[who]:
        os.kill(victim, signal.SIGKILL)
    if who != "agent":
        wait_until(lambda: not is_alive(pid), what="its trainer")
        wait_until(lambda: not engine.containers(), what="its container")
        wait_until(lambda: not is_alive(keeper), what="who kept it")
        return
    wait_until(lambda: name not in engine.containers(), what="its container")
    assert not is_alive(pid)
    pool.order("cancel", "job")
    pool.wait_free(1)


def test_a_fenced_trainer_is_dead_whatever_the_engine_does(pool, engine, nodes, commons):
    """The guard ends it, and asks no engine: that one hangs, and so does its container."""
    engine.image()
    node, = nodes()
    pool.submit("job", f"--image={IMAGE}", f"--option=checkpoint-dir={commons}", command=["sh", "-c", LOOKS, "sh", str(commons)])
    written(commons / "found")
    pid = int((commons / "pid").read_text())
    agent, = children(node.pid, "tfe-agent")
    keeper, = children(node.pid, "tfe-container")
    stopped = [keeper, *descendants(keeper)]
    for each in stopped:
        os.kill(each, signal.SIGSTOP)
    os.kill(agent, signal.SIGKILL)
    try:
        wait_until(lambda: not is_alive(pid), what="its trainer's end")
        assert len(engine.containers()) == 1
    finally:
        for each in stopped:
            os.kill(each, signal.SIGCONT)
    wait_until(lambda: not engine.containers(), what="its container")
    pool.order("cancel", "job")
    pool.wait_free(1)


def test_a_cancelled_job_takes_its_container_along(pool, engine, nodes, commons):
    engine.image()
    nodes()
    pool.submit("job", f"--image={IMAGE}", f"--option=checkpoint-dir={commons}", command=["sh", "-c", LOOKS, "sh", str(commons)])
    written(commons / "found")
    pool.order("cancel", "job")
    pool.wait_free(1)
    assert engine.containers() == [] and not is_alive(int((commons / "pid").read_text()))


def test_a_container_that_is_taken_away_ends_its_job_there(pool, engine, nodes, commons):
    """Trainers whose files go away cannot go on: the node leaves the job in an orderly way, and gets it anew."""
    engine.image()
    node, = nodes()
    pool.submit("job", f"--image={IMAGE}", f"--option=checkpoint-dir={commons}", command=["sh", "-c", LOOKS, "sh", str(commons)])
    written(commons / "found")
    pid, (name,) = int((commons / "pid").read_text()), engine.containers()
    (commons / "found").unlink()
    engine.remove(name)
    wait_until(lambda: "event=container_ended" in node.stderr(), what="its agent's word")
    wait_until(lambda: not is_alive(pid), what="its trainer's end")
    written(commons / "found")
    assert len(engine.containers()) == 1 and engine.containers() != [name]
    (commons / "end").touch()
    pool.wait_state("job", "succeeded")
    pool.wait_free(1)


@pytest.mark.parametrize("what", ["image", "command", "directory", "files"])
def test_what_is_not_there_is_said_of_the_job(pool, engine, nodes, commons, what):
    """One sentence, and the node is the pool's again."""
    engine.image()
    node, = nodes()
    options, sentence = {
        "image": ([], f"ended with code 126 at once: image localhost:1/none:1: {engine.name}: "),
        "command": ([], "ended with code 127 at once: command no-such-program was not found"),
        "directory": (["--work-dir=/no/such"], "enter /no/such in the image: no such file or directory"),
        "files": ([f"--path={commons}/none"], f"share {commons}/none with the container: no such file or directory")}[what]
    command = ["no-such-program"] if what == "command" else ["sh", "-c", "exit 0"]
    image = "localhost:1/none:1" if what == "image" else IMAGE
    assert sentence in fails(pool, "job", commons, f"--image={image}", *options, command=command)
    pool.wait_free(1)
    assert engine.containers() == [] and node.process.poll() is None


def test_trainers_of_another_user_get_no_more_than_he_has(pool, engine, nodes, commons):
    """Nor by a program of the image that is setuid, nor by a directory that is closed to him."""
    engine.image()
    nodes(1, "--trainer-user=nobody")
    (commons / "out").mkdir(mode=0o777)
    os.chmod(commons / "out", 0o777)
    looks = LOOKS.replace("touch /kept /tmp/kept", "touch")
    pool.submit("job", f"--image={IMAGE}", f"--option=checkpoint-dir={commons}/out", command=["sh", "-c", looks, "sh", f"{commons}/out"])
    found = written(commons / "out" / "found").splitlines()
    assert found[2] == str(NOBODY) and "NoNewPrivs:\t1" in found
    (commons / "out" / "end").touch()
    pool.wait_state("job", "succeeded")
    closed = commons / "closed" / "inner"
    closed.mkdir(parents=True)
    os.chmod(closed.parent, 0o700)
    pool.wait_free(1)
    assert f"share {closed} with the container: permission denied" in fails(pool, "other", commons, f"--image={IMAGE}", f"--path={closed}")
    pool.wait_free(1)


@pytest.fixture
def stand_in(commons):
    if not may_stand_in():
        pytest.skip("no overlay in a namespace of its own")
    return StandIn(commons)


@pytest.mark.parametrize("how", ["cancel", "drain", "kill"])
def test_an_image_that_does_not_come_is_given_up(pool, stand_in, how):
    """As its job is cancelled, the node drained, or its agent killed, while it is pulled."""
    node, = pool.start(1, "--runtime=podman", env=stand_in.env)
    pool.wait_free(1)
    pool.submit("job", "--image=org/slow:1", command=["sh", "-c", "exit 0"])
    wait_until((stand_in.home / "pulls").exists, what="the pull")
    keeper, = children(node.pid, "tfe-container")
    engines = descendants(keeper)
    assert engines
    if how == "cancel":
        pool.order("cancel", "job")
        pool.wait_free(1)
    elif how == "drain":
        node.send(signal.SIGTERM)
        assert node.wait() == 128 + signal.SIGTERM
    else:
        node.send(signal.SIGKILL)
    wait_until(lambda: not [pid for pid in (keeper, *engines) if is_alive(pid)], what="the engine")
    assert json.loads((stand_in.home / "orders").read_text().splitlines()[-1])[:2] == ["rm", "--force"]


def test_without_an_engine_and_without_cat(pool, stand_in, commons):
    stand_in.image("org/bare:1", NO_CAT="")
    pool.start(1, "--runtime=docker", "--label=has=none", env={**stand_in.env, "PATH": "/nowhere"})
    pool.start(1, "--runtime=podman", "--label=has=one", env=stand_in.env)
    pool.wait_free(2)
    assert "image org/bare:1: docker: there is none on this node" in fails(pool, "none", commons, "--image=org/bare:1", "--label=has=none")
    assert "podman: Error: executable file `cat` not found" in fails(pool, "one", commons, "--image=org/bare:1", "--label=has=one")
    pool.wait_free(2)
    assert stand_in.containers() == []


def test_without_the_option_an_image_is_left_out_with_one_warning(pool, commons):
    node, = pool.start(1)
    pool.wait_free(1)
    done = pool.ctl("submit", "--name=job", f"--image={IMAGE}", "--", "sh", "-c", f"ls /etc > {commons}/found")
    assert done.returncode == 0
    assert done.stderr == f"tfe-ctl: image {IMAGE} is run on nodes with --runtime; on others the command finds what each has\n"
    pool.wait_state("job", "succeeded")
    assert "tfe-image" not in (commons / "found").read_text()
    assert node.stderr().count("event=image_ignored") == 1


def test_only_root_enters_containers(state_dir, server):
    server()
    done = subprocess.run([*AS_NOBODY, program("tfe-agent"), "--pool", "--runtime=podman"], capture_output=True, text=True, timeout=30,
                          env=clean_environment())
    assert done.returncode == 2 and done.stderr == "tfe-agent: --runtime: only root can enter a container\n"
