"""Nodes and machines without a tunnel of their own, reached through a neighbour of their site (tunnel.reach). Two sites with the same
private addresses:

    site a: edge-1 .11 and edge-3 .13 declare edge-2, plain-4 and the printers; edge-2 .12 has an agent of its own, plain-4 .14 none
    site b: edge-5 .15 and a printer that has the address of the one in site a
"""
import json
import os
import signal
import socket
import threading

import pytest

import tunnelkit
from dnskit import socket_in
from lab import PATIENCE_S, Agent, Hub, Machine, Node, pod, service, wait_for

as_before = tunnelkit.as_before
PRINTERS = "192.168.1.48/28:9100"
SITES = {"edge-1": "a", "edge-2": "a", "edge-3": "a", "plain-4": "a", "edge-5": "b"}
REACH = {"edge-1": ["edge-2", "plain-4", PRINTERS, "edge-5"], "edge-3": ["edge-2", "plain-4:10250-10260", PRINTERS]}
LAN = {name: f"192.168.1.1{name[-1]}" for name in SITES}
PRINTER, DENIED = "192.168.1.50", "192.168.1.51"


class Lan:
    """A switch of one site, which nobody else is on."""

    def __init__(self, lab, name):
        self.machine, self.n = Machine(lab, f"lan-{name}", attach=False), 0
        self.machine.run("ip", "link", "add", "br0", "type", "bridge")
        self.machine.run("ip", "link", "set", "br0", "up")

    def plug(self, machine, address):
        self.n += 1
        machine.link("lan0", self.machine, f"port{self.n}")
        self.machine.run("ip", "link", "set", f"port{self.n}", "master", "br0", "up")
        machine.run("ip", "addr", "add", f"{address}/24", "dev", "lan0")
        machine.run("ip", "link", "set", "lan0", "up")


class Site(tunnelkit.Site):
    def __init__(self, lab):
        self.lab = lab
        self.hub = Hub(lab, "--ingress.http", "192.0.2.1:10080", "--ingress.redirect", "{listen: '0.0.0.0:10260', ports: [10250]}",
                       "--ingress.dns", "edge.lab.test", "--ingress.dnsListen", "192.0.2.1:10053", "--ingress.nodeAddresses", "192.0.2.1",
                       "--ingress.udpIdle", "1s",
                       "--ingress.udp", f"[{{listen: '192.0.2.1:9161', node: edge-1, target: '{PRINTER}:9100'}},"
                       " {listen: '192.0.2.1:5300', node: plain-4, target: 10250}]", "--access",
                       "[{from: 192.0.2.1, to: ['*']}, {from: 192.0.2.21, to: ['plain-4:10250']},"
                       " {from: 192.0.2.22, to: ['edge-1', 'site/b/192.168.1.0/24', 'cloud/*', 'site/a/192.168.1.0/24:80']}]")
        self.hub.write("nodes.yaml", *map(self.node_object, SITES))
        self.lans = {name: Lan(lab, name) for name in "ab"}
        self.friend, self.stranger = Machine(lab, "friend", address="192.0.2.21"), Machine(lab, "stranger", address="192.0.2.22")
        self.nodes = [Node(lab, name, f"192.0.2.1{name[-1]}") for name in SITES if name != "plain-4"]
        self.plain, self.printer, self.other_printer = (Machine(lab, name, attach=False) for name in ("plain-4", "printer", "printer-b"))
        for m in (*self.nodes, self.plain):
            self.lans[SITES[m.name]].plug(m, LAN[m.name])
            self.backend(m, "kubelet", "--http", "10250", "--udp", "10250", "--tcp", "7000", "--stream", "7001")
        self.lans["a"].plug(self.printer, PRINTER)
        self.printer.run("ip", "addr", "add", f"{DENIED}/24", "dev", "lan0")
        self.lans["b"].plug(self.other_printer, PRINTER)
        for m in (self.printer, self.other_printer):
            self.backend(m, "jet", "--http", "9100", "--http", "80")
        self.backend(self.printer, "snmp", "--udp", "9100")
        self.backend(self.plain, "web", "--http", "30080")
        self.hub.write("pods.yaml", pod("web-4", ("plain-4", LAN["plain-4"]), "172.17.0.9", ("http", 8080, 30080), app="web"),
                       pod("lone-4", ("plain-4", LAN["plain-4"]), "172.17.0.10", ("http", 8080, 0)),
                       service("web", ("http", 80, "http")))
        self.agents = []
        for n in self.nodes:
            self.configure(n.name, REACH.get(n.name, []))
            self.agents.append(Agent(n, self.hub, "--config", self.config(n.name)))
        self.agent = {a.node.name: a for a in self.agents}
        self.wait_open()
        wait_for("declarations", lambda: all(self.said(name) for name in REACH))

    def node_object(self, name):
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"edgeway.io/site": SITES[name]}},
                "status": {"addresses": [{"type": "InternalIP", "address": LAN[name]}]}}

    def config(self, name):
        return os.path.join(self.lab.dir, f"{name}.yaml")

    def configure(self, name, reach):
        with open(self.config(name), "w") as f:
            json.dump({"tunnel": {"reach": reach, "allow": ["node", "node:7000-7001", "pods", "services", f"!{DENIED}/32"]}}, f)

    def reload(self, name, reach):
        self.configure(name, reach)
        self.agent[name].process.popen.send_signal(signal.SIGHUP)
        wait_for("declared anew", lambda: self.said(name, reach) and {w for w, via in self.declared() if via == name} == set(reach))

    def said(self, name, reach=None):
        """What the hub said to each entry of the node's; falsy until it has to all."""
        entries = {e["entry"]: e["problem"] or e["hub"] for e in self.agent[name].state()["tunnel"]["reach"]}
        if set(entries) != set(REACH[name] if reach is None else reach) or "has not answered" in entries.values():
            return None
        return entries or True

    def declared(self):
        return {(n["node"], n["via"]): n for n in json.loads(self.hub.ask("/tunnels")[1])["neighbours"]}

    def get(self, url, *options, machine=None, **more):
        return (machine or self.hub.machine).get(url, "-x", "http://192.0.2.1:10080", *options, **more)

    def at(self, node, target):
        return self.get("http://any.example/", "-H", f"X-Tunnel-Proxy-Host: {node}", "-H", f"X-Tunnel-Proxy-Dest: {target}")

    def log_since(self, daemon):
        at = len(daemon.process.log())
        return lambda: daemon.process.log()[at:]

    def cut(self, name):
        """Its agent is killed: no tunnel any more."""
        self.agent[name].process.kill()
        wait_for("tunnel gone", lambda: name not in tunnelkit.tunnels(self.hub))

    def back(self, name):
        self.agent[name].start()
        self.wait_open()
        if name in REACH:
            wait_for("declared", lambda: self.said(name))


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


class Counter:
    """Counts what leaves the site's neighbours towards an address and port."""

    def __init__(self, site, address, port):
        self.nodes = [n for n in site.nodes if n.name in REACH]
        for n in self.nodes:
            n.run("nft", "-f", "-", input=f"""table inet seen {{ counter out {{ }}
                chain out {{ type filter hook output priority -300; ip daddr {address} tcp dport {port} counter name out; }}
                }}""")

    def __enter__(self):
        return self

    def packets(self):
        return sum(int(n.run("nft", "list", "counter", "inet", "seen", "out").stdout.split("packets ")[1].split()[0])
                   for n in self.nodes)

    def __exit__(self, *exc):
        for n in self.nodes:
            n.run("nft", "delete", "table", "inet", "seen")


@pytest.mark.parametrize("way", [(), ("-p",)], ids=["request", "connect"])
@pytest.mark.parametrize("host", ["plain-4", LAN["plain-4"]])
def test_a_node_without_an_agent(site, host, way):
    assert site.get(f"http://{host}:10250/", *way) == (200, "plain-4.kubelet\n")


def test_both_ends_tell_whom_it_was_for(site):
    said, before = site.log_since(site.hub), {name: site.log_since(site.agent[name]) for name in REACH}
    carried = 'edgeway_hub_neighbour_streams_total{via="%s"}'
    counts = [site.hub.metrics().get(carried % name, 0) for name in REACH]
    assert site.get("http://plain-4:10250/")[0] == 200
    line = wait_for("audit", lambda: next((x for x in said().splitlines() if "for plain-4 via edge-" in x), None))
    via = line.split("for plain-4 via ")[1].split('"')[0]
    assert via in REACH and "192.168.1.14:10250 for" in line and "status=200" in line
    line = wait_for("its audit", lambda: next((x for x in before[via]().splitlines() if "stream ended" in x), None))
    assert "for=plain-4" in line and "kind=beside" in line and "to=192.168.1.14:10250" in line
    assert site.hub.process.logged("a node without a tunnel is reached through a neighbour node=plain-4")
    assert sum(site.hub.metrics().get(carried % name, 0) for name in REACH) == sum(counts) + 1


def test_datagrams_to_a_node_without_an_agent(site):
    before = {name: site.log_since(site.agent[name]) for name in REACH}
    with socket_in(site.hub.machine, socket.SOCK_DGRAM, "192.0.2.1", 5300) as s:
        s.send(b"x" * 1400)
        assert s.recv(65536) == b"plain-4.kubelet\n" + b"x" * 1400
    line = wait_for("its audit", lambda: next((x for name in REACH for x in before[name]().splitlines() if "flow ended" in x), None))
    assert "for=plain-4" in line and "kind=beside" in line and "to=192.168.1.14:10250" in line


def test_who_may_reach_the_node_may_through_a_neighbour(site):
    """And nothing else of what the neighbour reaches, nor what a right to the neighbour itself would open."""
    assert site.get("http://plain-4:10250/", machine=site.friend) == (200, "plain-4.kubelet\n")
    assert site.get("http://plain-4:10255/", machine=site.friend)[0] == 403
    assert site.get(f"http://{PRINTER}:9100/", machine=site.friend)[0] == 403
    for target in (f"{PRINTER}:9100", f"{LAN['plain-4']}:10250"):
        way = "-H", "X-Tunnel-Proxy-Host: edge-1", "-H", f"X-Tunnel-Proxy-Dest: {target}"
        assert site.get("http://any.example/", *way, machine=site.stranger)[0] == 403
        assert site.get("http://any.example/", *way)[0] == 200


def test_a_machine_that_is_known_by_its_address_alone(site):
    assert site.get(f"http://{PRINTER}:9100/") == (200, "printer.jet\n")
    status, why = site.get(f"http://{PRINTER}:80/")
    assert status == 503 and "opens this port" in why
    assert site.get(f"http://{PRINTER}:9100/", machine=site.stranger)[0] == 403
    assert site.get("http://192.168.1.200:9100/", machine=site.friend)[0] == 403  # nobody's: the hub would dial it


def test_a_service_at_a_port_of_the_host(site):
    assert site.get("http://web.default/") == (200, "plain-4.web\n")
    status, why = site.get("http://172.17.0.10:8080/")
    assert status == 503 and "plain-4 has no tunnel" in why and "only at a port of its host" in why


def test_names_and_addresses_lead_to_the_hub(site):
    """A program of the control plane that knows nothing of us dials the address; others ask for the name."""
    host = site.hub.machine
    host.run("ip", "route", "add", "192.168.1.0/24", "via", "192.0.2.250")
    try:
        wait_for("led", lambda: host.get(f"http://{LAN['plain-4']}:10250/", seconds=2) == (200, "plain-4.kubelet\n"))
    finally:
        host.run("ip", "route", "del", "192.168.1.0/24")
    assert host.dns("plain-4.edge.lab.test", "A", "-p", "10053", server="192.0.2.1")[1][0][4] == "192.0.2.1"


def test_datagrams(site):
    """A map of UDP to a machine beside a node: its ports are those of tunnel.reach, too."""
    said = site.log_since(site.agent["edge-1"])
    with socket_in(site.hub.machine, socket.SOCK_DGRAM, "192.0.2.1", 9161) as s:
        s.settimeout(PATIENCE_S)
        s.send(b"status?")
        assert s.recv(100) == b"printer.snmp\nstatus?"
    wait_for("audit", lambda: "flow ended" in said() and "for=* kind=beside to=192.168.1.50:9100" in said())


def test_the_own_tunnel_wins(site):
    """It is cut: the neighbour has the next request. It is back: it has the next, and what the neighbour carries goes on."""
    said = site.log_since(site.hub)
    assert site.get("http://edge-2:10250/") == (200, "edge-2.kubelet\n") and "edge-2:10250 via edge-2" in said()
    site.cut("edge-2")
    assert site.get("http://edge-2:10250/") == (200, "edge-2.kubelet\n")
    assert "for edge-2 via edge-" in said() and "through a neighbour node=edge-2" in said()
    assert "carried" in [n["state"] for (what, _), n in site.declared().items() if what == "edge-2"]
    status, why = site.get("http://edge-2:7001/")  # its own tunnel.allow opens this one, no neighbour's tunnel.reach
    assert status == 503 and "opens this port" in why
    with tunnelkit.connect(site.hub.machine, "edge-2:10250") as s:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        site.back("edge-2")
        wait_for("takes over", lambda: "own tunnel takes over; what its neighbour carries finishes node=edge-2" in said())
        after = site.log_since(site.hub)
        assert site.get("http://edge-2:10250/") == (200, "edge-2.kubelet\n") and "edge-2:10250 via edge-2" in after()
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        with s.makefile("rb") as answers:
            assert answers.read().count(b"edge-2.kubelet") == 2


def test_its_tunnel_breaks_while_it_is_asked(site):
    """The node dials in vain, and then it is gone: the neighbour has the same request."""
    agent, answers = site.agent["edge-2"], []
    agent.node.run("nft", "-f", "-", input="table inet hole { chain out { type filter hook output priority 0; oif lo tcp dport 10250 drop; }\n}")
    try:
        thread = threading.Thread(target=lambda: answers.append(site.get("http://edge-2:10250/", seconds=60)), daemon=True)
        thread.start()
        wait_for("the dial", lambda: agent.state()["tunnel"]["dialling"] == 1)
        site.cut("edge-2")
        thread.join(PATIENCE_S)
        assert answers == [(200, "edge-2.kubelet\n")]
    finally:
        agent.node.run("nft", "delete", "table", "inet", "hole")
        site.back("edge-2")


def test_a_neighbour_draws_nothing_of_a_node_with_a_tunnel(site):
    """The node itself says that nobody listens: no neighbour is asked to try."""
    with Counter(site, LAN["edge-2"], "{ 10250, 10255 }") as seen:
        status, why = site.get("http://edge-2:10255/")
        assert status == 502 and "at node edge-2" in why
        assert site.get("http://edge-2:10250/")[0] == 200 and site.get(f"http://{LAN['edge-2']}:10250/")[0] == 200
        assert site.at("edge-1", f"{LAN['edge-2']}:10250") == (200, "edge-2.kubelet\n")  # also when asked for as edge-1 sees it
        assert seen.packets() == 0


def test_the_next_neighbour(site):
    """One is killed; another one's way is blocked: the request finds the one that is left."""
    for name in REACH:
        site.cut(name)
        assert site.get("http://plain-4:10250/") == (200, "plain-4.kubelet\n")
        assert site.get(f"http://{PRINTER}:9100/") == (200, "printer.jet\n")
        site.back(name)
        node = site.agent[name].node
        node.run("nft", "-f", "-", input=f"""table inet wall {{ chain out {{ type filter hook output priority 0;
            ip daddr {LAN['plain-4']} reject; }}
            }}""")
        try:
            for _ in range(3):
                assert site.get("http://plain-4:10250/") == (200, "plain-4.kubelet\n")
        finally:
            node.run("nft", "delete", "table", "inet", "wall")


def test_denied_puts_no_packet_on_the_site(site):
    with Counter(site, DENIED, 9100) as seen:
        status, why = site.get(f"http://{DENIED}:9100/")
        assert status == 403 and "tunnel.allow denies" in why
        assert site.at("edge-1", f"{DENIED}:9100")[0] == 403
        for target in (f"{PRINTER}:80", "192.168.1.200:9100", "169.254.169.254:80"):
            assert site.at("edge-1", target)[0] in (403, 404)
        assert seen.packets() == 0
        assert site.agent["edge-1"].node.get(f"http://{DENIED}:9100/")[0] == 200 and seen.packets() > 0


def test_a_node_of_another_site_is_refused(site):
    """Both ends say so, and nothing goes that way."""
    assert site.said("edge-1")["edge-5"] == "that node is of another site"
    assert site.declared()["edge-5", "edge-1"]["state"] == "refused"
    assert "entry=edge-5 reason=\"that node is of another site\"" in site.agent["edge-1"].process.log()
    site.cut("edge-5")
    try:
        with Counter(site, LAN["edge-5"], 10250) as seen:
            assert site.get("http://edge-5:10250/")[0] == 503 and seen.packets() == 0
    finally:
        site.back("edge-5")


def test_an_address_of_two_sites(site):
    """421 with the candidates; a node's view tells them apart. The declarations come and go with SIGHUP, and no stream breaks."""
    with tunnelkit.connect(site.hub.machine, "edge-5:7000") as s:
        assert s.recv(100) == b"edge-5.kubelet\n"
        site.reload("edge-5", [PRINTERS])
        try:
            status, why = site.get(f"http://{PRINTER}:9100/")
            assert status == 421 and " a (by node edge-1)" in why and " b (by node edge-5)" in why
            assert site.at("edge-1", f"{PRINTER}:9100") == (200, "printer.jet\n")
            assert site.at("edge-5", f"{PRINTER}:9100") == (200, "printer-b.jet\n")
        finally:
            site.reload("edge-5", [])
        assert site.get(f"http://{PRINTER}:9100/") == (200, "printer.jet\n")
        s.sendall(b"x")
        assert s.recv(100) == b"x"
    assert not [key for key in site.declared() if key[1] == "edge-5"]


def test_a_node_that_moves_is_told_so(site):
    """Its Node says another site: the hub asks again, and answers otherwise."""
    others = [site.node_object(name) for name in SITES if name != "edge-2"]
    moved = site.node_object("edge-2")
    moved["metadata"]["labels"]["edgeway.io/site"] = "b"
    site.hub.write("nodes.yaml", *others, moved)
    wait_for("refused", lambda: (site.said("edge-3") or {}).get("edge-2") == "that node is of another site")
    site.hub.write("nodes.yaml", *map(site.node_object, SITES))
    wait_for("accepted", lambda: all((site.said(name) or {}).get("edge-2") == "accepted" for name in REACH))


def test_it_is_shown(site):
    ctl = site.lab.program("edgewayctl")
    table = site.hub.machine.run(ctl, "--socket", site.hub.socket, "tunnels").stdout
    rows = {tuple(line.split()[:2]): line for line in table.splitlines() if line}
    assert "has its own tunnel" in rows["edge-2", "edge-1"] and "refused" in rows["edge-5", "edge-1"]
    assert any("carried" in rows["plain-4" + ports, via] for ports, via in (("", "edge-1"), (":10250-10260", "edge-3")))
    said = site.agent["edge-1"].node.run(ctl, "--socket", site.agent["edge-1"].socket, "status", check=False).stdout
    assert f"{PRINTERS} (hub: accepted)" in said and "edge-5 (hub: refused)" in said and "that node is of another site" in said
    assert site.hub.metrics()['edgeway_hub_neighbour_entries{state="accepted"}'] == 6
    assert site.agent["edge-1"].metrics()['edgeway_tunnel_reach_entries{hub="refused"}'] == 1


@pytest.mark.parametrize("entry,why", [("0.0.0.0/0", "too wide"), ("8.8.8.0/24", "private"), ("edge-2:0", "PORT"), ("Edge_2", "letters"),
                                       ("127.0.0.0/24", "private"), ("169.254.169.254", "private"), ("192.168.1.0/33", "expected")])
def test_what_cannot_be(site, entry, why):
    path = os.path.join(site.lab.dir, "bad.yaml")
    with open(path, "w") as f:
        f.write(f"tunnel:\n  reach:\n  - edge-2\n  - \"{entry}\"\n")
    status, said = Agent(site.nodes[0], start=False, token="").attempt("--config", path, "--check")
    assert status == 2 and f"{path}:2" in said and "tunnel.reach" in said and entry in said and why in said
