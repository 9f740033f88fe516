"""A stranger who opens connections to the hub and says nothing: nodes, callers and the API find descriptors all the same."""
import contextlib
import os
import ssl

import pytest

from ingress_town import HUB, STRANGER, WEB, Town
from lab import BARE_PYTHON, Agent, Node, wait_for

DESCRIPTORS, CONNECTIONS = 400, 600
MUTE = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
host, port, n, said = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode().decode("unicode_escape").encode("latin-1")
kept = []
for i in range(n):
    s = socket.socket()
    s.settimeout(5)
    try:
        s.connect((host, port))
        s.sendall(said)
    except OSError:
        pass
    kept.append(s)
print("opened", flush=True)
time.sleep(600)
"""


STORM = """
import socket, sys
host, port, said = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode("latin-1")
print("storms", flush=True)
while True:
    s = socket.socket()
    try:
        s.connect((host, port))
        s.sendall(said)
        s.recv(1)
    except OSError:
        pass
    s.close()
"""


def hello(protocol):
    """A whole ClientHello, as text for MUTE: what comes next never comes."""
    context, sent = ssl.create_default_context(), ssl.MemoryBIO()
    context.set_alpn_protocols([protocol])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="hub").do_handshake()
    return "".join(f"\\x{byte:02x}" for byte in sent.read())


class Poor(Town):
    """A hub with few descriptors."""

    def __init__(self, lab):
        super().__init__(lab, before=("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"))

    def open(self):
        return len(os.listdir(f"/proc/{self.hub.process.pid}/fd"))


@pytest.fixture(scope="module")
def town(lab):
    made = Poor(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


@pytest.mark.parametrize("port,said", [(10080, ""), (10080, "CONNECT x:1 HTTP/1.1"), (10000, ""), (10000, "\\x16\\x03\\x01"),
                                       (10000, hello("http/1.1")), (10000, hello("edgeway-tunnel-reverse/1"))],
                         ids=["mute callers", "slow heads", "mute nodes", "slow hellos", "half websockets", "half tunnels"])
def test_mute_connections(town, port, said):
    mute = town.stranger.start("mute", *BARE_PYTHON, "-c", MUTE, HUB, port, CONNECTIONS, said)
    try:
        wait_for("connections of the stranger", lambda: "opened" in mute.log(), 60)
        assert town.open() < DESCRIPTORS * 3 // 4
        assert town.get(WEB + "/", machine=town.friend) == (200, "server\n")
        assert town.hub.ask("/healthz")[0] == 200
        p = town.hub.machine.run(town.lab.program("edgewayctl"), "--socket", town.hub.socket, "status")
        assert "places for connections that have not authenticated" in p.stdout
    finally:
        mute.kill()
    m = town.hub.metrics()
    assert town.hub.state()["hub"]["unauthenticated"]["places"] == DESCRIPTORS // 4
    assert sum(m[f'edgeway_hub_unauthenticated_refused_total{{outcome="{o}"}}'] for o in ("dropped", "refused")) > 0
    assert town.hub.process.logged("too many connections have not authenticated yet") and town.hub.process.logged(STRANGER)
    assert "Too many open files" not in town.hub.process.log()


def test_a_node_joins_meanwhile(town):
    everywhere = [town.stranger.start(f"mute-{port}", *BARE_PYTHON, "-c", MUTE, HUB, port, CONNECTIONS, "") for port in (10000, 10080)]
    try:
        wait_for("connections of the stranger", lambda: all("opened" in m.log() for m in everywhere), 60)
        agent = Agent(Node(town.lab, "edge-1", "192.0.2.11"), town.hub)
        wait_for("the node has its services", lambda: agent.state()["services"] == 2)
        wait_for("its tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    finally:
        for m in everywhere:
            m.kill()


def test_callers_that_are_let_in_leave_the_rest(town):
    """The friend is known, and takes what callers may have; a node comes all the same."""
    held = town.friend.start("held", *BARE_PYTHON, "-c", MUTE, HUB, 10080, CONNECTIONS, "CONNECT 192.0.2.31:8080 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    try:
        wait_for("connections of the friend", lambda: "opened" in held.log(), 60)
        assert town.open() < DESCRIPTORS
        agent = Agent(Node(town.lab, "edge-2", "192.0.2.12"), town.hub)
        wait_for("the node has its services", lambda: agent.state()["services"] == 2)
        assert town.hub.ask("/healthz")[0] == 200
    finally:
        held.kill()
    assert "Too many open files" not in town.hub.process.log()


@pytest.mark.parametrize("protocol", ["http/1.1", "edgeway-tunnel-reverse/1"])
def test_a_storm_of_hellos(town, protocol):
    """Whole ClientHellos, each of which the hub has to answer with a signature: they have their turns, and others theirs."""
    def steps():
        return town.hub.metrics()["edgeway_hub_handshake_steps_total"]
    storm = [town.stranger.start(f"storm-{i}", *BARE_PYTHON, "-c", STORM, HUB, 10000, hello(protocol)) for i in range(4)]
    try:
        wait_for("the storm", lambda: all("storms" in s.log() for s in storm))
        before = steps()
        node = Node(town.lab, f"edge-{protocol[:4]}", "192.0.2.13" if protocol == "http/1.1" else "192.0.2.14")
        agent = Agent(node, town.hub)
        wait_for("the node has its services", lambda: agent.state()["services"] == 2)
        wait_for("its tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
        assert [town.get(WEB + "/", machine=town.friend) for _ in range(20)] == [(200, "server\n")] * 20
        wait_for("hundreds of handshakes", lambda: steps() - before > 300)
    finally:
        for s in storm:
            s.kill()
