#!/usr/bin/env python3
"""Usage: embed.py OUT.c PATH=FILE...: writes the page's files as a C source, each with a tag of its bytes."""
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml", ".json": "application/json"}


def main():
    out, *assets = sys.argv[1:]
    rows, arrays = [], []
    for i, asset in enumerate(assets):
        path, file = asset.split("=", 1)
        kind = TYPES[pathlib.Path(file).suffix]
        data = pathlib.Path(file).read_bytes()
        tag = hashlib.sha256(data).hexdigest()[:16]
        lines = [",".join(str(byte) for byte in data[k:k + 32]) for k in range(0, len(data), 32)]
        arrays.append(f"static const unsigned char bytes_{i}[] = {{\n" + ",\n".join(lines) + "};\n"
                      f"static const size_t n_{i} = sizeof(bytes_{i});\n")
        rows.append(f'    {{"{path}", "{kind}", bytes_{i}, &n_{i}, "\\"{tag}\\""}},\n')
    text = ('/* Made by embed.py. */\n#include "server/web/assets.h"\n\n#include <string.h>\n\n' + "\n".join(arrays)
            + "\nstatic const struct asset assets[] = {\n" + "".join(rows) + "};\n\n"
            "const struct asset *asset_find(const char *path)\n{\n"
            "    for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++) {\n"
            "        if (strcmp(assets[i].path, path) == 0) {\n            return &assets[i];\n        }\n    }\n"
            "    return NULL;\n}\n")
    pathlib.Path(out).write_text(text)


if __name__ == "__main__":
    main()
