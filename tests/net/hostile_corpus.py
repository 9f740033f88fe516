"""Hostile HTTP/1.x messages, written from RFC 9110 and 9112; deterministic.

requests() yields Case(kind, verdict, data): @ID@ in data becomes the connection's token. Verdicts:
    REFUSE  an error status, the connection closed, and the origin never sees the request whole
    PASS    odd but right: answered by the origin
    EITHER  anything, as long as what goes upstream and what comes back is clean
A target that starts with /smuggled/ must never be seen upstream as a request.
responses() yields Answer(kind, verdict, data, close): what an endpoint says to GET.
every_byte() and every_answer_byte() put each byte that means something to somebody at each place of a message. That is too much for
a network: bare CRs and a part of the rest; tests/unit/base/http/http1_bytes_test.c has all of it.
"""
import collections
import itertools
import random
import re

REFUSE, PASS, EITHER = "refuse", "pass", "either"
Case = collections.namedtuple("Case", "kind verdict data")
Answer = collections.namedtuple("Answer", "kind verdict data close")

LINE = b"GET /i/@ID@/h HTTP/1.1\r\n"
POST = b"POST /i/@ID@/h HTTP/1.1\r\n"
HOST = b"Host: a\r\n"
SMUGGLED = b"GET /smuggled/@ID@ HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CONTROLS = [bytes([c]) for c in range(0x20) if c not in (9, 10, 13)] + [b"\x7f"]
BASES = [
    LINE + HOST + b"X-Some: value\r\n\r\n",
    POST + HOST + b"Content-Length: 5\r\n\r\nhello",
    POST + HOST + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n",
    POST + HOST + CHUNKED + b"Trailer: X-T\r\n\r\n3;e=1\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
    b"GET http://a/i/@ID@/h HTTP/1.1\r\n" + HOST + b"Connection: x-drop, close\r\nX-Drop: 1\r\n\r\n",
    b"HEAD /i/@ID@/h HTTP/1.1\r\n" + HOST + b"Accept: */*\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n",
]


# --- heads ------------------------------------------------------------------------------


def line_ends():
    for base in BASES:
        head, _, body = base.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n") + [b""]
        for at, end in itertools.product(range(len(lines)), (b"\n", b"\r", b"\n\r", b"\r\r\n", b"\r \n", b"\0\r\n")):
            out = b"".join(line + (end if i == at else b"\r\n") for i, line in enumerate(lines))
            yield Case("line end", REFUSE, out + body)
        yield Case("blank line first", PASS, b"\r\n" + base)
        yield Case("bare LF first", REFUSE, b"\n" + base)
        yield Case("all bare LF", REFUSE, base.replace(b"\r\n", b"\n"))
        yield Case("all bare CR", REFUSE, base.replace(b"\r\n", b"\r"))


def bad_bytes():
    spots = [b"G%sET /i/@ID@/h HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /i/@ID@/%sh HTTP/1.1\r\nHost: a\r\n\r\n",
             b"GET /i/@ID@/h HTTP/1%s.1\r\nHost: a\r\n\r\n", b"GET /i/@ID@/h HTTP/1.1\r\nHo%sst: a\r\nHost: a\r\n\r\n",
             b"GET /i/@ID@/h HTTP/1.1\r\nHost: a%sb\r\n\r\n", b"GET /i/@ID@/h HTTP/1.1\r\nHost: a\r\nX%s: v\r\n\r\n",
             b"GET /i/@ID@/h HTTP/1.1\r\nHost: a\r\nX:%sv\r\n\r\n", b"GET /i/@ID@/h HTTP/1.1\r\nHost: a\r\nX: v%s\r\n\r\n",
             b"POST /i/@ID@/h HTTP/1.1\r\nHost: a\r\nContent-Length: %s5\r\n\r\nhello",
             b"POST /i/@ID@/h HTTP/1.1\r\nHost: a\r\nContent-Length: 5%s\r\n\r\nhello",
             b"POST /i/@ID@/h HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %schunked\r\n\r\n0\r\n\r\n",
             b"POST /i/@ID@/h HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked%s\r\n\r\n0\r\n\r\n"]
    for spot, byte in itertools.product(spots, CONTROLS):
        yield Case("control character", REFUSE, spot.replace(b"%s", byte))
    for byte in [bytes([c]) for c in b'"(),/;<=>?@[\\]{} \t'] + [bytes([c]) for c in range(0x80, 0x100, 5)]:
        yield Case("field name", REFUSE, LINE + HOST + b"X" + byte + b"Y: v\r\n\r\n")
        yield Case("method", REFUSE, b"G" + byte + b"T /i/@ID@/h HTTP/1.1\r\nHost: a\r\n\r\n")
    for byte in [bytes([c]) for c in range(0x80, 0x100, 3)] + [b"#", b" ", b"\t"]:
        yield Case("target byte", REFUSE, b"GET /i/@ID@/h" + byte + b"x HTTP/1.1\r\nHost: a\r\n\r\n")
        yield Case("host byte", REFUSE, LINE + b"Host: a" + byte + b"b\r\n\r\n")
    for byte in (b"\x80", b"\xff", b"\t", b'"', b"\xc3\xa9"):
        yield Case("value byte", PASS, LINE + HOST + b"X: a" + byte + b"b\r\n\r\n")


def blanks():
    for name, blank in itertools.product((b"Host", b"Content-Length", b"Transfer-Encoding", b"X"),
                                         (b" ", b"\t", b"  ", b" \t")):
        value = {b"Host": b"a", b"Content-Length": b"5", b"Transfer-Encoding": b"chunked", b"X": b"y"}[name]
        host = b"" if name == b"Host" else HOST
        for line in (name + blank + b": " + value, blank + name + b": " + value, name + b"\r\n" + blank + b": " + value,
                     name + b":\r\n" + blank + value, name + b": " + value + b"\r\n" + blank + b"more"):
            for order in (host + line + b"\r\n", line + b"\r\n" + host):
                yield Case("blanks and obs-fold", REFUSE, POST + order + b"\r\n" + SMUGGLED)
    for line in (b"garbage", b":", b": v", b"=", b"X", b"X;y", b"", b"GET /smuggled/@ID@ HTTP/1.1"):
        if line:
            yield Case("no field", REFUSE, LINE + HOST + line + b"\r\n\r\n")
    for value in (b"v ", b"\tv\t", b"", b" ", b"a:b:c", b"a\tb"):
        yield Case("blanks around a value", PASS, LINE + HOST + b"X:" + value + b"\r\n\r\n")


def request_lines():
    for version in (b"HTTP/0.9", b"HTTP/1.2", b"HTTP/1.9", b"HTTP/2.0", b"HTTP/3.0", b"HTTP/1.10", b"HTTP/01.1", b"HTTP/1",
                    b"HTTP/1.", b"HTTP/.1", b"HTTP/1,1", b"HTTP/11", b"http/1.1", b"HTP/1.1", b"HTTP 1.1", b"HTTPS/1.1",
                    b"HTTP/1.1 ", b" HTTP/1.1", b"HTTP/1.1\t", b"HTTP/1.1 x", b"", b"ICY/1.0", b"RTSP/1.0", b"HTTP/-1.1",
                    b"HTTP/1.1HTTP/1.1", b"HTTP/1.1;x", b"HTTP/\xb1.1", b"ICE/1.0", b"SOURCE"):
        yield Case("version", REFUSE, b"GET /i/@ID@/h " + version + b"\r\nHost: a\r\n\r\n")
        yield Case("version", REFUSE, b"POST /i/@ID@/h " + version + b"\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
    for line in (b"GET /i/@ID@/h", b"GET", b"GET ", b" GET /i/@ID@/h HTTP/1.1", b"GET  /i/@ID@/h HTTP/1.1",
                 b"GET\t/i/@ID@/h\tHTTP/1.1", b"GET /i/@ID@/h  HTTP/1.1", b"/i/@ID@/h GET HTTP/1.1", b"GET /i/@ID@/ h HTTP/1.1",
                 b"GET HTTP/1.1", b"HTTP/1.1 200 OK", b"GET\x0b/i/@ID@/h\x0bHTTP/1.1", b"\tGET /i/@ID@/h HTTP/1.1",
                 b"A" * 65 + b" /i/@ID@/h HTTP/1.1", b"\xef\xbb\xbfGET /i/@ID@/h HTTP/1.1", b"PRI * HTTP/2.0",
                 b"CONNECT a:80 HTTP/1.1", b"CONNECT / HTTP/1.1", b"CONNECT http://a/ HTTP/1.1", b"CONNECT a HTTP/1.0",
                 b"CONNECT /i/@ID@/h HTTP/1.1"):
        yield Case("request line", REFUSE, line + b"\r\nHost: a\r\n\r\n")
        yield Case("request line", REFUSE, line + b"\r\nHost: a\r\nConnection: keep-alive\r\n\r\n" + SMUGGLED)
    for method in (b"get", b"Get", b"FOO", b"M-SEARCH", b"X!#$%&'*+-.^_`|~9", b"PROPFIND", b"connect", b"A" * 64,
                   b"TRACE", b"PATCH", b"DELETE", b"PRI", b"SOURCE"):
        yield Case("method", PASS, method + b" /i/@ID@/h HTTP/1.1\r\nHost: a\r\n\r\n")


def targets():
    for target in (b"*", b"", b"i/@ID@/h", b"a:80", b"a", b"?q", b"//", b"http:/i/@ID@/h", b"http:i", b"http://", b"http:///i/@ID@",
                   b"http://u@a/i/@ID@", b"http://u:p@a/i/@ID@", b"http://a b/i/@ID@", b"http://a:99999/i/@ID@", b"http://a:x/i/@ID@",
                   b"http://[::1/i/@ID@", b"http://[::g]/i/@ID@", b"http://a%4/i/@ID@", b"ftp://a/i/@ID@", b"file:///etc/passwd",
                   b"javascript:1", b"http://a#f", b"http://a\\b/i/@ID@", b"http://a;b@c/i", b"\\i", b".", b"..", b"*x", b"http//a/",
                   b"://a/", b"HTTPX://a/", b"urn:x:y", b"mailto:a@b"):
        if target == b"//":
            continue
        for method in (b"GET", b"POST"):
            yield Case("target", REFUSE, method + b" " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    for target in (b"/i/@ID@/h?q#f", b"/i/@ID@/h#", b"/i/@ID@/\x7f", b"/i/@ID@/\xe2\x80\xa8"):
        yield Case("target", REFUSE, b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    for target in (b"/i/@ID@/h?q=[1]{|}^`\"<>", b"/i/@ID@/../h", b"//i/@ID@/h", b"/i/@ID@/%00", b"/i/@ID@/h??", b"/i/@ID@/;a,b",
                   b"http://b/i/@ID@/h", b"HTTP://B:80/i/@ID@/h", b"https://b/i/@ID@/h", b"http://[::1]:80/i/@ID@/h",
                   b"http://b?/i/@ID@/h", b"http://b:/i/@ID@/h"):
        for host in (b"a", b"b", b"b:80"):
            yield Case("target", PASS, b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    for host in (b"", b"a b", b"a@b", b"a\r\nHost: b"):
        yield Case("absolute with a wrong Host", REFUSE,
                   b"GET http://b/i/@ID@/h HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    yield Case("absolute without Host", REFUSE, b"GET http://b/i/@ID@/h HTTP/1.1\r\n\r\n")


def hosts():
    wrong = (b"", b" ", b"a b", b"a\tb", b"u@a", b"u:p@a", b"a/b", b"a?b", b"a#b", b"a\\b", b"a:b", b"a:80:80", b"a:+80", b"a:-1",
             b"a:65536", b"a:999999", b"a:8 0", b"a: 80", b"[::1", b"::1", b"[::1]x", b"[]", b"[::1]:x", b"[g::]", b"[::1%25eth0]",
             b"a%", b"a%4", b"a%gg", b"<a>", b'"a"', b"a|b", b"{a}", b"a^b", b"a`b", b"http://a", b":80", b"\xc3\xa9", b"a\x7f",
             b"a, b", b"[a]", b"a[::1]", b"[::1][::1]")
    for value in wrong:
        verdict = EITHER if value in (b"a, b",) else REFUSE
        for line in (LINE, b"GET /i/@ID@/h HTTP/1.0\r\n", POST):
            yield Case("host", verdict, line + b"Host: " + value + b"\r\n\r\n")
    for line in (LINE, POST, b"GET /i/@ID@/h HTTP/1.0\r\n", b"OPTIONS * HTTP/1.1\r\n"):
        for second in (b"Host: a\r\n", b"Host: b\r\n", b"HOST: b\r\n", b"host:a\r\n", b"Host:\r\n"):
            yield Case("two hosts", REFUSE, line + HOST + second + b"\r\n")
            yield Case("two hosts", REFUSE, line + second + b"X: y\r\n" + HOST + b"\r\n")
        yield Case("host twice hidden", REFUSE, line + HOST + b"Connection: host\r\nHost: b\r\n\r\n")
    yield Case("no host", REFUSE, LINE + b"\r\n")
    yield Case("no host", REFUSE, LINE + b"X-Host: a\r\nHost_: a\r\n\r\n")
    yield Case("no host 1.0", PASS, b"GET /i/@ID@/h HTTP/1.0\r\n\r\n")
    for value in (b"a", b"A.b-C_d", b"a:", b"a:80", b"1.2.3.4", b"[::1]", b"[::ffff:1.2.3.4]:80", b"a%41", b"a;b,c", b"xn--a", b"a."):
        yield Case("host", PASS, LINE + b"Host: " + value + b"\r\n\r\n")


# --- lengths ----------------------------------------------------------------------------

LENGTHS = (b"+5", b"-5", b"-0", b"5,5", b"5, 5", b"5 5", b"5;", b"5.0", b"5e0", b"0x5", b"0b1", b"5_0", b"", b"five", b"\xb5", b"5\t5", b"'5'",
           b'"5"', b"5,", b",5", b"18446744073709551621", b"18446744073709551616", b"9223372036854775808", b"99999999999999999999999",
           b"340282366920938463463374607431768211461", b"00000000000000000000000005", b"5a", b"a5", b"5\xa0", b"5 chunked", b"NaN", b"--5",
           b"5-5", b"(5)", b"5;q=1", b"5/1", b"$5", b"%35", b"\\5")
CODINGS = (b"xchunked", b"chunkedx", b"chunked, chunked", b"chunked,chunked", b"chunked;q=1", b"chunked; foo=bar", b"gzip, chunked",
           b"gzip", b"identity", b"identity, chunked", b"chunked, identity", b"chunked, gzip", b", chunked", b"chunked,", b",", b"",
           b"'chunked'", b'"chunked"', b"chunk", b"chunked chunked", b"ch unked", b"chunked\x0b", b"\x0bchunked", b"\x00chunked",
           b"[chunked]", b"cow", b"trailers", b"compress, deflate", b"x", b"chunked/1", b"CHUNKED, gzip", b"\xffchunked", b"chunked=1",
           b"chun\tked", b"c", b"chunked\\", b"deflate;chunked", b"none", b"0")


def lengths():
    body = b"hello"
    for value, line in itertools.product(LENGTHS, (POST, LINE, b"PUT /i/@ID@/h HTTP/1.0\r\n")):
        yield Case("length", REFUSE, line + HOST + b"Content-Length: " + value + b"\r\n\r\n" + body + SMUGGLED)
    for one, two in itertools.product((b"5", b"05", b"0", b"6", b"", b"+5", b"47"), repeat=2):
        yield Case("two lengths", REFUSE, POST + HOST + b"Content-Length: " + one + b"\r\nX: y\r\nContent-Length: " + two +
                   b"\r\n\r\n" + body + SMUGGLED)
    for value in (b"5", b"05", b"0000000005", b" 5", b"5 ", b"\t5\t"):
        for name in (b"Content-Length", b"content-length", b"CONTENT-LENGTH"):
            yield Case("length", EITHER if b"\t" in value else PASS, POST + HOST + name + b":" + value + b"\r\n\r\n" + body)
    for name in (b"Content_Length", b"Content-Lengt", b"Content-Length2", b"XContent-Length"):
        yield Case("length by another name", PASS, POST + HOST + name + b": 5\r\n\r\n")
    for connection in (b"content-length", b"Content-Length, close", b"transfer-encoding, content-length", b"host",
                       b"host, content-length", b"x-forwarded-for, via", b"close, host", b"x-request-id", b"te, host"):
        yield Case("named by Connection", PASS, POST + HOST + b"Connection: " + connection +
                   b"\r\nContent-Length: 43\r\n\r\n" + b"GET /smuggled/0 HTTP/1.1\r\nHost: smuggle\r\n\r\n"[:43].ljust(43))
        yield Case("named by Connection", PASS, POST + b"Connection: " + connection + b"\r\n" + CHUNKED + HOST +
                   b"\r\n5\r\nhello\r\n0\r\n\r\n")


def codings():
    chunks = b"5\r\nhello\r\n0\r\n\r\n"
    for value, line in itertools.product(CODINGS, (POST, LINE, b"POST /i/@ID@/h HTTP/1.0\r\n")):
        yield Case("coding", REFUSE, line + HOST + b"Transfer-Encoding: " + value + b"\r\n\r\n" + chunks + SMUGGLED)
    for value in CODINGS:
        for lines in (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: ", b"Transfer-Encoding: chunked\r\nX: y\r\nTransfer-encoding:"):
            yield Case("two codings", REFUSE, POST + HOST + lines + value + b"\r\n\r\n" + chunks + SMUGGLED)
        yield Case("two codings", REFUSE, POST + HOST + b"Transfer-Encoding: " + value + b"\r\n" + CHUNKED + b"\r\n" + chunks)
        yield Case("coding and length", REFUSE, POST + HOST + b"Content-Length: 5\r\nTransfer-Encoding: " + value + b"\r\n\r\nhello")
    for length, first in itertools.product((b"0", b"3", b"5", b"15", b"4000"), (True, False)):
        fields = [b"Content-Length: " + length + b"\r\n", CHUNKED]
        for line in (POST, LINE, b"POST /i/@ID@/h HTTP/1.0\r\n"):
            head = line + HOST + b"".join(fields if first else fields[::-1])
            yield Case("CL.TE", REFUSE, head + b"\r\n0\r\n\r\n" + SMUGGLED)
            yield Case("TE.CL", REFUSE, head + b"\r\n2c\r\n" + SMUGGLED.ljust(44)[:44] + b"\r\n0\r\n\r\n")
    for name in (b"Transfer-Encoding ", b"Transfer-Encoding\t", b"Transfer-Encoding\x00", b"Transfer\xadEncoding", b" Transfer-Encoding"):
        yield Case("TE.TE", REFUSE, POST + HOST + b"Content-Length: 5\r\n" + name + b": chunked\r\n\r\n0\r\n\r\n" + SMUGGLED)
    for value in (b"chunked", b"Chunked", b"CHUNKED", b" chunked", b"chunked ", b"\tchunked\t"):
        yield Case("coding", PASS, POST + HOST + b"Transfer-Encoding:" + value + b"\r\n\r\n" + chunks)
    yield Case("chunked 1.0", REFUSE, b"POST /i/@ID@/h HTTP/1.0\r\n" + CHUNKED + b"\r\n" + chunks + SMUGGLED)


def chunks():
    head = POST + HOST + CHUNKED + b"\r\n"
    sizes = (b"", b"g", b"0x5", b"+5", b"-5", b" 5", b"\t5", b"5 ", b"5\t", b"5_", b"5.", b"5,", b"0005 0", b"five", b"\xb5", b"5\x00", b"\x005",
             b"ffffffffffffffff5", b"10000000000000005", b"8000000000000000", b"ffffffffffffffff", b"5\x0b", b"5h", b"5 5", b"5=", b"5\"",
             b"-0", b"--5", b"0x", b"5e", b"(5)", b"5" * 17, b"0" * 40 + b"5", b"$5", b"'5'")
    for size in sizes:
        verdict = EITHER if size in (b"5e",) else REFUSE
        yield Case("chunk size", verdict, head + size + b"\r\nhello\r\n0\r\n\r\n" + SMUGGLED)
        yield Case("chunk size", verdict, head + b"3\r\nabc\r\n" + size + b"\r\nhello\r\n0\r\n\r\n" + SMUGGLED)
        yield Case("last chunk's size", REFUSE, head + b"3\r\nabc\r\n" + size.replace(b"5", b"").join((b"z", b"")) + b"\r\n\r\n" + SMUGGLED)
    for end in (b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"\r\n\r\n", b" \r\n", b"\x00\r\n", b"x\r\n", b"", b"\n\n"):
        yield Case("chunk line's end", REFUSE, head + b"5" + end + b"hello\r\n0\r\n\r\n" + SMUGGLED)
        yield Case("chunk data's end", REFUSE, head + b"5\r\nhello" + end + b"0\r\n\r\n" + SMUGGLED)
        if end != b"\r\n\r\n":
            yield Case("last chunk line's end", REFUSE, head + b"5\r\nhello\r\n0" + end + b"\r\n" + SMUGGLED)
        if end not in (b"\r\n\r\n",):
            yield Case("end of chunks", REFUSE, head + b"5\r\nhello\r\n0\r\n" + end + SMUGGLED)
    for length in (1, 4, 6, 9, 200):
        yield Case("chunk length", REFUSE, head + b"%x\r\nhello\r\n0\r\n\r\n" % length + SMUGGLED)
    for ext in (b"a\nb", b"a\rb", b"\x00", b"a\x0bb", b'"a', b'"a\r\n0\r\n\r\n"', b"a=\"\\", b"a" * 5000, b"\n", b"a\r\r", b"\x7f", b'a="\x01"'):
        yield Case("chunk extension", REFUSE, head + b"5;" + ext + b"\r\nhello\r\n0\r\n\r\n" + SMUGGLED)
        yield Case("last chunk's extension", REFUSE, head + b"5\r\nhello\r\n0;" + ext + b"\r\n\r\n" + SMUGGLED)
    for ext in (b";a", b";a=b", b';a="b;c"', b";a;b=c", b' ;a', b';a="\\""', b"\t;x=y", b';a="\x80"'):
        yield Case("chunk extension", PASS, head + b"5" + ext + b"\r\nhello\r\n0" + ext + b"\r\n\r\n")
    yield Case("endless extension", REFUSE, head + (b"1;" + b"x" * 3000 + b"\r\na\r\n") * 400)
    for sized in (b"5", b"05", b"0000000005", b"A", b"a", b"1f"):
        yield Case("chunk size", PASS, head + sized + b"\r\n" + b"x" * int(sized, 16) + b"\r\n0\r\n\r\n")
    yield Case("chunks cut", REFUSE, head + b"5\r\nhel")
    yield Case("chunks cut", REFUSE, head + b"5\r\nhello\r\n")
    yield Case("chunks cut", REFUSE, head + b"5\r\nhello\r\n0\r\n")
    yield Case("chunks cut", REFUSE, head + b"5\r\nhello\r\n0\r\nX: y\r\n")


FORBIDDEN = (b"Host: b", b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Connection: close", b"Authorization: x", b"Cookie: a=b",
             b"Trailer: x", b"TE: trailers", b"Upgrade: x", b"Keep-Alive: 1", b"Proxy-Connection: x", b"Content-Type: x", b"Via: 1.1 x",
             b"X-Forwarded-For: 1.1.1.1", b"Expect: 100-continue", b"Max-Forwards: 1", b"Range: x", b"Cache-Control: x", b"Content-Encoding: x",
             b"Content-Range: x", b"CDN-Loop: edgeway", b"If-Match: x", b"Set-Cookie: x", b"Proxy-Authorization: x", b"content-length: 0", b"hOST: c")


def trailers():
    head = POST + HOST + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n"
    for field in FORBIDDEN:
        yield Case("forbidden trailer", EITHER, head + field + b"\r\n\r\n")
        yield Case("forbidden trailer", EITHER, head + b"X-Fine: 1\r\n" + field + b"\r\nX-Fine: 2\r\n\r\n")
        yield Case("forbidden trailer", EITHER, POST + HOST + CHUNKED + b"Trailer: " + field.split(b":")[0] +
                   b"\r\n\r\n5\r\nhello\r\n0\r\n" + field + b"\r\n\r\n")
    for line in (b"garbage", b" X: y", b"X : y", b": y", b"X\x00: y", b"X: a\x00b", b"X: a\rb", b"X: y\n", b"X Y: z", b"\tX: y",
                 b"X: y\r\n folded", b"GET /smuggled/@ID@ HTTP/1.1", b"X(: y", b"\xff: y", b"X: \x7f", b"X: a\nHost: b"):
        yield Case("bad trailer", REFUSE, head + line + b"\r\n\r\n" + SMUGGLED)
    yield Case("endless trailers", REFUSE, head + b"X: y\r\n" * 3000 + b"\r\n")
    yield Case("giant trailer", REFUSE, head + b"X: " + b"y" * 20000 + b"\r\n\r\n")
    for line in (b"X: y", b"X:", b"X:\ty ", b"X-A: 1\r\nX-B: 2", b"Digest: sha-256=x"):
        yield Case("trailer", PASS, head + line + b"\r\n\r\n")


# --- sizes, bodies, pipelines, and other things ------------------------------------------


def giants():
    yield Case("giant target", REFUSE, b"GET /i/@ID@/" + b"a" * 17000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    yield Case("giant target", REFUSE, b"GET /i/@ID@/" + b"a" * 70000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    yield Case("giant method", REFUSE, b"A" * 40000)
    yield Case("giant field", REFUSE, LINE + HOST + b"X: " + b"y" * 40000 + b"\r\n\r\n")
    yield Case("giant name", REFUSE, LINE + HOST + b"X" * 40000 + b": y\r\n\r\n")
    yield Case("giant host", REFUSE, LINE + b"Host: " + b"a" * 40000 + b"\r\n\r\n")
    for n in (201, 250, 1000, 5000):
        yield Case("many fields", REFUSE, LINE + HOST + b"".join(b"X-%d: y\r\n" % i for i in range(n)) + b"\r\n")
    yield Case("endless head", REFUSE, LINE + HOST + b"X: y\r\n" * 30000)
    yield Case("endless field", REFUSE, LINE + HOST + b"X: " + b"y" * 200000)
    yield Case("many options", REFUSE, LINE + HOST + b"Connection: " + b"x," * 5000 + b"\r\n\r\n")
    yield Case("many fields", PASS, LINE + HOST + b"".join(b"X-%d: y\r\n" % i for i in range(150)) + b"\r\n")
    yield Case("large field", PASS, LINE + HOST + b"X: " + b"y" * 16000 + b"\r\n\r\n")
    yield Case("many blank lines", EITHER, b"\r\n" * 500 + LINE + HOST + b"\r\n")
    yield Case("NULs alone", REFUSE, b"\0" * 3000)
    yield Case("0xff alone", REFUSE, b"\xff" * 3000 + b"\r\n\r\n")


def bodies():
    for method in (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"FOO", b"TRACE"):
        line = method + b" /i/@ID@/h HTTP/1.1\r\n"
        yield Case("request in a body", PASS, line + HOST + b"Content-Length: 52\r\n\r\n" + SMUGGLED.replace(b"@ID@", b"0" * 8).ljust(52)[:52])
        yield Case("request in a chunk", PASS, line + HOST + CHUNKED + b"\r\n34\r\n" + SMUGGLED.replace(b"@ID@", b"0" * 8).ljust(52)[:52] +
                   b"\r\n0\r\n\r\n")
        yield Case("body too short", REFUSE, line + HOST + b"Content-Length: 500\r\n\r\n" + SMUGGLED)
        yield Case("garbage behind", EITHER, line + HOST + b"\r\ngarbage\r\n\r\n" + SMUGGLED)
        yield Case("surplus body", EITHER, line + HOST + b"Content-Length: 2\r\n\r\nhi surplus\r\n\r\n" + SMUGGLED)
        yield Case("length 0 and more", EITHER, line + HOST + b"Content-Length: 0\r\n\r\nX X" + SMUGGLED)
        yield Case("CRLF behind a body", PASS, line + HOST + b"Content-Length: 2\r\n\r\nhi\r\n")
        for expect in (b"100-continue", b"100-Continue", b"foo", b"100-continue, foo", b"", b"101-switch"):
            yield Case("expect", EITHER, line + HOST + b"Expect: " + expect + b"\r\nContent-Length: 2\r\n\r\nhi")
        yield Case("expect 1.0", PASS, method + b" /i/@ID@/h HTTP/1.0\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi")


def upgrades():
    for protocol, connection in itertools.product((b"h2c", b"websocket", b"TLS/1.0", b"", b"x, y", b"h2c, websocket", b"\xff"),
                                                  (b"upgrade", b"Upgrade, HTTP2-Settings", b"close, upgrade", b"keep-alive", b"host, upgrade")):
        for line in (LINE, b"GET /i/@ID@/h HTTP/1.0\r\n", POST + b"Content-Length: 2\r\n"):
            yield Case("upgrade", EITHER, line + HOST + b"Upgrade: " + protocol + b"\r\nConnection: " + connection +
                       b"\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nSec-WebSocket-Version: 777\r\n\r\n" +
                       (b"hi" if line.startswith(b"POST") else b""))
    for connection in (b"x, x, x", b",,,", b"", b"close close", b"\"close\"", b"x-a;b", b"@", b"close, keep-alive", b"x" * 3000):
        yield Case("connection", EITHER, LINE + HOST + b"Connection: " + connection + b"\r\nX: y\r\n\r\n")
        yield Case("connection 1.0", EITHER, b"GET /i/@ID@/h HTTP/1.0\r\nConnection: " + connection + b"\r\n\r\n")
    for name, value in ((b"Keep-Alive", b"timeout=5"), (b"Proxy-Connection", b"keep-alive"), (b"TE", b"trailers"), (b"TE", b"gzip, trailers"),
                        (b"TE", b"chunked"), (b"Trailer", b"Host"), (b"Proxy-Authenticate", b"x"), (b"Via", b"1.1 a, 1.1 b"),
                        (b"X-Forwarded-For", b"1.1.1.1, 2.2.2.2"), (b"X-Forwarded-For", b"")):
        yield Case("hop by hop", PASS, LINE + HOST + name + b": " + value + b"\r\n\r\n")
        yield Case("hop by hop twice", PASS, LINE + HOST + name + b": " + value + b"\r\n" + name.lower() + b": " + value + b"\r\n\r\n")


def mutants(count):
    """Valid requests with a few bytes changed; the token itself stays whole."""
    r = random.Random(9112)
    spice = [b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b";", b"0", b"\r\n\r\n", b"chunked", b"Content-Length: 3\r\n", b"Host: b\r\n",
             CHUNKED, b"\xff", b"HTTP/1.1", b"GET ", b"-", b"f", b"1", b"\x0b", b"/", b"@"]
    made = 0
    while made < count:
        data = r.choice(BASES)
        if r.random() < 0.3:
            data = data + r.choice(BASES)
        want = data.count(b"@ID@")
        for _ in range(r.choice((1, 1, 1, 2, 3))):
            at = r.randrange(len(data))
            what = r.randrange(5)
            if what == 0:
                data = data[:at] + bytes([r.randrange(256)]) + data[at + 1:]
            elif what == 1:
                data = data[:at] + r.choice(spice) + data[at:]
            elif what == 2:
                data = data[:at] + data[at + r.randrange(1, 4):]
            elif what == 3:
                end = min(len(data), at + r.randrange(1, 20))
                data = data[:end] + data[at:]
            else:
                data = data[:at] + r.choice(spice) + data[at + 1:]
        if data.count(b"@ID@") != want or b"@ID@/h" not in data:
            continue
        made += 1
        yield Case("mutant", EITHER, data)


# Where one byte is put in, or in place of another. Some fields hold what would be a field behind a CR.
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
TEXT = rb"[\t\x20-\x7e\x80-\xff]*"
STRICT_FIELD = re.compile(rb"(" + TOKEN + rb"):[\t ]*(" + TEXT + rb")")
STRICT_REQUEST = re.compile(TOKEN + rb" [\x21-\x7e]+ HTTP/1\.[01]")
STRICT_STATUS = re.compile(rb"HTTP/1\.[01] [0-9]{3}( " + TEXT + rb")?")
HOSTILE_BYTES = [bytes([c]) for c in (*range(32), *range(127, 256))]
EVERY_BYTE = [
    LINE + HOST + b"x: yTransfer-Encoding: chunked\r\nX-Some: value\r\n\r\n",
    POST + HOST + b"Content-Length: 5\r\nx:\r\n\r\nhello",
    POST + HOST + CHUNKED + b"Trailer: X-T\r\n\r\n3;e=1\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
]
EVERY_ANSWER_BYTE = [
    b"HTTP/1.1 200 All right\r\nx: ySet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"X:\r\n\r\n3;e=1\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
]


def lines_of_answer(data):
    """An answer whose lines may end in LF alone, with CRLF."""
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def strict_fields(data, first_line):
    """Of a head, by the grammar and nothing else: [(lower-case name, value)]; None: it violates it."""
    first, *lines = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    found = [STRICT_FIELD.fullmatch(line) for line in lines]
    if first_line.fullmatch(first) is None or None in found or b"\r\n\r\n" not in data:
        return None
    return [(m.group(1).lower(), m.group(2).strip(b"\t ")) for m in found]


def with_each_byte(base, every):
    """base with a bare CR at each place, and every nth of the others."""
    n = 0
    for at in range(len(base) + 1):
        if b"@ID@" in base and base.index(b"@ID@") < at < base.index(b"@ID@") + 4:
            continue
        for bytes_ in (b"\rX", *HOSTILE_BYTES):
            for gone in (0, 1):
                n += 1
                if (bytes_[0] == 13 and gone == 0 or n % every == 0) and at + gone <= len(base) and base[at:at + gone] not in (b"@", b"I", b"D"):
                    yield base[:at] + bytes_ + base[at + gone:]


def every_byte(every=199):
    for base in EVERY_BYTE:
        for data in with_each_byte(base, every):
            yield Case("every byte", EITHER if strict_fields(data, STRICT_REQUEST) else REFUSE, data)


def every_answer_byte(every=199):
    for base in EVERY_ANSWER_BYTE:
        for data in with_each_byte(base, every):
            yield Answer("every byte", EITHER if strict_fields(lines_of_answer(data), STRICT_STATUS) else REFUSE, data, True)


def requests():
    for make in (line_ends, bad_bytes, blanks, request_lines, targets, hosts, lengths, codings, chunks, trailers, giants, bodies, upgrades):
        yield from make()
    yield from mutants(1400)
    yield from every_byte()


# --- answers ----------------------------------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\n"
POISON = OK + b"X-Id: /poison\r\nContent-Length: 6\r\n\r\npoison"


def status_lines():
    for line in (b"", b"garbage", b"HTTP/1.1", b"HTTP/1.1 ", b"HTTP/1.1 2", b"HTTP/1.1 20 OK", b"HTTP/1.1 2000 OK", b"HTTP/1.1 2x0 OK",
                 b"HTTP/1.1 099 OK", b"HTTP/1.1 000 OK", b"HTTP/1.1 600 OK", b"HTTP/1.1 999 OK", b"HTTP/1.1 -20 OK", b"HTTP/1.1  200 OK",
                 b"HTTP/1.1\t200 OK", b"HTTP/1.1 200\tOK", b"HTTP/1.1 200OK", b" HTTP/1.1 200 OK", b"HTTP/2.0 200 OK", b"HTTP/0.9 200 OK",
                 b"HTTP/1.2 200 OK", b"HTTP/1.10 200 OK", b"http/1.1 200 OK", b"HTTP/1,1 200 OK", b"ICY 200 OK", b"200 OK", b"SSH-2.0-x",
                 b"GET / HTTP/1.1", b"<html>", b"HTTP/1.1 200 O\0K", b"HTTP/1.1 200 O\x0bK", b"HTTP/1.1 200 O\x7fK", b"HTTP /1.1 200 OK",
                 b"HTTPS/1.1 200 OK", b"HTTP/1.1 0x200 OK", b"HTTP/1.1 2\xb20 OK", b"\x16\x03\x01\x02\x00", b"+OK ready", b"220 smtp ready"):
        yield Answer("status line", REFUSE, line + b"\r\nContent-Length: 2\r\n\r\nhi", True)
        yield Answer("status line alone", REFUSE, line + b"\r\n", True)
        yield Answer("status line, bare LF", REFUSE, line + b"\n\nhi", True)
    for line in (b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.0 200 OK", b"HTTP/1.1 200 A b\tc \xff", b"HTTP/1.1 599 Odd", b"HTTP/1.1 299 "):
        yield Answer("status line", PASS, line + b"\r\nContent-Length: 2\r\n\r\nhi", False)


def answer_lengths():
    for value in LENGTHS:
        yield Answer("length", REFUSE, OK + b"Content-Length: " + value + b"\r\n\r\nhello" + POISON, False)
        yield Answer("length with chunks", REFUSE, OK + b"Content-Length: " + value + b"\r\n" + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n", False)
    for one, two in itertools.product((b"5", b"0", b"6", b"05", b""), repeat=2):
        yield Answer("two lengths", REFUSE, OK + b"Content-Length: " + one + b"\r\nContent-Length: " + two + b"\r\n\r\nhello" + POISON, False)
    for value in CODINGS:
        yield Answer("coding", REFUSE, OK + b"Transfer-Encoding: " + value + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + POISON, True)
        yield Answer("two codings", REFUSE, OK + CHUNKED + b"Transfer-Encoding: " + value + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n", True)
    yield Answer("chunked 1.0", REFUSE, b"HTTP/1.0 200 OK\r\n" + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n", True)
    for length in (0, 4):
        yield Answer("surplus", EITHER, OK + b"Content-Length: %d\r\n\r\nhello" % length + POISON, False)
    yield Answer("cut", REFUSE, OK + b"Content-Length: 500\r\n\r\n" + POISON, True)
    yield Answer("surplus answer", PASS, OK + b"Content-Length: 2\r\n\r\nhi" + POISON, False)
    yield Answer("surplus answers", PASS, OK + b"Content-Length: 2\r\n\r\nhi" + POISON * 50, False)
    yield Answer("surplus behind 204", EITHER, b"HTTP/1.1 204 No\r\n\r\n" + POISON, False)
    yield Answer("surplus behind 304", EITHER, b"HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n" + POISON, False)
    yield Answer("204 with a length", EITHER, b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello", False)
    yield Answer("204 with chunks", EITHER, b"HTTP/1.1 204 No\r\n" + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n", False)
    yield Answer("until close", PASS, OK + b"\r\nhello", True)
    yield Answer("until close 1.0", PASS, b"HTTP/1.0 200 OK\r\n\r\nhello", True)


def answer_heads():
    full = OK + b"X-Some: value\r\nContent-Length: 2\r\n\r\nhi"
    head, _, body = full.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n") + [b""]
    for at, end in itertools.product(range(len(lines)), (b"\n", b"\r", b"\n\r", b"\r\r\n", b"\0\r\n")):
        out = b"".join(line + (end if i == at else b"\r\n") for i, line in enumerate(lines))
        yield Answer("line end", PASS if end == b"\n" else EITHER if (at, end) == (len(lines) - 1, b"\n\r") else REFUSE, out + body, True)
    yield Answer("line ends", PASS, full.replace(b"\r\n", b"\n"), True)
    yield Answer("line ends 1.0", PASS, b"HTTP/1.0 200 OK\nX: y\n\nhi", True)
    for byte in CONTROLS:
        yield Answer("control in a value", REFUSE, OK + b"X: a" + byte + b"b\r\nContent-Length: 2\r\n\r\nhi", True)
        yield Answer("control in a name", REFUSE, OK + b"X" + byte + b"Y: b\r\nContent-Length: 2\r\n\r\nhi", True)
        yield Answer("control in a length", REFUSE, OK + b"Content-Length: 2" + byte + b"\r\n\r\nhi", True)
    for name in (b"X Y", b"X ", b"", b"X(", b"X\xff", b" X", b"\tX", b"X\r\n Y", b"Content-Length ", b"Transfer-Encoding\t", b"{X}"):
        yield Answer("field name", REFUSE, OK + name + b": 2\r\nContent-Length: 2\r\n\r\nhi", True)
    for line in (b"garbage", b": v", b"X: a\r\n folded", b"X: a\r\n\tfolded", b"X: a\rSet-Cookie: b"):
        yield Answer("no field", REFUSE, OK + line + b"\r\nContent-Length: 2\r\n\r\nhi", True)
    for line in (b"Connection: x-a\r\nX-A: 1", b"Connection: content-length", b"Connection: transfer-encoding, host", b"Keep-Alive: 5",
                 b"Proxy-Connection: close", b"TE: trailers", b"Upgrade: h2c", b"Upgrade: h2c\r\nConnection: upgrade", b"Trailer: X-T",
                 b"Connection: close", b"Host: b", b"Connection: set-cookie\r\nSet-Cookie: a=b", b"Via: 1.1 x"):
        yield Answer("hop by hop", PASS, OK + line + b"\r\nContent-Length: 2\r\n\r\nhi", False)
        yield Answer("hop by hop", PASS, OK + CHUNKED + line + b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n", False)
    yield Answer("endless head", REFUSE, OK + b"X: y\r\n" * 30000, True)
    yield Answer("giant field", REFUSE, OK + b"X: " + b"y" * 100000 + b"\r\nContent-Length: 2\r\n\r\nhi", True)
    yield Answer("many fields", REFUSE, OK + b"X: y\r\n" * 300 + b"Content-Length: 2\r\n\r\nhi", True)
    yield Answer("nothing", REFUSE, b"", True)
    yield Answer("NULs", REFUSE, b"\0" * 500, True)
    yield Answer("head cut", REFUSE, OK + b"X: y\r\n", True)
    yield Answer("blank line first", EITHER, b"\r\n" + full, True)
    yield Answer("blank lines alone", REFUSE, b"\r\n" * 20, True)


def answer_chunks():
    head = OK + CHUNKED + b"\r\n"
    for size in (b"", b"g", b"0x5", b"+5", b"-5", b" 5", b"5 ", b"5_", b"five", b"\xb5", b"5\0", b"ffffffffffffffff5", b"10000000000000005",
                 b"8000000000000000", b"ffffffffffffffff", b"-1", b"5;\0", b'5;a="', b"5;" + b"x" * 5000, b"5\n", b"5\r", b"200", b"4", b"6"):
        yield Answer("chunk size", REFUSE, head + size + b"\r\nhello\r\n0\r\n\r\n" + POISON, True)
        yield Answer("chunk size", REFUSE, head + b"3\r\nabc\r\n" + size + b"\r\nhello\r\n0\r\n\r\n" + POISON, True)
    for end in (b"\n", b"\r", b"\n\r\n", b" \r\n", b"\0\r\n", b"x\r\n"):
        yield Answer("chunk line's end", REFUSE, head + b"5" + end + b"hello\r\n0\r\n\r\n" + POISON, True)
        yield Answer("chunk data's end", REFUSE, head + b"5\r\nhello" + end + b"0\r\n\r\n" + POISON, True)
        yield Answer("last chunk line's end", REFUSE, head + b"5\r\nhello\r\n0" + end + b"\r\n" + POISON, True)
        yield Answer("end of chunks", REFUSE, head + b"5\r\nhello\r\n0\r\n" + end + POISON, True)
    for cut in (b"5\r\nhel", b"5\r\nhello", b"5\r\nhello\r\n", b"5\r\nhello\r\n0", b"5\r\nhello\r\n0\r\n", b"5\r\nhello\r\n0\r\nX: y\r\n"):
        yield Answer("chunks cut", REFUSE, head + cut, True)
    for field in FORBIDDEN:
        yield Answer("forbidden trailer", EITHER, head + b"5\r\nhello\r\n0\r\n" + field + b"\r\n\r\n", False)
    for line in (b"garbage", b" X: y", b"X : y", b"X\0: y", b"X: a\0b", b"X: a\rb", b"X: y\n", b"X: y\r\n folded"):
        yield Answer("bad trailer", REFUSE, head + b"5\r\nhello\r\n0\r\n" + line + b"\r\n\r\n" + POISON, True)
    yield Answer("endless trailers", REFUSE, head + b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 5000, True)
    yield Answer("surplus behind chunks", PASS, head + b"5\r\nhello\r\n0\r\n\r\n" + POISON, False)
    for ext in (b";a", b';a="b"', b" ;a"):
        yield Answer("chunk extension", PASS, head + b"5" + ext + b"\r\nhello\r\n0" + ext + b"\r\n\r\n", False)


def interim():
    final = OK + b"Content-Length: 2\r\n\r\nhi"
    for first in (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", b"HTTP/1.1 102 P\r\n\r\n" * 40,
                  b"HTTP/1.1 199 Odd\r\nConnection: x\r\nX: y\r\n\r\n", b"HTTP/1.1 100 C\r\nContent-Length: 5\r\n\r\n",
                  b"HTTP/1.0 100 C\r\n\r\n", b"HTTP/1.1 100 \r\nConnection: close\r\n\r\n"):
        yield Answer("interim", EITHER, first + final, False)
        yield Answer("interim alone", REFUSE, first, True)
        yield Answer("interim and garbage", REFUSE, first + b"hello\r\n\r\n", True)
    for line in (b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"", b"Connection: upgrade\r\n", b"Upgrade: x\r\n"):
        yield Answer("101 unasked", REFUSE, b"HTTP/1.1 101 Switching\r\n" + line + b"\r\n" + POISON, False)
    yield Answer("1xx with chunks", EITHER, b"HTTP/1.1 103 E\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + final, True)


def answer_mutants(count):
    r = random.Random(9110)
    bases = [OK + b"X-Some: value\r\nContent-Length: 5\r\n\r\nhello", OK + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n",
             b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello"]
    spice = [b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b",", b"0", CHUNKED, b"Content-Length: 3\r\n", b"\xff", b"HTTP/1.1 ", b"1", b"f"]
    for _ in range(count):
        data = r.choice(bases)
        for _ in range(r.choice((1, 1, 2, 3))):
            at = r.randrange(len(data))
            data = r.choice((data[:at] + bytes([r.randrange(256)]) + data[at + 1:], data[:at] + r.choice(spice) + data[at:],
                             data[:at] + data[at + r.randrange(1, 4):], data[:at + 9] + data[at:]))
        yield Answer("mutant", EITHER, data, True)


def responses():
    for make in (status_lines, answer_lengths, answer_heads, answer_chunks, interim):
        yield from make()
    yield from answer_mutants(200)
    yield from every_answer_byte()
