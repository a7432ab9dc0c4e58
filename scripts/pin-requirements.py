#!/usr/bin/env python3
"""Usage: pin-requirements.py [NAME...]
Makes scripts/NAME.txt from scripts/NAME.in, by default for all three: every package including dependencies, in one
version and with the hashes of its wheels, for each Python and machine that setup.sh supports. So nothing else can be
installed, whatever the index returns. requirements-frameworks and requirements-torch are installed in addition to
requirements: they are resolved against its versions and leave out its packages. Needs pip 23.2 or later, which resolves
without downloading."""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
GLIBCS = ("2_28", "2_27", "2_24", "2_17")


def resolve(python, machine, wanted, *more):
    """Returns name, version and hash of everything that pip would install there."""
    platforms = [f"--platform=manylinux_{glibc}_{machine}" for glibc in GLIBCS] + [f"--platform=manylinux2014_{machine}"]
    report = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:", "--target=/nowhere",
         f"--python-version={python}", "--implementation=cp", *platforms, "--report=-", *more, *wanted],
        check=True, stdout=subprocess.PIPE).stdout
    return [(item["metadata"]["name"].lower().replace("_", "-"), item["metadata"]["version"],
             item["download_info"]["archive_info"]["hashes"]["sha256"]) for item in json.loads(report)["install"]]


def wanted_on(machine, name):
    lines = [line.strip() for line in (HERE / f"{name}.in").read_text().splitlines() if line and line[0] != "#"]
    # tensorflow-cpu does not exist for every machine; there the full package has no GPU part.
    return [line if machine == "x86_64" else line.replace("tensorflow-cpu", "tensorflow") for line in lines]


def pinned(names):
    """Returns the versions in these files as pip constraints, and the names of the packages."""
    lines = [line.partition(" \\")[0] for name in names for line in (HERE / f"{name}.txt").read_text().splitlines() if "==" in line]
    return lines, {line.partition("==")[0] for line in lines}


def pin(name, installed):
    constraints, known = pinned(installed)
    more = []
    if constraints:
        file = pathlib.Path(tempfile.mkdtemp()) / "constraints.txt"
        file.write_text("\n".join(constraints) + "\n")
        more = [f"--constraint={file}"]
    hashes, places = collections.defaultdict(set), collections.defaultdict(set)
    # JAX's releases for Python 3.10 are incompatible with the other packages.
    for python in PYTHONS[1:] if installed else PYTHONS:
        for machine in MACHINES:
            # Without these, tf-keras would install tensorflow in addition to tensorflow-cpu, and axe a second browser.
            wanted = wanted_on(machine, name)
            bare = [line for line in wanted if line.startswith(("tf-keras", "axe-"))]
            found = resolve(python, machine, [line for line in wanted if line not in bare], *more)
            for package, version, digest in found + (resolve(python, machine, bare, "--no-deps") if bare else []):
                if package not in known:
                    hashes[package, version].add(digest)
                    places[package, version].add((python, machine))
    lines = [f"# Made by scripts/pin-requirements.py of {name}.in: change that, and run it."]
    for (package, version), where in sorted(places.items()):
        tests = []
        if len({machine for _, machine in where}) < len(MACHINES):
            tests.append(f'platform_machine == "{next(iter(where))[1]}"')
        pythons = sorted({python for python, _ in where}, key=PYTHONS.index)
        if len(pythons) < len(PYTHONS):
            tests += [f'python_version >= "{pythons[0]}"', f'python_version <= "{pythons[-1]}"']
        marker = f" ; {' and '.join(tests)}" if tests else ""
        lines.append(f"{package}=={version}{marker}" + "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(hashes[package, version])))
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")


def main():
    installed = {"requirements": [], "requirements-frameworks": ["requirements"], "requirements-torch": ["requirements", "requirements-frameworks"]}
    for name in sys.argv[1:] or installed:
        pin(name, installed[name])


if __name__ == "__main__":
    main()
