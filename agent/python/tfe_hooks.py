"""agent/python/tfe_hooks.py: what tfe-agent sees of a script that knows nothing of it (PROTOCOL.md, section 10).

Loaded by tfe_bootstrap.py, unless --no-hooks: checkpoints at the one place where TensorFlow, Orbax or Keras 3 writes
them, the counter of steps that optimizers keep, a handler of SIGTERM that the script sets, its end, and a fit of Keras 3
that cannot work. One hook helps: PyTorch's store gets a socket that shares the port which the agent holds.

The script sees nothing of it: what is hooked returns and raises what it did, no descriptor stays open, and a hook that
fails says so to the agent once, which logs it as debug. What the script tells by itself goes before all of this.
"""
import _signal
import _socket
import _thread
import os
import sys

SIGTERM = 15
LOOK_FIRST_S, LOOK_S = 0.05, 0.2  # between two looks at the steps: until the first is seen, and then
END_S = 2.0                       # the interpreter's end waits so long for a look that is on
PATH_MAX, WHY_MAX = 4096, 200     # bytes

# A standby imports these in advance if the script has imported them before: tell the agent.
FRAMEWORKS = ("tensorflow", "tf_keras", "keras", "numpy", "jax", "torch")
# What to hook in which module, once it is imported: class (None: the module), its functions, how (a function below).
_KERAS = [("src.optimizers.optimizer", "_BaseOptimizer"), ("src.optimizers.legacy.optimizer_v2", "OptimizerV2"),
          ("src.optimizers.base_optimizer", "BaseOptimizer")]
PLACES = {
    "tensorflow.python.checkpoint.checkpoint": [("Checkpoint", ["_write"], "save"),
                                                ("CheckpointV1", ["_write", "save"], "save")],
    "tensorflow.python.distribute.collective_all_reduce_strategy": [
        ("CollectiveAllReduceExtended", ["_initialize_multi_worker"], "rearm")],
    "tensorflow.python.distribute.distribute_lib": [("StrategyBase", ["__init__"], "strategy")],
    # It writes the file that names the newest checkpoint after _write has returned.
    "tf_keras.src.engine.training": [("Model", ["save_weights"], "save")],
    "keras.src.engine.training": [("Model", ["save_weights"], "save")],
    "keras.src.backend.tensorflow.trainer": [("TensorFlowTrainer", ["fit"], "fit")],
    "keras.src.saving.saving_lib": [(None, ["save_model", "save_weights_only"], "save_keras")],
    "orbax.checkpoint._src.path.atomicity": [(None, ["on_commit_callback"], "commit")],
    "torch.distributed.rendezvous": [(None, ["TCPStore"], "store")],
    **{f"{keras}.{name}": [(owner, ["__init__"], "optimizer")]
       for keras in ("keras", "tf_keras") for name, owner in _KERAS},
    **{name: [] for name in FRAMEWORKS},
}


class Hooks:
    """All that is known of the one process that is the trainer. Before begin(), and in its children, nothing is told."""

    def __init__(self):
        self.pid = 0              # 0: not begun
        self.socket, self.epoch, self.rank, self.world = None, 0, 0, 1
        self.failed = set()       # what has been said
        self.unsent = {}          # by type: the agent's queue was full
        self.more = False         # has come to it while another thread sent
        self.flushing = _thread.allocate_lock()
        self.saving = {}          # by thread: the path that the save that is on has written, or None
        self.optimizers = []      # weak
        self.step = 0             # the last that was seen
        self.has_strategy = False
        self.ticks = False
        self.over = False
        self.listening = set()    # ports of PyTorch's stores in this process
        self.looking = _thread.allocate_lock()
        self.nap = _thread.allocate_lock()

    def begin(self):
        """The script is about to begin, in the trainer's environment."""
        get = os.environ.get
        self.socket = get("TFE_SOCKET")
        if not self.socket:
            return
        self.epoch, self.rank, self.world = (int(get(name, "0")) for name in ("TFE_EPOCH", "TFE_RANK", "TFE_WORLD_SIZE"))
        self.pid = os.getpid()
        real = _signal.signal

        def signal(signalnum, handler, /):
            before = real(signalnum, handler)
            if signalnum == SIGTERM:
                self.quietly("signal", self.tell_handler, handler)
            return before
        for name in ("__doc__", "__name__", "__qualname__", "__module__", "__text_signature__"):
            try:
                setattr(signal, name, getattr(real, name))
            except (AttributeError, TypeError):
                pass
        self.signal, _signal.signal = real, signal
        if callable(_signal.getsignal(SIGTERM)):
            self.tell_handler(_signal.getsignal(SIGTERM))

    # --- to the agent ------------------------------------------------------------------------------------

    def quietly(self, what, function, *arguments):
        """What a hook does, without the script ever seeing it fail."""
        try:
            return function(*arguments)
        except Exception as error:
            if what not in self.failed:
                self.failed.add(what)
                try:
                    why = f"{what}: {type(error).__name__}: {error}"
                    self.tell("remark", f'"what":"hook_failed","why":"{_plain(why)[:WHY_MAX]}"')
                except Exception:
                    pass
        return None

    def tell(self, kind, members):
        if os.getpid() != self.pid:
            return
        members = f',{members}' if members else ""
        self.unsent[kind] = f'{{"type":"{kind}","epoch":{self.epoch},"rank":{self.rank}{members}}}'.encode()
        self.flush()
        if self.unsent:
            self.tick_start()

    def flush(self):
        """Sends what is unsent, each once: while one thread does, another one only says that there is more. Nobody waits,
        for a signal's handler may tell, too."""
        self.more = True
        while self.more and self.flushing.acquire(False):
            try:
                self.more = False
                self.send_all()
            finally:
                self.flushing.release()

    def send_all(self):
        for kind in list(self.unsent):
            text = self.unsent.pop(kind)      # what is told meanwhile is another one
            try:
                with _Datagram() as sock:
                    sock.sendto(text, _socket.MSG_DONTWAIT, self.socket)
            except (BlockingIOError, InterruptedError):
                self.unsent.setdefault(kind, text)
                return            # its queue is full: with the next one, or the next look
            except OSError:
                pass              # it is not there: nobody to tell

    # --- a handler of SIGTERM ----------------------------------------------------------------------------

    def tell_handler(self, handler):
        self.tell("handler", f'"pid":{self.pid},"term":{"true" if callable(handler) else "false"}')

    def rearm(self, real):
        """TensorFlow's coordination service puts a handler of its own, which does nothing with it, over the script's."""
        def hooked(*args, **kwargs):
            result = real(*args, **kwargs)
            if self.pid == os.getpid():
                self.quietly("rearm", self.rearm_now)
            return result
        return hooked

    def rearm_now(self):
        handler = _signal.getsignal(SIGTERM)
        if callable(handler):
            self.signal(SIGTERM, handler)

    # --- checkpoints -------------------------------------------------------------------------------------

    def save(self, real):
        """The outermost save tells what the innermost has written: from then on a restart finds it."""
        def hooked(*args, **kwargs):
            me = _thread.get_ident()
            is_outer = me not in self.saving
            if is_outer:
                self.saving[me] = None
            is_whole = not self.quietly("checkpoint", _is_async, args, kwargs)
            step = self.quietly("steps", self.step_now) if is_outer else None
            path = None
            try:
                result = real(*args, **kwargs)
                if is_whole and isinstance(result, str):
                    self.saving[me] = result
            finally:
                if is_outer:
                    path = self.saving.pop(me, None)
            if path is not None and self.rank == 0:
                self.quietly("checkpoint", self.tell_checkpoint, path, step)
            return result
        return hooked

    def save_keras(self, real):
        """keras.saving, also when Model.save() or save_weights() calls it."""
        def hooked(*args, **kwargs):
            step = self.quietly("steps", self.step_now)
            result = real(*args, **kwargs)
            path = kwargs.get("filepath", args[1] if len(args) > 1 else None)
            if self.rank == 0 and isinstance(path, (str, os.PathLike)):
                self.quietly("checkpoint", self.tell_checkpoint, os.fspath(path), step)
            return result
        return hooked

    def commit(self, real):
        """Orbax renames a checkpoint into place here, on process 0 and perhaps in a thread of its own."""
        async def hooked(temporary, *args, **kwargs):
            result = await real(temporary, *args, **kwargs)
            if self.rank == 0:
                self.quietly("checkpoint", lambda: self.tell_checkpoint(str(temporary.get_final()), None))
            return result
        return hooked

    def tell_checkpoint(self, path, step):
        import json               # each framework has imported it
        if step is None:
            digits = path.rpartition("/")[2].rpartition("-")[2]
            step = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
        members = ['"seen":true'] + ([f'"step":{step}'] if step is not None else [])
        if len(path.encode(errors="replace")) <= PATH_MAX and path.isprintable():
            members.append(f'"path":{json.dumps(path)}')
        self.tell("checkpoint", ",".join(members))

    # --- steps -------------------------------------------------------------------------------------------

    def optimizer(self, real):
        def hooked(*args, **kwargs):
            result = real(*args, **kwargs)
            if self.pid == os.getpid():
                self.quietly("steps", self.optimizer_made, args[0])
            return result
        return hooked

    def optimizer_made(self, optimizer):
        import weakref            # TensorFlow has imported it
        self.optimizers = [one for one in self.optimizers if one() is not None] + [weakref.ref(optimizer)]
        self.tick_start()

    def step_now(self, step_of=None):
        """The most steps that one of the optimizers has done; None: nothing is known."""
        if self.pid != os.getpid():
            return None
        step_of = step_of or _step_of
        steps = [step_of(optimizer) for optimizer in (one() for one in self.optimizers) if optimizer is not None]
        return max((step for step in steps if step is not None), default=None)

    def tick_start(self):
        if not self.ticks and not self.over:
            import atexit
            self.ticks = True
            self.nap.acquire()
            atexit.register(self.end)
            _thread.start_new_thread(self.tick, ())

    def tick(self):
        """A thread of its own, so that no step takes longer: it reads the counters now and then."""
        while not self.nap.acquire(True, LOOK_S if self.step else LOOK_FIRST_S):
            with self.looking:
                if self.over:
                    return
                self.quietly("steps", self.look)

    def look(self):
        if self.unsent:
            self.flush()
        step = self.step_now(_tensorflow_step_of)
        if step is not None and step != self.step:
            # The first that is seen may be a checkpoint's.
            restored = "false" if 0 < self.step < step else "true"
            self.step = step
            self.tell("progress", f'"seen":true,"step":{step},"restored":{restored}')

    def end(self):
        """Nothing may be in TensorFlow when it is taken down."""
        if self.pid == os.getpid():
            self.over = True
            if self.looking.acquire(True, END_S):
                self.looking.release()
            self.nap.release()

    # --- PyTorch's store ---------------------------------------------------------------------------------

    def store(self, real):
        """Its server binds without SO_REUSEPORT, which fails while the agent holds the port, but it takes a socket."""
        def hooked(*args, **kwargs):
            listener = self.quietly("store", self.store_listener, kwargs) if self.pid == os.getpid() else None
            if listener is None:
                return real(*args, **kwargs)
            try:
                made = real(*args, **kwargs, master_listen_fd=listener.fileno())
            except TypeError:     # before PyTorch 2.1
                listener.close()
                return real(*args, **kwargs)
            listener.detach()     # it belongs to the store
            return made
        return hooked

    def store_listener(self, kwargs):
        """None: not on a port of the agent, or this process has a store there."""
        import json
        port = kwargs.get("port")
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
        ports = [address.rpartition(":")[2] for addresses in cluster.values() for address in addresses[:1]]
        if not kwargs.get("is_master") or "master_listen_fd" in kwargs or str(port) not in ports or port in self.listening:
            return None
        for family, address in ((_socket.AF_INET6, "::"), (_socket.AF_INET, "0.0.0.0")):
            try:
                listener = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
            except OSError:
                continue          # this machine has no IPv6
            try:
                listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEPORT, 1)
                if family == _socket.AF_INET6:
                    listener.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 0)
                listener.bind((address, port))
                listener.listen(_socket.SOMAXCONN)
            except OSError:
                listener.close()
                continue
            self.listening.add(port)
            return listener
        return None

    # --- its end -----------------------------------------------------------------------------------------

    def ends(self, code):
        """The main thread is through, with the exit status that follows if nothing fails on the way out: threads and atexit
        handlers may keep the process."""
        self.tell("ends", f'"code":{code}' if code else "")

    # --- what cannot work --------------------------------------------------------------------------------

    def fit(self, real):
        def hooked(*args, **kwargs):
            if self.pid == os.getpid() and self.world > 1:
                self.quietly("fit", self.fit_begins, args[0])
            return real(*args, **kwargs)
        return hooked

    def fit_begins(self, model):
        if "Collective" in type(model.distribute_strategy.extended).__name__:
            self.tell("remark", '"what":"keras3_fit"')

    # --- that it trains ----------------------------------------------------------------------------------

    def strategy(self, real):
        """The first strategy that the script makes: its cluster is formed by then, or it uses none."""
        def hooked(*args, **kwargs):
            result = real(*args, **kwargs)
            if self.world > 1 and not self.has_strategy and self.pid == os.getpid():
                self.quietly("strategy", self.strategy_made, args[0])
            return result
        return hooked

    def strategy_made(self, strategy):
        if "Default" not in type(strategy).__name__:  # TensorFlow's own, outside of any
            self.has_strategy = True
            self.tell("remark", '"what":"strategy_made"')

    # --- where -------------------------------------------------------------------------------------------

    def install(self):
        """Hooks what is imported by now, and the rest when it will be."""
        for name in PLACES:
            if name in sys.modules:
                self.quietly("install", self.patch, sys.modules[name])
        if not all(name in sys.modules for name in PLACES):
            sys.meta_path.insert(0, Finder(self))

    def patch(self, module):
        import functools          # each framework has imported it
        if module.__name__ in FRAMEWORKS:
            self.tell("remark", f'"what":"imported","why":"{module.__name__}"')
        for owner_name, methods, how in PLACES[module.__name__]:
            owner = getattr(module, owner_name, None) if owner_name else module
            for method in methods:
                real = owner and owner.__dict__.get(method)
                if real and not hasattr(real, "_tfe_hook"):
                    hooked = functools.update_wrapper(getattr(self, how)(real), real)
                    hooked._tfe_hook = True
                    setattr(owner, method, hooked)


class Finder:
    """Finds nothing by itself: a module to hook is found by the others, and hooked once it has run."""

    def __init__(self, hooks):
        self.hooks = hooks

    def find_spec(self, name, path=None, target=None):
        if name not in PLACES:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                self.hooks.quietly("install", self.watch, spec.loader)
                return spec
        return None

    def watch(self, loader):
        real = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            real(module)
            self.hooks.quietly("install", self.hooks.patch, module)
        loader.exec_module = exec_module


class _Datagram:
    def __enter__(self):
        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
        return self.socket

    def __exit__(self, *_):
        self.socket.close()


def _plain(text):
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "?" for c in text)


def _is_async(args, kwargs):
    """Whether this save goes on after it has returned: the thread that does it comes by, too."""
    options = kwargs.get("options") or next((one for one in args[2:] if hasattr(one, "experimental_io_device")), None)
    return bool(getattr(options, "experimental_enable_async_checkpoint", False))


def _counter_of(optimizer):
    """Never by the property, which may make the variable."""
    counter = getattr(optimizer, "_iterations", None)
    counter = getattr(counter, "_value", counter)     # Keras 3
    return getattr(counter, "_primary", counter)      # of a strategy


def _tensorflow_step_of(optimizer):
    """From any thread. None for JAX and PyTorch, whose counter is out of date during fit() or in use by a step."""
    counter = _counter_of(optimizer)
    device = getattr(counter, "device", None)
    if not isinstance(device, str) or "/job:ps" in device:
        return None
    return int(counter.numpy())


def _step_of(optimizer):
    """Where the script saves."""
    counter = _counter_of(optimizer)
    if counter is None or isinstance(getattr(counter, "device", None), str):
        return _tensorflow_step_of(optimizer)
    return int(counter)
