"""A kubelet: HTTP/1.1 over TLS, client certificates of --ca asked for, anonymous callers let in only with --anonymous.

Logs (whole, --tail, followed), exec, attach and port-forward as kube-apiserver asks for them, upgraded to SPDY/3.1 or a websocket
(v4, v5.channel.k8s.io, SPDY/3.1+portforward.k8s.io). An exec is a process in this machine. The one container that there is reads lines and
says each again; --log is the file that it says them into. --plain-port: the same without TLS. Each of these tells its beginning and its end on standard output.

Any other GET is answered with a line of name, the caller's common name and the SNI; /bytes/N with N bytes; /break sends half of what it
promised and resets; /ended/N and /cut/N send N bytes up to the end of the connection, with and without close_notify. POST gives the body back."""
import argparse
import fcntl
import http.server
import json
import os
import pty
import select
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import termios
import threading
import urllib.parse

from kubestreams import OverWebsocket, Spdy, Websocket, accept_key
from splice import plain

VERSIONS = "v5.channel.k8s.io", "v4.channel.k8s.io"
FORWARD, TUNNELLED = "portforward.k8s.io", "SPDY/3.1+portforward.k8s.io"
CHANNELS = "stdin", "stdout", "stderr", "error", "resize"
PIECE = 1 << 15


def tell(*words):
    print(" ".join(map(str, words)) + "\n", end="", flush=True)  # in one piece: threads tell at the same time


class SpdyChannels:
    """stdin, stdout and so on of one exec, by their names."""

    def __init__(self, spdy, names):
        self.spdy, self.names, self.events = spdy, {}, spdy.events()
        while set(self.names.values()) != names:
            kind, stream, fields, _ = next(self.events)
            if kind == "open":
                self.names[stream] = fields["streamtype"]
                spdy.reply(stream)
        self.numbers = {name: n for n, name in self.names.items()}

    def incoming(self):
        """(name, bytes), (name, None) at a channel's end; over when the connection is."""
        for kind, stream, data, fin in self.events:
            if kind == "data" and data:
                yield self.names[stream], data
            if kind in ("data", "reset") and fin:
                yield self.names[stream], None

    def write(self, name, data):
        self.spdy.data(self.numbers[name], data)

    def finish(self):
        for stream in self.names:
            self.spdy.data(stream, b"", fin=True)
        self.spdy.goaway()


class WsChannels:
    def __init__(self, ws):
        self.ws = ws
        self.write("stdout", b"")  # so that the other side sees that it is open

    def incoming(self):
        for message in self.ws.messages():
            if message[0] == 255:
                yield CHANNELS[message[1]], None
            else:
                yield CHANNELS[message[0]], message[1:]

    def write(self, name, data):
        self.ws.send(bytes([CHANNELS.index(name)]) + data)

    def finish(self):
        self.ws.close()


def status_of(code):
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {"metadata": {}, "status": "Failure", "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}


class Command:
    """A process whose streams are channels."""

    def __init__(self, channels, argv, names):
        self.channels, self.names = channels, names
        self.tty, child = pty.openpty() if "resize" in names else (None, None)
        pipes = {"stdin": child, "stdout": child, "stderr": child} if self.tty else {
            n: subprocess.PIPE if n in names else subprocess.DEVNULL for n in ("stdin", "stdout", "stderr")}
        self.process = subprocess.Popen(argv, start_new_session=True, **pipes)
        if self.tty:
            os.close(child)
        self.stdin = self.tty or (self.process.stdin and self.process.stdin.fileno())
        outs = {"stdout": self.tty} if self.tty else {n: getattr(self.process, n).fileno() for n in ("stdout", "stderr") if n in names}
        self.copiers = [threading.Thread(target=self.copy, args=pair) for pair in outs.items()]
        for t in (*self.copiers, threading.Thread(target=self.ended, daemon=True)):
            t.start()

    def copy(self, name, fd):
        try:
            while data := os.read(fd, PIECE):
                self.channels.write(name, data)
        except OSError:
            pass  # a terminal's end, or the caller's

    def ended(self):
        for t in self.copiers:
            t.join()
        try:
            self.channels.write("error", json.dumps(status_of(self.process.wait())).encode())
            self.channels.finish()
        except OSError:
            pass

    def serve(self):
        for name, data in self.channels.incoming():
            if name == "stdin":
                self.feed(data)
            elif name == "resize" and data:
                size = json.loads(data)
                fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return "gone"
        return f"exit {self.process.returncode}"

    def feed(self, data):
        try:
            while data:
                data = data[os.write(self.stdin, data):]
            if data is None and not self.tty:
                self.process.stdin.close()
        except (OSError, ValueError):
            pass  # it reads no more


class Container:
    """One process, whose output is its log; attached callers see it from then on."""

    def __init__(self, path):
        self.path = path
        with open(path, "ab") as out:
            self.process = subprocess.Popen(["sed", "-u", "s/^/said /"], stdin=subprocess.PIPE, stdout=out)

    def attach(self, channels):
        at, over = os.path.getsize(self.path), threading.Event()
        threading.Thread(target=self.show, args=(channels, at, over), daemon=True).start()
        for name, data in channels.incoming():
            if name == "stdin" and data:
                self.process.stdin.write(data)
                self.process.stdin.flush()
        over.set()
        return "gone"

    def show(self, channels, at, over):
        with open(self.path, "rb") as log:
            log.seek(at)
            try:
                while not over.is_set():
                    if data := log.read(PIECE):
                        channels.write("stdout", data)
                    else:
                        over.wait(0.02)
            except OSError:
                pass


class Forward:
    """Connections to ports of this machine: two streams each, `error` and `data`."""

    def __init__(self, spdy):
        self.spdy, self.sockets, self.errors, self.ports = spdy, {}, {}, {}

    def serve(self):
        for kind, stream, value, fin in self.spdy.events():
            if kind == "open" and value["streamtype"] == "error":
                self.errors[value["requestid"]] = stream
                self.spdy.reply(stream)
            elif kind == "open":
                self.spdy.reply(stream)
                self.connect(stream, int(value["port"]), self.errors.get(value["requestid"]))
            elif kind == "data" and stream in self.sockets:
                self.pass_on(stream, value, fin)
            elif kind == "reset" and stream in self.sockets:
                self.sockets[stream].close()
        for s in self.sockets.values():
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        return "gone"

    def connect(self, stream, port, error):
        try:
            s = self.sockets[stream] = socket.create_connection(("127.0.0.1", port), 60)
            s.settimeout(None)
            threading.Thread(target=self.copy, args=(s, stream, error), daemon=True).start()
        except OSError as e:
            self.spdy.data(error, f"an error occurred forwarding {port}: {e}".encode(), fin=True)
            self.spdy.data(stream, b"", fin=True)

    def pass_on(self, stream, data, fin):
        try:
            self.sockets[stream].sendall(data)
            if fin:
                self.sockets[stream].shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def copy(self, s, stream, error):
        try:
            while data := s.recv(PIECE):
                self.spdy.data(stream, data)
            self.spdy.data(error, b"", fin=True)
            self.spdy.data(stream, b"", fin=True)
        except OSError:
            pass
        s.close()


class Kubelet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        serve = {"containerLogs": self.logs, "exec": self.remote, "attach": self.remote, "portForward": self.forward}.get(url.path.split("/")[1])
        if serve:
            tell("begin", url.path)
            tell("end", url.path, serve(url.path.split("/")[1]))
        elif self.path.startswith("/bytes/"):
            self.answer(b"x" * int(self.path[7:]))
        elif self.path == "/break":
            self.send_response(200)
            self.send_header("Content-Length", "2000")
            self.end_headers()
            self.wfile.write(b"y" * 1000)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            socket.socket.close(self.connection)
            self.close_connection = True
        elif self.path.startswith(("/ended/", "/cut/")):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"z" * int(self.path.split("/")[-1]))
            self.close_connection = True
            if self.path.startswith("/ended/"):
                self.connection.unwrap()
        else:
            cert = self.connection.getpeercert() or {}
            names = [v for part in cert.get("subject", ()) for k, v in part if k == "commonName"]
            self.answer(f"{options.name} peer={','.join(names) or 'nobody'} sni={self.connection.asked}\n".encode())

    def do_POST(self):
        if "Upgrade" in self.headers:
            self.do_GET()
        else:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    # --- logs ------------------------------------------------------------------------------------------

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def gone(self, seconds):
        return bool(select.select([self.connection], [], [], seconds)[0] and not self.connection.recv(1))

    def logs(self, _):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with open(options.log, "rb") as log:
            if "tailLines" in self.query:
                lines = log.read().splitlines(keepends=True)
                log.seek(-sum(map(len, lines[-int(self.query["tailLines"][0]):])), os.SEEK_END)
            follow = self.query.get("follow") == ["true"]
            try:
                while not self.gone(0):
                    if data := log.read(PIECE):
                        self.chunk(data)
                    elif not follow:
                        self.wfile.write(b"0\r\n\r\n")
                        return "done"
                    elif self.gone(0.02):
                        break
            except OSError:
                pass
        self.close_connection = True
        return "gone"

    # --- upgrades ----------------------------------------------------------------------------------------

    def upgrade(self, spoken):
        """The protocol of `spoken` that both sides know, after a 101; None: there is none, 400."""
        websocket = self.headers["Upgrade"].lower() == "websocket"
        field = "Sec-WebSocket-Protocol" if websocket else "X-Stream-Protocol-Version"
        offered = [p.strip() for line in self.headers.get_all(field, []) for p in line.split(",")]
        chosen = next((p for p in spoken if p in offered), None)
        self.close_connection = True
        if chosen is None or options.no_websockets and websocket:
            self.answer(b"unable to upgrade: no such protocol\n", 400)
            return None
        self.send_response_only(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", self.headers["Upgrade"])
        self.send_header(field, chosen)
        if websocket:
            self.send_header("Sec-WebSocket-Accept", accept_key(self.headers["Sec-WebSocket-Key"]))
        self.end_headers()
        self.server.taken.add(self.connection)
        self.sock = plain(self.connection)
        return ("websocket " if websocket else "SPDY/3.1 ") + chosen

    def remote(self, what):
        names = {"error"} | {name for name, key in (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("resize", "tty"))
                             if self.query.get(key) in (["1"], ["true"])}
        spoken = self.upgrade(VERSIONS)
        if spoken is None:
            return "refused"
        with self.sock:
            channels = WsChannels(Websocket(self.sock)) if spoken.startswith("websocket") else SpdyChannels(Spdy(self.sock), names)
            end = container.attach(channels) if what == "attach" else Command(channels, self.query["command"], names).serve()
        return f"{end} {spoken}"

    def forward(self, _):
        spoken = self.upgrade((TUNNELLED, FORWARD))
        if spoken is None:
            return "refused"
        with self.sock:
            end = Forward(Spdy(OverWebsocket(Websocket(self.sock)) if spoken.startswith("websocket") else self.sock)).serve()
        return f"{end} {spoken}"

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 256
    taken = set()

    def process_request_thread(self, request, client_address):
        try:
            if self.server_address[1] != options.plain_port:
                request = context.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except (OSError, ValueError) as e:
            tell("refused:", e)

    def handle_error(self, request, client_address):
        tell("broken:", repr(sys.exc_info()[1]))

    def shutdown_request(self, request):
        """Whoever took it for an upgrade ends it, once all has gone out."""
        if request in self.taken:
            self.taken.remove(request)
        else:
            super().shutdown_request(request)


def on_name(tls, name, _context):
    tls.asked = name


parser = argparse.ArgumentParser()
for key in ("--name", "--cert", "--key", "--ca"):
    parser.add_argument(key, required=True)
parser.add_argument("--port", type=int, default=10250)
parser.add_argument("--anonymous", action="store_true")
parser.add_argument("--no-websockets", action="store_true")
parser.add_argument("--plain-port", type=int)
parser.add_argument("--log")
options = parser.parse_args()
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=options.ca)
context.load_cert_chain(options.cert, options.key)
context.verify_mode = ssl.CERT_OPTIONAL if options.anonymous else ssl.CERT_REQUIRED
context.sni_callback = on_name
container = Container(options.log) if options.log else None
server = Server(("0.0.0.0", options.port), Kubelet)
if options.plain_port:
    threading.Thread(target=Server(("0.0.0.0", options.plain_port), Kubelet).serve_forever, daemon=True).start()
print("serving", flush=True)
server.serve_forever()
