"""NodePorts, externalIPs and the class edgeway.io/node, called from outside the node, from the node and from its pods."""
import collections
import json
import re
import signal

import pytest

from lab import BARE_PYTHON, Agent, Dialogue, Hub, Lab, Machine, Node, pod, service, wait_for

pytestmark = pytest.mark.plain_build  # what the kernel does with the maps; service_maps_test and external_test make them

EXTERNAL = "198.51.100.7"
# says its name and whom it sees, by TCP and UDP
WHO = """
import socket, sys, threading
name, port = sys.argv[1], int(sys.argv[2])
listener = socket.create_server(("", port))
def tcp():
    while True:
        c, peer = listener.accept()
        try:
            c.sendall(f"{name} {peer[0]}\\n".encode())
        except OSError:
            pass
        c.close()
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    print("serving", flush=True)
    while True:
        _, peer = s.recvfrom(2048)
        s.sendto(f"{name} {peer[0]}".encode(), peer)
threading.Thread(target=tcp, daemon=True).start()
udp()
"""
# asks so many times, each from a port of its own: "NAME PEER" or the error
ASK = """
import socket, sys
kind, host, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for i in range(count):
    try:
        if kind == "udp":
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.settimeout(2)
            s.connect((host, port))
            s.send(b"?")
            print(s.recv(99).decode())
        else:
            with socket.create_connection((host, port), 5) as s:
                print(s.makefile().readline().strip() or "closed")
    except OSError as e:
        print(type(e).__name__)
"""
# one UDP flow that goes on: who answers each
FLOW = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.connect((sys.argv[1], int(sys.argv[2])))
while True:
    try:
        s.send(b"?")
        print(s.recv(99).decode(), flush=True)
    except OSError as e:
        print(type(e).__name__, "Error", flush=True)
    time.sleep(0.1)
"""
# a response that is not read on
HELD = """
import socket, sys
s = socket.create_connection((sys.argv[1], 30080), 60)
s.sendall(b"GET /bytes/50000000 HTTP/1.1\\r\\nHost: web\\r\\n\\r\\n")
s.recv(1)
print("open", flush=True)
sys.stdin.read()
"""
# several requests on one connection: who answers each
KEPT = """
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
for i in range(int(sys.argv[3])):
    c.request("GET", "/")
    print(c.getresponse().read().decode().strip())
"""


def node_port(name, target, number, *more, protocol="TCP", port=None, kind="NodePort", port_name="x", app=None, **spec):
    s = service(name, (port_name, port or target, target), selector=app, protocol=protocol, type=kind, **spec)
    if number:
        s["spec"]["ports"][0]["nodePort"] = number
    return s


class World:
    def __init__(self, lab):
        self.lab = lab
        self.hub = Hub(lab)
        self.near, self.far = Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")
        self.outside = Machine(lab, "outside", address="192.0.2.99")
        self.outside.run("ip", "route", "add", EXTERNAL, "via", self.near.address)
        self.a, self.b = self.near.pod("a"), self.far.pod("b")
        objects = []
        for node, p in ((self.near, self.a), (self.far, self.b)):
            p.serve("--http", "8080")
            who = p.start("who", *BARE_PYTHON, "-c", WHO, p.name, "5000")
            wait_for("who", lambda: "serving" in who.log())
            node.publish(31080, p, 8080)
            for protocol in ("tcp", "udp"):
                node.publish(31050, p, 5000, protocol)
            ports = [("http", 8080, 31080)]
            one = pod(p.name.replace(".", "-"), node, p.address, *ports, app="all")
            one["spec"]["containers"][0]["ports"] += [{"name": f"who-{x.lower()}", "containerPort": 5000, "hostPort": 31050, "protocol": x}
                                                      for x in ("TCP", "UDP")]
            objects.append(one)
        self.pods = objects
        self.hub.write("pods.yaml", *objects)
        self.services = {s["metadata"]["name"]: s for s in (
            node_port("web", 8080, 30080, port=80, port_name="http", app="all"),
            node_port("tcp", 5000, 30050, app="all"),
            node_port("udp", 5000, 30053, protocol="UDP", app="all"),
            node_port("tcp-local", 5000, 30051, app="all", externalTrafficPolicy="Local"),
            node_port("udp-local", 5000, 30054, protocol="UDP", app="all", externalTrafficPolicy="Local"),
            node_port("web-local", 8080, 30081, port=81, port_name="http", app="all", externalTrafficPolicy="Local"),
            node_port("health", 8080, 30082, port=82, port_name="http", app="all", kind="LoadBalancer", externalTrafficPolicy="Local",
                      healthCheckNodePort=31900),
            node_port("near", 5000, 0, app="all", kind="ClusterIP", internalTrafficPolicy="Local"),
            node_port("held", 5000, 30060, app="all"),
            node_port("external", 5000, 0, port=8088, kind="ClusterIP", app="all", externalIPs=[EXTERNAL, "127.0.0.9"]),
            node_port("gateway", 5000, 30070, port=8089, kind="LoadBalancer", loadBalancerClass="edgeway.io/node", app="all"),
            node_port("other-class", 5000, 30071, port=8090, kind="LoadBalancer", app="all"))}
        self.write()
        self.holder = self.near.start("holder", *BARE_PYTHON, "-c", WHO, "holder", "30060")
        wait_for("holder", lambda: "serving" in self.holder.log())
        self.agent = Agent(self.near, self.hub)
        self.client = self.near.pod("client")
        wait_for("node ports", lambda: self.where("gateway"))

    def write(self):
        self.hub.write("services.yaml", *self.services.values())

    def external(self):
        return self.agent.state()["iptables"]["external"]

    def port(self, name):
        return next(s for s in json.loads(self.agent.ask("/debug/services")[1])["services"] if s["name"] == name)["ports"][0]

    def endpoints(self):
        return self.near.run(self.lab.program("edgewayctl"), "--socket", self.agent.socket, "endpoints").stdout.splitlines()

    def row(self, name, number=None):
        return next((r for r in self.external()["ports"] if r["service"] == f"default/{name}" and number in (None, r["number"])), None)

    def where(self, name, number=None):
        row = self.row(name, number)
        return row["addresses"] if row else []

    def refused(self, name):
        row = self.row(name)
        return {r["address"]: r["reason"] for r in row["refused"]}

    @staticmethod
    def ask(machine, kind, host, port, count=1):
        return machine.run(*BARE_PYTHON, "-c", ASK, kind, host, port, count).stdout.splitlines()

    def names(self, *args):
        return collections.Counter(line.split()[0] for line in self.ask(*args))


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        made = World(lab)
        yield made
        print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")
        print(json.dumps(made.external()))


def callers(world):
    """Where calls come from, and the address of the node that they name."""
    return ((world.outside, world.near.address), (world.near, world.near.address), (world.client, world.near.address),
            (world.client, world.near.gateway))


def test_tcp(world):
    for machine, address in (*callers(world), (world.near, "127.0.0.1")):
        assert set(world.names(machine, "tcp", address, 30050, 12)) == {"edge-1.a", "edge-2.b"}, machine.name


def test_udp(world):
    for machine, address in callers(world):
        assert set(world.names(machine, "udp", address, 30053, 24)) == {"edge-1.a", "edge-2.b"}, machine.name


def test_http_is_balanced_per_request(world):
    """One connection, both endpoints."""
    for machine, address in (*callers(world), (world.near, "127.0.0.1")):
        said = collections.Counter(machine.run(*BARE_PYTHON, "-c", KEPT, address, 30080, 12).stdout.split())
        assert set(said) == {"edge-1.a", "edge-2.b"} and sum(said.values()) == 12, (machine.name, said)


def test_local_keeps_the_source_address(world):
    for kind, port in (("tcp", 30051), ("udp", 30054)):
        assert set(world.ask(world.outside, kind, world.near.address, port, 8)) == {f"edge-1.a {world.outside.address}"}, kind
        assert world.row(f"{kind}-local")["by"] == "kernel"
        # what is not Local may go on to another node: the node asks in its own name
        assert world.outside.address not in " ".join(world.ask(world.outside, kind, world.near.address, 30050 if kind == "tcp" else 30053, 8))


def test_local_stays_on_the_node_for_its_own_callers(world):
    """Also where the answer would not come this way without masquerading: a pod asks another one of its bridge, or itself."""
    for machine in (world.near, world.client, world.a):
        for kind, port in (("tcp", 30051), ("udp", 30054)):
            assert set(world.names(machine, kind, world.near.address, port, 6)) == {"edge-1.a"}, (machine.name, kind)


def test_local_http(world):
    said = collections.Counter(world.outside.run(*BARE_PYTHON, "-c", KEPT, world.near.address, 30081, 8).stdout.split())
    assert said == {"edge-1.a": 8}


def test_local_serves_on_at_a_pod_that_terminates(world):
    """While this node has no other; a rollout on another node does not close the port before the load balancer has noticed."""
    flow = world.outside.start("flow", *BARE_PYTHON, "-c", FLOW, world.near.address, 30054)
    wait_for("answered", lambda: "edge-1.a" in flow.log())
    world.pods[0]["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    world.hub.write("pods.yaml", *world.pods)
    wait_for("others go elsewhere", lambda: set(world.names(world.outside, "tcp", world.near.address, 30050, 8)) == {"edge-2.b"})
    try:
        assert world.outside.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://{world.near.address}:31900/healthz").stdout == "503"
        for kind, port in (("tcp", 30051), ("udp", 30054)):
            assert set(world.names(world.outside, kind, world.near.address, port, 6)) == {"edge-1.a"}, kind
            assert set(world.names(world.outside, kind, world.near.address, 30050 if kind == "tcp" else 30053, 8)) == {"edge-2.b"}, kind
        for machine in (world.outside, world.near):
            said = collections.Counter(machine.run(*BARE_PYTHON, "-c", KEPT, world.near.address, 30081, 8).stdout.split())
            assert said == {"edge-1.a": 8}, machine.name
        assert set(world.names(world.near, "tcp", "127.0.0.1", 30051, 4)) == {"edge-1.a"}  # by the proxy
        assert [(e["node"], e.get("terminating")) for e in world.port("near")["endpoints"]] == [("edge-1", True)]
        port = world.port("tcp-local")
        assert [[(e["node"], e.get("terminating")) for e in port[part]] for part in ("endpoints", "leaving")] == [[("edge-2", None)], [("edge-1", True)]]
        shown = {line.split()[0]: line for line in world.endpoints() if world.a.address in line}
        assert re.search(r":5000 TERMINATING +pod ", shown["default/near"])
        assert "TERMINATING: for calls from outside alone" in shown["default/tcp-local"] and "default/tcp" not in shown
        seen = flow.log().count("edge-1.a")
        wait_for("the flow goes on", lambda: flow.log().count("edge-1.a") > seen + 2)
        assert "Error" not in flow.log() and "edge-2" not in flow.log()
    finally:
        flow.kill()
        del world.pods[0]["metadata"]["deletionTimestamp"]
        world.hub.write("pods.yaml", *world.pods)
    wait_for("as before", lambda: set(world.names(world.outside, "tcp", world.near.address, 30050, 12)) == {"edge-1.a", "edge-2.b"})


def test_a_port_that_a_process_holds_is_left_alone(world):
    assert world.where("held") == [] and set(world.refused("held").values()) == {"held"}
    for machine in (world.outside, world.near, world.client):
        assert set(world.names(machine, "tcp", world.near.address, 30060, 3)) == {"holder"}
    wait_for("told", lambda: any(f["check"] == "node-ports" and "30060" in f["found"] for f in world.agent.state()["findings"]))
    shown = world.near.run(world.lab.program("edgewayctl"), "--socket", world.agent.socket, "nodeports").stdout
    line = next(x for x in shown.splitlines() if "default/held" in x)
    assert "30060/tcp" in line and f"{world.near.address}: a process of the node listens there" in line
    metric = 'edgeway_iptables_external_ports_refused{reason="held"}'
    assert world.agent.metrics()[metric] == len(world.refused("held"))
    world.holder.kill()
    wait_for("the port is free", lambda: world.near.address in world.where("held"))
    assert set(world.names(world.outside, "tcp", world.near.address, 30060, 8)) == {"edge-1.a", "edge-2.b"}
    again = world.near.start("holder-again", *BARE_PYTHON, "-c", WHO, "again", "30060")
    wait_for("the port is held again", lambda: world.where("held") == [])
    assert set(world.names(world.outside, "tcp", world.near.address, 30060, 3)) == {"again"}
    again.kill()


def test_a_port_that_another_program_translates_is_its(world):
    """As Docker's published ports are: nobody listens, and its rule comes first."""
    world.near.run("nft", "add", "rule", "ip", "lab", "ports", "iifname", "eth0", "tcp", "dport", "30050", "dnat", "to", f"{world.a.address}:5000")
    assert set(world.names(world.outside, "tcp", world.near.address, 30050, 8)) == {"edge-1.a"}
    handle = world.near.run("nft", "-a", "list", "chain", "ip", "lab", "ports").stdout.split("dport 30050")[1].split("handle ")[1].split()[0]
    world.near.run("nft", "delete", "rule", "ip", "lab", "ports", "handle", handle)


def test_external_ips(world):
    assert world.where("external") == [EXTERNAL]  # loopback is never caught
    for machine in (world.outside, world.client):
        assert set(world.names(machine, "tcp", EXTERNAL, 8088, 12)) == {"edge-1.a", "edge-2.b"}, machine.name
    assert world.ask(world.outside, "tcp", world.near.address, 8088) == ["ConnectionRefusedError"]


def test_the_class_edgeway_node(world):
    for machine, address in callers(world):
        assert set(world.names(machine, "tcp", address, 8089, 12)) == {"edge-1.a", "edge-2.b"}, machine.name
    assert set(world.names(world.outside, "tcp", world.near.address, 30070, 12)) == {"edge-1.a", "edge-2.b"}
    assert world.ask(world.outside, "tcp", world.near.address, 8090) == ["ConnectionRefusedError"]  # another class


def test_two_services_want_one_port(world):
    """The one whose name comes first has it; the other one when that is gone."""
    world.services["zweiter"] = node_port("zweiter", 8080, 0, port=8089, kind="LoadBalancer", loadBalancerClass="edgeway.io/node", port_name="http",
                                          app="all")
    world.write()
    wait_for("told", lambda: world.row("zweiter") and set(world.refused("zweiter").values()) == {"taken"})
    assert set(world.names(world.outside, "tcp", world.near.address, 8089, 4)) <= {"edge-1.a", "edge-2.b"}
    kept = world.services.pop("gateway")
    world.write()
    wait_for("taken over", lambda: world.where("zweiter"))
    assert world.outside.get(f"http://{world.near.address}:8089/")[0] == 200
    world.services["gateway"] = kept
    del world.services["zweiter"]
    world.write()
    wait_for("as before", lambda: world.where("gateway") and not world.row("zweiter"))
    assert set(world.names(world.outside, "tcp", world.near.address, 8089, 12)) == {"edge-1.a", "edge-2.b"}


def test_a_new_address_of_the_node(world):
    world.near.run("ip", "addr", "add", "192.0.2.111/24", "dev", "eth0")
    wait_for("it is served", lambda: "192.0.2.111" in world.where("tcp"))
    assert set(world.names(world.outside, "tcp", "192.0.2.111", 30050, 12)) == {"edge-1.a", "edge-2.b"}
    world.near.run("ip", "addr", "del", "192.0.2.111/24", "dev", "eth0")
    wait_for("it is gone", lambda: "192.0.2.111" not in world.where("tcp"))


def test_who_may_call(world):
    """A caller from outside is nobody's pod; UDP of such a service is not served outside at all."""
    for name, port in (("tcp", 30050), ("udp", 30053)):
        world.services[name]["metadata"]["annotations"] = {"edgeway.io/allow-from": "pods=nobody"}
    world.write()
    wait_for("told", lambda: set(world.refused("udp").values()) == {"restricted"})
    assert world.ask(world.outside, "udp", world.near.address, 30053) != ["edge-1.a"]
    wait_for("closed", lambda: set(world.names(world.outside, "tcp", world.near.address, 30050, 2)) <= {"closed", "ConnectionResetError"})
    for name in ("tcp", "udp"):
        world.services[name]["metadata"]["annotations"] = {"edgeway.io/allow-from": "addresses=192.0.2.99"} if name == "tcp" else {}
    world.write()
    wait_for("open to the address", lambda: set(world.names(world.outside, "tcp", world.near.address, 30050, 8)) == {"edge-1.a", "edge-2.b"})
    world.services["tcp"]["metadata"]["annotations"] = {}
    world.write()
    wait_for("as before", lambda: world.where("udp") and set(world.names(world.outside, "udp", world.near.address, 30053, 24)) == {"edge-1.a", "edge-2.b"})


def doctor(world):
    return json.loads(world.near.run(world.lab.program("edgewayctl"), "--socket", world.agent.socket, "-o", "json", "doctor", check=False).stdout)


def test_a_policy_that_drops_what_is_forwarded(world):
    """As dockerd sets it. The proxy serves on; what the kernel forwards is lost until the rule that doctor names is there."""
    nft = world.near.run
    nft("nft", "add table ip filter; add chain ip filter DOCKER-USER; "
        "add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }; add rule ip filter FORWARD jump DOCKER-USER; "
        "add rule ip filter FORWARD oifname docker0 ct state related,established accept; add rule ip filter FORWARD iifname docker0 accept")
    try:
        assert set(world.names(world.outside, "tcp", world.near.address, 30050, 12)) == {"edge-1.a", "edge-2.b"}
        assert "TimeoutError" in world.names(world.outside, "udp", world.near.address, 30054, 1)
        said = wait_for("doctor", lambda: next((f for f in doctor(world) if "externalTrafficPolicy Local" in f["found"]), None))
        assert "filter FORWARD (forward)" in said["found"]
        assert said["remedy"].endswith("iptables -I DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT")
        nft("nft", "insert rule ip filter DOCKER-USER ct status dnat accept")  # what it says
        for kind, port in (("tcp", 30051), ("udp", 30054)):
            assert set(world.names(world.outside, kind, world.near.address, port, 6)) == {"edge-1.a"}, kind
    finally:
        nft("nft", "delete", "table", "ip", "filter")


def test_kube_proxy_on_the_node(world):
    """auto leaves it to it, whatever comes later; its translation would come first anyway."""
    world.near.run("nft", "-f", "-", input="table ip nat {\n chain KUBE-SERVICES { }\n }")
    wait_for("left to it", lambda: not world.external()["on"])
    assert "KUBE-SERVICES" in world.external()["servedBy"] and world.where("tcp") == []
    assert world.ask(world.outside, "tcp", world.near.address, 30050) == ["ConnectionRefusedError"]
    world.near.run("nft", "delete", "table", "ip", "nat")
    wait_for("ours again", lambda: world.where("tcp"))
    assert set(world.names(world.outside, "tcp", world.near.address, 30050, 12)) == {"edge-1.a", "edge-2.b"}


def test_false_and_after_the_end(world):
    assert world.agent.stop() == 0
    assert world.near.clean()
    assert world.ask(world.outside, "tcp", world.near.address, 30050) == ["ConnectionRefusedError"]
    world.agent.start("--mesh.nodePorts", "false")
    wait_for("services", lambda: world.row("tcp"))
    assert set(world.refused("tcp").values()) == {"off"}
    assert world.ask(world.outside, "tcp", world.near.address, 30050) == ["ConnectionRefusedError"]
    world.agent.stop()
    world.near.run("nft", "-f", "-", input="table ip nat {\n chain KUBE-SERVICES { }\n }")
    world.agent.start("--mesh.nodePorts", "true")
    wait_for("both endpoints", lambda: set(world.names(world.outside, "tcp", world.near.address, 30050, 12)) == {"edge-1.a", "edge-2.b"})
    world.near.run("nft", "delete", "table", "ip", "nat")


def test_health_check_node_port(world):
    """A load balancer asks there, as it asks kube-proxy, whether the node has endpoints of its own."""
    def health():
        p = world.outside.run("curl", "-s", "-m", "5", "-w", " %{http_code}", f"http://{world.near.address}:31900/healthz", check=False).stdout
        text, _, status = p.rpartition(" ")
        return status, json.loads(text or "{}").get("localEndpoints")
    wait_for("an endpoint", lambda: health() == ("200", 1))
    s = world.services["health"]
    selector, s["spec"]["selector"] = s["spec"]["selector"], {"app": "nothing"}
    world.write()
    wait_for("none", lambda: health() == ("503", 0))
    s["spec"]["selector"] = selector
    world.write()
    wait_for("one again", lambda: health() == ("200", 1))

    s["spec"]["healthCheckNodePort"] = 31901
    other = world.near.start("other", *BARE_PYTHON, "-m", "http.server", "31901")
    wait_for("taken", lambda: world.near.get("http://127.0.0.1:31901/")[0] == 200)
    world.write()
    wait_for("told", lambda: world.agent.metrics()["edgeway_agent_health_check_ports_troubled"] == 1)
    (found,) = [f["found"] for f in doctor(world) if "healthCheckNodePort" in f["found"]]
    assert "default/health" in found and "31901" in found
    other.kill()
    wait_for("tried again", lambda: world.agent.metrics()["edgeway_agent_health_check_ports_troubled"] == 0)
    s["spec"]["healthCheckNodePort"] = 31900
    world.write()
    wait_for("as before", lambda: health() == ("200", 1))

    # The next agent answers once it has taken over, and one that stops no more, since it serves no NodePort: whatever is still in progress.
    def answers(agent):
        return f"pid={agent.process.pid}," in world.near.run("ss", "-Hltnp", "sport = :31900").stdout
    one = world.agent
    one.stop()
    one.start("--drainTimeout", "1h")
    wait_for("again", lambda: health() == ("200", 1))
    with Dialogue(world.outside, HELD, world.near.address) as held:
        assert held.ask() == "open"
        two = Agent(world.near, None, "--drainTimeout", "1h", "--takeover", "true", token=one.token, start=False)
        two.start(ready=False)
        wait_for("it answers", lambda: answers(two) and two.ready())
        assert two.metrics()["edgeway_agent_health_check_ports_troubled"] == 0 and health() == ("200", 1)
        assert one.process.alive() and not answers(one)
    one.stop()
    with Dialogue(world.outside, HELD, world.near.address) as held:
        assert held.ask() == "open"
        two.process.popen.send_signal(signal.SIGTERM)
        wait_for("no answer", lambda: health() == ("000", None))
        assert two.process.alive()
    assert two.process.wait() == 0
    one.start()

    wait_for("as before", lambda: health() == ("200", 1))
    del s["spec"]["healthCheckNodePort"]
    world.write()
    wait_for("closed", lambda: health() == ("000", None))
