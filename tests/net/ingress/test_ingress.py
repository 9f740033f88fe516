"""The ways into the hub: what callers ask for, who may, and what they are told. Targets in the cloud, which the hub dials itself, so
that nothing but the ingress is tested here; test_tunnel.py goes through the tunnel.
"""
import os
import socket

import pytest

import lab as labs
from ingress_town import HUB, SECRET, WEB, Town, socket_to
from lab import Lab


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        yield Town(lab, "--ingress.tcp", f"[{{listen: '{HUB}:7001', service: 'echo.default:7000'}}, "
                   f"{{listen: '{HUB}:7002', service: 'gone.default:1'}}]")


@pytest.fixture(autouse=True)
def nothing_is_left(town):
    yield from town.as_before()


@pytest.mark.parametrize("url", [WEB, "http://WEB.Default.svc.cluster.local.", "http://web.default.svc:80", "http://10.96.0.7",
                                 "http://192.0.2.31:8080"])
@pytest.mark.parametrize("tunnel", [(), ("-p",)], ids=["request", "connect"])
def test_names(town, url, tunnel):
    assert town.get(url + "/", *tunnel) == (200, "server\n")


@pytest.mark.parametrize("url,status,why", [
    ("http://nobody/", 404, "neither a node"), ("http://web.default:81/", 404, "no TCP port 81"), ("http://web.shop/", 404, ""),
    ("http://0.0.0.0:10080/", 403, "no target"), ("http://[::]:10080/", 403, "no target"), ("http://169.254.169.254/", 403, "metadata"),
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


@pytest.mark.parametrize("begun,status", [(b"", None), (b"\r\n", None), (b"GET http://web.default/c HTTP/1.1\r\nHo", 400),
                                          (b"GET http://nobody/ HTTP/1.1\r\nHost: nobody\r\n\r\n", 404)])
def test_requests_ahead_of_a_half_close_are_answered(town, begun, status):
    request = b"GET %s/a HTTP/1.1\r\nHost: web.default\r\n\r\n" % WEB.encode()
    with socket_to(town, (HUB, 10080)) as s:
        s.sendall(request * 3 + begun)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    assert answer.count(b"HTTP/1.1 200 ") == answer.count(b"server\n") == 3, answer
    assert answer.count(b"HTTP/1.1 ") == 3 + (status is not None), answer
    assert status is None or b"HTTP/1.1 %d " % status in answer.split(b"server\n")[-1]


@pytest.mark.parametrize("begun", [b"P", b"GET / HTTP/1.1\r\n"])
def test_a_head_that_ends_early_is_refused(town, begun):
    with socket_to(town, (HUB, 10080)) as s:
        s.sendall(begun)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_a_clean_request_goes_on(town):
    head = town.get(WEB + "/headers", "-H", f"Proxy-Authorization: Bearer {SECRET}", "-H", "Connection: x-mine", "-H", "X-Mine: 1",
                    "-H", "X-Forwarded-For: 203.0.113.1", "-H", "X-Tunnel-Proxy-Dest: 1.2.3.4:5")[1].lower()
    assert "via:" not in head and "x-forwarded-for: 203.0.113.1, 192.0.2.1" in head and "host: web.default" in head
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


@pytest.mark.parametrize("size, status", [(9000, 200), (20000, 200), (31000, 200), (40000, 502)])
def test_long_heads_of_answers(town, size, status):
    """A head comes in several pieces of the stream; what follows it in the last one belongs to the body."""
    got = town.get(f"{WEB}/head/{size}")
    assert got[0] == status and (status != 200 or got[1] == "after\n")


@pytest.mark.parametrize("request_,status", [
    (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"POST http://web.default/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"GET https://web.default/ HTTP/1.1\r\nHost: x\r\n\r\n", 400), (b"CONNECT web.default HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET http://web.default/ HTTP/2.1\r\nHost: x\r\n\r\n", 505), (b"\x00\x01\x02\r\n\r\n", 400),
    (b"GET http://web.default/ HTTP/1.1\nHost: x\n\n", 400),
    (b"GET http://web.default/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer wrong\r\n\r\n", 403)])
def test_doubtful_requests(town, request_, status):
    with socket_to(town, (HUB, 10080)) as s:
        s.sendall(request_)
        assert s.recv(65536).startswith(f"HTTP/1.1 {status} ".encode())


def test_heads_without_end(town):
    with socket_to(town, (HUB, 10080)) as s:
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


def test_connect_bytes_and_the_end_together(town):
    """Carried, as at a port that leads to a service; a CONNECT with nothing behind it but the end is a caller that has gone."""
    for _ in range(20):
        with socket_to(town, (HUB, 10080)) as s:
            s.sendall(b"CONNECT 192.0.2.31:9090 HTTP/1.1\r\nHost: 192.0.2.31:9090\r\n\r\nearly")
            s.shutdown(socket.SHUT_WR)
            answer = b""
            while chunk := s.recv(4096):
                answer += chunk
            assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"server\nearly"), answer


def test_a_refused_request_is_read_to_its_end(town):
    """More than anybody keeps: who is still sending when the refusal goes out gets that, and no reset."""
    size = 8 << 20
    with socket_to(town, (HUB, 10080)) as s:
        s.sendall(f"POST http://192.0.2.31:1/ HTTP/1.1\r\nHost: 192.0.2.31:1\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size)
        answer = b""
        while chunk := s.recv(4096):
            answer += chunk
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 502 ")
    length = next(x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:"))
    assert int(length.split(b":")[1]) == len(body) > 0


def test_a_refused_caller_that_wants_no_more(town):
    """RFC 9112 section 9.6: who says close gets it, with a refusal as well; who does not goes on."""
    request = "GET http://192.0.2.31:1/ HTTP/1.1\r\nHost: 192.0.2.31:1\r\n%s\r\n"
    with socket_to(town, (HUB, 10080)) as s:
        s.sendall((request % "").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(1)
        assert head.startswith(b"HTTP/1.1 502 ") and b"connection: close" not in head.lower()
        s.sendall((request % "Connection: close\r\n").encode())
        answer = b""
        while chunk := s.recv(4096):
            answer += chunk
    assert b"HTTP/1.1 502 " in answer and b"connection: close" in answer.lower()


# --- who may -------------------------------------------------------------------------------


def test_access(town):
    assert town.get(WEB, machine=town.friend) == (200, "server\n")
    assert town.get("http://192.0.2.31:8080/", machine=town.friend)[0] == 200
    assert town.get("http://192.0.2.31:9090/", machine=town.friend)[0] == 403
    assert town.get(WEB, machine=town.stranger)[0] == 403
    assert town.get(WEB, "-H", f"Proxy-Authorization: Bearer {SECRET}", machine=town.stranger) == (200, "server\n")
    assert town.get(WEB, "-p", "--proxy-header", f"Proxy-Authorization: Bearer {SECRET}", machine=town.stranger) == (200, "server\n")
    assert SECRET not in town.hub.process.log()


def test_strangers_who_ask_for_nothing_do_not_fill_the_log(town):
    """A few lines a minute, and a number; the metric counts all."""
    before, refused = len(town.hub.process.log()), town.hub.metrics()["edgeway_ingress_refused_total"]
    for _ in range(150):
        with socket_to(town, (HUB, 10080), town.stranger) as s:
            s.sendall(b"GARBAGE\r\n\r\n")
            s.recv(100)
    labs.wait_for("counted", lambda: town.hub.metrics()["edgeway_ingress_refused_total"] >= refused + 150)
    assert 0 < town.hub.process.log()[before:].count("audit: ") < 130  # a minute may end in between


def test_every_stream_has_a_line_in_the_audit(town):
    before = len(town.hub.process.log())
    town.get(WEB + "/", "-p", machine=town.friend)
    line = labs.wait_for("line", lambda: next((x for x in town.hub.process.log()[before:].splitlines() if "audit: " in x and "caller=192.0.2.21" in x), None))
    assert 'target="192.0.2.31:8080 from the hub"' in line and "status=200" in line and 'end="done"' in line


# --- maps ------------------------------------------------------------------------------------------


def test_a_port_of_the_hub_leads_to_a_service(town):
    assert town.hub.machine.send("192.0.2.1", 7001, "hello") == "server\nhello"
    assert town.friend.send("192.0.2.1", 7001, "hello") == "server\nhello"
    assert not town.stranger.send("192.0.2.1", 7001, "hello")
    assert not town.hub.machine.send("192.0.2.1", 7002, "hello")
