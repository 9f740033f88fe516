"""Services whose endpoints have an address of each family: calls are served by either, and what one family loses costs no retry, no ejection."""
import os

import pytest

from lab import HERE, BARE_PYTHON, Agent, Hub, Node, pod, service, wait_for

PODS, NODES = "fd00:172::", "fd00:192::"
# What becomes of one family on the way to a machine, by the machine itself.
FAULTS = {"reset": "reject with tcp reset", "unreachable": "reject with icmpx host-unreachable", "silent": "drop"}
FAMILY = {4: "ipv4", 6: "ipv6"}


def dual(made, *others, host=None):
    """The Pod with a second address, and its node's."""
    made["status"]["podIPs"] += [{"ip": a} for a in others]
    if host:
        made["status"]["hostIPs"] = [{"ip": made["status"]["hostIP"]}, {"ip": host}]
    return made


def families(*names, **more):
    return {"ipFamilies": [f"IPv{n}" for n in names], **more}


class Town:
    """edge-1 with a client, which has IPv4 alone, and a pod of both families; edge-2 with a pod of the host's network, and one without hostPort."""

    def __init__(self, lab):
        self.lab = lab
        self.hub = Hub(lab)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        self.pods = []
        for i, node in enumerate(self.nodes, 1):
            node.run("ip", "addr", "add", f"{NODES}1{i}/64", "dev", "eth0", "nodad")
            node.run("ip", "addr", "add", f"{PODS}1/64", "dev", "docker0", "nodad")
            p = node.pod(f"web-{i}")
            p.run("ip", "addr", "add", f"{PODS}{i + 1}/64", "dev", "eth0", "nodad")
            p.serve("--http", "8080", "--tcp", "9090", "--bind", "::" if i == 1 else f"{PODS}{i + 1}")
            self.pods.append(p)
        with open(os.path.join(self.pods[0].dir, "who"), "w") as f:
            f.write("edge-1.web-1")
        for address in ("0.0.0.0", "::"):  # with which nghttpd has IPv6 alone
            self.pods[0].start(f"nghttpd-{address}", "nghttpd", "--no-tls", "-d", self.pods[0].dir, "-a", address, "8082")
        host = self.nodes[1].start("backend", *BARE_PYTHON, os.path.join(HERE, "backend.py"), "--name", "host", "--http", "8081",
                                   "--tcp", "9091", "--bind", "::")
        wait_for("its server", lambda: "serving" in host.log())
        ports = ("http", 8080, 0), ("echo", 9090, 0), ("calls", 8082, 0)
        near, far = (pod(f"web-{i}", n, p.address, *ports) for i, (n, p) in enumerate(zip(self.nodes, self.pods), 1))
        on_host = pod("host", self.nodes[1], self.nodes[1].address, ("http", 8081, 8081), ("echo", 9091, 9091), host_network=True)
        self.hub.write("pods.yaml", dual(near, f"{PODS}2"), dual(far, f"{PODS}3"), dual(on_host, f"{NODES}12", host=f"{NODES}12"))
        checked = {"edgeway.io/health-path": "/health", "edgeway.io/health-interval": "200ms"}
        self.hub.write("services.yaml",
                       *[service(name, ("http", 80, 8080), ("echo", 7000, 9090), ("h2c", 82, 8082), selector="web-1", annotations=annotations, **spec)
                         for name, annotations, spec in (("both", None, families(4, 6)), ("six-first", None, families(6, 4)),
                                                         ("four", None, families(4)), ("six", None, families(6)), ("checked", checked, families(4, 6)))],
                       service("host", ("http", 80, 8081), ("echo", 7000, 9091), **families(4, 6)), service("far", ("http", 80, 8080), selector="web-2", **families(4, 6)))
        self.agents = [Agent(n, self.hub) for n in self.nodes]
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 7)
        wait_for("resolv.conf", lambda: self.nodes[0].gateway.encode() in self.nodes[0].resolv())
        self.agent = self.agents[0]
        self.client = self.nodes[0].pod("client")

    def endpoint(self, service_name):
        """As the workers that know it show it."""
        return [e for g in self.agent.state()["lb"]["endpoints"] if g["service"] == f"default/{service_name}" for e in g["endpoints"]]

    def costs(self):
        counters = self.agent.state()["lb"]["counters"]
        metrics = self.agent.metrics()
        return counters["hedges"], metrics["edgeway_lb_retries_total"], metrics["edgeway_lb_ejections_total"]

    def ctl(self, *argv):
        return self.nodes[0].run(self.lab.program("edgewayctl"), "--socket", self.agent.socket, *argv).stdout


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    for a in made.agents:
        print(a.process.log()[-4000:])


class Fault:
    def __init__(self, machine, family, what, *ports):
        self.machine, self.rule = machine, f"meta nfproto {FAMILY[family]} tcp dport {{ {', '.join(map(str, ports))} }} {FAULTS[what]}"

    def __enter__(self):
        self.machine.run("nft", "-f", "-", input=f"""table inet fault {{
            chain in {{ type filter hook input priority 0; {self.rule}; }}
            }}""")

    def __exit__(self, *exc):
        self.machine.run("nft", "delete", "table", "inet", "fault")


def test_it_is_served(town):
    assert town.client.get("http://both/") == (200, "edge-1.web-1\n")
    assert town.client.get("http://host/") == (200, "host\n")
    assert {e["address"] for e in town.endpoint("both")} == {"172.17.0.2:8080"}
    assert {e["address"] for e in town.endpoint("host")} == {"192.0.2.12:8081"}


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("name, server", (("both", "edge-1.web-1"), ("six-first", "edge-1.web-1"), ("host", "host")))
def test_one_family_is_lost(town, name, server, what):
    """One after the other: every connection is served, at the first attempt."""
    where = town.nodes[1] if name == "host" else town.pods[0]
    before = town.costs()
    for family in (4, 6, 4):
        with Fault(where, family, what, 9090, 9091):
            for _ in range(4):
                assert town.client.send(name, 7000, "hello") == f"{server}\nhello"
    assert town.costs() == before
    assert {e["state"] for e in town.endpoint(name)} == {"up"}


@pytest.mark.parametrize("what", FAULTS)
def test_kept_connections_are_lost(town, what):
    before = town.costs()[2]
    for _ in range(2):
        assert town.client.get("http://both/")[0] == 200
        kept = max(town.endpoint("both"), key=lambda e: e["idle"])
        with Fault(town.pods[0], 6 if "[" in kept["address"] else 4, what, 8080):
            for _ in range(4):
                assert town.client.get("http://both/", seconds=5)[0] == 200
    assert town.costs()[2] == before


@pytest.mark.parametrize("what", FAULTS)
def test_streams_wait_for_either_family(town, what):
    """Six requests of HTTP/2 at once, by new sessions: the family that connects serves all of them, at the first attempt."""
    before = town.costs()
    for family in (4, 6):
        with Fault(town.pods[0], family, what, 8082):
            got = town.client.run("h2load", "-n", "6", "-c", "1", "-m", "6", "http://both:82/who").stdout
            assert "status codes: 6 2xx, 0 3xx, 0 4xx, 0 5xx" in got, got
            wait_for("its sessions are closed", lambda: ":8082 " not in town.nodes[0].run("ss", "-tnH", "state", "established").stdout)
    assert town.costs() == before


def test_no_route_of_a_family(town):
    """The kernel says so at once."""
    before = town.costs()
    town.nodes[0].run("ip", "-6", "route", "add", "unreachable", f"{PODS}2/128")
    try:
        assert town.client.send("six-first", 7000, "hello") == "edge-1.web-1\nhello"
    finally:
        town.nodes[0].run("ip", "-6", "route", "del", "unreachable", f"{PODS}2/128")
    assert town.costs() == before


def test_a_service_of_one_family(town):
    """IPv6 alone is served to a pod that has IPv4 alone; and what a Service does not have is not dialled."""
    with Fault(town.pods[0], 4, "reset", 8080, 9090):
        assert town.client.get("http://six/") == (200, "edge-1.web-1\n")
        assert town.client.send("six", 7000, "hello") == "edge-1.web-1\nhello"
        assert town.client.get("http://four/")[0] == 502
    wait_for("the endpoint is back", lambda: town.client.get("http://four/")[0] == 200)


@pytest.mark.parametrize("what", FAULTS)
def test_health_checks(town, what):
    assert town.client.get("http://checked/")[0] == 200
    for family in (4, 6):
        with Fault(town.pods[0], family, what, 8080):
            good = town.agent.counted("checks")
            wait_for("checks", lambda: town.agent.counted("checks") > good + 8)
            assert {e["state"] for e in town.endpoint("checked")} == {"up"}
            assert town.client.get("http://checked/")[0] == 200


def test_both_families_are_lost(town):
    ejections = town.costs()[2]
    with Fault(town.nodes[1], 4, "reset", 9091):
        town.nodes[1].run("nft", "add", "rule", "inet", "fault", "in", "tcp", "dport", "9091", "reject", "with", "tcp", "reset")
        assert not town.client.send("host", 7000, "hello")
        assert town.costs()[2] == ejections + 1
        town.nodes[1].run("nft", "flush", "chain", "inet", "fault", "in")
        town.nodes[1].run("nft", "add", "rule", "inet", "fault", "in", "meta", "nfproto", "ipv4", "tcp", "dport", "9091", "drop")
        # IPv6 alone is back.
        wait_for("the endpoint is back", lambda: town.client.send("host", 7000, "hello") == "host\nhello")
        assert "[fd00:192::12]:9091" in {e["address"] for e in town.endpoint("host")}


def test_through_the_hub(town):
    """The pod's server has IPv6 alone: its node dials the other address when the first is refused."""
    assert town.client.get("http://far/") == (200, "edge-2.web-2\n")


def test_it_is_shown(town):
    shown = town.ctl("endpoints", "default/both")
    assert "172.17.0.2:8080 or [fd00:172::2]:8080" in shown
    with Fault(town.pods[0], 4, "reset", 8080):
        assert town.client.get("http://both/")[0] == 200
        traced = town.ctl("trace", "http://both.default.svc.cluster.local/")
    assert "[fd00:172::2]:8080" in traced and "not used yet" not in traced
