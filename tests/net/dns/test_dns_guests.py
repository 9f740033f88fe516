"""Who may ask the agent's DNS, by which interface, and that nobody can keep others from asking."""
import re
import socket

import pytest

import lab as labs
from dnskit import SERVER, framed, plain_query, read_framed, socket_in

WEB = "web.default.svc.cluster.local"
LAN, FOREIGN = "192.0.2.77", 'edgeway_dns_queries_total{outcome="foreign"}'
BRIDGES = (("br-shop", 1), ("bar-1", 2))


class House:
    """A node with docker0, two more bridges, and a machine of its LAN that found a route to the mesh address."""

    def __init__(self, lab):
        hub = labs.Hub(lab)
        hub.write("web.yaml", labs.service("web", ("http", 80, 8080)))
        self.node = labs.Node(lab, "edge-1", "192.0.2.11")
        for name, n in BRIDGES:
            self.node.run("ip", "link", "add", name, "type", "bridge")
            self.node.run("ip", "addr", "add", f"10.7.{n}.1/24", "dev", name)
            self.node.run("ip", "link", "set", name, "up")
        self.agent = labs.Agent(self.node, hub, "--mesh.interfaces", "br-*")
        labs.wait_for("the service", lambda: self.agent.state()["services"] == 1)
        self.pods = [self.node.pod("one"), self.node.pod("two")]
        self.behind = {name: self.guest(lab, name, f"10.7.{n}.2") for name, n in BRIDGES}
        self.lan = labs.Machine(lab, "lan", address=LAN)
        self.lan.run("ip", "route", "add", SERVER, "via", "192.0.2.11")

    def guest(self, lab, bridge, address):
        machine = labs.Machine(lab, f"behind-{bridge}", attach=False)
        machine.link("eth0", self.node, f"to-{bridge}")
        self.node.run("ip", "link", "set", f"to-{bridge}", "master", bridge, "up")
        machine.run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")
        machine.run("ip", "route", "add", "default", "via", address[:-1] + "1")
        return machine

    def foreign(self):
        return self.agent.metrics()[FOREIGN]


@pytest.fixture(scope="module")
def house(lab):
    made = House(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


def by_udp(machine, seconds):
    """The answer, or None after so many seconds."""
    with socket_in(machine, socket.SOCK_DGRAM) as s:
        s.settimeout(seconds)
        s.send(plain_query(7, WEB))
        try:
            return s.recv(512)
        except TimeoutError:
            return None


def by_tcp(machine):
    """The answer, or None when the connection was reset."""
    try:
        with socket_in(machine, socket.SOCK_STREAM) as s:
            s.sendall(framed(plain_query(7, WEB)))
            return read_framed(s)
    except (ConnectionError, AssertionError):
        return None


def is_good(answer):
    return answer is not None and answer[3] & 15 == 0 and answer[7] == 1


def test_pods_hosts_and_further_bridges_are_answered(house):
    for machine in (*house.pods, house.node, house.behind["br-shop"]):
        assert is_good(by_udp(machine, 60)), machine.name
        assert is_good(by_tcp(machine)), machine.name
    assert house.foreign() == 0, house.agent.process.log()[-2000:]


@pytest.mark.parametrize("name", ["lan", "bar-1"])
def test_other_interfaces_get_no_answer(house, name):
    machine = house.lan if name == "lan" else house.behind[name]
    machine.run("ping", "-c1", "-W5", SERVER)  # there is a way
    before = house.foreign()
    assert by_udp(machine, 1) is None
    labs.wait_for("counted", lambda: house.foreign() == before + 1)
    assert by_tcp(machine) is None
    labs.wait_for("counted", lambda: house.foreign() == before + 2)
    assert house.agent.state()["dns"]["unanswered"]["foreign"] == before + 2
    assert house.agent.process.logged("not of the mesh")
    assert is_good(by_udp(house.pods[0], 60))


def test_a_bridge_that_comes_later_is_served(house):
    house.node.run("ip", "link", "set", "bar-1", "down")
    house.node.run("ip", "link", "set", "bar-1", "name", "br-late")
    house.node.run("ip", "link", "set", "br-late", "up")
    guest = house.behind["bar-1"]  # each worker takes notice in its own time
    labs.wait_for("answers", lambda: all(is_good(by_udp(guest, 1)) and is_good(by_tcp(guest)) for _ in range(10)))


def test_200_idle_connections_of_one_pod_do_not_hold_the_port(house):
    one, two = house.pods
    old = socket_in(two, socket.SOCK_STREAM)
    idle = [socket_in(one, socket.SOCK_STREAM) for _ in range(200)]
    half = [socket_in(one, socket.SOCK_STREAM) for _ in range(100)]
    for s in half:
        s.sendall(b"\0")
    assert is_good(by_tcp(two)) and is_good(by_tcp(one))
    old.sendall(framed(plain_query(7, WEB)))  # older than them all
    assert is_good(read_framed(old))
    for s in (old, *idle, *half):
        s.close()


def test_connections_that_ask_nothing_whole_are_closed(house):
    """Idle ones, and those that drip octets; one that asks stays."""
    pod = house.pods[0]
    idle, drip, busy = (socket_in(pod, socket.SOCK_STREAM) for _ in range(3))
    wire = framed(plain_query(7, WEB))

    def over(s):
        s.settimeout(0.01)
        try:
            return s.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    def all_over():
        drip.send(b"\1", socket.MSG_NOSIGNAL) if not closed["drip"] else None
        busy.sendall(wire)
        assert is_good(read_framed(busy))
        closed["drip"] = closed["drip"] or over(drip)
        closed["idle"] = closed["idle"] or over(idle)
        return all(closed.values())
    closed = {"drip": False, "idle": False}
    labs.wait_for("both closed", all_over, pause=0.5)
    short = socket_in(pod, socket.SOCK_STREAM)
    short.sendall(framed(b"") + wire)
    labs.wait_for("closed at once", lambda: over(short))
    for s in (idle, drip, busy, short):
        s.close()


def test_what_comes_back_is_from_the_address_that_was_asked(house):
    with socket_in(house.pods[0], socket.SOCK_DGRAM) as s:  # a connected socket takes nothing else
        s.send(plain_query(9, WEB))
        assert is_good(s.recv(512)) and s.getpeername()[0] == SERVER


def cookie(machine, *options):
    """What dig says of the cookie that it sent: "good" if the client's part came back with a server's."""
    said = machine.run("dig", f"@{SERVER}", "+tries=1", "+cookie=0102030405060708", *options).stdout
    found = re.search(r"COOKIE: (\w+) \((\w+)\)", said)
    assert found and len(found.group(1)) == 48 and re.search("status: (NOERROR|NXDOMAIN)", said), said
    return found.group(2)


@pytest.mark.parametrize("options", [(WEB,), (WEB, "+tcp"), ("AAAA", WEB), (f"x.{WEB}",)])
def test_a_cookie_is_answered(house, options):
    assert cookie(house.pods[0], *options) == "good"
    said = house.pods[0].run("dig", f"@{SERVER}", "+nocookie", *options).stdout
    assert "COOKIE" not in said
