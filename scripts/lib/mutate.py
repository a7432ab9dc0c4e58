"""Implements scripts/mutate.sh.

    mutate.py RANGE SAMPLE SEED JOBS SCRATCH
"""
import collections
import concurrent.futures
import difflib
import hashlib
import json
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOAL = 0.95
SCOPE = ["server/core/*.c", "agent/core/*.c", "common/message/*.c", "common/channel/*.c", "server/store/*.c", "agent/guard/*.c", "server/scheduler/*.c",
         "server/key*.c", "server/auth/agent_keys.c", "server/auth/deny_list.c", "server/session_token.c", "common/message/principal.c"]
PRODUCT = re.compile(r"^(server|agent|common)/.*\.c$")
NEAREST = 60  # test programs per change, those with the fewest sources first, since others contain the file only incidentally
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG"]


def touched_lines(commits):
    """Returns the changed lines of the product's sources, by file, in current line numbers."""
    diff = subprocess.run(["git", "diff", "-U0", "--no-color", commits], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout
    found, file = collections.defaultdict(set), ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line[6:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            found[file].update(range(start, start + max(count, 1)))
    return {file: lines for file, lines in found.items() if PRODUCT.match(file) and (ROOT / file).exists()}


def candidates(commits):
    """Returns all mutants that the command line selects."""
    if commits:
        files = touched_lines(commits)
    else:
        files = {str(path.relative_to(ROOT)): None for glob in SCOPE for path in sorted(ROOT.glob(glob))}
    return [mutant for file, lines in sorted(files.items())
            for mutant in mutants.mutants_of(file, (ROOT / file).read_text(), lines)]


class Copy:
    """A copy of the tree with its build, for one worker."""

    def __init__(self, scratch, number):
        self.tree, self.build = scratch / f"tree{number}", scratch / f"build{number}"
        self.log = scratch / f"log{number}"
        self.tmp = scratch / f"tmp{number}"
        self.tmp.mkdir(exist_ok=True)
        self.environment = dict(os.environ, CCACHE_BASEDIR=str(self.tree), TMPDIR=str(self.tmp), TFE_BIN_DIR=str(self.build))
        self.clean = {}  # program: digest of the program built from the unchanged tree

    def call(self, command, limit_s, folder=None):
        """Returns the exit status, or None after limit_s seconds. No process of the command's group is left."""
        with open(self.log, "wb") as log:
            child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=subprocess.STDOUT, cwd=folder, env=self.environment, start_new_session=True)
            try:
                return child.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()

    def make(self):
        """Copies the tree and configures it. Files that have not changed since the last run keep their times."""
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True,
                               text=True).stdout.splitlines()
        names = [name for name in names if (ROOT / name).is_file()]
        for path in list(self.tree.rglob("*")) if self.tree.exists() else []:
            if path.is_file() and not (ROOT / path.relative_to(self.tree)).exists():
                path.unlink()
        for name in names:
            source, target = ROOT / name, self.tree / name
            if not target.exists() or source.read_bytes() != target.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
                os.utime(target)
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        self.must(["cmake", "-S", self.tree, "-B", self.build, *CONFIGURE, *launcher])

    def must(self, command):
        """Runs a command that must succeed on the unchanged tree."""
        if self.call(command, 3600) != 0:
            sys.exit(f"mutate.sh: {command[0]} fails on the unchanged tree:\n" + self.log.read_text(errors="replace")[-3000:])

    def digest(self, program):
        return hashlib.sha1((self.build / program).read_bytes()).hexdigest()


class Tests:
    """The ctest tests of each program, and the sources of each program."""

    def __init__(self, copy):
        self.of = collections.defaultdict(list)
        place = {str(copy.build): "{build}", str(copy.tree): "{tree}"}
        listed = "".join(path.read_text() for path in copy.build.rglob("CTestTestfile.cmake"))
        copy.must(["ninja", "-C", copy.build, *sorted(set(re.findall(rf'^add_test\(\S+ "{copy.build}/([^"]+)"', listed, re.M)))])
        found = json.loads(subprocess.run(["ctest", "--test-dir", copy.build, "--show-only=json-v1"], check=True,
                                          capture_output=True).stdout)["tests"]
        for test in found:
            settings = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
            programs = [word[len(f"{copy.build}/"):] for word in test.get("command", []) if word.startswith(f"{copy.build}/")]
            if programs and not settings.get("LABELS"):
                words = [re.sub("|".join(map(re.escape, place)), lambda hit: place[hit[0]], word) for word in test["command"]]
                self.of[programs[0]].append((test["name"], words, settings.get("SKIP_RETURN_CODE")))
        self.sources = self.read_sources(copy)
        self.took_s = {}

    def read_sources(self, copy):
        """Returns {program: its sources} from the build graph."""
        graph = subprocess.run(["ninja", "-C", copy.build, "-t", "graph", *self.of], check=True, capture_output=True,
                               text=True).stdout
        names = dict(re.findall(r'^"(0x\w+)" \[label="([^"]*)"', graph, re.M))
        nodes = {name: node for node, name in names.items()}
        inputs = collections.defaultdict(list)
        for source, target in re.findall(r'^"(0x\w+)" -> "(0x\w+)"', graph, re.M):
            inputs[target].append(source)
        sources = {}
        for program in self.of:
            seen, todo = set(), [nodes[program]]
            while todo:
                node = todo.pop()
                if node not in seen:
                    seen.add(node)
                    todo += inputs[node]
            sources[program] = {names[node] for node in seen if names.get(node, "").endswith(".c")}
        return sources

    def near(self, copy, file):
        """Returns the test programs that contain the file, those with the fewest sources first."""
        having = [program for program, sources in self.sources.items() if str(copy.tree / file) in sources]
        return sorted(having, key=lambda program: (len(self.sources[program]), program))[:NEAREST]

    def measure(self, copy, programs, jobs):
        """Runs the programs' tests on the unchanged tree, measures their time and checks that they pass."""
        names = [name for program in programs for name, _, _ in self.of[program]]
        report = copy.log.with_suffix(".xml")
        command = ["ctest", "--test-dir", copy.build, "-j", jobs, "--output-junit", report, "-R",
                   "^(" + "|".join(names) + ")$", "--output-on-failure"]
        copy.must(command)
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            self.took_s[case.get("name")] = float(case.get("time"))
        return len(names)

    def passes(self, copy, test):
        """Returns True if the test passes, False if it fails, None on timeout."""
        name, words, skipped = test
        status = copy.call([word.format(build=copy.build, tree=copy.tree) for word in words], 10 + 10 * self.took_s[name])
        for left in copy.tmp.iterdir():
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
        return None if status is None else status in (0, skipped)

    def judge(self, copy, mutant):
        """Returns (verdict, name of the test that detected the mutant)."""
        path = copy.tree / mutant.file
        text = path.read_text()
        path.write_text(mutant.apply(text))
        same = True
        try:
            for program in self.near(copy, mutant.file):
                if copy.call(["ninja", "-C", copy.build, program], 600) != 0:
                    return "invalid", ""
                if copy.digest(program) == copy.clean[program]:
                    continue
                same = False
                for test in sorted(self.of[program], key=lambda test: self.took_s[test[0]]):
                    passes = self.passes(copy, test)
                    if not passes:
                        return "killed", test[0] + (" (it did not end)" if passes is None else "")
            return ("same" if same else "survived"), ""
        finally:
            path.write_text(text)


def diff_of(mutant):
    old = (ROOT / mutant.file).read_text()
    lines = difflib.unified_diff(old.splitlines(), mutant.apply(old).splitlines(), mutant.file, mutant.file, "", "", 2, "")
    return "\n".join("    " + line for line in lines)


def main(commits, sample, seed, jobs, scratch):
    chosen = candidates(commits)
    if not chosen:
        print("mutated total=0 killed=0 survived=0")
        return 0
    random.Random(int(seed)).shuffle(chosen)
    wanted = int(sample) if sample else len(chosen) if commits else 200
    print(f"{len(chosen)} changes are possible; {min(wanted, len(chosen))} of them, seed {seed}", flush=True)

    copies = [Copy(pathlib.Path(scratch), number) for number in range(int(jobs))]
    for copy in copies:
        copy.make()
    tests = Tests(copies[0])
    files = {mutant.file for mutant in chosen}
    programs = sorted({program for file in files for program in tests.near(copies[0], file)})
    for copy in copies:
        copy.must(["ninja", "-C", copy.build, *programs])
    count = tests.measure(copies[0], programs, jobs)
    for copy in copies:
        copy.clean = {program: copy.digest(program) for program in programs}
    print(f"{jobs} copies built; {len(programs)} programs with {count} tests pass without a change", flush=True)

    idle = queue.SimpleQueue()
    for copy in copies:
        idle.put(copy)
    lock, counts, survivors, verdicts = threading.Lock(), collections.Counter(), [], iter(chosen)

    def work():
        copy = idle.get()
        while True:
            with lock:
                if counts["killed"] + counts["survived"] + counts["under way"] >= wanted:
                    return
                mutant = next(verdicts, None)
                if not mutant:
                    return
                counts["under way"] += 1
            began = time.monotonic()
            verdict, test = tests.judge(copy, mutant)
            with lock:
                counts["under way"] -= 1
                counts[verdict] += 1
                where = f"{mutant.file}:{mutant.line}"
                print(f"{verdict:<9}{time.monotonic() - began:5.0f} s  {where:<40} {test}", flush=True)
                if verdict == "survived":
                    survivors.append(mutant)
                    print(diff_of(mutant), flush=True)

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        for job in [pool.submit(work) for _ in copies]:
            job.result()
    if survivors:
        print(f"\nsurvived, by file: " + ", ".join(f"{file} {n}" for file, n in
                                                    collections.Counter(mutant.file for mutant in survivors).most_common()))
    total = counts["killed"] + counts["survived"]
    print(f"mutated total={total} killed={counts['killed']} survived={counts['survived']}")
    return 0 if counts["killed"] >= GOAL * total else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
