"""One node with an agent of one worker, endpoints and a client pod, for the tests of HTTP/2; with EDGEWAY_H2_PEER=haproxy, nginx or nghttpx that
program instead of the agent: a test that none of them passes asks for what RFC 9113 does not say, or is wrong.
"""
import contextlib
import os
import signal

from h2kit import Http2
from h2peers import start_peer
from httpkit import Endpoint, Wire, socket_of
from lab import Agent, Hub, Node, pod, service, wait_for

PEER = os.environ.get("EDGEWAY_H2_PEER")
GROWTH_MAX_KB = 32 * 1024
SANITIZED_KB = 300 * 1024  # what ASan keeps of freed memory is no growth of ours


def annotated(made, **annotations):
    made["metadata"]["annotations"] = {f"edgeway.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return made


class Memory:
    """The agent's, and what it may grow by."""

    def __init__(self, bed):
        self.pid, self.before = bed.agent.process.pid, 0
        with open(f"/proc/{self.pid}/maps") as f:
            self.sanitized = "asan" in f.read()
        self.before = self.grown_kb()

    def grown_kb(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(next(line for line in f if line.startswith("VmRSS:")).split()[1]) - self.before

    def stays(self, most_kb=GROWTH_MAX_KB):
        return self.grown_kb() < (SANITIZED_KB if self.sanitized else most_kb)


@contextlib.contextmanager
def no_answers(machine, rule="tcp dport 8080"):
    """What is sent to this port is lost."""
    machine.run("nft", "-f", "-", input=f"table inet lost {{ chain in {{ type filter hook input priority 0; {rule} drop;\n}}\n}}")
    try:
        yield
    finally:
        machine.run("nft", "delete", "table", "inet", "lost")


class Bed:
    """Services: one (the first pod), two (both), none; patient gives up after a second, guarded is not for us."""

    def __init__(self, lab, endpoints=Endpoint, objects=(), options=()):
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pods = [self.node.pod(f"web-{i}") for i in range(2)]
        self.client_pod = self.node.pod("client")
        self.ends = [endpoints(p, 8080) for p in self.pods]
        self.clients, self.addresses = [], {}
        all_of_them = [p.address for p in self.pods]
        self.agent = None if PEER else self.start_agent(lab, objects, options)
        if PEER:
            self.addresses = start_peer(PEER, self.node, {"one": all_of_them[:1], "two": all_of_them})

    def start_agent(self, lab, objects, options):
        self.hub = Hub(lab)
        http = ("http", 80, 8080)
        self.hub.write("web.yaml", service("one", http), service("two", http), service("none", http),
                       annotated(service("patient", http, selector="one"), request_timeout="1s"),
                       annotated(service("guarded", http, selector="one"), allow_from="namespaces=ops"), *objects,
                       *[pod(f"p{i}", self.node, p.address, ("http", 8080, 0), app="two") for i, p in enumerate(self.pods)],
                       pod("q", self.node, self.pods[0].address, ("http", 8080, 0), app="one"))
        self.config = os.path.join(self.node.dir, "agent.yaml")
        self.configure("lb: {accessLog: all}\n")
        agent = Agent(self.node, self.hub, "--config", self.config, "--lb.policy", "round-robin", "--mesh.workers", "1", *options)
        for name in ("one", "two", "none", "patient", "guarded", *(o["metadata"]["name"] for o in objects if o["kind"] == "Service")):
            self.find(name)
        return agent

    def find(self, name):
        where = f"{name}.default.svc.cluster.local"
        self.addresses[name] = wait_for(name, lambda: self.node.address_of(where, f"@{self.node.gateway}")), 80

    def configure(self, text):
        with open(self.config, "w") as f:
            f.write(text)

    def reconfigure(self, text):
        said = self.agent.process.log().count("reloaded")
        self.configure(text)
        self.agent.process.popen.send_signal(signal.SIGHUP)
        wait_for("reload", lambda: self.agent.process.log().count("reloaded") > said)

    def connect(self, name="one"):
        """A connection of the client pod."""
        s = socket_of(self.client_pod)
        s.connect(self.addresses[name])
        self.clients.append(Wire(s))
        return self.clients[-1]

    def client(self, name="one", settings=()):
        return Http2(self.connect(name)).open(settings)

    def accept(self, i=0, settings=()):
        """The next HTTP/2 connection to an endpoint."""
        return Http2(self.ends[i].accept(), server=True).open(settings)

    def pair(self, *fields, path="/", method="GET", name="one", **more):
        """A request that has reached the endpoint: (client, its stream, endpoint, its stream, fields there)."""
        client = self.client(name)
        stream = client.ask(path, method, *fields, **more)
        end = self.accept()
        return client, stream, end, *end.head()

    def clear(self):
        """Between tests: nobody's connections."""
        for c in self.clients:
            c.close()
        self.clients = []
        for e in self.ends:
            e.clear()

    def url(self, name="one", path="/"):
        return f"http://{self.addresses[name][0]}:{self.addresses[name][1]}{path}"

    def pump(self, sessions):
        """Takes what has come to the endpoints, also new connections."""
        for i, end in enumerate(self.ends):
            if end.called(0.01):
                wire = end.accept(speaks=False)
                if wire.begins():  # else it was given up, or tried the endpoint
                    sessions.append((i, Http2(wire, server=True).open()))
        for _, h2 in sessions:
            while h2.ready() and h2.pump():
                pass

    def serve(self, client, streams, sessions=()):
        """Answers all requests with their path until each stream has its answer and nothing else comes: ([(endpoint, path)], sessions)."""
        asked, sessions, idle = [], list(sessions), 0
        while idle < 15 or not all(client.got[s] for s in streams):
            idle += 1
            self.pump(sessions)
            for i, h2 in sessions:
                while h2.new:
                    there, fields = h2.head()
                    asked.append((i, fields[":path"]))
                    h2.answer(there, fields[":path"].encode())
                    idle = 0
            client.quiet(0.0)
        return asked, sessions

    def endpoints(self, name):
        """As the workers that know them show them."""
        return [e for g in self.agent.state()["lb"]["endpoints"] if g["service"] == f"default/{name}" for e in g["endpoints"]]

    def in_flight(self, name):
        return sum(e["in_flight"] for e in self.endpoints(name))

    def metric(self, name):
        return self.agent.metrics()[f"edgeway_lb_{name}"]
