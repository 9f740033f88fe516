#!/usr/bin/python3
"""The hub's ingress.tls with a certificate, where TLS of the caller ends and begins anew towards the node: 1 KB from nginx on a node, kept and with a
connection each, with a hub whose loop does all (`workers: 1`) and one with workers, in turn.

    bench/bench_door_tls.py [--smoke] [--rounds N] [--seconds S] [--workers N...]

CPU is the hub's, with all threads, and that of its main thread alone. Prints a table for bench/RESULTS.md. Root; namespaces of the bench's own.
"""
import argparse
import contextlib
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import bench_http  # noqa: E402
import frame  # noqa: E402
import lab as labs  # noqa: E402
from pki import Authority  # noqa: E402

HUB, PORT, CONNECTIONS = "192.0.2.1", 7443, 32
WAYS = {"kept": [], "a connection each": ["-H", "Connection: close"]}


class Door:
    def __init__(self, lab, workers, seconds):
        ca, self.seconds = Authority(lab.dir), seconds
        cert, key = ca.issue("edge-1", "subjectAltName=DNS:edge-1")
        self.hub = labs.Hub(lab, "--workers", workers, "--access", f"[{{from: {HUB}, to: ['*']}}]", "--ingress.tls",
                            f"[{{listen: '{HUB}:{PORT}', target: 8443, cert: {cert}, key: {key}, serverCA: {ca.cert}}}]")
        node = labs.Node(lab, "edge-1", "192.0.2.11")
        node.start("nginx", "nginx", "-c", bench_http.config(node, "backend.conf", bench_http.BACKEND_CONF, more=bench_http.BACKEND_TLS, files=(cert, key, ca.cert)))
        agent = labs.Agent(node, self.hub, "--tunnel.allow", "node,node:8443")
        labs.wait_for("tunnel", lambda: agent.state()["tunnel"]["state"] == "open")
        self.hosts = os.path.join(lab.dir, "hosts")  # wrk's SNI is the name that it resolves
        with open(self.hosts, "w") as f:
            f.write(f"{HUB} edge-1\n")
        self.found = {way: [] for way in WAYS}
        labs.wait_for("an answer", lambda: self.wrk("-d1s").returncode == 0 and self.requests)

    def wrk(self, *options):
        done = self.hub.machine.run("unshare", "-m", "sh", "-c", f'mount --bind {self.hosts} /etc/hosts && exec "$@"', "sh", "wrk", "-t1", f"-c{CONNECTIONS}",
                                    "--timeout", "20s", *options, f"https://edge-1:{PORT}/", seconds=self.seconds + 60)
        words = done.stdout.split()
        self.requests = int(words[words.index("requests") - 1]) if "requests" in words and "Non-2xx" not in done.stdout else 0
        return done

    def cpu_us(self):
        pid = self.hub.process.pid
        with open(f"/proc/{pid}/task/{pid}/schedstat") as f:
            return frame.cpu_ns([pid]) / 1000, int(f.read().split()[0]) / 1000

    def round(self, way):
        before = self.cpu_us()
        self.wrk(f"-d{self.seconds}s", *WAYS[way])
        if self.requests == 0:
            raise RuntimeError(f"no answers: {way}")
        whole, main = (after - b for after, b in zip(self.cpu_us(), before))
        self.found[way].append((self.requests / self.seconds, whole / self.requests, main / self.requests))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--workers", nargs="*", default=["1", "2"])
    args = parser.parse_args()
    if args.smoke:
        args.rounds = args.seconds = 1
    print(f"`bench/bench_door_tls.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}, load {os.getloadavg()[0]:.1f} before it\n", flush=True)
    with contextlib.ExitStack() as stack:
        doors = {w: Door(stack.enter_context(labs.Lab()), w, args.seconds) for w in args.workers}
        for _ in range(args.rounds):
            for way in WAYS:
                for door in doors.values():
                    door.round(way)
    print("| ingress.tls | workers | requests/s: median (least, most) | µs of the hub's CPU a request | of them main thread |\n|---|---|---|---|---|")
    for way in WAYS:
        for workers, door in doors.items():
            rate, whole, main_us = zip(*door.found[way])
            print(f"| {way} | {workers} | {statistics.median(rate):.0f} ({min(rate):.0f}, {max(rate):.0f}) | {statistics.median(whole):.1f} | "
                  f"{statistics.median(main_us):.1f} |")


if __name__ == "__main__":
    main()
