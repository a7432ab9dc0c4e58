"""A script in a standby finds the same environment as in a plain `python script.py`: the bootstrap, driven like by
tfe-guard."""

import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from programs import clean_environment

sys.path.insert(0, str(ROOT / "scripts" / "lib"))
from standby import Standby  # noqa: E402

# Prints everything that a script can see of its start, except random and time-dependent values.
MIRROR = '''
"""Doc."""
from __future__ import annotations
import json, os, signal, sys, threading
main = sys.modules["__main__"]
seen = {
    "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "path": sys.path, "file": __file__, "name": __name__,
    "doc": __doc__, "package": __package__, "spec": str(__spec__), "loader": type(__loader__).__name__, "loads": __loader__.name,
    "cached": globals().get("__cached__", "none"), "names": sorted(globals()), "same": main.__dict__ is globals(),
    "builtins": str(type(__builtins__)), "flags": str(sys.flags), "executable": sys.executable, "prefix": sys.prefix,
    "cwd": os.getcwd(), "environ": dict(os.environ), "getenv": __import__("subprocess").getoutput("env | grep -v ^_= | sort"),
    "posix": sorted(map(str, __import__("posix").environ.items())),
    "signals": {s.name: str(signal.getsignal(s)) for s in signal.Signals},
    "mask": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "ignored": [l for l in open("/proc/self/status") if l.startswith(("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs"))],
    "fds": sorted(os.listdir("/proc/self/fd")),
    "files": [t.split(":")[0] for t in (os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2))],
    "stdin": os.readlink("/proc/self/fd/0"), "tty": [f.isatty() for f in (sys.stdin, sys.stdout, sys.stderr)],
    "streams": [(f.mode, f.encoding, f.errors, f.line_buffering, f.write_through, f.seekable()) for f in (sys.stdout, sys.stderr)],
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    "exception": str(sys.exc_info()), "threads": [t.name for t in threading.enumerate()], "dont_write": sys.dont_write_bytecode,
    "own": [m for m in sys.modules if "tfe" in m], "comm": open("/proc/self/comm").read(),
    "cmdline": open("/proc/self/cmdline").read().rstrip("\\0"), "nice": os.nice(0), "umask": os.umask(0o22),
    "annotations": dict(globals().get("__annotations__", {})), "recursion": sys.getrecursionlimit(), "trace": str(sys.gettrace()),
}
print(json.dumps(seen))
'''

ENDINGS = {
    "falls off": "print('done')",
    "an exception": "def inner():\n    raise ValueError('no')\n\ndef outer():\n    inner()\n\nouter()",
    "a chained one": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e",
    "one with a note, of a library": "import json\njson.loads('{')",
    "exit code": "import sys\nsys.exit(42)",
    "exit code above 255": "import sys\nsys.exit(300)",
    "exit text": "import sys\nsys.exit('a reason')",
    "exit none": "raise SystemExit",
    "os._exit": "import os\nos._exit(7)",
    "interrupted": "raise KeyboardInterrupt",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "interrupted from outside": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)",
    "abort": "import os\nos.abort()",
    "atexit": "import atexit\natexit.register(print, 'one')\natexit.register(print, 'two')\nprint('body')",
    "atexit after an exception": "import atexit\natexit.register(print, 'one')\nraise OSError(5, 'x')",
    "an exception in atexit": "import atexit\ndef f():\n    raise RuntimeError('late')\natexit.register(f)",
    "a hook of its own": "import sys\nsys.excepthook = lambda k, v, t: print('hook', k.__name__, t.tb_lineno, t.tb_next)\n1 / 0",
    "a broken hook": "import sys\ndef hook(*a):\n    raise TypeError('hook')\nsys.excepthook = hook\n1 / 0",
    "last": "import sys, atexit\natexit.register(lambda: print(sys.last_type, sys.last_traceback.tb_lineno))\n1 / 0",
    "syntax": "def f(:\n    pass",
    "an encoding": "# -*- coding: latin-1 -*-\nprint(ascii('\xe4'))",
    "tabs": "if 1:\n\tx = 1\n        y = 2",
    "empty": "",
    "a missing import": "import no_such_module_anywhere",
    "a module beside it": "import beside\nprint(beside.__file__)\nbeside.fail()",
    "a thread that goes on": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.2), print('late'))).start()\nprint('main')",
    "an exception in a thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()",
    "a warning": "import warnings\nwarnings.warn('old', DeprecationWarning)\nwarnings.warn('odd')",
    "spawn": "import multiprocessing as m\n\ndef f(x):\n    return x + 1\n\nif __name__ == '__main__':\n"
             "    with m.get_context('spawn').Pool(2) as p:\n        print(p.map(f, range(4)))",
    "spawn without a guard": "import multiprocessing as m\ndef f():\n    pass\nm.get_context('spawn').Process(target=f).start()",
    "fork": "import os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
    "forkserver": "import multiprocessing as m\ndef f(q):\n    q.put(__name__)\nif __name__ == '__main__':\n    c = m.get_context('forkserver')\n"
                  "    q = c.Queue()\n    p = c.Process(target=f, args=(q,))\n    p.start()\n    print(q.get())\n    p.join()",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__module__)",
    "dataclass": "import dataclasses, typing\n@dataclasses.dataclass\nclass A:\n    x: 'int'\nprint(typing.get_type_hints(A), A(1))",
    "reads stdin": "import sys\nprint(repr(sys.stdin.read()))",
    "inspect": "import inspect\ndef f():\n    pass\nprint(inspect.getsource(f), inspect.getmodule(f).__name__)",
    "deep": "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as e:\n    print(e)",
    "unbuffered": "import sys, os\nsys.stdout.write('a')\nos.write(1, b'b')\nsys.stderr.write('c')\nos._exit(0)",
}


def environment(folder, **more):
    # PYTHONDONTWRITEBYTECODE: otherwise the first run would leave files for the second.
    return clean_environment(PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(folder), **more)


def run_plain(line, folder, env):
    done = subprocess.run(line, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def standby():
    made = []

    def start(*arguments, **more):
        made.append(Standby(*arguments, **more))
        return made[-1]
    yield start
    for one in made:
        one.end()


def write(folder, text, name="train.py"):
    path = folder / name
    path.write_text(text, encoding="latin-1")
    return name


def no_addresses(done):
    return tuple(re.sub("0x[0-9a-f]+", "0x", str(part)) for part in done)


def both_ways(folder, standby, line, preload="json", text=None, **variables):
    """Runs a script in a plain interpreter and in a standby and returns both ends; text: content of the script after
    the standby has read it."""
    env = environment(folder)
    one = standby(line, folder, env, preload, mode="standby+hooks")
    assert one.says() == "W"
    variables = {"TFE_SOCKET": str(folder / "nobody"), **variables}
    if text is not None:
        write(folder, text)
    plain = run_plain(line, folder, {**env, **variables})
    return no_addresses(plain), no_addresses(one.hand_over({**env, **variables}))


@pytest.mark.parametrize("how", ["relative", "absolute", "link", "module", "package"])
def test_a_script_sees_what_it_would_see_in_a_plain_interpreter(tmp_path, standby, how):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "__init__.py").write_text("")
    write(tmp_path, MIRROR)
    write(tmp_path / "sub", MIRROR, "__main__.py")
    (tmp_path / "sub" / "link.py").symlink_to(tmp_path / "train.py")
    words = {"relative": ["train.py"], "absolute": [str(tmp_path / "train.py")], "link": ["sub/link.py"],
             "module": ["-m", "train"], "package": ["-m", "sub"]}[how]
    plain, warm = both_ways(tmp_path, standby, [sys.executable, *words, "--a", "b c", ""], TF_CONFIG='{"a": 1}', RANK="3")
    assert plain[0] == warm[0] == '0', warm
    expected, found = json.loads(plain[1]), json.loads(warm[1])
    different = {key: (expected[key], found[key]) for key in expected if expected[key] != found[key]}
    assert not different
    assert plain[2] == warm[2]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_ends_as_it_would_in_a_plain_interpreter(tmp_path, standby, ending):
    write(tmp_path, "def fail():\n    raise IndexError('beside')\n", "beside.py")
    plain, warm = both_ways(tmp_path, standby, [sys.executable, write(tmp_path, "")], text=ENDINGS[ending])
    assert plain == warm


@pytest.mark.parametrize("ending", ["an exception", "exit code", "a module beside it", "spawn", "atexit", "syntax", "interrupted"])
def test_a_module_ends_as_it_would_in_a_plain_interpreter(tmp_path, standby, ending):
    write(tmp_path, "def fail():\n    raise IndexError('beside')\n", "beside.py")
    write(tmp_path, "")
    plain, warm = both_ways(tmp_path, standby, [sys.executable, "-m", "train"], text=ENDINGS[ending])
    assert plain == warm


def test_a_script_that_has_gone_fails_as_it_would_in_a_plain_interpreter(tmp_path, standby):
    write(tmp_path, "print(1)")
    line = [sys.executable, "train.py"]
    env = environment(tmp_path)
    one = standby(line, tmp_path, env)
    assert one.says() == "W"
    (tmp_path / "train.py").unlink()
    assert run_plain(line, tmp_path, env) == one.hand_over(env)


def test_options_of_the_interpreter_in_the_environment_hold(tmp_path, standby):
    write(tmp_path, MIRROR)
    line = [sys.executable, "train.py"]
    for more in ({"PYTHONSAFEPATH": "1"}, {"PYTHONPATH": f"{tmp_path}:/nowhere"}, {"PYTHONOPTIMIZE": "1"}, {"PYTHONUTF8": "1"}):
        env = environment(tmp_path, **more)
        plain = run_plain(line, tmp_path, env)
        one = standby(line, tmp_path, env, "json")
        assert one.says() == "W"
        warm = one.hand_over(env)
        assert json.loads(plain[1]) == json.loads(warm[1]), more


def test_a_large_environment_passes_through_the_pipe(tmp_path, standby):
    """One string of the environment is limited to 128 KiB in execve(2)."""
    write(tmp_path, "import os, sys\nprint(len(os.environ['TF_CONFIG']))\nraise SystemExit(5)")
    line = [sys.executable, "train.py"]
    env = environment(tmp_path)
    with pytest.raises(OSError):
        run_plain(line, tmp_path, {**env, "TF_CONFIG": "x" * 300_000})
    one = standby(line, tmp_path, env, mode="cold")
    assert one.hand_over({**env, "TF_CONFIG": "x" * 300_000}) == (5, "300000\n", "")


# --- imports and their environment ----------------------------------------------------------------

SPY = '''import os, sys
FOUND = {k: os.environ.get(k) for k in ("A", "B", "C", "HOME")}
os.environ["SET_BY_IMPORT"] = "1"
print("imported", file=sys.stderr)
'''
REPORT = '\nimport json, numpy, os, sys\nprint(json.dumps([numpy.FOUND, os.environ.get("SET_BY_IMPORT"), os.environ.get("A")]))'


@pytest.mark.parametrize("early", [
    "import os\nos.environ['A'] = '1'",
    "import os as o\no.environ.setdefault('A', '2')\no.environ.setdefault('HOME', 'x')",
    "from os import environ\nenviron.update({'A': '1', 'B': '2'}, C='3')",
    "from os import environ as e\ne.pop('HOME', None)",
    "'''Doc.'''\nimport os, sys\nprint(os.environ.get('A'))\nclass X:\n    y = os.environ.get('B', '')\nos.environ['B'] = 'b'",
    "def main():\n    import numpy\n    return numpy\nimport os\nos.environ['A'] = '1'",
])
def test_constant_settings_of_a_script_are_made_before_its_imports(tmp_path, standby, early):
    write(tmp_path, SPY, "numpy.py")
    write(tmp_path, early + REPORT)
    plain, warm = both_ways(tmp_path, standby, [sys.executable, "train.py"], preload="")
    assert plain == warm
    assert "imported" in warm[2]


@pytest.mark.parametrize("early", [
    "import os, sys\nos.environ['A'] = sys.argv[0]",
    "import os\nos.environ['A'] = os.environ['TFE_RANK']",
    "import os\nif 'A' not in os.environ:\n    os.environ['A'] = '1'",
    "import os\nos.putenv('A', '1')",
    "import os\nos.environ.update(dict(A='1'))",
    "import os\ndel os.environ['HOME']",
    "import os\nos.environ |= {'A': '1'}",
    "import os\ndef f():\n    os.environ['A'] = '1'\nf()",
    "import helper",
    "from dotenv import load_dotenv\nload_dotenv()",
    "x = (",
])
def test_settings_that_cannot_be_foreseen_mean_a_plain_start(tmp_path, standby, early):
    write(tmp_path, SPY, "numpy.py")
    write(tmp_path, "import os\nos.environ['A'] = str(1 + 1)", "helper.py")
    write(tmp_path, early + REPORT)
    one = standby([sys.executable, "train.py"], tmp_path, environment(tmp_path))
    assert one.says().startswith("C")
    assert one.process.wait(60) == 0


@pytest.mark.parametrize("module, words", [
    ("raise RuntimeError('broken')", "importing numpy failed: RuntimeError: broken"),
    ("import sys\nsys.exit(3)", "importing numpy failed"),
    ("import os\nKEPT = os.open('/dev/full', os.O_RDONLY)", "opens /dev/full"),
    ("import sys, types\nm = types.ModuleType('tensorflow.python.eager.context')\nsys.modules[m.__name__] = m\n"
     "m._context = types.SimpleNamespace(_context_handle=1)", "creates a TensorFlow context"),
])
def test_imports_that_fail_or_reach_too_far_mean_a_plain_start(tmp_path, standby, module, words):
    write(tmp_path, module, "numpy.py")
    write(tmp_path, "import numpy")
    one = standby([sys.executable, "train.py"], tmp_path, environment(tmp_path))
    assert words in one.says()


@pytest.mark.parametrize("imports, preload, there", [
    ("import tfe\nimport os\nos.environ['A'] = '1'\nimport tensorflow", "", True),
    ("import tensorflow, tfe", "", True),
    ("import tfe", "", False),                      # a script that does not need TensorFlow does not get it
    ("import tensorflow", "", False),
    ("import tensorflow, tfe", "tensorflow", False),
])
def test_our_package_is_warm_where_the_script_uses_it_with_tensorflow(tmp_path, standby, imports, preload, there):
    write(tmp_path, "import os\nA = os.environ.get('A')", "tensorflow.py")
    (tmp_path / "tfe").mkdir()
    for name in ("__init__", "checkpoint", "data", "distribute"):
        write(tmp_path / "tfe", "", f"{name}.py")
    write(tmp_path, "import sys\nbefore = sorted(m for m in sys.modules if m.startswith('tfe.'))\n"
          + imports + "\nprint(before, getattr(sys.modules.get('tensorflow'), 'A', None))")
    one = standby([sys.executable, "train.py"], tmp_path, environment(tmp_path), preload)
    assert one.says() == "W"
    _, said, _ = one.hand_over(environment(tmp_path))
    before = "['tfe.checkpoint', 'tfe.data', 'tfe.distribute']" if there else "[]"
    assert said == f"{before} {'1' if 'environ' in imports else None}\n"


@pytest.mark.parametrize("preload, script, there", [
    (":auto", "import jax", "['jax']"),
    (":tensorflow", "import jax", "cannot import"),        # TensorFlow is not installed here
    (":jax", "import helper", "['jax']"),
    (":jax+numpy", "import helper", "['jax', 'numpy']"),
    (":auto+jax", "import helper", "['jax']"),
    (":auto+torch", "import helper", "cannot import"),
    (":torch+jax", "import jax", "cannot import"),         # PyTorch's preload does not include JAX
    (":none", "import jax", "[]"),
    (":auto", "import helper", "[]"),                      # the script's source shows no framework
])
def test_frameworks_are_imported_as_the_option_and_earlier_starts_say(tmp_path, standby, preload, script, there):
    for name in ("jax", "numpy"):
        write(tmp_path, "", f"{name}.py")
    write(tmp_path, "raise ImportError('cannot import')", "tensorflow.py")
    write(tmp_path, "raise ImportError('cannot import')", "torch.py")
    write(tmp_path, "import jax", "helper.py")
    write(tmp_path, "import sys\nprint(sorted({'jax', 'numpy'} & set(sys.modules)))\n" + script)
    one = standby([sys.executable, "train.py"], tmp_path, environment(tmp_path), preload)
    says = one.says()
    if there == "cannot import":
        assert says.startswith("C") and there in says
    else:
        assert says == "W"
        assert one.hand_over(environment(tmp_path))[1] == there + "\n"


@pytest.mark.parametrize("script, seen", [
    ("import os\nos.environ['A'] = '1'\nimport helper", "1"),
    ("import helper\nimport os\nos.environ['A'] = '1'", None),       # too late for imports of helper
    ("import os\nimport sys\nos.environ['A'] = sys.argv[0]\nimport helper", "cannot be foreseen"),
])
def test_the_environment_is_right_for_a_framework_that_a_local_module_imports(tmp_path, standby, script, seen):
    write(tmp_path, "import os\nA = os.environ.get('A')", "jax.py")
    write(tmp_path, "import jax", "helper.py")
    write(tmp_path, script + "\nimport jax\nprint(jax.A)")
    one = standby([sys.executable, "train.py"], tmp_path, environment(tmp_path), ":auto+jax")
    says = one.says()
    if seen == "cannot be foreseen":
        assert says.startswith("C") and seen in says
    else:
        assert says == "W" and one.hand_over(environment(tmp_path))[1] == f"{seen}\n"


def test_a_standby_is_called_one_until_it_is_a_trainer(tmp_path, standby):
    write(tmp_path, "import time\nprint(open('/proc/self/cmdline').read())")
    one = standby([sys.executable, "train.py", "x" * 300], tmp_path, environment(tmp_path))
    assert one.says() == "W"
    shown = [(f"/proc/{one.process.pid}/{name}") for name in ("comm", "cmdline")]
    assert [open(path).read().strip("\0\n") for path in shown] == ["tfe-standby"] * 2
    assert "train.py" in one.hand_over(environment(tmp_path))[1]


def test_a_standby_whose_guard_is_gone_ends(tmp_path, standby):
    write(tmp_path, "print(1)")
    one = standby([sys.executable, "train.py"], tmp_path, environment(tmp_path))
    assert one.says() == "W"
    one.control.close()
    assert one.process.wait(60) == 0
