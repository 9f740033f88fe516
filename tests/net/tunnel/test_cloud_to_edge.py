"""From a client at the hub's ingress through the hub and the tunnel to what runs on a node: the node itself, its pods, services. Both
nodes have the same private address, and so have their pods, as on sites that know nothing of each other.
"""
import hashlib
import os
import socket
import threading

import pytest

import tunnelkit
from dnskit import socket_in
from lab import Machine, pod, service, wait_for

as_before = tunnelkit.as_before
SAME = "192.168.1.20"


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, "--ingress.http", "192.0.2.1:10080", "--ingress.tcp",
                         "[{listen: '192.0.2.1:7001', node: edge-2, target: 7000}, {listen: '192.0.2.1:7002', service: 'echo.default:7000'}]",
                         "--access", "[{from: 192.0.2.1, to: ['*']}, {from: 192.0.2.21, to: ['default/*', 'edge-1:10250']}]")
        self.pods = []
        for node in self.nodes:
            node.run("ip", "link", "add", "lan0", "type", "bridge")
            node.run("ip", "addr", "add", f"{SAME}/24", "dev", "lan0")
            node.run("ip", "link", "set", "lan0", "up")
            self.backend(node, "kubelet", "--http", "10250", "--bind", "127.0.0.1")
            self.backend(node, "printer", "--http", "7000", "--bind", SAME)
            p = node.pod("web")
            p.serve("--http", "8080", "--tcp", "9090")
            self.pods.append(p)
        self.lone = self.nodes[0].pod("lone")  # its address is no other's
        self.lone.serve("--http", "8080", "--tcp", "9090")
        self.friend = Machine(lab, "friend", address="192.0.2.21")
        self.publish()

    def publish(self):
        """Pods without a port on their host: from other machines they are reached through the tunnel alone."""
        ports = ("http", 8080, 0), ("echo", 9090, 0)
        self.hub.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n.name},
                                        "status": {"addresses": [{"type": "InternalIP", "address": SAME}]}} for n in self.nodes])
        self.hub.write("pods.yaml", pod("lone", self.nodes[0], self.lone.address, *ports), *[
            pod(f"web-{i}", n, p.address, *ports, app="web") for i, (n, p) in enumerate(zip(self.nodes, self.pods), 1)])
        self.hub.write("services.yaml", service("web", ("http", 80, "http")), service("echo", ("echo", 7000, 9090), selector="web"),
                       service("void", ("http", 80, 9999), selector="lone"))
        wait_for("services", lambda: all(a.state()["services"] == 3 for a in self.agents))

    def get(self, url, *options, machine=None, proxy=True, **more):
        way = ["-x", "http://192.0.2.1:10080"] if proxy else []
        return (machine or self.hub.machine).get(url, *way, *options, **more)

    def at(self, node, target):
        """What Yurt's headers ask for: an address as this node sees it."""
        return self.get("http://any.example/", "-H", f"X-Tunnel-Proxy-Host: {node}", "-H", f"X-Tunnel-Proxy-Dest: {target}")

    def log_since(self, daemon):
        at = len(daemon.process.log())
        return lambda: daemon.process.log()[at:]


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


@pytest.fixture(params=[(), ("-p",)], ids=["request", "connect"])
def way(request):
    return request.param


def test_a_listener_of_the_node(site, way):
    """One that listens on loopback alone, and one on an address that both nodes have: the name tells them apart."""
    for name in ("edge-1", "edge-2"):
        assert site.get(f"http://{name}:10250/", *way) == (200, f"{name}.kubelet\n")
        assert site.get(f"http://{name}:7000/", *way) == (200, f"{name}.printer\n")
    assert site.get("http://192.0.2.1:10080/", "-H", "Host: edge-2:10250", proxy=False) == (200, "edge-2.kubelet\n")


def test_a_pod_on_docker0(site, way):
    assert site.get(f"http://{site.lone.address}:8080/", *way) == (200, "edge-1.lone\n")


def test_a_service(site, way):
    """Endpoints on either node, each through its own node's tunnel."""
    seen = {site.get("http://web.default/", *way) for _ in range(10)}
    assert seen == {(200, "edge-1.web\n"), (200, "edge-2.web\n")}
    assert site.get("http://web.default.svc.cluster.local/", *way) in seen


def test_an_address_that_two_have(site, way):
    """421 with the candidates, and nobody is dialled; the node's name and Yurt's header say which one."""
    for host, port, names in ((SAME, 10250, ("node edge-1", "node edge-2")),
                              (site.pods[0].address, 8080, ("default/web-1 on edge-1", "default/web-2 on edge-2"))):
        assert site.pods[0].address == site.pods[1].address
        status, why = site.get(f"http://{host}:{port}/")
        assert status == 421 and all(n in why for n in names)
    for name in ("edge-1", "edge-2"):
        assert site.at(name, f"{site.pods[0].address}:8080") == (200, f"{name}.web\n")


def test_maps(site):
    assert site.hub.machine.get("http://192.0.2.1:7001/") == (200, "edge-2.printer\n")
    assert site.hub.machine.send("192.0.2.1", 7002, "hello") in ("edge-1.web\nhello", "edge-2.web\nhello")


def test_denied_puts_no_packet_on_the_edge(site):
    """Closed beyond tunnel.allow, whatever the hub's rules say: neither dialled on loopback nor anywhere else."""
    node = site.nodes[0]
    site.backend(node, "ssh", "--tcp", "22", "--tcp", "8200")
    node.run("nft", "-f", "-", input="""table inet seen { counter syn { }
        chain out { type filter hook output priority -300; tcp dport { 22, 8200 } tcp flags syn counter name syn; }
        chain in { type filter hook input priority -300; tcp dport { 22, 8200 } tcp flags syn counter name syn; }
        }""")
    try:
        for target in ("http://edge-1:22/", "http://edge-1:8200/"):
            status, why = site.get(target)
            assert status == 403 and "tunnel.allow" in why
        for target in ("192.168.1.99:80", "169.254.169.254:80"):  # a stranger of the site, a cloud's metadata
            assert site.at("edge-1", target)[0] in (403, 404)
        assert "packets 0 " in node.run("nft", "list", "counter", "inet", "seen", "syn").stdout
        assert node.send("127.0.0.1", 22, "x") == "edge-1.ssh\nx"
        assert "packets 0 " not in node.run("nft", "list", "counter", "inet", "seen", "syn").stdout
    finally:
        node.run("nft", "delete", "table", "inet", "seen")


def test_what_fails_is_told(site):
    assert site.get("http://edge-1:10255/")[0] == 502
    status, why = site.get("http://void.default/")
    assert status == 502 and "refused" in why.lower() and "edge-1" in why
    site.lone.run("ip", "link", "set", "eth0", "down")
    try:
        said = site.log_since(site.hub)
        status, why = site.get(f"http://{site.lone.address}:8080/", seconds=30)
        assert status in (502, 504), why  # the kernel knows within 3 s that nobody has the address
        assert "status=502" in said() or "status=504" in said()
    finally:
        site.lone.run("ip", "link", "set", "eth0", "up")
        site.lone.run("ip", "route", "add", "default", "via", site.nodes[0].gateway)


def test_a_target_that_is_silent_costs_5_s(site):
    site.nodes[0].run("nft", "-f", "-", input="""table inet hole { chain out {
        type filter hook output priority 0; tcp dport 7777 drop; }
        }""")
    try:
        status, why = site.get("http://edge-1:7777/", seconds=30)
        assert status == 504 and "no answer in time" in why
    finally:
        site.nodes[0].run("nft", "delete", "table", "inet", "hole")


def test_who_goes_away_during_the_dial_is_forgotten(site):
    """The dial on the edge ends with its caller, long before it would time out."""
    node, agent = site.nodes[0], site.agents[0]
    node.run("nft", "-f", "-", input="""table inet hole { chain out {
        type filter hook output priority 0; tcp dport 7777 drop; }
        }""")
    try:
        before = agent.metrics()
        for _ in range(20):
            s = socket_in(site.hub.machine, socket.SOCK_STREAM, "192.0.2.1", 10080)
            s.sendall(b"CONNECT edge-1:7777 HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_for("the dial", lambda: agent.state()["tunnel"]["dialling"] > 0)
            s.close()
            wait_for("its end", lambda: agent.state()["tunnel"]["dialling"] == 0)
        after = agent.metrics()
        for result, n in (("cancelled", 20), ("timeout", 0)):
            name = f'edgeway_tunnel_dials_total{{result="{result}"}}'
            assert after[name] - before[name] == n
    finally:
        node.run("nft", "delete", "table", "inet", "hole")


def test_no_tunnel_is_503_until_it_is_back(site):
    assert site.agents[1].stop() == 0
    status, why = site.get("http://edge-2:10250/")
    assert status == 503 and "edge-2" in why
    assert {site.get("http://web.default/") for _ in range(6)} == {(200, "edge-1.web\n")}  # what can be reached serves
    site.agents[1].start()
    site.wait_open("edge-2")
    assert site.get("http://edge-2:10250/") == (200, "edge-2.kubelet\n")


def test_the_hub_s_rules_come_first(site):
    assert site.get("http://edge-1:10250/", machine=site.friend) == (200, "edge-1.kubelet\n")
    said = site.log_since(site.agents[1])
    assert site.get("http://edge-2:10250/", machine=site.friend)[0] == 403
    assert "stream ended" not in said()


def test_both_ends_have_a_line_for_the_audit(site):
    hub, agent = site.log_since(site.hub), site.log_since(site.agents[0])
    assert site.get("http://edge-1:10250/", "-p", machine=site.friend)[0] == 200
    wait_for("lines", lambda: "stream ended" in agent() and "192.0.2.21" in hub())
    line = next(x for x in agent().splitlines() if "stream ended" in x)
    assert 'target="edge-1:10250"' in line and "to=127.0.0.1:10250" in line and "192.0.2.21" in line and "status=200" in line


@pytest.mark.parametrize("target", ["edge-1:7000", "web.default:80"])
def test_bodies_both_ways(site, target):
    path = os.path.join(site.lab.dir, "body")
    data = os.urandom(1 << 20) * 16
    with open(path, "wb") as f:
        f.write(data)
    p = site.hub.machine.run("sh", "-c", f"curl -sS -p -x http://192.0.2.1:10080 --data-binary @{path} http://{target}/ | sha256sum",
                             seconds=60)
    assert p.stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert site.get(f"http://{target}/bytes/30000000", seconds=60) == (200, "x" * 30000000)


@pytest.mark.parametrize("door", ["connect", "map"])
def test_half_close_is_carried(site, door):
    """Everything is sent, then the sender's half closes, and only then the answer's last byte comes: none is lost."""
    for size in (0, 1, 100000, 5000000):
        with tunnelkit.connect(site.hub.machine, "echo.default:7000") if door == "connect" else socket_in(
                site.hub.machine, socket.SOCK_STREAM, "192.0.2.1", 7002) as s:
            sent = os.urandom(size)

            def send():
                s.sendall(sent)
                s.shutdown(socket.SHUT_WR)
            thread = threading.Thread(target=send)
            thread.start()
            got = b""
            while chunk := s.recv(1 << 20):
                got += chunk
            thread.join()
        assert got[:7] == b"edge-" + got[5:6] + b"." and got.split(b"\n", 1)[1] == sent


def test_ssh(site):
    """As doc/getting-started.md has it: ssh to a node's name, and nc as its ProxyCommand."""
    node, folder = site.nodes[0], os.path.join(site.lab.dir, "ssh")
    os.makedirs(folder)
    for key in ("host", "user"):
        site.hub.machine.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}")
    with open(f"{folder}/sshd.conf", "w"):
        pass
    node.run("mkdir", "-p", "/run/sshd")
    sshd = node.start("sshd", "/usr/sbin/sshd", "-D", "-e", "-p", "7022", "-h", f"{folder}/host", "-f", f"{folder}/sshd.conf", "-o", "UsePAM=no", "-o",
                      "StrictModes=no", "-o", f"AuthorizedKeysFile={folder}/user.pub", "-o", "PermitRootLogin=yes", "-o", "PidFile=none")
    wait_for("sshd", lambda: "listening" in sshd.log())
    try:
        with open(os.path.join(folder, "data"), "wb") as f:
            f.write(os.urandom(3 << 20))
        shown = site.hub.machine.run("sh", "-c", f"""ssh -F none -p 7022 -i {folder}/user -o UserKnownHostsFile={folder}/known \
            -o StrictHostKeyChecking=no -o ProxyCommand='nc -X connect -x 192.0.2.1:10080 %h %p' root@edge-1 \
            'ip -o addr show eth0; sha256sum' <{folder}/data; sha256sum <{folder}/data""", seconds=60).stdout.splitlines()
        assert f"inet {node.address}/24" in shown[0] and shown[-1] == shown[-2]
    finally:
        sshd.stop()


def test_a_reset_is_a_reset(site):
    """A target that breaks off is not taken for one that has finished, nor a caller for one that has sent all."""
    s = tunnelkit.connect(site.hub.machine, "echo.default:7000")
    s.recv(100)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    said = [site.log_since(a) for a in site.agents]
    s.close()
    wait_for("the node knows", lambda: any("stream ended" in x() for x in said))
    assert not any('end="done"' in x() for x in said)
