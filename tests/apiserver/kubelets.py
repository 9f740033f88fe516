"""How an API server reaches kubelets: log, exec, attach and portforward of pods, proxy of nodes, through an egress proxy or not, and
what it makes of their answers. Unlike the real one it speaks HTTP/1.1 alone with them; an idle connection is
used again for logs and the proxy, as the real one uses its one of HTTP/2.
"""
import os
import select
import socket
import ssl
import sys
import threading
import urllib.parse

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "net"))
from egress_client import Refused, http_connect  # noqa: E402
from splice import plain, splice  # noqa: E402

KUBELET_PORT = 10250
ASKED = {"stdin": "input", "stdout": "output", "stderr": "error"}  # how kubelets call what kubectl asks for
UPGRADES = {"exec": "exec", "attach": "attach", "portforward": "portForward"}
SUBRESOURCES = {"log", "proxy", *UPGRADES}
PASSED = "connection", "upgrade", "x-stream-protocol-version"


class Unreachable(Exception):
    pass


class Kubelets:
    """egress: {"listen": "HOST:PORT" | "unix:PATH", "ca", "cert", "key"}; kubelets: {"ca", "cert", "key"}: files."""

    def __init__(self, egress, kubelets):
        self.egress, self.lock, self.idle = egress, threading.Lock(), {}
        self.outer = self.context(egress) if "ca" in egress else None
        self.inner = self.context(kubelets)

    @staticmethod
    def context(files):
        context = ssl.create_default_context(cafile=files["ca"])
        context.load_cert_chain(files["cert"], files["key"])
        return context

    # --- connections -------------------------------------------------------------------------------------

    def proxy(self):
        listen = self.egress["listen"]
        if listen.startswith("unix:"):
            s = socket.socket(socket.AF_UNIX)
            s.connect(listen[5:])
            return s
        host, port = listen.rsplit(":", 1)
        s = self.outer.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def dial(self, host, port):
        target, s = f"{host}:{port}", None
        try:
            s = self.proxy()
            return self.inner.wrap_socket(plain(http_connect(s, target)), server_hostname=host)
        except Refused as e:
            s.close()
            line = e.head.split(b"\r\n")[0].decode(errors="replace").partition(" ")[2]
            raise Unreachable(f"proxy error from {self.egress['listen']} while dialing {target}, code {e.status}: {line}") from None
        except OSError as e:
            if s is not None:
                s.close()
            raise Unreachable(f"{target}: {e}") from None

    def take(self, where):
        with self.lock:
            kept = self.idle.get(where, [])
            while kept:
                s = kept.pop()
                if not select.select([s], [], [], 0)[0]:
                    return s
                s.close()
        return self.dial(*where)

    def keep(self, where, s):
        with self.lock:
            self.idle.setdefault(where, []).append(s)

    def forget(self):
        """Idle connections are closed, as after 90 s."""
        with self.lock:
            for kept in self.idle.values():
                while kept:
                    kept.pop().close()

    # --- where and what ------------------------------------------------------------------------------------

    @staticmethod
    def node(store, name):
        obj = store.get(("", "nodes"), "", name).obj
        by_type = {a["type"]: a["address"] for a in obj.get("status", {}).get("addresses", [])}
        port = obj["status"].get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port", KUBELET_PORT)
        return by_type.get("InternalIP") or by_type["Hostname"], port

    def serve(self, handler, resource, ns, name, sub, rest):
        store, query = handler.server.store, urllib.parse.parse_qsl(urllib.parse.urlsplit(handler.path).query, keep_blank_values=True)
        if resource == ("", "nodes"):
            return self.forward(handler, self.node(store, name), "/" + "/".join(rest))
        obj = store.get(resource, ns, name).obj
        container = dict(query).get("container") or obj["spec"]["containers"][0]["name"]
        where = self.node(store, obj["spec"]["nodeName"])
        query = [(ASKED.get(k, k), "1" if k in ASKED and v == "true" else v) for k, v in query if k != "container"]
        text = urllib.parse.urlencode(query)
        if sub == "log":
            return self.forward(handler, where, f"/containerLogs/{ns}/{name}/{container}?{text}")
        path = f"/{UPGRADES[sub]}/{ns}/{name}" + ("" if sub == "portforward" else f"/{container}") + (f"?{text}" if text else "")
        return self.upgrade(handler, where, path)

    # --- answers -------------------------------------------------------------------------------------------

    @staticmethod
    def head(s):
        """(status, fields, bytes) of an answer, and not a byte more."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += s.recv(1) or b"\r\n\r\n"
        lines = head.decode().split("\r\n")
        return int((lines[0].split() + ["0", "0"])[1]), {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines[1:] if x)}, head

    def upgrade(self, handler, where, path):
        s = self.dial(*where)
        fields = [(k, v) for k, v in handler.headers.items() if k.lower() in PASSED or k.lower().startswith("sec-websocket-")]
        s.sendall("\r\n".join([f"{handler.command} {path} HTTP/1.1", f"Host: {where[0]}:{where[1]}", "Content-Length: 0",
                               *[f"{k}: {v}" for k, v in fields], "", ""]).encode())
        status, answer, head = self.head(s)
        handler.close_connection = True
        handler.out(head)
        if status == 101:
            splice(handler.connection, s)
            return
        handler.out(s.recv(int(answer.get("content-length", 0)) or 1))
        s.close()

    def forward(self, handler, where, path):
        """A request, and its answer as it comes; the caller's end is the kubelet's."""
        s = self.take(where)
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\n\r\n".encode())
        status, fields, _ = self.head(s)
        chunked = fields.get("transfer-encoding") == "chunked"
        length = None if chunked else int(fields.get("content-length", 0))
        handler.head(status, fields.get("content-type", "text/plain"), length)
        last = self.body(handler, s, length)
        if last is None:
            s.close()
            handler.close_connection = True
        else:  # first: who has read all of it may ask again at once, or have idle connections forgotten
            self.keep(where, s)
            handler.out(last)

    @staticmethod
    def wait(handler, s):
        """False: the caller has gone."""
        while not s.pending():
            ready = select.select([s, handler.connection], [], [])[0]
            if handler.connection in ready and not handler.connection.recv(1):
                return False
            if s in ready:
                break
        return True

    def body(self, handler, s, length):
        """The last piece of a whole answer, which is still to be passed on; None: it was cut off."""
        rest, left, data = b"", length, b""
        while left is None or left > 0:
            handler.out(data)
            if not self.wait(handler, s):
                return None
            data = s.recv(65536)
            if not data:
                return None
            if left is not None:
                left -= len(data)
            rest = (rest + data)[-7:]
            if left is None and rest == b"\r\n0\r\n\r\n" or rest == b"0\r\n\r\n":
                break
        return data
