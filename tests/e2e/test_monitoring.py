"""Tests scripts/monitoring with Prometheus: a real one scrapes tfe-web."""

import contextlib
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import DEADLINE, ROOT, wait_until
from programs import clean_environment
from raw_client import RawClient
from web import start

MONITORING = ROOT / "scripts/monitoring"
NAME = re.compile(r"\b(?:tfe|process)_[a-z_]+\b")

needs = {name: pytest.mark.skipif(not shutil.which(name), reason=f"needs {name} (Debian's package prometheus)")
         for name in ("promtool", "prometheus")}


def board_queries():
    """Returns the queries of the dashboard, as Grafana would send them."""
    board = json.loads((MONITORING / "grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*")
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield re.fullmatch(r"label_values\((\w+), job\)", variable["query"]["query"])[1]


def names_shown(text):
    """Returns all names that a query may use, from the families in /metrics."""
    names = set()
    for family, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        names |= {family + rest for rest in ("_bucket", "_sum", "_count")} if kind == "histogram" else {family}
    return names


class Prometheus:
    def __init__(self, folder, web_port):
        text = (MONITORING / "prometheus.yml").read_text()
        assert text.count("127.0.0.1:8080") == 1
        (folder / "prometheus.yml").write_text("global: {scrape_interval: 2s, evaluation_interval: 1s}\n" +
                                               text.replace("127.0.0.1:8080", f"127.0.0.1:{web_port}"))
        shutil.copy(MONITORING / "alerts.yml", folder)
        self.log = folder / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 "--web.listen-address=127.0.0.1:0", "--log.format=json"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean_environment())

    def __enter__(self):
        self.url = wait_until(self.address, what="Prometheus listens")
        wait_until(self.is_ready, what="Prometheus is ready")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(DEADLINE)

    def address(self):
        assert self.process.poll() is None, self.log.read_text()
        found = re.search(r'"(127\.0\.0\.1:[1-9]\d*)"', self.log.read_text())
        return found and f"http://{found[1]}"

    def is_ready(self):
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=DEADLINE):
            return True

    def ask(self, path, **query):
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=DEADLINE) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            pytest.fail(f"{path} {query}: {error.read().decode()}")

    def value(self, query):
        """Returns the query's only value, or None if there is none."""
        found = self.ask("query", query=query)["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


@needs["promtool"]
def test_alerts_come_when_they_should():
    done = subprocess.run(["promtool", "test", "rules", str(ROOT / "tests/e2e/alerts_test.yml")], capture_output=True,
                          text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    tested = re.findall(r"alertname: (\w+)", (ROOT / "tests/e2e/alerts_test.yml").read_text())
    assert alerts and set(alerts) == set(tested)


@pytest.fixture
def web(server, state_dir, tmp_path):
    with start(state_dir, tmp_path, server=server("--ttl=120s")) as running:  # a node that never renews stays
        yield running


def test_board_and_alerts_name_only_what_is_shown(web):
    """A query for a metric that is not exported shows an empty panel, or an alert that never fires."""
    shown = names_shown(web.ask("/metrics").body.decode())
    expressions = re.findall(r"expr: (.*)", (MONITORING / "alerts.yml").read_text())
    for query in [*board_queries(), *expressions]:
        asked = set(NAME.findall(query))
        assert asked <= shown, (query, asked - shown)


@pytest.mark.heavy
@needs["prometheus"]
def test_a_real_prometheus_scrapes_what_a_job_tells(web, tmp_path):
    s = web.server
    folder = tmp_path / "prometheus"
    folder.mkdir()
    with RawClient(s.port, s.token("agent")) as agent, Prometheus(folder, web.port) as prometheus:
        agent.join("n1", job="up")
        wait_until(lambda: prometheus.value('tfe_job_nodes{job="up"}') == 1, what="the job's node was scraped")
        wait_until(lambda: prometheus.value('up{job="tfe"}') == 1, what="the target is up")
        wait_until(lambda: prometheus.value('tfe_sessions{role="agent"}') == 1, what="the agent's session was scraped")
        wait_until(lambda: prometheus.value('tfe_job_restarts_left{job="up"}') == 3, what="its restarts were scraped")
        for query in board_queries():
            prometheus.ask("query", query=query)
        wait_until(lambda: {rule["health"] for rule in prometheus.ask("rules")["groups"][0]["rules"]} == {"ok"},
                   what="every rule was tried")
        assert s.stop() == 0
        wait_until(lambda: prometheus.value("tfe_up") == 0, what="the server's end was scraped")
        wait_until(lambda: prometheus.value('ALERTS{alertname="TfeServerDown",alertstate="pending"}') == 1,
                   what="the alert waits for its time")
