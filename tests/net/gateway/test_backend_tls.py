"""BackendTLSPolicies: a client of plain HTTP calls an endpoint that speaks TLS alone. The endpoint says what it was asked in its handshake."""
import concurrent.futures
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import threading

import pytest

from gateway_town import GROUP, Town, route, to
from httpkit import Wire, socket_of
from lab import HERE, PYTHON, Agent, Lab, Node, pod, service, wait_for
from pki import Authority

NAME = "echo.example"
URI = "spiffe://mesh.example/ns/mesh/sa/secure"
SAN = f"subjectAltName=DNS:{NAME},URI:{URI}"


def policy(*cas, name="secure", service="secure", host=NAME, section=None, created="2026-01-01T00:00:00Z", **validation):
    """cas: names of ConfigMaps."""
    refs = {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": n} for n in cas]} if cas else {}
    target = {"group": "", "kind": "Service", "name": service, **({"sectionName": section} if section else {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "BackendTLSPolicy", "metadata": {"name": name, "namespace": "mesh", "creationTimestamp": created},
            "spec": {"targetRefs": [target], "validation": {"hostname": host, **refs, **validation}}}


def config_map(name, *files):
    text = ""
    for file in files:
        with open(file, encoding="ascii") as f:
            text += f.read()
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "mesh"}, "data": {"ca.crt": text}}


class Secure(Town):
    """With a Service `secure`, whose one pod speaks TLS with what `wear` has given it."""

    def __init__(self, lab):
        super().__init__(lab)
        self.folder = os.path.join(self.node.dir, "tls")
        os.mkdir(self.folder)
        self.ca, self.other = Authority(self.folder, "ca"), Authority(self.folder, "other")
        self.good = self.ca.issue("good", SAN)
        self.wear(self.good)
        p = self.pods["secure"] = self.node.pod("secure")
        self.server = p.start("echo-secure", PYTHON, os.path.join(HERE, "echo.py"), "8443", "mesh", "secure", "secure-pod", self.folder)
        ports = ("http", 80, 8443), ("https", 443, 8443), ("tcp", 9000, 8443)
        plain = {"edgeway.io/datapath": "kernel"}  # which must not be used for such a Service
        checked = {"edgeway.io/health-path": "/healthy", "edgeway.io/health-interval": "100ms"}
        self.hub.write("secure.yaml", pod("secure", self.node, p.address, ("tls", 8443, 0), namespace="mesh"),
                       service("secure", *ports, namespace="mesh", annotations=plain), service("checked", *ports, selector="secure", namespace="mesh", annotations=checked))
        self.server.logged("serving")
        for name in ("secure", "checked"):
            where = f"{name}.mesh.svc.cluster.local"
            self.addresses[f"{name}.mesh"] = wait_for(name, lambda w=where: self.node.address_of(w, f"@{self.node.gateway}"))

    def wear(self, pair):
        for made, name in zip(pair, ("tls.key", "tls.crt") if pair[0].endswith(".key") else ("tls.crt", "tls.key")):
            shutil.copy(made, os.path.join(self.folder, name + ".new"))
        for name in ("tls.key", "tls.crt"):
            os.rename(os.path.join(self.folder, name + ".new"), os.path.join(self.folder, name))

    def policies(self, *objects):
        """These count from now on: with a mark that the agent has, too (Town.routes)."""
        self.hub.write("policies.yaml", *objects, {**config_map("unused"), "data": {}})
        self.routes()

    def good_policy(self, **more):
        self.wear(self.good)
        self.policies(policy("ca", **more), config_map("ca", self.ca.cert))

    def count(self, what):
        return self.agent.metrics().get(f"edgeway_lb_tls_{what}_total", 0)

    def refused(self, **more):
        """The reason why a request was not sent."""
        before = len(self.seen())
        failures = self.count("failures")
        reply = self.ask("secure", "/secret", **more)
        assert reply.status == 502, reply
        assert self.count("failures") > failures
        assert len(self.seen()) == before
        return reply.text

    def seen(self):
        """What the pod was asked, by itself and not through the mesh."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        raw = socket_of(self.node)
        raw.connect((self.pods["secure"].address, 8443))
        with context.wrap_socket(raw, server_hostname="looker.example") as s:
            wire = Wire(s)
            wire.put(b"GET /seen HTTP/1.1\r\nHost: a\r\n\r\n")
            return [x for x in json.loads(wire.reply()[2])["seen"] if not x.startswith("GET /healthy")]


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        made = Secure(lab)
        yield made
        for p in (made.agent.process, made.hub.process, made.server):
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.mark.parametrize("http", (1, 2))
def test_an_http_client_calls_an_https_endpoint(town, http):
    town.good_policy()
    reply = town.ask("secure", "/path", "x-field: value", http=http)
    assert reply.status == 200 and reply.said["path"] == "/path" and reply.field("x-field") == ["value"]
    assert reply.said["proto"] == f"HTTP/{'1.1' if http == 1 else '2.0'}"
    assert reply.said["tls"]["sni"] == NAME and reply.said["tls"]["version"] == "TLSv1.3"
    assert reply.said["tls"]["alpn"] == ("http/1.1" if http == 1 else "h2")


def test_grpc(town):
    town.good_policy()
    reply = town.ask("secure", "/a.B/C", http=2, grpc=True)
    assert reply.trailers["grpc-status"] == "0" and reply.said["tls"]["alpn"] == "h2"


@pytest.mark.parametrize("http", (1, 2))
def test_a_connection_serves_many_requests(town, http):
    town.good_policy()
    assert len({town.ask("secure", http=http).said["tls"]["connection"] for _ in range(10)}) == 1


def test_sessions_are_resumed(town):
    town.good_policy()
    town.ask("secure")
    resumed = town.count("resumed")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        said = [r.said["tls"] for r in pool.map(lambda _: town.ask("secure", "/slow/0.5"), range(4))]
    assert len({s["connection"] for s in said}) == 4 and any(s["resumed"] for s in said)
    assert town.count("resumed") > resumed


@pytest.mark.parametrize("size", (1000, 20000, 3000000))
def test_bodies(town, size):
    town.good_policy()
    body = "x" * size
    assert town.ask("secure", "/body", method="POST", body=body).said["body"] == body
    if size < 50000:  # as much as a window takes
        assert town.ask("secure", "/body", method="POST", body=body, http=2).said["body"] == body


def test_a_certificate_of_another_ca(town):
    town.wear(town.good)
    town.policies(policy("ca"), config_map("ca", town.other.cert))
    why = town.refused()
    assert "certificate of good, signed by ca, is refused: it is not signed by the CA that we trust" in why and "BackendTLSPolicy mesh/secure" in why
    assert town.agent.process.logged("TLS with an endpoint failed")
    assert "is left out for a while, it fails at TLS" in town.agent.process.log()
    reply = town.ask("secure", "/a.B/C", http=2, grpc=True)
    assert reply.trailers["grpc-status"] == "14" and "is refused" in reply.trailers["grpc-message"]
    said = json.dumps(town.trace("secure"))
    assert "TLS: BackendTLSPolicy mesh/secure" in said and "verify failed: the certificate of good" in said


@pytest.mark.parametrize("names, good", (
    ([{"type": "URI", "uri": URI}], True),
    ([{"type": "URI", "uri": URI + "x"}], False),
    ([{"type": "Hostname", "hostname": "wrong.example"}, {"type": "Hostname", "hostname": NAME}], True),
    ([{"type": "Hostname", "hostname": "wrong.example"}], False),
))
def test_names(town, names, good):
    """With subjectAltNames the hostname is the SNI alone."""
    town.good_policy(host="sni.example", subjectAltNames=names)
    if good:
        assert town.ask("secure").said["tls"]["sni"] == "sni.example"
    else:
        assert "it is not made for the name" in town.refused()


def test_another_name(town):
    town.good_policy(host="wrong.example")
    assert "it is not made for the name wrong.example" in town.refused()


def test_an_expired_certificate(town):
    town.good_policy()
    town.wear(expired(town))
    town.policies(policy("ca", name="again"), config_map("ca", town.ca.cert, town.other.cert))
    assert "it has expired" in town.refused()


def expired(town):
    at = os.path.join(town.folder, "expired")
    from pki import KEY, openssl
    openssl("req", "-new", *KEY, "-subj", "/CN=expired", "-keyout", at + ".key", "-out", at + ".csr")
    with open(at + ".ext", "w") as f:
        f.write(SAN + "\n")
    with open(at + ".cnf", "w") as f:
        f.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase={at}.db\nserial={at}.srl\nnew_certs_dir={town.folder}\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
    open(at + ".db", "w").close()
    with open(at + ".srl", "w") as f:
        f.write("77\n")
    openssl("ca", "-batch", "-config", at + ".cnf", "-cert", town.ca.cert, "-keyfile", town.ca.key, "-in", at + ".csr", "-out", at + ".crt",
            "-notext", "-extfile", at + ".ext", "-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
    return at + ".crt", at + ".key"


def test_an_endpoint_comes_back(town):
    town.good_policy(host="back.example")
    assert "it is not made for the name back.example" in town.refused()
    town.wear(town.ca.issue("back", "subjectAltName=DNS:back.example"))
    wait_for("its back-off is over", lambda: town.ask("secure").status == 200)


def test_the_cas_of_the_system(town):
    town.wear(town.good)
    town.policies(policy(wellKnownCACertificates="System"))
    assert "it is not signed by the CA that we trust" in town.refused()
    etc = os.path.dirname(town.node.resolv_conf)
    os.unlink(os.path.join(etc, "ssl"))
    os.makedirs(os.path.join(etc, "ssl", "certs"))
    digest = subprocess.run(["openssl", "x509", "-noout", "-hash", "-in", town.ca.cert], check=True, capture_output=True, text=True).stdout.strip()
    shutil.copy(town.ca.cert, os.path.join(etc, "ssl", "certs", digest + ".0"))
    town.policies(policy(name="system", wellKnownCACertificates="System"))
    wait_for("found there", lambda: town.ask("secure").status == 200)


def test_nginx_with_tls_1_2(town):
    """A server that many have: HTTP/2 by ALPN, TLS 1.2 alone, its sessions."""
    cert, key = town.ca.issue("nginx", SAN)
    p = town.node.pod("nginx")
    conf = os.path.join(town.folder, "nginx.conf")
    with open(conf, "w") as f:
        f.write(f"daemon off; master_process off; pid {town.folder}/nginx.pid; error_log stderr; events {{ }}\n"
                f"http {{ access_log off; client_body_temp_path {town.folder}/t1; proxy_temp_path {town.folder}/t2; fastcgi_temp_path {town.folder}/t3;"
                f" uwsgi_temp_path {town.folder}/t4; scgi_temp_path {town.folder}/t5; keepalive_requests 2; ssl_session_tickets off; ssl_session_cache shared:s:1m;"
                f" server {{ listen 8443 ssl http2; ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols TLSv1.2;"
                " location / { return 200 '$server_protocol $ssl_protocol $ssl_server_name $ssl_session_reused'; } } }")
    p.start("nginx", "nginx", "-c", conf)
    town.hub.write("nginx.yaml", pod("nginx", town.node, p.address, ("tls", 8443, 0), namespace="mesh"), service("nginx", ("http", 80, 8443), namespace="mesh"))
    where = "nginx.mesh.svc.cluster.local"
    town.addresses["nginx.mesh"] = wait_for("its name", lambda: town.node.address_of(where, f"@{town.node.gateway}"))
    town.policies(policy("ca", service="nginx"), config_map("ca", town.ca.cert))
    wait_for("it serves", lambda: town.ask("nginx").status == 200)
    assert town.ask("nginx", http=2).text.startswith(f"HTTP/2.0 TLSv1.2 {NAME}")
    assert f"HTTP/1.1 TLSv1.2 {NAME} r" in {town.ask("nginx").text for _ in range(6)}


def test_an_endpoint_that_only_the_hub_reaches(town):
    """The TLS is that of the caller's node: the hub carries it."""
    away = Node(town.lab, "edge-2", "192.0.2.12")
    p = away.pod("away")
    p.start("echo-away", PYTHON, os.path.join(HERE, "echo.py"), "8443", "mesh", "away", "away-pod", town.folder)
    Agent(away, town.hub)
    town.wear(town.good)
    town.hub.write("away.yaml", pod("away", away, p.address, ("tls", 8443, 0), namespace="mesh"), service("away", ("http", 80, 8443), namespace="mesh"))
    where = "away.mesh.svc.cluster.local"
    town.addresses["away.mesh"] = wait_for("its name", lambda: town.node.address_of(where, f"@{town.node.gateway}"))
    town.policies(policy("ca", service="away"), config_map("ca", town.ca.cert))
    reply = wait_for("an answer", lambda: (lambda r: r if r.status == 200 else None)(town.ask("away")))
    assert reply.said["tls"]["sni"] == NAME and reply.said["pod"] == "away-pod"
    assert town.ask("away", http=2).said["tls"]["alpn"] == "h2"
    town.policies(policy("ca", service="away"), config_map("ca", town.other.cert))
    assert "not signed by the CA" in town.ask("away").text


def test_an_endpoint_without_tls(town):
    town.policies(policy("ca", service="echo-v1"), config_map("ca", town.ca.cert))
    reply = town.ask("echo-v1")
    assert reply.status == 504 and "TLS with its endpoint failed: no answer to the handshake in time" in reply.text


def test_cas_change_without_a_lost_request(town):
    """The order that a change of CAs wants: the ConfigMap has both, the endpoints change, the ConfigMap has the new one alone."""
    town.good_policy()
    new, over, failed, done = town.other.issue("new", SAN), threading.Event(), [], []

    def ask_on():
        while not over.is_set():
            reply = town.ask("secure")
            (done if reply.status == 200 else failed).append(reply)

    threads = [threading.Thread(target=ask_on) for _ in range(3)]
    for t in threads:
        t.start()
    town.policies(policy("ca"), config_map("ca", town.ca.cert, town.other.cert))
    town.wear(new)
    town.policies(policy("ca"), config_map("ca", town.other.cert))
    n = len(done)
    wait_for("requests with the new CA alone", lambda: len(done) > n + 20 or failed)
    over.set()
    for t in threads:
        t.join()
    assert not failed, failed[0]
    town.wear(town.good)
    town.policies(policy("ca"), config_map("ca", town.other.cert, town.other.cert))
    assert "not signed by the CA" in town.refused()


def test_no_ca_no_call(town):
    town.wear(town.good)
    town.policies(policy("nowhere"))
    before = len(town.seen())
    reply = town.ask("secure")
    assert reply.status == 503 and "ConfigMap mesh/nowhere does not exist" in reply.text and len(town.seen()) == before
    route_, = [r for r in town.hub.state()["hub"]["routes"] if r["kind"] == "BackendTLSPolicy"]
    assert (route_["accepted"], route_["resolved"]) == ("NoValidCACertificate", "InvalidCACertificateRef")
    town.policies(policy("nowhere"), config_map("nowhere", town.ca.cert))
    assert town.ask("secure").status == 200


def test_without_the_policy_it_is_plain_again(town):
    town.good_policy()
    assert town.ask("secure").status == 200
    town.policies()
    handshakes = town.count("handshakes")
    assert town.ask("secure").status == 502 and town.count("handshakes") == handshakes
    assert "BackendTLSPolicy" not in json.dumps(town.trace("secure"))


def test_one_port_alone(town):
    """A policy for a sectionName; its port is called https, and what comes from clients is HTTP."""
    town.wear(town.good)
    town.policies(policy("ca", section="https"), config_map("ca", town.ca.cert))
    assert town.ask("secure", port=443).said["tls"]["sni"] == NAME
    assert town.ask("secure", port=80).status == 502


def test_a_tcp_port(town):
    town.good_policy()
    with contextlib.closing(town.connect("secure", 9000).s) as s:
        wire = Wire(s)
        wire.put(b"GET /tcp HTTP/1.1\r\nHost: a\r\n\r\n")
        assert json.loads(wire.reply()[2])["tls"]["sni"] == NAME
        wire.put(b"GET /again HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert json.loads(wire.reply()[2])["path"] == "/again"
        with pytest.raises(ConnectionResetError):  # the endpoint says no close_notify
            s.recv(1)


def test_a_relay_s_end_that_may_be_a_truncation(town):
    """The client gets all that the endpoint sent, and no end."""
    town.good_policy()
    with contextlib.closing(town.connect("secure", 9000).s) as s:
        s.settimeout(20)
        s.sendall(b"POST /until-close HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2000000)
        got = b""
        with pytest.raises(ConnectionResetError):
            while more := s.recv(65536):
                got += more
        assert json.loads(got.partition(b"\r\n\r\n")[2])["body"] == "x" * 2000000


BANNER = """
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.maximum_version = ssl.TLSVersion[sys.argv[2]]
c.load_cert_chain(sys.argv[1] + "/tls.crt", sys.argv[1] + "/tls.key")
listener = socket.create_server(("", int(sys.argv[3])))
print("serving", flush=True)
while True:
    raw, _ = listener.accept()
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    s = c.wrap_bio(into, out, server_side=True)
    done = False
    while not done:
        try:
            s.do_handshake()
            s.write(b"220 hello\\r\\n")  # in one flight with the Finished of TLS 1.2
            done = True
        except ssl.SSLWantReadError:
            raw.sendall(out.read())
            got = raw.recv(65536)
            if not got:
                break
            into.write(got)
    if done and sys.argv[4] == "end":
        try:
            s.unwrap()
        except ssl.SSLError:
            pass
    raw.sendall(out.read())
    if sys.argv[4] == "end":
        raw.recv(1)
        raw.close()
"""


@pytest.mark.parametrize("version", ("TLSv1_2", "TLSv1_3"))
@pytest.mark.parametrize("then", ("wait", "end"))
def test_a_server_that_speaks_first(town, version, then):
    town.wear(town.good)
    port = 2500 + 2 * (version == "TLSv1_3") + (then == "end")
    p = town.pods["secure"].start(f"banner-{port}", PYTHON, "-c", BANNER, town.folder, version, str(port), then)
    p.logged("serving")
    name = f"banner-{port}"
    town.hub.write("banner.yaml", service(name, ("smtp", 25, port), selector="secure", namespace="mesh"))
    town.policies(policy("ca", service=name), config_map("ca", town.ca.cert))
    where = f"{name}.mesh.svc.cluster.local"
    town.addresses[f"{name}.mesh"] = wait_for(name, lambda: town.node.address_of(where, f"@{town.node.gateway}"))
    with contextlib.closing(town.connect(name, 25).s) as s:
        s.settimeout(20)
        assert s.recv(100) == b"220 hello\r\n"
        if then == "end":
            assert s.recv(100) == b""


def test_an_end_that_may_be_a_truncation(town):
    """A body that lasts until the connection ends, which the endpoint ends without close_notify (RFC 9112 section 9.8)."""
    town.good_policy()
    with contextlib.closing(town.connect("secure").s) as s:
        wire = Wire(s)
        wire.put(b"GET /until-close HTTP/1.1\r\nHost: a\r\n\r\n")
        assert wire.until().startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionResetError):
            while wire.more():
                pass


def test_a_client_with_tls_of_its_own(town):
    """It is the endpoint's peer, as without the policy."""
    town.good_policy()
    context = ssl.create_default_context(cafile=town.ca.cert)
    with context.wrap_socket(town.connect("secure", 80).s, server_hostname=NAME) as s:
        wire = Wire(s)
        wire.put(b"GET /own HTTP/1.1\r\nHost: a\r\n\r\n")
        assert json.loads(wire.reply()[2])["path"] == "/own"


def test_health_checks(town):
    def state():
        return {e["state"] for g in town.agent.state()["lb"]["endpoints"] if g["service"] == "mesh/checked" for e in g["endpoints"]}

    town.wear(town.good)
    town.policies(policy("ca", service="checked"), config_map("ca", town.ca.cert))
    assert town.ask("checked").status == 200
    wait_for("checks", lambda: town.agent.state()["lb"]["counters"]["checks"] > 3)
    assert state() == {"up"}
    town.policies(policy("ca", service="checked"), config_map("ca", town.other.cert))
    wait_for("ill", lambda: town.ask("checked").status == 502 and state() & {"ill", "ejected"})
    assert town.agent.process.logged("a health check took an endpoint out")


def test_a_server_of_http1_alone(town):
    town.good_policy()
    mark = os.path.join(town.folder, "no-h2")
    open(mark, "w").close()
    try:
        town.wear(town.ca.issue("old", SAN))
        town.policies(policy("ca", name="fresh"), config_map("ca", town.ca.cert))
        reply = town.ask("secure", http=2)
        assert reply.status == 502 and "HTTP/1" in reply.text
        assert town.ask("secure").said["tls"]["alpn"] == "http/1.1"
    finally:
        os.unlink(mark)


@pytest.mark.parametrize("http", (1, 2))
def test_mirrors(town, http):
    town.wear(town.good)
    town.hub.write("policies.yaml", policy("ca"), config_map("ca", town.ca.cert))
    mirror = {"filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "secure", "port": 80}}}]}
    town.routes(route("copy", {**to("echo-v1"), **mirror}))
    assert town.ask("echo", f"/copied/{http}", http=http).status == 200
    wait_for("the copy", lambda: any(s.startswith(f"GET /copied/{http} HTTP/{http}") for s in town.seen()))
    town.routes()
