#!/usr/bin/python3
"""What a proxy adds to the latency at a fixed rate: 2 000 requests a second of 1 KB over 50 kept connections, sent when they are
due, whatever is still unanswered (open loop, bench/openloop.c), and timed from then (coordinated omission corrected).

    bench/bench_latency.py [--smoke] [--rounds N] [--seconds S] [--rate N]

The machines and contenders are bench_http.py's; the floor is what any hop costs on this machine. p50, p99 and p99.9 are medians of the rounds, in which the contenders take turns.
"""
import argparse
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
import lab as labs  # noqa: E402
from bench_http import Bench  # noqa: E402

BAR_P99 = 1.3  # of direct's, on a quiet machine
CONNECTIONS = 50
CONTENDERS = ("direct", "floor", "haproxy", "nginx", "edgeway")


def measure(b, name, o):
    host, port = b.places[name]
    p = b.client.run(os.path.join(b.lab.build, "bench", "openloop"), host, port, b.host, o.rate, o.seconds, CONNECTIONS,
                     seconds=o.seconds + 30)
    if p.returncode != 0:
        raise RuntimeError(f"{name}: {p.stderr}")
    return [int(x) / 1000 for x in p.stdout.split()[1:]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=int, default=10)
    p.add_argument("--rate", type=int, default=2000)
    o = p.parse_args()
    if o.smoke:
        o.rounds, o.seconds, o.rate = 1, 1, 500
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_latency.py --rounds {o.rounds} --seconds {o.seconds}` on {frame.machine()}\n", flush=True)
    got = {name: [] for name in CONTENDERS}
    with labs.Lab() as lab:
        b = Bench(lab, 100 if not o.smoke else 20, o.seconds)
        for r in range(o.rounds):
            turn = CONTENDERS[r % len(CONTENDERS):] + CONTENDERS[:r % len(CONTENDERS)]
            for name in turn:
                got[name].append(measure(b, name, o))
                print(f"  round {r + 1}/{o.rounds} {name:10}", *(f"{x:.2f}" for x in got[name][-1]), "ms", flush=True)
    print(f"\n### {o.rate} requests/s, open loop, {CONNECTIONS} connections: ms from when a request was due\n\n"
          "| contender | p50 | of all rounds | p99 | of all rounds | p99.9 | most |\n|---|---|---|---|---|---|---|")
    for name, rounds in got.items():
        p50, p99, p999, most = (list(column) for column in zip(*rounds))
        print(f"| {name} | {statistics.median(p50):.2f} | {frame.spread(p50)} | {statistics.median(p99):.2f} | {frame.spread(p99)} | "
              f"{statistics.median(p999):.2f} | {max(most):.2f} |")
        frame.record("quantiles", table=f"{o.rate} requests/s, open loop", row=name, p50=p50, p99=p99, p999=p999)
    ratio, hop, floor = (statistics.median(x[1] / y[1] for x, y in zip(got[name], got[base]))
                         for name, base in (("edgeway", "direct"), ("edgeway", "floor"), ("floor", "direct")))
    print(f"\np99 is {ratio:.2f} of direct's ({frame.bar('latency: p99 of direct at a fixed rate', ratio, BAR_P99)}), and {hop:.2f} of that of the bare "
          f"relay, which knows nothing and has {floor:.2f} of direct's: what any further hop costs here.\n")


if __name__ == "__main__":
    main()
