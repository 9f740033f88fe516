"""A pod that holds what it can of the agent's memory: it gets a share, is told, and no other pod notices."""
import json
import os

import pytest

from lab import HERE, BARE_PYTHON, Agent, Hub, Node, pod, service, wait_for

HOSTILE, LIMIT_MB, ASKED = 800, 8, 100
DOMAIN = ".default.svc.cluster.local"


class Bed:
    def __init__(self, lab):
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.hostile, self.other = self.node.pod("hostile"), self.node.pod("other")
        servers = {name: self.node.pod(name) for name in ("hog", "calm")}  # the other pod's own is not what is flooded
        for server in servers.values():
            serving = self.run(server, "serve", "8080")
            wait_for("the endpoint", lambda p=serving: "serving" in p.log())
        hub = Hub(lab)
        for name, server in servers.items():
            hub.write(name + ".yaml", service(name, ("http", 80, 8080)), pod(name, self.node, server.address, ("http", 8080, 0)))
        self.agent = Agent(self.node, hub, "--lb.memory", LIMIT_MB, "--mesh.workers", "2")
        self.address, self.calm = (wait_for(name, lambda n=name: self.node.address_of(n + DOMAIN, f"@{self.node.gateway}")) for name in servers)
        with open(f"/proc/{self.agent.process.pid}/maps", "rb") as f:
            self.sanitized = b"asan" in f.read()

    def run(self, machine, *args):
        return machine.start(args[0], *BARE_PYTHON, os.path.join(HERE, "hog.py"), *args)

    def anonymous_mb(self):
        with open(f"/proc/{self.agent.process.pid}/smaps_rollup") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Anonymous:")) / 1024

    def held_mb(self):
        return self.agent.metrics()['edgeway_lb_memory_bytes{memory="own"}'] / (1 << 20)

    def evicted(self):
        m = self.agent.metrics()
        return sum(m[f'edgeway_lb_evictions_total{{memory="{kind}"}}'] for kind in ("own", "sockets"))

    def other_pod(self):
        p = self.run(self.other, "ask", self.calm, "80", ASKED, "10")
        assert p.wait(120) == 0, p.log()
        return json.loads(p.log().splitlines()[-1])


@pytest.fixture(scope="module")
def bed(lab):
    made = Bed(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


@pytest.mark.parametrize("kind", ["pipelining", "readers", "heads", "bodies", "idle"])
def test_one_pod_cannot_take_the_memory(bed, kind):
    before, evicted = bed.anonymous_mb(), bed.evicted()
    hog = bed.run(bed.hostile, kind, bed.address, "80", HOSTILE)
    try:
        wait_for("the flood", lambda: "held" in hog.log() or not hog.alive(), 60)
        told = bed.other_pod()
        held, anonymous = bed.held_mb(), bed.anonymous_mb()
        status = bed.node.run(bed.agent.lab.program("edgewayctl"), "--socket", bed.agent.socket, "status").stdout
    finally:
        hog.kill()
    print(f"{kind}: {before:.1f} MB before, {anonymous:.1f} with the flood, {held:.1f} held")
    assert hog.log().strip() == "held"
    assert told["failed"] == 0
    assert held < LIMIT_MB
    assert bed.sanitized or anonymous < before + 2 * LIMIT_MB
    if kind in ("pipelining", "readers", "heads"):  # the others hold less than one pod's share
        assert bed.evicted() > evicted
        assert bed.agent.process.logged("its client's connections hold more") and bed.agent.process.logged(bed.hostile.address)
    assert "  memory       " in status and "connections closed for it" in status
    wait_for("nothing is held", lambda: bed.held_mb() < 0.1)
    if not bed.sanitized:
        wait_for("it is given back", lambda: bed.anonymous_mb() < before + 4)
