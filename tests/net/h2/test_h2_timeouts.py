"""How long the agent waits with HTTP/2: for an endpoint, for a call with a deadline, for a websocket. The test is client and endpoint at once."""
import pytest

from h2bed import PEER, Bed, annotated
from h2kit import ENABLE_CONNECT_PROTOCOL, END_HEADERS, Reset, data, headers
from lab import service

pytestmark = pytest.mark.skipif(PEER is not None, reason="what the agent alone does")
GRPC = ("content-type", "application/grpc"), ("te", "trailers")


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab, objects=[annotated(service("quiet", ("http", 80, 8080), selector="one"), idle_timeout="1s")])
    yield bed
    if bed.agent:
        print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    made.clear()


def test_timeouts(bed):
    """edgeway.io/request-timeout and grpc-timeout, whichever is shorter; the endpoint's stream is cancelled, and others go on."""
    client = bed.client("patient")
    stream, other = client.ask("/late", "POST", body=b""), client.ask("/soon", "POST", body=b"")
    end = bed.accept()
    by_path = {fields[":path"]: there for there, fields in (end.head(), end.head())}
    end.answer(by_path["/soon"])
    reply = client.reply(stream)
    assert reply.status == 504 and reply.body.count(b"\n") == 1
    assert client.reply(other).status == 200
    assert end.body(by_path["/late"]) == (b"", {}, None) and end.event(by_path["/late"]) == Reset("CANCEL")
    client = bed.client()
    stream = client.ask("/lab.Lab/Late", "POST", *GRPC, ("grpc-timeout", "300m"), body=b"\0\0\0\0\0")
    there, fields = end.head()
    assert fields["grpc-timeout"].endswith(("m", "u", "n"))
    reply = client.reply(stream)
    assert reply.status == 504 or reply.fields["grpc-status"] == "4"
    end.body(there)
    assert end.event(there) == Reset("CANCEL")


def test_a_stream_within_its_deadline(bed):
    """edgeway.io/request-timeout is the wait for an answer's head, also where a call names a deadline."""
    client = bed.client("patient")
    stream = client.ask("/lab.Lab/Watch", "POST", *GRPC, ("grpc-timeout", "60S"), body=b"\0\0\0\0\0")
    end = bed.accept()
    there, _ = end.head()
    end.put(headers(there, [(":status", "200"), ("content-type", "application/grpc")], END_HEADERS), data(there, b"one", 0))
    client.event(stream)
    assert client.event(stream).bytes == b"one"
    end.quiet(1.5)
    end.put(data(there, b"two", 0))
    assert client.event(stream).bytes == b"two"
    stream = client.ask("/lab.Lab/Late", "POST", *GRPC, ("grpc-timeout", "60S"), body=b"\0\0\0\0\0")
    end.head()
    reply = client.reply(stream)
    assert reply.status == 504 or reply.fields["grpc-status"] == "4"


def test_a_silent_websocket(bed):
    """edgeway.io/idle-timeout ends it, as over HTTP/1."""
    client = bed.client("quiet")
    client.alive()
    stream = client.ask_websocket()
    end = bed.accept(settings={ENABLE_CONNECT_PROTOCOL: 1})
    there, _ = end.head()
    end.event(there)
    end.put(headers(there, [(":status", "200")], END_HEADERS))
    client.event(stream)
    assert client.ready(20) and client.event(stream) == Reset("CANCEL") and end.event(there) == Reset("CANCEL")
