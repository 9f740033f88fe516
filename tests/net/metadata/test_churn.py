"""1 000 changes a second from Kubernetes: nothing is lost, and a node that does not read gets the newest state only."""
import json
import os
import signal
import sqlite3

import pytest

from fleet import Fleet
from kube import ApiServer, KubeHub
from lab import Agent, Lab, Node, wait_for

pytestmark = pytest.mark.plain_build  # counts on a program that keeps up with the changes
SERVICES, ENDPOINTS, RATE, SECONDS = 1500, 5, 1000, 5
READY = 1  # ENDPOINT_READY in model/service.h
FOLLOWED = "services", "endpointslices", "pods"


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def views_of(agent):
    """What the agent has stored."""
    db = sqlite3.connect(os.path.join(agent.data, "edgeway.db"))
    found = dict(db.execute("SELECT key, view FROM service"))
    db.close()
    return found


def ready_of(api):
    """{namespace/name: addresses that are ready}, by the source itself."""
    there = {f"{ns}/{name}" for ns, name in api.services()}
    return {key: ready for s in api.read_all("endpointslices", group="discovery.k8s.io")
            for key in [f'{s["metadata"]["namespace"]}/{s["metadata"]["labels"]["kubernetes.io/service-name"]}'] if key in there
            for ready in [{e["addresses"][0] for e in s["endpoints"] if e["conditions"]["ready"]}]}


def ready_in(view):
    ports = json.loads(view)["ports"]
    return {e["podIP"] for p in ports[:1] for e in p["endpoints"] if e["flags"] & READY}


def node_of(hub, name):
    return next(n for n in json.loads(hub.ask("/nodes")[1])["nodes"] if n["node"] == name)


def test_a_stopped_agent_gets_the_newest_state_only(lab):
    api = ApiServer(lab)
    api.ctl("slices", on=False)
    api.ctl("bookmarks", seconds=1)
    api.ctl("bulk", services=SERVICES, endpoints=ENDPOINTS, pods=SERVICES * ENDPOINTS)
    hub = KubeHub(lab, api)
    wait_for("everything is read", lambda: hub.ready() and hub.metrics()["edgeway_hub_services"] == SERVICES)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    fleet = Fleet(hub)
    assert fleet.ask("connect", 5)["connected"] == 5
    wait_for("synced", lambda: agent.state()["meta"]["synced"] and agent.state()["services"] == SERVICES)
    os.kill(agent.process.pid, signal.SIGSTOP)
    sent, lag = hub.metrics()['edgeway_hub_messages_sent_total{operation="update"}'], []
    api.ctl("churn", rate=RATE, seconds=SECONDS)
    while not api.ctl("churned")[1]:
        fleet.ask("changes", 1 << 30, 0.2)  # its nodes read while it is asked something
        lag.append(node_of(hub, "edge-1"))
    rev = api.ctl("rev")
    wait_for("all is read", lambda: all(int(hub.source()[r]["version"]) >= rev for r in FOLLOWED))
    # What waits for it is a number for each service; what is on its way is within the window.
    seen = [n for n in lag if n["connected"]]
    print(seen[-1], hub.metrics()["edgeway_hub_changes_merged_total"])
    assert len(seen) > 5 and max(n["pending"] for n in seen) <= SERVICES
    assert max(n["queuedBytes"] for n in seen) <= (1 << 20) + (256 << 10)
    assert seen[-1]["pending"] > 0
    assert hub.metrics()["edgeway_hub_changes_merged_total"] > 0
    wait_for("the others have all", lambda: fleet.ask("check")["in_step"] == 5)
    others = hub.metrics()['edgeway_hub_messages_sent_total{operation="update"}'] - sent
    assert others > 5 * SERVICES  # they were told as it came
    told = hub.metrics()['edgeway_hub_messages_sent_total{operation="update"}']
    os.kill(agent.process.pid, signal.SIGCONT)
    wait_for("it has all", lambda: (lambda n: n["connected"] and n["synced"] and n["pending"] == n["unacked"] == 0)(node_of(hub, "edge-1")))
    assert hub.metrics()['edgeway_hub_messages_sent_total{operation="update"}'] - told <= SERVICES
    agent.stop()
    assert {k: ready_in(v) for k, v in views_of(agent).items()} == ready_of(api)
