"""edgewayctl where one request is looked at: trace of every protocol and of addresses, requests as they go, who may call whom, a node's
agent asked through the hub, and the archive for a bug report."""
import json
import os
import re
import socketserver
import tarfile
import threading

import pytest

from fixtures import Mesh
from lab import PYTHON, BARE_PYTHON, endpoint_slice, pod, service, wait_for
from test_ctl import Ctl, rows

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


ACCESS = """[{from: 192.0.2.53, to: ["edge-1:10250", "shop/*:8000"]}, {from: "cert:ops", to: ["*"]}]"""


@pytest.fixture(scope="module")
def mesh(lab):
    made = Mesh(lab, "--access", ACCESS)
    yield made
    for daemon in (made.agent1, made.agent2, made.hub):
        print(f"--- log\n{daemon.process.log()[-4000:]}")


@pytest.fixture(scope="module")
def agent(mesh):
    return Ctl(mesh, mesh.agent1, mesh.node1)


@pytest.fixture(scope="module")
def hub(mesh):
    return Ctl(mesh, mesh.hub, mesh.hub.machine)


def traced(ctl, *words):
    return json.loads(ctl.run("-o", "json", "trace", *words, check=False).stdout)


def test_trace_says_who_answered(mesh, agent):
    data = traced(agent, "http://web.shop:8000/")
    answered, endpoints = data["answered"], {e["address"]: e for e in data["endpoints"]}
    assert data["status"] == 200 and answered["by"] == "proxy" and answered["attempts"] == 0
    one = endpoints[answered["endpoint"]]
    assert (answered["node"], answered["tier"]) == (one["node"], one["tier"])
    assert re.fullmatch(r"least-request among [1-4] of tier \w+", answered["why"])
    said = agent("trace", "web.shop:8000")
    assert re.search(r"^endpoint  [\d.]+:\d+ on edge-[12]: least-request among", said, re.M)
    none = traced(agent, "http://empty/")
    assert none["status"] == 503 and none["answered"]["endpoint"] == "" and "no endpoint" in none["answered"]["why"]


def test_trace_of_tcp(mesh, agent):
    data = traced(agent, "tcp://edge-nginx:7000")
    assert data["error"] == "" and "the server speaks first" in data["said"] and data["bytes"] > 0
    assert data["answered"]["endpoint"] in {e["address"] for e in data["endpoints"]}
    dead = traced(agent, "tcp://empty:7000")
    assert "closed" in dead["error"] or "reset" in dead["error"]
    assert dead["answered"]["endpoint"] == "" and dead["answered"]["why"] == "no endpoint could be connected to"
    assert agent.run("trace", "tcp://edge-nginx", check=False).stderr == 'edgewayctl: a port is missing: "tcp://edge-nginx"\n'


@pytest.fixture(scope="module")
def others(mesh):
    """A service of UDP and one of gRPC, both on the second node."""
    slices = [endpoint_slice(f"{name}-1", name, port, mesh.node2.address) for name, port in (("echo", 7007), ("rpc", 7008))]
    slices[0]["ports"][0]["protocol"] = "UDP"
    slices[1]["ports"] = [{"name": name, "port": 7008, "protocol": "TCP"} for name in ("grpc", "tcp-grpc")]
    mesh.hub.write("others.yaml", service("echo", ("", 7, 7007), selector="none", protocol="UDP"), slices[0],
                   service("rpc", ("grpc", 9000, 7008), ("tcp-grpc", 9001, 7008), selector="none"), slices[1])

    udp = mesh.node2.start("echo", *BARE_PYTHON, os.path.join(HERE, "backend.py"), "--name", "udp", "--udp", "7007")
    rpc = mesh.node2.start("rpc", PYTHON, os.path.join(HERE, "grpc_peer.py"), "server", "rpc", "7008")
    wait_for("both serve", lambda: "serving" in udp.log() and "serving" in rpc.log())
    wait_for("both names", lambda: all(mesh.client1.address_of(f"{n}.default.svc.cluster.local") for n in ("echo", "rpc")))
    yield
    udp.stop()
    rpc.stop()
    mesh.hub.delete("others.yaml")


def test_trace_of_udp(mesh, agent, others):
    data = traced(agent, "udp://echo:7")
    assert data["said"] == "an answer came" and data["bytes"] > 0 and "the kernel draws one endpoint" in data["rule"]
    assert data["answered"]["by"] == "kernel" and data["answered"]["endpoint"] == f"{mesh.node2.address}:7007" and data["answered"]["replied"]
    # A port of another protocol is none.
    assert traced(agent, "tcp://echo:7")["rule"] == "the service has no TCP port 7: refused"


def test_trace_of_grpc(mesh, agent, others):
    """By the proxy, which speaks HTTP/2 itself, and by a relay."""
    for port in (9000, 9001):
        data = traced(agent, f"grpc://rpc:{port}")
        assert data["error"] == "" and data["said"] == "a server of gRPC answered: SERVING"
        assert data["answered"]["endpoint"] == f"{mesh.node2.address}:7008"
    assert "UNAVAILABLE" in traced(agent, "grpc://edge-nginx:80")["error"]  # a server of HTTP/1
    assert "UNAVAILABLE" in traced(agent, "grpc://empty:80")["error"]


def test_trace_of_addresses(mesh, agent):
    """A fake IP is known as what it is; so is a ClusterIP, and what belongs to nobody."""
    address = mesh.client1.address_of("web.shop.svc.cluster.local")
    data = traced(agent, f"http://{address}:8000/")
    assert data["service"] == "shop/web" and data["status"] == 200 and "to the proxy" in data["rule"] and data["answered"]["endpoint"]
    mesh.hub.write("clustered.yaml", service("clustered", ("http", 80, "http"), selector="web", clusterIP="10.96.7.7"))
    mesh.node1.run("ip", "route", "add", "10.96.0.0/16", "dev", mesh.node1.bridge)
    wait_for("its ClusterIP is served", lambda: traced(agent, "10.96.7.7")["status"] == 200)
    assert traced(agent, "10.96.7.7")["service"] == "default/clustered"
    mesh.node1.run("ip", "route", "del", "10.96.0.0/16")
    mesh.hub.delete("clustered.yaml")
    free = traced(agent, "tcp://9.251.255.254:80")
    assert free["service"] == "" and free["rule"] == "an address of mesh.subnet that no service has now: refused" and free["error"]
    foreign = traced(agent, f"tcp://{mesh.node2.address}:30080")
    assert foreign["rule"] == "none of ours: it goes straight there" and foreign["answered"] == {}


def test_times_have_units(mesh, hub):
    for said, seconds in (("90m", 5400), ("1h", 3600), ("7d", 604800), ("77", 77), ("78s", 78)):
        hub("token", "create", "--ttl", said)
        assert mesh.hub.process.logged(f" ttl_s={seconds}\n")


def test_help_is_grouped(hub):
    groups = re.findall(r"^([A-Z][^\n:]+)\n((?:  .*\n)+)", hub("--help"), re.M)
    assert len(groups) > 5 and groups[0][0] == "Find out what is wrong" and groups[-1][0] == "Options"
    assert all(re.match(r"  status ", lines) for title, lines in groups[:1]) and max(len(line) for _, lines in groups for line in lines.splitlines()) <= 100


# What must not leave the machine, planted where it could get into an archive.
SECRETS = {"proxy": "Pl4nted+Proxy", "variable": "Pl4nted-Variable", "header": "Pl4ntedHeader0001", "key": "UGw0bnRlZEtleQpl4nted0123456789",
           "file": "Pl4nted_In_File", "team": "Pl4nted-Team-Key"}


def members(archive):
    with tarfile.open(archive) as tar:
        return {m.name.split("/", 1)[1]: tar.extractfile(m).read().decode(errors="replace") for m in tar.getmembers()}


def test_bundle(mesh, agent):
    """One archive that any tar opens, with what the daemon and the machine say, and no secret, wherever it was."""
    node, token = mesh.node2, mesh.agent2.token
    config = os.path.join(node.dir, "bundled.yaml")
    with open(config, "w") as f:
        f.write(f"# key: |\n#   -----BEGIN EC PRIVATE KEY-----\n#   {SECRETS['key']}\n#   -----END EC PRIVATE KEY-----\n"
                f"hub:\n  token: {token}\n# password: {SECRETS['file']}\n")
    mesh.agent2.stop()
    before = mesh.agent2.options
    mesh.agent2.options = ("--config", config, "--hub.proxy", f"http://me:{SECRETS['proxy']}@192.0.2.99:3128", "--tracing.endpoint", "http://192.0.2.99:4318",
                           "--tracing.headers", f"Authorization=Bearer {SECRETS['header']},X-Team={SECRETS['team']}")
    os.environ["EDGEWAY_NOTHING_TOKEN"] = SECRETS["variable"]
    try:
        mesh.agent2.start()
    finally:
        del os.environ["EDGEWAY_NOTHING_TOKEN"]
    file = os.path.join(node.dir, "bundle.tar.gz")
    ctl = Ctl(mesh, mesh.agent2, node)
    said = json.loads(ctl("-o", "json", "bundle", file))
    assert said["file"] == file and oct(os.stat(file).st_mode & 0o777) == "0o600" and said["removed"] > 0
    found, listed = members(file), {m["member"]: m for m in said["members"]}
    assert {"about.txt", "config.yaml", "state.json", "services.json", "events.json", "streams.json", "metrics.txt", "doctor.json",
            "process/cmdline", "process/variables", "machine/nft", "machine/routes", "machine/resolv.conf"} <= set(found)
    assert json.loads(found["state.json"])["node"] == "edge-2" and json.loads(found["doctor.json"]) and "table ip edgeway" in found["machine/nft"]
    assert all(listed[name]["bytes"] == len(text.encode()) for name, text in found.items())
    # They were there to be found, and are gone.
    with open(f"/proc/{mesh.agent2.process.pid}/environ") as f:
        assert SECRETS["variable"] in f.read()
    assert "[removed]" in found["config.yaml"] and "[removed]" in found["process/variables"]
    everything = "\n".join(found.values())
    leaked = [name for name, secret in {**SECRETS, "token": token.split(".")[1]}.items() if secret in everything]
    assert leaked == []
    p = ctl.run("bundle", file, check=False)
    assert p.returncode == 1 and p.stderr == f"edgewayctl: cannot make {file}: File exists; give another FILE, or - for standard output\n"
    piped = os.path.join(node.dir, "piped.tar.gz")
    p = node.run("sh", "-c", f"exec {ctl.program} --socket {ctl.socket} bundle - > {piped}")
    assert set(members(piped)) >= {"state.json", "doctor.json"} and p.stderr.startswith("standard output: ") and p.stdout == ""
    mesh.agent2.stop()
    # It is of use when the daemon is down, too.
    down = os.path.join(node.dir, "down.tar.gz")
    said = ctl("bundle", down)
    assert re.search(r"^state.json +0 +cannot reach the daemon at ", said, re.M) and "look at it before you give it away" in said
    assert "machine/addresses" in members(down)
    mesh.agent2.options = before
    mesh.agent2.start()


def test_bundle_of_a_hub(mesh, hub):
    file = os.path.join(mesh.hub.machine.dir, "bundle.tar.gz")
    secret = mesh.hub.token("--node", "edge-9").split(".")[1]
    hub("bundle", file)
    found = members(file)
    assert {n["node"] for n in json.loads(found["nodes.json"])["nodes"]} >= {"edge-1", "edge-2"} and "edgeway_hub_info" in found["metrics.txt"]
    assert secret not in "\n".join(found.values()) and "PRIVATE KEY" not in "\n".join(found.values())


class Cutter(socketserver.ThreadingUnixStreamServer):
    """A daemon that ends within each answer but that of its state."""
    daemon_threads = True
    whole = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}"

    class RequestHandlerClass(socketserver.StreamRequestHandler):
        def handle(self):
            is_state = b" /debug/state " in self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            body = '{"program": "edgeway-agent", "node": "edge-1"}' if is_state else "edgeway_up 1\n" * 9
            reply = self.server.whole.format(len(body), body)
            self.wfile.write(reply[:None if is_state else self.server.sent].encode())

    def __init__(self, path, sent):
        super().__init__(path, self.RequestHandlerClass)
        self.sent = sent
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.mark.parametrize("sent", [0, 5, 60, 90, 100, 150, -1])
def test_an_answer_that_is_cut(mesh, sent):
    """It is taken for none: the daemon has ended, or given the connection's place to another one."""
    with Cutter(os.path.join(mesh.lab.dir, f"cutter{sent}.sock"), sent) as daemon:
        ctl = Ctl(mesh, mesh.agent1, mesh.node1)
        ctl.socket = daemon.server_address
        problem = "no whole answer from the daemon: it has ended the connection"
        p = ctl.run("metrics", check=False)
        assert p.returncode == 1 and p.stdout == "" and p.stderr.startswith(f"edgewayctl: {problem}"), p
        listed = {m["member"]: m for m in json.loads(ctl("-o", "json", "bundle", os.path.join(mesh.lab.dir, f"cut{sent}.tar.gz")))["members"]}
        assert listed["state.json"]["problem"] == "" and listed["metrics.txt"]["bytes"] == 0 and listed["metrics.txt"]["problem"].startswith(problem)
        daemon.shutdown()


class NodeCutter(Cutter):
    """A hub that passes on what a node answers, in chunks."""
    whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n"


def test_a_node_s_answer_that_is_cut(mesh):
    """Without its last chunk it is taken for none, however much of it has come."""
    for cut in (-1, -5, -30, None):
        with NodeCutter(os.path.join(mesh.lab.dir, f"node-cutter{cut}.sock"), cut) as daemon:
            ctl = Ctl(mesh, mesh.hub, mesh.hub.machine)
            ctl.socket = daemon.server_address
            p = ctl.run("--node", "edge-1", "metrics", check=False)
            if cut is None:
                assert p.returncode == 0 and p.stdout == "edgeway_up 1\n" * 9 and p.stderr == "", p
            else:
                assert p.returncode == 1 and p.stdout == "" and p.stderr.startswith("edgewayctl: no whole answer from the node"), p
            daemon.shutdown()


def judged(ctl, *words):
    """Exit status and the answer."""
    p = ctl.run("-o", "json", "access", "check", *words, check=False)
    return json.loads(p.stdout)


def test_access_check_at_the_hub(mesh, hub):
    """Which rule opens what, and that the answer is what a real call would get."""
    wait_for("tunnels", lambda: len(json.loads(hub("-o", "json", "tunnels"))) == 2)
    for caller, target, allowed, rule in (
            ("192.0.2.53", "edge-1:10250", True, "access, line 1: from 192.0.2.53 to edge-1:10250"),
            ("192.0.2.53", "edge-2:10250", False, "no rule of access opens this target to this caller"),
            ("192.0.2.54", "edge-1:10250", False, "no rule of access opens this target to this caller"),
            ("192.0.2.53", "shop/web:8000", True, "access, line 1: from 192.0.2.53 to shop/*:8000"),
            ("192.0.2.53", "web.shop.svc.cluster.local:8000", True, "access, line 1: from 192.0.2.53 to shop/*:8000"),
            ("cert:ops", "edge-2:22", True, "access, line 1: from cert:ops to *"),
            ("cert:dev", "edge-2:22", False, "no rule of access opens this target to this caller"),
            ("local", "edge-2:22", False, "no rule of access opens this target to this caller"),
            ("node:edge-1", "shop/web:8000", True, "no rule is for nodes: each may have the endpoints of all services"),
            ("node:edge-1", "edge-2:10250", False, "no rule of access opens this target to this caller"),
            ("192.0.2.53", "hub:web", False, "there is no rule of access for this target: only programs of the hub's host may"),
            ("local", "hub:web", True, "no rule says anything of this target: programs of the hub's host, and who was admitted by a listener's clientCA, may")):
        said = judged(hub, caller, target)
        assert (said["allowed"], said["rule"]) == (allowed, rule), (caller, target, said)
    said = judged(hub, "192.0.2.53", "edge-1:10250")
    assert said["target"] == "node edge-1 port 10250" and said["ways"] == [
        {"endpoint": "edge-1:10250", "node": "edge-1", "allowed": True, "why": "through the node's tunnel; its tunnel.allow is asked there"}]
    none = judged(hub, "cert:ops", "edge-7:22")
    assert not none["allowed"] and none["status"] == 404 and none["reason"].startswith("edge-7 is neither a node")
    assert hub.run("access", "check", "local", "edge-2:22", check=False).returncode == 1
    assert hub("access", "check", "cert:ops", "edge-2:22").splitlines()[:4] == [
        "from      cert:ops", "to        edge-2:22: node edge-2 port 22", "allowed", "rule      access, line 1: from cert:ops to *"]
    for words, why in ((("local",), "access check needs two: who calls, and whom"), (("somebody", "edge-1:1"), "FROM: expected an address, local, "),
                       (("local", "edge-1"), "TO: expected NODE:PORT, NAMESPACE/SERVICE:PORT, "), (("local", "edge-1:0"), "TO: expected NODE:PORT"),
                       (("local", "edge-1:70000"), "TO: expected NODE:PORT")):
        p = hub.run("access", "check", *words, check=False)
        assert p.returncode in (1, 2) and why in p.stderr and p.stdout == "", words


def test_access_check_at_the_node(mesh, agent):
    mesh.hub.write("callers.yaml", pod("caller", mesh.node1, mesh.client1.address, namespace="ops"),
                   service("closed", ("http", 80, "http"), selector="web", annotations={"edgeway.io/allow-from": "namespaces=ops"}))
    open_to_all = judged(agent, "node", "default/edge-nginx:80")
    assert open_to_all["allowed"] and open_to_all["rule"].startswith("none: ") and len(open_to_all["ways"]) == 4
    wait_for("the pod is known", lambda: judged(agent, "ops/caller", "default/closed")["allowed"])
    assert mesh.client1.get("http://closed/")[0] == 200
    assert judged(agent, mesh.client1.address, "closed.default:80")["rule"] == "edgeway.io/allow-from: namespaces=ops"
    said = judged(agent, "node", "default/closed")
    assert not said["allowed"] and said["reason"] == "edgeway.io/allow-from does not name this caller" and said["ways"] == []
    assert mesh.node1.get("http://closed/")[0] == 403
    for target, allowed, rule in (("edge-1:10250", True, "tunnel.allow: node:10250"), ("edge-1:22", False, ""),
                                  (f"{mesh.node1.gateway}:10255", True, "tunnel.allow: node:10255"),
                                  (f"{mesh.client1.address}:8080", True, "tunnel.allow: pods")):
        said = judged(agent, "hub", target)
        assert (said["allowed"], said["rule"]) == (allowed, rule), said
    assert judged(agent, "hub", "edge-1:22")["reason"] == "tunnel.allow does not name this target"
    for words, why in ((("node", "default/nobody"), 'this node knows no service "default/nobody"'), (("node", "x"), "TO: expected NAMESPACE/SERVICE"),
                       (("ops/nobody", "default/closed"), "FROM: expected node, NAMESPACE/POD or the address of a pod")):
        p = agent.run("access", "check", *words, check=False)
        assert p.returncode == 1 and why in p.stderr
    mesh.hub.delete("callers.yaml")


def refused(ctl, *words):
    p = ctl.run(*words, check=False)
    assert p.returncode == 1 and p.stdout == "", p.stdout
    return p.stderr


def test_a_node_is_asked_through_the_hub(mesh, hub):
    """What its admin port would tell, through its tunnel, where tunnel.allow says so; nothing that changes or that is the socket's alone."""
    wait_for("tunnels", lambda: len(json.loads(hub("-o", "json", "tunnels"))) == 2)
    assert hub("--node", "edge-1", "status").startswith("edge-1: ready, ")
    assert json.loads(hub("-o", "json", "--node", "edge-2", "state"))["node"] == "edge-2"
    assert "shop/web" in hub("--node", "edge-2", "services") and "edgeway_agent_info" in hub("--node", "edge-1", "metrics")
    assert "allowed" in hub("--node", "edge-1", "access", "check", "hub", "edge-1:10250")
    assert mesh.agent2.process.logged("the hub has asked this agent target=\"/debug/services\" status=200")
    assert mesh.hub.process.logged("door=admin caller=\"local\" target=\"agent of edge-2 /debug/services\"")
    assert "only on the agent's own Unix socket" in refused(hub, "--node", "edge-1", "events")
    assert "the agent has nothing of this name" in refused(hub, "--node", "edge-1", "tunnels")
    assert refused(hub, "--node", "edge-7", "status") == "edgewayctl: node edge-7: it has no tunnel to any hub now\n"
    for target in ("/debug/tap?id=x", "/log/level?level=debug", "/upgrade", "debug/state", "/debug/state%20x"):
        assert mesh.hub.ask(f"/nodes/ask?node=edge-1&target={target}", "POST")[0] in (400, 403, 404, 502), target
    assert mesh.hub.ask("/nodes/ask?node=edge-1&target=/debug/state")[0] == 405


def test_a_node_that_does_not_let_itself_be_asked(mesh, hub):
    mesh.agent2.stop()
    before = mesh.agent2.options
    mesh.agent2.options = ("--tunnel.allow", "node,pods,services")
    mesh.agent2.start()
    wait_for("its tunnel", lambda: "tunnel.allow of the node does not name agent" in refused(hub, "--node", "edge-2", "status"))
    mesh.agent2.stop()
    mesh.agent2.options = before
    mesh.agent2.start()


def test_tap(mesh, agent):
    """Requests and connections as they go, of one service, without their queries; and the look ends when nobody looks."""
    web, everything = [mesh.node1.start(f"tap-{i}", agent.program, "--socket", agent.socket, *words)
                       for i, words in enumerate((("tap", "shop/web"), ("-o", "json", "tap")))]
    wait_for("it looks", lambda: web.log().startswith("TIME"))

    def lines():
        return [json.loads(line) for line in everything.log().splitlines()]

    def asked():  # until the workers have been told
        mesh.client1.get("http://web.shop:8000/seen?token=secret")
        return [r for r in lines() if r.get("request") == "GET /seen"]
    one = wait_for("a request", asked)[0]
    assert one["service"] == "shop/web" and one["port"] == 8000 and one["status"] == 200 and one["client"].startswith(mesh.client1.address)
    assert one["endpoint"] and one["node"] in ("edge-1", "edge-2") and one["attempts"] == 0 and one["total_ms"] > 0
    mesh.client1.get("http://empty/none")
    mesh.client1.send("edge-nginx", 7000, "x")
    wait_for("those of others", lambda: {"default/empty", "default/edge-nginx"} <= {r.get("service") for r in lines()})
    assert [r["status"] for r in lines() if r.get("request") == "GET /none"] == [503]
    wait_for("both ends of a connection", lambda: {"open", "done"} <= {r["state"] for r in lines() if r.get("service") == "default/edge-nginx"})
    wait_for("a line", lambda: re.search(r"shop/web +[\d.]+:\d+ +200  --  +[\d.]+ ms  GET /seen$", web.log(), re.M))
    assert "secret" not in web.log() + everything.log() and "default/" not in web.log()
    for p in (web, everything):
        p.stop()
    p = mesh.hub.machine.run(agent.program, "--socket", mesh.hub.socket, "tap", check=False)
    assert p.returncode == 1 and "does not know the command" in p.stderr
