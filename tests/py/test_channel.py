"""The channel to the agent: messages in both directions, and that nothing waits or fails without an agent."""
import json
import multiprocessing
import os
import pathlib
import socket
import sys
import time

import pytest
import tfe
from tfe import _channel


def test_without_an_agent_everything_is_quiet():
    tfe.progress(3, samples=96)
    tfe.checkpoint_saved(3, "/nowhere/ckpt-3")
    assert not tfe.stop_requested()
    assert (tfe.epoch(), tfe.rank(), tfe.world_size(), tfe.has_agent()) == (0, 0, 1, False)


def test_nonsense_in_the_environment_is_no_agent(monkeypatch):
    monkeypatch.setenv("TFE_EPOCH", "many")
    monkeypatch.setenv("TFE_WORLD_SIZE", "-4")
    assert (tfe.epoch(), tfe.world_size()) == (0, 1)


def test_place_is_read_from_the_environment(peer):
    assert (tfe.epoch(), tfe.rank(), tfe.world_size(), tfe.has_agent()) == (7, 1, 3, True)


def test_progress_and_checkpoints_are_told(peer):
    tfe.progress(12, samples=1152)
    assert peer.take() == {"type": "progress", "epoch": 7, "rank": 1, "step": 12, "samples": 1152}
    tfe.checkpoint_saved(12, pathlib.Path("/shared/ckpt-7-12"))
    assert peer.take() == {"type": "checkpoint", "epoch": 7, "rank": 1, "step": 12, "answers": 0,
                           "path": "/shared/ckpt-7-12"}


def test_progress_of_fast_steps_is_thinned_out_and_the_newest_kept(peer):
    for step in range(1000):
        tfe.progress(step)
    assert peer.take()["step"] == 0
    time.sleep(_channel.PROGRESS_INTERVAL_S)
    tfe.progress(1000)
    said = peer.take()
    while said["step"] != 1000:  # on a slow machine the next interval may have begun before
        said = peer.take()
    assert peer.is_quiet()


def test_a_save_that_is_asked_for_is_answered(script, peer):
    peer.ask(4, within_ms=30_000)
    assert script.stop_requested() and script.stop_requested()
    script.checkpoint_saved(90, "ckpt-7-90")
    assert peer.take()["answers"] == 4
    assert not script.stop_requested()


def test_a_save_that_came_while_another_checkpoint_was_written_is_not_swallowed(script, peer):
    assert not script.stop_requested()
    peer.ask(1)  # after the script has begun to write
    script.checkpoint_saved(80, "ckpt-7-80")
    assert peer.take()["answers"] == 0
    assert script.stop_requested()


def test_for_which_wishes_memory_is_enough_is_heard_with_them(script, peer):
    here = _channel.channel()
    peer.ask(4, in_memory=True)
    peer.ask(5)
    peer.say({"type": "stop", "epoch": 7, "grace_ms": 5000})  # an agent without this feature
    assert script.stop_requested()
    assert here.in_memory == {"4"}
    here.snapshot(80, 4)
    assert peer.take() == {"type": "snapshot", "epoch": 7, "rank": 1, "step": 80, "answers": 4}
    assert script.stop_requested()


def test_a_stop_may_say_so_too(script, peer):
    peer.say({"type": "stop", "epoch": 7, "grace_ms": 5000, "in_memory": True})
    assert script.stop_requested()
    assert _channel.channel().in_memory == {"stop"}


def test_stop_holds_until_the_end(script, peer):
    peer.say({"type": "stop", "epoch": 7, "grace_ms": 5000})
    assert script.stop_requested()
    script.checkpoint_saved(80, "ckpt-7-80")
    assert script.stop_requested()


@pytest.mark.parametrize("message", [
    b"", b"{", b"[" * 8000, b"[]", b"null", b"\xff\xfe", b'{"type":"save"}', b'{"type":"save","epoch":7,"number":-1}',
    b'{"type":"save","epoch":7,"number":true}', b'{"type":"save","epoch":6,"number":1}', b'{"type":"other","epoch":7}'])
def test_what_cannot_be_read_or_is_of_another_epoch_is_passed_over(script, peer, message):
    peer.say(message)
    assert not script.stop_requested()
    peer.ask(1)
    assert script.stop_requested()


def test_an_agent_that_does_not_read_holds_nothing_up(script, peer):
    began = time.monotonic()
    for step in range(2000):
        script.checkpoint_saved(step, "ckpt")  # never throttled: fills any queue
    assert time.monotonic() - began < 5
    told = peer.take()["step"]
    assert told == 0
    while told != 1999:  # the newest is kept for the next call with room in the queue
        assert told < 1999
        if peer.is_quiet():
            script.stop_requested()
        told = peer.take()["step"]


def test_an_agent_that_is_gone_is_no_matter(script, peer):
    peer.socket.close()
    os.unlink(peer.path)
    script.progress(5)
    script.checkpoint_saved(5, "ckpt")
    assert not script.stop_requested()


def test_a_path_that_no_datagram_takes_is_left_out(peer):
    for path in ("x" * 5000, "\x01" * 3000, b"caf\xe9".decode(errors="surrogateescape")):
        tfe.checkpoint_saved(5, path)
        said = peer.take()
        assert said["step"] == 5 and "path" not in said


@pytest.mark.parametrize("step", [-1, "many", None, 1.5j])
def test_a_step_that_is_none_is_the_scripts_mistake(peer, step):
    with pytest.raises((TypeError, ValueError)):
        tfe.progress(step)


def test_hello_says_where_answers_go(peer):
    tfe.stop_requested()
    assert peer.take() == {"type": "hello", "epoch": 7, "rank": 1, "pid": os.getpid(), "listens": True}
    assert peer.sender == str(peer.path.parent / f"script-{os.getpid()}")
    _channel.channel().close()
    assert not pathlib.Path(peer.sender).exists()


def test_hello_is_said_once_more_where_checkpoints_fit_another_number_of_ps(script, peer):
    _channel.channel().listen()
    assert peer.is_quiet()
    _channel.channel().listen(partitioned=True)
    assert peer.take() == {"type": "hello", "epoch": 7, "rank": 1, "pid": os.getpid(), "listens": True, "partitioned": True}


def test_a_socket_of_an_earlier_process_with_this_id_is_replaced(peer):
    left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.bind(str(peer.path.parent / f"script-{os.getpid()}"))
    left.close()
    tfe.stop_requested()
    assert peer.take()["type"] == "hello"


def tell_from_child():
    tfe.progress(77)


def test_a_child_made_by_fork_leaves_its_parents_channel_alone(script, peer):
    child = multiprocessing.get_context("fork").Process(target=tell_from_child)
    child.start()
    child.join(20)
    assert peer.take()["step"] == 77
    peer.sender = str(peer.path.parent / f"script-{os.getpid()}")
    peer.ask(1)
    assert script.stop_requested()


def test_another_epoch_in_the_same_process_is_another_channel(script, peer, monkeypatch):
    peer.ask(3)
    assert script.stop_requested()
    monkeypatch.setenv("TFE_EPOCH", "8")
    assert not script.stop_requested()
    assert peer.take()["epoch"] == 8


def lend(peer, content, announced=None, epoch=7):
    """Responds to a memory request like an agent."""
    file = os.memfd_create("tfe-state")
    os.write(file, content)
    message = {"type": "memory", "epoch": epoch, "bytes": len(content) if announced is None else announced, "why": ""}
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, file.to_bytes(4, sys.byteorder))
    peer.socket.sendmsg([json.dumps(message).encode()], [rights], 0, peer.sender)
    os.close(file)


def test_memory_comes_as_a_descriptor_that_no_child_inherits(script, peer):
    here = _channel.channel()
    here.ask_memory(5000)
    assert peer.take() == {"type": "memory", "epoch": 7, "rank": 1, "bytes": 5000}
    lend(peer, b"state")
    here.poll()
    file, size, why = here.memory
    assert (os.pread(file, 9, 0), size, why) == (b"state", 5, "") and not os.get_inheritable(file)
    os.close(file)
    here.memory = None
    peer.say({"type": "memory", "epoch": 7, "bytes": 0, "why": "there is none"})
    here.poll()
    assert here.memory == (-1, 0, "there is none")


def test_a_snapshot_that_is_whole_is_told(script, peer):
    _channel.channel().snapshot(12)
    assert peer.take() == {"type": "snapshot", "epoch": 7, "rank": 1, "step": 12, "answers": 0}


def test_descriptors_that_nobody_wants_are_closed(script, peer):
    here = _channel.channel()
    before = len(os.listdir("/proc/self/fd"))
    for announced, epoch in ((0, 7), (None, 6)):
        lend(peer, b"state", announced, epoch)
    for _ in range(3):
        lend(peer, b"state")  # the newest snapshot is retained
    here.poll()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    os.close(here.memory[0])
