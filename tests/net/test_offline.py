"""The node without what it leans on: a disk that is full or read-only, no hub for a week, clocks that jump."""
import json
import os

import pytest

from lab import Agent, Hub, Lab, Node, service, wait_for

LATE = 60  # the machine may be busy with other things


@pytest.fixture
def lab():
    with Lab() as lab:
        yield lab


def web(port):
    return service("web", ("http", port, 8080))


def write_many(hub, n, port):
    hub.write("many.yaml", *[service(f"many-{i:05d}", ("http", port, 8080)) for i in range(n)])


def fake(node, name):
    return node.address_of(f"{name}.svc.cluster.local", f"@{node.gateway}")


def port_of(agent, name):
    """The service's port, as the node uses it now; None: not there."""
    found = [s for s in json.loads(agent.ask("/debug/services")[1])["services"] if s["name"] == name]
    return found[0]["ports"][0]["port"] if found else None


def unacknowledged(hub):
    return '"unacked":0' not in hub.ask("/nodes")[1]


def disk(agent):
    return agent.state()["meta"]["database"]


def on_tmpfs(lab, hub, size="4m"):
    """An agent whose data directory is a disk of its own."""
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, start=False)
    os.makedirs(agent.data)
    agent.node.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", agent.data)
    return agent


def fill(agent):
    """To the last byte."""
    agent.node.run("dd", "if=/dev/zero", f"of={agent.data}/ballast", "bs=4k", check=False)
    assert agent.node.run("stat", "-f", "-c", "%f", agent.data).stdout.strip() == "0"


def trouble_and_changes(agent, hub, first_port):
    """While nothing can be written: changes are used and acknowledged on the connection that there is. Their names."""
    connections = agent.metrics()["edgeway_meta_connections_total"]
    for i in range(3):
        hub.write("web.yaml", web(first_port + i))
        wait_for("in use", lambda i=i: port_of(agent, "web") == first_port + i, LATE)
    hub.write("new.yaml", service("new", ("http", 80, 8080)))
    wait_for("a new service", lambda: fake(agent.node, "new.default"), LATE)
    wait_for("acknowledged", lambda: not unacknowledged(hub), LATE)
    wait_for("told", lambda: disk(agent)["state"] == "failing", LATE)
    assert agent.metrics()["edgeway_meta_connections_total"] == connections
    assert agent.metrics()["edgeway_meta_database_failing"] == 1
    assert agent.metrics()["edgeway_meta_waiting_changes"] > 0
    assert agent.ready()


def status(agent):
    return agent.node.run(agent.lab.program("edgewayctl"), "--socket", agent.socket, "status").stdout


@pytest.mark.parametrize("end", ["room", "restart"])
def test_full_disk(lab, end):
    hub = Hub(lab)
    hub.write("web.yaml", web(81))
    agent = on_tmpfs(lab, hub).start()
    wait_for("synced", lambda: port_of(agent, "web") == 81 and not unacknowledged(hub), LATE)
    address = fake(agent.node, "web.default")
    fill(agent)
    write_many(hub, 300, 80)  # more than the journal can take where it is
    wait_for("many", lambda: agent.state()["services"] == 301, LATE)
    trouble_and_changes(agent, hub, 82)
    assert "make room on its disk" in disk(agent)["trouble"] and "make room on its disk" in agent.process.log()
    assert "make room on its disk" in status(agent)
    new = fake(agent.node, "new.default")
    if end == "restart":  # what was not written is asked from the hub again, on a disk that is still full
        agent.process.kill()
        agent.start()
        wait_for("told again", lambda: port_of(agent, "web") == 84 and agent.state()["services"] == 302, LATE)
        assert fake(agent.node, "web.default") == address
        new = wait_for("an address", lambda: fake(agent.node, "new.default"), LATE)
    agent.node.run("rm", f"{agent.data}/ballast")
    if end == "restart":  # nothing to write makes no attempt
        hub.write("web.yaml", web(85))
    wait_for("written", lambda: disk(agent)["state"] == "ok" and agent.metrics()["edgeway_meta_waiting_changes"] == 0, LATE)
    assert disk(agent)["trouble"] == ""
    if end == "room":
        assert "the database is written again" in agent.process.log()
    hub.process.kill()
    agent.process.kill()
    agent.start()
    assert agent.state()["services"] == 302
    assert port_of(agent, "web") == (85 if end == "restart" else 84)
    assert (fake(agent.node, "web.default"), fake(agent.node, "new.default")) == (address, new)


def test_disk_becomes_read_only(lab):
    """As a file system with errors does it, while the agent runs."""
    hub = Hub(lab)
    hub.write("web.yaml", web(81))
    agent = on_tmpfs(lab, hub).start()
    wait_for("synced", lambda: port_of(agent, "web") == 81 and not unacknowledged(hub), LATE)
    address = fake(agent.node, "web.default")
    # descriptors that are open for writing keep tmpfs from being remounted: the same folder, mounted once more
    agent.node.run("mount", "--bind", agent.data, agent.data)
    agent.node.run("mount", "-o", "remount,bind,ro", agent.data)
    agent.process.kill()
    agent.start()
    assert port_of(agent, "web") == 81 and fake(agent.node, "web.default") == address
    assert "mount its disk for writing" in disk(agent)["trouble"]
    wait_for("synced", lambda: agent.state()["meta"]["synced"], LATE)
    trouble_and_changes(agent, hub, 82)
    assert "mount its disk for writing" in status(agent)
    agent.node.run("mount", "-o", "remount,bind,rw", agent.data)
    wait_for("written", lambda: disk(agent)["state"] == "ok" and agent.metrics()["edgeway_meta_waiting_changes"] == 0, LATE)
    hub.process.kill()
    agent.process.kill()
    agent.start()
    assert port_of(agent, "web") == 84 and fake(agent.node, "web.default") == address
