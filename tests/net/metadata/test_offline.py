"""The node without what it leans on: a disk that is full or read-only, power that fails, no hub for a week, clocks that jump."""
import datetime
import json
import os
import random
import re
import signal

import pytest

from fleet import write_typical
from lab import Agent, Hub, Lab, Node, faketime, pod, service, wait_for

LATE = 60  # the machine may be busy with other things
DAY_S = 24 * 3600


@pytest.fixture
def lab():
    with Lab() as lab:
        yield lab


def web(port):
    return service("web", ("http", port, 8080))


def write_many(hub, n, port):
    hub.write("many.yaml", *[service(f"many-{i:05d}", ("http", port, 8080)) for i in range(n)])


def fake(machine, name):
    return machine.address_of(f"{name}.svc.cluster.local", f"@{Node.gateway}")


def port_of(agent, name):
    """The service's port, as the node uses it now; None: not there."""
    found = [s for s in json.loads(agent.ask("/debug/services")[1])["services"] if s["name"] == name]
    return found[0]["ports"][0]["port"] if found else None


def unacknowledged(hub):
    return '"unacked":0' not in hub.ask("/nodes")[1]


def disk(agent):
    return agent.state()["meta"]["database"]


def on_tmpfs(lab, hub, size="4m"):
    """An agent whose data directory is a disk of its own."""
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, start=False)
    os.makedirs(agent.data)
    agent.node.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", agent.data)
    return agent


def fill(agent):
    """To the last byte."""
    agent.node.run("dd", "if=/dev/zero", f"of={agent.data}/ballast", "bs=4k", check=False)
    assert agent.node.run("stat", "-f", "-c", "%f", agent.data).stdout.strip() == "0"


def trouble_and_changes(agent, hub, first_port):
    """While nothing can be written: changes are used and acknowledged on the connection that there is. Their names."""
    connections = agent.metrics()["edgeway_meta_connections_total"]
    for i in range(3):
        hub.write("web.yaml", web(first_port + i))
        wait_for("in use", lambda i=i: port_of(agent, "web") == first_port + i, LATE)
    hub.write("new.yaml", service("new", ("http", 80, 8080)))
    wait_for("a new service", lambda: fake(agent.node, "new.default"), LATE)
    wait_for("acknowledged", lambda: not unacknowledged(hub), LATE)
    wait_for("told", lambda: disk(agent)["state"] == "failing", LATE)
    assert agent.metrics()["edgeway_meta_connections_total"] == connections
    assert agent.metrics()["edgeway_meta_database_failing"] == 1
    assert agent.metrics()["edgeway_meta_waiting_changes"] > 0
    assert agent.ready()


def status(agent):
    return agent.node.run(agent.lab.program("edgewayctl"), "--socket", agent.socket, "status").stdout


@pytest.mark.parametrize("end", ["room", "restart"])
def test_full_disk(lab, end):
    hub = Hub(lab)
    hub.write("web.yaml", web(81))
    agent = on_tmpfs(lab, hub).start()
    wait_for("synced", lambda: port_of(agent, "web") == 81 and not unacknowledged(hub), LATE)
    address = fake(agent.node, "web.default")
    fill(agent)
    write_many(hub, 300, 80)  # more than the journal can take where it is
    wait_for("many", lambda: agent.state()["services"] == 301, LATE)
    trouble_and_changes(agent, hub, 82)
    assert "make room on its disk" in disk(agent)["trouble"] and agent.process.logged("make room on its disk")
    assert "make room on its disk" in status(agent)
    new = fake(agent.node, "new.default")
    if end == "restart":  # what was not written is asked from the hub again, on a disk that is still full
        agent.process.kill()
        agent.start()
        wait_for("told again", lambda: port_of(agent, "web") == 84 and agent.state()["services"] == 302, LATE)
        assert fake(agent.node, "web.default") == address
        new = wait_for("an address", lambda: fake(agent.node, "new.default"), LATE)
    agent.node.run("rm", f"{agent.data}/ballast")
    if end == "restart":  # nothing to write makes no attempt
        hub.write("web.yaml", web(85))
        wait_for("in use", lambda: port_of(agent, "web") == 85, LATE)  # or what follows is true before it has come
    wait_for("written", lambda: disk(agent)["state"] == "ok" and agent.metrics()["edgeway_meta_waiting_changes"] == 0, LATE)
    assert disk(agent)["trouble"] == ""
    if end == "room":
        assert agent.process.logged("the database is written again")
    hub.process.kill()
    agent.process.kill()
    agent.start()
    assert agent.state()["services"] == 302
    assert port_of(agent, "web") == (85 if end == "restart" else 84)
    assert (fake(agent.node, "web.default"), fake(agent.node, "new.default")) == (address, new)


@pytest.mark.parametrize("lock", ["lock", "no lock"])
def test_starts_on_a_full_disk(lab, lock):
    """What can be served is, and it is ready: resolv.conf alone, which could not be put back after a crash, has to wait for room."""
    hub = Hub(lab)
    hub.write("web.yaml", web(81))
    agent = on_tmpfs(lab, hub).start()
    wait_for("synced", lambda: port_of(agent, "web") == 81 and not unacknowledged(hub), LATE)
    node, address = agent.node, fake(agent.node, "web.default")
    agent.stop()
    if lock == "no lock":
        node.run("rm", f"{agent.data}/lock")
    fill(agent)
    hub.process.kill()
    agent.start()
    assert fake(node, "web.default") == address and node.resolv() == node.original
    why = "it is left alone: No space left on device"
    assert why in agent.ask("/readyz")[1] and agent.process.logged(why) and why in agent.state()["degraded"]
    assert agent.metrics()['edgeway_agent_degraded{part="resolv.conf"}'] == 1
    told = status(agent)
    assert told.startswith("edge-1: ready, DEGRADED, ") and "left alone, its original cannot be kept" in told
    p = node.run(lab.program("edgewayctl"), "--socket", agent.socket, "-o", "json", "doctor", check=False)
    found = {f["check"]: f for f in json.loads(p.stdout)}
    assert found["agent"]["verdict"] == "note" and "degraded" in found["agent"]["found"]
    assert found["resolv.conf"]["verdict"] == found["disk"]["verdict"] == "BAD" and "make room" in found["resolv.conf"]["remedy"]
    node.run("rm", f"{agent.data}/ballast")
    wait_for("resolv.conf", lambda: node.getent("web") == address, LATE)
    told = status(agent)  # without a hub it has other faults
    assert agent.state()["degraded"] == "" and told.startswith("edge-1: ready, ") and "DEGRADED" not in told
    assert agent.metrics()['edgeway_agent_degraded{part="resolv.conf"}'] == 0
    assert agent.stop() == 0 and node.clean()


def test_joins_on_a_full_disk(lab):
    """Room for a key and for no certificate: the hub, which gives a name once, is not asked before there is room for both."""
    hub = Hub(lab)
    hub.write("web.yaml", web(81))
    agent = on_tmpfs(lab, hub)
    agent.node.run("dd", "if=/dev/zero", f"of={agent.data}/little", "bs=4k", "count=2")
    fill(agent)
    agent.node.run("rm", f"{agent.data}/little")
    agent.start(ready=False)
    wait_for("said", lambda: "node.crt.room: No space left on device" in agent.process.log(), LATE)
    assert "no metadata yet" in agent.ask("/readyz")[1] and "cannot write" in agent.node.run(
        lab.program("edgewayctl"), "--socket", agent.socket, "status", check=False).stdout
    agent.node.run("rm", f"{agent.data}/ballast")
    wait_for("joined", lambda: port_of(agent, "web") == 81 and agent.ready(), LATE)
    assert "join refused" not in hub.process.log() and "node.crt.room" not in agent.node.run("ls", agent.data).stdout


def test_disk_becomes_read_only(lab):
    """As a file system with errors does it, while the agent runs."""
    hub = Hub(lab)
    hub.write("web.yaml", web(81))
    agent = on_tmpfs(lab, hub).start()
    wait_for("synced", lambda: port_of(agent, "web") == 81 and not unacknowledged(hub), LATE)
    address = fake(agent.node, "web.default")
    # descriptors that are open for writing keep tmpfs from being remounted: the same folder, mounted once more
    agent.node.run("mount", "--bind", agent.data, agent.data)
    agent.node.run("mount", "-o", "remount,bind,ro", agent.data)
    agent.process.kill()
    agent.start()
    assert port_of(agent, "web") == 81 and fake(agent.node, "web.default") == address
    assert "mount its disk for writing" in disk(agent)["trouble"]
    wait_for("synced", lambda: agent.state()["meta"]["synced"], LATE)
    trouble_and_changes(agent, hub, 82)
    assert "mount its disk for writing" in status(agent)
    agent.node.run("mount", "-o", "remount,bind,rw", agent.data)
    wait_for("written", lambda: disk(agent)["state"] == "ok" and agent.metrics()["edgeway_meta_waiting_changes"] == 0, LATE)
    hub.process.kill()
    agent.process.kill()
    agent.start()
    assert port_of(agent, "web") == 84 and fake(agent.node, "web.default") == address


# --- time ------------------------------------------------------------------------------------------------


class TimedAgent(Agent):
    """Its clock can be set while it runs; `steady`: only the wall clock, as with date(1) or NTP, else time itself passes."""

    def __init__(self, node, hub, steady):
        self.steady = steady
        self.clock = os.path.join(node.dir, "clock")
        self.set_clock("+0")
        super().__init__(node, hub)

    def set_clock(self, offset):
        with open(self.clock + ".new", "w") as f:
            f.write(offset + "\n")
        os.rename(self.clock + ".new", self.clock)

    def argv(self, *options):
        steady = {"FAKETIME_DONT_FAKE_MONOTONIC": 1} if self.steady else {}
        return [*faketime(FAKETIME_TIMESTAMP_FILE=self.clock, FAKETIME_CACHE_DURATION=1, **steady), *super().argv(*options)]


class Site:
    """A node with a backend, a client, and an agent whose clock can be set."""

    def __init__(self, lab, steady):
        self.hub = Hub(lab)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        backend, self.client = self.node.pod("web"), self.node.pod("client")
        backend.serve("--http", "8080")
        self.hub.write("web.yaml", service("web", ("http", 80, 8080)),
                       pod("web", self.node, backend.address, ("http", 8080, 0)))
        self.agent = TimedAgent(self.node, self.hub, steady)
        wait_for("in step", self.in_step, LATE)
        self.address = wait_for("an address", lambda: fake(self.node, "web.default"), LATE)
        wait_for("served", lambda: self.served(), LATE)

    def in_step(self):
        return self.data()["age_s"] == 0 and self.agent.state()["services"] == 1

    def data(self):
        return self.agent.state()["meta"]["data"]

    def age(self):
        return self.agent.metrics()["edgeway_meta_data_age_seconds"]

    def served(self):
        return fake(self.client, "web.default") == self.address and self.client.get(f"http://{self.address}/")[0] == 200

    def aged(self, least, most):
        wait_for(f"age of {least} s", lambda: self.age() >= least, LATE)
        assert self.age() <= most
        assert least <= self.data()["age_s"] <= most
        shown = status(self.agent)
        assert re.search(r"^  data +(2 h|1 d|7 d|23 h|6 d).* old, as of 20", shown, re.M), shown
        assert "what is served may be out of date" in shown
        assert self.agent.ready()
        wait_for("served", self.served, LATE)


def test_week_without_hub(lab):
    """What was known is served, by the same addresses; status, metric and log say how old it is, /readyz does not mind."""
    site = Site(lab, steady=False)
    hub, agent = site.hub, site.agent
    hub.process.kill()
    wait_for("lost", lambda: not agent.state()["meta"]["connected"], LATE)
    for passed, at_least in (("+2h", 7200), ("+1d", DAY_S), ("+7d", 7 * DAY_S)):
        agent.set_clock(passed)
        site.aged(at_least - 60, at_least + 600)
        wait_for("said", lambda n=at_least: f"age_s={str(n)[:2]}" in agent.process.log(), LATE)
    assert agent.process.log().count("what is served may be out of date") == 3
    agent.stop()
    agent.start()
    site.aged(7 * DAY_S - 60, 7 * DAY_S + 600)
    assert agent.process.log().count("what is served may be out of date") == 4
    hub.start()
    wait_for("in step", site.in_step, LATE)
    wait_for("said", lambda: "in step with the hub again after_s=" in agent.process.log(), LATE)
    assert site.age() == 0 and site.served()


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_clock_that_jumps(lab, restart):
    """By decades, forth and back, with the hub and without it: served all the time, and nobody locked out afterwards."""
    site = Site(lab, steady=True)
    hub, agent = site.hub, site.agent

    def jump(offset):
        if restart:
            agent.stop()
        agent.set_clock(offset)
        if restart:
            agent.start()
        year = str(datetime.date.today().year + int(offset[:-1]))

        def noticed():
            agent.process.popen.send_signal(signal.SIGHUP)  # makes a line with the time of day
            return agent.process.log().splitlines()[-1].startswith(year)
        wait_for("the clock", noticed, LATE, 0.2)
        assert agent.ready()
        wait_for("served", site.served, LATE)

    for offset in ("-30y", "+20y", "+0y"):
        jump(offset)
        hub.process.kill()
        wait_for("lost", lambda: not agent.state()["meta"]["connected"], LATE)
        hub.start()
        if offset == "+20y":  # no certificate is good then
            wait_for("refused", lambda: "expired" in agent.state()["meta"]["error"], 2 * LATE)
        else:
            wait_for("in step", site.in_step, 2 * LATE)
    hub.write("new.yaml", service("new", ("http", 80, 8080)))
    wait_for("a change", lambda: fake(site.node, "new.default"), LATE)
    hub.delete("new.yaml")
    wait_for("gone", lambda: not fake(site.node, "new.default"), LATE)
    hub.process.kill()
    wait_for("lost", lambda: not agent.state()["meta"]["connected"], LATE)
    for offset in ("-30y", "+20y", "+0y"):
        jump(offset)
        if not restart:  # told by the clock that does not jump
            assert site.age() < 600
    assert site.age() < 600
    hub.start()
    wait_for("in step", site.in_step, 2 * LATE)
    assert site.served()


# --- power -----------------------------------------------------------------------------------------------


@pytest.mark.plain_build  # what is on the disk
def test_killed_while_it_writes(lab):
    """kill -9 at any moment of a stream of changes, thirty times, hub or no hub: what is found is whole, and served at its old address."""
    hub = Hub(lab)
    hub.write("web.yaml", web(81))
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    address = wait_for("an address", lambda: fake(agent.node, "web.default"), LATE)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    seen = {}
    for i in range(30):
        before = agent.metrics()["edgeway_meta_changes_total{operation=\"update\"}"]
        for k in range(5):
            hub.write(f"moving-{k}.yaml", *[service(f"moving-{k}-{n}", ("http", 8000 + i, 8080)) for n in range(20)])
        wait_for("changes come", lambda: agent.metrics()["edgeway_meta_changes_total{operation=\"update\"}"] > before, LATE, 0.001)
        if rng.random() < 0.8:  # else between two transactions
            wait_for("a moment", lambda: rng.random() < 0.2, LATE, 0.001)
        agent.process.kill()
        agent.start()
        found = {s["name"]: s["fakeIP"] for s in json.loads(agent.ask("/debug/services")[1])["services"]}
        assert found["web"] == address
        for name, ip in found.items():
            assert seen.setdefault(name, ip) == ip, name
        assert "moved aside" not in agent.process.log() and "put right" not in agent.process.log()
    wait_for("in step", lambda: agent.state()["meta"]["synced"] and port_of(agent, "moving-4-19") == 8029, LATE)
    assert agent.state()["services"] == 101


@pytest.mark.plain_build
def test_ten_thousand_services_and_no_hub(lab):
    """All names are answered with the addresses of before, and a new service's endpoints are found when the hub is back."""
    hub = Hub(lab)
    token = hub.token("--node", "edge-1")  # while it has nothing else to do
    write_typical(hub, range(10000))
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, token=token)
    wait_for("all", lambda: agent.state()["services"] == 10000 and agent.state()["meta"]["synced"] and not unacknowledged(hub), 120)

    def addresses():
        return {(s["namespace"], s["name"]): s["fakeIP"] for s in json.loads(agent.ask("/debug/services", seconds=30)[1])["services"]}

    before = addresses()
    assert len(set(before.values())) == 10000 and "" not in before.values()
    hub.process.kill()
    for end in ("stop", "kill"):
        getattr(agent.process, end)()
        agent.start()
        assert addresses() == before
        for i in range(0, 10000, 997):
            name = f"shop-backend-{i:05d}.team-{i % 20}"
            assert fake(agent.node, name) == before[(name.split(".")[1], name.split(".")[0])]
    wait_for("data of the past", lambda: agent.metrics()["edgeway_meta_data_age_seconds"] > 0)
    assert agent.ready()
    assert " old, as of " in status(agent)
    hub.start()
    wait_for("in step", lambda: agent.metrics()["edgeway_meta_data_age_seconds"] == 0, LATE)
    assert addresses() == before
