"""What the tests of the hub's ways in share: a hub, targets in the cloud which it dials itself, callers in namespaces, and a
client that asks as kube-apiserver does.
"""
import hashlib
import os
import socket
import ssl

import lab as labs
import tunnelkit
from dnskit import socket_in
from egress_client import Refused, http_connect  # noqa: F401 for those who import it from here
from lab import Agent, Hub, Machine, Node, endpoint_slice, service

HUB, SERVER, FRIEND, STRANGER = "192.0.2.1", "192.0.2.31", "192.0.2.21", "192.0.2.22"
SECRET = "open-sesame"
ACCESS = ("{from: 192.0.2.1, to: ['*']}", f"{{from: {FRIEND}, to: ['default/*', 'cloud/192.0.2.0/24:8080']}}",
          f"{{from: 'token:ann', tokenSHA256: {hashlib.sha256(SECRET.encode()).hexdigest()}, to: ['*']}}")
WEB = "http://web.default"


class Town:
    agent = None  # of a node behind its tunnel, where there is one

    def __init__(self, lab, *options, access=ACCESS, before=()):
        self.lab = lab
        rules = ("--access", f"[{', '.join(access)}]") if access is not None else ()
        self.hub = Hub(lab, "--ingress.http", HUB + ":10080", *rules, *options, before=before)
        self.server = Machine(lab, "server", address=SERVER)
        self.backend = self.server.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "server",
                                         "--http", "8080", "--tcp", "9090")
        labs.wait_for("backend", lambda: "serving" in self.backend.log())
        self.friend, self.stranger = Machine(lab, "friend", address=FRIEND), Machine(lab, "stranger", address=STRANGER)
        self.hub.write("web.yaml", service("web", ("http", 80, 8080), clusterIP="10.96.0.7"),
                       endpoint_slice("web-1", "web", 8080, SERVER, HUB, port_name="http"),
                       service("echo", ("echo", 7000, 9090)),
                       endpoint_slice("echo-1", "echo", 9090, SERVER, port_name="echo"))
        labs.wait_for("services", lambda: len(self.hub.state()["hub"]["services"]) == 2)

    def get(self, url, *options, machine=None, proxy=True, **more):
        way = ["-x", f"http://{HUB}:10080"] if proxy else []
        return (machine or self.hub.machine).get(url, *way, *options, **more)

    def connections(self):
        return self.hub.metrics()["edgeway_ingress_connections"]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.hub.process.pid}/fd"))

    def log_since(self, at):
        return self.hub.process.log()[at:]

    def as_before(self):
        """A generator around a test: afterwards nothing is left of what its callers have opened, neither here nor on a node."""
        assert self.get(WEB + "/") == (200, "server\n"), self.hub.process.log()[-3000:]  # the pair of sessions is there
        daemons = [self.hub, *([self.agent] if self.agent else [])]
        for d in daemons:
            labs.wait_for("quiet", lambda d=d: tunnelkit.quiet(d))
        before = [(d.process.pid, tunnelkit.descriptors(d)) for d in daemons]
        yield
        for d, (pid, n) in zip(daemons, before):
            labs.wait_for("nothing is left", lambda d=d: tunnelkit.quiet(d))
            if d.process.pid == pid:
                labs.wait_for("descriptors", lambda d=d, n=n: not tunnelkit.descriptors(d) - n)


def socket_to(town, where, machine=None):
    """A socket to (address, port) from the hub's machine or another one, or to a path."""
    if isinstance(where, str):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(labs.PATIENCE_S)
        s.connect(where)
        return s
    s = socket_in(machine or town.hub.machine, socket.SOCK_STREAM, *where)
    s.settimeout(labs.PATIENCE_S)
    return s


def client_context(ca, pair=None):
    """TLS as kube-apiserver opens it to a proxy: no ALPN; SNI only where a name is given."""
    context = ssl.create_default_context(cafile=ca)
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


def node(name, address):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]}}


def start_kubelet(machine, name, ca, *options, names=()):
    """tests/net/kubelet.py with a certificate of `ca`, which callers must have one of, too; it is for the machine's address as well."""
    alternatives = ",".join((*(f"DNS:{n}" for n in (name, *names)), f"IP:{machine.address}"))
    cert, key = ca.issue(name, "subjectAltName=" + alternatives)
    p = machine.start("kubelet", *labs.BARE_PYTHON, os.path.join(labs.HERE, "kubelet.py"), "--name", name, "--cert", cert,
                      "--key", key, "--ca", ca.cert, *options)
    labs.wait_for("kubelet", lambda: "serving" in p.log())
    return p


def join_edge(town, name, address, kubelets, *options):
    """A node with a real agent and a kubelet, which is reached through its tunnel alone."""
    machine = Node(town.lab, name, address)
    start_kubelet(machine, name, kubelets)
    agent = Agent(machine, town.hub, *options)
    labs.wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    return agent


class TlsOver:
    """TLS on whatever has sendall and recv, another TLS included; end() is a half-close, which an SSLSocket does not know."""

    def __init__(self, below, context, name):
        self.below, self.incoming, self.outgoing = below, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        self.until_done(self.tls.do_handshake)

    def flush(self):
        if self.outgoing.pending:
            self.below.sendall(self.outgoing.read())

    def until_done(self, step, *args):
        while True:
            try:
                done = step(*args)
                self.flush()
                return done
            except ssl.SSLWantReadError:
                self.flush()
                more = self.below.recv(65536)
                self.incoming.write(more) if more else self.incoming.write_eof()

    def sendall(self, data):
        self.until_done(self.tls.write, data)

    def recv(self, size):
        try:
            return self.until_done(self.tls.read, size)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def end(self):
        come = self.incoming.read()  # unwrap would take what has come for an error
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.incoming.write(come)
        self.flush()
