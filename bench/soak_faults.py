"""The soak's faults. Each does its harm, heals it, and says which components it hits; then the town has to be whole again by itself.

    faults = Faults(town, random.Random(7))
    record = faults.one("hub killed")      # {"kind", "start", "until", "hits", "recovered_s"}

Hub 1 and the agent of node 1 are killed, restarted and replaced; hub 2 and the agent of node 2 live through everything else for the
whole run, so that their memory and descriptors tell of leaks. A loss is excused between `start` and `until`: a second
after everything was well again, or earlier where a fault says so. Empty `hits`: nothing may be lost at all.
"""
import os
import signal
import threading
import time

from soak_town import Next, wait_for

GRACE_S = 1.0
RECOVERY_S = 90
FOREIGN = "# another writer, {n}\\nnameserver 192.0.2.53\\nsearch lab.test\\n"


class Faults:
    def __init__(self, town, rng):
        self.town, self.rng, self.draining, self.trouble, self.n = town, rng, None, [], 0
        self.kinds = {
            "hub restarted": self.hub_restarted, "hub killed": self.hub_killed, "hub frozen 5 s": self.hub_frozen,
            "agent restarted": self.agent_restarted, "agent killed": self.agent_killed, "agent taken over": self.agent_taken_over,
            "agent frozen 3 s": self.agent_frozen,
            "endpoints change": self.endpoints_change, "a pod's server killed": self.pod_killed, "1 to 10 % of packets lost": self.packets_lost,
            "link cut": self.link_cut, "flush ruleset": self.flush_ruleset, "our table deleted": self.table_deleted,
            "route deleted": self.route_deleted, "resolv.conf written": self.resolv_written, "resolv.conf replaced": self.resolv_replaced,
            "upstream DNS dead 6 s": self.upstream_dead, "disk full": self.disk_full}

    def one(self, kind):
        if kind.startswith("agent") and self.draining is not None:
            self.draining.join()
        record = {"kind": kind, "start": time.monotonic(), "recovered_s": None}
        hits, until, healed = [], None, None
        try:
            hits, until = self.kinds[kind]()
            healed = time.monotonic()
            wait_for(f"whole after: {kind}", self.town.whole, RECOVERY_S, 0.2)
            record["recovered_s"] = time.monotonic() - healed
        except Exception as e:  # noqa: told in the report
            self.trouble.append(f"{kind}: {e}")
        return {**record, "hits": set(hits), "until": (until or time.monotonic()) + GRACE_S}

    def a_node(self):
        i = self.rng.choice((1, 2))
        return i, self.town.nodes[i - 1]

    # --- hubs and agents ---------------------------------------------------------------------------

    def hub_restarted(self):
        hub = self.town.hubs[0]
        if hub.process.stop() != 0:
            self.trouble.append(f"the hub stopped with {hub.process.popen.returncode}")
        time.sleep(self.rng.uniform(0, 2))
        hub.start()
        return ["hubs"], None

    def hub_killed(self):
        hub = self.town.hubs[0]
        hub.process.kill()
        time.sleep(self.rng.uniform(0, 2))
        hub.start()
        return ["hubs"], None

    def freeze(self, process, seconds):
        process.popen.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.popen.send_signal(signal.SIGCONT)

    def hub_frozen(self):
        self.freeze(self.rng.choice(self.town.hubs).process, 5)
        return ["hubs"], None

    def agent_restarted(self):
        agent = self.town.agents[0]
        if agent.process.stop(seconds=60) != 0:
            self.trouble.append(f"the agent stopped with {agent.process.popen.returncode}")
        agent.start(ready=False)
        return ["agent-1"], None

    def agent_killed(self):
        agent = self.town.agents[0]
        agent.process.kill()
        time.sleep(self.rng.uniform(0, 1))
        agent.start(ready=False)
        return ["agent-1"], None

    def agent_frozen(self):
        i = self.rng.choice((1, 2))
        self.freeze(self.town.agents[i - 1].process, 3)
        return [f"agent-{i}"], None

    def agent_taken_over(self):
        """Nothing may be lost. The first one finishes what it has while other faults happen, and is then stopped."""
        old, word = self.town.agents[0], "has taken over"
        new = Next(old.node, None, *old.options, token=old.token, start=False)
        before, waiting = (old.process.log().count(w) for w in (word, "waiting to be stopped"))
        new.start(ready=False)
        wait_for(word, lambda: new.process.alive() and new.process.log().count(word) > before and new.ready(), 30)
        self.town.agents[0] = new

        def stop():
            try:
                wait_for("handed over", lambda: old.process.log().count("waiting to be stopped") > waiting, 90, 0.5)
            except Exception as e:  # noqa: told in the report
                self.trouble.append(f"takeover: {e}")
            if old.process.stop() != 0:
                self.trouble.append(f"the agent before stopped with {old.process.popen.returncode}")
        self.draining = threading.Thread(target=stop)
        self.draining.start()
        return [], None

    # --- what they know ---------------------------------------------------------------------------------

    def endpoints_change(self):
        """A pod of each service leaves and comes back, and twenty services change, five times."""
        for _ in range(5):
            self.town.publish(away=self.rng.choice(self.town.pods)[1])
            time.sleep(self.rng.uniform(0.1, 0.6))
        self.town.publish()
        return [], None

    def pod_killed(self):
        """The hub is told nothing. Who was connected is cut; who comes after finds the other pod."""
        i = self.rng.choice((1, 2))
        p = self.town.pods[i - 1][1]
        self.town.backends[p.name].kill()
        until = time.monotonic()
        time.sleep(3)
        self.town.serve(p)
        return [f"pods-{i}"], until

    def disk_full(self):
        i, node = self.a_node()
        agent = self.town.agents[i - 1]
        node.run("sh", "-c", f"cat /dev/zero >{agent.data}/filler", check=False)
        self.endpoints_change()
        time.sleep(2)
        node.run("rm", f"{agent.data}/filler")
        return [], None

    # --- networks ------------------------------------------------------------------------------------------

    def drop(self, node, match, seconds):
        hooks = "".join(f'chain {way} {{ type filter hook {way} priority -10; {side} "eth0" {match} drop; }}\n'
                        for way, side in (("input", "iifname"), ("output", "oifname")))
        node.run("nft", "-f", "-", input=f"table inet soak {{ {hooks} }}")
        time.sleep(seconds)
        node.run("nft", "delete", "table", "inet", "soak")

    def packets_lost(self):
        i, node = self.a_node()
        self.drop(node, f"numgen random mod 100 < {self.rng.randint(1, 10)}", 10)
        return [f"link-{i}"], None

    def link_cut(self):
        i, node = self.a_node()
        self.drop(node, "", self.rng.uniform(2, 12))
        return [f"link-{i}"], None

    # --- the host's other programs ----------------------------------------------------------------------------

    def rules_again(self, node):
        wait_for("our rules", lambda: node.table() != "", 30, 0.01)

    def flush_ruleset(self):
        """What Docker and the site had is put back by them; ours comes back by itself."""
        i, node = self.a_node()
        tables = "".join(node.run("nft", "list", "table", *t).stdout for t in (("ip", "lab"), ("inet", "fence")))
        node.run("nft", "-f", "-", input="flush ruleset\n" + tables)
        self.rules_again(node)
        return [f"rules-{i}"], time.monotonic()

    def table_deleted(self):
        i, node = self.a_node()
        node.run("nft", "delete", "table", "ip", "edgeway")
        self.rules_again(node)
        return [f"rules-{i}"], time.monotonic()

    def route_deleted(self):
        i, node = self.a_node()
        node.run("ip", "route", "del", "9.251.0.0/16")
        wait_for("our route", lambda: node.route() != "", 30, 0.01)
        return [f"route-{i}"], time.monotonic()

    def write_resolv(self, command):
        i, node = self.a_node()
        self.n += 1
        text = FOREIGN.format(n=self.n)
        node.run("sh", "-c", command.format(text=text))
        wait_for("our lines", lambda: node.gateway.encode() in node.resolv(), 30, 0.01)
        node.original = text.replace("\\n", "\n").encode()
        return [f"resolv-{i}"], time.monotonic()

    def resolv_written(self):
        return self.write_resolv("printf '{text}' >/etc/resolv.conf")

    def resolv_replaced(self):
        return self.write_resolv("printf '{text}' >/etc/new && mv /etc/new /etc/resolv.conf")

    def upstream_dead(self):
        self.freeze(self.town.dns.process, 6)
        return ["upstream"], None


def excuse(loss, faults):
    """The fault that lies between when this connection was last known to work and its end, and that hit something on its way."""
    if loss["wrong"]:
        return None
    found = [f for f in faults if f["hits"] & loss["through"] and f["start"] <= loss["end"] and loss["since"] <= f["until"]]
    return found[-1] if found else None


def program_logs(town):
    """Paths of all that the daemons have said."""
    folders = [h.machine.dir for h in town.hubs] + [n.dir for n in town.nodes]
    return [os.path.join(d, name) for d in folders for name in ("hub.log", "agent.log") if os.path.exists(os.path.join(d, name))]
