"""udpsend.py HOST PORT COUNT [--size N] [--from PORT] [--same] [--pause S]: sends COUNT datagrams, each from a port of its
own (--same: all from one), and prints for each who answered and from which address, or why not."""
import argparse
import socket
import time

parser = argparse.ArgumentParser()
parser.add_argument("host")
parser.add_argument("port", type=int)
parser.add_argument("count", type=int)
parser.add_argument("--size", type=int, default=4)
parser.add_argument("--from", type=int, default=0, dest="source")
parser.add_argument("--same", action="store_true")
parser.add_argument("--pause", type=float, default=0)
o = parser.parse_args()
family, _, _, _, (host, *_) = socket.getaddrinfo(o.host, o.port, type=socket.SOCK_DGRAM)[0]


def opened(connect):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.bind(("", o.source))
    if connect:
        s.connect((host, o.port))
    return s


kept = opened(False) if o.same else None
for i in range(o.count):
    s = kept or opened(True)
    payload = bytes([i & 255]) * o.size
    try:
        s.sendto(payload, (host, o.port)) if kept else s.send(payload)
        answer, (address, port, *_) = s.recvfrom(65536)
        name, _, rest = answer.partition(b"\n")
        print(name.decode(), f"{address}:{port}" if rest == payload[:65507 - len(name) - 1] else "other bytes", flush=True)
    except OSError as e:
        print("none", type(e).__name__, flush=True)
    if kept is None:
        s.close()
    time.sleep(o.pause)
