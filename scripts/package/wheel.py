"""Packs an installed tree (cmake --install) and the Python package into a wheel.

    wheel.py TREE FOLDER TAG

Writes FOLDER/tf_elastic-VERSION-py3-none-TAG.whl and prints its path. The same input gives the same bytes: the files are
sorted, and their times are $SOURCE_DATE_EPOCH. pip puts the programs into the bin folder of the environment and data
beside it, in share, where tfe-agent looks for tfe_bootstrap.py.
"""
import base64
import hashlib
import os
import pathlib
import re
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def version():
    return re.search(r"^project\(tfe VERSION ([\d.]+) ", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def metadata():
    """The core metadata, from agent/python/pyproject.toml and README.md."""
    project = (ROOT / "agent/python/pyproject.toml").read_text()
    fields = dict(re.findall(r'^(name|description|requires-python) = "(.*)"', project, re.M))
    return (f"Metadata-Version: 2.1\nName: {fields['name']}\nVersion: {version()}\nSummary: {fields['description']}\n"
            f"Requires-Python: {fields['requires-python']}\nLicense: Apache-2.0\n"
            f"Description-Content-Type: text/markdown\n\n{(ROOT / 'README.md').read_text()}")


def contents(tree, tag):
    """{name in the wheel: (bytes, is executable)}, without RECORD."""
    name = f"tf_elastic-{version()}"
    found = {f"{name}.dist-info/METADATA": (metadata().encode(), False),
             f"{name}.dist-info/WHEEL": (f"Wheel-Version: 1.0\nGenerator: tf-elastic ({version()})\nRoot-Is-Purelib: false\n"
                                         f"Tag: py3-none-{tag}\n".encode(), False),
             f"{name}.dist-info/LICENSE": ((ROOT / "LICENSE").read_bytes(), False)}
    for path in sorted((ROOT / "agent/python/tfe").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            found[f"tfe/{path.name}"] = (path.read_bytes(), False)
    for path in sorted(tree.glob("bin/tfe-*")):
        found[f"{name}.data/scripts/{path.name}"] = (path.read_bytes(), True)
    for path in sorted((tree / "share").rglob("*")):
        inside = path.relative_to(tree)
        # The package is in the wheel itself; units need other paths than those of a virtual environment.
        if path.is_file() and not inside.is_relative_to("share/tfe/python/tfe") and path.name != "pyproject.toml":
            found[f"{name}.data/data/{inside}"] = (path.read_bytes(), False)
    return found


def write_wheel(tree, folder, tag):
    found = contents(pathlib.Path(tree), tag)
    record = f"tf_elastic-{version()}.dist-info/RECORD"
    lines = []
    for name, (data, _) in found.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    found[record] = ("".join([*lines, f"{record},,\n"]).encode(), False)
    path = pathlib.Path(folder) / f"tf_elastic-{version()}-py3-none-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, (data, is_executable) in found.items():
            info = zipfile.ZipInfo(name, moment)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (0o100755 if is_executable else 0o100644) << 16
            wheel.writestr(info, data)
    return path


if __name__ == "__main__":
    print(write_wheel(*sys.argv[1:4]))
