"""The hosts ConfigMap of node names (ingress.hostsConfigMap): written with optimistic concurrency, by several hubs, beside others, and
with no more rights than deploy/kubernetes/rbac-hosts.yaml gives."""
import json
import os
import shutil

import pytest
import yaml

from kube import ACCOUNT, RIGHTS, ApiServer, KubeHub
from lab import HUB_PORT, TOP, Agent, Node, service, wait_for

pytestmark = pytest.mark.plain_build  # a ConfigMap by the client that test_kubernetes has; the units have its text

NAMESPACE, NAME, KEY, INGRESS = "kube-system", "edgeway-nodes", "tunnel-nodes", "10.96.0.9"
ZONE, PORT = "nodes.test", 10053
ADDRESSES = ("192.0.2.1", "192.0.2.3")
MARK = "# edgeway-hub writes what follows\n"


def hosts_rights():
    with open(os.path.join(TOP, "deploy", "kubernetes", "rbac-hosts.yaml")) as f:
        role = next(o for o in yaml.safe_load_all(f) if o["kind"] == "Role")
    return [[verb, resource, name, role["metadata"]["namespace"]] for rule in role["rules"] for verb in rule["verbs"]
            for resource in rule["resources"] for name in rule.get("resourceNames", [""])]


@pytest.fixture(scope="module")
def server(lab):
    return ApiServer(lab)


class Cluster:
    """What a test has on the API server of all: nothing at first, and hubs and agents of its own. Machines serve again."""
    machines = []

    def __init__(self, lab, server):
        self.lab, self.api, self.hubs, self.agents = lab, server, [], []

    def new_hub(self, options):
        i = len(self.machines)
        self.machines.append(KubeHub(self.lab, self.api, *options, name=f"cloud-{i}", address=ADDRESSES[i],
                                     kubeconfig=self.api.kubeconfig(f"hub-{i}.conf")))

    def hub(self, *options, ready=True, key=KEY, addresses=INGRESS):
        options = ("--ingress.hostsConfigMap", f"{NAMESPACE}/{NAME}", "--ingress.hostsKey", key, "--ingress.nodeAddresses", addresses,
                   *options)
        i = len(self.hubs)
        if i == len(self.machines):
            self.new_hub(options)
        else:
            shutil.rmtree(os.path.join(self.machines[i].machine.dir, "data"))
            self.machines[i].options = options
            self.machines[i].start()
        self.hubs.append(self.machines[i])
        if ready:
            wait_for("ready", self.hubs[i].ready)
        return self.hubs[i]

    def agent(self, number, hub):
        made = Agent(Node(self.lab, f"edge-{number}", f"192.0.2.{10 + number}"), hub, "--hub.url", f"wss://{hub.address}:{HUB_PORT}")
        self.agents.append(made)
        return made


@pytest.fixture
def cluster(lab, server):
    server.ctl("clear", resources=[["", r] for r in ("nodes", "configmaps", "services", "secrets")])
    server.ctl("grant", user=ACCOUNT, rights=RIGHTS + hosts_rights())
    made = Cluster(lab, server)
    yield made
    server.ctl("no_faults")
    for d in made.agents + made.hubs:
        killed = not d.process.alive()
        print(f"--- {d.process.name}\n{d.process.log()[-3000:]}")
        assert d.process.stop() == 0 or killed


@pytest.fixture
def api(cluster):
    return cluster.api


def node(name, address, *more):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"addresses": [
        *[{"type": t, "address": a} for t, a in more], {"type": "InternalIP", "address": address}]}}


def config_map(data, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}, "data": data, **more}


def read(api):
    return api.read("configmaps", NAME, NAMESPACE)


def text(api, key=KEY):
    """Without kubectl, to be asked often."""
    return api.ctl("get", group="", resource="configmaps", ns=NAMESPACE, name=NAME)["data"].get(key)


def state(h):
    return h.state()["hub"]["naming"]["hosts"]


def lines(*rows):
    return "".join(sorted(f"{address}\t{name}\n" for name, address in rows))


def in_step(h):
    return lambda: state(h)["inStep"]


def writes(api):
    """Of the hubs."""
    return [r for r in api.ctl("requests", match="/configmaps") if r[0] != "GET" and "kubectl" not in r[1]]


def test_it_says_where_nodes_are(cluster, api):
    """Made where there is none; a line for each node, those of the edge at the ingress; nothing is written when nothing changes."""
    api.apply(node("cloud-1", "192.0.2.31", ("ExternalIP", "203.0.113.1"), ("Hostname", "cloud-1")), node("edge-1", "10.0.0.5"))
    h = cluster.hub()
    want = [("cloud-1", "192.0.2.31"), ("edge-1", "10.0.0.5")]
    wait_for("both", lambda: text(api) == lines(*want))
    agent = cluster.agent(1, h)
    wait_for("the ingress", lambda: f"{INGRESS}\tedge-1\n" in text(api))
    made = read(api)
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "edgeway-hub"} and list(made["data"]) == [KEY]
    agent.process.stop()  # without a tunnel it is still where it was
    cluster.agent(2, h)  # no Node object knows it
    api.kubectl("delete", "node", "cloud-1")
    want = [("edge-1", INGRESS), ("edge-2", INGRESS)]
    wait_for("without it", lambda: text(api) == lines(*want))
    wait_for("in step", in_step(h))
    # Whatever else happens writes nothing.
    before = writes(api)
    api.apply(service("web", ("http", 80, 8080)))
    api.kubectl("annotate", "node", "edge-1", "example.org/heartbeat=1")
    wait_for("the service", lambda: ("default", "web") in h.services())
    h.process.stop()
    h.start()
    wait_for("in step again", in_step(h))
    assert writes(api) == before
    assert state(h)["writes"] == 0 and state(h)["names"] == 2 and state(h)["inStep"]
    said = h.machine.run(h.lab.program("edgewayctl"), "--socket", h.socket, "status").stdout
    assert f"ConfigMap {NAMESPACE}/{NAME}, key {KEY}: in step, 2 names" in said
    used = [u for u in api.ctl("used", user=ACCOUNT) if u[2] == "configmaps"]
    assert all(u[5] for u in used)
    assert {(u[0], u[3], u[4]) for u in used} == {("create", "", NAMESPACE)} | {(v, NAME, NAMESPACE) for v in ("list", "watch", "patch")}


def test_what_others_have_there_stays(cluster, api):
    """SuperEdge's key beside others; lines by hand above ours; binaryData, labels and annotations."""
    old = "# by hand\n10.1.1.1 db db-2\n10.9.9.9\tedge-1\n"  # the last one as Yurt's tunnel-server left it
    api.apply(node("edge-1", "10.0.0.5"), config_map({"hosts": old, "Corefile": ".:53 {\n}\n"}, binaryData={"b": "AAEC"}))
    api.kubectl("label", "configmap", "-n", NAMESPACE, NAME, "team=net")
    api.kubectl("annotate", "configmap", "-n", NAMESPACE, NAME, "example.org/a=b")
    h = cluster.hub(key="hosts")
    want = "# by hand\n10.1.1.1 db db-2\n" + MARK + lines(("edge-1", "10.0.0.5"))
    wait_for("ours below theirs", lambda: text(api, "hosts") == want)
    made = read(api)
    assert made["data"]["Corefile"] == ".:53 {\n}\n" and made["binaryData"] == {"b": "AAEC"}
    assert made["metadata"]["labels"] == {"team": "net"} and made["metadata"]["annotations"]["example.org/a"] == "b"
    assert state(h)["kept"] == 2
    # Somebody adds another line by hand, and changes one of ours: theirs stays, ours comes back.
    api.kubectl("patch", "configmap", "-n", NAMESPACE, NAME, "--type=merge", "-p",
                json.dumps({"data": {"hosts": "10.1.1.2 more\n" + want.replace("10.0.0.5", "10.66.66.66")}}))
    wait_for("ours is back", lambda: text(api, "hosts") == "10.1.1.2 more\n" + want)
    assert state(h)["problem"] == ""
    # Again: the key has two owners.
    api.kubectl("patch", "configmap", "-n", NAMESPACE, NAME, "--type=merge", "-p", json.dumps({"data": {"hosts": "10.9.9.9\tedge-1\n"}}))
    wait_for("told", lambda: "somebody else writes the same key" in state(h)["problem"])
    assert text(api, "hosts") == lines(("edge-1", "10.0.0.5")) and len(writes(api)) == 3


def test_two_replicas_write_once(cluster, api):
    hubs = [cluster.hub(), cluster.hub()]
    wait_for("there", lambda: text(api) == "")
    for i in range(4):  # each within the pause after the one before
        api.apply(node(f"cloud-{i}", f"192.0.2.{40 + i}"))
    want = lines(*((f"cloud-{i}", f"192.0.2.{40 + i}") for i in range(4)))
    wait_for("all", lambda: text(api) == want)
    cluster.agent(3, hubs[1])  # joined at one, known to both
    want = lines(*((f"cloud-{i}", f"192.0.2.{40 + i}") for i in range(4)), ("edge-3", INGRESS))
    wait_for("the ingress", lambda: text(api) == want)
    for h in hubs:
        wait_for("in step", in_step(h))
        assert state(h)["names"] == 5 and state(h)["problem"] == ""
    done = sum(state(h)["writes"] for h in hubs)
    lost = sum(state(h)["conflicts"] for h in hubs)
    assert 2 <= done <= 6 and len(writes(api)) == done + lost  # once for each change at most, the first of which made it
    # Either one goes on alone.
    hubs[0].process.kill()
    api.apply(node("cloud-9", "192.0.2.49"))
    wait_for("the other one", lambda: "192.0.2.49\tcloud-9\n" in text(api))


def test_conflicts(cluster, api):
    """Somebody else is first, again and again: the server says 409, and nothing of theirs is lost."""
    h = cluster.hub()
    wait_for("there", lambda: text(api) == "")
    wait_for("in step", in_step(h))
    api.ctl("fault", match=f"configmaps/{NAME}", do="status", status=409, count=3)
    api.apply(node("edge-1", "10.0.0.5"))
    wait_for("conflicts", lambda: state(h)["conflicts"] >= 3)
    api.kubectl("patch", "configmap", "-n", NAMESPACE, NAME, "--type=merge", "-p", '{"data":{"other":"theirs"}}')
    wait_for("ours", lambda: text(api) == lines(("edge-1", "10.0.0.5")))
    assert text(api, "other") == "theirs" and state(h)["conflicts"] in (3, 4)  # the patch may be a real one
    api.ctl("no_faults")
    wait_for("in step", in_step(h))
    # A real one: the watch is silent, so what the hub knows is old when it writes.
    api.ctl("fault", match="configmaps?", watch=True, do="silence", count=1)
    api.ctl("cut_all")
    wait_for("watches again", lambda: api.ctl("met") == 1)
    api.kubectl("patch", "configmap", "-n", NAMESPACE, NAME, "--type=merge", "-p", '{"data":{"other":"theirs again"}}')
    api.apply(node("edge-2", "10.0.0.6"))
    wait_for("ours", lambda: text(api) == lines(("edge-1", "10.0.0.5"), ("edge-2", "10.0.0.6")))
    assert text(api, "other") == "theirs again" and state(h)["conflicts"] == 4


def test_rights_and_remedies(cluster, api):
    """Without the right the hub goes on, and log, metric and status say which one; with it the map is written."""
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
    api.apply(node("edge-1", "10.0.0.5"))
    h = cluster.hub()
    wait_for("told", lambda: "rbac-hosts.yaml" in state(h)["problem"])
    assert "list, watch and patch" in state(h)["problem"] and h.ready()
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + [r for r in hosts_rights() if r[0] in ("list", "watch")])
    wait_for("cannot create", lambda: state(h)["failures"] >= 1 and "rbac-hosts.yaml" in state(h)["problem"])
    said = h.machine.run(h.lab.program("edgewayctl"), "--socket", h.socket, "status").stdout
    assert "NOT IN STEP" in said and "rbac-hosts.yaml" in said
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + hosts_rights())
    wait_for("written", lambda: text(api) == lines(("edge-1", "10.0.0.5")))
    wait_for("well", lambda: state(h)["problem"] == "" and state(h)["inStep"])


def test_what_can_not_be(cluster, api):
    """An immutable map; a namespace that is missing."""
    api.apply(node("edge-1", "10.0.0.5"), config_map({KEY: ""}, immutable=True))
    h = cluster.hub()
    wait_for("told", lambda: "immutable" in state(h)["problem"])
    assert writes(api) == []
    api.kubectl("delete", "configmap", "-n", NAMESPACE, NAME)
    wait_for("made anew", lambda: text(api) == lines(("edge-1", "10.0.0.5")))
    h.options = tuple(o.replace(NAMESPACE, "absent") for o in h.options)
    h.process.stop()
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + [[*r[:3], "absent"] for r in hosts_rights()])
    h.start()
    wait_for("told", lambda: "is there the namespace?" in state(h)["problem"])


def test_more_names_than_a_map_holds(cluster, api):
    """1 MiB is the bound, of all keys together: as many as fit, and log, metric, status and the text itself say that more are missing."""
    api.apply(config_map({"other": "x" * 1000000}))
    api.ctl("bulk_nodes", n=1000, name="a-node-with-a-name-that-is-long-{:05d}", address="10.111.111.111")
    h = cluster.hub()
    wait_for("written", lambda: text(api) and state(h)["inStep"])
    got = text(api)
    assert 1048576 - 1000000 - 200 < len(got) <= 1048576 - 1000000
    assert got.splitlines()[0].startswith("10.111.111.111\ta-node-with-a-name-that-is-long-00000")
    left = 1000 - (len(got.splitlines()) - 1)
    assert got.endswith(f"# edgeway-hub: {left} more do not fit\n") and state(h)["leftOut"] == left
    assert "do not fit into the hosts ConfigMap" in h.machine.run(h.lab.program("edgewayctl"), "--socket", h.socket, "status").stdout
    assert h.process.log().count("not all names fit") == 1


def test_the_ingress_is_a_service(cluster, api):
    """nodeAddresses names a Service, whose clusterIP the map and the zone follow; until the source is read the zone says SERVFAIL."""
    api.ctl("fault", match="/api/v1/services", do="status", status=500, count=100000)
    h = cluster.hub("--ingress.dns", ZONE, "--ingress.dnsListen", f"{ADDRESSES[0]}:{PORT}", addresses="edgeway/ingress", ready=False)
    api.apply(node("cloud-1", "192.0.2.31", ("InternalIP", "2001:db8::31")))

    def ask(name, rtype="A"):
        status, answers, _ = h.machine.dns(f"{name}.{ZONE}", rtype, "-p", str(PORT), server=h.address)
        return status, [r[4] for r in answers]

    wait_for("it listens", lambda: ask("cloud-1"))
    assert ask("cloud-1") == ("SERVFAIL", []) == ask("gone") and writes(api) == []
    api.ctl("no_faults")
    wait_for("ready", h.ready)
    cluster.agent(4, h)
    assert ask("cloud-1") == ("NOERROR", ["192.0.2.31"]) and ask("gone") == ("NXDOMAIN", []) and ask("edge-4") == ("SERVFAIL", [])
    assert "no Service edgeway/ingress" in h.state()["hub"]["naming"]["problem"] and writes(api) == []
    of_cloud = ("cloud-1", "192.0.2.31"), ("cloud-1", "2001:db8::31")
    api.apply(service("ingress", ("kubelet", 10250, 10250), namespace="edgeway", clusterIP="10.96.0.77"))
    wait_for("the clusterIP", lambda: ask("edge-4") == ("NOERROR", ["10.96.0.77"]) and ask("edge-4", "AAAA") == ("NOERROR", []))
    wait_for("in the map", lambda: text(api) == lines(*of_cloud, ("edge-4", "10.96.0.77")))
    assert h.state()["hub"]["naming"]["problem"] == ""
