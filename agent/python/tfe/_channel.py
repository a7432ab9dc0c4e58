"""The channel to the agent: one JSON object in each datagram of a Unix socket (PROTOCOL.md, section 10).

Nothing here waits, and nothing raises because the agent is away or slow: what cannot be sent now is sent with the next
call, of each kind the newest. Messages of another epoch, and what cannot be read, are passed over.
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

from . import _place

MESSAGE_MAX = 8192
"""Bytes; the agent takes no longer ones, and sends none."""
PATH_MAX = 4096
"""Bytes; the agent takes no longer path."""
MEMORY_ASK_S = 2.0
"""The agent answers at once what there is; it may be about to start others."""
PROGRESS_INTERVAL_S = 0.05
"""Progress is told no more often than this: a step may take a hundred microseconds."""


class Channel:
    """One process's end of the channel. Without a path (no agent) every call is allowed and does nothing."""

    def __init__(self, path: Optional[str], epoch: int, rank: int) -> None:
        self._path = path
        self._epoch = epoch
        self._rank = rank
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self._own_path: Optional[str] = None
        self._unsent: dict[str, bytes] = {}  # by type, the newest
        self._metrics: dict[str, float] = {}  # told, and not sent
        self._progress_due = 0.0
        self._listens = False
        self.save_number = 0
        """Number of the newest checkpoint that the agent has asked for; 0: none."""
        self.save_by: Optional[float] = None
        """time.monotonic() at which the switch comes anyway; None: it waits."""
        self.stop_by: Optional[float] = None
        """time.monotonic() at which this process is killed; None: it is not to stop."""
        self.shown = 0
        """The newest save_number that the script has been told of."""
        self.answered = 0
        """The newest save_number that a checkpoint has answered."""
        self.in_memory: set[str] = set()
        """The wishes, numbers and "stop", that a snapshot in the agent's memory fulfils as well."""
        self.memory: Optional[tuple[int, int, str]] = None
        """The answer to ask_memory(): descriptor, size, and why there is none (-1, 0); who takes it, sets this to None."""

    # --- to the agent ---------------------------------------------------------------------------------

    def progress(self, step: int, samples: Optional[int] = None, *, restored: bool = False, total: Optional[int] = None,
                 metrics: Optional[Mapping[str, float]] = None) -> None:
        """Tells the agent how far the training is. restored: by a checkpoint, before the first step; the agent then puts
        off what would get in that step's way. metrics: finite; those of one call stay until another tells them anew."""
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
        """Tells of a checkpoint that is whole; answers: the newest save_number known when it was begun."""
        with self._lock:
            message = {"type": "checkpoint", "step": step, "answers": answers}
            if _is_sendable(path):
                message["path"] = path
            self.answered = max(self.answered, answers)
            self._keep(message)
            self._flush()

    def listen(self, partitioned: bool = False) -> bool:
        """Says that this process can be asked for checkpoints, and told to stop. False: it cannot. partitioned: also that these can be
        restored with another number of ps."""
        with self._lock:
            if (partitioned or not self._listens) and self._open() and self._own_path:
                self._listens = True
                self._keep({"type": "hello", "pid": self._pid, "listens": True, **({"partitioned": True} if partitioned else {})})
            self._flush()
            return self._listens

    def ask_memory(self, size: int) -> None:
        """For at least so many bytes that outlive this process; 0: for what there is. After listen()."""
        with self._lock:
            self._keep({"type": "memory", "bytes": size})
            self._flush()

    def left_memory(self) -> None:
        """Asks for what the process before this one has left, and waits a little for `memory`. After listen()."""
        self.ask_memory(0)
        deadline = time.monotonic() + MEMORY_ASK_S
        while self.memory is None and time.monotonic() < deadline:
            self.wait(deadline - time.monotonic())

    def kept(self, step: int, answers: int = 0) -> None:
        """The state after this step is whole in that memory; answers: the save_number that it was kept for."""
        with self._lock:
            self._keep({"type": "kept", "step": step, "answers": answers})
            self._flush()

    def _keep(self, message: dict[str, Any]) -> None:
        message = {**message, "epoch": self._epoch, "rank": self._rank}
        self._unsent[message["type"]] = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()

    def _flush(self) -> None:
        if not self._unsent or not self._open():
            return
        assert self._socket and self._path
        for kind in ("hello", "progress", "checkpoint", "memory", "kept"):
            text = self._unsent.get(kind)
            if text is None:
                continue
            try:
                self._socket.sendto(text, socket.MSG_DONTWAIT, self._path)
            except (BlockingIOError, InterruptedError):
                return  # its queue is full
            except OSError:
                pass  # it is not there: nobody to tell
            del self._unsent[kind]
            if kind == "progress":
                self._metrics = {}

    # --- from the agent -------------------------------------------------------------------------------

    def poll(self) -> None:
        """Reads what the agent has said since the last time, and sends what is left over."""
        with self._lock:
            self._flush()
            if not self._listens or not self._socket:
                return
            for _ in range(64):  # a bound: the peer must not hold the training up
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
        """As poll(), but first waits so long for something to come."""
        with self._lock:
            listening = self._socket if self._listens else None
        if listening is None:
            time.sleep(max(0.0, seconds))
        else:
            try:
                # poll() has no limit on the number of a descriptor, select() has one.
                waiter = select.poll()
                waiter.register(listening, select.POLLIN)
                waiter.poll(max(0.0, seconds) * 1000)
            except OSError:
                time.sleep(min(0.05, max(0.0, seconds)))
        self.poll()

    def _take(self, text: bytes, descriptors: "list[int]") -> None:
        """descriptors: those that came with it; what it keeps of them it takes out."""
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

    # --- the socket -----------------------------------------------------------------------------------

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
                os.unlink(own)  # of a process that had this id before, or of this one before exec
            self._socket.bind(own)
        except OSError:
            return True  # it can tell, and not be asked
        self._own_path = own
        atexit.register(self.close)
        return True

    def close(self) -> None:
        """Nothing is sent or heard any more. May be called twice; in a child made by fork it leaves the parent's alone."""
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
    """Not so a name that is no UTF-8, or a very long one; the agent's knowledge does not hang on it."""
    try:
        text = json.dumps(path, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return len(path.encode()) <= PATH_MAX and len(text) <= MESSAGE_MAX - 256


_channel: Optional[Channel] = None
_channel_of: tuple[Any, ...] = ()


def channel() -> Channel:
    """The channel of this process; another one after a fork, or in another epoch (a warm interpreter)."""
    global _channel, _channel_of
    key = (os.getpid(), os.environ.get("TFE_SOCKET"), _place.epoch(), _place.rank())
    if _channel is None or _channel_of != key:
        if _channel is not None:
            _channel.close()
        _channel = Channel(key[1] or None, key[2], key[3])
        _channel_of = key
    return _channel
