"""What agent and hub may do as root: no more than it needs, in every thread, and they still do their whole job."""
import os
import re
import signal
import types

import pytest

from lab import Agent, Hub, Lab, Node, service, wait_for

pytestmark = pytest.mark.plain_build  # capabilities

NET_BIND_SERVICE, NET_ADMIN, DAC_OVERRIDE, CHOWN, FOWNER = 10, 12, 1, 0, 3
USUAL = 1 << NET_ADMIN | 1 << NET_BIND_SERVICE
FOREIGN = USUAL | 1 << DAC_OVERRIDE | 1 << CHOWN | 1 << FOWNER
NAME = "edge-nginx.default.svc.cluster.local"


@pytest.fixture
def other_lab():
    """For hubs of the test's own: a lab has one hub's address."""
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def daemon(process):
    """nsenter executes the daemon in its own place."""
    with open(f"/proc/{process.pid}/comm") as f:
        assert f.read().startswith("edgeway-"), process.name
    return process.pid


def threads(process):
    """{thread's name: {(CapEff, CapPrm, CapBnd, CapInh, CapAmb, NoNewPrivs)}}; the main one is "main"."""
    found = {}
    tasks = f"/proc/{daemon(process)}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/status") as f:
            text = f.read()
        name = "main" if int(task) == process.pid else re.match(r"Name:\t(.*)", text).group(1)
        found.setdefault(name, set()).add(tuple(
            int(re.search(rf"^{line}:\s*(\w+)", text, re.M).group(1), 16)
            for line in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs")))
    return found


def held(process):
    """{thread's name: what it holds and may have}; what is inheritable is nothing anywhere, and the bounding set the main thread's."""
    found = threads(process)
    (bounding,) = {s[2] for s in found["main"]}
    assert all(s[2:] == (bounding, 0, 0, 1) and s[0] == s[1] for sets in found.values() for s in sets), found
    assert all(len(sets) == 1 for sets in found.values()), found
    return {name: next(iter(sets))[0] for name, sets in found.items()}


def works(mesh, node):
    """The whole job: fake IP, translated connection, resolv.conf, route and table."""
    wait_for("name", lambda: node.address_of(NAME, f"@{node.gateway}"))
    wait_for("call", lambda: node.get(f"http://{node.address_of(NAME, f'@{node.gateway}')}/")[0] == 200)
    wait_for("resolv.conf", lambda: node.resolv().count(b"\nnameserver 172.17.0.1\n") == 1)
    assert node.table() and node.route()


def test_agent_keeps_what_it_needs(mesh):
    node, agent = mesh.node1, mesh.agent1
    works(mesh, node)
    has = held(agent.process)
    assert has.pop("main") == USUAL and has.pop("worker-1") == 1 << NET_ADMIN  # SO_MARK of upstream connections
    assert has.pop("database") == 0
    assert all(has.pop(name) == (1 << NET_ADMIN if name.startswith("worker-") else 0) for name in list(has)), has


def test_all_is_undone_without_more(mesh):
    """Stop and start again: what was changed on the host is put back by a process that holds two capabilities."""
    node, agent = mesh.node1, mesh.agent1
    assert agent.stop() == 0
    assert node.clean()
    agent.start("--log.level", "debug")
    works(mesh, node)
    assert agent.process.logged(f"capabilities={USUAL:#x}")


def test_foreign_file_keeps_more(mesh):
    """resolv.conf of another user: the right to such files stays, is told, and the file's owner too."""
    node = Node(mesh.lab, "edge-7", "192.0.2.17")
    os.chown(node.resolv_conf, 12345, 12346)
    agent = Agent(node, mesh.hub)
    works(mesh, node)
    has = held(agent.process)
    assert has["main"] == FOREIGN and has["worker-1"] == 1 << NET_ADMIN and has["database"] == FOREIGN & ~USUAL
    assert agent.process.logged("path=/etc/resolv.conf")
    st = os.stat(node.resolv_conf)
    assert (st.st_uid, st.st_gid) == (12345, 12346)
    assert agent.stop() == 0
    assert node.clean()
    st = os.stat(node.resolv_conf)
    assert (st.st_uid, st.st_gid) == (12345, 12346)


# --- the hub -------------------------------------------------------------------------------------

HUB_USUAL = 1 << NET_BIND_SERVICE


def test_hub_keeps_the_right_to_low_ports_alone(mesh):
    hub = mesh.hub
    assert held(hub.process)["main"] == HUB_USUAL


def served(hub, port):
    return f":{port}" in hub.machine.run("ss", "-Hltn").stdout


def test_hub_serves_low_ports(other_lab):
    """Started as root with ways in below 1024: both are there, and nothing else is kept. A node joins and is in step."""
    hub = Hub(other_lab, "--ingress.http", "127.0.0.1:80", "--log.level", "debug")
    assert served(hub, 80) and hub.process.logged(f"capabilities={HUB_USUAL:#x}")
    assert held(hub.process)["main"] == HUB_USUAL
    agent = Agent(Node(other_lab, "edge-1", "192.0.2.11"), hub)
    wait_for("in step", lambda: agent.state()["meta"]["synced"])
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    wait_for("the service", lambda: agent.state()["services"] == 1)
    # Everything under dataDir can still be written after a restart as the same user.
    hub.process.stop()
    hub.start()
    assert hub.token()


def test_hub_that_redirects_keeps_the_right_to_rules(other_lab):
    hub = Hub(other_lab, "--ingress.redirect", "{listen: '127.0.0.1:10260'}")
    keep = HUB_USUAL | 1 << NET_ADMIN
    assert held(hub.process)["main"] == keep
    assert "dnat to 127.0.0.1:10260" in hub.machine.run("nft", "list", "table", "ip", "edgeway-hub").stdout


def test_hub_with_foreign_files_keeps_more(other_lab):
    """A manifest folder of another user, closed to others: read all the same, and told."""
    folder = os.path.join(other_lab.dir, "foreign")
    os.mkdir(folder, 0o700)
    os.chown(folder, 12345, 12346)
    hub = Hub(other_lab, "--source.manifests", folder)
    keep = HUB_USUAL | 1 << DAC_OVERRIDE | 1 << CHOWN | 1 << FOWNER
    assert held(hub.process)["main"] == keep
    assert hub.process.logged(f"path={folder}")
    wait_for("read", hub.ready)
    assert "waiting for the folder" not in hub.process.log()


def as_another_user(lab, capabilities):
    """For Hub's `before`: its folder is that user's, and it begins with these capabilities alone, ambient as systemd gives them."""
    os.chmod(lab.dir, 0o711)
    sets = ",".join(["-all", *(f"+{c}" for c in capabilities)])
    return ("sh", "-c", f'chown 12345 {os.path.join(lab.dir, "cloud")} && exec setpriv --reuid 12345 --regid 12345 --clear-groups '
            f'--inh-caps={sets} --ambient-caps={sets} --bounding-set={sets} "$0" "$@"')


def test_hub_needs_no_root(other_lab):
    """Another user, without one capability to begin with: a node joins and is in step, and nobody holds anything."""
    hub = Hub(other_lab, before=as_another_user(other_lab, ()))
    assert set(held(hub.process).values()) == {0}
    with open(f"/proc/{hub.process.pid}/status") as f:
        assert re.search(r"^Uid:\t12345\t12345\t12345", f.read(), re.M)
    agent = Agent(Node(other_lab, "edge-1", "192.0.2.11"), hub)
    wait_for("in step", lambda: agent.state()["meta"]["synced"])


def runs(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return "State:\tZ" not in f.read()
    except FileNotFoundError:
        return False


def test_hub_upgrades_without_root(other_lab):
    """The unit's user has its capabilities by AmbientCapabilities: each version that takes over has them as well, and does all that the first did."""
    hub = Hub(other_lab, "--ingress.redirect", "{listen: '127.0.0.1:10260'}", "--ingress.http", "127.0.0.1:80",
              before=as_another_user(other_lab, ("net_bind_service", "net_admin")))
    keep = HUB_USUAL | 1 << NET_ADMIN
    assert held(hub.process)["main"] == keep
    pid = hub.process.pid
    for _ in range(2):
        former = pid
        p = hub.machine.run(other_lab.program("edgewayctl"), "--socket", hub.socket, "upgrade")
        pid = int(re.search(r"as process (\d+)", p.stdout).group(1))
        wait_for("the former has ended", lambda former=former: not runs(former))
        assert runs(pid) and hub.ready()
        assert held(types.SimpleNamespace(pid=pid, name="the next hub"))["main"] == keep
    assert served(hub, 80) and "dnat to 127.0.0.1:10260" in hub.machine.run("nft", "list", "table", "ip", "edgeway-hub").stdout
    os.kill(pid, signal.SIGTERM)
    wait_for("its end", lambda: not runs(pid))
    assert "edgeway-hub" not in hub.machine.run("nft", "list", "tables").stdout
