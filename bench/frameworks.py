"""bench/frameworks.py: how long training stops with each framework, compared with a restart by hand and torchrun.

    frameworks.py [--quick] [--rounds N] [--strict] [--only FRAMEWORK,...] [--only-cases CASE,...] [--out FILE]

Three agents with one trainer each. Timed from the event (for a join: from the last step before it) to the first step of
the next cluster. By hand: kill -9 of all trainers, and a start of all of them in processes that have imported
everything, rank 0 first; both sides share a cache of compiled programs. Both alternate. torchrun (c10d, default
settings, PyTorch of the same environment) is measured for torch, each case on a new fleet; a case that has not
recovered in 90 s is "never". The goal for JAX: at most 300 ms more than by hand.
"""
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import peers
import recovery
from programs import Failed, wait_for
from recovery import LOOK_S, median, now, take_turns, wait_steps
from standby import Standby

HERE = pathlib.Path(__file__).resolve().parent
LOOP = HERE / "frameworks_loop.py"
FRAMEWORKS = {"tensorflow": "tensorflow", "jax": "jax", "keras": "jax", "torch": "torch"}  # --framework option for each name
CASES = {"peer_kill": (3, 3), "rank_0_kill": (3, 3), "agent_kill": (3, 2), "join": (2, 3)}  # workers before and after the event
TORCHRUN = {"peer_kill": "trainer_kill", "agent_kill": "agent_kill", "join": "join"}
GOALS_MS = {"jax": 300}


class ByHand(recovery.HandMade):
    def __init__(self, folder, framework):
        super().__init__(folder, False)
        self.framework = framework
        self.line = [sys.executable, str(LOOP), str(self.log.folder), framework]

    def prepare(self, count):
        preload = f":{FRAMEWORKS[self.framework]}" + ("+keras,numpy" if self.framework == "keras" else "")
        while len(self.waiting) < count:
            self.waiting.append(Standby(self.line, self.folder, self.env, preload))
        for one in self.waiting:
            while not getattr(one, "warm", False):
                said = one.says()
                if said.startswith("C"):
                    raise Failed(f"a process by hand is not warm: {said}")
                one.warm = said.startswith("W")

    def ports(self, count):
        numbers = super().ports(count)
        if self.framework == "torch":  # torch's store does not share a port
            for one in self.held:
                one.close()
            self.held = []
        return numbers

    def start(self, rank, ports, line):
        self.env = {**self.env, "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{ports[0]}", "JAX_NUM_PROCESSES": str(len(ports)),
                    "JAX_PROCESS_ID": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0]), "RANK": str(rank),
                    "WORLD_SIZE": str(len(ports))}
        super().start(rank, ports, line)


class Agents(recovery.Agents):
    def __init__(self, folder, framework):
        super().__init__(folder, False, LOOP, framework)
        self.framework = framework

    def join(self):
        return super().join(f"--framework={FRAMEWORKS[self.framework]}")

    def happen(self, case):
        """Triggers the case; returns the ms until the first step of the next cluster."""
        before, after = CASES[case]
        old = self.settle(before)
        members = {node["rank"]: node for node in self.nodes() if node["state"] == "member"}
        began = now()
        if case in ("peer_kill", "rank_0_kill"):
            os.kill(members[0 if case == "rank_0_kill" else before - 1]["trainer_pids"][0], signal.SIGKILL)
        elif case == "agent_kill":
            name = members[before - 1]["name"]
            self.fleet.agents[name].kill()
            self.fleet.agents[name].wait()
            self.names.remove(name)
        else:
            self.join()
        wait_for("the first step of the next cluster", lambda: self.log.last_epoch() > old, 180, pause_s=LOOK_S)
        new = self.log.last_epoch()
        wait_steps(self.log, new, after)
        if case == "join":
            began = max(self.log.steps(old))
        took = min(self.log.steps(new)) - began
        self.log.forget()
        return took


def torchrun(folder, case):
    """Returns ms, or None if training never resumed."""
    folder.mkdir()
    fleet = peers.Torch(folder, sys.executable, ())
    try:
        fleet.begin()
        return fleet.measure(TORCHRUN[case])
    except Failed:
        return None
    finally:
        fleet.end()


def run(folder, rounds, frameworks, cases, say):
    found = {}
    for framework in frameworks:
        where = folder / framework
        where.mkdir()
        agents, hand = Agents(where, framework), ByHand(where, framework)
        try:
            for turn in range(rounds):
                for case in cases:
                    before, after = CASES[case]
                    while len(agents.names) < before:
                        agents.join()
                    while len(agents.names) > before:
                        agents.happen("agent_kill")
                    hand.prepare(before)
                    if len(hand.running) != before:
                        hand.switch(before)
                        hand.prepare(after)
                    agents.settle(before)
                    take_turns(agents.log, hand.log)
                    killed, _, stood = hand.switch(after)
                    hand.prepare(max(before, after))
                    take_turns(hand.log, agents.log)
                    sample = {"tfe": agents.happen(case), "by_hand": stood if case == "join" else killed, "load": os.getloadavg()[0]}
                    if framework == "torch" and case in TORCHRUN:
                        sample["torchrun"] = torchrun(where / f"torchrun-{case}-{turn}", case)
                    found.setdefault((framework, case), []).append(sample)
                    say(f"round {turn + 1} of {rounds}, {framework}, {case}: {sample['tfe']:.0f} ms, by hand {sample['by_hand']:.0f} ms")
        finally:
            hand.end()
            agents.end()
    return found


def spread(values):
    known = [value for value in values if value is not None]
    if not known:
        return "never" if values else ""
    text = f"{median(known):.0f} ({min(known):.0f}-{max(known):.0f})"
    return text if len(known) == len(values) else f"{text}, {len(values) - len(known)} never"


def main():
    args = recovery.arguments("frameworks", __doc__.splitlines()[0], 10, FRAMEWORKS,
                              **{"only-cases": {"default": ",".join(CASES), "help": "separated by commas"}})
    cases = [case for case in CASES if case in args.only_cases.split(",")]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that everything that was started is stopped
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tfe-frameworks-"))
    os.environ.update(JAX_COMPILATION_CACHE_DIR=str(folder / "jax-cache"), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0", JAX_PLATFORMS="cpu")
    try:
        found = run(folder, args.rounds, args.only or list(FRAMEWORKS), cases, lambda text: print(text, flush=True))
    except Failed as error:
        recovery.keep_logs(folder, args.out, error)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows, is_late = [], False
    print(f"\n{'framework':12}{'case':14}{'n':>3}  {'tfe, ms':>20}  {'by hand, ms':>20}  {'above':>7}  {'torchrun, ms':>24}  load")
    for (framework, case), samples in found.items():
        above = median([sample["tfe"] - sample["by_hand"] for sample in samples])
        is_late = is_late or above > GOALS_MS.get(framework, float("inf"))
        beside = [sample["torchrun"] for sample in samples if "torchrun" in sample]
        rows.append({"framework": framework, "case": case, "n": len(samples), "above_ms": above, "goal_ms": GOALS_MS.get(framework),
                     "samples": samples})
        print(f"{framework:12}{case:14}{len(samples):3}  {spread([s['tfe'] for s in samples]):>20}  {spread([s['by_hand'] for s in samples]):>20}  "
              f"{above:7.0f}  {spread(beside):>24}  {median([s['load'] for s in samples]):.0f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return 3 if is_late and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
