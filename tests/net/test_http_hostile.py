"""Thousands of hostile requests and answers through the agent; at both ends stands somebody who forgives nothing."""
import collections
import json
import os

import pytest

import hostile_corpus
from lab import HERE, PYTHON, Agent, Hub, Node, pod, service, wait_for

SCRIPT = os.path.join(HERE, "hostile_http.py")


class Bed:
    def __init__(self, lab):
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.origin = self.node.pod("origin")
        self.process = self.origin.start("origin", PYTHON, SCRIPT, "origin", "8080")
        self.client = self.node.pod("client")
        hub = Hub(lab)
        hub.write("web.yaml", service("web", ("http", 80, "http")), pod("web", self.node, self.origin.address, ("http", 8080, 0)))
        self.agent = Agent(self.node, hub)
        wait_for("call", lambda: self.client.get(f"http://{self.ip()}/i/first/z")[0] == 200)

    def ip(self):
        return self.client.dns("web.default.svc.cluster.local", server=self.node.gateway)[1][0][4]

    def replay(self, what):
        """What the clients say, and what the origin says."""
        p = self.client.run(PYTHON, SCRIPT, what, self.ip(), 80, seconds=240)
        raw = self.client.python("import socket,sys\ns = socket.create_connection((sys.argv[1], 8081))\n"
                                 "while d := s.recv(65536): sys.stdout.write(d.decode())", self.origin.address).stdout
        return json.loads(p.stdout), json.loads(raw)


@pytest.fixture(scope="module")
def bed(lab):
    return Bed(lab)


def told(irregular):
    """The first few of each kind."""
    by_kind = collections.defaultdict(list)
    for row in irregular:
        by_kind[row[1] if isinstance(row, list) else ""].append(row)
    return f"{len(irregular)} irregular:\n" + "\n".join(f"{len(rows)} {rows[:4]}" for rows in by_kind.values())


def test_requests(bed):
    """Nothing irregular goes upstream, what must be refused is, and every answer belongs to its request."""
    cases = list(hostile_corpus.requests())
    clients, origin = bed.replay("requests")
    print(clients["statuses"], clients["canary"])
    assert clients["cases"] == len(cases) >= 3000
    assert not origin["violations"], told(origin["violations"])
    assert clients["irregular"] == [], told(clients["irregular"])
    whole = set(origin["whole"])
    reached = [(i, c.kind) for i, c in enumerate(cases) if c.verdict == hostile_corpus.REFUSE and f"/i/t{i:06x}/h" in whole]
    assert reached == []
    assert clients["canary"] > 100
    refused = sum(n for status, n in clients["statuses"].items() if int(status) >= 400)
    assert refused > 0.8 * sum(c.verdict == hostile_corpus.REFUSE for c in cases)
    assert bed.agent.process.alive()


def test_answers(bed):
    """Only whole, regular answers reach a client as such, and what an endpoint adds poisons nobody."""
    clients, origin = bed.replay("responses")
    print(clients["statuses"], clients["canary"])
    assert clients["cases"] >= 600
    assert clients["irregular"] == [], told(clients["irregular"])
    assert not origin["violations"], told(origin["violations"])
    assert clients["canary"] > 20
    assert bed.agent.process.alive()
