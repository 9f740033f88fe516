"""What a client may not say, and what a proxy must take, case by case (RFC 9113, RFC 7541): the cases of h2spec, written from the documents.

A connection error is a GOAWAY with the code, and the end of the connection; a stream error is RST_STREAM, which leaves the
connection as it is, or is taken for a connection error (RFC 9113 section 5.4.1), or answered with 400 (section 8.1.1). In none of
these cases does an endpoint get a whole request.
"""
import collections

import pytest

from h2bed import Bed
from h2kit import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENABLE_PUSH, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, PADDED, PING,
                   PRIORITISED, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Origin, block, data, frame, goaway, headers, number, ping, request,
                   rst, settings, window)

Case = collections.namedtuple("Case", "section what sent must stream", defaults=[1])  # stream: whose answer is meant


def goes(*codes):
    """A connection error."""
    return {f"GOAWAY {c}" for c in codes}


def resets(*codes):
    """A stream error."""
    return {f"RST {c}" for c in codes} | goes(*codes)


MALFORMED = resets("PROTOCOL_ERROR") | {"400"}  # section 8.1.1
SERVED = {"200"}
IGNORED = {"ignored"}
PROTOCOL, SIZE, CLOSED, FLOW, PACKING = (goes(f"{c}_ERROR") if c != "STREAM_CLOSED" else goes(c)
                                         for c in ("PROTOCOL", "FRAME_SIZE", "STREAM_CLOSED", "FLOW_CONTROL", "COMPRESSION"))

GET, POST = headers(1, request()), headers(1, request(method="POST"), END_HEADERS)
GET3 = headers(3, request())
OPEN = headers(1, request(method="POST"), 0)  # the header section goes on
FIELDS = block(request())
EMPTY_PRIORITY = b"\0\0\0\0\x10"


def of(stream, fields, *more):
    return [headers(stream, fields), *more]


def without(name):
    return [f for f in request() if f[0] != name]


def with_length(n, *pieces):
    return [headers(1, request("/", "POST", ("content-length", str(n))), END_HEADERS),
            *[data(1, p, END_STREAM if i == len(pieces) - 1 else 0) for i, p in enumerate(pieces)]]


FRAMES = [
    Case("4.1", "a frame of an unknown type", [frame(0xbb, 0xff, 0, b"x" * 8), GET], SERVED),
    Case("4.1", "an unknown type on a stream", [POST, frame(0xbb, 0, 1, b"x"), data(1)], SERVED),
    Case("4.1", "flags without a meaning", [ping(flags=0xfe), headers(1, request(), END_STREAM | END_HEADERS | 0x52)], SERVED),
    Case("4.1", "the reserved bit", [frame(HEADERS, 5, 1 | 1 << 31, FIELDS)], SERVED),
    Case("4.2", "DATA of 2^14 bytes", [POST, data(1, b"x" * 16384)], SERVED),
    Case("4.2", "DATA that is larger", [POST, data(1, b"x" * 16385)], resets("FRAME_SIZE_ERROR")),
    Case("4.2", "HEADERS that are larger", [headers(1, request("/", "GET", *[("x-dummy", "x" * 4000)] * 5))], SIZE),
    Case("4.3", "fields that cannot be decoded", [frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")], PACKING),
    Case("4.3", "PRIORITY within a header section", [OPEN, frame(PRIORITY, 0, 1, EMPTY_PRIORITY)], PROTOCOL),
    Case("4.3", "another stream's HEADERS within one", [OPEN, GET3], PROTOCOL),
    Case("5.1", "idle: DATA", [data(1, b"x")], PROTOCOL),
    Case("5.1", "idle: RST_STREAM", [rst(1)], PROTOCOL),
    Case("5.1", "idle: WINDOW_UPDATE", [window(1, 100)], PROTOCOL),
    Case("5.1", "idle: CONTINUATION", [frame(CONTINUATION, END_HEADERS, 1, FIELDS)], PROTOCOL),
    Case("5.1", "half-closed: DATA", [GET, data(1, b"x")], resets("STREAM_CLOSED")),
    Case("5.1", "half-closed: HEADERS", [GET, GET], resets("STREAM_CLOSED") | PROTOCOL),
    Case("5.1", "half-closed: CONTINUATION", [GET, frame(CONTINUATION, END_HEADERS, 1, FIELDS)], resets("STREAM_CLOSED") | PROTOCOL),
    Case("5.1", "closed by RST_STREAM: DATA", [POST, rst(1), data(1, b"x")], resets("STREAM_CLOSED") | IGNORED),
    Case("5.1", "closed by RST_STREAM: HEADERS", [POST, rst(1), GET], resets("STREAM_CLOSED") | PROTOCOL | IGNORED),
    Case("5.1", "closed by RST_STREAM: CONTINUATION", [POST, rst(1), frame(CONTINUATION, END_HEADERS, 1, FIELDS)], CLOSED | PROTOCOL),
    Case("5.1", "closed by RST_STREAM: WINDOW_UPDATE", [POST, rst(1), window(1, 1)], IGNORED),
    Case("5.1.1", "an even number", [headers(2, request())], PROTOCOL),
    Case("5.1.1", "a number that is lower", [headers(5, request()), GET3], PROTOCOL | CLOSED | IGNORED, 3),  # nghttp2 remembers no stream that is closed
    Case("5.3.2", "a stream that depends on itself", [frame(HEADERS, 0x25, 1, b"\0\0\0\1\x10" + FIELDS)], MALFORMED | SERVED),
    Case("5.3.2", "PRIORITY of itself", [frame(PRIORITY, 0, 1, b"\0\0\0\1\x10"), GET], resets("PROTOCOL_ERROR") | SERVED),
    Case("5.5", "an unknown frame within a header section", [OPEN, frame(0xbb, 0, 1, b"x")], PROTOCOL),
    Case("6.1", "DATA on stream 0", [data(0, b"x")], PROTOCOL),
    Case("6.1", "DATA with padding", [POST, frame(DATA, PADDED | END_STREAM, 1, b"\5hello\0\0\0\0\0")], SERVED),
    Case("6.1", "padding as long as the frame", [POST, frame(DATA, PADDED | END_STREAM, 1, b"\6hello")], PROTOCOL),
    Case("6.1", "PADDED, and not a byte", [POST, frame(DATA, PADDED | END_STREAM, 1)], PROTOCOL | SIZE),
    Case("6.2", "HEADERS on stream 0", [headers(0, request())], PROTOCOL),
    Case("6.2", "HEADERS with padding", [frame(HEADERS, 5 | PADDED, 1, b"\3" + FIELDS + b"\0\0\0")], SERVED),
    Case("6.2", "HEADERS with a priority", [frame(HEADERS, 5 | PRIORITISED, 1, b"\x80\0\0\0\xff" + FIELDS)], SERVED),
    Case("6.2", "padding longer than the frame", [frame(HEADERS, 5 | PADDED, 1, bytes([len(FIELDS) + 1]) + FIELDS)], PROTOCOL),
    Case("6.2", "a priority that is cut", [frame(HEADERS, 5 | PRIORITISED, 1, b"\0\0")], SIZE | PROTOCOL),
    Case("6.3", "PRIORITY on stream 0", [frame(PRIORITY, 0, 0, EMPTY_PRIORITY)], PROTOCOL),
    Case("6.3", "PRIORITY of 4 bytes", [POST, frame(PRIORITY, 0, 1, b"\0\0\0\0")], resets("FRAME_SIZE_ERROR")),
    Case("6.3", "PRIORITY of an idle stream", [frame(PRIORITY, 0, 7, b"\0\0\0\5\x10"), GET], SERVED),
    Case("6.4", "RST_STREAM on stream 0", [rst(0)], PROTOCOL),
    Case("6.4", "RST_STREAM of 3 bytes", [POST, frame(RST_STREAM, 0, 1, b"\0\0\0")], SIZE),
    Case("6.4", "RST_STREAM with an unknown code", [POST, rst(1, 0xff), GET3], SERVED, 3),
    Case("6.5", "an acknowledgement with a payload", [frame(SETTINGS, ACK, 0, b"\0")], SIZE),
    Case("6.5", "SETTINGS on a stream", [frame(SETTINGS, 0, 1, b"\0\3\0\0\0\x64")], PROTOCOL),
    Case("6.5", "SETTINGS of 3 bytes", [frame(SETTINGS, 0, 0, b"\0\3\0")], SIZE),
    Case("6.5.2", "ENABLE_PUSH 2", [settings({ENABLE_PUSH: 2})], PROTOCOL),
    Case("6.5.2", "INITIAL_WINDOW_SIZE 2^31", [settings({INITIAL_WINDOW_SIZE: 1 << 31})], FLOW),
    Case("6.5.2", "MAX_FRAME_SIZE below 2^14", [settings({MAX_FRAME_SIZE: 16383})], PROTOCOL),
    Case("6.5.2", "MAX_FRAME_SIZE of 2^24", [settings({MAX_FRAME_SIZE: 1 << 24})], PROTOCOL),
    Case("6.5.2", "a setting that nobody knows", [settings({0xff: 1}), GET], SERVED),
    Case("6.5.3", "the last of a setting's values counts", [frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0\0\4\0\0\0\x64"), GET], SERVED),
    Case("6.6", "PUSH_PROMISE from a client", [POST, frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + FIELDS)], PROTOCOL),
    Case("6.7", "PING on a stream", [frame(PING, 0, 1, b"x" * 8)], PROTOCOL),
    Case("6.7", "PING of 6 bytes", [frame(PING, 0, 0, b"x" * 6)], SIZE),
    Case("6.7", "a PING's answer that nobody asked for", [ping(flags=ACK)], IGNORED),
    Case("6.8", "GOAWAY on a stream", [frame(GOAWAY, 0, 1, b"\0" * 8)], PROTOCOL),
    Case("6.8", "GOAWAY of 7 bytes", [frame(GOAWAY, 0, 0, b"\0" * 7)], SIZE),
    Case("6.9", "WINDOW_UPDATE of 0", [window(0, 0)], PROTOCOL),
    Case("6.9", "WINDOW_UPDATE of 0 on a stream", [POST, window(1, 0)], resets("PROTOCOL_ERROR")),
    Case("6.9", "WINDOW_UPDATE of 3 bytes", [frame(WINDOW_UPDATE, 0, 0, b"\0\0\1")], SIZE),
    Case("6.9.1", "a connection's window beyond 2^31-1", [window(0, 0x7fffffff), window(0, 0x7fffffff)], FLOW),
    Case("6.9.1", "a stream's window beyond 2^31-1", [POST, window(1, 0x7fffffff), window(1, 0x7fffffff)], resets("FLOW_CONTROL_ERROR")),
    Case("6.9.2", "SETTINGS that take an open window beyond it", [POST, window(1, 0x7fff0000), settings({INITIAL_WINDOW_SIZE: 0x7fffffff})], resets("FLOW_CONTROL_ERROR")),
    Case("6.10", "two CONTINUATIONs", [headers(1, request()[:2], END_STREAM), frame(CONTINUATION, 0, 1, block(request()[2:])),
                                       frame(CONTINUATION, END_HEADERS, 1, block([("x", "y")]))], SERVED),
    Case("6.10", "a field cut in two", [frame(HEADERS, END_STREAM, 1, FIELDS[:9]), frame(CONTINUATION, END_HEADERS, 1, FIELDS[9:])], SERVED),
    Case("6.10", "an empty HEADERS before it", [frame(HEADERS, END_STREAM, 1), frame(CONTINUATION, END_HEADERS, 1, FIELDS)], SERVED),
    Case("6.10", "CONTINUATION, then DATA", [OPEN, frame(CONTINUATION, 0, 1, block([("x", "y")])), data(1, b"x")], PROTOCOL),
    Case("6.10", "CONTINUATION on stream 0", [OPEN, frame(CONTINUATION, END_HEADERS, 0, FIELDS)], PROTOCOL),
    Case("6.10", "CONTINUATION of another stream", [OPEN, frame(CONTINUATION, END_HEADERS, 3, FIELDS)], PROTOCOL),
    Case("6.10", "CONTINUATION after the end", [POST, frame(CONTINUATION, END_HEADERS, 1, FIELDS)], PROTOCOL),
    Case("6.10", "CONTINUATION after DATA", [POST, data(1, b"x", 0), frame(CONTINUATION, END_HEADERS, 1, FIELDS)], PROTOCOL),
    Case("7", "GOAWAY with an unknown code", [GET, goaway(0, 0xff)], {"200", "closed", "GOAWAY NO_ERROR"}),
    Case("6.8", "GOAWAY, and what is under way is answered", [GET, goaway(0)], SERVED),
]

FIELDS_TABLE = [
    Case("8.1", "a second HEADERS that does not end it", [POST, headers(1, [("x", "y")], END_HEADERS), data(1)], MALFORMED),
    Case("8.1", "trailers", [POST, data(1, b"x", 0), headers(1, [("x-sum", "1")])], SERVED),
    Case("8.1", "a pseudo-field in trailers", [POST, data(1, b"x", 0), headers(1, [(":path", "/")])], MALFORMED),
    Case("8.1.1", "a length that DATA does not reach", with_length(1, b""), MALFORMED),
    Case("8.1.1", "a length that DATA exceeds", with_length(1, b"xyz"), MALFORMED),
    Case("8.1.1", "two DATA that exceed it", with_length(3, b"xy", b"zz"), MALFORMED),
    Case("8.1.1", "a length, and no DATA", [headers(1, request("/", "POST", ("content-length", "1")))], MALFORMED),
    Case("8.1.1", "a length that fits", with_length(3, b"xy", b"z"), SERVED),
    *[Case("8.1.1", f"content-length {v!r}", [headers(1, request("/", "POST", ("content-length", v)), END_HEADERS), data(1, b"x")], MALFORMED)
      for v in ("+1", "-1", "x", "", "1, 2", "99999999999999999999")],
    Case("8.1.1", "two lengths", [headers(1, request("/", "POST", ("content-length", "1"), ("content-length", "2")), END_HEADERS), data(1, b"x")], MALFORMED),
    *[Case("8.2.1", f"the name {n!r}", of(1, request("/", "GET", (n, "v"))), MALFORMED)
      for n in (b"X-Upper", b"x y", b"x\0", b"x\r", b"x\n", b"x:y", b"x\x7f", b"x\xff", b":")],
    Case("8.2.1", "a name of no byte", of(1, request("/", "GET", (b"", "v"))), MALFORMED | PACKING),
    *[Case("8.2.1", f"the value {v!r}", of(1, request("/", "GET", ("x", v))), MALFORMED) for v in (b"a\0b", b"a\rb", b"a\nb", b"a\r\nb: c")],
    *[Case("8.2.1", f"blanks around the value {v!r}", of(1, request("/", "GET", ("x", v))), MALFORMED | SERVED) for v in (b" a", b"a ", b"\ta")],
    *[Case("8.2.2", f"{n}: {v}", of(1, request("/", "GET", (n, v))), MALFORMED)
      for n, v in (("connection", "keep-alive"), ("connection", "close"), ("keep-alive", "timeout=5"), ("proxy-connection", "keep-alive"),
                   ("transfer-encoding", "chunked"), ("upgrade", "h2c"), ("te", "trailers, deflate"), ("te", "gzip"))],
    Case("8.2.2", "te: trailers", of(1, request("/", "GET", ("te", "trailers"))), SERVED),
    Case("8.2.3", "a cookie in two fields", of(1, request("/", "GET", ("cookie", "a=b"), ("cookie", "c=d"))), SERVED),
    Case("8.3", "a pseudo-field that nobody knows", of(1, request("/", "GET", (":test", "x"))), MALFORMED),
    Case("8.3", "a response's pseudo-field", of(1, request("/", "GET", (":status", "200"))), MALFORMED),
    Case("8.3", "a pseudo-field after another field", of(1, [("x", "y"), *request()]), MALFORMED),
    Case("8.3", "one pseudo-field after another field", of(1, [*request()[:3], ("x", "y"), request()[3]]), MALFORMED),
    *[Case("8.3.1", f"no {n}", of(1, without(n)), MALFORMED) for n in (":method", ":scheme", ":path")],
    *[Case("8.3.1", f"{f[0]} twice", of(1, [f, *request()]), MALFORMED) for f in request()],
    *[Case("8.3.1", f":path {p!r}", of(1, request(p)), MALFORMED) for p in ("", "x", "*", "http://a/", "/a b", "/a\r\nx: y", "/a\0", "/#f")],
    *[Case("8.3.1", f":method {m!r}", of(1, request("/", m)), MALFORMED) for m in ("", "G T", "GET / HTTP/1.1\r\nX", "G\0T")],
    *[Case("8.3.1", f":authority {a!r}", of(1, request(authority=a)), MALFORMED) for a in ("u@web", "a b", "a/b", "a\r\nb", "a\0")],
    *[Case("8.3.1", f":scheme {s!r}", of(1, [(":method", "GET"), (":scheme", s), *request()[2:]]), MALFORMED) for s in ("", "ht tp", "http\r\n")],
    Case("8.3.1", "Host that contradicts :authority", of(1, request("/", "GET", ("host", "other"))), MALFORMED),
    Case("8.3.1", "Host that says the same", of(1, request("/", "GET", ("host", "web"))), SERVED),
    Case("8.3.1", "Host alone", of(1, [*without(":authority"), ("host", "web")]), SERVED),
    Case("8.3.1", "two Hosts", of(1, [*without(":authority"), ("host", "web"), ("host", "x")]), MALFORMED),
    Case("8.3.1", "neither Host nor :authority", of(1, without(":authority")), MALFORMED | SERVED),
    Case("8.3.1", "OPTIONS *", of(1, request("*", "OPTIONS")), SERVED),
    Case("8.5", "CONNECT", of(1, [(":method", "CONNECT"), (":authority", "web:80")]), {"405"}),
    Case("8.5", "CONNECT with :path", of(1, request("/", "CONNECT")), MALFORMED | {"405"}),
    Case("8.5", "CONNECT with :scheme", of(1, [(":method", "CONNECT"), (":scheme", "http"), (":authority", "web:80")]), MALFORMED | {"405"}),
    Case("8.5", "CONNECT without :authority", of(1, [(":method", "CONNECT")]), MALFORMED | {"405"}),
    Case("RFC 8441", ":protocol with another method", of(1, request("/", "GET", (":protocol", "websocket"))), MALFORMED),
    Case("RFC 8441", ":protocol twice", [headers(1, [(":protocol", "websocket"), *request("/", "CONNECT"), (":protocol", "x")], END_HEADERS)], MALFORMED),
    Case("RFC 8441", ":protocol without :path", [headers(1, [(":method", "CONNECT"), (":protocol", "websocket"), (":authority", "w")], END_HEADERS)], MALFORMED),
]


def hpack_case(section, what, raw, must):
    return Case(f"RFC 7541 {section}", what, [frame(HEADERS, 5, 1, FIELDS + raw)], must)


HPACK = [
    hpack_case("2.3.3", "an index beyond the tables", b"\xbf\0", PACKING),
    hpack_case("2.3.3", "an index beyond the tables, as a name", b"\x7f\1\1x", PACKING),
    hpack_case("4.2", "a new size behind fields", b"\x20", PACKING),
    hpack_case("5.1", "a number that never ends", b"\xff" + b"\xff" * 20, PACKING),
    hpack_case("5.2", "a text longer than the section", b"\0\x7f\x10x", PACKING),
    hpack_case("5.2", "Huffman's padding of 8 bits", b"\0\1x\x82\x1f\xff", PACKING),
    hpack_case("5.2", "Huffman's padding longer than 7 bits", b"\0\x85\xf2\xb2\x4a\x84\xff\x84\xf2\xb2\x4a\x84", PACKING),
    hpack_case("5.2", "Huffman's padding of zeros", b"\0\x85\xf2\xb2\x4a\x84\x80\x84\xf2\xb2\x4a\x84", PACKING),
    hpack_case("5.2", "Huffman's end of string", b"\0\x88\xf2\xb2\x4a\x84\xff\xff\xff\xff\x84\xf2\xb2\x4a\x84", PACKING),
    hpack_case("6.1", "index 0", b"\x80", PACKING),
    hpack_case("6.2.1", "a literal that is indexed", b"\x40\1x\1y\xbe", SERVED),
    hpack_case("6.2.2", "a literal that is not, its name from the table", b"\x0f\x2b\1y", SERVED),
    hpack_case("6.2.3", "a literal that never is", b"\x10\1x\1y", SERVED),
    Case("RFC 7541 6.3", "a size within SETTINGS", [frame(HEADERS, 5, 1, b"\x20\x3f\xe1\x1f" + FIELDS)], SERVED),
    Case("RFC 7541 6.3", "a size beyond SETTINGS", [frame(HEADERS, 5, 1, b"\x3f\xe1\xff\xff\x03" + FIELDS)], PACKING),
    Case("RFC 7541 4.1", "entries larger than the table empty it", [frame(HEADERS, 5, 1, FIELDS + b"\x40\1x\x7f\xa1\x1f" + b"y" * 4128 + b"\xbe")], PACKING),
    Case("RFC 7541 2.2", "a table is the connection's", [frame(HEADERS, 5, 1, FIELDS + b"\x40\1x\1y"), frame(HEADERS, 5, 3, FIELDS + b"\xbe")], SERVED, 3),
]


def name_of(case):
    return f"{case.section} {case.what}".replace("/", "|")[:90]


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab, Origin)
    yield bed
    if bed.agent:
        print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    for c in made.clients:
        c.close()
    made.clients = []


def judge(bed, case):
    """The verdict is the right one, and another client's connection stays as it is."""
    neighbour = bed.client()
    assert neighbour.reply(neighbour.ask("/neighbour")).status == 200
    client = bed.client()
    client.alive()  # the peer has seen our SETTINGS: what follows is judged by itself
    client.put(*case.sent)
    answered = any(m.isdigit() for m in case.must)
    assert client.verdict(case.stream, answered) in case.must
    assert neighbour.reply(neighbour.ask("/neighbour")).status == 200


@pytest.mark.parametrize("case", FRAMES, ids=name_of)
def test_frames(bed, case):
    judge(bed, case)


@pytest.mark.parametrize("case", FIELDS_TABLE, ids=name_of)
def test_fields(bed, case):
    before = len(bed.ends[0].whole)
    judge(bed, case)
    if "200" not in case.must:
        assert set(bed.ends[0].whole[before:]) == {"/neighbour"}


@pytest.mark.parametrize("case", HPACK, ids=name_of)
def test_hpack(bed, case):
    judge(bed, case)
