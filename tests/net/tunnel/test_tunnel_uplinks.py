"""A node with two uplinks: its connections to the hub use both (MPTCP), and when one swallows what it is given no stream is lost.
An uplink whose address changes is dialled from anew at once.
"""
import re
import threading
import time

import pytest

import tunnelkit
from lab import BARE_PYTHON, Agent, Hub, Lab, Node, wait_for
from tunnelkit import tunnels

STREAMS, PORT = 20, 7600
SECOND = "198.51.100"
ADDRESS = {"eth0": "192.0.2.11", "eth1": f"{SECOND}.11"}


class Site:
    """edge-1 has eth0 on the hub's network, and eth1 on another one; each is a default route."""

    def __init__(self, lab):
        self.hub = Hub(lab, *tunnelkit.INGRESS_OPTIONS)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.node.run("ip", "route", "add", "default", "via", "192.0.2.1", "dev", "eth0", "metric", "100")
        self.node.link("eth1", self.hub.machine, "wan1")
        self.hub.machine.run("ip", "addr", "add", f"{SECOND}.1/24", "dev", "wan1")
        self.hub.machine.run("ip", "link", "set", "wan1", "up")
        self.add_uplink("11")
        self.agent = Agent(self.node, self.hub, "--tunnel.allow", tunnelkit.ALLOW)
        self.server = self.node.start("echo", *BARE_PYTHON, "-c", ECHO, PORT)
        wait_for("echo", lambda: "serving" in self.server.log())
        wait_for("tunnel", lambda: "edge-1" in tunnels(self.hub))

    def add_uplink(self, last):
        self.node.run("ip", "addr", "add", f"{SECOND}.{last}/24", "dev", "eth1")
        self.node.run("ip", "link", "set", "eth1", "up")
        self.node.run("ip", "route", "replace", "default", "via", f"{SECOND}.1", "dev", "eth1", "metric", "200")

    def paths(self):
        return self.agent.state()["tunnel"]["paths"]

    def endpoints(self):
        return set(re.findall(r"^(\S+) id (\d+)", self.node.run("ip", "mptcp", "endpoint").stdout, re.M))


ECHO = """
import socket, sys, threading
def echo(c):
    while data := c.recv(65536):
        c.sendall(data)
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("serving", flush=True)
while True:
    threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()
"""


class Pulse:
    """A stream that carries a byte to and fro; gap: the longest wait for one, in s."""

    def __init__(self, site):
        self.socket = tunnelkit.connect(site.hub.machine, f"edge-1:{PORT}")
        self.over, self.gap, self.n, self.broken = threading.Event(), 0.0, 0, ""
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.over.is_set():
                began = time.monotonic()
                self.socket.sendall(b"x")
                if self.socket.recv(1) != b"x":
                    raise OSError("ended")
                self.gap = max(self.gap, time.monotonic() - began)
                self.n += 1
                time.sleep(0.02)
        except OSError as e:
            self.broken = str(e)


@pytest.fixture
def site():
    with Lab() as lab:
        made = Site(lab)
        yield made
        print(f"--- agent\n{made.agent.process.log()[-4000:]}\n--- hub\n{made.hub.process.log()[-3000:]}")


def pulse(site, trouble, more=100):
    pulses = [Pulse(site) for _ in range(STREAMS)]
    wait_for("all go", lambda: all(p.n > 10 for p in pulses))
    for p in pulses:
        p.gap = 0
    trouble()
    at = [p.n for p in pulses]
    wait_for("and go on", lambda: all(p.n > n + more or p.broken for p, n in zip(pulses, at)))
    for p in pulses:
        p.over.set()
        p.thread.join()
    print(f"{len([p for p in pulses if p.broken])} lost, longest gap {max(p.gap for p in pulses) * 1000:.0f} ms")  # for bench/RESULTS.md
    return pulses


def swallow(site, interface):
    """At the receivers: what a sender's own firewall drops TCP takes back, as if it had not been sent."""
    for machine, what in ((site.node, f"iifname {interface}"), (site.hub.machine, f"ip saddr {ADDRESS[interface]}")):
        machine.run("nft", "add table inet cut; add chain inet cut in { type filter hook prerouting priority -300; }; add rule inet cut in " + what + " drop")


def release(site):
    for machine in (site.node, site.hub.machine):
        machine.run("nft", "delete", "table", "inet", "cut")


@pytest.mark.parametrize("interface", ["eth0", "eth1"])
def test_one_of_two_uplinks_dies(site, interface):
    wait_for("two paths", lambda: site.paths() == 2)
    assert {a for a, _ in site.endpoints()} == {"192.0.2.11", f"{SECOND}.11"}
    assert site.agent.metrics()["edgeway_tunnel_paths"] == 2
    tunnel = tunnels(site.hub)["edge-1"]["epoch"]
    pulses = pulse(site, lambda: swallow(site, interface))
    assert [p.broken for p in pulses] == [""] * STREAMS
    assert tunnels(site.hub)["edge-1"]["epoch"] == tunnel
    assert (site.agent.metrics()["edgeway_tunnel_paths_renewed_total"] > 0) == (interface == "eth0")  # the other is a backup, and carries nothing
    release(site)
    pulses = pulse(site, lambda: None)
    wait_for("two paths again", lambda: site.paths() == 2)
    assert [p.broken for p in pulses] == [""] * STREAMS
    assert tunnels(site.hub)["edge-1"]["epoch"] == tunnel


def test_both_carry_with_equal_metrics(site):
    """The peer's data may be lost where this node has none under way: that something has overtaken it tells. The other direction is cut as well."""
    site.node.run("ip", "route", "replace", "default", "metric", "50", "nexthop", "via", "192.0.2.1", "dev", "eth0", "nexthop", "via", f"{SECOND}.1", "dev", "eth1")
    wait_for("no backup", lambda: "backup" not in site.node.run("ip", "mptcp", "endpoint").stdout)
    wait_for("two paths", lambda: site.paths() == 2)
    pulses = pulse(site, lambda: swallow(site, "eth1"))
    assert [p.broken for p in pulses] == [""] * STREAMS
    wait_for("renewed", lambda: site.agent.metrics()["edgeway_tunnel_paths_renewed_total"] > 0)
    assert site.agent.process.logged(f"an uplink is silent; connections go on by the others address={SECOND}.11")


def test_an_uplink_leaves_and_returns_under_streams(site):
    """Not swallowed, but unplugged: its address goes, then its route and address come again. The other one's endpoint stays, and no stream ends."""
    wait_for("two paths", lambda: site.paths() == 2)
    tunnel = tunnels(site.hub)["edge-1"]["epoch"]
    pulses = pulse(site, lambda: site.node.run("ip", "addr", "flush", "dev", "eth1"))
    wait_for("one path", lambda: site.paths() == 1)
    assert {a for a, _ in site.endpoints()} == {"192.0.2.11"}
    site.add_uplink("12")
    wait_for("two paths again", lambda: site.paths() == 2)
    assert [p.broken for p in pulses] == [""] * STREAMS
    assert tunnels(site.hub)["edge-1"]["epoch"] == tunnel


def test_the_address_of_an_uplink_changes(site):
    """By DHCP, say: the word of netlink is enough, nothing has to fall silent first."""
    site.node.run("ip", "route", "del", "default", "dev", "eth0")
    site.node.run("ip", "addr", "flush", "dev", "eth1")
    wait_for("one path", lambda: site.agent.state()["tunnel"]["state"] == "open" and site.paths() <= 1)
    at = len(site.agent.process.log())
    old = Pulse(site)
    wait_for("it goes", lambda: old.n > 10)
    site.node.run("ip", "addr", "del", "192.0.2.11/24", "dev", "eth0")
    site.node.run("ip", "addr", "add", "192.0.2.77/24", "dev", "eth0")
    wait_for("dialled anew", lambda: tunnels(site.hub)["edge-1"]["address"].startswith("192.0.2.77:"))
    new = Pulse(site)
    wait_for("streams begin again", lambda: new.n > 10 or new.broken)
    new.over.set(), old.over.set()
    assert new.broken == ""
    said = site.agent.process.log()[at:]
    assert "this machine's way to the hub is another now" in said
    assert "nothing was heard" not in said and "no sign of life" not in said


def test_uplinks_come_and_go(site):
    """With one uplink alone it is plain TCP. The other's endpoints are withdrawn with it, and at the end."""
    wait_for("two paths", lambda: site.paths() == 2)
    site.node.run("ip", "mptcp", "endpoint", "add", "192.0.2.99", "id", "7", "subflow")  # somebody else's
    site.node.run("ip", "addr", "flush", "dev", "eth1")
    wait_for("withdrawn", lambda: {a for a, _ in site.endpoints()} == {"192.0.2.99", "192.0.2.11"})  # the latter is in use
    site.add_uplink("12")
    wait_for("announced", lambda: (f"{SECOND}.12") in {a for a, _ in site.endpoints()})
    wait_for("two paths", lambda: site.paths() == 2)
    site.agent.process.kill()
    site.node.run("ip", "addr", "flush", "dev", "eth1")
    site.agent.start()
    wait_for("nothing is left", lambda: site.endpoints() == {("192.0.2.99", "7")})
    wait_for("one path", lambda: site.agent.state()["tunnel"]["state"] == "open" and site.paths() == 0)
    site.add_uplink("13")
    wait_for("two paths again", lambda: site.paths() == 2)
    assert site.agent.process.logged("connections to the hub use MPTCP uplinks=2")
    site.agent.stop()
    assert site.endpoints() == {("192.0.2.99", "7")}


def test_without_a_mesh_the_tunnel_uses_both(site):
    """The bridge is not there yet: the mesh is withdrawn, and the tunnel has nothing to do with that."""
    site.agent.stop()
    assert site.endpoints() == set()
    wait_for("a quiet network", lambda: "tentative" not in site.node.run("ip", "-6", "address").stdout)  # each change of it announces them anew
    site.agent.start("--mesh.interface", "absent0", ready=False)
    wait_for("two paths", lambda: site.paths() == 2)
    assert site.agent.process.logged("interface absent0 is down or has no IPv4 address")
    assert {a for a, _ in site.endpoints()} == {"192.0.2.11", f"{SECOND}.11"}
    site.agent.stop()
    assert site.endpoints() == set()
    site.agent.start()
    wait_for("announced", lambda: len(site.endpoints()) == 2)
    site.agent.process.kill()
    status, said = site.agent.attempt("--restore")
    assert status == 0, said
    assert site.endpoints() == set()


def test_one_route_with_two_uplinks(site):
    wait_for("two paths", lambda: site.paths() == 2)
    site.node.run("ip", "route", "flush", "exact", "default")
    site.node.run("ip", "route", "add", "default", "nexthop", "via", "192.0.2.1", "dev", "eth0", "nexthop", "via", f"{SECOND}.1", "dev", "eth1")
    wait_for("both are used", lambda: {a for a, _ in site.endpoints()} == {"192.0.2.11", f"{SECOND}.11"})
    wait_for("two paths", lambda: site.paths() == 2)
    wait_for("both carry", lambda: "backup" not in site.node.run("ip", "mptcp", "endpoint").stdout)


def test_no_mptcp_at_the_hub(site):
    """A hub without it is reached by TCP, and not dialled again and again."""
    site.agent.stop()
    site.hub.process.stop()
    site.hub.machine.run("sysctl", "-qw", "net.mptcp.enabled=0")
    site.hub.start()
    site.agent.start()
    wait_for("tunnel", lambda: site.agent.state()["tunnel"]["state"] == "open")
    pulses = pulse(site, lambda: None)
    assert [p.broken for p in pulses] == [""] * STREAMS and site.paths() == 0
    assert site.agent.metrics()['edgeway_tunnel_connections_total{result="open"}'] == 1
