"""edgewayctl doctor and status at three in the morning: one thing is broken after the other, and each is found, with who did it and what helps."""
import json
import os

import pytest

import lab as labs
from lab import PATIENCE_S, Agent, Hub, Node, faketime, pod, service, wait_for

pytestmark = pytest.mark.plain_build  # what edgewayctl reads; test_ctl and test_ctl_hostile have it



class Town:
    def __init__(self, lab):
        labs.upstream(lab, "www.example.test/203.0.113.7")
        self.hub = Hub(lab)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pod = self.node.pod("web")
        self.pod.serve("--http", "8080")
        self.hub.write("web.yaml", service("web", ("http", 80, 8080)), pod("web", self.node, self.pod.address, ("http", 8080, 0)))
        self.agent = Agent(self.node, self.hub)
        wait_for("the service", lambda: self.node.address_of("web.default.svc.cluster.local", f"@{self.node.gateway}"))
        wait_for("resolv.conf", lambda: self.node.gateway.encode() in self.node.resolv())

    def ctl(self, *words, before=()):
        return self.node.run(*before, self.node.lab.program("edgewayctl"), "--socket", self.agent.socket, *words, check=False)

    def doctor(self, before=()):
        """{check: [(verdict, finding, remedy)]}"""
        p = self.ctl("-o", "json", "doctor", before=before)
        found = {}
        for f in json.loads(p.stdout):
            found.setdefault(f["check"], []).append((f["verdict"], f["found"], f["remedy"]))
        assert p.returncode == any(f[0] == "BAD" for fs in found.values() for f in fs)
        return found

    def rules(self, *lines):
        self.node.run("nft", "-f", "-", input="\n".join((*lines, "")))

    def bad(self):
        return {check for check, fs in self.doctor().items() if any(f[0] == "BAD" for f in fs)}

    def wait_well(self):
        """The canary has felt what was provoked, and says so until its next round."""
        wait_for("well", lambda: not self.bad())


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(made.agent.process.log()[-3000:])


def test_as_pods_and_the_host_see_it(town):
    found = town.doctor()
    assert [f[0] for fs in found.values() for f in fs if f[0] == "BAD"] == []
    assert found["host"][0][1].startswith("from this host: DNS at 172.17.0.1:53 answers; default/web at 9.251.")
    (verdict, said, _), *servers = found["pods"]
    assert verdict == "ok" and f"(pid {town.pod.holder.pid})" in said and said.endswith(":80 is reached")
    # The pod is older than the agent: its name server is one of those for which the agent answers.
    assert servers == []
    with open(town.pod.resolv_conf) as f:
        before = f.read()
    with open(town.pod.resolv_conf, "w") as f:
        f.write("nameserver 198.51.100.9\n")
    assert town.doctor()["pods"][1][:2] == ("note", f"{said.partition(':')[0]} asks the name server 198.51.100.9")
    with open(town.pod.resolv_conf, "w") as f:
        f.write(before)


def test_foreign_rules_that_win(town):
    """The connection is made, to somebody else's server."""
    town.node.start("other", "/usr/bin/python3", "-m", "http.server", "8099", "--bind", "172.17.0.1")
    wait_for("it serves", lambda: town.node.get("http://172.17.0.1:8099/")[0] == 200)
    town.rules("table ip stranger {", "chain pre {", "type nat hook prerouting priority -150", "iifname docker0 ip daddr 9.251.0.0/16 tcp dport 80 dnat to 172.17.0.1:8099", "}", "}")
    found = town.doctor()
    assert found["host"][0][0] == "ok"
    assert found["pods"][0][0] == "BAD" and found["pods"][0][1].endswith("is led to somebody else")
    assert ("note", "translate addresses before ours do: stranger pre (prerouting, priority -150)") in [f[:2] for f in found["rules"]]
    town.node.run("nft", "delete", "table", "ip", "stranger")
    town.wait_well()
    assert len(town.doctor()["rules"]) == 1


def test_a_firewall_in_the_way(town):
    town.rules("table ip wall {", "chain in {", "type filter hook input priority 0; policy drop", "ct state established,related accept",
               "iifname lo accept", "iifname eth0 accept", "}", "}")
    found = town.doctor()
    assert found["host"][0][0] == "ok" and found["pods"][0][0] == "BAD"
    assert "DNS at 172.17.0.1:53 Connection timed out" in found["pods"][0][1] and "Connection timed out" in found["pods"][0][1].partition(";")[2]
    assert found["firewall"][0][:2] == ("note", "drops what no rule of it takes: wall in (input)") and "port 53" in found["firewall"][0][2]
    town.rules('add rule ip wall in iifname docker0 udp dport 53 accept', 'add rule ip wall in iifname docker0 tcp dport { 53, 40001 } accept')
    assert town.doctor()["firewall"][0][0] == "ok"
    town.wait_well()
    town.node.run("nft", "delete", "table", "ip", "wall")


@pytest.mark.skipif(not os.path.exists("/usr/sbin/iptables-legacy"), reason="no iptables-legacy here")
def test_iptables_of_old(town):
    """xtables, which nothing that looks at nf_tables shows: what drops or is not tracked is named, also where its program is not installed."""
    def legacy(*words):
        town.node.run("iptables-legacy", *words)

    if town.node.run("iptables-legacy", "-t", "raw", "-L", check=False).returncode != 0:
        pytest.skip("this kernel has no ip_tables")
    found = town.doctor()
    assert "legacy" not in found and found["pods"][0][0] == "ok"
    legacy("-t", "raw", "-A", "PREROUTING", "-i", "docker0", "-d", "9.251.0.0/16", "-j", "NOTRACK")
    legacy("-A", "INPUT", "-i", "docker0", "-p", "udp", "--dport", "53", "-j", "DROP")
    found = town.doctor()
    assert found["host"][0][0] == "ok" and found["pods"][0][0] == "BAD" and "legacy here" in found["pods"][0][2]
    verdict, said, remedy = found["legacy"][0]
    assert verdict == "note" and "raw PREROUTING does not track (-d 9.251.0.0/16 -i docker0 -j " in said and "iptables-legacy-save" in remedy
    assert "filter INPUT drops (-i docker0 -p udp -m udp --dport 53 -j DROP)" in said
    hidden = ("unshare", "-m", "sh", "-c", 'for d in /usr/sbin /sbin; do mount -t tmpfs none $d; done; exec "$@"', "sh")
    verdict, said, _ = town.doctor(before=hidden)["legacy"][0]
    assert verdict == "note" and said.startswith("tables of iptables-legacy whose rules cannot be read here: ") and "raw" in said and "filter" in said
    legacy("-t", "raw", "-F")
    legacy("-D", "INPUT", "1")
    legacy("-P", "FORWARD", "DROP")
    found = town.doctor()
    assert found["legacy"][0][:2] == ("ok", "iptables-legacy: filter FORWARD drops what no rule takes") and found["pods"][0][0] == "ok"
    legacy("-P", "FORWARD", "ACCEPT")
    assert "legacy" not in town.doctor()
    town.wait_well()


def test_containers_that_it_cannot_look_into(town):
    """As in a pod without hostPID, and without CAP_SYS_ADMIN: that nobody has looked is said, and vouches for nothing."""
    town.rules("table ip wall {", "chain in {", "type filter hook forward priority 0; policy drop", "iifname docker0 accept", "oifname docker0 accept", "}", "}")
    assert town.doctor()["firewall"][0][0] == "ok"
    found = town.doctor(before=("unshare", "--pid", "--fork", "--mount-proc"))
    verdict, said, remedy = found["pods"][0]
    assert len(found["pods"]) == 1 and (verdict, said) == ("note", "containers are on docker0 (1), but no process of theirs is seen from here")
    assert "hostPID: true" in remedy and found["firewall"][0][0] == "note" and found["host"][0][0] == "ok"
    found = town.doctor(before=("setpriv", "--bounding-set", "-sys_admin"))
    verdict, said, remedy = found["pods"][0]
    assert verdict == "note" and said.endswith(": its network cannot be entered: Operation not permitted") and "CAP_SYS_ADMIN" in remedy
    assert found["firewall"][0][0] == "note" and found["host"][0][0] == "ok"
    town.node.run("nft", "delete", "table", "ip", "wall")
    assert "firewall" not in town.doctor()


def test_who_takes_our_rules_away(town):
    town.node.run("nft", "delete", "table", "ip", "edgeway")
    verdict, said, remedy = wait_for("seen", lambda: [f for f in town.doctor()["rules"] if " after nft " in f[1]])[0]
    assert verdict == "note" and "put back 1 times, last " in said and "flush ruleset" in remedy
    assert "repairs: 1 (last after nft " in town.ctl("status").stdout


def test_the_way_is_narrow(town):
    town.node.run("ip", "route", "add", "192.0.2.1", "dev", "eth0", "mtu", "1300")
    verdict, said, _ = town.doctor()["MTU"][0]
    assert (verdict, said) == ("note", "docker0 1500, eth0 1500, the way to the hub 1300")
    town.node.run("ip", "route", "del", "192.0.2.1", "dev", "eth0")


def test_the_bridge_is_gone(town):
    """What follows from it is told as that."""
    town.node.run("ip", "link", "del", "docker0")
    wait_for("seen", lambda: town.doctor()["agent"][0][1] == "not ready: waiting for docker0 to be up with an IPv4 address")
    found = town.doctor()
    assert found["interface"][0][:2] == ("BAD", "there is no docker0 on this machine")
    assert found["rules"][0][1] == "table ip edgeway waits for docker0" and "host" not in found
    assert "DNS          NOT LISTENING; " in town.ctl("status").stdout
    town.node.run("nft", "delete", "table", "ip", "lab")
    town.node.add_bridge()
    wait_for("ready", lambda: town.agent.ready() and not town.bad())
    assert town.doctor()["pods"] == [("ok", "no container that can be seen is on docker0", "")]
    town.node.run("ip", "link", "set", "veth2", "master", "docker0", "up")


def test_resolv_conf_is_fought_over(town):
    def left_alone():
        with open(town.node.resolv_conf, "w") as f:
            f.write("nameserver 192.0.2.53\n")
        return "LEFT ALONE" in town.ctl("status").stdout
    wait_for("left alone", left_alone, pause=0.1)
    verdict, said, remedy = town.doctor()["resolv.conf"][0]
    assert verdict == "BAD" and said == "left alone: another program keeps changing it, our lines were put back 10 times"
    assert "NetworkManager" in remedy


def test_clocks_that_differ(town):
    """What the agent's clock says is compared with the hub's, and with the beginning of its certificate."""
    town.agent.stop()
    plain = town.agent.argv
    for seconds, verdict, words in ((-40, "note", "40 s behind the hub's clock"), (86400, "BAD", "1 d ahead of the hub's clock"),
                                    (-3 * 86400, "BAD", ", which is before this node's certificate was made")):
        fake = faketime(FAKETIME_DONT_FAKE_MONOTONIC=1, FAKETIME=f"{seconds:+d}")
        town.agent.argv = lambda *more, f=fake: [*f, *plain(*more)]
        town.agent.start()
        wait_for("in step", lambda: town.agent.state()["meta"]["synced"])
        found = town.doctor(before=fake)["clock"][0]
        assert found[0] == verdict and words in found[1].replace("39 s", "40 s"), found
        assert ("clock: it is " in town.ctl("status", before=fake).stdout) == (verdict == "BAD")
        ahead = town.agent.metrics()["edgeway_meta_hub_clock_ahead_seconds"]
        assert abs(ahead + seconds) < 10
        town.agent.stop()
    town.agent.argv = plain
    town.agent.start()
    wait_for("as the hub's", lambda: town.doctor()["clock"][0][1].endswith(", as the hub's"))
    found = town.doctor(before=["env"])["clock"][0]
    assert "ago" not in found[1] and town.agent.state()["meta"]["hub_clock_compared_ms_ago"] < 60000


def test_metadata_that_moves(town):
    """How late a change is in use, and whether comparisons with the hub found anything."""
    before = town.agent.metrics()
    town.hub.write("more.yaml", service("more", ("http", 80, 8080)))
    wait_for("measured", lambda: "lag_ms" in town.agent.state()["meta"])
    after = town.agent.metrics()
    assert 0 <= after["edgeway_meta_lag_seconds"] < PATIENCE_S
    assert after['edgeway_meta_comparisons_total{result="same"}'] == before['edgeway_meta_comparisons_total{result="same"}'] >= 1
    town.agent.process.kill()
    town.hub.write("most.yaml", service("most", ("http", 80, 8080)))
    town.agent.start()
    wait_for("found", lambda: town.agent.metrics()['edgeway_meta_comparisons_total{result="different"}'] == 1)


def test_heard_of_the_hub(town):
    """An answer to a ping is a sign of life, too: what was heard last gets younger without a message."""
    town.agent.stop()
    town.agent.start("--hub.heartbeat", "1s")
    wait_for("in step", lambda: town.agent.state()["meta"]["synced"])

    def look():
        return town.agent.metrics()["edgeway_meta_messages_total"], town.agent.state()["meta"]["last_contact_ms_ago"]

    seen = [look()]

    def younger():
        seen.append(look())
        return seen[-1][0] == seen[-2][0] and seen[-1][1] < seen[-2][1]

    wait_for("heard without a message", younger)
