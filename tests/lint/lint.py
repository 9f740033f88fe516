#!/usr/bin/python3
"""The project's own rules as a test (TAP): folder arrows and doors, lengths, one library one file, and so on.

Each rule is a function from a tree (path -> text) to complaints, and comes with a bad sample that it must
complain about: a rule that cannot fail fails here. `lint.py` looks at $top_srcdir, or at the tree it lies in.
"""
import fnmatch
import os
import re
import sys

FOLDERS = ["base", "model", "dns", "lb", "iptables", "meta", "tracing", "tunnel", "hub", "src"]
MIDDLE = {"dns", "lb", "iptables", "meta", "tracing", "tunnel"}
OPEN = {"base", "model"}  # every header of theirs may be included from above
MAY = {  # arrows: base <- model <- the middle six <- src, hub
    "base": set(), "model": {"base"},
    **{m: OPEN for m in MIDDLE},
    "hub": OPEN | MIDDLE, "src": OPEN | MIDDLE | {"hub"},
}
# The rooms of a folder, in tiers: a room may use itself and the rooms of earlier tiers, and not its neighbours. "" are the folder's own files: they
# wire the rooms together and are the last tier, but where they stand here (model: the types that all others share); FOLDER/FOLDER.h is for all.
ROOMS = {
    "base": [["core"], ["os", "conf", "net", "tls"], ["http"]],
    "model": [[""], ["cluster"]],
    "dns": [["answer", "resolvconf"], ["forward"], ["front"]],
    "lb": [["conn"], ["balance"], ["proxy"]],
    "iptables": [["table"], ["host"], ["maps"]],
    "meta": [["state"], ["client"]],
    "tunnel": [["h2"], ["udp"], ["node"]],
    "hub": [["kube", "manifests", "port"], ["identity"], ["replicas"], ["sync"], ["routing"], ["ingress"], ["names", "page"]],
    "src": [["common"], ["agent", "hub", "ctl"]],
}
# Third-party header -> the files that may include it.
LIBRARIES = {
    r"uv\.h": r"base/core/loop\.c",
    r"libwebsockets\.h": r"base/http/ws(_\w+)?\.[ch]",
    r"ares(_\w+)?\.h": r"base/net/resolve(_\w+)?\.[ch]|dns/forward/forward\.c",
    r"llhttp\.h": r"base/http/http1(_\w+)?\.[ch]",
    r"yaml\.h": r"base/conf/tree_yaml\.c",
    r"cjson/.*": r"base/conf/tree_json\.c|model/json\.c",
    r"xxhash\.h": r"base/core/hash\.c",
    r"openssl/.*": r"base/tls/(pki|tls)(_\w+)?\.[ch]|base/http/ws(_\w+)?\.[ch]",
    r"sqlite3\.h": r"meta/state/store(_\w+)?\.[ch]",
    r"lib(nftnl|mnl)/.*": r"iptables/.*",
    r"nghttp2/.*": r"base/http/(h2(_\w+)?\.c|session_memory\.[ch])",
    r"curl/.*": r"hub/kube/https\.c",
    r"wslay/.*": r"base/http/wsframe\.c",
    r"pcre2\.h": r"model/route_regex\.c",
    r"seccomp\.h": r"base/os/sandbox\.c",
    r"liburing\.h": r"base/os/send_ring\.c",
    r"zlib\.h": r"base/core/gzip\.c|base/tls/deflate_stream\.c",
}
FILE_MAX, FILE_USUAL = 800, 400
FUNCTION_MAX, FUNCTION_USUAL = 100, 60
PARAMETERS_MAX = 6
COLUMNS = 100
DICTATED = r"\(nghttp2_session \*"  # a library's callbacks have the parameters that it says
PROGRAMS = ["edgeway-agent", "edgeway-hub", "edgewayctl"]
diagnostics = []


def sources(tree, suffixes=(".c", ".h")):
    """Files of the programs themselves, not of tests and bench."""
    return {p: t for p, t in tree.items() if p.split("/")[0] in FOLDERS and p.endswith(suffixes)}


def code(tree):
    return {p: t for p, t in tree.items() if p.endswith((".c", ".h"))}


def includes(text, quoted):
    pattern = r'^\s*#\s*include\s+"([^"]+)"' if quoted else r"^\s*#\s*include\s+<([^>]+)>"
    for n, line in enumerate(text.split("\n"), 1):
        m = re.match(pattern, line)
        if m:
            yield n, m.group(1)


def arrows(tree):
    for path, text in sources(tree).items():
        own = path.split("/")[0]
        for n, header in includes(text, quoted=True):
            other = header.split("/")[0]
            if other == own or header == "config.h":
                continue
            if other not in FOLDERS:
                yield f"{path}:{n}: \"{header}\" is not named from the top of the tree"
            elif other not in MAY[own]:
                yield f"{path}:{n}: {own}/ may not use {other}/"


def doors(tree):
    for path, text in sources(tree).items():
        own = path.split("/")[0]
        for n, header in includes(text, quoted=True):
            other = header.split("/")[0]
            if other in FOLDERS and other != own and other not in OPEN and header != f"{other}/{other}.h":
                yield f"{path}:{n}: \"{header}\" is inside {other}/; its door is {other}/{other}.h"


def room_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else ""


def rooms(tree):
    for path, text in sources(tree).items():
        own, room = path.split("/")[0], room_of(path)
        tier = {r: n for n, rs in enumerate(ROOMS.get(own, [])) for r in rs}
        if room not in tier and room:
            yield f"{path}: {own}/{room}/ is not a room that tests/lint knows"
            continue
        for n, header in includes(text, quoted=True):
            other = room_of(header)
            if header.endswith("_private.h") and os.path.dirname(header) != os.path.dirname(path):
                yield f"{path}:{n}: \"{header}\" stays inside {os.path.dirname(header)}/"
            if header.split("/")[0] == own and other != room and header != f"{own}/{own}.h" and tier.get(other, 99) >= tier.get(room, 99):
                yield f"{path}:{n}: {own}/{room or '*.c'} may not use {header}"


def own_header_first(tree):
    for path, text in sources(tree, (".c",)).items():
        header = path[:-1] + "h"
        first = next((h for _, h in includes(text, quoted=True)), None)
        private = re.fullmatch(rf"{os.path.dirname(path)}/\w+_private\.h", first or "")
        if header in tree and first != header and not private:
            yield f"{path}: includes \"{first}\" before its own header"


def libraries(tree):
    for path, text in sources(tree).items():
        for n, header in includes(text, quoted=False):
            for library, where in LIBRARIES.items():
                if re.fullmatch(library, header) and not re.fullmatch(where, path):
                    yield f"{path}:{n}: <{header}> belongs to {where}"


def file_length(tree):
    for path, text in tree.items():
        n = text.count("\n")
        if not path.endswith((".c", ".h", ".py", ".sh", ".mk")):
            continue
        if n > FILE_MAX:
            yield f"{path}: {n} lines, more than {FILE_MAX}"
        elif n > FILE_USUAL and path.endswith((".c", ".h")):
            diagnostics.append(f"{path}: {n} lines (usually at most {FILE_USUAL})")


def functions(text):
    """(line, name, lines, parameters) of each function: name at the margin, body between braces at the margin."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        m = re.match(r"(?:\w[\w \*]*[ \*])?(\w+)\(", line)
        if not m or line.rstrip().endswith(";"):
            continue
        head = i
        while head < len(lines) and lines[head] != "{" and not lines[head].endswith(";") and head < i + 12:
            head += 1
        if head == len(lines) or lines[head] != "{":
            continue
        end = next((k for k in range(head, len(lines)) if lines[k] == "}"), len(lines) - 1)
        arguments = " ".join(lines[i:head]).split("(", 1)[1]
        depth = commas = 0
        for c in arguments:
            depth += (c == "(") - (c == ")")
            commas += c == "," and depth == 0
        yield i + 1, m.group(1), end - i + 1, commas + 1


def function_length(tree):
    for path, text in code(tree).items():
        for n, name, length, _ in functions(text):
            if length > FUNCTION_MAX:
                yield f"{path}:{n}: {name} has {length} lines, more than {FUNCTION_MAX}"
            elif length > FUNCTION_USUAL:
                diagnostics.append(f"{path}:{n}: {name} has {length} lines (usually at most {FUNCTION_USUAL})")


def subjects(tree):
    """gdb, perf and grep tell by a function's name where it is."""
    for path, text in sources(tree, (".c",)).items():
        for m in re.finditer(r"^static [^\n;=]*\n([a-z0-9]+)\(", text, re.M):
            yield f"{path}: {m[1]}: a static function bears its file's subject: {os.path.basename(path)[:-2]}_{m[1]}"


def columns(tree):
    """Samples and drawings in comments, and rows of tables that are macros, may be wider."""
    drawn = re.compile(r"\s*\*(\t|  |.*[─│┌└►◄═{]|.*\S {3})|.*\\$|\s*(X|ROW|TEXT)\(|/\* [{-]")
    for path, text in code(tree).items():
        for n, line in enumerate(text.split("\n"), 1):
            if len(line.expandtabs(8)) > COLUMNS and not drawn.match(line):
                yield f"{path}:{n}: wider than {COLUMNS} columns"


def parameters(tree):
    for path, text in sources(tree).items():
        for n, name, _, count in functions(text):
            if count > PARAMETERS_MAX and not re.search(DICTATED, text.split("\n")[n - 1]):
                yield f"{path}:{n}: {name} takes {count} parameters, more than {PARAMETERS_MAX}"


def typedefs(tree):
    for path, text in code(tree).items():
        for m in re.finditer(r"^[ \t]*typedef\b([^;{]*)[;{]", text, re.M):
            if not re.search(r"\b\*?\w+_fn\)?\s*\(", m.group(1)):
                yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: typedef of what is no function type NAME_fn"


def header_prose(tree):
    for path, text in sources(tree, (".h",)).items():
        if not text.startswith("/*") or text[: text.find("*/")].count("\n") < 2:
            yield f"{path}: does not open with prose on what it is, who owns what, and on which loop"


def guards(tree):
    for path, text in sources(tree, (".h",)).items():
        want = "EDGEWAY_" + re.sub(r"\W", "_", path).upper()
        if f"#ifndef {want}\n#define {want}\n" not in text and "X-macro" not in text:
            yield f"{path}: wants the include guard {want}"


def machine_paths(tree):
    # written in pieces, so that this file passes
    bad = re.compile("/" + r"(work|farm|home)/\w|https?://" + r"(deb|registry|security)\.|docker" + r"\.io/")
    for path, text in tree.items():
        for n, line in enumerate(text.split("\n"), 1):
            if bad.search(line):
                yield f"{path}:{n}: path of a machine or host of a registry: {line.strip()[:80]}"


def leftovers(tree):
    bad = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b|mark\.(skip" + r"|xfail)\b")
    for path, text in tree.items():
        if path.endswith((".c", ".h", ".py", ".sh")):
            for n, line in enumerate(text.split("\n"), 1):
                if bad.search(line):
                    yield f"{path}:{n}: note to self, or a test switched off: {line.strip()[:80]}"


def log_parts(tree):
    """Whoever logs is in base/core/log.c's list, or its level could not be set."""
    known = re.search(r"\bparts\[\] = \{(.*?)NULL", tree.get("base/core/log.c", ""), re.S)
    names = set(re.findall(r'"(\w+)"', known.group(1))) if known else set()
    speaks = re.compile(r'\blog_(?:error|warn|info|debug)\(\s*"(\w+)"|\blog_limited\([^"]*?"(\w+)"|\blog_line\([^"]*?"(\w+)"')
    for path, text in sources(tree).items():
        for said in speaks.finditer(text):
            part = next(filter(None, said.groups()))
            if part not in names:
                line = text.count("\n", 0, said.start()) + 1
                yield f'{path}:{line}: "{part}" is not among the parts of base/core/log.c'


def automatic(tree):
    """A variable that cleans up after itself is begun before its block can be left, or the cleanup frees garbage."""
    declared = re.compile(r"^(\t+)((?:\w[\w \*]*)?\bauto_\w+\b[^;]*);", re.M)
    groups = re.compile(r"\([^()]*\)|\{[^{}]*\}")
    for path, text in code(tree).items():
        bare = re.sub(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
        for found in declared.finditer(bare):
            end = re.compile(rf"^\t{{0,{len(found.group(1)) - 1}}}\}}", re.M).search(bare, found.end())
            block = bare[found.end():end.start() if end else len(bare)]
            left = re.search(r"\b(?:return|continue|break|goto)\b", block)
            names = re.sub(r"\bauto_\w+\b", "", found.group(2))
            while groups.search(names):
                names = groups.sub("", names)
            for name in (re.search(r"(\w+)\s*$", n) for n in names.split(",") if left and "=" not in n):
                begun = name and re.search(rf"\b{name[1]}\s*=[^=]|(?<!= )&{name[1]}\b", block)
                if name and (not begun or begun.start() > block.find(";", left.end())):
                    line = text.count("\n", 0, found.start()) + 1
                    yield f"{path}:{line}: {name[1]} is cleaned up, but its block can be left before it is begun"


VERSIONED = {  # file -> what stands before each of its versions
    "deploy/helm/edgeway/Chart.yaml": r"^(?:appV|v)ersion: ", "deploy/kubernetes/kustomization.yaml": r"newTag: ",
    "deploy/Dockerfile": r"edgeway:|image\.version=\"", "deploy/debian/changelog": r"\Aedgeway \(",
    "NEWS": r"\AEdgeway ",
}


def versions(tree):
    """configure.ac says which version this is; who repeats it says the same."""
    own = re.search(r"AC_INIT\(\[edgeway\], \[([^]]+)\]", tree.get("configure.ac", ""))
    for path, before in VERSIONED.items():
        said = re.findall(rf"(?:{before})([0-9][0-9.]*[0-9])", tree.get(path, ""), re.M)
        if own and (not said or set(said) != {own[1]}):
            yield f"{path}: version {' and '.join(said) or 'missing'}, and configure.ac says {own[1]}"


def documents(tree):
    for name in ["README.md", "NEWS", "HACKING.md", "doc/protocol.md"]:
        if not tree.get(name, "").strip():
            yield f"{name} is missing or empty"
    for program in PROGRAMS:
        if not any(re.fullmatch(rf"doc/(\w+/)?{program}\.[18](\.in)?", p) for p in tree):
            yield f"doc/: no manual page of {program}"


def test_map(tree):
    """tests/map, for tests/run changed: every file has a row, every module of tests/net is named by one, and no name leads nowhere."""
    rows = [line.split() for line in tree.get("tests/map", "").splitlines() if line.strip() and not line.startswith("#")]
    modules = {m[1] for m in (re.fullmatch(r"tests/net/(?:\w+/)?test_(\w+)\.py", p) for p in tree) if m}
    stages = re.findall(r'Stage\("([\w-]+)"', tree.get("tests/runner/stages.py", ""))
    named = set()
    for begin, *words in rows:
        if not begin.startswith(".") and not any(p.startswith(begin) for p in tree):  # those are not in the tarball
            yield f"tests/map: {begin}: there is no such file"
        for word in words:
            if not word.startswith("net:"):
                if word not in stages:
                    yield f"tests/map: {begin}: tests/runner/stages.py has no stage {word}"
                continue
            found = fnmatch.filter(modules, word[4:])
            if not found:
                yield f"tests/map: {begin}: tests/net has no module of {word}"
            named.update(found if word != "net:*" else [])
    for module in sorted(modules - named):
        yield f"tests/map: no row names net:{module}"
    for path in tree if rows else []:
        if not any(path.startswith(row[0]) for row in rows):
            yield f"tests/map: no row for {path}"


def promises(tree):
    """doc/security.md's table of promises: the function and the test that each names are there."""
    for line in tree.get("doc/security.md", "").splitlines():
        for path, function in re.findall(r"`([\w/.-]+\.c):(\w+)`", line):
            if not re.search(rf"\b{function}\b", tree.get(path, "")):
                yield f"doc/security.md: {path} has no {function}"
        for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line):
            if f"def {test}(" not in tree.get(path, ""):
                yield f"doc/security.md: {path} has no {test}"


FOREIGN_FILES = {"uv.h", "curl.h", "sched.h", "sqlite3.h", "libwebsockets.h", "x.c", "x.h", "_private.h", "folder.h"}


def file_names(tree):
    """A file of the project that a comment or a document names is there, and doc/structure.md names each function where it is."""
    there = {path.rsplit("/", 1)[-1] for path in tree}
    for path, text in tree.items():
        if path.startswith("tests/") or not path.endswith((".c", ".h", ".md")):
            continue
        for prose in [text] if path.endswith(".md") else re.findall(r"/\*.*?\*/", text, re.DOTALL):
            for name in re.findall(r"(?<![\w./<-])(?:\w+/)*(\w+\.[ch])\b(?!\()", prose):
                if name not in there | FOREIGN_FILES and not re.search(rf"(linux|net|netinet|sys)/{name}", prose):
                    yield f"{path}: there is no {name}"
    for function, name in re.findall(r"`(\w+)` \((?:\w+/)*(\w+\.[ch])[,)]", tree.get("doc/structure.md", "")):
        if not any(path.endswith("/" + name) and re.search(rf"^{function}\(", text, re.MULTILINE) for path, text in tree.items()):
            yield f"doc/structure.md: {name} has no {function}"


def arguments(text, start):
    """How many arguments the call or prototype has whose opening bracket is at `start`; None: its end is not in the text, or it has "..."."""
    depth, n, quoted, at = 0, 1, "", start
    while at < len(text):
        c = text[at]
        if quoted:
            at += c == "\\"
            quoted = "" if c == quoted else quoted
        elif c in "\"'":
            quoted = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                inside = text[start + 1:at].strip()
                return None if "..." in inside else 0 if inside in ("", "void") else n
        elif c == "," and depth == 1:
            n += 1
        at += 1
    return None


def sample_calls(tree):
    """The calls that a header's first comment shows have as many arguments as the function."""
    headers = {path: text for path, text in sources(tree).items() if path.endswith(".h")}
    takes = {}
    for text in headers.values():
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for m in re.finditer(r"^\w[\w \t*]*?\b(\w+)\(", bare, re.MULTILINE):
            takes[m.group(1)] = arguments(bare, m.end() - 1)
    for path, text in headers.items():
        comment = text[:text.find("*/")]
        sample = "\n".join(re.sub(r"//.*", "", line[3:]) for line in comment.split("\n") if line.startswith(" *\t"))
        for m in re.finditer(r"\b(\w+)\(", sample):
            wanted, given = takes.get(m.group(1)), arguments(sample, m.end() - 1)
            if wanted is not None and given and wanted != given:  # f() alone is prose
                yield f"{path}: the sample call of {m.group(1)} has {given} arguments, not {wanted}"


def state_machines(tree):
    """A table of states (base/core/state.h) and doc/states/NAME.dot have the same steps."""
    drawn = {path: set(re.findall(r"^\t([\w ]+?) -> ([\w ]+?)(?: \[|;)", text, re.MULTILINE)) for path, text in tree.items() if path.endswith(".dot")}
    for path, text in tree.items():
        if not path.endswith(".c"):
            continue
        for machine, names, follow in re.findall(r'struct state_machine \w+ = \{"([\w-]+)", "\w+", (\w+), (\w+)\};', text):
            rows = [re.search(rf"\b{array}\[\] = \{{(.*?)\}};", text, re.DOTALL) for array in (names, follow)]
            said = dict(re.findall(r'\[(\w+)\] = "([\w ]+)"', rows[0].group(1) if rows[0] else ""))
            steps = {(said.get(at), said.get(to)) for at, tos in re.findall(r"\[(\w+)\] =\s([^,]*),", rows[1].group(1) if rows[1] else "")
                     for to in re.findall(r"STATE_TO\((\w+)\)", tos)}
            picture = drawn.pop(f"doc/states/{machine}.dot", None)
            if picture is None:
                yield f"{path}: there is no doc/states/{machine}.dot"
                continue
            for step in sorted(steps ^ picture, key=str):
                yield f"{path}: {step[0]} -> {step[1]} is {'not drawn' if step in steps else 'drawn, and not in the table'}"
    for path in drawn:
        yield f"{path}: no table of states has this name"


LONG = "static void\nf(void)\n{\n" + "\tg();\n" * 120 + "}\n"
MONITORING = "deploy/kubernetes/monitoring/"


def alert_rules(tree):
    """The PrometheusRule's spec is rules.yaml, two columns to the right."""
    plain, wrapped = (tree.get(MONITORING + name, "") for name in ("rules.yaml", "alerts.yaml"))
    wanted = "".join(f"  {line}\n" for line in plain.partition("groups:\n")[2].splitlines())
    if wrapped.partition("spec:\n  groups:\n")[2] != wanted:
        yield f"{MONITORING}alerts.yaml: below spec: it is not rules.yaml, two columns to the right"


RULES = {  # rule -> a tree that it must refuse
    alert_rules: {MONITORING + "rules.yaml": "groups:\n  - name: a\n", MONITORING + "alerts.yaml": "spec:\n  groups:\n    - name: b\n"},
    arrows: {"model/a.c": '#include "dns/dns.h"\n'},
    rooms: {"base/core/a.c": '#include "base/http/ws.h"\n'},
    doors: {"src/a.c": '#include "lb/proxy/pool.h"\n'},
    own_header_first: {"lb/a.h": "", "lb/a.c": '#include "base/core/buf.h"\n#include "lb/a.h"\n'},
    libraries: {"dns/front/server.c": "#include <uv.h>\n"},
    file_length: {"lb/a.c": "\n" * 801},
    function_length: {"lb/a.c": LONG},
    subjects: {"lb/a.c": "static int\nrun(void)\n{\n}\n"},
    columns: {"lb/a.c": "/* " + "a word " * 15 + "*/\n"},
    parameters: {"lb/a.c": "int\nf(int a, int b, int c, int (*d)(int, int),\n\tint e, int f, int g)\n{\n}\n"},
    typedefs: {"lb/a.h": "typedef struct a a_t;\n"},
    header_prose: {"lb/a.h": "#ifndef X\n"},
    guards: {"lb/a.h": "#ifndef A_H\n#define A_H\n"},
    machine_paths: {"doc/a.md": "see /wo" + "rk/main\n"},
    leftovers: {"lb/a.c": "/* TO" + "DO: all */\n"},
    log_parts: {"base/core/log.c": 'parts[] = {"dns", NULL};', "lb/a.c": 'log_limited(LOG_LEVEL_WARN, 5, "lb", "x");'},
    automatic: {"lb/a.c": "void\nf(int a)\n{\n\tauto_buf struct buf b;\n\n\tif (a)\n\t\treturn;\n\tbuf_init(&b, 0);\n}\n"},
    versions: {"configure.ac": "AC_INIT([edgeway], [0.2.0])", "deploy/helm/edgeway/Chart.yaml": "version: 0.2.0\nappVersion: 0.1.0\n"},
    documents: {"README.md": "x"},
    file_names: {"doc/structure.md": "`f` (b.c)", "lb/b.c": ""},
    sample_calls: {"lb/a.h": "/*\n * A.\n *\n *\tf(&a, (int[]){1, 2});\n */\nint f(int *a);\n"},
    state_machines: {"doc/states/door.dot": "digraph door {\n\topen -> shut;\n}\n",
                     "lb/a.c": 'static const char *const n[] = {\n\t[A] = "open",\n\t[B] = "shut",\n};\nstatic const uint32_t x[] = {\n\t[A] = 0,\n\t'
                               '[B] = STATE_TO(A),\n};\nstatic const struct state_machine m = {"door", "lb", n, x};\n'},
    promises: {"doc/security.md": "| x | `base/a.c:f` | `tests/net/test_a.py::test_b` |"},
    test_map: {"tests/map": "dns/ net:none\n", "tests/net/test_a.py": ""},
}
GOOD = {
    MONITORING + "rules.yaml": "groups:\n  - name: a\n", MONITORING + "alerts.yaml": "spec:\n  groups:\n    - name: a\n",
    "lb/a.h": "/*\n * What it is.\n * Who owns it.\n */\n#ifndef EDGEWAY_LB_A_H\n#define EDGEWAY_LB_A_H\n"
              "typedef void a_fn(void *arg);\n",
    "lb/a.c": '#include "lb/a.h"\n\n#include <errno.h>\n\n#include "base/core/buf.h"\n\nint\nf(int a)\n{\n\treturn a;\n}\n',
    "lb/b.c": "int\nf(int a)\n{\n\tauto_buf struct buf b, c = {0};\n\n\tbuf_init(&b, 0);\n\treturn a;\n}\n",
    "src/a.c": '#include "lb/lb.h"\n', "base/core/loop.c": "#include <uv.h>\n",
    "README.md": "x", "NEWS": "x", "HACKING.md": "x", "doc/protocol.md": "x",
    **{f"doc/{p}.8": "x" for p in PROGRAMS},
}


def read_tree(top):
    """Every text of the project; build folders and what git ignores are not in the folders named here."""
    tree = {}
    roots = FOLDERS + ["tests", "bench", "deploy", "doc", ".ci"]
    for root in roots:
        for folder, folders, files in os.walk(os.path.join(top, root)):
            folders[:] = [f for f in folders if f not in ("__pycache__", "corpus", ".deps", "build")]
            for name in files:
                path = os.path.join(folder, name)
                if os.path.islink(path) or os.path.getsize(path) > 1 << 20:
                    continue
                tree[os.path.relpath(path, top)] = path
    for name in os.listdir(top):
        if name in ("README.md", "NEWS", "HACKING.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "configure.ac", "Makefile.am", ".gitattributes",
                    ".clang-format", ".gitignore"):
            tree[name] = os.path.join(top, name)
    texts = {}
    for path, where in sorted(tree.items()):
        try:
            with open(where, encoding="utf-8") as f:
                texts[path] = f.read()
        except UnicodeDecodeError:
            pass  # objects of a build inside the tree, samples in bytes
    return texts


def main():
    top = os.environ.get("top_srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    tree = read_tree(top)
    failed = 0
    print(f"1..{2 * len(RULES)}")
    for i, (rule, bad) in enumerate(RULES.items()):
        can_fail = bool(list(rule(bad))) and not list(rule(GOOD))
        del diagnostics[:]
        print(f"{'ok' if can_fail else 'not ok'} {2 * i + 1} - {rule.__name__} refuses its bad sample and takes a good one")
        found = list(rule(tree))
        print(f"{'not ok' if found else 'ok'} {2 * i + 2} - {rule.__name__}")
        for complaint in found:
            print(f"# {complaint}")
        for remark in diagnostics:
            print(f"# remark: {remark}")
        failed += (not can_fail) + bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
