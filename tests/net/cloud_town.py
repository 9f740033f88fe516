"""An API server and a database in the cloud, behind endpoints that no Pod stands for, and two nodes that reach the hub alone: edge-1, where
tunnel.apiserver is on, and edge-2, where it is not.

    town = CloudTown(lab)
    town.reload("{from: 'node:*', to: ['cloud/default/kubernetes:443']}")
    town.kubectl(town.client, "get", "services")       # as a program in a pod does it: by its environment alone
"""
import os
import signal

import lab as labs
import tunnelkit
from kube import ACCOUNT, ApiServer, KubeHub, node_object
from lab import BARE_PYTHON, Agent, Machine, Node, endpoint_slice, service, wait_for

CLUSTER_IP, DATABASE = "10.96.0.1", "192.0.2.31"
APISERVER_RULE = "{from: 'node:*', to: ['cloud/default/kubernetes:443']}"
DATABASE_RULE = "{from: 'node:edge-1', to: ['cloud/shop/db']}"
FENCE = """table inet fence { chain out { type filter hook output priority 0; oifname "eth0" ip daddr != 192.0.2.1 VERDICT; }
    chain forward { type filter hook forward priority 0; oifname "eth0" ip daddr != 192.0.2.1 VERDICT; }
}"""
# What kubelet gives to each pod: an account's token, and the CA of the API server.
IN_POD = """set -e
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$1" /run/secrets/kubernetes.io/serviceaccount/ca.crt
printf %s "$2" > /run/secrets/kubernetes.io/serviceaccount/token
printf default > /run/secrets/kubernetes.io/serviceaccount/namespace
shift 2
exec "$@"
"""


def bare(name, *ports, namespace="default", **spec):
    """A Service without a selector."""
    made = service(name, *ports, namespace=namespace, **spec)
    del made["spec"]["selector"]
    return made


class CloudTown(tunnelkit.Site):
    def __init__(self, lab):
        self.lab, self.config = lab, os.path.join(lab.dir, "hub.yaml")
        self.api = ApiServer(lab, "--name", CLUSTER_IP)
        self.api.ctl("token", token="pod-token", user="pod")
        self.api.ctl("grant", user="pod", rights=[[verb, what] for verb in ("get", "list", "watch") for what in ("services", "pods", "configmaps")])
        self.database = Machine(lab, "database", address=DATABASE)
        self.backend(self.database, "db", "--http", "8080", "--tcp", "5432", "--udp", "5000")
        self.api.ctl("put", group="", resource="nodes", obj=node_object(self.api.machine))  # where the API server is, kubelet and all
        self.api.apply(bare("kubernetes", ("https", 443, 6443), clusterIP=CLUSTER_IP))
        self.serve_api("192.0.2.2")
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        self.api.apply(bare("db", ("http", 80, 8080), ("postgres", 5432, 5432), namespace="shop"),
                       *[endpoint_slice(f"db-{n}", "db", p, DATABASE, namespace="shop", port_name=n) for n, p in (("http", 8080), ("postgres", 5432))])
        self.write_config("")
        self.hub = KubeHub(lab, self.api, "--config", self.config)
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        for n in self.nodes:
            self.fence(n, "drop")
        self.agents = [Agent(n, self.hub, "--tunnel.apiserver", on, "--mesh.peerPort", "0") for n, on in zip(self.nodes, ("true", "false"))]
        self.wait_open()
        self.client, self.client2 = [n.pod("client") for n in self.nodes]
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 2)
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        for c in (self.client, self.client2):
            c.copy_resolv_conf()

    def backend(self, node, name, *options):
        p = node.start(name, *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", name, *options)
        wait_for(name, lambda: "serving" in p.log())
        return p

    def serve_api(self, *addresses):
        self.api.apply(endpoint_slice("kubernetes", "kubernetes", 6443, *addresses, port_name="https"))

    @staticmethod
    def fence(node, verdict):
        """verdict None: there is none."""
        node.run("nft", "delete", "table", "inet", "fence", check=False)
        if verdict is not None:
            node.run("nft", "-f", "-", input=FENCE.replace("VERDICT", verdict))

    def write_config(self, rules):
        with open(self.config, "w") as f:
            f.write(f"access: [{rules}]\n")

    def reload(self, *rules):
        adopted = 'edgeway_hub_reloads_total{result="adopted"}'
        before = self.hub.metrics()[adopted]
        self.write_config(", ".join(rules))
        self.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: self.hub.metrics()[adopted] == before + 1)

    def in_pod(self, *argv):
        """A command with what kubelet gives to a container: environment, account and CA."""
        return ("unshare", "-m", "sh", "-c", IN_POD, "sh", os.path.join(self.api.dir, "ca.crt"), "pod-token", "env", "-u", "KUBECONFIG",
                "HOME=/nonexistent", f"KUBERNETES_SERVICE_HOST={CLUSTER_IP}", "KUBERNETES_SERVICE_PORT=443", *argv)

    def kubectl(self, pod, *argv, check=True):
        return pod.run(*self.in_pod("kubectl", *argv), check=check)

    def caught(self, agent):
        """Is the API server's ClusterIP among those that the agent serves?"""
        shown = agent.node.run("nft", "list", "set", "ip", "edgeway", "clusterips").stdout
        return CLUSTER_IP in shown.replace(",", " ").split()

    def endpoints(self, agent, service):
        return agent.node.run(self.lab.program("edgewayctl"), "--socket", agent.socket, "endpoints", service).stdout

    def findings(self, agent, what):
        return [f for f in agent.state()["findings"] if f["what"] == what]

    def logs(self):
        super().logs()
        print(f"--- log of the API server\n{self.api.process.log()[-2000:]}")
