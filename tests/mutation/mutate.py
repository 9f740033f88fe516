#!/usr/bin/python3
"""mutate.py SOURCE... [--tests TEST...] [--most N] [--seed N]: changes one comparison, condition or return of a source at a time, and
tells which changes no unit test sees.

In a build folder of the tree, whose tests are built and pass. Works in a copy of both under --copy (a temporary folder), so that the
tree stays as it is. Each mutant is compiled and its folder's unit tests (tests/unit/FOLDER/*_test, or --tests) run with a time
limit: a test that fails, or does not end, has seen it. tests/mutation/README.md has what was found.
"""
import argparse
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*|\bassert\([^;]*;', re.S | re.M)
# what clang-format leaves: operators have blanks around them
RULES = [(re.compile(old), new) for old, new in (
    (r" == ", " != "), (r" != ", " == "), (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" && ", " || "), (r" \|\| ", " && "), (r"(?<=\()!(?=\w)", ""), (r" \+ 1\b", ""), (r" - 1\b", ""),
    (r"\breturn true;", "return false;"), (r"\breturn false;", "return true;"), (r"\breturn -E\w+;", "return 0;"),
    (r"\bcontinue;", "break;"))]


def blank(text):
    """The text with what is no code (comments, literals, directives, assertions) made blank, of the same length."""
    return SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def mutants(text):
    """[(offset, length, replacement)], one change each."""
    code = blank(text)
    return [(m.start(), m.end() - m.start(), new) for rule, new in RULES for m in rule.finditer(code)]


class Copy:
    def __init__(self, build, folder):
        self.top, self.build = os.path.join(folder, "tree"), os.path.join(folder, "tree", os.path.relpath(build, TOP))
        shutil.copytree(TOP, self.top, symlinks=True, ignore=shutil.ignore_patterns(".git", "build", "autom4te.cache"))
        shutil.copytree(build, self.build, symlinks=True)

    def make(self, tests):
        # without warnings: a mutant that -Werror refuses would not be tried
        return subprocess.run(["make", "-s", "WARN_CFLAGS=-std=gnu11 -w", *tests], cwd=self.build, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def seen(self, tests, limit_s):
        """The first test that fails or does not end in time; '' if all pass."""
        for test in tests:
            try:
                p = subprocess.run([f"./{test}"], cwd=self.build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit_s,
                                   env={**os.environ, "top_srcdir": self.top, "srcdir": self.top})
            except subprocess.TimeoutExpired:
                return test
            if p.returncode != 0:
                return test
        return ""


def tests_of(top, source):
    folder = os.path.join(top, "tests", "unit", os.path.dirname(source))
    return sorted(os.path.relpath(p, top)[:-len(".c")] for p in glob.glob(folder + "/*_test.c"))


def judge(copy, source, o, tally):
    path = os.path.join(copy.top, source)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    tests = o.tests or tests_of(copy.top, source)
    if not tests:
        sys.exit(f"{source}: no unit tests in tests/unit/{os.path.dirname(source)}; name some with --tests")
    all_of = mutants(text)
    chosen = sorted(random.Random(o.seed).sample(all_of, min(o.most, len(all_of))))
    try:
        for at, length, new in chosen:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text[:at] + new + text[at + length:])
            if copy.make(tests).returncode != 0:
                tally["not compiled"] += 1
                continue
            if copy.seen(tests, o.limit):
                tally["seen"] += 1
                continue
            tally["survived"] += 1
            line = text.count("\n", 0, at) + 1
            print(f"{source}:{line}: {text[at:at + length].strip()} -> {new.strip() or 'nothing'}: {text.splitlines()[line - 1].strip()}", flush=True)
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sources", nargs="+", help="from the tree's top: dns/answer/message.c")
    p.add_argument("--tests", nargs="+", help="tests/unit/…_test")
    p.add_argument("--most", type=int, default=10**6, help="mutants of each source, chosen by --seed")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="for each test")
    p.add_argument("--copy", help="folder for the copy")
    o = p.parse_args()
    if not os.path.exists("config.status"):
        p.error("not in a build folder: no config.status here")
    tally = {"seen": 0, "survived": 0, "not compiled": 0}
    with tempfile.TemporaryDirectory(dir=o.copy) as folder:
        copy = Copy(os.getcwd(), folder)
        wanted = sorted({t for s in o.sources for t in (o.tests or tests_of(copy.top, s))})
        done = copy.make(wanted)
        if done.returncode != 0 or copy.seen(wanted, o.limit):
            sys.exit(f"the tests do not build or pass without a change: {done.stderr[-500:] or copy.seen(wanted, o.limit)}")
        for source in o.sources:
            judge(copy, source, o, tally)
    print(", ".join(f"{word}: {n}" for word, n in tally.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
