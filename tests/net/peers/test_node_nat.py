"""Nodes of different sites connect to each other across the NATs of both, and what the hub carries until then, meanwhile and instead."""
import os
import re
import signal
import ssl

import pytest

from httpkit import socket_of
from lab import HUB_ADDRESS, HUB_PORT, PATIENCE_S, wait_for
from nat_site import NatTown
from tunnelkit import tunnels


@pytest.fixture(scope="module")
def town(lab):
    made = NatTown(lab)
    yield made
    made.logs()


@pytest.fixture(autouse=True)
def as_before(town):
    yield
    for nat in town.nats:
        nat.rules("keeps")
        nat.delay(0)


def test_two_nats(town):
    """The first call goes through the hub; once the nodes have met, the hub carries nothing."""
    assert town.get(1, 2) == (200, "edge-2.web\n")
    town.meet(1, 2)
    before, direct = town.carried(), town.direct(1)
    for _ in range(5):
        assert town.get(1, 2) == (200, "edge-2.web\n")
        assert town.echo(1, 2).startswith(b"edge-2.web\n")
        assert "edge-2.web" in town.udp(1, 2)
    assert town.direct(1) > direct
    assert town.carried() == before


def test_it_is_shown(town):
    town.meet(1, 2)
    ctl = [town.lab.program("edgewayctl"), "--socket", town.agents[0].socket]
    [row] = [x.split() for x in town.nodes[0].run(*ctl, "peers").stdout.splitlines() if "edge-2" in x]
    assert row[:4] == ["edge-2", "out", "open", "nat"] and row[4].startswith("192.0.2.22:")
    assert [p["path"] for p in town.peers(2, "in")] == ["nat"]
    assert town.agents[0].metrics()['edgeway_peers_nat_total{result="open"}'] >= 1
    assert town.agents[1].metrics()['edgeway_peers_invitations_total{result="open"}'] >= 1
    assert town.hub.metrics()['edgeway_hub_rendezvous_total{result="introduced"}'] >= 1
    assert "two nodes are introduced to each other node=edge-1 address=192.0.2.21:" in town.hub.process.log()
    assert "a session with another node is open node=edge-2 path=nat" in town.agents[0].process.log()


def test_a_frozen_hub(town):
    """It is needed for the introduction alone."""
    town.meet(1, 2)
    town.hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            assert town.get(1, 2) == (200, "edge-2.web\n")
            assert town.echo(1, 2).startswith(b"edge-2.web\n")
    finally:
        town.hub.process.popen.send_signal(signal.SIGCONT)
    for i in (1, 2):
        wait_for("connected again", lambda i=i: town.agents[i - 1].state()["meta"]["synced"])


@pytest.mark.parametrize("kind", ["keeps", "resets"])
@pytest.mark.parametrize("late", [(0, 30), (200, 0), (20, 20)])
def test_starts_apart(town, kind, late):
    """What the hub says comes to them at different times, and one of the SYNs is under way longer: dropped by the other NAT, or reset."""
    for nat, ms in zip(town.nats, late):
        nat.rules(kind)
        nat.delay(ms)
    town.anew(1)
    town.meet(1, 2)


def test_both_at_once(town):
    """Calls the other way have a session of their own, also across NAT."""
    town.anew(1, 2)
    for i, k in ((1, 2), (2, 1)):
        assert town.get(i, k) == (200, f"edge-{k}.web\n")
    town.meet(1, 2)
    town.meet(2, 1)
    assert [p["path"] for p in town.peers(1, "in")] == ["nat"]
    assert "edge-1.web" in town.echo(2, 1).decode()


def test_a_public_node(town):
    """It has no NAT: what the other node's NAT does with ports does not matter then."""
    for kind in ("keeps", "random"):
        town.nats[0].rules(kind)
        town.anew(1, 3)
        town.meet(1, 3)
        town.meet(3, 1)


def doctor(town):
    return town.nodes[0].run(town.lab.program("edgewayctl"), "--socket", town.agents[0].socket, "doctor", check=False).stdout


def test_random_ports(town):
    """Such a NAT cannot be passed: the hub carries what is for the other node, and it is told why."""
    town.nats[0].rules("random")
    town.anew(1)

    def failed():
        assert town.get(1, 2) == (200, "edge-2.web\n")
        return town.peer(1, 2)["state"] == "resting"
    before = town.direct(1)
    wait_for("it is remembered", failed)
    for _ in range(3):
        assert town.echo(1, 2).startswith(b"edge-2.web\n")
    assert town.direct(1) == before
    assert "no connection across NAT in" in town.peer(1, 2)["error"] and "here is seen as 192.0.2.21:" in town.peer(1, 2)["error"]
    assert "path=nat" in town.agents[0].process.log().rpartition("another node cannot be reached directly")[2]
    wait_for("doctor tells", lambda: "edge-2 at 192.0.2.22:" in doctor(town) and "both NATs have to keep a port" in doctor(town))
    town.nats[0].rules("keeps")
    town.meet(1, 2)  # after the back-off


def cut(town, what):
    """The path between the NATs, and nothing else."""
    for nat, other in zip(town.nats, reversed(town.nats)):
        nat.rules("keeps", f"ip daddr {other.address} {what}", f"ip saddr {other.address} {what}")


@pytest.mark.parametrize("what", ["drop", "meta l4proto tcp reject with tcp reset"])
def test_the_path_breaks(town, what):
    """Calls, kept connections too, go on through the hub long before the session counts as dead (9 s); then the nodes meet again."""
    town.anew(1)
    town.meet(1, 2)
    go_on = f"{town.lab.dir}/go-on"
    open(go_on, "w").close()
    kept = town.clients[0].start("kept", "sh", "-c", f"while [ -e {go_on} ]; do curl -sS -m 5 http://web-2/ || echo failed; sleep 0.05; done")
    wait_for("it calls", lambda: kept.log().count("edge-2.web") > 5)
    carried = town.carried()
    cut(town, what)
    for _ in range(3):
        assert town.get(1, 2, seconds=5) == (200, "edge-2.web\n")
        assert town.echo(1, 2).startswith(b"edge-2.web\n")
    assert town.carried() > carried
    for nat in town.nats:
        nat.rules("keeps")
    wait_for("they meet again", lambda: town.peer(1, 2)["state"] == "open")
    os.unlink(go_on)
    assert kept.wait() == 0 and "failed" not in kept.log(), kept.log()
    town.meet(1, 2)
    before = town.carried()
    assert town.get(1, 2) == (200, "edge-2.web\n")
    assert town.carried() == before


def test_one_nat_for_both(town):
    """The hub sees both at one address, and introduces nobody."""
    def told():
        assert town.get(1, 4) == (200, "edge-4.web\n")
        return "the hub sees both nodes at one address" in town.peer(1, 4)["error"]
    wait_for("told", told)
    assert town.peer(1, 4)["address"] == "" and "edge-4" not in doctor(town)


def test_a_wrong_machine(town):
    """Another node answers at the address, with a certificate that is good: it is refused before a byte of HTTP/2."""
    liar, nat = town.nodes[2], town.nats[1]
    pair = [os.path.join(town.agents[2].data, f"node.{x}") for x in ("crt", "key")]
    script = f"""
import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain({pair[0]!r}, {pair[1]!r})
context.set_alpn_protocols(["edgeway-peer/1"])
s = socket.create_server(("", 10009))
print("serving", flush=True)
while True:
    c, at = s.accept()
    try:
        tls = context.wrap_socket(c, server_side=True)
        print("came", tls.version(), len(tls.recv(1000)), flush=True)
    except OSError as e:
        print("broken", e, flush=True)
"""
    server = liar.start("liar", "/usr/bin/python3", "-S", "-c", script)
    wait_for("it serves", lambda: "serving" in server.log())
    # What edge-2 sends to nat-1 is lost, and what comes from there goes to the liar.
    nat.rules("keeps", f"ip saddr 10.2.0.2 ip daddr {town.nats[0].address} drop")
    nat.run("nft", "add", "rule", "ip", "nat", "pre", f"ip saddr {town.nats[0].address} tcp dport 32768-60999 dnat to {liar.address}:10009")
    town.anew(1)

    def refused():
        assert town.get(1, 2) == (200, "edge-2.web\n")
        return "the certificate there is another node's" in town.peer(1, 2)["error"]
    wait_for("it is refused", refused)
    wait_for("without a word", lambda: "came TLSv1.3 0" in server.log())
    server.kill()


def test_another_node_comes(town):
    """In place of the one that was invited for, from behind the same NAT and to the right port: it gets no byte of HTTP/2."""
    refused = town.agents[2].metrics()['edgeway_peers_accepted_total{result="refused"}']
    town.nats[0].rules("keeps", "ip saddr 10.1.0.2 ip daddr 192.0.2.13 drop")  # edge-1 does not get through
    town.anew(1)
    heard, known = [], set()

    def come():
        assert town.get(1, 3) == (200, "edge-3.web\n")
        for port in re.findall(r"node=edge-1 address=\S+ other=edge-3 other_address=192.0.2.13:(\d+)", town.hub.process.log()):
            if port not in known:
                known.add(port)
                heard.append(Visitor.preface(town.nodes[3], town.agents[3], int(port)))
        return town.agents[2].metrics()['edgeway_peers_accepted_total{result="refused"}'] > refused
    wait_for("it is refused", come)
    assert not any(heard) and "its certificate is not of the node that was to be met" in town.agents[2].process.log()


# --- at the hub -------------------------------------------------------------------------------------


class Visitor:
    """A client of the rendezvous with the certificate of a node."""

    def __init__(self, town, machine, agent=None, to=(HUB_ADDRESS, HUB_PORT), alpn="edgeway-rendezvous/1"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([alpn])
        if agent is not None:
            context.load_cert_chain(os.path.join(agent.data, "node.crt"), os.path.join(agent.data, "node.key"))
        self.socket = socket_of(machine)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(to)
        self.tls = context.wrap_socket(self.socket)

    def say(self, line):
        self.tls.sendall(line)
        with self.tls:
            return self.tls.recv(1000)

    @classmethod
    def preface(cls, machine, agent, port):
        """What edge-3 answers at this port to HTTP/2."""
        try:
            visitor = cls(None, machine, agent, ("192.0.2.13", port), "edgeway-peer/1")
            return visitor.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        except OSError:
            return b""

    @classmethod
    def heard(cls, *who):
        """What it hears that wants to meet edge-1, where it may be cut off at any moment."""
        try:
            return cls(*who).say(b"meet edge-1\n")
        except OSError:
            return b""


def attempts(town, result):
    return town.hub.metrics()[f'edgeway_hub_rendezvous_total{{result="{result}"}}']


@pytest.mark.parametrize("line", [b"meet edge-3\n", b"meet nobody\n", b"meet ../x\n", b"come " + 64 * b"0" + b"\n", b"come " + 64 * b"f" + b"\n"])
def test_the_hub_declines(town, line):
    """Nobody learns an address so, and nobody is invited."""
    before = attempts(town, "declined")
    assert Visitor(town, town.nodes[2], town.agents[2]).say(line).startswith(b"no ")
    assert attempts(town, "declined") == before + 1


@pytest.mark.parametrize("line", [b"go 192.0.2.1:1 192.0.2.2:2 3\n", b"come 1\n", b"meet\n", b"\n", b"\0\0\0\n", 1000 * b"x", b"meet nobody\nx"])
def test_the_hub_hangs_up(town, line):
    before = attempts(town, "refused")
    assert Visitor(town, town.nodes[2], town.agents[2]).say(line) == b""
    assert attempts(town, "refused") == before + 1


def test_nothing_follows_the_line(town):
    visitor = Visitor(town, town.nodes[2], town.agents[2])
    visitor.tls.sendall(b"meet nobody\n")
    assert visitor.tls.recv(1000).startswith(b"no ")
    before = attempts(town, "refused")
    assert visitor.say(b"x") == b""
    assert attempts(town, "refused") == before + 1


def test_nobody_without_a_certificate(town):
    before = attempts(town, "refused")
    assert Visitor.heard(town, town.nodes[2]) == b""
    wait_for("refused", lambda: attempts(town, "refused") == before + 1)


def test_rations(town):
    """Who asks again and again for one node gets no further; the other one is left alone then."""
    said = [Visitor(town, town.nodes[2], town.agents[2]).say(b"meet edge-4\n") for _ in range(25)]
    assert b"go " in said[0] and said[-1] == b"no this node has asked for that one too often\n", said
    assert sum(x.startswith(b"go ") for x in said) <= 20
    assert attempts(town, "limited") > 0


def test_one_asker_leaves_places_for_others(town):
    """However often one node asks for another one, that one takes part in few attempts with it at a time, and a third one still meets it."""
    said = [Visitor(town, town.nodes[2], town.agents[2]).say(b"meet edge-1\n") for _ in range(18)]
    assert said[0].startswith(b"go ") and b"no this node has asked for that one too often\n" in said, said
    assert Visitor(town, town.nodes[1], town.agents[1]).say(b"meet edge-1\n").startswith(b"go ")


def test_a_node_that_will_not(town):
    """mesh.direct of one of them is site: it is not met, and its address is not told."""
    a = town.agents[1]
    a.stop()
    a.start("--mesh.direct", "site")
    try:
        wait_for("a tunnel", lambda: b"mesh.direct of that node is not nat" in Visitor(town, town.nodes[2], town.agents[2]).say(b"meet edge-2\n"))
        town.anew(1)

        def told():
            assert town.get(1, 2) == (200, "edge-2.web\n")
            return town.peer(1, 2)["error"] == "the hub does not introduce it: mesh.direct of that node is not nat"
        wait_for("told", told)
    finally:
        town.anew(2)


def test_rules_for_nodes_are_the_hubs(town):
    """Only the hub can apply them: sessions are cut, nobody is introduced, and doctor says so."""
    town.anew(1)
    town.meet(1, 2)
    town.reload("{from: 'node:edge-1', to: ['*']}")
    try:
        wait_for("it is cut", lambda: town.peers(2, "in") == [])
        direct = town.direct(1)
        assert town.get(1, 2) == (200, "edge-2.web\n")
        assert town.direct(1) == direct
        assert Visitor(town, town.nodes[0], town.agents[0]).say(b"meet edge-2\n").startswith(b"no the hub's access has rules for nodes")
        wait_for("doctor tells", lambda: "no node is met across NAT (mesh.direct: nat): the hub's access has rules for nodes" in doctor(town))
    finally:
        town.reload("")
    town.anew(1)
    town.meet(1, 2)


def test_a_revoked_node(town):
    """Its sessions are cut, and it meets nobody any more until it has joined anew."""
    town.meet(2, 1)
    town.hub.ask("/nodes/revoke?name=edge-2", "POST")
    wait_for("its session is cut", lambda: town.peers(1, "in") == [])
    before = attempts(town, "refused")
    assert Visitor.heard(town, town.nodes[1], town.agents[1]) == b""
    wait_for("refused", lambda: attempts(town, "refused") == before + 1)
    a = town.agents[1]
    a.stop()
    a.token = town.hub.token("--node", "edge-2")
    a.start()
    wait_for("a tunnel", lambda: "edge-2" in tunnels(town.hub))
    town.meet(2, 1)  # as one that has joined anew
    town.meet(1, 2)


def test_revoked_meanwhile(town):
    """A certificate that was revoked after the handshake opens nothing: neither what is asked then, nor what was asked before."""
    late, asker = [Visitor(town, town.nodes[2], town.agents[2]) for _ in range(2)]
    town.agents[1].process.popen.send_signal(signal.SIGSTOP)
    try:
        asker.tls.sendall(b"meet edge-2\n")
        assert Visitor(town, town.nodes[0], town.agents[0]).say(b"meet nobody\n").startswith(b"no ")  # by then that is read
        town.hub.ask("/nodes/revoke?name=edge-3", "POST")
        refused = attempts(town, "refused")
        assert late.say(b"meet edge-1\n") == b""
        assert attempts(town, "refused") == refused + 1
    finally:
        town.agents[1].process.popen.send_signal(signal.SIGCONT)
    assert asker.tls.recv(1000) == b"no the certificate of the node that asks was revoked\n"
