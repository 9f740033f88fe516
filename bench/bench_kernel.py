#!/usr/bin/python3
"""Load and change of what the kernel carries, and how soon it is back when somebody flushes the ruleset: our maps, filled by netlink, against a ruleset of the shape of kube-proxy's
(a chain a service, a chain an endpoint), filled by nft as kube-proxy does it. In one run, interleaved, medians.

    bench/bench_kernel.py [--smoke] [--rounds N] [--services N ...] [--chains N ...]
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

BUILD = os.environ.get("top_builddir") or os.getcwd()


class Namespace:
    """Dies with its holder, and everything in it."""

    def __enter__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c",
                                        "ip link set lo up && ip link add docker0 type bridge && "
                                        "ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up && "
                                        "echo ready && exec sleep 3600"], stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            raise RuntimeError("no network namespace (root is needed)")
        return self

    def __exit__(self, *exc):
        self.holder.kill()
        self.holder.wait()

    def argv(self, *argv):
        return ["nsenter", "-t", str(self.holder.pid), "-n", "--", *argv]

    def nft(self, text):
        """Milliseconds; the script is piped in, as kube-proxy does it."""
        start = time.monotonic()
        subprocess.run(self.argv("nft", "-f", "-"), input=text, text=True, check=True)
        return (time.monotonic() - start) * 1000

    def rules(self):
        out = subprocess.run(self.argv("nft", "-t", "list", "ruleset"), capture_output=True, text=True, check=True).stdout
        words = ("dnat", "goto", "jump", "vmap", "reject", "masquerade", "mark")
        return sum(any(w in line for w in words) and not line.strip().startswith(("type", "chain", "map", "set"))
                   for line in out.splitlines())


# --- ours -----------------------------------------------------------------------------


def flush(space, p):
    """Milliseconds from the start of an nft that flushes all to the end of the repair."""
    time.sleep(0.5)  # repairs that follow each other closely wait for each other
    start = time.monotonic() * 1000
    subprocess.run(space.argv("nft", "flush", "ruleset"), check=True)
    return float(p.stdout.readline()) - start


def ours(n, changes, flushes):
    """{load, add, change, remove, repair: ms}, rules"""
    with Namespace() as space:
        p = subprocess.Popen(space.argv(os.path.join(BUILD, "bench", "maps"), str(n), str(changes)),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        times = {}
        for line in p.stdout:
            if line == "ready\n":
                break
            name, value = line.split()
            times[name] = float(value)
        rules = space.rules()
        times["repair"] = statistics.median(flush(space, p) for _ in range(flushes))
        if space.rules() != rules:
            raise RuntimeError("not all was put back")
        p.stdin.close()
        if p.wait(60) != 0:
            raise RuntimeError("bench/maps failed")
        return times, rules


# --- the other shape ---------------------------------------------------------------------


def chains_of(i):
    return [f"service-{i}", f"endpoint-{i}-1", f"endpoint-{i}-2"]


def endpoint_rules(i, k):
    ip = f"10.{i >> 8}.{i & 255}.{k}"
    return (f"add rule ip kube-proxy endpoint-{i}-{k} ip saddr {ip} jump mark-for-masquerade\n"
            f"add rule ip kube-proxy endpoint-{i}-{k} meta l4proto tcp dnat to {ip}:8080\n")


def service_text(i):
    return ("".join(f"add chain ip kube-proxy {c}\n" for c in chains_of(i)) + endpoint_rules(i, 1) + endpoint_rules(i, 2) +
            f"add rule ip kube-proxy service-{i} numgen random mod 2 vmap "
            f"{{ 0 : goto endpoint-{i}-1, 1 : goto endpoint-{i}-2 }}\n" + element("add", i))


def element(verb, i):
    to = f" : goto service-{i}" if verb == "add" else ""
    return f"{verb} element ip kube-proxy service-ips {{ 9.251.{i >> 8}.{i & 255} . tcp . 80{to} }}\n"


FRAME = """
add table ip kube-proxy
add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; }
add chain ip kube-proxy mark-for-masquerade
add rule ip kube-proxy mark-for-masquerade meta mark set meta mark or 0x4000
add chain ip kube-proxy services
add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }
add rule ip kube-proxy nat-prerouting jump services
add chain ip kube-proxy nat-output { type nat hook output priority -100 ; }
add rule ip kube-proxy nat-output jump services
"""


def chains(n, changes):
    with Namespace() as space:
        times = {"load": space.nft(FRAME + "".join(service_text(i) for i in range(n)))}
        kinds = {"add": [], "change": [], "remove": []}
        for _ in range(changes):
            kinds["add"].append(space.nft(service_text(n)))
            kinds["change"].append(space.nft(f"flush chain ip kube-proxy endpoint-{n}-2\n" + endpoint_rules(n, 2)))
            kinds["remove"].append(space.nft(element("delete", n) + "".join(
                f"flush chain ip kube-proxy {c}\n" for c in chains_of(n)) + "".join(
                f"delete chain ip kube-proxy {c}\n" for c in chains_of(n))))
        times.update({k: statistics.median(v) for k, v in kinds.items()})
        return times, space.rules()


# --- the whole ------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--services", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--chains", type=int, nargs="+", default=[1000, 3000])
    args = parser.parse_args()
    flushes = 1 if args.smoke else 9
    if args.smoke:
        args.rounds, args.services, args.chains = 1, [200], [200]
    jobs = [("edgeway, maps", ours, n, 100, flushes) for n in args.services] + \
           [("chains, nft", chains, n, 7) for n in args.chains]
    results = {}
    for r in range(args.rounds):
        for name, fn, n, *more in jobs:
            times, rules = fn(n, *more)
            results.setdefault((name, n), []).append((times, rules))
            print(f"  round {r + 1}/{args.rounds} {name} {n}: " +
                  " ".join(f"{k} {v:.2f} ms" for k, v in times.items()), file=sys.stderr)
    print("| shape | services | rules | load ms | add one ms | change one ms | remove one ms | back after a flush, ms |\n|---|---|---|---|---|---|---|---|")
    for (name, n), rows in results.items():
        cells = [statistics.median(t[k] for t, _ in rows) if k in rows[0][0] else None for k in ("load", "add", "change", "remove", "repair")]
        print(f"| {name} | {n} | {rows[0][1]} | " + " | ".join("-" if c is None else f"{c:.1f}" if c >= 10 else f"{c:.2f}" for c in cells) + " |")
    biggest = max(n for name, n in results if name.startswith("edgeway"))
    mine = results[("edgeway, maps", biggest)]
    load = statistics.median(t["load"] for t, _ in mine)
    change = max(statistics.median(t[k] for t, _ in mine) for k in ("add", "change", "remove"))
    repaired = [(n, statistics.median(t["repair"] for t, _ in rows)) for (name, n), rows in results.items() if name.startswith("edgeway")]
    print(f"\nBars: {biggest} services in under a second: {'met' if load < 1000 else 'missed'} ({load:.0f} ms); one change "
          f"in under 5 ms: {'met' if change < 5 else 'missed'} ({change:.2f} ms); a flushed ruleset back in 50 ms: " + ", ".join(
              f"{'met' if ms <= 50 else 'missed'} with {n} ({ms:.0f} ms)" for n, ms in repaired) + ".")


if __name__ == "__main__":
    main()
