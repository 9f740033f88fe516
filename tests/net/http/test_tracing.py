"""Traces of requests through the real agent: W3C Trace Context to the endpoint, spans to a collector (collector.py) that is a
service of the cluster, and what happens where that fails. The test is client and endpoint at once, see httpkit.py."""
import json
import os
import re
import signal
import ssl

import pytest

import lab as labs
import otlp
from collector import Collector
from h2kit import Http2, rst
from httpkit import Endpoint, Wire, socket_of
from lab import HUB_ADDRESS, Agent, Hub, Node, pod, service, wait_for
from pki import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CLOUD = "192.0.2.31"
TRACE, SPAN = PARENT.split("-")[1:3]


class Bed:
    def __init__(self, lab):
        self.lab = lab
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pods = [self.node.pod(f"web-{i}") for i in range(2)]
        self.client_pod = self.node.pod("client")
        self.collectors = self.node.pod("collector")
        self.ends = [Endpoint(p, 8080) for p in self.pods]
        self.hub = Hub(lab)
        self.hub.write("web.yaml", service("one", ("http", 80, 8080)), service("two", ("http", 80, 8080)),
                       service("none", ("http", 80, 8080)),
                       service("raw", ("tcp", 80, 8080)), service("away", ("tcp", 80, 8080)),
                       service("collector", ("otlp", 4318, 4318), namespace="observability"),
                       service("far", ("otlp", 4318, 4318), namespace="observability"),
                       pod("far", ("cloud-1", "192.0.2.30"), CLOUD, ("otlp", 4318, 0), namespace="observability"),
                       pod("c", self.node, self.collectors.address, ("otlp", 4318, 0), app="collector", namespace="observability"),
                       *[pod(f"p{i}", self.node, p.address, ("http", 8080, 0), app="two") for i, p in enumerate(self.pods)],
                       pod("r", self.node, self.pods[0].address, ("tcp", 8080, 0), app="raw"),
                       pod("s", self.node, self.pods[1].address, ("tcp", 8080, 0), app="away"),
                       pod("q", self.node, self.pods[0].address, ("http", 8080, 0), app="one"))
        self.collector = Collector(self.collectors)
        self.file = os.path.join(self.node.dir, "agent.yaml")
        self.configure()
        self.agent = Agent(self.node, self.hub, "--config", self.file, "--lb.policy", "round-robin", "--mesh.workers", "2")
        self.addresses = {}
        for name in ("one", "two", "none", "raw", "away"):
            wait_for(name, lambda: self.node.dns(f"{name}.default.svc.cluster.local", server=self.node.gateway)[1])
            self.addresses[name] = self.node.address_of(f"{name}.default.svc.cluster.local", f"@{self.node.gateway}")

    def configure(self, sample="0", limit=1000, delay="20ms", endpoint="http://collector.observability:4318", more=""):
        with open(self.file, "w") as f:
            f.write("lb: {accessLog: all}\nlog: {format: json}\n"
                    f"tracing: {{endpoint: '{endpoint}', sample: {sample}, limit: {limit}, delay: {delay}{more}}}\n")

    def reconfigure(self, **values):
        said = self.agent.process.log().count('reloaded')
        self.configure(**values)
        self.agent.process.popen.send_signal(signal.SIGHUP)
        wait_for("reload", lambda: self.agent.process.log().count('reloaded') > said)

    def restart(self, **values):
        self.agent.stop()
        self.configure(**values)
        self.agent.start()

    def client(self, name="one"):
        s = socket_of(self.client_pod)
        s.connect((self.addresses[name], 80))
        return Wire(s)

    def ask(self, *fields, target="/x", name="one", method="GET", end=None, answer=OK):
        """(lines of the head that the endpoint got, reply)"""
        end = end or self.ends[0]
        client = self.client(name)
        client.put(f"{method} {target} HTTP/1.1\r\nHost: web.shop\r\n{''.join(f + chr(13) + chr(10) for f in fields)}\r\n".encode())
        wire = end.accept()
        head = wire.until().decode("latin-1")[:-4].split("\r\n")
        wire.put(answer)
        reply = client.reply()
        client.close()
        wire.close()
        return head, reply

    def of(self, head, name):
        return [line.split(": ", 1)[1] for line in head if line.lower().startswith(name + ":")]

    def metric(self, name, what="tracing"):
        return self.agent.metrics().get(f"edgeway_{what}_{name}")

    def total(self, result):
        return self.metric(f'spans_total{{result="{result}"}}')

    def lines(self):
        return [json.loads(l) for l in self.agent.process.log().splitlines() if '"level":"access"' in l]


@pytest.fixture(scope="module")
def bed(lab):
    made = Bed(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-6000:]}")


def unused(bed):
    assert not bed.collector.wrong, bed.collector.wrong


def test_a_sampled_request_is_a_link_of_its_trace(bed):
    head, reply = bed.ask(f"traceparent: {PARENT}", "tracestate: a=1,b=2", "TraceState: c=3", target="/buy?card=4711")
    assert reply[0] == 200
    ours, = bed.of(head, "traceparent")
    version, trace, span, flags = ours.split("-")
    assert (version, trace, flags) == ("00", TRACE, "01") and span != SPAN and re.fullmatch("[0-9a-f]{16}", span)
    assert bed.of(head, "tracestate") == ["a=1,b=2", "c=3"]
    made = bed.collector.wait(lambda s: s["spanId"] == span)
    has = made["attributes"]
    assert made["traceId"] == TRACE and made["parentSpanId"] == SPAN and made["name"] == "GET"
    assert has["url.full"] == "http://web.shop/buy" and "4711" not in json.dumps(made)
    assert has["http.response.status_code"] == 200 and has["server.address"] == "web.shop" and has["server.port"] == 80
    assert has["network.peer.address"] == bed.pods[0].address and has["network.peer.port"] == 8080
    assert has["client.address"] == bed.client_pod.address
    assert has["k8s.namespace.name"] == "default" and has["edgeway.service"] == "one"
    assert has["http.response.body.size"] == 2 and has["edgeway.retries"] == 0 and has["edgeway.end"] == "--"
    assert made["resource"]["service.instance.id"] == "edge-1" and made["resource"]["k8s.node.name"] == "edge-1"
    assert [e["name"] for e in made["events"]] == ["edgeway.dial", "edgeway.connected"]
    line = next(l for l in reversed(bed.lines()) if l.get("trace") == TRACE)
    assert line["span"] == span and line["status"] == 200
    path, fields, peer, _ = bed.collector.requests[0]
    assert path == "/v1/traces" and fields["Host"] == "collector.observability:4318"


@pytest.mark.parametrize("call", [False, True], ids=["http2", "grpc"])
def test_a_stream_of_http_2(bed, call):
    """Each of a connection's requests is a link of its own trace: the first dials, the second uses the session again, one fails, and one asks for nothing."""
    client, spans, fields = Http2(bed.client()).open(), [], [("content-type", "application/grpc"), ("te", "trailers")] if call else []
    end = None
    for i in range(3):
        trace = f"{TRACE[:-1]}{i}"
        stream = client.ask("/lab.Lab/Buy?card=4711", "POST", *fields, ("traceparent", f"00-{trace}-{SPAN}-01"), ("tracestate", "a=1"), body=b"\0\0\0\0\0")
        end = end or Http2(bed.ends[0].accept(), server=True).open()
        there, got = end.head()
        version, same, span, flags = got["traceparent"].split("-")
        assert (version, same, flags, got["tracestate"]) == ("00", trace, "01", "a=1") and span != SPAN
        if i < 2:
            end.answer(there, b"ok", *fields[:1], trailers=[("grpc-status", "05"[i])])
            assert client.reply(stream).body == b"ok"
        else:
            end.put(rst(there, "INTERNAL_ERROR"))
            assert client.reply(stream).reset == "INTERNAL_ERROR"
        made = bed.collector.wait(lambda s: s["spanId"] == span)
        has = made["attributes"]
        assert made["traceId"] == trace and made["parentSpanId"] == SPAN and made["name"] == "POST"
        assert has["url.full"] == "http://web/lab.Lab/Buy" and "4711" not in json.dumps(made)
        assert has["network.peer.address"] == bed.pods[0].address and has["edgeway.service"] == "one" and has["edgeway.end"] == ("--", "--", "SH")[i]
        assert has.get("http.response.status_code") == (200, 200, None)[i] and has["network.protocol.version"] == "2"
        assert has.get("rpc.grpc.status_code") == ((0, 5, None)[i] if call else None)
        assert has.get("error.type") == (None, "5" if call else None, "SH")[i]
        spans.append(made)
    assert [[e["name"] for e in s["events"]] for s in spans[:2]] == [["edgeway.dial", "edgeway.connected"], ["edgeway.reuse", "edgeway.connected"]]
    stream = client.ask("/plain", "POST", *fields, ("traceparent", f"00-{TRACE}-{SPAN}-00"), body=b"")
    there, got = end.head()
    assert got["traceparent"] == f"00-{TRACE}-{SPAN}-00"
    end.answer(there)
    client.reply(stream)
    client.wire.close()
    end.wire.close()


def test_who_does_not_ask_for_it_is_not_recorded(bed):
    """The head comes through byte for byte, whatever is wrong with its trace, and the log tells what was there."""
    before = len(bed.collector.spans)
    for i, fields in enumerate((
            [f"TraceParent: {PARENT[:-1]}0", "TRACESTATE: x=y"],
            [f"traceparent: {PARENT}", f"traceparent: {PARENT}", "tracestate: x=y"],
            [f"traceparent: {PARENT.upper()}", "tracestate: x=y"],
            [f"traceparent: {PARENT}-more"], [f"traceparent: ff{PARENT[2:]}"], ["tracestate: x=y"], [])):
        head, _ = bed.ask(*fields, target=f"/plain/{i}")
        assert head[2:2 + len(fields)] == fields
        assert len(bed.of(head, "traceparent")) == sum("traceparent" in f.lower() for f in fields)

    def lines():
        return sorted((l["request"], l.get("trace")) for l in bed.lines() if "/plain/" in l["request"] and "span" not in l)
    wait_for("lines", lambda: len(lines()) == 7)
    assert [trace for _, trace in lines()] == [TRACE, TRACE, None, None, None, None, None]
    end = bed.ask(f"traceparent: {PARENT}")[0]
    bed.collector.wait(lambda s: s["spanId"] == bed.of(end, "traceparent")[0].split("-")[2])
    assert len(bed.collector.spans) == before + 1


def test_a_share_of_the_others_begins_traces(bed):
    bed.reconfigure(sample="1.0")
    seen = set()
    for fields in ([], [f"traceparent: {PARENT}", f"Traceparent: {PARENT}", "tracestate: x=y"],
                   [f"traceparent: {PARENT.upper()}", "tracestate: x=y"]):
        head, _ = bed.ask(*fields)
        ours, = bed.of(head, "traceparent")
        _, trace, span, flags = ours.split("-")
        assert trace != TRACE and flags == "03" and bed.of(head, "tracestate") == []
        made = bed.collector.wait(lambda s: s["spanId"] == span)
        assert made["traceId"] == trace and "parentSpanId" not in made
        seen.add(trace)
    assert len(seen) == 3
    head, _ = bed.ask(f"traceparent: {PARENT[:-1]}0")
    assert bed.of(head, "traceparent") == [PARENT[:-1] + "0"]  # who says no is believed
    head, _ = bed.ask(f"traceparent: cc{PARENT[2:]}-what-the-future-will-be", "tracestate: x=y")
    assert bed.of(head, "traceparent")[0].startswith(f"00-{TRACE}-") and bed.of(head, "tracestate") == ["x=y"]
    bed.reconfigure(sample="0")
    wait_for("the workers know", lambda: bed.of(bed.ask()[0], "traceparent") == [])


def test_a_share_of_the_connections(bed):
    """TCP that is relayed: by chance, since it brings no parent; its bytes, and what became of it."""
    bed.reconfigure(sample="1.0")
    client = bed.client("raw").put(b"hello")
    wire = bed.ends[0].accept()
    wire.expect(b"hello").put(b"world!")
    client.expect(b"world!")
    assert not bed.collector.find(lambda s: s["name"] == "tcp")  # it goes on
    client.close()
    wire.close()
    made = bed.collector.wait(lambda s: s["name"] == "tcp")
    has = made["attributes"]
    assert "parentSpanId" not in made and made["status"] == {} and made["scope"] == "edgeway.lb"
    assert (has["edgeway.bytes.sent"], has["edgeway.bytes.received"], has["edgeway.end"]) == (5, 6, "--")
    assert has["edgeway.service"] == "raw" and has["server.address"] == bed.addresses["raw"] and has["server.port"] == 80
    assert has["network.peer.address"] == bed.pods[0].address and has["client.address"] == bed.client_pod.address
    assert [e["name"] for e in made["events"]] == ["edgeway.dial", "edgeway.connected"]
    bed.ends[1].down()
    try:
        bed.client("away").gone()
    except ConnectionResetError:
        pass  # before connect() was told that it had worked
    finally:
        bed.ends[1].open()
    made = bed.collector.wait(lambda s: s["attributes"].get("edgeway.service") == "away")
    assert made["status"] == {"code": 2} and made["attributes"]["error.type"] == "SC"
    bed.reconfigure(sample="0")
    bed.client("raw").put(b"x").close()
    bed.ends[0].accept().expect(b"x").close()
    head, _ = bed.ask(f"traceparent: {PARENT}", target="/after")
    bed.collector.wait(lambda s: s["attributes"].get("url.full", "").endswith("/after"))
    assert len(bed.collector.find(lambda s: s["attributes"].get("edgeway.service") == "raw")) == 1
    bed.ends[0].clear()


def test_every_attempt_is_told(bed):
    """One of two endpoints is dead: the request that met it says so, and all of them got their answer."""
    alive, dead = bed.pods[0].address, bed.pods[1].address
    bed.ends[1].down()
    try:
        for i in range(8):  # each worker takes turns of its own
            trace = f"{i + 1:032x}"
            assert bed.ask(f"traceparent: 00-{trace}-{SPAN}-01", name="two")[1][0] == 200
            made = bed.collector.wait(lambda s: s["traceId"] == trace)
            if made["attributes"]["edgeway.retries"] > 0:
                break
    finally:
        bed.ends[1].open()
    told = [(e["name"], e["attributes"]["network.peer.address"]) for e in made["events"]]
    assert [t for t in told if t[0] != "edgeway.ejected"] == [
        ("edgeway.dial", dead), ("edgeway.refused", dead), ("edgeway.dial", alive), ("edgeway.connected", alive)]
    assert ("edgeway.ejected", dead) in told
    assert made["attributes"]["network.peer.address"] == alive and made["status"] == {}


def test_failures_are_errors(bed):
    trace = "2" * 32
    client = bed.client("none").put(f"GET / HTTP/1.1\r\nHost: none\r\ntraceparent: 00-{trace}-{SPAN}-01\r\n\r\n".encode())
    assert client.reply()[0] == 503
    made = bed.collector.wait(lambda s: s["traceId"] == trace)
    assert made["status"] == {"code": 2} and made["attributes"]["error.type"] == "503"
    assert made["attributes"]["edgeway.end"] == "SC" and "network.peer.address" not in made["attributes"]
    trace = "3" * 32
    client = bed.client()
    client.put(f"BREW /pot HTTP/1.1\r\nHost: one\r\ntraceparent: 00-{trace}-{SPAN}-01\r\n\r\n".encode())
    bed.ends[0].accept().until()
    client.close(hard=True)
    made = bed.collector.wait(lambda s: s["traceId"] == trace)
    assert made["status"] == {"code": 2} and made["attributes"]["error.type"] == "CH" and made["name"] == "HTTP"
    assert made["attributes"]["http.request.method"] == "_OTHER" and made["attributes"]["http.request.method_original"] == "BREW"
    bed.ends[0].clear()


def test_no_more_than_the_limit(bed):
    bed.reconfigure(limit=1)
    before, limited, exported = len(bed.collector.spans), bed.metric("traces_limited_total", "lb"), bed.total("exported")
    client = bed.client()
    wire, untouched = None, 0
    for _ in range(60):
        client.put(f"GET / HTTP/1.1\r\nHost: one\r\ntraceparent: {PARENT}\r\n\r\n".encode())
        wire = wire or bed.ends[0].accept()
        untouched += bed.of(wire.until().decode().split("\r\n"), "traceparent") == [PARENT]
        wire.put(OK)
        assert client.reply()[0] == 200
    assert untouched > 0 and bed.metric("traces_limited_total", "lb") - limited == untouched
    wait_for("the others", lambda: len(bed.collector.find(bool)) - before == 60 - untouched)
    wait_for("the collector's answers", lambda: bed.total("exported") - exported >= 60 - untouched)
    bed.ends[0].clear()
    bed.reconfigure()


def test_what_the_collector_says(bed):
    """503 and its Retry-After: the same once more. 400: never again. partialSuccess: counted."""
    failed, exported, n = bed.total("failed"), bed.total("exported"), len(bed.collector.bodies)
    bed.collector.answers = [(503, {"Retry-After": "1"}, b""), (429, {}, b"slow down")]
    bed.ask(f"traceparent: {PARENT}")
    wait_for("the third", lambda: len(bed.collector.bodies) == n + 3)
    assert len(set(bed.collector.bodies[n:])) == 1
    wait_for("exported", lambda: bed.total("exported") == exported + 1)
    assert bed.total("failed") == failed and bed.metric("up") == 1
    bed.collector.answers = [(400, {}, b"no")]
    bed.ask(f"traceparent: {PARENT}")
    wait_for("given up", lambda: bed.total("failed") == failed + 1)
    assert bed.metric("up") == 0 and bed.agent.state()["tracing"]["error"] == "the collector answers 400"
    bed.collector.answers = [(200, {}, b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too \\"old\\""}}')]
    bed.ask(f"traceparent: {PARENT}")
    wait_for("refused", lambda: bed.total("failed") == failed + 2)
    assert len(bed.collector.bodies) == n + 5 and 'too ?old?' in bed.agent.state()["tracing"]["error"]
    unused(bed)


def test_an_answer_of_any_length_is_an_answer(bed):
    """A 200 whose body is longer than anybody would read: the spans are there, and are not sent again."""
    exported, n = bed.total("exported"), len(bed.collector.bodies)
    bed.collector.answers = [(200, {}, b'{"partialSuccess":{"errorMessage":"' + b"x" * 100000 + b'"}}')]
    bed.ask(f"traceparent: {PARENT}")
    wait_for("exported", lambda: bed.total("exported") == exported + 1)
    bed.ask(f"traceparent: {PARENT}")
    wait_for("the next", lambda: bed.total("exported") == exported + 2)
    assert len(bed.collector.bodies) == n + 2 and bed.metric("up") == 1
    unused(bed)


def test_many_at_once(bed):
    """More than a batch, which takes many turns to write: each of them arrives once."""
    bed.reconfigure(limit=100000)
    bed.collector.answers, before = [(503, {"Retry-After": "1"}, b"")], len(bed.collector.bodies)
    trace, client, wire = "7" * 32, bed.client(), None
    for i in range(1300):
        client.put(f"GET /many/{i} HTTP/1.1\r\nHost: one\r\ntraceparent: 00-{trace}-{SPAN}-01\r\n\r\n".encode())
        wire = wire or bed.ends[0].accept()
        wire.until()
        wire.put(OK)
        assert client.reply()[0] == 200
    wait_for("all", lambda: len(bed.collector.find(lambda s: s["traceId"] == trace)) >= 1300)
    made = bed.collector.find(lambda s: s["traceId"] == trace)
    assert len({s["spanId"] for s in made}) == len(made) == 1300
    assert {s["attributes"]["url.full"].rpartition("/")[2] for s in made} == {str(i) for i in range(1300)}
    assert len(bed.collector.bodies) > before
    bed.ends[0].clear()
    bed.reconfigure()


def test_a_collector_that_is_away_stops_nothing(bed):
    """Counted and told; what waits goes out when it is back, over a connection that is made anew."""
    failed = bed.total("failed")
    bed.collector.down()
    trace = "4" * 32
    for _ in range(3):
        assert bed.ask(f"traceparent: 00-{trace}-{SPAN}-01")[1][0] == 200
    wait_for("trouble", lambda: "refused" in bed.agent.state()["tracing"]["error"])
    assert bed.metric("queue_spans") > 0
    ctl = bed.lab.program("edgewayctl")
    status = bed.node.run(ctl, "--socket", bed.agent.socket, "status", check=False).stdout
    assert "traces" in status and "Connection refused" in status, status
    doctor = bed.node.run(ctl, "--socket", bed.agent.socket, "doctor", check=False).stdout
    assert re.search(r"traces.*Connection refused", doctor), doctor
    bed.collector.up()
    wait_for("all", lambda: len(bed.collector.find(lambda s: s["traceId"] == trace)) == 3)
    assert bed.total("failed") == failed and bed.agent.state()["tracing"]["error"] == ""
    unused(bed)


def test_what_is_left_goes_out_at_the_end(bed):
    bed.restart(delay="1h")
    trace = "5" * 32
    for _ in range(5):
        bed.ask(f"traceparent: 00-{trace}-{SPAN}-01")
    assert bed.collector.find(lambda s: s["traceId"] == trace) == []
    assert bed.agent.stop() == 0
    assert len(bed.collector.find(lambda s: s["traceId"] == trace)) == 5
    assert "spans are lost" not in bed.agent.process.log()


def test_what_is_left_goes_out_at_a_takeover(bed):
    bed.agent.start()
    trace, first = "6" * 32, bed.agent.process
    bed.ask(f"traceparent: 00-{trace}-{SPAN}-01")
    bed.agent.start("--takeover", "true")
    bed.collector.wait(lambda s: s["traceId"] == trace)
    head, _ = bed.ask(f"traceparent: 00-{trace}-{SPAN}-01")
    assert bed.of(head, "traceparent")[0].split("-")[2] != SPAN  # the next one records as well
    assert first.stop() == 0


def test_through_the_tunnel_to_a_collector_elsewhere(bed):
    """The node cannot dial its pod: the hub does."""
    far = Collector(labs.Machine(bed.lab, "server", address=CLOUD))
    bed.restart(endpoint="http://far.observability.svc.cluster.local:4318")
    wait_for("tunnel", lambda: bed.agent.state()["tunnel"]["state"] == "open")
    head, _ = bed.ask(f"traceparent: {PARENT}")
    far.wait(lambda s: s["spanId"] == bed.of(head, "traceparent")[0].split("-")[2])
    assert far.requests[0][2][0] == HUB_ADDRESS
    bed.restart(endpoint="http://nobody.observability.svc.cluster.local:4318")
    bed.ask(f"traceparent: {PARENT}")
    wait_for("trouble", lambda: bed.agent.state()["tracing"]["error"] == "no service of the cluster has this name")


def test_over_https_to_a_name_of_the_world(bed):
    """The CA of tracing.ca is asked for, headers go along and are told to nobody; an unknown CA is an error that says so."""
    world = labs.upstream(bed.lab, "www.example.test/203.0.113.7", f"otlp.example.test/{HUB_ADDRESS}")
    assert world.process.alive()
    authority = Authority(bed.lab.dir, "otlp")
    certificate, key = authority.issue("otlp.example.test", "subjectAltName=DNS:otlp.example.test")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    remote = Collector(bed.hub.machine, 8443, tls=context)
    values = {"endpoint": "https://otlp.example.test:8443/in?tenant=7"}
    bed.restart(**values)
    bed.ask(f"traceparent: {PARENT}")
    wait_for("refusal", lambda: "certificate" in bed.agent.state()["tracing"]["error"])
    bed.restart(**values, more=f", ca: {authority.cert}, headers: ['api-key=s3cret', 'X-Tenant=a=b']")
    head, _ = bed.ask(f"traceparent: {PARENT}")
    remote.wait(lambda s: s["spanId"] == bed.of(head, "traceparent")[0].split("-")[2])
    path, fields, _, _ = remote.requests[0]
    assert path == "/in?tenant=7" and fields["api-key"] == "s3cret" and fields["X-Tenant"] == "a=b"
    head, _ = bed.ask(f"traceparent: {PARENT}")
    remote.wait(lambda s: s["spanId"] == bed.of(head, "traceparent")[0].split("-")[2])
    assert len({r[2] for r in remote.requests}) == 1  # the connection is kept
    checked = bed.node.run(bed.lab.program("edgeway-agent"), "--config", bed.file, "--hub.url", "wss://192.0.2.1:10000", "--check").stdout
    assert "api-key" not in checked or "s3cret" not in checked
    assert "s3cret" not in bed.agent.process.log() + checked


def test_the_types_of_opentelemetry_have_read_all_of_it(bed):
    if otlp.installed():
        pytest.skip(f"OpenTelemetry's types are not to be had: {otlp.installed()}")
    assert bed.collector.read_by_types == len(bed.collector.bodies) > 10 and not bed.collector.wrong
