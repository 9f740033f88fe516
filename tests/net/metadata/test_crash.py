"""kill -9 under load, damaged and half-written databases: the next start serves, with the same fake IPs."""
import os
import random
import threading
import time

import pytest

from lab import Agent, Node, service, wait_for

SERVICES = ["edge-nginx.default", "web.shop", "empty.default"]
LOAD = """
import http.client, sys, time
end = time.monotonic() + float(sys.argv[2])
n = 0
while time.monotonic() < end:
    try:
        c = http.client.HTTPConnection(sys.argv[1], 80, timeout=2)
        for _ in range(20):
            c.request("GET", "/"); c.getresponse().read(); n += 1
        c.close()
    except (OSError, http.client.HTTPException):
        time.sleep(0.02)
print(n)
"""


def fakes(node):
    return {s: node.address_of(f"{s}.svc.cluster.local", f"@{node.gateway}") for s in SERVICES}


def known_fakes(node):
    def all_known():
        found = fakes(node)
        return all(found.values()) and found
    return wait_for("fake IPs", all_known)


def wait_services(mesh, node, want):
    def same():
        found = fakes(node)
        assert found == want, f"{found}, not {want}"
        return True
    wait_for("the same fake IPs", same)
    wait_for("call", lambda: node.get(f"http://{want['edge-nginx.default']}/")[0] == 200)


@pytest.mark.plain_build  # what is on the disk
def test_kill_at_random_moments(mesh):
    node, agent = mesh.node2, mesh.agent2
    want = known_fakes(node)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    stop = threading.Event()

    def change():
        """Metadata moves all the time, so that kills fall into transactions."""
        n = 0
        while not stop.is_set():
            n += 1
            mesh.hub.write("moving.yaml", *[service(f"moving-{n % 7}-{i}", ("http", 80, 8080), selector="web")
                                            for i in range(20)])
            time.sleep(0.05)

    mover = threading.Thread(target=change)
    mover.start()
    try:
        for _ in range(8):
            load = node.start("load", "/usr/bin/python3", "-c", LOAD, want["edge-nginx.default"], "30")
            time.sleep(rng.uniform(0.02, 1.0))
            agent.process.kill()
            load.kill()
            if rng.random() < 0.5:
                time.sleep(rng.uniform(0, 0.2))
            # at any moment of its start as well
            agent.start(ready=False)
            time.sleep(rng.uniform(0, 0.15))
            agent.process.kill()
            agent.start()
            assert known_fakes(node) == want
            assert node.table().count("dnat to 172.17.0.1:40001") == 1
            assert node.route().count("9.251.0.0/16") == 1
            wait_for("resolv.conf", lambda: node.resolv().count(b"\nnameserver 172.17.0.1\n") == 1)
    finally:
        stop.set()
        mover.join()
    mesh.hub.delete("moving.yaml")
    assert agent.stop() == 0
    assert node.clean()
    agent.start()
    wait_services(mesh, node, want)


def damage_middle(path):
    with open(path, "r+b") as f:
        f.seek(0, os.SEEK_END)
        size = f.tell()
        f.seek(0)
        f.write(os.urandom(min(size, 8192)))


def damage_empty(path):
    open(path, "wb").close()


def damage_text(path):
    with open(path, "wb") as f:
        f.write(b"this is no database\n" * 1000)


def damage_half(path):
    """Half-written: as a full disk or a lost write leaves it."""
    size = os.path.getsize(path)
    os.truncate(path, size // 2)


def database(agent):
    found = [os.path.join(agent.data, f) for f in os.listdir(agent.data) if f.endswith((".db", ".sqlite", ".sqlite3"))]
    assert len(found) == 1, found
    return found[0]


def integrity(agent):
    """In a process of its own: one that closes a file of the database loses its locks on it."""
    script = "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute('pragma integrity_check').fetchone()[0])"
    return agent.node.python(script, database(agent)).stdout.strip()


@pytest.mark.parametrize("damage", [damage_middle, damage_empty, damage_text, damage_half])
@pytest.mark.parametrize("stopped", ["stopped", "killed"])
def test_damaged_database(mesh, damage, stopped):
    """Never a refusal to start: said aloud, moved aside, and rebuilt from the hub."""
    node, agent = mesh.node1, mesh.agent1
    want = known_fakes(node)
    if stopped == "stopped":
        agent.stop()
    else:
        agent.process.kill()
    damage(database(agent))
    with open(agent.process.log_path, "w"):
        pass
    agent.start(ready=False)
    wait_services(mesh, node, want)
    agent.wait_ready()
    if damage is not damage_empty:
        assert "damaged" in agent.process.log() or "corrupt" in agent.process.log() or "aside" in agent.process.log()
    assert integrity(agent) == "ok"
    assert agent.stop() == 0
    assert node.clean()
    agent.start()


def test_database_from_the_future(mesh):
    """A newer version's file is not destroyed by an older program."""
    node, agent = mesh.node1, mesh.agent1
    want = known_fakes(node)
    agent.stop()
    node.python("import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute('pragma user_version = 999')", database(agent))
    agent.start(ready=False)
    wait_services(mesh, node, want)


def test_hub_killed(mesh):
    want = fakes(mesh.node1)
    mesh.hub.process.kill()
    assert mesh.node1.get("http://edge-nginx/")[0] == 200
    mesh.hub.start()
    mesh.hub.write("again.yaml", service("again", ("http", 80, 8080), selector="web"))
    wait_for("agents are back", lambda: mesh.node1.get("http://again/")[0] == 200)
    assert fakes(mesh.node1) == want
    mesh.hub.delete("again.yaml")


def test_hub_killed_with_a_broken_manifest(mesh):
    """What a file said before it broke goes on to count through kill -9 of the hub, at the hub and at the nodes."""
    hub, data = mesh.hub, os.path.join(mesh.hub.machine.dir, "data", "manifests")
    hub.write("fragile.yaml", service("fragile", ("http", 80, 8080), namespace="shop"))
    wait_for("known", lambda: any(s["name"] == "fragile" for s in hub.state()["hub"]["services"]))
    wait_for("copied", lambda: any("fragile.yaml" in files for _, _, files in os.walk(data)))
    hub.write("fragile.yaml", "{not: [yaml")
    wait_for("told", lambda: any(f["file"] == "fragile.yaml" and f["problem"] for f in hub.state()["hub"]["source"]["files"]))
    hub.process.kill()
    hub.start()
    wait_for("ready", hub.ready)
    assert any(s["name"] == "fragile" for s in hub.state()["hub"]["services"])
    wait_for("in step", lambda: mesh.agent1.state()["meta"]["synced"])
    assert mesh.node1.address_of("fragile.shop.svc.cluster.local", f"@{mesh.node1.gateway}")
    hub.delete("fragile.yaml")
    wait_for("gone", lambda: not any(s["name"] == "fragile" for s in hub.state()["hub"]["services"]))


def test_new_node_joins_while_others_work(mesh):
    node = Node(mesh.lab, "edge-9", "192.0.2.19")
    agent = Agent(node, mesh.hub)
    wait_for("call", lambda: node.get("http://edge-nginx/")[0] == 200)
    assert agent.stop() == 0 and node.clean()


def test_disk_that_can_only_be_read(mesh):
    """The node goes on with what it knows, lock or no lock; resolv.conf is left alone, for it could not be put back."""
    node = Node(mesh.lab, "edge-ro", "192.0.2.14")
    agent = Agent(node, mesh.hub, start=False)
    os.makedirs(agent.data)
    node.run("mount", "-t", "tmpfs", "tmpfs", agent.data)
    agent.start()
    wait_for("services", lambda: agent.state()["services"] >= 3)
    want = known_fakes(node)
    for remove in (False, True):
        agent.stop()
        node.run("mount", "-o", "remount,rw", agent.data)
        if remove:
            node.run("rm", f"{agent.data}/lock")
        node.run("mount", "-o", "remount,ro", agent.data)
        agent.start()
        wait_services(mesh, node, want)
        assert "Read-only" in agent.ask("/readyz")[1]
        assert agent.metrics()['edgeway_agent_degraded{part="resolv.conf"}'] == 1
        assert node.resolv() == node.original
    agent.stop()
    assert node.clean()


def test_what_a_killed_agent_has_left(mesh):
    """The reserved port is the next one's to give back, and one that nobody listens at any more is given back at once."""
    node, agent = mesh.node2, mesh.agent2

    def reserved():
        return node.run("sysctl", "-n", "net.ipv4.ip_local_reserved_ports").stdout.strip()
    agent.stop()
    assert reserved() == ""
    agent.start()
    wait_for("reserved", lambda: reserved() == "40001")
    agent.process.kill()
    assert reserved() == "40001"
    agent.start("--mesh.listenPort", "40005")
    wait_for("the other one alone", lambda: reserved() == "40005")
    agent.process.kill()
    agent.start("--mesh.listenPort", "40005")
    agent.stop()
    assert reserved() == ""
    node.run("sysctl", "-qw", "net.ipv4.ip_local_reserved_ports=40001")  # an operator's
    agent.start()
    agent.process.kill()
    agent.start()
    agent.stop()
    assert reserved() == "40001"
    node.run("sysctl", "-qw", "net.ipv4.ip_local_reserved_ports=")
    agent.start()
