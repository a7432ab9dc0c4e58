"""Replacements of gcloud and az for one group of machines: they accept the options that the vendors' references list
for these verbs, spelled in full, and reject anything else, as the tools do. They never prompt: missing and unconfigured
values are errors.

    cloud_tools.py gcloud|az WORD...

The file $CLOUD_GROUP holds the group's size; its name is the group's name.
"""

import argparse
import json
import os
import pathlib
import sys

GROUP = pathlib.Path(os.environ["CLOUD_GROUP"])


def set_size(size):
    hidden = GROUP.with_name(f".{GROUP.name}.{os.getpid()}")
    hidden.write_text(str(size))
    hidden.rename(GROUP)


def parser(tool, words, wide):
    """Returns the parser of one verb, including the flags that all verbs of the tool have."""
    made = argparse.ArgumentParser(prog=" ".join((tool, *words)), allow_abbrev=False, add_help=False)
    for name in wide:
        made.add_argument(name)
    return made


def fail(sentence, code):
    print(f"ERROR: {sentence}", file=sys.stderr)
    sys.exit(code)


def gcloud(words):
    managed = ["compute", "instance-groups", "managed"]
    verb = words[3] if words[:3] == managed and len(words) > 3 else None
    if verb not in ("describe", "resize"):
        fail(f"(gcloud) Invalid choice: {words}", 2)
    takes = parser("gcloud", words[:4], ("--access-token-file", "--account", "--billing-project", "--configuration", "--flags-file", "--flatten",
                                         "--format", "--impersonate-service-account", "--project", "--trace-token", "--verbosity"))
    for flag in ("--log-http", "--quiet", "--user-output-enabled"):
        takes.add_argument(flag, action="store_true")
    takes.add_argument("name")
    place = takes.add_mutually_exclusive_group()
    place.add_argument("--region")
    place.add_argument("--zone")
    if verb == "resize":
        takes.add_argument("--size", type=int, required=True)
    told = takes.parse_args(words[4:])
    if not (told.region or told.zone or os.environ.get("CLOUDSDK_COMPUTE_ZONE") or os.environ.get("CLOUDSDK_COMPUTE_REGION")):
        fail(f"(gcloud.{'.'.join(words[:4])}) Underspecified resource [{told.name}]. Specify one of the [--region, --zone] flags.", 1)
    if told.name != GROUP.name:
        fail(f"(gcloud.{'.'.join(words[:4])}) Could not fetch resource: {told.name} was not found", 1)
    if verb == "resize":
        set_size(told.size)
    if told.format == "json":
        is_now = {"kind": "compute#instanceGroupManager", "name": told.name, "targetSize": int(GROUP.read_text())}
        print(json.dumps([is_now] if verb == "resize" else is_now, indent=2))


def az(words):
    verb = words[1] if words[:1] == ["vmss"] and len(words) > 1 else None
    if verb not in ("show", "scale"):
        fail(f"'{' '.join(words[:2])}' is misspelled or not recognized by the system.", 2)
    takes = parser("az", words[:2], ("--ids", "--subscription", "--query"))
    takes.add_argument("--name", "-n")
    takes.add_argument("--resource-group", "-g", default=os.environ.get("AZURE_DEFAULTS_GROUP"))
    takes.add_argument("--output", "-o", choices=("json", "jsonc", "none", "table", "tsv", "yaml", "yamlc"), default="json")
    for flag in ("--debug", "--only-show-errors", "--verbose", "--no-wait" if verb == "scale" else "--include-user-data"):
        takes.add_argument(flag, action="store_true")
    if verb == "scale":
        takes.add_argument("--new-capacity", type=int, required=True)
    else:
        takes.add_argument("--instance-id")
    told = takes.parse_args(words[2:])
    if not told.ids and not (told.name and told.resource_group):
        fail("the following arguments are required: --name/-n, --resource-group/-g", 2)
    if told.name != GROUP.name:
        fail(f"(ResourceNotFound) The Resource 'Microsoft.Compute/virtualMachineScaleSets/{told.name}' was not found.", 3)
    if verb == "scale":
        set_size(told.new_capacity)
    if told.output == "json" and not (verb == "scale" and told.no_wait):
        print(json.dumps({"name": told.name, "sku": {"capacity": int(GROUP.read_text()), "name": "Standard_D2s_v3", "tier": "Standard"}}, indent=2))


if __name__ == "__main__":
    {"gcloud": gcloud, "az": az}[sys.argv[1]](sys.argv[2:])
