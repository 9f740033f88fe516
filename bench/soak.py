#!/usr/bin/python3
"""Mixed traffic and faults for minutes or hours: nothing lost but what a fault excuses, nothing leaked.

    top_builddir=build/gcc nice -n 19 bench/soak.py --minutes 20 [--rate 6] [--seed 7] [--keep DIR]
    top_builddir=build/asan bench/soak.py --minutes 5         # sanitizers' reports count, memory does not

Real hubs and agents in namespaces (bench/soak_town.py), faults in an order that the seed gives (bench/soak_faults.py). First
traffic alone, then rest: what is open and held then is what there may be later. Then two halves with the same faults in two orders,
and rest after each: the second half may add neither a descriptor, nor a stream, nor memory (most of what the first adds is caches that fill). A section for
bench/RESULTS.md goes to standard output; status 1 when something is wrong. Root; nothing is left behind.
"""
import argparse
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import soak_faults  # noqa: E402
from frame import cpu_ns, machine, memory_kb  # noqa: E402
from soak_town import Town, replicas, tunnelkit  # noqa: E402
from lab import Lab, Timeout, wait_for  # noqa: E402

REPORTS = re.compile(r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|[Aa]ssertion|stack smashing")
ENDURING = "hub-2", "agent-2"
LEAK_KB, LEAK_PART = 384, 0.05  # what the second half may add to anonymous memory at rest: noise of the heap


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def figures(daemon):
    pid = daemon.process.pid
    rss, _, anonymous = memory_kb([pid])
    return {"pid": pid, "rss": rss, "anonymous": anonymous, "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


class Samples:
    """Of each daemon, each minute, while the town lives."""

    def __init__(self, town, every_s):
        self.town, self.every_s, self.rows, self.over = town, every_s, [], threading.Event()
        self.began = time.monotonic()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(self.every_s):
            row = {"minute": (time.monotonic() - self.began) / 60}
            for name, daemon in self.town.daemons().items():
                try:
                    row[name] = figures(daemon)
                except (OSError, ValueError):  # killed right now
                    row[name] = None
            self.rows.append(row)

    def stop(self):
        self.over.set()
        self.thread.join()


class Soak:
    def __init__(self, town, options):
        self.town, self.o = town, options
        self.rng = random.Random(options.seed)
        self.faults = soak_faults.Faults(town, self.rng)
        self.records, self.losses, self.totals, self.rests, self.wrong = [], [], collections.Counter(), [], []
        self.again, self.slowest = collections.Counter(), collections.Counter()

    def deck(self):
        """Kinds without end; each comes as often as the others."""
        while True:
            kinds = list(self.faults.kinds)
            self.rng.shuffle(kinds)
            yield from kinds

    def half(self, kinds, seconds):
        """Faults at their pace, until the time is over or the list is at its end."""
        self.town.start_traffic()
        time.sleep(3)
        done, end = [], time.monotonic() + seconds
        for kind in kinds:
            began = time.monotonic()
            if began > end:
                break
            record = self.faults.one(kind)
            took = record["recovered_s"]
            say(f"{kind}: {'NOT WHOLE AGAIN' if took is None else f'whole again after {took:.1f} s'}")
            self.records.append(record)
            done.append(kind)
            time.sleep(max(0.5, began + 60 / self.o.rate - time.monotonic()))
        if self.faults.draining is not None:
            self.faults.draining.join()
        self.take(*self.town.stop_traffic())
        return done

    def take(self, losses, totals):
        self.losses += losses
        for label, t in totals.items():
            kind = label.rsplit(" ", 1)[0]
            self.totals[kind] += t["count"]
            self.again[kind] += t["again"]
            self.slowest[kind] = max(self.slowest[kind], t["slowest_s"])

    def rest(self, what):
        """No traffic: what is still open, held and used?"""
        found = {}
        for name, daemon in self.town.daemons().items():
            try:
                wait_for("quiet", lambda d=daemon: replicas.quiet(d), 60, 0.5)
            except Timeout:
                self.wrong.append(f"{what}: {name} is not at rest: {busy(daemon)}")
            former = next((r[name] for r in self.rests if r[name]["pid"] == daemon.process.pid), None)
            found[name] = {**figures(daemon), "kinds": kinds(daemon)}
            if former:
                self.compare(what, name, daemon, former, found[name])
        self.rests.append(found)
        say(f"{what}: " + ", ".join(f"{n} {f['anonymous']} kB anonymous, {f['descriptors']} descriptors" for n, f in found.items()))

    def compare(self, what, name, daemon, former, now):
        more = {}
        try:  # idle connections to endpoints are kept for a while
            wait_for("descriptors", lambda: not (more.update(now=kinds(daemon) - former["kinds"]) or more["now"]), 90, 1)
        except Timeout:
            self.wrong.append(f"{what}: {name} has descriptors that it had not: {dict(more['now'])}")
        now.update(figures(daemon))
        if now["threads"] > former["threads"]:
            self.wrong.append(f"{what}: {name} has {now['threads']} threads, not {former['threads']}")

    def run(self):
        half_s = self.o.minutes * 60 / 2
        say("traffic alone")
        cpu = self.cpu()
        self.half([], 0) if not self.o.warm_s else self.warm()
        say(f"CPU of the daemons: {(self.cpu() - cpu) / 1e9 / max(1, self.o.warm_s):.2f} of a core")
        self.rest("before")
        kinds = self.half(self.deck(), half_s)
        self.rest("after the first half")
        self.rng.shuffle(kinds)
        self.half(kinds, 2 * half_s)
        self.rest("after the second half")
        self.end()

    def warm(self):
        self.town.start_traffic()
        time.sleep(self.o.warm_s)
        self.take(*self.town.stop_traffic())

    def cpu(self):
        return cpu_ns([d.process.pid for d in self.town.daemons().values()])

    def end(self):
        """Everybody stops in good order and leaves nothing on the host; then what the logs and the memory say."""
        for name, daemon in reversed(self.town.daemons().items()):
            status = daemon.process.stop(seconds=40) if daemon.process.alive() else f"{daemon.process.popen.returncode} by itself"
            if status != 0:
                self.wrong.append(f"{name} ended with {status}")
        self.wrong += [f"{n.name} is not as it was: {n.resolv()} {n.route()}" for n in self.town.nodes if not n.clean()]
        for path in soak_faults.program_logs(self.town):
            with open(path, errors="replace") as f:
                self.wrong += [f"{path}: {line.strip()}" for line in f if REPORTS.search(line)][:5]
        self.wrong += self.faults.trouble
        first, middle, last = self.rests
        for name in ENDURING:
            more = last[name]["anonymous"] - middle[name]["anonymous"]
            if not self.o.sanitized and more > max(LEAK_KB, LEAK_PART * middle[name]["anonymous"]):
                self.wrong.append(f"{name} has {more} kB more at rest after the second half: a leak")
        for loss in self.losses:
            loss["excuse"] = soak_faults.excuse(loss, self.records)
        self.wrong += [f"not excused: {loss['label']} {loss['why']}" for loss in self.losses if loss["excuse"] is None][:20]


def kinds(daemon):
    """Descriptors without the two sockets of each node, which may be at either hub."""
    found = tunnelkit.descriptors(daemon)
    if hasattr(daemon, "machine"):
        found["socket"] -= 2 * len(tunnelkit.tunnels(daemon))
    return found


def busy(daemon):
    at_node = daemon.state().get("tunnel", {})
    return {k: v for k, v in daemon.metrics().items() if v and re.search("streams|connections|pending|memory|peer", k)} | \
        {k: at_node[k] for k in ("joined", "dialling") if at_node.get(k)}


# --- what is told --------------------------------------------------------------------------------------


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |")


def head(*cells):
    print()
    row(*cells)
    row(*["---"] * len(cells))


def tell(soak, samples, took_s):
    o, n = soak.o, len(soak.records)
    print(f"`bench/soak.py --minutes {o.minutes:g} --rate {o.rate:g} --seed {o.seed}` on {machine()}; it ran {took_s / 60:.0f} minutes with "
          f"{n} faults, {'built with sanitizers' if o.sanitized else 'nice ' + str(os.nice(0))}.")
    head("traffic", "done", "lost, excused", "lost, not excused", "idle connection ended, asked again", "slowest s")
    lost = collections.Counter((x["label"].rsplit(" ", 1)[0], x["excuse"] is not None) for x in soak.losses)
    for kind, count in sorted(soak.totals.items()):
        row(kind, count, lost[kind, True], lost[kind, False], soak.again[kind], f"{soak.slowest[kind]:.1f}")
    head("fault", "times", "losses it excuses", "whole again after s, median", "most")
    excused = collections.Counter(x["excuse"]["kind"] for x in soak.losses if x["excuse"])
    for kind in soak.faults.kinds:
        took = sorted(r["recovered_s"] if r["recovered_s"] is not None else float("inf") for r in soak.records if r["kind"] == kind)
        if took:
            row(kind, len(took), excused[kind], f"{took[len(took) // 2]:.1f}", f"{took[-1]:.1f}")
    head("at rest", *soak.town.daemons())
    for what, found in zip(("before", "after the first half", "after the second half"), soak.rests):
        row(what, *[f"{f['anonymous']} kB anonymous, {f['rss']} RSS, {f['descriptors']} descriptors, {f['threads']} threads, process {f['pid']}"
                    for f in found.values()])
    step = max(1, len(samples.rows) // 12)
    head("minute", *[f"{name}: anonymous kB, descriptors" for name in soak.town.daemons()])
    for r in samples.rows[::step]:
        row(f"{r['minute']:.0f}", *[f"{r[d]['anonymous']}, {r[d]['descriptors']}" if r[d] else "–" for d in soak.town.daemons()])
    print("\nVerdict: " + ("nothing is wrong." if not soak.wrong else f"{len(soak.wrong)} things are wrong."))
    for line in soak.wrong:
        print("- " + line)


def keep(town, folder):
    os.makedirs(folder, exist_ok=True)
    for path in soak_faults.program_logs(town):
        shutil.copy(path, os.path.join(folder, "-".join(path.split("/")[-2:])))


def is_sanitized():
    program = os.path.join(os.environ.get("top_builddir", "build/gcc"), "edgeway-hub")
    return "__asan_init" in subprocess.run(["nm", "-D", program], stdout=subprocess.PIPE, text=True).stdout + subprocess.run(
        ["nm", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--minutes", type=float, default=20, help="under faults; warming up and rest come on top")
    p.add_argument("--hours", type=float)
    p.add_argument("--rate", type=float, default=6, help="faults a minute, at most")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--warm-s", type=float, default=60)
    p.add_argument("--lifetime", default="120s", help="of nodes' certificates, which are renewed all the time")
    p.add_argument("--keep", help="a folder for the daemons' logs")
    o = p.parse_args()
    o.minutes = o.hours * 60 if o.hours else o.minutes
    o.sanitized = is_sanitized()
    if o.sanitized:
        os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=16:detect_leaks=1")
        os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))  # takes the lab down
    began = time.monotonic()
    with Lab() as lab:
        town = Town(lab, o.lifetime)
        samples, soak = Samples(town, 60), Soak(town, o)
        try:
            soak.run()
        finally:
            samples.stop()
            if o.keep:
                keep(town, o.keep)
        tell(soak, samples, time.monotonic() - began)
        for loss in soak.losses:
            at = time.strftime("%H:%M:%S", time.localtime(time.time() - time.monotonic() + loss["end"]))
            say(f"lost at {at} after {loss['end'] - loss['since']:.1f} s: {loss['label']}: {loss['why']} "
                f"{'excused by ' + loss['excuse']['kind'] if loss['excuse'] else 'NOT EXCUSED'}")
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
