"""The cost of a job's epochs: tfe-ctl epochs, and copies of the server's database: tfe-ctl backup."""

import csv
import io
import json
import pathlib
import signal
import sqlite3
import time

from agents import fleet  # noqa: F401 (a fixture)
from bystander import noise  # noqa: F401 (a fixture)
from conftest import wait_until

CALM = ("--gather", "0.3")
TALKER = str(pathlib.Path(__file__).with_name("talker.py"))
TOLD_S = 0.1  # delay between a trainer's action and its time in the ledger


def epochs(ctl, job="default"):
    done = ctl("epochs", job, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def three_epochs(fleet):
    """Runs 2 nodes, then 1 because the other was lost, then 2 again; returns the label of the lost one."""
    def start(name, *options):
        return fleet.start("--nnodes=1:2", f"--node-name={name}", *options, command=[TALKER, str(fleet.folder)])

    a, b = (start(name, "--gather=2") for name in "ab")
    first = fleet.wait_world(2)
    b.send(signal.SIGINT)
    assert b.wait() == 130
    second = fleet.wait_world(1, above=first)
    c = start("c")
    fleet.wait_world(2, above=second)
    return [a, c]


def lived(fleet, row):
    """Returns the Unix times of an epoch's first step and of its end, from the trainers' own logs: the end is the first
    trainer that is stopped, or the last that succeeds."""
    own = [line for line in fleet.lines() if line["epoch"] == row["epoch"]]
    ends = [line["time"] for line in own if line["event"] == "end"]
    is_stopped = any(line["event"] == "stop" for line in own)
    return (min(line["time"] for line in own if line["event"] == "checkpoint" and line["step"] == 1),
            min(ends) if is_stopped else max(ends))


def test_the_ledger_of_a_job_that_has_ended(server, fleet, ctl, noise):
    s = server(*CALM)
    agents = three_epochs(fleet)
    assert s.stop(signal.SIGKILL) == -signal.SIGKILL
    s = server(*CALM, port=s.port)
    wait_until(lambda: len(s.events("node_back")) == 2, what="their return")
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]
    wait_until(lambda: epochs(ctl)["epochs"][-1]["over"], what="the end in the ledger")
    ledger = epochs(ctl)
    rows = ledger["epochs"]
    assert [row["members"] for row in rows] == [2, 1, 2]
    assert rows[1]["blamed"] == "b" and rows[0]["blamed"] is None
    assert [row["cause"] for row in rows] == ["start", "interrupted", "joined"]
    assert [row["run"] for row in rows] == [1, 1, 1]
    assert all(a["epoch"] < b["epoch"] for a, b in zip(rows, rows[1:]))
    for row in rows:
        assert row["committed_ms"] <= row["started_ms"] + 1 and row["started_ms"] <= row["ended_ms"]
        assert row["over"] and row["running_ms"] is not None and row["running_ms"] >= 0
    times = [lived(fleet, row) for row in rows]
    print([(row["running_ms"], row["standstill_ms"]) for row in rows], times)
    bound_ms = noise.bound(TOLD_S) * 1000
    for row, (began, ended) in zip(rows, times):
        assert abs(row["running_ms"] - (ended - began) * 1000) < bound_ms, (row, began, ended)
    for before, row, (_, ended), (began, _) in zip(rows, rows[1:], times, times[1:]):
        assert abs(row["standstill_ms"] - (began - ended) * 1000) < bound_ms, (row, ended, began)
        assert row["committed_ms"] > before["committed_ms"]
    total = ledger["total"]
    assert abs(total["running_ms"] - sum(row["running_ms"] for row in rows)) <= 1
    assert total["standstill_ms"] == sum(row["standstill_ms"] for row in rows)
    assert sum(total["standstill_ms_by_cause"].values()) == total["standstill_ms"]
    assert 0 < total["useful_permille"] <= 1000
    assert not any(row["standstill_at_least"] for row in rows) and ledger["now"] is None

    table = ctl("epochs", "default")
    assert table.returncode == 0
    lines = table.stdout.splitlines()
    assert lines[0].split()[:4] == ["RUN", "EPOCH", "BEGAN", "NODES"] and len(lines) == 5
    assert lines[-1].startswith("total: running ") and "useful " in lines[-1]
    sheet = ctl("epochs", "default", "--csv")
    read = list(csv.DictReader(io.StringIO(sheet.stdout)))
    assert [int(line["epoch"]) for line in read] == [row["epoch"] for row in rows]
    assert [line["committed_ms"] for line in read] == [str(row["committed_ms"]) for row in rows]


def test_a_standstill_counts_while_it_lasts(server, fleet, ctl):
    server(*CALM)
    stayer, leaver = (fleet.start("--nnodes=2:2", f"--node-name={name}", command=[TALKER, str(fleet.folder)])
                      for name in "ab")
    first = fleet.wait_world(2)
    wait_until(lambda: epochs(ctl)["epochs"][0]["progressed_ms"], what="a step")
    leaver.send(signal.SIGKILL)
    leaver.wait()
    told = wait_until(lambda: [now for now in [epochs(ctl)["now"]] if now and now["state"] == "waiting"],
                      what="the standstill")[0]
    assert "1 more node" in told["waits"]
    later = wait_until(lambda: [e for e in [epochs(ctl)] if e["now"]["standstill_ms"] > told["standstill_ms"] + 500],
                       what="a longer one")[0]
    total = later["total"]
    assert total["standstill_at_least"] and total["standstill_ms_by_cause"] == {"now": total["standstill_ms"]}
    assert total["useful_permille"] < 1000
    table = ctl("epochs", "default").stdout.splitlines()
    assert table[-2].startswith("now: no training for ") and "1 more node" in table[-2]
    assert ", standstill >= " in table[-1]
    fleet.start("--nnodes=2:2", "--node-name=c", command=[TALKER, str(fleet.folder)])
    fleet.wait_world(2, above=first)
    rows = wait_until(lambda: [e for e in [epochs(ctl)] if e["epochs"][-1]["progressed_ms"]], what="the end of it")[0]
    assert rows["now"] is None and rows["epochs"][-1]["standstill_ms"] > told["standstill_ms"] + 500
    assert not rows["total"]["standstill_at_least"]
    fleet.order("exit 0")
    assert stayer.wait() == 0


def test_a_script_that_fails_each_time_was_of_no_use(server, fleet, ctl):
    server(*CALM)
    agent = fleet.start("--max-restarts=1", trainer=["--exit", "3"])
    assert agent.wait() == 1
    ledger = wait_until(lambda: [e for e in [epochs(ctl)] if e["epochs"][-1]["over"]], what="its end")[0]
    assert [row["running_ms"] for row in ledger["epochs"]] == [0, 0]
    assert ledger["total"]["useful_permille"] == 0 and ledger["now"] is None


def test_history_is_forgotten_after_its_time(server, fleet, ctl):
    s = server(*CALM)
    agents = three_epochs(fleet)
    wait_until(lambda: len(epochs(ctl)["epochs"]) == 3, what="three rows")
    assert s.stop() == 0
    s = server(*CALM, "--keep-history", "1ms", port=s.port)
    # A running epoch is never pruned, however old it is.
    wait_until(lambda: [row["members"] for row in epochs(ctl)["epochs"]] == [2], what="pruning")
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]


def test_a_long_ledger_comes_whole(server, ctl, state_dir):
    """Several pages of the store and several batches of the channel."""
    s = server()
    assert s.stop() == 0
    with sqlite3.connect(state_dir / "rdzv.db") as db:
        names = ("job, epoch, run, cause, blamed, planned, members, detected, stopped, gathered, committed, started, listening, progressed,"
                 " ended, saved_step, lost_steps, over, touched_ms, restarts, failed")
        db.executemany(f"INSERT INTO ledger({names}) "
                       "VALUES('long', ?, 1, 1, ?, 0, 2, 0, 0, 0, 1, 2, 3, 0, 0, NULL, 7, 1, 9, 0, 0)",
                       [(epoch, "n" * 200) for epoch in range(1, 1001)])
    db.close()
    server("--keep-history", "0")
    rows = epochs(ctl, "long")["epochs"]
    assert [row["epoch"] for row in rows] == list(range(1, 1001))
    assert {(row["blamed"], row["saved_step"], row["lost_steps"]) for row in rows} == {("n" * 200, None, 7)}


def test_questions_without_an_answer(server, ctl):
    server()
    done = ctl("epochs", "nobody")
    assert done.returncode == 1 and 'no job "nobody"' in done.stderr
    done = ctl("epochs")
    assert done.returncode == 1 and "no job" in done.stderr
    assert ctl("epochs", "a", "--json", "--csv").returncode == 2
    assert ctl("epochs", "not/an/id").returncode == 2


def test_backup_while_the_job_runs_is_a_whole_server(server, fleet, ctl, tmp_path, state_dir):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:2") for _ in range(2)]
    epoch = fleet.wait_world(2)
    copy = state_dir / "backups" / "copy.db"
    done = ctl("backup", "copy.db")
    assert done.returncode == 0, done.stderr
    assert copy.stat().st_mode & 0o777 == 0o600 and copy.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in copy.parent.iterdir()] == ["copy.db"]
    with sqlite3.connect(f"file:{copy}?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT name, epoch FROM jobs").fetchall() == [("default", epoch)]
    db.close()

    again = ctl("backup", "copy.db")
    assert again.returncode == 2 and "nothing was overwritten" in again.stderr
    for path in (tmp_path / "other.db", "a/b", "..", ".hidden"):
        assert ctl("backup", str(path)).returncode == 2
    (copy.parent / "link").symlink_to(tmp_path / "other.db")
    assert ctl("backup", "link").returncode == 2 and not (tmp_path / "other.db").exists()
    observer = ctl("backup", "other.db", "--token-file", str(state_dir / "observer.token"))
    assert observer.returncode == 77 and not (copy.parent / "other.db").exists()

    # Another machine replaces it with the copy and the key.
    assert s.stop(signal.SIGKILL) == -signal.SIGKILL
    for name in ("rdzv.db", "rdzv.db-wal"):
        (state_dir / name).unlink()
    copy.rename(state_dir / "rdzv.db")
    s = server(*CALM, port=s.port)
    wait_until(lambda: len(s.events("node_back")) == 2, what="their return")
    assert fleet.last_epoch() == epoch
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]


def test_an_ephemeral_server_has_a_ledger_but_no_backup(server, fleet, ctl, tmp_path):
    server(*CALM, "--ephemeral")
    agent = fleet.start()
    fleet.wait_world(1)
    wait_until(lambda: len(epochs(ctl)["epochs"]) == 1, what="a row")
    done = ctl("backup", "copy.db")
    assert done.returncode == 2 and "--ephemeral" in done.stderr
    fleet.order("exit 0")
    assert agent.wait() == 0


def test_a_damaged_row_hides_itself_and_not_the_rows_after_it(server, ctl, state_dir):
    """The server reads 100 epochs, or 200 events, at a time."""
    server().stop()
    with sqlite3.connect(state_dir / "rdzv.db") as db:
        epochs = [r[1] for r in db.execute("PRAGMA table_info(ledger)")]
        events = [r[1] for r in db.execute("PRAGMA table_info(events)")]
        now_ms = int(time.time() * 1000)  # older rows are removed
        texts = {"blamed": "", "kind": "epoch", "node": "", "name": "", "says": "x"}
        for table, columns, key, n in (("ledger", epochs, "epoch", 150), ("events", events, "number", 450)):
            for i in range(1, n + 1):
                row = [i if c == key else "old" if c == "job" else now_ms if c in ("at", "touched_ms") else texts.get(c, 1) for c in columns]
                db.execute(f"INSERT INTO {table} VALUES({', '.join('?' * len(row))})", row)
        db.execute("UPDATE ledger SET blamed = x'00' WHERE epoch = 50")
        db.execute("UPDATE events SET says = x'00' WHERE number IN (50, 250)")
    db.close()
    server()
    assert [e["epoch"] for e in json.loads(ctl("epochs", "--json", "old").stdout)["epochs"]] == [i for i in range(1, 151) if i != 50]
    shown = [e["number"] for e in json.loads(ctl("events", "--json", "--last=1000", "old").stdout)["events"]]
    assert shown[:448] == [i for i in range(1, 451) if i not in (50, 250)]
