"""All ranks save after the same step, whenever each of them receives the request. Steps are real barriers of
threads."""
import random
import threading
import time

import pytest
from tfe._agree import Agreement, Pace, Timetable


class Keys:
    """Replaces TensorFlow's coordination service within one process. far: delay of a response."""

    def __init__(self, far=0.0):
        self.values, self.changed, self.far = {}, threading.Condition(), far

    def set(self, key, value):
        time.sleep(self.far)
        with self.changed:
            is_first = key not in self.values
            self.values.setdefault(key, value)
            self.changed.notify_all()
            return is_first

    def get(self, key, timeout_s):
        time.sleep(min(self.far, timeout_s))
        if timeout_s < self.far:
            return None
        with self.changed:
            self.changed.wait_for(lambda: key in self.values, timeout_s)
            return self.values.get(key)


def train(world, steps, body):
    """Runs body(rank, step) on a thread per rank; no rank ends a step before all have begun it, as in an all-reduce."""
    gate = threading.Barrier(world)
    wrong = []

    def run(rank):
        try:
            for step in range(1, steps + 1):
                gate.wait(20)
                body(rank, step)
        except Exception as error:
            wrong.append(error)
            gate.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


@pytest.mark.parametrize("seed", range(12))
def test_all_ranks_save_after_the_same_step(seed):
    chance = random.Random(seed)
    world, steps = chance.choice([2, 3, 5]), 40
    keys = Keys()
    ranks = [Agreement(keys, rank, world) for rank in range(world)]
    # Each rank receives request "1", and "2" some steps later, at a random step.
    hears = [{"1": chance.randint(1, 9), "2": chance.randint(10, 20)} for _ in range(world)]
    saved = [{} for _ in range(world)]

    def body(rank, step):
        time.sleep(random.random() * 0.002)
        for wish in ranks[rank].after_step(step, [wish for wish, at in hears[rank].items() if step >= at]):
            assert wish not in saved[rank]
            saved[rank][wish] = step

    train(world, steps, body)
    for wish in "12":
        at = {mine[wish] for mine in saved}
        assert len(at) == 1
        last_to_hear = max(mine[wish] for mine in hears)
        assert last_to_hear < at.pop() <= last_to_hear + 2


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_that_wait_at_one_step_save_there(world):
    keys = Keys()
    ranks = [Agreement(keys, rank, world) for rank in range(world)]
    saved = {}

    def body(rank, step):
        assert ranks[rank].after_step(step, []) == []
        deadline = time.monotonic() + 10
        while step == 3 and rank not in saved and time.monotonic() < deadline:
            time.sleep(0.005)
            if ranks[rank].after_step(step, ["1"]):
                saved[rank] = step

    train(world, 3, body)
    assert saved == dict.fromkeys(range(world), 3)


def test_a_slow_service_lets_nobody_miss_the_step():
    """Regression: a rank asked for the step with a limit of 1 ms; if the response took longer, the rank continued alone
    and hung."""
    keys = Keys(far=0.005)
    ranks = [Agreement(keys, rank, 3) for rank in range(3)]
    saved = {}

    def body(rank, step):
        if ranks[rank].after_step(step, ["1"] if step > rank else []):
            saved[rank] = step

    train(3, 12, body)
    assert len(saved) == 3 and len(set(saved.values())) == 1, saved


def test_one_rank_alone_saves_at_once():
    alone = Agreement(None, 0, 1)
    assert alone.after_step(1, []) == []
    assert alone.after_step(2, ["1"]) == ["1"]
    assert alone.after_step(3, ["1"]) == []  # answered


def test_a_rank_that_is_never_asked_holds_nobody_up_for_long():
    now = [0.0]
    keys = Keys()
    first = Agreement(keys, 0, 2, clock=lambda: now[0])
    began = time.monotonic()
    for step in range(1, 30):
        assert first.after_step(step, ["1"]) == []
        now[0] += 2
    assert time.monotonic() - began < 5
    keys.set("tfe/heard/1/1", "30")
    assert first.after_step(30, ["1"]) == []  # too late


def test_a_service_that_is_gone_is_left_to_the_next_step():
    class Gone:
        def set(self, key, value):
            raise ConnectionError

        get = set
    for rank in (0, 1):
        assert Agreement(Gone(), rank, 2).after_step(1, ["1"]) == []


def test_a_settled_wish_is_over():
    alone = Agreement(None, 0, 1)
    alone.settle("4")
    assert alone.after_step(1, ["4"]) == []


def test_saving_by_the_clock_is_at_the_same_steps_for_all():
    world, steps, step_s, every_s = 3, 120, 0.0025, 0.05
    keys, now = Keys(), [0.0]
    tables = [Timetable(keys, rank, every_s, 0, clock=lambda skew=rank * 1000: now[0] + skew) for rank in range(world)]
    saved = [[] for _ in range(world)]

    def body(rank, step):
        time.sleep(random.random() * 0.002)
        if rank == 0:
            now[0] += step_s
        if tables[rank].is_due(step):
            saved[rank].append(step)
            tables[rank].saved(step)

    train(world, steps, body)
    passed = steps * step_s
    assert saved[0] == saved[1] == saved[2]
    assert 2 <= len(saved[0]) <= passed / every_s + 1
    assert len(keys.values) < steps / 2  # it does not ask at every step


def test_what_the_disk_lacks_at_the_start_is_written_first_and_then_by_the_interval():
    now = [100.0]
    table = Timetable(None, 0, 60.0, 40, lambda: now[0])
    table.make_due()
    saved = []
    for step in range(41, 241):
        now[0] += 1.0
        if table.is_due(step):
            table.saved(step)
            saved.append(step)
    assert saved[:3] == [41, 101, 161]


@pytest.mark.parametrize("cost_s, step_s, every", [(0.0001, 0.1, 1), (0.01, 0.1, 9), (0.5, 0.1, 417)])
def test_snapshots_cost_less_than_a_fiftieth_of_the_time(cost_s, step_s, every):
    now = [100.0]
    pace = Pace(None, 0, None, 40, lambda: now[0])
    spent, begun, taken = 0.0, None, []
    for step in range(41, 4000):
        now[0] += step_s
        if pace.is_due(step):
            now[0] += cost_s
            pace.took(cost_s)
            taken.append(step)
            spent += cost_s if begun else 0.0
        if step == 1000:
            begun = now[0]
    assert taken[0] == 41 and pace.every == every
    assert spent / (now[0] - begun) <= 0.02


@pytest.mark.parametrize("cost_s, after_s", [(0.002, 0.004), (0.01, 0.01), (0.03, 0.0)])
def test_what_a_snapshot_costs_the_next_step_counts(cost_s, after_s):
    """Regression: a copy evicts the training's data from the caches; that costs another percent, which was not
    measured."""
    now, chance = [100.0], random.Random(7)
    pace, lost, begun, was_taken = Pace(None, 0, None, 40, lambda: now[0]), 0.0, 0.0, False
    for step in range(41, 6000):
        now[0] += 0.02 * chance.uniform(0.97, 1.03) + (after_s if was_taken else 0.0)
        was_taken = pace.is_due(step)
        if was_taken:
            now[0] += cost_s
            pace.took(cost_s)
            lost += cost_s + after_s if begun else 0.0
        if step == 1000:
            begun = now[0]
    assert 0.01 < lost / (now[0] - begun) <= 0.02


def test_snapshots_are_as_many_where_only_some_steps_are_asked_about():
    """Regression: every tenth step, counted from a step that was not offered, was never offered."""
    now, taken = [100.0], []
    pace = Pace(None, 0, None, 0, lambda: now[0])
    for step in range(2, 2000, 2):
        now[0] += 2 / 51  # so that the pace is determined again every 51 steps
        if pace.is_due(step):
            now[0] += 0.2 / 51
            pace.took(0.2 / 51)
            taken.append(step)
    assert pace.every in (16, 17)
    assert max(late - early for early, late in zip(taken[10:], taken[11:])) <= 18


@pytest.mark.parametrize("fixed", [None, 3])
def test_all_ranks_take_a_snapshot_of_the_same_steps(fixed):
    keys, taken = Keys(), [[], [], []]
    ranks = [Pace(keys, rank, fixed, 10) for rank in range(3)]

    def step_of(rank, step):
        if ranks[rank].is_due(10 + step):
            taken[rank].append(10 + step)
            time.sleep(0.0002)
            ranks[rank].took(0.0002 * (rank + 1))  # each rank measures another cost

    train(3, 300, step_of)
    assert taken[0] == taken[1] == taken[2] and taken[0][0] == 11
    assert fixed is None or taken[0][1:] == list(range(12, 311, 3))
