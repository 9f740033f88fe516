"""What kube-apiserver says to a proxy of its EgressSelector (HTTPConnect), and what it takes for an answer."""


class Refused(Exception):
    """What was answered in place of 200; status 0: something that kube-apiserver takes for no answer at all."""

    def __init__(self, status, head):
        super().__init__(f"{status}: {head!r}")
        self.status, self.head = status, head


def http_connect(s, target):
    """One write, nothing before the answer; after the 200's blank line there must not be a byte in the same read."""
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        more = s.recv(4096)
        if not more:
            raise Refused(0, head)
        head += more
    status = int(head.split(b" ", 2)[1])
    if status != 200:
        raise Refused(status, head)
    if not head.endswith(b"\r\n\r\n") or head.count(b"\r\n\r\n") != 1:
        raise Refused(0, head)
    return s
