"""Nodes with a real Docker Engine: dockerd inside the node's namespaces, with its own docker0 and iptables rules.

    node = EngineNode(lab, "edge-1", "192.0.2.11")
    web = node.container("web", "httpd", "-f", "-p", "8080", publish={30080: 8080})
    client = node.container("client", "sleep", "1000000"); client.run("wget", "-qO-", "http://edge-nginx")

The image is a folder with Debian's static busybox, imported: nothing is downloaded.
"""
import os
import shutil

from lab import Node, wait_for

APPLETS = "cat echo getent httpd ip nc nslookup ping sh sleep timeout wget".split()


def available():
    return all(shutil.which(p) for p in ("dockerd", "docker", "busybox"))


class EngineNode(Node):
    def __init__(self, lab, name, address):
        super().__init__(lab, name, address, bridge=False)
        self.engine_dir = os.path.join(self.dir, "docker")
        self.host = f"unix://{self.engine_dir}/docker.sock"
        os.makedirs(self.engine_dir)
        d = self.engine_dir
        script = (f"mount -t sysfs sysfs /sys && mount -t cgroup2 none /sys/fs/cgroup && exec dockerd "
                  f"--storage-driver vfs --data-root {d}/data --exec-root {d}/run --pidfile {d}/pid -H {self.host}")
        self.dockerd = self.start("dockerd", "sh", "-c", script)
        lab.closers.append(self.remove_containers)

        def up():
            if not self.dockerd.alive():
                raise RuntimeError(f"dockerd ended:\n{self.dockerd.log()[-2000:]}")
            return self.docker("version", check=False).returncode == 0
        wait_for(f"the Docker Engine of {name}", up, 40, 0.1)
        self.import_image()

    def docker(self, *argv, seconds=60, check=True):
        return self.run("docker", "-H", self.host, *argv, seconds=seconds, check=check)

    def import_image(self):
        tree = os.path.join(self.engine_dir, "tree")
        for folder in ("bin", "www", "tmp", "etc"):
            os.makedirs(os.path.join(tree, folder))
        shutil.copy(shutil.which("busybox"), os.path.join(tree, "bin", "busybox"))
        for applet in APPLETS:
            os.symlink("busybox", os.path.join(tree, "bin", applet))
        self.run("sh", "-c", f"tar -C {tree} -c . | docker -H {self.host} import - edgeway-lab", seconds=60)
        self.docker("run", "--rm", "edgeway-lab", "sh", "-c", "true")  # an engine that starts may still run nothing

    def container(self, name, *command, publish=None, options=()):
        """publish: {port of the node: port inside, with "/udp" behind it if it is that}."""
        ports = [a for host, inside in (publish or {}).items() for a in ("-p", f"{host}:{inside}")]
        self.docker("run", "-d", "--name", name, *ports, *options, "edgeway-lab", *command)
        return Container(self, name)

    def remove_containers(self):
        ids = self.docker("ps", "-aq", check=False).stdout.split()
        if ids:
            self.docker("rm", "-f", *ids, check=False)


class Container:
    def __init__(self, node, name):
        self.node, self.name = node, name
        self.address = node.docker("inspect", "-f", "{{.NetworkSettings.IPAddress}}", name).stdout.strip()

    def run(self, *argv, check=True, seconds=30):
        return self.node.docker("exec", self.name, *argv, check=check, seconds=seconds)

    def get(self, url):
        """What busybox's wget prints; None when it fails."""
        # not wget -T: Debian 12's static busybox crashes on it
        p = self.run("timeout", "30", "wget", "-q", "-O-", url, check=False)
        return p.stdout if p.returncode == 0 else None


def web(node, name, host_port):
    """A container whose web server says its name, published on host_port."""
    return node.container(name, "sh", "-c", f"echo {name} > /www/index.html; exec httpd -f -p 8080 -h /www",
                          publish={host_port: 8080})
