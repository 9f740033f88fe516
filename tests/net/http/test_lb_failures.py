"""Endpoints that die, vanish, stall and come back, under load: what clients feel of it. Machines are busy where this runs, so the
issue's bounds are those of the best of three runs, beyond what a request costs without us at that moment; errors are not forgiven in any."""
import itertools
import json
import os
import time

import pytest

from lab import HERE, BARE_PYTHON, Agent, Hub, Lab, Node, endpoint_slice, service, wait_for

pytestmark = pytest.mark.plain_build  # bounds of time; test_http_neighbours and test_lb_policies have the code

WORST_MS, BACK_MS, BUSY_MS, RUNS = 500, 500, 50, 3
PODS = 4


class Bed:
    """One node; the service "web" with PODS endpoints, pods of this node, and a client."""
    loads = itertools.count()

    def __init__(self, lab):
        self.hub = Hub(lab)
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pods = [self.node.pod(f"web-{i}") for i in range(PODS)]
        self.backends = [p.serve("--http", "8080", "--tcp", "9090") for p in self.pods]
        self.declare("web")
        self.declare("impatient", **{"edgeway.io/request-timeout": "300ms"})
        self.agent = Agent(self.node, self.hub)
        self.client = self.node.pod("client")
        self.known("web", "impatient")

    def declare(self, name, **annotations):
        made = service(name, ("http", 80, 8080), ("tcp", 7000, 9090), selector="none")
        made["metadata"]["annotations"] = annotations
        addresses = [p.address for p in self.pods]
        echo = endpoint_slice(f"{name}-2", name, 9090, *addresses, port_name="tcp")
        self.hub.write(f"{name}.yaml", made, endpoint_slice(f"{name}-1", name, 8080, *addresses, port_name="http"), echo)

    def known(self, *names):
        """Waits for names and answers; other names cost seconds, as nobody is there to forward them to."""
        for n in names:
            wait_for(f"name {n}", lambda n=n: self.client.address_of(f"{n}.default.svc.cluster.local"))
            wait_for("first answer", lambda n=n: self.client.get(f"http://{n}/")[0] == 200)

    def load(self, seconds, *options, host="web", connections=8, pause_ms=8):
        return self.client.start(f"load-{next(self.loads)}", *BARE_PYTHON, os.path.join(HERE, "load.py"), host, 80, seconds, connections, pause_ms,
                                 *options)

    def load_beside(self):
        """To an endpoint that is well, not through the agent."""
        return self.client.start(f"load-{next(self.loads)}", *BARE_PYTHON, os.path.join(HERE, "load.py"), self.pods[0].address, 8080, 600, 2, 8)

    @staticmethod
    def so_far(load):
        return [json.loads(line) for line in load.log().splitlines(keepends=True) if line.endswith("]\n")]

    @classmethod
    def results(cls, load):
        assert load.wait() == 0, load.log()[-2000:]
        return cls.so_far(load)

    # --- what may happen to endpoint i

    def die(self, i):
        self.backends[i].kill()

    def revive(self, i, *options):
        self.backends[i] = self.pods[i].serve("--http", "8080", "--tcp", "9090", *options)

    def vanish(self, i):
        self.pods[i].run("nft", "-f", "-", input="""table inet hole {
            chain in { type filter hook input priority 0; policy drop; }
            chain out { type filter hook output priority 0; policy drop; }
            }""")

    def reappear(self, i):
        self.pods[i].run("nft", "delete", "table", "inet", "hole")

    def stall(self, i):
        self.backends[i].popen.send_signal(19)

    def wake(self, i):
        self.backends[i].popen.send_signal(18)

    def endpoint(self, i):
        """What the workers know of endpoint i."""
        return [e for g in self.agent.state()["lb"]["endpoints"] for e in g["endpoints"] if e["address"].startswith(self.pods[i].address + ":")]


@pytest.fixture(scope="module")
def bed():
    with Lab() as lab:
        made = Bed(lab)
        yield made
        print(made.agent.process.log()[-4000:])


class Figures:
    """What a load met; `beside` is one that goes to an endpoint directly: what a request costs there at the same moment, the machine takes for itself."""

    def __init__(self, results, beside, name="", broken=(0, 0), repaired=(0, 0)):
        """broken, repaired: from when on it may be, and when it surely is."""
        self.all, self.beside, self.repaired, self.down = results, beside, repaired[1], repaired[1] - broken[0]
        self.errors = [r for r in results if r[2] != 200]
        self.worst, self.usual = max(r[1] for r in results), max(r[1] for r in beside)
        after = [r[0] for r in results if r[0] >= self.repaired and r[3] == name and r[2] == 200]
        self.back = (min(after) - self.repaired) * 1000 if after else float("inf")
        self.meanwhile = sum(r[3] == name for r in results if broken[1] < r[0] - r[1] / 1000 and r[0] < repaired[0])

    def slack(self, begin, end):
        """ms by which the machine may have delayed what went on then: several processes take part in it, one after the other."""
        return 5 * max((r[1] for r in self.beside if r[0] > begin - 0.5 and r[0] - r[1] / 1000 < end + 0.5), default=float("inf"))

    def late(self, bound_ms):
        return [r for r in self.all if r[1] > bound_ms and r[1] > bound_ms + self.slack(r[0] - r[1] / 1000, r[0])]

    def is_back(self, bound_ms):
        return self.back <= bound_ms + self.slack(self.repaired, self.repaired + self.back / 1000)

    def __str__(self):
        return (f"requests={len(self.all)} errors={len(self.errors)} worst={self.worst:.0f} ms back={self.back:.0f} ms "
                f"directly={self.usual:.0f} ms {self.errors[:3]}")


def run(bed, harm, repair, *options, down=2.0, **more):
    """Under a load that begins before and ends when the endpoint answers again."""
    i, name = 1, bed.pods[1].name
    load, beside = bed.load(600, *options, **more), bed.load_beside()
    wait_for("load", lambda: sum(r[3] == name for r in bed.so_far(load)) >= 20 and bed.so_far(beside))
    broken = [time.monotonic()]
    harm(i)
    broken.append(time.monotonic())
    time.sleep(down)
    repaired = [time.monotonic()]
    repair(i)
    repaired.append(time.monotonic())
    wait_for("it answers again", lambda: any(r[0] >= repaired[1] and r[3] == name and r[2] == 200 for r in bed.so_far(load)))
    time.sleep(1)  # under load
    load.stop()
    beside.stop()
    figures = Figures(bed.results(load), bed.results(beside), name, broken, repaired)
    print(f"{harm.__name__} {' '.join(options) or 'keep-alive'}: {figures}")
    return figures


def best_of_runs(once, good):
    """A run that is good; those of a busy machine do not count as bad ones, unless it is busy all the time."""
    runs = []
    while len(runs) < 3 * RUNS and sum(f.usual <= BUSY_MS for f in runs) < RUNS:
        runs.append(once())
        if good(runs[-1]):
            return
    raise AssertionError(" / ".join(map(str, runs)))


def nobody_waits(bed, harm, repair, *options):
    """No request fails, nothing comes from the dead; and once at least the bounds are kept."""
    def once():
        f = run(bed, harm, repair, *options)
        assert not f.errors, str(f)
        assert f.meanwhile == 0
        return f
    best_of_runs(once, lambda f: not f.late(WORST_MS) and f.is_back(BACK_MS))


@pytest.mark.parametrize("options", [(), ("close",)], ids=["keep-alive", "close"])
def test_endpoint_is_killed(bed, options):
    nobody_waits(bed, bed.die, bed.revive, *options)


@pytest.mark.parametrize("options", [(), ("close",)], ids=["keep-alive", "close"])
def test_endpoint_is_a_black_hole(bed, options):
    nobody_waits(bed, bed.vanish, bed.reappear, *options)


def test_ejections_are_told(bed):
    wait_for("all are up", lambda: all(e["state"] == "up" for i in range(PODS) for e in bed.endpoint(i)))
    before = bed.agent.state()["lb"]["counters"]
    bed.vanish(2)
    load = bed.load(600)
    wait_for("ejection in the state", lambda: any(e["state"] == "ejected" and e["fault"] == "silent" for e in bed.endpoint(2)))
    wait_for("a probe", lambda: bed.agent.counted("probes") > before["probes"])
    bed.reappear(2)
    load.stop()
    bed.results(load)
    wait_for("nothing is ejected", lambda: all(e["state"] == "up" for i in range(PODS) for e in bed.endpoint(i)))
    assert all(bed.agent.counted(name) > before[name] for name in ("ejections", "returns"))
    log = bed.agent.process.log()
    assert f"does a firewall drop? address={bed.pods[2].address}:8080" in log
    assert f"an endpoint is back address={bed.pods[2].address}:8080" in log


def test_connect_timeout(bed):
    """edgeway.io/connect-timeout: one service gives up, so does the node's own second, and a third waits on until the endpoint is
    there again."""
    names = {"hasty": {"edgeway.io/connect-timeout": "100ms"}, "usual": {}, "calm": {"edgeway.io/connect-timeout": "1m"}}
    lone = bed.node.pod("lone")  # nobody has connections to it
    lone.serve("--http", "8080")
    lone.run("nft", "add table inet hole; add chain inet hole in { type filter hook input priority 0; policy drop; }")
    for name, annotations in names.items():
        made = service(name, ("http", 80, 8080), selector="none", annotations=annotations)
        bed.hub.write(f"{name}.yaml", made, endpoint_slice(f"{name}-1", name, 8080, lone.address, port_name="http"))
        wait_for(f"name {name}", lambda n=name: bed.client.address_of(f"{n}.default.svc.cluster.local"))
    asked = {n: bed.client.start(n, "curl", "-sS", "-m", 180, "-w", " %{http_code}", f"http://{n}/") for n in names}
    for name in ("hasty", "usual"):
        assert asked[name].wait(20) == 0 and asked[name].log().endswith(" 504"), asked[name].log()
    assert asked["calm"].alive()
    lone.run("nft", "delete", "table", "inet", "hole")
    assert asked["calm"].wait(30) == 0 and asked["calm"].log().endswith(" 200"), asked["calm"].log()


def test_retries_do_not_pile_up(bed):
    """All endpoints hang up on each request: with two retries each they would get three times as many. The budget is a fifth, and
    ten for each worker, in five seconds."""
    asked, workers = 400, bed.agent.state()["lb"]["workers"]
    bed.declare("piling")
    bed.known("piling")
    # One that was idle may hang up on a GET: that is no failure, and is made good beyond the budget.
    wait_for("nobody is idle", lambda: all(e["idle"] == 0 for i in range(PODS) for e in bed.endpoint(i)))
    before, refused = hits(bed), bed.agent.counted("over_budget")
    p = bed.client.run("curl", "-sS", "-w", "%{http_code} ", *["-o", os.path.join(bed.client.dir, "out"), "http://piling/hangup"] * asked, seconds=60)
    assert p.stdout.split() == ["502"] * asked
    assert asked < hits(bed) - before <= asked * 1.2 + 20 * workers
    assert bed.agent.counted("over_budget") > refused
    all_back(bed, "piling")


def hits(bed):
    return sum(int(bed.client.get(f"http://{p.address}:8080/hits")[1]) for p in bed.pods)


def test_sent_once(bed):
    """With edgeway.io/retries: 0 a request that was sent is not sent again, whatever becomes of it."""
    bed.declare("once", **{"edgeway.io/retries": "0"})
    bed.known("once")
    wait_for("nobody is idle", lambda: all(e["idle"] == 0 for i in range(PODS) for e in bed.endpoint(i)))
    before = hits(bed)
    p = bed.client.run("curl", "-sS", "-w", "%{http_code} ", *["-o", os.path.join(bed.client.dir, "out"), "http://once/hangup"] * 20, seconds=60)
    assert p.stdout.split() == ["502"] * 20 and hits(bed) == before + 20
    all_back(bed, "once")


def test_many_meet_the_dead_at_once(bed):
    """Three of four have just died, and 64 clients come at once: more than may be retried. Each moves on, as nothing was executed."""
    bed.declare("crowd")
    for i in range(1, PODS):
        bed.die(i)
    wait_for("the service is known", lambda: bed.client.address_of("crowd.default.svc.cluster.local"))
    before = bed.agent.metrics()
    p = bed.client.run("curl", "-sS", "-w", " %{http_code}\n", "--parallel", "--parallel-immediate", "--parallel-max", 64, *["http://crowd/"] * 64, seconds=60)
    assert sorted(p.stdout.split()) == ["200"] * 64 + [bed.pods[0].name] * 64
    after = bed.agent.metrics()
    assert after["edgeway_lb_ejections_total"] > before["edgeway_lb_ejections_total"]
    for i in range(1, PODS):
        bed.revive(i)
    all_back(bed, "crowd")


def test_outage_is_not_made_worse(bed):
    """All endpoints are dead: a request makes one attempt, a fifth of them another; and there are the first ones that found out."""
    asked, workers = 400, bed.agent.state()["lb"]["workers"]
    bed.declare("down")
    bed.known("down")
    for i in range(PODS):
        bed.die(i)
    before = bed.agent.counted("dials")
    p = bed.client.run("curl", "-sS", "-w", "%{http_code} ", *["-o", os.path.join(bed.client.dir, "out"), "http://down/"] * asked, seconds=60)
    assert p.stdout.split() == ["502"] * asked
    dials = bed.agent.counted("dials") - before
    assert asked <= dials <= asked * 1.2 + 20 * workers + 2 * PODS, dials
    for i in range(PODS):
        bed.revive(i)
    all_back(bed, "down")


def all_back(bed, name="web"):
    names = {p.name for p in bed.pods}
    wait_for("all are back", lambda: {bed.client.get(f"http://{name}/")[1].strip() for _ in range(16)} == names)


FLAPPING = """
going=1
trap 'going=' TERM
while [ $going ]; do
    nft add table inet flap '{ chain in { type filter hook input priority 0; tcp dport 8080 tcp flags & (syn | psh) != 0 reject with tcp reset; }; }'
    sleep 0.05
    nft delete table inet flap
    sleep 0.05
done"""


@pytest.mark.parametrize("options", [(), ("close",)], ids=["keep-alive", "close"])
@pytest.mark.parametrize("lame", [1, 3])
def test_endpoints_flap(bed, lame, options):
    """They refuse connections and reset requests ten times a second, each at its own time; one is well all the while. No GET fails."""
    flapping = [bed.pods[i].start("flap", "sh", "-c", FLAPPING) for i in range(1, 1 + lame)]
    try:
        results = bed.results(bed.load(6, "least=501", *options))
    finally:
        for p in flapping:
            p.stop()
    assert len(results) > 500 and [r for r in results if r[2] != 200] == []
    assert {r[3] for r in results} >= {p.name for p in bed.pods[:2]}
    all_back(bed)


def test_two_of_four_vanish(bed):
    """Rivals of dials may be dead as well."""
    def both(what):
        def act(i):
            what(i), what(i + 1)
        act.__name__ = "two " + what.__name__
        return act

    def once():
        f = run(bed, both(bed.vanish), both(bed.reappear))
        assert not f.errors, str(f)
        return f
    best_of_runs(once, lambda f: not f.late(2 * WORST_MS))


def in_flight(bed, i):
    return sum(e["in_flight"] for e in bed.endpoint(i))


def ask_and_vanish(bed, *options):
    """A request to a pod that is cut off while it thinks: (status, who answered)."""
    for i in range(PODS):
        bed.stall(i)
    p = bed.client.start("thinking", "curl", "-sS", "-m", 90, "-w", " %{http_code}", *options, "http://web/slow")

    def has_it():
        """The pod whose kernel has acknowledged it; another one may be dialled at the same time."""
        for i in range(PODS):
            shown = bed.pods[i].run("ss", "-Htn", "state", "established", "sport", "8080").stdout.splitlines()
            if in_flight(bed, i) and any(int(line.split()[0]) > 0 for line in shown):
                return [i]
        return None

    try:
        [i] = wait_for("a pod has it", has_it)
        bed.vanish(i)
    finally:
        for n in range(PODS):
            bed.wake(n)
    try:
        p.wait(40)
        body, _, status = p.log().splitlines()[-1].rpartition(" ")
        return int(status), body or p.log().splitlines()[-2], i
    finally:
        bed.reappear(i)
        os.truncate(p.log_path, 0)


def test_endpoint_vanishes_while_it_thinks(bed):
    """The bytes were acknowledged; keep-alive finds out. A GET goes elsewhere."""
    status, who, i = ask_and_vanish(bed)
    assert status == 200 and who in {p.name for p in bed.pods} - {bed.pods[i].name}


POSTING = """
import http.client, os, sys, time
c = http.client.HTTPConnection("alone", 80, timeout=90)
c.request("GET", "/")
print(c.getresponse().read().decode(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
c.request("POST", "/", "x")
print(c.getresponse().status, flush=True)
"""


def test_nothing_is_executed_twice(bed):
    """A POST that went to a black hole, over a connection that was good just before, goes nowhere else: nobody knows whether it was
    executed. Affinity takes it there although another endpoint has come."""
    made = service("alone", ("http", 80, 8080), selector="none", sessionAffinity="ClientIP")
    bed.hub.write("alone.yaml", made, endpoint_slice("alone-1", "alone", 8080, bed.pods[0].address, port_name="http"))
    bed.known("alone")
    gate = os.path.join(bed.client.dir, "post")
    posting = bed.client.start("posting", *BARE_PYTHON, "-c", POSTING, gate)
    wait_for("GET", lambda: bed.pods[0].name in posting.log())
    both = [p.address for p in bed.pods[:2]]
    known = bed.agent.ask("/debug/services")[1].count(both[1])
    bed.hub.write("alone.yaml", made, endpoint_slice("alone-1", "alone", 8080, *both, port_name="http"))
    wait_for("both are known", lambda: bed.agent.ask("/debug/services")[1].count(both[1]) > known)
    bed.vanish(0)
    try:
        open(gate, "w").close()
        assert posting.wait(40) == 0
        assert posting.log().split()[-1] == "504"
        assert bed.client.get("http://alone/")[1].strip() == bed.pods[1].name
    finally:
        bed.reappear(0)


def test_others_do_not_feel_it(bed):
    """One service's endpoints are all gone while it is asked a lot; another one's clients go on as before."""
    one = endpoint_slice("lonely-1", "lonely", 8080, bed.pods[3].address, port_name="http")
    bed.hub.write("lonely.yaml", service("lonely", ("http", 80, 8080), selector="none"), one)
    three = endpoint_slice("busy-1", "busy", 8080, *[p.address for p in bed.pods[:3]], port_name="http")
    bed.hub.write("busy.yaml", service("busy", ("http", 80, 8080), selector="none"), three)
    bed.known("lonely", "busy")
    bed.vanish(3)

    def once():
        other, beside = bed.load(600, host="lonely", connections=32, pause_ms=10), bed.load_beside()
        wait_for("load", lambda: bed.so_far(other) and bed.so_far(beside))
        results = bed.results(bed.load(2, "least=200", host="busy"))
        other.stop()
        beside.stop()
        assert all(r[2] in (0, 502, 504) for r in bed.results(other))
        assert all(r[2] == 200 for r in results)
        return Figures(results, bed.results(beside))
    try:
        best_of_runs(once, lambda f: not f.late(100))
    finally:
        bed.reappear(3)


def test_slow_endpoint_gets_little(bed):
    def slow(i):
        bed.die(i)
        bed.revive(i, "--delay", "200")

    def quick(i):
        bed.die(i)
        bed.revive(i)

    def once():
        f = run(bed, slow, quick)
        assert not f.errors, str(f)
        assert f.meanwhile < 0.15 * sum(r[3] != "" for r in f.all)
        return f
    best_of_runs(once, lambda f: f.is_back(2 * BACK_MS))  # it was killed in the middle of requests


def test_workers_tell_each_other(bed):
    """One worker finds an endpoint dead, or back: the others leave it out, or use it, without finding out for themselves."""
    bed.agent.stop()
    bed.agent.start("--mesh.workers", "3")
    bed.known("web")

    def states(i):
        return [e["state"] for e in bed.endpoint(i)]

    def asked_all():
        bed.client.get("http://web/", "-H", "Connection: close")
        return len(states(1)) == 3
    wait_for("three workers know it", asked_all)
    bed.die(1)
    ask = ["curl", "-sS", "-w", "%{http_code} ", *["-o", os.path.join(bed.client.dir, "out"), "http://web/"] * 40]
    assert bed.client.run(*ask).stdout.split() == ["200"] * 40  # one connection: one worker
    wait_for("all leave it out", lambda: states(1) == ["ejected"] * 3)
    metrics = bed.agent.metrics()
    assert metrics["edgeway_lb_ejections_total"] == 1 and metrics["edgeway_lb_retries_total"] <= 2
    bed.revive(1)
    wait_for("all use it", lambda: states(1) == ["up"] * 3)
    assert states(0) == ["up"] * 3
    bed.agent.stop()
    bed.agent.start()
    bed.known("web")


def test_half_dead_endpoint(bed):
    """It takes connections and requests, and never answers: the service's time-out ends those that it got, nothing else does. The
    first two eject it, and after that one at a time tries it."""
    f = run(bed, bed.stall, bed.wake, host="impatient", down=4.0)
    assert f.errors and all(e[2] == 504 for e in f.errors), str(f)
    assert len(f.errors) <= 2 * 8 + 1.5 * f.down, str(f)
    assert not f.late(300 + 1000)
    wait_for("it is back", lambda: {bed.client.get("http://impatient/")[1].strip() for _ in range(16)} == {p.name for p in bed.pods})


def test_all_gone_and_back(bed):
    for i in range(PODS):
        bed.die(i)
    status, body = bed.client.get("http://web/")
    assert status == 502 and len(body.splitlines()) == 1
    for i in range(PODS):
        bed.revive(i)
    wait_for("an answer", lambda: bed.client.get("http://web/")[0] == 200)
    wait_for("all are back", lambda: {bed.client.get("http://web/")[1].strip() for _ in range(16)} == {p.name for p in bed.pods})


def test_tcp_goes_around_a_black_hole(bed):
    bed.vanish(3)
    try:
        seen = {(bed.client.send("web", 7000, "x") or "nobody").split("\n")[0] for _ in range(12)}
        assert seen <= {p.name for p in bed.pods[:3]}
    finally:
        bed.reappear(3)
