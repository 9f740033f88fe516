"""Who means ill of the kernel's path, and who makes a mistake: pods that lie about their address, machines outside,
tables of others, settings of the node."""
import os
import re
import subprocess

import pytest

from lab import PATIENCE_S, BARE_PYTHON, Lab, Machine, Node, Pod, service, wait_for
from test_kernel_path import EVERYONE, PORT, World

RECORDER_PORT = 5005
SPOOF = """
import socket, struct, sys
def checksum(b):
    s = sum(struct.unpack(f"!{len(b) // 2}H", b))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
source, to, sport, dport, text = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5].encode()
udp = struct.pack("!HHHH", sport, dport, 8 + len(text), 0) + text
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(to))
ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
for _ in range(int(sys.argv[6])):
    raw.sendto(ip + udp, (to, 0))
"""
RECORD = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("recording", flush=True)
while True:
    data, (address, port) = s.recvfrom(65536)
    print(data.decode(), address, flush=True)
    try:
        s.sendto(b"echo of " + data, (address, port))
    except OSError as e:
        print(e, flush=True)
"""
# every UDP datagram that a machine's link sees, as "SOURCE DESTINATION PAYLOAD"
SNIFF = """
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
s.bind(("eth0", 0x0800))
print("sniffing", flush=True)
while True:
    p, where = s.recvfrom(65536)
    n = (p[0] & 15) * 4
    if p[9] == 17 and where[2] != 4:
        print(socket.inet_ntoa(p[12:16]), socket.inet_ntoa(p[16:20]), p[n + 8:].decode("latin-1"), flush=True)
"""


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        made = World(lab)
        made.hub.write("recorder.yaml", service("recorder", ("r", PORT, RECORDER_PORT), selector="echo", protocol="UDP"))
        made.show("a", "b")  # those of this bridge
        made.recorders = {n: made.pods[n].start("recorder", *BARE_PYTHON, "-c", RECORD, str(RECORDER_PORT)) for n in "ab"}
        for r in made.recorders.values():
            wait_for("recorder", lambda r=r: "recording" in r.log())
        wait_for("services", lambda: made.kernel()["udpPorts"] == 3)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-6000:]}")


def ctl(world, *words):
    return world.near.run(world.lab.program("edgewayctl"), "--socket", world.agent.socket, *words, check=False).stdout


def recorded(world):
    return "".join(r.log() for r in world.recorders.values())


def ask(world, machine, text, source_port=0):
    """What the recorder answers, and from where."""
    script = ("import socket, sys\n"
              "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              "s.bind(('', int(sys.argv[4])))\n"
              "s.settimeout(2)\n"
              "for _ in range(30):\n"
              "    s.sendto(sys.argv[3].encode(), (sys.argv[1], int(sys.argv[2])))\n"
              "    try:\n"
              "        data, (a, p) = s.recvfrom(999)\n"
              "        print(data.decode(), a, p)\n"
              "        break\n"
              "    except OSError as e:\n"
              "        print(type(e).__name__)\n")
    return machine.run(*BARE_PYTHON, "-c", script, world.address("recorder"), str(PORT), text, str(source_port)).stdout


def spoof(world, source, text, sport=4444, count=1, to=None, port=PORT):
    world.client.run(*BARE_PYTHON, "-c", SPOOF, source, to or world.address("recorder"), sport, port, text, count)


def fence(world):
    """What was sent before it has gone its way by now: a datagram over the same path is answered."""
    assert "echo of fence" in ask(world, world.client, "fence")


@pytest.mark.parametrize("source", ["127.0.0.1", "172.17.0.1", "192.0.2.11"])
def test_sources_that_are_the_node_itself(world, source):
    """Martians: they reach nobody."""
    spoof(world, source, f"as-{source}", count=20)
    fence(world)
    assert f"as-{source}" not in recorded(world)


def test_source_of_another_pod(world):
    """The answer goes to whose address it is, not to the liar; and the other pod's own flow from that very port works."""
    sniffer = world.client.start("sniffer", *BARE_PYTHON, "-c", SNIFF)
    wait_for("sniffer", lambda: "sniffing" in sniffer.log())
    victim = world.near.pod("victim")
    spoof(world, victim.address, "in-their-name", sport=4545, count=5)
    fence(world)
    wait_for("came through", lambda: recorded(world).count("in-their-name") == 5)
    assert "echo of mine" in ask(world, victim, "mine", 4545)
    seen = sniffer.log()
    assert "echo of fence" in seen  # it does see what comes to it
    assert "in-their-name" not in seen and "mine" not in seen


def test_source_that_is_a_fake_ip(world):
    """Two services that answer each other would never stop."""
    for source in (world.address("recorder"), world.address("datagrams"), "9.251.77.77"):
        spoof(world, source, f"as-{source}", sport=PORT, count=3)
    fence(world)
    before = recorded(world)
    fence(world)
    after = recorded(world)
    assert after.count("as-9.251") == before.count("as-9.251") <= 9
    assert "echo of echo" not in after and "edge-1" not in after


def test_source_that_is_nobodys(world):
    """Nothing of a lie leaves the node with the false address."""
    outside = Machine(world.lab, "outside", address="192.0.2.77")
    sniffer = outside.start("sniffer", *BARE_PYTHON, "-c", SNIFF)
    wait_for("sniffer", lambda: "sniffing" in sniffer.log())
    spoof(world, "192.0.2.77", "as-a-machine-outside", count=5)
    spoof(world, "198.51.100.9", "as-the-world", count=5)
    fence(world)
    assert set(world.names(world.client, world.address("echo"), 10)) <= EVERYONE
    assert all(line.split()[0] == world.address("recorder") or "as-" not in line for line in sniffer.log().splitlines())


def test_liar_does_not_take_a_flow_from_others(world):
    """A port for which another pod has a flow already: its answers go on coming to it."""
    victim = world.near.pod("talker")
    script = ("import socket, sys\n"
              "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              "s.bind(('', 4646))\n"
              "s.settimeout(60)\n"
              "for line in sys.stdin:\n"
              "    s.sendto(line.strip().encode(), (sys.argv[1], int(sys.argv[2])))\n"
              "    print(s.recv(999).decode(), flush=True)\n")
    p = subprocess.Popen(victim.argv(*BARE_PYTHON, "-c", script, world.address("recorder"), str(PORT)), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        for i in range(5):
            p.stdin.write(f"turn-{i}\n")
            p.stdin.flush()
            assert p.stdout.readline().strip() == f"echo of turn-{i}"
            spoof(world, victim.address, f"turn-{i}-lie", sport=4647 + i, count=3)
            fence(world)
    finally:
        p.stdin.close()
        p.wait(PATIENCE_S)


def test_machines_outside(world):
    """Who routes the ranges to this node from outside gets refusals, quickly; the listener takes nobody directly."""
    lan = Machine(world.lab, "lan", address="192.0.2.66")
    for network in ("9.251.0.0/16", "172.17.0.0/16", "10.96.0.0/16"):
        lan.run("ip", "route", "add", network, "via", world.near.address)
    for address in (world.address("echo"), "10.96.0.20", "10.96.0.21"):
        assert world.names(lan, address, 2) == {"ConnectionRefusedError": 2}
    assert world.datagrams(lan, world.address("datagrams"), 2) == {"none"}
    assert set(world.names(lan, world.near.gateway, 3, port=40001)) <= {"ConnectionResetError", "ZeroDivisionError"}


def test_connections_that_others_send_to_our_listener(world):
    """The address that was asked is no service's: refused and said, whoever translates it."""
    world.near.run("nft", "-f", "-", input="""
        table ip third {
            chain pre {
                type nat hook prerouting priority -110;
                ip daddr 203.0.113.9 tcp dport 80 dnat to 172.17.0.1:40001
                iifname "eth0" tcp dport 8888 dnat to 172.17.0.1:40001
            }
        }""")
    lan = Machine(world.lab, "lan2", address="192.0.2.67")
    try:
        for machine, address, port in ((world.client, "203.0.113.9", 80), (lan, world.near.address, 8888)):
            assert set(world.names(machine, address, 2, port=port)) <= {"ConnectionResetError", "ZeroDivisionError"}
            assert re.search(rf"refused a connection to an address that is (not in the mesh|no pod's, as far as the hub says) to={address}:{port}\n",
                             world.agent.process.log())
    finally:
        world.near.run("nft", "delete", "table", "ip", "third")
    assert set(world.names(world.client, world.address("echo"), 20)) == {"edge-1.a", "edge-1.b"}


def test_ipv6_has_no_way_in(world):
    """We listen on IPv6 for other nodes alone, and the bridge's own IPv6 address takes no connections for us."""
    world.near.run("ip", "addr", "add", "fd00::1/64", "dev", "docker0", "nodad")
    world.client.run("ip", "addr", "add", "fd00::9/64", "dev", "eth0", "nodad")
    ours = [line.split()[4] for line in world.near.run("ss", "-H", "-6", "-ltnup").stdout.splitlines() if "edgeway" in line]
    assert ours == ["*:10001"]
    for port in (40001, 53, 80):
        assert set(world.names(world.client, "fd00::1", 2, port=port)) <= {"ConnectionRefusedError"}
    # a client that speaks IPv6 sockets only, as many runtimes do
    assert set(world.names(world.client, f"::ffff:{world.address('echo')}", 20)) == {"edge-1.a", "edge-1.b"}


DAMAGE = [
    "add table ip edgeway {{ flags dormant; }}", "flush chain ip edgeway mesh", "flush chain ip edgeway prerouting",
    "flush set ip edgeway clusterips", "flush map ip edgeway services", "flush map ip edgeway endpoints",
    "delete element ip edgeway services {{ {udp} . udp . 7000 }}", "insert rule ip edgeway mesh drop",
    "add element ip edgeway clusterips {{ 192.0.2.1 }}", "rename chain ip edgeway pods dop", "add set ip edgeway alien {{ type ipv4_addr; }}",
    "add chain ip edgeway alien {{ type filter hook input priority 0; policy drop; }}",
    "delete table ip edgeway", "flush ruleset",
]


@pytest.mark.parametrize("command", DAMAGE)
def test_whatever_is_changed_is_put_back(world, command):
    table = world.near.run("nft", "-s", "list", "table", "ip", "edgeway").stdout
    before = world.agent.metrics()["edgeway_iptables_repairs_total"]
    lab_table = world.near.run("nft", "list", "table", "ip", "lab").stdout
    world.near.run("nft", command.format(udp=world.address("datagrams")))
    wait_for("repaired", lambda: world.agent.metrics()["edgeway_iptables_repairs_total"] > before)

    def whole():
        now = world.near.run("nft", "-s", "list", "table", "ip", "edgeway").stdout
        return sorted(re.split(r"[\s,]+", now)) == sorted(re.split(r"[\s,]+", table))
    wait_for("as it was", whole)
    if command == "flush ruleset":
        world.near.run("nft", "-f", "-", input=lab_table)
    assert set(world.names(world.client, world.address("echo"), 20)) == {"edge-1.a", "edge-1.b"}
    assert world.datagrams(world.client, world.address("datagrams"), 20) == {"edge-1.a", "edge-1.b"}
    assert re.search(r"repairs: [1-9]", ctl(world, "status"))
    assert world.agent.process.logged("somebody changed our table, put back at once by=\"nft")
    assert 'by="unknown"' not in world.agent.process.log()


def test_networks_come_and_go(world):
    """docker network create, run, rm, and again under another name, while the agent runs."""
    for turn in range(3):
        name, gateway = f"br-user{turn}", f"172.{20 + turn}.0.1"
        world.near.add_bridge_link(name, gateway, 16)
        world.near.bridge, world.near.gateway = name, gateway
        try:
            user = Pod(world.near, f"user{turn}", f"172.{20 + turn}.0.{201 + turn}")
        finally:
            world.near.bridge, world.near.gateway = Node.bridge, Node.gateway
        for s in ("echo", "relayed"):
            assert set(world.names(user, world.address(s), 20)) == {"edge-1.a", "edge-1.b"}
        assert world.datagrams(user, world.address("datagrams"), 20) == {"edge-1.a", "edge-1.b"}
        world.near.run("ip", "link", "del", name)
        assert set(world.names(world.client, world.address("echo"), 20)) == {"edge-1.a", "edge-1.b"}
    if world.near.run("sysctl", "-n", "net.bridge.bridge-nf-call-iptables", check=False).stdout.strip() == "1":
        ports = len(re.findall(r"hairpin on", world.near.run("bridge", "-d", "link", "show").stdout))
        wait_for("ports that are gone are forgotten",
                 lambda: world.agent.metrics()["edgeway_iptables_hairpin_ports"] == ports)


def test_flows_under_load_leave_a_gone_endpoint(world):
    """Clients that keep their ports and never pause: each is with another endpoint soon, and nobody is lost meanwhile."""
    script = ("import select, socket, sys, time\n"
              "flows = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(32)]\n"
              "for s in flows:\n"
              "    s.connect((sys.argv[1], int(sys.argv[2])))\n"
              "sent = got = 0\n"
              "while not select.select([sys.stdin], [], [], 0)[0]:\n"
              "    for i, s in enumerate(flows):\n"
              "        s.settimeout(4)\n"
              "        sent += 1\n"
              "        try:\n"
              "            s.send(b'x')\n"
              "            name = s.recv(99).split(b'\\n')[0].decode()\n"
              "            got += 1\n"
              "        except OSError as e:\n"
              "            name = type(e).__name__\n"
              "        print(i, name, flush=True)\n"
              "print('sum', sent, got, flush=True)\n")
    p = subprocess.Popen(world.client.argv(*BARE_PYTHON, "-c", script, world.address("datagrams"), str(PORT)),
                         stdin=subprocess.PIPE, stdout=open(os.path.join(world.client.dir, "flows"), "w+"), text=True)
    path = os.path.join(world.client.dir, "flows")

    def lines():
        with open(path) as f:
            return [line.split() for line in f.read().splitlines() if line.count(" ") >= 1]
    try:
        wait_for("flows", lambda: {line[1] for line in lines()} == {"edge-1.a", "edge-1.b"})
        ended = world.kernel()["flowsEnded"]
        world.show("a")
        wait_for("flows ended", lambda: world.kernel()["flowsEnded"] > ended)
        wait_for("all with the other one", lambda: {line[1] for line in lines()[-64:]} == {"edge-1.a"})
        world.show("a", "b")
        wait_for("back", lambda: world.datagrams(world.client, world.address("datagrams"), 20) == {"edge-1.a", "edge-1.b"})
        p.stdin.close()
        assert p.wait(PATIENCE_S) == 0
    finally:
        p.kill()
    _, sent, got = next(line for line in lines() if line[0] == "sum")
    assert int(sent) - int(got) <= 32  # at most what was under way when its flow was ended


def test_tcp_under_load_finishes_with_a_gone_endpoint(world):
    """A pod that goes away keeps the connections it has to their end, busy as they are; no new one comes to it."""
    script = ("import socket, sys, time\n"
              "s = socket.create_connection((sys.argv[1], 7000), 60)\n"
              "name = b''\n"
              "while not name.endswith(b'\\n'):\n"
              "    name += s.recv(1)\n"
              "print(name.decode().strip(), flush=True)\n"
              "total, block = 0, bytes(range(256)) * 16\n"
              "while total < (4 << 20):\n"
              "    s.sendall(block)\n"
              "    got = b''\n"
              "    while len(got) < len(block):\n"
              "        got += s.recv(65536) or 1 / 0\n"
              "    assert got == block\n"
              "    total += len(block)\n"
              "    time.sleep(0.001)\n"
              "print('whole', flush=True)\n")
    running = [subprocess.Popen(world.client.argv(*BARE_PYTHON, "-c", script, world.address("echo")), stdout=subprocess.PIPE,
                                text=True) for _ in range(6)]
    assert {p.stdout.readline().strip() for p in running} <= {"edge-1.a", "edge-1.b"}
    world.show("a")
    wait_for("gone", lambda: set(world.names(world.client, world.address("echo"), 20)) == {"edge-1.a"})
    assert [p.communicate(timeout=PATIENCE_S)[0].strip() for p in running] == ["whole"] * 6
    world.show("a", "b")
    wait_for("back", lambda: set(world.names(world.client, world.address("echo"), 20)) == {"edge-1.a", "edge-1.b"})


def test_many_flows_at_once(world):
    """A pod that opens flows by the ten thousand: the change of an endpoint ends them, and the agent goes on."""
    script = ("import socket, sys\n"
              "for base in range(1024, 61024):\n"
              "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              "    s.bind(('', base))\n"
              "    try:\n"
              "        s.sendto(b'', (sys.argv[1], int(sys.argv[2])))\n"
              "    except OSError:\n"
              "        pass\n"
              "    s.close()\n")
    world.client.run(*BARE_PYTHON, "-c", script, world.address("datagrams"), str(PORT), seconds=60)
    ended = world.kernel()["flowsEnded"]
    world.show("a")
    wait_for("flows ended", lambda: world.kernel()["flowsEnded"] - ended > 10000)
    # They end in batches, and the ports of those that have yet to end may come again.
    wait_for("only one is left", lambda: world.datagrams(world.client, world.address("datagrams"), 20) == {"edge-1.a"})
    world.show("a", "b")
    wait_for("back", lambda: world.datagrams(world.client, world.address("datagrams"), 20) == {"edge-1.a", "edge-1.b"})


def test_forwarding_switched_off(world):
    """Nothing of ours is wrong, and yet pods reach nobody through the kernel: said in the log, a metric and edgewayctl."""
    assert world.agent.metrics()['edgeway_iptables_obstacles{kind="forwarding"}'] == 0
    for key in ("net.ipv4.ip_forward", "net.ipv4.conf.docker0.forwarding"):
        world.near.run("sysctl", "-qw", f"{key}=0")
        try:
            wait_for("told", lambda: world.agent.metrics()['edgeway_iptables_obstacles{kind="forwarding"}'] == 1)
            assert "is 0: pods do not reach UDP services" in ctl(world, "status")
            assert world.agent.process.logged("is 0: pods do not reach UDP services")
        finally:
            world.near.run("sysctl", "-qw", f"{key}=1")
        wait_for("over", lambda: world.agent.metrics()['edgeway_iptables_obstacles{kind="forwarding"}'] == 0)
    assert world.datagrams(world.client, world.address("datagrams"), 20) == {"edge-1.a", "edge-1.b"}


def test_range_of_the_nodes_own_network(world):
    """mesh.subnet set to the network of the node would cut it off, from its hub first: refused, said, and nothing is touched."""
    assert world.agent.stop() == 0
    routes = world.near.run("ip", "route").stdout
    for subnet in ("192.0.2.0/24", "192.0.0.0/8", "172.17.0.0/16"):
        world.agent.start("--mesh.subnet", subnet, ready=False)
        wait_for("said", lambda: f"mesh.subnet {subnet} holds " in world.agent.process.log())
        assert world.near.run("ping", "-c", "1", "-W", "5", "192.0.2.1", check=False).returncode == 0
        assert not world.agent.ready() and world.near.table() == "" and world.near.run("ip", "route").stdout == routes
        assert world.agent.stop() == 0
    world.agent.start("--mesh.subnet", "172.17.128.0/17")  # somebody may want that, and is told
    wait_for("told", lambda: "lies within a network of this node, 172.17.0.1/16" in ctl(world, "status"))
    assert world.agent.stop() == 0
    assert world.near.run("ip", "route").stdout == routes
