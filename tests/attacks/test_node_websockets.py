"""A node opens websockets without end, and answers no close: it has no more places at the hub than one that behaves."""
import os
import re

import pytest

from lab import HUB_PORT, Agent, Dialogue, Hub, Lab, Node, service, wait_for

N = 60

OPEN = """
import base64, os, socket, ssl, sys
host, port, data, node, n, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6]
context = ssl.create_default_context(cafile=os.path.join(data, "ca.pem"))
context.check_hostname = False
context.load_cert_chain(os.path.join(data, "node.crt"), os.path.join(data, "node.key"))
kept = []
sys.stdin.readline()
for i in range(n):
    s = context.wrap_socket(socket.create_connection((host, port)))
    s.sendall((f"GET /e632aba927ea4ac2b575ec1603d56f10/{node}/{kind} HTTP/1.1\\r\\nHost: {host}\\r\\nUpgrade: websocket\\r\\n"
               f"Connection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\\r\\n"
               f"node_id: {node}\\r\\nproject_id: e632aba927ea4ac2b575ec1603d56f10\\r\\nconnectionuse: msg\\r\\nedgeway-version: 1\\r\\n\\r\\n").encode())
    assert b" 101 " in s.recv(4096).split(b"\\r\\n")[0] + b" "
    kept.append(s)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def test_places_of_a_node(lab):
    hub = Hub(lab)
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    node = Node(lab, "edge-1", "192.0.2.11")
    agent = Agent(node, hub)
    agent.stop()

    def held():
        """Connections of the node that the hub has."""
        out = hub.machine.run("ss", "-Htn", "state", "established", "sport", "=", f":{HUB_PORT}").stdout
        return len(re.findall(r"192\.0\.2\.11\]?:\d+", out))

    for kind, most in (("events", 2), ("join", 1)):
        before = hub.metrics()["edgeway_hub_connections_crowded_total"]
        with Dialogue(node, OPEN, hub.address, HUB_PORT, agent.data, "edge-1", N, kind) as opened:
            assert opened.ask() == "open"
            wait_for("cut", lambda most=most: held() <= most)
            assert hub.metrics()["edgeway_hub_connections_crowded_total"] - before >= N - most
        wait_for("gone", lambda: held() == 0)
    lines = [line for line in hub.process.log().splitlines() if "a newer connection replaces" in line]
    assert len(lines) <= 120
    # Its own agent comes back, and another node is served as ever.
    agent.start()
    other = Agent(Node(lab, "edge-2", "192.0.2.12"), hub)
    wait_for("served", lambda: other.state()["services"] == 1 and os.path.exists(agent.socket) and agent.state()["services"] == 1)
