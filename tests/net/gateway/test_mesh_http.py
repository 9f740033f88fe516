"""HTTPRoutes of Services as the nodes follow them: the cases of the Gateway API's conformance suite for meshes (MESH-HTTP, core and
extended) by manifests of our own, from pods, by HTTP/1 and by HTTP/2."""
import contextlib
import json
import socket
import struct
import time

import pytest

from h2kit import Http2
from httpkit import Endpoint, Wire
from gateway_town import Town, backend, edits, redirect, rewrite, route, to
from lab import Lab, service, wait_for
from pki import Authority
from pretender import Pretender

pytestmark = pytest.mark.plain_build  # what sanitizers may find is in the units and in tests/net/h2

both = pytest.mark.parametrize("http", [1, 2], ids=["http1", "http2"])


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        made = Town(lab)
        yield made
        print(made.agent.process.log()[-4000:])
        print(made.hub.process.log()[-2000:])


def path(value, kind="PathPrefix"):
    return {"path": {"type": kind, "value": value}}


def header(name, value, kind="Exact"):
    return {"name": name, "value": value, "type": kind}


# --- whom a request reaches ----------------------------------------------------------------


@both
def test_mesh_basic_and_frontend(town, http):
    """MeshBasic, MeshFrontend: the frontend Service's clients get what the route says, not its own endpoints."""
    town.routes()
    assert set(town.services(8, http=http)) == {"echo-v1", "echo-v2"}
    town.routes(route("frontend", to("echo-v2")))
    assert set(town.services(8, http=http)) == {"echo-v2"}
    assert set(town.services(4, name="echo-v1", http=http)) == {"echo-v1"}, "another Service has no routes"


@both
def test_matching(town, http):
    """MeshHTTPRouteMatching: path and header, elements of a prefix, the better match wins."""
    town.routes(route("matching", to("echo-v1", matches=[path("/"), {"headers": [header("version", "one")]}]),
                      to("echo-v2", matches=[path("/v2"), {"headers": [header("version", "two")]}])))
    for where, fields, wanted in (("/", (), "echo-v1"), ("/example", (), "echo-v1"), ("/", ("version: one",), "echo-v1"), ("/v2", (), "echo-v2"),
                                  ("/v2/", (), "echo-v2"), ("/v2/example", (), "echo-v2"), ("/v2example", (), "echo-v1"), ("/foo/v2/example", (), "echo-v1"),
                                  ("/", ("version: two",), "echo-v2"), ("/", ("version: other",), "echo-v1"), ("/v2?a=b", (), "echo-v2")):
        assert town.ask("echo", where, *fields, http=http).service == wanted, (where, fields)


@both
def test_path_method_and_query(town, http):
    town.routes(route("r", to("echo-v1", matches=[path("/one", "Exact")]), to("echo-v2", matches=[path("/o.e/[0-9]+", "RegularExpression")]),
                      to("echo-v1", matches=[{"method": "POST"}]), to("echo-v2", matches=[{"method": "PUT", **path("/up")}]),
                      to("echo-v1", matches=[{"queryParams": [{"name": "animal", "value": "whale"}]}]),
                      to("echo-v2", matches=[{"queryParams": [{"name": "animal", "value": "dolphin"}, {"name": "color", "value": "blue"}]}])))

    def asked(where, method="GET", **more):
        reply = town.ask("echo", where, method=method, http=http, **more)
        return reply.service if reply.status == 200 else reply.status
    assert [asked("/one"), asked("/one/"), asked("/one/17"), asked("/one/x")] == ["echo-v1", 404, "echo-v2", 404]
    assert [asked("/", "POST", body="x"), asked("/up", "PUT", body=""), asked("/down", "PUT", body="")] == ["echo-v1", "echo-v2", 404]
    assert [asked("/?animal=whale"), asked("/?color=blue&animal=dolphin"), asked("/?animal=dolphin"), asked("/?animal=whales")] == [
        "echo-v1", "echo-v2", 404, 404]


@both
def test_header_matching(town, http):
    town.routes(route("r", to("echo-v1", matches=[{"headers": [header("version", "one")]}]),
                      to("echo-v2", matches=[{"headers": [header("Version", "two"), header("color", "bl.*", "RegularExpression")]}])))
    assert town.ask("echo", "/", "Version: one" if http == 1 else "version: one", http=http).service == "echo-v1"
    assert town.ask("echo", "/", "version: two", "color: blue", http=http).service == "echo-v2"
    for fields in (("version: two",), ("version: two", "color: red"), ("version: three",), ()):
        assert town.ask("echo", "/", *fields, http=http).status == 404


@both
def test_no_rule_and_no_backend(town, http):
    """404 where no rule is for the request; 500 where a rule has no valid backend; 503 where that has no endpoint."""
    town.routes(route("r", to("nowhere", matches=[path("/gone")]), to("empty", matches=[path("/empty")]), to("echo-v1", matches=[path("/ok")]),
                      to(backend("echo-far", namespace="other"), matches=[path("/far")]), {"matches": [path("/none")]}))
    replies = {where: town.ask("echo", where, http=http) for where in ("/", "/gone", "/empty", "/ok", "/far", "/none")}
    assert {where: r.status for where, r in replies.items()} == {"/": 404, "/gone": 500, "/empty": 503, "/ok": 200, "/far": 500, "/none": 500}
    assert "no rule is for this request" in replies["/"].text and "mesh/r" in replies["/gone"].text


@both
def test_weights(town, http):
    """MeshHTTPRouteWeight, MeshTrafficSplit: also with a weight of none, and with a share that is invalid."""
    town.routes(route("r", to(backend("echo-v1", weight=70), backend("echo-v2", weight=30), backend("guarded", weight=0))))
    got = town.services(200, http=http)
    assert set(got) == {"echo-v1", "echo-v2"} and 105 < got["echo-v1"] < 175, got
    town.routes(route("r", to(backend("echo-v1", weight=1), backend("nowhere", weight=1))))
    statuses = [town.ask("echo", http=http).status for _ in range(40)]
    assert set(statuses) == {200, 500}


@both
def test_ports(town, http):
    """MeshPorts: a route for one port of the Service says nothing of the others; a port that is no HTTP has none."""
    town.routes(route("by-name", to("echo-v1"), sectionName="http"), route("by-port", to(backend("echo-v2", 8080)), port=8080))
    assert set(town.services(6, http=http)) == {"echo-v1"}
    assert set(town.services(6, port=8080, http=http)) == {"echo-v2"}
    assert set(town.services(8, port=7070, http=http)) == {"echo-v1", "echo-v2"}
    assert set(town.services(8, port=9090, http=http)) == {"echo-v1", "echo-v2"}


@both
def test_consumers(town, http):
    """MeshConsumerRoute: a route of the clients' namespace counts for these clients alone."""
    answer = edits("Response", set={"x-who": "consumer"})
    town.routes(route("consumer", to(backend("echo-v1", namespace="mesh"), filters=[answer]), namespace="consumer", parent="echo-v1"))
    wait_for("it counts", lambda: town.ask("echo-v1", machine=town.consumer, http=http).fields.get("x-who") == "consumer")
    assert "x-who" not in town.ask("echo-v1", http=http).fields
    assert town.ask("echo-v2", machine=town.consumer, http=http).service == "echo-v2"


@both
def test_another_namespace_by_a_grant(town, http):
    grant = {"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant", "metadata": {"name": "g", "namespace": "other"},
             "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "mesh"}], "to": [{"group": "", "kind": "Service"}]}}
    far = route("r", to(backend("echo-far", namespace="other")))
    town.routes(far, grant)
    assert set(r.said["namespace"] for r in (town.ask("echo", http=http) for _ in range(4))) == {"other"}
    town.routes(far)
    assert town.ask("echo", http=http).status == 500


@both
def test_who_may_not_call_the_backend(town, http):
    """allow-from of the Service that a route leads to holds as for those who call it themselves."""
    town.routes(route("r", to("guarded", matches=[path("/guarded")]), to("echo-v1")))
    wait_for("the callers", lambda: town.ask("guarded", machine=town.consumer).status == 200)
    refused = town.ask("echo", "/guarded", http=http)
    assert refused.status == 403 and "may not call service mesh/guarded port 80" in refused.text
    assert town.ask("echo", "/guarded", machine=town.consumer, http=http).service == "echo-v2"
    assert town.ask("echo", http=http).service == "echo-v1"


# --- what becomes of it -----------------------------------------------------------------------


@both
def test_request_headers(town, http):
    """RequestHeaderModifier of a rule and of a backend."""
    town.routes(route("r", to(backend("echo-v1", filters=[edits("Request", set={"X-Backend": "v1"}, add={"X-Many": "3"})]),
                              filters=[edits("Request", set={"X-Set": "new"}, add={"X-Many": "2"}, remove=["X-Gone"])])))
    got = town.ask("echo", "/", "x-set: old", "x-many: 1", "x-gone: yes", "x-kept: yes", http=http)
    assert (got.field("x-set"), got.field("x-many"), got.field("x-gone"), got.field("x-kept"), got.field("x-backend")) == (
        ["new"], ["1", "2", "3"], None, ["yes"], ["v1"])
    assert town.ask("echo", http=http).field("x-set") == ["new"]


@both
def test_response_headers(town, http):
    town.routes(route("r", to(backend("echo-v1", filters=[edits("Response", add={"X-Backend": "v1"})]),
                              filters=[edits("Response", set={"X-Echo": "changed"}, add={"X-New": "1"}, remove=["X-Echo-Other"])])))
    fields = town.ask("echo", http=http).fields
    assert (fields["x-echo"], fields["x-new"], fields["x-backend"], fields.get("x-echo-other")) == ("changed", "1", "v1", None)
    assert town.ask("echo", "/status/404", http=http).fields["x-echo"] == "changed", "answers of the endpoint, whatever their status"


@both
def test_redirects(town, http):
    """RequestRedirect: host and status, path, port, scheme."""
    town.routes(route("r", {"matches": [path("/host")], **redirect(hostname="example.org")},
                      {"matches": [path("/status")], **redirect(hostname="example.org", statusCode=301)},
                      {"matches": [path("/full")], **redirect(path={"type": "ReplaceFullPath", "replaceFullPath": "/new"}, statusCode=308)},
                      {"matches": [path("/prefix")], **redirect(path={"type": "ReplacePrefixMatch", "replacePrefixMatch": "/other"})},
                      {"matches": [path("/port")], **redirect(port=8083)}, {"matches": [path("/scheme")], **redirect(scheme="https")},
                      {"matches": [path("/all")], **redirect(scheme="https", hostname="example.org", port=8443, statusCode=307)}))
    for where, status, location in (("/host", 302, "http://example.org/host"), ("/status/a", 301, "http://example.org/status/a"),
                                    ("/full/x?q=1", 308, "http://echo/new?q=1"), ("/prefix/a/b", 302, "http://echo/other/a/b"),
                                    ("/port", 302, "http://echo:8083/port"), ("/scheme", 302, "https://echo/scheme"),
                                    ("/all", 307, "https://example.org:8443/all")):
        host = "web" if http == 2 else "echo"  # as h2kit asks
        got = town.ask("echo", where, http=http)
        assert (got.status, got.fields["location"]) == (status, location.replace("//echo", f"//{host}")), where
    assert town.ask("echo", "/host", port=8080, http=http).fields["location"] == "http://example.org:8080/host"


@both
def test_rewrites(town, http):
    """URLRewrite: host, path; the query stays."""
    town.routes(route("r", to("echo-v1", matches=[path("/prefix/one")], filters=[rewrite(path={"type": "ReplacePrefixMatch", "replacePrefixMatch": "/one"})]),
                      to("echo-v1", matches=[path("/strip")], filters=[rewrite(path={"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"})]),
                      to("echo-v1", matches=[path("/full")], filters=[rewrite(path={"type": "ReplaceFullPath", "replaceFullPath": "/all"})]),
                      to("echo-v1", matches=[path("/host")], filters=[rewrite(hostname="one.example.org"), edits("Request", set={"x-a": "1"})])))
    for where, wanted in (("/prefix/one/two", "/one/two"), ("/prefix/one", "/one"), ("/strip/three?a=b", "/three?a=b"), ("/strip", "/"), ("/full/x?c=d", "/all?c=d")):
        assert town.ask("echo", where, http=http).said["path"] == wanted, where
    got = town.ask("echo", "/host/x", http=http)
    assert (got.said["host"], got.said["path"], got.field("x-a")) == ("one.example.org", "/host/x", ["1"])


def mirror(name, **more):
    return {"type": "RequestMirror", "requestMirror": {"backendRef": backend(name), **more}}


@both
def test_mirrors(town, http):
    """RequestMirror: by the same HTTP, with the rule's edits, in parts, several; what cannot be mirrored takes nothing from the original."""
    edited = edits("Request", set={"x-edited": "1"})
    town.routes(route("r", to("echo-v1", matches=[path("/copy-one")], filters=[mirror("echo-v2"), edited]),
                      to("echo-v1", matches=[path("/copy-none")], filters=[mirror("echo-v2", percent=0)]),
                      to("echo-v1", matches=[path("/copy-half")], filters=[mirror("echo-v2", fraction={"numerator": 1, "denominator": 2})]),
                      to("echo-v1", matches=[path("/copy-lost")], filters=[mirror("empty"), mirror("guarded"), mirror("nowhere"), mirror("echo-v2")])))
    proto, before = f"HTTP/{'1.1' if http == 1 else '2.0'}", town.agent.state()["lb"]["counters"]["mirrors_dropped"]

    def ask(path, **more):
        return town.ask("echo", path, http=http, **more)

    def seen(prefix):
        return [s for s in town.ask("echo-v2", "/seen").said["seen"] if s.split()[1].startswith(prefix) and s.split()[2] == proto]
    assert ask("/copy-one/get?a=b").service == "echo-v1"
    assert ask("/copy-one/post", method="POST", body="the body").service == "echo-v1"
    wait_for("copies", lambda: sorted(seen("/copy-one")) == [f"GET /copy-one/get?a=b {proto}", f"POST /copy-one/post {proto} the body"])
    assert ask("/copy-one/large", method="POST", body="x" * 20000).said["body"] == "x" * 20000
    for i in range(40):
        assert ask(f"/copy-half/{i}").service == "echo-v1"
        assert ask(f"/copy-none/{i}").service == "echo-v1"
    assert ask("/copy-lost").service == "echo-v1"
    wait_for("the last copy", lambda: seen("/copy-lost") == [f"GET /copy-lost {proto}"])
    assert 5 < len(seen("/copy-half")) < 35 and seen("/copy-none") == [] and len(seen("/copy-one")) == 2
    for i in range(70):  # more than may be at once: each ends with its answer
        assert ask(f"/copy-one/more/{i}", grpc=http == 2).service == "echo-v1"
    wait_for("70 copies", lambda: len(seen("/copy-one/more")) == 70)
    assert town.agent.state()["lb"]["counters"]["mirrors_dropped"] == before + 3  # a large body, no endpoint, not allowed


def test_copies_are_framed_anew(town):
    """Of a client's chunks a copy gets the payload: neither extensions nor trailers, of which the original gets those that may stand."""
    original, copy = (Endpoint(town.pods[f"echo-{v}"], 8443) for v in ("v1", "v2"))
    town.hub.write("raw.yaml", *(service(f"raw-{v}", ("http", 80, 8443), selector=f"echo-{v}", namespace="mesh") for v in ("v1", "v2")))
    town.routes(route("r", to("raw-v1", filters=[mirror("raw-v2")])))
    trailers = b"Host: evil\r\nX-Sum: 1\r\nAuthorization: Bearer x\r\n"
    for first, body_so_far, rest, whole in ((b"5;x=y\r\nhel", b"3\r\nhel\r\n", b"lo\r\n6;z\r\n world\r\n0;last\r\n" + trailers + b"\r\n", b"b\r\nhello world\r\n"),
                                            (b"0;la", b"", b"st\r\n" + trailers + b"\r\n", b"")):
        with contextlib.closing(town.connect("echo").s) as s:
            wire = Wire(s)
            wire.put(b"POST / HTTP/1.1\r\nHost: echo\r\nTransfer-Encoding: chunked\r\n\r\n" + first)
            at_original = original.accept()
            at_original.until()
            at_original.expect(body_so_far)
            wire.put(rest, b"GET /next HTTP/1.1\r\nHost: echo\r\n\r\n")
            assert at_original.until().endswith(b"0\r\nX-Sum: 1\r\n\r\n")
            at_copy = copy.accept()
            assert b"\r\nTransfer-Encoding: chunked\r\n" in at_copy.until()
            at_copy.expect(whole + b"0\r\n\r\n").put(b"HTTP/1.1 204 Seen\r\nConnection: close\r\n\r\n").shut().eof()
            at_original.put(b"HTTP/1.1 204 Done\r\n\r\n")
            assert wire.reply()[0] == 204 and b"GET /next " in at_original.until()
            at_next = copy.accept()
            assert at_next.until().startswith(b"GET /next ") and at_next.left == b""
            at_original.put(b"HTTP/1.1 204 Done\r\nConnection: close\r\n\r\n").shut()
            assert wire.reply()[0] == 204
    original.down()
    copy.down()


def test_copies_do_not_wait_for_ever(town):
    """A request whose body does not end: its copies are given up, the original goes on."""
    town.routes(route("r", to("echo-v1", filters=[mirror("echo-v2"), mirror("echo-v2")])))
    before = town.agent.state()["lb"]["counters"]["mirrors_dropped"]
    with contextlib.closing(town.connect("echo").s) as s:
        wire = Wire(s)
        wire.put(b"POST /slow HTTP/1.1\r\nHost: echo\r\nContent-Length: 2\r\n\r\na")
        wait_for("given up", lambda: town.agent.state()["lb"]["counters"]["mirrors_dropped"] == before + 2, seconds=60)
        wire.put(b"b")
        status, _, text = wire.reply()
    assert status == 200 and json.loads(text)["body"] == "ab"


# --- time and attempts --------------------------------------------------------------------------


@both
def test_timeouts(town, http):
    """timeouts.request and timeouts.backendRequest; 0s is none at all."""
    town.routes(route("r", to("echo-v1", matches=[path("/slow/1.5")], timeouts={"request": "500ms"}),
                      to("echo-v1", matches=[path("/slow/1.6")], timeouts={"backendRequest": "500ms"}),
                      to("echo-v1", matches=[path("/slow/1.7")], timeouts={"request": "0s"}), to("echo-v1")))
    assert town.ask("echo", "/slow/1.5", http=http).status == 504
    assert town.ask("echo", "/slow/1.6", http=http).status == 504
    assert town.ask("echo", "/slow/1.7", http=http).status == 200
    assert town.ask("echo", "/slow/0.1", http=http).status == 200


@both
def test_retries(town, http):
    """retry.codes and attempts: at another endpoint or, where there is no other, at the same one; only what may be asked twice."""
    only = {"codes": [503], "attempts": 2}
    town.routes(route("r", to("echo-v1", matches=[path("/flaky")], retry=only), to("echo-v1", matches=[path("/status")], retry=only), to("echo-v1")))
    assert town.ask("echo", f"/flaky/2/{http}", http=http).status == 200
    assert town.ask("echo", f"/flaky/3/{http}", http=http).status == 503
    assert town.ask("echo", f"/flaky/1/post{http}", method="POST", body="x", http=http).status == 503
    assert town.ask("echo", f"/status/500/{http}", http=http).status == 500
    seen = town.ask("echo-v1", "/seen", http=http).said["seen"]
    assert [sum(s.startswith(f"GET {p}") for s in seen) for p in (f"/flaky/2/{http}", f"/flaky/3/{http}", f"/status/500/{http}")] == [3, 3, 1]


@both
def test_backoff(town, http):
    """retry.backoff: so long at least between two attempts, and within timeouts.request."""
    only = {"codes": [503], "attempts": 2, "backoff": "400ms"}
    town.routes(route("r", to("echo-v1", matches=[path("/flaky/3")], retry=only, timeouts={"request": "700ms"}), to("echo-v1", retry=only)))
    began = time.monotonic()
    assert town.ask("echo", f"/flaky/2/backoff{http}", http=http).status == 200
    assert time.monotonic() - began > 0.75, "two waits"
    assert town.ask("echo", f"/flaky/3/backoff{http}", http=http).status == 504
    gone = f"/flaky/1/gone{http}"
    with contextlib.closing(town.connect().s) as s:
        wire = Wire(s)
        if http == 1:
            wire.put(f"GET {gone} HTTP/1.1\r\nHost: echo\r\n\r\n".encode())
        else:
            Http2(wire).open().ask(gone)
        wait_for("the first attempt", lambda: any(s.startswith(f"GET {gone} ") for s in town.ask("echo-v1", "/seen").said["seen"]))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert town.ask("echo", f"/flaky/1/backoff{http}", http=http).status == 200
    assert sum(s.startswith(f"GET {gone} ") for s in town.ask("echo-v1", "/seen").said["seen"]) == 1, "a client that has gone while its request waits"


# --- sessions -----------------------------------------------------------------------------------


def cookie_of(reply):
    return reply.fields["set-cookie"].partition(";")[0]


@both
def test_sessions_by_cookie(town, http):
    """sessionPersistence: whoever sends the cookie back gets the same endpoint, whatever the weights say by then."""
    town.routes(route("r", to("echo-v1", backend("echo-v2"), matches=[path("/shop")], sessionPersistence={"sessionName": "sid"}), to("echo-v1")))
    first = town.ask("echo", "/shop/a", http=http)
    said = first.fields["set-cookie"].split("; ")
    assert said[0].startswith("sid=") and said[1:] == ["Path=/shop", "HttpOnly"]
    again = [town.ask("echo", "/shop/b", f"cookie: a=b; {cookie_of(first)}", http=http) for _ in range(12)]
    assert {r.service for r in again} == {first.service} and not any("set-cookie" in r.fields for r in again)
    other = {"echo-v1": "echo-v2", "echo-v2": "echo-v1"}[first.service]
    town.routes(route("r", to(backend(first.service, weight=0), other, matches=[path("/shop")], sessionPersistence={"sessionName": "sid"})))
    assert town.ask("echo", "/shop", f"cookie: {cookie_of(first)}", http=http).service == first.service
    assert town.ask("echo", "/shop", http=http).service == other
    town.routes(route("r", to(other, matches=[path("/shop")], sessionPersistence={"sessionName": "sid"})))
    moved = town.ask("echo", "/shop", f"cookie: {cookie_of(first)}", http=http)
    assert moved.service == other and cookie_of(moved) != cookie_of(first), "the rule does not lead there any more: a new session"
    for token in ("sid=", "sid=x", f"sid={'f' * 40}", f"{cookie_of(first)}0", f"sid={'0' * 40}"):
        assert town.ask("echo", "/shop", f"cookie: {token}", http=http).fields["set-cookie"].startswith("sid="), "no session of ours"


@both
def test_sessions_end(town, http):
    """absoluteTimeout and idleTimeout, lifetimeType Permanent."""
    town.routes(route("r", to("echo-v1", "echo-v2", matches=[path("/whole")], sessionPersistence={
        "absoluteTimeout": "1s", "cookieConfig": {"lifetimeType": "Permanent"}}), to("echo-v1", "echo-v2", sessionPersistence={"idleTimeout": "1s"})))
    for where in ("/whole", "/idle"):
        first = town.ask("echo", where, http=http)
        assert ("Max-Age=1" in first.fields["set-cookie"]) == (where == "/whole")
        wait_for("its end", lambda w=where, f=first: cookie_of(town.ask("echo", w, f"cookie: {cookie_of(f)}", http=http))[-16:-8] != cookie_of(f)[-16:-8])


@both
def test_sessions_by_header(town, http):
    town.routes(route("r", to("echo-v1", "echo-v2", sessionPersistence={"type": "Header", "sessionName": "x-session"})))
    first = town.ask("echo", http=http)
    again = [town.ask("echo", "/", f"x-session: {first.fields['x-session']}", http=http) for _ in range(12)]
    assert {(r.service, r.fields["x-session"][:32]) for r in again} == {(first.service, first.fields["x-session"][:32])}


# --- what operators see -----------------------------------------------------------------------------


def test_access_log_and_trace(town):
    town.routes(route("r", {"name": "new", **to(backend("echo-v2", weight=3), matches=[{**path("/v2"), "headers": [header("x-a", "b")]}])},
                      to("echo-v1", matches=[path("/v1")]), {"matches": [path("/away")], **redirect(hostname="example.org")},
                      to("nowhere", matches=[path("/gone")])))
    assert town.ask("echo", "/v2/x", "x-a: b").service == "echo-v2"
    assert town.agent.process.logged("service=mesh/echo route=mesh/r/0 backend=mesh/echo-v2:80 endpoint=")
    said = town.trace("echo", "/v1/deep")["answered"]
    assert said["route"] == "rule 1 of mesh/r, for path prefix /v1: to service mesh/echo-v1 port 80, weight 1 of 1", said
    assert said["endpoint"].endswith(":8080")
    assert town.trace("echo", "/none")["answered"]["route"] == "no rule of its routes is for this request: 404"
    assert town.trace("echo", "/away")["answered"]["route"] == "rule 2 of mesh/r, for path prefix /away: redirected with 302"
    assert town.trace("echo", "/gone")["answered"]["route"] == "rule 3 of mesh/r, for path prefix /gone: no backend can be used, 500"
    assert town.trace("echo-v1")["answered"]["route"] == ""


def test_an_open_connection_gets_new_routes(town):
    """Each request is judged by itself, and counts for the Service that answers it; connections count for the one that was called."""
    town.routes(route("r", to("echo-v1")))
    wire = town.connect()

    def asked():
        wire.put(b"GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
        status, _, body = wire.reply()
        return status, b'"service": "echo-v2"' in body
    assert asked() == (200, False)
    town.routes(route("r", to("echo-v2")))
    assert asked() == (200, True)
    town.routes(route("r", to("nowhere")))
    assert asked() == (500, False)
    wire.s.close()


def test_requests_count_where_they_go(town):
    """A Service's connections are those of its own clients; its requests are those that its endpoints answer."""
    def numbers(name):
        return next(s for s in town.agent.state()["lb"]["services"] if (s["namespace"], s["service"]) == ("mesh", name))
    town.routes(route("r", to("echo-v1", matches=[path("/v1")])))
    for name in ("echo", "echo-v1"):
        town.ask(name, "/v1")
    before = {name: numbers(name) for name in ("echo", "echo-v1")}
    assert [town.ask("echo", "/v1").status for _ in range(3)] == [200] * 3 and town.ask("echo", "/none").status == 404
    after = {name: numbers(name) for name in before}
    grown = {name: [after[name]["connections"] - before[name]["connections"],
                    *(after[name]["requests"][c] - before[name]["requests"][c] for c in ("2xx", "4xx"))] for name in before}
    assert grown == {"echo": [4, 0, 1], "echo-v1": [0, 3, 0]}


def test_agents_from_before(town):
    """doctor names a node whose agent knows no routes, as soon as there are some."""
    ca = Authority.of_hub(town.hub)

    def said():
        return town.hub.machine.run(town.lab.program("edgewayctl"), "--socket", town.hub.socket, "doctor", check=False).stdout
    town.routes(route("r", to("echo-v1")))
    assert "know no routes" not in said()
    with Pretender(town.hub.machine, town.hub.address, ca, "old-1", None, "edgeway-enforces: allow-from"):
        wait_for("it is told", lambda: "1 nodes have agents that know no routes, such as old-1" in said())
