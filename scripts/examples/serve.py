"""Serves the newest model of a place of artifacts (tfe-agent --artifacts DIR) over HTTP on 127.0.0.1.

    python serve.py /shared/models --port 8501
    curl -d '{"instances": [[1.0, 2.0]]}' http://127.0.0.1:8501/v1/models/model:predict

The place is a directory; mount a bucket, or copy from it (`aws s3 sync`). Its versions are folders named by numbers. A
version counts once its manifest is there and all files have the sizes and SHA-256 of the manifest. The model is a
SavedModel or a `.keras` file in it. A newer version is loaded while the old one still answers. Requests and responses
have the form of TensorFlow Serving's REST API: `GET /v1/models/model` shows the version.
"""
import argparse
import hashlib
import http.server
import json
import pathlib
import sys
import threading

MANIFEST = "tfe-manifest.json"
BODY_MAX = 64 << 20


def newest(place, above=-1):
    """Returns the highest complete version above the given one as (number, folder); None if there is none."""
    versions = [(int(path.name), path) for path in place.iterdir() if path.name.isdigit() and (path / MANIFEST).is_file()]
    return max((one for one in versions if one[0] > above), default=None)


def verify(folder):
    """Raises ValueError if a file differs from the manifest."""
    for entry in json.loads((folder / MANIFEST).read_text())["files"]:
        with open(folder / entry["name"], "rb") as file:
            digest = hashlib.sha256()
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        if digest.hexdigest() != entry["sha256"]:
            raise ValueError(f"{folder / entry['name']} differs from the manifest")


def load(folder):
    """Returns a function from a list of inputs to a list of outputs."""
    import tensorflow as tf
    keras = sorted(folder.rglob("*.keras"))
    if keras:
        model = tf.keras.models.load_model(keras[0])
        return lambda instances: model(tf.constant(instances, tf.float32), training=False).numpy().tolist()
    saved = sorted(folder.rglob("saved_model.pb"))
    if not saved:
        raise ValueError(f"{folder} has neither a .keras file nor a SavedModel")
    model = tf.saved_model.load(str(saved[0].parent))
    function = model.signatures["serving_default"]
    _, inputs = function.structured_input_signature
    (name, spec), *others = inputs.items()
    if others:
        raise ValueError(f"the signature serving_default has {len(inputs)} inputs, not one")

    def predict(instances):
        (result, *_) = function(**{name: tf.constant(instances, spec.dtype)}).values()
        return result.numpy().tolist()
    predict.model = model  # the function alone does not keep its variables
    return predict


class Server(http.server.ThreadingHTTPServer):
    """current: version and function of the loaded model."""

    def __init__(self, place, port, every_s):
        super().__init__(("127.0.0.1", port), Handler)
        self.place, self.every_s, self.current = place, every_s, (-1, None)

    def look(self):
        found = newest(self.place, above=self.current[0])
        if found:
            verify(found[1])
            self.current = found[0], load(found[1])
            print(f"serving version {found[0]} on http://127.0.0.1:{self.server_port}/v1/models/model", flush=True)

    def watch(self):
        waits = threading.Event()
        while True:
            try:
                self.look()
            except Exception as error:  # a version that cannot be loaded; the old one still answers
                print(f"not loaded: {error}", file=sys.stderr, flush=True)
            waits.wait(self.every_s)


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        version, model = self.server.current
        if self.path != "/v1/models/model":
            return self.answer(404, {"error": "not found"})
        states = [{"version": str(version), "state": "AVAILABLE"}] if model else []
        return self.answer(200, {"model_version_status": states})

    def do_POST(self):
        _, model = self.server.current
        size = self.headers.get("Content-Length", "")
        if self.path != "/v1/models/model:predict" or not model:
            return self.answer(404 if model else 503, {"error": "not found" if model else "no model is stored yet"})
        if not size.isdigit() or int(size) > BODY_MAX:
            return self.answer(413, {"error": f"the body has no length, or more than {BODY_MAX} bytes"})
        try:
            instances = json.loads(self.rfile.read(int(size)))["instances"]
            return self.answer(200, {"predictions": model(instances)})
        except Exception as error:
            return self.answer(400, {"error": f"{type(error).__name__}: {error}"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("place", type=pathlib.Path, help="directory of --artifacts")
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--every", type=float, default=5, help="seconds between two looks for a newer version")
    given = parser.parse_args()
    server = Server(given.place, given.port, given.every)
    threading.Thread(target=server.watch, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
