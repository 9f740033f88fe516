#!/usr/bin/python3
"""What one bad node, or a stranger, costs the others at a hub: a caller asks for another node all the time (through ingress.http, a connection
each), without and with each flood, in turn.

    top_builddir=build/gcc /usr/bin/python3 bench/bench_bad_node.py [--asks 300] [--rounds 5] [--kinds K...] [--workers N...] [--smoke]

Floods go on for as long as the caller asks: where a connection is cut, the attacker comes again at once, with the next of its certificates; with one that
rests it is refused after the handshake. Attackers have the last processor for themselves, hub, node and caller the others: only the ratio of the two
medians means anything. `cut`: connections that the hub has ended; `slow turns`: of the hub's loop, longer than 10 ms, while the flood lasts.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
from lab import HUB_ADDRESS, PYTHON, Agent, Hub, Lab, Machine, Node, pod, service, wait_for  # noqa: E402

KINDS = ("priority", "unknown", "goaway", "window", "heads", "connects", "hellos")
FLOOD = os.path.join(HERE, "bad_node.py")
BACKEND = os.path.join(os.path.dirname(HERE), "tests", "net", "backend.py")
BAR = 1.5
CPUS = sorted(os.sched_getaffinity(0))
HOSTILE_CPUS = str(CPUS[-1])
CALM_CPUS = ",".join(map(str, CPUS[:-1] or CPUS))
NAMES = 4  # that the attacker has certificates of
REST_S = 11  # after which they get a tunnel again (hub/port/floods.h)
ASK = """
import http.client, json, statistics, sys, time
n, took, failed = int(sys.argv[1]), [], 0
for _ in range(n):
    began = time.monotonic()
    c = http.client.HTTPConnection("192.0.2.1", 10080, timeout=60)
    try:
        c.request("GET", "http://edge-1:7001/", headers={"Host": "edge-1:7001", "Connection": "close"})
        failed += c.getresponse().read() != b"edge-1\\n"
    except OSError:
        failed += 1
    c.close()
    took.append(1000 * (time.monotonic() - began))
    time.sleep(0.005)
took.sort()
print(json.dumps({"p50": statistics.median(took), "p99": took[int(0.99 * len(took))], "failed": failed}))
"""


class Bench:
    def __init__(self, lab, asks, workers):
        self.asks = asks
        self.hub = Hub(lab, "--workers", workers, "--ingress.http", "192.0.2.1:10080", "--access", "[{from: 192.0.2.1, to: ['*']}]", "--log.level", "warn",
                       before=("taskset", "-c", CALM_CPUS))
        self.hub.write("hole.yaml", service("hole", ("x", 80, 80)), pod("hole", ("cloud-1", "192.0.2.98"), "192.0.2.99", ("x", 80, 0)))
        self.node = Node(lab, "edge-1", "192.0.2.11")
        Agent(self.node, self.hub, "--tunnel.allow", "node:7001")
        backend = self.node.start("backend", PYTHON, BACKEND, "--name", "edge-1", "--http", "7001")
        wait_for("the endpoint", lambda: "serving" in backend.log())
        self.bad = []
        for i in range(NAMES):
            agent = Agent(Node(lab, f"bad-{i}", f"192.0.2.{21 + i}"), self.hub)
            wait_for("its certificate", lambda a=agent: os.path.exists(os.path.join(a.data, "node.crt")))
            agent.stop()
            self.bad.append(agent)
        self.stranger = Machine(lab, "stranger", address="192.0.2.66")

    def ask(self):
        p = self.hub.machine.start("ask", "taskset", "-c", CALM_CPUS, PYTHON, "-c", ASK, self.asks)
        p.wait(600)
        return json.loads(p.log().splitlines()[-1])

    def metric(self, name):
        return sum(v for k, v in self.hub.metrics().items() if k.startswith(name))

    def slow(self):
        return sum(v for k, v in self.hub.metrics().items() if k.startswith("edgeway_loop_slow_turns_total") and 'loop="main",over="0.01"' in k)

    def flood(self, kind):
        calm, cut, slow = self.ask(), self.metric("edgeway_tunnel_flooded_total"), self.slow()
        flood = self.stranger.start(f"flood-{kind}", "taskset", "-c", HOSTILE_CPUS, PYTHON, FLOOD, kind, HUB_ADDRESS, *(a.data for a in self.bad))
        wait_for("the flood", lambda: "floods" in flood.log())
        time.sleep(0.5)
        with_it = self.ask()
        cut, slow = self.metric("edgeway_tunnel_flooded_total") - cut, self.slow() - slow
        flood.kill()
        wait_for("the hub is quiet", lambda: self.metric("edgeway_hub_outward_open") == 0, 60)
        time.sleep(REST_S if cut > 0 else 1)
        return calm["p50"], with_it["p50"], calm["p99"], with_it["p99"], with_it["failed"], cut, slow


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--asks", type=int, default=300)
    p.add_argument("--kinds", nargs="*", default=KINDS)
    p.add_argument("--workers", nargs="*", default=["0"], help="of the hub; with several, each has a hub of its own in the same rounds")
    p.add_argument("--smoke", action="store_true", help="one short round: only that it runs")
    o = p.parse_args()
    if o.smoke:
        o.rounds, o.asks = 1, 20
    rows = {(kind, workers): [] for kind in o.kinds for workers in o.workers}
    with contextlib.ExitStack() as stack:
        benches = {workers: Bench(stack.enter_context(Lab()), o.asks, workers) for workers in o.workers}
        for r in range(o.rounds):
            for (kind, workers), found in rows.items():
                found.append(benches[workers].flood(kind))
                print(f"  round {r + 1}/{o.rounds} {kind:10} workers {workers}", *(f"{x:.1f}" for x in found[-1]), flush=True)
    print(f"\n{frame.machine()}\n\n### One bad node or stranger, medians of {o.rounds} rounds of {o.asks} requests for another node\n")
    print("| flood | workers | p50 ms without | with | ratio | p99 ms without | with | failed | cut | slow turns |\n" + "|" + "---|" * 10)
    for (kind, workers), found in rows.items():
        p50, with50, p99, with99, _, cut, slow = (statistics.median(column) for column in zip(*found))
        ratio = statistics.median(x[1] / x[0] for x in found)
        print(f"| {kind} | {workers} | {p50:.1f} | {with50:.1f} | {ratio:.2f} | {p99:.1f} | {with99:.1f} | {sum(x[4] for x in found)} | {cut:.0f} | {slow:.0f} |")
    most = max(statistics.median(x[1] / x[0] for x in found) for found in rows.values())
    print(f"\np50 at most {most:.2f} of that without ({frame.bar('bad node: p50 of other nodes against no flood', most, BAR)}).")


if __name__ == "__main__":
    main()
