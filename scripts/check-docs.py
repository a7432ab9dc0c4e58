#!/usr/bin/env python3
"""Checks that what docs and comments point to is there.

Usage: check-docs.py [--list] [ROOT]

- "design 4.8" anywhere: a heading of docs/design.md; its numbers are unique and in order.
- "PROTOCOL.md section 9" (or a heading or a message's name in quotes): is in proto/PROTOCOL.md,
  which is held to its own "section N" and "rule N" as well.
- a file that a comment or a document names is in the tree.
- server/core/RULES.md: its sections, functions, scenarios and stories exist, and each scenario of
  tests/sim/scenarios is in it.
- a line of a document has at most 100 columns, but for rows of tables, which cannot be broken.

Prints one line for each finding; exit 1 if there are any. --list: who cites which section.
"""
import os
import re
import subprocess
import sys

# Names that look like files of ours and are none: examples, and headers of the system.
FOREIGN = {
    "train.py", "script.py", "x.py", "run.sh", "./run.sh", "exec.py",  # of users
    "a.c",                                                  # usage texts
    "tree.h", "sys/tree.h",                                 # libbsd
}

READ = (".c", ".h", ".md", ".py", ".sh", ".cmake", ".proto", ".txt", ".1", ".8", ".in")
FILE = re.compile(r"(?<![\w./<{*-])((?:[\w.-]+/)*[\w-]+\.(?:md|c|h|py|sh|proto|cmake))"
                  r"(?![\w*/]|\.\w)")
# A comment may be broken anywhere: the leaders of its next line count as a space.
GAP = r"(?:[ \t]|\n[ \t]*(?:\*|//|\#)?[ \t]*)+"
DESIGN = re.compile(rf"\bdesign{GAP}(\d+(?:\.\d+)?)(?!\w)", re.I)
PROTOCOL = re.compile(rf'PROTOCOL\.md`?,?{GAP}(?:section{GAP}(\d+)|"([^"]+)"|([A-Z_]{{4,}})\b)')
HEADING = re.compile(r"^(#+) (?:(\d+(?:\.\d+)?)\.? )?(.*)$", re.M)
LINE_MAX = 100

findings = []


def find(path, text, at, what):
    findings.append(f"{path}:{text.count(chr(10), 0, at) + 1}: {what}")


def tree(root):
    """All files that belong to the tree: as git sees it, else all but what is built."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if git.returncode == 0 and git.stdout:
        names = git.stdout.decode().split("\0")
        return sorted({n for n in names if n and os.path.isfile(os.path.join(root, n))})
    found = []
    for folder, below, files in os.walk(root):
        below[:] = [b for b in below if not b.startswith(".") and b not in ("build", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(found)


def comments(path, text):
    """(offset, text) of what a person reads there."""
    if path.endswith((".c", ".h")):
        pattern = r"/\*.*?\*/|//[^\n]*"
    elif path.endswith((".py", ".sh", ".cmake", "CMakeLists.txt")):
        pattern = r'(?<!\S)\#[^\n]*|""".*?"""'
    elif path.endswith(".proto"):
        pattern = r"//[^\n]*"
    elif path.endswith(".md"):
        return [(0, text)]
    else:
        return []
    return [(m.start(), m.group(0)) for m in re.finditer(pattern, text, re.S)]


def headings(path, text):
    """{number: title}; a number or title that comes twice is a finding, as is one out of order."""
    numbers, titles, last = {}, set(), (0,)
    for m in HEADING.finditer(re.sub(r"```.*?```", lambda f: "\n" * f.group(0).count("\n"), text,
                                     flags=re.S)):
        number, title = m.group(2), m.group(3)
        if title in titles:
            find(path, text, m.start(), f'a second heading "{title}"')
        titles.add(title)
        if number:
            place = tuple(int(part) for part in number.split("."))
            if place <= last:
                find(path, text, m.start(), f"section {number} does not come after the one before")
            numbers[number], last = title, place
    return numbers, titles


def check_files(path, text, files):
    names = {os.path.basename(f) for f in files}
    for start, part in comments(path, text):
        for m in FILE.finditer(part):
            name = m.group(1)
            is_pattern = re.search(r"[A-Z]{2,}", os.path.splitext(name)[0]) and name[-3:] != ".md"
            if name in FOREIGN or is_pattern:
                continue
            linked = os.path.normpath(os.path.join(os.path.dirname(path), name))
            known = name in names or any(f in (name, linked) or f.endswith("/" + name) for f in files)
            if not known:
                find(path, text, start + m.start(), f"{name} is not in the tree")


def check_citations(path, text, design, protocol, listed):
    for m in DESIGN.finditer(text):
        listed.append((m.group(1), path))
        if m.group(1) not in design:
            find(path, text, m.start(), f"docs/design.md has no section {m.group(1)}")
        if m.group(0).startswith("DESIGN"):
            find(path, text, m.start(), f'"{m.group(0)}": it is written "design {m.group(1)}"')
    sections, titles, words = protocol
    for m in PROTOCOL.finditer(text):
        number, title, word = m.groups()
        if number and number not in sections:
            find(path, text, m.start(), f"proto/PROTOCOL.md has no section {number}")
        if title and not any(t.split(". ")[-1] == title for t in titles):
            find(path, text, m.start(), f'proto/PROTOCOL.md has no section "{title}"')
        if word and word not in words:
            find(path, text, m.start(), f"proto/PROTOCOL.md has no message {word}")


def check_protocol(text, sections):
    rules = set(re.findall(r"^(\d+)\. ", text[text.index("## 4."):text.index("### A node")], re.M))
    for m in re.finditer(r"\b(section|rule)s? (\d+)", text):
        if m.group(2) not in (sections if m.group(1) == "section" else rules):
            find("proto/PROTOCOL.md", text, m.start(), f"there is no {m.group(0)}")


def has_function(root, path, name):
    """Whether the file defines it: its name at the begin of a line that does not end in ';'."""
    try:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return False
    return re.search(rf"^(?!\s)[\w *]*\b{re.escape(name)}\([^;{{}}]*\)\s*\{{", text, re.M)


def check_rules(root, files, design):
    path = "server/core/RULES.md"
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    scenarios = {os.path.basename(f)[:-4] for f in files if f.startswith("tests/sim/scenarios/")}
    stories = set()
    for f in files:
        if f.startswith("tests/unit/") and f.endswith(".c"):
            with open(os.path.join(root, f), encoding="utf-8") as file:
                stories |= {"/".join(s) for s in re.findall(
                    r"\bTEST(?:_\w+)?\((\w+),\s*(\w+)\)", file.read())}
    named = set()
    for m in re.finditer(r"^## (\d\S*) (.*)$", text, re.M):
        if design.get(m.group(1)) != m.group(2):
            find(path, text, m.start(), f"docs/design.md has no section {m.group(0)[3:]}")
    for m in re.finditer(r"^\| (?!rule \||-)(.*?) \| (.*?) \| (.*?) \|$", text, re.M):
        for where in m.group(2).split(", "):
            file, _, name = where.partition(": ")
            if not has_function(root, file if "/" in file else "server/core/" + file, name):
                find(path, text, m.start(), f"{file} does not define {name}")
        for shown in m.group(3).split(", "):
            named.add(shown)
            if "/" in shown and not any(s == shown or shown.endswith("...") and
                                        s.startswith(shown[:-3]) for s in stories):
                find(path, text, m.start(), f"no story {shown} in tests/unit")
            if "/" not in shown and shown not in scenarios:
                find(path, text, m.start(), f"no scenario {shown}")
    at = text.index("## About no single rule")
    rest = set(re.findall(r"^(\w+): ", text[at:], re.M))
    for name in sorted(rest - scenarios):
        find(path, text, at, f"no scenario {name}")
    for name in sorted(scenarios - named - rest):
        find(path, text, 0, f"the scenario {name} shows no rule")


def main():
    words = [a for a in sys.argv[1:] if a != "--list"]
    root = words[0] if words else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    files, texts, listed = tree(root), {}, []
    for path in files:
        if path.endswith(READ) and not path.startswith("tests/sim/scenarios/"):
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                texts[path] = file.read()
    design, _ = headings("docs/design.md", texts["docs/design.md"])
    sections, titles = headings("proto/PROTOCOL.md", texts["proto/PROTOCOL.md"])
    messages = set(re.findall(r"^\*\*\d+ ([A-Z_]+)\*\*", texts["proto/PROTOCOL.md"], re.M))
    for path, text in texts.items():
        check_files(path, text, files)
        check_citations(path, text, design, (sections, titles, messages), listed)
        if path.endswith(".md"):
            for m in re.finditer(rf"^(?!\|).{{{LINE_MAX + 1},}}$", text, re.M):
                find(path, text, m.start(), f"{len(m.group(0))} columns")
    check_protocol(texts["proto/PROTOCOL.md"], sections)
    check_rules(root, files, design)
    if "--list" in sys.argv:
        for section, path in sorted(listed):
            print(section, path)
    print("\n".join(findings), end="\n" if findings else "", file=sys.stderr)
    return 1 if findings else 0


sys.exit(main())
