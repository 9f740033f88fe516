"""HTTP/2 frame by frame (RFC 9113), for either end, above httpkit's sockets; sends also what no library would.

    client = Http2(wire).open()                    # preface, SETTINGS
    stream = client.ask("/path")                   # HEADERS with END_STREAM
    end = Http2(endpoint.accept(), server=True).open()
    stream_there, fields = end.head()
    end.answer(stream_there, b"ok")
    assert client.reply(stream).body == b"ok"

What every peer owes is done while reading: SETTINGS and PINGs are acknowledged, windows given back (but for streams in `stalled`).
Fields are sent as literals that are not indexed: a head is the same bytes wherever it stands. Codes are told by name.
"""
import collections
import contextlib
import struct
import threading

import hpack
from hpack.hpack import encode_integer

from httpkit import Endpoint, readable

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)
ENABLE_CONNECT_PROTOCOL = 8
CODES = ("NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR REFUSED_STREAM CANCEL "
         "COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED").split()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW, FRAME = 65535, 16384  # what holds until SETTINGS say something else

Frame = collections.namedtuple("Frame", "type flags stream payload")
Head = collections.namedtuple("Head", "fields end")
Data = collections.namedtuple("Data", "bytes end")
Reset = collections.namedtuple("Reset", "code")
Reply = collections.namedtuple("Reply", "status fields body trailers interim reset")


class Ended(AssertionError):
    """The connection ended while something was still expected."""


# --- frames as bytes ----------------------------------------------------------------------


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def block(fields):
    """Literals without indexing and without Huffman's code."""
    out = b""
    for name, value in fields:
        for i, text in enumerate((name, value)):
            text = text if isinstance(text, bytes) else text.encode("latin-1")
            out += (b"\0" if i == 0 else b"") + bytes(encode_integer(len(text), 7)) + text
    return out


def headers(stream, fields=None, flags=END_STREAM | END_HEADERS, raw=b""):
    return frame(HEADERS, flags, stream, raw + block(fields or ()))


def long_headers(stream, fields, flags=END_STREAM):
    """In as many frames as it takes."""
    raw = block(fields)
    pieces = [raw[i:i + FRAME] for i in range(0, len(raw), FRAME)]
    return b"".join(frame(CONTINUATION if i else HEADERS, (0 if i else flags) | (END_HEADERS if i == len(pieces) - 1 else 0), stream, p)
                    for i, p in enumerate(pieces))


def data(stream, payload=b"", flags=END_STREAM):
    return frame(DATA, flags, stream, payload)


def settings(values=(), flags=0):
    return frame(SETTINGS, flags, 0, b"".join(struct.pack(">HI", k, v) for k, v in dict(values).items()))


def rst(stream, code="CANCEL"):
    return frame(RST_STREAM, 0, stream, number(code))


def goaway(last, code="NO_ERROR", text=b""):
    return frame(GOAWAY, 0, 0, struct.pack(">I", last) + number(code) + text)


def window(stream, n):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n))


def ping(text=b"lab ping", flags=0):
    return frame(PING, flags, 0, text)


def number(code):
    return struct.pack(">I", CODES.index(code) if isinstance(code, str) else code)


def named(code):
    return CODES[code] if code < len(CODES) else str(code)


def request(path="/", method="GET", *fields, authority="web"):
    return [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path), *fields]


def random_frames(random, fields, n):
    """Any frames on few streams, most of them nearly right. random: a random.Random, so that they come again."""
    for _ in range(n):
        kind, stream = random.choice([*range(10), HEADERS, HEADERS, DATA, 0xbb]), random.choice([0, 1, 1, 1, 3, 5, 2, 7, 99])
        payload = {HEADERS: lambda: block(fields), DATA: lambda: b"x" * random.choice([0, 1, 1000, 16384]), RST_STREAM: lambda: number(random.randrange(16)),
                   SETTINGS: lambda: struct.pack(">HI", random.randrange(10), random.choice([0, 1, 100, 65535, 1 << 31])), PING: lambda: b"x" * 8,
                   WINDOW_UPDATE: lambda: struct.pack(">I", random.choice([0, 1, 65535, 0x7fffffff])), CONTINUATION: lambda: block(fields[:1]),
                   GOAWAY: lambda: struct.pack(">II", random.randrange(9), random.randrange(16))}.get(kind, lambda: random.randbytes(5))()
        if random.random() < 0.2:
            at = random.randrange(len(payload) + 1)
            payload = payload[:at] + random.randbytes(random.randrange(4)) + payload[at + random.randrange(3):]
        if kind in (SETTINGS, PING, GOAWAY) and random.random() < 0.9:
            stream = 0
        yield frame(kind, random.choice([0, 1, 4, 5, 5, 8, 0x20, random.randrange(256)]), stream, payload)


# --- one end --------------------------------------------------------------------------------


class Http2:
    def __init__(self, wire, server=False):
        self.wire, self.server = wire, server
        self.decoder = hpack.Decoder(max_header_list_size=1 << 24)
        self.got = collections.defaultdict(collections.deque)  # what came on each stream
        self.new = collections.deque()  # streams that the other end has opened
        self.pongs, self.goaways, self.stalled, self.acknowledged = [], [], set(), False
        self.settings = {}  # the other end's
        self.room, self.rooms = WINDOW, collections.defaultdict(lambda: 0)  # beyond the first window
        self.next_stream, self.pings = 1, 0

    # --- sending

    def open(self, values=()):
        """What comes first; a server has read the client's preface then."""
        if self.server:
            self.wire.expect(PREFACE)
        else:
            self.wire.put(PREFACE)
        return self.put(settings(values))

    def put(self, *frames):
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # why it has ended, is read
            self.wire.put(*frames)
        return self

    def ask(self, path="/", method="GET", *fields, body=None, end=True):
        """The new stream's number."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.put(headers(stream, request(path, method, *fields), END_HEADERS | (END_STREAM if body is None and end else 0)))
        if body is not None:
            self.send(stream, body, end)
        return stream

    def ask_websocket(self, *fields):
        """RFC 8441."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        protocol = (":protocol", "websocket"), ("sec-websocket-version", "13")
        self.put(headers(stream, [*request("/chat", "CONNECT"), *protocol, *fields], END_HEADERS))
        return stream

    def may_send(self, stream):
        return min(self.room, self.settings.get(INITIAL_WINDOW_SIZE, WINDOW) + self.rooms[stream], FRAME)

    def send(self, stream, body, end=True):
        """DATA as fast as the windows let it."""
        at = 0
        while True:
            piece = body[at:at + max(self.may_send(stream), 0)]
            at += len(piece)
            if piece or at == len(body):
                self.room -= len(piece)
                self.rooms[stream] -= len(piece)
                self.put(data(stream, piece, END_STREAM if end and at == len(body) else 0))
                if at == len(body):
                    return self
            elif not self.pump():
                raise Ended(f"stream {stream}: {at} of {len(body)} bytes sent {self.goaways}")

    def answer(self, stream, body=b"ok", *fields, status=200, trailers=(), end=True):
        bare = end and not body and not trailers
        self.put(headers(stream, [(":status", str(status)), *fields], END_HEADERS | (END_STREAM if bare else 0)))
        if body:
            self.send(stream, body, end and not trailers)
        if trailers:
            self.put(headers(stream, trailers))
        return self

    # --- reading

    def frame(self):
        """The next one as it is; None: the connection has ended."""
        try:
            while len(self.wire.left) < 9 or len(self.wire.left) < 9 + int.from_bytes(self.wire.left[:3], "big"):
                if not self.wire.more():
                    return None
        except (ConnectionResetError, BrokenPipeError):
            return None
        kind, flags, stream = struct.unpack(">BBI", self.wire.left[3:9])
        return Frame(kind, flags, stream & 0x7fffffff, self.wire.take(9 + int.from_bytes(self.wire.left[:3], "big"))[9:])

    def pump(self):
        """Reads one frame and sorts what it says. False: the connection has ended."""
        f = self.frame()
        if f is None:
            return False
        self.sort(f)
        return True

    def sort(self, f):
        if f.type == SETTINGS and not f.flags & ACK:
            self.settings.update(struct.iter_unpack(">HI", f.payload))
            self.put(settings(flags=ACK))
        elif f.type == SETTINGS:
            self.acknowledged = True
        elif f.type == PING and f.flags & ACK:
            self.pongs.append(f.payload)
        elif f.type == PING:
            self.put(ping(f.payload, ACK))
        elif f.type == WINDOW_UPDATE and f.stream == 0:
            self.room += struct.unpack(">I", f.payload)[0]
        elif f.type == WINDOW_UPDATE:
            self.rooms[f.stream] += struct.unpack(">I", f.payload)[0]
        elif f.type == GOAWAY:
            last, code = struct.unpack(">II", f.payload[:8])
            self.goaways.append((last, named(code)))
        elif f.type == RST_STREAM:
            self.got[f.stream].append(Reset(named(struct.unpack(">I", f.payload)[0])))
        elif f.type == DATA:
            self.got[f.stream].append(Data(unpadded(f), bool(f.flags & END_STREAM)))
            if f.payload:
                self.put(window(0, len(f.payload)), b"" if f.stream in self.stalled or f.flags & END_STREAM else window(f.stream, len(f.payload)))
        elif f.type == HEADERS:
            self.sort_head(f)

    def sort_head(self, f):
        raw, flags = unpadded(f)[5 if f.flags & PRIORITISED else 0:], f.flags
        while not flags & END_HEADERS:
            more = self.frame()
            assert more and more.type == CONTINUATION and more.stream == f.stream, more
            raw, flags = raw + more.payload, more.flags
        fields = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in self.decoder.decode(raw, raw=True)]
        if self.server and f.stream not in self.got:
            self.new.append(f.stream)
        self.got[f.stream].append(Head(fields, bool(f.flags & END_STREAM)))

    def event(self, stream):
        """The next Head, Data or Reset of a stream."""
        while not self.got[stream]:
            if not self.pump():
                raise Ended(f"stream {stream}: the connection has ended {self.goaways}")
        return self.got[stream].popleft()

    def head(self):
        """(stream, {field: value}) of the next new request."""
        while not self.new:
            if not self.pump():
                raise Ended(f"no request: the connection has ended {self.goaways}")
        stream = self.new.popleft()
        return stream, dict(self.got[stream][0].fields)

    def body(self, stream):
        """(bytes, {trailer: value}, code of a reset or None): what follows the head of a request that head() has told of."""
        first = self.event(stream)
        return self.rest(stream, first.end)

    def rest(self, stream, ended=False):
        body, trailers = [], {}
        while not ended:
            e = self.event(stream)
            if isinstance(e, Reset):
                return b"".join(body), trailers, e.code
            if isinstance(e, Data):
                body.append(e.bytes)
            else:
                trailers = dict(e.fields)
            ended = e.end
        return b"".join(body), trailers, None

    def reply(self, stream):
        """All of an answer, up to its end or a reset."""
        interim = []
        while True:
            e = self.event(stream)
            if isinstance(e, Reset):
                return Reply(None, {}, b"", {}, interim, e.code)
            assert isinstance(e, Head), e
            fields = dict(e.fields)
            status = int(fields[":status"])
            if status >= 200:
                body, trailers, code = self.rest(stream, e.end)
                return Reply(status, fields, body, trailers, interim, code)
    def ready(self, seconds=0.0):
        """There is something to read, or it has ended."""
        return bool(self.wire.left) or bool(readable([self.wire.s], seconds))

    def quiet(self, seconds=0.5):
        """Reads until nothing has come for so long."""
        while self.ready(seconds) and self.pump():
            pass
        return self

    def pour(self, stream, body):
        """DATA until the windows are shut, and stay so: how many bytes went. The stream does not end."""
        at = 0
        while at < len(body):
            if self.may_send(stream) <= 0:
                self.quiet()
            if (n := self.may_send(stream)) <= 0:
                break
            self.send(stream, body[at:at + n], end=False)
            at += n
        return at

    def pinged(self):
        """It still answers; what it had to say before, has come. False: it has ended."""
        self.pings += 1
        text = b"%8d" % self.pings
        self.put(ping(text))
        while text not in self.pongs:
            if not self.pump():
                return False
        return True

    def alive(self):
        """Twice: PINGs are answered before other things."""
        return self.pinged() and self.pinged()

    def until_closed(self):
        while self.pump():
            pass
        return self

    def verdict(self, stream, answer=False):
        """What became of what was sent: "GOAWAY code", "closed", "RST code", a status, or "ignored". answer: one is waited for."""
        if answer:
            with contextlib.suppress(Ended):
                reply = self.reply(stream)
                return f"RST {reply.reset}" if reply.reset else str(reply.status)
        elif self.alive():
            for e in self.got[stream]:
                if isinstance(e, Reset):
                    return f"RST {e.code}"
            heads = [e for e in self.got[stream] if isinstance(e, Head)]
            if not self.goaways:
                return dict(heads[0].fields)[":status"] if heads else "ignored"
        self.until_closed()
        return f"GOAWAY {self.goaways[-1][1]}" if self.goaways else "closed"


def unpadded(f):
    return f.payload[1:len(f.payload) - f.payload[0]] if f.flags & PADDED else f.payload


# --- an endpoint of its own thread -----------------------------------------------------------------


class Origin:
    """Answers every whole request with 200, X-Name and the request's body; keeps what was whole, what was broken off, and what it did not understand."""

    def __init__(self, pod, port=8080):
        self.name, self.whole, self.broken, self.confused = pod.name, [], [], []
        self.endpoint = Endpoint(pod, port)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.endpoint.accept(speaks=False),), daemon=True).start()

    def serve(self, wire):
        h2, under_way = Http2(wire, server=True), {}
        try:
            if wire.begins():
                h2.open()
            while h2.pump():
                for stream, events in list(h2.got.items()):
                    while events:
                        self.take(h2, stream, events.popleft(), under_way)
        except (Ended, OSError):
            pass
        except Exception as e:  # noqa: whatever it was, a proxy must not have sent it
            self.confused.append(repr(e))
        finally:
            wire.close()

    def take(self, h2, stream, event, under_way):
        """under_way: {stream: [path, body]}."""
        if isinstance(event, Head):
            entry = under_way.setdefault(stream, [dict(event.fields).get(":path"), b""])
        elif isinstance(event, Data):
            entry = under_way[stream]
            entry[1] += event.bytes
        else:
            self.broken.append((under_way.pop(stream, [None])[0], event.code))
            return
        if event.end:
            del under_way[stream]
            self.whole.append(entry[0])
            h2.answer(stream, entry[1], ("x-name", self.name))
