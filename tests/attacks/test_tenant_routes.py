"""Whoever may write routes in a namespace of the edge: what reaches others' clients, Services and workers by HTTPRoutes."""
import contextlib
import glob

import pytest

from gateway_town import Town, backend, edits, redirect, rewrite, route, to
from httpkit import Wire
from lab import Lab, wait_for


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        made = Town(lab)
        yield made
        print(made.agent.process.log()[-4000:])
        print(made.hub.process.log()[-2000:])


def prefix(value):
    return {"path": {"type": "PathPrefix", "value": value}}


def raw(town, *lines):
    with contextlib.closing(town.connect().s) as s:
        wire = Wire(s)
        wire.put("\r\n".join([*lines, "", ""]).encode())
        return wire.reply()


def cpu_s(process):
    return sum(int(open(p, encoding="ascii").read().split()[0]) for p in glob.glob(f"/proc/{process.pid}/task/*/schedstat")) / 1e9


def problems(town):
    return {r["name"]: r["problem"] for r in town.hub.state()["hub"]["routes"]}


def test_foreign_services(town):
    """A consumer's route counts for its own clients, and leads into no third namespace."""
    town.routes(route("steal", to(backend("echo-v2", namespace="mesh"), filters=[edits("Response", set={"x-stolen": "yes"})]), namespace="consumer"),
                route("third", to(backend("echo-far", namespace="other")), namespace="consumer", parent="echo-v1"))
    wait_for("its own clients", lambda: town.ask("echo", machine=town.consumer).fields.get("x-stolen") == "yes")
    assert "x-stolen" not in town.ask("echo").fields and set(town.services(8)) == {"echo-v1", "echo-v2"}
    assert town.ask("echo-v1", machine=town.consumer).status == 500 and "ReferenceGrant" in problems(town)["third"]
    assert town.ask("echo-v1").service == "echo-v1"


def test_a_namespace_leaves_room_for_others(town):
    """A thousand routes for somebody else's Service: the producer's and another consumer's still count, and the Service is sent."""
    crowd = [route(f"crowd-{i}", *(to(backend("echo-v2", namespace="mesh"), matches=[prefix(f"/{i}/{j}/{'x' * 200}")]) for j in range(16)),
                   namespace="aaa", created="2025-01-01T00:00:00Z") for i in range(1000)]
    town.routes(*crowd, route("own", to("echo-v1")), route("shop", to(backend("echo-v2", namespace="mesh")), namespace="consumer"))
    said = problems(town)
    assert said["own"] == "" and said["shop"] == "" and sum("beyond what a node takes" in p for p in said.values()) > 500
    assert set(town.services(4)) == {"echo-v1"}
    wait_for("the other consumer", lambda: set(town.services(4, machine=town.consumer)) == {"echo-v2"})


def test_lines_of_their_own(town):
    """Neither a route nor a request puts a line into a head."""
    for wrong in (edits("Request", set={"x-a": "b\r\nx-evil: 1"}), edits("Response", add={"x a": "b"}), edits("Request", set={"x-a\r\nx-evil": "1"}),
                  edits("Request", remove=["content-length"]), edits("Request", set={"Transfer-Encoding": "chunked"}), edits("Request", set={":path": "/x"}),
                  rewrite(path={"type": "ReplaceFullPath", "replaceFullPath": "/a HTTP/1.1\r\nx-evil: 1"}), rewrite(hostname="a\r\nb")):
        town.routes(route("r", to("echo-v1", filters=[wrong], matches=[prefix("/wrong")]), to("echo-v1")))
        assert town.ask("echo", "/wrong").status == 500, wrong
        assert town.ask("echo").service == "echo-v1"
    town.routes(route("r", {"matches": [prefix("/wrong")], **redirect(hostname="a\r\nb")}, {"matches": [prefix("/away")], **redirect(scheme="https")}))
    assert town.ask("echo", "/wrong").status == 500
    assert town.ask("echo", "//evil.example.org/away").status == 404
    assert town.ask("echo", "/away//evil.example.org/%0d%0a").fields["location"] == "https://echo/away//evil.example.org/%0d%0a"


def test_forms_of_a_target(town):
    """Whatever form the target has, the rule of its path counts, as it came: elements are not decoded."""
    town.routes(route("r", to("echo-v2", matches=[prefix("/admin")]), to("echo-v1", matches=[prefix("/open")], filters=[
        rewrite(path={"type": "ReplacePrefixMatch", "replacePrefixMatch": ""})]), {"matches": [{"method": "OPTIONS", "path": {"type": "RegularExpression", "value": ".*"}}], **redirect(hostname="example.org")}))
    status, _, body = raw(town, "GET http://echo/admin/x HTTP/1.1", "Host: echo")
    assert status == 200 and b"echo-v2" in body
    assert raw(town, "OPTIONS * HTTP/1.1", "Host: echo")[1]["location"] == "http://example.org"
    assert [town.ask("echo", p).status for p in ("/adminx", "/admin%2Fx", "/%61dmin", "//admin", "/./admin")] == [404] * 5
    assert [town.ask("echo", p).said["path"] for p in ("/open", "/open/", "/open/../admin", "/open//admin", "/open/%2e%2e/admin?/open")] == [
        "/", "/", "/../admin", "//admin", "/%2e%2e/admin?/open"]


def test_expressions_that_take_long(town):
    """256 of the worst expressions: the agent needs no more for a request than for a large one, and others are answered."""
    slow = {"path": {"type": "RegularExpression", "value": "(?:(?:a?){30}[^b]*b|/|a)*c"}}
    town.routes(*(route(f"slow-{i}", *(to("echo-v1", matches=[{**slow, "headers": [{"name": "x-i", "type": "RegularExpression", "value": "(?:(?:a?){30}[^b]*b|a)*"}]}])
                                       for _ in range(8))) for i in range(16)))
    before = cpu_s(town.agent.process)
    for _ in range(20):
        assert town.ask("echo", "/" + "a" * 4000, f"x-i: {'a' * 4000}").status == 404
    assert cpu_s(town.agent.process) - before < 2, "20 requests took 20 x 128 x 64 ms once"
    assert town.ask("echo-v2").service == "echo-v2"


def test_numbers_of_their_own(town):
    """Weights, retries and times at their ends."""
    most = [backend(n, weight=1000000) for n in ("echo-v1", "echo-v2")] * 8
    town.routes(route("r", to(*most, matches=[prefix("/weights")]), to(*(backend("echo-v1", weight=0) for _ in range(16)), matches=[prefix("/none")]),
                      to("echo-v1", matches=[prefix("/flaky")], retry={"codes": [503], "attempts": 100, "backoff": "1ms"}),
                      to("echo-v1", matches=[prefix("/slow")], timeouts={"request": "99999h"}), to("echo-v1", matches=[prefix("/long")], retry={"backoff": "99999h"})))
    assert set(town.services(40, path="/weights")) == {"echo-v1", "echo-v2"}
    assert [town.ask("echo", p).status for p in ("/none", "/flaky/1000", "/slow/0", "/long")] == [500, 503, 200, 500]
    seen = [s for s in town.ask("echo-v1", "/seen").said["seen"] if "/flaky/1000" in s]
    assert 1 <= len(seen) <= 16
