"""What of the host is fought over: each program that Debian has for resolv.conf, the real one, on a machine with systemd (booted.py)
whose uplink leads to a DHCP server. With each of them the agent starts, is killed and stops, the other one starts anew, the link
goes away and comes back, and the lease changes: names of the cluster and of the world are found every time, and in the end
resolv.conf is byte for byte what the other program writes. Root; top_builddir names the configured build.
"""
import glob
import os
import re
import time

import pytest

from booted import Process, wait_for
from edge import AGENT, HUB, Node, network
from tree import run

WEB = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
"""
NAME, WORLD = "web.default.svc.cluster.local", "www.world.test"
PACKAGES = ("systemd", "systemd-resolved", "libnss-resolve", "dbus", "network-manager", "isc-dhcp-client", "connman", "iproute2")
UNITS = ("systemd-networkd", "systemd-resolved", "NetworkManager", "NetworkManager-wait-online", "connman", "connman-wait-online",
         "wpa_supplicant", "systemd-networkd-wait-online")
RESOLV = "/etc/resolv.conf"
DOCKER0 = "ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up"
# connman believes no datagram whose checksum the sender leaves to its hardware (ETHTOOL_STXCSUM).
CHECKSUMS = "import array, fcntl, socket, struct; off = array.array('I', [0x17, 0]); " \
            "fcntl.ioctl(socket.socket(), 0x8946, struct.pack('16sP', b'lan', off.buffer_info()[0]))"


class Uplink:
    """Behind the machine's eth0: a router that gives leases, and has a name server at one address or the other."""

    def __init__(self, node):
        self.node, self.server, self.dns = node, None, 0
        self.log = node.path("/var/log/uplink")
        self.holder = network(node, "uplink", self.log)
        run(node.net("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "lan", "netns", str(self.holder.pid)), 20)
        self.ip("link set lo up", "addr add 192.0.2.254/24 dev lan", "link set lan up")
        run(self.words("/usr/bin/python3", "-c", CHECKSUMS), 20)
        self.lease(1)

    def words(self, *argv):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *argv]

    def ip(self, *lines):
        for line in lines:
            run(self.words("ip", *line.split()), 20)

    def lease(self, dns):
        """From now on the name server is 192.0.2.DNS, and nobody is at its former address."""
        if self.server:
            self.server.kill()
            self.ip(f"addr del 192.0.2.{self.dns}/24 dev lan")
        self.dns = dns
        self.ip(f"addr add 192.0.2.{dns}/24 dev lan")
        self.server = Process("dnsmasq", self.words(
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts", "--no-resolv", "--bind-dynamic", "--no-ping", "--pid-file=",
            "--user=root", "--dhcp-range=192.0.2.10,192.0.2.20,2m", f"--dhcp-leasefile={self.log}.leases", "--dhcp-authoritative", "--log-dhcp",
            f"--dhcp-option=6,192.0.2.{dns}", f"--domain=site{dns}.example", "--dhcp-option=3,192.0.2.254",
            f"--address=/{WORLD}/203.0.113.7", "--log-facility=-"), self.log)

    def link(self, state):
        run(self.node.net("ip", "link", "set", "eth0", state), 20)

    def close(self):
        self.server.kill()
        self.holder.kill()


class Host(Node):
    """A node, and what is in its resolv.conf."""

    def file(self):
        """(where the link leads or "", its bytes)"""
        return (self.run("readlink", RESOLV, check=False)[1].strip(), self.run("cat", RESOLV, check=False)[1])

    def finds(self, name, address):
        """By all that nsswitch.conf names, and by resolv.conf alone."""
        return all(address in self.run("getent", *only, "ahostsv4", name, check=False)[1] for only in ([], ["-s", "dns"]))

    def resolves(self, when):
        wait_for(f"the cluster's name {when}", lambda: self.finds(NAME, "9.251."), 40)
        wait_for(f"the world's name {when}", lambda: self.finds(WORLD, "203.0.113.7"), 40)

    def rest(self, uplink):
        uplink.link("down")
        run(self.net("ip", "addr", "flush", "dev", "eth0"), 20)
        self.run("sh", "-c", f"rm -f {RESOLV}; : >{RESOLV}")

    def ours(self):
        return "# edgeway:" in self.file()[1]

    def kill_agent(self):
        """Until systemd has seen its end: to it a unit is active before, and nothing is to be started."""
        self.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", AGENT)
        wait_for("its end", lambda: self.show(AGENT, "ActiveState") == ["failed"])
        self.run("systemctl", "reset-failed", AGENT)

    def unmask(self, *units):
        self.run("systemctl", "unmask", *units)

    def mask(self, *units):
        self.run("systemctl", "mask", "--now", *units)


class Rival:
    units = ()
    keeps_search = False

    def __init__(self, node, uplink):
        self.node, self.uplink = node, uplink

    def prepare(self):
        pass

    def start(self):
        self.node.unmask(*self.units)
        self.node.run("systemctl", "start", *self.units)

    def restart(self):
        self.node.run("systemctl", "restart", *self.units)

    def renew(self):
        raise NotImplementedError

    def stop(self):
        self.node.mask(*self.units)

    def settle(self):
        """So that it writes once more what it has."""

    def has_lease(self):
        return f"192.0.2.{self.uplink.dns}" in self.servers()

    def servers(self):
        return self.node.file()[1]


class Dhclient(Rival):
    def start(self):
        self.node.run("systemd-run", "--unit=dhclient", "--collect", "-p", "Type=forking", "dhclient", "-v", "-pf", "/run/dhclient.pid", "eth0")

    def restart(self):
        self.stop()
        self.start()

    renew = restart

    def stop(self):
        self.node.run("systemctl", "stop", "dhclient", check=False)


class NetworkManager(Rival):
    units = ("NetworkManager",)
    main = "rc-manager=symlink\nsystemd-resolved=false"

    def prepare(self):
        self.node.write("/etc/NetworkManager/conf.d/test.conf", f"[main]\n{self.main}\n")
        profile = "/etc/NetworkManager/system-connections/eth0.nmconnection"
        self.node.write(profile, "[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n[ipv4]\nmethod=auto\n[ipv6]\nmethod=disabled\n")
        os.chmod(self.node.path(profile), 0o600)

    def renew(self):
        self.node.run("nmcli", "connection", "up", "eth0")


class Connman(Rival):
    """Its resolv.conf names itself, a forwarder on the loopback."""
    units = ("connman",)
    since = None  # without a lease

    def prepare(self):
        self.node.run("ln", "-sfn", "/run/connman/resolv.conf", RESOLV)  # as its tmpfiles.d does at a boot
        self.node.write("/etc/connman/main.conf", "[General]\nNetworkInterfaceBlacklist=docker,veth\n")  # it takes down at its start what it manages

    def servers(self):
        return self.node.run("sh", "-c", "connmanctl services $(connmanctl services | awk '{print $NF}') | grep '^ *Nameservers ='", check=False)[1]

    def renew(self):
        self.uplink.link("down")
        time.sleep(1)
        self.uplink.link("up")

    def has_lease(self):
        """It may give up a service whose link comes and goes too fast: then the link goes for longer."""
        if super().has_lease():
            self.since = None
            return True
        self.since = self.since or time.monotonic()
        if time.monotonic() - self.since > 12:
            self.uplink.link("down")
            time.sleep(4)
            self.uplink.link("up")
            self.since = time.monotonic()
        return False


class Networkd(Rival):
    """systemd-networkd with systemd-resolved."""
    units = ("systemd-networkd", "systemd-resolved")

    def prepare(self):
        self.node.write("/etc/systemd/network/eth0.network", "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n[DHCPv4]\nUseDomains=yes\n")
        self.node.run("ln", "-sfn", "/run/systemd/resolve/stub-resolv.conf", RESOLV)

    def renew(self):
        self.node.run("networkctl", "renew", "eth0")

    keeps_search = True
    settle = renew

    def servers(self):
        return self.node.run("cat", "/run/systemd/resolve/resolv.conf", check=False)[1]


class ManagerOfResolved(NetworkManager):
    """NetworkManager, which sets resolved's links; docker0 is a connection of its own to it."""
    units = ("systemd-resolved", "NetworkManager")
    main = "dns=systemd-resolved"
    keeps_search = True
    settle = NetworkManager.renew

    def prepare(self):
        super().prepare()
        self.node.run("ln", "-sfn", "/run/systemd/resolve/stub-resolv.conf", RESOLV)

    servers = Networkd.servers


class Framework(Dhclient):
    """dhclient tells resolvconf, of the package that is installed for it."""

    def __init__(self, node, uplink, package, target):
        super().__init__(node, uplink)
        self.target = target
        node.run("apt-get", "install", "-q", "-y", "--no-download", "--no-install-recommends", package)

    def prepare(self):
        if self.target:
            self.node.run("ln", "-sfn", self.target, RESOLV)

    def servers(self):
        return self.node.run("cat", self.target or RESOLV, check=False)[1]


@pytest.fixture(scope="module")
def node(folder, clean):
    """A machine with all of them, none of which runs; hub and agent are installed, and the hub serves."""
    tree = clean.result().copy()
    node = None
    try:
        run(["cp", "--remove-destination", RESOLV, tree.path(RESOLV)], 20)  # other tests have written their own
        depends = [run(["dpkg-deb", "-f", p, "Depends"], 20)[1].strip() for p in glob.glob(f"{folder}/edgeway*.deb")]
        tree.run("apt-get", "update", "-q", seconds=120)
        for package in ("resolvconf", "openresolv"):  # in place of systemd-resolved, later; while there is a resolv.conf
            tree.run("apt-get", "install", "-q", "-y", "--download-only", "--no-install-recommends", package, seconds=120)
        tree.run("apt-get", "satisfy", "-q", "-y", "--no-install-recommends", *PACKAGES, *depends, seconds=400)
        tree.run("systemctl", "mask", *UNITS)
        node = Host(tree.root, "edge-1")
        node.install(folder)
        configure(node)
        yield node
    finally:
        if node:
            node.close()
        tree.close()


def configure(node):
    node.write("/etc/edgeway/manifests/web.yaml", WEB)
    node.write("/etc/edgeway/hub.yaml", "source: {manifests: /etc/edgeway/manifests}\ntls: {names: [127.0.0.1]}\n")
    node.run("systemctl", "start", HUB)
    node.write("/etc/edgeway/token", node.run("edgewayctl", "--socket", "/run/edgeway/hub.sock", "token", "create", "--node", "edge-1")[1].split()[-1])
    node.drop_in(AGENT, "[Service]\nRestart=no\n")
    run(node.net("sh", "-c", DOCKER0), 20)


@pytest.fixture(scope="module")
def uplink(node):
    uplink = Uplink(node)
    node.rest(uplink)  # its first boot has made a link of resolv.conf
    yield uplink
    uplink.close()


def agent(node, host):
    node.write("/etc/edgeway/agent.yaml", 'node: edge-1\nhub: {url: "wss://127.0.0.1:10000", tokenFile: /etc/edgeway/token}\n'
               f"dns: {{host: {host}}}\n")


def is_as_before(node, rival, former, host):
    """The agent puts the link back, or the bytes, by itself and at once. What is behind the link is the other program's: resolved has
    found our search list in resolv.conf, and has it in its own file until it writes that again."""
    def apart_from_search(file):
        return file[0], [line for line in file[1].splitlines() if not line.startswith("search ")]
    node.run("systemctl", "stop", AGENT)
    assert apart_from_search(node.file()) == apart_from_search(former) if rival.keeps_search and host == "file" else node.file() == former
    rival.settle()
    wait_for("resolv.conf as it was", lambda: node.file() == former)


def fought_over(node, uplink, rival, host="file"):
    uplink.lease(1)
    uplink.link("up")
    rival.prepare()
    rival.start()
    agent(node, host)
    try:
        wait_for("its lease", rival.has_lease, 40)
        wait_for("the world's name", lambda: node.finds(WORLD, "203.0.113.7"), 40)
        former = node.file()
        node.run("systemctl", "start", AGENT)
        node.resolves("first")
        assert node.ours() == (host == "file") and node.finds("web", "9.251.") == (host == "file")
        rival.restart()
        node.resolves("after its restart")
        uplink.link("down")
        time.sleep(1.5)
        assert node.finds(NAME, "9.251."), node.file()
        uplink.link("up")
        wait_for("its lease", rival.has_lease, 40)
        node.resolves("after the link's return")
        is_as_before(node, rival, former, host)
        node.run("systemctl", "start", AGENT)
        node.resolves("again")
        uplink.lease(2)
        rival.renew()
        wait_for("its lease", rival.has_lease, 40)
        node.resolves("by the new lease")
        node.kill_agent()
        uplink.lease(1)
        rival.renew()
        wait_for("its lease", rival.has_lease, 40)
        node.run("systemctl", "start", AGENT)
        node.resolves("after kill -9")
        is_as_before(node, rival, former, host)
        assert node.finds(WORLD, "203.0.113.7") and not node.finds(NAME, "9.251.")
    except BaseException:
        for words in (["edgewayctl", "status"], ["journalctl", "-n", "80", "--no-pager", "-o", "cat"], ["resolvectl", "status"], ["connmanctl", "services"], ["ip", "addr"]):
            print(node.run(*words, check=False)[1])
        print(node.file())
        raise
    finally:
        node.run("systemctl", "stop", AGENT, check=False)
        rival.stop()
        node.rest(uplink)


def test_dhclient(node, uplink):
    fought_over(node, uplink, Dhclient(node, uplink))


def test_network_manager(node, uplink):
    fought_over(node, uplink, NetworkManager(node, uplink))


def test_connman(node, uplink):
    fought_over(node, uplink, Connman(node, uplink))


def test_resolved(node, uplink):
    fought_over(node, uplink, Networkd(node, uplink))


def test_route_of_resolved(node, uplink):
    fought_over(node, uplink, Networkd(node, uplink), host="resolved")


def test_route_of_resolved_in_other_hands(node, uplink):
    """It comes back when others take it away, and goes with the agent, however that ended."""
    rival = Networkd(node, uplink)
    uplink.link("up")
    rival.prepare()
    rival.start()
    agent(node, "resolved")

    def route():
        return re.sub(r"^Link \d+ \(docker0\):\s*", "", node.run("resolvectl", "domain", "docker0")[1]).split()
    try:
        node.run("systemctl", "start", AGENT)
        node.resolves("first")
        assert route() == ["~cluster.local", "~251.9.in-addr.arpa"]
        assert re.search(r"DNS Domain:? ~cluster\.local", node.run("resolvectl", "status", "docker0")[1])
        address = node.run("getent", "ahostsv4", NAME)[1].split()[0]
        assert NAME in node.run("getent", "hosts", address)[1]
        assert "routed to us, by systemd-resolved, link docker0" in node.run("edgewayctl", "status")[1]
        node.run("resolvectl", "revert", "docker0")
        node.resolves("after resolvectl revert")
        node.run("systemctl", "stop", "systemd-resolved")
        wait_for("it is told", lambda: "NO ROUTE to us, systemd-resolved does not run" in node.run("edgewayctl", "status")[1], 60)
        node.run("systemctl", "start", "systemd-resolved")
        node.resolves("after its return")
        former = node.main()
        node.run("edgewayctl", "upgrade")
        wait_for("its successor", lambda: node.main() not in (former, "0"))
        assert route() != []
        node.resolves("from its successor")
        run(node.net("ip", "link", "del", "docker0"), 20)
        run(node.net("sh", "-c", DOCKER0), 20)
        node.resolves("by a docker0 made anew")
        for undo in (["edgeway-agent", "--config", "/etc/edgeway/agent.yaml", "--restore"], ["systemctl", "start", AGENT]):
            node.run("systemctl", "start", AGENT)
            node.resolves("before kill -9")
            node.kill_agent()
            assert route() != []
            agent(node, "file" if undo[0] == "systemctl" else "resolved")
            node.run(*undo)
            wait_for("no route", lambda: route() == [])
            agent(node, "resolved")
    except BaseException:
        print(node.run("edgewayctl", "status", check=False)[1], node.run("journalctl", "-n", "80", "--no-pager", "-o", "cat", check=False)[1])
        raise
    finally:
        node.run("systemctl", "stop", AGENT, check=False)
        rival.stop()
        node.rest(uplink)


@pytest.mark.parametrize("host", ["file", "resolved"])
def test_network_manager_with_resolved(node, uplink, host):
    fought_over(node, uplink, ManagerOfResolved(node, uplink), host=host)


def test_resolvconf(node, uplink):
    fought_over(node, uplink, Framework(node, uplink, "resolvconf", "/run/resolvconf/resolv.conf"))


def test_openresolv(node, uplink):
    fought_over(node, uplink, Framework(node, uplink, "openresolv", None))
