"""A lab of edge nodes on one machine: network and mount namespaces, bridges, pods, our daemons.

    with Lab() as lab:                     # everything is gone at the end, also after a crash
        hub = Hub(lab)                     # in the machine "cloud", 192.0.2.1
        node = Node(lab, "edge-1", "192.0.2.11")
        agent = Agent(node, hub)
        pod = node.pod("web")              # behind the node's docker0, 172.17.0.2

A machine is a process that holds a network and a mount namespace with an /etc of its own; nothing has a name
in the machine that runs the tests, so that there is nothing to clean up once the processes are dead (they die with us).
Machines hang on one switch, 192.0.2.0/24. A pod's resolv.conf is copied from the node's, as Docker does it.
"""
import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time


HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PYTHON = "/usr/bin/python3"
BARE_PYTHON = (PYTHON, "-S")  # for what needs the standard library alone: starts in half the time
HUB_ADDRESS, HUB_PORT = "192.0.2.1", 10000
UPSTREAM_ADDRESS = "192.0.2.53"
FAKE = re.compile(r"^9\.251\.\d+\.\d+$")
# Dies with us. A preexec_fn would do that as well, but with one Python copies all its memory for each program that it starts.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
# How long anything waits for what must happen: not how fast it is, which depends on what else runs, but whether it hangs.
PATIENCE_S = 90
# What runs a program for an account of a machine that has no rights there.
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")


def built_with_seccomp():
    program = os.path.join(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"), "edgeway-agent")
    return "libseccomp" in subprocess.run(["objdump", "-p", program], text=True, stdout=subprocess.PIPE).stdout


def faketime(**settings):
    """What starts a program with another clock: settings of libfaketime, as FAKETIME="+1d"."""
    for path in glob.glob("/dev/shm/*faketime_s*"):  # left by who was killed: the next with that number would not start
        if not os.path.exists("/proc/" + path.rpartition("_")[2]):
            os.unlink(path)
    [library] = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    # The library is preloaded, a sanitizer wants to be the first of all; the order does not matter to either.
    asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
    return ["env", f"LD_PRELOAD={library}", f"ASAN_OPTIONS={asan}", *(f"{name}={value}" for name, value in settings.items())]


class Timeout(Exception):
    pass


def wait_for(what, condition, seconds=PATIENCE_S, pause=0.02):
    """Polls until condition() is true and returns its value; an exception counts as false and is told at the end."""
    end = time.monotonic() + max(seconds, PATIENCE_S)
    longest_pause = 5 * pause
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except Exception as e:  # noqa: the condition may fail in any way until it holds
            last = e
        if time.monotonic() > end:
            raise Timeout(f"{what}: not within {seconds} s; last: {last!r}")
        time.sleep(pause)
        pause = min(1.1 * pause, longest_pause)


class Process:
    def __init__(self, name, argv, log, **more):
        self.name, self.log_path = name, log
        with open(log, "ab") as out:
            self.popen = subprocess.Popen([*WITH_PARENT, *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, **more)

    @property
    def pid(self):
        return self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def logged(self, text):
        """Waits until it has said so: what a line tells of may be seen elsewhere a moment before the line is written."""
        try:
            return wait_for(f"{self.name} says {text!r}", lambda: text in self.log() or not self.alive()) and text in self.log()
        except Timeout as e:
            raise AssertionError(f"{e}; its log ends with:\n{self.log()[-3000:]}") from None

    def wait(self, seconds=PATIENCE_S):
        try:
            return self.popen.wait(max(seconds, PATIENCE_S))
        except subprocess.TimeoutExpired:
            raise Timeout(f"{self.name} (pid {self.pid}) still runs after {seconds} s:\n{self.log()[-3000:]}") from None

    def stop(self, sig=signal.SIGTERM, seconds=PATIENCE_S):
        if self.alive():
            self.popen.send_signal(sig)
        return self.wait(seconds)

    def kill(self):
        return self.stop(signal.SIGKILL)


class Dialogue:
    """A script in a machine that says one line for each line that it is given."""

    def __init__(self, machine, script, *args):
        self.popen = subprocess.Popen(machine.argv(*BARE_PYTHON, "-c", script, *map(str, args)), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)

    def ask(self, line=""):
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()
        return self.popen.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.popen.stdin.close()
        self.popen.wait(PATIENCE_S)


class Lab:
    def __init__(self):
        self.build = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
        self.dir = tempfile.mkdtemp(prefix=f"ew-{os.getpid()}-")
        self.processes, self.machines, self.closers = [], [], []
        self.etc = os.path.join(self.dir, "etc")  # this machine's, in each of ours
        os.mkdir(self.etc)
        self.switch = Machine(self, "switch", attach=False)
        self.switch.ip("link add net0 type bridge", "link set net0 up")
        self.ports = 0
        self.tried = set()  # system calls that a test makes a daemon try

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def copy_etc(self, to):
        """What lies in it is linked, to be read only; resolv.conf and hosts have lives of their own."""
        os.mkdir(to)
        for name in os.listdir("/etc"):
            if name not in ("resolv.conf", "hosts"):
                os.symlink(f"{self.etc}/{name}", f"{to}/{name}")
        for name, text in (("resolv.conf", ""), ("hosts", "127.0.0.1 localhost\n")):
            with open(os.path.join(to, name), "w") as f:
                f.write(text)

    def program(self, name):
        path = os.path.join(self.build, name)
        if not os.access(path, os.X_OK):
            raise RuntimeError(f"{path} is not built (top_builddir names the build folder)")
        return path

    def kill_strays(self):
        """What has left our process tree (containerd's shims) and still names this lab's folder."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if self.dir.encode() + b"/" in f.read() and int(pid) != os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass

    def close(self):
        for close in reversed(self.closers):
            close()
        self.closers = []
        for sig, seconds in ((signal.SIGTERM, 4), (signal.SIGKILL, 5)):
            alive = [p for p in self.processes if p.alive()]
            for p in alive:
                p.popen.send_signal(sig)
            for p in alive:
                try:
                    p.popen.wait(seconds)
                except subprocess.TimeoutExpired:
                    pass
        self.kill_strays()
        for m in self.machines:
            m.holder.kill()
            m.holder.wait()
        refused, steps = self.refused(), self.unexpected()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not refused, f"a system call is missing in base/os/sandbox_table.c, or nothing should have made it: {refused}"
        assert not steps, f"a state machine has a step that its table has not: {steps}"

    def unexpected(self):
        return [f"{p.name}: {line}" for p in self.processes for line in p.log().splitlines() if "an unexpected change of state" in line]

    def refused(self):
        """Lines of the daemons' logs that tell of refused system calls."""
        found = [(p.name, line, re.search(r"refused a system call .* call=(\w+)", line))
                 for p in self.processes for line in p.log().splitlines()]
        return [f"{name}: {line}" for name, line, refusal in found if refusal and refusal.group(1) not in self.tried]


class Machine:
    """A network and a mount namespace with its own /etc; attach: address on the switch."""

    def __init__(self, lab, name, attach=True, address=None):
        self.lab, self.name, self.address = lab, name, address
        self.dir = os.path.join(lab.dir, name)
        os.makedirs(self.dir)
        etc = os.path.join(self.dir, "etc")
        lab.copy_etc(etc)
        script = f"mount --bind -o ro /etc {lab.etc} && mount --bind {etc} /etc && ip link set lo up && echo ready && exec sleep infinity"
        self.holder = subprocess.Popen([*WITH_PARENT, "unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        lab.machines.append(self)
        if self.holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{name}: no namespaces (root is needed)")
        if attach:
            lab.ports += 1
            self.attach(lab.switch, f"port{lab.ports}", "net0", f"addr add {address}/24 dev eth0")

    @property
    def resolv_conf(self):
        """The file as the test sees it; inside the machine it is /etc/resolv.conf."""
        return os.path.join(self.dir, "etc", "resolv.conf")

    def attach(self, other, port, bridge, *lines):
        """Its eth0 leads to a bridge of another one; lines: more for ip."""
        other.ip(f"link add {port} type veth peer name eth0 netns {self.holder.pid}", f"link set {port} master {bridge} up")
        self.ip("link set eth0 up", *lines)

    def ip(self, *lines):
        """Commands of ip by one process."""
        self.run("ip", "-batch", "-", input="".join(f"{line}\n" for line in lines))

    def link(self, mine, other, its):
        self.run("ip", "link", "add", mine, "type", "veth", "peer", "name", its, "netns", str(other.holder.pid))

    def argv(self, *argv):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "-n", "--", *map(str, argv)]

    def run(self, *argv, seconds=PATIENCE_S, check=True, input=None, env=None):
        p = subprocess.run(self.argv(*argv), timeout=max(seconds, PATIENCE_S), input=input, text=True, env=env, errors="replace",
                           stdin=subprocess.DEVNULL if input is None else None,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if check and p.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(map(str, argv))}: status {p.returncode}\n{p.stdout}{p.stderr}")
        return p

    def start(self, name, *argv, env=None):
        argv, log = list(map(str, argv)), os.path.join(self.dir, f"{name}.log")
        p = Process(f"{self.name}/{name}", self.argv(*argv), log, env=env)
        self.lab.processes.append(p)
        return p

    def python(self, script, *args, seconds=PATIENCE_S):
        return self.run(*BARE_PYTHON, "-c", script, *args, seconds=seconds)

    # --- what a client does -------------------------------------------------------

    def get(self, url, *options, seconds=30):
        """(status, body) of an HTTP request; status 0 when there was none, body then says why."""
        p = self.run("curl", "-sS", "-m", seconds, "-w", "\n%{http_code}", *options, url, seconds=seconds + 5, check=False)
        body, _, status = p.stdout.rpartition("\n")
        return (int(status or 0), body if p.returncode == 0 else p.stderr.strip())

    def dns(self, name, rtype="A", *options, server=None):
        """(status, [answers], [authority]) as dig tells; None when nobody answered."""
        where = [f"@{server}"] if server else []
        p = self.run("dig", *where, "+tries=1", "+time=10", "-t", rtype, *options, name, check=False)
        status = re.search(r"status: (\w+)", p.stdout)
        if status is None:
            return None
        parts = {"ANSWER": [], "AUTHORITY": []}
        part = None
        for line in p.stdout.splitlines():
            m = re.match(r";; (\w+) SECTION:", line)
            if m:
                part = parts.get(m.group(1))
            elif line and not line.startswith(";") and part is not None:
                part.append(line.split(None, 4))
        return status.group(1), parts["ANSWER"], parts["AUTHORITY"]

    def address_of(self, name, *options):
        answer = self.dns(name, "A", *options)
        return answer[1][0][4] if answer and answer[1] else None

    def getent(self, name):
        """Through libc and resolv.conf with its search list, as a program does it."""
        return (self.run("getent", "ahostsv4", name, check=False).stdout.split() or [None])[0]

    def send(self, host, port, data, seconds=30):
        """What a TCP server answers until it closes or is silent; None when refused."""
        p = self.run(*BARE_PYTHON, os.path.join(HERE, "tcpsend.py"), host, port, data, seconds, seconds=seconds + 10, check=False)
        return p.stdout if p.returncode == 0 else None


class Pod(Machine):
    def __init__(self, node, name, address):
        super().__init__(node.lab, f"{node.name}.{name}", attach=False)
        self.node, self.address = node, address
        self.attach(node, f"veth{address.rsplit('.', 1)[1]}", node.bridge, f"addr add {address}/16 dev eth0", f"route add default via {node.gateway}")
        self.copy_resolv_conf()

    def copy_resolv_conf(self):
        with open(self.node.resolv_conf) as f:
            lines = [line for line in f if not re.match(r"nameserver\s+127\.", line)]
        with open(self.resolv_conf, "w") as f:
            f.writelines(lines)

    def serve(self, *options):
        """Backend that says who it is: options as in backend.py."""
        p = self.start("backend", *BARE_PYTHON, os.path.join(HERE, "backend.py"), "--name", self.name, *options)
        wait_for(f"backend of {self.name}", lambda: "serving" in p.log() or not p.alive())
        return p


class Node(Machine):
    """An edge node: docker0 with masquerading and published ports, as Docker sets them up."""
    bridge, gateway = "docker0", "172.17.0.1"

    def __init__(self, lab, name, address, bridge=True, upstream=UPSTREAM_ADDRESS, attach=True):
        super().__init__(lab, name, attach=attach, address=address)
        self.pods = 0
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.original = f"# of the node {name}\nnameserver {upstream}\nsearch lab.test\noptions timeout:2\n".encode()
        with open(self.resolv_conf, "wb") as f:
            f.write(self.original)
        if bridge:
            self.add_bridge()

    def add_bridge_link(self, name, gateway, bits):
        # With an address of its own, as Docker gives it: else it changes when a pod joins, and the others' ARP entries are wrong for a while.
        mac = "02:42:" + ":".join(f"{int(n):02x}" for n in gateway.split("."))
        self.ip(f"link add {name} address {mac} type bridge", f"addr add {gateway}/{bits} dev {name}", f"link set {name} up")

    def add_bridge(self):
        Node.add_bridge_link(self, self.bridge, self.gateway, 16)  # self may be a machine that is none
        self.run("nft", "-f", "-", input="""
            table ip lab {
                chain ports { }
                chain pre { type nat hook prerouting priority -100; fib daddr type local jump ports; }
                chain out { type nat hook output priority -100; ip daddr != 127.0.0.0/8 fib daddr type local jump ports; }
                chain post { type nat hook postrouting priority 100;
                    ip saddr 172.17.0.0/16 oifname != "docker0" masquerade; }
            }""")

    def pod(self, name):
        self.pods += 1
        return Pod(self, name, f"172.17.{(self.pods + 1) // 250}.{(self.pods + 1) % 250}")

    def publish(self, host_port, pod, port, protocol="tcp"):
        self.run("nft", "add", "rule", "ip", "lab", "ports", "iifname", "!=", self.bridge, protocol, "dport", host_port,
                 "dnat", "to", f"{pod.address}:{port}")

    def resolv(self):
        with open(self.resolv_conf, "rb") as f:
            return f.read()

    def table(self):
        """Rules of our table as nft prints them, without the elements of sets; "" when there is none."""
        return self.run("nft", "-t", "list", "table", "ip", "edgeway", check=False).stdout

    def route(self):
        return self.run("ip", "route", "show", "9.251.0.0/16").stdout

    def clean(self):
        """Is nothing of ours left on the host?"""
        return self.table() == "" and self.route() == "" and self.resolv() == self.original


class AdminSocket:
    """The administrative HTTP of a daemon through its Unix socket."""

    def ask(self, path, method="GET", seconds=PATIENCE_S):
        connection = http.client.HTTPConnection("localhost", timeout=seconds)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(seconds)
        connection.sock.connect(self.socket)
        connection.request(method, path, headers={"Connection": "close"})
        reply = connection.getresponse()
        body = reply.read().decode()
        connection.close()
        return reply.status, body

    def ready(self):
        return self.ask("/readyz")[0] == 200

    def state(self):
        return json.loads(self.ask("/debug/state")[1])

    def metrics(self):
        """Each sample is there once, and so is what describes it (promtool check metrics)."""
        found, described = {}, []
        for line in self.ask("/metrics")[1].splitlines():
            if line.startswith("# TYPE "):
                described.append(line.split()[2])
            elif line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                assert name not in found, f"{name} twice"
                found[name] = float(value)
        assert len(described) == len(set(described)), [d for d in described if described.count(d) > 1]
        return found

    def counted(self, name):
        """A counter of an agent's proxy."""
        return self.state()["lb"]["counters"][name]


class Hub(AdminSocket):
    def __init__(self, lab, *options, before=(), name="cloud", address=HUB_ADDRESS):
        """before: a command that starts the hub, ("prlimit", "--nofile=256")."""
        self.before, self.address = before, address
        self.machine = Machine(lab, name, address=address)
        self.lab, self.options = lab, options
        self.manifests = os.path.join(self.machine.dir, "manifests")
        self.socket = os.path.join(self.machine.dir, "hub.sock")
        os.makedirs(self.manifests)
        self.start()

    def start(self):
        self.process = self.machine.start(
            "hub", *self.before, self.lab.program("edgeway-hub"), "--listen", f"{self.address}:{HUB_PORT}",
            "--source.manifests", self.manifests, "--dataDir", os.path.join(self.machine.dir, "data"),
            "--admin.listen", "", "--admin.socket", self.socket, "--ingress.http", "", *self.options)
        wait_for("hub healthy", lambda: self.process.alive() and self.ask("/healthz")[0] == 200)

    def write(self, name, *objects):
        """Puts a manifest into the folder; text as it is, objects as JSON documents of one YAML stream."""
        self.prepare(name, *objects)()

    def prepare(self, name, *objects):
        """The same, but for the rename: call what it returns."""
        text = "---\n".join(o if isinstance(o, str) else json.dumps(o, indent=1) + "\n" for o in objects)
        hidden = os.path.join(self.machine.dir, name + ".new")
        with open(hidden, "w") as f:
            f.write(text)
        return lambda: os.rename(hidden, os.path.join(self.manifests, name))

    def delete(self, name):
        os.unlink(os.path.join(self.manifests, name))

    def token(self, *options):
        p = self.machine.run(self.lab.program("edgewayctl"), "--socket", self.socket, "token", "create", *options)
        return p.stdout.strip().splitlines()[-1]


class Agent(AdminSocket):
    def __init__(self, node, hub=None, *options, start=True, token=None):
        self.node, self.lab, self.options = node, node.lab, options
        self.data = os.path.join(node.dir, "data")
        self.socket = os.path.join(node.dir, "agent.sock")
        self.token = token if token is not None or hub is None else hub.token("--node", node.name)
        self.process = None
        if start:
            self.start()

    def argv(self, *options):
        return [self.lab.program("edgeway-agent"), "--node", self.node.name, "--dataDir", self.data,
                "--hub.url", f"wss://{HUB_ADDRESS}:{HUB_PORT}", "--hub.token", self.token or "",
                "--admin.socket", self.socket, "--admin.listen", "127.0.0.1:40002", *self.options, *options]

    def start(self, *options, ready=True, seconds=PATIENCE_S):
        self.process = self.node.start("agent", *self.argv(*options))
        if ready:
            self.wait_ready(seconds)
        return self

    def wait_ready(self, seconds=PATIENCE_S):
        def check():
            if not self.process.alive():
                raise RuntimeError(f"agent ended with {self.process.popen.returncode}:\n{self.process.log()[-2000:]}")
            return self.ready()
        wait_for(f"agent of {self.node.name} ready", check, seconds)

    def attempt(self, *options, seconds=PATIENCE_S):
        """Runs an agent that should end by itself: (status, output)."""
        p = self.node.run(*self.argv(*options), seconds=seconds, check=False)
        return p.returncode, p.stdout + p.stderr

    def stop(self):
        return self.process.stop()


def upstream(lab, *records):
    """A real dnsmasq as the world's DNS: records as NAME/ADDRESS."""
    machine = Machine(lab, "dns", address=UPSTREAM_ADDRESS)
    machine.process = machine.start(
        "dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
        "--log-facility=-", "--log-queries", "--bind-interfaces", f"--listen-address={UPSTREAM_ADDRESS}",
        "--conf-file=/dev/null", "--local=/test/", *[f"--address=/{r}" for r in records])
    wait_for("dnsmasq", lambda: machine.dns("www.example.test", server=UPSTREAM_ADDRESS))
    return machine


# --- Kubernetes objects --------------------------------------------------------------


def service(name, *ports, selector=None, namespace="default", annotations=None, protocol="TCP", **spec):
    """ports: (name, port, targetPort)."""
    return {"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
            "spec": {"selector": {"app": selector or name}, **spec,
                     "ports": [{"name": n, "port": p, "targetPort": t, "protocol": protocol} for n, p, t in ports]}}


def pod(name, node, address, *ports, app=None, namespace="default", ready=True, host_network=False, protocol="TCP"):
    """ports: (name, containerPort, hostPort or 0); node: a Node or (name, hostIP)."""
    node_name, host_ip = (node.name, node.address) if isinstance(node, Machine) else node
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": app or name}},
            "spec": {"nodeName": node_name, "hostNetwork": host_network, "containers": [{
                "name": "main", "image": "lab", "ports": [
                    {"name": n, "containerPort": c, "protocol": protocol, **({"hostPort": h} if h else {})}
                    for n, c, h in ports]}]},
            "status": {"phase": "Running", "hostIP": host_ip, "podIP": address, "podIPs": [{"ip": address}],
                       "conditions": [condition]}}


def endpoint_slice(name, service_name, port, *addresses, namespace="default", port_name=""):
    """Bare addresses, no pods behind them; port: (name, number)."""
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "namespace": namespace,
                         "labels": {"kubernetes.io/service-name": service_name}},
            "ports": [{"name": port_name, "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [a], "conditions": {"ready": True}} for a in addresses]}


if __name__ == "__main__":
    print(__doc__, file=sys.stderr)
