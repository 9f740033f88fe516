"""A hub and two nodes with tunnels, and the rule that every test ends where it began: the same descriptors, no stream, nothing held.

    @pytest.fixture(scope="module")
    def site(lab):
        made = tunnelkit.Site(lab)
        yield made
        made.logs()

    as_before = tunnelkit.as_before
"""
import collections
import hashlib
import json
import os
import signal
import socket
import threading
import time

import pytest

import lab as labs
from dnskit import socket_in
from lab import PATIENCE_S, BARE_PYTHON, Agent, Hub, Node, Timeout, wait_for

INGRESS = "192.0.2.1", 10080
INGRESS_OPTIONS = "--ingress.http", "192.0.2.1:10080", "--access", "[{from: 192.0.2.1, to: ['*']}]"
ALLOW = "node,pods,services,agent,node:7000-7999"


def connect(machine, target):
    """A CONNECT at the hub's ingress that is open: its socket."""
    s = socket_in(machine, socket.SOCK_STREAM, *INGRESS)
    s.settimeout(120)
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        more = s.recv(1)
        assert more, head
        head += more
    assert head.startswith(b"HTTP/1.1 200 "), head
    return s


def counted(hub):
    """Its metrics with figures of tunnels that its workers have counted since this call: they do so once a second."""
    since = time.monotonic()
    return wait_for("a count", lambda: (waited := time.monotonic() - since) and
                    (told := hub.metrics())["edgeway_tunnel_figures_age_seconds"] < waited and told)


class Transfer:
    """One that is under way: it began, and goes on when `gate` is opened. `result` is whole, or how it ended."""
    BYTES = 24 << 20  # more than all buffers on the way hold

    def __init__(self, machine, target, up):
        self.up, self.gate, self.result = up, threading.Event(), None
        self.socket = connect(machine, target)
        self.socket.sendall(b"up\n" if up else b"down %d\n" % self.BYTES)
        self.began = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            with self.socket:
                self.result = self.send() if self.up else self.receive()
        except OSError as e:
            self.result = f"broken: {e}"
        self.began.set()

    def wait_gate(self):
        self.began.set()
        self.gate.wait()

    def receive(self):
        digest, rest, n = hashlib.sha256(), b"", 0
        while data := self.socket.recv(1 << 18):
            if n == 0:
                self.wait_gate()
            n += len(data)
            rest += data
            digest.update(rest[:-32])
            rest = rest[-32:]
        return "whole" if n == self.BYTES + 32 and digest.digest() == rest else f"ended after {n}"

    def send(self):
        digest, base = hashlib.sha256(), os.urandom(1 << 16)
        for at in range(0, self.BYTES, len(base)):
            piece = at.to_bytes(8, "big") + base[8:]
            digest.update(piece)
            self.socket.sendall(piece)
            if at == 0:
                self.wait_gate()
        self.socket.shutdown(socket.SHUT_WR)
        answer = b""
        while data := self.socket.recv(100):
            answer += data
        return "whole" if answer == digest.digest() else f"answered {len(answer)} bytes"


class Transfers(list):
    """Half of them down, half up."""

    def __init__(self, machine, target, n=10):
        super().__init__(Transfer(machine, target, up=i % 2 == 1) for i in range(n))
        for t in self:
            assert t.began.wait(PATIENCE_S), "a transfer does not begin"
        assert all(t.result is None for t in self)

    def go_on(self):
        for t in self:
            t.gate.set()

    def results(self, seconds=120):
        self.go_on()
        for t in self:
            t.thread.join(seconds)
        return collections.Counter(t.result for t in self)


def tunnels(hub):
    return {t["node"]: t for t in json.loads(hub.ask("/tunnels")[1])["tunnels"] if t["state"] == "open"}


def descriptors(daemon):
    """How many of each kind; of sockets those of TCP, since who asks for names opens and closes others all the time."""
    kinds = collections.Counter()
    for fd in os.listdir(f"/proc/{daemon.process.pid}/fd"):
        try:
            kinds[os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}").split(":")[0]] += 1
        except FileNotFoundError:
            pass
    machine = getattr(daemon, "machine", None) or daemon.node
    shown = machine.run("ss", "-tanpH").stdout.splitlines()
    kinds["socket"] = sum(f"pid={daemon.process.pid}," in line for line in shown)
    return kinds


def memory(daemon):
    """Anonymous bytes of its own."""
    with open(f"/proc/{daemon.process.pid}/smaps_rollup") as f:
        return 1024 * sum(int(line.split()[1]) for line in f if line.startswith("Anonymous:"))


class Site:
    def __init__(self, lab, *hub_options, allow=ALLOW, agent_options=()):
        self.lab = lab
        self.hub = Hub(lab, *hub_options)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        self.agents = [Agent(n, self.hub, "--tunnel.allow", allow, *agent_options) for n in self.nodes]
        self.wait_open()

    def backend(self, node, name, *options):
        p = node.start(name, *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", f"{node.name}.{name}", *options)
        wait_for(f"{name} of {node.name}", lambda: "serving" in p.log())
        return p

    def wait_open(self, *names, seconds=PATIENCE_S):
        names = names or [n.name for n in self.nodes]
        wait_for(f"tunnels of {names}", lambda: set(names) <= set(tunnels(self.hub)), seconds)

    def wait_whole(self):
        """The metadata connections are there as well, and each is there once."""
        self.wait_open()
        wait_for("metadata", lambda: all(a.state()["meta"]["synced"] for a in self.agents))
        wait_for("of which the hub knows", lambda: all(n["connected"] for n in json.loads(self.hub.ask("/nodes")[1])["nodes"]
                                                       if n["node"] in {a.node.name for a in self.agents}))
        wait_for("no former tunnel", lambda: len(json.loads(self.hub.ask("/tunnels")[1])["tunnels"]) == len(self.nodes))

    def logs(self):
        for a in self.agents:
            print(f"--- log of {a.node.name}\n{a.process.log()[-4000:]}")
        print(f"--- log of the hub\n{self.hub.process.log()[-4000:]}")


def quiet(daemon):
    """No stream, no dial under way, no connection of a caller, and nothing held for a reader? A hub that is told to reload keeps no stream for another request."""
    gauges = ("edgeway_tunnel_streams", "edgeway_ingress_connections", "edgeway_ingress_pending", 'edgeway_tunnel_memory_bytes{what="held"}',
              'edgeway_tunnel_memory_bytes{what="granted"}')
    if daemon.metrics().get("edgeway_ingress_idle_streams"):
        daemon.process.popen.send_signal(signal.SIGHUP)
        wait_for("what is kept", lambda: not daemon.metrics()["edgeway_ingress_idle_streams"])
    at_node = daemon.state().get("tunnel", {})
    return not any(at_node.get(what) for what in ("dialling", "joined")) and \
        {name: value for name, value in daemon.metrics().items() if name in gauges and value != 0} == {}


@pytest.fixture(autouse=True)
def as_before(site):
    """Descriptors and gauges are afterwards what they were."""
    daemons = [site.hub, *site.agents]
    site.wait_whole()
    for d in daemons:
        wait_for("quiet", lambda d=d: quiet(d))
    before = [(d.process.pid, descriptors(d)) for d in daemons]
    yield
    site.wait_whole()
    for d in daemons:
        wait_for("no stream is left", lambda d=d: quiet(d))
    for d, (pid, n) in zip(daemons, before):
        if d.process.pid == pid:
            more = {}
            try:
                wait_for("descriptors as before", lambda d=d, n=n: not (more.update(now=descriptors(d) - n) or more["now"]))
            except Timeout:
                sockets = d.node.run("ss", "-anpH").stdout if d in site.agents else d.machine.run("ss", "-anpH").stdout
                pytest.fail(f"{d.socket}: more descriptors than before: {more}\n"
                            + "\n".join(line for line in sockets.splitlines() if f"pid={pid}," in line))
