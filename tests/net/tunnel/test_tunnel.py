"""The tunnel of a node: it opens by itself, tells when an end is gone, and comes back; each test ends where it began."""
import json
import re
import signal
import time

import pytest

import tunnelkit
from lab import Agent, Node, wait_for
from tunnelkit import tunnels

as_before = tunnelkit.as_before


@pytest.fixture(scope="module")
def site(lab):
    made = tunnelkit.Site(lab)
    yield made
    made.logs()


def test_shown(site):
    """Both ends tell of it: state, edgewayctl, metrics, logs."""
    hub, agent = site.hub, site.agents[0]
    shown = hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "tunnels").stdout
    assert "edge-1" in shown and "edge-2" in shown and "192.0.2.11" in shown
    assert hub.metrics()["edgeway_tunnel_nodes"] == 2
    state = agent.state()["tunnel"]
    assert state["state"] == "open" and state["hub"] == "192.0.2.1:10000" and state["error"] == ""
    assert agent.process.logged("tunnel: tunnel open hub=192.0.2.1")
    assert hub.process.logged("tunnel open node=edge-1 peer=192.0.2.11")
    status = agent.node.run(hub.lab.program("edgewayctl"), "--socket", agent.socket, "status").stdout
    assert "open to 192.0.2.1:10000" in status


def test_frozen_agent(site):
    """SIGSTOP: its kernel still acknowledges and answers probes, but the first call tells the hub; thawed, it comes back."""
    agent = site.agents[0]
    agent.process.popen.send_signal(signal.SIGSTOP)
    try:
        # nobody minds a node that is asked for nothing: the first call finds out
        site.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080", seconds=3)
        wait_for("the hub knows", lambda: "edge-1" not in tunnels(site.hub))  # new streams go elsewhere at once
        wait_for("and gives it up", lambda: re.search(r"nothing was heard for \d+ ms, though its machine ackn", site.hub.process.log()))
    finally:
        agent.process.popen.send_signal(signal.SIGCONT)
    assert "edge-2" in tunnels(site.hub)
    site.wait_open("edge-1")


def heard_ms(site):
    """Of each of edge-1's connections to the hub, how long ago its kernel was answered there."""
    shown = site.nodes[0].run("ss", "-tinH", "state", "established", "dst", site.hub.machine.address).stdout
    return [int(ms) for ms in re.findall(r"lastack:(\d+)", shown)]


def cut(site, until):
    """Of the cable; how long it took. Afterwards the tunnel and the metadata's connection have both lived on, or been dialled anew."""
    began = time.monotonic()
    site.nodes[0].run("ip", "link", "set", "eth0", "down")
    try:
        until()
    finally:
        site.nodes[0].run("ip", "link", "set", "eth0", "up")
    up = time.monotonic()
    wait_for("they are heard", lambda: len(heard_ms(site)) == 2 and min(heard_ms(site)) < 1000 * (time.monotonic() - up))
    return up - began


def test_short_cut(site):
    """The tunnel is afterwards as it was, or finishes beside another one that was dialled sooner than TCP sent again (6.2 s after the first loss),
    unless the silence was so long after all: a tunnel is given up after 9.9; a busy machine takes the rest."""
    logs = [site.hub.process.log, site.agents[0].process.log]
    for _ in range(5):
        before = [len(log()) for log in logs]
        since = tunnels(site.hub)["edge-1"]["epoch"]
        took = cut(site, lambda: time.sleep(5))
        site.wait_open("edge-1")
        wait_for("the agent knows", lambda: site.agents[0].state()["tunnel"]["state"] == "open")
        if tunnels(site.hub)["edge-1"]["epoch"] == since or "the former one finishes" in logs[1]()[before[1]:]:
            return
        told = [log()[n:] for log, n in zip(logs, before)]
        assert any("nothing was heard for" in t for t in told), told
    pytest.fail(f"no tunnel outlived a cut of {took:.0f} s")


def test_long_cut(site):
    """Once both have given it up there is another."""
    since, agent = tunnels(site.hub)["edge-1"]["epoch"], site.agents[0]
    cut(site, lambda: wait_for("both know", lambda: "edge-1" not in tunnels(site.hub) and agent.state()["tunnel"]["state"] != "open"))
    site.wait_open("edge-1")
    wait_for("the agent knows", lambda: agent.state()["tunnel"]["state"] == "open")
    assert tunnels(site.hub)["edge-1"]["epoch"] > since


def test_hub_killed(site):
    """Every node is back once there is a hub again."""
    site.hub.process.kill()
    wait_for("the nodes know", lambda: all(a.state()["tunnel"]["state"] != "open" for a in site.agents))
    assert site.agents[0].process.logged("lost the tunnel")
    site.hub.start()
    site.wait_open()


def test_agent_restarted(site):
    site.agents[0].stop()
    assert "edge-1" not in tunnels(site.hub)
    site.agents[0].start()
    site.wait_open("edge-1")


def test_killed_agent_comes_again(site):
    """The newer tunnel of a node takes the place of one that nobody has closed."""
    site.agents[0].process.kill()
    site.agents[0].start()
    site.wait_open("edge-1")
    assert len(json.loads(site.hub.ask("/tunnels")[1])["tunnels"]) == 2


def test_revoked(lab, site):
    """A node that is revoked loses its tunnel at once, and gets none with the certificate it has."""
    agent = Agent(Node(lab, "edge-3", "192.0.2.13"), site.hub)
    site.wait_open("edge-3")
    hub = site.hub
    hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "node", "revoke", "edge-3")
    assert "edge-3" not in tunnels(hub)
    assert hub.process.logged("tunnel cut node=edge-3")
    wait_for("it is turned away", lambda: "tunnel refused node=edge-3" in hub.process.log())
    assert hub.process.logged("the certificate was revoked")
    assert agent.stop() == 0


def test_switched_off(lab, site):
    """tunnel.enabled: false means no connection of its own."""
    agent = Agent(Node(lab, "edge-4", "192.0.2.14"), site.hub, "--tunnel.enabled", "false")
    wait_for("metadata", lambda: agent.state()["meta"]["synced"])
    assert agent.state()["tunnel"] == {"enabled": False} and "edge-4" not in tunnels(site.hub)
    assert agent.stop() == 0
