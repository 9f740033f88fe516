"""The kernel's path by IPv6 (mesh.subnet6): rows of test_udp, test_kernel_path and test_kernel_attacks with the other family."""
import collections
import os
import signal
import subprocess

import pytest

import lab as labs
from test_mesh_subnet6 import DOMAIN, OWN, RANGE, DualNode, slices

pytestmark = pytest.mark.plain_build  # what the kernel does with the maps, as test_udp

PORT = 7000
KERNEL = {"edgeway.io/datapath": "kernel"}
BOTH = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}


class Line(labs.Dialogue):
    """A client that keeps its port and says who answers, one datagram for each call."""
    SCRIPT = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[3])))
s.settimeout(5)
for line in sys.stdin:
    try:
        s.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
        print(s.recv(99).split(b"\\n")[0].decode(), flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True)
"""

    def __init__(self, machine, host, source_port=0):
        super().__init__(machine, self.SCRIPT, host, PORT, source_port)


SPOOF = """
import socket, struct, sys
source, to = (socket.inet_pton(socket.AF_INET6, a) for a in sys.argv[1:3])
sport, dport, text = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5].encode()
udp = struct.pack("!HHHH", sport, dport, 8 + len(text), 0) + text
b = source + to + struct.pack("!II", len(udp), 17) + udp + b"\\0" * (len(udp) % 2)
s = sum(struct.unpack(f"!{len(b) // 2}H", b))
while s >> 16:
    s = (s & 0xffff) + (s >> 16)
udp = udp[:6] + struct.pack("!H", ~s & 0xffff or 0xffff) + udp[8:]
raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
for _ in range(int(sys.argv[6])):
    raw.sendto(struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + source + to + udp, (sys.argv[2], 0))
"""
RECORD = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", int(sys.argv[1])))
print("recording", flush=True)
while True:
    data, peer = s.recvfrom(65536)
    print(data.decode(), peer[0], flush=True)
    s.sendto(sys.argv[2].encode() + b"\\n" + data, peer)
"""


class World:
    def __init__(self, lab):
        self.lab, self.hub = lab, labs.Hub(lab)
        self.node = DualNode(lab, "edge-1", "192.0.2.11")
        self.pods = {name: self.node.pod(name) for name in "ab"}
        self.recorders = {}
        for name, pod in self.pods.items():
            pod.serve("--bind", "::", "--tcp", "9090", "--udp", "5000")
            self.recorders[name] = pod.start("recorder", *labs.BARE_PYTHON, "-c", RECORD, "5005", name)
        server = labs.Machine(lab, "c", address="192.0.2.50")
        server.run("ip", "addr", "add", "fd00:c0::50/64", "dev", "eth0", "nodad")
        server.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "c", "--bind", "::", "--tcp", "9090", "--udp", "5000")
        self.addresses = {**{name: pod.address6 for name, pod in self.pods.items()}, "c": "fd00:c0::50"}
        self.hub.write("services.yaml", labs.service("echo", ("it", PORT, 5000), protocol="UDP", **BOTH),
                       labs.service("sticky", ("it", PORT, 5000), protocol="UDP", sessionAffinity="ClientIP", **BOTH),
                       labs.service("only-a", ("it", PORT, 5000), protocol="UDP", **BOTH), *self.slices("only-a", 5000, "a"),
                       labs.service("tcp-a", ("it", PORT, 9090), annotations=KERNEL, **BOTH), *self.slices("tcp-a", 9090, "a", "TCP"),
                       labs.service("recorder", ("it", PORT, 5005), protocol="UDP", **BOTH), *self.slices("recorder", 5005, "ab"))
        self.show("abc")
        self.agent = labs.Agent(self.node, self.hub, "--mesh.subnet6", RANGE)
        self.client = self.node.pod("client")
        labs.wait_for("the services", lambda: self.agent.state()["services"] == 5 and self.address("recorder"))
        labs.wait_for("an answer", lambda: "none" not in self.names(self.client, "only-a", 1))

    def slices(self, service, port, names, protocol="UDP"):
        return slices(service, port, v6=[self.addresses[n] for n in names], protocol=protocol)

    def show(self, names):
        self.hub.write("endpoints.yaml", *self.slices("echo", 5000, names), *self.slices("sticky", 5000, names))

    def address(self, name):
        return self.client.dns(f"{name}.{DOMAIN}", "AAAA")[1][0][4]

    def names(self, machine, service, count, *options):
        """Who answered how often; every answer came from the address that was asked."""
        address = self.address(service)
        p = machine.run(*labs.BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), address, PORT, count, *options)
        lines = [line.split() for line in p.stdout.splitlines()]
        assert all(line[1] == f"{address}:{PORT}" for line in lines if line[0] != "none"), lines
        return collections.Counter(line[0] for line in lines)

    def recorded(self):
        return "".join(r.log() for r in self.recorders.values())

    def spoof(self, source, text, sport=4444, count=3):
        self.client.run(*labs.BARE_PYTHON, "-c", SPOOF, source, self.address("recorder"), sport, PORT, text, count)

    def fence(self):
        """What was sent before it has gone its way by now: datagrams over the same path are answered by both."""
        labs.wait_for("both answer", lambda: {"a", "b"} <= set(self.names(self.client, "recorder", 16)))


EVERYONE = {"edge-1.a", "edge-1.b", "c"}


@pytest.fixture(scope="module")
def world():
    with labs.Lab() as lab:
        made = World(lab)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-5000:]}")
        print(made.node.run("nft", "list", "map", "ip6", "edgeway", "endpoints", check=False).stdout)


def test_spread_over_all(world):
    for machine in (world.client, world.node):
        seen = world.names(machine, "echo", 90)
        assert set(seen) == EVERYONE and max(seen.values()) <= 50


def test_a_pod_reaches_itself(world):
    for machine in (world.pods["a"], world.pods["b"], world.node):
        assert set(world.names(machine, "only-a", 4)) == {"edge-1.a"}
        assert machine.send(world.address("tcp-a"), PORT, "hello").split() == ["edge-1.a", "hello"]


def test_flow_leaves_an_endpoint_that_is_gone(world):
    """At once, though the client keeps its port and its flow is never quiet."""
    with Line(world.client, world.address("echo")) as line:
        first = line.ask()
        assert first in EVERYONE and all(line.ask() == first for _ in range(5))
        world.show("abc".replace(first[-1], ""))
        try:
            second = labs.wait_for("another endpoint", lambda: (lambda n: n in EVERYONE - {first} and n)(line.ask()))
            assert all(line.ask() == second for _ in range(5))
        finally:
            world.show("abc")
            labs.wait_for("back", lambda: set(world.names(world.client, "echo", 40)) == EVERYONE)


def test_affinity(world):
    """A client keeps its endpoint over all its flows; another endpoint's end does not move it."""
    first = [world.names(c, "sticky", 12) for c in (world.client, world.pods["a"], world.pods["b"], world.node)]
    assert all(len(seen) == 1 for seen in first)
    [mine] = first[0]
    gone = next(n for n in "abc" if n != mine[-1])
    world.show("abc".replace(gone, ""))
    try:
        labs.wait_for("change", lambda: not any(n.endswith(gone) for n in world.names(world.client, "echo", 40)))
        assert set(world.names(world.client, "sticky", 12)) == {mine}
    finally:
        world.show("abc")
    labs.wait_for("back", lambda: set(world.names(world.client, "echo", 40)) == EVERYONE)


@pytest.mark.parametrize("source", ["::1", "fd00:17::1", "fd00:c0::11", OWN, "fd09:251::9fb:fffe", "echo"])
def test_sources_that_are_the_node_itself_or_a_service(world, source):
    """No answer to a lie goes round: what is recorded came once each at most, and nobody answers an answer."""
    world.spoof(world.address(source) if source == "echo" else source, f"as-{source}", sport=PORT)
    world.fence()
    before = world.recorded()
    world.fence()
    assert world.recorded().count(f"as-{source}") == before.count(f"as-{source}") <= 3
    assert "a\nas-" not in world.recorded() and "b\nas-" not in world.recorded()


def test_source_of_another_pod(world):
    """The other pod's own flow from that very port works."""
    victim = world.node.pod("victim")
    world.spoof(victim.address6, "in-their-name", sport=4545)
    labs.wait_for("it comes through", lambda: world.recorded().count("in-their-name") == 3)
    with Line(victim, world.address("recorder"), 4545) as line:
        assert labs.wait_for("an answer", lambda: line.ask() in ("a", "b"))


def test_what_others_flush_is_put_back(world):
    for command in ("flush chain ip6 edgeway mesh", "flush map ip6 edgeway services", "delete table ip6 edgeway", "flush ruleset"):
        world.node.run("nft", command)
        labs.wait_for("put back", lambda: set(world.names(world.client, "only-a", 2)) == {"edge-1.a"})


def test_killed_and_stopped(world):
    """The kernel goes on by itself while nobody runs; at the end nothing is left."""
    address = world.address("echo")
    load = subprocess.Popen(world.client.argv(*labs.BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), address, str(PORT), "300", "--pause", "0.002"),
                            stdout=subprocess.PIPE, text=True)
    assert load.stdout.readline().split()[0] in EVERYONE
    world.agent.process.popen.send_signal(signal.SIGKILL)
    world.agent.process.wait()
    assert {line.split()[0] for line in load.communicate(timeout=labs.PATIENCE_S)[0].splitlines()} <= EVERYONE
    world.agent.start()
    assert world.agent.stop() == 0
    assert world.node.table6() == "" and world.node.own_addresses() == "" and world.node.clean()
