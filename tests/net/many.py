"""Very many CONNECTs at once from one process, in the network namespace that it is started in.

    many.py serve PORT                     gives every byte back, on 127.0.0.1
    many.py ADDRESS PORT TARGET N          open N, TOGETHER of them unanswered (an address has no more places): each that is answered 200 sends a byte and waits for it to come back (behind the
                                           server's greeting, if there is one), then all wait for a line on standard input and close
                                           says a line of JSON: {"statuses": {"200": ..}, "reasons": [..], "served": ..}
    many.py ADDRESS PORT TARGET N cancel   at a line on standard input asks N times, at the next one gives all of them up, most by a
                                           reset, every fiftieth by a plain close; says a line of JSON each time"""
import collections
import json
import select
import socket
import struct
import sys

RESET = struct.pack("ii", 1, 0)
TOGETHER = 500


def serve(port):
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    poll, sockets = select.epoll(), {}
    poll.register(listener, select.EPOLLIN)
    print("serving", flush=True)
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                s, _ = listener.accept()
                sockets[s.fileno()] = s
                poll.register(s, select.EPOLLIN)
                continue
            try:
                data = sockets[fd].recv(4096)
                sockets[fd].sendall(data)
            except OSError:
                data = b""
            if not data:
                poll.unregister(fd)
                sockets.pop(fd).close()


def begin():
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect(ADDRESS)
    except BlockingIOError:
        pass
    return s


def open_all():
    statuses, reasons, served = collections.Counter(), set(), 0
    poll, asked, waiting = select.epoll(), {}, set()
    while waiting or len(asked) < N:
        while len(waiting) < TOGETHER and len(asked) < N:
            s = begin()
            asked[s.fileno()] = [s, None]  # what it was answered; None: it has not asked yet
            waiting.add(s.fileno())
            poll.register(s, select.EPOLLOUT)
        events = poll.poll(60)
        if not events:
            statuses["silent"] += len(waiting)
            break
        for fd, _ in events:
            s, got = asked[fd][:2]
            if got is None:
                try:
                    s.send(REQUEST)
                    asked[fd][1] = b""
                    poll.modify(fd, select.EPOLLIN)
                    continue
                except OSError:
                    data = b""
            else:
                try:
                    data = s.recv(4096)
                except OSError:
                    data = b""
            got = asked[fd][1] = (got or b"") + data
            head, end, body = got.partition(b"\r\n\r\n")
            if data and end and head.split()[1] == b"200":
                if len(asked[fd]) == 2:
                    asked[fd].append(True)
                    s.send(b"?")
                if not body.endswith(b"?"):
                    continue
                served += 1
            elif data:
                continue  # a refusal is read to its end
            statuses[head.split()[1].decode() if end else "none"] += 1
            if end and not head.startswith(b"HTTP/1.1 200"):
                reasons.add(body.decode(errors="replace"))
            waiting.discard(fd)
            poll.unregister(fd)
    print(json.dumps({"statuses": statuses, "reasons": sorted(reasons)[:20], "served": served}), flush=True)
    sys.stdin.readline()


def cancel_all():
    for _ in sys.stdin:
        sockets = [begin() for _ in range(N)]
        for s in sockets:
            s.setblocking(True)
            s.sendall(REQUEST)
        print(json.dumps({"asked": N}), flush=True)
        sys.stdin.readline()
        for i, s in enumerate(sockets):
            give_up(s, i)
        print(json.dumps({"gone": N}), flush=True)


def give_up(s, i):
    if i % 50:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    s.close()


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
ADDRESS, TARGET = (sys.argv[1], int(sys.argv[2])), sys.argv[3]
N = int(sys.argv[4])
REQUEST = f"CONNECT {TARGET} HTTP/1.1\r\nHost: {TARGET}\r\n\r\n".encode()
cancel_all() if "cancel" in sys.argv else open_all()
