"""Channel to the agent: one JSON object per datagram of a Unix socket (PROTOCOL.md, section 10).

No call blocks or raises because the agent is gone or slow. A message that cannot be sent is sent
with the next call; only the newest message of each type is kept. Messages of another epoch and
malformed ones are ignored.
"""
from __future__ import annotations

import atexit
import json
import os
import select
import socket
import sys
import threading
import time
from typing import Any, Mapping, Optional

from . import _position

MESSAGE_MAX = 8192
"""Maximum size of a message in bytes, in both directions."""
PATH_MAX = 4096
"""Maximum length in bytes of a path that the agent accepts."""
MEMORY_ASK_S = 2.0
"""Seconds to wait for the agent's response about existing memory. The agent responds at once unless
it is starting other trainers.
"""
PROGRESS_INTERVAL_S = 0.05
"""Minimum seconds between two progress messages; a step may take only 100 microseconds."""


class Channel:
    """One process's end of the channel. Without a path (no agent) every call is allowed and has no
    effect.
    """

    def __init__(self, path: Optional[str], epoch: int, rank: int) -> None:
        self._path = path
        self._epoch = epoch
        self._rank = rank
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self._own_path: Optional[str] = None
        self._unsent: dict[str, bytes] = {}  # newest message by type
        self._metrics: dict[str, float] = {}  # reported by the script but not sent
        self._progress_due = 0.0
        self._listens = False
        self.save_number = 0
        """Number of the newest save request, or 0 if there is none."""
        self.save_by: Optional[float] = None
        """Time (time.monotonic()) of the switch, or None if it waits for the checkpoint."""
        self.stop_by: Optional[float] = None
        """Time (time.monotonic()) when this process is killed, or None if no stop was requested."""
        self.shown = 0
        """Newest save_number that stop_requested() has reported to the script."""
        self.answered = 0
        """Newest save_number that a checkpoint has answered."""
        self.in_memory: set[str] = set()
        """Requests (numbers as text, and "stop") for which a snapshot in the agent's memory is
        sufficient.
        """
        self.memory: Optional[tuple[int, int, str]] = None
        """Response to ask_memory(): descriptor, size, and the reason if there is none (-1, 0). The
        consumer sets it to None.
        """

    # --- messages to the agent ---

    def progress(self, step: int, samples: Optional[int] = None, *, restored: bool = False, total: Optional[int] = None,
                 metrics: Optional[Mapping[str, float]] = None) -> None:
        """Reports the progress of the training. restored means that the step comes from a
        checkpoint and no step is done yet; the agent then postpones work that would disturb the
        first step. metrics must be finite; they accumulate until they are sent.
        """
        with self._lock:
            now = time.monotonic()
            message = {"type": "progress", "step": step}
            if samples is not None:
                message["samples"] = samples
            if total is not None:
                message["total"] = total
            if metrics:
                self._metrics.update(metrics)
            if restored:
                message["restored"] = True
            if self._metrics:
                message["metrics"] = self._metrics
            self._keep(message)
            if now >= self._progress_due:
                self._progress_due = now + PROGRESS_INTERVAL_S
                self._flush()

    def checkpoint(self, step: int, path: str, answers: int) -> None:
        """Reports a complete checkpoint. answers is the newest save_number that was known when it
        was started.
        """
        message = {"type": "checkpoint", "step": step, "answers": answers}
        if _is_sendable(path):
            message["path"] = path
        with self._lock:
            self.answered = max(self.answered, answers)
        self._send(message)

    def listen(self, partitioned: bool = False) -> bool:
        """Announces that this process accepts save and stop messages. Returns False if it cannot
        receive any. partitioned also announces that its checkpoints can be restored with a
        different number of parameter servers.
        """
        with self._lock:
            if (partitioned or not self._listens) and self._open() and self._own_path:
                self._listens = True
                self._keep({"type": "hello", "pid": self._pid, "listens": True, **({"partitioned": True} if partitioned else {})})
            self._flush()
            return self._listens

    def ask_memory(self, size: int) -> None:
        """Requests at least size bytes of memory that survives this process; 0 requests the
        existing memory. Call after listen().
        """
        self._send({"type": "memory", "bytes": size})

    def left_memory(self) -> None:
        """Requests the memory that the previous process left, and waits briefly for `memory`. Call
        after listen().
        """
        self.ask_memory(0)
        deadline = time.monotonic() + MEMORY_ASK_S
        while self.memory is None and time.monotonic() < deadline:
            self.wait(deadline - time.monotonic())

    def snapshot(self, step: int, answers: int = 0) -> None:
        """Reports that the state after this step is complete in the agent's memory. answers is the
        save_number that it answers.
        """
        self._send({"type": "snapshot", "step": step, "answers": answers})

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._keep(message)
            self._flush()

    def _keep(self, message: dict[str, Any]) -> None:
        message = {**message, "epoch": self._epoch, "rank": self._rank}
        self._unsent[message["type"]] = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()

    def _flush(self) -> None:
        if not self._unsent or not self._open():
            return
        assert self._socket and self._path
        for kind in ("hello", "progress", "checkpoint", "memory", "snapshot"):
            text = self._unsent.get(kind)
            if text is None:
                continue
            try:
                self._socket.sendto(text, socket.MSG_DONTWAIT, self._path)
            except (BlockingIOError, InterruptedError):
                return  # the agent's queue is full
            except OSError:
                pass  # the agent is gone
            del self._unsent[kind]
            if kind == "progress":
                self._metrics = {}

    # --- messages from the agent ---

    def poll(self) -> None:
        """Handles messages that have arrived and sends those that are pending."""
        with self._lock:
            self._flush()
            if not self._listens or not self._socket:
                return
            for _ in range(64):  # limits the time that the agent can delay training
                try:
                    text, files, _, _ = self._socket.recvmsg(MESSAGE_MAX, socket.CMSG_SPACE(4),
                                                             socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
                except OSError:
                    return
                descriptors = [int.from_bytes(data[:4], sys.byteorder) for level, kind, data in files
                               if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
                self._take(text, descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)

    def wait(self, seconds: float) -> None:
        """Waits up to the given time for a message, then calls poll()."""
        with self._lock:
            listening = self._socket if self._listens else None
        if listening is None:
            time.sleep(max(0.0, seconds))
        else:
            try:
                # Unlike select(), poll() has no limit on descriptor numbers.
                waiter = select.poll()
                waiter.register(listening, select.POLLIN)
                waiter.poll(max(0.0, seconds) * 1000)
            except OSError:
                time.sleep(min(0.05, max(0.0, seconds)))
        self.poll()

    def _take(self, text: bytes, descriptors: "list[int]") -> None:
        """Handles one message. Removes the descriptors that it keeps from the list."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict) or message.get("epoch") != self._epoch:
            return
        if message.get("type") == "save" and _is_count(message.get("number")):
            if message["number"] >= self.save_number:
                self.save_number = message["number"]
                within = message.get("within_ms")
                if message.get("in_memory") is True:
                    self.in_memory.add(str(self.save_number))
                self.save_by = time.monotonic() + within / 1000 if _is_count(within) else None
        elif message.get("type") == "stop" and self.stop_by is None:
            grace = message.get("grace_ms")
            if message.get("in_memory") is True:
                self.in_memory.add("stop")
            self.stop_by = time.monotonic() + (grace / 1000 if _is_count(grace) else 0.0)
        elif message.get("type") == "memory" and _is_count(message.get("bytes")):
            if self.memory and self.memory[0] >= 0:
                os.close(self.memory[0])
            has_file = bool(descriptors) and message["bytes"] > 0
            self.memory = (descriptors.pop(), message["bytes"], "") if has_file else (-1, 0, str(message.get("why", "")))

    # --- the socket ---

    def _open(self) -> bool:
        if not self._path:
            return False
        if self._socket:
            return True
        try:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        except OSError:
            return False
        own = os.path.join(os.path.dirname(self._path), f"script-{self._pid}")
        try:
            if os.path.exists(own):
                os.unlink(own)  # left by an earlier process with this pid, or by this one before exec
            self._socket.bind(own)
        except OSError:
            return True  # it can send but not receive
        self._own_path = own
        atexit.register(self.close)
        return True

    def close(self) -> None:
        """Closes the channel. May be called twice; in a forked child it leaves the parent's socket
        alone.
        """
        if self._socket:
            self._socket.close()
            self._socket = None
        if self._own_path and self._pid == os.getpid():
            try:
                os.unlink(self._own_path)
            except OSError:
                pass
        self._own_path, self._path, self._listens = None, None, False
        self._unsent.clear()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_sendable(path: str) -> bool:
    """Returns False for a path that is not UTF-8 or too long. The agent does not depend on the
    path.
    """
    try:
        text = json.dumps(path, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return len(path.encode()) <= PATH_MAX and len(text) <= MESSAGE_MAX - 256


_channel: Optional[Channel] = None
_channel_of: tuple[Any, ...] = ()


def channel() -> Channel:
    """Returns the channel of this process. After a fork, or in another epoch (a standby), it is a
    new one.
    """
    global _channel, _channel_of
    key = (os.getpid(), os.environ.get("TFE_SOCKET"), _position.epoch(), _position.rank())
    if _channel is None or _channel_of != key:
        if _channel is not None:
            _channel.close()
        _channel = Channel(key[1] or None, key[2], key[3])
        _channel_of = key
    return _channel
