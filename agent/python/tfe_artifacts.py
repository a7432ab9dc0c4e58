"""agent/python/tfe_artifacts.py: copies $TFE_ARTIFACTS to the place of `tfe-agent --artifacts` (tfe-agent(1)).

tfe_bootstrap.py calls store() in rank 0's trainer, once the main thread of its script has ended with exit status 0.
The files go to URI/VERSION, where VERSION is the UTC time in digits, so that models in one place are numbered as
TensorFlow Serving expects. The manifest is written last and lists each file with its size and SHA-256: a folder
without a manifest is incomplete. A directory gets the whole folder at once, by rename(2).
"""
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MANIFEST = "tfe-manifest.json"
NOT_STORED = ".not-stored"        # marks a folder that the agent keeps (agent/os/private_dir.h)
EXIT_NOT_STORED = 65              # the job fails at once: a restart would train again and not help
AGAIN_FIRST_S, AGAIN_LAST_S = 1, 60  # pause before another attempt; doubles
BEAT_S = 5                        # interval of reports that the copy is in progress
CHUNK = 1 << 20
WHY_MAX = 150                     # in characters of a message


class Refused(Exception):
    """The artifacts cannot be stored, and another attempt would not help."""


class Store:
    """One copy. `given` has the trainer's environment as it was when the script began, and its directory."""

    def __init__(self, given):
        self.given, self.folder, self.uri = given, given["TFE_ARTIFACTS"], given["TFE_ARTIFACTS_URI"]
        self.command = given.get("TFE_ARTIFACTS_COMMAND")
        self.limit_s = int(given["TFE_ARTIFACTS_TIMEOUT_MS"]) / 1000
        self.scheme = self.uri.partition("://")[0] if "://" in self.uri else ""
        self.directory = None     # target on a file system, absolute
        if not self.command and (self.scheme == "" or self.uri.startswith("file:")):
            path = re.sub("^file:(//(localhost)?(?=/))?", "", self.uri)
            self.directory = os.path.join(given["directory"], path)
        self.place = self.directory or self.uri.rstrip("/")
        self.n_files = self.n_bytes = 0

    # --- reports ---

    def send(self, state, why=""):
        """Sends a message `artifact` (PROTOCOL.md, section 10), unless the agent is gone."""
        text = json.dumps({"type": "artifact", "epoch": int(self.given["TFE_EPOCH"]), "rank": int(self.given["TFE_RANK"]),
                           "state": state, "place": masked(self.place)[:1000], "files": self.n_files,
                           "bytes": self.n_bytes, "why": why})
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(BEAT_S)
            sock.sendto(text.encode(), self.given["TFE_SOCKET"])

    def beat(self, is_over):
        while not is_over.wait(BEAT_S):
            self.send("storing")

    # --- the files ---

    def files(self):
        """Returns the names below the folder, sorted, and counts their bytes."""
        names = []
        self.n_bytes = 0
        for above, folders, files in os.walk(self.folder, onerror=throw):
            for name in [*files, *(one for one in folders if os.path.islink(os.path.join(above, one)))]:
                path = os.path.join(above, name)
                if not os.path.isfile(path):
                    raise Refused(f"{path} is not a regular file")
                names.append(os.path.relpath(path, self.folder))
                self.n_bytes += os.path.getsize(path)
        names = sorted(name for name in names if name not in (MANIFEST, NOT_STORED))
        self.n_files = len(names)
        if not names:
            raise Refused("the script has put no file into $TFE_ARTIFACTS")
        return names

    def manifest(self, listed):
        return json.dumps({"job": self.given["TFE_JOB"], "run": int(self.given["TFE_RUN"]),
                           "epoch": int(self.given["TFE_EPOCH"]), "stored": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                           "files": listed}, indent=1).encode()

    def read(self, name, out=None):
        """Returns the entry of a file for the manifest; copies its bytes to out."""
        digest, n = hashlib.sha256(), 0
        with open(os.path.join(self.folder, name), "rb") as file:
            for block in iter(lambda: file.read(CHUNK), b""):
                if time.monotonic() > self.deadline:
                    raise TimeoutError("the time limit is over")
                digest.update(block)
                n += len(block)
                if out:
                    out.write(block)
        return {"name": name, "bytes": n, "sha256": digest.hexdigest()}

    # --- targets ---

    def to_directory(self, names):
        """Copies to a hidden folder beside the final one, which one job uses at a time, and renames it."""
        os.makedirs(self.directory, exist_ok=True)
        taken = [int(one) for one in os.listdir(self.directory) if one.isdigit()]
        version = max(int(self.version), *(number + 1 for number in taken), 0)
        hidden = os.path.join(self.directory, f".{self.given['TFE_JOB']}.part")
        final = os.path.join(self.directory, str(version))
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(hidden)
        listed = []
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(hidden, name)), exist_ok=True)
            with open(os.path.join(hidden, name), "xb") as out:
                listed.append(self.read(name, out))
                out.flush()
                os.fsync(out.fileno())
        with open(os.path.join(hidden, MANIFEST), "xb") as out:
            out.write(self.manifest(listed))
            out.flush()
            os.fsync(out.fileno())
        for above, _, _ in os.walk(hidden):
            sync(above)
        os.rename(hidden, final)
        sync(self.directory)
        self.place = final

    def to_cloud(self, names):
        """Copies with the cloud's own program, or else with fsspec; the manifest follows."""
        self.place = f"{self.uri.rstrip('/')}/{self.version}"
        listed = [self.read(name) for name in names]
        with tempfile.TemporaryDirectory() as own:
            path = os.path.join(own, MANIFEST)
            with open(path, "wb") as out:
                out.write(self.manifest(listed))
            for words in cloud_commands(self.scheme, self.folder, path, self.place):
                self.run(words)
                path = None
            if path:
                self.to_fsspec(names, path)

    def to_fsspec(self, names, manifest):
        try:
            import fsspec
            system, root = fsspec.core.url_to_fs(self.place)
        except (ImportError, ValueError) as error:
            raise Refused(f"no program or Python package for {self.scheme}:// was found ({error}); --artifacts-command "
                          "runs another one") from None
        for name, path in [*((name, os.path.join(self.folder, name)) for name in names), (MANIFEST, manifest)]:
            if time.monotonic() > self.deadline:
                raise TimeoutError("the time limit is over")
            target = f"{root}/{name}"
            system.makedirs(os.path.dirname(target), exist_ok=True)
            system.put_file(path, target)

    def to_command(self, names):
        listed = [self.read(name) for name in names]
        with open(os.path.join(self.folder, MANIFEST), "wb") as out:
            out.write(self.manifest(listed))
        self.run(["sh", "-c", self.command + ' "$1"', "sh", self.folder])

    def run(self, words):
        """Runs a program in a process group of its own; its output goes to the trainer's. Raises OSError with the last
        line of output if it fails, or is killed because the time limit is over.
        """
        env = {**os.environ, "TFE_ARTIFACTS_URI": self.uri}
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env=env, start_new_session=True, cwd=self.given["directory"], errors="replace")
        timer = threading.Timer(max(0.0, self.deadline - time.monotonic()), os.killpg, [process.pid, signal.SIGKILL])
        timer.daemon = True
        timer.start()
        last = ""
        try:
            for line in process.stdout:
                print(line, end="", file=sys.stderr, flush=True)
                last = line.strip() or last
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        finally:
            timer.cancel()
            os.killpg(process.pid, signal.SIGKILL)  # the process is not reaped, so its group exists
            code = process.wait()
            process.stdout.close()
        if code < 0 and time.monotonic() > self.deadline:
            last = "the time limit is over"
        if code != 0:
            name = "--artifacts-command" if self.command else words[0]
            raise OSError(f"{name}: exit status {code}{': ' if last else ''}{last}")

    # --- attempts ---

    def attempt(self):
        names = self.files()
        if self.command:
            self.to_command(names)
        elif self.directory is not None:
            self.to_directory(names)
        else:
            self.to_cloud(names)

    def store(self):
        """Returns "" once the files are stored, or why they are not."""
        self.deadline = time.monotonic() + self.limit_s
        self.version = time.strftime("%Y%m%d%H%M%S", time.gmtime())
        pause = AGAIN_FIRST_S
        self.send("storing")
        while True:
            try:
                self.attempt()
                return ""
            except Refused as error:
                return plain(str(error))
            except Exception as error:
                why = plain(masked(str(error) or type(error).__name__, self.uri))
            if time.monotonic() + pause >= self.deadline:
                return why
            print(f"artifacts are not stored yet: {why} (next attempt in {pause} s)", file=sys.stderr, flush=True)
            self.send("storing", why[:WHY_MAX])
            time.sleep(pause)
            pause = min(2 * pause, AGAIN_LAST_S)


def store(given):
    """Copies the artifacts. Returns the exit status of the trainer."""
    copy = Store(given)
    marker = os.path.join(copy.folder, NOT_STORED)
    with contextlib.suppress(OSError):
        os.unlink(marker)
    is_over = threading.Event()
    threading.Thread(target=copy.beat, args=[is_over], daemon=True).start()
    try:
        why = copy.store()
    finally:
        is_over.set()
    if not why:
        copy.send("stored")
        return 0
    with contextlib.suppress(OSError), open(marker, "w") as out:
        out.write(why + "\n")
    copy.send("failed", f"{why[:WHY_MAX]}; the files are kept in {copy.folder}")
    print(f"artifacts were not stored: {why}; the files are kept in {copy.folder}", file=sys.stderr, flush=True)
    return EXIT_NOT_STORED


def cloud_commands(scheme, folder, manifest, place):
    """Returns the commands that copy the folder and then the manifest; none if there is no program for this cloud."""
    last = f"{place}/{MANIFEST}"
    if scheme == "s3" and shutil.which("aws"):
        copy = ["aws", "s3", "cp", "--only-show-errors"]
        return [[*copy, "--recursive", folder, place + "/"], [*copy, manifest, last]]
    if scheme == "gs" and shutil.which("gcloud"):
        return [["gcloud", "storage", "rsync", "--recursive", folder, place], ["gcloud", "storage", "cp", manifest, last]]
    if scheme == "gs" and shutil.which("gsutil"):
        return [["gsutil", "-m", "rsync", "-r", folder, place], ["gsutil", "cp", manifest, last]]
    if scheme == "az" and shutil.which("az"):
        container, _, path = place.partition("://")[2].partition("/")
        blob = ["az", "storage", "blob"]
        return [[*blob, "upload-batch", "--overwrite", "--source", folder, "--destination", container, "--destination-path", path],
                [*blob, "upload", "--overwrite", "--file", manifest, "--container-name", container, "--name", f"{path}/{MANIFEST}"]]
    return []


def masked(text, uri=None):
    """Hides passwords and queries of URLs. Without a password, the part before "@" is a secret only in http URLs."""
    text = text.replace(uri, masked(uri)) if uri else text
    text = re.sub(r"(https?://|://(?=[^/@\s]*:))[^/@\s]+@", r"\1***@", text)
    return re.sub(r"(://[^\s?#]*[?#])\S+", r"\1***", text)


def plain(text):
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def sync(folder):
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def throw(error):
    raise error
