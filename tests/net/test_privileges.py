"""What the agent may do as root: no more than it needs, in every thread, and it still does its whole job."""
import os
import re

from lab import Agent, Node, wait_for

NET_BIND_SERVICE, NET_ADMIN, DAC_OVERRIDE, CHOWN, FOWNER = 10, 12, 1, 0, 3
USUAL = 1 << NET_ADMIN | 1 << NET_BIND_SERVICE
FOREIGN = USUAL | 1 << DAC_OVERRIDE | 1 << CHOWN | 1 << FOWNER
NAME = "edge-nginx.default.svc.cluster.local"


def daemon(process):
    """nsenter executes the daemon in its own place."""
    with open(f"/proc/{process.pid}/comm") as f:
        assert f.read().startswith("edgeway-"), process.name
    return process.pid


def sets(process):
    """{(CapEff, CapPrm, CapBnd, CapInh, CapAmb, NoNewPrivs)} over all threads."""
    found = set()
    tasks = f"/proc/{daemon(process)}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/status") as f:
            text = f.read()
        found.add(tuple(int(re.search(rf"^{line}:\s*(\w+)", text, re.M).group(1), 16)
                        for line in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs")))
    return found


def works(mesh, node):
    """The whole job: fake IP, translated connection, resolv.conf, route and table."""
    wait_for("name", lambda: node.address_of(NAME, f"@{node.gateway}"))
    wait_for("call", lambda: node.get(f"http://{node.address_of(NAME, f'@{node.gateway}')}/")[0] == 200)
    wait_for("resolv.conf", lambda: node.resolv().count(b"\nnameserver 172.17.0.1\n") == 1)
    assert node.table() and node.route()


def test_agent_keeps_what_it_needs(mesh):
    node, agent = mesh.node1, mesh.agent1
    works(mesh, node)
    assert len(os.listdir(f"/proc/{daemon(agent.process)}/task")) > 2  # workers and the database's thread
    assert sets(agent.process) == {(USUAL, USUAL, USUAL, 0, 0, 1)}


def test_all_is_undone_without_more(mesh):
    """Stop and start again: what was changed on the host is put back by a process that holds two capabilities."""
    node, agent = mesh.node1, mesh.agent1
    assert agent.stop() == 0
    assert node.clean()
    agent.start("--log.level", "debug")
    works(mesh, node)
    assert f"capabilities={USUAL:#x}" in agent.process.log()


def test_foreign_file_keeps_more(mesh):
    """resolv.conf of another user: the right to such files stays, is told, and the file's owner too."""
    node = Node(mesh.lab, "edge-7", "192.0.2.17")
    os.chown(node.resolv_conf, 12345, 12346)
    agent = Agent(node, mesh.hub)
    works(mesh, node)
    assert sets(agent.process) == {(FOREIGN, FOREIGN, FOREIGN, 0, 0, 1)}
    assert "path=/etc/resolv.conf" in agent.process.log()
    st = os.stat(node.resolv_conf)
    assert (st.st_uid, st.st_gid) == (12345, 12346)
    assert agent.stop() == 0
    assert node.clean()
    st = os.stat(node.resolv_conf)
    assert (st.st_uid, st.st_gid) == (12345, 12346)
