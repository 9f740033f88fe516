"""A node that would be another one: with a token for any name it tries a cloud node's name, another edge node's, and its own with another key."""
import itertools
import json
import os

import pytest

from lab import Agent, Hub, Machine, Node, pod, service, wait_for


NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def hub(lab):
    made = Hub(lab, "--access", "[{from: local, to: ['*']}]", "--ingress.http", "127.0.0.1:10080", "--ingress.tcp",
               "[{listen: '127.0.0.1:10081', service: 'web.default:80'}, {listen: '127.0.0.1:10082', node: web.default, target: 80}, "
               "{listen: '127.0.0.1:10083', service: 'db.default:80'}]")
    yield made
    print(f"--- log of the hub\n{made.process.log()[-4000:]}")


@pytest.fixture(scope="module")
def cloud(lab, hub):
    """A node of the cloud, whose pod the hub dials itself."""
    machine = Machine(lab, "cloud-1", address="192.0.2.31")
    process = machine.start("web", "/usr/bin/python3", os.path.join(os.path.dirname(os.path.dirname(__file__)), "net", "backend.py"),
                            "--name", "cloud-1", "--http", "8080")
    wait_for("serving", lambda: "serving" in process.log())
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cloud-1", "labels": {"kubernetes.io/os": "linux"}},
            "status": {"addresses": [{"type": "InternalIP", "address": machine.address}]}}
    edge = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-3", "labels": {"node-role.kubernetes.io/edge": ""}}}
    hub.write("cloud.yaml", node, edge, pod("web", machine, machine.address, ("http", 8080, 0), host_network=True),
              pod("db", ("cloud-2", "192.0.2.32"), "10.1.0.9", ("db", 5432, 0)), service("web", ("http", 80, 8080)))
    wait_for("the hub dials it", lambda: "cloud-1" in ask(hub))
    return machine


def ask(hub):
    """Who answers for the Service of the cloud's pod, at the hub's ingress."""
    return hub.machine.get("http://127.0.0.1:10080/", "-H", "Host: web.default")[1]


def refusals(hub, reason):
    return hub.metrics()[f'edgeway_hub_joins_refused_total{{reason="{reason}"}}']


@pytest.fixture(scope="module")
def attacker(lab):
    return Node(lab, "evil", "192.0.2.66")


def attempt(attacker, hub, name, token, *options):
    """An agent on the attacker's machine that says it is `name`."""
    attacker.run("rm", "-rf", os.path.join(attacker.dir, "data"))
    made = Agent(attacker, hub, "--node", name, *options, token=token, start=False)
    made.process = attacker.start(f"agent-{next(NUMBERS)}", *made.argv())  # a log of its own
    return made


def joined(hub):
    return {n["node"] for n in json.loads(hub.ask("/nodes")[1])["nodes"]}


@pytest.mark.parametrize("name, why", [("cloud-1", "is not one of the edge, by join.nodes"), ("cloud-2", "the hub dials the pods of cloud-2 itself")])
def test_a_cloud_nodes_name(hub, cloud, attacker, name, why):
    """It draws no traffic of the pods there, and everybody is told why: the hub's log, metric and status, and the node's own log."""
    before = refusals(hub, "not an edge node")
    evil = attempt(attacker, hub, name, hub.token("--uses", "unlimited"))
    try:
        wait_for("refused", lambda: why in evil.process.log())
        assert evil.process.logged("edgewayctl token create --node")
        wait_for("told", lambda: f"join refused node={name}" in hub.process.log() and refusals(hub, "not an edge node") > before)
        shown = hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "status").stdout
        assert f"attempts refused; {name} from {attacker.address}:" in shown and why in shown
        assert name not in joined(hub)
        assert "cloud-1" in ask(hub)
    finally:
        evil.stop()


def test_another_nodes_name(lab, hub, cloud, attacker):
    """Also while that node is away; the node itself goes on."""
    victim = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, token=hub.token())
    wait_for("joined", lambda: victim.state()["meta"]["synced"])
    any_name = hub.token("--uses", "unlimited")
    for away in (False, True):
        if away:
            victim.stop()
            wait_for("away", lambda: not any(n["connected"] for n in json.loads(hub.ask("/nodes")[1])["nodes"]))
        before = refusals(hub, "name taken")
        evil = attempt(attacker, hub, "edge-1", any_name)
        try:
            wait_for("refused", lambda: "the name edge-1 holds a certificate already" in evil.process.log())
            assert refusals(hub, "name taken") > before
            assert not evil.state()["meta"]["joined"]
        finally:
            evil.stop()
    victim.start()
    wait_for("it goes on", lambda: victim.state()["meta"]["synced"])
    victim.stop()


def test_its_own_name_with_another_key(lab, hub, cloud, attacker):
    """Once a node has joined, nobody becomes it with the same token: neither one that was made for it nor one for any name."""
    for name, options in (("edge-2", ("--node", "edge-2")), ("edge-3", ())):
        token = hub.token(*options)
        first = attempt(attacker, hub, name, token)
        wait_for("joined", lambda: name in joined(hub))
        first.stop()
        before = refusals(hub, "used up")
        again = attempt(attacker, hub, name, token)  # its files have gone, and with them its key
        try:
            wait_for("refused", lambda: "is used up" in again.process.log())
            assert refusals(hub, "used up") > before
            assert not again.state()["meta"]["joined"]
        finally:
            again.stop()


@pytest.fixture(scope="module")
def bait(attacker):
    """What a caller meets that was led to the attacker's node."""
    process = attacker.start("bait", "/usr/bin/python3", os.path.join(os.path.dirname(os.path.dirname(__file__)), "net", "backend.py"),
                             "--name", "evil", "--http", "80")
    wait_for("serving", lambda: "serving" in process.log())


def test_a_services_name(hub, cloud, attacker):
    """Names of nodes may have dots, as those of Services have at the ingress: a token for any name gives none of these."""
    before = refusals(hub, "name taken")
    evil = attempt(attacker, hub, "web.default", hub.token("--uses", "unlimited"))
    try:
        wait_for("refused", lambda: "web.default is the name of the Service default/web" in evil.process.log())
        assert evil.process.logged("edgewayctl token create --node web.default") and refusals(hub, "name taken") > before
    finally:
        evil.stop()


@pytest.mark.parametrize("name", ["web.default", "db.default"])
def test_what_a_services_name_draws(hub, cloud, attacker, bait, name):
    """Where an operator gives such a name away all the same, the Service's callers reach the Service, and the node is reached where a node
    alone can be meant. What is to lead to a Service leads to no node, even where there is no such Service (db)."""
    evil = attempt(attacker, hub, name, hub.token("--node", name), "--tunnel.allow", "node:80")
    at = "http://127.0.0.1:"
    try:
        wait_for("joined", lambda: name in joined(hub) and evil.state()["meta"]["synced"])
        yurt = ("-H", f"X-Tunnel-Proxy-Host: {name}", "-H", "X-Tunnel-Proxy-Dest: 127.0.0.1:80")
        wait_for("the node itself", lambda: hub.machine.get(f"{at}10080/", *yurt) == (200, "evil\n"))
        if name == "web.default":
            assert "cloud-1" in ask(hub)
            assert hub.machine.get("http://web.default/", "--proxytunnel", "-x", f"{at}10080") == (200, "cloud-1\n")
            assert hub.machine.get(f"{at}10081/") == (200, "cloud-1\n")
            assert hub.machine.get(f"{at}10082/") == (200, "evil\n")  # node: web.default
        else:
            assert hub.machine.get(f"{at}10083/")[0] == 0
    finally:
        evil.stop()
