"""kubectl logs, exec, attach, port-forward and cp of a pod at the edge: the real kubectl, an API server that does what kube-apiserver
does, the hub's egress over mutual TLS and over a Unix socket, the node's tunnel, and a kubelet.
"""
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading

import pytest

import tunnelkit
from dnskit import socket_in
from ingress_town import start_kubelet
from kube import ApiServer, KubeHub, node_object
from lab import HUB_ADDRESS, PATIENCE_S, PYTHON, Agent, Lab, Node, pod, wait_for
from pki import Authority

pytestmark = pytest.mark.plain_build  # a real kubectl; test_kubelet_doors has the same streams

as_before = tunnelkit.as_before
PORT, WAYS = 8131, ("tls", "unix")
POD = "web-1"


def editions():
    """What this kubectl speaks for exec, attach and port-forward; Debian's speaks SPDY alone (test_kubelet_doors.py has both)."""
    shown = subprocess.run(["kubectl", "version", "--client", "-o", "json"], check=True, stdout=subprocess.PIPE).stdout
    minor = re.match(r"\d+", json.loads(shown)["clientVersion"]["minor"]).group()
    return ("spdy", "websocket") if int(minor) >= 31 else ("spdy",)


class Cluster(tunnelkit.Site):
    """Two nodes with a kubelet each; the second has no address in the API, so that it is dialled by its name."""

    def __init__(self, lab, way):
        self.lab, self.way, self.dir = lab, way, os.path.join(lab.dir, "kubectl")
        os.makedirs(self.dir)
        ca, self.kubelet_ca = Authority(self.dir), Authority(self.dir, "kubelets")
        cert, key = ca.issue("hub", f"subjectAltName=IP:{HUB_ADDRESS}")
        client_cert, client_key = ca.issue("kube-apiserver", "extendedKeyUsage=clientAuth")
        path = os.path.join(self.dir, "egress.sock")
        listen = f"listen: 'unix:{path}'" if way == "unix" else f"listen: '{HUB_ADDRESS}:{PORT}', cert: {cert}, key: {key}, clientCA: {ca.cert}"
        self.api = ApiServer(lab)
        self.hub = KubeHub(lab, self.api, "--ingress.egress", f"{{{listen}}}", "--access", "[{from: local, to: ['*']}, {from: 192.0.2.1, to: ['*']}, "
                           "{from: 'cert:kube-apiserver', to: ['*']}]")
        self.nodes = [Node(lab, "edge-1", "192.0.2.11"), Node(lab, "edge-2", "192.0.2.12")]
        self.agents = [Agent(n, self.hub, "--hub.heartbeat", "2s") for n in self.nodes]
        self.logs_of, self.kubelets, self.begun = {}, {}, []
        for n in self.nodes:
            self.logs_of[n.name] = os.path.join(self.dir, f"{n.name}.log")
            with open(self.logs_of[n.name], "w") as f:
                f.writelines(f"line {i}\n" for i in range(1, 11))
            self.kubelets[n.name] = start_kubelet(n, n.name, self.kubelet_ca, "--log", self.logs_of[n.name])
        self.backend(self.nodes[0], "web", "--http", "8080", "--tcp", "9090", "--bind", "127.0.0.1")
        cert, key = self.kubelet_ca.issue("apiserver-kubelet-client", "extendedKeyUsage=clientAuth")
        self.api.ctl("kubelets", kubelets={"ca": self.kubelet_ca.cert, "cert": cert, "key": key}, egress={
            "listen": f"unix:{path}" if way == "unix" else f"{HUB_ADDRESS}:{PORT}", **(
                {"ca": ca.cert, "cert": client_cert, "key": client_key} if way == "tls" else {})})
        nodes = [node_object(n) for n in self.nodes]
        nodes[1]["status"]["addresses"] = [{"type": "Hostname", "address": "edge-2"}]
        for n in nodes:
            self.api.ctl("put", group="", resource="nodes", obj=n)
        for i, n in enumerate(self.nodes, 1):
            obj = pod(f"web-{i}", n, f"172.17.0.{10 + i}", ("http", 8080, 0))
            obj["spec"]["containers"][0]["stdin"] = True
            self.api.ctl("put", group="", resource="pods", obj=obj)
        self.wait_open()
        wait_for("the API's way", lambda: self.kubectl("logs", "--tail=1", POD).stdout == b"line 10\n")
        self.api.ctl("forget_kubelets")

    def argv(self, *argv):
        return self.api.machine.argv(shutil.which("kubectl"), *argv)

    def env(self, edition):
        return {"PATH": os.environ["PATH"], "HOME": self.dir, "KUBECONFIG": os.path.join(self.api.dir, "admin.conf"),
                "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": str(edition == "websocket").lower(),
                "KUBECTL_PORT_FORWARD_WEBSOCKETS": str(edition == "websocket").lower()}

    def kubectl(self, *argv, edition="spdy", input=b"", seconds=PATIENCE_S):
        return subprocess.run(self.argv(*argv), input=input, timeout=seconds, env=self.env(edition), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def begin(self, *argv, edition="spdy", **streams):
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        self.begun.append(subprocess.Popen(self.argv(*argv), env=self.env(edition), start_new_session=True, **streams))
        return self.begun[-1]

    def told(self, node="edge-1"):
        """What the kubelet says from now on."""
        at = len(self.kubelets[node].log())
        return lambda: [line.strip() for line in self.kubelets[node].log()[at:].splitlines() if line.strip()]

    def append(self, text, node="edge-1"):
        with open(self.logs_of[node], "a") as f:
            f.write(text)


# What costs time and is not about the way to the hub.
over_tls = pytest.mark.parametrize("site", ["tls"], indirect=True)


@pytest.fixture(scope="module", params=WAYS)
def site(request):
    with Lab() as lab:
        made = Cluster(lab, request.param)
        yield made
        made.logs()
        for k in made.kubelets.values():
            print(f"--- kubelet\n{k.log()[-3000:]}")


@pytest.fixture(autouse=True)
def nothing_kept(as_before, site):
    """The API server keeps idle connections to kubelets, as the real one does for 90 s."""
    yield
    for p in site.begun:
        p.kill()
        p.wait()
    site.begun.clear()
    site.api.ctl("forget_kubelets")


@pytest.fixture(params=editions())
def edition(request):
    return request.param


def read_for(stream, until):
    """What comes until it ends so."""
    got = b""

    def more():
        nonlocal got
        if not select.select([stream], [], [], 0.1)[0]:
            return False
        data = os.read(stream if isinstance(stream, int) else stream.fileno(), 65536)
        if not data:
            raise AssertionError(f"ended after {got!r}")
        got += data
        return got.endswith(until)
    wait_for(f"{until!r}", more)
    return got


def stop(process):
    """Ctrl-C."""
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)


# --- logs ----------------------------------------------------------------------------------------------


def test_logs(site):
    with open(site.logs_of["edge-1"], "rb") as f:
        assert site.kubectl("logs", POD).stdout == f.read()
    assert site.kubectl("logs", "--tail=2", "web-2").stdout == b"line 9\nline 10\n"  # by its name, for it has no address


@over_tls
def test_long_logs(site):
    lines = "".join(f"a line of a long log, number {i}\n" for i in range(150000))
    site.append(lines, "edge-2")
    got = site.kubectl("logs", "web-2").stdout
    assert len(got) > 5 << 20 and hashlib.sha256(got).digest() == hashlib.sha256(
        b"".join(b"line %d\n" % i for i in range(1, 11)) + lines.encode()).digest()


def test_many_logs_on_one_connection(site):
    """A second request makes no CONNECT."""
    site.api.ctl("forget_kubelets")
    before = site.hub.metrics()["edgeway_ingress_requests_total"]
    for _ in range(5):
        assert site.kubectl("logs", "--tail=1", POD).returncode == 0
    assert site.hub.metrics()["edgeway_ingress_requests_total"] == before + 1


def test_follow_and_interrupt(site):
    """logs -f shows what is written meanwhile; Ctrl-C frees everything, down to the kubelet's connection."""
    told = site.told()
    following = [site.begin("logs", "-f", "--tail=1", POD) for _ in range(3)]
    last = open(site.logs_of["edge-1"]).read().splitlines()[-1].encode() + b"\n"
    for p in following:
        read_for(p.stdout, last)
    for i in range(3):
        site.append(f"new {i}\n")
        for p in following:
            read_for(p.stdout, b"new %d\n" % i)
    for p in following:
        stop(p)
    wait_for("the kubelet knows", lambda: told().count(f"end /containerLogs/default/{POD}/main gone") == 3)


@over_tls
def test_a_tunnel_cut_under_logs(site):
    """kubectl ends by itself; as soon as the tunnel is back the next request works."""
    following = site.begin("logs", "-f", "--tail=1", "web-2")
    assert following.stdout.readline()
    site.agents[1].process.kill()
    following.communicate(timeout=PATIENCE_S)
    wait_for("the hub knows", lambda: "edge-2" not in tunnelkit.tunnels(site.hub))
    failed = site.kubectl("logs", "--tail=1", "web-2")
    assert failed.returncode != 0 and b"while dialing edge-2:10250, code 503: 503 " in failed.stderr
    site.agents[1].start()
    site.wait_open("edge-2")
    assert site.kubectl("logs", "--tail=1", "web-2").returncode == 0


def test_the_node_proxy(site):
    assert site.kubectl("get", "--raw", "/api/v1/nodes/edge-1/proxy/bytes/200000").stdout == b"x" * 200000


# --- exec and attach -----------------------------------------------------------------------------------


def spoken(edition):
    """The version too: an older kubectl knows the fourth of the one, and only newer ones the other."""
    return ("websocket v5.channel.k8s.io",) if edition == "websocket" else ("SPDY/3.1 v4.channel.k8s.io", "SPDY/3.1 v5.channel.k8s.io")


def test_exec(site, edition):
    told = site.told()
    p = site.kubectl("exec", POD, "--", "sh", "-c", "echo out; echo err >&2; exit 7", edition=edition)
    assert (p.stdout, p.returncode) == (b"out\n", 7) and b"err\n" in p.stderr  # kubectl may say "Unknown stream id" first
    ends = {f"end /exec/default/{POD}/main exit 7 {words}" for words in spoken(edition)}
    wait_for("the kubelet's word", lambda: ends & set(told()))
    data = os.urandom(3 << 20)
    p = site.kubectl("exec", "-i", "web-2", "--", "sha256sum", edition=edition, input=data)
    assert p.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest() and p.returncode == 0


@over_tls
def test_exec_in_a_terminal(site, edition):
    """A window that changes its size tells so."""
    mine, its = pty.openpty()

    def resize(rows, columns):
        fcntl.ioctl(mine, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    resize(40, 100)
    p = site.begin("exec", "-it", POD, "--", "sh", "-c", "while read line; do stty size; done", edition=edition, stdin=its, stdout=its)
    os.close(its)
    shown = b""

    def size_shown(size):
        nonlocal shown
        os.write(mine, b"\n")
        while select.select([mine], [], [], 0.2)[0]:
            shown += os.read(mine, 65536)
        return size in shown
    wait_for("the size", lambda: size_shown(b"40 100"))
    resize(50, 120)
    p.send_signal(signal.SIGWINCH)
    wait_for("the other size", lambda: size_shown(b"50 120"))
    os.write(mine, b"\4")  # Ctrl-D ends the shell
    p.communicate(timeout=PATIENCE_S)
    os.close(mine)
    assert p.returncode == 0


def test_exec_that_its_caller_leaves(site, edition):
    """The command does not outlive kubectl."""
    told = site.told()
    p = site.begin("exec", "-i", POD, "--", "sh", "-c", "echo begun; sleep 600", edition=edition)
    read_for(p.stdout, b"begun\n")
    p.kill()
    p.communicate()
    wait_for("the kubelet knows", lambda: any(line.startswith("end /exec/") and " gone " in line for line in told()))


@over_tls
def test_idle_over_several_heartbeats(site, edition):
    p = site.begin("exec", "-i", POD, "--", "cat", edition=edition)
    p.stdin.write(b"before\n")
    p.stdin.flush()
    read_for(p.stdout, b"before\n")
    pings = lambda: sum(a.metrics()["edgeway_tunnel_pings_total"] for a in site.agents)  # noqa: the hub need not ask while nodes do
    before = pings()
    wait_for("heartbeats", lambda: pings() >= before + 3 * len(site.agents))
    out, _ = p.communicate(b"after\n", timeout=PATIENCE_S)
    assert out == b"after\n" and p.returncode == 0


@over_tls
def test_much_output_and_a_slow_caller(site, edition):
    """A hundred MB into a terminal that stands still: nobody on the way hoards it, others go on, and nothing is missing."""
    lines, size = 13000000, 100000000
    p = site.begin("exec", POD, "--", "sh", "-c", f"seq 1 {lines} | head -c {size}", edition=edition)
    first = p.stdout.read(1 << 20)
    before = site.hub.metrics()["edgeway_tunnel_stalls_total"]
    assert site.kubectl("exec", POD, "--", "echo", "meanwhile", edition=edition).stdout == b"meanwhile\n"
    held = tunnelkit.counted(site.hub)['edgeway_tunnel_memory_bytes{what="held"}']
    assert held < 40 << 20, (held, before)
    digest, n = hashlib.sha256(first), len(first)
    while data := p.stdout.read(1 << 20):
        digest.update(data)
        n += len(data)
    p.communicate()
    want = subprocess.run(["sh", "-c", f"seq 1 {lines} | head -c {size} | sha256sum"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert (n, digest.hexdigest(), p.returncode) == (size, want.split()[0], 0)


def test_attach(site, edition):
    p = site.begin("attach", "-i", POD, edition=edition)
    got = b""

    def said(line):  # what was typed before it was attached is not lost, but what was said may be
        nonlocal got
        p.stdin.write(line)
        p.stdin.flush()
        while select.select([p.stdout], [], [], 0.2)[0]:
            got += os.read(p.stdout.fileno(), 65536)
        return b"said " + line in got
    wait_for("an answer", lambda: said(b"hello\n"))
    stop(p)
    wait_for("in the log as well", lambda: b"said hello\n" in site.kubectl("logs", POD).stdout)


@over_tls
def test_copy(site, edition):
    here, there, back = (os.path.join(site.dir, f"{edition}-{name}") for name in ("here", "there", "back"))
    data = os.urandom(3 << 20)
    with open(here, "wb") as f:
        f.write(data)
    for source, target in ((here, f"{POD}:{there}"), (f"{POD}:{there}", back)):
        p = site.kubectl("cp", source, target, edition=edition)
        assert p.returncode == 0, p.stderr
    with open(back, "rb") as f:
        assert f.read() == data


# --- port-forward --------------------------------------------------------------------------------------


def test_port_forward(site, edition):
    told = site.told()
    p = site.begin("port-forward", f"pod/{POD}", ":9090", ":8080", ":1", edition=edition)
    ports = {}

    def forwarding():
        line = p.stdout.readline().decode()
        m = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> (\d+)", line)
        if m:
            ports[int(m.group(2))] = int(m.group(1))
        return len(ports) == 3
    wait_for("ports", forwarding)

    def talk(results, size):
        with socket_in(site.api.machine, socket.SOCK_STREAM, "127.0.0.1", ports[9090]) as s:
            s.settimeout(PATIENCE_S)
            data, got = os.urandom(size), b""
            writer = threading.Thread(target=s.sendall, args=(data,))
            writer.start()
            while len(got) < len(b"edge-1.web\n") + size:
                got += s.recv(1 << 18) or b"!" * size
            writer.join()
            results.append(got == b"edge-1.web\n" + data)
    results = []
    threads = [threading.Thread(target=talk, args=(results, size)) for size in (0, 1, 100000, 1000000)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 4
    assert site.api.machine.get(f"http://127.0.0.1:{ports[8080]}/bytes/300000", seconds=PATIENCE_S) == (200, "x" * 300000)
    with socket_in(site.api.machine, socket.SOCK_STREAM, "127.0.0.1", ports[1]) as s:  # nobody listens there
        s.settimeout(PATIENCE_S)
        try:
            assert s.recv(100) == b""
        except ConnectionError:
            pass
    stop(p)
    wait_for("the kubelet knows", lambda: any(line.startswith("end /portForward/") for line in told()))
