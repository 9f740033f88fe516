#!/usr/bin/python3
"""run.py [--each SECONDS | --total SECONDS] FUZZER...: fuzzers on their seeds, in the build folder (libFuzzer: CC=clang ./configure --enable-fuzzing).

--each: so long each. --total: so long together, and where the code is new, most: each has LEAST_S, and the rest is shared out by how many lines of
what a fuzzer includes the last COMMITS commits have changed. As many run at once as there are processors. TAP. What is found is left in
fuzz-out/NAME/ there.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess

TOP = os.path.abspath(os.environ.get("top_srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LEAST_S = 2
COMMITS = 30
EXPLAINS = re.compile(r"ERROR|SUMMARY|runtime error|^ +#\d+ |Assertion|Test unit|Base64")


def included(source):
    """The files that a fuzzer tests, as far as its own lines tell: itself, and what it includes with all of the same name."""
    files = {source}
    with open(os.path.join(TOP, source), encoding="utf-8") as f:
        for header in re.findall(r'^#include "([^"]+)\.h"', f.read(), re.M):
            files |= {os.path.relpath(p, TOP) for p in glob.glob(f"{TOP}/{header}.[ch]") + glob.glob(f"{TOP}/{header}_*.c")}
    return files


def changed_lines(numstat):
    """git's --numstat -> {path: lines that were added or taken away}."""
    changed = {}
    for added, removed, path in re.findall(r"^(\d+)\t(\d+)\t(.+)$", numstat, re.M):
        changed[path] = changed.get(path, 0) + int(added) + int(removed)
    return changed


def share_out(total_s, weights):
    """{name: weight} -> {name: seconds}, no one less than LEAST_S; without any weight all have the same."""
    rest = max(0, total_s - LEAST_S * len(weights))
    sum_of = sum(weights.values())
    return {name: LEAST_S + round(rest * (w / sum_of if sum_of else 1 / len(weights))) for name, w in weights.items()}


def seconds_of(fuzzers, total_s):
    git = subprocess.run(["git", "-c", "safe.directory=*", "-C", TOP, "log", "-n", str(COMMITS), "--format=", "--numstat"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    changed = changed_lines(git.stdout)
    return share_out(total_s, {f: sum(changed.get(p, 0) for p in included(f + ".c")) for f in fuzzers})


def run(fuzzer, seconds):
    """(passed, line that says it, lines that explain)"""
    name = re.sub(r"_fuzz$", "", os.path.basename(fuzzer))
    out = os.path.join("fuzz-out", name)
    os.makedirs(os.path.join(out, "corpus"), exist_ok=True)
    p = subprocess.run([f"./{fuzzer}", f"-max_total_time={seconds}", "-timeout=30", "-rss_limit_mb=2048", f"-artifact_prefix={out}/",
                        f"{out}/corpus", f"{TOP}/tests/fuzz/corpus/{name}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = p.stdout.decode(errors="replace").splitlines()
    if p.returncode == 0:
        return True, f"{name}: {seconds} s, {([line for line in said if line.startswith('Done')] or [''])[-1]}", []
    return False, name, [line for line in said if EXPLAINS.search(line)][:30]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--each", type=int, metavar="SECONDS", default=20)
    parser.add_argument("--total", type=int, metavar="SECONDS")
    parser.add_argument("fuzzers", nargs="+")
    options = parser.parse_args()
    seconds = seconds_of(options.fuzzers, options.total) if options.total else dict.fromkeys(options.fuzzers, options.each)
    print(f"1..{len(seconds)}", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        longest_first = sorted(options.fuzzers, key=lambda f: -seconds[f])
        for n, (ok, line, why) in enumerate(pool.map(lambda f: run(f, seconds[f]), longest_first), 1):
            print(f"{'ok' if ok else 'not ok'} {n} - {line}", *(f"# {w}" for w in why), sep="\n", flush=True)
            failed += not ok
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
