"""What an HTTP/1.x proxy owes both sides: a scenario for each row of the checklist, through the real agent and its
DNAT. The test is client and endpoint at once, see httpkit.py."""
import collections
import json
import os
import re
import signal
import socket

import pytest

from httpkit import PATIENCE, Endpoint, Wire, socket_of, whoever
from lab import Agent, Hub, Lab, Node, pod, service, wait_for

GET = b"GET /x HTTP/1.1\r\nHost: web\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Bed:
    def __init__(self, lab, io):
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pods = [self.node.pod(f"web-{i}") for i in range(2)]
        self.client_pod = self.node.pod("client")
        self.ends = [Endpoint(p, 8080) for p in self.pods]
        self.hub = Hub(lab)
        patient = service("patient", ("http", 80, 8080), selector="one")
        patient["metadata"]["annotations"] = {"edgeway.io/request-timeout": "1s"}
        brief = service("brief", ("tcp", 80, 8080), selector="one")
        brief["metadata"]["annotations"] = {"edgeway.io/idle-timeout": "2s"}
        self.hub.write("web.yaml", patient, brief, service("one", ("http", 80, 8080)), service("two", ("http", 80, 8080)),
                       service("none", ("http", 80, 8080)), service("plain", ("tcp", 80, 8080), selector="one"),
                       service("greeter", ("http", 80, 8080), selector="one"),
                       *[pod(f"p{i}", self.node, p.address, ("http", 8080, 0), app="two") for i, p in enumerate(self.pods)],
                       pod("q", self.node, self.pods[0].address, ("http", 8080, 0), app="one"))
        self.file = os.path.join(self.node.dir, "agent.yaml")
        self.configure()
        self.agent = Agent(self.node, self.hub, "--config", self.file, "--lb.policy", "round-robin", "--mesh.workers", "1", "--mesh.io", io)
        self.addresses = {}
        for name in ("one", "two", "none", "plain", "patient", "brief", "greeter"):
            wait_for(name, lambda: self.node.dns(f"{name}.default.svc.cluster.local", server=self.node.gateway)[1])
            self.addresses[name] = self.node.address_of(f"{name}.default.svc.cluster.local", f"@{self.node.gateway}")
        self.clients, self.own = [], collections.Counter()

    def configure(self, access="all", log="text", sample=1):
        with open(self.file, "w") as f:
            f.write(f"lb: {{accessLog: {access}, accessLogSample: {sample}}}\nlog: {{format: {log}}}\n")

    def reconfigure(self, *values):
        said = self.agent.process.log().count("reloaded")
        self.configure(*values)
        self.agent.process.popen.send_signal(signal.SIGHUP)
        wait_for("reload", lambda: self.agent.process.log().count("reloaded") > said)

    def client(self, name="one", *data):
        s = socket_of(self.client_pod)
        s.connect((self.addresses[name], 80))
        self.clients.append(Wire(s))
        return self.clients[-1].put(*data)

    def metric(self, name):
        return self.agent.metrics()[f"edgeway_lb_{name}"]

    def ask(self, request, answer=OK, body=b""):
        """One exchange over new connections: (head that the endpoint got, reply, client, endpoint)."""
        client = self.client("one", request)
        end = self.ends[0].accept()
        head = end.until()
        end.expect(body)
        end.put(answer)
        return head.decode("latin-1"), client.reply(), client, end

    def refused(self, request, name="one"):
        """(status, fields, body) of a request that no endpoint may see; the connection is closed."""
        client = self.client(name, request)
        reply = client.reply()
        assert reply[1]["connection"] == "close" and len(reply[2].strip().splitlines()) == 1
        client.eof()
        assert not self.ends[0].called()
        self.own[reply[0]] += 1
        return reply


@pytest.fixture(scope="module", params=["epoll", "auto"])
def made(request):
    """auto: io_uring where the kernel allows it (node/test_io.py says whether it is told rightly)."""
    with Lab() as lab:
        bed = Bed(lab, request.param)
        yield bed
        print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    for c in made.clients:
        c.close()
    made.clients = []
    for e in made.ends:
        e.clear()


# --- 1 to 3: connections --------------------------------------------------------------------


def test_01_persistent_connections(bed):
    """Both versions keep what they may, and Connection: close ends it, whoever says it."""
    _, reply, client, end = bed.ask(GET)
    assert reply == (200, {"content-length": "2"}, b"ok")
    client.put(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert b"onnection" not in end.until()  # ours to the endpoint goes on
    end.put(OK)
    assert client.reply()[1]["connection"] == "close"
    client.eof()
    client = bed.client("one", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    end.until()
    end.put(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
    assert client.reply()[1]["connection"] == "keep-alive"
    client.put(b"GET / HTTP/1.0\r\n\r\n")
    end.eof()  # the endpoint's wish is its own
    end = bed.ends[0].accept()
    end.until()
    end.put(OK)
    assert client.reply()[1]["connection"] == "close"
    client.eof()


def test_02_pipelining(bed):
    """Answers come in order, and no byte is lost between the requests."""
    client = bed.client("one", *[b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n%03d" % (i, i) for i in range(20)])
    end = bed.ends[0].accept()
    for i in range(20):
        assert end.until().startswith(b"POST /%d " % i)
        end.expect(b"%03d" % i).put(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%03d" % i)
    assert [client.reply()[2] for _ in range(20)] == [b"%03d" % i for i in range(20)]


def test_03_each_request_is_balanced(bed):
    client, ends, turns = bed.client("two"), {}, []
    for _ in range(6):
        client.put(GET)
        if len(ends) < 2:
            i, wire = whoever(*bed.ends)
            ends[i] = wire
        else:
            i = 1 - i
        turns.append(i)
        ends[i].until()
        ends[i].put(OK)
        client.reply()
    assert turns in ([0, 1] * 3, [1, 0] * 3)


# --- 4 to 9: what a message is -----------------------------------------------------------------


def test_04_hop_by_hop_fields(bed):
    """Gone both ways with all that Connection names; never what the message needs."""
    hop = (b"Connection: x-foo, keep-alive, host, content-length, x-forwarded-for\r\nX-Foo: 1\r\nKeep-Alive: timeout=5\r\n"
           b"Proxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\n")
    head, reply, *_ = bed.ask(b"POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nX-Bar: 2\r\n" + hop +
                              b"Content-Length: 3\r\n\r\nabc",
                              b"HTTP/1.1 200 OK\r\nX-Bar: 2\r\n" + hop.replace(b"host, ", b"") + b"Content-Length: 2\r\n\r\nok", b"abc")
    for gone in ("connection", "x-foo", "keep-alive", "te:", "upgrade"):
        assert gone not in head.lower()
    for kept in ("Host: a\r\n", "Content-Length: 3\r\n", "X-Bar: 2\r\n", "X-Forwarded-For: 1.1.1.1, "):
        assert kept in head
    # Upgrade of an answer is what the server offers; it comes with its option (rule 13).
    assert reply == (200, {"x-bar": "2", "content-length": "2", "connection": "upgrade", "upgrade": "h2c"}, b"ok")


@pytest.mark.parametrize("fields", ["Content-Length: 3\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 3"])
def test_05_length_and_coding(bed, fields):
    assert bed.refused(f"POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\nGET /s HTTP/1.1\r\nHost: a\r\n\r\n".encode())[0] == 400
    answer = f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n0\r\n\r\n".encode()
    assert bed.ask(GET, answer)[1][0] == 502


@pytest.mark.parametrize("value", ["+5", "-1", "5, 5", "5 5", "0x5", "", "99999999999999999999", "5\r\nContent-Length: 6",
                                   "5\r\nContent-Length: 5"])
def test_06_lengths(bed, value):
    assert bed.refused(f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {value}\r\n\r\nhello".encode())[0] == 400
    assert bed.ask(GET, f"HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\nhello".encode())[1][0] == 502


@pytest.mark.parametrize("coding,version,status", [("gzip", 1, 501), ("gzip, chunked", 1, 501), ("chunked, chunked", 1, 501),
                                                   ("xchunked", 1, 501), ("chunked", 0, 400), ("chunked\r\nTransfer-Encoding: chunked", 1, 400)])
def test_07_codings(bed, coding, version, status):
    got = bed.refused(f"POST / HTTP/1.{version}\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n".encode())[0]
    assert got in (status, 400)
    assert bed.ask(GET, f"HTTP/1.{version} 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n".encode())[1][0] == 502


def test_08_chunks(bed):
    """Re-framed on the way, strict in what is taken; a broken body ends both connections."""
    head, reply, client, end = bed.ask(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                       b"005;x=\"y;\"\r\nhello\r\n00;z\r\n\r\n",
                                       CHUNKED + b"0002;a\r\nok\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n")
    assert "Transfer-Encoding: chunked\r\n" in head and reply[2] == b"ok"
    client.put(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n")
    assert client.reply()[0] == 400
    client.eof()
    client = bed.client("one", GET)
    end = bed.ends[0].accept()
    end.until()
    end.put(CHUNKED + b"5\nhello\n0\n\n")
    client.reset()
    assert b"hello" not in client.left and b"\r\n0\r\n" not in client.left


def test_09_trailers(bed):
    request = (b"PUT / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"2\r\nhi\r\n0\r\nHost: b\r\nX-Sum: 1\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n")
    client = bed.client("one", request)
    end = bed.ends[0].accept()
    head = end.until()
    assert b"\r\nTrailer: X-Sum\r\n" in head and b"\r\nConnection: TE\r\nTE: trailers\r\n" in head
    end.expect(b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n")
    end.put(CHUNKED.replace(b"\r\n\r\n", b"\r\nTrailer: X-Sum\r\n\r\n"), b"2\r\nok\r\n0\r\nContent-Length: 9\r\nX-Sum: 2\r\nHost: c\r\n\r\n")
    assert b"\r\nTrailer: X-Sum\r\n" in client.until()
    client.expect(b"2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n")
    client.put(b"GET / HTTP/1.0\r\n\r\n")  # nobody could tell them to such a client
    end.until()
    end.put(CHUNKED, b"2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n")
    assert b"Trailer" not in client.until()
    client.expect(b"ok").eof()


# --- 10 to 14: versions, interim answers, tunnels --------------------------------------------------


def test_10_http_1_0_clients(bed):
    """No chunks, no 1xx; the length by close where it is unknown."""
    client = bed.client("one", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    end = bed.ends[0].accept()
    assert end.until().startswith(b"GET / HTTP/1.1\r\nHost: " + bed.addresses["one"].encode())
    end.put(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", CHUNKED, b"2\r\nok\r\n0\r\n\r\n")
    assert client.until() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    client.expect(b"ok").eof()


def test_11_interim_answers(bed):
    """100-continue is the endpoint's to say; several of them and 103 are relayed."""
    client = bed.client("one", b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    end = bed.ends[0].accept()
    assert b"\r\nExpect: 100-continue\r\n" in end.until()
    client.silent()
    for line in (b"100 Continue", b"103 Early Hints\r\nLink: </a>", b"100 Continue"):
        end.put(b"HTTP/1.1 ", line, b"\r\n\r\n")
        client.expect(b"HTTP/1.1 " + line + b"\r\n\r\n")
    client.put(b"hi")
    end.expect(b"hi").put(OK)
    assert client.reply()[0] == 200
    # An endpoint that never says 100: the client may go on after a while (RFC 9110 section 10.1.1).
    client.put(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    end.until()
    client.silent().put(b"hi")
    end.expect(b"hi").put(OK)
    assert client.reply()[0] == 200
    # One that refuses at once: the body may never come, so the connection ends.
    client.put(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    end.until()
    end.put(b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
    status, fields, _ = client.reply()
    assert (status, fields["connection"]) == (417, "close")


def test_12_answers_without_a_body(bed):
    _, _, client, end = bed.ask(GET)
    for request, answer, want in (
            (b"HEAD", b"200 OK\r\nContent-Length: 5", b"200 OK\r\nContent-Length: 5"),
            (b"HEAD", b"200 OK\r\nTransfer-Encoding: chunked", b"200 OK\r\nTransfer-Encoding: chunked"),
            (b"GET", b"304 Not Modified\r\nContent-Length: 5\r\nETag: x", b"304 Not Modified\r\nETag: x\r\nContent-Length: 5"),
            (b"GET", b"204 No Content\r\nContent-Length: 5", b"204 No Content")):
        client.put(request, GET[3:])
        end.until()
        end.put(b"HTTP/1.1 ", answer, b"\r\n\r\n")
        client.expect(b"HTTP/1.1 " + want + b"\r\n\r\n")
    end.eof()  # 204 has no body: five bytes behind it would be the next answer


UPGRADE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def test_13_upgrade(bed):
    """Opaque after 101, with bytes that came early, and half-closed either way; anything but 101 stays HTTP."""
    client = bed.client("one", UPGRADE, b"early")
    end = bed.ends[0].accept()
    assert b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" in end.until()
    switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    end.silent().put(switched, b"\x81\x05hello")
    client.expect(switched + b"\x81\x05hello")
    end.expect(b"early")
    client.put(b"\0\xff not HTTP").shut()
    end.expect(b"\0\xff not HTTP").eof()
    end.put(b"last").shut()
    client.expect(b"last").eof()
    client = bed.client("one", UPGRADE)
    end = bed.ends[0].accept()
    end.until()
    end.put(b"HTTP/1.1 426 No\r\nContent-Length: 0\r\n\r\n")
    assert client.reply()[0] == 426
    client.put(GET)  # HTTP as before
    assert b"GET /x" in end.until()
    end.put(OK)
    assert client.reply()[0] == 200
    client.put(GET.replace(b"\r\n\r\n", b"\r\nUpgrade: websocket\r\n\r\n"))  # Connection does not name it
    assert b"pgrade" not in end.until()
    end.put(switched)
    assert client.reply()[0] == 502


def test_14_connect(bed):
    for request in (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", b"CONNECT a:80 HTTP/1.0\r\n\r\n"):
        status, fields, _ = bed.refused(request + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert status == 405 and "CONNECT" not in fields["allow"]


# --- 15 to 19: the head --------------------------------------------------------------------------


def test_15_forms_of_the_target(bed):
    for target, host, seen in ((b"http://b:81/p?q", b"a", b"GET /p?q HTTP/1.1\r\nHost: b:81\r\n"),
                               (b"HTTP://b", b"a", b"GET / HTTP/1.1\r\nHost: b\r\n"),
                               (b"/p", b"a", b"GET /p HTTP/1.1\r\nHost: a\r\n")):
        head, *_ = bed.ask(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert head.encode().startswith(seen) and head.count("Host:") == 1
        bed.ends[0].clear()
    head, *_ = bed.ask(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
    assert head.startswith("OPTIONS * HTTP/1.1\r\n")
    for target in (b"*", b"x", b"a:80", b"ftp://a/", b"http://u@a/", b"http:///"):
        assert bed.refused(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")[0] == 400


@pytest.mark.parametrize("host", ["", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: u@a\r\n", "Host:\r\n", "Host: a:b\r\n", "Host: a/b\r\n"])
def test_16_host(bed, host):
    assert bed.refused(f"GET / HTTP/1.1\r\n{host}\r\n".encode())[0] == 400


@pytest.mark.parametrize("field", [b"X : y", b"X Y: z", b"X: a\0b", b"X: a\rb", b"X: a\nb", b"X: a\r\n folded", b"garbage", b": v", b"X\x80: y"])
def test_17_fields(bed, field):
    assert bed.refused(b"GET / HTTP/1.1\r\nHost: a\r\n" + field + b"\r\n\r\n")[0] == 400
    _, reply, _, end = bed.ask(GET, b"HTTP/1.1 200 OK\r\n" + field + b"\r\nContent-Length: 2\r\n\r\nok")
    assert reply[0] == 502
    end.reset()


def test_18_versions_and_methods(bed):
    for version in (b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2"):
        assert bed.refused(b"GET / " + version + b"\r\nHost: a\r\n\r\n")[0] == 505
    assert bed.refused(b"GET /\r\nHost: a\r\n\r\n")[0] in (400, 505)
    for method in (b"FOO", b"get", b"M-SEARCH"):
        head, reply, *_ = bed.ask(method + b" / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert head.startswith(method.decode() + " / HTTP/1.1\r\n") and reply[0] == 200
        bed.ends[0].clear()
    for version in (b"HTTP/2.0", b"HTTP/0.9", b"ICY"):
        assert bed.ask(GET, version + b" 200 OK\r\nContent-Length: 2\r\n\r\nok")[1][0] == 502
    assert bed.ask(GET, b"no HTTP at all\n")[2] is not None


def test_19_limits(bed):
    assert bed.refused(b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")[0] == 414
    assert bed.refused(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 40000 + b"\r\n\r\n")[0] == 431
    assert bed.refused(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 300 + b"\r\n")[0] == 431
    head, reply, *_ = bed.ask(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 16000 + b"\r\n" + b"Y: z\r\n" * 150 + b"\r\n")
    assert reply[0] == 200 and len(head) > 16900
    bed.ends[0].clear()
    assert bed.ask(GET, b"HTTP/1.1 200 OK\r\nX: " + b"a" * 40000 + b"\r\n\r\n")[1][0] == 502


# --- 20 to 25: time, failures, ends ----------------------------------------------------------------


def test_20_slow_heads(bed):
    """A head has ten seconds from its first byte on, however it drips; who says nothing hears nothing."""
    before = bed.metric('errors_total{reason="timeout"}')
    bed.ask(GET)
    slow, idle = bed.client("one", b"GET / HTTP/1.1\r\n"), bed.client()
    while not slow.left:
        slow.put(b"X: y\r\n")
        slow.s.settimeout(1)
        try:
            slow.more()
        except socket.timeout:
            pass
    slow.s.settimeout(PATIENCE)
    assert slow.reply()[0] == 408
    slow.eof()
    idle.silent()
    assert bed.metric('errors_total{reason="timeout"}') == before + 1
    assert bed.agent.counted("own_408") == 1


def test_21_errors(bed):
    """502, 503 with Retry-After, 504; and a started answer never ends as if it were whole."""
    status, fields, body = bed.client("none", GET).reply()
    assert (status, fields["retry-after"]) == (503, "1") and body == b"service default/none port 80 has no endpoints\n"
    client = bed.client("patient", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
    bed.ends[0].accept().until()
    assert client.reply()[0] == 504
    assert re.search(r"did not answer in time: .* service=default/patient port=80", bed.agent.process.log())
    client = bed.client("one", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
    end = bed.ends[0].accept()
    end.until()
    end.close()
    assert client.reply()[0] == 502
    for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", CHUNKED + b"2\r\nok\r\n"):
        client = bed.client("one", GET)
        end = bed.ends[0].accept()
        end.until()
        end.put(answer).close()
        client.reset()
        assert client.left.endswith(b"ok") or client.left.endswith(b"ok\r\n")
    bed.ends[0].down()
    try:
        status, _, body = bed.client("one", GET).reply()
        assert status == 502 and b"accepts connections" in body
    finally:
        bed.ends[0].open()
    for status in (502, 503, 504):
        assert bed.agent.counted(f"own_{status}") >= 1
    for status, times in bed.own.items():
        assert bed.agent.counted(f"own_{status}") >= times
    assert set(bed.own) >= {400, 405, 414, 431, 501, 505}


def test_22_second_attempts(bed):
    """On another endpoint where nothing can have been executed, or twice is as good as once; never a POST twice."""
    bed.ends[1].down()
    try:
        for _ in range(4):  # nobody listens at one of two
            client = bed.client("two", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
            end = bed.ends[0].accept()
            end.until()
            end.expect(b"hi").put(OK)
            assert client.reply()[0] == 200
            bed.ends[0].clear()
    finally:
        bed.ends[1].open()
    _, _, client, end = bed.ask(GET)
    client.put(GET)  # the pooled connection dies with the request in it
    end.until()
    end.close(hard=True)
    end = bed.ends[0].accept()
    end.until()
    end.put(OK)
    assert client.reply()[0] == 200
    client.put(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
    end.until()
    end.expect(b"hi").close(hard=True)
    assert client.reply()[0] == 502
    assert not bed.ends[0].called(0.3)
    # A connection that the endpoint has closed meanwhile costs not even a POST.
    _, _, client, end = bed.ask(GET)
    end.close()
    client.put(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
    end = bed.ends[0].accept()
    end.until()
    end.expect(b"hi").put(OK)
    assert client.reply()[0] == 200


def test_23_pool(bed):
    """The youngest first, none that said something unasked, none for longer than four seconds."""
    clients, ends = [], []
    for _ in range(2):
        clients.append(bed.client("one", GET))
        ends.append(bed.ends[0].accept())
        ends[-1].until()
    for client, end in zip(clients, ends):
        end.put(OK)
        client.reply()
    clients[0].put(GET)
    ends[1].until()
    ends[1].put(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
    assert clients[0].reply()[2] == b"ok"
    ends[1].gone()
    clients[1].put(GET)
    ends[0].until()
    ends[0].put(OK)
    assert clients[1].reply()[2] == b"ok"
    ends[0].eof()
    assert not bed.ends[0].called()


# --- 26 to 32: what else a proxy owes ----------------------------------------------------------------


def test_26_trace_fields(bed):
    me = bed.client_pod.address
    head, *_, end = bed.ask(b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nVia: 1.0 p\r\n"
                            b"X-Request-Id: mine\r\n\r\n")
    assert f"\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2, {me}\r\n" in head and head.lower().count("x-forwarded-for") == 1
    assert "\r\nVia: 1.0 p\r\nCDN-Loop: edgeway\r\n" in head and "\r\nX-Request-Id: mine\r\n" in head
    bed.ends[0].clear()
    heads = []
    for _ in range(2):
        heads.append(bed.ask(GET)[0])
        bed.ends[0].clear()
    ids = {re.search(r"\r\nX-Request-Id: ([0-9a-f]{16})\r\n", h).group(1) for h in heads}
    assert len(ids) == 2


NGINX = """
daemon off; master_process off; pid {dir}/nginx.pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off; gzip on; gzip_types text/plain; default_type text/plain;
  client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3; uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
  server {{ listen 8090; root {dir}; }}
}}
"""


def test_26_nginx_compresses(bed):
    """Its gzip_proxied is off by default: to a request with Via it sends everything as it is."""
    origin, name = bed.pods[0], "squeezed.default.svc.cluster.local"
    for file, text in (("nginx.conf", NGINX.format(dir=origin.dir)), ("page.txt", "all the same " * 8000)):
        with open(os.path.join(origin.dir, file), "w") as f:
            f.write(text)
    origin.start("nginx", "nginx", "-c", os.path.join(origin.dir, "nginx.conf"))
    wait_for("nginx", lambda: ":8090" in origin.run("ss", "-tlnH").stdout)
    bed.hub.write("squeezed.yaml", service("squeezed", ("http", 80, 8090), selector="one"))
    wait_for(name, lambda: bed.client_pod.dns(name, server=bed.node.gateway)[1])
    sizes = [int(bed.client_pod.run("curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", "-H", f"Accept-Encoding: {coding}",
                                    f"http://{bed.client_pod.address_of(name, f'@{bed.node.gateway}')}/page.txt").stdout)
             for coding in ("identity", "gzip")]
    assert sizes[0] == 104000 and sizes[1] < 2000, sizes


def access(bed, what):
    """The line of the access log that holds `what`."""
    return wait_for(f"line with {what}", lambda: next(
        (line for line in bed.agent.process.log().splitlines() if " access lb: " in line and what in line), None))


def test_27_access_log(bed):
    bed.ask(b"POST /logged?a=\"b HTTP/1.1\r\nHost: a\r\nX-Request-Id: id-1\r\nContent-Length: 3\r\n\r\nabc", OK, b"abc")
    line = access(bed, "/logged")
    for part in (f"client={bed.client_pod.address}:", f"to={bed.addresses['one']}:80 ", "service=default/one ",
                 f"endpoint={bed.pods[0].address}:8080 ", 'request="POST /logged?a=\\"b" ', 'id="id-1" ', "status=200 ", "end=-- ",
                 "bytes_up=3 ", "bytes_down=2 "):
        assert part in line
    assert line.endswith(" retries=0")
    times = [float(x) for x in re.findall(r"(?:connect|first|total)_ms=([0-9.]+)", line)]
    assert len(times) == 3 and times == sorted(times)
    bed.client("none", b"GET /nobody HTTP/1.1\r\nHost: a\r\n\r\n").reply()
    assert "status=503 end=SC " in access(bed, "/nobody")
    bed.refused(b"GET / HTTP/1.1\r\n\r\n")
    assert "end=PR" in access(bed, "status=400")
    client = bed.client("patient", b"POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
    client.reply()
    assert "status=504 end=sH " in access(bed, "/late")
    bed.ends[0].clear()
    bed.ask(b"GET /bad HTTP/1.1\r\nHost: a\r\n\r\n", b"junk\r\n\r\n")
    assert "status=502 end=PH " in access(bed, "/bad")
    client = bed.client("one", b"GET /gone HTTP/1.1\r\nHost: a\r\n\r\n")
    bed.ends[0].accept().until()
    client.close(hard=True)
    assert " end=CH " in access(bed, "/gone")
    client = bed.client("one", b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
    end = bed.ends[0].accept()
    end.until()
    end.put(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").close(hard=True)
    client.reset()
    assert "status=200 end=SD " in access(bed, "/cut")
    client = bed.client("plain", b"hello")
    end = bed.ends[0].accept()
    end.expect(b"hello").put(b"you").shut()
    client.expect(b"you").eof().close()
    line = access(bed, "service=default/plain")
    assert "end=-- bytes_up=5 bytes_down=3 " in line and "request=" not in line


def test_27_access_log_changes(bed):
    """SIGHUP: errors alone, JSON, and back."""
    bed.reconfigure("errors", "json")
    bed.ask(b"GET /fine-1 HTTP/1.1\r\nHost: a\r\n\r\n")
    bed.client("none", b"GET /wrong-\"1 HTTP/1.1\r\nHost: a\r\n\r\n").reply()
    line = json.loads(wait_for("line", lambda: next((x for x in bed.agent.process.log().splitlines() if "/wrong-" in x), None)))
    assert (line["level"], line["request"], line["status"], line["end"]) == ("access", 'GET /wrong-"1', 503, "SC")
    assert line["service"] == "default/none" and line["total_ms"] >= 0
    bed.reconfigure("off")
    bed.client("none", b"GET /wrong-2 HTTP/1.1\r\nHost: a\r\n\r\n").reply()
    bed.reconfigure("all")

    def told():  # a worker may hear of it later than the main thread
        bed.client("none", b"GET /wrong-3 HTTP/1.1\r\nHost: a\r\n\r\n").reply()
        return "/wrong-3" in bed.agent.process.log()
    wait_for("line with /wrong-3", told)
    assert "/fine-1" not in bed.agent.process.log() and "/wrong-2" not in bed.agent.process.log()


def test_27_access_log_sample(bed):
    """One in four of the good ones, all others; each line says what it stands for."""
    def failed(path):
        return bed.client("none", b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % path).reply()

    bed.reconfigure("all", "text", 4)
    wait_for("the worker", lambda: failed(b"now") and re.search(r"/now.* sample=1\n", bed.agent.process.log()))
    for i in range(12):
        bed.ask(b"GET /good-%d HTTP/1.1\r\nHost: a\r\n\r\n" % i, OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
        if i % 6 == 0:
            failed(b"bad-%d" % i)
    bed.refused(b"GET / HTTP/1.1\r\n\r\n")
    bed.reconfigure("errors", "text", 4)
    wait_for("the worker", lambda: failed(b"last") and re.search(r"/last.* retries=0\n", bed.agent.process.log()))
    said = bed.agent.process.log()
    lines = [line for line in said.splitlines() if re.search("/good-|/bad-", line)]
    assert collections.Counter(line.rsplit(" ", 1)[1] for line in lines) == {"sample=4": 3, "sample=1": 2}
    assert all(("status=503 end=SC " in line) == line.endswith(" sample=1") for line in lines)
    assert [line for line in said.splitlines() if line.endswith(" status=400 end=PR sample=1")]
    bed.reconfigure()


def test_28_early_answer(bed):
    """A 413 in the middle of an upload reaches the client, which has not finished."""
    client = bed.client("one", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n", b"x" * 100000)
    end = bed.ends[0].accept()
    end.until()
    end.take(1000)
    end.put(b"HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig").close()
    status, fields, body = client.reply()
    assert (status, fields["connection"], body) == (413, "close", b"big")


def test_28_both_directions_at_once(bed):
    """An echo of more than all buffers hold: each side is read while the other is written."""
    client = bed.client("one", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 33554432\r\n\r\n")
    end = bed.ends[0].accept()
    end.until()
    end.put(b"HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n")
    client.until()
    for i in range(256):
        piece = bytes([i]) * 131072
        client.put(piece)
        end.expect(piece).put(piece)
        client.expect(piece)


def test_29_half_closed_client(bed):
    client = bed.client("one", GET, GET).shut()
    end = bed.ends[0].accept()
    for _ in range(2):
        end.until()
        end.silent(0.1).put(OK)
    assert [client.reply()[0] for _ in range(2)] == [200, 200]
    client.eof()


def test_31_server_speaks_first(bed):
    """A greeting behind a port called http: the silent client gets it, and so do all later ones."""
    before = bed.agent.counted("server_first")
    client = bed.client("greeter")
    end = bed.ends[0].accept(speaks=False)
    end.put(b"220 ready\r\n")
    client.expect(b"220 ready\r\n").put(b"QUIT\r\n")
    end.expect(b"QUIT\r\n").put(b"221 bye\r\n").shut()
    client.expect(b"221 bye\r\n").eof()
    assert bed.agent.counted("server_first") == before + 1
    # A plain TCP port needs no thinking at all.
    client = bed.client("plain")
    bed.ends[0].accept(speaks=False).put(b"220 plain\r\n")
    client.expect(b"220 plain\r\n")


def test_32_tls_passes(bed):
    first = b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"
    client = bed.client("one", first)
    end = bed.ends[0].accept()
    end.expect(first).put(b"\x16\x03\x03answer")
    client.expect(b"\x16\x03\x03answer").put(b"\0\1\2").shut()
    end.expect(b"\0\1\2").eof()
    end.put(b"end").shut()
    client.expect(b"end").eof()


def test_relays_and_their_idle_time(bed):
    client = bed.client("brief", b"a")
    end = bed.ends[0].accept()
    for _ in range(4):
        end.expect(b"a").silent(0.6)  # longer together than it may be idle
        client.put(b"a")
    end.expect(b"a")
    client.eof()
    end.reset()


def test_99_25_drain(bed):
    """SIGTERM: what is in progress ends well and says close, what is idle closes, nobody new comes in."""
    busy, idle, tunnel = bed.client("one", GET), bed.client(), bed.client("one", UPGRADE)
    ends = [bed.ends[0].accept() for _ in range(2)]
    heads = [e.until() for e in ends]
    get, upgraded = (ends if b"GET /x" in heads[0] else ends[::-1])
    upgraded.put(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
    tunnel.until()
    bed.agent.process.popen.terminate()
    idle.eof()
    tunnel.put(b"still")
    upgraded.expect(b"still").shut()
    get.put(OK)
    status, fields, body = busy.reply()
    assert (status, fields["connection"], body) == (200, "close", b"ok")
    busy.eof()
    tunnel.eof().shut()
    assert bed.agent.process.wait() == 0
