#!/usr/bin/python3
"""Delivery: what changes cost until every node has them, what a node costs the hub, what a reconnect costs, and how an
agent starts with no hub.

    bench/bench_fanout.py [--smoke] [--only PART ...]

The nodes are bench/agents.c, one process with a TLS connection and a certificate for each; the hub reads a folder of
manifests. Times are CLOCK_MONOTONIC from the rename of the manifest until a node has read the change. `In step` is asked of the hub
by digests. Agents (start, memory) are real ones. Prints a section for bench/RESULTS.md. Root; namespaces of its own.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
from fleet import Fleet, Fleets, prepare_typical, typical, write_typical  # noqa: E402
from frame import cpu_ns, machine, memory_kb  # noqa: E402
from lab import Agent, Hub, Lab, Node, wait_for  # noqa: E402

PROCESSES = 2  # of the simulator in a storm
CLOUDHUB_S = 400  # 40 nodes x 2000 updates: the project's anchor, not measured here


def hub_with(lab, services):
    hub = Hub(lab)
    write_typical(hub, range(services))
    wait_for("everything is read", lambda: hub.metrics()["edgeway_hub_services"] >= services, 300, pause=0.1)
    return hub


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(title, *cells):
    print(f"\n### {title}\n")
    row(*cells)
    print("|" + "---|" * len(cells))


def one_by_one(hub, fleet, services, changes, nodes):
    """Cells: medians of p50, p99 and last in ms of a change at all nodes, the hub's CPU ms for each, and how many nodes are in step."""
    times, cpu = {"p50": [], "p99": [], "last": []}, cpu_ns([hub.process.pid])
    for k in range(changes):
        fleet.ask("mark")
        start = time.monotonic()
        write_typical(hub, [k % services], k + 1, per_file=1, prefix="changed")
        t = fleet.ask("changes", 1, 60)
        if t["waiting"]:
            raise RuntimeError(f"a change was lost: {t}")
        for what, taken in times.items():
            taken.append(t[what] - start)
    cpu = (cpu_ns([hub.process.pid]) - cpu) / 1e6 / changes
    return [*[f"{1000 * statistics.median(taken):.0f}" for taken in times.values()], f"{cpu:.1f}", f"{fleet.ask('check')['in_step']} of {nodes}"]


def burst(nodes, changes, rounds):
    """Every service changes once, all at the same moment, each in a file of its own."""
    head(f"{nodes} nodes × {changes} changes", "round", "s until all nodes have all", "changes/s to nodes", "in step",
         "hub's CPU s", "nodes' CPU s", "bytes per change and node, both ways", f"of CloudHub's {CLOUDHUB_S} s")
    with Lab() as lab:
        hub = Hub(lab)
        write_typical(hub, range(changes), per_file=1)
        wait_for("everything is read", lambda: hub.metrics()["edgeway_hub_services"] >= changes, 300, pause=0.1)
        fleet = Fleet(hub)
        fleet.ask("connect", nodes)
        for r in range(rounds):
            fleet.ask("mark")
            renames = prepare_typical(hub, range(changes), r + 1, per_file=1)
            cpu, theirs, start = cpu_ns([hub.process.pid]), cpu_ns([fleet.popen.pid]), time.monotonic()
            for rename in renames:
                rename()
            done = fleet.ask("changes", changes, 120)
            if done["waiting"]:
                raise RuntimeError(f"changes were lost: {done}")
            took = done["last"] - start
            used, theirs = (cpu_ns([hub.process.pid]) - cpu) / 1e9, (cpu_ns([fleet.popen.pid]) - theirs) / 1e9
            b = fleet.ask("bytes")
            row(r + 1, f"{took:.2f}", f"{nodes * changes / took:.0f}", f"{fleet.ask('check')['in_step']} of {nodes}", f"{used:.2f}", f"{theirs:.2f}",
                f"{(b['received'] + b['sent']) / nodes / changes:.0f}", f"{took / CLOUDHUB_S:.4f}")


def many(nodes, services, changes):
    """Many nodes at one hub, and one change at a time to all of them; then all leave and come back."""
    head(f"{nodes} connected nodes, {services} services", "s to connect and sync all", "s after all were cut", "hub's anonymous kB per node",
         "PSS kB per node", "hub's anonymous MB before, with them, 3 s after they left", "one change to all, p50 ms", "p99 ms", "last ms", "hub's CPU ms per change", "in step")
    with Lab() as lab:
        hub = hub_with(lab, services)
        before = memory_kb([hub.process.pid])
        fleet = Fleet(hub)
        first = fleet.ask("connect", nodes)
        if first["connected"] < nodes:
            raise RuntimeError(f"only {first} of {nodes}:\n{fleet.log()[-2000:]}")
        time.sleep(1)
        after = memory_kb([hub.process.pid])
        changed = one_by_one(hub, fleet, services, changes, nodes)
        fleet.ask("drop")
        time.sleep(3)
        left = memory_kb([hub.process.pid])
        again = fleet.ask("connect", nodes)
        row(f"{first['seconds']:.1f}", f"{again['seconds']:.1f}", f"{(after[2] - before[2]) / nodes:.1f}", f"{(after[1] - before[1]) / nodes:.1f}",
            ", ".join(f"{m[2] / 1024:.0f}" for m in (before, after, left)), *changed)


def storm(nodes, services, changes):
    """Nodes with tunnels that come by themselves, as agents do: for the first time, and after the hub was killed."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if nodes > descriptors * 3 // 8:  # hub/sync/nodes.h
        print(f"\nOf {nodes} nodes {descriptors * 3 // 8}: a process has {descriptors} descriptors here, and three eighths are for nodes.")
        nodes = descriptors * 3 // 8
    head(f"{nodes} nodes with tunnels, {services} services, all at once", "when", "s until all are back", "nodes", "tunnels", "dials", "failed dials",
         "told to wait", "resumed", "hub's CPU s", "nodes' CPU s", "hub's anonymous MB", "load of the machine")
    with Lab() as lab:
        hub = hub_with(lab, services)
        before = memory_kb([hub.process.pid])
        fleet = Fleets(hub, nodes, PROCESSES)
        fleet.ask("make")

        def come(when, start):
            cpu, load = cpu_ns(fleet.pids), os.getloadavg()[0]
            t = fleet.ask("storm", 600)
            row(when, f"{time.monotonic() - start:.1f}", t["connected"], t["tunnels"], t["dials"], t["failed"], t["asked_to_wait"], t["resumed"],
                f"{cpu_ns([hub.process.pid]) / 1e9:.1f}", f"{(cpu_ns(fleet.pids) - cpu) / 1e9:.1f}", f"{memory_kb([hub.process.pid])[2] / 1024:.0f}",
                f"{load:.1f} before")

        come("the first time", time.monotonic())
        hub.process.kill()
        start = time.monotonic()
        hub.start()
        come("after kill -9", start)
        time.sleep(5)
        with_them = memory_kb([hub.process.pid])
        cpu, start = cpu_ns([hub.process.pid]), time.monotonic()
        time.sleep(20)
        idle = (cpu_ns([hub.process.pid]) - cpu) / 1e9 / (time.monotonic() - start)
        changed = one_by_one(hub, fleet, services, changes, nodes)
        if changed[-1] != f"{nodes} of {nodes}":
            sys.stderr.write("".join(f.log()[-2000:] for f in fleet.fleets))  # which were lost at rest, and why
        fleet.ask("drop")
        time.sleep(20)
        left = memory_kb([hub.process.pid])
        head("The same nodes at rest", "hub's anonymous kB per node", "hub's anonymous MB before, with them, 20 s after they left", "cores idle",
             "one change to all, p50 ms", "p99 ms", "last ms", "hub's CPU ms per change", "in step")
        row(f"{(with_them[2] - before[2]) / nodes:.1f}", ", ".join(f"{m[2] / 1024:.0f}" for m in (before, with_them, left)), f"{idle:.2f}",
            *changed)


def resync(services, differ):
    head(f"One node with {services} services comes back", "what", "bytes to the node", "bytes from the node", "ms", "hub's CPU ms")
    with Lab() as lab:
        hub = hub_with(lab, services)
        fleet = Fleet(hub)
        plain = Fleet(hub, "plain", address="192.0.2.4")

        def connect(what, fleet=fleet):
            fleet.ask("mark")
            cpu = cpu_ns([hub.process.pid])
            took = fleet.ask("connect", 1)["seconds"]
            b = fleet.ask("bytes")
            row(what, b["received"], b["sent"], f"{took * 1000:.0f}", f"{(cpu_ns([hub.process.pid]) - cpu) / 1e6:.0f}")
            fleet.ask("drop")

        connect("for the first time: all services")
        connect("the same, a node that takes no bundles", plain)
        connect("nothing differs")
        changes = hub.metrics()["edgeway_hub_service_changes_total"]
        write_typical(hub, range(differ), 1, per_file=1, prefix="changed")
        wait_for("changed", lambda: hub.metrics()["edgeway_hub_service_changes_total"] >= changes + differ, 60)
        connect(f"{differ} differ")


def large(nodes, endpoints, changes):
    """One large view changes for all: compressed once."""
    head(f"A service with {endpoints} endpoints changes for {nodes} nodes", "nodes", "bytes per change and node", "p50 ms", "p99 ms", "hub's CPU ms per change")
    for name, options in (("with bundles", ()), ("without", ("plain",))):
        with Lab() as lab:
            hub = Hub(lab)
            hub.write("big.yaml", *typical(1, 0, endpoints))
            fleet = Fleet(hub, *options)
            fleet.ask("connect", nodes)
            p50, p99, size, cpu = [], [], 0, 0
            for k in range(changes):
                fleet.ask("mark")
                before, start = cpu_ns([hub.process.pid]), time.monotonic()
                hub.write("big.yaml", *typical(1, k + 1, endpoints))
                t = fleet.ask("changes", 1, 60)
                if t["waiting"]:
                    raise RuntimeError(f"a change was lost: {t}")
                cpu += cpu_ns([hub.process.pid]) - before
                p50.append(t["p50"] - start)
                p99.append(t["p99"] - start)
                size += fleet.ask("bytes")["received"]
            row(name, f"{size / nodes / changes:.0f}", *[f"{1000 * statistics.median(x):.0f}" for x in (p50, p99)], f"{cpu / 1e6 / changes:.0f}")


def start_offline(services, rounds):
    """A real agent that knows its services from SQLite alone."""
    with Lab() as lab:
        hub = hub_with(lab, services)
        node = Node(lab, "edge-1", "192.0.2.11")
        agent = Agent(node, hub)
        wait_for("synced", lambda: agent.state()["meta"]["synced"] and agent.state()["services"] == services, 120)
        names = [f"shop-backend-{i:05d}.team-{i % 20}.svc.cluster.local" for i in range(0, services, max(1, services // 50))]
        known = [node.address_of(n, "@172.17.0.1") for n in names]
        hub.process.kill()
        times, cpu = [], []
        for _ in range(rounds):
            agent.stop()
            start = time.monotonic()
            agent.start(ready=False)
            while True:
                try:
                    if agent.ready():
                        break
                except OSError:
                    pass
                time.sleep(0.002)
            times.append(time.monotonic() - start)
            cpu.append(cpu_ns([agent.process.pid]) / 1e6)
            if [node.address_of(n, "@172.17.0.1") for n in names] != known:
                raise RuntimeError("an address changed")
        row(services, f"{1000 * statistics.median(times):.0f}", f"{1000 * max(times):.0f}", f"{statistics.median(cpu):.0f}", f"{len(names)} of {len(names)}")


def memory(services):
    """The whole agent and the whole hub."""
    with Lab() as lab:
        hub = hub_with(lab, services)
        agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
        wait_for("synced", lambda: agent.state()["meta"]["synced"] and agent.state()["services"] == services, 120)
        time.sleep(1)
        _, pss, anon = memory_kb([agent.process.pid])
        _, hub_pss, hub_anon = memory_kb([hub.process.pid])
        row(services, f"{anon / 1024:.1f}", f"{pss / 1024:.1f}", f"{hub_anon / 1024:.1f}", f"{hub_pss / 1024:.1f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--nodes", type=int, default=10000, help="of the storm")
    parser.add_argument("--services", type=int, default=1000, help="of the storm")
    parser.add_argument("--only", nargs="+", default=["burst", "many", "storm", "large", "resync", "start", "memory"])
    args = parser.parse_args()
    print(f"## Delivery\n\n`bench/bench_fanout.py{' --smoke' if args.smoke else ''}` on {machine()}")
    if "burst" in args.only:
        burst(*((4, 50, 1) if args.smoke else (40, 2000, 3)))
    if "many" in args.only:
        many(*((20, 20, 2) if args.smoke else (3000, 1000, 20)))
    if "storm" in args.only:
        storm(*((20, 20, 2) if args.smoke else (args.nodes, args.services, 20)))
    if "large" in args.only:
        large(*((10, 20, 2) if args.smoke else (500, 300, 10)))
    if "resync" in args.only:
        resync(*((100, 2) if args.smoke else (10000, 10)))
    if "start" in args.only:
        head("An agent starts with what SQLite holds, and no hub", "services", "ms until /readyz says 200, median", "worst", "agent's CPU ms, median", "same fake IPs")
        for n in (50,) if args.smoke else (100, 10000):
            start_offline(n, 1 if args.smoke else 5)
    if "memory" in args.only:
        head("Memory", "services", "agent's anonymous MB", "PSS MB", "hub's anonymous MB", "PSS MB")
        for n in (50,) if args.smoke else (100, 1000, 10000):
            memory(n)


if __name__ == "__main__":
    main()
