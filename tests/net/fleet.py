"""Many nodes as one process beside a hub: bench/agents.c, driven line by line."""
import json
import os
import subprocess

from lab import HUB_ADDRESS, HUB_PORT, WITH_PARENT, Machine, pod, service


class Fleet:
    def __init__(self, hub, *options, address="192.0.2.3", port=HUB_PORT):
        lab, data = hub.lab, os.path.join(hub.machine.dir, "data")
        self.machine = Machine(lab, f"fleet-{address}", address=address)
        self.errors = os.path.join(self.machine.dir, "agents.log")
        argv = self.machine.argv(*WITH_PARENT, lab.program("bench/agents"), HUB_ADDRESS, port, HUB_ADDRESS,
                                 os.path.join(data, "ca.pem"), os.path.join(data, "ca.key"), *options)
        with open(self.errors, "wb") as errors:
            self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                          start_new_session=True)
        lab.closers.append(self.close)
        self.answer()

    def answer(self):
        line = self.popen.stdout.readline()
        if not line:
            raise RuntimeError("the fleet ended:\n" + self.log()[-2000:])
        return json.loads(line)

    def ask(self, *words):
        self.popen.stdin.write(" ".join(map(str, words)) + "\n")
        self.popen.stdin.flush()
        return self.answer()

    def log(self):
        with open(self.errors, encoding="utf-8", errors="replace") as f:
            return f.read()

    def close(self):
        self.popen.kill()
        self.popen.wait()


def typical(i, version=0, pods=2):
    """A service as they are on the edge, an HTTP port and a few pods behind host ports; version changes its view, not its size."""
    name, ns = f"shop-backend-{i:05d}", f"team-{i % 20}"
    return [service(name, ("http", 80, 8080), namespace=ns)] + [
        pod(f"{name}-7d9f8b6c5d-x{k}k2p", (f"edge-site-{(i + k) % 40:03d}", f"192.168.{(i + k) % 40}.20"), f"172.17.{i // 200 % 200}.{i % 200 + 2}",
            ("http", 8080, 20000 + (i + version) % 10000), app=name, namespace=ns) for k in range(pods)]


def write_typical(hub, numbers, version=0, per_file=500, prefix="services"):
    for rename in prepare_typical(hub, numbers, version, per_file, prefix):
        rename()


def prepare_typical(hub, numbers, version=0, per_file=500, prefix="services"):
    """What is left to call. Of two files that say the same object the one whose name sorts first counts."""
    renames = []
    numbers = list(numbers)
    for at in range(0, len(numbers), per_file):
        part = numbers[at:at + per_file]
        renames.append(hub.prepare(f"{prefix}-{part[0]:05d}-{per_file}.yaml", *[o for i in part for o in typical(i, version)]))
    return renames
