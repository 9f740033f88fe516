"""The main job with a real Docker Engine on both nodes: containers resolve and call a service."""
import collections
import os
import re

import pytest

import engine
import lab as labs
from lab import FAKE, Agent, Hub, pod, service, wait_for

pytestmark = pytest.mark.plain_build  # the real engine; test_path has the same ways

NAME = "edge-nginx.default.svc.cluster.local"


@pytest.fixture(scope="module")
def docker(lab):
    assert engine.available(), "packages docker.io and busybox-static"
    labs.upstream(lab, "www.example.test/203.0.113.7")
    hub = Hub(lab)
    nodes = [engine.EngineNode(lab, f"edge-{i}", f"192.0.2.1{i}") for i in (1, 2)]
    webs = [engine.web(n, f"web-{i}", 30080) for i, n in enumerate(nodes, 1)]
    hub.write("web.yaml", service("edge-nginx", ("http", 80, 8080), selector="web"),
              *[pod(w.name, n, w.address, ("http", 8080, 30080), app="web") for w, n in zip(webs, nodes)])
    agents = [Agent(n, hub) for n in nodes]
    for n in nodes:
        wait_for("service", lambda n=n: n.address_of(NAME, "@172.17.0.1"))
        wait_for("resolv.conf", lambda n=n: b"172.17.0.1" in n.resolv())
    clients = [n.container("client", "sleep", "100000") for n in nodes]
    yield {"hub": hub, "nodes": nodes, "agents": agents, "clients": clients}
    for a in agents:
        print(f"--- log of {a.node.name}\n{a.process.log()[-3000:]}")


def test_containers_got_our_resolver(docker):
    for c in docker["clients"]:
        assert "nameserver 172.17.0.1" in c.run("cat", "/etc/resolv.conf").stdout


def test_container_resolves(docker):
    for c in docker["clients"]:
        said = c.run("nslookup", NAME, check=False).stdout
        assert any(FAKE.match(word) for word in said.split()), said


def test_container_calls_both_nodes(docker):
    for c in docker["clients"]:
        for url in (f"http://{NAME}/", "http://edge-nginx/"):
            seen = collections.Counter((c.get(url) or "nothing").strip() for _ in range(24))
            assert set(seen) == {"web-1", "web-2"}, seen


def test_container_resolves_the_world(docker):
    said = docker["clients"][0].run("nslookup", "www.example.test", check=False).stdout
    assert "203.0.113.7" in said


def test_hub_stopped(docker):
    docker["hub"].process.stop()
    assert (docker["clients"][0].get("http://edge-nginx/") or "").startswith("web-")
    docker["agents"][0].stop()
    docker["agents"][0].start()
    assert (docker["clients"][0].get("http://edge-nginx/") or "").startswith("web-")
    docker["hub"].start()


def test_containers_start_and_stop_meanwhile(docker):
    """docker0 loses and regains its carrier; rules and listener stay."""
    node = docker["nodes"][0]
    for i in range(3):
        c = node.container(f"short-{i}", "sleep", "1000")
        assert (c.get("http://edge-nginx/") or "").startswith("web-")
        node.docker("rm", "-f", c.name)


def test_containers_of_networks_of_their_own(docker):
    """Docker drops what is forwarded between its bridges. TCP goes through the agent, also where the kernel carries it for
    docker0; of UDP the rule of the manual lets pass what was asked of a service."""
    node, agent = docker["nodes"][0], docker["agents"][0]
    agent.stop()
    agent.start("--mesh.interfaces", "br-*")
    echo = node.container("echo", "sleep", "100000")

    def inside(c):
        """Busybox has no UDP: programs of the node in the container's network."""
        return "nsenter", "-t", node.docker("inspect", "-f", "{{.State.Pid}}", c.name).stdout.strip(), "-n"
    node.start("echo", *inside(echo), *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "echo", "--udp", "5000")
    docker["hub"].write("raw.yaml", service("raw", ("tcp-x", 7000, 8080), selector="web", annotations={"edgeway.io/datapath": "kernel"}),
                        service("echo", ("echo", 7000, 5000), protocol="UDP"),
                        pod(echo.name, node, echo.address, ("echo", 5000, 0), app="echo", protocol="UDP"))
    wait_for("services", lambda: (lambda k: k["tcpPorts"] == k["udpPorts"] == 1)(agent.state()["iptables"]["kernel"]))
    names = {s: node.address_of(f"{s}.default.svc.cluster.local", "@172.17.0.1") for s in ("raw", "echo")}
    node.docker("network", "create", "own")
    guest = node.container("guest", "sleep", "100000", options=("--network", "own"))
    for c in (docker["clients"][0], guest):
        seen = {(c.get(f"http://{names['raw']}:7000/") or "nothing").strip() for _ in range(24)}
        assert seen == {"web-1", "web-2"}, c.name

    def ask():
        return node.run(*inside(guest), *labs.BARE_PYTHON, os.path.join(labs.HERE, "udpsend.py"), names["echo"], "7000", "1").stdout
    assert "none" in ask()
    node.run("iptables", "-I", "DOCKER-USER", "-m", "conntrack", "--ctstate", "DNAT", "--ctorigdst", "9.251.0.0/16", "-j", "ACCEPT")
    wait_for("UDP between bridges", lambda: ask().startswith("echo "))
    for name in ("guest", "echo"):
        node.docker("rm", "-f", name)
    node.docker("network", "rm", "own")


def test_left_as_found(docker):
    for node, agent in zip(docker["nodes"], docker["agents"]):
        assert agent.stop() == 0
        assert node.clean()
        assert "172.17.0.0/16" in node.run("iptables-save", "-t", "nat").stdout  # Docker's own rules are still there


@pytest.mark.skipif(not labs.built_with_seccomp(), reason="sanitizers need more")
@pytest.mark.parametrize("more", [(), ("--security-opt", "no-new-privileges", "--cap-drop", "ALL", "--user", "12345")])
def test_profile_in_the_engine(docker, more):
    """deploy/seccomp/edgeway.json as --security-opt: containers start, the hub runs in one, and namespaces are refused there."""
    node, lab = docker["nodes"][0], docker["hub"].lab
    folders = [a for f in ("/usr", "/lib", "/lib64", lab.build) for a in ("-v", f"{os.path.realpath(f)}:{f}:ro")]
    options = ("--security-opt", f"seccomp={os.path.join(labs.TOP, 'deploy', 'seccomp', 'edgeway.json')}", *more,
               *folders, "--tmpfs", "/data:mode=1777", "--entrypoint", "")
    c = node.container("profiled" + str(len(more)), lab.program("edgeway-hub"), "--dataDir", "/data/hub", "--listen", "0.0.0.0:10000",
                       "--admin.socket", "/data/hub.sock", "--source.manifests", "/www", "--ingress.http", "", options=options)
    ctl = (lab.program("edgewayctl"), "--socket", "/data/hub.sock")
    wait_for("status", lambda: c.run(*ctl, "status", check=False).returncode == 0)
    assert "enforced, " in c.run(*ctl, "status").stdout
    refused = c.run("/usr/bin/unshare", "--user", "true", check=False)
    assert refused.returncode != 0 and re.search("not (implemented|permitted)", refused.stderr)  # as the engine knows defaultErrnoRet
    node.docker("rm", "-f", c.name)
