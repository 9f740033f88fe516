"""What the daemons tell a service manager, sd_notify(3); the manager is a socket of the test's own."""
import os
import socket

import pytest

import lab as labs
from lab import Agent, Hub, Node, service, wait_for

pytestmark = pytest.mark.plain_build  # a few lines to a service manager


class Manager:
    """Keeps what it is told: `lines` in order."""

    def __init__(self, lab, name):
        self.path = os.path.join(lab.dir, f"{name}.notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.lines = []

    def hear(self):
        while True:
            try:
                self.lines += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return self.lines

    def wait(self, line, count=1):
        wait_for(line, lambda: self.hear().count(line) >= count, seconds=30)

    def start(self, machine, name, argv, watchdog_us=0):
        watchdog = [f"WATCHDOG_USEC={watchdog_us}"] if watchdog_us else []
        return machine.start(name, "env", f"NOTIFY_SOCKET={self.path}", *watchdog, *argv)


@pytest.fixture(scope="module")
def hub(lab):
    labs.upstream(lab)
    hub = Hub(lab)
    hub.write("services.yaml", service("one", ("http", 80, "http"), selector="web"),
              service("two", ("http", 80, "http"), selector="web"))
    return hub


def test_agent_before_docker(lab, hub):
    """docker is ordered after the agent and makes docker0: neither waits for the other. Then it serves, and says so."""
    node = Node(lab, "edge-1", "192.0.2.11", bridge=False)
    agent, manager = Agent(node, hub, start=False), Manager(lab, "edge-1")
    agent.process = manager.start(node, "agent", agent.argv(), watchdog_us=400000)
    manager.wait("READY=1")
    assert not agent.ready()
    node.add_bridge()
    agent.wait_ready(30)
    manager.wait("STATUS=serves 2 services")
    manager.wait("WATCHDOG=1", count=5)
    assert manager.lines.count("READY=1") == 1
    assert agent.stop() == 0
    manager.wait("STOPPING=1")
    assert "without us" not in agent.process.log()


def test_agent_waits_until_it_serves(lab, hub):
    """With docker0 there, READY=1 comes once /readyz says 200; the watchdog is told nothing that it did not ask for."""
    node = Node(lab, "edge-2", "192.0.2.12")
    agent, manager = Agent(node, hub, start=False), Manager(lab, "edge-2")
    agent.process = manager.start(node, "agent", agent.argv())
    manager.wait("READY=1")
    assert agent.ready() or "without us" in agent.process.log()
    agent.wait_ready(30)
    manager.wait("STATUS=serves 2 services")
    assert "WATCHDOG=1" not in manager.lines
    assert agent.stop() == 0
    assert manager.hear().index("STOPPING=1") > manager.lines.index("READY=1")


def test_hub(lab, hub):
    assert hub.process.stop() == 0
    manager = Manager(lab, "hub")
    hub.process = manager.start(hub.machine, "hub", hub.process.popen.args[hub.process.popen.args.index("--") + 1:])
    manager.wait("READY=1")
    assert hub.ready()
    manager.wait("STATUS=serves")
    assert hub.process.stop() == 0
    manager.wait("STOPPING=1")
