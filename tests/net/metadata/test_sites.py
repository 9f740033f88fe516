"""Nodes that nobody gave a site and that come from behind NAT: where they come from is their site, noted on their Nodes, so that nobody
takes the private address of another site's node for one of its own."""
import json

import pytest

from kube import ACCOUNT, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import Agent, Lab, Node, service, wait_for

pytestmark = pytest.mark.plain_build  # notes on Nodes by the client that test_kubernetes has

NOTE = "edgeway.io/source-address"
PRIVATE = "10.0.0.5"  # of both: sites repeat


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.fixture
def api(lab):
    made = ApiServer(lab)
    made.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights("rbac-sites.yaml"))
    return made


def node_object(name, *addresses, labels=None):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}},
            "status": {"addresses": [{"type": "InternalIP", "address": a} for a in addresses]}}


def hub(lab, api, *options):
    made = KubeHub(lab, api, *options)
    wait_for("ready", made.ready)
    return made


def agent(lab, hub, name, number):
    return Agent(Node(lab, name, f"192.0.2.{number}"), hub)


def note(api, name):
    return (api.read("nodes", name)["metadata"].get("annotations") or {}).get(NOTE)


def sites(hub):
    return {n["node"]: n["site"] for n in hub.state()["hub"]["nodes"] if n["connected"]}


def endpoint(hub, name):
    view = hub.services().get(("default", name))
    found = [e for p in (view or {}).get("ports", []) for e in p["endpoints"]]
    return found[0] if found else {}


def test_two_sites_with_one_address(lab, api):
    cloud = hub(lab, api, "--source.kubernetes.sites", "true")
    api.apply(node_object("edge-1", PRIVATE), node_object("edge-2", PRIVATE), node_object("edge-3", "192.0.2.13"))
    slice_of_web = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-x", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        "endpoints": [{"addresses": ["172.17.0.9"], "nodeName": "edge-1", "conditions": {"ready": True},
                       "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-0"}}]}
    api.ctl("slices", on=False)
    api.apply(service("web", ("http", 80, 8080)), slice_of_web)
    api.ctl("put", group="", resource="pods", obj={
        "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "c", "image": "i", "ports": [
            {"name": "http", "containerPort": 8080, "hostPort": 30080, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "hostIP": PRIVATE, "podIP": "172.17.0.9", "conditions": [{"type": "Ready", "status": "True"}]}})
    wait_for("the endpoint", lambda: endpoint(cloud, "web").get("hostIP") == PRIVATE)
    made = [agent(lab, cloud, f"edge-{i}", 10 + i) for i in (1, 2, 3)]
    wait_for("noted", lambda: (note(api, "edge-1"), note(api, "edge-2")) == ("192.0.2.11", "192.0.2.12"))
    wait_for("told", lambda: sites(cloud) == {"edge-1": "192.0.2.11", "edge-2": "192.0.2.12", "edge-3": ""})
    wait_for("in the view", lambda: endpoint(cloud, "web").get("site") == "192.0.2.11")
    assert note(api, "edge-3") is None  # it comes from its own address: nothing hides there

    def addresses(a):
        rows = [r for s in json.loads(a.ask("/debug/services")[1])["services"] if s["name"] == "web" for r in s["ports"]]
        return [e["address"] for r in rows for e in r["endpoints"]], sum(r["unreachable"] for r in rows)

    wait_for("its own pod", lambda: addresses(made[0])[0] == ["172.17.0.9:8080"])
    for other in made[1:]:
        wait_for("not the stranger", lambda other=other: f"{PRIVATE}:30080" not in addresses(other)[0])
    # The same after a restart, before any node has come back: it stands on the Node.
    cloud.process.stop()
    cloud.start()
    wait_for("ready", cloud.ready)
    assert endpoint(cloud, "web")["site"] == "192.0.2.11"
    # Whoever gives it a site is believed, and the note is gone.
    api.kubectl("label", "node", "edge-1", "edgeway.io/site=hall")
    wait_for("the label", lambda: endpoint(cloud, "web").get("site") == "hall")
    wait_for("no note", lambda: note(api, "edge-1") is None)
    assert cloud.state()["hub"]["sites"]["problem"] == ""


def test_off_and_without_the_right(lab, api):
    """Off, the log says which node needs a site; on and without the right, what is missing."""
    cloud = hub(lab, api)
    api.apply(node_object("edge-1", PRIVATE))
    agent(lab, cloud, "edge-1", 11)
    wait_for("said", lambda: "comes from behind NAT and has no site" in cloud.process.log())
    assert note(api, "edge-1") is None and sites(cloud)["edge-1"] == ""
    cloud.process.stop()
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
    cloud.options = ("--source.kubernetes.sites", "true")
    cloud.start()
    wait_for("told", lambda: "rbac-sites.yaml" in cloud.state()["hub"]["sites"]["problem"])


def test_one_that_is_refused_holds_up_no_other(lab, api):
    cloud = hub(lab, api, "--source.kubernetes.sites", "true")
    api.apply(*(node_object(f"edge-{i}", PRIVATE) for i in (1, 2)))
    api.ctl("fault", match="/nodes/edge-1", do="status", status=500, count=10000)
    agent(lab, cloud, "edge-1", 11)
    wait_for("refused", lambda: cloud.state()["hub"]["sites"]["problem"] != "")
    agent(lab, cloud, "edge-2", 12)
    wait_for("noted", lambda: note(api, "edge-2") == "192.0.2.12", 120)
    api.ctl("no_faults")
    wait_for("and the other", lambda: note(api, "edge-1") == "192.0.2.11", 120)
