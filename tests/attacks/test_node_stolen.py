"""Who has a copy of a node's key and certificate, while the node itself goes on."""
import types

import pytest

import replicas
import tunnelkit
from lab import Agent, Machine, Node, wait_for
from pki import Authority
from test_tunnel_hostile import HEADERS, Rogue


class Town:
    """edge-1 has its tunnel to one of two hubs, and hub.tunnels is 1."""

    def __init__(self, lab):
        ca = Authority(lab.dir, "shared")
        self.hubs = [replicas.start_hub(lab, ca, i) for i in range(2)]
        replicas.name_hubs(self.hubs)
        replicas.know_each_other(self.hubs)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.agent = Agent(self.node, self.hubs[0], "--hub.url", replicas.url(*self.hubs), "--tunnel.allow", tunnelkit.ALLOW)
        replicas.Town.backend(self, self.node, "web", "--http", str(replicas.PORT))
        self.thief = Machine(lab, "thief", address="192.0.2.50")


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    for h in made.hubs:
        print(f"--- log of {h.machine.name}\n{h.process.log()[-4000:]}")


def test_a_standby_tunnel_gets_nothing(town):
    """It replaces no tunnel, so that its node would not notice: hubs use it only where the node's own one is away or silent."""
    for h in town.hubs:
        wait_for("answers", lambda h=h: replicas.request(h, "edge-1") == (200, "edge-1\n"))
    [other] = [h for h in town.hubs if not replicas.tunnel_of(h, "edge-1")]
    opened = types.SimpleNamespace(rogue=types.SimpleNamespace(data=town.agent.data, node=town.thief), wait_open=lambda name: wait_for(
        "the thief's tunnel", lambda: other.metrics()["edgeway_tunnel_standby"] == 1))
    thief = Rogue(opened, other.address, "edgeway-tunnel-standby/1")
    assert [replicas.request(other, "edge-1") for _ in range(5)] == 5 * [(200, "edge-1\n")]
    thief.s.settimeout(1)
    assert thief.await_frame(HEADERS) is None
    thief.close()
