"""UDP maps of the hub: a port there leads to a node or a service, each client's flow in a stream of its own, datagrams whole, in order,
and dropped rather than queued. Clients and most targets are sockets of this program in the machines' namespaces.
"""
import ctypes
import os
import re
import signal
import socket
import threading
import time

import pytest

import tunnelkit
from dnskit import CLONE_NEWNET
from lab import Lab, Machine, pod, service, wait_for
from tunnelkit import Site

HUB, SECOND, FRIEND, STRANGER = "192.0.2.1", "192.0.2.101", "192.0.2.21", "192.0.2.22"
IDLE_MS, FLOWS = 700, 80  # 20 of one source address
NODE_DNS, POD_DNS, ECHO, CLOSED, REFUSED, OTHER, WILD, CLOUD, CHOSEN = range(5301, 5310)
MAPS = [f"{{listen: '{HUB}:{NODE_DNS}', node: edge-1, target: 7053}}",
        f"{{listen: '{HUB}:{POD_DNS}', service: 'dns.default:53'}}",
        f"{{listen: '{HUB}:{ECHO}', node: edge-1, target: 7001}}",
        f"{{listen: '{HUB}:{CLOSED}', node: edge-1, target: 8001}}",
        f"{{listen: '{HUB}:{REFUSED}', node: edge-1, target: 7999}}",
        f"{{listen: '{HUB}:{OTHER}', node: edge-2, target: 7001}}",
        f"{{listen: '0.0.0.0:{WILD}', node: edge-1, target: 7001}}",
        f"{{listen: '{HUB}:{CLOUD}', service: 'cloud.default:53'}}",
        f"{{listen: '{HUB}:{CHOSEN}', node: edge-1, target: '172.17.0.1:7002'}}"]
ACCESS = f"[{{from: local, to: ['*']}}, {{from: {FRIEND}, to: ['*']}}]"


def in_namespace(machine, make):
    made, libc = [], ctypes.CDLL(None, use_errno=True)

    def enter():
        with open(f"/proc/{machine.holder.pid}/ns/net", "rb") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) == 0:
                made.append(make())
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return made[0]


def udp_socket(machine, bind=None, connect=None, seconds=10):
    def make():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(seconds)
        s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: what is lost is not lost here
        if bind:
            s.bind(bind)
        if connect:
            s.connect(connect)
        return s
    return in_namespace(machine, make)


class Town(Site):
    def __init__(self, lab):
        super().__init__(lab, "--ingress.udp", f"[{', '.join(MAPS)}]", "--ingress.udpIdle", f"{IDLE_MS}ms",
                         "--ingress.udpFlows", str(FLOWS), "--ingress.http", f"{HUB}:10080", "--access", ACCESS)
        self.hub.machine.run("ip", "addr", "add", f"{SECOND}/24", "dev", "eth0")
        self.friend, self.stranger = Machine(lab, "friend", address=FRIEND), Machine(lab, "stranger", address=STRANGER)
        self.server = Machine(lab, "server", address="192.0.2.31")
        self.edge, self.far = self.nodes
        self.pod = self.edge.pod("dns")
        for machine, listen, port, answer in ((self.edge, "192.0.2.11", 7053, "203.0.113.1"), (self.pod, self.pod.address, 53, "203.0.113.2"),
                                              (self.server, "192.0.2.31", 5353, "203.0.113.3")):
            machine.start("dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
                          "--bind-interfaces", f"--listen-address={listen}", f"--port={port}", "--conf-file=/dev/null",
                          f"--address=/who.test/{answer}", "--txt-record=long.test," + ",".join(["x" * 250] * 4), "--edns-packet-max=4096")
            wait_for("dnsmasq", lambda m=machine, a=listen, p=port: "203" in m.run("dig", f"@{a}", "-p", p, "+short", "who.test").stdout)
        slice_ = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                  "metadata": {"name": "cloud-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "cloud"}},
                  "ports": [{"name": "dns", "port": 5353, "protocol": "UDP"}],
                  "endpoints": [{"addresses": ["192.0.2.31"], "conditions": {"ready": True}}]}
        cloud = service("cloud", ("dns", 53, 5353), protocol="UDP")
        del cloud["spec"]["selector"]
        self.hub.write("dns.yaml", service("dns", ("dns", 53, "dns"), protocol="UDP"),
                       pod("dns", self.edge, self.pod.address, ("dns", 53, 0), protocol="UDP"), cloud, slice_)
        wait_for("services", lambda: len(self.hub.state()["hub"]["services"]) == 2)
        wait_for("the node knows them", lambda: self.agents[0].state()["meta"]["synced"] and
                 self.client(POD_DNS).ask_dns() == "203.0.113.2", 20)

    def client(self, port, machine=None, address=HUB, seconds=10):
        return Client(machine or self.friend, (address, port), seconds)

    def figure(self, name, port, listen=HUB, **labels):
        more = "".join(f',{k}="{v}"' for k, v in labels.items())
        return self.hub.metrics()[f'edgeway_ingress_udp_{name}{{listen="{listen}:{port}"{more}}}']

    def dropped(self, port, *reasons):
        """Of these reasons, or all."""
        drops = next(m for m in self.hub.state()["hub"]["udpMaps"] if m["listen"].endswith(f":{port}"))["dropped"]
        return sum(n for reason, n in drops.items() if not reasons or reason in reasons)

    def edge_dropped(self):
        return self.agents[0].state()["tunnel"]["udp"]["dropped"]

    def flows(self, port):
        return [f for f in self.hub.state()["hub"]["udpFlows"] if f["listen"].endswith(f":{port}")]


class Client:
    def __init__(self, machine, to, seconds=10):
        self.socket = udp_socket(machine, connect=to, seconds=seconds)
        self.socket.setblocking(True)
        self.socket.settimeout(seconds)

    def ask_dns(self, name="who.test"):
        """The address that a question is answered with."""
        self.socket.send(b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0\0\1\0\1")
        return ".".join(map(str, self.socket.recv(600)[-4:]))

    def __enter__(self):
        return self.socket

    def __exit__(self, *exc):
        self.socket.close()


class Echo:
    """A target that gives every datagram back, and remembers from where they came."""

    def __init__(self, machine, *bind):
        self.socket, self.peers, self.on = udp_socket(machine, bind=bind), [], True
        self.socket.settimeout(0.2)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while self.on:
            try:
                data, peer = self.socket.recvfrom(65536)
                self.peers.append(peer)
                self.socket.sendto(data, peer)
            except TimeoutError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.on = False
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def site():
    with Lab() as lab:
        made = Town(lab)
        yield made
        made.logs()


def no_flow(site):
    gauges = [v for d in (site.hub, *site.agents) for n, v in d.metrics().items() if "_udp_flows" in n and "total" not in n]
    return len(gauges) == len(MAPS) + 2 and not any(gauges)


def udp_sockets(site):
    """Connected ones of the hub's and the agents: none but those of flows."""
    return [line for d, machine in ((site.hub, site.hub.machine), *((a, a.node) for a in site.agents))
            for line in machine.run("ss", "-uanpH", "state", "established").stdout.splitlines()
            if f"pid={d.process.pid}," in line and re.search(r":70\d\d |:7999 |:5353 |172.17.0.2:53 ", line)]


as_before = tunnelkit.as_before


@pytest.fixture(autouse=True)
def without_flows(as_before, site):
    yield
    wait_for("all flows have ended", lambda: no_flow(site), 30)
    assert udp_sockets(site) == []


# --- what goes through -----------------------------------------------------------------------------


@pytest.mark.parametrize("port,answer", [(NODE_DNS, "203.0.113.1"), (POD_DNS, "203.0.113.2"), (CLOUD, "203.0.113.3")],
                         ids=["node", "service", "cloud"])
def test_dns(site, port, answer):
    """A real server and a real client; at the node it listens on one address only, which is not the first that is tried."""
    def dig(*options):
        return site.friend.run("dig", f"@{HUB}", "-p", port, "+tries=1", "+time=5", "+notcp", "+ignore", "+short", *options).stdout.strip()
    assert dig("who.test") == answer
    assert dig("+bufsize=4096", "-t", "TXT", "long.test").count("x" * 250) == 4
    assert site.figure("flows_total", port) >= 2


def test_an_address_at_the_node(site):
    with Echo(site.edge, "172.17.0.1", 7002), site.client(CHOSEN) as c:
        c.send(b"x")
        assert c.recv(9) == b"x"


def test_sizes(site):
    with Echo(site.edge, "127.0.0.1", 7001) as echo, site.client(ECHO) as c:
        for size in (0, 1, 1400, 9000, 65507, 0, 65507):
            data = os.urandom(size)
            c.send(data)
            assert c.recv(65536) == data, size
        assert len(set(echo.peers)) == 1


def test_each_client_has_a_flow_of_its_own(site):
    with Echo(site.edge, "127.0.0.1", 7001) as echo:
        clients = [site.client(ECHO).socket for _ in range(8)]
        for turn in range(3):
            for i, c in enumerate(clients):
                c.send(b"%d %d" % (turn, i))
            for i, c in enumerate(clients):
                assert c.recv(99) == b"%d %d" % (turn, i)
        assert len(set(echo.peers)) >= 8
        for c in clients:
            c.close()


def test_answers_leave_from_the_address_that_was_asked(site):
    """A connected client hears nobody else."""
    with Echo(site.edge, "127.0.0.1", 7001):
        for address in (SECOND, HUB):
            with site.client(WILD, address=address) as c:
                c.send(address.encode())
                assert c.recv(99) == address.encode()


def test_a_burst_is_whole_in_order_and_every_drop_is_counted(site):
    n = 1000
    target = udp_socket(site.edge, bind=("127.0.0.1", 7001))
    target.settimeout(0.5)
    before = site.dropped(ECHO) + site.edge_dropped()
    sent = [i.to_bytes(4, "big") + bytes([i & 255]) * (i % 1400) for i in range(n)]
    with site.client(ECHO) as c:
        for data in sent:
            c.send(data)
        got = []
        while True:
            try:
                got.append(target.recv(65536))
            except TimeoutError:
                if len(got) + site.dropped(ECHO) + site.edge_dropped() - before >= n:
                    break
    target.close()
    numbers = [int.from_bytes(data[:4], "big") for data in got]
    assert numbers == sorted(set(numbers))
    assert all(data == sent[i] for i, data in zip(numbers, got))
    wait_for("the flow's last count", lambda: site.flows(ECHO) == [])
    assert n - len(got) == site.dropped(ECHO) + site.edge_dropped() - before
    assert len(got) >= 16
