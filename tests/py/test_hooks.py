"""Reports of the hooks from several threads."""
import threading

import tfe_hooks


def test_what_two_threads_send_comes_once_and_the_newest_comes(peer, monkeypatch):
    monkeypatch.setattr(tfe_hooks._signal, "signal", tfe_hooks._signal.signal)  # begin() installs its own handler there
    hooks = tfe_hooks.Hooks()
    hooks.begin()

    entered, go = threading.Event(), threading.Event()

    class Slow(tfe_hooks._Datagram):
        def __enter__(self):
            entered.set()
            go.wait(1)
            return super().__enter__()
    monkeypatch.setattr(tfe_hooks, "_Datagram", Slow)

    first = threading.Thread(target=hooks.send, args=("checkpoint", '"seen":true,"step":10'))
    first.start()
    assert entered.wait(10)
    hooks.flush()                                   # like the periodic thread
    hooks.send("checkpoint", '"seen":true,"step":20')
    go.set()
    first.join()
    assert [peer.take()["step"] for _ in range(2)] == [10, 20]
    assert not hooks.unsent and peer.is_quiet()
