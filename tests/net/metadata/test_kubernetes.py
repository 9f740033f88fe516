"""The hub on a Kubernetes API server: kubectl alone steers what an edge node answers, and no fault of the server loses
anything. The server is tests/apiserver; kubectl and everything else are real."""
import json
import os
import re
import threading
import time

import pytest

from kube import ACCOUNT, API_ADDRESS, READS, RIGHTS, SECRETS, ApiServer, KubeHub, node_object
from lab import FAKE, BARE_PYTHON, Agent, Lab, Node, endpoint_slice, pod, service, upstream, wait_for

SILENCE_S = 2
MESH_ENDPOINTS_MAX = 5000  # model/limits.h


def kube_pod(name, node, backend, *ports, app):
    made = pod(name, node, backend.address, *ports, app=app)
    made["metadata"]["annotations"] = {"lab.edgeway.io/pod-ip": backend.address}
    del made["status"]
    return made


class World:
    def __init__(self, lab):
        self.lab = lab
        self.dns = upstream(lab, "www.example.test/203.0.113.7")
        self.api = ApiServer(lab)
        self.hub = KubeHub(lab, self.api, "--source.kubernetes.silence", f"{SILENCE_S}s")
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.backend = self.node.pod("web")
        self.backend.serve("--http", "8080", "--tcp", "9090")
        self.node.publish(30080, self.backend, 8080)
        self.api.apply(node_object(self.node))
        self.agent = Agent(self.node, self.hub)
        self.client = self.node.pod("client")
        self.n = 0

    def web(self, name="web"):
        """A Service and its pod, by kubectl apply."""
        self.api.apply(service(name, ("http", 80, "http"), selector=name),
                       kube_pod(f"{name}-0", self.node, self.backend, ("http", 8080, 30080), app=name))

    def answers(self, name):
        return self.client.get(f"http://{name}/")[0] == 200

    def gone(self, name):
        answer = self.client.dns(f"{name}.default.svc.cluster.local")
        return answer is not None and answer[0] == "NXDOMAIN"

    def touch(self):
        """Creates a Service, changes one and deletes one, behind the hub's back, as it were; by the control socket, so that
        it works while the server does not listen."""
        self.n += 1
        for name in (f"new-{self.n}", f"old-{self.n}"):
            self.api.ctl("put", group="", resource="services", obj={
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"ports": [{"name": "p", "port": 1000 + self.n, "protocol": "TCP"}], "clusterIP": "None"}})
        if self.n > 1:
            self.api.ctl("remove", group="", resource="services", ns="default", name=f"old-{self.n - 1}")

    def clear(self):
        """Away with what touch made: each of them has no endpoint, and wants an Event."""
        for name in self.expected():
            if self.n:
                self.api.ctl("remove", group="", resource="services", ns="default", name=name)
        self.n = 0
        wait_for("cleared", lambda: not any(n.startswith(("new-", "old-")) for _, n in self.hub.services()))

    def expected(self):
        """names and ports as this class left them"""
        return {f"new-{i}": 1000 + i for i in range(1, self.n + 1)} | {f"old-{self.n}": 1000 + self.n}

    def converged(self):
        has = {name: view["ports"][0]["port"] for (ns, name), view in self.hub.services().items()
               if re.match(r"(new|old)-\d+$", name)}
        return has == self.expected()


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        made = World(lab)
        made.web("steady")
        wait_for("first Service answers", lambda: made.answers("steady"))
        yield made
        print(f"--- log of the hub\n{made.hub.process.log()[-6000:]}")


def test_kubectl_alone(world):
    world.web()
    wait_for("Service answers by name", lambda: world.answers("web"))
    world.api.kubectl("patch", "service", "web", "-p", '{"spec":{"ports":[{"port":80,"name":"http","$patch":"delete"},'
                      '{"port":8000,"name":"http-main","targetPort":"http"}]}}')
    wait_for("port changed", lambda: world.client.get("http://web:8000/")[0] == 200)
    assert world.client.get("http://web/", seconds=2)[0] == 0
    world.api.kubectl("delete", "pod", "web-0")
    wait_for("no pod, no answer", lambda: world.client.get("http://web:8000/", seconds=2)[0] != 200)
    world.api.kubectl("delete", "service", "web")
    wait_for("Service is gone", lambda: world.gone("web"))
    assert world.answers("steady")


@pytest.mark.parametrize("label", ["service.kubernetes.io/service-proxy-name=other", "edgeway.io/mesh=false"])
def test_left_out_by_label(world, label):
    key = label.split("=")[0]
    world.web("labelled")
    wait_for("answers", lambda: world.answers("labelled"))
    world.api.kubectl("label", "service", "labelled", label)
    wait_for("left out", lambda: world.gone("labelled"))
    world.api.kubectl("label", "service", "labelled", f"{key}-")
    wait_for("back", lambda: world.answers("labelled"))
    world.api.kubectl("delete", "service/labelled", "pod/labelled-0")


def test_state_and_metrics(world):
    source = world.hub.source()
    assert source["server"] == f"https://{API_ADDRESS}:6443" and source["ready"] is True
    for resource in ("services", "endpointslices", "pods", "nodes"):
        assert source[resource]["listed"] is True and source[resource]["problem"] == ""
        assert world.hub.metric("trouble", resource) == 0
    assert "endpoints" not in source
    assert world.hub.metric("objects", "nodes") == 1
    asked = [path for _, path in world.api.ctl("requests")]
    assert any("/services?limit=500&labelSelector=%21service.kubernetes.io" in p for p in asked)
    shown = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "status").stdout
    assert "endpointslices: watching" in shown


# --- faults ------------------------------------------------------------------------------

ONCE = [
    {"do": "cut", "at": 0}, {"do": "cut", "at": 1}, {"do": "cut", "at": 300}, {"do": "cut", "at": 2000},
    {"do": "split", "size": 1, "count": 8}, {"do": "split", "size": 5, "count": 8}, {"do": "reset", "count": 3},
    {"do": "status", "status": 403, "count": 3}, {"do": "status", "status": 429, "count": 3, "retry_after": 1},
    {"do": "status", "status": 500, "count": 3}, {"do": "status", "status": 503, "count": 3},
    {"do": "error-event", "code": 410, "watch": True}, {"do": "error-event", "code": 500, "watch": True, "count": 3},
    {"do": "end", "at": 1, "watch": True, "count": 3}, {"do": "silence", "watch": True}, {"do": "no-answer", "seconds": 60},
]


def named(rule):
    return "-".join(str(v) for v in rule.values())


@pytest.mark.parametrize("how", ["again", "anew"])
@pytest.mark.parametrize("rule", ONCE, ids=named)
def test_fault(world, rule, how):
    """Changes that happen while the server misbehaves arrive; `anew`: while the list is read again."""
    if how == "anew":
        world.api.ctl("fault", match="/services?", watch=True, do="error-event", code=410)
    world.api.ctl("fault", match="/services?", **rule)
    world.api.ctl("cut_all")
    for _ in range(3):
        world.touch()
        time.sleep(0.05)
    wait_for("fault met", lambda: world.api.ctl("requests", match="/services?") and world.converged())
    world.touch()
    wait_for("and after it", world.converged)
    world.api.ctl("no_faults")
    assert world.hub.process.alive()


def test_no_moment_without_services(world):
    """Lists that are read again, whatever the reason, never make a Service disappear in between."""
    failed, asked, stop = [], [0], threading.Event()

    def ask():
        while not stop.is_set():
            answer = world.client.dns("steady.default.svc.cluster.local", "A")
            if answer is None:  # a machine that is too busy; that nobody answers would be seen below
                continue
            asked[0] += 1
            if not answer[1] or not FAKE.match(answer[1][0][4]):
                failed.append(answer)

    thread = threading.Thread(target=ask)
    lists = world.hub.source()["services"]["lists"]
    thread.start()
    try:
        for i in range(5):
            wait_for("a question", lambda i=i: asked[0] > i)
            world.api.ctl("fault", match="/services?", watch=True, do="error-event", code=410)
            world.api.ctl("fault", match="", watch=True, do="error-event", code=410, count=3)
            world.api.ctl("cut_all")
            world.touch()
            wait_for("converged", world.converged)
    finally:
        stop.set()
        thread.join()
    assert world.hub.source()["services"]["lists"] > lists
    assert asked[0] > 4 and not failed


@pytest.mark.parametrize("term", [False, True], ids=["killed", "terminated"])
@pytest.mark.parametrize("forget", [False, True], ids=["window-kept", "window-new"])
def test_server_restarts(world, term, forget):
    world.touch()
    wait_for("converged", world.converged)
    logged = len(world.hub.process.log())
    world.api.ctl("down", term=term)
    wait_for("trouble is told", lambda: world.hub.metric("trouble", "services") == 1)
    assert world.hub.source()["services"]["problem"] != ""
    assert world.hub.ready() and world.answers("steady")
    for _ in range(3):
        world.touch()
    world.api.ctl("fault", match="", do="status", status=403, count=4, message="RBAC: clusterrole not found")
    world.api.ctl("up", forget=forget)
    wait_for("converged", world.converged)
    wait_for("no trouble", lambda: world.hub.metric("trouble", "services") == 0)
    world.api.ctl("no_faults")
    assert "forbidden" not in world.hub.process.log()[logged:]  # its rights came a moment later


def test_history_went_back(world):
    """A backup was put back: the server counts from an earlier revision, a watch from a later one would be silent."""
    for _ in range(3):
        world.touch()
    wait_for("converged", world.converged)
    lists = world.hub.source()["services"]["lists"]
    world.api.ctl("put_back", revisions=90)  # more than the Events that the hub writes meanwhile
    world.api.ctl("cut_all")
    wait_for("listed anew", lambda: world.hub.source()["services"]["lists"] > lists)
    world.touch()
    wait_for("converged", world.converged)


def test_partition(world):
    """No packet passes for a while, then all do; nobody closed anything."""
    world.touch()
    wait_for("converged", world.converged)
    world.lab.switch.run("nft", "-f", "-", input="table bridge cut {\nchain f {\ntype filter hook forward priority 0\n"
                         f"ip saddr {API_ADDRESS} drop\nip daddr {API_ADDRESS} drop\n}}\n}}\n")
    try:
        for _ in range(3):
            world.touch()
        wait_for("trouble is told", lambda: world.hub.metric("trouble", "services") == 1)
        assert world.answers("steady")
    finally:
        world.lab.switch.run("nft", "delete", "table", "bridge", "cut")
    wait_for("converged", world.converged)


def test_hub_restarts_while_the_server_is_away(world):
    world.touch()
    world.api.ctl("down")
    world.hub.process.stop()
    world.hub.start()
    assert not world.hub.ready()
    assert world.answers("steady")
    world.api.ctl("up")
    wait_for("ready", world.hub.ready)
    wait_for("converged", world.converged)
    wait_for("nodes again", lambda: world.hub.metrics().get("edgeway_hub_nodes_connected", 1) >= 1)
    assert world.answers("steady")


# --- who may do what --------------------------------------------------------------------


def test_missing_rights_are_named(world):
    rights = [r for r in RIGHTS if r[1] != "pods"]
    world.hub.process.stop()
    world.api.ctl("grant", user=ACCOUNT, rights=rights)
    world.hub.start()
    try:
        want = 'forbidden: give the hub\'s ClusterRole the verbs list and watch on pods (apiGroups: [""])'
        wait_for("problem", lambda: want in world.hub.source()["pods"]["problem"])
        assert world.hub.process.logged(want) and world.hub.ask("/readyz")[0] == 503
        assert world.hub.source()["services"]["problem"] == ""
    finally:
        world.api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
    wait_for("ready", world.hub.ready)


def test_in_cluster_with_a_token_that_rotates(world):
    world.hub.process.stop()
    folder = "/run/secrets/kubernetes.io/serviceaccount"
    machine = world.hub.machine
    machine.run("sh", "-c", f"mount -t tmpfs none /run && mkdir -p {folder} && cp {world.api.dir}/ca.crt {folder}/ca.crt && "
                f"printf first-token > {folder}/token")
    world.api.ctl("token", token="first-token", user=ACCOUNT, old="hub-token")
    before, world.hub.kubeconfig = world.hub.kubeconfig, ""
    world.hub.env = {"KUBERNETES_SERVICE_HOST": API_ADDRESS, "KUBERNETES_SERVICE_PORT": "6443"}
    try:
        world.hub.start()
        wait_for("ready", world.hub.ready)
        world.api.ctl("token", token="second-token", user=ACCOUNT, old="first-token")
        world.api.ctl("cut_all")
        wait_for("told", lambda: "does not know us" in world.hub.source()["services"]["problem"])
        machine.run("sh", "-c", f"printf second-token > {folder}/new && mv {folder}/new {folder}/token")
        world.touch()
        wait_for("converged", world.converged)
        assert not re.search("(first|second)-token", json.dumps(world.hub.state()) + world.hub.process.log())
    finally:
        world.hub.process.stop()
        world.hub.kubeconfig, world.hub.env = before, None
        world.api.ctl("token", token="hub-token", user=ACCOUNT)
        world.hub.start()
    wait_for("ready", world.hub.ready)


def test_client_certificate(world):
    world.hub.process.stop()
    before = world.hub.kubeconfig
    world.hub.kubeconfig = world.api.kubeconfig("cert.conf", **{"client-certificate": "admin.crt", "client-key": "admin.key"})
    try:
        world.hub.start()
        wait_for("ready", world.hub.ready)
        wait_for("converged", world.converged)
    finally:
        world.hub.process.stop()
        world.hub.kubeconfig = before
        world.hub.start()


def test_another_server_is_not_believed(world):
    """Not signed by the CA of the kubeconfig: nothing is sent to it, not even the token."""
    world.hub.process.stop()
    path = world.api.kubeconfig("other.conf")
    with open(path) as f:
        conf = json.load(f)
    conf["clusters"][0]["cluster"]["certificate-authority"] = os.path.join(world.hub.machine.dir, "data", "ca.pem")
    with open(path, "w") as f:
        json.dump(conf, f)
    before, world.hub.kubeconfig = world.hub.kubeconfig, path
    world.api.ctl("cut_all")

    def still():
        before = len(world.api.ctl("requests"))
        time.sleep(0.3)  # what the hub had asked before may still be on its way
        return len(world.api.ctl("requests")) == before
    wait_for("nothing is on its way", still)
    asked = len(world.api.ctl("requests"))
    try:
        world.hub.start()
        wait_for("problem", lambda: "certificate" in world.hub.source()["services"]["problem"])
        assert len(world.api.ctl("requests")) == asked and not world.hub.ready()
    finally:
        world.hub.process.stop()
        world.hub.kubeconfig = before
        world.hub.start()
    wait_for("ready", world.hub.ready)


def test_other_name_and_proxy(world):
    """tls-server-name where the certificate has another name than the address, and proxy-url."""
    world.hub.process.stop()
    path = world.api.kubeconfig("named.conf")
    with open(path) as f:
        conf = json.load(f)
    cluster = conf["clusters"][0]["cluster"]
    cluster["server"] = "https://api.lab.test:6443"
    with open(os.path.join(world.hub.machine.dir, "etc", "hosts"), "a") as f:
        f.write(f"{API_ADDRESS} api.lab.test\n")
    proxy = world.api.machine.start("proxy", *BARE_PYTHON, "-c", CONNECT_PROXY, API_ADDRESS, "3128")
    before, world.hub.kubeconfig = world.hub.kubeconfig, path
    try:
        with open(path, "w") as f:
            json.dump(conf, f)
        world.hub.start()
        wait_for("refused", lambda: "api.lab.test" in world.hub.source()["services"]["problem"])
        cluster["tls-server-name"] = "kubernetes.default.svc"
        cluster["proxy-url"] = f"http://{API_ADDRESS}:3128"
        with open(path, "w") as f:
            json.dump(conf, f)
        wait_for("ready", world.hub.ready)
        wait_for("by the proxy", lambda: proxy.log().count("CONNECT api.lab.test:6443") >= 4)
    finally:
        world.hub.process.stop()
        world.hub.kubeconfig = before
        world.hub.start()
        proxy.stop()
    wait_for("ready", world.hub.ready)


CONNECT_PROXY = """
import socket, sys, threading
def pump(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)
def serve(client):
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += client.recv(1)
    print(head.split(b"\\r\\n")[0].decode(), flush=True)
    server = socket.create_connection((sys.argv[1], 6443))
    client.sendall(b"HTTP/1.1 200 Connection established\\r\\n\\r\\n")
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    pump(client, server)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def test_server_without_slices(world):
    """Endpoints are read where there are no EndpointSlices, and given up once there are."""
    world.hub.process.stop()
    world.api.ctl("absent", resources=[["discovery.k8s.io", "endpointslices"]])
    world.api.ctl("put", group="", resource="endpoints", obj={
        "metadata": {"name": "by-hand", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.77"}], "ports": [{"name": "p", "port": 5000, "protocol": "TCP"}]}]})
    world.api.apply({k: v for k, v in service("by-hand", ("p", 5000, 5000)).items() if k != "spec"} | {
        "spec": {"ports": [{"name": "p", "port": 5000, "protocol": "TCP"}]}})
    try:
        world.hub.start()
        wait_for("ready", world.hub.ready)
        assert "192.0.2.77" in json.dumps(world.hub.services()["default", "by-hand"])
        assert world.hub.process.logged("no EndpointSlices, reading Endpoints instead")
    finally:
        world.api.ctl("absent", resources=[])
        world.api.ctl("remove", group="", resource="endpoints", ns="default", name="by-hand")
        world.api.kubectl("delete", "service", "by-hand")
        world.hub.process.stop()
        world.hub.start()
    wait_for("ready", world.hub.ready)
    assert "endpoints" not in world.hub.source()


# --- what operators see --------------------------------------------------------------------


def events_of(world, name):
    return {e["reason"]: e for e in world.api.read_all("events", "default")
            if e["involvedObject"]["kind"] == "Service" and e["involvedObject"]["name"] == name}


def unreachable(world):
    return world.hub.source()["events"]["unreachable"]


@pytest.mark.plain_build  # what is not told
def test_pods_behind_the_hub_are_no_alarm(world):
    """Pods without hostPort, of the edge and of the cloud, are reached through the hub: no Event says otherwise, so that the one on
    a selector that takes no pod stands alone, with the nearest label, in the log, status and doctor as well."""
    world.clear()
    cloud = dict(kube_pod("cloud-0", world.node, world.backend, ("http", 8080, 0), app="cloud"))
    cloud["spec"] = dict(cloud["spec"], nodeName="cloud-1")
    many = [f"behind-{i}" for i in range(12)]
    world.api.apply(*[service(n, ("http", 80, "http"), selector="behind") for n in many], service("cloud", ("http", 80, "http"), selector="cloud"), cloud,
                    kube_pod("behind-0", world.node, world.backend, ("http", 8080, 0), app="behind"))
    world.api.apply(service("typo", ("http", 80, "http"), selector="behnid"))
    found = wait_for("event", lambda: events_of(world, "typo").get("NotReachableOnEdge"), pause=0.5)
    wait_for("named", lambda: "no pod has the label app=behnid of its selector; the nearest, behind-0, has app=behind" in
             events_of(world, "typo")["NotReachableOnEdge"]["message"], pause=0.5)
    uid = world.api.kubectl("get", "service", "typo", "-o", "jsonpath={.metadata.uid}")
    assert found["involvedObject"]["uid"] == uid and found["type"] == "Warning" and found["source"]["component"] == "edgeway-hub"
    assert unreachable(world) == 1 and not any(events_of(world, n) for n in (*many, "cloud", "steady"))
    rows = {s["name"]: s for s in world.hub.state()["hub"]["services"]}
    for name in (*many, "cloud"):
        assert rows[name]["reason"] == "" and rows[name]["class"] == "information" and "has no hostPort" in rows[name]["information"]
    assert rows["typo"]["class"] == "warning" and rows["typo"]["kind"] == "no_endpoints"
    metrics = world.hub.metrics()
    assert metrics['edgeway_hub_service_findings{class="warning",problem="no_endpoints"}'] == 1
    assert metrics['edgeway_hub_service_findings{class="information",problem="through_hub"}'] == len(many) + 1
    wait_for("logged", lambda: re.search(r"problem=no_endpoints service=default/typo reason=.*has app=behind", world.hub.process.log()))
    shown = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "status").stdout
    assert "default/typo: port 80: no pod with an address" in shown and "has app=behind" in shown and "behind-1" not in shown, shown
    assert f"; {len(many) + 1} with pods that are reached through the hub" in shown, shown
    # A hub that starts anew counts the same one up.
    before = events_of(world, "typo")["NotReachableOnEdge"]
    world.hub.process.stop()
    world.hub.start()
    wait_for("counted", lambda: any(e["count"] > 1 for e in [events_of(world, "typo")["NotReachableOnEdge"]]), pause=0.5)
    assert before["count"] == 1
    world.api.apply(service("typo", ("http", 80, "http"), selector="behind"))
    wait_for("well again", lambda: events_of(world, "typo").get("ReachableOnEdge"), pause=0.5)
    world.api.kubectl("delete", *[f"service/{n}" for n in many[1:]], "service/typo", "service/cloud", "pod/cloud-0")
    # Without a tunnel nobody else reaches the pod, and that is an alarm.
    world.agent.stop()
    options, world.agent.options = world.agent.options, (*world.agent.options, "--tunnel.enabled", "false")
    world.agent.start()
    try:
        found = wait_for("no way", lambda: events_of(world, many[0]).get("NotReachableOnEdge"), pause=0.5)
        assert "node edge-1 have no hostPort, and the node has no tunnel" in found["message"]
    finally:
        world.agent.stop()
        world.agent.options = options
        world.agent.start()
    wait_for("a way again", lambda: events_of(world, many[0]).get("ReachableOnEdge"), pause=0.5)
    world.api.kubectl("delete", f"service/{many[0]}", "pod/behind-0")


def test_event_on_a_target_port_that_no_container_has(world):
    world.clear()
    world.web("misnamed")
    world.api.apply(service("misnamed", ("http", 80, "htpp"), selector="misnamed"))
    found = wait_for("event", lambda: events_of(world, "misnamed").get("NotReachableOnEdge"), pause=0.5)
    assert 'targetPort "htpp" is the name of no container port of its pods; misnamed-0 has http (8080)' in found["message"]
    shown = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "doctor", check=False).stdout
    assert re.search(r"BAD +services +default/misnamed: port 80: targetPort", shown), shown
    # The node, which is told of no pods, has it from the hub.
    on_node = (world.lab.program("edgewayctl"), "--socket", world.agent.socket, "endpoints", "default/misnamed")
    wait_for("the node says so", lambda: 'none (targetPort "htpp" is the name of no container port' in world.node.run(*on_node).stdout)
    world.web("misnamed")
    wait_for("well again", lambda: events_of(world, "misnamed").get("ReachableOnEdge"), pause=0.5)
    world.api.kubectl("delete", "service/misnamed", "pod/misnamed-0")


def test_event_on_an_address_that_nodes_refuse(world):
    world.clear()
    world.api.apply({k: v for k, v in service("astray", ("http", 80, 80)).items() if k != "spec"} | {
        "spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}},
        endpoint_slice("astray-1", "astray", 80, "100.100.100.200", port_name="http"))
    found = wait_for("event", lambda: events_of(world, "astray").get("EndpointRefused"), pause=0.5)
    assert "100.100.100.200" in found["message"] and "a cloud's metadata address" in found["message"]
    assert "lb.allow" in found["message"] and found["type"] == "Warning"
    # What only the node can know it says itself.
    world.api.apply(endpoint_slice("astray-1", "astray", 80, world.node.address, port_name="http"))
    found = wait_for("the node's word", lambda: next(
        (e for e in world.api.read_all("events", "default")
         if e["reason"] == "EndpointRefused" and f"such as {world.node.name}," in e["message"]), None), pause=0.5)
    assert found["involvedObject"]["name"] == "astray" and "edgewayctl endpoints" in found["message"]
    # That hides nothing that the hub sees itself.
    many = [f"198.51.{i // 250}.{i % 250 + 1}" for i in range(MESH_ENDPOINTS_MAX)]
    world.api.apply(endpoint_slice("astray-1", "astray", 80, world.node.address, *many, port_name="http"))
    wait_for("the hub's own", lambda: "the rest is left out" in events_of(world, "astray").get("NotReachableOnEdge", {"message": ""})["message"],
             pause=0.5)
    world.api.kubectl("delete", "endpointslice/astray-1", "service/astray")


def test_event_on_a_selector_that_is_none(world):
    """A reason of its own; all nodes are told of the Service meanwhile."""
    world.clear()
    world.web("picky")
    world.api.kubectl("annotate", "service", "picky", "edgeway.io/nodes=tier in (")
    found = wait_for("event", lambda: events_of(world, "picky").get("NodesSelectorInvalid"), pause=0.5)
    assert "edgeway.io/nodes" in found["message"] and "all nodes are told of it" in found["message"]
    assert found["type"] == "Warning" and "NotReachableOnEdge" not in events_of(world, "picky")
    wait_for("served", lambda: world.answers("picky"))
    world.api.kubectl("annotate", "service", "picky", "edgeway.io/nodes-", "--overwrite")
    wait_for("well again", lambda: events_of(world, "picky").get("ReachableOnEdge"), pause=0.5)
    world.api.kubectl("delete", "service/picky", "pod/picky-0")


def test_event_on_a_service_without_an_address(world):
    """A node whose range is used up says so: a Service that is left out has an Event there, and is told in edgewayctl."""
    world.clear()
    world.api.ctl("bulk", services=270, endpoints=1, pods=270, prefix="many")
    small = Agent(Node(world.lab, "edge-2", "192.0.2.12"), world.hub, "--mesh.subnet", "10.250.0.0/24")
    wait_for("in step", lambda: small.state()["meta"]["synced"])

    def rows():
        return {n["node"]: n["unserved"] for n in world.hub.state()["hub"]["nodes"] if n["connected"]}

    def exhausted():
        return next((e for e in world.api.read_all("events", "default") if e["reason"] == "FakeIPsExhausted"), None)

    wait_for("told", lambda: rows().get("edge-2", 0) >= 270 - 254 and rows()["edge-1"] == 0)
    found = wait_for("event", exhausted, pause=0.5)
    assert "such as edge-2" in found["message"] and "mesh.subnet" in found["message"] and found["type"] == "Warning"
    name = found["involvedObject"]["name"]
    assert small.node.address_of(f"{name}.default.svc.cluster.local", f"@{small.node.gateway}") is None
    assert world.node.address_of(f"{name}.default.svc.cluster.local", f"@{world.node.gateway}") is not None
    shown = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "status", check=False).stdout
    assert re.search(r"edge-2: no fake IP is left there for \d+ services", shown), shown
    # It holds for as long as the node says so.
    small.stop()
    wait_for("over", lambda: set(events_of(world, name)) - {"FakeIPsExhausted"}, 120, pause=0.5)
    for group, resource in (("", "services"), ("discovery.k8s.io", "endpointslices"), ("", "pods")):
        for i in range(270):
            made = {"services": f"many-{i}", "endpointslices": f"many-{i}-x", "pods": f"many-pod-{i}"}[resource]
            world.api.ctl("remove", group=group, resource=resource, ns="default", name=made)
    wait_for("cleared", lambda: not any(n.startswith("many-") for _, n in world.hub.services()))


@pytest.mark.plain_build  # when it asks again; the answers are those of other tests
def test_events_are_forbidden(world):
    """Nothing else suffers, and it is said what is missing."""
    world.hub.process.stop()
    world.api.ctl("grant", user=ACCOUNT, rights=READS + SECRETS)
    world.hub.start()
    try:
        world.api.apply(service("lonely", ("http", 80, "http"), selector="nobody"))
        wait_for("told", lambda: "create and patch on events" in world.hub.source()["events"]["problem"])
        assert events_of(world, "lonely") == {}
        world.touch()
        wait_for("converged", world.converged)
        world.api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
        wait_for("told, now that it may be", lambda: events_of(world, "lonely"))
    finally:
        world.api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
        world.api.kubectl("delete", "service", "lonely")


# --- size ----------------------------------------------------------------------------------

MEMORY_MOST_KB = 200 * 1024


@pytest.mark.plain_build
def test_memory_of_a_large_cluster(world):
    """10 000 services with 100 000 endpoints on 10 000 pods, listed anew as well."""
    world.api.ctl("bulk", services=10000, endpoints=10, pods=10000)
    wait_for("all services", lambda: world.hub.metrics()["edgeway_hub_services"] >= 10000, 120, pause=0.5)
    lists = world.hub.source()["pods"]["lists"]
    world.api.ctl("compact")
    wait_for("listed anew", lambda: world.hub.source()["pods"]["lists"] > lists, 120, pause=0.5)
    with open(f"/proc/{world.hub.process.pid}/status") as f:
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", f.read()).group(1))
    print(f"peak of the hub: {peak} kB")
    assert peak < MEMORY_MOST_KB or "asan" in world.lab.build
