"""A hub and two nodes with tunnels, and the rule that every test ends where it began: the same descriptors, no stream, nothing held.

    @pytest.fixture(scope="module")
    def site(lab):
        made = tunnelkit.Site(lab)
        yield made
        made.logs()

    as_before = tunnelkit.as_before
"""
import collections
import json
import os

import pytest

from lab import Agent, Hub, Node, Timeout, wait_for

ALLOW = "node,pods,services,node:7000-7999"


def tunnels(hub):
    return {t["node"]: t for t in json.loads(hub.ask("/tunnels")[1])["tunnels"] if t["state"] == "open"}


def descriptors(daemon):
    """How many of each kind; of sockets those of TCP, since who asks for names opens and closes others all the time."""
    kinds = collections.Counter()
    for fd in os.listdir(f"/proc/{daemon.process.pid}/fd"):
        try:
            kinds[os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}").split(":")[0]] += 1
        except FileNotFoundError:
            pass
    machine = getattr(daemon, "machine", None) or daemon.node
    shown = machine.run("ss", "-tanpH").stdout.splitlines()
    kinds["socket"] = sum(f"pid={daemon.process.pid}," in line for line in shown)
    return kinds


class Site:
    def __init__(self, lab, *hub_options, allow=ALLOW):
        self.lab = lab
        self.hub = Hub(lab, *hub_options)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        self.agents = [Agent(n, self.hub, "--tunnel.allow", allow) for n in self.nodes]
        self.wait_open()

    def wait_open(self, *names, seconds=20):
        names = names or [n.name for n in self.nodes]
        wait_for(f"tunnels of {names}", lambda: set(names) <= set(tunnels(self.hub)), seconds)

    def wait_whole(self):
        """The metadata connections are there as well, and each is there once."""
        self.wait_open()
        wait_for("metadata", lambda: all(a.state()["meta"]["synced"] for a in self.agents), 60)
        wait_for("no former tunnel", lambda: len(json.loads(self.hub.ask("/tunnels")[1])["tunnels"]) == len(self.nodes), 60)

    def logs(self):
        for a in self.agents:
            print(f"--- log of {a.node.name}\n{a.process.log()[-4000:]}")
        print(f"--- log of the hub\n{self.hub.process.log()[-4000:]}")


def quiet(daemon):
    """No stream, no dial under way, no connection of a caller, and nothing held for a reader?"""
    gauges = ("edgeway_tunnel_streams", "edgeway_tunnel_joined", "edgeway_tunnel_dialling", "edgeway_ingress_connections",
              "edgeway_ingress_pending", 'edgeway_tunnel_memory_bytes{what="held"}', 'edgeway_tunnel_memory_bytes{what="granted"}')
    return {name: value for name, value in daemon.metrics().items() if name in gauges and value != 0} == {}


@pytest.fixture(autouse=True)
def as_before(site):
    """Descriptors and gauges are afterwards what they were."""
    daemons = [site.hub, *site.agents]
    site.wait_whole()
    for d in daemons:
        wait_for("quiet", lambda d=d: quiet(d), 30)
    before = [(d.process.pid, descriptors(d)) for d in daemons]
    yield
    site.wait_whole()
    for d in daemons:
        wait_for("no stream is left", lambda d=d: quiet(d), 30)
    for d, (pid, n) in zip(daemons, before):
        if d.process.pid == pid:
            more = {}
            try:
                wait_for("descriptors as before", lambda d=d, n=n: not (more.update(now=descriptors(d) - n) or more["now"]), 30)
            except Timeout:
                pytest.fail(f"{d.socket}: more descriptors than before: {more}")
