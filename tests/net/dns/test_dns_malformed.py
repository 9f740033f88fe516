"""10 000 malformed packets, the same ones each time: the canary between them always gets its right answer.

They are valid queries that were cut, lengthened, bent and glued together; most go by UDP, some by TCP. What is answered at
all is a well-formed answer to that packet, an answer is never answered, and nothing of it is left in the agent.
"""
import os
import random
import selectors
import socket
import struct

import dns.message
import pytest

import lab as labs
from dnskit import SERVER, D, framed, plain_query, read_framed, socket_in

SEED, PACKETS, BATCH, BY_TCP, HEADER = 3, 10000, 50, 20, 12
WEB = f"web.default.svc.{D}"
NAMES = [WEB, WEB.upper(), f"gone.default.svc.{D}", f"_http._tcp.{WEB}", f"svc.{D}", D, f"out.default.svc.{D}",
         "www.example.test", "7.113.0.203.in-addr.arpa", ".".join(["a" * 63] * 3), ".".join("x" * 120)]
TYPES = [1, 28, 33, 12, 16, 6, 2, 5, 255, 252, 251, 41, 0, 65535, 15, 65]


def opt(data=b"", size=1232, extended=0, version=0, flags=0, owner=b"\0"):
    return owner + struct.pack("!HHBBHH", 41, size, extended, version, flags, len(data)) + data


def valid(r, names=NAMES):
    q = plain_query(r.randrange(65536), r.choice(names), r.choice(TYPES))
    if r.random() < 0.6:
        option = struct.pack("!HH", r.choice([3, 8, 10, 12, 65001]), 8) + r.randbytes(8)
        q = q[:10] + b"\0\1" + q[12:] + opt(option * r.randrange(3), flags=r.choice([0, 0x8000]))
    return q


# --- one way each to spoil a query ----------------------------------------------------------


def cut(r, q):
    return q[:r.randrange(len(q))]


def flip_bits(r, q):
    made = bytearray(q)
    for _ in range(r.choice([1, 1, 2, 8, 40])):
        made[r.randrange(2, len(made))] ^= 1 << r.randrange(8)
    return bytes(made)


def set_bytes(r, q):
    made = bytearray(q)
    for _ in range(r.choice([1, 2, 4])):
        made[r.randrange(12, len(made))] = r.choice([0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff, r.randrange(256)])
    return bytes(made)


def counts(r, q):
    return q[:4] + struct.pack("!4H", *[r.choice([0, 1, 2, 255, 65535, r.randrange(65536)]) for _ in range(4)]) + q[12:]


def flags(r, q):
    return q[:2] + struct.pack("!H", r.randrange(65536)) + q[4:]


def pointers(r, q):
    """In place of the name: to itself, forwards, into the header, to each other, a long chain of them."""
    here = 0xc000 | 12
    name = r.choice([
        struct.pack("!H", here), struct.pack("!H", here + r.randrange(1, 200)), b"\xc0\0", b"\3www\xc0\x0c",
        struct.pack("!HH", here + 2, here), b"".join(struct.pack("!H", here + 2 * i) for i in range(1, r.randrange(2, 100))),
        b"\1a" + struct.pack("!H", here), b"\xff\xff"])
    return q[:12] + name + q[-4:]


def labels(r, q):
    """Too long, of a kind that does not exist, or without an end."""
    label = lambda n: bytes([n]) + bytes(r.choice(b"az09-_.\\\0\xff ") for _ in range(n))  # noqa: E731
    name = r.choice([
        label(63) * 4, label(63) * r.randrange(5, 20), label(1) * 127, label(1) * 128, b"\x40" + label(62), b"\x80" + label(5),
        label(r.randrange(64)) * r.randrange(1, 9), b"\x3fshort"])
    return q[:12] + name + r.choice([b"\0", b""]) + q[-4:]


def many_opts(r, q):
    n = r.randrange(2, 60)
    return q[:10] + struct.pack("!H", n) + q[12:] + b"".join(opt(size=r.randrange(65536)) for _ in range(n))


def odd_opt(r, q):
    lengths = struct.pack("!HH", r.randrange(65536), r.choice([0, 1, 4, 65535])) + r.randbytes(r.randrange(9))
    made = opt(lengths, r.randrange(65536), r.randrange(256), r.choice([0, 1, 255]), r.randrange(65536),
               r.choice([b"\0", b"\1a\0", b"\xc0\x0c", b""]))
    return q[:10] + b"\0\1" + q[12:] + made[:len(made) - r.choice([0, 0, 1, 5])]


def records(r, q):
    """Sections that a query does not have, RDATA that does not fit."""
    n = r.randrange(1, 40)
    made = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", r.choice(TYPES), r.choice([1, 255, 254]), r.randrange(2 ** 32),
                                              r.choice([0, 4, 4, 65535])) + r.randbytes(4) for _ in range(n))
    return q[:6] + struct.pack("!3H", *[r.choice([0, n, n // 3]) for _ in range(3)]) + q[12:] + made


def glued(r, q):
    return q + valid(r)[r.choice([0, 2, 12]):]


def padded(r, q):
    return q + r.choice([b"\0", b"\xff", b"A"]) * r.choice([1, 2, 100, 1400, 9000])


def noise(r, q):
    return r.randbytes(r.choice([0, 1, 2, 11, 12, 13, r.randrange(600), r.randrange(60000)]))


def header_and_noise(r, q):
    return q[:12] + r.randbytes(r.randrange(300))


def an_answer(r, q):
    return q[:2] + bytes([q[2] | 0x80]) + q[3:] + r.choice([b"", r.randbytes(30)])


SPOIL = [cut, flip_bits, set_bytes, counts, flags, pointers, labels, many_opts, odd_opt, records, glued, padded, noise,
         header_and_noise, an_answer]


def packets(n=PACKETS, names=NAMES):
    r = random.Random(SEED)
    made = []
    for i in range(n):
        q = SPOIL[i % len(SPOIL)](r, valid(r, names))
        if len(q) > 20 and r.random() < 0.3:
            q = r.choice(SPOIL)(r, q)
        made.append(q)
    return made


# --- what comes back -----------------------------------------------------------------------


def is_query(q):
    return len(q) >= HEADER and not q[2] & 0x80


def check(answer, asked):
    """`asked`: the packets that it may be an answer to."""
    assert len(answer) >= HEADER and answer[2] & 0x80, answer.hex()
    same = [q for q in asked if q[:2] == answer[:2] and is_query(q)]
    assert same, f"an answer to nothing: {answer.hex()}"
    assert any(answer[2] & 0x78 == q[2] & 0x78 for q in same), f"another opcode: {answer.hex()}"
    # dnspython reads no unknown opcodes, and sections of an update differently
    m = dns.message.from_wire(answer[:2] + bytes([answer[2] & 0x87]) + answer[3:])
    assert len(m.question) <= 1
    if m.question:
        end = answer.index(b"\0", 12) + 5
        assert any(q[12:end] == answer[12:end] for q in same), f"another question: {answer.hex()}"


class Batches:
    """Packets at a server, and a name between them that is always answered: `socket(kind)`, `name` and `address` are the heir's."""

    def canary(self, i):
        return plain_query(0xca00 | i & 0xff, self.name)

    def is_right(self, answer, asked):
        return (answer[:2] == asked[:2] and answer[3] & 15 == 0 and answer[6:8] == b"\0\1"
                and answer.endswith(socket.inet_aton(self.address)))

    def by_udp(self, batch, i):
        """Sends them and then the canary; the rest of the answers may come later."""
        wire, answers = self.canary(i), []
        with self.socket(socket.SOCK_DGRAM) as s, self.socket(socket.SOCK_DGRAM) as other:
            other.settimeout(labs.PATIENCE_S)
            for q in batch:
                s.send(q)
            other.send(wire)
            assert self.is_right(other.recv(65535), wire)
            s.setblocking(False)
            with selectors.DefaultSelector() as ready:
                ready.register(s, selectors.EVENT_READ)
                while ready.select(0.002):
                    answers.append(s.recv(65535))
        for a in answers:
            check(a, batch)
        return len(answers)

    def by_tcp(self, batch, i):
        """One connection up to each message that is shorter than a header. The canary is on another."""
        wire, answers, start = self.canary(i), 0, 0
        with self.socket(socket.SOCK_STREAM) as other:
            for at, q in enumerate(batch):
                if len(q) < HEADER or at == len(batch) - 1:
                    answers += self.one_connection(batch[start:at + 1])
                    start = at + 1
            other.sendall(framed(wire))
            assert self.is_right(read_framed(other), wire)
        return answers

    def one_connection(self, messages):
        """Behind them a piece of one that is shorter than it says. Each that is a query is answered, then comes the end."""
        queries, answers = [q for q in messages if is_query(q)], []
        with self.socket(socket.SOCK_STREAM) as s:
            s.settimeout(labs.PATIENCE_S)
            s.sendall(b"".join(framed(q) for q in messages) + b"\xff\xff" + messages[0])
            s.shutdown(socket.SHUT_WR)
            while len(answers) < len(queries):
                answers.append(read_framed(s))
                check(answers[-1], messages)
            assert s.recv(1) == b""
        assert sorted(a[:2] for a in answers) == sorted(q[:2] for q in queries)
        return len(answers)

    def send(self, everything):
        """How many were answered by each transport."""
        answered = {"udp": 0, "tcp": 0}
        for i in range(0, len(everything), BATCH):
            how = "tcp" if i // BATCH % BY_TCP == 0 else "udp"
            answered[how] += getattr(self, f"by_{how}")(everything[i:i + BATCH], i // BATCH)
        print(answered)
        return answered


class Target(Batches):
    name = WEB

    def __init__(self, lab):
        labs.upstream(lab, "www.example.test/203.0.113.7")
        hub = labs.Hub(lab)
        hub.write("services.yaml", labs.service("web", ("http", 80, 8080)),
                  labs.service("out", type="ExternalName", externalName="www.example.test"))
        self.node = labs.Node(lab, "edge-1", "192.0.2.11")
        self.agent = labs.Agent(self.node, hub)
        self.pod = self.node.pod("client")
        labs.wait_for("services at the agent", lambda: self.agent.state()["services"] == 2)
        self.address = self.pod.address_of(WEB, f"@{SERVER}")

    def socket(self, kind):
        return socket_in(self.pod, kind)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.agent.process.pid}/fd"))


@pytest.fixture(scope="module")
def target(lab):
    made = Target(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


def test_what_is_sent_is_malformed_and_always_the_same():
    first = packets()
    assert first == packets() and len(set(first)) > 0.9 * PACKETS
    readable = 0
    for q in first:
        try:
            readable += dns.message.from_wire(q).opcode() == 0 and not q[2] & 0x80
        except Exception:  # noqa: dnspython raises what it likes on such bytes
            pass
    assert readable < PACKETS // 3


def test_the_canary_always_gets_its_answer(target):
    everything = packets()
    agent, before = target.agent, target.descriptors()
    answered = target.send(everything)
    assert answered["udp"] > 1000 and answered["tcp"] > 100
    assert agent.process.alive() and "edgeway-agent" in os.readlink(f"/proc/{agent.process.pid}/exe")
    assert agent.process.log().count("agent: started") == 1
    labs.wait_for("descriptors as before", lambda: target.descriptors() <= before, seconds=30)
