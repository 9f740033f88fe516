"""What is bad for a tunnel: readers that stand still, daemons that are frozen, more dials than it carries, dials that nobody waits for.
The others go on, whole; afterwards everything is as it was before.
"""
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

import lab as labs
import tunnelkit
from lab import PATIENCE_S, BARE_PYTHON, service, wait_for
from tunnelkit import Transfers, connect, tunnels

as_before = tunnelkit.as_before
STREAMS, SIZE = 100, 1 << 20
MANY = os.path.join(labs.HERE, "many.py")
IDLE, IDLE_BYTES = 1000, 2048  # bytes of each at either end, which needs 1 500
CANCELLED = int(os.environ.get("EDGEWAY_CANCELLED", "10000"))
MOST = 4096  # streams of a tunnel (doc/protocol.md)
OPENS = MOST + 500  # a hub with 20 000 descriptors, as in some containers, lets in 5 000


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, *tunnelkit.INGRESS_OPTIONS, agent_options=("--hub.heartbeat", "2s"))
        self.backend(self.nodes[0], "server", "--stream", "7500", "--http", "7001")
        self.backend(self.nodes[1], "server", "--http", "7001")
        echo = self.nodes[0].start("echo", *BARE_PYTHON, MANY, "serve", 7600)
        wait_for("echo", lambda: "serving" in echo.log())

    def many(self, target, *words):
        """tests/net/many.py at the ingress."""
        return subprocess.Popen(self.hub.machine.argv(*BARE_PYTHON, MANY, *tunnelkit.INGRESS, target, *words), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def cancel(self, n):
        """Waves of dials to an address that is silent, each of them under way on the node before all of it is given up."""
        agent, wave = self.agents[0], 500
        p = self.many("edge-1:7777", str(wave), "cancel")

        def go():
            p.stdin.write("\n")
            p.stdin.flush()
            assert p.stdout.readline()
        for _ in range(n // wave):
            go()
            wait_for("dials", lambda: agent.state()["tunnel"]["dialling"] == wave, pause=0.005)
            go()
            wait_for("none left", lambda: agent.state()["tunnel"]["dialling"] == 0, pause=0.005)
        p.communicate(timeout=PATIENCE_S)
        wait_for("quiet", lambda: tunnelkit.quiet(self.hub) and tunnelkit.quiet(agent))

    def stalls(self):
        return sum(d.metrics()["edgeway_tunnel_stalls_total"] for d in (self.hub, *self.agents))


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


@pytest.mark.plain_build  # memory
def test_idle_streams_are_small(site):
    """At the hub and at the agent, also when many are opened at once where there were none: what their dials needed for a moment is given back."""
    process = site.many("edge-1:7600", 5)
    process.communicate("\n", timeout=PATIENCE_S)
    daemons = (site.hub, site.agents[0])
    before = [tunnelkit.memory(d) for d in daemons]
    process = site.many("edge-1:7600", IDLE)
    try:
        assert json.loads(process.stdout.readline())["served"] == IDLE
        each = [(tunnelkit.memory(d) - n) / IDLE for d, n in zip(daemons, before)]
        assert max(each) < IDLE_BYTES, each
    finally:
        process.communicate("\n", timeout=PATIENCE_S)


def down(s, results):
    s.sendall(b"down %d\n" % SIZE)
    got = b""
    while data := s.recv(1 << 18):
        got += data
    results.append(len(got) == SIZE + 32 and hashlib.sha256(got[:SIZE]).digest() == got[SIZE:])


def up(s, results):
    data, answer = os.urandom(SIZE), b""
    s.sendall(b"up\n" + data)
    s.shutdown(socket.SHUT_WR)
    while part := s.recv(100):
        answer += part
    results.append(hashlib.sha256(data).digest() == answer)


def stall(s, way):
    """Until no byte more is taken anywhere on the way."""
    s.sendall(b"down 1000000000\n" if way == "down" else b"hold\n")
    if way == "up":
        s.settimeout(0.5)
        try:
            while True:
                s.sendall(b"x" * (1 << 18))
        except TimeoutError:
            pass


@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize("n", [1, 50])
def test_stalled_readers_among_a_hundred(site, n, way):
    """Where a caller does not read, or a target on the node does not: what the others send and get is whole, all of it."""
    sockets = [connect(site.hub.machine, "edge-1:7500") for _ in range(STREAMS)]
    stalled, others, before, results = sockets[:n], sockets[n:], site.stalls(), []
    try:
        threads = [threading.Thread(target=stall, args=(s, way)) for s in stalled]
        for t in threads:
            t.start()
        for t in threads:
            t.join(PATIENCE_S)
        wait_for("they stand still", lambda: site.stalls() >= before + n)
        threads = [threading.Thread(target=down if i % 2 else up, args=(s, results)) for i, s in enumerate(others)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
        assert results == [True] * (STREAMS - n)
        for end in (site.hub, site.agents[0]):
            wait_for("the stalled are still there", lambda end=end: end.metrics()["edgeway_tunnel_streams"] >= n)
    finally:
        for s in stalled:  # what was not taken yet is not waited for
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        for s in sockets:
            s.close()


def test_what_is_small_does_not_wait_behind_bulk(site):
    """Twenty transfers fill the tunnel and stand still in part; a change of a service arrives, and so does a small answer."""
    transfers = Transfers(site.hub.machine, "edge-1:7500", 20)
    site.hub.write("new.yaml", service("new", ("http", 80, 8080)))
    wait_for("the service", lambda: site.agents[0].state()["services"] == 1)
    assert site.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080") == (200, "edge-1.server\n")
    assert all(t.result is None for t in transfers)
    assert transfers.results() == {"whole": 20}
    site.hub.delete("new.yaml")
    wait_for("gone again", lambda: site.agents[0].state()["services"] == 0)


@pytest.mark.parametrize("who", ["agent", "hub"])
def test_frozen_for_a_while(site, who):
    """SIGSTOP for less than a tunnel lives without a word: nothing is lost, and it is the same tunnel."""
    transfers, epoch = Transfers(site.hub.machine, "edge-1:7500"), tunnels(site.hub)["edge-1"]["epoch"]
    process = (site.hub if who == "hub" else site.agents[0]).process
    process.popen.send_signal(signal.SIGSTOP)
    try:
        transfers.go_on()
        site.nodes[0].run("sleep", 2)
        assert all(t.result is None for t in transfers)
    finally:
        process.popen.send_signal(signal.SIGCONT)
    assert transfers.results() == {"whole": 10}
    assert tunnels(site.hub)["edge-1"]["epoch"] == epoch


def test_frozen_hub(site):
    """Its kernel still acknowledges and answers probes, but by the next heartbeat the nodes know and try again; thawed, it serves them as before."""
    hub = site.hub
    hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        wait_for("the nodes know", lambda: all(a.state()["tunnel"]["state"] != "open" for a in site.agents))
    finally:
        hub.process.popen.send_signal(signal.SIGCONT)
    assert site.agents[0].process.logged(", though its machine acknowledges what is sent to it")
    site.wait_open()
    for name in ("edge-1", "edge-2"):
        wait_for("the way to it", lambda name=name: hub.machine.get(f"http://{name}:7001/", "-x", "http://192.0.2.1:10080") == (
            200, f"{name}.server\n"))


def test_more_opens_than_a_tunnel_carries(site):
    """As many as it carries are served, the others are told at once and why; the other node is not concerned."""
    process = site.many("edge-1:7600", OPENS)
    try:
        told = json.loads(process.stdout.readline())
        assert told["statuses"] == {"200": MOST, "503": OPENS - MOST} and told["served"] == MOST
        assert told["reasons"] == ["edge-1:7600 at node edge-1: the node has as many streams as its tunnel carries\n"]
        wait_for("all are counted", lambda: site.hub.metrics()["edgeway_tunnel_streams"] == MOST)
        assert site.hub.machine.get("http://edge-2:7001/", "-x", "http://192.0.2.1:10080") == (200, "edge-2.server\n")
    finally:
        process.communicate("\n", timeout=PATIENCE_S)


@pytest.mark.plain_build  # how many there are; test_more_opens_than_a_tunnel_carries ends them as well
def test_dials_that_nobody_waits_for(site):
    """EDGEWAY_CANCELLED says how many. Neither end keeps anything of them, and the tunnel is the one that it was."""
    epoch = tunnels(site.hub)["edge-1"]["epoch"]
    site.nodes[0].run("nft", "-f", "-", input="""table inet hole { chain out {
        type filter hook output priority 0; tcp dport 7777 drop; }
        }""")
    try:
        site.cancel(10000)  # what malloc takes for so many at a time it has taken
        cancelled, daemons = 'edgeway_tunnel_dials_total{result="cancelled"}', (site.hub, site.agents[0])
        for last in (False, False, True):  # what is kept of each would be kept again
            before, memory = site.agents[0].metrics(), [tunnelkit.memory(d) for d in daemons]
            site.cancel(CANCELLED)
            assert site.agents[0].metrics()[cancelled] - before[cancelled] == CANCELLED
            grown = [tunnelkit.memory(d) - n for d, n in zip(daemons, memory)]
            if max(grown) < 4 << 20:
                break
            assert not last or "asan" in site.lab.build, grown  # which keeps what was freed
        assert tunnels(site.hub)["edge-1"]["epoch"] == epoch
    finally:
        site.nodes[0].run("nft", "delete", "table", "inet", "hole")
