"""A tenant's UDP Service leads to a broadcast address of the node's own networks: the node's own sockets, and everybody's on the link, would get
the datagram.
"""
import time

import pytest

from lab import BARE_PYTHON, Agent, Hub, Machine, Node, endpoint_slice, service, wait_for
from test_kernel_attacks import RECORD

SEND = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(3):
    try:
        s.sendto(sys.argv[3].encode(), (sys.argv[1], int(sys.argv[2])))
    except OSError as e:
        print(e)
"""
PLACES = {"own": "192.0.2.11", "link": "192.0.2.255", "bridge": "172.17.255.255", "network": "192.0.2.0", "net-bridge": "172.17.0.0",
          "nowhere": "198.18.0.1"}


def slice_of(name, address):
    s = endpoint_slice(f"{name}-1", name, 5353, address, port_name="udp")
    s["ports"][0]["protocol"] = "UDP"
    return s


class Town:
    def __init__(self, lab):
        self.hub, self.node = Hub(lab), Node(lab, "edge-1", "192.0.2.11")
        self.beside = Machine(lab, "beside", address="192.0.2.80")
        self.other = self.node.pod("other")
        self.records = [m.start("record", *BARE_PYTHON, "-c", RECORD, "5353") for m in (self.node, self.beside, self.other)]
        for r in self.records:
            wait_for("recorder", lambda r=r: "recording" in r.log())
        self.hub.write("all.yaml", *[o for n, a in PLACES.items() for o in (service(n, ("udp", 5353, 5353), protocol="UDP"), slice_of(n, a))])
        self.agent = Agent(self.node, self.hub)
        self.client = self.node.pod("client")
        wait_for("services", lambda: self.agent.state()["services"] == len(PLACES))

    def fake(self, name):
        return self.node.address_of(f"{name}.default.svc.cluster.local", f"@{self.node.gateway}")


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(made.agent.process.log()[-4000:])


@pytest.mark.parametrize("who", ["client", "node"])
@pytest.mark.parametrize("name", PLACES)
def test_udp(town, name, who):
    said = f"to-{name}-by-{who}"
    p = getattr(town, who).python(SEND, town.fake(name), 5353, said)
    assert p.returncode == 0
    time.sleep(1)
    got = {m: said in r.log() for m, r in zip(("node", "beside", "other"), town.records)}
    assert not any(got.values()), got
