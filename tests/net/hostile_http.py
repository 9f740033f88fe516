"""Two ends around the proxy that forgive nothing (RFC 9112), for test_http_hostile.py.

    hostile_http.py origin PORT             answers and echoes each request's target in X-Id; /evil/N sends the Nth hostile
                                            answer; whoever connects to PORT+1 gets a report: {"whole": {target: fields}, "violations": [...]}
    hostile_http.py requests HOST PORT      replays the hostile requests and prints a report
    hostile_http.py bytes HOST PORT         the same, of hostile_corpus.every_byte() alone
    hostile_http.py responses HOST PORT     asks for every hostile answer and prints a report

Reports hold what was irregular as [case number, kind, why]; nothing irregular is the only good report.
"""
import asyncio
import collections
import json
import random
import re
import sys

import hostile_corpus as corpus

AT_ONCE, PATIENCE_S, CANARIES = 24, 15, 3
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
VALUE = re.compile(rb"([\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
FIELD = re.compile(rb"(" + TOKEN + rb"): ?(.*)", re.S)
REQUEST = re.compile(rb"(" + TOKEN + rb") (/[\x21\x22\x24-\x7e]*|\*) HTTP/1\.1")
STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([\t\x20-\x7e\x80-\xff]*)")
HOST = re.compile(rb"(\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\]|([A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9a-fA-F]{2})+)(:[0-9]{0,5})?")
HOP = {b"keep-alive", b"proxy-connection", b"http2-settings"}
NOT_IN_TRAILERS = {line.split(b":")[0].lower() for line in corpus.FORBIDDEN}


class Violation(Exception):
    pass


def fields_of(lines):
    fields = []
    for line in lines:
        m = FIELD.fullmatch(line)
        if m is None or VALUE.fullmatch(m.group(2)) is None:
            raise Violation(f"field {line[:60]!r}")
        fields.append((m.group(1).lower(), m.group(2)))
    return fields


def one(fields, name):
    values = [v for n, v in fields if n == name]
    if len(values) > 1:
        raise Violation(f"{name!r} {len(values)} times")
    return values[0] if values else None


def framing(fields):
    """None, a length, or "chunked"."""
    length, coding = one(fields, b"content-length"), one(fields, b"transfer-encoding")
    if length is not None and coding is not None:
        raise Violation("length and coding")
    if coding is not None:
        if coding != b"chunked":
            raise Violation(f"coding {coding!r}")
        return "chunked"
    if length is None:
        return None
    if re.fullmatch(rb"0|[1-9][0-9]{0,18}", length) is None:
        raise Violation(f"length {length!r}")
    return int(length)


def check_hop(fields, switching=False):
    options = {o.strip().lower() for n, v in fields if n == b"connection" for o in v.split(b",")}
    names = {n for n, _ in fields}
    if not options <= {b"upgrade", b"te"} and not switching:
        raise Violation(f"Connection {options}")
    if (b"upgrade" in names) != (b"upgrade" in options) or (b"te" in names) != (b"te" in options):
        raise Violation("Upgrade or TE without Connection, or the other way round")
    if b"te" in names and one(fields, b"te") != b"trailers":
        raise Violation("TE")
    for n in names & HOP:
        raise Violation(f"hop-by-hop field {n!r}")


def check_request(head):
    first, *rest = head[:-4].split(b"\r\n")
    m = REQUEST.fullmatch(first)
    if m is None:
        raise Violation(f"request line {first[:60]!r}")
    if m.group(2) == b"*" and m.group(1) != b"OPTIONS" or m.group(1) == b"CONNECT":
        raise Violation(f"request line {first[:60]!r}")
    fields = fields_of(rest)
    host = one(fields, b"host")
    if host is None or HOST.fullmatch(host) is None:
        raise Violation(f"host {host!r}")
    check_hop(fields)
    for name in (b"x-forwarded-for", b"cdn-loop"):
        if not one(fields, name):
            raise Violation(f"no {name!r}")
    return m.group(1), m.group(2), fields, framing(fields)


def offered(fields):
    """Those of an answer, whose Connection also says what becomes of the connection."""
    for name, value in fields:
        if name == b"connection":
            value = b",".join(o for o in value.split(b",") if o.strip() not in (b"close", b"keep-alive"))
        if name != b"connection" or value:
            yield name, value


async def read_chunks(reader):
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        if re.fullmatch(rb"0|[1-9a-f][0-9a-f]{0,14}", line[:-2]) is None:
            raise Violation(f"chunk size {line[:60]!r}")
        size = int(line, 16)
        if size == 0:
            break
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise Violation("chunk without an end")
    lines = []
    while (line := (await reader.readuntil(b"\r\n"))[:-2]) != b"":
        lines.append(line)
    for name, _ in fields_of(lines):
        if name in NOT_IN_TRAILERS:
            raise Violation(f"trailer {name!r}")
    return body


async def read_body(reader, how):
    if how == "chunked":
        return await read_chunks(reader)
    return await reader.readexactly(how or 0)


# --- origin -------------------------------------------------------------------------------


class Origin:
    def __init__(self):
        self.whole, self.violations = {}, []
        self.answers = list(corpus.responses())

    async def request(self, reader, writer):
        """One request; False at the end of the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as e:
            if e.partial:
                raise Violation(f"cut head {e.partial[:60]!r}") from None
            return False
        except asyncio.LimitOverrunError:
            raise Violation("endless head") from None
        method, target, fields, how = check_request(head)
        if (b"expect", b"100-continue") in fields:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await read_body(reader, how)
        text = target.decode("latin-1")
        self.whole[text] = [[n.decode(), v.decode("latin-1")] for n, v in fields]
        if text.startswith("/smuggled"):
            raise Violation(f"smuggled {method!r} {text}")
        if text.startswith("/evil/"):
            answer = self.answers[int(text[6:])]
            writer.write(answer.data)
            await writer.drain()
            return not answer.close
        body = b"" if method == b"HEAD" else target
        writer.write(b"HTTP/1.1 200 OK\r\nX-Id: %b\r\nX-Method: %b\r\nContent-Length: %d\r\n\r\n%b"
                     % (target, method, len(target), body))
        await writer.drain()
        return True

    async def serve(self, reader, writer):
        try:
            while await self.request(reader, writer):
                pass
        except Violation as v:
            self.violations.append(str(v))
        except (asyncio.IncompleteReadError, OSError):
            pass  # a body that the proxy cut off, as it should
        finally:
            writer.close()

    async def report(self, reader, writer):
        writer.write(json.dumps({"whole": self.whole, "violations": self.violations}).encode())
        await writer.drain()
        writer.close()


async def origin(port):
    o = Origin()
    await asyncio.start_server(o.serve, "0.0.0.0", port, limit=1 << 20, backlog=512)
    await asyncio.start_server(o.report, "0.0.0.0", port + 1)
    print("serving", flush=True)
    await asyncio.Event().wait()


# --- clients ------------------------------------------------------------------------------

Reply = collections.namedtuple("Reply", "status id method")


async def read_replies(data, ended):
    """[Reply] of all that one connection got; ended: "FIN" or "RST". Anything irregular is a Violation."""
    reader = asyncio.StreamReader(limit=1 << 22)
    reader.feed_data(data)
    reader.feed_eof()
    replies = []
    while not reader.at_eof():
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *rest = head[:-4].split(b"\r\n")
            m = STATUS.fullmatch(first)
            if m is None:
                raise Violation(f"status line {first[:60]!r}")
            fields = fields_of(rest)
            check_hop(list(offered(fields)))
            status, how, method = int(m.group(1)), framing(fields), one(fields, b"x-method")
            if (status < 200 or status == 204) and how is not None:
                raise Violation(f"{status} with a length")
            bodyless = status < 200 or status in (204, 304) or method == b"HEAD"
            if how is None and not bodyless:
                how = "close"
            if how == "close":
                await reader.read()
            elif not bodyless:
                await read_body(reader, how)
            if status >= 200:
                replies.append(Reply(status, (one(fields, b"x-id") or b"").decode("latin-1"), method))
        except asyncio.IncompleteReadError as e:
            if ended == "FIN":
                raise Violation(f"cut answer that looks whole: {e.partial[:60]!r}") from None
            return replies
    return replies


async def talk(host, port, pieces):
    """Sends, then FIN; (bytes, "FIN" or "RST" or "STALL")."""
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    got, ended = b"", "FIN"

    async def send():
        try:
            for i, piece in enumerate(pieces):
                if i > 0:
                    await asyncio.sleep(0.002)
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
        except OSError:
            pass

    sender = asyncio.ensure_future(send())
    try:
        while data := await asyncio.wait_for(reader.read(1 << 16), PATIENCE_S):
            got += data
    except OSError:
        ended = "RST"
    except asyncio.TimeoutError:
        ended = "STALL"
    await sender
    writer.transport.abort()
    return got, ended


class Replay:
    def __init__(self, host, port):
        self.host, self.port = host, port
        self.irregular, self.statuses, self.canary_requests, self.over = [], collections.Counter(), 0, False

    async def canary(self, n):
        """Somebody else, who must not feel anything."""
        k = 0
        while not self.over:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            try:
                while not self.over:
                    k += 1
                    path = f"/i/canary-{n}-{k}/z"
                    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)).decode()
                    length = int(re.search(r"(?i)content-length: (\d+)", head).group(1))
                    body = (await asyncio.wait_for(reader.readexactly(length), PATIENCE_S)).decode()
                    if not head.startswith("HTTP/1.1 200") or f"X-Id: {path}\r\n" not in head or body != path:
                        self.irregular.append([k, "canary", f"asked for {path}, got {head[:200]!r} {body[:100]!r}"])
                    await asyncio.sleep(0.005)
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError) as e:
                self.irregular.append([k, "canary", repr(e)])
            writer.close()
        self.canary_requests += k

    def judge(self, i, case, token, replies):
        order = []
        for r in replies:
            self.statuses[r.status] += 1
            if r.status < 300 and token not in r.id:
                raise Violation(f"another's answer: {r}")
            if r.status < 300:
                order.append({"/a": 0, "/z": 2}.get(r.id[-2:], 1))
        if order != sorted(order):
            raise Violation(f"order {replies}")
        answered = [r for r in replies if r.status < 300 and r.id[-2:] != "/a"]
        if case.verdict == corpus.REFUSE and answered:
            raise Violation(f"not refused: {answered[0]}")
        if case.verdict == corpus.REFUSE and replies and not 400 <= replies[-1].status and replies[-1].id[-2:] != "/a":
            raise Violation(f"refused with {replies[-1].status}")
        if case.verdict == corpus.PASS and not answered:
            raise Violation(f"not answered: {replies}")

    async def one_request(self, i, case):
        token = f"t{i:06x}"
        data = case.data.replace(b"@ID@", token.encode()) + b"GET /i/%b/z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % token.encode()
        if i % 2 == 0:
            data = b"GET /i/%b/a HTTP/1.1\r\nHost: a\r\n\r\n" % token.encode() + data
        pieces = [data]
        if i % 3 == 0:
            cuts = sorted(random.Random(i).sample(range(1, len(data)), 3))
            pieces = [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]
        got, ended = await talk(self.host, self.port, pieces)
        if ended == "STALL":
            raise Violation(f"stalled after {got[:100]!r}")
        try:
            replies = await read_replies(got, ended)
        except Violation as v:
            if "looks whole" not in str(v) or b"HEAD" not in data:
                raise
            replies = []  # our own error to a HEAD: a length and no body
        self.judge(i, case, token, replies)

    async def one_response(self, i, answer):
        token = f"t{i:06x}"
        got, ended = await talk(self.host, self.port, [
            b"GET /evil/%d HTTP/1.1\r\nHost: a\r\n\r\nGET /i/%b/z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % (i, token.encode())])
        if ended == "STALL":
            raise Violation(f"stalled after {got[:100]!r}")
        replies = await read_replies(got, ended)
        for r in replies:
            self.statuses[r.status] += 1
        if any("poison" in r.id for r in replies):
            raise Violation(f"poison: {replies}")
        if any(r.id and token not in r.id for r in replies):
            raise Violation(f"another's answer: {replies}")
        first = replies[0] if replies else None
        if answer.verdict == corpus.REFUSE and first is not None and first.status != 502:
            raise Violation(f"not refused: {replies}")
        if answer.verdict == corpus.REFUSE and first is None and ended != "RST":
            raise Violation(f"silence: {got[:100]!r}")
        if answer.verdict == corpus.PASS and (first is None or not 200 <= first.status <= 599 or first.status == 502):
            raise Violation(f"not relayed: {replies} {got[:100]!r}")

    async def guarded(self, gate, i, case, fn):
        async with gate:
            try:
                await fn(i, case)
            except Violation as v:
                self.irregular.append([i, case.kind, str(v)])
            except OSError as e:
                self.irregular.append([i, case.kind, f"no connection: {e}"])

    async def run(self, cases, fn):
        gate = asyncio.Semaphore(AT_ONCE)
        canaries = [asyncio.ensure_future(self.canary(n)) for n in range(CANARIES)]
        await asyncio.gather(*[self.guarded(gate, i, c, fn) for i, c in enumerate(cases)])
        self.over = True
        await asyncio.gather(*canaries)
        print(json.dumps({"cases": len(cases), "irregular": self.irregular, "statuses": self.statuses,
                          "canary": self.canary_requests}))


def main():
    if sys.argv[1] == "origin":
        asyncio.run(origin(int(sys.argv[2])))
        return
    replay = Replay(sys.argv[2], int(sys.argv[3]))
    if sys.argv[1] in ("requests", "bytes"):
        cases = corpus.requests() if sys.argv[1] == "requests" else corpus.every_byte()
        asyncio.run(replay.run(list(cases), replay.one_request))
    else:
        asyncio.run(replay.run(list(corpus.responses()), replay.one_response))


if __name__ == "__main__":
    main()
