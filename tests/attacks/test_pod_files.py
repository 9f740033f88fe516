"""A container, and root who runs edgewayctl doctor on its node: the doctor reads the resolv.conf of containers, which may be anything there. It must
end, and neither read nor open what is outside."""
import os

import pytest

from lab import Agent, Hub, Node, wait_for

SERVER, SECRET = "198.51.100.9", "198.51.100.66"
SAID = "asks the name server "


class Town:
    def __init__(self, lab):
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.agent = Agent(self.node, Hub(lab))
        self.pod = self.node.pod("hostile")
        self.etc = os.path.dirname(self.pod.resolv_conf)
        with open(os.path.join(self.node.dir, "etc", "of-the-host"), "w") as f:
            f.write(f"nameserver {SECRET}\n")
        with open(os.path.join(self.etc, "own"), "w") as f:
            f.write(f"nameserver {SERVER}\n")

    def doctor(self):
        return self.node.run(self.node.lab.program("edgewayctl"), "--socket", self.agent.socket, "doctor", check=False).stdout


@pytest.fixture(scope="module")
def town(lab):
    return Town(lab)


def sparse(path):
    with open(path, "w") as f:
        f.truncate(1 << 40)


KINDS = {
    "a FIFO": os.mkfifo,
    "a link to a FIFO": lambda path: (os.mkfifo(path + ".fifo"), os.symlink("/etc/resolv.conf.fifo", path)),
    "a socket": lambda path: os.mknod(path, 0o140666),
    "a device": lambda path: os.mknod(path, 0o020666, os.makedev(5, 0)),
    "a folder": os.mkdir,
    "a file without an end": sparse,
    "a link to a file of the host": lambda path: os.symlink("/etc/of-the-host", path),
    "a link upwards": lambda path: os.symlink("../" * 9 + "etc/of-the-host", path),
    "a link that leads through a process": lambda path: os.symlink("/proc/1/root/etc/hostname", path),
    "a link to itself": lambda path: os.symlink("resolv.conf", path),
}


@pytest.fixture
def resolv_conf(town):
    os.unlink(town.pod.resolv_conf)
    yield town.pod.resolv_conf
    (os.rmdir if os.path.isdir(town.pod.resolv_conf) else os.unlink)(town.pod.resolv_conf)
    os.symlink("own", town.pod.resolv_conf)


@pytest.mark.parametrize("link", ["own", "/etc/own", "../etc/own"])
def test_what_is_its_own_is_read(town, resolv_conf, link):
    os.symlink(link, resolv_conf)
    assert SAID + SERVER in town.doctor()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_of_it_is_left(town, resolv_conf, kind):
    KINDS[kind](resolv_conf)
    said = town.doctor()
    assert "hostile" in said or "DNS at 172.17.0.1:53" in said
    assert SAID not in said


def test_a_process_in_a_folder_of_its_own(town):
    """It has changed its root: of what is above that it has nothing."""
    jail = os.path.join(town.pod.dir, "jail")
    os.makedirs(os.path.join(jail, "etc"))
    os.symlink("../../etc/own", os.path.join(jail, "etc", "resolv.conf"))
    prisoner = town.pod.start("prisoner", "/usr/bin/python3", "-c", f"import os, time; os.chroot('{jail}'); print('in', flush=True); time.sleep(600)")
    wait_for("it is in", lambda: "in" in prisoner.log())
    town.pod.holder.kill()  # what is left in its network is the one with the jail
    town.pod.holder.wait()
    said = town.doctor()
    assert f"(pid {prisoner.pid})" in said and SAID not in said
