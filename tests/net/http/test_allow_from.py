"""edgeway.io/allow-from and NetworkPolicies: who may call is judged where the call begins, by the pod that an address belongs to, and at the
hub for what goes through it; who may not is refused at once, and nothing goes towards an endpoint.
"""
import json
import uuid

import pytest

from caller_site import RULE, CallerSite
from httpkit import readable, socket_of
from lab import wait_for
from pki import Authority
from pretender import Pretender


@pytest.fixture(scope="module")
def site(lab):
    made = CallerSite(lab)
    yield made
    made.logs()


def settled(site, machine, status):
    wait_for(f"status {status} for {machine.name}", lambda: site.http(machine)[0] == status)


def test_http(site):
    assert site.http(site.friend) == (200, "edge-1.db\n")
    denied = 'edgeway_lb_errors_total{reason="allow_from"}'
    before = site.agents[0].metrics()[denied]
    with site.untouched():
        status, body = site.http(site.foe)
        assert (status, body.count("\n")) == (403, 1)
        assert "a pod of namespace ops may not call service default/db port 80" in body
        # again and again on one connection, which stays
        assert site.foe.run("curl", "-s", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{http_code} %{num_connects};", "http://db/",
                            "http://db/").stdout == "403 1;403 0;"
        assert site.http(site.foe, "http://db/", "-d", "x" * 100000)[0] == 403
    assert site.agents[0].metrics()[denied] == before + 4
    assert site.agents[0].counted("own_403") >= 4
    wait_for("the log", lambda: "a call was denied client=" in site.agents[0].process.log())


def test_tcp(site):
    assert site.tcp(site.friend) == "edge-1.db\nhello"
    with site.untouched():
        assert site.tcp(site.foe) is None


def test_udp(site):
    assert site.udp(site.friend) == "edge-1.db"
    with site.untouched():
        assert site.udp(site.foe) == "-"


def test_processes_of_the_node(site):
    with site.untouched():
        assert site.http(site.nodes[0], f"http://{site.address(site.nodes[0], 'db')}/")[0] == 403
    site.show_services(f"{RULE} | nodes=edgeway.io/site=edge-1")
    url = f"http://{site.address(site.nodes[0], 'db')}/"
    wait_for("the node may", lambda: site.http(site.nodes[0], url)[0] == 200)
    assert site.udp(site.nodes[0], site.address(site.nodes[0], "db-udp")) == "edge-1.db"
    assert site.http(site.foe)[0] == 200  # it is on the node
    assert site.http(site.far_foe)[0] == 403
    site.show_services(RULE)
    settled(site, site.foe, 403)


def test_a_service_that_says_nothing_is_for_everybody(site):
    for caller in (site.friend, site.foe, site.far_friend, site.far_foe):
        assert site.http(caller, "http://open/") == (200, "edge-1.db2\n")


def test_through_the_hub(site):
    assert site.http(site.far_friend) == (200, "edge-1.db\n")
    assert site.tcp(site.far_friend) == "edge-1.db\nhello"
    assert site.udp(site.far_friend) == "edge-1.db"
    with site.untouched():
        assert site.http(site.far_foe)[0] == 403
        assert site.tcp(site.far_foe) is None
        assert site.udp(site.far_foe) == "-"


def test_trace_says_why(site):
    shown = site.ctl("trace", "http://db.default.svc.cluster.local/", check=False)
    line = next(x for x in shown.splitlines() if x.startswith("callers"))
    assert f'edgeway.io/allow-from "{RULE}"' in line and "processes of this node: denied" in line
    assert "pod shop/friend: allowed" in line and "pod ops/foe: denied" in line
    assert "status 403" in shown
    assert "callers" not in site.ctl("trace", "http://open.default.svc.cluster.local/", check=False)


def test_changes_apply_at_run_time(site):
    held = socket_of(site.friend)
    held.connect((site.address(site.nodes[0], "db"), 7000))
    assert held.recv(100) == b"edge-1.db\n"
    held.sendall(b"still here")
    assert held.recv(100) == b"still here"
    asks = socket_of(site.friend)
    asks.connect((site.address(site.nodes[0], "db"), 80))
    asks.sendall(b"GET /hang HTTP/1.1\r\nHost: db\r\n\r\n")
    assert not readable([asks], 0.5)
    site.show_services("namespaces=ops")
    for open_before in (held, asks):
        with pytest.raises(ConnectionResetError):  # what was open before ends as well, a request like a connection
            assert open_before.recv(100) is None
        open_before.close()
    settled(site, site.friend, 403)
    assert site.http(site.foe) == (200, "edge-1.db\n")
    wait_for("UDP", lambda: site.udp(site.foe) == "edge-1.db")
    with site.untouched():
        assert site.udp(site.friend) == "-" and site.tcp(site.friend) is None
    # by labels, which change
    site.show_services("namespaces=ops; pods=tier=front")
    settled(site, site.foe, 403)
    site.labels = {"foe": {"tier": "front"}}
    site.show_pods()
    settled(site, site.foe, 200)
    site.labels = {}
    site.show_pods()
    settled(site, site.foe, 403)
    site.show_services(None)
    for caller in (site.friend, site.foe, site.far_foe):
        settled(site, caller, 200)
    site.show_services(RULE)
    settled(site, site.foe, 403)
    settled(site, site.far_foe, 403)


def test_what_cannot_be_read_lets_nobody_in(site):
    site.show_services("namespace=shop")
    settled(site, site.friend, 403)
    wait_for("the log", lambda: "edgeway.io/allow-from: 'namespace' is not" in site.hub.process.log())
    assert site.hub.process.logged("nobody may call it")
    site.show_services(RULE)
    settled(site, site.friend, 200)


def test_the_last_restriction_holds_without_the_hub(site):
    agent = site.agents[0]
    wait_for("callers", lambda: site.told().get("shop/friend") == "allowed")
    site.hub.process.kill()
    agent.process.kill()
    agent.start()
    wait_for("the friend", lambda: site.http(site.friend)[0] == 200)
    stranger = site.nodes[0].pod("stranger")  # started while nobody could tell who it is
    with site.untouched():
        for caller in (site.foe, stranger):
            assert site.http(caller)[0] == 403 and site.tcp(caller) is None and site.udp(caller) == "-"
    assert "that the hub has not told of" in site.http(stranger)[1]
    assert site.udp(site.friend) == "edge-1.db"
    site.hub.start()
    wait_for("connected", lambda: all(a.state()["meta"]["synced"] for a in site.agents))
    wait_for("through the hub", lambda: site.http(site.far_friend)[0] == 200)


# --- NetworkPolicies: those of a folder always count ---------------------------------------------

DB = {"matchLabels": {"app": "db"}}


def namespaces(*names):
    return {"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(names)}]}}


def test_policies_close_pods(site):
    site.show_services(None)
    settled(site, site.foe, 200)
    site.policies({"podSelector": DB, "ingress": [{"from": [namespaces("shop")]}]})
    settled(site, site.foe, 403)
    settled(site, site.far_foe, 403)
    assert site.told()["ops/foe"] == "denied"
    with site.untouched():
        for caller in (site.foe, site.far_foe):
            assert site.http(caller)[0] == 403 and site.tcp(caller) is None and site.udp(caller) == "-"
    for caller in (site.friend, site.far_friend):
        assert site.http(caller)[0] == 200 and site.tcp(caller) == "edge-1.db\nhello" and site.udp(caller) == "edge-1.db"
    # ports: HTTP for all, the rest for the shop
    site.policies({"podSelector": DB, "ingress": [{"from": [namespaces("shop")]}, {"ports": [{"port": "http"}]}]})
    settled(site, site.foe, 200)
    assert site.tcp(site.foe) is None
    site.policies()
    wait_for("open", lambda: site.tcp(site.foe) == "edge-1.db\nhello")


def test_closed_endpoints_are_left_out(site):
    both = {"app": "both"}
    site.labels = {"db": {"app": "both", "only": "shop"}, "db2": both}
    site.show_pods()
    site.show_services(None, selector="both")
    site.policies({"podSelector": {"matchLabels": {"only": "shop"}}, "ingress": [{"from": [namespaces("shop")]}]})
    wait_for("told", lambda: site.told().get("ops/foe") == "partly")
    assert {site.http(site.foe) for _ in range(20)} == {(200, "edge-1.db2\n")}
    assert {site.http(site.far_foe) for _ in range(8)} == {(200, "edge-1.db2\n")}
    assert {site.http(site.friend)[1] for _ in range(40)} == {"edge-1.db\n", "edge-1.db2\n"}
    site.labels = {}
    site.policies()
    site.show_pods()
    site.show_services(RULE)
    settled(site, site.foe, 403)


# --- agents from before -----------------------------------------------------------------------------


class Learner(Pretender):
    """Asks for everything, as an agent that holds nothing, and keeps what it is told."""

    def __init__(self, site, name, *headers):
        self.told = {}
        super().__init__(site.hub.machine, site.hub.address, Authority.of_hub(site.hub), name, None, *headers)

    def say(self, operation, resource, content, parent=""):
        self.frame(1, json.dumps({
            "header": {"msg_id": str(uuid.uuid4()), "parent_msg_id": parent, "timestamp": 1, "resourceversion": "", "sync": False},
            "route": {"source": "edgeway-agent", "group": "resource", "operation": operation, "resource": resource}, "content": content}).encode())

    def heed(self, message):
        operation, resource = message["route"]["operation"], message["route"]["resource"]
        if resource == "node/hello":
            self.say("query", "digest/buckets", {"buckets": "0" * 4096})
        elif resource == "digest/buckets" and message["content"]["buckets"]:
            self.say("query", "digest/services", {"buckets": message["content"]["buckets"], "services": {}})
        elif operation in ("update", "delete"):
            self.told[resource] = message["content"] if operation == "update" else None
            self.say("response", resource, "", message["header"]["msg_id"])
        elif resource == "digest/services":
            self.told["synced"] = message["content"]["synced"]


def test_an_older_agent_is_not_told(site):
    """It would let everybody in. What was open and is closed goes from it, and comes back when it is open again."""
    with Learner(site, "old-1") as old, Learner(site, "new-1", "edgeway-enforces: later, allow-from") as new:
        wait_for("all is told", lambda: "synced" in old.told and "synced" in new.told)
        assert set(old.told) - {"synced"} == {"default/service/open"}
        assert set(new.told) - {"synced"} == {"default/service/open", "default/service/db", "default/service/db-udp", "node/callers"}
        assert new.told["node/callers"] == {"node": {}, "pods": []}
        assert list(new.told)[0] == "node/callers"  # before what needs it
        site.show_services(None)
        wait_for("open", lambda: old.told.get("default/service/db"))
        site.show_services(RULE)
        wait_for("closed", lambda: old.told["default/service/db"] is None)
        wait_for("with its rule", lambda: new.told["default/service/db"].get("allowFrom") == RULE)
    settled(site, site.foe, 403)
