"""TCP through the kernel where asked for, ClusterIPs, other bridges, draining, and others who touch the table."""
import collections
import json
import os
import re
import signal
import subprocess
import time

import pytest

from lab import HERE, PATIENCE_S, BARE_PYTHON, Agent, Hub, Lab, Machine, Node, Pod, pod, service, upstream, wait_for

pytestmark = pytest.mark.plain_build  # what the kernel does with the table; test_kernel_attacks makes the same

DOMAIN = "default.svc.cluster.local"
KERNEL = {"edgeway.io/datapath": "kernel"}
EVERYONE = {"edge-1.a", "edge-1.b", "edge-2.c"}
PORT = 7000


class World:
    def __init__(self, lab):
        self.lab = lab
        self.dns = upstream(lab)
        self.hub = Hub(lab)
        self.near, self.far = Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")
        self.near.run("ip", "route", "add", "default", "via", "192.0.2.1")  # towards ClusterIPs, as any node has it
        self.objects, self.pods, self.backends = {}, {}, {}
        for name, node, host_port in (("a", self.near, 0), ("b", self.near, 0), ("c", self.far, 30090)):
            p = self.pods[name] = node.pod(name)
            self.serve(name)
            if host_port:
                node.publish(host_port, p, 9090)
                node.publish(host_port + 1, p, 8080)
                node.publish(host_port, p, 5000, "udp")
            self.objects[name] = pod(name, node, p.address, ("tcp-echo", 9090, host_port),
                                     ("http", 8080, host_port and host_port + 1), app="echo")
            udp = pod(name, node, p.address, ("echo", 5000, host_port), app="echo", protocol="UDP")
            self.objects[name]["spec"]["containers"][0]["ports"] += udp["spec"]["containers"][0]["ports"]
        self.objects["a"]["metadata"]["labels"]["only"] = "a"
        self.show("a", "b", "c")
        self.hub.write("services.yaml",
                       service("echo", ("tcp-echo", PORT, "tcp-echo"), ("http", 80, "http"), annotations=KERNEL),
                       service("only-a", ("tcp-echo", PORT, "tcp-echo"), annotations=KERNEL),
                       service("relayed", ("tcp-echo", PORT, "tcp-echo"), selector="echo", clusterIP="10.96.0.20"),
                       service("direct", ("tcp-echo", PORT, "tcp-echo"), selector="echo", annotations=KERNEL,
                               clusterIP="10.96.0.21"),
                       service("datagrams", ("echo", PORT, "echo"), selector="echo", clusterIP="10.96.0.22", protocol="UDP"),
                       service("kubernetes", ("tcp-echo", PORT, "tcp-echo"), selector="echo", clusterIP="10.96.0.1"))
        self.select("only-a", {"only": "a"})
        self.agent = Agent(self.near, self.hub, "--mesh.interfaces", "br-*")
        self.client = self.near.pod("client")
        wait_for("services", lambda: self.kernel()["tcpPorts"] == 4 and self.kernel()["udpPorts"] == 2)

    def select(self, name, labels):
        path = os.path.join(self.hub.manifests, "services.yaml")
        with open(path) as f:
            objects = [json.loads(text) for text in f.read().split("---\n")]
        next(o for o in objects if o["metadata"]["name"] == name)["spec"]["selector"] = labels
        self.hub.write("services.yaml", *objects)

    def serve(self, name):
        self.backends[name] = self.pods[name].serve("--tcp", "9090", "--http", "8080", "--udp", "5000")

    def show(self, *names):
        self.hub.write("pods.yaml", json.dumps({"apiVersion": "v1", "kind": "List",
                                                "items": [self.objects[n] for n in names]}))

    def kernel(self):
        return self.agent.state()["iptables"]["kernel"]

    def address(self, name):
        return self.near.address_of(f"{name}.{DOMAIN}", f"@{self.near.gateway}")

    def names(self, machine, address, count, port=PORT):
        """Who answered how often over TCP, each on a connection of its own."""
        script = ("import socket, sys\n"
                  "for _ in range(int(sys.argv[3])):\n"
                  "    try:\n"
                  "        s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 30)\n"
                  "        s.sendall(b'ping')\n"
                  "        data = b''\n"
                  "        while not data.endswith(b'ping'):\n"
                  "            data += s.recv(99) or 1 / 0\n"
                  "        print(data.split(b'\\n')[0].decode())\n"
                  "        s.close()\n"
                  "    except Exception as e:\n"
                  "        print(type(e).__name__)\n")
        return collections.Counter(machine.run(*BARE_PYTHON, "-c", script, address, port, count, seconds=60).stdout.split())

    def hairpins(self):
        """Are all ports of the bridge in that mode, or need they not be?"""
        asks = self.near.run("sysctl", "-n", "net.bridge.bridge-nf-call-iptables", check=False).stdout.strip() == "1"
        return not asks or "hairpin off" not in self.near.run("bridge", "-d", "link", "show").stdout

    def datagrams(self, machine, address, count, port=PORT):
        p = machine.run(*BARE_PYTHON, os.path.join(HERE, "udpsend.py"), address, port, count)
        return {line.split()[0] for line in p.stdout.splitlines()}


class Frozen:
    """The agent does nothing meanwhile: what works is the kernel's."""

    def __init__(self, agent):
        self.process = agent.process.popen

    def __enter__(self):
        self.process.send_signal(signal.SIGSTOP)

    def __exit__(self, *exc):
        self.process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        made = World(lab)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")
        print(made.near.run("nft", "list", "map", "ip", "edgeway", "endpoints", check=False).stdout)


def test_no_agent_in_the_path(world):
    """Pod and host to pods of this bridge and of another node, without the agent."""
    address = world.address("echo")
    with Frozen(world.agent):
        for machine in (world.client, world.near):
            assert set(world.names(machine, address, 60)) == EVERYONE


def test_pod_to_itself_on_a_bridge_that_asks_iptables(world):
    """The kernel would drop such a packet: the port must be in hairpin mode, and is left as it was at the end."""
    if world.near.run("sysctl", "-n", "net.bridge.bridge-nf-call-iptables", check=False).stdout.strip() != "1":
        pytest.skip("bridges do not ask iptables here")
    only = world.address("only-a")
    for machine in (world.pods["a"], world.pods["b"], world.near):
        assert world.names(machine, only, 4) == {"edge-1.a": 4}
    late = world.near.pod("late")  # its port comes while the agent runs
    link = ["bridge", "-d", "link", "show", "dev", f"veth{late.address.rsplit('.', 1)[1]}"]
    wait_for("hairpin mode", lambda: "hairpin on" in world.near.run(*link).stdout)


def test_the_next_agent_puts_back_what_the_first_has_changed(world):
    """At the end: the last test of this file stops it."""
    def hairpins():
        return world.agent.metrics()["edgeway_iptables_hairpin_ports"]
    first, n = world.agent, hairpins()
    taken = first.process.log().count("has taken over")
    world.agent = Agent(world.near, None, "--mesh.interfaces", "br-*", "--takeover", "true", token=first.token)
    wait_for("taken over", lambda: first.process.log().count("has taken over") > taken and hairpins() == n)
    assert first.process.stop() == 0 and hairpins() == n
    wait_for("hairpin mode", world.hairpins)


def test_all_five_ways_without_docker(world):
    """No masquerading of docker's, bridges that ask iptables and such that do not: pod to remote, host to remote, pod to itself, pod
    and host to a pod of the bridge."""
    world.near.run("nft", "flush", "chain", "ip", "lab", "post")
    everyone, only = world.address("echo"), world.address("only-a")
    for ask in ("1", "0"):
        world.near.run("sysctl", "-qw", f"net.bridge.bridge-nf-call-iptables={ask}", check=False)
        if ask == "1":
            wait_for("hairpin mode", world.hairpins)  # the agent looks now and then, and is frozen from here on
        with Frozen(world.agent):
            for machine in (world.client, world.near):
                assert set(world.names(machine, everyone, 60)) == EVERYONE
            for machine in (world.pods["a"], world.pods["b"], world.near):
                assert world.names(machine, only, 4) == {"edge-1.a": 4}


def test_http_stays_with_the_proxy(world):
    status, head = world.client.get(f"http://echo.{DOMAIN}/headers")
    assert status == 200 and "x-forwarded-for:" in head.lower()


def test_dead_endpoint_is_taken_out(world):
    address = world.address("echo")
    world.backends["b"].kill()
    wait_for("left out", lambda: world.kernel()["endpointsDead"] == 1)
    assert set(world.names(world.client, address, 60)) == EVERYONE - {"edge-1.b"}
    assert world.agent.process.logged("does not answer, left out endpoint=172.17.0.3:9090")
    assert world.agent.metrics()['edgeway_iptables_probed_endpoints{state="dead"}'] == 1
    world.serve("b")
    wait_for("back", lambda: set(world.names(world.client, address, 60)) == EVERYONE)


def test_all_dead_is_refused_by_them(world):
    """Never none at all: the last ones are kept, and say themselves that they are not there."""
    address = world.address("only-a")
    world.backends["a"].kill()
    wait_for("dead", lambda: world.kernel()["endpointsDead"] == 1)
    assert world.names(world.client, address, 2) == {"ConnectionRefusedError": 2}
    world.serve("a")
    wait_for("back", lambda: world.names(world.client, address, 2) == {"edge-1.a": 2})


def test_connection_outlives_its_endpoint(world):
    """A pod that is going away finishes its connections; new ones go elsewhere."""
    script = ("import socket, sys\n"
              "s = socket.create_connection((sys.argv[1], 7000), 60)\n"
              "print(s.recv(99).decode().strip(), flush=True)\n"
              "for line in sys.stdin:\n"
              "    s.sendall(b'x')\n"
              "    print(s.recv(1).decode(), flush=True)\n")
    address = world.address("echo")
    p = subprocess.Popen(world.client.argv(*BARE_PYTHON, "-c", script, address), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    mine = p.stdout.readline().strip()
    world.show(*[n for n in "abc" if not mine.endswith(n)])
    try:
        wait_for("gone", lambda: set(world.names(world.client, address, 40)) == EVERYONE - {mine})
        p.stdin.write("\n")
        p.stdin.flush()
        assert p.stdout.readline().strip() == "x"
    finally:
        p.stdin.close()
        p.wait(PATIENCE_S)
        world.show("a", "b", "c")
    wait_for("back", lambda: set(world.names(world.client, address, 40)) == EVERYONE)


def test_cluster_ips_are_caught(world):
    """By the listener, by the kernel, over UDP; from pods and from the host."""
    wait_for("ClusterIPs", lambda: world.kernel()["clusterIPs"] == 3)
    assert world.kernel()["clusterIPsServedBy"] == "edgeway"
    for machine in (world.client, world.near):
        for address in ("10.96.0.20", "10.96.0.21"):
            assert set(world.names(machine, address, 60)) == EVERYONE
        assert world.datagrams(machine, "10.96.0.22", 60) == EVERYONE
    with Frozen(world.agent):
        assert set(world.names(world.client, "10.96.0.21", 60)) == EVERYONE
    assert set(world.names(world.client, "10.96.0.21", 2, port=7999)) <= {"ConnectionRefusedError",
                                                                          "ConnectionResetError", "ZeroDivisionError"}
    assert "ConnectionRefusedError" in world.client.run(
        *BARE_PYTHON, os.path.join(HERE, "udpsend.py"), "10.96.0.22", "7999", "2").stdout


def test_the_apiserver_is_left_alone(world):
    assert "10.96.0.1" not in world.near.run("nft", "list", "set", "ip", "edgeway", "clusterips").stdout.replace(
        "10.96.0.1,", "10.96.0.1 ").split()
    assert world.address("kubernetes").startswith("9.251.")  # its fake IP works like any other


def test_nft_reads_what_it_prints(world):
    """An operator may save the ruleset and load it again: no word that nft does not know, and the same table after it."""
    printed = world.near.run("nft", "-s", "list", "table", "ip", "edgeway").stdout
    assert "invalid" not in printed and "unknown" not in printed
    assert f"{world.address('only-a')} . tcp . {PORT} : 172.17.0.2 . 9090" in printed
    world.near.run("nft", "-c", "-f", "-", input=printed)
    elsewhere = Machine(world.lab, "elsewhere", attach=False)
    elsewhere.run("nft", "-f", "-", input=printed)
    again = elsewhere.run("nft", "-s", "list", "table", "ip", "edgeway").stdout
    again = re.sub(r"tcp dport \. jhash ip saddr \. tcp sport", "th dport . jhash ip saddr . th sport", again)  # nft 1.0.6's own
    assert sorted(again.split()) == sorted(printed.split())
    world.near.run("nft", "-j", "list", "table", "ip", "edgeway")


def others(world, *command, undo):
    """Somebody else serves ClusterIPs, then no more."""
    world.near.run(*command)
    try:
        wait_for("left to others", lambda: world.kernel()["clusterIPs"] == 0)
        who = world.kernel()["clusterIPsServedBy"]
        assert who not in ("", "edgeway")
        assert world.agent.process.logged(f'another program serves ClusterIPs and NodePorts found="{who}"')
        ctl = world.near.run(world.lab.program("edgewayctl"), "--socket", world.agent.socket, "status").stdout
        assert f"served by {who}" in ctl
        assert "10.96" not in world.near.run("nft", "list", "set", "ip", "edgeway", "clusterips").stdout
    finally:
        world.near.run(*undo)
    wait_for("ours again", lambda: world.kernel()["clusterIPs"] == 3)
    assert world.kernel()["clusterIPsServedBy"] in ("", "edgeway")
    assert world.agent.process.logged("no other program serves ClusterIPs and NodePorts any more")


def test_kube_proxy_over_nftables(world):
    others(world, "nft", "add table ip nat; add chain ip nat KUBE-SERVICES", undo=("nft", "delete", "table", "ip", "nat"))
    others(world, "nft", "add table ip kube-proxy; add chain ip kube-proxy services",
           undo=("nft", "delete", "table", "ip", "kube-proxy"))


def test_kube_proxy_over_legacy_iptables(world):
    if world.near.run("iptables-legacy", "-t", "nat", "-L", check=False).returncode != 0:
        pytest.skip("no iptables-legacy here")
    others(world, "iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES",
           undo=("iptables-legacy", "-t", "nat", "-X", "KUBE-SERVICES"))


def test_kube_proxy_over_nft_iptables(world):
    if world.near.run("iptables-nft", "-t", "nat", "-L", check=False).returncode != 0:
        pytest.skip("no iptables-nft here")
    others(world, "iptables-nft", "-t", "nat", "-N", "KUBE-SERVICES", undo=("iptables-nft", "-t", "nat", "-X", "KUBE-SERVICES"))


@pytest.mark.parametrize("interface", ["kube-ipvs0", "cilium_host"])
def test_interfaces_of_others(world, interface):
    others(world, "ip", "link", "add", interface, "type", "bridge", undo=("ip", "link", "del", interface))


def test_clients_of_a_cluster_ip_follow_whoever_serves_it(world):
    """A UDP client that keeps its port and a TCP connection, while kube-proxy comes and goes: the one is translated by whom it is
    up to now, the other one is finished where it began."""
    script = ("import socket, sys\n"
              "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              "u.settimeout(5)\n"
              "t = socket.create_connection(('10.96.0.20', 7000), 60)\n"
              "name = b''\n"
              "while not name.endswith(b'\\n'):\n"
              "    name += t.recv(1)\n"
              "for line in sys.stdin:\n"
              "    t.sendall(b'x')\n"
              "    said = [t.recv(1).decode()]\n"
              "    try:\n"
              "        u.sendto(b'x', ('10.96.0.22', 7000))\n"
              "        said.append(u.recv(99).split(b'\\n')[0].decode())\n"
              "    except OSError as e:\n"
              "        said.append(type(e).__name__)\n"
              "    print(*said, flush=True)\n")
    p = subprocess.Popen(world.client.argv(*BARE_PYTHON, "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask():
        p.stdin.write("\n")
        p.stdin.flush()
        tcp, udp = p.stdout.readline().split()
        assert tcp == "x"
        return udp
    try:
        assert ask() in EVERYONE
        world.near.run("nft", "-f", "-", input="""
            table ip nat {
                chain KUBE-SERVICES { ip daddr 10.96.0.22 udp dport 7000 dnat to 172.17.0.3:5000; }
                chain pre { type nat hook prerouting priority -100; jump KUBE-SERVICES; }
            }""")
        wait_for("left to others", lambda: world.kernel()["clusterIPs"] == 0)
        wait_for("translated by them", lambda: {ask() for _ in range(6)} == {"edge-1.b"})
        world.near.run("nft", "delete", "table", "ip", "nat")
        wait_for("ours again", lambda: world.kernel()["clusterIPs"] == 3)
        wait_for("translated by us", lambda: ask() in EVERYONE)
    finally:
        p.stdin.close()
        p.wait(PATIENCE_S)


def test_pod_of_a_network_of_its_own(world):
    """br-*, as docker names the bridges of user-defined networks."""
    node = world.near
    node.run("ip", "link", "add", "br-user", "type", "bridge")
    node.run("ip", "addr", "add", "172.18.0.1/16", "dev", "br-user")
    node.run("ip", "link", "set", "br-user", "up")
    node.bridge, node.gateway = "br-user", "172.18.0.1"
    try:
        user = Pod(node, "user", "172.18.0.201")
    finally:
        node.bridge, node.gateway = Node.bridge, Node.gateway
    assert set(world.names(user, world.address("echo"), 60)) == EVERYONE
    assert set(world.names(user, world.address("relayed"), 60)) == EVERYONE
    assert world.datagrams(user, world.address("datagrams"), 60) == EVERYONE
    with open(user.resolv_conf, "w") as f:
        f.write("nameserver 192.0.2.53\n")
    assert user.getent(f"echo.{DOMAIN}") == world.address("echo")  # captured there as well


def test_what_began_without_the_table_is_translated_after_all(world):
    """A SYN or a datagram that came in between has a flow of its own without NAT, which each further one would keep."""
    connect = ("import socket, sys\n"
               "print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 60).recv(99).decode())\n")
    send = ("import socket, sys, time\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.settimeout(1)\n"
            "for _ in range(60):\n"
            "    try:\n"
            "        s.sendto(b'x', (sys.argv[1], int(sys.argv[2])))\n"
            "        print(s.recv(99).decode())\n"
            "        break\n"
            "    except OSError:\n"
            "        time.sleep(0.2)\n")
    clients = []
    addresses = {name: world.address(name) for name in ("relayed", "direct", "datagrams")}
    with Frozen(world.agent):
        world.near.run("nft", "delete", "table", "ip", "edgeway")
        for script, name in ((connect, "relayed"), (connect, "direct"), (send, "datagrams")):
            clients.append(subprocess.Popen(world.client.argv(*BARE_PYTHON, "-c", script, addresses[name], PORT),
                                            stdout=subprocess.PIPE, text=True))
        time.sleep(0.5)
    for client in clients:
        assert client.communicate(timeout=PATIENCE_S)[0].startswith("edge-")


def test_flushed_ruleset_is_put_back(world):
    """Each time, once for each time; how soon bench/bench_kernel.py tells."""
    def repairs():
        return world.agent.metrics()["edgeway_iptables_repairs_total"]
    before = repairs()
    for i in range(1, 6):
        world.near.run("nft", "flush", "ruleset")
        wait_for("the table", lambda: "dnat to" in world.near.run("nft", "list", "chain", "ip", "edgeway", "proxy", check=False).stdout)
        wait_for("it is counted", lambda i=i: repairs() == before + i)
    assert world.agent.process.logged("somebody changed our table, put back at once by=\"nft")
    assert set(world.names(world.client, world.address("echo"), 40)) == EVERYONE
    world.near.run("nft", "-f", "-", input="""
        table ip lab {
            chain pre { type nat hook prerouting priority -100; }
        }""")


HALF_A_REQUEST = """import socket, sys
s = socket.create_connection((sys.argv[1], 80), 60)
s.sendall(b"POST / HTTP/1.1\\r\\nHost: echo\\r\\nContent-Length: 4\\r\\n\\r\\nab")
print("begun", flush=True)
sys.stdin.readline()
s.sendall(b"cd")
got = b""
while not got.endswith(b"abcd"):
    got += s.recv(4096) or sys.exit("ended")
print(got[-4:].decode())
"""


def test_drain(world):
    """At the end: what is in progress is finished, who comes new is refused and waits for nothing."""
    address = world.address("echo")
    slow = subprocess.Popen(world.client.argv(*BARE_PYTHON, "-c", HALF_A_REQUEST, address), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert slow.stdout.readline() == "begun\n"
    wait_for("in progress", lambda: any(e["in_flight"] for g in world.agent.state()["lb"]["endpoints"] for e in g["endpoints"]))
    world.agent.process.popen.send_signal(signal.SIGTERM)
    wait_for("no way to the listener", lambda: "dnat to 172.17.0.1:40001" not in world.near.table())
    assert world.near.table() != ""
    assert world.names(world.client, address, 1, port=80) == {"ConnectionRefusedError": 1}
    assert slow.communicate("\n", timeout=PATIENCE_S)[0] == "abcd\n"
    assert world.agent.process.wait() == 0
    assert world.near.table() == "" and world.near.route() == ""
    assert "hairpin on" not in world.near.run("bridge", "-d", "link", "show").stdout


def test_by_configuration(world):
    """mesh.datapath: kernel for every service that says nothing, ClusterIPs never; strangers' tables are as they were."""
    before = world.near.run("nft", "list", "ruleset").stdout
    world.agent.start("--mesh.datapath", "kernel", "--mesh.catchClusterIPs", "false")
    wait_for("services", lambda: world.kernel()["tcpPorts"] == 5)
    assert world.kernel()["clusterIPs"] == 0
    address = world.address("relayed")
    with Frozen(world.agent):
        assert set(world.names(world.client, address, 60)) == EVERYONE
    assert world.agent.stop() == 0
    assert world.near.run("nft", "list", "ruleset").stdout == before


def test_all_cluster_ips_where_configured(world):
    """Whoever writes `true` means default/kubernetes as well, and does not ask who else is there."""
    world.near.run("nft", "add table ip kube-proxy; add chain ip kube-proxy services")
    world.agent.start("--mesh.catchClusterIPs", "true")
    wait_for("ClusterIPs", lambda: world.kernel()["clusterIPs"] == 4)
    assert set(world.names(world.client, "10.96.0.1", 60)) == EVERYONE
    assert world.agent.stop() == 0
