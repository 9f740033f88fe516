"""Neighbours whose tunnels end at different replicas of the hub. No Node names a site: all are one. edge-1 (its tunnel is at the first
hub) and edge-3 (at the second) reach plain-9, which runs no agent, and a printer; edge-1 reaches edge-2, too.
"""
import os

import pytest

import replicas
import tunnelkit
from lab import Agent, Machine, wait_for
from replicas import request, tunnel_of, url
from test_neighbours import PRINTER, PRINTERS, Lan

as_before = replicas.as_before
REACH = {"edge-1": ["plain-9", "edge-2:7000", PRINTERS], "edge-2": [], "edge-3": ["plain-9", PRINTERS]}
LAN = {name: f"192.168.1.1{name[-1]}" for name in ("edge-1", "edge-2", "edge-3", "plain-9")}


class Town(replicas.Town):
    def __init__(self, lab):
        super().__init__(lab)
        lan = Lan(lab, "a")
        self.plain, self.printer = Machine(lab, "plain-9", attach=False), Machine(lab, "printer", attach=False)
        for m in (*self.nodes, self.plain):
            lan.plug(m, LAN[m.name])
        lan.plug(self.printer, PRINTER)
        self.backend(self.plain, "kubelet", "--http", "10250")
        self.backend(self.printer, "jet", "--http", "9100")
        for h in self.hubs:
            self.publish(h)
        self.wait_declared()

    def publish(self, hub):
        hub.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n},
                                   "status": {"addresses": [{"type": "InternalIP", "address": a}]}} for n, a in LAN.items()])

    def join(self, node, *hubs):
        return Agent(node, hubs[0], "--hub.url", url(*hubs), "--tunnel.allow", tunnelkit.ALLOW, "--tunnel.reach",
                     ",".join(REACH[node.name]))

    def declared(self, hub):
        """{(what, via): here?} as this hub knows it."""
        return {(n["node"], n["via"]): n["here"] for n in hub.state()["hub"]["neighbours"] if n["state"] != "refused"}

    def wait_declared(self):
        """Every hub knows what each node reaches, and through which hub."""
        want = {(what, via) for via in REACH for what in REACH[via]}
        for h in self.hubs:
            wait_for("declarations", lambda h=h: self.declared(h) == {
                (what, via): tunnel_of(h, via) is not None for what, via in want})


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    made.logs()


def log_since(hub):
    at = len(hub.process.log())
    return lambda: hub.process.log()[at:]


def test_at_either_hub(town):
    """Each takes the neighbour whose tunnel is its own; for what that one does not reach, the other's."""
    for h, via in zip(town.hubs, ("edge-1", "edge-3")):
        said = log_since(h)
        for host, port, name in (("plain-9", 10250, "plain-9"), (LAN["plain-9"], 10250, "plain-9"), (PRINTER, 9100, "printer")):
            assert request(h, host, port) == (200, name + "\n")
        wait_for("audit", lambda: f"192.168.1.19:10250 for plain-9 via {via}" in said())
        assert f'via {via} at ' not in said()


def test_a_neighbour_at_the_other_hub(town):
    """Through the peer, marked as such in the audits of both; also for a node whose own tunnel is gone from it."""
    first, second = town.hubs
    town.agents[2].process.kill()
    wait_for("edge-3 gone", lambda: not tunnel_of(second, "edge-3") and ("plain-9", "edge-3") not in town.declared(first))
    said, there = log_since(second), log_since(first)
    assert request(second, "plain-9", 10250) == (200, "plain-9\n") and request(second, PRINTER, 9100) == (200, "printer\n")
    wait_for("audits", lambda: "192.168.1.19:10250 for plain-9 via edge-1 at hub-1" in said() and "door=peer" in there())
    town.agents[1].process.kill()
    wait_for("edge-2 gone", lambda: not tunnel_of(first, "edge-2"))
    assert request(second, "edge-2", 7000) == (200, "edge-2\n") and request(first, "edge-2", 7000) == (200, "edge-2\n")
    wait_for("audit", lambda: "192.168.1.12:7000 for edge-2 via edge-1 at hub-1" in said())
    for a in town.agents[1:]:
        a.start()
    town.wait_whole()
    town.wait_declared()
    assert request(second, "edge-2", 7000) == (200, "edge-2\n") and "edge-2:7000 via edge-2 at hub-1" in said()
    assert "own tunnel takes over" in said()


def test_a_hub_is_killed(town):
    """What its nodes have told it counts no more; they tell the other one."""
    first, second = town.hubs
    first.process.kill()
    wait_for("forgotten or told anew", lambda: all(town.declared(second).values()))
    wait_for("edge-1 has come", lambda: ("edge-2:7000", "edge-1") in town.declared(second))
    assert request(second, "plain-9", 10250) == (200, "plain-9\n") and request(second, PRINTER, 9100) == (200, "printer\n")
    os.unlink(first.socket)
    first.start()
    town.wait_whole()
    town.wait_declared()
    assert request(first, "plain-9", 10250) == (200, "plain-9\n")
