"""A node whose certificate is good and whose frames are not: over real TLS to a real hub. Its own tunnel or stream ends, with a reason in the
log; nobody else notices.
"""
import os
import socket
import ssl
import struct

import pytest

import tunnelkit
from dnskit import socket_in
from lab import HUB_ADDRESS, HUB_PORT, PATIENCE_S, Agent, Node, wait_for

as_before = tunnelkit.as_before
DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OK = b"\x88"  # :status 200 in HPACK's static table
WINDOW = 65536  # of a stream at its beginning (doc/protocol.md)


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


class Rogue:
    """The node's end of a tunnel, in Python."""

    def __init__(self, site, hub=HUB_ADDRESS, alpn="edgeway-tunnel-reverse/1"):
        context = ssl.create_default_context(cafile=os.path.join(site.rogue.data, "ca.pem"))
        context.load_cert_chain(os.path.join(site.rogue.data, "node.crt"), os.path.join(site.rogue.data, "node.key"))
        context.set_alpn_protocols([alpn])
        self.s = context.wrap_socket(socket_in(site.rogue.node, socket.SOCK_STREAM, hub, HUB_PORT), server_hostname=hub)
        self.s.settimeout(PATIENCE_S)
        assert self.s.selected_alpn_protocol() == alpn
        assert self.read(len(PREFACE)) == PREFACE
        self.s.sendall(frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        site.wait_open("edge-3")

    def read(self, n):
        got = b""
        while len(got) < n:
            part = self.s.recv(n - len(got))
            if not part:
                raise EOFError
            got += part
        return got

    def frames(self):
        try:
            while True:
                head = self.read(9)
                yield head[3], head[4], int.from_bytes(head[5:], "big"), self.read(int.from_bytes(head[:3], "big"))
        except (EOFError, OSError):
            return

    def await_frame(self, kind):
        return next((f for f in self.frames() if f[0] == kind), None)

    def say(self, data):
        try:
            self.s.sendall(data)
        except OSError:
            pass  # it has heard enough

    def close(self):
        self.s.close()


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, *tunnelkit.INGRESS_OPTIONS)
        self.backend(self.nodes[0], "server", "--http", "7001")
        self.rogue = Agent(Node(lab, "edge-3", "192.0.2.13"), self.hub)
        self.wait_open("edge-3")
        assert self.rogue.stop() == 0
        self.before = tunnelkit.tunnels(self.hub)

    def get(self, name="edge-1"):
        return self.hub.machine.get(f"http://{name}:7001/", "-x", "http://192.0.2.1:10080")

    def others_serve(self):
        wait_for("it is gone", lambda: "edge-3" not in tunnelkit.tunnels(self.hub))
        assert self.get() == (200, "edge-1.server\n")
        assert tunnelkit.tunnels(self.hub).keys() == {"edge-1", "edge-2"}

    def caller(self):
        """One who asks for the rogue: its socket, before an answer."""
        s = socket_in(self.hub.machine, socket.SOCK_STREAM, *tunnelkit.INGRESS)
        s.settimeout(PATIENCE_S)
        s.sendall(b"CONNECT edge-3:10250 HTTP/1.1\r\nHost: x\r\n\r\n")
        return s


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


BAD = {
    "data of a stream never opened": frame(DATA, 0, 1, b"x"),
    "an answer that nobody asked for": frame(HEADERS, END_HEADERS, 7, OK),
    "a stream of its own": frame(HEADERS, END_HEADERS, 2, b"\x02\x07CONNECT\x01\x03a:1"),
    "a push": frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + b"\x82"),
    "a continuation of nothing": frame(CONTINUATION, END_HEADERS, 1, b"x"),
    "settings of 5 bytes": frame(SETTINGS, 0, 0, b"12345"),
    "settings of a stream": frame(SETTINGS, 0, 1),
    "a ping of 7 bytes": frame(PING, 0, 0, b"1234567"),
    "a window that grows by nothing": frame(WINDOW_UPDATE, 0, 0, bytes(4)),
    "a window beyond 2^31": frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2,
    "a frame of 16 MB": b"\xff\xff\xff\0\0\0\0\0\1",
    "no frames at all": b"GET / HTTP/1.1\r\nHost: hub\r\n\r\n" * 20,
}


@pytest.mark.parametrize("what", BAD)
def test_frames_that_break_the_rules(site, what):
    rogue, at = Rogue(site), len(site.hub.process.log())
    rogue.say(BAD[what])
    found = rogue.await_frame(GOAWAY)  # with a code that is none of NO_ERROR
    assert found is not None and int.from_bytes(found[3][4:8], "big") != 0
    assert rogue.await_frame(-1) is None  # to the end
    rogue.close()
    site.others_serve()
    line = next(x for x in site.hub.process.log()[at:].splitlines() if "node=edge-3" in x)
    assert "HTTP/2" in line, line


def test_truncated(site):
    """Half a frame, and then nothing any more."""
    rogue = Rogue(site)
    rogue.say(frame(PING, 0, 0, b"12345678")[:13])
    rogue.close()
    site.others_serve()


def test_over_the_window(site):
    """A caller does not read, its node sends beyond what it may: no byte of that is kept, and the caller gets no more than was due."""
    rogue = Rogue(site)
    with site.caller() as s:
        _, _, stream, _ = rogue.await_frame(HEADERS)
        rogue.say(frame(HEADERS, END_HEADERS, stream, OK))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += s.recv(1)
        assert head.startswith(b"HTTP/1.1 200 ")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        rogue.say(frame(DATA, 0, stream, b"x" * 16384) * 4000)  # 64 MB
        assert site.hub.metrics()['edgeway_tunnel_memory_bytes{what="held"}'] <= 40 << 20
        got, end = 0, None
        while end is None:
            try:
                part = s.recv(1 << 16)
                got += len(part)
                end = "closed" if not part else None
            except ConnectionResetError:
                end = "reset"
        assert end == "reset" and got < 4000 * 16384
    rogue.close()
    site.others_serve()


@pytest.mark.parametrize("what,answer", [
    ("a status that is none", lambda n: frame(HEADERS, END_HEADERS, n, b"\x08\x03abc")),
    ("a status that is not a node's to give", lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, b"\x08\x03407")),
    ("no status", lambda n: frame(HEADERS, END_HEADERS, n, b"\x00\x01x\x01y")),
    ("data before its answer", lambda n: frame(DATA, 0, n, b"too soon")),
    ("its end at once", lambda n: frame(RST_STREAM, 0, n, struct.pack(">I", 2)))])
def test_answers_that_are_none(site, what, answer):
    """The caller is told, and soon."""
    rogue = Rogue(site)
    with site.caller() as s:
        _, _, stream, _ = rogue.await_frame(HEADERS)
        rogue.say(answer(stream))
        assert s.recv(4096).startswith((b"HTTP/1.1 502 ", b"HTTP/1.1 503 "))
    rogue.close()
    site.others_serve()


@pytest.mark.parametrize("refusals", [2, 6])
def test_streams_refused(site, refusals):
    """REFUSED_STREAM, as of one who drains: nothing was done, so it is asked again, a few times and no more."""
    rogue = Rogue(site)
    with site.caller() as s:
        for _ in range(refusals):
            _, _, stream, _ = rogue.await_frame(HEADERS)
            rogue.say(frame(RST_STREAM, 0, stream, struct.pack(">I", 7)))
        if refusals < 6:
            _, _, stream, _ = rogue.await_frame(HEADERS)
            rogue.say(frame(HEADERS, END_HEADERS, stream, OK))
        assert s.recv(4096).startswith(b"HTTP/1.1 200 " if refusals < 6 else b"HTTP/1.1 503 ")
    rogue.close()
    site.others_serve()
