"""UDP services: through the kernel by maps of our table."""
import collections
import json
import os
import subprocess

import pytest

from lab import HERE, PATIENCE_S, BARE_PYTHON, Agent, Dialogue, Hub, Lab, Node, pod, service, upstream, wait_for

pytestmark = pytest.mark.plain_build  # what the kernel does with the maps; test_kernel_attacks and test_udp_maps make them

DOMAIN = "default.svc.cluster.local"


class Line(Dialogue):
    """A client that keeps its port and says who answers, one datagram for each call."""
    SCRIPT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
for line in sys.stdin:
    try:
        s.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
        print(s.recv(99).split(b"\\n")[0].decode(), flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True)
"""

    def __init__(self, machine, host, port):
        super().__init__(machine, self.SCRIPT, host, port)


class World:
    def __init__(self, lab):
        self.dns = upstream(lab)
        self.hub = Hub(lab)
        self.near, self.far = Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")
        self.objects = {}
        self.pods = {}
        for name, node, host_port in (("a", self.near, 0), ("b", self.near, 0), ("c", self.far, 30053)):
            p = self.pods[name] = node.pod(name)
            p.serve("--udp", "5000", "--udp", "5001")
            if host_port:
                node.publish(host_port, p, 5000, "udp")
            self.objects[name] = pod(name, node, p.address, ("echo", 5000, host_port), app="echo", protocol="UDP")
        self.objects["a"]["metadata"]["labels"]["only"] = "a"
        self.show("a", "b", "c")
        self.hub.write("services.yaml", service("echo", ("echo", 53, "echo"), protocol="UDP"),
                       service("sticky", ("echo", 7000, "echo"), selector="echo", protocol="UDP",
                               sessionAffinity="ClientIP"),
                       self.self_service(), service("empty", ("echo", 7000, 5000), protocol="UDP"))
        self.agent = Agent(self.near, self.hub)
        self.client = self.near.pod("client")
        wait_for("services", lambda: self.client.address_of(f"empty.{DOMAIN}") and self.ports() == 3)

    @staticmethod
    def self_service():
        s = service("only-a", ("echo", 7000, "echo"), protocol="UDP")
        s["spec"]["selector"] = {"only": "a"}
        return s

    def show(self, *names):
        """These pods are there, the others are gone."""
        self.hub.write("pods.yaml", json.dumps({"apiVersion": "v1", "kind": "List",
                                                "items": [self.objects[n] for n in names]}))

    def kernel(self):
        return self.agent.state()["iptables"]["kernel"]

    def ports(self):
        return self.kernel()["udpPorts"]

    def names(self, machine, service_name, port, count, *options):
        """Who answered how often; every answer came from the address that was asked."""
        p = machine.run(*BARE_PYTHON, os.path.join(HERE, "udpsend.py"), f"{service_name}.{DOMAIN}", port, count, *options)
        lines = [line.split() for line in p.stdout.splitlines()]
        fake = machine.address_of(f"{service_name}.{DOMAIN}")
        assert all(line[1] == f"{fake}:{port}" for line in lines if line[0] != "none"), lines
        return collections.Counter(line[0] if line[0] != "none" else line[1] for line in lines)


EVERYONE = {"edge-1.a", "edge-1.b", "edge-2.c"}


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        made = World(lab)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")
        print(made.near.run("nft", "list", "map", "ip", "edgeway", "endpoints", check=False).stdout)


def refused(world, machine, name, port):
    """The kernel bounds how many such messages a client gets (icmp_ratelimit): one of three will do."""
    seen = world.names(machine, name, port, 3)
    return seen["ConnectionRefusedError"] > 0 and set(seen) <= {"ConnectionRefusedError", "TimeoutError"}


def test_spread_over_all(world):
    """From a pod and from the host: pods of this very bridge, and one of another node."""
    for machine in (world.client, world.near):
        seen = world.names(machine, "echo", 53, 90)
        assert set(seen) == EVERYONE and max(seen.values()) <= 50


def test_any_size(world):
    for size in (0, 1, 1472, 1473, 9000, 65507):
        for machine in (world.client, world.near):
            seen = world.names(machine, "echo", 53, 6, "--size", size)
            assert set(seen) <= EVERYONE, (machine.name, size)


def test_pod_to_itself(world):
    """Also without docker's own masquerading, and with bridges that do not ask iptables."""
    world.near.run("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0", check=False)
    world.near.run("nft", "flush", "chain", "ip", "lab", "post")
    assert set(world.names(world.pods["a"], "only-a", 7000, 4)) == {"edge-1.a"}
    assert set(world.names(world.pods["b"], "only-a", 7000, 4)) == {"edge-1.a"}
    assert set(world.names(world.near, "only-a", 7000, 4)) == {"edge-1.a"}
    assert set(world.names(world.client, "echo", 53, 60)) == EVERYONE


def test_a_flow_stays_where_it_is(world):
    assert len(world.names(world.client, "echo", 53, 20, "--same")) == 1


def test_quiet_flow_finds_its_endpoint_again(world):
    """Also when the kernel has forgotten it: here after a second, elsewhere after two minutes."""
    keys = ("net.netfilter.nf_conntrack_udp_timeout", "net.netfilter.nf_conntrack_udp_timeout_stream")
    before = [world.near.run("sysctl", "-n", key).stdout.strip() for key in keys]
    for key in keys:
        world.near.run("sysctl", "-qw", f"{key}=1")
    try:
        assert len(world.names(world.client, "echo", 53, 7, "--same", "--pause", "2.2")) == 1
    finally:
        for key, value in zip(keys, before):
            world.near.run("sysctl", "-qw", f"{key}={value}")


def test_affinity(world):
    """A client keeps its endpoint over all its flows; another endpoint's end does not move it."""
    clients = [world.client, world.pods["a"], world.pods["b"], world.near]
    first = [world.names(c, "sticky", 7000, 12) for c in clients]
    assert all(len(seen) == 1 for seen in first)
    mine = next(iter(first[0]))
    gone = next(n for n in ("b", "a") if f"edge-1.{n}" != mine)
    world.show(*[n for n in "abc" if n != gone])
    try:
        wait_for("change", lambda: set(world.names(world.client, "echo", 53, 40)) == EVERYONE - {f"edge-1.{gone}"})
        assert set(world.names(world.client, "sticky", 7000, 12)) == {mine}
    finally:
        world.show("a", "b", "c")
    wait_for("back", lambda: set(world.names(world.client, "echo", 53, 40)) == EVERYONE)
    assert set(world.names(world.client, "sticky", 7000, 12)) == {mine}


def test_flow_leaves_an_endpoint_that_is_gone(world):
    """At once, though the client keeps its port and its flow is never quiet."""
    ended = world.kernel()["flowsEnded"]
    with Line(world.client, world.client.address_of(f"echo.{DOMAIN}"), 53) as line:
        first = line.ask()
        assert first in EVERYONE and all(line.ask() == first for _ in range(5))
        world.show(*[n for n in "abc" if not first.endswith(n)])
        try:
            second = wait_for("another endpoint", lambda: (lambda n: n in EVERYONE - {first} and n)(line.ask()))
            assert all(line.ask() == second for _ in range(5))
            assert world.kernel()["flowsEnded"] > ended
        finally:
            world.show("a", "b", "c")
            wait_for("back", lambda: set(world.names(world.client, "echo", 53, 40)) == EVERYONE)


def test_nobody_serves(world):
    """Refused with an ICMP message, not lost; and served at once when somebody comes."""
    assert refused(world, world.client, "empty", 7000)
    # of a process of the host the very call fails
    assert set(world.names(world.near, "empty", 7000, 3)) <= {"PermissionError", "ConnectionRefusedError"}
    assert refused(world, world.client, "echo", 54)
    with Line(world.client, world.client.address_of(f"empty.{DOMAIN}"), 7000) as line:
        line.ask()
        late = dict(world.objects["b"], metadata={"name": "late", "namespace": "default", "labels": {"app": "empty"}})
        world.hub.write("late.yaml", late)
        try:
            wait_for("served", lambda: line.ask() == "edge-1.b")
        finally:
            world.hub.delete("late.yaml")
        wait_for("refused", lambda: refused(world, world.client, "empty", 7000))


def test_service_changes(world):
    """Another port, another name, gone: the maps follow, the rules stay as they are."""
    rules = world.near.table()
    world.hub.write("more.yaml", service("more", ("echo", 7000, 5001), selector="echo", protocol="UDP"))
    wait_for("served", lambda: set(world.names(world.client, "more", 7000, 30)) >= {"edge-1.a", "edge-1.b"})
    world.hub.write("more.yaml", service("more", ("echo", 7001, 5001), selector="echo", protocol="UDP"))
    wait_for("other port", lambda: "edge-1.a" in world.names(world.client, "more", 7001, 20))
    assert refused(world, world.client, "more", 7000)
    assert world.near.table() == rules
    world.hub.delete("more.yaml")
    wait_for("gone", lambda: world.ports() == 3)


def test_table_flushed_by_somebody(world):
    world.near.run("nft", "flush", "ruleset")
    wait_for("put back", lambda: set(world.names(world.client, "only-a", 7000, 2)) == {"edge-1.a"})
    assert world.agent.metrics()["edgeway_iptables_repairs_total"] >= 1
    assert world.agent.process.logged("by=\"nft")


def test_no_gap_while_the_agent_is_killed_and_started(world):
    """The kernel goes on by itself, and the next run replaces the table with all its maps in one step."""
    address = world.client.address_of(f"echo.{DOMAIN}")
    load = subprocess.Popen(world.client.argv(*BARE_PYTHON, os.path.join(HERE, "udpsend.py"), address, "53", "3000",
                                              "--pause", "0.002"), stdout=subprocess.PIPE, text=True)
    for _ in range(3):
        world.agent.process.kill()
        world.agent.start()
    assert load.poll() is None  # it has seen all of it
    seen = collections.Counter(line.split()[0] for line in load.communicate(timeout=PATIENCE_S)[0].splitlines())
    assert set(seen) == EVERYONE and sum(seen.values()) == 3000
