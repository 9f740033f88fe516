#!/usr/bin/python3
"""gRPC-like calls side by side: a pod calls a service of two backends (nghttpd) directly, through HAProxy (proto h2), nginx (grpc_pass), and
Edgeway's agent: h2c with prior knowledge on both sides. All proxies stand on the node's docker0 behind the same kind of DNAT.

    bench/bench_grpc.py [--smoke] [--rounds N] [--seconds S] [--idle N]

32 channels (h2load -c 32 -m 1), each call a POST of 1 KB that is answered with 1 KB and trailers; and one channel of 32 calls at once. CPU is
that of the proxy's processes alone, all threads. Then one channel of 100 streams, 99 with such calls and one whose large answer nobody reads:
what the 99 get, against the same without that one. Prints tables for bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import re
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
import h2kit  # noqa: E402
import h2peers  # noqa: E402
import lab as labs  # noqa: E402

BACKENDS = ["192.0.2.31", "192.0.2.32"]
DOMAIN = "default.svc.cluster.local"
WORKERS = min(4, os.cpu_count() or 1)
PORTS = {"haproxy": 40100, "nginx": 40200}
CALL = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
LOADS = {"channels": ("gRPC unary 1 KB, 32 channels", ["-c32", "-m1"]), "streams": ("gRPC unary 1 KB, one channel, 32 calls at once", ["-c1", "-m32"])}
IDLE_S = 8  # since when a client has said nothing
BARS = {"cpu": 0.75, "idle": 4096, "stalled": 0.95}
DNAT = """
table ip bench {
    chain pre { type nat hook prerouting priority -105;
        ip daddr 9.252.0.1 tcp dport 80 dnat to 172.17.0.1:40100
        ip daddr 9.252.0.2 tcp dport 80 dnat to 172.17.0.1:40200
    }
}
"""
# Opens connections, one call on each, and leaves them open until it is killed.
IDLE = """
import resource, socket, sys, time
host, port, n, said = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4])
resource.setrlimit(resource.RLIMIT_NOFILE, (n + 100, n + 100))
held = []
for i in range(n):
    s = socket.create_connection((host, port), 10)
    s.sendall(said)
    got = b""
    while got.count(b"x") < 1024 or b"grpc-status" not in got and len(got) < 1100:
        more = s.recv(65536)
        if not more:
            sys.exit(f"connection {i} was closed")
        got += more
    held.append(s)
print("idle", flush=True)
time.sleep(3600)
"""


# One connection: calls on 99 streams, a new one for each that ends, and perhaps a stream whose window is never opened again. Prints how many
# calls ended.
STALLED = """
import socket, struct, sys, time
host, port, seconds, first, call = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), bytes.fromhex(sys.argv[4]), bytes.fromhex(sys.argv[5])
stalled, stream, done = sys.argv[6] == "stalled", 1, 0
s = socket.create_connection((host, port), 10)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def calls(n):
    global stream
    out = []
    for _ in range(n):
        number = struct.pack(">I", stream)
        out.append(call.replace(b"\\xff\\xff\\xff\\xff", number))
        stream += 2
    return b"".join(out)
sent = first
if stalled:
    sent += bytes.fromhex(sys.argv[7])
    stream += 2
s.sendall(sent)
if stalled:
    time.sleep(0.5)
s.sendall(calls(99))
left, end = b"", time.monotonic() + seconds
while time.monotonic() < end:
    s.settimeout(max(end - time.monotonic(), 0.001))
    try:
        more = s.recv(1 << 18)
    except TimeoutError:
        break
    if not more:
        sys.exit("the connection was closed")
    left, at, ended, answer = left + more, 0, 0, b""
    while len(left) - at >= 9:
        n, kind, flags = int.from_bytes(left[at:at + 3], "big"), left[at + 3], left[at + 4]
        if len(left) - at < 9 + n:
            break
        if kind < 2 and flags & 1:
            ended += 1
        elif kind in (3, 7):
            sys.exit(f"frame {kind}: {left[at:at + 9 + n]}")
        elif kind in (4, 6) and not flags & 1:
            answer += left[at:at + 3] + bytes([kind, 1]) + left[at + 5:at + 9 + n] if kind == 6 else b"\\0\\0\\0\\4\\1\\0\\0\\0\\0"
        at += 9 + n
    left, done = left[at:], done + ended
    if ended or answer:
        s.sendall(answer + calls(ended))
print(done)
"""


class Bench:
    def __init__(self, lab, seconds):
        self.seconds = seconds
        for address in BACKENDS:
            m = labs.Machine(lab, f"backend-{address[-1]}", address=address)
            with open(os.path.join(m.dir, "call"), "w") as f:
                f.write("x" * 1024)
            with open(os.path.join(m.dir, "large"), "w") as f:
                f.write("x" * (8 << 20))
            m.start("nghttpd", "nghttpd", "--no-tls", "-n1", "-d", m.dir, "--trailer", "grpc-status: 0", "-a", "0.0.0.0", "8080")
        hub = labs.Hub(lab)
        hub.write("web.yaml", labs.service("web", ("grpc", 80, 8080), selector="none"),
                  labs.endpoint_slice("web-1", "web", 8080, *BACKENDS, port_name="grpc"))
        node = labs.Node(lab, "edge-1", "192.0.2.11")
        node.run("nft", "-f", "-", input=DNAT)
        agent = labs.Agent(node, hub, "--lb.policy", "round-robin")
        self.client = node.pod("client")
        self.body = os.path.join(self.client.dir, "body")
        with open(self.body, "w") as f:
            f.write("x" * 1024)
        processes = {"edgeway": agent.process}
        for name, argv in (("haproxy", h2peers.haproxy_argv), ("nginx", h2peers.nginx_argv)):
            processes[name] = node.start(name, *argv(node.dir, {"web": BACKENDS}, PORTS[name], WORKERS))
        fake = labs.wait_for("the service's address", lambda: self.client.address_of(f"web.{DOMAIN}", "@172.17.0.1"))
        self.places = {"direct": (BACKENDS[0], 8080), "haproxy": ("9.252.0.1", 80), "nginx": ("9.252.0.2", 80), "edgeway": (fake, 80)}
        for name in self.places:
            labs.wait_for(f"{name} answers", lambda n=name: self.calls(n, ["-n2", "-c1"]) == 2, 60)
        self.pids = {name: frame.children_of(processes[name].pid) if name in processes else [] for name in self.places}

    def calls(self, name, options):
        host, port = self.places[name]
        p = self.client.run("h2load", "-t1", *options, "-d", self.body, *CALL, f"http://{host}:{port}/call")
        done, good = re.search(r"(\d+) done", p.stdout), re.search(r"status codes: (\d+) 2xx, 0 3xx, 0 4xx, 0 5xx", p.stdout)
        if not good or int(good.group(1)) < int(done.group(1)):
            raise RuntimeError(f"{name}: {p.stdout}")
        return int(good.group(1))

    def contenders(self, options):
        return [frame.Contender(name, self.pids[name], lambda n=name: self.calls(n, [*options, f"-D{self.seconds}"])) for name in self.places]

    def stalled(self, rounds):
        """{name: (calls a second of 99 streams, the same beside a stream that nobody reads, the ratio)}, medians of the rounds."""
        fields = h2kit.request("/call", "POST", ("content-type", "application/grpc"), ("te", "trailers"))
        first = h2kit.PREFACE + h2kit.settings() + h2kit.window(0, 0x7fff0000 - 0xffff)
        mark = 0xffffffff
        call = h2kit.headers(mark, fields, h2kit.END_HEADERS) + h2kit.data(mark, b"x" * 1024)
        large = h2kit.headers(1, h2kit.request("/large", "POST", ("content-type", "application/grpc"), ("te", "trailers")))
        got = {name: ([], [], []) for name in self.places}
        for _ in range(rounds):
            for name, (host, port) in self.places.items():
                for i, how in enumerate(("alone", "stalled")):
                    p = self.client.run("/usr/bin/python3", "-c", STALLED, host, port, self.seconds, first.hex(), call.hex(), how, large.hex())
                    got[name][i].append(int(p.stdout) / self.seconds)
                got[name][2].append(got[name][1][-1] / got[name][0][-1])
        return {name: [statistics.median(r) for r in pair] for name, pair in got.items()}

    def idle(self, n_clients):
        """{name: (bytes of anonymous memory, of PSS) for each of so many idle clients}."""
        fields = h2kit.request("/call", "POST", ("content-type", "application/grpc"), ("te", "trailers"))
        said = h2kit.PREFACE + h2kit.settings() + h2kit.headers(1, fields) + h2kit.settings(flags=h2kit.ACK)
        grown = {}
        for name in self.places:
            if not self.pids[name]:
                continue
            before = frame.memory_kb(self.pids[name])
            p = self.client.start(f"idle-{name}", "/usr/bin/python3", "-c", IDLE, *self.places[name], n_clients, said.hex())
            labs.wait_for(f"idle clients of {name}", lambda q=p: "idle" in q.log() or not q.alive(), 60)
            if "idle" not in p.log():
                raise RuntimeError(f"idle clients of {name}: {p.log()}")
            time.sleep(IDLE_S)
            after = frame.memory_kb(self.pids[name])
            grown[name] = tuple((after[i] - before[i]) * 1024 / n_clients for i in (2, 1))
            p.kill()
        return grown


def tell_idle(grown, n_clients):
    print(f"\n### {n_clients} idle HTTP/2 clients\n\n| contender | anonymous bytes each | PSS bytes each |\n|---|---|---|")
    for name, (anonymous, pss) in grown.items():
        print(f"| {name} | {anonymous:.0f} | {pss:.0f} |")
    print(f"\nAn idle client costs {grown['edgeway'][0]:.0f} bytes ({frame.bar('grpc: bytes for an idle client', grown['edgeway'][0], BARS['idle'])}).\n", flush=True)


def tell_stalled(got):
    print("\n### One channel of 100 streams, one of which nobody reads\n\n| contender | calls/s of the other 99 | without it | ratio |\n|---|---|---|---|")
    for name, (alone, with_it, ratio) in got.items():
        print(f"| {name} | {with_it:.0f} | {alone:.0f} | {ratio:.2f} |")
    kept = got["edgeway"][2]
    print(f"\nThe others keep {kept:.2f} ({frame.bar('grpc: what 99 streams keep beside a stalled one', kept, BARS['stalled'], least=True)}).\n", flush=True)


def tell(contenders, title, main):
    print("\n" + frame.table(title, contenders, "direct", "call", "calls"))
    cpu = {c.name: frame.medians(c)[0] for c in contenders}
    of_haproxy, of_nginx = cpu["edgeway"] / cpu["haproxy"], cpu["edgeway"] / cpu["nginx"]
    bar = f" ({frame.bar('grpc: CPU of the better peer', max(of_haproxy, of_nginx), BARS['cpu'])})" if main else ""
    print(f"\nCPU per call: edgeway is {of_haproxy:.2f} of haproxy, {of_nginx:.2f} of nginx, {max(of_haproxy, of_nginx):.2f} of the better{bar}.\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--idle", type=int, default=1000, help="idle clients")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.seconds, args.idle = 1, 1, 100
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_grpc.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}\n", flush=True)
    with labs.Lab() as lab:
        b = Bench(lab, args.seconds)
        tell_idle(b.idle(args.idle), args.idle)
        for name, (title, options) in LOADS.items():
            contenders = b.contenders(options)
            frame.run(contenders, args.rounds, report=lambda line: print(line, flush=True))
            tell(contenders, title, name == "channels")
        tell_stalled(b.stalled(args.rounds))


if __name__ == "__main__":
    main()
