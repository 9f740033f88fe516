"""Callers with an address of each family: a pod is the same pod by either, and networks of IPv6 mean its address of IPv6."""
import ipaddress

import pytest

import lab as labs
from test_mesh_subnet6 import RANGE, DualNode

RULE = {"edgeway.io/allow-from": "namespaces=shop"}
KERNEL = {**RULE, "edgeway.io/datapath": "kernel"}


def dual(machine, name, **more):
    made = labs.pod(name, machine.node, machine.address, ("http", 8080, 0), ("echo", 9090, 0), **more)
    made["status"]["podIPs"].append({"ip": machine.address6})
    return made


class Site:
    def __init__(self, lab):
        self.hub = labs.Hub(lab)
        self.node = DualNode(lab, "edge-1", "192.0.2.11")
        self.agent = labs.Agent(self.node, self.hub, "--mesh.subnet6", RANGE)
        self.friend, self.foe, server = [self.node.pod(name) for name in ("friend", "foe", "db")]
        server.serve("--http", "8080", "--tcp", "9090", "--bind", "::")
        both = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}
        ports = ("http", 80, 8080), ("echo", 7000, 9090)
        self.hub.write("pods.yaml", dual(self.friend, "friend", namespace="shop"), dual(self.foe, "foe", namespace="ops"), dual(server, "db"),
                       dual(server, "db", namespace="closed"))
        self.hub.write("services.yaml", labs.service("db", *ports, annotations=RULE, **both),
                       labs.service("flow", ports[1], selector="db", annotations=KERNEL, **both), labs.service("db", *ports, namespace="closed", **both))
        self.hub.write("policy.yaml", {
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "six", "namespace": "closed"},
            "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {
                "cidr": "fd00:17::/64", "except": [f"{self.foe.address6}/128"]}}]}]}})
        labs.wait_for("the services", lambda: self.agent.state()["services"] == 3)
        labs.wait_for("who calls", lambda: self.get(self.friend, 4, "db.default")[0] == 200)

    def address(self, family, name):
        v4 = self.node.dns(f"{name}.svc.cluster.local", server=self.node.gateway)[1][0][4]
        return v4 if family == 4 else str(ipaddress.IPv6Network(RANGE)[int(ipaddress.IPv4Address(v4))])

    def get(self, machine, family, name):
        address = self.address(family, name)
        return machine.get(f"http://{address if family == 4 else f'[{address}]'}/")

    def echo(self, machine, family, name):
        return machine.send(self.address(family, name), 7000, "hello")


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    print(made.agent.process.log()[-4000:])


families = pytest.mark.parametrize("family", (4, 6))


@families
def test_a_pod_is_known_by_either_address(site, family):
    assert site.get(site.friend, family, "db.default") == (200, "edge-1.db\n")
    assert site.echo(site.friend, family, "db.default") == "edge-1.db\nhello"
    status, why = site.get(site.foe, family, "db.default")
    assert status == 403 and "a pod of namespace ops may not call" in why
    assert not site.echo(site.foe, family, "db.default")
    assert site.get(site.node, family, "db.default")[0] == 403


@families
def test_in_the_kernel(site, family):
    assert site.echo(site.friend, family, "flow.default") == "edge-1.db\nhello"
    assert not site.echo(site.foe, family, "flow.default")


def test_a_network_of_ipv6(site):
    assert site.get(site.friend, 6, "db.closed") == (200, "edge-1.db\n")
    assert site.get(site.friend, 4, "db.closed")[0] == 403
    assert site.get(site.foe, 6, "db.closed")[0] == 403


def test_access_is_told_for_either_address(site):
    for address in site.friend.address, site.friend.address6:
        said = site.node.run(site.agent.lab.program("edgewayctl"), "--socket", site.agent.socket, "access", "check", address,
                             "default/db:80", check=False)
        assert said.returncode == 0, said.stdout + said.stderr
