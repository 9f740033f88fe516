"""The zone of node names that the hub serves (ingress.dns): asked with dig, by hand, and through resolvers that forward to it."""
import os
import random
import socket
import struct

import dns.edns
import dns.message
import dns.rdatatype
import pytest

import lab as labs
import tunnelkit
from dnskit import exactly, framed, plain_query, read_framed, socket_in
from ingress_town import node
from lab import HUB_ADDRESS, Agent, Hub, Machine, Node, wait_for
from test_dns_malformed import Batches, is_query, packets

ZONE, PORT, INGRESS = "nodes.test", 53, "192.0.2.1"
RESOLVER, CALLER = "192.0.2.54", "192.0.2.21"
LONG = "a" * 64  # Kubernetes takes it for a node's name, DNS for no label


def addresses(name, *pairs):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"addresses": [{"type": t, "address": a} for t, a in pairs]}}


class World:
    def __init__(self, lab):
        self.lab = lab
        # 0.0.0.0: an answer must come from the address that was asked
        self.hub = Hub(lab, "--ingress.dns", ZONE, "--ingress.dnsListen", f"0.0.0.0:{PORT}", "--ingress.nodeAddresses", INGRESS,
                       "--ingress.http", f"{INGRESS}:8080", "--access", f"[{{from: {CALLER}, to: ['edge-1:8080']}}]")
        self.hub.machine.run("ip", "addr", "add", "192.0.2.100/24", "dev", "eth0")
        self.hub.write("nodes.yaml", node("cloud-1", "192.0.2.31"),
                       addresses("cloud-2", ("Hostname", "cloud-2"), ("ExternalIP", "203.0.113.2"), ("InternalIP", "2001:db8::2"),
                                 ("InternalIP", "192.0.2.32")),
                       node("ip-10-0-0-1.eu.compute.internal", "10.0.0.1"), node(LONG, "192.0.2.33"), addresses("nowhere"),
                       node("edge-1", "192.0.2.11"), node("beside", "10.77.0.9"))
        self.caller = Machine(lab, "caller", address=CALLER)
        wait_for("nodes", lambda: self.ask("cloud-1") == ["192.0.2.31"])
        self.edge = Node(lab, "edge-1", "192.0.2.11")
        self.agent = Agent(self.edge, self.hub, "--tunnel.allow", "node:8080", "--tunnel.reach", "beside")
        wait_for("tunnel", lambda: self.agent.state()["tunnel"]["state"] == "open")

    def dig(self, name, rtype="A", *options, server=HUB_ADDRESS):
        return self.caller.dns(name, rtype, "-p", PORT, *options, server=server)

    def ask(self, name, rtype="A", *options):
        """The data of the answers, sorted; None when the status is not NOERROR."""
        answer = self.dig(f"{name}.{ZONE}", rtype, *options)
        return sorted(r[4] for r in answer[1]) if answer and answer[0] == "NOERROR" else None

    def socket(self, kind, server=HUB_ADDRESS):
        return socket_in(self.caller, kind, server, PORT)

    def exchange(self, wire, server=HUB_ADDRESS):
        with self.socket(socket.SOCK_DGRAM, server) as s:
            s.send(wire)
            return s.recv(65535)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.hub.process.pid}/fd"))

    def count(self, outcome):
        return self.hub.metrics()[f'edgeway_hub_dns_queries_total{{outcome="{outcome}"}}']


@pytest.fixture(scope="module")
def world(lab):
    made = World(lab)
    before = tunnelkit.descriptors(made.hub)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")
    wait_for("descriptors as before", lambda: not tunnelkit.descriptors(made.hub) - before)
    assert made.agent.process.stop() == 0 and made.hub.process.stop() == 0


def is_negative(answer, status):
    """With the zone's SOA, from which its life is known."""
    return answer[0] == status and answer[1] == [] and [(r[0], r[1], r[3]) for r in answer[2]] == [(f"{ZONE}.", "5", "SOA")]


def test_names_of_nodes(world):
    assert world.ask("edge-1") == [INGRESS]  # it has joined: through the ingress, whatever its Node says
    assert world.ask("cloud-1") == ["192.0.2.31"]
    assert world.ask("cloud-2") == ["192.0.2.32"] and world.ask("cloud-2", "AAAA") == ["2001:db8::2"]  # InternalIPs
    assert world.ask("cloud-2", "ANY", "+notcp") == ["192.0.2.32", "2001:db8::2"]
    assert world.ask("ip-10-0-0-1.eu.compute.internal") == ["10.0.0.1"]
    wait_for("a neighbour stands for it", lambda: world.ask("beside") == [INGRESS])
    status, answers, _ = world.dig(f"edge-1.{ZONE}")
    assert answers == [[f"edge-1.{ZONE}.", "10", "IN", "A", INGRESS]]


def test_what_is_not_there(world):
    assert is_negative(world.dig(f"edge-1.{ZONE}", "AAAA"), "NOERROR")
    assert is_negative(world.dig(f"edge-1.{ZONE}", "TXT"), "NOERROR")
    assert is_negative(world.dig(f"nowhere.{ZONE}"), "NOERROR")  # a Node without an address
    assert is_negative(world.dig(f"gone.{ZONE}"), "NXDOMAIN")
    assert is_negative(world.dig(f"below.edge-1.{ZONE}"), "NXDOMAIN")
    for above in ("internal", "compute.internal", "eu.compute.internal"):  # others stand below: RFC 8020
        assert is_negative(world.dig(f"{above}.{ZONE}"), "NOERROR"), above
    assert is_negative(world.dig(f"us.compute.internal.{ZONE}"), "NXDOMAIN")


def test_the_zone_itself(world):
    status, answers, _ = world.dig(ZONE, "SOA")
    assert status == "NOERROR" and [r[3] for r in answers] == ["SOA"] and answers[0][4].startswith(f"ns.{ZONE}. hostmaster.{ZONE}. ")
    assert world.dig(ZONE, "NS")[1] == [[f"{ZONE}.", "10", "IN", "NS", f"ns.{ZONE}."]]
    assert is_negative(world.dig(ZONE), "NOERROR") and is_negative(world.dig(f"ns.{ZONE}"), "NOERROR")
    for name, rtype in (("www.example.test", "A"), ("test", "NS"), (".", "NS"), ("1.2.0.192.in-addr.arpa", "PTR"),
                        (f"x{ZONE}", "A"), ("web.default.svc.cluster.local", "A")):
        assert world.dig(name, rtype) == ("REFUSED", [], []), name
    assert world.dig(f"edge-1.{ZONE}", "A", "-c", "CH")[0] == "REFUSED"
    assert world.dig(ZONE, "AXFR", "+noall", "+answer", "+comments") in (None, ("REFUSED", [], []))


def test_headers_case_and_edns(world):
    asked = plain_query(7, f"eDGe-1.{ZONE.upper()}")
    answer = world.exchange(asked)
    assert answer[12:len(asked)] == asked[12:]  # the question as it came, 0x20
    flags = struct.unpack("!H", answer[2:4])[0]
    assert flags & 0x8400 == 0x8400 and flags & 0x0100 and not flags & 0x0080  # an authoritative answer, RD kept, no recursion
    m = dns.message.make_query(f"edge-1.{ZONE}", "A", use_edns=0, payload=4096, want_dnssec=True)
    got = dns.message.from_wire(world.exchange(m.to_wire()))
    assert got.edns == 0 and got.payload == 1232 and got.answer[0][0].address == INGRESS
    m = dns.message.make_query(f"edge-1.{ZONE}", "A")
    m.use_edns(1)
    assert dns.message.from_wire(world.exchange(m.to_wire())).rcode() == 16  # BADVERS
    with_dot = asked.replace(b"\x06eDGe-1", b"\x06ip.10.")
    assert dns.message.from_wire(world.exchange(with_dot)).rcode() == 3  # one label, not two
    for server in (HUB_ADDRESS, "192.0.2.100"):  # the socket takes no answer from another address
        assert world.exchange(asked, server)[:2] == asked[:2]


def test_over_tcp(world):
    assert world.ask("edge-1", "A", "+tcp") == [INGRESS]
    names = ["edge-1", "gone", "cloud-1", "cloud-2"] * 10
    with world.socket(socket.SOCK_STREAM) as s:
        for i, name in enumerate(names):  # all at once, in pieces of its own liking
            s.sendall(framed(plain_query(i, f"{name}.{ZONE}")))
        got = [dns.message.from_wire(read_framed(s)) for _ in names]
    assert sorted(m.id for m in got) == list(range(len(names)))
    assert all((m.rcode() == 3) == (names[m.id] == "gone") for m in got)
    with world.socket(socket.SOCK_STREAM) as s:
        for piece in framed(plain_query(9, f"edge-1.{ZONE}")):
            s.sendall(bytes([piece]))
        assert dns.message.from_wire(read_framed(s)).answer[0][0].address == INGRESS


def test_changes_are_seen_at_once(world):
    world.hub.write("more.yaml", node("late", "192.0.2.41"), node("deep.site-9", "192.0.2.42"))
    wait_for("it is there", lambda: world.ask("late") == ["192.0.2.41"])
    wait_for("a name above one", lambda: is_negative(world.dig(f"site-9.{ZONE}"), "NOERROR"))
    world.hub.write("more.yaml", node("late", "192.0.2.43"))
    wait_for("another address", lambda: world.ask("late") == ["192.0.2.43"])
    wait_for("nothing is below it", lambda: is_negative(world.dig(f"site-9.{ZONE}"), "NXDOMAIN"))
    world.hub.delete("more.yaml")
    wait_for("it is gone", lambda: is_negative(world.dig(f"late.{ZONE}"), "NXDOMAIN"))
    # One that joins, and that no Node object knows.
    joining = Node(world.lab, "edge-2", "192.0.2.12", bridge=True)
    agent = Agent(joining, world.hub)
    assert world.ask("edge-2") == [INGRESS]
    agent.process.stop()
    assert world.ask("edge-2") == [INGRESS]  # still a node of the edge, and reached through the hub alone


def test_the_state_tells(world):
    zone = world.hub.state()["hub"]["naming"]["zone"]
    assert zone["zone"] == ZONE and zone["listen"] == f"0.0.0.0:{PORT}" and zone["names"] >= 6
    assert LONG in zone["problem"]  # no question can hold it
    before = world.count("nxdomain"), world.count("refused")
    world.dig(f"gone.{ZONE}")
    world.dig("www.example.test")
    assert (world.count("nxdomain"), world.count("refused")) == (before[0] + 1, before[1] + 1)
    said = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "status").stdout
    assert f"{ZONE} at 0.0.0.0:{PORT}" in said and f"edge nodes are {INGRESS}" in said and "too long for DNS" in said


UNBOUND = """server:
    interface: {address}
    access-control: 0.0.0.0/0 allow
    chroot: ""
    username: ""
    directory: {folder}
    pidfile: ""
    use-syslog: no
    do-not-query-localhost: no
    local-zone: test. nodefault
    qname-minimisation: yes
    module-config: iterator
{zone}
    {key}: {hub}@{port}
"""


def forwarder(world, kind, address):
    """A resolver of others in front of the zone, as CoreDNS would be. Unbound asks as a client that wants recursion (forward), or
    as one that knows who has the zone (stub)."""
    machine = Machine(world.lab, kind, address=address)
    if kind == "dnsmasq":
        argv = ["dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=", "--log-facility=-",
                "--bind-interfaces", f"--listen-address={address}", "--conf-file=/dev/null", f"--server=/{ZONE}/{HUB_ADDRESS}#{PORT}"]
    else:
        path = os.path.join(machine.dir, "unbound.conf")
        with open(path, "w") as f:
            f.write(UNBOUND.format(address=address, folder=machine.dir, hub=HUB_ADDRESS, port=PORT,
                                   zone=f"{kind}-zone:\n    name: {ZONE}", key=f"{kind}-addr"))
        argv = ["unbound", "-d", "-c", path]
    process = machine.start("resolver", *argv)
    wait_for(kind, lambda: process.alive() and world.caller.dns(f"cloud-1.{ZONE}", server=address)[0] == "NOERROR")
    return machine


@pytest.mark.parametrize("kind, address", [("dnsmasq", RESOLVER), ("forward", "192.0.2.55"), ("stub", "192.0.2.56")])
def test_through_a_resolver(world, kind, address):
    forwarder(world, kind, address)

    def ask(name, rtype="A", *options):
        status, answers, _ = world.caller.dns(f"{name}.{ZONE}", rtype, *options, server=address)
        return status, [r[4] for r in answers]

    assert ask("edge-1") == ("NOERROR", [INGRESS]) == ask("EDGE-1", "A", "+tcp")
    assert ask("edge-1", "AAAA") == ("NOERROR", []) and ask("gone") == ("NXDOMAIN", [])
    assert ask("internal") == ("NOERROR", []) and ask("ip-10-0-0-1.eu.compute.internal") == ("NOERROR", ["10.0.0.1"])
    world.hub.write("fresh.yaml", node(f"fresh-{kind}", "192.0.2.44"))  # never asked for, so nothing is kept of it
    wait_for("at the hub", lambda: world.ask(f"fresh-{kind}") == ["192.0.2.44"])
    assert ask(f"fresh-{kind}") == ("NOERROR", ["192.0.2.44"])
    world.hub.delete("fresh.yaml")


def test_a_name_is_the_way_to_its_node(world):
    """What it is for: a program that knows nothing of us calls a node at the edge by its name."""
    world.edge.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "edge-1", "--http", "8080")
    with open(world.caller.resolv_conf, "w") as f:
        f.write(f"nameserver {RESOLVER}\nsearch {ZONE}\n")
    wait_for("through the hub", lambda: world.caller.get("http://edge-1:8080/") == (200, "edge-1\n"))
    assert world.caller.get(f"http://edge-1.{ZONE}:8080/") == (200, "edge-1\n")


class Hostile(Batches):
    name, address = f"edge-1.{ZONE}", INGRESS

    def __init__(self, world):
        self.socket = world.socket


def test_hostile_packets(world):
    names = [f"edge-1.{ZONE}", f"EDGE-1.{ZONE}", f"gone.{ZONE}", ZONE, f"internal.{ZONE}", f"ns.{ZONE}", "www.example.test",
             ".".join(["a" * 63] * 3), ".".join("x" * 120), f"cloud-2.{ZONE}"]
    everything = packets(3000, names)
    before = world.descriptors()
    answered = Hostile(world).send(everything)
    assert answered["udp"] > 300 and answered["tcp"] > 30
    assert world.hub.process.alive() and world.ask("edge-1") == [INGRESS]
    wait_for("descriptors", lambda: world.descriptors() <= before)


def test_idle_and_many_connections(world):
    """Who holds connections open gives the idlest: others are answered, and the hub's descriptors are bounded."""
    held = [world.socket(socket.SOCK_STREAM) for _ in range(60)]
    for s in held:
        s.sendall(b"\x00")  # a message that never comes
    assert world.ask("edge-1", "A", "+tcp") == [INGRESS]
    wait_for("bounded", lambda: world.descriptors() < 200)
    for s in held:
        s.close()


def test_ten_thousand_nodes(world):
    """Every name its own answer, none of another's; those that are not there are denied."""
    n = 10000
    objects = [node(f"many-{i}" + (".far.away" if i % 3 == 0 else ""), f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}") for i in range(n)]
    world.hub.write("many.yaml", *objects)
    wait_for("the last one", lambda: world.ask(f"many-{n - 1}.far.away") == [objects[-1]["status"]["addresses"][0]["address"]])
    want = {f"{o['metadata']['name']}.{ZONE}": o["status"]["addresses"][0]["address"] for o in objects}
    names = list(want) + [f"none-{i}.{ZONE}" for i in range(1000)]
    random.Random(1).shuffle(names)
    right = 0
    with world.socket(socket.SOCK_STREAM) as s:
        for at in range(0, len(names), 50):
            batch = names[at:at + 50]
            s.sendall(b"".join(framed(plain_query(i, name)) for i, name in enumerate(batch)))
            for _ in batch:
                wire = exactly(s, struct.unpack("!H", exactly(s, 2))[0])
                name = batch[struct.unpack("!H", wire[:2])[0]]
                right += (wire.endswith(socket.inet_aton(want[name])) if name in want else wire[3] & 15 == 3)
    assert right == len(names)
    assert world.hub.state()["hub"]["naming"]["zone"]["names"] >= n
    world.hub.delete("many.yaml")
    wait_for("they are gone", lambda: is_negative(world.dig(f"many-1.{ZONE}"), "NXDOMAIN"))
    assert is_negative(world.dig(f"far.away.{ZONE}"), "NXDOMAIN")


def test_a_port_that_is_taken(world):
    """Is an error at the start, and names the key."""
    machine = world.hub.machine
    p = machine.run(world.lab.program("edgeway-hub"), "--listen", f"{HUB_ADDRESS}:10001", "--source.manifests", world.hub.manifests,
                    "--dataDir", os.path.join(machine.dir, "other"), "--admin.listen", "", "--admin.socket", "", "--ingress.http", "",
                    "--ingress.dns", ZONE, "--ingress.dnsListen", f"{HUB_ADDRESS}:{PORT}", "--ingress.nodeAddresses", INGRESS, check=False)
    assert p.returncode == 1 and "ingress.dnsListen" in p.stderr and "in use" in p.stderr


@pytest.mark.parametrize("n", [71, 81], ids=["any", "one"])
def test_over_ipv6(lab, n):
    """The answer leaves from the address that was asked, or the asker would not take it."""
    v4, six, more = n == 71, f"2001:db8::{n}", f"2001:db8::{n + 1}"
    hub = Hub(lab, name=f"cloud-{n}", address=f"192.0.2.{n}")
    caller = Machine(lab, f"caller-{n}", address=f"192.0.2.{n + 1}")
    for machine, address in ((hub.machine, six), (hub.machine, more), (caller, f"2001:db8::{n + 2}")):
        machine.run("ip", "addr", "add", f"{address}/64", "dev", "eth0", "nodad")
    hub.process.stop()
    hub.options = ("--ingress.dns", ZONE, "--ingress.dnsListen", f"[{'::' if v4 else six}]:53", "--ingress.nodeAddresses", f"{INGRESS},2001:db8::1")
    hub.start()
    hub.write("nodes.yaml", addresses("cloud-1", ("InternalIP", "192.0.2.31"), ("InternalIP", "2001:db8::31")))
    edge = Node(lab, f"edge-{n}", f"192.0.2.{n + 3}")
    agent = Agent(edge, hub, "--hub.url", f"wss://{hub.address}:{labs.HUB_PORT}")
    for server in [six] + [more, hub.address] * v4:
        for options in ((), ("+tcp",)):
            def ask(name, rtype):
                return sorted(a[4] for a in caller.dns(f"{name}.{ZONE}", rtype, *options, server=server)[1])
            wait_for("node", lambda: ask("cloud-1", "A") == ["192.0.2.31"])
            assert ask("cloud-1", "AAAA") == ["2001:db8::31"]
            wait_for("joined", lambda: ask(edge.name, "A") == [INGRESS] and ask(edge.name, "AAAA") == ["2001:db8::1"])
            assert ask("ns", "AAAA") == ([] if v4 else [six])
        with socket_in(caller, socket.SOCK_DGRAM, server, PORT) as s:
            m = dns.message.make_query(f"cloud-1.{ZONE}", "A", use_edns=0, options=[dns.edns.GenericOption(10, b"12345678")])
            s.send(m.to_wire())
            assert [len(o.data) for o in dns.message.from_wire(s.recv(1500)).options if o.otype == 10] == [24]
    assert agent.process.stop() == 0 and hub.process.stop() == 0


def test_packets_are_of_the_zone():
    made = packets(300, [f"edge-1.{ZONE}"])
    assert sum(is_query(q) for q in made) > 100
