"""A node with what the Gateway API's conformance suite for meshes expects: in the namespace mesh a Service `echo` over two versions, each
with a Service of its own; clients in mesh and in another namespace; routes as objects in the hub's folder.

    town = Town(lab)
    town.routes(route("split", to("echo-v1"), parent="echo"))
    reply = town.ask("echo", "/path", "x-field: value", http=2)
    assert reply.status == 200 and reply.service == "echo-v1"
"""
import collections
import contextlib
import json
import os
import uuid

from h2kit import Http2
from httpkit import Wire, socket_of
from lab import HERE, PYTHON, Agent, Hub, Node, pod, service, wait_for

GROUP = "gateway.networking.k8s.io"
# As the suite's own Services: only `http` and `http-alt` say appProtocol: http, and `grpc` of the Service `echo` kubernetes.io/h2c.
PORTS = ("http", 80, 8080), ("http-alt", 8080, 8080), ("https", 443, 8443), ("tcp", 9090, 9090), ("grpc", 7070, 7070)


class Reply(collections.namedtuple("Reply", "status fields text trailers")):
    """What echo.py has answered: the request as it came there, and by whom."""

    @property
    def said(self):
        return json.loads(self.text) if self.text.startswith("{") else {}

    @property
    def service(self):
        return self.said.get("service")

    def field(self, name):
        """The values of a field of the request."""
        return self.said["headers"].get(name)


def route(name, *rules, parent="echo", namespace="mesh", kind="HTTPRoute", of="mesh", created="2026-01-01T00:00:00Z", **ref):
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
            "spec": {"parentRefs": [{"group": "", "kind": "Service", "name": parent, "namespace": of, **ref}], "rules": list(rules)}}


def backend(name, port=80, **more):
    return {"name": name, "port": port, **more}


def to(*names, **more):
    """A rule: to("echo-v1", matches=[...])."""
    return {"backendRefs": [backend(n) if isinstance(n, str) else n for n in names], **more}


def edits(kind, **what):
    """A filter: edits("Request", set={"a": "1"}, remove=["b"])."""
    body = {k: v if k == "remove" else [{"name": n, "value": x} for n, x in v.items()] for k, v in what.items()}
    return {"type": f"{kind}HeaderModifier", f"{kind.lower()}HeaderModifier": body}


def redirect(**what):
    return {"filters": [{"type": "RequestRedirect", "requestRedirect": what}]}


def rewrite(**what):
    return {"type": "URLRewrite", "urlRewrite": what}


def versions(name, h2c=False, **more):
    """A Service with the suite's ports."""
    made = service(name, *PORTS, namespace=more.pop("namespace", "mesh"), **more)
    for port in made["spec"]["ports"]:
        if port["name"].startswith("http") and port["name"] != "https":
            port["appProtocol"] = "http"
        elif port["name"] == "grpc" and h2c:
            port["appProtocol"] = "kubernetes.io/h2c"
    return made


class Town:
    def __init__(self, lab):
        self.lab = lab
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.hub = Hub(lab)
        self.pods, self.addresses, shown = {}, {}, []
        for name, namespace, labels in (("echo-v1", "mesh", "v1"), ("echo-v2", "mesh", "v2"), ("echo-far", "other", "far")):
            p = self.pods[name] = self.node.pod(name)
            p.start(f"echo-{name}", PYTHON, os.path.join(HERE, "echo.py"), "8080,7070,9090", namespace, name, f"{name}-pod")
            shown.append(pod(name, self.node, p.address, *((f"p{n}", n, 0) for n in (8080, 8443, 9090, 7070)), app=name, namespace=namespace))
            shown[-1]["metadata"]["labels"].update(version=labels, all="echo")
        self.client, self.consumer = self.node.pod("client"), self.node.pod("consumer")
        shown += [pod("client", self.node, self.client.address, namespace="mesh"),
                  pod("consumer", self.node, self.consumer.address, namespace="consumer")]
        echo = versions("echo", h2c=True)
        echo["spec"]["selector"] = {"all": "echo"}
        guarded = versions("guarded", selector="echo-v2", annotations={"edgeway.io/allow-from": "namespaces=consumer"})
        self.hub.write("pods.yaml", *shown)
        self.hub.write("services.yaml", echo, guarded, *(versions(n) for n in ("echo-v1", "echo-v2", "empty")),
                       versions("echo-far", namespace="other"))
        self.config = os.path.join(self.node.dir, "agent.yaml")
        with open(self.config, "w") as f:
            f.write("lb: {accessLog: all}\n")
        self.agent = Agent(self.node, self.hub, "--config", self.config, "--lb.policy", "round-robin", "--mesh.workers", "1")
        for name in ("echo.mesh", "echo-v1.mesh", "echo-v2.mesh", "guarded.mesh", "echo-far.other"):
            where = f"{name}.svc.cluster.local"
            self.addresses[name] = wait_for(name, lambda w=where: self.node.address_of(w, f"@{self.node.gateway}"))
        wait_for("the endpoints", lambda: {self.ask("echo").service for _ in range(9)} == {"echo-v1", "echo-v2"})

    def routes(self, *objects):
        """These are the routes from now on: the agent has them."""
        mark = f"m{uuid.uuid4().hex[:8]}"
        self.hub.write("routes.yaml", *objects, route("mark", {"name": mark, **to("echo-far")}, parent="echo-far", of="other", namespace="other"))
        wait_for("the routes", lambda: mark in self.agent.ask("/debug/tap?id=x&last=1")[1] or self.marked(mark))

    def marked(self, mark):
        """The agent's Services come in the order in which they changed, so that the mark comes with or after them."""
        said = self.trace("echo-far.other")
        return mark in said["answered"].get("route", "")

    def trace(self, where, path="/", port=80):
        p = self.node.run(self.lab.program("edgewayctl"), "--socket", self.agent.socket, "-o", "json", "trace",
                          f"http://{self.addresses.get(where) or self.addresses[where + '.mesh']}:{port}{path}", check=False)
        return json.loads(p.stdout)

    def connect(self, name="echo", port=80, machine=None):
        s = socket_of(machine or self.client)
        s.connect((self.addresses.get(name) or self.addresses[f"{name}.mesh"], port))
        return Wire(s)

    def ask(self, name="echo", path="/", *fields, method="GET", http=1, port=80, machine=None, body=None, host="echo", grpc=False):
        """fields: "name: value"."""
        with contextlib.closing(self.connect(name, port, machine).s) as s:
            wire = Wire(s)
            if http == 1:
                more = [f"Content-Length: {len(body)}"] if body is not None else []
                wire.put("\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, *more, "", body or ""]).encode())
                status, got, text = wire.reply()
                return Reply(status, got, text.decode(), {})
            h2 = Http2(wire).open()
            if grpc:
                fields, method, body = (*fields, "content-type: application/grpc", "te: trailers"), "POST", "\0\0\0\0\0"
            pairs = [tuple(f.split(": ", 1)) for f in fields]
            r = h2.reply(h2.ask(path, method, *pairs, body=body.encode() if body is not None else None))
            assert r.reset is None, r
            return Reply(r.status, {k: v for k, v in r.fields.items() if k != ":status"}, r.body[5 if grpc and r.body else 0:].decode(), r.trailers or r.fields)

    def services(self, n=40, **more):
        """How many of n requests each Service has answered."""
        return collections.Counter(self.ask(**more).service for _ in range(n))
