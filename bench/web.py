"""Measures the cost of open pages for the server: ten thousand idle agents without tfe-web, with tfe-web and three
pages, and without it again, in one run."""
import contextlib
import os
import socket
import subprocess
import sys
import threading

from figures import BIN, LOAD_CORE, Figures, Load, Server, ahead, arguments

PAGES = ("/api/v1/stream", "/api/v1/stream?job=default", "/api/v1/stream?job=default")


class Pages:
    """A tfe-web with open pages beside the load; counts the bytes that the pages read."""

    def __init__(self, server):
        self.process = subprocess.Popen(
            ["taskset", "-c", str(LOAD_CORE), str(BIN / "server" / "web" / "tfe-web"), "--port=0", "--state-dir", str(server.dir / "state"),
             "--log-level=error"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        port = int(self.process.stdout.readline().decode().strip().rstrip("/").rpartition(":")[2])
        self.read, self.sockets = [0] * len(PAGES), []
        for number, path in enumerate(PAGES):
            page = socket.create_connection(("127.0.0.1", port))
            page.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.sockets.append(page)
            threading.Thread(target=self._look, args=(number, page), daemon=True).start()

    def _look(self, number, page):
        with contextlib.suppress(OSError):
            while said := page.recv(1 << 18):
                self.read[number] += len(said)

    def close(self):
        """Returns the bytes that each page has read."""
        for page in self.sockets:
            with contextlib.suppress(OSError):
                page.shutdown(socket.SHUT_RDWR)
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        return self.read


def look(server, load, seconds):
    """Returns the percentage of a core while all agents renew on their own schedule, and their p99 in ms."""
    load("mark")
    before = server.cpu_s()
    facts = load(f"run {seconds}")
    return 100 * (server.cpu_s() - before) / seconds, facts["p99_us"] / 1000


def pages(figures, agents, seconds, turns):
    case = f"idle, {agents} agents, three pages"
    if not figures.wanted(case):
        return
    prefix = ahead()
    if not prefix:
        print("NOT JUDGED web: the p99 of renewals, without the right to a real-time priority for the load")
    found = {"without": [], "with": [], "after": []}
    with Server("--ttl", "10") as server, Load(server, agents, "--nnodes", f"{agents}:{agents}", prefix=prefix) as load:
        load(f"connect 0 {agents}")
        load(f"started {agents} 120")
        load("run 4")
        for _ in range(turns):
            found["without"].append(look(server, load, seconds))
            shown = Pages(server)
            try:
                load("run 3")  # new pages receive the complete state first
                found["with"].append(look(server, load, seconds))
            finally:
                read = shown.close()
            if not all(read):
                figures.beyond.append(f"{case}: a page was told nothing: {read}")
            load("run 2")
            found["after"].append(look(server, load, seconds))
    cpu, p99 = ({key: [both[i] for both in values] for key, values in found.items()} for i in (0, 1))
    goal = ("ratio<=", 4) if figures.options.quick else ("value<=", 8 * agents / 10000)
    figures.add(case, cpu["with"], "% of a core", cpu["without"], goal)
    figures.add("  stopped again", cpu["after"], "% of a core", cpu["without"], ("ratio<=", 1.25))
    quiet = sorted(p99["without"])[turns // 2]
    within = ("value<=", max(5 * quiet, 50)) if prefix else None
    figures.add("  renewal p99", p99["with"], "ms", p99["without"], within)
    figures.add("  … stopped again", p99["after"], "ms", p99["without"])


def main():
    options = arguments(__doc__)
    figures = Figures(options)
    os.sched_setaffinity(0, {LOAD_CORE})  # the reader of the pages is not part of the server
    pages(figures, 500 if options.quick else 10000, 4 if options.quick else 20, options.turns)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
