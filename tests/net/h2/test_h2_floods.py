"""Clients that cost more than they may: floods of frames that carry nothing, and header sections beyond all bounds.

Each is cut off within so many frames, the agent's memory stays where it was, and who shares the agent with them is served all the while.
"""
import contextlib
import random

import pytest

import h2kit
from h2bed import PEER, Bed, Memory
from h2kit import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PRIORITY, SETTINGS, Origin, block, data, frame, headers, long_headers, ping,
                   random_frames, request, rst, settings, window)
from lab import wait_for

pytestmark = pytest.mark.skipif(PEER is not None, reason="its own limits")

STEP, FRAMES_MAX = 500, 60000
TABLED = b"\x40\1x\x7f\xbd\x1d" + b"y" * 3900  # the newest entry of the table from now on: \xbe
GET = request()
POST = request(method="POST")


def on_each(*what):
    """A new stream each time: what is sent on it."""
    return lambda i: b"".join(w(2 * i + 3) for w in what)


FLOODS = {
    "rapid reset": on_each(lambda s: headers(s, GET), rst),
    "reset before the end": on_each(lambda s: headers(s, POST, END_HEADERS), rst),
    "made to reset": on_each(lambda s: headers(s, POST, END_HEADERS), lambda s: window(s, 0)),
    "made to reset by a window": on_each(lambda s: headers(s, GET), lambda s: window(s, 0x7fffffff)),
    "made to reset by data": on_each(lambda s: headers(s, [*POST, ("content-length", "1")], END_HEADERS), lambda s: data(s, b"xy", 0)),
    "made to reset by DATA after the end": on_each(lambda s: headers(s, GET), data),
    "made to reset by trailers": on_each(lambda s: headers(s, POST, END_HEADERS), lambda s: headers(s, [(":path", "/")])),
    "large heads from the table, and reset": lambda i: headers(2 * i + 3, raw=block(GET) + (TABLED if i == 0 else b"\xbe") + b"\xbe" * 6) + rst(2 * i + 3),
    "made to reset by a malformed request": on_each(lambda s: headers(s, GET[1:])),
    "PING": lambda i: ping(),
    "PING answers": lambda i: ping(flags=ACK),
    "SETTINGS": lambda i: settings(),
    "SETTINGS answers": lambda i: settings(flags=ACK),
    "SETTINGS of many values": lambda i: frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff" * 100),
    "WINDOW_UPDATE": lambda i: window(0, 1),
    "WINDOW_UPDATE of a stream": lambda i: window(1, 1),
    "PRIORITY": lambda i: frame(PRIORITY, 0, 2 * i + 3, b"\0\0\0\0\1"),
    "empty DATA": lambda i: data(1, b"", 0),
    "padding alone": lambda i: frame(DATA, 8, 1, b"\1\0"),
    "unknown frames": lambda i: frame(0xbb, 0, 0, b"x"),
    "RST_STREAM": lambda i: rst(1),
}
# What is no flood but an error of the connection.
ERRORS = {"made to reset": "PROTOCOL_ERROR", "made to reset by DATA after the end": "STREAM_CLOSED", "SETTINGS answers": "PROTOCOL_ERROR"}
SECTIONS = {
    "empty CONTINUATION": lambda i: frame(CONTINUATION, 0, 3),
    "CONTINUATION without an end": lambda i: frame(CONTINUATION, 0, 3, block([("x", "y" * 100)])),
    "large CONTINUATION": lambda i: frame(CONTINUATION, 0, 3, block([("x", "y" * 16000)])),
    "one byte each": lambda i: frame(CONTINUATION, 0, 3, b"\x82"),
}


class Strict(Origin):
    """Ends a connection at the 200th reset in it, as Netty does."""

    def take(self, h2, stream, event, under_way):
        super().take(h2, stream, event, under_way)
        h2.resets = getattr(h2, "resets", 0) + isinstance(event, h2kit.Reset)
        if h2.resets == 200:
            raise h2kit.Ended("rapid reset")


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab, Strict)
    yield bed
    print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    for c in made.clients:
        c.close()
    made.clients = []


def still_open(client):
    while client.ready():
        if not client.pump():
            return False
    client.got.clear()
    return True


def flood(bed, client, piece, paced=False):
    """Until it is cut off: after how many. paced: never more streams at once than may be, for each step is answered."""
    neighbour, memory, step = bed.client(), Memory(bed), 50 if paced else STEP
    for at in range(0, FRAMES_MAX, step):
        client.put(b"".join(piece(i) for i in range(at, at + step)))
        if paced and not client.pinged() or not still_open(client):
            assert memory.stays()
            assert neighbour.reply(neighbour.ask("/neighbour")).status == 200
            return at + step
        if at % 5000 == 0:
            assert neighbour.reply(neighbour.ask("/neighbour")).status == 200
    raise AssertionError(f"{FRAMES_MAX} were taken, and it holds {memory.grown_kb()} kB more")


@pytest.mark.parametrize("what", FLOODS)
def test_floods(bed, what):
    client = bed.client()
    client.alive()
    client.put(headers(1, POST, END_HEADERS))
    floods = bed.metric('errors_total{reason="http2_flood"}')
    errors = bed.metric('errors_total{reason="bad_request"}')
    flood(bed, client, FLOODS[what], paced=what.startswith("made"))
    client.until_closed()
    assert client.goaways[-1][1] == ERRORS.get(what, "ENHANCE_YOUR_CALM")
    assert bed.metric('errors_total{reason="http2_flood"}') == floods + (what not in ERRORS)
    assert bed.metric('errors_total{reason="bad_request"}') >= errors + (what in ERRORS)
    assert bed.agent.process.alive()


def test_rapid_resets_are_told(bed):
    """To the client and to the operator; half as many are nothing."""
    client = bed.client()
    client.alive()
    for i in range(1900):
        client.put(FLOODS["rapid reset"](i))
    assert client.alive()
    flood(bed, client, lambda i: FLOODS["rapid reset"](i + 1900))
    assert client.until_closed().goaways[-1][1] == "ENHANCE_YOUR_CALM"
    assert f"too many streams that it resets client={bed.client_pod.address}" in bed.agent.process.log()


def test_who_reads_no_answers(bed):
    """Streams above the limit are refused: each answer waits for a client that does not read."""
    memory, raw, neighbour = Memory(bed), bed.connect(), bed.client()
    floods = bed.metric('errors_total{reason="http2_flood"}')
    raw.put(h2kit.PREFACE, settings())
    sent = 0
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while sent < 400000:
            raw.put(b"".join(headers(2 * i + 1, POST, END_HEADERS) for i in range(sent, sent + STEP)))
            sent += STEP
    wait_for("it is cut", lambda: bed.metric('errors_total{reason="http2_flood"}') == floods + 1)  # what it still sends is dropped for a moment
    assert memory.stays()
    assert neighbour.reply(neighbour.ask("/neighbour")).status == 200


@pytest.mark.parametrize("what", SECTIONS)
def test_header_sections_without_an_end(bed, what):
    client = bed.client()
    client.alive()
    client.put(frame(HEADERS, END_STREAM, 3, block(GET)))
    flood(bed, client, SECTIONS[what])


def test_resets_reach_no_endpoint_for_ever(bed):
    """What is reset at once costs an endpoint no more than what the client is let."""
    end = bed.ends[0]
    before, client = len(end.broken) + len(end.whole), bed.client()
    client.alive()
    flood(bed, client, FLOODS["rapid reset"])
    assert len(end.broken) + len(end.whole) - before < FRAMES_MAX / 2


@pytest.mark.parametrize("code", ["CANCEL", "NO_ERROR"])
def test_resets_of_one_end_no_call_of_another(bed, code):
    """They share a session with the endpoint, which would end it."""
    neighbour, client, end = bed.client(), bed.client(), bed.ends[0]
    stream = neighbour.ask("/long", "POST", body=b"a", end=False)
    for at in range(0, 500, 50):
        broken = len(end.broken)
        streams = [client.ask(f"/{at}", "POST", end=False) for _ in range(50)]
        assert client.alive()
        client.put(*(rst(s, code) for s in streams))
        wait_for("they are reset there", lambda n=broken + 50: len(end.broken) >= n)
    neighbour.send(stream, b"b")
    assert neighbour.reply(stream)[:3:2] == (200, b"ab")


BOUNDS = {
    "a path of 20 000 bytes": ({414, 431}, long_headers(1, request("/" + "a" * 20000))),
    "a field of 40 000 bytes": ({431}, long_headers(1, request("/", "GET", ("x", "a" * 40000)))),
    "1 000 fields": ({431}, long_headers(1, request("/", "GET", *[("x", "y")] * 1000))),
    "a name of 40 000 bytes": ({431, 400}, long_headers(1, request("/", "GET", ("x" * 40000, "y")))),
    "a cookie in 1 000 fields": ({431}, long_headers(1, request("/", "GET", *[("cookie", "a=b")] * 1000))),
    "a section that becomes 16 MB": ({431}, frame(HEADERS, 5, 1, block(GET) + b"\x40\1x\x7f\xa1\x1e" + b"y" * 4000 + b"\xbe" * 4000)),
}


@pytest.mark.parametrize("what", BOUNDS)
def test_header_lists(bed, what):
    """Too large: an error that says so, or a reset, or the connection's end; and nothing of it for the endpoint."""
    statuses, sent = BOUNDS[what]
    client, whole, memory = bed.client(), len(bed.ends[0].whole), Memory(bed)
    client.alive()
    client.put(sent)
    verdict = client.verdict(1, answer=True)
    assert verdict in {str(s) for s in statuses} or verdict.startswith(("RST ", "GOAWAY ")), verdict
    assert len(bed.ends[0].whole) == whole and memory.stays()


def test_large_heads_that_pass(bed):
    """As large as HTTP/1 lets them be."""
    client = bed.client()
    client.put(long_headers(1, request("/large", "GET", ("x", "a" * 16000), *[("y", "z")] * 150)))
    assert client.reply(1).status == 200


def test_trailers_have_bounds(bed):
    client = bed.client()
    client.put(headers(1, POST, END_HEADERS), data(1, b"x", 0), long_headers(1, [("x", "a" * 10000)] * 20))
    verdict = client.verdict(1, answer=True)
    assert verdict in ("400", "431") or verdict.startswith(("RST ", "GOAWAY ")), verdict


def test_slow_heads(bed):
    """A header section has ten seconds, however it drips; who says nothing after the preface, hears a GOAWAY in the end or nothing."""
    client = bed.client()
    client.alive()
    client.put(frame(HEADERS, END_STREAM, 1, block(GET)))
    dripped = 0
    while not client.ready(1.0) or client.pump():
        client.put(frame(CONTINUATION, 0, 1, block([("x", "y")])))
        dripped += 1
        assert dripped < 100, "it may go on for ever"


@pytest.mark.parametrize("n", [300])
def test_streams_at_once(bed, n):
    """More than we announce: refused, and the rest is served."""
    client = bed.client()
    client.alive()
    most = client.settings.get(3, 1 << 31)
    assert most <= 1000
    streams = [client.ask("/", "POST", end=False) for _ in range(most + n)]
    client.alive()
    refused = [s for s in streams if any(getattr(e, "code", "") == "REFUSED_STREAM" for e in client.got[s])]
    assert len(refused) >= n or client.goaways
    if not client.goaways:
        client.send(streams[0], b"x")
        assert client.reply(streams[0]).status == 200


def test_many_connections_of_one_client(bed):
    """200 connections that do nothing beyond their SETTINGS; the neighbour is served, and memory stays small."""
    memory = Memory(bed)
    clients = [bed.client() for _ in range(200)]
    assert all(c.alive() for c in clients)
    assert clients[-1].reply(clients[-1].ask("/")).status == 200
    assert memory.stays(200 * 16), f"{memory.grown_kb() / 200} kB each"
    wait_for("they rest", lambda: bed.metric('memory_bytes{memory="own"}') < 200 * 8192)
    assert all(c.alive() for c in clients)


def test_anything(bed):
    """Whatever clients say, frame by frame: their neighbour is served, and the endpoint hears nothing that Origin cannot read."""
    neighbour, chance = bed.client(), random.Random(9113)
    for _ in range(400):
        client = bed.client()
        client.put(*random_frames(chance, request("/any", "POST"), 30))
        client.quiet(0.0)
        client.wire.close(hard=chance.random() < 0.5)
        bed.clients.remove(client.wire)
        if _ % 20 == 0:
            assert neighbour.reply(neighbour.ask("/neighbour")).status == 200
    assert bed.agent.process.alive() and not bed.ends[0].confused
