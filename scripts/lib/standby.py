"""A standby as started by tfe-guard, but without a guard: for tests of the bootstrap and for floors of benchmarks."""
import os
import pathlib
import select
import socket
import struct
import subprocess

BOOTSTRAP = pathlib.Path(__file__).resolve().parents[2] / "agent" / "python" / "tfe_bootstrap.py"
CONTROL = 3


class Standby:
    """line: the command that the standby will become, python first. The standby runs in its own session."""

    def __init__(self, line, folder, env, preload="", mode="standby"):
        self.line = line
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(120)
        nowhere = os.pipe()
        os.close(nowhere[0])

        def place():
            os.setsid()
            if theirs.fileno() == CONTROL:
                os.set_inheritable(CONTROL, True)
            else:
                os.dup2(theirs.fileno(), CONTROL)
        self.process = subprocess.Popen([line[0], str(BOOTSTRAP), mode, preload, *line], cwd=folder, env=env,
                                        stdin=subprocess.DEVNULL, stdout=nowhere[1], stderr=nowhere[1], pass_fds=(CONTROL,),
                                        preexec_fn=place)
        self.pid = self.process.pid
        os.close(nowhere[1])
        theirs.close()

    def says(self):
        return self.control.recv(300).decode()

    def is_warm(self):
        """Returns True once the standby has reported W; not to be called again after that."""
        return bool(select.select([self.control], [], [], 0)[0]) and self.says().startswith("W")

    def give(self, env, out, err, line=None):
        """Sends the standby a start; out and err are borrowed descriptors."""
        line = line or self.line
        block = b"".join(os.fsencode(word) + b"\0" for word in [*line, *(f"{k}={v}" for k, v in env.items())])
        fd = os.memfd_create("block")
        os.write(fd, block)
        socket.send_fds(self.control, [struct.pack("=QIIII", len(block), len(line), len(env), 0, 0)], [fd, out, err])
        os.close(fd)

    def hand_over(self, env, line=None):
        """Sends the standby a start and waits for its end; returns exit status, stdout, stderr."""
        out, err = os.pipe(), os.pipe()
        self.give(env, out[1], err[1], line)
        os.close(out[1])
        os.close(err[1])
        with subprocess.Popen(["cat"], stdin=err[0], stdout=subprocess.PIPE) as errors:
            os.close(err[0])
            with os.fdopen(out[0], "rb") as file:
                text = file.read()
            said = errors.stdout.read()
        return self.process.wait(60), text.decode(), said.decode()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.control.close()
