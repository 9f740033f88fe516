"""Endpoints that break HTTP/2's rules, or use all that it lets them do: what their client gets, and that others get it no worse.

A response that is malformed before its head has passed is 502 with a reason; afterwards the stream is reset, so that nobody takes it for whole.
"""
import collections
import random

import pytest

from h2bed import PEER, Bed
from h2kit import (CONTINUATION, DATA, ENABLE_PUSH, END_HEADERS, END_STREAM, HEADER_TABLE_SIZE, HEADERS, INITIAL_WINDOW_SIZE,
                   MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE, PADDED, PING, PREFACE, PUSH_PROMISE, SETTINGS, Http2, block, data, frame,
                   goaway, headers, long_headers, random_frames, request, rst, settings, window)

Case = collections.namedtuple("Case", "section what said must")
OK = [(":status", "200")]
HEAD = headers(1, OK, END_HEADERS)
S, FIN = settings(), b"FIN"
BAD = {"502"} | ({"RST INTERNAL_ERROR", "RST REFUSED_STREAM"} if PEER else set())  # nghttpx has no word for it
CUT = {"200, RST PROTOCOL_ERROR", "200, RST INTERNAL_ERROR"}
BAD_OR_CUT = BAD | CUT | {"RST PROTOCOL_ERROR", "RST INTERNAL_ERROR"}  # a head that has gone to the codec may be dropped with what follows it
WELL = {"200"}


def answer(*fields, flags=END_STREAM | END_HEADERS):
    return S + headers(1, fields, flags)


def with_length(n, *more):
    return S + headers(1, [*OK, ("content-length", str(n))], END_HEADERS) + b"".join(more)


ANSWERS = [
    Case("3.4", "another protocol", b"SSH-2.0-OpenSSH_9.2\r\n", BAD),
    Case("3.4", "no SETTINGS first", HEAD + data(1), BAD | WELL),
    Case("4.1", "an unknown frame first", S + frame(0xbb, 0, 1, b"x") + HEAD + data(1), WELL),
    Case("4.2", "a frame that is too large", S + HEAD + frame(DATA, END_STREAM, 1, b"x" * 16385), BAD_OR_CUT | {"200, RST FRAME_SIZE_ERROR"}),
    Case("4.3", "fields that cannot be decoded", S + frame(HEADERS, 5, 1, b"\xff" * 12), BAD),
    Case("5.1", "DATA before its head", S + data(1, b"x"), BAD),
    Case("5.1", "a stream that nobody opened", S + headers(7, OK), BAD),
    Case("5.1", "CONTINUATION out of nowhere", S + frame(CONTINUATION, END_HEADERS, 1, block(OK)), BAD),
    Case("6.5", "SETTINGS of 3 bytes", frame(SETTINGS, 0, 0, b"\0\3\0"), BAD),
    Case("6.5.2", "ENABLE_PUSH 1 from a server", settings({ENABLE_PUSH: 1}) + HEAD + data(1), BAD | WELL),
    Case("6.5.2", "INITIAL_WINDOW_SIZE 2^31", settings({INITIAL_WINDOW_SIZE: 1 << 31}), BAD),
    Case("6.5.2", "MAX_FRAME_SIZE 0", settings({MAX_FRAME_SIZE: 0}), BAD),
    Case("6.5.2", "a header table of nothing", settings({HEADER_TABLE_SIZE: 0}) + HEAD + data(1), WELL),
    Case("6.6", "PUSH_PROMISE", S + frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + block(request())) + HEAD + data(1), BAD),
    Case("6.7", "PING of 6 bytes", S + frame(PING, 0, 0, b"x" * 6), BAD),
    Case("6.9", "WINDOW_UPDATE of 0", S + window(0, 0), BAD),
    Case("6.9.1", "a window beyond 2^31-1", S + window(0, 0x7fffffff) + window(0, 0x7fffffff), BAD),
    Case("6.1", "DATA with padding", S + HEAD + frame(DATA, PADDED | END_STREAM, 1, b"\5hello" + b"\0" * 5), WELL),
    Case("6.1", "padding as long as the frame", S + HEAD + frame(DATA, PADDED | END_STREAM, 1, b"\6hello"), BAD_OR_CUT),
    Case("8.1", "DATA after the end", S + HEAD + data(1, b"x") + data(1, b"y"), BAD_OR_CUT | WELL),
    Case("8.1", "trailers that do not end it", S + HEAD + headers(1, [("x", "y")], END_HEADERS), BAD_OR_CUT),
    Case("8.1", "a pseudo-field in trailers", S + HEAD + data(1, b"x", 0) + headers(1, [(":status", "200")]), BAD_OR_CUT),
    Case("8.1", "a head in two frames", S + frame(HEADERS, 0, 1, block(OK)) + frame(CONTINUATION, END_HEADERS, 1, block([("x", "y")])) + data(1), WELL),
    Case("8.1", "103 that ends the stream", answer((":status", "103")), BAD),
    Case("8.1", "no end, and FIN", S + HEAD + data(1, b"x", 0) + FIN, BAD_OR_CUT | {"200, RST CANCEL"}),
    Case("8.1.1", "less than content-length", with_length(3, data(1, b"xy")), BAD_OR_CUT),
    Case("8.1.1", "more than content-length", with_length(1, data(1, b"xy")), BAD_OR_CUT),
    Case("8.1.1", "trailers before content-length", with_length(3, data(1, b"x", 0), headers(1, [("x", "y")])), BAD_OR_CUT),
    *[Case("8.1.1", f"content-length {v!r}", with_length(v, data(1, b"x")), BAD) for v in ("+1", "-1", "x", "", "1, 2", "9" * 20)],
    Case("8.1.1", "two lengths", S + headers(1, [*OK, ("content-length", "1"), ("content-length", "2")], END_HEADERS) + data(1, b"x"), BAD),
    *[Case("8.2.1", f"the name {n!r}", answer(*OK, (n, "v")), BAD) for n in (b"X-Upper", b"x y", b"x\0", b"x\n", b"x:y", b"")],
    *[Case("8.2.1", f"the value {v!r}", answer(*OK, ("x", v)), BAD) for v in (b"a\0b", b"a\rb", b"a\nb")],
    *[Case("8.2.2", f"{n}: {v}", answer(*OK, (n, v)), BAD)
      for n, v in (("connection", "close"), ("keep-alive", "timeout=5"), ("proxy-connection", "close"), ("transfer-encoding", "chunked"),
                   ("upgrade", "h2c"))],
    Case("8.3", "a request's pseudo-field", answer(*OK, (":path", "/")), BAD),
    Case("8.3", "a pseudo-field after another field", answer(("x", "y"), *OK), BAD),
    Case("8.3.2", "no :status", answer(("x", "y")), BAD),
    Case("8.3.2", ":status twice", answer(*OK, *OK), BAD),
    *[Case("8.3.2", f":status {s!r}", answer((":status", s)), BAD) for s in ("", "20", "2000", "abc", "099", "20x", "-20")],
    Case("8.6", "101", answer((":status", "101"), flags=END_HEADERS), BAD),
    Case("10.5.1", "a head of 100 KB", S + long_headers(1, [*OK, *[("x", "a" * 10000)] * 10]), BAD),
    Case("10.5.1", "10 000 fields", S + long_headers(1, [*OK, *[("x", "y")] * 10000]), BAD),
    Case("4.3", "a small head that becomes 16 MB", S + frame(HEADERS, 5, 1, block(OK) + b"\x40\1x\x7f\xa1\x1e" + b"y" * 4000 + b"\xbe" * 4000), BAD),
    Case("8.1", "204 without an end, then DATA", S + headers(1, [(":status", "204")], END_HEADERS) + data(1, b"x"),
         BAD_OR_CUT | {"204", "204, RST PROTOCOL_ERROR", "204, RST INTERNAL_ERROR"}),
]

# What it says in the middle of an answer that is under way; the client has its head.
MIDDLE = [
    *[Case("7", f"RST_STREAM {c}", rst(1, c), {f"200, RST {c}"}) for c in ("CANCEL", "INTERNAL_ERROR", "ENHANCE_YOUR_CALM", "REFUSED_STREAM", 0xff)],
    *[Case("7", f"RST_STREAM {c}", rst(1, c), {"200, RST INTERNAL_ERROR"} | CUT) for c in ("NO_ERROR", "PROTOCOL_ERROR", "FLOW_CONTROL_ERROR")],
    Case("8.1", "the connection ends", FIN, {"200, RST INTERNAL_ERROR", "200, RST CANCEL", "200, RST PROTOCOL_ERROR"}),
    Case("6.8", "GOAWAY, and the answer goes on", goaway(1) + data(1), WELL),
    Case("6.8", "GOAWAY with an error, and the end", goaway(1, "INTERNAL_ERROR") + FIN, {"200, RST INTERNAL_ERROR", "200, RST CANCEL", "200, RST PROTOCOL_ERROR"}),
    Case("6.1", "DATA on stream 0", data(0, b"x"), CUT),
    Case("6.5", "new SETTINGS, and the answer goes on", settings({INITIAL_WINDOW_SIZE: 1, MAX_CONCURRENT_STREAMS: 0}) + data(1), WELL),
    Case("8.1.2", "trailers", headers(1, [("x-sum", "1")]), WELL),
    Case("6.1", "empty DATA, then the end", data(1, b"", 0) * 50 + data(1), WELL),
]


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab)
    yield bed
    if bed.agent:
        print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    made.clear()


def name_of(case):
    return f"{case.section} {case.what}".replace("/", "|")[:90]


def told(reply):
    return f"{reply.status}, RST {reply.reset}" if reply.status and reply.reset else f"RST {reply.reset}" if reply.reset else str(reply.status)


@pytest.mark.parametrize("case", ANSWERS, ids=name_of)
def test_what_it_answers(bed, case):
    """To a POST, which is sent to one endpoint once."""
    client = bed.client()
    stream = client.ask("/x", "POST", body=b"hi")
    end = Http2(bed.ends[0].accept(), server=True)
    end.wire.expect(PREFACE)
    said = case.said.removesuffix(FIN)
    if said.startswith(S):  # who waits for SETTINGS has asked then
        end.put(S).head()
        said = said[len(S):]
    end.put(said)
    if case.said.endswith(FIN):
        end.wire.shut()
    reply = client.reply(stream)
    assert told(reply) in case.must
    if reply.status == 502 and bed.agent:
        assert len(reply.body.strip().splitlines()) == 1
    if reply.status == 200 and not reply.reset:
        assert reply.body in (b"", b"x", b"hello")
    end.wire.close()
    still_well(bed, client)


@pytest.mark.parametrize("case", MIDDLE, ids=name_of)
def test_in_the_middle(bed, case):
    client, stream, end, there, _ = bed.pair(method="POST", path="/x", body=b"hi")
    assert there == 1
    end.put(headers(1, OK, END_HEADERS), data(1, b"begun", 0))
    head, first = client.event(stream), client.event(stream)
    assert dict(head.fields)[":status"] == "200" and first.bytes == b"begun"
    end.put(case.said.removesuffix(FIN))
    if case.said.endswith(FIN):
        end.wire.shut()
    body, trailers, reset = client.rest(stream)
    assert (f"200, RST {reset}" if reset else "200") in case.must
    end.wire.close()
    still_well(bed, client)


def still_well(bed, client):
    """The client's connection stays, and the endpoint is called again, once it is seen that its connection has ended."""
    stream = client.ask("/after")
    while not bed.ends[0].called(0.05):
        client.quiet(0.0)
        if client.got[stream]:
            assert client.reply(stream).status == 502
            stream = client.ask("/after")
    end = bed.accept()
    there, _ = end.head()
    end.answer(there, b"after")
    assert client.reply(stream).body == b"after"


@pytest.mark.parametrize("said,code", [
    (settings({INITIAL_WINDOW_SIZE: 1 << 31}), "FLOW_CONTROL_ERROR"), (S + frame(HEADERS, 5, 1, b"\xff" * 12), "COMPRESSION_ERROR"),
    (S + frame(PING, 0, 0, b"x"), "FRAME_SIZE_ERROR"), (S + frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + block(request())), "PROTOCOL_ERROR")])
def test_it_is_told_what_it_did(bed, said, code):
    client, stream, end, _, _ = bed.pair(method="POST", body=b"hi")
    end.wire.put(said[len(S):] if said.startswith(S) else said)
    assert told(client.reply(stream)) in BAD
    assert end.until_closed().goaways[-1][1] == code


def test_one_stream_at_a_time(bed):
    """MAX_CONCURRENT_STREAMS 1, known from a first answer on: the next requests go by connections of their own, or one after the other."""
    client = bed.client()
    ends, streams, answered = [], [client.ask("/first")], 0
    while answered < 5:
        if bed.ends[0].called(0.05):
            ends.append(bed.accept(settings={MAX_CONCURRENT_STREAMS: 1}))
        for end in ends:
            end.quiet(0.05)
            assert len(end.new) <= 1
            while end.new:
                end.answer(end.new.popleft())
                answered += 1
        if len(streams) == 1 and answered:
            assert client.reply(streams[0]).status == 200
            streams = [client.ask(f"/{i}") for i in range(4)]
    assert [client.reply(s).status for s in streams] == [200] * 4


def test_no_stream_at_all(bed):
    """MAX_CONCURRENT_STREAMS 0 is no answer: the client is told in time."""
    client = bed.client("patient" if bed.agent else "one")
    stream = client.ask("/", "POST", body=b"hi")
    end = bed.accept(settings={MAX_CONCURRENT_STREAMS: 0})
    end.quiet(0.3)
    for there in end.new:
        end.put(rst(there, "REFUSED_STREAM"))
    reply = client.reply(stream)
    assert reply.status in (502, 503, 504) or reply.reset == "REFUSED_STREAM"


def test_shut_windows(bed):
    """INITIAL_WINDOW_SIZE 0: a body is held back until there is room, and then comes as the room does."""
    client = bed.client()
    stream = client.ask("/", "POST", end=False)
    end = bed.accept(settings={INITIAL_WINDOW_SIZE: 0})
    there, _ = end.head()
    end.stalled.add(there)
    end.event(there)
    client.send(stream, b"0123456789")
    end.quiet()
    assert not any(e.bytes for e in end.got[there])
    for i in range(10):
        end.put(window(there, 1))
        assert end.event(there).bytes == b"%d" % i
    end.answer(there)
    assert client.reply(stream).status == 200


def test_settings_that_change(bed):
    """A window that shrinks below what is on its way, and opens again."""
    client = bed.client()
    stream = client.ask("/", "POST", end=False)
    end = bed.accept()
    there, _ = end.head()
    end.event(there)
    end.stalled.add(there)
    client.send(stream, b"x" * 30000, end=False)
    got = 0
    while got < 30000:
        got += len(end.event(there).bytes)
    end.put(settings({INITIAL_WINDOW_SIZE: 1000}))  # 29 000 below zero
    end.alive()
    client.send(stream, b"y" * 5000)
    end.quiet()
    assert not any(e.bytes for e in end.got[there])
    end.put(window(there, 29000 + 5000))
    body, _, reset = end.rest(there)
    assert body == b"y" * 5000 and reset is None
    end.answer(there)
    assert client.reply(stream).status == 200


@pytest.mark.parametrize("status,length", [("200", "5"), ("200", None), ("404", "5")])
def test_head(bed, status, length):
    """An answer to HEAD has no body, whatever its length says."""
    client, stream, end, there, fields = bed.pair(method="HEAD")
    assert fields[":method"] == "HEAD"
    end.put(headers(there, [(":status", status), *([("content-length", length)] if length else [])]))
    reply = client.reply(stream)
    assert (reply.status, reply.fields.get("content-length"), reply.body, reply.reset) == (int(status), length, b"", None)


@pytest.mark.parametrize("status", ["204", "304"])
def test_without_a_body(bed, status):
    client, stream, end, there, _ = bed.pair()
    end.put(headers(there, [(":status", status), ("etag", "x")]))
    reply = client.reply(stream)
    assert (reply.status, reply.fields["etag"], reply.body, reply.reset) == (int(status), "x", b"", None)


def test_an_early_answer(bed):
    """The whole answer, then RST_STREAM NO_ERROR: the rest of the body is not wanted (RFC 9113 section 8.1)."""
    client, stream, end, there, _ = bed.pair(method="POST", end=False)
    end.put(headers(there, [(":status", "413")], END_HEADERS), data(there, b"too much"), rst(there, "NO_ERROR"))
    reply = client.reply(stream)
    assert (reply.status, reply.body) == (413, b"too much")
    client.quiet(0.3)
    assert all(e.code in ("NO_ERROR", "CANCEL") for e in client.got[stream])
    assert client.alive()


def test_bytes_that_nobody_asked_for(bed):
    """An answer to the next request before it is made is nobody's."""
    client, stream, end, there, _ = bed.pair()
    end.answer(there, b"first")
    assert client.reply(stream).body == b"first"
    end.put(headers(there + 2, OK, END_HEADERS), data(there + 2, b"poison"))
    stream = client.ask("/second")
    end = bed.accept()
    there, fields = end.head()
    end.answer(there, b"second")
    assert client.reply(stream).body == b"second"


def test_anything(bed):
    """Whatever an endpoint says, frame by frame: its client is answered or its stream is reset, and the next one is served."""
    chance = random.Random(9113)
    for i in range(200):
        client = bed.client()
        stream = client.ask("/x", "POST", body=b"hi")
        end = bed.accept()
        end.head()
        end.put(*random_frames(chance, [*OK, ("x-some", "thing")], 15))
        end.wire.close(hard=chance.random() < 0.3)
        while not client.got[stream]:
            client.quiet(0.02)
            if bed.ends[0].called():  # once more, if it said that it had done nothing
                bed.ends[0].accept(speaks=False).close()
        reply = client.reply(stream)
        assert reply.status in (200, 502, 503) or reply.reset, reply
        bed.clear()
    client = bed.client()
    still_well(bed, client)
