"""A hub that lies says addresses of this node, of loopback and of metadata, as pods of the host's network where that could help it."""
import json
import os

import pytest

import lab as labs
from forbidden_town import ALIBABA, DOMAIN, GATEWAY, METADATA, NODE, OWN_PORT, TENCENT, WORLD, Town
from lab import HUB_ADDRESS, HUB_PORT, PYTHON, Agent, Machine, wait_for
from pki import Authority

LATER = "192.0.2.77"


def given(ip, port):
    return {"flags": 3, "givenIP": ip, "givenPort": port}


def own_pod(ip, port, **more):
    return {"node": "edge-1", "pod": "p", "flags": 3, "podIP": ip, "podPort": port, "hostIP": ip, "hostPort": port, **more}


LIES = {
    "loopback": given("127.0.0.1", 40002),
    "mapped": given("::ffff:127.0.0.1", 40002),
    "compatible": given("::127.0.0.1", 40002),
    "this-network": given("0.0.0.1", 40002),
    "twice": {**given("127.0.0.1", 40002), "flags": 7},
    "host-network": own_pod("127.0.0.1", 40002, hostNetwork=True),
    "metadata": own_pod(METADATA, 80, hostNetwork=True),
    "alibaba": given(ALIBABA, 80),
    "no-host-network": own_pod(NODE, OWN_PORT, hostNetwork=False),
    "no-pod": {**given(NODE, OWN_PORT), "node": "edge-1", "hostNetwork": True},
    "another-nodes": {**own_pod(NODE, OWN_PORT, hostNetwork=True), "node": "edge-9"},
}
# What a hub that knows nothing of hostNetwork says of such a pod.
TRUTHS = {"old-hub": (own_pod(NODE, OWN_PORT), "node\n"), "new-hub": (own_pod(NODE, OWN_PORT, hostNetwork=True), "node\n"),
          "world": (given(WORLD, 80), "forbidden\n")}


# What it says of pods by their address: answers that are none, of other pods, of names that are none, and ranges that are not pods'.
LONG = "a" * 300
POD_LIES = ['{"found":"one","ns":"shop","name":"web.shop.svc"}', '{"found":"one","ns":"","name":""}', '{"found":"one","ns":"../..","name":"\\u0000"}',
            f'{{"found":"one","ns":"shop","name":"{LONG[:130]}.svc"}}', f'{{"found":"one","ns":"{LONG}","name":"{LONG}"}}', '{"found":"many"}',
            '{"found":["one"],"ns":{},"name":7}', '{}', '[]', '"one"', "null", '{"found":"full","ns":"","name":""}', "[" * 60 + "]" * 60,
            'ranges: {"ranges":["127.0.0.0-127.255.255.255"]}', 'ranges: {"ranges":["0.0.0.0-255.255.255.255"]}', "ranges: []",
            'ranges: {"ranges":["10.9.9.9-10.9.9.1","x","10.0.0.0"]}', "ranges: " + json.dumps({"ranges": ["10.0.0.0-10.0.0.1"] * 9000}),
            'ranges: {"ranges":["172.17.0.0-172.17.255.255","192.0.2.0-192.0.2.255"]}']


def view(name, endpoint, port=80, mode="http"):
    return {"ns": "default", "name": name, "ports": [{"name": mode, "port": port, "mode": mode, "endpoints": [endpoint]}]}


class LiarsTown(Town):
    def start_hub(self):
        machine = Machine(self.lab, "cloud", address=HUB_ADDRESS)
        folder = os.path.join(machine.dir, "views")
        os.makedirs(folder)
        for v in (*[view(name, e) for name, e in LIES.items()], *[view(name, e) for name, (e, _) in TRUTHS.items()],
                  view("later", given(LATER, 81), 81, "tcp"), view("later-udp", given(LATER, 53), 53, "udp"),
                  {**view("catching", given(WORLD, 80)), "clusterIP": TENCENT}):
            with open(os.path.join(folder, v["name"]), "w") as f:
                json.dump(v, f)
        with open(os.path.join(folder, "pods.json"), "w") as f:
            json.dump(POD_LIES, f)
        ca = Authority(machine.dir)
        cert, key = ca.issue("hub", f"subjectAltName=IP:{HUB_ADDRESS}", "extendedKeyUsage=serverAuth")
        self.certificate = (ca.cert, *ca.issue("edge-1", "extendedKeyUsage=clientAuth"))
        p = machine.start("hub", PYTHON, os.path.join(labs.HERE, "lying_hub.py"), HUB_ADDRESS, HUB_PORT, ca.cert, cert, key, folder)
        wait_for("hub", lambda: "serving" in p.log() or not p.alive())
        return p

    def start_agent(self, *options):
        self.forbidden.run("ip", "addr", "add", f"{LATER}/32", "dev", "eth0")
        self.node.run("ip", "route", "add", f"{LATER}/32", "via", WORLD)
        ca, cert, key = self.certificate
        return Agent(self.node, None, "--hub.ca", ca, "--hub.cert", cert, "--hub.key", key, *options)


@pytest.fixture(scope="module")
def town(lab):
    made = LiarsTown(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.log()[-2000:]}")
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


@pytest.mark.parametrize("name", LIES)
def test_lies(town, name):
    before = town.touched()
    status, body = town.get(name)
    assert status in (502, 503, 504) and "forbidden" not in body, body
    assert town.touched() == before


@pytest.mark.parametrize("name", TRUTHS)
def test_truths(town, name):
    assert town.get(name) == (200, TRUTHS[name][1])


def test_an_address_that_becomes_the_nodes_own(town):
    """It counts from the moment at which the node has it, also in the kernel's maps; and no more when it is gone."""
    def maps():
        return town.node.run("nft", "list", "table", "ip", "edgeway").stdout

    town.serve(town.node, "node-too", "--tcp", "81")
    assert town.client.send(f"later.{DOMAIN}", 81, "x").startswith("forbidden\n")
    assert LATER in maps()
    town.node.run("ip", "addr", "add", f"{LATER}/32", "dev", "lo")
    try:
        wait_for("known", lambda: f"{LATER}:81 REFUSED: it is an address of this node" in town.edgewayctl("endpoints", "default/later"))
        assert not town.client.send(f"later.{DOMAIN}", 81, "x")
        wait_for("not in the kernel", lambda: LATER not in maps())
    finally:
        town.node.run("ip", "addr", "del", f"{LATER}/32", "dev", "lo")
    wait_for("served again", lambda: (town.client.send(f"later.{DOMAIN}", 81, "x") or "").startswith("forbidden\n"))
    wait_for("in the kernel again", lambda: LATER in maps())


def test_what_it_says_of_pods(town):
    """Forward names, pointers and whatever else follows from such answers: the agent goes on, and serves no range that is not pods'."""
    for i in range(3 * len(POD_LIES)):
        forward = town.client.dns(f"172-30-0-{i}.shop.pod.cluster.local", "A", f"@{GATEWAY}")
        assert forward[0] in ("NXDOMAIN", "SERVFAIL"), forward
        town.client.run("dig", f"@{GATEWAY}", "+short", "+tries=1", "+time=4", "-x", f"172.30.1.{i}", check=False)
    assert town.agent.state()["meta"]["synced"] and town.agent.process.alive()
    sets = town.node.run("nft", "list", "set", "ip", "edgeway", "podranges").stdout
    assert not any(a in sets for a in ("127.", "0.0.0.0", "192.0.2.")), sets
    assert town.get("world") == (200, TRUTHS["world"][1])
