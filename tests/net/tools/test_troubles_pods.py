"""What keeps pods from names and services: found from their side all the time, and named with cause and remedy in log, status, doctor and metric."""
import itertools
import json
import os

import pytest

from lab import BARE_PYTHON, HERE, Agent, service, wait_for
from troubles import Town, ctl, gone, kinds, told, well

pytestmark = pytest.mark.plain_build  # what is told; what does it has tests of its own


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(made.agent.process.log()[-3000:])


def test_the_canary_of_a_node_that_is_well(town):
    """It has the last free address of the bridge, burdens no pod and no counter, and leaves with the agent."""
    canary = wait_for("both", lambda: (c := town.agent.state()["canary"])["dns"]["good"] > 0 and c["calls"]["good"] > 0 and c)
    assert canary["address"] == "172.17.255.254" and canary["service"] == "web.default.svc"
    well(town)
    before, seen = town.agent.metrics(), town.backend.log()
    wait_for("one more round", lambda: town.agent.state()["canary"]["calls"]["good"] > canary["calls"]["good"])
    after = town.agent.metrics()
    assert {k: v for k, v in after.items() if k.startswith(("edgeway_lb_requests", "edgeway_lb_connections"))} == \
        {k: v for k, v in before.items() if k.startswith(("edgeway_lb_requests", "edgeway_lb_connections"))}
    assert town.backend.log() == seen
    assert after['edgeway_problems{class="fault"}'] == 0
    assert "warnings     none" in ctl(town.agent, "status")
    town.agent.process.kill()
    assert "edgeway" not in town.node.run("ip", "-o", "link", "show", "master", "docker0").stdout
    town.agent.start()


def test_an_address_that_is_taken(town):
    """Somebody has the canary's address, or gets it while the canary runs: it takes the next one, and the pod's calls are its own."""
    town.agent.stop()
    stranger = town.node.pod("stranger")
    stranger.run("ip", "addr", "add", "172.17.255.254/16", "dev", "eth0")
    town.agent.start()
    # on a busy machine the stranger's answer may come after the first round
    wait_for("runs", lambda: (c := town.agent.state()["canary"])["address"] == "172.17.255.253" and c["calls"]["good"] > 0)
    stranger.run("ip", "addr", "add", "172.17.255.253/16", "dev", "eth0")
    assert stranger.get(f"http://{town.address('web')}/", "--interface", "172.17.255.253")[0] == 200
    assert wait_for("it has left", lambda: (c := town.agent.state()["canary"])["address"] == "172.17.255.252" and c["calls"]["good"] > 0 and c)
    for last in (253, 254):
        stranger.run("ip", "addr", "del", f"172.17.255.{last}/16", "dev", "eth0")


# --- from the pods' side ---------------------------------------------------------------


WALLS = {
    "nft drops DNS": ("pods-dns", "DNS at 172.17.0.1:53", "iifname docker0 udp dport 53 drop", "wall in"),
    "nft drops calls": ("pods-calls", "web.default.svc at 9.251.", "iifname docker0 tcp dport 40001 drop", "wall in"),
}


@pytest.mark.parametrize("what", WALLS)
def test_rules_that_keep_pods_out(town, what):
    problem, words, rule, who = WALLS[what]
    wait_for("well", lambda: town.agent.state()["canary"]["calls"]["good"] > 0)
    town.node.run("nft", "-f", "-", input=f"table inet wall {{ chain in {{ type filter hook input priority 0; {rule}; }}\n}}\n")
    told(town.agent, problem, "fault", words, who)
    town.node.run("nft", "delete", "table", "inet", "wall")
    gone(town.agent, problem)


@pytest.mark.skipif(not os.path.exists("/usr/sbin/iptables-legacy"), reason="no iptables-legacy here")
def test_legacy_rules_that_keep_pods_out(town):
    if town.node.run("iptables-legacy", "-L", check=False).returncode != 0:
        pytest.skip("this kernel has no ip_tables")
    for rule in ("INPUT -i docker0 -p udp --dport 53 -j DROP", "INPUT -i docker0 -p tcp --dport 40001 -j DROP"):
        town.node.run("iptables-legacy", "-A", *rule.split())
    told(town.agent, "pods-dns", "fault", "iptables-legacy: ", "filter")
    told(town.agent, "pods-calls", "fault", "iptables-legacy: ", "filter")
    town.node.run("iptables-legacy", "-F")
    gone(town.agent, "pods-dns")
    gone(town.agent, "pods-calls")


def test_another_network_on_the_bridge(town):
    """The agent follows; a container does not, until it is restarted."""
    def bridge(former, now):
        town.node.run("ip", "addr", "del", former, "dev", "docker0")
        town.node.run("ip", "addr", "add", now, "dev", "docker0")
    bridge("172.17.0.1/16", "172.18.0.1/16")
    wait_for("the agent follows", lambda: (c := town.agent.state()["canary"])["asks"] == "172.18.0.1:53" and c["dns"]["good"] > 0)
    wait_for("the container", lambda: town.client.get("http://172.17.0.1/", "--max-time", "1") and "pods-stale" in kinds(town.agent))
    told(town.agent, "pods-stale", "fault", "docker0 was 172.17.0.1 ", "a container there, 172.17.0.")
    pods = [f for f in json.loads(ctl(town.agent, "-o", "json", "doctor")) if f["check"] == "pods" and f["class"] == "fault"]
    assert pods and all("restart the container" in f["remedy"] for f in pods), pods
    bridge("172.18.0.1/16", "172.17.0.1/16")
    gone(town.agent, "pods-stale")


def test_somebody_else_takes_the_calls(town):
    """The connection is made, with a stranger."""
    town.node.start("other", "/usr/bin/python3", "-m", "http.server", "8099", "--bind", "172.17.0.1")
    wait_for("it serves", lambda: town.node.get("http://172.17.0.1:8099/")[0] == 200)
    town.node.run("nft", "-f", "-", input="table ip stranger { chain pre { type nat hook prerouting priority -150; "
                  "iifname docker0 ip daddr 9.251.0.0/16 tcp dport 80 dnat to 172.17.0.1:8099; }\n}\n")
    told(town.agent, "pods-calls", "fault", "not to our listener", "translate before we do: stranger pre")
    town.node.run("nft", "delete", "table", "ip", "stranger")
    gone(town.agent, "pods-calls")


# --- services ------------------------------------------------------------------------------


def test_services_without_endpoints(town):
    town.hub.write("typo.yaml", service("typo", ("http", 80, 8080), selector="wbe"), service("empty", ("tcp", 80, 8080), selector="nobody"))
    told(town.agent, "no-endpoints", "warning", "default/typo", "default/empty")
    town.hub.delete("typo.yaml")
    gone(town.agent, "no-endpoints")


def test_all_endpoints_dead(town):
    address = town.address("web")
    assert town.client.get(f"http://{address}/")[0] == 200
    town.backend.kill()
    wait_for("fails", lambda: town.client.get(f"http://{address}/")[0] in (502, 503))
    told(town.agent, "endpoints-dead", "fault", "default/web:80", f"{town.pod.address}:8080", "refused")
    town.backend = town.pod.serve("--http", "8080")
    wait_for("serves", lambda: town.client.get(f"http://{address}/")[0] == 200)
    gone(town.agent, "endpoints-dead")


def test_no_way(town):
    """A pod without a hostPort on a node whose agent may use no tunnel."""
    agent = Agent(town.other, town.hub, "--tunnel.enabled", "false")
    told(agent, "no-way", "warning", "default/web")
    agent.stop()


def beside_a_liar(town, address, mode, what):
    """An agent with one more upstream, which is a liar, that has told so."""
    town.dns.run("ip", "addr", "replace", f"{address}/24", "dev", "eth0")
    liar = town.dns.start("liar", *BARE_PYTHON, os.path.join(HERE, "liar.py"), f"{address}={mode}")
    wait_for("liar", lambda: "serving" in liar.log())
    agent = Agent(town.other, town.hub, "--dns.upstreams", address)
    names = itertools.count()

    def asked():
        name = f"n{next(names)}.example.test"
        town.other.run("dig", f"@{town.other.gateway}", "+tries=1", "+time=1", name, check=False)
        return what in kinds(agent)
    wait_for("it is found out", asked)
    return agent, liar


def test_upstream_refuses(town):
    """It is there, and answers nothing but errors; the other one serves."""
    address = "192.0.2.54"
    agent, liar = beside_a_liar(town, address, "refused", "upstream-errors")
    told(agent, "upstream-errors", "warning", f"{address}:53 answers REFUSED to all of the last ")
    agent.stop()
    liar.kill()


def test_upstream_answers_garbage(town):
    """Nothing of it answers a query, the other one serves. What begins well and cannot be read has a unit test."""
    address = "192.0.2.54"
    agent, liar = beside_a_liar(town, address, "garbage", "upstream-garbage")
    told(agent, "upstream-garbage", "warning", f"{address}:53 answers what is no DNS message")
    liar.kill()
    gone(agent, "upstream-garbage")
    agent.stop()


def test_upstream_dead(town):
    town.dns.process.popen.send_signal(19)

    def asked():
        town.node.run("dig", "@172.17.0.1", "+tries=1", "+time=1", "www.example.test", check=False)
        return "upstreams-dead" in kinds(town.agent)
    wait_for("it is found out", asked)
    told(town.agent, "upstreams-dead", "fault", "192.0.2.53:53: dead")
    town.dns.process.popen.send_signal(18)
    gone(town.agent, "upstreams-dead")
