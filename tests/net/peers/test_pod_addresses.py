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
        # without "pods": an endpoint that this node does not know yet is nothing that it dials
        self.agents.append(labs.Agent(self.nodes[2], self.hub, "--tunnel.allow", "node,services"))
        self.wait_open()
        self.pods = [n.pod("web") for n in self.nodes]
        self.servers = [p.serve("--http", "8080", "--tcp", "9090", "--tcp", "7070") for p in self.pods]
        self.clients = [n.pod("client") for n in self.nodes]
        self.stranger = self.nodes[0].pod("stranger")
        self.guarded = self.nodes[1].pod("guarded")
        self.servers.append(self.guarded.serve("--http", "8080", "--tcp", "9090"))
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


def test_the_first_call_waits(site):
    """The pod's own node, and the caller's, hear of it by this very call: it waits for that, at a declared port and at another one."""
    fresh = range(8)
    site.hub.write("fresh.yaml", *[pod(f"fresh-{i}", site.nodes[n], "172.17.0.2", ("http", 8080, 0), namespace=f"fresh-{n}-{i}") for n in (0, 1, 2) for i in fresh])
    wait_for("the last one", lambda: site.clients[1].address_of(f"172-17-0-2.fresh-2-{fresh[-1]}.pod.{D}", "@172.17.0.1"))
    for n in (0, 1, 2):
        for i in fresh[:-1]:
            name = f"172-17-0-2.fresh-{n}-{i}.pod.{D}"
            if i % 2:
                url = f"http://{site.clients[0].address_of(name, '@172.17.0.1')}:8080/"
                assert site.clients[0].get(url) == (200, f"edge-{n + 1}.web\n"), (n, i)
            else:
                assert site.echo(site.clients[0], name, 7070).startswith(f"edge-{n + 1}.web\n".encode()), (n, i)
    site.hub.delete("fresh.yaml")


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


# --- who may call ---------------------------------------------------------------------------------------------------------------

GUARDED = "guarded"


@pytest.fixture()
def guarded(site):
    """A pod of edge-2 behind a Service for namespace default alone."""
    p = site.guarded
    site.hub.write("guarded.yaml", pod("guarded", site.nodes[1], p.address, ("http", 8080, 0), namespace=GUARDED),
                   service("guarded", ("http", 80, 8080), namespace=GUARDED, annotations={"edgeway.io/allow-from": "namespaces=default"}))
    wait_for("the service", lambda: site.clients[0].address_of(f"guarded.{GUARDED}.svc.{D}", "@172.17.0.1"))
    yield f"{p.address.replace('.', '-')}.{GUARDED}.pod.{D}"
    site.hub.delete("guarded.yaml")
    wait_for("it is gone", lambda: not site.clients[0].address_of(f"guarded.{GUARDED}.svc.{D}", "@172.17.0.1"))


def test_the_services_rule_guards_the_pods_address(site, guarded):
    """By its name, at a port that the Service does not have, by the address that another pod was given, and on another node."""
    url = f"http://{guarded}:8080/"
    assert site.clients[0].get(url) == (200, "edge-2.guarded\n")
    assert site.echo(site.clients[0], guarded).startswith(b"edge-2.guarded\n")  # undeclared, and asked for by one who may
    address = site.clients[0].address_of(guarded, "@172.17.0.1")
    for there in (url, f"http://{address}:8080/"):
        assert site.stranger.get(there)[0] in (403, 0)
    for port in (9090, 9091):
        assert not site.stranger.send(address, port, "hello\n")
    assert sum(v for k, v in site.agents[0].metrics().items() if 'reason="allow_from"' in k) >= 4


def test_two_rules_permit_nobody(site, guarded):
    """They cannot be joined: the reason says what to do."""
    assert site.clients[0].get(f"http://{guarded}:8080/") == (200, "edge-2.guarded\n")
    site.hub.write("second.yaml", service("second", ("http", 80, 8080), namespace=GUARDED, selector="guarded",
                                          annotations={"edgeway.io/allow-from": "namespaces=strangers"}))
    wait_for("it is closed", lambda: site.clients[0].get(f"http://{guarded}:8080/")[0] != 200)
    assert site.stranger.get(f"http://{guarded}:8080/")[0] != 200
    assert site.clients[0].get(f"http://guarded.{GUARDED}/") == (200, "edge-2.guarded\n")
    site.hub.delete("second.yaml")
    wait_for("open again", lambda: site.clients[0].get(f"http://{guarded}:8080/") == (200, "edge-2.guarded\n"))


# --- names ----------------------------------------------------------------------------------------------------------------------

def test_no_such_pod(site):
    """NXDOMAIN, and no fake IP is taken."""
    used = site.agents[0].metrics()['edgeway_meta_addresses{state="used"}']
    for name in (f"172-17-0-77.shop-2.pod.{D}", f"172-17-0-2.nowhere.pod.{D}", f"172-17-0.shop-2.pod.{D}", f"web.shop-2.pod.{D}",
                 f"x.172-17-0-2.shop-2.pod.{D}", f"172-17-0-2._pod.shop-2.svc.{D}"):
        assert site.clients[0].dns(name, "A", "@172.17.0.1")[0] == "NXDOMAIN", name
    assert site.clients[0].dns(f"shop-2.pod.{D}", "A", "@172.17.0.1")[:2] == ("NOERROR", [])
    assert site.agents[0].metrics()['edgeway_meta_addresses{state="used"}'] == used


def test_one_namespace_with_the_address_twice(site):
    """The address does not say which: refused, told in the log, and by the hub where it was in use."""
    twins = [pod(f"twin-{i}", site.nodes[i], "172.17.9.9", ("http", 8080, 0), namespace="twins") for i in (1, 2)]
    site.hub.write("twins.yaml", *twins)
    name = f"172-17-9-9.twins.pod.{D}"
    wait_for("refused", lambda: site.clients[0].dns(name, "A", "@172.17.0.1")[0] == "NXDOMAIN"
             and "several pods have the address" in site.agents[0].process.log())
    site.hub.write("twins.yaml", twins[0])
    wait_for("one is left", lambda: site.clients[0].address_of(name, "@172.17.0.1"))
    site.hub.write("twins.yaml", *twins)
    wait_for("explained", lambda: "2 pods of the namespace have the address 172.17.9.9 (twin-" in site.hub.ask("/debug/state")[1])
    site.hub.delete("twins.yaml")
    wait_for("gone", lambda: site.clients[0].dns(name, "A", "@172.17.0.1")[0] == "NXDOMAIN")


def test_pointers(site):
    """Of a pod's own address, the node's own pod first, and of its fake IP."""
    def pointer(client, address):
        return client.run("dig", "@172.17.0.1", "+short", "-x", address).stdout.split()

    for i in (1, 2, 3):
        assert pointer(site.clients[i - 1], "172.17.0.2") == [f"172-17-0-2.shop-{i}.pod.{D}."]
    fake = site.clients[0].address_of(site.name(2), "@172.17.0.1")
    assert pointer(site.clients[0], fake) == [f"172-17-0-2.shop-2.pod.{D}."]
    assert pointer(site.clients[0], "172.17.0.250") == []
    site.hub.write("set.yaml", service("db", ("sql", 5432, 5432), clusterIP="None"),
                   {**(p := pod("db-0", site.nodes[1], "172.17.7.7", ("sql", 5432, 0), app="db")),
                    "spec": {**p["spec"], "hostname": "db-0", "subdomain": "db"}})
    wait_for("its name", lambda: site.clients[0].address_of(f"db-0.db.default.svc.{D}", "@172.17.0.1"))
    assert pointer(site.clients[0], "172.17.7.7") == [f"db-0.db.default.svc.{D}."]
    site.hub.delete("set.yaml")


def test_floods(site):
    """Names of no pod, each another one: no fake IP, no more questions to the hub than a client's share, and others are answered."""
    before = site.agents[0].metrics()
    script = """
import socket
s = socket.socket(type=socket.SOCK_DGRAM)
for i in range(3000):
    name = b"".join(bytes([len(p)]) + p for p in (b"10-9-%d-%d" % (i // 250, i % 250), b"shop-2", b"pod", b"cluster", b"local")) + b"\\0"
    s.sendto(i.to_bytes(2, "big") + b"\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\1\\0\\1", ("172.17.0.1", 53))
"""
    site.stranger.python(script)
    wait_for("it was limited", lambda: site.agents[0].metrics()["edgeway_meta_pod_questions_limited_total"] > 100)  # the kernel drops some of them
    after = site.agents[0].metrics()
    assert after["edgeway_meta_pod_questions_asked_total"] - before["edgeway_meta_pod_questions_asked_total"] < 300
    assert after['edgeway_meta_addresses{state="used"}'] <= before['edgeway_meta_addresses{state="used"}']  # those of tests before may have ended
    assert site.clients[0].dns(f"172-17-0-78.shop-2.pod.{D}", "A", "@172.17.0.1")[0] == "NXDOMAIN"
    assert site.clients[0].get(f"http://{site.name(2)}:8080/") == (200, "edge-2.web\n")


def test_follows_the_pod(site):
    """It gets another node, and goes: what was answered follows within a moment."""
    p = site.nodes[2].pod("moved")
    p.serve("--http", "8080")
    site.hub.write("moved.yaml", pod("moved", site.nodes[1], site.guarded.address, ("http", 8080, 0), namespace="moving"))
    name = f"{site.guarded.address.replace('.', '-')}.moving.pod.{D}"
    assert site.clients[0].get(f"http://{name}:8080/") == (200, "edge-2.guarded\n")
    site.hub.write("moved.yaml", pod("moved", site.nodes[0], site.clients[0].address, ("http", 8080, 0), namespace="moving"))
    wait_for("the name is gone", lambda: site.clients[0].dns(name, "A", "@172.17.0.1")[0] == "NXDOMAIN")
    site.hub.write("moved.yaml", pod("moved", site.nodes[2], p.address, ("http", 8080, 0), namespace="moving"))
    name = f"{p.address.replace('.', '-')}.moving.pod.{D}"
    wait_for("its new name", lambda: site.clients[0].get(f"http://{name}:8080/") == (200, "edge-3.moved\n"))
    site.hub.delete("moved.yaml")
