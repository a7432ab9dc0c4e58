"""Plays the pool without this project's programs: nodes that wait, and an operator who submits jobs."""

import json

from raw_client import RawClient, node_id, node_secret

CODE = {"path": "/srv/code"}


def spec(name, *argv, sizes=(1, 1), source=CODE, **more):
    """Returns the fields of SUBMIT; more: further fields of the job file."""
    job = {"name": name, "workers": {"min": sizes[0], "max": sizes[1]}, "command": argv or ("python", "train.py"), "source": source, **more}
    return {2: name, 3: json.dumps(job)}


class Waiting(RawClient):
    """A node of the pool."""

    def __init__(self, port, token, name, labels=(), assignment=0, timeout=20, host=None):
        super().__init__(port, token, timeout=timeout)
        self.send("POOL", [*((1, label) for label in labels), (3, assignment), (5, "label-" + name), (7, node_id(name)),
                           (8, node_secret(name).hex()),
                           *([(6, host)] if host else [])])

    def assigned(self):
        """Returns the next ASSIGN, as (assignment, job, fields)."""
        _, fields = self.receive_until("ASSIGN")
        return fields[1][0], json.loads(fields[6][0])["name"], fields

    def released(self):
        return self.receive_until("RELEASE")[1][1][0]

    def freed(self, assignment, code=0, says=""):
        self.send("FREED", {1: assignment, 2: code, 3: says})


def order(server, name, fields, role="admin"):
    """Returns "DONE", or REFUSED with its sentence."""
    with RawClient(server.port, server.token(role), timeout=20) as ctl:
        ctl.send(name, fields)
        answer, got = ctl.receive_until("DONE", "REFUSED", "STATUS_END")
        return answer if answer != "REFUSED" else got[2][0].decode()


def rows(server, name, fields=(), role="observer"):
    """Returns the rows of a response, as (name of the row, its fields)."""
    with RawClient(server.port, server.token(role), timeout=20) as ctl:
        ctl.send(name, fields)
        got = []
        while True:
            row, fields = ctl.receive()
            if row in ("STATUS_END", "REFUSED"):
                return got if row == "STATUS_END" else fields[2][0].decode()
            got.append((row, fields))


STATES = dict(enumerate(("waiting", "starting", "running", "restarting", "suspended", "succeeded", "failed", "cancelled"), 1))


def jobs(server):
    """{job: (state, nodes)}"""
    return {f[1][0].decode(): (STATES[f[80][0]], f.get(87, [0])[0]) for _, f in rows(server, "STATUS", {70: 1}) if 85 in f}


def pool(server):
    """{label without its "label-": (state, job)}"""
    return {f[2][0].decode()[6:]: (f[5][0].decode(), f.get(8, [b""])[0].decode()) for _, f in rows(server, "POOL_NODES")}


def conditions(server, job):
    """{condition: (holds, reason)}"""
    return {f[1][0].decode(): (bool(f.get(2, [0])[0]), f[3][0].decode())
            for row, f in rows(server, "STATUS", {1: job, 70: 1, 71: 1}) if row == "CONDITION_ROW"}


def agent_of(server, fields, name, nodes=(1, 1)):
    """Joins like the child that a pool node starts for an ASSIGN."""
    child = RawClient(server.port, server.token("agent"), timeout=20)
    child.join(name, job="train", nodes=nodes, f19=fields[5][0])
    _, prepare = child.receive_until("PREPARE")
    child.ready(prepare[1][0])
    return child


def starts(child):
    """Follows the child to START and returns its epoch."""
    while True:
        name, fields = child.receive_until("PREPARE", "START")
        if name == "START":
            return fields[1][0]
        child.ready(fields[1][0])
