"""scripts/examples/serve.py: serves the model that a job has stored, and the next one when it is there."""
import json
import os
import pathlib
import subprocess
import sys
import urllib.error
import urllib.request

from programs import clean_environment, program, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = """
import os, sys
import tensorflow as tf
factor = tf.Variable(float(sys.argv[1]))
module = tf.Module()
module.factor = factor
module.serve = tf.function(lambda x: {"y": factor * x}, input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
tf.saved_model.save(module, os.path.join(os.environ["TFE_ARTIFACTS"], "saved"), signatures={"serving_default": module.serve})
"""
KERAS = """
import os
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1, kernel_initializer="ones")])
model.save(os.path.join(os.environ["TFE_ARTIFACTS"], "model.keras"))
"""


def train(tmp_path, place, text, *arguments):
    script = tmp_path / "job.py"
    script.write_text(text)
    path = os.pathsep.join([str(pathlib.Path(program("tfe-rdzv")).parent), os.environ["PATH"]])
    done = subprocess.run([program("tfe-agent"), "--standalone", "--python", sys.executable, f"--artifacts={place}", str(script), *arguments],
                          env=clean_environment(PATH=path), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_newest_model_is_served_and_a_damaged_version_is_not(tmp_path):
    place, log = tmp_path / "models", tmp_path / "serve.log"
    train(tmp_path, place, JOB, "3")
    with open(log, "wb") as out:
        server = subprocess.Popen([sys.executable, str(ROOT / "scripts/examples/serve.py"), str(place), "--port=0", "--every=0.2"],
                                  env=clean_environment(), stdout=out, stderr=out)
    try:
        def address():
            return [line.rpartition(" ")[2] for line in log.read_text().splitlines() if line.startswith("serving")]
        url = wait_for("the first model", address, 120)[0]
        assert call(url + ":predict", {"instances": [[1, 2], [3, 4]]}) == (200, {"predictions": [[3, 6], [9, 12]]})
        assert call(url + ":predict", {"instances": "x"})[0] == 400 and call(url + "/other")[0] == 404
        (first,) = [path.name for path in place.iterdir()]
        assert call(url)[1]["model_version_status"][0]["version"] == first
        train(tmp_path, place, KERAS)
        wait_for("the second model", lambda: len(address()) == 2, 120)
        assert call(url + ":predict", {"instances": [[1, 2]]}) == (200, {"predictions": [[3]]})
        damaged = place / "99999999999999"
        damaged.mkdir()
        (damaged / "model.keras").write_text("x")
        (damaged / "tfe-manifest.json").write_text(json.dumps({"files": [{"name": "model.keras", "bytes": 1, "sha256": "0"}]}))
        wait_for("the check", lambda: "differs from the manifest" in log.read_text(), 60)
        assert call(url + ":predict", {"instances": [[1, 2]]}) == (200, {"predictions": [[3]]})
    finally:
        server.terminate()
        server.wait(30)
