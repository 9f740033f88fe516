"""Transfers that run through the tunnel while something happens to it: what can go on does, whole; what cannot ends on both sides, and
nobody takes a part for the whole. Afterwards gauges and descriptors are what they were.
"""
import shutil
import signal

import pytest

import tunnelkit
from lab import Agent, Node, wait_for
from tunnelkit import Transfers, tunnels

as_before = tunnelkit.as_before
TARGET = "edge-1:7500"


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, *tunnelkit.INGRESS_OPTIONS)
        self.server = self.backend(self.nodes[0], "server", "--stream", "7500", "--http", "7001")

    def transfers(self):
        """They have begun at the server, too: the callers are sooner."""
        self.told = len(self.server.log())
        made = Transfers(self.hub.machine, TARGET)
        wait_for("all have begun", lambda: self.server.log()[self.told:].count("begun ") == 10)
        return made

    def ends(self):
        """What the server says of its transfers since then: up and down, done and broken."""
        return [" ".join(line.split()[:2]) for line in self.server.log()[self.told:].splitlines()
                if line.startswith(("up ", "down "))]

    def wait_ends(self, *ends):
        """All ten have told, each half the same."""
        wait_for("the server knows", lambda: len(self.ends()) == 10)
        assert sorted(self.ends()) == sorted(5 * ends)

    def get(self):
        return self.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080")


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


def whole(site, transfers):
    assert transfers.results() == {"whole": 10}
    site.wait_ends("down done", "up done")


def test_hub_killed(site):
    """The callers' connections end; the node's targets see a reset, so that none takes what came for all there was."""
    transfers = site.transfers()
    site.hub.process.kill()
    results = transfers.results()
    assert results.total() == 10 and "whole" not in results and None not in results
    site.wait_ends("down broken", "up broken")
    wait_for("the agent has let go", lambda: tunnelkit.quiet(site.agents[0]))
    site.hub.start()
    site.wait_open()
    whole(site, site.transfers())


def test_link_cut_for_5_s(site):
    """Nothing is lost, neither of what was on its way nor of what waited; it is the same tunnel as before, or another one was
    sooner and the former finishes."""
    epoch = tunnels(site.hub)["edge-1"]["epoch"]
    transfers = site.transfers()
    node = site.nodes[0]
    node.run("ip", "link", "set", "eth0", "down")
    try:
        transfers.go_on()
        node.run("sleep", 5)
    finally:
        node.run("ip", "link", "set", "eth0", "up")
    whole(site, transfers)
    log = site.agents[0].process.log()
    assert tunnels(site.hub)["edge-1"]["epoch"] == epoch or "the former one finishes" in log, log


def test_link_cut_for_good(site):
    """Longer than a tunnel lives without a word: both ends know, and end what they had."""
    transfers = site.transfers()
    node = site.nodes[0]
    node.run("ip", "link", "set", "eth0", "down")
    try:
        results = transfers.results()
        assert "whole" not in results and None not in results
        wait_for("the agent has let go", lambda: tunnelkit.quiet(site.agents[0]))
        site.wait_ends("down broken", "up broken")
    finally:
        node.run("ip", "link", "set", "eth0", "up")
    site.wait_open("edge-1")
    whole(site, site.transfers())


def test_a_newer_connection(lab, site):
    """The same node comes from another machine (moved, its former self still there): it gets what is new, and the older connection
    keeps what it has, also when the newer one dies first.
    """
    old = tunnels(site.hub)["edge-1"]["epoch"]
    transfers = site.transfers()
    twin = Node(lab, "twin", "192.0.2.19")
    site.backend(twin, "server", "--http", "7001")
    agent = Agent(twin, None, "--node", "edge-1", "--tunnel.allow", tunnelkit.ALLOW, start=False)
    shutil.copytree(site.agents[0].data, agent.data)
    agent.start()
    try:
        wait_for("the newer tunnel", lambda: tunnels(site.hub)["edge-1"]["epoch"] > old)
        assert site.get() == (200, "twin.server\n")
        wait_for("no others", lambda: site.hub.metrics()["edgeway_tunnel_streams"] == 10)
    finally:
        agent.process.kill()
    wait_for("its end is known", lambda: "edge-1" not in tunnels(site.hub))
    assert site.get()[0] == 503
    whole(site, transfers)
    site.wait_open("edge-1")
    assert site.get() == (200, "edge-1.server\n")


def test_agent_stops(site):
    """SIGTERM: nothing new, what runs goes on to its end, and then the agent is gone."""
    transfers = site.transfers()
    agent = site.agents[0]
    agent.process.popen.send_signal(signal.SIGTERM)
    wait_for("nothing new", lambda: site.get()[0] == 503)
    assert agent.process.alive()
    whole(site, transfers)
    assert agent.process.wait() == 0 and "streams are cut" not in agent.process.log()
    agent.start()
    site.wait_open("edge-1")


def test_hub_stops(site):
    """The same at the other end."""
    transfers = site.transfers()
    hub = site.hub
    hub.process.popen.send_signal(signal.SIGTERM)
    wait_for("nothing new", lambda: site.get()[0] == 0)
    assert hub.process.alive()
    whole(site, transfers)
    assert hub.process.wait() == 0
    hub.start()
    site.wait_open()


@pytest.mark.parametrize("who", ["agent", "hub"])
def test_what_does_not_end_is_cut(site, who):
    """Transfers whose reader sleeps do not keep a daemon from stopping: after drainTimeout they are cut, and told as broken."""
    transfers = site.transfers()
    daemon = site.agents[0] if who == "agent" else site.hub
    try:
        assert daemon.process.stop(seconds=40) == 0
        results = transfers.results()
        assert "whole" not in results and None not in results
        site.wait_ends("down broken", "up broken")
    finally:
        daemon.start()
        site.wait_open()
