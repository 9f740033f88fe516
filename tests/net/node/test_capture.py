"""Queries of pods to the upstreams come to the agent (dns.capture), while it answers and no longer."""
import os
import signal

import pytest

from lab import FAKE, HERE, BARE_PYTHON, UPSTREAM_ADDRESS, Agent, Dialogue, Hub, Lab, Node, service, upstream, wait_for

NAME = "edge-nginx.default.svc.cluster.local"
OTHER_UPSTREAM = "192.0.2.54"
REALLY = "REFUSED"  # what the upstream itself says to cluster names
# A resolver that keeps its socket: prints one status for each line that it reads.
RESOLVER = """
import socket, struct, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5353))
s.settimeout(5)
for line in sys.stdin:
    name = b"".join(bytes([len(p)]) + p.encode() for p in line.strip().split(".")) + b"\\0"
    s.sendto(struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + name + b"\\0\\1\\0\\1", (sys.argv[1], 53))
    try:
        answer, server = s.recvfrom(4096)
        print(server[0], answer[3] & 15, answer[7], flush=True)
    except OSError as e:
        print("none", e, flush=True)
"""


class Resolver(Dialogue):
    """In a pod; asks an upstream from one port for as long as it lives."""

    def __init__(self, pod, server):
        super().__init__(pod, RESOLVER, server)

    def ask(self, name):
        """[server, rcode, answers]"""
        return super().ask(name).split()


class World:
    def __init__(self, lab):
        self.dns = upstream(lab, "www.example.test/203.0.113.7")
        self.hub = Hub(lab)
        self.hub.write("services.yaml", service("edge-nginx", ("http", 80, 80)))
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pod = self.node.pod("client")
        self.agent = Agent(self.node, self.hub)
        self.captured()

    def captured(self, *addresses, seconds=10):
        want = list(addresses) or [UPSTREAM_ADDRESS]
        wait_for(f"{want} captured", lambda: self.agent.state()["iptables"]["captured"]["upstreams"] == want, seconds)

    def in_set(self):
        return self.node.run("nft", "list", "set", "ip", "edgeway", "upstreams", check=False).stdout

    def ask(self, *options, name=NAME, server=UPSTREAM_ADDRESS):
        return self.pod.dns(name, "A", *options, server=server)


def ours(answer):
    return answer is not None and answer[0] == "NOERROR" and FAKE.match(answer[1][0][4])


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        made = World(lab)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


def test_pod_that_knows_only_the_upstream(world):
    """Its resolv.conf was copied before the agent started."""
    with open(world.pod.resolv_conf) as f:
        assert world.node.gateway not in f.read()
    assert FAKE.match(world.pod.getent(NAME))
    assert world.pod.getent("www.example.test") == "203.0.113.7"


def test_udp_and_tcp_from_the_address_that_was_asked(world):
    assert ours(world.ask()) and ours(world.ask("+tcp"))
    assert world.ask("+tcp", name="www.example.test")[1][0][4] == "203.0.113.7"
    with Resolver(world.pod, UPSTREAM_ADDRESS) as r:
        assert r.ask(NAME) == [UPSTREAM_ADDRESS, "0", "1"]


def test_all_servers_asked_at_once(world):
    """As musl does it: whoever answers first is believed, so nobody may say NXDOMAIN."""
    with open(world.pod.resolv_conf, "w") as f:
        f.write(f"nameserver {world.node.gateway}\nnameserver {UPSTREAM_ADDRESS}\n")
    for _ in range(20):
        for server in (world.node.gateway, UPSTREAM_ADDRESS):
            assert ours(world.ask(server=server))
    p = world.pod.run("busybox", "nslookup", NAME, UPSTREAM_ADDRESS, check=False)
    assert "9.251." in p.stdout


def test_other_ports_and_servers_are_left_alone(world):
    backend = world.dns.start("echo", *BARE_PYTHON, os.path.join(HERE, "backend.py"), "--name", "other", "--tcp", "5300")
    wait_for("serving", lambda: "serving" in backend.log())
    assert world.pod.send(UPSTREAM_ADDRESS, 5300, "x") == "other\nx"
    assert world.ask("+tcp", server="192.0.2.1") is None  # nobody serves DNS there, and we do not either


def test_the_host_and_the_agent_itself_are_not_captured(world):
    assert world.node.dns(NAME, server=UPSTREAM_ADDRESS)[0] == REALLY
    told = "query[a] fresh.example.test from 192.0.2.11"  # in the case that 0x20 chose
    assert told not in world.dns.process.log().lower()
    assert world.ask(name="fresh.example.test")[0] == "NXDOMAIN"
    assert told in world.dns.process.log().lower()


def test_elements_expire_unless_renewed(world):
    assert "timeout 10s" in world.in_set()
    world.agent.process.popen.send_signal(signal.SIGSTOP)
    try:
        wait_for("upstream itself", lambda: world.ask()[0] == REALLY, pause=0.2)
    finally:
        world.agent.process.popen.send_signal(signal.SIGCONT)
    world.captured()
    assert ours(world.ask())


def test_flushed_by_somebody(world):
    world.node.run("nft", "flush", "set", "ip", "edgeway", "upstreams")
    wait_for("put back", lambda: UPSTREAM_ADDRESS in world.in_set())
    world.node.run("nft", "delete", "table", "ip", "edgeway")
    wait_for("put back", lambda: UPSTREAM_ADDRESS in world.in_set())
    assert ours(world.ask())


def test_upstreams_change(world):
    """resolv.conf is written by a DHCP client: the new server is captured at once, the old one no more."""
    with Resolver(world.pod, UPSTREAM_ADDRESS) as r:
        assert r.ask(NAME) == [UPSTREAM_ADDRESS, "0", "1"]
        with open(world.node.resolv_conf, "w") as f:
            f.write(f"nameserver {OTHER_UPSTREAM}\n")
        world.captured(OTHER_UPSTREAM)
        assert ours(world.ask(server=OTHER_UPSTREAM))
        assert r.ask(NAME) == [UPSTREAM_ADDRESS, "5", "0"]
        with open(world.node.resolv_conf, "wb") as f:
            f.write(world.node.original)
        world.captured()
        assert r.ask(NAME) == [UPSTREAM_ADDRESS, "0", "1"]


# Answers every query with its head, a rcode of 9 and 7 answers.
STRANGE = """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
s.bind(("::", 53))
print("serving", flush=True)
while True:
    query, client = s.recvfrom(4096)
    s.sendto(query[:2] + bytes([0x81, 0x89, 0, 1, 0, 7]) + query[8:], client)
"""


def test_another_programs_redirection_of_ipv6_is_left_alone(world):
    """Its flows are not ours to end when the upstreams change."""
    node, gateway6, server6 = world.node, "fd00:17::1", "fd00:c0::99"
    node.run("ip", "addr", "add", f"{gateway6}/64", "dev", "docker0", "nodad")
    world.pod.run("ip", "addr", "add", "fd00:17::2/64", "dev", "eth0", "nodad")
    world.pod.run("ip", "route", "add", "default", "via", gateway6)
    strange = node.start("strange", *BARE_PYTHON, "-c", STRANGE)
    wait_for("serving", lambda: "serving" in strange.log())
    node.run("nft", "add table ip6 others; add chain ip6 others pre { type nat hook prerouting priority -100; }; "
                    "add rule ip6 others pre iifname docker0 udp dport 53 redirect")
    with Resolver(world.pod, server6) as r:
        assert r.ask(NAME) == [server6, "9", "7"]
        # only the flow leads there now; without any rule of nat the kernel would track none
        node.run("nft", "flush chain ip6 others pre; add rule ip6 others pre udp dport 54 redirect")
        for text in (f"nameserver {OTHER_UPSTREAM}\n".encode(), node.original):
            with open(node.resolv_conf, "wb") as f:
                f.write(text)
            world.captured(OTHER_UPSTREAM if OTHER_UPSTREAM.encode() in text else UPSTREAM_ADDRESS)
            assert r.ask(NAME) == [server6, "9", "7"]
    node.run("nft", "delete", "table", "ip6", "others")
    strange.kill()


def test_kept_port_over_stop_and_start(world):
    """What conntrack remembers of the old way is deleted: a resolver that keeps its port follows at once."""
    with Resolver(world.pod, UPSTREAM_ADDRESS) as r:
        assert r.ask(NAME) == [UPSTREAM_ADDRESS, "0", "1"]
        assert world.agent.stop() == 0
        assert r.ask(NAME) == [UPSTREAM_ADDRESS, "5", "0"]
        world.agent.start()
        world.captured()
        assert r.ask(NAME) == [UPSTREAM_ADDRESS, "0", "1"]
        assert world.agent.state()["iptables"]["captured"]["flowsEnded"] >= 1


def test_seen_by_the_operator(world):
    assert len(world.agent.state()["iptables"]["captured"]["upstreams"]) == 1
    ctl = world.node.run(world.agent.lab.program("edgewayctl"), "--socket", world.agent.socket, "status").stdout
    assert "captured" in ctl and UPSTREAM_ADDRESS in ctl


def test_killed_agent_captures_nothing(world):
    world.agent.process.kill()
    wait_for("upstream itself", lambda: world.ask()[0] == REALLY, pause=0.2)
    assert world.ask("+tcp")[0] == REALLY
    assert world.agent.attempt("--restore")[0] == 0
    assert world.node.clean()
    world.agent.start()
    world.captured()
    assert ours(world.ask())


def test_capture_off(world):
    assert world.agent.stop() == 0
    world.agent.start("--dns.capture", "off")
    try:
        with open(world.pod.resolv_conf, "w") as f:
            f.write(f"nameserver {UPSTREAM_ADDRESS}\n")
        assert world.ask()[0] == REALLY
        assert ours(world.ask(server=world.node.gateway))
        assert UPSTREAM_ADDRESS not in world.in_set()
    finally:
        world.agent.stop()
    assert world.node.clean()


def test_upstream_that_is_a_container(world):
    """A dnsmasq on the bridge is the node's upstream: its own queries must not come back to us."""
    inner = world.node.pod("dnsmasq")
    inner.process = inner.start(
        "dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
        "--conf-file=/dev/null", "--bind-interfaces", f"--listen-address={inner.address}", f"--server={UPSTREAM_ADDRESS}")
    with open(world.node.resolv_conf, "w") as f:
        f.write(f"nameserver {inner.address}\nnameserver {UPSTREAM_ADDRESS}\n")
    world.agent.start()
    try:
        world.captured(*sorted([inner.address, UPSTREAM_ADDRESS]))
        assert inner.dns(NAME, server=UPSTREAM_ADDRESS)[0] == REALLY
        assert world.pod.dns("www.example.test", server=UPSTREAM_ADDRESS)[1][0][4] == "203.0.113.7"
    finally:
        world.agent.stop()
