"""The soak's traffic from one machine: soak_client.py PLAN OUT. PLAN is a JSON list of ways (bench/soak_town.py makes it), each of which
goes on until SIGTERM; then what has begun is finished. OUT gets a JSON line for each loss and at the end one for each way.

A loss tells since when the connection was not known to work (`since`): a fault that lies between there and its end may excuse it. What is
wrong in what was received is no loss but an error (`wrong`), which nothing excuses. An idle keep-alive connection that
ends as a GET is sent is no loss either: clients ask again (RFC 9112, 9.3.1), and so does this one, counted as `again`.
"""
import asyncio
import hashlib
import json
import signal
import socket
import struct
import sys
import time

PATIENCE_S = 40
stopping = asyncio.Event()


class Wrong(Exception):
    pass


class Way:
    def __init__(self, item, out):
        self.__dict__.update({"keep": False, "via": None, "expect": None, "size": 1024, "life": 0, **item})
        self.out, self.count, self.lost, self.again, self.slowest = out, 0, 0, 0, 0.0
        self.reader = self.writer = None
        self.since = time.monotonic()

    def good(self, began):
        now = time.monotonic()
        self.count, self.since, self.slowest = self.count + 1, now, max(self.slowest, now - began)

    def bad(self, error):
        self.lost += 1
        self.tell(since=self.since, end=time.monotonic(), why=repr(error)[:200], wrong=isinstance(error, Wrong))

    def tell(self, **what):
        self.out.write(json.dumps({"label": self.label, **what}) + "\n")

    def close(self):
        if self.writer is not None:
            self.writer.transport.abort() if self.op in ("echo", "down") else self.writer.close()
            self.writer = None

    async def open(self):
        """A connection to the target, through a proxy where there is one: with CONNECT for what is no HTTP."""
        self.since = time.monotonic()
        self.reader, self.writer = await asyncio.open_connection(*(self.via or (self.host, self.port)))
        if self.via and self.op != "http":
            self.writer.write(f"CONNECT {self.host}:{self.port} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            head = await self.reader.readuntil(b"\r\n\r\n")
            if head.split()[1] != b"200":
                raise OSError(head.decode(errors="replace"))

    async def turn(self):
        began = time.monotonic()
        try:
            await asyncio.wait_for(OPERATIONS[self.op](self, began), PATIENCE_S + self.life)
        except Wrong as e:
            self.bad(e)
            self.close()
        except (OSError, EOFError, ValueError, asyncio.TimeoutError) as e:
            self.bad(e)
            self.close()

    async def run(self):
        while not stopping.is_set():
            await self.turn()
            try:
                await asyncio.wait_for(stopping.wait(), self.pause)
            except asyncio.TimeoutError:
                pass
        self.close()
        self.tell(count=self.count, lost=self.lost, again=self.again, slowest_s=round(self.slowest, 3))


async def ask(way):
    target = f"http://{way.host}:{way.port}/" if way.via else "/"
    last = "" if way.keep else "Connection: close\r\n"
    way.writer.write(f"GET {target} HTTP/1.1\r\nHost: {way.host}:{way.port}\r\n{last}\r\n".encode())
    head = (await way.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = (await way.reader.readexactly(int(fields.get("content-length", 0)))).decode()
    if not way.keep or fields.get("connection") == "close":
        way.close()
    return head[0].split()[1], body.strip()


async def http(way, began):
    used = way.writer is not None and not way.reader.at_eof()
    if not used:
        way.close()
        await way.open()
    else:
        way.since = min(way.since, began)
    try:
        status, body = await ask(way)
    except (ConnectionError, asyncio.IncompleteReadError) as e:
        if not used or getattr(e, "partial", b""):
            raise
        way.again += 1
        way.close()
        await way.open()
        status, body = await ask(way)
    if status != "200":
        raise OSError(f"{status} {body}")
    if body not in way.expect:
        raise Wrong(f"answered by {body!r}")
    way.good(began)


async def echo(way, began):
    await way.open()
    who = (await way.reader.readuntil(b"\n")).decode().strip()
    if who not in way.expect:
        raise Wrong(f"answered by {who!r}")
    n = 0
    while time.monotonic() < began + way.life and not stopping.is_set():
        n, at = n + 1, time.monotonic()
        block = struct.pack("!Q", n) * (way.size // 8)
        way.writer.write(block)
        got = await way.reader.readexactly(len(block))
        if got != block:
            raise Wrong(f"block {n} came back as another")
        way.good(at)
        await asyncio.sleep(way.each)
    way.writer.write_eof()
    if await way.reader.read():
        raise Wrong("bytes after the last")
    way.close()


async def down(way, began):
    """A transfer with its checksum; a slow reader takes its time. Buffers on the way may hide a break for long, so it counts from its start."""
    await way.open()
    way.writer.write(b"down %d\n" % way.size)
    digest, rest, n = hashlib.sha256(), b"", 0
    while data := await way.reader.read(16384):
        n += len(data)
        rest += data
        digest.update(rest[:-32])
        rest = rest[-32:]
        if way.each:
            await asyncio.sleep(way.each)
    if n < way.size + 32:
        raise EOFError(f"ended after {n} bytes")
    if n != way.size + 32 or digest.digest() != rest:
        raise Wrong(f"{n} bytes with another checksum")
    way.close()
    way.good(began)


async def exchange(way, data):
    """One datagram and its answer, from a port of its own."""
    loop = asyncio.get_running_loop()
    way.since = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setblocking(False)
        s.connect((way.host, way.port))
        s.send(data)
        return await asyncio.wait_for(loop.sock_recv(s, 65535), 5)


async def udp(way, began):
    data = struct.pack("!Q", way.count) * (way.size // 8)
    who, _, rest = (await exchange(way, data)).partition(b"\n")
    if rest != data or who.decode() not in way.expect:
        raise Wrong(f"answered by {who!r} with {len(rest)} bytes")
    way.good(began)


async def dns(way, began):
    """A name of the cluster, or one that is never the same, which has to be forwarded."""
    name = way.name.replace("*", f"n{int(began * 1000)}")
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
    query = struct.pack("!6H", way.count & 0xffff, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)
    answer = await exchange(way, query)
    ident, flags, _, answers = struct.unpack("!4H", answer[:8])
    if ident != way.count & 0xffff:
        raise Wrong("an answer to another question")
    if flags & 15 == 2:
        raise OSError("SERVFAIL")
    if flags & 15 or answers != 1 or answer.find(socket.inet_aton(way.expect)) < 0:
        raise Wrong(f"code {flags & 15}, {answers} answers, {answer.hex()}")
    way.good(began)


async def lookup(way, began):
    """As a program on the host does it: libc, resolv.conf, its search list; then a connection to what it found."""
    way.since = began
    found = await asyncio.get_running_loop().getaddrinfo(way.name, way.port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    if found[0][4][0] != way.host:
        raise Wrong(f"{way.name} is {found[0][4][0]}")
    await http(way, began)

OPERATIONS = {"http": http, "echo": echo, "down": down, "udp": udp, "dns": dns, "lookup": lookup}


async def main(plan, out):
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stopping.set)
    with open(plan) as f, open(out, "a", buffering=1) as lines:
        await asyncio.gather(*(Way(item, lines).run() for item in json.load(f)))

asyncio.run(main(*sys.argv[1:]))
