"""A tfe-web for tests, and a client like a program's."""

import http.client
import json
import os
import signal
import subprocess
import time

import pytest

from conftest import DEADLINE, ROOT, wait_until
from programs import clean_environment, program

OPENAPI = json.loads((ROOT / "server/web/page/openapi.json").read_text())
COVERED = set()  # (path, method) of the description that a test has requested


class Answer:
    def __init__(self, response, body):
        self.code, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)


def pattern_of(path):
    """Returns the description's path for this path."""
    parts = path.partition("?")[0].split("/")
    for pattern in OPENAPI["paths"]:
        these = pattern.split("/")
        if len(these) == len(parts) and all(a == b or a.startswith("{") for a, b in zip(these, parts)):
            return pattern
    return None


def dereferenced(schema):
    """Returns the schema with the properties of all its parts."""
    name = schema.get("$ref", "").rpartition("/")[2]
    schema = OPENAPI["components"]["schemas"][name] if name else schema
    properties = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        properties.update(dereferenced(part).get("properties", {}))
    return {**schema, "properties": properties}


def undescribed(value, schema):
    """Returns the keys of the value that the description does not name."""
    schema = dereferenced(schema)
    if isinstance(value, list):
        return {key for item in value for key in undescribed(item, schema.get("items", {}))}
    if not isinstance(value, dict) or not schema["properties"]:
        return set()
    inner = {key for name, part in schema["properties"].items() for key in undescribed(value.get(name), part)}
    return inner | (value.keys() - schema["properties"].keys())


def check(path, method, answer):
    """Checks the response against the description."""
    import jsonschema
    pattern = pattern_of(path)
    if answer.code not in (200, 201):
        schema = "Problem"
        assert answer.headers["Content-Type"] == "application/problem+json", (path, answer.body)
        assert answer.json["status"] == answer.code
    else:
        if pattern is None:
            return
        COVERED.add((pattern, method.lower()))
        kinds = OPENAPI["paths"][pattern][method.lower()]["responses"][str(answer.code)]["content"]
        kind = answer.headers["Content-Type"]
        if kind != "application/json":
            return
        schema = kinds[kind]["schema"]["$ref"].rpartition("/")[2]
    jsonschema.validate(answer.json, {"$ref": f"#/components/schemas/{schema}", "components": OPENAPI["components"]},
                        cls=jsonschema.Draft202012Validator)
    assert not (missing := undescribed(answer.json, {"$ref": f"#/components/schemas/{schema}"})), missing


class Web:
    """A running tfe-web. Every response is checked against the description of the API."""

    def __init__(self, state_dir, log, *options, env=None, wrapper=()):
        self.log, self.state_dir, self.cookie, self.csrf = log, state_dir, None, None
        with open(log, "wb") as err:
            self.process = subprocess.Popen(
                [*wrapper, program("tfe-web"), "--port", "0", "--state-dir", str(state_dir), "--log-format=json", *options],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=clean_environment(**(env or {})))
        self.url = self.process.stdout.readline().decode().strip()
        if not self.url:
            pytest.fail(f"tfe-web ended before it was ready:\n{log.read_text()}")
        self.pid = self.process.pid
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def ask(self, path, method="GET", body=None, headers=None, host=None, bearer=None, login=True):
        """Sends one request on a new connection."""
        headers = {"Host": host or f"127.0.0.1:{self.port}", **(headers or {})}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        if login and self.cookie:
            headers["Cookie"] = self.cookie
            if self.csrf and method not in ("GET", "HEAD"):
                headers.setdefault("X-CSRF-Token", self.csrf)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.putrequest(method, path, skip_host=True)
            for key, value in headers.items():
                connection.putheader(key, value)
            data = body.encode() if isinstance(body, str) else body
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            elif method == "POST":
                connection.putheader("Content-Length", "0")
            connection.endheaders(data)
            response = connection.getresponse()
            answer = Answer(response, response.read())
        finally:
            connection.close()
        check(path, method, answer)
        return answer

    def get(self, path, **more):
        answer = self.ask(path, **more)
        assert answer.code == 200, answer.body
        return answer.json

    def login(self, token):
        answer = self.ask("/api/v1/login", "POST", {"token": token}, login=False)
        if answer.code == 200:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
            self.csrf = answer.json["csrf"]
        return answer

    def order(self, path, body=None, **more):
        return self.ask(path, "POST", body, **more)

    def listen(self, path="/api/v1/stream"):
        """Yields server-sent events as (name, object), until the generator is closed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.request("GET", path, headers={"Host": "localhost", **({"Cookie": self.cookie} if self.cookie else {})})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            name = None
            while line := response.readline():
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    yield name, json.loads(line[6:])
                elif line.startswith(b":"):
                    yield "alive", {}  # lets a caller that waits for something else check its deadline
        finally:
            connection.close()

    def logs(self, job, query=""):
        """Yields lines of a job's trainers: (rank, text)."""
        rows = self.get(f"/api/v1/jobs/{job}/logs{query}")["lines"]
        return [(row["rank"], line) for row in rows for line in row["text"].splitlines()]

    def gauges(self, **more):
        """Returns this program's metrics, from /metrics."""
        lines = self.ask("/metrics", **more).body.decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")}

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(DEADLINE)
        self.process.stdout.close()
        return status


def start(state_dir, folder, *options, server=None, **more):
    """A context manager: with start(…) as web; web.server is the server that it shows."""
    class Running:
        def __enter__(self):
            self.web = Web(state_dir, folder / f"web.{len(list(folder.glob('web.*.log')))}.log", *options, **more)
            self.web.server = server
            return self.web

        def __exit__(self, kind, *_):
            status = self.web.stop()
            if kind is None:
                assert status == 0, self.web.log.read_text()[-4000:]
    return Running()


def cpu_s(pid):
    """Returns the processor seconds of all threads."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def until(events, wanted):
    """Reads events until wanted(name, object) is true; returns that object."""
    return until_all(events, wanted)[0]


def until_all(events, *wanted):
    """Reads events until each condition has been true of one event, in any order; returns their objects."""
    found, seen, deadline = {}, [], time.monotonic() + DEADLINE
    for name, value in events:
        seen.append((name, value))
        for at, is_wanted in enumerate(wanted):
            if at not in found and is_wanted(name, value):
                found[at] = value
        if len(found) == len(wanted):
            return [found[at] for at in range(len(wanted))]
        if time.monotonic() > deadline:
            pytest.fail(f"not told: {seen[-20:]}")
    pytest.fail(f"the stream ended: {seen[-20:]}")


__all__ = ["COVERED", "OPENAPI", "Answer", "Web", "check", "descriptors", "start", "until", "until_all", "wait_until"]
