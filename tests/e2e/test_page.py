"""The page in a real browser: it shows what happens and executes orders. Skipped without chromium."""

import contextlib
import itertools
import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import pytest

from agents import TOGETHER, Fleet
from browser import browser, needs_browser
from bystander import noise  # noqa: F401 (a fixture)
from conftest import BIN_DIR, DEADLINE, wait_until
from programs import clean_environment
from pooled import Waiting, agent_of, starts
from raw_client import Fixed64, RawClient, encode
from test_policy import hand_in
from test_pool import Pool
from test_roles import Job
from web import start

pytestmark = [needs_browser, pytest.mark.heavy]

TRAINS = """
import os, time, tfe
rank, step = os.environ["TFE_RANK"], 0
while True:
    step += 1
    tfe.progress(step, total=100000, metrics={"loss": 2.0 / (1 + step / 40), "accuracy": 1 - 0.9 / (1 + step / 60)})
    if step % 10 == 1:
        print("step", step, "of", rank, flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def fleet(state_dir, tmp_path):
    all_of_it = Fleet(tmp_path / "work", state_dir)
    yield all_of_it
    assert not all_of_it.end()


def confirm(page, selector):
    """Confirms twice, like an impatient user."""
    page.js("const b = document.querySelector(arguments[0]); b.click(); b.click();", selector)


def looked_at(page, name, folder, wait):
    """Checks each theme and size: pictures, nothing beyond the edge, no findings of axe-core."""
    found = {}
    for wide in (1400, 390):
        for dark in (True, False):
            page.dark(dark)
            page.size(wide, 1000)
            page.wait("document.documentElement.dataset.theme === arguments[0]", "dark" if dark else "light")
            page.wait(wait)
            page.js_later("const done = arguments[0]; let frames = 6; const next = () => frames-- ? requestAnimationFrame(next) : done(1); next()")
            page.picture(folder / f"{name}.{wide}.{'dark' if dark else 'light'}.png")
            assert page.js("return document.documentElement.scrollWidth <= window.innerWidth"), f"{name} is too wide for {wide}"
            ends, below = page.js("return [document.getElementById('main').getBoundingClientRect().bottom + scrollY, document.documentElement.scrollHeight]")
            assert below <= max(1000, ends + 1), f"{name} goes on with nothing below its end"
            for violation in page.violations():
                found.setdefault(str(violation), f"{name}.{wide}.{dark}")
    return found


def test_a_machine_is_killed_one_is_drained_and_the_page_shows_it(server, fleet, state_dir, tmp_path, capsys):
    s = server()
    script = tmp_path / "trains.py"
    script.write_text(TRAINS)
    with start(state_dir, tmp_path) as web, browser() as page:
        agents = {name: fleet.start("--nnodes=1:3", "--job=demo", TOGETHER, f"--node-name={name}", command=[str(script)]) for name in "abc"}
        wait_until(lambda: web.get("/api/v1/jobs")["jobs"] and web.get("/api/v1/jobs/demo")["members"] == 3, what="three that train")
        page.size(1400, 1000)
        page.open(f"{web.url}#/job/demo")
        page.wait("document.querySelectorAll('#nodes tbody tr').length === 3")
        page.wait("tfe.points.has('accuracy') && tfe.points.get('loss')?.length > 2", what="curves")
        page.wait("document.querySelectorAll('ol.events li').length > 5", what="events from before the page was open")
        page.js("document.getElementById('follow').click()")
        page.wait("/step \\d+ of 0/.test(logs.innerText) && /step \\d+ of 1/.test(logs.innerText)", what="lines of two ranks")

        page.js("""window.lost = 0; const look = () => tfe.events.some(e => e.kind === "node_lost" || e.kind === "node_dead")
                   ? window.lost = Date.now() : setTimeout(look, 5); look()""")
        killed = time.time()
        agents["b"].send(signal.SIGKILL)
        seen = page.wait("window.lost", what="the loss on the page")
        told = page.js("return tfe.events.findLast(e => e.kind === 'node_lost' || e.kind === 'node_dead').at_ms")
        with capsys.disabled():
            print(f"\n  a machine is killed: {seen - killed * 1000:.0f} ms to the page, {seen - told:.0f} after the server knew")
        page.wait("tfe.jobs.get('demo').members === 2 && tfe.jobs.get('demo').state === 'running'", what="two that train")
        page.wait("/\\bb disconnected/.test(document.querySelector('ol.events').innerText)", what="the event on the page")

        page.js("""[...document.querySelectorAll('#nodes tbody tr')].find(tr => /^c\\b/.test(tr.innerText))
                   .querySelector('button').click()""")
        page.wait("document.querySelector('dialog[open] textarea') !== null", what="the question for a token")
        page.type("dialog textarea", s.token("admin"))
        confirm(page, "dialog button[type=submit]")
        page.wait("/Remove c from its job/.test(document.getElementById('dialog').innerText)", what="the question before an order")
        confirm(page, "dialog button[type=submit]")
        assert agents["c"].wait() == 0
        page.wait("tfe.jobs.get('demo').members === 1 && tfe.jobs.get('demo').state === 'running'", what="one that trains")
        drains = [row for row in web.ask("/api/v1/audit", bearer=s.token("admin")).json["audit"] if row["what"] == "DRAIN"]
        assert len(drains) == 1, drains
        assert looked_at(page, "job", tmp_path, "document.querySelectorAll('.curves canvas').length >= 3") == {}
        page.js("location.hash = '#/job/%E0%A4%A'")  # a truncated link
        page.wait("document.getElementById('jobs') !== null", what="the fleet")
        page.picture(tmp_path / "fleet.390.light.png")
        assert page.said() == []


PLACES = """
import os, time
print(os.environ["TFE_ROLE"] + "-" + os.environ["TFE_ROLE_INDEX"], "is here", flush=True)
time.sleep(3600)
"""
SIX = ["chief-0", "evaluator-0", "ps-0", "ps-1", "worker-0", "worker-1"]


def test_everybody_can_use_it_and_roles_have_their_colours(server, fleet, state_dir, tmp_path):
    """axe-core on each view, both themes, wide and narrow; a job with roles; the timeline as a picture for a report."""
    server("--gather=10")
    script = tmp_path / "places.py"
    script.write_text(PLACES)
    with start(state_dir, tmp_path) as web, browser() as page:
        for i in range(6):
            fleet.start("--nnodes=2", "--ps=2", "--chief", "--evaluator", "--job=roles", f"--node-name=machine-{i}", command=[str(script)])
        wait_until(lambda: sorted(filter(None, (n["place"] for n in web.get("/api/v1/nodes")["nodes"]))) == SIX, what="all in their places")
        page.open(web.url)
        found = looked_at(page, "fleet", tmp_path, "document.querySelectorAll('#jobs tbody tr').length === 1")
        page.open(f"{web.url}#/job/roles")
        page.wait("[...document.querySelectorAll('#nodes .badge.role')].map(b => b.innerText).sort().join() === arguments[0]", ",".join(SIX))
        page.js("document.getElementById('follow').click()")
        found |= looked_at(page, "roles", tmp_path, "/chief-0 is here/.test(logs.innerText)")
        colours = page.js("return [...document.querySelectorAll('#nodes .badge.role')].map(b => getComputedStyle(b).color)")
        assert len(colours) == 6 and len(set(colours)) == 4, colours
        page.wait("[...tfe.seen.values()].map(s => s.spans.at(-1).role).sort().join() === 'chief,evaluator,ps,ps,worker,worker'")
        picture = page.js("""return new Promise(done => { URL.createObjectURL = blob => { blob.text().then(done); return "#"; };
            [...document.querySelectorAll("button")].find(b => b.innerText === "Save picture").click(); })""")
        (tmp_path / "roles.svg").write_text(picture)
        words = [e.text for e in xml.etree.ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
        assert "Job roles, run 1: running" in words and any(w.startswith("ps-1 · machine-") for w in words) and any(w.startswith("Training ") for w in words)
        page.open(f"{web.url}#/job/roles/node/{next(n['node'] for n in web.get('/api/v1/nodes')['nodes'] if n['place'] == 'chief-0')}")
        found |= looked_at(page, "node", tmp_path, "document.querySelectorAll('dl.facts dt').length > 3")
        page.js("[...document.querySelectorAll('button')].find(b => b.innerText === 'Drain').click()")
        found |= looked_at(page, "dialog", tmp_path, "document.querySelector('dialog[open] textarea') !== null")
        assert found == {}
        assert page.said() == []


FOUND = """
const now = Date.now(), seen = new Map([["n", {name: "n", rank: 0, spans: [{role: "member", from: now - 1000, to: null}]}]]);
const epoch = {run: 1, epoch: 1, cause: "start", detected_ms: now - 100000, started_ms: now - 90000, ended_ms: null, over: false, ...arguments[0]};
const epochs = new Map([[1, epoch], [2, {...epoch, epoch: 2, detected_ms: now - 500, started_ms: null, over: false}]]);
return import("/timeline.js").then(({timeline}) => {
    const time = timeline();
    time.draw({seen, epochs, events: []}, {job: "j", run: 1, state: "running"});
    return time.picture({useful: null, standstill: 0});
});
"""


def test_who_is_found_in_an_epoch_has_been_in_it_since_it_began(server, state_dir, tmp_path):
    """Unknown times are null, which compares less than any time: members of the running epoch began with the page."""
    server()
    with start(state_dir, tmp_path) as web, browser() as page:
        page.open(f"{web.url}#/job/none")
        page.wait("/404: no such job/.test(document.getElementById('main').innerText)", what="that there is none")
        assert page.js("return [...document.querySelectorAll('button')].find(b => b.textContent === 'Save picture').hidden")
        for ended, least, most in ((None, 900, 1200), (1, 0, 100)):
            picture = page.js(FOUND, {"ended_ms": ended, "over": ended is not None})
            bars = [float(e.get("width")) for e in xml.etree.ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}rect")
                    if e.get("height") == "19.0"]
            assert len(bars) == 1 and least < bars[0] < most, (ended, bars)
        assert page.said() == []


LOAD = BIN_DIR / "bench" / "tfe-bench-load"


class Crowd:
    """Simulated agents of one job: real connections and leases, no trainers."""

    def __init__(self, state_dir, job, n):
        self.process = subprocess.Popen([LOAD, "--state-dir", state_dir, "--agents", str(n), "--job", job, "--nnodes", f"1:{n}", "--gather", "1000"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment())
        self.process.stdout.readline()

    def __call__(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        assert said["reached"], (command, said)
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def trains(held, s, job):
    """Starts a job of one node that reports a step on each call."""
    agent = held.enter_context(RawClient(s.port, s.token("agent")))
    agent.join("only-" + job, job=job)
    epoch = agent.receive_until("PREPARE")[1][1][0]
    agent.ready(epoch)
    agent.receive_until("START")
    loss = itertools.count(1)

    def tell():
        step = next(loss)
        agent.send_number(18, {1: epoch, 2: step, 5: encode({1: "loss", 2: Fixed64(*struct.unpack("<Q", struct.pack("<d", 1 / step)))})})
    return tell


def script_ms(page, updates, cause):
    """Returns the processor ms for each of this many updates, and the wall time of the median and of the longest."""
    page.js("tfe.took.length = 0")
    before = page.script_s()

    def enough():
        cause()
        return page.js("return tfe.took.length") >= updates
    wait_until(enough, 2 * DEADLINE, what=f"{updates} updates")
    took = sorted(page.js("return tfe.took"))
    return (page.script_s() - before) * 1000 / len(took), took[len(took) // 2], took[-1]


@pytest.mark.skipif(not LOAD.exists(), reason="needs tfe-bench-load")
def test_a_thousand_nodes_and_a_hundred_jobs_stay_fluid(server, state_dir, tmp_path, noise, capsys):  # noqa: F811
    """The goals: first paint below 1 s, an update below 50 ms of script. Updates are measured in processor time, so
    that other load does not count; the first paint in wall time, the best of three, with an allowance for other
    load."""
    s = server("--ttl=5m")  # no lease is renewed: a busy machine takes more than a minute for all of this
    with contextlib.ExitStack() as held, Crowd(state_dir, "big", 901) as crowd, start(state_dir, tmp_path) as web, browser() as page:
        crowd("connect 0 901")
        crowd("started 901 60")
        jobs = [trains(held, s, f"job-{i:02}") for i in range(99)]
        page.size(1400, 1000)
        first = []
        for _ in range(3):
            page.open("about:blank")
            page.open(web.url)
            page.wait("document.querySelectorAll('#jobs tbody tr').length === 100")
            first.append(page.js("return [performance.getEntriesByName('first-contentful-paint')[0].startTime, tfe.first_ms]"))

        def steps():
            for tell in jobs:
                tell()
            time.sleep(0.1)  # below a session's rate limit
        fleet_of = script_ms(page, 20, steps)
        page.picture(tmp_path / "hundred.png")
        page.open(f"{web.url}#/job/big")
        page.wait("tfe.nodes.size === 901")
        turn = itertools.count()

        def loss():
            i = next(turn) % 901
            crowd(f"leave {i}")
            crowd("run 0.3")
            crowd(f"connect {i} {i + 1}")
            crowd("run 0.3")
        job_of = script_ms(page, 20, loss)
        page.picture(tmp_path / "thousand.png")
        with capsys.disabled():
            print(f"\n  first paint {min(f[0] for f in first):.0f} ms, with its jobs {min(f[1] for f in first):.0f} (of {first})")
            for name, (used, middle, longest) in (("fleet", fleet_of), ("job of 901", job_of)):
                print(f"  an update, {name}: {used:.1f} ms of a processor; by the clock {middle:.1f}, longest {longest:.1f}")
        for used, _, _ in (fleet_of, job_of):
            assert used < 50
        best = min(max(f) for f in first)
        assert best < 1000 or best < noise.bound(1) * 1000, first


def test_restarts_within_an_epoch_are_its_own_count(server, fleet, status, state_dir, tmp_path):
    """A served worker's trainer is killed twice: no other node is affected, and its epoch shows it."""
    server("--gather=10")
    within = "document.querySelector('[aria-label=Epochs] tbody').innerText.match(/\\d+ restarts? within/g)?.join() ?? ''"
    with start(state_dir, tmp_path) as web, browser() as page:
        job = Job(fleet, status, 3, "--nnodes=1", "--ps=1", "--chief")
        page.open(f"{web.url}#/job/default")
        rows = "document.querySelectorAll('[aria-label=Epochs] tbody tr').length"
        page.wait(f"{rows} === 1 && [...tfe.nodes.values()].some(n => n.place === 'worker-0')")
        assert page.js(f"return {within}") == ""
        for number in (1, 2):
            wait_until(lambda: len([s for s in job.steps() if s["used"] == [0]]) > 5, what="steps with the worker")
            job.order("worker-0", "kill 9")
            page.wait(f"{within} === arguments[0]", f"{number} {'restart' if number == 1 else 'restarts'} within")
        assert page.js(f"return {rows}") == 1
        assert page.said() == []


def test_the_queue_and_the_pool_are_seen_and_a_job_is_suspended(server, state_dir, tmp_path):
    """Shows the waiting jobs with reason and time, the nodes, and a job's history; orders ask for confirmation."""
    s = server("--ttl=5m", "--observers-see-arguments")  # clients that do not renew stay
    job = {"source": {"path": "/srv/code"}, "command": ["python", "train.py", "--epochs=3"]}
    with start(state_dir, tmp_path) as web, browser() as page, Waiting(s.port, s.token("agent"), "a", ["gpu=a100", "zone=b"]) as node, \
            Waiting(s.port, s.token("agent"), "b"):
        page.size(1400, 1000)
        page.open(f"{web.url}#/pool")
        page.wait("document.querySelectorAll('#pool tbody tr').length === 2 && /No job was submitted yet/.test(main.innerText)", what="a pool that waits")
        for name, more in (("train", {"labels": {"gpu": "a100"}}), ("urgent", {"priority": 900, "workers": 9}), ("later", {"suspend": True})):
            assert web.ask("/api/v1/jobs", "POST", {"name": name, **job, **more}, bearer=s.token("admin")).code == 201
        assignment, _, fields = node.assigned()
        with agent_of(s, fields, "child") as child:
            starts(child)
            page.wait("[...document.querySelectorAll('#queue tbody tr')].map(tr => tr.innerText.split('\\n')[0]).join() === 'urgent,train,later'")
            page.wait("tfe.jobs.get('train').state === 'running' && /more nodes/.test(tfe.jobs.get('urgent').waits)")
            page.wait("[...document.querySelectorAll('#pool .badge')].map(b => b.innerText).join() === 'Assigned,Free'")
            found = looked_at(page, "pool", tmp_path, "document.querySelectorAll('#queue tbody tr').length === 3")
            page.click("//table[@id='queue']//a[text()='train']")
            page.wait("document.querySelectorAll('#conditions tbody tr').length >= 3 && document.querySelectorAll('#nodes tbody tr').length === 1")
            found |= looked_at(page, "conditions", tmp_path, "/python train.py --epochs=3/.test(document.getElementById('conditions').innerText)")
            page.click("//div[@class='acts']//button[text()='Suspend']")
            page.wait("document.querySelector('dialog[open] textarea') !== null", what="the question for a token")
            page.type("dialog textarea", s.token("admin"))
            confirm(page, "dialog button[type=submit]")
            page.wait("/Take all nodes from train/.test(document.getElementById('dialog').innerText)", what="the question before an order")
            confirm(page, "dialog button[type=submit]")
            assert node.released() == assignment
        page.wait("[...document.querySelectorAll('.acts button')].map(b => b.innerText).join() === 'Resume,Cancel'", what="what is to be ordered now")
        page.open(f"{web.url}#/job/urgent")  # no node has ever run it
        page.wait("/of 9/.test(document.getElementById('conditions').innerText) && !/404/.test(main.innerText)")
        found |= looked_at(page, "waiting", tmp_path, "document.querySelectorAll('#conditions tbody tr').length >= 2")
        assert found == {}
        assert page.said() == []


def test_what_lingers_of_a_job_that_is_over_is_cancelled(server, fleet, ctl, state_dir, tmp_path):
    """Regression: the page offered only "Run again", which such a job rejects: it must be cancelled first."""
    s = server()
    fleet.folder.mkdir()
    pool = Pool(fleet, ctl)
    pool.start(2, "--no-standby")
    pool.wait_free(2)
    folder = hand_in(pool, "train", workers=2, clean_policy="None")
    with start(state_dir, tmp_path) as web, browser() as page:
        offered = "[...document.querySelectorAll('.acts button')].map(b => b.innerText).join()"
        page.open(f"{web.url}#/job/train")
        page.wait(f"{offered} === 'Grow now,Scale,Suspend,Cancel'")
        epoch = fleet.wait_world(2, folder=folder)
        fleet.order("exit 0", epoch, 0, folder=folder)
        page.wait(f"/Finished/.test(document.querySelector('.head').innerText) && {offered} === 'Cancel'", what="what is to be ordered now")
        page.click("//div[@class='acts']//button[text()='Cancel']")
        page.wait("document.querySelector('dialog[open] textarea') !== null", what="the question for a token")
        page.type("dialog textarea", s.token("admin"))
        confirm(page, "dialog button[type=submit]")
        page.wait("/End job train/.test(document.getElementById('dialog').innerText)", what="the question before an order")
        confirm(page, "dialog button[type=submit]")
        pool.wait_free(2)
        page.wait(f"{offered} === 'Run again'")
        assert page.said() == []


# Waits before its last steps until the page has been looked at.
SAVES = """
import os, time, tfe
for step in range(1, 1001):
    time.sleep(0.04)
    while step == 980 and not os.path.exists({go!r}):
        time.sleep(0.05)
    tfe.progress(step, total=1000, metrics=dict(loss=2.0 / step))
    if step % 20 == 0:
        tfe.checkpoint_saved(step, "/tmp/none-" + str(step))
        print("saved at", step, flush=True)
"""
FAILS = "raise KeyError('learning_rate')"


def test_a_job_is_submitted_on_the_page_and_followed_to_its_end(server, fleet, ctl, state_dir, tmp_path):
    """Progress, ETA and the checkpoint's age on the front page; at the end no orders, a closed timeline and searchable
    logs."""
    s = server("--gather=0.1")
    fleet.folder.mkdir()
    pool = Pool(fleet, ctl)
    pool.start(1, "--no-standby")
    pool.wait_free(1)
    for name, words in (("saves.py", SAVES.format(go=str(tmp_path / "go"))), ("fails.py", FAILS)):
        (tmp_path / name).write_text(words)
    spec = {"source": {"path": str(tmp_path)}, "options": {"max-restarts": "0"}}
    with start(state_dir, tmp_path) as web, browser() as page:
        page.size(1280, 1000)
        page.open(web.url)
        page.click("//button[@id='submit']")
        page.wait("document.querySelector('dialog[open] textarea') !== null", what="the question for a token")
        page.type("dialog textarea", s.token("admin"))
        confirm(page, "dialog button[type=submit]")
        page.wait("/backoff_limit/.test(document.querySelector('dialog .keys')?.textContent)", what="the keys of the schema")
        found = looked_at(page, "submit", tmp_path, "document.querySelector('dialog[open] textarea') !== null")
        page.js("document.querySelector('dialog textarea').value = '{\"name\": '")
        confirm(page, "dialog button[type=submit]")
        page.wait("/This is not JSON/.test(document.querySelector('dialog .fault').innerText)")
        page.js("document.querySelector('dialog textarea').value = arguments[0]",
                json.dumps({"name": "train", "command": [sys.executable, "saves.py"], **spec}))
        confirm(page, "dialog button[type=submit]")
        page.wait("location.hash === '#/job/train' && tfe.jobs.get('train')?.state === 'running'", what="the job's page")
        page.js("location.hash = '#/'")
        page.wait("/\\d %\\s+step \\d+ of 1,000/.test(document.getElementById('jobs').innerText) && /\\d+ s ago/.test(document.getElementById('jobs').innerText)",
                  what="its progress and its checkpoint")
        page.wait("document.querySelector('svg.spark .axis') !== null && /loss/.test(document.querySelector('.sparks').innerText)", what="a curve with its name")
        page.wait("/and \\d+ earlier checkpoints/.test(document.querySelector('ol.events').innerText)", what="folded checkpoints")
        found |= looked_at(page, "progress", tmp_path, "document.querySelectorAll('#jobs tbody tr').length === 1")
        page.open(f"{web.url}#/job/train")
        page.js("document.getElementById('follow').click()")
        page.wait("/saved at 20\\b/.test(logs.innerText) && logs.childElementCount > 2", what="lines")
        page.type("[aria-label='Search in logs']", "at 20")
        # The status beside the search box also shows the state of the stream, so the search is repeated until its result is there.
        page.wait("document.querySelector('[aria-label=\"Search in logs\"]').dispatchEvent(new Event('input'))"
                  " && [...logs.children].some(line => line.hidden) && [...logs.children].every(line => line.hidden !== /at 20/.test(line.innerText || line.textContent))"
                  " && /\\d+ of \\d+ lines/.test(logs.parentElement.innerText)", what="the lines that match")
        (tmp_path / "go").touch()
        page.wait("tfe.jobs.get('train')?.state === 'succeeded' && document.querySelector('.acts').innerText === 'Run again'", what="its end")
        page.wait("/ to \\d\\d:\\d\\d:\\d\\d$/.test(document.querySelector('canvas[aria-label^=\"1 nodes\"]')?.ariaLabel)", what="a timeline that has ended")
        assert page.js("return [...document.querySelectorAll('button')].filter(b => /Drain|Evict|Scale|Grow/.test(b.innerText)).length") == 0
        order = page.js("return [...document.querySelectorAll('main section h2')].map(h => h.innerText).join()")
        assert order == "Timeline,Metrics,Ranks,Logs,Epochs,Events,Submission"
        found |= looked_at(page, "over", tmp_path, "/Finished/.test(document.querySelector('.head').innerText)")
        assert web.ask("/api/v1/jobs", "POST", {"name": "bad", "command": [sys.executable, "fails.py"], **spec}, bearer=s.token("admin")).code == 201
        page.open(f"{web.url}#/job/bad")
        page.wait("/^Failed: /.test(document.querySelector('.notes')?.innerText ?? '')", what="why it failed")
        assert found == {}
        assert page.said() == []


def test_logs_of_an_earlier_epoch_are_read(server, fleet, status, state_dir, tmp_path):
    s = server()
    script = tmp_path / "trains.py"
    script.write_text(TRAINS)
    with start(state_dir, tmp_path) as web, browser() as page:
        fleet.start("--nnodes=1:2", "--job=demo", "--gather=0.1", "--node-name=a", command=[str(script)])
        wait_until(lambda: web.get("/api/v1/jobs")["jobs"] and web.get("/api/v1/jobs/demo")["members"] == 1, what="one that trains")
        fleet.start("--nnodes=1:2", "--job=demo", "--gather=0.1", "--node-name=b", command=[str(script)])
        wait_until(lambda: web.ask("/api/v1/jobs/demo/grow", "POST", {}, bearer=s.token("admin")).code == 200
                   or web.get("/api/v1/jobs/demo")["members"] == 2, what="a node to grow by")  # on a busy machine it grows by itself
        page.open(f"{web.url}#/job/demo")
        page.wait("tfe.epochs.size >= 2", what="two epochs")
        page.wait("[...document.querySelector('[aria-label=Epoch]').options].some(o => o.value === '1')", what="the first one to choose")
        page.js("const e = document.querySelector('[aria-label=Epoch]'); e.value = '1'; e.onchange()")
        page.wait("logs.childElementCount > 0 && [...logs.children].every(line => /epoch 1,/.test(line.title))", what="its lines")
        assert page.said() == []


def test_a_page_that_stays_open_keeps_no_node_for_ever(server, state_dir, tmp_path):
    """Ten thousand machines come and go, two stay: the page forgets the nodes that left longest ago, and the earliest
    spans of each node."""
    server()
    with start(state_dir, tmp_path) as web, browser() as page:
        page.open(web.url)
        kept = page.js("""return import("/timeline.js").then(({track}) => {
            const seen = new Map(), row = (name, state) => ({name, state, place: null, rank: null});
            for (const stays of ["first", "second"]) track(seen, stays, row(stays, "member"), 0);
            for (let i = 1; i <= 10000; i++) {
                track(seen, `n${i}`, row(`n${i}`, "spare"), i);
                track(seen, `n${i}`, null, i);
                track(seen, "second", row("second", i % 2 ? "spare" : "member"), i);
            }
            return [seen.size, seen.has("first"), seen.has("n1"), seen.has("n10000"), seen.get("second").spans.length, seen.get("second").spans.at(-1).from];
        })""")
        assert kept[1:4] == [True, False, True] and kept[0] <= 4000 and kept[4] <= 200 and kept[5] == 10000


class PrefixProxy:
    """A reverse proxy that shows only tfe-web, below /tfe/, like an nginx location with a trailing slash."""

    def __init__(self, port):
        self.upstream, self.outside = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, near):
        """Serves one request per connection."""
        with contextlib.suppress(OSError), near:
            said = b""
            while b"\r\n\r\n" not in said:
                more = near.recv(65536)
                if not more:
                    return
                said += more
            method, path, rest = said.split(b" ", 2)
            if not path.startswith(b"/tfe/"):
                self.outside.append(path.decode())
                near.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            rest = b"\r\n".join(line for line in rest.split(b"\r\n") if not line.lower().startswith(b"connection:"))
            with socket.create_connection(("127.0.0.1", self.upstream)) as far:
                far.sendall(b" ".join((method, path[4:], rest)).replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                threading.Thread(target=self.pump, args=(near, far), daemon=True).start()
                self.pump(far, near)

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


def test_page_works_below_a_prefix_and_orders_only_from_the_tab_that_logged_in(server, state_dir, tmp_path):
    s = server("--ttl=5m")
    with start(state_dir, tmp_path) as web, browser() as page, PrefixProxy(web.port) as proxy, RawClient(s.port, s.token("agent")) as agent:
        agent.join("n1", job="j")
        page.open(f"http://localhost:{proxy.port}/tfe/#/job/j")
        page.wait("document.querySelectorAll('#nodes tbody tr').length === 1", what="its node")
        page.click("//button[@id='who']")
        page.type("dialog textarea", s.token("admin"))
        confirm(page, "dialog button[type=submit]")
        page.wait("/^admin/.test(document.getElementById('who').innerText)", what="a login")
        page.js("location.reload()")  # the tab keeps its mark
        page.wait("/^admin/.test(document.getElementById('who').innerText)", what="the login after a reload")
        # A tab without the mark can read thanks to the cookie, and has to log in before it sends orders.
        page.js("sessionStorage.clear(); location.reload()")
        page.wait("document.getElementById('who').innerText === 'Log in' && document.querySelectorAll('#nodes tbody tr').length === 1")
        assert page.js_later("""fetch("api/v1/jobs/j/cancel", {method: "POST"}).then(a => a.json()).then(p => arguments[0](p.code))""") == "csrf"
        assert [path for path in proxy.outside if path != "/favicon.ico"] == []
