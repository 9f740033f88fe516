"""deploy/kubernetes/monitoring: alerts that promtool accepts and that fire when they should, a dashboard whose queries it reads, and
no metric in either that the daemons do not have."""
import glob
import json
import os
import re
import shutil
import subprocess
import time

import pytest
import yaml

import cluster
from kube import ACCOUNT, ApiServer, KubeHub
from lab import TOP, Agent, Lab, Node, service, wait_for

pytestmark = pytest.mark.plain_build  # promtool and rules; the metrics are those of others

FOLDER = os.path.join(cluster.FOLDER, "monitoring")
METRIC = re.compile(r"edgeway_[a-z0-9_]+")


def rule_spec():
    """What stands in rules.yaml; tests/lint holds alerts.yaml against it."""
    with open(os.path.join(FOLDER, "rules.yaml")) as f:
        return yaml.safe_load(f)


def dashboard():
    with open(os.path.join(FOLDER, "dashboard.json")) as f:
        return json.load(f)


def queries():
    return [t["expr"] for p in dashboard()["panels"] for t in p.get("targets", [])]


def promtool(folder, *argv):
    return subprocess.run([shutil.which("promtool"), *argv], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120)


def write(folder, name, obj):
    with open(os.path.join(folder, name), "w") as f:
        yaml.safe_dump(obj, f)


def test_alerts():
    """As they lie there for a plain Prometheus, and as kubectl renders them for its operator."""
    assert cluster.find(cluster.render(FOLDER), "PrometheusRule", "edgeway")["spec"] == rule_spec()
    for command in (("check", "rules", "rules.yaml"), ("test", "rules", "rules_test.yaml")):
        made = promtool(FOLDER, *command)
        assert made.returncode == 0, made.stdout


def test_every_alert_is_seen_to_fire():
    """The tests of the rules, which compare all alerts that fire with those that are to, name each of them."""
    with open(os.path.join(FOLDER, "rules_test.yaml")) as f:
        tests = yaml.safe_load(f)["tests"]
    fired = {name for t in tests for e in t["promql_expr_test"] for s in e["exp_samples"] for name in re.findall(r'alertname="(\w+)"', s["labels"])}
    rules = [r for g in rule_spec()["groups"] for r in g["rules"]]
    assert {r["alert"] for r in rules} == fired and len(fired) == len(rules)
    for rule in rules:
        assert {"summary", "remedy"} == rule["annotations"].keys() and rule["labels"]["severity"]


def test_every_alert_is_seen_to_be_silent():
    """In the first test of the rules nothing fires, with a healthy series of everything that an alert looks at."""
    with open(os.path.join(FOLDER, "rules_test.yaml")) as f:
        well = yaml.safe_load(f)["tests"][0]
    given = {name for s in well["input_series"] for name in METRIC.findall(s["series"])}
    asked = {name for g in rule_spec()["groups"] for r in g["rules"] for name in METRIC.findall(r["expr"])}
    assert asked - given == set() and well["promql_expr_test"][0]["exp_samples"][0]["value"] == 0


def test_dashboard_starts_with_what_needs_attention():
    """The first row: what is wrong now, as single numbers that change their colour, and which alerts fire. The rest is below, by subject."""
    panels = dashboard()["panels"]
    rows = [i for i, p in enumerate(panels) if p["type"] == "row"]
    assert rows[0] == 0 and panels[0]["title"] == "Needs attention" and len(rows) > 4
    first = panels[1:rows[1]]
    assert [p["type"] for p in first].count("stat") >= 6 and any("ALERTS" in t["expr"] for p in first for t in p["targets"])
    for p in first:
        if p["type"] == "stat":
            steps = p["fieldConfig"]["defaults"]["thresholds"]["steps"]
            assert [s["color"] for s in steps][0] != steps[-1]["color"] and all(t["instant"] for t in p["targets"]), p["title"]
    tops = [p["gridPos"]["y"] for p in panels]
    assert tops == sorted(tops)


def test_dashboard(tmp_path):
    """Every query parses, variables put in; a broken one would be told."""
    panels = dashboard()["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    said = " ".join(p["title"] for p in panels)
    assert all(word in said for word in ("Services", "DNS", "Metadata", "Tunnel", "Loops", "Memory"))
    places = [tuple(p["gridPos"].values()) for p in panels]
    assert len(set(places)) == len(panels)

    def parses(exprs):
        write(tmp_path, "queries.yaml", {"groups": [{"name": "dashboard", "rules": [
            {"record": f"panel:{i}", "expr": e.replace("$instance", ".*")} for i, e in enumerate(exprs)]}]})
        return promtool(tmp_path, "check", "rules", "queries.yaml")

    made = parses(queries())
    assert made.returncode == 0, made.stdout
    assert parses(queries() + ["sum(rate(edgeway_x[5m])"]).returncode != 0


def test_service_monitor_finds_the_service():
    objects = cluster.render()
    monitor = cluster.find(cluster.render(FOLDER), "ServiceMonitor", "edgeway-hub")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    found = [o for o in objects if o["kind"] == "Service" and wanted <= o["metadata"]["labels"].items()]
    assert [o["metadata"]["name"] for o in found] == ["edgeway-hub-metrics"]
    assert found[0]["metadata"]["namespace"] == monitor["metadata"]["namespace"]
    ports = [p["name"] for p in found[0]["spec"]["ports"]]
    assert [e["port"] for e in monitor["spec"]["endpoints"]] == ports


PAGE = re.compile(r'^\.BR (\w+) " \((\w+)(?:; \w+)?\)"$', re.M)


def manual():
    """{metric: type} of edgeway-metrics(7)"""
    with open(os.path.join(TOP, "doc", "edgeway-metrics.7")) as f:
        return dict(PAGE.findall(f.read()))


def documented(*daemons):
    """Each metric that they tell, with its type."""
    told = {}
    for d in daemons:
        told.update(re.findall(r"^# TYPE (\w+) (\w+)$", d.ask("/metrics")[1], re.M))
    assert len(told) > 130 and {n: t for n, t in told.items() if manual().get(n) != t} == {}


def test_names_of_the_sources_are_in_the_manual():
    """Also of those that need more than a hub and an agent to be told; and none is there that no source has: a row of a table, or a call, has the
    whole name."""
    text = "".join(open(p).read() for folder in ("base", "dns", "hub", "iptables", "lb", "meta", "src", "tracing", "tunnel")
                   for p in glob.glob(os.path.join(TOP, folder, "**", "*.[ch]"), recursive=True))
    written = set(re.findall(r'"((?:edgeway|process)_\w*[a-z])"', text))
    assert len(written) > 150 and written == manual().keys()


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def test_every_metric_is_one_of_ours(lab):
    api = ApiServer(lab)
    api.ctl("grant", user=ACCOUNT)
    hub = KubeHub(lab, api, "--join.approval", "true", "--ingress.redirect", "{listen: '127.0.0.1:10260'}", "--ingress.tcp",
                  "[{listen: '127.0.0.1:7001', node: edge-1, target: 80}, {listen: '127.0.0.1:7002', node: edge-1, target: 81}]")
    api.apply(service("web", ("http", 80, 8080)))
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    node = agent.node
    wait_for("a name", lambda: node.address_of("web.default.svc.cluster.local", f"@{node.gateway}"))
    node.get(f"http://{node.address_of('web.default.svc.cluster.local', f'@{node.gateway}')}/")
    ours = {name.partition("{")[0] for name in {**hub.metrics(), **agent.metrics()}}
    labels = " ".join({**hub.metrics(), **agent.metrics()})
    wait_for("counted", lambda: "edgeway_service_requests_total" in " ".join(agent.metrics()))
    ours |= {name.partition("{")[0] for name in agent.metrics()}
    exprs = queries() + [r["expr"] for g in rule_spec()["groups"] for r in g["rules"]]
    used = {name for e in exprs for name in METRIC.findall(e)}
    assert len(used) > 20 and used - ours - manual().keys() == set()  # what is zero may be left out
    labels += " ".join(agent.metrics())
    documented(hub, agent)
    for daemon in (hub, agent):
        p = subprocess.run(("promtool", "check", "metrics"), input=daemon.ask("/metrics")[1], text=True, capture_output=True)
        assert p.returncode == 0, p.stdout + p.stderr
    prometheus = {"instance", "job", "alertstate", "alertname"}  # labels that it gives itself
    for label in set(re.findall(r'(\w+)=~?"', " ".join(exprs))) - prometheus:
        assert f'{label}="' in labels
    assert hub.metrics()['edgeway_hub_service_without_endpoints{namespace="default",service="web"}'] == 1
    assert [hub.metrics()[f"edgeway_hub_nodes_{what}"] for what in ("known", "away")] == [1, 0]

    def seen():
        return hub.metrics()['edgeway_hub_node_last_seen_timestamp_seconds{node="edge-1"}']
    agent.stop()
    wait_for("it is away", lambda: [hub.metrics()[f"edgeway_hub_nodes_{what}"] for what in ("known", "away", "connected")] == [1, 1, 0])
    last = seen()
    wait_for("time goes by", lambda: time.time() > last + 2)
    assert seen() == last
