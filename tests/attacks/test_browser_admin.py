"""A page that somebody opens has a name of its own lead to an admin port (DNS rebinding): what is there is not for it."""
import pytest

import lab as labs
from lab import Agent, Hub, Node


@pytest.fixture(scope="module")
def machines(lab):
    labs.upstream(lab)
    hub = Hub(lab, "--admin.listen", "127.0.0.1:10012", "--metrics.listen", "192.0.2.1:10013", "--admin.names", "hub.example")
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, "--metrics.listen", "192.0.2.11:40004")
    return {"agent": (agent.node, agent, ("127.0.0.1", 40002), ("192.0.2.11", 40004)),
            "hub": (hub.machine, hub, ("127.0.0.1", 10012), ("192.0.2.1", 10013))}


@pytest.mark.parametrize("which", ["agent", "hub"])
def test_a_name_of_the_pages_own(machines, which):
    machine, daemon, *addresses = machines[which]
    for address, port in addresses:
        for name in ("rebound.example", "localhost.rebound.example", f"{address}.rebound.example"):
            for path in ("/metrics", "/healthz", "/debug/state"):
                status, said = machine.get(f"http://{name}:{port}{path}", "--resolve", f"{name}:{port}:{address}")
                assert status == 421 and "edgeway_" not in said and "admin.names" in said
    metrics = daemon.metrics()
    assert [metrics[f'edgeway_admin_misnamed_total{{listener="{name}"}}'] >= 9 for name in ("admin", "metrics")] == [True, True]
    assert daemon.process.logged('host="rebound.example')


@pytest.mark.parametrize("which", ["agent", "hub"])
def test_its_own_names(machines, which):
    """What probes, Prometheus and people ask by."""
    machine, _, *addresses = machines[which]
    names = {"agent": ["localhost", "edge-1"], "hub": ["localhost", "hub.example"]}[which]
    for address, port in addresses:
        assert machine.get(f"http://{address}:{port}/healthz") == (200, "ok\n")
        for name in names:
            assert machine.get(f"http://{name}:{port}/healthz", "--resolve", f"{name}:{port}:{address}") == (200, "ok\n")


def test_changes_need_the_socket(machines):
    machine, _, (address, port), _ = machines["hub"]
    for path in ("/tokens/create", "/nodes/revoke", "/log/level"):
        assert machine.get(f"http://{address}:{port}{path}", "-X", "POST", "-H", "Origin: http://rebound.example")[0] == 403
