"""The way from a node to its hub: several hubs, names that change, addresses that the hub told."""
import os
import re
import signal
import time

import pytest

import lab as labs
from lab import Agent, HUB_PORT, Hub, Lab, Machine, Node, service, wait_for

FIRST, SECOND, NOBODY = "192.0.2.1", "192.0.2.2", "192.0.2.99"
WEB = service("web", ("http", 80, 8080))


class Names:
    """A real dnsmasq whose names the test changes."""

    def __init__(self, lab):
        self.machine = Machine(lab, "dns", address=labs.UPSTREAM_ADDRESS)
        self.hosts = os.path.join(self.machine.dir, "names")
        self.names = {"www.example.test": ["203.0.113.7"]}
        self.write()
        self.process = None
        self.start()

    def start(self):
        self.process = self.machine.start(
            "dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
            "--log-facility=-", "--bind-interfaces", f"--listen-address={labs.UPSTREAM_ADDRESS}", "--conf-file=/dev/null",
            "--local=/test/", f"--addn-hosts={self.hosts}")
        wait_for("dnsmasq", lambda: self.machine.address_of("www.example.test", f"@{labs.UPSTREAM_ADDRESS}"))

    def write(self):
        with open(self.hosts, "w") as f:
            f.writelines(f"{a} {n}\n" for n, found in self.names.items() for a in found)

    def set(self, name, *addresses):
        self.names[name] = addresses
        self.write()
        os.kill(self.process.pid, signal.SIGHUP)
        wait_for(name, lambda: self.machine.address_of(name, f"@{labs.UPSTREAM_ADDRESS}") == addresses[0])


class Replica(Hub):
    """Another hub of the same CA, in a machine of its own."""

    def __init__(self, lab, first, address, *options):
        self.before, self.address, self.lab = (), address, lab
        ca = os.path.join(first.machine.dir, "data", "ca")
        self.options = ("--tls.ca", f"{ca}.pem", "--tls.caKey", f"{ca}.key", *options)
        self.machine = Machine(lab, "cloud2", address=address)
        self.manifests = os.path.join(self.machine.dir, "manifests")
        self.socket = os.path.join(self.machine.dir, "hub.sock")
        os.makedirs(self.manifests)
        self.start()

    def start(self):
        self.process = self.machine.start(
            "hub", self.lab.program("edgeway-hub"), "--listen", f"{self.address}:{HUB_PORT}",
            "--source.manifests", self.manifests, "--dataDir", os.path.join(self.machine.dir, "data"),
            "--admin.listen", "", "--admin.socket", self.socket, "--ingress.http", "", *self.options)
        wait_for("hub healthy", lambda: self.process.alive() and self.ask("/healthz")[0] == 200)


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def meta(agent):
    return agent.state()["meta"]


def at(agent, address):
    """In step with the hub at this address?"""
    m = meta(agent)
    return m["synced"] and m["address"] == f"{address}:{HUB_PORT}"


def test_several_hubs(lab):
    """The first name leads nowhere, the second hub serves; later the first is found by asking for its name again."""
    names = Names(lab)
    names.set("hub-a.example.test", NOBODY)
    names.set("hub-b.example.test", SECOND)
    first = Hub(lab, "--tls.names", "hub-a.example.test")
    second = Replica(lab, first, SECOND, "--tls.names", "hub-b.example.test")
    for hub in (first, second):
        hub.write("web.yaml", WEB)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), second, "--hub.url",
                  f"wss://hub-a.example.test:{HUB_PORT},wss://hub-b.example.test:{HUB_PORT}")
    wait_for("the second hub", lambda: at(agent, SECOND))
    assert meta(agent)["url"] == f"wss://hub-b.example.test:{HUB_PORT}"
    # the replicas hold the same: going from one to the other costs nothing and loses nothing
    names.set("hub-a.example.test", FIRST)
    changes = agent.metrics()['edgeway_meta_changes_total{operation="update"}']
    second.process.kill()
    wait_for("the first hub", lambda: at(agent, FIRST))
    assert agent.state()["services"] == 1
    assert agent.metrics()['edgeway_meta_changes_total{operation="update"}'] == changes
    second.start()
    first.process.kill()
    wait_for("the second hub again", lambda: at(agent, SECOND))


def test_told_addresses(lab):
    """What the hub told of itself reaches a replica when neither name service nor hub are there."""
    names = Names(lab)
    names.set("hub.example.test", FIRST)
    first = Hub(lab, "--tls.names", f"hub.example.test,{FIRST},{SECOND}")
    second = Replica(lab, first, SECOND, "--tls.names", f"hub.example.test,{FIRST},{SECOND}")
    for hub in (first, second):
        hub.write("web.yaml", WEB)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), first, "--hub.url", f"wss://hub.example.test:{HUB_PORT}")
    wait_for("the first hub", lambda: at(agent, FIRST))
    wait_for("remembered", lambda: meta(agent)["hubs"] == [
        {"url": f"wss://hub.example.test:{HUB_PORT}", "last_good": f"{FIRST}:{HUB_PORT}", "told": [FIRST, SECOND]}])
    wait_for("on the disk", lambda: meta(agent)["waiting"] == 0)
    first.process.kill()
    # the name still leads to the hub that is gone
    wait_for("the second hub", lambda: at(agent, SECOND))
    agent.process.kill()
    names.process.kill()
    agent.start()
    wait_for("the second hub, from what is remembered", lambda: at(agent, SECOND))
    assert agent.process.logged("cannot resolve the hub's name; trying the addresses that are remembered")


def test_strangers_at_a_told_address(lab):
    """An address is no proof: whoever answers there must bear the name of hub.url and a certificate of its CA."""
    names = Names(lab)
    names.set("hub.example.test", FIRST)
    first = Hub(lab, "--tls.names", f"hub.example.test,{FIRST},{SECOND}")
    first.write("web.yaml", WEB)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), first, "--hub.url", f"wss://hub.example.test:{HUB_PORT}")
    wait_for("the first hub", lambda: at(agent, FIRST))
    # of the same CA, but for another name
    other = Replica(lab, first, SECOND, "--tls.names", "other.example.test")
    first.process.kill()
    failures = agent.metrics()["edgeway_meta_connection_failures_total"]
    wait_for("refused there", lambda: "hub.example.test" in meta(agent)["error"] and
             agent.metrics()["edgeway_meta_connection_failures_total"] > failures + 1)
    assert not meta(agent)["connected"] and agent.state()["services"] == 1
    assert other.ask("/nodes")[1].count('"connected":true') == 0
    first.start()
    wait_for("the first hub again", lambda: at(agent, FIRST))


def fence(node):
    """Silently drops what goes between the node and the hub from now on: no reset, no ICMP."""
    node.run("nft", "-f", "-", input="""
        table ip fence {
            chain in { type filter hook input priority 0; ip saddr 192.0.2.1 drop; }
            chain out { type filter hook output priority 0; ip daddr 192.0.2.1 drop; }
        }""")


def silence_told(process):
    """ms that were silent, as the log says it: the connection for metadata, and the tunnel."""
    words = r"no sign of life for (\d+) ms", r"nothing was heard for (\d+) ms, not even by its kernel"
    wait_for("said of both", lambda: all(re.search(w, process.log()) for w in words))
    return [int(re.search(w, process.log()).group(1)) for w in words]


def test_half_open(lab):
    """A line that is cut without a word is found by both sides within 10 s, of the tunnel and of the connection for metadata."""
    hub = Hub(lab)
    hub.write("web.yaml", WEB)
    node = Node(lab, "edge-1", "192.0.2.11")
    agent = Agent(node, hub)
    wait_for("synced", lambda: at(agent, FIRST) and agent.state()["tunnel"]["state"] == "open")
    fence(node)
    wait_for("found by the agent", lambda: not meta(agent)["connected"])
    wait_for("found by the hub", lambda: '"connected":true' not in hub.ask("/nodes")[1])
    for process in (agent.process, hub.process):
        # not sooner, and not a heartbeat later (the machine may be slow)
        for ms in silence_told(process):
            assert 9900 <= ms < 13900
    assert agent.ready() and agent.state()["services"] == 1
    node.run("nft", "delete", "table", "ip", "fence")
    wait_for("back", lambda: at(agent, FIRST))


def test_metered(lab):
    """A heartbeat of a minute is the hub's too: nothing at all is sent meanwhile. At 1 s there is something all the time."""
    hub = Hub(lab)
    hub.write("web.yaml", WEB)
    agents = []
    for i, beat in enumerate(("60s", "1s")):
        node = Node(lab, f"edge-{i}", f"192.0.2.{11 + i}")
        node.run("nft", "-f", "-", input="""
            table ip count {
                chain in { type filter hook input priority 0; ip saddr 192.0.2.1 counter; }
                chain out { type filter hook output priority 0; ip daddr 192.0.2.1 counter; }
            }""")
        agents.append(Agent(node, hub, "--hub.heartbeat", beat))
    for agent in agents:
        wait_for("synced", lambda a=agent: at(a, FIRST) and a.state()["services"] == 1)

    def packets(agent):
        found = re.findall(r"counter packets (\d+)", agent.node.run("nft", "list", "table", "ip", "count").stdout)
        return sum(map(int, found))

    wait_for("acknowledged", lambda: hub.ask("/nodes")[1].count('"unacked":0') == 2)

    def still():
        before = packets(agents[0])
        time.sleep(2)  # the TCP acknowledgement of the last message
        return packets(agents[0]) == before
    wait_for("nothing is on its way", still)
    quiet, lively = packets(agents[0]), packets(agents[1])
    wait_for("several heartbeats of the hub's own", lambda: packets(agents[1]) > lively + 20, 120)
    assert packets(agents[0]) == quiet


def test_hub_among_fake_addresses(lab):
    """The node's route leads mesh.subnet to ourselves: it is said at once, instead of time-outs for ever."""
    hub = Hub(lab)
    hub.write("web.yaml", WEB)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, "--hub.url", "wss://9.251.7.7:10000", start=False).start(ready=False)
    wait_for("said", lambda: "9.251.7.7:10000 is an address of mesh.subnet" in meta(agent)["error"])
    assert agent.process.logged("choose another mesh.subnet")
    assert agent.process.alive() and not meta(agent)["connected"]
