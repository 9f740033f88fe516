"""Pods by their own addresses where the caller's node and the pod's node have their connections to different hubs: the other hub hears of
the pod by the first call alone."""
import pytest

import replicas
import tunnelkit
from httpkit import socket_of
from lab import Agent, pod, service, wait_for

D = "cluster.local"
CALLS = 6


class Town(replicas.Town):
    """edge-1 is at the first hub, edge-3 at the second; edge-3 dials endpoints that it knows alone. No two agents see each other."""

    def join(self, node, *hubs):
        allow = "node,services" if node.name == "edge-3" else tunnelkit.ALLOW
        return Agent(node, hubs[0], "--hub.url", replicas.url(*hubs), "--tunnel.allow", allow, "--mesh.peerPort", "0")

    def write(self, name, *objects):
        for h in self.hubs:
            h.write(name, *objects)


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    made.send_home(made.agents[0], made.hubs[0])
    made.send_home(made.agents[2], made.hubs[1])
    made.web, made.client, made.stranger = made.nodes[2].pod("web"), made.nodes[0].pod("client"), made.nodes[0].pod("stranger")
    made.web.serve("--http", "8080", "--tcp", "7070")
    made.write("callers.yaml", pod("client", made.nodes[0], made.client.address),
               pod("stranger", made.nodes[0], made.stranger.address, namespace="strangers"))
    yield made
    made.logs()


def call(town, client, name, port):
    """What a connection by the name says first."""
    s = socket_of(client)
    s.connect((client.address_of(name, "@172.17.0.1"), port))
    with s:
        return s.recv(100)


def test_first_calls(town):
    """At a port that the pod does not declare, each time of a pod that no hub was asked for before."""
    town.write("pods.yaml", *[pod(f"web-{i}", town.nodes[2], town.web.address, ("http", 8080, 0), namespace=f"shop-{i}") for i in range(CALLS)])
    dashed = town.web.address.replace(".", "-")
    wait_for("the pods", lambda: town.client.address_of(f"{dashed}.shop-{CALLS - 1}.pod.{D}", "@172.17.0.1"))
    for i in range(CALLS - 1):
        assert call(town, town.client, f"{dashed}.shop-{i}.pod.{D}", 7070) == b"edge-3.web\n", i
    assert town.hubs[1].metrics()["edgeway_hub_pods_wanted"] >= CALLS - 1


def test_who_may_not_call_adds_no_port(town):
    """The other hub asks the pod's rules before it gives the pod the port."""
    town.write("guarded.yaml", pod("guarded", town.nodes[2], town.web.address, ("http", 8080, 0), namespace="guarded"),
               service("guarded", ("http", 80, 8080), namespace="guarded", annotations={"edgeway.io/allow-from": "namespaces=default"}))
    name = f"{town.web.address.replace('.', '-')}.guarded.pod.{D}"
    wait_for("the pod", lambda: town.client.address_of(name, "@172.17.0.1"))
    assert call(town, town.client, name, 7070) == b"edge-3.web\n"
    with pytest.raises(OSError):
        assert not call(town, town.stranger, name, 7070)
        raise ConnectionError("closed")
