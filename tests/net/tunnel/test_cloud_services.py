"""Endpoints that no Pod stands for, from pods of nodes that have no route there: the API server with a client's unchanged environment, and a
database of the cloud. The hub dials them, where a rule says so, and nothing else.
"""
import os
import socket
import subprocess

import pytest

from cloud_town import APISERVER_RULE, CLUSTER_IP, DATABASE, DATABASE_RULE, CloudTown, bare
from httpkit import socket_of
from kube import ApiServer
from lab import BARE_PYTHON, HERE, HUB_ADDRESS, endpoint_slice, wait_for

pytestmark = pytest.mark.plain_build  # a real kubectl
DB = "db.shop.svc.cluster.local"


@pytest.fixture(scope="module")
def site(lab):
    made = CloudTown(lab)
    yield made
    made.logs()


@pytest.fixture(autouse=True)
def no_rules(site):
    """Each test begins without rules, also at the agents, with a fence that drops, and with what has failed before forgotten."""
    yield
    for n in site.nodes:
        site.fence(n, "drop")
    site.reload()
    for a in site.agents:
        wait_for("not caught", lambda a=a: not site.caught(a))
        wait_for("not told any more", lambda a=a: "tunnel" not in site.endpoints(a, "shop/db"))


def open_api(site):
    site.reload(APISERVER_RULE)
    wait_for("caught", lambda: site.caught(site.agents[0]))


def open_db(site, rule=DATABASE_RULE):
    site.reload(rule)
    wait_for("told", lambda: "tunnel" in site.endpoints(site.agents[0], "shop/db"))


# --- the API server -------------------------------------------------------------------------------------------------------------------------


def test_kubectl_in_a_pod(site):
    """By KUBERNETES_SERVICE_HOST, with the account's token and the CA: TLS ends at the API server."""
    open_api(site)
    assert "kubernetes" in site.kubectl(site.client, "get", "services").stdout
    assert "db" in site.kubectl(site.client, "-n", "shop", "get", "services").stdout
    refused = site.kubectl(site.client, "get", "nodes", check=False)
    assert refused.returncode != 0 and "Forbidden" in refused.stderr  # the API server's own word for this account
    assert site.hub.process.logged('door=outward caller=node:edge-1 target="192.0.2.2:6443 from the hub" status=200')
    assert [f["class"] for f in site.findings(site.agents[0], "apiserver")] == ["ok"]


def test_by_its_names(site):
    open_api(site)
    ca = os.path.join(site.api.dir, "ca.crt")
    for name in ("kubernetes.default.svc", f"{CLUSTER_IP}"):
        assert site.client.get(f"https://{name}/version", "--cacert", ca)[0] == 200, name


def test_a_watch(site):
    """It lasts while nothing comes, brings what comes, and ends with the hub; the client begins another."""
    open_api(site)
    p = subprocess.Popen(site.client.argv(*site.in_pod("kubectl", "get", "configmaps", "--watch-only", "-o", "name")), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    try:
        opened = site.agents[0].state()["tunnel"]["outward"]["results"]["ok"]
        wait_for("it watches", lambda: 'watch=true' in site.api.process.log() or site.agents[0].state()["tunnel"]["outward"]["joined"] >= 1)
        for n in range(2):
            site.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"seen-{n}"}})
            assert p.stdout.readline() == f"configmap/seen-{n}\n"
        assert site.agents[0].state()["tunnel"]["outward"]["results"]["ok"] <= opened + 2
        site.hub.process.popen.terminate()
        site.hub.process.popen.wait(60)
        p.wait(60)  # kubectl ends with its watch
    finally:
        p.kill()
        p.communicate()
        site.hub.start()
    site.wait_whole()
    wait_for("it is back", lambda: "seen-0" in site.kubectl(site.client, "get", "configmaps", check=False).stdout)


def test_its_endpoints_change(site):
    """Replicas of it come and go; the ClusterIP stays."""
    other = ApiServer(site.lab, "--name", CLUSTER_IP, name="apiserver-2", address="192.0.2.3")
    open_api(site)
    assert site.client.get(f"https://{CLUSTER_IP}/version", "-k")[0] == 200
    site.serve_api("192.0.2.3")
    wait_for("the second one", lambda: site.client.get(f"https://{CLUSTER_IP}/version", "--cacert", os.path.join(other.dir, "ca.crt"))[0] == 200)
    site.serve_api("192.0.2.2")
    wait_for("the first one", lambda: site.client.get(f"https://{CLUSTER_IP}/version", "--cacert", os.path.join(site.api.dir, "ca.crt"))[0] == 200)
    other.process.kill()


def test_off_here(site):
    """The hub opens it to all nodes; at edge-2 tunnel.apiserver is false."""
    open_api(site)
    wait_for("told", lambda: site.findings(site.agents[1], "apiserver"))
    assert not site.caught(site.agents[1])
    assert "tunnel" not in site.endpoints(site.agents[1], "default/kubernetes")
    assert site.client2.get(f"https://{CLUSTER_IP}/version", "-k", seconds=3)[0] == 0
    assert "tunnel.apiserver" in site.findings(site.agents[1], "apiserver")[0]["found"]


def test_a_pod_asks_in_vain(site):
    """Where it is off, and what a pod sends to the API server is lost: that is no information, but a warning that names the pod."""
    agent, node = site.agents[1], site.nodes[1]
    site.fence(node, None)
    node.run("ip", "route", "replace", CLUSTER_IP, "via", "192.0.2.99")  # a node has a default route
    node.run("ip", "neigh", "replace", "192.0.2.99", "lladdr", "02:00:00:00:00:99", "dev", "eth0")

    def told():
        assert site.client2.get(f"https://{CLUSTER_IP}/version", "-k", seconds=1)[0] == 0
        return [f for f in site.findings(agent, "apiserver") if f["class"] == "warning"]
    try:
        [found] = wait_for("told", told, 90)
        assert f"a pod at {site.client2.address} got no answer from default/kubernetes at {CLUSTER_IP}" in found["found"]
        wait_for("metric", lambda: agent.metrics()['edgeway_problem{what="apiserver",class="warning"}'] == 1)
    finally:
        node.run("ip", "route", "del", CLUSTER_IP)
        site.fence(node, "drop")


def test_no_rule_there(site):
    """tunnel.apiserver alone opens nothing, and the agent says what is missing."""
    assert site.client.get(f"https://{CLUSTER_IP}/version", "-k", seconds=3)[0] == 0
    assert site.client.get("https://kubernetes.default.svc/version", "-k", seconds=3)[0] == 0
    [found] = wait_for("it is told", lambda: site.findings(site.agents[0], "apiserver"))
    assert "no rule of the hub" in found["found"] and "cloud/default/kubernetes:443" in found["remedy"]
    wait_for("metric", lambda: site.agents[0].metrics()['edgeway_problem{what="apiserver",class="warning"}'] == 1)


def test_a_rule_for_another_node(site):
    """The hub tells all nodes that it dials these, and refuses this one, with the reason."""
    site.reload(APISERVER_RULE.replace("node:*", "node:edge-2"))
    wait_for("caught", lambda: site.caught(site.agents[0]))
    assert site.client.get(f"https://{CLUSTER_IP}/version", "-k")[0] == 0
    assert site.agents[0].process.logged("no rule of access gives a node endpoints of default/kubernetes")
    [found] = wait_for("it is told", lambda: [f for f in site.findings(site.agents[0], "apiserver") if f["class"] == "fault"])
    assert "refuses this node" in found["found"]


def test_streams_are_cut_with_the_rule(site):
    open_api(site)
    with socket_of(site.client) as s:
        s.settimeout(60)
        s.connect((CLUSTER_IP, 443))
        wait_for("joined", lambda: site.hub.metrics()["edgeway_hub_outward_open"] >= 1)
        site.reload()
        try:
            assert s.recv(100) == b""
        except ConnectionError:
            pass
    assert site.hub.process.logged('end="the rules of access have changed"')


def test_beside_kube_proxy(site):
    """Which has the ClusterIP as well, and leads it where this node has no route."""
    open_api(site)
    node, agent = site.nodes[0], site.agents[0]
    node.run("nft", "-f", "-", input=f"""table ip kube-proxy {{ chain services {{ type nat hook prerouting priority -100;
        ip daddr {CLUSTER_IP} tcp dport 443 dnat to 192.0.2.2:6443\n}}\n}}\n""")
    try:
        wait_for("found", lambda: agent.state()["iptables"]["kernel"]["clusterIPsServedBy"] not in ("", "edgeway"))
        assert site.caught(agent)
        assert "kubernetes" in site.kubectl(site.client, "get", "services").stdout
        shown = node.run(site.lab.program("edgewayctl"), "--socket", agent.socket, "trace", f"tcp://{CLUSTER_IP}:443", check=False).stdout
        assert "table ip edgeway" in shown and "left to" not in shown, shown
    finally:
        node.run("nft", "delete", "table", "ip", "kube-proxy")


# --- other services -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["drop", "reject", "reject with tcp reset", "no route"])
def test_a_database_of_the_cloud(site, verdict):
    """What is between the node and it is silent, says that it is unreachable, or refuses in its name; or there is no route at all."""
    node = site.nodes[0]
    if verdict == "no route":
        node.run("ip", "route", "add", "unreachable", DATABASE)
    elif verdict != "drop":
        site.fence(node, f"meta l4proto tcp {verdict}")
    try:
        open_db(site)
        assert site.client.get(f"http://{DB}/") == (200, "db\n")
        assert site.client.send(DB, 5432, "hello") == "db\nhello"
    finally:
        if verdict == "no route":
            node.run("ip", "route", "del", "unreachable", DATABASE)


def test_not_without_a_rule(site):
    asked = site.hub.metrics()['edgeway_hub_outward_total{what="asked"}']
    assert site.client.get(f"http://{DB}/", seconds=5)[0] in (0, 502, 503, 504)
    assert "tunnel" not in site.endpoints(site.agents[0], "shop/db")
    assert site.hub.metrics()['edgeway_hub_outward_total{what="asked"}'] == asked


def test_another_nodes_database(site):
    """Refused with the reason, which the agent keeps until it is let in."""
    open_db(site, DATABASE_RULE.replace("edge-1", "edge-2"))
    assert site.client.get(f"http://{DB}/", seconds=20)[0] in (502, 503, 504)
    [found] = wait_for("it is told", lambda: site.findings(site.agents[0], "cloud-closed"))
    assert "shop/db" in found["found"] and "no rule of access gives a node" in found["found"]
    site.reload(DATABASE_RULE)
    wait_for("let in", lambda: site.client.get(f"http://{DB}/") == (200, "db\n"))
    assert site.findings(site.agents[0], "cloud-closed") == []


def test_directly_where_there_is_a_route(site):
    """The hub is not asked; and after a time without the route it is used again."""
    site.fence(site.nodes[0], None)
    open_db(site)
    wait_for("directly", lambda: site.client.get(f"http://{DB}/") == (200, "db\n"))
    wait_for("found again", lambda: asked_for(site, lambda: site.client.get(f"http://{DB}/")) == 0)
    site.fence(site.nodes[0], "reject")
    wait_for("by the hub", lambda: asked_for(site, lambda: site.client.send(DB, 5432, "x") == "db\nx") == 1)
    site.fence(site.nodes[0], None)
    wait_for("directly again", lambda: asked_for(site, lambda: site.client.send(DB, 5432, "x") == "db\nx") == 0, seconds=90)


def asked_for(site, call):
    """How many streams the hub was asked for meanwhile; None: the call failed."""
    name = 'edgeway_hub_outward_total{what="joined"}'
    before = site.hub.metrics()[name]
    return site.hub.metrics()[name] - before if call() else None


def test_a_device_of_the_site(site):
    """It is dialled as given, whether it answers or not: the hub knows nothing of it, and is not asked."""
    device = site.nodes[0].pod("camera")
    server = device.serve("--http", "8080")
    site.api.apply(bare("camera", ("http", 80, 8080)), endpoint_slice("camera-1", "camera", 8080, device.address, port_name="http"))
    open_db(site)
    wait_for("the service", lambda: site.client.get("http://camera/")[0] == 200)
    asked = site.hub.metrics()['edgeway_hub_outward_total{what="asked"}']
    server.kill()
    assert site.client.get("http://camera/")[0] in (502, 503)
    assert site.hub.metrics()['edgeway_hub_outward_total{what="asked"}'] == asked
    site.api.kubectl("delete", "service/camera")
    site.api.kubectl("delete", "endpointslice/camera-1")


def test_by_the_hub_alone(site):
    """The address is a stranger's at the site as well: with edgeway.io/encrypt nobody dials it here."""
    stranger = site.nodes[0].pod("stranger")
    stranger.serve("--http", "8080", "--tcp", "5432")
    stranger.run("ip", "addr", "add", f"{DATABASE}/32", "dev", "eth0")
    site.nodes[0].run("ip", "route", "add", DATABASE, "dev", site.nodes[0].bridge)
    try:
        open_db(site)
        wait_for("dialled here", lambda: "stranger" in site.client.get(f"http://{DB}/")[1])
        site.api.kubectl("-n", "shop", "annotate", "service/db", "edgeway.io/encrypt=always")
        wait_for("the hub's", lambda: site.client.get(f"http://{DB}/") == (200, "db\n"))
        assert {site.client.get(f"http://{DB}/") for _ in range(5)} == {(200, "db\n")}
    finally:
        site.nodes[0].run("ip", "route", "del", DATABASE, "dev", site.nodes[0].bridge)
        site.api.kubectl("-n", "shop", "annotate", "service/db", "edgeway.io/encrypt-")


def test_datagrams(site):
    """As given, since nobody sees whether they arrive; by the hub where it alone is to be asked."""
    slice_ = endpoint_slice("udp-1", "udp", 5000, DATABASE, namespace="shop", port_name="dns")
    slice_["ports"][0]["protocol"] = "UDP"
    encrypted = {"edgeway.io/encrypt": "always"}

    def show(said):
        site.api.apply(bare("udp", ("dns", 53, 5000), namespace="shop", protocol="UDP", annotations=said), slice_)

    def answers():
        script = os.path.join(HERE, "udpsend.py")
        return site.client.run(*BARE_PYTHON, script, "udp.shop.svc.cluster.local", 53, 1, check=False).stdout
    show(encrypted)
    site.reload("{from: 'node:edge-1', to: ['cloud/shop/udp:53']}")
    wait_for("by the hub", lambda: answers().startswith("db "))
    assert site.hub.process.logged('door=outward.udp caller=node:edge-1 target="192.0.2.31:5000 from the hub" status=200')
    show({})
    wait_for("as given", lambda: answers().startswith("none "))
    site.api.kubectl("-n", "shop", "delete", "service/udp")
    site.api.kubectl("-n", "shop", "delete", "endpointslice/udp-1")


def test_on_the_hubs_own_host(site):
    """As the API server often is: that takes a rule to this very address as well, and the remedy is in the reason."""
    site.backend(site.hub.machine, "own", "--http", "8088")
    site.api.apply(bare("own", ("http", 80, 8088), namespace="shop"),
                   endpoint_slice("own-1", "own", 8088, HUB_ADDRESS, namespace="shop", port_name="http"))
    site.api.kubectl("-n", "shop", "annotate", "service/own", "edgeway.io/encrypt=always")  # the node reaches the hub's host
    rule = "{from: 'node:edge-1', to: ['cloud/shop/own'%s]}"
    site.reload(rule % "")
    wait_for("told", lambda: "tunnel" in site.endpoints(site.agents[0], "shop/own"))
    assert site.client.get("http://own.shop.svc.cluster.local/")[0] == 502
    assert site.hub.process.logged("a dial that would end at the hub itself is refused target=192.0.2.1:8088 caller=node:edge-1")
    site.reload(rule % f", 'cloud/{HUB_ADDRESS}:8088'")
    wait_for("served", lambda: site.client.get("http://own.shop.svc.cluster.local/") == (200, "own\n"))
    site.api.kubectl("-n", "shop", "delete", "service/own")
    site.api.kubectl("-n", "shop", "delete", "endpointslice/own-1")


def test_access_check(site):
    """What the operator asks the hub says the same."""
    def check(to):
        return site.hub.machine.run(site.lab.program("edgewayctl"), "--socket", site.hub.socket, "access", "check", "node:edge-1", to, check=False).stdout
    for target in (f"{DB}:80", "kubernetes.default.svc:443"):
        assert "no rule of access gives a node endpoints" in check(target), check(target)
    open_db(site)
    assert "from node:edge-1 to cloud/shop/db" in check(f"{DB}:80"), check(f"{DB}:80")
    assert "no rule of access gives a node endpoints of default/kubernetes" in check("kubernetes.default.svc:443")
