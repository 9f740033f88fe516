"""A tenant's objects, and a friend who may reach the services of one namespace and hosts of the cloud: neither becomes a program of the hub's
host by having the hub, another replica or a node dial the hub's ingress; neither opens a port of a node itself. The friend asks as

    CONNECT what leads to the ingress  →  CONNECT edge-2:10250  →  the kubelet, which he may not reach
"""
import json
import os
import socket

import pytest

import lab as labs
from dnskit import socket_in
from egress_client import http_connect
from lab import Agent, Hub, Machine, Node, endpoint_slice, pod, service, wait_for
from pki import Authority

HUB, SECOND, TWIN, FRIEND, EDGE = "192.0.2.1", "192.0.2.101", "192.0.2.3", "192.0.2.21", "192.0.2.12"
KUBELET = "edge-2:10250"
REFUSED = 'edgeway_hub_self_dials_total{what="refused"}'
RULES = (f"[{{from: local, to: ['*']}}, {{from: {FRIEND}, to: ['default/*', 'cloud-?:*', 'hub-1:*', 'cloud/192.0.2.0/24:*', 'cloud/198.51.100.9', 'cloud/[fd00::/64]:*']}}, "
         "{from: 192.0.2.2, to: ['cloud-1:*', 'cloud/192.0.2.1:8080']}]")
LEAD_TO_THE_HUB = ["slice.default:80", "slice6.default:80", "front.default:7000", "cloud-1:10080", "cloud-1:8080", f"{HUB}:10080", "[fd00::1]:10080",
                   f"[::ffff:{HUB}]:10080"]


def node(name, *addresses):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": a} for a in addresses]}}


def slice_at(name, port, address, node_name):
    made = endpoint_slice(f"{name}-1", name, port, address, port_name="http")
    made["endpoints"][0]["nodeName"] = node_name
    return made


class Town:
    def __init__(self, lab):
        self.lab, self.ca, self.egress = lab, Authority(lab.dir, "shared"), os.path.join(lab.dir, "egress.sock")
        self.hub = self.start_hub("hub-1", HUB, RULES, "--ingress.egress", f"{{listen: 'unix:{self.egress}'}}")
        # The other replica lets the first one's host in, as rules by network do.
        self.twin = self.start_hub("hub-2", TWIN, f"[{{from: {HUB}, to: ['*']}}]")
        for address in ("fd00::1/64", f"{SECOND}/24"):
            self.hub.machine.run("ip", "addr", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))
        self.friend = Machine(lab, "friend", address=FRIEND)
        self.neighbour = Machine(lab, "neighbour", address="192.0.2.2")
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", EDGE)]
        self.serve(self.nodes[1], "--http", "10250", "--http", "22", "--http", "2375", "--http", "9200")
        for h in (self.hub, self.twin):
            self.serve(h.machine, "--http", "8080")
        six = endpoint_slice("slice6-1", "slice6", 10080, "fd00::1", port_name="http")
        six["addressType"] = "IPv6"
        self.hub.write("all.yaml", node("cloud-1", HUB), node("cloud-2", TWIN), node("edge-2", EDGE),
                       service("slice", ("http", 80, 10080)), endpoint_slice("slice-1", "slice", 10080, HUB, port_name="http"),
                       service("slice6", ("http", 80, 10080)), six,
                       service("twin", ("http", 80, 10080)), endpoint_slice("twin-1", "twin", 10080, TWIN, port_name="http"),
                       service("front", ("tcp-front", 7000, 10080)), pod("front", ("cloud-1", HUB), SECOND, ("tcp-front", 10080, 0)),
                       service("ssh", ("http", 80, 22)), slice_at("ssh", 22, EDGE, "edge-2"),
                       service("docker", ("http", 80, 2375)), slice_at("docker", 2375, "172.17.0.1", "edge-2"),
                       service("exporter", ("http", 80, 9200)),
                       pod("exporter", self.nodes[1], EDGE, ("http", 9200, 9200), host_network=True))
        self.agents = [Agent(n, self.hub) for n in self.nodes]
        for a in self.agents:
            wait_for("tunnel", lambda a=a: a.state()["tunnel"]["state"] == "open")
            wait_for("services", lambda a=a: a.state()["services"] == 7)
        self.beside = self.start_beside(self.hub)
        wait_for("replicas", lambda: any(p["state"] == "open" for p in json.loads(self.hub.ask("/peers")[1])["peers"]))

    def start_hub(self, name, address, rules, *options):
        return Hub(self.lab, "--tls.ca", self.ca.cert, "--tls.caKey", self.ca.key, "--peers", f"{HUB},{TWIN}", "--ingress.http", "[::]:10080",
                   "--access", rules, *options, name=name, address=address,
                   before=("unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$0" "$@"'))

    def start_beside(self, hub):
        """An agent on the hub's own host, whose owner lets the hub reach it at all ports."""
        machine = hub.machine
        machine.bridge, machine.gateway = Node.bridge, Node.gateway
        Node.add_bridge(machine)
        agent = Agent(machine, hub, "--tunnel.allow", "node:*", start=False)
        agent.data = os.path.join(machine.dir, "agent")
        agent.start()
        wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
        return agent

    def serve(self, machine, *options):
        p = machine.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", machine.name, *options)
        wait_for("backend", lambda: "serving" in p.log())

    def connect(self, machine, *targets, address=HUB):
        """The status of each CONNECT, each asked within the one before; ends with the first that is not 200."""
        statuses = []
        with socket_in(machine, socket.SOCK_STREAM, address, 10080) as s:
            for target in targets:
                s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
                head = b""
                while b"\r\n\r\n" not in head:
                    more = s.recv(1)
                    if not more:
                        return statuses
                    head += more
                statuses.append(int(head.split()[1]))
                if statuses[-1] != 200:
                    break
        return statuses

    def callers(self, hub=None):
        return (hub or self.hub).metrics()['edgeway_ingress_connections_total{door="ingress.http"}']

    def dialled(self):
        return self.agents[1].metrics()['edgeway_tunnel_dials_total{result="ok"}']


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    for a in made.agents:
        print(f"--- log of {a.node.name}\n{a.process.log()[-3000:]}")
    for h in (made.hub, made.twin):
        print(f"--- log of {h.machine.name}\n{h.process.log()[-5000:]}")


@pytest.mark.parametrize("way", LEAD_TO_THE_HUB)
def test_the_hub_does_not_reach_itself(town, way):
    assert town.connect(town.friend, KUBELET) == [403]
    before, refused = town.callers(), town.hub.metrics().get(REFUSED)
    assert town.connect(town.friend, way, KUBELET) == [403]
    assert town.callers() == before + 1, "the hub has dialled itself"
    assert town.hub.metrics()[REFUSED] > refused


@pytest.mark.parametrize("way", ["twin.default:80", "cloud-2:10080", f"{TWIN}:10080"])
def test_nor_another_replica(town, way):
    before = town.callers(town.twin)
    assert town.connect(town.friend, way, KUBELET) == [403]
    assert town.callers(town.twin) == before


@pytest.mark.parametrize("dest", ["", "127.0.0.1:10080", f"{HUB}:10080"])
def test_nor_the_hub_through_a_node_on_its_host(town, dest):
    """The node would dial loopback, where whoever comes is local; other ports of it are open."""
    assert town.connect(town.friend, "hub-1:8080") == [200]
    before = town.callers()
    if dest:
        fields = "-H", "X-Tunnel-Proxy-Host: hub-1", "-H", f"X-Tunnel-Proxy-Dest: {dest}"
        assert town.friend.get("http://any.example/", "-x", f"http://{HUB}:10080", *fields)[0] == 403
    else:
        assert town.connect(town.friend, "hub-1:10080", KUBELET) == [403]
    assert town.callers() == before + 1


def test_a_dial_that_a_nat_leads_back_is_known(town):
    """Nobody has told the hub of this address: its own connection comes in from its own address, and gets nothing."""
    town.hub.machine.run("ip", "route", "add", "198.51.100.0/24", "dev", "eth0")
    town.hub.machine.run("nft", "-f", "-", input=f"""table ip balancer {{
        chain out {{ type nat hook output priority -100; ip daddr 198.51.100.9 dnat to {HUB}; }}
        }}""")
    try:
        assert town.connect(town.friend, "198.51.100.9:10080", KUBELET) == [200, 403]
        assert town.hub.metrics()[REFUSED.replace("refused", "came_back")] == 1
    finally:
        town.hub.machine.run("nft", "delete", "table", "ip", "balancer")


def test_a_host_of_a_replica_is_a_node_as_others_are(town):
    assert town.connect(town.friend, "cloud-2:8080") == [200]


def test_local_is_loopback_and_the_unix_socket(town):
    assert town.connect(town.hub.machine, KUBELET, address="127.0.0.1") == [200]
    assert town.connect(town.hub.machine, KUBELET) == [403]
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(labs.PATIENCE_S)
        s.connect(town.egress)
        http_connect(s, KUBELET)


def test_a_rule_with_the_very_address_opens_a_port_of_the_hubs_host(town):
    """As for the kubelet beside the hub; never a port of the hub's own."""
    assert town.connect(town.neighbour, f"{HUB}:8080") == [200]
    assert town.connect(town.neighbour, f"{HUB}:10080") == [403]
    assert town.connect(town.friend, f"{HUB}:8080") == [403]


def test_it_is_told(town):
    town.connect(town.friend, "cloud-1:10080")
    for command in ("status", "doctor"):
        said = town.hub.machine.run(town.lab.program("edgewayctl"), "--socket", town.hub.socket, command, check=False).stdout
        assert "dials to the hub itself" in said and f"{HUB}:10080" in said, said
    assert town.hub.process.logged("would end at the hub itself")


# --- ports of a node itself ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["ssh.default:80", "docker.default:80"])
@pytest.mark.parametrize("who", ["friend", "local"])
def test_an_endpointslice_opens_no_port_of_a_node(town, who, target):
    """What tunnel.allow does not name stays closed, to whom the hub's rules open everything as well."""
    before = town.dialled()
    machine, address = (town.friend, HUB) if who == "friend" else (town.hub.machine, "127.0.0.1")
    assert town.connect(town.hub.machine, "edge-2:22", address="127.0.0.1") == [403]
    assert town.connect(machine, target, address=address) == [403]
    assert town.dialled() == before


def test_a_pod_of_the_hosts_network_is_an_endpoint(town):
    assert town.friend.get("http://exporter.default/", "-x", f"http://{HUB}:10080") == (200, "edge-2\n")


# --- a pod at the edge -----------------------------------------------------------------------------------------------------------------


def test_a_pod_does_not_become_the_hub(town):
    """It calls a service of the hub's own ingress: its node asks the hub to dial that, which would come from the hub's host."""
    client = town.nodes[0].pod("client")
    ask = f"CONNECT {KUBELET} HTTP/1.1\r\nHost: {KUBELET}\r\n\r\n"
    assert client.send(HUB, 10080, ask).startswith("HTTP/1.1 403 ")
    address = wait_for("name", lambda: client.address_of("front.default.svc.cluster.local", f"@{town.nodes[0].gateway}"))
    before = town.callers()
    assert not (client.send(address, 7000, ask) or "").startswith("HTTP/1.1 200 ")
    assert town.callers() == before
