"""Thousands of hostile requests and answers through the agent and the hub; at both ends stands somebody who forgives nothing."""
import collections
import json
import os

import pytest

import hostile_corpus
from lab import HERE, BARE_PYTHON, Agent, Hub, Lab, Machine, Node, pod, service, wait_for

SCRIPT = os.path.join(HERE, "hostile_http.py")


# Fields that the proxy writes itself, and must have been told of all the same.
FRAMING = "content-length", "transfer-encoding", "host", "te", "trailer"
OUR_OWN = "x-forwarded-for", "cdn-loop", "x-request-id", "connection"


class Bed:
    """An agent with an origin behind it."""

    def __init__(self, lab):
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.origin = self.node.pod("origin")
        self.process = self.origin.start("origin", *BARE_PYTHON, SCRIPT, "origin", "8080")
        self.client = self.node.pod("client")
        hub = Hub(lab)
        hub.write("web.yaml", service("web", ("http", 80, "http")), pod("web", self.node, self.origin.address, ("http", 8080, 0)))
        self.daemon = Agent(self.node, hub)
        self.report = self.origin.address, 8081
        wait_for("call", lambda: self.client.get(f"http://{self.proxy()[0]}/i/first/z")[0] == 200)

    def proxy(self):
        return self.client.dns("web.default.svc.cluster.local", server=self.node.gateway)[1][0][4], 80

    def replay(self, what):
        """What the clients say, and what the origin says."""
        p = self.client.run(*BARE_PYTHON, SCRIPT, what, *self.proxy(), seconds=240)
        raw = self.client.python("import socket,sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
                                 "while d := s.recv(65536): sys.stdout.write(d.decode())", *self.report).stdout
        return json.loads(p.stdout), json.loads(raw)


class HubBed(Bed):
    """A hub that forwards requests to a node of the cloud, which all of the corpus call `a`."""

    def __init__(self, lab):
        self.daemon = Hub(lab, "--ingress.http", "192.0.2.1:10080", "--access", "[{from: 192.0.2.1, to: ['*']}]")
        self.client, self.origin = self.daemon.machine, Machine(lab, "origin", address="192.0.2.31")
        self.process = self.origin.start("origin", *BARE_PYTHON, SCRIPT, "origin", "80")
        self.report = self.origin.address, 81
        self.daemon.write("node.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
                                        "status": {"addresses": [{"type": "InternalIP", "address": self.origin.address}]}})
        wait_for("call", lambda: self.client.get("http://192.0.2.1:10080/i/first/z", "-H", "Host: a")[0] == 200)

    def proxy(self):
        return "192.0.2.1", 10080


@pytest.fixture(scope="module")
def bed(lab):
    return Bed(lab)


@pytest.fixture(scope="module")
def hub_bed():
    with Lab() as lab:
        yield HubBed(lab)


def told(irregular):
    """The first few of each kind."""
    by_kind = collections.defaultdict(list)
    for row in irregular:
        by_kind[row[1] if isinstance(row, list) else ""].append(row)
    return f"{len(irregular)} irregular:\n" + "\n".join(f"{len(rows)} {rows[:4]}" for rows in by_kind.values())


def judge_requests(bed, cases, clients, origin):
    """Nothing irregular goes upstream, what must be refused is, every answer belongs to its request, and the origin reads no field
    that was not sent as one."""
    print(clients["statuses"], clients["canary"])
    assert clients["cases"] == len(cases)
    assert not origin["violations"], told(origin["violations"])
    assert clients["irregular"] == [], told(clients["irregular"])
    whole = origin["whole"]
    reached = [(i, c.kind) for i, c in enumerate(cases) if c.verdict == hostile_corpus.REFUSE and f"/i/t{i:06x}/h" in whole]
    assert reached == []
    compared = 0
    for i, case in enumerate(cases):
        if case.kind != "every byte" or f"/i/t{i:06x}/h" not in whole:
            continue
        sent = {(n.decode(), v.decode("latin-1")) for n, v in hostile_corpus.strict_fields(case.data, hostile_corpus.STRICT_REQUEST)}
        for name, value in whole[f"/i/t{i:06x}/h"]:
            assert name in OUR_OWN or (name, value) in sent or name in FRAMING and name in dict(sent), (case.data, name, value)
        compared += 1
    assert compared > 20 and clients["canary"] > 50
    # Where a request stands behind one that is under way, the hub ends with the client's FIN.
    refused = sum(n for status, n in clients["statuses"].items() if int(status) >= 400)
    assert refused > (0.5 if isinstance(bed, HubBed) else 0.8) * sum(c.verdict == hostile_corpus.REFUSE for c in cases)
    assert bed.daemon.process.alive()


def judge_answers(bed, clients, origin):
    """Only whole, regular answers reach a client as such, and what an endpoint adds poisons nobody."""
    print(clients["statuses"], clients["canary"])
    assert clients["cases"] >= 1000
    assert clients["irregular"] == [], told(clients["irregular"])
    assert not origin["violations"], told(origin["violations"])
    assert clients["canary"] > 20
    assert bed.daemon.process.alive()


def test_requests(bed):
    cases = list(hostile_corpus.requests())
    assert len(cases) >= 4000
    judge_requests(bed, cases, *bed.replay("requests"))


def test_answers(bed):
    judge_answers(bed, *bed.replay("responses"))


def test_requests_at_the_hub(hub_bed):
    cases = list(hostile_corpus.every_byte())
    assert len(cases) >= 800
    judge_requests(hub_bed, cases, *hub_bed.replay("bytes"))


def test_answers_at_the_hub(hub_bed):
    judge_answers(hub_bed, *hub_bed.replay("responses"))
