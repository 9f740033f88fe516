"""The frame of every bench: peers and ours run interleaved in one go, and only medians and ratios count.

A contender has a name, the pids that do its work, and a function that puts one round of load on it and returns how
many units (requests, queries) were served. CPU comes from the kernel's accounting of these pids
(/proc/PID/task/*/schedstat, nanoseconds on a CPU, divided into user and system as /proc/PID/stat has them), memory from
/proc/PID/smaps_rollup. What a table or a bar says goes to the file EDGEWAY_BENCH_RECORD as well, a line of JSON each: bench.py
makes one report of several runs of it.
"""
import datetime
import glob
import json
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


def ticks(pids):
    """(user, system) time of the pids, in ticks of the clock."""
    user = system = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as f:
            words = f.read().rsplit(")", 1)[1].split()
        user, system = user + int(words[11]), system + int(words[12])
    return user, system


def record(kind, **what):
    path = os.environ.get("EDGEWAY_BENCH_RECORD")
    if path:
        with open(path, "a") as f:
            f.write(json.dumps({"kind": kind, **what}) + "\n")


def bar(name, value, limit, least=False):
    """What to print about a bar: `value` is to be at most (least: at least) `limit`."""
    held = value >= limit if least else value <= limit
    record("bar", name=name, value=value, limit=limit, least=least, held=held)
    return f"bar {limit}: {'met' if held else 'missed'}"


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
            before, ticked, start = cpu_ns(c.pids), ticks(c.pids), time.monotonic()
            units = c.load()
            took, used = time.monotonic() - start, cpu_ns(c.pids) - before
            if units <= 0:
                raise RuntimeError(f"{c.name} served nothing in round {r + 1}")
            user, system = (b - a for a, b in zip(ticked, ticks(c.pids)))
            each = used / 1000 / units
            c.rounds.append((each, units / took, each * user / max(user + system, 1), each * system / max(user + system, 1)))
            report(f"  round {r + 1}/{rounds} {c.name:12} {units / took:10.0f}/s  {used / 1000 / units:7.2f} us CPU each")


def medians(c):
    return statistics.median(x[0] for x in c.rounds), statistics.median(x[1] for x in c.rounds)


def spread(values):
    return f"{min(values):.2f}–{max(values):.2f}"


def table(title, contenders, base, unit="request", units="requests"):
    """Markdown rows with ratios to `base` (a contender's name)."""
    base_rate = next(medians(c)[1] for c in contenders if c.name == base)
    lines = [f"### {title}", "",
             f"| contender | {units}/s | against {base} | CPU µs per {unit} | of all rounds | user | system | RSS MB | PSS MB | anonymous MB |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for c in contenders:
        cpu, rate = medians(c)
        rss, pss, anon = (x / 1024 for x in memory_kb(c.pids)) if c.pids else (0, 0, 0)
        mem = f"{rss:.1f} | {pss:.1f} | {anon:.1f}" if c.pids else "– | – | –"
        each, _, user, system = zip(*c.rounds)
        shown = " | ".join([f"{cpu:.2f}", spread(each), f"{statistics.median(user):.2f}", f"{statistics.median(system):.2f}"] if c.pids
                           else ["–"] * 4)
        record("row", table=title, row=c.name, base=base, unit=unit, rate=rate, against=rate / base_rate, cpu=cpu, rounds=each if c.pids else [],
               user=statistics.median(user), system=statistics.median(system), pss_mb=pss)
        lines.append(f"| {c.name} | {rate:.0f} | {rate / base_rate:.2f} | {shown} | {mem} |")
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown CPU")
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as f:
        congestion = f.read().strip()
    return (f"{os.cpu_count()} cores of {model}, Linux {os.uname().release}, {congestion}, load {os.getloadavg()[0]:.1f}, "
            f"{datetime.date.today().isoformat()}")
