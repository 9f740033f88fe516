#!/usr/bin/python3
"""The second half of deploy/quickstart: the machines, the programs, and what they do for a container.

Each step prints what it is about, the command as a person would type it on that machine, and what came of it. A step that
does not do what it says ends the show with status 1. The machines are those of tests/net/lab.py.
"""
import argparse
import collections
import os
import re
import signal
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "net"))

import engine  # noqa: E402
import lab as labs  # noqa: E402
from lab import FAKE, PYTHON, UPSTREAM_ADDRESS, Agent, Hub, Lab, Node, pod, service, wait_for  # noqa: E402

NAME = "edge-nginx.default.svc.cluster.local"
WEB = """
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: default}
spec:
  selector: {app: edge-nginx}
  ports:
  - {name: http, port: 80, targetPort: 8080}
"""
CANARY = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: shop, namespace: default}
  spec: {selector: {app: edge-nginx}, ports: [{name: http, port: 80, targetPort: 8080}]}
- apiVersion: v1
  kind: Service
  metadata: {name: shop-v1, namespace: default}
  spec: {selector: {version: web-1}, ports: [{name: http, port: 80, targetPort: 8080}]}
- apiVersion: v1
  kind: Service
  metadata: {name: shop-v2, namespace: default}
  spec: {selector: {version: web-2}, ports: [{name: http, port: 80, targetPort: 8080}]}
- apiVersion: gateway.networking.k8s.io/v1
  kind: HTTPRoute
  metadata: {name: shop, namespace: default}
  spec:
    parentRefs: [{group: "", kind: Service, name: shop}]
    rules:
    - matches: [{headers: [{name: x-canary, value: "yes"}]}]
      backendRefs: [{name: shop-v2, port: 80}]
    - backendRefs: [{name: shop-v1, port: 80, weight: 80}, {name: shop-v2, port: 80, weight: 20}]
"""
UDP_PORT = 5000
INGRESS = "127.0.0.1:10080"
# What a site's NAT does: connections that the cloud opens do not arrive.
BEHIND_NAT = """table ip nat44 {
    chain in { type filter hook prerouting priority -150; ip saddr 192.0.2.1 ct state new drop; }
}"""
IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+$")
NET = os.path.join(TOP, "tests", "net")
step_number = 2


class Failed(Exception):
    pass


def step(what):
    global step_number
    step_number += 1
    print(f"step {step_number}:{' ' * (3 - len(str(step_number)))} {what}", flush=True)


def command(where, text):
    print(f"         {where}$ {text}", flush=True)


def result(text):
    for line in str(text).strip().splitlines():
        print(f"         -> {line.strip()}", flush=True)


def must(condition, why):
    if not condition:
        raise Failed(why)


class PlainPod:
    """A pod where there is no Docker Engine: the same face as engine.Container."""

    def __init__(self, node, name):
        self.pod, self.name = node.pod(name), name
        self.address = self.pod.address

    def get(self, url, header=None):
        return self.pod.get(url, *(["-H", header] if header else []))[1]

    def lookup(self, name):
        return self.pod.getent(name) or "nothing", f"getent ahostsv4 {name}"

    def resolv_conf(self):
        return self.pod.run("cat", "/etc/resolv.conf").stdout

    def python(self, script, *args):
        return self.pod.run(PYTHON, os.path.join(NET, script), *args).stdout


class ContainerPod:
    def __init__(self, container):
        self.container, self.name, self.address = container, container.name, container.address

    def get(self, url, header=None):
        if header:
            return self.container.run("wget", "-qO-", "--header", header, url, check=False).stdout
        return self.container.get(url) or "nothing"

    def lookup(self, name):
        said = self.container.run("nslookup", name, check=False).stdout
        answer = said.split("Name:", 1)[-1]  # behind the lines about the server
        found = [w for w in answer.split() if IPV4.match(w)]
        return (found or ["nothing"])[0], f"nslookup {name}"

    def resolv_conf(self):
        return self.container.run("cat", "/etc/resolv.conf").stdout

    def inside(self):
        """Words that run a program of the node in the container's network; its image has no Python."""
        node = self.container.node
        pid = node.docker("inspect", "-f", "{{.State.Pid}}", self.name).stdout.strip()
        return ["nsenter", "-t", pid, "-n", "--", PYTHON]

    def python(self, script, *args):
        return self.container.node.run(*self.inside(), os.path.join(NET, script), *args).stdout


class Show:
    def __init__(self, lab, docker):
        self.lab, self.docker = lab, docker

    def machine(self, name, address):
        return engine.EngineNode(self.lab, name, address) if self.docker else Node(self.lab, name, address)

    def web(self, node, name):
        """HTTP on 8080 and UDP on UDP_PORT, published on 30080 and 30500 of the node."""
        if self.docker:
            script = f"echo {name} > /www/index.html; exec httpd -f -p 8080 -h /www"
            made = ContainerPod(node.container(name, "sh", "-c", script, publish={30080: 8080, 30500: f"{UDP_PORT}/udp"}))
            server = node.start("udp", *made.inside(), os.path.join(NET, "backend.py"), "--name", name, "--udp", UDP_PORT)
            wait_for("the UDP server", lambda: "serving" in server.log())
            return made
        made = PlainPod(node, name)
        made.pod.serve("--http", "8080", "--udp", str(UDP_PORT), "--name", name)
        node.publish(30080, made.pod, 8080)
        node.publish(30500, made.pod, UDP_PORT, "udp")
        return made

    def client(self, node, name="client", dns=None):
        """dns: the only name server in its resolv.conf; else the node's."""
        if self.docker:
            options = ["--dns", dns] if dns else []
            return ContainerPod(node.container(name, "sleep", "1000000", options=options))
        made = PlainPod(node, name)
        if dns:
            with open(made.pod.resolv_conf, "w", encoding="ascii") as f:
                f.write(f"nameserver {dns}\n")
        return made

    def ctl(self, *words):
        command("edge-1", f"edgewayctl {' '.join(words)}")
        said = self.nodes[0].run(self.lab.program("edgewayctl"), "--socket", self.agents[0].socket, *words).stdout
        result(said)
        return said

    # --- steps ---------------------------------------------------------------------

    def machines(self):
        kind = "a Docker Engine each" if self.docker else "pods in plain namespaces"
        step(f"a cloud machine and two edge nodes with {kind}, in network namespaces of their own")
        labs.upstream(self.lab, "www.example.test/203.0.113.7")
        self.nodes = [self.machine(f"edge-{i}", f"192.0.2.1{i}") for i in (1, 2)]
        for n in self.nodes:
            command(n.name, "ip -br -4 addr show docker0")
            said = n.run("ip", "-br", "-4", "addr", "show", "docker0").stdout
            result(said)
            must("172.17.0.1/16" in said, "docker0 has no address")

    def containers(self):
        step("a server on each node, its HTTP and UDP ports published on the node (hostPort)")
        self.webs = []
        for i, n in enumerate(self.nodes, 1):
            command(n.name, f"docker run -d --name web-{i} -p 30080:8080 -p 30500:5000/udp ..." if self.docker else f"web-{i} ...")
            self.webs.append(self.web(n, f"web-{i}"))
            said = n.get(f"http://{n.address}:30080/")
            must(said[0] == 200, f"the web server does not answer: {said[1]}")
            result(f"{self.webs[-1].name} has {self.webs[-1].address} behind {n.address}:30080")

    def hub_start(self):
        step("the hub in the cloud reads Kubernetes manifests from a folder")
        command("cloud", f"edgeway-hub --listen 192.0.2.1:10000 --source.manifests manifests/ --ingress.http {INGRESS}")
        self.hub = Hub(self.lab, "--ingress.http", INGRESS)
        self.hub.write("pods.yaml", *[self.manifest(w, n) for w, n in zip(self.webs, self.nodes)])
        self.hub.write("edge-nginx.yaml", WEB % "edge-nginx")
        result(f"healthy: {self.hub.ask('/healthz')[1].strip() or 'ok'}")

    def manifest(self, web, node):
        """The pod, as kubelet would report it; with a name of its own in the headless service `peers`."""
        made = pod(web.name, node, web.address, ("http", 8080, 30080), app="edge-nginx")
        made["metadata"]["labels"]["version"] = web.name
        made["spec"].update(hostname=web.name, subdomain="peers")
        made["spec"]["containers"][0]["ports"].append(
            {"name": "log", "containerPort": UDP_PORT, "hostPort": 30500, "protocol": "UDP"})
        return made

    def agents_start(self):
        step("an agent on each node joins with a token and gets a certificate of its own")
        self.agents = []
        for n in self.nodes:
            command("cloud", f"edgewayctl token create --node {n.name}")
            command(n.name, f"edgeway-agent --node {n.name} --hub.url wss://192.0.2.1:10000 --hub.tokenFile ...")
            self.agents.append(Agent(n, self.hub))
            fake = wait_for("the service on the node", lambda n=n: n.address_of(NAME, "@172.17.0.1"))
            wait_for("resolv.conf", lambda n=n: b"nameserver 172.17.0.1" in n.resolv())
            result(f"ready; knows edge-nginx as {fake}")
        self.ctl("services")

    def names(self):
        kind = "container" if self.docker else "pod"
        step(f"a {kind} resolves the service's full name, and its short one through the search list")
        self.clients = [self.client(n) for n in self.nodes]
        answers = set()
        for name in (NAME, "edge-nginx"):
            said, how = self.clients[0].lookup(name)
            command("edge-1/client", how)
            result(said)
            answers.add(said)
        must(len(answers) == 1 and FAKE.match(answers.pop()), "no fake IP of 9.251.0.0/16")

    def call(self, client, url, times, header=None):
        return collections.Counter(client.get(url, header).strip() for _ in range(times))

    def spread(self):
        step("requests are spread over the endpoints on both nodes")
        for node, client in zip(self.nodes, self.clients):
            command(f"{node.name}/client", "for i in 1..20: wget -qO- http://edge-nginx/")
            seen = self.call(client, "http://edge-nginx/", 20)
            result(", ".join(f"{name}: {n}" for name, n in sorted(seen.items())))
            must(set(seen) == {"web-1", "web-2"}, "not both endpoints, or something else, answered")

    def peers(self):
        step("each pod of a headless Service that has a hostname has a name of its own, also from another node")
        command("cloud", "cp peers.yaml manifests/    # clusterIP: None")
        self.hub.write("peers.yaml", service("peers", ("http", 80, 8080), selector="edge-nginx", clusterIP="None"))
        for web in self.webs:
            url = f"http://{web.name}.peers/"
            wait_for(f"{web.name}.peers", lambda url=url: self.clients[0].get(url).startswith("web-"))
            command("edge-1/client", f"for i in 1..5: wget -qO- {url}")
            seen = self.call(self.clients[0], url, 5)
            result(", ".join(f"{name}: {n}" for name, n in seen.items()))
            must(set(seen) == {web.name}, "not that pod, or something else, answered")

    def udp_ports(self):
        return self.agents[0].state()["iptables"]["kernel"]["udpPorts"]

    def udp(self):
        step("a UDP Service, carried by the kernel: each source port keeps its endpoint")
        before = self.udp_ports()  # the pods' own names have it already, as the pods declare it
        command("cloud", "cp log.yaml manifests/    # protocol: UDP")
        self.hub.write("log.yaml", service("log", ("log", UDP_PORT, UDP_PORT), selector="edge-nginx", protocol="UDP"))
        wait_for("the UDP service", lambda: self.udp_ports() > before)
        command("edge-1/client", f"udpsend.py log {UDP_PORT} 20    # from 20 ports")
        said = self.clients[0].python("udpsend.py", "log", UDP_PORT, 20)
        seen = collections.Counter(line.split()[0] for line in said.splitlines())
        result(", ".join(f"{name}: {n}" for name, n in sorted(seen.items())))
        must(set(seen) == {"web-1", "web-2"} and seen.total() == 20, f"not 20 answers of both endpoints:\n{said}")

    def capture(self):
        kind = "container" if self.docker else "pod"
        step(f"capture: a {kind} that knows another name server only gets cluster names too")
        older = self.client(self.nodes[0], "older", UPSTREAM_ADDRESS)
        wait_for("the capture", lambda: self.agents[0].state()["iptables"]["captured"]["upstreams"])
        command("edge-1/older", "cat /etc/resolv.conf")
        said = [line for line in older.resolv_conf().splitlines() if line.startswith("nameserver")]
        result("\n".join(said))
        must(said == [f"nameserver {UPSTREAM_ADDRESS}"], "not the only name server")
        said, how = older.lookup(NAME)
        command("edge-1/older", how)
        result(said)
        must(FAKE.match(said), "no fake IP of 9.251.0.0/16")

    def look(self):
        step("what an operator sees: who answers for other names, and how the endpoints are")
        said, how = self.clients[0].lookup("www.example.test")
        command("edge-1/client", how)
        result(said)
        must(said == "203.0.113.7", "the upstream's answer did not come through")
        must(re.search(rf"^{UPSTREAM_ADDRESS}:53 +alive +[1-9]", self.ctl("upstreams"), re.M), "the upstream is not alive")
        said = self.ctl("health", "default/edge-nginx")
        for address in (f"{self.webs[0].address}:8080", f"{self.nodes[1].address}:30080"):
            must(re.search(rf" {address} .* up ", said), f"{address} is not up")

    def rules(self):
        step("what the agent changed on the node: one table whose rules do not depend on the number of services")
        command("edge-1", "nft -t list table ip edgeway    # in short")
        self.table = self.nodes[0].table()
        short = [line for line in self.table.splitlines() if re.search("vmap|goto proxy|to 172.17.0.1:40001", line)]
        result("\n".join(short))
        must(len(short) == 11, "eleven lines expected")
        command("edge-1", "curl http://edge-nginx/    # a process of the host itself")
        status, said = self.nodes[0].get("http://edge-nginx/")
        result(said)
        must(status == 200, "the host cannot call the service")

    def added(self):
        step("a Service is added by dropping a manifest into the folder")
        command("cloud", "cp late.yaml manifests/")
        start = time.monotonic()
        self.hub.write("late.yaml", WEB % "late")
        said = wait_for("call of the new service", lambda: re.match("web-[12]", self.clients[1].get("http://late/")), 10)
        command("edge-2/client", "wget -qO- http://late/")
        result(f"{said.group(0)}, {time.monotonic() - start:.1f} s after the file was dropped (docker exec included)")
        wait_for("the service on edge-1", lambda: self.nodes[0].address_of("late.default.svc.cluster.local", "@172.17.0.1"))
        must(self.nodes[0].table() == self.table, "the rules of edge-1 changed")
        result("the rules are the same as before")

    def canary(self):
        step("a canary by the Gateway API: a fifth of the requests, and those with a header, go to the new version")
        command("cloud", "cp canary.yaml manifests/    # an HTTPRoute on Service shop: weights 80 and 20; x-canary: yes")
        self.hub.write("canary.yaml", CANARY)
        client = self.clients[0]
        wait_for("the route", lambda: client.get("http://shop/", "x-canary: yes").strip() == "web-2" and client.get("http://shop/").startswith("web-"))
        for header, words in ((None, ""), ("x-canary: yes", "--header 'x-canary: yes' ")):
            command("edge-1/client", f"for i in 1..50: wget -qO- {words}http://shop/")
            seen = self.call(client, "http://shop/", 50, header)
            result(", ".join(f"{name}: {n}" for name, n in sorted(seen.items())))
            must(seen["web-2"] == 50 if header else set(seen) == {"web-1", "web-2"} and seen["web-1"] > 25, "not what the route says")

    def cloud(self, url, *options, times=1):
        """What a client in the cloud gets at the hub's ingress: the bodies with how often each came, and the statuses."""
        words = " ".join(f"'{o}'" if " " in o else o for o in options)
        many = f"for i in 1..{times}: " if times > 1 else ""
        command("cloud", f"{many}curl -x http://{INGRESS} {words}{' ' if words else ''}{url}")
        said = [self.hub.machine.get(url, "-x", f"http://{INGRESS}", *options) for _ in range(times)]
        seen = collections.Counter(body.strip() for _, body in said)
        result(", ".join(f"{body}: {n}" if times > 1 else body for body, n in sorted(seen.items())))
        return seen, {status for status, _ in said}

    def tunnel(self):
        step("the cloud, which cannot dial the nodes, reaches them through the tunnels that they dialled")
        for n in self.nodes:
            n.run("nft", "-f", "-", input=BEHIND_NAT)
            kubelet = n.start("kubelet", PYTHON, os.path.join(NET, "backend.py"), "--name", f"port 10250 of {n.name}",
                              "--http", "10250", "--bind", "127.0.0.1")
            wait_for("the listener", lambda: "serving" in kubelet.log())
        command("cloud", f"curl -m 1 http://{self.nodes[0].address}:30080/")
        status, said = self.hub.machine.get(f"http://{self.nodes[0].address}:30080/", seconds=1)
        result(said)
        must(status == 0, "the cloud can dial the node after all")
        command("cloud", "edgewayctl tunnels")
        said = self.hub.machine.run(self.lab.program("edgewayctl"), "--socket", self.hub.socket, "tunnels").stdout
        result(said)
        must(all(n.name in said for n in self.nodes), "not every node has a tunnel")
        seen, statuses = self.cloud("http://edge-nginx.default/", times=10)
        must(set(seen) == {"web-1", "web-2"} and statuses == {200}, "not both containers answered")
        for n in self.nodes:
            seen, _ = self.cloud(f"http://{n.name}:10250/")
            must(set(seen) == {f"port 10250 of {n.name}"}, "not the node's own loopback answered")
        seen, statuses = self.cloud(f"http://{self.webs[0].address}:8080/")
        must(statuses == {421} and "web-1" in str(seen) and "web-2" in str(seen), "an address that two have is not refused")
        _, statuses = self.cloud("http://edge-1:22/")
        must(statuses == {403}, "what tunnel.allow does not name is not refused")

    def hub_stops(self):
        step("the hub stops, then an agent restarts: calls go on, the fake IP stays")
        before = self.clients[0].lookup(NAME)[0]
        command("cloud", "kill $(pidof edgeway-hub)")
        must(self.hub.process.stop() == 0, "the hub did not stop as it should")
        seen = self.call(self.clients[0], "http://edge-nginx/", 20)
        result("hub stopped; " + ", ".join(f"{name}: {n}" for name, n in sorted(seen.items())))
        must(set(seen) == {"web-1", "web-2"}, "calls failed without the hub")
        command("edge-1", "restart edgeway-agent")
        must(self.agents[0].stop() == 0, "the agent did not stop as it should")
        self.agents[0].start()
        seen = self.call(self.clients[0], "http://edge-nginx/", 20)
        after = self.clients[0].lookup(NAME)[0]
        result(f"restarted without a hub; {after} as before; "
               + ", ".join(f"{name}: {n}" for name, n in sorted(seen.items())))
        must(before == after and set(seen) == {"web-1", "web-2"}, "not as before")

    def stopped(self):
        step("the agents stop and leave the nodes as they found them")
        for n, a in zip(self.nodes, self.agents):
            command(n.name, "kill $(pidof edgeway-agent)")
            must(a.stop() == 0, "the agent did not stop as it should")
            must(n.clean(), "something of ours is left on the node")
        result("resolv.conf is the old one byte for byte; no table, no route")

    def keep(self):
        print("\nEverything runs; to look around, from another shell:")
        for n in self.nodes:
            print(f"  {n.name}:  nsenter -t {n.holder.pid} -m -n -- bash")
            if self.docker:
                print(f"           docker -H {n.host} exec client wget -qO- http://edge-nginx/")
            print(f"           {self.lab.program('edgewayctl')} --socket {n.dir}/agent.sock status")
        print(f"  cloud:   manifests in {self.hub.manifests}")
        print("Enter ends it.", flush=True)
        sys.stdin.readline()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    docker = not options.plain and engine.available()
    start = time.monotonic()
    try:
        with Lab() as lab:
            show = Show(lab, docker)
            try:
                show.machines()
            except Exception as e:
                if not docker:
                    raise
                print(f"         no Docker Engine here ({str(e).splitlines()[0]}): plain namespaces instead")
                lab.close()
                return main_plain(options, start)
            run(show, options)
    except (Failed, labs.Timeout, RuntimeError) as e:
        print(f"FAILED:  {e}", flush=True)
        return 1
    return done(start)


def main_plain(options, start):
    with Lab() as lab:
        show = Show(lab, docker=False)
        show.machines()
        run(show, options)
    return done(start)


def run(show, options):
    for part in (show.containers, show.hub_start, show.agents_start, show.names, show.spread, show.peers, show.udp,
                 show.capture, show.look, show.rules, show.added, show.canary, show.tunnel, show.hub_stops):
        part()
    if options.keep:
        show.keep()
    show.stopped()


def done(start):
    print(f"done:    all {step_number} steps did what they show, {time.monotonic() - start:.0f} s after the build")
    return 0


if __name__ == "__main__":
    sys.exit(main())
