"""What the DNS tests share: sockets inside a machine, TCP's framing, many names asked at a pace."""
import ctypes
import selectors
import socket
import struct
import threading
import time

from lab import PATIENCE_S

SERVER, D = "172.17.0.1", "cluster.local"
CLONE_NEWNET = 0x40000000
A, AAAA = 1, 28
GOOD_A, GOOD_AAAA = bytes((203, 0, 113, 7)), bytes.fromhex("20010db8" + "0" * 23 + "7")


def socket_in(machine, kind, server=SERVER, port=53):
    """A socket of another network namespace: it stays there, the thread that opened it does not."""
    made, libc = [], ctypes.CDLL(None, use_errno=True)

    def enter():
        with open(f"/proc/{machine.holder.pid}/ns/net", "rb") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) == 0:
                made.append(socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, kind))
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    made[0].settimeout(PATIENCE_S)
    made[0].connect((server, port))
    return made[0]


def exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        assert more, f"closed after {len(data)} of {n} bytes"
        data += more
    return data


def framed(wire):
    return struct.pack("!H", len(wire)) + wire


def read_framed(s):
    return exactly(s, struct.unpack("!H", exactly(s, 2))[0])


def plain_query(id, name, rtype=A):
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
    return struct.pack("!6H", id, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", rtype, 1)


class Asked:
    """Many names, each for A and AAAA at once, one after the other in `seconds`, without a second try."""

    def __init__(self, pod, names, seconds, patience=30.0):
        self.pod, self.names, self.seconds, self.patience = pod, names, seconds, patience
        self.took_ms, self.failures = [], []
        self.open = {}
        self.socket = socket_in(pod, socket.SOCK_DGRAM)
        self.socket.setblocking(False)

    def send_due(self, now):
        while self.next < len(self.names) and now >= self.start + self.next * self.seconds / len(self.names):
            for rtype in (A, AAAA):
                id = 2 * self.next + (rtype == AAAA)
                self.open[id] = (self.names[self.next], rtype, time.monotonic())
                self.socket.send(plain_query(id, self.names[self.next], rtype))
            self.next += 1

    def take(self, wire):
        id, flags = struct.unpack("!HH", wire[:4])
        name, rtype, sent = self.open.pop(id, (None, 0, 0))
        if name is None:
            self.failures.append((id, "answered twice"))
        elif flags & 0x020f:
            self.failures.append((name, rtype, f"flags {flags:#06x}"))
        elif not wire.endswith(GOOD_A if rtype == A else GOOD_AAAA):
            self.failures.append((name, rtype, wire.hex()))
        else:
            self.took_ms.append(1000 * (time.monotonic() - sent))

    def run(self):
        self.start, self.next = time.monotonic(), 0
        with self.socket, selectors.DefaultSelector() as ready:
            ready.register(self.socket, selectors.EVENT_READ)
            while self.next < len(self.names) or self.open:
                self.send_due(time.monotonic())
                if time.monotonic() > self.start + self.seconds + self.patience:
                    break
                if ready.select(0.005):
                    try:
                        self.take(self.socket.recv(65535))
                    except OSError as e:
                        self.failures.append((str(e),))
        self.failures += [(name, rtype, "no answer") for name, rtype, _ in self.open.values()]
        return self

    def percentile(self, p):
        ordered = sorted(self.took_ms)
        return ordered[max(0, -(-len(ordered) * p // 100) - 1)] if ordered else float("inf")

    def __repr__(self):
        return (f"{len(self.took_ms)} answers, {len(self.failures)} failures {self.failures[:3]}, "
                f"p50 {self.percentile(50):.1f} p99 {self.percentile(99):.1f} max {self.percentile(100):.1f} ms")
