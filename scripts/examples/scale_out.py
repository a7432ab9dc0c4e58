#!/usr/bin/env python3
"""Starts machines for the jobs of a pool: makes the groups of a cloud as large as `tfe-ctl demand` asks for.

Usage: scale_out.py [OPTIONS] aws|gcp|azure GROUP[=LABEL[,LABEL...]]...

GROUP is an Auto Scaling group (aws), a managed instance group (gcp) or a virtual machine scale set (azure) whose machines start
`tfe-agent --pool` with these LABELs (K=V). A row of the demand is served by the first group whose machines carry its labels. The
program makes a group larger until it has as many machines as the pool has and lacks, within the maximum of the group. It never
makes a group smaller: idle machines leave by themselves (`tfe-agent --pool --idle-exit`, with an --on-finish that removes the
machine from its group).

The size of a group is read from the cloud before each order, so that nothing is ordered twice, also after a restart. A lock
(--lock) keeps a second instance away. The clouds are asked through their own command-line tools (aws, gcloud, az) with the
credentials and the region that those find: $CLOUDSDK_COMPUTE_ZONE or _REGION, and $AZURE_DEFAULTS_GROUP, if their configuration
does not name it. tfe-ctl finds the server as usual: $TFE_RDZV_ENDPOINT, $TFE_TOKEN_FILE (an observer's token is enough).
"""
import argparse
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time

BACK_OFF_MAX_S = 30 * 60
# Time for tfe-ctl to reach the server and print the demand, besides the wait for a change.
CTL_TIMEOUT_S = 30


class Failed(Exception):
    """A command has failed, or has printed something else than expected."""


def run(words, timeout, held=()):
    """Returns what a command prints. The command and its children are killed when the time limit is over or this program ends.

    held: descriptors that the command inherits.
    """
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, pass_fds=held)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"{shlex.join(words)}: no end within {timeout:g} s") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if process.returncode != 0:
        raise Failed(f"{shlex.join(words)}: exit status {process.returncode}: {err.strip()}")
    return out


class Group:
    """A group of machines. size() returns how many machines it is to have, and the most that it may have."""

    def __init__(self, name, labels, options):
        self.name, self.labels, self.options = name, labels, options

    def ask(self, *words):
        # The command holds the lock, too: after a SIGKILL of this program the next instance waits until the command has ended.
        out = run(words, self.options.order_timeout, held=(self.options.lock_fd,))
        try:
            return json.loads(out) if out.strip() else None
        except ValueError:
            raise Failed(f"{shlex.join(words)}: no JSON") from None


class Aws(Group):
    def size(self):
        answer = self.ask("aws", "autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", self.name, "--output", "json")
        if not answer["AutoScalingGroups"]:
            raise Failed(f"there is no Auto Scaling group {self.name}")
        group = answer["AutoScalingGroups"][0]
        return group["DesiredCapacity"], group["MaxSize"]

    def resize(self, size):
        self.ask("aws", "autoscaling", "set-desired-capacity", "--auto-scaling-group-name", self.name, "--desired-capacity", str(size))


class Gcp(Group):
    def size(self):
        answer = self.ask("gcloud", "compute", "instance-groups", "managed", "describe", self.name, "--format=json")
        return answer["targetSize"], self.options.size_max

    def resize(self, size):
        self.ask("gcloud", "compute", "instance-groups", "managed", "resize", self.name, f"--size={size}", "--format=json", "--quiet")


class Azure(Group):
    def size(self):
        return self.ask("az", "vmss", "show", "--name", self.name, "--output", "json")["sku"]["capacity"], self.options.size_max

    def resize(self, size):
        self.ask("az", "vmss", "scale", "--name", self.name, "--new-capacity", str(size), "--no-wait", "--output", "json")


CLOUDS = {"aws": Aws, "gcp": Gcp, "azure": Azure}


def labels_of(row):
    return {f"{key}={value}" for key, value in row["labels"].items()}


def lacking(rows, groups):
    """Returns (machines that the pool has, machines that jobs lack) for each group."""
    lacks = [0] * len(groups)
    for row in rows:
        able = [n for n, group in enumerate(groups) if group.labels >= labels_of(row)]
        if row["role"] and able:
            lacks[able[0]] += row["pending"]
    here = [sum(row["pool_nodes"] or 0 for row in rows if not row["role"] and group.labels <= labels_of(row)) for group in groups]
    return list(zip(here, lacks))


def serve(rows, groups):
    """Enlarges the groups that jobs lack machines of, one after the other."""
    for group, (here, lacks) in zip(groups, lacking(rows, groups)):
        if lacks == 0:
            continue
        size, most = group.size()
        wanted = min(here + lacks, most)
        if wanted > size:
            print(f"{group.name}: {size} -> {wanted} machines ({here} in the pool, {lacks} lacking)", flush=True)
            group.resize(wanted)


def demand(options, wait=None):
    """Returns the rows of the demand; with wait: once they have changed, or after so many seconds."""
    if wait is not None:
        try:
            run([*options.ctl, "demand", "--json", "--wait"], wait)
        except Failed:
            pass  # no change; that the server cannot be reached is reported below
    try:
        return json.loads(run([*options.ctl, "demand", "--json"], CTL_TIMEOUT_S))["demand"]
    except (ValueError, KeyError):
        raise Failed(f"{shlex.join(options.ctl)} demand: no JSON") from None


def work(options, groups):
    back_off = 0
    rows = None
    while True:
        try:
            rows = demand(options, None if rows is None else options.every)
            serve(rows, groups)
            back_off = 0
        except (Failed, OSError, KeyError, TypeError) as error:
            back_off = min(max(options.back_off, 2 * back_off), BACK_OFF_MAX_S)
            print(f"scale_out.py: {error} (again in {back_off:g} s)", file=sys.stderr, flush=True)
            rows = None
            time.sleep(back_off)


def lock(path):
    """Returns a descriptor that holds the lock as long as this program runs."""
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"scale_out.py: another instance holds {path}")
    return fd


def main():
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0], description=__doc__.split("\n")[0])
    parser.add_argument("--ctl", type=shlex.split, default=["tfe-ctl"], metavar="COMMAND", help="tfe-ctl with its options (default: tfe-ctl)")
    parser.add_argument("--every", type=float, default=60, metavar="S", help="look at the groups at least so often (default: 60)")
    parser.add_argument("--order-timeout", type=float, default=60, metavar="S", help="time limit for one command of the cloud (default: 60)")
    parser.add_argument("--back-off", type=float, default=5, metavar="S", help="pause after a failure, doubled up to 30 minutes (default: 5)")
    parser.add_argument("--size-max", type=int, default=100, metavar="N", help="largest group of gcp and azure (default: 100)")
    parser.add_argument("--lock", default=os.path.join(state, "tfe-scale-out.lock"), metavar="FILE", help="held while it runs (default: %(default)s)")
    parser.add_argument("cloud", choices=CLOUDS)
    parser.add_argument("groups", nargs="+", metavar="GROUP[=LABEL,...]")
    options = parser.parse_args()
    groups = []
    for word in options.groups:
        name, _, labels = word.partition("=")
        groups.append(CLOUDS[options.cloud](name, set(labels.split(",")) - {""}, options))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options.lock_fd = lock(options.lock)
    try:
        work(options, groups)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
