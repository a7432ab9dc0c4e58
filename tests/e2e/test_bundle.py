"""Files of a job: a directory as a bundle, or a commit of a repository, on pool nodes that have neither."""

import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tarfile
import time
import types
from io import BytesIO

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import DEADLINE, wait_until
from pooled import Waiting, order, spec
from programs import clean_environment, program
from raw_client import RawClient
from test_pool import Pool, pool  # noqa: F401 (a fixture)

# Reports the files beside it, and ends once all trainers have reported.
LOOKS = """
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
found = {str(p.relative_to(here)): [p.read_text(), os.access(p, os.X_OK)] for p in here.rglob("*")
         if p.is_file() and ".git" not in p.parts}
out = pathlib.Path(os.environ["OUT"], f"{os.getpid()}")
out.with_suffix(".part").write_text(json.dumps({"found": found, "cwd": os.getcwd(), "args": sys.argv[1:]}))
out.with_suffix(".part").rename(out.with_suffix(".json"))
while len(list(out.parent.glob("*.json"))) < int(os.environ["ALL"]):
    time.sleep(0.01)
"""


def git(folder, *words):
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *own, *words], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def code(tmp_path):
    """A job's directory: a script, a program, and files excluded by .gitignore."""
    folder = tmp_path / "code"
    folder.mkdir()
    write(folder, lib__a="1", lib__deep__b="2", data__big="no", secret="no")
    (folder / "exec.py").write_text(LOOKS)
    (folder / ".gitignore").write_text("data/\nsecret\n")
    (folder / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o755)
    return folder


def said(folder, n):
    """Returns what n trainers running LOOKS have found."""
    def look():
        found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        return len(found) == n and found
    return wait_until(look, what=f"{n} that looked")


def names(found):
    return sorted(found["found"])


WITHOUT_IGNORED = [".gitignore", "exec.py", "lib/a", "lib/deep/b", "tool.sh"]


def submit(pool, name, tmp_path, *options, command=(), n=1):
    out = tmp_path / f"out-{name}"
    out.mkdir()
    done = pool.ctl("submit", f"--name={name}", f"--env=OUT={out}", f"--env=ALL={n}", f"--workers={n}", *options, *command)
    assert done.returncode == 0, done.stderr
    return out


def test_a_bundle_runs_on_four_nodes_and_is_sent_once(server, fleet, ctl, code, tmp_path):
    first = server()
    pool = Pool(fleet, ctl)
    pool.start(4, "--no-standby")
    pool.wait_free(4)
    out = submit(pool, "one", tmp_path, f"--bundle={code}", n=4)
    for found in said(out, 4):
        assert names(found) == WITHOUT_IGNORED
        assert found["found"]["lib/deep/b"] == ["2", False] and found["found"]["tool.sh"] == ["#!/bin/sh\n", True]
        assert not found["cwd"].startswith(str(tmp_path)) and found["args"] == []
    pool.wait_state("one", "succeeded")
    pool.wait_free(4)
    # The same files give the same bytes, whatever their times and directory order.
    os.utime(code / "lib/a", (1, 1))
    (code / "data/more").write_text("no")
    out = submit(pool, "two", tmp_path, f"--bundle={code}", command=("--", "python", "exec.py", "--steps", "3"))
    assert said(out, 1)[0]["args"] == ["--steps", "3"]
    pool.wait_state("two", "succeeded")
    assert len(first.events("bundle_stored")) == 1
    (code / "lib/a").write_text("other")
    out = submit(pool, "three", tmp_path, f"--bundle={code}")
    assert said(out, 1)[0]["found"]["lib/a"][0] == "other"
    assert len(first.events("bundle_stored")) == 2


def programs_of(folder, marker):
    """Writes a git configuration that names a program for everything that git might run."""
    evil = folder / ".git" / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho \"$0 $@\" >> {marker}\nexit 1\n")
    evil.chmod(0o755)
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "post-checkout", "fsmonitor-watchman", "query-watchman", "reference-transaction"):
        (hooks / hook).write_text(evil.read_text())
        (hooks / hook).chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "core.gitProxy", "core.askPass", "core.pager", "core.editor", "diff.external",
                "filter.x.clean", "filter.x.smudge", "filter.x.process", "remote.origin.uploadpack", "core.alternateRefsCommand"):
        git(folder, "config", key, str(evil))
    for key, value in (("credential.helper", f"!{evil}"), ("protocol.allow", "always"), ("protocol.ext.allow", "always"),
                       ("remote.origin.url", f"ext::{evil}"), ("remote.origin.promisor", "true"),
                       ("remote.origin.partialclonefilter", "blob:none"), ("core.hooksPath", str(hooks)),
                       (f"url.ext::{evil} .insteadOf", "https://"), (f"url.ext::{evil} x.insteadOf", "ssh://")):
        git(folder, "config", key, value)
    (folder / ".gitattributes").write_text("* filter=x diff=x\n")


def test_a_directorys_configuration_of_git_runs_nothing_of_whoever_submits_it(server, ctl, code, tmp_path):
    server()
    marker = tmp_path / "ran"
    git(code, "init")
    git(code, "add", ".")
    git(code, "commit", "-m", "x")
    programs_of(code, marker)
    (code / "lib/a").write_text("changed")
    assert subprocess.run(["git", "status"], cwd=code, capture_output=True).returncode is not None and marker.exists()
    marker.unlink()
    done = ctl("submit", "--name=j", f"--bundle={code}")
    assert done.returncode == 0, done.stderr
    assert not marker.exists(), marker.read_text()


def test_nor_does_the_directory_that_it_is_submitted_from(server, state_dir, code, tmp_path):
    s = server()
    marker, other = tmp_path / "ran", tmp_path / "other"
    other.mkdir()
    for folder in (code, other):
        git(folder, "init")
        git(folder, "add", ".")
        git(folder, "commit", "--allow-empty", "-m", "x")
    programs_of(code, marker)

    def submit_git(name, url):
        return subprocess.run([program("tfe-ctl"), "--state-dir", str(state_dir), "submit", f"--name={name}", f"--git={url}"], cwd=code,
                              env=clean_environment(), capture_output=True, text=True, timeout=60)

    for i, url in enumerate(("https://127.0.0.1:1/x.git", "ssh://127.0.0.1:1/x.git")):
        assert submit_git(f"j{i}", url).returncode != 0
    for i, url in enumerate((f"file://{other}", str(other), "../other")):
        done = submit_git(f"l{i}", url)
        assert done.returncode == 0, done.stderr
    assert not marker.exists(), marker.read_text()
    assert s.process.poll() is None


def bundled(ctl, folder, tmp_path):
    """Returns the files in the bundle that submit makes of the directory, or the sentence that rejects it."""
    out = tmp_path / "bundle"
    done = ctl("submit", "--name=x", f"--bundle={folder}", f"--bundle-out={out}", "--", "python", "exec.py")
    if done.returncode != 0:
        return done.stderr
    plain = subprocess.run(["zstd", "-dc", str(out)], capture_output=True, check=True, timeout=60).stdout
    with tarfile.open(fileobj=BytesIO(plain)) as archive:
        return {info.name: archive.extractfile(info).read().decode() for info in archive}


@pytest.mark.parametrize("is_repository", [True, False])
def test_links_inside_a_bundle_are_followed(ctl, code, tmp_path, is_repository):
    if is_repository:
        git(code, "init", "-q")
    (code / "docker").mkdir()
    (code / "docker/b").symlink_to("../lib/deep/b")
    (code / "docker/lib").symlink_to("../lib")
    (code / "lib/again").symlink_to(code / "lib/a")
    files = bundled(ctl, code, tmp_path)
    found = {name: text for name, text in files.items() if name.startswith(("docker/", "lib/"))}
    assert found == {"docker/b": "2", "docker/lib/a": "1", "docker/lib/again": "1", "docker/lib/deep/b": "2",
                     "lib/a": "1", "lib/again": "1", "lib/deep/b": "2"}


@pytest.mark.parametrize("name, target, words", [
    ("out", "/etc/passwd", "cannot pack out: it links to the directory itself, outside of it"), ("up", "..", "cannot pack up: it links to the directory itself, outside of it"),
    ("beside", "../code-2/x", "cannot pack beside: it links to the directory itself, outside of it"), ("self", ".", "cannot pack self: it links to the directory itself"),
    ("config", ".git/config", "cannot pack config: it links to the directory itself, outside of it, or into .git"),
    ("nowhere", "gone", "cannot pack nowhere: the link's target does not exist"), ("loop", "loop", "cannot pack loop: the link's target does not exist"),
    ("lib/deep/more", "../../docker", "nested links are not followed")])
def test_links_that_a_bundle_does_not_follow_are_named(ctl, code, tmp_path, name, target, words):
    git(code, "init", "-q")
    write(code.with_name("code-2"), x="")
    write(code, docker__a="")
    if name == "lib/deep/more":
        (code / "all").symlink_to("lib")
    (code / name).symlink_to(target)
    assert words in bundled(ctl, code, tmp_path)


@pytest.mark.parametrize("link", ["lib", "lib/deep"])
def test_a_tracked_file_below_a_link_is_not_packed(ctl, code, tmp_path, link):
    """The index of a hostile directory names files of whoever submits it, through a link that .gitignore hides."""
    git(code, "init", "-q")
    git(code, "add", "lib")
    outside = write(tmp_path / "outside", a="stolen", b="stolen", deep__b="stolen")
    shutil.rmtree(code / link)
    (code / link).symlink_to(outside)
    (code / ".gitignore").write_text(f"/{link}\n/data/\n")
    assert [name for name in bundled(ctl, code, tmp_path) if name.startswith(f"{link}/")] == []


def test_a_bundle_outlives_a_server_that_is_killed(server, fleet, ctl, code, tmp_path):
    first = server()
    pool = Pool(fleet, ctl)
    out = submit(pool, "one", tmp_path, f"--bundle={code}")
    first.kill()
    server(port=first.port)
    pool.start(1, "--no-standby")
    assert names(said(out, 1)[0]) == WITHOUT_IGNORED
    pool.wait_state("one", "succeeded")
    # The job can be rerun: the server keeps the bundles that jobs name.
    [path.unlink() for path in out.glob("*.json")]
    pool.order("restart", "one")
    assert names(said(out, 1)[0]) == WITHOUT_IGNORED


def test_a_failed_download_is_no_failed_start(server, fleet, ctl, code, tmp_path):
    """The bundle is missing on the server's disk: a job that allows no failure waits, gives the reason, and runs once
    the bundle is back."""
    one = server()
    pool = Pool(fleet, ctl)
    pool.start(1, "--no-standby", "--no-persist")
    pool.wait_free(1)
    (code / "lib/noise").write_bytes(os.urandom(700_000))  # large enough for many pieces
    (code / "exec.py").write_text(LOOKS.replace("p.read_text()", "len(p.read_bytes())"))
    blocker = submit(pool, "blocker", tmp_path, f"--path={code}", command=("--", "sleep", "1000"))
    out = submit(pool, "one", tmp_path, f"--bundle={code}", "--option=max-restarts=0")
    stored, = (one.state_dir / "bundles").iterdir()
    stored.rename(tmp_path / "away")
    pool.order("cancel", "blocker")
    waits = wait_until(lambda: (text := pool.job("one").get("waits") or "") and "its files on" in text and text, what="the reason")
    assert "cannot read the bundle from the server's disk" in waits and not list(blocker.iterdir())
    (tmp_path / "away").rename(stored)
    assert said(out, 1)[0]["found"]["lib/noise"][0] == 700_000
    pool.wait_state("one", "succeeded")


def test_git_runs_the_commit_that_the_branch_was_when_it_was_handed_in(pool, code, tmp_path):  # noqa: F811
    git(code, "init", "-q")
    git(code, "add", ".")
    git(code, "commit", "-qm", "first")
    hook = code / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    first = git(code, "rev-parse", "HEAD")
    out = submit(pool, "one", tmp_path, f"--git=file://{code}@main")
    (code / "lib/a").write_text("later")
    git(code, "commit", "-qam", "second")
    assert pool.job("one")["spec"]["source"] == {"git": f"file://{code}", "ref": first}
    pool.start(1, "--no-standby")
    found, = said(out, 1)
    assert found["found"]["lib/a"][0] == "1" and names(found) == WITHOUT_IGNORED
    pool.wait_state("one", "succeeded")
    out = submit(pool, "two", tmp_path, f"--git=file://{code}")
    assert said(out, 1)[0]["found"]["lib/a"][0] == "later"
    assert not (tmp_path / "hooked").exists()
    done = pool.ctl("submit", "--name=three", f"--git=file://{code}@nowhere")
    assert done.returncode == 1 and 'has no branch or tag "nowhere"' in done.stderr


def test_a_repository_that_a_node_does_not_reach_is_a_sentence_of_the_job(pool, tmp_path):  # noqa: F811
    pool.start(1, "--no-standby")
    pool.wait_free(1)
    commit = "0123456789" * 4
    submit(pool, "one", tmp_path, f"--git=file://{tmp_path}/nowhere@{commit}", "--option=max-restarts=0")
    job = wait_until(lambda: (job := pool.job("one"))["state"] == "failed" and job, what="its end")
    assert "git: fatal:" in json.dumps(job)
    pool.wait_free(1)


@pytest.fixture
def slow(code, tmp_path):
    """Returns a commit whose repository responds once the file "go" exists: (URL@COMMIT, environment of its node)."""
    git(code, "init", "-q")
    git(code, "add", ".")
    git(code, "commit", "-qm", "first")
    way = tmp_path / "way"
    way.write_text(f"#!/bin/sh\necho x >>{tmp_path}/asked\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.02; done\n"
                   'for word; do :; done\nexec sh -c "$word"\n')
    way.chmod(0o755)
    commit = git(code, "rev-parse", "HEAD")
    return {"git": f"ssh://host{code}", "ref": commit}, {"GIT_SSH": str(way), "GIT_SSH_VARIANT": "simple"}


def test_a_node_that_leaves_while_it_fetches_files_is_no_failed_start(server, fleet, ctl, slow, tmp_path):
    """Regression: a job without retries failed when its first machine was taken away during the download."""
    source, env = slow
    one = server()
    pool = Pool(fleet, ctl)
    agent, = pool.start(1, "--no-standby", env=env)
    assert order(one, "SUBMIT", spec("one", source=source, backoff_limit=0)) == "DONE"
    wait_until((tmp_path / "asked").exists, what="git")
    agent.send(signal.SIGTERM)
    assert agent.wait() == 143
    assert pool.job("one")["state"] in ("starting", "waiting")


# --- hostile bundles ------------------------------------------------------------------------------


def frame(plain):
    """Returns a Zstandard frame with uncompressed data (RFC 8878, raw blocks)."""
    blocks = [plain[i:i + 100_000] for i in range(0, len(plain), 100_000)]
    headers = [struct.pack("<I", (i == len(blocks) - 1) | len(b) << 3)[:3] for i, b in enumerate(blocks)]
    return b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(h + b for h, b in zip(headers, blocks))


def tar(*members):
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, changes, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in changes.items():
                setattr(info, key, value)
            archive.addfile(info, BytesIO(content))
    plain = out.getvalue().rstrip(b"\0")
    return plain + b"\0" * (-len(plain) % 512 + 1024)


HOSTILE = [tar(("../out", {}, b"x")), tar(("/tmp/out", {}, b"x")), tar(("a/../../out", {}, b"x")),
           tar(("a", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, b"")),
           tar(("a", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, b"")), tar(("a", {"type": tarfile.FIFOTYPE}, b"")),
           tar(("a", {"type": tarfile.CHRTYPE, "devmajor": 1}, b"")), tar(("a", {"mode": 0o4755}, b"x")),
           tar(("b", {}, b"x"), ("a", {}, b"x")), tar(("a", {}, b"x"), ("a", {}, b"y")), tar(("a", {}, b"x"))[:-512], b"\0" * 1024 + b"x" * 512]


def put(server, packed, role="admin", digest=None):
    """Uploads a bundle like tfe-ctl; returns the response's name and the digest."""
    digest = digest or hashlib.blake2b(packed, digest_size=32).hexdigest()
    with RawClient(server.port, server.token(role), timeout=20) as ctl:
        ctl.send("BUNDLE_HAVE", {1: digest, 2: len(packed)})
        at = 0
        while True:
            name, fields = ctl.receive_until("BUNDLE_WANT", "DONE", "REFUSED")
            if name != "BUNDLE_WANT":
                return name if name == "DONE" else fields[2][0].decode(), digest
            while at < fields[3][0]:
                ctl.send("BUNDLE_PUT", [(1, digest), (2, at), (3, packed[at:min(at + 12288, fields[3][0])])])
                at = min(at + 12288, fields[3][0])


def test_what_is_no_bundle_of_ours_is_never_unpacked(server, fleet, ctl, tmp_path):
    one = server()
    pool = Pool(fleet, ctl)
    pool.start(1, "--no-standby")
    pool.wait_free(1)
    for i, plain in enumerate(HOSTILE):
        answer, digest = put(one, frame(plain))
        assert answer == "DONE"
        assert order(one, "SUBMIT", spec(f"bad{i}", "sh", "-c", "true", source={"bundle": digest}, backoff_limit=0)) == "DONE"
        job = pool.wait_state(f"bad{i}", "failed")
        assert "not a bundle" in json.dumps(job), job
    assert not (tmp_path.parent / "out").exists() and not pathlib.Path("/tmp/out").exists()


def test_bytes_that_are_not_what_was_said_are_not_stored(server):
    one = server()
    answer, digest = put(one, b"x" * 300_000, digest="ab" * 32)
    assert "does not match its digest" in answer
    answer = order(one, "SUBMIT", spec("job", source={"bundle": digest}))
    assert "has no bundle" in answer
    with RawClient(one.port, one.token("admin"), timeout=20) as hasty:
        hasty.send("BUNDLE_PUT", {1: digest, 3: b"x"})
        assert b"the server has not requested it" in hasty.receive_until("REFUSED")[1][2][0]


def test_a_digest_is_no_key_to_what_others_have_brought(server, token):
    one = server()
    answer, digest = put(one, b"x" * 5000)
    assert answer == "DONE"
    assert put(one, b"x" * 5000) == ("DONE", digest)
    team = token("--role=admin", "--job=team-*")
    with RawClient(one.port, team, timeout=20) as ctl:
        ctl.send("SUBMIT", spec("team-a", source={"bundle": digest}))
        assert b"has no bundle" in ctl.receive_until("DONE", "REFUSED")[1][2][0]
    # A node fetches only what its assignment names.
    with Waiting(one.port, one.token("agent"), "a") as node:
        node.receive_until("WELCOME")
        node.send("FETCH", {1: digest, 3: 1000})
        assert b"names a different bundle" in node.receive_until("CHUNK")[1][8][0]
        assert order(one, "SUBMIT", spec("mine", source={"bundle": digest})) == "DONE"
        node.assigned()
        node.send("FETCH", {1: digest, 3: 1000})
        chunk = node.receive_until("CHUNK")[1]
        assert chunk[4][0] == b"x" * 1000 and chunk[3][0] == 5000


@contextlib.contextmanager
def downloaders(one, n, size, job="job", labels=()):
    """Yields n independent nodes of a job with a bundle of that size, each of which can request pieces."""
    _, digest = put(one, os.urandom(size))
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Waiting(one.port, one.token("agent"), f"{job}{i}", labels=labels)) for i in range(n)]
        more = {"labels": dict(label.split("=", 1) for label in labels)}
        assert order(one, "SUBMIT", spec(job, sizes=(n, n), source={"bundle": digest}, backoff_limit=0, **more)) == "DONE"
        for node in nodes:
            node.assigned()
        yield nodes, lambda node, offset=0, length=PIECE, **more: node.send(
            "FETCH", [(1, digest), (2, offset), (3, length), *((int(key[1:]), value) for key, value in more.items())])


PIECE = 98_304


def gets(node, n=PIECE):
    """Asserts that the node receives n bytes now."""
    while n > 0:
        n -= len(node.receive_until("CHUNK")[1][4][0])
    assert n == 0


def waits(node):
    """Asserts that the node receives nothing now."""
    for number in (1, 2):
        node.send("RENEW", {1: number})
        assert node.receive_until("RENEWED", "CHUNK")[0] == "RENEWED"


def test_eight_nodes_download_a_bundle_at_a_time_and_the_others_wait_in_order(server):
    with downloaders(server(), 11, PIECE + 5000) as (nodes, fetch):
        for node in nodes:
            fetch(node)
        for node in nodes[:8]:
            gets(node)
        for node in nodes[8:]:
            waits(node)
        fetch(nodes[3], PIECE, 5000)  # the last byte
        gets(nodes[3], 5000)
        gets(nodes[8])
        waits(nodes[9])
        nodes[4].sock.close()
        gets(nodes[9])
        waits(nodes[10])
        fetch(nodes[3])  # another request, queued behind the others
        for node in (nodes[10], nodes[3]):
            waits(node)
        for node in (nodes[0], nodes[1]):
            fetch(node, PIECE, 5000)
            gets(node, 5000)
        gets(nodes[10])
        gets(nodes[3])


def test_a_node_that_stalls_loses_its_stream(server):
    """A stalled node keeps what it has: its next request continues there, queued behind the others."""
    with downloaders(server(), 9, 3 * PIECE) as (nodes, fetch):
        for node in nodes:
            fetch(node)
        for node in nodes[:8]:
            gets(node)
        waits(nodes[8])
        nodes[8].sock.settimeout(30)
        gets(nodes[8])
        fetch(nodes[0], PIECE)
        gets(nodes[0])


def test_nodes_that_stall_hold_back_no_other_bundle(server):
    one = server()
    with downloaders(one, 8, 3 * PIECE, "slow", ["set=a"]) as (stalled, fetch_slow):
        for node in stalled:
            fetch_slow(node)
        for node in stalled:
            gets(node)
        with downloaders(one, 1, 5000, "other", ["set=b"]) as (nodes, fetch):
            fetch(nodes[0])
            gets(nodes[0], 5000)


def test_downloads_of_one_key_leave_streams_for_others(server, token):
    """The nodes of one key download fast enough to keep all 32 streams."""
    one, scoped = server(), token("--role=admin", "--job=team-a-*")
    evil = types.SimpleNamespace(port=one.port, token=lambda role: scoped if role == "admin" else one.token(role))
    with contextlib.ExitStack() as stack:
        held = [(node, fetch) for i in range(4) for nodes, fetch in
                [stack.enter_context(downloaders(evil, 8, 3 * PIECE, f"team-a-{i}", [f"set=a{i}"]))] for node in nodes]
        (honest,), fetch_honest = stack.enter_context(downloaders(one, 1, 5000, "honest", ["set=honest"]))
        end = time.monotonic() + DEADLINE
        for n in itertools.count(1):
            began = time.monotonic()
            for node, fetch in held:
                node.send("RENEW", {1: n})
                fetch(node, n % 2 * PIECE)
                gets(node)
            if n == 1:
                fetch_honest(honest)
            honest.send("RENEW", {1: n})
            if honest.receive_until("CHUNK", "RENEWED")[0] == "CHUNK":
                return
            assert time.monotonic() < end, "no stream"
            time.sleep(max(0, 1 - (time.monotonic() - began)))


def test_an_error_of_a_node_is_what_the_job_waits_for(server, ctl):
    one = server()
    with downloaders(one, 2, 5000) as (nodes, fetch):
        pool = Pool(None, ctl)
        fetch(nodes[1], length=1000, f8="No space left on device")
        gets(nodes[1], 1000)
        assert "No space" not in (pool.job("job").get("waits") or ""), "it has got bytes since"
        fetch(nodes[1], offset=1000, length=1000)
        gets(nodes[1], 1000)
        fetch(nodes[1], offset=9000, length=1000, f8="No space left on device")  # an invalid range does not replace the reported error
        nodes[1].receive_until("CHUNK")
        assert pool.job("job")["waits"] == "waiting for its files on label-job1: No space left on device"


def test_more_than_two_pieces_at_a_time_are_ignored(server):
    with downloaders(server(), 9, 9 * PIECE) as (nodes, fetch):
        for node in nodes:
            fetch(node)
        for node in nodes[:8]:
            gets(node)
        for i in (1, 2, 3):
            fetch(nodes[8], i * PIECE)
        waits(nodes[8])
        nodes[0].sock.close()
        gets(nodes[8], 2 * PIECE)
        waits(nodes[8])
