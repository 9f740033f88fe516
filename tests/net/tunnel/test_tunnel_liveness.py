"""What an idle node costs, and who finds what: probes of the kernel a dead link, also where only one connection is there or a proxy ends TCP;
a program that does not answer is found by the first call, or by the heartbeat.
"""
import json
import os
import re
import signal
import threading
import time

import pytest

import lab as labs
import tunnelkit
from lab import BARE_PYTHON, HUB_ADDRESS, HUB_PORT, Agent, Hub, Lab, Machine, Node, wait_for
from tunnelkit import tunnels

MONTH_S, BAR = 30 * 86400, 40e6
PROXY = "192.0.2.40"
COUNT = f"""table ip count {{
    chain in {{ type filter hook input priority 0; ip saddr {HUB_ADDRESS} counter; }}
    chain out {{ type filter hook output priority 0; ip daddr {HUB_ADDRESS} counter; }}
}}"""
CUT = """table ip cut {
    chain in { type filter hook input priority 0; tcp sport 10000 drop; }
    chain out { type filter hook output priority 0; tcp dport 10000 drop; }
}"""


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def node_of(hub):
    return json.loads(hub.ask("/nodes")[1])["nodes"][0]


def start(lab, *options):
    hub = Hub(lab, *tunnelkit.INGRESS_OPTIONS, "--tls.names", f"{HUB_ADDRESS},{PROXY}")
    node = Node(lab, "edge-1", "192.0.2.11")
    agent = Agent(node, hub, *options)
    wait_for("in step", lambda: agent.state()["meta"]["synced"])
    return hub, node, agent


def counted(node):
    return sum(map(int, re.findall(r"bytes (\d+)", node.run("nft", "list", "table", "ip", "count").stdout)))


@pytest.mark.parametrize("tunnel", ["true", "false"])
def test_an_idle_node(lab, tunnel):
    """A window of 30 s has three probes and at most one heartbeat more than its part of a month."""
    hub, node, agent = start(lab, "--tunnel.enabled", tunnel)
    if tunnel == "true":
        wait_for("tunnel", lambda: "edge-1" in tunnels(hub))
    wait_for("acknowledged", lambda: node_of(hub)["unacked"] == 0)
    node.run("nft", "-f", "-", input=COUNT)
    time.sleep(5)  # what was sent at the beginning is acknowledged
    began, before = time.monotonic(), counted(node)
    time.sleep(30)
    took, n = time.monotonic() - began, counted(node) - before
    assert 0 < n <= BAR / MONTH_S * took + 235, n
    assert agent.state()["meta"]["connected"] and node_of(hub)["connected"]


def test_metadata_alone(lab):
    """Without a tunnel its own connection is probed."""
    hub, node, agent = start(lab, "--tunnel.enabled", "false")
    node.run("nft", "-f", "-", input=CUT)
    wait_for("the agent knows", lambda: not agent.state()["meta"]["connected"])
    wait_for("the hub knows", lambda: not node_of(hub)["connected"])
    for log in agent.process.log(), hub.process.log():
        assert 9900 <= int(re.search(r"no sign of life for (\d+) ms", log).group(1)) < 13900
    node.run("nft", "delete", "table", "ip", "cut")
    wait_for("back", lambda: agent.state()["meta"]["synced"])


def test_a_proxy_that_ends_tcp(lab):
    """An L4 load balancer answers probes itself. The hub, which sees none of the node's, pings: so it finds out that the node is gone."""
    proxy = Machine(lab, "lb", address=PROXY)
    config = os.path.join(proxy.dir, "lb.cfg")
    with open(config, "w") as f:
        f.write(f"defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\nlisten hub\n bind {PROXY}:{HUB_PORT}\n"
                f" server hub {HUB_ADDRESS}:{HUB_PORT}\n")
    proxy.start("haproxy", "haproxy", "-db", "-f", config)
    hub, node, agent = start(lab, "--hub.url", f"wss://{PROXY}:{HUB_PORT}")
    wait_for("tunnel", lambda: "edge-1" in tunnels(hub))
    time.sleep(12)  # longer than a dead link lives
    assert agent.state()["tunnel"]["connections"] == 1 and "edge-1" in tunnels(hub)
    node.run("nft", "-f", "-", input=CUT)
    wait_for("the hub knows", lambda: "edge-1" not in tunnels(hub) and not node_of(hub)["connected"])
    wait_for("the agent knows", lambda: agent.state()["tunnel"]["state"] != "open" and not agent.state()["meta"]["connected"])


def test_a_frozen_hub(lab):
    """Its kernel goes on answering. The heartbeat finds out, at 15 times hub.heartbeat, and both connections are given up."""
    hub, node, agent = start(lab, "--hub.heartbeat", "500ms")
    wait_for("tunnel", lambda: "edge-1" in tunnels(hub))
    hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        wait_for("the agent knows", lambda: agent.state()["tunnel"]["state"] != "open" and not agent.state()["meta"]["connected"])
    finally:
        hub.process.popen.send_signal(signal.SIGCONT)
    assert agent.process.logged("though its machine acknowledges what is sent to it")
    assert "not even by its kernel" not in agent.process.log()
    wait_for("back", lambda: agent.state()["meta"]["synced"] and agent.state()["tunnel"]["state"] == "open")


def test_a_program_that_was_stopped(lab):
    """For longer than a dead link lives: what its kernel answered meanwhile is not held against the peer."""
    hub, node, agent = start(lab, "--hub.heartbeat", "1s")
    wait_for("tunnel", lambda: "edge-1" in tunnels(hub))
    epoch = tunnels(hub)["edge-1"]["epoch"]
    hub.process.popen.send_signal(signal.SIGSTOP)
    time.sleep(5)
    hub.process.popen.send_signal(signal.SIGCONT)
    before = agent.metrics()["edgeway_tunnel_pings_total"]
    wait_for("a heartbeat", lambda: agent.metrics()["edgeway_tunnel_pings_total"] > before)
    assert tunnels(hub)["edge-1"]["epoch"] == epoch
    assert "not even by its kernel" not in hub.process.log() + agent.process.log()


def forget(hub, node, port):
    """As a NAT between them that no longer knows the node's connection from this port."""
    for machine, what in ((hub.machine, f"tcp dport 10000 tcp sport {port}"), (node, f"tcp sport 10000 tcp dport {port}")):
        machine.run("nft", "add table inet cut; add chain inet cut in { type filter hook prerouting priority -300; }; add rule inet cut in " + what + " drop")


def test_a_nat_forgets_the_websocket_alone(lab):
    """The tunnel is life of the link for it, too: a change that is not acknowledged finds out, and the node is told through the tunnel."""
    hub, node, agent = start(lab, "--hub.heartbeat", "1s")
    wait_for("both", lambda: "edge-1" in tunnels(hub) and agent.state()["meta"]["synced"])
    tunnel, address = tunnels(hub)["edge-1"], node_of(hub)["address"]
    forget(hub, node, address.rpartition(":")[2])
    hub.write("late.yaml", labs.service("late", ("http", 80, 8080)))
    wait_for("the change has come", lambda: agent.state()["services"] == 1)
    assert node_of(hub)["address"] != address and tunnels(hub)["edge-1"]["epoch"] == tunnel["epoch"]


def test_a_nat_forgets_the_tunnel_alone(lab):
    """A busy websocket is life of the link for both: the call that waits for an answer finds out, and the node dials anew."""
    hub, node, agent = start(lab, "--hub.heartbeat", "1s", "--tunnel.allow", tunnelkit.ALLOW)
    node.start("server", *BARE_PYTHON, "-m", "http.server", "--bind", "127.0.0.1", 7600)
    wait_for("tunnel", lambda: "edge-1" in tunnels(hub))
    tunnel = tunnels(hub)["edge-1"]
    port = tunnel["address"].rpartition(":")[2]
    over = threading.Event()

    def change():
        n = 0
        while not over.wait(0.2):
            n += 1
            hub.write("busy.yaml", labs.service("busy", ("http", 1000 + n, 8080)))

    def call():
        return hub.machine.run("curl", "-s", "-o", "/dev/null", "-m", "20", "-w", "%{http_code}", "-x", "http://192.0.2.1:10080",
                               "http://edge-1:7600/", check=False).stdout == "200"

    wait_for("a call", call)
    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        forget(hub, node, port)
        wait_for("dialled anew", lambda: call() and tunnels(hub)["edge-1"]["address"] != tunnel["address"])
        wait_for("metadata", lambda: agent.state()["meta"]["connected"] and agent.state()["services"] == 1)
    finally:
        over.set()
        thread.join()
