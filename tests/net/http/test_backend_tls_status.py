"""BackendTLSPolicies of a cluster: what the hub makes of them, which ConfigMaps it reads for that, and the status that they get. What nodes
do with them: tests/net/gateway/test_backend_tls.py."""
import json
import os

import pytest

from kube import ACCOUNT, NAMESPACE, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import Lab, service, wait_for
from pki import Authority
from test_gateway_routes import GROUP, LEASE, OURS, RIGHTS_FILE

pytestmark = pytest.mark.plain_build  # the rules are those of the units, which the sanitizers see, too


def policy(name, *cas, target="web", kind="ConfigMap", hostname="web.example"):
    return {"apiVersion": f"{GROUP}/v1", "kind": "BackendTLSPolicy", "metadata": {"name": name, "namespace": "default"},
            "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": target}],
                     "validation": {"hostname": hostname, "caCertificateRefs": [{"group": "", "kind": kind, "name": n} for n in cas]}}}


@pytest.fixture(scope="module")
def api():
    with Lab() as lab:
        made = ApiServer(lab)
        made.ctl("crds", there=True)
        made.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights(RIGHTS_FILE) + LEASE)
        made.apply(service("web", ("http", 80, "http"), selector="web"))
        os.mkdir(os.path.join(made.dir, "cas"))
        made.cas = [Authority(os.path.join(made.dir, "cas"), n) for n in ("one", "two")]
        yield made
        for p in lab.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.fixture(scope="module")
def hub(api):
    made = KubeHub(api.lab, api, "--source.kubernetes.namespace", NAMESPACE)
    wait_for("a Service", lambda: ("default", "web") in made.services())
    return made


def put_map(api, name, ca):
    with open(ca.cert, encoding="ascii") as f:
        text = f.read()
    api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"ca.crt": text}})
    return text


def tls(hub):
    return hub.services()["default", "web"].get("tls", [{}])[0]


def ancestors(api, name):
    return (api.read("backendtlspolicies", name, "default", GROUP) or {}).get("status", {}).get("ancestors", [])


def conditions(api, name):
    """{type: (status, reason)} of our one entry."""
    return {c["type"]: (c["status"], c["reason"]) for p in ancestors(api, name) if p["controllerName"] == OURS for c in p["conditions"]}


def accepted(api, name):
    return conditions(api, name) == {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs")}


def test_status_and_view(api, hub):
    text = put_map(api, "ca", api.cas[0])
    put_map(api, "unrelated", api.cas[1])
    api.apply(policy("p", "ca"))
    wait_for("status", lambda: accepted(api, "p"))
    entry, = ancestors(api, "p")
    assert entry["ancestorRef"] == {"group": "", "kind": "Service", "name": "web"} and entry["conditions"][0]["observedGeneration"] == 1
    wait_for("its CA", lambda: tls(hub).get("ca", "").strip() == text.strip())
    assert tls(hub)["host"] == "web.example" and tls(hub)["policy"] == "default/p"


def test_only_named_config_maps_are_read(api, hub):
    asked = [path for method, path in api.ctl("requests", match="/configmaps") if method == "GET" and "/configmaps/" not in path]
    assert asked and all(p.startswith("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dca") for p in asked), asked
    assert hub.source()["configmaps"] == {"followed": 1, "problem": ""}
    used = [u for u in api.ctl("used", user=ACCOUNT) if u[1] == "" and u[2] == "configmaps"]
    assert {u[0] for u in used} <= {"list", "watch"}


def test_a_config_map_changes(api, hub):
    text = put_map(api, "ca", api.cas[1])
    wait_for("the new CA", lambda: tls(hub).get("ca", "").strip() == text.strip())
    api.kubectl("delete", "configmap", "ca")
    wait_for("gone", lambda: "does not exist" in tls(hub).get("wrong", ""))
    wait_for("told", lambda: conditions(api, "p") == {"Accepted": ("False", "NoValidCACertificate"), "ResolvedRefs": ("False", "InvalidCACertificateRef")})
    doctor = hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "doctor", check=False).stdout
    assert "BackendTLSPolicy default/p for Service default/web" in doctor
    put_map(api, "ca", api.cas[1])
    wait_for("back", lambda: accepted(api, "p"))


def test_another_counts_already(api, hub):
    api.apply(policy("q", "ca"))
    wait_for("told", lambda: conditions(api, "q").get("Accepted") == ("False", "Conflicted"))
    assert accepted(api, "p")
    api.kubectl("delete", "backendtlspolicy.gateway.networking.k8s.io", "p")
    wait_for("it counts now", lambda: accepted(api, "q") and tls(hub).get("policy") == "default/q")


def test_not_a_config_map(api, hub):
    api.apply(policy("q", "ca", kind="Secret"))
    wait_for("told", lambda: conditions(api, "q") == {"Accepted": ("False", "NoValidCACertificate"), "ResolvedRefs": ("False", "InvalidKind")})
    assert "q is" not in tls(hub)["wrong"] and "Secret" in tls(hub)["wrong"]
    api.apply(policy("q", "ca"))
    wait_for("back", lambda: accepted(api, "q"))


def test_what_others_wrote_stays(api, hub):
    other = {"controllerName": "other.example/c", "ancestorRef": {"name": "gw"}, "conditions": [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    api.kubectl("patch", "backendtlspolicy.gateway.networking.k8s.io", "q", "--subresource=status", "--type=merge", "-p",
                json.dumps({"status": {"ancestors": [other, *ancestors(api, "q")]}}))
    api.apply(policy("q", "ca", target="gone"))
    wait_for("told", lambda: conditions(api, "q").get("Accepted") == ("False", "TargetNotFound"))
    assert ancestors(api, "q")[0] == other and len(ancestors(api, "q")) == 2
    api.apply(policy("q", "ca"))
    wait_for("back", lambda: accepted(api, "q") and tls(hub).get("policy"))


def test_one_namespace_has_a_share_of_the_watches(api, hub):
    names = [f"many{i}" for i in range(5)]
    for i, name in enumerate(names):
        api.apply(policy(name, *(f"ca{i}-{k}" for k in range(8)), target="gone"))
    wait_for("as many as it may", lambda: hub.source()["configmaps"]["followed"] == 32 and "of one namespace 32" in hub.source()["configmaps"]["problem"])
    for name in names[1:]:
        api.kubectl("delete", "backendtlspolicy.gateway.networking.k8s.io", name)
    wait_for("the others", lambda: hub.source()["configmaps"] == {"followed": 9, "problem": ""})
    api.kubectl("delete", "backendtlspolicy.gateway.networking.k8s.io", names[0])
    assert accepted(api, "q")


def test_a_hub_that_starts_waits_for_the_cas(api, hub):
    """What it sends first has them: else calls would fail until they are read."""
    before = hub.services()["default", "web"]
    hub.process.kill()
    api.ctl("fault", match="/configmaps?", do="no-answer", seconds=2)
    hub.start()
    wait_for("ready", hub.ready)
    assert hub.services()["default", "web"] == before and tls(hub)["ca"] and "wrong" not in tls(hub)


def test_without_the_right_to_read_config_maps(api, hub):
    rights = [r for r in optional_rights(RIGHTS_FILE) if r[1] != "configmaps"]
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + rights + LEASE)
    hub.process.kill()
    hub.start()
    wait_for("ready", hub.ready)
    assert "rbac-gateway.yaml" in hub.source()["configmaps"]["problem"] and "does not exist, or the hub may not read it" in tls(hub)["wrong"]
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights(RIGHTS_FILE) + LEASE)
    wait_for("read", lambda: tls(hub).get("ca"))


def test_without_the_right_to_read_policies(api, hub):
    """It is told in any case, since calls go in clear where the hub does not know them."""
    rights = optional_rights(RIGHTS_FILE)
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + [r for r in rights if r[1] != "backendtlspolicies"] + LEASE)
    hub.process.kill()
    hub.start()
    wait_for("ready", hub.ready)
    problem = hub.source()["backendtlspolicies"]["problem"]
    assert "list and watch on backendtlspolicies" in problem and "rbac-gateway.yaml" in problem
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + rights + LEASE)
    wait_for("read", lambda: tls(hub).get("ca"))
    assert hub.source()["backendtlspolicies"]["problem"] == ""
