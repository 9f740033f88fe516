"""A daemon that was taken over, or somebody with its account, and root who runs edgewayctl bundle: the archive goes to others, and must not have
what only root, or a group of root's, may read."""
import os
import tarfile

from lab import NOBODY, BARE_PYTHON, Machine, wait_for

# It listens where edgewayctl asks, and says by its arguments that its configuration is another file.
IMPOSTOR = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(8)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.close()
"""


def test_a_file_of_root_is_not_read_for_a_daemon(lab):
    machine = Machine(lab, "node", address="192.0.2.11")
    folder = os.path.join(machine.dir, "run")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    for path in (lab.dir, machine.dir):
        os.chmod(path, 0o755)
    files = {}
    for name, mode in (("shadow", 0o600), ("group", 0o640), ("own.yaml", 0o644)):
        files[name] = os.path.join(folder, name)
        with open(files[name], "w") as f:
            f.write(f"what {name} says\n")
        os.chmod(files[name], mode)
    link = os.path.join(folder, "link.yaml")
    os.symlink(files["shadow"], link)
    for i, (config, there) in enumerate(((files["own.yaml"], True), (files["shadow"], False), (files["group"], False), (link, False))):
        sock, archive = os.path.join(folder, f"{i}.sock"), os.path.join(machine.dir, f"{i}.tar.gz")
        p = machine.start(f"impostor-{i}", *NOBODY, *BARE_PYTHON, "-c", IMPOSTOR, sock, "--config", config)
        wait_for("it listens", lambda p=p: "ready" in p.log())
        said = machine.run("setpriv", "--groups", "0", lab.program("edgewayctl"), "--socket", sock, "bundle", archive).stdout
        with tarfile.open(archive) as tar:
            texts = "".join(tar.extractfile(m).read().decode(errors="replace") for m in tar.getmembers())
        assert ("what own.yaml says" in texts) == there and "what shadow says" not in texts and "what group says" not in texts
        assert there or "Permission denied" in next(line for line in said.splitlines() if line.startswith("config.yaml"))
        p.kill()


def test_a_file_of_the_host_is_not_read_for_a_container(lab):
    """A daemon in a container is root there, and has the same number as root; links in its configuration's path lead nowhere but in its own root."""
    machine, container = Machine(lab, "host", address="192.0.2.12"), Machine(lab, "container", attach=False)
    for where, name in ((machine, "of-the-host"), (container, "own.yaml")):
        with open(os.path.join(where.dir, "etc", name), "w") as f:
            f.write(f"what {name} says\n")
    for name, target in (("link.yaml", "/etc/of-the-host"), ("own-link.yaml", "/etc/own.yaml")):
        os.symlink(target, os.path.join(container.dir, "etc", name))
    os.mkfifo(os.path.join(container.dir, "etc", "fifo"))
    for i, (config, there) in enumerate((("/etc/link.yaml", False), ("/etc/fifo", False), ("/etc/own-link.yaml", True), ("etc/own.yaml", True))):
        sock, archive = os.path.join(machine.dir, f"{i}.sock"), os.path.join(machine.dir, f"{i}.tar.gz")
        p = container.start(f"impostor-{i}", *BARE_PYTHON, "-c", f"import os; os.chdir('/')\n{IMPOSTOR}", sock, "--config", config)
        wait_for("it listens", lambda p=p: "ready" in p.log())
        machine.run(lab.program("edgewayctl"), "--socket", sock, "bundle", archive)
        with tarfile.open(archive) as tar:
            texts = "".join(tar.extractfile(m).read().decode(errors="replace") for m in tar.getmembers())
        assert ("what own.yaml says" in texts) == there and "what of-the-host says" not in texts
        p.kill()
