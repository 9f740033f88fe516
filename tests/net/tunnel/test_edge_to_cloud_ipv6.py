"""From a pod of one node to endpoints whose only address is one of IPv6, and that the node cannot dial: a pod of another site (whose address a
pod here has as well), a pod in the cloud.
"""
import os

import pytest

import lab as labs
import tunnelkit
from lab import BARE_PYTHON, Machine, pod, service, wait_for

POD, CLOUD, HUB = "fd00:172::5", "fd00:192::31", "fd00:192::1"


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab)
        self.servers = []
        for i, node in enumerate(self.nodes, 1):
            node.run("ip", "addr", "add", "fd00:172::1/64", "dev", "docker0", "nodad")
            p = node.pod("six")
            p.run("ip", "addr", "add", f"{POD}/64", "dev", "eth0", "nodad")
            self.serve(p, f"edge-{i}.six")
        self.hub.machine.run("ip", "addr", "add", f"{HUB}/64", "dev", "eth0", "nodad")
        cloud = Machine(lab, "server", address="192.0.2.31")
        cloud.run("ip", "addr", "add", f"{CLOUD}/64", "dev", "eth0", "nodad")
        self.serve(cloud, "cloud")
        self.client = self.nodes[0].pod("client")
        ports = ("http", 8080, 0), ("echo", 9090, 0)
        self.hub.write("nodes.yaml", *[
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"edgeway.io/site": name}},
             "status": {"addresses": [{"type": "InternalIP", "address": address}]}}
            for name, address in (("edge-1", "192.0.2.11"), ("edge-2", "192.0.2.12"), ("cloud-1", "192.0.2.30"))])
        # written in another way than we would
        self.hub.write("pods.yaml", pod("cloud", ("cloud-1", "192.0.2.30"), "fd00:192:0:0::31", *ports),
                       *[pod(f"six-{i}", n, "FD00:172::0005", *ports, app="six") for i, n in enumerate(self.nodes, 1)],
                       pod("two", self.nodes[1], POD, *ports))
        self.hub.write("services.yaml", service("six", ("http", 80, 8080)), service("cloud", ("http", 80, 8080)),
                       service("two", ("http", 80, 8080), ("echo", 7000, 9090)), service("shut", ("http", 80, 9999), selector="two"))
        wait_for("services", lambda: self.agents[0].state()["services"] == 4)
        wait_for("resolv.conf", lambda: self.nodes[0].gateway.encode() in self.nodes[0].resolv())
        self.client.copy_resolv_conf()

    def serve(self, machine, name):
        p = machine.start("backend", *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", name, "--http", "8080", "--tcp", "9090",
                          "--bind", "::")
        wait_for("its server", lambda: "serving" in p.log())
        self.servers.append(p)

    def ctl(self, *argv):
        return self.nodes[0].run(self.lab.program("edgewayctl"), "--socket", self.agents[0].socket, *argv).stdout


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


def test_a_pod_of_another_site(site):
    """A pod here has its very address: it is not taken for that one."""
    assert site.client.get("http://two/") == (200, "edge-2.six\n")
    assert site.client.send("two", 7000, "hello") == "edge-2.six\nhello"


def test_the_own_pod_comes_first(site):
    assert {site.client.get("http://six/") for _ in range(6)} == {(200, "edge-1.six\n")}


def test_the_far_one_when_the_own_is_dead(site):
    site.servers[0].kill()
    assert [site.client.get("http://six/") for _ in range(6)] == [(200, "edge-2.six\n")] * 6


def test_a_pod_in_the_cloud(site):
    assert site.client.get("http://cloud/") == (200, "cloud\n")


def test_it_is_shown(site):
    line = next(x for x in site.ctl("endpoints", "default/two").splitlines() if f"[{POD}]:8080" in x)
    assert "tunnel" in line and "edge-2" in line
    known = [e for g in site.agents[0].state()["lb"]["endpoints"] if g["service"] == "default/two" for e in g["endpoints"]]
    assert known and {e["address"] for e in known} <= {f"[{POD}]:8080", f"[{POD}]:9090"}


def test_a_target_that_refuses_is_told(site):
    status, why = site.client.get("http://shut/")
    assert status == 502, why
    assert site.agents[0].process.logged(f"service=default/shut endpoint=[{POD}]:9999 node=edge-2")


def test_nothing_is_left(site):
    """What the pool holds goes with the agent; the hub is then as if nobody had asked."""
    for a in site.agents:
        assert a.stop() == 0
    wait_for("nothing is open", lambda: site.hub.metrics()["edgeway_hub_outward_open"] == 0)
    wait_for("quiet", lambda: tunnelkit.quiet(site.hub))
