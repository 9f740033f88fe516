"""Which endpoints a node prefers: trafficDistribution, topology hints and internalTrafficPolicy, from manifest to request."""
import collections
import json

import pytest

from lab import endpoint_slice, service, wait_for

pytestmark = pytest.mark.plain_build  # choices of the hub, which the units make with the sanitizers, too

OWN = {1: {"edge-1.web-0", "edge-1.web-1"}, 2: {"edge-2.web-0", "edge-2.web-1"}}


@pytest.fixture(scope="module")
def zones(mesh):
    """edge-1 in zone a, edge-2 in zone b; the same site, so that each can dial the other. Slices may name the nodes' published ports."""
    for agent in mesh.agents:
        agent.process.stop()
        agent.options += ("--lb.allow", "192.0.2.0/24")
        agent.start()
    mesh.hub.write("nodes.yaml", *[
        {"apiVersion": "v1", "kind": "Node",
         "metadata": {"name": n.name, "labels": {"edgeway.io/site": "plant", "topology.kubernetes.io/zone": z}}}
        for n, z in zip(mesh.nodes, "ab")])
    return mesh


def tiers(agent, name):
    """{tier: number of endpoints} of the service's first port."""
    services = json.loads(agent.ask("/debug/services")[1])["services"]
    ports = [s["ports"] for s in services if (s["namespace"], s["name"]) == ("default", name)]
    return dict(collections.Counter(e["tier"] for e in ports[0][0]["endpoints"])) if ports else None


def who(client, name, times=48):
    return {client.get(f"http://{name}/")[1].strip() for _ in range(times)}


@pytest.mark.parametrize("distribution, first", [("PreferSameNode", "node"), ("PreferSameZone", "zone"),
                                                 ("PreferClose", "zone")])
def test_distribution(zones, distribution, first):
    name = distribution.lower()
    zones.hub.write(f"{name}.yaml",
                    service(name, ("http", 80, "http"), selector="web", trafficDistribution=distribution))
    for number, (agent, client) in enumerate(((zones.agent1, zones.client1), (zones.agent2, zones.client2)), 1):
        wait_for("tiers", lambda a=agent: tiers(a, name) == {first: 2, "rest": 2})  # nodes connect again for a new zone
        assert who(client, name) == OWN[number]


def test_without_a_wish_all_serve(zones):
    wait_for("tiers", lambda: tiers(zones.agent1, "edge-nginx") == {"rest": 4})
    assert who(zones.client1, "edge-nginx", 96) == zones.backends


def test_local_traffic(zones):
    zones.hub.write("local.yaml",
                    service("local", ("http", 80, "http"), selector="web", internalTrafficPolicy="Local"))
    for number, (agent, client) in enumerate(((zones.agent1, zones.client1), (zones.agent2, zones.client2)), 1):
        wait_for("local endpoints", lambda a=agent: tiers(a, "local") == {"rest": 2})
        assert who(client, "local") == OWN[number]


def hinted(zones, *names):
    """A slice of the pods' published ports; its zones are for those nodes that the hints name."""
    made = endpoint_slice("hinted-1", "hinted", 30080, *[n.address for n in zones.nodes], port_name="http")
    for endpoint, zone in zip(made["endpoints"], names):
        if zone:
            endpoint["hints"] = {"forZones": [{"name": zone}]}
    return made


def test_hints(zones):
    bare = service("hinted", ("http", 80, 30080), selector="none")
    # Crosswise, so that only the hints can be the reason.
    zones.hub.write("hinted.yaml", bare, hinted(zones, "b", "a"))
    for agent, client, want in ((zones.agent1, zones.client1, "edge-2.web-0"), (zones.agent2, zones.client2, "edge-1.web-0")):
        wait_for("hints", lambda a=agent: tiers(a, "hinted") == {"zone": 1, "rest": 1})
        assert who(client, "hinted", 24) == {want}
    # An endpoint without hints: nobody's count.
    zones.hub.write("hinted.yaml", bare, hinted(zones, "b", None))
    wait_for("no tiers", lambda: tiers(zones.agent1, "hinted") == {"rest": 2})
    assert who(zones.client1, "hinted", 48) == {"edge-1.web-0", "edge-2.web-0"}
