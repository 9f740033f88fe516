"""A node's certificate is renewed, again and again, under transfers that run: none of them notices."""
import pytest

import tunnelkit
from lab import wait_for
from tunnelkit import Transfers, connect, tunnels

pytestmark = pytest.mark.plain_build  # test_transfers and test_identity have the parts

as_before = tunnelkit.as_before
ROUNDS, BULK, IDLE = 3, 10, 90


@pytest.fixture(scope="module")
def site(lab):
    made = tunnelkit.Site(lab, *tunnelkit.INGRESS_OPTIONS, "--tls.nodeLifetime", "30s")
    made.backend(made.nodes[0], "server", "--stream", "7500", "--http", "7001", "--tcp", "7002")
    yield made
    made.logs()


def echo(s, word):
    s.sendall(word)
    got = b""
    while not got.endswith(word):
        got += s.recv(100) or pytest.fail("ended")


def test_three_times_under_a_hundred_streams(site):
    """Ten are in the middle of a transfer, ninety say a word before and after."""
    agent, hub = site.agents[0], site.hub

    def renewed():
        return agent.metrics()["edgeway_tunnel_renewed_total"]
    exec_ = connect(hub.machine, "edge-1:7002")  # as kubectl's, through all of it: its certificate ends meanwhile
    for i in range(ROUNDS):
        echo(exec_, b"still there %d" % i)
        before, epoch = renewed(), tunnels(hub)["edge-1"]["epoch"]
        transfers = Transfers(hub.machine, "edge-1:7500", BULK)
        others = [connect(hub.machine, "edge-1:7002") for _ in range(IDLE)]
        for s in others:
            echo(s, b"before %d" % i)
        wait_for("a new certificate", lambda: renewed() > before)
        wait_for("the newer tunnel", lambda: tunnels(hub)["edge-1"]["epoch"] > epoch)
        assert hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080") == (200, "edge-1.server\n")
        assert transfers.results() == {"whole": BULK}
        for s in others:
            echo(s, b"after %d" % i)
            s.close()
    echo(exec_, b"to the end")
    exec_.close()
    assert agent.metrics()["edgeway_tunnel_lost_total"] == 0
