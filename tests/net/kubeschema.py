"""What Kubernetes' API says of its kinds: one of 2021 (1.22), by the types that its Python client (Debian's python3-kubernetes) has of a
kube-apiserver's OpenAPI, and one of today (kubetypes.py). What is deployed must be known to both.

    complaints(obj)     # ["spec.replicas: not int: two", "spec.template.spec.dnsPolicie: nobody knows it"]
"""
import re

from kubernetes import client

import kubetypes

SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": str}


def of(obj):
    """The type of an object, by apiVersion and kind; None: no such type."""
    version = obj["apiVersion"].rpartition("/")[2]
    return getattr(client, version[0].upper() + version[1:] + obj["kind"], None)


def complaints(obj):
    """Of both, each once; of the operator's kinds, which Kubernetes itself does not know, from its own types."""
    early = [] if obj["apiVersion"].startswith("monitoring.coreos.com/") else early_complaints(obj)
    return list(dict.fromkeys(early + kubetypes.complaints(obj)))


def early_complaints(obj):
    kind = of(obj)
    return walk(obj, kind.__name__, "") if kind else [f"{obj['apiVersion']} {obj['kind']}: nobody knows it"]


def walk(value, kind, path):
    inner = re.fullmatch(r"list\[(.*)\]|dict\(str, (.*)\)", kind)
    if kind == "object":  # a number or a string, or anything
        return []
    if kind in SCALARS:
        fine = isinstance(value, SCALARS[kind]) and (kind == "bool") == isinstance(value, bool)
        return [] if fine else [f"{path}: not {kind}: {value}"]
    if inner and inner[1]:
        return [c for i, v in enumerate(value) for c in walk(v, inner[1], f"{path}[{i}]")] if isinstance(value, list) else [f"{path}: no list"]
    if not isinstance(value, dict):
        return [f"{path}: no map"]
    if inner:
        return [c for k, v in value.items() for c in walk(v, inner[2], f"{path}.{k}")]
    return fields(value, getattr(client, kind), path)


def fields(value, kind, path):
    names = {name: attribute for attribute, name in kind.attribute_map.items()}
    found = [f"{path}.{k}: nobody knows it".lstrip(".") for k in value.keys() - names.keys()]
    for name in value.keys() & names.keys():
        found += walk(value[name], kind.openapi_types[names[name]], f"{path}.{name}".lstrip("."))
    try:
        kind(**{names[k]: v for k, v in value.items() if k in names})
    except ValueError as e:  # what is needed and missing
        found.append(f"{path}: " + re.sub("Invalid value for `(.*)`, must not be `None`", r"\1 is missing", str(e)))
    return found
