"""A tenant writes the address of another namespace's pod into an EndpointSlice of his own. What he then says of it by his Service's
annotations, and what he meets there, counts for nobody else.
"""
import os
import subprocess

import pytest

from lab import Agent, Hub, Node, endpoint_slice, pod, service, wait_for

VICTIM, TENANT = "http://db.prod.svc.cluster.local/", "http://x.evil.svc.cluster.local/"


class Town:
    def __init__(self, lab):
        self.hub = Hub(lab)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.victims = [self.node.pod(f"db-{i}") for i in range(2)]
        self.client, self.tenant = self.node.pod("client"), self.node.pod("tenant")
        ill = os.path.join(lab.dir, "ill")
        with open(ill, "w"):
            pass
        for p in self.victims:
            p.serve("--http", "8080", "--ill-if", ill)
        self.agent = Agent(self.node, self.hub, "--lb.policy", "round-robin")
        self.show({}, {})
        wait_for("services", lambda: self.agent.state()["services"] == 2)
        wait_for("resolv.conf", lambda: self.node.gateway.encode() in self.node.resolv())
        for p in (self.client, self.tenant):
            p.copy_resolv_conf()

    def show(self, said, tenants):
        """Annotations of the two Services; the tenant's leads to the first of the victim's pods."""
        self.hub.write("all.yaml", service("db", ("http", 80, 8080), namespace="prod", annotations=said),
                       *[pod(f"db-{i}", self.node, p.address, ("http", 8080, 0), app="db", namespace="prod") for i, p in enumerate(self.victims)],
                       {**service("x", namespace="evil", annotations=tenants), "spec": {"ports": [{"name": "http", "port": 80}]}},
                       endpoint_slice("x-1", "x", 8080, self.victims[0].address, namespace="evil", port_name="http"))

    def assert_both_serve(self):
        assert sorted({self.client.get(VICTIM) for _ in range(12)}) == [(200, f"{p.name}\n") for p in self.victims]


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


def test_his_health_check(town):
    town.show({}, {"edgeway.io/health-path": "/health", "edgeway.io/health-interval": "100ms"})
    wait_for("it is found ill", lambda: town.tenant.get(TENANT) and "a health check took an endpoint out" in town.agent.process.log())
    town.assert_both_serve()


def test_his_timeouts(town):
    """Two of them put an endpoint out for a while."""
    town.show({}, {"edgeway.io/request-timeout": "10ms"})
    wait_for("his requests end in time", lambda: town.tenant.get(TENANT + "slow")[0] == 504)
    for _ in range(8):
        town.tenant.get(TENANT + "slow")
    assert town.agent.metrics()["edgeway_lb_ejections_total"] >= 1
    town.assert_both_serve()


def test_his_connections(town):
    """A limit of the victim's is not used up by them."""
    town.show({"edgeway.io/max-connections": "4"}, {})
    wait_for("no deadline", lambda: town.tenant.get(TENANT + "slow")[0] == 200)
    held = [subprocess.Popen(town.tenant.argv("curl", "-s", TENANT + "hang"), stdout=subprocess.DEVNULL) for _ in range(8)]
    try:
        wait_for("they are under way", lambda: town.agent.metrics()["edgeway_lb_connections_active"] >= 8)
        town.assert_both_serve()
    finally:
        for p in held:
            p.kill()
            p.wait()
