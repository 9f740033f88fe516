#!/usr/bin/python3
"""ledger.py [--slice SECONDS] [--until SECONDS] [--for SECONDS] [--merge] [FUZZER...]

Runs the fuzzers of this build folder one at a time at nice 19, whichever has had the least time first, and keeps in tests/fuzz/ledger.tsv
how long each has run in all (seconds of CPU, since others come first), with how many executions: to be started in the background, stopped at any time and started again on another
day. It ends when each has had --until seconds (an hour), or after --for seconds. A find is left in fuzz-out/NAME/, counted, and told at
the end; the fuzzer goes on next time.

--merge: no fuzzing; the corpora in the tree are replaced by the least files that reach as much, of theirs and of what the runs have found.

    CC=clang ./configure --enable-fuzzing --enable-sanitizers CFLAGS='-g -O1' && make FUZZERS
    nohup tests/fuzz/ledger.py > fuzz.log &
"""
import argparse
import datetime
import os
import re
import resource
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LEDGER = os.path.join(HERE, "ledger.tsv")
COLUMNS = ("fuzzer", "seconds", "executions", "edges", "features", "found", "last")


def read_ledger():
    """{fuzzer: row}; a fuzzer that is new in the tree has had no time yet."""
    rows = {}
    with open(LEDGER, encoding="utf-8") as f:
        for line in f.read().splitlines()[1:]:
            row = dict(zip(COLUMNS, line.split("\t")))
            rows[row["fuzzer"]] = {**row, **{c: int(row[c]) for c in COLUMNS[1:-1]}}
    for source in sorted(os.listdir(HERE)):
        if source.endswith("_fuzz.c"):
            name = source[:-len("_fuzz.c")]
            rows.setdefault(name, {**dict.fromkeys(COLUMNS, 0), "fuzzer": name, "last": "-"})
    return rows


def write_ledger(rows):
    """Whole or not at all: it may be stopped meanwhile."""
    part = LEDGER + ".part"
    with open(part, "w", encoding="utf-8") as f:
        f.write("\t".join(COLUMNS) + "\n")
        f.writelines("\t".join(str(rows[n][c]) for c in COLUMNS) + "\n" for n in sorted(rows))
    os.replace(part, LEDGER)


def folders(name):
    out = os.path.join("fuzz-out", name)
    os.makedirs(os.path.join(out, "corpus"), exist_ok=True)
    return out, os.path.join(out, "corpus"), os.path.join(HERE, "corpus", name)


def number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(name, row, seconds):
    """Adds one run to the row; returns what it found, or ''."""
    out, corpus, seeds = folders(name)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(["nice", "-n", "19", f"tests/fuzz/{name}_fuzz", f"-max_total_time={seconds}", "-timeout=30", "-rss_limit_mb=2048",
                        "-print_final_stats=1", f"-artifact_prefix={out}/", corpus, seeds], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = p.stderr.decode(errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row["seconds"] += round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    row["executions"] += number(r"stat::number_of_executed_units: +(\d+)", said)
    row["edges"] = max(row["edges"], number(r" cov: (\d+)", said))
    row["features"] = max(row["features"], number(r" ft: (\d+)", said))
    row["found"] += p.returncode != 0
    row["last"] = datetime.date.today().isoformat()
    if p.returncode == 0:
        return ""
    lines = [line for line in said.splitlines() if re.search(r"ERROR|SUMMARY|runtime error|Assertion|Test unit", line)]
    return "\n".join(lines[:5]) or f"status {p.returncode}: {said[-300:]}"


def merge(name):
    """(files before, after) of the corpus in the tree."""
    out, corpus, seeds = folders(name)
    small = os.path.join(out, "small")
    shutil.rmtree(small, ignore_errors=True)
    os.makedirs(small)
    subprocess.run(["nice", "-n", "19", f"tests/fuzz/{name}_fuzz", "-merge=1", small, seeds, corpus], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept, before = set(os.listdir(small)), os.listdir(seeds)
    assert kept, f"{name}: -merge=1 kept nothing"
    # A seed that stays keeps its name, which says what it is for: libFuzzer names its copy by its content.
    contents = {open(os.path.join(small, k), "rb").read(): k for k in kept}
    for old in before:
        path = os.path.join(seeds, old)
        if contents.pop(open(path, "rb").read(), None) is None:
            os.unlink(path)
    for left in contents.values():
        shutil.copy(os.path.join(small, left), seeds)
    return len(before), len(os.listdir(seeds))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--slice", type=int, default=600, metavar="SECONDS", help="of one run")
    p.add_argument("--until", type=int, default=3600, metavar="SECONDS", help="of CPU that each is to have")
    p.add_argument("--for", type=int, default=10**9, metavar="SECONDS", dest="most", help="of all runs together")
    p.add_argument("--merge", action="store_true")
    p.add_argument("fuzzers", nargs="*", help="all that are built here")
    o = p.parse_args()
    rows = read_ledger()
    names = [re.sub(r"_fuzz$", "", os.path.basename(f)) for f in o.fuzzers] or [n for n in rows if os.access(f"tests/fuzz/{n}_fuzz", os.X_OK)]
    missing = [n for n in names if n not in rows or not os.access(f"tests/fuzz/{n}_fuzz", os.X_OK)]
    if missing or not names:
        p.error(f"not built here: {', '.join(missing) or 'any fuzzer'}; in a folder configured with --enable-fuzzing: make tests/fuzz/NAME_fuzz")
    if o.merge:
        for name in names:
            print(name, "files: %d, now %d" % merge(name), flush=True)
        return 0
    found, end = {}, time.monotonic() + o.most
    while True:
        name = min(names, key=lambda n: rows[n]["seconds"])
        seconds = min(o.slice, o.until - rows[name]["seconds"], int(end - time.monotonic()))
        if seconds <= 0:
            break
        why = fuzz(name, rows[name], seconds)
        write_ledger({**read_ledger(), name: rows[name]})
        print(*(f"{c}={rows[name][c]}" for c in COLUMNS), flush=True)
        if why:
            found[name] = why
            names.remove(name)
            if not names:
                break
    for name, why in found.items():
        print(f"FOUND by {name}: see fuzz-out/{name}/\n{why}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
