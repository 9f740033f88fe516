"""Who may reach what: each caller, each node, each target, by the hub's `access` and the node's `tunnel.allow` together. What is denied
begins no connection there: all that a node begins is counted.
"""
import hashlib
import re

import pytest

import tunnelkit
from lab import Agent, Hub, Machine, Node, pod, service, wait_for

as_before = tunnelkit.as_before
FRIEND, STRANGER, LAN = "192.0.2.21", "192.0.2.22", "192.168.1.20"
SECRET = "open-sesame"
ACCESS = (f"[{{from: 192.0.2.1, to: ['*']}}, {{from: {FRIEND}, to: ['edge-1:10250', 'edge-2:7000', 'default/web']}}, "
          f"{{from: 'token:ann', tokenSHA256: {hashlib.sha256(SECRET.encode()).hexdigest()}, to: ['edge-2:*', 'default/two']}}]")
# Targets: the node that would dial, and what comes of it where `access` lets the caller.
TARGETS = {
    "edge-1:10250": ("edge-1", 200), "edge-1:7000": ("edge-1", 403), "edge-1:22": ("edge-1", 403),
    "edge-2:10250": ("edge-2", 403), "edge-2:7000": ("edge-2", 200), "edge-2:22": ("edge-2", 403),
    "web.default:80": ("edge-1", 200), "two.default:80": ("edge-2", 403),
    "edge-1 192.168.1.99:80": ("edge-1", 404), "edge-1 169.254.169.254:80": ("edge-1", 404), "edge-2 192.168.1.20:22": ("edge-2", 403)}
MAY = {
    "local": set(TARGETS), "friend": {"edge-1:10250", "edge-2:7000", "web.default:80"},
    "ann": {t for t in TARGETS if t.startswith("edge-2")} | {"two.default:80"}, "stranger": set()}
COUNTED = """table inet begun {
    counter begun { }
    chain out {
        type filter hook output priority -300
        tcp dport { 53, 10000 } return
        tcp flags & (syn | ack) == syn counter name begun
    }
    chain onward { type filter hook forward priority -300; counter name begun; }
}"""


class Site(tunnelkit.Site):
    def __init__(self, lab):
        self.lab = lab
        self.hub = Hub(lab, "--ingress.http", "192.0.2.1:10080", "--access", ACCESS)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        self.agents = [Agent(n, self.hub, "--tunnel.allow", allow, "--mesh.canary", "false") for n, allow in zip(self.nodes, ("node,pods,services", "node:7000"))]
        self.callers = {"local": self.hub.machine, "friend": Machine(lab, "friend", address=FRIEND),
                        "stranger": Machine(lab, "stranger", address=STRANGER)}
        self.callers["ann"] = self.callers["stranger"]
        pods = []
        for n in self.nodes:
            n.run("ip", "link", "add", "lan0", "type", "bridge")
            n.run("ip", "addr", "add", f"{LAN}/24", "dev", "lan0")
            n.run("ip", "link", "set", "lan0", "up")
            self.backend(n, "server", "--http", "10250", "--http", "7000", "--http", "22")
            pods.append(n.pod("web"))
            pods[-1].serve("--http", "8080")
        self.hub.write("all.yaml", *[pod(name, n, p.address, ("http", 8080, 0)) for name, n, p in zip(("web", "two"), self.nodes, pods)],
                       service("web", ("http", 80, 8080)), service("two", ("http", 80, 8080)))
        wait_for("services", lambda: all(a.state()["services"] == 2 for a in self.agents))
        self.wait_open()
        for n in self.nodes:
            n.run("nft", "-f", "-", input=COUNTED)

    def begun(self):
        """How many connections each node has begun."""
        return [int(re.search(r"packets (\d+)", n.run("nft", "list", "counter", "inet", "begun", "begun").stdout).group(1)) for n in self.nodes]

    def ask(self, caller, target, *options):
        node, _, dest = target.partition(" ")
        fields = ["-H", f"X-Tunnel-Proxy-Host: {node}", "-H", f"X-Tunnel-Proxy-Dest: {dest}"] if dest else []
        who = ["-H", f"Proxy-Authorization: Bearer {SECRET}"] if caller == "ann" else []
        if "-p" in options:
            who = ["--proxy-header" if o == "-H" else o for o in who]
        return self.callers[caller].get(f"http://{'any.example' if dest else target}/", "-x", "http://192.0.2.1:10080", *fields, *who, *options)


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


@pytest.mark.parametrize("way", ["request", "connect"])
@pytest.mark.parametrize("caller", MAY)
def test_matrix(site, caller, way):
    options = ("-p",) if way == "connect" else ()
    asked = {t: result for t, result in TARGETS.items() if " " not in t or way == "request"}
    served = {t for t, (_, status) in asked.items() if status == 200 and t in MAY[caller]}
    before = site.begun()
    for target in asked.keys() - served:
        status, why = site.ask(caller, target, *options)
        want = asked[target][1] if target in MAY[caller] else 403
        assert status == (0 if options else want), (caller, target, why)
        assert str(want) in why if options else why.count("\n") == 1 and len(why) > 20, (caller, target, why)
    assert site.begun() == before
    for target in served:
        node = asked[target][0]
        before = site.begun()
        assert site.ask(caller, target, *options) == (200, f"{node}.{'web' if '.default' in target else 'server'}\n"), (caller, target)
        assert [now - then for now, then in zip(site.begun(), before)] == [node == n.name for n in site.nodes], (caller, target)
