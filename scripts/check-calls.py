#!/usr/bin/env python3
"""Usage: check-calls.py [--nm NM] SOURCE... -- OBJECT...

Holds files to an order. SOURCEs are files of one CMake target, as its CMakeLists.txt names them, from top to bottom; OBJECTs
are the target's object files (…/CMakeFiles/TARGET.dir/SOURCE.o). A failure is
  a SOURCE that calls, or takes the address of, a function of a SOURCE above it,
  a SOURCE without an object,
  an object of a file that stands in the folder of a SOURCE and is none: where one file is held, all are.
What must speak upwards gets a function handed down, or leaves a wish that the top settles.
"""
import collections
import os
import re
import subprocess
import sys


def read_symbols(nm, objects):
    """({source: functions it defines}, {source: names it takes from elsewhere})"""
    defined, used = collections.defaultdict(set), collections.defaultdict(set)
    listing = subprocess.run([nm, "-A", "-P", *objects], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        path, rest = line.split(": ", 1)
        source = source_of(path)
        name, kind = rest.split()[:2]
        if kind in "TWi":
            defined[source].add(name)
        elif kind in "Uw":
            used[source].add(name)
    return defined, used


def source_of(path):
    return re.sub(r".*/CMakeFiles/[^/]+\.dir/", "", os.path.normpath(path)).removesuffix(".o")


def faults(order, objects, nm):
    defined, used = read_symbols(nm, objects)
    place = {source: at for at, source in enumerate(order)}
    there = {source_of(path) for path in objects}
    folders = {os.path.dirname(source) for source in order}
    for source in order:
        if source not in there:
            yield f"{source} stands in the order, and has no object"
    for source in sorted(there - set(order)):
        if os.path.dirname(source) in folders:
            yield f"{source} does not stand in the order"
    owner = {name: source for source in order for name in defined[source]}
    for source in order:
        for name in sorted(used[source] & set(owner)):
            if place[owner[name]] < place[source]:
                yield f"{source} calls {name} of {owner[name]}, which stands above it"


def main():
    words = sys.argv[1:]
    nm = "nm"
    if words[:1] == ["--nm"] and len(words) > 1:
        nm, words = words[1], words[2:]
    if "--" not in words or words[0] in ("-h", "--help"):
        sys.exit(__doc__)
    at = words.index("--")
    found = list(faults(words[:at], words[at + 1:], nm))
    for fault in found:
        print(f"layers: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
