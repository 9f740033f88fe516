"""gRPC by its own library, through the agent, call by call: one channel, two servers (grpc_cases.py)."""
import re

import pytest

import lab as labs
from h2bed import PEER, Bed
from lab import HERE, PYTHON, Agent, wait_for

pytest.importorskip("grpc")
SCRIPT = f"{HERE}/grpc_cases.py"
ours = pytest.mark.skipif(PEER is not None, reason="what the agent alone does")
CALLS = "unary client_stream server_stream bidirectional large in_parallel metadata codes unknown_method compressed".split()


class Next(Agent):
    """Takes over from the agent that runs."""

    def argv(self, *options):
        return super().argv("--takeover", "true", *options)


class Server:
    def __init__(self, pod, port):
        self.pod, self.port = pod, port
        self.start()

    def start(self):
        self.process = self.pod.start("grpc", PYTHON, SCRIPT, "server", self.pod.name, self.port)
        wait_for("gRPC server", lambda: self.process.log().count("serving") or not self.process.alive())

    def cancelled(self, how):
        return f"cancelled {how}" in self.process.log()


@pytest.fixture(scope="module")
def bed(lab):
    bed = Bed(lab, Server)
    yield bed
    if bed.agent:
        print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


def argv(bed, case, name="two", *more):
    return PYTHON, SCRIPT, case, ":".join(map(str, bed.addresses[name])), *more


def call(bed, case, name="two", *more):
    p = bed.client_pod.run(*argv(bed, case, name, *more), seconds=120)
    return p.stdout.strip().splitlines()


@pytest.mark.parametrize("case", CALLS)
def test_calls(bed, case):
    assert call(bed, case) == ["ok"]


@pytest.mark.parametrize("case,how", [("deadline", "by its deadline"), ("cancellation", "by its client")])
def test_the_server_learns_that_nobody_waits(bed, case, how):
    assert call(bed, case) == ["ok"]
    wait_for("cancelled", lambda: any(e.cancelled(how) for e in bed.ends))


def test_each_call_is_balanced(bed):
    [counts, _] = call(bed, "spread")
    by_name = {name: int(n) for name, n in re.findall(r"(\S+)=(\d+)", counts)}
    assert set(by_name) == {p.name for p in bed.pods} and all(90 <= n <= 110 for n in by_name.values()), counts


@ours
def test_no_endpoints(bed):
    [said, _] = call(bed, "refused", "none")
    assert said == "UNAVAILABLE service default/none port 80 has no endpoints"


@ours
def test_who_may_not_call(bed):
    [said, _] = call(bed, "refused", "guarded")
    assert said.startswith(("PERMISSION_DENIED", "UNAVAILABLE"))


@ours
def test_a_server_of_http_1(bed):
    bed.pods[0].serve("--http", "8081")
    bed.hub.write("old.yaml", labs.service("old", ("http", 80, 8081), selector="one"))
    bed.find("old")
    for _ in range(2):
        [said, _] = call(bed, "refused", "old")
        assert said.startswith("UNAVAILABLE") and "HTTP/1" in said


@ours
def test_health_checks(bed):
    """grpc.health.v1: the endpoint that says NOT_SERVING for the Service asked about is left out."""
    sick, well = (p.name for p in bed.pods)
    bed.hub.write("checked.yaml", labs.service("checked", ("grpc", 80, 8080), selector="two", annotations={
        "edgeway.io/health-path": f"/grpc.health.v1.Health/Check?service={sick}", "edgeway.io/health-interval": "200ms"}))
    bed.find("checked")
    wait_for("one is left", lambda: re.findall(r"(\S+)=", call(bed, "spread", "checked")[0]) == [well])


@ours
def test_wait_for_ready(bed):
    """The call waits until there is an agent."""
    bed.agent.stop()
    p = bed.client_pod.start("waits", *argv(bed, "wait_for_ready"))
    try:
        wait_for("it waits", lambda: "waits" in p.log())
    finally:
        bed.agent.start()
    assert p.wait() == 0 and p.log().endswith("ok\n"), p.log()


@ours
def test_a_server_is_killed(bed):
    """Calls that it had may fail, which were sent to it afterwards may not: one at a time is under way, and the kernel may still accept a
    connection for a listening socket of the killed process after it has closed the others."""
    p = bed.client_pod.start("load", *argv(bed, "load", "two", "6"))
    wait_for("under way", lambda: "under way" in p.log() or not p.alive())
    bed.ends[1].process.kill()
    p.wait()
    bed.ends[1].start()
    good, bad = map(int, re.search(r"good=(\d+) bad=(\d+)", p.log()).groups())
    assert good > 50 and bad <= 2, p.log()
    wait_for("it is used again", lambda: len(call(bed, "spread", "two", "20")[0].split()) == 2)


def nothing(bed):
    pass


def servers_drain(bed):
    """One after the other, as a Deployment is rolled out."""
    for end in bed.ends:
        end.process.stop()
        end.start()
        wait_for("it is used again", lambda: {e["state"] for e in bed.endpoints("two")} == {"up"})


def takeover(bed):
    """As a new version of the agent does it; then the first ends."""
    before = bed.agent
    bed.agent = Next(bed.node, None, *before.options, token=before.token)
    wait_for("it has taken over", lambda: "has taken over" in bed.agent.process.log())
    assert before.stop() == 0


@pytest.mark.parametrize("meanwhile", [nothing, servers_drain, takeover])
@ours
def test_a_crowd(bed, meanwhile):
    """Channels that call in every way, cancel and run into deadlines: no call fails that its client has not ended."""
    p = bed.client_pod.start(f"crowd-{meanwhile.__name__}", *argv(bed, "crowd", "two", "10"))
    wait_for("under way", lambda: "under way" in p.log() or not p.alive())
    meanwhile(bed)
    p.wait()
    good, bad = re.search(r"good=(\d+) bad=\d+ {(.*)}", p.log()).groups()
    # What gRPC's server says to calls that come while it stops, without a proxy as well; 7: REFUSED_STREAM, of bodies too large to be sent again.
    own = r"(, |'CANCELLED: CANCELLED': \d+|'UNAVAILABLE: Received RST_STREAM with error code 7': \d+)*" if meanwhile is servers_drain else ""
    assert int(good) > 300 and re.fullmatch(own, bad), p.log()
    wait_for("all is given back", lambda: bed.in_flight("two") == 0)
