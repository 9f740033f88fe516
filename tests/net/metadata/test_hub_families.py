"""A hub with an address of each family: its listeners, and agents that reach it by one of them."""
import json
import os

import pytest

import lab as labs
from lab import HUB_ADDRESS, HUB_PORT, Agent, Hub, Node, wait_for

HUB6, NAME = "2001:db8::1", "hub.example.test"
ADDRESSES = {4: f"{HUB_ADDRESS}:{HUB_PORT}", 6: f"[{HUB6}]:{HUB_PORT}"}
FAMILY = {4: "ipv4", 6: "ipv6"}
WEB = labs.service("web", ("http", 80, 8080))


class World:
    def __init__(self, lab):
        self.lab = lab
        self.hub = Hub(lab)
        self.hub.process.stop()
        self.hub.machine.run("ip", "addr", "add", f"{HUB6}/64", "dev", "eth0", "nodad")
        self.hub.options = ("--listen", f"[::]:{HUB_PORT}", "--tls.names", f"{NAME},{HUB6},{HUB_ADDRESS}", "--ingress.http", f"[{HUB6}]:8080",
                            "--metrics.listen", "[::1]:9100", "--web.listen", "[::1]:10004",
                            "--access", "[{from: '2001:db8::/64', to: ['edge-*:9000']}]",
                            "--ingress.tcp", f"[{{listen: '[{HUB6}]:9000', node: edge-1, target: 9000}}]")
        self.hub.start()
        self.hub.write("web.yaml", WEB)
        self.n = 0

    def node(self):
        self.n += 1
        node = Node(self.lab, f"edge-{self.n}", f"192.0.2.{10 + self.n}")
        node.run("ip", "addr", "add", f"2001:db8::1{self.n}/64", "dev", "eth0", "nodad")
        with open(os.path.join(node.dir, "etc", "hosts"), "a") as f:
            f.write(f"{HUB6} {NAME}\n{HUB_ADDRESS} {NAME}\n")
        return node

    def agent(self, host, *options):
        return Agent(self.node(), self.hub, "--hub.url", f"wss://{host}:{HUB_PORT}", *options)


@pytest.fixture(scope="module")
def world(lab):
    made = World(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-3000:]}")


def meta(agent):
    return agent.state()["meta"]


def wait_in_step(agent, family):
    wait_for(f"in step by {family}", lambda: meta(agent)["synced"] and meta(agent)["address"] == ADDRESSES[family])
    wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    assert agent.state()["services"] == 1


def test_listeners_and_a_url_with_an_address(world):
    """By IPv6 alone: metadata, tunnel, and what comes in by the hub's listeners; callers are told apart by their networks."""
    agent = world.agent(f"[{HUB6}]", "--tunnel.allow", "node:9000")
    wait_in_step(agent, 6)
    node = agent.node
    backend = node.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "edge-1", "--http", "9000")
    wait_for("backend", lambda: "serving" in backend.log())
    assert node.get(f"http://{node.name}:9000/", "-x", f"http://[{HUB6}]:8080") == (200, "edge-1\n")
    assert node.get(f"http://[{HUB6}]:9000/") == (200, "edge-1\n")
    assert node.get(f"http://{node.name}:9001/", "-x", f"http://[{HUB6}]:8080")[0] == 403
    assert world.hub.machine.get("http://[::1]:9100/readyz")[0] == 200
    assert world.hub.machine.get("http://[::1]:10004/")[0] == 200
    agent.stop()
    agent.start()  # with its certificate, at the address that it knows
    wait_in_step(agent, 6)
    agent.stop()


def count(node, family):
    """Packets that began a connection to the hub."""
    listed = json.loads(node.run("nft", "-j", "list", "table", "inet", "count").stdout)
    return sum(e["counter"]["packets"] for r in listed["nftables"] if r.get("rule", {}).get("comment") == FAMILY[family]
               for e in r["rule"]["expr"] if "counter" in e)


@pytest.mark.parametrize("fault", ["drop", "reject with tcp reset", "reject with icmpx host-unreachable"], ids=["silent", "reset", "unreachable"])
@pytest.mark.parametrize("dead", [6, 4])
def test_a_name_with_a_dead_family(world, dead, fault):
    """The other one is tried within a second or so, and from then on it is the first one."""
    alive = 10 - dead
    world.hub.machine.run("nft", "-f", "-", input=f"table inet dead {{ chain in {{ type filter hook input priority 0; meta nfproto {FAMILY[dead]} "
                          f"tcp dport {HUB_PORT} {fault}; }}; }}")
    try:
        agent = world.agent(NAME)
        wait_in_step(agent, alive)
        assert "within 5000 ms" not in agent.process.log()
        agent.node.run("nft", "-f", "-", input="table inet count { chain out { type filter hook output priority 0; " + "".join(
            f'meta nfproto {f} tcp dport {HUB_PORT} tcp flags & (syn | ack) == syn counter comment "{f}"; ' for f in FAMILY.values()) + "}; }")
        world.hub.process.stop()
        world.hub.start()
        wait_for("lost", lambda: count(agent.node, alive) >= 2)
        wait_in_step(agent, alive)
        agent.stop()
        tried = count(agent.node, dead)
        agent.start()  # also from what it has stored
        wait_in_step(agent, alive)
        assert count(agent.node, alive) >= 4 and count(agent.node, dead) == tried
    finally:
        world.hub.machine.run("nft", "delete", "table", "inet", "dead")
    agent.stop()
