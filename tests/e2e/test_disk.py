"""A slow disk delays no renewal, a full disk ends no training, and a damaged file is reported with its repair."""

import itertools
import json
import os
import resource
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from agents import fleet  # noqa: F401 (a fixture)
from conftest import ROOT, loading, wait_until
from pooled import Waiting, order, pool, spec
from raw_client import RawClient
from programs import is_alive

CALM = ("--gather", "0.3")


class Disk:
    """Controls the fake disk under a server: see tests/crash/faulty_disk.c."""

    def __init__(self, folder):
        self.control = folder / "disk"
        # A thread that hangs until the end has its data only on its stack.
        self.env = loading("faulty_disk", FAULTY_DISK_CONTROL=str(self.control), LSAN_OPTIONS="use_stacks=1:use_registers=1")

    def does(self, words):
        hidden = self.control.with_suffix(".new")
        hidden.write_text(words)
        hidden.rename(self.control)

    def met(self):
        """Returns how many syncs have become slow or hung."""
        try:
            return self.control.with_suffix(".met").stat().st_size
        except FileNotFoundError:
            return 0


@pytest.fixture
def disk(state_dir):
    state_dir.mkdir(mode=0o700)  # the only place from which the server can read its orders
    return Disk(state_dir)


# --- slow ---


def begins_to_write(s, disk, job):
    """Connects a ready node of a new job, whose START waits for a sync that hangs."""
    node, met = RawClient(s.port, s.token("agent"), timeout=30), disk.met()
    disk.does("hold")
    assert node.join(job, job=job)[0] == "WELCOME"
    node.ready(node.receive_until("PREPARE")[1][1][0])
    wait_until(lambda: disk.met() > met, what="a sync that hangs")
    return node


def test_a_disk_that_hangs_delays_no_renewal_and_loses_no_lease(server, disk):
    """Each sync lasts until the test ends it: a renewal that waited for one would never be answered."""
    ttl_s, numbers = 5, itertools.count(1)
    s = server(*CALM, "--ttl", str(ttl_s), env=disk.env)
    with RawClient(s.port, s.token("agent"), timeout=30) as bystander:
        assert bystander.join("bystander", job="bystander", nodes=(2, 2))[0] == "WELCOME"
        for turn in range(3):
            with begins_to_write(s, disk, f"first-{turn}") as first, RawClient(s.port, s.token("agent"), timeout=30) as second:
                met, end = disk.met(), time.monotonic() + (1.5 * ttl_s if turn == 0 else 0)
                # Events that must be stored are received too, and wait for the disk.
                assert second.join(f"second-{turn}", job=f"second-{turn}")[0] == "WELCOME"
                second.ready(second.receive_until("PREPARE")[1][1][0])
                for number in numbers:
                    for node in (bystander, first, second):
                        node.send("RENEW", {1: number})
                        name, fields = node.receive_until("RENEWED", "START")
                        assert (name, fields.get(1)) == ("RENEWED", [number]), "the epoch was not on the disk"
                    if number % 20 == 0 and time.monotonic() > end:
                        break
                    time.sleep(0.01)  # messages arrive at this pace; none waits for the disk
                assert disk.met() == met, "the sync had ended"
                disk.does("none")
                for node in (first, second):
                    node.receive_until("START")
                    node.send("GOODBYE", {1: 1})
        bystander.send("GOODBYE", {1: 1})
    assert not s.events("node_lost")


def test_a_node_of_the_pool_is_free_again_though_its_assignment_never_was_on_the_disk(server, disk):
    s = server("--ttl", "2m", env=disk.env)
    with Waiting(s.port, s.token("agent"), "a") as node, RawClient(s.port, s.token("admin"), timeout=60) as ctl:
        node.receive_until("WELCOME")
        disk.does("delay 1000")
        for name, fields in (("SUBMIT", spec("train")), ("SUSPEND", {1: "train"})):
            ctl.send(name, fields)
            assert ctl.receive_until("DONE", "REFUSED")[0] == "DONE"
        disk.does("none")
        wait_until(lambda: pool(s) == {"a": ("free", "")}, what="a free node, which was told nothing")


def test_a_server_with_a_hanging_disk_still_ends_in_time(server, disk):
    s = server(*CALM, env=disk.env)
    disk.does("delay 20000")
    with RawClient(s.port, s.token("agent")) as node:
        node.join("n")
        node.ready(node.receive_until("PREPARE")[1][1][0])
        wait_until(disk.met, what="a write that hangs")
        began = time.monotonic()
        assert s.stop() == 0
        assert time.monotonic() - began < 4  # 2 s, with tolerance for a busy machine


def test_a_hanging_disk_is_told_while_it_hangs(server, disk, health):
    """The writer thread never returns; the loop still answers and reports it."""
    s = server(*CALM, env=disk.env)
    disk.does("delay 20000")
    with RawClient(s.port, s.token("agent")) as node:
        node.join("n")
        node.ready(node.receive_until("PREPARE")[1][1][0])
        wait_until(disk.met, what="a write that hangs")
        told = wait_until(health, what="the server's word of it")
        assert [row["component"] for row in told] == ["disk"] and "does not complete" in told[0]["message"]
        assert 2000 <= told[0]["age_ms"] < 20000, "since it hangs, and only once that is long"
        assert not s.events("store_failed"), "nothing has failed yet"
        disk.does("none")
    assert s.stop() == 0


def test_a_server_whose_disk_hangs_at_the_very_end_ends_in_time(server, disk):
    """Nothing is being written; closing the database syncs the last writes."""
    s = server(*CALM, env=disk.env)
    with RawClient(s.port, s.token("agent")) as node:
        node.join("n")
        node.ready(node.receive_until("PREPARE")[1][1][0])
        node.receive_until("START")
        written = s.state_dir / "rdzv.db-wal"
        wait_until(lambda: time.time() - written.stat().st_mtime > 0.3, what="the end of all writing")
        disk.does("delay 20000")
        assert not disk.met()
        began = time.monotonic()
        assert s.stop() == 0
        assert time.monotonic() - began < 4
        assert disk.met(), "nothing hung"


# --- full ---


def test_a_full_disk_ends_no_training_and_begins_no_epoch(server, fleet, disk, ctl, health):
    s = server(*CALM, "--ttl", "3", env=disk.env)
    agents = [fleet.start("--nnodes=2:3") for _ in range(2)]
    epoch = fleet.wait_world(2)
    before = {start["pid"] for start in fleet.starts()}
    disk.does("full")
    agents.append(fleet.start("--nnodes=2:3"))
    wait_until(lambda: s.events("store_failed"), what="the alarm")
    time.sleep(4)  # longer than a lease: renewals continue
    alarm = s.events("store_failed")[0]
    assert alarm["level"] == "error" and "full" in alarm["message"] and "rdzv.db" in alarm["message"]
    assert fleet.last_epoch() == epoch and all(is_alive(pid) for pid in before)
    assert not s.events("node_lost")
    told = health()
    assert [row["component"] for row in told] == ["store"] and "full" in told[0]["message"] and told[0]["age_ms"] > 0
    assert ctl("status").stdout.startswith("server: database writes fail (")
    assert "full" not in ctl("nodes").stdout
    disk.does("none")
    fleet.wait_world(3, above=epoch)
    wait_until(lambda: s.events("store_writes_again"), what="the all-clear")  # with the next rows of the ledger
    wait_until(lambda: health() == [], what="good health")
    told = [row for row in json.loads(ctl("events", "--json").stdout)["events"] if row["kind"].startswith("store_")]
    assert [told[0]["level"], told[-1]["level"]] == ["error", "info"] and "full" in told[0]["message"]
    fleet.order("exit 0")
    assert [a.wait() for a in agents] == [0] * 3
    s.stop()
    check_database(s.state_dir)


def test_a_quota_that_the_disk_refused_is_that_of_before(server, disk, ctl):
    s = server(env=disk.env)
    quota = ("token", "create", "--role=admin", "--job=a-*")
    assert ctl(*quota, "--quota=3").returncode == 0
    disk.does("full")
    done = ctl(*quota, "--quota=2", "--label=lost")
    assert done.returncode != 0 and "full" in done.stderr, done.stderr
    disk.does("none")
    assert "lost" not in ctl("token", "list").stdout
    assert order(s, "SUBMIT", spec("a-1", sizes=(3, 3))) == "DONE"
    assert "quota of jobs a-* is 3" in order(s, "SUBMIT", spec("a-2", sizes=(4, 4)))


def test_a_server_that_came_late_says_so(server, fleet, ctl, health):
    s = server("--ttl", "3", "--gather", "0.3")
    agent = fleet.start()
    fleet.wait_world(1)
    assert health() == []
    os.kill(s.pid, signal.SIGSTOP)
    time.sleep(5)  # past the lease, which would have expired by then
    began = time.monotonic()
    os.kill(s.pid, signal.SIGCONT)

    def new():  # a busy machine may have made the server late before
        rows = json.loads(ctl("status", "--json").stdout)["health"]
        return [row for row in rows if row["age_ms"] <= (time.monotonic() - began) * 1000]
    told = wait_until(new, what="the confession")
    assert [row["component"] for row in told] == ["late"]
    assert "overloaded" in ctl("status").stdout.splitlines()[0] and not s.events("node_lost")
    fleet.order("exit 0")
    assert agent.wait() == 0


def check_database(state_dir):
    with sqlite3.connect(state_dir / "rdzv.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_a_file_that_may_not_grow_is_a_full_disk_too(server, fleet, state_dir):
    """The kernel's limit ends a process by SIGXFSZ unless it handles the signal."""
    s = server(*CALM)
    agent = fleet.start("--nnodes=1:2")
    epoch = fleet.wait_world(1)
    limit = (state_dir / "rdzv.db-wal").stat().st_size
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    other = fleet.start("--nnodes=1:2")
    wait_until(lambda: s.events("store_failed"), what="the alarm")
    assert is_alive(s.pid) and fleet.last_epoch() == epoch
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    fleet.wait_world(2, above=epoch)
    fleet.order("exit 0")
    assert [agent.wait(), other.wait()] == [0, 0]
    s.stop()
    check_database(state_dir)


# --- damaged ---


PAGE = 4096


def damage(path, how):
    """Damages the file in one of several ways."""
    data = bytearray(path.read_bytes())
    if how == "header":
        data[:100] = os.urandom(100)
    elif how == "cut":
        del data[len(data) // 2 // PAGE * PAGE:]
    elif how == "ledger":
        # Pages of the ledger's rows, found by a word that only they contain.
        hit = [n for n in range(2 * PAGE, len(data), PAGE) if data[n:n + PAGE].count(b"from-the-ledger") > 5]
        assert hit
        for n in hit[-1:]:  # not the root page of the tree
            data[n:n + PAGE] = os.urandom(PAGE)
    path.write_bytes(data)


def fill_ledger(path, rows):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        columns = [c[1] for c in db.execute("PRAGMA table_info(ledger)")]
        for i in range(rows):
            values = {c: 1 for c in columns}
            values.update(job="old", epoch=i + 1, blamed="from-the-ledger" * 4)
            db.execute(f"INSERT INTO ledger({','.join(columns)}) VALUES({','.join('?' * len(columns))})",
                       [values[c] for c in columns])
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


@pytest.mark.parametrize("how", ["header", "cut", "ledger"])
def test_a_damaged_file_is_refused_and_can_be_salvaged(server, fleet, state_dir, how):
    """Salvages the file by sqlite3, as docs/operations.md describes."""
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:2") for _ in range(2)]
    epoch = fleet.wait_world(2)
    before = {start["pid"] for start in fleet.starts()}
    assert s.stop() == 0
    path = state_dir / "rdzv.db"
    fill_ledger(path, 400)
    damage(path, how)
    spoilt = path.read_bytes()

    refused = server(*CALM, port=s.port, ready=False)
    assert refused.process.wait(30) == 1
    said = refused.log.read_text()
    assert "damaged" in said and str(path) in said and ".recover" in said
    assert path.read_bytes() == spoilt

    commands = [line[4:] for line in (ROOT / "docs/operations.md").read_text().splitlines() if line.startswith("    ") and "rdzv.db" in line]
    commands = [line for line in commands if ".recover" not in line]  # Debian 12's sqlite3 has no .recover
    assert len(commands) == 6, commands
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=state_dir, check=True, timeout=60)
    s = server(*CALM, port=s.port)
    if how == "header":
        wait_until(lambda: s.events("rebuilt"), what="the job's return from what its agents know")
    else:  # its row precedes the damage
        wait_until(lambda: len(s.events("node_back")) == 2, what="their return")
    assert all(is_alive(pid) for pid in before) and fleet.last_epoch() == epoch
    fleet.order("exit 0")
    assert [a.wait() for a in agents] == [0, 0]
    assert s.stop() == 0
    check_database(state_dir)


def test_a_bad_record_sets_one_job_aside_and_stops_no_other(server, fleet, status, state_dir):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:2") for _ in range(2)]
    epoch = fleet.wait_world(2)
    before = {start["pid"] for start in fleet.starts()}
    assert s.stop() == 0
    with sqlite3.connect(state_dir / "rdzv.db") as db:
        db.executescript("INSERT INTO jobs SELECT 'short', epoch, sequence, incarnation, substr(record, 1, 60) FROM jobs;"
                         "INSERT INTO jobs SELECT 'poisoned', epoch, sequence, incarnation, x'00' FROM jobs WHERE name = 'default';")
    db.close()

    for why in ({"poisoned": "its record cannot be read", "short": "its record cannot be read"},
                {"poisoned": "it was set aside earlier", "short": "it was set aside earlier"}):
        s = server(*CALM, port=s.port)
        assert {e["job"]: e["reason"] for e in s.events("job_set_aside")} == why
        wait_until(lambda: len(s.events("node_back")) == 2, what="their return")
        states = {job["job"]: job["state"] for job in status()}
        assert sorted(states.values()) == ["running", "set_aside", "set_aside"] and states["poisoned"] == "set_aside"
        assert fleet.last_epoch() == epoch and all(is_alive(pid) for pid in before)
        if "cannot be read" in why["poisoned"]:
            assert s.stop() == 0
    fleet.order("exit 0")
    assert [a.wait() for a in agents] == [0, 0]
    assert s.stop() == 0
    with sqlite3.connect(state_dir / "rdzv.db") as db:
        assert db.execute("SELECT record FROM jobs WHERE name = '!poisoned'").fetchall() == [(b"\0",)]
    db.close()


# --- backup ---


def test_a_server_that_is_killed_while_it_makes_a_backup(server, disk, ctl, tmp_path):
    """The copy gets its name only when it is complete; leftovers are removed by the next backup."""
    folder = tmp_path / "copies"
    copy = folder / "copy.db"
    s = server("--backup-dir", str(folder), env=disk.env)
    disk.does("delay 5000")
    asking = threading.Thread(target=ctl, args=("backup", "copy.db"))
    asking.start()
    wait_until(lambda: folder.exists() and list(folder.iterdir()), what="the backup to begin")
    assert s.stop(signal.SIGKILL) == -signal.SIGKILL
    asking.join()
    left = sorted(path.name for path in folder.iterdir())
    assert left and all(name.startswith(".copy.db.part") for name in left)
    disk.does("none")
    server("--backup-dir", str(folder), env=disk.env)
    done = ctl("backup", "copy.db")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["copy.db"]
    db = sqlite3.connect(copy)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
