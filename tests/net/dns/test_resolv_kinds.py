"""resolv.conf as hosts have it: a link, a bind-mounted file, systemd-resolved's, one that we must leave; and upstreams that loop."""
import os
import re
import stat

import pytest

import lab as labs
from lab import Agent, Machine, Node, wait_for
from troubles import ctl, kinds, told

SECOND = "192.0.2.55"
CLUSTER = "edge-nginx.default.svc.cluster.local"
WORLD = "www.example.test"


@pytest.fixture(scope="module")
def node(mesh):
    made = Node(mesh.lab, "edge-5", "192.0.2.15")
    # /run of its own: systemd-resolved's files are put there
    made.run("sh", "-c", "mount -t tmpfs none /run && mkdir -p /run/systemd/resolve")
    return made


@pytest.fixture(scope="module")
def second(mesh):
    machine = Machine(mesh.lab, "dns5", address=SECOND)
    machine.start("dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
                  "--log-facility=-", "--bind-interfaces", f"--listen-address={SECOND}", "--conf-file=/dev/null",
                  "--local=/test/", "--address=/second.test/203.0.113.10", f"--address=/{WORLD}/203.0.113.10")
    wait_for("dnsmasq", lambda: machine.dns("second.test", server=SECOND))
    return machine


@pytest.fixture
def start(mesh, node):
    """Starts an agent that is gone at the end of the test; the node's resolv.conf is a plain file again."""
    agents = []

    def run(*options, token=None):
        agents.append(Agent(node, mesh.hub, *options, token=agents[-1].token if agents else None))
        wait_for("services", lambda: node.dns(CLUSTER, server=node.gateway)[1])
        return agents[-1]

    agents.append(Agent(node, mesh.hub, start=False, token=mesh.hub.token("--node", node.name)))
    yield run
    for agent in agents:
        if agent.process is not None and agent.process.alive():
            print(f"--- log of {node.name}\n{agent.process.log()[-4000:]}")
            agent.stop()
    if os.path.lexists(node.resolv_conf):
        os.unlink(node.resolv_conf)
    with open(node.resolv_conf, "wb") as f:
        f.write(node.original)


def ours(node):
    return node.run("cat", "/etc/resolv.conf", check=False).stdout.count("\nnameserver 172.17.0.1\n") == 1


def upstreams(agent):
    return agent.state()["dns"]["upstreams"]


def link_to(node, target, text):
    """/etc/resolv.conf becomes a link, as systems with a manager of it have it."""
    node.run("sh", "-c", f"printf '{text}' > {target} && ln -sf {target} /etc/resolv.conf")


@pytest.mark.parametrize("end", ["stop", "kill and start", "kill and restore"])
def test_link(node, start, end):
    target = "/run/systemd/manager.conf"
    text = f"nameserver {labs.UPSTREAM_ADDRESS}\\nsearch link.test\\n"
    link_to(node, target, text)
    agent = start()
    wait_for("our line", lambda: ours(node))
    assert not os.path.islink(node.resolv_conf)
    assert upstreams(agent) == [f"{labs.UPSTREAM_ADDRESS}:53"]
    if end != "stop":
        agent.process.kill()
        assert ours(node)
        if end == "kill and restore":
            status, output = agent.attempt("--restore")
            assert status == 0, output
        else:
            agent.start()
            wait_for("our line again", lambda: ours(node))
    if agent.process.alive():
        assert agent.stop() == 0
    assert os.readlink(node.resolv_conf) == target
    assert node.run("cat", target).stdout == text.replace("\\n", "\n")


def test_bind_mounted(node, start):
    """In a container the file is a mount of its own: it cannot be replaced, only written."""
    outer = os.path.join(node.dir, "outer-resolv.conf")
    text = f"nameserver {labs.UPSTREAM_ADDRESS}\nsearch mounted.test\n"
    with open(outer, "w") as f:
        f.write(text)
    os.chmod(outer, 0o640)
    node.run("mount", "--bind", outer, "/etc/resolv.conf")
    try:
        agent = start()
        wait_for("our line", lambda: ours(node))
        inode = os.stat(outer).st_ino
        assert node.getent(CLUSTER).startswith("9.251.")
        agent.process.kill()
        assert ours(node)
        agent.start()
        wait_for("our line again", lambda: ours(node))
        assert agent.stop() == 0
        with open(outer) as f:
            assert f.read() == text
        assert os.stat(outer).st_ino == inode and stat.S_IMODE(os.stat(outer).st_mode) == 0o640
    finally:
        node.run("umount", "/etc/resolv.conf")


def test_unmanaged(node, second, start):
    """Not a byte is written, and what others write is read all the same."""
    agent = start("--dns.manageResolvConf", "false")
    before = os.stat(node.resolv_conf)
    assert node.resolv() == node.original
    assert node.address_of(WORLD, f"@{node.gateway}") == "203.0.113.7"
    other = f"nameserver {SECOND}\n".encode()
    with open(node.resolv_conf, "wb") as f:
        f.write(other)
    wait_for("the new upstream", lambda: upstreams(agent) == [f"{SECOND}:53"])
    wait_for("asked by all workers", lambda: all(node.address_of("second.test", f"@{node.gateway}") for _ in range(8)))
    assert node.resolv() == other
    assert agent.stop() == 0
    assert node.resolv() == other
    assert os.stat(node.resolv_conf).st_ino == before.st_ino


def test_the_route_of_resolved_without_resolved(node, second, start):
    """resolv.conf is left alone all the same, pods are served, and it is told what is missing."""
    before = os.stat(node.resolv_conf)
    agent = start("--dns.host", "resolved")
    assert node.address_of(WORLD, f"@{node.gateway}") == "203.0.113.7"
    assert agent.state()["dns"]["host"]["way"] == "resolved" and not agent.state()["dns"]["host"]["set"]
    told(agent, "resolved", "fault", "there is no system bus of D-Bus: /run/dbus/system_bus_socket")
    assert "dns.host: file" in kinds(agent)["resolved"]["remedy"] and "NO ROUTE to us" in ctl(agent, "status")
    assert agent.stop() == 0
    assert node.resolv() == node.original and os.stat(node.resolv_conf).st_ino == before.st_ino


def test_systemd_resolved(node, second, start):
    """It reads the resolv.conf that names us: those whom it asks are asked, also when they change."""
    theirs = "/run/systemd/resolve/resolv.conf"
    node.run("sh", "-c", f"echo nameserver {labs.UPSTREAM_ADDRESS} > {theirs}")
    link_to(node, "/run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\\noptions edns0 trust-ad\\n")
    agent = start()
    assert upstreams(agent) == [f"{labs.UPSTREAM_ADDRESS}:53"]
    assert node.address_of(WORLD, f"@{node.gateway}") == "203.0.113.7"
    node.run("sh", "-c", f"echo nameserver {SECOND} > {theirs}.new && mv {theirs}.new {theirs}")
    wait_for("the new upstream", lambda: upstreams(agent) == [f"{SECOND}:53"])
    assert agent.stop() == 0
    assert os.readlink(node.resolv_conf) == "/run/systemd/resolve/stub-resolv.conf"


def dnsmasq(node, server):
    """A cache on the host itself that asks `server`."""
    process = node.start(f"dnsmasq-of-{server}", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root",
                         "--pid-file=", "--log-facility=-", "--bind-interfaces", "--listen-address=127.0.0.1",
                         "--conf-file=/dev/null", "--cache-size=0", f"--server={server}")
    wait_for("dnsmasq on the host", lambda: ": started," in process.log())
    return process


def state_of(agent, address):
    return {u["address"]: u["state"] for u in agent.state()["dns"]["forwarding"]}.get(address)


def test_loop(node, start):
    """A dnsmasq on the host that asks us, whom we ask: found, said, put out of use, and back when it is mended."""
    text = f"nameserver 127.0.0.1\nnameserver {labs.UPSTREAM_ADDRESS}\n".encode()
    with open(node.resolv_conf, "wb") as f:
        f.write(text)
    local = dnsmasq(node, node.gateway)
    agent = start()
    wait_for("the loop is found", lambda: state_of(agent, "127.0.0.1:53") == "loop")
    assert upstreams(agent) == [f"{labs.UPSTREAM_ADDRESS}:53"]
    assert agent.process.logged("sends our queries back to us")
    assert agent.metrics()['edgeway_dns_upstream_looping{upstream="127.0.0.1:53"}'] == 1
    table = node.run(agent.lab.program("edgewayctl"), "--socket", agent.socket, "upstreams").stdout
    assert re.search(r"^127\.0\.0\.1:53 +loop ", table, re.M), table
    wait_for("alive", lambda: re.search(rf"^{labs.UPSTREAM_ADDRESS}:53 +alive ", node.run(
        agent.lab.program("edgewayctl"), "--socket", agent.socket, "upstreams").stdout, re.M))
    assert node.address_of(WORLD, f"@{node.gateway}") == "203.0.113.7"
    local.stop()
    local = dnsmasq(node, labs.UPSTREAM_ADDRESS)
    wait_for("in use again", lambda: upstreams(agent) == ["127.0.0.1:53", f"{labs.UPSTREAM_ADDRESS}:53"])
    assert node.address_of(WORLD, f"@{node.gateway}") == "203.0.113.7"
    local.stop()
    assert agent.stop() == 0
    assert node.resolv() == text


def test_ourselves_in_the_original(node, start):
    """A line that names us and carries no mark of ours: never an upstream."""
    text = f"nameserver {node.gateway}\nnameserver {labs.UPSTREAM_ADDRESS}\nnameserver ::ffff:{node.gateway}\n".encode()
    with open(node.resolv_conf, "wb") as f:
        f.write(text)
    agent = start()
    assert upstreams(agent) == [f"{labs.UPSTREAM_ADDRESS}:53"]
    assert agent.stop() == 0
    assert node.resolv() == text
