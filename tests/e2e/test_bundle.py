"""What a job brings along: a directory as a bundle, or a commit of a repository, on nodes of a pool that have neither."""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import tarfile
from io import BytesIO

import pytest
from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until
from pooled import Waiting, order, spec
from programs import children
from raw_client import RawClient
from test_pool import Pool, pool  # noqa: F401 (a fixture)

# Tells what is there beside it, and ends once all have told.
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
    """A directory of a job: what it runs, a program, and what .gitignore leaves out."""
    folder = tmp_path / "code"
    folder.mkdir()
    write(folder, lib__a="1", lib__deep__b="2", data__big="no", secret="no")
    (folder / "exec.py").write_text(LOOKS)
    (folder / ".gitignore").write_text("data/\nsecret\n")
    (folder / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o755)
    return folder


def said(folder, n):
    """What n of LOOKS have found."""
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
    # The same files, whenever they were written and however they are listed, are the same bytes.
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


def test_a_bundle_outlives_a_server_that_is_killed(server, fleet, ctl, code, tmp_path):
    first = server()
    pool = Pool(fleet, ctl)
    out = submit(pool, "one", tmp_path, f"--bundle={code}")
    first.kill()
    server(port=first.port)
    pool.start(1, "--no-standby")
    assert names(said(out, 1)[0]) == WITHOUT_IGNORED
    pool.wait_state("one", "succeeded")
    # It can begin anew: the server keeps what a job names.
    [path.unlink() for path in out.glob("*.json")]
    pool.order("restart", "one")
    assert names(said(out, 1)[0]) == WITHOUT_IGNORED


def test_three_copies_leave_the_server_and_the_rest_come_from_nodes(server, fleet, ctl, code, tmp_path):
    server()
    pool = Pool(fleet, ctl)
    (code / "lib/noise").write_bytes(os.urandom(700_000))  # many pieces
    (code / "exec.py").write_text(LOOKS.replace("p.read_text()", "len(p.read_bytes())"))
    agents = pool.start(7, "--no-standby", "--no-persist")
    pool.wait_free(7)
    out = submit(pool, "one", tmp_path, f"--bundle={code}", n=7)
    assert all(found["found"]["lib/noise"][0] == 700_000 for found in said(out, 7))
    fetched = [agent.stderr() for agent in agents]
    of_server, of_nodes = (sum(f'from="{whom}"' in text for text in fetched) for whom in ("the server", "a node"))
    assert 1 <= of_server <= 3 and of_server + of_nodes == 7, fetched  # who asks later finds a node that has it


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
    assert pool.job("one")["source"] == f"file://{code}@{first}"
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
    """A commit by a way to its repository that waits for the file "go": (URL@COMMIT, environment of its node)."""
    git(code, "init", "-q")
    git(code, "add", ".")
    git(code, "commit", "-qm", "first")
    way = tmp_path / "way"
    way.write_text(f"#!/bin/sh\necho x >>{tmp_path}/asked\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.02; done\n"
                   'for word; do :; done\nexec sh -c "$word"\n')
    way.chmod(0o755)
    commit = git(code, "rev-parse", "HEAD")
    return f"ssh://host{code}@{commit}", {"GIT_SSH": str(way), "GIT_SSH_VARIANT": "simple"}


def test_who_waits_beside_the_files_may_die_meanwhile(pool, slow, tmp_path):  # noqa: F811
    source, env = slow
    agent, = pool.start(1, env=env)
    pool.wait_free(1)
    pool.wait_waiting()

    def waiters():
        return children(agent.pid, "tfe-agent")

    waiter, = waiters()
    out = submit(pool, "one", tmp_path, f"--git={source}")
    wait_until((tmp_path / "asked").exists, what="git")
    os.kill(waiter, signal.SIGKILL)
    wait_until(lambda: (now := waiters()) and now != [waiter], what="another that waits")
    (tmp_path / "go").touch()
    assert names(said(out, 1)[0]) == WITHOUT_IGNORED
    pool.wait_state("one", "succeeded")
    assert (tmp_path / "asked").read_text() == "x\n", "its files were fetched once"


def test_a_node_that_leaves_while_it_fetches_files_is_no_failed_start(server, fleet, ctl, slow, tmp_path):
    """A job of no second try failed with the first machine that was taken away meanwhile."""
    source, env = slow
    one = server()
    pool = Pool(fleet, ctl)
    agent, = pool.start(1, "--no-standby", env=env)
    assert order(one, "SUBMIT", {1: spec("one", source=None, f13=3, f14=source, f18=0)}) == "DONE"
    wait_until((tmp_path / "asked").exists, what="git")
    agent.send(signal.SIGTERM)
    assert agent.wait() == 143
    assert pool.job("one")["state"] == "queued"


# --- what others might bring ----------------------------------------------------------------------


def frame(plain):
    """A frame of Zstandard that packs nothing (RFC 8878, raw blocks)."""
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
    """Brings a bundle, as tfe-ctl does; the answer's name and the digest."""
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
        assert order(one, "SUBMIT", {1: spec(f"bad{i}", "sh", "-c", "true", source=None, f13=2, f14=digest, f18=0)}) == "DONE"
        job = pool.wait_state(f"bad{i}", "failed")
        assert "this is no bundle" in json.dumps(job), job
    assert not (tmp_path.parent / "out").exists() and not pathlib.Path("/tmp/out").exists()


def test_bytes_that_are_not_what_was_said_are_not_kept(server):
    one = server()
    answer, digest = put(one, b"x" * 300_000, digest="ab" * 32)
    assert "not those that its digest says" in answer
    answer = order(one, "SUBMIT", {1: spec("job", source=None, f13=2, f14=digest)})
    assert "has no bundle" in answer
    with RawClient(one.port, one.token("admin"), timeout=20) as hasty:
        hasty.send("BUNDLE_PUT", {1: digest, 3: b"x"})
        assert b"nobody has asked" in hasty.receive_until("REFUSED")[1][2][0]


def test_a_digest_is_no_key_to_what_others_have_brought(server, token):
    one = server()
    answer, digest = put(one, b"x" * 5000)
    assert answer == "DONE"
    assert put(one, b"x" * 5000) == ("DONE", digest)
    team = token("--role=admin", "--job=team-*")
    with RawClient(one.port, team, timeout=20) as ctl:
        ctl.send("SUBMIT", {1: spec("team-a", source=None, f13=2, f14=digest)})
        assert b"has no bundle" in ctl.receive_until("DONE", "REFUSED")[1][2][0]
    # A node fetches what its assignment names, and nothing else.
    with Waiting(one.port, one.token("agent"), "a") as node:
        node.receive_until("WELCOME")
        node.send("FETCH", {1: digest, 3: 1000})
        assert b"names no such bundle" in node.receive_until("CHUNK")[1][8][0]
        assert order(one, "SUBMIT", {1: spec("mine", source=None, f13=2, f14=digest)}) == "DONE"
        node.assigned()
        node.send("FETCH", {1: digest, 3: 1000})
        chunk = node.receive_until("CHUNK")[1]
        assert chunk[4][0] == b"x" * 1000 and chunk[3][0] == 5000


def waits(node, other, digest):
    """What the node has asked for does not come, though what the other, whom the server gives it, asks for after that does."""
    for number in (1, 2):
        node.send("RENEW", {1: number})
        assert node.receive_until("RENEWED", "CHUNK")[0] == "RENEWED"
        other.send("FETCH", {1: digest, 3: 5000})
        other.receive_until("CHUNK")


def test_nodes_that_cannot_give_it_are_passed_over(server):
    """Independent nodes of one job: who is sent where, and what follows where that comes to nothing."""
    one = server()
    _, digest = put(one, b"x" * 5000)
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Waiting(one.port, one.token("agent"), f"n{i}", host="127.0.0.1")) for i in range(5)]
        assert order(one, "SUBMIT", {1: spec("job", sizes=(5, 5), source=None, f13=2, f14=digest)}) == "DONE"
        for node in nodes:
            node.assigned()

        def fetch(node, **more):
            node.send("FETCH", [(1, digest), (3, 5000), *((int(key[1:]), value) for key, value in more.items())])

        for node in nodes[:3]:
            fetch(node)
            assert node.receive_until("CHUNK")[1][4][0] == b"x" * 5000
        fetch(nodes[3])  # waits: three copies have left, and nobody has said that it has one
        waits(nodes[3], nodes[0], digest)
        fetch(nodes[0], f4=1, f5=4711, f6="tfe1_agent_x")
        named = nodes[3].receive_until("CHUNK")[1]
        assert (named[5][0], named[6][0], named[7][0]) == (b"127.0.0.1", 4711, b"tfe1_agent_x")
        fetch(nodes[3], f7=1)
        assert nodes[3].receive_until("CHUNK")[1][6][0] == 4711
        fetch(nodes[3], f7=1)  # twice in vain: the server gives it
        assert nodes[3].receive_until("CHUNK")[1][4][0] == b"x" * 5000
        # Who gave it works for the job no more: another one is named.
        fetch(nodes[1], f4=1, f5=4712, f6="tfe1_agent_y")
        nodes[0].sock.close()
        fetch(nodes[4])
        assert nodes[4].receive_until("CHUNK")[1][6][0] in (4711, 4712)


def test_who_says_twice_that_it_has_one_counts_once(server):
    """It says so on each connection, and each time it counted: the server gave more copies once it had none any more."""
    one = server()
    _, digest = put(one, b"x" * 5000)
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Waiting(one.port, one.token("agent"), f"n{i}")) for i in range(3)]
        assert order(one, "SUBMIT", {1: spec("job", sizes=(3, 3), source=None, f13=2, f14=digest)}) == "DONE"
        for node in nodes:
            node.assigned()
            node.send("FETCH", {1: digest, 3: 5000})
            assert node.receive_until("CHUNK")[1][4][0] == b"x" * 5000
        for _ in range(2):
            nodes[0].send("FETCH", {1: digest, 4: 1})
        nodes[0].send("FETCH", {1: digest, 3: 5000})  # three copies have left, and nobody says that it has one
        waits(nodes[0], nodes[1], digest)
