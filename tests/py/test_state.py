"""Snapshots in memory: complete or ignored, of this run and structure or ignored, and the same on all ranks."""
import json
import mmap
import os
import random
import signal
import time

import numpy as np
import pytest
from test_agree import Keys, train
from tfe import _state

RUN = "job 3"


def parts_of(step, sizes=(5, 8, 4000), kind="float32"):
    """Returns values derived from the step."""
    made = [_state.Part(f"w/{index}", "", kind, (size,), np.full(size, step * 7 + index, np.uint32).view(np.uint8))
            for index, size in enumerate(sizes)]
    text = json.dumps({"samples": step * 96}).encode()
    return [*made, _state.Part("data/.ATTRIBUTES/py_state", "", "string", (), np.frombuffer(text, np.uint8), [len(text)])]


def memory_for(parts):
    return bytearray(_state.size_of(parts))


def says_its_step(snapshot):
    expected = parts_of(snapshot.held.step)
    return [(part.name, bytes(part.data)) for part in snapshot.parts] == [(part.name, bytes(part.data)) for part in expected]


def held(memory, run=RUN):
    found = _state.Buffers(memory, run).whole()
    assert all(map(says_its_step, found))
    return [(snapshot.held.epoch, snapshot.held.step) for snapshot in found]


def test_the_two_newest_are_there_for_the_next_trainer():
    memory = memory_for(parts_of(1))
    assert held(memory) == []
    for step in (3, 4, 9):
        _state.Buffers(memory, RUN).write(7, step, parts_of(step))
    _state.Buffers(memory, RUN).write(8, 5, parts_of(5))  # a later epoch continued from an earlier step
    assert held(memory) == [(8, 5), (7, 9)]
    _state.Buffers(memory, RUN).write(8, 6, parts_of(6))
    assert held(memory) == [(8, 6), (8, 5)]


@pytest.mark.parametrize("seed", range(20))
def test_threads_copy_every_byte_and_find_the_sums_that_one_finds(seed, monkeypatch):
    chance = random.Random(seed)
    sizes = [chance.randrange(0, 700) for _ in range(chance.randrange(1, 9))]
    memory = memory_for(parts_of(3, sizes))

    def written(threads):
        monkeypatch.setattr(_state, "_threads", threads)
        memory[:] = bytes(len(memory))
        _state.Buffers(memory, RUN).write(7, 3, parts_of(3, sizes))
        return bytes(memory)
    alone = written(1)
    monkeypatch.setattr(_state, "SLICE", 64)
    monkeypatch.setattr(_state, "_pool", None)
    assert written(chance.randrange(2, 5)) == alone
    assert [bytes(part.data) for part in _state.Buffers(memory, RUN).whole()[0].parts] == [bytes(part.data) for part in parts_of(3, sizes)]


def test_another_run_sees_nothing():
    memory = memory_for(parts_of(1))
    _state.Buffers(memory, RUN).write(7, 3, parts_of(3))
    assert held(memory, "job 4") == []


def test_what_was_wiped_is_not_seen():
    memory = memory_for(parts_of(1))
    buffers = _state.Buffers(memory, RUN)
    for step in (3, 4):
        buffers.write(7, step, parts_of(step))
    buffers.wipe()
    assert held(memory) == []


def test_what_does_not_fit_in_is_refused_and_harms_nothing():
    memory = memory_for(parts_of(1))
    buffers = _state.Buffers(memory, RUN)
    buffers.write(7, 3, parts_of(3))
    with pytest.raises(ValueError, match="a snapshot of"):
        buffers.write(7, 4, parts_of(4, (5, 8, 9000)))
    assert held(memory) == [(7, 3)]


def test_a_buffer_that_is_still_read_is_not_written_to():
    memory = memory_for(parts_of(1))
    buffers = _state.Buffers(memory, RUN)
    buffers.pinned = buffers.write(7, 3, parts_of(3))
    for step in (4, 5, 6):
        buffers.write(7, step, parts_of(step))
    assert held(memory) == [(7, 6), (7, 3)]


@pytest.mark.parametrize("seed", range(8))
def test_no_torn_byte_is_ever_believed(seed):
    """After any overwrite of a complete snapshot, in header, values or directory, the snapshot is ignored."""
    chance = random.Random(seed)
    clean = memory_for(parts_of(1))
    for step in (3, 4):
        _state.Buffers(clean, RUN).write(7, step, parts_of(step))
    for _ in range(150):
        memory = bytearray(clean)
        at = chance.randrange(len(memory))
        torn = bytes(chance.randrange(256) for _ in range(chance.choice([1, 8, 100])))
        memory[at:at + len(torn)] = torn[:len(memory) - at]
        assert set(held(memory)) <= {(7, 3), (7, 4)}  # and each is unchanged


def test_no_changed_byte_of_a_header_or_directory_is_ever_believed():
    """Every byte is tried, because a flipped bit may leave a valid number or name."""
    clean = memory_for(parts_of(1))
    buffers = _state.Buffers(clean, RUN)
    for step in (3, 4):
        buffers.write(7, step, parts_of(step))
    layout = buffers.layout_of(parts_of(4))
    header, directory = _state.FIELDS.size + 4, len(layout.rows) + _state.SUM.size * len(layout.places) + _state.TAIL.size
    for index, step in ((0, 3), (1, 4)):
        first = index * _state.HEADERS // 2
        last = _state.HEADERS + index * buffers.capacity + layout.size
        for at in (*range(first, first + header), *range(last - directory, last)):
            memory = bytearray(clean)
            memory[at] ^= 1
            assert held(memory) == [(7, 7 - step)], at


def test_values_of_a_later_step_are_not_told_as_of_the_one_before():
    """Killed when a snapshot is complete except for its header: the buffer is torn, and does not count as the step that
    it had before."""
    class Dies:
        size, unpack = _state.FIELDS.size, _state.FIELDS.unpack

        def pack(self, *_):
            raise KeyboardInterrupt

    memory = memory_for(parts_of(1))
    buffers = _state.Buffers(memory, RUN)
    for step in (3, 4):
        buffers.write(7, step, parts_of(step))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_state, "FIELDS", Dies())
        buffers.write(7, 5, parts_of(5))
    assert held(memory) == [(7, 4)]


def test_a_header_says_nothing_about_a_body_of_another_structure():
    """Both are complete, of the same size and of the same run."""
    memories = [memory_for(parts_of(1)) for _ in range(2)]
    for memory, name in zip(memories, "wv"):
        parts = [part._replace(name=part.name.replace("w/", f"{name}/")) for part in parts_of(3)]
        _state.Buffers(memory, RUN).write(7, 3, parts)
    memories[0][_state.HEADERS:] = memories[1][_state.HEADERS:]
    assert _state.Buffers(memories[0], RUN).whole() == []


def test_killed_at_any_moment_the_other_buffer_is_whole():
    """A child writes as fast as it can into shared memory, and is killed."""
    parts = parts_of(1, (5, 8, 400_000))
    for delay in range(20):
        memory = mmap.mmap(-1, _state.size_of(parts))
        child = os.fork()
        if child == 0:
            buffers = _state.Buffers(memory, RUN)
            for step in range(1, 1_000_000):
                buffers.write(7, step, parts_of(step, (5, 8, 400_000)))
        deadline = time.monotonic() + 20
        while not _state.Buffers(memory, RUN).whole() and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(delay * 0.0007)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = _state.Buffers(memory, RUN).whole()
        assert found
        for snapshot in found:
            step = snapshot.held.step
            for part, expected in zip(snapshot.parts, parts_of(step, (5, 8, 400_000))):
                assert bytes(part.data) == bytes(expected.data)


def test_variables_that_are_made_later_do_not_make_a_snapshot_foreign():
    late, early = parts_of(3), parts_of(3)[1:]
    assert _state.fits(late, early)
    assert not _state.fits(early, late)
    assert not _state.fits(parts_of(3, (5, 8, 4001)), late)
    assert not _state.fits(parts_of(3, kind="int32"), late)


def offer(*held, existing="same"):
    return {"existing": existing, "held": [_state.Held(*one) for one in held]}


def test_the_newest_that_anybody_holds_is_chosen_unless_the_disk_is_newer():
    old, new = (7, 90, "d", 1, 100), (7, 95, "d", 2, 100)
    choice = _state.choose([offer(old), offer(new, old), offer(), offer(new)], (7, 80))
    assert (choice.held.step, choice.holders, choice.disk_step) == (95, [1, 3], 80)
    assert _state.choose([offer(old)], (7, 90)) is not None
    assert _state.choose([offer(old)], (7, 91)) is None
    assert _state.choose([offer(old)], (8, 2)) is None  # a later epoch has continued without it
    assert _state.choose([offer(), offer()], None) is None


def test_of_two_states_of_one_step_all_take_one():
    """They should not differ; if they do, they are never mixed."""
    choice = _state.choose([offer((7, 90, "d", 1, 100)), offer((7, 90, "d", 2, 100)), offer((7, 90, "d", 2, 101))], None)
    assert choice.holders == [1, 2] and choice.held.content == 2


def test_ranks_with_other_objects_leave_the_memory_alone():
    assert _state.choose([offer((7, 90, "d", 1, 100)), offer(existing="other")], None) is None


@pytest.mark.parametrize("seed", range(12))
def test_all_ranks_go_on_from_one_state(seed):
    """Torn, stale and foreign buffers in any mixture: all ranks make the same choice, the newest step that is complete
    on some rank."""
    chance = random.Random(seed)
    world = chance.choice([1, 2, 3, 5])
    keys, memories, best = Keys() if world > 1 else None, [], (-1, -1)
    for _ in range(world):
        memory = memory_for(parts_of(1))
        for _ in range(chance.randrange(4)):
            epoch, step = chance.randrange(5, 8), chance.randrange(50)
            _state.Buffers(memory, chance.choice([RUN, RUN, "job 2"])).write(epoch, step, parts_of(step))
        if chance.random() < 0.4:
            memory[4096 + chance.randrange(200)] ^= 1
        best = max([best, *held(memory)])
        memories.append(memory)
    disk = chance.choice([None, (6, 25)])
    chosen = [None] * world

    def restore(rank, _):
        here = [snapshot.held for snapshot in _state.Buffers(memories[rank], RUN).whole()]
        chosen[rank] = _state.agree(keys, rank, world, 0, "same", here, lambda: disk)

    train(world, 1, restore)
    assert all(choice == chosen[0] for choice in chosen)
    if best == (-1, -1) or (disk and best < disk):
        assert chosen[0] is None
    else:
        assert chosen[0].held[:2] == best
