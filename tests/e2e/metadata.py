"""The metadata services of three clouds, as their documentation describes them, on one loopback port, and their failure
modes. A test sets the responses; the machine's name is vm-1."""

import collections
import http.server
import json
import threading
import time
from email.utils import formatdate

import pytest

CLOUDS = ("aws", "gce", "azure")
# Cloud, zone and type, as an agent reads them from each service.
MACHINES = {"aws": ("aws", "eu-west-1b", "p4d.24xlarge"), "gce": ("gce", "us-central1-a", "a2-highgpu-1g"),
            "azure": ("azure", "westeurope-2", "Standard_NC24ads_A100_v4")}
HUGE = b"x" * (1 << 20)
# Paths for the kind of machine; Azure returns it together with the name.
ABOUT = ("/latest/dynamic/instance-identity/document", "/latest/meta-data/instance-life-cycle",
         *(f"/computeMetadata/v1/instance/{name}" for name in ("zone", "machine-type", "scheduling/preemptible")))


class Metadata:
    """Set metadata.action = "terminate" and so on; metadata.failure is one of FAILURES or None."""

    FAILURES = ("status", "hang", "cut", "huge", "nonsense", "types", "drip", "refused")

    def __init__(self):
        self.action = self.rebalance = None  # AWS
        self.token, self.tokens = "token-0", 0
        self.preempted, self.maintenance = "FALSE", "NONE"  # GCE
        self.events, self.acknowledged = [], []  # Azure
        self.spot, self.is_mum = True, False  # is_mum: questions about the machine get no response
        self.on_acknowledged = lambda: None
        self.failure = None
        self.spoilt = collections.Counter()  # number of requests that each failure has met; for "refused" only long polls
        self.asked = []
        self.clock = 0.0  # seconds that the service's clock is off
        self.moved = 0
        self.changed = threading.Condition()
        self.ended = threading.Event()
        self.server = None
        self.listen(0)
        self.place = f"127.0.0.1:{self.server.server_address[1]}"

    def listen(self, port):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler_for(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.server = None

    def option(self):
        """For an agent that shall find its cloud here."""
        return f"--metadata-endpoint=http://{self.place}"

    def set(self, **more):
        with self.changed:
            for name, value in more.items():
                setattr(self, name, value)
            self.changed.notify_all()
        if self.failure == "refused" and self.server:
            self.close()
        elif self.failure != "refused" and not self.server:
            self.listen(int(self.place.rpartition(":")[2]))

    def plan(self, kind, machine="vm-1", within=40, status="Scheduled"):
        """An Azure event; returns its id."""
        event = {"EventId": f"event-{len(self.events)}-{kind}", "EventType": kind, "ResourceType": "VirtualMachine",
                 "Resources": [machine], "EventStatus": status, "NotBefore": self.date(within),
                 "Description": "", "EventSource": "Platform", "DurationInSeconds": -1}
        self.set(events=self.events + [event])
        return event["EventId"]

    def date(self, ahead=0.0):
        return formatdate(time.time() + self.clock + ahead, usegmt=True)

    def end(self):
        self.ended.set()
        self.set(failure="status")
        self.close()


@pytest.fixture
def clouds():
    """Makes metadata services, one per machine; ends them."""
    made = []

    def make():
        made.append(Metadata())
        return made[-1]

    yield make
    for metadata in made:
        metadata.end()


def handler_for(metadata):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def date_time_string(self, timestamp=None):
            return metadata.date()

        def answer(self, status, text, **headers):
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def fail(self, how):
            """Makes the response fail; "refused" closes the connection of a long poll."""
            self.close_connection = True
            with metadata.changed:
                metadata.spoilt[how] += 1
            if how == "status":
                self.answer(500, "<html>oh")
            elif how == "hang":
                with metadata.changed:
                    metadata.changed.wait_for(lambda: metadata.failure != "hang", 20)
            elif how == "cut":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            elif how == "huge":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n\r\n" + HUGE)
            elif how == "nonsense":
                self.wfile.write(b"\x00\x16\x03\x01\xff" * 20)
            elif how == "types":
                self.answer(200, '{"action": 5, "time": [], "Events": {"a": 1}, "compute": "x"}',
                            Metadata_Flavor="Google")
            elif how == "drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while metadata.failure == "drip" and not metadata.ended.wait(0.2):
                    self.wfile.write(b"A: b\r\n")

        def any(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            path, _, query = self.path.partition("?")
            metadata.asked.append((self.command, path))
            try:
                if metadata.failure:
                    self.fail(metadata.failure)
                elif metadata.is_mum and path in ABOUT:
                    metadata.ended.wait(20)
                    self.close_connection = True
                elif path.startswith("/latest/"):
                    self.aws(path)
                elif path.startswith("/computeMetadata/v1/instance/"):
                    self.gce(path.rpartition("/")[2], query)
                elif path.startswith("/metadata/"):
                    self.azure(path, body)
                else:
                    self.answer(404, "")
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_GET = do_PUT = do_POST = any

        def aws(self, path):
            if path == "/latest/api/token":
                good = self.command == "PUT" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") == "21600"
                metadata.tokens += 1
                self.answer(200 if good else 400, metadata.token if good else "")
            elif self.headers.get("X-aws-ec2-metadata-token") != metadata.token:
                self.answer(401, "")
            elif path == "/latest/dynamic/instance-identity/document":
                self.answer(200, json.dumps({"region": "eu-west-1", "availabilityZone": "eu-west-1b", "instanceType": "p4d.24xlarge",
                                             "kernelId": None}))
            elif path == "/latest/meta-data/instance-life-cycle":
                self.answer(200, "spot" if metadata.spot else "on-demand")
            elif path == "/latest/meta-data/spot/instance-action" and metadata.action:
                metadata.moved += 11  # as in the public mock: the time of one action moves with every response
                when = time.gmtime(time.time() + metadata.clock + 120 + metadata.moved)
                self.answer(200, json.dumps({"action": metadata.action,
                                             "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", when)}))
            elif path == "/latest/meta-data/events/recommendations/rebalance" and metadata.rebalance:
                self.answer(200, json.dumps({"noticeTime": "2026-01-01T00:00:00Z"}))
            else:
                self.answer(404, "")

        def gce(self, name, query):
            about = {"zone": "projects/12345/zones/us-central1-a", "machine-type": "projects/12345/machineTypes/a2-highgpu-1g",
                     "preemptible": "TRUE" if metadata.spot else "FALSE"}
            if name in about and self.headers.get("Metadata-Flavor") == "Google":
                self.answer(200, about[name], Metadata_Flavor="Google")
                return
            if self.headers.get("Metadata-Flavor") != "Google" or name not in ("preempted", "maintenance-event"):
                self.answer(403, "")
                return
            attribute = "preempted" if name == "preempted" else "maintenance"
            wanted = dict(item.split("=") for item in query.split("&") if item)
            with metadata.changed:
                known = wanted.get("last_etag")
                if wanted.get("wait_for_change") == "true":
                    metadata.changed.wait_for(
                        lambda: metadata.ended.is_set() or metadata.failure or etag(getattr(metadata, attribute)) != known,
                        float(wanted.get("timeout_sec", 1)))
                value, failure = getattr(metadata, attribute), metadata.failure
            if failure:
                self.fail(failure)
                return
            self.answer(200, value, Metadata_Flavor="Google", ETag=etag(value))

        def azure(self, path, body):
            if self.headers.get("Metadata") != "true":
                self.answer(400, "")
            elif path == "/metadata/instance":
                self.answer(200, json.dumps({"compute": {"name": "vm-1", "vmId": "0", "location": "westeurope", "zone": "2",
                                                         "vmSize": "Standard_NC24ads_A100_v4",
                                                         "priority": "Spot" if metadata.spot else ""}}))
            elif path == "/metadata/scheduledevents" and self.command == "POST":
                metadata.on_acknowledged()
                metadata.acknowledged += [r["EventId"] for r in json.loads(body)["StartRequests"]]
                self.answer(200, "")
            elif path == "/metadata/scheduledevents":
                self.answer(200, json.dumps({"DocumentIncarnation": len(metadata.events), "Events": metadata.events}))
            else:
                self.answer(404, "")

    return Handler


def etag(value):
    return value.encode().hex()
