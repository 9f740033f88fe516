"""HTTPRoutes and GRPCRoutes whose parent is a Service: what the hub makes of them for the nodes, and the status that they get; from a
cluster by kubectl alone, and in the manifest folder. What nodes do with them: tests/net/gateway."""
import json
import time

import pytest

from kube import ACCOUNT, NAMESPACE, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import Lab, service, wait_for

pytestmark = pytest.mark.plain_build  # the rules are those of the units, which the sanitizers see, too

GROUP, RIGHTS_FILE = "gateway.networking.k8s.io", "rbac-gateway.yaml"
OURS = "edgeway.io/gateway-controller"
LEASE = [[verb, "leases", "edgeway-hub-gateway", NAMESPACE] for verb in ("get", "patch")] + [["create", "leases", "", NAMESPACE]]


def route(name, *rules, parent="web", kind="HTTPRoute", **ref):
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
            "spec": {"parentRefs": [{"group": "", "kind": "Service", "name": parent, **ref}], "rules": list(rules)}}


def to(name, port=80, **more):
    return {"backendRefs": [{"name": name, "port": port}], **more}


@pytest.fixture(scope="module")
def api():
    with Lab() as lab:
        yield ApiServer(lab)
        for p in lab.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.fixture(scope="module")
def hub(api):
    made = KubeHub(api.lab, api, "--source.kubernetes.namespace", NAMESPACE)
    web = service("web", ("http", 80, "http"), ("cache", 81, 6379), selector="web")
    web["spec"]["ports"][1]["appProtocol"] = "redis"
    api.apply(web, service("v2", ("http", 80, "http"), selector="v2"))
    wait_for("a Service", lambda: {("default", "web"), ("default", "v2")} <= set(made.services()))
    return made


def routes_of(hub, name="web"):
    return hub.services()["default", name].get("routes")


def parents(api, name, resource="httproutes"):
    return (api.read(resource, name, "default", GROUP) or {}).get("status", {}).get("parents", [])


def conditions(api, name, resource="httproutes"):
    """{type: (status, reason, observedGeneration)} of our one entry."""
    ours = [p for p in parents(api, name, resource) if p["controllerName"] == OURS]
    return {c["type"]: (c["status"], c["reason"], c["observedGeneration"]) for p in ours for c in p["conditions"]}


def events(api, kind, name):
    """{message without the parent: reason}."""
    return {e["message"].partition(": ")[2]: e["reason"] for e in api.read_all("events", "default")
            if (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == (kind, name)}


def test_a_cluster_without_the_api(api, hub):
    """auto: it is no problem, nobody waits, and nothing is asked again and again."""
    assert hub.ready() and hub.state()["hub"]["routes"] == []
    assert hub.source()["httproutes"]["problem"] == "" and "does not know" not in hub.process.log().replace("does not know it", "")
    doctor = hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "doctor", check=False).stdout
    assert "route" not in doctor


def test_the_api_comes_later(api, hub):
    api.ctl("crds", there=True)
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights(RIGHTS_FILE) + LEASE)
    api.apply(route("canary", to("v2", matches=[{"headers": [{"name": "canary", "value": "yes"}]}]), to("web")))
    wait_for("found within a minute", lambda: routes_of(hub), seconds=90)
    table = routes_of(hub)["tables"]
    assert table == [{"ports": [80], "matches": [
        {"rule": 0, "prefix": "", "headers": [{"name": "canary", "value": "yes"}]}, {"rule": 1, "prefix": ""}]}]
    assert [r["backends"][0]["name"] for r in routes_of(hub)["rules"]] == ["v2", "web"]


def test_its_status(api, hub):
    wait_for("status", lambda: conditions(api, "canary"))
    assert conditions(api, "canary") == {"Accepted": ("True", "Accepted", 1), "ResolvedRefs": ("True", "ResolvedRefs", 1)}
    entry, = parents(api, "canary")
    assert entry["parentRef"] == {"group": "", "kind": "Service", "name": "web"}
    lease = api.read("leases", "edgeway-hub-gateway", NAMESPACE, "coordination.k8s.io")
    assert lease["spec"]["holderIdentity"].startswith(hub.machine.run("hostname").stdout.strip()) and lease["spec"]["leaseDurationSeconds"] == 30


def test_it_is_written_once(api, hub):
    """Nothing is written while nothing changes, and what others wrote stays."""
    writes = hub.state()["hub"]["routeStatus"]["writes"]
    other = {"controllerName": "other.example/c", "parentRef": {"name": "gw"}, "conditions": [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    before = parents(api, "canary")
    api.kubectl("patch", "httproute.gateway.networking.k8s.io", "canary", "--subresource=status", "--type=merge", "-p",
                json.dumps({"status": {"parents": [other, *before]}}))
    api.kubectl("annotate", "service", "web", "touched=yes")
    api.apply(route("canary", to("web")))
    wait_for("a new generation", lambda: conditions(api, "canary").get("Accepted", (0, 0, 0))[2] == 2)
    found = parents(api, "canary")
    assert found[0] == other and len(found) == 2
    ours = {c["type"]: c["lastTransitionTime"] for c in found[1]["conditions"]}
    assert ours == {c["type"]: c["lastTransitionTime"] for c in before[0]["conditions"]}, "its conditions have not changed"
    wait_for("idle", lambda: hub.state()["hub"]["routeStatus"]["waiting"] == 0)
    assert hub.state()["hub"]["routeStatus"]["writes"] == writes + 1
    used = [u for u in api.ctl("used", user=ACCOUNT) if u[1] in (GROUP, "coordination.k8s.io") and u[5]]
    assert {(u[0], u[2]) for u in used} <= {(r[0], r[1]) for r in optional_rights(RIGHTS_FILE) + LEASE}


@pytest.mark.parametrize("rules, wanted", [
    ([to("none")], {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", "BackendNotFound")}),
    ([to("web", filters=[{"type": "ExtensionRef", "extensionRef": {"group": "", "kind": "X", "name": "x"}}])],
     {"Accepted": ("False", "UnsupportedValue"), "ResolvedRefs": ("True", "ResolvedRefs")}),
    ([to("web"), to("web", filters=[{"type": "CORS", "cors": {}}])],
     {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs"), "PartiallyInvalid": ("True", "UnsupportedValue")}),
    ([to("web", sessionPersistence={"type": "Header", "cookieConfig": {}})],
     {"Accepted": ("False", "UnsupportedValue"), "ResolvedRefs": ("True", "ResolvedRefs")}),
    ([to("web", port=81)], {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", "UnsupportedProtocol")}),
    ([{"backendRefs": [{"group": "apps", "kind": "Deployment", "name": "web"}]}], {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", "InvalidKind")}),
    ([{"backendRefs": [{"name": "far", "namespace": "edgeway", "port": 80}]}],
     {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", "RefNotPermitted")}),
], ids=["backend", "filter", "partly", "session", "protocol", "kind", "grant"])
def test_what_is_wrong_is_in_its_status(api, hub, rules, wanted):
    api.apply(route("canary", *rules))
    wait_for("status", lambda: {t: c[:2] for t, c in conditions(api, "canary").items()} == wanted)
    told = [r for r in hub.state()["hub"]["routes"] if r["name"] == "canary"]
    assert len(told) == 1 and told[0]["problem"] != ""
    doctor = hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "doctor", check=False).stdout
    assert "HTTPRoute default/canary for Service default/web" in doctor
    said = wait_for("its Event", lambda: events(api, "HTTPRoute", "canary").get(told[0]["problem"]), pause=0.5)
    assert said == "HTTPRouteNotFollowed"


def test_a_grpc_route_wins_the_port(api, hub):
    api.apply(route("canary", to("web")), route("calls", to("web", matches=[{"method": {"service": "a.B"}}]), kind="GRPCRoute"))
    wait_for("conflict", lambda: conditions(api, "canary").get("Accepted", ())[1:2] == ("Conflicted",))
    wait_for("its Event", lambda: "HTTPRouteNotFollowed" in events(api, "HTTPRoute", "canary").values(), pause=0.5)
    wait_for("accepted", lambda: conditions(api, "calls", "grpcroutes").get("Accepted", ())[:2] == ("True", "Accepted"))
    wait_for("its table", lambda: [(t.get("grpc"), t["matches"]) for t in routes_of(hub)["tables"]] == [(True, [{"rule": 0, "prefix": "/a.B"}])])
    api.kubectl("delete", "grpcroute.gateway.networking.k8s.io", "calls")
    wait_for("the other one counts again", lambda: conditions(api, "canary").get("Accepted", ())[:2] == ("True", "Accepted"))


def test_another_parent(api, hub):
    api.apply(route("canary", to("web"), parent="gone"))
    wait_for("told", lambda: conditions(api, "canary").get("Accepted", ())[:2] == ("False", "NoMatchingParent"))
    entry, = [p for p in parents(api, "canary") if p["controllerName"] == OURS]
    assert entry["parentRef"]["name"] == "gone"
    wait_for("no routes", lambda: routes_of(hub) is None)


def test_the_api_goes_and_comes(api, hub):
    """A CRD that is deleted takes its objects along without an event."""
    api.apply(route("canary", to("web")))
    wait_for("routes", lambda: routes_of(hub))
    api.ctl("crds", there=False)
    api.ctl("cut_all")
    wait_for("no routes", lambda: routes_of(hub) is None, seconds=150)
    assert hub.ready() and hub.source()["httproutes"]["problem"] == ""
    api.ctl("crds", there=True)
    wait_for("routes again", lambda: routes_of(hub), seconds=150)


def test_replicas_take_turns(api, hub):
    """Another replica writes nothing while this one holds the Lease, and takes it over when this one is gone."""
    second = KubeHub(api.lab, api, "--source.kubernetes.namespace", NAMESPACE, name="second", address="192.0.2.3")
    wait_for("it reads", lambda: any(r["name"] == "canary" for r in second.state()["hub"]["routes"]))
    api.apply(route("canary", to("web")))
    wait_for("status", lambda: conditions(api, "canary").get("Accepted", ())[:2] == ("True", "Accepted"))
    wait_for("both see it", lambda: second.state()["hub"]["routeStatus"]["waiting"] == 0)
    assert second.state()["hub"]["routeStatus"]["writes"] == 0 and not second.state()["hub"]["routeStatus"]["lease"]["held"]
    hub.process.kill()
    api.apply(route("canary", to("none")))
    wait_for("the other one writes", lambda: conditions(api, "canary").get("ResolvedRefs", ())[:2] == ("False", "BackendNotFound"), seconds=120)
    assert second.state()["hub"]["routeStatus"]["lease"]["held"]
    second.process.stop()


def test_off(api, hub):
    api.ctl("clear", resources=[[GROUP, "httproutes"]])
    hub.options = (*hub.options, "--source.kubernetes.gatewayAPI", "false")
    hub.start()
    wait_for("a Service", lambda: hub.ready() and ("default", "web") in hub.services())
    assert "httproutes" not in hub.source() and api.ctl("requests", match=GROUP) == []


def test_in_the_manifest_folder(mesh):
    mesh.hub.write("routed.yaml", service("routed", ("http", 80, "http"), selector="web"), route("r", to("routed"), parent="routed"))

    def view():
        return next((s["view"] for s in mesh.hub.state()["hub"]["services"] if s["name"] == "routed"), {})
    wait_for("routes", lambda: view().get("routes"))
    assert view()["routes"]["rules"] == [{"route": "default/r", "backends": [{"ns": "default", "name": "routed", "port": 80}]}]
    mesh.hub.write("routed.yaml", service("routed", ("http", 80, "http"), selector="web"),
                   route("r", to("routed", filters=[{"type": "CORS"}]), parent="routed"))
    wait_for("500", lambda: view().get("routes", {}).get("rules", [{}])[0].get("status") == 500)
    assert mesh.hub.process.logged("filter CORS is not supported")
    # An agent takes the view as it is, and goes on serving.
    wait_for("name", lambda: mesh.client1.address_of("routed.default.svc.cluster.local"))
    mesh.hub.delete("routed.yaml")
    deadline = time.monotonic() + 60
    while view() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert view() == {}
