"""What a run must not leave behind: descriptors while it trains, and processes, ports and files after it."""

import collections
import os
import pathlib
import re

# What a server keeps in its state directory when it does not run.
STATE_FILES = {"server.key", "agent.token", "observer.token", "admin.token", "rdzv.db", "lock"}


# A trainer's ports that are held, by the epoch's state: the set of this epoch, of the next, and of the one that renews it.
HELD, HELD_MOST = "bound and no more", 3


def sockets(pid):
    """inode: what it is, of all sockets that this process could have."""
    found = {}
    for table, at, state in (("tcp", 9, 3), ("tcp6", 9, 3), ("udp", 9, 3), ("netlink", 9, 1), ("unix", 6, 4)):
        try:
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                found[words[at]] = f"{table} {words[state]}"
        except OSError:
            pass
    return found


def descriptors(pid):
    """What each of them leads to."""
    found, names = [], sockets(pid)
    try:
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                to = os.readlink(fd)
            except OSError:
                continue  # closed meanwhile; the others are still there
            inode = re.fullmatch(r"socket:\[(\d+)\]", to)
            found.append(names.get(inode[1], HELD) if inode else re.sub(r"[0-9a-f]{16,}|\d+", "N", to))
    except OSError:
        pass  # it has ended, or is about to
    held = min(found.count(HELD), HELD_MOST)
    for _ in range(held):
        found.remove(HELD)
    return found


def count(world):
    """{kind of process: (how many descriptors, which)}: of the one that has most; of the server's, those beyond one for
    each agent."""
    agents = world.staying()
    guards = [guard for guard in (world.parts(agent)[0] for agent in agents) if guard]
    most = {"agent": max((descriptors(a.pid) for a in agents), key=len, default=[]),
            "guard": max((descriptors(pid) for pid in guards), key=len, default=[]),
            "server": descriptors(world.server.process.pid)}
    return {name: (len(found) - (len(agents) if name == "server" else 0), collections.Counter(found))
            for name, found in most.items()}


def leaks(before, after):
    return [f"a {name} has {after[name][0]} descriptors, {before[name][0]} at the beginning; more of "
            f"{dict(after[name][1] - before[name][1])}"
            for name in before if after[name][0] > before[name][0]]


def listeners():
    """port: inode of every listening TCP socket."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found[int(words[1].rpartition(":")[2], 16)] = words[9]
    return found


def owner(inode):
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if any(os.readlink(fd) == f"socket:[{inode}]" for fd in (entry / "fd").iterdir()):
                    return entry.name
            except OSError:
                pass
    return None


def ports(world, used):
    """Those of this run's ports that still listen, unless another program has them by now."""
    open_ones = listeners()
    found = []
    for port in sorted(used & set(open_ones)):
        pid = owner(open_ones[port])
        if pid is None and listeners().get(port) != open_ones[port]:
            continue  # another program's, which has closed it meanwhile
        if pid is None or world.is_ours(int(pid)):
            found.append(f"port {port} is still open")
    return found


def files(world, keeps_tmp):
    found = [f"{path} is left over" for path in sorted(world.private_dirs) if os.path.exists(path)]
    found += [f"state/{path.name} is left over" for path in (world.folder / "state").iterdir() if path.name not in STATE_FILES]
    found += [f"{path.name} is left over" for path in world.folder.glob("notice.*")]
    if not keeps_tmp:
        found += [f"tmp/{path.name} is left over" for path in (world.folder / "tmp").iterdir()]
    # Half-written checkpoints of killed writers are overwritten or passed over; nobody counts them as whole.
    found += [f"checkpoint {path.name} is no whole one" for path in (world.folder / "checkpoints").glob("ckpt-*")
              if not re.match(r"ckpt-\d+-\d+\.", path.name)]
    return found
