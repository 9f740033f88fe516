"""Two hubs of one CA that know each other by a name of both, and three nodes, each with a tunnel to one of them.

    @pytest.fixture(scope="module")
    def town(lab):
        made = replicas.Town(lab)
        yield made
        made.logs()

    as_before = replicas.as_before
"""
import http.client
import json
import os
import socket
import threading
import time

import pytest

import lab as labs
import tunnelkit
from dnskit import socket_in
from lab import HUB_PORT, PATIENCE_S, BARE_PYTHON, Agent, Hub, Node, Timeout, wait_for
from pki import Authority

ADDRESSES = ("192.0.2.1", "192.0.2.3", "192.0.2.4", "192.0.2.6")
NAME = "hubs.lab.test"
PORT = 7000  # where every node answers
UDP = 5300  # and 1 to 3: ports of each hub that lead to it


def url(*hubs):
    return ",".join(f"wss://{h.address}:{HUB_PORT}" for h in hubs)


def start_hub(lab, ca, i, *options, peers=NAME):
    address = ADDRESSES[i]
    named = ("--peers", peers) if peers is not None else ()
    return Hub(lab, "--tls.ca", ca.cert, "--tls.caKey", ca.key, *named, "--ingress.http", f"{address}:10080",
               "--ingress.udp", "[" + ", ".join(f"{{listen: '{address}:{UDP + i}', node: edge-{i}, target: {PORT}}}" for i in (1, 2, 3)) + "]",
               "--ingress.udpIdle", "500ms", "--access", "[{from: 192.0.2.0/29, to: ['*']}]", *options, name=f"hub-{i + 1}", address=address,
               before=("unshare", "--uts", "sh", "-c", f'hostname hub-{i + 1} && exec "$0" "$@"'))


def name_hubs(hubs):
    """Behind the name are all of them; each hub reads its own /etc/hosts."""
    for h in hubs:
        with open(os.path.join(h.machine.dir, "etc", "hosts"), "w") as f:
            f.write("127.0.0.1 localhost\n" + "".join(f"{o.address} {NAME}\n" for o in hubs))


def peers(hub):
    return {p["address"].split(":")[0]: p for p in json.loads(hub.ask("/peers")[1])["peers"]}


def know_each_other(hubs):
    for h in hubs:
        others = {o.address for o in hubs if o is not h}
        wait_for(f"{h.machine.name} knows the others", lambda h=h, others=others: others <= {
            a for a, p in peers(h).items() if p["state"] == "open"})


def request(hub, node, port=PORT, seconds=PATIENCE_S):
    """(status, body) of a request at this hub."""
    s = socket_in(hub.machine, socket.SOCK_STREAM, hub.address, 10080)
    s.settimeout(seconds)
    connection = http.client.HTTPConnection(hub.address)
    connection.sock = s
    try:
        connection.request("GET", f"http://{node}:{port}/", headers={"Host": node, "Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except http.client.HTTPException as e:
        return 0, repr(e)
    finally:
        connection.close()


def tunnel_of(hub, name):
    return tunnelkit.tunnels(hub).get(name)


class Asker:
    """Asks again and again for a node at a hub: `answers` is a list of (when asked, seconds, status, body)."""

    def __init__(self, hub, node):
        self.hub, self.node, self.answers, self.over = hub, node, [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            began = time.monotonic()  # measured, not judged
            try:
                status, body = request(self.hub, self.node, seconds=20)
            except OSError as e:
                status, body = 0, str(e)
            self.answers.append((began, time.monotonic() - began, status, body))
            time.sleep(0.01)

    def stop(self):
        self.over.set()
        self.thread.join(PATIENCE_S)
        return self.answers

    def failed(self, since=0):
        """Those of what was asked since then that were not answered with 200."""
        return [a for a in self.answers if a[2] != 200 and a[0] >= since]


class Town:
    def __init__(self, lab):
        self.lab = lab
        self.ca = Authority(lab.dir, "shared")
        self.hubs = [start_hub(lab, self.ca, i) for i in (0, 1)]
        name_hubs(self.hubs)
        self.hub = self.hubs[0]
        self.nodes = [Node(lab, f"edge-{i}", f"192.0.2.{10 + i}") for i in (1, 2, 3)]
        self.agents = [self.join(n, *(self.hubs if i < 2 else reversed(self.hubs))) for i, n in enumerate(self.nodes)]
        for n in self.nodes:
            self.backend(n, "web", "--http", str(PORT), "--udp", str(PORT), "--tcp", "7001", "--stream", "7500")
        self.wait_whole()

    def join(self, node, *hubs):
        """edge-1 and its hub find each other dead late: 9 s; the others after 3 s."""
        beat = "4s" if node.name == "edge-1" else "1s"
        return Agent(node, hubs[0], "--hub.url", url(*hubs), "--tunnel.allow", tunnelkit.ALLOW, "--hub.heartbeat", beat)

    def backend(self, node, name, *options):
        p = node.start(name, *BARE_PYTHON, os.path.join(labs.HERE, "backend.py"), "--name", node.name, *options)
        wait_for(f"{name} of {node.name}", lambda: "serving" in p.log())

    def wait_whole(self):
        """Each node has a tunnel, and each hub knows of all."""
        know_each_other(self.hubs)
        names = {n.name for n in self.nodes}
        for h in self.hubs:
            wait_for("all nodes are known", lambda h=h: set(tunnelkit.tunnels(h)) | self.elsewhere(h) >= names)
        wait_for("each once", lambda: sum(len(json.loads(h.ask("/tunnels")[1])["tunnels"]) for h in self.hubs) == len(names))
        wait_for("metadata", lambda: all(a.state()["meta"]["synced"] for a in self.agents))

    def elsewhere(self, hub):
        """The nodes that this hub knows of at others."""
        others = [set(tunnelkit.tunnels(o)) for o in self.hubs if o is not hub]
        told = sum(p["nodes"] for p in peers(hub).values())
        return set.union(*others) if told == sum(map(len, others)) else set()

    def send_home(self, agent, hub):
        """The node's connections go to this hub, if one of them is elsewhere."""
        if self.at_home(agent, hub):
            return
        agent.stop()
        agent.options = ("--hub.url", url(hub, *[h for h in self.hubs if h is not hub]), *agent.options[2:])
        agent.start()
        wait_for("home", lambda: self.at_home(agent, hub))

    def at_home(self, agent, hub):
        name = agent.node.name
        return tunnel_of(hub, name) and any(n["node"] == name and n["connected"] and n["at"] == hub.machine.name for n in json.loads(hub.ask("/nodes")[1])["nodes"])

    def logs(self):
        for a in self.agents:
            print(f"--- log of {a.node.name}\n{a.process.log()[-3000:]}")
        for h in self.hubs:
            print(f"--- log of {h.machine.name}\n{h.process.log()[-5000:]}")


def quiet(daemon):
    m = daemon.metrics()
    return tunnelkit.quiet(daemon) and not any(m.get(f'edgeway_hub_peer_streams{{direction="{d}"}}', 0) for d in ("to", "from"))


@pytest.fixture(autouse=True)
def as_before(town):
    """Descriptors and gauges of all are afterwards what they were."""
    town.wait_whole()
    for i, a in enumerate(town.agents):
        town.send_home(a, town.hubs[0 if i < 2 else 1])
    town.wait_whole()
    daemons = [*town.hubs, *town.agents]
    for d in daemons:
        wait_for("quiet", lambda d=d: quiet(d))
    before = [(d.process.pid, tunnelkit.descriptors(d)) for d in daemons]
    yield
    town.wait_whole()
    for i, a in enumerate(town.agents):
        town.send_home(a, town.hubs[0 if i < 2 else 1])
    town.wait_whole()
    for d in daemons:
        wait_for("no stream is left", lambda d=d: quiet(d))
    for d, (pid, n) in zip(daemons, before):
        if d.process.pid != pid:
            continue
        more = {}
        try:
            wait_for("descriptors as before", lambda d=d, n=n: not (more.update(now=tunnelkit.descriptors(d) - n) or more["now"]))
        except Timeout:
            pytest.fail(f"{d.socket}: more descriptors than before: {more}")
