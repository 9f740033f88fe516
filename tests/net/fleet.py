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

    def say(self, *words):
        self.popen.stdin.write(" ".join(map(str, words)) + "\n")
        self.popen.stdin.flush()

    def ask(self, *words):
        self.say(*words)
        return self.answer()

    def log(self):
        with open(self.errors, encoding="utf-8", errors="replace") as f:
            return f.read()

    def close(self):
        self.popen.kill()
        self.popen.wait()


class Fleets:
    """One fleet in several processes, since each has a limit of descriptors: the same questions, one answer. Of times the latest counts."""

    SOURCES = 32  # addresses that the nodes of each dial from: ports for all, and sites of many nodes

    def __init__(self, hub, nodes, count):
        self.shares = [nodes // count + (i < nodes % count) for i in range(count)]
        self.fleets = [Fleet(hub, "tunnels", address=f"192.0.2.{3 + i}") for i in range(count)]
        for i, fleet in enumerate(self.fleets):
            first = 100 + i * self.SOURCES
            for n in range(self.SOURCES):
                fleet.machine.run("ip", "addr", "add", f"192.0.2.{first + n}/24", "dev", "eth0")
            fleet.ask("sources", f"192.0.2.{first}", self.SOURCES)
            fleet.ask("first", sum(self.shares[:i]))
        self.pids = [f.popen.pid for f in self.fleets]

    def ask(self, command, *words):
        answers = []
        for fleet, share in zip(self.fleets, self.shares):
            fleet.say(command, *([share, *words] if command in ("make", "storm") else words))
        for fleet in self.fleets:
            answers.append(fleet.answer())
        return {key: (max if key in ("seconds", "p50", "p99", "last", "at", "holds") else sum)(a[key] for a in answers) for key in answers[0]}


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
