"""Sockets inside machines for HTTP scenarios: the test plays the client and the endpoint, byte by byte."""
import contextlib
import ctypes
import select
import socket
import struct
import threading

from lab import PATIENCE_S as PATIENCE

CLONE_NEWNET = 0x40000000


def readable(sockets, seconds):
    """Those of them that have something to read within that time. (select(2) ends at descriptor 1023.)"""
    poll = select.poll()
    for s in sockets:
        poll.register(s, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(seconds * 1000)}
    return [s for s in sockets if s.fileno() in ready]


def socket_of(machine):
    """A TCP socket of another network namespace: it stays there, the thread that opened it does not."""
    made, libc = [], ctypes.CDLL(None, use_errno=True)

    def enter():
        with open(f"/proc/{machine.holder.pid}/ns/net", "rb") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) == 0:
                made.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    made[0].settimeout(PATIENCE)
    return made[0]


class Wire:
    """One end of a connection."""

    def __init__(self, s):
        self.s = s
        s.settimeout(PATIENCE)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = b""

    def put(self, *data):
        self.s.sendall(b"".join(data))
        return self

    def more(self):
        data = self.s.recv(65536)
        self.left += data
        return data

    def begins(self):
        """False: it ends without a byte."""
        try:
            return self.more() != b""
        except ConnectionResetError:
            return False

    def until(self, end=b"\r\n\r\n"):
        """Everything up to and with `end`."""
        while end not in self.left:
            before = self.left
            assert self.more(), f"FIN after {before!r}, wanted {end!r}"
        got, _, self.left = self.left.partition(end)
        return got + end

    def take(self, n):
        while len(self.left) < n:
            assert self.more(), f"FIN after {self.left!r}, wanted {n} bytes"
        got, self.left = self.left[:n], self.left[n:]
        return got

    def expect(self, data):
        got = self.take(len(data))
        assert got == data
        return self

    def reply(self):
        """(status, {field: value}, body) of an answer with a length or chunks; fields in small letters."""
        head = self.until().decode("latin-1")
        first, *lines = head[:-4].split("\r\n")
        fields = {}
        for line in lines:
            name, _, value = line.partition(": ")
            assert name.lower() not in fields or name.lower() == "set-cookie", head
            fields[name.lower()] = value
        status = int(first.split()[1])
        body = b""
        if fields.get("transfer-encoding") == "chunked":
            while (size := int(self.until(b"\r\n"), 16)) > 0:
                body += self.take(size)
                self.expect(b"\r\n")
            self.until(b"\r\n")
        elif status >= 200 and status not in (204, 304):
            body = self.take(int(fields.get("content-length", 0)))
        return status, fields, body

    def eof(self):
        assert self.left == b"" and self.s.recv(65536) == b""
        return self

    def reset(self):
        """A RST ends it; what came before is in self.left."""
        try:
            while self.more():
                pass
        except ConnectionResetError:
            return self
        raise AssertionError(f"FIN after {self.left!r}, wanted a reset")

    def gone(self):
        """FIN or RST, nothing before it."""
        try:
            return self.eof()
        except ConnectionResetError:
            return self

    def silent(self, seconds=0.3):
        assert self.left == b"" and not readable([self.s], seconds)
        return self

    def shut(self):
        self.s.shutdown(socket.SHUT_WR)
        return self

    def close(self, hard=False):
        if hard:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()

    def closed_by_both(self):
        """FIN, and the other end has answered with its own: it sends no further request by this connection."""
        if self.s.fileno() >= 0:
            with contextlib.suppress(OSError):  # reset
                self.s.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while self.s.recv(65536):
                    pass
        self.s.close()


class Endpoint:
    """A listening socket in a pod."""

    def __init__(self, pod, port):
        self.pod, self.port, self.wires = pod, port, []
        self.open()

    def open(self):
        self.listener = socket_of(self.pod)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("0.0.0.0", self.port))
        self.listener.listen(2048)

    def down(self):
        for wire in self.wires:
            wire.close()
        self.listener.close()

    def called(self, seconds=0.0):
        return bool(readable([self.listener], seconds))

    def accept(self, speaks=True):
        """The next connection; speaks: that brings a byte. (Of two dials at once one is given up without, and an endpoint is tried by one.)"""
        while True:
            wire = Wire(self.listener.accept()[0])
            self.wires.append(wire)
            if not speaks or wire.begins():
                return wire

    def clear(self):
        """Between tests: nobody's connections, also not in the agent's pool, where a request that may not be sent twice would be lost."""
        for wire in self.wires:
            wire.closed_by_both()
        self.wires = []
        while self.called():
            Wire(self.listener.accept()[0]).closed_by_both()


def whoever(*endpoints, seconds=PATIENCE):
    """The first of these that is called: (index, wire)."""
    listeners = [e.listener for e in endpoints]
    ready = readable(listeners, seconds)
    assert ready, "no endpoint is called"
    i = listeners.index(ready[0])
    return i, endpoints[i].accept()
