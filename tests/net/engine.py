"""Nodes with a real engine inside their namespaces, with its own bridge and rules: Docker, podman, containerd.

    node = EngineNode(lab, "edge-1", "192.0.2.11")
    web = node.container("web", "httpd", "-f", "-p", "8080", publish={30080: 8080})
    client = node.container("client", "sleep", "1000000"); client.run("wget", "-qO-", "http://edge-nginx")

The image is a folder with Debian's static busybox, imported: nothing is downloaded.
"""
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

from lab import PATIENCE_S, Node, wait_for

APPLETS = "cat echo getent httpd ip nc nslookup ping sh sleep timeout wget".split()
IMAGE = "edgeway-lab"
CGROUPS = "mount -t sysfs sysfs /sys && mount -t cgroup2 none /sys/fs/cgroup"


def available():
    return all(shutil.which(p) for p in ("dockerd", "docker", "busybox"))


class EngineNode(Node):
    """Docker."""
    remove = ("rm", "-f")

    def __init__(self, lab, name, address):
        super().__init__(lab, name, address, bridge=False)
        self.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        self.engine_dir = os.path.join(self.dir, "engine")
        self.tree = os.path.join(self.engine_dir, "tree")
        for folder in ("bin", "www", "tmp", "etc"):
            os.makedirs(os.path.join(self.tree, folder))
        shutil.copy(shutil.which("busybox"), os.path.join(self.tree, "bin", "busybox"))
        for applet in APPLETS:
            os.symlink("busybox", os.path.join(self.tree, "bin", applet))
        lab.closers.append(self.remove_containers)
        self.start_engine()
        self.import_image()

    def start_engine(self):
        d = self.engine_dir
        self.command = ("docker", "-H", f"unix://{d}/docker.sock")
        self.start_daemon("dockerd", "--storage-driver", "vfs", "--data-root", f"{d}/data", "--exec-root", f"{d}/run",
                          "--pidfile", f"{d}/pid", "-H", self.command[2], "--ipv6", "--fixed-cidr-v6", "fd00:17::/64")
        self.wait_daemon(lambda: self.docker("version", check=False).returncode == 0)

    def start_daemon(self, *argv):
        # dockerd writes a key there: that of this machine is neither used nor made.
        own = os.path.join(self.dir, "etc", "docker")
        if os.path.islink(own):
            os.unlink(own)
        os.makedirs(own, exist_ok=True)
        self.daemon = self.start(argv[0], "sh", "-c", CGROUPS + ' && exec "$@"', "sh", *argv)

    def wait_daemon(self, answers):
        wait_for(f"the engine of {self.name}", lambda: not self.daemon.alive() or answers(), 40, 0.1)
        if not self.daemon.alive():
            raise RuntimeError(f"{self.daemon.name} ended:\n{self.daemon.log()[-2000:]}")

    def docker(self, *argv, seconds=60, check=True):
        return self.run(*self.command, *argv, seconds=seconds, check=check)

    def import_image(self):
        self.run("sh", "-c", f'tar -C {self.tree} -c . | "$@"', "sh", *self.command, "import", "-", IMAGE, seconds=60)
        self.docker("run", "--rm", IMAGE, "sh", "-c", "true")  # an engine that starts may still run nothing

    def container(self, name, *command, publish=None, options=()):
        """publish: {port of the node: port inside, with "/udp" behind it if it is that}."""
        ports = [a for host, inside in (publish or {}).items() for a in ("-p", f"{host}:{inside}")]
        self.docker("run", "-d", "--name", name, *ports, *options, IMAGE, *command)
        address = self.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name).stdout.strip()
        return Container(self, name, address)

    def execute(self, name, *argv, check, seconds):
        return self.docker("exec", name, *argv, check=check, seconds=seconds)

    def remove_containers(self):
        ids = self.docker("ps", "-aq", check=False).stdout.split()
        if ids:
            self.docker(*self.remove, *ids, check=False)


class PodmanNode(EngineNode):
    """Its networks are netavark's; aardvark answers the names of containers in those of a user, not in the default one."""
    backend, remove = "netavark", ("rm", "-f", "-t", "0")

    def default_network(self):
        """Podman's own one, with IPv6: name and content of its file."""
        nets = [{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}, {"subnet": "fd00:88::/64", "gateway": "fd00:88::1"}]
        return "podman.json", {"name": "podman", "id": "2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9",
                               "driver": "bridge", "network_interface": "podman0", "created": "2026-01-01T00:00:00Z", "subnets": nets,
                               "ipv6_enabled": True, "internal": False, "dns_enabled": False, "ipam_options": {"driver": "host-local"}}

    def start_engine(self):
        d = self.engine_dir
        name, content = self.default_network()
        os.mkdir(f"{d}/networks")
        with open(f"{d}/networks/{name}", "w") as f:
            json.dump(content, f)
        # The last lines are for a machine without controllers of cgroup2 and without CAP_SYS_RESOURCE; locks are not in /dev/shm, which is everyone's. A runroot has at most 50 characters; /run is this node's own.
        with open(f"{d}/containers.conf", "w") as f:
            f.write(f'[network]\nnetwork_backend = "{self.backend}"\n[engine]\nruntime = "runc"\nlock_type = "file"\n'
                    '[containers]\npids_limit = 0\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
        self.run("sh", "-c", f"{CGROUPS} && mount -t tmpfs none /run && mount -t tmpfs none /var/lib")
        self.command = ("env", f"CONTAINERS_CONF={d}/containers.conf", "podman", "--root", f"{d}/data", "--runroot", "/run/engine",
                        "--tmpdir", f"{d}/tmp", "--network-config-dir", f"{d}/networks", "--storage-driver", "vfs",
                        "--cgroup-manager", "cgroupfs", "--events-backend", "file")


class PodmanCniNode(PodmanNode):
    """The networks of podman's before netavark, which stay after an upgrade."""
    backend = "cni"

    def default_network(self):
        """As Debian's /etc/cni/net.d/87-podman-bridge.conflist, but for the second range."""
        ipam = {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
                "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}], [{"subnet": "fd00:88::/64", "gateway": "fd00:88::1"}]]}
        return "87-podman-bridge.conflist", {"cniVersion": "0.4.0", "name": "podman", "plugins": [
            {"type": "bridge", "bridge": "cni-podman0", "isGateway": True, "ipMasq": True, "hairpinMode": True, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}}, {"type": "firewall"}, {"type": "tuning"}]}


class ContainerdNode(EngineNode):
    """containerd and a plugin of CNI, asked as a kubelet asks them: by the Container Runtime Interface."""
    network = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}

    def start_engine(self):
        import grpc  # python3-grpcio

        d = self.engine_dir
        ipam = {"type": "host-local", "ranges": [[{"subnet": "10.244.7.0/24"}], [{"subnet": "fd00:244::/64"}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
        os.mkdir(f"{d}/net.d")
        with open(f"{d}/net.d/10-lab.conflist", "w") as f:
            json.dump({"cniVersion": "0.4.0", "name": "lab", "plugins": [
                {**self.network, "ipMasq": True, "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]}, f)
        with open(f"{d}/config.toml", "w") as f:
            f.write(f'''version = 2
                root = "{d}/data"
                state = "{d}/run"
                [grpc]
                address = "{d}/sock"
                [plugins."io.containerd.grpc.v1.cri"]
                sandbox_image = "{IMAGE}"
                disable_apparmor = true
                restrict_oom_score_adj = true
                disable_cgroup = true
                [plugins."io.containerd.grpc.v1.cri".cni]
                bin_dir = "/usr/lib/cni"
                conf_dir = "{d}/net.d"
                [plugins."io.containerd.grpc.v1.cri".containerd]
                snapshotter = "native"
                ''')
        self.pods = {}
        self.run("sh", "-c", "mount -t tmpfs none /run && mount -t tmpfs none /var/lib")
        self.start_daemon("containerd", "-c", f"{d}/config.toml")
        self.wait_daemon(lambda: os.path.exists(f"{d}/sock"))  # a channel that finds none waits longer and longer
        self.channel = grpc.insecure_channel(f"unix:{d}/sock")
        self.wait_daemon(lambda: self.cri("Status"))

    def cri(self, call, *fields, seconds=PATIENCE_S):
        return decoded(self.channel.unary_unary(f"/runtime.v1.RuntimeService/{call}")(encoded(*fields), timeout=seconds))

    def import_image(self):
        def pack(files, path=None):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as tar:
                if path:
                    tar.add(path, "")
                for name, data in files.items():
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
            return out.getvalue()
        layer = pack({}, self.tree)
        config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["sleep", "1000000"], "Env": ["PATH=/bin"]},
                  "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}
        manifest = [{"Config": "config.json", "RepoTags": [f"{IMAGE}:latest"], "Layers": ["layer.tar"]}]
        archive = os.path.join(self.engine_dir, "image.tar")
        with open(archive, "wb") as f:
            f.write(pack({"manifest.json": json.dumps(manifest).encode(), "config.json": json.dumps(config).encode(), "layer.tar": layer}))
        self.run("ctr", "-a", f"{self.engine_dir}/sock", "-n", "k8s.io", "images", "import", "--snapshotter", "native", archive)

    def container(self, name, *command, publish=None):
        """A pod with one container."""
        ports = [(5, encoded((2, inside), (3, host))) for host, inside in (publish or {}).items()]
        sandbox = encoded((1, encoded((1, name), (2, name), (3, "default"))), *ports, (8, b""))
        pod = self.cri("RunPodSandbox", (1, sandbox))[1].decode()
        self.pods[name] = pod, None
        config = encoded((1, encoded((1, name))), (2, encoded((1, IMAGE))), *((3, word) for word in command))
        main = self.cri("CreateContainer", (1, pod), (2, config), (3, sandbox))[1].decode()
        self.pods[name] = pod, main
        self.cri("StartContainer", (1, main))
        network = decoded(decoded(self.cri("PodSandboxStatus", (1, pod))[1])[5])
        return Container(self, name, network[1].decode())

    def execute(self, name, *argv, check, seconds):
        said = self.cri("ExecSync", (1, self.pods[name][1]), *((2, word) for word in argv), (3, seconds), seconds=max(seconds, PATIENCE_S))
        p = subprocess.CompletedProcess(argv, said.get(3, 0), *(said.get(i, b"").decode(errors="replace") for i in (1, 2)))
        if check:
            p.check_returncode()
        return p

    def remove_containers(self):
        for pod, _ in self.pods.values():
            self.cri("StopPodSandbox", (1, pod))
            self.cri("RemovePodSandbox", (1, pod))


class PtpNode(ContainerdNode):
    """Each pod at the end of a pair of interfaces, no bridge."""
    network = {"type": "ptp"}


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def encoded(*fields):
    """A message of Protocol Buffers: (number, value), a value being an int, text, or bytes, which is also a message."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def decoded(data):
    """{number: the last value}; integers and bytes are all that is asked for."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            at += 1
            value |= (data[at - 1] & 127) << shift
            shift += 7
            if data[at - 1] < 128:
                return value
    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            at += value
            value = data[at - value:at]
        found[key >> 3] = value
    return found


class Container:
    def __init__(self, node, name, address):
        self.node, self.name, self.address = node, name, address

    def run(self, *argv, check=True, seconds=30):
        return self.node.execute(self.name, *argv, check=check, seconds=seconds)

    def get(self, url):
        """What busybox's wget prints; None when it fails."""
        # not wget -T: Debian 12's static busybox crashes on it
        p = self.run("timeout", "30", "wget", "-q", "-O-", url, check=False)
        return p.stdout if p.returncode == 0 else None


def web(node, name, host_port):
    """A container whose web server says its name, published on host_port."""
    return node.container(name, "sh", "-c", f"echo {name} > /www/index.html; exec httpd -f -p 8080 -h /www",
                          publish={host_port: 8080})
