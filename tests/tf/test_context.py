"""A warm interpreter has imported TensorFlow and created nothing that only a trainer may have: no context, no
device."""
import importlib.metadata
import os
import pathlib
import sys

import pytest

import fleet as fl
from standby import Standby

SCRIPT = '''
import sys
before = set(sys.modules)
import tensorflow as tf
from tensorflow.python.eager import context

def handle():
    return getattr(context._context, "_context_handle", None)

had = "tensorflow" in before
first = handle() is None
tf.constant(1.0)
print(had, first, handle() is None)
'''


def threads(pid):
    """Returns the threads that TensorFlow's context starts."""
    names = [(task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return [name for name in names if name.startswith("tf_")]


@pytest.fixture
def standby(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    made = Standby([sys.executable, str(script)], tmp_path, fl.clean_environment())
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def test_no_context_exists_before_the_start(standby):
    version = importlib.metadata.version("tensorflow-cpu")
    assert standby.says() == f"W{version}"  # the server compares it with the version on the job's other nodes
    maps = pathlib.Path(f"/proc/{standby.pid}/maps").read_text()
    assert "libtensorflow" in maps  # it is imported
    assert not threads(standby.pid)
    assert not [fd for fd in pathlib.Path(f"/proc/{standby.pid}/fd").iterdir() if os.readlink(fd).startswith("/dev/nvidia")]
    status, out, err = standby.hand_over(dict(os.environ))
    assert (status, out.split()) == (0, ["True", "True", "False"]), err  # TensorFlow's first operation creates one
