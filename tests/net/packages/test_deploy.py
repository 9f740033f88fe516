"""deploy/kubernetes: what kubectl makes of it is what the cluster takes, what our programs read, and no more than they need."""
import contextlib
import copy
import json
import os
import re
import shutil
import subprocess

import pytest
import yaml

import cluster
from cluster import Container, find, kubectl, pod_of, render, rules
from kube import API_ADDRESS, API_PORT, ApiServer
from kubeschema import complaints
from lab import HUB_ADDRESS, Agent, Lab, Machine, Node, Timeout, service, wait_for

pytestmark = pytest.mark.plain_build  # kubectl and manifests; what the daemons do here, others look at

USER = "system:serviceaccount:edgeway:edgeway-hub"
AGENT_CAPABILITIES = {"NET_ADMIN": 12, "NET_BIND_SERVICE": 10}
REPLICAS = (HUB_ADDRESS, "192.0.2.3")

VERSIONS = {"Deployment": "apps/v1", "DaemonSet": "apps/v1", "PodDisruptionBudget": "policy/v1",
            "NetworkPolicy": "networking.k8s.io/v1"}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?$")


@pytest.fixture(scope="module")
def objects():
    return render()


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def test_every_object_is_one_that_kubernetes_knows(objects):
    assert len({(o["kind"], o["metadata"]["name"]) for o in objects}) == len(objects) == 22
    for o in objects:
        assert complaints(o) == [], (o["kind"], o["metadata"]["name"])
        assert o["apiVersion"] == VERSIONS.get(o["kind"], "rbac.authorization.k8s.io/v1" if "Role" in o["kind"] else "v1")
        assert NAME.match(o["metadata"]["name"])
        if o["kind"] not in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
            assert o["metadata"]["namespace"] == "edgeway"


@pytest.mark.parametrize("name", ["rbac-destinationrules.yaml", "rbac-hosts.yaml", "rbac-networkpolicies.yaml", "rbac-sites.yaml"])
def test_rights_that_are_not_for_all(objects, name):
    """Files that kustomization.yaml names for those who need them: read as the others are, for the hub's own account."""
    with open(os.path.join(cluster.FOLDER, name)) as f:
        role, binding = yaml.safe_load_all(f)
    with open(os.path.join(cluster.FOLDER, "kustomization.yaml")) as f:
        assert f"# - {name}, with " in f.read()
    assert complaints(role) == [] == complaints(binding)
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]}
    assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
    for s in binding["subjects"]:
        find(objects, s["kind"], s["name"])


def test_a_misspelt_key_is_found(objects):
    for kind, name, path in (("Deployment", "edgeway-hub", ("spec", "template", "spec", "enableServiceLink")),
                             ("DaemonSet", "edgeway-agent", ("spec", "updateStrategy", "rolingUpdate")),
                             ("PodDisruptionBudget", "edgeway-hub", ("spec", "maxUnavailabel")),
                             ("NetworkPolicy", "edgeway-hub", ("spec", "podselector"))):
        made = copy.deepcopy(find(objects, kind, name))
        at = made
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = True
        assert complaints(made) == [".".join(path) + ": nobody knows it"]


@pytest.mark.parametrize("name, path, value, said", [
    ("ServiceMonitor", ("spec", "endpoints", 0, "intervall"), "1s", "spec.endpoints[0].intervall: nobody knows it"),
    ("ServiceMonitor", ("spec", "endpoints", 0, "scheme"), "ftp", 'spec.endpoints[0].scheme: none of "http", "https", "HTTP", "HTTPS": ftp'),
    ("PrometheusRule", ("spec", "groups", 0, "rules", 0, "for"), 5, "spec.groups[0].rules[0].for: not str: 5"),
    ("PrometheusRule", ("spec", "groups", 0, "name"), None, "spec.groups[0]: name is missing")])
def test_so_is_what_the_prometheus_operator_does_not_know(name, path, value, said):
    [made] = [o for o in render(os.path.join(cluster.FOLDER, "monitoring")) if o["kind"] == name]
    assert complaints(made) == []
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert said in complaints(made)


def test_a_wrong_type_and_a_missing_key_are_found(objects):
    hub = copy.deepcopy(find(objects, "Deployment", "edgeway-hub"))
    hub["spec"]["replicas"] = "2"
    del hub["spec"]["selector"]
    pod_of(hub)["containers"][0]["ports"][0]["containerPort"] = True
    assert sorted(complaints(hub)) == ["spec.replicas: not int: 2", "spec.template.spec.containers[0].ports[0].containerPort: not int: True",
                                       "spec: selector is missing"]
    assert complaints({"apiVersion": "apps/v2", "kind": "Deployment"}) == ["apps/v2 Deployment: nobody knows it"]


def test_what_is_named_is_there(objects):
    labels = {w["metadata"]["name"]: w["spec"]["template"]["metadata"]["labels"] for w in objects
              if w["kind"] in ("Deployment", "DaemonSet")}
    for w in (find(objects, "Deployment", "edgeway-hub"), find(objects, "DaemonSet", "edgeway-agent")):
        pod = pod_of(w)
        assert w["spec"]["selector"]["matchLabels"].items() <= labels[w["metadata"]["name"]].items()
        find(objects, "ServiceAccount", pod["serviceAccountName"])
        volumes = {v["name"] for v in pod["volumes"]}
        mounts = pod["containers"][0]["volumeMounts"]
        assert {m["name"] for m in mounts} == volumes and len({m["mountPath"] for m in mounts}) == len(mounts)
    hub = pod_of(find(objects, "Deployment", "edgeway-hub"))
    ports = {p["name"]: p["containerPort"] for p in hub["containers"][0]["ports"]}
    for name in ("edgeway-hub", "edgeway-hub-metrics", "edgeway-hub-peers"):
        s = find(objects, "Service", name)["spec"]
        assert s["selector"].items() <= labels["edgeway-hub"].items()
        assert all(ports[p["targetPort"]] == p["port"] for p in s["ports"])
    config = next(o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith("edgeway-hub-"))["data"]
    for name in yaml.safe_load(config["hub.yaml"])["peers"]:  # of all replicas, at the port where they listen, before they are ready
        s = find(objects, "Service", name)["spec"]
        assert s["clusterIP"] == "None" and s["publishNotReadyAddresses"] and [p["port"] for p in s["ports"]] == [10000]
    policy = find(objects, "NetworkPolicy", "edgeway-hub")["spec"]
    for selector in (policy["podSelector"], find(objects, "PodDisruptionBudget", "edgeway-hub")["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels["edgeway-hub"].items()
    assert {p["port"] for rule in policy["ingress"] for p in rule["ports"]} == set(ports.values())
    for binding in (o for o in objects if o["kind"].endswith("RoleBinding") or o["kind"] == "ClusterRoleBinding"):
        find(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for s in binding["subjects"]:
            find(objects, s["kind"], s["name"])


def test_the_agents_pod_has_what_a_node_allows(objects):
    """hostNetwork, so no ports, and a surge, since the new agent takes over from the old one; the folder /etc, and not a file, at another place."""
    w = find(objects, "DaemonSet", "edgeway-agent")
    pod, container = pod_of(w), pod_of(w)["containers"][0]
    assert pod["hostNetwork"] and pod["dnsPolicy"] == "Default" and "ports" not in container
    assert w["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert w["spec"]["minReadySeconds"] >= 10  # the probes ask whoever has the address
    config = next(o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith("edgeway-agent-"))["data"]
    assert yaml.safe_load(config["agent.yaml"])["takeover"] is True
    assert {"operator": "Exists"} in pod["tolerations"]
    assert pod["terminationGracePeriodSeconds"] > 10
    etc = next(v for v in pod["volumes"] if v.get("hostPath", {}).get("path") == "/etc")
    assert etc["hostPath"]["type"] == "Directory"
    assert [m["mountPath"] for m in container["volumeMounts"] if m["name"] == etc["name"]] == ["/host/etc"]
    assert set(container["securityContext"]["capabilities"]["add"]) == set(AGENT_CAPABILITIES)


def check(lab, folder, program, text, env=None):
    path = os.path.join(folder, "config.yaml")
    with open(path, "w") as f:
        f.write(text)
    return subprocess.run([lab.program(program), "--config", path, "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=90, env={**os.environ, **(env or {})})


def test_no_secret_is_in_a_config_map(objects):
    """Many may read those: the token is a file of a Secret, which root alone may read and the configuration names."""
    data = {k: yaml.safe_load(v) for o in objects if o["kind"] == "ConfigMap" for k, v in o["data"].items()}
    assert not [o for o in objects if o["kind"] == "Secret"]
    assert set(data["agent.yaml"]["hub"]) == {"url", "tokenFile"} and "tracing" not in data["agent.yaml"]
    pod = pod_of(find(objects, "DaemonSet", "edgeway-agent"))
    [volume] = [v["secret"] for v in pod["volumes"] if "secret" in v]
    [path] = [m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] == "join"]
    assert volume == {"secretName": "edgeway-join", "defaultMode": 0o400}
    assert data["agent.yaml"]["hub"]["tokenFile"] == f"{path}/token"
    assert [e["name"] for e in pod["containers"][0]["env"]] == ["NODE_NAME"]


def test_configurations_are_read_by_the_programs(objects, lab):
    for program in ("edgeway-hub", "edgeway-agent"):
        data = next(o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith(program + "-"))["data"]
        key, text = next(iter(data.items()))
        assert f"/etc/edgeway/{key}" in pod_of(next(o for o in objects if o["metadata"]["name"] == program and
                                                    o["kind"] in ("Deployment", "DaemonSet")))["containers"][0]["command"]
        made = check(lab, lab.dir, program, text)
        assert made.returncode == 0 and "the configuration is fine" in made.stdout, made.stdout
        wrong = check(lab, lab.dir, program, text + "\nonStopp: keep\n")
        assert wrong.returncode != 0 and "onStopp" in wrong.stdout


def test_the_patch_for_control_plane_hosts(tmp_path, lab):
    """Named in kustomization.yaml, as it says there: Kubernetes knows all of it, and the hub reads what it is told."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(cluster.FOLDER, folder)
    cluster.on_control_plane_hosts(folder)
    objects = render(str(folder))
    hub = find(objects, "DaemonSet", "edgeway-hub")
    assert not [o for o in objects if o["kind"] in ("Deployment", "PodDisruptionBudget")]  # a budget counts no DaemonSet's pods
    pod, container = pod_of(hub), pod_of(hub)["containers"][0]
    assert complaints(hub) == []
    # One host's ports are one pod's: with one control-plane host too the new one follows the old one.
    assert pod["hostNetwork"] and hub["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1} and "affinity" not in pod
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert pod["securityContext"]["runAsUser"] == 0 and not pod["securityContext"]["runAsNonRoot"]
    env = {e["name"]: e["value"] for e in container["env"]}
    data = next(o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith("edgeway-hub-"))["data"]
    made = check(lab, lab.dir, "edgeway-hub", next(iter(data.values())), env)
    assert made.returncode == 0 and "10250" in made.stdout
    wrong = check(lab, lab.dir, "edgeway-hub", next(iter(data.values())), {k: "{}{" for k in env})
    assert wrong.returncode == 2 and "EDGEWAY_INGRESS_REDIRECT" in wrong.stdout


@pytest.mark.parametrize("is_ubuntu", [False, True])
def test_the_component_for_resolved(tmp_path, lab, is_ubuntu):
    """Named in kustomization.yaml; on Ubuntu with the line that is a comment. Nothing but the agent is another one."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(cluster.FOLDER, folder)
    path = folder / "kustomization.yaml"
    path.write_text(re.sub("\n# (components:).*\n#.*\n# (  - resolved) #", r"\n\1\n\2 #", path.read_text()))
    component = folder / "resolved" / "kustomization.yaml"
    component.write_text(re.sub("# (metadata: )", r"\1" if is_ubuntu else r"# \1", component.read_text()))
    objects, plain = render(str(folder)), {(o["kind"], o["metadata"]["name"]): o for o in render()}
    agent = find(objects, "DaemonSet", "edgeway-agent")
    assert complaints(agent) == [] and [k for k, o in plain.items() if o not in objects] == [("DaemonSet", "edgeway-agent")]
    pod, container = pod_of(agent), pod_of(agent)["containers"][0]
    assert [v["hostPath"] for v in pod["volumes"] if v["name"] == "dbus"] == [{"path": "/run/dbus", "type": "Directory"}]
    assert [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "dbus"] == ["/run/dbus"]
    key = f"container.apparmor.security.beta.kubernetes.io/{container['name']}"
    assert agent["spec"]["template"]["metadata"].get("annotations", {}) == ({key: "unconfined"} if is_ubuntu else {})
    data = next(o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith("edgeway-agent-"))["data"]
    made = check(lab, lab.dir, "edgeway-agent", data["agent.yaml"], {e["name"]: e.get("value", "edge-1") for e in container["env"]})
    assert made.returncode == 0 and "dns.host: resolved" in made.stdout, made.stdout


WEB_RULE = "access: [{from: 'token:ann', tokenSHA256: %s, to: ['hub:web']}]" % ("0" * 64)


def test_the_page(tmp_path, lab):
    """Named in kustomization.yaml, resource and patch: what it opens is there for the Service, and the hub wants to know for whom."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(cluster.FOLDER, folder)
    path = folder / "kustomization.yaml"
    path.write_text(path.read_text().replace("  # - web.yaml,", "  - web.yaml #").replace(
        "\n# patches:", "\npatches: [path: web-hub.yaml] #"))
    objects = render(str(folder))
    hub, page, policy = find(objects, "Deployment", "edgeway-hub"), find(objects, "Service", "edgeway-hub-web"), find(objects, "NetworkPolicy", "edgeway-hub-web")
    assert [complaints(o) for o in (hub, page, policy)] == [[], [], []]
    container, labels = pod_of(hub)["containers"][0], hub["spec"]["template"]["metadata"]["labels"]
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    assert page["spec"]["selector"].items() <= labels.items() and [ports[p["targetPort"]] for p in page["spec"]["ports"]] == [10014]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert [p["port"] for r in policy["spec"]["ingress"] for p in r["ports"]] == [10014] and set(ports) == {"agents", "metrics", "web"}
    env, mounts = {e["name"]: e["value"] for e in container["env"]}, {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert {os.path.dirname(env[f"EDGEWAY_WEB_{k}"]) for k in ("CERT", "KEY")} == {mounts["web"]}
    data = next(o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith("edgeway-hub-"))["data"]
    text = next(iter(data.values()))
    made = check(lab, lab.dir, "edgeway-hub", f"{text}\n{WEB_RULE}\n", env)
    assert made.returncode == 0 and "0.0.0.0:10014" in made.stdout, made.stdout
    nobody = check(lab, lab.dir, "edgeway-hub", text, env)
    assert nobody.returncode == 2 and "hub:web" in nobody.stdout


@pytest.fixture
def api(lab):
    made = ApiServer(lab)
    made.ctl("token", token="pod-token", user=USER, old="hub-token")
    return made


def test_kubectl_applies_it(lab, api, objects):
    first = api.kubectl("apply", "-k", cluster.FOLDER)
    assert first.count("created") + first.count("configured") == len(objects)
    again = api.kubectl("apply", "-k", cluster.FOLDER)
    # Newer ones replace a budget's selector each time and call that configured, at a real server too.
    assert [line for line in again.splitlines() if "unchanged" not in line] in ([], ["poddisruptionbudget.policy/edgeway-hub configured"])


def hub_pod(lab, api, objects, i):
    machine = Machine(lab, f"hub-{i}", address=REPLICAS[i])
    # The pod's own user writes what its emptyDir is for; the API server is where a pod is told.
    made = Container(machine, find(objects, "Deployment", "edgeway-hub"), objects, api,
                     env={"KUBERNETES_SERVICE_HOST": API_ADDRESS, "KUBERNETES_SERVICE_PORT": str(API_PORT)})
    made.account("pod-token", "edgeway")
    return made


def ready(pod):
    return lambda: pod.alive() and pod.probe("readinessProbe")


def agent_pod(api, objects, node):
    with open(os.path.join(node.dir, "etc", "hosts"), "a") as f:
        f.write(f"{HUB_ADDRESS} {cluster.HUB_NAME}\n")
    return Container(node, find(objects, "DaemonSet", "edgeway-agent"), objects, api, host=os.path.join(node.dir, "host"))


def ca_hash(api):
    """As the comment in deploy/kubernetes/agent.yaml has it."""
    pem = api.kubectl("get", "secret", "-n", "edgeway", "edgeway-hub-ca", "-o", "go-template={{index .data \"ca.pem\" | base64decode}}")
    der = subprocess.run(["openssl", "x509", "-outform", "DER"], input=pem.encode(), stdout=subprocess.PIPE, check=True).stdout
    return subprocess.run(["sha256sum"], input=der, stdout=subprocess.PIPE, check=True).stdout.decode().split()[0]


def grant(api, rights):
    api.ctl("grant", user=USER, rights=[[verb, resource, name, ns] if ns else [verb, resource, name] if name else [verb, resource]
                                        for verb, _, resource, name, ns in rights])


def join(api, agent):
    """By the operator's approval, as the comment in deploy/kubernetes/agent.yaml has it."""
    api.apply(json.loads(kubectl("create", "secret", "generic", "-n", "edgeway", "edgeway-join", "--dry-run=client", "-o", "json",
                                 f"--from-literal=token={ca_hash(api)}.approval")))
    agent.start()
    wait_for("asks", lambda: agent.alive() and f"edgeway-{agent.machine.name}-" in api.kubectl("get", "csr", "-o", "name"))
    api.kubectl("certificate", "approve", api.kubectl("get", "csr", "-o", "name").strip().split("/")[1])
    wait_for("the agent is ready", ready(agent), 120)


def covers(right, asked):
    """Does the manifest's right (verb, group, resource, name, namespace) allow what was asked?"""
    return right[:3] == asked[:3] and right[3] in ("", asked[3]) and right[4] in ("", asked[4])


def asked(api):
    """What the hub asked for, and what of that was refused."""
    used = [tuple(u) for u in api.ctl("used", user=USER)]
    return {u[:5] for u in used}, [u for u in used if not u[5]]


def test_pods_with_these_rights_and_no_others(lab, api, objects):
    """Both replicas and an agent as the manifests have them: every right is used, none is missing, the node's whole job is done."""
    rights = rules(objects)
    grant(api, rights)
    api.kubectl("apply", "-k", cluster.FOLDER)
    api.ctl("crds", there=True)
    api.ctl("absent", resources=[["discovery.k8s.io", "endpointslices"]])
    hubs = [hub_pod(lab, api, objects, i) for i in (0, 1)]
    for h in hubs:
        h.start()
    for h in hubs:
        wait_for("ready", ready(h))
        assert h.probe("livenessProbe") and h.probe("startupProbe")
    api.ctl("absent", resources=[])
    agent = agent_pod(api, objects, Node(lab, "edge-1", "192.0.2.11"))
    join(api, agent)
    wait_for("joined", lambda: agent.state()["meta"]["synced"])
    assert agent.probe("livenessProbe") and agent.probe("startupProbe")
    by_token = Agent(Node(lab, "edge-2", "192.0.2.12"), None, token=hubs[0].token("--node", "edge-2"), start=False)
    by_token.start(ready=False)
    wait_for("joined by a token", lambda: os.path.exists(by_token.socket) and by_token.state()["meta"]["synced"])
    by_token.stop()
    shutil.rmtree(by_token.data)
    by_token.token = f"{ca_hash(api)}.approval"
    by_token.start(ready=False)
    asks = wait_for("asks for the name that it has lost", lambda: next(
        (n for n in api.kubectl("get", "csr", "-o", "name").split() if n.endswith("-replacement")), None))
    api.kubectl("certificate", "approve", asks.split("/")[1])
    wait_for("joined anew", lambda: os.path.exists(by_token.socket) and by_token.state()["meta"]["synced"])
    api.apply(service("lonely", ("http", 80, "http"), selector="nobody"), *lonely_routes("first"), *gate(api, by_token.node))
    wait_for("event", lambda: "NotReachableOnEdge" in api.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}"))
    for h in hubs:
        h.process.stop()
        root_is_gone(h)
    api.apply(*lonely_routes("second"))  # another status, by whoever takes the Lease over: the hub that edge-2 comes to, whose address is another one
    held = hubs[0].process.log().count("holds the lease")
    hubs[0].start()  # counts the Event up
    wait_for("the Lease", lambda: hubs[0].process.log().count("holds the lease") > held, 90)
    hubs[1].start()
    few = [r for r in rights if not re.match(r"edgeway-hub-nodes-\d+$", r[3])]  # those are for thousands of nodes

    def unused():
        return {r for r in few if not any(covers(r, a) for a in asked(api)[0])}

    with contextlib.suppress(Timeout):
        wait_for("every right is used", lambda: not unused(), 120)
    assert unused() == set()
    used, refused = asked(api)
    assert refused == [] and [a for a in used if not any(covers(r, a) for r in rights)] == []
    for h in hubs:
        wait_for("ready again", ready(h))
        assert "HTTP status 403" not in h.process.log()
    does_its_job(agent)


def lonely_routes(rule):
    return [{"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": {"name": "lonely", "namespace": "default"},
             "spec": {"parentRefs": [{"group": "", "kind": "Service", "name": "lonely"}], "rules": [{"name": rule}]}}
            for kind in ("HTTPRoute", "GRPCRoute")]


def gate(api, node):
    """A Service whose status gets the node's address, and a BackendTLSPolicy for it."""
    api.ctl("put", group="", resource="nodes", obj={"metadata": {"name": node.name}, "status": {
        "addresses": [{"type": "InternalIP", "address": node.address}], "conditions": [{"type": "Ready", "status": "True"}]}})
    return [service("gate", ("http", 80, "http"), selector="nobody", type="LoadBalancer", loadBalancerClass="edgeway.io/node"),
            {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "metadata": {"name": "gate", "namespace": "default"},
             "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "gate"}],
                      "validation": {"hostname": "gate", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "gate"}]}}}]


def root_is_gone(pod):
    """The former root was a mount of its namespace alone."""
    assert os.listdir(pod.root) == []


def does_its_job(agent):
    """With the capabilities of the manifest, which are what src/agent/rights.c keeps of all."""
    node = agent.machine
    with open(f"/proc/{agent.process.pid}/status") as f:
        held = int(re.search(r"^CapEff:\s*(\w+)", f.read(), re.M).group(1), 16)
    assert held == sum(1 << number for number in AGENT_CAPABILITIES.values())
    wait_for("resolv.conf of the node", lambda: b"nameserver 172.17.0.1" in node.resolv())
    wait_for("the table", lambda: node.table() and node.route())
    assert node.address_of("lonely.default.svc.cluster.local", f"@{node.gateway}").startswith("9.251.")
    assert agent.process.stop() == 0
    assert b"nameserver 172.17.0.1" in node.resolv() and node.table()  # onStop: keep
