#!/usr/bin/python3
"""A kube-apiserver for tests: it obeys what was recorded of a real one (v1.36) for the resources that the hub reads, with
faults on demand. Real kubectl can create, apply, get and delete against it.

    server.py --dir DIR --listen 192.0.2.2:6443 [--name kubernetes]

DIR gets the certificates, admin.conf for kubectl, and `control`, a Unix socket: a JSON object a line, {"op": ...}, answered
by a line. See Control. Unlike the real one it has neither HTTP/2 nor a resourceVersion to each selector's watch cache.
"""
import argparse
import base64
import gzip
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import objects  # noqa: E402
import kubelets  # noqa: E402
import signing  # noqa: E402
from store import CUSTOM, LISTED, Refused, Selector, Store, api_version, compact_json, details, qualified, version  # noqa: E402

GZIP_FROM = 128 * 1024
WHOLE_MOST = 2048  # longer bodies are chunked
BOOKMARK_S = 60.0
ADMIN = "kubernetes-admin"
SHORT = {"services": ["svc"], "pods": ["po"], "nodes": ["no"], "endpoints": ["ep"], "configmaps": ["cm"], "namespaces": ["ns"],
         "certificatesigningrequests": ["csr"]}


class Cut(Exception):
    """The connection ends here, without the last chunk."""


class Faults:
    """Rules that requests meet: {"match": text in the path, "watch": true | false, "count": n, "do": ...}; see Control."""

    def __init__(self):
        self.lock, self.rules, self.met = threading.Lock(), [], 0

    def take(self, path, watch):
        with self.lock:
            for rule in self.rules:
                if rule.get("match", "") in path and rule.get("watch", watch) == watch and rule.get("count", 1) > 0:
                    rule["count"] = rule.get("count", 1) - 1
                    self.met += 1
                    return rule
        return {}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, address, context):
        self.context, self.store, self.faults = context, Store(), Faults()
        self.tokens, self.rights = {}, {}  # token -> user; user -> None (all) or [[verb, resource], ...]
        self.bookmark_s, self.absent, self.kubelets = BOOKMARK_S, set(CUSTOM), None
        self.open, self.ending = set(), threading.Event()
        self.requests = []  # (method, path) of the last ones
        self.used = set()  # (user, verb, group, resource, name, namespace, whether it may)
        self.controllers = objects.Controllers(self.store)
        self.controllers.start()
        super().__init__(address, Handler)

    def handle_error(self, request, client_address):
        pass  # a client that goes away is no news


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 90

    # --- connections ----------------------------------------------------------------

    def setup(self):
        self.raw = socket.fromfd(self.request.fileno(), socket.AF_INET, socket.SOCK_STREAM)  # for cut_all
        self.server.open.add(self.raw)
        self.request.settimeout(self.timeout)
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self):
        self.server.open.discard(self.raw)
        try:
            super().finish()
        finally:
            self.raw.close()
            self.request.close()  # no close_notify: as a process that was killed

    def log_message(self, *a):
        pass

    # --- answers ----------------------------------------------------------------------

    def head(self, status, content_type, length, more=()):
        """In the order in which the real one has them."""
        reason = {200: "OK", 201: "Created", 422: "Unprocessable Entity", 429: "Too Many Requests"}.get(
            status, self.responses.get(status, ("",))[0])
        lines = [f"HTTP/1.1 {status} {reason}", f"Audit-Id: {uuid.uuid4()}", "Cache-Control: no-cache, private",
                 *[f"{k}: {v}" for k, v in more if k == "Content-Encoding"],
                 f"Content-Type: {content_type}", *[f"{k}: {v}" for k, v in more if k != "Content-Encoding"]]
        if status != 401:
            lines += [f"X-Kubernetes-Pf-Flowschema-Uid: {uuid.UUID(int=1)}",
                      f"X-Kubernetes-Pf-Prioritylevel-Uid: {uuid.UUID(int=2)}"]
        lines += [f"Date: {self.date_time_string()}",
                  "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"]
        self.out(("\r\n".join(lines) + "\r\n\r\n").encode())

    def out(self, data):
        self.wfile.write(data)

    def body(self, data, whole=True):
        """A piece of a chunked body, as the fault of this request has it."""
        size = self.fault.get("size", 0) if self.fault.get("do") == "split" else 0
        if self.fault.get("do") == "cut":
            left = self.fault["at"] - self.sent
            if len(data) >= left:
                self.out(b"%x\r\n%s" % (len(data), data[:max(left, 0)]))
                raise Cut
        self.sent += len(data)
        if not size:
            self.out(b"%x\r\n%s\r\n" % (len(data), data))
            return
        out = []
        for i in range(0, len(data), size):
            piece = data[i:i + size]
            out.append(b"%x\r\n%s\r\n" % (len(piece), piece))
        if size > 3:
            for piece in out:  # packets of their own as well
                self.out(piece)
        else:
            self.out(b"".join(out))

    def answer(self, status, data, content_type="application/json", more=()):
        if isinstance(data, (dict, list)):
            data = compact_json(data) + b"\n"
        more = list(more)
        if self.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0")) and data[:1] == b"{":
            data = json.dumps(json.loads(data), indent=2).encode()
        if len(data) > GZIP_FROM and "gzip" in self.headers.get("Accept-Encoding", ""):
            data = gzip.compress(data, 1)
            more += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        faulty = self.fault.get("do") in ("cut", "split")
        if len(data) <= WHOLE_MOST and not faulty:
            self.head(status, content_type, len(data), more)
            self.out(data)
            return
        self.head(status, content_type, None, more)
        for i in range(0, len(data), WHOLE_MOST + 211):
            self.body(data[i:i + WHOLE_MOST + 211])
        self.out(b"0\r\n\r\n")

    def status(self, code, reason, message, more=(), again=None, **details):
        if code == 429:
            return self.answer(429, b"Too many requests, please try again later.\n", "text/plain; charset=utf-8",
                               [("Retry-After", str(details.get("retry_after", 1))), ("X-Content-Type-Options", "nosniff")])
        obj = {"kind": "Status", "apiVersion": "v1", "metadata": {"continue": again} if again else {}, "status": "Failure",
               "message": message, **({"reason": reason} if reason else {})}
        if details:
            obj["details"] = details
        obj["code"] = code
        head = list(more)
        if code == 504:
            head.append(("Retry-After", "1"))
        if code == 403:
            head.append(("X-Content-Type-Options", "nosniff"))
        return self.answer(code, obj, more=head)

    # --- who and what ----------------------------------------------------------------

    def user(self):
        """None: unknown credentials."""
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        if kind == "Bearer":
            return self.server.tokens.get(token.strip())
        cert = self.request.getpeercert()
        for part in (cert or {}).get("subject", ()):
            for key, value in part:
                if key == "commonName":
                    return value
        return "system:anonymous"

    def allowed(self, user, verb, group, resource, ns, name):
        """Also by name, as resourceNames have it: [verb, resource, name]; lists and watches with metadata.name as their only
        field selector count as of that name. And in one namespace alone: [verb, resource, name or "", namespace]."""
        rights = self.server.rights.get(user, [])
        fields = self.query.get("fieldSelector", "")
        if not name and verb in ("list", "watch") and fields.startswith("metadata.name=") and "," not in fields:
            name = fields[len("metadata.name="):]
        may = rights is None or any(
            [verb, resource] == r[:2] and (len(r) < 3 or r[2] in ("", name) and (verb != "create" or not r[2])) and
            (len(r) < 4 or r[3] == ns) for r in rights)
        self.server.used.add((user, verb, group, resource, "" if verb == "create" else name, ns, may))
        return may

    def serve(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = {k: v[-1] for k, v in urllib.parse.parse_qs(url.query, keep_blank_values=True).items()}
        self.parts = [urllib.parse.unquote(p) for p in url.path.split("/") if p]
        watch = self.query.get("watch") in ("true", "1")
        self.fault, self.sent = self.server.faults.take(self.path, watch), 0
        self.server.requests.append((self.command, self.path))
        del self.server.requests[:-2000]
        length = int(self.headers.get("Content-Length") or 0)
        self.sent_body = self.rfile.read(length)
        try:
            self.meet_fault() or self.route(watch)
        except Refused as e:
            self.status(e.code, e.reason, e.message, **e.more)
        except Cut:
            self.close_connection = True
        except (OSError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

    def meet_fault(self):
        do = self.fault.get("do")
        if do == "status":
            code = self.fault["status"]
            self.status(code, {403: "Forbidden", 500: "InternalError"}.get(code, "ServiceUnavailable"),
                        self.fault.get("message", "as the test wants it"), retry_after=self.fault.get("retry_after", 1))
        elif do == "no-answer":
            self.server.ending.wait(self.fault.get("seconds", 3600))
            raise Cut
        elif do == "reset":
            raise Cut
        else:
            return False
        return True

    def route(self, watch):
        user = self.user()
        if user is None:
            return self.status(401, "Unauthorized", "Unauthorized")
        if self.meta():
            return None
        group, rest = ("", self.parts[2:]) if self.parts[:2] == ["api", "v1"] else (
            (self.parts[1], self.parts[3:]) if self.parts[:1] == ["apis"] and self.parts[2:3] == [version(self.parts[1])] else (None, None))
        ns = ""
        if rest and rest[0] == "namespaces" and len(rest) > 2:
            ns, rest = rest[1], rest[2:]
        resource = (group, rest[0]) if rest else None
        name, sub = (rest[1:2] or [""])[0] if rest else "", (rest[2:3] or [""])[0] if rest else ""
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
            self.command, "get" if name else "watch" if watch else "list")
        if resource is None or resource not in LISTED or resource in self.server.absent:
            return self.answer(404, b"404 page not found\n", "text/plain; charset=utf-8", [("X-Content-Type-Options", "nosniff")])
        self.as_user = user
        if not self.allowed(user, verb, group, "/".join(filter(None, (resource[1], sub))), ns, name):
            where = f' in the namespace "{ns}"' if ns else " at the cluster scope"
            return self.status(403, "Forbidden", f'{resource[1]}{" " + json.dumps(name) if name else ""} is forbidden: User '
                               f'"{user}" cannot {verb} resource "{resource[1]}" in API group "{group}"{where}',
                               kind=resource[1])
        if sub in kubelets.SUBRESOURCES and self.server.kubelets:
            return self.to_kubelet(resource, ns, name, sub, rest[3:])
        if verb in ("list", "watch"):
            selector = Selector(self.query.get("labelSelector", ""), self.query.get("fieldSelector", ""))
            return self.watch(resource, ns, selector) if watch else self.list(resource, ns, selector)
        return self.change(resource, ns, name, sub)

    def to_kubelet(self, resource, ns, name, sub, rest):
        try:
            self.server.kubelets.serve(self, resource, ns, name, sub, rest)
        except kubelets.Unreachable as e:
            self.status(500, "InternalError", f"error dialing backend: {e}")

    # --- discovery ------------------------------------------------------------------

    def meta(self):
        path = "/" + "/".join(self.parts)
        groups = sorted({g for g, _ in LISTED if g} - {g for g, _ in self.server.absent})
        group_of = lambda g: {"name": g, "versions": [{"groupVersion": api_version(g), "version": version(g)}],  # noqa: E731
                              "preferredVersion": {"groupVersion": api_version(g), "version": version(g)}}
        if path in ("/healthz", "/readyz", "/livez"):
            self.answer(200, b"ok", "text/plain; charset=utf-8")
        elif path == "/version":
            self.answer(200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"})
        elif path == "/api":
            self.answer(200, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": "%s:%d" % self.server.server_address[:2]}]})
        elif path == "/apis":
            self.answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_of(g) for g in groups]})
        elif path == "/api/v1" or (len(self.parts) == 3 and self.parts[0] == "apis" and self.parts[1] in groups):
            group = "" if path == "/api/v1" else self.parts[1]
            self.answer(200, {"kind": "APIResourceList", "groupVersion": api_version(group), "resources": [
                {"name": r, "singularName": k.lower(), "namespaced": n, "kind": k, "shortNames": SHORT.get(r, []),
                 "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]}
                for (g, r), (k, n) in LISTED.items() if g == group]})
        elif len(self.parts) == 2 and self.parts[0] == "apis" and self.parts[1] in groups:
            self.answer(200, dict(kind="APIGroup", apiVersion="v1", **group_of(self.parts[1])))
        elif path == "/openapi/v2":
            self.answer(200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
        elif path == "/openapi/v3":
            self.answer(200, {"paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}"}
                                        for p in ["api/v1"] + [f"apis/{api_version(g)}" for g in groups]}})
        elif path.startswith("/openapi/v3/"):
            self.answer(200, self.openapi(path[len("/openapi/v3/"):]))
        else:
            return False
        return True

    @staticmethod
    def openapi(where):
        """Enough for kubectl to see that the server checks fields and dry runs itself."""
        group = "" if where == "api/v1" else where.split("/")[1]
        parameters = [{"name": n, "in": "query", "schema": {"type": "string"}} for n in ("dryRun", "fieldValidation")]
        return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.32.0"}, "paths": {
            f"/{where}{'/namespaces/{namespace}' if n else ''}/{r}/{{name}}": {"patch": {
                "parameters": parameters, "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {"group": group, "version": version(group), "kind": k}}}
            for (g, r), (k, n) in LISTED.items() if g == group}}

    # --- lists and watches -------------------------------------------------------------

    def number(self, key):
        text = self.query.get(key, "")
        if text and not text.isdigit():
            raise Refused(400, "BadRequest", f'strconv.ParseInt: parsing "{text}": invalid syntax')
        return int(text or 0)

    def list(self, resource, ns, selector):
        store = self.server.store
        version = self.query.get("resourceVersion", "")
        if version and not version.isdigit():
            raise Refused(400, "BadRequest", f'invalid resource version "{version}"')
        rev, found, token, remaining = store.list(resource, ns, selector, self.number("limit"), self.query.get("continue", ""),
                                                  version, self.query.get("resourceVersionMatch", ""))
        meta = {"resourceVersion": str(rev)}
        if token:
            meta["continue"] = token
            if not selector.given:
                meta["remainingItemCount"] = remaining
        head = compact_json({"kind": LISTED[resource][0] + "List", "apiVersion": api_version(resource[0]), "metadata": meta})
        self.answer(200, head[:-1] + b',"items":[' + b",".join(r.item for r in found) + b"]}\n", more=self.warning(resource))

    @staticmethod
    def warning(resource):
        return [] if resource != ("", "endpoints") else [
            ("Warning", '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"')]

    def event(self, kind, whole):
        self.body(b'{"type":"%s","object":%s}\n' % (kind.encode(), whole))

    def bookmark(self, resource, rev, end=False):
        meta = {"resourceVersion": str(rev)}
        if end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        zero = {"pods": {"spec": {"containers": None}, "status": {}}, "services": {"spec": {}, "status": {"loadBalancer": {}}},
                "endpointslices": {"addressType": "", "endpoints": None, "ports": None},
                "nodes": {"spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {}}}}
        self.event("BOOKMARK", compact_json(dict(kind=LISTED[resource][0], apiVersion=api_version(resource[0]), metadata=meta,
                                                 **zero.get(resource[1], {}))))

    def watch(self, resource, ns, selector):
        store, version = self.server.store, self.query.get("resourceVersion", "")
        initial = self.query.get("sendInitialEvents") == "true"
        if (self.query.get("resourceVersionMatch") == "NotOlderThan") != initial:
            why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided" if not initial \
                else "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise Refused(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {why}',
                          group="meta.k8s.io", kind="ListOptions", causes=[
                              {"reason": "FieldValueForbidden", "message": why, "field": "resourceVersionMatch"}])
        if version and not version.isdigit():
            raise Refused(500, "", f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": '
                          "invalid syntax")
        self.head(200, "application/json", None, self.warning(resource))
        do = self.fault.get("do")
        if do == "error-event":
            return self.error_event(self.fault.get("code", 500), self.fault.get("message", "etcd event received with PrevKv=nil"))
        with store.lock:
            if initial or version in ("", "0"):
                rev, first = store.first_events(resource, ns, selector)
                at = len(store.log)
            else:
                rev, first, at = int(version), [], store.place(int(version))
        if at is None:
            return self.error_event(410, f"too old resource version: {version} ({store.window})")
        for record in first:
            self.event("ADDED", record.whole)
        if initial and self.query.get("allowWatchBookmarks") == "true":
            self.bookmark(resource, rev, end=True)
        if do == "silence":
            return self.server.ending.wait(self.fault.get("seconds", 3600))
        self.follow(resource, ns, selector, at, rev)
        self.out(b"0\r\n\r\n")

    def error_event(self, code, message):
        reason = {410: "Expired"}.get(code, "InternalError")
        self.event("ERROR", compact_json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                                          "message": message, "reason": reason, "code": code}))
        self.out(b"0\r\n\r\n")

    def follow(self, resource, ns, selector, at, rev):
        """Events from a place in the log on, until the time is over, the server ends, or the fault says so."""
        store, log = self.server.store, self.server.store.log
        bookmarks = self.query.get("allowWatchBookmarks") == "true"
        end = time.monotonic() + (self.number("timeoutSeconds") or 1800)
        mark, told, n = time.monotonic() + self.server.bookmark_s, rev, 0
        generation = store.window
        while not self.server.ending.is_set():
            with store.lock:
                if store.window != generation:
                    return  # compacted under way: as an API server that restarts
                events = log[at:]
                current = store.rev
                left = min(end, mark) - time.monotonic()
                if not events and left > 0:
                    store.changed.wait(min(left, 0.5))
                    continue
            at += len(events)
            for event in events:
                seen = store.seen_as(event, resource, ns, selector)
                if seen is None:
                    continue
                self.event(seen[0], seen[1].whole)
                told, n = event[0], n + 1
                if self.fault.get("do") == "end" and n >= self.fault["at"]:
                    return
            if time.monotonic() >= end:
                if bookmarks and current > rev:
                    self.bookmark(resource, current)
                return
            if time.monotonic() >= mark:
                mark += self.server.bookmark_s
                if bookmarks and current > told:
                    self.bookmark(resource, current)
                    told = current

    # --- changes ----------------------------------------------------------------------

    def change(self, resource, ns, name, sub):
        store = self.server.store
        ns = ns if LISTED[resource][1] else ""
        if self.command == "GET":
            return self.answer(200, store.get(resource, ns, name).whole + b"\n")
        with store.lock:
            if self.command == "DELETE":
                return self.delete(resource, ns, name)
            try:
                protobuf = resource == signing.RESOURCE and "protobuf" in self.headers.get("Content-Type", "")
                sent = signing.from_protobuf(self.sent_body) if protobuf else json.loads(self.sent_body)
            except ValueError as e:
                raise Refused(400, "BadRequest", f"couldn't get version/kind; json parse error: {e}") from None
            code, obj, before = 200, sent, None
            if self.command in ("POST", "PUT"):
                sent["metadata"].setdefault("namespace", ns)
            if self.command == "POST":
                code = 201
                known = store.objects["", "namespaces"]  # a test that has none does without
                if ns and known and ("", ns) not in known:
                    raise Refused(404, "NotFound", f'namespaces "{ns}" not found', name=ns, kind="namespaces")
            elif self.command == "PUT":
                before = store.get(resource, ns, name).obj
                self.check_version(resource, before, sent)
                obj = self.under(resource, before, sent, sub)
            else:
                obj, before, code = self.patch(resource, ns, name, sent)
                obj = self.under(resource, before, obj, sub) if sub else obj
            obj = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}
            obj["metadata"] = dict(obj["metadata"])
            if not ns:
                obj["metadata"].pop("namespace", None)
            if "generateName" in obj["metadata"] and "name" not in obj["metadata"]:
                obj["metadata"]["name"] = obj["metadata"]["generateName"] + uuid.uuid4().hex[:5]
            if not sub:
                obj = objects.prepare(store, resource, obj, before)
                if resource == signing.RESOURCE:
                    signing.prepare(obj, before, self.as_user)
            if self.query.get("dryRun") == "All":
                return self.answer(code, dict(kind=LISTED[resource][0], apiVersion=api_version(resource[0]), **obj))
            record = store.put(resource, obj, create=before is None)
        return self.answer(code, record.whole + b"\n")

    def under(self, resource, before, sent, sub):
        """What a subresource lets through."""
        if resource == signing.RESOURCE and sub:
            return signing.write(before, sent, sub, lambda verb, signer: self.allowed(
                self.as_user, verb, resource[0], "signers", "", signer))
        return dict(before, status=sent.get("status", {})) if sub == "status" else sent

    @staticmethod
    def check_version(resource, before, sent):
        version = sent["metadata"].get("resourceVersion")
        if version and version != before["metadata"]["resourceVersion"]:
            name = before["metadata"]["name"]
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on {qualified(resource)} "{name}": the object has been '
                          "modified; please apply your changes to the latest version and try again", **details(resource, name))

    def patch(self, resource, ns, name, sent):
        """(merged, before, code)"""
        store, kind = self.server.store, self.headers.get("Content-Type", "")
        if "apply-patch" in kind:
            try:
                before = store.copy(resource, ns, name)
            except Refused:
                sent["metadata"].setdefault("namespace", ns)
                return sent, None, 201
            return objects.strategic(before, sent), before, 200
        before = store.copy(resource, ns, name)
        if "json-patch" in kind:
            return signing.json_patch(store.copy(resource, ns, name), sent), before, 200
        merged = (objects.strategic if "strategic" in kind else objects.merge)(store.copy(resource, ns, name), sent)
        self.check_version(resource, before, merged)
        return merged, before, 200

    def delete(self, resource, ns, name):
        store = self.server.store
        if not name:
            for key in [k for k in store.objects[resource] if not ns or k[0] == ns]:
                store.remove(resource, *key)
            return self.answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        obj = store.copy(resource, ns, name)
        options = json.loads(self.sent_body) if self.sent_body else {}
        grace = int(self.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds", 30)))
        if resource == ("", "pods") and obj["spec"].get("nodeName") and grace > 0 and obj["status"].get("podIP"):
            obj["metadata"].update(deletionTimestamp=objects.now(), deletionGracePeriodSeconds=grace)
            return self.answer(200, store.put(resource, obj).whole + b"\n")
        store.remove(resource, ns, name)
        return self.answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {
            "name": name, "kind": resource[1], "uid": obj["metadata"]["uid"]}})


class Control:
    """Operations of the test: each a method, its JSON members the arguments."""

    def __init__(self, server, listen):
        self.server, self.store, self.listen = server, server.store, listen

    def fault(self, **rule):
        """do: status (status, retry_after, message), no-answer, reset, cut (at: bytes of the body), split (size), end (at:
        events), silence, error-event (code); match: part of the path; watch: only those or only others; count: how often."""
        self.server.faults.rules.append(rule)

    def no_faults(self):
        """How often one was met since the last time."""
        with self.server.faults.lock:
            met, self.server.faults.met = self.server.faults.met, 0
            self.server.faults.rules.clear()
        self.server.ending.set()
        self.server.ending.clear()
        return met

    def met(self):
        """How often a fault was met so far."""
        return self.server.faults.met

    def compact(self):
        self.store.compact()

    def put_back(self, revisions):
        self.store.put_back(revisions)

    def put(self, group, resource, obj):
        return self.store.put((group, resource), obj).rev

    def get(self, group, resource, ns, name):
        """None: it is not there."""
        try:
            return self.store.copy((group, resource), ns, name)
        except Refused:
            return None

    def all(self, group, resource):
        """Of all namespaces."""
        return [self.store.copy((group, resource), *key) for key in list(self.store.objects[(group, resource)])]

    def remove(self, group, resource, ns, name):
        return self.store.remove((group, resource), ns, name).rev

    def bulk_nodes(self, n, name, address):
        for i in range(n):
            self.store.put(("", "nodes"), {"metadata": {"name": name.format(i)},
                                           "status": {"addresses": [{"type": "InternalIP", "address": address}]}})

    def clear(self, resources):
        """[[group, resource], ...]: all objects of these; what was asked so far is forgotten, too."""
        for resource in map(tuple, resources):
            for key in list(self.store.objects[resource]):
                self.store.remove(resource, *key)
        self.server.requests.clear()
        self.server.used.clear()

    def bulk(self, **how):
        objects.bulk(self.store, **how)
        return self.store.rev

    def churn(self, rate, seconds, seed=1):
        """Begins objects.Churn."""
        self.churning = objects.Churn(self.store, rate, seconds, seed)
        self.churning.start()

    def churned(self):
        """[changes made so far, seconds from the first to the last or 0.0 while it goes on]"""
        return [self.churning.done, self.churning.took]

    def rev(self):
        return self.store.rev

    def token(self, token, user, old=""):
        self.server.tokens.pop(old, None)
        self.server.tokens[token] = user

    def grant(self, user, rights=None):
        """rights: null for all, or [[verb, resource], ...]; see Handler.allowed"""
        self.server.rights[user] = rights

    def absent(self, resources):
        """[[group, resource], ...] that this server does not know; CRDs as they were."""
        self.server.absent = {tuple(r) for r in resources} | (self.server.absent & CUSTOM)

    def crds(self, there):
        """Custom resources: none at first."""
        self.server.absent = self.server.absent - CUSTOM if there else self.server.absent | CUSTOM

    def kubelets(self, **files):
        """How kubelets are reached from now on: the arguments of kubelets.Kubelets."""
        self.server.kubelets = kubelets.Kubelets(**files)

    def forget_kubelets(self):
        self.server.kubelets.forget()

    def bookmarks(self, seconds):
        self.server.bookmark_s = seconds

    def slices(self, on):
        self.server.controllers.slices = on

    def requests(self, match=""):
        return [r for r in self.server.requests if match in r[1]]

    def used(self, user):
        """[verb, group, resource, name, namespace, whether it may] of what the user asked for."""
        return sorted(list(u[1:]) for u in self.server.used if u[0] == user)

    def cut_all(self):
        """Every connection ends at once, as by SIGKILL."""
        for raw in list(self.server.open):
            try:
                raw.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def down(self, term=False):
        """Nobody listens any more; term: watches end with the last chunk."""
        self.server.socket.shutdown(socket.SHUT_RDWR)  # wakes accept_all, which closing does not
        self.server.socket.close()
        self.server.ending.set()
        if term:
            time.sleep(0.7)
        self.cut_all()

    def up(self, forget=True):
        """Listens again; forget: with a watch cache that begins now."""
        if forget:
            self.store.compact()
        self.server.ending.clear()
        self.server.socket = socket.create_server(self.listen, backlog=256)
        threading.Thread(target=accept_all, args=(self.server,), daemon=True).start()

    def serve(self, path):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(8)
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=self.talk, args=(peer.makefile("rwb"),), daemon=True).start()

    def talk(self, stream):
        for line in stream:
            try:
                args = json.loads(line)
                answer = {"answer": getattr(self, args.pop("op"))(**args)}
            except Exception as e:  # noqa: told to the test
                answer = {"error": repr(e)}
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()


def accept_all(server):
    """Until the listening socket is closed."""
    listener = server.socket
    while True:
        try:
            peer, address = listener.accept()
        except OSError:
            return
        server.process_request(peer, address)


def certificates(folder, names):
    """A CA, the server's certificate, and a client's for the admin."""
    def run(*argv):
        subprocess.run(["openssl", *argv], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    run("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=kubernetes",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    alt = ",".join(("IP:" if n.replace(".", "").isdigit() else "DNS:") + n for n in names)
    for who, subject, extension in (
            ("server", "/CN=kube-apiserver", f"subjectAltName={alt}\nextendedKeyUsage=serverAuth\n"),
            ("admin", f"/O=system:masters/CN={ADMIN}", "extendedKeyUsage=clientAuth\n")):
        run("req", *new, "-keyout", f"{who}.key", "-out", f"{who}.csr", "-subj", subject)
        with open(os.path.join(folder, f"{who}.ext"), "w") as f:
            f.write(extension)
        run("x509", "-req", "-in", f"{who}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
            "-extfile", f"{who}.ext", "-out", f"{who}.crt")


def kubeconfig(folder, server):
    def data(name):
        with open(os.path.join(folder, name), "rb") as f:
            return base64.b64encode(f.read()).decode()

    return {"apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
            "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority-data": data("ca.crt")}}],
            "users": [{"name": "admin", "user": {"client-certificate-data": data("admin.crt"),
                                                 "client-key-data": data("admin.key")}}]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--name", action="append", default=[])
    args = parser.parse_args()
    host, port = args.listen.rsplit(":", 1)
    os.makedirs(args.dir, exist_ok=True)
    certificates(args.dir, [host, "127.0.0.1", "kubernetes.default.svc", *args.name])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(os.path.join(args.dir, "server.crt"), os.path.join(args.dir, "server.key"))
    context.load_verify_locations(os.path.join(args.dir, "ca.crt"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    server = Server((host, int(port)), context)
    server.rights[ADMIN] = None
    with server.store.lock:
        for ns in ("default", "kube-system"):
            server.store.put(("", "namespaces"), {"metadata": {"name": ns}, "status": {"phase": "Active"}})
    with open(os.path.join(args.dir, "admin.conf"), "w") as f:
        json.dump(kubeconfig(args.dir, f"https://{args.listen}"), f, indent=1)
    control = Control(server, (host, int(port)))
    threading.Thread(target=accept_all, args=(server,), daemon=True).start()
    control.serve(os.path.join(args.dir, "control"))


if __name__ == "__main__":
    main()
