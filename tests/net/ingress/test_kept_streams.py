"""Requests at `ingress.http` one after the other: the connection to the server behind a node's tunnel, or behind the hub's own dial, serves the
next one of the same caller too, and only that one."""
import hashlib
import os
import signal
import socket
import threading
import time

import pytest

import lab as labs
import tunnelkit
from httpkit import socket_of
from ingress_town import FRIEND, SECRET
from lab import Lab, Machine, wait_for

PORT = 7005
ANN = "-H", f"Proxy-Authorization: Bearer {SECRET}"


class Web:
    """An HTTP server in a namespace that knows which of its connections a request came by."""

    def __init__(self, machine):
        self.listener = socket_of(machine)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("0.0.0.0", PORT))
        self.listener.listen(64)
        self.listener.settimeout(None)
        self.accepted, self.open, self.paths = 0, [], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s = self.listener.accept()[0]
            except OSError:
                return
            self.accepted += 1
            self.open.append(s)
            threading.Thread(target=self.serve, args=(s, self.accepted), daemon=True).start()

    def serve(self, s, number):
        try:
            for n in range(1000):
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    more = s.recv(1)
                    if not more:
                        return
                    head += more
                path = head.split()[1].decode()
                self.paths.append(path)
                if path == "/once" and n > 0:  # as a server whose patience ends at this moment
                    return
                s.sendall(self.answer(path, number))
                if path == "/until-close":
                    return
        except OSError:
            pass
        finally:
            self.open.remove(s)
            s.close()

    @staticmethod
    def answer(path, number):
        body = f"{number}\n".encode()
        length = b"Content-Length: %d\r\n" % len(body)
        more = {"/close": b"Connection: close\r\n", "/login": b"WWW-Authenticate: Negotiate\r\n"}.get(path, b"")
        status = b"401 Unauthorized" if path in ("/login", "/basic") else b"200 OK"
        if path == "/basic":
            more = b"WWW-Authenticate: Basic realm=\"a\"\r\n"
        if path == "/until-close":
            length = b""
        return b"HTTP/1.1 " + status + b"\r\n" + length + more + b"\r\n" + body + (b"HTTP/1.1 200 OK\r\n" if path == "/more" else b"")


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, "--config", os.path.join(lab.dir, "hub.yaml"), "--ingress.http", "192.0.2.1:10080")
        self.friend = Machine(lab, "friend", address=FRIEND)
        self.server = Machine(lab, "server", address="192.0.2.31")
        self.webs = {"edge-1": Web(self.nodes[0]), "192.0.2.31": Web(self.server)}

    def get(self, url, *options, machine=None):
        return (machine or self.hub.machine).get(url, "-x", "http://192.0.2.1:10080", *options)

    def kept(self):
        return self.hub.metrics()["edgeway_ingress_idle_streams"]

    def by(self, path, *options, target="edge-1", **more):
        """Which of the server's connections carried the request."""
        return int(self.get(f"http://{target}:{PORT}{path}", *options, **more)[1])


def write_rules(lab, friend=True):
    rules = ["{from: 192.0.2.1, to: ['*']}", f"{{from: 'token:ann', tokenSHA256: {hashlib.sha256(SECRET.encode()).hexdigest()}, to: ['*']}}",
             *([f"{{from: {FRIEND}, to: ['edge-1:7005']}}"] if friend else [])]
    with open(os.path.join(lab.dir, "hub.yaml"), "w") as f:
        f.write("access:\n" + "".join(f"  - {r}\n" for r in rules))


@pytest.fixture(scope="module")
def site():
    with Lab() as lab:
        write_rules(lab)
        made = Site(lab)
        yield made
        made.logs()


as_before = tunnelkit.as_before


@pytest.mark.parametrize("target", ["edge-1", "192.0.2.31"], ids=["tunnel", "hub's own dial"])
def test_one_connection_for_all(site, target):
    reused = site.hub.metrics()["edgeway_ingress_streams_reused_total"]
    first = site.by("/", target=target)
    assert [site.by("/", target=target) for _ in range(5)] == [first] * 5
    assert site.hub.metrics()["edgeway_ingress_streams_reused_total"] == reused + 5
    assert site.kept() == 1
    lines = [x for x in site.hub.process.log().splitlines() if "audit" in x and f"{target}:{PORT}" in x]
    assert len(lines) >= 6 and all("status=200" in x for x in lines)


def test_each_request_gets_its_own_target(site):
    """In one connection of the caller's, some of them in kept streams and some not."""
    urls = [f"http://{target}:{PORT}/" for target in ("edge-1", "192.0.2.31") * 3]
    p = site.hub.machine.run("curl", "-sS", "-m", "10", "-x", "http://192.0.2.1:10080", "-w", "%{num_connects}\n", *urls)
    answers = p.stdout.split()
    assert answers[1::2] == ["1"] + ["0"] * 5
    assert answers[0::2] == [answers[0], answers[2]] * 3
    first, second = (site.webs[t].paths.count("/posted") for t in ("edge-1", "192.0.2.31"))
    p = site.hub.machine.run("curl", "-sS", "-m", "10", "-x", "http://192.0.2.1:10080", urls[0], "--next", "-sS", "-m", "10", "-x", "http://192.0.2.1:10080",
                             "-X", "POST", f"http://192.0.2.31:{PORT}/posted")
    assert p.returncode == 0
    assert [site.webs[t].paths.count("/posted") for t in ("edge-1", "192.0.2.31")] == [first, second + 1]


def test_callers_do_not_share(site):
    first = site.by("/")
    other = site.by("/", machine=site.friend)
    named = site.by("/", *ANN)
    assert len({first, other, named}) == 3
    assert (site.by("/"), site.by("/", machine=site.friend), site.by("/", *ANN)) == (first, other, named)


@pytest.mark.parametrize("path", ["/close", "/login", "/until-close", "/more"])
def test_not_after_such_an_answer(site, path):
    used = site.by(path)
    assert site.by("/") != used


def test_a_password_is_of_the_request(site):
    assert site.by("/basic") == site.by("/")


def test_what_cannot_be_sent_twice_gets_its_own(site):
    first = site.by("/")
    assert site.by("/", "-X", "POST") != first
    assert site.kept() == 2


def test_a_connection_that_the_server_closes_at_that_moment(site):
    """The request has gone out and there is no answer: it is sent again, in a connection of its own."""
    web = site.webs["edge-1"]
    first = site.by("/")
    seen = len(web.paths)
    second = site.by("/once")
    assert second != first and web.paths[seen:] == ["/once", "/once"]


def test_a_connection_that_the_server_has_closed(site):
    web = site.webs["edge-1"]
    first = site.by("/")
    web.open[-1].shutdown(socket.SHUT_RDWR)
    wait_for("it is not kept", lambda: site.kept() == 0)
    assert site.by("/") != first


def test_rules_that_change_end_what_is_kept(site):
    first = site.by("/", machine=site.friend)
    assert first and site.kept() == 1
    try:
        write_rules(site.lab, friend=False)
        site.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("it is not kept", lambda: site.kept() == 0)
        assert site.get(f"http://edge-1:{PORT}/", machine=site.friend)[0] == 403
    finally:
        write_rules(site.lab)
        site.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("again", lambda: site.get(f"http://edge-1:{PORT}/", machine=site.friend)[0] == 200)


def test_a_node_that_stops(site):
    """Its agent does not wait for what nobody uses."""
    site.by("/")
    began = time.monotonic()
    assert site.agents[0].stop() == 0
    assert time.monotonic() - began < labs.PATIENCE_S / 2
    assert site.kept() == 0
    site.agents[0].start()
    site.wait_open("edge-1")
    assert site.by("/")
