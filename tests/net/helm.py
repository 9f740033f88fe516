"""Helm itself, out of a package of the npm registry that carries it, fetched once for a build; $HELM names another.

    objects = template("--set", "host=hub.example.org")
    p = helm("lint", CHART)                     # a CompletedProcess; check=False lets it fail
"""
import functools
import os
import subprocess
import tempfile
import zipfile

import yaml

from lab import TOP
from npm import BUILD, unpacked

CHART = os.path.join(TOP, "deploy", "helm", "edgeway")
PACKAGE, ARCHIVE, MEMBER = "@aws-cdk/asset-kubectl-v20@2.1.4", "package/lib/layer.zip", "helm/helm"  # 3.8.1
SHA512 = "Ps2MkmjYgMyflagqQ4dgTElc7Vwpqj8spw8dQVFiSeaaMPsuDSNsPax3/HjuDuwqsmLdaCZc6umlxYLpL0kYDA=="


@functools.lru_cache()
def program():
    return os.environ.get("HELM") or from_npm()


def from_npm():
    folder = unpacked(PACKAGE, SHA512, ARCHIVE)
    path = os.path.join(folder, MEMBER)
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=folder) as made, zipfile.ZipFile(os.path.join(folder, ARCHIVE)) as layer:
            os.chmod(layer.extract(MEMBER, made), 0o755)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.rename(os.path.join(made, MEMBER), path)
    return path


def helm(*argv, check=True, **more):
    p = subprocess.run([program(), *argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, env={**os.environ, "GOGC": "off"}, **more)
    assert not check or p.returncode == 0, f"helm {' '.join(argv)}: {p.stderr}"
    return p


def text(*options, chart=CHART, values=None, namespace="edgeway"):
    """values: a map, over what options say."""
    if values is not None:
        options += ("--values", "-")
    return helm("template", "edgeway", chart, "--namespace", namespace, *options, input=yaml.safe_dump(values)).stdout


def template(*options, **more):
    return [o for o in yaml.load_all(text(*options, **more), yaml.CSafeLoader) if o]
