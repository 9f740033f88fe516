"""Others on the node, and endpoints and clients, that push: what is ours goes on, within bounds."""
import os
import resource
import signal
import time

import pytest

from lab import BARE_PYTHON, wait_for

NAME = "edge-nginx.default.svc.cluster.local"
WAITING = """
import socket, sys
question = b"\\0\\x11\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0\\0\\1\\0\\1" if sys.argv[2] == "53" else \
    b"GET / HTTP/1.0\\r\\n\\r\\n"
every = [socket.create_connection((sys.argv[1], int(sys.argv[2])), 90) for _ in range(8)]
for s in every:
    s.sendall(question)
sys.exit(not all(s.recv(100) for s in every))
"""


def overrun(agent, node, *command):
    """Events that the agent cannot take are lost by the kernel."""
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        for argv, text in command:
            node.run(*argv, input=text)
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)


def test_nftables_events_lost(mesh):
    """A big ruleset loaded while the agent is busy: it still sees the next flush."""
    node, agent = mesh.node1, mesh.agent1
    rules = "".join(f"add rule ip junk c ip saddr 10.{i >> 8}.{i & 255}.1 counter\n" for i in range(20000))
    overrun(agent, node, (("nft", "-f", "-"), "add table ip junk\nadd chain ip junk c\n" + rules),
            (("nft", "delete", "table", "ip", "junk"), None))
    for _ in range(2):
        repairs = agent.metrics()["edgeway_iptables_repairs_total"]
        node.run("nft", "delete", "table", "ip", "edgeway")
        wait_for("repair", lambda: agent.metrics()["edgeway_iptables_repairs_total"] > repairs
                 and node.table().count("dnat to 172.17.0.1:40001") == 1)


def test_address_events_lost(mesh):
    """The same for addresses: afterwards docker0 is still followed."""
    node, agent = mesh.node2, mesh.agent2
    node.run("ip", "link", "add", "many", "type", "bridge")
    many = [f"10.{i >> 8}.{i & 255}.1/32 dev many\n" for i in range(6000)]
    overrun(agent, node, (("ip", "-batch", "-"), "".join("address add " + a for a in many)),
            (("ip", "link", "del", "many"), None))
    for verb, served in (("del", 503), ("add", 200)):
        node.run("ip", "addr", verb, f"{node.gateway}/16", "dev", node.bridge)
        wait_for(f"address {verb}", lambda: agent.ask("/readyz")[0] == served)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_free(pid):
    """The descriptor that the next call would get."""
    taken = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
    return next(fd for fd in range(len(taken) + 1) if fd not in taken)


@pytest.mark.parametrize("port", [53, 80])
def test_out_of_descriptors(mesh, port):
    """Connections that cannot be accepted wait; the loop does not turn for them."""
    node, pid = mesh.node1, mesh.agent1.process.pid
    target = node.gateway if port == 53 else node.address_of(NAME, f"@{node.gateway}")
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (first_free(pid), before[1]))
    try:
        client = node.start("waiting", *BARE_PYTHON, "-c", WAITING, target, str(port))
        time.sleep(0.5)
        used, began = cpu_seconds(pid), time.monotonic()
        time.sleep(1)
        assert cpu_seconds(pid) - used < 0.5 * (time.monotonic() - began)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert client.wait(5) == 0, client.log() + mesh.agent1.process.log()[-3000:]  # all of them were served in the end


def test_route_deleted_by_another(mesh):
    """systemd-networkd and others drop routes that they do not know."""
    node = mesh.node1
    node.run("ip", "route", "del", "9.251.0.0/16")
    wait_for("route again", lambda: "9.251.0.0/16" in node.route())


def test_second_agent_leaves_the_first_alone(mesh):
    """With a data folder of its own it would fight for the table and take our lines out of resolv.conf."""
    node, agent = mesh.node1, mesh.agent1
    before = node.resolv()
    status, out = agent.attempt("--dataDir", os.path.join(node.dir, "second"), "--admin.listen", "",
                                "--admin.socket", os.path.join(node.dir, "second.sock"))
    assert status == 1 and str(agent.process.pid) in out
    assert node.resolv() == before and node.gateway.encode() in before


@pytest.mark.parametrize("change", [
    "printf 'nameserver 192.0.2.53\\nsearch new.test\\n' > /etc/resolv.conf",
    "printf 'nameserver 192.0.2.53\\nsearch new.test\\n' > /etc/new && mv /etc/new /etc/resolv.conf"])
def test_resolv_conf_written_by_another(mesh, change):
    """A DHCP client renews its lease: the names go on, and what it wrote is what comes back at the end."""
    node, agent = mesh.node2, mesh.agent2
    node.run("sh", "-c", change)
    wanted = b"search default.svc.cluster.local svc.cluster.local cluster.local new.test"
    wait_for("our lines", lambda: wanted in node.resolv() and node.gateway.encode() in node.resolv())
    node.run("rm", "/etc/resolv.conf")
    wait_for("our lines again", lambda: node.gateway.encode() in node.resolv())
    node.run("sh", "-c", change)
    wait_for("our lines once more", lambda: wanted in node.resolv())
    agent.stop()
    assert node.resolv() == b"nameserver 192.0.2.53\nsearch new.test\n"
    with open(node.resolv_conf, "wb") as f:
        f.write(node.original)
    agent.start()
