"""Agents of one site dial each other: from pods of one node to pods of another one that have no hostPort, and what does not get in."""
import json
import os
import signal
import socket
import ssl

import pytest

import lab as labs
import tunnelkit
from httpkit import socket_of
from lab import HUB_ADDRESS, PATIENCE_S, pod, service, wait_for

PORT = 10001
DIRECT = "edgeway_tunnel_outward_direct_total"


class Site(tunnelkit.Site):
    """Two nodes on one LAN; a web pod without hostPort and a client on each."""

    def __init__(self, lab):
        self.config = os.path.join(lab.dir, "hub.yaml")
        self.write_config("")
        super().__init__(lab, "--config", self.config)
        self.webs = [n.pod("web") for n in self.nodes]
        self.servers = [p.serve("--http", "8080", "--tcp", "9090", "--udp", "5353") for p in self.webs]
        self.clients = [n.pod("client") for n in self.nodes]
        udp = [pod(f"dns-{i}", n, p.address, ("u", 5353, 0), protocol="UDP") for i, (n, p) in enumerate(zip(self.nodes, self.webs), 1)]
        tcp = [pod(f"web-{i}", n, p.address, ("http", 8080, 0), ("echo", 9090, 0)) for i, (n, p) in enumerate(zip(self.nodes, self.webs), 1)]
        self.hub.write("pods.yaml", *tcp, *udp)
        self.hub.write("services.yaml",
                       *[service(f"web-{i}", ("http", 80, 8080), ("echo", 7000, 9090)) for i in (1, 2)],
                       *[service(f"dns-{i}", ("u", 53, 5353), protocol="UDP") for i in (1, 2)])
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 4)
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        for c in self.clients:
            c.copy_resolv_conf()

    def write_config(self, rules):
        with open(self.config, "w") as f:
            f.write(f"access: [{rules}]\n")

    def reload(self, rules):
        self.write_config(rules)
        self.hub.process.popen.send_signal(signal.SIGHUP)

    def get(self, i, seconds=30):
        return self.clients[i - 1].get(f"http://web-{3 - i}/", seconds=seconds)

    def echo(self, i):
        s = socket_of(self.clients[i - 1])
        s.connect((self.nodes[i - 1].address_of(f"web-{3 - i}.default.svc.cluster.local", f"@{self.nodes[i - 1].gateway}"), 7000))
        with s:
            name = s.recv(100)
            s.sendall(b"ping\n")
            return name + s.recv(100)

    def udp(self, i):
        to = self.nodes[i - 1].address_of(f"dns-{3 - i}.default.svc.cluster.local", f"@{self.nodes[i - 1].gateway}")
        return self.clients[i - 1].python(f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout({PATIENCE_S}); "
                                          f"s.connect(('{to}', 53)); s.send(b'hello'); print(s.recv(2000))").stdout

    def peers(self, i, direction="out"):
        return [p for p in json.loads(self.agents[i - 1].ask("/peers")[1])["peers"] if p["direction"] == direction]

    def carried(self):
        """Bytes that the hub carried for nodes."""
        return sum(v for k, v in tunnelkit.counted(self.hub).items() if k.startswith("edgeway_tunnel_bytes_total"))


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


@pytest.fixture()
def frozen(site):
    """The hub does not answer any more."""
    site.hub.process.popen.send_signal(signal.SIGSTOP)
    yield
    site.hub.process.popen.send_signal(signal.SIGCONT)


def test_a_pod_of_the_lan(site):
    before = site.carried()
    assert site.get(1) == (200, "edge-2.web\n")
    assert site.echo(1).startswith(b"edge-2.web\n")
    assert "edge-2.web" in site.udp(1)
    assert site.agents[0].metrics()[DIRECT] == 3
    assert [(p["peer"], p["state"]) for p in site.peers(1)] == [("edge-2", "open")]
    assert site.carried() == before


def test_the_other_way_and_kept_connections(site):
    """Calls the other way have a session of their own; connections share it."""
    assert site.get(2) == (200, "edge-1.web\n")
    before = site.agents[0].metrics()['edgeway_peers_dials_total{result="open"}']
    for _ in range(20):
        assert site.echo(1).startswith(b"edge-2.web\n")
    assert site.agents[0].metrics()['edgeway_peers_dials_total{result="open"}'] == before
    assert [p["peer"] for p in site.peers(1)] == ["edge-2"] and [p["peer"] for p in site.peers(1, "in")] == ["edge-2"]


def test_it_is_shown(site):
    ctl = [site.lab.program("edgewayctl"), "--socket", site.agents[0].socket]
    shown = site.nodes[0].run(*ctl, "peers").stdout
    assert [x.split()[:3] for x in shown.splitlines() if "192.0.2.12:10001" in x] == [["edge-2", "out", "open"]]
    assert f'"peer":"{site.nodes[1].address}"' in site.agents[0].ask("/debug/services")[1]


def test_both_dial_at_once(site):
    """Neither waits for the other, and there is one session for each direction."""
    for a in site.agents:
        a.stop()
    for a in site.agents:
        a.start()
    both = [(c, c.start("both", "curl", "-sS", "-m", "30", f"http://web-{3 - i}/")) for i, c in enumerate(site.clients, 1)]
    for i, (_, p) in enumerate(both, 1):
        assert p.wait() == 0 and p.log() == f"edge-{3 - i}.web\n"
    for i in (1, 2):
        assert [(p["peer"], p["state"]) for p in site.peers(i)] == [(f"edge-{3 - i}", "open")]
        assert [p["peer"] for p in site.peers(i, "in")] == [f"edge-{3 - i}"]


def test_a_frozen_hub_carries_nothing(site, frozen):
    direct = site.agents[0].metrics()[DIRECT]
    for i in (1, 2):
        assert site.get(i) == (200, f"edge-{3 - i}.web\n")
        assert site.echo(i).startswith(f"edge-{3 - i}.web\n".encode())
        assert f"edge-{3 - i}.web" in site.udp(i)
    assert site.agents[0].metrics()[DIRECT] > direct
    assert site.agents[0].metrics()['edgeway_tunnel_outward_total{result="no_hub"}'] == 0


def test_after_restarts_without_a_hub(site):
    """What both agents know of each other outlives them: addresses in the database, certificates beside it."""
    site.hub.process.kill()
    try:
        for a in site.agents:
            a.stop()
        for a in site.agents:
            a.start()
        for i in (1, 2):
            assert site.get(i) == (200, f"edge-{3 - i}.web\n")
            assert site.echo(i).startswith(f"edge-{3 - i}.web\n".encode())
            assert f"edge-{3 - i}.web" in site.udp(i)
    finally:
        site.hub.start()
        site.wait_whole()


def test_an_agent_comes_back_without_a_hub(site, frozen):
    """It is dialled again and again where there is no other way."""
    site.agents[1].stop()
    slow = site.clients[0].start("slow", "curl", "-sS", "-m", "30", "--retry", "30", "--retry-delay", "1", "--retry-all-errors", "http://web-2/")
    wait_for("it was dialled in vain", lambda: site.agents[0].metrics()['edgeway_peers_dials_total{result="failed"}'] > 0)
    site.agents[1].start()
    assert slow.wait() == 0 and slow.log().endswith("edge-2.web\n")


def test_a_node_out_of_reach(site):
    """It is remembered, the hub carries what is for it, and it is found again."""
    site.nodes[1].run("nft", "-f", "-", input="""table inet wall { chain in { type filter hook input priority 0; tcp dport 10001 drop; }; }""")

    def the_first_call_is_the_hubs():
        """It does not wait until the dial has failed."""
        site.agents[0].stop()
        site.agents[0].start()
        site.wait_whole()
        assert site.get(1) == (200, "edge-2.web\n")
        return site.agents[0].metrics()['edgeway_peers_dials_total{result="failed"}'] == 0
    wait_for("the hub answers before the dial has failed", the_first_call_is_the_hubs)
    before = site.agents[0].metrics()
    wait_for("it is remembered", lambda: [p["state"] for p in site.peers(1)] == ["resting"])
    for _ in range(5):
        assert site.echo(1).startswith(b"edge-2.web\n")
    after = site.agents[0].metrics()
    assert after[DIRECT] == before[DIRECT]
    assert site.peers(1)[0]["error"] == "it does not answer"
    log = site.agents[0].process.log()
    assert "another node cannot be reached directly; the hub carries what is for it node=edge-2" in log
    site.nodes[1].run("nft", "delete", "table", "inet", "wall")

    def found_again():
        site.echo(1)
        return [p["state"] for p in site.peers(1)] == ["open"]
    wait_for("it is found again", found_again)
    assert site.peers(1)[0]["error"] == ""
    before = site.agents[0].metrics()[DIRECT]  # the kept connection through the hub is left
    assert site.get(1) == (200, "edge-2.web\n")
    assert site.agents[0].metrics()[DIRECT] == before + 1


# --- who does not get in ---------------------------------------------------------------------------


def shake(machine, to, cert=None, key=None, alpn="edgeway-peer/1", version=ssl.TLSVersion.TLSv1_3, send=b""):
    """What a client gets back: (ALPN, bytes), or the error. It sends HTTP/2's preface as far as it comes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    context.set_alpn_protocols([alpn] if alpn else ["h2"])
    if cert is not None:
        context.load_cert_chain(cert, key)
    s = socket_of(machine)
    s.settimeout(PATIENCE_S)
    try:
        s.connect((to, PORT))
        with context.wrap_socket(s, server_hostname="edge-1") as tls:
            tls.sendall(send or b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            return tls.selected_alpn_protocol(), tls.recv(1000)
    except (OSError, ssl.SSLError) as e:
        return None, str(e).encode()
    finally:
        s.close()


def paths(agent):
    return os.path.join(agent.data, "node.crt"), os.path.join(agent.data, "node.key")


def refused(agent):
    return agent.metrics()['edgeway_peers_accepted_total{result="refused"}']


def test_the_door_knows_nodes(site):
    """The same client with a node's certificate is let in: what follows fails for the certificates alone."""
    alpn, data = shake(site.nodes[1], site.nodes[0].address, *paths(site.agents[1]))
    assert alpn == "edgeway-peer/1" and len(data) > 9 and data[3] == 4  # SETTINGS


@pytest.mark.parametrize("who", ["nobody", "foreign", "hub", "itself", "old TLS", "other ALPN"])
def test_the_door_is_closed(site, who):
    before, more, pair = refused(site.agents[0]), {}, paths(site.agents[1])
    if who == "nobody":
        pair = None, None
    elif who == "foreign":
        pair = foreign(site)
    elif who == "hub":
        pair = [os.path.join(site.hub.machine.dir, "data", f"hub.{x}") for x in ("pem", "key")]
    elif who == "itself":
        pair = paths(site.agents[0])
    elif who == "old TLS":
        more = {"version": ssl.TLSVersion.TLSv1_2}
    else:
        more = {"alpn": None}
    alpn, data = shake(site.nodes[1], site.nodes[0].address, *pair, **more)
    assert not (len(data) > 9 and data[3] == 4 and data[:2] == b"\0\0"), (alpn, data)
    wait_for("it was refused", lambda: refused(site.agents[0]) == before + 1)


def foreign(site):
    """A certificate of the name edge-2 that another CA has signed."""
    at = os.path.join(site.lab.dir, "foreign")
    os.makedirs(at, exist_ok=True)
    openssl = lambda *argv: site.nodes[1].run("openssl", *argv)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=Edgeway CA", "-days", "9",
            "-keyout", f"{at}/ca.key", "-out", f"{at}/ca.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=edge-2", "-keyout", f"{at}/key", "-out", f"{at}/csr")
    openssl("x509", "-req", "-in", f"{at}/csr", "-CA", f"{at}/ca.pem", "-CAkey", f"{at}/ca.key", "-CAcreateserial", "-days", "9", "-out", f"{at}/crt")
    return f"{at}/crt", f"{at}/key"


def test_many_who_say_nothing(site):
    """They hold no node back, and are dropped."""
    before, silent = refused(site.agents[0]), []
    for _ in range(300):
        s = socket_of(site.nodes[1])
        s.connect((site.nodes[0].address, PORT))
        silent.append(s)
    assert site.get(2) == (200, "edge-1.web\n")
    alpn, data = shake(site.hub.machine, site.nodes[0].address, *paths(site.agents[1]))
    assert alpn == "edgeway-peer/1" and data[3] == 4
    wait_for("they are dropped", lambda: refused(site.agents[0]) >= before + 300 - 256)
    for s in silent:
        s.close()


# --- what a node may ask for --------------------------------------------------------------------------


@pytest.mark.parametrize("authority, service, status", [
    ("172.17.0.2:8080", "default/web-1", 200),
    ("172.17.0.2:8080", "", 403),  # a pod, but by no Service
    ("172.17.0.2:22", "default/web-1", 403),
    ("127.0.0.1:40002", "default/web-1", 403),
    ("edge-1:10250", "", 403),
    ("192.0.2.11:10001", "default/web-1", 403),
    ("169.254.169.254:80", "default/web-1", 404),
    ("192.0.2.1:10000", "default/web-1", 404)])
def test_what_a_node_may_ask_for(site, authority, service, status):
    assert site.webs[0].address == "172.17.0.2"
    assert ask(site, authority, service)[0] == status


def test_the_hubs_questions_are_not_a_nodes(site):
    assert ask(site, "edgeway-ask:1", "", ("edgeway-ask", "admin"), ("edgeway-target", "/debug/state"))[0] in (403, 404)
    assert ask(site, "192.0.2.12:22", "default/web-1", ("edgeway-reach", "*"))[0] in (403, 404)


def ask(site, authority, service, *fields):
    """A stream of edge-2, by HTTP/2 itself: (status, reason)."""
    script = f'''
import socket, ssl, sys, h2.connection, h2.config, h2.events
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["edgeway-peer/1"])
context.load_cert_chain(*{paths(site.agents[1])!r})
tls = context.wrap_socket(socket.create_connection(("{site.nodes[0].address}", {PORT}), {PATIENCE_S}), server_hostname="edge-1")
c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False))
c.initiate_connection()
c.send_headers(1, [(":method", "CONNECT"), (":authority", {authority!r})] + [(k, v) for k, v in (("edgeway-service", {service!r}), *{fields!r}) if v])
tls.sendall(c.data_to_send())
while True:
    data = tls.recv(65536)
    if not data:
        sys.exit("closed")
    for e in c.receive_data(data):
        if isinstance(e, h2.events.ResponseReceived):
            h = dict(e.headers)
            print(h[":status"], h.get("edgeway-reason", ""))
            sys.exit(0)
    tls.sendall(c.data_to_send())
'''
    status, _, reason = site.nodes[1].run("/usr/bin/python3", "-c", script).stdout.partition(" ")
    return int(status), reason


@pytest.mark.plain_build  # memory
def test_memory_of_a_node(site):
    """What an idle session costs the dialled one, its TLS included."""
    n, at, data = 60, os.path.join(site.lab.dir, "many"), os.path.join(site.hub.machine.dir, "data")
    os.makedirs(at, exist_ok=True)
    script = f"""
import socket, ssl, subprocess, sys, time
held = []
def openssl(*argv):
    subprocess.run(["openssl", *argv], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for i in range({n}):
    name = f"{at}/n{{i}}"
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN=many-{{i}}", "-keyout", name + ".key", "-out", name + ".csr")
    openssl("x509", "-req", "-in", name + ".csr", "-CA", "{data}/ca.pem", "-CAkey", "{data}/ca.key", "-CAcreateserial", "-days", "9", "-out", name + ".crt")
for i in range({n}):  # together: they answer no ping
    name = f"{at}/n{{i}}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["edgeway-peer/1"])
    context.load_cert_chain(name + ".crt", name + ".key")
    tls = context.wrap_socket(socket.create_connection(("{site.nodes[0].address}", {PORT})))
    tls.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0")
    assert tls.recv(100)
    held.append(tls)
print("held", flush=True)
time.sleep(3600)
"""
    assert site.get(2) == (200, "edge-1.web\n")
    before = tunnelkit.memory(site.agents[0])
    p = site.hub.machine.start("many", *labs.BARE_PYTHON, "-c", script)
    wait_for("they are there", lambda: sum(x["peer"].startswith("many-") for x in site.peers(1, "in")) == n)
    grown = (tunnelkit.memory(site.agents[0]) - before) / n
    p.kill()
    print(f"a session: {grown:.0f} bytes")
    assert grown <= 60 * 1024


def test_rules_for_nodes_are_the_hubs(site):
    """Only the hub can apply them, so nodes neither ask nor serve each other."""
    wait_for("a session", lambda: site.echo(2).startswith(b"edge-1.web\n") and [p["peer"] for p in site.peers(1, "in")] == ["edge-2"])
    site.reload("{from: 'node:*', to: ['cloud/default/kubernetes:443']}")  # it adds, and says nothing of what nodes may have else
    assert not site.hub.state()["hub"]["nodeRules"]
    assert site.echo(2).startswith(b"edge-1.web\n") and [p["peer"] for p in site.peers(1, "in")] == ["edge-2"]
    site.reload("{from: 'node:edge-2', to: ['*']}")
    try:
        wait_for("it is cut", lambda: site.peers(1, "in") == [] and site.peers(2, "in") == [])
        before = [a.metrics()[DIRECT] for a in site.agents]
        assert site.get(2) == (200, "edge-1.web\n")
        assert site.get(1)[0] != 200
        assert [a.metrics()[DIRECT] for a in site.agents] == before
        alpn, data = shake(site.nodes[1], site.nodes[0].address, *paths(site.agents[1]))
        assert not (len(data) > 9 and data[3] == 4), data
        assert "the hub's access has rules for nodes: they reach each other through the hub alone" in site.agents[1].process.log()
        told = [f for f in site.agents[1].state()["findings"] if f["what"] == "peers-rules"]
        assert [f["class"] for f in told] == ["information"] and "asks the hub alone" in told[0]["found"]
        shown = site.hub.machine.run(site.lab.program("edgewayctl"), "--socket", site.hub.socket, "doctor", check=False).stdout
        assert "has rules from node:NAME" in shown, shown
    finally:
        site.reload("")
    wait_for("they ask each other again", lambda: site.get(1) == (200, "edge-2.web\n") and site.agents[0].metrics()[DIRECT] > before[0])


# --- revoked nodes; last, since edge-2 is out afterwards -----------------------------------------------


def test_a_revoked_node(site):
    """The others cut its session when the hub says so, keep it out without a hub and after a restart, and let it in when it has joined anew."""
    wait_for("its session is there", lambda: site.echo(2).startswith(b"edge-1.web\n") and [p["peer"] for p in site.peers(1, "in")] == ["edge-2"])
    stolen = [os.path.join(site.lab.dir, f"stolen.{x}") for x in ("crt", "key")]
    for there, here in zip(paths(site.agents[1]), stolen):
        with open(there, "rb") as f, open(here, "wb") as g:
            g.write(f.read())
    site.hub.ask("/nodes/revoke?name=edge-2", "POST")
    wait_for("its session is cut", lambda: site.peers(1, "in") == [])
    site.hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        site.agents[0].stop()
        site.agents[0].start()
        before = refused(site.agents[0])
        alpn, data = shake(site.nodes[1], site.nodes[0].address, *stolen)
        assert not (len(data) > 9 and data[3] == 4), data
        wait_for("it was refused", lambda: refused(site.agents[0]) > before)
        assert "reason=\"its certificate was revoked\"" in site.agents[0].process.log()
    finally:
        site.hub.process.popen.send_signal(signal.SIGCONT)
    site.agents[1].stop()
    site.agents[1].token = site.hub.token("--node", "edge-2")
    site.agents[1].start()
    site.wait_whole()
    wait_for("it is let in", lambda: site.echo(2).startswith(b"edge-1.web\n") and [p["peer"] for p in site.peers(1, "in")] == ["edge-2"])
    alpn, data = shake(site.nodes[1], site.nodes[0].address, *stolen)
    assert not (len(data) > 9 and data[3] == 4), data
