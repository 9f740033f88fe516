"""What a Service says of its balancing, from the manifest to the endpoint that answers: policies, affinity, locality, limits, health."""
import collections
import os
import time

import pytest

from lab import Dialogue, endpoint_slice, pod, service, wait_for


pytestmark = pytest.mark.plain_build  # choices of endpoints, which the units make with the sanitizers, too


def declare(mesh, name, *more, ports=(("http", 80, "http"), ("tcp-echo", 7000, "echo")), annotations=None, selector="web", **spec):
    made = service(name, *ports, selector=selector, **spec)
    made["metadata"]["annotations"] = {f"edgeway.io/{k}": v for k, v in (annotations or {}).items()}
    mesh.hub.write(f"{name}.yaml", made, *more)
    wait_for(f"name {name}", lambda: mesh.client1.address_of(f"{name}.default.svc.cluster.local"))


def ask(client, name, times=1, *options, close=True):
    """Who answers; close: with a connection for each, so that all workers get some."""
    closing = ("-H", "Connection: close") if close else ()
    return client.run("curl", "-sS", "-m", 60, *closing, *options, *[f"http://{name}/{i}" for i in range(times)]).stdout.split()


def knows(agent, name):
    """The endpoints of a service, as each worker that has met it sees them."""
    return [g["endpoints"] for g in agent.state()["lb"]["endpoints"] if g["service"] == f"default/{name}"]


def test_round_robin(mesh):
    declare(mesh, "robin", annotations={"lb-policy": "round-robin"})
    seen = ask(mesh.client1, "robin", 12, close=False)
    assert collections.Counter(seen) == {b: 3 for b in mesh.backends}
    assert seen[:4] == seen[4:8] == seen[8:]


def test_random(mesh):
    declare(mesh, "dice", annotations={"lb-policy": "random"})
    assert set(ask(mesh.client1, "dice", 64)) == mesh.backends


def test_ewma(mesh):
    """One request after the other: who is slow gets few of them, which least-request would not notice."""
    pods = [mesh.node1.pod(f"pace-{i}") for i in range(2)]
    served = [pods[0].serve("--http", "8080"), pods[1].serve("--http", "8080", "--delay", "300")]
    slow = {}
    for policy in ("ewma", "round-robin"):
        declare(mesh, policy, endpoint_slice(f"{policy}-1", policy, 8080, *[p.address for p in pods], port_name="http"),
                ports=(("http", 80, 8080),), selector="none", annotations={"lb-policy": policy})
        wait_for("first answer", lambda n=policy: mesh.client1.get(f"http://{n}/")[0] == 200)
        slow[policy] = sum(a.endswith("pace-1") for a in ask(mesh.client1, policy, 40, close=False))
    assert slow["ewma"] <= 6 and slow["round-robin"] == 20, slow
    for p in served:
        p.kill()


@pytest.mark.parametrize("on, option", [("header:X-User", "X-User: {}"), ("cookie:sid", "Cookie: a=b; sid={}")], ids=["header", "cookie"])
def test_hash_on(mesh, on, option):
    name = "by-" + on.split(":")[0]
    declare(mesh, name, annotations={"hash-on": on})
    chosen = {}
    for user in range(24):
        seen = set(ask(mesh.client1, name, 6, "-H", option.format(f"user-{user}")))
        assert len(seen) == 1, f"user {user}: {seen}"
        chosen[user] = seen.pop()
    assert set(chosen.values()) == mesh.backends
    # Without it the client's address is hashed: one client, one endpoint.
    assert len(set(ask(mesh.client1, name, 12))) == 1


def test_idle_clients_of_a_hashed_service_stop_nobody(mesh):
    """In the ancestor one of them froze all services of the node."""
    declare(mesh, "idle-hash", annotations={"hash-on": "header:X-User"})
    holder = mesh.client1.start("holder", "/usr/bin/python3", "-c", """
import socket, time
held = [socket.create_connection(("idle-hash", 80)) for _ in range(200)]
for s in held[:100]:
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: a")
print("held", flush=True)
time.sleep(60)
""")
    wait_for("all are held", lambda: "held" in holder.log())
    assert len(ask(mesh.client1, "idle-hash", 20, "-H", "X-User: a")) == 20
    assert set(ask(mesh.client2, "edge-nginx", 64)) == mesh.backends
    holder.kill()


def test_hash_moves_few_when_one_is_gone(mesh):
    addresses = [f"172.17.0.{2 + i}" for i in range(2)]  # edge-1's own two pods
    ports = (("http", 80, 8080),)

    def slices(n):
        return endpoint_slice("few-1", "few", 8080, *addresses[:n], port_name="http")

    def who():
        return [ask(mesh.client1, "few", 1, "-H", f"X-User: {u}")[0] for u in range(40)]
    declare(mesh, "few", slices(2), ports=ports, selector="none", annotations={"hash-on": "header:X-User"})
    wait_for("first answer", lambda: mesh.client1.get("http://few/")[0] == 200)
    before = who()
    assert len(set(before)) == 2
    declare(mesh, "few", slices(1), ports=ports, selector="none", annotations={"hash-on": "header:X-User"})
    wait_for("one is left", lambda: len(set(ask(mesh.client1, "few", 8, "-H", "X-User: x"))) == 1 and len(set(who())) == 1)
    declare(mesh, "few", slices(2), ports=ports, selector="none", annotations={"hash-on": "header:X-User"})
    wait_for("both as before", lambda: who() == before)


def test_slow_start(mesh):
    """An endpoint that is new beside another, or back, gets a small part at first; without the annotation a half."""
    pods = [mesh.node1.pod(f"slow-{i}") for i in range(2)]
    served = [p.serve("--http", "8080") for p in pods]
    share, workers = {}, mesh.agent1.state()["lb"]["workers"]

    def slices(n):
        return endpoint_slice("slow-1", "slow", 8080, *[p.address for p in pods[:n]], port_name="http")
    for more in ({"slow-start": "15m"}, {}):
        for n in (1, 2):
            declare(mesh, "slow", slices(n), ports=(("http", 80, 8080),), selector="none", annotations={"lb-policy": "round-robin", **more})
            wait_for("all workers know", lambda n=n: ask(mesh.client1, "slow") and [len(g) for g in knows(mesh.agent1, "slow")] == [n] * workers)
        wait_for("it is used", lambda: "slow-1" in "".join(ask(mesh.client1, "slow", 40)))
        share[len(more)] = sum(a.endswith("slow-1") for a in ask(mesh.client1, "slow", 400))
    assert 0 < share[1] < 60 and share[0] > 180, share  # a twentieth of 200
    for p in served:
        p.kill()


def test_hash_balance(mesh):
    """A key that many ask for at once goes to others too, with this annotation alone."""
    pods = [mesh.node1.pod(f"hot-{i}") for i in range(2)]
    served = [p.serve("--http", "8080") for p in pods]
    for name, more in (("hot", {}), ("eased", {"hash-balance": "125"})):
        ports, made = (("http", 80, 8080),), endpoint_slice(f"{name}-1", name, 8080, *[p.address for p in pods], port_name="http")
        declare(mesh, name, made, ports=ports, selector="none", annotations={"hash-on": "header:X-User", **more})
        wait_for("first answer", lambda n=name: mesh.client1.get(f"http://{n}/")[0] == 200)
    parallel = ("--parallel", "--parallel-immediate", "--parallel-max", "40")

    def of_each(name):  # HTTP/1.1 clients of their own connections, each a second long
        return collections.Counter(ask(mesh.client1, name, 0, "-H", "X-User: star", *parallel, *[f"http://{name}/slow"] * 40))
    assert list(of_each("hot").values()) == [40]
    eased = of_each("eased")
    assert sum(eased.values()) == 40 and len(eased) == 2 and min(eased.values()) >= 8, eased
    assert len(set(ask(mesh.client1, "eased", 20, "-H", "X-User: star"))) == 1  # one after the other
    for p in served:
        p.kill()


def test_affinity(mesh):
    declare(mesh, "sticky", sessionAffinity="ClientIP")
    clients = [mesh.client1] + [mesh.node1.pod(f"client-{i}") for i in range(9)]
    chosen = []
    for c in clients:
        seen = set(ask(c, "sticky", 20))
        assert len(seen) == 1, seen
        echo = {c.send("sticky", 7000, "x").split("\n")[0] for _ in range(8)}
        assert len(echo) == 1
        chosen += seen
    assert len(set(chosen)) > 1
    # A client stays although others come and endpoints are added or not.
    assert [ask(c, "sticky")[0] for c in clients] == chosen


def test_affinity_ends_when_it_was_not_used(mesh):
    declare(mesh, "brief", sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 2}})
    used = since = time.monotonic()
    first = ask(mesh.client1, "brief")[0]
    for _ in range(100):  # each use starts the time anew; what came later than that, on a busy machine, begins it
        time.sleep(0.4)
        before, used = used, time.monotonic()
        who = ask(mesh.client1, "brief")[0]
        if time.monotonic() - before >= 2:
            first, since = who, used
        assert who == first
        if used - since > 4.8:
            break
    seen = {first}
    for _ in range(8):  # a fresh choice each time
        time.sleep(3.1)
        seen |= set(ask(mesh.client1, "brief", 3))
        if len(seen) > 1:
            return
    raise AssertionError(f"nobody but {first} in 8 choices")


def test_affinity_moves_with_the_endpoint(mesh):
    extra = mesh.node1.pod("extra")
    server = extra.serve("--http", "8099")
    slices = [endpoint_slice("moving-1", "moving", 8099, extra.address, port_name="http")]
    declare(mesh, "moving", *slices, ports=(("http", 80, 8099),), selector="none", sessionAffinity="ClientIP")
    wait_for("first answer", lambda: set(ask(mesh.client1, "moving", 6)) == {"edge-1.extra"})
    known = mesh.agent1.ask("/debug/services")[1].count("172.17.0.2")
    slices.append(endpoint_slice("moving-2", "moving", 8080, "172.17.0.2", port_name="http"))
    declare(mesh, "moving", *slices, ports=(("http", 80, 8099),), selector="none", sessionAffinity="ClientIP")
    wait_for("both are known", lambda: mesh.agent1.ask("/debug/services")[1].count("172.17.0.2") > known)
    assert set(ask(mesh.client1, "moving", 10)) == {"edge-1.extra"}  # one more endpoint moves nobody
    server.kill()
    assert set(ask(mesh.client1, "moving", 10)) == {"edge-1.web-0"}


def test_internal_traffic_policy_local(mesh):
    declare(mesh, "local", internalTrafficPolicy="Local")
    for client, node in ((mesh.client1, "edge-1"), (mesh.client2, "edge-2")):
        assert set(ask(client, "local", 32)) == {f"{node}.web-0", f"{node}.web-1"}
    mesh.hub.write("there.yaml", service("there", ("http", 80, 8080), selector="there", internalTrafficPolicy="Local"),
                   pod("there-0", mesh.node2, "172.17.0.2", ("http", 8080, 30080), app="there"))
    wait_for("elsewhere", lambda: mesh.client2.get("http://there/")[1].strip() == "edge-2.web-0")
    wait_for("not here", lambda: mesh.client1.get("http://there/")[0] == 503)


def kill_and_revive(mesh, name, near, far):
    """The near tier, the far one while nobody near is there, the near one again."""
    web = mesh.near_pods
    assert set(ask(mesh.client1, name, 32)) == near
    for p, process in web.items():
        process.kill()
    try:
        assert set(ask(mesh.client1, name, 48)) == far
        assert all(e["state"] == "ejected" for g in knows(mesh.agent1, name) for e in g if e["tier"] != "rest")
    finally:
        for p in web:
            web[p] = p.serve("--http", "8080", "--tcp", "9090")
    wait_for("the near ones are back", lambda: set(ask(mesh.client1, name, 16)) == near)


@pytest.fixture(scope="module")
def mesh_with_handles(mesh):
    """edge-1's backends as processes of this file's, so that they can be killed."""
    pods = [m for m in mesh.lab.machines if m.name in ("edge-1.web-0", "edge-1.web-1")]
    mesh.near_pods = {p: next(x for x in mesh.lab.processes if x.name == f"{p.name}/backend") for p in pods}
    return mesh


def test_prefer_same_node(mesh_with_handles):
    mesh = mesh_with_handles
    declare(mesh, "near", trafficDistribution="PreferSameNode")
    kill_and_revive(mesh, "near", {"edge-1.web-0", "edge-1.web-1"}, {"edge-2.web-0", "edge-2.web-1"})
    assert {e["tier"] for g in knows(mesh.agent1, "near") for e in g} == {"node", "rest"}


def test_prefer_zone(mesh_with_handles):
    mesh = mesh_with_handles
    mesh.hub.write("nodes.yaml", *[{
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": n.name, "labels": {"topology.kubernetes.io/zone": f"zone-{n.name}", "edgeway.io/site": "lab"}},
        "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for n in mesh.nodes])
    declare(mesh, "zoned", trafficDistribution="PreferClose")
    wait_for("zones are known", lambda: set(ask(mesh.client1, "zoned", 16)) == {"edge-1.web-0", "edge-1.web-1"} and all(
        [e["tier"] for e in g] == ["zone", "zone", "rest", "rest"] for g in knows(mesh.agent1, "zoned")))
    kill_and_revive(mesh, "zoned", {"edge-1.web-0", "edge-1.web-1"}, {"edge-2.web-0", "edge-2.web-1"})
    assert {e["tier"] for g in knows(mesh.agent1, "zoned") for e in g} == {"zone", "rest"}
    mesh.hub.delete("nodes.yaml")


def test_retries(mesh):
    """An endpoint that refuses costs no request, as nothing was sent; not even where a Service wants each request sent once."""
    for name, retries, port in (("hidden", "2", 8097), ("plain", "0", 8098)):
        declare(mesh, name, endpoint_slice(f"{name}-1", name, 8080, "172.17.0.2", port_name="http"),
                endpoint_slice(f"{name}-2", name, port, "172.17.0.3", port_name="http"), ports=(("http", 80, 8080),),
                selector="none", annotations={"retries": retries, "lb-policy": "round-robin"})
        wait_for("known", lambda n=name: mesh.client1.get(f"http://{n}/")[0] == 200)
        assert ask(mesh.client1, name, 24) == ["edge-1.web-0"] * 24


# Twelve requests at the same moment, on all workers, that are not answered; ten are refused. At the end the connections are reset.
HANGING = """
import select, socket, struct, sys
all = [socket.create_connection((sys.argv[1], 80)) for _ in range(12)]
for s in all:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
for s in all:
    s.sendall(b"GET /hang HTTP/1.1\\r\\nHost: narrow\\r\\n\\r\\n")
refused = set()
while len(refused) < 10:
    for s in select.select([s for s in all if s not in refused], [], [])[0]:
        assert s.recv(65536).startswith(b"HTTP/1.1 503")
        refused.add(s)
print("refused", flush=True)
sys.stdin.read()
"""


def in_flight(agent, service):
    """Of each endpoint, all workers together."""
    of = collections.Counter()
    for g in agent.state()["lb"]["endpoints"]:
        if g["service"] == service:
            of.update({e["address"]: e["in_flight"] for e in g["endpoints"]})
    return sorted(of.values())


def test_max_connections(mesh):
    """Who finds all in use waits for a connection; as long as one may take, then it is 503. No worker takes one too many."""
    assert mesh.agent1.state()["lb"]["workers"] > 1
    for name, limit in (("narrow", "200ms"), ("patient", "60s")):
        declare(mesh, name, endpoint_slice(f"{name}-1", name, 8080, "172.17.0.2", "172.17.0.3", port_name="http"),
                ports=(("http", 80, 8080),), selector="none", annotations={"max-connections": "1", "connect-timeout": limit})
        wait_for("first answer", lambda n=name: mesh.client1.get(f"http://{n}/")[0] == 200)
    before = mesh.agent1.metrics()['edgeway_lb_errors_total{reason="max_connections"}']
    with Dialogue(mesh.client1, HANGING, mesh.client1.getent("narrow")) as hanging:
        assert hanging.ask() == "refused"
        assert in_flight(mesh.agent1, "default/narrow") == [1, 1]
        p = mesh.client1.run("sh", "-c", "for i in 1 2; do curl -sSi -m 60 http://narrow/ & done; wait")
        assert p.stdout.count("HTTP/1.1 503") == 2, p.stdout
        assert p.stdout.lower().count("retry-after: 1") == 2 and p.stdout.count("max-connections") == 2
    wait_for("both are free", lambda: in_flight(mesh.agent1, "default/narrow") == [0, 0])
    assert mesh.agent1.metrics()['edgeway_lb_errors_total{reason="max_connections"}'] == before + 12
    p = mesh.client1.run("sh", "-c", "for i in 1 2 3 4; do curl -sSi -m 90 http://patient/slow & done; wait")
    assert p.stdout.count("HTTP/1.1 200") == 4, p.stdout
    wait_for("both serve", lambda: len(ask(mesh.client1, "narrow", 6)) == 6)  # 200 ms may be short for a busy machine


def of_service(agent, metric, name, more=""):
    return agent.metrics().get(f'edgeway_service_{metric}{{namespace="default",service="{name}"{more}}}', 0)


def test_metrics_of_services(mesh):
    """They appear with traffic, are added up over the workers, and go with their service."""
    agent = mesh.agent1
    declare(mesh, "counted", endpoint_slice("counted-1", "counted", 8080, "172.17.0.2", port_name="http"),
            endpoint_slice("counted-2", "counted", 9090, "172.17.0.2", port_name="tcp-echo"), ports=(("http", 80, 8080), ("tcp-echo", 7000, 9090)), selector="none")
    declare(mesh, "quiet", endpoint_slice("quiet-1", "quiet", 8080, "172.17.0.2", port_name="http"), ports=(("http", 80, 8080),), selector="none")
    wait_for("names", lambda: all(mesh.client1.address_of(f"{n}.default.svc.cluster.local") for n in ("counted", "quiet")))
    assert of_service(agent, "connections_total", "counted") == 0
    assert len(ask(mesh.client1, "counted", 20)) == 20
    assert mesh.client1.get("http://counted/", "-d", "x" * 1000)[0] == 200
    assert "hello" in mesh.client1.send("counted", 7000, "hello")
    assert of_service(agent, "requests_total", "counted", ',code_class="2xx"') == 21
    assert of_service(agent, "first_byte_seconds_count", "counted") == 21
    assert of_service(agent, "connections_total", "counted") >= 3
    wait_for("closed", lambda: of_service(agent, "connections_active", "counted") == 0)
    assert of_service(agent, "bytes_total", "counted", ',direction="upstream"') == 1005
    state = {s["service"]: s for s in agent.state()["lb"]["services"]}
    assert state["counted"]["requests"]["2xx"] == 21 and 0 < state["counted"]["p50_us"] <= state["counted"]["p99_us"]
    assert "quiet" not in state and '"quiet"' not in agent.ask("/metrics")[1]


def test_health_path(mesh):
    flag = os.path.join(mesh.lab.dir, "ill")
    extra = [mesh.node1.pod(f"checked-{i}") for i in range(2)]
    for p, ill in zip(extra, (flag, flag + "-2")):
        p.serve("--http", "8080", "--ill-if", ill)
    names = {p.name for p in extra}
    declare(mesh, "checked", endpoint_slice("checked-1", "checked", 8080, *[p.address for p in extra], port_name="http"),
            ports=(("http", 80, 8080),), selector="none", annotations={"health-path": "/health", "health-interval": "100ms"})
    wait_for("both", lambda: set(ask(mesh.client1, "checked", 8)) == names)
    open(flag, "w").close()
    wait_for("one is ill", lambda: any(e["state"] == "ill" for g in knows(mesh.agent1, "checked") for e in g))
    assert set(ask(mesh.client1, "checked", 24)) == {extra[1].name}
    open(flag + "-2", "w").close()
    wait_for("both are ill: better than nobody", lambda: set(ask(mesh.client1, "checked", 12)) == names)
    os.unlink(flag)
    wait_for("the other is back", lambda: set(ask(mesh.client1, "checked", 12)) == {extra[0].name})
    os.unlink(flag + "-2")
    wait_for("both are back", lambda: set(ask(mesh.client1, "checked", 12)) == names)
    log = mesh.agent1.process.log()
    assert "a health check took an endpoint out" in log and "found an endpoint well again" in log
    p = mesh.node1.run(mesh.lab.program("edgewayctl"), "--socket", mesh.agent1.socket, "health", "default/checked")
    assert f"{extra[0].address}:8080" in p.stdout and " up " in p.stdout
    mesh.hub.delete("checked.yaml")


def test_health_checks_belong_to_their_service(mesh):
    """Another Service keeps an endpoint that this one's check finds ill; what the annotation says counts at once, and checks end with their
    Service, though a connection to it stays."""
    flag = os.path.join(mesh.lab.dir, "ill-too")
    extra = [mesh.node1.pod(f"judged-{i}") for i in range(2)]
    served = [p.serve("--http", "8080", "--ill-if", flag if i == 0 else "") for i, p in enumerate(extra)]
    names = {p.name for p in extra}

    def checked(path=None):
        told = {"health-path": path, "health-interval": "100ms"} if path else {}
        declare(mesh, "judged", endpoint_slice("judged-1", "judged", 8080, *[p.address for p in extra], port_name="http"),
                ports=(("http", 80, 8080),), selector="none", annotations=told)

    def states(name="judged"):
        return {e["state"] for g in knows(mesh.agent1, name) for e in g}
    declare(mesh, "unjudged", endpoint_slice("unjudged-1", "unjudged", 8080, *[p.address for p in extra], port_name="http"),
            ports=(("http", 80, 8080),), selector="none")
    checked("/health")
    wait_for("both", lambda: set(ask(mesh.client1, "judged", 8)) == names and set(ask(mesh.client1, "unjudged", 8)) == names)
    open(flag, "w").close()
    wait_for("one is ill", lambda: states() == {"up", "ill"})
    assert set(ask(mesh.client1, "judged", 24)) == {extra[1].name}
    assert set(ask(mesh.client1, "unjudged", 24)) == names and states("unjudged") == {"up"}
    checked("/")
    wait_for("well by the new path", lambda: states() == {"up"})
    assert set(ask(mesh.client1, "judged", 24)) == names
    checked("/health")
    wait_for("ill by the old one", lambda: states() == {"up", "ill"})
    checked()
    wait_for("nobody asks", lambda: states() == {"up"} and set(ask(mesh.client1, "judged", 24)) == names)
    checked("/health")
    wait_for("ill again", lambda: ask(mesh.client1, "judged") and states() == {"up", "ill"})
    held = mesh.client1.start("held", "curl", "-sS", "http://judged/hang")
    wait_for("it hangs", lambda: any(e["in_flight"] for g in knows(mesh.agent1, "judged") for e in g))
    mesh.hub.delete("judged.yaml")
    wait_for("gone", lambda: not knows(mesh.agent1, "judged"))
    made = mesh.agent1.counted("checks")
    time.sleep(1)  # of ten checks there is none
    assert mesh.agent1.counted("checks") == made
    held.kill()
    mesh.hub.delete("unjudged.yaml")
    for p in served:
        p.kill()


def test_retry_on(mesh):
    """An endpoint that says 503 costs no request that another may answer; ten attempts more are within the budget."""
    flag = os.path.join(mesh.lab.dir, "busy")
    extra = [mesh.node1.pod(f"busy-{i}") for i in range(2)]
    served = [p.serve("--http", "8080", "--ill-if", flag if i == 0 else "") for i, p in enumerate(extra)]
    open(flag, "w").close()
    said = {}
    for name, told in (("busy", {}), ("eager", {"retry-on": "503"})):
        declare(mesh, name, endpoint_slice(f"{name}-1", name, 8080, *[p.address for p in extra], port_name="http"),
                ports=(("http", 80, 8080),), selector="none", annotations={"lb-policy": "round-robin", **told})
        wait_for("first answer", lambda n=name: mesh.client1.get(f"http://{n}/health")[0] == 204)
        said[name] = collections.Counter(mesh.client1.run("curl", "-sS", "-w", "%{http_code}\n", *[f"http://{name}/health"] * 10).stdout.split())
        mesh.hub.delete(f"{name}.yaml")
    assert said["busy"] == {"204": 5, "503": 5} and said["eager"] == {"204": 10}
    for p in served:
        p.kill()


def test_not_ready_and_terminating(mesh):
    """publishNotReadyAddresses; and those that still serve while they end, where nobody else is ready."""
    declare(mesh, "early", pod("early-0", mesh.node1, "172.17.0.2", ("http", 8080, 0), app="early", ready=False),
            ports=(("http", 80, 8080),), selector="early", publishNotReadyAddresses=True)
    wait_for("not ready, published", lambda: mesh.client1.get("http://early/")[1].strip() == "edge-1.web-0")
    leaving = endpoint_slice("leaving-1", "leaving", 8080, "172.17.0.2", port_name="http")
    leaving["endpoints"][0]["conditions"] = {"ready": False, "serving": True, "terminating": True}
    ready = endpoint_slice("leaving-2", "leaving", 8080, "172.17.0.3", port_name="http")
    declare(mesh, "leaving", leaving, ready, ports=(("http", 80, 8080),), selector="none")
    wait_for("the ready one", lambda: set(ask(mesh.client1, "leaving", 12)) == {"edge-1.web-1"})
    declare(mesh, "leaving", leaving, ports=(("http", 80, 8080),), selector="none")
    wait_for("the one that ends", lambda: set(ask(mesh.client1, "leaving", 12)) == {"edge-1.web-0"})


def test_removed_services_give_their_memory_back(mesh):
    """Those that come next use it again, and what nobody uses is the machine's again. What the first ones make for good (SQLite's pages,
    addresses that rest) is as much as half of it where free memory was left before, so the bound is no part of what is left."""
    def anonymous_kb():
        with open(f"/proc/{mesh.agent1.process.pid}/smaps_rollup") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Anonymous:"))

    def services():
        return mesh.agent1.state()["services"]
    before, peaks, n = anonymous_kb(), [], 6000
    many = [service(f"many-{i}", ("http", 80, 8080), ("tcp", 81, 8081), selector="web") for i in range(n)]
    for _ in range(2):
        mesh.hub.write("many.yaml", *many)
        wait_for("all of them", lambda: services() >= n)
        peaks.append(anonymous_kb())
        time.sleep(2)  # heap_give_back looks once a second, and a peak that it does not see is none
        mesh.hub.delete("many.yaml")
        wait_for("none of them", lambda: services() < n / 10)
    held = peaks[0] - before
    assert held > 2500 and peaks[1] - peaks[0] < held * 0.4
    wait_for("memory", lambda: anonymous_kb() < peaks[1] - held * 0.25)
