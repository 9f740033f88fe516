"""TLS ways in (ingress.tls): passed through to the node that the ClientHello names, or ended here and made anew towards a kubelet that
wants a client certificate, as SuperEdge does it. The hub dials the node by its Node object's address.
"""
import os
import ssl
import threading

import pytest

import lab as labs
from ingress_town import ACCESS, FRIEND, HUB, SERVER, TlsOver, Town, client_context, join_edge, node, socket_to, start_kubelet
from lab import PATIENCE_S, Lab
from pki import Authority

THROUGH, ENDED, CHECKED, DOUBTED, ASKED = 7443, 8443, 8444, 8445, 8446
ZONE = "nodes.test"


class Tls(Town):
    def __init__(self, lab):
        folder = os.path.join(lab.dir, "tls")
        os.makedirs(folder)
        self.ca, self.kubelets = Authority(folder, "cloud"), Authority(folder, "kubelets")
        self.cert, self.key = self.ca.issue("hub", f"subjectAltName=DNS:edge-7,DNS:edge-8,DNS:edge-9,DNS:nobody,DNS:*.{ZONE},IP:{HUB}")
        self.client = self.ca.issue("operator", "extendedKeyUsage=clientAuth")
        pair = self.kubelets.issue("hub-of-edgeway", "extendedKeyUsage=clientAuth")
        both = os.path.join(folder, "both.pem")
        with open(both, "w") as out:
            for part in pair:
                with open(part) as f:
                    out.write(f.read())
        ends = f"target: 10250, cert: {self.cert}, key: {self.key}"
        super().__init__(lab, "--ingress.dns", ZONE, "--ingress.tls", "[" + ", ".join((
            f"{{listen: '{HUB}:{THROUGH}', target: 10250}}",
            f"{{listen: '{HUB}:{ENDED}', {ends}, clientCert: {both}}}",
            f"{{listen: '{HUB}:{CHECKED}', {ends}, clientCert: {pair[0]}, clientKey: {pair[1]}, serverCA: {self.kubelets.cert}}}",
            f"{{listen: '{HUB}:{DOUBTED}', {ends}, clientCert: {both}, serverCA: {self.ca.cert}}}",
            f"{{listen: '{HUB}:{ASKED}', {ends}, clientCA: {self.ca.cert}, clientCert: {both}}}")) + "]",
            access=(*ACCESS, f"{{from: {FRIEND}, to: ['edge-7:10250']}}", "{from: 'cert:operator', to: ['*:10250']}"))
        start_kubelet(self.server, "edge-7", self.kubelets, names=(f"edge-7.{ZONE}",))
        self.hub.write("nodes.yaml", node("edge-7", SERVER), node("edge-8", "192.0.2.98"))  # nobody is there
        labs.wait_for("nodes", lambda: self.get("http://edge-7:1/")[0] == 502)
        self.agent = join_edge(self, "edge-9", "192.0.2.19", self.kubelets)
        self.caller = self.kubelets.issue("caller", "extendedKeyUsage=clientAuth")

    def curl(self, name, port, *options, path="/", machine=None):
        where = ("--resolve", f"{name}:{port}:{HUB}") if not name[0].isdigit() else ()
        return self.get(f"https://{name}:{port}{path}", *where, *options, machine=machine or self.friend, proxy=False, seconds=30)

    def with_caller(self):
        return ("--cacert", self.kubelets.cert, "--cert", self.caller[0], "--key", self.caller[1])

    def last_audit(self, at):
        labs.wait_for("line of the audit", lambda: " audit: " in self.log_since(at) or "audit" in self.log_since(at))
        return [x for x in self.log_since(at).splitlines() if "audit" in x][-1]


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        yield Tls(lab)


@pytest.fixture(autouse=True)
def nothing_is_left(town):
    yield from town.as_before()


# --- passed through -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["edge-7", f"edge-7.{ZONE}", f"EDGE-7.{ZONE}"])
def test_the_node_s_own_tls(town, name):
    """The kubelet's certificate is the node's own, and the kubelet sees the caller's."""
    status, body = town.curl(name, THROUGH, *town.with_caller())
    assert status == 200 and "edge-7 peer=caller sni=edge-7" in body


def test_large_answers_and_requests(town):
    assert len(town.curl("edge-7", THROUGH, *town.with_caller(), path="/bytes/20000000")[1]) == 20000000
    path = os.path.join(town.lab.dir, "body")
    with open(path, "wb") as f:
        f.write(b"0123456789" * 200000)
    assert town.curl("edge-7", THROUGH, *town.with_caller(), "--data-binary", f"@{path}")[1] == "0123456789" * 200000


@pytest.mark.parametrize("name,alert,status", [("nobody", "unrecognized name", 404), (HUB, "unrecognized name", 400),
                                               ("edge-8", "", 403), ("edge-9", "", 403)])
def test_refusals_are_alerts(town, name, alert, status):
    at = len(town.hub.process.log())
    got = town.curl(name, THROUGH, *town.with_caller())
    assert got[0] == 0 and (alert in got[1] or "alert" in got[1]), got
    assert f"status={status}" in town.last_audit(at)


def test_a_node_that_cannot_be_reached(town):
    at = len(town.hub.process.log())
    got = town.curl("edge-8", THROUGH, *town.with_caller(), machine=town.hub.machine)
    assert got[0] == 0 and "internal error" in got[1]
    assert "status=502" in town.last_audit(at)


def test_plain_http_is_told(town):
    got = town.get(f"http://{HUB}:{THROUGH}/", machine=town.friend, proxy=False)
    assert got[0] == 400 and "TLS" in got[1]


class InPieces:
    """Below TLS: what is written goes out in TLS records of `size` bytes, each byte by byte of TCP; but for the first message all as it is."""

    def __init__(self, s, size):
        self.s, self.size, self.recv = s, size, s.recv

    def sendall(self, data):
        if self.size:
            payload, head, self_size = data[5:], data[:3], self.size
            self.size = 0
            data = b"".join(head + len(part).to_bytes(2, "big") + part
                            for part in (payload[i:i + self_size] for i in range(0, len(payload), self_size)))
            for byte in data:
                self.s.sendall(bytes([byte]))
            return
        self.s.sendall(data)


@pytest.mark.parametrize("size", [1, 7, 100, 16384])
def test_a_client_hello_in_pieces(town, size):
    context = client_context(town.kubelets.cert, town.caller)
    with socket_to(town, (HUB, THROUGH), town.friend) as s:
        tls = TlsOver(InPieces(s, size), context, "edge-7")
        tls.sendall(b"GET / HTTP/1.1\r\nHost: edge-7\r\nConnection: close\r\n\r\n")
        got = b""
        while more := tls.recv(65536):
            got += more
    assert b"edge-7 peer=caller sni=edge-7" in got


def test_half_a_client_hello_is_given_up(town):
    with socket_to(town, (HUB, THROUGH), town.friend) as s:
        s.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 50)
        s.settimeout(PATIENCE_S)
        assert s.recv(100) == b""


@pytest.mark.parametrize("port", [THROUGH, ENDED, CHECKED], ids=["through", "ended", "serverCA"])
def test_through_the_tunnel_of_a_node(town, port):
    """edge-9 has a real agent: the hub does not dial it."""
    own = town.with_caller() if port == THROUGH else ("--cacert", town.ca.cert)
    who = "caller" if port == THROUGH else "hub-of-edgeway"
    assert town.curl("edge-9", port, *own, machine=town.hub.machine) == (200, f"edge-9 peer={who} sni=edge-9\n")
    assert len(town.curl("edge-9", port, *own, path="/bytes/5000000", machine=town.hub.machine)[1]) == 5000000


# --- ended here -----------------------------------------------------------------------------


@pytest.mark.parametrize("port", [ENDED, CHECKED], ids=["unchecked", "serverCA"])
@pytest.mark.parametrize("name", ["edge-7", f"edge-7.{ZONE}"])
def test_the_kubelet_sees_the_hub(town, name, port):
    assert town.curl(name, port, "--cacert", town.ca.cert) == (200, "edge-7 peer=hub-of-edgeway sni=edge-7\n")


def test_bytes_both_ways_through_two_tls(town):
    assert len(town.curl("edge-7", ENDED, "--cacert", town.ca.cert, path="/bytes/20000000")[1]) == 20000000
    path = os.path.join(town.lab.dir, "body")
    with open(path, "wb") as f:
        f.write(b"0123456789" * 200000)
    assert town.curl("edge-7", ENDED, "--cacert", town.ca.cert, "--data-binary", f"@{path}")[1] == "0123456789" * 200000


def test_many_at_once(town):
    got = []
    threads = [threading.Thread(target=lambda: got.append(town.curl("edge-7", ENDED, "--cacert", town.ca.cert, path="/bytes/300000")))
               for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE_S)
    assert [(status, len(body)) for status, body in got] == [(200, 300000)] * 20


def test_a_kubelet_that_is_not_trusted(town):
    at, failed = len(town.hub.process.log()), town.hub.metrics()["edgeway_ingress_handshakes_failed_total"]
    got = town.curl("edge-7", DOUBTED, "--cacert", town.ca.cert)
    assert got[0] == 0
    labs.wait_for("line", lambda: "the TLS handshake with a target failed" in town.log_since(at))
    assert "it is not signed by the CA that we trust" in town.log_since(at)
    assert "the target's TLS connection broke" in town.last_audit(at)
    assert town.hub.metrics()["edgeway_ingress_handshakes_failed_total"] == failed + 1


def test_callers_with_certificates_of_the_listener_s_ca(town):
    cert = ("--cert", town.client[0], "--key", town.client[1])
    assert town.curl("edge-7", ASKED, "--cacert", town.ca.cert, *cert, machine=town.stranger)[0] == 200
    got = town.curl("edge-7", ASKED, "--cacert", town.ca.cert, machine=town.stranger)
    assert got[0] == 0
    stranger = ("--cert", town.caller[0], "--key", town.caller[1])
    assert town.curl("edge-7", ASKED, "--cacert", town.ca.cert, *stranger, machine=town.stranger)[0] == 0


@pytest.mark.parametrize("name,options,status", [("nobody", (), 404), (HUB, (), 400), ("edge-8", (), 403)])
def test_refusals_are_answers(town, name, options, status):
    got = town.curl(name, ENDED, "--cacert", town.ca.cert, *options)
    assert got[0] == status and got[1].count("\n") == 1


def test_plain_http_at_a_listener_with_a_certificate(town):
    at = len(town.hub.process.log())
    assert town.get(f"http://{HUB}:{ENDED}/", machine=town.friend, proxy=False)[0] == 0
    labs.wait_for("line", lambda: "a caller's TLS handshake failed" in town.log_since(at))


def test_an_answer_that_breaks_is_no_whole_one(town):
    got = town.curl("edge-7", ENDED, "--cacert", town.ca.cert, path="/break")
    assert got[0] in (0, 200) and "y" * 1000 != got[1]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with socket_to(town, (HUB, ENDED), town.friend) as below:
            with client_context(town.ca.cert).wrap_socket(below, server_hostname="edge-7", suppress_ragged_eofs=False) as s:
                s.sendall(b"GET /break HTTP/1.0\r\nHost: edge-7\r\n\r\n")
                while s.recv(65536):
                    pass


@pytest.mark.parametrize("path,whole", [("/ended/3000000", True), ("/cut/3000000", False)])
def test_an_end_without_close_notify_is_none(town, path, whole):
    """Somebody between hub and target can send a FIN: all that came before it is passed on, and the caller can tell."""
    at, got = len(town.hub.process.log()), b""
    with socket_to(town, (HUB, ENDED), town.friend) as below:
        with client_context(town.ca.cert).wrap_socket(below, server_hostname="edge-7", suppress_ragged_eofs=False) as s:
            s.sendall(f"GET {path} HTTP/1.0\r\nHost: edge-7\r\n\r\n".encode())
            try:
                while more := s.recv(65536):
                    got += more
                ended = True
            except (ssl.SSLError, ConnectionError):
                ended = False
    assert len(got.partition(b"\r\n\r\n")[2]) == 3000000 and ended == whole
    assert ("without close_notify" in town.last_audit(at)) != whole


def test_whole_answers_of_servers_without_close_notify(town):
    """RFC 9112 section 9.8: the length says that they are."""
    status, body = town.curl("edge-7", ENDED, "--http1.0", "--cacert", town.ca.cert, path="/bytes/5000000")
    assert (status, len(body)) == (200, 5000000)
