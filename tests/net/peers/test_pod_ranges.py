"""Pods called by their own addresses where no two nodes' pods have the same: the real address reaches the pod of another node, unless
this machine has a route to it."""
import signal

import pytest

import lab as labs
import tunnelkit
from httpkit import socket_of
from lab import pod, service, wait_for

D = "cluster.local"
DIRECT = "edgeway_tunnel_outward_direct_total"


class Node(labs.Node):
    """Its pods' range is 10.244.N.0/24."""

    def __init__(self, lab, name, address):
        self.number = int(name[-1])
        self.gateway = f"10.244.{self.number}.1"
        super().__init__(lab, name, address)

    def add_bridge(self):
        self.add_bridge_link(self.bridge, self.gateway, 24)
        self.run("nft", "-f", "-", input=f"""table ip lab {{ chain post {{ type nat hook postrouting priority 100;
            ip saddr 10.244.{self.number}.0/24 oifname != "docker0" masquerade; }}; }}""")

    def pod(self, name):
        self.pods += 1
        p = labs.Pod(self, name, f"10.244.{self.number}.{self.pods + 1}")
        p.run("ip", "addr", "flush", "dev", "eth0")
        p.run("ip", "addr", "add", f"{p.address}/24", "dev", "eth0")
        p.run("ip", "route", "add", "default", "via", self.gateway)
        return p

    def object(self, site, cidr=None):
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": {"edgeway.io/site": site}},
                "spec": {"podCIDR": cidr or f"10.244.{self.number}.0/24"},
                "status": {"addresses": [{"type": "InternalIP", "address": self.address}]}}


class Site:
    """Two nodes of one site and one of another; web on each, which no Service selects."""

    def __init__(self, lab):
        self.lab, self.hub = lab, labs.Hub(lab)
        self.nodes = [Node(lab, f"edge-{i}", f"192.0.2.1{i}") for i in (1, 2, 3)]
        self.say_nodes()
        self.agents = [labs.Agent(n, self.hub) for n in self.nodes]
        wait_for("tunnels", lambda: len(tunnelkit.tunnels(self.hub)) == 3)
        self.pods = [n.pod("web") for n in self.nodes]
        self.servers = [p.serve("--http", "8080", "--tcp", "9090") for p in self.pods]
        self.client, self.stranger = self.nodes[0].pod("client"), self.nodes[0].pod("stranger")
        self.hub.write("pods.yaml", *[pod(f"web-{i}", n, p.address, ("http", 8080, 0), namespace="shop")
                                      for i, (n, p) in enumerate(zip(self.nodes, self.pods), 1)],
                       pod("client", self.nodes[0], self.client.address),
                       pod("stranger", self.nodes[0], self.stranger.address, namespace="strangers"))
        for a in self.agents:
            wait_for("ranges", lambda a=a: self.ranges(a) == {"told": 1, "served": 2 if a is self.agents[1] else 1})

    def say_nodes(self, third=None):
        self.hub.write("nodes.yaml", *[n.object("berlin" if n.number < 3 else "paris", third if n.number == 3 else None) for n in self.nodes])

    @staticmethod
    def ranges(agent):
        return agent.state()["iptables"]["podRanges"]

    def echo(self, host, port=9090, client=None):
        s = socket_of(client or self.client)
        s.connect((host, port))
        with s:
            name = s.recv(100)
            s.sendall(b"ping\n")
            return name + s.recv(100)


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    for a in made.agents:
        print(f"--- log of {a.node.name}\n{a.process.log()[-4000:]}")
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


def test_real_addresses(site):
    """Of the site by the other node's agent, of another site through the hub; declared ports as HTTP, others as bytes."""
    def goes_direct():
        """Once the pod's own node has the view too: a call before that is the hub's."""
        before = site.agents[0].metrics()[DIRECT]
        return site.echo("10.244.2.2").startswith(b"edge-2.web\n") and site.agents[0].metrics()[DIRECT] == before + 1

    for i in (2, 3):
        assert site.client.get(f"http://10.244.{i}.2:8080/") == (200, f"edge-{i}.web\n")
        assert site.echo(f"10.244.{i}.2").startswith(f"edge-{i}.web\n".encode())
    wait_for("the other node's agent carries it", goes_direct)
    assert site.client.get("http://10.244.1.2:8080/") == (200, "edge-1.web\n")


def test_names_and_pointers_of_them(site):
    assert site.client.get(f"http://10-244-3-2.shop.pod.{D}:8080/") == (200, "edge-3.web\n")
    for address, name in (("10.244.2.2", f"10-244-2-2.shop.pod.{D}."), ("10.244.2.99", "")):
        assert site.client.run("dig", f"@{site.nodes[0].gateway}", "+short", "-x", address).stdout.strip() == name


def test_frozen_hub(site):
    site.hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        assert site.client.get("http://10.244.2.2:8080/") == (200, "edge-2.web\n")
        assert site.echo("10.244.2.2").startswith(b"edge-2.web\n")
    finally:
        site.hub.process.popen.send_signal(signal.SIGCONT)


def test_no_such_pod(site):
    assert site.client.send("10.244.2.200", 80, "hello\n") in (None, "")
    wait_for("said", lambda: "no pod's, as far as the hub says to=10.244.2.200:80" in site.agents[0].process.log())


FLOOD = """
import select, socket
held = []
for i in range(400):  # each waits for the hub's word, by an agent that has none
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect(("10.244.2.250", 80))
    except BlockingIOError:
        pass
    held.append(s)
select.select([], held, [], 5)
u = socket.socket(type=socket.SOCK_DGRAM)
name = b"".join(bytes([len(p)]) + p for p in (b"10-244-2-251", b"shop", b"pod", b"cluster", b"local")) + b"\\0"
for i in range(1200):
    u.sendto(i.to_bytes(2, "big") + b"\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\1\\0\\1", ("10.244.1.1", 53))
"""


def test_one_pod_leaves_places_to_wait(site):
    """While the hub is silent, what one pod asks for again and again leaves places for what another one asks for. On a busy machine the hub
    may come back too late for one attempt."""
    fresh = [site.nodes[1].pod(f"fresh-{i}") for i in range(9)]
    for p in fresh:
        p.serve("--tcp", "9090")
    names = [f"{p.address.replace('.', '-')}.shop.pod.{D}" for p in fresh]
    site.hub.write("fresh.yaml", *[pod(f"fresh-{i}", site.nodes[1], p.address, namespace="shop") for i, p in enumerate(fresh)])
    wait_for("they are known", lambda: site.client.address_of(names[8], f"@{site.nodes[0].gateway}"))

    def attempt(i):
        site.hub.process.popen.send_signal(signal.SIGSTOP)
        try:
            site.stranger.python(FLOOD)
            s = socket_of(site.client)
            s.settimeout(10)
            s.connect((fresh[i].address, 9090))
            asked = site.client.start(f"dig-{i}", "dig", f"@{site.nodes[0].gateway}", "+short", "+tries=1", "+time=5", names[i + 1])
        finally:
            site.hub.process.popen.send_signal(signal.SIGCONT)
        with s:
            try:
                said = s.recv(100)
            except ConnectionResetError:
                said = b""
        wait_for("an answer", lambda: not asked.alive())
        return said == f"edge-2.fresh-{i}\n".encode() and asked.log().strip().count(".") == 3

    assert any(attempt(i) for i in (0, 2, 4, 6))
    site.hub.delete("fresh.yaml")


def test_rules_of_the_pods_service(site):
    """Its address is no way round them."""
    p = site.nodes[1].pod("guarded")
    p.serve("--http", "8080", "--tcp", "9090")
    site.hub.write("guarded.yaml", pod("guarded", site.nodes[1], p.address, ("http", 8080, 0)),
                   service("guarded", ("http", 80, 8080), annotations={"edgeway.io/allow-from": "namespaces=default"}))
    wait_for("the service", lambda: site.client.address_of(f"guarded.default.svc.{D}", f"@{site.nodes[0].gateway}"))
    assert site.stranger.get(f"http://{p.address}:8080/")[0] == 403
    assert not site.stranger.send(p.address, 9090, "hello\n")
    assert site.client.get(f"http://{p.address}:8080/") == (200, "edge-2.guarded\n")
    assert site.echo(p.address).startswith(b"edge-2.guarded\n")
    site.hub.delete("guarded.yaml")


def test_a_route_is_somebody_elses(site):
    """A CNI that serves the range by itself keeps it; when its route goes, it is ours again."""
    site.nodes[0].run("ip", "route", "add", "10.244.2.0/24", "via", "192.0.2.12")
    wait_for("not ours", lambda: "10.244.2" not in site.nodes[0].run("nft", "list", "set", "ip", "edgeway", "podranges").stdout)
    assert site.client.get("http://10.244.3.2:8080/") == (200, "edge-3.web\n")
    site.nodes[0].run("ip", "route", "del", "10.244.2.0/24")
    wait_for("ours", lambda: site.client.get("http://10.244.2.2:8080/", seconds=3) == (200, "edge-2.web\n"))


def test_ranges_that_overlap(site):
    """Two nodes with the same range: its addresses say nothing, by name it goes on."""
    site.say_nodes(third="10.244.2.128/25")
    wait_for("not served", lambda: "10.244.2" not in site.nodes[0].run("nft", "list", "set", "ip", "edgeway", "podranges").stdout)
    assert site.client.get(f"http://10-244-2-2.shop.pod.{D}:8080/") == (200, "edge-2.web\n")
    site.say_nodes()
    wait_for("served", lambda: site.client.get("http://10.244.2.2:8080/", seconds=3) == (200, "edge-2.web\n"))


def test_a_member_that_hands_out_addresses(site):
    """A StatefulSet: members by their names, their own name among them, and by the address that a member tells."""
    members = []
    for i, n in enumerate(site.nodes[:2]):
        p = n.pod(f"db-{i}")
        p.serve("--tcp", "9090")
        members.append(p)
    objects = []
    for i, p in enumerate(members):
        o = pod(f"db-{i}", p.node, p.address, ("sql", 9090, 0), app="db")
        o["spec"].update(hostname=f"db-{i}", subdomain="db")
        objects.append(o)
    site.hub.write("db.yaml", service("db", ("sql", 9090, 9090), clusterIP="None"), *objects)
    for p in members:
        p.copy_resolv_conf()
        for i in range(2):
            name = f"db-{i}.db.default.svc.{D}"
            wait_for("the name", lambda p=p, name=name: p.address_of(name, f"@{p.node.gateway}"))
            assert site.echo(p.address_of(name, f"@{p.node.gateway}"), client=p).startswith(f"edge-{i + 1}.db-{i}\n".encode())
    told = members[1].address  # as db-1 says of itself
    assert site.echo(told, client=members[0]).startswith(b"edge-2.db-1\n")
    assert site.client.run("dig", f"@{site.nodes[0].gateway}", "+short", "-x", told).stdout.strip() == f"db-1.db.default.svc.{D}."
