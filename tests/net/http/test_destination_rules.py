"""Istio's DestinationRules, as EdgeMesh's users have them: what of them counts is what edge nodes do, in the manifest folder and from a
cluster; what does not is told where an operator looks."""
import json
import os
import re

import pytest

from kube import ACCOUNT, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import Lab, endpoint_slice, service, wait_for

pytestmark = pytest.mark.plain_build  # choices of the hub, which the units make with the sanitizers, too

RIGHTS_FILE = "rbac-destinationrules.yaml"
BY_USER = {"loadBalancer": {"consistentHash": {"httpHeaderName": "X-User"}}}


def rule(name, host, policy, **spec):
    return {"apiVersion": "networking.istio.io/v1alpha3", "kind": "DestinationRule", "metadata": {"name": name, "namespace": "default"},
            "spec": {"host": host, "trafficPolicy": policy, **spec}}


def status(hub):
    return hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "status", check=False).stdout


def rules_of(hub):
    return {r["name"]: r for r in hub.state()["hub"]["destinationRules"]}


def who(client, user, times=6):
    """Who answers this user, with a connection for each request, so that all workers get some."""
    urls = [f"http://ruled/{i}" for i in range(times)]
    return set(client.run("curl", "-sS", "-m", 60, "-H", "Connection: close", "-H", f"X-User: {user}", *urls).stdout.split())


def test_in_the_manifest_folder(mesh):
    mesh.hub.write("ruled.yaml", service("ruled", ("http", 80, "http"), selector="web"))
    wait_for("name", lambda: mesh.client1.address_of("ruled.default.svc.cluster.local"))
    assert len(who(mesh.client1, "one", 24)) > 1
    mesh.hub.write("rule.yaml", rule("by-user", "ruled.default.svc.cluster.local", BY_USER))
    wait_for("hashed", lambda: len(who(mesh.client1, "one", 24)) == 1)
    chosen = [who(mesh.client1, f"user-{u}") for u in range(16)]
    assert {len(c) for c in chosen} == {1} and set.union(*chosen) == mesh.backends
    assert rules_of(mesh.hub)["by-user"] == {"namespace": "default", "name": "by-user", "service": "ruled", "counts": True, "problem": ""}
    # What does not count is told, and takes nothing away from what does.
    mesh.hub.write("rule.yaml", rule("by-user", "ruled", {**BY_USER, "tls": {"mode": "DISABLE"}}))
    wait_for("told", lambda: "trafficPolicy.tls is not supported" in status(mesh.hub))
    assert re.search(r"/rule.yaml:\d+: trafficPolicy.tls is not supported", mesh.hub.process.log())
    assert sum(r["problem"] != "" for r in mesh.hub.state()["hub"]["destinationRules"]) == 1
    assert len(who(mesh.client1, "one", 24)) == 1
    mesh.hub.delete("rule.yaml")
    wait_for("as without it", lambda: len(who(mesh.client1, "one", 24)) > 1)
    assert rules_of(mesh.hub) == {}


def test_outlier_detection(mesh):
    """Answers of 5xx in a row put an endpoint out, though it takes connections; other Services go on using it."""
    flag = os.path.join(mesh.lab.dir, "failing")
    pods = [mesh.node1.pod(f"failing-{i}") for i in range(2)]
    served = [p.serve("--http", "8080", "--ill-if", flag if i == 0 else "") for i, p in enumerate(pods)]
    for name in ("failing", "lenient"):
        mesh.hub.write(f"{name}.yaml", service(name, ("http", 80, 8080), selector="none"),
                       endpoint_slice(f"{name}-1", name, 8080, *[p.address for p in pods], port_name="http"))
    mesh.hub.write("rule.yaml", rule("out", "failing", {"outlierDetection": {"consecutive5xxErrors": 2, "baseEjectionTime": "10m"}}))
    wait_for("rule", lambda: rules_of(mesh.hub).get("out", {}).get("counts"))

    def states(name):
        return {e["state"] for g in mesh.agent1.state()["lb"]["endpoints"] if g["service"] == f"default/{name}" for e in g["endpoints"]}

    def answers(name, times):
        return mesh.client1.run("curl", "-sS", "-m", 60, "-H", "Connection: close", "-w", "%{http_code}\n", *[f"http://{name}/health"] * times).stdout.split()
    for name in ("failing", "lenient"):
        wait_for(f"first answer of {name}", lambda n=name: mesh.client1.get(f"http://{n}/health")[0] == 204)
    open(flag, "w").close()
    wait_for("it is out", lambda: "503" not in answers("failing", 16))
    assert states("failing") == {"up", "ejected"}
    assert "503" in answers("lenient", 16) and states("lenient") == {"up"}
    assert mesh.agent1.process.logged("answers with 5xx again and again")
    assert "503" not in answers("failing", 24)
    os.unlink(flag)
    for name in ("failing.yaml", "lenient.yaml", "rule.yaml"):
        mesh.hub.delete(name)
    for p in served:
        p.kill()


# --- in a cluster -------------------------------------------------------------------------

@pytest.fixture(scope="module")
def api():
    with Lab() as lab:
        yield ApiServer(lab)
        for p in lab.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.fixture(scope="module")
def hub(api):
    made = KubeHub(api.lab, api)
    api.apply(service("web", ("http", 80, "http"), selector="web"))
    wait_for("a Service", lambda: ("default", "web") in made.services())
    return made


def restart(hub, on):
    hub.process.stop()
    hub.options = ("--source.kubernetes.destinationRules", on)
    hub.start()
    wait_for("a Service", lambda: hub.ready() and ("default", "web") in hub.services())


def balancing(hub):
    """How the Service is balanced: the members of its view that say so."""
    return {k: v for k, v in hub.services()["default", "web"].items() if k not in ("ns", "name", "ports", "clusterIP")}


def test_off_nothing_is_asked(api, hub):
    assert api.ctl("requests", match="destinationrules") == [] and "destinationrules" not in hub.source()


def test_a_cluster_that_has_none(api, hub):
    restart(hub, "true")
    wait_for("told", lambda: "does not know destinationrules.networking.istio.io" in status(hub))
    assert hub.process.log().count("does not know destinationrules") == 1
    asked = [path.split("/")[3] for _, path in api.ctl("requests", match="destinationrules")]
    assert asked == ["v1alpha3", "v1beta1", "v1"]


def test_without_the_rights(api, hub):
    api.ctl("crds", there=True)
    restart(hub, "true")
    wait_for("told", lambda: RIGHTS_FILE in hub.source()["destinationrules"]["problem"])
    assert hub.process.logged(RIGHTS_FILE) and RIGHTS_FILE in status(hub)
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights(RIGHTS_FILE))
    wait_for("read", lambda: hub.source()["destinationrules"]["listed"])
    used = {(u[0], u[2]) for u in api.ctl("used", user=ACCOUNT) if u[1] == "networking.istio.io"}
    assert used <= {(r[0], r[1]) for r in optional_rights(RIGHTS_FILE)}


def events(api):
    return {e["reason"]: e["message"] for e in api.read_all("events", "default") if e["involvedObject"]["name"] == "web"}


def test_kubectl_alone(api, hub):
    before = balancing(hub)
    api.apply(rule("a-limits", "web", {"connectionPool": {"tcp": {"maxConnections": 7, "connectTimeout": "1.5s"}}, **BY_USER}))
    wait_for("it counts", lambda: balancing(hub) != before)
    with_rule = balancing(hub)
    assert "X-User" in json.dumps(with_rule) and {7, 1500} <= set(_numbers(with_rule)), with_rule
    # The Service's own word is first; the younger of two rules is last, and told; so is what is not supported.
    api.kubectl("annotate", "service", "web", "edgeway.io/max-connections=9")
    wait_for("its own", lambda: {9, 1500} <= set(_numbers(balancing(hub))))
    api.apply(rule("b-second", "web.default", {"loadBalancer": {"simple": "RANDOM"}}))
    wait_for("told", lambda: "a-limits is older and counts for Service web" in rules_of(hub).get("b-second", {}).get("problem", ""))
    wait_for("logged", lambda: "the oldest counts, a-limits, and not b-second service=default/web" in hub.process.log())
    assert "X-User" in json.dumps(balancing(hub))
    said = wait_for("event", lambda: events(api).get("DestinationRulePartly"), pause=0.5)
    assert "a-limits, and not b-second" in said and hub.source()["events"]["unreachable"] == 1  # for want of endpoints
    api.kubectl("delete", "destinationrule", "b-second")
    wait_for("over", lambda: "DestinationRuleHonoured" in events(api), pause=0.5)
    assert "NotReachableOnEdge" in events(api) and "ReachableOnEdge" not in events(api)
    api.kubectl("annotate", "service", "web", "edgeway.io/max-connections-")
    api.kubectl("delete", "destinationrule", "a-limits")
    wait_for("as before", lambda: balancing(hub) == before)


def _numbers(value):
    if isinstance(value, dict):
        return [n for v in value.values() for n in _numbers(v)]
    return [value] if isinstance(value, int) else []
