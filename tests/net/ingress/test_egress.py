"""kube-apiserver's way to the nodes, HTTPConnect, over a Unix socket and over TCP with mutual TLS, asked just as it asks.
Targets in the cloud, which the hub dials itself, and a node behind its tunnel.
"""
import os
import socket
import ssl
import threading

import pytest

import lab as labs
from ingress_town import ACCESS, HUB, SERVER, Refused, TlsOver, Town, client_context, http_connect, join_edge, node, socket_to
from lab import PATIENCE_S, Lab
from pki import Authority
from splice import plain

PORT = 8131
ECHO, FAR_ECHO, WAYS = f"{SERVER}:9090", "edge-9:9090", ("unix", "tls")


class Egress(Town):
    """Two hubs would be needed for two egress listeners: one has the Unix socket, the other TLS."""

    def __init__(self, lab, way):
        folder = os.path.join(lab.dir, "egress")
        os.makedirs(folder)
        self.way, self.path = way, os.path.join(folder, "egress.sock")
        self.ca, self.others = Authority(folder), Authority(folder, "strangers")
        cert, key = self.ca.issue("hub", f"subjectAltName=IP:{HUB},DNS:egress.test")
        self.pair = self.ca.issue("kube-apiserver", "extendedKeyUsage=clientAuth")
        listen = f"listen: 'unix:{self.path}'" if way == "unix" else f"listen: '{HUB}:{PORT}', cert: {cert}, key: {key}, clientCA: {self.ca.cert}"
        super().__init__(lab, "--ingress.egress", f"{{{listen}}}", access=(*ACCESS, "{from: local, to: ['*']}", "{from: 'cert:kube-apiserver', to: ['*']}"))
        self.hub.write("twins.yaml", node("edge-5", "192.168.7.7"), node("edge-6", "192.168.7.7"))
        self.context = client_context(self.ca.cert, self.pair)
        self.kubelets = Authority(folder, "kubelets")
        self.agent = join_edge(self, "edge-9", "192.0.2.19", self.kubelets, "--tunnel.allow", "node,node:9090,node:4444")
        echo = self.agent.node.start("echo", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "edge-9", "--tcp", "9090")
        labs.wait_for("echo", lambda: "serving" in echo.log())
        self.inner = client_context(self.kubelets.cert, self.kubelets.issue("kubelet-client", "extendedKeyUsage=clientAuth"))

    def socket(self):
        """TLS as it is opened to an IP: no SNI."""
        if self.way == "unix":
            return socket_to(self, self.path)
        return self.context.wrap_socket(socket_to(self, (HUB, PORT), self.stranger), server_hostname=HUB)

    def dial(self, target):
        return http_connect(self.socket(), target)


@pytest.fixture(scope="module", params=WAYS)
def town(request):
    with Lab() as lab:
        yield Egress(lab, request.param)


@pytest.fixture(autouse=True)
def nothing_is_left(town):
    yield from town.as_before()


def read_until(s, end):
    got = b""
    while not got.endswith(end):
        more = s.recv(65536)
        if not more:
            break
        got += more
    return got


@pytest.mark.parametrize("target,name", [(ECHO, b"server\n"), (FAR_ECHO, b"edge-9\n")], ids=["dialled", "tunnel"])
def test_a_server_that_speaks_first_200_of_200(town, target, name):
    wrong = []

    def dial():
        try:
            with town.dial(target) as s:
                got = read_until(s, b"\n")
                if got != name:
                    wrong.append(got)
        except Exception as e:  # noqa: told below
            wrong.append(e)

    for _ in range(10):
        threads = [threading.Thread(target=dial) for _ in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(PATIENCE_S)
            assert not t.is_alive()
    assert wrong == []


def test_bytes_behind_the_connect_are_not_lost(town):
    with town.socket() as s:
        s.sendall(f"CONNECT {ECHO} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nearly".encode())
        assert read_until(s, b"early").endswith(b"server\nearly")


@pytest.mark.parametrize("target", [ECHO, FAR_ECHO], ids=["dialled", "tunnel"])
def test_connect_bytes_and_the_end_together(town, target):
    """All that the caller has to say, in one piece, its half-close behind it."""
    for _ in range(5):
        with socket_to(town, town.path if town.way == "unix" else (HUB, PORT), town.stranger) as below:
            s = below if town.way == "unix" else TlsOver(below, town.context, HUB)
            s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nearly".encode())
            if town.way == "unix":
                s.shutdown(socket.SHUT_WR)
            else:
                s.end()
            got = b""
            while more := s.recv(65536):
                got += more
            assert got.startswith(b"HTTP/1.1 200 ") and got.endswith(b"\nearly"), got


@pytest.mark.parametrize("target,status", [(f"{SERVER}:1", 502), ("nobody:1", 404), ("10.96.0.99:443", 502), ("[2001:db8::21]:10250", 502),
                                           ("127.0.0.2:1", 403), ("edge-9:10255", 502), ("edge-9:22", 403), ("192.168.7.7:10250", 421)])
def test_it_answers_always(town, target, status):
    with town.socket() as s:
        with pytest.raises(Refused) as refused:
            http_connect(s, target)
    assert refused.value.status == status


def test_targets_that_say_nothing_are_given_up(town):
    """Nobody answers there, not even with a reset: kube-apiserver itself would wait for ever."""
    statuses = []

    def dial(target):
        with town.socket() as s, pytest.raises(Refused) as refused:
            http_connect(s, target)
        statuses.append(refused.value.status)
    for machine in (town.server, town.agent.node):
        machine.run("nft", "-f", "-", input="table ip t { chain c { type filter hook input priority 0; tcp dport 4444 drop; }; }\n")
    threads = [threading.Thread(target=dial, args=(target,)) for target in (f"{SERVER}:4444", "edge-9:4444")]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE_S)
    assert statuses == [504, 504]


def test_a_node_without_its_tunnel(town):
    town.agent.stop()
    with town.socket() as s, pytest.raises(Refused) as refused:
        http_connect(s, "edge-9:10250")
    assert refused.value.status == 503
    town.agent.start()
    labs.wait_for("tunnel", lambda: town.agent.state()["tunnel"]["state"] == "open")


def test_the_connect_in_pieces(town):
    with town.socket() as s:
        for byte in f"CONNECT {ECHO} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode():
            s.sendall(bytes([byte]))
        assert read_until(s, b"server\n").startswith(b"HTTP/1.1 200 ")


def test_it_serves_nothing_else(town):
    with town.socket() as s:
        s.sendall(b"GET http://web.default/ HTTP/1.1\r\nHost: x\r\n\r\n")
        assert s.recv(65536).startswith(b"HTTP/1.1 405 ")


def test_webhooks_go_to_a_cluster_ip(town):
    """CONNECT to the ClusterIP of a service in the cloud, here one of plain HTTP."""
    with town.dial("10.96.0.7:80") as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
        assert read_until(s, b"server\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("size", [1, 16384, 16385, 3000000])
def test_bytes_both_ways(town, size):
    data = os.urandom(size)
    with plain(town.dial(ECHO)) as s:
        assert read_until(s, b"\n") == b"server\n"
        writer = threading.Thread(target=s.sendall, args=(data,))
        writer.start()
        got = b""
        while len(got) < size:
            got += s.recv(65536)
        writer.join(PATIENCE_S)
    assert got == data


def test_a_kubelet_behind_its_tunnel(town):
    """logs and exec: TLS of kube-apiserver's own inside, many requests on the one connection."""
    with town.dial("edge-9:10250") as s:
        tls = TlsOver(s, town.inner, "edge-9")
        for path, size in (("/", 40), ("/bytes/100000", 100000), ("/", 40)):
            tls.sendall(f"GET {path} HTTP/1.1\r\nHost: edge-9\r\n\r\n".encode())
            head = b""
            while b"\r\n\r\n" not in head:
                head += tls.recv(65536)
            head, _, body = head.partition(b"\r\n\r\n")
            length = int(head.lower().rpartition(b"content-length: ")[2].split()[0])
            while len(body) < length:
                body += tls.recv(65536)
            assert body.startswith(b"x" * size if size > 40 else b"edge-9 peer=kubelet-client")


@pytest.mark.parametrize("target", [ECHO, FAR_ECHO], ids=["dialled", "tunnel"])
def test_half_close(town, target):
    """The caller has said all, and what comes back is whole nevertheless."""
    with socket_to(town, town.path if town.way == "unix" else (HUB, PORT), town.stranger) as below:
        s = below if town.way == "unix" else TlsOver(below, town.context, HUB)
        http_connect(s, target).sendall(b"x" * 100000)
        if town.way == "unix":
            s.shutdown(socket.SHUT_WR)
        else:
            s.end()
        got = b""
        while more := s.recv(65536):
            got += more
    assert got.partition(b"\n")[2] == b"x" * 100000


def test_callers_that_go_away_leave_nothing(town):
    for _ in range(200):
        s = town.socket()
        s.sendall(b"CONNECT 192.0.2.98:9090 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")  # nobody is there
        s.close()


def test_a_caller_killed_within_a_stream(town):
    """A reset on the one side is a reset on the other: the target learns of it, and nothing stays."""
    for _ in range(20):
        s = town.dial(ECHO)
        s.sendall(b"y" * 50000)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        socket.socket.close(s)


def test_a_stalled_reader_holds_up_nobody(town):
    with town.dial(ECHO) as stalled, town.dial(ECHO) as other:
        stalled.settimeout(1)
        try:
            while True:
                stalled.sendall(b"z" * 65536)  # the echo comes back and is not read, so that in the end nothing more is taken
        except (TimeoutError, ssl.SSLError, OSError):
            pass
        other.sendall(b"hello")
        assert read_until(other, b"hello") == b"server\nhello"


# --- TLS alone ------------------------------------------------------------------------------------


over_tls = pytest.mark.parametrize("town", ["tls"], indirect=True)


def attempt(town, context, name=HUB):
    """What comes of a CONNECT; a refused certificate is told at the first read (TLS 1.3)."""
    with context.wrap_socket(socket_to(town, (HUB, PORT), town.stranger), server_hostname=name) as s:
        return read_until(http_connect(s, ECHO), b"\n")


@over_tls
def test_the_name_of_the_server(town):
    assert attempt(town, town.context, "egress.test") == b"server\n"


@over_tls
@pytest.mark.parametrize("who", ["nobody", "stranger", "server"])
def test_a_wrong_certificate_is_refused_and_said(town, who):
    pairs = {"nobody": None, "stranger": town.others.issue("kube-apiserver", "extendedKeyUsage=clientAuth"),
             "server": town.ca.issue("of-a-server", "extendedKeyUsage=serverAuth")}
    at, failed = len(town.hub.process.log()), town.hub.metrics()["edgeway_ingress_handshakes_failed_total"]
    with pytest.raises((ssl.SSLError, ConnectionError, Refused)):
        attempt(town, client_context(town.ca.cert, pairs[who]))
    labs.wait_for("line", lambda: "a caller's TLS handshake failed" in town.log_since(at))
    assert f"caller={'192.0.2.22'}" in town.log_since(at) and "ingress.egress" in town.log_since(at)
    assert town.hub.metrics()["edgeway_ingress_handshakes_failed_total"] == failed + 1


@over_tls
def test_a_certificate_without_a_rule(town):
    pair = town.ca.issue("somebody", "extendedKeyUsage=clientAuth")
    with pytest.raises(Refused) as refused:
        attempt(town, client_context(town.ca.cert, pair))
    assert refused.value.status == 403
    assert town.hub.process.logged("caller=cert:somebody")


@over_tls
def test_plain_http_at_the_tls_port(town):
    at = len(town.hub.process.log())
    with socket_to(town, (HUB, PORT), town.stranger) as s:
        s.sendall(b"CONNECT x:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        try:
            assert not s.recv(4096).startswith(b"HTTP/1.1 200")
        except ConnectionError:
            pass
    labs.wait_for("line", lambda: "a caller's TLS handshake failed" in town.log_since(at))


@over_tls
def test_the_audit_names_the_certificate(town):
    at = len(town.hub.process.log())
    with town.dial(ECHO) as s:
        read_until(s, b"\n")
    labs.wait_for("line", lambda: "caller=cert:kube-apiserver" in town.log_since(at))
    line = next(x for x in town.log_since(at).splitlines() if "caller=cert:kube-apiserver" in x)
    assert "door=ingress.egress" in line and "status=200" in line and "received=7 " in line
