"""agent/python/tfe_hooks.py: lets tfe-agent observe scripts that do not use tfe (PROTOCOL.md, section 10).

Loaded by tfe_bootstrap.py, unless --no-hooks. Observes checkpoints where TensorFlow, Orbax or Keras 3 writes
them, the step counter of optimizers, the script's SIGTERM handler, its end, and a fit() of Keras 3 that
cannot work. Two hooks change behaviour: PyTorch's store gets a socket that shares the port held by the agent,
and jax.distributed.initialize() needs no arguments.

Hooks are invisible to the script: hooked functions return and raise as before, no descriptor stays open, and a
hook that fails is reported once to the agent, which logs it at level debug. What the script itself reports
takes precedence.
"""
import _signal
import _socket
import _thread
import os
import sys

SIGTERM = 15
POLL_FIRST_S, POLL_S = 0.05, 0.2  # intervals of reading the step: until the first step is seen, and afterwards
END_S = 2.0                       # maximum time that the interpreter's exit waits for a read in progress
PATH_MAX, WHY_MAX = 4096, 200     # in bytes

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
    # These write the file that names the newest checkpoint after _write has returned.
    "tf_keras.src.engine.training": [("Model", ["save_weights"], "save")],
    "keras.src.engine.training": [("Model", ["save_weights"], "save")],
    "keras.src.backend.tensorflow.trainer": [("TensorFlowTrainer", ["fit"], "fit")],
    "keras.src.saving.saving_lib": [(None, ["save_model", "save_weights_only"], "save_keras")],
    "orbax.checkpoint._src.path.atomicity": [(None, ["on_commit_callback"], "commit")],
    "jax._src.clusters.cluster": [("ClusterEnv", ["auto_detect_unset_distributed_params"], "cluster")],
    "torch.distributed.rendezvous": [(None, ["TCPStore"], "store")],
    **{f"{keras}.{name}": [(owner, ["__init__"], "optimizer")]
       for keras in ("keras", "tf_keras") for name, owner in _KERAS},
    **{name: [] for name in FRAMEWORKS},
}


class Hooks:
    """State of the hooks in the trainer process. Nothing is reported before begin() or in child
    processes.
    """

    def __init__(self):
        self.pid = 0              # 0 before begin()
        self.socket, self.epoch, self.rank, self.world = None, 0, 0, 1
        self.failed = set()       # hooks whose failure was reported
        self.unsent = {}          # messages by type that did not fit into the agent's queue
        self.more = False         # set if messages were added while another thread was sending
        self.flushing = _thread.allocate_lock()
        self.saving = {}          # by thread: path written by the save in progress, or None
        self.optimizers = []      # weak references
        self.step = 0             # last step that was seen
        self.has_strategy = False
        self.has_thread = False
        self.over = False
        self.listening = set()    # ports of PyTorch's stores in this process
        self.polling = _thread.allocate_lock()
        self.wake = _thread.allocate_lock()

    def begin(self):
        """Called before the script starts, in the trainer's environment."""
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
                self.quietly("signal", self.report_handler, handler)
            return before
        for name in ("__doc__", "__name__", "__qualname__", "__module__", "__text_signature__"):
            try:
                setattr(signal, name, getattr(real, name))
            except (AttributeError, TypeError):
                pass
        self.signal, _signal.signal = real, signal
        if callable(_signal.getsignal(SIGTERM)):
            self.report_handler(_signal.getsignal(SIGTERM))

    # --- messages to the agent ---

    def quietly(self, what, function, *arguments):
        """Runs a hook without letting the script see a failure."""
        try:
            return function(*arguments)
        except Exception as error:
            if what not in self.failed:
                self.failed.add(what)
                try:
                    why = f"{what}: {type(error).__name__}: {error}"
                    self.send("remark", f'"what":"hook_failed","why":"{_plain(why)[:WHY_MAX]}"')
                except Exception:
                    pass
        return None

    def after(self, real, what, function):
        """Returns a hook that calls function with the positional arguments after the hooked one."""
        def hooked(*args, **kwargs):
            result = real(*args, **kwargs)
            if self.pid == os.getpid():
                self.quietly(what, function, *args)
            return result
        return hooked

    def send(self, kind, members):
        if os.getpid() != self.pid:
            return
        members = f',{members}' if members else ""
        self.unsent[kind] = f'{{"type":"{kind}","epoch":{self.epoch},"rank":{self.rank}{members}}}'.encode()
        self.flush()
        if self.unsent:
            self.thread_start()

    def flush(self):
        """Sends pending messages. If another thread is sending, it only signals that there are
        more; nothing blocks, because a signal handler may send as well.
        """
        self.more = True
        while self.more and self.flushing.acquire(False):
            try:
                self.more = False
                self.send_all()
            finally:
                self.flushing.release()

    def send_all(self):
        for kind in list(self.unsent):
            text = self.unsent.pop(kind)      # a message added meanwhile is a new one
            try:
                with _Datagram() as sock:
                    sock.sendto(text, _socket.MSG_DONTWAIT, self.socket)
            except (BlockingIOError, InterruptedError):
                self.unsent.setdefault(kind, text)
                return            # the queue is full: retried with the next message or check
            except OSError:
                pass              # the agent is gone

    # --- SIGTERM handler ---

    def report_handler(self, handler):
        self.send("handler", f'"pid":{self.pid},"term":{"true" if callable(handler) else "false"}')

    def rearm(self, real):
        """TensorFlow's coordination service replaces the script's SIGTERM handler by one without
        effect; restores it.
        """
        return self.after(real, "rearm", self.rearm_now)

    def rearm_now(self, *_):
        handler = _signal.getsignal(SIGTERM)
        if callable(handler):
            self.signal(SIGTERM, handler)

    # --- checkpoints ---

    def save(self, real):
        """Reports what the innermost save has written when the outermost one is complete, because
        only then a restart finds the checkpoint.
        """
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
                self.quietly("checkpoint", self.report_checkpoint, path, step)
            return result
        return hooked

    def save_keras(self, real):
        """Hooks keras.saving, which Model.save() and save_weights() call too."""
        def hooked(*args, **kwargs):
            step = self.quietly("steps", self.step_now)
            result = real(*args, **kwargs)
            path = kwargs.get("filepath", args[1] if len(args) > 1 else None)
            if self.rank == 0 and isinstance(path, (str, os.PathLike)):
                self.quietly("checkpoint", self.report_checkpoint, os.fspath(path), step)
            return result
        return hooked

    def commit(self, real):
        """Orbax renames a checkpoint into place here, on process 0 and perhaps in a thread of its own."""
        async def hooked(temporary, *args, **kwargs):
            result = await real(temporary, *args, **kwargs)
            if self.rank == 0:
                self.quietly("checkpoint", lambda: self.report_checkpoint(str(temporary.get_final()), None))
            return result
        return hooked

    def report_checkpoint(self, path, step):
        import json               # already imported by each framework
        if step is None:
            digits = path.rpartition("/")[2].rpartition("-")[2]
            step = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
        members = ['"seen":true'] + ([f'"step":{step}'] if step is not None else [])
        if len(path.encode(errors="replace")) <= PATH_MAX and path.isprintable():
            members.append(f'"path":{json.dumps(path)}')
        self.send("checkpoint", ",".join(members))

    # --- steps ---

    def optimizer(self, real):
        return self.after(real, "steps", self.optimizer_made)

    def optimizer_made(self, optimizer, *_):
        import weakref            # already imported by TensorFlow
        self.optimizers = [one for one in self.optimizers if one() is not None] + [weakref.ref(optimizer)]
        self.thread_start()

    def step_now(self, step_of=None):
        """Returns the highest step count of all optimizers, or None if unknown."""
        if self.pid != os.getpid():
            return None
        step_of = step_of or _step_of
        steps = [step_of(optimizer) for optimizer in (one() for one in self.optimizers) if optimizer is not None]
        return max((step for step in steps if step is not None), default=None)

    def thread_start(self):
        if not self.has_thread and not self.over:
            import atexit
            self.has_thread = True
            self.wake.acquire()
            atexit.register(self.end)
            _thread.start_new_thread(self.run, ())

    def run(self):
        """Reads the counters from time to time in a separate thread, so that no step is delayed."""
        while not self.wake.acquire(True, POLL_S if self.step else POLL_FIRST_S):
            with self.polling:
                if self.over:
                    return
                self.quietly("steps", self.poll)

    def poll(self):
        if self.unsent:
            self.flush()
        step = self.step_now(_tensorflow_step_of)
        if step is not None and step != self.step:
            # The first step that is seen may come from a checkpoint.
            restored = "false" if 0 < self.step < step else "true"
            self.step = step
            self.send("progress", f'"seen":true,"step":{step},"restored":{restored}')

    def end(self):
        """Stops the thread, which must not call TensorFlow during its shutdown."""
        if self.pid == os.getpid():
            self.over = True
            if self.polling.acquire(True, END_S):
                self.polling.release()
            self.wake.release()

    # --- JAX's cluster ---

    def cluster(self, real):
        """Hooks JAX's search for a launcher. JAX reads the address itself; number and rank come from here, even if
        another launcher, such as Slurm, has started the agent.
        """
        def hooked(cls, address, n_processes, process, devices, method, *more):
            get = os.environ.get
            if self.pid == os.getpid() and method is None and get("JAX_COORDINATOR_ADDRESS"):
                address = address or get("JAX_COORDINATOR_ADDRESS")
                n_processes = int(get("JAX_NUM_PROCESSES")) if n_processes is None else n_processes
                process = int(get("JAX_PROCESS_ID")) if process is None else process
                if devices is None and int(get("LOCAL_WORLD_SIZE", "1")) > 1:
                    devices = [int(get("LOCAL_RANK"))]
                return address, n_processes, process, devices
            return real(cls, address, n_processes, process, devices, method, *more)
        return hooked

    # --- PyTorch's store ---

    def store(self, real):
        """Hooks the constructor of the store. Its server binds without SO_REUSEPORT, which would fail while the
        agent holds the port, but it accepts a listening socket.
        """
        def hooked(*args, **kwargs):
            listener = self.quietly("store", self.store_listener, kwargs) if self.pid == os.getpid() else None
            if listener is None:
                return real(*args, **kwargs)
            try:
                made = real(*args, **kwargs, master_listen_fd=listener.fileno())
            except TypeError:     # PyTorch before 2.1 lacks the argument
                listener.close()
                return real(*args, **kwargs)
            listener.detach()     # the store owns it now
            return made
        return hooked

    def store_listener(self, kwargs):
        """Returns a listening socket for the store; None if its port is not one that the agent holds, or if this
        process already has a store on it.
        """
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

    # --- end of the script ---

    def ends(self, code):
        """Reports the end of the main thread and the exit status that follows if nothing fails.
        Threads and atexit handlers may keep the process alive.
        """
        self.send("ends", f'"code":{code}' if code else "")

    # --- unsupported use ---

    def fit(self, real):
        def hooked(*args, **kwargs):
            if self.pid == os.getpid() and self.world > 1:
                self.quietly("fit", self.fit_begins, args[0])
            return real(*args, **kwargs)
        return hooked

    def fit_begins(self, model):
        if "Collective" in type(model.distribute_strategy.extended).__name__:
            self.send("remark", '"what":"keras3_fit"')

    # --- start of training ---

    def strategy(self, real):
        """Reports the first strategy of the script. Its cluster is connected by then, or it uses
        none.
        """
        return self.after(real, "strategy", self.strategy_made)

    def strategy_made(self, strategy, *_):
        is_default = "Default" in type(strategy).__name__  # TensorFlow's default strategy
        if self.world > 1 and not self.has_strategy and not is_default:
            self.has_strategy = True
            self.send("remark", '"what":"strategy_made"')

    # --- installation ---

    def install(self):
        """Hooks modules that are already imported, and the others when they are imported."""
        for name in PLACES:
            if name in sys.modules:
                self.quietly("install", self.patch, sys.modules[name])
        if not all(name in sys.modules for name in PLACES):
            sys.meta_path.insert(0, Finder(self))

    def patch(self, module):
        import functools          # already imported by each framework
        if module.__name__ in FRAMEWORKS:
            self.send("remark", f'"what":"imported","why":"{module.__name__}"')
        for owner_name, methods, how in PLACES[module.__name__]:
            owner = getattr(module, owner_name, None) if owner_name else module
            for method in methods:
                found = owner and owner.__dict__.get(method)
                real = found.__func__ if isinstance(found, classmethod) else found
                if real and not hasattr(real, "_tfe_hook"):
                    hooked = functools.update_wrapper(getattr(self, how)(real), real)
                    hooked._tfe_hook = True
                    setattr(owner, method, hooked if found is real else classmethod(hooked))


class Finder:
    """Import finder that hooks a module after it has been loaded; leaves finding it to the other
    finders.
    """

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
    """Returns True if the save continues after it has returned. The thread that completes it calls
    the hook as well.
    """
    options = kwargs.get("options") or next((one for one in args[2:] if hasattr(one, "experimental_io_device")), None)
    return bool(getattr(options, "experimental_enable_async_checkpoint", False))


def _counter_of(optimizer):
    """Reads the step without the property, which could create the variable."""
    counter = getattr(optimizer, "_iterations", None)
    counter = getattr(counter, "_value", counter)     # Keras 3
    return getattr(counter, "_primary", counter)      # under a strategy


def _tensorflow_step_of(optimizer):
    """Returns the step of an optimizer of TensorFlow. Thread-safe. Returns None for JAX and PyTorch, whose counter
    is out of date during fit() or in use by a step.
    """
    counter = _counter_of(optimizer)
    device = getattr(counter, "device", None)
    if not isinstance(device, str) or "/job:ps" in device:
        return None
    return int(counter.numpy())


def _step_of(optimizer):
    """Returns the step of any optimizer. Call it only where the script saves."""
    counter = _counter_of(optimizer)
    if counter is None or isinstance(getattr(counter, "device", None), str):
        return _tensorflow_step_of(optimizer)
    return int(counter)
