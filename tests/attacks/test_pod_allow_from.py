"""A pod wants to call a service whose edgeway.io/allow-from keeps it out: by every name, address, port and header that it can think of, and
after everything that it can wait for. Not one packet comes to the service's pods, and the node says so.
"""
import socket

import pytest

from caller_site import DOMAIN, RULE, CallerSite
from dnskit import socket_in
from h2kit import Http2
from httpkit import Wire, socket_of
from lab import service, wait_for

CLUSTER_IP = "10.96.0.77"


@pytest.fixture(scope="module")
def site(lab):
    made = CallerSite(lab)
    show(made)
    yield made
    made.logs()


def show(site):
    headless = service("named", ("http", 80, 8080), selector="db", annotations={"edgeway.io/allow-from": RULE}, clusterIP="None")
    site.policies()
    site.show_services(RULE, headless, clusterIP=CLUSTER_IP)
    wait_for("ClusterIP", lambda: site.http(site.friend, f"http://{CLUSTER_IP}/")[0] == 200)
    wait_for("headless", lambda: site.http(site.friend, "http://named/")[0] == 200)
    wait_for("restricted", lambda: site.http(site.foe, "http://db/")[0] == 403)


def statuses(site, caller, *urls):
    return [site.http(caller, url, "-H", "Host: open.default.svc.cluster.local", "-H", f"X-Forwarded-For: {site.friend.address}",
                      "-H", f"Forwarded: for={site.friend.address}")[0] for url in urls]


def test_by_every_name_and_header(site):
    fake = site.address(site.nodes[0], "db")
    with site.untouched():
        assert statuses(site, site.foe, "http://db/", f"http://db.{DOMAIN}/", f"http://{fake}/", f"http://{CLUSTER_IP}/", "http://named/",
                        f"http://{site.address(site.nodes[0], 'named')}:8080/") == [403] * 6
        # a target in absolute form, and a tunnel through another service's address
        assert site.http(site.foe, "http://db/", "--request-target", "http://open/")[0] == 403
        assert site.foe.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_connect}", "-p", "-x", "http://db:80", "http://db/",
                            check=False).stdout in ("403", "400", "405", "501")


def test_by_what_is_no_http(site):
    fake = site.address(site.nodes[0], "db")
    with site.untouched():
        for port, data in ((80, b"\x16\x03\x01\x02\x00\x01\x00"), (7000, b"hello"), (7000, b"")):
            s = socket_of(site.foe)
            s.settimeout(60)
            try:
                s.connect((fake, port))
                s.sendall(data)
                if not data:
                    s.shutdown(socket.SHUT_WR)
                assert s.recv(100) == b""
            except ConnectionError:
                pass
            s.close()


def test_by_http2(site):
    """The agent itself greets it, and refuses each request."""
    with site.untouched():
        s = socket_of(site.foe)
        s.connect((site.address(site.nodes[0], "db"), 80))
        client = Http2(Wire(s)).open()
        assert [client.reply(client.ask(path)).status for path in ("/", "/other")] == [403, 403]
        s.close()


def test_a_connection_from_before_is_no_way_in(site):
    """Keep-alive, pipelined requests and an open relay outlive no change."""
    site.show_services(None, clusterIP=CLUSTER_IP)
    wait_for("open", lambda: site.http(site.foe)[0] == 200)
    fake = site.address(site.nodes[0], "db")
    kept, relayed = socket_of(site.foe), socket_of(site.foe)
    for s, port in ((kept, 80), (relayed, 7000)):
        s.settimeout(60)
        s.connect((fake, port))
    kept.sendall(b"GET / HTTP/1.1\r\nHost: db\r\n\r\n")
    assert kept.recv(4096).startswith(b"HTTP/1.1 200")
    assert relayed.recv(100) == b"edge-1.db\n"
    site.show_services(RULE, clusterIP=CLUSTER_IP)
    with pytest.raises(ConnectionError):
        relayed.recv(100)
        relayed.sendall(b"x")
        relayed.recv(100)
    wait_for("closed", lambda: site.http(site.foe)[0] == 403)
    with site.untouched():
        kept.sendall(b"GET / HTTP/1.1\r\nHost: db\r\n\r\nGET / HTTP/1.1\r\nHost: db\r\n\r\n")
        got = b""
        while got.count(b"HTTP/1.1 403") < 2:
            more = kept.recv(4096)
            assert more, got
            got += more
        assert b"HTTP/1.1 200" not in got
    kept.close()
    relayed.close()


@pytest.mark.parametrize("how", ["annotation", "policy"])
def test_a_connection_of_the_kernel_from_before(site, how):
    said = {"edgeway.io/datapath": "kernel"}
    kernel = service("kern", ("echo", 7000, 9090), selector="db", annotations=said)
    site.show_services(None, kernel)
    address = wait_for("kern", lambda: site.address(site.nodes[0], "kern"))
    wait_for("kernel", lambda: site.agents[0].state()["iptables"]["kernel"]["tcpPorts"] >= 1)
    with socket_in(site.foe, socket.SOCK_STREAM, address, 7000) as s:
        s.settimeout(5)
        assert s.recv(100)
        s.sendall(b"abc")
        assert s.recv(100) == b"abc"
        if how == "annotation":
            said["edgeway.io/allow-from"] = RULE
            site.show_services(None, service("kern", ("echo", 7000, 9090), selector="db", annotations=said))
        else:
            site.policies({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": []})
        wait_for("closed", lambda: site.foe.send(address, 7000, "hello", 3) in (None, ""))
        wait_for("cut", lambda: not echoes(s))
    show(site)


def echoes(s):
    try:
        s.sendall(b"still?")
        return s.recv(100) == b"still?"
    except OSError:
        return False


def test_by_the_ports_of_the_agent_itself(site):
    """The listener and the doors of UDP are at the node's address: who sends there by itself is judged as well."""
    gateway = site.nodes[0].gateway
    assert site.udp(site.far_friend) == "edge-1.db"
    door = next(p["door"] for p in site.agents[1].state()["tunnel"]["outwardUdp"]["ports"] if p["service"] == "default/db-udp")
    host, port = door.rsplit(":", 1)
    assert site.udp(site.far_friend, host, port) == "edge-1.db"
    with site.untouched():
        assert site.udp(site.far_foe, host, port) == "-"
        assert site.http(site.foe, f"http://{gateway}:40001/")[0] == 0
        assert site.udp(site.foe) == "-"


def test_an_address_that_another_pod_had(site):
    """The friend's pod is gone and its address is nobody's: whoever has it now is not the friend."""
    site.gone = {"friend"}
    site.show_pods()
    wait_for("forgotten", lambda: "shop/friend" not in site.told())
    with site.untouched():
        assert site.http(site.friend)[0] == 403
    site.gone = set()
    site.show_pods()
    wait_for("known", lambda: site.http(site.friend)[0] == 200)


def test_it_is_told(site):
    log = site.agents[0].process.log()
    assert "a call was denied client=" in log and "namespace=ops service=default/db" in log
    assert site.agents[0].metrics()['edgeway_lb_errors_total{reason="allow_from"}'] > 0


def test_a_policy_that_cannot_be_read(site):
    """A slip in a policy that is there when the hub starts: nobody comes in by it."""
    site.show_services(None, clusterIP=CLUSTER_IP)
    for caller in (site.foe, site.far_foe):
        wait_for("open", lambda c=caller: site.http(c)[0] == 200)
    site.hub.process.stop()
    site.policies({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"from": {"namespaceSelector": {}}}]})
    site.hub.start()
    for caller in (site.foe, site.far_foe):
        wait_for("closed", lambda c=caller: site.http(c)[0] == 403, 30)
    with site.untouched():
        assert site.http(site.foe)[0] == 403 and site.tcp(site.foe) is None and site.udp(site.foe) == "-"
    assert "from: a list expected; it counts as closed" in site.hub.process.log()
