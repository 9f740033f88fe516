"""A hub that asks the agents of its nodes for more than they let it know (edgewayctl --node): what changes anything, shows single requests or the
log is not to be had there, nor anything at all where tunnel.allow says so; and who is no operator of the hub cannot ask by it."""
import json
import urllib.parse

import pytest

from lab import NOBODY, Agent, Hub, Node, wait_for


class Town:
    def __init__(self, lab):
        self.hub = Hub(lab, "--admin.listen", "127.0.0.1:10012", "--ingress.http", "127.0.0.1:10080")
        self.open, self.closed = Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")
        self.agents = [Agent(self.open, self.hub), Agent(self.closed, self.hub, "--tunnel.allow", "node:*,pods,services,0.0.0.0/0,!agent")]
        for agent in self.agents:
            wait_for("a tunnel", lambda a=agent: a.node.name in {t["node"] for t in json.loads(self.hub.ask("/tunnels")[1])["tunnels"]})

    def ask(self, node, target):
        return self.hub.ask(f"/nodes/ask?node={node}&target={urllib.parse.quote(target, safe='')}", "POST")


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    for daemon in (made.hub, *made.agents):
        print(f"--- log\n{daemon.process.log()[-4000:]}")


def test_what_may_be_read(town):
    status, body = town.ask("edge-1", "/debug/state")
    assert status == 200 and json.loads(body)["node"] == "edge-1"


@pytest.mark.parametrize("target", [
    "/debug/events", "/debug/tap?id=x", "/debug/flow?protocol=tcp&to=9.251.0.1:80&from=1", "/log/level?level=debug", "/log/access?mode=all",
    "/upgrade", "/takeover", "/metrics/../debug/events", "//debug/events", "/DEBUG/EVENTS", "/debug/events?", "/debug/events%00", "/x" * 300,
    "/debug/state\r\nX: y", "/debug/state x", "debug/state", "", "http://127.0.0.1/debug/events", "*"])
def test_what_is_not_to_be_had(town, target):
    before = town.agents[0].ask("/log")[1]
    status, body = town.ask("edge-1", target)
    assert status in (400, 403, 502) and len(body.splitlines()) == 1 and len(body) < 600, (status, body)
    assert town.agents[0].ask("/log")[1] == before and town.agents[0].ready()


def test_a_node_that_denies_it(town):
    """No other rule opens it, not even all ports of the node and all networks."""
    for target in ("/debug/state", "/metrics", "/healthz"):
        status, body = town.ask("edge-2", target)
        assert status == 403 and "tunnel.allow of the node does not name agent" in body


def test_the_name_of_the_question_is_no_target(town):
    """Callers of the hub cannot get there by a name."""
    for url in ("http://edgeway-ask:1/debug/state", "http://edge-1:1/debug/state"):
        status, body = town.hub.machine.get(url, "-x", "http://127.0.0.1:10080", "-H", "edgeway-ask: admin", "-H", "edgeway-target: /debug/state")
        assert status in (403, 404) and "edgeway-agent" not in body, (status, body)


def test_only_the_operator_asks(town):
    """Not by the admin port, nor by the socket as another account."""
    status, body = town.hub.machine.get("http://127.0.0.1:10012/nodes/ask?node=edge-1&target=%2Fdebug%2Fstate", "-X", "POST")
    assert status == 403 and "only on the Unix socket" in body
    p = town.hub.machine.run(*NOBODY, town.hub.lab.program("edgewayctl"), "--socket", town.hub.socket, "--node", "edge-1", "status", check=False)
    assert p.returncode == 1 and "permission denied" in p.stderr


def test_it_is_told(town):
    wait_for("by the node", lambda: 'the hub has asked this agent target="/debug/events" status=403' in town.agents[0].process.log())
    assert town.hub.process.logged('target="agent of edge-1 /debug/events"')
