"""From a pod of one node to endpoints that the node cannot dial: pods of another site, pods in the cloud. The hub reaches them, through
the other node's tunnel or by itself; nothing but the hub is within the nodes' reach.
"""
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

import lab as labs
import tunnelkit
from httpkit import socket_of
from lab import PATIENCE_S, BARE_PYTHON, Agent, Machine, pod, service, wait_for

CLOUD = "192.0.2.31"
FENCE = """table inet fence { chain out { type filter hook output priority 0; oifname "eth0" ip daddr != 192.0.2.1 drop; }
    chain forward { type filter hook forward priority 0; oifname "eth0" ip daddr != 192.0.2.1 drop; }
}"""


class Site(tunnelkit.Site):
    def __init__(self, lab):
        self.config = os.path.join(lab.dir, "hub.yaml")
        self.write_config("")
        super().__init__(lab, "--config", self.config)
        for node in self.nodes:
            node.run("nft", "-f", "-", input=FENCE)
        self.webs = [n.pod("web") for n in self.nodes]
        self.servers = [p.serve("--http", "8080", "--tcp", "9090", "--stream", "7500") for p in self.webs]
        self.cloud = Machine(lab, "server", address=CLOUD)
        backend = self.cloud.start("backend", *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "cloud", "--http", "8080")
        wait_for("the cloud's server", lambda: "serving" in backend.log())
        self.client, self.client2 = [n.pod("client") for n in self.nodes]
        ports = ("http", 8080, 0), ("echo", 9090, 0), ("bulk", 7500, 0), ("raw", 7600, 0)
        self.hub.write("nodes.yaml", *[
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"edgeway.io/site": name}},
             "status": {"addresses": [{"type": "InternalIP", "address": address}]}}
            for name, address in (("edge-1", "192.0.2.11"), ("edge-2", "192.0.2.12"), ("cloud-1", "192.0.2.30"))])
        self.hub.write("pods.yaml", pod("cloud", ("cloud-1", "192.0.2.30"), CLOUD, ports[0]), *[
            pod(f"web-{i}", n, p.address, *ports, app="web") for i, (n, p) in enumerate(zip(self.nodes, self.webs), 1)])
        self.hub.write("far.yaml", service("far", ("http", 80, 8080), ("echo", 7000, 9090), ("bulk", 7001, 7500), clusterIP="None",
                                           selector="web"),
                       service("web", ("http", 80, 8080)), service("cloud", ("http", 80, 8080)),
                       service("shut", ("http", 80, 9999), selector="cloud"))
        # one service that only edge-2 serves: its pod has a name of its own
        two = pod("two", self.nodes[1], self.webs[1].address, *ports)
        self.hub.write("two.yaml", two, service("two", ("http", 80, 8080), ("echo", 7000, 9090), ("bulk", 7001, 7500), ("raw", 7002, 7600)))
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 5)
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        for c in (self.client, self.client2):
            c.copy_resolv_conf()

    def write_config(self, rules, limit=0):
        with open(self.config, "w") as f:
            f.write(f"access: [{rules}]\ningress: {{limits: {{callerStreams: {limit}}}}}\n")

    def reload(self, *config):
        adopted = 'edgeway_hub_reloads_total{result="adopted"}'
        before, at = self.hub.metrics()[adopted], len(self.hub.process.log())
        self.write_config(*config)
        self.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: self.hub.metrics()[adopted] == before + 1)
        return self.hub.process.log()[at:]

    def echo(self):
        """A connection of edge-1's pod to the echo at edge-2; None where it was refused."""
        s = socket_of(self.client)
        try:
            s.connect((self.nodes[0].address_of("two.default.svc.cluster.local", f"@{self.nodes[0].gateway}"), 7000))
            if s.recv(100) == b"edge-2.web\n":
                return s
        except ConnectionError:
            pass
        s.close()
        return None

    def outward(self):
        return self.agents[0].state()["tunnel"]["outward"]


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


def test_a_pod_of_another_site(site):
    """Its address is the same as that of a pod here: it is not taken for that one."""
    assert site.webs[0].address == site.webs[1].address
    assert site.client.get("http://two/") == (200, "edge-2.web\n")
    assert site.client2.get("http://two/") == (200, "edge-2.web\n")
    assert site.client2.get("http://web/") == (200, "edge-2.web\n")  # its own comes first
    assert site.outward()["state"] == "open" and site.outward()["results"]["ok"] >= 1


def test_a_pod_in_the_cloud(site):
    for client in (site.client, site.client2):
        assert client.get("http://cloud/") == (200, "cloud\n")


def test_it_is_shown(site):
    shown = site.nodes[0].run(site.lab.program("edgewayctl"), "--socket", site.agents[0].socket, "endpoints", "default/two").stdout
    line = next(x for x in shown.splitlines() if f"{site.webs[1].address}:8080" in x)
    assert "tunnel" in line and "edge-2" in line
    wait_for("the audit", lambda: 'door=outward caller=node:edge-1' in site.hub.process.log())
    assert site.outward()["state"] == "open"


def test_connections_are_used_again(site):
    before = site.outward()["results"]["ok"]
    for _ in range(30):
        assert site.client.get("http://two/")[0] == 200
    assert site.outward()["results"]["ok"] - before <= 8  # each worker has its own


@pytest.mark.parametrize("size", [0, 1, 70000, 20000000])
def test_bodies(site, size):
    path = os.path.join(site.lab.dir, "body")
    data = os.urandom(size)
    with open(path, "wb") as f:
        f.write(data)
    p = site.client.run("sh", "-c", f"curl -sS --data-binary @{path} http://two/ | sha256sum", seconds=60)
    assert p.stdout.split()[0] == hashlib.sha256(data).hexdigest()


def test_tcp_and_half_close(site):
    assert site.client.send("two", 7000, "hello") == "edge-2.web\nhello"
    assert site.client.send("two", 7000, "x" * 100000, 30) == "edge-2.web\n" + "x" * 100000


def test_a_reset_of_the_target_is_passed_on(site):
    """What has come before it is not taken for everything."""
    with socket_of(site.webs[1]) as listener, socket_of(site.client) as s:
        listener.bind(("0.0.0.0", 7600))
        listener.listen()
        s.connect((site.nodes[0].address_of("two.default.svc.cluster.local", f"@{site.nodes[0].gateway}"), 7002))
        s.sendall(b"hello")
        target = listener.accept()[0]
        assert target.recv(100) == b"hello"
        target.sendall(b"a part")
        assert s.recv(100) == b"a part"
        target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        target.close()
        with pytest.raises(ConnectionError):
            s.recv(100)
    assert site.hub.process.logged(':7600 via edge-2" status=200 sent=5 received=6')


def test_the_local_one_first_and_the_far_one_when_it_is_dead(site):
    assert {site.client.get("http://web/")[1] for _ in range(10)} == {"edge-1.web\n"}
    site.servers[0].kill()
    try:
        assert [site.client.get("http://web/") for _ in range(10)] == [(200, "edge-2.web\n")] * 10
    finally:
        site.servers[0] = site.webs[0].serve("--http", "8080", "--tcp", "9090", "--stream", "7500")
    wait_for("back", lambda: site.client.get("http://web/") == (200, "edge-1.web\n"))


def test_a_target_that_refuses_is_told(site):
    status, why = site.client.get("http://shut/")
    assert status == 502, why
    assert site.agents[0].process.logged("cannot be reached through the hub service=default/shut")


def test_streams_that_new_rules_would_not_open_are_cut(site):
    with site.echo() as s:
        assert "cut=0" not in site.reload("{from: 'node:edge-2', to: ['*']}")
        with pytest.raises(ConnectionError):
            assert s.recv(100) != b""
    wait_for("audit", lambda: 'end="the rules of access have changed"' in site.hub.process.log())
    assert site.echo() is None
    site.reload("")
    site.echo().close()


def test_a_node_is_a_caller_with_limits(site):
    limited = "edgeway_hub_outward_limited_total"
    site.reload("{from: 'node:edge-2', to: ['*']}")  # what the pool holds goes
    site.reload("", 1)
    first = site.echo()
    assert first is not None
    before = site.hub.metrics()[limited]
    assert site.echo() is None
    assert site.hub.metrics()[limited] > before
    assert site.hub.process.logged("as many streams as ingress.limits.callerStreams allows caller=node:edge-1")
    first.sendall(b"still")
    assert first.recv(100) == b"still"
    first.close()
    site.reload("")
    site.echo().close()


def test_two_agents_have_each_their_way(site):
    """While one finishes what it has and the next one serves, neither way ends the other: nothing opened through them is cut."""
    one, said = site.agents[0], len(site.hub.process.log())

    def log():
        return site.hub.process.log()[said:]
    held = [site.echo() for _ in range(3)]
    two = Agent(one.node, None, *one.options, "--takeover", "true", token=one.token, start=False)
    enough = time.monotonic() + 6  # what is open is cut 10 s after the hand-over (drainTimeout)
    two.start(ready=False)
    wait_for("taken over", lambda: two.process.alive() and two.ready() and "has taken over" in two.process.log())
    site.agents[0] = two
    before = log().count("way of a node to others open node=edge-1")
    for i in range(20):
        s = site.echo()
        for h in held:
            h.sendall(b"%04d" % i)
            assert h.recv(100) == b"%04d" % i
        s.close()
        if time.monotonic() > enough:
            break
        time.sleep(0.05)
    assert log().count("way of a node to others open node=edge-1") <= before + 1 and "too many newer" not in log()
    for h in held:
        h.close()
    wait_for("handed over", lambda: "waiting to be stopped" in one.process.log())
    assert one.process.stop() == 0
    assert site.client.get("http://two/") == (200, "edge-2.web\n")


def test_the_hub_is_asked_again(site):
    """The connection to the hub breaks before the answer: nothing has gone out, and who asked sees nothing of it."""
    answers, name = [], "edgeway_tunnel_outward_repeated_total"
    before = site.agents[0].metrics()[name]
    far = site.agents[1].process.popen
    wait_for("the pool is empty", lambda: site.hub.machine.run("ss", "-K", "dst", "192.0.2.11") and site.outward()["joined"] == 0)
    site.wait_open()
    far.send_signal(signal.SIGSTOP)
    try:
        thread = threading.Thread(target=lambda: answers.append(site.client.get("http://two/", seconds=60)), daemon=True)
        thread.start()
        wait_for("the hub is asked", lambda: site.hub.metrics()["edgeway_ingress_pending"] >= 1)
        site.hub.machine.run("ss", "-K", "dst", "192.0.2.11")
        wait_for("it is asked again", lambda: site.agents[0].metrics()[name] > before)
        wait_for("again under way", lambda: site.hub.metrics()["edgeway_ingress_pending"] >= 1)
    finally:
        far.send_signal(signal.SIGCONT)
    thread.join(PATIENCE_S)
    assert answers == [(200, "edge-2.web\n")]


@pytest.mark.parametrize("options, times", [(("-d", "hi"), 1), (("-X", "POST"), 1), ((), 2)], ids=["body", "no body", "idempotent"])
def test_what_has_arrived_is_not_sent_again(site, options, times):
    """The endpoint has the request, and the node's way to the hub breaks before its answer: once more only what may be executed twice."""
    def hits():
        return int(site.webs[1].get("http://127.0.0.1:8080/hits")[1])
    answers, before = [], hits()
    caller = subprocess.Popen(site.client.argv("curl", "-s", "-m", PATIENCE_S, "-o", "/dev/null", "-w", "%{http_code}", *options, "http://two/hang"),
                              stdout=subprocess.PIPE, text=True)
    try:
        wait_for("arrived", lambda: hits() == before + 1)
        site.hub.machine.run("ss", "-K", "dst", "192.0.2.11")
        site.wait_open()
        if times == 1:
            answers.append(caller.communicate(timeout=PATIENCE_S)[0])
        else:
            wait_for("arrived again", lambda: hits() == before + times)
    finally:
        caller.kill()
        caller.communicate()
    assert answers == ["502"] * (2 - times)
    assert site.client.get("http://two/")[0] == 200
    assert hits() == before + times


def test_a_break_is_no_end(site):
    """An endpoint that dies in the middle of its answer: a reset, also over there and back."""
    client = site.client.start("cut", *BARE_PYTHON, "-c", """
import socket, sys
s = socket.create_connection(("two", 7001), 60)
s.sendall(b"down 50000000\\n")
n = len(s.recv(1000))
print("began", flush=True)
try:
    while data := s.recv(1 << 16):
        n += len(data)
        sys.stdin.read(0)
    print("ended", n, flush=True)
except ConnectionResetError:
    print("reset", flush=True)
""")
    wait_for("it runs", lambda: "began" in client.log())
    site.hub.process.kill()
    wait_for("the client knows", lambda: "reset" in client.log() or "ended" in client.log())
    assert "reset" in client.log() or "ended 50000032" in client.log()
    status, why = site.client.get("http://two/", seconds=30)
    assert status in (502, 503, 504), why
    site.hub.start()
    wait_for("back", lambda: site.client.get("http://two/") == (200, "edge-2.web\n"))


def test_a_node_that_stops_does_not_wait_for_pools(site):
    """Others keep connections to its pods for the next request, and use them all the time: they let go of them when it drains."""
    node, agent = site.nodes[1], site.agents[1]
    asking = site.client.start("asking", "sh", "-c", "while curl -sS -m 5 -o /dev/null http://two/ http://two/; do echo answered; done")
    wait_for("requests", lambda: asking.log().count("answered") > 20)
    open_before = site.outward()["joined"]
    at = len(agent.process.log())
    assert open_before > 0 and agent.stop() == 0
    assert "streams are cut" not in agent.process.log()[at:]
    wait_for("the pool is empty", lambda: site.outward()["joined"] == 0)
    asking.kill()
    agent.start()
    site.wait_open()
    wait_for("back", lambda: site.client.get("http://two/") == (200, f"{node.name}.web\n"))


def test_nothing_is_left(site):
    """What the pool holds goes with the agent; the hub is then as if nobody had asked."""
    site.wait_whole()
    for a in site.agents:
        assert a.stop() == 0
    wait_for("nothing is open", lambda: site.hub.metrics()["edgeway_hub_outward_open"] == 0)
    wait_for("nor pending", lambda: site.hub.metrics()["edgeway_ingress_pending"] == 0)
    assert json_of(site.hub)["outward"] == []
    for n in site.nodes:
        assert n.clean()


def json_of(hub):
    import json
    return json.loads(hub.ask("/debug/state")[1])["hub"]
