"""edgewayctl where one request is looked at: trace of every protocol and of addresses, requests as they go, who may call whom, a node's
agent asked through the hub, and the archive for a bug report."""
import glob
import json
import os
import re
import tarfile

import pytest

from lab import PYTHON, endpoint_slice, service, wait_for
from test_ctl import Ctl, rows

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def agent(mesh):
    return Ctl(mesh, mesh.agent1, mesh.node1)


@pytest.fixture(scope="module")
def hub(mesh):
    return Ctl(mesh, mesh.hub, mesh.hub.machine)


def traced(ctl, *words):
    return json.loads(ctl.run("-o", "json", "trace", *words, check=False).stdout)


def test_trace_says_who_answered(mesh, agent):
    data = traced(agent, "http://web.shop:8000/")
    answered, endpoints = data["answered"], {e["address"]: e for e in data["endpoints"]}
    assert data["status"] == 200 and answered["by"] == "proxy" and answered["attempts"] == 0
    one = endpoints[answered["endpoint"]]
    assert (answered["node"], answered["tier"]) == (one["node"], one["tier"])
    assert re.fullmatch(r"least-request among [1-4] of tier \w+", answered["why"])
    said = agent("trace", "web.shop:8000")
    assert re.search(r"^endpoint  [\d.]+:\d+ on edge-[12]: least-request among", said, re.M)
    none = traced(agent, "http://empty/")
    assert none["status"] == 503 and none["answered"]["endpoint"] == "" and "no endpoint" in none["answered"]["why"]


def test_trace_of_tcp(mesh, agent):
    data = traced(agent, "tcp://edge-nginx:7000")
    assert data["error"] == "" and "the server speaks first" in data["said"] and data["bytes"] > 0
    assert data["answered"]["endpoint"] in {e["address"] for e in data["endpoints"]}
    dead = traced(agent, "tcp://empty:7000")
    assert "closed" in dead["error"] or "reset" in dead["error"]
    assert dead["answered"]["endpoint"] == "" and dead["answered"]["why"] == "no endpoint could be connected to"
    assert agent.run("trace", "tcp://edge-nginx", check=False).stderr == 'edgewayctl: a port is missing: "tcp://edge-nginx"\n'


@pytest.fixture(scope="module")
def others(mesh):
    """A service of UDP and one of gRPC, both on the second node."""
    slices = [endpoint_slice(f"{name}-1", name, port, mesh.node2.address) for name, port in (("echo", 7007), ("rpc", 7008))]
    slices[0]["ports"][0]["protocol"] = "UDP"
    mesh.hub.write("others.yaml", service("echo", ("", 7, 7007), selector="none", protocol="UDP"), slices[0],
                   service("rpc", ("", 9000, 7008), selector="none"), slices[1])
    udp = mesh.node2.start("echo", PYTHON, os.path.join(HERE, "backend.py"), "--name", "udp", "--udp", "7007")
    rpc = mesh.node2.start("rpc", PYTHON, os.path.join(HERE, "grpc_peer.py"), "server", "rpc", "7008")
    wait_for("both serve", lambda: "serving" in udp.log() and "serving" in rpc.log())
    wait_for("both names", lambda: all(mesh.client1.address_of(f"{n}.default.svc.cluster.local") for n in ("echo", "rpc")))
    yield
    udp.stop()
    rpc.stop()
    mesh.hub.delete("others.yaml")


def test_trace_of_udp(mesh, agent, others):
    data = traced(agent, "udp://echo:7")
    assert data["said"] == "an answer came" and data["bytes"] > 0 and "the kernel draws one endpoint" in data["rule"]
    assert data["answered"]["by"] == "kernel" and data["answered"]["endpoint"] == f"{mesh.node2.address}:7007" and data["answered"]["replied"]
    # A port of another protocol is none.
    assert traced(agent, "tcp://echo:7")["rule"] == "the service has no TCP port 7: refused"


def test_trace_of_grpc(mesh, agent, others):
    data = traced(agent, "grpc://rpc:9000")
    assert data["error"] == "" and data["said"] == "the server speaks HTTP/2 (its SETTINGS came)"
    assert data["answered"]["endpoint"] == f"{mesh.node2.address}:7008"
    assert "no HTTP/2" in traced(agent, "grpc://edge-nginx:80")["error"]  # an old server of HTTP


def test_trace_of_addresses(mesh, agent):
    """A fake IP is known as what it is; so is a ClusterIP, and what belongs to nobody."""
    address = mesh.client1.address_of("web.shop.svc.cluster.local")
    data = traced(agent, f"http://{address}:8000/")
    assert data["service"] == "shop/web" and data["status"] == 200 and "to the proxy" in data["rule"] and data["answered"]["endpoint"]
    mesh.hub.write("clustered.yaml", service("clustered", ("http", 80, "http"), selector="web", clusterIP="10.96.7.7"))
    mesh.node1.run("ip", "route", "add", "10.96.0.0/16", "dev", mesh.node1.bridge)
    wait_for("its ClusterIP is served", lambda: traced(agent, "10.96.7.7")["status"] == 200)
    assert traced(agent, "10.96.7.7")["service"] == "default/clustered"
    mesh.node1.run("ip", "route", "del", "10.96.0.0/16")
    mesh.hub.delete("clustered.yaml")
    free = traced(agent, "tcp://9.251.255.254:80")
    assert free["service"] == "" and free["rule"] == "an address of mesh.subnet that no service has now: refused" and free["error"]
    foreign = traced(agent, f"tcp://{mesh.node2.address}:30080")
    assert foreign["rule"] == "none of ours: it goes straight there" and foreign["answered"] == {}


def test_times_have_units(mesh, hub):
    for said, seconds in (("90m", 5400), ("1h", 3600), ("7d", 604800), ("77", 77), ("78s", 78)):
        hub("token", "create", "--ttl", said)
        assert f" ttl_s={seconds}\n" in mesh.hub.process.log()


def test_help_is_grouped(hub):
    groups = re.findall(r"^([A-Z][^\n:]+)\n((?:  .*\n)+)", hub("--help"), re.M)
    assert len(groups) > 5 and groups[0][0] == "Find out what is wrong" and groups[-1][0] == "Options"
    assert all(re.match(r"  status ", lines) for title, lines in groups[:1]) and max(len(line) for _, lines in groups for line in lines.splitlines()) <= 100
