"""Pods called by their own addresses: <address, dashed>.<namespace>.pod.D, where the nodes' pods have the same addresses, without any Service."""
import json
import signal

import pytest

import lab as labs
import tunnelkit
from httpkit import socket_of
from lab import PATIENCE_S, pod, service, wait_for

DIRECT = "edgeway_tunnel_outward_direct_total"
D = "cluster.local"


def node_object(name, address, site):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"edgeway.io/site": site}},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]}}


class Site(tunnelkit.Site):
    """Two nodes on one LAN and one of another site, whose first pods have one address, 172.17.0.2: each is in a namespace of its own. The
    second pods are clients of namespace default, on the first node one of namespace strangers as well."""

    def __init__(self, lab):
        super().__init__(lab)
        self.nodes.append(labs.Node(lab, "edge-3", "192.0.2.13"))
        self.hub.write("nodes.yaml", *[node_object(n.name, n.address, "berlin" if i < 2 else "paris") for i, n in enumerate(self.nodes)])
        self.agents.append(labs.Agent(self.nodes[2], self.hub))
        self.wait_open()
        self.pods = [n.pod("web") for n in self.nodes]
        self.servers = [p.serve("--http", "8080", "--tcp", "9090", "--tcp", "7070") for p in self.pods]
        self.clients = [n.pod("client") for n in self.nodes]
        self.stranger = self.nodes[0].pod("stranger")
        self.say()
        for a in self.agents:
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
            wait_for("synced", lambda a=a: a.state()["meta"]["synced"])
        for c in (*self.clients, self.stranger):
            c.copy_resolv_conf()

    def say(self):
        ports = ("http", 8080, 0), ("echo", 9090, 0)
        self.hub.write("pods.yaml", *[pod(f"web-{i}", n, p.address, *ports, namespace=f"shop-{i}")
                                      for i, (n, p) in enumerate(zip(self.nodes, self.pods), 1)])
        self.hub.write("clients.yaml", *[pod(f"client-{i}", n, c.address) for i, (n, c) in enumerate(zip(self.nodes, self.clients), 1)],
                       pod("stranger", self.nodes[0], self.stranger.address, namespace="strangers"))

    def wait_whole_again(self):
        self.wait_open()
        wait_for("metadata", lambda: all(a.state()["meta"]["synced"] for a in self.agents))

    def name(self, i, address="172.17.0.2"):
        return f"{address.replace('.', '-')}.shop-{i}.pod.{D}"

    def echo(self, client, host, port=9090):
        s = socket_of(client)
        s.connect((client.address_of(host, f"@{client.node.gateway}"), port))
        with s:
            name = s.recv(100)
            s.sendall(b"ping\n")
            return name + s.recv(100)


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


@pytest.fixture()
def frozen(site):
    site.hub.process.popen.send_signal(signal.SIGSTOP)
    yield
    site.hub.process.popen.send_signal(signal.SIGCONT)


def test_same_address_on_each_node(site):
    """The namespace says which pod it is: of the LAN, of another site, and of the node itself."""
    for i in (1, 2, 3):
        assert site.clients[0].get(f"http://{site.name(i)}:8080/") == (200, f"edge-{i}.web\n")
        assert site.echo(site.clients[0], site.name(i)).startswith(f"edge-{i}.web\n".encode())
        assert site.clients[2].get(f"http://{site.name(i)}:8080/") == (200, f"edge-{i}.web\n")
    assert len({site.clients[0].address_of(site.name(i), "@172.17.0.1") for i in (1, 2, 3)}) == 3


def test_a_port_that_the_pod_does_not_declare(site):
    """Containers listen where they like: the first connection waits for the hub's word."""
    for i in (1, 2, 3):
        assert site.echo(site.clients[0], site.name(i), 7070).startswith(f"edge-{i}.web\n".encode())
    served = site.nodes[0].dns(site.name(2), "A", f"@{site.nodes[0].gateway}")
    assert served[1]
    with pytest.raises(OSError):  # nobody listens there
        site.echo(site.clients[0], site.name(2), 7071)


def test_frozen_hub(site, frozen):
    """What was used goes on, also at its undeclared port: by the other node's agent."""
    before = site.agents[0].metrics()[DIRECT]
    assert site.clients[0].get(f"http://{site.name(2)}:8080/") == (200, "edge-2.web\n")
    assert site.echo(site.clients[0], site.name(2), 7070).startswith(b"edge-2.web\n")
    assert site.agents[0].metrics()[DIRECT] == before + 2


def test_restarts_without_a_hub(site):
    """Names, addresses and ports are in the database."""
    address = site.clients[0].address_of(site.name(2), "@172.17.0.1")
    site.hub.process.kill()
    try:
        for a in site.agents[:2]:
            a.stop()
        for a in site.agents[:2]:
            a.start()
        assert site.clients[0].address_of(site.name(2), "@172.17.0.1") == address
        assert site.clients[0].get(f"http://{site.name(2)}:8080/") == (200, "edge-2.web\n")
        assert site.echo(site.clients[0], site.name(2), 7070).startswith(b"edge-2.web\n")
        # nobody knows of it, and nobody says that there is none
        assert site.clients[0].dns("172-17-0-99.shop-2.pod.cluster.local", "A", "@172.17.0.1")[0] == "SERVFAIL"
    finally:
        site.hub.start()
        site.wait_whole_again()
    assert site.clients[0].address_of(site.name(2), "@172.17.0.1") == address
    assert site.echo(site.clients[0], site.name(2), 7070).startswith(b"edge-2.web\n")
