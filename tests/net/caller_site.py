"""Two nodes of two sites with callers of several namespaces, and a database on the first whose Service says who may call it. What reaches
the database is counted there, in its own network namespace: nothing of what is denied may.

    site = CallerSite(lab)
    with site.untouched():
        assert site.http(site.foe)[0] == 403
"""
import contextlib
import json
import re

import tunnelkit
from lab import pod, service, wait_for

DOMAIN = "default.svc.cluster.local"
RULE = "namespaces=shop"
FENCE = """table inet fence { chain out { type filter hook output priority 0; oifname "eth0" ip daddr != 192.0.2.1 drop; }
    chain forward { type filter hook forward priority 0; oifname "eth0" ip daddr != 192.0.2.1 drop; }
}"""
COUNT = """table inet seen { counter came { }
    chain in { type filter hook input priority 0; meta l4proto udp counter name came
        tcp flags & (syn | psh) != 0 counter name came; }
}"""
ASK_UDP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(float(sys.argv[3]))
try:
    s.connect((sys.argv[1], int(sys.argv[2])))
    s.send(b"x")
    print(s.recv(99).split(b"\\n")[0].decode())
except OSError as e:
    print("-")
"""


class CallerSite(tunnelkit.Site):
    def __init__(self, lab, *hub_options):
        super().__init__(lab, *hub_options)
        for node in self.nodes:
            node.run("nft", "-f", "-", input=FENCE)
        near, far = self.nodes
        self.db, self.db2 = near.pod("db"), near.pod("db2")
        for p in (self.db, self.db2):
            p.run("nft", "-f", "-", input=COUNT)
            p.serve("--http", "8080", "--tcp", "9090", "--udp", "5000")
        self.friend, self.foe = near.pod("friend"), near.pod("foe")
        self.far_friend, self.far_foe = far.pod("friend"), far.pod("foe")
        self.labels, self.gone = {}, set()
        self.hub.write("nodes.yaml", *[
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": n.name, "labels": {"edgeway.io/site": n.name}},
             "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for n in self.nodes])
        self.show_pods()
        self.show_services(RULE)
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 3)
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        for c in (self.friend, self.foe, self.far_friend, self.far_foe, self.db):
            c.copy_resolv_conf()
        wait_for("the callers", lambda: [self.http(c)[0] for c in (self.friend, self.far_friend)] == [200, 200])

    def show_pods(self):
        ports = ("http", 8080, 0), ("echo", 9090, 0), ("dns", 5000, 0)
        shown = []
        for name, machine, namespace in (("db", self.db, "default"), ("db2", self.db2, "default"), ("friend", self.friend, "shop"),
                                         ("foe", self.foe, "ops"), ("far-friend", self.far_friend, "shop"), ("far-foe", self.far_foe, "ops")):
            one = pod(name, machine.node, machine.address, *(ports if name.startswith("db") else ()), namespace=namespace)
            one["metadata"]["labels"].update(self.labels.get(name, {}))
            if name.startswith("db"):
                one["spec"]["containers"][0]["ports"][2]["protocol"] = "UDP"
            if name not in self.gone:
                shown.append(one)
        self.hub.write("pods.yaml", *shown)

    def show_services(self, rule, *more, **spec):
        """rule None: everybody may."""
        said = {"edgeway.io/allow-from": rule} if rule is not None else {}
        self.hub.write("services.yaml", service("db", ("http", 80, 8080), ("echo", 7000, 9090), annotations=said, **spec),
                       service("db-udp", ("dns", 53, 5000), selector="db", protocol="UDP", annotations=said),
                       service("open", ("http", 80, 8080), selector="db2"), *more)

    def policies(self, *policies):
        self.hub.write("policies.yaml", *[{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": f"p{i}"},
                                           "spec": spec} for i, spec in enumerate(policies)] or [{"apiVersion": "v1", "kind": "List"}])

    def address(self, node, name):
        return node.address_of(f"{name}.{DOMAIN}", f"@{node.gateway}")

    @staticmethod
    def http(machine, url="http://db/", *options):
        """(status, body), also of an error."""
        p = machine.run("curl", "-s", "-m", "20", "-w", "\n%{http_code}", *options, url, check=False)
        body, _, status = p.stdout.rpartition("\n")
        return int(status), body

    @staticmethod
    def tcp(machine, name="db", port=7000):
        return machine.send(name, port, "hello", 10)

    @staticmethod
    def udp(machine, name="db-udp", port=53, seconds=2):
        return machine.python(ASK_UDP, name, port, seconds).stdout.strip()

    @staticmethod
    def packets(machine):
        return int(re.search(r"packets (\d+)", machine.run("nft", "list", "counter", "inet", "seen", "came").stdout)[1])

    @contextlib.contextmanager
    def untouched(self):
        """No connection, no byte and no datagram comes to the databases meanwhile. (Idle connections of those who may can end.)"""
        before = [self.packets(p) for p in (self.db, self.db2)]
        yield
        assert [self.packets(p) for p in (self.db, self.db2)] == before

    def ctl(self, *argv, agent=0, check=True):
        a = self.agents[agent]
        return a.node.run(self.lab.program("edgewayctl"), "--socket", a.socket, *argv, check=check).stdout

    def told(self, agent=0):
        """What the agent makes of its pods for the Service db: {"ns/pod": "allowed"}."""
        services = json.loads(self.agents[agent].ask("/debug/services")[1])["services"]
        db = next((s for s in services if s["name"] == "db"), {})
        return {p["pod"]: p["call"] for p in db.get("callers", {}).get("pods", [])}
