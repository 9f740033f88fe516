"""What a node says of others, when it says it badly: too much, without an end, again and again, or about whom it may not. The hub refuses
it with a reason; nobody else notices.
"""
import json

import pytest

import tunnelkit
from lab import wait_for
from test_tunnel_hostile import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, OK, PING, RST_STREAM, Rogue, Site, frame)

as_before = tunnelkit.as_before
ASK_ME = frame(PING, 0, 0, b"reach\0\0\0")


class World(Site):
    def __init__(self, lab):
        super().__init__(lab)
        self.hub.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"edge-{i}"}, "status": {
            "addresses": [{"type": "InternalIP", "address": f"192.168.1.1{i}"}]}} for i in (1, 2, 3)])

    def declared(self):
        return {n["node"]: n["state"] for n in json.loads(self.hub.ask("/tunnels")[1])["neighbours"]}

    def log(self):
        return self.hub.process.log()


@pytest.fixture(scope="module")
def site(lab):
    made = World(lab)
    yield made
    made.logs()


class Liar(Rogue):
    def asked(self):
        """The stream on which the hub asks."""
        self.say(ASK_ME)
        return self.await_frame(HEADERS)[2]

    def declare(self, body, end=True):
        stream = self.asked()
        self.say(frame(HEADERS, END_HEADERS, stream, OK))
        for at in range(0, len(body), 16384):
            self.say(frame(DATA, 0, stream, body[at:at + 16384]))
        if end:
            self.say(frame(DATA, END_STREAM, stream))
        return stream

    def verdict(self, stream):
        """What the hub says to it, or None when it breaks off."""
        text = b""
        for kind, flags, its, body in self.frames():
            if its == stream and kind == RST_STREAM:
                return None
            if its == stream and kind == DATA:
                text += body
                if flags & END_STREAM:
                    return text.decode()


@pytest.mark.parametrize("body,told", [
    (b"", ""), (b"edge-2", "expected at most 64 lines"), (b"\0\xff\n", "expected at most 64 lines"), (b"edge-2\n" * 65, "expected at most 64 lines"),
    (b"x" * 301 + b"\n", "expected at most 64 lines"), (b"0.0.0.0/0\nedge-3\n::/0\nedge-9\nEDGE\n", "too wide")])
def test_what_cannot_be_declared(site, body, told):
    liar = Liar(site)
    said = liar.verdict(liar.declare(body))
    assert told in said and "ok" not in said.splitlines()
    assert set(site.declared().values()) <= {"refused"}
    liar.close()
    site.others_serve()


@pytest.mark.parametrize("body,end", [(b"edge-2\n" * 4000, False), (b"edge-2\n", False)], ids=["too much", "no end"])
def test_what_does_not_end(site, body, end):
    """It is broken off, at the bound or after 5 s; the node is asked anew, and may do better."""
    liar = Liar(site)
    assert liar.verdict(liar.declare(body, end)) is None and site.declared() == {}
    stream = liar.declare(b"192.168.1.64/28\n")
    assert liar.verdict(stream) == "ok\n"
    wait_for("declared", lambda: site.declared() == {"192.168.1.64/28": "ready"})
    liar.close()
    site.others_serve()
    assert site.declared() == {}


def test_who_wants_to_be_asked_all_the_time(site):
    """Once a second is enough."""
    liar = Liar(site)
    liar.say(ASK_ME * 300)
    opened = tunnelkit.counted(site.hub)["edgeway_tunnel_streams_opened_total"]
    assert liar.verdict(liar.declare(b"")) == ""
    liar.say(ASK_ME * 300)
    liar.await_frame(HEADERS)
    assert tunnelkit.counted(site.hub)["edgeway_tunnel_streams_opened_total"] - opened <= 4
    liar.close()
    site.others_serve()


def test_nodes_with_a_tunnel_are_not_drawn(site):
    """It may declare all that its site has: they have tunnels, and what was said of it is gone with its own."""
    liar = Liar(site)
    assert liar.verdict(liar.declare(b"edge-1:*\nedge-2:*\n192.168.1.0/24:*\n")) == "ok\nok\nok\n"
    assert site.get("edge-1") == (200, "edge-1.server\n") and site.get("edge-2")[0] == 502
    assert site.get("192.168.1.11") == (200, "edge-1.server\n")
    assert not [f for f in iter_some(liar) if f[0] in (HEADERS, CONTINUATION)]
    liar.close()
    site.others_serve()
    assert site.declared() == {}


def iter_some(liar):
    """The frames that have come until a ping of ours is answered."""
    liar.say(frame(PING, 0, 0, b"all come"))
    for f in liar.frames():
        if f[0] == PING and f[3] == b"all come":
            return
        yield f
