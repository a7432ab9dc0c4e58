#!/usr/bin/python3
"""coverage.py BUILD NAMED DIR…: what the tests that ran in BUILD have reached of the files in DIR….

Prints a row per file, and each line that nothing reached and NAMED does not name; exit 1 where there is one.
NAMED has lines `file: the line's text # why no test reaches it`; one that is not in the file any more is
wrong, too, one that was reached after all is told. Counts are gcov's, of all programs together."""
import collections
import json
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]


def counts(build, folder):
    """(file, line) -> how often it ran, of the sources in a folder of the tree."""
    ran = {}
    for notes in sorted((build / folder).rglob("*.gcno")):
        said = subprocess.run(["gcov", "--json-format", "--stdout", str(notes)], cwd=build, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for file in [file for document in said.splitlines() for file in json.loads(document)["files"]]:
            path = pathlib.Path(build, file["file"]).resolve()
            if path.is_relative_to(root / folder):
                for line in file["lines"]:
                    key = (str(path.relative_to(root)), line["line_number"])
                    ran[key] = ran.get(key, 0) + line["count"]
    return ran


def named_lines(path):
    """(file, text) -> how many lines of this text are named."""
    rows = [row for row in path.read_text().splitlines() if row and not row.startswith("#")]
    return collections.Counter(re.fullmatch(r"(\S+): (.*?) # .+", row).groups() for row in rows)


def main(build, named_path, *folders):
    named = named_lines(pathlib.Path(named_path))
    met, wrong, total = collections.Counter(), [], [0, 0]
    for folder in folders:
        ran = counts(pathlib.Path(build), folder)
        for file in sorted({file for file, _ in ran}):
            text = (root / file).read_text().splitlines()
            lines = sorted(line for of, line in ran if of == file)
            missed = [line for line in lines if ran[file, line] == 0]
            for line in missed:
                row = (file, text[line - 1].strip())
                met[row] += 1
                if met[row] > named[row]:
                    wrong.append(f"not reached: {file}:{line}: {row[1]}")
            total = [total[0] + len(lines) - len(missed), total[1] + len(lines)]
            print(f"{file:44} {len(lines):5} lines {100 - 100 * len(missed) / len(lines):6.1f} %"
                  + (f"  {len(missed)} not reached" if missed else ""))
    for file, text in sorted((named - met).keys()):
        is_there = text in [line.strip() for line in (root / file).read_text().splitlines()]
        told = f"named, but {'reached' if is_there else 'not there'}: {file}: {text}"
        print(told) if is_there else wrong.append(told)
    print("\n".join(wrong + [f"reached: {total[0]} of {total[1]} lines ({100 * total[0] / total[1]:.2f} %), "
                             f"{met.total()} others, {len(wrong)} of them without a reason"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
