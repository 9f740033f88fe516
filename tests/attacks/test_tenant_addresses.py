"""A tenant writes Pods, EndpointSlices and Services that lead a node to addresses of the cloud's metadata, to loopback, and to the node's own processes."""
import os

import pytest

import forbidden_town
from forbidden_town import DOMAIN, HTTP, METADATA, TCP, UDP, Town
from lab import HERE, BARE_PYTHON


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


def test_the_way_is_there(town):
    """Without Edgeway in between each of them answers: what follows is no accident of the lab."""
    assert town.node.get(f"http://{METADATA}/") == (200, "forbidden\n")
    assert town.node.get(f"http://{forbidden_town.ALIBABA}/") == (200, "forbidden\n")
    assert town.node.get(f"http://{forbidden_town.NODE}:{forbidden_town.OWN_PORT}/") == (200, "node\n")
    assert town.node.get("http://127.0.0.1:40002/healthz")[0] == 200


@pytest.mark.parametrize("name", HTTP)
def test_http(town, name):
    before = town.touched()
    status, body = town.get(name)
    assert status in (502, 503, 504) and "forbidden" not in body, body  # some have another way, to a node that is not there
    assert town.touched() == before


@pytest.mark.parametrize("name", TCP)
def test_tcp(town, name):
    before = town.touched()
    assert not town.client.send(f"{name}.{DOMAIN}", 81, "x")
    assert town.touched() == before


@pytest.mark.parametrize("name, port", [(UDP, 53), ("own-datagrams", 5353)])
def test_udp(town, name, port):
    before = town.touched()
    p = town.client.run(*BARE_PYTHON, os.path.join(HERE, "udpsend.py"), f"{name}.{DOMAIN}", port, 1)
    assert p.stdout.startswith("none "), p.stdout
    assert town.touched() == before


def test_cluster_ip(town):
    """A Service whose ClusterIP is a metadata address catches nothing that is sent there."""
    assert forbidden_town.TENCENT not in town.node.run("nft", "list", "table", "ip", "edgeway").stdout


def test_what_is_meant_works(town):
    """A hostNetwork pod of this node is its own process; a machine beyond is nobody's business."""
    assert town.get("good") == (200, "node\n")
    assert town.get("world") == (200, "forbidden\n")


def test_it_is_told(town):
    metrics = town.agent.metrics()

    def refused(what):
        return metrics[f'edgeway_agent_refused_endpoints{{address="{what}"}}']

    assert refused("metadata") >= 6 and refused("loopback") == 1 and refused("own") >= 3 and refused("unspecified") == 1
    assert town.agent.process.logged("endpoints of a service are refused")
    assert town.hub.metrics()["edgeway_hub_refused_services"] >= 8
    assert town.hub.process.logged(f"nodes refuse the address {METADATA} of pod status-host-ip")
    shown = town.edgewayctl("endpoints", "default/slice")
    assert "100.100.100.200:80 REFUSED: it is a cloud's metadata address (lb.allow)" in shown
    assert "because of what their address is" in town.edgewayctl("status")
    assert "are refused because of what their address is" in town.edgewayctl("doctor")
    assert "REFUSED: it is an address of this node" in town.edgewayctl("trace", f"http://own.{DOMAIN}/")


def test_health_checks_do_not_go_there(town):
    before = town.touched()
    for _ in range(3):
        town.get("checked")
    assert town.touched() == before
