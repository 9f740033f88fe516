"""Limits of the ingress: how many streams a caller and a node may have at a time, and what they may carry; changed by SIGHUP."""
import os
import signal
import threading
import time

import pytest

import lab as labs
from ingress_town import ACCESS, FRIEND, HUB, SERVER, STRANGER, WEB, Town, join_edge, socket_to
from lab import Lab
from pki import Authority

EDGE = "192.0.2.19"
RULES = "access: [" + ", ".join((*ACCESS, f"{{from: {STRANGER}, to: ['*']}}", f"{{from: {FRIEND}, to: ['edge-9:*']}}")) + "]\n"


class Limits(Town):
    def __init__(self, lab):
        folder = os.path.join(lab.dir, "limits")
        os.makedirs(folder)
        self.config = os.path.join(folder, "hub.yaml")
        self.write()
        super().__init__(lab, "--config", self.config, access=None)
        self.agent = join_edge(self, "edge-9", EDGE, Authority(folder), "--tunnel.allow", "node,node:9090,node:8080")
        p = self.agent.node.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "edge-9", "--http", "8080", "--tcp", "9090")
        labs.wait_for("backend", lambda: "serving" in p.log())

    def write(self, **limits):
        with open(self.config, "w") as f:
            f.write(RULES)
            if limits:
                f.write("ingress:\n  limits: {" + ", ".join(f"{k}: {v}" for k, v in limits.items()) + "}\n")

    def limit(self, **limits):
        self.write(**limits)
        name = 'edgeway_hub_reloads_total{result="adopted"}'
        before = self.hub.metrics()[name]
        self.hub.process.popen.send_signal(signal.SIGHUP)
        labs.wait_for("read again", lambda: self.hub.metrics()[name] == before + 1)

    def open(self, target, machine):
        """(socket, status) of a CONNECT, the greeting of the server read as well."""
        s = socket_to(self, (HUB, 10080), machine)
        s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += s.recv(1) or pytest.fail(str(got))
        return s, int(got.split()[1])


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        yield Limits(lab)


@pytest.fixture(autouse=True)
def without_limits(town):
    town.limit()
    yield from town.as_before()
    assert town.hub.state()["hub"]["accounts"] == []


def metric(town, name, by):
    return town.hub.metrics()[f'edgeway_ingress_{name}{{by="{by}"}}']


def test_streams_of_a_caller(town):
    town.limit(callerStreams=3)
    before = metric(town, "limited_total", "caller")
    target = f"{SERVER}:8080"
    held = [town.open(target, town.friend) for _ in range(3)]
    assert [status for _, status in held] == [200] * 3
    assert {"kind": "caller", "name": FRIEND, "streams": 3} in town.hub.state()["hub"]["accounts"]
    refused, status = town.open(target, town.friend)
    assert status == 429
    refused.close()
    assert town.get(WEB + "/", machine=town.friend)[0] == 429  # a request of its own is one as well
    other, status = town.open(target, town.stranger)  # what others have is no concern of his
    assert status == 200
    other.close()
    assert metric(town, "limited_total", "caller") == before + 2
    assert town.hub.process.logged(f"ingress.limits.callerStreams allows caller={FRIEND}")
    held.pop()[0].close()
    labs.wait_for("room again", lambda: town.get(WEB + "/", machine=town.friend)[0] == 200)
    for s, _ in held:
        s.close()


def test_waiting_connections_are_no_streams(town):
    town.limit(callerStreams=1)
    with socket_to(town, (HUB, 10080), town.friend) as first, socket_to(town, (HUB, 10080), town.friend) as second:
        for s in (first, second, first, second):
            s.sendall(b"GET http://web.default/ HTTP/1.1\r\nHost: web.default\r\n\r\n")
            got = b""
            while not got.endswith(b"server\n"):
                got += s.recv(4096) or pytest.fail(str(got))
            assert got.startswith(b"HTTP/1.1 200 ")


def test_streams_of_a_node(town):
    """Whoever opens them."""
    town.limit(nodeStreams=2)
    held = [town.open("edge-9:9090", machine) for machine in (town.friend, town.stranger)]
    assert [status for _, status in held] == [200, 200]
    refused, status = town.open("edge-9:9090", town.friend)
    assert status == 429
    refused.close()
    assert town.get(WEB + "/", machine=town.friend)[0] == 200  # not through that node
    assert metric(town, "limited_total", "node") >= 1
    for s, _ in held:
        s.close()
    labs.wait_for("room again", lambda: town.get("http://edge-9:8080/", machine=town.friend)[0] == 200)


@pytest.mark.parametrize("way", ["connect", "request"])
@pytest.mark.parametrize("by", ["caller", "node"])
def test_bytes(town, way, by):
    """Never faster, by more than 5 %, than the rate and its burst of 100 ms; on a slow machine it may be slower."""
    rate, size = 1000000, 2500000
    town.limit(**{by + "BytesPerSecond": rate})
    before = metric(town, "throttled_total", by)
    began = time.monotonic()
    got = town.get(f"http://edge-9:8080/bytes/{size}", *(("-p",) if way == "connect" else ()), machine=town.friend, seconds=60)
    took = time.monotonic() - began
    assert got == (200, "x" * size)
    print(f"{way} by {by}: {size / took / rate:.3f} of the rate")
    assert took >= 0.95 * (size - rate / 10) / rate
    assert metric(town, "throttled_total", by) > before


@pytest.mark.parametrize("way", ["connect", "request"])
def test_bytes_to_the_edge(town, way):
    rate, size = 1000000, 2000000
    path = os.path.join(town.lab.dir, "body")
    with open(path, "wb") as f:
        f.write(b"0123456789" * (size // 10))
    town.limit(callerBytesPerSecond=rate)
    began = time.monotonic()
    got = town.get("http://edge-9:8080/", *(("-p",) if way == "connect" else ()), "--data-binary", f"@{path}", machine=town.friend, seconds=60)
    assert got == (200, "0123456789" * (size // 10))  # there and back
    assert time.monotonic() - began >= (2 * size - rate / 10) / rate - 0.5


def test_several_streams_share_the_rate_and_sighup_frees_them(town):
    """At 20 kB a second these would take eight minutes; the new limit is in force for what is under way."""
    town.limit(callerBytesPerSecond=20000)
    got = []
    threads = [threading.Thread(target=lambda way=way: got.append(town.get(
        "http://edge-9:8080/bytes/2500000", *way, machine=town.friend, seconds=120))) for way in ((), ("-p",), ("-p",), ())]
    for t in threads:
        t.start()
    labs.wait_for("all of them wait", lambda: town.hub.state()["hub"]["accounts"] != [] and
                  next(a for a in town.hub.state()["hub"]["accounts"] if a["name"] == FRIEND)["streams"] == 4)
    assert town.get("http://edge-9:8080/bytes/10000", machine=town.stranger, seconds=60)[0] == 200  # his burst, meanwhile
    assert got == []
    town.limit()
    for t in threads:
        t.join(120)
    assert [(status, len(body)) for status, body in got] == [(200, 2500000)] * 4
