"""A kubelet behind its tunnel for callers who are no kube-apiserver: exec, port-forward and logs by each of the hub's doors, upgraded to
SPDY/3.1 and to websockets; TLS all the way to the kubelet, ended at the hub and begun anew, or none.
"""
import http.client
import json
import os
import socket
import struct

import pytest

import lab as labs
import tunnelkit
from dnskit import socket_in
from ingress_town import client_context, start_kubelet
from kubestreams import OverWebsocket, Spdy, Websocket, accept_key
from lab import HUB_ADDRESS, PATIENCE_S, BARE_PYTHON, wait_for
from pki import Authority
from splice import plain

as_before = tunnelkit.as_before
THROUGH, ENDED, MAP, PLAIN = 7443, 7444, 7445, 10255
DOORS = "connect", "sni", "ended", "map", "request"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
EDITIONS = "SPDY/3.1 v4.channel.k8s.io", "websocket v4.channel.k8s.io", "websocket v5.channel.k8s.io"
LOG = "".join(f"line {i}\n" for i in range(1, 11))


class Site(tunnelkit.Site):
    def __init__(self, lab):
        self.dir = os.path.join(lab.dir, "doors")
        os.makedirs(self.dir)
        self.ca, self.kubelets = Authority(self.dir), Authority(self.dir, "kubelets")
        cert, key = self.ca.issue("hub", "subjectAltName=DNS:edge-1")
        own = self.kubelets.issue("hub-of-edgeway", "extendedKeyUsage=clientAuth")
        super().__init__(
            lab, *tunnelkit.INGRESS_OPTIONS, "--ingress.tls",
            f"[{{listen: '{HUB_ADDRESS}:{THROUGH}', target: 10250}}, {{listen: '{HUB_ADDRESS}:{ENDED}', target: 10250, cert: {cert}, key: {key}, "
            f"clientCert: {own[0]}, clientKey: {own[1]}, serverCA: {self.kubelets.cert}}}]",
            "--ingress.tcp", f"[{{listen: '{HUB_ADDRESS}:{MAP}', node: edge-1, target: 10250}}]", allow="node,pods,services")
        self.log = os.path.join(self.dir, "container.log")
        with open(self.log, "w") as f:
            f.write(LOG)
        self.kubelet = start_kubelet(self.nodes[0], "edge-1", self.kubelets, "--log", self.log, "--plain-port", str(PLAIN))
        echo = self.nodes[0].start("echo", *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", "echo", "--tcp", "9090", "--bind", "127.0.0.1")
        wait_for("echo", lambda: "serving" in echo.log())
        self.inner = client_context(self.kubelets.cert, self.kubelets.issue("caller", "extendedKeyUsage=clientAuth"))
        self.outer = client_context(self.ca.cert)

    def dial(self, door):
        """(a socket on which a request can be said, what stands in front of its path)"""
        if door == "connect":
            return self.inner.wrap_socket(tunnelkit.connect(self.hub.machine, "edge-1:10250"), server_hostname="edge-1"), ""
        port = {"sni": THROUGH, "ended": ENDED, "map": MAP, "request": tunnelkit.INGRESS[1]}[door]
        s = socket_in(self.hub.machine, socket.SOCK_STREAM, HUB_ADDRESS, port)
        s.settimeout(PATIENCE_S)
        if door == "request":
            return s, f"http://edge-1:{PLAIN}"
        return (self.outer if door == "ended" else self.inner).wrap_socket(s, server_hostname="edge-1"), ""

    def upgrade(self, door, path, spoken):
        """A socket that speaks `spoken` from here on."""
        how, version = spoken.split()
        s, front = self.dial(door)
        fields = (f"Sec-WebSocket-Key: {KEY}", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {version}") if how == "websocket" else (
            f"X-Stream-Protocol-Version: {version}", "Content-Length: 0")
        s.sendall("\r\n".join([f"{'GET' if how == 'websocket' else 'POST'} {front}{path} HTTP/1.1", "Host: edge-1", "Connection: Upgrade",
                               f"Upgrade: {how}", *fields, "", ""]).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += s.recv(1) or pytest.fail(str(head))
        assert head.startswith(b"HTTP/1.1 101 ") and f": {version}\r\n".encode() in head
        assert how != "websocket" or f": {accept_key(KEY)}\r\n".encode() in head
        return plain(s)

    def told(self):
        at = len(self.kubelet.log())
        return lambda: [line.strip() for line in self.kubelet.log()[at:].splitlines() if line.strip()]


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()
    print(f"--- kubelet\n{made.kubelet.log()[-3000:]}")


@pytest.fixture(params=DOORS)
def door(request):
    return request.param


def by_spdy(s, stdin):
    """What an exec says: {channel: bytes}; all of standard input is said at first, and then that this was all."""
    spdy = Spdy(s, client=True)
    names = {spdy.open({"streamtype": name}): name for name in ("error", "stdin", "stdout", "stderr")}
    said, ended = dict.fromkeys(names.values(), b""), set()
    number = next(n for n, name in names.items() if name == "stdin")
    for at in range(0, len(stdin), 50000):
        spdy.data(number, stdin[at:at + 50000])
    spdy.data(number, b"", fin=True)
    for kind, stream, data, fin in spdy.events():
        if kind == "data":
            said[names[stream]] += data
            ended |= {names[stream]} if fin else set()
        if ended >= {"error", "stdout", "stderr"}:
            break
    assert ended >= {"error", "stdout", "stderr"}
    return said


def by_websocket(s, stdin, version):
    ws, names = Websocket(s, client=True), ("stdin", "stdout", "stderr", "error")
    said = dict.fromkeys(names, b"")
    for at in range(0, len(stdin), 50000):
        ws.send(b"\0" + stdin[at:at + 50000])
    if version == "v5.channel.k8s.io":
        ws.send(b"\xff\0")
    for message in ws.messages():
        said[names[message[0]]] += message[1:]
    return said


@pytest.mark.parametrize("spoken", EDITIONS)
def test_exec(site, door, spoken):
    """Standard input and output, errors, and how it ended, each on its own channel."""
    how, version = spoken.split()
    stdin, told = os.urandom(500000), site.told()
    read = "cat" if version != "v4.channel.k8s.io" or how == "SPDY/3.1" else f"head -c {len(stdin)}"  # no end of input there
    command = "&".join(f"command={word}" for word in ("sh", "-c", f"{read}; echo wrong %3E%262; exit 3".replace(" ", "%20").replace(";", "%3B")))
    path = f"/exec/default/web/main?{command}&input=1&output=1&error=1"
    with site.upgrade(door, path, spoken) as s:
        said = by_spdy(s, stdin) if how == "SPDY/3.1" else by_websocket(s, stdin, version)
    assert said["stdout"] == stdin and said["stderr"] == b"wrong\n"
    status = json.loads(said["error"])
    assert status["reason"] == "NonZeroExitCode" and status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    wait_for("the kubelet's word", lambda: f"end /exec/default/web/main exit 3 {spoken}" in told())


@pytest.mark.parametrize("spoken", ["SPDY/3.1 portforward.k8s.io", "websocket SPDY/3.1+portforward.k8s.io"])
def test_port_forward(site, door, spoken):
    """Two connections at a time on one, to a server that speaks first; a port where nobody listens is told on its error stream."""
    told = site.told()
    with site.upgrade(door, "/portForward/default/web", spoken) as s:
        spdy = Spdy(OverWebsocket(Websocket(s, client=True)) if spoken.startswith("websocket") else s, client=True)
        streams, got, ended = {}, {}, set()
        for request, port in enumerate((9090, 9090, 1)):
            for kind in ("error", "data"):
                stream = spdy.open({"streamtype": kind, "port": str(port), "requestid": str(request)})
                streams[stream], got[request, kind] = (request, kind), b""
        number = {v: k for k, v in streams.items()}
        data = [os.urandom(200000) for _ in range(2)]
        for request in range(2):
            for at in range(0, len(data[request]), 50000):
                spdy.data(number[request, "data"], data[request][at:at + 50000])
            spdy.data(number[request, "data"], b"", fin=True)  # half-closed: the answer comes nevertheless
        for kind, stream, part, fin in spdy.events():
            if kind == "data":
                got[streams[stream]] += part
                ended |= {stream} if fin else set()
            if ended == set(streams):
                break
        assert [got[request, "data"] for request in range(2)] == [b"echo\n" + d for d in data]
        assert b"refused" in got[2, "error"] and not got[2, "data"] and not got[0, "error"]
    wait_for("the kubelet knows", lambda: any(line.startswith("end /portForward/") for line in told()))


def test_logs_that_are_followed(site, door):
    """What is written meanwhile comes, and a caller that goes is gone for the kubelet as well."""
    told, (s, front) = site.told(), site.dial(door)
    try:
        s.sendall(f"GET {front}/containerLogs/default/web/main?follow=true&tailLines=2 HTTP/1.1\r\nHost: edge-1\r\n\r\n".encode())
        answer = http.client.HTTPResponse(s)
        answer.begin()
        with open(site.log) as f:
            last = f.read().splitlines(keepends=True)[-2:]
        for line in last:
            assert answer.readline().decode() == line
        for i in range(3):
            with open(site.log, "a") as f:
                f.write(f"by {door} {i}\n")
            assert answer.readline() == f"by {door} {i}\n".encode()
    finally:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        answer.close()
    wait_for("the kubelet knows", lambda: "end /containerLogs/default/web/main gone" in told())
