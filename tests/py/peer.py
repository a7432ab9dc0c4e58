"""The agent's end of the channel: a real datagram socket that tests of the package read and answer."""
import json
import socket


class Peer:
    """The agent's end of the channel."""

    def __init__(self, directory):
        self.path = directory / "agent"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(5)
        self.sender = None

    def take(self):
        text, self.sender = self.socket.recvfrom(65536)
        return json.loads(text)

    def is_quiet(self):
        self.socket.setblocking(False)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(5)
        return False

    def say(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.socket.sendto(text, self.sender)

    def ask(self, number, within_ms=None, epoch=7, in_memory=False):
        self.say({"type": "save", "epoch": epoch, "number": number, "within_ms": within_ms, "in_memory": in_memory})
