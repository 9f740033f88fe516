"""mesh.subnet6: services by IPv6 from pods and host, by the proxy and by the kernel, and what is left behind."""
import ipaddress
import os
import signal
import time

import pytest

import lab as labs

RANGE, OWN = "fd09:251::/64", "fd09:251::1:0:1"
DOMAIN = "default.svc.cluster.local"
SERVER, SERVER6 = "192.0.2.50", "fd00:c0::50"


class DualPod(labs.Pod):
    def __init__(self, node, name, address):
        super().__init__(node, name, address)
        self.address6 = f"fd00:17::{address.rsplit('.', 1)[1]}"
        self.run("ip", "addr", "add", f"{self.address6}/64", "dev", "eth0", "nodad")
        self.run("ip", "route", "add", "default", "via", "fd00:17::1")


class DualNode(labs.Node):
    def add_bridge(self):
        super().add_bridge()
        self.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        self.run("ip", "addr", "add", "fd00:17::1/64", "dev", "docker0", "nodad")
        self.run("ip", "addr", "add", "fd00:c0::11/64", "dev", "eth0", "nodad")

    def pod(self, name):
        self.pods += 1
        return DualPod(self, name, f"172.17.0.{self.pods + 1}")

    def table6(self):
        return self.run("nft", "list", "table", "ip6", "edgeway", check=False).stdout

    def own_addresses(self):
        return self.run("ip", "-o", "-6", "addr", "show", "dev", "edgeway0", "scope", "global", check=False).stdout


def slices(service, port, v4=(), v6=(), protocol="TCP", name="it"):
    made = []
    for family, addresses in (("IPv4", v4), ("IPv6", v6)):
        one = labs.endpoint_slice(f"{service}-{family.lower()}", service, port, *addresses, port_name=name)
        one["addressType"], one["ports"][0]["protocol"] = family, protocol
        made.append(one)
    return [one for one in made if one["endpoints"]]


class World:
    def __init__(self, lab, *options):
        self.lab, self.hub = lab, labs.Hub(lab)
        self.server = labs.Machine(lab, "server", address=SERVER)
        self.server.run("ip", "addr", "add", f"{SERVER6}/64", "dev", "eth0", "nodad")
        for number, bind in enumerate(("0.0.0.0", "::")):
            self.server.start(f"backend{number}", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", f"v{4 + 2 * number}",
                              "--bind", bind, "--http", 8080 + number, "--tcp", 5000 + number, "--udp", 5000 + number)
        both = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}
        self.hub.write("services.yaml",
                       labs.service("web", ("http", 80, 8080), **both, clusterIPs=["10.96.0.7", "fd96::7"]),
                       *slices("web", 8080, [SERVER], name="http"),
                       labs.service("web6", ("http", 80, 8081), ipFamilies=["IPv6"]), *slices("web6", 8081, v6=[SERVER6], name="http"),
                       labs.service("relay", ("it", 7000, 5000), **both), *slices("relay", 5000, [SERVER]),
                       labs.service("echo", ("it", 7000, 5001), protocol="UDP", **both),
                       *slices("echo", 5001, v6=[SERVER6], protocol="UDP"),
                       labs.service("echo4", ("it", 7000, 5000), protocol="UDP", **both), *slices("echo4", 5000, [SERVER], protocol="UDP"),
                       labs.service("flow", ("it", 7000, 5001), annotations={"edgeway.io/datapath": "kernel"}, **both),
                       *slices("flow", 5001, v6=[SERVER6]))
        self.node = DualNode(lab, "edge-1", "192.0.2.11")
        self.agent = labs.Agent(self.node, self.hub, "--mesh.subnet6", RANGE, *options)
        self.pod = self.node.pod("client")
        labs.wait_for("the services", lambda: self.agent.state()["services"] == 6)

    def fake6(self, name):
        v4 = self.pod.address_of(f"{name}.{DOMAIN}")
        return str(ipaddress.IPv6Address(int(ipaddress.IPv6Network(RANGE)[0]) | int(ipaddress.IPv4Address(v4))))


@pytest.fixture(scope="module")
def world():
    with labs.Lab() as lab:
        made = World(lab)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-9000:]}")


def echo(machine, address, *options):
    return machine.run(*labs.BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), address, 7000, 3, *options).stdout.split()


def test_the_kernel_carries_udp(world):
    for machine in (world.pod, world.node):
        labs.wait_for("udp", lambda m=machine: echo(m, world.fake6("echo"))[:2] == ["v6", f"{world.fake6('echo')}:7000"])


def test_udp_that_ipv6_cannot_carry_is_called_by_ipv4(world):
    """The pod has a ULA, which libc prefers to IPv4."""
    name = f"echo4.{DOMAIN}"
    assert world.pod.dns(name, "AAAA")[:2] == ("NOERROR", [])
    for machine in (world.pod, world.node):
        labs.wait_for("udp", lambda m=machine: echo(m, name)[:2] == ["v4", f"{world.pod.address_of(name)}:7000"])
    world.hub.write("more.yaml", *slices("echo4", 5001, v6=[SERVER6], protocol="UDP"))
    labs.wait_for("AAAA", lambda: [a[4] for a in world.pod.dns(name, "AAAA")[1]] == [world.fake6("echo4")])
    world.hub.delete("more.yaml")
    labs.wait_for("no AAAA", lambda: world.pod.dns(name, "AAAA")[1] == [])


def test_the_kernel_carries_tcp_that_asks_for_it(world):
    assert world.pod.send(world.fake6("flow"), 7000, "hello").split() == ["v6", "hello"]
    assert world.agent.state()["iptables"]["kernel"]["tcpPorts"] == 1


def test_the_proxy_relays_tcp_to_the_other_family(world):
    for machine in (world.pod, world.node):
        assert machine.send(world.fake6("relay"), 7000, "hello").split() == ["v4", "hello"]


@pytest.mark.parametrize("name", ["web", "web6"])
def test_http_by_the_proxy(world, name):
    for machine in (world.pod, world.node):
        assert machine.get(f"http://[{world.fake6(name)}]/") == (200, "v4\n" if name == "web" else "v6\n")
        v4 = world.pod.address_of(f"{name}.{DOMAIN}")
        assert machine.get(f"http://{v4}/") == (200, "v4\n" if name == "web" else "v6\n")


def test_the_cluster_ip_is_caught(world):
    assert world.pod.get("http://[fd96::7]/") == (200, "v4\n")
    assert world.pod.get("http://10.96.0.7/") == (200, "v4\n")


def test_a_client_is_known_by_its_address(world):
    status, head = world.pod.get(f"http://[{world.fake6('web')}]/headers")
    assert status == 200 and f"X-Forwarded-For: {world.pod.address6}" in head


def test_what_no_service_has_is_refused_at_once(world):
    for port, address in ((81, world.fake6("web")), (80, "fd09:251::9fb:fffe"), (7001, world.fake6("echo"))):
        for machine in (world.pod, world.node):
            status, why = machine.get(f"http://[{address}]:{port}/", seconds=5)
            assert status == 0 and any(text in why for text in ("reset", "Couldn't connect", "not connected")), why


def test_names_have_both_addresses(world):
    for name in ("web", "web6", "echo"):
        answer = world.pod.dns(f"{name}.{DOMAIN}", "AAAA")
        assert answer[0] == "NOERROR" and [a[4] for a in answer[1]] == [world.fake6(name)]
    answer = world.pod.dns(ipaddress.ip_address(world.fake6("web")).reverse_pointer, "PTR")
    assert [a[4] for a in answer[1]] == [f"web.{DOMAIN}."]


def test_our_interface_has_the_address_and_the_route(world):
    assert f"{OWN}/64" in world.node.own_addresses()
    assert "dev edgeway0" in world.node.run("ip", "-6", "route", "get", world.fake6("web")).stdout


def ctl(world, *words):
    return world.node.run(world.lab.program("edgewayctl"), "--socket", world.agent.socket, *words, check=False).stdout


def test_the_tools_know_the_addresses(world):
    for name in ("web", "echo"):
        assert f" {world.fake6(name)} " in ctl(world, "services", f"default/{name}")
    said = ctl(world, "trace", f"http://[{world.fake6('web')}]/")
    assert "default/web" in said and "table ip6 edgeway: to the proxy" in said and f"{SERVER}:8080" in said, said
    said = ctl(world, "trace", f"udp://[{world.fake6('echo')}]:7000")
    assert "default/echo" in said and f"[{SERVER6}]:5001" in said, said
    said = ctl(world, "trace", "http://[fd09:251::9fb:fffe]/")
    assert "no service has now" in said, said


def test_rules_of_others_are_named(world):
    """Of IPv6 nothing is tried: what may drop it is told all the same."""
    world.node.run("nft", "add table ip6 wall; add chain ip6 wall in { type filter hook input priority 0; policy drop; }; add rule ip6 wall in accept; "
                          "add chain ip6 wall out { type filter hook forward priority 0; }; add rule ip6 wall out udp dport 9 drop; "
                          "add chain ip6 wall pre { type nat hook prerouting priority -150; }")
    said = ctl(world, "doctor")
    assert "IPv6 is not tried from here; what drops it: wall in (input); rules in wall out" in said, said
    assert "translate addresses before ours do: ip6 wall pre (prerouting, priority -150)" in said
    world.node.run("nft", "delete", "table", "ip6", "wall")
    assert "wall" not in ctl(world, "doctor")


def test_what_others_remove_comes_back(world):
    node = world.node
    node.run("nft", "delete", "table", "ip6", "edgeway")
    labs.wait_for("the table", lambda: "chain mesh" in node.table6())
    node.run("ip", "link", "del", "edgeway0")
    labs.wait_for("the interface", lambda: OWN in node.own_addresses())
    labs.wait_for("calls", lambda: world.pod.get(f"http://[{world.fake6('web')}]/") == (200, "v4\n"))
    labs.wait_for("udp", lambda: echo(world.pod, world.fake6("echo"))[:1] == ["v6"])


def test_nft_prints_what_it_reads(world):
    text = world.node.table6()
    assert "fd09:251::1:0:1" in text
    world.node.run("nft", "-c", "-f", "-", input=text)


def test_a_network_of_the_node_is_not_hidden(world):
    """IPv4 is served, and IPv6 as soon as it can be."""
    world.agent.stop()
    world.node.run("ip", "addr", "add", "fd09:251::5/64", "dev", "eth0", "nodad")
    world.agent.start()
    assert "mesh.subnet6 fd09:251::/64 holds fd09:251::5/64" in ctl(world, "status")
    assert world.node.own_addresses() == "" and world.node.table6() == ""
    assert world.pod.dns(f"web.{DOMAIN}", "AAAA")[1] == [] and world.pod.get(f"http://web.{DOMAIN}/") == (200, "v4\n")
    world.node.run("ip", "addr", "del", "fd09:251::5/64", "dev", "eth0")
    labs.wait_for("IPv6", lambda: world.pod.get(f"http://[{world.fake6('web')}]/") == (200, "v4\n"))
    labs.wait_for("names", lambda: world.pod.dns(f"web.{DOMAIN}", "AAAA")[1])
    assert "mesh.subnet6" not in ctl(world, "status")


def test_a_node_without_ipv6(world):
    world.agent.stop()
    world.node.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    world.agent.start()
    assert "disable_ipv6" in ctl(world, "status") and world.pod.get(f"http://web.{DOMAIN}/") == (200, "v4\n")
    # what it does to have the address is no reason to do it again
    heard = world.node.start("links", "ip", "-o", "monitor", "link")
    time.sleep(3)
    heard.stop()
    assert len(heard.log().splitlines()) < 20
    world.node.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.edgeway0.disable_ipv6=0")
    labs.wait_for("IPv6", lambda: world.pod.get(f"http://[{world.fake6('web')}]/") == (200, "v4\n"))


@pytest.mark.parametrize("way", ["address", "sysctl", "link"])
def test_what_begins_while_it_serves(world, way):
    """While the node has IPv6 switched off there is neither AAAA nor table; both come back."""
    node, name = world.node, f"web.{DOMAIN}"
    aaaa = lambda: bool(world.pod.dns(name, "AAAA")[1])  # noqa: E731
    assert aaaa()
    if way == "link":  # made anew, it gets the node's default
        node.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        node.run("ip", "link", "del", "edgeway0")
    elif way == "sysctl":
        node.run("sysctl", "-qw", "net.ipv6.conf.edgeway0.disable_ipv6=1")
    else:
        node.run("ip", "addr", "add", "fd09:251::5/64", "dev", "eth0", "nodad")
        node.run("ip", "addr", "del", f"{OWN}/64", "dev", "edgeway0")
    labs.wait_for("no AAAA", lambda: not aaaa())
    labs.wait_for("no table", lambda: node.table6() == "")
    assert "mesh.subnet6" in ctl(world, "status") and world.pod.get(f"http://{name}/") == (200, "v4\n")
    assert 'what="ipv6"' in labs.wait_for("the problem", lambda: (lambda m: 'what="ipv6"' in m and m)(world.agent.ask("/metrics")[1]))
    if way == "address":
        node.run("ip", "addr", "del", "fd09:251::5/64", "dev", "eth0")
    else:
        node.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.edgeway0.disable_ipv6=0")
    labs.wait_for("AAAA", aaaa)
    labs.wait_for("calls", lambda: world.pod.get(f"http://[{world.fake6('web')}]/") == (200, "v4\n"))
    labs.wait_for("udp", lambda: echo(world.pod, world.fake6("echo"))[:1] == ["v6"])


def test_nothing_is_left(world):
    world.agent.stop()
    assert world.node.table6() == "" and world.node.own_addresses() == "" and world.node.clean()
    world.agent.start()
    world.agent.process.popen.send_signal(signal.SIGKILL)
    world.agent.process.popen.wait(labs.PATIENCE_S)
    assert "chain mesh" in world.node.table6() and OWN in world.node.own_addresses()
    # the next one has it no more
    world.agent.start("--mesh.subnet6", "")
    assert world.node.table6() == "" and world.node.own_addresses() == ""
    world.agent.stop()
    assert world.node.clean()


def test_of_another_range_nothing_is_left(world):
    """Also where the interface itself stays, for its IPv4 address."""
    own = "--mesh.interface", "own"
    world.agent.start(*own)
    for options, addresses in ((("--mesh.subnet6", "fd77:1::/64"), ["fd77:1::1:0:1/64"]), (("--mesh.subnet6", ""), [])):
        world.agent.process.kill()
        world.agent.start(*own, *options)
        assert [line.split()[3] for line in world.node.own_addresses().splitlines()] == addresses
    world.agent.stop()
    assert world.node.clean()


def test_one_takes_over_while_dns_is_held(world):
    """The proxy listens by IPv6, DNS does not: there are fewer sockets to hand over."""
    world.agent.stop()
    holder = world.node.start("holder", *labs.BARE_PYTHON, "-c", f"""
import socket, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
s.bind(("::", 53))
print("holds", flush=True)
time.sleep(1000)""")
    assert holder.logged("holds")
    world.agent.start()
    assert "53" in world.agent.state()["error6"]
    before = world.agent
    world.agent = labs.Agent(world.node, None, "--takeover", "true", *before.options, token=before.token)
    assert world.agent.process.logged("has taken over")
    before.process.stop()
    assert world.pod.get("http://web/") == (200, "v4\n")
    holder.kill()
    labs.wait_for("AAAA", lambda: world.pod.dns(f"web.{DOMAIN}", "AAAA")[1])
    assert world.pod.get(f"http://[{world.fake6('web')}]/") == (200, "v4\n")
    world.agent.stop()
    assert world.node.clean()
