"""What the documents tell a reader to type, typed: every command line of DOCUMENTS, in a block of its own or within a sentence, is taken
from there and run on clean Debians: one that builds, the hub's machine and a node with a Docker Engine, which systemd runs (booted.py),
with the packages that the first one has built. Files that a document shows are written as they stand there. STEPS says where each is
done and what it prints, or why it is not done here; a line that has no step fails. Root; top_builddir names the configured build.
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
from tree import APART, INSIDE, QUICKLY, run

TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
NET = os.path.join(TOP, "tests", "net")
PYTHON = "/usr/bin/python3"
# In the order in which they are gone through: the last one takes the node's agent away.
DOCUMENTS = ["README.md", "doc/getting-started.md", "doc/migration.md", "doc/releases.md", "doc/distributions.md", "doc/operations.md"]
# What a command within a sentence begins with; a program of the sources counts by its path.
PROGRAMS = ("apt-get curl docker dpkg edgeway-agent edgeway-hub edgewayctl git gpg helm install iptables-save journalctl kubeadm kubectl make podman "
            "resolvectl rm scp skopeo ssh systemctl").split()
APT = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n'
QUICK_BUILD = {**QUICKLY, "CFLAGS": "-O0 -g0 -U_FORTIFY_SOURCE", "MAKEFLAGS": f"-j{os.cpu_count()}"}
CLOUD, BARE, EDGE, ROUTER, WEB = "192.0.2.1", "192.0.2.2", "192.0.2.11", "192.0.2.254", "10.0.0.12"
# Green throughout, with one service.
STATUS_OF_THE_NODE = r"(?s)^edge-1: ready, edgeway-agent.*hub +connected.*services +1 known.*DNS +172\.17\.0\.1:53; .*resolv\.conf +ours\n.*rules +table ip edgeway installed"


class Step:
    """where: a machine; MACHINE& for a daemon; MACHINE:PATH for a file, MACHINE:+PATH for what is added to it; None: not done, and `why` not, but
    for `instead`, a command of the machine that runs the tests. text: the line, or the first line of the file; runs: what is run for it, where that
    has names to be filled in, or belongs to a pod; prints: a pattern; types(towns): its standard input. then(towns, output): what the text around it says."""
    is_block = True

    def __init__(self, where, text, prints="", why=None, instead=None, then=None, runs=None, types=None):
        self.where, self.text, self.prints, self.why, self.instead, self.then, self.runs, self.types = where, text, prints, why, instead, then, runs, types


class Inline(Step):
    """A command within a sentence, at whatever place among the others."""
    is_block = False


def not_here(*lines, why, instead=None, made=Inline):
    return [made(None, line, why=why, instead=instead) for line in lines]


def token_is_kept(towns, output):
    towns.token = output.split()[-1]


def token_is_put(towns, output):
    towns.write("edge", "/etc/edgeway/token", output.split()[-1] + "\n")


def units_again(towns, _):
    """What was started by hand ends, and systemd's units serve."""
    towns.cloud.run("systemctl", "stop", "by-hand-edgeway-hub")
    towns.edge.run("systemctl", "stop", "by-hand-edgeway-agent")
    towns.cloud.run("chown", "-R", "edgeway-hub:", "/var/lib/edgeway-hub")
    towns.cloud.run("systemctl", "start", "edgeway-hub")
    towns.edge.run("systemctl", "start", "edgeway-agent")
    wait_for("green", lambda: re.search(STATUS_OF_THE_NODE, towns.run("edge", "edgewayctl status")[1]), 60)


def agent_is_restarted(towns, _):
    def tunnels():
        return towns.run("cloud", "edgewayctl tunnels")[1]
    former = re.search(r"edge-1 +open +(\S+)", tunnels()).group(1)
    towns.run("edge", "systemctl restart edgeway-agent")
    wait_for("its next tunnel", lambda: re.search(r"edge-1 +open", tunnels()) and former not in tunnels())


def resolv_conf_is_as_before(towns, _):
    assert towns.edge.run("cat", "/etc/resolv.conf")[1] == f"nameserver {ROUTER}\n"


NOTHING_BAD = r"(?ms)\A(?!.*^BAD).*^ok +port +tcp 40001: edgeway-agent"
CLUSTER = "needs a cluster; tests/net/packages/"
RELEASE = "tests/packages/test_release.py takes it from there and runs it, or makes the same"
KUBECTL_RUN = ("kubectl run hello --rm -i --restart=Never --image=busybox --overrides='{\"spec\": {\"nodeName\": \"edge-1\", \"dnsPolicy\": \"Default\"}}' "
               "-- wget -qO- http://hello/")
PATCH_OF_EDGEMESH = ("kubectl -n kubeedge patch daemonset edgemesh-agent -p '{\"spec\": {\"template\": {\"spec\": {\"affinity\": {\"nodeAffinity\": "
                     "{\"requiredDuringSchedulingIgnoredDuringExecution\": {\"nodeSelectorTerms\": [{\"matchExpressions\": "
                     "[{\"key\": \"edgeway.io/node\", \"operator\": \"DoesNotExist\"}]}]}}}}}}}'")
STEPS = {
    "README.md": [
        Step("bare", "./deploy/quickstart", r"done: +all \d+ steps did what they show"),
        Step(None, "./tests/run", why="runs this test", instead="./tests/run --help"),
    ],
    "doc/getting-started.md": [
        Step("source", "apt-get update"),
        Step("source", "apt-get install build-essential debhelper python3 systemd $(awk '$2 == \"build\" {print $1}' deploy/packages)"),
        Step("source", "autoreconf -fi && ./configure && make packages"),
        Inline("source", "apt-get install debootstrap"),
        *not_here("deploy/build-for arm64", why="tests/run cross does that", instead="deploy/build-for --help"),
        *not_here("deploy/build-for --help", why="the machine that runs the tests is as good", instead="deploy/build-for --help"),
        *not_here("./deploy/quickstart", why="README.md's"),
        *not_here("scp -r packages root@MACHINE:", why="copy_packages does it: the builder is on no switch"),
        Step("source", "ls packages/", r"(?s)edgeway-agent_\S+\.deb.*edgeway-ctl_\S+\.deb.*edgeway-hub_\S+\.deb",
             then=lambda towns, _: towns.copy_packages()),
        Step("cloud", "apt-get update"),
        Step("cloud", "apt-get install ./packages/edgeway-hub_*.deb ./packages/edgeway-ctl_*.deb"),
        Step("cloud:/etc/edgeway/hub.yaml", "source:"),
        Step("web", "mkdir hello && echo hello-1 >hello/index.html"),
        Step("web&", "python3 -m http.server --directory hello 8080"),
        Step("cloud:/etc/edgeway/manifests/hello.yaml", "apiVersion: v1"),
        Step("cloud", "edgeway-hub --config /etc/edgeway/hub.yaml --check", "the configuration is fine"),
        Step("cloud", "systemctl enable --now edgeway-hub"),
        Step("cloud", "edgewayctl status", r"(?s)services +1\n.*nodes +0 connected"),
        Step("cloud", "edgewayctl token create --node edge-1", r"^[0-9a-f]{64}\.\S+\n$", then=token_is_kept),
        *not_here("kubectl apply -k deploy/kubernetes", why=CLUSTER + "test_deploy.py", instead="kubectl kustomize deploy/kubernetes"),
        Step("edge", "apt-get update"),
        Step("edge", "apt-get install ./packages/edgeway-agent_*.deb ./packages/edgeway-ctl_*.deb",
             then=lambda towns, _: towns.write("edge", "/etc/resolv.conf", f"nameserver {ROUTER}\n")),
        Step("edge", "install -m 600 /dev/stdin /etc/edgeway/token", types=lambda towns: towns.token,
             then=lambda towns, _: towns.edge.run("sh", "-c", "ls -l /etc/edgeway/token | grep ^-rw------- && grep '[.]' /etc/edgeway/token")),
        Step("edge:/etc/edgeway/agent.yaml", "node: edge-1"),
        Step("edge", "edgeway-agent --config /etc/edgeway/agent.yaml --check", "the configuration is fine"),
        Step("edge", "systemctl enable --now edgeway-agent"),
        Step("edge", "edgewayctl status", STATUS_OF_THE_NODE),
        Step("edge", "edgewayctl doctor", NOTHING_BAD),
        Step("edge", "docker run --rm busybox wget -qO- http://hello.default.svc.cluster.local/", "hello-1"),
        Step("edge", "docker run --rm busybox wget -qO- http://hello/", "hello-1"),
        *not_here("podman run --rm busybox wget -qO- http://hello/", made=Step, why="the node has Docker; tests/net/node/test_engines.py has podman"),
        Step("edge", "edgewayctl services", r"hello.*\b9\.251\.\d+\.\d+"),
        Step("edge", "edgewayctl endpoints default/hello", rf"{WEB}:8080"),
        *not_here(KUBECTL_RUN, made=Step, why="needs a kubelet; tests/net/node/test_engines.py has containerd's pods"),
        Step("cloud", "apt-get install curl openssh-client netcat-openbsd", then=lambda towns, _: towns.exchange_ssh_keys()),
        Step("cloud", "edgewayctl tunnels", "edge-1"),
        Step("cloud", "curl -x http://127.0.0.1:10080 http://hello.default/", "hello-1"),
        Step("cloud", "curl -x http://127.0.0.1:10080 -p -k https://edge-1:10250/healthz", "kubelet"),
        Step("edge:+/etc/edgeway/agent.yaml", "tunnel: {allow: [node, \"node:22\", pods, services, agent]}",
             then=agent_is_restarted),
        Inline("edge", "systemctl restart edgeway-agent"),
        Step("cloud", "ssh -o ProxyCommand='nc -X connect -x 127.0.0.1:10080 %h %p' root@edge-1", "Linux edge-1"),
        Inline("edge", "edgewayctl status", STATUS_OF_THE_NODE),
        Inline("edge", "edgewayctl doctor", NOTHING_BAD),
        Inline("edge", "edgewayctl endpoints", f"{WEB}:8080"),
        Inline("edge", "edgewayctl log level debug --part PART", runs="edgewayctl log level debug --part dns"),
        *not_here("kubectl describe service", why=CLUSTER + "test_deploy.py has the Events"),
    ],
    "doc/migration.md": [
        *not_here("kubectl apply -f deploy/kubernetes/rbac-destinationrules.yaml", why=CLUSTER + "test_deploy.py reads that file"),
        *not_here("kubectl apply -k deploy/kubernetes", why=CLUSTER + "test_deploy.py"),
        Inline("cloud", "edgewayctl status", r"services +1\n"),
        Inline("edge", "iptables-save | grep -E 'KUBE-(PORTALS|NODEPORT)-'", "KUBE-PORTALS-HOST",
               runs="iptables -t nat -N KUBE-PORTALS-HOST && iptables -t nat -A OUTPUT -j KUBE-PORTALS-HOST && iptables-save | grep -E 'KUBE-(PORTALS|NODEPORT)-'"),
        Inline("edge", "iptables-save -t nat | grep -vE 'KUBE-(PORTALS|NODEPORT)-' | iptables-restore -T nat", "^0$",
               runs="iptables-save -t nat | grep -vE 'KUBE-(PORTALS|NODEPORT)-' | iptables-restore -T nat && iptables-save | grep -cE 'KUBE-(PORTALS|NODEPORT)-' || true"),
        Inline("edge", "edgewayctl doctor", NOTHING_BAD),
        Inline("edge", "edgeway-agent --restore", "nothing of an agent is left", runs="systemctl stop edgeway-agent && edgeway-agent --restore && systemctl start edgeway-agent"),
    ],
    "doc/releases.md": [
        *not_here("make release", "make release RELEASE_KEY=KEY", "make release RELEASE_KEY=none", "skopeo copy --all oci-archive:edgeway-image-VERSION.oci.tar docker://REGISTRY/edgeway:VERSION",
                  "skopeo copy oci-archive:edgeway-chart-VERSION.oci.tar docker://REGISTRY/charts/edgeway:VERSION", "gpg --show-keys", why=RELEASE),
        *not_here("tests/run", "tests/run cross", why="run this test, or are run by hand", instead="tests/run --help"),
        Inline("source", "make dist"),
        *not_here("URL=https://releases.example/edgeway", "apt-get update && apt-get install ca-certificates wget", "wget -P /etc/apt/keyrings $URL/edgeway.asc",
                  'echo "deb [signed-by=/etc/apt/keyrings/edgeway.asc] $URL/apt bookworm main" >/etc/apt/sources.list.d/edgeway.list',
                  "apt-get update && apt-get install edgeway-agent edgeway-ctl", "gpg --import edgeway.asc && gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum -c SHA256SUMS",
                  "helm install edgeway oci://REGISTRY/charts/edgeway --version VERSION --set image.repository=REGISTRY/edgeway --set host=HUB", why=RELEASE, made=Step),
    ],
    "doc/distributions.md": [
        *not_here("kubectl apply -k deploy/kubernetes", why=CLUSTER + "test_deploy.py"),
        *not_here("helm install edgeway deploy/helm/edgeway --namespace edgeway --create-namespace --values deploy/helm/edgeway/values-k3s.yaml "
                  "--set host=hub.example.org --set image.repository=registry.example/edgeway", why=CLUSTER + "test_distributions.py renders it", made=Step),
        *not_here("components:", "kubectl label node edge-1 edgeway.io/node=true", why=CLUSTER + "test_distributions.py has who is taken by that", made=Step),
        *not_here("kubectl get csr", "kubectl certificate approve edgeway-edge-1-...", why=CLUSTER + "test_deploy.py", made=Step),
        Step("cloud", "kubectl -n edgeway exec deploy/edgeway-hub -- edgewayctl --node edge-1 status", STATUS_OF_THE_NODE, runs="edgewayctl --node edge-1 status"),
        Inline("cloud", "edgewayctl --node edge-1 status", STATUS_OF_THE_NODE),
        *not_here("kubectl -n edgeway get pods -o wide --field-selector spec.nodeName=edge-1", why="needs a cluster", made=Step),
        Step("edge", "kubectl -n edgeway exec edgeway-agent-... -- edgewayctl doctor", NOTHING_BAD, runs="edgewayctl doctor"),
        *not_here("kubectl label node edge-1 edgeway.io/node-", why=CLUSTER + "test_distributions.py has who is taken by that", made=Step),
        Inline("edge", "edgeway-agent --restore", "nothing of an agent is left", runs="systemctl stop edgeway-agent && edgeway-agent --restore"),
        Step("edge", "rm -r /var/lib/edgeway /run/edgeway", runs="mkdir -p /run/edgeway && rm -r /var/lib/edgeway /run/edgeway"),  # systemd has taken the latter away
        Step("cloud", "kubectl -n edgeway exec deploy/edgeway-hub -- edgewayctl node forget edge-1", "edge-1", runs="edgewayctl node forget edge-1"),
        *not_here("helm uninstall edgeway --namespace edgeway", why=CLUSTER + "test_chart.py"),
        *not_here("kubectl delete -k deploy/kubernetes", why=CLUSTER + "test_deploy.py applies it"),
        *not_here("clusterDNS:", "kubelet-arg:", "resolv-conf: /etc/resolv.conf", "modules:", why="the kubelet's; tests/net/packages/test_distributions.py reads them", made=Step),
        *not_here("systemctl restart kubelet", "kubeadm upgrade node", "systemctl restart edgecore", why="the distribution's own, which is not here"),
        *not_here("kubectl label node NAME svccontroller.k3s.cattle.io/enablelb=true", why="k3s' own label"),
        *not_here(PATCH_OF_EDGEMESH, why="needs a cluster with EdgeMesh", made=Step),
    ],
    "doc/operations.md": [
        Step("cloud&", "edgeway-hub --source.manifests /etc/edgeway/manifests --tls.names hub.example.org"),
        Step("cloud", "edgewayctl --socket /run/edgeway/hub.sock token create --node edge-1", r"^[0-9a-f]{64}\.\S+\n$", then=token_is_put),
        Step("edge&", "edgeway-agent --node edge-1 --hub.url wss://hub.example.org:10000 --hub.tokenFile /etc/edgeway/token"),
        Step("edge", "edgewayctl status", STATUS_OF_THE_NODE, then=units_again),
        Step("source", "autoreconf -fi && ./configure && make && make install",
             then=lambda towns, _: towns.run("source", "edgewayctl --version && edgeway-hub --version && edgeway-agent --version")),
        Step(None, "apiVersion: v1", why="a Service of a cluster's; tests/net/nodeports/test_gateway_class.py"),
        Step(None, "apiVersion: gateway.networking.k8s.io/v1", why="an object of a cluster's; deploy/quickstart has a canary, tests/net/http/test_gateway_routes.py"),
        Step(None, "apiVersion: gateway.networking.k8s.io/v1", why="an object of a cluster's; tests/net/gateway/test_backend_tls.py has more"),
        Step(None, "apiVersion: apiserver.k8s.io/v1beta1", why="kube-apiserver's; test_egress has one that reads it"),
        Step(None, "apiVersion: kubeadm.k8s.io/v1beta4", why="kubeadm's"),
        Inline("source", "make install"),
        Inline("source", "make dist"),
        Inline("source", "make sbom"),
        *not_here("docker build -f deploy/Dockerfile .", why="tests/packages/test_image_build.py"),
        *not_here("kubectl apply -k deploy/kubernetes", why=CLUSTER + "test_deploy.py"),
        *not_here("helm install edgeway deploy/helm/edgeway --namespace edgeway --create-namespace --set host=hub.example.org", why=CLUSTER + "test_chart.py"),
        *not_here("edgewayctl trace http://web.default.svc.cluster.local/", why="an example's Service; tests/net/tools/test_ctl_requests.py"),
        *not_here("kubectl describe service", why=CLUSTER + "test_deploy.py has the Events"),
        *not_here("kubectl describe csr", "kubectl certificate approve NAME-replacement", why=CLUSTER + "test_deploy.py"),
        *not_here("kubectl logs", "kubectl port-forward", why="need a cluster; tests/net/ingress/test_kubectl.py"),
        *not_here("kubeadm init --config", "kubeadm init phase control-plane apiserver --config", why="kubeadm's"),
        *not_here("git clean", why="what went wrong, not what to do"),
        *not_here("resolvectl status docker0", why="these machines have no resolved; tests/packages/test_resolvers.py"),
        *not_here("edgewayctl hub revoke NAME", why="there is one hub; tests/net/identity/test_identity.py"),
        *not_here("edgewayctl ca use --force", why="there is no other CA; tests/net/replicas/test_replicas.py"),
        Inline("edge", "edgewayctl status", STATUS_OF_THE_NODE),
        Inline("edge", "edgewayctl doctor", NOTHING_BAD),
        Inline("edge", "edgewayctl nodeports", "SERVICE"),
        Inline("edge", "edgewayctl health", "hello"),
        Inline("edge", "edgewayctl upstreams", ROUTER),
        Inline("edge", "edgewayctl state", '"services"'),
        Inline("edge", "edgewayctl log level debug"),
        Inline("edge", "edgewayctl peers"),
        Inline("cloud", "edgewayctl tunnels", "edge-1"),
        Inline("cloud", "edgewayctl hub list", r"(?m)^\S+"),
        Inline("cloud", "edgewayctl ca list", r"(?m)^\S+"),
        Inline("cloud", "edgewayctl token create --node NODE", r"^[0-9a-f]{64}\.\S+\n$", runs="edgewayctl token create --node edge-3"),
        Inline("cloud", "edgeway-hub --web.listen 127.0.0.1:10014", "web.listen: 127.0.0.1:10014", runs="edgeway-hub --config /etc/edgeway/hub.yaml --web.listen 127.0.0.1:10014 --check"),
        Inline("edge", "systemctl status", "State: running"),
        Inline("edge", "systemctl show -p MainPID edgeway-agent", r"MainPID=[1-9]"),
        Inline("edge", "edgewayctl upgrade"),
        Inline("edge", "systemctl reload", runs="systemctl reload edgeway-agent"),
        Inline("edge", "apt-get install", runs="apt-get install --reinstall ./packages/edgeway-agent_*.deb"),
        Inline("edge", "dpkg -i", runs="dpkg -i packages/edgeway-agent_*.deb"),
        Inline("edge", "journalctl -u edgeway-agent", "edgeway-agent"),
        Inline("edge", "edgeway-agent --restore", "nothing of an agent is left", runs="systemctl kill -s KILL edgeway-agent && systemctl stop edgeway-agent && "
               "edgeway-agent --config /etc/edgeway/agent.yaml --restore", then=resolv_conf_is_as_before),
        Inline("edge", "apt-get remove", runs="systemctl start edgeway-agent && apt-get remove edgeway-ctl"),
        Inline("edge", "apt-get remove edgeway-agent", then=resolv_conf_is_as_before),
        Inline("cloud", "edgewayctl node revoke NODE", runs="edgewayctl node revoke edge-1"),
        Inline("cloud", "edgewayctl node forget NODE", "edge-1", runs="edgewayctl node forget edge-1"),
        Inline("cloud", "edgewayctl node forget", runs="edgewayctl node forget nobody || true"),
    ],
}


def read(name):
    with open(os.path.join(TOP, name)) as f:
        return f.read()


def is_yaml(text):
    try:
        return all(isinstance(d, dict) for d in yaml.safe_load_all(text))
    except yaml.YAMLError:
        return False


def is_open(line):
    """Does it end within quotes?"""
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False


def command_lines(block):
    """Without comments; one that goes on in the next line is one."""
    found = []
    for line in (re.sub(r"\s+#.*$", "", line) for line in block.splitlines()):
        if found and found[-1].endswith("\\"):
            found[-1] = f"{found[-1][:-1].rstrip()} {line.strip()}"
        elif found and is_open(found[-1]):
            found[-1] = f"{found[-1]} {line.strip()}"
        else:
            found.append(line)
    return found


BLOCK = re.compile(r"(?:^ {4}.*\n)+", re.M)


def indented(document):
    return re.sub(r"^```\w*\n(.*?)^```\n", lambda m: re.sub("^", "    ", m.group(1), flags=re.M), read(document), flags=re.M | re.S)


def shown(document):
    """What a document shows in blocks, in its order: the whole of a file, or one command line without its comment."""
    found = []
    for block in BLOCK.findall(indented(document)):
        block = re.sub("^ {4}", "", block, flags=re.M)
        if "─►" in block:  # a drawing
            continue
        found += [block] if is_yaml(block) else command_lines(block)
    return found


def within_sentences(document):
    """Commands with their words, each once."""
    spans = [" ".join(s.split()) for s in re.findall("`([^`]+)`", BLOCK.sub("\n", indented(document)))]
    return {s for s in spans if (s.split()[0] in PROGRAMS and " " in s) or
            (re.match(r"(\./)?(deploy|tests|bench)/[\w-]+( |$)", s) and os.path.isfile(os.path.join(TOP, s.split()[0])))}


class Towns:
    """source: builds; bare: a machine that has the sources and nothing else; cloud and edge: machines on one switch; web: the first one's tree
    behind it, at WEB. What source and bare run, and apt-get, has the network of the machine that runs the tests."""

    def __init__(self, clean):
        self.trees, self.closers = [], []
        self.source = self.web = self.tree(clean)
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
        self.edge.run("install", "-d", "-m", "700", "/root/.ssh")
        self.write("cloud", "/root/.ssh/config", "StrictHostKeyChecking accept-new\n")
        with open(self.cloud.path("/root/.ssh/id_ed25519.pub")) as f:
            self.write("edge", "/root/.ssh/authorized_keys", f.read())

    def write(self, name, path, text):
        mode = "a" if path.startswith("+") else "w"
        with open(getattr(self, name).path(path.lstrip("+")), mode) as f:  # in a folder that is there already, as it is for a reader
            f.write(text)

    def run(self, name, line):
        """(status, output)"""
        machine, builds = getattr(self, name), name in ("source", "bare")
        words = ["env", *(f"{k}={v}" for k, v in QUICK_BUILD.items()), "sh", "-c", f"cd /root/{'edgeway' if builds else ''} && {line}"]
        if machine == self.source:  # none that runs
            return machine.run(*words, seconds=900, check=False)
        return machine.run(*words, seconds=600, check=False, online=builds or bool(re.match("apt-get (update|install (?!--reinstall))", line)))

    def start(self, name, line):
        """A daemon, in the place of the one that systemd runs."""
        if name == "web":
            self.process("web", *self.at_switch(*APART, "sh", "-c", INSIDE, self.web.root, "sh", "-c", f"cd /root && exec {line}"))
            wait_for("the web server", lambda: run(self.at_switch("curl", "-s", f"http://{WEB}:8080/"), 20, check=False)[0] == 0)
            return 0, ""
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
    elif step.types:
        status, output = towns.run(name, f"printf '%s\\n' {step.types(towns)} | {text}")
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
    steps = STEPS[document]
    assert [text.splitlines()[0] for text in shown(document)] == [step.text for step in steps if step.is_block]
    assert sorted(within_sentences(document)) == sorted(step.text for step in steps if not step.is_block)
    for step in steps:
        assert (step.where is None) == (step.why is not None), step.text
        assert [p for p in re.findall(r"tests/[\w/]+\.py", step.why or "") if not os.path.exists(os.path.join(TOP, p))] == [], step.text


@pytest.mark.parametrize("document", DOCUMENTS)
def test_document(towns, document):
    blocks = iter(shown(document))
    for step in STEPS[document]:
        text = next(blocks) if step.is_block else step.text
        carry_out(towns, step, step.runs or text)
