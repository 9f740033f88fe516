#!/usr/bin/python3
"""A flood of one kind against a hub, until it is killed: bad_node.py KIND HUB DATADIR... Not a bench of its own: bench_bad_node.py starts it."""
import contextlib
import itertools
import os
import socket
import ssl
import struct
import sys
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HOLE = b"192.0.2.99:80"
HELLO_THREADS = 16


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


FRAMES = {
    "priority": frame(2, 0, 101, b"\0\0\0\0\1"),
    "unknown": frame(0xee, 0, 0),
    "goaway": frame(7, 0, 0, bytes(8)),
    "window": frame(8, 0, 0, b"\0\0\0\1"),
}
HEAD = (b"\x02\x07CONNECT\x01" + bytes([len(HOLE)]) + HOLE + literal(b"edgeway-service", b"default/hole") + literal(b"edgeway-node", b"cloud-1"))


def connect(hub, data, alpn):
    context = ssl.create_default_context(cafile=os.path.join(data, "ca.pem"))
    context.load_cert_chain(os.path.join(data, "node.crt"), os.path.join(data, "node.key"))
    context.set_alpn_protocols([alpn])
    s = context.wrap_socket(socket.create_connection((hub, 10000)), server_hostname=hub)
    s.settimeout(60)
    return s


def drain(s):
    with contextlib.suppress(OSError):
        while s.recv(1 << 16):
            pass


def flood_frames(s, kind):
    s.sendall(frame(4, 0, 0) + frame(4, 1, 0))
    block = FRAMES[kind] * 4000
    while True:
        s.sendall(block)


def flood_streams(s, kind):
    """connects: each is given up at once, so that the next is not one too many; heads: 16 kB of fields of a byte each."""
    s.sendall(PREFACE + frame(4, 0, 0) + frame(4, 1, 0))
    threading.Thread(target=drain, args=(s,), daemon=True).start()
    head = HEAD if kind == "connects" else HEAD + b"\x90" * (16384 - len(HEAD))
    each = 500 if kind == "connects" else 10
    number = 1
    while True:
        block = b"".join(frame(1, 4, i, head) + (frame(3, 0, i, b"\0\0\0\x08") if i % 8 else b"") for i in range(number, number + 2 * each, 2))
        number += 2 * each
        s.sendall(block)


def flood_hellos(hub):
    context, sent = ssl.create_default_context(), ssl.MemoryBIO()
    context.set_alpn_protocols(["edgeway-tunnel-reverse/1"])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="hub").do_handshake()
    hello = sent.read()

    def one():
        while True:
            with contextlib.suppress(OSError), socket.create_connection((hub, 10000)) as s:
                s.sendall(hello)
                s.recv(1)
    for _ in range(HELLO_THREADS):
        threading.Thread(target=one, daemon=True).start()
    threading.Event().wait()


def main():
    kind, hub, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    print("floods", flush=True)
    if kind == "hellos":
        flood_hellos(hub)
    for data in itertools.cycle(names):
        with contextlib.suppress(OSError), connect(hub, data, "edgeway-tunnel-reverse/1" if kind in FRAMES else "edgeway-tunnel/1") as s:
            (flood_frames if kind in FRAMES else flood_streams)(s, kind)


main()
