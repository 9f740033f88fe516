"""NetworkPolicies of a cluster (tests/net/http/test_allow_from.py has what they do): read only where that is wished, never passed over where it is, and
compiled with the labels of namespaces; and the Event of an annotation that cannot be read."""

import pytest

from kube import ACCOUNT, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import Lab, pod, service, wait_for

pytestmark = pytest.mark.plain_build  # choices of the hub, which the units make with the sanitizers, too

RIGHTS_FILE = "rbac-networkpolicies.yaml"


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
    api.ctl("put", group="", resource="pods", obj=pod("web-1", ("edge-1", "192.0.2.11"), "172.17.0.2", ("http", 8080, 0), app="web"))
    wait_for("a Service", lambda: made.services().get(("default", "web"), {}).get("ports", [{}])[0].get("endpoints"))
    return made


def policy(name, **spec):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def gates(hub):
    return hub.services()["default", "web"].get("gates", [])


def events(api):
    return {e["reason"]: e["message"] for e in api.read_all("events", "default") if e["involvedObject"]["name"] == "web"}


def test_off_nothing_is_asked(api, hub):
    assert api.ctl("requests", match="networkpolicies") == []
    api.apply(policy("closed", podSelector={}))
    assert gates(hub) == [] and "networkpolicies" not in hub.source()


def test_a_hub_that_cannot_read_them_tells_no_services(api, hub):
    """They would be open: it waits, and says which rights it lacks."""
    api.apply(policy("closed", podSelector={}))
    hub.process.stop()
    hub.options = ("--source.kubernetes.networkPolicies", "true")
    hub.start()
    wait_for("told", lambda: RIGHTS_FILE in hub.source()["networkpolicies"]["problem"])
    assert not hub.ready() and hub.process.logged(RIGHTS_FILE)
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights(RIGHTS_FILE))
    wait_for("closed", lambda: hub.ready() and gates(hub) == ["none"])
    wait_for("the rights are used, all of them", lambda: {(u[0], u[2]) for u in api.ctl("used", user=ACCOUNT)
                                                          if u[2] in ("networkpolicies", "namespaces")} == {
        (r[0], r[1]) for r in optional_rights(RIGHTS_FILE)})


def test_labels_of_namespaces(api, hub):
    api.apply(policy("closed", podSelector={}, ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"team": "red"}}}]}]))
    api.ctl("put", group="", resource="namespaces", obj={"metadata": {"name": "shop", "labels": {"team": "red"}}, "status": {"phase": "Active"}})
    wait_for("the shop", lambda: gates(hub) == ["namespaces=shop"])
    api.ctl("put", group="", resource="namespaces", obj={"metadata": {"name": "shop", "labels": {"team": "blue"}}, "status": {"phase": "Active"}})
    wait_for("nobody", lambda: gates(hub) == ["none"])
    api.kubectl("delete", "networkpolicy", "closed")
    wait_for("open", lambda: gates(hub) == [])


def test_an_annotation_that_cannot_be_read_is_an_event(api, hub):
    api.kubectl("annotate", "service", "web", "edgeway.io/allow-from=namespace=shop")
    wait_for("closed", lambda: hub.services()["default", "web"].get("allowFrom") == "none")
    said = wait_for("event", lambda: events(api).get("AllowFromInvalid"), pause=0.5)
    assert "'namespace' is not namespaces, pods, nodes, addresses or callers; nobody may call it" in said
    api.kubectl("annotate", "--overwrite", "service", "web", "edgeway.io/allow-from=namespaces=shop")
    wait_for("read", lambda: hub.services()["default", "web"]["allowFrom"] == "namespaces=shop")
