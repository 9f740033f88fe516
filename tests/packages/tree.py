"""A clean Debian of its own under a temporary folder, of the very release and mirrors of this machine.

Every command runs in namespaces of its own (mounts, processes): nothing is left mounted and nobody runs on, however it ends.
"""
import glob
import os
import shutil
import subprocess
import tempfile

# Processes and mounts end with the first one.
APART = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
# The tree is a mount, so that programs in it may change how mounts pass on.
INSIDE = 'mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}


SCRIPTS = "/usr/share/debootstrap/scripts"
# For building packages: how the code is compiled is seen to elsewhere.
QUICKLY = {"DEB_BUILD_OPTIONS": f"nocheck noautodbgsym parallel={os.cpu_count()}", "DEB_CFLAGS_APPEND": "-O0 -g0 -U_FORTIFY_SOURCE"}


def run(argv, seconds, check=True, **more):
    # A session of its own, which ends when the time is up: what it started goes with it.
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", start_new_session=True, **more)
    try:
        out, _ = p.communicate(timeout=seconds)
    except BaseException:
        os.killpg(p.pid, 9)
        out, _ = p.communicate()
        print(f"{argv[0]} did not end by itself:\n{out[-4000:]}")
        raise
    if check:
        assert p.returncode == 0, f"{' '.join(argv)}: status {p.returncode}\n{out[-6000:]}"
    return p.returncode, out


def os_release(key):
    with open("/etc/os-release") as f:
        return dict(line.rstrip().replace('"', "").split("=", 1) for line in f if "=" in line)[key]


def apt_sources():
    return [p for p in ["/etc/apt/sources.list"] if os.path.isfile(p)] + sorted(
        glob.glob("/etc/apt/sources.list.d/*.list") + glob.glob("/etc/apt/sources.list.d/*.sources"))


def mirror(codename):
    """The address from which this machine's apt takes its release."""
    for path in apt_sources():
        with open(path) as f:
            text = f.read()
        for line in text.splitlines():
            words = [w for w in line.split() if not w.startswith(("[", "signed-by", "arch="))]
            if words[:1] == ["deb"] and words[2:3] == [codename]:
                return words[1]
        for part in text.split("\n\n"):
            fields = dict(line.split(":", 1) for line in part.splitlines() if ":" in line and line[0] not in "# \t")
            if codename in fields.get("Suites", "").split():
                return fields["URIs"].split()[0]
    raise AssertionError(f"apt of this machine has no source for {codename}")


def script(codename):
    """debootstrap's, where it is older than the release: the one that all of Ubuntu have."""
    return [] if os.path.exists(f"{SCRIPTS}/{codename}") else [f"{SCRIPTS}/gutsy"]


class Tree:
    def __init__(self, codename=None, folder=None, options=(), at=None):
        """codename: of a Debian that the machine's mirror has as well, or of what `at` has, the address of another mirror; options: debootstrap's;
        folder: where to (the system's temporary one)."""
        own = os_release("VERSION_CODENAME")
        self.root = tempfile.mkdtemp(prefix="edgeway-debian-", dir=folder)
        os.chmod(self.root, 0o755)
        env = {**os.environ, **ENV}
        proxy = run(["apt-config", "shell", "P", "Acquire::http::Proxy"], 30)[1]
        if "'" in proxy:
            env["http_proxy"] = proxy.split("'")[1]
        try:
            run([*APART, "debootstrap", "--variant=minbase", *options, codename or own, self.root, at or mirror(own), *script(codename or own)], 400, env=env)
            self.follow_apt(codename in (None, own))
        except BaseException:
            self.close()
            raise

    def follow_apt(self, sources):
        """The machine's settings; its own sources, too, for libraries of the versions that the packages were built with."""
        if sources:
            os.unlink(self.path("/etc/apt/sources.list"))
            for path in apt_sources():
                shutil.copy(path, self.path(path))
        for folder in ("/etc/apt/keyrings", "/etc/apt/trusted.gpg.d", "/usr/share/keyrings", "/etc/ssl/certs"):
            if os.path.isdir(folder):
                shutil.copytree(folder, self.path(folder), dirs_exist_ok=True)
        with open(self.path("/etc/apt/apt.conf.d/00machine"), "w") as f:
            f.write(run(["apt-config", "dump", "Acquire"], 30)[1])
            f.write('DPkg::Options {"--force-unsafe-io";};\n')

    def copy(self):
        """The same once more, with a life of its own."""
        made = Tree.__new__(Tree)
        made.root = tempfile.mkdtemp(prefix="edgeway-debian-", dir=os.path.dirname(self.root))
        try:
            run(["cp", "-a", f"{self.root}/.", made.root], 120)
        except BaseException:
            made.close()
            raise
        return made

    def path(self, inside):
        return self.root + inside

    def run(self, *argv, seconds=60, check=True, before=()):
        """(status, output) of a command in the tree."""
        return run([*before, *APART, "sh", "-c", INSIDE, self.root, *argv], seconds, check, env=ENV)

    def files(self):
        """What is there, but for what apt and dpkg keep for themselves, logs and caches."""
        found = set()
        for folder, folders, names in os.walk(self.root):
            here = folder[len(self.root):]
            if here.startswith(("/proc", "/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log")):
                folders.clear()
                continue
            found.update(f"{here}/{n}" for n in names + folders)
        return found

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)
