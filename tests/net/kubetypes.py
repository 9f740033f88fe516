"""What a Kubernetes of today (1.36) and the Prometheus operator say of their kinds, by the types in two packages of npm: those of
Kubernetes' own client for JavaScript, made of a kube-apiserver's OpenAPI, and those that are made of the operator's CRDs.

    complaints(obj)     # as kubeschema's: ["spec.replicas: not int: two", "spec.selecter: nobody knows it", "spec: template is missing"]
"""
import functools
import os
import re

from npm import unpacked

KUBERNETES = "@kubernetes/client-node@2.0.1", "evJgmEtgArEYlj6DNkMGjK41IrFK/hEwb5lWVxx0VRBWybQpnvi+2TtA19mLgVfRHfqX5yjHObX6e9W7LEZBjw=="
OPERATOR = "@kubernetes-models/prometheus-operator@6.0.0", "ySNW4T6U6Vn86bmcJ/emmAYJ/UrzpNvzxWexWJSALwgiO4FqCgL6WoqFsOReSiMhw/LlF+MljQvoiwD3RnaGmg=="
SCALARS = {"string": str, "number": (int, float), "int": int, "boolean": bool, "Date": str}
NAMES = {"string": "str", "number": "float", "int": "int", "boolean": "bool", "Date": "datetime"}
ANYTHING = {"any", "IntOrString", "Quantity"}  # a number or a string, or whatever
TOKEN = re.compile(r'"[^"]*"|\'[^\']*\'|\w+|\S')


def models():
    return os.path.join(unpacked(*KUBERNETES, "package/dist/gen/models/*s", "package/dist/gen/apis/*.d.ts"), "package", "dist", "gen")


def of(obj):
    """(file, name) of an object's type; None: no such type."""
    group, _, version = obj["apiVersion"].rpartition("/")
    if group == "monitoring.coreos.com":
        path = os.path.join(unpacked(*OPERATOR, f"package/{group}/*.d.ts"), "package", group, version, obj["kind"] + ".d.ts")
        return (path, "I" + obj["kind"]) if os.path.exists(path) else None
    parts = re.split(r"[.]", group.removesuffix(".k8s.io") or "core") + [version]
    api = os.path.join(models(), "apis", "".join(p[0].upper() + p[1:] for p in parts) + "Api.d.ts")
    if not os.path.exists(api):
        return None
    with open(api) as f:
        if not re.search(rf"\bcreate(Namespaced)?{obj['kind']}\(", f.read()):
            return None
    name = version[0].upper() + version[1:] + obj["kind"]
    return os.path.join(models(), "models", name + ".d.ts"), name


@functools.lru_cache(maxsize=None)
def text(path):
    with open(path) as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


@functools.lru_cache(maxsize=None)
def spelt(path):
    """{field: (its name in JSON, is it a whole number)} of Kubernetes' types, which TypeScript cannot say."""
    js = path.replace(".d.ts", ".js")
    if "models" not in js or not os.path.exists(js):
        return {}
    with open(js) as f:
        rows = re.findall(r'"name": "([^"]+)",\s+"baseName": "([^"]+)",\s+"type": "([^"]+)",\s+"format": "([^"]*)"', f.read())
    return {name: (base, kind == "number" and form.startswith("int")) for name, base, kind, form in rows}


def imported(path, name):
    """(file, name there) of a name that a file imports; external ones by Kubernetes' own name."""
    found = re.search(rf"import {{[^}}]*\b{name}\b[^}}]*}} from [\"']([^\"']+)[\"']", text(path))
    assert found, (path, name)
    if found[1].startswith("."):
        there = os.path.normpath(os.path.join(os.path.dirname(path), re.sub(r"[.]js$", ".d.ts", found[1])))
        alias = re.search(rf"\b(\w+) as {name}\b", text(there)) if os.path.exists(there) else None
        return there, alias[1] if alias else name
    kind = os.path.basename(found[1])
    return os.path.join(models(), "models", f"V1{kind}.d.ts"), f"V1{kind}"


@functools.lru_cache(maxsize=None)
def declared(path, name):
    """A map {field: (type, is it needed)}, or the type that the name stands for; types are lists of words."""
    alias = re.search(rf"export type {name} = ([^;]*);", text(path))
    if alias:
        return TOKEN.findall(alias[1])
    head = re.search(rf"export (?:declare class|interface) {name}(?: extends ([\w, ]+?))? {{", text(path))
    assert head, (path, name)
    made = {}
    for base in set((head[1] or "").split(", ")) - {"", "TypeMeta"}:
        made.update(declared(*imported(path, base)))
    return {**made, **fields(TOKEN.findall(text(path)[head.end():]), spelt(path))}


def fields(words, spelling):
    """Those of a body up to its closing brace: a quoted name, "?" where it may be missing, ":", and words up to ";"."""
    made, i = {}, 0
    while words[i] != "}":
        end, depth = i, 0
        while depth or words[end] != ";":
            depth += (words[end] in "{(<[") - (words[end] in "})>]")
            end += 1
        if words[i][0] in "\"'":
            needed = words[i + 1] != "?"
            name, whole = spelling.get(words[i][1:-1], (words[i][1:-1], False))
            made[name] = (["int"] if whole else words[i + (2 if needed else 3):end], needed)
        i = end + 1
    return made


def complaints(obj):
    kind = of(obj)
    return walk(obj, [kind[1]], kind[0], "") if kind else [f"{obj['apiVersion']} {obj['kind']}: nobody knows it"]


def walk(value, kind, path, place):
    if "|" in kind:
        words = [w for w in kind if w != "|"]
        return [] if any(walk(value, [w], path, place) == [] for w in words) else [f"{place}: none of {', '.join(words)}: {value}"]
    if kind[0] == "Array":
        if not isinstance(value, list):
            return [f"{place}: no list"]
        return [c for i, v in enumerate(value) for c in walk(v, kind[2:-1], path, f"{place}[{i}]")]
    if kind[0] == "{":  # { [key: string]: T; }
        if not isinstance(value, dict):
            return [f"{place}: no map"]
        return [c for k, v in value.items() for c in walk(v, kind[7:-2], path, f"{place}.{k}")]
    if kind[0][0] in "\"'":
        return [] if value == kind[0][1:-1] else [f"{place}: not {kind[0]}: {value}"]
    return scalar(value, kind[0], place) if kind[0] in SCALARS else named(value, kind[0], path, place)


def scalar(value, kind, place):
    fine = isinstance(value, SCALARS[kind]) and (kind == "boolean") == isinstance(value, bool)
    return [] if fine else [f"{place}: not {NAMES[kind]}: {value}"]


def named(value, name, path, place):
    if re.sub(r".*(IntOrString|Quantity)$", r"\1", name) in ANYTHING:
        return []
    if not re.search(rf"export (?:declare class|interface|type) {name}\b", text(path)):
        path, name = imported(path, name)
    known = declared(path, name)
    if isinstance(known, list):
        return walk(value, known, path, place)
    if not isinstance(value, dict):
        return [f"{place}: no map"]
    found = [f"{place}.{k}: nobody knows it".lstrip(".") for k in value.keys() - known.keys()]
    found += [f"{place}: {k} is missing" for k, (_, needed) in known.items() if needed and value.get(k) is None]
    for k in value.keys() & known.keys():
        found += walk(value[k], known[k][0], path, f"{place}.{k}".lstrip("."))
    return found
