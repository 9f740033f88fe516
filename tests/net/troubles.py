"""A node whose troubles are provoked one by one (test_troubles_hub.py, test_troubles_pods.py), and whether each is named with its cause and its
remedy in log, status, doctor and metric, and is gone from there afterwards. doc/operations.md has the table."""
import json
import os
import time

import lab as labs
from lab import Agent, Hub, Node, pod, service, wait_for


class Town:
    """edge-1 is well at first and has a pod; edge-2 tries to join in vain."""

    def __init__(self, lab):
        self.lab = lab
        self.dns = labs.upstream(lab, "www.example.test/203.0.113.7")
        self.hub = Hub(lab)
        self.node, self.other = Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")
        self.pod = self.node.pod("web")
        self.backend = self.pod.serve("--http", "8080")
        self.client = self.node.pod("client")
        self.hub.write("web.yaml", service("web", ("http", 80, 8080)), pod("web", self.node, self.pod.address, ("http", 8080, 0)))
        self.agent = Agent(self.node, self.hub, "--hub.heartbeat", "1s")
        self.last = None  # newcomer
        wait_for("the service", lambda: self.address("web"))

    def address(self, name):
        return self.node.address_of(f"{name}.default.svc.cluster.local", f"@{self.node.gateway}")

    def newcomer(self, *options, token=None, before=()):
        """An agent of edge-2 that does not get in: what is wrong is told without serving anything. It takes the place of one that a failed test
        has left."""
        if self.last is not None and self.last.process.alive():
            self.last.process.kill()
        made = Agent(self.other, self.hub, *options, start=False, token=token)
        plain = made.argv
        made.argv = lambda *more: [*before, *plain(*more)]
        made.data = os.path.join(self.other.dir, f"data-{time.monotonic_ns()}")
        self.last = made.start(ready=False)
        return self.last


def ctl(agent, *words):
    return agent.node.run(agent.lab.program("edgewayctl"), "--socket", agent.socket, *words, check=False).stdout


def kinds(agent):
    return {f["what"]: f for f in json.loads(ctl(agent, "-o", "json", "doctor")) if f["class"] != "ok"}


def told(agent, what, of_class, *words):
    """Is it in all four places, with these words? Returns what was found."""
    sample = f'edgeway_problem{{what="{what}",class="{of_class}"}}'
    wait_for(f"{what} in a metric", lambda: agent.metrics().get(sample, 0) >= 1)
    found = wait_for(f"{what} in doctor", lambda: kinds(agent).get(what))
    assert found["class"] == of_class and found["remedy"]
    for word in words:
        assert word in found["found"], (word, found)
    status = wait_for(f"{what} in status", lambda: (s := ctl(agent, "status")) and found["check"] + ": " in s and
                      kinds(agent).get(what, found)["remedy"] in s and s)
    if of_class == "fault":
        assert "FAULT" in status.partition("\n")[0]
    assert agent.process.logged(f"a problem has begun what={what} class={of_class} found=")
    return found["found"]


def gone(agent, what):
    wait_for(f"{what} gone from metrics", lambda: not any(f'what="{what}"' in m for m in agent.metrics()))
    wait_for(f"{what} gone from status and doctor", lambda: what not in kinds(agent))
    assert agent.process.logged(f"a problem has ended what={what}")


def well(town):
    """hub-flapping stays for five minutes after what the tests did to its hub."""
    wait_for("all is well", lambda: not any(f["class"] in ("fault", "warning") and f["what"] != "hub-flapping" and
                                            f["check"] not in ("port", "lock", "clock", "MTU", "legacy", "firewall")
                                            for f in kinds(town.agent).values()))
