"""What a job's epochs cost: tfe-ctl epochs, and copies of what the server keeps: tfe-ctl backup."""

import csv
import io
import json
import signal
import sqlite3

from agents import fleet  # noqa: F401 (a fixture)
from conftest import wait_until

CALM = ("--gather", "0.3")


def epochs(ctl, job="default"):
    done = ctl("epochs", job, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def three_epochs(fleet):
    """2 nodes, then 1 because the other was lost, then 2 again; the label of the lost one."""
    a = fleet.start("--nnodes=1:2", "--node-name=a", "--gather=2")
    b = fleet.start("--nnodes=1:2", "--node-name=b", "--gather=2")
    first = fleet.wait_world(2)
    b.send(signal.SIGTERM)
    assert b.wait() == 143
    second = fleet.wait_world(1, above=first)
    c = fleet.start("--nnodes=1:2", "--node-name=c")
    fleet.wait_world(2, above=second)
    return [a, c]


def test_the_ledger_of_a_job_that_has_ended(server, fleet, ctl):
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
    assert [row["nodes"] for row in rows] == [2, 1, 2]
    assert rows[1]["blamed"] == "b" and rows[0]["blamed"] is None
    assert rows[0]["cause"] == "start" and rows[2]["cause"] == "joined"
    assert [row["run"] for row in rows] == [1, 1, 1]
    assert all(a["epoch"] < b["epoch"] for a, b in zip(rows, rows[1:]))
    for row in rows:
        assert row["committed_ms"] <= row["started_ms"] + 1 and row["started_ms"] <= row["ended_ms"]
        assert row["over"] and row["running_ms"] is not None and row["running_ms"] >= 0
    for before, row in zip(rows, rows[1:]):
        assert 0 <= row["standstill_ms"] < 60000
        assert row["committed_ms"] > before["committed_ms"]
    total = ledger["total"]
    assert abs(total["running_ms"] - sum(row["running_ms"] for row in rows)) <= 1
    assert total["standstill_ms"] == sum(row["standstill_ms"] for row in rows)
    assert sum(total["standstill_ms_by_cause"].values()) == total["standstill_ms"]
    assert 0 < total["useful_permille"] <= 1000

    table = ctl("epochs", "default")
    assert table.returncode == 0
    lines = table.stdout.splitlines()
    assert lines[0].split()[:3] == ["EPOCH", "BEGAN", "NODES"] and len(lines) == 5
    assert lines[-1].startswith("total: running ") and "useful " in lines[-1]
    sheet = ctl("epochs", "default", "--csv")
    read = list(csv.DictReader(io.StringIO(sheet.stdout)))
    assert [int(line["epoch"]) for line in read] == [row["epoch"] for row in rows]
    assert [line["committed_ms"] for line in read] == [str(row["committed_ms"]) for row in rows]


def test_history_is_forgotten_after_its_time(server, fleet, ctl):
    s = server(*CALM)
    agents = three_epochs(fleet)
    wait_until(lambda: len(epochs(ctl)["epochs"]) == 3, what="three rows")
    assert s.stop() == 0
    s = server(*CALM, "--keep-history", "1ms", port=s.port)
    # What runs is remembered, however old it is.
    wait_until(lambda: [row["nodes"] for row in epochs(ctl)["epochs"]] == [2], what="pruning")
    fleet.order("exit 0")
    assert [agent.wait() for agent in agents] == [0, 0]


def test_questions_without_an_answer(server, ctl):
    server()
    done = ctl("epochs", "nobody")
    assert done.returncode == 1 and 'no job "nobody"' in done.stderr
    assert ctl("epochs").returncode == 2
    assert ctl("epochs", "a", "--json", "--csv").returncode == 2
    assert ctl("epochs", "not/an/id").returncode == 2


def test_backup_while_the_job_runs_is_a_whole_server(server, fleet, ctl, tmp_path, state_dir):
    s = server(*CALM)
    agents = [fleet.start("--nnodes=2:2") for _ in range(2)]
    epoch = fleet.wait_world(2)
    copy = tmp_path / "copy.db"
    done = ctl("backup", str(copy))
    assert done.returncode == 0, done.stderr
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.glob("copy.db*")) == ["copy.db"]
    with sqlite3.connect(f"file:{copy}?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT job, epoch, n_members FROM jobs").fetchall() == [("default", epoch, 2)]
    db.close()

    again = ctl("backup", str(copy))
    assert again.returncode == 2 and "nothing was overwritten" in again.stderr
    nowhere = ctl("backup", str(tmp_path / "no" / "where"))
    assert nowhere.returncode == 1 and "no such file" in nowhere.stderr
    assert ctl("backup", "relative.db").returncode == 2
    observer = ctl("backup", str(tmp_path / "other.db"), "--token-file", str(state_dir / "observer.token"))
    assert observer.returncode == 77 and not (tmp_path / "other.db").exists()

    # Another machine takes its place with the copy and the key.
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
    done = ctl("backup", str(tmp_path / "copy.db"))
    assert done.returncode == 2 and "--ephemeral" in done.stderr
    fleet.order("exit 0")
    assert agent.wait() == 0
