"""A node's agent in a few lines, for what no real one does: it is connected, says nothing of its own, and answers questions as it is told.

    with Pretender(machine, address, ca, "old-1", answer=None):          # an agent from before there were questions
    with Pretender(machine, address, ca, "odd-1", answer=lambda ask: ("response", {"known": True})): ...
"""
import contextlib
import json
import os
import socket
import ssl
import struct
import threading
import uuid

from dnskit import socket_in
from lab import HUB_PORT, PATIENCE_S

PROJECT = "e632aba927ea4ac2b575ec1603d56f10"


class Pretender:
    def __init__(self, machine, address, ca, name, answer, *headers):
        """answer: of a question's resource, (operation, content), or None: it is not answered."""
        self.answer, self.left, self.asked = answer, b"", []
        cert, key = ca.issue(name, "extendedKeyUsage=clientAuth")
        context = ssl.create_default_context(cafile=ca.cert)
        context.check_hostname = False
        context.load_cert_chain(cert, key)
        s = socket_in(machine, socket.SOCK_STREAM, address, HUB_PORT)
        s.settimeout(60)
        self.s = context.wrap_socket(s)
        lines = [f"GET /{PROJECT}/{name}/events HTTP/1.1", f"Host: {address}", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", f"node_id: {name}", f"project_id: {PROJECT}",
                 "connectionuse: msg", "edgeway-version: 1", "edgeway-agent: 0.0.9", *(["edgeway-answers: health"] if answer else []), *headers]
        self.s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.left:
            self.left += self.s.recv(4096)
        head, _, self.left = self.left.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        self.over, self.thread = False, threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.over = True
        with contextlib.suppress(OSError):
            self.s.shutdown(socket.SHUT_RDWR)
        self.s.close()
        self.thread.join(PATIENCE_S)

    def alive(self):
        return self.thread.is_alive()

    def take(self, n):
        while len(self.left) < n:
            data = self.s.recv(65536)
            if not data:
                raise ConnectionError
            self.left += data
        got, self.left = self.left[:n], self.left[n:]
        return got

    def frame(self, opcode, payload):
        n = len(payload)
        size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        self.s.sendall(bytes([0x80 | opcode]) + size + b"\0\0\0\0" + payload)  # masked with nothing

    def step(self):
        first, n = self.take(2)
        if n >= 126:
            n = struct.unpack(">H" if n == 126 else ">Q", self.take(2 if n == 126 else 8))[0]
        payload = self.take(n)
        if first & 15 == 9:
            self.frame(10, payload)
        elif first & 15 == 8:
            raise ConnectionError
        elif first & 15 == 1:
            self.heed(json.loads(payload))

    def heed(self, message):
        ask = message["route"]["resource"]
        if message["route"]["operation"] != "query":
            return
        self.asked.append(ask)
        say = self.answer and self.answer(ask)
        if say is None:
            return
        self.frame(1, json.dumps({
            "header": {"msg_id": str(uuid.uuid4()), "parent_msg_id": message["header"]["msg_id"], "timestamp": 1, "resourceversion": "", "sync": False},
            "route": {"source": "edgeway-agent", "group": "resource", "operation": say[0], "resource": ask}, "content": say[1]}).encode())

    def run(self):
        try:
            while True:
                self.step()
        except (OSError, ValueError):
            if not self.over and os.environ.get("EDGEWAY_DEBUG"):
                raise
