"""Records a session with tfe on this machine and prints docs/first-hour.md: the output of each terminal.

    .venv/bin/python scripts/first_hour.py > docs/first-hour.md

The programs are real and have their own terminals. Edited are only these: the working folder is called ~, the source
folder /usr/local/src/tfe, the folder of Python's packages /…/; colours are removed, long lines are folded, and of a
traceback the lines between the first and the last are left out.
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))
from programs import ROOT, Failed, clean_environment, program

STEPS = 2000
PATIENCE_S = 180
WIDTH = 96    # columns of output, which is indented by four blanks

SECTIONS = {
    "server": ("Start the server",
               "The server runs on a non-preemptible machine, usually as a service. At its first start it creates its "
               "keys and tokens, and prints the command for the agents."),
    "a": ("Start the first agent",
          "Normally each agent runs on a machine of its own; here all run on one machine and need different names. "
          "`--nnodes=2:4` means: train with 2 to 4 nodes. The agent therefore waits for a second node."),
    "status": ("Show the status",
               "`tfe-ctl` needs the server's address and a token; on the server's machine it finds both."),
    "bc": ("Start two more agents",
           "Two nodes would be enough. The third one joins at the same moment, so the server waits a little and begins "
           "with three."),
    "kill": ("Lose a machine",
             "`kill -9` ends agent b without a message to the server, as if its machine had lost power. The guard process "
             "of b ends its trainer. The other two nodes continue from the last checkpoint."),
    "epochs": ("Show what the loss cost",
               "An epoch is one cluster, from one change of its members to the next. Standstill is the time from the last "
               "step before a change to the first step after it."),
    "d": ("Add a machine",
          "The new node prepares while the others train. It joins at their next checkpoint, so that no step is done "
          "twice."),
    "drain": ("Remove a machine",
              "Machine c is needed for something else within 30 seconds. That is enough for the next checkpoint, so no "
              "step is done twice."),
    "interrupt": ("Press Ctrl-C",
                  "Agent a leaves its job by a planned switch. One node is left, fewer than the minimum of two, so training "
                  "waits."),
    "waiting": ("Show the status again",
                "The current standstill is included in the costs."),
    "again": ("Start the agent again",
              "Training continues from the last checkpoint, to its end."),
    "end": ("Show the costs of the whole run",
            "The job is over. An agent that is started again runs nothing, and reports how the job has ended."),
}


def without_frames(lines):
    """Returns the lines without those between the first and the last line of a trainer's traceback."""
    kept, tracebacks = [], {}       # tracebacks: terminal -> its lines so far
    for name, text in [*lines, *((name, "") for name, _ in lines)]:
        is_trainer = re.match(r"\[\d+\] |\[\d+\]$", text)
        if name in tracebacks and not is_trainer:
            first, *frames, last = tracebacks.pop(name)
            errors = [line for line in frames if re.match(r"\[\d+\] [\w.]+(Error|Exception)\b", line)]
            place = kept.index((name, first)) + 1
            kept[place:place] = [(name, f"{first[:4]}… ({len(frames)} lines)"), (name, errors[-1] if errors else last)]
        if name in tracebacks:
            tracebacks[name].append(text)
        elif is_trainer and "Traceback (most recent call last)" in text:
            tracebacks[name] = [text]
            kept.append((name, text))
        elif text:
            kept.append((name, text))
    return kept


class Terminal:
    """A program on its own terminal, or the prompt for the next command."""

    def __init__(self, name, play):
        self.name, self.play, self.rest, self.process = name, play, b"", None
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))

    def run(self, *line):
        self.play.say(self.name, "$ " + " ".join(line))

        def own():
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen([program(line[0]), *line[1:]], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, env=self.play.env, cwd=self.play.home, preexec_fn=own)
        return self.process

    def press_ctrl_c(self):
        os.write(self.master, b"\x03")

    def read(self):
        *lines, self.rest = (self.rest + os.read(self.master, 65536)).split(b"\n")
        for line in lines:
            self.play.say(self.name, line.decode(errors="replace"))


class Play:
    def __init__(self, home):
        self.home, self.terminals, self.lines, self.mark, self.out = home, {}, [], 0, []
        state = home / "state"
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = {} if probe.connect_ex(("127.0.0.1", 5556)) else {"TFE_PORT": "0"}
        self.env = clean_environment(TFE_STATE_DIR=str(state), PATH=f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
                                     TERM="xterm", TF_ENABLE_ONEDNN_OPTS="0", **port)  # else it prints a notice

    def terminal(self, name):
        return self.terminals.setdefault(name, Terminal(name, self))

    def say(self, name, text):
        text = re.sub(r"\x1b\[[0-9;]*m", "", text.rstrip("\r").rpartition("\r")[2])
        text = re.sub(r"/[^ \"]*/site-packages/", "/…/", text)
        text = text.replace(str(self.home), "~").replace(str(ROOT), "/usr/local/src/tfe").replace("^C", "")
        if text.strip():
            self.lines.append((name, text))

    def look(self, until=None, seconds=PATIENCE_S, what=""):
        """Reads all terminals until until() is true, or for this many seconds if there is no condition."""
        end = time.monotonic() + seconds
        while not (until and until()):
            if time.monotonic() > end:
                if until:
                    raise Failed(f"waited in vain for {what}; seen:\n" + "\n".join(f"{n}| {t}" for n, t in self.lines))
                return
            ready, _, _ = select.select([t.master for t in self.terminals.values()], [], [], 0.05)
            for terminal in self.terminals.values():
                if terminal.master in ready:
                    terminal.read()

    def wait(self, name, words):
        """Waits until this terminal has shown the words since the last wait or the last section."""
        def seen():
            for i, (n, text) in enumerate(self.lines[self.mark:], self.mark):
                if n == name and re.search(words, text):
                    self.mark = i + 1
                    return True
            return False
        self.look(seen, what=f"{name}: {words}")

    def ask(self, *line):
        """Runs a command to its end."""
        process = self.terminal("you").run(*line)
        self.look(lambda: process.poll() is not None, what=line)
        self.look(seconds=0.3)

    def section(self, key):
        """Stores the output since the last section."""
        head, text = SECTIONS[key]
        self.out += [f"## {head}", "", textwrap.fill(text, 100), ""]
        lines = without_frames(self.lines)
        width = max(len(name) for name, _ in lines)
        for name, line in lines:
            parts = textwrap.wrap(line, WIDTH - width - 2, subsequent_indent="      ", drop_whitespace=False,
                                  replace_whitespace=False, break_on_hyphens=False) or [""]
            self.out += [f"    {name if i == 0 else '':>{width}}  {part}".rstrip() for i, part in enumerate(parts)]
        self.out.append("")
        self.lines, self.mark = [], 0

    def end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for terminal in self.terminals.values():
                if terminal.process and terminal.process.poll() is None:
                    terminal.process.send_signal(number)
            time.sleep(2)


def story(play):
    train = ["tfe-agent", "--nnodes=2:4"]
    script = ["tutorial.py", "checkpoints", str(STEPS)]
    server, a, b, c, d = (play.terminal(name) for name in ("server", "a", "b", "c", "d"))

    def agent(terminal):
        return terminal.run(*train, f"--node-name={terminal.name}", *script)

    server.run("tfe-rdzv")
    play.wait("server", "join with")
    play.look(seconds=0.5)
    play.section("server")
    agent(a)
    play.wait("a", "1 more node")
    play.section("a")
    play.ask("tfe-ctl", "status")
    play.section("status")
    agent(b), agent(c)
    play.wait("a", "step 300 ")
    play.section("bc")
    b.process.kill()
    play.say("you", f"$ kill -9 {b.process.pid}    # agent b")
    play.wait("a", "from step")
    play.wait("a", "step [0-9]+ of")
    play.section("kill")
    play.ask("tfe-ctl", "epochs")
    play.section("epochs")
    agent(d)
    play.wait("a", "worker 0 of 3")
    play.wait("a", "step [0-9]+ of")
    play.wait("a", "step [0-9]+ of")
    play.section("d")
    play.ask("tfe-ctl", "drain", "--in=30s", "--wait", "c")
    play.wait("a", "worker 0 of 2")
    play.wait("a", "step [0-9]+ of")
    play.section("drain")
    play.lines.append(("a", "(Ctrl-C)"))
    a.press_ctrl_c()
    play.wait("d", "1 more node")
    play.look(lambda: a.process.poll() is not None, what="the end of a")
    play.section("interrupt")
    play.ask("tfe-ctl", "status")
    play.ask("tfe-ctl", "epochs")
    play.section("waiting")
    agent(a)
    play.look(lambda: a.process.poll() is not None and d.process.poll() is not None, what="the end")
    play.look(seconds=0.5)
    play.section("again")
    play.ask("tfe-ctl", "epochs")
    agent(a)
    play.look(lambda: a.process.poll() is not None, what="its answer")
    play.look(seconds=0.3)
    play.lines.append(("server", "(Ctrl-C)"))
    server.press_ctrl_c()
    server.process.wait(PATIENCE_S)
    play.look(seconds=0.3)
    play.section("end")


INTRO = """# A recorded session

What the programs print in a session of four minutes: a server, three agents, an ordinary training
script, the loss of a machine, a new machine, a drained machine, Ctrl-C, and a restart. The
[tutorial](tutorial.md) has the same steps to try. `scripts/first_hour.py` records the session; the
name in front of each line is the terminal that showed it, `you` is the operator's. Paths are
shortened, long lines folded, and the frames of tracebacks left out. The script,
`scripts/examples/tutorial.py`, is a training loop as in TensorFlow's tutorials and does not use the
`tfe` package. It saves every 100 steps, and restores the newest checkpoint.
"""


def main():
    home = pathlib.Path(tempfile.mkdtemp(prefix="tfe-first-hour-"))
    shutil.copy(ROOT / "scripts/examples/tutorial.py", home)
    play = Play(home)
    try:
        story(play)
    except Failed as failure:
        print(f"first_hour.py: {failure}", file=sys.stderr)
        return 1
    finally:
        play.end()
        shutil.rmtree(home, ignore_errors=True)
    print(INTRO)
    print("\n".join(play.out).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
