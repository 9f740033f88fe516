"""The mesh cases of the Gateway API's conformance suite, by its names: requests and assertions are those of conformance/tests/mesh at
kubernetes-sigs/gateway-api 4564255a (August 2026), the profiles MESH-HTTP and MESH-GRPC, core and extended. As there, each case applies its
routes, asks from within a pod, and expects the answer's status and fields, the request as the endpoint saw it, and the pod that answered.
doc/features.md has the table of the cases.

A row of a case: (path, what is sent, what is expected). `to` is the pod that answers, and `status` 200 unless said."""
import collections

import pytest

from gateway_town import Town, backend, edits, redirect, rewrite, route, to
from lab import Lab, wait_for

pytestmark = pytest.mark.plain_build


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        made = Town(lab)
        yield made
        print(made.agent.process.log()[-4000:])


def prefix(value):
    return {"path": {"type": "PathPrefix", "value": value}}


def fields(**values):
    return [{"name": name.replace("_", "-"), "value": value} for name, value in values.items()]


def params(animal):
    return {"queryParams": [{"name": "animal", "value": animal}]}


def full(path):
    return {"path": {"type": "ReplaceFullPath", "replaceFullPath": path}}


def part(path):
    return {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": path}}


def marked(value):
    """A rule's members: the answer says that the rule was used."""
    return {"filters": [edits("Response", set={"X-Header-Set": value})]}


def check(town, path, sent=None, name="echo", to="", status=200, got=None, absent=(), said=None, unsaid=(), seen=None, location=None, **more):
    """sent: fields of the request. got, absent: fields at the endpoint. said, unsaid: fields of the answer."""
    reply = town.ask(name, path, *(f"{n}: {v}" for n, v in (sent or {}).items()), **{"host": name, **more})
    assert reply.status == status, (path, reply)
    assert not to or reply.service == to, (path, reply)
    for field, value in (got or {}).items():
        assert ",".join(reply.field(field.lower()) or ()) == value, (path, field, reply)
    assert not [f for f in absent if reply.field(f.lower())], (path, reply)
    for field, value in (said or {}).items():
        assert reply.fields.get(field.lower()) == value, (path, field, reply)
    assert not [f for f in unsaid if f.lower() in reply.fields], (path, reply)
    assert seen is None or reply.said["path"] == seen, (path, reply)
    assert location is None or reply.fields["location"] == location, (path, reply)


# --- MESH-HTTP, core ---------------------------------------------------------------------------


def test_MeshBasic(town):
    town.routes()
    check(town, "/")


def test_MeshHTTPRouteSimpleSameNamespace(town):
    town.routes(route("simple", to("echo-v1"), port=80))
    for _ in range(4):
        check(town, "/", to="echo-v1")


def test_MeshFrontend(town):
    """The rule is for those who call the Service, not for those who call a pod."""
    town.routes(route("frontend", to("echo-v2", **marked("set")), parent="echo-v2"))
    check(town, "/", name="echo-v2", to="echo-v2", said={"X-Header-Set": "set"})
    town.addresses["pod.mesh"] = town.pods["echo-v2"].address
    check(town, "/", name="pod", port=8080, to="echo-v2", unsaid=["X-Header-Set"])


def test_MeshPorts(town):
    town.routes(route("one", to("echo-v1", **marked("v1")), parent="echo-v1", port=80), route("all", to("echo-v2", **marked("v2")), parent="echo-v2"))
    check(town, "/", name="echo-v1", to="echo-v1", said={"X-Header-Set": "v1"})
    check(town, "/", name="echo-v1", port=8080, to="echo-v1", unsaid=["X-Header-Set"])
    check(town, "/", name="echo-v2", to="echo-v2", said={"X-Header-Set": "v2"})
    check(town, "/", name="echo-v2", port=8080, to="echo-v2", said={"X-Header-Set": "v2"})
    check(town, "/", name="echo-v2", port=9090, to="echo-v2", unsaid=["X-Header-Set"])


def test_MeshTrafficSplit(town):
    town.routes(route("split", *(to(f"echo-{v}", matches=[{"path": {"type": "Exact", "value": f"/{v}"}}]) for v in ("v1", "v2"))))
    check(town, "/v1", to="echo-v1")
    check(town, "/v2", to="echo-v2")


def test_MeshHTTPRouteMatching(town):
    town.routes(route("matching", to(backend("echo-v1", 8080), matches=[prefix("/"), {"headers": fields(version="one")}]),
                      to(backend("echo-v2", 8080), matches=[prefix("/v2"), {"headers": fields(version="two")}]), port=80))
    for path, sent, wanted in (("/", {}, 1), ("/example", {}, 1), ("/", {"Version": "one"}, 1), ("/v2", {}, 2), ("/v2/example", {}, 2),
                               ("/", {"Version": "two"}, 2), ("/v2/", {}, 2), ("/v2example", {}, 1), ("/foo/v2/example", {}, 1)):
        check(town, path, sent, to=f"echo-v{wanted}")


def modifiers():
    """{path: the edits of its rule}: for rules and for their backends."""
    return {"/set": edits("Request", set={"X-Header-Set": "set-overwrites-values"}), "/add": edits("Request", add={"X-Header-Add": "add-appends-values"}),
            "/remove": edits("Request", remove=["X-Header-Remove"]),
            "/multiple": edits("Request", set={"X-Header-Set-1": "header-set-1", "X-Header-Set-2": "header-set-2"},
                               add={f"X-Header-Add-{i}": f"header-add-{i}" for i in (1, 2, 3)}, remove=["X-Header-Remove-1", "X-Header-Remove-2"]),
            "/case-insensitivity": edits("Request", set={"X-Header-Set": "header-set"}, add={"X-Header-Add": "header-add"}, remove=["X-Header-Remove"])}


def check_modifiers(town):
    other, new = {"Some-Other-Header": "val"}, {"X-Header-Set": "set-overwrites-values"}
    for path, sent, got, absent in (
            ("/set", other, {**other, **new}, ()), ("/set", {**other, "X-Header-Set": "some-other-value"}, {**other, **new}, ()),
            ("/add", other, {**other, "X-Header-Add": "add-appends-values"}, ()),
            ("/add", {**other, "X-Header-Add": "some-other-value"}, {**other, "X-Header-Add": "some-other-value,add-appends-values"}, ()),
            ("/remove", {"X-Header-Remove": "val"}, {}, ["X-Header-Remove"]),
            ("/multiple", {"X-Header-Set-2": "set-val-2", "X-Header-Add-2": "add-val-2", "X-Header-Remove-2": "remove-val-2", **other},
             {"X-Header-Set-1": "header-set-1", "X-Header-Set-2": "header-set-2", "X-Header-Add-1": "header-add-1",
              "X-Header-Add-2": "add-val-2,header-add-2", "X-Header-Add-3": "header-add-3", **other}, ["X-Header-Remove-1", "X-Header-Remove-2"]),
            ("/case-insensitivity", {"x-header-set": "original-val-set", "x-header-add": "original-val-add", "x-header-remove": "original-val-remove", **other},
             {"X-Header-Set": "header-set", "X-Header-Add": "original-val-add,header-add", **other}, ["X-Header-Remove"])):
        check(town, path, sent, to="echo-v1", got=got, absent=absent, seen=path)


def test_MeshHTTPRouteRequestHeaderModifier(town):
    town.routes(route("edits", *(to(backend("echo-v1", 8080), matches=[prefix(p)], filters=[e]) for p, e in modifiers().items()), port=80))
    check_modifiers(town)


def test_MeshHTTPRouteWeight(town):
    """The suite tolerates 5 percentage points of 500 requests."""
    town.routes(route("weight", to(backend("echo-v1", 8080, weight=70), backend("echo-v2", 8080, weight=30)), port=80))
    spread(town, 0.7)


def spread(town, share, **more):
    """Of 500 requests; tried again as the suite does, which takes the best of ten."""
    for _ in range(10):
        got = collections.Counter(town.ask("echo", **more).service for _ in range(500))
        assert set(got) == {"echo-v1", "echo-v2"}, got
        if abs(got["echo-v1"] / 500 - share) <= 0.05:
            return
    raise AssertionError(got)


def test_MeshHTTPRouteRedirectHostAndStatus(town):
    town.routes(route("away", {"matches": [prefix("/hostname-redirect")], **redirect(hostname="example.org")},
                      {"matches": [prefix("/host-and-status")], **redirect(hostname="example.org", statusCode=301)}, port=80))
    check(town, "/hostname-redirect", status=302, location="http://example.org/hostname-redirect")
    check(town, "/host-and-status", status=301, location="http://example.org/host-and-status")


# --- MESH-HTTP, extended -----------------------------------------------------------------------


def test_MeshFrontendHostname(town):
    """The Service's address decides, not what Host says."""
    town.routes(route("frontend", to("echo-v2", **marked("set")), parent="echo-v2"))
    check(town, "/", name="echo-v2", host="echo-v1", to="echo-v2", said={"X-Header-Set": "set"})
    check(town, "/", name="echo-v1", host="echo-v2", to="echo-v1", unsaid=["X-Header-Set"])


def test_MeshConsumerRoute(town):
    town.routes(route("consumer", to(backend("echo-v1", namespace="mesh"), **marked("set")),
                      namespace="consumer", parent="echo-v1"))
    wait_for("the callers", lambda: town.ask("echo-v1", machine=town.consumer).fields.get("x-header-set"))
    check(town, "/", name="echo-v1", host="echo-v1.mesh", machine=town.consumer, to="echo-v1", said={"X-Header-Set": "set"})
    check(town, "/", name="echo-v1", host="echo-v1.mesh", to="echo-v1", unsaid=["X-Header-Set"])


def test_MeshHTTPRouteBackendRequestHeaderModifier(town):
    town.routes(route("edits", *(to(backend("echo-v1", 8080, filters=[e]), matches=[prefix(p)]) for p, e in modifiers().items()), port=80))
    check_modifiers(town)


def test_MeshHTTPRouteQueryParamMatching(town):
    one, two = backend("echo-v1", 8080), backend("echo-v2", 8080)
    town.routes(route("query", to(one, matches=[params("whale")]), to(two, matches=[params("dolphin")]),
                      to(one, matches=[{**prefix("/path1"), **params("whale")}]),
                      to(two, matches=[{"headers": fields(version="one"), **params("whale")}]),
                      to(one, matches=[{**prefix("/path3"), **params("shark")},
                                       {**prefix("/path4"), "headers": fields(version="three"), **params("kraken")}]),
                      to(one, matches=[prefix("/path5")]), to(two, matches=[params("hydra")]), port=80))
    for path, sent, wanted in (
            ("/?animal=whale", {}, 1), ("/?animal=dolphin", {}, 2), ("/?animal=whale&otherparam=irrelevant", {}, 1), ("/?animal=dolphin&color=yellow", {}, 2),
            ("/?color=blue", {}, 0), ("/?animal=dog", {}, 0), ("/?animal=whaledolphin", {}, 0), ("/", {}, 0), ("/path1?animal=whale", {}, 1),
            ("/?animal=whale", {"version": "one"}, 2), ("/path3?animal=shark", {}, 1), ("/path4?animal=kraken", {"version": "three"}, 1),
            ("/?animal=shark", {}, 0), ("/path4?animal=kraken", {}, 0), ("/path5?animal=hydra", {}, 1)):
        check(town, path, sent, **({"to": f"echo-v{wanted}"} if wanted else {"status": 404}))


def test_MeshHTTPRouteRedirectPath(town):
    prefixed = part("/replacement-prefix")
    town.routes(route("paths", {"matches": [prefix("/original-prefix")], **redirect(**prefixed)},
                      {"matches": [prefix("/full")], **redirect(**full("/full-path-replacement"))},
                      {"matches": [prefix("/path-and-host")], **redirect(hostname="example.org", **prefixed)},
                      {"matches": [prefix("/path-and-status")], **redirect(statusCode=301, **prefixed)},
                      {"matches": [prefix("/full-path-and-host")], **redirect(hostname="example.org", **full("/replacement-full"))},
                      {"matches": [prefix("/full-path-and-status")], **redirect(statusCode=301, **full("/replacement-full"))}, port=80))
    for path, status, wanted in (("/original-prefix/lemon", 302, "http://echo/replacement-prefix/lemon"), ("/full/path/original", 302, "http://echo/full-path-replacement"),
                                 ("/path-and-host", 302, "http://example.org/replacement-prefix"), ("/path-and-status", 301, "http://echo/replacement-prefix"),
                                 ("/full-path-and-host", 302, "http://example.org/replacement-full"), ("/full-path-and-status", 301, "http://echo/replacement-full")):
        check(town, path, status=status, location=wanted)


def test_MeshHTTPRouteRedirectPort(town):
    town.routes(route("ports", {"matches": [prefix("/port")], **redirect(port=8083)}, {"matches": [prefix("/port-and-host")], **redirect(port=8083, hostname="example.org")},
                      {"matches": [prefix("/port-and-status")], **redirect(port=8083, statusCode=301)},
                      {"matches": [prefix("/port-and-host-and-status")], **redirect(port=8083, hostname="example.org", statusCode=302)}, port=80))
    for path, status, host in (("/port", 302, "echo"), ("/port-and-host", 302, "example.org"), ("/port-and-status", 301, "echo"), ("/port-and-host-and-status", 302, "example.org")):
        check(town, path, status=status, location=f"http://{host}:8083{path}")


def test_MeshHTTPRouteSchemeRedirect(town):
    town.routes(route("schemes", {"matches": [prefix("/scheme")], **redirect(scheme="https")},
                      {"matches": [prefix("/scheme-and-host")], **redirect(scheme="https", hostname="example.org")},
                      {"matches": [prefix("/scheme-and-status")], **redirect(scheme="https", statusCode=301)},
                      {"matches": [prefix("/scheme-and-host-and-status")], **redirect(scheme="https", hostname="example.org", statusCode=302)}, port=80))
    for path, status, host in (("/scheme", 302, "echo"), ("/scheme-and-host", 302, "example.org"), ("/scheme-and-status", 301, "echo"),
                               ("/scheme-and-host-and-status", 302, "example.org")):
        check(town, path, status=status, location=f"https://{host}{path}")


@pytest.mark.parametrize("status", [303, 307, 308])
def test_MeshHTTPRouteRedirectStatusCode(town, status):
    """MeshHTTPRoute303Redirect, MeshHTTPRoute307Redirect, MeshHTTPRoute308Redirect."""
    path = {303: "/redirect", 307: "/temporary", 308: "/permanent"}[status]
    town.routes(route("status", {"matches": [prefix(path)], **redirect(statusCode=status)}, port=80))
    check(town, path, status=status, location=f"http://echo{path}")


def test_MeshHTTPRouteNamedRule(town):
    town.routes(route("named", {"name": "named-rule", **to(backend("echo-v1", 8080), matches=[prefix("/named")])},
                      to(backend("echo-v2", 8080), matches=[prefix("/unnamed")]), port=80))
    check(town, "/named", to="echo-v1", seen="/named")
    check(town, "/unnamed", to="echo-v2", seen="/unnamed")


def test_MeshHTTPRouteRewritePath(town):
    more = edits("Request", set={"X-Header-Set": "set-overwrites-values"}, add={"X-Header-Add": "header-val-1", "X-Header-Add-Append": "header-val-2"},
                 remove=["X-Header-Remove"])
    town.routes(route("rewrites", *(to("echo-v1", matches=[prefix(p)], filters=f) for p, f in (
        ("/prefix/one", [rewrite(**part("/one"))]), ("/strip-prefix", [rewrite(**part("/"))]), ("/full/one", [rewrite(**full("/one"))]),
        ("/full/rewrite-path-and-modify-headers", [rewrite(**full("/test")), more]),
        ("/prefix/rewrite-path-and-modify-headers", [rewrite(**part("/prefix")), more]))), port=80))
    for path, seen in (("/prefix/one/two", "/one/two"), ("/strip-prefix/three", "/three"), ("/strip-prefix", "/"), ("/full/one/two", "/one")):
        check(town, path, to="echo-v1", seen=seen)
    for path, seen in (("/full/rewrite-path-and-modify-headers/test", "/test"), ("/prefix/rewrite-path-and-modify-headers/one", "/prefix/one")):
        check(town, path, {"X-Header-Remove": "remove-val", "X-Header-Add-Append": "append-val-1", "X-Header-Set": "set-val"}, to="echo-v1", seen=seen,
              got={"X-Header-Add": "header-val-1", "X-Header-Add-Append": "append-val-1,header-val-2", "X-Header-Set": "set-overwrites-values"},
              absent=["X-Header-Remove"])


# --- MESH-GRPC ---------------------------------------------------------------------------------


def grpc(name, *rules):
    return route(name, *rules, kind="GRPCRoute", port=7070)


CALL = {"path": "/proto.EchoTestService/Echo", "http": 2, "port": 7070, "grpc": True}


def test_MeshGRPCRouteWeight(town):
    """With a backend of weight 0 that does not exist."""
    town.routes(grpc("weight", to(*(backend(f"echo-v{i}", 7070, weight=w) for i, w in ((1, 70), (2, 30), (3, 0))))))
    spread(town, 0.7, **CALL)


def test_MeshGRPCRouteRequestHeaderModifier(town):
    def rule(case, version, **what):
        return to(backend(f"echo-v{version}", 7070), matches=[{"headers": fields(x_test_case=case)}], filters=[edits("Request", **what)])
    town.routes(grpc("edits", rule("set", 1, set={"x-header-set": "set-overwrites-values"}), rule("add", 1, add={"x-header-add": "add-appends-values"}),
                     rule("remove", 1, remove=["x-header-remove"]),
                     rule("multi", 2, set={"x-header-set-1": "header-set-1", "x-header-set-2": "header-set-2"},
                          add={"x-header-add-1": "header-add-1", "x-header-add-2": "header-add-2"}, remove=["x-header-remove-1", "x-header-remove-2"])))
    for case, version, sent, got, absent in (
            ("set", 1, {"some-other-header": "this-header-should-be-set", "x-header-set": "old"},
             {"some-other-header": "this-header-should-be-set", "x-header-set": "set-overwrites-values"}, ()),
            ("add", 1, {"x-header-add": "first"}, {"x-header-add": "first,add-appends-values"}, ()),
            ("remove", 1, {"x-header-remove": "gone"}, {}, ["x-header-remove"]),
            ("multi", 2, {"x-header-set-2": "set-header-2", "x-header-add-2": "add-header-2", "x-header-remove-2": "gone"},
             {"x-header-set-1": "header-set-1", "x-header-set-2": "header-set-2", "x-header-add-1": "header-add-1", "x-header-add-2": "add-header-2,header-add-2"},
             ["x-header-remove-1", "x-header-remove-2"])):
        check(town, sent={"x-test-case": case, **sent}, to=f"echo-v{version}", got={"x-test-case": case, **got}, absent=absent, **CALL)
