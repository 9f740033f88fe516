"""Pods of the engines that Debian has, as mesh.interface: auto finds them: what they resolve, call, and are called by.

Each node has another engine: Docker; containerd with CNI's bridge and with its ptp plugin, through the Container Runtime Interface; podman with
netavark and with CNI. In podman's default network, containers have the node's name servers; in a network of the user's they have aardvark, which
asks the node's.
"""
import json
import re
import shutil

import pytest

import engine
import lab as labs

pytestmark = pytest.mark.plain_build  # real engines; test_pod_interfaces has their interfaces

OWN = "169.254.96.16"
ENGINES = {"docker": engine.EngineNode, "bridge": engine.ContainerdNode, "ptp": engine.PtpNode, "podman": engine.PodmanNode,
           "podman-cni": engine.PodmanCniNode}
KERNEL = {"edgeway.io/datapath": "kernel"}


class Town:
    """A service `of-NAME` on each node, by a pod that was there before the agent, and `raw-NAME`, which the kernel carries to the same pod; `six-NAME`
    and `raw6-NAME` are the same by the pod's IPv6 address alone."""

    def __init__(self, lab):
        labs.upstream(lab, "www.example.test/203.0.113.7")
        self.hub = labs.Hub(lab)
        self.nodes = {name: made(lab, name, f"192.0.2.{11 + i}") for i, (name, made) in enumerate(ENGINES.items())}
        self.webs = {name: engine.web(n, f"web-{name}", 30080) for name, n in self.nodes.items()}
        for name, node in self.nodes.items():
            web = labs.pod(f"web-{name}", node, self.webs[name].address, ("http", 8080, 30080), app=name)
            web["status"]["podIPs"].append({"ip": address6(self.webs[name])})
            self.hub.write(f"{name}.yaml", web, *[
                labs.service(f"{kind}-{name}", (port, 80, 8080), selector=name, annotations=annotations, ipFamilies=families)
                for kind, port, annotations, families in (("of", "http", None, ["IPv4"]), ("raw", "tcp-x", KERNEL, ["IPv4"]),
                                                          ("six", "http", None, ["IPv6"]), ("raw6", "tcp-x", KERNEL, ["IPv6"]))])
        self.agents = {name: labs.Agent(n, self.hub, "--mesh.subnet6", "fd09:251::/64", start=False) for name, n in self.nodes.items()}
        self.start_agents()
        self.clients = {name: n.container("client", "sleep", "1000000") for name, n in self.nodes.items()}

    def start_agents(self):
        """Together: where there is no docker0, each waits for it for a while."""
        for agent in self.agents.values():
            agent.start(ready=False)
        for name, agent in self.agents.items():
            agent.wait_ready()
            labs.wait_for(f"the services on {name}", lambda a=agent: a.state()["services"] == 4 * len(ENGINES))
            labs.wait_for(f"resolv.conf of {name}", lambda n=name: server_of(n).encode() in self.nodes[n].resolv())


def server_of(name):
    return "172.17.0.1" if name == "docker" else OWN


def address6(container):
    """That the engine gave."""
    said = container.run("ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "global").stdout
    return re.search(r"inet6 ([0-9a-f:]+)/", said)[1]


def neighbour(name):
    names = list(ENGINES)
    return names[(names.index(name) + 1) % len(names)]


@pytest.fixture(scope="module")
def town(lab):
    programs = ("dockerd", "containerd", "ctr", "podman", "busybox", "/usr/lib/cni/ptp", "/usr/lib/podman/netavark", "/usr/lib/podman/aardvark-dns")
    assert [p for p in programs if not shutil.which(p)] == [], "deploy/packages names the packages"
    made = Town(lab)
    yield made
    for a in made.agents.values():
        print(f"--- log of {a.node.name}\n{a.process.log()[-3000:]}")


def is_served(town, name):
    """From a pod of that node: its own and another node's endpoints; also the pod that was there before the agent, and itself."""
    for caller in (town.clients[name], town.webs[name]):
        for to in (name, neighbour(name)):
            for service in (f"of-{to}", f"raw-{to}.default.svc.cluster.local"):
                if caller is town.clients[name] or "." in service:  # the other one's resolv.conf has no search list of the cluster
                    assert caller.get(f"http://{service}/") == f"web-{to}\n", f"{service} from {caller.name} of {name}"


@pytest.mark.parametrize("name", ENGINES)
def test_the_engine_gave_our_resolver(town, name):
    given = town.clients[name].run("cat", "/etc/resolv.conf").stdout
    assert f"nameserver {server_of(name)}\n" in given
    said = town.clients[name].run("nslookup", f"of-{name}.default.svc.cluster.local", check=False).stdout
    assert any(labs.FAKE.match(word) for word in said.split()), said
    assert "203.0.113.7" in town.clients[name].run("nslookup", "www.example.test", check=False).stdout


@pytest.mark.parametrize("name", ENGINES)
def test_served(town, name):
    is_served(town, name)


def by_name(town, name, service):
    """The address of the AAAA record that a pod gets."""
    said = town.clients[name].run("nslookup", f"{service}.default.svc.cluster.local", check=False).stdout
    found = [word for word in said.split() if word.startswith("fd09:251::9fb:")]
    assert len(found) == 1, said
    return found[0]


@pytest.mark.parametrize("name", ENGINES)
def test_served_by_ipv6(town, name):
    services = json.loads(town.agents[name].ask("/debug/services")[1])["services"]
    for to in (name, neighbour(name)):
        for service in (f"of-{to}", f"raw-{to}"):
            address = by_name(town, name, service)
            assert address == next(s["fakeIP6"] for s in services if s["name"] == service)
            assert town.clients[name].get(f"http://[{address}]/") == f"web-{to}\n"


@pytest.mark.parametrize("name", ENGINES)
def test_pod_dialled_by_ipv6(town, name):
    """The Services are of IPv6 alone, so that the pod's other address, which it has too, does not come into it."""
    for service in (f"six-{name}", f"raw6-{name}"):
        assert town.clients[name].get(f"http://[{by_name(town, name, service)}]/") == f"web-{name}\n", service
    assert town.clients[name].get(f"http://six-{name}/") == f"web-{name}\n"  # by whichever address
    shown = [e["address"] for g in town.agents[name].state()["lb"]["endpoints"] if g["service"] == f"default/six-{name}" for e in g["endpoints"]]
    assert shown and set(shown) == {f"[{address6(town.webs[name])}]:8080"}


def told_of_pods(town, name):
    """Its verdicts, and from how many pods it reached a service."""
    agent = town.agents[name]
    said = agent.node.run(town.hub.lab.program("edgewayctl"), "--socket", agent.socket, "-o", "json", "doctor", check=False).stdout
    found = [(f["verdict"], f["found"]) for f in json.loads(said) if f["check"] == "pods"]
    return {v for v, _ in found}, sum(f.endswith(" is reached") for _, f in found)


@pytest.mark.parametrize("name", ENGINES)
def test_doctor_looks_from_within(town, name):
    assert told_of_pods(town, name) == ({"ok"}, 2)


def test_network_of_the_user(town):
    """Podman's, with aardvark as name server."""
    node = town.nodes["podman"]
    node.docker("network", "create", "own")
    guest = node.container("guest", "sleep", "1000000", options=("--network", "own"))
    assert "nameserver 10.89." in guest.run("cat", "/etc/resolv.conf").stdout
    for to in ("of-podman", "raw-podman", "of-docker"):
        assert guest.get(f"http://{to}.default.svc.cluster.local/") == f"web-{to.partition('-')[2]}\n"
    assert told_of_pods(town, "podman") == ({"ok"}, 3)
    node.docker("rm", "-f", "-t", "0", "guest")


def test_agents_restart(town):
    for agent in town.agents.values():
        assert agent.stop() == 0
    town.start_agents()
    for name in ENGINES:
        is_served(town, name)


def test_left_as_found(town):
    for name, agent in town.agents.items():
        assert agent.stop() == 0
        assert town.nodes[name].clean()
        assert "edgeway0" not in town.nodes[name].run("ip", "-o", "link").stdout
