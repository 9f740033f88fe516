"""Requests of HTTP/2 whose endpoint is slow to connect: they share its dial, look for another endpoint when it takes long, and each is sent
to one endpoint alone, whichever dial is answered later."""
import contextlib
import os
import signal
import time

import pytest

from h2bed import PEER, Bed, annotated, no_answers
from h2kit import END_HEADERS, INITIAL_WINDOW_SIZE, data, headers, rst, window
from lab import service, wait_for

pytestmark = pytest.mark.skipif(PEER is not None, reason="what the agent alone does")
HTTP = "http", 80, 8080


@pytest.fixture(scope="module")
def made(lab):
    bed = Bed(lab, objects=[annotated(service("sticky", HTTP, selector="two"), policy="hash", hash_on="header:x-user"),
                            annotated(service("capped", HTTP, selector="two"), max_connections="20"),
                            annotated(service("single", HTTP, selector="one"), max_connections="1"),
                            annotated(service("patient-dial", HTTP, selector="one"), connect_timeout="4s")])
    yield bed
    print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


@pytest.fixture
def bed(made):
    yield made
    made.clear()


def posts(client, n, word):
    return [client.ask(f"/{word}{i}", "POST", ("x-user", "a"), body=b"x") for i in range(n)]


def once(asked, streams):
    return len(asked) == len(set(path for _, path in asked)) == len(streams)


def states(pid):
    """Of a process' threads."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as f:
            yield f.read().rpartition(") ")[2][0]


def test_a_session_that_has_ended(bed):
    """A POST comes when its endpoint has closed the idle session, which the agent is about to learn: it goes by a new one."""
    client, stream, end, there, _ = bed.pair(path="/first")
    end.answer(there)
    assert client.reply(stream).status == 200
    agent = bed.agent.process.popen
    time.sleep(0.1)  # in the midst of a turn it would read the request, and send it, before it hears of the end
    wait_for("it rests", lambda: set(states(agent.pid)) == {"S"})
    agent.send_signal(signal.SIGSTOP)
    wait_for("all its threads are stopped", lambda: set(states(agent.pid)) == {"T"})
    stream = client.ask("/second", "POST", body=b"x")  # which it reads first
    port = end.wire.s.getpeername()[1]
    end.wire.close()
    wait_for("its end has come", lambda: not bed.agent.node.run("ss", "-Htn", "state", "established", "sport", "=", f":{port}").stdout)
    agent.send_signal(signal.SIGCONT)
    end = bed.accept()
    there, fields = end.head()
    end.answer(there, b"again")
    assert fields[":path"] == "/second" and client.reply(stream).body == b"again"


def test_who_does_not_read_keeps_no_place(bed):
    """Of an endpoint with room for one: a client that reads nothing is left after a minute, whether its answer is whole or not."""
    whole, sessions, heads = {INITIAL_WINDOW_SIZE: 0x7fffffff}, [], []
    for name in ("single", "one"):  # in this order: the limit counts what other services of the namespace have there
        bed.client(name, whole).put(window(0, 0x7fff0000)).ask("/big")
        n = len(heads) + 1

        def is_asked():
            bed.pump(sessions)
            heads.extend((h2, h2.head()[0]) for _, h2 in sessions if h2.new)
            return len(heads) == n
        wait_for("the request", is_asked)
    for i, (h2, there) in enumerate(heads):
        h2.put(headers(there, [(":status", "200")], END_HEADERS))
        h2.pour(there, b"x" * (6 << 20))
        if i == 1:
            h2.put(data(there))
    before = bed.metric('errors_total{reason="timeout"}')
    assert bed.in_flight("single") == 1
    wait_for("both are closed", lambda: bed.metric('errors_total{reason="timeout"}') >= before + 2, 90)
    other = bed.client("single")
    stream = other.ask("/other")
    bed.serve(other, [stream], sessions)
    assert other.reply(stream).status == 200


@pytest.mark.parametrize("name", ["two", "capped", "sticky"])
@pytest.mark.parametrize("warm", [False, True], ids=["a dial", "a session"])
def test_a_hedge(bed, name, warm):
    """One endpoint's SYNs are lost: all go to the other one, and stay there when the first can be reached again."""
    client, sessions = bed.client(name), []
    if warm:
        _, sessions = bed.serve(client, posts(client, 4, "warm"))
        for i, h2 in sessions:
            if i == 0:
                h2.wire.close(hard=True)
        sessions = [(i, h2) for i, h2 in sessions if i == 1]
    with no_answers(bed.pods[0]):
        streams = posts(client, 6, "hedged")
        asked, sessions = bed.serve(client, streams, sessions)
    assert once(asked, streams) and {i for i, _ in asked} == {1}
    assert [client.reply(s).status for s in streams] == [200] * 6
    wait_for("it is back", lambda: 0 in {i for i, _ in bed.serve(client, posts(client, 4, "after"), sessions)[0]} or name == "sticky")
    wait_for("nothing is counted any more", lambda: bed.in_flight(name) == 0)


def test_hedges_for_each_other(bed):
    """Neither endpoint answers a SYN at first: requests wait for each other's dials."""
    client = bed.client("capped")
    with contextlib.ExitStack() as lost:
        for p in bed.pods:
            lost.enter_context(no_answers(p))
        streams = posts(client, 6, "late")
        client.quiet(0.4)
        lost.close()
        asked, _ = bed.serve(client, streams)
    assert once(asked, [s for s in streams if client.reply(s).status == 200])
    wait_for("nothing is counted any more", lambda: bed.in_flight("capped") == 0)


def test_the_own_dial_wins(bed):
    """A request waits for the dial of another one when its own is answered: the kernel had held back the SYN, not knowing the endpoint's address."""
    where = bed.pods[0].address
    bed.pods[0].run("ping", "-c1", "-W1", bed.node.gateway)
    words = bed.node.run("ip", "neigh", "show", where).stdout.split()
    mac, dev = words[words.index("lladdr") + 1], words[words.index("dev") + 1]
    bed.pods[0].run("nft", "-f", "-", input="table arp lost { chain in { type filter hook input priority 0; policy drop;\n}\n}")
    try:
        bed.node.run("ip", "neigh", "del", where, "dev", dev)
        with no_answers(bed.pods[1]):
            client = bed.client("two")
            streams = posts(client, 1, "first")
            client.quiet(0.085)
            streams += posts(client, 1, "second")
            client.quiet(0.045)
            bed.node.run("ip", "neigh", "replace", where, "lladdr", mac, "dev", dev, "nud", "reachable")
            asked, _ = bed.serve(client, streams)
    finally:
        bed.pods[0].run("nft", "delete", "table", "arp", "lost")
    assert once(asked, streams) and client.alive()
    wait_for("nothing is counted any more", lambda: bed.in_flight("two") == 0)


def test_a_slow_endpoint_alone(bed):
    """There is no other one: requests that come meanwhile wait for the dial, and each is sent once."""
    client, streams = bed.client("patient-dial"), []
    with no_answers(bed.pods[0]):
        for i in range(6):
            streams += posts(client, 1, f"r{i}-")
            client.quiet(0.06)
    asked, _ = bed.serve(client, streams)
    assert once(asked, streams) and [client.reply(s).body for s in streams] == [b"/r%d-0" % i for i in range(6)]


@pytest.mark.parametrize("leaves", [False, True], ids=["both wait", "the first has gone"])
def test_a_shared_dial(bed, leaves):
    """The dial of a request serves those that come after it. While it takes long, they go to another endpoint, also with policy hash;
    whether the first is reset meanwhile makes no difference. Nothing is sent to the endpoint that was too slow."""
    client = bed.client("sticky")
    [(slow, _)], sessions = bed.serve(client, posts(client, 1, "which"))
    for _, h2 in sessions:
        h2.wire.close()
    client.quiet(0.3)
    with no_answers(bed.pods[slow]):
        first, second = posts(client, 2, "shared")
        if leaves:
            client.put(rst(first))
        asked, sessions = bed.serve(client, [second] if leaves else [first, second])
    asked += bed.serve(client, [], sessions)[0]  # the SYN comes through now
    assert sorted(asked) == [(1 - slow, f"/shared{i}") for i in range(leaves, 2)]
    assert client.reply(second).body == b"/shared1"
