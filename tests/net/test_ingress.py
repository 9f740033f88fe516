"""The ways into the hub: what callers ask for, who may, and what they are told. Targets in the cloud, which the hub dials itself, so
that nothing but the ingress is tested here; test_tunnel.py goes through the tunnel.
"""
import hashlib
import os
import socket
import threading

import pytest

import lab as labs
from dnskit import socket_in
from lab import Hub, Lab, Machine, endpoint_slice, service

SECRET = "open-sesame"
ACCESS = ("[{from: local, to: ['*']}, {from: 192.0.2.21, to: ['default/*', 'cloud/192.0.2.0/24:8080']}, "
          f"{{from: 'token:ann', tokenSHA256: {hashlib.sha256(SECRET.encode()).hexdigest()}, to: ['*']}}]")
WEB = "http://web.default"


class Town:
    def __init__(self, lab):
        self.lab = lab
        folder = os.path.join(lab.dir, "sockets")
        os.makedirs(folder)
        self.egress = os.path.join(folder, "egress.sock")
        self.hub = Hub(lab, "--ingress.http", "192.0.2.1:10080", "--access", ACCESS, "--ingress.egress",
                       f"{{listen: 'unix:{self.egress}'}}", "--ingress.tcp",
                       "[{listen: '192.0.2.1:7001', service: 'echo.default:7000'}, {listen: '192.0.2.1:7002', service: 'gone.default:1'}]")
        self.server = Machine(lab, "server", address="192.0.2.31")
        self.backend = self.server.start("backend", labs.PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "server",
                                         "--http", "8080", "--tcp", "9090")
        labs.wait_for("backend", lambda: "serving" in self.backend.log())
        self.friend, self.stranger = Machine(lab, "friend", address="192.0.2.21"), Machine(lab, "stranger", address="192.0.2.22")
        self.hub.write("web.yaml", service("web", ("http", 80, 8080), clusterIP="10.96.0.7"),
                       endpoint_slice("web-1", "web", 8080, "192.0.2.31", "192.0.2.1", port_name="http"),
                       service("echo", ("echo", 7000, 9090)),
                       endpoint_slice("echo-1", "echo", 9090, "192.0.2.31", port_name="echo"))
        labs.wait_for("services", lambda: len(self.hub.state()["hub"]["services"]) == 2)

    def get(self, url, *options, machine=None, proxy=True, **more):
        way = ["-x", "http://192.0.2.1:10080"] if proxy else []
        return (machine or self.hub.machine).get(url, *way, *options, **more)

    def connections(self):
        return self.hub.metrics()["edgeway_ingress_connections"]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.hub.process.pid}/fd"))


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        yield Town(lab)


@pytest.fixture(autouse=True)
def nothing_is_left(town):
    assert town.get(WEB + "/") == (200, "server\n"), town.hub.process.log()[-3000:]  # the pair of sessions is there
    labs.wait_for("quiet", lambda: town.connections() == 0, 20)
    before = town.descriptors()
    yield
    labs.wait_for("no connection is left", lambda: town.connections() == 0, 20)
    assert town.hub.metrics()["edgeway_ingress_pending"] == 0
    labs.wait_for("descriptors", lambda: town.descriptors() <= before, 10)


@pytest.mark.parametrize("url", [WEB, "http://WEB.Default.svc.cluster.local.", "http://web.default.svc:80", "http://10.96.0.7",
                                 "http://192.0.2.31:8080"])
@pytest.mark.parametrize("tunnel", [(), ("-p",)], ids=["request", "connect"])
def test_names(town, url, tunnel):
    assert town.get(url + "/", *tunnel) == (200, "server\n")


@pytest.mark.parametrize("url,status,why", [
    ("http://nobody/", 404, "neither a node"), ("http://web.default:81/", 404, "no TCP port 81"), ("http://web.shop/", 404, ""),
    ("http://127.0.0.1:8080/", 403, "the hub itself"), ("http://192.0.2.31:1/", 502, "refused"),
    ("http://192.0.2.99:8080/", 502, "")])
def test_what_cannot_be_reached_is_told(town, url, status, why):
    got = town.get(url)
    assert got[0] == status and why in got[1] and got[1].count("\n") == 1


def test_the_host_names_the_target_as_well(town):
    assert town.get("http://192.0.2.1:10080/", "-H", "Host: web.default", proxy=False) == (200, "server\n")


def test_requests_of_one_connection_are_forwarded_one_by_one(town):
    p = town.hub.machine.run("curl", "-sS", "-m", "10", "-x", "http://192.0.2.1:10080", "-w", "%{num_connects}\n", WEB + "/a",
                             "http://192.0.2.31:8080/b")
    assert p.stdout == "server\n1\nserver\n0\n"


def test_a_clean_request_goes_on(town):
    head = town.get(WEB + "/headers", "-H", f"Proxy-Authorization: Bearer {SECRET}", "-H", "Connection: x-mine", "-H", "X-Mine: 1",
                    "-H", "X-Forwarded-For: 203.0.113.1", "-H", "X-Tunnel-Proxy-Dest: 1.2.3.4:5")[1].lower()
    assert "via: 1.1 edgeway-hub" in head and "x-forwarded-for: 203.0.113.1, 192.0.2.1" in head and "host: web.default" in head
    assert "authorization" not in head and "x-mine" not in head and "x-tunnel" not in head and "proxy-" not in head


@pytest.mark.parametrize("options", [(), ("-H", "Transfer-Encoding: chunked"), ("-p",)], ids=["length", "chunked", "connect"])
def test_bodies(town, options):
    path = os.path.join(town.lab.dir, "body")
    with open(path, "wb") as f:
        f.write(b"0123456789" * 300000)
    chunked = "chunked" in str(options)
    if not chunked:  # the backend reads no chunks
        assert town.get(WEB + "/", "--data-binary", f"@{path}", *options, seconds=30) == (200, "0123456789" * 300000)
    assert town.get(WEB + "/bytes/30000000", *(() if chunked else options), seconds=30) == (200, "x" * 30000000)


@pytest.mark.parametrize("request_,status", [
    (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"POST http://web.default/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"GET https://web.default/ HTTP/1.1\r\nHost: x\r\n\r\n", 400), (b"CONNECT web.default HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET http://web.default/ HTTP/2.1\r\nHost: x\r\n\r\n", 505), (b"\x00\x01\x02\r\n\r\n", 400),
    (b"GET http://web.default/ HTTP/1.1\nHost: x\n\n", 400),
    (b"GET http://web.default/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer wrong\r\n\r\n", 403)])
def test_doubtful_requests(town, request_, status):
    with labs_socket(town) as s:
        s.sendall(request_)
        assert s.recv(65536).startswith(f"HTTP/1.1 {status} ".encode())


def test_heads_without_end(town):
    with labs_socket(town) as s:
        s.sendall(b"GET http://web.default/ HTTP/1.1\r\nHost: x\r\n")
        answer = b""
        try:
            for _ in range(100):
                s.sendall(b"X-Long: " + b"y" * 1000 + b"\r\n")
        except OSError:
            pass
        try:
            while chunk := s.recv(4096):
                answer += chunk
        except OSError:
            pass
    assert answer == b"" or b" 431 " in answer


def labs_socket(town, path=None):
    """A socket of the hub's machine: this process enters its network for a moment."""
    if path is not None:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(path)
        return s
    s = socket_in(town.hub.machine, socket.SOCK_STREAM, "192.0.2.1", 10080)
    s.settimeout(20)
    return s


# --- who may -------------------------------------------------------------------------------


def test_access(town):
    assert town.get(WEB, machine=town.friend) == (200, "server\n")
    assert town.get("http://192.0.2.31:8080/", machine=town.friend)[0] == 200
    assert town.get("http://192.0.2.31:9090/", machine=town.friend)[0] == 403
    assert town.get(WEB, machine=town.stranger)[0] == 403
    assert town.get(WEB, "-H", f"Proxy-Authorization: Bearer {SECRET}", machine=town.stranger) == (200, "server\n")
    assert town.get(WEB, "-p", "--proxy-header", f"Proxy-Authorization: Bearer {SECRET}", machine=town.stranger) == (200, "server\n")
    assert SECRET not in town.hub.process.log()


def test_every_stream_has_a_line_in_the_audit(town):
    before = len(town.hub.process.log())
    town.get(WEB + "/", "-p", machine=town.friend)
    labs.wait_for("line", lambda: "caller=192.0.2.21" in town.hub.process.log()[before:])
    line = next(x for x in town.hub.process.log()[before:].splitlines() if "caller=192.0.2.21" in x)
    assert 'target="192.0.2.31:8080 from the hub"' in line and "status=200" in line and 'end="done"' in line


# --- kube-apiserver -------------------------------------------------------------------------


def connect(town, target):
    s = labs_socket(town, town.egress)
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return s


def test_a_server_that_speaks_first_200_of_200(town):
    """FACTS.md 32: a byte behind the 200 in the same read is an error there. The reader is slow now and then."""
    wrong = []

    def dial():
        with connect(town, "192.0.2.31:9090") as s:
            head = s.recv(65536)
            if not (head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n") and head.count(b"\r\n\r\n") == 1):
                wrong.append(head)
            got = b""
            while not got.endswith(b"\n"):
                got += s.recv(65536)
            if got != b"server\n":
                wrong.append(got)

    for _ in range(10):
        threads = [threading.Thread(target=dial) for _ in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
    assert wrong == []


def test_bytes_behind_the_connect_are_not_lost(town):
    with labs_socket(town, town.egress) as s:
        s.sendall(b"CONNECT 192.0.2.31:9090 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nearly")
        got = b""
        while b"early" not in got:
            got += s.recv(65536)
    assert got.endswith(b"server\nearly")


def test_the_egress_answers_always_and_serves_nothing_else(town):
    for target, status in (("192.0.2.31:1", 502), ("nobody:1", 404), ("10.96.0.7:443", 404)):
        with connect(town, target) as s:
            assert s.recv(65536).startswith(f"HTTP/1.1 {status} ".encode())
    with labs_socket(town, town.egress) as s:
        s.sendall(b"GET http://web.default/ HTTP/1.1\r\nHost: x\r\n\r\n")
        assert s.recv(65536).startswith(b"HTTP/1.1 405 ")


def test_half_close_both_ways(town):
    with connect(town, "192.0.2.31:9090") as s:
        assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
        s.sendall(b"x" * 100000)
        s.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := s.recv(65536):
            got += chunk
    assert got == b"server\n" + b"x" * 100000


def test_callers_that_go_away_leave_nothing(town):
    for _ in range(200):
        connect(town, "192.0.2.98:9090").close()  # nobody is there


# --- maps ------------------------------------------------------------------------------------------


def test_a_port_of_the_hub_leads_to_a_service(town):
    assert town.hub.machine.send("192.0.2.1", 7001, "hello") == "server\nhello"
    assert town.friend.send("192.0.2.1", 7001, "hello") == "server\nhello"
    assert not town.stranger.send("192.0.2.1", 7001, "hello")
    assert not town.hub.machine.send("192.0.2.1", 7002, "hello")
