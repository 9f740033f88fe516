"""What the documents tell a reader to type, typed: every command line of README.md, doc/getting-started.md, doc/operations.md and
doc/migration.md is taken from there and run, in its order, on clean Debians: one that builds, the hub's machine and a node with a
Docker Engine, which systemd runs (booted.py), with the packages that the first one has built. Files that a document shows are
written as they stand there. STEPS says where each is done and what it prints; a line that has no step fails. Root; top_builddir
names the configured build.
"""
import glob
import os
import re
import shlex
import shutil
import tempfile
import time

import pytest
import yaml

from booted import HERE, Process, wait_for
from edge import Node
from tree import QUICKLY, run

TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
NET = os.path.join(TOP, "tests", "net")
PYTHON = "/usr/bin/python3"
DOCUMENTS = ["README.md", "doc/getting-started.md", "doc/operations.md", "doc/migration.md"]
APT = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n'
QUICK_BUILD = {**QUICKLY, "CFLAGS": "-O0 -g0 -U_FORTIFY_SOURCE", "MAKEFLAGS": f"-j{os.cpu_count()}"}
CLOUD, BARE, EDGE, ROUTER, WEB = "192.0.2.1", "192.0.2.2", "192.0.2.11", "192.0.2.254", "10.0.0.12"
# Green throughout, with one service.
STATUS_OF_THE_NODE = r"(?s)^edge-1: ready, edgeway-agent.*hub +connected.*services +1 known.*DNS +172\.17\.0\.1:53; .*resolv\.conf +ours\n.*rules +table ip edgeway installed"


class Step:
    """where: a machine; MACHINE& for a daemon; MACHINE:PATH for a file, MACHINE:+PATH for what is added to it; None: not done, and `why` not, but
    for `instead`, a command of the machine that runs the tests. text: the line, or the first line of the file; prints: a pattern. then(towns, output): what
    the text around it says."""

    def __init__(self, where, text, prints="", why=None, instead=None, then=None):
        self.where, self.text, self.prints, self.why, self.instead, self.then = where, text, prints, why, instead, then


def token_is_copied(towns, output):
    towns.write("edge", "/etc/edgeway/token", output.split()[-1] + "\n")
    os.chmod(towns.edge.path("/etc/edgeway/token"), 0o600)


def agent_is_restarted(towns, _):
    def tunnels():
        return towns.run("cloud", "edgewayctl tunnels")[1]
    former = re.search(r"edge-1 +open +(\S+)", tunnels()).group(1)
    towns.run("edge", "systemctl restart edgeway-agent")
    wait_for("its next tunnel", lambda: re.search(r"edge-1 +open", tunnels()) and former not in tunnels())


STEPS = {
    "README.md": [
        Step("bare", "./deploy/quickstart", r"done: +all \d+ steps did what they show"),
        Step(None, "./tests/run", why="runs this test", instead="./tests/run --help"),
    ],
    "doc/getting-started.md": [
        Step("source", "apt-get update"),
        Step("source", "apt-get install build-essential debhelper python3 systemd $(awk '$2 == \"build\" {print $1}' deploy/packages)"),
        Step("source", "autoreconf -fi && ./configure && make packages"),
        Step("source", "ls packages/", r"(?s)edgeway-agent_\S+\.deb.*edgeway-ctl_\S+\.deb.*edgeway-hub_\S+\.deb",
             then=lambda towns, _: towns.copy_packages()),
        Step("cloud", "apt-get update"),
        Step("cloud", "apt-get install ./packages/edgeway-hub_*.deb ./packages/edgeway-ctl_*.deb"),
        Step("cloud:/etc/edgeway/hub.yaml", "source:"),
        Step("cloud:/etc/edgeway/manifests/hello.yaml", "apiVersion: v1"),
        Step("cloud", "edgeway-hub --config /etc/edgeway/hub.yaml --check", "the configuration is fine"),
        Step("cloud", "systemctl enable --now edgeway-hub"),
        Step("cloud", "edgewayctl status", r"(?s)services +1\n.*nodes +0 connected"),
        Step("cloud", "edgewayctl token create --node edge-1", r"^[0-9a-f]{64}\.\S+\n$", then=token_is_copied),
        Step("edge", "apt-get update"),
        Step("edge", "apt-get install ./packages/edgeway-agent_*.deb ./packages/edgeway-ctl_*.deb",
             then=lambda towns, _: towns.write("edge", "/etc/resolv.conf", f"nameserver {ROUTER}\n")),
        Step("edge:/etc/edgeway/agent.yaml", "node: edge-1"),
        Step("edge", "edgeway-agent --config /etc/edgeway/agent.yaml --check", "the configuration is fine"),
        Step("edge", "systemctl enable --now edgeway-agent"),
        Step("edge", "edgewayctl status", STATUS_OF_THE_NODE),
        Step("edge", "edgewayctl doctor", r"(?ms)\A(?!.*^BAD).*^ok +port +tcp 40001: edgeway-agent"),
        Step("edge", "docker run --rm busybox wget -qO- http://hello.default.svc.cluster.local/", "hello-1"),
        Step("edge", "docker run --rm busybox wget -qO- http://hello/", "hello-1"),
        Step("edge", "edgewayctl services", r"hello.*\b9\.251\.\d+\.\d+"),
        Step("edge", "edgewayctl endpoints default/hello", rf"{WEB}:8080"),
        Step("cloud", "apt-get install curl openssh-client netcat-openbsd", then=lambda towns, _: towns.exchange_ssh_keys()),
        Step("cloud", "edgewayctl tunnels", "edge-1"),
        Step("cloud", "curl -x http://127.0.0.1:10080 -p -k https://edge-1:10250/healthz", "kubelet"),
        Step("cloud", "curl -x http://127.0.0.1:10080 http://hello.default/", "hello-1"),
        Step("edge:+/etc/edgeway/agent.yaml", "tunnel: {allow: [node, \"node:22\", pods, services]}",
             then=agent_is_restarted),
        Step("cloud", "ssh -o ProxyCommand='nc -X connect -x 127.0.0.1:10080 %h %p' root@edge-1", "Linux edge-1"),
    ],
    "doc/operations.md": [
        Step("cloud&", "edgeway-hub --source.manifests /etc/edgeway/manifests --tls.names hub.example.org"),
        Step("cloud", "edgewayctl --socket /run/edgeway/hub.sock token create --node edge-1", r"^[0-9a-f]{64}\.\S+\n$", then=token_is_copied),
        Step("edge&", "edgeway-agent --node edge-1 --hub.url wss://hub.example.org:10000 --hub.tokenFile /etc/edgeway/token"),
        Step("edge", "edgewayctl status", STATUS_OF_THE_NODE),
        Step("source", "autoreconf -fi && ./configure && make && make install",
             then=lambda towns, _: towns.run("source", "edgewayctl --version && edgeway-hub --version && edgeway-agent --version")),
        Step(None, "apiVersion: apiserver.k8s.io/v1beta1", why="kube-apiserver's; test_egress has one that reads it"),
        Step(None, "apiVersion: kubeadm.k8s.io/v1beta4", why="kubeadm's"),
    ],
    "doc/migration.md": [],
}


def read(name):
    with open(os.path.join(TOP, name)) as f:
        return f.read()


def is_yaml(text):
    try:
        return all(isinstance(d, dict) for d in yaml.safe_load_all(text))
    except yaml.YAMLError:
        return False


def shown(document):
    """What a document shows in blocks, in its order: the whole of a file, or one command line without its comment."""
    text = re.sub(r"^```\w*\n(.*?)^```\n", lambda m: re.sub("^", "    ", m.group(1), flags=re.M), read(document), flags=re.M | re.S)
    found = []
    for block in re.findall(r"(?:^ {4}.*\n)+", text, re.M):
        block = re.sub("^ {4}", "", block, flags=re.M)
        if "─►" in block:  # a drawing
            continue
        found += [block] if is_yaml(block) else [re.sub(r"\s+#.*$", "", line) for line in block.splitlines()]
    return found


class Towns:
    """source: builds; bare: a machine that has the sources and nothing else; cloud and edge: machines on one switch, with a web server at WEB
    behind it. What source and bare run, and apt-get, has the network of the machine that runs the tests."""

    def __init__(self, clean):
        self.trees, self.closers = [], []
        self.source = self.tree(clean)
        run(["make", "-C", BUILD, "distdir"], 120)
        [folder] = [p for p in glob.glob(f"{BUILD}/edgeway-[0-9]*") if os.path.isdir(p)]
        shutil.copytree(folder, self.source.path("/root/edgeway"), symlinks=True)
        self.log = tempfile.mkdtemp(prefix="edgeway-towns-")
        self.closers.append(lambda: shutil.rmtree(self.log))
        self.switch = self.process("switch", "unshare", "--net", "sleep", "100000")
        ours = os.stat("/proc/self/ns/net").st_ino
        wait_for("a network", lambda: os.stat(f"/proc/{self.switch.pid}/ns/net").st_ino != ours)
        for words in ("link set lo up", "link add switch type bridge", "link set switch up", f"addr add {ROUTER}/24 dev switch",
                      f"addr add {WEB}/24 dev switch"):
            run(self.at_switch("ip", *words.split()), 20)
        self.process("dns", *self.at_switch("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root", "--pid-file=",
                                            f"--address=/hub.example.org/{CLOUD}"))
        self.process("web", *self.at_switch(PYTHON, f"{NET}/backend.py", "--name", "hello-1", "--http", "8080"))
        self.bare = self.machine(clean, "bare", BARE, "systemd")
        shutil.move(folder, self.bare.path("/root/edgeway"))
        self.cloud = self.machine(clean, "cloud", CLOUD, "systemd", "iproute2")
        self.edge = self.machine(clean, "edge-1", EDGE, "systemd", "iproute2", "docker.io", "openssh-server")
        self.make_image()
        self.start_kubelet()

    def tree(self, clean):
        made = clean.copy()
        self.trees.append(made)
        with open(made.path("/etc/apt/apt.conf.d/01yes"), "w") as f:
            f.write(APT)
        return made

    def process(self, name, *argv):
        made = Process(name, argv, f"{self.log}/{name}")
        self.closers.append(made.kill)
        return made

    def at_switch(self, *argv):
        return ["nsenter", f"--net=/proc/{self.switch.pid}/ns/net", *argv]

    def machine(self, clean, name, address, *packages):
        tree = self.tree(clean)
        tree.run("sh", "-c", f"apt-get update -q && apt-get install -q {' '.join(packages)} && apt-get clean", seconds=300)
        made = Node(tree.root, name)
        self.closers.append(made.close)
        run(made.net("ip", "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", str(self.switch.pid)), 20)
        for words in (f"addr add {address}/24 dev eth0", "link set eth0 up", f"route add default via {ROUTER}"):
            run(made.net("ip", *words.split()), 20)
        run(self.at_switch("ip", "link", "set", name, "master", "switch", "up"), 20)
        return made

    def make_image(self):
        """busybox, of which a node that has a registry would get the image from there."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/bin")
            shutil.copy(shutil.which("busybox"), f"{folder}/bin/busybox")
            os.symlink("busybox", f"{folder}/bin/wget")
            run(["tar", "-C", folder, "-cf", self.edge.path("/root/busybox.tar"), "."], 60)
        self.edge.run("docker", "import", "/root/busybox.tar", "busybox")

    def start_kubelet(self):
        pair = ["--cert", f"{self.log}/cert", "--key", f"{self.log}/key", "--ca", f"{self.log}/cert"]
        run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=edge-1",
             "-out", pair[1], "-keyout", pair[3]], 60)
        self.process("kubelet", *self.edge.net(PYTHON, f"{NET}/kubelet.py", "--name", "kubelet", *pair, "--anonymous"))

    def copy_packages(self):
        for machine in (self.cloud, self.edge):
            os.mkdir(machine.path("/root/packages"))
            for p in glob.glob(self.source.path("/root/edgeway/packages/*.deb")):
                shutil.copy(p, machine.path("/root/packages"))

    def exchange_ssh_keys(self):
        self.cloud.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/.ssh/id_ed25519")
        self.write("cloud", "/root/.ssh/config", "StrictHostKeyChecking accept-new\n")
        with open(self.cloud.path("/root/.ssh/id_ed25519.pub")) as f:
            self.write("edge", "/root/.ssh/authorized_keys", f.read())

    def write(self, name, path, text):
        mode = "a" if path.startswith("+") else "w"
        path = getattr(self, name).path(path.lstrip("+"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode) as f:
            f.write(text)

    def run(self, name, line):
        """(status, output)"""
        machine, builds = getattr(self, name), name in ("source", "bare")
        words = ["env", *(f"{k}={v}" for k, v in QUICK_BUILD.items()), "sh", "-c", f"cd /root/{'edgeway' if builds else ''} && {line}"]
        if machine == self.source:  # none that runs
            return machine.run(*words, seconds=900, check=False)
        return machine.run(*words, seconds=600, check=False, online=builds or line.startswith("apt-get"))

    def start(self, name, line):
        """A daemon, in the place of the one that systemd runs."""
        machine, [program] = getattr(self, name), re.findall(r"^\S+", line)
        machine.run("systemctl", "stop", program)
        machine.run("systemd-run", "-q", "--unit", f"by-hand-{program}", "sh", "-c", f"exec {line}")
        status = ["edgewayctl", "--socket", f"/run/edgeway/{program.split('-')[1]}.sock", "status"]
        wait_for("it serves", lambda: machine.run(*status, check=False)[0] == 0, 30)
        return 0, ""

    def close(self):
        for close in reversed(self.closers):
            close()
        for tree in self.trees:
            tree.close()


@pytest.fixture(scope="module")
def towns(clean):
    made = Towns.__new__(Towns)
    try:
        made.__init__(clean.result())
        yield made
    finally:
        made.close()


def carry_out(towns, step, text):
    name, _, path = (step.where or "").partition(":")
    if step.where is None:
        status, output = run(["sh", "-c", f"cd {shlex.quote(TOP)} && {step.instead or 'true'}"], 60, check=False)
    elif path:
        towns.write(name, path, text)
        status, output = 0, ""
    elif name.endswith("&"):
        status, output = towns.start(name.rstrip("&"), text)
    else:
        status, output = towns.run(name, text)
        for _ in range(40):  # what it tells of may come a moment later
            if re.search(step.prints, output) or not re.match("edgewayctl (?!.*token create)", text):
                break
            time.sleep(0.5)
            status, output = towns.run(name, text)
    print(f"--- {step.where}: {text.rstrip()}\n{output[-3000:]}")
    assert status == 0 and re.search(step.prints, output), f"{step.where}: {text}: status {status}\n{output[-4000:]}"
    if step.then:
        step.then(towns, output)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_line_has_its_step(document):
    assert [text.splitlines()[0] for text in shown(document)] == [step.text for step in STEPS[document]]


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if STEPS[d]])
def test_document(towns, document):
    for step, text in zip(STEPS[document], shown(document)):
        carry_out(towns, step, text)
