"""The page in a real browser: what happens is seen, what is ordered is done. Skipped where there is no chromium."""

import signal
import time

import pytest

from agents import TOGETHER, Fleet
from browser import browser, needs_browser
from conftest import wait_until
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
    """Twice, as impatient hands do."""
    page.js("const b = document.querySelector(arguments[0]); b.click(); b.click();", selector)


def test_a_machine_is_killed_one_is_drained_and_the_page_shows_it(server, fleet, state_dir, tmp_path, capsys):
    s = server("--ttl=3s")
    script = tmp_path / "trains.py"
    script.write_text(TRAINS)
    with start(state_dir, tmp_path) as web, browser() as page:
        agents = {name: fleet.start("--nnodes=1:3", "--job=demo", TOGETHER, f"--node-name={name}", command=[str(script)]) for name in "abc"}
        wait_until(lambda: web.get("/api/v1/jobs")["jobs"] and web.get("/api/v1/jobs/demo")["members"] == 3, what="three that train")
        page.size(1400, 1000)
        page.open(f"{web.url}#/job/demo")
        page.wait("document.querySelectorAll('#nodes tbody tr').length === 3")
        page.wait("[...tfe.points.keys()].sort().join() === 'accuracy,loss' && tfe.points.get('loss').length > 2", what="curves")
        page.wait("document.querySelectorAll('ol.events li').length > 5", what="events from before the page was open")
        page.js("document.getElementById('follow').click()")
        page.wait("/step \\d+ of 0/.test(logs.innerText) && /step \\d+ of 1/.test(logs.innerText)", what="lines of two ranks")

        page.js("""window.lost = 0; const look = () => tfe.events.some(e => e.kind === "lost" || e.kind === "dead")
                   ? window.lost = Date.now() : setTimeout(look, 5); look()""")
        killed = time.time()
        agents["b"].send(signal.SIGKILL)
        seen = page.wait("window.lost", what="the loss on the page")
        told = page.js("return tfe.events.findLast(e => e.kind === 'lost' || e.kind === 'dead').at_ms")
        with capsys.disabled():
            print(f"\n  a machine is killed: {seen - killed * 1000:.0f} ms to the page, {seen - told:.0f} after the server knew")
        page.wait("tfe.jobs.get('demo').members === 2 && tfe.jobs.get('demo').state === 'running'", what="two that train")
        page.wait("/\\bb has lost its connection/.test(document.querySelector('ol.events').innerText)", what="the event on the page")

        page.js("""[...document.querySelectorAll('#nodes tbody tr')].find(tr => /^c\\b/.test(tr.innerText))
                   .querySelector('button').click()""")
        page.wait("document.querySelector('dialog[open] textarea') !== null", what="the question for a token")
        page.type("dialog textarea", s.token("admin"))
        confirm(page, "dialog button[type=submit]")
        page.wait("/Take c out/.test(document.getElementById('dialog').innerText)", what="the question before an order")
        confirm(page, "dialog button[type=submit]")
        assert agents["c"].wait() == 0
        page.wait("tfe.jobs.get('demo').members === 1 && tfe.jobs.get('demo').state === 'running'", what="one that trains")
        drains = [row for row in web.ask("/api/v1/audit", bearer=s.token("admin")).json["audit"] if row["what"] == "DRAIN"]
        assert len(drains) == 1, drains
        for wide in (1400, 390):
            for dark in (True, False):
                page.dark(dark)
                page.size(wide, 1000)
                page.wait("document.documentElement.dataset.theme === arguments[0]", "dark" if dark else "light")
                page.js_later("const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => done(1)), 1500)")
                page.picture(tmp_path / f"job.{wide}.{'dark' if dark else 'light'}.png")
                assert page.js("return document.documentElement.scrollWidth <= window.innerWidth"), f"too wide for {wide}"
        page.js("location.hash = '#/job/%E0%A4%A'")  # a link that was cut off
        page.wait("document.getElementById('jobs') !== null", what="the fleet")
        page.picture(tmp_path / "fleet.390.light.png")
        assert page.said() == []
