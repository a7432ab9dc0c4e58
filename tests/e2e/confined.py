"""Runs a program with the rights of a systemd unit, as far as possible without systemd: system calls, capabilities, no
new privileges. Usage: confined.py UNIT PROGRAM ARGUMENTS…"""

import ctypes
import os
import re
import subprocess
import sys

ALLOW, ERRNO_EPERM = 0x7FFF0000, 0x00050001


def calls_of(words):
    """Returns the calls of a SystemCallFilter, with its groups resolved."""
    found = set()
    for word in words:
        if word.startswith("@"):
            told = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", word], capture_output=True, text=True, check=True)
            lines = [line.strip() for line in told.stdout.splitlines()[1:]]
            found |= calls_of(line for line in lines if line and not line.startswith("#"))
        else:
            found.add(word)
    return found


def main():
    unit, *line = sys.argv[1:]
    text = open(unit, encoding="utf-8").read()
    allowed, refused = set(), set()
    for words in re.findall(r"^SystemCallFilter=(.*)", text, re.M):
        if words.startswith("~"):
            allowed -= calls_of(words[1:].split())
        else:
            allowed |= calls_of(words.split())
    kept = re.search(r"^CapabilityBoundingSet=(.*)", text, re.M).group(1).lower().replace("cap_", "").split()
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ERRNO_EPERM))
    for name in sorted(allowed):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            assert seccomp.seccomp_rule_add_array(context, ALLOW, number, 0, None) == 0, name
    assert seccomp.seccomp_load(context) == 0  # also sets no_new_privs
    if not kept:  # the caller has dropped them, because the filter rejects that
        os.execvp(line[0], line)
    only = ",".join(["-all"] + [f"+{name}" for name in kept])
    os.execvp("setpriv", ["setpriv", f"--bounding-set={only}", f"--inh-caps={only}", *line])


main()
