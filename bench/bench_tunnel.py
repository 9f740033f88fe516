#!/usr/bin/python3
"""The tunnel as a relay of TCP, beside a TLS hop through HAProxy and OpenSSH's -R: speed, latency, memory, fairness.

    bench/bench_tunnel.py [--smoke] [--unpaced] [--only PART ...] [--rounds N]

Ours is tunnel/ as it is between two programs (bench/tunnel.c): plain TCP in at the hub, one TLS connection that the
agent has dialled, plain TCP out. HAProxy: two processes, plain TCP in, mutual TLS 1.3 between them, plain TCP out; a TLS connection for
each that is carried, so it is the ceiling for a multiplexer. The load is bench/pump.c. Round trips of 50 ms come from bench/delay.c.
Prints a section for bench/RESULTS.md. Root; namespaces of its own. With --unpaced nobody's TCP is: where the kernel's
default is BBR, each packet waits for a timer, which peers pay for on loopback; ours and the load asks for another there.
"""
import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from frame import Contender, bar, children_of, cpu_ns, machine, medians, memory_kb, run  # noqa: E402

BUILD = os.path.join(os.getcwd(), "bench")
SSHD = "/usr/sbin/sshd"
TARGET = "127.0.0.1:2000"
MB = 1000 * 1000

HAPROXY = """
global
  nbthread 1
  maxconn 8192
  tune.ssl.default-dh-param 2048
{suites}
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen hop
  {bind}
  {server}
"""
AES128 = """  ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
  ssl-default-server-ciphersuites TLS_AES_128_GCM_SHA256"""


class Bench:
    """Processes and files of one run; everything ends with it."""

    def __init__(self, directory):
        self.dir, self.started = directory, []
        subprocess.run([f"{BUILD}/tunnel", "keys", directory], check=True)

    def start(self, *argv, ready="ready", env=None):
        log = open(os.path.join(self.dir, f"{len(self.started)}.log"), "w+")
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE if ready else log, stderr=log, text=True,
                             env={**os.environ, **(env or {})})
        self.started.append(p)
        if ready and p.stdout.readline().strip() != ready:
            p.kill()
            log.seek(0)
            raise RuntimeError(f"{' '.join(argv)}: {log.read()}")
        return p

    def file(self, name, text, mode=0o600):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def stop(self, *processes):
        for p in processes or reversed(self.started):
            if p.poll() is None:
                p.kill()
            p.wait()

    # --- contenders: each gives the address that clients dial, and the processes that do the work ---

    def edgeway(self, port, delay_ms=0, tunnels=1, at_once=1, target=TARGET, env=None):
        tls = f"127.0.0.1:{port + 1}"
        hub = self.start(f"{BUILD}/tunnel", "hub", self.dir, tls, f"127.0.0.1:{port}", ready=None, env=env)
        wait_port(port + 1)
        extra = []
        if delay_ms:
            extra.append(self.start(f"{BUILD}/delay", f"127.0.0.1:{port + 2}", tls, str(delay_ms)))
            tls = f"127.0.0.1:{port + 2}"
        agent = self.start(f"{BUILD}/tunnel", "agent", self.dir, tls, target, str(tunnels), str(at_once), env=env)
        return f"127.0.0.1:{port}", [hub, agent], extra

    def haproxy(self, port, suites="", delay_ms=0):
        tls, extra, ends = f"127.0.0.1:{port + 1}", [], []
        proof = f"ca-file {self.dir}/ca.pem verify required ssl-min-ver TLSv1.3"
        if delay_ms:
            extra.append(self.start(f"{BUILD}/delay", f"127.0.0.1:{port + 2}", tls, str(delay_ms)))
            tls = f"127.0.0.1:{port + 2}"
        for name, bind, server in (
                ("far", f"bind 127.0.0.1:{port + 1} ssl crt {self.dir}/hub.pem {proof}", f"server s {TARGET}"),
                ("near", f"bind 127.0.0.1:{port}", f"server s {tls} ssl crt {self.dir}/node.pem {proof}")):
            path = self.file(f"haproxy-{port}-{name}.cfg", HAPROXY.format(suites=suites, bind=bind, server=server))
            ends.append(self.start("haproxy", "-db", "-f", path, ready=None))
            wait_port(port + (name == "far"))
        return f"127.0.0.1:{port}", ends, extra

    def ssh(self, port, delay_ms=0):
        """OpenSSH with the fastest of its ciphers here."""
        at, extra = port + 1, []
        for key in ("host", "user"):
            if not os.path.exists(f"{self.dir}/{key}"):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.dir}/{key}"], check=True)
        shutil.copy(f"{self.dir}/user.pub", f"{self.dir}/authorized")
        sshd = self.start(SSHD, "-D", "-e", "-p", str(at), "-h", f"{self.dir}/host", "-o", "ListenAddress=127.0.0.1", "-o", "UsePAM=no",
                          "-o", "StrictModes=no", "-o", f"AuthorizedKeysFile={self.dir}/authorized", "-o", "PermitRootLogin=yes",
                          "-o", "PidFile=none", "-f", self.file("sshd.conf", ""), ready=None)
        wait_port(at)
        if delay_ms:
            extra.append(self.start(f"{BUILD}/delay", f"127.0.0.1:{port + 2}", f"127.0.0.1:{at}", str(delay_ms)))
            at = port + 2
        ssh = self.start("ssh", "-N", "-F", "none", "-p", str(at), "-i", f"{self.dir}/user", "-o", "StrictHostKeyChecking=no",
                         "-o", f"UserKnownHostsFile={self.dir}/known", "-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=ERROR",
                         "-c", "aes128-gcm@openssh.com", "-R", f"127.0.0.1:{port}:{TARGET}", "127.0.0.1", ready=None)
        wait_port(port)
        return f"127.0.0.1:{port}", [sshd, ssh], extra


def with_ssh(contenders, bench, *where):
    """A peer that may be missing, or that lets nobody in (a locked root)."""
    try:
        if os.path.exists(SSHD):
            contenders["ssh -R"] = bench.ssh(*where)
    except RuntimeError as e:
        say(f"left out: ssh -R: {e}")


def wait_port(port):
    """Until somebody listens there: read from the kernel's table, so that no contender sees a connection."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with open("/proc/net/tcp") as f:
            if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in list(f)[1:]):
                return
        time.sleep(0.02)
    raise RuntimeError(f"nobody listens at port {port}")


def pump(*argv):
    return [float(x) for x in subprocess.run([f"{BUILD}/pump", *map(str, argv)], check=True, stdout=subprocess.PIPE, text=True).stdout.split()]


def pids_of(processes):
    return [pid for p in processes for pid in children_of(p.pid)]


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(title, *cells):
    print(f"\n### {title}\n")
    row(*cells)
    print("|" + "---|" * len(cells))


def say(text):
    print(text, file=sys.stderr, flush=True)


def bulk(at, verb, total, streams):
    def load():
        each = total // streams
        pump(verb, at, each, streams)
        return each * streams / MB
    return load


def speed(contenders, rounds, title, verb, total, streams):
    """contenders: name -> (address, processes, extra)"""
    each = [Contender(name, pids_of(c[1]), bulk(c[0], verb, total, streams)) for name, c in contenders.items()]
    run(each, rounds, say)
    base = next(medians(c)[1] for c in each if c.name == "haproxy")
    head(title, "relay", "MB/s", "against haproxy", "CPU s per GB", "against haproxy")
    base_cpu = next(medians(c)[0] for c in each if c.name == "haproxy")
    for c in each:
        cpu, rate = medians(c)
        row(c.name, f"{rate:.0f}", f"{rate / base:.2f}", f"{cpu / 1000:.2f}", f"{cpu / base_cpu:.2f}")
    ours = next(medians(c) for c in each if c.name == "edgeway")
    return ours[1], ours[1] / base, ours[0] / 1000


def part_speed(bench, contenders, args):
    total = (20 if args.smoke else 1500) * MB
    rates = {}
    for verb, what in (("down", "to the client"), ("up", "from the client")):
        rate, ratio, cpu = speed(contenders, args.rounds, f"One stream, {what}", verb, total, 1)
        rates[verb] = rate
        print(f"\n{ratio:.2f} × HAProxy's hop ({bar(f'tunnel: bulk, {what}: rate of the hop', ratio, 1.5, least=True)}) at {cpu:.2f} CPU s per GB, both ends ({bar(f'tunnel: bulk, {what}: CPU s per GB', cpu, 1.3)}).")
    for verb, what in (("down", "to the client"), ("up", "from the client")):
        rate, ratio, cpu = speed(contenders, args.rounds, f"50 streams, {what}", verb, total, 50)
        print(f"\n{rate / rates[verb]:.2f} × the rate of one stream ({bar(f'tunnel: 50 streams against one, {what}', rate / rates[verb], 1.0, least=True)}); {ratio:.2f} × HAProxy's 50 connections.")


def part_echo(bench, contenders, args):
    times = 200 if args.smoke else 20000
    head("One byte to and fro", "relay", "p50 µs", "p99 µs", "p99 against haproxy", "beside a bulk stream: p50 µs", "p99 µs", "p99 against haproxy")
    took = {name: [[], []] for name in contenders}
    for _ in range(args.rounds):
        for name, (at, _, _) in contenders.items():
            took[name][0].append(pump("echo", at, times))
            busy = bench.start(f"{BUILD}/pump", "down", at, str(10 ** 15), "1", ready=None)
            while cpu_ns([busy.pid]) < 50e6:  # it flows
                time.sleep(0.01)
            took[name][1].append(pump("echo", at, times // 10))
            bench.stop(busy)
    mid = {name: [statistics.median(x[i] for x in t[k]) for k in (0, 1) for i in (0, 1)] for name, t in took.items()}
    for name, m in mid.items():
        row(name, *[cell for k in (0, 2) for cell in (f"{m[k]:.0f}", f"{m[k + 1]:.0f}", f"{m[k + 1] / mid['haproxy'][k + 1]:.2f}")])


def part_delay(bench, args):
    total = (20 if args.smoke else 3000) * MB
    cases = {"haproxy, AES-128": bench.haproxy(4000, AES128, 25), "edgeway": bench.edgeway(4020, 25)}
    with_ssh(cases, bench, 4010, 25)
    head("One stream at a round trip of 50 ms", "relay", "MB/s from first to last byte, to the client", "MB/s, from the client")
    best = {}
    for name, (at, ends, extra) in cases.items():
        size = total if name != "ssh -R" else total // 30
        rates = [statistics.median(size / MB / pump(verb, at, size, 1)[0] for _ in range(args.rounds)) for verb in ("down", "up")]
        row(name, *[f"{r:.0f}" for r in rates])
        best[name] = min(rates)
        bench.stop(*ends, *extra)
    print(f"\nWindows at their start are 64 KiB and grow while it runs; that is in the figures ({bar('tunnel: MB/s at the round trip', best['edgeway'], 400, least=True)}).")


def delta(processes, before):
    after = [memory_kb(children_of(p.pid)) for p in processes]
    return [(a[2] - b[2]) for a, b in zip(after, before)]


def part_memory(bench, contenders, args):
    n = 50 if args.smoke else 2000
    head(f"{n} idle streams", "relay", "anonymous bytes of each, near end", "far end")
    for name, maker in (("haproxy", bench.haproxy), ("edgeway", bench.edgeway)):
        at, ends, extra = maker(5000 if name == "haproxy" else 5010)
        pump("down", at, MB, 1)  # what is made once, at first use
        before = [memory_kb([p.pid]) for p in ends]
        idle = bench.start(f"{BUILD}/pump", "idle", at, str(n))
        cost = [kb * 1024 / n for kb in delta(ends, before)]
        row(name, *[f"{c:.0f}" for c in (cost if name == "edgeway" else reversed(cost))])
        bench.stop(idle, *ends, *extra)
    print(f"\n{max(cost):.0f} bytes at the larger end ({bar('tunnel: bytes of an idle stream', max(cost), 1536)}), "
          "what joins a stream with its TCP connection included.")
    n = 10 if args.smoke else 1000
    head(f"{n} idle tunnels", "handshakes under way at a time", "hub's anonymous kB of each", "agent's")
    small = bench.edgeway(5020)
    for at_once in (1, 20, n):
        large = bench.edgeway(5030 + at_once % 900, tunnels=n + 1, at_once=at_once)
        cost = [(memory_kb([b.pid])[2] - memory_kb([a.pid])[2]) / n for a, b in zip(small[1], large[1])]
        row(at_once, *[f"{c:.1f}" for c in cost])
        bench.stop(*large[1])
        if at_once == 20:
            judged = max(cost)
    bench.stop(*small[1])
    print(f"\n{judged:.1f} kB at the larger end with 20 handshakes at a time ({bar('tunnel: kB of an idle node', judged, 40)}): session, TLS, and what its socket "
          "takes of the loop. What all handshakes need at once stays in holes of the heap, which later connections use.")


def part_stall(bench, contenders, args):
    """The same load without and with a client beside it that reads nothing, in turn."""
    at, ends, _ = contenders["edgeway"]
    total, rates = (20 if args.smoke else 1500) * MB, {0: [], 1: [], 50: []}
    for r in range(args.rounds):
        for stalled in sorted(rates, key=lambda k: (k + r) % 3):
            held = bench.start(f"{BUILD}/pump", "stall", at, str(stalled)) if stalled else None
            rates[stalled].append(total / MB / pump("down", at, total // 50, 50)[0])
            if held:
                bench.stop(held)
    head("50 streams while others are stalled", "stalled beside them", "MB/s of the 50", "against none")
    mid = {k: statistics.median(v) for k, v in rates.items()}
    for k, rate in mid.items():
        row(k, f"{rate:.0f}", f"{rate / mid[0]:.2f}")
    print(f"\n{mid[1] / mid[0]:.3f} of the rate while one is stalled ({bar('tunnel: rate beside a stalled stream', mid[1] / mid[0], 0.95, least=True)}).")


def journal(size):
    """What a node's journal has: many formats, many numbers and identifiers that never come twice."""
    r, lines, n, t = random.Random(1), [], 0, 1795200000.0
    digits = lambda k: f"{r.getrandbits(4 * k):0{k}x}"  # noqa: E731
    while n < size:
        t += r.expovariate(20)
        at = time.strftime("%b %d %H:%M:%S", time.gmtime(t)) + f".{int(t % 1 * 1e6):06d}"
        said = r.choices((
            lambda: f'nginx[1330]: 10.244.{r.randrange(8)}.{r.randrange(256)} - - "GET /api/v1/items/{r.randrange(10 ** 5)}?page={r.randrange(50)} HTTP/1.1" '
                    f'200 {r.randrange(40000)} "-" "Mozilla/5.0 (X11; Linux x86_64)" {r.random():.3f}',
            lambda: f'kubelet[812]: I{at[7:]} {r.randrange(900, 999)} prober.go:{r.randrange(900)}] "Probe succeeded" '
                    f'pod="team-{r.randrange(20)}/shop-backend-{digits(9)}-{digits(5)}" containerName="app" latency="{r.random() * 30:.6f}ms"',
            lambda: f'containerd[640]: time="{at}Z" level=info msg="CreateContainer within sandbox \\"{digits(64)}\\" returns container id \\"{digits(64)}\\""',
            lambda: f"kernel: [{t - 1795100000:.6f}] IPv6: ADDRCONF(NETDEV_CHANGE): veth{digits(8)}: link becomes ready",
            lambda: f"sshd[{r.randrange(1000, 30000)}]: Failed password for invalid user {r.choice(('admin', 'oracle', 'test'))} "
                    f"from {r.randrange(256)}.{r.randrange(256)}.{r.randrange(256)}.{r.randrange(256)} port {r.randrange(1024, 65536)} ssh2",
        ), (25, 25, 20, 15, 15))[0]()
        lines.append(f"{at} edge-1 {said}\n")
        n += len(lines[-1])
    return "".join(lines)[:size]


def sent(process):
    """Bytes that went out of the process's TLS connection, as the kernel counts."""
    text = subprocess.run(["ss", "-tinHp"], stdout=subprocess.PIPE, text=True, check=True).stdout.replace("\n\t", " ")
    return sum(int(word.split(":")[1]) for line in text.splitlines() if f"pid={process.pid}," in line
               for word in line.split() if word.startswith("bytes_sent:"))


def part_compress(bench, contenders, args):
    size = 10_500_000
    times = 1 if args.smoke else 20
    bench.start(f"{BUILD}/pump", "target", "127.0.0.1:2001", bench.file("journal", journal(size)))
    head(f"A journal of {size / MB} MB, {times} times in one stream", "tunnel.compress", "bytes on the wire, of the clear text", "MB/s", "CPU s per GB, agent (deflates)", "hub (inflates)")
    for k, name in enumerate(("off", "on")):
        at, ends, _ = bench.edgeway(6000 + 10 * k, target="127.0.0.1:2001", env={"TUNNEL_SQUEEZE": "1"} if name == "on" else None)
        rates, cpu, before = [], [cpu_ns([p.pid]) for p in ends], sent(ends[1])
        for _ in range(args.rounds):
            rates.append(times * size / MB / pump("down", at, times * size, 1)[0])
        total = args.rounds * times * size
        share, rate = (sent(ends[1]) - before) / total, statistics.median(rates)
        used = [(cpu_ns([p.pid]) - b) / total for p, b in zip(ends, cpu)]
        row(name, f"{share:.3f}", f"{rate:.0f}", f"{used[1]:.2f}", f"{used[0]:.2f}")
        bench.stop(*ends)
    print(f"\n{100 * (1 - share):.1f} % saved ({bar('tunnel: percent saved', 100 * (1 - share), 70, least=True)}) at {rate:.0f} MB/s ({bar('tunnel: MB/s compressed', rate, 80, least=True)}). zlib level 1, window 32 KiB. "
          f"The agent's CPU alone allows {1000 / used[1]:.0f} MB/s.")


def part_carrier(bench, contenders, args):
    """The same tunnel inside of a websocket inside of TLS, beside itself."""
    total = (20 if args.smoke else 1000) * MB
    both = {"tls": bench.edgeway(6100), "websocket": bench.edgeway(6110, env={"TUNNEL_CARRIER": "1"})}
    head("tunnel.carrier", "carrier", "MB/s to the client", "CPU s per GB", "MB/s from the client", "CPU s per GB")
    rows = {name: [] for name in both}
    for verb in ("down", "up"):
        each = [Contender(name, pids_of(c[1]), bulk(c[0], verb, total, 1)) for name, c in both.items()]
        run(each, args.rounds, say)
        for c in each:
            cpu, rate = medians(c)
            rows[c.name] += [f"{rate:.0f}", f"{cpu / 1000:.2f}"]
    for name, cells in rows.items():
        row(name, *cells)
    n = 10 if args.smoke else 500
    print("\nAn idle tunnel:", end="")
    for k, (name, env) in enumerate((("tls", None), ("websocket", {"TUNNEL_CARRIER": "1"}))):
        large = bench.edgeway(6200 + 10 * k, tunnels=n + 1, at_once=20, env=env)
        cost = [(memory_kb([b.pid])[2] - memory_kb([a.pid])[2]) / n for a, b in zip(both[name][1], large[1])]
        print(f" {name} {cost[0]:.1f} kB at the hub, {cost[1]:.1f} at the agent{'.' if k else ';'}", end="")
        bench.stop(*large[1])
    print(flush=True)
    for c in both.values():
        bench.stop(*c[1])


PARTS = {"speed": part_speed, "echo": part_echo, "stall": part_stall, "memory": part_memory, "carrier": part_carrier, "compress": part_compress}


def congestion():
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as f:
        return f.read().strip()


def set_congestion(name):
    with open("/proc/sys/net/ipv4/tcp_congestion_control", "w") as f:
        f.write(name)


def inside(args):
    """In a network and a /run of our own."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    if args.unpaced:
        set_congestion("reno")  # the only one that every kernel has, and lets a namespace choose
    os.makedirs("/run/sshd", mode=0o755)
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        bench = Bench(directory)
        try:
            bench.start(f"{BUILD}/pump", "target", TARGET)
            contenders = {"haproxy": bench.haproxy(3000), "haproxy, AES-128": bench.haproxy(3010, AES128), "edgeway": bench.edgeway(3030)}
            with_ssh(contenders, bench, 3020)
            for name, part in PARTS.items():
                if name in args.only:
                    part(bench, contenders, args)
            if "delay" in args.only:
                part_delay(bench, args)
        finally:
            bench.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[*PARTS, "delay"])
    parser.add_argument("--unpaced", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.rounds = args.rounds or (1 if args.smoke else 5)
    if args.inside:
        inside(args)
        return
    options = "".join(f" --{name}" for name in ("smoke", "unpaced") if getattr(args, name))
    print(f"## Tunnel\n\n`bench/bench_tunnel.py{options}` on {machine()}, TCP by {'reno' if args.unpaced else congestion()}, "
          f"load {os.getloadavg()[0]:.1f} before it", flush=True)
    sys.exit(subprocess.run(["unshare", "--net", "--mount", sys.executable, os.path.abspath(__file__), "--inside", *sys.argv[1:]]).returncode)


if __name__ == "__main__":
    main()
