"""Bytes between two sockets, TLS or not. One thread has both of them, since an SSLSocket must not be used by two at a time.

    splice(a, b)               # until either side ends; closes both
    sock = plain(tls)          # a socket that any thread may use, in place of the SSLSocket
"""
import select
import socket
import ssl
import threading

PIECE = 1 << 17
LATER = BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError


def take(s):
    """None: nothing is there. b"": the end."""
    try:
        return s.recv(PIECE)
    except LATER:
        return None
    except (OSError, ValueError):
        return b""


def give(s, data):
    """How much went."""
    try:
        return s.send(data)
    except LATER:
        return 0


def wait(held):
    poll, other = select.poll(), dict(zip(held, reversed(held)))
    for s in held:
        events = (select.POLLOUT if held[s] else 0) | (0 if held[other[s]] else select.POLLIN)
        if events:
            poll.register(s, events)
    poll.poll()


def end(s):
    try:
        if isinstance(s, ssl.SSLSocket):
            s.unwrap()  # close_notify; nobody waits for the answer
    except (OSError, ValueError):
        pass
    try:
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    s.close()


def splice(a, b):
    for s in (a, b):
        s.setblocking(False)
    held = {a: memoryview(b""), b: memoryview(b"")}  # what each is still to be given
    try:
        while True:
            moved = False
            for source, sink in ((a, b), (b, a)):
                if not held[sink]:
                    data = take(source)
                    if data == b"":
                        return
                    held[sink] = memoryview(data or b"")
                if held[sink]:
                    n = give(sink, held[sink])
                    held[sink] = held[sink][n:]
                    moved |= n > 0
            if not moved:
                wait(held)
    except OSError:
        pass
    finally:
        end(a)
        end(b)


def plain(s):
    if not isinstance(s, ssl.SSLSocket):
        return s
    mine, its = socket.socketpair()
    mine.settimeout(s.gettimeout())
    threading.Thread(target=splice, args=(s, its), daemon=True).start()
    return mine
