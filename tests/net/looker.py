"""A viewer of the hub's page without a browser: requests as bytes, and the websocket with its lines."""
import base64
import json
import os
import socket
import ssl
import struct
import time

from httpkit import socket_of
from lab import PATIENCE_S

ADDRESS, PORT, SECRET = "192.0.2.1", 10014, "open-sesame"
HOST = f"{ADDRESS}:{PORT}"
BASIC = "Authorization: Basic " + base64.b64encode(f"anybody:{SECRET}".encode()).decode()


def connect(machine, tls=True, pair=None, small=False):
    s = socket_of(machine)
    if small:  # before it connects: a window that shrinks later would hold up what we send, too
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    s.connect((ADDRESS, PORT))
    if not tls:
        return s
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair:
        context.load_cert_chain(*pair)
    return context.wrap_socket(s)


def head_of(s):
    """(status, {field: value}, what came behind it)"""
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(65536)
        if not more:
            return 0, {}, data
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}, rest


def ask(machine, *lines, method="GET", path="/", host=HOST, body="", **more):
    """(status, fields, body) of one request; lines: of its head."""
    with connect(machine, **more) as s:
        fields = [f"Host: {host}", "Connection: close", *lines]
        s.sendall(f"{method} {path} HTTP/1.1\r\n{''.join(f + chr(13) + chr(10) for f in fields)}\r\n{body}".encode())
        status, found, rest = head_of(s)
        while len(rest) < int(found.get("content-length", 0)) and method != "HEAD":
            rest += s.recv(65536)
        return status, found, rest.decode()


class Looker:
    def __init__(self, machine, *lines, credentials=BASIC, origin=f"https://{HOST}", **more):
        self.s = connect(machine, **more)
        key = base64.b64encode(os.urandom(16)).decode()
        fields = [f"Host: {HOST}", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
                  f"Origin: {origin}", *([credentials] if credentials else []), *lines]
        self.s.sendall(f"GET /live HTTP/1.1\r\n{''.join(f + chr(13) + chr(10) for f in fields)}\r\n".encode())
        self.status, self.fields, self.left = head_of(self.s)
        self.text, self.code = b"", None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.s.close()

    def frame(self, opcode, payload):
        mask = os.urandom(4)
        n = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack(">H", len(payload))
        self.s.sendall(bytes([0x80 | opcode]) + n + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))

    def want(self, line):
        self.frame(2, line.encode() + b"\n")

    def more(self):
        data = self.s.recv(65536)
        self.left += data
        return data

    def take(self, n):
        while len(self.left) < n:
            if not self.more():
                raise EOFError
        got, self.left = self.left[:n], self.left[n:]
        return got

    def step(self):
        """One frame."""
        first, n = self.take(2)
        if n == 126:
            n = struct.unpack(">H", self.take(2))[0]
        payload = self.take(n)
        if first & 15 == 9:
            self.frame(10, payload)
        elif first & 15 == 8:
            self.code = struct.unpack(">H", payload[:2])[0] if payload else 1005
        else:
            self.text += payload

    def next(self, kind, condition=lambda m: True, seconds=PATIENCE_S):
        """The next message of this kind, as an object."""
        end = time.monotonic() + seconds
        while True:
            while b"\n" not in self.text:
                if self.code is not None:
                    raise EOFError(self.code)
                if time.monotonic() > end:  # a ping comes every 10 s
                    raise TimeoutError(kind)
                self.step()
            line, _, self.text = self.text.partition(b"\n")
            message = json.loads(line)
            if message["t"] == kind and condition(message):
                return message

    def closed(self):
        """The code of the close frame; 0: the connection ended without one."""
        try:
            while self.code is None:
                self.step()
        except (EOFError, ConnectionError):
            return self.code or 0
        return self.code
