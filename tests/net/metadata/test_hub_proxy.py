"""hub.proxy: the way to the hub through a real HTTP proxy (tinyproxy), which knows names that the node does not."""
import json
import os
import signal

import pytest

from lab import Agent, HERE, HUB_ADDRESS, HUB_PORT, BARE_PYTHON, Hub, Lab, Machine, Node, service, wait_for

PROXY, STRANGER = "192.0.2.8", "192.0.2.3"
USER, PASSWORD, ESCAPED = "edge", "s3cretx9", "s3cret%789"
URL = f"http://{USER}:{ESCAPED}@{PROXY}:3128"
NAME = "hub.example.test"


class Proxy:
    def __init__(self, lab, hub_address=HUB_ADDRESS):
        self.machine = Machine(lab, "proxy", address=PROXY)
        self.point(hub_address)
        self.config = os.path.join(self.machine.dir, "tinyproxy.conf")
        with open(self.config, "w") as f:
            f.write(f"Port 3128\nListen {PROXY}\nTimeout 600\nMaxClients 50\nLogLevel Connect\n"
                    f"BasicAuth {USER} {PASSWORD}\nConnectPort {HUB_PORT}\n")
        self.start()

    def point(self, address):
        with open(os.path.join(self.machine.dir, "etc", "hosts"), "w") as f:
            f.write(f"127.0.0.1 localhost\n{address} {NAME}\n")

    def start(self):
        self.process = self.machine.start("tinyproxy", "tinyproxy", "-d", "-c", self.config)
        wait_for("tinyproxy", lambda: self.machine.send(PROXY, 3128, "GET / HTTP/1.0\r\n\r\n"))

    def connects(self):
        return self.process.log().count(f"CONNECT {NAME}:{HUB_PORT}")


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.fixture
def node(lab):
    made = Node(lab, "edge-1", "192.0.2.11")
    # nothing but the proxy lets it out
    made.run("nft", "-f", "-", input=f"""
        table ip fence {{
            chain out {{ type filter hook output priority 0; oifname "eth0" ip daddr != {PROXY} drop; }}
        }}""")
    return made


def start(node, hub, *options, ready=True, **more):
    agent = Agent(node, hub, "--hub.url", f"wss://{NAME}:{HUB_PORT}", "--hub.proxy", URL, "--log.level", "debug",
                  *options, start=False, **more)
    agent.start(ready=ready)
    return agent


def meta(agent):
    return agent.state()["meta"]


def error(agent, words):
    wait_for(words, lambda: words in meta(agent)["error"])


def test_joins_syncs_and_renews(lab, node):
    hub, proxy = Hub(lab, "--tls.names", NAME, "--tls.nodeLifetime", "20s"), Proxy(lab)
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    agent = start(node, hub)
    wait_for("synced", lambda: meta(agent)["synced"] and agent.state()["services"] == 1)
    assert meta(agent)["proxy"] == PROXY and meta(agent)["address"] == f"{PROXY}:3128"
    nodes = json.loads(hub.ask("/nodes")[1])["nodes"]
    assert [n["address"].rsplit(":", 1)[0] for n in nodes] == [PROXY]
    wait_for("the tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    assert proxy.connects() == 3  # to join, to stay, the tunnel
    wait_for("renewed", lambda: meta(agent)["certificate_renewals"] >= 1)
    assert proxy.connects() >= 3
    # large and many messages pass in both directions
    hub.write("many.yaml", *[service(f"many-{i}", ("http", 80, 8080)) for i in range(1500)])
    wait_for("services", lambda: agent.state()["services"] == 1501)
    wait_for("acknowledged", lambda: '"unacked":0' in hub.ask("/nodes")[1])
    # the password is where it was given, and nowhere else
    told = agent.process.log() + agent.ask("/debug/state")[1] + agent.ask("/metrics")[1]
    told += node.run(*agent.argv("--hub.proxy", URL, "--check"), check=False).stdout
    for secret in (PASSWORD, ESCAPED, "ZWRnZT"):  # base64 of "edge:..." begins so
        assert secret not in told
    assert agent.stop() == 0


def test_the_tunnel_goes_through_it(lab, node):
    """A node that only a proxy lets out is reached from the cloud, and again after the proxy was away."""
    hub, proxy = Hub(lab, "--tls.names", NAME, "--ingress.http", "127.0.0.1:10080"), Proxy(lab)
    kubelet = node.start("kubelet", *BARE_PYTHON, os.path.join(HERE, "backend.py"), "--name", "kubelet", "--http", "10250")
    wait_for("the kubelet", lambda: "serving" in kubelet.log())
    agent = start(node, hub)

    def get():
        return hub.machine.get("http://edge-1:10250/", "-x", "http://127.0.0.1:10080")
    wait_for("an answer", lambda: get() == (200, "kubelet\n"))
    proxy.process.kill()
    wait_for("the tunnel is gone", lambda: "503" in str(get()))
    wait_for("the agent says why", lambda: "Connection refused" in agent.state()["tunnel"]["error"])
    proxy.start()
    wait_for("an answer again", lambda: get() == (200, "kubelet\n"))
    assert agent.stop() == 0


def test_what_a_proxy_refuses(lab, node):
    hub, proxy = Hub(lab, "--tls.names", NAME), Proxy(lab)
    agent = start(node, hub, "--hub.proxy", f"http://{USER}:wrong@{PROXY}:3128", ready=False)
    error(agent, "set hub.proxy to http://USER:PASSWORD@HOST:PORT")
    agent.stop()
    agent.start("--hub.proxy", f"http://{PROXY}:3128", ready=False)
    error(agent, "(it answers 407)")
    agent.stop()
    agent.start("--hub.proxy", URL, "--hub.url", f"wss://{NAME}:{HUB_PORT + 1}", ready=False)
    error(agent, f"does not allow CONNECT to {NAME}:{HUB_PORT + 1} (it answers 403)")
    agent.stop()
    agent.start("--hub.proxy", URL, "--hub.url", f"wss://nowhere.example.test:{HUB_PORT}", ready=False)
    error(agent, f"cannot reach nowhere.example.test:{HUB_PORT} (it answers 5")
    agent.stop()
    agent.start("--hub.proxy", URL)
    wait_for("synced", lambda: meta(agent)["synced"])
    assert proxy.connects() >= 2


def test_a_proxy_that_dies_or_stalls(lab, node):
    hub, proxy = Hub(lab, "--tls.names", NAME), Proxy(lab)
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    agent = start(node, hub)
    wait_for("synced", lambda: meta(agent)["synced"] and agent.state()["services"] == 1)
    proxy.process.kill()
    error(agent, f"cannot connect to the proxy {PROXY}:3128: Connection refused")
    assert agent.ready() and agent.state()["services"] == 1
    proxy.start()
    wait_for("back", lambda: meta(agent)["synced"])
    # frozen: the kernel of the proxy's host still takes connections and bytes
    os.kill(proxy.process.pid, signal.SIGSTOP)
    try:
        wait_for("found", lambda: not meta(agent)["connected"])
        assert agent.process.logged("no sign of life")
        error(agent, "did not answer CONNECT within")
        assert agent.ready() and agent.state()["services"] == 1
    finally:
        os.kill(proxy.process.pid, signal.SIGCONT)
    wait_for("back again", lambda: meta(agent)["synced"])


def test_the_proxy_is_not_trusted(lab, node):
    """One that leads to somebody else gets nothing: the certificate is verified as without a proxy."""
    hub = Hub(lab, "--tls.names", NAME)
    token = hub.token()
    stranger = Machine(lab, "stranger", address=STRANGER)
    data = os.path.join(stranger.dir, "data")
    process = stranger.start("hub", lab.program("edgeway-hub"), "--listen", f"{STRANGER}:{HUB_PORT}", "--source.manifests",
                             stranger.dir, "--dataDir", data, "--admin.listen", "", "--admin.socket",
                             os.path.join(stranger.dir, "s"), "--ingress.http", "", "--tls.names", NAME)
    wait_for("stranger", lambda: "serving" in process.log())
    proxy = Proxy(lab, STRANGER)
    agent = start(node, None, ready=False, token=token)
    wait_for("refused", lambda: meta(agent)["error"] != "" and proxy.connects() > 0)
    assert not meta(agent)["joined"]
    assert "node joined" not in process.log()
    proxy.process.kill()
    proxy.point(HUB_ADDRESS)
    proxy.start()
    wait_for("joined", lambda: meta(agent)["joined"])
