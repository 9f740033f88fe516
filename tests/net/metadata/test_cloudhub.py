"""The agent with a KubeEdge CloudHub (cloudhub.py) instead of our hub."""
import json
import os
import socket

import pytest

import cloudhub_pki as pki
from lab import FAKE, HUB_ADDRESS, HUB_PORT, HERE, PATIENCE_S, PYTHON, Agent, Lab, Machine, Node, pod, service, wait_for

NAME = "web.default.svc.cluster.local"


class CloudHub:
    def __init__(self, lab):
        self.lab, self.machine = lab, Machine(lab, "cloud", address=HUB_ADDRESS)
        self.socket = os.path.join(self.machine.dir, "control.sock")
        self.files = pki.make(self.machine, HUB_ADDRESS)
        self.start()

    def start(self, *mute):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.process = self.machine.start("cloudhub", PYTHON, os.path.join(HERE, "cloudhub.py"), HUB_ADDRESS, HUB_PORT,
                                          self.files["ca"], self.files["hub.crt"], self.files["hub.key"], self.socket, *mute)
        wait_for("cloudhub", lambda: os.path.exists(self.socket) and self.do("stat"))

    def do(self, what, **more):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE_S)
            s.connect(self.socket)
            s.sendall(json.dumps({"do": what, **more}).encode() + b"\n")
            return json.loads(s.makefile().readline())

    def put(self, *objects, **more):
        for o in objects:
            self.do("put", o=o, **more)


class World:
    def __init__(self, lab):
        self.lab = lab
        self.hub = CloudHub(lab)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.backend = self.node.pod("web-0")
        self.backend.serve("--http", "8080")
        self.node.publish(30080, self.backend, 8080)
        self.pod = pod("web-0", self.node, self.backend.address, ("http", 8080, 30080), app="web")
        self.hub.put(service("web", ("http", 80, "http")), service("old", ("http", 80, "http"), selector="web"), self.pod)
        self.agent = Agent(self.node, None, *self.options("edge-1-mesh"), start=False)

    def options(self, node_id):
        f = self.hub.files
        return ["--hub.protocol", "cloudhub", "--hub.nodeId", node_id, "--hub.ca", f["ca"], "--hub.cert", f["node.crt"],
                "--hub.key", f["node.key"]]

    def address(self, name):
        answer = self.node.dns(f"{name}.default.svc.cluster.local", server=self.node.gateway)
        if not answer or answer[0] not in ("NOERROR", "NXDOMAIN"):
            raise AssertionError(f"no answer: {answer}")
        return answer[1][0][4] if answer[1] else None

    def meta(self):
        return self.agent.state()["meta"]

    def synced(self):
        return wait_for("synced", lambda: self.meta()["synced"])


@pytest.fixture(scope="module")
def world():
    with Lab() as lab:
        yield World(lab)


def test_refuses_to_start_without_an_id_of_its_own(world):
    status, says = world.agent.attempt("--hub.nodeId", "")
    assert status != 0 and "hub.nodeId" in says
    folder = os.path.join(world.node.dir, "etc", "kubeedge", "config")
    os.makedirs(folder)
    with open(os.path.join(folder, "edgecore.yaml"), "w") as f:
        f.write("apiVersion: edgecore.config.kubeedge.io/v1alpha2\nkind: EdgeCore\n"
                "modules:\n  edged:\n    hostnameOverride: edge-1\n")
    status, says = world.agent.attempt("--hub.nodeId", "edge-1")
    assert status != 0 and "EdgeCore" in says and "edgecore.yaml" in says


def test_names_and_requests(world):
    world.agent.start()
    world.synced()
    assert FAKE.match(world.address("web")) and FAKE.match(world.address("old"))
    wait_for("resolv.conf written", lambda: world.node.gateway.encode() in world.node.resolv())
    world.client = world.node.pod("client")
    status, body = world.client.get("http://web/")
    assert (status, body.strip()) == (200, "edge-1.web-0")
    assert world.hub.do("stat")["headers"] == {
        "node_id": "edge-1-mesh", "project_id": "e632aba927ea4ac2b575ec1603d56f10", "connectionuse": "msg"}


def test_changes_are_taken_and_acknowledged(world):
    before = world.hub.do("stat")
    world.hub.put(service("new", ("http", 80, "http"), selector="web"))
    wait_for("new", lambda: world.address("new"))
    world.hub.put(service("new", ("http", 81, "http"), selector="web"))  # an insert of what exists is an update
    wait_for("port 81", lambda: world.client.get("http://new:81/")[0] == 200)
    world.hub.do("delete", kind="Service", namespace="default", name="new")
    wait_for("gone", lambda: world.address("new") is None)
    wait_for("acks", lambda: world.hub.do("stat")["acks"] >= before["acks"] + 3)


def test_garbage(world):
    refused = world.meta()["services"], world.agent.metrics()["edgeway_meta_refused_total"]
    connects = world.hub.do("stat")["connects"]
    for text in ("x", "{", "[1]", "{}", '{"header":{},"route":{}}', '{"header":{"msg_id":"1"},"route":{"operation":"insert"',
                 '{"header":{"msg_id":"2"},"route":{"operation":"explode","resource":"a/service/b"}}',
                 '{"header":{"msg_id":"3"},"route":{"operation":"update","resource":"default/service/web"},"content":5}',
                 '{"header":{"msg_id":"4"},"route":{"operation":"update","resource":"namespace/servicelist/service"},'
                 '"content":null}'):
        world.hub.do("raw", text=text)
    for resource in ("default/configmap/x", "default/secret/y", "x", "//", "node/a/default/podstatus/web-0"):
        world.hub.do("tell", operation="insert", resource=resource, content={"data": {}})
    wait_for("refused", lambda: world.agent.metrics()["edgeway_meta_refused_total"] >= refused[1] + 8)
    world.hub.do("delete", kind="Service", namespace="default", name="old", silent=True)
    world.hub.do("tell", operation="delete", resource="default/service/nobody", content=None)
    world.hub.do("tell", operation="delete", resource="default/service/old", content=None)
    wait_for("old gone", lambda: world.address("old") is None)
    assert world.meta()["services"] == refused[0] - 1
    assert world.client.get("http://web/")[0] == 200
    assert world.hub.do("stat")["connects"] == connects


def test_ten_thousand_in_one_list(world):
    many = [service(f"s-{i}", ("http", 80, "http"), selector="nobody", namespace="many") for i in range(10000)]
    for o in many:
        o["metadata"]["resourceVersion"] = "1"
    world.hub.do("mute", types=["podlist", "endpoints", "servicelist"])
    keep = service("web", ("http", 80, "http"))
    world.hub.do("tell", operation="update", resource="namespace/servicelist/service", content=[keep, *many])
    # What each consists of is asked for and never said: the names are there all the same.
    wait_for("all", lambda: world.meta()["services"] == 10001)
    assert world.client.get("http://web/")[0] == 200
    world.hub.do("mute", types=[])
    world.hub.do("tell", operation="update", resource="namespace/servicelist/service", content=[keep])
    wait_for("gone again", lambda: world.meta()["services"] == 1)
    assert world.client.get("http://web/")[0] == 200


def test_restart_without_the_cloud_and_what_happened_meanwhile(world):
    if world.agent.process is None:  # this one is asked alone
        test_names_and_requests(world)
    world.hub.put(service("gone", ("http", 80, "http"), selector="web"))
    before = wait_for("gone", lambda: world.address("gone")), world.address("web")
    world.agent.stop()
    world.hub.process.kill()
    world.agent.start()
    assert (world.address("gone"), world.address("web")) == before, world.agent.process.log() + str(world.meta())
    assert world.client.get("http://web/")[0] == 200
    # A hub that tells nothing deletes nothing; and what it tells without pods does not take the place of what is stored.
    world.hub.start("servicelist", "podlist", "endpoints")  # muted before the agent comes
    wait_for("connected", lambda: world.meta()["connected"])
    world.hub.put(service("web", ("http", 80, "http")))
    wait_for("acked", lambda: world.hub.do("stat")["acks"] >= 1)
    assert (world.address("gone"), world.address("web")) == before
    assert world.client.get("http://web/")[0] == 200
    world.hub.do("mute", types=[])
    world.hub.put(world.pod, silent=True)
    world.hub.do("drop")
    wait_for("gone is gone", lambda: world.address("gone") is None)
    world.synced()
    assert world.address("web") == before[1]
    assert world.client.get("http://web/")[0] == 200


@pytest.mark.plain_build  # what is told; it waits for long
def test_a_hub_that_tells_no_services(world):
    """As CloudCore of KubeEdge 1.8.0 and later: connected, and silent about them. What was deleted meanwhile is served, and that is said."""
    world.hub.put(service("late", ("http", 80, "http"), selector="web"))
    wait_for("late", lambda: world.address("late"))
    world.hub.do("mute", types=["servicelist", "podlist", "endpoints"])
    world.hub.do("delete", kind="Service", namespace="default", name="late", silent=True)
    connects = world.hub.do("stat")["connects"]
    world.hub.do("drop")
    wait_for("connected again", lambda: world.hub.do("stat")["connects"] > connects and world.meta()["connected"])

    def ctl(word):
        return world.node.run(world.lab.program("edgewayctl"), "--socket", world.agent.socket, word, check=False).stdout

    # An agent says it when the list has not come within 30 s, or at once when something else comes in its place.
    world.hub.do("tell", operation="error", resource="namespace/servicelist/service", content="servicelist unsupported")
    wait_for("told", lambda: "cloudhub_problem" in world.meta())
    says = world.meta()["cloudhub_problem"]
    assert "KubeEdge 1.8.0 and later" in says and 'it says "servicelist unsupported"' in says and "a Node edge-1-mesh turns Ready" in says
    assert world.agent.process.logged(says) and says in ctl("status")
    assert "BAD" in next(line for line in ctl("doctor").splitlines() if "does not tell the list of services" in line)
    assert world.agent.metrics()["edgeway_meta_cloudhub_list_missing"] == 1
    assert world.address("late") and world.client.get("http://web/")[0] == 200
    world.hub.do("drop")
    wait_for("connected again", lambda: world.meta()["connected"] and "cloudhub_problem" not in world.meta())
    wait_for("silence is told as well", lambda: "does not tell the list of services: that of" in world.meta().get("cloudhub_problem", ""))
    wait_for("how old the data is", lambda: " old, as of " in ctl("status"))
    world.hub.do("mute", types=[])
    world.hub.do("drop")
    wait_for("the deletion is noticed", lambda: world.address("late") is None)
    wait_for("nothing is wrong", lambda: "cloudhub_problem" not in world.meta())
    assert world.agent.metrics()["edgeway_meta_cloudhub_list_missing"] == 0


def test_pings_keep_the_connection(world):
    before = world.hub.do("stat")
    wait_for("two pings", lambda: world.hub.do("stat")["pings"] >= before["pings"] + 2, pause=1)
    assert world.hub.do("stat")["connects"] == before["connects"]


def test_two_of_one_id_calm_down(world):
    """A CloudHub cuts the older connection off; both would go on for ever."""
    if world.agent.process is None:  # this one is asked alone
        test_names_and_requests(world)
    other = Node(world.lab, "edge-2", "192.0.2.12")
    twin = Agent(other, None, *world.options("edge-1-mesh"), start=False)
    twin.start(ready=False)  # cut off, it may not get as far
    wait_for("said", lambda: "does another agent or an EdgeCore use this hub.nodeId" in
             world.agent.process.log() + twin.process.log(), 150)
    assert world.client.get("http://web/")[0] == 200
    twin.stop()
