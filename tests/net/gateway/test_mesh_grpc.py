"""GRPCRoutes of Services as the nodes follow them (MESH-GRPC): by HTTP/2 with prior knowledge."""
import pytest

from gateway_town import Town, backend, edits, route, to
from lab import Lab

pytestmark = pytest.mark.plain_build


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        made = Town(lab)
        yield made
        print(made.agent.process.log()[-4000:])


def method(service=None, name=None, kind="Exact"):
    return {"method": {"type": kind, **({"service": service} if service else {}), **({"method": name} if name else {})}}


def grpc(*rules):
    return route("calls", *rules, kind="GRPCRoute", port=7070)


def call(town, path, *fields):
    """The Service that answered, or the call's status."""
    got = town.ask("echo", path, *fields, http=2, port=7070, grpc=True)
    return got.service or int(got.trailers["grpc-status"])


def test_exact_methods(town):
    town.routes(grpc(to(backend("echo-v1", 7070), matches=[method("echo.Echo", "Echo")]), to(backend("echo-v2", 7070), matches=[method("echo.Echo")]),
                     to(backend("echo-v1", 7070), matches=[method(name="Only")]),
                     to(backend("echo-v2", 7070), matches=[method("a[.].*", "Get.*", "RegularExpression")])))
    assert [call(town, p) for p in ("/echo.Echo/Echo", "/echo.Echo/Two", "/other.X/Only", "/a.B/GetIt")] == ["echo-v1", "echo-v2", "echo-v1", "echo-v2"]
    assert call(town, "/other.X/Y") == 12, "no rule: UNIMPLEMENTED"
    assert town.ask("echo", "/echo.Echo/Echo", http=2, port=7070).status == 404, "a GRPCRoute is for calls alone"
    assert town.ask("echo", "/echo.Echo/Echo").status == 200, "and says nothing of other ports"


def test_headers(town):
    town.routes(grpc(to(backend("echo-v1", 7070), matches=[{"headers": [{"name": "version", "value": "one"}]}]),
                     to(backend("echo-v2", 7070), matches=[{"headers": [{"name": "version", "value": "two"}]}],
                        filters=[edits("Request", set={"x-set": "yes"}), edits("Response", add={"x-answered": "yes"})])))
    assert [call(town, "/echo.Echo/Echo", f"version: {v}") for v in ("one", "two", "three")] == ["echo-v1", "echo-v2", 12]
    got = town.ask("echo", "/echo.Echo/Echo", "version: two", http=2, port=7070, grpc=True)
    assert got.field("x-set") == ["yes"] and got.fields["x-answered"] == "yes" and got.trailers == {"grpc-status": "0"}


def test_weights_and_faults(town):
    town.routes(grpc(to(backend("echo-v1", 7070, weight=9), backend("echo-v2", 7070, weight=1), matches=[method("w.W")]),
                     to(backend("nowhere", 7070), matches=[method("n.N")])))
    got = town.services(100, path="/w.W/M", http=2, port=7070, grpc=True)
    assert set(got) == {"echo-v1", "echo-v2"} and got["echo-v1"] > 70, got
    assert call(town, "/n.N/M") == 2, "500: UNKNOWN"


def test_sessions(town):
    town.routes(grpc(to(backend("echo-v1", 7070), backend("echo-v2", 7070), sessionPersistence={"type": "Header", "sessionName": "x-session"})))
    first = town.ask("echo", "/a.B/C", http=2, port=7070, grpc=True)
    assert {call(town, "/a.B/C", f"x-session: {first.fields['x-session']}") for _ in range(12)} == {first.service}
