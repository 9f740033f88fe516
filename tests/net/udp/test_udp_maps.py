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
from lab import PATIENCE_S, Lab, Machine, pod, service, wait_for
from tunnelkit import Site

HUB, SECOND, FRIEND, STRANGER = "192.0.2.1", "192.0.2.101", "192.0.2.21", "192.0.2.22"
IDLE_MS, FLOWS = 500, 80  # 20 of one source address
NODE_DNS, POD_DNS, ECHO, CLOSED, REFUSED, OTHER, WILD, CLOUD, CHOSEN, DUAL = range(5301, 5311)
MAPS = [f"{{listen: '{HUB}:{NODE_DNS}', node: edge-1, target: 7053}}",
        f"{{listen: '{HUB}:{POD_DNS}', service: 'dns.default:53'}}",
        f"{{listen: '{HUB}:{ECHO}', node: edge-1, target: 7001}}",
        f"{{listen: '{HUB}:{CLOSED}', node: edge-1, target: 8001}}",
        f"{{listen: '{HUB}:{REFUSED}', node: edge-1, target: 7999}}",
        f"{{listen: '{HUB}:{OTHER}', node: edge-2, target: 7001}}",
        f"{{listen: '0.0.0.0:{WILD}', node: edge-1, target: 7001}}",
        f"{{listen: '{HUB}:{CLOUD}', service: 'cloud.default:53'}}",
        f"{{listen: '{HUB}:{CHOSEN}', node: edge-1, target: '172.17.0.1:7002'}}",
        f"{{listen: '[::]:{DUAL}', node: edge-1, target: 7001}}"]
ADMITTED = [FRIEND, "fd00::21", "192.0.2.128/28"]


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


def udp_socket(machine, bind=None, connect=None, seconds=PATIENCE_S):
    def make():
        s = socket.socket(socket.AF_INET6 if ":" in (connect or bind)[0] else socket.AF_INET, socket.SOCK_DGRAM)
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
        self.config = os.path.join(lab.dir, "hub.yaml")
        self.write()
        super().__init__(lab, "--config", self.config, "--ingress.udp", f"[{', '.join(MAPS)}]", "--ingress.udpIdle", f"{IDLE_MS}ms",
                         "--ingress.udpFlows", str(FLOWS), "--ingress.http", f"{HUB}:10080")
        self.friend, self.stranger = Machine(lab, "friend", address=FRIEND), Machine(lab, "stranger", address=STRANGER)
        for machine, address in ((self.hub.machine, f"{SECOND}/24"), (self.hub.machine, "fd00::1/64"), (self.hub.machine, "fd00::2/64"),
                                 (self.friend, "fd00::21/64"), *((self.friend, f"192.0.2.{n}/24") for n in range(128, 136))):
            machine.run("ip", "addr", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))
        self.server = Machine(lab, "server", address="192.0.2.31")
        self.edge, self.far = self.nodes
        self.pod = self.edge.pod("dns")
        self.backend(self.edge, "stream", "--stream", "7003")
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
        self.objects = [service("dns", ("dns", 53, "dns"), protocol="UDP"), pod("dns", self.edge, self.pod.address, ("dns", 53, 0), protocol="UDP"),
                        cloud, slice_]
        self.hub.write("dns.yaml", *self.objects)
        wait_for("services", lambda: len(self.hub.state()["hub"]["services"]) == 2)
        wait_for("the node knows them", lambda: self.agents[0].state()["meta"]["synced"] and
                 self.client(POD_DNS).ask_dns() == "203.0.113.2")

    def write(self, admitted=ADMITTED, **limits):
        with open(self.config, "w") as f:
            f.write("access:\n- {from: 192.0.2.1, to: ['*']}\n" + "".join(f"- {{from: '{a}', to: ['*']}}\n" for a in admitted))
            if limits:
                f.write("ingress:\n  limits: {" + ", ".join(f"{k}: {v}" for k, v in limits.items()) + "}\n")

    def reload(self, admitted=ADMITTED, **limits):
        name = 'edgeway_hub_reloads_total{result="adopted"}'
        before = self.hub.metrics()[name]
        self.write(admitted, **limits)
        self.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: self.hub.metrics()[name] == before + 1)

    def client(self, port, machine=None, address=HUB, seconds=PATIENCE_S):
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

    def audit(self, at, port, daemon=None):
        """The lines on what has ended since."""
        daemon, mark = daemon or self.hub, f":{port} " if daemon is None else f":{port}\""
        return [x for x in daemon.process.log()[at:].splitlines() if mark in x and ("audit: door=ingress.udp" in x or "flow ended" in x)]

    def dials(self, agent):
        return sum(v for n, v in agent.metrics().items() if n.startswith("edgeway_tunnel_dials_total"))

    def flows(self, port):
        return [f for f in self.hub.state()["hub"]["udpFlows"] if f["listen"].endswith(f":{port}")]


class Client:
    def __init__(self, machine, to, seconds=PATIENCE_S):
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
        for daemon in (*made.agents, made.hub.process):
            daemon.stop()
        assert not any("Sanitizer" in p.log() for p in (made.hub.process, *(a.process for a in made.agents)))


def no_flow(site):
    flows = [m["flows"] for m in site.hub.state()["hub"]["udpMaps"]]
    flows += [a.state()["tunnel"][part]["flows"] for a in site.agents for part in ("udp", "outwardUdp")]
    return len(flows) == len(MAPS) + 4 and not any(flows)


def udp_sockets(site):
    """Connected ones of the hub's and the agents: none but those of flows."""
    return [line for d, machine in ((site.hub, site.hub.machine), *((a, a.node) for a in site.agents))
            for line in machine.run("ss", "-uanpH", "state", "established").stdout.splitlines()
            if f"pid={d.process.pid}," in line and re.search(r":70\d\d |:7999 |:5353 |172.17.0.2:53 ", line)]


as_before = tunnelkit.as_before


@pytest.fixture(autouse=True)
def without_flows(as_before, site):
    yield
    wait_for("all flows have ended", lambda: no_flow(site))
    assert udp_sockets(site) == []


# --- what goes through -----------------------------------------------------------------------------


@pytest.mark.parametrize("port,answer", [(NODE_DNS, "203.0.113.1"), (POD_DNS, "203.0.113.2"), (CLOUD, "203.0.113.3")],
                         ids=["node", "service", "cloud"])
def test_dns(site, port, answer):
    """A real server and a real client; at the node it listens on one address only, which is not the first that is tried."""
    def dig(*options):
        return site.friend.run("dig", f"@{HUB}", "-p", port, "+tries=1", "+time=30", "+notcp", "+ignore", "+short", *options).stdout.strip()
    assert dig("who.test") == answer
    assert dig("+bufsize=4096", "-t", "TXT", "long.test").count("x" * 250) == 4
    assert next(m["opened"] for m in site.hub.state()["hub"]["udpMaps"] if m["listen"].endswith(f":{port}")) >= 2


def test_an_address_at_the_node(site):
    with Echo(site.edge, "172.17.0.1", 7002), site.client(CHOSEN) as c:
        c.send(b"x")
        assert c.recv(9) == b"x"


def test_sizes(site):
    with Echo(site.edge, "127.0.0.1", 7001), site.client(ECHO) as c:
        for size in (0, 1, 1400, 9000, 65507, 0, 65507):
            data = os.urandom(size)
            c.send(data)
            assert c.recv(65536) == data, size


def test_a_path_with_a_smaller_mtu(site):
    """What a router says about one datagram that is too long ends no flow."""
    hub, router, server = site.hub.machine, Machine(site.lab, "router", address="192.0.2.41"), "192.0.2.31"
    router.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.eth0.send_redirects=0")
    router.ip(f"route add {server} dev eth0 mtu lock 1400")
    hub.ip(f"route add {server} via {router.address}")
    at = len(site.hub.process.log())
    try:
        client = site.client(CLOUD)
        with client as c:
            assert client.ask_dns() == "203.0.113.3"
            c.send(bytes(1450))
            wait_for("told by the router", lambda: "mtu 1400" in hub.run("ip", "route", "get", server).stdout)
            assert client.ask_dns() == "203.0.113.3"
        ends = wait_for("its end", lambda: site.audit(at, CLOUD))
        assert all('end="idle"' in line for line in ends), ends
    finally:
        hub.ip(f"route del {server} via {router.address}")


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
        for port, address in ((WILD, SECOND), (WILD, HUB), (DUAL, "fd00::2"), (DUAL, "fd00::1"), (DUAL, SECOND)):
            with site.client(port, address=address) as c:
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


class Flood:
    """Sends the longest datagrams without a pause, or answers those of whoever has sent one."""

    def __init__(self, s, answers=False):
        self.socket, self.answers, self.on, self.sent = s, answers, True, 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        self.socket.settimeout(PATIENCE_S)
        peer = self.socket.recvfrom(100)[1] if self.answers else self.socket.getpeername()
        while self.on:
            self.socket.sendto(bytes(65507), peer)
            self.sent += 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.on = False
        self.thread.join()
        self.socket.close()


@pytest.mark.parametrize("answers", [False, True], ids=["to-the-edge", "from-the-edge"])
def test_a_flood_that_nobody_reads_holds_up_nobody(site, answers):
    """A connection through the same tunnel is carried on, and what waits is bounded."""
    far = udp_socket(site.edge, bind=("127.0.0.1", 7001))
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with far, site.client(ECHO) as near:
        near.send(b"x")  # nobody reads at either end, but for this one datagram
        with Flood(far if answers else near, answers) as flood:
            results = tunnelkit.Transfers(site.hub.machine, "edge-1:7003", 2).results()
            with Echo(site.edge, "172.17.0.1", 7002), site.client(CHOSEN, seconds=1) as other:
                assert any(heard(other, b"%d" % i) for i in range(90))
            assert flood.sent > 100
            assert max(d.metrics()['edgeway_tunnel_memory_bytes{what="queued"}'] for d in (site.hub, site.agents[0])) < 1 << 20
    assert results == {"whole": 2}


def heard(s, data):
    s.send(data)
    try:
        while s.recv(65536) != data:
            pass
        return True
    except (TimeoutError, ConnectionRefusedError):
        return False


# --- flows: how many, and how they end --------------------------------------------------------------


def test_flows_are_bounded(site):
    """5000 ports of one address have the flows of one; eight addresses those of the map. Whoever asks next has room.
    The node hears of their ends a moment later."""
    edge = site.agents[0]
    seen = 0
    with Echo(site.edge, "127.0.0.1", 7001):
        for i in range(5000):
            with udp_socket(site.friend, bind=(FRIEND, 0)) as s:
                s.sendto(b"x", (HUB, ECHO))
            if i % 500 == 499:
                seen = max(seen, len(site.flows(ECHO)))
        assert 0 < seen <= FLOWS / 4
        wait_for("no more at the node", lambda: edge.state()["tunnel"]["udp"]["flows"] <= FLOWS / 4)
        for i in range(1600):
            with udp_socket(site.friend, bind=(f"192.0.2.{128 + i % 8}", 0)) as s:
                s.sendto(b"x", (HUB, ECHO))
            if i % 200 == 199:
                seen = max(seen, len(site.flows(ECHO)))
        assert FLOWS / 4 < seen <= FLOWS
        wait_for("no more at the node", lambda: edge.state()["tunnel"]["udp"]["flows"] <= FLOWS)
        with site.client(ECHO, seconds=1) as c:
            assert any(heard(c, b"%d" % i) for i in range(90))



def test_an_idle_flow_ends(site):
    at, edge_at = len(site.hub.process.log()), len(site.agents[0].process.log())
    with Echo(site.edge, "127.0.0.1", 7001), site.client(ECHO) as c:
        for data in (b"one", b"three"):
            c.send(data)
            assert c.recv(99) == data
        wait_for("idle", lambda: site.flows(ECHO) == [])
        line, = site.audit(at, ECHO)
        assert 'status=200 sent=8 received=8 datagrams_sent=2 datagrams_received=2 dropped=0' in line and 'end="idle"' in line
        assert f"caller={FRIEND}:" in line and 'target="edge-1:7001 via edge-1"' in line
        line, = wait_for("the node's line", lambda: site.audit(edge_at, 7001, site.agents[0]))
        assert 'to=127.0.0.1:7001 status=200 to_node=8 from_node=8 datagrams_to_node=2 datagrams_from_node=2 dropped=0' in line and 'end="done"' in line
        c.send(b"again")
        assert c.recv(99) == b"again"


def test_port_unreachable(site):
    """The node says so at all of its addresses: the flow ends, and another one begins when somebody listens there."""
    at, edge_at = len(site.hub.process.log()), len(site.agents[0].process.log())
    with site.client(REFUSED, seconds=1) as c:
        c.send(b"x")
        line, = wait_for("told", lambda: site.audit(at, REFUSED))
        assert 'end="port unreachable"' in line
        line, = wait_for("told", lambda: site.audit(edge_at, 7999, site.agents[0]))
        assert 'end="port unreachable"' in line
        assert [f["state"] for f in site.flows(REFUSED)] in ([], ["unreachable"])
        with Echo(site.edge, "192.0.2.11", 7999):
            assert any(heard(c, b"%d" % i) for i in range(90))


def test_a_service_without_such_a_port(site):
    """The hub's own answers are in its log, as long as they are not too many."""
    at = len(site.hub.process.log())
    site.hub.write("dns.yaml", *[o for o in site.objects if o["metadata"]["name"] != "cloud" or o["kind"] != "Service"])
    wait_for("it is gone", lambda: len(site.hub.state()["hub"]["services"]) == 1)
    with site.client(CLOUD) as c:
        before = site.dropped(CLOUD, "unreachable")
        for _ in range(3):
            c.send(b"x")
        wait_for("counted", lambda: site.dropped(CLOUD, "unreachable") == before + 3)
    line, = site.audit(at, CLOUD)
    assert "status=404" in line and "datagrams_sent=0" in line
    site.hub.write("dns.yaml", *site.objects)
    wait_for("it is back", lambda: len(site.hub.state()["hub"]["services"]) == 2)


# --- who may ----------------------------------------------------------------------------------------------


def test_a_stranger_reaches_nothing(site):
    at, dials = len(site.hub.process.log()), site.dials(site.agents[0])
    before = site.dropped(ECHO, "denied")
    target = udp_socket(site.edge, bind=("127.0.0.1", 7001), seconds=0.2)
    with target, site.client(ECHO, site.stranger) as c:
        for _ in range(5):
            c.send(b"x")
        wait_for("counted", lambda: site.dropped(ECHO, "denied") == before + 5)
        with pytest.raises(TimeoutError):
            target.recv(9)
    assert site.dials(site.agents[0]) == dials
    line, = site.audit(at, ECHO)
    assert "status=403" in line and f"caller={STRANGER}:" in line and 'end="no rule of access opens' in line


def test_the_node_has_rules_of_its_own(site):
    """tunnel.allow names 7000-7999; the hub's rules allow everything."""
    at, edge_at = len(site.hub.process.log()), len(site.agents[0].process.log())
    target = udp_socket(site.edge, bind=("127.0.0.1", 8001), seconds=0.2)
    with target, site.client(CLOSED) as c:
        c.send(b"x")
        line, = wait_for("told", lambda: site.audit(at, CLOSED))
        assert "status=403" in line and "tunnel.allow" in line
        with pytest.raises(TimeoutError):
            target.recv(9)
    assert 'target="edge-1:8001"' in site.agents[0].process.log()[edge_at:]


def test_other_rules_cut_what_they_would_not_open(site):
    with Echo(site.edge, "127.0.0.1", 7001), site.client(ECHO, seconds=1) as c:
        at = len(site.hub.process.log())
        assert any(heard(c, b"%d" % i) for i in range(90))
        site.reload([a for a in ADMITTED if a != FRIEND])
        try:
            assert any('end="the rules of access have changed"' in line for line in site.audit(at, ECHO)) or site.flows(ECHO) == []
            before = site.dropped(ECHO, "denied")
            c.send(b"x")
            wait_for("denied", lambda: site.dropped(ECHO, "denied") > before)
        finally:
            site.reload()
        assert any(heard(c, b"%d" % i) for i in range(90))


def test_limits_of_a_caller(site):
    with Echo(site.edge, "127.0.0.1", 7001):
        site.reload(callerStreams=2)
        try:
            clients = [site.client(ECHO, seconds=1) for _ in range(3)]
            with clients[0] as a, clients[1] as b, clients[2] as c:
                before = site.dropped(ECHO, "limit")

                def two_of_three():
                    got = [heard(x, b"x") for x in (a, b, c)]
                    return site.dropped(ECHO, "limit") > before and got.count(True) == 2
                wait_for("two are served, one is not", two_of_three)
            site.reload(callerBytesPerSecond=20000)
            before = site.dropped(ECHO, "rate")
            with site.client(ECHO, seconds=0.1) as c:
                wait_for("beyond the rate they are dropped", lambda: heard(c, bytes(30000)) or site.dropped(ECHO, "rate") > before)
                assert any(heard(c, b"%d" % i) for i in range(200))  # and others are not, later
        finally:
            site.reload()


# --- ends of the daemons -------------------------------------------------------------------------------------


def test_the_hub_restarts(site):
    with Echo(site.edge, "127.0.0.1", 7001), site.client(ECHO, seconds=1) as c:
        assert any(heard(c, b"%d" % i) for i in range(90))
        site.hub.process.stop()
        log = site.hub.process.log()
        assert "streams are cut" not in log and "AddressSanitizer" not in log
        site.hub.start()
        wait_for("carried again", lambda: heard(c, b"again"))


def test_a_node_goes_and_comes_back(site):
    """Meanwhile what comes is dropped and counted; its drain does not wait for flows that are quiet."""
    agent = site.agents[1]
    with Echo(site.far, "127.0.0.1", 7001), site.client(OTHER, seconds=1) as c:
        assert any(heard(c, b"%d" % i) for i in range(90))
        agent.stop()
        assert "streams are cut" not in agent.process.log()
        wait_for("no tunnel", lambda: "edge-2" not in tunnelkit.tunnels(site.hub))
        before = site.dropped(OTHER, "unreachable")
        for i in range(3):
            c.send(b"lost")
        wait_for("counted", lambda: site.dropped(OTHER, "unreachable") == before + 3)
        agent.start()
        wait_for("carried again", lambda: heard(c, b"again"))
        agent.process.kill()
        agent.start()
        wait_for("and again", lambda: heard(c, b"again"))


# --- seen -----------------------------------------------------------------------------------------------------


def test_shown(site):
    def ctl(*words):
        return site.hub.machine.run(site.lab.program("edgewayctl"), "--socket", site.hub.socket, *words).stdout
    with Echo(site.edge, "127.0.0.1", 7001), site.client(ECHO) as c:
        def row():
            c.send(b"x")
            assert c.recv(9) == b"x"
            found = [line.split() for line in ctl("flows").splitlines() if f"{HUB}:{ECHO}" in line]
            return found and "open" in found[0] and found[0]
        shown = wait_for("shown", row)
        assert shown[1] == "%s:%d" % c.getsockname() and shown[2] == "edge-1:7001" and int(shown[6]) == int(shown[7]) > 0
        assert re.search(rf"UDP maps +{len(MAPS)}, \d+ flows, \d+ datagrams dropped", ctl("status"))
        wait_for("as JSON", lambda: heard(c, b"y") and '"listen": "%s:%d"' % (HUB, ECHO) in ctl("-o", "json", "flows"))
    for direction in ("to-edge", "from-edge"):
        assert site.figure("datagrams_total", ECHO, direction=direction) > 0 and site.figure("bytes_total", ECHO, direction=direction) > 0
    assert all(site.agents[0].state()["tunnel"]["udp"][f"datagrams_{way}_target"] > 0 for way in ("to", "from"))
