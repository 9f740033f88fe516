"""A kubelet's TLS side: HTTP/1.1 over TLS, client certificates of --ca asked for, anonymous callers let in only with --anonymous.
Any GET is answered with a line of name, the caller's common name and the SNI; /bytes/N with N bytes; /break sends half of what it
promised and resets. POST gives the body back."""
import argparse
import http.server
import socket
import socketserver
import ssl


class Kubelet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/bytes/"):
            self.answer(b"x" * int(self.path[7:]))
        elif self.path == "/break":
            self.send_response(200)
            self.send_header("Content-Length", "2000")
            self.end_headers()
            self.wfile.write(b"y" * 1000)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            socket.socket.close(self.connection)
            self.close_connection = True
        else:
            cert = self.connection.getpeercert() or {}
            names = [v for part in cert.get("subject", ()) for k, v in part if k == "commonName"]
            self.answer(f"{options.name} peer={','.join(names) or 'nobody'} sni={self.connection.asked}\n".encode())

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 256

    def process_request_thread(self, request, client_address):
        try:
            request = context.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except (OSError, ValueError) as e:
            print("refused:", e, flush=True)


def on_name(tls, name, _context):
    tls.asked = name


parser = argparse.ArgumentParser()
for key in ("--name", "--cert", "--key", "--ca"):
    parser.add_argument(key, required=True)
parser.add_argument("--port", type=int, default=10250)
parser.add_argument("--anonymous", action="store_true")
options = parser.parse_args()
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=options.ca)
context.load_cert_chain(options.cert, options.key)
context.verify_mode = ssl.CERT_OPTIONAL if options.anonymous else ssl.CERT_REQUIRED
context.sni_callback = on_name
server = Server(("0.0.0.0", options.port), Kubelet)
print("serving", flush=True)
server.serve_forever()
