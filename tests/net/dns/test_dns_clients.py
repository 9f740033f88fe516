"""Real stub resolvers in a pod: glibc's and musl's getaddrinfo, getent and busybox, with the resolv.conf that Docker copies.

The same small program is built with both libraries. It asks for A and AAAA at once, so that a name with IPv4 alone must not
fail because of AAAA. musl asks all nameservers at once and believes the first; glibc goes from one to the next.
"""
import os
import re
import subprocess

import pytest

import lab as labs
from dnskit import SERVER, D

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBCS = {"glibc": "cc", "musl": "musl-gcc"}
NONAME = "EAI_NONAME"
QUICK_MS = 1000  # a stub that has lost a query waits for 2 s and more
EXTERNAL, EXTERNAL_6, IN_SEARCH = "203.0.113.7", "2001:db8::7", "203.0.113.8"

# name: service whose fake address it is, addresses, or the error
CLUSTER = {
    "web": "web", "web.default": "web", "web.default.svc": "web", f"web.default.svc.{D}": "web",
    f"web.default.svc.{D}.": "web", "WEB.Default": "web",
    "db.shop": "db", "db.shop.svc": "db", f"db.shop.svc.{D}": "db",
    "www.google": "www", f"gone.default.svc.{D}.": NONAME, f"web.shop.svc.{D}.": NONAME,
}
OUTSIDE = {
    "www.example.test": {EXTERNAL}, "www.example.test.": {EXTERNAL}, "both.example.test": {EXTERNAL, EXTERNAL_6},
    "www.google.com": {EXTERNAL}, "api": {IN_SEARCH}, "out": {EXTERNAL}, f"out.default.svc.{D}": {EXTERNAL},
    "gone": NONAME, "gone.default": NONAME, "web.shop": NONAME, "web.default.sv": NONAME, f"gone.default.svc.{D}": NONAME,
    "gone.example.test": NONAME, "gone.example.test.": NONAME, "gone.google": NONAME,
}


def upstream(lab):
    """A dnsmasq that says NODATA for the type that a name does not have, and NXDOMAIN for all other names."""
    machine = labs.Machine(lab, "dns", address=labs.UPSTREAM_ADDRESS)
    records = [f"www.example.test,{EXTERNAL}", f"both.example.test,{EXTERNAL},{EXTERNAL_6}", f"www.google.com,{EXTERNAL}",
               f"api.lab.test,{IN_SEARCH}"]
    machine.p = machine.start("dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
                  "--log-facility=-", "--log-queries", "--bind-interfaces", f"--listen-address={labs.UPSTREAM_ADDRESS}",
                  "--conf-file=/dev/null", "--address=/#/", *[f"--host-record={r}" for r in records])
    labs.wait_for("dnsmasq", lambda: machine.dns("www.example.test", server=labs.UPSTREAM_ADDRESS)[1])
    return machine


class World:
    def __init__(self, lab):
        self.upstream = upstream(lab)
        hub = labs.Hub(lab)
        hub.write("services.yaml", labs.service("web", ("http", 80, 8080)),
                  labs.service("db", ("", 5432, 5432), namespace="shop", clusterIP="None"),
                  labs.service("www", ("http", 80, 8080), namespace="google"),
                  labs.service("out", type="ExternalName", externalName="www.example.test"))
        self.node = labs.Node(lab, "edge-1", "192.0.2.11")
        self.agent = labs.Agent(self.node, hub)
        labs.wait_for("services at the agent", lambda: self.agent.state()["services"] == 4)
        labs.wait_for("resolv.conf written", lambda: self.node.gateway.encode() in self.node.resolv())
        self.pod = self.node.pod("client")
        self.address = {name: self.node.address_of(f"{name}.{ns}.svc.{D}", f"@{SERVER}")
                        for name, ns in (("web", "default"), ("db", "shop"), ("www", "google"))}
        assert all(labs.FAKE.match(a) for a in self.address.values())
        self.programs = {}
        for libc, compiler in LIBCS.items():
            self.programs[libc] = os.path.join(lab.dir, f"addrinfo-{libc}")
            subprocess.run([compiler, "-O1", *(["-static"] if libc == "musl" else []), "-o", self.programs[libc],
                            os.path.join(HERE, "addrinfo.c")], check=True)

    def nameservers(self, *addresses):
        """The pod's resolv.conf as it was copied from the node's, with these nameservers."""
        lines = [line for line in self.node.resolv().decode().splitlines() if not re.match("nameserver", line)]
        with open(self.pod.resolv_conf, "w") as f:
            f.write("\n".join([f"nameserver {a}" for a in addresses] + lines) + "\n")
        assert "ndots:5" in "".join(lines) and f"default.svc.{D}" in "".join(lines)

    def ask(self, libc, *names):
        """{name: (addresses or the error, milliseconds)}"""
        told = {}
        for line in self.pod.run(self.programs[libc], *names, seconds=120).stdout.splitlines():
            name, status, ms, *addresses = line.split()
            told[name] = (set(addresses) if status == "OK" else status, int(ms))
        return told

    def wanted(self, value):
        return {self.address[value]} if str(value) in self.address else value

    def check(self, libc, rows):
        """What they say always counts; how long it takes, the quickest of three."""
        slow = {}
        for _ in range(3):
            told = self.ask(libc, *(slow or rows))
            wrong = {n: (said, rows[n]) for n, (said, _) in told.items() if said != self.wanted(rows[n])}
            assert not wrong
            slow = {n: ms for n, (_, ms) in told.items() if ms >= QUICK_MS}
            if not slow:
                return
        pytest.fail(f"slow: {slow}")


@pytest.fixture(scope="module")
def world(lab):
    made = World(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


@pytest.fixture
def dead_upstream(world):
    """Nothing comes back from it."""
    world.upstream.run("nft", "-f", "-", input="""
        table ip lab {
            chain in { type filter hook input priority 0; policy drop; }
        }""")
    yield
    world.upstream.run("nft", "delete", "table", "ip", "lab")


def copied(world):
    """Ours and the upstream, as Docker copies them."""
    world.pod.copy_resolv_conf()
    with open(world.pod.resolv_conf) as f:
        assert re.findall(r"^nameserver (\S+)", f.read(), re.M) == [SERVER, labs.UPSTREAM_ADDRESS]


@pytest.mark.parametrize("libc", LIBCS)
def test_our_nameserver_alone(world, libc):
    world.nameservers(SERVER)
    world.check(libc, {**CLUSTER, **OUTSIDE})


@pytest.mark.parametrize("libc", LIBCS)
def test_our_nameserver_and_the_upstream(world, libc):
    """musl races them."""
    copied(world)
    world.check(libc, {**CLUSTER, **OUTSIDE})


def test_musl_never_believes_the_upstream(world):
    """Who answers first is chance: the upstream must not even hear of the cluster's names."""
    copied(world)
    for _ in range(20):
        assert {said == world.wanted(CLUSTER[n]) for n, (said, _) in world.ask("musl", *CLUSTER).items()} == {True}
    assert re.search(r"www\.example\.test from ", world.upstream.p.log())
    assert not re.search(r"cluster\.local from ", world.upstream.p.log())


@pytest.mark.parametrize("libc", LIBCS)
@pytest.mark.parametrize("both", [False, True], ids=["ours", "both"])
def test_dead_upstream(world, dead_upstream, libc, both):
    """Names of the cluster do not notice, not even <service>.<namespace>.svc.<domain> without a final dot, which the stub
    first asks for below the node's own search domain. Others are unknown for now, which is no "does not exist".
    """
    copied(world) if both else world.nameservers(SERVER)
    world.check(libc, CLUSTER)
    assert world.ask(libc, "nobody-knows.example.test.")["nobody-knows.example.test."][0] == "EAI_AGAIN"


def test_getent_and_busybox(world):
    copied(world)
    for name in ("web", "web.default", f"web.default.svc.{D}."):
        lines = world.pod.run("getent", "ahosts", name).stdout.splitlines()
        assert {line.split()[0] for line in lines} == {world.address["web"]}
    assert world.pod.run("getent", "ahosts", "gone", check=False).returncode == 2  # not found
    p = world.pod.run("busybox", "nslookup", f"web.default.svc.{D}", SERVER)
    assert f"Address: {world.address['web']}" in p.stdout
    p = world.pod.run("busybox", "nslookup", f"gone.default.svc.{D}", SERVER, check=False)
    assert p.returncode != 0 and "NXDOMAIN" in p.stdout + p.stderr
