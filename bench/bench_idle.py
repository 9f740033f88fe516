#!/usr/bin/python3
"""What an idle node costs on a metered link: bytes of IP between node and hub, at several heartbeats.

    top_builddir=build/gcc /usr/bin/python3 bench/bench_idle.py [--seconds 340] [--services 100] [--smoke]

Real hub and agents in namespaces of their own, one link each; counters of nftables on the node. Without options the
window is long enough for one periodic comparison of the node with a heartbeat of 4 s, told apart from the heartbeats.
"""
import argparse
import os
import re
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "net"))
from lab import HUB_ADDRESS, HUB_PORT, Agent, Hub, Lab, Node, service, wait_for  # noqa: E402

NODES = ((4, 1), (30, 1), (60, 1), (4, 2))  # heartbeat in s, hub.tunnels
SECOND = "192.0.2.2"  # of the hub
CHECK_S, CHECK_BEATS = 300, 75
MONTH_S = 30 * 86400
COUNT = """
table ip count {
    chain in { type filter hook input priority 0; ip saddr { 192.0.2.1, 192.0.2.2 } counter; }
    chain out { type filter hook output priority 0; ip daddr { 192.0.2.1, 192.0.2.2 } counter; }
}"""


def counted(node):
    text = node.run("nft", "list", "table", "ip", "count").stdout
    return sum(map(int, re.findall(r"bytes (\d+)", text)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=int, default=340)
    p.add_argument("--services", type=int, default=100)
    p.add_argument("--smoke", action="store_true", help="10 s: only that it runs")
    o = p.parse_args()
    o.seconds = 10 if o.smoke else o.seconds
    with Lab() as lab:
        hub = Hub(lab, "--listen", f"0.0.0.0:{HUB_PORT}", "--tls.names", f"{HUB_ADDRESS},{SECOND}")
        hub.machine.run("ip", "addr", "add", f"{SECOND}/24", "dev", "eth0")
        urls = ",".join(f"wss://{a}:{HUB_PORT}" for a in (HUB_ADDRESS, SECOND))
        hub.write("services.yaml", *[service(f"s-{i}", ("http", 80, 8080)) for i in range(o.services)])
        agents = []
        for i, (beat, tunnels) in enumerate(NODES):
            node = Node(lab, f"edge-{i}", f"192.0.2.{11 + i}")
            node.run("nft", "-f", "-", input=COUNT)
            agents.append(Agent(node, hub, "--hub.heartbeat", f"{beat}s", "--hub.tunnels", str(tunnels), "--hub.url", urls))
        for a in agents:
            wait_for("services", lambda a=a: a.state()["services"] == o.services and a.state()["meta"]["synced"], 60)
        wait_for("a second tunnel", lambda: agents[-1].state()["tunnel"]["standby"]["state"] == "open")
        wait_for("acknowledged", lambda: hub.ask("/nodes")[1].count('"unacked":0') == len(agents), 60)
        time.sleep(2)
        start, before = time.monotonic(), [counted(a.node) for a in agents]
        quiet_s = min(o.seconds, CHECK_S - 30) // 60 * 60 or o.seconds
        time.sleep(quiet_s)
        quiet = [counted(a.node) - b for a, b in zip(agents, before)]
        took = time.monotonic() - start
        time.sleep(max(0, o.seconds - took))
        all_bytes = counted(agents[0].node) - before[0]
        total_s = time.monotonic() - start
    rate = quiet[0] / took
    check = all_bytes - rate * total_s if o.seconds > CHECK_S + 10 else 0
    print(f"{o.services} services, no changes, window {took:.0f} s; one comparison: {check:.0f} bytes\n")
    print("| heartbeat, tunnels | bytes in the window | bytes a heartbeat | MB a month: heartbeats | comparisons | together |")
    print("|---|---|---|---|---|---|")
    for (beat, tunnels), n in zip(NODES, quiet):
        beats = n / took * MONTH_S / 1e6
        checks = MONTH_S / max(CHECK_S, CHECK_BEATS * beat) * check / 1e6
        print(f"| {beat} s, {tunnels} | {n} | {n / took * beat:.0f} | {beats:.1f} | {checks:.1f} | {beats + checks:.1f} |")


if __name__ == "__main__":
    main()
