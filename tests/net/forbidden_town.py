"""A node, a machine "forbidden" that has the metadata addresses of clouds and counts what is sent to them, and Services of a tenant's that
lead there, or to the node's own processes. The node's routes would reach all of it."""
import os

import lab as labs
from lab import Agent, Hub, Machine, Node, endpoint_slice, pod, service

METADATA, ALIBABA, NODE, GATEWAY = "169.254.169.254", "100.100.100.200", "192.0.2.11", "172.17.0.1"
WORLD = "192.0.2.80"
TENCENT = "169.254.0.23"  # metadata as well; nobody has it here
DOMAIN = "default.svc.cluster.local"
OWN_PORT = 8022
ELSEWHERE = ("edge-9", "192.0.2.99")
KERNEL = {"edgeway.io/datapath": "kernel"}


def at_host_ip(manifest, address):
    manifest["spec"]["containers"][0]["ports"][0]["hostIP"] = address
    return manifest


def leads_to(name, address, port=80, kind="http", protocol="TCP", target=None, **more):
    """A Service with an EndpointSlice and no pods."""
    s = endpoint_slice(f"{name}-1", name, target or port, address, port_name=kind)
    s["ports"][0]["protocol"] = protocol
    if ":" in address:
        s["addressType"] = "IPv6"
    return service(name, (kind, port, target or port), protocol=protocol, **more), s


# What a tenant writes: every seen way, and its neighbours. Asked by HTTP at port 80.
HTTP = {
    "host-port-ip": [service("host-port-ip", ("http", 80, 8080)),
                     at_host_ip(pod("host-port-ip", ELSEWHERE, "172.17.0.9", ("http", 8080, 80)), METADATA)],
    "status-host-ip": [service("status-host-ip", ("http", 80, 8080)),
                       pod("status-host-ip", ("edge-9", METADATA), "172.17.0.9", ("http", 8080, 80))],
    "status-pod-ip": [service("status-pod-ip", ("http", 80, 80)), pod("status-pod-ip", ("edge-1", NODE), METADATA, ("http", 80, 0))],
    "slice": leads_to("slice", ALIBABA),
    "headless": leads_to("headless", ALIBABA, clusterIP="None"),
    "wrapped": leads_to("wrapped", "64:ff9b::a9fe:a9fe"),
    "loopback": [service("loopback", ("http", 80, 40002)), pod("loopback", ("edge-1", "127.0.0.1"), "127.0.0.1", ("http", 40002, 0), host_network=True)],
    "this-network": leads_to("this-network", "0.1.2.3", target=40002),
    "own": leads_to("own", NODE, target=OWN_PORT),
    "bridge": leads_to("bridge", GATEWAY, target=OWN_PORT),
    "feigned": [service("feigned", ("http", 80, OWN_PORT)), pod("feigned", ("edge-1", NODE), NODE, ("http", OWN_PORT, OWN_PORT))],
    "checked": leads_to("checked", ALIBABA, annotations={"edgeway.io/health-path": "/health"}),
}
TCP, UDP = ("relayed", "kernel"), "datagrams"
OTHERS = [*leads_to("relayed", ALIBABA, 81, "tcp"), *leads_to("kernel", ALIBABA, 81, "tcp", annotations=KERNEL),
          *leads_to(UDP, ALIBABA, 53, "udp", "UDP"), *leads_to("own-datagrams", NODE, 5353, "udp", "UDP"),
          *leads_to("catching", WORLD, clusterIP=TENCENT)]
# What is meant: a real hostNetwork pod of this node, and a machine beyond.
GOOD = [service("good", ("http", 80, OWN_PORT)), pod("good", ("edge-1", NODE), NODE, ("http", OWN_PORT, 0), host_network=True),
        *leads_to("world", WORLD)]


class Town:
    def __init__(self, lab, *options):
        self.lab = lab
        self.dns = labs.upstream(lab)
        self.hub = self.start_hub()
        self.node = Node(lab, "edge-1", NODE)
        self.forbidden = Machine(lab, "forbidden", address=WORLD)
        for address in (METADATA, ALIBABA):
            self.forbidden.run("ip", "addr", "add", f"{address}/32", "dev", "eth0")
            self.node.run("ip", "route", "add", f"{address}/32", "via", WORLD)
        self.forbidden.run("nft", "-f", "-", input=f"""
            table ip lab {{
                chain in {{
                    type filter hook input priority 0;
                    ip daddr {{ {METADATA}, {ALIBABA} }} ct state new counter
                }}
            }}""")
        self.serve(self.forbidden, "forbidden", "--http", "80", "--http", str(OWN_PORT), "--tcp", "81", "--udp", "53")
        self.serve(self.node, "node", "--http", str(OWN_PORT), "--udp", "5353")
        self.agent = self.start_agent(*options)
        self.client = self.node.pod("client")
        labs.wait_for("services", lambda: all(self.client.address_of(f"{name}.{DOMAIN}") for name in ("world", "catching")))

    def start_hub(self):
        hub = Hub(self.lab)
        hub.write("all.yaml", *[o for objects in HTTP.values() for o in objects], *OTHERS, *GOOD)
        return hub

    def start_agent(self, *options):
        return Agent(self.node, self.hub, *options)

    @staticmethod
    def serve(machine, name, *options):
        p = machine.start("backend", *labs.BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", name, *options)
        labs.wait_for("backend", lambda: "serving" in p.log())

    def get(self, name, *options):
        return self.client.get(f"http://{name}.{DOMAIN}/", *options)

    def touched(self):
        """Connections and flows that were begun with the forbidden addresses."""
        text = self.forbidden.run("nft", "list", "table", "ip", "lab").stdout
        return int(text.split("counter packets ")[1].split()[0])

    def edgewayctl(self, *words):
        p = self.node.run(self.lab.program("edgewayctl"), "--socket", self.agent.socket, *words, check=False)
        return p.stdout + p.stderr
