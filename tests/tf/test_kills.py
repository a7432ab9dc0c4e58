"""Three workers, and kill -9 of trainers, guards, agents and whole machines. The state is only in memory, some kills
interrupt its copy, and the weights equal those of an undisturbed run."""
import itertools
import mmap
import os
import pathlib
import random
import signal
import time

import exact
import fleet as fl
from programs import children, descendants, is_alive
from tfe._state import HEADERS, MAGIC

FULL = bool(os.environ.get("TFE_TEST_FULL"))
KILLS = 50 if FULL else 4
STEPS = 4000 if FULL else 600  # far more steps than pass until the last kill, since each kill needs steps after the one before
EVERY = 2  # steps between snapshots
BALLAST_BYTES = 8 << 20  # makes a copy take some milliseconds
SEED = int(os.environ.get("TFE_TEST_SEED") or time.time())
PATIENCE_S = 300 if FULL else 120
SPIN_S = 1


def start(fleet, name, hold, *options):
    exact.start_digits(fleet, name, fleet.checkpoints, "--steps", STEPS, "--save-every", 10**6, "--memory-every", EVERY,
                       "--pace", 0.01, "--hold", hold, script=pathlib.Path(__file__).with_name("weighty.py"),
                       options=("--nnodes=3:3", "--max-restarts=1000", *options), BALLAST_BYTES=str(BALLAST_BYTES), **exact.ONE_THREAD)


class Headers:
    """Reads the snapshot headers in an agent's memory from outside."""

    def __init__(self, agent):
        """agent: its process id. Raises LookupError if it has no such memory or no longer has it."""
        self._bytes = None
        for file in pathlib.Path(f"/proc/{agent}/fd").glob("*"):
            try:
                if "tfe-state" in os.readlink(file):
                    with open(file, "rb") as memory:
                        self._bytes = mmap.mmap(memory.fileno(), HEADERS, prot=mmap.PROT_READ)
            except OSError:
                pass
        if self._bytes is None:
            raise LookupError(agent)

    def whole(self):
        """Returns how many of the two snapshots are complete: one while the other is written, and after a death during
        that write."""
        return sum(self._bytes[start:start + len(MAGIC)] == MAGIC for start in (0, HEADERS // 2))


def stop(pid):
    """Sends SIGSTOP and waits until all threads have stopped. Returns False if the process has ended."""
    try:
        os.kill(pid, signal.SIGSTOP)
        fl.wait_for("all threads to stop", lambda: {(task / "stat").read_text().rpartition(")")[2].split()[0]
                    for task in pathlib.Path(f"/proc/{pid}/task").iterdir()} <= set("TtZX"), PATIENCE_S, pause_s=0)
        return True
    except OSError:
        return False


def go_on(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


class Victims:
    """The running agents, and the ways in which they are killed."""

    def __init__(self, fleet, hold, chance):
        self.fleet, self.hold, self.chance = fleet, hold, chance
        self.torn = 0
        self.names = (f"m{number}" for number in itertools.count())
        self.living = []

    def come(self, *options):
        self.living.append(next(self.names))
        start(self.fleet, self.living[-1], self.hold, *options)

    def member(self):
        """Returns (name, trainer's pid) of a member."""
        running = [(name, pid) for name in self.living if (pid := exact.trainer_of(self.fleet, name))]
        return self.chance.choice(running) if running else None

    def kill(self, how, amid_copy):
        """Kills part of a member. Returns its name, or None if it had ended before."""
        name, trainer = fl.wait_for("a member", self.member, PATIENCE_S)
        agent = self.fleet.agents[name].pid
        guard = next(iter(children(agent, "tfe-guard")), None)
        pids = {"trainer": [trainer], "guard": [guard] if guard else [], "agent": [agent],
                "machine": [agent, *descendants(agent)]}[how]
        headers = self.copying(agent, trainer if how == "trainer" else None) if amid_copy else None
        killed = 0
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        if not killed:
            return None
        if headers and how == "trainer":
            fl.wait_for("the trainer's end", lambda: not is_alive(trainer), PATIENCE_S, pause_s=0)
            self.torn += headers.whole() < 2
        if how in ("agent", "machine"):
            self.living.remove(name)
            self.come()
        return name

    def copying(self, agent, trainer):
        """Returns the headers when a trainer has begun to copy, or None if none did in time. trainer: is stopped there,
        so that it does not finish its copy while this process waits for a processor."""
        end = time.monotonic() + SPIN_S
        try:
            headers = Headers(agent)
        except LookupError:
            return None
        while headers.whole() < 2 and time.monotonic() < end:  # the first two snapshots
            time.sleep(0.01)
        while time.monotonic() < end:
            if headers.whole() == 2:
                continue
            if trainer is None or stop(trainer) and headers.whole() < 2:
                return headers
            go_on(trainer)
        return None


def train(fleet, kills=0, chance=None):
    """Trains to the end; returns the number of kills that interrupted a copy."""
    hold = fleet.directory / "hold"
    hold.touch()
    victims = Victims(fleet, hold, chance)
    for _ in range(4 if kills else 3):  # one more than needed
        victims.come(*([] if kills else ["--no-standby"]))
    may_hurry, n_torn = False, 0
    ways = [*itertools.islice(itertools.cycle(("trainer", "guard", "agent", "machine")), kills)]
    if chance:
        chance.shuffle(ways)
    for kill, how in enumerate(ways):  # the list may grow
        epochs = len(fleet.epochs())
        amid_copy = how == "trainer" and not victims.torn or chance.random() < 0.4
        # A kill may hit the restart after another kill, but two consecutive kills never do: all holders of the state could be lost.
        hurries = not amid_copy and may_hurry and chance.random() < 0.5
        may_hurry = not hurries
        if not hurries:
            goal = exact.highest_step(fleet) + chance.randint(3, 20)
            assert goal < STEPS, "the training is over before the kills are"
            fl.wait_for(f"step {goal}", lambda: exact.highest_step(fleet) >= goal, PATIENCE_S)
        time.sleep(chance.random() * (1.0 if hurries else 0.1))
        name = fl.wait_for(f"a {how} to kill", lambda: victims.kill(how, amid_copy), PATIENCE_S)
        print(f"kill {kill + 1}: {how} of {name} at step {exact.highest_step(fleet)}"
              f"{', in a restart' if hurries else ', amid a copy' if victims.torn > n_torn else ''}", flush=True)
        n_torn = victims.torn
        if how == "trainer" and not victims.torn and len(ways) < kills + 5:
            ways.append("trainer")  # the copy was complete before the kill
        fl.wait_for(f"another epoch after kill {kill + 1}", lambda: len(fleet.epochs()) > epochs, PATIENCE_S)
    hold.unlink()
    assert fleet.wait_agents(victims.living, PATIENCE_S) == dict.fromkeys(victims.living, 0)
    exact.check_samples(fleet, STEPS)
    return victims.torn


def redone(fleet):
    """Returns the number of repeated steps of each epoch."""
    found = []
    for epoch, first in exact.restored(fleet)[1:]:
        found.append(max(line["step"] for line in fleet.steps() if line["epoch"] < epoch) - first)
    return found


def test_whatever_is_killed_the_weights_are_those_of_an_undisturbed_training(make_fleet, tmp_path_factory):
    print(f"TFE_TEST_SEED={SEED}")
    with fl.Fleet(tmp_path_factory.mktemp("undisturbed"), "--ttl", "3", "--gather", "20") as undisturbed:
        train(undisturbed)
    fleet = make_fleet("--fence", "9")
    torn = train(fleet, KILLS, random.Random(SEED))
    again = redone(fleet)
    print(f"{KILLS} kills, {torn} amid a copy; {len(again)} times gone on, steps done again: {again}")
    assert {epoch["members"] for epoch in fleet.epochs()} == {3}
    assert all(0 <= steps <= EVERY for steps in again), again
    assert torn > 0
    assert not [path for path in fleet.logs.glob("*") if "TORN" in path.read_text(errors="replace")]
    assert exact.result(fleet)["weights"] == exact.result(undisturbed)["weights"]
