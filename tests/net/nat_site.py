"""Nodes of four sites, behind NATs that are made of nftables or with a public address; a pod with a service on each.

    town = NatTown(lab)            # edge-1 and edge-4 behind nat-1, edge-2 behind nat-2, edge-3 on the hub's network
    town.get(1, 2)                 # a request of a pod on edge-1 to the pod on edge-2
    town.nats[0].rules("random")   # a NAT that takes another port for each destination
"""
import json
import signal

from httpkit import socket_of
from lab import HUB_PORT, PATIENCE_S, Agent, Dialogue, Hub, Machine, Node, pod, service, wait_for
from tunnelkit import counted, tunnels

RULES = {  # how it maps outgoing connections, and what it does with those that nobody inside has begun
    "keeps": ("masquerade", "drop"),
    "random": ("masquerade fully-random", "drop"),
    "resets": ("masquerade", "reject with tcp reset"),
}
WIRE = """
import heapq, select, socket, sys, time
s = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3) for _ in range(2)]
for each, name in zip(s, ("in0", "out0")):
    each.setsockopt(263, 15, 1)  # PACKET_VNET_HDR: checksums and segments stay as they are
    each.bind((name, 3))
delay, waiting, n = 0.0, [], 0
while True:
    left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    for ready in select.select([*s, sys.stdin], [], [], left)[0]:
        if ready is sys.stdin:
            line = sys.stdin.readline()
            if not line:
                sys.exit()
            delay = int(line) / 1000
            print("ok", flush=True)
            continue
        data, (_, _, kind, *_) = ready.recvfrom(70000)
        if kind != socket.PACKET_OUTGOING:
            n += 1
            heapq.heappush(waiting, (time.monotonic() + (delay if ready is s[0] else 0), n, s[ready is s[0]], data))
    while waiting and waiting[0][0] <= time.monotonic():
        _, _, to, data = heapq.heappop(waiting)
        try:
            to.send(data)
        except OSError:
            pass
"""


class Nat(Machine):
    """A router with masquerading: eth0 outside, lanN inside."""

    def __init__(self, lab, i):
        super().__init__(lab, f"nat-{i}", attach=False, address=f"192.0.2.{20 + i}")
        wire = Machine(lab, f"wire-{i}", attach=False)  # between it and the switch: this kernel may have no netem
        self.link("eth0", wire, "in0")
        wire.link("out0", lab.switch, f"wan{i}")
        lab.switch.run("ip", "link", "set", f"wan{i}", "master", "net0", "up")
        for machine, name in ((wire, "in0"), (wire, "out0"), (self, "eth0")):
            machine.run("ip", "link", "set", name, "up")
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.wire = Dialogue(wire, WIRE)
        lab.closers.append(lambda: self.wire.__exit__())
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.rules("keeps")

    def rules(self, kind, *more):
        """more: rules at the head of what goes through."""
        mapping, refusal = RULES[kind]
        self.run("nft", "-f", "-", input=f"""
            flush ruleset
            table ip nat {{
                chain pre {{ type nat hook prerouting priority -100; }}
                chain post {{ type nat hook postrouting priority 100; oifname "eth0" {mapping}; }}
            }}
            table ip filter {{
                chain in {{ type filter hook input priority 0; 
                    ct state established,related accept; iifname "eth0" meta l4proto tcp {refusal}; }}
                chain through {{ type filter hook forward priority 0; {'; '.join(more)}{';' if more else ''}
                    ct state established,related accept; ct status dnat accept; iifname "eth0" drop; }}
            }}""")

    def shelter(self, node):
        """The node is inside: its network is one of its own."""
        inside, name = node.address.rpartition(".")[0] + ".1", "lan" + node.address.split(".")[1]
        node.link("eth0", self, name)
        for machine, interface, address in ((self, name, inside), (node, "eth0", node.address)):
            machine.run("ip", "addr", "add", f"{address}/24", "dev", interface)
            machine.run("ip", "link", "set", interface, "up")
        node.run("ip", "route", "add", "default", "via", inside)

    def delay(self, ms):
        """What goes out is so late."""
        self.wire.ask(str(ms))


class NatTown:
    SERVERS = "--http", "8080", "--tcp", "9090", "--udp", "5353"

    def __init__(self, lab, hubs=None, options=("--mesh.direct", "nat")):
        self.lab = lab
        self.hubs = hubs(lab) if hubs else [Hub(lab, "--config", self.write_config(lab, ""))]
        self.hub = self.hubs[0]
        self.nats = [Nat(lab, i) for i in (1, 2)]
        self.nodes = [Node(lab, "edge-1", "10.1.0.2", attach=False), Node(lab, "edge-2", "10.2.0.2", attach=False),
                      Node(lab, "edge-3", "192.0.2.13"), Node(lab, "edge-4", "10.4.0.2", attach=False)]
        for k, nat in ((0, 0), (1, 1), (3, 0)):
            self.nats[nat].shelter(self.nodes[k])
        self.agents = [Agent(n, self.home(i), *options, "--hub.url", f"wss://{self.home(i).address}:{HUB_PORT}") for i, n in enumerate(self.nodes)]
        self.webs = [n.pod("web") for n in self.nodes]
        self.servers = [p.serve(*self.SERVERS) for p in self.webs]
        self.clients = [n.pod("client") for n in self.nodes]
        for h in self.hubs:
            self.write(h)
        for a in self.agents:
            wait_for("services", lambda a=a: a.state()["services"] == 8)
            wait_for("resolv.conf", lambda a=a: a.node.gateway.encode() in a.node.resolv())
        for c in self.clients:
            c.copy_resolv_conf()

    def home(self, i):
        """The hub of the node."""
        return self.hub

    def write(self, hub):
        all = list(zip((1, 2, 3, 4), self.nodes, self.webs))
        hub.write("nodes.yaml", *[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n.name, "labels": {"edgeway.io/site": f"site-{i}"}},
                                   "status": {"addresses": [{"type": "InternalIP", "address": n.address}]}} for i, n, p in all])
        hub.write("pods.yaml", *[pod(f"web-{i}", n, p.address, ("http", 8080, 0), ("echo", 9090, 0)) for i, n, p in all],
                  *[pod(f"dns-{i}", n, p.address, ("u", 5353, 0), protocol="UDP") for i, n, p in all])
        hub.write("services.yaml", *[service(f"web-{i}", ("http", 80, 8080), ("echo", 7000, 9090)) for i, n, p in all],
                  *[service(f"dns-{i}", ("u", 53, 5353), protocol="UDP") for i, n, p in all])

    def write_config(self, lab, rules):
        path = f"{lab.dir}/hub.yaml"
        with open(path, "w") as f:
            f.write(f"access: [{rules}]\n")
        return path

    def reload(self, rules):
        self.write_config(self.lab, rules)
        self.hub.process.popen.send_signal(signal.SIGHUP)

    def get(self, i, k, *options, seconds=30):
        return self.clients[i - 1].get(f"http://web-{k}/", *options, seconds=seconds)

    def echo_socket(self, i, k):
        s = socket_of(self.clients[i - 1])
        s.connect((self.nodes[i - 1].address_of(f"web-{k}.default.svc.cluster.local", f"@{self.nodes[i - 1].gateway}"), 7000))
        return s

    def echo(self, i, k):
        with self.echo_socket(i, k) as s:
            name = s.recv(100)
            s.sendall(b"ping\n")
            return name + s.recv(100)

    def udp(self, i, k):
        to = self.nodes[i - 1].address_of(f"dns-{k}.default.svc.cluster.local", f"@{self.nodes[i - 1].gateway}")
        return self.clients[i - 1].python(f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout({PATIENCE_S}); "
                                          f"s.connect(('{to}', 53)); s.send(b'hello'); print(s.recv(2000))").stdout

    def peers(self, i, direction="out"):
        return [p for p in json.loads(self.agents[i - 1].ask("/peers")[1])["peers"] if p["direction"] == direction]

    def peer(self, i, k):
        return {p["peer"]: p for p in self.peers(i)}.get(f"edge-{k}")

    def meet(self, i, k):
        """Calls until a session across NAT is open, and nothing is kept open through the hub."""
        def met():
            assert self.get(i, k) == (200, f"edge-{k}.web\n")
            p = self.peer(i, k)
            return p is not None and p["state"] == "open" and p["path"] == "nat"
        wait_for(f"edge-{i} and edge-{k} meet", met)

    def carried(self):
        """Payload of nodes that hubs carry."""
        return sum(counted(h)["edgeway_hub_outward_bytes_total"] for h in self.hubs)

    def direct(self, i):
        return self.agents[i - 1].metrics()["edgeway_tunnel_outward_direct_total"]

    def anew(self, *which):
        """Agents that know nothing of attempts of before."""
        for i in which:
            self.agents[i - 1].stop()
            self.agents[i - 1].start()
        for i in which:
            wait_for("connected", lambda i=i: self.agents[i - 1].state()["meta"]["synced"])
            wait_for("a tunnel", lambda i=i: any(f"edge-{i}" in tunnels(h) for h in self.hubs))

    def logs(self):
        for a in self.agents:
            print(f"--- log of {a.node.name}\n{a.process.log()[-5000:]}")
        for h in self.hubs:
            print(f"--- log of {h.machine.name}\n{h.process.log()[-5000:]}")
