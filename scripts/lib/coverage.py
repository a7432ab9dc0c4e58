#!/usr/bin/python3
"""coverage.py BUILD PERCENT DIR…: prints the line coverage of the C files in DIR… by the tests that ran in BUILD.

Prints a row per file and each line that no test reached. Exit 1 if fewer than PERCENT of all lines were reached. The
counts are gcov's, summed over all programs."""
import json
import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]


def counts(build, folder):
    """Returns {(file, line): executions} for the sources in a folder of the tree."""
    ran = {}
    for notes in sorted((build / folder).rglob("*.gcno")):
        said = subprocess.run(["gcov", "--json-format", "--stdout", str(notes)], cwd=build, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for file in [file for document in said.splitlines() for file in json.loads(document)["files"]]:
            # Names are relative to the build folder or, mapped by -ffile-prefix-map, to the tree.
            path = next((path for path in ((base / file["file"]).resolve() for base in (build, root)) if path.is_file()), root)
            if path.is_relative_to(root / folder):
                for line in file["lines"]:
                    key = (str(path.relative_to(root)), line["line_number"])
                    ran[key] = ran.get(key, 0) + line["count"]
    return ran


def main(build, least, *folders):
    missed_lines, reached, total = [], 0, 0
    for folder in folders:
        ran = counts(pathlib.Path(build), folder)
        for file in sorted({file for file, _ in ran}):
            text = (root / file).read_text().splitlines()
            lines = sorted(line for name, line in ran if name == file)
            missed = [line for line in lines if ran[file, line] == 0]
            missed_lines += [f"not reached: {file}:{line}: {text[line - 1].strip()}" for line in missed]
            reached, total = reached + len(lines) - len(missed), total + len(lines)
            print(f"{file:44} {len(lines):5} lines {100 - 100 * len(missed) / len(lines):6.1f} %"
                  + (f"  {len(missed)} not reached" if missed else ""))
    percent = 100 * reached / total
    print("\n".join(missed_lines + [f"reached: {reached} of {total} lines ({percent:.2f} %, at least {least} % are required)"]))
    return 0 if percent >= float(least) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
