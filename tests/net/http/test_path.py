"""The whole path with two nodes: names, fake IPs, requests, both ends of the day."""
import collections
import json
import os
import re

from lab import FAKE, endpoint_slice, pod, service, wait_for

NAME = "edge-nginx.default.svc.cluster.local"


# Endpoints are drawn at random: with 64 requests one of four is missed once in 10^7 runs.
def who(client, url, times):
    return collections.Counter(client.get(url)[1].strip() for _ in range(times))


def test_name_has_a_fake_ip(mesh):
    status, answers, _ = mesh.client1.dns(NAME)
    assert status == "NOERROR" and len(answers) == 1
    assert FAKE.match(answers[0][4]) and answers[0][4] not in ("9.251.0.0", "9.251.255.255")
    assert int(answers[0][1]) == 30


def test_nodes_agree_and_names_have_no_case(mesh):
    assert mesh.client1.address_of(NAME) == mesh.client2.address_of(NAME) == mesh.client1.address_of(NAME.upper())


def test_every_service_has_its_own(mesh):
    names = ["edge-nginx.default", "empty.default", "web.shop"]
    assert len({mesh.client1.address_of(f"{n}.svc.cluster.local") for n in names}) == 3


def test_search_list(mesh):
    want = mesh.client1.address_of(NAME)
    for short in ("edge-nginx", "edge-nginx.default", "edge-nginx.default.svc"):
        assert mesh.client1.getent(short) == want
    assert FAKE.match(mesh.client1.getent("web.shop"))
    assert mesh.client1.getent("api") == "203.0.113.8"  # the search list that was there is still searched


def test_no_data_and_no_name(mesh):
    status, answers, authority = mesh.client1.dns(NAME, "AAAA")
    assert (status, answers) == ("NOERROR", []) and authority[0][3] == "SOA"
    status, answers, authority = mesh.client1.dns("nobody.default.svc.cluster.local")
    assert (status, answers) == ("NXDOMAIN", []) and authority[0][3] == "SOA"


def test_other_names_are_forwarded(mesh):
    assert mesh.client1.address_of("www.example.test") == "203.0.113.7"
    assert mesh.client1.dns("nothing.example.test")[0] == "NXDOMAIN"
    assert mesh.client1.dns("edge-nginx.default.svc.cluster.local.test")[0] == "NXDOMAIN"


def test_resolv_conf_on_the_node(mesh):
    lines = mesh.node1.resolv().decode().splitlines()
    servers = [line for line in lines if line.startswith("nameserver")]
    assert servers == ["nameserver 172.17.0.1", "nameserver 192.0.2.53"]
    search = [line for line in lines if re.match(r"search|domain", line)]
    assert search == ["search default.svc.cluster.local svc.cluster.local cluster.local lab.test"]
    assert "# of the node edge-1" in lines
    assert any(re.match(r"options\b.*\bndots:5\b", line) for line in lines)
    assert any(re.match(r"options\b.*\btimeout:2\b", line) for line in lines)


def test_requests_are_spread_over_both_nodes(mesh):
    for client in (mesh.client1, mesh.client2):
        seen = who(client, "http://edge-nginx/", 96)
        assert set(seen) == mesh.backends
        assert max(seen.values()) <= 48


def test_one_connection_many_endpoints(mesh):
    """Balancing is per request, not per connection."""
    p = mesh.client1.run("curl", "-sS", *[f"http://edge-nginx/{i}" for i in range(64)])
    assert set(p.stdout.split()) == mesh.backends


def test_service_port_differs_from_the_pods(mesh):
    assert mesh.client1.get("http://web.shop:8000/")[1].strip() in mesh.backends


def test_bodies(mesh):
    assert mesh.client1.get("http://edge-nginx/", "-d", "a" * 100000)[1] == "a" * 100000
    status, body = mesh.client1.get("http://edge-nginx/bytes/3000000")
    assert (status, len(body)) == (200, 3000000)
    p = mesh.client1.run("curl", "-sS", "-m", "10", "-H", "Transfer-Encoding: chunked", "-d", "hello",
                         "-o", "/dev/null", "-w", "%{http_code}", "http://edge-nginx/headers", check=False)
    assert p.stdout == "200" or p.stdout == "501"  # python's server does not read chunks; the proxy must pass them


def test_host_stays_and_hop_headers_go(mesh):
    head = mesh.client1.get("http://edge-nginx/headers", "-H", "X-Mine: 1", "-H", "Connection: X-Drop",
                            "-H", "X-Drop: 1")[1]
    assert "Host: edge-nginx" in head and "X-Mine: 1" in head and "X-Drop" not in head


def test_tcp_is_relayed(mesh):
    seen = set()

    def all_seen():  # picked by chance: sixteen of sixteen may leave one out
        name, _, rest = mesh.client1.send("edge-nginx", 7000, "ping\n").partition("\n")
        assert rest == "ping\n"
        seen.add(name)
        return seen == mesh.backends
    wait_for("each of them", all_seen)


def test_processes_of_the_host(mesh):
    assert mesh.node1.getent("edge-nginx") == mesh.client1.address_of(NAME)
    assert set(who(mesh.node1, "http://edge-nginx/", 64)) == mesh.backends
    assert mesh.node1.send("edge-nginx", 7000, "x").endswith("\nx")


def test_service_without_endpoints(mesh):
    status, body = mesh.client1.get("http://empty/")
    assert status == 503 and len(body.strip().splitlines()) == 1 and body.strip()
    assert mesh.client1.send("empty", 7000, "x") in (None, "")


def test_port_that_the_service_lacks(mesh):
    assert mesh.client1.send("edge-nginx", 81, "x") in (None, "")
    assert mesh.client1.send("9.251.255.254", 80, "x") in (None, "")


def test_the_listener_itself_is_no_service(mesh):
    """A direct connection has the listener as its original destination: refused, or it would loop."""
    assert mesh.client1.send("172.17.0.1", 40001, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") in (None, "")
    assert mesh.client1.get("http://edge-nginx/")[0] == 200


def test_service_added_by_dropping_a_manifest(mesh):
    assert mesh.client1.dns("late.default.svc.cluster.local")[0] == "NXDOMAIN"
    mesh.hub.write("late.yaml", service("late", ("http", 80, 8080), selector="web"))
    wait_for("name of the new service", lambda: mesh.client1.address_of("late.default.svc.cluster.local"))
    wait_for("call of the new service", lambda: mesh.client1.get("http://late/")[0] == 200)
    mesh.hub.delete("late.yaml")
    wait_for("name is gone", lambda: mesh.client1.dns("late.default.svc.cluster.local")[0] == "NXDOMAIN")


def test_yaml_as_people_write_it(mesh):
    host = mesh.node2.address
    mesh.hub.write("typed.yml", f"""\
# a service and its slice, by hand
apiVersion: v1
kind: Service
metadata: {{name: typed, namespace: default}}
spec:
  ports:
  - name: http
    port: 80
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata:
  name: typed-abc
  namespace: default
  labels:
    kubernetes.io/service-name: typed
ports:
- name: http
  port: 30080
  protocol: TCP
endpoints:
- addresses: ["{host}"]
  conditions: {{ready: true}}
""")
    wait_for("call", lambda: mesh.client1.get("http://typed/")[1].strip() == "edge-2.web-0")
    mesh.hub.delete("typed.yml")


def test_endpoint_goes_and_returns(mesh):
    mesh.hub.write("one.yaml", service("one", ("http", 80, 30080), selector="none"),
                   endpoint_slice("one-1", "one", 30080, mesh.node2.address, port_name="http"))
    wait_for("call", lambda: mesh.client1.get("http://one/")[0] == 200)
    mesh.hub.write("one.yaml", service("one", ("http", 80, 30080), selector="none"))
    wait_for("no endpoint", lambda: mesh.client1.get("http://one/")[0] == 503)
    mesh.hub.delete("one.yaml")


def test_host_network_and_not_ready(mesh):
    """hostNetwork pods are dialled at hostIP and their own port; a pod that is not ready gets nothing."""
    server = mesh.node2.start("host-backend", "/usr/bin/python3",
                              os.path.join(os.path.dirname(os.path.dirname(__file__)), "backend.py"), "--name", "on-host", "--http", "8088")
    mesh.hub.write("host.yaml", service("host", ("http", 80, "web")),
                   pod("host-0", mesh.node2, mesh.node2.address, ("web", 8088, 8088), app="host", host_network=True),
                   pod("host-1", mesh.node1, "172.17.99.99", ("web", 8088, 30999), app="host", ready=False))
    wait_for("call", lambda: mesh.client1.get("http://host/")[1].strip() == "on-host")
    assert set(who(mesh.client1, "http://host/", 8)) == {"on-host"}
    server.kill()
    mesh.hub.delete("host.yaml")


def test_rules_are_constant(mesh):
    before = mesh.node1.table()
    assert before.count("dnat to 172.17.0.1:40001") == 1
    mesh.hub.write("many.yaml", *[service(f"many-{i}", ("http", 80, 8080), selector="web") for i in range(300)])
    wait_for("300 services", lambda: FAKE.match(mesh.client1.address_of("many-299.default.svc.cluster.local") or ""))
    wait_for("all of them", lambda: all(mesh.node1.address_of(f"many-{i}.default.svc.cluster.local", "@172.17.0.1")
                                        for i in (0, 100, 200)))
    assert mesh.client1.get("http://many-7/")[0] == 200
    assert mesh.node1.table() == before
    mesh.hub.delete("many.yaml")
    wait_for("gone", lambda: mesh.client1.dns("many-299.default.svc.cluster.local")[0] == "NXDOMAIN")


def test_our_table_comes_back(mesh):
    before = mesh.node1.table()
    mesh.node1.run("nft", "delete", "table", "ip", "edgeway")
    wait_for("table put back", lambda: mesh.node1.table() == before)
    assert mesh.client1.get("http://edge-nginx/")[0] == 200


def test_admin(mesh):
    for daemon in (mesh.agent1, mesh.hub):
        assert daemon.ask("/healthz")[0] == 200
        assert daemon.ask("/readyz")[0] == 200
        assert daemon.ask("/nothing")[0] == 404
        json.loads(daemon.ask("/debug/state")[1])
        assert all(name.startswith(("edgeway_", "process_")) for name in daemon.metrics())
    assert mesh.node1.get("http://127.0.0.1:40002/healthz")[0] == 200
    assert mesh.client1.get("http://172.17.0.1:40002/healthz", seconds=2)[0] == 0


def test_hub_gone_and_agent_restarted(mesh):
    fakes = {n: mesh.client1.address_of(f"{n}.svc.cluster.local") for n in ("edge-nginx.default", "web.shop")}
    mesh.hub.process.stop()
    try:
        assert set(who(mesh.client1, "http://edge-nginx/", 64)) == mesh.backends
        assert mesh.agent1.stop() == 0
        mesh.agent1.start()
        assert {n: mesh.client1.address_of(f"{n}.svc.cluster.local") for n in fakes} == fakes
        assert set(who(mesh.client1, "http://edge-nginx/", 64)) == mesh.backends
        assert mesh.client1.send("edge-nginx", 7000, "x").endswith("\nx")
    finally:
        mesh.hub.start()
    mesh.hub.write("after.yaml", service("after", ("http", 80, 8080), selector="web"))
    wait_for("connected again", lambda: mesh.client1.get("http://after/")[0] == 200)
    mesh.hub.delete("after.yaml")


def test_nothing_is_left_after_stop(mesh):
    assert not mesh.node2.clean()
    assert mesh.agent2.stop() == 0
    assert mesh.node2.table() == "" and mesh.node2.route() == ""
    assert mesh.node2.resolv() == mesh.node2.original
    reserved = mesh.node2.run("sysctl", "-n", "net.ipv4.ip_local_reserved_ports").stdout.strip()
    assert reserved == ""


def test_sysctls_may_be_read_only(mesh):
    """As in a pod: told once, as no warning, with what to do on the host."""
    mesh.node2.run("mount", "--bind", "/proc/sys", "/proc/sys")
    mesh.node2.run("mount", "-o", "remount,bind,ro", "/proc/sys")
    mesh.agent2.start()
    told = [line for line in mesh.agent2.process.log().splitlines() if "ip_local_reserved_ports" in line]
    assert len(told) == 1 and " info " in told[0] and "set net.ipv4.ip_local_reserved_ports=" in told[0]
    assert mesh.agent2.stop() == 0
