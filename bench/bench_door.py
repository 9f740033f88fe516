#!/usr/bin/python3
"""The doors of the hub, HTTP kept: a caller in the cloud asks nginx on a node for 1 KB, through a port of `ingress.tcp` (a connection is a stream,
which is what carrying the bytes costs) and through `ingress.http` (each request has its target, its rules and its line of the audit).

    bench/bench_door.py [--smoke] [--rounds N] [--seconds S] [--workers W...] [--held PER_CENT]

Then the ports of two nodes at once, while each thread of the hub may run for PER_CENT of a processor and no longer (cgroups of version 1): what several
loops carry against one, on a machine that has no processors for them. CPU is that of the hub, and of the agent, each with all threads; the main thread is the hub's. With several values of workers, a hub of each in the same rounds. Prints a table for bench/RESULTS.md. Root; namespaces of the bench's own.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import bench_http  # noqa: E402
import frame  # noqa: E402
import lab as labs  # noqa: E402

BAR_US, BAR_LOOPS, HUB = 45, 1.6, "192.0.2.1"
GROUPS, PERIOD_US = "/sys/fs/cgroup/cpu", 20000
NODES = "edge-1", "edge-2"  # whose sessions are on different workers of two


def made(lab, seconds, workers):
    hub = labs.Hub(lab, "--workers", workers, "--ingress.http", f"{HUB}:10080", "--access", f"[{{from: {HUB}, to: ['*']}}]",
                   "--ingress.tcp", f"[{{listen: '{HUB}:7001', node: edge-1, target: '127.0.0.1:8080'}}]")
    node = labs.Node(lab, "edge-1", "192.0.2.11")
    node.start("nginx", "nginx", "-c", bench_http.config(node, "backend.conf", bench_http.BACKEND_CONF))
    agent = labs.Agent(node, hub, "--tunnel.allow", "node,pods,services,node:8080")
    labs.wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
    pids = {"hub": hub.process.pid, "agent": agent.process.pid}
    ways = {"port": f"http://{HUB}:7001/", "http": f"http://{HUB}:10080/"}
    for url in ways.values():
        labs.wait_for(url, lambda u=url: hub.machine.get(u, "-H", "Host: edge-1:8080")[0] == 200)
    return [frame.Contender(f"{name}, workers {workers}", pids, counted(pids, bench_http.load_of(hub.machine, url, "edge-1:8080", 32, [], seconds)))
            for name, url in ways.items()]


@contextlib.contextmanager
def held(pid, per_cent):
    """Each thread in a group of its own."""
    groups = [os.path.join(GROUPS, f"edgeway-bench-{tid}") for tid in map(os.path.basename, glob.glob(f"/proc/{pid}/task/*"))]
    try:
        for group in groups:
            os.mkdir(group)
            for name, value in (("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", PERIOD_US * per_cent // 100), ("tasks", group.rsplit("-", 1)[1])):
                with open(os.path.join(group, name), "w") as f:
                    f.write(str(value))
        yield
    finally:
        for group in groups:
            with contextlib.suppress(OSError):
                with open(os.path.join(GROUPS, "tasks"), "w") as f:
                    f.write(group.rsplit("-", 1)[1])
                os.rmdir(group)


def of_two_nodes(lab, seconds, workers, stack, per_cent):
    """A contender; its CPU is the hub's."""
    ports = {node: 7001 + i for i, node in enumerate(NODES)}
    hub = labs.Hub(lab, "--workers", workers, "--access", f"[{{from: {HUB}, to: ['*']}}]",
                   "--ingress.tcp", str([{"listen": f"{HUB}:{port}", "node": node, "target": "127.0.0.1:8080"} for node, port in ports.items()]))
    loads = []
    for i, (name, port) in enumerate(ports.items()):
        node = labs.Node(lab, name, f"192.0.2.{11 + i}")
        node.start("nginx", "nginx", "-c", bench_http.config(node, "backend.conf", bench_http.BACKEND_CONF))
        agent = labs.Agent(node, hub, "--tunnel.allow", "node:8080")
        labs.wait_for("tunnel", lambda a=agent: a.state()["tunnel"]["state"] == "open")
        labs.wait_for(name, lambda p=port: hub.machine.get(f"http://{HUB}:{p}/")[0] == 200)
        loads.append(bench_http.load_of(hub.machine, f"http://{HUB}:{port}/", "any", 32, [], seconds))
    stack.enter_context(held(hub.process.pid, per_cent))
    pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(len(loads)))
    return frame.Contender(f"ports of two nodes, workers {workers}", [hub.process.pid], lambda: sum(pool.map(lambda load: load(), loads)))


def measure_held(args):
    if not os.path.isdir(GROUPS):
        print("\nLoops that are held: not measured, as this machine has no cgroups of version 1.")
        return
    with contextlib.ExitStack() as stack:
        hubs = [of_two_nodes(stack.enter_context(labs.Lab()), args.seconds, w, stack, args.held) for w in args.workers]
        frame.run(hubs, args.rounds, report=lambda line: print(line, flush=True))
        print("\n" + frame.table(f"1 KB kept by ports of two nodes, each thread of the hub held to {args.held} % of a core", hubs, hubs[0].name))
        more = frame.medians(hubs[-1])[1] / frame.medians(hubs[0])[1]
        print(f"\nworkers {args.workers[-1]}: {more:.2f} × the requests/s of workers {args.workers[0]} "
              f"({frame.bar('doors: requests/s of one loop, threads held', more, BAR_LOOPS, least=True)}).")


def counted(pids, load):
    """frame.run wants pids to sum up; this notes each program's share as well."""
    def spent():
        with open(f"/proc/{pids['hub']}/task/{pids['hub']}/schedstat") as f:
            return {"main": int(f.read().split()[0]), **{name: frame.cpu_ns([pid]) for name, pid in pids.items()}}

    def one():
        before = spent()
        n = load()
        one.rounds.append({name: (ns - before[name]) / 1000 / n for name, ns in spent().items()})
        return n
    one.rounds = []
    return one


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--workers", nargs="+", default=["1", "2"])
    parser.add_argument("--held", type=int, default=5, metavar="PER_CENT")
    args = parser.parse_args()
    if args.smoke:
        args.rounds = args.seconds = 1
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_door.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}, load {os.getloadavg()[0]:.1f} before it\n", flush=True)
    with contextlib.ExitStack() as stack:
        loads = [c for w in args.workers for c in made(stack.enter_context(labs.Lab()), args.seconds, w)]
        for c in loads:
            c.pids = list(c.pids.values())
        frame.run(loads, args.rounds, report=lambda line: print(line, flush=True))
    print("\n| door | requests/s | CPU µs per request, both: median (least, most) | hub | of that the main thread | agent |\n|---|---|---|---|---|---|")
    for c in loads:
        hub, main_us, agent = ([r[name] for r in c.load.rounds] for name in ("hub", "main", "agent"))
        both = [h + a for h, a in zip(hub, agent)]
        print(f"| {c.name} | {frame.medians(c)[1]:.0f} | {statistics.median(both):.1f} ({min(both):.1f}, {max(both):.1f}) | {statistics.median(hub):.1f} | "
              f"{statistics.median(main_us):.1f} | {statistics.median(agent):.1f} |")
    for port, http in zip(loads[::2], loads[1::2]):
        cost = frame.medians(http)[0]
        bar = frame.bar(f"doors: CPU of hub and agent, {http.name}, µs", cost, BAR_US)
        print(f"\n{http.name}: a request costs {cost:.1f} µs ({bar}), {cost / frame.medians(port)[0]:.2f} of one by a port.")
    measure_held(args)


if __name__ == "__main__":
    main()
