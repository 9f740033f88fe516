"""tunnel.carrier websocket: all that a node says to the hub goes inside of websockets: straight, through nginx that ends their TLS
with a certificate of its own, and through CONNECT. Each test ends where it began.
"""
import json
import os

import pytest

import pki
import tunnelkit
from lab import Agent, HUB_ADDRESS, HUB_PORT, Hub, Machine, Node, Timeout, pod, service, wait_for
from tunnelkit import INGRESS_OPTIONS, Transfers, connect, tunnels

FRONT, CONNECTS, STRANGER, NAME, HUB_NAME = "192.0.2.8", "192.0.2.9", "192.0.2.3", "edge.example.test", "hub.example.test"
PROJECT = "e632aba927ea4ac2b575ec1603d56f10"
as_before = tunnelkit.as_before

NGINX = """
daemon off; master_process off;
pid {dir}/nginx.pid;
error_log stderr;
events {{ worker_connections 512; }}
http {{
  access_log {dir}/access.log;
  client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3; uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
  ssl_certificate {cert}; ssl_certificate_key {key};
  proxy_http_version 1.1;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection "upgrade";
  proxy_set_header Host $host;
  server {{ listen 443 ssl;  location / {{ proxy_pass http://{hub}; }} }}
  server {{ listen 8443 ssl; location / {{ proxy_pass https://{hub}; proxy_ssl_server_name on; proxy_ssl_name carrier.edgeway.io; }} }}
  server {{ listen 8444 ssl; location / {{ proxy_pass https://{hub}; }} }}
  server {{ listen 8445 ssl; location / {{ return 403; }} }}
  server {{ listen 8446 ssl; location / {{ return 301 https://elsewhere.example.test$request_uri; }} }}
  server {{ listen 8447 ssl; location / {{ proxy_set_header Upgrade ""; proxy_set_header Connection close; proxy_pass http://{hub}; }} }}
  server {{ listen 8448 ssl; location / {{ proxy_pass http://127.0.0.1:9; }} }}
}}
"""


class Front:
    """nginx with a certificate of another CA, which shows the hub none."""

    def __init__(self, lab):
        self.machine = m = Machine(lab, "front", address=FRONT)
        self.ca = pki.Authority(m.dir, "front-ca")
        cert, key = self.ca.issue("front", f"subjectAltName=DNS:{NAME}")
        self.config = os.path.join(m.dir, "nginx.conf")
        self.text = NGINX.replace("{dir}", m.dir).replace("{cert}", cert).replace("{key}", key).replace("{{", "{").replace("}}", "}")
        self.start()

    def start(self, hub=HUB_ADDRESS):
        with open(self.config, "w") as f:
            f.write(self.text.replace("{hub}", f"{hub}:{HUB_PORT}"))
        self.process = self.machine.start("nginx", "nginx", "-c", self.config)
        wait_for("nginx", lambda: ":443" in self.machine.run("ss", "-tlnH").stdout)

    def upgrades(self):
        with open(os.path.join(self.machine.dir, "access.log")) as f:
            return [line for line in f if f"/{PROJECT}/edge-2/carrier" in line and '" 101 ' in line]


class Site(tunnelkit.Site):
    """edge-1 straight, edge-2 through nginx, edge-3 through tinyproxy."""

    def __init__(self, lab):
        self.lab = lab
        self.hub = Hub(lab, *INGRESS_OPTIONS, "--tls.names", f"{NAME},{HUB_NAME}")
        self.front = Front(lab)
        self.connects = Machine(lab, "connects", address=CONNECTS)
        self.tell(self.connects, HUB_ADDRESS, HUB_NAME)
        config = os.path.join(self.connects.dir, "tinyproxy.conf")
        with open(config, "w") as f:
            f.write(f"Port 3128\nListen {CONNECTS}\nTimeout 600\nMaxClients 50\nLogLevel Connect\nConnectPort {HUB_PORT}\n")
        self.tinyproxy = self.connects.start("tinyproxy", "tinyproxy", "-d", "-c", config)
        wait_for("tinyproxy", lambda: self.connects.send(CONNECTS, 3128, "GET / HTTP/1.0\r\n\r\n"))
        self.nodes = [Node(lab, f"edge-{i}", f"192.0.2.1{i}") for i in (1, 2, 3)]
        self.tell(self.nodes[1], FRONT, NAME)
        ways = ((), ("--hub.url", f"wss://{NAME}:443", "--hub.carrierCA", self.front.ca.cert),
                ("--hub.url", f"wss://{HUB_NAME}:{HUB_PORT}", "--hub.proxy", f"http://{CONNECTS}:3128"))
        # nothing but its proxy lets a node out
        for node, proxy in ((self.nodes[1], FRONT), (self.nodes[2], CONNECTS)):
            node.run("nft", "-f", "-", input=f"""
                table ip fence {{ chain out {{ type filter hook output priority 0; oifname "eth0" ip daddr != {proxy} drop; }}; }}""")
        self.agents = [Agent(n, self.hub, "--tunnel.allow", tunnelkit.ALLOW, "--tunnel.carrier", "websocket", *way)
                       for n, way in zip(self.nodes, ways)]
        self.servers = [self.backend(n, "server", "--stream", "7500", "--http", "7001") for n in self.nodes]
        web, self.client = self.nodes[0].pod("web"), self.nodes[1].pod("client")
        web.serve("--stream", "7500")
        self.hub.write("far.yaml", pod("web", self.nodes[0], web.address, ("raw", 7500, 0), app="far"), service("far", ("raw", 7500, 7500)), *[
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": n.name, "labels": {"edgeway.io/site": n.name}},
             "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for n in self.nodes])
        wait_for("services", lambda: all(a.state()["services"] == 1 for a in self.agents))
        self.wait_open()

    @staticmethod
    def tell(machine, address, name):
        with open(os.path.join(machine.dir, "etc", "hosts"), "a") as f:
            f.write(f"{address} {name}\n")

    def get(self, node="edge-1"):
        return self.hub.machine.get(f"http://{node}:7001/", "-x", "http://192.0.2.1:10080")


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


def carriers(agent):
    return agent.state()["carriers"]


def test_shown(site):
    """What carries is told at both ends, by state, metrics and edgewayctl; a proxy's address is not taken for the node's."""
    for i, agent in enumerate(site.agents):
        assert agent.state()["tunnel"]["carrier"] == "websocket" and agent.state()["meta"]["synced"]
        assert carriers(agent)["open"] == 2 and carriers(agent)["error"] == ""  # metadata and the tunnel
        assert agent.metrics()['edgeway_carrier_dials_total{result="open"}'] >= 3  # and joining
        status = agent.node.run(site.lab.program("edgewayctl"), "--socket", agent.socket, "status").stdout
        assert "websockets, 2 open; 0 refused" in status
        # not a byte of the node's goes to the hub another way
        shown = agent.node.run("ss", "-tnHp", "state", "established").stdout.splitlines()
        peers = {line.split()[3] for line in shown if f"pid={agent.process.pid}," in line and "127.0.0.1" not in line}
        assert peers == {(f"{HUB_ADDRESS}:{HUB_PORT}", f"{FRONT}:443", f"{CONNECTS}:3128")[i]}
    hub = site.hub
    assert hub.state()["hub"]["carried"]["open"] == 6
    told = {n["node"]: n["address"] for n in json.loads(hub.ask("/nodes")[1])["nodes"]}
    assert told["edge-1"].startswith("192.0.2.11:") and told["edge-3"].startswith(f"{CONNECTS}:")
    assert told["edge-2"].startswith(f"via:{FRONT}:")
    assert len(site.front.upgrades()) >= 1  # nginx writes of a connection at its end: that of joining


@pytest.mark.parametrize("node", ["edge-1", "edge-2", "edge-3"])
def test_transfers(site, node, monkeypatch):
    """50 streams, half up, half down, each to its last byte and its half-close."""
    monkeypatch.setattr(tunnelkit.Transfer, "BYTES", 3 << 20)
    assert site.get(node) == (200, f"{node}.server\n")
    assert Transfers(site.hub.machine, f"{node}:7500", 50).results() == {"whole": 50}


def test_stalled_reader(site):
    """One stream that nobody reads holds up none of the others, nor the heartbeat."""
    with connect(site.hub.machine, "edge-2:7500") as stalled:
        stalled.sendall(b"down 100000000\n")
        assert Transfers(site.hub.machine, "edge-2:7500", 4).results() == {"whole": 4}
        since = tunnels(site.hub)["edge-2"]["epoch"]
        assert site.get("edge-2")[0] == 200
        assert tunnels(site.hub)["edge-2"]["epoch"] == since


@pytest.fixture
def stranger(site):
    """Another hub with the same name and a CA of its own."""
    m = Machine(site.lab, "stranger", address=STRANGER)
    hub = m.start("hub", site.lab.program("edgeway-hub"), "--listen", f"{STRANGER}:{HUB_PORT}", "--source.manifests", m.dir, "--dataDir",
                  os.path.join(m.dir, "data"), "--admin.listen", "", "--admin.socket", os.path.join(m.dir, "s"), "--ingress.http", "",
                  "--tls.names", NAME)
    wait_for("stranger", lambda: "serving" in hub.log())
    yield hub
    hub.stop()


def test_proxy_restarted(site, stranger):
    """What was on its way breaks on both sides; the node says why. A proxy that leads to another hub then gets nothing, although its own
    certificate is good: inside is another CA. With the right one the node is back."""
    agent, front = site.agents[1], site.front
    transfers = Transfers(site.hub.machine, "edge-2:7500", 4)
    front.process.kill()
    results = transfers.results()
    assert "whole" not in results and None not in results
    wait_for("why", lambda: f"cannot connect to {FRONT}:443: Connection refused" in carriers(agent)["error"])
    status = agent.node.run(site.lab.program("edgewayctl"), "--socket", agent.socket, "status").stdout
    assert f"cannot connect to {FRONT}:443" in status and agent.ready()
    assert agent.metrics()['edgeway_carrier_dials_total{result="failed"}'] >= 1
    front.start(STRANGER)
    wait_for("refused", lambda: "not signed by the CA that we trust" in agent.state()["meta"]["error"] and
             "of the websocket" not in agent.state()["meta"]["error"])
    assert agent.ready() and "node connected" not in stranger.log() and "tunnel open" not in stranger.log()
    front.process.kill()
    front.start()
    site.wait_open("edge-2", seconds=60)
    wait_for("metadata", lambda: agent.state()["meta"]["synced"])
    assert site.get("edge-2")[0] == 200


def test_what_is_in_front_refuses(site):
    """Each answer that is no websocket is told with its status and what to do about it."""
    agent, probe = site.agents[1], Node(site.lab, "edge-9", "192.0.2.19", bridge=False)
    site.tell(probe, FRONT, NAME)
    token = site.hub.token()
    for port, options, words in (
            (8444, (), "it answers 421; the hub was reached by TLS of a proxy"),
            (8445, (), "it answers 403; what is in front of the hub forbids it"),
            (8446, (), f"points to https://elsewhere.example.test/{PROJECT}/edge-9/carrier"),
            (8447, (), "it answers 426; what is in front of the hub does not pass"),
            (8448, (), "it answers 502; what is in front of the hub does not reach it"),
            (443, ("--hub.carrierCA", ""), "it is not signed by the CA that we trust (of the websocket")):
        a = Agent(probe, None, "--tunnel.carrier", "websocket", "--hub.carrierCA", site.front.ca.cert, "--hub.url", f"wss://{NAME}:{port}",
                  *options, start=False, token=token)
        a.start(ready=False)
        try:
            wait_for(words, lambda: words in carriers(a)["error"] and words in a.state()["meta"]["error"])
        except Timeout as e:
            raise AssertionError(f"{e}\n{a.process.log()[-1500:]}") from None
        m = a.metrics()
        assert m['edgeway_carrier_dials_total{result="%s"}' % ("refused" if port != 443 else "failed")] >= 1
        a.process.kill()
    assert site.hub.process.logged("speak plain HTTP to this port")
    # by its name the hub knows TLS of a proxy
    a = Agent(probe, None, "--tunnel.carrier", "websocket", "--hub.carrierCA", site.front.ca.cert, "--hub.url", f"wss://{NAME}:8443",
              start=False, token=token)
    a.start(ready=False)
    wait_for("metadata", lambda: a.state()["meta"]["synced"])
    site.wait_open("edge-9")
    assert a.stop() == 0
    assert agent.ready()


def test_edge_to_cloud(site):
    """A node's own streams, from a pod of edge-2 to one of edge-1, which only the hub reaches."""
    agent = site.agents[1]
    fake = wait_for("its name", lambda: site.client.address_of("far.default.svc.cluster.local", f"@{site.nodes[1].gateway}"))
    got = site.client.python(f"""
import hashlib, socket
s = socket.create_connection(({fake!r}, 7500), 60)
s.sendall(b"down 5000000\\n")
data = b"".join(iter(lambda: s.recv(65536), b""))
assert len(data) == 5000032 and hashlib.sha256(data[:-32]).digest() == data[-32:], len(data)
print("whole")""", seconds=40)
    assert got.stdout == "whole\n"
    assert agent.metrics()['edgeway_tunnel_outward_total{result="ok"}'] >= 1
    assert carriers(agent)["open"] == 3
    agent.stop()  # else it keeps the connection for a minute
    agent.start()


@pytest.mark.plain_build  # when it dials anew
def test_hub_killed(site):
    """Killed and back it has all nodes again."""
    site.hub.process.kill()
    wait_for("the nodes know", lambda: all(a.state()["tunnel"]["state"] != "open" for a in site.agents))
    site.hub.start()
    site.wait_open(seconds=60)


def test_carrier_switched(site):
    """Another tunnel.carrier at the next start, there and back; certificates and fake IPs are the same."""
    agent = site.agents[0]
    for carrier, n in (("tls", 0), ("websocket", 2)):
        assert agent.stop() == 0
        agent.start("--tunnel.carrier", carrier)
        site.wait_open("edge-1")
        wait_for("metadata", lambda: agent.state()["meta"]["synced"])
        state = agent.state()
        assert state["tunnel"]["carrier"] == carrier and (state["carriers"] or {"open": 0})["open"] == n
        assert site.get() == (200, "edge-1.server\n")


def ask(site, *lines):
    """What the hub answers to a request without TLS."""
    return site.hub.machine.python(f"""
import socket
s = socket.create_connection(({HUB_ADDRESS!r}, {HUB_PORT}), 60)
s.sendall({(chr(13) + chr(10)).join(lines) + chr(13) + chr(10) + chr(13) + chr(10)!r}.encode())
print(s.recv(4096).decode())""").stdout


@pytest.mark.plain_build  # how many there may be; test_stranger_descriptors attacks with both
def test_strangers_at_the_hub(site):
    """Requests that are no carrier's are refused with a status; frames against the rules end their connection alone."""
    good = (f"GET /{PROJECT}/edge-1/carrier HTTP/1.1", "Host: hub", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==", "Sec-WebSocket-Protocol: edgeway-carrier.1")
    def but(n, line):
        return [*good[:n], *([line] if line else []), *good[n + 1:]]
    for lines, status in ((but(0, "GET / HTTP/1.1"), 404), (but(0, f"GET /{PROJECT}/edge-1/events HTTP/1.1"), 404), (but(2, ""), 426),
                          (but(4, "Sec-WebSocket-Version: 8"), 426), (but(5, "Sec-WebSocket-Key: x"), 400),
                          (but(6, "Sec-WebSocket-Protocol: chat"), 400), (but(1, "X: y"), 400), ((good[0], "X: " + "a" * 9000), 431)):
        assert ask(site, *lines).startswith(f"HTTP/1.1 {status} "), (lines, status)
    assert ask(site, *good).startswith("HTTP/1.1 101 ")
    script = f"""
import socket, sys
def frame(first, payload, mask=b"abcd", extra=b""):
    n = len(payload)
    head = bytes([first, (0x80 if mask else 0) | (n if n < 126 else 126)]) + (n.to_bytes(2, "big") if n > 125 else b"")
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)) if mask else head + payload
request = {(chr(13) + chr(10)).join(good)!r}.encode() + b"\\r\\n\\r\\n"
for what, data, code in (("text", frame(0x81, b"hello"), 1003), ("unmasked", frame(0x82, b"x" * 40, b""), 1002),
        ("reserved", frame(0xc2, b"x"), 1002), ("opcode", frame(0x83, b"x"), 1002), ("continuation", frame(0x80, b"x"), 1002),
        ("large", b"\\x82\\xff" + (1 << 40).to_bytes(8, "big") + b"abcdx", 1009), ("long ping", b"\\x89\\xfe\\x00\\x80abcdx", 0),
        ("nested", frame(0x82, request), None), ("garbage", frame(0x82, b"no tls at all"), None), ("truncated", frame(0x82, b"x" * 100)[:50], None)):
    s = socket.create_connection(("{HUB_ADDRESS}", {HUB_PORT}), 60)
    s.sendall(request + data)
    if what == "truncated":
        s.shutdown(socket.SHUT_WR)
    got = b""
    try:
        while b"\\x88" not in got and (more := s.recv(4096)):
            got += more
    except ConnectionResetError:
        pass
    head, _, rest = got.partition(b"\\r\\n\\r\\n")
    assert head.startswith(b"HTTP/1.1 101 "), (what, got)
    if code is not None:
        assert rest[:1] == b"\\x88" and int.from_bytes(rest[2:4], "big") == code, (what, rest)
print("ended")
"""
    assert site.hub.machine.python(script, seconds=60).stdout == "ended\n"
    wait_for("they are gone", lambda: site.hub.state()["hub"]["carried"]["open"] == 6)
    assert site.hub.state()["hub"]["carried"]["broken"] >= 7
