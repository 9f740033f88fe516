"""Calls between nodes that must not go in clear text: mesh.encrypt and edgeway.io/encrypt. The kernel of the other node counts what comes to hostPorts."""
import re
import signal

import pytest

import tunnelkit
from lab import endpoint_slice, pod, service, wait_for

PORTS = {"http": 30080, "echo": 30090, "udp": 30053}
COUNT = """table inet count { chain in { type filter hook prerouting priority -300; iifname "eth0" %s; }; }"""


class Site(tunnelkit.Site):
    """A web pod with hostPorts on edge-2, a client on edge-1."""

    def __init__(self, lab):
        super().__init__(lab)
        one, two = self.nodes
        web = two.pod("web")
        web.serve("--http", "8080", "--tcp", "9090", "--udp", "5353")
        two.publish(PORTS["http"], web, 8080)
        two.publish(PORTS["echo"], web, 9090)
        two.publish(PORTS["udp"], web, 5353, "udp")
        two.run("nft", "-f", "-", input=COUNT % ("th dport { " + ", ".join(map(str, PORTS.values())) + " } counter"))
        self.client = one.pod("client")
        self.hub.write("pods.yaml", pod("web", two, web.address, ("http", 8080, PORTS["http"]), ("echo", 9090, PORTS["echo"])),
                       pod("dns", two, web.address, ("u", 5353, PORTS["udp"]), protocol="UDP"))
        self.say()
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 3)
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        self.client.copy_resolv_conf()

    def say(self, encrypt=None):
        annotations = {"edgeway.io/encrypt": encrypt} if encrypt else {}
        self.hub.write("services.yaml", service("web", ("http", 80, 8080), ("echo", 7000, 9090), annotations=annotations),
                       service("dns", ("u", 53, 5353), protocol="UDP", annotations=annotations),
                       service("given", ("http", 80, 8080), annotations=annotations, selector="nobody"),
                       endpoint_slice("given-1", "given", 8080, "192.0.2.77", port_name="http"))

    def clear(self):
        """Packets that came to hostPorts of edge-2."""
        return int(re.search(r"counter packets (\d+)", self.nodes[1].run("nft", "list", "table", "inet", "count").stdout).group(1))

    def endpoints(self):
        return self.nodes[0].run(self.lab.program("edgewayctl"), "--socket", self.agents[0].socket, "endpoints").stdout

    def restart(self, *options):
        self.agents[0].stop()
        self.agents[0].start(*options)
        self.wait_whole()

    def calls(self):
        """HTTP, TCP and UDP of the client, each by new connections."""
        gateway = self.nodes[0].gateway
        assert self.client.get("http://web/", "-H", "Connection: close") == (200, "edge-2.web\n")
        at = {n: self.nodes[0].address_of(f"{n}.default.svc.cluster.local", f"@{gateway}") for n in ("web", "dns")}
        assert self.client.send(at["web"], 7000, "ping\n").startswith("edge-2.web\n")
        got = self.client.python(f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(30); s.connect(('{at['dns']}', 53)); "
                                 "s.send(b'hello'); print(s.recv(2000))").stdout
        assert "edge-2.web" in got


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


def test_off(site):
    """hostPorts are dialled as they are: the counter counts."""
    site.calls()
    assert site.clear() > 0


@pytest.mark.parametrize("by", ["annotation", "site", "always"])
@pytest.mark.parametrize("way", ["node", "hub"])
def test_nothing_in_clear(site, by, way):
    options = [] if by == "annotation" else ["--mesh.encrypt", by]
    site.say("site" if by == "annotation" else None)
    site.restart(*options, *(["--mesh.direct", "off"] if way == "hub" else []))
    wait_for("it counts", lambda: re.search(r"web.*tunnel.*edge-2|edge-2.*tunnel", site.endpoints()))
    before, direct = site.clear(), site.agents[0].metrics()["edgeway_tunnel_outward_direct_total"]
    site.calls()
    assert site.clear() == before
    assert site.agents[0].metrics()["edgeway_tunnel_outward_direct_total"] == direct + (3 if way == "node" else 0)


def test_the_annotation_switches_it_off(site):
    site.say("off")
    site.restart("--mesh.encrypt", "always")
    wait_for("it counts", lambda: "host" in site.endpoints())
    before = site.clear()
    site.calls()
    assert site.clear() > before


def test_no_way_that_is_encrypted(site):
    """Neither the node's agent nor a hub: refused, and not dialled in clear. An address without a pod: refused with the reason."""
    site.say("always")
    site.restart("--mesh.direct", "off")
    wait_for("it counts", lambda: "clear text" in site.endpoints())
    assert "192.0.2.77" in site.endpoints()
    assert site.client.get("http://given/")[0] == 503
    before = site.clear()
    site.hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        assert site.client.get("http://web/")[0] in (502, 503, 504)
    finally:
        site.hub.process.popen.send_signal(signal.SIGCONT)
    assert site.clear() == before


def test_the_nodes_spiffe_id(site):
    shown = site.nodes[1].run("openssl", "x509", "-in", f"{site.agents[1].data}/node.crt", "-noout", "-ext", "subjectAltName").stdout
    assert "URI:spiffe://cluster.local/node/edge-2" in shown
