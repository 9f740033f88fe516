"""A tree as a machine of its own: its systemd is the first process, in new namespaces of all kinds and a control group below ours.

    machine = Booted(tree.root)            # up when this returns
    machine.run("systemctl", "is-active", "edgeway-agent")
    machine.off()                          # as by a person, in order; its files stay, and start() is the next morning
    machine.close()

It has no way out: its network is a loopback and what a test adds. /sys and the kernel's settings are read-only to it, but for
those of its network. Everything ends with the process that we started, and that one with us.
"""
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "net"))

from lab import Process, wait_for  # noqa: E402
from tree import ENV, run  # noqa: E402

# Everything of the machine's that a mount shows is left behind by pivot_root.
INSIDE = """set -e
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in dev run tmp; do mount -t tmpfs -o mode=755 tmpfs $folder; done
chmod 1777 tmp
for name in null zero full random urandom tty; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ip link set lo up
mkdir -p mnt/before
pivot_root . mnt/before
cd /
umount -l /mnt/before
mount --make-rshared /
exec env -i container=edgeway-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
	setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio,-syslog /lib/systemd/systemd --log-target=journal
"""
NEW = ["unshare", "--mount", "--propagation", "private", "--cgroup", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]
# What would keep dpkg busy, or mounts what is not ours.
NOT_HERE = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "sys-fs-fuse-connections.mount", "dev-hugepages.mount")


def own_group():
    """The folder of our own control group, version 2."""
    with open("/proc/self/mountinfo") as f:
        fields = [line.split(" - ") for line in f]
    [where, *_] = [left.split()[4] for left, right in fields if right.split()[0] == "cgroup2"]
    with open("/proc/self/cgroup") as f:
        [group] = [line.strip()[3:] for line in f if line.startswith("0::")]
    return where + group.rstrip("/")


class Booted:
    def __init__(self, root, hostname):
        self.root, self.process = root, None
        self.group = os.path.join(own_group(), os.path.basename(root))
        with open(self.path("/etc/hostname"), "w") as f:
            f.write(hostname + "\n")
        for unit in NOT_HERE:
            mask = self.path(f"/etc/systemd/system/{unit}")
            if not os.path.lexists(mask):
                os.symlink("/dev/null", mask)
        self.start()

    def path(self, inside):
        return self.root + inside

    def start(self):
        os.makedirs(f"{self.group}/machine")
        self.process = Process("systemd", ["sh", "-c", 'echo $$ >"$0/machine/cgroup.procs" && exec "$@"', self.group,
                                           *NEW, "sh", "-c", INSIDE, self.root], self.path("/var/log/console"))
        try:
            wait_for("the first process", self.first, 20)
            wait_for("the machine is up", self.up, 60)
        except BaseException:
            self.close()
            raise

    def first(self):
        """The first process inside, by its number out here."""
        assert self.process.alive(), self.process.log()
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            [pid] = f.read().split()
        with open(f"/proc/{pid}/comm") as f:
            return pid if f.read() == "systemd\n" else None

    def up(self):
        return self.run("systemctl", "is-system-running", check=False)[1].strip() in ("running", "degraded")

    def run(self, *argv, seconds=60, check=True, online=False):
        """(status, output) of a command of the machine's own; online: in the network of this machine, as for apt-get."""
        network = [] if online else ["-n"]
        return run(["nsenter", "-t", self.first(), "-m", "-p", *network, "-u", "-i", "-C", "-r", "-w", *argv], seconds, check, env=ENV)

    def net(self, *argv):
        """The words of one of our own commands in its network."""
        return ["nsenter", f"--net=/proc/{self.first()}/ns/net", *argv]

    def off(self):
        self.run("systemctl", "--no-block", "poweroff")
        self.process.wait(60)
        self.remove_groups()

    def close(self):
        if self.process.alive():
            self.process.stop(signal.SIGKILL)
        self.remove_groups()

    def remove_groups(self):
        """Once the last of its processes has gone, whose parent was the first."""
        end = time.monotonic() + 20
        for folder, folders, _ in os.walk(self.group, topdown=False):
            while True:
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
