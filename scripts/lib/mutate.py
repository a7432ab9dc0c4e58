"""The work of scripts/mutate.sh: reads tests/mutations, builds each mutant in a scratch copy, runs tests until one fails.

    mutate.py list PATTERN SAMPLE SEED
    mutate.py run PATTERN SAMPLE SEED JOBS SCRATCH

SAMPLE empty: all that PATTERN chooses.
"""
import collections
import dataclasses
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import supervise

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTS = ROOT / "tests/mutations"
PYTHON = ROOT / ".venv/bin/python"
GOAL = 0.95
# The same tests as users' builds have; no debug information, which is half of each link.
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG"]
EXPLORE = ["--seed", "70000", "--events", "50000", "--count", "100"]  # with ctest's, what 20 s of the explorer come to
STAGES = os.environ.get("MUTATE_STAGES", "near ctest scenarios explorer" + " e2e" * PYTHON.exists()).split()


@dataclasses.dataclass
class Mutation:
    room: str
    name: str
    file: str
    near: str      # regular expression: these tests first
    e2e: list      # files of tests/e2e, last
    where: str     # file:line of the list
    after: str = ""
    old: str = ""
    new: str = ""
    why: str = ""  # the argument that it is equivalent

    def apply(self, root):
        """The file's text with the change; ValueError where it does not fit."""
        text = (root / self.file).read_text()
        start = 0
        if self.after:
            if text.count(self.after) != 1:
                raise ValueError(f"'{self.after}' is {text.count(self.after)} times in {self.file}")
            start = text.index(self.after)
        found = text.find(self.old, start)
        if found < 0:
            raise ValueError(f"'{self.old}' is not in {self.file}" + (" after that" if self.after else ""))
        if not self.after and text.count(self.old) != 1:
            raise ValueError(f"'{self.old}' is {text.count(self.old)} times in {self.file}")
        return text[:found] + self.new + text[found + len(self.old):]

    def stage_of(self, test):
        """When a test is due for this mutation; None: not at all."""
        if test.stage == "e2e":
            return "e2e" if test.name[4:] in self.e2e else None
        return "near" if test.stage == "ctest" and re.match(self.near, test.name) else test.stage


def read_lists(pattern):
    """All mutations that pattern chooses, and what is wrong with the lists."""
    chosen, wrong, names = [], [], set()
    for path in sorted(LISTS.glob("*.txt")):
        near, e2e, last = "", [], None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path.name}:{number}"
            key, _, value = line.partition(" ")
            value = value.strip()
            if not line.strip() or key == "#":
                continue
            if key == "near":
                near = value
            elif key == "e2e":
                e2e = value.split()
            elif key.endswith(":"):
                last = Mutation(path.stem, value, key[:-1], near, e2e, where)
                if value in names:
                    wrong.append(f"{where}: {value} is there twice")
                names.add(value)
                chosen.append(last)
            elif last and key in ("@", "-", "+", "="):
                setattr(last, {"@": "after", "-": "old", "+": "new", "=": "why"}[key], value)
            else:
                wrong.append(f"{where}: not understood: {line}")
    chosen = [one for one in chosen if re.search(pattern, f"{one.room} {one.name} {one.file}")]
    for one in chosen:
        try:
            if not one.old or one.old == one.new:
                raise ValueError("changes nothing")
            one.apply(ROOT)
        except (OSError, ValueError) as error:
            wrong.append(f"{one.where}: {one.name} does not fit: {error}")
    return chosen, wrong


@dataclasses.dataclass
class Test:
    name: str
    stage: str
    command: list
    folder: str
    skip: int
    programs: list   # what it runs, as names of the build
    digest: str = ""  # of the programs, unchanged
    took_s: float = 1
    limit_s: float = 300


class Copy:
    """A worker's own tree and build."""

    def __init__(self, scratch, number):
        self.tree, self.build = scratch / f"tree{number}", scratch / f"build{number}"
        self.log = scratch / f"log{number}"
        self.tmp = scratch / f"tmp{number}"
        self.clean = {}     # program: digest of what the unchanged tree makes
        self.dirty = None   # the file that the last mutation changed, and what it was
        self.tmp.mkdir(exist_ok=True)
        self.environment = dict(os.environ, CCACHE_BASEDIR=str(self.tree), TMPDIR=str(self.tmp))

    def make(self):
        """All of the tree, or what has changed since the last run in the same place."""
        def copy(source, target):
            if not os.path.exists(target) or pathlib.Path(source).read_bytes() != pathlib.Path(target).read_bytes():
                shutil.copyfile(source, target)
                shutil.copymode(source, target)
        shutil.copytree(ROOT, self.tree, symlinks=True, dirs_exist_ok=True, copy_function=copy,
                        ignore=lambda folder, names: {"build", ".git", ".venv", ".venv-peers", ".venv-aws", "shared", "__pycache__"} & set(names))
        for path in self.tree.rglob("*"):
            if path.is_file() and not (ROOT / path.relative_to(self.tree)).exists():
                path.unlink()
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        if self.call(["cmake", "-S", self.tree, "-B", self.build, *CONFIGURE, *launcher], 600):
            raise RuntimeError("the tree cannot be configured:\n" + self.said())
        if self.ninja([]):
            raise RuntimeError("the tree cannot be built:\n" + self.said())

    def said(self):
        return self.log.read_text(errors="replace")[-3000:]

    def ninja(self, targets):
        return self.call(["ninja", "-C", self.build, *targets], 1200)

    def call(self, command, limit_s, folder=None, more=None):
        """Exit status, None after limit_s; nothing that it started is left."""
        with open(self.log, "wb") as log:
            child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=subprocess.STDOUT, cwd=folder, env=dict(self.environment, **(more or {})),
                                     start_new_session=True)
            try:
                return child.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                supervise.kill_all(child.pid)

    def tests(self):
        """Those of ctest, but for the rules of the house; the explorer with seeds of our own; the end-to-end tests' files."""
        found = json.loads(subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], check=True,
                                          capture_output=True).stdout)["tests"]
        tests = []
        for one in found:
            settings = {p["name"]: p["value"] for p in one.get("properties", [])}
            if settings.get("LABELS") or "command" not in one:
                continue
            stage = "scenarios" if one["name"].startswith("sim_scenario") else "ctest"
            stage = "explorer" if one["name"].startswith(("sim_explore", "sim_deterministic")) else stage
            tests.append(self.test(one["name"], stage, one["command"], settings.get("WORKING_DIRECTORY", ""),
                                   settings.get("SKIP_RETURN_CODE", -1)))
        tests.append(self.test("sim_explore_long", "explorer", [f"{self.build}/tests/sim/sim_explore", *EXPLORE], "", -1))
        if "e2e" in STAGES:
            for path in sorted((self.tree / "tests/e2e").glob("test_*.py")):
                tests.append(Test(f"e2e_{path.stem[5:]}", "e2e",
                                  [str(PYTHON), "-m", "pytest", "-p", "no:cacheprovider", "-q", "-x", "-m", "not heavy", "TREE/"
                                   + str(path.relative_to(self.tree))], "TREE", -1, ["tfe-rdzv", "tfe-agent", "tfe-ctl", "tfe-web"]))
        return tests

    def test(self, name, stage, command, folder, skip):
        programs = [word[len(str(self.build)) + 1:] for word in command if word.startswith(f"{self.build}/")]
        named = [word.replace(str(self.build), "BUILD").replace(str(self.tree), "TREE") for word in command]
        return Test(name, stage, named, folder.replace(str(self.build), "BUILD"), skip, programs)

    def run(self, test):
        """Whether it passes; None: it did not end."""
        place = {"BUILD": str(self.build), "TREE": str(self.tree)}
        command = [re.sub("BUILD|TREE", lambda word: place[word[0]], word) for word in test.command]
        folder = re.sub("BUILD|TREE", lambda word: place[word[0]], test.folder) or None
        status = self.call(command, test.limit_s, folder, {"TFE_BIN_DIR": str(self.build)})
        for left in self.tmp.iterdir():
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
        return None if status is None else status in (0, test.skip)

    def digest(self, program):
        """What a test's program is made of: a link that came out as before needs no run."""
        if program.startswith("tfe-"):
            found = [path for path in self.build.glob(f"**/{program}") if path.is_file()]
        else:
            found = [self.build / program]
        return " ".join(hashlib.sha1(path.read_bytes()).hexdigest() for path in found)

    def judge(self, one, tests):
        """(verdict, by which test or why)."""
        if self.dirty:
            self.dirty[0].write_text(self.dirty[1])
        path = self.tree / one.file
        self.dirty = (path, path.read_text())
        path.write_text(one.apply(self.tree))
        stem = pathlib.Path(one.file).stem
        same = True
        for stage in STAGES:
            due = [test for test in tests if one.stage_of(test) == stage]
            targets = sorted({program for test in due for program in test.programs})
            if not targets:
                continue
            if self.ninja(targets):
                return "invalid", "it does not compile:\n" + self.said()
            new = {program: self.digest(program) != self.clean[program] for program in targets}
            for test in sorted(due, key=lambda test: (stem not in test.name, test.took_s)):
                if not any(new[program] for program in test.programs):
                    continue
                same = False
                passes = self.run(test)
                if not passes:
                    return "killed", test.name + (" (it did not end)" if passes is None else "")
        return "survived", "no test's program differs" if same else "all tests pass"


def work(number, scratch, turn, todo, done):
    """A worker: makes its copy when it is its turn, then does what comes: tests alone at first, then mutations."""
    supervise.adopt_orphans()
    try:
        copy = Copy(scratch, number)
        with turn:
            copy.make()
        tests = copy.tests()
        for test in tests:
            copy.clean.update((program, copy.digest(program)) for program in test.programs)
            test.digest = " ".join([test.name, *test.command, *(copy.clean[program] for program in test.programs)])
        done.put(("tests", tests))
        while (task := todo.get()) is not None:
            began = time.monotonic()
            answer = copy.judge(*task) if isinstance(task, tuple) else (copy.run(task), copy.said())
            done.put((task[0] if isinstance(task, tuple) else task, answer, time.monotonic() - began))
    except Exception as error:  # whatever it is: the run is over, and says why
        done.put(("broken", f"{type(error).__name__}: {error}"))


def run(chosen, jobs, scratch):
    turn, todo, done = multiprocessing.Lock(), multiprocessing.Queue(), multiprocessing.Queue()
    todo.cancel_join_thread()  # an end does not wait until all of it was taken
    workers = [multiprocessing.Process(target=work, args=(number, scratch, turn, todo, done), daemon=True)
               for number in range(jobs)]

    def answers(count):
        for _ in range(count):
            what, *rest = done.get()
            if what == "broken":
                sys.exit(f"mutate.sh: {rest[0]}")
            yield what, *rest

    for worker in workers:
        worker.start()
    tests = [rest[0] for _, *rest in answers(jobs)][0]
    tests = [test for test in tests if any(one.stage_of(test) in STAGES for one in chosen)]
    print(f"{jobs} copies built; {len(tests)} tests, first without any change", flush=True)
    known = scratch / "passed.json"  # what these same programs took before
    took = json.loads(known.read_text()) if known.exists() else {}
    fresh = [test for test in tests if test.digest not in took]
    for test in fresh:
        todo.put(test)
    for test, (passes, said), took_s in answers(len(fresh)):
        if not passes:
            sys.exit(f"mutate.sh: {test.name} fails without any change:\n{said}")
        took[test.digest] = took_s
    known.write_text(json.dumps(took))
    for test in tests:
        test.took_s = took[test.digest]
        test.limit_s = 10 + 6 * test.took_s
    print(f"they take {sum(test.took_s for test in tests):.0f} s; {len(chosen)} mutations", flush=True)
    for one in chosen:
        todo.put((one, tests))
    return report(chosen, answers(len(chosen)))


def report(chosen, answers):
    rooms = {one.room: collections.Counter() for one in chosen}
    wrong = []
    for one, (verdict, why), took_s in answers:
        if one.why and verdict == "survived":
            verdict = "equivalent"
        elif one.why and verdict == "killed":
            wrong.append(f"{one.where}: {one.name} is said to be equivalent, but {why} noticed it")
        if verdict == "invalid":
            wrong.append(f"{one.where}: {one.name}: {why}")
        rooms[one.room].update({verdict: 1, "total": 1, "seconds": took_s})
        print(f"{verdict:<10} {took_s:5.0f} s  {one.room:<14} {one.name:<32} {why.splitlines()[0]}", flush=True)
    kinds = ("total", "killed", "survived", "equivalent")
    print(f"\n{'room':<14}" + "".join(f"{kind:>11}" for kind in kinds) + f"{'s each':>8}")
    for room, counts in sorted(rooms.items()):
        print(f"{room:<14}" + "".join(f"{counts[kind]:>11}" for kind in kinds) + f"{counts['seconds'] / counts['total']:8.1f}")
    for line in wrong:
        print(f"WRONG {line}")
    sums = sum(rooms.values(), collections.Counter())
    print("mutated " + " ".join(f"{kind}={sums[kind]}" for kind in kinds))
    return 1 if wrong or sums["killed"] < GOAL * (sums["total"] - sums["equivalent"]) else 0


def sample(chosen, size, seed):
    """So many of them, of each room its share, and one before any has two; in the order of the lists. The same for one seed as long
    as the lists are the same."""
    chance, rooms = random.Random(int(seed)), collections.defaultdict(list)
    for one in chosen:
        rooms[one.room].append(one)
    for room in rooms.values():
        chance.shuffle(room)
    # Each has its turn when its part of the room is: the first ones of all rooms, and so on.
    turns = sorted((place / len(room), one.where) for room in rooms.values() for place, one in enumerate(room))
    picked = {where for _, where in turns[:int(size)]}
    return [one for one in chosen if one.where in picked]


def main(verb, pattern, size, seed, *rest):
    chosen, wrong = read_lists(pattern)
    for line in wrong:
        print(f"mutate.sh: {line}", file=sys.stderr)
    if wrong or not chosen:
        return 1 if wrong else f"mutate.sh: no mutation fits {pattern}"
    if size:
        of = len(chosen)
        chosen = sample(chosen, size, seed)
        print(f"a sample of {len(chosen)} of {of}, seed {seed}", flush=True)
    if verb == "list":
        for one in chosen:
            print(f"{one.room:<14} {one.name:<32} {one.file}" + ("  (equivalent)" if one.why else ""))
        print(f"listed {len(chosen)}")
        return 0
    return run(chosen, int(rest[0]), pathlib.Path(rest[1]))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    sys.exit(main(*sys.argv[1:]))
