"""deploy/kubernetes/distributions and the chart's values-*.yaml: both make the same of each distribution, on the nodes that doc/distributions.md
says, by the files and addresses that it names; an agent of theirs serves a node without docker0, and leaves it as it was."""
import ipaddress
import os
import re
import shutil
import subprocess

import pytest
import yaml

import cluster
import lab as labs
from helm import BUILD, CHART, template
from kubeschema import complaints
from test_deploy import agent_pod, api, grant, hub_pod, join, lab, ready
from test_pod_interfaces import CLUSTER_DNS, CniNode, Town, asks, is_served

pytestmark = pytest.mark.plain_build  # kubectl, helm and manifests; what the agent does on such nodes, tests/net/node/test_pod_interfaces.py tries

OURS = {"key": "edgeway.io/node", "operator": "In", "values": ["true"]}
NODES = {"kubeadm": [OURS], "k3s": [OURS],
         "kubeedge": [{"key": "node-role.kubernetes.io/edge", "operator": "Exists"}, OURS],
         "openyurt": [{"key": "openyurt.io/is-edge-worker", "operator": "In", "values": ["true"]}, OURS]}
SET = {"mesh.interface": "own", "mesh.address": '""', "dns.resolvConf": "/host/etc/resolv.conf", "dns.manageResolvConf": "false",
       "dns.serveClusterDNS": "true", "onStop": "restore", "takeover": "true"}


def read(name):
    with open(os.path.join(labs.TOP, name)) as f:
        return f.read()


def kustomized(name, folder):
    """As the comment in kustomization.yaml says."""
    shutil.copytree(cluster.FOLDER, folder)
    path = folder / "kustomization.yaml"
    text, n = re.subn(r"^# (components:.*\n)#(   - distributions/)k3s$", rf"\1\2{name}", path.read_text(), flags=re.M)
    assert n == 1, "the lines for distributions"
    path.write_text(text)
    return cluster.render(str(folder))


def charted(name):
    return template("--values", os.path.join(CHART, f"values-{name}.yaml"), values={"host": "hub.example.org"})


def agent_of(objects):
    return cluster.find(objects, "DaemonSet", "edgeway-agent")


def terms(workload):
    return cluster.pod_of(workload)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def effective(objects, folder):
    """{key: value} that the agent itself makes of its pod's file and variables."""
    [data] = [o["data"] for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith("edgeway-agent")]
    path = folder / "agent.yaml"
    path.write_text(data["agent.yaml"])
    env = {e["name"]: e.get("value", "edge-1") for e in cluster.pod_of(agent_of(objects))["containers"][0]["env"]}
    p = subprocess.run([os.path.join(BUILD, "edgeway-agent"), "--config", str(path), "--check"], text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=90, env=env)
    assert p.returncode == 0 and "EDGEWAY_" not in p.stdout, p.stdout
    return dict(line.split(": ", 1) for line in p.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("name", NODES)
def test_kustomize_and_chart_make_the_same(name, tmp_path):
    """Of the same objects as without it, of which only the agent is another one; Kubernetes knows all of it, and the agent its keys."""
    by_kustomize, by_chart = kustomized(name, tmp_path / "kubernetes"), charted(name)
    keys = [{(o["kind"], o["metadata"]["name"]) for o in objects if o["kind"] != "ConfigMap"} for objects in (by_kustomize, by_chart)]
    assert keys[0] - keys[1] == {("Namespace", "edgeway")} and keys[1] <= keys[0]
    for objects in (by_kustomize, by_chart):
        assert [c for o in objects for c in complaints(o)] == []
        assert terms(agent_of(objects)) == [{"matchExpressions": NODES[name]}]
        assert {"operator": "Exists"} in cluster.pod_of(agent_of(objects))["tolerations"]
    found = [effective(objects, tmp_path) for objects in (by_kustomize, by_chart)]
    assert found[0] == found[1] and {k: found[0][k] for k in SET} == SET
    plain = {(o["kind"], o["metadata"]["name"]): o for o in cluster.render()}
    assert [k for k, o in plain.items() if o not in by_kustomize] == [("DaemonSet", "edgeway-agent")]


def selects(expressions, labels):
    """As the scheduler reads matchExpressions."""
    has = {"Exists": lambda e: e["key"] in labels, "DoesNotExist": lambda e: e["key"] not in labels,
           "In": lambda e: labels.get(e["key"]) in e["values"], "NotIn": lambda e: labels.get(e["key"]) not in e["values"]}
    return all(has[e["operator"]](e) for e in expressions)


@pytest.mark.parametrize("name, own", [("kubeadm", {}), ("k3s", {}), ("kubeedge", {"node-role.kubernetes.io/edge": ""}),
                                       ("openyurt", {"openyurt.io/is-edge-worker": "true"})])
def test_a_label_takes_a_node_in(name, own):
    """That alone, where the distribution has marked the node as one of the edge; and never the hub."""
    objects, taken = charted(name), {"edgeway.io/node": "true"}
    [agent], [hub] = (terms(cluster.find(objects, *which)) for which in (("DaemonSet", "edgeway-agent"), ("Deployment", "edgeway-hub")))
    wants = [selects(agent["matchExpressions"], labels) for labels in ({**own, **taken}, own, {**own, "edgeway.io/node": "false"}, taken)]
    assert wants == [True, False, False, own == {}]
    assert [selects(hub["matchExpressions"], labels) for labels in (
        {}, {"openyurt.io/is-edge-worker": "false", "edgeway.io/node": "false"}, {**own, **taken}, own)] == [
        True, True, False, own == {}]


def block(section, key):
    """The YAML of a section of doc/distributions.md that begins with a key."""
    text = read("doc/distributions.md").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return yaml.safe_load(re.search(rf"\n\n((?:    .*\n)*    {key}:(?:.*\n)(?:    .*\n)*)", text).group(1))


def test_the_document_names_what_is_there():
    page = read("doc/distributions.md")
    for name in NODES:
        assert os.path.exists(os.path.join(CHART, f"values-{name}.yaml")) and f"values-{name}.yaml" in page and f"distributions/{name}" in page
        for file in (f"deploy/helm/edgeway/values-{name}.yaml", f"deploy/kubernetes/distributions/{name}/kustomization.yaml"):
            assert "doc/distributions.md" in read(file) and file in read("deploy/local.mk")
        for e in NODES[name]:
            assert e["key"] in page
    for path in ("/var/lib/kubelet/config.yaml", "/etc/rancher/k3s/config.yaml", "/var/lib/rancher/k3s/agent/etc/resolv.conf",
                 "/etc/kubeedge/config/edgecore.yaml", "127.0.0.1:10261"):
        assert path in page
    assert block("kubeadm", "clusterDNS")["clusterDNS"] == [own_address()]
    assert block("k3s", "kubelet-arg") == {"kubelet-arg": [f"cluster-dns={own_address()}"]}
    assert block("k3s", "resolv-conf") == {"resolv-conf": "/etc/resolv.conf"}
    assert block("KubeEdge", "modules")["modules"]["edged"]["tailoredKubeletConfig"] == {"clusterDNS": [own_address()], "clusterDomain": "cluster.local"}


def own_address():
    """edgeway0's, as edgeway.yaml(5) has it."""
    return re.search(r"address of edgeway0, which is (\S+) otherwise", read("doc/edgeway.yaml.5")).group(1)


def k3s_takes(text):
    """Does k3s give its kubelet this resolv.conf? isValidResolvConf of its pkg/agent/config: all of it global unicast, which private ones are."""
    servers = [ipaddress.ip_address(s) for s in re.findall(r"^nameserver\s+(\S*)", text, re.M)]
    return servers != [] and not any(s.is_loopback or s.is_multicast or s.is_link_local or s.is_unspecified for s in servers)


def test_a_node_is_taken_in_and_left(lab, api, tmp_path):
    """Names at both addresses that a kubelet may give pods, /etc/resolv.conf as k3s takes it, nothing left at the end."""
    objects = kustomized("k3s", tmp_path / "kubernetes")
    grant(api, cluster.rules(objects))
    api.kubectl("apply", "-k", str(tmp_path / "kubernetes"))
    api.apply(labs.service("kube-dns", ("dns", 53, 53), namespace="kube-system", protocol="UDP", clusterIP=CLUSTER_DNS),
              labs.service("web", ("http", 80, "http"), selector="nobody"))
    hub = hub_pod(lab, api, objects, 0)
    hub.start()
    labs.wait_for("the hub is ready", ready(hub))
    node = CniNode(lab, "edge-1", "192.0.2.11")
    agent, pod = agent_pod(api, objects, node), node.pod("shop")
    join(api, agent)
    assert agent.state()["iptables"]["interface"] == "edgeway0"
    [address] = block("KubeEdge", "modules")["modules"]["edged"]["tailoredKubeletConfig"]["clusterDNS"]
    for server in (address, CLUSTER_DNS):
        labs.wait_for(f"names at {server}", lambda: (asks(pod, server) or "").startswith("9.251."))
    text = node.resolv().decode()
    assert text.encode() == node.original and k3s_takes(text) and not k3s_takes(f"nameserver {address}\n{text}")
    assert agent.process.stop() == 0
    assert node.clean() and "edgeway0" not in node.run("ip", "-o", "link").stdout


def test_a_rollout_undoes_nothing(lab):
    """The next agent takes over, the former one ends with onStop: restore, and its interface, rules and answers stay."""
    town = Town(lab, "--mesh.interface", "own", "--dns.serveClusterDNS", "true", "--dns.manageResolvConf", "false", "--onStop", "restore")
    node, pod, before = town.node, town.node.pod("shop"), town.agent
    labs.wait_for("names", lambda: is_served(pod, CLUSTER_DNS) and is_served(pod, own_address()))
    unchanged = node.table(), node.route(), node.run("ip", "-o", "addr", "show", "edgeway0").stdout
    after = labs.Agent(node, None, *before.options, "--takeover", "true", token=before.token)
    labs.wait_for("all handed over", lambda: "waiting to be stopped" in before.process.log())
    assert before.process.stop() == 0 and after.ready()
    assert unchanged == (node.table(), node.route(), node.run("ip", "-o", "addr", "show", "edgeway0").stdout)
    assert is_served(pod, CLUSTER_DNS) and is_served(pod, own_address())
    assert after.stop() == 0 and node.clean()
