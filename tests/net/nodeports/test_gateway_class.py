"""Services of type LoadBalancer with loadBalancerClass edgeway.io/node: the addresses that the hub writes into their status."""
import pytest

from kube import ACCOUNT, NAMESPACE, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import BARE_PYTHON, Agent, Node, endpoint_slice, service, wait_for

pytestmark = pytest.mark.plain_build  # cluster_gateway_test and route_status_test run the hub's part

LEASE = [["create", "leases", "", NAMESPACE]] + [[verb, "leases", "edgeway-hub-gateway", NAMESPACE] for verb in ("get", "patch")]


def gateway(name, annotations=None, kind="edgeway.io/node", number=30070):
    s = service(name, ("http", 80, 8080), selector="web", annotations=annotations, type="LoadBalancer", loadBalancerClass=kind)
    s["spec"]["ports"][0]["nodePort"] = number
    return s


def node_object(node, ready="True", **addresses):
    listed = [{"type": "InternalIP", "address": node.address}, *({"type": t, "address": a} for t, a in addresses.items())]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": {"kubernetes.io/hostname": node.name}},
            "status": {"addresses": listed, "conditions": [{"type": "Ready", "status": ready}]}}


class World:
    def __init__(self, lab):
        self.api = ApiServer(lab)
        self.api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights("rbac-gateway.yaml") + LEASE)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        self.put(node_object(self.nodes[0]), node_object(self.nodes[1], ExternalIP="203.0.113.12"))
        self.hub = KubeHub(lab, self.api, "--source.kubernetes.namespace", NAMESPACE)
        self.agents = [Agent(n, self.hub) for n in self.nodes]

    def put(self, *objects):
        for o in objects:
            self.api.ctl("put", group="", resource="nodes", obj={k: v for k, v in o.items() if k not in ("apiVersion", "kind")})

    def ingress(self, name):
        return [i["ip"] for i in self.api.read("services", name, "default")["status"].get("loadBalancer", {}).get("ingress") or []]

    def writes(self):
        return self.hub.state()["hub"]["routeStatus"]["writes"]


@pytest.fixture(scope="module")
def world(lab):
    made = World(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


def test_the_nodes_that_it_selects(world):
    """An ExternalIP counts before an InternalIP."""
    world.api.apply(gateway("all"), gateway("one", {"edgeway.io/nodes": "kubernetes.io/hostname=edge-1"}, number=30071),
                    gateway("other", kind="example.com/other", number=30072))
    wait_for("all", lambda: world.ingress("all") == ["192.0.2.11", "203.0.113.12"])
    wait_for("one", lambda: world.ingress("one") == ["192.0.2.11"])
    assert world.ingress("other") == []


def test_a_node_that_is_not_ready(world):
    world.put(node_object(world.nodes[0], ready="Unknown"))
    wait_for("without it", lambda: world.ingress("all") == ["203.0.113.12"] and world.ingress("one") == [])
    world.put(node_object(world.nodes[0]))
    wait_for("with it", lambda: world.ingress("all") == ["192.0.2.11", "203.0.113.12"] and world.ingress("one") == ["192.0.2.11"])


def test_nothing_is_written_while_nothing_changes(world):
    wait_for("idle", lambda: world.hub.state()["hub"]["routeStatus"]["waiting"] == 0)
    before = world.writes()
    world.api.kubectl("annotate", "service", "all", "touched=yes")
    world.api.apply(gateway("third", number=30073))
    wait_for("third", lambda: world.ingress("third") == ["192.0.2.11", "203.0.113.12"])
    assert world.writes() == before + 1
    used = [u for u in world.api.ctl("used", user=ACCOUNT) if u[2] == "services/status"]
    assert {u[0] for u in used} == {"patch"}


def test_a_port_that_a_node_cannot_serve(world):
    """An Event on the Service names the node."""
    world.api.apply(gateway("held", number=30075), endpoint_slice("held-1", "held", 8080, "192.0.2.50", port_name="http"))
    world.nodes[0].start("holder", *BARE_PYTHON, "-c", "import socket, time; s = socket.create_server(('', 30075)); time.sleep(999)")
    wait_for("event", lambda: [e for e in world.api.read_all("events", "default")
                               if e["involvedObject"]["name"] == "held" and e["reason"] == "NodePortNotServed" and "edge-1" in e["message"]])


def test_an_agent_that_is_gone(world):
    world.agents[1].stop()
    wait_for("without it", lambda: world.ingress("all") == ["192.0.2.11"])
    world.agents[1].start()
    wait_for("with it", lambda: world.ingress("all") == ["192.0.2.11", "203.0.113.12"])


def test_without_the_right(world):
    """It is said, and done as soon as the right is there."""
    rights = RIGHTS + [r for r in optional_rights("rbac-gateway.yaml") if r[1] != "services/status"] + LEASE
    world.api.ctl("grant", user=ACCOUNT, rights=rights)
    world.api.apply(gateway("late", number=30074))
    wait_for("said", lambda: "services/status" in world.hub.state()["hub"]["routeStatus"]["problem"])
    world.api.ctl("grant", user=ACCOUNT, rights=rights + [["patch", "services/status"]])
    wait_for("written", lambda: world.ingress("late") == ["192.0.2.11", "203.0.113.12"])
