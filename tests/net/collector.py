"""An OpenTelemetry collector that believes nothing: OTLP over HTTP in protobuf's JSON mapping, each field checked against the
specification (opentelemetry-proto, trace/v1 and common/v1; "OTLP/HTTP"; W3C Trace Context), and, where npm gives them, by
OpenTelemetry's own message types (otlp.py). It can be told what to answer.

    collector = Collector(pod)
    span = collector.wait(lambda s: s["traceId"] == trace)
    collector.answers = [(503, {"Retry-After": "1"}, b"")]    # the next one; then 200 again
"""
import gzip
import http.server
import json
import re
import socket
import socketserver
import threading

import otlp
from httpkit import socket_of
from lab import wait_for

HEX = re.compile(r"[0-9a-f]+\Z")
WHOLE = re.compile(r"(0|[1-9][0-9]*)\Z")


def members(thing, required, optional=()):
    assert isinstance(thing, dict) and set(required) <= set(thing) <= {*required, *optional}, thing
    return thing


def identity(text, digits):
    assert isinstance(text, str) and len(text) == digits and HEX.match(text) and set(text) != {"0"}, text


def uint64(text):
    assert isinstance(text, str) and WHOLE.match(text) and int(text) < 1 << 64, text
    return int(text)


def attributes(rows):
    """{key: value} of a list of KeyValue; int64 are strings there."""
    made = {}
    for row in rows:
        members(row, ["key", "value"])
        assert row["key"] and row["key"] not in made and len(row["value"]) == 1, row
        (kind, value), = row["value"].items()
        if kind == "intValue":
            value = uint64(value)
        else:
            assert kind == "stringValue" and isinstance(value, str), row
        made[row["key"]] = value
    return made


def check_span(span):
    members(span, ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status", "flags"],
            ["parentSpanId", "events", "droppedEventsCount"])
    identity(span["traceId"], 32)
    identity(span["spanId"], 16)
    if "parentSpanId" in span:
        identity(span["parentSpanId"], 16)
    assert isinstance(span["name"], str) and span["name"]
    assert isinstance(span["flags"], int) and span["flags"] & 1 and span["flags"] < 1 << 10
    assert bool(span["flags"] & 0x200) == ("parentSpanId" in span) and span["flags"] & 0x100
    begin, end = uint64(span["startTimeUnixNano"]), uint64(span["endTimeUnixNano"])
    assert 1_600_000_000 * 10**9 < begin <= end
    for event in span.get("events", []):
        members(event, ["timeUnixNano", "name", "attributes"])
        assert begin <= uint64(event["timeUnixNano"]) <= end
        event["attributes"] = attributes(event["attributes"])
    assert set(span["status"]) <= {"code", "message"} and span["status"].get("code", 0) in (0, 1, 2)
    span["attributes"] = attributes(span["attributes"])
    assert (span["status"].get("code") == 2) == ("error.type" in span["attributes"])


def check_kind(span):
    """By the semantic conventions: what spans of HTTP clients and servers must have, and those of connections."""
    has, kind = span["attributes"], (span["scope"], span["kind"])
    assert {"server.address", "server.port"} <= set(has)
    if "http.request.method" not in has:
        assert kind in (("edgeway.lb", 3), ("edgeway.ingress", 3)) and has["network.transport"] == "tcp" and span["name"] == "tcp"
    elif span["kind"] == 3:
        assert span["scope"] == "edgeway.lb" and "url.full" in has
    else:
        assert kind in (("edgeway.tunnel", 2), ("edgeway.ingress", 2)) and has["network.protocol.name"] == "http"
        assert ("url.path" in has) == ("url.scheme" in has) == (has["http.request.method"] != "CONNECT")
        assert span["status"].get("code") != 2 or has.get("http.response.status_code", 500) >= 500 or has["error.type"] == "broken"


def read(body):
    """The spans of an ExportTraceServiceRequest, each with its resource's attributes."""
    spans = []
    for group in members(json.loads(body), ["resourceSpans"])["resourceSpans"]:
        members(group, ["resource", "scopeSpans"], ["schemaUrl"])
        resource = attributes(members(group["resource"], ["attributes"])["attributes"])
        assert resource["service.name"] in ("edgeway-agent", "edgeway-hub") and resource["service.instance.id"]
        for scope in group["scopeSpans"]:
            members(scope, ["scope", "spans"], ["schemaUrl"])
            assert scope["spans"]
            for span in scope["spans"]:
                check_span(span)
                span["resource"], span["scope"] = resource, members(scope["scope"], ["name"], ["version"])["name"]
                check_kind(span)
                spans.append(span)
    assert spans
    return spans


class Collector:
    def __init__(self, machine, port=4318, tls=None):
        self.machine, self.port, self.tls = machine, port, tls
        self.spans, self.answers, self.wrong, self.requests, self.bodies = [], [], [], [], []
        self.types, self.read_by_types = otlp.reader(), 0
        self.server = None
        self.up()

    def up(self):
        outer, self.open = self, []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                outer.take(self, self.rfile.read(int(self.headers["Content-Length"])))

            def setup(self):
                super().setup()
                outer.open.append(self.connection)

            def log_message(self, *args):
                pass

        self.server = socketserver.ThreadingTCPServer(("", 0), Handler, bind_and_activate=False)
        self.server.daemon_threads = True
        self.server.socket.close()
        self.server.socket = socket_of(self.machine)
        self.server.socket.settimeout(None)
        self.server.allow_reuse_address = True
        self.server.server_address = ("0.0.0.0", self.port)
        self.server.server_bind()
        self.server.server_activate()
        if self.tls:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self):
        self.server.shutdown()
        self.server.server_close()
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone already

    def take(self, handler, body):
        status, fields, answer = self.answers.pop(0) if self.answers else (200, {}, b"{}")
        try:
            assert handler.headers["Content-Type"] == "application/json" and handler.headers["Content-Encoding"] == "gzip"
            assert "traceparent" not in handler.headers and "via" not in handler.headers  # it did not come through a proxy
            text = gzip.decompress(body).decode()
            spans = read(text)
            if self.types:
                complaint = self.types.complaint(text)
                assert complaint == "", complaint
                self.read_by_types += 1
            if status == 200:
                self.spans += spans
        except Exception as e:
            self.wrong.append(f"{e!r}: {body[:40]!r}")
        self.bodies.append(body)
        self.requests.append((handler.path, dict(handler.headers), handler.client_address, status))
        handler.send_response(status)
        for name, value in fields.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def find(self, wanted):
        assert not self.wrong, self.wrong
        return [s for s in self.spans if wanted(s)]

    def wait(self, wanted):
        wait_for("a span", lambda: self.find(wanted))
        found = self.find(wanted)
        assert len(found) == 1
        return found[0]
