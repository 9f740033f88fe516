"""What kubectl, kube-apiserver and kubelets talk once a connection is upgraded: SPDY/3.1 as client-go speaks it (frames and header
blocks; nobody there uses its flow control) and websockets (RFC 6455). Over anything with sendall and recv, for either side.

    spdy = Spdy(sock, client=True)
    stream = spdy.open({"streamtype": "stdout"})
    for kind, stream, value, fin in spdy.events(): ...     # "open", "reply": fields; "data": bytes; "reset": status

    ws = Websocket(sock, client=True)
    ws.send(b"\\0stdin")
    for message in ws.messages(): ...
"""
import base64
import hashlib
import os
import struct
import threading
import zlib

# --- SPDY ----------------------------------------------------------------------------------------------

WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization
cache-control connection content-base content-encoding content-language content-length content-location content-md5 content-range
content-type date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified
location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding
upgrade user-agent vary via warning www-authenticate method get status""".split() + [
    "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"]
CODES = """100 101 201 202 205 206 300 302 303 304 305 306 307 402 405 406 407 408 409 410 411 412 413 414 415 416 417 502 504 505""".split()
LINES = ("203 Non-Authoritative Information", "204 No Content", "301 Moved Permanently", "400 Bad Request", "401 Unauthorized",
         "403 Forbidden", "404 Not Found", "500 Internal Server Error", "501 Not Implemented", "503 Service Unavailable")
REST = ("Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec", " 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT",
        "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,",
        "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.")
# Both sides begin with it (SPDY/3, section 2.6.10.1); zlib's header names it by this checksum.
DICTIONARY = b"".join(struct.pack(">I", len(w)) + w.encode() for w in WORDS) + "".join((*CODES, *LINES, *REST)).encode()
assert zlib.adler32(DICTIONARY) == 0xe3c6a7c2
SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1


class Ended(Exception):
    """The other side has closed."""


def read_exactly(sock, n):
    parts = []
    while n > 0:
        part = sock.recv(min(n, 1 << 18))
        if not part:
            raise Ended
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


class Spdy:
    def __init__(self, sock, client=False):
        self.sock, self.lock, self.next = sock, threading.Lock(), 1 if client else 2
        self.deflate, self.inflate = zlib.compressobj(zdict=DICTIONARY), zlib.decompressobj(zdict=DICTIONARY)

    def control(self, kind, body, flags=0):
        self.sock.sendall(struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body)

    def block(self, fields):
        text = struct.pack(">I", len(fields))
        for pair in fields.items():
            for word in pair:
                text += struct.pack(">I", len(word)) + word.encode()
        return self.deflate.compress(text) + self.deflate.flush(zlib.Z_SYNC_FLUSH)

    def fields(self, packed):
        text = self.inflate.decompress(packed)
        (n,), at, words = struct.unpack_from(">I", text), 4, []
        for _ in range(2 * n):
            (size,) = struct.unpack_from(">I", text, at)
            words.append(text[at + 4:at + 4 + size].decode())
            at += 4 + size
        return {k.lower(): v for k, v in zip(words[::2], words[1::2])}

    def open(self, fields, fin=False):
        with self.lock:
            stream, self.next = self.next, self.next + 2
            self.control(SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self.block(fields), FIN if fin else 0)
        return stream

    def reply(self, stream, fields=None):
        with self.lock:
            self.control(SYN_REPLY, struct.pack(">I", stream) + self.block(fields or {}))

    def data(self, stream, data, fin=False):
        with self.lock:
            self.sock.sendall(struct.pack(">II", stream, (FIN if fin else 0) << 24 | len(data)) + data)

    def ping(self, number):
        with self.lock:
            self.control(PING, struct.pack(">I", number))

    def goaway(self):
        with self.lock:
            self.control(GOAWAY, struct.pack(">II", 0, 0))

    def events(self):
        """Until the other side closes. Pings of the other side are answered, those of ours are told."""
        try:
            while True:
                first, second = struct.unpack(">II", read_exactly(self.sock, 8))
                body, fin = read_exactly(self.sock, second & 0xffffff), bool(second >> 24 & FIN)
                if not first >> 31:
                    yield "data", first, body, fin
                    continue
                assert first >> 16 == 0x8003, hex(first)
                kind = first & 0xffff
                (stream,) = struct.unpack_from(">I", body)
                if kind == SYN_STREAM:
                    yield "open", stream, self.fields(body[10:]), fin
                elif kind == SYN_REPLY:
                    yield "reply", stream, self.fields(body[4:]), fin
                elif kind == RST_STREAM:
                    yield "reset", stream, struct.unpack_from(">I", body, 4)[0], True
                elif kind == PING and stream % 2 != self.next % 2:
                    self.ping(stream)
                elif kind == PING:
                    yield "ping", stream, None, False
                elif kind == GOAWAY:
                    yield "goaway", 0, None, False
        except (Ended, OSError):
            return


# --- websockets ------------------------------------------------------------------------------------------

TEXT, BINARY, CLOSE, WS_PING, PONG = 1, 2, 8, 9, 10


def accept_key(key):
    """Sec-WebSocket-Accept for a Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def masked(data, mask):
    n = len(data)
    whole = (mask * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(n, "big") if n else b""


class Websocket:
    def __init__(self, sock, client=False):
        self.sock, self.client, self.lock = sock, client, threading.Lock()

    def send(self, data, kind=BINARY):
        n, bit = len(data), 0x80 if self.client else 0
        head = bytes([0x80 | kind]) + (bytes([bit | n]) if n < 126 else struct.pack(">BH", bit | 126, n) if n < 1 << 16
                                       else struct.pack(">BQ", bit | 127, n))
        mask = os.urandom(4) if self.client else b""
        with self.lock:
            self.sock.sendall(head + mask + (masked(data, mask) if mask else data))

    def close(self, code=1000):
        self.send(struct.pack(">H", code), CLOSE)

    def messages(self):
        """Until the other side closes, with or without saying so."""
        whole = b""
        try:
            while True:
                first, second = read_exactly(self.sock, 2)
                n = second & 127
                if n > 125:
                    n = int.from_bytes(read_exactly(self.sock, 2 if n == 126 else 8), "big")
                mask = read_exactly(self.sock, 4) if second & 128 else None
                data = read_exactly(self.sock, n)
                data = masked(data, mask) if mask else data
                kind = first & 15
                if kind == CLOSE:
                    return
                if kind == WS_PING:
                    self.send(data, PONG)
                elif kind < 3:
                    whole += data
                    if first & 128:
                        yield whole
                        whole = b""
        except (Ended, OSError):
            return


class OverWebsocket:
    """Bytes as binary messages: what SPDY/3.1+portforward.k8s.io carries its frames in."""

    def __init__(self, ws):
        self.ws, self.incoming, self.rest = ws, ws.messages(), b""

    def sendall(self, data):
        self.ws.send(data)

    def recv(self, n):
        while not self.rest:
            self.rest = next(self.incoming, None)
            if self.rest is None:
                self.rest = b""
                return b""
        part, self.rest = self.rest[:n], self.rest[n:]
        return part
