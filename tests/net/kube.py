"""A Kubernetes API server in the lab (tests/apiserver), and a hub that reads from it.

    api = ApiServer(lab)                       # machine "apiserver", 192.0.2.2:6443
    hub = KubeHub(lab, api)                    # kubeconfig with the token of a service account that may list and watch
    api.kubectl("apply", "-f", "-", input=yaml)
    api.ctl("compact")                         # see Control in tests/apiserver/server.py
"""
import json
import os
import shutil
import socket

import yaml

from lab import HUB_ADDRESS, HUB_PORT, BARE_PYTHON, TOP, Hub, Machine, wait_for

API_ADDRESS, API_PORT = "192.0.2.2", 6443
ACCOUNT = "system:serviceaccount:edge-system:hub"
READS = [[verb, what] for verb in ("list", "watch") for what in ("services", "endpointslices", "pods", "nodes", "endpoints")]
EVENTS = [[verb, "events"] for verb in ("create", "patch")]
NAMESPACE = "edgeway"
SECRETS = [["create", "secrets", "", NAMESPACE]] + [
    [verb, "secrets", f"edgeway-hub-{name}", NAMESPACE] for verb in ("list", "watch", "patch")
    for name in ("ca", "tokens", "nodes", *(f"nodes-{i}" for i in range(1, 17)))
    if (verb, name) != ("patch", "ca")]
RIGHTS = READS + EVENTS + SECRETS


def optional_rights(name):
    """What the ClusterRole of deploy/kubernetes/NAME adds, in the form of `grant`."""
    with open(os.path.join(TOP, "deploy", "kubernetes", name)) as f:
        role = next(o for o in yaml.safe_load_all(f) if o["kind"] == "ClusterRole")
    return [[verb, resource] + ([only] if only else []) for rule in role["rules"] for verb in rule["verbs"]
            for resource in rule["resources"] for only in rule.get("resourceNames", [None])]


class ApiServer:
    def __init__(self, lab, *options, name="apiserver", address=API_ADDRESS):
        """options: more names of its certificate, "--name", "10.96.0.1"; name, address: of another one's machine."""
        self.lab = lab
        self.machine = Machine(lab, name, address=address)
        self.dir = os.path.join(self.machine.dir, "api")
        self.url = f"https://{address}:{API_PORT}"
        self.process = self.machine.start("apiserver", *BARE_PYTHON, os.path.join(TOP, "tests", "apiserver", "server.py"),
                                          "--dir", self.dir, "--listen", f"{address}:{API_PORT}", *options)
        wait_for("API server", lambda: self.ctl("rev"))
        self.ctl("token", token="hub-token", user=ACCOUNT)
        self.ctl("grant", user=ACCOUNT, rights=RIGHTS)
        self.ctl("put", group="", resource="namespaces", obj={"metadata": {"name": NAMESPACE}, "status": {"phase": "Active"}})

    def ctl(self, op, **args):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(120)
            s.connect(os.path.join(self.dir, "control"))
            stream = s.makefile("rwb")
            stream.write(json.dumps({"op": op, **args}).encode() + b"\n")
            stream.flush()
            answer = json.loads(stream.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]

    def read(self, resource, name, namespace="", group=""):
        """What is there, without the cost of a kubectl, for what is asked again and again; None: it is not there."""
        return self.ctl("get", group=group, resource=resource, ns=namespace, name=name)

    def read_all(self, resource, namespace=None, group=""):
        """None: of all namespaces."""
        found = self.ctl("all", group=group, resource=resource)
        return [o for o in found if namespace in (None, o["metadata"].get("namespace"))]

    def kubectl(self, *argv, input=None, check=True):
        """The real one, as the cluster's administrator."""
        env = {"PATH": os.environ["PATH"], "HOME": self.dir, "KUBECONFIG": os.path.join(self.dir, "admin.conf"),
               "GOGC": "off"}  # it lives too short a time for a garbage collector
        p = self.machine.run(shutil.which("kubectl") or "kubectl", *argv, input=input, check=check, env=env, seconds=60)
        return p.stdout

    def apply(self, *objects):
        return self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def kubeconfig(self, name="hub.conf", **user):
        path = os.path.join(self.dir, name)
        with open(path + ".new", "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "lab",
                       "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "hub"}}],
                       "clusters": [{"name": "lab", "cluster": {"server": self.url, "certificate-authority": "ca.crt"}}],
                       "users": [{"name": "hub", "user": user or {"token": "hub-token"}}]}, f)
        os.rename(path + ".new", path)
        return path

    def services(self):
        """namespace/name of all Services that a mesh is to know."""
        return {(o["metadata"]["namespace"], o["metadata"]["name"]) for o in self.read_all("services")
                if "service.kubernetes.io/service-proxy-name" not in o["metadata"].get("labels", {})}


class KubeHub(Hub):
    def __init__(self, lab, api, *options, kubeconfig=None, env=None, name="cloud", address=HUB_ADDRESS, wait=True):
        """name, address: of another replica's machine."""
        self.api, self.env, self.wait = api, env, wait
        self.kubeconfig = api.kubeconfig() if kubeconfig is None else kubeconfig
        super().__init__(lab, *options, name=name, address=address)

    def start(self):
        self.process = self.machine.start(
            "hub", self.lab.program("edgeway-hub"), "--listen", f"{self.address}:{HUB_PORT}",
            "--source.kubernetes.kubeconfig", self.kubeconfig, "--dataDir", os.path.join(self.machine.dir, "data"),
            "--admin.listen", "", "--admin.socket", self.socket, "--ingress.http", "", *self.options,
            env=None if self.env is None else {**os.environ, **self.env})
        if self.wait:
            wait_for("hub healthy", lambda: self.process.alive() and self.ask("/healthz")[0] == 200)

    def token(self, *options):
        wait_for("the hub has read its Secrets", lambda: self.state()["hub"]["waits"] == "")
        return super().token(*options)

    def source(self):
        return self.state()["hub"]["source"]

    def services(self):
        return {(s["namespace"], s["name"]): s["view"] for s in self.state()["hub"]["services"]}

    def metric(self, what, resource):
        return self.metrics()[f'edgeway_hub_kubernetes_{what}{{resource="{resource}"}}']


def node_object(node):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name},
            "status": {"addresses": [{"type": "InternalIP", "address": node.address}]}}
