"""What the changes since a commit can break: tests/map, read against git's names of files.

    choice = choose(top, None)      # since origin's main branch
    choice.stages, choice.words     # besides the quick ones, for the scheduler; for pytest
"""
import fnmatch
import os
import re
import subprocess


class Choice:
    def __init__(self, chosen, words, said):
        self.stages, self.words, self.said = chosen, words, said


def parse_map(text):
    """[(beginning of a path, [stage or net:GLOB])]"""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(row[0], row[1:]) for row in rows]


def row_of(path, rows):
    """The row with the longest beginning of the path, or None."""
    fitting = [row for row in rows if path.startswith(row[0])]
    return max(fitting, key=lambda row: len(row[0]), default=None)


def importers(sources, name):
    """sources: {file name below tests/net: text}. The test modules that need the file, directly or by another one."""
    found, todo = set(), [name]
    while todo:
        stem = todo.pop().rpartition(".")[0]
        needs = re.compile(rf"^\s*(?:import|from) +(?:\w+ *, *)*{stem}\b|\b{stem}\.(?:py|c|js)\b", re.M)
        for other, text in sources.items():
            if other not in found and needs.search(text):
                found.add(other)
                todo.append(other)
    return {f for f in found | {name} if f.startswith("test_")}


def modules(globs, there):
    """there: test modules as file names."""
    return {m for m in there if any(fnmatch.fnmatch(m, f"test_{g}.py") for g in globs)}


def read_net(top):
    """Texts, and the folders that they are in, by file name: each is there once."""
    sources, folders = {}, {}
    for folder, _, names in os.walk(os.path.join(top, "tests", "net")):
        for name in names:
            if name.endswith((".py", ".c", ".js")):
                folders[name] = os.path.relpath(folder, top)
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    sources[name] = f.read()
    return sources, folders


def git(top, *argv):
    p = subprocess.run(["git", "-c", "safe.directory=*", "-C", top, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p.stdout.splitlines() if p.returncode == 0 else None


def changed_files(top, since):
    """(since what, paths): committed, staged, edited and new ones."""
    base = next((b[0] for ref in ([since] if since else ["origin/HEAD", "origin/main", "HEAD"])
                 if (b := git(top, "merge-base", ref, "HEAD"))), None)
    if base is None:
        raise SystemExit(f"tests/run: {since or 'HEAD'} is no commit here: name one with --since")
    edited = git(top, "diff", "--name-only", base) or []
    return base, sorted({*edited, *(git(top, "ls-files", "--others", "--exclude-standard") or [])})


def choose(top, since):
    base, paths = changed_files(top, since)
    with open(os.path.join(top, "tests", "map"), encoding="utf-8") as f:
        rows = parse_map(f.read())
    (sources, folders), words, net = read_net(top), set(), set()
    there = {name for name in sources if name.startswith("test_")}
    for path in paths:
        row = row_of(path, rows)
        words |= set(row[1] if row else ["net:*"])
        if path.startswith("tests/net/"):
            name = os.path.basename(path)
            net |= there if name in ("conftest.py", "fixtures.py", "lab.py") else importers(sources, name) & there
    net |= modules([w[4:] for w in words if w.startswith("net:")], there)
    chosen = sorted(w for w in words if not w.startswith("net:"))
    said = [f"changed since {base[:12]}: {len(paths)} files"]
    if net:
        chosen.append("net")
        said.append(f"of tests/net {len(net)} of {len(there)} modules: " + " ".join(sorted(m[5:-3] for m in net)))
    return Choice(chosen, sorted(os.path.join(folders[m], m) for m in net), said)
