"""One hub and the next on the same machine: a hub that was killed and starts again, one that takes over from the one that runs, and one that upgrades
itself. Callers wait, and none is refused.
"""
import os
import re
import signal
import threading
import time

import pytest

import tunnelkit
from lab import Agent, Node, service, wait_for


@pytest.fixture(scope="module")
def site(lab):
    made = tunnelkit.Site(lab, *tunnelkit.INGRESS_OPTIONS, "--drainTimeout", "1h")  # what ends, ends before
    made.backend(made.nodes[0], "server", "--http", "7001", "--stream", "7002")
    made.hub.write("web.yaml", service("web", ("http", 80, 8080)))
    yield made
    made.logs()


class Callers:
    """One after another, all the time: what they were answered, 0 where the hub was not there."""

    def __init__(self, site):
        self.hub, self.statuses, self.ended, self.slowest_s = site.hub, [], threading.Event(), 0
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(3)]

    def run(self):
        while not self.ended.is_set():
            began = time.monotonic()
            self.statuses.append(self.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080")[0])
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def more(self, n=10):
        served = self.statuses.count(200)
        wait_for("more answers", lambda: self.statuses.count(200) >= served + n)

    def __enter__(self):
        for t in self.threads:
            t.start()
        self.more()
        return self

    def __exit__(self, *exc):
        self.ended.set()
        for t in self.threads:
            t.join()
        refused = sum(s != 200 for s in self.statuses)
        print(f"{len(self.statuses)} calls, {refused} refused, the slowest took {self.slowest_s:.2f} s")  # for bench/RESULTS.md


def the_next(hub, *options):
    """Beside the one that runs."""
    return hub.machine.start("hub", hub.lab.program("edgeway-hub"), "--takeover", "true", "--listen", f"{hub.address}:10000",
                             "--source.manifests", hub.manifests, "--dataDir", os.path.join(hub.machine.dir, "data"),
                             "--admin.listen", "", "--admin.socket", hub.socket, *hub.options, *options)


def joins(site, name, address, token):
    """A node with this token is let in, and has its tunnel."""
    agent = Agent(Node(site.lab, name, address), token=token)
    wait_for("tunnel", lambda: name in tunnelkit.tunnels(site.hub))
    agent.stop()


def test_killed_and_started(site):
    """Its nodes are on their way when callers are: whoever reaches the hub waits for them."""
    with Callers(site) as callers:
        for _ in range(3):
            site.hub.process.kill()
            site.hub.start()
            callers.more()
    assert set(callers.statuses) <= {0, 200}, {s: callers.statuses.count(s) for s in set(callers.statuses)}


def test_the_nodes_tunnel_breaks(site):
    """The agent is killed, and who asks then waits for the next one."""
    agent = site.agents[0]
    with Callers(site) as callers:
        at = len(callers.statuses)
        agent.process.kill()
        wait_for("the tunnel is gone", lambda: "edge-1" not in tunnelkit.tunnels(site.hub))
        agent.start()
        site.wait_open()
        callers.more()
    assert set(callers.statuses[at:]) == {200}, callers.statuses[at:]


def test_takeover(site):
    one, token = site.hub.process, site.hub.token("--node", "edge-4")
    streams = tunnelkit.Transfers(site.hub.machine, "edge-1:7002", 2)
    with Callers(site) as callers:
        two = the_next(site.hub)
        wait_for("taken over", lambda: "hub: has taken over" in two.log())
        site.hub.process = two
        site.wait_open()
        callers.more(30)
        assert streams.results() == {"whole": 2}
    assert set(callers.statuses) == {200}
    wait_for("all handed over", lambda: "everything is handed over; waiting to be stopped" in one.log())
    assert one.alive() and one.stop() == 0
    joins(site, "edge-4", "192.0.2.14", token)
    assert site.hub.ready()


def test_it_waits_to_be_stopped(site):
    """Whoever started it would start it again, and that one would take over: it waits, drainTimeout or not."""
    log = site.hub.process.log  # of all of them
    for options in (("--drainTimeout", "1s"), ()):
        given, one = log().count("everything is handed over; waiting to be stopped"), site.hub.process
        site.hub.process = the_next(site.hub, *options)
        wait_for("all handed over", lambda n=given: log().count("everything is handed over; waiting to be stopped") > n)
        if options:
            one.stop()
    # The next one has its lock too: were that killed, whoever started it can start it again.
    site.hub.process.kill()
    site.hub.process = the_next(site.hub)
    wait_for("another one", lambda: site.hub.process.alive() and site.hub.ready())
    time.sleep(1.5)
    assert one.alive() and one.stop() == 0


def test_upgrade(site):
    """It starts its own program; whoever started it does nothing."""
    one = site.hub.process
    with Callers(site) as callers:
        p = site.hub.machine.run(site.lab.program("edgewayctl"), "--socket", site.hub.socket, "upgrade")
        pid = int(re.search(r"as process (\d+)", p.stdout).group(1))
        wait_for("the first has ended", lambda: not one.alive())
        assert one.popen.returncode == 0
        wait_for("nodes", lambda: site.hub.ready() and "edge-1" in tunnelkit.tunnels(site.hub))
        callers.more()
    assert set(callers.statuses) == {200}
    assert open(f"/proc/{pid}/comm").read() == "edgeway-hub\n"
    os.kill(pid, signal.SIGTERM)
    wait_for("the second has ended", lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split()[2])
    site.hub.start()
    site.wait_open()


def test_a_next_one_that_does_not_come_up(site):
    """It has another dataDir: it ends and says why, and the first goes on as if nothing had been, joins included."""
    one, token = site.hub.process, site.hub.token("--node", "edge-5")
    with Callers(site) as callers:
        two = the_next(site.hub, "--dataDir", os.path.join(site.hub.machine.dir, "other"))
        assert two.wait() == 1
        wait_for("goes on", lambda: "a new hub did not take over, this one goes on" in one.log())
        callers.more()
    assert set(callers.statuses) == {200} and one.alive()
    assert two.logged("the hub that runs has another dataDir")
    joins(site, "edge-5", "192.0.2.15", token)
