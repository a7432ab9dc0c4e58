#!/usr/bin/env python3
"""A stand-in for podman: run, inspect, rm and ps of containers whose root is the machine's own below another layer. Its
images are folders below $ENGINE_HOME/images that lie over it; what it keeps of a container is a file in $ENGINE_HOME/containers.
The image "slow" is never there, "missing" cannot be had, and in one with a file NO_CAT there is no cat."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HOME = pathlib.Path(os.environ["ENGINE_HOME"])
FLAGS = {"--interactive", "--rm", "--no-healthcheck", "--force"}

# $1 is the image's layer, $2 where its root is put together, then source, target, mode of each mount.
STAND_UP = """
layer=$1 root=$2; shift 2
mount -t tmpfs tmpfs "$root" && mkdir "$root/upper" "$root/work" "$root/root" || exit 125
cp -r "$layer/." "$root/upper" && mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/root" || exit 125
for each in proc dev sys; do mount --rbind "/$each" "$root/root/$each" || exit 125; done
mount -t tmpfs tmpfs "$root/root/tmp" || exit 125
while [ $# -gt 0 ]; do
    mkdir -p "$root/root$2" && mount --bind "$1" "$root/root$2" || exit 125
    [ -z "$3" ] || mount -o remount,bind,ro "$root/root$2" || exit 125
    shift 3
done
exec chroot "$root/root" /bin/cat
"""


def fail(sentence, code=125):
    print(f"Error: {sentence}", file=sys.stderr)
    sys.exit(code)


def parse(words):
    """Options as {name: [values]}, and what is none."""
    options, rest = {}, []
    words = list(words)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            rest.append(word)
            continue
        name, equals, value = word.partition("=")
        options.setdefault(name, []).append(value if equals else True if name in FLAGS else words.pop(0))
    return options, rest


def record(name):
    return HOME / "containers" / name


def mounts_of(options):
    for text in options.get("--mount", []):
        fields = dict(field.partition("=")[::2] for field in text.split(","))
        assert fields["type"] == "bind"
        if not os.path.isdir(fields["source"]):
            fail(f"statfs {fields['source']}: no such file or directory")
        yield from (fields["source"], fields["target"], "ro" if "readonly" in fields else "")
    for text in options.get("--volume", []):
        source, target, *mode = text.split(":")
        yield from (source, target, *(mode or [""]))


def run(words):
    options, (image,) = parse(words)
    (name,) = options["--name"]
    assert options["--entrypoint"] == ["cat"] and "--interactive" in options and options["--pid"] == ["host"]
    layer = HOME / "images" / image.replace("/", "_").replace(":", "_")
    print(f"Trying to pull {image}...", file=sys.stderr, flush=True)
    if image.startswith("org/slow"):
        (HOME / "pulls").touch()
        time.sleep(600)
    if not layer.exists():
        fail(f"initializing source docker://{image}: name unknown")
    facts = {"Config": json.loads((layer / "etc/config.json").read_text()), "State": {"Pid": 0}}
    record(name).write_text(json.dumps([facts]))
    if (layer / "NO_CAT").exists():
        fail("executable file `cat` not found in $PATH", 127)
    root = HOME / "roots" / name
    root.mkdir()
    with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", STAND_UP, "sh", layer, root, *mounts_of(options)],
                          start_new_session=True) as container:
        facts["State"]["Pid"] = container.pid
        record(name).write_text(json.dumps([facts]))
    if "--rm" in options:
        forget(name)
    sys.exit(container.returncode)


def forget(name):
    record(name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):  # run and rm may both do it
        (HOME / "roots" / name).rmdir()


def inspect(words):
    _, (name,) = parse(words)
    for _ in range(1000):  # what is written at once is not read in between
        text = record(name).read_text() if record(name).exists() else fail(f"no such container {name}")
        if text and json.loads(text)[0]["State"]["Pid"]:
            print(text)
            return
        time.sleep(0.01)


def remove(words):
    _, (name,) = parse(words)
    if not record(name).exists():
        fail(f"no container with name {name} found", 1)
    pid = json.loads(record(name).read_text())[0]["State"]["Pid"]
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        while os.path.exists(f"/proc/{pid}/root/proc"):
            time.sleep(0.01)
    forget(name)


def main():
    verb, *words = sys.argv[1:]
    with open(HOME / "orders", "a", encoding="utf-8") as orders:
        orders.write(json.dumps(sys.argv[1:]) + "\n")
    if verb == "ps":
        print("\n".join(sorted(path.name for path in (HOME / "containers").iterdir())))
    else:
        {"run": run, "inspect": inspect, "rm": remove}[verb](words)


main()
