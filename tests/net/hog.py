#!/usr/bin/python3
"""Clients that hold what they can of a proxy's memory, the endpoint that they need, and a client beside them. One loop each, no threads.

    hog.py serve PORT                  /small: 1 KB; /medium: 64 KB; /big: 1 GB; a body is read and never answered
    hog.py KIND ADDRESS PORT N         N connections of one kind, those that are cut are opened again, 100 a second; "held" once all were there
    hog.py ask ADDRESS PORT N MS       N times /small on one connection, one every MS; then JSON: p50_ms, p99_ms, failed

KIND: pipelining (requests as fast as they are taken, no answer read), readers (of /big, that read nothing), sips (of /big, 16 kB a second), heads (15 kB, not whole), bodies (a
byte a second), idle (one request, answered, and no more).
"""
import json
import resource
import selectors
import socket
import sys
import time

GET = b"GET %s HTTP/1.1\r\nHost: hog\r\n\r\n"
SMALL = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024
MEDIUM = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"x" * 65536
BIG, PIECE = 1 << 30, b"x" * 65536
AT_ONCE, AGAIN_S, BYTE_S, PARTS = 100, 0.01, 1, 500
FIRST = {
    "pipelining": (GET % b"/medium") * 200,
    "readers": GET % b"/big",
    "sips": GET % b"/big",
    "heads": b"GET / HTTP/1.1\r\nHost: hog\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 990) for i in range(15)),
    "bodies": b"POST /none HTTP/1.1\r\nHost: hog\r\nContent-Length: 1000000000\r\n\r\nbody",
    "idle": GET % b"/small",
}


class Served:
    def __init__(self, s):
        self.s, self.head, self.big, self.out, self.body = s, b"", 0, b"", False

    def asks(self, data):
        while b"\r\n\r\n" in self.head + data and not self.body:
            head, _, data = (self.head + data).partition(b"\r\n\r\n")
            self.head = b""
            self.body = head.startswith(b"POST")
            if b" /big " in head:
                self.big += BIG
                self.out += b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BIG
            elif not self.body:
                self.out += MEDIUM if b" /medium " in head else SMALL
        self.head = b"" if self.body else self.head + data

    def write(self):
        while self.out or self.big:
            if not self.out:
                self.out = PIECE[:self.big]
                self.big -= len(self.out)
            try:
                self.out = self.out[self.s.send(self.out):]
            except BlockingIOError:
                return True
        return False


def serve(port):
    selector, listener = selectors.DefaultSelector(), socket.create_server(("", port), backlog=4096)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    print("serving", flush=True)
    while True:
        for key, events in selector.select():
            if key.data is None:
                try:
                    s = listener.accept()[0]
                except OSError:
                    continue
                s.setblocking(False)
                selector.register(s, selectors.EVENT_READ, Served(s))
                continue
            try:
                if events & selectors.EVENT_READ:
                    data = key.fileobj.recv(65536)
                    if not data:
                        raise ConnectionError
                    key.data.asks(data)
                more = key.data.write()
                selector.modify(key.fileobj, selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0), key.data)
            except BlockingIOError:
                pass
            except OSError:
                selector.unregister(key.fileobj)
                key.fileobj.close()


class Hog:
    """Connections on their way are at most AT_ONCE; of those that are cut one comes again each AGAIN_S."""

    def __init__(self, kind, to, n):
        self.kind, self.to, self.n = kind, to, n
        self.selector, self.open, self.cut = selectors.DefaultSelector(), set(), 0
        self.connecting, self.arrived, self.turn = set(), 0, 0

    def begin(self):
        s = socket.socket()
        s.setblocking(False)
        if self.kind in ("pipelining", "readers", "sips"):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect_ex(self.to)
        self.connecting.add(s)
        self.selector.register(s, selectors.EVENT_WRITE, FIRST[self.kind])

    def end(self, s):
        self.selector.unregister(s)
        self.open.discard(s)
        self.connecting.discard(s)
        s.close()
        self.cut += 1

    def on(self, s, left, events):
        if s in self.connecting:
            if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise ConnectionError
            self.connecting.discard(s)
            self.open.add(s)
            self.arrived += 1
            if self.arrived == self.n:
                print("held", flush=True)
        if events & selectors.EVENT_WRITE:
            left = left[s.send(left):]
            if self.kind == "pipelining" and not left:
                left = FIRST[self.kind]
        wants = selectors.EVENT_WRITE if left else selectors.EVENT_READ
        if events & selectors.EVENT_READ and not s.recv(65536 if self.kind == "idle" else 1):
            raise ConnectionError
        if self.kind in ("readers", "sips", "pipelining") and not left:
            self.selector.unregister(s)  # it never reads, or in its turn; a reset is found when there is a new one
        else:
            self.selector.modify(s, wants, left)

    def drip(self):
        """A part of them, so that each has its turn within a second."""
        part = self.turn % PARTS
        self.turn += 1
        for s in [s for s in self.open if s.fileno() % PARTS == part]:
            try:
                if self.kind == "bodies":
                    s.send(b"b")
                else:
                    s.recv(16384)
            except BlockingIOError:
                pass
            except OSError:
                self.end(s)

    def find_cut(self):
        """Those that nobody listens to."""
        for s in list(self.open):
            if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                if s not in self.selector.get_map():
                    self.selector.register(s, selectors.EVENT_READ, b"")
                self.end(s)

    def run(self):
        started, next_s, next_part, again = 0, time.monotonic() + BYTE_S, 0, 0
        while True:
            now = time.monotonic()
            while started < self.n and len(self.connecting) < AT_ONCE:
                started += 1
                self.begin()
            if self.cut > 0 and now >= again:
                self.cut -= 1
                again = now + AGAIN_S
                self.begin()
            for key, events in self.selector.select(BYTE_S / PARTS if self.kind in ("bodies", "sips") else AGAIN_S):
                try:
                    self.on(key.fileobj, key.data, events)
                except BlockingIOError:
                    pass
                except OSError:
                    self.end(key.fileobj)
            if now > next_s:
                next_s = now + BYTE_S
                self.find_cut()
            if self.kind in ("bodies", "sips") and now > next_part:
                next_part = now + BYTE_S / PARTS
                self.drip()


def ask(to, n, every_ms):
    s, took, failed = None, [], 0
    for _ in range(n):
        began = time.monotonic()
        try:
            if s is None:
                s = socket.create_connection(to, 30)
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.sendall(GET % b"/small")
            got = b""
            while len(got) < 1024 or b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < 1024:
                more = s.recv(65536)
                if not more:
                    raise ConnectionError("closed")
                got += more
            failed += not got.startswith(b"HTTP/1.1 200 ")
        except OSError:
            failed, s = failed + 1, None
        took.append(time.monotonic() - began)
        time.sleep(max(0, every_ms / 1000 - took[-1]))
    took.sort()
    print(json.dumps({"p50_ms": took[n // 2] * 1000, "p99_ms": took[n * 99 // 100] * 1000, "failed": failed}), flush=True)


def main():
    what, *rest = sys.argv[1:]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if what == "serve":
        serve(int(rest[0]))
    elif what == "ask":
        ask((rest[0], int(rest[1])), int(rest[2]), int(rest[3]))
    else:
        Hog(what, (rest[0], int(rest[1])), int(rest[2])).run()


if __name__ == "__main__":
    main()
