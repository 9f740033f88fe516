"""What keeps a node from its hub: told apart, and named with cause and remedy in log, status, doctor and metric."""
import os
import shutil
import time

import pytest

import lab as labs
import tunnelkit
from lab import BARE_PYTHON, HUB_ADDRESS, HUB_PORT, PYTHON, Agent, faketime, wait_for
from troubles import Town, gone, kinds, told, well

pytestmark = pytest.mark.plain_build  # what is told; what does it has tests of its own


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(made.agent.process.log()[-3000:])


def test_hub_port_refused(town):
    town.hub.process.kill()
    told(town.agent, "hub-refused", "fault", f"{HUB_ADDRESS}:10000", "Connection refused")
    town.hub.start()
    gone(town.agent, "hub-refused")


def test_hub_port_dropped(town):
    town.hub.machine.run("nft", "-f", "-", input="table ip wall { chain in { type filter hook input priority 0; tcp dport 10000 drop; }\n}\n")
    told(town.agent, "hub-silent", "fault", f"{HUB_ADDRESS}:10000", "no answer to the connection's first packet")
    town.hub.machine.run("nft", "delete", "table", "ip", "wall")
    gone(town.agent, "hub-silent")


def test_hub_unreachable(town):
    """As a router says it of a machine that is down."""
    town.hub.machine.run("nft", "-f", "-", input="table ip wall { chain in { type filter hook input priority 0; "
                         "tcp dport 10000 reject with icmp host-unreachable; }\n}\n")
    town.hub.machine.run("ss", "-K", "sport", "=", ":10000", check=False)
    told(town.agent, "hub-unreachable", "fault", f"{HUB_ADDRESS}:10000", "No route to host")
    town.hub.machine.run("nft", "delete", "table", "ip", "wall")
    gone(town.agent, "hub-unreachable")


@pytest.mark.parametrize("kind, words", (("blackhole", "Invalid argument"), ("prohibit", "Permission denied")))
def test_a_route_that_leads_nowhere(town, kind, words):
    """A policy rule of this machine, as a VPN leaves it behind."""
    town.node.run("ip", "rule", "add", "to", HUB_ADDRESS, kind, "pref", "7")
    town.hub.machine.run("ss", "-K", "dst", "192.0.2.11")
    told(town.agent, "hub-unreachable", "fault", f"{HUB_ADDRESS}:10000", words)
    town.node.run("ip", "rule", "del", "pref", "7")
    gone(town.agent, "hub-unreachable")


def test_hub_down(town):
    """Nobody says so."""
    town.hub.machine.run("ip", "link", "set", "eth0", "down")
    told(town.agent, "hub-silent", "fault", f"{HUB_ADDRESS}:10000", "no answer to the connection's first packet")
    town.hub.machine.run("ip", "link", "set", "eth0", "up")
    gone(town.agent, "hub-silent")


def test_hub_frozen(town):
    """Its kernel takes connections, it does not."""
    town.hub.process.popen.send_signal(19)
    told(town.agent, "hub-frozen", "fault", "it takes the connection")
    assert town.agent.process.logged("though its machine acknowledges what is sent to it")
    town.hub.process.popen.send_signal(18)
    gone(town.agent, "hub-frozen")


def test_large_packets_get_lost(town):
    """On the way to the hub: the connection is made, this node's certificate does not get there."""
    town.hub.machine.run("nft", "-f", "-", input="table ip hole { chain in { type filter hook input priority 0; ip saddr 192.0.2.11 meta length > 500 drop; }\n}\n")
    town.hub.machine.run("ss", "-K", "dst", "192.0.2.11")
    told(town.agent, "hub-mtu", "fault", f"{HUB_ADDRESS}:10000", "larger packets do not get there")
    town.hub.machine.run("nft", "delete", "table", "ip", "hole")
    gone(town.agent, "hub-mtu")


@pytest.mark.parametrize("port, greeting", ((22, "SSH-2.0-OpenSSH_9.2\\r\\n"), (8080, "HTTP/1.1 400 Bad Request\\r\\n\\r\\n")))
def test_no_tls_there(town, port, greeting):
    """Another program's port: ssh speaks at once, a web server once it has read."""
    town.hub.machine.start(f"other-{port}", *BARE_PYTHON, "-c",
                           f"import socket\ns = socket.create_server(('{HUB_ADDRESS}', {port}))\nwhile True:\n    c = s.accept()[0]\n"
                           f"    {port} == 22 or c.recv(9999)\n    c.sendall(b'{greeting}')\n    c.close()")
    agent = town.newcomer("--hub.url", f"wss://{HUB_ADDRESS}:{port}", token=town.hub.token("--node", "edge-2"))
    told(agent, "hub-no-tls", "fault", f"what listens at {HUB_ADDRESS}:{port} does not speak TLS")
    agent.stop()
    well(town)


BUSY = """import socket, time
s = socket.create_server((%r, %d))
while True:
    c = s.accept()[0]
    print("busy", "tunnel" if b"edgeway-tunnel" in c.recv(9999) else "metadata", time.monotonic(), flush=True)
    c.sendall(bytes((21, 3, 3, 0, 2, 2, 80)))
    c.close()
""" % (HUB_ADDRESS, HUB_PORT)


@pytest.mark.parametrize("seconds, why, kinds", ((3, f"{HUB_ADDRESS} refused: HTTP status 503", ["metadata"]),
                                                 (2, f"{HUB_ADDRESS} is busy", ["metadata", "tunnel"])), ids=("503", "alert"))
def test_hub_busy(town, seconds, why, kinds):
    """It asks to come later, by Retry-After or instead of TLS: the node does, whatever comes or goes on it, and says so."""
    def times(kind):
        for do in ("add", "del"):  # as a pod does
            town.node.run("ip", "link", do, "passer", "type", "bridge")
        return [float(line.split()[2]) for line in busy.log().splitlines() if line.startswith(f"busy {kind} ")]

    data, folder = os.path.join(town.hub.machine.dir, "data"), os.path.join(town.hub.machine.dir, "busy")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "busy"), "w") as f:
        f.write(str(seconds))
    script = ("-c", BUSY) if "tunnel" in kinds else (os.path.join(labs.HERE, "lying_hub.py"), HUB_ADDRESS, HUB_PORT,
                                                     *(os.path.join(data, name) for name in ("ca.pem", "hub.pem", "hub.key")), folder)
    town.hub.process.kill()
    busy = town.hub.machine.start("busy-hub", PYTHON, *script)
    told(town.agent, "hub-busy", "fault", f"{why}; it asks to come again in ", " s or later")
    for kind in kinds:
        came = wait_for("it has come again", lambda kind=kind: len(at := times(kind)) >= 3 and at, pause=0.2)
        assert all(later - earlier >= seconds for earlier, later in zip(came, came[1:])), (kind, came)
    assert town.agent.metrics()["edgeway_meta_told_to_wait_total"] >= 2
    if "tunnel" in kinds:
        assert town.agent.metrics()["edgeway_tunnel_told_to_wait_total"] >= 2
        assert "the hub is busy; it asks to come again in " in town.agent.state()["tunnel"]["error"]
        assert town.agent.process.logged("the hub is busy; it asks to come again in ")
    busy.kill()
    town.hub.start()
    gone(town.agent, "hub-busy")


def test_a_copied_disk(town):
    """Two machines with one certificate: each connects, and takes the other's place."""
    copy = Agent(town.other, town.hub, start=False)
    plain, copy.data = copy.argv, os.path.join(town.other.dir, "copy")
    copy.argv = lambda *more: ["edge-1" if word == "edge-2" else word for word in plain(*more)]
    shutil.copytree(town.agent.data, copy.data)
    copy.start(ready=False)
    assert town.agent.process.logged("a problem has begun what=hub-twin class=fault found=")
    wait_for("the hub's metric", lambda: town.hub.metrics()["edgeway_hub_node_twins"] == 1)
    for command in ("status", "doctor"):
        said = town.hub.machine.run(town.lab.program("edgewayctl"), "--socket", town.hub.socket, command, check=False).stdout
        assert "edge-1: its sessions replaced each other " in said, said
        assert "192.0.2.11:" in said and "192.0.2.12:" in said, said
    copy.stop()
    gone(town.agent, "hub-twin")
    well(town)


@pytest.mark.parametrize("days,words", [(2, "2 d ahead of the hub's clock"), (-400, "before this node's certificate was made")])
def test_clock_of_a_node_that_joined(town, days, words):
    agent = town.newcomer(token=town.hub.token("--node", "edge-2"), before=faketime(FAKETIME_DONT_FAKE_MONOTONIC=1, FAKETIME=f"{days:+d}d"))
    told(agent, "clock", "fault", words)
    agent.stop()


def test_data_folder_removed(town):
    """The database is overwritten, then removed, then the whole folder: all is there again, and a restart without the hub serves the same."""
    agent, database = town.agent, os.path.join(town.agent.data, "edgeway.db")
    address, files = town.address("web"), set(os.listdir(agent.data)) - {"lock"}
    with open(database, "r+b") as f:  # an empty copy is brought back over the open file
        f.truncate()
    wait_for("the database", lambda: os.path.getsize(database) > 0)
    told(agent, "database-replaced", "warning", database, "removed or replaced")
    os.unlink(database)
    told(agent, "database-replaced", "warning", database, "removed or replaced")
    wait_for("the database again", lambda: os.path.exists(database))
    shutil.rmtree(agent.data)
    wait_for("files", lambda: os.path.isdir(agent.data) and files <= set(os.listdir(agent.data)))
    assert "is not in dataDir any more" not in agent.process.log()
    town.hub.process.stop()
    agent.stop()
    agent.start()
    assert town.address("web") == address
    town.hub.start()
    well(town)


def test_tunnel_silent(town):
    """The same, of the tunnel, between the first ping without an answer and its end: here for twenty seconds. (A tunnel that was used in the last
    minute is asked every heartbeat.)"""
    agent = town.newcomer("--hub.heartbeat", "20s", token=town.hub.token("--node", "edge-2"))
    wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    assert agent.state()["tunnel"]["doubt"] == ""
    town.hub.machine.run(town.hub.machine.lab.program("edgewayctl"), "--socket", town.hub.socket, "--node", "edge-2", "state")
    town.hub.process.popen.send_signal(19)
    told(agent, "tunnel-silent", "fault", "the cloud's way to this node", f"{HUB_ADDRESS}:10000", "neither a stream nor a ping")
    town.hub.process.popen.send_signal(18)
    gone(agent, "tunnel-silent")
    agent.stop()
    well(town)


def test_tunnel_down(town):
    """What is between lets the websocket go on, and no tunnel."""
    agent = town.newcomer("--hub.tunnels", "2", token=town.hub.token("--node", "edge-2"))
    wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    told(agent, "tunnel-standby", "warning", "no other hub is known")
    port = tunnelkit.tunnels(town.hub)["edge-2"]["address"].rpartition(":")[2]
    town.hub.machine.run("nft", "-f", "-", input="table ip wall { chain in { type filter hook input priority 0; ip saddr != 192.0.2.12 accept; "
                         f"tcp sport {port} reject with tcp reset; tcp dport 10000 tcp flags & (syn | ack) == syn reject with tcp reset; }}\n}}\n")
    told(agent, "tunnel-down", "fault", "the cloud does not reach this node: ")
    town.hub.machine.run("nft", "delete", "table", "ip", "wall")
    gone(agent, "tunnel-down")
    agent.stop()
    well(town)


JOINS = {
    "wrong CA": ("hub-ca", "the CA of the join token is not in its chain"),
    "expired token": ("hub-token", "the hub refused the token"),
    "another node's token": ("hub-token", "the hub refused the token"),
    "wrong clock": ("hub-clock", "it has expired (or this machine's clock is wrong); here it is "),
}


@pytest.mark.parametrize("what", JOINS)
def test_joining(town, what):
    problem, words = JOINS[what]
    token, before = town.hub.token(), ()
    if what == "wrong CA":
        token = f"{'0' * 64}.{token.partition('.')[2]}"
    elif what == "expired token":
        token = town.hub.token("--ttl", "1")
        time.sleep(1.1)
    elif what == "another node's token":
        token = town.hub.token("--node", "edge-9")
    elif what == "wrong clock":
        before = faketime(FAKETIME_DONT_FAKE_MONOTONIC=1, FAKETIME="+800d")
    agent = town.newcomer(token=token, before=before)
    told(agent, problem, "fault", words)
    agent.stop()


def test_flapping(town):
    """What is between cuts every connection, each time as soon as it is made again: no look finds it away."""
    agent = town.newcomer(token=town.hub.token("--node", "edge-2"))
    for cut in range(4):
        wait_for("both connections", lambda: (s := agent.state())["meta"]["synced"] and s["tunnel"]["state"] == "open")
        assert "hub-flapping" not in kinds(agent)
        town.hub.machine.run("ss", "-K", "dst", "192.0.2.12")
        wait_for("their end", lambda: (s := agent.state())["meta"]["ends"] > cut and s["tunnel"]["ends"] > cut)
    told(agent, "hub-flapping", "warning", "the connection ended within five minutes: metadata 4 times, tunnel 4 times; the last time: ")
    agent.stop()
    well(town)


def test_a_certificate_that_cannot_be_used(town):
    """The token of the first join is used up: both are told, and why it is asked for at all."""
    agent = town.newcomer(token=town.hub.token("--node", "edge-2"))
    wait_for("joined", lambda: agent.state()["meta"]["synced"])
    agent.stop()
    key = os.path.join(agent.data, "node.key")
    with open(key, encoding="utf-8") as f:
        whole = f.read()
    open(key, "w", encoding="utf-8").close()
    agent.start(ready=False)
    told(agent, "hub-token", "fault", "the hub refused to sign: ", key)
    agent.stop()
    with open(key, "w", encoding="utf-8") as f:
        f.write(whole)
    town.hub.machine.run(town.lab.program("edgewayctl"), "--socket", town.hub.socket, "node", "revoke", "edge-2")
    agent.start(ready=False)
    told(agent, "hub-token", "fault", "the hub refused the token", "the hub refused its certificate: revoked")
    agent.stop()
