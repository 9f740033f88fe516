"""Anything at once, by chance but from a seed: clients that reset and leave, endpoints that refuse, go away, fall silent or speak HTTP/1,
Services and endpoints that change. In the end all is given back, and the agent drains."""
import contextlib
import random
import signal
import threading
import time

import pytest

from gateway_town import backend, route, to
from h2bed import PEER, Bed, annotated, no_answers
from h2kit import END_HEADERS, MAX_CONCURRENT_STREAMS, Http2, data, goaway, headers, rst
from httpkit import Wire
from lab import pod, service, wait_for

pytestmark = pytest.mark.skipif(PEER is not None, reason="what the agent alone does")
HTTP, NAMES, SECONDS = ("http", 80, 8080), ("two", "capped", "sticky"), 12
FAULTS = (OSError, AssertionError, KeyError, IndexError)  # of a connection that has ended
CALL = [("content-type", "application/grpc"), ("te", "trailers")]


def capped(chance):
    more = chance.choice([{}, {"allow_from": "namespaces=ops"}, {"session_affinity": "10s"}])
    return annotated(service("capped", HTTP, selector="two"), max_connections=chance.choice("13") + chance.choice(["", "0"]), **more)


@pytest.fixture
def bed(lab):
    bed = Bed(lab, objects=[annotated(service("capped", HTTP, selector="two"), max_connections="20"),
                            annotated(service("sticky", HTTP, selector="two"), policy="hash")])
    yield bed
    print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


def answer(h2, chance, s):
    ok = [(":status", "200")]
    h2.put(*chance.choices([
        [headers(s, ok, END_HEADERS), data(s, b"ok" * chance.randrange(1, 2000))], [rst(s, chance.choice(["REFUSED_STREAM", "CANCEL", "NO_ERROR"]))],
        [goaway(max(0, s - 2))], [headers(s, [(":status", "503"), ("grpc-status", "14")])], [headers(s, [(":status", "103")], END_HEADERS)],
        [b"HTTP/1.1 200 OK\r\n\r\n"], []], [60, 10, 5, 7, 5, 3, 10])[0])


def session(wire, chance, over):
    with contextlib.suppress(*FAULTS), contextlib.closing(wire):
        h2 = Http2(wire, server=True)
        if wire.begins():
            h2.open({MAX_CONCURRENT_STREAMS: chance.choice([1, 3, 100])})
            while not over.is_set() and (not h2.ready(0.05) or h2.pump()):
                while h2.new:
                    answer(h2, chance, h2.head()[0])
                    if chance.random() < 0.03:
                        return wire.close(hard=True)


def endpoint(end, chance, over):
    while not over.is_set():
        if end.called(0.1):
            threading.Thread(target=session, args=(Wire(end.listener.accept()[0]), chance, over), daemon=True).start()


def caller(bed, chance, over, asked):
    while not over.is_set():
        with contextlib.suppress(*FAULTS):
            client = bed.client(chance.choice(NAMES))
            client.wire.s.settimeout(3)
            for _ in range(chance.randrange(1, 30)):
                streams = []
                for _ in range(chance.randrange(1, 15)):
                    fields = [*CALL, ("grpc-timeout", chance.choice(["50m", "1S", "5S"]))] if chance.random() < 0.3 else []
                    streams.append(client.ask("/x", chance.choice(["GET", "POST"]), *fields, body=chance.choice([None, b"x" * 100, b"x" * 20000]),
                                              end=chance.random() < 0.8))
                    asked.append(1)
                client.quiet(chance.choice([0.0, 0.01, 0.3]))
                client.put(*[rst(s) for s in streams if chance.random() < 0.3])
            client.wire.close(hard=chance.random() < 0.3)


def test_anything_at_once(bed):
    chance, over, asked = random.Random(17), threading.Event(), []
    copies = [{"type": "RequestMirror", "requestMirror": {"backendRef": backend(n)}} for n in ("two", "capped")]
    bed.hub.write("routes.yaml", route("copied", to("two", filters=copies), parent="two", namespace="default", of="default"))
    threads = [threading.Thread(target=endpoint, args=(e, chance, over), daemon=True) for e in bed.ends]
    threads += [threading.Thread(target=caller, args=(bed, chance, over, asked), daemon=True) for _ in range(6)]
    for t in threads:
        t.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and bed.agent.process.alive():
        with no_answers(chance.choice(bed.pods)) if chance.random() < 0.5 else contextlib.nullcontext():
            time.sleep(chance.random())
        live = [(f"p{i}", p) for i, p in enumerate(bed.pods) if chance.random() < 0.7]
        bed.hub.write("web.yaml", service("two", HTTP), annotated(service("sticky", HTTP, selector="two"), policy="hash"), capped(chance),
                      *[pod(name, bed.node, p.address, ("http", 8080, 0), app="two") for name, p in live])
    over.set()
    for t in threads:
        t.join()
    for c in bed.clients:
        c.close()
    assert bed.agent.process.alive() and len(asked) > 500
    assert bed.agent.counted("mirrors") > 100
    wait_for("all is given back", lambda: not any(bed.in_flight(n) for n in NAMES))
    bed.agent.process.popen.send_signal(signal.SIGTERM)
    assert bed.agent.process.wait() == 0
    assert not [line for line in bed.agent.process.log().splitlines() if " unexpected " in line or "runtime error" in line]
