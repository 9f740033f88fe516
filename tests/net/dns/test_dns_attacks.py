"""Who wants to harm: an upstream that says what it likes, forgers beside it, pods that ask too much.

The upstream is a thread here with sockets in a machine of the lab; the first label of a name chooses what it says.
"""
import os
import random
import selectors
import socket
import struct
import threading
import time

import pytest

import lab as labs
from dnskit import GOOD_A, SERVER, D, framed, plain_query, read_framed, socket_in

WEB = f"web.default.svc.{D}"
UPSTREAM, FORGER = "192.0.2.60", "192.0.2.61"
LIE = bytes((198, 51, 100, 66))
A, CNAME, SOA = 1, 5, 6
SANITIZED_MB = 300  # what ASan keeps of freed memory is no growth of ours
SERVFAIL, FORMERR, REFUSED = 2, 1, 5


def wire(name):
    return b"".join(bytes([len(x)]) + x.encode() for x in name.split(".") if x) + b"\0"


def record(owner, rtype, data, ttl=60):
    return wire(owner) + struct.pack("!HHIH", rtype, 1, ttl, len(data)) + data


def soa(ttl):
    return record("test", SOA, b"\0\0" + struct.pack("!5I", 1, 1, 1, 1, ttl), ttl)


def address(owner, ttl=60):
    return record(owner, A, GOOD_A, ttl)


def lie(owner):
    return record(owner, A, LIE)


def answer(q, *sections, flags=0x8180):
    end = q.index(b"\0", 12) + 5
    counts = [len(s) for s in sections] + [0] * (3 - len(sections))
    return q[:2] + struct.pack("!5H", flags, 1, *counts) + q[12:end] + b"".join(r for s in sections for r in s)


def name_of(q):
    at, labels = 12, []
    while q[at]:
        labels.append(q[at + 1:at + 1 + q[at]].decode().lower())
        at += q[at] + 1
    return ".".join(labels)


def chain(name, n):
    names = [name] + [f"n{i}.{name}" for i in range(n)]
    return [record(a, CNAME, wire(b)) for a, b in zip(names, names[1:])] + [address(names[-1])]


def says(q, by_tcp):
    """The message, or None for silence."""
    name = name_of(q)
    mode = name.split(".")[0].split("-")[0]
    if mode == "silent":
        return None
    if mode in ("tcsilent", "tcendless", "tcwrong", "many") and not by_tcp:
        return answer(q, flags=0x8380)
    if mode == "many":
        return answer(q, [struct.pack("!HHHIH", 0xc00c, A, 1, 60, 4) + GOOD_A] * 4000)
    if mode == "ring":
        return answer(q, [record(name, CNAME, wire("b." + name)), record("b." + name, CNAME, wire(name)), lie(name)])
    if mode == "chain":
        return answer(q, chain(name, 12))
    if mode == "long":
        return answer(q, chain(name, 50))
    if mode == "stray":
        return answer(q, [lie("www.bank.test"), address(name), lie("other." + name)])
    if mode == "poison":
        return answer(q, [address(name)], [], [lie("www.bank.test")])
    if mode == "ttl":
        return answer(q, [address(name, int(name.split(".")[0].split("-")[1]))])
    if mode == "gone":
        return answer(q, [], [soa(int(name.split(".")[0].split("-")[1]))], flags=0x8183)
    return answer(q, [address(name)])


class Upstream(threading.Thread):
    """UDP and TCP on port 53; keeps who asked for what, and from which port."""

    def __init__(self, machine):
        super().__init__(daemon=True)
        self.asked, self.kept = [], []
        self.mute = set()  # names that are not answered for now
        self.udp = unconnected(machine, socket.SOCK_DGRAM, UPSTREAM, 53)
        self.tcp = unconnected(machine, socket.SOCK_STREAM, UPSTREAM, 53)
        self.tcp.listen(64)
        self.ready = selectors.DefaultSelector()
        self.ready.register(self.udp, selectors.EVENT_READ, self.on_udp)
        self.ready.register(self.tcp, selectors.EVENT_READ, self.on_connect)
        self.start()

    def times(self, name):
        return sum(1 for q, _ in self.asked if name_of(q) == name)

    def on_udp(self, s):
        q, client = s.recvfrom(4096)
        self.asked.append((q, client))
        told = says(q, False)
        if told and name_of(q) not in self.mute:
            s.sendto(told, client)

    def on_connect(self, s):
        c = s.accept()[0]
        c.settimeout(2)
        self.kept.append(c)
        self.ready.register(c, selectors.EVENT_READ, self.on_tcp)

    def on_tcp(self, c):
        try:
            self.say_by_tcp(c, read_framed(c))
        except (OSError, AssertionError):
            self.ready.unregister(c)

    def say_by_tcp(self, c, q):
        mode = name_of(q).split(".")[0].split("-")[0]
        if mode == "tcsilent":
            return
        if mode == "tcendless":
            c.setblocking(False)
            c.send(b"\xff\xff" + os.urandom(1 << 20))
        elif mode == "tcwrong":
            c.sendall(struct.pack("!H", 5) + says(q[:12] + wire("good.test") + q[-4:], True))
        else:
            c.sendall(framed(says(q, True)))

    def run(self):
        while True:
            for key, _ in self.ready.select():
                try:
                    key.data(key.fileobj)
                except (OSError, ValueError, struct.error, IndexError) as e:
                    print(f"upstream: {e!r}")


def unconnected(machine, kind, where, port):
    """A bound socket of that machine."""
    s = socket_in(machine, socket.SOCK_DGRAM, where)
    made = []

    def enter():
        with open(f"/proc/{machine.holder.pid}/ns/net", "rb") as namespace:
            os.setns(namespace.fileno()) if hasattr(os, "setns") else setns(namespace.fileno())
            made.append(socket.socket(socket.AF_INET, kind))
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    s.close()
    made[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made[0].bind((where, port))
    return made[0]


def setns(fd):
    import ctypes
    assert ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000) == 0


class Town:
    def __init__(self, lab):
        self.machine = labs.Machine(lab, "world", address=UPSTREAM)
        self.machine.run("ip", "addr", "add", f"{FORGER}/24", "dev", "eth0")
        self.upstream = Upstream(self.machine)
        hub = labs.Hub(lab)
        outs = {f"out-{m}": f"{m}.test" for m in ("ring", "chain", "long", "stray", "good")}
        hub.write("services.yaml", labs.service("web", ("http", 80, 8080)),
                  *[labs.service(n, type="ExternalName", externalName=e) for n, e in outs.items()])
        self.node = labs.Node(lab, "edge-1", "192.0.2.11", upstream=UPSTREAM)
        self.agent = labs.Agent(self.node, hub)
        self.pods = [self.node.pod("one"), self.node.pod("two")]
        labs.wait_for("services", lambda: self.agent.state()["services"] == 1 + len(outs))
        self.sanitized = b"asan" in open(f"/proc/{self.agent.process.pid}/maps", "rb").read()

    def resident_mb(self):
        with open(f"/proc/{self.agent.process.pid}/status") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.agent.process.pid}/fd"))

    def ask(self, name, pod=1, kind=socket.SOCK_DGRAM, patience=labs.PATIENCE_S, q=None):
        with socket_in(self.pods[pod], kind) as s:
            s.settimeout(patience)
            q = q or plain_query(random.randrange(65536), name)
            s.sendall(q if kind == socket.SOCK_DGRAM else framed(q))
            got = s.recv(65535) if kind == socket.SOCK_DGRAM else read_framed(s)
        assert got[:2] == q[:2] and got[2] & 0x80
        return got

    def canary(self):
        got = self.ask(WEB)
        assert got[3] & 15 == 0 and got[7] == 1

    def bounded(self, before_mb):
        return self.resident_mb() < before_mb + (SANITIZED_MB if self.sanitized else 20)


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-3000:]}")


def rcode(got):
    return got[3] & 15


def ttl_of(got):
    """Of the only record, an address whose owner is written out or a pointer."""
    return struct.unpack("!I", got[-10:-6])[0]


# --- an upstream that lies -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["tcsilent", "tcendless", "tcwrong"])
def test_tcp_that_leads_nowhere_is_servfail(town, mode):
    before = town.descriptors()
    assert rcode(town.ask(f"{mode}.test")) == SERVFAIL
    town.canary()
    assert town.agent.process.alive()
    labs.wait_for("descriptors as before", lambda: town.descriptors() <= before + 2)


def test_4000_records_are_handed_on(town):
    assert town.ask("many.test")[2] & 2  # TC
    got = town.ask("many.test", kind=socket.SOCK_STREAM)
    assert struct.unpack("!H", got[6:8])[0] == 4000 and rcode(got) == 0


@pytest.mark.parametrize("name", ["out-ring", "out-long"])
def test_a_chain_without_an_end_is_servfail(town, name):
    got = town.ask(f"{name}.default.svc.{D}")
    assert rcode(got) == SERVFAIL and LIE not in got
    town.canary()


@pytest.mark.parametrize("name, records", [("out-chain", 14), ("out-stray", 2), ("out-good", 2)])
def test_only_the_chains_end_is_believed(town, name, records):
    got = town.ask(f"{name}.default.svc.{D}", kind=socket.SOCK_STREAM)
    assert rcode(got) == 0 and struct.unpack("!H", got[6:8])[0] == records
    assert got.endswith(GOOD_A) and LIE not in got


def test_what_stands_beside_the_answer_is_not_kept(town):
    assert rcode(town.ask("poison.test")) == 0 and rcode(town.ask("stray.test")) == 0
    before = town.upstream.times("www.bank.test")
    assert town.ask("www.bank.test").endswith(GOOD_A)
    assert town.upstream.times("www.bank.test") > before


@pytest.mark.parametrize("ttl, told, kept", [
    (2 ** 31, 0, False), (2 ** 32 - 1, 0, False), (2 ** 31 - 1, 86400, True)])
def test_a_ttl_is_bounded(town, ttl, told, kept):
    assert ttl_of(town.ask(f"ttl-{ttl}.test")) == ttl  # passed on as it came
    first = town.upstream.times(f"ttl-{ttl}.test")
    for _ in range(12):
        got = ttl_of(town.ask(f"ttl-{ttl}.test"))
        assert got in (ttl, told) or told - 60 <= got <= told
    assert (town.upstream.times(f"ttl-{ttl}.test") < first + 12) == kept


@pytest.mark.parametrize("ttl", [2 ** 31, 2 ** 32 - 1])
def test_a_denial_with_such_a_ttl_is_not_kept(town, ttl):
    for n in range(1, 5):
        assert rcode(town.ask(f"gone-{ttl}.test")) == 3
        assert town.upstream.times(f"gone-{ttl}.test") >= n


# --- forgers ---------------------------------------------------------------------------------


def test_5000_forged_answers_are_not_believed(town):
    """They come before the true one, which the second try gets if the forgers have filled the socket."""
    name = "truth.test"
    town.upstream.mute.add(name)
    with socket_in(town.pods[1], socket.SOCK_DGRAM) as s:
        s.send(plain_query(77, name))
        labs.wait_for("asked", lambda: town.upstream.times(name))
        q, client = next((q, c) for q, c in town.upstream.asked if name_of(q) == name)
        forged = answer(q, [lie(name)])
        with unconnected(town.machine, socket.SOCK_DGRAM, FORGER, 53) as forger:
            for id in random.sample(range(65536), 5000):
                forger.sendto(struct.pack("!H", id) + forged[2:], client)
            forger.sendto(forged, client)  # all is right but for the address
        for id in random.sample(range(65536), 500):  # the address is right
            if id != struct.unpack("!H", q[:2])[0]:
                town.upstream.udp.sendto(struct.pack("!H", id) + forged[2:], client)
        town.upstream.mute.clear()
        town.upstream.udp.sendto(answer(q, [address(name)]), client)
        s.settimeout(labs.PATIENCE_S)
        got = s.recv(65535)
    assert rcode(got) == 0 and got.endswith(GOOD_A) and LIE not in got


# --- pods that ask too much --------------------------------------------------------------------


def test_a_flood_of_random_names_costs_others_nothing(town):
    town.ask("good-warm.test")
    memory, files = town.resident_mb(), town.descriptors()
    r, before = random.Random(1), town.agent.metrics()
    with socket_in(town.pods[0], socket.SOCK_DGRAM) as s:
        for i in range(20):
            for _ in range(1000):
                s.send(plain_query(r.randrange(65536), f"silent-{r.randrange(10 ** 9)}.test"))
            town.canary()
            assert rcode(town.ask(f"good-{i}.test")) in (0, SERVFAIL)
            assert town.bounded(memory)
    labs.wait_for("memory and descriptors", lambda: town.bounded(memory) and town.descriptors() <= files + 2)
    after = town.agent.metrics()
    assert sum(after[k] - before.get(k, 0) for k in after if k.startswith("edgeway_dns_cache_misses_total")) > 200
    labs.wait_for("upstream serves again", lambda: town.ask("good-after.test").endswith(GOOD_A))


def test_pipelined_questions_whose_answers_are_not_read(town):
    memory = town.resident_mb()
    burst = b"".join(framed(plain_query(i, WEB)) for i in range(10000))
    with socket_in(town.pods[0], socket.SOCK_STREAM) as s:
        s.setblocking(False)
        sent, end = 0, time.monotonic() + 2
        while sent < len(burst) and time.monotonic() < end:
            try:
                sent += s.send(burst[sent:])
            except BlockingIOError:
                time.sleep(0.01)
                town.canary()
        for _ in range(20):
            town.canary()
            assert town.bounded(memory)
    town.canary()


# --- options of EDNS ---------------------------------------------------------------------------


def with_option(code, data, length=None):
    option = struct.pack("!HH", code, len(data) if length is None else length) + data
    opt = b"\0" + struct.pack("!HHIH", 41, 1232, 0, len(option)) + option
    q = plain_query(9, WEB)
    return q[:10] + b"\0\1" + q[12:] + opt


@pytest.mark.parametrize("n", [0, 1, 7, *range(9, 16), 41, 48])
def test_cookies_of_a_wrong_length_are_refused(town, n):
    assert rcode(town.ask(None, q=with_option(10, bytes(n)))) == FORMERR


@pytest.mark.parametrize("n", [8, 16, 24, 33, 40])
def test_a_wrong_server_cookie_gets_a_fresh_one(town, n):
    client = b"\1\2\3\4\5\6\7\10"
    got = town.ask(None, q=with_option(10, client + b"\xee" * (n - 8)))
    assert rcode(got) == 0 and got[7] == 1
    assert got[-28:-16] == struct.pack("!HH", 10, 24) + client and got[-16:] != b"\xee" * 16


@pytest.mark.parametrize("length", [0, 3, 5, 65535])
def test_options_whose_length_is_wrong_are_refused(town, length):
    assert rcode(town.ask(None, q=with_option(65001, b"\0\1\0\1", length))) == FORMERR
