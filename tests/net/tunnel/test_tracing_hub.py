"""Traces at the hub: visits of its ingress (HTTP, CONNECT, maps, SNI, redirect), through tunnels, replicas, neighbours and by its own
dials, and the node's part of each as a child. Two hubs, a node with a tunnel to the first, another whose agent exports nothing, a
printer beside the node; one collector for all of them (collector.py). The test is caller and target at once."""
import json
import os
import re
import signal
import socket
import ssl

import pytest

import lab as labs
import replicas
from collector import Collector
from dnskit import socket_in
from httpkit import Endpoint, Wire
from lab import PATIENCE_S, Agent, Machine, Node, wait_for
from pki import Authority
from test_neighbours import PRINTER, Lan

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
COLLECTOR, CLOUD = "192.0.2.33", "192.0.2.41"
HUB = replicas.ADDRESSES[0]


class Bed:
    def __init__(self, lab):
        self.lab = lab
        self.collector = Collector(Machine(lab, "collector", address=COLLECTOR))
        self.ca = Authority(lab.dir, "shared")
        self.file = os.path.join(lab.dir, "tracing.yaml")
        self.configure()
        ways = ("--ingress.tcp", f"[{{listen: '{HUB}:7001', node: edge-1, target: 7000}}]",
                "--ingress.tls", f"[{{listen: '{HUB}:7443', target: 7000}}]",
                "--ingress.redirect", f"{{listen: '{HUB}:7002', ports: [7000]}}")
        self.hubs = [replicas.start_hub(lab, self.ca, i, "--config", self.file, *(ways if i == 0 else ())) for i in (0, 1)]
        replicas.name_hubs(self.hubs)
        self.hub = self.hubs[0]
        self.nodes = [Node(lab, f"edge-{i}", f"192.0.2.{10 + i}") for i in (1, 2)]
        lan = Lan(lab, "a")
        self.printer, self.cloud = Machine(lab, "printer", attach=False), Machine(lab, "cloud-1", address=CLOUD)
        lan.plug(self.nodes[0], "192.168.1.11")
        lan.plug(self.printer, PRINTER)
        self.agents = [Agent(n, self.hub, "--hub.url", replicas.url(self.hub), "--tunnel.allow", "node:*", "--tunnel.reach", reach, *more)
                       for n, reach, more in zip(self.nodes, (f"{PRINTER}:9100", ""), (self.tracing(), ()))]
        self.ends = [Endpoint(m, port) for m, port in ((self.nodes[0], 7000), (self.nodes[1], 7000), (self.printer, 9100), (self.cloud, 8080))]
        for h in self.hubs:
            h.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n.name},
                                     "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for n in self.nodes])
        replicas.know_each_other(self.hubs)
        wait_for("tunnels", lambda: {t["node"] for t in self.hub.state()["hub"]["tunnels"]} == {"edge-1", "edge-2"})
        for h in self.hubs:
            wait_for("declarations", lambda h=h: h.state()["hub"]["neighbours"])
        wait_for("redirect", lambda: float(self.hub.state()["hub"]["redirect"]["addresses"]) == 2)

    def tracing(self):
        return "--tracing.endpoint", f"http://{COLLECTOR}:4318", "--tracing.delay", "20ms", "--tracing.limit", "1000"

    def configure(self, sample="0", limit=1000):
        with open(self.file, "w") as f:
            f.write(f"tracing: {{endpoint: 'http://{COLLECTOR}:4318', delay: 20ms, sample: {sample}, limit: {limit}}}\n")

    def reconfigure(self, **values):
        self.configure(**values)
        for h in self.hubs:
            said = h.process.log().count("reloaded")
            h.process.popen.send_signal(signal.SIGHUP)
            wait_for("reload", lambda h=h, said=said: h.process.log().count("reloaded") > said)

    def caller(self, hub=None, port=10080, address=None):
        hub = hub or self.hub
        s = socket_in(hub.machine, socket.SOCK_STREAM, address or hub.address, port)
        s.settimeout(PATIENCE_S)
        return Wire(s)

    def ask(self, authority, *fields, hub=None, end=None, target="/x", method="GET"):
        """A request that is forwarded: (lines of the head that the target got, reply)"""
        caller = self.caller(hub)
        lines = "".join(f + "\r\n" for f in (f"Host: {authority}", "Connection: close", *fields))
        caller.put(f"{method} http://{authority}{target} HTTP/1.1\r\n{lines}\r\n".encode())
        if end is None:
            return None, caller.reply()
        wire = end.accept()
        head = wire.until().decode("latin-1")[:-4].split("\r\n")
        wire.put(OK)
        reply = caller.reply()
        caller.close()
        wire.close()
        return head, reply

    def connect(self, authority, *fields, hub=None):
        caller = self.caller(hub)
        caller.put(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{''.join(f + chr(13) + chr(10) for f in fields)}\r\n".encode())
        return caller

    def of(self, head, name):
        return [line.split(": ", 1)[1] for line in head if line.lower().startswith(name + ":")]

    def hubs_span(self, wanted):
        return self.collector.wait(lambda s: s["scope"] == "edgeway.ingress" and wanted(s))

    def child(self, span):
        """What the node tells of the same stream."""
        made = self.collector.wait(lambda s: s["scope"] == "edgeway.tunnel" and s.get("parentSpanId") == span["spanId"])
        assert made["traceId"] == span["traceId"] and made["resource"]["service.name"] == "edgeway-agent"
        assert made["name"] == "CONNECT" and made["kind"] == 2
        assert int(span["startTimeUnixNano"]) <= int(made["startTimeUnixNano"])
        return made


@pytest.fixture(scope="module")
def bed(lab):
    made = Bed(lab)
    yield made
    for p in (*(h.process for h in made.hubs), *(a.process for a in made.agents)):
        print(f"--- log of {p.name}\n{p.log()[-4000:]}")


@pytest.fixture(autouse=True)
def nothing_is_wrong(bed):
    yield
    for end in bed.ends:
        end.clear()
    assert not bed.collector.wrong, bed.collector.wrong


def test_a_request_is_a_link_of_its_trace(bed):
    head, reply = bed.ask("edge-1:7000", f"traceparent: {PARENT}", "tracestate: a=1", target="/buy?card=4711", end=bed.ends[0])
    assert reply[0] == 200
    ours, = bed.of(head, "traceparent")
    version, trace, span, flags = ours.split("-")
    assert (version, trace, flags) == ("00", TRACE, "01") and span != SPAN and re.fullmatch("[0-9a-f]{16}", span)
    assert bed.of(head, "tracestate") == ["a=1"]
    made = bed.hubs_span(lambda s: s["spanId"] == span)
    has = made["attributes"]
    assert (made["traceId"], made["parentSpanId"], made["name"], made["kind"], made["status"]) == (TRACE, SPAN, "GET", 2, {})
    assert (has["url.path"], has["url.scheme"], has["server.address"], has["server.port"]) == ("/buy", "http", "edge-1", 7000)
    assert has["http.response.status_code"] == 200 and has["http.response.body.size"] == 2 and "4711" not in json.dumps(made)
    assert (has["edgeway.door"], has["edgeway.node"], has["edgeway.via"], has["edgeway.end"]) == ("ingress.http", "edge-1", "tunnel", "done")
    assert has["client.address"] == HUB and has["edgeway.caller"] == f"{HUB}:{has['client.port']}"
    assert made["resource"]["service.name"] == "edgeway-hub" and made["resource"]["service.instance.id"] == "hub-1"
    has = bed.child(made)["attributes"]
    assert (has["http.request.method"], has["network.protocol.version"], has["http.response.status_code"]) == ("CONNECT", "2", 200)
    assert (has["server.address"], has["server.port"], has["edgeway.node"], has["edgeway.allowed.as"]) == ("edge-1", 7000, "edge-1", "node")
    assert has["edgeway.caller"] == made["attributes"]["edgeway.caller"] and has["edgeway.to"].endswith(":7000") and has["edgeway.end"] == "done"
    assert has["edgeway.bytes.received"] == len(OK) and has["edgeway.bytes.sent"] == len("\r\n".join(head)) + 4


def test_a_connection_is_one(bed):
    caller = bed.connect("edge-1:7000", f"traceparent: {PARENT[:-2]}01").put(b"hello")
    assert caller.until().startswith(b"HTTP/1.1 200 ")
    wire = bed.ends[0].accept()
    wire.expect(b"hello").put(b"world!")  # what is carried stays as it is
    caller.expect(b"world!")
    wire.close()
    caller.close()
    made = bed.hubs_span(lambda s: s["name"] == "CONNECT")
    has = made["attributes"]
    assert made["parentSpanId"] == SPAN and made["status"] == {} and has["edgeway.via"] == "tunnel"
    assert (has["edgeway.bytes.sent"], has["edgeway.bytes.received"]) == (5, 6) and "url.path" not in has
    has = bed.child(made)["attributes"]
    assert (has["edgeway.bytes.sent"], has["edgeway.bytes.received"]) == (5, 6)


def test_who_does_not_ask_for_it_is_not_recorded(bed):
    before = len(bed.collector.spans)
    for i, fields in enumerate(([f"TraceParent: {PARENT[:-1]}0", "TRACESTATE: x=y"],
                                [f"traceparent: {PARENT}", f"traceparent: {PARENT}", "tracestate: x=y"],
                                [f"traceparent: {PARENT.upper()}", "tracestate: x=y"], ["tracestate: x=y"], [])):
        head, reply = bed.ask("edge-1:7000", *fields, target=f"/plain/{i}", end=bed.ends[0])
        assert reply[0] == 200 and [line for line in head if line.lower().startswith("trace")] == fields
    bed.caller(port=7001).put(b"x").close()
    bed.ends[0].accept().expect(b"x").close()
    bed.ask("edge-1:7000", f"traceparent: {PARENT}", target="/after", end=bed.ends[0])
    bed.child(bed.hubs_span(lambda s: s["attributes"].get("url.path") == "/after"))
    assert len(bed.collector.spans) == before + 2


@pytest.mark.parametrize("door", ["ingress.tcp", "ingress.tls", "ingress.redirect"])
def test_connections_are_recorded_by_chance(bed, door):
    bed.reconfigure(sample="1.0")
    try:
        if door == "ingress.tls":
            hello, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
            with pytest.raises(ssl.SSLWantReadError):
                ssl.create_default_context().wrap_bio(hello, sent, server_hostname="edge-1").do_handshake()
            said, caller = sent.read(), bed.caller(port=7443)
        else:
            said, caller = b"hello", bed.caller(port=7001) if door == "ingress.tcp" else bed.caller(port=7000, address=bed.nodes[0].address)
        caller.put(said)
        wire = bed.ends[0].accept()
        wire.expect(said).put(b"bye").close()
        caller.expect(b"bye").close()
        made = bed.hubs_span(lambda s: s["attributes"]["edgeway.door"] == door)
        has = made["attributes"]
        assert (made["name"], made["kind"], made["status"]) == ("tcp", 3, {}) and "parentSpanId" not in made
        assert (has["edgeway.bytes.sent"], has["edgeway.bytes.received"], has["edgeway.via"]) == (len(said), 3, "tunnel")
        assert has["server.address"] == (bed.nodes[0].address if door == "ingress.redirect" else "edge-1")
        assert bed.child(made)["attributes"]["edgeway.bytes.sent"] == len(said)
    finally:
        bed.reconfigure(sample="0")


def test_through_a_replica(bed):
    """The second hub has no tunnel to the node: its span says through whom, and the node's is its child."""
    head, reply = bed.ask("edge-1:7000", f"traceparent: {PARENT}", target="/replica", hub=bed.hubs[1], end=bed.ends[0])
    assert reply[0] == 200
    made = bed.hubs_span(lambda s: s["spanId"] == bed.of(head, "traceparent")[0].split("-")[2])
    assert made["resource"]["service.instance.id"] == "hub-2"
    assert (made["attributes"]["edgeway.via"], made["attributes"]["edgeway.replica"]) == ("replica", "hub-1")
    assert bed.child(made)["attributes"]["edgeway.caller"] == made["attributes"]["edgeway.caller"]


def test_through_a_neighbour(bed):
    head, reply = bed.ask(f"{PRINTER}:9100", f"traceparent: {PARENT}", target="/print", end=bed.ends[2])
    assert reply[0] == 200
    made = bed.hubs_span(lambda s: s["spanId"] == bed.of(head, "traceparent")[0].split("-")[2])
    has = made["attributes"]
    assert (has["edgeway.via"], has["edgeway.node"], has["server.address"]) == ("neighbour", "edge-1", PRINTER)
    has = bed.child(made)["attributes"]
    assert has["edgeway.to"] == f"{PRINTER}:9100" and has["edgeway.beside"] == made["attributes"]["edgeway.beside"]


def test_what_the_hub_dials_itself_and_agents_that_export_nothing(bed):
    for authority, end, via in ((f"{CLOUD}:8080", bed.ends[3], "hub"), ("edge-2:7000", bed.ends[1], "tunnel")):
        head, reply = bed.ask(authority, f"traceparent: {PARENT}", end=end)
        assert reply[0] == 200
        made = bed.hubs_span(lambda s: s["spanId"] == bed.of(head, "traceparent")[0].split("-")[2])
        assert made["attributes"]["edgeway.via"] == via
        assert not bed.collector.find(lambda s: s.get("parentSpanId") == made["spanId"])


@pytest.mark.parametrize("authority,status,error", [("nobody:80", 404, None), ("edge-1:7999", 502, "502"), ("edge-2:1", 502, "502")])
def test_what_cannot_be_reached(bed, authority, status, error):
    """Of a server's spans 4xx is the caller's affair, 5xx an error."""
    trace = f"{status:032d}"[:-1] + authority[5]
    trace = trace.replace("d", "a").replace("y", "b").replace("-", "c")
    _, reply = bed.ask(authority, f"traceparent: 00-{trace}-{SPAN}-01")
    assert reply[0] == status
    made = bed.hubs_span(lambda s: s["traceId"] == trace)
    assert made["status"] == ({"code": 2} if error else {}) and made["attributes"].get("error.type") == error
    assert made["attributes"]["http.response.status_code"] == status and "edgeway.via" not in made["attributes"]
    if authority == "edge-1:7999":
        made = bed.child(made)
        assert made["status"] == {"code": 2} and made["attributes"]["http.response.status_code"] == 502


def test_a_caller_who_goes_away(bed):
    trace = "3" * 32
    caller = bed.caller()
    caller.put(f"POST http://edge-1:7000/ HTTP/1.1\r\nHost: edge-1\r\nContent-Length: 9\r\ntraceparent: 00-{trace}-{SPAN}-01\r\n\r\nfour".encode())
    bed.ends[0].accept().until()
    caller.close(hard=True)
    made = bed.hubs_span(lambda s: s["traceId"] == trace)
    assert made["status"] == {"code": 2} and made["attributes"]["error.type"] == "cancelled"
    assert "http.response.status_code" not in made["attributes"]
    assert bed.child(made)["status"] == {"code": 2}


def test_no_more_than_the_limit(bed):
    bed.reconfigure(limit=1)
    untouched = 0
    for _ in range(20):
        head, _ = bed.ask("edge-1:7000", f"traceparent: {PARENT}", end=bed.ends[0])
        untouched += bed.of(head, "traceparent") == [PARENT]
    assert untouched > 0 and bed.hub.metrics()["edgeway_tracing_limited_total"] == untouched
    bed.reconfigure()


def test_a_collector_that_is_away(bed):
    """Status and doctor of the hub say so; what waits goes out when it is back."""
    trace = "4" * 32
    bed.collector.down()
    assert bed.ask("edge-1:7000", f"traceparent: 00-{trace}-{SPAN}-01", end=bed.ends[0])[1][0] == 200
    wait_for("trouble", lambda: "refused" in bed.hub.state()["tracing"]["error"])
    assert bed.hub.metrics()["edgeway_tracing_up"] == 0 and bed.hub.metrics()["edgeway_tracing_queue_spans"] > 0
    for command in ("status", "doctor"):
        said = bed.hub.machine.run(bed.lab.program("edgewayctl"), "--socket", bed.hub.socket, command, check=False).stdout
        assert re.search(r"traces.*Connection refused" if command == "doctor" else "traces", said), said
    bed.collector.up()
    wait_for("both", lambda: len(bed.collector.find(lambda s: s["traceId"] == trace)) == 2)
    assert bed.hub.state()["tracing"]["error"] == ""


def test_what_goes_on_at_the_end_is_told_of(bed):
    trace = "5" * 32
    caller = bed.connect("edge-1:7000", f"traceparent: 00-{trace}-{SPAN}-01")
    assert caller.until().startswith(b"HTTP/1.1 200 ")
    wire = bed.ends[0].accept(speaks=False)
    hub = bed.hubs[0]
    hub.process.popen.send_signal(signal.SIGTERM)
    wait_for("the end", lambda: not hub.process.alive())
    made = bed.hubs_span(lambda s: s["traceId"] == trace)
    assert made["attributes"]["edgeway.end"] == "goes on while the hub stops"
    assert "spans are lost" not in hub.process.log()
    caller.close()
    wire.close()
