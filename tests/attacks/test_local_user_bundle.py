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
