"""Measures the time from an agent's receipt of START until its standby has the start or, cold, the trainer's exec has
happened.

In each round a new agent joins the next run of a job on one private server; its trainer ends at once. The agent
measures the time itself (event trainer_started of its log): from the moment at which it has opened the frame with START
to the guard's report that the standby has environment and descriptors, or that exec has happened. So the way from the
guard back to the agent is included. The floor of the cold row, in the same rounds: a bare vfork and exec of the same
interpreter by a small program, until exec has happened. A new process waits for a processor on a busy machine, so
--quick does not judge that row.
"""
import json
import os
import subprocess
import sys
import tempfile

from figures import BIN, Figures, arguments
from programs import Server, clean_environment

GOAL_MS = 2.0
COLD_RATIO = 1.5
TURNS = 30


def start(server, script, *options):
    """Returns the ms for the only trainer of one agent."""
    line = [BIN / "agent" / "tfe-agent", "--new-run", "--log-level=debug", "--log-format=json", "--python", sys.executable,
            "--preload=json", *options, script]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=clean_environment(TFE_STATE_DIR=str(server.state_dir)))
    if done.returncode:
        sys.exit(f"the agent ended with {done.returncode}:\n{done.stderr}")
    events = [json.loads(text) for text in done.stderr.splitlines() if text.startswith("{")]
    started = [e for e in events if e["event"] == "trainer_started"]
    if len(started) != 1:
        sys.exit(f"{len(started)} starts in place of one:\n{done.stderr}")
    return started[0]["after_us"] / 1000, started[0]["how"]


def bare_exec():
    """Returns the ms of vfork and exec alone, until the kernel runs the interpreter."""
    done = subprocess.run([BIN / "bench" / "tfe-bench-exec", "1", sys.executable, "-c", ""], capture_output=True, text=True,
                          env=clean_environment(), check=True, timeout=60)
    return json.loads(done.stdout)[0]


def main():
    options = arguments(__doc__)
    figures = Figures(options)
    turns = TURNS // 6 if options.quick else TURNS
    warm, cold, floor = [], [], []
    with tempfile.TemporaryDirectory(prefix="tfe-bench-") as folder:
        script = os.path.join(folder, "script.py")
        with open(script, "w", encoding="utf-8") as out:
            out.write("import json\nprint(json.dumps('done'))\n")
        server = Server(os.path.join(folder, "state"), os.path.join(folder, "log"), "--gather=0", "--ephemeral", "--log-level=warn").start()
        try:
            server.listens()
            for _ in range(turns):
                for values, how, more in ((warm, "standby", ()), (cold, "exec", ("--no-standby", "--no-hooks"))):
                    value, was = start(server, script, *more)
                    if was != how:
                        sys.exit(f"started by {was} in place of {how}")
                    values.append(value)
                floor.append(bare_exec())
        finally:
            server.kill()
    figures.add("start_handover, START to the standby", warm, "ms", goal=("value<=", GOAL_MS))
    figures.add("start_handover, START to exec, cold", cold, "ms", floor,
                None if options.quick else ("ratio<=", COLD_RATIO))
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
