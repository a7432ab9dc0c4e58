"""Hooks for scripts that know nothing of tfe: checkpoints of Orbax and keras.saving, and JAX's and PyTorch's start."""
import json
import textwrap

import pytest
from programs import wait_for

CASES = {
    "orbax": ("orbax", """
        import os, jax, numpy as np, orbax.checkpoint as ocp
        manager = ocp.CheckpointManager(os.path.abspath("saved"))
        for step in (7, 14):
            manager.save(step, args=ocp.args.StandardSave({"w": np.ones(8)}))
        manager.wait_until_finished()
        """, 14),
    "orbax, one by one": ("orbax", """
        import os, numpy as np, orbax.checkpoint as ocp
        with ocp.StandardCheckpointer() as one:
            one.save(os.path.abspath("saved-9"), {"w": np.ones(8)})
        """, 9),
    "keras": ("jax", """
        import os
        os.environ["KERAS_BACKEND"] = "jax"
        import keras, numpy as np
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        model.fit(np.ones((6, 2)), np.ones((6, 1)), batch_size=2, verbose=0)
        model.save_weights("one.weights.h5")
        model.save("one.keras")
        """, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_is_seen_with_its_step(make_fleet, case):
    package, source, step = CASES[case]
    pytest.importorskip(package)
    fleet = make_fleet()
    script = fleet.directory / "train.py"
    script.write_text(textwrap.dedent(source) + "\nprint('saved', flush=True)\nimport time\ntime.sleep(3600)\n")
    fleet.start_agent("a", script, options=("--nnodes=1:1", "--log-level=debug", "--log-format=json"), JAX_PLATFORMS="cpu")
    wait_for("the save", lambda: "saved" in fleet.output("a"), 240)

    def seen():
        lines = [json.loads(line) for line in fleet.output("a", "err").splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == "checkpoint_reported"]
    wait_for("the agent to know", lambda: [line for line in seen() if line["step"] == step and line["by"] == "hook"], 20)
    assert "hook_failed" not in fleet.output("a", "err")


@pytest.mark.needs("jax")
@pytest.mark.parametrize("options", [(), ("--framework=none",), ("--no-standby",)], ids=["standby", "imported later", "bootstrap"])
def test_initialize_needs_no_arguments_in_a_script_without_tfe(make_fleet, options):
    fleet = make_fleet()
    script = fleet.directory / "train.py"
    script.write_text("import jax\njax.distributed.initialize()\nprint('joined', jax.process_index(), jax.process_count(), flush=True)\n")
    for name in "ab":
        fleet.start_agent(name, script, options=("--nnodes=2:2", "--log-level=debug", *options), JAX_PLATFORMS="cpu", SLURM_JOB_ID="7")
    wait_for("both to join", lambda: all("joined" in fleet.output(name) for name in "ab"), 240)
    assert sorted(fleet.output(name).split("joined ")[1].strip() for name in "ab") == ["0 2", "1 2"]
    assert not any("hook_failed" in fleet.output(name, "err") for name in "ab")
