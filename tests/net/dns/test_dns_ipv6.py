"""DNS at the node's IPv6 address (mesh.subnet6): the same answers as at the IPv4 one by UDP and TCP, an upstream of IPv6, who may ask, another
program on the port, and a successor that gets the sockets of both families."""
import ipaddress
import json
import re
import socket
import subprocess

import pytest

import lab as labs
from dnskit import D

RANGE, OWN, GATEWAY = "fd09:251::/64", "fd09:251::1:0:1", "172.17.0.1"
UPSTREAM6 = "fd00:c0::53"
SERVERS = [GATEWAY, OWN]
# Asks for one name until its standard input ends; what it prints: questions, and those without the one right answer.
QUESTIONS = """
import select, socket, struct, sys
name = b"".join(bytes([len(p)]) + p.encode() for p in sys.argv[2].split(".")) + b"\\0"
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.settimeout(30)
asked = lost = 0
while not select.select([sys.stdin], [], [], 0.002)[0]:
    asked += 1
    s.sendto(struct.pack(">6H", asked & 65535, 0x100, 1, 0, 0, 0) + name + b"\\0\\x1c\\0\\1", (sys.argv[1], 53))
    try:
        m = s.recv(512)
        lost += m[:2] != struct.pack(">H", asked & 65535) or struct.unpack(">H", m[6:8])[0] != 1
    except socket.timeout:
        lost += 1
print(asked, lost)
"""
HOLD = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_IP, 15, 1)
s.bind((sys.argv[1], 53))
print("held", flush=True)
sys.stdin.read()
"""


def add6(machine, dev, address):
    machine.run("ip", "addr", "add", f"{address}/64", "dev", dev, "nodad")


class World:
    def __init__(self, lab):
        self.upstream = labs.Machine(lab, "dns", address=labs.UPSTREAM_ADDRESS)
        add6(self.upstream, "eth0", UPSTREAM6)
        self.upstream.start("dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
                            "--bind-interfaces", f"--listen-address={UPSTREAM6}", "--conf-file=/dev/null", "--address=/#/",
                            "--host-record=both.example.test,203.0.113.7,2001:db8::7")
        self.hub = labs.Hub(lab)
        self.hub.write("services.yaml", labs.service("web", ("http", 80, 8080), clusterIPs=["10.96.0.7", "fd96::7"]))
        self.node = labs.Node(lab, "edge-1", "192.0.2.11")
        add6(self.node, "docker0", "fd00:17::1")
        add6(self.node, "eth0", "fd00:c0::11")
        self.node.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        self.upstream.run("ip", "route", "add", "fd00:17::/64", "via", "fd00:c0::11")
        self.stranger = labs.Machine(lab, "stranger", address="192.0.2.99")
        add6(self.stranger, "eth0", "fd00:c0::99")
        self.stranger.run("ip", "route", "add", RANGE, "via", "fd00:c0::11")
        self.pod = self.node.pod("client")
        add6(self.pod, "eth0", "fd00:17::2")
        self.pod.run("ip", "route", "add", "default", "via", "fd00:17::1")
        self.agent = labs.Agent(self.node, self.hub, "--mesh.subnet6", RANGE, "--dns.upstreams", f"[{UPSTREAM6}]:53", "--mesh.workers", "2")
        labs.wait_for("the service", lambda: self.agent.state()["services"] == 1)
        self.web = self.pod.address_of(f"web.default.svc.{D}", f"@{GATEWAY}")
        self.web6 = str(ipaddress.IPv6Address(int(ipaddress.IPv6Network(RANGE)[0]) | int(ipaddress.IPv4Address(self.web))))

    def answers(self, name, rtype, *options, server=OWN):
        status, answer, _ = self.pod.dns(name, rtype, *options, server=server)
        return status, [a[4] for a in answer]

    def serves(self):
        return all(self.answers(f"web.default.svc.{D}", "AAAA", server=s) == ("NOERROR", [self.web6]) for s in SERVERS)


@pytest.fixture(scope="module")
def world():
    with labs.Lab() as lab:
        made = World(lab)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


@pytest.mark.parametrize("by", ["+notcp", "+tcp"])
@pytest.mark.parametrize("server", SERVERS)
def test_the_same_at_both_addresses(world, server, by):
    pointer = f"web.default.svc.{D}."
    rows = [(f"web.default.svc.{D}", "A", [world.web]), (f"web.default.svc.{D}", "AAAA", [world.web6]),
            (f"web.default.svc.{D}", "TXT", []), (f"ns.dns.{D}", "AAAA", [OWN]), (f"ns.dns.{D}", "A", [GATEWAY]),
            (f"_http._tcp.web.default.svc.{D}", "SRV", [f"0 100 80 {pointer}"]),
            ("both.example.test", "A", ["203.0.113.7"]), ("both.example.test", "AAAA", ["2001:db8::7"])]
    rows += [(ipaddress.ip_address(a).reverse_pointer, "PTR", [pointer]) for a in (world.web, world.web6, "10.96.0.7", "fd96::7")]
    for name, rtype, want in rows:
        assert world.answers(name, rtype, by, server=server) == ("NOERROR", want), (name, rtype)
    for name in (f"gone.default.svc.{D}", ipaddress.ip_address("fd09:251::9fb:fffe").reverse_pointer):
        status, _, authority = world.pod.dns(name, "PTR", by, server=server)
        assert status == "NXDOMAIN" and authority[0][3] == "SOA"
    status, _, authority = world.pod.dns(ipaddress.ip_address("fd09:251::9fb:fffe").reverse_pointer, "PTR", by, server=server)
    assert authority[0][0] == "0.0.0.0.0.0.0.0.1.5.2.0.9.0.d.f.ip6.arpa."


def test_the_upstream_is_asked_by_ipv6(world):
    forwarding = world.agent.state()["dns"]["forwarding"]
    assert f"[{UPSTREAM6}]:53" in [u["address"] for u in forwarding if u["state"] == "alive"], forwarding


def test_a_cookie_is_of_the_client(world):
    p = world.pod.run("dig", f"@{OWN}", "+cookie=0102030405060708", f"web.default.svc.{D}", "AAAA")
    assert "(good)" in p.stdout and world.web6 in p.stdout


def test_libc_asks_there(world):
    with open(world.pod.resolv_conf, "w") as f:
        f.write(f"nameserver {OWN}\nsearch default.svc.{D}\noptions ndots:5\n")
    found = world.pod.run("getent", "ahosts", "web").stdout
    assert world.web in found and world.web6 in found


def test_the_state_tells_both(world):
    state = world.agent.state()
    assert state["dns"]["address6"] == f"[{OWN}]:53" and state["lb"]["listen6"] == f"[{OWN}]:40001" and state["error6"] == ""


def test_a_stranger_is_not_answered(world):
    before = world.agent.state()["dns"]["unanswered"]["foreign"]
    assert world.stranger.dns(f"web.default.svc.{D}", "AAAA", "+time=1", server=OWN) is None
    assert world.stranger.dns(f"web.default.svc.{D}", "AAAA", "+time=1", "+tcp", server=OWN) is None
    assert world.agent.state()["dns"]["unanswered"]["foreign"] >= before + 1
    assert world.serves()


@pytest.mark.parametrize("by", ["+notcp", "+tcp"])
def test_queries_to_the_upstream_are_captured(world, by):
    labs.wait_for("the capture", lambda: UPSTREAM6 in world.agent.state()["iptables"]["captured"]["upstreams"])
    assert world.answers(f"web.default.svc.{D}", "AAAA", by, server=UPSTREAM6) == ("NOERROR", [world.web6])
    assert world.answers("both.example.test", "AAAA", by, server=UPSTREAM6) == ("NOERROR", ["2001:db8::7"])


def test_a_killed_agent_captures_nothing(world):
    world.agent.process.kill()
    for by in ("+notcp", "+tcp"):
        labs.wait_for("the upstream itself", lambda b=by: world.answers(f"web.default.svc.{D}", "AAAA", b, server=UPSTREAM6)[1] == [], pause=0.2)
        assert world.answers("both.example.test", "AAAA", by, server=UPSTREAM6) == ("NOERROR", ["2001:db8::7"])
    world.agent.start()
    labs.wait_for("the capture", lambda: world.answers(f"web.default.svc.{D}", "AAAA", server=UPSTREAM6) == ("NOERROR", [world.web6]))


class Next(labs.Agent):
    def argv(self, *options):
        return super().argv("--takeover", "true", *options)


def ask_for_sockets(agent, path):
    """What an agent is given; then it has ended, and the first one goes on."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(labs.PATIENCE_S)
        s.connect(agent.socket)
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        _, fds, _, _ = socket.recv_fds(s, 256, 253)
        sockets = [socket.socket(fileno=fd) for fd in fds[2:]]
        found = [one.getsockname()[0] for one in sockets]
        for fd in fds[:2]:
            socket.os.close(fd)
        for one in sockets:
            one.close()
    labs.wait_for("it goes on", agent.ready)
    return found


def test_an_older_successor_gets_what_it_knows(world):
    assert ask_for_sockets(world.agent, "/takeover") == 6 * [GATEWAY]
    assert ask_for_sockets(world.agent, "/takeover?ipv6") == 6 * [GATEWAY] + 6 * [OWN]
    labs.wait_for("serves", world.serves)


def test_a_successor_goes_on_at_both(world):
    before = world.agent
    asks = subprocess.Popen(world.pod.argv(*labs.BARE_PYTHON, "-c", QUESTIONS, OWN, f"web.default.svc.{D}"), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    world.agent = Next(world.node, None, *before.options, token=before.token)
    labs.wait_for("all handed over", lambda: "waiting to be stopped" in before.process.log())
    assert before.process.stop() == 0 and world.serves()
    asked, lost = map(int, asks.communicate("\n", timeout=labs.PATIENCE_S)[0].split())
    assert asked > 0 and lost == 0
    assert "takes over sockets=12" in world.agent.process.log()
    assert "cannot serve IPv6" not in world.agent.process.log()


def test_ipv4_is_served_while_another_has_the_port(world):
    assert world.agent.stop() == 0
    other = subprocess.Popen(world.node.argv(*labs.BARE_PYTHON, "-c", HOLD, OWN), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    world.agent.start()
    labs.wait_for("IPv4", lambda: world.answers(f"web.default.svc.{D}", "A", server=GATEWAY) == ("NOERROR", [world.web]))
    assert world.answers(f"web.default.svc.{D}", "AAAA", server=GATEWAY) == ("NOERROR", [])
    assert f"cannot bind [{OWN}]:53" in world.agent.state()["error6"]
    labs.wait_for("the problem", lambda: 'edgeway_problem{what="ipv6",class="fault"} 1' in world.agent.ask("/metrics")[1])
    status = world.node.run(world.agent.lab.program("edgewayctl"), "--socket", world.agent.socket, "status", check=False).stdout
    assert re.search(rf"ipv6.*cannot bind \[{OWN}\]:53", status), status
    captured = lambda: world.agent.state()["iptables"]["captured"]["upstreams"]  # noqa: E731
    labs.wait_for("the capture", captured)
    assert UPSTREAM6 not in captured()  # nobody of ours would answer
    other.communicate("")
    labs.wait_for("IPv6", world.serves)
    labs.wait_for("the capture of IPv6", lambda: UPSTREAM6 in captured())
    assert world.agent.process.logged("serves IPv6 now") and world.agent.state()["error6"] == ""
    labs.wait_for("no problem", lambda: 'what="ipv6"' not in world.agent.ask("/metrics")[1])


def test_without_the_range_there_is_none(world):
    assert world.agent.stop() == 0
    world.agent.options = tuple(o for o in world.agent.options if o not in ("--mesh.subnet6", RANGE))
    world.agent.start()
    assert world.answers(f"web.default.svc.{D}", "AAAA", server=GATEWAY) == ("NOERROR", [])
    assert "address6" not in world.agent.state()["dns"] and json.dumps(world.agent.state()).count(OWN) == 0
