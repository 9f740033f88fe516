"""What a proxy of HTTP/2 owes both sides: a scenario for each duty. The test is client and endpoint at once, see h2kit.py."""
import re
import signal
import threading

import pytest

from h2bed import PEER, Bed, annotated
from h2kit import ENABLE_CONNECT_PROTOCOL, END_HEADERS, INITIAL_WINDOW_SIZE, Ended, Http2, Reset, data, goaway, headers, request, rst, settings, window
from httpkit import Endpoint
from lab import Agent, service, wait_for

ours = pytest.mark.skipif(PEER is not None, reason="what the agent alone does")
GRPC = ("content-type", "application/grpc"), ("te", "trailers")
GET1 = b"GET /x HTTP/1.1\r\nHost: web\r\n\r\n"
OK1 = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
KINDS = {"named-grpc": {"name": "grpc"}, "named-web": {"name": "grpc-web"}, "by-http": {"name": "a", "appProtocol": "http"},
         "by-h2c": {"name": "b", "appProtocol": "kubernetes.io/h2c"}, "by-grpc": {"name": "c", "appProtocol": "grpc"}}


def of_kind(name, more):
    made = service(name, ("", 80, 8080), selector="one")
    made["spec"]["ports"][0].update(more)
    return made


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab, objects=[*[of_kind(name, more) for name, more in KINDS.items()], service("plain", ("tcp", 80, 8080), selector="one"),
                            service("old", ("http", 80, 8081), selector="one")])
    yield bed
    if bed.agent:
        print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    made.clear()


def next_call(bed):
    """A request by a new connection, whichever endpoint gets it: (index, endpoint, its stream)."""
    sessions = []

    def called():
        bed.pump(sessions)
        return next(((i, end, end.head()[0]) for i, end in sessions if end.new), None)
    return wait_for("a request", called)


# --- what passes ------------------------------------------------------------------------------------


def test_fields(bed):
    """All of them in their order; what a proxy adds, it adds once."""
    client, stream, end, there, fields = bed.pair(("x-a", "1"), ("cookie", "a=b"), ("x-forwarded-for", "1.1.1.1"), ("te", "trailers"), ("x-a", "2"),
                                                  ("x-empty", ""), path="/p?q=%20")
    assert (fields[":method"], fields[":path"], fields[":authority"], fields[":scheme"]) == ("GET", "/p?q=%20", "web", "http")
    every = end.event(there).fields
    assert [f for f in every if f[0].startswith("x-a")] == [("x-a", "1"), ("x-a", "2")] and ("x-empty", "") in every and ("cookie", "a=b") in every
    if not PEER:
        assert fields["te"] == "trailers" and fields["cdn-loop"] == "edgeway" and re.fullmatch("[0-9a-f]{16}", fields["x-request-id"])
        assert [v for n, v in every if n == "x-forwarded-for"] == [f"1.1.1.1, {bed.client_pod.address}"]
    end.answer(there, b"ok", ("set-cookie", "a"), ("set-cookie", "b"), ("server", "lab"), ("x-empty", ""))
    got = client.event(stream).fields
    assert [f for f in got if f[0] == "set-cookie"] == [("set-cookie", "a"), ("set-cookie", "b")] and ("x-empty", "") in got
    assert PEER or ("server", "lab") in got
    assert client.rest(stream)[0] == b"ok"


@pytest.mark.skipif(PEER == "nginx", reason="knows no trailers of requests")
def test_trailers_both_ways(bed):
    client, stream, end, there, fields = bed.pair(*GRPC, method="POST", end=False)
    client.put(data(stream, b"up", 0), headers(stream, [("x-sum", "1"), ("x-more", "2")]))
    body, trailers, _ = end.body(there)
    assert (body, trailers) == (b"up", {"x-sum": "1", "x-more": "2"})
    end.answer(there, b"down", ("content-type", "application/grpc"), trailers=[("grpc-status", "0"), ("grpc-message", "fine")])
    reply = client.reply(stream)
    assert (reply.body, reply.trailers) == (b"down", {"grpc-status": "0", "grpc-message": "fine"})
    stream = client.ask("/", "POST", *GRPC, body=b"")
    there, _ = end.head()
    end.put(headers(there, [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "5")]))  # trailers-only
    reply = client.reply(stream)
    assert (reply.status, reply.fields["grpc-status"], reply.body) == (200, "5", b"")


@ours
def test_trailers_that_do_not_pass(bed):
    """What steers a message is no trailer (RFC 9110 section 6.5.1), as in HTTP/1."""
    client, stream, end, there, _ = bed.pair(method="POST", end=False)
    client.put(data(stream, b"hi", 0), headers(stream, [("x-forwarded-for", "10.0.0.1"), ("authorization", "Bearer x"), ("cdn-loop", "x"),
                                                         ("x-request-id", "1"), ("cookie", "a=b"), ("x-sum", "1")]))
    assert end.body(there) == (b"hi", {"x-sum": "1"}, None)
    end.answer(there, b"ok", trailers=[("set-cookie", "a=b"), ("content-type", "text/html"), ("grpc-status", "0")])
    assert client.reply(stream).trailers == {"grpc-status": "0"}


@pytest.mark.skipif(PEER == "nginx", reason="drops them")
def test_interim_answers(bed):
    """100 and 103, as often as the endpoint says them; a client that waits for 100 sends its body then."""
    client, stream, end, there, fields = bed.pair(("expect", "100-continue"), method="POST", end=False)
    end.put(headers(there, [(":status", "103"), ("link", "</a>")], END_HEADERS), headers(there, [(":status", "100")], END_HEADERS),
            headers(there, [(":status", "103"), ("link", "</b>")], END_HEADERS))
    heads = [dict(client.event(stream).fields) for _ in range(3)]
    assert [h[":status"] for h in heads] == ["103", "100", "103"] and [h.get("link") for h in heads] == ["</a>", None, "</b>"]
    client.put(data(stream, b"body"))
    assert end.body(there)[0] == b"body"
    end.answer(there, b"ok")
    assert client.reply(stream).body == b"ok"


@pytest.mark.parametrize("code", ["CANCEL", "NO_ERROR", "INTERNAL_ERROR", "ENHANCE_YOUR_CALM", 0xffff])
def test_a_client_s_reset(bed, code):
    """Reaches the endpoint with its code, and harms no other stream."""
    client, stream, end, there, _ = bed.pair(method="POST", end=False)
    client.put(data(stream, b"some", 0), rst(stream, code))
    reset = end.body(there)[2]
    assert PEER or reset == str(code)
    stream = client.ask("/next")
    there, _ = end.head()
    end.answer(there, b"next")
    assert client.reply(stream).body == b"next"


@pytest.mark.parametrize("code", ["CANCEL", "INTERNAL_ERROR", "ENHANCE_YOUR_CALM", "HTTP_1_1_REQUIRED", 0xffff])
@ours
def test_an_endpoint_s_reset(bed, code):
    """Before the answer's head, of what may not be sent twice: the client gets the code."""
    client, stream, end, there, _ = bed.pair(method="POST", body=b"x")
    end.put(rst(there, code))
    reply = client.reply(stream)
    assert (reply.status, reply.reset) == (None, str(code))


def test_a_client_that_goes(bed):
    """Its streams are cancelled; the endpoint's connection stays, and is used by the next client."""
    client, stream, end, there, _ = bed.pair(method="POST", end=False)
    client.wire.close(hard=True)
    assert end.body(there)[2] in ("CANCEL", "NO_ERROR") or PEER
    client = bed.client()
    stream = client.ask("/next")
    if PEER and bed.ends[0].called(0.5):
        end = bed.accept()
    there, _ = end.head()
    end.answer(there)
    assert client.reply(stream).status == 200


def test_half_closed(bed):
    """Either side may say all before the other does."""
    client, stream, end, there, _ = bed.pair(method="POST", body=b"all")
    assert end.body(there)[0] == b"all"
    end.put(headers(there, [(":status", "200")], END_HEADERS))
    for piece in (b"a", b"b", b"c"):
        end.put(data(there, piece, 0))
        while (e := client.event(stream)) and getattr(e, "bytes", b"") == b"":
            pass
        assert e.bytes == piece
    end.put(data(there, b""))
    assert client.rest(stream) == (b"", {}, None)


@ours
def test_an_endpoint_that_ends_first(bed):
    """Both ways at once, as bidirectional calls are: what the client says after the endpoint's end, is no error."""
    client, stream, end, there, _ = bed.pair(method="POST", end=False)
    end.event(there)
    end.put(headers(there, [(":status", "200")], END_HEADERS), data(there, b"bye"))
    reply = client.reply(stream)
    assert (reply.body, reply.reset) == (b"bye", None)
    client.put(data(stream, b"late"))
    assert client.alive()


# --- pools and concurrency ---------------------------------------------------------------------------


def test_clients_share_a_session(bed):
    """The streams of several clients go by one connection of the endpoint's."""
    first, one, end, there, _ = bed.pair(path="/first")
    second = bed.client()
    two = second.ask("/second")
    if PEER == "nginx" or PEER and bed.ends[0].called(0.5):
        pytest.skip("it has no such pool")
    there2, fields = end.head()
    assert fields[":path"] == "/second" and there2 > there and not bed.ends[0].called(0.2)
    end.answer(there2, b"second")
    end.answer(there, b"first")
    assert first.reply(one).body == b"first" and second.reply(two).body == b"second"


def test_a_hundred_streams(bed):
    """At once on one connection, answered in the reverse order."""
    client = bed.client()
    streams = [client.ask(f"/{i}") for i in range(100)]
    heads, ends = [], []
    while len(heads) < 100:
        if not ends or PEER and bed.ends[0].called(0.05):
            ends.append(bed.accept())
        for end in ends:
            if end.new or end.ready(0.05):
                there, fields = end.head()
                heads.append((end, there, fields[":path"]))
    for end, there, path in reversed(heads):
        end.answer(there, path.encode())
    assert [client.reply(s).body for s in streams] == [b"/%d" % i for i in range(100)]


def test_a_slow_reader(bed):
    """One stream's reader stalls: its sender is held back, the other 99 get all of theirs; and nothing of it is lost in the end."""
    client = bed.client()
    client.alive()
    slow = client.ask("/slow")
    client.stalled.add(slow)
    end = bed.accept()
    there, _ = end.head()
    end.put(headers(there, [(":status", "200")], END_HEADERS))
    large = bytes(range(256)) * 16384  # 4 MB
    went = end.pour(there, large)
    assert went < 2 << 20, "what one stalled stream makes the proxy keep"
    body = b"x" * 20000
    streams = [client.ask(f"/{i}") for i in range(99)]
    for _ in streams:
        if PEER and bed.ends[0].called(0.1):
            pytest.skip("another connection: nothing to show")
        other, _ = end.head()
        end.answer(other, body)
    for s in streams:
        assert client.reply(s).body == body
    rest = threading.Thread(target=end.send, args=(there, large[went:]))
    rest.start()
    client.stalled.clear()
    client.put(window(slow, sum(len(e.bytes) for e in client.got[slow] if hasattr(e, "bytes"))))
    assert client.reply(slow)[2:] == (large, {}, [], None)
    rest.join()


def test_a_sender_is_held_back(bed):
    """An endpoint that reads nothing: the client may send no more than windows hold, and its other stream goes on."""
    client, stream, end, there, _ = bed.pair(method="POST", end=False)
    end.stalled.add(there)
    body = b"x" * (4 << 20)
    went = client.pour(stream, body)
    assert went < 2 << 20
    other = client.ask("/other")
    if PEER and bed.ends[0].called(0.5):
        end2 = bed.accept()
        there2, _ = end2.head()
        end2.answer(there2)
    else:
        there2, fields = end.head()
        assert fields[":path"] == "/other"
        end.answer(there2)
    assert client.reply(other).status == 200
    client.put(rst(stream))
    assert client.alive()


def test_a_client_without_windows(bed):
    """INITIAL_WINDOW_SIZE 0: the head comes, the body when there is room, byte by byte if need be."""
    client = bed.client(settings={INITIAL_WINDOW_SIZE: 0})
    stream = client.ask()
    client.stalled.add(stream)
    end = bed.accept()
    there, _ = end.head()
    end.answer(there, b"0123456789")
    assert dict(client.event(stream).fields)[":status"] == "200"
    client.quiet(0.3)
    assert not any(e.bytes for e in client.got[stream])
    got = b""
    for n in (1, 1, 3, 5):
        client.put(window(stream, n))
        while len(got) < sum((1, 1, 3, 5)[:(1, 1, 3, 5).index(n) + 1]):
            got += client.event(stream).bytes
    while len(got) < 10:
        client.put(window(stream, 1))
        got += client.event(stream).bytes
    assert got == b"0123456789"


# --- second attempts ----------------------------------------------------------------------------------


def refuse(end, there):
    end.put(rst(there, "REFUSED_STREAM"))


def leave(end, there):
    end.put(goaway(0))


def leave_with_an_error(end, there):
    end.put(goaway(0, "ENHANCE_YOUR_CALM"))


@pytest.mark.parametrize("body", [b"", b"hi", b"x" * 16000], ids=["empty", "small", "16 KB"])
@pytest.mark.parametrize("how", [refuse, leave, leave_with_an_error])
@ours
def test_what_was_not_processed_is_sent_elsewhere(bed, how, body):
    """Also a POST: the endpoint has said that it did nothing (RFC 9113 section 8.7)."""
    client = bed.client("two")
    stream = client.ask("/x", "POST", body=body)
    i, end, there = next_call(bed)
    assert end.body(there)[0] == body
    before = bed.agent.counted("retries")
    how(end, there)
    other = bed.accept(1 - i)
    there, fields = other.head()
    assert (fields[":path"], other.body(there)[0]) == ("/x", body)
    other.answer(there, b"done")
    assert client.reply(stream).body == b"done"
    assert bed.agent.counted("retries") == before + 1


@ours
def test_a_body_too_large_to_be_kept(bed):
    """Is not sent twice; the client is told that it may do so itself."""
    client = bed.client("two")
    stream = client.ask("/too-large", "POST", end=False)
    i, end, there = next_call(bed)
    client.send(stream, b"x" * 60000, end=False)
    got = 0
    while got < 60000:
        got += len(getattr(end.event(there), "bytes", b""))
    refuse(end, there)
    reply = client.reply(stream)
    assert reply.reset == "REFUSED_STREAM" or reply.status in (502, 503)
    assert not bed.ends[1 - i].called(0.3)
    line = access(bed, "/too-large")
    assert " end=-- " not in line and line.endswith(" retries=0")


@ours
def test_all_refuse(bed):
    client = bed.client("two")
    stream = client.ask("/x", "POST", body=b"x")
    for _ in range(8):
        i, end, there = next_call(bed)
        refuse(end, there)
        client.quiet(0.3)
        if client.got[stream]:
            break
    reply = client.reply(stream)
    assert reply.reset == "REFUSED_STREAM" or reply.status in (502, 503)


@ours
def test_a_connection_that_is_lost(bed):
    """A GET goes elsewhere, a POST that may have been executed does not."""
    client = bed.client("two")
    for method, body in (("GET", None), ("POST", b"hi")):
        stream = client.ask("/x", method, body=body)
        i, end, there = next_call(bed)
        if body:
            end.body(there)
        end.wire.close(hard=True)
        if method == "GET":
            _, end, there = next_call(bed)
            end.answer(there)
            assert client.reply(stream).body == b"ok"
        else:
            assert client.reply(stream).status == 502
        bed.ends[0].clear(), bed.ends[1].clear()


@ours
def test_a_session_that_is_lost(bed):
    """It dies with a GET in it: the only endpoint is called again, as with HTTP/1's pool."""
    client, stream, end, there, _ = bed.pair(path="/first")
    end.answer(there)
    assert client.reply(stream).status == 200
    stream = client.ask("/second")
    end.head()
    end.wire.close(hard=True)
    end = bed.accept()
    there, fields = end.head()
    end.answer(there, b"again")
    assert fields[":path"] == "/second" and client.reply(stream).body == b"again"


@ours
def test_an_endpoint_that_nobody_listens_at(bed):
    """A POST that was not sent goes to the other one."""
    bed.ends[1].down()
    try:
        client, end = bed.client("two"), None
        for _ in range(4):
            stream = client.ask("/x", "POST", body=b"hi")
            end = end or bed.accept()
            there, _ = end.head()
            assert end.body(there)[0] == b"hi"
            end.answer(there)
            assert client.reply(stream).status == 200
    finally:
        bed.ends[1].open()


# --- GOAWAY and drain ---------------------------------------------------------------------------------


def test_an_endpoint_drains(bed):
    """GOAWAY with a notice: what is under way is finished there, what comes next goes by a new connection."""
    client, stream, end, there, _ = bed.pair(path="/old")
    end.put(goaway(0x7fffffff))
    assert end.alive()
    new = client.ask("/new")
    end.quiet(0.3)
    if not end.new:
        end2 = bed.accept()
        there2, fields = end2.head()
        end2.answer(there2, b"new")
    else:  # the notice allows it
        there2, fields = end.head()
        end.answer(there2, b"new")
    assert fields[":path"] == "/new" and client.reply(new).body == b"new"
    end.put(goaway(max(end.got)))
    end.answer(there, b"old")
    assert client.reply(stream).body == b"old"
    end.until_closed()  # the proxy closes what it has no use for


@ours
def test_an_endpoint_s_last_stream(bed):
    """GOAWAY with a last stream: the ones up to it are finished, the ones after it are sent elsewhere."""
    client = bed.client()
    streams = [client.ask(f"/{i}") for i in range(4)]
    end = bed.accept()
    heads = [end.head()]
    while len(heads) < 4:
        heads.append(end.head())
    end.put(goaway(heads[1][0]))
    end2 = bed.accept()
    again = [end2.head(), end2.head()]
    assert {f[":path"] for _, f in again} == {f[":path"] for _, f in heads[2:]}
    for e, (there, fields) in [(end2, h) for h in again] + [(end, h) for h in heads[:2]]:
        e.answer(there, fields[":path"].encode())
    assert [client.reply(s).body for s in streams] == [b"/0", b"/1", b"/2", b"/3"]


@ours
def test_the_agent_drains(bed):
    """SIGTERM: a notice, then the last stream's number; what is under way is finished, and what was sent meanwhile is not lost."""
    client, stream, end, there, _ = bed.pair(path="/old")
    bed.agent.process.popen.send_signal(signal.SIGTERM)
    try:
        while not client.goaways:
            assert client.pump(), "no notice"
        assert client.goaways[0] == (0x7fffffff, "NO_ERROR")
        late = client.ask("/late")
        end.answer(there, b"old")
        assert client.reply(stream).body == b"old"
        client.quiet(0.3)
        if client.goaways[-1][0] >= late:
            if not end.new:
                end.quiet(0.3)
            e = end if end.new else bed.accept()
            there, fields = e.head()
            e.answer(there, b"late")
            assert fields[":path"] == "/late" and client.reply(late).body == b"late"
        client.until_closed()
        assert bed.agent.process.wait() == 0
        assert [code for _, code in client.goaways] == ["NO_ERROR"] * len(client.goaways)
    finally:
        if bed.agent.process.alive():
            bed.agent.process.kill()
        bed.agent.start()
        bed.find("one")


class Next(Agent):
    """Takes over from the agent that runs."""

    def argv(self, *options):
        return super().argv("--takeover", "true", *options)


@ours
def test_another_agent_takes_over(bed):
    """What is under way is finished by the first, new connections are the next one's: both serve meanwhile."""
    client, stream, end, there, _ = bed.pair(path="/old")
    before = bed.agent
    bed.agent = Next(bed.node, None, *before.options, token=before.token)
    wait_for("it has taken over", lambda: "has taken over" in bed.agent.process.log())
    while not client.goaways:
        assert client.pump(), "no notice"
    fresh = bed.client()
    new = fresh.ask("/new")
    end2 = bed.accept()
    there2, fields = end2.head()
    end2.answer(there2, b"new")
    assert fields[":path"] == "/new" and fresh.reply(new).body == b"new"
    end.answer(there, b"old")
    assert client.reply(stream).body == b"old"
    assert before.stop() == 0


@ours
def test_services_that_go(bed):
    """A Service is removed: its streams end as requests of HTTP/1 do, and the client's next one is told."""
    bed.hub.write("short.yaml", service("short", ("http", 80, 8080), selector="one"))
    bed.find("short")
    client, stream, end, there, _ = bed.pair(name="short")
    bed.hub.delete("short.yaml")
    wait_for("it is gone", lambda: not bed.node.address_of("short.default.svc.cluster.local", f"@{bed.node.gateway}"))
    end.answer(there)
    assert client.reply(stream).status == 200
    try:
        reply = client.reply(client.ask("/next"))
        assert reply.status in (502, 503) or reply.reset
    except Ended:
        pass


# --- HTTP/1 and HTTP/2 beside each other ----------------------------------------------------------------


@ours
def test_both_versions_on_one_port(bed):
    """Each stays what it is, at one and the same endpoint."""
    old, new = bed.connect(), bed.client()
    old.put(GET1)
    stream = new.ask("/x")
    one, two = sorted([bed.ends[0].accept(), bed.ends[0].accept()], key=lambda w: w.left.startswith(b"PRI"))
    end = Http2(two, server=True).open()
    for again in (True, False):
        assert one.until().startswith(b"GET /x HTTP/1.1\r\n")
        there, _ = end.head()
        one.put(OK1)
        end.answer(there, b"two")
        assert old.reply()[2] == b"ok" and new.reply(stream).body == b"two"
        if again:
            old.put(GET1)
            stream = new.ask("/x")


@pytest.mark.parametrize("name", KINDS)
@ours
def test_ports_that_are_http(bed, name):
    client, stream, end, there, _ = bed.pair(name=name)
    end.answer(there)
    assert client.reply(stream).status == 200


@ours
def test_a_port_that_is_not(bed):
    """TCP is relayed as it is."""
    client = bed.client("plain")
    stream = client.ask("/raw")
    end = bed.accept()
    there, fields = end.head()
    assert "x-forwarded-for" not in fields
    end.answer(there)
    assert client.reply(stream).status == 200


@ours
def test_an_endpoint_of_http_1(bed):
    """Its client is told, in gRPC's own words if it speaks gRPC, and for a while without a word to the endpoint; who speaks HTTP/1 is served."""
    end = Endpoint(bed.pods[0], 8081)

    def answers():
        wire = end.accept()
        wire.put(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return wire
    client = bed.client("old")
    stream = client.ask("/x", "POST", body=b"x")
    answers()
    reply = client.reply(stream)
    assert reply.status == 502 and b"HTTP/1" in reply.body and reply.body.count(b"\n") == 1
    reply = client.reply(client.ask("/lab.Lab/Who", "POST", *GRPC, body=b"\0\0\0\0\0"))
    assert (reply.status, reply.fields["grpc-status"], reply.body) == (200, "14", b"")
    assert "HTTP/1" in reply.fields["grpc-message"] and reply.fields["content-type"].startswith("application/grpc")
    old = bed.connect("old").put(GET1)
    wire = end.accept()
    wire.until()
    wire.put(OK1)
    assert old.reply()[0] == 200

    def asked_again():
        reply = client.ask("/again", "POST", body=b"x")
        client.quiet(0.05)
        return end.called(0.05) and reply
    stream = wait_for("it is asked again", asked_again)
    h2 = Http2(end.accept(), server=True).open()
    h2.answer(h2.head()[0], b"now")
    assert client.reply(stream).body == b"now"
    end.down()


@pytest.mark.parametrize("said", [settings() + goaway(0, "PROTOCOL_ERROR"), settings(), b"\0\0\x12\4\0\0\0\0\0\0\3\0\0\0\x80\0\4\0\1\0\0\0\5\0\xff\xff\xff"])
@ours
def test_an_endpoint_of_http_2_alone(bed, said):
    """An HTTP/1 client is told."""
    client = bed.connect().put(b"POST /x HTTP/1.1\r\nHost: web\r\nContent-Length: 2\r\n\r\nhi")
    wire = bed.ends[0].accept()
    wire.until()
    wire.put(said).close()
    status, _, body = client.reply()
    assert status == 502 and b"HTTP/2" in body and body.count(b"\n") == 1


@ours
def test_an_upgrade_to_h2c(bed):
    """Is not done (RFC 9113 section 3.1): HTTP/1 stays HTTP/1."""
    client = bed.connect().put(b"GET /x HTTP/1.1\r\nHost: web\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                               b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
    wire = bed.ends[0].accept()
    head = wire.until()
    assert b"HTTP2-Settings" not in head
    wire.put(OK1)
    assert client.reply()[0] == 200


@pytest.mark.parametrize("sent", [b"PRI * HTTP/2.0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"PRI / HTTP/2.0\r\n\r\nSM\r\n\r\n"])
@ours
def test_what_is_nearly_the_preface(bed, sent):
    """No endpoint gets a byte, and it is answered or closed."""
    client = bed.connect().put(sent).shut()
    got = b""
    while more := client.s.recv(65536):
        got += more
    assert not bed.ends[0].called(0.2)


@ours
def test_a_preface_byte_by_byte(bed):
    client = bed.connect()
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings() + headers(1, request("/slow")):
        client.put(bytes([byte]))
    h2 = Http2(client)
    end = bed.accept()
    there, fields = end.head()
    assert fields[":path"] == "/slow"
    end.answer(there)
    assert h2.reply(1).status == 200


# --- websockets (RFC 8441) ------------------------------------------------------------------------------


@ours
def test_a_websocket(bed):
    """The endpoint announces it, and so do we; bytes both ways, and an end of each side."""
    client = bed.client()
    client.alive()
    assert client.settings.get(ENABLE_CONNECT_PROTOCOL) == 1
    stream = client.ask_websocket(("sec-websocket-protocol", "chat"))
    end = bed.accept(settings={ENABLE_CONNECT_PROTOCOL: 1})
    there, fields = end.head()
    assert (fields[":method"], fields[":protocol"], fields[":path"], fields[":authority"], fields[":scheme"]) == (
        "CONNECT", "websocket", "/chat", "web", "http")
    assert fields["sec-websocket-protocol"] == "chat"
    end.event(there)
    end.put(headers(there, [(":status", "200"), ("sec-websocket-protocol", "chat")], END_HEADERS))
    assert dict(client.event(stream).fields)[":status"] == "200"
    client.put(data(stream, b"\x81\x82mask..", 0))
    assert end.event(there).bytes == b"\x81\x82mask.."
    end.put(data(there, b"\x81\x02hi", 0))
    assert client.event(stream).bytes == b"\x81\x02hi"
    client.put(data(stream, b"\x88\x80mask"))
    assert end.rest(there)[0] == b"\x88\x80mask"
    end.put(data(there, b"\x88\0"))
    assert client.rest(stream) == (b"\x88\0", {}, None)


@ours
def test_a_websocket_that_nobody_announced(bed):
    """The client is told, and its connection stays."""
    client = bed.client()
    stream = client.ask_websocket()
    end = bed.accept()
    end.quiet(0.3)
    assert not end.new
    assert client.reply(stream).status in (501, 502)
    assert client.alive()


# --- rules of the mesh -------------------------------------------------------------------------------------


@ours
def test_no_endpoints(bed):
    client = bed.client("none")
    reply = client.reply(client.ask())
    assert reply.status == 503 and reply.body == b"service default/none port 80 has no endpoints\n" and reply.fields["retry-after"] == "1"
    reply = client.reply(client.ask("/lab.Lab/Who", "POST", *GRPC, body=b""))
    assert reply.status == 503 or reply.fields["grpc-status"] == "14"


@ours
def test_who_may_not_call(bed):
    client = bed.client("guarded")
    before = bed.metric('errors_total{reason="allow_from"}')
    for body in (None, b"x" * 30000):
        reply = client.reply(client.ask("/", "POST", body=body))
        assert reply.status == 403 and reply.body.count(b"\n") == 1
    reply = client.reply(client.ask("/lab.Lab/Who", "POST", *GRPC, body=b""))
    assert reply.status == 403 or reply.fields["grpc-status"] == "7"
    assert bed.metric('errors_total{reason="allow_from"}') == before + 3 and not bed.ends[0].called()


@ours
def test_who_may_not_call_any_more(bed):
    """The rule changes: what is under way ends on both sides, and the next stream is refused."""
    closing = service("closing", ("http", 80, 8080), selector="one")
    bed.hub.write("closing.yaml", closing)
    bed.find("closing")
    client, stream, end, there, _ = bed.pair(name="closing", method="POST", end=False)
    bed.hub.write("closing.yaml", annotated(closing, allow_from="namespaces=ops"))
    reply = client.reply(stream)
    assert reply.status == 403 or reply.reset
    assert end.body(there)[2] == "CANCEL"
    assert client.reply(client.ask("/next")).status == 403
    bed.hub.delete("closing.yaml")


@ours
def test_loops(bed):
    client = bed.client()
    reply = client.reply(client.ask("/", "GET", ("cdn-loop", ", ".join(["edgeway"] * 12))))
    assert reply.status == 508 and b"loop" in reply.body and not bed.ends[0].called()
    reply = client.reply(client.ask("/", "GET", *[("cdn-loop", "edgeway")] * 12))
    assert reply.status == 508


@ours
def test_access_log(bed):
    client, stream, end, there, _ = bed.pair(("x-request-id", "id-2"), path='/logged?a="b', method="POST", body=b"abc")
    end.body(there)
    end.answer(there, b"ok")
    client.reply(stream)
    line = access(bed, "/logged")
    for part in (f"client={bed.client_pod.address}:", f"to={bed.addresses['one'][0]}:80 ", "service=default/one ",
                 f"endpoint={bed.pods[0].address}:8080 ", 'request="POST /logged?a=\\"b" ', 'id="id-2" ', "status=200 ", "end=-- ",
                 "bytes_up=3 ", "bytes_down=2 "):
        assert part in line, part
    nobody = bed.client("none")
    nobody.reply(nobody.ask("/nobody"))
    assert "status=503 end=SC " in access(bed, "/nobody")
    stream = client.ask("/gone")
    end.head()
    client.put(rst(stream))
    assert " end=C" in access(bed, "/gone")


def access(bed, what):
    return wait_for(f"line with {what}", lambda: next(
        (line for line in bed.agent.process.log().splitlines() if " access lb: " in line and what in line), None))


@ours
def test_metrics(bed):
    """Each stream is a request, each connection one of HTTP."""
    names = 'requests_total{class="2xx"}', 'connections_total{mode="http"}', 'requests_total{class="5xx"}'
    before = [bed.metric(n) for n in names]
    client = bed.client()
    streams = [client.ask(f"/{i}") for i in range(5)]
    end = bed.accept()
    for _ in streams:
        end.answer(end.head()[0])
    assert [client.reply(s).status for s in streams] == [200] * 5
    lost = bed.client("none")
    lost.reply(lost.ask())
    wait_for("counted", lambda: [bed.metric(n) - b for n, b in zip(names, before)] == [5, 2, 1])
