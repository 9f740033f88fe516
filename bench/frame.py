"""The frame of every bench: peers and ours run interleaved in one go, and only medians and ratios count.

A contender has a name, the pids that do its work, and a function that puts one round of load on it and returns how
many units (requests, queries) were served. CPU comes from the kernel's accounting of these pids
(/proc/PID/task/*/schedstat, nanoseconds on a CPU), memory from /proc/PID/smaps_rollup.
"""
import datetime
import glob
import os
import statistics
import time


class Contender:
    def __init__(self, name, pids, load):
        self.name, self.pids, self.load = name, pids, load
        self.rounds = []


def children_of(pid):
    found = [pid]
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path) as f:
            for child in f.read().split():
                found += children_of(int(child))
    return found


def cpu_ns(pids):
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            with open(path) as f:
                total += int(f.read().split()[0])
    return total


def memory_kb(pids):
    """(RSS, PSS, anonymous) in kB, summed over the pids."""
    sums = {"Rss": 0, "Pss": 0, "Anonymous": 0}
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            for line in f:
                key = line.split(":")[0]
                if key in sums:
                    sums[key] += int(line.split()[1])
    return sums["Rss"], sums["Pss"], sums["Anonymous"]


def run(contenders, rounds, report=print):
    """Each round visits every contender once, in an order that turns, so that a noisy minute hits all."""
    for r in range(rounds):
        turn = contenders[r % len(contenders):] + contenders[:r % len(contenders)]
        for c in turn:
            before, start = cpu_ns(c.pids), time.monotonic()
            units = c.load()
            took, used = time.monotonic() - start, cpu_ns(c.pids) - before
            if units <= 0:
                raise RuntimeError(f"{c.name} served nothing in round {r + 1}")
            c.rounds.append((used / 1000 / units, units / took))
            report(f"  round {r + 1}/{rounds} {c.name:12} {units / took:10.0f}/s  {used / 1000 / units:7.2f} us CPU each")


def medians(c):
    return statistics.median(x[0] for x in c.rounds), statistics.median(x[1] for x in c.rounds)


def table(title, contenders, base, unit="request", units="requests"):
    """Markdown rows with ratios to `base` (a contender's name)."""
    base_rate = next(medians(c)[1] for c in contenders if c.name == base)
    lines = [f"### {title}", "",
             f"| contender | {units}/s | against {base} | CPU µs per {unit} | RSS MB | PSS MB | anonymous MB |",
             "|---|---|---|---|---|---|---|"]
    for c in contenders:
        cpu, rate = medians(c)
        rss, pss, anon = (x / 1024 for x in memory_kb(c.pids)) if c.pids else (0, 0, 0)
        mem = f"{rss:.1f} | {pss:.1f} | {anon:.1f}" if c.pids else "– | – | –"
        shown = f"{cpu:.2f}" if c.pids else "–"
        lines.append(f"| {c.name} | {rate:.0f} | {rate / base_rate:.2f} | {shown} | {mem} |")
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown CPU")
    return f"{os.cpu_count()} cores of {model}, Linux {os.uname().release}, {datetime.date.today().isoformat()}"
