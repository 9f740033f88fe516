"""ingress.redirect: programs of a control-plane host, and of pods behind it, that dial the addresses of nodes as if they were there. In
this network the node's address is a stranger's, so that each answer tells which way was gone.
"""
import os
import resource
import shlex
import signal

import pytest

import lab as labs
import replicas
import tunnelkit
from dnskit import socket_in
from ingress_town import start_kubelet
from lab import NOBODY, BARE_PYTHON, Agent, Hub, Lab, Machine, Node, wait_for
from pki import Authority
from thief import THIEF

EDGE, SHARED, PUBLIC, POD = "192.168.1.11", "192.168.1.99", "192.0.2.12", "10.244.0.2"
EDGE6, POD6 = "fd00:1::11", "fd00:244::2"
OTHERS = "table ip others { chain post { type nat hook postrouting priority 100; ip saddr 10.9.0.0/16 masquerade; }; }"
REDIRECT = "{listen: '0.0.0.0:10260', ports: [10250, 10255]}"
RULES = """access: [{from: local, to: ['*']}, {from: 10.244.0.0/24, to: ['edge-*:10250']}, {from: 'fd00:244::/64', to: ['edge-*:10250']}]
"""


def node(name, *addresses, **labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"addresses": [{"type": "InternalIP", "address": a} for a in addresses]}}


def bracketed(address):
    return f"[{address}]" if ":" in address else address


class Plane:
    """A control-plane host with the hub and a bridge of pods; a node at the edge, whose address is a stranger's in this network."""

    def __init__(self, lab):
        self.lab = lab
        self.config = os.path.join(lab.dir, "hub.yaml")
        self.write(None)
        self.hub = Hub(lab, "--config", self.config, "--ingress.http", "127.0.0.1:10080")
        self.host = self.hub.machine
        self.host.run("ip", "route", "add", "192.168.0.0/16", "via", "192.0.2.254")
        self.host.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.host.run("ip", "link", "add", "cni0", "type", "bridge")
        self.host.run("ip", "addr", "add", "10.244.0.1/24", "dev", "cni0")
        self.host.run("ip", "link", "set", "cni0", "up")
        self.pod = Machine(lab, "prometheus", attach=False)
        self.pod.link("eth0", self.host, "veth2")
        self.host.run("ip", "link", "set", "veth2", "master", "cni0", "up")
        self.pod.run("ip", "addr", "add", f"{POD}/24", "dev", "eth0")
        self.pod.run("ip", "link", "set", "eth0", "up")
        self.pod.run("ip", "route", "add", "default", "via", "10.244.0.1")
        self.ipv6()
        self.host.run("nft", "-f", "-", input=OTHERS)
        self.without = self.ruleset()
        self.kubelets = Authority(lab.dir)
        self.caller = self.kubelets.issue("kube-apiserver-kubelet-client", "extendedKeyUsage=clientAuth")
        self.edge = Node(lab, "edge-1", "192.0.2.11")
        self.serve(self.edge)
        for kind, port in (("--tcp", "9100"), ("--stream", "9101")):
            self.backend(self.edge, kind, port)
        self.agent = Agent(self.edge, self.hub, "--tunnel.allow", "node,node:9100-9102")
        self.public = Machine(lab, "edge-2", address=PUBLIC)
        self.serve(self.public)
        self.stranger = Machine(lab, "stranger", address="192.0.2.254")
        for address in (EDGE, SHARED):
            self.stranger.run("ip", "addr", "add", f"{address}/32", "dev", "lo")
        self.stranger.run("ip", "addr", "add", "fd00:2::254/64", "dev", "eth0", "nodad")
        self.stranger.run("ip", "addr", "add", f"{EDGE6}/128", "dev", "lo", "nodad")
        self.backend(self.stranger, "--http", "10255", "--bind", "::")
        self.nodes()
        wait_for("tunnel", lambda: self.agent.state()["tunnel"]["state"] == "open")

    def ipv6(self):
        """Beside IPv4 and the same in it."""
        self.host.run("ip", "addr", "add", "fd00:2::1/64", "dev", "eth0", "nodad")
        self.host.run("ip", "addr", "add", "fd00:244::1/64", "dev", "cni0", "nodad")
        self.host.run("ip", "route", "add", "fd00:1::/64", "via", "fd00:2::254")
        self.host.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        self.pod.run("ip", "addr", "add", f"{POD6}/64", "dev", "eth0", "nodad")
        self.pod.run("ip", "route", "add", "default", "via", "fd00:244::1")

    def nodes(self, *more):
        self.hub.write("nodes.yaml", node("edge-1", EDGE, SHARED, EDGE6, "fe80::11"), node("spare", SHARED),
                       node("edge-2", PUBLIC, **{"edgeway.io/public": "true"}), node("cloud", "192.0.2.1"), *more)

    def serve(self, machine):
        start_kubelet(machine, machine.name, self.kubelets)
        self.backend(machine, "--http", "10255")

    def backend(self, machine, kind, port, *more):
        p = machine.start(f"backend{port}{''.join(more)}", *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", machine.name, *more,
                          kind, port)
        wait_for("backend", lambda: "serving" in p.log())

    def write(self, redirect):
        with open(self.config, "w") as f:
            f.write(RULES + (f"ingress:\n  redirect: {redirect}\n" if redirect else ""))

    def reload(self, redirect, result="adopted"):
        self.write(redirect)
        name = f'edgeway_hub_reloads_total{{result="{result}"}}'
        before = self.hub.metrics()[name]
        self.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: self.hub.metrics()[name] == before + 1)

    def start(self, redirect):
        self.write(redirect)
        self.hub.start()
        if redirect:
            self.wait_set(EDGE)
        wait_for("tunnel", lambda: self.hub.metrics()["edgeway_tunnel_nodes"] == 1)

    def on(self):
        """The hub runs with the usual redirect."""
        if self.hub.process.alive() and self.table():
            return
        if self.hub.process.alive():
            self.hub.process.stop()
        self.start(REDIRECT)

    def ruleset(self):
        return self.host.run("nft", "list", "ruleset").stdout

    def table(self, *families):
        return "".join(self.host.run("nft", "list", "table", f, "edgeway-hub", check=False).stdout for f in families or ("ip", "ip6"))

    def set_of(self, name, family="ip"):
        return self.host.run("nft", "list", "set", family, "edgeway-hub", name, check=False).stdout

    def wait_set(self, *addresses):
        wait_for(f"elements {addresses}", lambda: all(a in self.set_of("addresses") for a in addresses) and EDGE6 in self.set_of("addresses", "ip6"))

    def state(self):
        return self.hub.state()["hub"]["redirect"]

    def kubelet(self, machine, address=EDGE, name="edge-1", path="", seconds=30):
        return machine.get(f"https://{name}:10250/{path}", "--resolve", f"{name}:10250:{bracketed(address)}", "--cacert", self.kubelets.cert,
                           "--cert", self.caller[0], "--key", self.caller[1],
                           seconds=seconds)

    def both_arrive(self):
        wait_for("both arrive", lambda: self.state()["probe"] == "arrives" and self.state()["problem"] == "")
        for edge in (EDGE, EDGE6):
            assert self.host.get(f"http://{bracketed(edge)}:10255/") == (200, "edge-1\n")

    def led(self):
        return self.hub.state()["hub"]["redirect"]["connections"]

    def audit(self, at):
        """Lines of the audit since `at`."""
        return [line for line in self.hub.process.log()[at:].splitlines() if "door=ingress.redirect" in line]

    def wait_audit(self, at, *texts):
        """The line of the audit since `at` that has all these; a stream that ended before may yet come."""
        wait_for(f"audit {texts}", lambda: any(all(t in line for t in texts) for line in self.audit(at)))

    def at(self):
        return len(self.hub.process.log())


@pytest.fixture(scope="module")
def plane():
    with Lab() as lab:
        made = Plane(lab)
        yield made
        print(f"--- log of the hub\n{made.hub.process.log()[-6000:]}\n--- log of the agent\n{made.agent.process.log()[-3000:]}")


def is_reset(machine, address, port):
    """Is the connection broken off, and not ended in good order?"""
    try:
        with socket_in(machine, labs.socket.SOCK_STREAM, address, port) as s:
            return s.recv(100) is None
    except ConnectionResetError:
        return True


@pytest.fixture
def on(plane):
    """The redirect, and afterwards nothing is left of what was led through it."""
    plane.on()
    assert plane.host.get("http://192.0.2.254:10255/", "-x", "http://127.0.0.1:10080") == (200, "stranger\n")
    before, pid = tunnelkit.descriptors(plane.hub), plane.hub.process.pid
    yield plane
    if plane.hub.process.alive() and plane.hub.process.pid == pid:
        wait_for("quiet", lambda: plane.hub.metrics()["edgeway_ingress_connections"] == 0
                 and plane.hub.metrics()["edgeway_ingress_pending"] == 0)
        wait_for("descriptors as before", lambda: not tunnelkit.descriptors(plane.hub) - before)


def test_a_hub_that_has_given_up_its_rights_says_so(plane):
    """Without the configuration there is no rule and no right; SIGHUP then cannot bring either, and changes nothing."""
    at = plane.at()
    plane.reload(REDIRECT, "refused")
    assert "needs CAP_NET_ADMIN" not in plane.hub.process.log()[:at]
    assert "CAP_NET_ADMIN: start the hub with it" in plane.hub.process.log()[at:]
    assert plane.ruleset() == plane.without and plane.hub.state()["hub"]["redirect"] is None
    assert plane.host.get(f"http://{EDGE}:10255/") == (200, "stranger\n")
    assert ":10260" not in plane.host.run("ss", "-Hltn").stdout


@pytest.mark.parametrize("edge, host", [(EDGE, "192.0.2.1"), (EDGE6, "fd00:2::1")])
def test_programs_of_the_host_reach_the_kubelet(on, edge, host):
    at, led = on.at(), on.led()
    assert on.kubelet(on.host, edge) == (200, "edge-1 peer=kube-apiserver-kubelet-client sni=edge-1\n")
    assert on.host.get(f"http://{bracketed(edge)}:10255/") == (200, "edge-1\n")
    assert on.led() == led + 2
    wait_for("audit", lambda: len(on.audit(at)) == 2)
    assert "sent=0 " not in "".join(on.audit(at))
    for port in (10250, 10255):
        on.wait_audit(at, f"caller={bracketed(host)}:", f'target="edge-1:{port} via edge-1"', "status=200")
    assert len(on.kubelet(on.host, edge, path="bytes/5000000")[1]) == 5000000


@pytest.mark.parametrize("edge, pod", [(EDGE, POD), (EDGE6, POD6)])
def test_pods_of_the_host_do_what_the_rules_say(on, edge, pod):
    assert on.kubelet(on.pod, edge) == (200, "edge-1 peer=kube-apiserver-kubelet-client sni=edge-1\n")
    at = on.at()
    assert is_reset(on.pod, edge, 10255)
    on.wait_audit(at, f"caller={bracketed(pod)}:", f'target="{bracketed(edge)}:10255"', "status=403")


def test_what_others_can_dial_is_left_alone(on):
    """A node that is declared public is dialled as ever; its sets have neither it, nor this host, nor what two nodes have."""
    led = on.led()
    assert on.kubelet(on.host, PUBLIC, "edge-2")[1].startswith("edge-2 ")
    assert on.host.get(f"http://{SHARED}:10255/") == (200, "stranger\n")
    assert on.led() == led
    elements = on.set_of("addresses")
    assert EDGE in elements and not any(a in elements for a in (PUBLIC, SHARED, "192.0.2.1"))
    state = on.state()
    assert state["addresses"] == 2 and state["addresses6"] == 1 and state["installed"] and state["installed6"]
    assert state["pods"] and state["ports"] == [10250, 10255] and on.hub.metrics()["edgeway_redirect_addresses"] == 2
    assert state["leftOut"] == {"direct": 1, "notAtEdge": 2, "ambiguous": 1, "own": 0, "ipv4": 0, "ipv6": 0, "unfit": 1}
    assert state["ambiguous"] == f"{SHARED} of edge-1" and on.hub.process.logged(f'addresses="{SHARED} of edge-1"')


def test_nodes_come_and_go(on):
    try:
        on.nodes(node("edge-7", "192.168.1.17"))
        on.hub.token("--node", "edge-7")
        wait_for("counted", lambda: on.state()["leftOut"]["notAtEdge"] == 3)
        assert "192.168.1.17" not in on.set_of("addresses")  # it has not joined
        on.hub.write("nodes.yaml", node("edge-1", "192.168.1.12"))
        wait_for("the other address", lambda: "192.168.1.12" in on.set_of("addresses") and EDGE not in on.set_of("addresses"))
        assert on.host.get("http://192.168.1.12:10255/") == (200, "edge-1\n")
        on.hub.write("nodes.yaml", node("edge-1", EDGE, **{"edgeway.io/public": "true"}))
        wait_for("no element", lambda: on.state()["addresses"] == 0
                 and "elements" not in on.set_of("addresses") + on.set_of("addresses", "ip6"))
        assert on.host.get(f"http://{EDGE}:10255/") == (200, "stranger\n")
    finally:
        on.nodes()
    on.wait_set(EDGE)


def test_the_listener_itself_is_nobodys(on):
    at, strangers = on.at(), on.hub.state()["hub"]["redirect"]["strangers"]
    for machine, address in ((on.host, "127.0.0.1"), (on.host, "192.0.2.1"), (on.edge, "192.0.2.1"), (on.host, "::1"), (on.pod, "fd00:2::1")):
        with socket_in(machine, labs.socket.SOCK_STREAM, address, 10260) as s:
            assert s.recv(100) == b""
    assert on.hub.state()["hub"]["redirect"]["strangers"] == strangers + 5
    assert "not to be dialled itself" in on.hub.process.log()[at:]


def test_ports_and_listener_change_at_run_time(on):
    pid = on.hub.process.pid
    on.reload("{listen: '192.0.2.1:10261', ports: [10255, 9100-9102]}")
    try:
        assert "9100, 9101, 9102, 10255" in " ".join(on.set_of("ports").split())
        listeners = on.host.run("ss", "-Hltn").stdout
        assert ":10261" in listeners and ":10260" not in listeners
        with socket_in(on.host, labs.socket.SOCK_STREAM, EDGE, 9100) as s:  # the server speaks first
            assert s.recv(100) == b"edge-1\n"
            s.sendall(b"and it echoes")
            assert s.recv(100) == b"and it echoes"
        assert is_reset(on.pod, EDGE, 9100)
        with socket_in(on.host, labs.socket.SOCK_STREAM, EDGE, 9101) as s:  # a half-close comes through
            s.sendall(b"up\n" + b"x" * 100000)
            s.shutdown(labs.socket.SHUT_WR)
            answer = b""
            while data := s.recv(1000):
                answer += data
        assert len(answer) == 32
        at = on.at()
        assert is_reset(on.host, EDGE, 9102)  # nobody serves it there
        on.wait_audit(at, "edge-1:9102", "status=502")
        before = on.table()
        on.reload("{listen: '192.0.2.77:10261'}", "refused")  # no address of this host
        on.reload("{listen: '192.0.2.1:10261', ports: [7-3]}", "refused")
        assert on.table() == before and ":10261" in on.host.run("ss", "-Hltn").stdout
        on.reload("{listen: '0.0.0.0:10261'}")  # the same port at another address
        assert on.host.get(f"http://{EDGE}:10255/") == (200, "edge-1\n")
        on.reload("{listen: '192.0.2.77:10261'}", "refused")
        on.both_arrive()
        for listen, pods in (("[::]:10261", (EDGE, EDGE6)), ("[::1]:10261", ()), ("[fd00:2::1]:10261", (EDGE6,)), ("127.0.0.1:10261", ())):
            on.reload(f"{{listen: '{listen}'}}")
            on.both_arrive()
            for edge in (EDGE, EDGE6):
                assert on.kubelet(on.pod, edge, seconds=30 if edge in pods else 1)[0] == (200 if edge in pods else 0)
        on.reload(None)
        assert on.table() == "" and on.ruleset() == on.without and on.hub.state()["hub"]["redirect"] is None
        assert ":1026" not in on.host.run("ss", "-Hltn").stdout
    finally:
        on.reload(REDIRECT)
    on.wait_set(EDGE)
    assert on.kubelet(on.host)[0] == 200 and on.hub.process.pid == pid


@pytest.mark.parametrize("harm", [("flush", "ruleset"), ("delete", "table", "ip", "edgeway-hub"),
                                  ("flush", "set", "ip", "edgeway-hub", "addresses"), ("delete", "table", "ip6", "edgeway-hub"),
                                  ("flush", "set", "ip6", "edgeway-hub", "addresses")], ids=lambda h: h[0] + h[1] + "".join(h[2:3]))
def test_rules_are_put_back(on, harm):
    before, repairs = on.table(), on.state()["repairs"]
    on.host.run("nft", *harm)
    wait_for("put back", lambda: on.table() == before and on.state()["repairs"] > repairs)
    if harm[1] == "ruleset":
        on.host.run("nft", "-f", "-", input=OTHERS)
    assert on.kubelet(on.host)[0] == on.kubelet(on.host, EDGE6)[0] == 200


def test_a_family_that_cannot_be_had(on):
    """A program has the port in IPv6, which alone is not redirected then, until it has ended."""
    thief = on.host.start("thief6", *NOBODY, *BARE_PYTHON, "-c", THIEF, "::1", "10263")
    wait_for("port taken", lambda: thief.log() == "bound\n")
    try:
        on.reload("{listen: '127.0.0.1:10263'}")
        wait_for("told", lambda: "IPv6 addresses of nodes are not redirected: cannot bind [::1]:10263" in on.state()["problem"])
        assert on.state()["leftOut"]["ipv6"] == 1 and on.state()["addresses"] == 1
        assert on.host.get(f"http://{EDGE}:10255/") == (200, "edge-1\n")
        assert on.host.get(f"http://{bracketed(EDGE6)}:10255/") == (200, "stranger\n")
        thief.kill()
        on.both_arrive()
        assert on.state()["leftOut"]["ipv6"] == 0
    finally:
        thief.kill()
        on.reload(REDIRECT)
    on.wait_set(EDGE)


def test_a_late_successor_ends_and_the_first_goes_on(on):
    """The next hub has the listener as well, and does not serve in its time: its source cannot be read. It leaves the rules as they are."""
    one, before, led = on.hub.process, on.table(), on.led()
    config = os.path.join(on.lab.dir, "nowhere.yaml")
    with open(config, "w") as f:
        f.write("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
                "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n")
    two = on.host.start("next", on.lab.program("edgeway-hub"), "--config", on.config, "--takeover", "true", "--listen", f"{on.hub.address}:10000",
                        "--source.kubernetes.kubeconfig", config, "--dataDir", os.path.join(on.host.dir, "data"), "--admin.listen", "",
                        "--admin.socket", on.hub.socket, "--ingress.http", "127.0.0.1:10080")
    assert two.wait() == 1 and two.logged("came too late, the hub before goes on"), two.log()
    assert one.logged("did not take over, this one goes on: it did not serve in time")
    wait_for("rules", lambda: on.table() == before and on.state()["problem"] == "")
    assert on.kubelet(on.host)[0] == 200 and on.led() == led + 1
    assert one.alive()


def test_rules_that_cannot_be_had_again_at_once(on):
    """No descriptor is left when a next hub has not come: the hub goes on without the rules, says so, and has them as soon as it can."""
    one, limit, at = on.hub.process, resource.prlimit(on.hub.process.pid, resource.RLIMIT_NOFILE), on.at()
    with labs.socket.socket(labs.socket.AF_UNIX) as s:
        s.settimeout(labs.PATIENCE_S)
        s.connect(on.hub.socket)
        s.sendall(b"POST /takeover HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        for fd in labs.socket.recv_fds(s, 256, 250)[1]:
            os.close(fd)
        resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
    try:
        wait_for("told", lambda: "ingress: ingress.redirect: " in one.log()[at:])
        assert "did not take over, this one goes on: it has ended" in one.log()[at:]
    finally:
        resource.prlimit(one.pid, resource.RLIMIT_NOFILE, limit)
    wait_for("had again", lambda: "no longer so: ingress.redirect: " in one.log()[at:])
    wait_for("well", lambda: on.state()["problem"] == "")
    assert on.kubelet(on.host)[0] == 200 and one.alive()


def test_what_keeps_connections_away_is_found(on):
    """No route, then rules of others that come first: both are told, with their remedy, and so is the end of it."""
    ctl = [on.lab.program("edgewayctl"), "--socket", on.hub.socket]
    wait_for("arrives", lambda: on.state()["probe"] == "arrives" and on.state()["problem"] == "")
    on.host.run("ip", "route", "del", "192.168.0.0/16")
    wait_for("no route", lambda: "no route" in on.state()["problem"])
    doctor = on.host.run(*ctl, "doctor", check=False)
    assert doctor.returncode == 1 and "no route to a node's address" in doctor.stdout
    on.host.run("nft", "-f", "-", input="table ip early { chain out { type nat hook output priority -150; "
                f"ip daddr {EDGE} dnat to 192.0.2.254; }}; }}")
    on.host.run("nft", "-f", "-", input="table ip6 early6 { chain out { type nat hook output priority -150; "
                f"ip6 daddr {EDGE6} dnat to fd00:2::254; }}; }}")
    on.host.run("ip", "route", "add", "192.168.0.0/16", "via", "192.0.2.254")
    wait_for("lost", lambda: "early out (output, priority -150)" in on.state()["problem"])
    assert "early out" in on.host.run(*ctl, "status", check=False).stdout
    on.host.run("nft", "delete", "table", "ip", "early")
    on.host.run("ip", "route", "add", "192.168.6.0/24", "via", "192.0.2.254")
    wait_for("lost in IPv6", lambda: "IPv6 address does not arrive" in on.state()["problem"] and "early6 out (output" in on.state()["problem"])
    on.host.run("nft", "delete", "table", "ip6", "early6")
    on.host.run("ip", "route", "add", "192.168.7.0/24", "via", "192.0.2.254")  # a change of the network: it is tried again
    wait_for("arrives", lambda: on.state()["probe"] == "arrives" and on.state()["problem"] == "")
    for net in ("192.168.6.0/24", "192.168.7.0/24"):
        on.host.run("ip", "route", "del", net)
    status = on.host.run(*ctl, "status").stdout
    assert "2 addresses (1 IPv6) at ports 10250, 10255" in status and on.hub.metrics()["edgeway_redirect_arrives"] == 1


def test_the_hubs_own_dials_go_their_own_way(on):
    """A Service whose endpoint is the node's bare address is the hub's to dial: it finds whoever has the address in the hub's own
    network, and not its own listener, by which the caller would come in as a program of this host."""
    on.hub.write("bare.yaml", labs.service("bare", ("http", 80, 10255)),
                 labs.endpoint_slice("bare-1", "bare", 10255, EDGE, port_name="http"))
    try:
        wait_for("service", lambda: on.hub.state()["hub"]["services"])
        led = on.led()
        assert on.host.get("http://bare.default/", "-x", "http://127.0.0.1:10080") == (200, "stranger\n")
        assert on.led() == led
    finally:
        on.hub.delete("bare.yaml")
    assert on.host.get(f"http://{EDGE}:10255/") == (200, "edge-1\n")


def test_an_agent_of_the_same_host(on):
    """Two tables side by side; each daemon mends and removes its own."""
    on.host.run("ip", "link", "add", "docker0", "type", "bridge")
    on.host.run("ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
    on.host.run("ip", "link", "set", "docker0", "up")
    agent = Agent(on.host, on.hub, start=False)
    agent.data = os.path.join(on.host.dir, "agent")
    agent.start()
    try:
        wait_for("the agent's", lambda: "table ip edgeway {" in on.ruleset())
        assert on.kubelet(on.host)[0] == 200 and on.kubelet(on.pod)[0] == 200
        wait_for("at the edge, but here", lambda: on.state()["leftOut"]["own"] == 1)
        assert "192.0.2.1" not in on.set_of("addresses")
        on.host.run("nft", "flush", "ruleset")
        wait_for("both back", lambda: "table ip edgeway {" in on.ruleset() and EDGE in on.set_of("addresses"))
        on.host.run("nft", "-f", "-", input=OTHERS)
        assert on.kubelet(on.host)[0] == 200
    finally:
        agent.stop()
        on.host.run("ip", "link", "del", "docker0")
    assert "table ip edgeway {" not in on.ruleset() and EDGE in on.set_of("addresses")
    assert on.kubelet(on.host)[0] == 200


def test_without_the_right_it_does_not_start(plane):
    plane.hub.process.stop()
    plane.write(REDIRECT)
    argv = [plane.lab.program("edgeway-hub"), "--listen", "192.0.2.1:10000", "--source.manifests", plane.hub.manifests, "--dataDir",
            os.path.join(plane.lab.dir, "other"), "--admin.socket", "", "--admin.listen", "", "--config", plane.config]
    p = plane.host.run("capsh", "--drop=cap_net_admin", "--", "-c", shlex.join(argv), check=False)
    assert p.returncode == 1 and "ingress.redirect: the kernel's rules need CAP_NET_ADMIN" in p.stderr
    assert plane.ruleset() == plane.without
    plane.on()


def test_a_killed_hub_leaves_nothing_to_the_next(on):
    before = on.table()
    thief = on.host.start("thief", *NOBODY, *BARE_PYTHON, "-c", THIEF, "::", "10260")  # and in IPv4
    on.hub.process.kill()
    assert on.table() == before  # nobody is there to take them away
    wait_for("an account without rights has the port", lambda: thief.log() == "bound\n")
    for machine in (on.host, on.pod):
        assert on.kubelet(machine)[0] == on.kubelet(machine, EDGE6)[0] == 0
    assert thief.log() == "bound\n"
    thief.kill()
    on.start(REDIRECT)
    assert on.table() == before and on.kubelet(on.host)[0] == on.kubelet(on.host, EDGE6)[0] == 200
    on.hub.process.kill()
    on.start(None)
    assert on.ruleset() == on.without and on.hub.process.logged("removed the rules that an earlier run had left")


def test_a_stop_removes_it_all_and_streams_end_first(on):
    """Ours are the only rules that translate: without a chain of theirs the kernel would translate what is under way no more."""
    on.host.run("nft", "delete", "table", "ip", "others")
    with socket_in(on.host, labs.socket.SOCK_STREAM, EDGE, 10255) as s:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        wait_for("under way", lambda: on.hub.metrics()["edgeway_tunnel_streams"] >= 1)
        on.hub.process.popen.send_signal(signal.SIGTERM)
        answer = b""
        while data := s.recv(1000):
            answer += data
    assert answer.endswith(b"edge-1\n")
    assert on.hub.process.wait() == 0
    assert on.ruleset() == ""


@pytest.fixture
def two():
    """Two hubs that know each other, each with a redirect of its own, and a node whose tunnel ends at the second."""
    with Lab() as lab:
        ca = Authority(lab.dir, "hubs")
        hubs = [replicas.start_hub(lab, ca, i, "--ingress.redirect", "{listen: '127.0.0.1:10260'}") for i in range(2)]
        replicas.name_hubs(hubs)
        replicas.know_each_other(hubs)
        yield hubs
        for p in lab.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def test_through_another_replica_and_through_a_neighbour(two):
    lab, beside = two[0].lab, "192.168.5.9"
    edge, plain = Node(lab, "edge-1", "192.0.2.11"), Machine(lab, "edge-2", address=PUBLIC)
    plain.run("ip", "addr", "add", f"{beside}/32", "dev", "lo")
    edge.run("ip", "route", "add", beside, "via", PUBLIC)
    for m in (edge, plain):
        p = m.start("backend", *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", m.name, "--http", "10255")
        wait_for("backend", lambda p=p: "serving" in p.log())
    for h in two:
        h.machine.run("ip", "route", "add", "192.168.0.0/16", "via", "192.0.2.254")
        h.write("nodes.yaml", node("edge-1", EDGE), node("edge-2", beside))
    Agent(edge, two[1], "--hub.url", replicas.url(two[1]), "--tunnel.reach", "edge-2")
    for h in two:
        wait_for("redirected", lambda h=h: EDGE in h.machine.run("nft", "list", "table", "ip", "edgeway-hub").stdout)
        wait_for("the other replica knows of its tunnel", lambda h=h: h.machine.get(f"http://{EDGE}:10255/") == (200, "edge-1\n"))
    wait_for("the neighbour", lambda: two[1].state()["hub"]["redirect"]["addresses"] == 2)
    assert two[1].machine.get(f"http://{beside}:10255/") == (200, "edge-2\n")
