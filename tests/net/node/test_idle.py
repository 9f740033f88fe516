"""What an agent does while nothing happens."""
import glob
import time

from lab import Agent, Hub, Lab, Node, service, upstream, wait_for

SECONDS = 6
TICKS_A_SECOND = 20  # of lb's workers while they have work


def wakeups(pid):
    """{thread: how often it slept} of the workers."""
    found = {}
    for path in glob.glob(f"/proc/{pid}/task/*"):
        with open(path + "/comm") as f:
            if not f.read().startswith("worker-"):
                continue
        with open(path + "/status") as f:
            found[path] = next(int(line.split()[1]) for line in f if line.startswith("voluntary"))
    return found


def test_workers_sleep():
    """Without clients a worker wakes for the checks of DNS and the canary alone, not at each of its ticks; then it serves at once."""
    with Lab() as lab:
        hub = Hub(lab)
        hub.write("web.yaml", *[service(f"web-{i}", ("http", 80, 8080)) for i in range(20)])
        upstream(lab)
        node = Node(lab, "edge-1", "192.0.2.11")
        agent = Agent(node, hub)
        wait_for("services", lambda: agent.state()["services"] == 20)
        wait_for("its tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
        time.sleep(3)  # what begins is over
        before = wakeups(agent.process.pid)
        assert before
        start = time.monotonic()
        time.sleep(SECONDS)
        after = wakeups(agent.process.pid)
        took = time.monotonic() - start
        for path, n in before.items():
            assert after[path] - n < took * TICKS_A_SECOND / 4
        client = node.pod("client")
        fake = wait_for("an address", lambda: client.dns("web-1.default.svc.cluster.local", server="172.17.0.1")[1][0][4])
        assert client.get(f"http://{fake}/")[0] == 503
