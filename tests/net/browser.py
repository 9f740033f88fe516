"""Chromium without a window inside a machine, driven by chromedriver's HTTP (WebDriver, W3C).

    with Browser(machine) as b:
        b.go("https://192.0.2.1:10014/")
        b.wait("nodes", "return document.querySelectorAll('.chip').length == 2")
        b.shot("overview.png")
"""
import base64
import http.client
import json
import os
import shutil
import socket

from dnskit import socket_in
from lab import wait_for

PORT = 9515
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    def __init__(self, machine, width=1280, height=900, dark=False):
        self.machine, self.session = machine, None
        folder = os.path.join(machine.dir, "browser")
        for name in ("chromium", "chromedriver"):
            assert shutil.which(name), f"{name} is not installed (deploy/packages)"
        os.makedirs(folder, exist_ok=True)
        # The address of IPv6 that the kernel gives a machine a second after its start is a new network to the browser, which then
        # breaks off what it loads (ERR_NETWORK_CHANGED).
        machine.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        environment = {**os.environ, "HOME": folder, "TMPDIR": folder, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
        self.driver = machine.start("chromedriver", "chromedriver", f"--port={PORT}", "--allowed-ips=127.0.0.1", env=environment)
        wait_for("chromedriver", lambda: self.call("GET", "/status")["ready"])
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--disable-background-networking", "--disable-component-update", "--no-first-run", "--no-proxy-server",
                   f"--window-size={width},{height}", f"--user-data-dir={folder}/profile", *(["--force-dark-mode"] if dark else [])]
        self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "acceptInsecureCerts": True, "goog:chromeOptions": {"args": options},
            "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.session:
            self.call("DELETE", f"/session/{self.session}")
        self.driver.stop()

    def call(self, method, path, body=None, seconds=60):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=seconds)
        connection.sock = socket_in(self.machine, socket.SOCK_STREAM, "127.0.0.1", PORT)
        connection.sock.settimeout(seconds)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", "Connection": "close"})
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{path}: {answer['error']}: {answer['message'][:600]}")
        return answer

    def say(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def go(self, url):
        self.say("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.say("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, what, script, *args, seconds=20):
        """Polls until the script returns something that is true."""
        return wait_for(what, lambda: self.run(script, *args), seconds, 0.1)

    def text(self, selector="body"):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText).join('\\n')", selector)

    def wait_text(self, text, selector="body", seconds=20):
        return self.wait(text, "return [...document.querySelectorAll(arguments[0])].some((e) => e.innerText.includes(arguments[1]))",
                         selector, text, seconds=seconds)

    def click(self, selector):
        found = self.say("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self.say("POST", f"/element/{found}/click", {})

    def type(self, selector, text):
        found = self.say("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self.say("POST", f"/element/{found}/value", {"text": text})

    def key(self, *keys):
        self.say("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": [
            a for k in keys for a in ({"type": "keyDown", "value": k}, {"type": "keyUp", "value": k})]}]})

    def complaints(self):
        """What the console said since this was asked last, but for what the network did."""
        return [e["message"] for e in self.say("POST", "/se/log", {"type": "browser"})
                if e["level"] == "SEVERE" and e.get("source") != "network"]

    def size(self, width, height):
        self.say("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def scheme(self, name):
        self.say("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": name}]}})

    def shot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.say("GET", "/screenshot")))
