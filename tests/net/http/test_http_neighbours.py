"""Nothing that one client or endpoint does may be felt by another: while one misbehaves, a canary on the same worker
asks the same service and another one, and every single request must succeed."""
import contextlib
import os
import resource
import socket
import threading
import time

import pytest

from httpkit import PATIENCE, Endpoint, Wire, socket_of
from lab import Agent, Hub, Node, pod, service, wait_for

HEAD = b"GET / HTTP/1.1\r\nHost: web\r\n"
CROWD = 1000


class Canary:
    """Asks each of `names` in turn, over new and over kept connections, until the block ends."""

    def __init__(self, bed, *names, least=20):
        self.bed, self.names, self.least = bed, names, least
        self.done, self.failures, self.over = 0, [], False

    def ask(self, name, kept):
        wire = kept.get(name) or self.bed.client(name)
        try:
            for _ in range(2):
                wire.put(HEAD, b"\r\n")
                status, _, body = wire.reply()
                if status != 200 or not body.startswith(b"edge-1."):
                    self.failures.append((name, status, body[:100]))
                self.done += 1
        except (OSError, AssertionError) as e:
            self.failures.append((name, repr(e)))
        if self.done % 4:
            kept[name] = wire
        else:
            wire.close()
            kept.pop(name, None)

    def run(self):
        kept = {}
        while not self.over or (self.done < self.least and not self.failures):
            for name in self.names:
                self.ask(name, kept)
            time.sleep(0.005)
        for wire in kept.values():
            wire.close()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.over = True
        self.thread.join()
        if exc[0] is None:
            assert self.failures == [] and self.done >= self.least


class Bed:
    def __init__(self, lab):
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.pods = [self.node.pod(f"web-{i}") for i in range(2)]
        for p in self.pods:
            p.serve("--http", "8080")
        self.client_pod, self.flood_pod = self.node.pod("client"), self.node.pod("flood")
        self.only_pod = self.node.pod("only")
        self.only_pod.serve("--http", "8080", "--backlog", "4")
        self.mute_pod = self.node.pod("mute")
        self.mute = Endpoint(self.mute_pod, 8080)
        hub = Hub(lab)
        hub.write("web.yaml", service("web", ("http", 80, 8080)), service("other", ("http", 80, 8080)), service("mute", ("http", 80, 8080)),
                  service("half", ("http", 80, 8080)), service("only", ("http", 80, 8080)), service("none", ("http", 80, 8080)), service("raw", ("tcp", 80, 8080), selector="web"),
                  pod("web", self.node, self.pods[0].address, ("http", 8080, 0)),
                  pod("other", self.node, self.pods[1].address, ("http", 8080, 0)),
                  pod("mute", self.node, self.mute_pod.address, ("http", 8080, 0)),
                  pod("only", self.node, self.only_pod.address, ("http", 8080, 0)),
                  pod("half-0", self.node, self.pods[0].address, ("http", 8080, 0), app="half"),
                  pod("half-1", self.node, "172.17.9.9", ("http", 8080, 0), app="half"))
        self.agent = Agent(self.node, hub, "--mesh.workers", "1")
        self.addresses = {}
        for name in ("web", "other", "mute", "half", "raw", "only", "none"):
            wait_for(name, lambda: self.node.dns(f"{name}.default.svc.cluster.local", server=self.node.gateway)[1])
            self.addresses[name] = self.node.address_of(f"{name}.default.svc.cluster.local", f"@{self.node.gateway}")

    def client(self, name, *data, by=None):
        s = socket_of(by or self.client_pod)
        s.connect((self.addresses[name], 80))
        return Wire(s).put(*data)

    def crowd(self, name, data):
        """Many clients that say this and no more."""
        made = []
        for _ in range(CROWD):
            made.append(self.client(name))
            try:
                made[-1].put(data)
            except OSError:
                pass
        return made

    def established(self, address):
        return self.node.run("ss", "-Htn", "state", "established", "dst", address).stdout

    def restart(self, *before):
        self.agent.stop()
        self.agent.process = self.node.start("agent", *before, *self.agent.argv())
        self.agent.wait_ready()

    @contextlib.contextmanager
    def nobody_blamed(self):
        before, begun = self.agent.metrics()["edgeway_lb_ejections_total"], time.monotonic()
        yield
        assert self.agent.metrics()["edgeway_lb_ejections_total"] == before, (
            f"{time.monotonic() - begun:.0f} s; {self.only_pod.run('nstat', '-asz', 'TcpExtListen*').stdout}{self.agent.process.log()[-3000:]}")

    def active(self):
        return self.agent.metrics()["edgeway_lb_connections_active"]


@pytest.fixture(scope="module")
def bed(lab):
    made = Bed(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


@pytest.fixture(autouse=True)
def alone(bed):
    yield
    bed.mute.clear()
    assert bed.agent.process.alive()
    wait_for("nobody left", lambda: bed.active() == 0)


@pytest.mark.parametrize("data", [b"", b"GET / HT", HEAD, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"],
                         ids=["idle", "slow line", "slow head", "slow body"])
def test_a_thousand_slow_clients(bed, data):
    with Canary(bed, "web", "other"):
        # backend.py answers a body when it is whole: until then each has an endpoint's thread of its own
        crowd = bed.crowd("mute" if data.startswith(b"POST") else "web", data)
        wait_for("the crowd", lambda: bed.active() >= CROWD)
        for i, wire in enumerate(crowd):
            wire.close(hard=i % 2)


def test_a_thousand_relays(bed):
    with Canary(bed, "web", "other"):
        crowd = [bed.client("raw") for _ in range(CROWD // 4)]
        wait_for("the crowd", lambda: bed.active() >= CROWD // 4)
        for wire in crowd:
            wire.close()


def test_one_idle_connection(bed):
    """EdgeMesh's header-hash service stood still for as long as one client said nothing."""
    idle = [bed.client("web"), bed.client("mute"), bed.client("raw")]
    with Canary(bed, "web", "other"):
        time.sleep(1)
    for wire in idle:
        wire.close()


def test_a_stalled_reader(bed):
    """A client that asks for 200 MB and reads none of it, and one that stops reading in the middle."""
    with Canary(bed, "web", "other"):
        stalled = [bed.client("web", b"GET /bytes/200000000 HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(8)]
        stalled[0].until()
        stalled[0].take(1000000)
        time.sleep(0.5)
    memory = int(next(line for line in open(f"/proc/{bed.agent.process.pid}/status") if line.startswith("VmRSS")).split()[1])
    assert memory < 500000  # kB, of the 1 600 000 that nobody reads; sanitizers keep much of what was freed
    for wire in stalled:
        wire.close(hard=True)


def test_a_stalled_upload(bed):
    """An endpoint that does not read what its client sends."""
    with Canary(bed, "web", "other"):
        uploads = [bed.client("mute", b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n") for _ in range(4)]
        for wire in uploads:
            wire.s.settimeout(0.3)
            with pytest.raises(socket.timeout):
                while True:
                    wire.put(b"x" * 65536)
    for wire in uploads:
        wire.close(hard=True)


def test_a_mute_endpoint(bed):
    """Requests that nobody answers, and connections that nobody accepts."""
    with Canary(bed, "web", "other"):
        waiting = [bed.client("mute", HEAD, b"\r\n") for _ in range(200)]
        for wire in waiting[:100]:
            wire.silent(0)
    for wire in waiting:
        wire.close()


def test_a_dead_endpoint(bed):
    """One of two has no machine behind its address: every GET is answered by the other."""
    with Canary(bed, "half", "web", "other", least=60):
        pass


def test_a_flood_of_requests(bed):
    """One client pipelines thousands of requests and takes the answers late."""
    with Canary(bed, "web", "other"):
        flood = bed.client("web")
        sender = threading.Thread(target=lambda: [flood.s.sendall((HEAD + b"\r\n") * 100) for _ in range(30)])
        sender.start()
        time.sleep(0.3)
        for _ in range(3000):
            assert flood.reply()[0] == 200
        sender.join()
    flood.close()


@pytest.mark.parametrize("data", [(), (HEAD, b"\r\n")], ids=["connections", "requests"])
@pytest.mark.parametrize("name", ["web", "only"])
def test_a_flood_of_connections(bed, name, data):
    """Opened and reset as fast as it goes. With requests the flooded endpoint itself is at its limit, and "only" accepts no more than
    four connections at once: other clients of the same endpoint have their turn all the same."""
    with bed.nobody_blamed(), Canary(bed, name, "other"):
        for _ in range(2 * CROWD):
            bed.client(name, *data, by=bed.flood_pod).close(hard=True)


def test_a_thousand_requests_that_hang(bed):
    """One client has them all, at a service's only endpoint, which accepts four connections at once. Were they opened at once, too, the
    kernel would send again all that were dropped in the same moments, and of these take five each: some would not be in after ten seconds."""
    crowd = []
    try:
        with bed.nobody_blamed(), Canary(bed, "only", "other", least=100):
            for _ in range(CROWD):
                crowd.append(bed.client("only", b"GET /hang HTTP/1.1\r\nHost: only\r\n\r\n", by=bed.flood_pod))
                time.sleep(0.002)
    finally:
        for wire in crowd:
            wire.close(hard=True)


@pytest.mark.parametrize("name,data", [("web", b""), ("web", HEAD), ("mute", HEAD + b"\r\n")], ids=["idle", "heads", "requests"])
def test_a_client_that_wants_every_descriptor(bed, name, data):
    """It gets its half of the connections; new and kept connections of others go on, and no endpoint is blamed."""
    bed.restart("prlimit", "--nofile=400:400")
    made = []
    try:
        with Canary(bed, "web", "other"):
            for _ in range(500):
                made.append(socket_of(bed.mute_pod))
                try:
                    made[-1].connect((bed.addresses[name], 80))
                    made[-1].sendall(data)
                except OSError:
                    pass
            wait_for("refusals", lambda: bed.agent.metrics()['edgeway_lb_connections_total{mode="crowded"}'] > 300)
            assert 80 <= bed.active() < 120
        metrics = bed.agent.metrics()
        assert metrics["edgeway_lb_ejections_total"] == 0 and metrics["edgeway_lb_shortages_total"] == 0
        assert bed.agent.process.logged("its client has too many")
    finally:
        bed.mute.clear()
        for s in made:
            s.close()
        bed.restart()


def test_out_of_descriptors_is_no_endpoints_fault(bed):
    """503 until there are some again, and then all is well at once."""
    pid = bed.agent.process.pid
    wire = bed.client("web", HEAD, b"\r\n")
    assert wire.reply()[0] == 200
    wait_for("the pool is empty", lambda: not bed.established(bed.pods[0].address))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(taken) + 1)) - taken), before[1]))
    try:
        status, fields, body = wire.put(HEAD, b"\r\n").reply()
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert status == 503 and fields["retry-after"] == "1" and b"short of descriptors" in body
    assert wire.put(HEAD, b"\r\n").reply()[0] == 200
    metrics = bed.agent.metrics()
    assert metrics["edgeway_lb_ejections_total"] == 0 and metrics["edgeway_lb_shortages_total"] == 1
    wire.close()


def test_strangers_at_the_listener(bed):
    """Who dials the listener itself, or an address and port that no service has: a reset, a metric, and nothing is left of it."""
    fds = f"/proc/{bed.agent.process.pid}/fd"
    free = bed.addresses["web"].rsplit(".", 1)[0] + "."
    unknown = next(free + str(i) for i in range(1, 255) if free + str(i) not in bed.addresses.values())
    before, refused = len(os.listdir(fds)), bed.agent.metrics()['edgeway_lb_connections_total{mode="refused"}']
    with Canary(bed, "web", "other"):
        for to in ((bed.node.gateway, 40001), (unknown, 80), (bed.addresses["web"], 81)):
            for i in range(100):
                s = socket_of(bed.flood_pod)
                try:
                    s.connect(to)
                    Wire(s).put(HEAD, b"\r\n").reset()
                except OSError:
                    pass
                s.close()
    now = bed.agent.metrics()['edgeway_lb_connections_total{mode="refused"}']
    assert now >= refused + 100
    wait_for("nothing is left", lambda: bed.active() == 0 and len(os.listdir(fds)) <= before + 10)
    assert "an address that is not in the mesh" in bed.agent.process.log()


def test_interim_answers_without_end(bed):
    """An endpoint that says 103 for ever, and one whose head never ends."""
    with Canary(bed, "web", "other"):
        clients, ends = [], []
        for _ in range(2):  # one after the other: each client with its own end
            clients.append(bed.client("mute", HEAD, b"\r\n"))
            ends.append(bed.mute.accept())
            ends[-1].until()
            ends[-1].s.settimeout(1)
        try:
            while True:
                ends[0].put(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 1000)
        except OSError:
            pass
        ends[1].s.settimeout(PATIENCE)
        try:
            ends[1].put(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100000)
        except OSError:
            pass
        assert clients[1].reply()[0] == 502
    for wire in clients:
        wire.close(hard=True)




@pytest.mark.plain_build  # the kernel's pipe
def test_nobody_reads_the_log(bed):
    """stderr is a pipe that is full: requests go on, lines are lost and counted, and the rest comes when somebody reads."""
    long = b"GET /" + b"x" * 1000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    fifo = os.path.join(bed.node.dir, "log")
    bed.agent.stop()
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    argv = " ".join(f"'{a}'" for a in bed.agent.argv("--mesh.workers", "1", "--lb.accessLog", "all"))
    bed.agent.process = bed.node.start("agent", "sh", "-c", f"exec {argv} 2>{fifo}")
    wait_for("agent", bed.agent.ready)
    wire = bed.client("none")
    for _ in range(60):
        wire.put(long * 100)
        assert all(wire.reply()[0] == 503 for _ in range(100))
    assert bed.agent.metrics()["edgeway_lb_access_log_dropped_total"] > 0
    with Canary(bed, "web", "other"):
        pass
    got = b""

    def read():
        nonlocal got
        try:
            got += os.read(reader, 1 << 20)
        except BlockingIOError:
            pass
        return got.count(b"xxx HTTP") + got.count(b"status=503") > 2000 and got
    wait_for("lines", read)
    wire.close()
    os.close(reader)
    bed.agent.process.kill()
    bed.agent.start("--mesh.workers", "1")
