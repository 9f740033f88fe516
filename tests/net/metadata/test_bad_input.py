"""What an operator or a stranger can do wrong: each is refused or survived, with words that name it."""
import os
import random
import stat
import subprocess
import time

import pytest

from lab import HERE, HUB_ADDRESS, HUB_PORT, BARE_PYTHON, Agent, Node, service, wait_for

NAME = "edge-nginx.default.svc.cluster.local"


@pytest.fixture(scope="module")
def spare(mesh):
    """A third node without an agent of its own."""
    return Node(mesh.lab, "edge-3", "192.0.2.13")


def agent_file(node, text):
    path = os.path.join(node.dir, "agent.yaml")
    with open(path, "w") as f:
        f.write(text)
    return path


def test_unknown_key(mesh, spare):
    path = agent_file(spare, "node: edge-3\ndns:\n  ttl: 30\n  tll: 30\n")
    p = spare.run(mesh.lab.program("edgeway-agent"), "--config", path, "--check", check=False)
    assert p.returncode == 2
    assert f"{path}:4" in p.stderr and "tll" in p.stderr


@pytest.mark.parametrize("line, line_number", [("  ttl: soon", 2), ("  ttl: -1", 2), ("  port: 70000", 2)])
def test_wrong_value(mesh, spare, line, line_number):
    path = agent_file(spare, f"dns:\n{line}\n")
    p = spare.run(mesh.lab.program("edgeway-agent"), "--config", path, "--check", check=False)
    assert p.returncode == 2
    assert f"{path}:{line_number}" in p.stderr


@pytest.mark.parametrize("option", [("--dns.tll", "3"), ("--dns.ttl", "x"), ("--mesh.subnet", "9.251.0.0/33"),
                                    ("--drainTimeout", "10")])
def test_wrong_flag(mesh, spare, option):
    for program in ("edgeway-agent", "edgeway-hub") if option[0] == "--drainTimeout" else ("edgeway-agent",):
        p = spare.run(mesh.lab.program(program), *option, "--check", check=False)
        assert p.returncode == 2 and option[0].lstrip("-") in p.stderr


def test_wrong_variable(mesh, spare):
    env = {**os.environ, "EDGEWAY_DNS_TTL": "x", "EDGEWAY_SERVICE_HOST": "10.96.0.7"}
    p = spare.run(mesh.lab.program("edgeway-agent"), "--check", check=False, env=env)
    assert p.returncode == 2 and "EDGEWAY_DNS_TTL" in p.stderr
    env["EDGEWAY_DNS_TTL"] = "60"
    assert spare.run(mesh.lab.program("edgeway-agent"), "--check", "--hub.url", "wss://hub", "--hub.token", "0" * 64 + ".b", check=False, env=env).returncode == 0


def test_a_first_start_that_cannot_write(mesh, spare):
    """Nothing was there before: it is not taken for a CA that is gone."""
    data = os.path.join(spare.dir, "read-only")
    os.mkdir(data)
    spare.run("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", data)
    p = spare.run(mesh.lab.program("edgeway-hub"), "--dataDir", data, "--source.manifests", spare.dir, "--admin.listen", "", "--admin.socket", "",
                  "--ingress.http", "", check=False)
    spare.run("umount", data)
    assert p.returncode != 0 and f"dataDir cannot be written: cannot write {data}/ca.key: Read-only file system" in p.stderr


def test_version_and_help(mesh, spare):
    for program in ("edgeway-agent", "edgeway-hub", "edgewayctl"):
        assert "0.1.0" in spare.run(mesh.lab.program(program), "--version").stdout
        said = spare.run(mesh.lab.program(program), "--help").stdout
        assert "--" in said and spare.run(mesh.lab.program(program), "-h").stdout == said


def test_neither_ca_nor_token(mesh, spare):
    """It serves what it has, and refuses to connect: nothing unverified is ever accepted."""
    agent = Agent(spare, None, start=False)
    agent.start(ready=False)
    wait_for("refusal with the remedy", lambda: "edgewayctl token create" in agent.process.log())
    time.sleep(0.5)
    assert "edge-3" not in mesh.hub.process.log()
    assert agent.stop() == 0
    assert spare.clean()


def test_wrong_token(mesh, spare):
    right = mesh.hub.token()
    for wrong in ("0" * 64 + "." + right.split(".")[1], right.split(".")[0] + ".wrong"):
        agent = Agent(spare, token=wrong, start=False)
        agent.process = spare.start("agent", *agent.argv())
        wait_for("refusal in the log", lambda: "token" in agent.process.log() or "CA" in agent.process.log())
        assert mesh.client1.get("http://edge-nginx/")[0] == 200
        agent.stop()
        spare.run("rm", "-rf", agent.data)
    assert spare.clean()


def test_second_agent_on_the_same_folder(mesh):
    status, said = mesh.agent1.attempt("--admin.listen", "", "--admin.socket", "")
    assert status != 0 and mesh.agent1.data in said
    assert mesh.client1.get("http://edge-nginx/")[0] == 200  # and the first one goes on
    assert mesh.node1.table().count("dnat to 172.17.0.1:40001") == 1


SQUAT = """
import os, socket, sys
os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.bind(chr(0) + "edgeway-agent")
s.listen()
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.9.251.1", 251))
except PermissionError:
    print("refused", flush=True)
sys.stdin.read()
"""


def test_one_agent_in_a_network_namespace(mesh, spare):
    """Whatever its folder; no other user can keep the first one from starting."""
    squatter = subprocess.Popen(spare.argv(*BARE_PYTHON, "-c", SQUAT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert squatter.stdout.readline() == "refused\n"
        agent = Agent(spare, mesh.hub)
    finally:
        squatter.communicate("")
    other = Agent(spare, mesh.hub, "--dataDir", agent.data + "-other", "--admin.listen", "", "--admin.socket", "", start=False)
    status, said = other.attempt()
    assert status == 1 and f"edgeway-agent (pid {agent.process.pid}); stop it" in said
    assert agent.ready() and agent.stop() == 0
    spare.run("rm", "-rf", agent.data, agent.data + "-other")
    assert spare.clean()


def test_port_in_use(mesh, spare):
    """It serves at another one, and says who has its port."""
    holder = spare.start("holder", *BARE_PYTHON, os.path.join(HERE, "backend.py"), "--name", "holder", "--tcp", "40001")
    wait_for("holder", lambda: "serving" in holder.log())
    agent = Agent(spare, mesh.hub)
    try:
        assert agent.process.logged("mesh.listenPort 40001 is held by ")  # whose it is a root of fewer rights may not see
        ctl = spare.run(agent.lab.program("edgewayctl"), "--socket", agent.socket, "doctor", check=False).stdout
        assert f"tcp 40001: python3 (pid {holder.pid})" in ctl
        assert not agent.state()["lb"]["listen"].endswith(":40001")
        assert spare.get(f"http://{spare.address_of(NAME, '@' + spare.gateway)}/")[0] == 200
    finally:
        agent.stop()
        holder.kill()
        spare.run("rm", "-rf", agent.data)
    assert spare.clean()


def test_port_is_kept_from_client_connections(mesh):
    reserved = mesh.node1.run("sysctl", "-n", "net.ipv4.ip_local_reserved_ports").stdout
    assert reserved.strip() == "40001"


def test_no_docker0_yet(mesh):
    node = Node(mesh.lab, "edge-4", "192.0.2.14", bridge=False)
    agent = Agent(node, mesh.hub, start=False)
    agent.process = node.start("agent", *agent.argv())
    wait_for("the agent says that it waits", lambda: "docker0" in agent.process.log())
    assert agent.process.alive() and agent.ask("/healthz")[0] == 200 and agent.ask("/readyz")[0] != 200
    assert node.resolv() == node.original
    node.add_bridge()
    agent.wait_ready(5)
    client = node.pod("client")
    wait_for("call", lambda: client.get("http://edge-nginx.default.svc.cluster.local/")[0] == 200)
    # ... and goes again, and comes with another address
    node.run("ip", "link", "del", "docker0")
    wait_for("not ready", lambda: agent.ask("/readyz")[0] != 200)
    node.run("ip", "link", "add", "docker0", "type", "bridge")
    node.run("ip", "addr", "add", "172.18.0.1/16", "dev", "docker0")
    node.run("ip", "link", "set", "docker0", "up")
    agent.wait_ready(5)
    wait_for("DNS at the new address", lambda: node.dns(NAME, server="172.18.0.1")[0] == "NOERROR")
    wait_for("resolv.conf follows", lambda: b"172.18.0.1" in node.resolv() and b"172.17.0.1" not in node.resolv())
    assert node.get("http://edge-nginx/")[0] == 200
    assert agent.stop() == 0
    assert node.clean()


def test_no_permission(mesh, spare):
    agent = Agent(spare, mesh.hub, start=False)
    process = spare.start("unprivileged", "capsh", "--drop=cap_net_admin", "--", "-c",
                          " ".join(f"'{a}'" for a in agent.argv()))
    try:
        wait_for("the log names the capability", lambda: "CAP_NET_ADMIN" in process.log())
    finally:
        process.kill()
        spare.run("rm", "-rf", agent.data)
        with open(spare.resolv_conf, "wb") as f:
            f.write(spare.original)


def test_manifest_with_an_error(mesh):
    mesh.hub.write("broken.yaml", "apiVersion: v1\nkind: Service\nmetadata:\n  name: [broken\n")
    wait_for("complaint with file and line", lambda: "broken.yaml:" in mesh.hub.process.log())
    mesh.hub.write("fine.yaml", service("fine", ("http", 80, 8080), selector="web"))
    wait_for("the others load", lambda: mesh.client1.get("http://fine/")[0] == 200)
    # a file that was good keeps its last good content
    mesh.hub.write("fine.yaml", "kind: {")
    wait_for("complaint", lambda: "fine.yaml:" in mesh.hub.process.log())
    assert mesh.client1.get("http://fine/")[0] == 200
    mesh.hub.delete("broken.yaml")
    mesh.hub.delete("fine.yaml")


def test_object_with_an_error(mesh):
    """One object is wrong, the others of the same file load."""
    wrong = service("wrong", ("http", 80, 8080), selector="web")
    wrong["spec"]["ports"][0]["port"] = 99999
    mesh.hub.write("mixed.yaml", wrong, service("mixed", ("http", 80, 8080), selector="web"))
    wait_for("the other loads", lambda: mesh.client1.get("http://mixed/")[0] == 200)
    wait_for("complaint", lambda: "mixed.yaml:" in mesh.hub.process.log())
    assert mesh.client1.dns("wrong.default.svc.cluster.local")[0] == "NXDOMAIN"
    mesh.hub.delete("mixed.yaml")


GARBAGE = [b"", b"\0" * 64, b"\xff" * 4096, b"GET", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
           b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"A" * 600, b"A" * 100000,
           b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
           b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 5000 + b"\r\n"]
SPRAY = """
import socket, sys, random, ast
kind, host, port, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
samples = ast.literal_eval(sys.stdin.read())
r = random.Random(seed)
samples += [r.randbytes(r.randrange(1, 2000)) for _ in range(100)]
for s in samples:
    try:
        if kind == "udp":
            u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.sendto(s[:1400], (host, port)); u.close()
            continue
        if kind == "unix":
            t = socket.socket(socket.AF_UNIX); t.settimeout(0.5); t.connect(host)
        else:
            t = socket.create_connection((host, port), 0.5)
        t.sendall(s)
        if r.random() < 0.5:
            t.shutdown(1)
            t.settimeout(0.05)
            t.recv(1000)
        t.close()
    except OSError:
        pass
"""


def spray(machine, kind, host, port=0):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    machine.run(*BARE_PYTHON, "-c", SPRAY, kind, host, port, seed, input=repr(GARBAGE), seconds=90)


def test_garbage_on_every_socket(mesh):
    spray(mesh.client1, "udp", "172.17.0.1", 53)
    spray(mesh.client1, "tcp", "172.17.0.1", 53)
    spray(mesh.client1, "tcp", "172.17.0.1", 40001)
    spray(mesh.client1, "tcp", mesh.client1.address_of(NAME), 80)
    spray(mesh.client1, "tcp", mesh.client1.address_of(NAME), 7000)
    spray(mesh.node1, "tcp", "127.0.0.1", 40002)
    spray(mesh.node1, "unix", mesh.agent1.socket)
    spray(mesh.hub.machine, "unix", mesh.hub.socket)
    spray(mesh.node1, "tcp", HUB_ADDRESS, HUB_PORT)
    assert mesh.agent1.process.alive() and mesh.hub.process.alive()
    assert mesh.client1.get("http://edge-nginx/")[0] == 200
    assert mesh.client1.dns(NAME)[0] == "NOERROR"
    mesh.hub.write("alive.yaml", service("alive", ("http", 80, 8080), selector="web"))
    wait_for("the hub still serves", lambda: mesh.client1.get("http://alive/")[0] == 200)
    mesh.hub.delete("alive.yaml")


def test_secrets_are_private(mesh):
    for folder in (mesh.agent1.data, os.path.join(mesh.hub.machine.dir, "data")):
        for top, _, files in os.walk(folder):
            for f in files:
                mode = stat.S_IMODE(os.stat(os.path.join(top, f)).st_mode)
                assert not (f.endswith(".key") or "key" in f) or mode & 0o077 == 0, f
    assert mesh.hub.token().split(".")[1] not in mesh.hub.process.log()
    assert stat.S_IMODE(os.stat(mesh.hub.socket).st_mode) & 0o077 == 0


def test_reload(mesh, spare):
    path = agent_file(spare, "log: {level: info}\ndns: {ttl: 30}\n")
    agent = Agent(spare, None, "--config", path, start=False)
    agent.start(ready=False)
    wait_for("the agent", lambda: agent.ask("/healthz")[0] == 200)

    def hangup(text, words):
        agent_file(spare, text)
        agent.process.popen.send_signal(1)
        wait_for(words, lambda: words in agent.process.log())

    hangup("log: {level: debug}\ndns: {ttl: 31}\n", "a changed key waits for a restart key=dns.ttl")
    assert agent.process.logged("reloaded key=log.level")
    hangup("log: {level: loud}\n", "the configuration is not reloaded")
    assert agent.process.logged(f"{path}:1")
    assert agent.ask("/healthz")[0] == 200
    assert agent.stop() == 0
