"""Runs the demo: three agents train, one is killed, a new one joins, and the training succeeds. Called by demo.sh."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))
import fleet as fl

STEPS = 2400
ENOUGH = 60           # steps of an epoch that count as progress
ACCURACY_LEAST = 0.93
WARM_S = 10           # longest wait for the standby interpreters of the next start
PATIENCE_S = 90       # limit for any single step; on an idle machine with two cores each takes 3 to 8 s
EXPECTED = [(3, "start"), (2, "node_lost"), (3, "joined")]


class Progress:
    """One line of progress: rewritten in place on a terminal, else a new line every few seconds."""

    def __init__(self, fleet):
        self.fleet, self.began, self.last = fleet, time.monotonic(), 0.0
        self.tty = sys.stdout.isatty()

    def __call__(self):
        now = time.monotonic()
        if now - self.last < (0.5 if self.tty else 3):
            return
        self.last = now
        epochs, steps = self.fleet.epochs(), self.fleet.steps()
        if not epochs:
            text = "waiting for the first epoch"
        else:
            step = max((line["step"] for line in steps if line["epoch"] == epochs[-1]["epoch"]), default=None)
            text = f"epoch {epochs[-1]['epoch']}, {epochs[-1]['members']} members, " + (
                f"step {step} of {STEPS}" if step else "starting")
        text += f", {now - self.began:.0f} s"
        print(f"\r{text:<70}" if self.tty else text, end="" if self.tty else "\n", flush=True)

    def say(self, text):
        print(f"\r{'':<70}\r{text}" if self.tty else text, flush=True)


def story(fleet, hold):
    """Runs the scenario and returns the accuracy."""
    progress = Progress(fleet)

    def start(name):
        fleet.start_agent(name, fl.EXAMPLES / "digits.py", "--steps", STEPS, "--pace", 0.02, "--hold", hold,
                          "--step-log", fleet.step_logs, "--checkpoint-dir", fleet.checkpoints,
                          options=("--nnodes=1:3", "--preload=tensorflow,numpy,sklearn.datasets"))

    def watch(living):
        for name in living:
            status = fleet.agents[name].poll()
            if status is not None:
                raise fl.Failed(f"agent {name} ended with {status} before the demo was over")
        progress()

    def trained(number, living):
        """Waits until the number-th epoch (from 1) has completed enough steps or, if the machine is so slow that the
        epoch began near the end, all steps except the one that is held."""
        def look():
            epochs = fleet.epochs()
            if len(epochs) < number:
                return False
            lines = [line for line in fleet.trainer_lines() if line["epoch"] == epochs[number - 1]["epoch"]]
            begun = [line["step"] for line in lines if line.get("event") == "restored"]
            return len(begun) == epochs[number - 1]["members"] and \
                len({line["step"] for line in lines if "sum" in line}) >= min(ENOUGH, STEPS - 1 - begun[0])
        fl.wait_for(f"{ENOUGH} steps in epoch {number} of the job", look, PATIENCE_S, busy=lambda: watch(living))

    def warm(living):
        """Waits until a standby interpreter is ready on each node: it no longer uses its processor. Otherwise the
        change would include the time of importing TensorFlow."""
        deadline, before = time.monotonic() + WARM_S, {}
        while time.monotonic() < deadline:
            watch(living)
            now = fleet.standbys()
            if set(living) <= set(now) and all(now[name] == before.get(name) for name in living):
                return
            before = now
            time.sleep(0.7)

    for name in ("a", "b", "c"):
        start(name)
    trained(1, "abc")
    warm("abc")
    progress.say(f"kill -9 of agent b (process {fleet.agents['b'].pid})")
    fleet.agents["b"].send_signal(signal.SIGKILL)
    trained(2, "ac")
    warm("ac")
    progress.say("a new agent, d")
    start("d")
    trained(3, "acd")
    hold.unlink()  # the training may end now

    statuses = fleet.wait_agents("acd", PATIENCE_S, busy=progress)
    if any(statuses.values()):
        raise fl.Failed("agents ended with " + ", ".join(f"{name}: {code}" for name, code in statuses.items()))
    for line in fleet.trainer_lines():
        if line.get("event") == "start" and pathlib.Path(f"/proc/{line['pid']}").exists():
            raise fl.Failed(f"trainer process {line['pid']} of epoch {line['epoch']} is still there")
    said = [match for name in "acd" for match in re.findall(r"test accuracy ([0-9.]+)", fleet.output(name))]
    if not said:
        raise fl.Failed("no trainer printed a test accuracy")
    return float(said[-1])


def stop(fleet):
    if (status := fleet.stop_server()) != 0:
        raise fl.Failed(f"tfe-rdzv ended with {status} after SIGTERM")


def free_port():
    """Returns tfe-web's default port if it is free, else another one."""
    for port in (8080, 0):
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            return one.getsockname()[1]
    raise fl.Failed("there is no free port on 127.0.0.1")


def show(result):
    print(f"\ntest accuracy {result['accuracy']:.4f}\n\nepoch  members  cause           standstill")
    for epoch in result["epochs"]:
        print(f"{epoch['epoch']:>5}  {epoch['members']:>7}  {epoch['cause']:<14}  {epoch['standstill_ms']:>7} ms")
    print(f"\n{result['trainer_restarts']} trainer restarts, {result['wall_s']:.0f} s in all", flush=True)


def check(fleet, accuracy):
    """Returns the result for --json; raises Failed if it differs from the expected outcome."""
    epochs, lines = fleet.epochs(), fleet.trainer_lines()
    steps = [line for line in lines if "sum" in line]
    for epoch, standstill in zip(epochs, fl.standstills(epochs, steps)):
        epoch["standstill_ms"] = standstill
    if [(epoch["members"], epoch["cause"]) for epoch in epochs] != EXPECTED:
        raise fl.Failed(f"epochs were {json.dumps(epochs)}, expected (members, cause) {EXPECTED}")
    for epoch in epochs:
        if epoch["standstill_ms"] is None:
            raise fl.Failed(f"epoch {epoch['epoch']} completed no step")
        sums = {line["sum"] for line in steps if line["epoch"] == epoch["epoch"]}
        if sums != {float(epoch["members"])}:
            raise fl.Failed(f"all-reduce of 1.0 in epoch {epoch['epoch']} gave {sums}, members {epoch['members']}")
    if accuracy < ACCURACY_LEAST:
        raise fl.Failed(f"test accuracy {accuracy}, expected at least {ACCURACY_LEAST}")
    return {"accuracy": accuracy, "epochs": epochs, "trainer_restarts": fl.trainer_restarts(lines)}


def main():
    parser = argparse.ArgumentParser(prog="demo.sh", description=__doc__.split(" Called")[0])
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write the result there")
    parser.add_argument("--keep", action="store_true", help="leave the server and its page up until Ctrl-C")
    parser.add_argument("--began", type=float, default=None, help=argparse.SUPPRESS)  # Unix time at which demo.sh began
    args = parser.parse_args()
    began = args.began if args.began is not None else time.time()
    # A signal leaves by an exception, so that the `with` below cleans up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    directory = pathlib.Path(tempfile.mkdtemp(prefix="tfe-demo-"))
    keep = True
    try:
        hold = directory / "hold"
        hold.touch()
        # The first epoch waits for three members, however long they take, because three is the maximum.
        web = free_port()
        with fl.Fleet(directory, "--ttl", "3", "--gather", "20") as fleet:
            fleet.start_web(web)
            print(f"watch it at http://127.0.0.1:{web}/", flush=True)
            accuracy = story(fleet, hold)
            if not args.keep:
                stop(fleet)
            result = {**check(fleet, accuracy), "wall_s": round(time.time() - began, 1)}
            show(result)
            if args.json:
                order = ("accuracy", "wall_s", "epochs", "trainer_restarts")
                temporary = args.json.with_name(args.json.name + ".new")
                temporary.write_text(json.dumps({key: result[key] for key in order}) + "\n")
                os.replace(temporary, args.json)
            if args.keep:
                print(f"the page stays at http://127.0.0.1:{web}/ until Ctrl-C", flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    fleet.server.wait()
                    time.sleep(1)  # the server also received the Ctrl-C
                    raise fl.Failed("the server has ended")
        keep = False
    except fl.Failed as failure:
        print(f"\ndemo failed: {failure}\nlogs are in {directory}/logs", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit) as end:
        keep = False
        return 130 if isinstance(end, KeyboardInterrupt) else end.code
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)

    return 0


if __name__ == "__main__":
    sys.exit(main())
