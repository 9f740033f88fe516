"""Strangers at the hub's port: whatever they do, nodes get in and the hub answers its operator."""
import os

import pytest

from lab import HUB_ADDRESS, BARE_PYTHON, Agent, Hub, Machine, Node, service, wait_for

DESCRIPTORS = 256
MUTE = """
import socket, sys, time
kept = []
for i in range(int(sys.argv[2])):
    s = socket.socket()
    s.connect((sys.argv[1], 10000))
    kept.append(s)
print("connected", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def hub(lab):
    made = Hub(lab, before=("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"))
    yield made
    print(f"--- log of the hub\n{made.process.log()[-4000:]}")


def test_mute_connections(lab, hub):
    """More of them than the hub has descriptors: they get a share, and only for a second."""
    stranger = Machine(lab, "stranger", address="192.0.2.66")
    mute = stranger.start("mute", *BARE_PYTHON, "-c", MUTE, HUB_ADDRESS, DESCRIPTORS + 100)
    wait_for("connections of the stranger", lambda: "connected" in mute.log())
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    wait_for("the node has the service", lambda: agent.state()["services"] == 1)
    assert hub.ask("/healthz")[0] == 200
    p = agent.node.run(lab.program("edgewayctl"), "--socket", agent.socket, "endpoints", "default/web")
    assert "80/http  none" in p.stdout
    assert len(os.listdir(f"/proc/{hub.process.pid}/fd")) < DESCRIPTORS // 2
    assert "Too many open files" not in hub.process.log()


@pytest.mark.parametrize("options", [("--node", "a" * 300), ("--node", ""), ("--node", "Edge_1"), ("--node", "../x"),
                                     ("--ttl", "-18446744073709551615"), ("--ttl", "1x"), ("--ttl", "9" * 40)])
def test_token_for_nonsense(lab, hub, options):
    """Refused: never a token for any node, or for a day, instead."""
    before = hub.ask("/tokens")[1]
    p = hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "token", "create", *options, check=False)
    assert p.returncode in (1, 2) and p.stdout == "" and options[0].lstrip("-") in p.stderr
    assert hub.ask("/tokens")[1] == before


def test_revoking_what_is_not_there(lab, hub):
    p = hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "token", "revoke", "0" * 8, check=False)
    assert p.returncode == 1 and p.stderr == 'edgewayctl: there is no token with the id "00000000"\n'
