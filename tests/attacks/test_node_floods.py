"""A node, or who holds its certificate, that floods its hub: with frames that carry nothing, and with connections to where nobody answers. It is cut
off, or has its turn like others: whoever asks for another node gets every answer.
"""
import os
import socket
import ssl
import struct
import threading

import pytest

import tunnelkit
from dnskit import socket_in
from lab import HUB_ADDRESS, HUB_PORT, PATIENCE_S, pod, service, wait_for
from test_tunnel_hostile import END_HEADERS, GOAWAY, HEADERS, PREFACE, SETTINGS, Rogue, Site, frame

ENHANCE_YOUR_CALM = 11
BURST = 8000  # base/http/frame_budget.h
HOLE = "192.0.2.99:80"  # on the switch, and nobody has it


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    made.hub.write("hole.yaml", service("hole", ("x", 80, 80)), pod("hole", ("cloud-1", "192.0.2.98"), "192.0.2.99", ("x", 80, 0)))
    yield made
    made.logs()


as_before = tunnelkit.as_before


class Callers:
    """Others, who ask for edge-1 all the time: what they were answered."""

    def __init__(self, site):
        self.site, self.answers, self.ended = site, [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.is_set():
            self.answers.append(self.site.get())

    def __enter__(self):
        self.thread.start()
        wait_for("the first answer", lambda: self.answers)
        return self

    def __exit__(self, *exc):
        self.ended.set()
        self.thread.join()


def test_frames_that_carry_nothing(site):
    """Of a type that nobody knows: RFC 9113 has them ignored, and nghttp2 does so without end."""
    before, at = site.hub.metrics(), len(site.hub.process.log())
    rogue = Rogue(site)
    with Callers(site) as others:
        for _ in range(100):
            rogue.say(frame(0xee, 0, 0) * BURST)
        code = next(int.from_bytes(f[3][4:8], "big") for f in rogue.frames() if f[0] == GOAWAY)
    rogue.close()
    assert code == ENHANCE_YOUR_CALM
    assert set(others.answers) == {(200, "edge-1.server\n")}
    site.others_serve()
    after = site.hub.metrics()
    assert after["edgeway_tunnel_flooded_total"] == before["edgeway_tunnel_flooded_total"] + 1
    read = after["edgeway_tunnel_useless_frames_total"] - before["edgeway_tunnel_useless_frames_total"]
    assert BURST < read < 3 * BURST  # of 800 000
    log = site.hub.process.log()[at:]
    assert "floods this hub" in log and "of a type that is not known" in log and "node=edge-3" in log
    # For a while it gets no other one, by its name and not by its address.
    context = ssl.create_default_context(cafile=os.path.join(site.rogue.data, "ca.pem"))
    context.load_cert_chain(os.path.join(site.rogue.data, "node.crt"), os.path.join(site.rogue.data, "node.key"))
    context.set_alpn_protocols(["edgeway-tunnel-reverse/1"])
    with context.wrap_socket(socket_in(site.rogue.node, socket.SOCK_STREAM, HUB_ADDRESS, HUB_PORT), server_hostname=HUB_ADDRESS) as again:
        again.settimeout(PATIENCE_S)
        assert again.recv(1) == b""
    assert 'reason="a tunnel of this node was cut a moment ago: it floods this hub"' in site.hub.process.log()[at:]
    for command in "status", "doctor":
        p = site.hub.machine.run(site.lab.program("edgewayctl"), "--socket", site.hub.socket, command, check=False)
        assert "node edge-3 floods this hub" in p.stdout, p.stdout


def literal(name, value):
    """RFC 7541 section 6.2.2, a name of its own."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def test_connections_to_a_hole(site):
    """Through the hub, to an endpoint that never answers: as many as one node may have wait, the others are refused at once. A node that gives up too many
    is read later."""
    wait_for("the service", lambda: len(site.hub.state()["hub"]["services"]) == 1)
    rested = [site.hub.process.log().count("way of a node to others open node=edge-3")]
    head = (b"\x02\x07CONNECT" + b"\x01" + bytes([len(HOLE)]) + HOLE.encode() + literal(b"edgeway-service", b"default/hole") +
            literal(b"edgeway-node", b"cloud-1"))
    asked, slowed = (site.hub.metrics()[name] for name in ('edgeway_hub_outward_total{what="asked"}', "edgeway_tunnel_slowed_total"))

    def forward():
        """The node's way to others: here the node is HTTP/2's client."""
        context = ssl.create_default_context(cafile=os.path.join(site.rogue.data, "ca.pem"))
        context.load_cert_chain(os.path.join(site.rogue.data, "node.crt"), os.path.join(site.rogue.data, "node.key"))
        context.set_alpn_protocols(["edgeway-tunnel/1"])
        s = context.wrap_socket(socket_in(site.rogue.node, socket.SOCK_STREAM, HUB_ADDRESS, HUB_PORT), server_hostname=HUB_ADDRESS)
        s.settimeout(PATIENCE_S)
        s.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
        if s.recv(9) == b"":
            s.close()
            return None
        return s
    s = wait_for("the node may come again", forward, pause=0.5)
    assert site.hub.process.log().count("way of a node to others open node=edge-3") == rested[0] + 1

    def drain():
        try:
            while s.recv(1 << 16):
                pass
        except OSError:
            pass
    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    with Callers(site) as others:
        for n in range(60):
            ids = range(1 + 2 * 100 * n, 1 + 2 * 100 * (n + 1), 2)
            s.sendall(b"".join(frame(HEADERS, END_HEADERS, i, head) + frame(3, 0, i, struct.pack(">I", 8)) for i in ids))
        s.sendall(b"".join(frame(HEADERS, END_HEADERS, i, head) for i in range(12001, 18001, 2)))
        wait_for("all of them", lambda: site.hub.metrics()['edgeway_hub_outward_total{what="asked"}'] - asked >= 3000)
        assert site.hub.metrics()["edgeway_hub_outward_open"] <= 2048
        assert site.hub.metrics()["edgeway_hub_outward_limited_total"] > 0
        wait_for("told", lambda: site.hub.metrics()["edgeway_tunnel_slowed_total"] > slowed)
        assert "a node asks for connections and gives them up" in site.hub.process.log()
    assert set(others.answers) == {(200, "edge-1.server\n")}
    s.close()
    reader.join()
    wait_for("nothing is left", lambda: site.hub.metrics()["edgeway_hub_outward_open"] == 0)
