"""Runs a command and lets none of its descendants outlive it, including double-forked ones.

    supervise.py [--quiet] COMMAND…

Exit status: the command's (128 + N after signal N); 1 if it succeeded but left processes behind. On SIGINT, SIGTERM,
SIGHUP, or when its parent dies, the command's process group gets SIGINT (pytest and make clean up then) and, 15 s
later, all remaining processes get SIGKILL. --quiet: does not report or count processes left behind.
"""
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
GRACE_S = 15      # seconds from SIGINT to SIGKILL
LEFT_S = 12       # seconds that descendants may take to end after the command; tfe-ctl retries for 10 s when its server has gone


def descendants():
    """Returns process ids and names of all descendants except zombies."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", errors="replace") as file:
                    head, tail = file.read().rsplit(")", 1)
            except OSError:
                continue
            state, parent = tail.split()[:2]
            parents[int(entry)] = int(parent)
            if state not in "ZX":
                names[int(entry)] = head.split("(", 1)[1]
    found, todo = {}, [os.getpid()]
    while todo:
        above = todo.pop()
        for pid, parent in parents.items():
            if parent == above:
                todo.append(pid)
                if pid in names:
                    found[pid] = names[pid]
    return found


def reap(main):
    """Reaps all ended children; returns the wait status of main if it is among them."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == main:
            status = ended


def kill_all(main):
    """Sends SIGKILL until no descendant is left; returns main's wait status if it was reaped here."""
    status = None
    while left := descendants():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
        ended = reap(main)
        status = ended if ended is not None else status
    ended = reap(main)
    return ended if ended is not None else status


def adopt_orphans():
    """Makes this process the subreaper of its descendants, and makes it end with its parent."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main(argv):
    quiet = argv[:1] == ["--quiet"]
    command = argv[1:] if quiet else argv
    parent = os.getppid()
    adopt_orphans()
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*ends, signal.SIGCHLD})

    def in_child():  # a shell without job control starts its children with SIGINT ignored
        for number in ends:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())

    for number in (*ends, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(command, start_new_session=True, preexec_fn=in_child).pid
    except OSError as error:
        print(f"supervise: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    if os.getppid() != parent:  # the parent died before PDEATHSIG was set
        os.kill(os.getpid(), signal.SIGTERM)

    status, deadline = None, None
    while status is None:
        wait = 3600 if deadline is None else deadline - time.monotonic()
        if wait <= 0:
            status = kill_all(child)
            break
        info = signal.sigtimedwait({*ends, signal.SIGCHLD}, wait)
        status = reap(child)
        if info and info.si_signo in ends and status is None and deadline is None:
            deadline = time.monotonic() + GRACE_S
            os.killpg(child, signal.SIGINT)

    code = os.waitstatus_to_exitcode(status)
    code = 128 - code if code < 0 else code
    if deadline is None and not quiet:
        patience = time.monotonic() + LEFT_S
        while descendants() and time.monotonic() < patience:
            time.sleep(0.02)
            reap(child)
        if left := descendants():
            names = ", ".join(f"{name} ({pid})" for pid, name in sorted(left.items()))
            print(f"supervise: {command[0]} left processes behind: {names}", file=sys.stderr)
            code = code or 1
    kill_all(child)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
