"""resolv.conf in the hands of others: DHCP clients, editors, a fight; and --restore after kill -9."""
import os

import pytest

import lab as labs
from lab import Machine, wait_for

SECOND = "192.0.2.54"
NAMES = {"over": "over.second.test", "rename": "rename.second.test"}


@pytest.fixture(scope="module")
def second(mesh):
    """An upstream that only the DHCP client knows."""
    machine = Machine(mesh.lab, "dns2", address=SECOND)
    machine.start("dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
                  "--log-facility=-", "--bind-interfaces", f"--listen-address={SECOND}", "--conf-file=/dev/null",
                  "--local=/test/", *[f"--address=/{n}/203.0.113.9" for n in NAMES.values()])
    wait_for("dnsmasq", lambda: machine.dns(NAMES["over"], server=SECOND))
    return machine


def write_over(node, text):
    with open(node.resolv_conf, "wb") as f:
        f.write(text)


def write_rename(node, text):
    with open(node.resolv_conf + ".dhclient-new", "wb") as f:
        f.write(text)
    os.rename(node.resolv_conf + ".dhclient-new", node.resolv_conf)


def ours(node):
    return node.resolv().count(b"\nnameserver 172.17.0.1\n") == 1


def back_to_original(mesh):
    node, agent = mesh.node1, mesh.agent1
    write_over(node, node.original)
    agent.start()
    wait_for("our line", lambda: ours(node))


@pytest.mark.parametrize("way", [write_over, write_rename])
def test_dhcp_client(mesh, second, way):
    node, agent = mesh.node1, mesh.agent1
    name = NAMES[way.__name__.split("_")[1]]
    text = f"# by dhclient\nnameserver {SECOND}\nsearch {way.__name__.replace('_', '-')}.test\n".encode()
    way(node, text)
    wait_for("our line is back", lambda: ours(node) and SECOND.encode() in node.resolv())
    assert labs.UPSTREAM_ADDRESS.encode() not in node.resolv()
    wait_for("the new upstream", lambda: f"{SECOND}:53" in agent.state()["dns"]["upstreams"])
    wait_for("asked by all workers", lambda: all(node.address_of(name, f"@{node.gateway}") == "203.0.113.9"
                                                 for _ in range(16)))
    assert node.getent("edge-nginx.default.svc.cluster.local").startswith("9.251.")
    assert agent.stop() == 0
    assert node.resolv() == text
    back_to_original(mesh)


def test_deleted(mesh):
    node, agent = mesh.node1, mesh.agent1
    os.unlink(node.resolv_conf)
    wait_for("written again", lambda: os.path.exists(node.resolv_conf) and ours(node))
    assert node.address_of("www.example.test", f"@{node.gateway}") == "203.0.113.7"
    assert agent.stop() == 0
    assert node.clean()
    agent.start()
    wait_for("our line", lambda: ours(node))


def test_fight(mesh):
    """Who answers each of our writes with one of their own wins, and it is said."""
    node, agent = mesh.node1, mesh.agent1
    text = f"nameserver {labs.UPSTREAM_ADDRESS}\n# mine\n".encode()

    def fight():
        if ours(node):
            write_over(node, text)
        return agent.metrics()["edgeway_dns_resolvconf_conflicts_total"] > 0

    wait_for("left alone", fight)
    assert node.resolv() == text
    assert agent.state()["dns"]["resolvConf"]["trouble"] != ""
    assert agent.process.logged("another program keeps changing resolv.conf")
    assert agent.stop() == 0
    assert node.resolv() == text
    back_to_original(mesh)


def test_restore(mesh):
    node, agent = mesh.node1, mesh.agent1
    assert ours(node) and node.table() and node.route()
    status, output = agent.attempt("--restore")
    assert status == 1 and "in use by process" in output, output
    assert ours(node) and node.table() and node.route()
    agent.process.kill()
    assert ours(node) and node.table() and node.route()
    status, output = agent.attempt("--restore")
    assert status == 0, output
    assert node.clean()
    assert agent.attempt("--restore")[0] == 0
    assert node.clean()
    agent.start()
    wait_for("our line", lambda: ours(node))
