#!/usr/bin/python3
"""What an idle node costs: CPU and wake-ups of its agent, and bytes of IP between node and hub on a metered link, at several heartbeats.

    top_builddir=build/gcc /usr/bin/python3 bench/bench_idle.py [--seconds 600] [--services 100] [--cpu-seconds 120] [--smoke]

Real hub and agents in namespaces of their own, one link each; counters of nftables on the node. The window has probes of the kernel, the
heartbeats that ask the hub's program, and what keeps the second connection in NATs (each 290 s); a comparison of digests comes too
rarely for it, so what one takes (2.3 kB) is added. CPU is that of an agent with 1 000 services, by thread.
"""
import argparse
import glob
import os
import re
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TOP, "bench"), os.path.join(TOP, "tests", "net")]
import frame  # noqa: E402
from lab import HUB_ADDRESS, HUB_PORT, Agent, Hub, Lab, Node, endpoint_slice, service, upstream, wait_for  # noqa: E402

NODES = ((4, 1), (30, 1), (60, 1), (4, 2), (4, 0))  # heartbeat in s, hub.tunnels
SECOND = "192.0.2.2"  # of the hub
CHECK_S, CHECK_BEATS, CHECK_BYTES = 300, 15 * 75, 2300  # of a comparison, as measured when it came each 300 s
MONTH_S = 30 * 86400
CPU_SERVICES, CPU_BAR = 1000, 0.05  # per cent of a core
COUNT = """
table ip count {
    chain in { type filter hook input priority 0; ip saddr { 192.0.2.1, 192.0.2.2 } counter; }
    chain out { type filter hook output priority 0; ip daddr { 192.0.2.1, 192.0.2.2 } counter; }
}"""


def counted(node):
    text = node.run("nft", "list", "table", "ip", "count").stdout
    return sum(map(int, re.findall(r"bytes (\d+)", text)))


def threads_of(pid):
    """{thread: (name, ns on a CPU, voluntary switches: wake-ups)}"""
    found = {}
    for path in glob.glob(f"/proc/{pid}/task/*"):
        with open(path + "/comm") as comm, open(path + "/schedstat") as stat, open(path + "/status") as status:
            woken = next(int(line.split()[1]) for line in status if line.startswith("voluntary"))
            found[path] = comm.read().strip(), int(stat.read().split()[0]), woken
    return found


def idle_cpu(seconds, services):
    with Lab() as lab:
        hub = Hub(lab)
        hub.write("services.yaml", *[d for i in range(services) for d in (
            service(f"s-{i}", ("http", 80, 8080)), endpoint_slice(f"s-{i}-1", f"s-{i}", 8080, "192.0.2.31", port_name="http"))])
        upstream(lab)
        agent = Agent(Node(lab, "edge-0", "192.0.2.11"), hub)
        wait_for("services", lambda: agent.state()["services"] == services, 60)
        time.sleep(min(seconds, 20))  # what begins is over
        before, start = threads_of(agent.process.pid), time.monotonic()
        time.sleep(seconds)
        after, took = threads_of(agent.process.pid), time.monotonic() - start
    print(f"### An idle agent with {services} services, {took:.0f} s on {frame.machine()}\n")
    print("| thread | CPU, % of a core | wake-ups a minute |\n|---|---|---|")
    total = [0.0, 0.0]
    for path, (name, ns, woken) in sorted(after.items()):
        used = [(ns - before[path][1]) / took / 1e7, (woken - before[path][2]) * 60 / took]
        total = [a + b for a, b in zip(total, used)]
        print(f"| {name} | {used[0]:.4f} | {used[1]:.0f} |")
    frame.record("wakeups", a_minute=total[1])
    print(f"| together | {total[0]:.4f} | {total[1]:.0f} |\n\nCPU: {total[0]:.3f} % of a core "
          f"({frame.bar('idle: per cent of a core, 1 000 services', total[0], CPU_BAR)}).\n", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=int, default=600)
    p.add_argument("--services", type=int, default=100)
    p.add_argument("--cpu-seconds", type=int, default=120)
    p.add_argument("--smoke", action="store_true", help="10 s: only that it runs")
    o = p.parse_args()
    os.environ.setdefault("top_builddir", os.getcwd())
    if o.smoke:
        o.seconds, o.cpu_seconds = 10, 5
    idle_cpu(o.cpu_seconds, CPU_SERVICES if not o.smoke else 20)
    with Lab() as lab:
        hub = Hub(lab, "--listen", f"0.0.0.0:{HUB_PORT}", "--tls.names", f"{HUB_ADDRESS},{SECOND}")
        hub.machine.run("ip", "addr", "add", f"{SECOND}/24", "dev", "eth0")
        urls = ",".join(f"wss://{a}:{HUB_PORT}" for a in (HUB_ADDRESS, SECOND))
        hub.write("services.yaml", *[service(f"s-{i}", ("http", 80, 8080)) for i in range(o.services)])
        agents = []
        for i, (beat, tunnels) in enumerate(NODES):
            node = Node(lab, f"edge-{i}", f"192.0.2.{11 + i}")
            node.run("nft", "-f", "-", input=COUNT)
            agents.append(Agent(node, hub, "--hub.heartbeat", f"{beat}s", "--hub.url", urls,
                                *(("--hub.tunnels", str(tunnels)) if tunnels > 0 else ("--tunnel.enabled", "false"))))
        for a in agents:
            wait_for("services", lambda a=a: a.state()["services"] == o.services and a.state()["meta"]["synced"], 60)
        wait_for("a second tunnel", lambda: agents[NODES.index((4, 2))].state()["tunnel"]["standby"]["state"] == "open")
        wait_for("acknowledged", lambda: hub.ask("/nodes")[1].count('"unacked":0') == len(agents), 60)
        time.sleep(2)
        start, before = time.monotonic(), [counted(a.node) for a in agents]
        time.sleep(o.seconds)
        quiet = [counted(a.node) - b for a, b in zip(agents, before)]
        took = time.monotonic() - start
    print(f"{o.services} services, no changes, window {took:.0f} s\n")
    print("| heartbeat, tunnels | bytes in the window | MB a month: kept and asked | comparisons | together |")
    print("|---|---|---|---|---|")
    for (beat, tunnels), n in zip(NODES, quiet):
        kept = n / took * MONTH_S / 1e6
        checks = MONTH_S / max(CHECK_S, CHECK_BEATS * beat) * CHECK_BYTES / 1e6
        print(f"| {beat} s, {tunnels} | {n} | {kept:.1f} | {checks:.1f} | {kept + checks:.1f} |")


if __name__ == "__main__":
    main()
