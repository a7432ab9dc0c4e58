"""The processes of a chaos run: a server, agents and all below them, and everything that can befall them."""

import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "crash"))
from parts import Server  # noqa: E402
from programs import clean_environment, end_guards, program  # noqa: E402

DRAINED, TOLD = 0, 128 + signal.SIGTERM
# An orderly leave may take a save, a switch, and a server that comes back meanwhile.
LEAVE_S = 90


class Job:
    """What is trained, and by how many. progressed(pid): whether this trainer has completed a step."""

    def __init__(self, command, nodes, keep, options, env, progressed):
        self.command, self.nodes, self.options, self.env, self.progressed = command, nodes, options, env, progressed
        self.least, self.most = keep  # agents that are there on purpose


class Agent:
    def __init__(self, label, process, notice):
        self.label, self.process, self.notice, self.pid = label, process, notice, process.pid
        self.wanted = None  # the exit status that it was told to end with; None: it is to stay
        self.drain = None   # the tfe-ctl that asks for it
        self.since = 0.0

    def is_alive(self):
        return self.process.poll() is None


class World:
    def __init__(self, folder, job):
        self.folder, self.job = folder, job
        self.mark = f"CHAOS_RUN={uuid.uuid4().hex}"
        self.env = {**clean_environment(TFE_NO_PERSIST="false"), **job.env, "PYTHONPATH": str(ROOT / "agent" / "python"),
                    "TMPDIR": str(folder / "tmp"), **dict([self.mark.split("=")])}
        for name in ("tmp", "logs", "steps", "checkpoints"):
            (folder / name).mkdir()
        self.said = open(folder / "server.log", "ab")
        self.server = Server(folder / "state", folder / "server.log", "--ttl=3s", "--fence=9s", "--gather=300ms", "--grow-wait=5s",
                             "--stop-grace=2s", "--exit-grace=20s", "--max-restarts=1000000", "--log-format=json")
        self.agents, self.born, self.gone = [], 0, []
        self.violations = []
        self.killed = set()     # trainers that we have ended with SIGKILL
        self.frozen = {}        # pid: since when, us
        self.thawed = collections.defaultdict(list)  # pid: when, us
        self.private_dirs = set()

    # --- who is there --------------------------------------------------------------------------

    def start_server(self):
        if not self.server.start(self.env).listens():
            sys.exit(f"the server does not start: {(self.folder / 'server.log').read_text()[-1000:]}")

    def come(self):
        self.born += 1
        label = f"m{self.born}"
        notice = self.folder / f"notice.{label}"
        with open(self.folder / "logs" / f"{label}.log", "ab") as said:
            process = subprocess.Popen(
                [program("tfe-agent"), f"--nnodes={self.job.nodes}", f"--node-name={label}",
                 f"--rdzv-endpoint=127.0.0.1:{self.server.port}", f"--token-file={self.folder}/state/agent.token",
                 "--address=127.0.0.1", f"--notice=file:{notice}", f"--python={sys.executable}",
                 f"--state-dir={self.folder}/{label}", *self.job.options,
                 *self.job.command],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=self.env, cwd=self.folder)
        self.agents.append(Agent(label, process, notice))

    def staying(self):
        return [agent for agent in self.agents if agent.wanted is None and agent.is_alive()]

    def table(self):
        """pid: (parent, name) of every process of this machine that is no zombie."""
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    head, _, tail = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")
                except OSError:
                    continue
                state, parent = tail.split()[:2]
                if state not in "ZX":
                    found[int(entry)] = (int(parent), head.partition("(")[2])
        return found

    def stat(self, pid):
        """(pid, name, state); None: it has ended."""
        try:
            head, _, tail = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        except OSError:
            return None
        return pid, head.partition("(")[2], tail.split()[0]

    def parts(self, agent):
        """(guard or None, trainers, standbys) of an agent."""
        table = self.table()
        guards = [pid for pid, (parent, name) in table.items() if parent == agent.pid and name == "tfe-guard"]
        below = {pid: name for pid, (parent, name) in table.items() if guards and parent == guards[0]}
        standbys = sorted(pid for pid, name in below.items() if name == "tfe-standby")
        return (guards[0] if guards else None), sorted(set(below) - set(standbys)), standbys

    def everything(self, agent):
        """All processes of its machine."""
        table, found, grown = self.table(), {agent.pid}, True
        while grown:
            more = {pid for pid, (parent, _) in table.items() if parent in found} - found
            found |= more
            grown = bool(more)
        return sorted(found & set(table))

    def is_ours(self, pid):
        try:
            return self.mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def alive(self):
        """Every process that is of this run: what was started hands its environment on."""
        return {pid: name for pid, (_, name) in self.table().items() if self.is_ours(pid)}

    def signal(self, pid, number):
        """False: it has ended."""
        try:
            os.kill(pid, number)
            return True
        except ProcessLookupError:
            return False

    # --- what can happen ------------------------------------------------------------------------
    # Each gets an agent that is there and two drawn numbers below 1; False: it could not be done just now.

    def kill_trainer(self, agent, *_):
        """One whose epoch has made progress: a script that never takes a step is a failing job, and rightly so."""
        for pid in self.parts(agent)[1]:
            if self.job.progressed(pid) and pid not in self.frozen:
                self.killed.add(pid)
                return self.signal(pid, signal.SIGKILL)
        return False

    def kill_agent(self, agent, *_):
        self.remember(agent)
        self.gone.append(agent)
        self.agents.remove(agent)
        agent.notice.unlink(missing_ok=True)
        agent.process.kill()
        agent.process.wait()

    def kill_guard(self, agent, *_):
        guard, _, _ = self.parts(agent)
        return guard is not None and self.signal(guard, signal.SIGKILL)

    def kill_standby(self, agent, *_):
        """Which is one yet: it may become a trainer while we look, and nobody may say then that we had not killed it."""
        for pid in self.parts(agent)[2]:
            if pid in self.frozen or not self.signal(pid, signal.SIGSTOP):
                continue
            end = time.monotonic() + 5
            while (fields := self.stat(pid)) and fields[2] not in "TtZX" and time.monotonic() < end:
                time.sleep(0.001)
            if fields and fields[1] == "tfe-standby":
                return self.signal(pid, signal.SIGKILL)
            self.signal(pid, signal.SIGCONT)
        return False

    def freeze(self, agent, which, length):
        """A whole machine, or one of its processes, for up to 8 s: the lease is 3 s. One at a time."""
        if self.frozen:
            return False
        guard, trainers, _ = self.parts(agent)
        pids = self.everything(agent) if which < 0.5 else [agent.pid] if which < 0.65 else trainers if which < 0.85 else [guard]
        for pid in pids:
            if pid and self.signal(pid, signal.SIGSTOP):
                self.frozen[pid] = time.monotonic_ns() // 1000
        self.thaw_at = time.monotonic() + 0.1 + 8 * length**2
        return bool(self.frozen)

    def thaw(self):
        now = time.monotonic_ns() // 1000
        for pid in self.frozen:
            if self.is_ours(pid):
                self.thawed[pid].append(now)
                self.signal(pid, signal.SIGCONT)
        self.frozen.clear()

    def join(self, *_):
        if len(self.staying()) > self.job.most:
            return False
        self.come()
        return True

    def ask_to_drain(self, agent):
        agent.drain = subprocess.Popen(
            [program("tfe-ctl"), "drain", agent.label, "--in=3s", f"--state-dir={self.folder}/state",
             f"--rdzv-endpoint=127.0.0.1:{self.server.port}", "--timeout=20s"],
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, env=self.env)
        agent.asked = time.monotonic()

    def drain(self, agent, *_):
        agent.wanted, agent.since = DRAINED, time.monotonic()
        self.ask_to_drain(agent)

    def tell(self, agent, *_):
        agent.wanted, agent.since = TOLD, time.monotonic()
        agent.process.send_signal(signal.SIGTERM)

    def notice(self, agent, within, *_):
        """The machine will be gone within some seconds, says its cloud; in the end that is withdrawn, or it is lost."""
        if agent.notice.exists():
            return False
        agent.notice.write_text(f"{int(2 + 8 * within)}\n")

    def withdraw(self, agent):
        agent.notice.unlink(missing_ok=True)

    def kill_server(self, *_):
        self.server.kill()

    # --- between ---------------------------------------------------------------------------------

    def remember(self, agent):
        """The directory in which it has its socket: whoever comes next removes it if the agent is killed."""
        try:
            for name in os.listdir(f"/proc/{agent.pid}/fd"):
                target = os.readlink(f"/proc/{agent.pid}/fd/{name}")
                if re.fullmatch(r".*/tfe-agent-[0-9a-f]{16}", target):
                    self.private_dirs.add(target)
        except OSError:
            pass

    def look(self):
        """Who has ended, and how; who has to be asked again to leave."""
        for agent in list(self.agents):
            if agent.is_alive():
                waits = agent.wanted is not None and time.monotonic() - agent.since
                if waits and waits > LEAVE_S and agent.pid not in self.frozen:
                    self.violations.append(f"{agent.label} was told to leave {waits:.0f} s ago and has not")
                    agent.since = time.monotonic()
                if agent.drain and agent.drain.poll() is not None and time.monotonic() - agent.asked > 8:
                    self.ask_to_drain(agent)  # a server that was started again has forgotten
                continue
            self.agents.remove(agent)
            self.gone.append(agent)
            agent.notice.unlink(missing_ok=True)
            if agent.process.returncode != agent.wanted:
                self.violations.append(f"{agent.label} ended with {agent.process.returncode}, wanted {agent.wanted}")
        for agent in self.agents + self.gone:
            if agent.drain and not agent.is_alive() and agent.drain.poll() is None and time.monotonic() - agent.asked > 25:
                agent.drain.kill()  # it asks for a node that has gone

    def end(self):
        """Nothing may run any more; what does is counted, and ended."""
        self.thaw()
        for agent in self.agents:
            self.remember(agent)
            agent.process.kill()
        for agent in self.agents + self.gone:
            agent.process.wait()
            if agent.drain:
                agent.drain.kill() if agent.drain.poll() is None else None
                agent.drain.wait()
        if self.server.process and self.server.process.poll() is None:
            self.server.kill()
        end = time.monotonic() + 30
        while self.alive() and time.monotonic() < end:
            time.sleep(0.05)
            end_guards(self.mark)  # one that still has to kill takes it in when it has
        left = self.alive()
        for pid in left:
            self.signal(pid, signal.SIGKILL)
        self.said.close()
        return left
