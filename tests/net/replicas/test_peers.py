"""Replicas of the hub, each with tunnels of its own: a caller at any of them reaches every node, whatever happens to the others."""
import json
import os
import random
import re
import shutil
import signal
import socket
import threading
import time

import pytest

import lab as labs
import replicas
import tunnelkit
from dnskit import socket_in
from lab import HUB_PORT, PYTHON, Agent, Dialogue, Machine, Node, pod, service, wait_for
from pki import Authority
from replicas import Asker, peers, request, tunnel_of
from test_tunnel_hostile import END_HEADERS, END_STREAM, HEADERS, Rogue, frame

as_before = replicas.as_before
HUB_CERTIFICATE = "subjectAltName=URI:edgeway:hub", "extendedKeyUsage=serverAuth,clientAuth"


class Town(replicas.Town):
    def __init__(self, lab):
        super().__init__(lab)
        one, three = self.nodes[0], self.nodes[2]
        self.web = three.pod("web")
        self.web.serve("--http", "8080")
        self.client = one.pod("client")
        for h in self.hubs:
            h.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n.name, "labels": {"edgeway.io/site": n.name}},
                                     "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for n in self.nodes])
            h.write("far.yaml", pod("far", three, self.web.address, ("http", 8080, 0)), service("far", ("http", 80, 8080)))
        wait_for("the service", lambda: self.agents[0].state()["services"] == 1)
        self.agents[0].stop()  # another site sent it round: it comes to the hub that it names first
        self.agents[0].start()
        wait_for("resolv.conf", lambda: one.gateway.encode() in one.resolv())
        self.client.copy_resolv_conf()


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    made.logs()


def asked(hub, what="asked"):
    return hub.metrics()[f'edgeway_hub_peer_streams_total{{what="{what}"}}']


def between(hub, direction):
    return hub.metrics()[f'edgeway_hub_peer_streams{{direction="{direction}"}}']


def ctl(hub, *words, check=True):
    return hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, *words, check=check).stdout


def test_any_replica_answers(town):
    """200 of 200 at the first time, wherever the caller asks; the name in `peers` means the hub itself as well."""
    chance, before = random.Random(6), [asked(h) for h in town.hubs]
    where = [(chance.choice(town.hubs), chance.choice(town.nodes).name) for _ in range(200)]
    assert [request(h, n) for h, n in where] == [(200, n + "\n") for _, n in where]
    a, b = town.hubs
    for h, o, nodes, n in ((a, b, 1, before[0]), (b, a, 2, before[1])):
        known = peers(h)
        assert known[o.address]["nodes"] == nodes and known[h.address]["state"] == "itself"
        assert 1 <= asked(h) - n <= sum(1 for hub, node in where if hub is h and not tunnel_of(h, node))  # some in streams that are kept
    # Both hubs write who has had what.
    assert a.process.logged('target="edge-3:7000 via edge-3 at hub-2" status=200')
    assert b.process.logged('door=peer peer=hub-1 caller="192.0.2.1:') and b.process.logged('target="edge-3:7000 via edge-3" status=200')


def nodes_at(hub):
    return {n["node"]: n for n in json.loads(hub.ask("/nodes")[1])["nodes"]}


def test_each_replica_tells_of_all_nodes(town):
    """Who is connected where, and of one that is away since when, its last address and its last words, also at a replica that was not
    there then."""
    a, b = town.hubs
    home = {"edge-1": "hub-1", "edge-2": "hub-1", "edge-3": "hub-2"}
    for h in town.hubs:
        wait_for("all nodes", lambda h=h: {n: r["at"] for n, r in nodes_at(h).items() if r["connected"]} == home)
        assert "3 connected: " in ctl(h, "status") and re.search(r"ok +nodes +3 connected: ", ctl(h, "doctor", check=False))
        table = [line.split() for line in ctl(h, "node", "list").splitlines()]
        assert table[0][:4] == ["NODE", "CONNECTED", "AT", "ADDRESS"] and {r[0]: r[2] for r in table[1:]} == home
    # What is wrong at one is told at the other.
    b.write("broken.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "Not A Name"}})
    wait_for("told", lambda: "peer hub-2: 1 manifests with errors" in ctl(a, "status"))
    assert "hub-2 says: 1 manifests with errors" in ctl(a, "doctor", check=False)
    b.delete("broken.yaml")
    wait_for("told", lambda: "with errors" not in ctl(a, "status"))
    town.agents[2].stop()
    try:
        for h in town.hubs:
            row = wait_for("away", lambda h=h: next((r for r in [nodes_at(h)["edge-3"]] if not r["connected"]), None))
            assert row["at"] == "hub-2" and row["address"].startswith(town.nodes[2].address) and row["since"] and row["lastWords"]
        said = ctl(a, "doctor", check=False)
        assert re.search(r"note +nodes +1 of 3 away: edge-3 \(since 20\S+, last at 192.0.2.13:\d+ and hub-2: ", said), said
        assert "nodes: 1 of 3 away: edge-3" in ctl(a, "status")
        before = nodes_at(a)["edge-3"]
        b.process.stop()
        wait_for("its last words stay", lambda: nodes_at(a)["edge-3"] == before)
        b.start()
        replicas.know_each_other(town.hubs)
        wait_for("told to the new one", lambda: nodes_at(b).get("edge-3", {}).get("lastWords") == before["lastWords"])
        assert nodes_at(b)["edge-3"]["since"] == before["since"]
    finally:
        town.agents[2].start()
    for h in town.hubs:
        wait_for("back", lambda h=h: nodes_at(h)["edge-3"]["connected"])


def test_datagrams_at_any_replica(town):
    for h in town.hubs:
        for i, n in enumerate(town.nodes):
            with socket_in(h.machine, socket.SOCK_DGRAM, h.address, replicas.UDP + 1 + i) as s:
                for size in (1, 0, 60000):
                    s.send(b"x" * size)
                    assert s.recv(65536) == f"{n.name}\n".encode() + b"x" * size


def test_datagrams_of_a_lost_tunnel(town):
    """The flow ends with the tunnel at the other replica, and not as one to a port where nobody listens; both write the datagrams' bytes."""
    a, b = town.hubs
    agent, at = town.agents[2], len(b.process.log())
    with socket_in(a.machine, socket.SOCK_DGRAM, a.address, replicas.UDP + 3) as s:
        s.send(b"x" * 100)
        assert s.recv(65536) == b"edge-3\n" + b"x" * 100
        caller = "%s:%d" % s.getsockname()
        agent.process.kill()
        try:
            line = wait_for("the flow's end", lambda: next((x for x in a.process.log().splitlines() if "door=ingress.udp" in x and caller in x), None))
            assert 'end="the node has ended it"' in line
            line = wait_for("the other's line", lambda: next((x for x in b.process.log()[at:].splitlines() if "door=peer" in x and caller in x), None))
            assert "sent=100 received=107" in line and 'end="the session has ended"' in line
        finally:
            agent.start()
    wait_for("back", lambda: tunnel_of(b, "edge-3"))


def test_shown(town):
    a, b = town.hubs
    row = next(line for line in ctl(a, "peers").splitlines() if line.startswith("hub-2"))
    assert " open " in row and f"{b.address}:{HUB_PORT}" in row
    assert "1 open with 1 nodes, 0 away" in ctl(a, "status")
    m = a.metrics()
    assert m['edgeway_hub_peers{state="open"}'] == 1 and m['edgeway_hub_peers{state="away"}'] == 0 and m["edgeway_hub_peer_nodes"] == 1
    assert a.process.logged("a replica tells of its nodes peer=hub-2")


def test_any_replica_asks_a_nodes_agent(town):
    """edgewayctl --node at a hub that has no tunnel of the node."""
    program = town.hubs[0].lab.program("edgewayctl")
    for hub in town.hubs:
        for node in town.nodes:
            said = hub.machine.run(program, "--socket", hub.socket, "--node", node.name, "status").stdout
            assert said.startswith(f"{node.name}: ready, "), said


def test_services_and_nodes_of_another_replica(town):
    """A service whose endpoint is behind the other replica: from the cloud, and from a node of this one."""
    assert request(town.hubs[0], "far.default", 80) == (200, "edge-3.web\n")
    assert request(town.hubs[1], "far.default", 80) == (200, "edge-3.web\n")
    before = asked(town.hubs[0])
    assert town.client.get("http://far/") == (200, "edge-3.web\n")
    assert asked(town.hubs[0]) > before
    town.client.copy_resolv_conf()
    town.agents[0].stop()  # what its pool holds goes
    town.agents[0].start()


def test_what_is_refused_says_why(town):
    """The node's own answers come through, and what no replica has is told at once."""
    a = town.hubs[0]
    status, why = request(a, "edge-3", 22)
    assert status == 403 and "tunnel.allow" in why or "not allowed" in why, why
    assert request(a, "edge-3", 7999)[0] == 502
    assert request(a, "edge-77")[0] == 404


def test_transfers_through_a_replica(town):
    """Ten at once, up and down, whole; an upload's half-close arrives, and its answer after it."""
    transfers = tunnelkit.Transfers(town.hubs[0].machine, "edge-3:7500")
    assert between(town.hubs[0], "to") == between(town.hubs[1], "from") == 10
    assert transfers.results() == {"whole": 10}


def test_replica_killed_under_transfers(town):
    """Nobody takes a part for the whole."""
    transfers = tunnelkit.Transfers(town.hubs[0].machine, "edge-3:7500")
    town.hubs[1].process.kill()
    results = transfers.results()
    assert results.total() == 10 and "whole" not in results and None not in results
    town.hubs[1].start()


def test_replica_killed_under_requests(town):
    """Its nodes come to the other one, and whoever asks for them meanwhile waits: nothing that was asked since fails."""
    a, b = town.hubs
    at_edge, in_cloud = Asker(a, "edge-3"), Asker(a, "edge-1")
    wait_for("requests", lambda: len(at_edge.answers) > 10)
    b.process.kill()
    killed = time.monotonic()
    wait_for("it has come", lambda: tunnel_of(a, "edge-3"))
    came = time.monotonic()
    n = len(at_edge.answers)
    wait_for("more requests", lambda: len(at_edge.answers) > n + 50)
    answers, others = at_edge.stop(), in_cloud.stop()
    print(f"the node came after {came - killed:.2f} s, the longest request took {max(x[1] for x in answers):.2f} s")
    assert at_edge.failed(killed) == [] and len(at_edge.failed()) <= 1  # the one that was under way
    assert len(others) > 50 and in_cloud.failed() == []
    assert a.process.logged("lost a replica; its nodes can be reached once they have come to another one peer=hub-2")
    wait_for("told", lambda: peers(a)[b.address]["state"] == "away")
    assert "this replica is away" in ctl(a, "status", check=False) and "peers" in ctl(a, "doctor", check=False)
    b.start()
    replicas.know_each_other(town.hubs)


def test_replica_frozen_and_back(town):
    """SIGSTOP: its kernel goes on acknowledging and accepting, so the node takes a while to go elsewhere. From then on nothing fails."""
    a, b = town.hubs
    asker = Asker(a, "edge-3")
    wait_for("requests", lambda: len(asker.answers) > 10)
    b.process.popen.send_signal(signal.SIGSTOP)
    try:
        wait_for("the node is here", lambda: tunnel_of(a, "edge-3"))
        came = time.monotonic()
        n = len(asker.answers)
        wait_for("answers again", lambda: len(asker.answers) > n + 20)
        wait_for("the replica is away", lambda: peers(a)[b.address]["state"] == "away")
    finally:
        b.process.popen.send_signal(signal.SIGCONT)
    replicas.know_each_other(town.hubs)
    wait_for("the thawed one knows", lambda: not tunnel_of(b, "edge-3") and peers(b)[a.address]["nodes"] == 3)
    assert request(b, "edge-3") == (200, "edge-3\n")
    asker.stop()
    assert asker.failed(came) == []


def test_node_moves_before_its_hub_knows(lab, town):
    """Its agent hangs; one with the same certificate comes to the other hub. The former hub believes in its dead tunnel for seconds more."""
    a, b = town.hubs
    agent = town.agents[0]
    machine = Node(lab, "edge-1-again", "192.0.2.15")
    town.backend(machine, "web", "--http", str(replicas.PORT))
    agent.process.popen.send_signal(signal.SIGSTOP)
    try:
        twin = Agent(machine, None, "--node", "edge-1", "--hub.url", replicas.url(b), "--tunnel.allow", tunnelkit.ALLOW, start=False)
        shutil.copytree(agent.data, twin.data)
        twin.start()
        wait_for("it is at the other hub", lambda: tunnel_of(b, "edge-1"))
        assert request(a, "edge-1") == (200, "edge-1-again\n")
        assert request(b, "edge-1") == (200, "edge-1-again\n")
        assert a.process.logged("another replica has a newer tunnel; this one finishes what it has node=edge-1")
        assert twin.stop() == 0
    finally:
        agent.process.popen.send_signal(signal.SIGCONT)


def test_replica_stops(town):
    """SIGTERM: the others are told, its nodes go to them, what runs through it ends whole."""
    a, b = town.hubs
    transfers = tunnelkit.Transfers(a.machine, "edge-3:7500", 2)
    asker = Asker(a, "edge-3")
    wait_for("requests", lambda: len(asker.answers) > 10)
    b.process.popen.send_signal(signal.SIGTERM)
    wait_for("its node is at the other", lambda: tunnel_of(a, "edge-3"))
    n = len(asker.answers)
    wait_for("more requests", lambda: len(asker.answers) > n + 20)
    asker.stop()
    assert asker.failed() == []
    assert transfers.results() == {"whole": 2}
    wait_for("it has ended", lambda: not b.process.alive())
    assert b.process.popen.returncode == 0
    assert "lost a replica" not in a.process.log().rsplit("a replica stops peer=hub-2", 1)[1]
    b.start()


def test_nothing_goes_round(lab, town):
    """A false replica makes each hub believe that it has a node, and passes on what comes: it is refused the second time."""
    a, b = town.hubs
    machine = Machine(lab, "liar", address="192.0.2.5")
    cert, key = town.ca.issue("liar", *HUB_CERTIFICATE)
    program = PYTHON, os.path.join(labs.HERE, "peer_liar.py"), "--ca", town.ca.cert, "--cert", cert, "--key", key

    def ask(node, hop):
        return machine.run(*program, "--ask", b.address, node, hop).stdout.strip()

    passed = asked(b)
    assert ask("edge-1", "1").startswith("421 the node's tunnel is not here")
    assert ask("edge-1", "2").startswith("508 ") and ask("edge-1", "").startswith("508 ")
    assert ask("EDGE-1", "1").startswith("400 ")
    assert ask("edge-3", "1").startswith("200")
    assert asked(b) == passed  # nothing of it went to the hub that has the node
    liar = machine.start("liar", *program, "--listen", "192.0.2.5", "--hub", a.address, "--hub", b.address, "--claim", "edge-9",
                         "--pass-on", b.address)
    try:
        for h in town.hubs:
            wait_for("it is believed", lambda h=h: peers(h).get("192.0.2.5", {}).get("nodes") == 1)
        status, why = request(a, "edge-9")
        assert status == 503 and "edge-9 has no tunnel" in why, why
        wait_for("the liar's tale", lambda: "passed on" in liar.log())
        assert [x for x in liar.log().splitlines() if x != "serving"] == ["asked edge-9 hop 1", "passed on 421"]
        assert asked(b) == passed and asked(a, "misdirected") >= 1
    finally:
        liar.kill()
    for h in town.hubs:
        wait_for("forgotten", lambda h=h: "192.0.2.5" not in peers(h))


class Confused(Rogue):
    """A node that knows nothing of what it is asked for, and says so in a replica's words."""
    rogue = property(lambda self: self.agent)

    def __init__(self, agent, hub):
        self.agent, self.hub, self.asked = agent, hub, 0
        super().__init__(self, hub.address)
        threading.Thread(target=self.answer, daemon=True).start()

    def wait_open(self, name):
        wait_for("its tunnel", lambda: tunnel_of(self.hub, name))

    def answer(self):
        for kind, _, stream, _ in self.frames():
            if kind == HEADERS:
                self.asked += 1
                self.say(frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x08\x03421"))


def test_a_word_of_replicas_from_a_node(town):
    """It is no replica's: the claim stays."""
    a, b = town.hubs
    agent = town.agents[2]
    agent.stop()
    wait_for("it has gone", lambda: not tunnel_of(b, "edge-3"))
    before, node = asked(a, "misdirected"), Confused(agent, b)
    try:
        wait_for("the other hub knows it", lambda: request(a, "edge-3")[0] == 502)
        status, why = request(a, "edge-3")
        assert (status, asked(a, "misdirected")) == (502, before), why
        assert node.asked >= 2
    finally:
        node.close()
        agent.start()
    wait_for("home", lambda: request(a, "edge-3") == (200, "edge-3\n"))


# A ClientHello, and the rest of the handshake when a line comes.
HALF = """
import socket, ssl, sys
host, ca, cert, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.load_verify_locations(ca)
context.load_cert_chain(cert, key)
context.set_alpn_protocols(["edgeway-peer/1"])
came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
t = context.wrap_bio(came, goes)
with socket.create_connection((host, 10000), 60) as s:
    said = None
    while said is None:
        try:
            try:
                t.do_handshake()
                s.sendall(goes.read())
                said = "data" if t.read(100) else "closed"
            except ssl.SSLWantReadError:
                if goes.pending:
                    s.sendall(goes.read())
                    sys.stdin.readline()
                    print("begun", flush=True)
                    sys.stdin.readline()
                data = s.recv(65536)
                came.write(data) if data else came.write_eof()
        except OSError:
            said = "refused"
    print(said, flush=True)
"""

HANDSHAKE = """
import socket, ssl, sys
host, alpn, ca, cert, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.load_verify_locations(ca)
context.load_cert_chain(cert, key)
context.set_alpn_protocols([alpn])
with socket.create_connection((host, 10000), 60) as s:
    try:
        with context.wrap_socket(s) as t:
            print("data" if t.recv(100) else "closed")
    except OSError as e:
        print("refused", e)
"""


def test_who_is_no_hub(lab, town):
    """A node's certificate opens nothing of a replica's, another server's of the CA neither; and a hub's is no node's."""
    a, b = town.hubs
    data = town.agents[0].data
    node = [os.path.join(data, f) for f in ("node.crt", "node.key")]
    server = town.ca.issue("www", "subjectAltName=DNS:www", "extendedKeyUsage=serverAuth,clientAuth")
    hub = [os.path.join(b.machine.dir, "data", f) for f in ("hub.pem", "hub.key")]

    def dial(alpn, pair):
        at = len(a.process.log())
        assert "data" not in town.nodes[0].python(HANDSHAKE, a.address, alpn, town.ca.cert, *pair).stdout
        return lambda words: wait_for("told", lambda: words in a.process.log()[at:])

    refused = a.metrics()["edgeway_hub_peer_refused_total"]
    for pair in (node, server):
        dial("edgeway-peer/1", pair)('a replica is refused peer=192.0.2.11')
    assert a.process.log().count("it is not a hub's (URI:edgeway:hub in subjectAltName") >= 2
    assert a.metrics()["edgeway_hub_peer_refused_total"] == refused + 2
    for alpn in ("edgeway-tunnel-reverse/1", "edgeway-tunnel/1"):
        dial(alpn, hub)("the certificate does not name a node")
    assert set(tunnelkit.tunnels(a)) == {"edge-1", "edge-2"}


def test_replica_of_another_ca(lab, town):
    """It is refused on both sides, and each says so."""
    a = town.hubs[0]
    other = Authority(os.path.join(lab.dir), "other")
    stranger = replicas.start_hub(lab, other, 2, peers=a.address)
    try:
        wait_for("it says so", lambda: "it is not signed by the CA that we trust" in stranger.process.log())
        wait_for("and so do we", lambda: f"a replica is refused peer={stranger.address}" in a.process.log())
        wait_for("shown", lambda: peers(stranger)[a.address]["state"] == "away")
        assert stranger.process.logged("has it the same CA?") and "not signed by the CA" in ctl(stranger, "doctor", check=False)
        assert stranger.address not in peers(a) and stranger.ready()
    finally:
        stranger.process.stop()


def test_replica_added_and_taken_away(lab, town):
    """A third one: the others know it by its coming, before any name tells of it. SIGHUP with another list."""
    a, b = town.hubs
    config = os.path.join(lab.dir, "third.yaml")

    def write(*others):
        with open(config, "w") as f:
            f.write(f"peers: [{', '.join(others)}]\n")

    write(a.address)
    c = replicas.start_hub(lab, town.ca, 3, "--config", config, peers=None)
    wait_for("the first knows it", lambda: peers(a).get(c.address, {}).get("state") == "open")
    assert c.address not in peers(b)
    write(a.address, b.address)
    c.process.popen.send_signal(signal.SIGHUP)
    wait_for("the second knows it", lambda: peers(b).get(c.address, {}).get("state") == "open")
    agent = town.agents[1]
    agent.stop()
    agent.options = ("--hub.url", replicas.url(c), *agent.options[2:])
    agent.start()
    wait_for("a node of its own", lambda: tunnel_of(c, "edge-2"))
    for h in (a, b, c):
        for n in town.nodes:
            assert request(h, n.name) == (200, n.name + "\n")
    town.send_home(agent, a)
    write()
    pair = [os.path.join(b.machine.dir, "data", f) for f in ("hub.pem", "hub.key")]
    with Dialogue(b.machine, HALF, c.address, town.ca.cert, *pair) as half:
        assert half.ask() == "begun"
        c.process.popen.send_signal(signal.SIGHUP)
        wait_for("alone", lambda: peers(c) == {} and all(peers(h).get(c.address, {}).get("state") != "open" for h in (a, b)))
        assert half.ask() in ("closed", "refused")  # one whose handshake had begun is none of its peers either
    assert "data" not in b.machine.python(HANDSHAKE, c.address, "edgeway-peer/1", town.ca.cert, *pair).stdout
    wait_for("says so", lambda: "whose configuration names no peers" in c.process.log())
    assert request(c, "edge-1")[0] in (404, 503)
    assert c.process.stop() == 0
    for h in (a, b):
        wait_for("forgotten", lambda h=h: c.address not in peers(h))
