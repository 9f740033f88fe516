"""What the namespace tests share (tests/net and tests/attacks; their conftest.py has it all): one lab a file, with two nodes, a hub, and the services of `mesh`.

With several workers (pytest -n) a module's tests stay together, since they share its lab; where each test makes its own, every one goes where there
is room. The modules that take longest begin first.
"""
import os
import signal
import sys
import threading

import pytest

import lab as labs
from lab import Agent, Hub, Lab, Node, pod, service


try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:  # one worker then
    LoadScopeScheduling = object

# Modules borrow from each other, also across folders.
sys.path += sorted(f.path for f in os.scandir(os.path.dirname(os.path.abspath(__file__))) if f.is_dir())

# Modules whose tests share nothing.
APART = {f"test_{m}.py" for m in "approval doctor_hub fanout hub_links hub_proxy identity offline replicas sites".split()}
LONGEST = [f"test_{m}.py" for m in """kubernetes lb_failures kernel_path kernel_attacks takeover sites approval cloudhub identity tunnel_rotation docker
           upstreams chart offline replicas tunnel egress hosts_map transfers lb_policies deploy monitoring udp http_neighbours udp_maps""".split()]


def pytest_configure(config):
    # A terminated run takes its lab down like an interrupted one. (On a busy machine execnet gives a worker another thread than the first.)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    config.addinivalue_line("markers", "plain_build: with the plain build alone; a sanitizer finds nothing here that it does not find elsewhere")


class Scheduling(LoadScopeScheduling):
    def _split_scope(self, nodeid):
        module = nodeid.split("::")[0]
        return nodeid if module.rpartition("/")[2] in APART else module


def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


def pytest_collection_modifyitems(items):
    order = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


class Mesh:
    """cloud (hub), dns (dnsmasq), edge-1 and edge-2 with two backends and a client each."""

    def __init__(self, lab, *options):
        """options: of the hub."""
        self.lab = lab
        self.dns = labs.upstream(lab, "www.example.test/203.0.113.7", "api.lab.test/203.0.113.8")
        self.hub = Hub(lab, *options)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        pods = []
        for node in self.nodes:
            for i in range(2):
                p = node.pod(f"web-{i}")
                p.serve("--http", "8080", "--tcp", "9090")
                node.publish(30080 + i, p, 8080)
                node.publish(30090 + i, p, 9090)
                for namespace in ("default", "shop"):
                    pods.append(pod(p.name.replace(".", "-"), node, p.address, ("http", 8080, 30080 + i),
                                    ("echo", 9090, 30090 + i), app="web", namespace=namespace))
        self.backends = {f"{n.name}.web-{i}" for n in self.nodes for i in range(2)}
        self.hub.write("pods.yaml", *pods)
        self.hub.write("services.yaml",
                       service("edge-nginx", ("http", 80, "http"), ("tcp-echo", 7000, "echo"), selector="web"),
                       service("empty", ("http", 80, 8080), ("tcp-raw", 7000, 9090), selector="nobody"),
                       service("web", ("http-main", 8000, 8080), selector="web", namespace="shop"))
        self.agents = [Agent(n, self.hub) for n in self.nodes]
        self.agent1, self.agent2 = self.agents
        for a in self.agents:
            labs.wait_for("services in DNS", lambda a=a: a.node.dns("edge-nginx.default.svc.cluster.local",
                                                                    server=a.node.gateway)[1])
            labs.wait_for("resolv.conf written", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        self.node1, self.node2 = self.nodes
        self.client1, self.client2 = [n.pod("client") for n in self.nodes]


@pytest.fixture(scope="module")
def lab():
    with Lab() as made:
        yield made


@pytest.fixture(scope="module")
def mesh(lab):
    made = Mesh(lab)
    yield made
    for a in made.agents:
        if a.process is not None and a.process.alive():
            print(f"--- log of {a.node.name}\n{a.process.log()[-4000:]}")
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")
