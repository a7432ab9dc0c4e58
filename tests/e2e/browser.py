"""A real browser for tests: headless Chromium, driven by its WebDriver."""

import base64
import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest

from conftest import DEADLINE, wait_until

needs_browser = pytest.mark.skipif(not (shutil.which("chromedriver") and shutil.which("chromium")),
                                   reason="needs chromium and chromium-driver")

OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
AXE = pathlib.Path(importlib.util.find_spec("axe_playwright_python").origin).with_name("axe.min.js")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class BrowserError(Exception):
    pass


class Browser:
    """One window. js() runs a function body in the page and returns its result."""

    def __init__(self, base, session):
        self.base, self.session = base, session

    def call(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}/session/{self.session}{path}", data, {"Content-Type": "application/json"},
                                         method=method or ("POST" if data else "GET"))
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise BrowserError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def open(self, url):
        self.call("/url", {"url": url})

    def js(self, body, *arguments):
        return self.call("/execute/sync", {"script": body, "args": list(arguments)})

    def js_later(self, body, *arguments):
        """Like js(), for code that calls its last argument with the result."""
        return self.call("/execute/async", {"script": body, "args": list(arguments)})

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def click(self, xpath):
        def is_clicked():
            element = self.call("/element", {"using": "xpath", "value": xpath})[ELEMENT]
            try:
                self.call(f"/element/{element}/click", {})
            except BrowserError as error:
                if "stale element" in str(error):  # the page was drawn again in between
                    return False
                raise
            return True

        wait_until(is_clicked, what=f"a click on {xpath}")

    def type(self, selector, words):
        element = self.call("/element", {"using": "css selector", "value": selector})[ELEMENT]
        self.call(f"/element/{element}/value", {"text": words})

    def wait(self, body, *arguments, deadline=DEADLINE, what=None):
        return wait_until(lambda: self.js(f"return {body}", *arguments), deadline, what or body)

    def size(self, width, height, scale=1):
        """Sets the size of the page itself, independent of the window."""
        self.call("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}})

    def dark(self, dark=True):
        self.call("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}})

    def picture(self, path):
        """Takes a picture of the whole page, including the part below the window."""
        shot = self.call("/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": True}})
        path.write_bytes(base64.b64decode(shot["data"]))

    def cdp(self, command, **parameters):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def script_s(self):
        """Returns the processor seconds used by scripts of this page since the first call."""
        self.cdp("Performance.enable", timeDomain="threadTicks")
        return {m["name"]: m["value"] for m in self.cdp("Performance.getMetrics")["metrics"]}["ScriptDuration"]

    def violations(self):
        """Returns the findings of axe-core: [rule, advice, elements…]."""
        self.js(f"if (!window.axe) {{ {AXE.read_text()} }}")
        return self.js_later("""const done = arguments[0];
            axe.run(document, {resultTypes: ["violations"]}).then(found => done(found.violations.map(
                v => [v.id, v.help, ...v.nodes.map(n => `${n.target.join(" ")}: ${n.failureSummary.split("\\n").slice(1).join(";")}`)])),
                e => done([String(e)]))""")

    def said(self):
        """Returns the page's console messages."""
        return [line for line in self.call("/se/log", {"type": "browser"}) if line["level"] == "SEVERE"]


@contextlib.contextmanager
def browser():
    """Opens a new window with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="tfe-browser-", ignore_cleanup_errors=True) as folder:
        with open(os.path.join(folder, "driver.log"), "wb") as log:
            driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL,
                                      env={**os.environ, "HOME": folder}, start_new_session=True)
        window = None
        try:
            port = None
            for line in driver.stdout:
                words = line.decode(errors="replace")
                if "started successfully on port" in words:
                    port = int(words.rsplit("port", 1)[1].strip(" .\n"))
                    break
            if port is None:  # the tests judge the page, not the driver
                pytest.skip(f"chromedriver does not start here: {pathlib.Path(folder, 'driver.log').read_text(errors='replace')[-200:]}")
            base = f"http://127.0.0.1:{port}"
            body = json.dumps({"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"args": [*OPTIONS, f"--user-data-dir={folder}/profile"]}}}}).encode()
            request = urllib.request.Request(f"{base}/session", body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    window = Browser(base, json.load(answer)["value"]["sessionId"])
            except OSError as error:
                said = error.read().decode() if isinstance(error, urllib.error.HTTPError) else str(error)
                pytest.skip(f"chromium does not start here: {said[:200]}")
            window.call("/timeouts", {"script": 60000, "pageLoad": 60000})
            yield window
        finally:
            if window:
                with contextlib.suppress(Exception):
                    window.call("", method="DELETE")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)  # also a chromium that has missed the shutdown
            driver.wait(DEADLINE)
            driver.stdout.close()
