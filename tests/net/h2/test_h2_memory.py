"""What an agent with 8 MiB for its clients (lb.memory) holds of HTTP/2: bodies, header sections, frames that nobody reads."""
import pytest

from h2bed import PEER, Bed, Memory
from h2kit import (END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, Http2, block, data, frame, headers, request, rst, settings,
                   window)
from httpkit import Wire, socket_of

pytestmark = pytest.mark.skipif(PEER is not None, reason="what the agent alone does")
OK = [(":status", "200")]
TABLED, AGAIN = b"\x40\1x\x7f\xbd\x1d" + b"y" * 3900, b"\xbe"  # an entry of HPACK's table, and the same once more


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab, options=("--lb.memory", "8"))
    yield bed
    print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    made.clear()


def evicted(bed):
    return bed.metric('evictions_total{memory="own"}')


def give(end, heads, sent, most):
    """DATA as the windows let it, `most` for each at the most: did any go?"""
    went = False
    for there in heads:
        while end.may_send(there) > 0 and sent[there] < most:
            n = min(end.may_send(there), most - sent[there])
            end.room -= n
            end.rooms[there] -= n
            sent[there] += n
            end.put(data(there, b"x" * n, 0))
            went = True
    return went


def test_many_slow_downloads(bed):
    """Their windows are widened while the client reads, and become small when it stops: its connection stays, and gets all in the end."""
    n, before, memory = 90, evicted(bed), Memory(bed)
    client = bed.client("one", {INITIAL_WINDOW_SIZE: 70000})
    streams = [client.ask(f"/{i}") for i in range(n)]
    end = bed.accept()
    heads = [end.head()[0] for _ in streams]
    end.put(*[headers(there, OK, END_HEADERS) for there in heads])
    sent = dict.fromkeys(heads, 0)
    while min(sent.values()) < 200000:
        give(end, heads, sent, 200000)
        client.quiet(0.01)
        end.quiet(0.0)
    client.stalled.update(streams)
    while give(end, heads, sent, 1 << 30) or end.ready(0.5):
        client.quiet(0.01)
        end.quiet(0.0)
    held = sum(sent.values()) - sum(len(e.bytes) for s in streams for e in client.got[s] if hasattr(e, "bytes"))
    used = bed.metric('memory_bytes{memory="own"}')
    assert held < 4 << 20 and held < used < 8 << 20 and memory.stays()
    client.stalled.clear()
    end.put(*[data(there) for there in heads])
    client.put(*[window(s, 1 << 24) for s in streams])
    assert [len(client.reply(s).body) for s in streams] == [sent[there] for there in heads]
    assert evicted(bed) == before


def test_clients_of_one_pod_that_read_nothing(bed):
    """Together they exceed what one may hold: connections of theirs are closed, and another pod is served."""
    before, memory, sessions, sent = evicted(bed), Memory(bed), [], {}

    def answer():
        if bed.ends[0].called(0.01):
            sessions.append(bed.accept())
        for end in sessions:
            while end.ready() and end.pump():
                pass
            while end.new:
                there, _ = end.head()
                end.put(headers(there, OK, END_HEADERS))
                sent.setdefault(id(end), {})[there] = 0
            give(end, list(sent.get(id(end), {})), sent.get(id(end), {}), 1 << 20)

    while evicted(bed) == before:
        assert len(bed.clients) < 10
        client = bed.client("one", {INITIAL_WINDOW_SIZE: 0})
        for i in range(90):
            client.ask(f"/{i}")
        for _ in range(60):
            answer()
    assert memory.stays() and bed.metric('memory_bytes{memory="own"}') < 9 << 20
    other = other_client(bed)
    stream = other.ask("/other")
    while not other.got[stream]:
        answer()
        other.quiet(0.01)
    assert dict(other.event(stream).fields)[":status"] == "200"


def test_interim_answers_that_nobody_reads(bed):
    """An endpoint says 103 for ever, each of 27 KB by the table."""
    client, stream, end, there, _ = bed.pair(path="/x")
    memory, early = Memory(bed), block([(":status", "103")])
    end.put(frame(HEADERS, END_HEADERS, there, early + TABLED + AGAIN * 6))
    for _ in range(40):
        end.put(frame(HEADERS, END_HEADERS, there, early + AGAIN * 7) * 100)
    end.alive()
    assert memory.stays()
    end.answer(there, b"ok")
    assert client.reply(stream).body == b"ok"


def test_an_endpoint_that_reads_nothing(bed):
    """Requests that wait for it are reset by their clients: what it was to get does not stay."""
    client, memory = bed.client(), Memory(bed)
    fill = client.ask("/fill", "POST", end=False)
    end = bed.accept(0, {INITIAL_WINDOW_SIZE: 0x7fffffff})
    end.put(window(0, 0x7fff0000))
    end.head()
    client.pour(fill, b"x" * (6 << 20))
    for _ in range(4):
        other = bed.client()
        other.alive()
        streams = range(1, 3801, 2)
        other.put(b"".join(frame(HEADERS, END_STREAM | END_HEADERS, s, block(request("/a")) + (TABLED if s == 1 else AGAIN) + AGAIN * 6) + rst(s)
                           for s in streams))
        assert other.alive()
    assert memory.stays()


ONE = {MAX_CONCURRENT_STREAMS: 1}


def other_client(bed):
    """Of another pod."""
    s = socket_of(bed.pods[1])
    s.connect(bed.addresses["one"])
    bed.clients.append(Wire(s))
    return Http2(bed.clients[-1]).open()


def single(bed):
    """The agent knows that a session with the endpoint takes one stream; it has one."""
    bed.client().ask("/first")
    end = bed.accept(0, ONE)
    while not end.acknowledged:
        assert end.pump()


def test_sessions_of_one_stream(bed):
    """Its endpoint takes no more in a session and answers none: what the sessions hold is charged to their client."""
    before, memory = evicted(bed), Memory(bed)
    single(bed)
    while evicted(bed) == before:
        assert len(bed.clients) < 10
        client, taken = bed.client(), 0
        for i in range(90):
            client.ask(f"/{i}")
        while taken < 90 and evicted(bed) == before:
            if bed.ends[0].called(0.01):
                bed.ends[0].accept(speaks=False).put(settings(ONE))
                taken += 1
    assert memory.stays() and bed.metric('memory_bytes{memory="own"}') < 9 << 20


def restart(bed, *before):
    bed.agent.stop()
    bed.agent.process = bed.node.start("agent", *before, *bed.agent.argv())
    bed.agent.wait_ready()


def test_sessions_take_places(bed):
    """Each beyond the endpoint's first is one of its client's connections: 503 where that has its share, and another pod is served."""
    restart(bed, "prlimit", "--nofile=400:400")
    single(bed)
    clients, sessions, refused, two = [bed.client() for _ in range(2)], 0, [], bed.client("two")
    streams = [(c, c.ask(f"/{i}")) for c in clients for i in range(90)]
    while sessions + len(refused) < len(streams):
        if bed.ends[0].called(0.01):
            bed.ends[0].accept(speaks=False).put(settings(ONE))
            sessions += 1
        for c in clients:
            c.quiet(0.0)
        refused = [(c, s) for c, s in streams if c.got[s]]
    assert 60 < sessions < 90 and {c.reply(s).status for c, s in refused} == {503}
    assert bed.agent.process.logged("its client has too many")
    streams, at = [two.ask(f"/{i}") for i in range(8)], []  # the other endpoint has room for them
    while sum(bool(two.got[s]) for s in streams) < 7:
        if bed.ends[0].called(0.01):
            bed.ends[0].accept(speaks=False).put(settings(ONE))
        if bed.ends[1].called(0.01):
            at.append(bed.accept(1))
        for end in at:
            while end.ready(0.01) and end.pump():
                pass
            while end.new:
                end.answer(end.head()[0])
        two.quiet(0.0)
    assert {two.reply(s).status for s in streams if two.got[s]} == {200}
    other = other_client(bed)
    stream = other.ask("/other")
    end = bed.accept(0, ONE)
    end.answer(end.head()[0])
    assert other.reply(stream).status == 200
    bed.clear()
    single(bed)  # its places are free again
    bed.clear()
    restart(bed)
