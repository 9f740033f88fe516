"""deploy/helm/edgeway: by default what deploy/kubernetes is, object for object; every value does something, and a wrong one is told."""
import base64
import copy
import functools
import json
import os
import re
import shutil
import subprocess

import pytest
import yaml

import cluster
from helm import BUILD, CHART, helm, program, template, text
from kube import ApiServer
import kubetypes
from kubeschema import complaints
from lab import TOP, Lab

pytestmark = pytest.mark.plain_build  # helm and kubectl, and no daemon of ours for long

HOST = {"host": "hub.example.org"}
KINDS = ("deployments,daemonsets,services,configmaps,serviceaccounts,networkpolicies,poddisruptionbudgets,roles,rolebindings,"
         "clusterroles,clusterrolebindings")
CUSTOM = {"ServiceMonitor", "PrometheusRule"}  # the Prometheus operator's


def merged(a, b):
    return {**a, **{k: merged(a[k], v) if isinstance(v, dict) and isinstance(a.get(k), dict) else v for k, v in b.items()}}


def nested(path, value):
    """{"a": {"b": value}} of "a.b"."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def plain(objects):
    """By kind and name. Without what names a content: kustomize's suffixes of ConfigMaps, the chart's checksums."""
    found = {}
    for o in copy.deepcopy(objects):
        o["metadata"]["name"] = re.sub(r"^(edgeway-(?:hub|agent))-[a-z0-9]{10}$", r"\1", o["metadata"]["name"])
        if o["kind"] == "ConfigMap":
            o["data"] = {k: yaml.safe_load(v) for k, v in o["data"].items()}
        if o["kind"] in ("Deployment", "DaemonSet"):
            meta = o["spec"]["template"]["metadata"]
            if list(meta.get("annotations", ())) == ["checksum/config"]:
                del meta["annotations"]
            config = o["spec"]["template"]["spec"]["volumes"][0]["configMap"]
            config["name"] = re.sub(r"-[a-z0-9]{10}$", "", config["name"])
        found[o["kind"], o["metadata"]["name"]] = o
    assert len(found) == len(objects)
    return found


def test_by_default_it_is_the_kustomization():
    wanted = plain(cluster.render())
    assert plain(template(values={**HOST, "namespace": {"create": True}})) == wanted
    del wanted["Namespace", "edgeway"]
    assert plain(template(values=HOST)) == wanted


def test_on_control_plane_hosts_it_is_the_patched_kustomization(tmp_path):
    folder = tmp_path / "kubernetes"
    shutil.copytree(cluster.FOLDER, folder)
    cluster.on_control_plane_hosts(folder)
    wanted = plain(cluster.render(str(folder)))
    assert plain(template(values={**HOST, "namespace": {"create": True}, "hub": {"redirect": True}})) == wanted
    own = {"listen": "127.0.0.1:10261", "ports": [10250]}
    made = cluster.find(template(values={**HOST, "hub": {"redirect": True, "config": {"ingress": {"redirect": own}}}}), "DaemonSet", "edgeway-hub")
    assert "env" not in cluster.pod_of(made)["containers"][0]  # a variable would win over the file


def test_monitoring_is_that_of_the_kustomization():
    made = plain(template(values={**HOST, "monitoring": {"enabled": True}}))
    wanted = plain(cluster.render(os.path.join(cluster.FOLDER, "monitoring")))
    assert {k: made[k] for k in wanted} == wanted and {k for k, _ in wanted} == CUSTOM
    with open(os.path.join(cluster.FOLDER, "monitoring", "dashboard.json")) as f:
        assert made["ConfigMap", "edgeway-dashboard"]["data"]["edgeway.json"] == json.load(f)


@pytest.mark.parametrize("config, file", [
    ({"source": {"kubernetes": {"destinationRules": True}}}, "rbac-destinationrules.yaml"),
    ({"source": {"kubernetes": {"networkPolicies": True}}}, "rbac-networkpolicies.yaml"),
    ({"source": {"kubernetes": {"sites": True}}}, "rbac-sites.yaml"),
    ({"ingress": {"hostsConfigMap": "kube-system/edgeway-nodes"}}, "rbac-hosts.yaml")])
def test_rights_follow_from_the_configuration(config, file):
    with open(os.path.join(cluster.FOLDER, file)) as f:
        wanted = plain(list(yaml.safe_load_all(f)))
    before, after = plain(template(values=HOST)), plain(template(values={**HOST, "hub": {"config": config}}))
    assert {k: after[k] for k in after.keys() - before.keys()} == wanted
    without = template(values={**HOST, "hub": {"config": {**config, "join": {"approval": False}}}, "rbac": {"create": False}})
    assert not [o for o in without if "Role" in o["kind"]]


@pytest.mark.parametrize("said, there", [("auto", True), (True, True), (False, False)])
def test_rights_for_routes_are_there_unless_they_are_off(said, there):
    made = plain(template(values={**HOST, "hub": {"config": {"source": {"kubernetes": {"gatewayAPI": said}}}}}))
    with open(os.path.join(cluster.FOLDER, "rbac-gateway.yaml")) as f:
        wanted = plain(list(yaml.safe_load_all(f)))
    assert {k: made.get(k) for k in wanted} == (wanted if there else dict.fromkeys(wanted))


def test_the_page():
    """As web.yaml and web-hub.yaml have it, by the configuration file in place of variables."""
    with open(os.path.join(cluster.FOLDER, "web.yaml")) as f:
        wanted = plain(list(yaml.safe_load_all(f)))
    with open(os.path.join(cluster.FOLDER, "web-hub.yaml")) as f:
        patch = cluster.pod_of(yaml.safe_load(f))
    made = plain(template(values=merged(HOST, PAGE)))
    assert {k: made[k] for k in made.keys() - plain(template(values=HOST)).keys()} == wanted
    pod, own = cluster.pod_of(made["Deployment", "edgeway-hub"]), patch["containers"][0]
    assert own["ports"][0] in pod["containers"][0]["ports"] and own["volumeMounts"][0] in pod["containers"][0]["volumeMounts"]
    assert patch["volumes"][0] in pod["volumes"] and len(pod["volumes"]) == 4 and "env" not in pod["containers"][0]
    web = made["ConfigMap", "edgeway-hub"]["data"]["hub.yaml"]["web"]
    assert {f"EDGEWAY_WEB_{k.upper()}": v for k, v in web.items()} == {e["name"]: e["value"] for e in own["env"]}
    everybody = plain(template(values=merged(HOST, merged(PAGE, {"web": {"from": []}}))))
    assert "from" not in everybody["NetworkPolicy", "edgeway-hub-web"]["spec"]["ingress"][0]


def test_rights_on_another_config_map():
    made = plain(template(values={**HOST, "hub": {"config": {"ingress": {"hostsConfigMap": "dns/names"}}}}))
    role, binding = made["Role", "edgeway-hub-hosts"], made["RoleBinding", "edgeway-hub-hosts"]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "dns"
    assert [r.get("resourceNames") for r in role["rules"]] == [None, ["names"]]


PAGE = {"web": {"enabled": True}, "hub": {"config": {"access": [{"from": "token:ann", "tokenSHA256": "0" * 64, "to": ["hub:web"]}]}}}

# A value that is not the default, for each of values.yaml; and what else must be so for it to mean anything.
OTHER = {
    "host": "hub.other.example", "image.repository": "registry.example/edgeway", "image.tag": "1.0",
    "image.digest": "sha256:" + "0" * 64, "image.pullPolicy": "Always", "image.pullSecrets": [{"name": "registry"}],
    "namespace.create": True,
    "hub.replicas": 3, "hub.config.listen": "192.0.2.1:10000", "hub.config.source.kubernetes": {"share": False},
    "hub.config.tls.service": "other/hub", "hub.config.join.approval": False, "hub.config.peers": ["192.0.2.1"],
    "hub.config.admin.listen": "127.0.0.1:10012",
    "hub.ingressPorts": [{"name": "http", "port": 10080, "from": [{"podSelector": {}}]}, {"name": "dns", "port": 10053, "protocol": "UDP", "from": []}],
    "hub.redirect": True, "hub.serviceAccount.create": False, "hub.serviceAccount.name": "hub",
    "hub.serviceAccount.annotations": {"a": "b"}, "hub.podDisruptionBudget.enabled": False,
    "hub.podDisruptionBudget.maxUnavailable": "50%", "hub.topologySpreadConstraints":
        [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "service.type": "NodePort", "service.port": 443, "service.nodePort": 30443, "service.annotations": {"a": "b"},
    "service.externalTrafficPolicy": "Cluster", "service.loadBalancerSourceRanges": ["192.0.2.0/24"],
    "ingress.enabled": True, "ingress.className": "nginx", "ingress.annotations": {"a": "b"}, "ingress.tlsSecret": "hub-tls",
    "web.enabled": True, "web.tlsSecret": "page", "web.clientCASecret": "callers", "web.names": ["page.example.org"],
    "web.service.type": "LoadBalancer", "web.service.annotations": {"a": "b"}, "web.from": [{"podSelector": {}}],
    "agent.enabled": False, "agent.config.dns.resolvConf": "/host/etc/resolv.edge", "agent.config.onStop": "restore",
    "agent.config.takeover": None, "agent.maxSurge": "10%",
    **{f"agent.secrets.{what}.{key}": key + "-other" for what in ("token", "proxy", "tracingHeaders") for key in ("name", "key", "value")},
    "rbac.create": False, "networkPolicy.enabled": False, "networkPolicy.metricsFrom": [{"podSelector": {}}],
    "monitoring.enabled": True, "monitoring.labels": {"release": "prometheus"}, "monitoring.interval": "10s",
    "monitoring.dashboard.enabled": False, "monitoring.dashboard.labels": {"dashboards": "yes"},
    **{f"{who}.{key}": value for who in ("hub", "agent") for key, value in {
        "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}, "securityContext": {"seccompProfile": {"type": "Unconfined"}},
        "podSecurityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "edgeway.json"}},
        "env": [{"name": "EDGEWAY_LOG_LEVEL", "value": "debug"}], "affinity": {"nodeAffinity": None}, "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "edge", "operator": "Exists"}], "priorityClassName": "system-cluster-critical",
        "podLabels": {"team": "edge"}, "secretMounts": [{"name": "tls", "mountPath": "/etc/tls"}], "podAnnotations": {"a": "b"}}.items()},
}
WITH = {"ingress": {"ingress": {"enabled": True}}, "monitoring": {"monitoring": {"enabled": True}}, "web": PAGE,
        **{f"agent.secrets.{what}": nested(f"agent.secrets.{what}.name", what.lower()) for what in ("proxy", "tracingHeaders")}}
NEEDS = {"web.enabled": {"hub": PAGE["hub"]}}
REFUSED = {"agent.config.takeover"}  # true or nothing


@functools.lru_cache()
def without(part):
    """What a value of this part of values.yaml is compared with."""
    return plain(template(values=merged(HOST, WITH.get(part, {}))))


def leaves(values, path=""):
    for key, value in values.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(value, dict) and value and here not in OTHER:
            yield from leaves(value, here)
        else:
            yield here


def defaults():
    with open(os.path.join(CHART, "values.yaml")) as f:
        return yaml.safe_load(f)


def part(path):
    return max((p for p in WITH if path.startswith(p + ".") and path != f"{p}.enabled"), key=len, default="")


def test_every_value_has_a_case():
    assert set(leaves(defaults())) == OTHER.keys()


@pytest.mark.parametrize("path", sorted(OTHER.keys() - REFUSED))
def test_every_value_changes_what_is_made(path):
    """And all of that is what Kubernetes knows."""
    made = template(values=merged(merged(HOST, WITH.get(part(path), NEEDS.get(path, {}))), nested(path, OTHER[path])))
    assert plain(made) != without(part(path))
    for o in made:
        assert complaints(o) == [], (o["kind"], o["metadata"]["name"])


def test_the_bus_of_the_host_is_mounted_for_resolved_alone():
    def mounted(config):
        [agent] = [o for o in template(values=merged(HOST, config)) if o["kind"] == "DaemonSet"]
        pod = agent["spec"]["template"]["spec"]
        assert complaints(agent) == []
        return [v["hostPath"]["path"] for v in pod["volumes"] if v["name"] == "dbus"], \
            [m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] == "dbus"]
    assert mounted({}) == ([], [])
    assert mounted(nested("agent.config.dns.host", "resolved")) == (["/run/dbus"], ["/run/dbus"])


APPARMOR = "container.apparmor.security.beta.kubernetes.io/agent"


def test_the_bus_of_ubuntu_wants_no_profile():
    """Since 1.30 by a field; earlier by an annotation of the pod, which names the container."""
    def agent(config):
        [made] = [o for o in template(values=merged(HOST, merged(nested("agent.config.dns.host", "resolved"), config))) if o["kind"] == "DaemonSet"]
        return made, made["spec"]["template"]
    late, pod = agent(nested("agent.podSecurityContext.appArmorProfile", {"type": "Unconfined"}))
    assert pod["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Unconfined"}}
    assert kubetypes.complaints(late) == []
    early, pod = agent({"agent": {"podAnnotations": {APPARMOR: "unconfined"}}})
    assert pod["metadata"]["annotations"][APPARMOR] == "unconfined" and APPARMOR.endswith("/" + pod["spec"]["containers"][0]["name"])
    assert complaints(early) == []


FILES = {"token": ("hub", "tokenFile"), "proxy": ("hub", "proxyFile"), "tracingHeaders": ("tracing", "headersFile")}


def file_of(made, path):
    """(Secret, key) that a path in the agent's container means."""
    pod = cluster.pod_of(cluster.find(made, "DaemonSet", "edgeway-agent"))
    folder, _, key = path.rpartition("/")
    [name] = [m["name"] for m in pod["containers"][0]["volumeMounts"] if m["mountPath"] == folder and m["readOnly"]]
    [volume] = [v["secret"] for v in pod["volumes"] if v["name"] == name]
    assert volume["defaultMode"] == 0o400
    return volume["secretName"], key


@pytest.mark.parametrize("what", FILES)
def test_a_secret_is_a_file_that_the_configuration_names(what):
    """Of a Secret that is there, or of one that the chart makes; its value is nowhere else."""
    def named(**given):
        made = template(values={**HOST, "agent": {"secrets": {what: given}}})
        part, key = FILES[what]
        return made, yaml.safe_load(data(made, "edgeway-agent")).get(part, {}).get(key)
    made, path = named(name="theirs", key="its.key")
    assert file_of(made, path) == ("theirs", "its.key") and not [o for o in made if o["kind"] == "Secret"]
    if what == "token":  # each node the key of its name
        made, path = named(name="theirs", key="")
        assert file_of(made, path + "/edge-1") == ("theirs", "edge-1")
    made, path = named(name="", value="f00d-and-more")
    name, key = file_of(made, path)
    [secret] = [o for o in made if o["kind"] == "Secret"]
    assert secret["metadata"]["name"] == name and {k: base64.b64decode(v) for k, v in secret["data"].items()} == {key: b"f00d-and-more"}
    assert "f00d" not in json.dumps([o for o in made if o is not secret])
    made, path = named(name="")
    pod = cluster.pod_of(cluster.find(made, "DaemonSet", "edgeway-agent"))
    assert path is None and [v["name"] for v in pod["volumes"] if "secret" in v] == ["join"] * (what != "token")


def test_an_agent_without_secrets_reads_its_configuration(tmp_path):
    """Its own certificate is from a Secret of the operator's, of which the chart knows the folder alone."""
    made = template(values={**HOST, "agent": {"secrets": {"token": {"name": ""}}, "secretMounts": [{"name": "node", "mountPath": "/etc/node"}],
                                              "config": {"hub": {"cert": "/etc/node/tls.crt", "key": "/etc/node/tls.key"}}}})
    assert file_of(made, yaml.safe_load(data(made, "edgeway-agent"))["hub"]["cert"]) == ("node", "tls.crt")
    assert "tokenFile" not in data(made, "edgeway-agent")


def data(objects, name):
    return next(iter(cluster.find(objects, "ConfigMap", name)["data"].values()))


@pytest.mark.parametrize("values", [
    {}, {"ingress": {"enabled": True}, "service": {"type": "ClusterIP"}}, {"service": {"port": 443}},
    {"web": {"enabled": True, "clientCASecret": "callers", "names": ["page.example.org"]}},
    {"hub": {"config": {"peers": None, "join": None, "tls": {"names": ["a.example", "b.example"]}, "ingress": {"http": "0.0.0.0:10080"},
                         "access": [{"from": "10.244.0.0/16", "to": ["edge-1:8080"]}]}},
     "agent": {"config": {"hub": {"heartbeat": "10s"}, "mesh": {"interfaces": ["br-*"]}}}}])
def test_the_programs_read_their_configuration(tmp_path, values):
    objects = template(values={**HOST, **values}, namespace="prod")
    for daemon in ("edgeway-hub", "edgeway-agent"):
        path = tmp_path / "config.yaml"
        path.write_text(data(objects, daemon))
        p = subprocess.run([os.path.join(BUILD, daemon), "--config", str(path), "--check"], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=90)
        assert p.returncode == 0 and "the configuration is fine" in p.stdout, p.stdout
    hub, agent = (yaml.safe_load(data(objects, name)) for name in ("edgeway-hub", "edgeway-agent"))
    assert hub["tls"]["service"] == "prod/edgeway-hub"
    assert ("peers" in hub) == ("hub" not in values)  # null takes away
    behind = "ingress" in values
    port = 443 if behind else values.get("service", {}).get("port", 10000)
    assert agent["hub"]["url"] == f"wss://hub.example.org:{port}"
    assert agent.get("tunnel") == ({"carrier": "websocket"} if behind else None)


def test_the_sample_of_the_readme():
    with open(os.path.join(CHART, "README.md")) as f:
        sample = yaml.safe_load(re.search(r"^    # values.yaml .*?\n\n", f.read(), re.M | re.S).group())
    made = template(values=sample)
    assert sample["networkPolicy"]["metricsFrom"] in [r.get("from") for r in cluster.find(
        made, "NetworkPolicy", "edgeway-hub")["spec"]["ingress"]]
    assert {o["kind"] for o in made} > CUSTOM


def test_a_new_configuration_is_a_new_rollout():
    def checksums(**values):
        return {name: cluster.find(made, kind, name)["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
                for made in [template(values=merged(HOST, values))]
                for kind, name in (("Deployment", "edgeway-hub"), ("DaemonSet", "edgeway-agent"))}
    before = checksums()
    assert checksums(hub={"replicas": 5}) == before
    after = checksums(agent={"config": {"log": {"level": "debug"}}})
    assert after["edgeway-hub"] == before["edgeway-hub"] and after["edgeway-agent"] != before["edgeway-agent"]


def test_another_namespace_and_account():
    """Nothing of the names of the manifests is left, and all that is named is there."""
    objects = template(values=merged(HOST, {"namespace": {"create": True}, "hub": {"serviceAccount": {"name": "someone"}}, "monitoring": {"enabled": True}}),
                       namespace="prod")
    for o in objects:
        assert o["metadata"].get("namespace") == (None if o["kind"] in ("Namespace", "ClusterRole", "ClusterRoleBinding") else "prod")
        for s in o.get("subjects", ()):
            assert s["namespace"] == "prod"
            cluster.find(objects, "ServiceAccount", s["name"])
    cluster.find(objects, "Namespace", "prod")
    assert cluster.pod_of(cluster.find(objects, "Deployment", "edgeway-hub"))["serviceAccountName"] == "someone"


# What is said differs from helm to helm; the place and the word are in all.
@pytest.mark.parametrize("values, said", [
    ({"host": "hub.example.org:443"}, ["host", "match pattern"]),  # the port is service.port
    ({"host": ""}, ["host: the name by which edge nodes find the hub is needed, such as hub.example.org"]),
    ({"hots": "x"}, ["hots", "not allowed"]),
    ({"hub": {"replicas": "two"}}, ["hub.replicas", "integer"]),
    ({"hub": {"config": {"listen": "0.0.0.0:443"}}}, ["hub.config.listen", "match pattern ':10000$'"]),
    ({"hub": {"config": {"ingress": {"hostsConfigMap": "names"}}}}, ["hub.config.ingress.hostsConfigMap", "match pattern"]),
    ({"hub": {"ingressPorts": [{"name": "http", "port": 10080}]}}, ["hub.ingressPorts.0", "from"]),
    ({"web": {"enabled": True}}, ["hub.config.access", "hub:web"]),
    ({"service": {"type": "ExternalName"}}, ["service.type", "must be one of"]),
    ({"image": {"digest": "0123"}}, ["image.digest", "match pattern"]),
    ({"agent": {"config": {"takeover": False}}}, ["agent.config.takeover"]),
    ({"agent": {"config": {"takeover": None}}}, ["agent.config", "takeover"]),
    ({"agent": {"config": {"hub": {"token": "0123.s3cret"}}}}, ["agent.config.hub.token: many may read this: give agent.secrets.token"]),
    ({"agent": {"config": {"hub": {"proxy": "http://me:s3cret@proxy:3128"}}}}, ["agent.config.hub.proxy: many", "agent.secrets.proxy"]),
    ({"hub": {"config": {"tracing": {"headers": ["key=s3cret"]}}}}, ["hub.config.tracing.headers: many", "tracing.headersFile"]),
    ({"hub": {"env": [{"name": "EDGEWAY_TRACING_HEADERS", "value": "key=s3cret"}]}}, ["hub.env: EDGEWAY_TRACING_HEADERS: many", "tracing.headersFile"]),
    ({"agent": {"config": {"tracing": {"headers": ["key=s3cret"]}}}}, ["agent.config.tracing.headers: many", "agent.secrets.tracingHeaders"]),
    ({"agent": {"env": [{"name": "EDGEWAY_HUB_TOKEN", "value": "0123.s3cret"}]}}, ["agent.env: EDGEWAY_HUB_TOKEN: many"]),
    ({"agent": {"env": [{"name": "EDGEWAY_HUB_PROXY", "value": "http://me:s3cret@proxy"}]}}, ["agent.env: EDGEWAY_HUB_PROXY: many"]),
    ({"agent": {"env": [{"name": "EDGEWAY_TRACING_HEADERS", "value": "key=s3cret"}]}}, ["agent.env: EDGEWAY_TRACING_HEADERS: many"]),
    ({"hub": {"config": {"web": {"key": "-----BEGIN PRIVATE KEY-----s3cret"}}}}, ["hub: many may read a key", "hub.secretMounts"]),
    ({"agent": {"config": {"hub": {"key": "-----BEGIN EC PRIVATE KEY-----s3cret"}}}}, ["agent: many may read a key", "agent.secretMounts"]),
    ({"agent": {"joinSecret": "join"}}, ["agent", "joinSecret", "not allowed"]),
    ({"agent": {"secrets": {"token": {"key": "a b"}}}}, ["agent.secrets.token.key", "match pattern"]),
    ({"hub": {"secretMounts": [{"name": "tls", "mountPath": "etc"}]}}, ["hub.secretMounts.0.mountPath", "match pattern"]),
    ({"agent": {"tolerations": {"operator": "Exists"}}}, ["agent.tolerations", "array"]),
    ({"monitoring": {"interval": "fast"}}, ["monitoring.interval", "match pattern"])])
def test_a_wrong_value_is_told(values, said):
    p = helm("template", "edgeway", CHART, "--values", "-", input=yaml.safe_dump(merged(HOST, values)), check=False)
    told = re.sub(r"(?<=\w)/(?=\w)", ".", p.stderr)
    assert p.returncode != 0 and [s for s in said if s not in told] == [], p.stderr
    assert "s3cret" not in p.stderr


def test_what_is_no_secret_may_be_in_the_configuration():
    config = {"hub": {"proxy": "http://proxy:3128"}, "tracing": {"endpoint": "http://collector:4318"}}
    env = [{"name": "EDGEWAY_TRACING_HEADERS", "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}}}]
    assert "http://proxy:3128" in data(template(values={**HOST, "agent": {"config": config, "env": env}}), "edgeway-agent")


def test_packaged_and_linted(tmp_path):
    """The archive stands by itself: the manifests that the chart has by a link are in it."""
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, "--set", "host=hub.example.org").stdout
    with open(os.path.join(TOP, "configure.ac")) as f:
        version = re.search(r"^AC_INIT\(\[edgeway\], \[([^]]+)\]", f.read(), re.M).group(1)
    helm("package", CHART, "--destination", str(tmp_path))
    archive = tmp_path / f"edgeway-{version}.tgz"
    assert text("--set", "host=a.example", chart=str(archive)) == text("--set", "host=a.example")
    assert cluster.pod_of(cluster.find(template(values=HOST, chart=str(archive)), "Deployment", "edgeway-hub"))["containers"][0]["image"] == f"edgeway:{version}"
    names = subprocess.run(["tar", "-tf", str(archive)], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    assert "edgeway/kubernetes/hub.yaml" in names and "edgeway/kubernetes/config/hub.yaml" not in names


@pytest.fixture
def api():
    with Lab() as lab:
        made = ApiServer(lab)
        made.kubectl("delete", "namespace", "edgeway")
        yield made
        print(f"--- API server\n{made.process.log()[-3000:]}")


# kubectl creates Secrets in protobuf, which the API server of the tests does not read.
JSON_KUBECTL = """#!/bin/sh
case "$*" in
*" create "*) {kubectl} "$@" --dry-run=client -o json | {kubectl} apply -f - ;;
*) exec {kubectl} "$@" ;;
esac
"""


def test_installed_upgraded_and_removed(api, tmp_path):
    """By helm itself, at an API server; the command of its notes makes the Secret that agents wait for."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(JSON_KUBECTL.format(kubectl=shutil.which("kubectl")))
    kubectl.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": api.dir, "KUBECONFIG": os.path.join(api.dir, "admin.conf")}

    def run(*argv):
        return api.machine.run(*argv, env=env, seconds=60).stdout

    def names():
        return set(api.kubectl("get", KINDS, "-n", "edgeway", "-l", "app.kubernetes.io/managed-by=Helm", "-o", "name").split())

    notes = run(program(), "install", "edgeway", CHART, "--namespace", "edgeway", "--create-namespace", "--set", "host=hub.example.org")
    assert len(names()) == len(template(values=HOST)) and "deployment.apps/edgeway-hub" in names()
    # At once, before there is a hub, which makes the Secret of its CA before it is ready.
    joins = api.machine.start("joins", "sh", "-ec", re.search(r"^  kubectl .*?\.approval$", notes, re.M | re.S).group(), env=env)
    assert joins.logged("Waiting for deployment"), joins.log()
    run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=hub", "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "ca"))
    run("kubectl", "-n", "edgeway", "create", "secret", "generic", "edgeway-hub-ca", f"--from-file=ca.pem={tmp_path}/ca")
    hub = api.read("deployments", "edgeway-hub", "edgeway", "apps")
    n = hub["spec"]["replicas"]
    hub["status"] = {"observedGeneration": hub["metadata"].get("generation", 1), "replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n}
    api.ctl("put", group="apps", resource="deployments", obj=hub)
    assert joins.wait(60) == 0, joins.log()
    token = api.kubectl("get", "secret", "-n", "edgeway", "edgeway-join", "-o", "go-template={{.data.token | base64decode}}")
    der = run("sh", "-c", f"openssl x509 -outform DER -in {tmp_path}/ca | sha256sum")
    assert token == der.split()[0] + ".approval"
    # On control-plane hosts the hub is a DaemonSet, one on each of them.
    said = run(program(), "upgrade", "edgeway", CHART, "--namespace", "edgeway", "--reuse-values", "--dry-run", "--set", "hub.redirect=true")
    notes = said.split("\nNOTES:\n")[1]
    assert "deploy" not in notes and "2 hubs" not in notes and notes.count(" daemonset/edgeway-hub ") == 4, notes
    run(program(), "upgrade", "edgeway", CHART, "--namespace", "edgeway", "--reuse-values", "--set", "hub.replicas=5,networkPolicy.enabled=false")
    assert api.kubectl("get", "deployment", "-n", "edgeway", "edgeway-hub", "-o", "jsonpath={.spec.replicas}") == "5"
    assert "networkpolicy.networking.k8s.io/edgeway-hub" not in names()
    run(program(), "uninstall", "edgeway", "--namespace", "edgeway")
    assert names() == set()
