"""A tenant points a Service's endpoints at what leads back to the mesh, or to the hub's ways in: nothing goes round more than twelve times.

Nothing of ours stands at the addresses that he names, so no check of addresses helps: a balancer that passes packets on (NAT) or ends
connections, and a pod whose own kernel does the same.
"""
import re
import socket

import pytest

from dnskit import socket_in
from lab import BARE_PYTHON, Agent, Hub, Machine, Node, endpoint_slice, service, wait_for

HUB, BALANCER, CALLER = "192.0.2.1", "192.0.2.9", "192.0.2.21"
TCP, UDP, NODE_TCP, NODE_UDP = 7001, 7002, 7003, 7004
MAPS = (f"[{{listen: '{HUB}:{TCP}', service: 'tcp.default:1'}}, {{listen: '{HUB}:{NODE_TCP}', service: 'node-tcp.default:1'}}]",
        f"[{{listen: '{HUB}:{UDP}', service: 'udp.default:1'}}, {{listen: '{HUB}:{NODE_UDP}', service: 'node-udp.default:1'}}]")
MOST = 12
REASON = "loop detected: it has passed through Edgeway as often as it may\n"

# A proxy of TCP that knows nothing: PORT HOST PORT.
FORWARD = """
import asyncio, sys
async def pump(r, w):
    try:
        while data := await r.read(65536):
            w.write(data)
            await w.drain()
    except OSError:
        pass
    w.close()
async def take(r, w):
    try:
        r2, w2 = await asyncio.open_connection(sys.argv[2], int(sys.argv[3]))
        await asyncio.gather(pump(r, w2), pump(r2, w))
    except OSError:
        w.close()
async def main():
    await asyncio.start_server(take, "0.0.0.0", int(sys.argv[1]))
    print("serving", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def lead(machine, rules):
    """Its kernel sends what comes to it on, in its own name."""
    machine.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    machine.run("nft", "-f", "-", input=f"""table ip lead {{
        chain pre {{ type nat hook prerouting priority -100; {rules} }}
        chain post {{ type nat hook postrouting priority 100; ct status dnat masquerade; }}
    }}""")


def forward(machine, port, *to):
    p = machine.start("forward", *BARE_PYTHON, "-c", FORWARD, port, *to)
    wait_for("a proxy", lambda: "serving" in p.log())


def slice_of(name, address, port, protocol="TCP", node=None):
    made = endpoint_slice(f"{name}-1", name, port, address, port_name="http" if name.startswith("http") else "")
    made["ports"][0]["protocol"] = protocol
    if node is not None:
        made["endpoints"][0]["nodeName"] = node
    return made


class Town:
    def __init__(self, lab):
        tcp, udp = MAPS
        self.hub = Hub(lab, "--ingress.http", f"{HUB}:10080", "--ingress.tcp", tcp, "--ingress.udp", udp, "--access",
                       "[{from: 192.0.2.0/24, to: ['default/*']}]")
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pod, self.client, self.caller = self.node.pod("tenant"), self.node.pod("client"), Machine(lab, "caller", address=CALLER)
        self.balancer = Machine(lab, "balancer", address=BALANCER)
        lead(self.balancer, f"tcp dport {TCP} dnat to {HUB}; udp dport {UDP} dnat to {HUB};")
        lead(self.pod, f"tcp dport {NODE_TCP} dnat to {HUB}; udp dport {NODE_UDP} dnat to {HUB};")
        forward(self.balancer, 10080, HUB, 10080)
        self.hub.write("loops.yaml",
                       service("tcp", ("", 1, TCP)), slice_of("tcp", BALANCER, TCP),
                       service("udp", ("", 1, UDP), protocol="UDP"), slice_of("udp", BALANCER, UDP, "UDP"),
                       service("node-tcp", ("", 1, NODE_TCP)), slice_of("node-tcp", self.pod.address, NODE_TCP, node="edge-1"),
                       service("node-udp", ("", 1, NODE_UDP), protocol="UDP"),
                       slice_of("node-udp", self.pod.address, NODE_UDP, "UDP", node="edge-1"),
                       service("http-hub", ("http", 80, 10080)), slice_of("http-hub", BALANCER, 10080),
                       service("http-mesh", ("http", 80, 8080)), slice_of("http-mesh", self.pod.address, 8080, node="edge-1"))
        self.agent = Agent(self.node, self.hub)
        wait_for("services", lambda: self.agent.state()["services"] == 6)
        wait_for("tunnel", lambda: self.agent.state()["tunnel"]["state"] == "open")
        forward(self.pod, 8080, self.fake("http-mesh"), 80)

    def fake(self, name):
        return self.client.dns(f"{name}.default.svc.cluster.local", server=self.node.gateway)[1][0][4]

    def dials(self):
        """(what was asked for at the hub, of it what went round)."""
        rows = {n: v for n, v in self.hub.metrics().items() if n.startswith("edgeway_ingress_dials_total")}
        return sum(rows.values()), rows['edgeway_ingress_dials_total{status="508"}']

    def status(self, daemon, machine):
        return machine.run(daemon.lab.program("edgewayctl"), "--socket", daemon.socket, "status", check=False).stdout


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-3000:]}\n--- log of the hub\n{made.hub.process.log()[-3000:]}")


@pytest.fixture(autouse=True)
def all_goes_on(town):
    yield
    assert town.hub.process.alive() and town.agent.process.alive()


def ended(town, before):
    """The hub has told; how often it went round since."""
    wait_for("told", lambda: town.dials()[1] > before[1])
    asked, looped = town.dials()
    assert 1 <= looped - before[1] <= 2
    assert town.hub.process.logged("loop detected")
    assert "went round" in town.status(town.hub, town.hub.machine)
    return asked - before[0]


@pytest.mark.parametrize("machine,where,most", [
    ("caller", (HUB, TCP), MOST + 1), ("caller", (HUB, NODE_TCP), MOST // 2 + 1), ("client", ("tcp", 1), MOST + 1)],
    ids=["hub", "hub and node", "agent and hub"])
def test_connections(town, machine, where, most):
    """Reset, and the caller's own connection with it."""
    before, address = town.dials(), where if machine == "caller" else (town.fake(where[0]), where[1])
    with pytest.raises((ConnectionResetError, BrokenPipeError)), socket_in(getattr(town, machine), socket.SOCK_STREAM, *address) as s:
        s.sendall(b"ping")
        s.recv(100)
        s.sendall(b"ping")
    assert 2 <= ended(town, before) <= most


@pytest.mark.parametrize("port,most", [(UDP, MOST + 1), (NODE_UDP, MOST // 2 + 1)], ids=["hub", "hub and node"])
def test_datagrams(town, port, most):
    """Each of a flow is dropped at the same place; none is answered, and none comes twice."""
    before = town.dials()
    with socket_in(town.caller, socket.SOCK_DGRAM, HUB, port) as s:
        for _ in range(20):
            s.send(b"ping")
        assert 2 <= ended(town, before) <= most
        dropped = f'edgeway_ingress_udp_dropped_total{{listen="{HUB}:{port}",reason="loop"}}'
        wait_for("dropped", lambda: town.hub.metrics()[dropped] >= 1)
        s.settimeout(0.2)
        with pytest.raises((TimeoutError, ConnectionRefusedError)):
            s.recv(100)
    assert town.dials()[0] - before[0] <= 2 * most  # nothing has begun anew but by what was sent since


def test_requests_at_the_hub(town):
    """The proxy in between sets the TTL back: the head counts."""
    before = town.dials()
    got = town.caller.get(f"http://{HUB}:10080/", "-H", "Host: http-hub.default")
    assert got == (508, REASON)
    assert 2 <= ended(town, before) <= MOST + 1


def test_requests_in_the_mesh(town):
    """The agent alone, by a pod that proxies to the service that it is of."""
    before = town.agent.metrics()
    assert town.client.get(f"http://{town.fake('http-mesh')}/") == (508, REASON)
    after = town.agent.metrics()

    def more(name):
        return after[name] - before.get(name, 0)

    assert more('edgeway_lb_errors_total{reason="loop"}') == 1
    assert more('edgeway_lb_connections_total{mode="http"}') <= MOST + 1
    assert re.search(r"loop detected.* service=default/http-mesh port=80", town.agent.process.log())
    assert "1 requests, connections or flows were ended since they went round" in town.status(town.agent, town.node)


def test_a_caller_that_lies_hurts_itself(town):
    """It has passed through often, it says; others are as before."""
    forged = ", ".join(["edgeway"] * MOST)
    ip = town.fake("http-mesh")
    assert town.client.get(f"http://{ip}/", "-H", f"CDN-Loop: {forged}") == (508, REASON)
    assert town.caller.get(f"http://{HUB}:10080/", "-H", "Host: http-hub.default", "-H", f"CDN-Loop: {forged}") == (508, REASON)
    assert town.caller.get(f"http://{HUB}:10080/", "-H", "Host: nobody")[0] == 404
