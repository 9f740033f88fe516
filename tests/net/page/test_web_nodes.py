"""A service's endpoints as every node sees them: the page asks each node, by whichever replica it is connected to, without any right on the
node and without a tunnel; and it says why where a node does not tell."""
import contextlib
import hashlib
import json

import pytest

from lab import PATIENCE_S, Agent, Machine, Node, pod, service, wait_for
from looker import HOST, SECRET, Looker
from pki import Authority
from pretender import Pretender
from replicas import know_each_other, name_hubs, start_hub, url

RULES = "[{from: local, to: ['*']}, {from: 'token:ann', tokenSHA256: %s, to: ['hub:web']}]" % hashlib.sha256(SECRET.encode()).hexdigest()


class Pair:
    """Two hubs, edge-1 at the one and edge-2 at the other; the page is at the first. No tunnel lets anybody in, edge-2 has none."""

    def __init__(self, lab):
        self.lab, self.ca = lab, Authority(lab.dir, "shared")
        cert, key = self.ca.issue("web", "subjectAltName=IP:192.0.2.1")
        page = ("--web.listen", HOST, "--web.cert", cert, "--web.key", key, "--access", RULES)
        self.hubs = [start_hub(lab, self.ca, 0, *page), start_hub(lab, self.ca, 1)]
        name_hubs(self.hubs)
        self.desk = Machine(lab, "desk", address="192.0.2.21")
        self.nodes = [Node(lab, f"edge-{i}", f"192.0.2.1{i}") for i in (1, 2)]
        pods = []
        for node in self.nodes:
            p = node.pod("web")
            p.serve("--http", "8080")
            node.publish(30080, p, 8080)
            pods.append(pod(f"{node.name}-web", node, p.address, ("http", 8080, 30080), app="web"))
        for h in self.hubs:
            h.write("all.yaml", service("web", ("http", 80, "http"), selector="web"), *pods)
        self.agents = [Agent(n, h, "--hub.url", url(*hubs), "--hub.heartbeat", "1s", "--tunnel.enabled", enabled)
                       for n, h, hubs, enabled in zip(self.nodes, self.hubs, (self.hubs, self.hubs[::-1]), ("true", "false"))]
        self.client = self.nodes[1].pod("client")
        know_each_other(self.hubs)
        for a in self.agents:
            wait_for("in step", lambda a=a: a.state()["meta"]["synced"])

    def call(self):
        return self.client.get("http://web.default.svc.cluster.local/")[0]

    def pretend(self, name, answer, hub=0):
        return Pretender(self.desk, self.hubs[hub].address, self.ca, name, answer)


@pytest.fixture(scope="module")
def pair(lab):
    made = Pair(lab)
    yield made
    for daemon in (*made.hubs, *made.agents):
        print(f"--- {daemon.socket}\n{daemon.process.log()[-3000:]}")


@pytest.fixture
def looker(pair):
    with Looker(pair.desk) as one:
        one.s.settimeout(PATIENCE_S)
        yield one


def told(looker, node, condition, name="default/web"):
    """What the page says of the node, once that is as wanted."""
    looker.want(f"view=service&name={name.replace('/', '%2F')}")
    found = {}

    def fits(message):
        found.update({r["name"]: r["live"] for r in message["rows"]} if message["found"] else {})
        return bool(found.get(node)) and condition(found[node])
    try:
        looker.next("service", fits)
    except TimeoutError:
        pytest.fail(f"{node}: {found}")
    return found[node]


def says(*healths):
    return lambda live: sorted(e["health"] for e in live.get("said", ())) == sorted(healths)


def because(words):
    return lambda live: words in live.get("why", "")


def test_each_node_tells(pair, looker):
    """By its own hub, and by the replica that it is connected to; nothing was allowed anywhere."""
    here = told(looker, "edge-1", says("unused", "unused"))
    assert here["at"] == "" and here["known"] and here["more"] == 0
    assert {e["node"] for e in here["said"]} == {"edge-1", "edge-2"} and {e["port"] for e in here["said"]} == {80}
    there = told(looker, "edge-2", says("unused", "unused"))
    assert there["at"] == "hub-2" and "172.17.0.2:8080" in {e["address"] for e in there["said"]}
    assert pair.hubs[0].metrics()['edgeway_web_questions_total{result="told"}'] > 0


def test_what_happens_there_is_told(pair, looker):
    told(looker, "edge-2", lambda live: "said" in live)
    wait_for("served", lambda: pair.call() == 200)
    told(looker, "edge-2", lambda live: says("up", "up")(live))
    backend = next(p for p in pair.lab.processes if p.name == "edge-2.web/backend")
    backend.kill()
    for _ in range(20):
        assert pair.call() == 200
    dead = told(looker, "edge-2", lambda live: says("up", "ejected")(live))
    assert [e["address"] for e in dead["said"] if e["health"] == "ejected"] == ["172.17.0.2:8080"]
    assert told(looker, "edge-1", lambda live: "said" in live)["at"] == ""


# What a node answers, and what the page says then; None: an agent that is older.
ODD = {
    "an older agent": (None, "is older, and does not tell"),
    "no answer": (lambda ask: None, "does not answer in time"),
    "a refusal": (lambda ask: ("error", "not <b>today</b>"), "not <b>today</b>"),
    "no reason": (lambda ask: ("error", {"x": 1}), "it refuses, and does not say why"),
    "nothing": (lambda ask: ("response", None), "does not answer as agents do"),
    "another thing": (lambda ask: ("response", {"endpoints": [{"health": "<b>"}]}), "does not answer as agents do"),
    "very much": (lambda ask: ("response", {"known": True, "x": "x" * (1 << 20)}), "does not answer as agents do"),
    "very many": (lambda ask: ("response", {"known": True, "endpoints": [{"port": 1, "health": "up"}] * 501}), "does not answer as agents do"),
}


def test_why_a_node_does_not_tell(pair, looker):
    """Here and by the replica; and such a node goes on being served."""
    with contextlib.ExitStack() as stack:
        made = {f"odd-{hub}-{i}": (stack.enter_context(pair.pretend(f"odd-{hub}-{i}", answer, hub)), why, hub)
                for hub in (0, 1) for i, (answer, why) in enumerate(ODD.values())}
        for node, (one, why, hub) in made.items():
            live = told(looker, node, because(why))
            assert live["at"] == ("hub-2" if hub else "") and "said" not in live, node
            assert one.alive() and bool(one.asked) == (one.answer is not None), node
        assert told(looker, "edge-1", lambda live: "said" in live)
    assert told(looker, "odd-1-1", because("it is connected to no hub"))["at"] == ""


def test_a_node_that_does_not_know_it(pair, looker):
    with pair.pretend("new-1", lambda ask: ("response", {"known": False, "endpoints": [], "more": 0})):
        live = told(looker, "new-1", lambda live: "said" in live)
        assert live["said"] == [] and live["known"] is False


def test_a_node_without_a_tunnel_at_another_replica_is_not_away(pair, looker):
    """Replicas tell each other of connections, not of tunnels alone."""
    looker.want("view=nodes&q=edge-2")
    row = looker.next("nodes", lambda m: m["rows"] and m["rows"][0]["health"] != "down")["rows"][0]
    assert (row["health"], row["at"], row["tunnel"]) == ("elsewhere", "hub-2", False)


def test_a_node_comes_to_another_replica(pair, looker):
    """Its hub stops: it is asked where it has gone to."""
    assert told(looker, "edge-2", lambda live: "said" in live)["at"] == "hub-2"
    pair.hubs[1].process.stop()
    assert told(looker, "edge-2", lambda live: "said" in live and live["at"] == "")
    pair.hubs[1].start()
    know_each_other(pair.hubs)


def test_nobody_asks_while_nobody_looks(pair):
    """And of those whom nobody wants to see only what is asked of every node in turn."""
    with pair.pretend("idle-1", lambda ask: ("response", {"known": True})) as one:
        wait_for("nobody looks", lambda: pair.hubs[0].metrics()["edgeway_web_viewers"] == 0)
        assert one.asked == []
        with Looker(pair.desk) as other:
            other.want("view=nodes&q=idle")
            other.next("nodes", lambda m: m["total"] == 1)
            other.next("top")
        assert set(one.asked) <= {"default/health/web"}  # on a busy machine the turn comes round again


def test_no_right_is_needed(pair):
    """The page has shown what nodes say, though no caller may reach a node's admin port, and no node allows it."""
    assert "audit: " not in pair.hubs[0].process.log() + pair.hubs[1].process.log()
    assert json.loads(pair.hubs[0].ask("/tunnels")[1])["tunnels"][0]["opened"] == 0
