"""An echo of requests, as the Gateway API's conformance suite has one: each answer is JSON that says what came, and to whom:
{"path", "host", "method", "proto", "headers", "body", "namespace", "service", "pod"}. HTTP/1 and HTTP/2 with prior knowledge at each port;
a call of gRPC gets that JSON as its message. /status/N answers with N, /flaky/N fails with 503 N times and then answers, /slow/S waits so long, /until-close has
no Content-Length.

With FOLDER it speaks TLS with the certificate and key of that folder (tls.crt, tls.key), read anew for each connection, and says in "tls"
what was agreed: {"sni", "alpn", "version", "resumed", "connection" (its number)}.

    echo.py PORT,PORT,.. NAMESPACE SERVICE POD [FOLDER]
"""
import json
import os
import socket
import socketserver
import ssl
import sys
import threading
import time

from h2kit import Data, Ended, Head, Http2
from httpkit import Wire

PORTS, NAMESPACE, SERVICE, POD = sys.argv[1:5]
FOLDER = sys.argv[5] if len(sys.argv) > 5 else None
failed, seen, lock, own = {}, [], threading.Lock(), threading.local()
contexts = {}


def answer(request):
    """(status, JSON of the request)."""
    path, status = request["path"].partition("?")[0], 200
    with lock:
        if path == "/seen":
            request = {"seen": list(seen)}
        else:
            seen.append(f"{request['method']} {request['path']} {request['proto']} {request['body']}".strip())
    if path.startswith("/status/"):
        status = int(path.split("/")[2])
    elif path.startswith("/flaky/"):
        with lock:
            failed[path] = failed.get(path, 0) + 1
            status = 503 if failed[path] <= int(path.split("/")[2]) else 200
    elif path.startswith("/slow/"):
        time.sleep(float(path.split("/")[2]))
    if FOLDER:
        request["tls"] = own.tls
    return status, json.dumps({**request, "namespace": NAMESPACE, "service": SERVICE, "pod": POD}).encode()


def fields_of(lines):
    made = {}
    for name, value in lines:
        made.setdefault(name.lower(), []).append(value)
    return made


def http1(wire):
    while wire.left or wire.begins():
        first, *lines = wire.until().decode("latin-1")[:-4].split("\r\n")
        method, path, _ = first.split()
        fields = fields_of(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in lines)
        body = wire.take(int(fields.get("content-length", ["0"])[0])).decode("latin-1")
        status, said = answer({"path": path, "host": fields["host"][0], "method": method, "proto": "HTTP/1.1", "headers": fields, "body": body})
        if path == "/until-close":
            wire.put(b"HTTP/1.1 200 Echo\r\n\r\n", said)
            return
        wire.put(b"HTTP/1.1 %d Echo\r\nX-Echo: here\r\nX-Echo-Other: there\r\nContent-Length: %d\r\n\r\n" % (status, len(said)),
                 b"" if method == "HEAD" else said)
        if fields.get("connection") == ["close"]:
            return


def http2(wire):
    h2, under_way = Http2(wire, server=True).open(), {}
    while h2.pump():
        for stream, events in list(h2.got.items()):
            while events:
                take(h2, stream, events.popleft(), under_way)


def take(h2, stream, event, under_way):
    if isinstance(event, Head):
        under_way.setdefault(stream, [event.fields, b""])
    elif isinstance(event, Data):
        under_way[stream][1] += event.bytes
    else:
        under_way.pop(stream, None)
        return
    if not event.end:
        return
    lines, body = under_way.pop(stream)
    fields = fields_of(lines)
    status, said = answer({"path": fields[":path"][0], "host": fields[":authority"][0], "method": fields[":method"][0], "proto": "HTTP/2.0",
                           "headers": fields, "body": body.decode("latin-1")})
    if fields.get("content-type") == ["application/grpc"]:
        h2.answer(stream, b"\0" + len(said).to_bytes(4, "big") + said, ("content-type", "application/grpc"), trailers=[("grpc-status", "0")])
    else:
        h2.answer(stream, said, ("x-echo", "here"), ("x-echo-other", "there"), status=status)


def context():
    """One for each certificate, so that its tickets are good as long as it is."""
    cert, key = (os.path.join(FOLDER, n) for n in ("tls.crt", "tls.key"))
    with open(cert, encoding="ascii") as f:
        text = f.read()
    if text not in contexts:
        made = contexts[text] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(cert, key)
        made.set_alpn_protocols(["http/1.1"] if os.path.exists(os.path.join(FOLDER, "no-h2")) else ["h2", "http/1.1"])
        made.sni_callback = lambda s, name, _: setattr(own, "sni", name)
    return contexts[text]


def shake(s):
    own.sni = None
    with lock:
        made = context()
        failed["connections"] = failed.get("connections", 0) + 1
        number = failed["connections"]
    s = made.wrap_socket(s, server_side=True)
    own.tls = {"sni": own.sni, "alpn": s.selected_alpn_protocol(), "version": s.version(), "resumed": s.session_reused, "connection": number}
    return s


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(None)
        try:
            wire = Wire(shake(self.request) if FOLDER else self.request)
            if wire.begins():
                (http2 if wire.left.startswith(b"PRI ") else http1)(wire)
        except (Ended, OSError, AssertionError):
            pass


class Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET
    allow_reuse_address = daemon_threads = True
    request_queue_size = 256


for port in PORTS.split(","):
    threading.Thread(target=Server(("0.0.0.0", int(port)), Echo).serve_forever).start()
print("serving", flush=True)
