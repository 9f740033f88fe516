"""Three hubs, of which one is frozen, is cut off from its nodes, or cannot reach another one. Packets are dropped, nothing is closed: nobody is
told. What is asked for meanwhile goes another way, at the default heartbeat: not one request fails.
"""
import contextlib
import json
import signal
import time

import pytest

import replicas
import tunnelkit
from lab import Agent, Node, pod, service, wait_for
from pki import Authority
from replicas import Asker, peers, request, tunnel_of

CUT = """table inet cut {{ chain in {{ type filter hook input priority 0; ip saddr {{ {0} }} drop; }}
    chain out {{ type filter hook output priority 0; ip daddr {{ {0} }} drop; }}
}}"""


class Town:
    """edge-1 to edge-3, each with a tunnel to the hub of its number; a pod of each, and its Service."""

    def __init__(self, lab):
        self.lab, ca = lab, Authority(lab.dir, "shared")
        self.hubs = [replicas.start_hub(lab, ca, i) for i in range(3)]
        replicas.name_hubs(self.hubs)
        replicas.know_each_other(self.hubs)
        self.nodes = [Node(lab, f"edge-{i}", f"192.0.2.{10 + i}") for i in (1, 2, 3)]
        self.agents = [Agent(n, self.hubs[i], "--hub.url", replicas.url(*self.hubs[i:], *self.hubs[:i]), "--tunnel.allow",
                             tunnelkit.ALLOW) for i, n in enumerate(self.nodes)]
        self.pods = [n.pod("web") for n in self.nodes]
        for n, p in zip(self.nodes, self.pods):
            replicas.Town.backend(self, n, "web", "--http", str(replicas.PORT))
            p.serve("--http", "8080")
        for h in self.hubs:
            h.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n.name, "labels": {"edgeway.io/site": n.name}},
                                     "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for n in self.nodes])
            h.write("pods.yaml", *[pod(f"web-{i}", n, p.address, ("http", 8080, 0)) for i, (n, p) in enumerate(zip(self.nodes, self.pods), 1)])
            h.write("services.yaml", *[service(f"web-{i}", ("http", 80, 8080)) for i in (1, 2, 3)])
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 3)
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        for p in self.pods:
            p.copy_resolv_conf()
        self.wait_whole()

    def holder(self, name):
        """The hub that has the node's newest tunnel."""
        all_ = [(tunnel_of(h, name) or {}).get("epoch", 0) for h in self.hubs]
        return self.hubs[all_.index(max(all_))] if max(all_) else None

    def holder_of_others(self, name, hub):
        """Has one of the other hubs the node's tunnel? The hub itself may be frozen."""
        return any(tunnel_of(h, name) for h in self.hubs if h is not hub)

    def wait_whole(self):
        replicas.know_each_other(self.hubs)
        for h in self.hubs:
            for n in self.nodes:
                wait_for(f"{n.name} at {h.machine.name}", lambda h=h, n=n: request(h, n.name)[0] == 200)
        wait_for("metadata", lambda: all(a.state()["meta"]["synced"] for a in self.agents))

    def send_home(self):
        """Each node's connections are at the hub of its number."""
        for a, h in zip(self.agents, self.hubs):
            if not replicas.Town.at_home(self, a, h):
                a.stop()
                a.start()
        for a, h in zip(self.agents, self.hubs):
            wait_for("home", lambda a=a, h=h: replicas.Town.at_home(self, a, h) and self.holder(a.node.name) is h)
        self.wait_whole()

    def logs(self):
        for a in self.agents:
            print(f"--- log of {a.node.name}\n{a.process.log()[-3000:]}")
        for h in self.hubs:
            print(f"--- log of {h.machine.name}\n{h.process.log()[-5000:]}")


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    made.logs()


@pytest.fixture(autouse=True)
def home(town):
    town.send_home()
    yield


class PodAsker(Asker):
    """The same, from a pod."""

    def __init__(self, machine, name):
        self.machine, self.url = machine, f"http://{name}/"
        super().__init__(None, name)

    def run(self):
        while not self.over.is_set():
            began = time.monotonic()
            try:
                status, body = self.machine.get(self.url, seconds=20)
            except Exception as e:  # pylint: disable=broad-except
                status, body = 0, str(e)
            self.answers.append((began, time.monotonic() - began, status, body))
            time.sleep(0.02)


@contextlib.contextmanager
def frozen(hub):
    hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        hub.process.popen.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def cut_off(hub, *others):
    hub.machine.run("nft", "-f", "-", input=CUT.format(", ".join(o.address for o in others)))
    try:
        yield
    finally:
        hub.machine.run("nft", "delete", "table", "inet", "cut")


def ask_through(askers, trouble, over, more=30):
    """Nothing fails that was asked since the trouble began, until `over` and for so many answers more."""
    for a in askers:
        wait_for("requests", lambda a=a: len(a.answers) > 5)
    with trouble:
        began = time.monotonic()
        wait_for("another way", over)
        at = [len(a.answers) for a in askers]
        for a, n in zip(askers, at):
            wait_for("answers", lambda a=a, n=n: len(a.answers) > n + more)
        failed = [x for a in askers for x in (a.stop(), a.failed())[1]]
    all_ = [x for a in askers for x in a.answers if x[0] + x[1] >= began]
    print(f"{len(all_)} requests, {len(failed)} failed, the slowest took {max(x[1] for x in all_):.2f} s")  # for bench/RESULTS.md
    assert failed == [], [(a.node, a.failed()) for a in askers]


def test_a_frozen_hub(town):
    """Its kernel goes on acknowledging and accepting. Its node goes to another one, and whoever asks for it there waits until it has come."""
    a, b, c = town.hubs
    ask_through([Asker(h, "edge-2") for h in (a, c)] + [Asker(a, "edge-1"), Asker(a, "edge-3")], frozen(b),
                lambda: town.holder_of_others("edge-2", b))
    assert a.process.logged("a replica does not answer; streams go other ways peer=hub-2")
    wait_for("it was told", lambda: "the hub answers neither a stream nor a ping" in town.agents[1].process.log())


def test_a_hub_that_its_nodes_do_not_reach(town):
    a, b, c = town.hubs
    ask_through([Asker(h, "edge-2") for h in town.hubs], cut_off(b, *town.nodes), lambda: town.holder_of_others("edge-2", b))
    assert b.process.logged("a tunnel answers neither a stream nor a ping; new streams go another way node=edge-2")


def test_hubs_that_do_not_reach_each_other(town):
    """A third one does."""
    a, b, c = town.hubs
    ask_through([Asker(a, "edge-2"), Asker(b, "edge-1"), Asker(c, "edge-2")], cut_off(a, b),
                lambda: peers(a)[b.address]["state"] == peers(b)[a.address]["state"] == "away")
    assert town.holder("edge-2") is b and a.process.logged("edge-2:7000 via edge-2 by way of hub-3")
    wait_for("known again", lambda: peers(a)[b.address]["state"] == "open")
    wait_for("straight again", lambda: request(a, "edge-2") == (200, "edge-2\n") and
             "edge-2:7000 via edge-2 at hub-2" in a.process.log()[-2000:])
    for h in (a, b):
        wait_for("no node is away", lambda h=h: {n["node"] for n in json.loads(h.ask("/nodes")[1])["nodes"] if n["connected"]} == {
            "edge-1", "edge-2", "edge-3"})


def test_a_node_whose_address_changes(town):
    """Its connections begin anew at once, and not when they count as dead."""
    node, agent, new = town.nodes[2], town.agents[2], "192.0.2.23"

    @contextlib.contextmanager
    def moved():
        node.run("ip", "addr", "del", f"{node.address}/24", "dev", "eth0")
        node.run("ip", "addr", "add", f"{new}/24", "dev", "eth0")
        try:
            yield
        finally:
            node.run("ip", "addr", "del", f"{new}/24", "dev", "eth0")
            node.run("ip", "addr", "add", f"{node.address}/24", "dev", "eth0")

    at = len(agent.process.log())
    ask_through([Asker(h, "edge-3") for h in town.hubs], moved(), lambda: any(
        tunnelkit.tunnels(h).get("edge-3", {}).get("address", "").startswith(new) for h in town.hubs))
    wait_for("and back", lambda: agent.process.log()[at:].count("is another now; dialling anew") == 2)
    said = agent.process.log()[at:]
    assert "this machine's way to the hub is another now" in said and "nothing was heard" not in said.split("another tunnel is open")[0]


def hub_of(town, tunnel):
    return next((h for h in town.hubs if tunnel["state"] == "open" and tunnel["hub"].startswith(h.address + ":")), None)


def test_the_second_tunnel_is_beside_the_first(town):
    """Wherever metadata and the first tunnel go, it is at another hub, and is not left before that."""
    a, b, c = town.hubs
    agent = town.agents[1]
    agent.stop()
    agent.start("--hub.tunnels", "2", "--hub.heartbeat", "2s")

    def two():
        t = agent.state()["tunnel"]
        return hub_of(town, t), hub_of(town, t["standby"])
    wait_for("home", lambda: two()[0] is b and two()[1] in (a, c))
    # Metadata alone must go to another hub.
    port = tunnel_of(b, "edge-2")["address"].rpartition(":")[2]
    town.nodes[1].run("nft", "-f", "-", input="table inet cut { chain out { type filter hook output priority 0; "
                      f"ip daddr {b.address} tcp dport 10000 tcp sport != {port} drop; }}\n}}\n")
    town.nodes[1].run("ss", "-K", "dst", b.address, "sport", "!=", port)
    wait_for("metadata elsewhere", lambda: not agent.state()["meta"]["address"].startswith(b.address + ":") and agent.state()["meta"]["synced"])
    before = two()
    assert before[0] is b and before[1] in (a, c)
    town.nodes[1].run("nft", "delete", "table", "inet", "cut")
    # The first one's hub ends.
    at = len(agent.process.log())
    b.process.stop()
    wait_for("two again", lambda: set(two()) == {a, c})
    said = agent.process.log()[at:]
    left = said.find(f"the former tunnel has ended address={before[1].address}:")
    assert left < 0 or 0 <= said.find("tunnel: tunnel open hub=") < left
    b.start()
    agent.stop()
    agent.start()
    town.wait_whole()


def idle(agent):
    """Nothing that was sent waits for an answer: the node does not ask for one while this lasts."""
    def pings():
        return agent.state()["tunnel"]["streams"], agent.metrics()["edgeway_tunnel_pings_total"]
    before = pings()
    time.sleep(2.5)
    return before == pings() and before[0] == 0


def test_a_second_tunnel(town):
    """hub.tunnels: 2. A node without traffic would find out after a minute that its hub is frozen; the other hub that it has a tunnel to is asked
    instead.
    """
    a, b, c = town.hubs
    agent = town.agents[1]
    agent.stop()
    agent.start("--hub.tunnels", "2", "--hub.heartbeat", "60s")

    def standby():
        return hub_of(town, agent.state()["tunnel"]["standby"])
    wait_for("home", lambda: replicas.Town.at_home(town, agent, b) and town.holder("edge-2") is b)
    wait_for("a second tunnel", lambda: standby() in (a, c))
    # The hub that has it ends: a third one is tried.
    first = standby()
    first.process.stop()
    wait_for("another one", lambda: standby() not in (None, b, first))
    first.start()
    town.wait_whole()
    has = standby()
    other = a if has is c else c
    assert has.metrics()["edgeway_tunnel_standby"] == 1 and agent.state()["tunnel"]["standby"]["state"] == "open"
    wait_for("no traffic", lambda: idle(agent))
    at = len(other.process.log())
    with frozen(b):
        askers = [Asker(h, "edge-2") for h in (a, c)]
        for asker in askers:
            wait_for("answers", lambda asker=asker: len(asker.answers) > 30)
            asker.stop()
            assert asker.failed() == []
        tunnel = agent.state()["tunnel"]
    print(f"the slowest took {max(x[1] for asker in askers for x in asker.answers):.2f} s")  # for bench/RESULTS.md
    assert f"edge-2:7000 via edge-2 at {has.machine.name}" in other.process.log()[at:]
    assert tunnel["hub"].startswith(b.address + ":") and tunnel["connections"] == 1
    agent.stop()
    agent.start()


@pytest.mark.parametrize("which", ["frozen", "cut"])
def test_from_pod_to_pod(town, which):
    """By a hub that does not answer to a node of another one, and the other way round."""
    a, b, c = town.hubs
    trouble = frozen(b) if which == "frozen" else cut_off(b, *town.nodes)
    ask_through([PodAsker(town.pods[1], "web-3"), PodAsker(town.pods[0], "web-2"), PodAsker(town.pods[2], "web-1")], trouble,
                lambda: town.holder_of_others("edge-2", b))
