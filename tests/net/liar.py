"""Upstreams that are broken in one way each: liar.py ADDRESS=MODE[:MILLISECONDS] ...

Each address has UDP and TCP on port 53; `wrong-source` answers from 192.0.2.60. A good answer is 203.0.113.7 or 2001:db8::7 for every name, with TTL 60; `short`
gives TTL 1. What a lie says is 198.51.100.66, so that nobody can take it for an answer.
"""
import heapq
import os
import selectors
import socket
import struct
import sys
import time

GOOD = {1: bytes((203, 0, 113, 7)), 28: bytes.fromhex("20010db8" + "0" * 23 + "7")}
LIE = {1: bytes((198, 51, 100, 66)), 28: bytes.fromhex("20010db8" + "0" * 22 + "66")}


def question(q):
    at = 12
    while q[at]:
        at += q[at] + 1
    return q[12:at + 5], struct.unpack("!H", q[at + 1:at + 3])[0]


def reply(q, flags=0x8180, says=GOOD, asked=None, id=None, ttl=60):
    own, rtype = question(q)
    data = says.get(rtype) if flags & 0x020f == 0 else None
    record = struct.pack("!HHHIH", 0xc00c, rtype, 1, ttl, len(data)) + data if data else b""
    return (id or q[:2]) + struct.pack("!5H", flags, 1, 1 if data else 0, 0, 0) + (asked or own) + record


def torn(q, kind):
    """An answer that begins well: id and question are right."""
    head = q[:2] + struct.pack("!5H", 0x8180, 1, 3, 0, 0) + question(q)[0]
    return head + {"torn": os.urandom(40), "cut": reply(q)[len(head):-2], "loop": b"\xc0" + bytes([len(head)]) + b"\0" * 12}[kind]


class Server:
    def __init__(self, address, mode):
        self.mode, _, ms = mode.partition(":")
        self.delay_s = int(ms or 0) / 1000
        self.other = None
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, 53))
        if self.mode == "wrong-source":
            self.other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.other.bind(("192.0.2.60", 53))
        self.tcp = None
        if self.mode != "tc-refused":
            self.tcp = socket.create_server((address, 53), backlog=64)

    def say(self, q, by_tcp):
        """[(seconds from now, answer)]"""
        m = self.mode
        lies = {"servfail": 0x8182, "refused": 0x8185, "notimp": 0x8184, "formerr": 0x8181}
        if m in lies:
            return [(0, reply(q, flags=lies[m]))]
        if m == "other-question":
            return [(0, reply(q, says=LIE, asked=b"\5other\4test\0" + question(q)[0][-4:]))]
        if m == "other-type":
            return [(0, reply(q, says=LIE, asked=question(q)[0][:-4] + b"\0\x10\0\1"))]
        if m == "wrong-id":
            return [(0, reply(q, says=LIE, id=bytes((q[0] ^ 1, q[1] ^ 0x55))))]
        if m == "forged-first":
            return [(0, reply(q, says=LIE, id=bytes((q[0] ^ 1, q[1] ^ 0x55)))), (0.005, reply(q))]
        if m == "wrong-source":
            return [(0, reply(q, says=LIE))]
        if m.startswith("tc") and not by_tcp:
            return [(0, reply(q, flags=0x8380))]
        if m == "garbage":
            return [(0, q[:2] + os.urandom(len(q)))]
        if m in ("torn", "cut", "loop"):
            return [(0, torn(q, m))]
        if m == "header":
            return [(0, q[:2] + struct.pack("!5H", 0x8180, 0, 0, 0, 0))]
        if m == "query-back":
            return [(0, q)]
        if m == "silent" or m == "tc-silent" or (m == "flapping" and int(time.time()) % 2):
            return []
        return [(self.delay_s, reply(q, ttl=1 if m == "short" else 60))]


class Loop:
    def __init__(self, servers):
        self.ready, self.later, self.n = selectors.DefaultSelector(), [], 0
        for s in servers:
            self.ready.register(s.udp, selectors.EVENT_READ, (self.on_udp, s))
            if s.tcp:
                self.ready.register(s.tcp, selectors.EVENT_READ, (self.on_connect, s))

    def at(self, seconds, send):
        self.n += 1
        heapq.heappush(self.later, (time.monotonic() + seconds, self.n, send))

    def on_udp(self, server, s):
        q, client = s.recvfrom(4096)
        for seconds, wire in server.say(q, False):
            self.at(seconds, lambda wire=wire: (server.other or s).sendto(wire, client))

    def on_connect(self, server, s):
        c = s.accept()[0]
        self.ready.register(c, selectors.EVENT_READ, (self.on_tcp, server))

    def on_tcp(self, server, c):
        """Whole queries in one piece: c-ares sends them so."""
        data = c.recv(65536)
        if not data:
            self.ready.unregister(c)
            c.close()
        while len(data) > 2:
            n = struct.unpack("!H", data[:2])[0]
            for seconds, wire in server.say(data[2:2 + n], True):
                self.at(seconds, lambda wire=wire: c.sendall(struct.pack("!H", len(wire)) + wire))
            data = data[2 + n:]

    def run(self):
        while True:
            wait = max(0, self.later[0][0] - time.monotonic()) if self.later else None
            for key, _ in self.ready.select(wait):
                act, server = key.data
                try:
                    act(server, key.fileobj)
                except (OSError, IndexError, struct.error) as e:
                    print(f"{server.mode}: {e}", flush=True)
            while self.later and self.later[0][0] <= time.monotonic():
                try:
                    heapq.heappop(self.later)[2]()
                except OSError as e:
                    print(f"not sent: {e}", flush=True)


if __name__ == "__main__":
    loop = Loop([Server(*arg.split("=")) for arg in sys.argv[1:]])
    print("serving", flush=True)
    loop.run()
