"""Prints the components of the static programs as CycloneDX JSON.

    sbom.py VERSIONS

VERSIONS has a line "PACKAGE SOURCE VERSION" for each Debian package whose static library the programs contain.
"""
import json
import sys

import wheel


def component(line):
    package, source, version = line.split()
    return {"type": "library", "name": source, "version": version, "purl": f"pkg:deb/debian/{package}@{version}?distro=bookworm",
            "bom-ref": package}


def main():
    with open(sys.argv[1]) as file:
        parts = sorted((component(line) for line in file), key=lambda part: part["bom-ref"])
    project = {"type": "application", "name": "tf-elastic", "version": wheel.version(), "bom-ref": "tf-elastic",
               "licenses": [{"license": {"id": "Apache-2.0"}}]}
    json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": project},
               "components": parts, "dependencies": [{"ref": "tf-elastic", "dependsOn": [part["bom-ref"] for part in parts]}]},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
