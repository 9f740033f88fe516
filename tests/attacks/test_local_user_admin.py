"""An account without rights on the machine of an agent or a hub holds connections to their admin and metrics ports: probes are answered."""
import pytest

import lab as labs
from lab import NOBODY, BARE_PYTHON, Agent, Hub, Node, wait_for

# Hundreds of connections, each a byte now and then, opened anew when they end; some ask and do not read.
DRIP = """
import socket, sys, time
conns, opened = [], 0
while True:
    for i in range(300):
        if i >= len(conns):
            conns.append(None)
        try:
            if conns[i] is None:
                conns[i] = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
                conns[i].settimeout(5)
                opened += 1
                if i % 50 == 0:
                    conns[i].sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
            conns[i].sendall(b"G")
        except OSError:
            conns[i] = None
    print(opened, flush=True)
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def machines(lab):
    labs.upstream(lab)
    hub = Hub(lab, "--admin.listen", "127.0.0.1:10012", "--metrics.listen", "127.0.0.1:10013")
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, "--metrics.listen", "127.0.0.1:40004")
    return {"agent": (agent.node, agent, 40002, 40004), "hub": (hub.machine, hub, 10012, 10013)}


@pytest.mark.parametrize("which", ["agent", "hub"])
def test_probes(machines, which):
    machine, daemon, *ports = machines[which]
    for port in ports:
        attack = machine.start(f"drip-{port}", *NOBODY, *BARE_PYTHON, "-c", DRIP, port)
        wait_for("the attack", lambda: len(attack.log().splitlines()) > 2)
        for _ in range(20):
            assert machine.get(f"http://127.0.0.1:{port}/healthz", seconds=20) == (200, "ok\n")
        assert attack.alive() and int(attack.log().split()[-1]) > 300
        attack.kill()
    assert daemon.ready()
    metrics = daemon.metrics()
    assert all(metrics[f'edgeway_admin_evicted_total{{listener="{name}"}}'] > 100 for name in ("admin", "metrics"))
    assert daemon.process.logged("the oldest of whoever has most is ended")
