"""The hub's workers do TLS handshakes, in turn, and all TLS of the ingress; what comes or ends there disturbs no tunnel that stands."""
import contextlib
import ctypes
import glob
import os
import signal
import socket
import ssl
import time

import pytest

import tunnelkit
from dnskit import socket_in
from lab import HUB_ADDRESS, HUB_PORT, wait_for
from pki import Authority
from tunnelkit import Transfers, tunnels

as_before = tunnelkit.as_before
TARGET = "edge-1:7500"
DOOR = 7444
WORKERS = 3


class Site(tunnelkit.Site):
    def __init__(self, lab):
        folder = os.path.join(lab.dir, "door")
        os.makedirs(folder)
        cert, key = Authority(folder).issue("hub", "subjectAltName=DNS:edge-1")
        self.door = "--ingress.tls", f"[{{listen: '{HUB_ADDRESS}:{DOOR}', target: 7001, cert: {cert}, key: {key}}}]"
        super().__init__(lab, "--workers", str(WORKERS), "--drainTimeout", "60s", *tunnelkit.INGRESS_OPTIONS, *self.door)
        self.server = self.backend(self.nodes[0], "server", "--stream", "7500", "--http", "7001")

    def handshakes(self, what="_total"):
        """By worker."""
        name = f"edgeway_hub_worker_handshakes{what}{{"
        return [int(n) for key, n in sorted(self.hub.metrics().items()) if key.startswith(name)]

    def threads(self):
        """{name of a worker's thread: its nice value}"""
        found = {}
        for path in glob.glob(f"/proc/{self.hub.process.pid}/task/*/stat"):
            with open(path) as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
            if name.startswith(("tls-", "tunnels-")):
                found[name] = int(rest.split()[16])
        return found

    def get(self):
        return self.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080")

    def doctor(self):
        return self.hub.machine.run(self.lab.program("edgewayctl"), "--socket", self.hub.socket, "doctor", check=False).stdout


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


def hello(protocol="edgeway-tunnel-reverse/1"):
    """A whole ClientHello, which asks for a tunnel or another protocol; None: for none."""
    context, sent = ssl.create_default_context(), ssl.MemoryBIO()
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="edge-1").do_handshake()
    return sent.read()


def test_shown(site):
    """Threads, and what they did: each gets the next handshake."""
    assert site.threads() == {f"{kind}-{i + 1}": nice for kind, nice in (("tls", 10), ("tunnels", 0)) for i in range(WORKERS)}
    done = site.handshakes()
    assert len(done) == WORKERS and sum(done) >= len(site.nodes)
    assert max(done) - min(done) <= 1
    assert len([key for key in site.hub.metrics() if key.startswith("edgeway_loop_lag_seconds")]) == 1 + 2 * WORKERS


@pytest.mark.parametrize("protocol,port", [("edgeway-tunnel/1", HUB_PORT), ("edgeway-tunnel-standby/1", HUB_PORT), ("edgeway-carrier/1", HUB_PORT),
                                           ("edgeway-rendezvous/1", HUB_PORT), (None, DOOR)])
def test_each_kind(site, protocol, port):
    """A stranger's handshake is a worker's, whatever he asks for, until he goes away."""
    failed = sum(site.handshakes("_failed_total"))
    with socket_in(site.nodes[1], socket.SOCK_STREAM, HUB_ADDRESS, port) as s:
        s.sendall(hello(protocol))
        assert s.recv(1) == b"\x16"
        assert sum(site.handshakes("")) == 1
    wait_for("it is over", lambda: sum(site.handshakes("")) == 0)
    assert sum(site.handshakes("_failed_total")) == failed + 1


def test_strangers(site):
    """Many whose handshake goes no further, and some that end in the middle: transfers go on, and a node gets a tunnel beside them."""
    transfers = Transfers(site.hub.machine, TARGET)
    steps = site.hub.metrics()["edgeway_hub_handshake_steps_total"]
    failed = site.hub.metrics()['edgeway_tunnel_connections_total{result="failed"}']
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(socket_in(site.nodes[1], socket.SOCK_STREAM, HUB_ADDRESS, HUB_PORT)) for _ in range(60)]
        said = hello()  # the hub waits for it as long as a slow machine takes to make sixty
        for s in crowd:
            s.sendall(said)
        wait_for("each had a step", lambda: site.hub.metrics()["edgeway_hub_handshake_steps_total"] >= steps + len(crowd))
        assert sum(site.handshakes("")) == len(crowd)
        site.agents[1].process.kill()
        site.agents[1].start()
        site.wait_open("edge-2")
    wait_for("all have failed", lambda: site.hub.metrics()['edgeway_tunnel_connections_total{result="failed"}'] >= failed + len(crowd))
    assert site.handshakes("") == [0] * WORKERS and sum(site.handshakes("_failed_total")) >= len(crowd)
    assert transfers.results() == {"whole": 10}


def test_hub_stops_amid_handshakes(site):
    """It finishes its transfers, and waits for no stranger."""
    transfers = Transfers(site.hub.machine, TARGET)
    with contextlib.ExitStack() as stack:
        said = hello()
        for _ in range(20):
            stack.enter_context(socket_in(site.nodes[1], socket.SOCK_STREAM, HUB_ADDRESS, HUB_PORT)).sendall(said)
        site.hub.process.popen.send_signal(signal.SIGTERM)
        wait_for("nothing new", lambda: site.get()[0] == 0)
        assert transfers.results() == {"whole": 10}
        assert site.hub.process.wait() == 0
    site.hub.start()
    site.wait_open()


def resumed(hub):
    """Connections that resumed a TLS session: for metadata, and tunnels."""
    return tuple(hub.metrics()[f"edgeway_{name}_resumed_total"] for name in ("hub_nodes", "tunnel"))


def test_hub_killed(site):
    """The nodes' TLS sessions outlive it: what they return with costs it no signature."""
    site.hub.process.kill()
    site.hub.start()
    site.wait_whole()
    assert set(tunnels(site.hub)) == {"edge-1", "edge-2"} and site.get()[0] == 200
    assert resumed(site.hub) == (2, 2)


@contextlib.contextmanager
def frozen(hub):
    hub.process.popen.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        hub.process.popen.send_signal(signal.SIGCONT)


def crowd(stack, node, n):
    """As many whole ClientHellos, all of one address."""
    hellos = hello()
    for _ in range(n):
        stack.enter_context(socket_in(node, socket.SOCK_STREAM, HUB_ADDRESS, HUB_PORT)).sendall(hellos)


def ports(agent):
    """Of its connections to the hub."""
    shown = agent.node.run("ss", "-tnpH", "state", "established", "dst", f"{HUB_ADDRESS}:{HUB_PORT}").stdout.splitlines()
    return [line.split()[2].rpartition(":")[2] for line in shown if f"pid={agent.process.pid}," in line]


def test_hub_asks_to_come_later(site):
    """Who comes behind more handshakes of its address than the hub can finish is sent away, before its own: agents come again as they are told, with
    both connections. Other addresses are let in meanwhile."""
    def told(agent):
        return tuple(agent.metrics()[f"edgeway_{part}_told_to_wait_total"] for part in ("meta", "tunnel"))

    def metric(name):
        return site.hub.metrics()[f"edgeway_hub_{name}"]

    def storm():
        """Whoever comes while the hub, for all that it can see, has had some hundred ms for each step, and hundreds of one address wait. Were the agents told?"""
        with contextlib.ExitStack() as stack:
            with frozen(site.hub):
                crowd(stack, site.nodes[1], 400)
            for _ in range(6):
                time.sleep(0.003)
                with frozen(site.hub):
                    time.sleep(0.7)
            with frozen(site.hub):
                for agent in site.agents:
                    former = ports(agent)
                    for port in former:
                        agent.node.run("ss", "-K", "sport", "=", f":{port}")
                    wait_for("it dials anew", lambda agent=agent, former=former: len(now := ports(agent)) == 2 and not set(now) & set(former))
            wait_for("edge-1", lambda: "edge-1" in tunnels(site.hub) and site.agents[0].state()["meta"]["synced"])
        site.wait_whole()
        return all(n > 0 for n in told(site.agents[1]))

    wait_for("edge-2 is told", storm, 300)
    assert told(site.agents[0]) == (0, 0)
    assert metric("handshakes_turned_away_total") >= 2
    assert site.hub.process.logged("more connections come than handshakes can be finished")
    assert "were asked to come later, since more came than TLS handshakes could be finished" in site.doctor()
    assert site.agents[1].process.logged("the hub is busy; it asks to come again in ")
    site.wait_whole()


@contextlib.contextmanager
def stopped_thread(tid):
    """Stops one thread of a process, as what hangs does; a SIGSTOP would stop all of them."""
    seize, interrupt, detach, all_threads = 0x4206, 0x4207, 17, 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(seize, tid, None, None) == 0, os.strerror(ctypes.get_errno())
    assert libc.ptrace(interrupt, tid, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(tid, all_threads)
    try:
        yield
    finally:
        libc.ptrace(detach, tid, None, None)


def test_figures_of_a_worker_that_hangs(site):
    """They are those of before, and say so, as do log and doctor; who asks for metrics or the state has an answer."""
    age, stands = "edgeway_tunnel_figures_age_seconds", "a thread that carries tunnels stands still"
    tids = {open(f"{path}/comm").read().strip(): int(path.rpartition("/")[2]) for path in glob.glob(f"/proc/{site.hub.process.pid}/task/*")}
    before = tunnels(site.hub)
    with contextlib.ExitStack() as stopped:
        for i in range(WORKERS):
            stopped.enter_context(stopped_thread(tids[f"tunnels-{i + 1}"]))
        wait_for("old figures", lambda: site.hub.metrics()[age] > 2)
        assert set(tunnels(site.hub)) == set(before)
        assert site.hub.state()["hub"]
        wait_for("a line in the log", lambda: site.hub.process.logged(stands))
        assert stands in site.doctor()
    wait_for("new figures", lambda: site.hub.metrics()[age] < 2)
    assert stands not in site.doctor()
    site.wait_whole()
    assert site.get()[0] == 200


def test_one(site):
    """workers: 1 has no thread, and says nothing of any; strangers and nodes are served as well."""
    former, site.hub.options = site.hub.options, ("--workers", "1", *tunnelkit.INGRESS_OPTIONS, *site.door)
    try:
        for options in (site.hub.options, former):
            site.hub.process.kill()
            site.hub.options = options
            site.hub.start()
            site.wait_open()
            assert site.get()[0] == 200
            assert bool(site.threads()) == bool(site.handshakes()) == (options == former)
    finally:
        site.hub.options = former
