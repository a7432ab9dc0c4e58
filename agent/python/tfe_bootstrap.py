"""agent/python/tfe_bootstrap.py: the interpreter that tfe-agent starts early, and that becomes the trainer.

    python tfe_bootstrap.py standby|cold[+hooks] PRELOAD PYTHON [-m] SCRIPT ARGUMENTS...

Descriptor 3 is a SOCK_SEQPACKET socket to tfe-guard (same format as agent/guard/guard_proto.h). A standby imports
the modules of PRELOAD, sends W, and waits; `cold` waits at once. PRELOAD is a comma-separated list, or
":FRAMEWORK+MODULES": the modules of the framework that the script imports, and MODULES, which it imported at
its last start. With +hooks the agent observes the script (tfe_hooks.py).

The start arrives as one packet with three descriptors: a file with the trainer's arguments and environment, its
stdout and its stderr. From then on the script cannot distinguish this process from a plain `python SCRIPT`. If
that is impossible (e.g. an unpredictable change of the environment, or an import that fails), this process sends
the reason in one packet C, and the guard starts the script directly.

Import at the top only what a plain interpreter has imported anyway: the script must not find more.
"""
import os
import sys

CONTROL = 3                       # socket to the guard
FRAMEWORKS = {                    # modules by --framework; the first is always imported, except for auto
    "auto": ("tensorflow", "tf_keras", "keras", "numpy", "jax", "torch"),
    "tensorflow": ("tensorflow", "tf_keras", "keras", "numpy"),
    "jax": ("jax", "keras", "numpy"),
    "torch": ("torch", "keras", "numpy"),
    "none": (),
}
OURS = ("tfe.checkpoint", "tfe.data", "tfe.distribute")  # imported after TensorFlow if the script imports both
OURS_JAX = ("tfe.jax",)           # the same after JAX
PACKET = 24                       # size of struct guard_words
OUTPUT_MAX = 1 << 16              # maximum output of the imports per stream that is repeated
OPTION_M = "-m"


class Cold(Exception):
    """The script has to be started directly; the message gives the reason."""


# --- process title ---


def title_set(words, name):
    """Shows these words instead of the command line in ps and pgrep, as far as they fit, and sets
    the short name.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        text = b"".join(os.fsencode(word) + b"\0" for word in words)[:end - start - 1]
        with open("/proc/self/mem", "r+b", buffering=0) as file:
            file.seek(start)
            file.write(text.ljust(end - start, b"\0"))
        with open("/proc/self/comm", "w") as file:
            file.write(name)
    except (OSError, IndexError, ValueError):
        pass  # only the display name is affected


def name_get():
    try:
        with open("/proc/self/comm") as file:
            return file.read().strip()
    except OSError:
        return "python"


# --- analysis of the script ---


def source_of(script, is_module):
    """Returns the path of the script, and of the packages whose __init__ runs before it."""
    if not is_module:
        return script, []
    words = script.split(".")
    for folder in sys.path:
        base = os.path.join(folder, *words)
        above = [os.path.join(folder, *words[:n], "__init__.py") for n in range(1, len(words))]
        if os.path.isfile(os.path.join(base, "__main__.py")):
            return os.path.join(base, "__main__.py"), above + [os.path.join(base, "__init__.py")]
        if os.path.isfile(base + ".py"):
            return base + ".py", above
    raise Cold(f"the source of module {script} was not found")


class Reader:
    """Determines from a script's source which environment variables it sets before it imports a
    preloaded module.
    """

    def __init__(self, candidates):
        import ast
        self.ast, self.candidates, self.seen = ast, candidates, set()
        self.settings = []        # (operation, name, value), in order
        self.found = []           # modules of `candidates` that are imported anywhere, in order
        self.has_ours = False     # True if `tfe` is imported
        self.reaches = False      # a local file imports one of `candidates`

    def parse(self, path):
        try:
            with open(path, "rb") as file:
                return self.ast.parse(file.read(), path)
        except (OSError, SyntaxError, ValueError) as error:
            raise Cold(f"{os.path.basename(path)} cannot be read: {error}") from None

    def imports(self, node):
        """Returns the full names of the modules that this statement itself imports."""
        if isinstance(node, self.ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, self.ast.ImportFrom) and not node.level and node.module:
            return [node.module]
        return []

    def aliases(self, tree):
        """Returns the names under which os, os.environ and functions that change the environment
        are known.
        """
        modules, mappings, functions = {"os"}, set(), set()
        for node in self.ast.walk(tree):
            if isinstance(node, self.ast.Import):
                modules |= {a.asname or a.name for a in node.names if a.name == "os"}
            elif isinstance(node, self.ast.ImportFrom) and node.module == "os":
                for a in node.names:
                    if a.name in ("environ", "environb"):
                        mappings.add(a.asname or a.name)
                    elif a.name in ("putenv", "unsetenv"):
                        functions.add(a.asname or a.name)
        return modules, mappings, functions

    def is_environ(self, node):
        ast, (modules, mappings, _) = self.ast, self.names
        if isinstance(node, ast.Name):
            return node.id in mappings
        return (isinstance(node, ast.Attribute) and node.attr in ("environ", "environb")
                and isinstance(node.value, ast.Name) and node.value.id in modules)

    def changes(self, node):
        """Returns True if the node changes the environment, when executed or when called later."""
        ast, (modules, _, functions) = self.ast, self.names
        for part in ast.walk(node):
            if isinstance(part, ast.Subscript) and self.is_environ(part.value):
                if not isinstance(part.ctx, ast.Load):
                    return True
            elif isinstance(part, ast.AugAssign) and self.is_environ(part.target):
                return True
            elif isinstance(part, ast.Call):
                call = part.func
                if isinstance(call, ast.Name) and (call.id in functions or call.id == "load_dotenv"):
                    return True
                if isinstance(call, ast.Attribute):
                    if self.is_environ(call.value) and call.attr not in (
                            "get", "copy", "items", "keys", "values", "__contains__", "__getitem__"):
                        return True
                    if call.attr in ("putenv", "unsetenv", "load_dotenv"):
                        return True
        return False

    def text(self, node):
        """Returns the constant string of the expression, or None."""
        if isinstance(node, self.ast.Constant) and isinstance(node.value, str):
            return node.value
        return None

    def take_simple(self, statement):
        """Handles a statement that sets constants. Returns False for any other statement."""
        ast = self.ast
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Subscript) and self.is_environ(target.value):
                key = target.slice.value if isinstance(target.slice, getattr(ast, "Index", ())) else target.slice
                name, value = self.text(key), self.text(statement.value)
                if name is not None and value is not None:
                    self.settings.append(("set", name, value))
                    return True
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        call = statement.value
        if not isinstance(call.func, ast.Attribute) or not self.is_environ(call.func.value):
            return False
        texts = [self.text(argument) for argument in call.args]
        if call.func.attr == "setdefault" and len(texts) == 2 and None not in texts and not call.keywords:
            self.settings.append(("default", *texts))
            return True
        if call.func.attr == "pop" and texts[:1] != [None] and 1 <= len(texts) <= 2 and not call.keywords:
            self.settings.append(("pop", texts[0], None))
            return True
        if call.func.attr == "update":
            found = [(k.arg, self.text(k.value)) for k in call.keywords]
            if call.args:
                if len(call.args) > 1 or not isinstance(call.args[0], ast.Dict):
                    return False
                found = [(self.text(k) if k else None, self.text(v))
                         for k, v in zip(call.args[0].keys, call.args[0].values)] + found
            if all(name is not None and value is not None for name, value in found):
                self.settings += [("set", name, value) for name, value in found]
                return True
        return False

    def check_opaque(self, path):
        """Checks a file that runs before: it must not change the environment."""
        path = os.path.realpath(path)
        if path in self.seen or not os.path.isfile(path):
            return
        self.seen.add(path)
        tree = self.parse(path)
        names, self.names = getattr(self, "names", None), self.aliases(tree)
        if self.changes(tree):
            raise Cold(f"{os.path.basename(path)}, which it imports, changes the environment")
        for node in self.ast.walk(tree):
            for name in self.imports(node):
                self.reaches = self.reaches or name.partition(".")[0] in self.candidates
                self.check_local(name, os.path.dirname(path))
        self.names = names

    def check_local(self, name, folder):
        base = os.path.join(folder, *name.split("."))
        self.check_opaque(base + ".py")
        self.check_opaque(os.path.join(base, "__init__.py"))

    def read(self, path, is_certain=False):
        """Reads the script or a local module. is_certain means that one of `candidates` is imported in any case, even if
        the source does not show it.
        """
        ast, tree = self.ast, self.parse(path)
        self.names = self.aliases(tree)
        for node in ast.walk(tree):
            for name in self.imports(node):
                first = name.partition(".")[0]
                self.has_ours = self.has_ours or first == "tfe"
                if first in self.candidates and first not in self.found:
                    self.found.append(first)
        if not self.found and not is_certain:
            return                # no preloaded module is imported, so the order does not matter
        for statement in tree.body:
            if self.take_simple(statement):
                continue
            if self.changes(statement):
                raise Cold(f"line {statement.lineno} changes the environment in a way that cannot be foreseen")
            names = [name for node in ast.walk(statement) for name in self.imports(node)]
            is_code = not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            if is_code and any(name.partition(".")[0] in self.candidates for name in names):
                return
            self.reaches = False
            for name in names:
                if name.partition(".")[0] not in self.candidates:
                    self.check_local(name, os.path.dirname(path))
            if is_code and self.reaches:
                return


def settings_apply(settings):
    for how, name, value in settings:
        if how == "set":
            os.environ[name] = value
        elif how == "default":
            os.environ.setdefault(name, value)
        else:
            os.environ.pop(name, None)


# --- importing ---


def check_untouched():
    """Raises Cold if a resource is open that only the trainer may open: a device or a TensorFlow
    context.
    """
    context = sys.modules.get("tensorflow.python.eager.context")
    made = getattr(context, "_context", None)
    if made is not None and getattr(made, "_context_handle", None) is not None:
        raise Cold("importing its modules creates a TensorFlow context")
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith("/dev/") and target not in ("/dev/null", "/dev/urandom", "/dev/random", "/dev/zero"):
            raise Cold(f"importing its modules opens {target}")


def module_load(name):
    """Loads a file beside this one as a module that cannot be found by its name."""
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
        return module
    finally:
        sys.dont_write_bytecode = kept


def hooks_install():
    """Loads tfe_hooks.py. Scripts run without it, too."""
    try:
        hooks = module_load("tfe_hooks").Hooks()
        hooks.install()
        return hooks
    except Exception:
        return None


def ours_import(importlib, names):
    """Imports the modules that `tfe` imports at its first use. The script reports errors itself."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            return


class Preload:
    """The parsed argument PRELOAD."""

    def __init__(self, text):
        framework, _, known = text[1:].partition("+")
        is_list = text[:1] not in ("", ":")
        self.listed = [word for word in text.split(",") if word] if is_list else []
        self.candidates = FRAMEWORKS["auto" if not text else framework] if not is_list else ()
        self.known = [word for word in known.split(",") if word in self.candidates] if not is_list else []
        if self.candidates and framework not in ("", "auto"):
            self.known.insert(0, self.candidates[0])

    def read(self, script, is_module):
        names = self.listed or self.candidates
        reader = Reader(set(name.partition(".")[0] for name in names))
        path, above = source_of(script, is_module)
        for file in above:
            reader.check_opaque(file)
        reader.read(path, bool(self.known))
        reader.found += [name for name in self.known if name not in reader.found]
        return reader


def modules_import(names, ours=()):
    """Imports the modules. Returns the variables that this set in the environment, and those that
    it removed.
    """
    import importlib
    before = dict(os.environ)
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            raise Cold(f"importing {name} failed: {type(error).__name__}: {error}") from None
    ours_import(importlib, ours)
    check_untouched()
    after = dict(os.environ)
    return ({name: value for name, value in after.items() if before.get(name) != value},
            [name for name in before if name not in after])


def preload(text, script, is_module):
    """Imports what the script will import. text is the argument PRELOAD. Returns the same as modules_import."""
    plan = Preload(text)
    reader = plan.read(script, is_module)
    settings_apply(reader.settings)
    ours = OURS if "tensorflow" in reader.found else OURS_JAX if "jax" in reader.found else ()
    return modules_import(plan.listed or reader.found, ours if not plan.listed and reader.has_ours else ())


# --- start of the script ---


def receive(control):
    """Waits for the start. Returns arguments, environment, directory or None, stdout and stderr;
    None if the guard is gone.
    """
    packet, rights, _, _ = control.recvmsg(PACKET, 64)
    if len(packet) != PACKET or not rights:
        return None
    fds = memoryview(rights[0][2]).cast("i").tolist()
    size = int.from_bytes(packet[:8], sys.byteorder)
    n_args, n_env, has_directory = (int.from_bytes(packet[at:at + 4], sys.byteorder) for at in (8, 12, 16))
    block = b""
    while len(block) < size:
        block += os.pread(fds[0], size - len(block), len(block))
    os.close(fds[0])
    words = block.split(b"\0")
    return (words[:n_args], words[n_args:n_args + n_env], words[n_args + n_env] if has_directory else None, *fds[1:])


def output_buffer(fd):
    """Redirects output to fd into a buffer, and returns the buffer."""
    kept = os.memfd_create("tfe-standby", os.MFD_CLOEXEC)
    os.dup2(kept, fd)
    return kept


def output_replay(kept, source, fd):
    """Replaces fd by source and writes the buffered output to it."""
    text = os.pread(kept, OUTPUT_MAX, 0)
    os.close(kept)
    os.dup2(source, fd)
    os.close(source)
    while text:
        try:
            text = text[os.write(fd, text):]
        except OSError:
            return


def environment_become(entries, added, removed):
    """Sets the trainer's environment, with the changes that the imports would have made to it."""
    new = {}
    for entry in entries:
        name, _, value = entry.partition(b"=")
        new[os.fsdecode(name)] = os.fsdecode(value)
    new.update(added)
    for name in removed:
        new.pop(name, None)
    for name in [name for name in os.environ if name not in new]:
        del os.environ[name]
    for name, value in new.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None  # may be cached from the old environment
    import posix
    posix.environ.clear()
    posix.environ.update({os.fsencode(name): os.fsencode(value) for name, value in new.items()})


def main_empty():
    """Resets __main__ to the state of a plain interpreter, and returns its namespace."""
    import builtins
    names = sys.modules["__main__"].__dict__
    had_annotations = "__annotations__" in names
    names.clear()
    names.update(__name__="__main__", __doc__=None, __package__=None, __loader__=None, __spec__=None,
                 __builtins__=builtins)
    if had_annotations:
        names["__annotations__"] = {}
    return names


def run_script(path):
    from importlib.machinery import SourceFileLoader
    file = os.path.abspath(path) if sys.version_info >= (3, 9) else path
    names = main_empty()
    names.update(__file__=file, __cached__=None, __loader__=SourceFileLoader("__main__", file))
    try:
        with open(path, "rb") as script:
            source = script.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {file!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    exec(compile(source, file, "exec", dont_inherit=True), names)


def run_module(name):
    import runpy
    main_empty()
    runpy._run_module_as_main(name)


def own_frames_hide(error):
    """Hides the frames of this file in tracebacks, whatever prints them."""
    hook = sys.excepthook

    def hide(value):
        while value.__traceback__ and value.__traceback__.tb_frame.f_code.co_filename == __file__:
            value.__traceback__ = value.__traceback__.tb_next
        return type(value), value, value.__traceback__

    def show(_, value, __):
        parts = hide(value)
        sys.last_traceback = value.__traceback__
        sys.excepthook = hook
        try:
            hook(*parts)
        except SystemExit:
            raise
        except BaseException as second:  # same output as the interpreter's
            print("Error in sys.excepthook:", file=sys.stderr)
            second.__context__ = None
            sys.__excepthook__(*hide(second))
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(*parts)

    if not isinstance(error, SystemExit):
        sys.excepthook = show


def become(start, kept, changes, name):
    arguments, entries, directory, out, err = start
    null = os.open("/dev/null", os.O_RDONLY)
    if null != 0:
        os.dup2(null, 0)
        os.close(null)
    output_replay(kept[0], out, 1)
    output_replay(kept[1], err, 2)
    if directory is not None:
        os.chdir(directory)
    environment_become(entries, *changes)
    words = [os.fsdecode(word) for word in arguments]
    title_set(words, name)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = words
    is_module = words[1] == OPTION_M
    sys.argv[:] = [OPTION_M, *words[3:]] if is_module else words[1:]
    return words[2] if is_module else words[1], is_module


def exit_status(error):
    """Returns the interpreter's exit status after this exception."""
    if not isinstance(error, SystemExit):
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    if error.code is None:
        return 0
    return error.code & 255 if isinstance(error.code, int) else 1


class End:
    """What follows the script's main thread: the copy of its artifacts, and the report to the agent."""

    def __init__(self, hooks):
        self.hooks, self.pid = hooks, os.getpid()
        self.given = {name: value for name, value in os.environ.items() if name.startswith("TFE_")}
        self.given["directory"] = os.getcwd()

    def come(self, status):
        """Raises SystemExit if the script has succeeded and its artifacts were not stored."""
        code = status
        if status == 0 and "TFE_ARTIFACTS_URI" in self.given and os.getpid() == self.pid:
            code = module_load("tfe_artifacts").store(self.given)
        if self.hooks:
            self.hooks.quietly("ends", self.hooks.ends, code)
        if code != status:
            raise SystemExit(code)


def path_first(script, is_module):
    """Returns sys.path[0] as the interpreter sets it, in a list; empty in safe-path mode."""
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return []
    return [os.getcwd() if is_module else os.path.dirname(os.path.realpath(script))]


def tensorflow_version():
    """Returns the imported version of TensorFlow in the characters of an id. It must be the same on
    all nodes of a job.
    """
    version = str(getattr(sys.modules.get("tensorflow"), "__version__", ""))[:64]
    return "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in version).encode()


def main():
    import _socket
    mode, listed, python = sys.argv[1:4]
    mode, _, with_hooks = mode.partition("+")
    hooks = None
    name = name_get()
    own = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == own:
        del sys.path[0]
    kept = [output_buffer(1), output_buffer(2)]
    changes = ({}, [])
    os.set_inheritable(CONTROL, False)
    control = _socket.socket(fileno=CONTROL)
    try:
        is_module = sys.argv[4] == OPTION_M
        script = sys.argv[5 if is_module else 4]
        if mode == "standby":
            title_set(["tfe-standby"], "tfe-standby")
            before = list(sys.argv)
            sys.argv[:] = [OPTION_M, *before[6:]] if is_module else before[4:]
            first = path_first(script, is_module)
            sys.path[:0] = first
            changes = preload(listed, script, is_module)
            if first and sys.path[:1] == first:
                del sys.path[0]
            hooks = hooks_install() if with_hooks else None
            control.send(b"W" + tensorflow_version())
        start = receive(control)
        if start is None:
            os._exit(0)
        if with_hooks and mode == "cold":
            hooks = hooks_install()
    except Cold as error:
        control.send(b"C" + str(error).encode(errors="replace")[:190].replace(b"\n", b" "))
        os._exit(0)
    script, is_module = become(start, kept, changes, name)
    sys.path[:0] = path_first(script, is_module)
    try:
        control.send(b"T")
    except OSError:
        os._exit(0)               # the guard is gone, so the script would run without a fence
    control.close()
    sys.modules.pop("tfe_bootstrap", None)
    if hooks:
        hooks.quietly("begin", hooks.begin)
    end = End(hooks)
    try:
        run_module(script) if is_module else run_script(script)
    except BaseException as error:
        end.come(exit_status(error))
        own_frames_hide(error)
        raise
    end.come(0)


if __name__ == "__main__":
    # Load this file again as a module: the script gets __main__, and this code must survive that.
    import importlib.util
    spec = importlib.util.spec_from_file_location("tfe_bootstrap", __file__)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tfe_bootstrap"] = module
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = kept
    module.main()
