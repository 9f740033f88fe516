"""mesh.interface: auto and own: pods behind CNI's bridge, behind none, and on Docker's networks, with and without docker0."""
import contextlib
import json
import os
import re
import sqlite3

import pytest

import lab as labs

OWN, WEB = "169.254.96.16", "web.default.svc.cluster.local"
CLUSTER_DNS, DOOR = "10.96.0.10", labs.HUB_ADDRESS


class CniNode(labs.Node):
    """containerd with CNI's bridge plugin, no Docker."""
    bridge, gateway = "cni0", "10.244.1.1"

    def pod(self, name):
        self.pods += 1
        return labs.Pod(self, name, f"10.244.1.{self.pods + 1}")

    def routed_pod(self, name, address, host_side):
        """As Calico and the ptp plugin connect one: a pair of interfaces and a route, no bridge."""
        machine = labs.Machine(self.lab, f"{self.name}.{name}", attach=False)
        machine.link("eth0", self, host_side)
        self.run("ip", "link", "set", host_side, "up")
        self.run("ip", "addr", "add", "10.9.0.1/32", "dev", host_side)
        self.run("ip", "route", "add", address, "dev", host_side)
        machine.run("ip", "addr", "add", f"{address}/32", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")
        machine.run("ip", "route", "add", "10.9.0.1", "dev", "eth0")
        machine.run("ip", "route", "add", "default", "via", "10.9.0.1", "src", address)
        return machine

    def network(self, name, prefix):
        """A bridge with one machine behind it."""
        self.add_bridge_link(name, f"{prefix}.1", 24)
        machine = labs.Machine(self.lab, f"behind-{name}", attach=False)
        machine.link("eth0", self, f"to-{name[:12]}")
        self.run("ip", "link", "set", f"to-{name[:12]}", "master", name, "up")
        machine.run("ip", "addr", "add", f"{prefix}.2/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")
        machine.run("ip", "route", "add", "default", "via", f"{prefix}.1")
        return machine

    def links(self):
        return [line.split(":")[1].strip().split("@")[0] for line in self.run("ip", "-o", "link").stdout.splitlines()]

    def name_server(self):
        return next((line.split()[1] for line in self.resolv().decode().splitlines() if line.startswith("nameserver")), None)


class Next(labs.Agent):
    """It takes over from the one that runs."""

    def argv(self, *options):
        return super().argv("--takeover", "true", *options)


class Town:
    def __init__(self, lab, *options):
        self.lab, self.hub = lab, labs.Hub(lab, "--ingress.http", f"{DOOR}:10080", "--access", f"[{{from: {DOOR}, to: ['*']}}]")
        self.server = labs.Machine(lab, "server", address="192.0.2.50")
        self.server.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "server", "--http", "8080")
        dns = labs.service("kube-dns", ("dns", 53, 53), namespace="kube-system", protocol="UDP", clusterIP=CLUSTER_DNS)
        self.hub.write("web.yaml", labs.service("web", ("http", 80, 8080)), dns,
                       labs.endpoint_slice("web-1", "web", 8080, "192.0.2.50", port_name="http"))
        self.node = CniNode(lab, "edge-1", "192.0.2.11")
        self.options = options
        self.agent = labs.Agent(self.node, self.hub, *options)
        labs.wait_for("the services", lambda: self.agent.state()["services"] == 2)


@pytest.fixture()
def lab():
    with labs.Lab() as made:
        yield made


@pytest.fixture()
def town(lab):
    made = Town(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


def asks(machine, server, name=WEB):
    """The answer's first address; None when there was none."""
    answer = machine.dns(name, server=server)
    return answer[1][0][4] if answer and answer[1] else None


def is_served(machine, server):
    address = asks(machine, server)
    return address is not None and address.startswith("9.251.") and machine.get(f"http://{address}/")[0] == 200


def test_without_docker0_every_kind_of_pod_is_served(town):
    node = town.node
    assert node.name_server() == OWN
    # the ten seconds before it was made are no fault
    assert not re.search("problem has begun what=(agent|rules|resolv)", town.agent.process.log())
    assert OWN in node.run("ip", "addr", "show", "edgeway0").stdout
    assert is_served(node.pod("one"), OWN)
    assert is_served(node.routed_pod("two", "10.9.0.2", "veth1a2b3c4d"), OWN)
    assert is_served(node.routed_pod("three", "10.9.0.3", "cali0123456789a"), OWN)
    assert is_served(node, OWN)
    # a user network of Docker that comes later, and a bridge of the LAN, which is none
    guest = node.network("br-0123456789ab", "10.7.1")
    labs.wait_for("the new network", lambda: is_served(guest, OWN))
    assert "br-0123456789ab" in node.table()
    lan = node.network("br-lan", "10.7.2")
    assert asks(lan, OWN) is None
    assert "br-lan" not in node.table()
    node.run("ip", "link", "del", "br-0123456789ab")
    labs.wait_for("the network's rule gone", lambda: "br-0123456789ab" not in node.table())


def test_more_interfaces_than_anybody_counted_on(town):
    node = town.node
    names = [f"br-{i:012x}" for i in range(100)]
    node.run("ip", "-batch", "-", input="".join(f"link add {name} type bridge\n" for name in names))
    guest = node.network("br-ffffffffffff", "10.7.1")
    labs.wait_for("the last network", lambda: is_served(guest, OWN))
    assert all(name in node.table() for name in names)


def test_doctor_looks_at_the_pods_mtu(town):
    def mtu():
        p = town.node.run(town.lab.program("edgewayctl"), "--socket", town.agent.socket, "-o", "json", "doctor", check=False)
        return next((f["verdict"], f["found"]) for f in json.loads(p.stdout) if f["check"] == "MTU")

    town.node.pod("one")
    assert mtu() == ("ok", "cni0 1500, eth0 1500")
    town.node.run("ip", "link", "set", "edgeway0", "mtu", "9000")
    assert mtu() == ("ok", "cni0 1500, eth0 1500")
    town.node.routed_pod("two", "10.9.0.2", "veth1a2b3c4d")
    town.node.run("ip", "link", "set", "veth1a2b3c4d", "mtu", "1600")
    assert mtu() == ("note", "veth1a2b3c4d 1600, eth0 1500")


def test_docker0_comes_and_goes(town):
    node, pod = town.node, town.node.pod("one")
    assert is_served(pod, OWN)
    node.run("ip", "link", "add", "docker0", "type", "bridge")
    node.run("ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
    node.run("ip", "link", "set", "docker0", "up")
    labs.wait_for("docker0 as name server", lambda: node.name_server() == "172.17.0.1")
    labs.wait_for("our own interface gone", lambda: "edgeway0" not in node.links())
    assert town.agent.state()["iptables"]["interface"] == "docker0"
    labs.wait_for("containers with the former name server", lambda: is_served(pod, OWN))
    assert is_served(pod, "172.17.0.1")
    # also after a restart, by what is in the database
    town.agent.stop()
    town.agent.start()
    labs.wait_for("the former name server after a restart", lambda: is_served(pod, OWN))
    node.run("ip", "link", "del", "docker0")
    labs.wait_for("our own interface again", lambda: node.name_server() == OWN, 60)
    assert is_served(pod, OWN)
    labs.wait_for("the former one", lambda: is_served(pod, "172.17.0.1"))
    town.agent.stop()
    assert node.clean() and "edgeway0" not in node.links()


def test_own_interface_survives_kill_and_is_put_back(town):
    node, pod = town.node, town.node.pod("one")
    node.run("ip", "link", "del", "edgeway0")
    labs.wait_for("it is made again", lambda: "edgeway0" in node.links() and town.agent.ready())
    assert is_served(pod, OWN)
    town.agent.process.kill()
    assert "edgeway0" in node.links()
    town.agent.start()
    assert is_served(pod, OWN)
    town.agent.process.kill()
    assert town.agent.attempt("--restore")[0] == 0
    assert node.clean() and "edgeway0" not in node.links()


def test_own_beside_docker0(lab):
    node = labs.Node(lab, "edge-2", "192.0.2.12")
    hub = labs.Hub(lab)
    hub.write("web.yaml", labs.service("web", ("http", 80, 8080)))
    agent = labs.Agent(node, hub, "--mesh.interface", "own", "--mesh.address", "169.254.96.30")
    labs.wait_for("the service", lambda: agent.state()["services"] == 1)
    pod = node.pod("one")
    assert "169.254.96.30" in node.resolv().decode()
    assert asks(pod, "169.254.96.30").startswith("9.251.")
    assert agent.state()["iptables"]["interface"] == "edgeway0"


def test_cluster_dns_own_address(lab):
    town = Town(lab, "--dns.serveClusterDNS", "true")
    pod = town.node.pod("one")
    labs.wait_for("the cluster DNS' own address", lambda: is_served(pod, CLUSTER_DNS))
    town.agent.stop()
    assert asks(pod, CLUSTER_DNS) is None


def test_an_interface_of_somebody_else_stays(town):
    node = town.node
    town.agent.stop()
    node.run("ip", "link", "add", "edgeway0", "type", "bridge")
    node.run("ip", "addr", "add", "10.99.0.1/24", "dev", "edgeway0")
    town.agent.start(ready=False)
    labs.wait_for("the refusal", lambda: "that no agent has made" in town.agent.process.log())
    town.agent.stop()
    assert town.agent.attempt("--restore")[0] == 0
    assert "10.99.0.1/24" in node.run("ip", "addr", "show", "edgeway0").stdout


def test_what_another_configuration_left_goes(town):
    node = town.node
    town.agent.process.kill()
    town.agent.start("--mesh.interface", "own", "--mesh.address", "169.254.96.30")
    assert "169.254.96.16" not in node.run("ip", "addr", "show", "edgeway0").stdout
    assert is_served(node.pod("one"), "169.254.96.30")
    # also where the interface stays, for its IPv6 address
    for address, former in ("169.254.96.30", "169.254.96.16"), ("169.254.96.31", "169.254.96.30"):
        town.agent.process.kill()
        town.agent.start("--mesh.interface", "own", "--mesh.address", address, "--mesh.subnet6", "fd09:251::/64")
        shown = node.run("ip", "addr", "show", "edgeway0").stdout
        assert address in shown and former not in shown, shown
    town.agent.process.kill()
    town.agent.start("--mesh.interface", "cni0")
    assert "edgeway0" not in node.links()
    assert is_served(node.pod("two"), "10.244.1.1")


def from_the_cloud(town, address):
    """The status of a GET through the tunnel."""
    return town.hub.machine.get("http://any.example/", "-x", f"http://{DOOR}:10080", "-H", "X-Tunnel-Proxy-Host: edge-1",
                                "-H", f"X-Tunnel-Proxy-Dest: {address}:8080")[0]


def test_the_tunnel_leads_to_pods_and_not_to_a_network_of_dockers_user(town):
    pod, database = town.node.pod("one"), town.node.network("br-0123456789ab", "10.7.1")
    for machine in (pod, database):
        machine.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "one", "--http", "8080")
    labs.wait_for("the pod through the tunnel", lambda: from_the_cloud(town, pod.address) == 200)
    labs.wait_for("the database's network", lambda: "br-0123456789ab" in town.node.table())
    labs.wait_for("the database", lambda: database.get("http://10.7.1.2:8080/")[0] == 200)
    assert from_the_cloud(town, "10.7.1.2") == 404


def test_a_fixed_address_leaves_the_former_one_answered(town):
    pod = town.node.pod("one")
    town.agent.stop()
    town.agent.start("--mesh.interface", "own", "--mesh.address", "169.254.96.30")
    labs.wait_for("the former name server", lambda: is_served(pod, OWN))
    assert is_served(pod, "169.254.96.30")
    # and that from which it changes, fixed as well
    town.agent.stop()
    town.agent.start("--mesh.interface", "own", "--mesh.address", "169.254.96.31")
    labs.wait_for("the former ones", lambda: is_served(pod, OWN) and is_served(pod, "169.254.96.30"))
    assert is_served(pod, "169.254.96.31")


def boot_again(data):
    """As it is in the database after a reboot: what is noted there is of another boot."""
    with contextlib.closing(sqlite3.connect(os.path.join(data, "edgeway.db"))) as db:
        (noted,), = db.execute("SELECT value FROM keep WHERE key = 'mesh-addresses'")
        db.execute("UPDATE keep SET value = ? WHERE key = 'mesh-addresses'", (noted[:16] + b"another ",))
        db.commit()


def test_a_former_address_ends_with_the_boot(town):
    """No container outlives that with its resolv.conf; edgeway0's address may be kubelet's clusterDNS, and stays."""
    node, pod = town.node, town.node.pod("one")
    for server in "172.17.0.1", "172.18.0.1":
        node.run("ip", "link", "add", "docker0", "type", "bridge")
        node.run("ip", "addr", "add", f"{server}/16", "dev", "docker0")
        node.run("ip", "link", "set", "docker0", "up")
        labs.wait_for("docker0 as name server", lambda: node.name_server() == server)
        if server == "172.17.0.1":
            node.run("ip", "link", "del", "docker0")
    labs.wait_for("the former address", lambda: is_served(pod, "172.17.0.1"))
    town.agent.stop()
    boot_again(town.agent.data)
    town.agent.start()
    labs.wait_for("edgeway0's address", lambda: is_served(pod, OWN))
    assert is_served(pod, "172.18.0.1") and asks(pod, "172.17.0.1") is None


def follow(town, *options):
    """Starts another agent of the node that takes over; whether it has, or the first one has gone on."""
    at = len(town.agent.process.log())
    two = Next(town.node, None, *town.options, *options, token=town.agent.token, start=False)
    two.start(ready=False)
    return two, lambda text: text in two.process.log()[at:]


def test_a_rollout_that_changes_the_address(town):
    """The new address is made beside the former one, and both are answered; also from a bridge's to our own."""
    pod = town.node.pod("one")
    for options, server in ((("own", "--mesh.address", "169.254.96.30"), "169.254.96.30"), (("cni0",), "10.244.1.1"), (("auto",), OWN)):
        two, said = follow(town, "--mesh.interface", *options)
        labs.wait_for("taken over", lambda: said("has taken over"))
        assert not said("did not serve in time")
        assert town.agent.process.stop() == 0
        town.agent = two
        labs.wait_for("ready", two.ready)
        assert is_served(pod, server) and town.node.name_server() == server
        labs.wait_for("the former ones", lambda: is_served(pod, OWN))


def test_a_rollout_to_an_address_that_is_nowhere(town):
    """It ends at once, says which key it was, and the first one goes on."""
    two, said = follow(town, "--mesh.address", "10.99.0.1")
    labs.wait_for("its end", lambda: not two.process.alive())
    assert said("mesh.address: no interface of this machine has 10.99.0.1") and not said("did not serve in time")
    labs.wait_for("the first one goes on", town.agent.ready)
    assert is_served(town.node.pod("one"), OWN)


def test_a_rollout_that_changes_the_subnet(town):
    pod = town.node.pod("one")
    two, said = follow(town, "--mesh.subnet", "9.252.0.0/16")
    labs.wait_for("taken over", lambda: said("has taken over"))
    assert town.agent.process.stop() == 0
    town.agent = two
    labs.wait_for("an address of the new one", lambda: (asks(pod, OWN) or "").startswith("9.252."))
    assert pod.get(f"http://{asks(pod, OWN)}/")[0] == 200
