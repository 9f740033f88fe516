"""What the soak happens to: two hubs of one CA that know each other, two nodes of different sites whose pods reach each other through hubs
and tunnels alone, a DNS server, and programs that send traffic from pods, from the nodes themselves and from the cloud.

    town = Town(lab, "90s")
    town.start_traffic()
    ...
    losses, totals = town.stop_traffic()

Each way of the traffic goes `through` components (agent-1, link-2, hubs, upstream, ...). A fault names those that it hits; a loss that
touches none of them is nobody's fault but ours.
"""
import json
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "net"))
import lab as labs  # noqa: E402
import replicas  # noqa: E402
import tunnelkit  # noqa: E402
from lab import PYTHON, Agent, Hub, Node, pod, service, wait_for  # noqa: E402
from pki import Authority  # noqa: E402

CLIENT = os.path.join(TOP, "bench", "soak_client.py")
DOMAIN = "default.svc.cluster.local"
FENCE = """table inet fence { chain out { type filter hook output priority 0; oifname "eth0" ip daddr 192.0.2.10-192.0.2.19 drop; }
    chain forward { type filter hook forward priority 0; oifname "eth0" ip daddr 192.0.2.10-192.0.2.19 drop; }
}"""
ACCESS = "[{from: 192.0.2.0/29, to: ['*']}, {from: 'node:edge-1', to: ['*']}, {from: 'node:edge-2', to: ['*']}]"
PORTS = ("http", 8080, 0), ("echo", 9090, 0), ("bulk", 7500, 0)
SERVED = ("http", 80, 8080), ("echo", 7000, 9090), ("bulk", 7001, 7500)
MOVING = 20
DRAIN = "30s"  # longer than any stream lives, so that nothing is cut where an agent hands over


class Next(Agent):
    """An agent that takes over from the one that runs; without one it starts as any."""

    def argv(self, *options):
        return super().argv("--takeover", "true", *options)


class Town:
    def __init__(self, lab, lifetime):
        self.lab, self.turn, self.clients = lab, 0, []
        self.dns = labs.upstream(lab, "example.test/203.0.113.7")
        ca = Authority(lab.dir, "shared")
        self.hubs = [self.start_hub(ca, i, lifetime) for i in (0, 1)]
        replicas.name_hubs(self.hubs)
        self.nodes = [Node(lab, f"edge-{i}", f"192.0.2.{10 + i}") for i in (1, 2)]
        self.pods = [[n.pod(f"web-{k}") for k in "ab"] for n in self.nodes]
        self.backends = {}
        for n, pods in zip(self.nodes, self.pods):
            n.run("nft", "-f", "-", input=FENCE)
            for p in pods:
                self.serve(p)
            own = n.start("own", PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", n.name, "--http", "7000", "--stream", "7500")
            wait_for("the node's own", lambda own=own: "serving" in own.log())
        self.publish()
        self.write("services.yaml", service("web", *SERVED), service("one", *SERVED), service("two", *SERVED),
                   *[service(f"datagrams-{i}", ("echo", 53, 5000), protocol="UDP", selector=f"udp-{i}") for i in (1, 2)])
        self.agents = [self.join(n, *hubs) for n, hubs in zip(self.nodes, (self.hubs, self.hubs[::-1]))]
        wait_for("whole", self.whole, 60)
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 5 + MOVING)
        self.hosts = [n.pod("client") for n in self.nodes]

    def start_hub(self, ca, i, lifetime):
        address = replicas.ADDRESSES[i]
        return Hub(self.lab, "--tls.ca", ca.cert, "--tls.caKey", ca.key, "--tls.nodeLifetime", lifetime, "--peers", replicas.NAME,
                   "--ingress.http", f"{address}:10080", "--access", ACCESS, name=f"hub-{i + 1}", address=address,
                   before=("unshare", "--uts", "sh", "-c", f'hostname hub-{i + 1} && exec "$0" "$@"'))

    def join(self, node, *hubs):
        """Its data are on a disk of their own, which a fault can fill."""
        agent = Agent(node, hubs[0], "--hub.url", replicas.url(*hubs), "--tunnel.allow", tunnelkit.ALLOW, "--drainTimeout", DRAIN, start=False)
        os.makedirs(agent.data)
        node.run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", agent.data)
        return agent.start()

    def serve(self, p):
        self.backends[p.name] = p.serve("--http", "8080", "--tcp", "9090", "--stream", "7500", "--udp", "5000")

    def write(self, name, *objects):
        for h in self.hubs:
            h.write(name, *objects)

    def publish(self, away=None):
        """All pods but one, and twenty services that change each time."""
        self.turn += 1
        self.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node",
                                    "metadata": {"name": n.name, "labels": {"edgeway.io/site": n.name}},
                                    "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for n in self.nodes])
        objects = []
        for i, (n, pods) in enumerate(zip(self.nodes, self.pods), 1):
            for k, p in zip("ab", pods):
                for app in ("web", "one" if i == 1 else "two"):
                    objects.append(pod(f"{app}-{i}{k}", n, p.address, *PORTS, app=app, ready=p is not away))
            objects.append(pod(f"udp-{i}", n, pods[0].address, ("echo", 5000, 0), app=f"udp-{i}", protocol="UDP"))
        self.write("pods.yaml", *objects)
        self.write("moving.yaml", *[service(f"moving-{k}", ("http", 8000 + self.turn % 100, 8080), selector="web") for k in range(MOVING)])

    # --- is all well? ----------------------------------------------------------------------

    def daemons(self):
        return {"hub-1": self.hubs[0], "hub-2": self.hubs[1], "agent-1": self.agents[0], "agent-2": self.agents[1]}

    def whole(self):
        """Hubs know each other, each node has a tunnel that is open (former ones may be finishing), every agent is in step and ready."""
        if {name for h in self.hubs for name in tunnelkit.tunnels(h)} != {n.name for n in self.nodes}:
            return False
        for h, other in zip(self.hubs, self.hubs[::-1]):
            known = replicas.peers(h).get(other.address)
            if known is None or known["state"] != "open" or known["nodes"] != len(tunnelkit.tunnels(other)):
                return False
        return all(a.ready() and a.state()["meta"]["synced"] and a.state()["meta"]["connected"] for a in self.agents)

    # --- traffic -------------------------------------------------------------------------------

    def fakes(self, node):
        return {s: wait_for("an address", lambda s=s: node.address_of(f"{s}.{DOMAIN}", f"@{node.gateway}"))
                for s in ("web", "one", "two", f"datagrams-{node.name[-1]}")}

    def of_pod(self, i):
        """From a pod of node i: services of this node, and those of the other through hubs and tunnels."""
        node, j = self.nodes[i - 1], 3 - i
        fake, far = self.fakes(node), "two" if i == 1 else "one"
        mine, its = [[p.name for p in self.pods[k - 1]] for k in (i, j)]
        near = [f"agent-{i}", f"rules-{i}", f"pods-{i}"]
        away = [*near[:2], "hubs", f"link-{i}", f"link-{j}", f"agent-{j}", f"pods-{j}"]
        every = {"expect": mine, "through": near, "host": fake["web"]}
        other = {"expect": its, "through": away, "host": fake[far]}
        return [
            {"label": f"keep-alive {i}", "op": "http", "keep": True, "port": 80, "pause": .2, **every},
            {"label": f"connection per request {i}", "op": "http", "port": 80, "pause": .25, **every},
            {"label": f"TCP stream {i}", "op": "echo", "port": 7000, "life": 20, "each": .25, "pause": .1, "size": 4096, **every},
            {"label": f"slow reader {i}", "op": "down", "port": 7001, "size": 2 << 20, "each": .06, "pause": 1, **every},
            {"label": f"far keep-alive {i}", "op": "http", "keep": True, "port": 80, "pause": .3, **other},
            {"label": f"far connection per request {i}", "op": "http", "port": 80, "pause": .5, **other},
            {"label": f"far TCP stream {i}", "op": "echo", "port": 7000, "life": 20, "each": .5, "pause": .1, "size": 4096, **other},
            {"label": f"far slow reader {i}", "op": "down", "port": 7001, "size": 2 << 20, "each": .06, "pause": 1, **other},
            {"label": f"UDP {i}", "op": "udp", "host": fake[f"datagrams-{i}"], "port": 53, "pause": .25, "size": 512,
             "expect": mine[:1], "through": [f"rules-{i}", f"agent-{i}"]},
            {"label": f"DNS, cluster {i}", "op": "dns", "host": node.gateway, "port": 53, "pause": .2, "name": f"web.{DOMAIN}",
             "expect": fake["web"], "through": [f"agent-{i}"]},
            {"label": f"DNS, forwarded {i}", "op": "dns", "host": node.gateway, "port": 53, "pause": .5, "name": "*.example.test",
             "expect": "203.0.113.7", "through": [f"agent-{i}", f"link-{i}", "upstream"]}]

    def of_host(self, i):
        return [{"label": f"host, by libc {i}", "op": "lookup", "name": "web.default", "host": self.fakes(self.nodes[i - 1])["web"], "port": 80,
                 "pause": .5, "expect": [p.name for p in self.pods[i - 1]],
                 "through": [f"agent-{i}", f"rules-{i}", f"pods-{i}", f"route-{i}", f"resolv-{i}"]}]

    def of_cloud(self, k):
        """At a hub's ingress: either node, a service of both, a stream, a slow reader."""
        via = [self.hubs[k - 1].address, 10080]
        every = [p.name for pods in self.pods for p in pods]
        made = [{"label": f"ingress to a node {k}{i}", "op": "http", "keep": True, "host": f"edge-{i}", "port": 7000, "pause": .4,
                 "expect": [f"edge-{i}"], "through": ["hubs", f"link-{i}", f"agent-{i}"]} for i in (1, 2)]
        both = {"expect": every, "through": ["hubs", *[f"{x}-{i}" for x in ("link", "agent", "pods") for i in (1, 2)]]}
        made += [{"label": f"ingress to a service {k}", "op": "http", "host": "web.default", "port": 80, "pause": .4, **both},
                 {"label": f"ingress, TCP stream {k}", "op": "echo", "host": "web.default", "port": 7000, "life": 20, "each": .5, "pause": .1,
                  "size": 4096, **both},
                 {"label": f"ingress, slow reader {k}", "op": "down", "host": f"edge-{k}", "port": 7500, "size": 2 << 20, "each": .06,
                  "pause": 1, "through": ["hubs", f"link-{k}", f"agent-{k}"]}]
        return [{**w, "via": via} for w in made]

    def start_traffic(self):
        plans = [(m, self.of_pod(i)) for i, m in enumerate(self.hosts, 1)] + [(m, self.of_host(i)) for i, m in enumerate(self.nodes, 1)] + [
            (h.machine, self.of_cloud(k)) for k, h in enumerate(self.hubs, 1)]
        for machine, plan in plans:
            path, out = [os.path.join(machine.dir, name) for name in ("plan.json", "traffic.jsonl")]
            with open(path, "w") as f:
                json.dump(plan, f)
            open(out, "w").close()
            self.clients.append((machine.start("traffic", PYTHON, CLIENT, path, out), plan, out))

    def stop_traffic(self):
        """(losses, totals): each loss with what it went through, totals by label."""
        losses, totals = [], {}
        for process, _, _ in self.clients:
            process.popen.terminate()
        for process, plan, out in self.clients:
            if process.wait(120) != 0:
                raise RuntimeError(process.log()[-2000:])
            through = {w["label"]: w["through"] for w in plan}
            with open(out) as f:
                for line in map(json.loads, f):
                    if "count" in line:
                        totals[line["label"]] = line
                    else:
                        losses.append({**line, "through": set(through[line["label"]])})
        self.clients = []
        return losses, totals
