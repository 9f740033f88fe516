"""UDP from a pod of one node to services whose endpoints the node cannot send to: pods of another site, a pod in the cloud. The kernel leads them
to the agent, and the hub reaches them; nothing but the hub is within the nodes' reach.
"""
import collections
import json
import os
import signal
import socket

import pytest

import lab as labs
import tunnelkit
from dnskit import socket_in
from lab import NOBODY, BARE_PYTHON, Dialogue, Machine, pod, service, wait_for
from test_edge_to_cloud import CLOUD, FENCE
from test_udp import Line

DOMAIN = "default.svc.cluster.local"


def udp(name, *ports, **more):
    return service(name, *ports, protocol="UDP", **more)


class Site(tunnelkit.Site):
    def __init__(self, lab):
        self.config = os.path.join(lab.dir, "hub.yaml")
        self.write_config("")
        super().__init__(lab, "--config", self.config)
        for node in self.nodes:
            node.run("nft", "-f", "-", input=FENCE)
        self.echo = [n.pod("echo") for n in self.nodes]
        for p in self.echo:
            p.serve("--udp", "5000")
        self.second = self.nodes[1].pod("second")
        self.second.serve("--udp", "5000")
        self.cloud = Machine(lab, "server", address=CLOUD)
        backend = self.cloud.start("backend", *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "cloud", "--udp", "5000")
        wait_for("the cloud's server", lambda: "serving" in backend.log())
        self.client, self.other = self.nodes[0].pod("client"), self.nodes[0].pod("other")
        self.hub.write("nodes.yaml", *[
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"edgeway.io/site": name}},
             "status": {"addresses": [{"type": "InternalIP", "address": address}]}}
            for name, address in (("edge-1", "192.0.2.11"), ("edge-2", "192.0.2.12"), ("cloud-1", "192.0.2.30"))])
        port = "echo", 5000, 0
        self.one, self.two = [self.labelled(pod(f"echo-{i}", n, p.address, port, app="both", protocol="UDP"), far="yes" if i == 2 else "no")
                              for i, (n, p) in enumerate(zip(self.nodes, self.echo), 1)]
        self.three = self.labelled(pod("second", self.nodes[1], self.second.address, port, app="second", protocol="UDP"), far="yes")
        self.show_pods(self.one, self.two, self.three)
        self.hub.write("cloud.yaml", pod("cloud", ("cloud-1", "192.0.2.30"), CLOUD, port, protocol="UDP"))
        self.hub.write("services.yaml", udp("both", ("echo", 53, "echo")), udp("cloud", ("echo", 53, "echo")), self.far("far"),
                       self.far("sticky", sessionAffinity="ClientIP"), udp("second", ("echo", 53, "echo"), ("shut", 54, 5999)))
        wait_for("services", lambda: self.agents[0].state()["services"] == 5)
        wait_for("resolv.conf", lambda: self.nodes[0].gateway.encode() in self.nodes[0].resolv())
        for c in (self.client, self.other):
            c.copy_resolv_conf()

    @staticmethod
    def labelled(one, **labels):
        one["metadata"]["labels"].update(labels)
        return one

    @staticmethod
    def far(name, **more):
        s = udp(name, ("echo", 53, "echo"), **more)
        s["spec"]["selector"] = {"far": "yes"}
        return s

    def show_pods(self, *pods):
        self.hub.write("pods.yaml", *pods)

    def write_config(self, rules, limit=0):
        with open(self.config, "w") as f:
            f.write(f"access: [{rules}]\ningress: {{limits: {{callerStreams: {limit}}}}}\n")

    def reload(self, *config):
        adopted = 'edgeway_hub_reloads_total{result="adopted"}'
        before = self.hub.metrics()[adopted]
        self.write_config(*config)
        self.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: self.hub.metrics()[adopted] == before + 1)

    def ask(self, name, count=1, *options, client=None, port=53):
        """Who answers each of so many flows."""
        out = (client or self.client).run(*BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), f"{name}.{DOMAIN}", str(port), str(count), *options,
                                          seconds=60).stdout
        return [line.split()[0] for line in out.splitlines()]

    def state(self):
        return self.agents[0].state()["tunnel"]["outwardUdp"]

    def doors(self):
        return {f"{p['service'].split('/')[1]}:{p['port']}": p["door"] for p in self.state()["ports"]}

    def dropped(self, reason):
        return self.agents[0].metrics()[f'edgeway_tunnel_outward_udp_dropped_total{{reason="{reason}"}}']


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


def test_a_pod_of_another_site(site):
    """Its address is the same as that of a pod here: it is not taken for that one."""
    assert site.echo[0].address == site.echo[1].address
    assert site.ask("second") == ["edge-2.second"]
    out = site.client.run(*BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), f"second.{DOMAIN}", "53", "3", "--size", "8000").stdout.split("\n")
    address = site.client.address_of(f"second.{DOMAIN}")
    assert out[:3] == [f"edge-2.second {address}:53"] * 3  # the answer comes from where it was asked


def test_a_pod_in_the_cloud(site):
    assert site.ask("cloud") == ["cloud"]
    assert site.ask("cloud", client=site.nodes[0]) == ["cloud"]  # a process of the node itself


def test_what_can_be_sent_straight_goes_straight(site):
    opened = site.state()["opened"]
    assert set(site.ask("both", 5)) == {"edge-1.echo"}
    assert site.state()["opened"] == opened
    assert set(site.doors()) == {"cloud:53", "far:53", "sticky:53", "second:53", "second:54"}
    # the other node has them itself
    assert {p["service"] for p in site.agents[1].state()["tunnel"]["outwardUdp"]["ports"]} == {"default/cloud"}


def test_sizes(site):
    for size in (0, 1, 1400, 20000, 60000):
        assert site.ask("second", 1, "--size", str(size)) == ["edge-2.second"], size


def test_a_flow_keeps_its_endpoint_and_flows_are_spread(site):
    """Of 24 flows all to one of two: 2 in 2^24."""
    spread = collections.Counter(site.ask("far", 24))
    assert set(spread) == {"edge-2.echo", "edge-2.second"}
    assert len(set(site.ask("far", 10, "--same"))) == 1
    assert len(set(site.ask("sticky", 10))) == 1


def test_it_is_shown(site):
    shown = site.nodes[0].run(site.lab.program("edgewayctl"), "--socket", site.agents[0].socket, "endpoints", "default/second").stdout
    line = next(x for x in shown.splitlines() if f"{site.second.address}:5000" in x)
    assert "tunnel" in line and "edge-2" in line and "udp" in line
    state = site.state()
    assert len(state["ports"]) == 5 and state["opened"] >= 10 and state["datagrams_from_hub"] >= 10


def test_an_endpoint_that_goes_takes_its_flows_along(site):
    with Line(site.client, site.client.address_of(f"far.{DOMAIN}"), 53) as line:
        first = line.ask()
        gone, stays = (site.two, "edge-2.second") if first == "edge-2.echo" else (site.three, "edge-2.echo")
        assert first in ("edge-2.echo", "edge-2.second")
        site.show_pods(*[p for p in (site.one, site.two, site.three) if p is not gone])
        wait_for("another answers", lambda: line.ask() == stays)
    site.show_pods(site.one, site.two, site.three)
    wait_for("both again", lambda: set(site.ask("far", 12)) == {"edge-2.echo", "edge-2.second"})


def test_nobody_listens(site):
    """The hub's end tells of it, and what the client sends within a second is dropped here."""
    before = site.dropped("unreachable")
    assert site.ask("second", 1, port=54) == ["none"]
    assert site.hub.process.logged('end="port unreachable"')
    site.client.python("""
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(8):
    s.sendto(b"x", (sys.argv[1], 54))
    time.sleep(0.1)
""", site.client.address_of(f"second.{DOMAIN}"))
    wait_for("counted", lambda: site.dropped("unreachable") > before)
    assert site.ask("second") == ["edge-2.second"]


def test_a_service_that_goes_and_comes(site):
    """Its door is closed with it, its datagrams are refused at once and not dropped; another one has another door."""
    address, doors = site.client.address_of(f"second.{DOMAIN}"), site.doors()
    with open(os.path.join(site.hub.manifests, "services.yaml")) as f:
        all_of_them = f.read()
    site.hub.write("services.yaml", udp("both", ("echo", 53, "echo")), udp("cloud", ("echo", 53, "echo")))
    wait_for("gone", lambda: set(site.doors()) == {"cloud:53"})
    assert site.doors()["cloud:53"] == doors["cloud:53"]
    out = site.client.run(*BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), address, "53", "1").stdout
    assert out == "none ConnectionRefusedError\n"
    with open(os.path.join(site.hub.manifests, "services.yaml.new"), "w") as f:
        f.write(all_of_them)
    os.rename(f.name, os.path.join(site.hub.manifests, "services.yaml"))
    wait_for("back", lambda: site.ask("second") == ["edge-2.second"])


def test_the_lan_is_not_served(site):
    """The door is at the bridge's address; who reaches that from elsewhere is not heard."""
    host, port = site.doors()["second:53"].rsplit(":", 1)
    before = site.dropped("denied")
    site.hub.machine.run("ip", "route", "add", f"{host}/32", "via", "192.0.2.11")
    with socket_in(site.hub.machine, socket.SOCK_DGRAM, host, int(port)) as s:
        s.settimeout(0.5)
        for _ in range(3):
            s.send(b"x")
        with pytest.raises(TimeoutError):
            s.recv(100)
    wait_for("denied", lambda: site.dropped("denied") >= before + 3)
    site.hub.machine.run("ip", "route", "del", f"{host}/32")


def test_rules_of_access(site):
    with Line(site.client, site.client.address_of(f"second.{DOMAIN}"), 53) as line:
        assert line.ask() == "edge-2.second"
        site.reload("{from: 'node:edge-2', to: ['*']}")
        before = site.dropped("denied")
        wait_for("cut", lambda: line.ask() == "TimeoutError")
        wait_for("denied", lambda: line.ask() == "TimeoutError" and site.dropped("denied") > before)
        site.reload("")
        wait_for("open again", lambda: line.ask() == "edge-2.second")


def test_a_node_is_a_caller_with_limits(site):
    limited = "edgeway_hub_outward_limited_total"
    site.reload("{from: 'node:edge-2', to: ['*']}")  # what is open goes
    site.reload("", 1)
    before = site.hub.metrics()[limited]
    wait_for("a first one", lambda: site.ask("second", 1, "--from", "4001") == ["edge-2.second"])
    assert site.ask("second", 2) == ["none", "none"]
    assert site.hub.metrics()[limited] > before
    site.reload("")
    assert site.ask("second", 2) == ["edge-2.second"] * 2


FLOOD = """
import socket, sys
made = []
for i in range(int(sys.argv[3])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
    made.append(s)
    if i % 50 == 49:
        s.settimeout(60)
        s.recv(99)
print(len(made), flush=True)
sys.stdin.readline()
"""


def test_flows_of_one_client_are_bounded(site):
    """400 flows of one pod: a quarter of a door's, 256; others are served meanwhile."""
    with Dialogue(site.client, FLOOD, site.client.address_of(f"second.{DOMAIN}"), 53, 400) as flood:
        wait_for("sent", lambda: site.state()["datagrams_to_hub"] >= 400)
        assert next(p for p in site.state()["ports"] if p["service"] == "default/second" and p["port"] == 53)["flows"] <= 256
        assert site.ask("second", 3, client=site.other) == ["edge-2.second"] * 3
        assert flood.ask() == "400"


def test_the_hub_comes_back(site):
    with Line(site.client, site.client.address_of(f"second.{DOMAIN}"), 53) as line:
        assert line.ask() == "edge-2.second"
        site.hub.process.kill()
        wait_for("known", lambda: line.ask() != "edge-2.second")
        site.hub.start()
        wait_for("back", lambda: line.ask() == "edge-2.second")


def test_another_agent_takes_over(site):
    one = site.agents[0]
    two = labs.Agent(one.node, None, *one.options, "--takeover", "true", token=one.token, start=False)
    with Line(site.client, site.client.address_of(f"second.{DOMAIN}"), 53) as line:
        assert line.ask() == "edge-2.second"
        two.start(ready=False)
        wait_for("taken over", lambda: two.process.alive() and two.ready() and "has taken over" in two.process.log())
        site.agents[0] = two
        wait_for("served by the new one", lambda: line.ask() == "edge-2.second" and site.state()["opened"] > 0)
        wait_for("handed over", lambda: "waiting to be stopped" in one.process.log())
        assert one.process.stop() == 0
        assert line.ask() == "edge-2.second"


def test_what_is_kept_leads_to_no_closed_door(site):
    """onStop: keep leaves the table; the door's port may be another program's soon."""
    node, before = site.nodes[0], site.agents[0]
    assert before.stop() == 0
    keeper = labs.Agent(node, None, *before.options, "--onStop", "keep", token=before.token)
    site.agents[0] = keeper
    wait_for("served", lambda: site.ask("second") == ["edge-2.second"])
    address = site.client.address_of(f"second.{DOMAIN}")

    def kept():
        return node.run("nft", "list", "map", "ip", "edgeway", "single").stdout
    assert f"{address} . udp . 53 : {node.gateway} . " in kept()
    assert keeper.stop() == 0
    assert f"{address} . udp . 53" not in kept() and f"udp . 53 : {site.echo[0].address} . 5000" in kept()
    out = site.client.run(*BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), address, "53", "1").stdout
    assert out == "none ConnectionRefusedError\n"
    site.agents[0] = labs.Agent(node, None, *before.options, token=before.token)
    wait_for("served again", lambda: site.ask("second") == ["edge-2.second"])


THIEF = """
import select, socket, sys, time
left, bound = sys.argv[1:], []
while left:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        s.bind(("0.0.0.0", int(left[-1])))
        bound.append(s)
        left.pop()
    except OSError:
        s.close()
        time.sleep(0.001)
print("bound", flush=True)
while True:
    for s in select.select(bound, [], [])[0]:
        data, who = s.recvfrom(99)
        print("got", data, who, flush=True)
        s.sendto(b"thief\\n", who)
"""


def test_ports_of_a_killed_agent(site):
    """An account without rights that takes them gets nothing, neither of flows that were there nor of new ones."""
    agent, node = site.agents[0], site.nodes[0]
    address = site.client.address_of(f"second.{DOMAIN}")
    with Line(site.client, address, 53) as line:
        assert line.ask() == "edge-2.second"
        thief = node.start("thief", *NOBODY, *BARE_PYTHON, "-c", THIEF, *[door.rpartition(":")[2] for door in site.doors().values()])
        agent.process.kill()
        wait_for("the thief has the ports", lambda: thief.log() == "bound\n")
        out = node.run("nft", "list", "map", "ip", "edgeway", "single").stdout
        assert f"{address} . udp . 53 : {node.gateway} . " in out
        for _ in range(3):
            assert line.ask() in ("ConnectionRefusedError", "timeout", "TimeoutError")
        for machine in (site.client, node):
            assert machine.run(*BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), address, "53", "1").stdout.startswith("none ")
        assert thief.log() == "bound\n"
        thief.kill()
        agent.start()
        wait_for("served again", lambda: line.ask() == "edge-2.second")


def udp_sockets(agent):
    return len(agent.node.run("ss", "-uanpH").stdout.split(f"pid={agent.process.pid},")) - 1


def test_nothing_is_left(site):
    site.wait_whole()
    agent = site.agents[0]
    assert site.ask("second") == ["edge-2.second"]
    bound = udp_sockets(agent)
    site.hub.write("services.yaml", udp("both", ("echo", 53, "echo")))
    wait_for("no flow is left", lambda: site.state()["flows"] == 0)
    assert site.state()["ports"] == [] and udp_sockets(agent) == bound - 5
    wait_for("quiet", lambda: all(tunnelkit.quiet(d) for d in (site.hub, *site.agents)))
    assert site.hub.process.logged('door=outward.udp caller=node:edge-1 target="172.17.0.3:5000 via edge-2" status=200')
    for a in site.agents:
        assert a.stop() == 0
    wait_for("nothing is open", lambda: site.hub.metrics()["edgeway_hub_outward_open"] == 0)
    assert json.loads(site.hub.ask("/debug/state")[1])["hub"]["outward"] == []
    for n in site.nodes:
        assert n.clean()
