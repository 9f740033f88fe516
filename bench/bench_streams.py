#!/usr/bin/python3
"""Streams through the real hub and agent, a veth between them: bulk beside HAProxy's TLS hop, and what idle ones cost.

    top_builddir=build/gcc /usr/bin/python3 bench/bench_streams.py [--smoke] [--rounds N] [--only bulk far idle]

bulk  One stream down and up, through a port of `ingress.tcp` to a server on the node, once with BBR and once with reno as both machines'
      default. HAProxy: two processes where hub and agent are, mutual TLS 1.3 between them, as it comes and with the cipher that the tunnel
      uses. The load is bench/pump.c, which dials by loopback and answers by loopback. CPU is that of both ends.
far   The same at a round trip of 50 ms (bench/delay.c, a relay: the kernel's netem is not everywhere), the slow start within it.
idle  1 000 streams opened at once, each of which has carried a byte: anonymous memory of hub and agent.
Prints a section for bench/RESULTS.md. Root; namespaces of the bench's own.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NET = os.path.join(os.path.dirname(HERE), "tests", "net")
sys.path[:0] = [HERE, NET]
import frame  # noqa: E402
import lab as labs  # noqa: E402
from bench_tunnel import AES128, HAPROXY, MB, head, row, say  # noqa: E402

HUB, NODE, PORT = "192.0.2.1", "192.0.2.11", 7001
DELAY_MS, STREAMS = 25, 1000
WAYS = (("down", "to the client"), ("up", "from the client"))


class Bench:
    def __init__(self, lab, congestion="", delay_ms=0):
        self.lab = lab
        self.dir = os.path.join(lab.dir, "bench")
        os.mkdir(self.dir)
        subprocess.run([self.program("tunnel"), "keys", self.dir], check=True)
        self.node = labs.Node(lab, "edge-1", NODE)
        options = ["--ingress.tcp", f"[{{listen: '127.0.0.1:{PORT}', node: edge-1, target: '127.0.0.1:2000'}}, "
                   f"{{listen: '127.0.0.1:{PORT + 1}', node: edge-1, target: '127.0.0.1:2001'}}]", "--tls.names", NODE, "--ingress.http", "127.0.0.1:10080"]
        before = ("sysctl", "-qw", f"net.ipv4.tcp_congestion_control={congestion}") if congestion else ("true",)
        self.node.run(*before)
        self.hub = labs.Hub(lab, *options, before=("sh", "-c", '%s && exec "$@"' % " ".join(before), "sh"))
        self.cloud = self.hub.machine
        self.start(self.node, "pump", "target", "127.0.0.1:2000")
        echo = self.node.start("echo", *labs.BARE_PYTHON, os.path.join(NET, "many.py"), "serve", 2001)
        labs.wait_for("echo", lambda: "serving" in echo.log())
        hub_url = []
        if delay_ms:
            self.start(self.node, "delay", f"{NODE}:10000", f"{HUB}:10000", delay_ms)
            hub_url = ["--hub.url", f"wss://{NODE}:10000"]
        self.agent = labs.Agent(self.node, self.hub, "--tunnel.allow", "node,node:2000-2001", *hub_url)
        labs.wait_for("tunnel", lambda: self.agent.state()["tunnel"]["state"] == "open")
        self.ends = {"edgeway": (f"127.0.0.1:{PORT}", [self.hub.process.pid, self.agent.process.pid])}
        for i, (name, suites) in enumerate((("haproxy", ""), ("haproxy, AES-128", AES128))):
            self.ends[name] = self.haproxy(3000 + 10 * i, suites, delay_ms)

    def program(self, name):
        return os.path.join(self.lab.build, "bench", name)

    def start(self, machine, name, *args):
        p = machine.start(f"{name}-{args[0]}".replace(":", "-"), self.program(name), *args)
        labs.wait_for(name, lambda: "ready" in p.log())
        return p

    def haproxy(self, port, suites, delay_ms):
        """Where clients dial, and the two processes."""
        proof, pids, tls = f"ca-file {self.dir}/ca.pem verify required ssl-min-ver TLSv1.3", [], f"{NODE}:{port + 1}"
        if delay_ms:
            tls = f"127.0.0.1:{port + 2}"
            self.start(self.cloud, "delay", tls, f"{NODE}:{port + 1}", delay_ms)
        for machine, at, bind, server in (
                (self.node, f"{NODE}:{port + 1}", f"bind {NODE}:{port + 1} ssl crt {self.dir}/hub.pem {proof}", "server s 127.0.0.1:2000"),
                (self.cloud, f"127.0.0.1:{port}", f"bind 127.0.0.1:{port}", f"server s {tls} ssl crt {self.dir}/node.pem {proof}")):
            path = os.path.join(self.dir, f"haproxy-{port}-{machine.name}.cfg")
            with open(path, "w") as f:
                f.write(HAPROXY.format(suites=suites, bind=bind, server=server))
            p = machine.start(f"haproxy-{port}", "haproxy", "-db", "-f", path)
            labs.wait_for(at, lambda m=machine, a=at: f"{a} " in m.run("ss", "-tlnH").stdout)
            pids.append(p.pid)
        return f"127.0.0.1:{port}", pids

    def load(self, at, verb, total):
        def one():
            self.cloud.run(self.program("pump"), verb, at, total, 1, seconds=600)
            return total / MB
        return one


def bulk(args, congestion, delay_ms, total):
    where = f"a round trip of {2 * delay_ms} ms" if delay_ms else "a veth"
    with labs.Lab() as lab:
        bench = Bench(lab, congestion, delay_ms)
        for verb, what in WAYS:
            each = [frame.Contender(name, [p for pid in pids for p in frame.children_of(pid)], bench.load(at, verb, total))
                    for name, (at, pids) in bench.ends.items()]
            frame.run(each, args.rounds, say)
            found = {c.name: frame.medians(c) for c in each}
            head(f"One stream {what}, {where}, {congestion}", "relay", "MB/s", "of all rounds", "against haproxy", "CPU s per GB", "against haproxy")
            for c in each:
                cpu, rate = found[c.name]
                row(c.name, f"{rate:.0f}", "–".join(f"{f(x[1] for x in c.rounds):.0f}" for f in (min, max)), f"{rate / found['haproxy'][1]:.2f}",
                    f"{cpu / 1000:.2f}", f"{cpu / found['haproxy'][0]:.2f}")
            cpu, rate = found["edgeway"]
            ratio, name = rate / found["haproxy"][1], f"streams: bulk {what}, {congestion}"
            if delay_ms:
                print(f"\n{ratio:.2f} × HAProxy's hop ({frame.bar(f'{name}, 50 ms: rate of the hop', ratio, 1.0, least=True)}).", flush=True)
            else:
                print(f"\n{ratio:.2f} × HAProxy's hop ({frame.bar(f'{name}: rate of the hop', ratio, 1.3, least=True)}) at {cpu / 1000:.2f} CPU s per GB, "
                      f"both ends ({frame.bar(f'{name}: CPU s per GB', cpu / 1000, 1.5)}).", flush=True)


def part_bulk(args):
    for congestion in ("bbr", "reno"):
        bulk(args, congestion, 0, (20 if args.smoke else 1500) * MB)


def part_far(args):
    for congestion in ("bbr", "reno"):
        bulk(args, congestion, DELAY_MS, (20 if args.smoke else 2000) * MB)


class Opened:
    """n streams, until it is closed."""

    def __init__(self, bench, n):
        self.bench = bench
        self.process = subprocess.Popen(bench.cloud.argv(*labs.BARE_PYTHON, os.path.join(NET, "many.py"), "127.0.0.1", 10080, "edge-1:2001", n),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.served = json.loads(self.process.stdout.readline())["served"]
        if self.served != n:
            raise RuntimeError(f"{self.served} of {n} streams were served")

    def close(self):
        self.process.communicate("\n")
        labs.wait_for("closed", lambda: self.bench.hub.metrics()["edgeway_tunnel_streams"] == 0)


def part_idle(args):
    n, costs = 50 if args.smoke else STREAMS, []
    head(f"{n} idle streams, opened at once where five had been carried", "round", "hub's anonymous bytes of each", "agent's")
    for i in range(args.rounds):
        with labs.Lab() as lab:
            bench = Bench(lab)
            pids = bench.ends["edgeway"][1]
            Opened(bench, 5).close()
            before = [frame.memory_kb([pid])[2] for pid in pids]
            opened = Opened(bench, n)
            each = [(frame.memory_kb([pid])[2] - kb) * 1024 / n for pid, kb in zip(pids, before)]
            opened.close()
            row(i + 1, *[f"{x:.0f}" for x in each])
            costs.append(each)
    told = []
    for end, cost in zip(("hub", "agent"), map(statistics.median, zip(*costs))):
        told.append(f"{cost:.0f} bytes at the {end} ({frame.bar(f'streams: bytes of an idle one at the {end}', cost, 1536)})")
    print(f"\n{', '.join(told)}.", flush=True)


PARTS = {"bulk": part_bulk, "far": part_far, "idle": part_idle}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    if args.smoke:
        args.rounds = 1
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"## Streams through the real hub and agent\n\n`bench/bench_streams.py --only {' '.join(args.only)} --rounds {args.rounds}` on {frame.machine()}", flush=True)
    for name in args.only:
        PARTS[name](args)


if __name__ == "__main__":
    main()
