#!/usr/bin/env python3
"""Usage: pin-requirements.py
Makes scripts/requirements.txt of scripts/requirements.in: every package that it brings, in one version and with the
hashes of its wheels, for each Python and machine that setup.sh serves. Nothing else can be installed from there then,
whatever the index answers."""

import collections
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
GLIBCS = ("2_28", "2_27", "2_24", "2_17")


def resolve(python, machine, wanted, *more):
    """Name, version and hash of all that pip would install there."""
    platforms = [f"--platform=manylinux_{glibc}_{machine}" for glibc in GLIBCS] + [f"--platform=manylinux2014_{machine}"]
    report = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:", "--target=/nowhere",
         f"--python-version={python}", "--implementation=cp", *platforms, "--report=-", *more, *wanted],
        check=True, stdout=subprocess.PIPE).stdout
    return [(item["metadata"]["name"].lower().replace("_", "-"), item["metadata"]["version"],
             item["download_info"]["archive_info"]["hashes"]["sha256"]) for item in json.loads(report)["install"]]


def wanted_on(machine):
    lines = [line.strip() for line in (HERE / "requirements.in").read_text().splitlines() if line and line[0] != "#"]
    # There is not a tensorflow-cpu for every machine; the whole package has no GPU part there.
    return [line if machine == "x86_64" else line.replace("tensorflow-cpu", "tensorflow") for line in lines]


def main():
    hashes, places = collections.defaultdict(set), collections.defaultdict(set)
    for python in PYTHONS:
        for machine in MACHINES:
            # tf-keras' own dependencies would bring tensorflow besides tensorflow-cpu, axe's a second browser.
            bare = [line for line in wanted_on(machine) if line.startswith(("tf-keras", "axe-"))]
            found = resolve(python, machine, [line for line in wanted_on(machine) if line not in bare])
            for name, version, digest in found + resolve(python, machine, bare, "--no-deps"):
                hashes[name, version].add(digest)
                places[name, version].add((python, machine))
    lines = ["# Made by scripts/pin-requirements.py of requirements.in: change that, and run it."]
    for (name, version), where in sorted(places.items()):
        tests = []
        if len({machine for _, machine in where}) < len(MACHINES):
            tests.append(f'platform_machine == "{next(iter(where))[1]}"')
        pythons = sorted({python for python, _ in where}, key=PYTHONS.index)
        if len(pythons) < len(PYTHONS):
            tests += [f'python_version >= "{pythons[0]}"', f'python_version <= "{pythons[-1]}"']
        marker = f" ; {' and '.join(tests)}" if tests else ""
        lines.append(f"{name}=={version}{marker}" + "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(hashes[name, version])))
    (HERE / "requirements.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
