#!/usr/bin/env python3
"""Checks references in docs and comments.

Usage: check-docs.py [ROOT]

- "design 4.8" anywhere: the section exists in docs/design.md. "PROTOCOL.md section 9" (or a heading or the name of a
  message): it exists in proto/PROTOCOL.md.
- A file that a comment or a document names, and a relative link of a document: the file exists.
- The tables of rules in docs/design.md (rule, decided by, shown by): the function is defined in its file (of
  server/core unless its path says otherwise), the scenario is in tests/sim/scenarios, the test in tests/unit
  (`suite/first_words...`); each scenario is in a table.

Prints a line for each finding; exit 1 if there are any. tests/e2e/test_docs.py compares options with man pages.
"""
import os
import re
import subprocess
import sys

# Names that look like files of this tree but are examples or system headers.
FOREIGN = {"train.py", "script.py", "x.py", "run.sh", "./run.sh", "exec.py", "a.c", "tree.h", "sys/tree.h"}
READ = (".c", ".h", ".md", ".py", ".sh", ".cmake", ".proto", ".txt", ".1", ".8", ".in")
FILE = re.compile(r"(?<![\w./<{*-])((?:[\w.-]+/)*[\w-]+\.(?:md|c|h|py|sh|proto|cmake))(?![\w*/]|\.\w)")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
# A reference may span lines of a comment: the leader of the next line counts as a space.
GAP = r"(?:[ \t]|\n[ \t]*(?:\*|//|\#)?[ \t]*)+"
DESIGN = re.compile(rf"\bdesign{GAP}(\d+(?:\.\d+)?)(?!\w)", re.I)
PROTOCOL = re.compile(rf'PROTOCOL\.md`?,?{GAP}(?:section{GAP}(\d+)|"([^"]+)"|([A-Z_]{{4,}})\b)')
HEADING = re.compile(r"^#+ (?:(\d+(?:\.\d+)?)\.? )?(.*)$", re.M)
RULE = re.compile(r"^\| (?!rule \||-)(.*?) \| (.*?) \| (.*?) \|$", re.M)
TABLE = re.compile(r"^\| rule \| decided by \| shown by \|\n(?:\|.*\n)*", re.M)

findings = []


def find(path, text, offset, what):
    findings.append(f"{path}:{text.count(chr(10), 0, offset) + 1}: {what}")


def tree(root):
    """Returns all files that are tracked by git or would be added."""
    names = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                           stdout=subprocess.PIPE).stdout.decode().split("\0")
    return sorted({name for name in names if name and os.path.isfile(os.path.join(root, name))})


def comments(path, text):
    """Yields (offset, text) of the comments, or of the whole text of a document."""
    if path.endswith((".c", ".h")):
        pattern = r"/\*.*?\*/|//[^\n]*"
    elif path.endswith((".py", ".sh", ".cmake", "CMakeLists.txt")):
        pattern = r'(?<!\S)\#[^\n]*|""".*?"""'
    elif path.endswith(".proto"):
        pattern = r"//[^\n]*"
    else:
        return [(0, text)] if path.endswith(".md") else []
    return [(m.start(), m[0]) for m in re.finditer(pattern, text, re.S)]


def check_files(path, text, files):
    names = {os.path.basename(file) for file in files}
    for start, part in comments(path, text):
        for m in FILE.finditer(part):
            name = m[1]
            is_pattern = re.search(r"[A-Z]{2,}", os.path.splitext(name)[0]) and not name.endswith(".md")
            linked = os.path.normpath(os.path.join(os.path.dirname(path), name))
            known = name in names or any(file in (name, linked) or file.endswith("/" + name) for file in files)
            if name not in FOREIGN and not is_pattern and not known:
                find(path, text, start + m.start(), f"{name} is not in the tree")
    for m in LINK.finditer(text) if path.endswith(".md") else ():
        if not os.path.exists(os.path.join(sys.path[0], "..", os.path.dirname(path), m[1])):
            find(path, text, m.start(), f"the link {m[1]} leads nowhere")


def check_citations(path, text, design, protocol):
    for m in DESIGN.finditer(text):
        if m[1] not in design:
            find(path, text, m.start(), f"docs/design.md has no section {m[1]}")
    sections, titles, messages = protocol
    for m in PROTOCOL.finditer(text):
        number, title, message = m.groups()
        if number and number not in sections:
            find(path, text, m.start(), f"proto/PROTOCOL.md has no section {number}")
        if title and not any(other.split(". ")[-1] == title for other in titles):
            find(path, text, m.start(), f'proto/PROTOCOL.md has no section "{title}"')
        if message and message not in messages:
            find(path, text, m.start(), f"proto/PROTOCOL.md has no message {message}")


def has_function(text, name):
    """Returns True if the text defines the function: its name in a line without indentation, followed by a body."""
    return re.search(rf"^(?!\s)[\w *]*\b{re.escape(name)}\([^;{{}}]*\)\s*\{{", text, re.M)


def check_rules(texts, files):
    path, text = "docs/design.md", texts["docs/design.md"]
    scenarios = {os.path.basename(file)[:-4] for file in files if file.startswith("tests/sim/scenarios/")}
    tests = {f"{suite}/{name}" for file in files if file.startswith("tests/unit/") and file.endswith(".c")
             for suite, name in re.findall(r"\bTEST(?:_\w+)?\((\w+),\s*(\w+)\)", texts[file])}
    named = set()
    for table in TABLE.finditer(text):
        for m in RULE.finditer(table[0]):
            offset = table.start() + m.start()
            for where in m[2].split(", ") if m[2] != "–" else ():
                file, _, name = where.partition(": ")
                if not has_function(texts.get(file if "/" in file else "server/core/" + file, ""), name):
                    find(path, text, offset, f"{file} does not define {name}")
            for shown in m[3].split(", "):
                named.add(shown)
                if "/" in shown and not any(test == shown or shown.endswith("...") and test.startswith(shown[:-3])
                                            for test in tests):
                    find(path, text, offset, f"tests/unit has no test {shown}")
                if "/" not in shown and shown not in scenarios:
                    find(path, text, offset, f"there is no scenario {shown}")
    for name in sorted(scenarios - named):
        find(path, text, 0, f"no rule names the scenario {name}")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    sys.path[0] = os.path.join(root, "scripts")
    files, texts = tree(root), {}
    for path in files:
        if path.endswith(READ) and not path.startswith("tests/sim/scenarios/"):
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                texts[path] = file.read()
    design = {number for number, _ in HEADING.findall(texts["docs/design.md"])}
    headings = HEADING.findall(texts["proto/PROTOCOL.md"])
    messages = set(re.findall(r"^\*\*\d+ ([A-Z_]+)\*\*", texts["proto/PROTOCOL.md"], re.M))
    for path, text in texts.items():
        check_files(path, text, files)
        check_citations(path, text, design, ({number for number, _ in headings}, {title for _, title in headings}, messages))
    check_rules(texts, files)
    print("\n".join(findings), end="\n" if findings else "", file=sys.stderr)
    return 1 if findings else 0


sys.exit(main())
