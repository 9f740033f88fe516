"""Names of single pods of a headless service: db-0.db reaches that one pod, from its own node and from another."""
import pytest

import lab as labs
from lab import FAKE, Agent, Hub, Node, pod, service, wait_for

pytestmark = pytest.mark.plain_build  # names and endpoints that the units build with the sanitizers, too

D = "svc.cluster.local"
DB, DB_0, DB_1, DB_2 = f"db.default.{D}", *(f"db-{i}.db.default.{D}" for i in range(3))


def member(name, node, made, ready=True, admin=True):
    """A pod as the StatefulSet controller makes it; its metrics port is no port of the service."""
    first = int(name[-1])
    ports = [("http", 8080, 30080 + first), ("sql", 9090, 30090 + first)]
    ports += [("http-admin", 8888, 30888 + first)] if admin else []
    p = pod(name, node, made.address, *ports, app="db", ready=ready)
    p["spec"].update(hostname=name, subdomain="db")
    return p


class Set:
    """db-0 on edge-1, db-1 on edge-2, db-2 on edge-1 and never ready; a client on each node."""

    def __init__(self, lab):
        self.lab, self.dns = lab, labs.upstream(lab, "www.example.test/203.0.113.7")
        self.hub = Hub(lab)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        self.hub.write("service.yaml", service("db", ("http", 80, "http"), ("sql", 5432, 9090), clusterIP="None"))
        self.pods = []
        for i, node in ((0, self.nodes[0]), (1, self.nodes[1]), (2, self.nodes[0])):
            p = node.pod(f"db-{i}")
            p.serve("--http", "8080", "--http", "8888", "--tcp", "9090")
            for port, outside in ((8080, 30080), (9090, 30090), (8888, 30888)):
                node.publish(outside + i, p, port)
            self.pods.append(p)
            self.say(i)
        self.agents = [Agent(n, self.hub) for n in self.nodes]
        for a in self.agents:
            wait_for("names of pods", lambda a=a: a.node.address_of(DB_1, f"@{a.node.gateway}"))
            wait_for("resolv.conf written", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        self.clients = [n.pod("client") for n in self.nodes]
        self.client = self.clients[0]

    def say(self, i, **more):
        self.hub.write(f"db-{i}.yaml", member(f"db-{i}", self.pods[i].node, self.pods[i], ready=i != 2, **more))

    def addresses(self, client):
        return [client.address_of(name) for name in (DB, DB_0, DB_1, DB_2)]


@pytest.fixture(scope="module")
def db(lab):
    made = Set(lab)
    yield made
    for a in made.agents:
        print(f"--- log of {a.node.name}\n{a.process.log()[-4000:]}")


def who(client, url, times=12):
    return {client.get(url)[1].strip() for _ in range(times)}


def test_each_pod_has_an_address_of_its_own(db):
    seen = db.addresses(db.client)
    assert all(FAKE.match(a) for a in seen) and len(set(seen)) == 4
    assert db.addresses(db.clients[1]) == seen
    assert [db.client.address_of(n.upper()) for n in (DB, DB_0, DB_1, DB_2)] == seen
    assert db.client.dns(f"db-3.db.default.{D}")[0] == "NXDOMAIN"
    status, answers, authority = db.client.dns(DB_0, "AAAA")
    assert (status, answers) == ("NOERROR", []) and authority[0][3] == "SOA"


def test_search_list(db):
    for short in ("db-0.db", "db-0.db.default", "db-0.db.default.svc"):
        assert db.client.getent(short) == db.client.address_of(DB_0)


def test_http_reaches_that_pod_only(db):
    for client in db.clients:
        assert who(client, "http://db-0.db/") == {"edge-1.db-0"}
        assert who(client, "http://db-1.db/") == {"edge-2.db-1"}
        # In contrast to the service's own name, which reaches both.
        assert who(client, "http://db/", 64) == {"edge-1.db-0", "edge-2.db-1"}


def test_one_connection_stays_with_its_pod(db):
    p = db.client.run("curl", "-sS", *[f"http://db-1.db/{i}" for i in range(16)])
    assert set(p.stdout.split()) == {"edge-2.db-1"}


def test_tcp_reaches_that_pod_only(db):
    for client in db.clients:
        for i, name in ((0, "edge-1.db-0"), (1, "edge-2.db-1")):
            assert {client.send(f"db-{i}.db", 5432, "ping") for _ in range(6)} == {f"{name}\nping"}


def test_target_ports_and_declared_ports(db):
    for client in db.clients:
        # The pods' own port for a port of the service: of a single pod, and of the service, where all agree.
        assert who(client, "http://db-0.db:8080/") == {"edge-1.db-0"}
        assert client.send("db-1.db", 9090, "x") == "edge-2.db-1\nx"
        assert who(client, "http://db:8080/", 64) == {"edge-1.db-0", "edge-2.db-1"}
        # What only the pod declares: at its own name.
        assert who(client, "http://db-1.db:8888/") == {"edge-2.db-1"}
        assert client.send("db", 8888, "x") in (None, "")
        assert client.send("db-0.db", 7777, "x") in (None, "")


def test_a_pod_that_is_not_ready_has_a_name_and_no_endpoint(db):
    assert FAKE.match(db.client.address_of(DB_2))
    assert db.client.get("http://db-2.db/")[0] == 503
    db.hub.write("db-2.yaml", member("db-2", db.nodes[0], db.pods[2], ready=True))
    wait_for("db-2 answers", lambda: db.client.get("http://db-2.db/")[1].strip() == "edge-1.db-2")
    db.say(2)
    wait_for("db-2 is not ready again", lambda: db.client.get("http://db-2.db/")[0] == 503)


def test_srv_lists_those_that_serve(db):
    status, answers, _ = db.client.dns(f"_sql._tcp.{DB}", "SRV")
    assert status == "NOERROR"
    assert sorted(a[4] for a in answers) == [f"0 100 5432 {DB_0}.", f"0 100 5432 {DB_1}."]
    for name in (DB_0, DB_1):
        p = db.client.run("dig", "-x", db.client.address_of(name), "+short")
        assert p.stdout.strip() == f"{name}."


def test_declared_port_goes_with_its_declaration(db):
    db.say(0, admin=False)
    wait_for("port is gone", lambda: db.client.send("db-0.db", 8888, "x") in (None, ""))
    assert who(db.client, "http://db-0.db/") == {"edge-1.db-0"}
    db.say(0)
    wait_for("port is back", lambda: db.client.get("http://db-0.db:8888/")[1].strip() == "edge-1.db-0")


def test_pod_goes_and_returns_with_its_address(db):
    before = db.addresses(db.client)
    db.hub.delete("db-1.yaml")
    for client in db.clients:
        wait_for("name is gone", lambda c=client: c.dns(DB_1)[0] == "NXDOMAIN")
        assert client.address_of(DB) == before[0] and client.address_of(DB_0) == before[1]
    assert db.client.run("dig", "-x", before[2], "+short").stdout == ""
    assert who(db.client, "http://db/") == {"edge-1.db-0"}
    db.say(1)
    for client in db.clients:
        wait_for("name is back", lambda c=client: c.address_of(DB_1))
        assert db.addresses(client) == before
        wait_for("pod answers", lambda c=client: c.get("http://db-1.db/")[1].strip() == "edge-2.db-1")


def test_agent_restarted_without_the_hub(db):
    before = db.addresses(db.client)
    agent = db.agents[0]
    db.hub.process.stop()
    try:
        assert agent.stop() == 0
        agent.start()
        assert db.addresses(db.client) == before
        assert who(db.client, "http://db-0.db/") == {"edge-1.db-0"}
        assert db.client.send("db-1.db", 5432, "x") == "edge-2.db-1\nx"
        assert who(db.client, "http://db-1.db:8888/") == {"edge-2.db-1"}
        assert len(db.client.dns(DB, "SRV")[1]) == 4
        assert db.client.dns(f"db-3.db.default.{D}")[0] == "NXDOMAIN"
    finally:
        db.hub.start()


def test_names_go_with_headlessness_and_with_the_service(db):
    before = db.addresses(db.client)
    db.hub.write("service.yaml", service("db", ("http", 80, "http"), ("sql", 5432, 9090)))
    wait_for("no names of pods", lambda: db.client.dns(DB_0)[0] == "NXDOMAIN")  # the agent's pause between attempts
    assert db.client.address_of(DB) == before[0]
    assert db.client.dns(f"_sql._tcp.{DB}", "SRV")[1][0][4] == f"0 100 5432 {DB}."
    db.hub.delete("service.yaml")
    wait_for("service is gone", lambda: db.client.dns(DB)[0] == "NXDOMAIN")
    assert db.client.dns(DB_0)[0] == "NXDOMAIN"
    db.hub.write("service.yaml", service("db", ("http", 80, "http"), ("sql", 5432, 9090), clusterIP="None"))
    wait_for("all names are back", lambda: all(db.addresses(db.client)))
    assert db.addresses(db.client) == before
