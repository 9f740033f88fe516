"""A NetworkPolicy closes an endpoint to a pod whose request waits, dials, or may be tried again: it goes to those that are open."""
import json

import pytest

from h2bed import Bed, annotated, no_answers
from h2kit import Http2
from httpkit import PATIENCE, readable, whoever
from lab import pod, service, wait_for

HTTP = ("http", 80, 8080)
GET = b"GET / HTTP/1.1\r\nHost: web\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab, objects=[service("pair", HTTP), annotated(service("narrow", HTTP, selector="pair"), max_connections="1", connect_timeout="60s")])
    shown = [pod(f"end-{i}", bed.node, p.address, ("http", 8080, 0), app="pair") for i, p in enumerate(bed.pods)]
    for i, p in enumerate(shown):
        p["metadata"]["labels"]["end"] = str(i)
    bed.hub.write("pair.yaml", *shown, pod("caller", bed.node, bed.client_pod.address, namespace="shop"))
    wait_for("both, and the caller", lambda: called(bed) == (2, []) or called(bed) == (2, ["allowed"]))
    yield bed
    print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    made.clear()
    close(made, None)


def called(bed):
    """(endpoints, what each pod of this node may) of the Service pair."""
    pair = next(s for s in json.loads(bed.agent.ask("/debug/services")[1])["services"] if s["name"] == "pair")
    return len(pair["ports"][0]["endpoints"]), [p["call"] for p in pair.get("callers", {}).get("pods", []) if p["pod"] == "shop/caller"]


def close(bed, end):
    """This endpoint is closed to the caller, and no other; None: none is."""
    closed = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed"}, "spec": {
        "podSelector": {"matchLabels": {"end": str(end)}},
        "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}}]}]}}
    bed.hub.write("policies.yaml", *([closed] if end is not None else [{"apiVersion": "v1", "kind": "List"}]))
    wait_for("told", lambda: ("partly" in called(bed)[1]) == (end is not None))


def first_called(bed):
    return 0 if readable([e.listener for e in bed.ends], PATIENCE)[0] is bed.ends[0].listener else 1


def test_a_request_that_waits(bed):
    held, waits = {}, bed.metric("waits_total")
    for _ in range(2):
        wire = bed.connect("narrow").put(GET)
        i, there = whoever(*bed.ends)
        there.until()
        held[i] = wire, there
    waiting = bed.connect("narrow").put(GET)
    wait_for("it waits", lambda: bed.metric("waits_total") > waits)
    close(bed, 1)
    held[1][0].reset()
    held[0][1].put(OK).close()
    assert held[0][0].reply()[0] == 200
    there = bed.ends[0].accept()
    there.until()
    there.put(OK)
    assert waiting.reply()[0] == 200 and not bed.ends[1].called()


def test_a_stream_that_waits(bed):
    client, held, waits = bed.client("narrow"), {}, bed.metric("waits_total")
    for _ in range(2):
        stream = client.ask()
        i = first_called(bed)
        held[i] = stream, bed.accept(i)
        held[i] += held[i][1].head()[:1]
    waiting = client.ask()
    wait_for("it waits", lambda: bed.metric("waits_total") > waits)
    close(bed, 1)
    assert client.reply(held[1][0]).status == 403
    held[0][1].answer(held[0][2])
    assert client.reply(held[0][0]).status == 200
    held[0][1].answer(held[0][1].head()[0])
    assert client.reply(waiting).status == 200


def test_a_request_that_is_tried_again(bed):
    wire = bed.connect("pair").put(GET)
    i, there = whoever(*bed.ends)
    there.until()
    close(bed, 1 - i)
    there.close()
    assert readable([wire.s, bed.ends[1 - i].listener], PATIENCE) == [wire.s]
    assert wire.reply()[0] == 502 and not bed.ends[1 - i].called()


def test_a_stream_that_is_tried_again(bed):
    client = bed.client("pair")
    client.alive()
    stream = client.ask()
    i = first_called(bed)
    there = bed.accept(i)
    there.head()
    close(bed, 1 - i)
    there.wire.close()
    assert readable([client.wire.s, bed.ends[1 - i].listener], PATIENCE) == [client.wire.s]
    assert client.reply(stream).status == 502 and not bed.ends[1 - i].called()


@pytest.mark.parametrize("http2", [False, True])
def test_a_request_that_dials(bed, http2):
    with no_answers(bed.pods[1]):
        dials = bed.agent.counted("dials")
        with no_answers(bed.pods[0]):
            client = bed.client("narrow") if http2 else bed.connect("narrow").put(GET)
            stream = client.ask() if http2 else None
            wait_for("it dials both", lambda: bed.agent.counted("dials") >= dials + 2)
            close(bed, 1)
        if http2:
            there = bed.accept()
            there.answer(there.head()[0])
            assert client.reply(stream).status == 200
        else:
            there = bed.ends[0].accept()
            there.until()
            there.put(OK)
            assert client.reply()[0] == 200
