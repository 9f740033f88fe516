#!/usr/bin/python3
"""What one pod can take: connections of each hostile kind (tests/net/hog.py) from one pod, the agent's memory, and another pod beside it.

    top_builddir=build/gcc /usr/bin/python3 bench/bench_memory.py [--connections 5000] [--rounds 3] [--kinds K...] [--smoke]

Memory is the agent's anonymous memory (/proc/PID/smaps_rollup): before, the most seen while the flood lasts, and after it; beside it
the kernel's memory of TCP, all of the machine's. The other pod asks for 1 KB each 5 ms on a kept connection, without and with the flood, in turn: only
the ratio of the two means anything. At the same time a third one asks the same endpoint without the agent: what it feels is the processors', not the
agent's. Attacker and flooded endpoint have the last processor for themselves, as a pod with a limit would, since nothing that the agent does can give back
what they take of the others. `slow turns`: of the agent's loops, longer than 10 ms, while the flood lasts.
"""
import argparse
import json
import os
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
from lab import Agent, Hub, Lab, Node, pod, service, wait_for  # noqa: E402

KINDS = ("pipelining", "readers", "sips", "heads", "bodies", "idle")
HOG = os.path.join(os.path.dirname(HERE), "tests", "net", "hog.py")
BAR_MB, BAR_P99 = 64, 2.0
CPUS = sorted(os.sched_getaffinity(0))
HOSTILE_CPUS = str(CPUS[-1])
CALM_CPUS = ",".join(map(str, CPUS[:-1] or CPUS))
SETTLE_S = 3  # in which a gigabyte of answers goes into sockets, and the processors have nothing left


class Bench:
    def __init__(self, lab, asks):
        self.asks = asks
        self.node = Node(lab, "edge-1", "192.0.2.11")
        self.hostile, self.other, self.third = (self.node.pod(name) for name in ("hostile", "other", "third"))
        servers = {name: self.node.pod(name) for name in ("hog", "calm")}  # the other pod's own is not what is flooded
        for name, server in servers.items():
            serving = self.hog(server, "serve", "8080", cpus=HOSTILE_CPUS if name == "hog" else CALM_CPUS)
            wait_for("the endpoint", lambda p=serving: "serving" in p.log())
        self.calm_pod = servers["calm"]
        hub = Hub(lab)
        for name, server in servers.items():
            hub.write(name + ".yaml", service(name, ("http", 80, 8080)), pod(name, self.node, server.address, ("http", 8080, 0)))
        self.agent = Agent(self.node, hub)
        self.address, self.calm = (wait_for(name, lambda n=name: self.node.address_of(n + ".default.svc.cluster.local", f"@{self.node.gateway}"))
                                   for name in servers)
        self.pids = frame.children_of(self.agent.process.pid)

    def hog(self, machine, *args, cpus=CALM_CPUS):
        return machine.start(f"hog-{args[0]}", "taskset", "-c", cpus, sys.executable, HOG, *map(str, args))

    def anonymous_mb(self):
        return frame.memory_kb([self.agent.process.pid])[2] / 1024

    def sockets_mb(self):
        """TCP's of the whole machine, in pages."""
        with open("/proc/net/sockstat") as f:
            return next(int(line.split()[-1]) for line in f if line.startswith("TCP:")) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def p99_ms(self):
        """By the agent, and without it; how many failed."""
        both = [self.hog(machine, "ask", address, port, self.asks, 5)
                for machine, address, port in ((self.other, self.calm, 80), (self.third, self.calm_pod.address, 8080))]
        for p in both:
            p.wait(300)
        told = [json.loads(p.log().splitlines()[-1]) for p in both]
        return told[0]["p99_ms"], told[1]["p99_ms"], told[0]["failed"]

    def slow_turns(self):
        return sum(v for k, v in self.agent.metrics().items() if k.startswith("edgeway_loop_slow_turns_total") and 'loop="worker' in k and 'over="0.01"' in k)

    def flood(self, kind, n):
        """(MB before, most, after; MB of sockets; p99 without and with, the same without the agent; slow turns; failed; evicted)."""
        calm, calm_direct, _ = self.p99_ms()
        before, sockets, evicted = self.anonymous_mb(), self.sockets_mb(), self.evicted()
        most, over, hog_fills = [before], threading.Event(), threading.Event()
        hog_fills.set()

        def watch():
            while not over.wait(0.05 if hog_fills.is_set() else 1):  # to count pages takes time of the agent's processor
                most.append(self.anonymous_mb())
        watcher = threading.Thread(target=watch)
        watcher.start()
        hog = self.hog(self.hostile, kind, self.address, 80, n, cpus=HOSTILE_CPUS)
        wait_for("the flood", lambda: "held" in hog.log() or not hog.alive(), 120)
        time.sleep(SETTLE_S)
        hog_fills.clear()
        slow = self.slow_turns()
        with_it, direct, failed = self.p99_ms()
        slow = self.slow_turns() - slow
        sockets = self.sockets_mb() - sockets
        hog.kill()
        over.set()
        watcher.join()
        wait_for("the connections are gone", lambda: self.agent.metrics()["edgeway_lb_connections_active"] < 10, 60)
        time.sleep(1)
        return before, max(most), self.anonymous_mb(), sockets, calm, with_it, calm_direct, direct, slow, failed, self.evicted() - evicted

    def evicted(self):
        return sum(v for k, v in self.agent.metrics().items() if k.startswith("edgeway_lb_evictions_total"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--connections", type=int, default=5000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--asks", type=int, default=2000)
    p.add_argument("--kinds", nargs="*", default=KINDS)
    p.add_argument("--smoke", action="store_true", help="one round of 200 connections: only that it runs")
    o = p.parse_args()
    if o.smoke:
        o.connections, o.rounds, o.asks = 200, 1, 100
    rows = {kind: [] for kind in o.kinds}
    os.sched_setaffinity(0, set(CPUS[:-1] or CPUS))
    with Lab() as lab:
        bench = Bench(lab, o.asks)
        for r in range(o.rounds):
            for kind in o.kinds:
                rows[kind].append(bench.flood(kind, o.connections))
                print(f"  round {r + 1}/{o.rounds} {kind:12}", *(f"{x:.1f}" for x in rows[kind][-1]), flush=True)
    print(f"\n{frame.machine()}\n\n### {o.connections} hostile connections of one pod, medians of {o.rounds} rounds (most: of all rounds)\n")
    print("| kind | anonymous MB before | most | after | MB in sockets | p99 ms of another pod without | with | ratio | without the agent | with | ratio | slow turns | failed | connections closed |")
    print("|" + "---|" * 14)
    for kind, found in rows.items():
        before, _, after, sockets, calm, with_it, calm_direct, direct, slow, _, evicted = (statistics.median(column) for column in zip(*found))
        ratio = statistics.median(x[5] / x[4] for x in found)
        print(f"| {kind} | {before:.1f} | {max(x[1] for x in found):.1f} | {after:.1f} | {sockets:.0f} | {calm:.2f} | {with_it:.2f} | {ratio:.2f} | {calm_direct:.2f} | {direct:.2f} | {direct / calm_direct:.2f} | {slow:.0f} | "
              f"{sum(x[9] for x in found)} | {evicted:.0f} |")
    most = max(x[1] for found in rows.values() for x in found)
    ratio = max(statistics.median(x[5] / x[4] for x in found) for found in rows.values())
    print(f"\nAnonymous memory: at most {most:.1f} MB ({frame.bar('memory: anonymous MB, most', most, BAR_MB)}); p99 at most {ratio:.2f} of that "
          f"without the flood ({frame.bar('memory: p99 against no flood', ratio, BAR_P99)}).")


if __name__ == "__main__":
    main()
