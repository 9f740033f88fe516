"""A tunnel that breaks while the node is asked: no byte of the caller has gone out, so the hub asks again, by whatever way there is, and waits
for the node; so many at most, and not for ever. The same from the node towards the hub is in test_edge_to_cloud.
"""
import json
import os
import signal
import socket
import struct
import subprocess
import threading

import pytest

import lab as labs
import tunnelkit
from dnskit import socket_in
from lab import PATIENCE_S, BARE_PYTHON, wait_for
from tunnelkit import tunnels

as_before = tunnelkit.as_before
MANY = os.path.join(labs.HERE, "many.py")
MAY_WAIT = 256  # REACH_AWAIT_NODE
REPEATED = "edgeway_ingress_repeated_total"


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, *tunnelkit.INGRESS_OPTIONS, "--ingress.udp", "[{listen: '192.0.2.1:5300', node: edge-1, target: 7700}]")
        self.backend(self.nodes[0], "server", "--http", "7001")
        echo = self.nodes[0].start("echo", *BARE_PYTHON, MANY, "serve", 7600)
        wait_for("echo", lambda: "serving" in echo.log())

    def fill(self):
        """What is sent to the backend on the node falls into a hole, until `dig` takes it away."""
        self.nodes[0].run("nft", "-f", "-", input="table inet hole { chain out { type filter hook output priority 0; tcp dport {7001,7600} drop; }\n}")

    def dig(self):
        self.nodes[0].run("nft", "delete", "table", "inet", "hole", check=False)

    def metric(self, name):
        return self.hub.metrics()[name]


class Asked:
    """A request that is under way: the node dials its target, which is silent."""

    def __init__(self, site, n=1):
        self.answer = None
        self.thread = threading.Thread(target=self.run, args=(site,), daemon=True)
        self.thread.start()
        wait_for("the dial", lambda: site.agents[0].state()["tunnel"]["dialling"] == n)

    def run(self, site):
        self.answer = site.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080", seconds=60)

    def result(self):
        self.thread.join(PATIENCE_S)
        return self.answer


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


@pytest.fixture(autouse=True)
def hole(site, as_before):
    site.fill()
    yield
    site.dig()
    if site.agents[0].process.popen.poll() is not None:
        site.agents[0].start()
    site.wait_open()


def test_the_dial_is_begun_again(site):
    """The node is back at once: who asked sees nothing of it."""
    asked, before, epoch = Asked(site), site.metric(REPEATED), tunnels(site.hub)["edge-1"]["epoch"]
    site.hub.machine.run("ss", "-K", "dst", "192.0.2.11")
    wait_for("another tunnel", lambda: tunnels(site.hub)["edge-1"]["epoch"] > epoch)
    wait_for("dialled again", lambda: site.agents[0].state()["tunnel"]["dialling"] == 1)
    site.dig()
    assert asked.result() == (200, "edge-1.server\n")
    assert site.metric(REPEATED) == before + 1


def test_the_node_is_waited_for(site):
    asked = Asked(site)
    site.agents[0].process.kill()
    wait_for("the caller waits", lambda: site.metric("edgeway_ingress_waiting") == 1)
    site.dig()
    site.agents[0].start()
    assert asked.result() == (200, "edge-1.server\n")
    assert site.metric("edgeway_ingress_waiting") == 0


def test_a_node_that_does_not_come_back(site):
    asked = Asked(site)
    site.agents[0].process.kill()
    status, why = asked.result()
    assert status == 503 and "the tunnel of node edge-1 broke while it was asked, and it has not come back" in why
    status, why = site.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080")
    assert status == 503 and "node edge-1 has no tunnel" in why  # who comes later is told at once


def test_only_so_many_wait(site):
    """Those for whom there is room are served; the others are told at once that there is none."""
    p = subprocess.Popen(site.hub.machine.argv(*BARE_PYTHON, MANY, *tunnelkit.INGRESS, "edge-1:7600", "300"), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        wait_for("dials", lambda: site.agents[0].state()["tunnel"]["dialling"] == 300)
        site.agents[0].process.kill()
        wait_for("they wait", lambda: site.metric("edgeway_ingress_waiting") == MAY_WAIT)
        site.dig()
        site.agents[0].start()
        told = json.loads(p.stdout.readline())
        assert told["statuses"] == {"200": MAY_WAIT, "503": 300 - MAY_WAIT} and told["served"] == MAY_WAIT
        assert len(told["reasons"]) == 1 and "too many others wait for it" in told["reasons"][0]
        assert site.metric("edgeway_ingress_crowded_total") == 300 - MAY_WAIT
    finally:
        p.communicate("\n", timeout=PATIENCE_S)


def test_who_goes_away_waits_no_more(site):
    s = socket_in(site.hub.machine, socket.SOCK_STREAM, *tunnelkit.INGRESS)
    s.sendall(b"CONNECT edge-1:7600 HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_for("the dial", lambda: site.agents[0].state()["tunnel"]["dialling"] == 1)
    site.agents[0].process.kill()
    wait_for("the caller waits", lambda: site.metric("edgeway_ingress_waiting") == 1)
    s.close()
    wait_for("nobody waits", lambda: site.metric("edgeway_ingress_waiting") == 0 and site.metric("edgeway_ingress_pending") == 0)


def hits(site):
    """How often a request has come to the endpoint that is to be silent."""
    return int(site.nodes[0].get("http://127.0.0.1:7001/hits")[1])


@pytest.mark.parametrize("request_, times", [("POST /hang HTTP/1.1\r\nContent-Length: 2", 1), ("POST /hang HTTP/1.1\r\nContent-Length: 0", 1),
                                            ("GET /hang HTTP/1.1\r\nX: y", 2)], ids=["body", "no body", "idempotent"])
def test_what_has_arrived_is_not_sent_again(site, request_, times):
    """Once more only what may be executed twice (RFC 9110, 9.2.2): the endpoint has the request, and the tunnel breaks before its answer."""
    site.dig()
    before, epoch = hits(site), tunnels(site.hub)["edge-1"]["epoch"]
    with socket_in(site.hub.machine, socket.SOCK_STREAM, *tunnelkit.INGRESS) as s:
        s.sendall(f"{request_}\r\nHost: edge-1:7001\r\n\r\n".encode() + (b"hi" if "h: 2" in request_ else b""))
        wait_for("arrived", lambda: hits(site) == before + 1)
        site.hub.machine.run("ss", "-K", "dst", "192.0.2.11")
        wait_for("another tunnel", lambda: tunnels(site.hub)["edge-1"]["epoch"] > epoch)
        if times == 1:
            assert s.recv(100).startswith(b"HTTP/1.1 502 ")
        else:
            wait_for("arrived again", lambda: hits(site) == before + times)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset: it waits no longer
    assert site.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080")[0] == 200  # after anything sent again
    assert hits(site) == before + times


def test_datagrams_are_not_asked_for_again(site):
    agent, before = site.agents[0], site.metric(REPEATED)
    agent.process.popen.send_signal(signal.SIGSTOP)
    s = socket_in(site.hub.machine, socket.SOCK_DGRAM, "192.0.2.1", 5300)
    try:
        s.send(b"hello")
        wait_for("the dial", lambda: site.metric("edgeway_ingress_pending") == 1)
        agent.process.kill()
        wait_for("its end", lambda: site.metric("edgeway_ingress_pending") == 0)
        assert site.metric(REPEATED) == before and site.metric("edgeway_ingress_waiting") == 0
    finally:
        s.close()
