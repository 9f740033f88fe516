"""An edge node that systemd runs (booted.py), with our packages in some version; a container's network behind its docker0.

    node = Node(tree.root, "edge-1")
    node.install(folder)
    node.install(repack(folder, 2))        # the next Debian revision of the same
    pod = Pod(node, 2)                     # 172.17.0.2, once there is a docker0
"""
import glob
import os
import re
import shutil
import tempfile

from booted import Booted, Process, wait_for
from tree import run

AGENT, HUB = "edgeway-agent.service", "edgeway-hub.service"
NAME = "web.default.svc.cluster.local"
FORMER = b"# of the machine\nnameserver 192.0.2.53\n"


class Node(Booted):
    def show(self, unit, *names):
        said = dict(line.split("=", 1) for line in self.run("systemctl", "show", unit, *[f"-p{n}" for n in names])[1].splitlines())
        return [said[n] for n in names]

    def main(self, unit=AGENT):
        return self.show(unit, "MainPID")[0]

    def said(self, match, text):
        return text in self.run("journalctl", "--no-pager", "-o", "cat", "-b", match)[1]

    def serves(self):
        status, out = self.run("edgewayctl", "-o", "json", "status", check=False)
        return status == 0 and '"program"' in out and self.resolv() != FORMER

    def resolv(self):
        with open(self.path("/etc/resolv.conf"), "rb") as f:
            return f.read()

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "w") as f:
            f.write(text)

    def table(self):
        status, out = run(self.net("nft", "list", "table", "ip", "edgeway"), 20, check=False)
        return out if status == 0 else None

    def drop_in(self, unit, text):
        self.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
        self.run("systemctl", "daemon-reload")

    def install(self, folder, check=True):
        """With dpkg, as apt does it: (status, output)."""
        for p in glob.glob(f"{folder}/edgeway*.deb"):
            shutil.copy(p, self.path("/root"))
        names = [os.path.basename(p) for p in glob.glob(f"{folder}/edgeway*.deb")]
        return self.run("dpkg", "-i", *[f"/root/{n}" for n in sorted(names)], seconds=90, check=check)


def network(node, name, log):
    """A network of its own that the node may lead to: the process that holds it."""
    holder = Process(name, node.net("unshare", "--net", "sleep", "100000"), log)
    ours = os.stat("/proc/self/ns/net").st_ino, os.stat(f"/proc/{node.first()}/ns/net").st_ino
    wait_for("a network", lambda: os.stat(f"/proc/{holder.pid}/ns/net").st_ino not in ours)
    return holder


class Pod:
    """A network behind docker0."""

    def __init__(self, node, number):
        self.address = f"172.17.0.{number}"
        self.log = node.path(f"/var/log/pod-{number}")
        self.holder = network(node, "pod", self.log)
        run(node.net("ip", "link", "add", f"veth{number}", "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid)), 20)
        run(node.net("ip", "link", "set", f"veth{number}", "master", "docker0", "up"), 20)
        for words in ("link set lo up", f"addr add {self.address}/16 dev eth0", "link set eth0 up", "route add default via 172.17.0.1"):
            run(self.words("ip", *words.split()), 20)

    def words(self, *argv):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *argv]

    def resolve(self):
        return run(self.words("dig", "+short", "+time=2", "@172.17.0.1", NAME), 20)[1].strip()

    def get(self):
        return run(self.words("curl", "-s", "-m", "5", f"http://{self.resolve()}/"), 20)[1].strip()


def repack(folder, revision, program=None):
    """A folder of the same packages with another revision, and perhaps another file for the agent's program."""
    made = tempfile.mkdtemp(prefix="edgeway-debs-")
    for deb in sorted(glob.glob(f"{folder}/edgeway*.deb")):
        files = f"{made}/files"
        run(["dpkg-deb", "-R", deb, files], 60)
        with open(f"{files}/DEBIAN/control", "r+") as f:
            text = re.sub(r"^(Version: \S+-)\d+$", rf"\g<1>{revision}", f.read(), flags=re.M)
            f.seek(0)
            f.write(text)
        if program and os.path.exists(f"{files}/usr/sbin/edgeway-agent"):
            with open(f"{files}/usr/sbin/edgeway-agent", "w") as f:
                f.write(program)
        run(["dpkg-deb", "-b", "--root-owner-group", "-Znone", files, made], 60)
        shutil.rmtree(files)
    return made
