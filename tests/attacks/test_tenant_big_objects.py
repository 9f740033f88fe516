"""A tenant writes Services larger than a node takes, and objects that parsers stumble over: no node is cut, and nobody else's Services suffer."""
import re

import pytest

from kube import ApiServer, KubeHub, node_object
from lab import Agent, Lab, Node, wait_for

PORTS, ENDPOINTS, A_SLICE = 20, 5000, 1000
BIG = [f"big-{i}" for i in range(3)]


class World:
    def __init__(self, lab):
        self.lab = lab
        self.api = ApiServer(lab)
        self.api.ctl("put", group="", resource="namespaces", obj={"metadata": {"name": "tenant"}, "status": {"phase": "Active"}})
        self.hub = KubeHub(lab, self.api)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.api.apply(node_object(self.node))
        self.agent = Agent(self.node, self.hub)

    def put(self, group, resource, name, ns="tenant", meta=None, **obj):
        self.api.ctl("put", group=group, resource=resource,
                     obj={"apiVersion": f"{group}/v1" if group else "v1", "metadata": {"name": name, "namespace": ns, **(meta or {})}, **obj})

    def service(self, name, n_ports, ns="tenant", meta=None, protocol="TCP"):
        self.put("", "services", name, ns, meta, kind="Service",
                 spec={"type": "ClusterIP", "ports": [{"name": f"p{i}", "port": 1000 + i, "protocol": protocol} for i in range(n_ports)]})

    def slices(self, name, n_ports, n_endpoints, ns="tenant", protocol="TCP"):
        for first in range(0, n_endpoints, A_SLICE):
            self.put("discovery.k8s.io", "endpointslices", f"{name}-{first}", ns, {"labels": {"kubernetes.io/service-name": name}},
                     kind="EndpointSlice", addressType="IPv4",
                     ports=[{"name": f"p{i}", "port": 8000 + i, "protocol": protocol} for i in range(n_ports)],
                     endpoints=[{"addresses": [f"198.{18 + (i >> 16)}.{i >> 8 & 255}.{i & 255}"], "conditions": {"ready": True}}
                                for i in range(first, min(first + A_SLICE, n_endpoints))])

    def known(self):
        """Does the node hold all that the hub tells, and has the hub nothing more to say?"""
        hub = self.hub.state()["hub"]
        row = next((n for n in hub["nodes"] if n["node"] == "edge-1"), {})
        return (row.get("connected") and row["pending"] + row["unacked"] == 0 and row["held"] == 0 and
                self.agent.state()["services"] == len(hub["services"]))

    def address_of(self, name):
        return self.node.address_of(f"{name}.svc.cluster.local", f"@{self.node.gateway}")


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        made = World(lab)
        yield made
        for p in lab.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def test_service_beyond_the_limits(world):
    world.service("web", 1, ns="default")
    world.service(BIG[0], 1)  # small at first: what nodes know of it stays
    wait_for("known", lambda: world.address_of("web.default") and world.address_of(f"{BIG[0]}.tenant"))
    for name in BIG:
        world.service(name, PORTS)
        world.slices(name, PORTS, ENDPOINTS)
    wait_for("refused", lambda: {s["name"] for s in world.hub.state()["hub"]["beyondLimits"]} == set(BIG))
    assert "more than 50000 endpoints" in world.hub.state()["hub"]["beyondLimits"][0]["reason"]
    assert len(world.hub.state()["hub"]["beyondLimits"]) == len(BIG)
    log = world.hub.process.log()
    assert all(f"service=tenant/{name}" in log for name in BIG) and "a service is refused, nodes keep what they know of it" in log
    shown = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "status", check=False).stdout
    assert re.search(r"services +\d+; 3 REFUSED, beyond what a node takes", shown), shown
    assert f"tenant/{BIG[1]}: beyond what a node takes" in shown
    shown = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "doctor", check=False).stdout
    assert "split the Service" in shown
    # The node is not waited for, holds what it held, and learns of everything else.
    world.service("later", 1, ns="default")
    wait_for("the rest goes on", lambda: world.known() and world.address_of("later.default"))
    assert world.address_of(f"{BIG[0]}.tenant")

    def events():
        found = world.api.read_all("events", "tenant")
        return {e["involvedObject"]["name"]: e["message"] for e in found if e["reason"] == "BeyondEdgeLimits"}

    wait_for("events", lambda: set(events()) == set(BIG), pause=0.5)
    assert "50000 endpoints" in events()[BIG[0]]
    for name in BIG:
        for first in range(0, ENDPOINTS, A_SLICE):
            world.api.ctl("remove", group="discovery.k8s.io", resource="endpointslices", ns="tenant", name=f"{name}-{first}")
    wait_for("within the limits again", lambda: world.hub.state()["hub"]["beyondLimits"] == [] and world.known())
    assert world.address_of(f"{BIG[1]}.tenant")
    assert "stopped acknowledging" not in world.hub.process.log() and "lost the connection" not in world.agent.process.log()


def test_the_largest_that_is_told(world):
    """What is just within the limits is served, by the proxy and by the kernel."""
    for name, protocol, n_ports in (("wide", "TCP", 8), ("kernel", "UDP", 1)):
        world.service(name, n_ports, protocol=protocol)
        world.slices(name, n_ports, ENDPOINTS, protocol=protocol)
        wait_for("told", lambda name=name: world.address_of(f"{name}.tenant") and world.known())
    assert world.hub.state()["hub"]["beyondLimits"] == []
    assert "lost the connection" not in world.agent.process.log()


def test_objects_that_parsers_stumble_over(world):
    """NUL and depth are a tenant's to write (annotations, managedFields); the lists and watches of all go on."""
    deep = {"f:end": {}}
    for _ in range(200):
        deep = {"f:x": deep}
    meta = {"annotations": {"note": "a\0b", "k\0": "\x01ü名😀"}, "managedFields": [{"manager": "m", "fieldsV1": deep}]}
    world.service("odd", 1, meta=meta)
    world.put("", "pods", "odd", meta=meta, kind="Pod", spec={"containers": []}, status={})
    world.service("after-odd", 1, ns="default")
    wait_for("read on", lambda: world.address_of("after-odd.default") and world.address_of("odd.tenant"))
    # So it is for a hub that lists them all.
    world.hub.process.stop()
    world.hub.start()
    world.service("after-restart", 1, ns="default")
    wait_for("read on", lambda: world.address_of("after-restart.default") and world.known())
