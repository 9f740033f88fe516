"""tunnel.compress: what passes is what was sent, text is smaller on the wire, what cannot be made smaller goes as it is."""
import socket

import pytest

import tunnelkit
from lab import PATIENCE_S, wait_for
from tunnelkit import Transfers, connect

as_before = tunnelkit.as_before
SAVED = "edgeway_tunnel_saved_bytes_total"


@pytest.fixture(scope="module")
def site(lab):
    made = tunnelkit.Site(lab, "--tunnel.compress", "true", *tunnelkit.INGRESS_OPTIONS)
    made.server = made.backend(made.nodes[0], "server", "--stream", "7500", "--tcp", "7600")
    yield made
    made.logs()


def test_transfers_are_whole(site):
    """Half of them begin as text and go on as noise."""
    assert Transfers(site.hub.machine, "edge-1:7500").results() == {"whole": 10}


def test_text_is_smaller(site):
    lines = b"".join(b"2026-11-21T12:00:%02dZ info dns: asked name=web-%d\n" % (i % 60, i) for i in range(20000))
    ends = site.hub, site.agents[0]
    saved = [d.metrics()[SAVED] for d in ends]
    with connect(site.hub.machine, "edge-1:7600") as s:
        s.settimeout(PATIENCE_S)
        got = b""
        while not got.endswith(b"\n"):  # its name
            got += s.recv(100)
        got, sent = b"", 0
        while len(got) < len(lines):
            if sent < len(lines):
                sent += s.send(lines[sent:sent + 20000])
            got += s.recv(1 << 16)
        s.shutdown(socket.SHUT_WR)
        assert got == lines
    for d, before in zip(ends, saved):
        wait_for("both tell", lambda d=d, before=before: d.metrics()[SAVED] - before > len(lines))  # a half at least, of both ways
