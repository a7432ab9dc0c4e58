"""Which rank may save, and which checkpoint is the newest."""
import threading

import pytest
from tfe._directory import FOREIGN, Directory, Saved, StaleEpochError, newest


def touch(path, *names):
    for name in names:
        (path / name).touch()


def test_newest_is_the_highest_epoch_then_the_highest_step(tmp_path):
    touch(tmp_path, "ckpt-2-100.index", "ckpt-10-7.index", "ckpt-10-12.index", "ckpt-9-900.index")
    assert Directory(str(tmp_path)).saved()[:2] == [Saved(10, 12), Saved(10, 7)]
    assert newest(tmp_path) == str(tmp_path / "ckpt-10-12")


def test_tensorflows_own_are_older_than_all_others(tmp_path):
    touch(tmp_path, "ckpt-90.index", "ckpt-100.index", "checkpoint")
    assert newest(tmp_path) == str(tmp_path / "ckpt-100")
    assert Directory(str(tmp_path)).epoch() == 0
    touch(tmp_path, "ckpt-0-5.index")
    assert Directory(str(tmp_path)).saved() == [Saved(0, 5), Saved(FOREIGN, 100), Saved(FOREIGN, 90)]


def test_other_names_are_another_managers(tmp_path):
    touch(tmp_path, "ckpt-2-10.index", "best.1-2-7.index", "bestX1-2-9.index", "best.1-3.index")
    assert newest(tmp_path, "best.1") == str(tmp_path / "best.1-2-7")
    assert [saved.name for saved in Directory(str(tmp_path), "best.1").saved()] == ["best.1-2-7", "best.1-3"]
    assert newest(tmp_path) == str(tmp_path / "ckpt-2-10")


def test_half_written_and_foreign_files_are_no_checkpoints(tmp_path):
    touch(tmp_path, "ckpt-3-40.data-00000-of-00001", "ckpt-5.meta", "ckpt-1-2-3.index", "ckpt--1-5.index", "checkpoint")
    (tmp_path / "ckpt-4-60_temp").mkdir()
    assert newest(tmp_path) is None
    assert newest(tmp_path / "missing") is None
    assert Directory(str(tmp_path)).epoch() == 0


def test_a_later_epoch_keeps_earlier_ones_out(tmp_path):
    here = Directory(str(tmp_path / "made"))
    here.claim(5)
    here.check(5)
    here.claim(6)
    with pytest.raises(StaleEpochError, match="epoch 6 has saved here.* epoch 5"):
        here.check(5)
    with pytest.raises(StaleEpochError):
        here.claim(5)
    here.claim(6)
    assert here.names() == ["tfe-epoch-6"]


def test_a_checkpoint_keeps_earlier_epochs_out_even_without_its_marker(tmp_path):
    touch(tmp_path, "ckpt-8-20.index")
    with pytest.raises(StaleEpochError):
        Directory(str(tmp_path)).check(7)


def test_claims_at_the_same_time_end_with_the_highest(tmp_path):
    refused = []

    def claim(epoch):
        try:
            Directory(str(tmp_path)).claim(epoch)
        except StaleEpochError:
            refused.append(epoch)

    threads = [threading.Thread(target=claim, args=(epoch,)) for epoch in range(1, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Directory(str(tmp_path)).epoch() == 29
    assert 29 not in refused


def test_without_an_agent_nobody_is_kept_out(tmp_path):
    Directory(str(tmp_path)).claim(0)
    assert not list(tmp_path.iterdir())


def test_remove_takes_one_checkpoint_only(tmp_path):
    touch(tmp_path, "ckpt-1-2.index", "ckpt-1-2.data-00000-of-00001", "ckpt-1-20.index", "ckpt-1-20.data-00000-of-00001")
    Directory(str(tmp_path)).remove(Saved(1, 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt-1-20.data-00000-of-00001", "ckpt-1-20.index"]
