"""The manual pages are what mandoc and the programs say: no remark of the lint, every key of the configuration with its default, every
command of edgewayctl; links between the documents lead somewhere."""
import glob
import os
import re
import subprocess

import pytest

from lab import TOP

pytestmark = pytest.mark.plain_build  # documents

BUILD = os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc")
PAGES = sorted(os.path.basename(p) for p in glob.glob(os.path.join(TOP, "doc", "*.[578]")))
WORDS_FOR_NOTHING = {"none", "off", "the interface's", "those of resolv.conf", "got by joining", "the node's name", "the system's",
                     "$NODE_NAME, then the host name", "that of the pod", "of its own CA", "its own, under dataDir", "programs of this host"}


def read(*path):
    with open(os.path.join(TOP, *path)) as f:
        return f.read()


def run(program, *argv):
    return subprocess.run([os.path.join(BUILD, program), *argv], text=True, capture_output=True, timeout=90, check=True).stdout


@pytest.mark.parametrize("page", PAGES)
def test_lint(page):
    p = subprocess.run(["mandoc", "-T", "lint", page], cwd=os.path.join(TOP, "doc"), text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=90)
    assert (p.returncode, p.stdout) == (0, "")


def keys_of_help(program):
    """{key: default or ""}"""
    found = {}
    for line in re.split(r"\n(?=  --)", run(program, "--help").split("Keys, with defaults")[1])[1:]:
        text = " ".join(line.split())
        default = re.search(r" \[([^]{]*)\]$", text)
        found[text.split()[0][2:]] = default.group(1) if default else ""
    return found


def section_of_page(section):
    return re.search(rf"^\.SH {section}\n(.*?)^\.SH ", read("doc", "edgeway.yaml.5"), re.M | re.S).group(1)


def keys_of_page(section):
    text = section_of_page(section)
    return {k: d.replace("\\-", "-") for k, d in re.findall(r'^\.BR (\S+) " \(\\fI(.*)\\fP\)"$', text, re.M)}


@pytest.mark.parametrize("program, section", [("edgeway-agent", "AGENT"), ("edgeway-hub", "HUB")])
def test_keys(program, section):
    said, written = keys_of_help(program), keys_of_page(section)
    assert len(said) > 30 and set(said) == set(written)
    assert {k: d for k, d in written.items() if d != said[k] and not (said[k] == "" and d in WORDS_FOR_NOTHING)} == {}


@pytest.mark.parametrize("program, section", [("agent", "AGENT"), ("hub", "HUB")])
def test_what_is_reloaded(program, section):
    """The page marks the keys that SIGHUP changes, and no others."""
    shared = read("src", "common", "tracing_options.h")
    rows = (read("src", program, f"{program}_options.h") + shared).split("\tX(")[1:]
    reloaded = {re.search(r'"([\w.]+)"', row).group(1) for row in rows if ".reload = true" in row}
    entries = re.split(r"^\.TP\n", section_of_page(section), flags=re.M)
    marked = {re.match(r"\.BR (\S+)", e).group(1) for e in entries if re.search(r"^Reloaded\.$", e, re.M)}
    assert len(reloaded) > 7 and marked == reloaded


def test_words_of_problems():
    """The page has each word that the agent gives to what it finds."""
    page = read("doc", "edgeway-agent.8").replace("\\-", "-").split("\n.SH PROBLEMS\n")[1].split("\n.SH ")[0]
    calls = [call for path in glob.glob(os.path.join(TOP, "src", "agent", "agent_checks*.c")) for call in re.findall(r"findings_name\(f,(.*?)\);", read(path), re.S)]
    words = {word for call in calls for word in re.findall(r'"([a-z-]+)"', call)}
    assert len(words) > 30 and {w for w in words if not re.search(rf"(^|\s){w}[,. ]", page)} == set()


def test_metrics_in_the_text():
    """The documents name metrics in full, and only those that edgeway-metrics(7) has."""
    known = set(re.findall(r"edgeway_\w+", read("doc", "edgeway-metrics.7").replace("\\", "")))
    wrong, found = [], 0
    for path in ["README.md", *(os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, "doc", "*.[58m]*")))]:
        text = read(path).replace("\\", "")
        for name, star in re.findall(r"\b(edgeway_\w+)(\*?)", text):
            found += 1
            if name not in known and not (star and any(k.startswith(name) for k in known)):
                wrong.append((path, name))
        wrong += [(path, name) for name in re.findall(r"[\s,](_[a-z]+_total)\b", text)]
    assert found > 100 and wrong == []


def commands():
    usage = run("edgewayctl", "--help").split("\n  --socket PATH")[0]
    return {" ".join(w for w in line.split("  ")[1].split() if re.fullmatch("[a-z]+", w)) for line in usage.split("\n") if re.match(r"  [a-z]", line)}


def test_commands():
    page, words = read("doc", "edgewayctl.8").replace("\\-", "-"), {c.split()[0] for c in commands()}
    assert len(words) > 15 and [c for c in commands() if not re.search(rf'^\.B[RI]? "?{c}\b', page, re.M)] == []
    assert set(re.search(r"commands='([^']*)'", read("deploy", "completion", "edgewayctl")).group(1).split()) == words
    assert set(re.search(r"1:command:\(([^)]*)\)", read("deploy", "completion", "_edgewayctl")).group(1).split()) == words


def test_wire():
    """The page on the wire leaves out nothing that has a name there: ALPN, lines of replicas, operations, payloads of PING, fields."""
    page, whole = read("doc", "edgeway-protocol.7"), read("doc", "protocol.md")
    names = set(re.findall(r"`(edgeway-[a-z-]+/1)`", whole)) | set(re.findall(r"^\| `([a-z]+)(?: <[^|]*>)?` \|", whole.split("## Between replicas")[1].split("## Carrier")[0], re.M))
    names |= set(re.findall(r"(?:insert|query) `([a-z/]+)`", whole.split("## CloudHub")[0]))
    assert len(names) > 15 and {n for n in names if n not in page} == set()
    sections = {s.upper() for s in re.findall(r"^## (\w+)$", whole, re.M)} - {"BUNDLES"}
    assert sections - set(re.findall(r"^\.SH (.*)$", page, re.M)) == set()


def test_links():
    documents = [p for p in glob.glob(os.path.join(TOP, "*.md")) + glob.glob(os.path.join(TOP, "doc", "*.md"))]
    wrong = [(os.path.basename(p), link) for p in documents for link in re.findall(r"\]\(([^)#:]+)\)", read(p))
             if not os.path.exists(os.path.join(os.path.dirname(p), link))]
    assert len(documents) >= 8 and wrong == []


def test_commands_in_the_text():
    """Commands and keys within sentences: edgewayctl has the command, the daemons have the key, what is named under deploy/ is there. What
    stands in blocks is run by tests/packages/test_commands.py."""
    keys = {p: set(keys_of_help(p)) | {"config", "check", "restore", "help", "version"} for p in ("edgeway-agent", "edgeway-hub")}
    known, wrong, found = commands(), [], 0
    for path in ["README.md", *(os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, "doc", "*.md")))]:
        for span in re.findall(r"`([^`\n]+)`", read(path)):
            program = span.split()[0]
            options = re.findall(r"(?<!\S)--([\w.]+)", span)
            if program == "edgewayctl":
                words = re.sub(r"^edgewayctl( (--(socket|node)|-o) \S+)*|--watch\S*", "", span).split()
                fine = not words or words[0].startswith("-") or any(words[:len(c.split())] == c.split() for c in known)
            elif program in keys or re.match(r"--\w+\.", span):
                fine = set(options) <= (keys.get(program) or set.union(*keys.values()))
            elif re.match("deploy/[a-z]|kubectl apply|helm install|docker build", span):
                fine = all(glob.glob(os.path.join(TOP, p)) for p in re.findall(r"(?<!\S)deploy/[\w./*-]+", span))
            else:
                continue
            found += 1
            if not fine:
                wrong.append((path, span))
    assert found > 40 and wrong == []
