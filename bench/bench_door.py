#!/usr/bin/python3
"""The doors of the hub, HTTP kept: a caller in the cloud asks nginx on a node for 1 KB, through a port of `ingress.tcp` (a connection is a stream,
which is what carrying the bytes costs) and through `ingress.http` (each request has its target, its rules and its line of the audit).

    bench/bench_door.py [--smoke] [--rounds N] [--seconds S]

CPU is that of the hub, and of the agent, each with all threads. Prints a table for bench/RESULTS.md. Root; namespaces of the bench's own.
"""
import argparse
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import bench_http  # noqa: E402
import frame  # noqa: E402
import lab as labs  # noqa: E402

BAR_US, HUB = 45, "192.0.2.1"


def made(lab, seconds):
    hub = labs.Hub(lab, "--ingress.http", f"{HUB}:10080", "--access", f"[{{from: {HUB}, to: ['*']}}]",
                   "--ingress.tcp", f"[{{listen: '{HUB}:7001', node: edge-1, target: '127.0.0.1:8080'}}]")
    node = labs.Node(lab, "edge-1", "192.0.2.11")
    node.start("nginx", "nginx", "-c", bench_http.config(node, "backend.conf", bench_http.BACKEND_CONF))
    agent = labs.Agent(node, hub, "--tunnel.allow", "node,pods,services,node:8080")
    labs.wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    pids = {"hub": hub.process.pid, "agent": agent.process.pid}
    ways = {"port": f"http://{HUB}:7001/", "http": f"http://{HUB}:10080/"}
    for url in ways.values():
        labs.wait_for(url, lambda u=url: hub.machine.get(u, "-H", "Host: edge-1:8080")[0] == 200)
    return [frame.Contender(name, pids, counted(pids, bench_http.load_of(hub.machine, url, "edge-1:8080", 32, [], seconds)))
            for name, url in ways.items()], hub


def counted(pids, load):
    """frame.run wants pids to sum up; this notes each program's share as well."""
    def one():
        before = {name: frame.cpu_ns([pid]) for name, pid in pids.items()}
        n = load()
        one.rounds.append({name: (frame.cpu_ns([pid]) - before[name]) / 1000 / n for name, pid in pids.items()})
        return n
    one.rounds = []
    return one


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    if args.smoke:
        args.rounds = args.seconds = 1
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_door.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}, load {os.getloadavg()[0]:.1f} before it\n", flush=True)
    with labs.Lab() as lab:
        loads, _ = made(lab, args.seconds)
        for c in loads:
            c.pids = list(c.pids.values())
        frame.run(loads, args.rounds, report=lambda line: print(line, flush=True))
    print("\n| door | requests/s | CPU µs per request, both: median (least, most) | hub | agent |\n|---|---|---|---|---|")
    for c in loads:
        hub, agent = ([r[name] for r in c.load.rounds] for name in ("hub", "agent"))
        both = [h + a for h, a in zip(hub, agent)]
        print(f"| {c.name} | {frame.medians(c)[1]:.0f} | {statistics.median(both):.1f} ({min(both):.1f}, {max(both):.1f}) | {statistics.median(hub):.1f} | "
              f"{statistics.median(agent):.1f} |")
    ratio = frame.medians(loads[1])[0] / frame.medians(loads[0])[0]
    cost = frame.medians(loads[1])[0]
    bar = frame.bar("doors: CPU of the hub, a request at ingress.http, µs", cost, BAR_US)
    print(f"\nA request at ingress.http costs {cost:.1f} µs ({bar}), {ratio:.2f} of one by a port.")


if __name__ == "__main__":
    main()
