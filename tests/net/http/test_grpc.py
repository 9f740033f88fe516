"""gRPC through the ways in, by a real gRPC client to a real server: HTTP/2 with prior knowledge by its :authority, CONNECT, a
map, and TLS by SNI; to a server that the hub dials, and to one behind a node's tunnel.
"""
import os
import socket

import pytest

import lab as labs
from ingress_town import ACCESS, FRIEND, HUB, SERVER, Town, join_edge, node, socket_to
from lab import PATIENCE_S, Lab
from pki import Authority

pytest.importorskip("grpc")
PEER = os.path.join(labs.HERE, "grpc_peer.py")
PROXY, MAP, NODE_MAP, TLS = f"{HUB}:10080", f"{HUB}:7001", f"{HUB}:7002", f"{HUB}:7443"
PREFACE, SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\4\0\0\0\0\0"


class Grpc(Town):
    def __init__(self, lab):
        folder = os.path.join(lab.dir, "grpc")
        os.makedirs(folder)
        self.ca = Authority(folder)
        super().__init__(lab, "--ingress.tls", f"[{{listen: '{TLS}', target: 50052}}]", "--ingress.tcp",
                         f"[{{listen: '{MAP}', node: edge-7, target: 50051}}, {{listen: '{NODE_MAP}', node: edge-9, target: 50051}}]",
                         access=(*ACCESS, f"{{from: {FRIEND}, to: ['edge-*:50051-50052', 'edge-7:8080', 'nobody:*']}}"))
        self.hub.write("nodes.yaml", node("edge-7", SERVER), node("edge-8", "192.0.2.98"))
        self.agent = join_edge(self, "edge-9", "192.0.2.19", self.ca, "--tunnel.allow", "node,node:50051-50052")
        for machine, name in ((self.server, "edge-7"), (self.agent.node, "edge-9")):
            for n, port in enumerate((50051, 50052)):
                pair = self.ca.issue(f"{name}-grpc", f"subjectAltName=DNS:{name}") if n else ()
                p = machine.start(f"grpc-{port}", labs.PYTHON, PEER, "server", name, port, *pair)
                labs.wait_for("gRPC server", lambda p=p: "serving" in p.log())

    def grpc(self, target, authority, *ca, machine=None, **env):
        p = (machine or self.friend).run(labs.PYTHON, PEER, "client", target, authority, *ca, seconds=120, env={**os.environ, **env})
        return p.stdout.strip()


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        yield Grpc(lab)


@pytest.fixture(autouse=True)
def nothing_is_left(town):
    yield from town.as_before()


@pytest.mark.parametrize("name", ["edge-7", "edge-9"], ids=["dialled", "tunnel"])
@pytest.mark.parametrize("way", ["authority", "connect", "map", "sni"])
def test_every_kind_of_call(town, name, way):
    """Unary, 3 MB both ways, a stream of answers, and both ways at once."""
    if way == "authority":
        got = town.grpc(PROXY, f"{name}:50051")
    elif way == "connect":
        got = town.grpc(f"{name}:50051", f"{name}:50051", http_proxy=f"http://{PROXY}")
    elif way == "map":
        got = town.grpc(MAP if name == "edge-7" else NODE_MAP, "whoever:1")
    else:
        got = town.grpc(TLS, f"{name}:50052", town.ca.cert)
    assert got == name


@pytest.mark.parametrize("authority,code,why", [
    ("nobody:50051", "NOT_FOUND", "neither a node"), ("edge-7:50050", "PERMISSION_DENIED", "no rule of access"),
    ("edge-8:50051", "UNAVAILABLE", "edge-8"), ("edge-9:22", "PERMISSION_DENIED", "no rule")])
def test_refusals_are_grpc_s_own(town, authority, code, why):
    if authority.startswith("edge-8"):
        why = ""
    got = town.grpc(PROXY, authority)
    assert got.startswith(code) and why in got, got


def test_who_asks_without_waiting(town):
    """curl sends its request in one go with the preface, so that nothing of ours comes between."""
    p = town.friend.run("curl", "-sS", "-v", "-m", "20", "--http2-prior-knowledge", "-H", "Host: edge-7:50051", "-H", "content-type: application/grpc",
                        "-H", "te: trailers", "--data-binary", "@-", f"http://{PROXY}/lab.Lab/Who", input="\0\0\0\0\0")
    assert "grpc-status: 0" in p.stderr and p.stdout.endswith("edge-7")


def test_the_audit_has_a_line(town):
    at = len(town.hub.process.log())
    town.grpc(PROXY, "edge-7:50051")
    labs.wait_for("line", lambda: "audit" in town.log_since(at) and "door=ingress.http" in town.log_since(at))
    line = next(x for x in town.log_since(at).splitlines() if "door=ingress.http" in x)
    assert f"caller={FRIEND}" in line and f"{SERVER}:50051" in line and "status=200" in line


def test_what_others_say_stays_within_its_quotes_in_the_audit(town):
    at = len(town.hub.process.log())
    assert town.get("http://edge-7:50051/", "-H", "X-Tunnel-Proxy-Host: edge-7:50051", "-H",
                    'X-Tunnel-Proxy-Dest: x" status=200 end="done', machine=town.friend)[0] == 400
    labs.wait_for("line", lambda: "status=400" in town.log_since(at))
    line = next(x for x in town.log_since(at).splitlines() if "status=400" in x)
    assert f"caller={FRIEND}:" in line and 'end="?x? status=200 end=?done?' in line and line.count('"') == 4


@pytest.mark.parametrize("said,answer", [
    (PREFACE + b"\0\0\0\1\5\0\0\0\1", b"\x07"),  # no SETTINGS first: GOAWAY
    (PREFACE + SETTINGS + b"\0\0\1\1\4\0\0\0\1\xff", b"\x07"),  # fields that cannot be read
    (PREFACE + SETTINGS + b"\0\0\1\1\5\0\0\0\1\x83", b"\x07")])  # a request to nobody
def test_what_is_no_request(town, said, answer):
    with socket_to(town, (HUB, 10080), town.friend) as s:
        for i in range(len(said)):
            s.sendall(said[i:i + 1])
        s.shutdown(socket.SHUT_WR)
        got, kinds = b"", []
        while more := s.recv(4096):
            got += more
        while len(got) >= 9:
            kinds.append(got[3:4])
            got = got[9 + int.from_bytes(got[:3], "big"):]
    assert kinds[0] == b"\x04" and kinds[-1] == answer


@pytest.mark.parametrize("name,status", [("web.default", b"501"), ("nobody", b"404")])
def test_a_method_that_begins_as_the_preface(town, name, status):
    """Its first word is read by itself; the target's server knows no such method."""
    with socket_to(town, (HUB, 10080), town.friend) as s:
        s.sendall(b"PRI ")
        labs.wait_for("connection", lambda: town.connections() == 1)  # told by the loop that has read it
        s.sendall(f"http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += s.recv(4096) or pytest.fail(str(got))
    assert got.startswith(b"HTTP/1.1 " + status)


def test_a_preface_alone_is_given_up(town):
    with socket_to(town, (HUB, 10080), town.friend) as s:
        s.sendall(PREFACE + SETTINGS)
        s.settimeout(PATIENCE_S)
        got = b""
        while more := s.recv(4096):
            got += more
    assert got.startswith(SETTINGS) and b"\0\0\x08\x07" in got


def test_a_large_request_before_our_settings_are_read(town):
    """A whole first window behind the request, and the acknowledgement after it."""
    name = b"edge-7:50051"
    fields = b"\x83\x86\x01" + bytes([len(name)]) + name + b"\x04\x0d/lab.Lab/Echo" + b"\x0f\x10\x10application/grpc\0\2te\x08trailers"
    head = len(fields).to_bytes(3, "big") + b"\1\4\0\0\0\1" + fields
    body = b"\0" + (65530).to_bytes(4, "big") + b"z" * 65530
    data = b"".join(len(body[i:i + 16384]).to_bytes(3, "big") + (b"\0\1" if i + 16384 >= len(body) else b"\0\0") + b"\0\0\0\1" + body[i:i + 16384]
                    for i in range(0, len(body), 16384))
    with socket_to(town, (HUB, 10080), town.friend) as s:
        s.sendall(PREFACE + SETTINGS)
        assert s.recv(9) == SETTINGS  # the hub's own: from here on an acknowledgement is due, which comes last
        room = b"".join(b"\0\0\4\x08\0" + stream.to_bytes(4, "big") + b"\0\1\0\0" for stream in (0, 1))
        s.sendall(head + data + room + SETTINGS[:4] + b"\1" + SETTINGS[5:])
        got = b""
        while got.count(b"z") < 65530:
            more = s.recv(65536)
            assert more, got[:200]
            got += more


@pytest.mark.parametrize("order", ["ack first", "ack last", "at once"])
def test_the_server_gets_what_the_client_said(town, order):
    """A server that echoes its bytes: all are there as they were sent, but the acknowledgement of what it has never sent."""
    name = f"{SERVER}:9090".encode()
    fields = b"\x83\x86\x01" + bytes([len(name)]) + name + b"\x84"
    head = len(fields).to_bytes(3, "big") + b"\1\5\0\0\0\1" + fields
    ack, ping, second = SETTINGS[:4] + b"\1" + SETTINGS[5:], b"\0\0\x08\6\0\0\0\0\0ABCDEFGH", SETTINGS[:4] + b"\1" + SETTINGS[5:]
    expected = b"server\n" + PREFACE + SETTINGS + ping + head + second
    with socket_to(town, (HUB, 10080)) as s:
        if order == "at once":
            s.sendall(PREFACE + SETTINGS + ping + head)
        else:
            s.sendall(PREFACE + SETTINGS)
            assert s.recv(9) == SETTINGS
            s.sendall(ack + ping + head if order == "ack first" else ping + head + ack)
        s.sendall(second)
        got = b""
        while len(got) < len(expected):
            more = s.recv(4096)
            assert more, got
            got += more
        assert got == expected
