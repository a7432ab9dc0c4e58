#!/usr/bin/env python3
"""A --scale-command for tfe-rdzv: has a cloud start the machines that jobs lack.

Usage: scale_out.py aws|gcp|azure GROUP[=LABEL[,LABEL...]]...

GROUP is an Auto Scaling group (aws), a managed instance group (gcp) or a virtual machine scale set (azure), whose machines
start `tfe-agent --pool` with these LABELs (K=V). Each set of labels that jobs want is served by the first group whose machines
carry them. A group is made larger until it has as many machines as are in the pool and lacking, within the maximum that it has
itself; it is never made smaller: machines without work leave by themselves (`tfe-agent --pool --idle-exit`, with an --on-finish
that takes them out of their group).

How large a group is to be is what the cloud says, so that nothing is ordered twice, whoever forgot what. The clouds are asked by
their own command-line tools (aws, gcloud, az), with what those find of credentials and place: $CLOUDSDK_COMPUTE_ZONE, or _REGION, and
$AZURE_DEFAULTS_GROUP, where their configuration does not say it. $SCALE_OUT_SIZE_MAX bounds groups of gcp and azure, which have no
maximum of their own (default 100); variables that begin with TFE_ do not come here.
"""
import json
import os
import subprocess
import sys
import time

# As long as a machine takes to start: what has not come by then is looked for again.
PATIENCE_MS = 10 * 60 * 1000
SIZE_MAX = int(os.environ.get("SCALE_OUT_SIZE_MAX", "100"))


def ask(*words):
    """What a tool prints, as JSON; None: nothing. It is to be done when the server ends us."""
    out = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(out) if out.strip() else None


class Aws:
    def __init__(self, group):
        self.group = group

    def size(self):
        """How many machines it is to have, and at most."""
        told = ask("aws", "autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", self.group, "--output", "json")
        if not told["AutoScalingGroups"]:
            sys.exit(f"there is no Auto Scaling group {self.group}")
        group = told["AutoScalingGroups"][0]
        return group["DesiredCapacity"], group["MaxSize"]

    def resize(self, size):
        ask("aws", "autoscaling", "set-desired-capacity", "--auto-scaling-group-name", self.group, "--desired-capacity", str(size))


class Gcp:
    def __init__(self, group):
        self.group = group

    def size(self):
        told = ask("gcloud", "compute", "instance-groups", "managed", "describe", self.group, "--format=json")
        return told["targetSize"], SIZE_MAX

    def resize(self, size):
        ask("gcloud", "compute", "instance-groups", "managed", "resize", self.group, f"--size={size}", "--format=json", "--quiet")


class Azure:
    def __init__(self, group):
        self.group = group

    def size(self):
        return ask("az", "vmss", "show", "--name", self.group, "--output", "json")["sku"]["capacity"], SIZE_MAX

    def resize(self, size):
        ask("az", "vmss", "scale", "--name", self.group, "--new-capacity", str(size), "--no-wait", "--output", "json")


CLOUDS = {"aws": Aws, "gcp": Gcp, "azure": Azure}


def serve(told, groups):
    """Makes groups, [(cloud's, labels)], as large as `told` wants; what is on its way then."""
    lacking = [0] * len(groups)
    for wanted in told["sets"]:
        can = [n for n, (_, labels) in enumerate(groups) if labels >= set(wanted["labels"])]
        if can:
            lacking[can[0]] += max(0, wanted["want"] - wanted["have"] - wanted["idle"])
    pending = []
    for (group, labels), lacks in zip(groups, lacking):
        here = sum(nodes["here"] for nodes in told["nodes"] if labels <= set(nodes["labels"]))
        size, most = group.size()
        wanted = min(here + lacks, most)
        if wanted > size:
            group.resize(wanted)
            size = wanted
        if size > here:
            pending.append({"labels": sorted(labels), "nodes": size - here, "until_ms": int(time.time() * 1000) + PATIENCE_MS})
    return pending


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in CLOUDS:
        sys.exit(__doc__)
    groups = []
    for word in sys.argv[2:]:
        name, _, labels = word.partition("=")
        groups.append((CLOUDS[sys.argv[1]](name), set(labels.split(",")) if labels else set()))
    json.dump({"pending": serve(json.load(sys.stdin), groups)}, sys.stdout)


if __name__ == "__main__":
    main()
