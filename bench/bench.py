#!/usr/bin/python3
"""All benches, several times, and one report: medians over the runs, the spread of all rounds, user and system time apart,
and which bars hold in every run.

    make bench [BENCH=smoke]
    bench/bench.py [--runs 3] [--most 6] [--only http dns ...] [--smoke] [--resume] [--minutes N] [--publish]

Each bench runs once, then each a second time, and so on. One in which a ratio of two runs differs by more than 10 % is run again, up
to --most times; what differs still is marked. --minutes bounds the whole, --resume goes on where an earlier call in the same folder ended.
Everything is in bench/results.jsonl of the build's folder, a line for each row and bar of each run, and the report in
bench/report.md beside it. --publish puts the report into bench/RESULTS.md, between its markers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
import frame  # noqa: E402

BENCHES = ("http", "latency", "idle", "streams", "door", "kubernetes", "bad_node", "dns", "grpc", "routes", "peers", "tunnel", "fanout", "kernel", "memory",
           "tracing")
MOVES = 0.10
BEGIN, END = "<!-- bench.py: begin -->\n", "<!-- bench.py: end -->\n"


def moved(values):
    return (max(values) - min(values)) / min(values) if min(values) > 0 else 0.0


class Results:
    """The lines of all runs: rows and bars by their names, in the order in which they came."""

    def __init__(self, path):
        self.path = path
        self.rows, self.bars, self.quantiles, self.machines = {}, {}, {}, []

    def read(self):
        self.rows.clear()
        self.bars.clear()
        self.quantiles.clear()
        self.machines.clear()
        with open(self.path) as f:
            for line in map(json.loads, f):
                if line["kind"] == "row":
                    self.rows.setdefault((line["bench"], line["table"], line["row"]), []).append(line)
                elif line["kind"] == "quantiles":
                    self.quantiles.setdefault((line["bench"], line["table"], line["row"]), []).append(line)
                elif line["kind"] == "bar":
                    self.bars.setdefault((line["bench"], line["name"]), []).append(line)
                elif line["kind"] == "machine":
                    self.machines.append(line["machine"])

    def ratios(self, key):
        """Of each run: the rate against that of the table's base."""
        return [x["against"] for x in self.rows[key]]

    def runs(self, bench):
        return max([len(x) for of in (self.rows, self.bars, self.quantiles) for k, x in of.items() if k[0] == bench], default=0)

    def unsteady(self, bench):
        return ([k for k in self.rows if k[0] == bench and moved(self.ratios(k)) > MOVES] +
                [k for k in self.bars if k[0] == bench and moved([x["value"] for x in self.bars[k]]) > MOVES])


def run_bench(name, path, smoke):
    """Runs it once, and adds the bench's name to the lines that it wrote, after one of the machine before it. Returns whether it ran to its end."""
    own, machine = path + ".part", frame.machine()
    print(f"--- {name}, {machine}", flush=True)
    if os.path.exists(own):
        os.unlink(own)
    done = subprocess.run(["/usr/bin/python3", os.path.join(HERE, f"bench_{name}.py"), *(["--smoke"] if smoke else [])],
                          env={**os.environ, "EDGEWAY_BENCH_RECORD": own})
    if done.returncode != 0:
        print(f"bench_{name}.py failed: status {done.returncode}", flush=True)
        return False
    if not os.path.exists(own):
        return True
    with open(own) as f, open(path, "a") as to:
        to.write(json.dumps({"bench": name, "kind": "machine", "machine": machine}) + "\n")
        for line in f:
            to.write(json.dumps({"bench": name, **json.loads(line)}) + "\n")
    os.unlink(own)
    return True


def report_rows(results):
    out, title = [], None
    for key, runs in results.rows.items():
        if (key[0], key[1]) != title:
            title = key[0], key[1]
            out += ["", f"### {key[0]}: {key[1]}", "",
                    f"| contender | rate/s | against {runs[0]['base']} | CPU µs each | of all rounds | user | system | PSS MB | runs differ by |",
                    "|---|---|---|---|---|---|---|---|---|"]
        middle = {m: statistics.median(x[m] for x in runs) for m in ("rate", "against", "cpu", "user", "system", "pss_mb")}
        rounds = [v for x in runs for v in x["rounds"]]
        cpu = (f"{middle['cpu']:.2f} | {frame.spread(rounds)} | {middle['user']:.2f} | {middle['system']:.2f} | {middle['pss_mb']:.1f}"
               if rounds else "– | – | – | – | –")
        apart = moved(results.ratios(key))
        out.append(f"| {key[2]} | {middle['rate']:.0f} | {middle['against']:.2f} | {cpu} | {100 * apart:.0f} %"
                   f"{' (unsteady)' if apart > MOVES else ''} |")
    return out


def report_quantiles(results):
    out, title = [], None
    for key, runs in results.quantiles.items():
        if (key[0], key[1]) != title:
            title = key[0], key[1]
            out += ["", f"### {key[0]}: {key[1]}, ms", "", "| contender | p50 | of all rounds | p99 | of all rounds | p99.9 | of all rounds |",
                    "|---|---|---|---|---|---|---|"]
        each = ([v for x in runs for v in x[m]] for m in ("p50", "p99", "p999"))
        out.append(f"| {key[2]} | " + " | ".join(f"{statistics.median(v):.2f} | {frame.spread(v)}" for v in each) + " |")
    return out


def report_bars(results):
    out = ["", "### Bars", "", "| bar | limit | median | of all runs | |", "|---|---|---|---|---|"]
    for (_, name), runs in results.bars.items():
        values = [x["value"] for x in runs]
        held = sum(x["held"] for x in runs)
        word = "held" if held == len(runs) else "missed" if held == 0 else f"held in {held} of {len(runs)} runs"
        out.append(f"| {name} | {'≥' if runs[0]['least'] else '≤'} {runs[0]['limit']} | {statistics.median(values):.2f} | "
                   f"{frame.spread(values)} | {word}{', unsteady' if moved(values) > MOVES else ''}{', one run' if len(runs) == 1 else ''} |")
    left = [b for b in BENCHES if results.runs(b) == 0]
    silent = [b for b in BENCHES if results.runs(b) > 0 and not any(k[0] == b for k in results.bars)]
    if left:
        out += ["", f"Not measured: {', '.join(left)}."]
    if silent:
        out += ["", f"Measured, without a bar of their own here: {', '.join(silent)}."]
    return out


def publish(text):
    path = os.path.join(HERE, "RESULTS.md")
    with open(path) as f:
        old = f.read()
    if BEGIN not in old or END not in old:
        sys.exit(f"{path}: the lines {BEGIN.strip()} and {END.strip()} are missing; put them where the report is to be")
    with open(path, "w") as f:
        f.write(old[:old.index(BEGIN)] + BEGIN + text + old[old.index(END):])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--most", type=int, default=6, help="runs of a bench whose ratios differ")
    p.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES))
    p.add_argument("--smoke", action="store_true", help="each once and short, to see that it runs")
    p.add_argument("--resume", action="store_true", help="keep what was measured before, and add to it")
    p.add_argument("--minutes", type=float, default=24 * 60, help="begin no run after so many")
    p.add_argument("--publish", action="store_true", help="into bench/RESULTS.md")
    o = p.parse_args()
    if o.smoke and o.publish:
        p.error("--publish: a smoke run measures nothing")
    if o.smoke:
        o.runs = o.most = 1
    os.environ.setdefault("top_builddir", os.getcwd())
    folder = os.path.join(os.environ["top_builddir"], "bench")
    os.makedirs(folder, exist_ok=True)
    results = Results(os.path.join(folder, "results.jsonl"))
    open(results.path, "a" if o.resume else "w").close()
    results.read()
    until, failed = time.monotonic() + 60 * o.minutes, set()
    for n in range(max(o.most, o.runs)):
        for name in o.only:
            enough = results.runs(name) > n or (n >= o.runs and not results.unsteady(name))
            if enough or name in failed or time.monotonic() > until:
                continue
            if not run_bench(name, results.path, o.smoke):
                failed.add(name)
            results.read()
    if not results.machines:
        sys.exit(f"nothing was measured; failed: {', '.join(sorted(failed))}")
    each = [results.runs(b) for b in BENCHES if results.runs(b) > 0]
    runs = str(min(each)) if min(each) == max(each) else f"{min(each)} to {max(each)}"
    text = "\n".join([f"`bench/bench.py`, {'smoke' if o.smoke else f'{runs} runs each'}: the first on {results.machines[0]}; the last on {results.machines[-1]}.",
                      *report_bars(results), *report_rows(results), *report_quantiles(results)]) + "\n"
    with open(os.path.join(folder, "report.md"), "w") as f:
        f.write(text)
    print("\n" + text)
    if o.publish:
        publish(text)
    if failed:
        sys.exit(f"failed: {', '.join(sorted(failed))}")


if __name__ == "__main__":
    main()
