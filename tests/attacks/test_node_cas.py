"""A node that lies about the CAs that it has: the hub starts again all the same, and loses no node to the lie."""
import os

import pytest

from lab import HUB_PORT, Agent, Dialogue, Hub, Lab, Node, wait_for

CLAIM = """
import base64, os, socket, ssl, sys
host, port, data, node = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
context = ssl.create_default_context(cafile=os.path.join(data, "ca.pem"))
context.check_hostname = False
context.load_cert_chain(os.path.join(data, "node.crt"), os.path.join(data, "node.key"))
for cas in sys.stdin:
    s = context.wrap_socket(socket.create_connection((host, port)))
    s.sendall((f"GET /e632aba927ea4ac2b575ec1603d56f10/{node}/events HTTP/1.1\\r\\nHost: {host}\\r\\nUpgrade: websocket\\r\\n"
               f"Connection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\\r\\n"
               f"node_id: {node}\\r\\nproject_id: e632aba927ea4ac2b575ec1603d56f10\\r\\nconnectionuse: msg\\r\\nedgeway-version: 1\\r\\n"
               f"edgeway-ca: {cas.strip()}\\r\\n\\r\\n").encode())
    print(s.recv(4096).split(b"\\r\\n")[0].decode(), flush=True)
    s.close()
"""


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def test_cas_that_no_node_has(lab):
    hub = Hub(lab)
    node = Node(lab, "edge-1", "192.0.2.11")
    agent = Agent(node, hub)
    wait_for("joined", lambda: agent.state()["meta"]["synced"])
    agent.stop()
    with Dialogue(node, CLAIM, hub.address, HUB_PORT, agent.data, "edge-1") as liar:
        for cas in ("00000000", "00000000,11111111", "no list", "f" * 300):
            assert " 101 " in liar.ask(cas)
    wait_for("told", lambda: "the CAs that a node says it has do not count" in hub.process.log())
    with open(os.path.join(hub.machine.dir, "data", "nodes", "edge-1")) as f:
        assert "00000000" not in f.read()
    # A hub of before believed it.
    with open(f.name) as f:
        text = f.read()
    with open(f.name, "w") as f:
        f.write("edgeway-ca: 00000000\n" + text[text.index("-----BEGIN"):])
    hub.process.stop()
    hub.start()
    agent.token = ""
    agent.start()
    wait_for("served as ever", lambda: agent.state()["meta"]["synced"])
