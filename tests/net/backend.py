"""A server that says who it is. --http PORT: any GET is answered with its name; POST gives the body back; /headers the
request's head, /slow answers after a second, /hang (POST too) never, /hangup neither: it closes;
/hits tells how many times it was asked for either of these two. --delay MS: each answer waits. --backlog N: connections that
wait to be accepted. --bind ADDRESS: all by default. /health is 503 while the file of --ill-if is there.
--tcp PORT: sends its name and a line end, then echoes. --stream PORT: "down N" sends N bytes and their sha256, "up" takes bytes until
their end and answers their sha256, "hold" reads no byte more until the connection breaks; what became of each is told on standard output. --udp PORT: answers each datagram with its name, a line end and the
datagram, cut to what fits."""
import argparse
import hashlib
import http.server
import os
import select
import socket
import socketserver
import threading
import time


hits = []
hanging = []  # connections that wait for an answer: a thread for each would be a thousand in some tests


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, body, status=200, *fields):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def leave(self):
        hits.append(1)
        self.close_connection = True
        if self.path == "/hang":
            hanging.append(self.request)

    def do_GET(self):
        time.sleep(options.delay / 1000)
        if self.path == "/health":
            self.answer(b"", 503 if options.ill_if and os.path.exists(options.ill_if) else 204)
            return
        if self.path == "/slow":
            time.sleep(1)
        if self.path in ("/hang", "/hangup"):
            self.leave()
            return
        if self.path == "/hits":
            self.answer(str(len(hits)).encode())
            return
        if self.path == "/headers":
            self.answer((self.requestline + "\n" + str(self.headers)).encode())
        elif self.path.startswith("/bytes/"):
            self.answer(b"x" * int(self.path[7:]))
        elif self.path.startswith("/head/"):
            self.answer(b"after\n", 200, ("X-Long", "x" * int(self.path[6:])))
        else:
            self.answer(f"{options.name}\n".encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/hang":
            self.leave()
            return
        self.answer(body)

    def log_message(self, *args):
        pass


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(f"{options.name}\n".encode())
        while True:
            data = self.request.recv(65536)
            if not data:
                return
            self.request.sendall(data)


class Stream(socketserver.StreamRequestHandler):
    def handle(self):
        # Each line is one write, for there are other threads.
        words = self.rfile.readline().split()
        if not words:
            return
        what, n, end = words[0].decode(), 0, "done"
        print(f"begun {what}\n", end="", flush=True)
        try:
            n = self.down(int(words[1])) if what == "down" else self.hold() if what == "hold" else self.up()
        except OSError:
            end = "broken"
        print(f"{what} {end} {n}\n", end="", flush=True)

    def down(self, size):
        digest, base = hashlib.sha256(), os.urandom(65536)
        for at in range(0, size, len(base)):
            piece = at.to_bytes(8, "big") + base[8:min(len(base), size - at)]
            digest.update(piece)
            self.request.sendall(piece)
        self.request.sendall(digest.digest())
        return size

    def hold(self):
        poll = select.poll()
        poll.register(self.request, 0)  # errors and hang-ups alone
        poll.poll()
        raise ConnectionError

    def up(self):
        digest, n = hashlib.sha256(), 0
        while data := self.rfile.read1(1 << 20):
            digest.update(data)
            n += len(data)
        self.request.sendall(digest.digest())
        return n


class Server(socketserver.ThreadingTCPServer):
    address_family = property(lambda self: socket.AF_INET6 if ":" in options.bind else socket.AF_INET)
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = property(lambda self: options.backlog)

    def shutdown_request(self, request):
        if request not in hanging:
            super().shutdown_request(request)


class Datagrams(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        sock.sendto((f"{options.name}\n".encode() + data)[:65507], self.client_address)


class DatagramServer(socketserver.UDPServer):
    address_family = Server.address_family
    allow_reuse_address = True
    max_packet_size = 65536


parser = argparse.ArgumentParser()
parser.add_argument("--name", required=True)
parser.add_argument("--http", type=int, action="append", default=[])
parser.add_argument("--tcp", type=int, action="append", default=[])
parser.add_argument("--stream", type=int, action="append", default=[])
parser.add_argument("--delay", type=float, default=0)
parser.add_argument("--udp", type=int, action="append", default=[])
parser.add_argument("--ill-if")
parser.add_argument("--backlog", type=int, default=256)
parser.add_argument("--bind", default="0.0.0.0")
options = parser.parse_args()
for kind, ports in ((Web, options.http), (Echo, options.tcp), (Stream, options.stream)):
    for port in ports:
        threading.Thread(target=Server((options.bind, port), kind).serve_forever).start()
for port in options.udp:
    threading.Thread(target=DatagramServer((options.bind, port), Datagrams).serve_forever).start()
print("serving", flush=True)
