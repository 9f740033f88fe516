"""An account without rights on an edge node takes the agent's ports once it was killed: it gets nothing that is meant for the mesh, and keeps no
agent from starting.
"""
import pytest

import lab as labs
from lab import NOBODY, BARE_PYTHON, Agent, Hub, Node, pod, service, wait_for
from thief import THIEF

SECRET = "Authorization: Bearer of-the-pod"


class Town:
    """A node with a server and a client behind its bridge."""

    def __init__(self, lab):
        labs.upstream(lab)
        self.lab, self.hub, self.node = lab, Hub(lab), Node(lab, "edge-1", "192.0.2.11")
        server = self.node.pod("web")
        server.serve("--http", "8080")
        self.hub.write("web.yaml", service("web", ("http", 80, 8080)), pod("web", self.node, server.address, ("http", 8080, 0)))
        self.agent = Agent(self.node, self.hub)
        self.client = self.node.pod("client")
        self.address = wait_for("its address", lambda: self.client.address_of("web.default.svc.cluster.local", f"@{self.node.gateway}"))
        wait_for("the service", lambda: self.works(self.client))
        self.thieves = 0

    def works(self, machine):
        return machine.get(f"http://{self.address}/", seconds=5) == (200, "edge-1.web\n")

    def thief(self, where, port):
        self.thieves += 1
        return self.node.start(f"thief-{self.thieves}", *NOBODY, *BARE_PYTHON, "-c", THIEF, where, port)

    def calls(self, count=3):
        """Of a pod and of the host, with what nobody else may read."""
        return [m.get(f"http://{self.address}/", "-H", SECRET, seconds=5) for m in (self.client, self.node) for _ in range(count)]

    def ctl(self, word):
        return self.node.run(self.lab.program("edgewayctl"), "--socket", self.agent.socket, word, check=False).stdout


@pytest.fixture(scope="module")
def town(lab):
    return Town(lab)


@pytest.mark.parametrize("where", ["172.17.0.1", "0.0.0.0", "::"])
def test_killed_agent(town, where):
    thief = town.thief(where, 40001)
    agent = town.agent
    agent.process.kill()
    wait_for("the thief has the port", lambda: thief.log() == "bound\n")
    assert "dnat to 172.17.0.1:40001" in town.node.table()
    assert [status for status, _ in town.calls()] == [0] * 6
    assert thief.log() == "bound\n"
    # The next agent serves beside it, and says who has its port.
    agent.start()
    wait_for("another port", lambda: set(town.calls()) == {(200, "edge-1.web\n")})
    assert agent.metrics()["edgeway_lb_port_taken"] == 1
    to = agent.state()["iptables"]["to"]
    assert to.startswith("172.17.0.1:") and to != "172.17.0.1:40001" and f"dnat to {to}" in town.node.table()
    for said in (agent.process.log(), town.ctl("status"), town.ctl("doctor")):
        assert "mesh.listenPort 40001 is held by a process of user 65534" in said
    assert f"tcp 40001: python3 (pid {thief.pid}, user 65534)" in town.ctl("doctor")
    # And that port is no better for a thief.
    second = town.thief(where, to.rpartition(":")[2])
    agent.process.kill()
    wait_for("the thief has that one", lambda: second.log() == "bound\n")
    assert [status for status, _ in town.calls(1)] == [0] * 2
    assert (thief.log(), second.log()) == ("bound\n", "bound\n")
    thief.kill()
    second.kill()
    agent.start()
    wait_for("calls", lambda: town.works(town.client) and town.works(town.node))
    assert agent.state()["iptables"]["to"] == "172.17.0.1:40001" and agent.metrics()["edgeway_lb_port_taken"] == 0


def test_a_port_of_its_own_is_left_alone(town):
    """Who calls that program itself, past the mesh, is none of our business."""
    thief = town.thief("0.0.0.0", 40001)
    town.agent.process.kill()
    wait_for("bound", lambda: thief.log() == "bound\n")
    assert town.client.get("http://172.17.0.1:40001/", seconds=5) == (200, "thief\n")
    thief.kill()
    town.agent.start()


def test_admin_port(town):
    """It is told and lived with, and taken once it is free."""
    agent = town.agent
    thief = town.thief("127.0.0.1", 40002)
    agent.process.kill()
    wait_for("bound", lambda: thief.log() == "bound\n")
    agent.start()
    assert town.works(town.client)
    assert agent.metrics()['edgeway_admin_port_taken{listener="admin"}'] == 1
    for said in (town.ctl("status"), town.ctl("doctor")):
        assert "admin.listen: 127.0.0.1:40002 is held by" in said
    assert agent.process.logged('by="') and agent.process.logged("no probes")
    thief.kill()
    wait_for("the port", lambda: town.node.get("http://127.0.0.1:40002/healthz")[0] == 200)
    assert agent.metrics()['edgeway_admin_port_taken{listener="admin"}'] == 0
    assert "admin.listen" not in town.ctl("status")


def test_listening_beside_the_agent(town):
    """The kernel lets nobody of another user into its group."""
    p = town.node.run(*NOBODY, *BARE_PYTHON, "-c", "import socket\ns = socket.socket()\ns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
                      "s.bind(('172.17.0.1', 40001))", check=False)
    assert p.returncode != 0 and "Address already in use" in p.stderr
